/* SPDX-License-Identifier: BSD-3-Clause */
#include "../lib/cases.h"
#include "pipeline/pipeline.h"

#include <stddef.h>
#include <stdint.h>

#include <math.h>

/* A clock that only sleeping moves. */
struct clock {
	double now, slept;
	int sleeps;
};

static double clock_now(void *ctx)
{
	return ((struct clock *)ctx)->now;
}

static void clock_sleep(void *ctx, double seconds)
{
	struct clock *c = ctx;

	c->now += seconds;
	c->slept += seconds;
	c->sleeps++;
}

static void bucket_on(struct kedge__bucket *b, struct clock *c, double rate, double burst)
{
	*c = (struct clock){.now = 1000};
	kedge__bucket_init(b, rate, burst);
	b->now = clock_now;
	b->sleep = clock_sleep;
	b->ctx = c;
}

static void assert_near(double a, double b)
{
	assert_true(fabs(a - b) < 1e-6);
}

static void no_rate_no_wait(void **state)
{
	struct kedge__bucket b;
	struct clock c;

	(void)state;
	bucket_on(&b, &c, 0, 0);
	for (int i = 0; i < 100; i++)
		kedge__bucket_take(&b, 1e12);
	assert_int_equal(c.sleeps, 0);
}

static void burst_is_free_then_paced(void **state)
{
	struct kedge__bucket b;
	struct clock c;

	(void)state;
	bucket_on(&b, &c, 100, 50);
	kedge__bucket_take(&b, 50);
	assert_int_equal(c.sleeps, 0);
	for (int i = 0; i < 1000; i++)
		kedge__bucket_take(&b, 10);
	assert_near(c.slept, 100);
}

static void larger_than_the_burst(void **state)
{
	struct kedge__bucket b;
	struct clock c;

	(void)state;
	bucket_on(&b, &c, 100, 50);
	kedge__bucket_take(&b, 1050);
	assert_near(c.slept, 10);
	kedge__bucket_take(&b, 100);
	assert_near(c.slept, 11);
}

static void idle_time_fills_up_to_the_burst(void **state)
{
	struct kedge__bucket b;
	struct clock c;

	(void)state;
	bucket_on(&b, &c, 100, 50);
	kedge__bucket_take(&b, 50);
	c.now += 3600;
	kedge__bucket_take(&b, 60);
	assert_near(c.slept, 0.1);
	c.now += 0.2;
	kedge__bucket_take(&b, 20);
	assert_near(c.slept, 0.1);
}

static void clock_that_goes_back(void **state)
{
	struct kedge__bucket b;
	struct clock c;

	(void)state;
	bucket_on(&b, &c, 100, 50);
	kedge__bucket_take(&b, 50);
	c.now -= 500;
	kedge__bucket_take(&b, 100);
	assert_near(c.slept, 1);
}

static void real_clock(void **state)
{
	struct kedge__bucket b;
	double start = kedge__clock_seconds();

	(void)state;
	kedge__bucket_init(&b, 1e6, 1000);
	for (int i = 0; i < 11; i++)
		kedge__bucket_take(&b, 1000);
	assert_true(kedge__clock_seconds() - start >= 0.0099);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(no_rate_no_wait),       cmocka_unit_test(burst_is_free_then_paced),
	    cmocka_unit_test(larger_than_the_burst), cmocka_unit_test(idle_time_fills_up_to_the_burst),
	    cmocka_unit_test(clock_that_goes_back),  cmocka_unit_test(real_clock),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
