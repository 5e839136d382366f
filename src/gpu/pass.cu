/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pass.cu: the hash pass: the chunk digest and the region sum of docs/digests.md, bit-identical to src/base/digest.c, and
 * what src/reduce/hash_pass.c finds with them.
 *
 * NH is an order-free sum over pairs of words, so lanes share a chunk, each with 16-byte loads at a stride. The keys of a
 * pass are those of the pass before, 64 bytes further on, so that a lane needs few of them, and has them in registers for
 * all of its chunks. Of short chunks, four lanes work on four at once: two rounds of shuffles leave each lane with all sums
 * of one chunk, which it folds and compares. The region sum rides on the same loads, with keys that each block has in shared
 * memory: it is additive, so the atomics at the end commute and the result is the same on every run.
 *
 * All that is noted in the pass is a bit for each chunk that changed. Their list, with new digests, is made by another
 * kernel that hashes them once more: that costs as much as there are changes, and the pass is left with its loads.
 */
#include "gpu/kernels.h"

#include "base/sum_keys.h"

#define ALL     0xffffffffu
#define LONGEST 1024u /* bytes of a block; a longer chunk is the digest of the digests of its blocks */

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

/* ---- the region sum: of words of a page, and then of pages */

static __device__ const struct alignas(16) {
	u64 at[KEDGE_SUM_COUNT];
} sum_keys = {{KEDGE_SUM_KEYS}};

/* Those of two words of a page, of which the first has an even number, WORD. */
static __device__ __forceinline__ ulonglong2 key_pair(unsigned word)
{
	return __ldg((const ulonglong2 *)(sum_keys.at + word));
}

/* The same from memory of the block, which is nearer: after keys_share(), by all of its threads. */
__shared__ ulonglong2 shared_keys[KEDGE_SUM_COUNT / 2];

static __device__ __forceinline__ void keys_share()
{
	for (unsigned i = threadIdx.x; i < KEDGE_SUM_COUNT / 2; i += blockDim.x)
		shared_keys[i] = key_pair(2 * i);
	__syncthreads();
}

static __device__ __forceinline__ ulonglong2 shared_pair(unsigned word)
{
	return shared_keys[word / 2];
}

static __device__ __forceinline__ void sum_pair(struct region_sum *s, ulonglong2 w, ulonglong2 k, ulonglong2 next)
{
	s->s1 += product(w.x, k.x) + product(w.y, k.y);
	s->s2 += product(w.x, next.x) + product(w.y, next.y);
}

static __device__ __forceinline__ void sum_weigh(struct region_sum *to, struct region_sum part, u64 page)
{
	u64 v = KEDGE_SUM_WEIGHT + page * KEDGE_SUM_STEP;

	v = KEDGE_SUM_X1(v);
	v = KEDGE_SUM_X2(v);
	v = KEDGE_SUM_X3(v);
	to->s1 += part.s1 * (v | 1);
	to->s2 += part.s2 * ((v >> 32 | v << 32) | 1);
}

/* Word number WORD of the region, not weighed. */
static __device__ __forceinline__ void sum_word(struct region_sum *s, u64 w, u64 word)
{
	const u64 *key = sum_keys.at + word % KEDGE_SUM_WORDS;

	s->s1 += product(w, __ldg(key));
	s->s2 += product(w, __ldg(key + KEDGE_SUM_SHIFT));
}

/* A sum to which words of any pages are added; words of a page that follow each other are weighed together. */
struct running_sum {
	struct region_sum all, page;
	u64 number; /* of the page */

	__device__ __forceinline__ void add(u64 w, u64 word)
	{
		if (word / KEDGE_SUM_WORDS != number)
			turn(word / KEDGE_SUM_WORDS);
		sum_word(&page, w, word);
	}
	__device__ __forceinline__ void turn(u64 next)
	{
		sum_weigh(&all, page, number);
		page = {0, 0};
		number = next;
	}
};

/* The J-th 32 bits of the hash of (s2, s3). */
static __device__ __forceinline__ unsigned fold_hash(const struct kedge_digest_fold &f, int j, u64 start, u64 s2, u64 s3)
{
	const unsigned b[4] = {(unsigned)s2, (unsigned)(s2 >> 32), (unsigned)s3, (unsigned)(s3 >> 32)};
	u64 low = start;
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

static __device__ __forceinline__ ulonglong2 fold(const struct kedge_digest_fold &f, const u64 start[4], const u64 s[4])
{
	ulonglong2 d;

	d.x = add_halves(s[0], fold_hash(f, 0, start[0], s[2], s[3]), fold_hash(f, 1, start[1], s[2], s[3]));
	d.y = add_halves(s[1], fold_hash(f, 2, start[2], s[2], s[3]), fold_hash(f, 3, start[3], s[2], s[3]));
	return d;
}

static __device__ __forceinline__ ulonglong2 weaken(const struct kedge_pass_args &a, ulonglong2 d)
{
	d.x &= a.mask[0];
	d.y &= a.mask[1];
	return d;
}

/* ---- bytes at any address */

static __device__ __forceinline__ u64 load_bytes(u64 at, unsigned n)
{
	u64 w = 0;

	for (unsigned i = 0; i < n && i < 8; i++)
		w |= (u64)((const unsigned char *)at)[i] << 8 * i;
	return w;
}

/* 16 bytes at an address that is a multiple of that, of which those before END may be read. */
static __device__ __forceinline__ ulonglong2 load_line(u64 at, u64 end)
{
	if (at + 16 <= end)
		return __ldcs((const ulonglong2 *)at);
	return make_ulonglong2(at < end ? load_bytes(at, end - at < 8 ? (unsigned)(end - at) : 8) : 0,
			       at + 8 < end ? load_bytes(at + 8, (unsigned)(end - at - 8)) : 0);
}

/* 16 bytes at AT. ODD: that is not a multiple of 16. */
template <bool ODD> static __device__ __forceinline__ ulonglong2 load(u64 at, u64 end)
{
	ulonglong2 low, high;
	unsigned by;

	if (!ODD)
		return __ldcs((const ulonglong2 *)at);
	by = (unsigned)(at & 15) * 8;
	low = load_line(at & ~15ull, end);
	high = load_line((at & ~15ull) + 16, end);
	if (by >= 64) {
		low = make_ulonglong2(low.y, high.x);
		high = make_ulonglong2(high.y, 0);
		by -= 64;
	}
	if (by == 0)
		return low;
	return make_ulonglong2(low.x >> by | low.y << (64 - by), low.y >> by | high.x << (64 - by));
}

static __device__ __forceinline__ u64 load_word(u64 at)
{
	return at % 8 ? load_bytes(at, 8) : *(const u64 *)at;
}

/* ---- a chunk of any length, by one thread */

static __device__ ulonglong2 lone_block(const struct kedge_digest_fold &f, const ulonglong2 *nh, u64 at, unsigned bytes,
					unsigned length)
{
	const u64 *keys = (const u64 *)nh;
	u64 s[4] = {0, 0, 0, 0}, start[4];

	for (unsigned i = 0; i < bytes; i += 8) {
		u64 w = load_bytes(at + i, bytes - i < 8 ? bytes - i : 8);

		for (int p = 0; p < 4; p++)
			s[p] += product(w, keys[i / 8 + 8 * p]);
	}
	for (int j = 0; j < 4; j++)
		start[j] = f.none[j] + f.length[j] * length;
	return fold(f, start, s);
}

static __device__ ulonglong2 lone_digest(const struct kedge_pass_args &a, u64 at, unsigned bytes)
{
	const u64 *keys = (const u64 *)a.top_nh;
	u64 s[4] = {0, 0, 0, 0}, start[4];

	if (bytes <= LONGEST)
		return lone_block(a.fold, a.nh, at, bytes, bytes);
	for (unsigned i = 0; i * LONGEST < bytes; i++) {
		unsigned len = bytes - i * LONGEST < LONGEST ? bytes - i * LONGEST : LONGEST;
		ulonglong2 d = lone_block(a.fold, a.nh, at + i * LONGEST, len, len);

		for (int p = 0; p < 4; p++)
			s[p] += product(d.x, keys[2 * i + 8 * p]) + product(d.y, keys[2 * i + 1 + 8 * p]);
	}
	for (int j = 0; j < 4; j++)
		start[j] = a.top_fold.none[j] + a.top_fold.length[j] * bytes;
	return fold(a.top_fold, start, s);
}

/* Whether BYTES bytes at AT go on as PATTERN does. */
static __device__ bool is_pattern(u64 at, unsigned bytes, u64 pattern)
{
	bool same = true;

	for (unsigned i = 0; i < bytes; i += 8) {
		unsigned n = bytes - i < 8 ? bytes - i : 8;

		same = same && load_bytes(at + i, n) == (n < 8 ? pattern & ((1ull << 8 * n) - 1) : pattern);
	}
	return same;
}

/* ---- what a warp has of a slab */

struct part {
	u64 data, end; /* of the slab */
	u64 offset, place;
	unsigned whole, known; /* chunks of the slab that are not cut short */
	u64 first_word;        /* of the slab */
	struct region_sum sum;
	unsigned changes, fills, alike;
};

/* The word of bits that begins at chunk C; OF: constants among them, and ALIKE them which are as the slab begins. */
static __device__ __forceinline__ void note(const struct kedge_pass_args &a, struct part *p, u64 word, unsigned bits, unsigned of,
					    unsigned alike)
{
	if (threadIdx.x % 32 == 0) {
		a.bits[word] = bits;
		a.fill_bits[word] = of;
	}
	p->changes += __popc(bits);
	p->fills += __popc(of);
	p->alike += __popc(alike);
}

/* V is lane-dependent: what the lane keeps stays, the other goes to the lane that differs in bit D. */
static __device__ __forceinline__ u64 trade(u64 first, u64 second, unsigned upper, int d)
{
	u64 keep = upper ? second : first, give = upper ? first : second;

	return keep + __shfl_xor_sync(ALL, give, d);
}

/* Sums of LANES chunks, of which lane L is left with those of chunk L. */
template <int LANES> static __device__ __forceinline__ u64 share(const u64 s[LANES][4], int p, unsigned lane)
{
	if (LANES == 1)
		return s[0][p];
	if (LANES == 2)
		return trade(s[0][p], s[LANES / 2][p], lane & 1, 1);
	return trade(trade(s[0][p], s[LANES / 4][p], lane & 1, 1), trade(s[LANES / 2][p], s[3 * LANES / 4][p], lane & 1, 1),
		     lane & 2, 2);
}

/* Most that changed are not, as their beginning shows. */
template <bool ODD> static __device__ __forceinline__ bool may_be_constant(u64 at, u64 end)
{
	const ulonglong2 w = load<ODD>(at, end);

	return w.x == w.y;
}

/* 32 chunks from number C of the slab on; WORD is that of their bits. */
template <int LANES, int LOADS, bool ODD>
static __device__ __forceinline__ void short_word(const struct kedge_pass_args &a, struct part *p, const ulonglong2 *key, unsigned c,
						  u64 word)
{
	const unsigned lane = threadIdx.x % LANES, all = threadIdx.x % 32, first = c + all / LANES * LANES;
	const bool here = c + all < p->whole;
	ulonglong2 w[LANES][LOADS], old = {0, 0}, now;
	const u64 from = p->offset + (u64)first * (LANES * LOADS * 16); /* what the group has next is in one page */
	const unsigned word_in = (unsigned)(from / 8 % KEDGE_SUM_WORDS) + 2 * lane; /* of its page, that the lane begins with */
	struct region_sum sum = {0, 0};
	u64 s[LANES][4], t[4];
	unsigned bits;
	bool changed = here;

#pragma unroll
	for (int i = 0; i < LANES; i++)
#pragma unroll
		for (int j = 0; j < LOADS; j++)
			w[i][j] = first + i < p->whole
				      ? load<ODD>(p->data + ((u64)(first + i) * (LANES * LOADS) + j * LANES + lane) * 16, p->end)
				      : make_ulonglong2(0, 0);
	if (c + all < p->known && here)
		old = a.digests[p->place + c + all];
#pragma unroll
	for (int i = 0; i < LANES; i++) {
#pragma unroll
		for (int q = 0; q < 4; q++)
			s[i][q] = 0;
#pragma unroll
		for (int j = 0; j < LOADS; j++) {
#pragma unroll
			for (int q = 0; q < 4; q++)
				s[i][q] += product(w[i][j].x, key[j + q].x) + product(w[i][j].y, key[j + q].y);
			if (first + i < p->whole) {
				const unsigned at = word_in + 2 * LANES * (i * LOADS + j);

				sum_pair(&sum, w[i][j], shared_pair(at), shared_pair(at + KEDGE_SUM_SHIFT));
			}
		}
	}
	sum_weigh(&p->sum, sum, from / KEDGE_SUM_PAGE);
#pragma unroll
	for (int q = 0; q < 4; q++)
		t[q] = share<LANES>(s, q, lane);
	now = weaken(a, fold(a.fold, a.fold.start, t));
	if (c + all < p->known && a.compare)
		changed = here && (now.x != old.x || now.y != old.y);
	bits = __ballot_sync(ALL, changed);
	if (!bits || !__any_sync(ALL, changed && may_be_constant<ODD>(p->data + (u64)(c + all) * (LANES * LOADS * 16), p->end))) {
		note(a, p, word, bits, 0, 0);
		return;
	}
	/* Is it constant? Lane L of the group is about chunk L. Its bytes are loaded once more: to keep them until here takes registers
	 * that the loads need. */
	u64 mine = 0;
	unsigned same = 0;

	for (int i = 0; i < LANES; i++) {
		const u64 at = p->data + ((u64)(first + i) * (LANES * LOADS)) * 16;
		u64 head = first + i < p->whole ? load_word(at) : 0;
		bool is = true;

		for (int j = 0; j < LOADS; j++) {
			ulonglong2 again = first + i < p->whole ? load<ODD>(at + (j * LANES + lane) * 16, p->end) : make_ulonglong2(0, 0);

			is = is && again.x == head && again.y == head;
		}
		unsigned group = __ballot_sync(ALL, is) >> (all / LANES * LANES) & ((1u << LANES) - 1);

		if ((int)lane == i) {
			same = group == (1u << LANES) - 1;
			mine = head;
		}
	}
	unsigned of = __ballot_sync(ALL, changed && same), alike = __ballot_sync(ALL, changed && same && mine == p->first_word);

	note(a, p, word, bits, of, alike);
}

/*
 * The digest of BLOCKS blocks of which every group of eight lanes has one, in D: lane q of the group makes the two products
 * of pass q, which are added up over the groups.
 */
template <int BLOCKS>
static __device__ __forceinline__ ulonglong2 top_digest(const struct kedge_pass_args &a, ulonglong2 d, ulonglong2 key)
{
	u64 sum = product(d.x, key.x) + product(d.y, key.y), s[4];

#pragma unroll
	for (int g = 8; g < 8 * BLOCKS; g *= 2)
		sum += __shfl_xor_sync(ALL, sum, g);
#pragma unroll
	for (int q = 0; q < 4; q++)
		s[q] = __shfl_sync(ALL, sum, q, 8);
	return fold(a.top_fold, a.top_fold.start, s);
}

/* A chunk at AT by a group of 8 * BLOCKS lanes: its digest, and whether it is constant. HERE: there is one. It is summed in P, if there is
 * one, as what is at byte OFFSET of the region. */
template <int LOADS, int BLOCKS, bool ODD>
static __device__ __forceinline__ ulonglong2 long_chunk(const struct kedge_pass_args &a, const ulonglong2 *key, ulonglong2 top_key, u64 at,
							u64 end, bool here, struct part *p, u64 offset, bool *constant)
{
	const unsigned lane = threadIdx.x % 8, block = threadIdx.x / 8 % BLOCKS, group = 8 * BLOCKS;
	const u64 unit = (u64)block * (8 * LOADS) + lane;
	const unsigned word_in = (unsigned)((offset / 8 + 2 * unit) % KEDGE_SUM_WORDS);
	ulonglong2 w[LOADS], k = {0, 0}, now;
	u64 s[4] = {0, 0, 0, 0}, head;
	struct region_sum sum = {0, 0};
	bool is = here;

#pragma unroll
	for (int j = 0; j < LOADS; j++)
		w[j] = here ? load<ODD>(at + (unit + j * 8) * 16, end) : make_ulonglong2(0, 0);
	head = __shfl_sync(ALL, w[0].x, 0, group < 32 ? group : 32);
	if (p)
		k = shared_pair(word_in);
#pragma unroll
	for (int j = 0; j < LOADS; j++) {
#pragma unroll
		for (int q = 0; q < 4; q++)
			s[q] += product(w[j].x, key[2 * j + q].x) + product(w[j].y, key[2 * j + q].y);
		if (p) { /* the next load's words have the keys of this one's in the second sum */
			const ulonglong2 next = shared_pair(word_in + (j + 1) * KEDGE_SUM_SHIFT);

			sum_pair(&sum, w[j], k, next);
			k = next;
		}
		is = is && w[j].x == head && w[j].y == head;
	}
	if (here && p)
		sum_weigh(&p->sum, sum, offset / KEDGE_SUM_PAGE);
#pragma unroll
	for (int q = 0; q < 4; q++)
#pragma unroll
		for (int d = 4; d; d >>= 1)
			s[q] += __shfl_xor_sync(ALL, s[q], d);
	now = fold(a.fold, a.fold.start, s);
	if (BLOCKS > 1)
		now = top_digest<BLOCKS>(a, now, top_key);
	const unsigned mask = group == 32 ? ALL : (1u << group % 32) - 1;

	*constant = (__ballot_sync(ALL, is) >> (threadIdx.x % 32 / group * group) & mask) == mask;
	return weaken(a, now);
}

template <int LOADS, int BLOCKS, bool ODD>
static __device__ __forceinline__ void long_word(const struct kedge_pass_args &a, struct part *p, const ulonglong2 *key,
						 ulonglong2 top_key, unsigned c, u64 word)
{
	const unsigned group = 8 * BLOCKS, at_once = 32 / group, mine = threadIdx.x % 32 / group;
	const bool leads = threadIdx.x % group == 0;
	unsigned bits = 0, of = 0, alike = 0;

	for (unsigned i = 0; i < 32 && c + i < p->whole; i += at_once) {
		const unsigned n = c + i + mine;
		const bool here = n < p->whole;
		const u64 at = p->data + (u64)n * (LOADS * 128 * BLOCKS);
		bool constant, changed = here;
		ulonglong2 old = {0, 0}, now;

		if (leads && here && n < p->known)
			old = a.digests[p->place + n];
		now = long_chunk<LOADS, BLOCKS, ODD>(a, key, top_key, at, p->end, here, p,
						     p->offset + (u64)n * (LOADS * 128 * BLOCKS), &constant);
		if (n < p->known && a.compare)
			changed = here && (now.x != old.x || now.y != old.y);
		changed = changed && leads;

		const bool as_begun = constant && here && load_word(at) == p->first_word;

#pragma unroll
		for (unsigned g = 0; g < at_once; g++) {
			bits |= (__ballot_sync(ALL, changed) >> g * group & 1) << (i + g);
			of |= (__ballot_sync(ALL, changed && constant) >> g * group & 1) << (i + g);
			alike |= (__ballot_sync(ALL, changed && as_begun) >> g * group & 1) << (i + g);
		}
	}
	note(a, p, word, bits, of, alike);
}

/* The chunk that is cut short: its bit is in the last word, which the warp has written if it has chunks in it. */
static __device__ void tail(const struct kedge_pass_args &a, struct part *p, struct kedge_slab_found *f, unsigned bytes, unsigned chunk,
			    u64 words)
{
	const u64 at = p->data + (u64)p->whole * chunk;
	const u64 word = words + p->whole / 32;
	const u64 first = p->whole ? p->first_word : load_bytes(at, bytes < 8 ? bytes : 8);
	const bool constant = bytes >= 16 && is_pattern(at, bytes, load_bytes(at, 8));
	struct running_sum sum = {p->sum, {0, 0}, 0};
	bool changed = true;

	for (unsigned i = 0; i < bytes; i += 8)
		sum.add(load_bytes(at + i, bytes - i < 8 ? bytes - i : 8), (p->offset + (u64)p->whole * chunk + i) / 8);
	sum.turn(0);
	p->sum = sum.all;
	if (p->whole < p->known && a.compare) {
		ulonglong2 now = weaken(a, lone_digest(a, at, bytes)), old = a.digests[p->place + p->whole];

		changed = now.x != old.x || now.y != old.y;
	}
	if (p->whole % 32 == 0) {
		a.bits[word] = 0;
		a.fill_bits[word] = 0;
	}
	f->tail_alike = is_pattern(at, bytes, first);
	if (!changed)
		return;
	a.bits[word] |= 1u << p->whole % 32;
	if (constant)
		a.fill_bits[word] |= 1u << p->whole % 32;
	f->tail = constant ? KEDGE_TAIL_FILL : KEDGE_TAIL_STORED;
	p->changes++;
	p->fills += constant;
}

static __device__ __forceinline__ void add_found(struct kedge_slab_found *f, struct part *p)
{
	for (int d = 16; d; d >>= 1) {
		p->sum.s1 += __shfl_xor_sync(ALL, p->sum.s1, d);
		p->sum.s2 += __shfl_xor_sync(ALL, p->sum.s2, d);
	}
	if (threadIdx.x % 32)
		return;
	atomicAdd(&f->sum[0], p->sum.s1);
	atomicAdd(&f->sum[1], p->sum.s2);
	if (p->changes)
		atomicAdd(&f->changes, p->changes);
	if (p->fills)
		atomicAdd(&f->fills, p->fills);
	if (p->alike)
		atomicAdd(&f->alike, p->alike);
}

/* What warps of a slab share. */
template <unsigned CHUNK> struct shape {
	static const unsigned words = KEDGE_SLAB_BYTES / CHUNK / 32; /* of bits */
	static const unsigned warps = words < KEDGE_SLAB_WARPS ? words : KEDGE_SLAB_WARPS;
	static const unsigned each = words / warps;
};

/* Part NUMBER of slab S; OF(part, chunk, word) is about 32 chunks. */
template <unsigned CHUNK, class OF>
static __device__ __forceinline__ void pass_part(const struct kedge_pass_args &a, unsigned slab, unsigned number, OF of)
{
	typedef struct shape<CHUNK> h;
	const struct kedge_slab s = a.slabs[slab];
	struct part p = {};
	const unsigned from = number * h::each;
	const unsigned chunks = (s.bytes + CHUNK - 1) / CHUNK;
	const u64 words = (u64)slab * h::words;

	p.data = s.data;
	p.end = s.data + s.bytes;
	p.offset = s.offset;
	p.place = s.place;
	p.whole = s.bytes / CHUNK;
	p.known = s.known;
	p.first_word = p.whole ? load_word(s.data) : 0;
	for (unsigned w = from; w < from + h::each; w++) {
		if (w * 32 < p.whole)
			of(&p, w * 32, words + w);
		else if (w * 32 >= chunks && threadIdx.x % 32 == 0)
			a.bits[words + w] = a.fill_bits[words + w] = 0;
	}
	__syncwarp();
	if (chunks > p.whole && p.whole / 32 >= from && p.whole / 32 < from + h::each && threadIdx.x % 32 == 0)
		tail(a, &p, &a.found[slab], s.bytes % CHUNK, CHUNK, words);
	__syncwarp();
	if (number == 0 && threadIdx.x % 32 == 0 && s.bytes >= 8)
		a.found[slab].first = load_word(s.data);
	add_found(&a.found[slab], &p);
}

/* All slabs, by parts, a warp each; the grid strides over them. */
template <unsigned CHUNK, class OF> static __device__ __forceinline__ void pass_slabs(const struct kedge_pass_args &a, OF of)
{
	const u64 warps = shape<CHUNK>::warps, units = a.count * warps, stride = (u64)gridDim.x * (blockDim.x / 32);

	for (u64 unit = (u64)blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32; unit < units; unit += stride)
		pass_part<CHUNK>(a, (unsigned)(unit / warps), (unsigned)(unit % warps), of);
}

template <int LANES, int LOADS, bool ODD> static __device__ __forceinline__ void pass_short(const struct kedge_pass_args &a)
{
	ulonglong2 key[LOADS + 3];

	keys_share();
#pragma unroll
	for (int j = 0; j < LOADS + 3; j++)
		key[j] = a.nh[j * 4 + threadIdx.x % LANES];
	pass_slabs<LANES * LOADS * 16>(
	    a, [&](struct part *p, unsigned c, u64 word) { short_word<LANES, LOADS, ODD>(a, p, key, c, word); });
}

template <int LOADS, int BLOCKS> static __device__ __forceinline__ void long_keys(const struct kedge_pass_args &a, ulonglong2 *key, ulonglong2 *top)
{
	const unsigned lane = threadIdx.x % 8, block = threadIdx.x / 8 % BLOCKS;

	/* Unit j * 4 + lane of 16 bytes: what load j / 2 needs in pass j % 2, and the next. */
#pragma unroll
	for (int j = 0; j < 2 * (LOADS + 1); j++)
		key[j] = a.nh[j * 4 + lane];
	*top = BLOCKS > 1 ? a.top_nh[block + 4 * (lane % 4)] : make_ulonglong2(0, 0);
}

template <int LOADS, int BLOCKS, bool ODD> static __device__ __forceinline__ void pass_long(const struct kedge_pass_args &a)
{
	ulonglong2 key[2 * (LOADS + 1)], top;

	keys_share();
	long_keys<LOADS, BLOCKS>(a, key, &top);
	pass_slabs<LOADS * 128 * BLOCKS>(
	    a, [&](struct part *p, unsigned c, u64 word) { long_word<LOADS, BLOCKS, ODD>(a, p, key, top, c, word); });
}

/* ------------------------------------------------------------------ the list of changes: a block of threads a slab */

#define LIST_WARPS 8u /* of a block */

/* How many are in words before W; called by the whole block, N words. FIRST has room for N. */
static __device__ void count_before(const unsigned *bits, unsigned n, unsigned *first)
{
	__shared__ unsigned total[LIST_WARPS];
	unsigned carry = 0;

	for (unsigned from = 0; from < n; from += blockDim.x) {
		const unsigned w = from + threadIdx.x, lane = threadIdx.x % 32;
		const unsigned mine = w < n ? __popc(bits[w]) : 0;
		unsigned up = mine;

		for (unsigned d = 1; d < 32; d *= 2) {
			unsigned other = __shfl_up_sync(ALL, up, d);

			up += lane >= d ? other : 0;
		}
		if (lane == 31)
			total[threadIdx.x / 32] = up;
		__syncthreads();
		unsigned before = carry;

		for (unsigned k = 0; k < LIST_WARPS; k++) {
			before += k < threadIdx.x / 32 ? total[k] : 0;
			carry += total[k];
		}
		if (w < n)
			first[w] = before + up - mine;
		__syncthreads();
	}
}

/* Change K of the slab, with COUNT at its disposal. */
static __device__ __forceinline__ void list_one(const struct kedge_pass_args &a, const struct kedge_slab &s, const struct kedge_slab_at &at,
						unsigned k, unsigned fill_k, unsigned c, ulonglong2 digest, bool fill, u64 pattern)
{
	a.changes[at.changes + k] = (unsigned short)(c << 1 | (fill ? 1 : 0));
	if (c < s.known)
		a.fresh[at.changes + k] = digest;
	else
		a.digests[s.place + c] = digest;
	if (fill)
		a.fills[at.fills + fill_k] = pattern;
}

/* The N-th bit that is set, from 0 on; there are more than N. */
static __device__ __forceinline__ unsigned nth_bit(unsigned bits, unsigned n)
{
	for (; n; n--)
		bits &= bits - 1;
	return (unsigned)__ffs((int)bits) - 1;
}

static __device__ __forceinline__ unsigned below(unsigned bits, unsigned bit)
{
	return (unsigned)__popc(bits & ((1u << bit) - 1));
}

/* The digest of a chunk at AT by GROUP lanes, for SHORT ones. */
template <int LANES, int LOADS>
static __device__ __forceinline__ ulonglong2 short_chunk(const struct kedge_pass_args &a, const ulonglong2 *key, u64 at, u64 end, bool here)
{
	const unsigned lane = threadIdx.x % LANES;
	u64 s[4] = {0, 0, 0, 0};

#pragma unroll
	for (int j = 0; j < LOADS; j++) {
		u64 from = at + (j * LANES + lane) * 16;
		ulonglong2 w = make_ulonglong2(0, 0);

		if (here)
			w = at % 16 ? load<true>(from, end) : load<false>(from, end);
#pragma unroll
		for (int q = 0; q < 4; q++)
			s[q] += product(w.x, key[j + q].x) + product(w.y, key[j + q].y);
	}
#pragma unroll
	for (int q = 0; q < 4; q++)
#pragma unroll
		for (int d = LANES / 2; d; d >>= 1)
			s[q] += __shfl_xor_sync(ALL, s[q], d);
	return weaken(a, fold(a.fold, a.fold.start, s));
}

/* Slabs with changes; GROUP lanes make the digest of a chunk by DIGEST(at, end, here). */
template <unsigned CHUNK, unsigned GROUP, class DIGEST>
static __device__ __forceinline__ void list_slabs(const struct kedge_pass_args &a, DIGEST digest)
{
	typedef struct shape<CHUNK> h;
	__shared__ unsigned first[h::words], fill_first[h::words];

	for (unsigned slab = blockIdx.x; slab < a.count; slab += gridDim.x) {
		if (!a.found[slab].changes || a.at[slab].flat != a.flat)
			continue;
		const struct kedge_slab s = a.slabs[slab];
		const struct kedge_slab_at at = a.at[slab];
		const unsigned whole = s.bytes / CHUNK, words = (s.bytes + CHUNK * 32 - 1) / (CHUNK * 32);
		const unsigned *bits = a.bits + (u64)slab * h::words, *fills = a.fill_bits + (u64)slab * h::words;

		count_before(bits, words, first);
		count_before(fills, words, fill_first);
		__syncthreads();
		for (unsigned w = threadIdx.x / 32; w < words; w += LIST_WARPS) {
			const unsigned mine = threadIdx.x % 32 / GROUP;
			unsigned set = bits[w], constant = fills[w], full = set, n;

			if (w == whole / 32)
				full &= (1u << whole % 32) - 1; /* without what is cut short */
			n = (unsigned)__popc(full);
			for (unsigned i = 0; i < n; i += 32 / GROUP) {
				const bool here = i + mine < n;
				const unsigned b = here ? nth_bit(full, i + mine) : 0, c = w * 32 + b;
				const u64 from = s.data + (u64)c * CHUNK;
				const ulonglong2 d = digest(from, s.data + s.bytes, here);

				if (here && threadIdx.x % GROUP == 0)
					list_one(a, s, at, first[w] + below(set, b), fill_first[w] + below(constant, b), c, d,
						 constant >> b & 1, constant >> b & 1 ? load_word(from) : 0);
			}
			if (full != set && threadIdx.x % 32 == 0) {
				const unsigned b = whole % 32, len = s.bytes % CHUNK;
				const u64 from = s.data + (u64)whole * CHUNK;

				list_one(a, s, at, first[w] + below(set, b), fill_first[w] + below(constant, b), whole,
					 weaken(a, lone_digest(a, from, len)), constant >> b & 1,
					 constant >> b & 1 ? load_bytes(from, 8) : 0);
			}
		}
		__syncthreads();
	}
}

template <int LANES, int LOADS> static __device__ __forceinline__ void list_short(const struct kedge_pass_args &a)
{
	ulonglong2 key[LOADS + 3];

#pragma unroll
	for (int j = 0; j < LOADS + 3; j++)
		key[j] = a.nh[j * 4 + threadIdx.x % LANES];
	list_slabs<LANES * LOADS * 16, LANES>(
	    a, [&](u64 at, u64 end, bool here) { return short_chunk<LANES, LOADS>(a, key, at, end, here); });
}

template <int LOADS, int BLOCKS> static __device__ __forceinline__ void list_long(const struct kedge_pass_args &a)
{
	ulonglong2 key[2 * (LOADS + 1)], top;

	long_keys<LOADS, BLOCKS>(a, key, &top);
	list_slabs<LOADS * 128 * BLOCKS, 8 * BLOCKS>(a, [&](u64 at, u64 end, bool here) {
		bool constant;

		return long_chunk<LOADS, BLOCKS, true>(a, key, top, at, end, here, (struct part *)0, 0, &constant);
	});
}

#define SHORT(bytes, lanes, loads)                                     \
	KEDGE_LARGE_KERNEL(kedge_pass_##bytes, struct kedge_pass_args)       \
	{                                                              \
		pass_short<lanes, loads, false>(a);                    \
	}                                                              \
	KEDGE_LARGE_KERNEL(kedge_pass_odd_##bytes, struct kedge_pass_args)   \
	{                                                              \
		pass_short<lanes, loads, true>(a);                     \
	}                                                              \
	KEDGE_KERNEL(kedge_list_##bytes, struct kedge_pass_args)       \
	{                                                              \
		list_short<lanes, loads>(a);                           \
	}
#define LONG(bytes, loads, blocks)                                     \
	KEDGE_LARGE_KERNEL(kedge_pass_##bytes, struct kedge_pass_args)       \
	{                                                              \
		pass_long<loads, blocks, false>(a);                    \
	}                                                              \
	KEDGE_LARGE_KERNEL(kedge_pass_odd_##bytes, struct kedge_pass_args)   \
	{                                                              \
		pass_long<loads, blocks, true>(a);                     \
	}                                                              \
	KEDGE_KERNEL(kedge_list_##bytes, struct kedge_pass_args)       \
	{                                                              \
		list_long<loads, blocks>(a);                           \
	}
KEDGE_PASS_KERNELS(SHORT, LONG)
#undef SHORT
#undef LONG
