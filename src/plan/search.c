/* SPDX-License-Identifier: BSD-3-Clause */
/* search: one-dimensional minima, of reals and of integers. */
#include "plan/block.h"
#include <math.h>

#define GOLDEN 0.61803398874989484820

double kedge__golden_section(double lo, double hi, double precision, double (*f)(void *ctx, double x), void *ctx,
			     double *value)
{
	double a = log(lo), b = log(hi);
	double x1 = b - GOLDEN * (b - a), x2 = a + GOLDEN * (b - a);
	double f1 = f(ctx, exp(x1)), f2 = f(ctx, exp(x2));

	while (b - a > precision) {
		/* Beyond the range of a double both are infinite: the minimum is then at shorter intervals. */
		if (f1 <= f2 || isinf(f2)) {
			b = x2;
			x2 = x1;
			f2 = f1;
			x1 = b - GOLDEN * (b - a);
			f1 = f(ctx, exp(x1));
		} else {
			a = x1;
			x1 = x2;
			f1 = f2;
			x2 = a + GOLDEN * (b - a);
			f2 = f(ctx, exp(x2));
		}
	}
	*value = KEDGE__MIN(f1, f2);
	return exp(f1 <= f2 ? x1 : x2);
}

static uint64_t refine(uint64_t lo, uint64_t mid, uint64_t hi, double best, double (*f)(void *ctx, uint64_t n),
		       void *ctx, double *value)
{
	while (hi - lo > 2) {
		bool left = mid - lo > hi - mid;
		uint64_t probe = left ? mid - (mid - lo + 1) / 2 : mid + (hi - mid + 1) / 2;
		double v = f(ctx, probe);

		if (v < best) {
			*(left ? &hi : &lo) = mid;
			mid = probe;
			best = v;
		} else {
			*(left ? &lo : &hi) = probe;
		}
	}
	*value = best;
	return mid;
}

struct walk {
	uint64_t before, at, after; /* a lower value at `at` than at both others, once the walk is over */
	double best;
};

/*
 * Away from w->at in steps that double, up to LIMIT in distance, until the value has risen twice: a single rise may be
 * rounding. UP: towards larger numbers.
 */
static void walk(struct walk *w, bool up, uint64_t limit, double (*f)(void *ctx, uint64_t n), void *ctx)
{
	uint64_t start = w->at, last = w->at, *behind = up ? &w->before : &w->after,
		 *ahead = up ? &w->after : &w->before;
	int rises = 0;

	for (uint64_t step = 1; rises < 2 && step <= limit; step *= 2) {
		uint64_t n = up ? start + step : start - step;
		double v = f(ctx, n);

		if (v < w->best) {
			*behind = last;
			*ahead = w->at = n;
			w->best = v;
			rises = 0;
		} else {
			*ahead = *ahead == w->at ? n : *ahead;
			rises++;
		}
		last = n;
	}
}

uint64_t kedge__integer_search(uint64_t first, uint64_t hint, uint64_t limit, double (*f)(void *ctx, uint64_t n),
			       void *ctx, double *value)
{
	uint64_t start = KEDGE__MAX(first, hint);
	struct walk w = {start, start, start, f(ctx, start)};

	walk(&w, true, limit, f, ctx);
	if (w.at == start && start > first) {
		uint64_t after = w.after;

		walk(&w, false, start - first, f, ctx);
		if (w.at == start)
			w.after = after;
		else if (w.before == w.at && w.at > first)
			w.before = first; /* the doubling steps ended before FIRST */
	}
	return refine(w.before, w.at, w.after, w.best, f, ctx, value);
}

void kedge__interval_range(const struct kedge__levels *lv, double cheapest, double *lo, double *hi)
{
	double mtbf = KEDGE__MIN(1 / kedge__levels_rate(lv), 1e300); /* so that nothing below overflows or vanishes */
	double scale = cheapest > 0 ? KEDGE__MIN(sqrt(cheapest) * sqrt(mtbf), mtbf) : 1e-6 * mtbf;

	*lo = KEDGE__MAX(1e-3 * scale, 1e-305);
	*hi = KEDGE__MAX(4 * mtbf, 4 * *lo);
}
