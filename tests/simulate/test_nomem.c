/* SPDX-License-Identifier: BSD-3-Clause */
/* Every allocation failing in turn: a clean error, nothing left behind (the address sanitizer looks), then success. */
#include "../plan/check.h"
#include "../plan/vectors.h"
#include "simulate/simulate.h"
#include <stdlib.h>
#include <unistd.h>

static int simulate(struct kedge__error *err)
{
	struct kedge__async as = tsubame(SET_R, 1, 1);
	struct kedge__flush queue = {.nodes = 100, .size = 1e9, .variation = 0.1, .servers = 4, .pfs_rate = 1e8};
	struct kedge__failure_model m = {
	    .kind = KEDGE__FAILURES_WEIBULL, .levels = 2, .rate = {1e-5, 1e-6}, .shape = 1, .nodes = 5};
	struct kedge__sim sim = {.background = true,
				 .machine = as,
				 .interval = 3112,
				 .segments = 2,
				 .flush = KEDGE__FLUSH_CLOCK,
				 .queue = &queue,
				 .failures = &m,
				 .work = 1e5,
				 .runs = 3};
	struct kedge__sim_result r;

	return kedge__sim_run(&sim, NULL, &r, err);
}

static int simulate_rex(struct kedge__error *err)
{
	struct kedge__rex rex;
	struct kedge__rex_sim_result r;
	int rc = kedge__rex_preset("fit-a", &rex, err);

	return rc != 0 ? rc : kedge__rex_simulate(&rex, 6, NULL, 2, 1, NULL, &r, err);
}

static int simulate_pccr(struct kedge__error *err)
{
	struct kedge__pccr in = {500, 0.5, 10, 2, 6400, 50, 0.65, 16};
	struct kedge__pccr_sim_result r;

	return kedge__pccr_simulate(&in, 0.1, 2, 1, NULL, &r, err);
}

static int describe(struct kedge__error *err)
{
	const char *values[KEDGE__MACHINE_KEY_COUNT] = {
	    [KEDGE__MACHINE_MTBF] = "1h", [KEDGE__MACHINE_SHARES] = "0.9,0.1", [KEDGE__MACHINE_COSTS] = "1,2"};
	struct kedge__machine_text text;
	struct kedge__machine m;
	int rc = kedge__machine_text_init(&text, err);

	if (rc != 0)
		return rc;
	rc = kedge__machine_text_override(&text, values, err);
	if (rc == 0)
		rc = kedge__machine_resolve(&text, false, &m, err);
	kedge__machine_text_done(&text);
	return rc;
}

static char trace_path[64];

static int load_trace(struct kedge__error *err)
{
	struct kedge__failure *trace;
	size_t n;
	double span;
	int rc = kedge__failure_trace_load(trace_path, 2, &trace, &n, &span, err);

	if (rc == 0)
		kedge__free(trace);
	return rc;
}

static void fail_each(int (*run)(struct kedge__error *err))
{
	int failures = 0;

	for (int n = 1;; n++) {
		struct kedge__error err = KEDGE__ERROR_INIT;
		char spec[32];
		uint64_t met;
		int rc;

		snprintf(spec, sizeof(spec), "alloc@%d", n);
		assert_int_equal(kedge__fault_set(spec, NULL), 0);
		rc = run(&err);
		met = kedge__fault_alloc_count();
		assert_int_equal(kedge__fault_set(NULL, NULL), 0);
		kedge__error_done(&err);
		if (met < (uint64_t)n) {
			assert_int_equal(rc, 0);
			break;
		}
		assert_int_equal(rc, KEDGE_E_NOMEM);
		failures++;
	}
	assert_true(failures > 0);
}

static void test_all(void **state)
{
	FILE *f;

	(void)state;
	snprintf(trace_path, sizeof(trace_path), "%s/kedge-trace-XXXXXX",
		 getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/tmp");
	f = fdopen(mkstemp(trace_path), "w");
	assert_non_null(f);
	for (int i = 0; i < 100; i++)
		fprintf(f, "%dh\n", i);
	fclose(f);
	fail_each(load_trace);
	unlink(trace_path);
	fail_each(simulate);
	fail_each(simulate_rex);
	fail_each(simulate_pccr);
	fail_each(describe);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_all)};

	return cases_run(argc, argv, tests, NULL, NULL);
}
