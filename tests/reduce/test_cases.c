/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_cases.c: cases by name: those on which the published implementation of the tree method fails, and the promises
 * of reduce.h one by one.
 */
#include "lab.h"

#include <stdio.h>

static void setup(struct lab *lab, uint64_t bytes)
{
	memset(lab, 0, sizeof(*lab));
	lab->seed = 4711;
	lab_resize(lab, 0, bytes);
}

/* A, B, A: the third version is all there already. */
static void test_a_b_a(void **state)
{
	static struct lab lab;
	uint8_t *a = malloc(64000);
	enum kedge__reducer_id ids[] = {KEDGE__REDUCER_LIST, KEDGE__REDUCER_TREE, KEDGE__REDUCER_AUTO};

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		struct kedge__reducer *r = lab_reducer(ids[i], 64);
		struct lab_version *v;

		setup(&lab, 64000);
		memcpy(a, lab.data[0], 64000);
		lab_take(&lab, r, NULL, 1, false);
		draw_bytes(&lab.seed, lab.data[0], 64000);
		lab_take(&lab, r, NULL, 2, false);
		memcpy(lab.data[0], a, 64000);
		v = lab_take(&lab, r, NULL, 3, false);
		assert_int_equal(v->red.literal_bytes, 0);
		assert_int_equal(v->red.duplicate_bytes, 64000);
		if (ids[i] != KEDGE__REDUCER_LIST)
			assert_int_equal(v->red.map.count, 1);
		lab_restore_all(&lab);
		lab_done(&lab);
		kedge__reducer_free(r);
	}
	free(a);
}

/* Any number of chunks, with and without a short last one. */
static void test_chunk_counts(void **state)
{
	static const uint64_t sizes[] = {1,         5,         16,
					 31,        32,        33,
					 64,        96,        12 * 32,
					 14 * 32,   1000 * 32, 1000 * 32 + 1,
					 8192 * 32, 8193 * 32, 20000 * 32 - 7};
	static struct lab lab;

	(void)state;
	for (size_t i = 0; i < KEDGE__COUNT(sizes); i++) {
		for (int id = KEDGE__REDUCER_BASIC; id <= KEDGE__REDUCER_REX; id++) {
			struct kedge__reducer *r;
			struct lab_version *v;

			if (id == KEDGE__REDUCER_AUTO || id == KEDGE__REDUCER_MERGED)
				continue;
			r = lab_reducer((enum kedge__reducer_id)id, 32);
			setup(&lab, sizes[i]);
			v = lab_take(&lab, r, NULL, 1, false);
			assert_int_equal(v->red.literal_bytes, sizes[i]);
			assert_int_equal(v->red.map.count, id == KEDGE__REDUCER_LIST ? (sizes[i] + 31) / 32 : 1);
			v = lab_take(&lab, r, NULL, 2, false);
			assert_int_equal(v->red.literal_bytes, 0);
			assert_int_equal(v->red.map.count, 1);
			lab.data[0][sizes[i] - 1] ^= 1;
			v = lab_take(&lab, r, NULL, 3, false);
			if (id == KEDGE__REDUCER_REX && sizes[i] < 200) /* a page so small is kept whole */
				assert_true(v->red.literal_bytes <= sizes[i]);
			else
				assert_int_equal(v->red.literal_bytes, (sizes[i] - 1) % 32 + 1);
			lab_restore_all(&lab);
			lab_done(&lab);
			kedge__reducer_free(r);
		}
	}
}

static void test_no_regions(void **state)
{
	struct kedge__reducer *r = lab_reducer(KEDGE__REDUCER_TREE, 64);
	static struct lab lab;
	struct lab_version *v;

	(void)state;
	memset(&lab, 0, sizeof(lab));
	v = lab_take(&lab, r, NULL, 1, false);
	assert_int_equal(v->red.map.count, 0);
	lab_resize(&lab, 3, 0);
	v = lab_take(&lab, r, NULL, 2, false);
	assert_int_equal(v->red.map.count, 0);
	lab_done(&lab);
	kedge__reducer_free(r);
}

/* The sign bit of every second double. */
static void test_signs(void **state)
{
	struct kedge__reducer *r = lab_reducer(KEDGE__REDUCER_TREE, 32);
	static struct lab lab;
	struct lab_version *v;

	(void)state;
	setup(&lab, 32 * 512);
	for (size_t i = 0; i < 32 * 512 / 8; i++)
		memcpy(lab.data[0] + 8 * i, &(double){1.0 + (double)i}, 8);
	lab_take(&lab, r, NULL, 1, false);
	for (size_t i = 15; i < 32 * 512; i += 16)
		lab.data[0][i] ^= 0x80;
	v = lab_take(&lab, r, NULL, 2, false);
	assert_int_equal(v->red.changed_bytes, 32 * 512);
	lab_restore_all(&lab);
	lab_done(&lab);
	kedge__reducer_free(r);
}

/* A first version full of duplicates is consolidated as any other. */
static void test_first_version_duplicates(void **state)
{
	struct kedge__reducer *r = lab_reducer(KEDGE__REDUCER_TREE, 64);
	static struct lab lab;
	struct lab_version *v;

	(void)state;
	setup(&lab, 64 * 4096);
	for (size_t i = 1; i < 64; i++)
		memcpy(lab.data[0] + i * 4096, lab.data[0], 4096);
	v = lab_take(&lab, r, NULL, 1, false);
	assert_int_equal(v->red.literal_bytes, 4096);
	assert_true(v->red.map.count <= 64);
	lab_restore_all(&lab);
	lab_done(&lab);
	kedge__reducer_free(r);
}

/* Zeros and constants are a fill, whatever their number; they are in no record. */
static void test_constants(void **state)
{
	struct kedge__reducer *r = lab_reducer(KEDGE__REDUCER_TREE, 32);
	static struct lab lab;
	struct lab_version *v;

	(void)state;
	setup(&lab, 100000);
	memset(lab.data[0], 0, 100000);
	v = lab_take(&lab, r, NULL, 1, false);
	assert_int_equal(v->red.map.count, 1);
	assert_int_equal(v->red.fill_bytes, 100000);
	for (size_t i = 0; i < 50000; i += 8)
		memcpy(lab.data[0] + i, &(double){2.5}, 8);
	v = lab_take(&lab, r, NULL, 2, false);
	assert_int_equal(lab_count(v, KEDGE__EXTENT_FILL), 1);
	assert_true(v->red.literal_bytes <= 32);
	lab_restore_all(&lab);
	lab_done(&lab);
	kedge__reducer_free(r);
}

/* A block that moved by whole chunks, to no power of two, is one copy. */
static void test_move_is_one_copy(void **state)
{
	struct kedge__reducer *r = lab_reducer(KEDGE__REDUCER_TREE, 64);
	static struct lab lab;
	struct lab_version *v;

	(void)state;
	setup(&lab, 64 * 5000);
	lab_take(&lab, r, NULL, 1, false);
	memmove(lab.data[0] + 64 * 37, lab.data[0], 64 * (5000 - 37));
	v = lab_take(&lab, r, NULL, 2, false);
	assert_int_equal(lab_count(v, KEDGE__EXTENT_COPY), 1);
	assert_int_equal(v->red.literal_bytes, 0);
	lab_restore_all(&lab);
	lab_done(&lab);
	kedge__reducer_free(r);
}

/*
 * Where the tree finds what chunks alone do not: chunks whose first occurrences are scattered, but whose sequence was
 * there before as a whole. Only the first occurrence of the sequence pays one extent a chunk.
 */
static void test_tree_joins_scattered(void **state)
{
	enum { N = 64, CHUNK = 64 };
	struct kedge__reducer *r = lab_reducer(KEDGE__REDUCER_TREE, CHUNK);
	static struct lab lab;
	struct lab_version *v;

	(void)state;
	setup(&lab, N * CHUNK);
	lab_take(&lab, r, NULL, 1, false);
	for (int i = 0; i < N; i++) /* a sequence that the record knows as chunks and as a tree */
		draw_bytes(&lab.seed, lab.data[0] + i * CHUNK, CHUNK);
	lab_take(&lab, r, NULL, 2, false);
	lab_resize(&lab, 1, N * CHUNK);
	memcpy(lab.data[1], lab.data[0], N * CHUNK);
	v = lab_take(&lab, r, NULL, 3, false);
	assert_int_equal(lab_count(v, KEDGE__EXTENT_COPY), 1);
	lab_restore_all(&lab);
	lab_done(&lab);
	kedge__reducer_free(r);
}

static void assert_same_find(const struct kedge__reduction *a, const struct kedge__reduction *b)
{
	assert_int_equal(a->literal_bytes, b->literal_bytes);
	assert_int_equal(a->duplicate_bytes, b->duplicate_bytes);
	assert_int_equal(a->fill_bytes, b->fill_bytes);
	assert_int_equal(a->changed_bytes, b->changed_bytes);
}

/* What was rolled back never happened: later versions find the same as without it, though of equal chunks perhaps
 * another one. */
static void test_rollback(void **state)
{
	static struct lab a, b;

	(void)state;
	for (int id = KEDGE__REDUCER_FULL; id <= KEDGE__REDUCER_AUTO; id++) {
		for (uint64_t seed = 0; seed < LAB_SCALE(30); seed++) {
			struct kedge__reducer_options o = {.id = (enum kedge__reducer_id)id,
							   .chunk = 64,
							   .record_bytes = seed % 3 ? LAB_UNLIMITED : 600000,
							   .paranoid = seed % 4 == 3};
			struct kedge__reducer *with = NULL, *without = NULL;

			assert_int_equal(kedge__reducer_new(&o, &with, NULL), 0);
			assert_int_equal(kedge__reducer_new(&o, &without, NULL), 0);
			setup(&a, 20000);
			setup(&b, 20000);
			a.seed = b.seed = seed;
			for (uint64_t version = 1; version < 7; version++) {
				struct lab other = a;
				struct kedge__image_region regions[LAB_REGIONS];
				struct kedge__image image = {regions, 0};
				struct kedge__reduction red;
				uint8_t *noise = malloc(70000);

				draw_bytes(&other.seed, noise, 70000);
				if (a.bytes[0])
					memcpy(noise, a.data[0], lab_min(a.bytes[0] / 2, 70000));
				image.count = lab_image(&a, regions);
				if (!image.count || regions[0].base)
					regions[image.count = 0] = (struct kedge__image_region){0, NULL, 0};
				image.count += !image.count;
				regions[0].data = noise;
				regions[0].bytes = 5000 + 9000 * version;
				assert_int_equal(kedge__reducer_reduce(with, NULL, version, &image, NULL, &red, NULL),
						 0);
				kedge__reducer_rollback(with);
				kedge__reduction_done(&red);
				free(noise);
				lab_take(&a, with, NULL, version, false);
				lab_take(&b, without, NULL, version, false);
				assert_same_find(&a.versions[a.count - 1].red, &b.versions[b.count - 1].red);
				for (int i = 0; i < 4; i++) {
					lab_edit(&a, 64, 30000);
					lab_edit(&b, 64, 30000);
				}
			}
			lab_restore_all(&a);
			lab_done(&a);
			lab_done(&b);
			kedge__reducer_free(with);
			kedge__reducer_free(without);
		}
	}
}

static void test_states(void **state)
{
	struct kedge__reducer_options o = {.id = KEDGE__REDUCER_TREE, .chunk = 48};
	struct kedge__reducer *r = NULL;
	struct kedge__image_region g[2] = {{0, "abc", 3}, {0, "abc", 3}};
	struct kedge__image image = {g, 1};
	struct kedge__reduction red;

	(void)state;
	assert_int_equal(kedge__reducer_new(&o, &r, NULL), KEDGE_E_ARG);
	o.chunk = 8;
	assert_int_equal(kedge__reducer_new(&o, &r, NULL), KEDGE_E_ARG);
	o.chunk = 131072;
	assert_int_equal(kedge__reducer_new(&o, &r, NULL), KEDGE_E_ARG);
	o = (struct kedge__reducer_options){.id = KEDGE__REDUCER_REX, .chunk = 512};
	assert_int_equal(kedge__reducer_new(&o, &r, NULL), KEDGE_E_ARG);
	o.id = KEDGE__REDUCER_MERGED;
	assert_int_equal(kedge__reducer_new(&o, &r, NULL), KEDGE_E_ARG);
	o.id = KEDGE__REDUCER_TREE;
	o.chunk = 32;
	assert_int_equal(kedge__reducer_new(&o, &r, NULL), 0);
	assert_int_equal(kedge__reducer_parent(r), KEDGE__NO_VERSION);
	assert_int_equal(kedge__reducer_reduce(r, NULL, KEDGE_NEWEST, &image, NULL, &red, NULL), KEDGE_E_ARG);
	image.count = 2;
	assert_int_equal(kedge__reducer_reduce(r, NULL, 1, &image, NULL, &red, NULL), KEDGE_E_ARG);
	image.count = 1;
	assert_int_equal(kedge__reducer_reduce(r, NULL, 1, &image, NULL, &red, NULL), 0);
	kedge__reduction_done(&red);
	assert_int_equal(kedge__reducer_reduce(r, NULL, 2, &image, NULL, &red, NULL), KEDGE_E_STATE);
	assert_int_equal(kedge__reducer_prime_view(r, NULL, 2, &image, NULL, NULL, NULL, NULL), KEDGE_E_STATE);
	kedge__reducer_commit(r);
	assert_int_equal(kedge__reducer_parent(r), 1);
	kedge__reducer_free(r);
	kedge__reducer_free(NULL);
	for (int id = KEDGE__REDUCER_FULL; id <= KEDGE__REDUCER_REX; id++) {
		enum kedge__reducer_id back;

		if (id == KEDGE__REDUCER_MERGED)
			continue;
		assert_int_equal(kedge__reducer_parse(kedge__reducer_name((enum kedge__reducer_id)id), &back), 0);
		assert_int_equal(back, id);
	}
	assert_string_equal(kedge__reducer_name(KEDGE__REDUCER_MERGED), "merged");
	assert_null(kedge__reducer_name((enum kedge__reducer_id)77));
	assert_int_equal(kedge__reducer_parse("merged", &(enum kedge__reducer_id){0}), KEDGE_E_ARG);
}

/* A version below what the reducer knows refers to nothing above it. */
static void test_older_version_again(void **state)
{
	struct kedge__reducer *r = lab_reducer(KEDGE__REDUCER_TREE, 64);
	static struct lab lab;
	struct lab_version *v;

	(void)state;
	setup(&lab, 6400);
	lab_take(&lab, r, NULL, 5, false);
	lab_take(&lab, r, NULL, 6, false);
	v = lab_take(&lab, r, NULL, 3, false);
	assert_int_equal(v->red.literal_bytes, 6400);
	assert_int_equal(v->red.source_count, 0);
	lab_done(&lab);
	kedge__reducer_free(r);
}

static void test_retain(void **state)
{
	struct kedge__reducer *r = lab_reducer(KEDGE__REDUCER_TREE, 64);
	static struct lab lab;
	struct lab_version *v;
	uint8_t a[6400];

	(void)state;
	setup(&lab, 6400);
	memcpy(a, lab.data[0], 6400);
	lab_take(&lab, r, NULL, 1, false);
	draw_bytes(&lab.seed, lab.data[0], 6400);
	lab_take(&lab, r, NULL, 2, false);
	kedge__reducer_retain(r, (const struct kedge__image_key[]){{.version = 2}}, 1);
	memcpy(lab.data[0], a, 3200);
	v = lab_take(&lab, r, NULL, 3, false);
	assert_int_equal(v->red.literal_bytes, 3200); /* version 1 is gone */
	assert_int_equal(v->red.parent, 2);
	kedge__reducer_retain(r, (const struct kedge__image_key[]){{.version = 1}, {.version = 2}},
			      2); /* dead versions stay dead; the parent is dead now */
	assert_int_equal(kedge__reducer_parent(r), KEDGE__NO_VERSION);
	v = lab_take(&lab, r, NULL, 4, false);
	assert_int_equal(v->red.literal_bytes, 3200); /* the other half is in 2 */
	assert_int_equal(v->red.parent, KEDGE__NO_VERSION);
	kedge__reducer_reset(r);
	v = lab_take(&lab, r, NULL, 5, false);
	assert_int_equal(v->red.literal_bytes, 6400);
	lab_restore_all(&lab);
	lab_done(&lab);
	kedge__reducer_free(r);
}

/* A, B in one process; the next one is primed from the store and finds A. */
static void test_prime(void **state)
{
	static struct lab lab;

	(void)state;
	for (int id = KEDGE__REDUCER_LIST; id <= KEDGE__REDUCER_AUTO; id++) {
		struct kedge__reducer *r = lab_reducer((enum kedge__reducer_id)id, 64);
		struct kedge__image_region regions[LAB_REGIONS];
		struct kedge__image image = {regions, 0};
		const struct lab_version *first;
		struct lab_version *v;
		uint8_t a[6410];

		setup(&lab, 6410);
		memcpy(a, lab.data[0], 6410);
		first = lab_take(&lab, r, NULL, 1, false);
		draw_bytes(&lab.seed, lab.data[0], 6400);
		lab_take(&lab, r, NULL, 2, false);
		kedge__reducer_free(r);

		r = lab_reducer((enum kedge__reducer_id)id, 64);
		assert_int_equal(kedge__reducer_prime_literals(r, 1, LAB_SLOT(0) + 10, first->literals + 10, 20, NULL),
				 0);
		assert_int_equal(kedge__reducer_prime_literals(r, 1, LAB_SLOT(0), first->literals, 3200, NULL), 0);
		assert_int_equal(
		    kedge__reducer_prime_literals(r, 1, LAB_SLOT(0) + 3190, first->literals + 3190, 3220, NULL), 0);
		image.count = lab_image(&lab, regions);
		assert_int_equal(kedge__reducer_prime_view(r, NULL, 2, &image, NULL, NULL, NULL, NULL), 0);
		assert_int_equal(kedge__reducer_parent(r), 2);
		memcpy(lab.data[0], a, 3200);
		v = lab_take(&lab, r, NULL, 3, false);
		assert_int_equal(v->red.literal_bytes, 0);
		assert_int_equal(v->red.duplicate_bytes, 3200);
		assert_int_equal(v->red.parent, 2);
		if (id != KEDGE__REDUCER_LIST)
			assert_int_equal(v->red.map.count, 2);
		lab_restore_all(&lab);
		lab_done(&lab);
		kedge__reducer_free(r);
	}
}

/* A record that cannot hold a version keeps what it can, forgets the oldest, and never loses data. */
static void test_bounded_record(void **state)
{
	static const uint64_t limits[] = {0, 1, 10000, 100000, 400000};
	static struct lab lab;

	(void)state;
	for (size_t i = 0; i < KEDGE__COUNT(limits); i++) {
		struct kedge__reducer_options o = {
		    .id = i % 2 ? KEDGE__REDUCER_LIST : KEDGE__REDUCER_TREE, .chunk = 32, .record_bytes = limits[i]};
		struct kedge__reducer *r = NULL;

		assert_int_equal(kedge__reducer_new(&o, &r, NULL), 0);
		setup(&lab, 100000);
		for (uint64_t version = 1; version < 12; version++) {
			lab_take(&lab, r, NULL, version, false);
			draw_bytes(&lab.seed, lab.data[0] + 8000 * (version % 10), 8000);
			memmove(lab.data[0] + 50016, lab.data[0] + 32 * version, 9000);
		}
		lab_restore_all(&lab);
		lab_done(&lab);
		kedge__reducer_free(r);
	}
}

/* What is hit again and again stays, while what is never seen again is forgotten. */
static void test_hits_survive(void **state)
{
	struct kedge__reducer_options o = {.id = KEDGE__REDUCER_LIST, .chunk = 32, .record_bytes = 2 * 64 * 32 * 256};
	struct kedge__reducer *r = NULL;
	static struct lab lab;
	uint8_t kept[3200];
	struct lab_version *v = NULL;

	(void)state;
	assert_int_equal(kedge__reducer_new(&o, &r, NULL), 0);
	setup(&lab, 3200);
	memcpy(kept, lab.data[0], 3200);
	lab_take(&lab, r, NULL, 1, false);
	lab_resize(&lab, 1, 300000);
	for (uint64_t version = 2; version < 30; version++) {
		draw_bytes(&lab.seed, lab.data[1], 300000);
		memcpy(lab.data[1] + 3200 * (version % 2), kept, 3200);
		v = lab_take(&lab, r, NULL, version, false);
		assert_int_equal(v->red.duplicate_bytes, 3200);
	}
	lab_restore_all(&lab);
	lab_done(&lab);
	kedge__reducer_free(r);
}

/* ---- paranoid */

static int lab_fetch(void *ctx, uint64_t version, uint64_t addr, void *buf, size_t len, struct kedge__error *err)
{
	const struct lab_version *v = lab_find(ctx, version);
	int slot = (int)(addr >> KEDGE__SLOT_SHIFT);
	uint64_t offset = addr & (KEDGE__SLOT_BYTES - 1);

	if (!v || slot >= LAB_REGIONS || offset + len > v->bytes[slot])
		return kedge__error_set(err, KEDGE_E_NOTFOUND, 0, "not there");
	memcpy(buf, v->copy[slot] + offset, len);
	return 0;
}

static int worst_of_weak(bool paranoid, bool fetch, uint64_t seed, uint64_t *duplicates)
{
	static struct lab lab;
	static const enum kedge__reducer_id ids[] = {KEDGE__REDUCER_TREE, KEDGE__REDUCER_LIST, KEDGE__REDUCER_REX};
	const uint8_t key[KEDGE__DIGEST_SEED_BYTES] = {
	    (uint8_t)seed}; /* which digests are equal is no matter of luck */
	struct kedge__reducer_options o = {.id = ids[seed % 3],
					   .seed = key,
					   .chunk = 64,
					   .record_bytes = LAB_UNLIMITED,
					   .paranoid = paranoid,
					   .fetch = fetch ? lab_fetch : NULL,
					   .fetch_ctx = &lab,
					   .digest_mask = 0xff};
	struct kedge__reducer *r = NULL;
	int worst = 0;

	assert_int_equal(kedge__reducer_new(&o, &r, NULL), 0);
	setup(&lab, 30000);
	lab.seed = seed;
	for (uint64_t version = 1; version < 6; version++) {
		*duplicates += lab_take(&lab, r, NULL, version, false)->red.duplicate_bytes;
		for (int i = 0; i < 4; i++)
			lab_edit(&lab, 64, 40000);
	}
	for (size_t i = 0; i < lab.count; i++) {
		int rc = lab_restore(&lab, &lab.versions[i]);

		worst = rc > worst ? rc : worst;
	}
	lab_done(&lab);
	kedge__reducer_free(r);
	return worst;
}

/* At commit neither the image nor the memory need be what they were in reduce. */
static void test_commit_after_change(void **state)
{
	struct kedge__reducer_options o = {
	    .id = KEDGE__REDUCER_TREE, .chunk = 64, .record_bytes = LAB_UNLIMITED, .paranoid = true};
	struct kedge__reducer *r = NULL;
	uint8_t *data = calloc(1, 6400), was[6400];
	struct lab lab = {.seed = 7};

	(void)state;
	assert_int_equal(kedge__reducer_new(&o, &r, NULL), 0);
	for (uint64_t version = 1; version < 5; version++) {
		struct kedge__image_region *g = calloc(1, sizeof(*g));
		struct kedge__image image = {g, 1};
		struct kedge__reduction red;

		*g = (struct kedge__image_region){0, data, 6400};
		assert_int_equal(kedge__reducer_reduce(r, NULL, version, &image, NULL, &red, NULL), 0);
		assert_int_equal(red.changed_bytes, version == 1 ? 6400 : 640);
		memset(g, 0xee, sizeof(*g));
		free(g);
		memcpy(was, data, 6400);
		draw_bytes(&lab.seed, data, 6400);
		kedge__reducer_commit(r);
		kedge__reduction_done(&red);
		memcpy(data, was, 6400);
		draw_bytes(&lab.seed, data + 640 * version, 640);
	}
	free(data);
	kedge__reducer_free(r);
}

/* With a digest of eight bits: paranoid is right all the same; without it the region digest tells. */
static void test_weak_digest(void **state)
{
	uint64_t unused = 0, with = 0, without = 0;

	(void)state;
	for (uint64_t seed = 0; seed < LAB_SCALE(60) + 12; seed++) {
		assert_int_equal(worst_of_weak(true, true, seed, &with), 0);
		assert_int_equal(worst_of_weak(true, false, seed, &without), 0);
		assert_int_equal(worst_of_weak(false, false, seed, &unused), 1);
	}
	assert_true(with > without && without > 0);
}

/* ---- auto */

static struct lab_version *auto_step(struct lab *lab, struct kedge__reducer *r, enum kedge__reducer_id expected)
{
	struct lab_version *v = lab_take(lab, r, NULL, lab->count + 1, false);

	assert_int_equal(v->red.reducer, expected);
	assert_int_equal(v->red.chunk, 64);
	return v;
}

static void test_auto(void **state)
{
	struct kedge__reducer *r = lab_reducer(KEDGE__REDUCER_AUTO, 64);
	static struct lab lab;
	struct lab_version *v;

	(void)state;
	setup(&lab, 200 * 64);
	lab_resize(&lab, 1, 3 << 20);
	auto_step(&lab, r, KEDGE__REDUCER_TREE);
	for (int i = 0; i < 4; i++) { /* a little noise, no duplicates */
		draw_bytes(&lab.seed, lab.data[0], 640);
		auto_step(&lab, r, KEDGE__REDUCER_TREE);
	}
	for (int i = 0; i < 7; i++) {
		draw_bytes(&lab.seed, lab.data[0], 640);
		auto_step(&lab, r, KEDGE__REDUCER_BASIC);
	}
	draw_bytes(&lab.seed, lab.data[0], 640);
	memcpy(lab.data[0] + 640, lab.data[0] + 6400, 640);
	auto_step(&lab, r, KEDGE__REDUCER_TREE); /* the probe sees duplicates */
	auto_step(&lab, r, KEDGE__REDUCER_TREE);
	for (int i = 0; i < 5; i++) { /* everything changes: there is nothing to be found */
		draw_bytes(&lab.seed, lab.data[0], lab.bytes[0]);
		draw_bytes(&lab.seed, lab.data[1], lab.bytes[1]);
		auto_step(&lab, r, i < 4 ? KEDGE__REDUCER_TREE : KEDGE__REDUCER_BASIC);
	}
	v = auto_step(&lab, r, KEDGE__REDUCER_BASIC); /* nothing does, which is seen at once */
	assert_int_equal(v->red.literal_bytes, 0);
	lab_restore_all(&lab);
	lab_done(&lab);
	kedge__reducer_free(r);
}

/* Nothing repeats: then nothing is remembered for it, between the rare versions that look again. */
static void test_auto_drops_the_record(void **state)
{
	struct kedge__reducer *r = lab_reducer(KEDGE__REDUCER_AUTO, 64);
	static struct lab lab;
	int trees = 0;

	(void)state;
	setup(&lab, 20000 * 64);
	auto_step(&lab, r, KEDGE__REDUCER_TREE);
	assert_true(kedge__reducer_memory(r) > 20000 * 21);
	for (int i = 0; i < 4; i++) {
		draw_bytes(&lab.seed, lab.data[0], 640);
		auto_step(&lab, r, KEDGE__REDUCER_TREE);
	}
	for (int i = 0; i < 26; i++) {
		assert_true(kedge__reducer_memory(r) < 20000 * 18);
		draw_bytes(&lab.seed, lab.data[0], 640);
		trees += lab_take(&lab, r, NULL, lab.count + 1, false)->red.reducer == KEDGE__REDUCER_TREE;
	}
	assert_int_equal(trees, 2); /* after 8 and 16 */
	lab_restore_all(&lab);
	lab_done(&lab);
	kedge__reducer_free(r);
}

/* ---- memory */

/* Every allocation fails in turn: an error that changes nothing, or a result that is right. */
static void test_no_memory(void **state)
{
	static struct lab lab;

	(void)state;
	for (int id = KEDGE__REDUCER_FULL; id <= KEDGE__REDUCER_AUTO; id++) {
		struct kedge__reducer *r = lab_reducer((enum kedge__reducer_id)id, 64);
		int rc = KEDGE_E_NOMEM;

		setup(&lab, 20000);
		lab_take(&lab, r, NULL, 1, false);
		lab_resize(&lab, 1, 4000);
		memcpy(lab.data[1], lab.data[0], 3000);
		memset(lab.data[0] + 640, 0, 6400);
		for (int n = 1; rc; n++) {
			struct kedge__image_region regions[LAB_REGIONS];
			struct kedge__image image = {regions, lab_image(&lab, regions)};
			struct kedge__reduction red;
			char spec[32];

			assert_true(n < 2000);
			snprintf(spec, sizeof(spec), "alloc@%d", n);
			assert_int_equal(kedge__fault_set(spec, NULL), 0);
			rc = kedge__reducer_reduce(r, NULL, 2, &image, NULL, &red, NULL);
			assert_true(rc == 0 || rc == KEDGE_E_NOMEM);
			if (rc)
				continue;
			kedge__reducer_rollback(r);
			kedge__reduction_done(&red);
		}
		assert_int_equal(kedge__fault_set(NULL, NULL), 0);
		lab_take(&lab, r, NULL, 2, false);
		lab_restore_all(&lab);
		lab_done(&lab);
		kedge__reducer_free(r);
	}
}

static void test_progress_counts(void *ctx, uint64_t bytes)
{
	uint64_t *most = ctx;

	*most = bytes > *most ? bytes : *most;
}

static void test_progress(void **state)
{
	struct kedge__reducer *r = lab_reducer(KEDGE__REDUCER_BASIC, 64);
	static struct lab lab;
	struct kedge__image_region regions[LAB_REGIONS];
	struct kedge__image image = {regions, 0};
	struct kedge__reduction red;
	uint64_t most = 0;
	const struct kedge__reduce_how how = {.progress = test_progress_counts, .progress_ctx = &most};

	(void)state;
	setup(&lab, 700000);
	image.count = lab_image(&lab, regions);
	assert_int_equal(kedge__reducer_reduce(r, NULL, 1, &image, &how, &red, NULL), 0);
	assert_int_equal(most, 700000);
	kedge__reduction_done(&red);
	kedge__reducer_commit(r);
	lab_done(&lab);
	kedge__reducer_free(r);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_a_b_a),
	    cmocka_unit_test(test_chunk_counts),
	    cmocka_unit_test(test_no_regions),
	    cmocka_unit_test(test_signs),
	    cmocka_unit_test(test_first_version_duplicates),
	    cmocka_unit_test(test_constants),
	    cmocka_unit_test(test_move_is_one_copy),
	    cmocka_unit_test(test_tree_joins_scattered),
	    cmocka_unit_test(test_rollback),
	    cmocka_unit_test(test_states),
	    cmocka_unit_test(test_older_version_again),
	    cmocka_unit_test(test_retain),
	    cmocka_unit_test(test_prime),
	    cmocka_unit_test(test_bounded_record),
	    cmocka_unit_test(test_hits_survive),
	    cmocka_unit_test(test_weak_digest),
	    cmocka_unit_test(test_commit_after_change),
	    cmocka_unit_test(test_auto),
	    cmocka_unit_test(test_auto_drops_the_record),
	    cmocka_unit_test(test_no_memory),
	    cmocka_unit_test(test_progress),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
