/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_record.c: what the hash record finds, and what it forgets. States are large in chunks, small in bytes: samples
 * are taken from 2^18 chunks on.
 */
#include "lab.h"

#define CHUNK  16u
#define CHUNKS (((uint64_t)1 << 18) + 20480) /* more than a sample needs */
#define BYTES  (CHUNKS * CHUNK)

static void setup(struct lab *lab, uint64_t seed)
{
	memset(lab, 0, sizeof(*lab));
	lab->seed = seed;
	lab_resize(lab, 0, BYTES);
}

static void done(struct lab *lab, struct kedge__reducer *r)
{
	lab_restore_all(lab);
	lab_done(lab);
	kedge__reducer_free(r);
}

/* Sanitizers take their time for the first one, whose maps are long. */
static const enum kedge__reducer_id ids[] = {KEDGE__REDUCER_LIST, KEDGE__REDUCER_TREE, KEDGE__REDUCER_AUTO};
#define FIRST_ID (size_t)(LAB_SANITIZED ? 1 : 0)

/* A first version that repeats itself is small, whatever the reducer; and so is one with a few thousand repetitions. */
static void test_first_version_repeats(void **state)
{
	static struct lab lab;

	(void)state;
	for (size_t i = FIRST_ID; i < KEDGE__COUNT(ids); i++) {
		struct kedge__reducer *r = lab_reducer(ids[i], CHUNK);
		const struct lab_version *v;

		setup(&lab, 7);
		for (uint64_t at = BYTES / 8; at < BYTES; at += BYTES / 8)
			memcpy(lab.data[0] + at, lab.data[0], BYTES / 8);
		v = lab_take(&lab, r, NULL, 1, false);
		assert_int_equal(v->red.literal_bytes, BYTES / 8);
		if (ids[i] != KEDGE__REDUCER_LIST)
			assert_true(v->red.map.count <= 8);
		done(&lab, r);
	}
}

/* Nothing repeats: one literal, and later versions find what moved. */
static void test_moves_are_found(void **state)
{
	static struct lab lab;

	(void)state;
	for (size_t i = FIRST_ID; i < KEDGE__COUNT(ids); i++) {
		struct kedge__reducer *r = lab_reducer(ids[i], CHUNK);
		const struct lab_version *v;

		setup(&lab, 8);
		v = lab_take(&lab, r, NULL, 1, false);
		assert_int_equal(v->red.literal_bytes, BYTES);
		memmove(lab.data[0] + 37 * CHUNK, lab.data[0], BYTES - 37 * CHUNK); /* all of it changes */
		v = lab_take(&lab, r, NULL, 2, false);
		assert_int_equal(v->red.literal_bytes, 0);
		if (ids[i] != KEDGE__REDUCER_LIST)
			assert_int_equal(lab_count(v, KEDGE__EXTENT_COPY), 1);
		memcpy(lab.data[0] + BYTES / 2, lab.data[0] + 5 * CHUNK, 20000 * CHUNK);
		draw_bytes(&lab.seed, lab.data[0], 640 * CHUNK);
		v = lab_take(&lab, r, NULL, 3, false);
		assert_int_equal(v->red.literal_bytes, 640 * CHUNK);
		assert_int_equal(v->red.duplicate_bytes, 20000 * CHUNK);
		done(&lab, r);
	}
}

/* Everything changes, to and fro: what was replaced is found again, once the log has shown that it is of use. */
static void test_to_and_fro(void **state)
{
	uint8_t *a = malloc(BYTES), *b = malloc(BYTES);
	static struct lab lab;

	(void)state;
	for (size_t i = FIRST_ID; i < KEDGE__COUNT(ids); i++) {
		struct kedge__reducer *r = lab_reducer(ids[i], CHUNK);

		setup(&lab, 9);
		memcpy(a, lab.data[0], BYTES);
		draw_bytes(&lab.seed, b, BYTES);
		for (uint64_t version = 1; version <= 6; version++) {
			const struct lab_version *v;

			memcpy(lab.data[0], version % 2 ? a : b, BYTES);
			v = lab_take(&lab, r, NULL, version, false);
			assert_true(version < 3 ? v->red.literal_bytes == BYTES : v->red.literal_bytes < BYTES);
			if (version > 3)
				assert_int_equal(v->red.literal_bytes, 0);
		}
		done(&lab, r);
	}
	free(a);
	free(b);
}

/* The log forgets the oldest first: of what changed and came back, the newest 2^16 chunks are found. */
static void test_log_forgets(void **state)
{
	struct kedge__reducer *r = lab_reducer(KEDGE__REDUCER_TREE, CHUNK);
	uint64_t first = 65536 - 6000;
	uint8_t *was = malloc(BYTES);
	const struct lab_version *v;
	static struct lab lab;

	(void)state;
	setup(&lab, 10);
	memcpy(was, lab.data[0], BYTES);
	lab_take(&lab, r, NULL, 1, false);
	draw_bytes(&lab.seed, lab.data[0], 10000 * CHUNK);
	lab_take(&lab, r, NULL, 2, false);
	draw_bytes(&lab.seed, lab.data[0] + 10000 * CHUNK, first * CHUNK);
	lab_take(&lab, r, NULL, 3, false);
	memcpy(lab.data[0], was, 10000 * CHUNK);
	v = lab_take(&lab, r, NULL, 4, false);
	assert_int_equal(v->red.literal_bytes, 4000 * CHUNK);
	assert_int_equal(v->red.duplicate_bytes, 6000 * CHUNK);
	memcpy(lab.data[0] + 10000 * CHUNK, was + 10000 * CHUNK, first * CHUNK);
	v = lab_take(&lab, r, NULL, 5, false); /* version 4 replaced 10000 more */
	assert_int_equal(v->red.literal_bytes, 4000 * CHUNK);
	free(was);
	done(&lab, r);
}

/* A run whose chunks were replaced one by one, in different versions, is one copy of a version that had all of it. */
static void test_run_over_epochs(void **state)
{
	struct kedge__reducer *r = lab_reducer(KEDGE__REDUCER_TREE, 64);
	uint8_t was[64 * 64];
	const struct lab_version *v;
	static struct lab lab;

	(void)state;
	memset(&lab, 0, sizeof(lab));
	lab.seed = 11;
	lab_resize(&lab, 0, 64 * 256);
	memcpy(was, lab.data[0] + 64 * 64, sizeof(was));
	lab_take(&lab, r, NULL, 1, false);
	for (uint64_t version = 2; version < 9; version++) {
		for (uint64_t i = version; i < 64; i += 9)
			draw_bytes(&lab.seed, lab.data[0] + (64 + i) * 64, 64);
		lab_take(&lab, r, NULL, version, false);
	}
	memcpy(lab.data[0], was, sizeof(was));
	v = lab_take(&lab, r, NULL, 9, false);
	assert_int_equal(lab_count(v, KEDGE__EXTENT_COPY), 1);
	assert_int_equal(v->red.literal_bytes, 0);
	assert_int_equal(v->red.source_count, 2); /* the parent, and the one version that has all of it */
	assert_int_equal(v->red.sources[0], 1);
	done(&lab, r);
}

/* Ages are counted from later on after so many versions; what is older than that is still found. */
static void test_many_versions(void **state)
{
	struct kedge__reducer *r = lab_reducer(KEDGE__REDUCER_TREE, 64);
	uint8_t *data = malloc(64 * 100), was[64];
	struct kedge__image_region region = {0, data, 64 * 100};
	struct kedge__image image = {&region, 1};
	struct kedge__reduction red;
	uint64_t seed = 12;

	(void)state;
	draw_bytes(&seed, data, 64 * 100);
	memcpy(was, data + 64, 64);
	for (uint64_t version = 1; version < 400; version++) {
		draw_bytes(&seed, data, 64);
		if (version == 350)
			draw_bytes(&seed, data + 64, 64);
		if (version == 370)
			memcpy(data + 10 * 64, was, 64);
		if (version == 390)
			memcpy(data + 20 * 64, data + 90 * 64, 64);
		assert_int_equal(kedge__reducer_reduce(r, NULL, version, &image, NULL, &red, NULL), 0);
		kedge__reducer_commit(r);
		assert_int_equal(red.duplicate_bytes, version == 370 || version == 390 ? 64 : 0);
		kedge__reduction_done(&red);
	}
	free(data);
	kedge__reducer_free(r);
}

/* Maps are the same for any number of threads, with samples and without. */
static void test_threads_agree(void **state)
{
	static const int threads[] = {1, 2, 5};
	static struct lab lab[3];

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		struct kedge__reducer *r = lab_reducer(KEDGE__REDUCER_TREE, CHUNK);
		struct kedge__pool *pool;

		assert_int_equal(kedge__pool_new(threads[i], &pool, NULL), 0);
		setup(&lab[i], 13);
		for (uint64_t version = 1; version < 6; version++) {
			lab_take(&lab[i], r, pool, version, false);
			memmove(lab[i].data[0] + version * 1000 * CHUNK, lab[i].data[0] + 500 * CHUNK, BYTES / 2);
			draw_bytes(&lab[i].seed, lab[i].data[0] + BYTES / 4 * 3, version % 2 ? BYTES / 5 : 5000);
		}
		kedge__pool_free(pool);
		kedge__reducer_free(r);
	}
	for (size_t i = 1; i < 3; i++)
		for (size_t k = 0; k < lab[0].count; k++)
			assert_true(tape_same(&lab[0].versions[k].red.map, &lab[i].versions[k].red.map));
	lab_restore_all(&lab[0]);
	for (size_t i = 0; i < 3; i++)
		lab_done(&lab[i]);
}

/* Samples go by digests: a slab that has a few chunks again and again has many more samples than are to be expected, or
 * none. What moves elsewhere is found all the same, by a finder that is made again because most of the rest has
 * changed. */
static void test_samples_beside_repetitions(void **state)
{
	struct kedge__reducer *r = lab_reducer(KEDGE__REDUCER_TREE, CHUNK);
	const uint64_t slab = (256 << 10) / CHUNK, kinds = 7, repeated = 9 * slab;
	const struct lab_version *v;
	static struct lab lab;

	(void)state;
	setup(&lab, 15);
	for (uint64_t i = 0; i < repeated; i++)
		if (i % slab >= kinds)
			memcpy(lab.data[0] + i * CHUNK, lab.data[0] + (i - kinds) * CHUNK, CHUNK);
	lab_take(&lab, r, NULL, 1, false);
	draw_bytes(&lab.seed, lab.data[0] + repeated * CHUNK, BYTES - repeated * CHUNK);
	lab_take(&lab, r, NULL, 2, false);
	memmove(lab.data[0], lab.data[0] + repeated * CHUNK, 4 * slab * CHUNK);
	draw_bytes(&lab.seed, lab.data[0] + 4 * slab * CHUNK, 100 * CHUNK);
	v = lab_take(&lab, r, NULL, 3, false);
	assert_int_equal(v->red.literal_bytes, 100 * CHUNK);
	done(&lab, r);
}

/* What a large version that is rolled back entered does not stay. */
static void test_large_rollback(void **state)
{
	struct kedge__reducer *r = lab_reducer(KEDGE__REDUCER_TREE, CHUNK);
	uint8_t *was = malloc(BYTES);
	const struct lab_version *v;
	static struct lab lab;

	(void)state;
	setup(&lab, 14);
	lab_take(&lab, r, NULL, 1, false);
	memcpy(was, lab.data[0], BYTES);
	for (uint64_t bytes = 1000 * CHUNK; bytes <= BYTES; bytes *= 40) {
		draw_bytes(&lab.seed, lab.data[0], bytes);
		lab_take(&lab, r, NULL, lab.count + 1, true);
		memcpy(lab.data[0] + BYTES / 2, lab.data[0], 500 * CHUNK); /* nobody has it */
		memcpy(lab.data[0], was, BYTES / 2);
		v = lab_take(&lab, r, NULL, lab.count + 1, false);
		assert_int_equal(v->red.literal_bytes, 500 * CHUNK);
		memcpy(was, lab.data[0], BYTES);
	}
	free(was);
	done(&lab, r);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_first_version_repeats),
	    cmocka_unit_test(test_moves_are_found),
	    cmocka_unit_test(test_to_and_fro),
	    cmocka_unit_test(test_log_forgets),
	    cmocka_unit_test(test_run_over_epochs),
	    cmocka_unit_test(test_many_versions),
	    cmocka_unit_test(test_threads_agree),
	    cmocka_unit_test(test_samples_beside_repetitions),
	    cmocka_unit_test(test_large_rollback),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
