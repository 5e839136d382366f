/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * novelty.cu: chunks of an image from all over it, and whether any of a few digests are among those of the last version: the
 * device's part of src/reduce/novelty.c.
 */
#include "gpu/kernels.h"

/* A warp for each chunk, whose address may be any. */
KEDGE_KERNEL(kedge_pick, struct kedge_pick_args)
{
	const unsigned i = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
	const unsigned char *from;

	if (i >= a.count)
		return;
	from = (const unsigned char *)a.from[i];
	for (unsigned at = threadIdx.x % 32; at < a.chunk; at += 32)
		a.to[(unsigned long long)i * a.chunk + at] = from[at];
}

/* Whether D is among them: they ascend by the upper half, then by the lower. */
static __device__ bool search_has(const struct kedge_search_args &a, ulonglong2 d)
{
	unsigned low = 0, high = a.count;

	while (low < high) {
		const unsigned i = low + (high - low) / 2;
		const ulonglong2 s = a.sample[i];

		if (s.y < d.y || (s.y == d.y && s.x < d.x))
			low = i + 1;
		else
			high = i;
	}
	return low < a.count && a.sample[low].x == d.x && a.sample[low].y == d.y;
}

KEDGE_KERNEL(kedge_search, struct kedge_search_args)
{
	__shared__ unsigned filter[KEDGE_SEARCH_BITS / 32];
	const unsigned long long stride = (unsigned long long)gridDim.x * blockDim.x;
	unsigned found = 0;

	for (unsigned i = threadIdx.x; i < KEDGE_SEARCH_BITS / 32; i += blockDim.x)
		filter[i] = a.filter[i];
	__syncthreads();
	for (unsigned run = 0; run < a.run_count; run++) {
		const struct kedge_run r = a.runs[run];

		for (unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x; i < r.count; i += stride) {
			const ulonglong2 d = __ldcs(a.digests + r.place + i);
			const unsigned bit = (unsigned)d.x % KEDGE_SEARCH_BITS;

			if (filter[bit / 32] >> bit % 32 & 1)
				found += search_has(a, d);
		}
	}
	if (found)
		atomicAdd(a.found, found);
}
