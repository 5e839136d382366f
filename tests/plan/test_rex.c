/* SPDX-License-Identifier: BSD-3-Clause */
/* REX: the coalescing rule, and the run-time rule of Table 1. */
#include "check.h"
#include "plan/plan.h"

static void test_rule(void **state)
{
	static const struct {
		double full, cost, restore, interval, mtbf;
		uint64_t least;
	} all[] = {
	    {60, 30, 15, 854, 10000, 24},       {60, 15, 7.5, 854, 10000, 73}, {60, 7.5, 3.75, 500, 10000, 287},
	    {60, 30, 15, 400, 10000, 51},       {60, 30, 15, 854, 1000, 3},    {120, 10, 2, 600, 50000, 4610},
	    {60, 60, 15, 854, 10000, 0},        {10, 60, 15, 854, 10000, 0},   {60, 30, 0, 854, 10000, UINT64_MAX},
	    {60, 30, 15, 0, 10000, UINT64_MAX},
	};

	(void)state;
	for (size_t i = 0; i < KEDGE__COUNT(all); i++)
		assert_true(kedge__rex_coalesce(all[i].full, all[i].cost, all[i].restore, all[i].interval,
						all[i].mtbf) == all[i].least);
}

/* The smallest n for which equation (1) of the paper is not above equation (2). */
static void test_rule_by_its_equations(void **state)
{
	(void)state;
	for (double cost = 5; cost < 60; cost += 7.7) {
		double p = -expm1(-700.0 / 9000), full = 60, restore = 11, gamma = 30, n = 0;

		while ((1 - p) * (2 * full + n * cost) + p * (2 * full + n * cost + gamma) >
		       (1 - p) * (full + (n + 1) * cost) + p * (full + (n + 1) * cost + gamma + (n + 1) * restore))
			n++;
		assert_true(kedge__rex_coalesce(full, cost, restore, 700, 9000) == (uint64_t)n);
	}
}

static void test_run_time_rule(void **state)
{
	(void)state;
	for (int r = 0; r < KEDGE__REX_ROWS; r++)
		for (int c = 0; c < KEDGE__REX_COLUMNS; c++)
			assert_int_equal(kedge__rex_table_lookup(kedge__rex_table_ic[r], kedge__rex_table_cr[c]),
					 kedge__rex_table[r][c]);
	assert_int_equal(kedge__rex_table_lookup(1e-9, 0.1), 9);
	assert_int_equal(kedge__rex_table_lookup(5, 1000), 4);
	assert_int_equal(kedge__rex_table_lookup(0.7, 1.5), 6); /* 5.75 */
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_rule),
	    cmocka_unit_test(test_rule_by_its_equations),
	    cmocka_unit_test(test_run_time_rule),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
