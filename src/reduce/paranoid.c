/*
 * paranoid.c: bytes are compared where a digest says that they are equal. The last version is at hand as a shadow copy,
 * this version in memory; older ones are read from the store, if the caller can.
 */
#include "reduce/reducer.h"

#define FETCH_BYTES (UINT64_C(64) << 10)

static bool equal_in_image(const struct kedge__image *image, const uint8_t *data, uint64_t len, uint64_t src)
{
	uint64_t base = src & ~(KEDGE__SLOT_BYTES - 1), offset = src - base;
	size_t low = 0, high = image->count;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (image->regions[mid].base < base)
			low = mid + 1;
		else
			high = mid;
	}
	if (low == image->count || image->regions[low].base != base || offset > image->regions[low].bytes ||
	    len > image->regions[low].bytes - offset)
		return false;
	return !memcmp(data, (const uint8_t *)image->regions[low].data + offset, len);
}

static bool equal_in_shadow(const struct kedge__last *last, const uint8_t *data, uint64_t len, uint64_t src)
{
	uint64_t base = src & ~(KEDGE__SLOT_BYTES - 1), offset = src - base;
	const struct kedge__last_region *g = kedge__last_find(last, base);

	if (!g || !g->known || offset > g->bytes || len > g->bytes - offset)
		return false;
	for (uint64_t slab = offset / KEDGE__SLAB_BYTES; slab <= (offset + len - 1) / KEDGE__SLAB_BYTES; slab++)
		if (g->stale[slab])
			return false;
	return !memcmp(data, g->shadow + offset, len);
}

static bool equal_in_store(const struct kedge__reducer_options *o, const uint8_t *data, uint64_t len, uint64_t version,
			   uint64_t src)
{
	uint64_t step = KEDGE__MIN(len, FETCH_BYTES);
	uint8_t *buf = o->fetch ? kedge__malloc(step) : NULL;
	bool equal = buf;

	for (uint64_t at = 0; equal && at < len; at += step) {
		uint64_t n = KEDGE__MIN(step, len - at);

		equal = !o->fetch(o->fetch_ctx, version, src + at, buf, n, NULL) && !memcmp(buf, data + at, n);
	}
	kedge__free(buf);
	return equal;
}

bool kedge__paranoid_equal(const struct kedge__reducer *r, const uint8_t *data, uint64_t len, uint32_t epoch,
			   uint64_t src)
{
	uint64_t version = kedge__record_version(&r->record, epoch);

	if (epoch == r->record.current)
		return equal_in_image(r->txn.image, data, len, src);
	if (version == r->parent && equal_in_shadow(&r->last, data, len, src))
		return true;
	return equal_in_store(&r->options, data, len, version, src);
}

/* Does chunk INDEX of the shadow belong to the last version, so that it may not be overwritten yet? */
static bool in_use(const struct kedge__last_region *g, uint64_t index, uint64_t chunk)
{
	return index < kedge__chunks_of(g->bytes, chunk) && !g->stale[index * chunk / KEDGE__SLAB_BYTES];
}

/* Changed chunks in order: TO_SHADOW from where they are kept, or aside what cannot go there yet. */
static uint64_t for_each_change(struct kedge__reducer *r,
				void (*copy)(struct kedge__reducer *r, uint8_t *shadow, const uint8_t *data,
					     uint64_t len, bool used, uint64_t at))
{
	struct kedge__txn *t = &r->txn;
	uint64_t chunk = r->options.chunk, at = 0;

	for (size_t s = 0; s < t->slabs.count; s++) {
		const struct kedge__slab *slab = &t->slabs.at[s];
		const struct kedge__image_region *region = kedge__slab_region(t, slab);
		struct kedge__last_region *g = t->regions[slab->region];

		for (size_t i = slab->item_at; i < kedge__slab_end(t, s); i++) {
			uint64_t index = t->items.at[i].index, len = kedge__item_len(region, index, chunk);
			bool used = in_use(g, index, chunk);

			copy(r, g->shadow + index * chunk, (const uint8_t *)region->data + index * chunk, len, used,
			     at);
			at += used ? len : 0;
		}
	}
	return at;
}

static void count_only(struct kedge__reducer *r, uint8_t *shadow, const uint8_t *data, uint64_t len, bool used,
		       uint64_t at)
{
	(void)r, (void)shadow, (void)data, (void)len, (void)used, (void)at;
}

static void copy_out(struct kedge__reducer *r, uint8_t *shadow, const uint8_t *data, uint64_t len, bool used,
		     uint64_t at)
{
	memcpy(used ? r->txn.aside + at : shadow, data, len);
}

static void copy_back(struct kedge__reducer *r, uint8_t *shadow, const uint8_t *data, uint64_t len, bool used,
		      uint64_t at)
{
	(void)data; /* the application may have changed it since */
	if (used)
		memcpy(shadow, r->txn.aside + at, len);
}

int kedge__paranoid_keep(struct kedge__reducer *r, struct kedge__error *err)
{
	struct kedge__txn *t = &r->txn;

	t->aside_bytes = for_each_change(r, count_only);
	t->aside = kedge__map_alloc(t->aside_bytes);
	if (!t->aside)
		return kedge__error_nomem(err);
	for_each_change(r, copy_out);
	return 0;
}

void kedge__paranoid_commit(struct kedge__reducer *r)
{
	for_each_change(r, copy_back);
}
