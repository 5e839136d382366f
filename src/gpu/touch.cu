/* SPDX-License-Identifier: BSD-3-Clause */
/* touch.cu: what an application does between two versions, for kedge bench gpu: one chunk in so many gets other bytes, or all
 * floats get other ones that are near. */
#include "gpu/kernels.h"

KEDGE_KERNEL(kedge_touch, struct kedge_touch_args)
{
	const unsigned long long stride = (unsigned long long)gridDim.x * blockDim.x;

	for (unsigned long long c = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x; c < a.chunks; c += stride) {
		unsigned long long x = (c ^ a.seed << 40) * 0x9E3779B97F4A7C15ull;

		x ^= x >> 29;
		x *= 0xBF58476D1CE4E5B9ull;
		x ^= x >> 32;
		if (x % a.share == 0)
			*(unsigned long long *)(a.data + c * a.chunk) = x;
	}
}

KEDGE_KERNEL(kedge_touch_floats, struct kedge_touch_args)
{
	const unsigned long long stride = (unsigned long long)gridDim.x * blockDim.x, n = a.chunks * a.chunk / 4;

	for (unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) {
		unsigned long long x = (i ^ a.seed << 40) * 0x9E3779B97F4A7C15ull;

		((unsigned *)a.data)[i] ^= 1u | (unsigned)(x >> 62 & 2);
	}
}
