/* SPDX-License-Identifier: BSD-3-Clause */
/* The controller under a scripted clock. */
#include "check.h"
#include "plan/plan.h"

static const struct kedge__controller_config typical = {
    .interval = 3600, .l2_every = 10, .alpha = 0.002, .background = true};

static void feed(struct kedge__controller *c, int checkpoints, double distance, double blocked)
{
	for (int i = 0; i < checkpoints; i++) {
		kedge__controller_advance(c, distance + blocked);
		kedge__controller_checkpoint(c, blocked);
	}
}

static void expect_text(struct kedge__controller *c, bool changed, const char *text)
{
	struct kedge__decision d;

	assert_int_equal(kedge__controller_decide(c, &d), changed);
	assert_string_equal(d.text, text);
}

static void test_falls_back(void **state)
{
	struct kedge__controller c;
	struct kedge__decision d;

	(void)state;
	kedge__controller_init(&c, &typical);
	expect_text(&c, false, "configured values stay: 0 of 3 checkpoints measured");
	feed(&c, 3, 3600, 72.5);
	expect_text(&c, false, "configured values stay: no copy to L2 measured");
	kedge__controller_flush(&c, 6380);
	kedge__controller_failure(&c, 1, 70);
	expect_text(&c, false,
		    "configured values stay: 1 of 3 failures seen, and no mean time between failures configured");
	kedge__controller_decide(&c, &d);
	assert_true(d.interval == 3600 && d.l2_every == 10 && d.efficiency == 0);
}

static void test_moves_to_the_optimum(void **state)
{
	struct kedge__controller_config config = typical;
	struct kedge__controller c;
	struct kedge__decision d;

	(void)state;
	config.mtbf[0] = 1 / 1.7581e-5;
	config.mtbf[1] = 1 / 1.377e-6;
	kedge__controller_init(&c, &config);
	feed(&c, 3, 0, 72.5); /* hardly any time has passed: the configured rates hold */
	kedge__controller_flush(&c, 6380);
	assert_true(kedge__controller_decide(&c, &d));
	/* The vector R F1C1 has 0.925012 at 3111.77 s and 2 segments; a copy has room to take a tenth longer. */
	check_near("efficiency", d.efficiency, 0.925012, 3e-3);
	check_relative("interval", d.interval, 1.1 * 6380 / 3 - 72.5, 0.01);
	assert_int_equal(d.l2_every, 3);
	assert_string_equal(
	    d.text,
	    "interval 3600 s -> 2262 s, L2 every 10 -> 3: a checkpoint takes 72.5 s (3 measured), L2 takes 6380 s "
	    "(1 measured), a failure comes every 5.294e+04 s (0 seen in 217.5 s); expected efficiency 0.9230 instead "
	    "of 0.9037");
	assert_false(kedge__controller_decide(&c, &d)); /* and stays there */
	assert_int_equal(d.l2_every, 3);
}

static void test_learns_failures(void **state)
{
	struct kedge__controller_config config = typical;
	struct kedge__controller c;
	struct kedge__decision calm, stormy;

	(void)state;
	kedge__controller_init(&c, &config);
	kedge__controller_flush(&c, 600);
	for (int i = 0; i < 4; i++) {
		feed(&c, 24, 3600, 30);
		kedge__controller_failure(&c, 1, 40);
	}
	assert_true(kedge__controller_decide(&c, &calm));
	for (int i = 0; i < 40; i++) {
		feed(&c, 1, calm.interval, 30);
		kedge__controller_failure(&c, i % 8 == 0 ? 2 : 1, 40);
	}
	assert_true(kedge__controller_decide(&c, &stormy));
	assert_true(stormy.interval < calm.interval && stormy.efficiency < calm.efficiency);
}

static void test_frequency_alone(void **state)
{
	struct kedge__controller_config config = {.l2_every = 1, .background = true, .mtbf = {5e4, 7e5}};
	struct kedge__controller c;
	struct kedge__decision d;

	(void)state;
	kedge__controller_init(&c, &config);
	feed(&c, 5, 500, 20);
	kedge__controller_flush(&c, 6380);
	assert_true(kedge__controller_decide(&c, &d));
	assert_true(d.interval == 0);
	assert_true(d.l2_every >= 13); /* a copy takes 6380 / 520 checkpoints, and must be complete before the next */
}

static void test_no_l2(void **state)
{
	struct kedge__controller_config config = {.interval = 100, .mtbf = {1e5}};
	struct kedge__controller c;
	struct kedge__decision d;

	(void)state;
	kedge__controller_init(&c, &config);
	feed(&c, 3, 0, 60);
	assert_true(kedge__controller_decide(&c, &d));
	assert_int_equal(d.l2_every, 0);
	check_relative("Daly", d.interval, 3424, 0.01);
}

static void test_synchronous(void **state)
{
	struct kedge__controller_config config = {
	    .interval = 100, .l2_every = 1, .mtbf = {1 / 1.7581e-5, 1 / 1.377e-6}};
	struct kedge__controller c;
	struct kedge__decision d;

	(void)state;
	kedge__controller_init(&c, &config);
	feed(&c, 3, 0, 72.5);
	kedge__controller_flush(&c, 6380);
	assert_true(kedge__controller_decide(&c, &d));
	check_near("efficiency", d.efficiency, 0.811989, 1e-3);
	check_near("frequency", (double)d.l2_every, 37, 1);
}

static void test_bounds(void **state)
{
	struct kedge__controller_config config = {
	    .interval = 100, .mtbf = {1e5}, .min_interval = 50, .max_interval = 1800};
	struct kedge__controller c;
	struct kedge__decision d;

	(void)state;
	kedge__controller_init(&c, &config);
	feed(&c, 3, 0, 60);
	assert_true(kedge__controller_decide(&c, &d));
	assert_true(d.interval == 1800);
}

static void test_line(void **state)
{
	struct kedge__controller a, b;
	struct kedge__error err = KEDGE__ERROR_INIT;
	char line[KEDGE__CONTROLLER_LINE], again[KEDGE__CONTROLLER_LINE];

	(void)state;
	kedge__controller_init(&a, &typical);
	feed(&a, 7, 1.0 / 3, 1e-7);
	kedge__controller_flush(&a, 1e300);
	kedge__controller_failure(&a, 2, 12.25);
	kedge__controller_advance(&a, 5);
	kedge__controller_format(&a, line);
	kedge__controller_init(&b, &typical);
	assert_int_equal(kedge__controller_parse(&b, line, NULL), 0);
	kedge__controller_format(&b, again);
	assert_string_equal(line, again);
	assert_int_equal(b.failures[1], 1);
	check_error(kedge__controller_parse(&b, "kedge-controller 2 1 2 3", &err), &err, KEDGE_E_FORMAT,
		    "'kedge-controller 2 1 2 3' is not a line of the controller");
	line[strlen(line) - 3] = '\0';
	*strrchr(line, ' ') = '\0';
	assert_int_equal(kedge__controller_parse(&b, line, NULL), KEDGE_E_FORMAT);
	assert_int_equal(kedge__controller_parse(&b, "kedge-controller 1 nan 0 0 0 1 1 1/1 1/1 1/1 1/1 1/1", NULL),
			 KEDGE_E_FORMAT);
	kedge__controller_format(&b, line);
	assert_string_equal(line, again);
}

static void test_odd_measurements(void **state)
{
	struct kedge__controller c;
	struct kedge__decision d;

	(void)state;
	kedge__controller_init(&c, &typical);
	kedge__controller_advance(&c, NAN);
	kedge__controller_advance(&c, -1);
	kedge__controller_checkpoint(&c, NAN);
	kedge__controller_flush(&c, INFINITY);
	assert_true(c.elapsed == 0 && c.cost[0].count == 0 && c.cost[1].count == 0);
	feed(&c, 5, 0, 0);
	kedge__controller_flush(&c, 0);
	for (int i = 0; i < 5; i++)
		kedge__controller_failure(&c, 1, 0);
	assert_false(kedge__controller_decide(&c, &d)); /* no time has passed, nothing costs anything */
	assert_true(d.interval == 3600 && d.l2_every == 10);
}

/* Copies take now a little longer, now a little less: that is no reason to move. */
static void test_jitter_changes_nothing(void **state)
{
	const struct kedge__controller_config config = {
	    .interval = 600, .l2_every = 4, .mtbf = {5e4, 3e5}, .background = true};
	struct kedge__controller c;
	struct kedge__decision d;
	int changes = 0;

	(void)state;
	kedge__controller_init(&c, &config);
	for (int i = 0; i < 60; i++) {
		kedge__controller_advance(&c, c.interval + 30);
		kedge__controller_checkpoint(&c, 30);
		kedge__controller_flush(&c, 900 + 70 * (i % 3 - 1));
		if (!kedge__controller_decide(&c, &d))
			continue;
		changes++;
		assert_null(strstr(d.text, "instead of 0.0000"));
	}
	assert_in_range(changes, 1, 3);
	/* A copy that does not fit is late, but the job is not lost. */
	for (int i = 0; i < 4; i++)
		kedge__controller_flush(&c, 15000);
	assert_true(kedge__controller_decide(&c, &d));
	assert_null(strstr(d.text, "instead of 0.0000"));
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_jitter_changes_nothing),
	    cmocka_unit_test(test_falls_back),
	    cmocka_unit_test(test_moves_to_the_optimum),
	    cmocka_unit_test(test_learns_failures),
	    cmocka_unit_test(test_frequency_alone),
	    cmocka_unit_test(test_no_l2),
	    cmocka_unit_test(test_synchronous),
	    cmocka_unit_test(test_bounds),
	    cmocka_unit_test(test_line),
	    cmocka_unit_test(test_odd_measurements),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
