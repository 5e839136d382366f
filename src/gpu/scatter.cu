/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * scatter.cu: pieces of a buffer to their places, and patterns; and the region sum, as kedge__sum_of() has it.
 *
 * Short pieces have eight lanes each, so that a warp has four at once; long ones have all of the warp. Memory is written 16
 * bytes at a time, where the place is a multiple of that, and read in the same way if the buffer has the bytes at the same
 * distance from one; if not, from words that are shifted. Bytes before and after are written one by one. The region sum is
 * made of what is written, where pieces consist of whole words of their target; it is additive, so the order does not matter.
 */
#include "gpu/kernels.h"

namespace scatter
{

constexpr unsigned GROUP = 8;         /* lanes of a short piece */
constexpr unsigned SHORT_PIECE = 512; /* bytes of one, at most */
constexpr unsigned AT_ONCE = 4;       /* loads before the first of them is stored */

/* What a lane has summed, and for which target. */
struct sum_of_target {
	struct region_sum sum;
	unsigned target;
};

static __device__ __forceinline__ void sums_add(u64 *to, struct region_sum s)
{
	atomicAdd(&to[0], s.s1);
	atomicAdd(&to[1], s.s2);
}

/* From a warp, all lanes of which are here. */
static __device__ void sums_add_warp(u64 *to, struct region_sum s)
{
	for (int d = 16; d; d >>= 1) {
		s.s1 += __shfl_xor_sync(ALL, s.s1, d);
		s.s2 += __shfl_xor_sync(ALL, s.s2, d);
	}
	if (threadIdx.x % 32 == 0)
		sums_add(to, s);
}

/* The eight bytes at P, which is no multiple of anything. */
static __device__ __forceinline__ u64 word_at(const unsigned char *p)
{
	const unsigned shift = (unsigned)((u64)p % 8) * 8;
	const u64 *at = (const u64 *)(p - (u64)p % 8);
	u64 low = at[0];

	return shift ? low >> shift | at[1] << (64 - shift) : low;
}

static __device__ __forceinline__ u64 first_bytes(u64 w, unsigned bytes)
{
	return bytes < 8 ? w & ((1ull << 8 * bytes) - 1) : w;
}

/* Where a piece's bytes come from: READ has sixteen of them, WORD eight and BYTE one, from byte I on. TO and I are such that
 * TO + I, for sixteen, is a multiple of 16. */
struct from_buffer {
	const unsigned char *from;
	bool level; /* the same is true of FROM + I */

	__device__ __forceinline__ from_buffer(const struct kedge_scatter_args &a, const struct kedge_scatter_piece &p)
	    : from(p.from & KEDGE_SCATTER_UNPACKED ? a.unpacked + (p.from & ~KEDGE_SCATTER_UNPACKED) : a.buffer + p.from),
	      level((u64)from % 16 == p.to % 16)
	{
	}
	__device__ __forceinline__ ulonglong2 read(unsigned i) const
	{
		if (level)
			return __ldcs((const ulonglong2 *)(from + i));
		return make_ulonglong2(word_at(from + i), word_at(from + i + 8));
	}
	__device__ __forceinline__ u64 word(unsigned i) const
	{
		return word_at(from + i);
	}
	__device__ __forceinline__ unsigned char byte(unsigned i) const
	{
		return from[i];
	}
};

struct from_pattern {
	u64 pattern;
	unsigned phase;

	__device__ __forceinline__ from_pattern(const struct kedge_scatter_args &a, const struct kedge_scatter_piece &p)
	    : pattern(*(const u64 *)(a.buffer + p.from)), phase((unsigned)(p.to % 8))
	{
	}
	__device__ __forceinline__ ulonglong2 read(unsigned) const
	{
		return make_ulonglong2(pattern, pattern);
	}
	__device__ __forceinline__ u64 word(unsigned) const /* of a piece that is summed, where the phase is 0 */
	{
		return pattern;
	}
	__device__ __forceinline__ unsigned char byte(unsigned i) const
	{
		return (unsigned char)(pattern >> (phase + i) % 8 * 8);
	}
};

/* Fewer than 16 bytes from I on. */
template <unsigned LANES, class FROM>
static __device__ __forceinline__ void edge_put(unsigned lane, unsigned char *to, const FROM &from, unsigned i, unsigned bytes,
						bool summed, u64 first, struct running_sum *sum)
{
	for (unsigned k = lane; k < bytes; k += LANES)
		to[i + k] = from.byte(i + k);
	if (summed && lane * 8 < bytes)
		sum->add(first_bytes(from.word(i + lane * 8), bytes - lane * 8), first + i / 8 + lane);
}

/* A piece, which is from word FIRST of its target on, by LANES lanes. */
template <unsigned LANES, class FROM>
static __device__ __forceinline__ void piece_put(unsigned lane, const struct kedge_scatter_piece &p, const FROM &from, bool summed,
						 u64 first, struct region_sum *sum)
{
	struct running_sum running = {*sum, {0, 0}, first / KEDGE_SUM_WORDS};
	unsigned char *to = (unsigned char *)p.to;
	const unsigned bytes = p.what & KEDGE_SCATTER_BYTES;
	const unsigned before = (unsigned)(-p.to % 16), head = before < bytes ? before : bytes;
	const unsigned end = head + (bytes - head) / 16 * 16;

	edge_put<LANES>(lane, to, from, 0, head, summed, first, &running);
	for (unsigned i = head + lane * 16; i < end; i += LANES * 16 * AT_ONCE) {
		ulonglong2 w[AT_ONCE];

#pragma unroll
		for (unsigned k = 0; k < AT_ONCE; k++)
			if (i + k * LANES * 16 < end)
				w[k] = from.read(i + k * LANES * 16);
#pragma unroll
		for (unsigned k = 0; k < AT_ONCE; k++) {
			const unsigned at = i + k * LANES * 16;

			if (at >= end)
				continue;
			*(ulonglong2 *)(to + at) = w[k];
			if (!summed)
				continue;
			running.add(w[k].x, first + at / 8);
			running.add(w[k].y, first + at / 8 + 1);
		}
	}
	edge_put<LANES>(lane, to, from, end, bytes - end, summed, first, &running);
	if (!summed)
		return;
	running.turn(0);
	*sum = running.all;
}

template <unsigned LANES>
static __device__ __forceinline__ void piece_take(const struct kedge_scatter_args &a, unsigned lane,
						  const struct kedge_scatter_piece &p, struct sum_of_target *s)
{
	const unsigned target = p.what >> KEDGE_SCATTER_SHIFT;
	const bool summed = target != KEDGE_SCATTER_NONE;
	u64 first = 0;

	if (summed) {
		if (s->target != target && s->target != KEDGE_SCATTER_NONE) {
			sums_add(a.sums + 2 * s->target, s->sum);
			s->sum = {0, 0};
		}
		s->target = target;
		first = (p.to - a.targets[target]) / 8;
	}
	if (p.what & KEDGE_SCATTER_REPEAT)
		piece_put<LANES>(lane, p, from_pattern(a, p), summed, first, &s->sum);
	else
		piece_put<LANES>(lane, p, from_buffer(a, p), summed, first, &s->sum);
}

/* What all lanes of a warp have summed, mostly for one target. */
static __device__ void targets_add(const struct kedge_scatter_args &a, struct sum_of_target s)
{
	const unsigned target = __shfl_sync(ALL, s.target, 0);

	if (__all_sync(ALL, s.target == target)) {
		if (target != KEDGE_SCATTER_NONE)
			sums_add_warp(a.sums + 2 * target, s.sum);
	} else if (s.target != KEDGE_SCATTER_NONE) {
		sums_add(a.sums + 2 * s.target, s.sum);
	}
}

static __device__ __forceinline__ void pieces_put(const struct kedge_scatter_args &a)
{
	const unsigned lane = threadIdx.x % 32;
	const u64 stride = (u64)gridDim.x * blockDim.x / GROUP;
	const u64 rounds = (a.count + stride - 1) / stride;
	struct sum_of_target s = {{0, 0}, KEDGE_SCATTER_NONE};
	u64 i = ((u64)blockIdx.x * blockDim.x + threadIdx.x) / GROUP;

	for (u64 r = 0; r < rounds; r++, i += stride) {
		struct kedge_scatter_piece p = {0, 0, KEDGE_SCATTER_NONE << KEDGE_SCATTER_SHIFT};

		if (i < a.count)
			p = a.pieces[i];
		const bool is_long = (p.what & KEDGE_SCATTER_BYTES) > SHORT_PIECE;

		for (unsigned longs = __ballot_sync(ALL, is_long && lane % GROUP == 0); longs; longs &= longs - 1) {
			const int from = __ffs((int)longs) - 1;
			const struct kedge_scatter_piece all = {__shfl_sync(ALL, p.to, from), __shfl_sync(ALL, p.from, from),
								__shfl_sync(ALL, p.what, from)};

			piece_take<32>(a, lane, all, &s);
		}
		if (!is_long)
			piece_take<GROUP>(a, lane % GROUP, p, &s);
		__syncwarp();
	}
	targets_add(a, s);
}

/* A page by a warp, as far as it has whole pairs of words that are where they can be read at once. */
static __device__ __forceinline__ struct region_sum page_add(const ulonglong2 *data, u64 pairs, u64 page)
{
	constexpr unsigned PAIRS = KEDGE_SUM_WORDS / 2;
	const unsigned lane = threadIdx.x % 32;
	struct region_sum s = {0, 0};

	for (unsigned i = lane; i < PAIRS; i += 32 * AT_ONCE) {
		ulonglong2 w[AT_ONCE];

#pragma unroll
		for (unsigned k = 0; k < AT_ONCE; k++)
			if (page * PAIRS + i + k * 32 < pairs)
				w[k] = __ldcs(data + page * PAIRS + i + k * 32);
#pragma unroll
		for (unsigned k = 0; k < AT_ONCE; k++)
			if (page * PAIRS + i + k * 32 < pairs)
				sum_pair(&s, w[k], key_pair(2 * (i + k * 32)), key_pair(2 * (i + k * 32) + KEDGE_SUM_SHIFT));
	}
	return s;
}

static __device__ __forceinline__ void region_add(const struct kedge_sum_args &a)
{
	const u64 stride = (u64)gridDim.x * blockDim.x, self = (u64)blockIdx.x * blockDim.x + threadIdx.x;
	/* Words are read with those around them; the last is not. */
	const u64 words = a.bytes / 8 - (a.bytes >= 8 && (u64)a.data % 8 ? 1 : 0);
	const u64 pairs = (u64)a.data % 16 ? 0 : words / 2;
	struct running_sum s = {{0, 0}, {0, 0}, 0};

	for (u64 page = self / 32; page * (KEDGE_SUM_WORDS / 2) < pairs; page += stride / 32)
		sum_weigh(&s.all, page_add((const ulonglong2 *)a.data, pairs, page), page);
	for (u64 i = 2 * pairs + self; i < words; i += stride)
		s.add(word_at(a.data + 8 * i), i);
	for (u64 i = words + self; i < (a.bytes + 7) / 8; i += stride) {
		const u64 left = a.bytes - 8 * i;

		s.add(load_bytes((u64)a.data + 8 * i, left < 8 ? (unsigned)left : 8), i);
	}
	s.turn(0);
	sums_add_warp(a.sums, s.all);
}

} /* namespace scatter */

KEDGE_KERNEL(kedge_scatter, struct kedge_scatter_args)
{
	scatter::pieces_put(a);
}

KEDGE_KERNEL(kedge_sum, struct kedge_sum_args)
{
	scatter::region_add(a);
}
