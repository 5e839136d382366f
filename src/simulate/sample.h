/* SPDX-License-Identifier: BSD-3-Clause */
/* sample: mean and confidence interval of independent values. */
#ifndef KEDGE_SIMULATE_SAMPLE_H
#define KEDGE_SIMULATE_SAMPLE_H

#include <math.h>
#include <stdint.h>

#define KEDGE__SAMPLE_99 2.5758293035489004

struct kedge__sample { /* Welford's recurrence: no cancellation when the variance is small */
	uint64_t count;
	double mean, squares;
};

static inline void kedge__sample_add(struct kedge__sample *s, double x)
{
	double d = x - s->mean;

	s->count++;
	s->mean += d / (double)s->count;
	s->squares += d * (x - s->mean);
}

/* The 99 % quantile of Student's distribution, by its expansion around the normal one; exact to 1 % from 4 values on.
 */
static inline double kedge__sample_quantile(uint64_t count)
{
	double z = KEDGE__SAMPLE_99, n = (double)count - 1, z3 = z * z * z, z5 = z3 * z * z;

	return z + (z3 + z) / (4 * n) + (5 * z5 + 16 * z3 + 3 * z) / (96 * n * n);
}

/* Standard error of the mean, and the ends of its 99 % confidence interval; infinite for a single value. */
static inline void kedge__sample_interval(const struct kedge__sample *s, double *error, double *low, double *high)
{
	double reach = INFINITY;

	*error = INFINITY;
	if (s->count > 1) {
		*error = sqrt(s->squares / ((double)s->count - 1) / (double)s->count);
		reach = kedge__sample_quantile(s->count) * *error;
	}
	*low = s->mean - reach;
	*high = s->mean + reach;
}

#endif
