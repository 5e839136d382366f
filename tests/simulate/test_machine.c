/* SPDX-License-Identifier: BSD-3-Clause */
/* Descriptions of machines: what follows from what, and what contradicts what. */
#include "../plan/check.h"
#include "simulate/simulate.h"
#include <stdlib.h>
#include <unistd.h>

struct pair {
	const char *key, *value;
};

#define LIST(...) ((const struct pair[]){__VA_ARGS__, {NULL, NULL}})

static void fill(const struct pair *list, const char *values[KEDGE__MACHINE_KEY_COUNT])
{
	memset(values, 0, sizeof(values[0]) * KEDGE__MACHINE_KEY_COUNT);
	for (; list->key != NULL; list++) {
		enum kedge__machine_key key = kedge__machine_key_find(list->key);

		assert_true(key < KEDGE__MACHINE_KEY_COUNT);
		values[key] = list->value;
	}
}

static int resolve(const struct pair *list, bool background, struct kedge__machine *out, struct kedge__error *err)
{
	const char *values[KEDGE__MACHINE_KEY_COUNT];
	struct kedge__machine_text text;
	int rc;

	fill(list, values);
	assert_int_equal(kedge__machine_text_init(&text, NULL), 0);
	rc = kedge__machine_text_override(&text, values, err);
	if (rc == 0)
		rc = kedge__machine_resolve(&text, background, out, err);
	kedge__machine_text_done(&text);
	return rc;
}

#define TSUBAME                                                                                                        \
	{"nodes", "1408"}, {"size", "29GB"}, {"l1-rate", "400MB/s"}, {"pfs", "6.4GB/s"},                               \
	{                                                                                                              \
		"rates", "2.13e-6,4.27e-7"                                                                             \
	}

static void test_derived(void **state)
{
	struct kedge__machine m;

	(void)state;
	assert_int_equal(resolve(LIST(TSUBAME), false, &m, NULL), 0);
	assert_int_equal(m.async.levels.count, 2);
	check_relative("L1", m.async.levels.cost[0], 72.5, 1e-12);
	check_relative("L2", m.async.levels.cost[1], 6380, 1e-12);
	check_relative("restart", m.async.levels.restart[1], 6380, 1e-12);
	check_relative("latency", m.async.latency, 6380, 1e-12);
	assert_true(m.work == 30 * 86400.0 && m.async.alpha == 0);
	assert_int_equal(resolve(LIST(TSUBAME, {"failure", "10"}, {"cost", "2"}), false, &m, NULL), 0);
	check_relative("factor on rates", m.async.levels.rate[0], 2.13e-5, 1e-12);
	check_relative("factor on the top level", m.async.levels.restart[1], 12760, 1e-12);
	check_relative("not on level 1", m.async.levels.cost[0], 72.5, 1e-12);
}

static void test_staging(void **state)
{
	struct kedge__machine m;

	(void)state;
	assert_int_equal(resolve(LIST(TSUBAME, {"staging", "32"}, {"alpha_slope", "0.008768"}), false, &m, NULL), 0);
	check_relative("alpha", m.async.alpha, 0.008768 * 0.2, 1e-12);
	assert_int_equal(resolve(LIST(TSUBAME, {"staging", "2"}, {"staging_rate", "1.6GB/s"}), false, &m, NULL), 0);
	check_relative("two staging nodes are the limit", m.async.latency, 12760, 1e-12);
}

static void test_rates(void **state)
{
	struct kedge__machine m;

	(void)state;
	assert_int_equal(resolve(LIST({"mtbf", "13h"}, {"shares", "84%,16%"}, {"costs", "60,600"}), false, &m, NULL),
			 0);
	check_relative("share", m.async.levels.rate[1], 0.16 / 46800, 1e-12);
	check_relative("restart as cost", m.async.levels.restart[1], 600, 1e-12);
	assert_int_equal(resolve(LIST({"node_mtbf", "5y"}, {"nodes", "1000"}, {"costs", "60"}), false, &m, NULL), 0);
	check_relative("nodes", m.async.levels.rate[0], 1000 / (5 * 31557600.0), 1e-12);
	assert_int_equal(
	    resolve(LIST({"rates", "1/d,1/w"}, {"costs", "60"}, {"restarts", "60,600"}, {"latency", "900"}), true, &m,
		    NULL),
	    0);
	check_relative("the top level costs its latency", m.async.levels.cost[1], 900, 1e-12);
}

struct wrong {
	const struct pair *list;
	const char *message;
};

static void test_contradictions(void **state)
{
	const struct wrong all[] = {
	    {LIST(TSUBAME, {"mtbf", "13h"}),
	     "rates and mtbf are both given, but each sets the failure rates; give only one"},
	    {LIST(TSUBAME, {"shares", "1"}),
	     "rates and shares are both given, but each sets the failure rates; give only one"},
	    {LIST({"mtbf", "1h"}, {"node_mtbf", "1y"}),
	     "mtbf and node_mtbf are both given, but each sets the mean time between failures; give only one"},
	    {LIST(TSUBAME, {"costs", "1,2"}),
	     "costs and l1_rate are both given, but each sets the costs of checkpoints; give only one"},
	    {LIST(TSUBAME, {"alpha", "1"}, {"alpha_slope", "1"}),
	     "alpha and alpha_slope are both given, but each sets the slow-down; give only one"},
	    {LIST({"costs", "60,600"}), "failure rates are missing: give rates, or mtbf (or node_mtbf) and shares"},
	    {LIST({"mtbf", "0"}, {"costs", "60"}), "the mean time between failures must be greater than 0"},
	    {LIST({"node_mtbf", "1y"}, {"costs", "60"}), "node_mtbf needs nodes"},
	    {LIST({"mtbf", "1h"}, {"shares", "0.5,0.4"}, {"costs", "1,2"}), "shares add up to 0.9, not to 1"},
	    {LIST({"rates", "1/d,1/w"}, {"costs", "1,2,3"}), "costs has 3 values, but failures have 2 levels"},
	    {LIST({"rates", "1/d,1/w"}, {"costs", "1"}), "costs has 1 values, but failures have 2 levels"},
	    {LIST({"rates", "1/d,1/w"}, {"costs", "1,2"}, {"restarts", "1"}),
	     "restarts has 1 values, but failures have 2 levels"},
	    {LIST({"rates", "1/d,1/w"}), "nodes is missing: give costs, or nodes, size, l1_rate and pfs"},
	    {LIST({"rates", "1/d,1/w"}, {"nodes", "5"}, {"size", "1GB"}, {"pfs", "0"}), "pfs must be greater than 0"},
	    {LIST({"rates", "1/d,1/w"}, {"nodes", "5"}, {"size", "1GB"}, {"pfs", "1GB/s"}),
	     "l1_rate is missing: give costs, or nodes, size, l1_rate and pfs"},
	    {LIST({"rates", "1/d,1/w,1/y"}, {"nodes", "5"}, {"size", "1GB"}, {"pfs", "1GB/s"}),
	     "failures have 3 levels: with more than 2, give costs"},
	    {LIST(TSUBAME, {"alpha_slope", "1"}), "alpha_slope needs staging and pfs"},
	    {LIST(TSUBAME, {"staging", "0"}, {"staging_rate", "1GB/s"}),
	     "no data reaches the file system: staging, staging_rate or pfs_read is 0"},
	    {LIST(TSUBAME, {"work", "0"}), "work must be greater than 0"},
	    {LIST({"rates", "1/d"}, {"costs", "29GB"}),
	     "costs: '29GB' has an unknown unit: expected a time such as 90, 90s, 15min, 13h, 30d, 2y"},
	};

	(void)state;
	for (size_t i = 0; i < KEDGE__COUNT(all); i++) {
		struct kedge__machine m = {.work = 42};
		struct kedge__error err = KEDGE__ERROR_INIT;

		check_error(resolve(all[i].list, false, &m, &err), &err, KEDGE_E_ARG, all[i].message);
		assert_true(m.work == 42);
	}
}

static char *write_file(const char *text)
{
	static char path[64];
	FILE *f;

	snprintf(path, sizeof(path), "%s/kedge-machine-XXXXXX", getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/tmp");
	f = fdopen(mkstemp(path), "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
	return path;
}

static void test_file(void **state)
{
	char *path = write_file("name = Example\nrates = 1e-5, 1e-6\ncosts = 60, 600\nalpha = 0.1\n");
	const char *values[KEDGE__MACHINE_KEY_COUNT];
	struct kedge__machine_text t;
	struct kedge__machine m;

	(void)state;
	assert_int_equal(kedge__machine_text_init(&t, NULL), 0);
	assert_int_equal(kedge__machine_text_load(&t, path, NULL), 0);
	assert_string_equal(t.value[KEDGE__MACHINE_NAME], "Example");
	fill(LIST({"mtbf", "1h"}, {"shares", "0.9,0.1"}), values);
	assert_int_equal(kedge__machine_text_override(&t, values, NULL), 0); /* what the file says of rates gives way */
	assert_int_equal(kedge__machine_resolve(&t, false, &m, NULL), 0);
	check_relative("overridden", m.async.levels.rate[0], 0.9 / 3600, 1e-12);
	check_relative("kept", m.async.levels.cost[1], 600, 1e-12);
	kedge__machine_text_done(&t);
	unlink(path);
}

static void test_misspelt(void **state)
{
	char *path = write_file("nodse = 5\n");
	struct kedge__machine_text t;
	struct kedge__error err = KEDGE__ERROR_INIT;

	(void)state;
	assert_int_equal(kedge__machine_text_init(&t, NULL), 0);
	assert_int_equal(kedge__machine_text_load(&t, path, &err), KEDGE_E_CONFIG);
	assert_non_null(strstr(kedge__error_text(&err), "nodes"));
	kedge__error_done(&err);
	kedge__machine_text_done(&t);
	unlink(path);
}

static void test_keys(void **state)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	double x;

	(void)state;
	assert_int_equal(kedge__machine_key_find("l1-rate"), KEDGE__MACHINE_L1_RATE);
	assert_int_equal(kedge__machine_key_find("l1_rate"), KEDGE__MACHINE_L1_RATE);
	assert_int_equal(kedge__machine_key_find("l1"), KEDGE__MACHINE_KEY_COUNT);
	assert_int_equal(kedge__machine_quantity(KEDGE__MACHINE_PFS, "10GB/s", &x, NULL), 0);
	assert_true(x == 1e10);
	check_error(kedge__machine_quantity(KEDGE__MACHINE_COSTS, "1", &x, &err), &err, KEDGE_E_ARG,
		    "costs is not a single number");
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_derived),        cmocka_unit_test(test_staging), cmocka_unit_test(test_rates),
	    cmocka_unit_test(test_contradictions), cmocka_unit_test(test_file),    cmocka_unit_test(test_misspelt),
	    cmocka_unit_test(test_keys),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
