/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * emit.c: changed chunks, in the order of addresses, become extents; what lies between them is the same as in the
 * parent.
 *
 * A run of shifted duplicates becomes few copies: a copy goes on as long as the next chunk is what follows at its
 * source. That is so if the record has the chunk there, or if the last version does and had it there in one of the
 * versions that the copy may come from.
 */
#include "reduce/emit.h"

#include <stdlib.h>

static int put(struct kedge__emitter *e, uint64_t addr, uint64_t len, enum kedge__extent_kind kind, uint64_t src,
	       uint64_t version, bool merge)
{
	struct kedge__extent x = {addr, len, src, version, kind};

	return kedge__extent_tape_append(&e->out->map, x, merge, e->err);
}

static int put_parent(struct kedge__emitter *e, uint64_t from, uint64_t to)
{
	e->out->parent = e->r->parent;
	return put(e, e->region->base + from, to - from, KEDGE__EXTENT_PARENT, 0, 0, true);
}

/* Chunks that are stored, with unchanged ones before them. */
static bool put_apart(struct kedge__emitter *e, uint64_t offset, uint64_t len)
{
	struct kedge__literal_list *list = &e->out->literals;

	if (e->run.len || list->count == list->room ||
	    !kedge__extent_tape_alternate(&e->out->map, e->region->base + e->cursor, offset - e->cursor, len,
					  e->out->literal_bytes))
		return false;
	list->at[list->count++] =
	    (struct kedge__literal){(const uint8_t *)e->region->data + offset, len, (uint32_t)e->region_index, 0};
	e->out->parent = e->r->parent;
	e->out->literal_bytes += len;
	e->out->changed_bytes += len;
	return true;
}

static int put_literal(struct kedge__emitter *e, uint64_t offset, uint64_t len)
{
	struct kedge__literal_list *list = &e->out->literals;
	struct kedge__literal lit = {(const uint8_t *)e->region->data + offset, len, (uint32_t)e->region_index, 0};
	struct kedge__literal *last = list->count ? &list->at[list->count - 1] : NULL;
	uint64_t position = e->out->literal_bytes;

	if (last && last->region == lit.region && (const uint8_t *)last->data + last->bytes == lit.data)
		last->bytes += len;
	else if (!kedge__array_push(list, lit))
		return kedge__error_nomem(e->err);
	e->out->literal_bytes += len;
	return put(e, e->region->base + offset, len, KEDGE__EXTENT_LITERAL, position, 0, e->merge);
}

/* ---- copies */

static int flush_run(struct kedge__emitter *e)
{
	struct kedge__copy_run *run = &e->run;
	uint32_t epoch = run->len ? kedge__place_epoch(e->r, &run->from) : 0;
	int rc = 0;

	if (run->len) {
		__atomic_store_n(&e->epoch_used[epoch], true, __ATOMIC_RELAXED); /* as other parts may do, too */
		e->out->duplicate_bytes += run->len;
		rc = put(e, run->addr, run->len, KEDGE__EXTENT_COPY, run->from.src,
			 e->r->record.epochs.at[epoch].version, e->merge);
	}
	run->len = 0;
	return rc;
}

/* What both have in common, if that may be referred to. */
static bool common(const struct kedge__emitter *e, const struct kedge__place *a, uint32_t from, uint32_t to,
		   struct kedge__place *out)
{
	struct kedge__place both = {a->src, KEDGE__MAX(a->from, from), KEDGE__MIN(a->to, to)};

	*out = both;
	return both.from <= both.to && kedge__place_epoch(e->r, &both);
}

/* Does the last version have DIGEST where the run's source goes on? */
static bool goes_on(const struct kedge__emitter *e, const struct kedge__digest *digest, struct kedge__place *out)
{
	const struct kedge__copy_run *run = &e->run;
	const struct kedge__reducer *r = e->r;
	uint64_t index;

	if (!digest || !run->region || run->from.from == r->record.epochs.current)
		return false;
	index = (run->from.src + run->len - run->region->base) / r->options.chunk;
	return kedge__last_is(r, run->region, index, *digest) &&
	       common(e, &run->from, kedge__last_since(r, run->region, index), r->record.parent, out);
}

/* LEN bytes at ADDR, which may be copied from PLACE, go on with the run, which comes from *OUT then. */
static bool continues(const struct kedge__emitter *e, const struct kedge__digest *digest, struct kedge__place place,
		      uint64_t addr, uint64_t len, struct kedge__place *out)
{
	const struct kedge__copy_run *run = &e->run;
	uint64_t next = run->from.src + run->len;

	if (!e->merge || !run->len || run->addr + run->len != addr || (next ^ run->from.src) >> KEDGE__SLOT_SHIFT)
		return false;
	if (place.src == next && common(e, &run->from, place.from, place.to, out))
		return true;
	return goes_on(e, digest, out) &&
	       (!e->r->options.paranoid || kedge__paranoid_equal(e->r, e->region_index, addr - e->region->base, len,
								 kedge__place_epoch(e->r, out), next));
}

/* LEN bytes that are at PLACE, too; DIGEST, if it is known, is that of the chunk. */
static int put_copy(struct kedge__emitter *e, const struct kedge__digest *digest, struct kedge__place place,
		    uint64_t addr, uint64_t len)
{
	struct kedge__copy_run *run = &e->run;
	struct kedge__place from;
	int rc;

	if (continues(e, digest, place, addr, len, &from)) {
		run->from = from;
		run->len += len;
		return 0;
	}
	rc = flush_run(e);
	*run = (struct kedge__copy_run){addr, len, place, NULL};
	if (digest && e->merge)
		run->region = kedge__last_find(&e->r->last, place.src & ~(KEDGE__SLOT_BYTES - 1));
	return rc;
}

static int put_found(struct kedge__emitter *e, const struct kedge__slab *s, const struct kedge__item *item,
		     uint64_t addr, uint64_t len)
{
	struct kedge__digest digest = kedge__change_digest(e->t, s, item->epoch);

	return put_copy(e, &digest, kedge__origin_place(e->r, (kedge__origin)item->src), addr, len);
}

/* ---- pages that are one extent */

static bool is_page(const struct kedge__item *item)
{
	return item->kind == KEDGE__ITEM_PAGE || item->kind == KEDGE__ITEM_PAGE_FILL;
}

/* All of the page at OFFSET; HEAD is its first item. */
static int put_page(struct kedge__emitter *e, const struct kedge__item *head, uint64_t offset, uint64_t len)
{
	int rc = flush_run(e);

	if (rc)
		return rc;
	e->out->changed_bytes += len;
	if (head->kind == KEDGE__ITEM_PAGE_FILL) {
		e->out->fill_bytes += len;
		return put(e, e->region->base + offset, len, KEDGE__EXTENT_FILL, head->src, 0, true);
	}
	return put_literal(e, offset, len);
}

/* ---- slabs and regions */

/* A literal once more. */
static int put_back(struct kedge__emitter *e, uint64_t addr, uint64_t len, uint64_t number)
{
	e->out->duplicate_bytes += len;
	return put(e, addr, len, KEDGE__EXTENT_LITERAL, kedge__rex_position(e->t, number, e->r->options.chunk), 0,
		   e->merge);
}

static int put_item(struct kedge__emitter *e, const struct kedge__slab *s, const struct kedge__item *item,
		    uint64_t offset, uint64_t len)
{
	uint64_t addr = e->region->base + offset;
	int rc;

	e->out->changed_bytes += len;
	if (item->kind == KEDGE__ITEM_FOUND)
		return put_found(e, s, item, addr, len);
	if (item->kind == KEDGE__ITEM_SHIFT)
		return put_copy(e, NULL, (struct kedge__place){item->src, item->epoch, item->epoch}, addr, len);
	rc = flush_run(e);
	if (rc)
		return rc;
	if (item->kind == KEDGE__ITEM_BACK)
		return put_back(e, addr, len, item->src);
	if (item->kind != KEDGE__ITEM_FILL)
		return put_literal(e, offset, len);
	e->out->fill_bytes += len;
	return put(e, addr, len, KEDGE__EXTENT_FILL, item->src, 0, true);
}

static void region_begin(struct kedge__emitter *e, size_t i)
{
	e->region_index = i;
	e->region = i < e->t->image->count ? &e->t->image->regions[i] : NULL;
	e->cursor = 0;
}

/* The rest of the region is as it was, or all of it is one literal. */
static int region_end(struct kedge__emitter *e)
{
	uint64_t bytes = e->region->bytes;
	int rc = flush_run(e);

	if (rc || e->cursor == bytes)
		return rc;
	if (!e->full)
		return put_parent(e, e->cursor, bytes);
	e->out->changed_bytes += bytes;
	return put_literal(e, 0, bytes);
}

static int regions_until(struct kedge__emitter *e, size_t i)
{
	int rc = 0;

	while (!rc && e->region_index < i) {
		rc = region_end(e);
		region_begin(e, e->region_index + 1);
	}
	return rc;
}

/* All of slab S: one constant, or stored. */
static int put_slab(struct kedge__emitter *e, const struct kedge__slab *s)
{
	uint64_t offset = s->first * e->r->options.chunk;
	uint64_t len = KEDGE__MIN(KEDGE__SLAB_BYTES, e->region->bytes - offset);
	int rc = flush_run(e);

	if (!rc && offset > e->cursor)
		rc = put_parent(e, e->cursor, offset);
	e->cursor = offset + len;
	e->out->changed_bytes += len;
	if (!rc && s->stream)
		return put_literal(e, offset, len);
	e->out->fill_bytes += len;
	return rc ? rc : put(e, e->region->base + offset, len, KEDGE__EXTENT_FILL, s->pattern, 0, true);
}

/* LEN bytes at OFFSET, and what is before them. */
static int put_next(struct kedge__emitter *e, const struct kedge__slab *s, const struct kedge__item *item,
		    uint64_t offset, uint64_t len)
{
	int rc = 0;

	if (offset > e->cursor) {
		rc = flush_run(e);
		if (!rc)
			rc = put_parent(e, e->cursor, offset);
	}
	if (rc)
		return rc;
	return is_page(item) ? put_page(e, item, offset, len) : put_item(e, s, item, offset, len);
}

int kedge__emitter_slab(struct kedge__emitter *e, size_t slab, const struct kedge__item *items, size_t n)
{
	const struct kedge__slab *s = &e->t->slabs.at[slab];
	uint64_t chunk = e->r->options.chunk;
	int rc = regions_until(e, s->region);

	if (!rc && (s->flat || s->stream) && !e->full)
		return put_slab(e, s);
	for (size_t i = 0; !rc && !e->full && i < n; i++) {
		const struct kedge__item *item = &items[i];
		uint64_t unit = is_page(item) ? KEDGE__REX_PAGE : chunk;
		uint64_t offset = item->index * chunk / unit * unit;
		uint64_t len = KEDGE__MIN(unit + item->more * chunk, e->region->bytes - offset);

		if (offset <= e->cursor || item->kind != KEDGE__ITEM_PLAIN || !put_apart(e, offset, len))
			rc = put_next(e, s, item, offset, len);
		e->cursor = offset + len;
	}
	return rc;
}

int kedge__emitter_until(struct kedge__emitter *e, size_t slab)
{
	const struct kedge__slab *s = &e->t->slabs.at[slab];
	int rc = regions_until(e, slab < e->t->slabs.count ? s->region : e->t->image->count);
	uint64_t offset = slab < e->t->slabs.count ? s->first * e->r->options.chunk : 0;

	if (!rc)
		rc = flush_run(e);
	if (!rc && e->cursor < offset)
		rc = put_parent(e, e->cursor, offset);
	e->cursor = offset;
	return rc;
}

void kedge__emitter_fork(const struct kedge__emitter *e, size_t slab, struct kedge__reduction *out,
			 struct kedge__emitter *part)
{
	*part = *e;
	part->out = out;
	part->err = NULL;
	part->run = (struct kedge__copy_run){0};
	region_begin(part, slab ? e->t->slabs.at[slab].region : 0); /* the first ones may have no slabs */
	part->cursor = e->t->slabs.at[slab].first * e->r->options.chunk;
}

static int version_order(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static int emit_sources(struct kedge__emitter *e)
{
	struct kedge__reduction *out = e->out;
	KEDGE__ARRAY(uint64_t) list = {0};
	bool ok = out->parent == KEDGE__NO_VERSION || kedge__array_push(&list, out->parent);
	size_t kept = 0;

	for (size_t i = 1; ok && i < e->r->record.epochs.count; i++)
		if (e->epoch_used[i] && i != e->r->record.epochs.current)
			ok = kedge__array_push(&list, e->r->record.epochs.at[i].version);
	if (!ok) {
		kedge__array_done(&list);
		return kedge__error_nomem(e->err);
	}
	if (list.count)
		qsort(list.at, list.count, sizeof(list.at[0]), version_order);
	for (size_t i = 0; i < list.count; i++)
		if (!i || list.at[i] != list.at[kept - 1])
			list.at[kept++] = list.at[i];
	out->sources = list.at;
	out->source_count = kept;
	return 0;
}

int kedge__emitter_begin(struct kedge__emitter *e, struct kedge__reducer *r, struct kedge__reduction *out,
			 struct kedge__error *err)
{
	const struct kedge__reducer_ops *ops = kedge__reducer_ops_of(r);
	struct kedge__txn *t = &r->txn;

	*e = (struct kedge__emitter){.r = r, .t = t, .out = out, .merge = ops->merge, .full = ops->full, .err = err};
	region_begin(e, 0);
	out->map.shift = (unsigned)__builtin_ctz(r->options.chunk);
	out->region_digests = kedge__calloc(t->image->count + 1, sizeof(*out->region_digests));
	e->epoch_used = kedge__calloc(r->record.epochs.count + 1, sizeof(*e->epoch_used));
	return out->region_digests && e->epoch_used ? 0 : kedge__error_nomem(err);
}

int kedge__emitter_end(struct kedge__emitter *e)
{
	int rc = kedge__emitter_until(e, e->t->slabs.count);

	kedge__region_digests(e->t, e->out->region_digests);
	return rc ? rc : emit_sources(e);
}

void kedge__emitter_done(struct kedge__emitter *e)
{
	kedge__free(e->epoch_used);
}
