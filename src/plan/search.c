/* search: one-dimensional minima, of reals and of integers. */
#include "plan/block.h"
#include <math.h>

#define GOLDEN    0.61803398874989484820
#define PRECISION 1e-7 /* of log x: at a smooth minimum the value is then exact to 1e-14 */

double kedge__golden_section(double lo, double hi, double (*f)(void *ctx, double x), void *ctx, double *value)
{
	double a = log(lo), b = log(hi);
	double x1 = b - GOLDEN * (b - a), x2 = a + GOLDEN * (b - a);
	double f1 = f(ctx, exp(x1)), f2 = f(ctx, exp(x2));

	while (b - a > PRECISION) {
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

/* Distances from FIRST double until the value has risen twice: a single rise may be rounding. */
uint64_t kedge__integer_search(uint64_t first, uint64_t limit, double (*f)(void *ctx, uint64_t n), void *ctx,
			       double *value)
{
	uint64_t before = first, at = first, after = first, last = first;
	double best = f(ctx, first);
	int rises = 0;

	for (uint64_t step = 1; rises < 2 && step <= limit; step *= 2) {
		uint64_t n = first + step;
		double v = f(ctx, n);

		if (v < best) {
			before = last;
			at = after = n;
			best = v;
			rises = 0;
		} else {
			after = after == at ? n : after;
			rises++;
		}
		last = n;
	}
	return refine(before, at, after, best, f, ctx, value);
}

void kedge__interval_range(const struct kedge__levels *lv, double cheapest, double *lo, double *hi)
{
	double mtbf = KEDGE__MIN(1 / kedge__levels_rate(lv), 1e300); /* so that nothing below overflows or vanishes */
	double scale = cheapest > 0 ? KEDGE__MIN(sqrt(cheapest) * sqrt(mtbf), mtbf) : 1e-6 * mtbf;

	*lo = KEDGE__MAX(1e-3 * scale, 1e-305);
	*hi = KEDGE__MAX(4 * mtbf, 4 * *lo);
}
