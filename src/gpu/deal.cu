/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * deal.cu: probes are dealt out by blocks of the finder: a stable sort by their keys, some bits at a time. Each round counts
 * how many of each tile belong to each bin, adds that up, and moves them.
 */
#include "gpu/kernels.h"

static __device__ __forceinline__ unsigned deal_bin(const finder_args &a, unsigned key)
{
	return key >> a.shift & ((1u << a.bin_bits) - 1);
}

KEDGE_KERNEL(kedge_deal_count, struct kedge_finder_args)
{
	__shared__ unsigned bins[1 << KEDGE_DEAL_BITS];
	const unsigned tiles = gridDim.x, first = blockIdx.x * KEDGE_DEAL_TILE;

	bins[threadIdx.x] = 0;
	__syncthreads();
	for (unsigned i = first + threadIdx.x; i < first + KEDGE_DEAL_TILE && i < a.count; i += blockDim.x)
		atomicAdd(&bins[deal_bin(a, a.keys[i])], 1u);
	__syncthreads();
	if (threadIdx.x < 1u << a.bin_bits)
		a.tallies[threadIdx.x * tiles + blockIdx.x] = bins[threadIdx.x];
}

/* What all threads before this one have in V; *TOTAL: what all have. */
static __device__ unsigned deal_sum_before(unsigned v, unsigned *total)
{
	__shared__ unsigned sums[FINDER_WARPS];
	const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
	unsigned sum = v, before = 0;

	for (unsigned d = 1; d < 32; d *= 2) {
		unsigned other = __shfl_up_sync(ALL, sum, d);

		sum += lane >= d ? other : 0;
	}
	__syncthreads(); /* those of the call before have been read */
	if (lane == 31)
		sums[warp] = sum;
	__syncthreads();
	*total = 0;
	for (unsigned i = 0; i < FINDER_WARPS; i++) {
		before += i < warp ? sums[i] : 0;
		*total += sums[i];
	}
	return before + sum - v;
}

/* A block of threads a bin: where those of each tile begin among those of the bin. */
KEDGE_KERNEL(kedge_deal_scan, struct kedge_finder_args)
{
	const unsigned tiles = (a.count + KEDGE_DEAL_TILE - 1) / KEDGE_DEAL_TILE;
	unsigned *tallies = a.tallies + (u64)blockIdx.x * tiles, before = 0;

	for (unsigned first = 0; first < tiles; first += blockDim.x) {
		unsigned i = first + threadIdx.x, total, at = deal_sum_before(i < tiles ? tallies[i] : 0, &total);

		if (i < tiles)
			tallies[i] = before + at;
		before += total;
	}
	if (threadIdx.x == 0)
		a.bins[blockIdx.x] = before;
}

/* Lanes with the same BIN; V: they take part. */
static __device__ __forceinline__ unsigned deal_alike(const finder_args &a, unsigned bin, bool v)
{
	unsigned alike = __ballot_sync(ALL, v);

	for (unsigned b = 0; b < a.bin_bits; b++) {
		unsigned votes = __ballot_sync(ALL, bin >> b & 1);

		alike &= bin >> b & 1 ? votes : ~votes;
	}
	return alike;
}

KEDGE_KERNEL(kedge_deal_move, struct kedge_finder_args)
{
	enum { EACH = KEDGE_DEAL_TILE / KEDGE_THREADS };
	__shared__ unsigned next[FINDER_WARPS][1 << KEDGE_DEAL_BITS];
	const unsigned warp = threadIdx.x / 32, first = blockIdx.x * KEDGE_DEAL_TILE + warp * 32 * EACH + threadIdx.x % 32;
	unsigned keys[EACH], rank[EACH], at, total;

	for (unsigned w = 0; w < FINDER_WARPS; w++)
		next[w][threadIdx.x] = 0;
	__syncthreads();
#pragma unroll
	for (unsigned j = 0; j < EACH; j++) {
		unsigned i = first + j * 32, bin, alike;
		bool v = i < a.count;

		keys[j] = v ? a.keys[i] : 0;
		bin = deal_bin(a, keys[j]);
		alike = deal_alike(a, bin, v);
		rank[j] = next[warp][bin] + finder_rank(alike);
		__syncwarp();
		if (v && !finder_rank(alike))
			next[warp][bin] += (unsigned)__popc(alike);
		__syncwarp();
	}
	__syncthreads();
	at = threadIdx.x < 1u << a.bin_bits ? a.bins[threadIdx.x] : 0;
	at = deal_sum_before(at, &total);
	if (threadIdx.x < 1u << a.bin_bits)
		at += a.tallies[threadIdx.x * gridDim.x + blockIdx.x];
	for (unsigned w = 0; w < FINDER_WARPS; w++) {
		unsigned n = next[w][threadIdx.x];

		next[w][threadIdx.x] = at;
		at += n;
	}
	__syncthreads();
#pragma unroll
	for (unsigned j = 0; j < EACH; j++) {
		unsigned i = first + j * 32;

		if (i >= a.count)
			continue;
		at = next[warp][deal_bin(a, keys[j])] + rank[j];
		a.keys_to[at] = keys[j];
		a.order_to[at] = a.order ? a.order[i] : i;
	}
}

/* Where those of each block begin. */
KEDGE_KERNEL(kedge_deal_begin, struct kedge_finder_args)
{
	for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i <= a.count; i += gridDim.x * blockDim.x) {
		unsigned from = i ? a.keys[i - 1] + 1 : 0, to = i < a.count ? a.keys[i] : a.blocks;

		for (unsigned block = from; block <= to; block++)
			a.begin[block] = i;
	}
}
