/* SPDX-License-Identifier: BSD-3-Clause */
/* tool_stats: figures over turns, numbers that are the same in every run, and what must not disturb them. */
#include "tool_bench.h"

#include <stdlib.h>
#include <sys/sysinfo.h>

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

void kedge__bench_memory_fetch(uint64_t bytes, uint64_t processes)
{
	struct sysinfo now;
	size_t n = 0;
	volatile uint8_t *at;

	if (sysinfo(&now) == 0)
		n = (size_t)KEDGE__MIN(bytes, (uint64_t)now.freeram * now.mem_unit / 2 / processes);
	at = n ? kedge__map_alloc(n) : NULL;
	for (size_t i = 0; at && i < n; i += 4096)
		at[i] = 1;
	kedge__map_free((void *)at, n);
}
