/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pack.cu: packed blocks, behind each other, as they are stored. Where they go depends on the sizes of all before them, so
 * that one block of threads finds out first; then each part, wherever it is, is copied by a block of threads.
 */
#include "gpu/kernels.h"

namespace pack
{

typedef unsigned u32;

const u32 STRIP = KEDGE_PLANES_STRIP;

/* What the threads before this one have of V, and *ALL of them. */
static __device__ __forceinline__ u32 threads_before(u32 v, u32 *all)
{
	__shared__ u32 sums[KEDGE_THREADS / 32];
	u32 sum, before = planes::lanes_before(v, &sum);

	__syncthreads();
	if (threadIdx.x % 32 == 0)
		sums[threadIdx.x / 32] = sum;
	__syncthreads();
	*all = 0;
	for (u32 w = 0; w < KEDGE_THREADS / 32; w++) {
		before += w < threadIdx.x / 32 ? sums[w] : 0;
		*all += sums[w];
	}
	return before;
}

static __device__ __forceinline__ u32 strips_of(const struct kedge_pack_block &b)
{
	return (planes::whole_of(b) + STRIP - 1) / STRIP;
}

/* Of codec planes: sizes of strips, strips, and what no strip has. */
static __device__ u32 planes_size(const struct kedge_pack_args &a, const struct kedge_pack_block &b)
{
	const u32 strips = strips_of(b);
	u32 size = 2 * strips;

	for (u32 k = 0; k < strips; k++) {
		a.within[b.part + k] = size;
		size += a.sizes[b.part + k];
	}
	return size + b.bytes % (8 * b.width);
}

static __device__ u32 size_of(const struct kedge_pack_args &a, const struct kedge_pack_block &b)
{
	u32 size = b.bytes;

	if (b.how == KEDGE_PACK_PLANES)
		size = planes_size(a, b);
	else if (b.how == KEDGE_PACK_WHOLE)
		size = a.items[b.item];
	return size < b.bytes ? size : b.bytes;
}

/* By all threads of the block. FROM has some bytes more than N that may be read, TO is anywhere. */
static __device__ void copy(unsigned char *to, const unsigned char *from, u32 n)
{
	const u32 before = (u32)(-(unsigned long long)to % 16), head = before < n ? before : n;
	const u32 end = head + (n - head) / 16 * 16;

	for (u32 i = threadIdx.x; i < head; i += KEDGE_THREADS)
		to[i] = from[i];
	for (u32 i = head + threadIdx.x * 16; i < end; i += KEDGE_THREADS * 16)
		*(ulonglong2 *)(to + i) = make_ulonglong2(scatter::word_at(from + i), scatter::word_at(from + i + 8));
	for (u32 i = end + threadIdx.x; i < n; i += KEDGE_THREADS)
		to[i] = from[i];
}

/* Part K of a block of codec planes that goes to TO: a strip with its size, and with the last one what no strip has. */
static __device__ void strip_put(const struct kedge_pack_args &a, const struct kedge_pack_block &b, u32 k, unsigned char *to)
{
	const u32 strips = strips_of(b), whole = planes::whole_of(b), from = k * STRIP, tail = b.bytes - whole;
	u32 n, size;

	if (k >= strips)
		return;
	n = whole - from < STRIP ? whole - from : STRIP;
	size = a.sizes[b.part + k];
	copy(to + a.within[b.part + k], (size < n ? a.slots : a.raw) + b.at + from, size);
	if (threadIdx.x < 2)
		to[2 * k + threadIdx.x] = (unsigned char)(size >> 8 * threadIdx.x);
	if (k == strips - 1)
		copy(to + a.within[b.part + k] + size, a.raw + b.at + whole, tail);
}

} /* namespace pack */

/* One block of threads. */
KEDGE_KERNEL(kedge_pack_place, struct kedge_pack_args)
{
	unsigned done = 0;

	for (unsigned first = 0; first < a.count; first += KEDGE_THREADS) {
		const unsigned i = first + threadIdx.x, size = i < a.count ? pack::size_of(a, a.blocks[i]) : 0;
		unsigned all;
		const unsigned place = done + pack::threads_before(size, &all);

		if (i < a.count) {
			a.stored[i] = size;
			a.places[i] = place;
		}
		done += all;
	}
}

KEDGE_KERNEL(kedge_pack_join, struct kedge_pack_args)
{
	for (unsigned p = blockIdx.x; p < a.parts; p += gridDim.x) {
		const unsigned i = a.owners[p], stored = a.stored[i];
		const struct kedge_pack_block b = a.blocks[i];
		const unsigned from = (p - b.part) * pack::STRIP, left = stored > from ? stored - from : 0;
		unsigned char *to = a.out + a.places[i];

		if (stored < b.bytes && b.how == KEDGE_PACK_PLANES)
			pack::strip_put(a, b, p - b.part, to);
		else
			pack::copy(to + from, (stored < b.bytes ? a.slots : a.raw) + b.at + from,
				   left < pack::STRIP ? left : pack::STRIP);
	}
}
