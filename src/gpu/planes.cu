/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * planes.cu: codec planes (src/codec/planes.c) on a GPU, the same bytes. A block of threads has a strip. Its warps take groups
 * of 32 numbers, a lane a number; five exchanges turn the bits of a group around, after which a lane has a plane's. In
 * shared memory the planes lie behind each other, each with a word of padding, so that neither direction has conflicts.
 */
#include "gpu/kernels.h"

namespace planes
{

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned u32;
typedef unsigned long long u64;

const u32 STRIP = KEDGE_PLANES_STRIP;
const u32 WARPS = KEDGE_THREADS / 32;
const u32 ALL_LANES = 0xffffffffu;

/* Sizes of what a strip of N bytes has on each level, and on top. */
struct sizes {
	u32 n[5];
};

static __device__ __forceinline__ struct sizes sizes_of(u32 n)
{
	struct sizes s;

	s.n[0] = n;
	for (int l = 1; l < 5; l++)
		s.n[l] = (s.n[l - 1] + 7) / 8;
	return s;
}

struct shared {
	u32 planes[STRIP / 4 + 64]; /* 64: a word for each plane */
	u8 maps[STRIP / 8 + 8];
	u8 maps1[STRIP / 64 + 8], maps2[STRIP / 512 + 8], maps3[8];
	u8 packed[STRIP + 64];
	u32 counts[WARPS + 1];
	u32 head; /* bytes of all levels above the first */
	u64 carry[WARPS];
};

/* Of plane P, from byte B on: where it is in shared->planes, as bytes. PITCH: bytes of a plane. */
static __device__ __forceinline__ u32 place(u32 p, u32 b, u32 pitch)
{
	return p * (((pitch + 3) & ~3u) + 4) + b;
}

/* Lane q gets bit q of all lanes' words. */
static __device__ __forceinline__ u32 turned(u32 x)
{
	const u32 lane = threadIdx.x % 32;
	u32 m = 0x0000ffffu;

#pragma unroll
	for (u32 j = 16; j; j >>= 1, m ^= m << j) {
		u32 y = __shfl_xor_sync(ALL_LANES, x, j);

		x = lane & j ? (x & ~m) | (y >> j & m) : (x & m) | (y << j & ~m);
	}
	return x;
}

/* A bit for each byte of X that is not zero. */
static __device__ __forceinline__ u32 nonzero4(u32 x)
{
	u32 y = (x | ((x & 0x7f7f7f7fu) + 0x7f7f7f7fu)) & 0x80808080u; /* the top bit of each that is not */

	return (y >> 7 | y >> 14 | y >> 21 | y >> 28) & 15;
}

static __device__ __forceinline__ u32 nonzero8(u64 x)
{
	return nonzero4((u32)x) | nonzero4((u32)(x >> 32)) << 4;
}

/* What the lanes before this one have of V, and *ALL of them. */
static __device__ __forceinline__ u32 lanes_before(u32 v, u32 *all)
{
	const u32 lane = threadIdx.x % 32;
	u32 sum = v;

#pragma unroll
	for (u32 d = 1; d < 32; d *= 2) {
		u32 y = __shfl_up_sync(ALL_LANES, sum, d);

		if (lane >= d)
			sum += y;
	}
	*all = __shfl_sync(ALL_LANES, sum, 31);
	return sum - v;
}

/* The same for V up to 4, by votes. */
static __device__ __forceinline__ u32 few_before(u32 v, u32 *all)
{
	const u32 below = (1u << threadIdx.x % 32) - 1;
	u32 a = __ballot_sync(ALL_LANES, v & 1), b = __ballot_sync(ALL_LANES, v & 2), c = __ballot_sync(ALL_LANES, v & 4);

	*all = __popc(a) + 2 * __popc(b) + 4 * __popc(c);
	return __popc(a & below) + 2 * __popc(b & below) + 4 * __popc(c & below);
}

/* The same for all threads of the block; two barriers. */
static __device__ u32 threads_before(struct shared *s, u32 v, u32 *all)
{
	const u32 warp = threadIdx.x / 32;
	u32 sum, before = lanes_before(v, &sum);

	__syncthreads();
	if (threadIdx.x % 32 == 0)
		s->counts[warp] = sum;
	__syncthreads();
	*all = 0;
	for (u32 w = 0; w < WARPS; w++) {
		before += w < warp ? s->counts[w] : 0;
		*all += s->counts[w];
	}
	return before;
}

/* ------------------------------------------------------------------ numbers */

template <int W> struct number;
template <> struct number<2> {
	typedef u16 type;
};
template <> struct number<4> {
	typedef u32 type;
};
template <> struct number<8> {
	typedef u64 type;
};

template <class T> static __device__ __forceinline__ T folded(T v)
{
	return (T)((T)(v << 1) ^ (T)(0 - (v >> (8 * sizeof(T) - 1))));
}

template <class T> static __device__ __forceinline__ T unfolded(T v)
{
	return (T)((T)(v >> 1) ^ (T)(0 - (v & 1)));
}

/* Number I of the strip, with the step that needs a base taken. */
template <class T> static __device__ __forceinline__ T based(const T *raw, const T *base, u32 steps, u32 i)
{
	T v = raw[i];

	if (steps & KEDGE_PLANES_XOR)
		v = (T)(v ^ base[i]);
	if (steps & KEDGE_PLANES_MINUS)
		v = (T)(v - base[i]);
	return v;
}

/* The lane's number of the group that begins at FIRST; COUNT: those of the strip. */
template <class T>
static __device__ __forceinline__ T taken(const T *raw, const T *base, u32 steps, u32 first, u32 count)
{
	const u32 lane = threadIdx.x % 32, i = first + lane;
	T v = i < count ? based(raw, base, steps, i) : (T)0;

	if (steps & KEDGE_PLANES_DELTA) {
		T before = (T)__shfl_up_sync(ALL_LANES, (sizeof(T) == 8 ? (u64)v : (u64)(u32)v), 1);

		if (lane == 0)
			before = i && i <= count ? based(raw, base, steps, i - 1) : (T)0;
		v = i < count ? (T)(v - before) : (T)0;
	}
	return steps & (KEDGE_PLANES_DELTA | KEDGE_PLANES_MINUS) ? folded(v) : v;
}

/* Four bytes of a plane, of which the strip may have fewer. */
static __device__ __forceinline__ void put4(struct shared *s, u32 plane, u32 b, u32 pitch, u32 v)
{
	u8 *at = (u8 *)s->planes + place(plane, b, pitch);

	if (b + 4 <= pitch)
		*(u32 *)at = v;
	else
		for (u32 k = 0; b + k < pitch; k++)
			at[k] = (u8)(v >> 8 * k);
}

static __device__ __forceinline__ u32 get4(const struct shared *s, u32 plane, u32 b, u32 pitch)
{
	const u8 *at = (const u8 *)s->planes + place(plane, b, pitch);
	u32 v = 0;

	if (b + 4 <= pitch)
		return *(const u32 *)at;
	for (u32 k = 0; b + k < pitch; k++)
		v |= (u32)at[k] << 8 * k;
	return v;
}

/* The numbers of a strip to planes. */
template <int W>
static __device__ __forceinline__ void split(struct shared *s, const u8 *raw, const u8 *base, u32 steps, u32 n)
{
	typedef typename number<W>::type T;
	const T *numbers = (const T *)raw, *bases = (const T *)base;
	const u32 lane = threadIdx.x % 32, count = n / W, pitch = count / 8, step = W == 2 ? 64 : 32;

	for (u32 first = threadIdx.x / 32 * step; first < count; first += WARPS * step) {
		if (W == 2) {
			u32 low = taken(numbers, bases, steps, first, count);
			u32 high = first + 32 < count ? taken(numbers, bases, steps, first + 32, count) : 0;
			u32 x = turned(low | high << 16), b = first / 8 + (lane & 16 ? 4 : 0);

			if (b < pitch)
				put4(s, lane & 15, b, pitch, x);
		} else {
			u64 v = (u64)taken(numbers, bases, steps, first, count);

			put4(s, lane, first / 8, pitch, turned((u32)v));
			if (W == 8)
				put4(s, 32 + lane, first / 8, pitch, turned((u32)(v >> 32)));
		}
	}
}

/* Byte O of all planes, one after the other: where it is in s->planes. */
static __device__ __forceinline__ u32 along(u32 o, u32 pitch)
{
	return place(o / pitch, o % pitch, pitch);
}

/* Four of them; PITCH is a multiple of 4, or they are taken one by one. */
static __device__ __forceinline__ u32 along4(const struct shared *s, u32 o, u32 n, u32 pitch)
{
	const u8 *p = (const u8 *)s->planes;
	u32 v = 0;

	if (pitch % 4 == 0)
		return o < n ? *(const u32 *)(p + along(o, pitch)) : 0;
	for (u32 k = 0; k < 4 && o + k < n; k++)
		v |= (u32)p[along(o + k, pitch)] << 8 * k;
	return v;
}

/* ------------------------------------------------------------------ encode */

/* The next level: of N bytes of FROM, those that are not as the one before them, to *X, and their bits to TO; eight bytes a
 * thread. Returns the bits. */
static __device__ __forceinline__ u32 level_bits(const u8 *from, u32 n, u32 t, u8 *to, u64 *x)
{
	u64 v = 0;
	u32 bits;

	for (u32 k = 0; k < 8 && 8 * t + k < n; k++)
		v |= (u64)(u8)(from[8 * t + k] ^ (8 * t + k ? from[8 * t + k - 1] : 0)) << 8 * k;
	*x = v;
	bits = nonzero8(v);
	if (8 * t < n)
		to[t] = (u8)bits;
	return bits;
}

static __device__ __forceinline__ void put_kept(u8 *to, u64 x, u32 bits)
{
	for (; bits; bits &= bits - 1)
		*to++ = (u8)(x >> 8 * (__ffs(bits) - 1));
}

template <int W>
static __device__ u32 strip_encode(struct shared *s, const u8 *raw, const u8 *base, u32 steps, u32 n)
{
	const u32 t = threadIdx.x, lane = t % 32, warp = t / 32, pitch = n / W / 8;
	const u32 rounds = (n / 4 + KEDGE_THREADS - 1) / KEDGE_THREADS;
	const struct sizes z = sizes_of(n);
	u32 mine = 0, kept0, kept1, kept2 = 0, kept3 = 0, at0, at1, at2, at3, bits1, bits2 = 0, bits3 = 0, all, head;
	u64 x1, x2 = 0, x3 = 0;

	split<W>(s, raw, base, steps, n);
	__syncthreads();
	/* A warp has ROUNDS * 32 words that follow each other, so that its bytes do. */
	for (u32 r = 0; r < rounds; r++) {
		u32 o = ((warp * rounds + r) * 32 + lane) * 4, bits = nonzero4(along4(s, o, n, pitch));
		u32 other = __shfl_xor_sync(ALL_LANES, bits, 1);

		mine += __popc(bits);
		if (lane % 2 == 0 && o < n)
			s->maps[o / 8] = (u8)(bits | other << 4);
	}
	at0 = threads_before(s, mine, &kept0); /* of the whole warp; a lane's own place differs from round to round */
	at0 = __shfl_sync(ALL_LANES, at0, 0);
	bits1 = level_bits(s->maps, z.n[1], t, s->maps1, &x1);
	at1 = threads_before(s, __popc(bits1), &kept1);
	if (warp == 0) {
		bits2 = level_bits(s->maps1, z.n[2], lane, s->maps2, &x2);
		at2 = lanes_before(__popc(bits2), &kept2);
		__syncwarp();
		bits3 = level_bits(s->maps2, z.n[3], lane, s->maps3, &x3);
		at3 = lanes_before(__popc(bits3), &kept3);
		__syncwarp();
		put_kept(s->packed + z.n[4] + at3, x3, bits3);
		put_kept(s->packed + z.n[4] + kept3 + at2, x2, bits2);
		if (lane < z.n[4])
			s->packed[lane] = s->maps3[lane];
		if (lane == 0)
			s->head = z.n[4] + kept3 + kept2;
	}
	__syncthreads();
	head = s->head;
	if (head + kept1 + kept0 >= n)
		return n;
	put_kept(s->packed + head + at1, x1, bits1);
	at0 += head + kept1;
	for (u32 r = 0; r < rounds; r++) {
		u32 o = ((warp * rounds + r) * 32 + lane) * 4, v = along4(s, o, n, pitch), bits = nonzero4(v);

		put_kept(s->packed + at0 + few_before(__popc(bits), &all), v, bits);
		at0 += all;
	}
	return head + kept1 + kept0;
}

/* SIZE bytes from shared memory, or from where they came, to a slot, which is aligned and has room for a strip. */
static __device__ void slot_write(u8 *slot, const u8 *from, u32 size)
{
	for (u32 i = threadIdx.x * 16; i < size; i += KEDGE_THREADS * 16)
		*(uint4 *)(slot + i) = *(const uint4 *)(from + i);
}

template <int W> static __device__ void encode(const struct kedge_planes_args &a)
{
	__shared__ struct shared __align__(16) s;

	for (u64 i = blockIdx.x; i * STRIP < a.bytes; i += gridDim.x) {
		const u32 n = a.bytes - i * STRIP < STRIP ? (u32)(a.bytes - i * STRIP) : STRIP;
		const u32 size = strip_encode<W>(&s, a.raw + i * STRIP, a.base ? a.base + i * STRIP : 0, a.steps, n);

		__syncthreads();
		if (size < n)
			slot_write(a.slots + i * STRIP, s.packed, size);
		if (threadIdx.x == 0)
			a.sizes[i] = size;
		__syncthreads();
	}
}

/* The bytes of a block of which strips consist: whole groups of eight numbers. */
static __device__ __forceinline__ u32 whole_of(const struct kedge_pack_block &b)
{
	return b.bytes - b.bytes % (8 * b.width);
}

/* Strips of several blocks, of any widths. */
static __device__ void pack(const struct kedge_pack_args &a)
{
	__shared__ struct shared __align__(16) s;

	for (u32 p = blockIdx.x; p < a.parts; p += gridDim.x) {
		const struct kedge_pack_block b = a.blocks[a.owners[p]];
		const u32 from = (p - b.part) * STRIP;
		const u8 *raw = a.raw + b.at + from;
		u32 n, size;

		if (b.how != KEDGE_PACK_PLANES || from >= whole_of(b))
			continue;
		n = whole_of(b) - from < STRIP ? whole_of(b) - from : STRIP;
		if (b.width == 8)
			size = strip_encode<8>(&s, raw, 0, b.steps, n);
		else if (b.width == 4)
			size = strip_encode<4>(&s, raw, 0, b.steps, n);
		else
			size = strip_encode<2>(&s, raw, 0, b.steps, n);
		__syncthreads();
		if (size < n)
			slot_write(a.slots + b.at + from, s.packed, size);
		if (threadIdx.x == 0)
			a.sizes[p] = size;
		__syncthreads();
	}
}

/* ------------------------------------------------------------------ decode */

/* Eight bytes a thread of a map of N bytes, whose bits are in MAP and whose bytes begin at FROM + AT; each is a difference
 * to the one before. */
static __device__ __forceinline__ u64 level_bytes(const u8 *map, u32 n, u32 t, const u8 *from, u32 limit, u32 at)
{
	u64 v = 0;
	u32 bits = 8 * t < n ? map[t] : 0;

	for (; bits; bits &= bits - 1, at++) {
		if (at < limit)
			v |= (u64)from[at] << 8 * (__ffs(bits) - 1);
	}
	v ^= v << 8;
	v ^= v << 16;
	return v ^ v << 32;
}

static __device__ __forceinline__ void level_put(u8 *to, u32 n, u32 t, u64 v)
{
	for (u32 k = 0; k < 8 && 8 * t + k < n; k++)
		to[8 * t + k] = (u8)(v >> 8 * k);
}

/* 0xff.. times the byte that the lanes before have at their ends, taken together. */
static __device__ __forceinline__ u32 lanes_xor_before(u32 v)
{
	const u32 lane = threadIdx.x % 32;
	u32 x = v;

#pragma unroll
	for (u32 d = 1; d < 32; d *= 2) {
		u32 y = __shfl_up_sync(ALL_LANES, x, d);

		if (lane >= d)
			x ^= y;
	}
	return x ^ v;
}

/* A level whose map fits a warp, by warp 0. Returns how many bytes it took. */
static __device__ u32 level_expand(const u8 *map, u32 n, const u8 *from, u32 limit, u8 *to)
{
	const u32 lane = threadIdx.x % 32;
	u32 all, at = lanes_before(8 * lane < n ? __popc(map[lane]) : 0, &all);
	u64 v = level_bytes(map, n, lane, from, limit, at);

	v ^= lanes_xor_before((u32)(v >> 56)) * 0x0101010101010101ull;
	level_put(to, n, lane, v);
	__syncwarp();
	return all;
}

/* The top level of N bytes of maps, by all threads. *AT is moved on. */
static __device__ void maps_expand(struct shared *s, u32 n, u32 limit, u32 *at)
{
	const u32 t = threadIdx.x, warp = t / 32;
	u32 all, mine = threads_before(s, 8 * t < n ? __popc(s->maps1[t]) : 0, &all), before;
	u64 v = level_bytes(s->maps1, n, t, s->packed, limit, *at + mine);

	before = lanes_xor_before((u32)(v >> 56));
	__syncthreads();
	if (t % 32 == 31)
		s->counts[warp] = before ^ (u32)(v >> 56);
	__syncthreads();
	for (u32 w = 0; w < warp; w++)
		before ^= s->counts[w];
	level_put(s->maps, n, t, v ^ (u64)before * 0x0101010101010101ull);
	*at += all;
	__syncthreads();
}

/* The planes of a strip, from its packed form in s->packed. False: it is not what it says. */
template <int W> static __device__ bool planes_expand(struct shared *s, u32 n, u32 size)
{
	const u32 t = threadIdx.x, lane = t % 32, warp = t / 32, pitch = n / W / 8;
	const u32 rounds = (n / 4 + KEDGE_THREADS - 1) / KEDGE_THREADS;
	const struct sizes z = sizes_of(n);
	u32 at, mine = 0, all, kept;

	if (warp == 0) {
		u32 used = z.n[4];

		used += level_expand(s->packed, z.n[3], s->packed + used, size - used, s->maps2);
		used += level_expand(s->maps2, z.n[2], s->packed + used, used < size ? size - used : 0, s->maps1);
		if (lane == 0)
			s->head = used;
	}
	__syncthreads();
	at = s->head;
	maps_expand(s, z.n[1], size, &at);
	for (u32 r = 0; r < rounds; r++) {
		u32 o = ((warp * rounds + r) * 32 + lane) * 4;

		mine += o < n ? __popc(s->maps[o / 8] >> (o & 4) & 15) : 0;
	}
	mine = threads_before(s, mine, &kept);
	if (at + kept != size)
		return false;
	at += __shfl_sync(ALL_LANES, mine, 0);
	for (u32 r = 0; r < rounds; r++) {
		u32 o = ((warp * rounds + r) * 32 + lane) * 4, bits = o < n ? s->maps[o / 8] >> (o & 4) & 15 : 0, v = 0;
		u32 from = at + few_before(__popc(bits), &all);

		for (u32 b = bits; b; b &= b - 1, from++)
			v |= (u32)s->packed[from] << 8 * (__ffs(b) - 1);
		at += all;
		if (pitch % 4 == 0) {
			if (o < n)
				*(u32 *)((u8 *)s->planes + along(o, pitch)) = v;
		} else {
			for (u32 k = 0; k < 4 && o + k < n; k++)
				((u8 *)s->planes)[along(o + k, pitch)] = (u8)(v >> 8 * k);
		}
	}
	__syncthreads();
	return true;
}

template <class T> static __device__ __forceinline__ T lanes_sum(T v)
{
	const u32 lane = threadIdx.x % 32;

#pragma unroll
	for (u32 d = 1; d < 32; d *= 2) {
		u64 y = __shfl_up_sync(ALL_LANES, (u64)v, d);

		if (lane >= d)
			v = (T)(v + (T)y);
	}
	return v;
}

/* The planes in shared memory to the numbers of a strip. A warp has groups that follow each other. */
template <int W>
static __device__ __forceinline__ void join(struct shared *s, u8 *raw, const u8 *base, u32 steps, u32 n)
{
	typedef typename number<W>::type T;
	const u32 GROUPS = STRIP / W / 32 / WARPS; /* of a warp */
	const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32, count = n / W, pitch = count / 8;
	T v[GROUPS], carry = 0;

#pragma unroll
	for (u32 g = 0; g < GROUPS; g += W == 2 ? 2 : 1) {
		const u32 b = (warp * GROUPS + g) * 4;

		if (W == 2) {
			u32 x = turned(get4(s, lane & 15, b + (lane & 16 ? 4 : 0), pitch));

			v[g] = (T)x;
			v[g + (W == 2)] = (T)(x >> 16);
		} else {
			u64 low = turned(get4(s, lane, b, pitch));

			v[g] = (T)(W == 8 ? low | (u64)turned(get4(s, 32 + lane, b, pitch)) << 32 : low);
		}
	}
#pragma unroll
	for (u32 g = 0; g < GROUPS; g++) {
		if (steps & (KEDGE_PLANES_DELTA | KEDGE_PLANES_MINUS))
			v[g] = unfolded(v[g]);
		if (steps & KEDGE_PLANES_DELTA) {
			v[g] = (T)(lanes_sum(v[g]) + carry);
			carry = (T)__shfl_sync(ALL_LANES, (u64)v[g], 31);
		}
	}
	if (steps & KEDGE_PLANES_DELTA) {
		if (lane == 31)
			s->carry[warp] = carry;
		__syncthreads();
		carry = 0;
		for (u32 w = 0; w < warp; w++)
			carry = (T)(carry + (T)s->carry[w]);
	}
#pragma unroll
	for (u32 g = 0; g < GROUPS; g++) {
		const u32 i = (warp * GROUPS + g) * 32 + lane;
		T x = (T)(v[g] + (steps & KEDGE_PLANES_DELTA ? carry : (T)0));

		if (i >= count)
			continue;
		if (steps & KEDGE_PLANES_MINUS)
			x = (T)(x + ((const T *)base)[i]);
		if (steps & KEDGE_PLANES_XOR)
			x = (T)(x ^ ((const T *)base)[i]);
		((T *)raw)[i] = x;
	}
}

/* A strip of N bytes, which are SIZE at FROM; false: it is not what it says, and left out. */
template <int W>
static __device__ bool strip_unpack(struct shared *s, const u8 *from, u32 size, u8 *raw, const u8 *base, u32 steps, u32 n)
{
	bool whole = size <= n && size >= sizes_of(n).n[4];

	if (size == n || !whole) {
		for (u32 k = threadIdx.x; whole && k < n; k += KEDGE_THREADS)
			raw[k] = from[k];
	} else {
		for (u32 k = threadIdx.x; k < size; k += KEDGE_THREADS)
			s->packed[k] = from[k];
		__syncthreads();
		whole = planes_expand<W>(s, n, size);
		if (whole)
			join<W>(s, raw, base, steps, n);
	}
	return whole;
}

template <int W> static __device__ void decode(const struct kedge_planes_args &a)
{
	__shared__ struct shared __align__(16) s;

	for (u64 i = blockIdx.x; i * STRIP < a.bytes; i += gridDim.x) {
		const u32 n = a.bytes - i * STRIP < STRIP ? (u32)(a.bytes - i * STRIP) : STRIP;

		if (!strip_unpack<W>(&s, a.packed + a.places[i], a.sizes[i], a.out + i * STRIP, a.base ? a.base + i * STRIP : 0,
				     a.steps, n) &&
		    threadIdx.x == 0)
			atomicAdd(a.damaged, 1u);
		__syncthreads();
	}
}

static __device__ void unpack(const struct kedge_unpack_args &a)
{
	__shared__ struct shared __align__(16) s;

	for (u64 i = blockIdx.x; i < a.count; i += gridDim.x) {
		const struct kedge_unpack_strip p = a.strips[i];
		const u8 *from = a.packed + p.from;
		const u32 width = p.how & 0xff, steps = p.how >> 8;
		bool whole;

		if (width == 8)
			whole = strip_unpack<8>(&s, from, p.size, a.out + p.to, 0, steps, p.bytes);
		else if (width == 4)
			whole = strip_unpack<4>(&s, from, p.size, a.out + p.to, 0, steps, p.bytes);
		else
			whole = strip_unpack<2>(&s, from, p.size, a.out + p.to, 0, steps, p.bytes);
		if (!whole && threadIdx.x == 0)
			atomicAdd(a.damaged, 1u);
		__syncthreads();
	}
}

} /* namespace planes */

#define PLANES(width)                                                        \
	KEDGE_KERNEL(kedge_planes_encode_##width, struct kedge_planes_args)  \
	{                                                                    \
		planes::encode<width>(a);                                    \
	}                                                                    \
	KEDGE_KERNEL(kedge_planes_decode_##width, struct kedge_planes_args)  \
	{                                                                    \
		planes::decode<width>(a);                                    \
	}
KEDGE_PLANES_KERNELS(PLANES)
#undef PLANES

KEDGE_KERNEL(kedge_planes_unpack, struct kedge_unpack_args)
{
	planes::unpack(a);
}

KEDGE_KERNEL(kedge_planes_pack, struct kedge_pack_args)
{
	planes::pack(a);
}
