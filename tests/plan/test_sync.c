/* SPDX-License-Identifier: BSD-3-Clause */
/* The n-level synchronous model against vectors, against the two-level closed form and against the linear system. */
#include "check.h"
#include "vectors.h"

static void test_vectors(void **state)
{
	(void)state;
	for (size_t i = 0; i < KEDGE__COUNT(sync_vectors); i++) {
		const struct sync_vector *v = &sync_vectors[i];
		struct kedge__expectation e;

		assert_int_equal(kedge__sync_expect(&v->levels, v->t, v->counts, &e, NULL), 0);
		check_relative(v->id, e.seconds, v->seconds, 1e-9);
		check_near(v->id, e.efficiency, v->efficiency, 5.1e-9); /* the table has 8 digits */
	}
}

/* Two levels in closed form, written out from the equations without blocks. */
static double closed_form(const struct kedge__levels *lv, double t, double n)
{
	double l1 = lv->rate[0], s = l1 + lv->rate[1], g = -expm1(-s * lv->restart[0]);
	double er2 = expm1(s * lv->restart[1]) / s;
	double time = 0, ok = 1, up = 0;

	for (double i = 0; i <= n; i++) {
		double len = t + lv->cost[i == n], f = -expm1(-s * len), h = f / s;
		double p0 = exp(-s * len), p1 = l1 / s * f, p2 = f - p1;
		double d = i == 0 ? 1 : p0 + p2 + p1 * g;
		double bh = i == 0 ? h : (h + p1 * g / s) / d, bok = p0 / d, bup = (i == 0 ? f : p2 + p1 * g) / d;

		time += ok * bh;
		up += ok * bup;
		ok *= bok;
	}
	return (time + up * er2) / ok;
}

static void test_closed_form(void **state)
{
	(void)state;
	for (size_t i = 0; i < KEDGE__COUNT(sync_vectors); i++) {
		const struct sync_vector *v = &sync_vectors[i];

		if (v->levels.count != 2)
			continue;
		check_relative(v->id, closed_form(&v->levels, v->t, (double)v->counts[0]), v->seconds, 1e-9);
	}
}

static void test_one_level(void **state)
{
	static const double rates[] = {0, 1e-12, 1e-6, 1e-3, 0.1};

	(void)state;
	for (size_t i = 0; i < KEDGE__COUNT(rates); i++) {
		struct kedge__levels lv = {1, {rates[i]}, {60}, {30}};
		struct kedge__expectation e;

		assert_int_equal(kedge__sync_expect(&lv, 900, (uint64_t[]){1}, &e, NULL), 0);
		check_relative("one level", e.seconds, kedge__single_expect(rates[i], 60, 30, 900), 1e-12);
	}
}

#define STATES 128

struct chain { /* states 0..n-1 compute, n..2n-1 restart */
	double a[STATES][STATES + 1];
	int n;
};

static int level_after(const struct kedge__levels *lv, const uint64_t *counts, int j)
{
	uint64_t product = 1;
	int level = 1;

	if (j == 0)
		return lv->count;
	for (int k = 0; k < lv->count - 1; k++) {
		product *= counts[k] + 1;
		if ((uint64_t)j % product == 0)
			level = k + 2;
	}
	return level;
}

static int latest(const struct kedge__levels *lv, const uint64_t *counts, int from, int level)
{
	while (level_after(lv, counts, from) < level)
		from--;
	return from;
}

static void add_state(struct chain *c, const struct kedge__levels *lv, int row, double len, double *ok, double *failing)
{
	double rate = kedge__levels_rate(lv);

	*failing = -expm1(-rate * len);
	*ok = exp(-rate * len);
	c->a[row][row] += 1;
	c->a[row][2 * c->n] = *failing / rate;
}

static void fill(struct chain *c, const struct kedge__levels *lv, double t, const uint64_t *counts)
{
	double rate = kedge__levels_rate(lv), ok, failing;

	for (int j = 0; j < c->n; j++) {
		int next = level_after(lv, counts, j + 1), k = level_after(lv, counts, j);

		add_state(c, lv, j, t + lv->cost[next - 1], &ok, &failing);
		if (j + 1 < c->n)
			c->a[j][j + 1] -= ok;
		for (int i = 1; i <= lv->count; i++)
			c->a[j][c->n + latest(lv, counts, j, i)] -= failing * lv->rate[i - 1] / rate;
		add_state(c, lv, c->n + j, lv->restart[k - 1], &ok, &failing);
		c->a[c->n + j][j] -= ok;
		for (int i = 1; i <= lv->count; i++) {
			int to = k == lv->count || i < k ? j : latest(lv, counts, j - 1, i > k ? i : k + 1);

			c->a[c->n + j][c->n + to] -= failing * lv->rate[i - 1] / rate;
		}
	}
}

static double solve(struct chain *c)
{
	int m = 2 * c->n;

	for (int p = 0; p < m; p++) {
		int best = p;

		for (int r = p + 1; r < m; r++)
			if (fabs(c->a[r][p]) > fabs(c->a[best][p]))
				best = r;
		for (int x = 0; x <= m; x++) {
			double swap = c->a[p][x];

			c->a[p][x] = c->a[best][x];
			c->a[best][x] = swap;
		}
		for (int r = 0; r < m; r++) {
			double f = c->a[r][p] / c->a[p][p];

			for (int x = p; r != p && x <= m; x++)
				c->a[r][x] -= f * c->a[p][x];
		}
	}
	return c->a[0][m] / c->a[0][0];
}

static void test_linear_system(void **state)
{
	int compared = 0;

	(void)state;
	for (size_t i = 0; i < KEDGE__COUNT(sync_vectors); i++) {
		const struct sync_vector *v = &sync_vectors[i];
		static struct chain c;

		memset(&c, 0, sizeof(c));
		c.n = 1;
		for (int k = 0; k < v->levels.count - 1; k++)
			c.n *= (int)v->counts[k] + 1;
		if (2 * c.n > STATES)
			continue;
		fill(&c, &v->levels, v->t, v->counts);
		check_relative(v->id, solve(&c), v->seconds, 1e-9);
		compared++;
	}
	assert_true(compared >= 9);
}

static void test_edges(void **state)
{
	struct kedge__levels none = {2, {0, 0}, {10, 100}, {10, 100}}, free_of_cost = {2, {1e-5, 1e-6}, {0, 0}, {0, 0}};
	struct kedge__levels lethal = {2, {10, 10}, {1000, 1000}, {1000, 1000}};
	struct kedge__levels tiny = {2, {1e-300, 1e-300}, {1e-9, 1e-9}, {1e-9, 1e-9}};
	struct kedge__expectation e;

	(void)state;
	assert_int_equal(kedge__sync_expect(&none, 100, (uint64_t[]){3, 1}, &e, NULL), 0);
	check_relative("no failures", e.seconds, 3 * 110 + 200, 1e-14);
	assert_int_equal(kedge__sync_expect(&free_of_cost, 100, (uint64_t[]){3, 1}, &e, NULL), 0);
	assert_true(e.efficiency < 1 && e.efficiency > 0.999);
	assert_int_equal(kedge__sync_expect(&lethal, 100, (uint64_t[]){3, 1}, &e, NULL), 0);
	assert_true(isinf(e.seconds) && e.efficiency == 0);
	assert_int_equal(kedge__sync_expect(&tiny, 1e12, (uint64_t[]){1000000, 1}, &e, NULL), 0);
	check_relative("tiny numbers", e.efficiency, 1, 1e-14);
	assert_int_equal(kedge__sync_expect(&tiny, 1e-12, (uint64_t[]){4000000000, 1}, &e, NULL), 0);
	assert_true(e.efficiency > 0 && e.efficiency < 1e-2);
}

static void test_refused(void **state)
{
	struct kedge__levels lv = {2, {1e-5, -1}, {10, 100}, {10, 100}};
	struct kedge__expectation e = {1, 2, 3};
	struct kedge__error err = KEDGE__ERROR_INIT;

	(void)state;
	check_error(kedge__sync_expect(&lv, 100, (uint64_t[]){1, 1}, &e, &err), &err, KEDGE_E_ARG,
		    "the failure rate of level 2 is -1");
	lv.rate[1] = 0;
	lv.restart[0] = NAN;
	check_error(kedge__sync_expect(&lv, 100, (uint64_t[]){1, 1}, &e, &err), &err, KEDGE_E_ARG,
		    "the restart cost of level 1 is nan");
	lv.restart[0] = 1;
	check_error(kedge__sync_expect(&lv, 0, (uint64_t[]){1, 1}, &e, &err), &err, KEDGE_E_ARG,
		    "the interval is 0 s: it must be longer than 0");
	check_error(kedge__sync_expect(&lv, 1, (uint64_t[]){1, 2}, &e, &err), &err, KEDGE_E_ARG,
		    "the count of the top level is 2: a period has 1 checkpoint of that level");
	lv.count = 17;
	check_error(kedge__sync_expect(&lv, 1, (uint64_t[]){1, 1}, &e, &err), &err, KEDGE_E_ARG,
		    "17 levels: a model has 1 to 16");
	assert_true(e.seconds == 1 && e.work == 2 && e.efficiency == 3);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_vectors),       cmocka_unit_test(test_closed_form), cmocka_unit_test(test_one_level),
	    cmocka_unit_test(test_linear_system), cmocka_unit_test(test_edges),       cmocka_unit_test(test_refused),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
