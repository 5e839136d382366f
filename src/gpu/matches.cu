/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * matches.cu: earlier bytes of a block that the bytes at a place repeat, a warp a part of the block; the same that
 * src/codec/matches.c finds. A lane has a place of a group; lanes with the same hash find each other by claims to an entry of
 * the table and then by a vote, which takes longer, and of those the last enters its place, so that what is in the table does
 * not depend on any order.
 */
#include "gpu/kernels.h"

namespace matches
{

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned u32;
typedef unsigned long long u64;

const u32 PART = KEDGE_MATCH_PART, BEFORE = 16384, BITS = 12, LEAST = 4, BACK = 4, TAIL = 12, FIRST = 12;
const u32 AT_ONCE = 96; /* bytes that are entered together: a warp has 128 at hand */
const u32 ALL_LANES = 0xffffffffu;
const u32 WARPS = KEDGE_MATCH_THREADS / 32;

struct table {
	u16 places[1 << BITS];
};

/* The part that a warp looks at, and where it is; the same in all lanes, but for words. */
struct matcher {
	const u8 *raw; /* the block; aligned to 4 bytes */
	u32 bytes;     /* of the block */
	u32 start, last, limit, at;
	u32 end; /* of the last match of the group; at first, where that begins */
	bool over;
	u32 held;  /* the place of the first of 128 bytes, */
	u32 words; /* of which every lane has four */
	u16 *places;
};

/* What a lane has of a group: the match that was found at its place, or a length of 0. */
struct found {
	u32 at, length, from; /* where it begins, if it is taken; before that, its place */
	u32 back;             /* bytes before it that could belong to it */
	u32 byte;             /* at its place, and others */
};

static __device__ __forceinline__ u32 lane_id()
{
	return threadIdx.x % 32;
}

static __device__ __forceinline__ u32 lower_lanes()
{
	return (1u << lane_id()) - 1;
}

/* The lane of the highest, and of the lowest bit; there is one. */
static __device__ __forceinline__ u32 highest(u32 bits)
{
	return 31 - (u32)__clz((int)bits);
}

static __device__ __forceinline__ u32 lowest(u32 bits)
{
	return (u32)__ffs((int)bits) - 1;
}

/* What the lanes before this one have of V, and *ALL of them. */
static __device__ __forceinline__ u32 lanes_before(u32 v, u32 *all)
{
	u32 sum = v;

#pragma unroll
	for (u32 d = 1; d < 32; d *= 2) {
		u32 y = __shfl_up_sync(ALL_LANES, sum, d);

		if (lane_id() >= d)
			sum += y;
	}
	*all = __shfl_sync(ALL_LANES, sum, 31);
	return sum - v;
}

/* Word I of BYTES at P; what is beyond them is 0. */
static __device__ __forceinline__ u32 word_at(const u8 *p, u32 bytes, u32 i)
{
	u32 v = 0;

	if (4 * i + 4 <= bytes)
		return __ldg((const u32 *)p + i);
	for (u32 k = 0; 4 * i + k < bytes && k < 4; k++)
		v |= (u32)p[4 * i + k] << 8 * k;
	return v;
}

/* Four bytes from AT on. */
static __device__ __forceinline__ u32 bytes_at(const u8 *p, u32 bytes, u32 at)
{
	u32 low = word_at(p, bytes, at / 4);

	return at % 4 ? __funnelshift_r(low, word_at(p, bytes, at / 4 + 1), 8 * (at % 4)) : low;
}

/* COUNT bytes by a warp; TO and FROM are anywhere. */
static __device__ void copy(u8 *to, const u8 *from, u32 count)
{
	const u32 lane = lane_id(), head = (u32)(0 - (u64)to) & 3;
	u32 i = lane;

	if (count >= 64) {
		const u32 shift = 8 * (u32)((u64)(from + head) & 3), words = (count - head - 4) / 4;
		const u32 *aligned = (const u32 *)(from + head - shift / 8);
		u32 w = lane;

		if (lane < head)
			to[lane] = from[lane];
		/* Several words are read before the first is written, so that they are waited for together. */
		for (; w + 96 < words; w += 128) {
			u32 v[4];

#pragma unroll
			for (u32 k = 0; k < 4; k++)
				v[k] = __funnelshift_r(aligned[w + 32 * k], aligned[w + 32 * k + 1], shift);
#pragma unroll
			for (u32 k = 0; k < 4; k++)
				((u32 *)(to + head))[w + 32 * k] = v[k];
		}
		for (; w < words; w += 32)
			((u32 *)(to + head))[w] = __funnelshift_r(aligned[w], aligned[w + 1], shift);
		i += head + 4 * words;
	}
	for (; i < count; i += 32)
		to[i] = from[i];
}

/* Bytes of all lanes of the group at AT, from a word before it on. */
static __device__ __forceinline__ void hold(struct matcher *p, u32 at)
{
	if (at - p->held <= 84 && p->held <= at)
		return;
	p->held = at < 4 ? 0 : (at & ~3u) - 4;
	p->words = word_at(p->raw, p->bytes, p->held / 4 + lane_id());
}

/* Words of the lane's place, of the group that begins at AT, from word FIRST on; -1 is the one before it. */
template <int FIRST_WORD, int COUNT>
static __device__ __forceinline__ void lane_words(const struct matcher *p, u32 at, u32 v[COUNT])
{
	const u32 off = at - p->held + lane_id(), shift = 8 * (off % 4);
	u32 x[COUNT + 1];

#pragma unroll
	for (int k = 0; k <= COUNT; k++)
		x[k] = __shfl_sync(ALL_LANES, p->words, ((int)(off / 4) + FIRST_WORD + k) & 31);
#pragma unroll
	for (int k = 0; k < COUNT; k++)
		v[k] = __funnelshift_r(x[k], x[k + 1], shift);
}

static __device__ __forceinline__ u32 hash(u32 v0, u32 v1)
{
	return (v0 * 2654435761u ^ (__funnelshift_r(v0, v1, 24) & 0xffff) * 0x85EBCA77u) >> (32 - BITS);
}

/* A bit of an entry: a lane has claimed it. A place has the others. */
const u32 CLAIMED = 0x8000;

/* The lane enters PLACE under its hash, and of those with the same hash the last does. Returns what was there before, and in
 * *BEFORE the lanes before this one that have the same hash. Mostly none has, as claims show. */
static __device__ __forceinline__ u32 enter_place(struct matcher *p, u32 h, u32 place, bool active, u32 *before)
{
	u32 was = 0, same = 1u << lane_id();

	if (active)
		was = atomicOr((u32 *)p->places + h / 2, CLAIMED << h % 2 * 16) >> h % 2 * 16;
	__syncwarp();
	if (__any_sync(ALL_LANES, was & CLAIMED))
		same = __match_any_sync(ALL_LANES, active ? h : 1u << BITS | lane_id());
	*before = same & lower_lanes();
	if (active && highest(same) == lane_id())
		p->places[h] = (u16)place;
	__syncwarp();
	return was & (CLAIMED - 1);
}

/* The bytes before the part to the table. */
static __device__ void enter(struct matcher *p, u32 end)
{
	u32 next = p->start < end ? word_at(p->raw, p->bytes, p->start / 4 + lane_id()) : 0;

	for (u32 at = p->start; at < end; at += AT_ONCE) {
		u32 h[AT_ONCE / 32], before;

		p->held = at;
		p->words = next;
		if (at + AT_ONCE < end)
			next = word_at(p->raw, p->bytes, (at + AT_ONCE) / 4 + lane_id());
#pragma unroll
		for (u32 g = 0; g < AT_ONCE / 32; g++) {
			u32 v[2];

			lane_words<0, 2>(p, at + 32 * g, v);
			h[g] = hash(v[0], v[1]);
		}
#pragma unroll
		for (u32 g = 0; g < AT_ONCE / 32; g++)
			(void)enter_place(p, h[g], at + 32 * g + lane_id() - p->start, at + 32 * g < end, &before);
	}
}

/* Part AT of a block; KEEP: so many bytes at its end belong to no match. */
static __device__ void matcher_init(struct matcher *p, const u8 *raw, u32 bytes, u32 at, u32 keep, struct table *t)
{
	const u32 end = bytes - at < PART ? bytes : at + PART;

	p->raw = raw;
	p->bytes = bytes;
	p->start = at > BEFORE ? at - BEFORE : 0;
	p->at = at;
	p->over = bytes - at < TAIL;
	p->held = ALL_LANES;
	p->places = t->places;
	if (p->over)
		return;
	p->last = end - LEAST < bytes - TAIL ? end - LEAST : bytes - TAIL;
	p->limit = end < bytes - keep ? end : bytes - keep;
	__syncwarp();
	for (u32 i = lane_id(); i < sizeof(t->places) / 16; i += 32)
		((uint4 *)t->places)[i] = make_uint4(0, 0, 0, 0);
	__syncwarp();
	enter(p, at);
}

/* How many of the lane's first bytes, v[1] and on, are those at f->from; and how many before it, v[0]. */
static __device__ __forceinline__ void compare(const struct matcher *p, struct found *f, const u32 v[4])
{
	const u32 shift = 8 * (f->from % 4), i = f->from / 4;
	u32 w0 = word_at(p->raw, p->bytes, i), w1 = word_at(p->raw, p->bytes, i + 1), w2, w3, d;

	if (__funnelshift_r(w0, w1, shift) != v[1])
		return;
	w2 = word_at(p->raw, p->bytes, i + 2);
	w3 = word_at(p->raw, p->bytes, i + 3);
	d = __funnelshift_r(i ? word_at(p->raw, p->bytes, i - 1) : 0, w0, shift) ^ v[0];
	f->back = d ? (u32)__clz((int)d) / 8 : BACK;
	f->back = f->back < f->from ? f->back : f->from;
	d = __funnelshift_r(w1, w2, shift) ^ v[2];
	f->length = 4 + (d ? lowest(d) / 8 : 4);
	if (d)
		return;
	d = __funnelshift_r(w2, w3, shift) ^ v[3];
	f->length = 8 + (d ? lowest(d) / 8 : 4);
}

/* How many bytes are equal from A and B on, where A may go to the limit; for all lanes together. */
static __device__ u32 equal(const struct matcher *p, u32 b, u32 a)
{
	for (u32 n = 0;; n += 128) {
		const u32 at = a + n + 4 * lane_id();
		u32 room = at < p->limit ? (p->limit - at < 4 ? p->limit - at : 4) : 0, same = 0, stop;

		if (room) {
			u32 d = bytes_at(p->raw, p->bytes, at) ^ bytes_at(p->raw, p->bytes, b + n + 4 * lane_id());

			same = d ? lowest(d) / 8 : 4;
			same = same < room ? same : room;
		}
		stop = __ballot_sync(ALL_LANES, same < 4);
		if (stop)
			return n + 4 * lowest(stop) + __shfl_sync(ALL_LANES, same, (int)lowest(stop));
	}
}

/* Of each lane: its match, as far as FIRST bytes show it, or a length of 0. */
static __device__ __forceinline__ void group_find(struct matcher *p, struct found *f)
{
	const u32 at = p->at + lane_id();
	const bool active = at <= p->last;
	u32 v[4], was, before;

	hold(p, p->at);
	lane_words<-1, 4>(p, p->at, v);
	was = enter_place(p, hash(v[1], v[2]), at - p->start, active, &before);
	f->byte = v[1];
	f->length = f->back = 0;
	f->at = f->from = at;
	if (active)
		f->from = before ? p->at + highest(before) : p->start + was;
	if (f->from < at)
		compare(p, f, v);
	if (f->length > p->limit - at)
		f->length = p->limit - at;
	if (f->length < LEAST)
		f->length = 0;
	__syncwarp();
}

/* Lane K's match, as long as it is; p->end is behind it. */
static __device__ __forceinline__ void take(struct matcher *p, struct found *f, u32 k)
{
	const u32 both = __shfl_sync(ALL_LANES, f->length | f->back << 8, (int)k), at = p->at + k;
	u32 length = both & 255, back = both >> 8;

	if (length == FIRST)
		length += equal(p, __shfl_sync(ALL_LANES, f->from, (int)k) + FIRST, at + FIRST);
	back = back < at - p->end ? back : at - p->end;
	if (lane_id() == k) {
		f->at -= back;
		f->from -= back;
		f->length = length + back;
	}
	p->end = at + length;
}

/* The next group: bits of the lanes whose matches are taken. The part goes on behind them. */
static __device__ __forceinline__ u32 group_next(struct matcher *p, struct found *f)
{
	u32 valid, better, taken = 0, next = 0, after;

	p->end = p->at;
	group_find(p, f);
	valid = __ballot_sync(ALL_LANES, f->length);
	after = __shfl_down_sync(ALL_LANES, f->length, 1);
	better = __ballot_sync(ALL_LANES, lane_id() < 31 && after > f->length);
	while (next < 32 && valid >> next) {
		u32 k = next + lowest(valid >> next);

		k += better >> k & 1;
		take(p, f, k);
		taken |= 1u << k;
		next = p->end - p->at;
	}
	p->at = next > 32 ? p->end : p->at + 32;
	return taken;
}

} /* namespace matches */
