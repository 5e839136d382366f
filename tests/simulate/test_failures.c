/* SPDX-License-Identifier: BSD-3-Clause */
/* Streams of failures: their rates, their order, traces. */
#include "../plan/check.h"
#include "simulate/simulate.h"
#include <stdlib.h>
#include <unistd.h>

#define STREAMS 400
#define SPAN    1e6

struct seen {
	double total, level[3];
};

/* Failures until SPAN, a stream. */
static struct seen count(const struct kedge__failure_model *m)
{
	struct seen seen = {0};
	struct kedge__failure_source *s;

	assert_int_equal(kedge__failure_source_new(m, &s, NULL), 0);
	for (uint64_t i = 0; i < STREAMS; i++) {
		double last = 0;

		kedge__failure_source_start(s, 11, i);
		for (;;) {
			struct kedge__failure f = kedge__failure_source_next(s);

			assert_true(f.time >= last && f.level >= 1 && f.level <= 3);
			last = f.time;
			if (f.time > SPAN)
				break;
			seen.total += 1.0 / STREAMS;
			seen.level[f.level - 1] += 1.0 / STREAMS;
		}
	}
	kedge__failure_source_free(s);
	return seen;
}

static void test_exponential(void **state)
{
	struct kedge__failure_model m = {.levels = 3, .rate = {1e-4, 0, 3e-5}};
	struct seen seen = count(&m);

	(void)state;
	check_near("level 1", seen.level[0], 100, 2);
	check_near("level 3", seen.level[2], 30, 1);
	assert_true(seen.level[1] == 0);
}

static void test_weibull(void **state)
{
	struct kedge__failure_model m = {
	    .kind = KEDGE__FAILURES_WEIBULL, .levels = 2, .rate = {1e-4, 1e-5}, .shape = 1};
	struct kedge__failure_model exponential = {.levels = 2, .rate = {1e-4, 1e-5}};

	(void)state;
	check_near("shape 1 is exponential", count(&m).total, count(&exponential).total, 2.5);
	m.shape = 2;
	check_near("shape 2 keeps the mean", count(&m).total, 110, 1.5);
	m.shape = 0.7;
	check_near("shape 0.7 keeps the mean", count(&m).total, 110, 3);
}

static void test_nodes(void **state)
{
	struct kedge__failure_model m = {
	    .kind = KEDGE__FAILURES_WEIBULL, .levels = 1, .rate = {1e-4}, .shape = 1, .nodes = 50};

	(void)state;
	check_near("nodes add up", count(&m).total, 100, 2);
	/* A machine has nodes of all ages. If all were new, those of shape 0.5 would fail several times as often. */
	m.shape = 0.5;
	check_near("shape 0.5 keeps the rate", count(&m).total, 100, 3);
	m.shape = 3;
	check_near("shape 3 keeps the rate", count(&m).total, 100, 2);
	m.nodes = 2000; /* far more than fail in the time */
	m.shape = 0.5;
	check_near("many nodes", count(&m).total, 100, 2);
	m.nodes = 1;
	check_near("one node is the machine", count(&m).total, 100, 10);
}

static void test_no_failures(void **state)
{
	struct kedge__failure_model m = {.levels = 2};
	struct kedge__failure_source *s;

	(void)state;
	for (m.kind = KEDGE__FAILURES_EXPONENTIAL; m.kind <= KEDGE__FAILURES_TRACE; m.kind++) {
		m.shape = 1;
		assert_int_equal(kedge__failure_source_new(&m, &s, NULL), 0);
		kedge__failure_source_start(s, 1, 0);
		assert_true(isinf(kedge__failure_source_next(s).time));
		kedge__failure_source_free(s);
	}
}

static char *write_file(const char *text)
{
	static char path[64];
	FILE *f;

	snprintf(path, sizeof(path), "%s/kedge-trace-XXXXXX", getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/tmp");
	f = fdopen(mkstemp(path), "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
	return path;
}

static void test_trace(void **state)
{
	char *path = write_file("# a log\nspan = 10h\n1h\n 2h 2 # the switch\n\n9000\t1\r\n9h 3");
	struct kedge__failure_model m = {.kind = KEDGE__FAILURES_TRACE, .levels = 3};
	struct kedge__failure *trace;
	struct kedge__failure_source *s;

	(void)state;
	assert_int_equal(kedge__failure_trace_load(path, 3, &trace, &m.trace_count, &m.trace_span, NULL), 0);
	assert_true(m.trace_count == 4 && m.trace_span == 36000);
	assert_true(trace[0].time == 3600 && trace[0].level == 1 && trace[1].level == 2 && trace[2].time == 9000);
	m.trace = trace;
	assert_int_equal(kedge__failure_source_new(&m, &s, NULL), 0);
	kedge__failure_source_start(s, 1, 0);
	for (int i = 0; i < 8; i++) {
		struct kedge__failure f = kedge__failure_source_next(s);

		assert_true(f.time == trace[i % 4].time + i / 4 * 36000.0 && f.level == trace[i % 4].level);
	}
	kedge__failure_source_free(s);
	check_near("from anywhere", count(&m).total, 4 * SPAN / 36000, 1);
	kedge__free(trace);
	unlink(path);
}

static void test_wrong_traces(void **state)
{
	static const char *const all[][2] = {
	    {"1h\nx\n", "line 2: 'x' is not a number: expected a time such as 90, 90s, 15min, 13h, 30d, 2y"},
	    {"1h 4", "line 1: level 4: the machine has levels 1 to 3"},
	    {"1h 1.5", "line 1: level 1.5: the machine has levels 1 to 3"},
	    {"2h\n1h", "line 2: 1h is earlier than the line before"},
	};
	struct kedge__failure *trace;
	struct kedge__error err = KEDGE__ERROR_INIT;
	size_t n;
	double span;
	char message[256];

	(void)state;
	for (size_t i = 0; i < KEDGE__COUNT(all); i++) {
		char *path = write_file(all[i][0]);

		snprintf(message, sizeof(message), "%s, %s", path, all[i][1]);
		check_error(kedge__failure_trace_load(path, 3, &trace, &n, &span, &err), &err, KEDGE_E_ARG, message);
		unlink(path);
	}
	assert_int_equal(kedge__failure_trace_load("/nonexistent", 3, &trace, &n, &span, &err), KEDGE_E_MISSING);
	kedge__error_done(&err);
}

static void test_refused(void **state)
{
	struct kedge__failure_model m = {.kind = KEDGE__FAILURES_WEIBULL, .levels = 1, .rate = {1}, .shape = 0};
	struct kedge__failure_source *s;
	struct kedge__error err = KEDGE__ERROR_INIT;

	(void)state;
	check_error(kedge__failure_source_new(&m, &s, &err), &err, KEDGE_E_ARG,
		    "the shape is 0: it must be 0.1 to 100");
	m.shape = 1;
	m.nodes = 2000000;
	check_error(kedge__failure_source_new(&m, &s, &err), &err, KEDGE_E_ARG,
		    "2000000 nodes with failures of their own: at most 1000000");
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_exponential), cmocka_unit_test(test_weibull), cmocka_unit_test(test_nodes),
	    cmocka_unit_test(test_no_failures), cmocka_unit_test(test_trace),   cmocka_unit_test(test_wrong_traces),
	    cmocka_unit_test(test_refused),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
