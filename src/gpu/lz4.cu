/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lz4.cu: blocks of codec lz4 on a GPU, the same bytes as those of src/codec/lz4_warp.c; liblz4 decodes them.
 *
 * A block is cut into parts, and a warp makes the sequences of each (kedge_lz4_encode), but for what comes before the first
 * match: literals at the end of a part belong to the first sequence of the next one that has a match. Then a block of
 * threads joins the parts of each block (kedge_lz4_join). The other direction is a warp a block (kedge_lz4_decode).
 */
#include "gpu/kernels.h"

namespace lz4
{

using namespace matches;

const u32 KEEP = 5;
const u32 SCRATCH = KEDGE_LZ4_SCRATCH;

/* What a part came to. */
struct head {
	u32 first; /* literals before its first match */
	u32 more;  /* of that match, what the token has of its length */
	u32 body;  /* bytes behind those literals; 0: there is no match */
	u32 tail;  /* literals behind the last match */
};

/* Bytes of a length beyond what the token has of it. */
static __device__ __forceinline__ u32 rest_bytes(u32 length)
{
	return length < 15 ? 0 : 1 + (length - 15) / 255;
}

static __device__ __forceinline__ u32 rest_put(u8 *to, u32 length)
{
	const u32 bytes = rest_bytes(length);

	for (u32 i = 0; i + 1 < bytes; i++)
		to[i] = 255;
	if (bytes)
		to[bytes - 1] = (u8)((length - 15) % 255);
	return bytes;
}

static __device__ __forceinline__ u32 nibble(u32 length)
{
	return length < 15 ? length : 15;
}

/* ------------------------------------------------------------------ encode */

/* The sequences of a group, whose lanes TAKEN have matches; *LITERALS: where those begin that are not put yet; PAST: the lane's
 * byte of the group before, which ends where this one begins if any of it are literals. Returns how many bytes went to OUT.
 * The first of a part gives its beginning to H instead. */
static __device__ u32 group_put(const struct matcher *p, const struct found *f, u32 at, u32 past, u32 taken, u32 *literals,
				u8 *out, struct head *h)
{
	const u32 lane = lane_id(), below = taken & lower_lanes(), above = taken >> lane >> 1, k = lowest(taken);
	const int next = above ? (int)(lane + 1 + lowest(above)) : 0;
	const bool mine = taken >> lane & 1, first = !h->body;
	const u32 end = f->at + f->length, more = f->length - LEAST, distance = f->at - f->from;
	u32 before = __shfl_sync(ALL_LANES, end, below ? (int)highest(below) : 0);
	u32 until = __shfl_sync(ALL_LANES, f->at, next);
	u32 count, lead, off, to, all, size;

	before = below ? before : *literals;
	count = f->at - before;
	lead = first && !below ? 0 : 1 + rest_bytes(count) + count;
	size = mine ? lead + 2 + rest_bytes(more) : 0;
	off = lanes_before(size, &all);
	if (mine) {
		u8 *o = out + off;

		if (lead) {
			*o = (u8)(nibble(count) << 4 | nibble(more));
			rest_put(o + 1, count);
			o += lead;
		}
		o[0] = (u8)distance;
		o[1] = (u8)(distance >> 8);
		rest_put(o + 2, more);
	}
	/* Literals are in lanes. Those before the first match may begin in the group before, or even earlier. */
	to = off + 1 + rest_bytes(count);
	size = __shfl_sync(ALL_LANES, to, next);
	if (!mine && above && (below || !first) && at + lane >= before && at + lane < until)
		out[size + at + lane - before] = (u8)f->byte;
	if (first) {
		h->first = __shfl_sync(ALL_LANES, count, (int)k);
		h->more = nibble(__shfl_sync(ALL_LANES, more, (int)k));
	} else if (*literals < at) {
		u8 *o = out + __shfl_sync(ALL_LANES, to, (int)k);
		const u32 back = at - *literals;

		if (32 - lane <= back)
			o[back - (32 - lane)] = (u8)past;
		if (back > 32)
			copy(o, p->raw + *literals, back - 32);
	}
	h->body += all;
	*literals = __shfl_sync(ALL_LANES, end, (int)highest(taken));
	return all;
}

static __device__ void part_encode(const u8 *raw, u32 bytes, u32 start, u8 *out, struct table *t, struct head *h)
{
	const u32 end = bytes - start < PART ? bytes : start + PART;
	u32 literals = start;
	struct matcher p;
	struct found f;

	h->first = h->more = h->body = 0;
	matcher_init(&p, raw, bytes, start, KEEP, t);
	f.byte = 0;
	while (!p.over && p.at <= p.last) {
		const u32 past = f.byte, at = p.at, taken = group_next(&p, &f);

		if (taken)
			out += group_put(&p, &f, at, past, taken, &literals, out, h);
	}
	h->tail = end - literals;
}

static __device__ void encode(const struct kedge_lz4_args &a)
{
	__shared__ struct table __align__(16) tables[WARPS];
	const u32 warp = threadIdx.x / 32;

	for (u64 i = (u64)blockIdx.x * WARPS + warp; i < (u64)a.count * a.parts; i += (u64)gridDim.x * WARPS) {
		const u32 b = (u32)(i / a.parts), start = (u32)(i % a.parts) * PART;
		struct head h;

		if (start >= a.lengths[b])
			continue;
		part_encode(a.raw + a.places[b], a.lengths[b], start, a.scratch + i * SCRATCH, &tables[warp], &h);
		if (lane_id() == 0)
			((struct head *)a.heads)[i] = h;
	}
}

/* ------------------------------------------------------------------ join */

struct joined {
	struct head heads[32];
	u32 literals[32], places[32]; /* of each part: those of its first sequence, and where that begins */
	u32 carry, total;             /* literals that wait for a match; bytes so far */
};

/* Where 32 parts, from part FIRST on, go; by one warp. */
static __device__ void parts_place(struct joined *s, const struct head *heads, u32 first, u32 bytes)
{
	const u32 lane = lane_id();
	const u64 start = (u64)(first + lane) * PART;
	struct head h = {0, 0, 0, 0};
	u32 carry = s->carry, total = s->total, tails, before, since, matched, below, all;

	if (start < bytes)
		h = heads[first + lane];
	before = lanes_before(h.tail, &tails);
	matched = __ballot_sync(ALL_LANES, h.body);
	below = matched & lower_lanes();
	since = before - __shfl_sync(ALL_LANES, before, below ? (int)highest(below) : 0);
	s->heads[lane] = h;
	s->literals[lane] = h.first + (below ? since : before + carry);
	all = h.body ? 1 + rest_bytes(s->literals[lane]) + s->literals[lane] + h.body : 0;
	s->places[lane] = total + lanes_before(all, &all);
	before = __shfl_sync(ALL_LANES, before, matched ? (int)highest(matched) : 0);
	__syncwarp();
	if (lane == 0) {
		s->carry = matched ? tails - before : carry + tails;
		s->total = total + all;
	}
}

/* A token with COUNT literals; MORE: of its match. */
static __device__ u8 *literals_put(u8 *out, const u8 *from, u32 count, u32 more)
{
	if (lane_id() == 0) {
		*out = (u8)(nibble(count) << 4 | more);
		rest_put(out + 1, count);
	}
	out += 1 + rest_bytes(count);
	copy(out, from, count);
	return out + count;
}

static __device__ void block_join(const struct kedge_lz4_args &a, u32 b, struct joined *s)
{
	const u32 warp = threadIdx.x / 32, bytes = a.lengths[b];
	const u8 *raw = a.raw + a.places[b];
	u8 *out = a.slots + a.places[b];
	u32 size;

	if (threadIdx.x == 0)
		s->carry = s->total = 0;
	__syncthreads();
	for (u32 first = 0; (u64)first * PART < bytes; first += 32) {
		if (warp == 0)
			parts_place(s, (const struct head *)a.heads + (u64)b * a.parts, first, bytes);
		__syncthreads();
		for (u32 k = warp; k < 32; k += KEDGE_THREADS / 32) {
			const struct head *h = &s->heads[k];
			const u32 count = s->literals[k];

			/* A block that does not shrink has no room for what it would be. */
			if (!h->body || s->places[k] + 1 + rest_bytes(count) + count + h->body > bytes)
				continue;
			copy(literals_put(out + s->places[k], raw + (first + k) * PART + h->first - count, count, h->more),
			     a.scratch + ((u64)b * a.parts + first + k) * SCRATCH, h->body);
		}
		__syncthreads();
	}
	size = s->total + 1 + rest_bytes(s->carry) + s->carry;
	if (size < bytes && warp == 0)
		literals_put(out + s->total, raw + bytes - s->carry, s->carry, 0);
	if (threadIdx.x == 0)
		a.sizes[b] = size < bytes ? size : bytes;
	__syncthreads();
}

static __device__ void join(const struct kedge_lz4_args &a)
{
	__shared__ struct joined s;

	for (u32 b = blockIdx.x; b < a.count; b += gridDim.x)
		block_join(a, b, &s);
}

/* ------------------------------------------------------------------ decode */

/* Packed bytes, as all lanes read them together; places are from an aligned address on. */
struct input {
	const u8 *from;
	u32 at, end;
	u32 held, words; /* as those of a matcher */
};

/* Four bytes from in->at on; those beyond the end are 0. */
static __device__ __forceinline__ u32 peek(struct input *in)
{
	u32 off;

	if (in->at - in->held > 120 || in->at < in->held) {
		in->held = in->at & ~3u;
		in->words = word_at(in->from, in->end, in->held / 4 + lane_id());
	}
	off = in->at - in->held;
	return __funnelshift_r(__shfl_sync(ALL_LANES, in->words, (int)(off / 4)),
			       __shfl_sync(ALL_LANES, in->words, (int)(off / 4 + 1)), 8 * (off % 4));
}

/* A length that the token has NIBBLE of; more than MOST: it is damaged. */
static __device__ __forceinline__ u32 length_get(struct input *in, u32 nibble, u32 most)
{
	u32 length = nibble, more = 255;

	while (nibble == 15 && more == 255 && length <= most) {
		if (in->at >= in->end)
			return most + 1;
		more = peek(in) & 255;
		length += more;
		in->at++;
	}
	return length;
}

/* COUNT bytes from DISTANCE before TO on, which may be among them. */
static __device__ __forceinline__ void match_copy(u8 *to, u32 distance, u32 count)
{
	const u32 lane = lane_id();

	__syncwarp();
	if (count <= 32) {
		if (lane < count)
			to[lane] = to[(int)(distance < count ? lane % distance : lane) - (int)distance];
		return;
	}
	/* What was copied can be copied again: there is more of it each time. */
	for (u32 done = 0, n; done < count; done += n) {
		n = done + distance < count - done ? done + distance : count - done;
		copy(to + done, to - distance, n);
		__syncwarp();
	}
}

static __device__ __forceinline__ void literals_copy(u8 *to, const struct input *in, u32 count)
{
	const u32 off = in->at - in->held + lane_id();

	if (count > 32 || in->at < in->held || off - lane_id() + count > 128) {
		copy(to, in->from + in->at, count);
	} else {
		u32 word = __shfl_sync(ALL_LANES, in->words, (int)(off / 4 % 32));

		if (lane_id() < count)
			to[lane_id()] = (u8)(word >> 8 * (off % 4));
	}
}

/* False: SIZE bytes are not those of a block of BYTES. */
static __device__ bool block_decode(const u8 *packed, u32 size, u8 *out, u32 bytes)
{
	const u32 skew = (u32)((u64)packed & 3);
	struct input in = {packed - skew, skew, size + skew, ALL_LANES, 0};
	u32 done = 0;

	while (in.at < in.end) {
		const u32 token = peek(&in) & 255;
		u32 count, distance;

		in.at++;
		count = length_get(&in, token >> 4, bytes);
		if (count > bytes - done || count > in.end - in.at)
			return false;
		literals_copy(out + done, &in, count);
		done += count;
		in.at += count;
		if (in.at == in.end)
			return done == bytes;
		if (in.end - in.at < 2)
			return false;
		distance = peek(&in) & 0xffff;
		in.at += 2;
		count = length_get(&in, token & 15, bytes) + LEAST;
		if (!distance || distance > done || count > bytes - done)
			return false;
		match_copy(out + done, distance, count);
		done += count;
	}
	return false;
}

static __device__ void decode(const struct kedge_lz4_args &a)
{
	const u32 warps = KEDGE_THREADS / 32;

	for (u64 b = (u64)blockIdx.x * warps + threadIdx.x / 32; b < a.count; b += (u64)gridDim.x * warps) {
		const u32 size = a.sizes[b], bytes = a.lengths[b];
		const u8 *packed = a.packed + a.packed_places[b];
		u8 *out = a.out + a.places[b];
		bool whole = size <= bytes;

		if (size == bytes)
			copy(out, packed, bytes);
		else if (whole)
			whole = block_decode(packed, size, out, bytes);
		if (!whole && lane_id() == 0)
			atomicAdd(a.damaged, 1u);
	}
}

} /* namespace lz4 */

KEDGE_KERNEL_BY(KEDGE_MATCH_THREADS, 7, kedge_lz4_encode, struct kedge_lz4_args)
{
	lz4::encode(a);
}
KEDGE_KERNEL(kedge_lz4_join, struct kedge_lz4_args)
{
	lz4::join(a);
}
KEDGE_KERNEL(kedge_lz4_decode, struct kedge_lz4_args)
{
	lz4::decode(a);
}
