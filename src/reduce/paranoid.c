/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * paranoid.c: bytes are compared where a digest says that they are equal. The last version is at hand as a shadow copy,
 * this version in memory; older ones are read from the store, if the caller can.
 */
#include "reduce/reducer.h"

#define STEP (KEDGE__SLAB_BYTES / 2) /* the scratch memory of a worker holds both sides of a comparison */

static const uint8_t *bytes_here(const struct kedge__txn *t, size_t region, uint64_t offset, uint64_t len,
				 uint8_t *buffer)
{
	if (!t->view)
		return (const uint8_t *)t->image->regions[region].data + offset;
	return t->view->get(t->view->ctx, 0, region, offset, buffer, len, false);
}

static const uint8_t *bytes_in_image(const struct kedge__txn *t, uint64_t src, uint64_t len, uint8_t *buffer)
{
	const struct kedge__image *image = t->image;
	uint64_t base = src & ~(KEDGE__SLOT_BYTES - 1), offset = src - base;
	size_t i;

	KEDGE__PARTITION_POINT(i, image->count, image->regions[i].base < base);
	if (i == image->count || image->regions[i].base != base || offset > image->regions[i].bytes ||
	    len > image->regions[i].bytes - offset)
		return NULL;
	return bytes_here(t, i, offset, len, buffer);
}

static const uint8_t *bytes_in_shadow(const struct kedge__last *last, uint64_t src, uint64_t len)
{
	uint64_t base = src & ~(KEDGE__SLOT_BYTES - 1), offset = src - base;
	const struct kedge__last_region *g = kedge__last_find(last, base);

	if (!g || !g->known || offset > g->bytes || len > g->bytes - offset)
		return NULL;
	for (uint64_t slab = offset / KEDGE__SLAB_BYTES; slab <= (offset + len - 1) / KEDGE__SLAB_BYTES; slab++)
		if (g->stale[slab])
			return NULL;
	return g->shadow + offset;
}

static const uint8_t *bytes_there(const struct kedge__reducer *r, uint32_t epoch, uint64_t src, uint64_t len,
				  uint8_t *buffer)
{
	const struct kedge__reducer_options *o = &r->options;
	uint64_t version = r->record.epochs.at[epoch].version;
	const uint8_t *shadow;

	if (epoch == r->record.epochs.current)
		return bytes_in_image(&r->txn, src, len, buffer);
	shadow = version == r->parent ? bytes_in_shadow(&r->last, src, len) : NULL;
	if (shadow)
		return shadow;
	return o->fetch && !o->fetch(o->fetch_ctx, version, src, buffer, len, NULL) ? buffer : NULL;
}

bool kedge__paranoid_equal(const struct kedge__reducer *r, size_t region, uint64_t offset, uint64_t len, uint32_t epoch,
			   uint64_t src)
{
	uint8_t *scratch = r->txn.workers[0].bytes;

	for (uint64_t at = 0; at < len; at += STEP) {
		uint64_t n = KEDGE__MIN(STEP, len - at);
		const uint8_t *here = bytes_here(&r->txn, region, offset + at, n, scratch);
		const uint8_t *there = bytes_there(r, epoch, src + at, n, scratch + STEP);

		if (!here || !there || memcmp(here, there, n) != 0)
			return false;
	}
	return true;
}

bool kedge__origin_is_right(const struct kedge__reducer *r, const struct kedge__slab *s, size_t k, kedge__origin o)
{
	uint64_t chunk = r->options.chunk;
	uint64_t index = s->first + (r->txn.workers[s->worker].changes.at[s->change_at + k] >> 1);
	struct kedge__place place = kedge__origin_place(r, o);

	return kedge__paranoid_equal(r, s->region, index * chunk,
				     kedge__item_len(kedge__slab_region(&r->txn, s), index, chunk),
				     kedge__place_epoch(r, &place), place.src);
}

/* Does chunk INDEX of the shadow belong to the last version, so that it may not be overwritten yet? */
static bool in_use(const struct kedge__last_region *g, uint64_t index, uint64_t chunk)
{
	return index < kedge__chunks_of(g->bytes, chunk) && !g->stale[index * chunk / KEDGE__SLAB_BYTES];
}

struct change {
	size_t region;
	uint64_t offset, len;
	uint8_t *shadow;
	bool used;
	uint64_t at; /* aside, if used */
};

/* Changed chunks in order, to the shadow, or aside those that cannot go there yet. *BYTES: how much that is. */
static bool for_each_change(struct kedge__reducer *r, bool (*copy)(struct kedge__reducer *r, const struct change *c),
			    uint64_t *bytes)
{
	struct kedge__txn *t = &r->txn;
	uint64_t chunk = r->options.chunk, at = 0;
	bool ok = true;

	for (size_t s = 0; ok && s < t->slabs.count; s++) {
		const struct kedge__slab *slab = &t->slabs.at[s];
		const struct kedge__image_region *region = kedge__slab_region(t, slab);
		struct kedge__last_region *g = t->regions[slab->region];

		for (size_t i = 0; ok && i < slab->count; i++) {
			unsigned change = t->workers[slab->worker].changes.at[slab->change_at + i];
			uint64_t index = slab->first + (change >> 1), len = kedge__item_len(region, index, chunk);
			struct change c = {
			    slab->region, index * chunk, len, g->shadow + index * chunk, in_use(g, index, chunk), at};

			ok = copy(r, &c);
			at += c.used ? len : 0;
		}
	}
	*bytes = at;
	return ok;
}

static bool count_only(struct kedge__reducer *r, const struct change *c)
{
	(void)r, (void)c;
	return true;
}

static bool copy_out(struct kedge__reducer *r, const struct change *c)
{
	const uint8_t *data = bytes_here(&r->txn, c->region, c->offset, c->len, r->txn.workers[0].bytes);

	if (data)
		memcpy(c->used ? r->txn.aside + c->at : c->shadow, data, c->len);
	return data;
}

/* From where they were kept: the application may have changed them since. */
static bool copy_back(struct kedge__reducer *r, const struct change *c)
{
	if (c->used)
		memcpy(c->shadow, r->txn.aside + c->at, c->len);
	return true;
}

int kedge__paranoid_keep(struct kedge__reducer *r, struct kedge__error *err)
{
	struct kedge__txn *t = &r->txn;
	uint64_t bytes;

	for_each_change(r, count_only, &t->aside_bytes);
	t->aside = kedge__map_alloc(t->aside_bytes);
	if (!t->aside)
		return kedge__error_nomem(err);
	if (!for_each_change(r, copy_out, &bytes))
		return kedge__error_set(err, KEDGE_E_STATE, 0, "the captured memory is no longer available");
	return 0;
}

void kedge__paranoid_commit(struct kedge__reducer *r)
{
	uint64_t bytes;

	for_each_change(r, copy_back, &bytes);
}
