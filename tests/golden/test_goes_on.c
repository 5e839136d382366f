/* SPDX-License-Identifier: BSD-3-Clause */
/* A job whose versions were written by an older Kedge goes on with this one: nothing is lost, and what is new refers to
 * nothing that it could not check as well as its own. */
#include "../lib/cases.h"
#include "../lib/files.h"
#include "../lib/scratch.h"
#include "kedge/kedge.h"
#include "store/store.h"

#include <stdio.h>

#define NAME   "golden"
#define FIELD  3280 /* bytes that the regions of version 3 of store `basic` have */
#define NEWEST 3

static char scratch[FILES_PATH];
static int warnings;

struct state {
	double field[FIELD / 8];
	int32_t step;
};

static void count_warnings(void *user, enum kedge_log_level level, const char *text)
{
	(void)user;
	warnings += level == KEDGE_LOG_WARNING && strstr(text, "older Kedge");
}

static kedge_t *job_open(struct state *s)
{
	char l1[FILES_PATH + 8], l2[FILES_PATH + 8];
	const char *settings[] = {l1, l2, "reducer=tree", "chunk=32", "threads=1", NULL};
	const size_t dims[] = {FIELD / 80, 10};
	kedge_t *k;

	snprintf(l1, sizeof(l1), "l1=%s/l1", scratch);
	snprintf(l2, sizeof(l2), "l2=%s/l2", scratch);
	assert_int_equal(kedge_open(NAME, NULL, settings, &k), 0);
	assert_int_equal(kedge_protect_array(k, "field", s->field, KEDGE_F64, 2, dims), 0);
	assert_int_equal(kedge_protect(k, "step", &s->step, 1, KEDGE_I32), 0);
	return k;
}

static void path_of(const char *level, char path[FILES_PATH + 8])
{
	snprintf(path, FILES_PATH + 8, "%s/%s", scratch, level);
}

/* All is intact; of VERSION, which needs COUNT others, digests are by RULE. */
static void check_level(const char *level, uint64_t version, size_t count, enum kedge__sum_rule rule)
{
	struct kedge__verify_report report;
	struct kedge__catalog *cat;
	struct kedge__lineage *l;
	char path[FILES_PATH + 8];

	path_of(level, path);
	assert_int_equal(kedge__catalog_open(path, NAME, KEDGE__CATALOG_READ, &cat, NULL), 0);
	assert_int_equal(kedge__verify(cat, NULL, KEDGE_NEWEST, NULL, NULL, NULL, &report, NULL), 0);
	assert_int_equal(report.findings + report.versions_lost, 0);
	kedge__verify_report_done(&report);
	assert_int_equal(kedge__lineage_open(&cat, 1, version, 0, &l, NULL), 0);
	assert_int_equal(kedge__lineage_top(l)->source_count, count);
	assert_int_equal(kedge__lineage_top(l)->regions[0].rule, rule);
	kedge__lineage_close(l);
	kedge__catalog_close(cat);
}

static void restart(uint64_t version, const struct state *want)
{
	struct state got;
	uint64_t restored;
	kedge_t *k = job_open(&got);

	assert_int_equal(kedge_restart(k, version, &restored), 0);
	assert_int_equal(restored, version);
	assert_memory_equal(got.field, want->field, sizeof(got.field));
	assert_int_equal(got.step, want->step);
	assert_int_equal(kedge_close(k), 0);
}

static void test_goes_on(void **state)
{
	struct state now = {{0}, 0}, old;
	char path[FILES_PATH + 8];
	uint64_t restored;
	kedge_t *k;

	(void)state;
	scratch_make(scratch, sizeof(scratch), "goes-on");
	path_of("l1", path);
	tree_copy(GOLDEN_DIR "/v1/basic", path);
	check_level("l1", NEWEST, 1, KEDGE__SUM_ROWS);
	kedge_set_log(count_warnings, NULL);
	k = job_open(&now);
	assert_int_equal(kedge_restart(k, KEDGE_NEWEST, &restored), 0);
	assert_int_equal(restored, NEWEST);
	old = now;
	for (uint64_t v = NEWEST + 1; v <= NEWEST + 3; v++) {
		now.field[7 * v] += 1;
		now.step++;
		assert_int_equal(kedge_checkpoint(k, v), 0);
		assert_int_equal(kedge_wait(k), 0);
	}
	assert_int_equal(warnings, 1);
	assert_int_equal(kedge_close(k), 0);
	kedge_set_log(NULL, NULL);
	check_level("l1", NEWEST, 1, KEDGE__SUM_ROWS);
	check_level("l1", NEWEST + 1, 0, KEDGE__SUM_PAGES);
	check_level("l1", NEWEST + 2, 1, KEDGE__SUM_PAGES);
	restart(NEWEST + 3, &now);
	restart(NEWEST, &old);
	path_of("l1", path);
	assert_int_equal(tree_remove(path), 0);
	restart(NEWEST + 3, &now); /* from L2 */
	scratch_remove(scratch);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_goes_on),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
