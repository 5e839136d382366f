/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/metrics.h"
#include "support.h"

#include <math.h>

static void ends_as(struct kedge__metrics *m, const char *wanted)
{
	size_t bytes = 0;
	char *text = NULL;

	assert_int_equal(kedge__metrics_end(m, &text, &bytes, NULL), 0);
	assert_string_equal(text, wanted);
	assert_int_equal(bytes, strlen(wanted));
	kedge__free(text);
}

static void families_and_samples(void **state)
{
	const struct kedge__metric_label labels[] = {{"job", "heat"}, {"level", "L2"}, {NULL, NULL}},
					 none = {NULL, NULL};
	struct kedge__metrics m = {.failed = false};

	(void)state;
	ends_as(&m, "");
	kedge__metrics_one(&m, "kedge_a_total", KEDGE__METRIC_COUNTER, "What a is.", UINT64_MAX);
	kedge__metrics_family(&m, "kedge_b_seconds", KEDGE__METRIC_GAUGE, "What b is.");
	kedge__metrics_real(&m, labels, 0.5);
	kedge__metrics_real(&m, &none, INFINITY);
	kedge__metrics_real(&m, NULL, NAN);
	kedge__metrics_uint(&m, labels, 7);
	ends_as(&m,
		"# HELP kedge_a_total What a is.\n# TYPE kedge_a_total counter\nkedge_a_total 18446744073709551615\n"
		"# HELP kedge_b_seconds What b is.\n# TYPE kedge_b_seconds gauge\n"
		"kedge_b_seconds{job=\"heat\",level=\"L2\"} 0.5\nkedge_b_seconds +Inf\nkedge_b_seconds NaN\n"
		"kedge_b_seconds{job=\"heat\",level=\"L2\"} 7\n");
}

/* Whatever a name has in it, it ends neither the value nor the line. */
static void labels_are_escaped(void **state)
{
	static const char *const pairs[][2] = {
	    {"a\"b\\c\nd", "a\\\"b\\\\c\\nd"},
	    {"\xc3\xa9\xe2\x82\xac\xf0\x9f\x9a\xa2", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x9a\xa2"},
	    {"\xff\xc3", "\xef\xbf\xbd\xef\xbf\xbd"},                 /* no character, and half of one */
	    {"\xc0\xaf", "\xef\xbf\xbd\xef\xbf\xbd"},                 /* too long for its value */
	    {"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"}, /* a surrogate */
	    {"\xf4\x90\x80\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"}, /* above all */
	};

	(void)state;
	for (size_t i = 0; i < KEDGE__COUNT(pairs); i++) {
		const struct kedge__metric_label labels[] = {{"job", pairs[i][0]}, {NULL, NULL}};
		struct kedge__metrics m = {.failed = false};
		char *wanted = kedge__asprintf("x{job=\"%s\"} 1\n", pairs[i][1]);

		m.name = "x";
		kedge__metrics_uint(&m, labels, 1);
		ends_as(&m, wanted);
		kedge__free(wanted);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(families_and_samples),
	    cmocka_unit_test(labels_are_escaped),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
