/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A stored version for the reducer, which reads it through a view, slab by slab, so that memory for a few slabs is
 * enough however large the image is. Each thread has its own reader.
 */
#include "job/handle.h"

struct stored {
	struct kedge__lineage *lineage;
	struct kedge__image_region *regions;
	struct kedge__digest *digests;
	size_t count;
	struct kedge__lineage_reader **readers;
	int reader_count;
	pthread_mutex_t lock;
	struct kedge__error first; /* under lock: why bytes could not be had */
};

static void stored_done(struct stored *s)
{
	for (int i = 0; s->readers && i < s->reader_count; i++)
		kedge__lineage_reader_free(s->readers[i]);
	kedge__free(s->readers);
	kedge__free(s->regions);
	kedge__free(s->digests);
	kedge__error_done(&s->first);
	pthread_mutex_destroy(&s->lock);
}

/* Regions are nowhere in memory; an address is only there to count from. */
static int stored_init(struct stored *s, struct kedge__lineage *l, int threads, struct kedge__error *err)
{
	const struct kedge__segment *top = kedge__lineage_top(l);
	int rc = 0;

	*s = (struct stored){.lineage = l, .count = top->region_count, .first = KEDGE__ERROR_INIT};
	pthread_mutex_init(&s->lock, NULL);
	s->regions = kedge__calloc(s->count + 1, sizeof(*s->regions));
	s->digests = kedge__calloc(s->count + 1, sizeof(*s->digests));
	s->readers = kedge__calloc((size_t)threads, sizeof(struct kedge__lineage_reader *));
	if (!s->regions || !s->digests || !s->readers)
		return kedge__error_nomem(err);
	for (size_t i = 0; i < s->count; i++) {
		s->regions[i] = (struct kedge__image_region){(uint64_t)top->regions[i].slot * KEDGE__SLOT_BYTES,
							     (const void *)(uintptr_t)4096, top->regions[i].bytes};
		s->digests[i] = top->regions[i].digest;
	}
	for (; !rc && s->reader_count < threads; s->reader_count += !rc)
		rc = kedge__lineage_reader_new(l, &s->readers[s->reader_count], err);
	return rc;
}

static const void *stored_get(void *ctx, int worker, size_t region, uint64_t offset, void *buffer, size_t bytes,
			      bool all)
{
	struct stored *s = ctx;
	struct kedge__error err = KEDGE__ERROR_INIT;
	int rc = kedge__lineage_reader_read(s->readers[worker], s->regions[region].base + offset, buffer, bytes, &err);

	(void)all;
	if (rc) {
		pthread_mutex_lock(&s->lock);
		if (!s->first.code)
			kedge__error_move(&s->first, &err);
		pthread_mutex_unlock(&s->lock);
	}
	kedge__error_done(&err);
	return rc ? NULL : buffer;
}

/* It is in the store, and stays there. */
static bool stored_keep(void *ctx, int worker, size_t region, uint64_t offset, const void *data, size_t bytes)
{
	(void)ctx, (void)worker, (void)region, (void)offset, (void)data, (void)bytes;
	return true;
}

/* The reducer sums what it reads by the rule of today. */
static int digests_comparable(const struct kedge__segment *top, struct kedge__error *err)
{
	for (size_t i = 0; i < top->region_count; i++)
		if (top->regions[i].rule != KEDGE__SUM_PAGES)
			return kedge__error_set(err, KEDGE_E_STATE, 0,
						"it was written by an older Kedge, whose region digests are of another "
						"kind");
	return 0;
}

int kedge__prime_stored(kedge_t *k, struct kedge__lineage *l, const struct kedge__region_dirty *same,
			struct kedge__error *err)
{
	const struct kedge__segment *top = kedge__lineage_top(l);
	struct stored s;
	struct kedge__image_view view = {.get = stored_get, .keep = stored_keep, .ctx = &s};
	int rc = digests_comparable(top, err);

	if (rc)
		return rc;
	rc = stored_init(&s, l, kedge__pool_threads(k->pool), err);
	if (!rc) {
		struct kedge__image image = {s.regions, s.count};

		rc = kedge__reducer_prime_view(k->baseline.reducer, k->pool, top->header.version, &image, &view,
					       s.digests, same, err);
	}
	if (rc && s.first.code) { /* what the reducer says is only that it could not go on */
		rc = s.first.code;
		kedge__error_move(err, &s.first);
	}
	stored_done(&s);
	return rc;
}
