/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_oracle.c: random edit scripts, every reducer, chunk sizes, numbers of threads; every version restored through
 * its map and compared with what it was.
 */
#include "lab.h"

#include <malloc.h>

static const int thread_counts[] = {1, 2, 4, 7};

static void run_script(uint64_t seed, enum kedge__reducer_id id, uint32_t chunk, struct kedge__pool *pool,
		       uint64_t largest, struct lab *lab)
{
	struct kedge__reducer *r = lab_reducer(id, chunk);

	memset(lab, 0, sizeof(*lab));
	lab->seed = seed;
	for (int i = 0; i < 3; i++)
		lab_resize(lab, (int)draw_below(&lab->seed, LAB_REGIONS), 17 + draw_below(&lab->seed, largest));
	for (uint64_t version = 1; version <= 7; version++) {
		uint64_t edits = draw_below(&lab->seed, 6);

		if (draw_below(&lab->seed, 6) == 0) {
			lab_take(lab, r, pool, version * 3, true);
			lab_edit(lab, chunk, largest);
		}
		lab_take(lab, r, pool, version * 3, false);
		for (uint64_t i = 0; i < edits; i++)
			lab_edit(lab, chunk, largest);
	}
	kedge__reducer_free(r);
}

static void run_scripts(enum kedge__reducer_id id, struct kedge__pool *const *pools, uint64_t scripts)
{
	static struct lab lab, again;

	for (uint64_t s = 0; s < scripts; s++) {
		uint64_t seed = s * 5 + id;
		uint32_t chunk = id == KEDGE__REDUCER_REX ? UINT32_C(16) << (s % 5) : UINT32_C(32) << (s % 12);
		uint64_t largest = lab_min(chunk * (s % 3 ? 40 : 200), UINT64_C(600) << 10);

		if (s % 31 == 7)
			largest = KEDGE__MAX(largest, UINT64_C(700) << 10); /* several slabs */
		run_script(seed, id, chunk, pools[s % 4], largest, &lab);
		lab_restore_all(&lab);
		if (s % 4 == 3) {
			run_script(seed, id, chunk, pools[s / 4 % 4], largest, &again);
			for (size_t i = 0; i < lab.count; i++)
				assert_true(tape_same(&lab.versions[i].red.map, &again.versions[i].red.map));
			lab_done(&again);
		}
		lab_done(&lab);
	}
}

static void test_scripts(void **state)
{
	struct kedge__pool *pools[4];

	(void)state;
	for (size_t i = 0; i < 4; i++)
		assert_int_equal(kedge__pool_new(thread_counts[i], &pools[i], NULL), 0);
	run_scripts(KEDGE__REDUCER_FULL, pools, LAB_SCALE(60));
	run_scripts(KEDGE__REDUCER_BASIC, pools, LAB_SCALE(200));
	run_scripts(KEDGE__REDUCER_LIST, pools, LAB_SCALE(360));
	run_scripts(KEDGE__REDUCER_TREE, pools, LAB_SCALE(720));
	run_scripts(KEDGE__REDUCER_AUTO, pools, LAB_SCALE(360));
	run_scripts(KEDGE__REDUCER_REX, pools, LAB_SCALE(720));
	for (size_t i = 0; i < 4; i++)
		kedge__pool_free(pools[i]);
}

/* The same maps for any number of threads, where there is enough work for all of them. */
static void threads_agree(enum kedge__reducer_id id)
{
	static struct lab lab[4];

	for (size_t i = 0; i < 4; i++) {
		struct kedge__pool *pool;

		assert_int_equal(kedge__pool_new(thread_counts[i], &pool, NULL), 0);
		run_script(99, id, 32, pool, UINT64_C(3) << 20, &lab[i]);
		kedge__pool_free(pool);
	}
	for (size_t i = 1; i < 4; i++)
		for (size_t k = 0; k < lab[0].count; k++)
			assert_true(tape_same(&lab[0].versions[k].red.map, &lab[i].versions[k].red.map));
	lab_restore_all(&lab[0]);
	for (size_t i = 0; i < 4; i++)
		lab_done(&lab[i]);
}

static void test_threads_agree(void **state)
{
	(void)state;
	threads_agree(KEDGE__REDUCER_TREE);
	threads_agree(KEDGE__REDUCER_REX);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_scripts),
	    cmocka_unit_test(test_threads_agree),
	};

	mallopt(M_MMAP_THRESHOLD, 1 << 30); /* regions come and go: no system call for each */
	mallopt(M_TRIM_THRESHOLD, 1 << 30);
	return cases_run(argc, argv, tests, NULL, NULL);
}
