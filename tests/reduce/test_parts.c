/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_parts.c: versions with so many changes that their extents are made in parts, which must not show, and that their
 * duplicates are looked for in samples first.
 */
#include "lab.h"

#include <string.h>

#define MIB   ((uint64_t)1 << 20)
#define CHUNK 64
#define POOLS 3

static const int threads[POOLS] = {1, 2, 5};
static struct kedge__pool *pools[POOLS];

static int pools_open(void **state)
{
	(void)state;
	for (int i = 0; i < POOLS; i++)
		assert_int_equal(kedge__pool_new(threads[i], &pools[i], NULL), 0);
	return 0;
}

static int pools_close(void **state)
{
	(void)state;
	for (int i = 0; i < POOLS; i++)
		kedge__pool_free(pools[i]);
	return 0;
}

static void lab_open(struct lab *lab, uint64_t bytes)
{
	*lab = (struct lab){.seed = 11};
	lab_resize(lab, 1, bytes);
	lab->present[1] = true;
	draw_bytes(&lab->seed, lab->data[1], bytes);
}

/* What goes on over the bounds of parts is one extent. */
static void test_joined(void **state)
{
	const uint64_t bytes = 9 * MIB + 40, shift = 64 << 10;
	struct kedge__reducer *r = lab_reducer(KEDGE__REDUCER_TREE, CHUNK);
	struct lab lab;
	const struct lab_version *v;
	uint8_t *data;

	(void)state;
	lab_open(&lab, bytes);
	data = lab.data[1];
	v = lab_take(&lab, r, pools[1], 1, false);
	assert_int_equal(v->red.map.count, 1);
	assert_int_equal(v->red.literals.count, 1);
	memmove(data + shift, data, 9 * MIB - shift);
	draw_bytes(&lab.seed, data, shift);
	v = lab_take(&lab, r, pools[1], 2, false);
	assert_int_equal(v->red.map.count, 3); /* new, a copy, and the 40 bytes at the end */
	assert_int_equal(v->red.duplicate_bytes, 9 * MIB - shift);
	memset(data + MIB, 7, 4 * MIB);
	draw_bytes(&lab.seed, data + 5 * MIB, 2 * MIB);
	v = lab_take(&lab, r, pools[1], 3, false);
	assert_int_equal(v->red.map.count, 4);
	assert_int_equal(v->red.literals.count, 1);
	assert_int_equal(v->red.fill_bytes, 4 * MIB);
	lab_restore_all(&lab);
	lab_done(&lab);
	kedge__reducer_free(r);
}

/* Chunks here and there, blocks from elsewhere, and constants; some regions have nothing, or nothing that changes. */
static void edit(struct lab *lab)
{
	uint64_t bytes = lab->bytes[1];

	for (uint64_t at = 0; at < bytes; at += CHUNK * (1 + draw_below(&lab->seed, 12)))
		lab->data[1][at] ^= (uint8_t)(1 + draw_below(&lab->seed, 255));
	for (int i = 0; i < 12; i++) {
		uint64_t n = CHUNK * (1 + draw_below(&lab->seed, 9000));
		uint64_t from = draw_below(&lab->seed, (bytes - n) / CHUNK) * CHUNK,
			 to = draw_below(&lab->seed, (bytes - n) / CHUNK) * CHUNK;

		if (i % 4 == 3)
			memset(lab->data[1] + to, i, n);
		else
			memmove(lab->data[1] + to, lab->data[1] + from, n);
	}
	draw_bytes(&lab->seed, lab->data[3], draw_below(&lab->seed, lab->bytes[3]));
	lab_resize(lab, 4, draw_below(&lab->seed, 300000));
	memset(lab->data[4], 3, lab->bytes[4]);
}

static void series(enum kedge__reducer_id id)
{
	struct kedge__reducer *r[POOLS];
	struct lab lab[POOLS];

	for (int i = 0; i < POOLS; i++) {
		r[i] = lab_reducer(id, CHUNK);
		lab_open(&lab[i], 5 * MIB + 13);
		for (int slot = 0; slot < 6; slot++) {
			lab[i].present[slot] = true;
			if (slot != 1)
				lab_resize(&lab[i], slot, slot % 2 ? 700000 : 0);
		}
		memset(lab[i].data[3], 0, lab[i].bytes[3]);
		memset(lab[i].data[5], 0, lab[i].bytes[5]);
	}
	for (uint64_t version = 1; version <= (uint64_t)LAB_SCALE(7) + 1; version++)
		for (int i = 0; i < POOLS; i++) {
			const struct lab_version *v = lab_take(&lab[i], r[i], pools[i], version, false);
			const struct lab_version *first = &lab[0].versions[lab[i].count - 1];

			assert_true(tape_same(&v->red.map, &first->red.map));
			assert_int_equal(v->red.literals.count, first->red.literals.count);
			assert_int_equal(v->red.source_count, first->red.source_count);
			edit(&lab[i]);
		}
	for (int i = 0; i < POOLS; i++) {
		lab_restore_all(&lab[i]);
		lab_done(&lab[i]);
		kedge__reducer_free(r[i]);
	}
}

static void test_any_number_of_threads(void **state)
{
	(void)state;
	series(KEDGE__REDUCER_TREE);
#ifndef __SANITIZE_THREAD__ /* the others have no threads that this one has not */
	series(KEDGE__REDUCER_BASIC);
	series(KEDGE__REDUCER_LIST);
	series(KEDGE__REDUCER_AUTO);
#endif
}

#define TINY  16 /* bytes of a chunk, so that a small state has very many */
#define STATE (UINT64_C(5) << 20)

/* N chunks of a state of very many, all over it, are new. */
static void renew(struct lab *lab, uint64_t n)
{
	uint64_t step = STATE / TINY / n;

	for (uint64_t i = 0; i < n; i++)
		draw_bytes(&lab->seed, lab->data[1] + i * step * TINY, TINY);
}

/* Many changes are judged by a sample. It misses no block that moved, and a sample is all that is kept in memory as
 * long as there is nothing to be found. */
static void test_samples(void **state)
{
	const uint64_t entries = STATE / TINY * 6; /* bytes of a finder of all */
	struct kedge__reducer *r;
	struct lab lab;
	const struct lab_version *v;
	uint64_t version = 0, resting;

	(void)state;
	lab_open(&lab, STATE);
	r = lab_reducer(KEDGE__REDUCER_TREE, TINY);
	lab_take(&lab, r, pools[1], ++version, false);
	for (int i = 0; i < 3; i++) {
		renew(&lab, 40000);
		lab_take(&lab, r, pools[1], ++version, false);
	}
	resting = kedge__reducer_memory(r);
	for (int i = 0; i < 2; i++) { /* the second time all is known */
		draw_bytes(&lab.seed, lab.data[1], MIB / 4);
		memcpy(lab.data[1] + 3 * MIB, lab.data[1] + 2 * MIB + 4096 * (unsigned)i, MIB / 2);
		v = lab_take(&lab, r, pools[1], ++version, false);
		assert_int_equal(v->red.literal_bytes, MIB / 4);
		assert_int_equal(v->red.duplicate_bytes, MIB / 2);
		assert_true(kedge__reducer_memory(r) >= resting + entries / 2);
	}
	for (int i = 0; i < 8; i++) {
		assert_true(kedge__reducer_memory(r) >= resting + entries / 2);
		renew(&lab, 40000);
		lab_take(&lab, r, pools[1], ++version, false);
	}
	renew(&lab, 40000);
	lab_take(&lab, r, pools[1], ++version, false);
	assert_true(kedge__reducer_memory(r) < resting + entries / 4);
	/* A few are looked up, each of them. */
	memcpy(lab.data[1] + 160, lab.data[1] + 1600, TINY);
	v = lab_take(&lab, r, pools[1], ++version, false);
	assert_int_equal(v->red.literal_bytes, 0);
	lab_restore_all(&lab);
	lab_done(&lab);
	kedge__reducer_free(r);
}

/*
 * A large version of which nothing is known takes the place of the last one at once. If it is rolled back, the next one
 * lacks nothing; what moved or comes back is found as ever.
 */
static void test_all_new(void **state)
{
	struct kedge__reducer *r = lab_reducer(KEDGE__REDUCER_TREE, TINY);
	struct lab lab;
	const struct lab_version *v;
	uint64_t version = 0;

	(void)state;
#if defined(__SANITIZE_THREAD__)
	kedge__reducer_free(r);
	skip(); /* it takes long, and has no thread that test_samples has not */
#endif
	lab_open(&lab, STATE);
	lab_take(&lab, r, pools[1], ++version, false);
	draw_bytes(&lab.seed, lab.data[1], STATE);
	lab_take(&lab, r, pools[1], ++version, true);
	lab.data[1][0] ^= 1;
	v = lab_take(&lab, r, pools[1], ++version, false);
	assert_int_equal(v->red.literal_bytes, STATE);
	lab.data[1][0] ^= 1;
	v = lab_take(&lab, r, pools[1], ++version, false);
	assert_int_equal(v->red.literal_bytes, TINY);
	memmove(lab.data[1] + 4096, lab.data[1], STATE - 4096);
	draw_bytes(&lab.seed, lab.data[1], 4096);
	v = lab_take(&lab, r, pools[1], ++version, false);
	assert_int_equal(v->red.literal_bytes, 4096);
	for (int i = 0; i < 6; i++) { /* two contents in turn */
		if (i == 0)
			draw_bytes(&lab.seed, lab.data[1], STATE);
		else
			memcpy(lab.data[1], lab.versions[lab.count - 2].copy[1], STATE);
		v = lab_take(&lab, r, pools[1], ++version, false);
	}
	assert_int_equal(v->red.literal_bytes, 0);
	lab_restore_all(&lab);
	lab_done(&lab);
	kedge__reducer_free(r);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_joined),
	    cmocka_unit_test(test_any_number_of_threads),
	    cmocka_unit_test(test_samples),
	    cmocka_unit_test(test_all_new),
	};

	return cases_run(argc, argv, tests, pools_open, pools_close);
}
