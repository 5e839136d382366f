/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * deflate.cu: blocks of codec deflate on a GPU, the same bytes as those of src/codec/deflate_warp.c; a zlib stream.
 *
 * A block of threads makes the Deflate block of a piece (kedge_deflate_encode): each of its warps finds the matches of a part
 * and leaves units, literals or halves of matches, which it counts; then codes are made of the counts, each warp knows how
 * many bits it will write, and where, and writes them. Pieces end with whole bytes, and are put behind each other
 * (kedge_deflate_join).
 */
#include "base/deflate_codes.h"
#include "gpu/kernels.h"

namespace deflate
{

using namespace matches;

const u32 PIECE = KEDGE_DEFLATE_PIECE, ROOM = KEDGE_DEFLATE_OUT, SCRATCH = KEDGE_DEFLATE_SCRATCH;
const u32 MATCH = 0x8000u; /* of a unit: a match of so many bytes, whose distance, minus 1, is the next unit */
const u32 LITERALS = KEDGE__DEFLATE_LITERALS, SYMBOLS = KEDGE__DEFLATE_ALL, END = KEDGE__DEFLATE_END;
const u32 PRIME = 65521;
const u32 TOO_MUCH = 0xffffffffu;

/* What a piece came to. */
struct head {
	u32 bytes;           /* of its Deflate block; TOO_MUCH: too many */
	u32 sums[WARPS][2];  /* of each part: its bytes, and its bytes times their distance from its end; modulo PRIME */
	u32 padding[3];
};

/* What codes are made with. */
struct work {
	u32 counts[SYMBOLS], used[2];
	u16 order[SYMBOLS];
	struct kedge__deflate_tree trees[2];
	struct kedge__deflate_head head;
};

struct shared {
	union {
		struct table tables[WARPS]; /* while matches are looked for; then: */
		struct work work;
	};
	u32 counts[WARPS][SYMBOLS]; /* of each part */
	u8 lengths[SYMBOLS];
	u16 codes[SYMBOLS];
	u32 stage[WARPS][32]; /* bits that become words */
	u32 bits[WARPS];
};

/* ------------------------------------------------------------------ units */

/* The units of a group, whose lanes TAKEN have matches; END: of the part. Returns how many they are. */
static __device__ __forceinline__ u32 group_put(const struct found *f, u32 at, u32 taken, u32 end, u16 *units, u32 *counts)
{
	const u32 lane = lane_id(), below = taken & lower_lanes(), above = taken >> lane >> 1;
	const bool mine = taken >> lane & 1;
	u32 before = __shfl_sync(ALL_LANES, f->at + f->length, below ? (int)highest(below) : 0);
	u32 until = __shfl_sync(ALL_LANES, f->at, above ? (int)(lane + 1 + lowest(above)) : 0);
	u32 all, off;
	bool literal;

	before = below ? before : at;
	until = above ? until : end;
	literal = !mine && at + lane >= before && at + lane < until;
	off = lanes_before(literal ? 1 : mine ? 2 * ((f->length + 257) / 258) : 0, &all);
	if (literal) {
		units[off] = (u16)(f->byte & 255);
		atomicAdd(&counts[f->byte & 255], 1u);
	}
	for (u32 left = mine ? f->length : 0, n; left; left -= n, off += 2) {
		const u32 distance = f->at - f->from;

		n = kedge__deflate_piece(left);
		units[off] = (u16)(MATCH | n);
		units[off + 1] = (u16)(distance - 1);
		atomicAdd(&counts[kedge__deflate_length(n).symbol], 1u);
		atomicAdd(&counts[LITERALS + kedge__deflate_distance(distance).symbol], 1u);
	}
	return all;
}

/* Part START of a block: its units, and how many they are. */
static __device__ u32 part_units(const u8 *raw, u32 bytes, u32 start, struct table *t, u16 *units, u32 *counts)
{
	const u32 end = bytes - start < PART ? bytes : start + PART;
	struct matcher p;
	struct found f;
	u32 count = 0;

	matcher_init(&p, raw, bytes, start, 0, t);
	while (!p.over && p.at <= p.last) {
		const u32 at = p.at, taken = group_next(&p, &f);

		count += group_put(&f, at, taken, end, units + count, counts);
	}
	for (u32 i = p.at + lane_id(); i < end; i += 32) {
		units[count + i - p.at] = raw[i];
		atomicAdd(&counts[raw[i]], 1u);
	}
	return count + (p.at < end ? end - p.at : 0);
}

/* Sums of N bytes, as struct head has them. */
static __device__ void part_sums(const u8 *p, u32 n, u32 sums[2])
{
	u64 sum = 0, weighted = 0;

	for (u32 i = lane_id(); i < n; i += 32) {
		sum += p[i];
		weighted += (u64)p[i] * (n - i);
	}
#pragma unroll
	for (u32 d = 16; d; d /= 2) {
		sum += __shfl_xor_sync(ALL_LANES, sum, (int)d);
		weighted += __shfl_xor_sync(ALL_LANES, weighted, (int)d);
	}
	if (lane_id() == 0) {
		sums[0] = (u32)(sum % PRIME);
		sums[1] = (u32)(weighted % PRIME);
	}
}

/* ------------------------------------------------------------------ codes */

/* The order of symbols from FIRST on, COUNT of them, by their counts: each finds its own place. */
static __device__ void order_make(struct work *w, u32 first, u32 count, u32 *used)
{
	for (u32 s = threadIdx.x; s < count; s += KEDGE_MATCH_THREADS) {
		const u32 mine = w->counts[first + s];
		u32 rank = 0;

		if (!mine)
			continue;
		for (u32 k = 0; k < count; k++) {
			const u32 other = w->counts[first + k];

			rank += other && (other < mine || (other == mine && k < s));
		}
		w->order[first + rank] = (u16)s;
		atomicAdd(used, 1u);
	}
}

/* Codes of a piece from the counts of its parts, and the head of its Deflate block; by all threads. */
static __device__ void codes_make(struct shared *s, bool last)
{
	struct work *w = &s->work;
	const u32 t = threadIdx.x;

	for (u32 k = t; k < SYMBOLS; k += KEDGE_MATCH_THREADS) {
		u32 sum = k == END;

		for (u32 i = 0; i < WARPS; i++)
			sum += s->counts[i][k];
		w->counts[k] = sum;
		s->lengths[k] = 0;
	}
	__syncthreads();
	if (t % 32 == 0 && t / 32 < 2) {
		w->used[t / 32] = 0;
		kedge__deflate_two(w->counts + (t ? LITERALS : 0), t ? SYMBOLS - LITERALS : LITERALS);
	}
	__syncthreads();
	order_make(w, 0, LITERALS, &w->used[0]);
	order_make(w, LITERALS, SYMBOLS - LITERALS, &w->used[1]);
	__syncthreads();
	if (t % 32 == 0 && t / 32 < 2) {
		const u32 first = t ? LITERALS : 0;

		kedge__deflate_lengths(&w->trees[t / 32], w->counts + first, w->order + first, w->used[t / 32],
				       KEDGE__DEFLATE_BITS, s->lengths + first);
	}
	__syncthreads();
	if (t == 0)
		kedge__deflate_head_make(&w->head, s->lengths, last);
	if (t == 32)
		kedge__deflate_codes(s->lengths, LITERALS, s->codes);
	if (t == 64)
		kedge__deflate_codes(s->lengths + LITERALS, SYMBOLS - LITERALS, s->codes + LITERALS);
	__syncthreads();
}

/* Bits that follow the code of a symbol. */
static __device__ __forceinline__ u32 extra_bits(u32 symbol)
{
	if (symbol >= LITERALS)
		return symbol < LITERALS + 4 ? 0 : (symbol - LITERALS) / 2 - 1;
	return symbol < 265 || symbol == 285 ? 0 : (symbol - 261) / 4;
}

/* Bits of a part. */
static __device__ u32 part_bits(const struct shared *s, const u32 *counts)
{
	u32 bits = 0;

	for (u32 k = lane_id(); k < SYMBOLS; k += 32)
		bits += counts[k] * (s->lengths[k] + extra_bits(k));
#pragma unroll
	for (u32 d = 16; d; d /= 2)
		bits += __shfl_xor_sync(ALL_LANES, bits, (int)d);
	return bits;
}

/* ------------------------------------------------------------------ bits */

/* To words that were cleared, and that others write to as well. */
static __device__ __forceinline__ void bits_or(u32 *words, u32 at, u32 value, u32 bits)
{
	atomicOr(&words[at / 32], value << at % 32);
	if (at % 32 + bits > 32)
		atomicOr(&words[at / 32 + 1], value >> (32 - at % 32));
}

/* What a unit becomes, and of how many bits; BEFORE: the unit before it. */
static __device__ __forceinline__ u32 unit_bits(const struct shared *s, u32 unit, u32 before, u32 *bits)
{
	struct kedge__deflate_symbol x = {unit, 0, 0};

	if (before & MATCH) {
		x = kedge__deflate_distance(unit + 1);
		x.symbol += LITERALS;
	} else if (unit & MATCH) {
		x = kedge__deflate_length(unit & ~MATCH);
	}
	*bits = s->lengths[x.symbol] + x.bits;
	return s->codes[x.symbol] | x.extra << s->lengths[x.symbol];
}

/* COUNT units to bits, from bit AT of ROOM on, by a warp. The words in which it begins and ends may be others', too. */
static __device__ void units_put(const struct shared *s, const u16 *units, u32 count, u32 *out, u32 at, u32 *stage)
{
	const u32 lane = lane_id();
	u32 word = at / 32, fill = at % 32, last = 0;
	bool first = true;

	stage[lane] = 0;
	__syncwarp();
	for (u32 i = 0; i < count; i += 32) {
		const u32 unit = i + lane < count ? units[i + lane] : 0;
		u32 before = __shfl_up_sync(ALL_LANES, unit, 1), bits, value, all, off, full;

		before = lane ? before : last;
		last = __shfl_sync(ALL_LANES, unit, 31);
		value = unit_bits(s, unit, before, &bits);
		bits = i + lane < count ? bits : 0;
		off = fill + lanes_before(bits, &all);
		if (bits)
			bits_or(stage, off, value, bits);
		__syncwarp();
		full = (fill + all) / 32;
		value = stage[lane];
		if (lane < full && first && lane == 0)
			atomicOr(&out[word], value);
		else if (lane < full)
			out[word + lane] = value;
		value = __shfl_sync(ALL_LANES, value, (int)full % 32);
		__syncwarp();
		stage[lane] = lane == 0 ? value : 0;
		__syncwarp();
		fill = (fill + all) % 32;
		word += full;
		first = first && !full;
	}
	if (lane == 0 && fill)
		atomicOr(&out[word], stage[0]);
}

/* What comes before and behind the parts; AT: the bit behind them. Returns the bytes of the Deflate block. */
static __device__ u32 ends_put(const struct shared *s, u32 *out, u32 at, bool last)
{
	const struct kedge__deflate_bits *head = &s->work.head.bits;
	const u32 end = at + s->lengths[END];

	for (u32 i = 0; i < head->count; i += 32) {
		if (i + 32 <= head->count)
			out[i / 32] = head->words[i / 32];
		else
			atomicOr(&out[i / 32], head->words[i / 32]);
	}
	bits_or(out, at, s->codes[END], s->lengths[END]);
	if (last)
		return (end + 7) / 8;
	bits_or(out, (end + 3 + 7) / 8 * 8, 0xffff0000u, 32);
	return (end + 3 + 7) / 8 + 4;
}

/* ------------------------------------------------------------------ pieces */

/* The bits of a piece whose parts have COUNT units each, this warp's at UNITS. Returns its bytes. */
static __device__ u32 piece_put(struct shared *s, const u16 *units, u32 count, u32 *out, bool last)
{
	const u32 warp = threadIdx.x / 32;
	u32 at = s->work.head.bits.count, mine = 0, bits;

	bits = part_bits(s, s->counts[warp]);
	if (lane_id() == 0)
		s->bits[warp] = bits;
	__syncthreads();
	for (u32 i = 0; i < WARPS; i++) {
		mine = i == warp ? at : mine;
		/* Words that more than one writes to are cleared before. */
		if (threadIdx.x == i)
			out[at / 32] = 0;
		at += s->bits[i];
	}
	if (at / 8 + 16 > ROOM)
		return TOO_MUCH;
	if (threadIdx.x >= 32 && threadIdx.x < 36)
		out[at / 32 + threadIdx.x - 32] = 0;
	__syncthreads();
	units_put(s, units, count, out, mine, s->stage[warp]);
	return threadIdx.x == 0 ? ends_put(s, out, at, last) : 0;
}

static __device__ void encode(const struct kedge_deflate_args &a)
{
	__shared__ struct shared __align__(16) s;
	const u32 warp = threadIdx.x / 32;

	for (u64 i = blockIdx.x; i < (u64)a.count * a.pieces; i += gridDim.x) {
		const u32 b = (u32)(i / a.pieces), bytes = a.lengths[b], piece = (u32)(i % a.pieces) * PIECE;
		const u32 start = piece + warp * PART;
		const u8 *raw = a.raw + a.places[b];
		u8 *out = a.scratch + i * SCRATCH;
		u16 *units = (u16 *)(out + ROOM) + warp * PART;
		struct head *h = (struct head *)a.heads + i;
		u32 count = 0;

		if (piece >= bytes)
			continue;
		for (u32 k = lane_id(); k < SYMBOLS; k += 32)
			s.counts[warp][k] = 0;
		__syncwarp();
		if (start < bytes) {
			count = part_units(raw, bytes, start, &s.tables[warp], units, s.counts[warp]);
			part_sums(raw + start, bytes - start < PART ? bytes - start : PART, h->sums[warp]);
		}
		__syncthreads();
		codes_make(&s, bytes - piece <= PIECE);
		count = piece_put(&s, units, count, (u32 *)out, bytes - piece <= PIECE);
		if (threadIdx.x == 0)
			h->bytes = count;
		__syncthreads();
	}
}

/* ------------------------------------------------------------------ join */

/* The checksum of a block, by one thread: what its parts have, put together. */
static __device__ u32 adler(const struct head *heads, u32 bytes)
{
	u64 a = 1, b = 0;

	for (u32 at = 0; at < bytes; at += PART) {
		const u32 *sums = heads[at / PIECE].sums[at / PART % WARPS], n = bytes - at < PART ? bytes - at : PART;

		b = (b + a * n + sums[1]) % PRIME;
		a = (a + sums[0]) % PRIME;
	}
	return (u32)(b << 16 | a);
}

static __device__ void block_join(const struct kedge_deflate_args &a, u32 b)
{
	const u32 warp = threadIdx.x / 32, warps = KEDGE_THREADS / 32, bytes = a.lengths[b];
	const struct head *heads = (const struct head *)a.heads + (u64)b * a.pieces;
	u8 *out = a.slots + a.places[b];
	u64 size = 2 + 4, at = 2;

	for (u32 i = 0; (u64)i * PIECE < bytes; i++)
		size += heads[i].bytes;
	if (threadIdx.x == 0)
		a.sizes[b] = size < bytes ? (u32)size : bytes;
	if (size >= bytes)
		return;
	for (u32 i = 0; (u64)i * PIECE < bytes; i++) {
		const u32 n = heads[i].bytes, share = (n + warps - 1) / warps, from = warp * share;

		if (from < n)
			copy(out + at + from, a.scratch + ((u64)b * a.pieces + i) * SCRATCH + from,
			     n - from < share ? n - from : share);
		at += n;
	}
	if (threadIdx.x == 0) {
		const u32 sum = adler(heads, bytes);

		out[0] = 0x78;
		out[1] = 0x01;
		for (u32 k = 0; k < 4; k++)
			out[at + k] = (u8)(sum >> (24 - 8 * k));
	}
}

static __device__ void join(const struct kedge_deflate_args &a)
{
	for (u32 b = blockIdx.x; b < a.count; b += gridDim.x)
		block_join(a, b);
}

} /* namespace deflate */

KEDGE_KERNEL_BY(KEDGE_MATCH_THREADS, 5, kedge_deflate_encode, struct kedge_deflate_args)
{
	deflate::encode(a);
}
KEDGE_KERNEL(kedge_deflate_join, struct kedge_deflate_args)
{
	deflate::join(a);
}
