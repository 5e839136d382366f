/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * emit.c: changed chunks, in the order of addresses, become extents; what lies between them is the same as in the
 * parent.
 *
 * A run of shifted duplicates is cut into the fewest copies: each chunk has one or two places it may be copied from,
 * the one that the record has for the chunk and the one of the largest known subtree over it. A copy goes on as long as
 * one place is common to all its chunks; taking the longest each time is the least number.
 */
#include "reduce/emit.h"

#include <stdlib.h>

#define RESERVE_MAX ((size_t)1 << 20) /* extents */

static int put(struct kedge__emitter *e, uint64_t addr, uint64_t len, enum kedge__extent_kind kind, uint64_t src,
	       uint64_t version, bool merge)
{
	struct kedge__extent x = {addr, len, src, version, kind};

	return kedge__extent_map_append(&e->out->map, x, merge, e->err);
}

static int put_parent(struct kedge__emitter *e, uint64_t from, uint64_t to)
{
	e->out->parent = e->r->parent;
	return put(e, e->region->base + from, to - from, KEDGE__EXTENT_PARENT, 0, 0, true);
}

static int put_literal(struct kedge__emitter *e, uint64_t offset, uint64_t len)
{
	struct kedge__literal_list *list = &e->out->literals;
	struct kedge__literal lit = {(const uint8_t *)e->region->data + offset, len, (uint32_t)e->region_index};
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
	struct kedge__origin o = run->origins[0];
	int rc = 0;

	if (run->count) {
		e->epoch_used[o.epoch] = true;
		e->out->duplicate_bytes += run->len;
		rc = put(e, run->addr, run->len, KEDGE__EXTENT_COPY, run->addr + o.delta,
			 kedge__record_version(&e->r->record, o.epoch), e->merge);
	}
	run->count = 0;
	return rc;
}

/* IT is item number ITEM. */
static int origins_of(struct kedge__emitter *e, const struct kedge__item *it, size_t item, uint64_t addr,
		      struct kedge__origin out[2])
{
	const struct kedge__root *root;

	out[0] = (struct kedge__origin){it->epoch, it->src - addr};
	while (e->root < e->t->roots.count && e->t->roots.at[e->root].item + e->t->roots.at[e->root].count <= item)
		e->root++;
	root = e->root < e->t->roots.count ? &e->t->roots.at[e->root] : NULL;
	if (!root || root->item > item)
		return 1;
	out[1].epoch = root->epoch;
	out[1].delta = root->src + (uint64_t)(item - root->item) * e->r->options.chunk - addr;
	return out[1].epoch == out[0].epoch && out[1].delta == out[0].delta ? 1 : 2;
}

/* Those of RUN that are also among the N; only then is RUN changed. */
static bool narrow(struct kedge__copy_run *run, const struct kedge__origin *origins, int n)
{
	struct kedge__origin common[2];
	int count = 0;

	for (int i = 0; i < run->count; i++)
		for (int k = 0; k < n; k++)
			if (run->origins[i].epoch == origins[k].epoch && run->origins[i].delta == origins[k].delta)
				common[count++] = run->origins[i];
	if (!count)
		return false;
	memcpy(run->origins, common, (size_t)count * sizeof(common[0]));
	run->count = count;
	return true;
}

static int put_copy(struct kedge__emitter *e, const struct kedge__item *it, size_t item, uint64_t addr, uint64_t len)
{
	struct kedge__copy_run *run = &e->run;
	struct kedge__origin origins[2];
	int n = origins_of(e, it, item, addr, origins), rc;

	if (e->merge && run->count && run->addr + run->len == addr && narrow(run, origins, n)) {
		run->len += len;
		return 0;
	}
	rc = flush_run(e);
	run->addr = addr;
	run->len = len;
	run->count = n;
	memcpy(run->origins, origins, sizeof(origins));
	return rc;
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

/* ITEM is number I. */
static int put_item(struct kedge__emitter *e, const struct kedge__item *item, size_t i, uint64_t offset, uint64_t len)
{
	uint64_t addr = e->region->base + offset;
	int rc;

	e->out->changed_bytes += len;
	if (item->kind == KEDGE__ITEM_SHIFT)
		return put_copy(e, item, i, addr, len);
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
	e->sum = (struct kedge__sum){0, 0};
}

/* The rest of the region is as it was, or all of it is one literal. */
static int region_end(struct kedge__emitter *e)
{
	uint64_t bytes = e->region->bytes;
	int rc = flush_run(e);

	e->out->region_digests[e->region_index] = kedge__sum_digest(e->sum, bytes);
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

/* All of slab S is one constant. */
static int put_flat(struct kedge__emitter *e, const struct kedge__slab *s)
{
	uint64_t offset = s->first * e->r->options.chunk;
	uint64_t len = KEDGE__MIN(KEDGE__SLAB_BYTES, e->region->bytes - offset);
	int rc = flush_run(e);

	if (!rc && offset > e->cursor)
		rc = put_parent(e, e->cursor, offset);
	e->cursor = offset + len;
	e->out->changed_bytes += len;
	e->out->fill_bytes += len;
	return rc ? rc : put(e, e->region->base + offset, len, KEDGE__EXTENT_FILL, s->pattern, 0, true);
}

/* All of slab S is stored. */
static int put_stream(struct kedge__emitter *e, const struct kedge__slab *s)
{
	uint64_t offset = s->first * e->r->options.chunk;
	uint64_t len = KEDGE__MIN(KEDGE__SLAB_BYTES, e->region->bytes - offset);
	int rc = flush_run(e);

	if (!rc && offset > e->cursor)
		rc = put_parent(e, e->cursor, offset);
	e->cursor = offset + len;
	e->out->changed_bytes += len;
	return rc ? rc : put_literal(e, offset, len);
}

int kedge__emitter_slab(struct kedge__emitter *e, size_t slab, const struct kedge__item *items, size_t n)
{
	const struct kedge__slab *s = &e->t->slabs.at[slab];
	uint64_t chunk = e->r->options.chunk;
	int rc = regions_until(e, s->region);

	e->sum = kedge__sum_add(e->sum, s->sum);
	if (!rc && s->flat && !e->full)
		return put_flat(e, s);
	if (!rc && s->stream && !e->full)
		return put_stream(e, s);
	for (size_t i = 0; !rc && !e->full && i < n; i++) {
		const struct kedge__item *item = &items[i];
		uint64_t unit = is_page(item) ? KEDGE__REX_PAGE : chunk;
		uint64_t offset = item->index * chunk / unit * unit, len = KEDGE__MIN(unit, e->region->bytes - offset);

		if (offset > e->cursor) {
			rc = flush_run(e);
			if (!rc)
				rc = put_parent(e, e->cursor, offset);
		}
		if (!rc)
			rc = is_page(item) ? put_page(e, item, offset, len)
					   : put_item(e, item, s->item_at + i, offset, len);
		e->cursor = offset + len;
	}
	return rc;
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
		if (e->epoch_used[i] && i != e->r->record.current)
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
	/* One step where the size is known; larger maps are mostly merged and grow as needed. */
	if (!kedge__array_reserve(&out->map, KEDGE__MIN(2 * t->items.count, RESERVE_MAX) + t->image->count))
		return kedge__error_nomem(err);
	out->region_digests = kedge__calloc(t->image->count + 1, sizeof(*out->region_digests));
	e->epoch_used = kedge__calloc(r->record.epochs.count + 1, sizeof(*e->epoch_used));
	return out->region_digests && e->epoch_used ? 0 : kedge__error_nomem(err);
}

int kedge__emitter_end(struct kedge__emitter *e)
{
	int rc = regions_until(e, e->t->image->count);

	return rc ? rc : emit_sources(e);
}

void kedge__emitter_done(struct kedge__emitter *e)
{
	kedge__free(e->epoch_used);
}
