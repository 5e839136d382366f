/* SPDX-License-Identifier: BSD-3-Clause */
/* Optima: vectors, Young's and Daly's limits, brute force, and what has no optimum. */
#include "check.h"
#include "vectors.h"

static void test_vectors(void **state)
{
	(void)state;
	for (size_t i = 0; i < KEDGE__COUNT(best_vectors); i++) {
		const struct best_vector *v = &best_vectors[i];
		struct kedge__async as = tsubame(v->l1, v->l2, v->failure, v->cost);
		struct kedge__sync_plan sync;
		struct kedge__async_plan async;
		char id[64];

		snprintf(id, sizeof(id), "rates %g, failures %g, cost %g", v->l1, v->failure, v->cost);
		assert_int_equal(kedge__sync_best(&as.levels, &sync, NULL), 0);
		assert_int_equal(kedge__async_best(&as, &async, NULL), 0);
		check_near(id, sync.expect.efficiency, v->sync_efficiency, 1e-6);
		check_near(id, async.expect.efficiency, v->async_efficiency, 1e-6);
		if (v->sync_efficiency < 1e-3) /* an absolute tolerance says nothing there */
			check_relative(id, sync.expect.efficiency, v->sync_efficiency, 1e-3);
		if (v->async_segments > 0)
			assert_int_equal(async.segments, v->async_segments);
		assert_true(kedge__async_incomplete(&as, async.interval, async.counts) == async.incomplete);
	}
}

/* Cost, mean time between failures, exact optimum, efficiency with restart = cost. */
static const double single_vectors[][4] = {
    {60, 1e7, 34601.028, 0.996534}, {60, 1e5, 3424.218, 0.965179},   {60, 1e4, 1055.816, 0.889068},
    {300, 1e4, 2253.707, 0.751735}, {5000, 1e4, 6982.904, 0.182996},
};

static void test_single_level(void **state)
{
	(void)state;
	for (size_t i = 0; i < KEDGE__COUNT(single_vectors); i++) {
		const double *v = single_vectors[i];
		struct kedge__levels lv = {1, {1 / v[1]}, {v[0]}, {v[0]}};
		struct kedge__sync_plan plan;

		assert_int_equal(kedge__sync_best(&lv, &plan, NULL), 0);
		check_relative("exact optimum", kedge__single_best(1 / v[1], v[0]), v[2], 1e-6);
		check_relative("searched optimum", plan.interval, v[2], 1e-5);
		check_near("efficiency", plan.expect.efficiency, v[3], 1e-6);
	}
}

static void test_young_and_daly(void **state)
{
	static const double daly[] = {34601.028, 3424.217, 1055.810, 2253.572, 6944.444};
	static const double young[] = {34641.016, 3464.102, 1095.445, 2449.490, 10000};
	double last_young = 1, last_daly = 1;

	(void)state;
	for (size_t i = 0; i < KEDGE__COUNT(single_vectors); i++) {
		const double *v = single_vectors[i];

		check_relative("Daly", kedge__daly_interval(v[1], v[0]), daly[i], 1e-6);
		check_relative("Young", kedge__young_interval(v[1], v[0]), young[i], 1e-6);
	}
	assert_true(kedge__daly_interval(100, 200) == 100);
	for (double mtbf = 1e3; mtbf < 1e12; mtbf *= 100) {
		double exact = kedge__single_best(1 / mtbf, 60);
		double off_young = kedge__young_interval(mtbf, 60) / exact - 1;
		double off_daly = fabs(kedge__daly_interval(mtbf, 60) / exact - 1);

		assert_true(off_young < last_young && (off_daly < last_daly || off_daly < 1e-9));
		last_young = off_young;
		last_daly = off_daly;
	}
	assert_true(last_young < 1e-4 && last_daly < 1e-9);
}

static void test_equal_levels(void **state)
{
	struct kedge__levels lv = {2, {1e-5, 1e-8}, {30, 30}, {30, 30}};
	struct kedge__sync_plan plan;

	(void)state;
	assert_int_equal(kedge__sync_best(&lv, &plan, NULL), 0);
	assert_int_equal(plan.counts[0], 0);
	check_relative("interval", plan.interval, 2428.307, 1e-5);
}

/* Efficiency of the best interval for given counts, by a plain scan. */
static double scan_intervals(const struct kedge__levels *lv, const uint64_t *counts, double from, double to)
{
	double best = 0;

	for (double t = from; t < to; t *= 1.01) {
		struct kedge__expectation e;

		assert_int_equal(kedge__sync_expect(lv, t, counts, &e, NULL), 0);
		best = fmax(best, e.efficiency);
	}
	return best;
}

static void test_three_levels(void **state)
{
	static const struct kedge__levels machines[] = {
	    {3, {7.78e-6, 5.19e-7, 3e-8}, {9, 50, 438}, {9, 50, 438}},
	    {3, {1e-4, 2e-5, 1e-5}, {5, 30, 300}, {6, 40, 500}},
	    {3, {1e-5, 1e-7, 5e-6}, {5, 200, 210}, {6, 40, 500}},
	};

	(void)state;
	for (size_t i = 0; i < KEDGE__COUNT(machines); i++) {
		struct kedge__sync_plan plan;
		double best = 0;

		assert_int_equal(kedge__sync_best(&machines[i], &plan, NULL), 0);
		for (uint64_t a = 0; a <= 16; a++)
			for (uint64_t b = 0; b <= 16; b++)
				best = fmax(best, scan_intervals(&machines[i], (uint64_t[]){a, b, 1}, plan.interval / 4,
								 plan.interval * 4));
		assert_true(plan.expect.efficiency >= best - 1e-9);
		check_near("three levels", plan.expect.efficiency, best, 1e-4);
	}
}

/* All intervals on a fine grid, all numbers of segments: the saw-tooth has no hidden better tooth. */
static void test_async_brute_force(void **state)
{
	static const double cases[][4] = {{SET_R, 1, 1}, {SET_B, 10, 1}, {SET_R, 2, 2}};

	(void)state;
	for (size_t i = 0; i < KEDGE__COUNT(cases); i++) {
		struct kedge__async as = tsubame(cases[i][0], cases[i][1], cases[i][2], cases[i][3]);
		struct kedge__async_plan best, plan = {0};
		double found = 0;

		assert_int_equal(kedge__async_best(&as, &best, NULL), 0);
		for (double t = 200; t < 20000; t *= 1.002) {
			plan.interval = t;
			plan.incomplete = kedge__async_incomplete(&as, t, plan.counts);
			for (plan.segments = plan.incomplete; plan.segments < plan.incomplete + 12; plan.segments++) {
				assert_int_equal(kedge__async_expect(&as, &plan, NULL), 0);
				found = fmax(found, plan.expect.efficiency);
			}
		}
		assert_true(best.expect.efficiency >= found);
		check_near("async", best.expect.efficiency, found, 2e-4);
	}
}

static void test_async_three_levels(void **state)
{
	struct kedge__async as = {
	    .levels = {3, {1e-4, 2e-5, 1e-5}, {5, 30, 0}, {6, 40, 500}}, .alpha = 0.01, .latency = 900};
	struct kedge__async_plan best, plan = {0};
	double found = 0;

	(void)state;
	assert_int_equal(kedge__async_best(&as, &best, NULL), 0);
	for (double t = 50; t < 2000; t *= 1.02)
		for (plan.counts[0] = 0; plan.counts[0] < 10; plan.counts[0]++) {
			plan.interval = t;
			plan.incomplete = kedge__async_incomplete(&as, t, plan.counts);
			for (plan.segments = plan.incomplete; plan.segments < plan.incomplete + 6; plan.segments++) {
				assert_int_equal(kedge__async_expect(&as, &plan, NULL), 0);
				found = fmax(found, plan.expect.efficiency);
			}
		}
	assert_true(best.expect.efficiency >= found);
	check_near("async with three levels", best.expect.efficiency, found, 1e-3);
}

static void test_no_failures(void **state)
{
	struct kedge__async as = tsubame(0, 0, 1, 1);
	struct kedge__sync_plan sync;
	struct kedge__async_plan async;
	char text[256];

	(void)state;
	assert_int_equal(kedge__sync_best(&as.levels, &sync, NULL), 0);
	assert_int_equal(kedge__async_best(&as, &async, NULL), 0);
	assert_true(isinf(sync.interval) && sync.expect.efficiency == 1);
	assert_true(isinf(async.interval) && async.expect.efficiency == 1);
	assert_null(kedge__levels_verdict(&as.levels, 1, text, sizeof(text)));
	assert_true(isinf(kedge__single_best(0, 10)));
	assert_true(kedge__bare_expect(0, 5, 100) == 100);
}

static void test_zeros_and_extremes(void **state)
{
	static const struct kedge__levels machines[] = {
	    {2, {1e-5, 1e-6}, {0, 0}, {0, 0}},
	    {2, {1e-5, 0}, {30, 300}, {30, 300}},
	    {2, {0, 1e-5}, {30, 300}, {30, 300}},
	    {2, {1e-5, 0}, {30, 300}, {0, 300}},
	    {2, {1e-15, 1e-16}, {30, 300}, {30, 300}},
	    {2, {1e-5, 1e-6}, {1e-9, 1e9}, {1e-9, 1e9}},
	    {2, {1e3, 1e2}, {1e-6, 1e-5}, {1e-6, 1e-5}},
	    {2, {1e300, 1e300}, {1e-300, 1e-300}, {1e-300, 1e-300}},
	    {2, {1e-310, 1e-310}, {1e10, 1e10}, {1, 1}},
	    {2, {1e3, 1e3}, {1e5, 1e6}, {1, 1}},
	    {2, {1e-9, 1e-9}, {1e-300, 1e300}, {0, 1e300}},
	    {2, {1e9, 1e-9}, {1e-15, 70}, {0, 1}},
	};

	(void)state;
	for (size_t i = 0; i < KEDGE__COUNT(machines); i++) {
		struct kedge__async as = {.levels = machines[i], .latency = machines[i].cost[1]};
		struct kedge__sync_plan sync;
		struct kedge__async_plan async;

		assert_int_equal(kedge__sync_best(&as.levels, &sync, NULL), 0);
		assert_int_equal(kedge__async_best(&as, &async, NULL), 0);
		assert_true(sync.interval > 0 && sync.expect.efficiency >= 0 && sync.expect.efficiency <= 1);
		assert_true(async.interval > 0 && async.expect.efficiency >= 0 && async.expect.efficiency <= 1);
		assert_true(async.incomplete <= async.segments);
	}
}

static void test_hopeless(void **state)
{
	struct kedge__levels lv = {2, {1.0 / 120, 1.0 / 120}, {72.5, 6380}, {72.5, 6380}};
	struct kedge__levels slow = {2, {1e-4, 1e-4}, {100, 50000}, {100, 50000}};
	struct kedge__sync_plan plan;
	char text[256];

	(void)state;
	assert_int_equal(kedge__sync_best(&lv, &plan, NULL), 0);
	assert_string_equal(kedge__levels_verdict(&lv, plan.expect.efficiency, text, sizeof(text)),
			    "the job cannot finish: a failure comes every 60 s on average, but even the cheapest "
			    "checkpoint takes 72.5 s");
	assert_int_equal(kedge__sync_best(&slow, &plan, NULL), 0);
	assert_string_equal(kedge__levels_verdict(&slow, plan.expect.efficiency, text, sizeof(text)),
			    "the job cannot finish in useful time: a failure comes every 5000 s on average, but a "
			    "level-2 checkpoint takes 50000 s");
	assert_null(kedge__levels_verdict(&slow, 0.5, text, sizeof(text)));
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_vectors),
	    cmocka_unit_test(test_single_level),
	    cmocka_unit_test(test_young_and_daly),
	    cmocka_unit_test(test_equal_levels),
	    cmocka_unit_test(test_three_levels),
	    cmocka_unit_test(test_async_brute_force),
	    cmocka_unit_test(test_async_three_levels),
	    cmocka_unit_test(test_no_failures),
	    cmocka_unit_test(test_zeros_and_extremes),
	    cmocka_unit_test(test_hopeless),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
