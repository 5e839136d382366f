/* SPDX-License-Identifier: BSD-3-Clause */
/* The generator draws the same numbers everywhere, and they are distributed as they should be. */
#include "../plan/check.h"
#include "simulate/simulate.h"

#define DRAWS 200000

/* Bit patterns, as drawn on x86-64 by gcc; another machine, compiler or libm must give the same. */
static void test_same_everywhere(void **state)
{
	static const char *const expected[] = {
	    "0.94405864386073879", "1.2181178904022727",  "0.047695119145934932", "1.1461353504625114",
	    "0.10677632802153925", "0.19069166866897286", "0.84198465225596575",  "0.31374148247166794",
	    "0.96473560812314174", "0.45753007968119586", "0.86497960206165636",  "0.43482688788834944",
	};
	struct kedge__random r;
	char text[32];

	(void)state;
	kedge__random_init(&r, 42, 7);
	for (size_t i = 0; i < KEDGE__COUNT(expected); i++) {
		double x = i % 4 == 0   ? kedge__random_uniform(&r)
			   : i % 4 == 1 ? kedge__random_exponential(&r)
			   : i % 4 == 2 ? kedge__random_weibull(&r, 0.7)
					: kedge__random_normal(&r);

		snprintf(text, sizeof(text), "%.17g", x);
		assert_string_equal(text, expected[i]);
	}
}

static void test_streams_differ(void **state)
{
	struct kedge__random a, b, c;

	(void)state;
	kedge__random_init(&a, 1, 0);
	kedge__random_init(&b, 1, 1);
	kedge__random_init(&c, 2, 0);
	for (int i = 0; i < 100; i++) {
		double x = kedge__random_uniform(&a), y = kedge__random_uniform(&b), z = kedge__random_uniform(&c);

		assert_true(x > 0 && x <= 1 && x != y && x != z && y != z);
	}
}

struct moments {
	double mean, variance;
};

static struct moments draw(double (*next)(struct kedge__random *r))
{
	struct moments m = {0, 0};
	struct kedge__random r;

	kedge__random_init(&r, 3, 0);
	for (int i = 0; i < DRAWS; i++) {
		double x = next(&r);

		m.mean += x / DRAWS;
		m.variance += x * x / DRAWS;
	}
	m.variance -= m.mean * m.mean;
	return m;
}

static double weibull_half(struct kedge__random *r)
{
	return kedge__random_weibull(r, 0.5);
}

static double residual_half(struct kedge__random *r)
{
	return kedge__random_weibull_residual(r, 0.5);
}

static double residual_one(struct kedge__random *r)
{
	return kedge__random_weibull_residual(r, 1);
}

static void test_moments(void **state)
{
	struct moments uniform = draw(kedge__random_uniform), exponential = draw(kedge__random_exponential);
	struct moments normal = draw(kedge__random_normal), weibull = draw(weibull_half);
	struct moments residual = draw(residual_half), memoryless = draw(residual_one);

	(void)state;
	check_near("uniform mean", uniform.mean, 0.5, 0.003);
	check_near("uniform variance", uniform.variance, 1.0 / 12, 0.001);
	check_near("exponential mean", exponential.mean, 1, 0.01);
	check_near("exponential variance", exponential.variance, 1, 0.03);
	check_near("normal mean", normal.mean, 0, 0.01);
	check_near("normal variance", normal.variance, 1, 0.015);
	check_near("Weibull mean", weibull.mean, 2, 0.05);
	check_near("Weibull variance", weibull.variance, 20, 2);
	/* E[X^2] / 2E[X], and E[X^3] / 3E[X] less the square of that */
	check_near("residual mean", residual.mean, 6, 0.2);
	check_near("residual variance", residual.variance, 84, 12);
	check_near("residual of an exponential", memoryless.mean, 1, 0.01);
	check_near("variance of that", memoryless.variance, 1, 0.03);
}

static void test_functions(void **state)
{
	(void)state;
	for (double x = 1e-300; x < 1e300; x *= 3.7)
		check_near("log", kedge__portable_log(x), log(x), 4e-16 * fmax(1, fabs(log(x))));
	for (double x = -690; x < 690; x += 0.37)
		check_relative("exp", kedge__portable_exp(x), exp(x), 3e-15);
	for (double x = 1; x < 20; x += 0.13)
		check_relative("gamma", kedge__portable_gamma(x), tgamma(x), 1e-12);
	assert_true(kedge__portable_log(1) == 0 && kedge__portable_exp(0) == 1);
	assert_true(isinf(kedge__portable_exp(800)) && kedge__portable_exp(-800) == 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_same_everywhere),
	    cmocka_unit_test(test_streams_differ),
	    cmocka_unit_test(test_moments),
	    cmocka_unit_test(test_functions),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
