/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * digest.cu: the chunk digest and the region sum of docs/digests.md on a GPU, bit-identical to src/base/digest.c.
 *
 * NH is an order-free sum over pairs of words, so lanes share a chunk, each with 16-byte loads at a stride. The keys of a
 * pass are those of the pass before, 64 bytes further on, so that a lane needs few of them, and has them in registers for
 * all of its chunks. Of short chunks, four lanes work on four at once: two rounds of shuffles leave each lane with all sums
 * of one chunk, which it folds, compares and stores. Neither shared memory nor a barrier is needed, and the region sum
 * rides on the same loads: it is additive, so the atomics at the end commute and the result is the same on every run.
 */
#include "gpu/kernels.h"

#define STEP    0x9E3779B97F4A7C15ull
#define KEY_SUM 0x27D4EB2F165667C5ull
#define ALL     0xffffffffu

typedef unsigned long long u64;

struct region_sum {
	u64 s1, s2;
};

static __device__ __forceinline__ u64 wide(unsigned a, unsigned b)
{
	return (u64)a * b;
}

static __device__ __forceinline__ u64 product(u64 w, u64 k)
{
	return wide((unsigned)w + (unsigned)k, (unsigned)(w >> 32) + (unsigned)(k >> 32));
}

static __device__ __forceinline__ void sum_pair(struct region_sum *s, ulonglong2 w, u64 key)
{
	u64 t0 = w.x ^ key, t1 = w.y ^ (key + STEP);

	s->s1 += wide((unsigned)t0, (unsigned)(t0 >> 32)) + wide((unsigned)t1, (unsigned)(t1 >> 32));
	s->s2 += t0 + t1;
}

/* The J-th 32 bits of the hash of (s2, s3). */
static __device__ __forceinline__ unsigned fold_hash(const struct kedge_digest_fold &f, int j, u64 s2, u64 s3)
{
	const unsigned b[4] = {(unsigned)s2, (unsigned)(s2 >> 32), (unsigned)s3, (unsigned)(s3 >> 32)};
	u64 low = f.start[j];
	unsigned high = 0;

#pragma unroll
	for (int i = 0; i < 4; i++) {
		low += wide(b[i], f.low[j][i]);
		high += b[i] * f.high[j][i];
	}
	return (unsigned)(low >> 32) + high;
}

static __device__ __forceinline__ u64 add_halves(u64 s, unsigned low, unsigned high)
{
	return (u64)((unsigned)s + low) | (u64)((unsigned)(s >> 32) + high) << 32;
}

static __device__ __forceinline__ ulonglong2 fold(const struct kedge_digest_fold &f, const u64 s[4])
{
	ulonglong2 d;

	d.x = add_halves(s[0], fold_hash(f, 0, s[2], s[3]), fold_hash(f, 1, s[2], s[3]));
	d.y = add_halves(s[1], fold_hash(f, 2, s[2], s[3]), fold_hash(f, 3, s[2], s[3]));
	return d;
}

/* Returns 1 if the digest of chunk C is another one now. */
static __device__ __forceinline__ unsigned update(const struct kedge_digest_args &a, u64 c, ulonglong2 now, ulonglong2 old)
{
	if (now.x == old.x && now.y == old.y)
		return 0;
	a.digests[c] = now;
	return 1;
}

/* Sums of the region, and the number of changes, from every warp. */
static __device__ void add_totals(const struct kedge_digest_args &a, struct region_sum s, u64 differ)
{
	for (int d = 16; d; d >>= 1) {
		s.s1 += __shfl_xor_sync(ALL, s.s1, d);
		s.s2 += __shfl_xor_sync(ALL, s.s2, d);
		differ += __shfl_xor_sync(ALL, differ, d);
	}
	if (threadIdx.x % 32 == 0) {
		atomicAdd(&a.totals[0], s.s1);
		atomicAdd(&a.totals[1], s.s2);
		if (differ)
			atomicAdd(&a.totals[2], differ);
	}
}

/* V is lane-dependent: what the lane keeps stays, the other goes to the lane that differs in bit D. */
static __device__ __forceinline__ u64 trade(u64 first, u64 second, unsigned upper, int d)
{
	u64 keep = upper ? second : first, give = upper ? first : second;

	return keep + __shfl_xor_sync(ALL, give, d);
}

/* COUNT chunks of LOADS * 64 bytes; the grid strides over them in whole warps, so no lane leaves early. */
template <int LOADS> static __device__ __forceinline__ void short_chunks(const struct kedge_digest_args &a)
{
	const unsigned lane = threadIdx.x % 4;
	const u64 stride = (u64)gridDim.x * blockDim.x;
	const u64 first = ((u64)blockIdx.x * blockDim.x + threadIdx.x) / 4 * 4;
	const u64 rounds = (a.count + stride - 1) / stride;
	struct region_sum region = {0, 0};
	ulonglong2 key[LOADS + 3];
	u64 differ = 0;

#pragma unroll
	for (int j = 0; j < LOADS + 3; j++)
		key[j] = a.nh[j * 4 + lane];
	for (u64 r = 0, c = first; r < rounds; r++, c += stride) {
		u64 s[4][4], t[4];
		ulonglong2 w[4][LOADS], old = {0, 0};

#pragma unroll
		for (int i = 0; i < 4; i++)
#pragma unroll
			for (int j = 0; j < LOADS; j++)
				w[i][j] = c + i < a.count ? __ldcs(a.data + (c + i) * (4 * LOADS) + j * 4 + lane)
							  : ulonglong2{0, 0};
		if (c + lane < a.count)
			old = a.digests[c + lane];
#pragma unroll
		for (int i = 0; i < 4; i++) {
			u64 sum_key = KEY_SUM + 2 * ((c + i) * (4 * LOADS) + lane) * STEP;

#pragma unroll
			for (int p = 0; p < 4; p++)
				s[i][p] = 0;
#pragma unroll
			for (int j = 0; j < LOADS; j++) {
#pragma unroll
				for (int p = 0; p < 4; p++)
					s[i][p] += product(w[i][j].x, key[j + p].x) + product(w[i][j].y, key[j + p].y);
				if (c + i < a.count)
					sum_pair(&region, w[i][j], sum_key + 8 * j * STEP);
			}
		}
		/* Lane l ends up with the sums of chunk c + l. */
#pragma unroll
		for (int p = 0; p < 4; p++) {
			u64 even = trade(s[0][p], s[1][p], lane & 1, 1), odd = trade(s[2][p], s[3][p], lane & 1, 1);

			t[p] = trade(even, odd, lane & 2, 2);
		}
		if (c + lane < a.count)
			differ += update(a, c + lane, fold(a.fold, t), old);
	}
	add_totals(a, region, differ);
}

/*
 * The digest of BLOCKS blocks of which every group of eight lanes has one, in D: lane p of the group makes the two products
 * of pass p, which are added up over the groups.
 */
template <int BLOCKS>
static __device__ __forceinline__ ulonglong2 top_digest(const struct kedge_digest_args &a, ulonglong2 d,
							ulonglong2 key)
{
	u64 sum = product(d.x, key.x) + product(d.y, key.y), s[4];

#pragma unroll
	for (int g = 8; g < 8 * BLOCKS; g *= 2)
		sum += __shfl_xor_sync(ALL, sum, g);
#pragma unroll
	for (int p = 0; p < 4; p++)
		s[p] = __shfl_sync(ALL, sum, p, 8);
	return fold(a.top_fold, s);
}

/* COUNT chunks of BLOCKS blocks of LOADS * 128 bytes. */
template <int LOADS, int BLOCKS> static __device__ __forceinline__ void long_chunks(const struct kedge_digest_args &a)
{
	const unsigned lane = threadIdx.x % 8, block = threadIdx.x / 8 % BLOCKS;
	const u64 stride = (u64)gridDim.x * blockDim.x / (8 * BLOCKS);
	const u64 first = ((u64)blockIdx.x * blockDim.x + threadIdx.x) / (8 * BLOCKS);
	const u64 rounds = (a.count + stride - 1) / stride;
	struct region_sum region = {0, 0};
	ulonglong2 key[2 * (LOADS + 1)], top_key = {0, 0};
	u64 differ = 0;

#pragma unroll
	for (int j = 0; j < 2 * (LOADS + 1); j++)
		key[j] = a.nh[j * 4 + lane]; /* unit j * 4 + lane of 16 bytes: what load j / 2 needs in pass j % 2, and the next */
	if (BLOCKS > 1)
		top_key = a.top_nh[block + 4 * (lane % 4)];
	for (u64 r = 0, c = first; r < rounds; r++, c += stride) {
		const u64 at = (c * BLOCKS + block) * (8 * LOADS) + lane;
		const u64 sum_key = KEY_SUM + 2 * at * STEP;
		ulonglong2 w[LOADS], old = {0, 0}, now;
		u64 s[4] = {0, 0, 0, 0};

		if (c < a.count) {
#pragma unroll
			for (int j = 0; j < LOADS; j++)
				w[j] = __ldcs(a.data + at + j * 8);
			if (lane == 0 && block == 0)
				old = a.digests[c];
#pragma unroll
			for (int j = 0; j < LOADS; j++) {
#pragma unroll
				for (int p = 0; p < 4; p++)
					s[p] += product(w[j].x, key[2 * j + p].x) + product(w[j].y, key[2 * j + p].y);
				sum_pair(&region, w[j], sum_key + 16 * j * STEP);
			}
		}
#pragma unroll
		for (int p = 0; p < 4; p++)
#pragma unroll
			for (int d = 4; d; d >>= 1)
				s[p] += __shfl_xor_sync(ALL, s[p], d);
		now = fold(a.fold, s);
		if (BLOCKS > 1)
			now = top_digest<BLOCKS>(a, now, top_key);
		if (c < a.count && lane == 0 && block == 0)
			differ += update(a, c, now, old);
	}
	add_totals(a, region, differ);
}

#define SHORT(bytes, loads)                                            \
	KEDGE_KERNEL(kedge_digest_##bytes, struct kedge_digest_args)   \
	{                                                              \
		short_chunks<loads>(a);                                \
	}
#define LONG(bytes, loads, blocks)                                     \
	KEDGE_KERNEL(kedge_digest_##bytes, struct kedge_digest_args)   \
	{                                                              \
		long_chunks<loads, blocks>(a);                         \
	}
KEDGE_DIGEST_KERNELS(SHORT, LONG)
#undef SHORT
#undef LONG
