/* SPDX-License-Identifier: BSD-3-Clause */
/* tool_stats: figures over turns, and numbers that are the same in every run. */
#include "tool_bench.h"

#include <stdlib.h>

static int by_value(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

double kedge__bench_median(double *v, size_t n)
{
	qsort(v, n, sizeof(*v), by_value);
	return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

uint64_t kedge__bench_random(uint64_t *seed)
{
	uint64_t v = *seed += UINT64_C(0x9E3779B97F4A7C15);

	v = (v ^ v >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
	v = (v ^ v >> 27) * UINT64_C(0x94D049BB133111EB);
	return v ^ v >> 31;
}
