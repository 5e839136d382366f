/* SPDX-License-Identifier: BSD-3-Clause */
/* REX: the closed form, Table 1, the simulation. */
#include "../plan/check.h"
#include "simulate/simulate.h"
#include <stdlib.h>

struct vector {
	double ic, ratio, cores, bandwidth;
	uint64_t chi;
	double delta, restore, full;
	uint64_t deltas;
	double closed, simulated, error; /* simulated by another program, and its standard error */
};

static const struct vector vectors[] = {
    {0.5, 2, 4, 1, 3, 30, 15, 60, 35, 1.038070, 1.03805, 0.00028},
    {0.5, 2, 4, 1, 6, 30, 15, 60, 18, 1.034180, 1.03391, 0.00036},
    {0.5, 2, 4, 1, 9, 30, 15, 60, 12, 1.035937, 1.03562, 0.00047},
    {0.0625, 1, 4, 1, 4, 4.8488, 3.5775, 77.58, 858, 1.017682, 1.01802, 0.00018},
    {0.0625, 1, 4, 1, 9, 4.8488, 3.5775, 77.58, 387, 1.015121, 1.01536, 0.00019},
    {1, 16, 4, 1, 4, 44.6175, 6.165, 44.6175, 0, 1.040736, 1.04143, 0.00035},
    {1, 16, 4, 1, 8, 44.6175, 6.165, 44.6175, 0, 1.044978, 1.04551, 0.00060},
    {0.5, 2, 1, 1, 6, 30, 15, 60, 18, 1.054630, 1.05479, 0.00036},
    {0.5, 2, 1, 1, 12, 30, 15, 60, 9, 1.049818, 1.04994, 0.00060},
    {0.5, 2, 4, 0.125, 6, 91.53, 110.34, 183.06, 7, 1.054752, 1.05545, 0.00051},
    {0.5, 2, 4, 0.125, 12, 91.53, 110.34, 183.06, 4, 1.051106, 1.05088, 0.00069},
};

static struct kedge__rex preset(const char *name, const struct vector *v)
{
	struct kedge__rex rex;

	assert_int_equal(kedge__rex_preset(name, &rex, NULL), 0);
	if (v != NULL) {
		rex.ic = v->ic;
		rex.ratio = v->ratio;
		rex.cores = v->cores;
		rex.bandwidth = v->bandwidth;
	}
	return rex;
}

static void test_closed_form(void **state)
{
	(void)state;
	for (size_t i = 0; i < KEDGE__COUNT(vectors); i++) {
		const struct vector *v = &vectors[i];
		struct kedge__rex rex = preset("fit-a", v);
		struct kedge__rex_costs c;

		kedge__rex_derive(&rex, v->chi, &c);
		check_near("delta", c.delta, v->delta, 5.1e-5);
		check_near("restore of a delta", c.delta_restore, v->restore, 5.1e-5);
		check_near("full", c.full, v->full, 5.1e-5);
		assert_true(c.deltas == v->deltas);
		check_near("ratio", kedge__rex_ratio(&rex, v->chi), v->closed, 5.1e-7);
	}
}

static void test_simulation(void **state)
{
	(void)state;
	for (size_t i = 0; i < KEDGE__COUNT(vectors); i++) {
		const struct vector *v = &vectors[i];
		struct kedge__rex rex = preset("fit-a", v);
		struct kedge__rex_sim_result r;

		assert_int_equal(kedge__rex_simulate(&rex, v->chi, NULL, 2000, 1, NULL, &r, NULL), 0);
		check_near("another simulator", r.ratio, v->simulated, 3.5 * hypot(v->error, r.error));
		/* The closed form is of first order in failures: right to a part in a thousand here. */
		check_near("closed form", r.ratio, v->closed, 1e-3 + 3.5 * r.error);
		check_near("transient failures", r.transient, 0.84 * 3.24 * r.ratio, 0.15);
		check_near("permanent failures", r.permanent, 0.16 * 3.24 * r.ratio, 0.07);
	}
}

static void compare_table(const char *name, int *exact, int *near)
{
	*exact = *near = 0;
	for (int r = 0; r < KEDGE__REX_ROWS; r++)
		for (int c = 0; c < KEDGE__REX_COLUMNS; c++) {
			struct kedge__rex rex = preset(name, NULL);
			int chi;

			rex.ic = kedge__rex_table_ic[r];
			rex.ratio = kedge__rex_table_cr[c];
			chi = (int)kedge__rex_best(&rex);
			*exact += chi == kedge__rex_table[r][c];
			*near += abs(chi - kedge__rex_table[r][c]) <= 1;
		}
}

static void test_table_1(void **state)
{
	static const struct {
		const char *name;
		int exact, near, cores[4], bandwidth[4];
	} all[] = {
	    {"fit-a", 29, 36, {10, 8, 6, 5}, {6, 7, 7, 10}},  {"fit-b", 31, 35, {13, 9, 7, 4}, {7, 7, 9, 11}},
	    {"natural", 25, 34, {9, 7, 6, 5}, {6, 7, 9, 12}}, {"v1", 5, 13, {17, 12, 9, 7}, {9, 11, 11, 11}},
	    {"v3", 2, 9, {14, 11, 8, 6}, {8, 10, 10, 10}},    {"v5", 18, 31, {14, 10, 7, 6}, {7, 9, 12, 16}},
	    {"v8", 24, 32, {14, 10, 7, 5}, {7, 8, 11, 14}},
	};

	(void)state;
	for (size_t i = 0; i < KEDGE__COUNT(all); i++) {
		int exact, near;

		compare_table(all[i].name, &exact, &near);
		assert_int_equal(exact, all[i].exact);
		assert_int_equal(near, all[i].near);
		for (int k = 0; k < 4; k++) {
			struct kedge__rex more = preset(all[i].name, NULL), less = more;

			more.cores = 1 << k;
			less.bandwidth = 1.0 / (1 << k);
			assert_int_equal(kedge__rex_best(&more), all[i].cores[k]);
			assert_int_equal(kedge__rex_best(&less), all[i].bandwidth[k]);
		}
		assert_string_equal(kedge__rex_preset_name(i), all[i].name);
	}
	assert_null(kedge__rex_preset_name(KEDGE__COUNT(all)));
}

static void test_refused(void **state)
{
	struct kedge__rex rex;
	struct kedge__rex_sim_result r;
	struct kedge__error err = KEDGE__ERROR_INIT;

	(void)state;
	check_error(kedge__rex_preset("fit-c", &rex, &err), &err, KEDGE_E_ARG, "no preset 'fit-c'; did you mean 'fit-a'?");
	rex = preset("v1", NULL);
	check_error(kedge__rex_simulate(&rex, 5, NULL, 10, 1, NULL, &r, &err), &err, KEDGE_E_ARG,
		    "the work is inf s: a simulation needs an end");
	rex = preset("fit-a", NULL);
	rex.ic = 2;
	check_error(kedge__rex_check(&rex, &err), &err, KEDGE_E_ARG,
		    "the fraction of an incremental checkpoint is 2: it must be 1e-09 to 1");
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_closed_form),
	    cmocka_unit_test(test_simulation),
	    cmocka_unit_test(test_table_1),
	    cmocka_unit_test(test_refused),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
