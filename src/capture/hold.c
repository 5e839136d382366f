/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where the bytes of a held image are: a region is copied, all of it or its dirty stretches, or protected as a whole.
 * Pages of protected memory that a reduction has read are let go at once if they will not be stored; the others stay
 * protected until they are written. Only while the application writes to protected memory, what will be stored is kept
 * in blocks of the reserve instead, and its pages are let go, too, before the application comes to them.
 */
#include "capture/hold.h"

#include <stdlib.h>

/* Below it, copying costs less than a fault. */
#define PROTECT_MIN (UINT64_C(256) << 10)
/* Of a region: with less of it dirty, copying is faster than protecting. */
#define COPY_SHARE 8
/* Copied by one thread at a time. */
#define COPY_BYTES (UINT64_C(512) << 10)
/* Less is copied before other threads are awake. */
#define POOL_BYTES (UINT64_C(1) << 20)
/* More is out of the cache again before the writer reads it. */
#define CACHED_BYTES (UINT64_C(4) << 20)
#define RANGES_MAX   4096

/* ---- what is copied */

static bool stretch_add(struct kedge__hold *h, size_t region, uint64_t offset, uint64_t bytes)
{
	struct kedge__hold_stretch *last = h->stretches.count ? &h->stretches.at[h->stretches.count - 1] : NULL;
	struct kedge__hold_stretch s = {.region = region, .offset = offset, .bytes = bytes};

	if (last && last->region == region && last->offset + last->bytes >= offset) {
		last->bytes = KEDGE__MAX(last->offset + last->bytes, offset + bytes) - last->offset;
		return true;
	}
	return kedge__array_push(&h->stretches, s);
}

/* Dirty ranges, in whole grains. */
static bool stretches_add(struct kedge__hold *h, size_t region, const struct kedge__region_dirty *only, uint64_t grain)
{
	uint64_t bytes = h->image.regions[region].bytes;

	if (!only)
		return bytes == 0 || stretch_add(h, region, 0, bytes);
	for (size_t i = 0; i < only->count; i++) {
		uint64_t from = only->at[i].start / grain * grain;
		uint64_t to = KEDGE__MIN(bytes, (only->at[i].start + only->at[i].len + grain - 1) / grain * grain);

		if (from < to && !stretch_add(h, region, from, to - from))
			return false;
	}
	return true;
}

/* At most so much has to be copied. */
static uint64_t dirty_bytes(const struct kedge__region_dirty *only, uint64_t grain, uint64_t all)
{
	uint64_t sum = 0;

	for (size_t i = 0; only && i < only->count; i++)
		sum += (only->at[i].start % grain + only->at[i].len + grain - 1) / grain * grain;
	return only ? KEDGE__MIN(sum, all) : all;
}

/* ---- what is protected */

/* A quarter of what is allowed is for pages that the application writes first; the rest for copies and literals. */
static uint64_t copy_limit(const struct kedge__hold_options *o)
{
	return o->protect ? o->limit - o->limit / 4 : o->limit;
}

/* Memory that a second mapping, a file or a larger page stands behind is not for write protection. */
static bool is_fit(const struct kedge__image_region *r, struct kedge__mapping_list *mappings)
{
	uintptr_t begin = (uintptr_t)r->data;

	if (!mappings->count && kedge__mappings_load(mappings, NULL) != 0)
		return false;
	return kedge__mappings_backing(mappings, begin, begin + r->bytes) == KEDGE__BACKING_ANONYMOUS &&
	       kedge__mapping_page_size(begin) == kedge__page_size();
}

/* COPIED: bytes that are to be copied so far. */
static bool is_protected(const struct kedge__image_region *r, const struct kedge__hold_region *way,
			 const struct kedge__hold_options *o, uint64_t copied, struct kedge__mapping_list *mappings)
{
	uint64_t dirty = dirty_bytes(way->only, o->grain, r->bytes);
	bool fits = dirty <= copy_limit(o) && copied <= copy_limit(o) - dirty;

	return o->protect && !way->copied && r->bytes >= PROTECT_MIN && r->data &&
	       (dirty > r->bytes / COPY_SHARE || !fits) && is_fit(r, mappings);
}

/* Two regions may be of one memory, and a session has each page once: the second one is copied. So is what would be one
 * range too many. */
static bool is_taken(const struct kedge__hold *h, const struct kedge__image_region *r)
{
	if (h->range_count == RANGES_MAX)
		return true;
	for (size_t i = 0; i < h->range_count; i++) {
		const char *at = h->ranges[i].data, *data = r->data;

		if (at < data + r->bytes && data < at + h->ranges[i].bytes)
			return true;
	}
	return false;
}

static int plan(struct kedge__hold *h, const struct kedge__hold_region *ways, const struct kedge__hold_options *o,
		struct kedge__error *err)
{
	struct kedge__mapping_list mappings = {0};
	uint64_t copied = 0;
	bool ok = true;

	for (size_t i = 0; ok && i < h->image.count; i++) {
		const struct kedge__image_region *r = &h->image.regions[i];

		if (is_protected(r, &ways[i], o, copied, &mappings) && !is_taken(h, r)) {
			struct kedge__hold_stretch s = {i, 0, r->bytes, NULL, true, h->range_count};

			h->ranges[h->range_count++] = (struct kedge__cow_range){(void *)r->data, r->bytes};
			ok = kedge__array_push(&h->stretches, s);
			h->protected_bytes += r->bytes;
		} else {
			ok = stretches_add(h, i, ways[i].only, o->grain);
			copied += dirty_bytes(ways[i].only, o->grain, r->bytes);
		}
	}
	kedge__array_done(&mappings);
	return ok ? 0 : kedge__error_nomem(err);
}

/* ---- begin */

struct copy_job {
	struct kedge__hold *h;
	uint64_t bytes;
	KEDGE__ARRAY(struct kedge__hold_stretch) pieces; /* of at most COPY_BYTES */
};

static int copy_piece(void *ctx, size_t i, int worker)
{
	const struct copy_job *job = ctx;
	const struct kedge__hold_stretch *s = &job->pieces.at[i];
	struct kedge__hold *h = job->h;
	const struct kedge__image_region *r = &h->image.regions[s->region];
	struct kedge__error err = KEDGE__ERROR_INIT;
	int rc;

	(void)worker;
	if (job->bytes > CACHED_BYTES && !h->ways[s->region].file) {
		kedge__copy_past_cache(s->copy, (const uint8_t *)r->data + s->offset, s->bytes);
		return 0;
	}
	rc = kedge__region_read(r, &h->ways[s->region], s->offset, s->copy, s->bytes, &err);
	if (rc)
		kedge__hold_fail(h, &err);
	return rc;
}

static int copy_all(struct kedge__hold *h, struct kedge__pool *pool, struct kedge__error *err)
{
	struct copy_job job = {.h = h};
	bool ok = true;
	int rc = 0;

	for (size_t i = 0; ok && i < h->stretches.count; i++) {
		struct kedge__hold_stretch s = h->stretches.at[i];
		uint64_t left = s.copy ? s.bytes : 0;

		while (ok && left) {
			s.bytes = KEDGE__MIN(left, COPY_BYTES);
			ok = kedge__array_push(&job.pieces, s);
			job.bytes += s.bytes;
			s.offset += s.bytes;
			s.copy += s.bytes;
			left -= s.bytes;
		}
	}
	if (ok)
		rc = kedge__pool_for(job.bytes >= POOL_BYTES ? pool : NULL, job.pieces.count, copy_piece, &job);
	kedge__array_done(&job.pieces);
	if (rc)
		kedge__error_move(err, &h->failure);
	return ok ? rc : kedge__error_nomem(err);
}

static int memory_take(struct kedge__hold *h, const struct kedge__hold_options *o, struct kedge__error *err)
{
	uint64_t limit = h->range_count ? copy_limit(o) : o->limit;
	uint64_t copied = 0, most, blocks;
	uint8_t *at;

	for (size_t i = 0; i < h->stretches.count; i++) {
		if (!h->stretches.at[i].is_protected)
			copied += h->stretches.at[i].bytes;
	}
	if (copied > limit)
		return kedge__error_set(err, KEDGE_E_LIMIT, 0, "a copy of %llu bytes exceeds the limit of %llu",
					(unsigned long long)copied, (unsigned long long)limit);
	/* A worker may leave a slab's worth of each block unused, and the most of its last one. */
	most = h->protected_bytes + h->protected_bytes / 4 + (uint64_t)h->worker_count * KEDGE__HOLD_BLOCK;
	blocks = h->range_count ? KEDGE__MIN(most, limit - copied) / KEDGE__HOLD_BLOCK * KEDGE__HOLD_BLOCK : 0;
	at = kedge__reserve_get(o->reserve, KEDGE__MAX(copied + blocks, 1), copied);
	if (!at)
		return kedge__error_nomem(err);
	h->reserve = o->reserve;
	h->copied = copied;
	for (size_t i = 0; i < h->stretches.count; i++) {
		if (h->stretches.at[i].is_protected)
			continue;
		h->stretches.at[i].copy = at;
		at += h->stretches.at[i].bytes;
	}
	h->blocks = at;
	h->block_count = blocks / KEDGE__HOLD_BLOCK;
	return 0;
}

static int hold_new(const struct kedge__image *image, const struct kedge__hold_region *ways,
		    const struct kedge__hold_options *o, struct kedge__hold **out, struct kedge__error *err)
{
	struct kedge__hold *h = kedge__calloc(1, sizeof(*h));

	if (!h)
		return kedge__error_nomem(err);
	h->image = *image;
	h->ways = ways;
	pthread_mutex_init(&h->lock, NULL);
	h->again = o->again;
	h->worker_count = kedge__pool_threads(o->pool);
	h->workers = kedge__calloc((size_t)h->worker_count, sizeof(*h->workers));
	h->ranges = kedge__calloc(image->count + 1, sizeof(*h->ranges));
	*out = h;
	return h->workers && h->ranges ? 0 : kedge__error_nomem(err);
}

int kedge__hold_begin(const struct kedge__image *image, const struct kedge__hold_region *ways,
		      const struct kedge__hold_options *options, struct kedge__hold **out, struct kedge__error *err)
{
	struct kedge__cow_options session = {
	    .tracker = options->tracker, .pool = options->pool, .aside_bytes = KEDGE__MAX(options->limit / 4, 1)};
	struct kedge__hold *h = NULL;
	int rc = hold_new(image, ways, options, &h, err);

	if (!rc)
		rc = plan(h, ways, options, err);
	if (!rc)
		rc = memory_take(h, options, err);
	if (!rc)
		rc = copy_all(h, options->pool, err);
	if (!rc && h->range_count)
		rc = kedge__cow_begin(h->ranges, h->range_count, &session, &h->cow, err);
	if (rc) {
		(void)kedge__hold_end(h, NULL);
		return rc;
	}
	kedge__hold_view_init(h);
	*out = h;
	return 0;
}

/* ---- end */

bool kedge__hold_protects(const struct kedge__hold *h)
{
	return h && h->cow;
}

int kedge__hold_release(struct kedge__hold *h, struct kedge__error *err)
{
	int rc = kedge__cow_end(h->cow, NULL, err);

	h->cow = NULL;
	return rc;
}

int kedge__hold_end(struct kedge__hold *h, struct kedge__error *err)
{
	int rc;

	if (!h)
		return 0;
	rc = kedge__hold_release(h, h->failure.code ? NULL : err);
	if (h->failure.code) {
		rc = h->failure.code;
		kedge__error_move(err, &h->failure);
	}
	if (atomic_load(&h->next_block))
		kedge__reserve_return(h->reserve, h->copied);
	for (int i = 0; h->workers && i < h->worker_count; i++)
		kedge__array_done(&h->workers[i].runs);
	kedge__free(h->workers);
	kedge__free(h->ranges);
	kedge__array_done(&h->stretches);
	kedge__array_done(&h->pieces);
	kedge__error_done(&h->failure);
	pthread_mutex_destroy(&h->lock);
	kedge__free(h);
	return rc;
}
