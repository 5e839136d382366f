/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * novelty.c: is an image new? Chunks from all over it are compared with the last version, at the same place and
 * anywhere, with the log, and with each other. It is the only way in which a version is found to be new before it is
 * read.
 */
#include "reduce/gpu.h"

#include <stdlib.h>

#define SAMPLES  2048 /* chunks */
#define FEW      16   /* that are taken first: mostly one of them is as it was */
#define MANY     4    /* chunks for each sample, below which an image is small */
#define REPEATED 16   /* of the samples: then duplicates may pay */
#define FILTER   ((size_t)KEDGE_SEARCH_BITS)
#define TASK     ((size_t)64)        /* slabs that a thread looks at, */
#define PASTS    (UINT64_C(1) << 16) /* or entries of the log */

struct sample {
	const struct kedge__reducer *r;
	struct kedge__pool *pool;
	const struct kedge__image *image;
	const struct kedge__image_view *view; /* NULL: bytes are at the addresses in the image */
	size_t region;                        /* where the next one is, or behind it */
	uint64_t before;                      /* chunks before that region */
	uint8_t *buffer;
	struct kedge__digest *digests; /* of those that are not constant, */
	size_t count;
	size_t same;                           /* of which so many are as they were */
	uint64_t *filter, *second;             /* a bit for each lower half, and one for each upper half */
	const struct kedge__last_region *last; /* that is searched */
	struct kedge__gpu_novelty *there;      /* the image is on a device, and chunks are picked there: */
	const uint8_t *picked;                 /* those from number `picked_from` of the sample on */
	uint64_t picked_from, picked_end;
	_Atomic size_t found;
};

static int digest_order(const void *a, const void *b)
{
	const struct kedge__digest *x = a, *y = b;

	if (x->hi != y->hi)
		return x->hi < y->hi ? -1 : 1;
	return x->lo < y->lo ? -1 : x->lo > y->lo;
}

/* ------------------------------------------------------------------ at the same place */

static bool was_the_same(const struct kedge__reducer *r, uint64_t base, uint64_t index, struct kedge__digest digest)
{
	const struct kedge__last_region *g = kedge__last_find(&r->last, base);

	return g && g->known && index < g->bytes / r->options.chunk &&
	       g->stale[index * r->options.chunk / KEDGE__SLAB_BYTES] == KEDGE__SLAB_KNOWN &&
	       kedge__digest_equal(g->digests[index], digest);
}

/* To the region of chunk NUMBER of all that are not cut short; numbers ascend. */
static void go_to(const struct sample *s, uint64_t number, size_t *region, uint64_t *before)
{
	uint32_t chunk = s->r->options.chunk;

	while (number - *before >= s->image->regions[*region].bytes / chunk)
		*before += s->image->regions[(*region)++].bytes / chunk;
}

/* Which chunk number I of the sample is. */
static uint64_t number_of(uint64_t i, uint64_t chunks)
{
	uint64_t first = i * chunks / SAMPLES, room = (i + 1) * chunks / SAMPLES - first;

	return first + kedge__spread(i) % room;
}

/* From number I of the sample on: few, then all that are left. */
static void pick(struct sample *s, uint64_t i, uint64_t chunks)
{
	kedge__gpu_address from[SAMPLES];
	uint64_t end = i ? SAMPLES : FEW, before = s->before;
	size_t region = s->region;

	if (!s->there || i < s->picked_end)
		return;
	for (uint64_t k = i; k < end; k++) {
		uint64_t number = number_of(k, chunks);

		go_to(s, number, &region, &before);
		from[k - i] = (uintptr_t)s->image->regions[region].data + (number - before) * s->r->options.chunk;
	}
	s->picked = kedge__gpu_pick(s->there, from, (size_t)(end - i));
	s->picked_from = i;
	s->picked_end = end;
}

static const void *chunk_get(const struct sample *s, uint64_t i, uint64_t offset)
{
	uint32_t chunk = s->r->options.chunk;

	if (s->there)
		return s->picked ? s->picked + (i - s->picked_from) * chunk : NULL;
	if (!s->view)
		return (const uint8_t *)s->image->regions[s->region].data + offset;
	return kedge__view_peek(s->view, s->region, offset, s->buffer, chunk);
}

/* Number I of the sample, which is chunk NUMBER. What cannot be read is missed by whoever needs it. */
static void sample_take(struct sample *s, uint64_t i, uint64_t number, bool follows)
{
	uint32_t chunk = s->r->options.chunk;
	struct kedge__digest *digest = &s->digests[s->count];
	uint64_t index;
	const void *data;

	go_to(s, number, &s->region, &s->before);
	index = number - s->before;
	data = chunk_get(s, i, index * chunk);
	if (!data || kedge__is_constant(data, chunk))
		return;
	kedge__digest_chunks(s->r->key, data, chunk, chunk, digest);
	kedge__digests_weaken(s->r, digest, 1);
	s->same += follows && was_the_same(s->r, s->image->regions[s->region].base, index, *digest);
	s->count++;
}

/* All of them, or until more than LIMIT are as they were. */
static void sample_fill(struct sample *s, uint64_t chunks, bool follows, size_t limit)
{
	for (uint64_t i = 0; i < SAMPLES && s->same <= limit; i++) {
		pick(s, i, chunks);
		sample_take(s, i, number_of(i, chunks), follows);
	}
}

/* ------------------------------------------------------------------ anywhere */

/* How many of the sample, which is sorted, are the same as another one. */
static size_t repeated(const struct sample *s)
{
	size_t count = 0;

	for (size_t i = 1; i < s->count; i++)
		count += kedge__digest_equal(s->digests[i], s->digests[i - 1]);
	return count;
}

static inline bool has_bit(const uint64_t *filter, uint64_t word)
{
	return filter[word % FILTER / 64] >> word % 64 & 1;
}

static void add_bit(uint64_t *filter, uint64_t word)
{
	filter[word % FILTER / 64] |= UINT64_C(1) << word % 64;
}

/* Most are not, and this is asked of every digest that there is. */
static inline bool is_sampled(const struct sample *s, const struct kedge__digest *d)
{
	return has_bit(s->filter, d->lo) && has_bit(s->second, d->hi) &&
	       bsearch(d, s->digests, s->count, sizeof(*d), digest_order);
}

static int search_slabs(void *ctx, size_t task, int worker)
{
	struct sample *s = ctx;
	const struct kedge__last_region *g = s->last;
	uint64_t slab = KEDGE__SLAB_BYTES / s->r->options.chunk, whole = g->bytes / s->r->options.chunk;
	size_t found = 0;

	(void)worker;
	for (uint64_t i = task * TASK; i < (task + 1) * TASK && i * slab < whole && s->found < REPEATED; i++)
		for (uint64_t k = i * slab; g->stale[i] == KEDGE__SLAB_KNOWN && k < KEDGE__MIN(whole, (i + 1) * slab);
		     k++)
			found += is_sampled(s, &g->digests[k]);
	s->found += found;
	return 0;
}

static int search_log(void *ctx, size_t task, int worker)
{
	struct sample *s = ctx;
	const struct kedge__log *log = &s->r->record.log;
	size_t found = 0;

	(void)worker;
	for (uint64_t i = task * PASTS; i < KEDGE__MIN((task + 1) * PASTS, log->count) && s->found < REPEATED; i++)
		found += log->at[i].to && is_sampled(s, &log->at[i].digest);
	s->found += found;
	return 0;
}

/* On the device, if it has them; false: it does not. */
static bool search_there(struct sample *s)
{
	size_t found = 0;
	bool done = s->there && kedge__gpu_search(s->r, s->there, s->digests, s->count, s->filter, &found);

	s->found += found;
	return done;
}

/* How many chunks of the last version, and entries of the log, are in the sample; no more than are of interest are
 * counted. */
static size_t elsewhere(struct sample *s)
{
	bool done;

	for (size_t i = 0; i < s->count; i++) {
		add_bit(s->filter, s->digests[i].lo);
		add_bit(s->second, s->digests[i].hi);
	}
	done = search_there(s);
	for (size_t i = 0; !done && i < s->r->last.regions.count; i++) {
		s->last = s->r->last.regions.at[i];
		if (s->last->known)
			kedge__pool_for(s->pool,
					kedge__chunks_of(kedge__chunks_of(s->last->bytes, KEDGE__SLAB_BYTES), TASK),
					search_slabs, s);
	}
	kedge__pool_for(s->pool, kedge__chunks_of(s->r->record.log.count, PASTS), search_log, s);
	return s->found;
}

/* ------------------------------------------------------------------ verdicts */

static bool sample_begin(struct sample *s, uint64_t *chunks)
{
	uint32_t chunk = s->r->options.chunk;

	*chunks = 0;
	for (size_t i = 0; i < s->image->count; i++)
		*chunks += s->image->regions[i].bytes / chunk;
	if (*chunks < MANY * SAMPLES)
		return false;
	s->buffer = kedge__malloc(chunk);
	s->digests = kedge__malloc(SAMPLES * sizeof(*s->digests));
	s->filter = kedge__calloc(2 * FILTER / 64, sizeof(*s->filter));
	s->second = s->filter ? s->filter + FILTER / 64 : NULL;
	return s->buffer && s->digests && s->filter;
}

static void sample_end(struct sample *s)
{
	kedge__free(s->buffer);
	kedge__free(s->digests);
	kedge__free(s->filter);
}

enum kedge__stream kedge__image_is_new(const struct kedge__reducer *r, struct kedge__pool *pool,
				       const struct kedge__image *image, const struct kedge__image_view *view,
				       bool follows)
{
	struct sample s = {.r = r, .pool = pool, .image = image, .view = view};
	uint64_t chunks;
	bool new = false;

	if (sample_begin(&s, &chunks)) {
		sample_fill(&s, chunks, follows, SAMPLES / 16);
		qsort(s.digests, s.count, sizeof(*s.digests), digest_order);
		new = s.count &&s.same <= s.count / 16 && repeated(&s) < REPEATED &&
		      (!follows || elsewhere(&s) < REPEATED);
	}
	sample_end(&s);
	if (!new)
		return KEDGE__STREAM_NONE;
	return s.count == SAMPLES ? KEDGE__STREAM_ALL : KEDGE__STREAM_SOME;
}

bool kedge__image_is_unknown(const struct kedge__reducer *r, struct kedge__pool *pool, const struct kedge__image *image,
			     const struct kedge__image_view *view)
{
	struct sample s = {.r = r, .pool = pool, .image = image, .view = view};
	uint64_t chunks;
	bool unknown = false;

	s.there = kedge__gpu_novelty_get(r, SAMPLES);
	if (sample_begin(&s, &chunks)) {
		sample_fill(&s, chunks, true, 0);
		qsort(s.digests, s.count, sizeof(*s.digests), digest_order);
		unknown = !s.same && s.count >= SAMPLES / 2 && !elsewhere(&s);
	}
	sample_end(&s);
	return unknown;
}
