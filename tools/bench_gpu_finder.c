/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kedge bench gpu: the finder of a reducer on a GPU: made of all chunks of a state, and changed chunks looked up in it.
 * What counts are the bytes of the state.
 */
#include "bench_gpu.h"

#define CHUNK  UINT64_C(128)
#define SLAB   (UINT64_C(262144) / CHUNK) /* chunks */
#define WAVE   (UINT64_C(1) << 20)
#define PIECE  (UINT64_C(4) << 20) /* digests that are sent at once */
#define PLACES 12                  /* of a bucket */

struct finder_bench {
	struct kedge__gpu *gpu;
	uint64_t chunks, slabs, changes;
	struct kedge_finder_args a;
	kedge__gpu_address digests, ages, buckets, wave, fresh, list, origins, all_slabs, change_slabs, small;
	uint64_t bucket_bytes, wave_bytes;
	struct kedge_finder_slab *table; /* of a slab: as in the one that was sent last */
};

/* The column, epochs, states of slabs, totals. */
struct small {
	struct kedge_column column;
	unsigned newest[2];
	unsigned long long totals[2];
};

static uint64_t seed = 1;

static int random_send(struct finder_bench *b, kedge__gpu_address to, uint64_t digests, struct kedge__error *err)
{
	uint64_t room = KEDGE__MIN(digests, PIECE), *piece = kedge__malloc(room * 16);
	int rc = piece ? 0 : kedge__error_nomem(err);

	for (uint64_t at = 0; at < digests && !rc; at += room) {
		uint64_t n = KEDGE__MIN(room, digests - at);

		for (uint64_t i = 0; i < 2 * n; i++)
			piece[i] = kedge__bench_random(&seed);
		rc = kedge__gpu_copy_in(b->gpu, KEDGE__GPU_WORK, to + at * 16, piece, (size_t)n * 16, err);
		if (!rc)
			rc = kedge__gpu_finish(b->gpu, err);
	}
	kedge__free(piece);
	return rc;
}

/* All chunks of each slab. */
static int slabs_send(struct finder_bench *b, struct kedge__error *err)
{
	for (uint64_t i = 0; i < b->slabs; i++)
		b->table[i] = (struct kedge_finder_slab){.place = i * SLAB,
							 .item_at = KEDGE_ALL_CHUNKS,
							 .count = (unsigned)KEDGE__MIN(SLAB, b->chunks - i * SLAB),
							 .number = (unsigned)(i * SLAB),
							 .at = (unsigned)(i * SLAB)};
	return kedge__gpu_copy_in(b->gpu, KEDGE__GPU_WORK, b->all_slabs, b->table, b->slabs * sizeof(*b->table), err);
}

/* One chunk in EVERY has changed, at no regular distance. */
static int changes_send(struct finder_bench *b, uint64_t every, struct kedge__error *err)
{
	uint16_t *list = kedge__malloc((b->chunks / every + b->slabs + 1) * sizeof(*list));
	uint64_t n = 0;
	int rc = list ? 0 : kedge__error_nomem(err);

	for (uint64_t i = 0; i < b->slabs && !rc; i++) {
		uint64_t count = KEDGE__MIN(SLAB, b->chunks - i * SLAB), first = n;

		for (uint64_t k = kedge__bench_random(&seed) % every; k + every <= count; k += every)
			list[n++] = (uint16_t)((k + kedge__bench_random(&seed) % every / 2) << 1);
		b->table[i] = (struct kedge_finder_slab){.place = i * SLAB,
							 .item_at = (unsigned)first,
							 .count = (unsigned)(n - first),
							 .apart = (unsigned)(n - first),
							 .number = (unsigned)(i * SLAB),
							 .at = (unsigned)first};
	}
	b->changes = n;
	if (!rc)
		rc = kedge__gpu_copy_in(b->gpu, KEDGE__GPU_WORK, b->list, list, n * sizeof(*list), err);
	if (!rc)
		rc = kedge__gpu_copy_in(b->gpu, KEDGE__GPU_WORK, b->change_slabs, b->table,
					b->slabs * sizeof(*b->table), err);
	if (!rc)
		rc = kedge__gpu_finish(b->gpu, err);
	kedge__free(list);
	return rc;
}

/* N probes of all slabs, wave by wave. */
static int waves_run(struct finder_bench *b, uint64_t n, const char *kernel, const char *follow,
		     struct kedge__error *err)
{
	struct kedge_finder_args a = b->a;
	int rc = 0;

	for (uint64_t i = 0; i < b->slabs && !rc;) {
		uint64_t next = 0;

		a.slab_begin = (unsigned)i;
		a.base = b->table[i].at;
		for (; i < b->slabs; i++) {
			uint64_t end = i + 1 < b->slabs ? b->table[i + 1].at : n;

			if (end - a.base > WAVE)
				break;
			next = end;
		}
		a.slab_end = (unsigned)i;
		a.count = (unsigned)(next - a.base);
		rc = kedge__gpu_finder_slabs(b->gpu, "kedge_finder_probes", &a, err);
		if (!rc)
			rc = kedge__gpu_finder_run(b->gpu, kernel, follow, &a, err);
	}
	return rc;
}

static int build(void *ctx, struct kedge__error *err)
{
	struct finder_bench *b = ctx;
	int rc = kedge__gpu_clear(b->gpu, KEDGE__GPU_WORK, b->buckets, b->bucket_bytes, err);

	b->a.slabs = b->all_slabs;
	return rc ? rc : waves_run(b, b->chunks, "kedge_finder_enter", NULL, err);
}

static int find(void *ctx, struct kedge__error *err)
{
	struct finder_bench *b = ctx;
	int rc = kedge__gpu_clear(b->gpu, KEDGE__GPU_WORK, b->origins, b->changes * 4, err);

	b->a.slabs = b->change_slabs;
	return rc ? rc : waves_run(b, b->changes, "kedge_finder_find", "kedge_finder_follow", err);
}

static int take_out(void *ctx, struct kedge__error *err)
{
	struct finder_bench *b = ctx;
	struct kedge_finder_args a = b->a;

	a.slabs = b->change_slabs;
	a.slab_begin = 0;
	a.slab_end = (unsigned)b->slabs;
	return kedge__gpu_finder_slabs(b->gpu, "kedge_finder_take_out", &a, err);
}

static int find_and_take_out(void *ctx, struct kedge__error *err)
{
	int rc = find(ctx, err);

	return rc ? rc : take_out(ctx, err);
}

/* Found at the first of the two, and so many entries more. */
static int totals_check(struct finder_bench *b, uint64_t hits, uint64_t entered, const char *what,
			struct kedge__error *err)
{
	unsigned long long totals[2] = {0, 0};
	kedge__gpu_address at = b->a.totals;
	int rc = kedge__gpu_copy_out(b->gpu, KEDGE__GPU_WORK, totals, at, sizeof(totals), err);

	if (!rc)
		rc = kedge__gpu_finish(b->gpu, err);
	if (!rc)
		rc = kedge__gpu_clear(b->gpu, KEDGE__GPU_WORK, at, sizeof(totals), err);
	if (!rc && (totals[0] != hits || totals[1] != entered))
		rc =
		    kedge__error_set(err, KEDGE_E_DAMAGED, 0, "%s: %llu found and %llu entered, not %llu and %llu",
				     what, totals[0], totals[1], (unsigned long long)hits, (unsigned long long)entered);
	return rc;
}

static int rows_take(struct finder_bench *b, struct kedge__bench_gpu_rows *rows, struct kedge__error *err)
{
	static const struct {
		uint64_t every;
		const char *new, *known;
	} shares[] = {{100, "finder: 1 % looked up, new, taken out again", "finder: 1 % looked up, found"},
		      {10, "finder: 10 % looked up, new, taken out again", "finder: 10 % looked up, found"}};
	double bytes = (double)(b->chunks * CHUNK);
	int rc = build(b, err);

	if (!rc)
		rc = totals_check(b, 0, b->chunks, "made", err);
	if (!rc)
		rc = kedge__bench_gpu_take(rows, "finder: made of all chunks of 128 bytes", bytes, build, b, err);
	for (size_t i = 0; i < KEDGE__COUNT(shares) && !rc; i++) {
		rc = changes_send(b, shares[i].every, err);
		b->a.fresh = b->fresh;
		if (!rc)
			rc = kedge__bench_gpu_take(rows, shares[i].new, bytes, find_and_take_out, b, err);
		b->a.fresh = b->digests + b->chunks / 2 * 16; /* those of other chunks */
		if (!rc)
			rc = kedge__gpu_clear(b->gpu, KEDGE__GPU_WORK, b->a.totals, 16, err);
		if (!rc)
			rc = find(b, err);
		if (!rc)
			rc = totals_check(b, b->changes, 0, "found", err);
		if (!rc)
			rc = kedge__bench_gpu_take(rows, shares[i].known, bytes, find, b, err);
	}
	return rc;
}

/* ------------------------------------------------------------------ memory */

struct room {
	kedge__gpu_address *at;
	uint64_t bytes;
};

#define ROOMS 10

static void rooms_of(struct finder_bench *b, struct room *rooms)
{
	const struct room all[ROOMS] = {
	    {&b->digests, b->chunks * 16},
	    {&b->ages, b->chunks},
	    {&b->buckets, b->bucket_bytes},
	    {&b->wave, b->wave_bytes},
	    {&b->fresh, (b->chunks / 10 + b->slabs) * 16},
	    {&b->list, (b->chunks / 10 + b->slabs) * 2},
	    {&b->origins, (b->chunks / 10 + b->slabs) * 4},
	    {&b->all_slabs, b->slabs * sizeof(struct kedge_finder_slab)},
	    {&b->change_slabs, b->slabs * sizeof(struct kedge_finder_slab)},
	    {&b->small, sizeof(struct small) + b->slabs},
	};

	memcpy(rooms, all, sizeof(all));
}

static int rooms_take(struct finder_bench *b, struct kedge__error *err)
{
	struct room rooms[ROOMS];
	int rc = 0;

	rooms_of(b, rooms);
	for (size_t i = 0; i < ROOMS && !rc; i++)
		rc = kedge__gpu_alloc(b->gpu, rooms[i].bytes, rooms[i].at, err);
	return rc;
}

static void rooms_give_back(struct finder_bench *b)
{
	struct room rooms[ROOMS];

	rooms_of(b, rooms);
	for (size_t i = 0; i < ROOMS; i++)
		kedge__gpu_release(b->gpu, *rooms[i].at, rooms[i].bytes);
}

/* One region, all of which has numbers, and of which version 1 has all. */
static int small_send(struct finder_bench *b, struct kedge__error *err)
{
	struct small s = {
	    .column = {.count = (unsigned)b->chunks, .chunks = (unsigned)b->chunks, .next = (unsigned)b->chunks},
	    .newest = {0, 1}};
	int rc = kedge__gpu_clear(b->gpu, KEDGE__GPU_WORK, b->small, sizeof(s) + b->slabs, err);

	if (!rc)
		rc = kedge__gpu_copy_in(b->gpu, KEDGE__GPU_WORK, b->small, &s, sizeof(s), err);
	if (!rc)
		rc = kedge__gpu_clear(b->gpu, KEDGE__GPU_WORK, b->ages, b->chunks, err);
	if (!rc)
		rc = kedge__gpu_finish(b->gpu, err);
	b->a.columns = b->small + offsetof(struct small, column);
	b->a.newest = b->small + offsetof(struct small, newest);
	b->a.totals = b->small + offsetof(struct small, totals);
	b->a.states = b->small + sizeof(s);
	b->a.buckets = b->buckets;
	b->a.digests = b->digests;
	b->a.ages = b->ages;
	b->a.changes = b->list;
	b->a.origins = b->origins;
	return rc;
}

/* As build.c would make it, for as many changes as there are at most. */
static void size_up(struct finder_bench *b)
{
	uint64_t places = (b->chunks + b->chunks / 8 + b->chunks / 10) / 5 * 6;

	b->a.block_buckets = KEDGE_BLOCK_BUCKETS;
	b->a.blocks = (unsigned)(places / PLACES / KEDGE_BLOCK_BUCKETS + 1);
	b->a.column_count = b->a.since = b->a.parent = 1;
	for (b->a.bits = 1; b->chunks >> b->a.bits; b->a.bits++)
		;
	while (SLAB >> (b->a.slab_shift + 1))
		b->a.slab_shift++;
	b->bucket_bytes = (uint64_t)b->a.blocks * KEDGE_BLOCK_BUCKETS * KEDGE_BUCKET_BYTES;
	b->wave_bytes = kedge__gpu_wave_place(&b->a, 0, KEDGE__MIN(WAVE, b->chunks), b->a.blocks);
}

int kedge__bench_gpu_finder(struct kedge__bench_gpu_rows *rows, uint64_t size, struct kedge__error *err)
{
	struct finder_bench b = {.gpu = rows->gpu, .chunks = size / CHUNK, .slabs = (size / CHUNK + SLAB - 1) / SLAB};
	int rc;

	b.table = kedge__calloc(b.slabs, sizeof(*b.table));
	if (!b.table)
		return kedge__error_nomem(err);
	size_up(&b);
	rc = rooms_take(&b, err);
	(void)kedge__gpu_wave_place(&b.a, b.wave, KEDGE__MIN(WAVE, b.chunks), b.a.blocks);
	if (!rc)
		rc = small_send(&b, err);
	if (!rc)
		rc = random_send(&b, b.digests, b.chunks, err);
	if (!rc)
		rc = random_send(&b, b.fresh, b.chunks / 10 + b.slabs, err);
	if (!rc)
		rc = slabs_send(&b, err);
	if (!rc)
		rc = rows_take(&b, rows, err);
	(void)kedge__gpu_finish(rows->gpu, NULL);
	rooms_give_back(&b);
	kedge__free(b.table);
	return rc;
}
