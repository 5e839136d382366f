/* SPDX-License-Identifier: BSD-3-Clause */
/* batch.c: a wave of probes, dealt out by blocks of the finder. */
#include "reduce/reducer.h"

#define BLOCK ((size_t)8192) /* probes that are dealt out by one thread; independent of the number of threads */
#define PARTS ((size_t)256)  /* at most; what is looked up does not depend on them */
#define SHARE 4              /* parts for each thread */
#define AHEAD 16             /* probes whose buckets are on their way from memory */

struct deal {
	struct kedge__batch *b;
	struct kedge__finder *x;
	size_t parts, blocks;
	kedge__probe_fn fn;
	void *ctx;
	uint32_t begin[PARTS + 1];
};

int kedge__batch_begin(struct kedge__batch *b, uint64_t expected, struct kedge__error *err)
{
	size_t room = (size_t)KEDGE__MIN(expected, (uint64_t)KEDGE__WAVE) + 1;

	b->count = 0;
	b->hits = 0;
	if (room <= b->room)
		return 0;
	kedge__batch_done(b);
	b->room = room;
	b->blocks = (room + BLOCK - 1) / BLOCK;
	b->probes = kedge__large_alloc(room * sizeof(*b->probes));
	b->order = kedge__large_alloc(room * sizeof(*b->order));
	b->counts = kedge__large_alloc(b->blocks * PARTS * sizeof(*b->counts));
	if (b->probes && b->order && b->counts)
		return 0;
	kedge__batch_done(b);
	return kedge__error_nomem(err);
}

void kedge__batch_done(struct kedge__batch *b)
{
	kedge__large_free(b->probes, b->room * sizeof(*b->probes));
	kedge__large_free(b->order, b->room * sizeof(*b->order));
	kedge__large_free(b->counts, b->blocks * PARTS * sizeof(*b->counts));
	*b = (struct kedge__batch){0};
}

void kedge__batch_gather(struct kedge__batch *b, size_t at, size_t n)
{
	if (b->count < at)
		memmove(b->probes + b->count, b->probes + at, n * sizeof(*b->probes));
	b->count += n;
}

/* Blocks of the finder belong to parts in their order. */
static size_t part_of(const struct deal *d, struct kedge__digest digest)
{
	return (size_t)(kedge__finder_block(d->x, kedge__digest_mix(digest)) * d->parts / d->x->blocks);
}

static int count_block(void *ctx, size_t block, int worker)
{
	struct deal *d = ctx;
	uint32_t *counts = d->b->counts + block * d->parts;
	size_t end = KEDGE__MIN((block + 1) * BLOCK, d->b->count);

	(void)worker;
	memset(counts, 0, d->parts * sizeof(*counts));
	for (size_t i = block * BLOCK; i < end; i++)
		counts[part_of(d, d->b->probes[i].digest)]++;
	return 0;
}

static void place_blocks(struct deal *d)
{
	uint32_t at = 0;

	for (size_t part = 0; part < d->parts; part++) {
		d->begin[part] = at;
		for (size_t block = 0; block < d->blocks; block++) {
			uint32_t *c = &d->b->counts[block * d->parts + part], n = *c;

			*c = at;
			at += n;
		}
	}
	d->begin[d->parts] = at;
}

static int deal_block(void *ctx, size_t block, int worker)
{
	struct deal *d = ctx;
	uint32_t *next = d->b->counts + block * d->parts;
	size_t end = KEDGE__MIN((block + 1) * BLOCK, d->b->count);

	(void)worker;
	for (size_t i = block * BLOCK; i < end; i++)
		d->b->order[next[part_of(d, d->b->probes[i].digest)]++] = (uint32_t)i;
	return 0;
}

static void take_tally(const struct deal *d, const struct kedge__tally *tally)
{
	if (tally->entered)
		atomic_fetch_add(&d->x->used, (uint64_t)tally->entered);
	if (tally->hits)
		atomic_fetch_add(&d->b->hits, tally->hits);
}

static int run_part(void *ctx, size_t part, int worker)
{
	struct deal *d = ctx;
	struct kedge__spot spots[AHEAD];
	struct kedge__tally tally = {0};
	const uint32_t *order = d->b->order;
	size_t begin = d->begin[part], end = d->begin[part + 1], ready = begin;

	(void)worker;
	for (size_t i = begin; i < end; i++) {
		for (; ready < end && ready < i + AHEAD; ready++) {
			struct kedge__spot *s = &spots[ready % AHEAD];

			*s = kedge__finder_spot(d->x, kedge__digest_mix(d->b->probes[order[ready]].digest));
			kedge__spot_fetch(s);
		}
		d->fn(d->ctx, &d->b->probes[order[i]], &spots[i % AHEAD], &tally);
	}
	take_tally(d, &tally);
	return 0;
}

/* In the order in which they came. */
static void run_all(const struct deal *d)
{
	struct kedge__spot spots[AHEAD];
	struct kedge__tally tally = {0};
	size_t n = d->b->count, ready = 0;

	for (size_t i = 0; i < n; i++) {
		for (; ready < n && ready < i + AHEAD; ready++) {
			struct kedge__spot *s = &spots[ready % AHEAD];

			*s = kedge__finder_spot(d->x, kedge__digest_mix(d->b->probes[ready].digest));
			kedge__spot_fetch(s);
		}
		d->fn(d->ctx, &d->b->probes[i], &spots[i % AHEAD], &tally);
	}
	take_tally(d, &tally);
}

void kedge__batch_run(struct kedge__batch *b, struct kedge__pool *pool, struct kedge__finder *x, kedge__probe_fn fn,
		      void *ctx)
{
	struct deal d = {
	    .b = b,
	    .x = x,
	    .parts = KEDGE__MIN((size_t)x->blocks, KEDGE__MIN(PARTS, SHARE * (size_t)kedge__pool_threads(pool))),
	    .blocks = (b->count + BLOCK - 1) / BLOCK,
	    .fn = fn,
	    .ctx = ctx};

	if (d.blocks <= 1 || d.parts <= 1 || kedge__pool_threads(pool) == 1) {
		run_all(&d);
	} else {
		kedge__pool_for(pool, d.blocks, count_block, &d);
		place_blocks(&d);
		kedge__pool_for(pool, d.blocks, deal_block, &d);
		kedge__pool_for(pool, d.parts, run_part, &d);
	}
	b->count = 0;
}
