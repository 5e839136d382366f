/* SPDX-License-Identifier: BSD-3-Clause */
/* The asynchronous model against vectors, against the two-level closed form, and at its edges. */
#include "check.h"
#include "vectors.h"

static void test_vectors(void **state)
{
	(void)state;
	for (size_t i = 0; i < KEDGE__COUNT(async_vectors); i++) {
		const struct async_vector *v = &async_vectors[i];
		struct kedge__async as;
		struct kedge__async_plan plan;

		async_machine(v, &as, &plan);
		assert_int_equal(kedge__async_expect(&as, &plan, NULL), 0);
		check_relative(v->id, plan.expect.seconds, v->seconds, 1e-9);
		check_near(v->id, plan.expect.efficiency, v->efficiency, 5.1e-9); /* the table has 8 digits */
	}
}

struct part { /* time, success, failure that needs the top level */
	double time, ok, up;
};

static struct part then(struct part a, struct part b)
{
	return (struct part){a.time + a.ok * b.time, a.ok * b.ok, a.up + a.ok * b.up};
}

static struct part segment(const struct async_vector *v, double len, int protect)
{
	double s = v->l1 + v->l2, g = -expm1(-s * v->r1), f = -expm1(-s * len), p0 = exp(-s * len);
	double p1 = v->l1 / s * f, p2 = f - p1, d = p0 + p2 + p1 * g;

	if (!protect)
		return (struct part){f / s, p0, f};
	return (struct part){(f / s + p1 * g / s) / d, p0 / d, (p2 + p1 * g) / d};
}

static double closed_form(const struct async_vector *v)
{
	double s = v->l1 + v->l2, er2 = expm1(s * v->r2) / s, back;
	struct part q = {0, 1, 0}, slow = q, fast = q;

	for (uint64_t i = 0; i < v->segments; i++) {
		double extra = v->c1 + (i + 1 == v->segments ? v->init_cost : 0);

		q = then(q, segment(v, v->t + extra, i > 0));
		if (i < v->incomplete)
			slow = then(slow, segment(v, (1 + v->alpha) * v->t + extra, 1));
		else
			fast = then(fast, segment(v, v->t + extra, 1));
	}
	back = er2 + (q.time + q.up * er2) / q.ok;
	return (slow.time + slow.up * back + slow.ok * (fast.time + fast.up * back)) / slow.ok;
}

static void test_closed_form(void **state)
{
	(void)state;
	for (size_t i = 0; i < KEDGE__COUNT(async_vectors); i++)
		check_relative(async_vectors[i].id, closed_form(&async_vectors[i]), async_vectors[i].seconds, 1e-9);
}

/* A second level of the same cost as the first, taken every time, is as good as not being there. */
static void test_third_level_in_the_middle(void **state)
{
	struct kedge__async two = {.levels = {2, {2e-5, 3e-6}, {72.5, 0}, {80, 6380}}, .alpha = 0.05, .init_cost = 9};
	struct kedge__async three = {
	    .levels = {3, {2e-5, 0, 3e-6}, {72.5, 72.5, 0}, {80, 80, 6380}}, .alpha = 0.05, .init_cost = 9};
	struct kedge__async_plan p = {.interval = 1500, .segments = 10, .incomplete = 4}, q = p;

	(void)state;
	assert_int_equal(kedge__async_expect(&two, &p, NULL), 0);
	q.counts[0] = 0;
	assert_int_equal(kedge__async_expect(&three, &q, NULL), 0);
	/* A failure of level 1 while restarting from level 2 tries again instead of going up: better, but by little. */
	assert_true(q.expect.efficiency > p.expect.efficiency);
	check_relative("three levels", q.expect.efficiency, p.expect.efficiency, 1e-3);
}

/* With an instant copy, no slow-down and no level-2 failures it tends to the single level from below. */
static void test_single_level_limit(void **state)
{
	struct kedge__async as = {.levels = {2, {1e-5, 1e-30}, {30, 0}, {30, 30}}};
	struct kedge__async_plan plan = {.interval = 2000, .segments = 50};
	double single = 2000 / kedge__single_expect(1e-5, 30, 30, 2000);

	(void)state;
	assert_int_equal(kedge__async_expect(&as, &plan, NULL), 0);
	check_near("single level", single, 0.974963, 1e-6);
	check_near("async", plan.expect.efficiency, 0.974815, 2e-4);
	assert_true(plan.expect.efficiency < single);
}

static void test_refused(void **state)
{
	struct kedge__async as = {.levels = {2, {1e-5, 1e-6}, {10, 100}, {10, 100}}};
	struct kedge__async_plan plan = {.interval = 100, .segments = 2, .incomplete = 3};
	struct kedge__error err = KEDGE__ERROR_INIT;

	(void)state;
	check_error(kedge__async_expect(&as, &plan, &err), &err, KEDGE_E_ARG,
		    "3 incomplete segments in a period of 2: a copy must finish before the next one begins");
	plan.segments = 0;
	check_error(kedge__async_expect(&as, &plan, &err), &err, KEDGE_E_ARG,
		    "a period has no segments: it needs at least 1");
	as.alpha = -0.1;
	check_error(kedge__async_expect(&as, &plan, &err), &err, KEDGE_E_ARG, "the slow-down alpha is -0.1");
	as.levels.count = 1;
	check_error(kedge__async_expect(&as, &plan, &err), &err, KEDGE_E_ARG,
		    "1 level: writing in the background needs a level to copy from and one to copy to");
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_vectors),
	    cmocka_unit_test(test_closed_form),
	    cmocka_unit_test(test_third_level_in_the_middle),
	    cmocka_unit_test(test_single_level_limit),
	    cmocka_unit_test(test_refused),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
