/* SPDX-License-Identifier: BSD-3-Clause */
/* single: one level of checkpoints, where closed forms exist. */
#include "plan/plan.h"
#include <math.h>

double kedge__single_expect(double rate, double cost, double restart, double interval)
{
	double len = interval + cost;

	if (!(rate > 0))
		return len;
	return exp(rate * restart) * expm1(rate * len) / rate;
}

/*
 * With x = rate * interval the optimum solves 1 - x = exp(-x - rate * cost). The left side minus the right one falls
 * from 1 - exp(-rate*cost) >= 0 at x = 0 to less than 0 at x = 1, so bisection holds where Newton would overshoot.
 */
double kedge__single_best(double rate, double cost)
{
	double lo = 0, hi = 1;

	if (!(rate > 0))
		return INFINITY;
	for (int i = 0; i < 200 && hi - lo > 0; i++) {
		double x = 0.5 * (lo + hi);

		if (x == lo || x == hi)
			break;
		if (-expm1(-x - rate * cost) - x > 0)
			lo = x;
		else
			hi = x;
	}
	return 0.5 * (lo + hi) / rate;
}

double kedge__young_interval(double mtbf, double cost)
{
	return sqrt(2 * cost * mtbf);
}

double kedge__daly_interval(double mtbf, double cost)
{
	double half = cost / (2 * mtbf);

	if (half >= 1)
		return mtbf;
	return sqrt(2 * cost * mtbf) * (1 + sqrt(half) / 3 + half / 9) - cost;
}

double kedge__bare_expect(double rate, double restart, double work)
{
	if (!(rate > 0))
		return work;
	return exp(rate * restart) * expm1(rate * work) / rate;
}
