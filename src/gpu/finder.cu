/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * finder.cu: the finder of src/reduce on a GPU: find.c, build.c and remember.c say what is done; here it is done to many at
 * once, and what comes out is the same, entry for entry.
 *
 * What is looked up and what is entered depends on what was entered before. So probes are dealt out by blocks of the finder,
 * in the order in which they came, and a warp takes those of a block 32 at a time, a lane each. A lane whose buckets an
 * earlier lane has in mind waits for the next round: what each finds in its buckets is what it would find if they came one
 * after the other. A lane that waits only for one with the same digest need not: it finds what that one found or entered.
 *
 * A state may have few digests, and many chunks of each: a change whose digest an earlier one of its slab has, too, is not
 * dealt out; it follows that one when all others are done.
 *
 * What only changes entries that are there, each its own, needs no order.
 */
#include "gpu/kernels.h"

#define ALL    0xffffffffu
#define NOBODY 0xffffffffu
#define FINDER_BUCKET 12
#define FINDER_WARPS  (KEDGE_THREADS / 32)

#define SAMPLE_SHIFT 59
#define AGE_ODD      0x80u
#define AGE_MAX      0x7fu

typedef unsigned long long u64;

enum finder_entry { ENTRY_EVEN, ENTRY_ODD, ENTRY_LOG };
enum finder_origin { ORIGIN_LAST = 1, ORIGIN_LOG, ORIGIN_HERE };
enum finder_verdict { FINDER_NO, FINDER_YES, FINDER_DEAD };

typedef struct kedge_finder_args finder_args;

static __device__ __forceinline__ bool finder_same(ulonglong2 a, ulonglong2 b)
{
	return a.x == b.x && a.y == b.y;
}

static __device__ __forceinline__ bool finder_is_sample(ulonglong2 d)
{
	return !(d.x >> SAMPLE_SHIFT);
}

static __device__ __forceinline__ unsigned finder_origin(enum finder_origin kind, unsigned number)
{
	return (unsigned)kind << 30 | number;
}

/* ---- where a digest would be */

struct finder_spot {
	unsigned first, second; /* buckets of the block */
	unsigned block;         /* its first bucket */
	unsigned mark, tag;
};

static __device__ __forceinline__ u64 finder_mix(ulonglong2 d)
{
	return (d.x ^ (d.y << 32 | d.y >> 32)) * 0x9E3779B97F4A7C15ull;
}

static __device__ __forceinline__ unsigned finder_block(const finder_args &a, u64 mix)
{
	return (unsigned)((mix >> 32) * a.blocks >> 32);
}

static __device__ __forceinline__ struct finder_spot finder_spot_of(const finder_args &a, ulonglong2 d)
{
	u64 mix = finder_mix(d), other = (mix ^ mix >> 29) * 0xBF58476D1CE4E5B9ull;
	struct finder_spot s;

	s.block = finder_block(a, mix) * a.block_buckets;
	s.first = (unsigned)mix >> 21 & (a.block_buckets - 1);
	s.second = (unsigned)other & (a.block_buckets - 1);
	s.mark = (unsigned)((u64)(unsigned)(other >> 24) >> (a.bits + 2) << (a.bits + 2));
	s.tag = (unsigned)(other >> 56);
	s.tag += !s.tag;
	return s;
}

static __device__ __forceinline__ uint4 *finder_bucket(const finder_args &a, const struct finder_spot &s, unsigned i)
{
	return a.buckets + (u64)(s.block + (i < FINDER_BUCKET ? s.first : s.second)) * 4;
}

/* Entry I of both buckets. */
static __device__ __forceinline__ unsigned *finder_entry_at(const finder_args &a, const struct finder_spot &s, unsigned i)
{
	return (unsigned *)(finder_bucket(a, s, i) + 1) + i % FINDER_BUCKET;
}

static __device__ __forceinline__ unsigned char *finder_tag_at(const finder_args &a, const struct finder_spot &s, unsigned i)
{
	return (unsigned char *)finder_bucket(a, s, i) + i % FINDER_BUCKET;
}

/* A bit for each byte of W that is as those of ALIKE. */
static __device__ __forceinline__ unsigned finder_match4(unsigned w, unsigned alike)
{
	unsigned x = w ^ alike, t = ~(((x & 0x7f7f7f7fu) + 0x7f7f7f7fu) | x | 0x7f7f7f7fu);

	return (t >> 7) * 0x10204080u >> 28;
}

static __device__ __forceinline__ unsigned finder_match(uint4 tags, unsigned tag)
{
	unsigned alike = tag * 0x01010101u;

	return finder_match4(tags.x, alike) | finder_match4(tags.y, alike) << 4 | finder_match4(tags.z, alike) << 8;
}

struct finder_tags {
	uint4 first, second;
};

static __device__ __forceinline__ struct finder_tags finder_tags_of(const finder_args &a, const struct finder_spot &s)
{
	return {*finder_bucket(a, s, 0), *finder_bucket(a, s, FINDER_BUCKET)};
}

/* Entries that may be its digest's. */
static __device__ __forceinline__ unsigned finder_matches(const struct finder_spot &s, const struct finder_tags &t)
{
	unsigned match = finder_match(t.first, s.tag);

	return s.first == s.second ? match : match | finder_match(t.second, s.tag) << FINDER_BUCKET;
}

static __device__ __forceinline__ unsigned finder_entry(const finder_args &a, unsigned mark, unsigned kind, unsigned number)
{
	return mark | kind << a.bits | number;
}

static __device__ __forceinline__ bool finder_has_mark(const finder_args &a, unsigned entry, unsigned mark)
{
	return (u64)(entry ^ mark) >> (a.bits + 2) == 0;
}

static __device__ __forceinline__ unsigned finder_number(const finder_args &a, unsigned entry)
{
	return entry & ((1u << a.bits) - 1);
}

static __device__ __forceinline__ unsigned finder_kind(const finder_args &a, unsigned entry)
{
	return entry >> a.bits & 3;
}

/* False: both buckets are full. */
static __device__ __forceinline__ bool finder_put(const finder_args &a, const struct finder_spot &s,
						  const struct finder_tags &t, unsigned entry)
{
	unsigned free0 = finder_match(t.first, 0), free1 = finder_match(t.second, 0);
	unsigned second = __popc(free1) > __popc(free0), free = second ? free1 : free0, i;

	if (!free)
		return false;
	i = (unsigned)__ffs((int)free) - 1 + second * FINDER_BUCKET;
	*finder_entry_at(a, s, i) = entry;
	*finder_tag_at(a, s, i) = (unsigned char)s.tag;
	return true;
}

/* ---- what an entry stands for */

/* The chunk with NUMBER; false: its region is gone. */
static __device__ bool finder_chunk(const finder_args &a, unsigned number, struct kedge_column *c, unsigned *index)
{
	unsigned low = 0, high = a.column_count;

	while (low < high) {
		unsigned i = low + (high - low) / 2;

		if (a.columns[i].first <= number)
			low = i + 1;
		else
			high = i;
	}
	if (!low)
		return false;
	*c = a.columns[low - 1];
	*index = number - c->first;
	return *index < c->count;
}

static __device__ bool finder_last_is(const finder_args &a, const struct kedge_column &c, unsigned index, ulonglong2 d)
{
	return index < c.chunks && !a.states[c.state_at + (index >> a.slab_shift)] &&
	       finder_same(a.digests[c.place + index], d);
}

static __device__ __forceinline__ bool finder_past_is(const finder_args &a, unsigned number, ulonglong2 d)
{
	return number < a.log_room && a.log[number].lo == d.x && a.log[number].hi == d.y;
}

/* The digest of change K of slab S. */
static __device__ __forceinline__ ulonglong2 finder_change(const finder_args &a, const struct kedge_finder_slab &s, unsigned k)
{
	return k < s.apart ? a.fresh[s.item_at + k] : a.digests[s.place + (a.changes[s.item_at + k] >> 1)];
}

/* Chunk INDEX of C is a literal of this version with the digest of P, and comes before it. */
static __device__ bool finder_is_earlier(const finder_args &a, const struct kedge_column &c, unsigned index,
					 const struct kedge_probe &p, unsigned *item)
{
	struct kedge_finder_slab s;
	unsigned at = index & ((1u << a.slab_shift) - 1), low = 0, high;

	if (index >= c.next)
		return false;
	s = a.slabs[c.slab_at + (index >> a.slab_shift)];
	high = s.count;
	while (low < high) {
		unsigned i = low + (high - low) / 2;

		if ((unsigned)a.changes[s.item_at + i] >> 1 < at)
			low = i + 1;
		else
			high = i;
	}
	*item = s.item_at + low;
	if (low == s.count || *item >= p.item || (unsigned)a.changes[*item] >> 1 != at)
		return false;
	return finder_same(finder_change(a, s, low), make_ulonglong2(p.lo, p.hi)) && !(a.origins && a.origins[*item]);
}

static __device__ enum finder_verdict finder_past_verdict(const finder_args &a, unsigned number, ulonglong2 d)
{
	unsigned newest;

	if (!finder_past_is(a, number, d) || !a.log[number].to)
		return FINDER_NO;
	newest = a.newest[a.log[number].to];
	return newest && newest >= a.log[number].from ? FINDER_YES : FINDER_DEAD;
}

/* As verdict_on() in find.c. */
static __device__ enum finder_verdict finder_judge(const finder_args &a, unsigned entry, const struct kedge_probe &p,
						   unsigned *origin)
{
	ulonglong2 d = make_ulonglong2(p.lo, p.hi);
	unsigned number = finder_number(a, entry), index, item;
	struct kedge_column c;

	if (finder_kind(a, entry) == ENTRY_LOG) {
		*origin = finder_origin(ORIGIN_LOG, number);
		return finder_past_verdict(a, number, d);
	}
	if (!finder_chunk(a, number, &c, &index))
		return FINDER_NO;
	if (finder_last_is(a, c, index, d)) {
		unsigned newest = a.newest[a.parent], from = a.since + (a.ages[c.place + index] & AGE_MAX);

		*origin = finder_origin(ORIGIN_LAST, number);
		return newest && newest >= from ? FINDER_YES : FINDER_DEAD;
	}
	if (number == p.number) {
		*origin = 0;
		return finder_kind(a, entry) == p.kind ? FINDER_YES : FINDER_NO;
	}
	if (!finder_is_earlier(a, c, index, p, &item))
		return FINDER_NO;
	*origin = finder_origin(ORIGIN_HERE, item);
	return FINDER_YES;
}

/* ---- one probe, when its buckets are its own */

struct finder_result {
	unsigned origin;
	bool settled; /* found or entered: so others with the same digest find the same, or this */
	bool entered;
};

/* True: it is there. *DEAD: an entry with its digest that nothing may refer to, or NOBODY. */
static __device__ bool finder_look(const finder_args &a, const struct kedge_probe &p, const struct finder_spot &s,
				   const struct finder_tags &t, unsigned *origin, unsigned *dead)
{
	*dead = NOBODY;
	for (unsigned match = finder_matches(s, t); match; match &= match - 1) {
		unsigned i = (unsigned)__ffs((int)match) - 1, entry = *finder_entry_at(a, s, i);
		enum finder_verdict v;

		if (!finder_has_mark(a, entry, s.mark))
			continue;
		v = finder_judge(a, entry, p, origin);
		if (v == FINDER_YES)
			return true;
		*dead = v == FINDER_DEAD ? i : *dead;
	}
	return false;
}

static __device__ struct finder_result finder_find_one(const finder_args &a, const struct kedge_probe &p,
						       const struct finder_spot &s)
{
	struct finder_tags t = finder_tags_of(a, s);
	unsigned dead, entry, origin;
	bool put;

	if (finder_look(a, p, s, t, &origin, &dead))
		return {origin, true, false};
	if (p.number == KEDGE_NO_NUMBER)
		return {0, false, false};
	entry = finder_entry(a, s.mark, p.kind, p.number);
	if (dead != NOBODY) {
		*finder_entry_at(a, s, dead) = entry;
		return {0, true, false};
	}
	put = finder_put(a, s, t, entry);
	return {0, put, put};
}

static __device__ bool finder_is_there(const finder_args &a, unsigned entry, ulonglong2 d)
{
	struct kedge_column c;
	unsigned index;

	if (finder_kind(a, entry) == ENTRY_LOG)
		return finder_past_is(a, finder_number(a, entry), d);
	return finder_chunk(a, finder_number(a, entry), &c, &index) && finder_last_is(a, c, index, d);
}

static __device__ struct finder_result finder_enter_one(const finder_args &a, const struct kedge_probe &p,
							const struct finder_spot &s)
{
	struct finder_tags t = finder_tags_of(a, s);
	bool put;

	for (unsigned match = finder_matches(s, t); match; match &= match - 1) {
		unsigned entry = *finder_entry_at(a, s, (unsigned)__ffs((int)match) - 1);

		if (finder_has_mark(a, entry, s.mark) && finder_is_there(a, entry, make_ulonglong2(p.lo, p.hi)))
			return {0, true, false};
	}
	put = finder_put(a, s, t, finder_entry(a, s.mark, p.kind, p.number));
	return {0, put, put};
}

/* The entry of the log that has the digest of P, or NOBODY. */
static __device__ unsigned finder_adoptable(const finder_args &a, const struct kedge_probe &p, const struct finder_spot &s)
{
	struct finder_tags t = finder_tags_of(a, s);

	for (unsigned match = finder_matches(s, t); match; match &= match - 1) {
		unsigned i = (unsigned)__ffs((int)match) - 1, entry = *finder_entry_at(a, s, i);

		if (finder_has_mark(a, entry, s.mark) && finder_kind(a, entry) == ENTRY_LOG &&
		    finder_past_is(a, finder_number(a, entry), make_ulonglong2(p.lo, p.hi)))
			return i;
	}
	return NOBODY;
}

/* ---- the probes of a block, by a warp */

/* Those that wait lay claim to their buckets. True: no earlier lane did. *LEADER: the one that did to both, or the lane. */
static __device__ bool finder_claim(unsigned *owner, bool waits, const struct finder_spot &s, unsigned *leader)
{
	unsigned lane = threadIdx.x % 32, first = lane, second = lane;

	if (waits) {
		atomicMin(&owner[s.first], lane);
		atomicMin(&owner[s.second], lane);
	}
	__syncwarp();
	if (waits) {
		first = owner[s.first];
		second = owner[s.second];
	}
	__syncwarp();
	if (waits)
		owner[s.first] = owner[s.second] = NOBODY;
	__syncwarp();
	*leader = first == second ? first : lane;
	return waits && first == lane && second == lane;
}

static __device__ void finder_owner_init(unsigned *owner)
{
	for (unsigned i = threadIdx.x % 32; i < KEDGE_BLOCK_BUCKETS; i += 32)
		owner[i] = NOBODY;
	__syncwarp();
}

static __device__ __forceinline__ struct kedge_probe finder_probe(const finder_args &a, unsigned at, unsigned end)
{
	struct kedge_probe none = {0, 0, 0, 0, 0, 0};

	return at < end ? a.probes[a.order[at]] : none;
}

static __device__ void finder_add_totals(const finder_args &a, unsigned hits, int entered)
{
	for (int d = 16; d; d >>= 1) {
		hits += __shfl_xor_sync(ALL, hits, d);
		entered += __shfl_xor_sync(ALL, entered, d);
	}
	if (threadIdx.x % 32 == 0 && hits)
		atomicAdd(&a.totals[0], (u64)hits);
	if (threadIdx.x % 32 == 0 && entered)
		atomicAdd(&a.totals[1], (u64)(long long)entered);
}

template <bool FIND> static __device__ __forceinline__ void finder_run_block(const finder_args &a)
{
	__shared__ unsigned owners[FINDER_WARPS][KEDGE_BLOCK_BUCKETS];
	const unsigned lane = threadIdx.x % 32, block = blockIdx.x * FINDER_WARPS + threadIdx.x / 32;
	unsigned *owner = owners[threadIdx.x / 32], at, end, hits = 0;
	int entered = 0;
	struct kedge_probe next;

	if (block >= a.blocks)
		return;
	finder_owner_init(owner);
	at = a.begin[block];
	end = a.begin[block + 1];
	next = finder_probe(a, at + lane, end);
	for (; at < end; at += 32) {
		const struct kedge_probe p = next;
		const struct finder_spot s = finder_spot_of(a, make_ulonglong2(p.lo, p.hi));
		bool waits = at + lane < end;

		next = finder_probe(a, at + 32 + lane, end);
		while (__any_sync(ALL, waits)) {
			unsigned leader, origin, item;
			bool ready = finder_claim(owner, waits, s, &leader), follows;
			struct finder_result result = {0, false, false};

			if (ready)
				result = FIND ? finder_find_one(a, p, s) : finder_enter_one(a, p, s);
			__syncwarp();
			follows = __shfl_sync(ALL, (int)(ready && result.settled && !a.singly), (int)leader);
			follows = (__shfl_sync(ALL, p.lo, (int)leader) == p.lo) && follows;
			follows = (__shfl_sync(ALL, p.hi, (int)leader) == p.hi) && follows;
			origin = __shfl_sync(ALL, result.origin, (int)leader);
			item = __shfl_sync(ALL, p.item, (int)leader);
			if (waits && !ready && follows)
				result.origin = origin ? origin : finder_origin(ORIGIN_HERE, item);
			if (waits && (ready || follows)) {
				if (FIND && a.origins && result.origin)
					a.origins[p.item] = result.origin;
				hits += FIND && result.origin;
				entered += result.entered;
				waits = false;
			}
		}
	}
	finder_add_totals(a, hits, entered);
}

KEDGE_KERNEL(kedge_finder_find, struct kedge_finder_args)
{
	finder_run_block<true>(a);
}

KEDGE_KERNEL(kedge_finder_enter, struct kedge_finder_args)
{
	finder_run_block<false>(a);
}

/* Those that follow an earlier change with the same digest, which was found, or is a literal, or found no room. They enter
 * nothing, and what there is for them is there. */
KEDGE_KERNEL(kedge_finder_follow, struct kedge_finder_args)
{
	unsigned hits = 0;

	for (unsigned i = a.begin[a.blocks] + blockIdx.x * blockDim.x + threadIdx.x; i < a.count;
	     i += gridDim.x * blockDim.x) {
		const struct kedge_probe p = a.probes[a.order[i]];
		unsigned origin = a.origins ? a.origins[p.item - p.follows] : 0, dead;

		if (!origin) {
			const struct finder_spot s = finder_spot_of(a, make_ulonglong2(p.lo, p.hi));

			if (!finder_look(a, p, s, finder_tags_of(a, s), &origin, &dead))
				origin = 0;
		}
		if (a.origins && origin)
			a.origins[p.item] = origin;
		hits += origin != 0;
	}
	finder_add_totals(a, hits, 0);
}

/* What is not there does not come while others are adopted, so that only those wait that have found something. */
KEDGE_KERNEL(kedge_finder_adopt, struct kedge_finder_args)
{
	__shared__ unsigned owners[FINDER_WARPS][KEDGE_BLOCK_BUCKETS];
	const unsigned lane = threadIdx.x % 32, block = blockIdx.x * FINDER_WARPS + threadIdx.x / 32;
	unsigned *owner = owners[threadIdx.x / 32];

	if (block >= a.blocks)
		return;
	finder_owner_init(owner);
	for (unsigned at = a.begin[block], end = a.begin[block + 1]; at < end; at += 32) {
		const struct kedge_probe p = finder_probe(a, at + lane, end);
		const struct finder_spot s = finder_spot_of(a, make_ulonglong2(p.lo, p.hi));
		bool waits = at + lane < end;

		while (__any_sync(ALL, waits)) {
			unsigned leader, i = waits ? finder_adoptable(a, p, s) : NOBODY;

			waits = waits && i != NOBODY;
			if (finder_claim(owner, waits, s, &leader)) {
				*finder_entry_at(a, s, i) = finder_entry(a, s.mark, p.kind, p.number);
				waits = false;
			}
			__syncwarp();
		}
	}
}

/* ---- probes */

static __device__ __forceinline__ void finder_probe_put(const finder_args &a, unsigned at, struct kedge_probe p)
{
	a.probes[at] = p;
	a.keys[at] = finder_block(a, finder_mix(make_ulonglong2(p.lo, p.hi)));
}

static __device__ __forceinline__ unsigned finder_numbered(const struct kedge_finder_slab &s, unsigned index)
{
	return s.number == KEDGE_NO_NUMBER ? KEDGE_NO_NUMBER : s.number + index;
}

/* Of the entry of chunk INDEX of slab S: as the last version has it, and, if it has changed, as this one does. */
static __device__ __forceinline__ unsigned finder_last_kind(const finder_args &a, const struct kedge_finder_slab &s,
							    unsigned index)
{
	return a.ages[s.place + index] & AGE_ODD ? ENTRY_ODD : ENTRY_EVEN;
}

static __device__ __forceinline__ unsigned finder_next_kind(const finder_args &a, const struct kedge_finder_slab &s,
							    unsigned index)
{
	return a.ages[s.place + index] & AGE_ODD ? ENTRY_EVEN : ENTRY_ODD;
}

/* The slab of this warp; false: there is none. */
static __device__ __forceinline__ bool finder_slab_mine(const finder_args &a, unsigned *slab)
{
	*slab = a.slab_begin + blockIdx.x * FINDER_WARPS + threadIdx.x / 32;
	return *slab < a.slab_end;
}

static __device__ __forceinline__ unsigned finder_rank(unsigned votes)
{
	return (unsigned)__popc(votes & ((1u << threadIdx.x % 32) - 1));
}

/* Digests of a slab that a warp has seen. */
#define FINDER_SEEN_BITS 6

struct finder_seen {
	u64 lo[1 << FINDER_SEEN_BITS], hi[1 << FINDER_SEEN_BITS];
	unsigned k[1 << FINDER_SEEN_BITS];     /* the first that had it; NOBODY: there was none */
	unsigned owner[1 << FINDER_SEEN_BITS]; /* the lane that puts one there */
};

static __device__ void finder_seen_init(struct finder_seen *seen)
{
	for (unsigned i = threadIdx.x % 32; i < 1u << FINDER_SEEN_BITS; i += 32)
		seen->k[i] = seen->owner[i] = NOBODY;
	__syncwarp();
}

/* Number K has digest D, if V. Returns an earlier one that has it, too, or NOBODY. */
static __device__ unsigned finder_seen_before(struct finder_seen *seen, bool v, unsigned k, ulonglong2 d)
{
	unsigned lane = threadIdx.x % 32, slot = (unsigned)(finder_mix(d) >> 20) & ((1u << FINDER_SEEN_BITS) - 1);
	unsigned before = NOBODY, owner = lane, owner_k;
	bool fresh;
	ulonglong2 other;

	if (v && seen->k[slot] != NOBODY && seen->lo[slot] == d.x && seen->hi[slot] == d.y)
		before = seen->k[slot];
	fresh = v && before == NOBODY;
	if (fresh)
		atomicMin(&seen->owner[slot], lane);
	__syncwarp();
	if (fresh)
		owner = seen->owner[slot];
	other.x = __shfl_sync(ALL, d.x, (int)owner);
	other.y = __shfl_sync(ALL, d.y, (int)owner);
	owner_k = __shfl_sync(ALL, k, (int)owner);
	if (fresh && owner != lane && finder_same(d, other))
		before = owner_k;
	__syncwarp();
	if (fresh && owner == lane) {
		seen->owner[slot] = NOBODY;
		seen->lo[slot] = d.x;
		seen->hi[slot] = d.y;
		seen->k[slot] = k;
	}
	__syncwarp();
	return before;
}

/* Changes that are not constant, or a sample of them; without a list, chunks of the last version. */
template <bool COUNT> static __device__ __forceinline__ void finder_probes_of_slab(const finder_args &a)
{
	__shared__ struct finder_seen all_seen[COUNT ? 1 : FINDER_WARPS];
	struct finder_seen *seen = &all_seen[COUNT ? 0 : threadIdx.x / 32];
	unsigned slab, at;
	struct kedge_finder_slab s;

	if (!finder_slab_mine(a, &slab))
		return;
	s = a.slabs[slab];
	if (!COUNT)
		finder_seen_init(seen);
	at = COUNT ? 0 : s.at - a.base;
	for (unsigned first = 0; first < s.count; first += 32) {
		unsigned k = first + threadIdx.x % 32, index = k, votes;
		bool listed = s.item_at != KEDGE_ALL_CHUNKS, vote = k < s.count;
		ulonglong2 d = {0, 0};

		if (vote && listed) {
			unsigned change = a.changes[s.item_at + k];

			index = change >> 1;
			vote = !(change & 1);
		}
		if (vote)
			d = listed ? finder_change(a, s, k) : a.digests[s.place + k];
		vote = vote && (!a.sparse || finder_is_sample(d));
		votes = __ballot_sync(ALL, vote);
		if (!COUNT) {
			unsigned before = finder_seen_before(seen, vote && !a.singly, k, d), rank = at + finder_rank(votes);

			if (vote)
				finder_probe_put(a, rank,
						 {d.x, d.y, s.item_at + k, finder_numbered(s, index),
						  listed ? finder_next_kind(a, s, index) : finder_last_kind(a, s, index),
						  k - before});
			if (vote && before != NOBODY)
				a.keys[rank] = a.blocks;
		}
		at += (unsigned)__popc(votes);
	}
	if (COUNT && threadIdx.x % 32 == 0)
		a.counts[slab] = at;
}

KEDGE_KERNEL(kedge_finder_count, struct kedge_finder_args)
{
	finder_probes_of_slab<true>(a);
}

KEDGE_KERNEL(kedge_finder_probes, struct kedge_finder_args)
{
	finder_probes_of_slab<false>(a);
}

/* Entries of the log, newest first. */
KEDGE_KERNEL(kedge_finder_pasts, struct kedge_finder_args)
{
	for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < a.count; i += gridDim.x * blockDim.x) {
		unsigned number = (unsigned)(((u64)a.log_first + a.log_room - 1 - a.base - i) % a.log_room);
		ulonglong2 d = make_ulonglong2(a.log[number].lo, a.log[number].hi);

		finder_probe_put(a, i, {d.x, d.y, 0, number, ENTRY_LOG, 0});
		if (!a.log[number].to || (a.sparse && !finder_is_sample(d)))
			a.keys[i] = a.blocks;
	}
}

/* All changes of the wave; those that need not be adopted belong to no block, nor do those with the same digest as one that is:
 * there is one entry for it. */
KEDGE_KERNEL(kedge_finder_adopted, struct kedge_finder_args)
{
	__shared__ struct finder_seen all_seen[FINDER_WARPS];
	struct finder_seen *seen = &all_seen[threadIdx.x / 32];
	unsigned slab;
	struct kedge_finder_slab s;

	if (!finder_slab_mine(a, &slab))
		return;
	s = a.slabs[slab];
	finder_seen_init(seen);
	for (unsigned first = 0; first < s.count; first += 32) {
		unsigned k = first + threadIdx.x % 32, at = s.item_at + k - a.base, kind = 0, index = 0;
		ulonglong2 d = {0, 0};
		bool adopts;

		if (k < s.count) {
			index = (unsigned)a.changes[s.item_at + k] >> 1;
			kind = a.origins[s.item_at + k] >> 30;
			d = finder_change(a, s, k);
		}
		adopts = s.number != KEDGE_NO_NUMBER && (kind == ORIGIN_LAST || kind == ORIGIN_LOG);
		adopts = finder_seen_before(seen, adopts && !a.singly, k, d) == NOBODY && adopts;
		if (k < s.count)
			finder_probe_put(a, at, {d.x, d.y, s.item_at + k, finder_numbered(s, index),
						 finder_next_kind(a, s, index), 0});
		if (k < s.count && !adopts)
			a.keys[at] = a.blocks;
	}
}

/* ---- what changes entries that are there, in any order */

/* The entry of a digest becomes that of entry TO of the log, or goes. Returns how many there are more. */
static __device__ int finder_replace(const finder_args &a, ulonglong2 d, unsigned kind, unsigned number, unsigned to)
{
	struct finder_spot s = finder_spot_of(a, d);
	unsigned old = finder_entry(a, s.mark, kind, number);
	struct finder_tags t = finder_tags_of(a, s);

	for (unsigned match = finder_matches(s, t); match; match &= match - 1) {
		unsigned i = (unsigned)__ffs((int)match) - 1;

		if (*finder_entry_at(a, s, i) != old)
			continue;
		if (to != NOBODY) {
			*finder_entry_at(a, s, i) = finder_entry(a, s.mark, ENTRY_LOG, to);
			return 0;
		}
		*finder_tag_at(a, s, i) = 0;
		return -1;
	}
	return 0;
}

KEDGE_KERNEL(kedge_finder_forget, struct kedge_finder_args)
{
	const unsigned stride = gridDim.x * blockDim.x;
	int entered = 0;

	for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < a.log_count; i += stride) {
		unsigned number = (unsigned)(((u64)a.log_first + i) % a.log_room);
		ulonglong2 d = make_ulonglong2(a.log[number].lo, a.log[number].hi);

		if (a.log[number].to && (!a.sparse || finder_is_sample(d)))
			entered += finder_replace(a, d, ENTRY_LOG, number, NOBODY);
	}
	finder_add_totals(a, 0, entered);
}

/* Chunks of the last version go to the log, as far as it has room, and their entries follow. */
KEDGE_KERNEL(kedge_finder_leave, struct kedge_finder_args)
{
	unsigned slab;
	struct kedge_finder_slab s;
	int entered = 0;

	if (!finder_slab_mine(a, &slab))
		return;
	s = a.slabs[slab];
	for (unsigned k = threadIdx.x % 32; k < s.count; k += 32) {
		unsigned index = s.item_at == KEDGE_ALL_CHUNKS ? k : (unsigned)a.changes[s.item_at + k] >> 1;
		unsigned rank = s.at + k, to = NOBODY;
		ulonglong2 d = a.digests[s.place + index];

		if (rank >= a.skip && a.log_room) {
			struct kedge_past past = {d.x, d.y, 0, a.since + (a.ages[s.place + index] & AGE_MAX), a.parent};

			to = (unsigned)(((u64)a.log_first + (rank - a.skip)) % a.log_room);
			a.log[to] = past;
		}
		if (s.number != KEDGE_NO_NUMBER && (!a.sparse || finder_is_sample(d)))
			entered += finder_replace(a, d, finder_last_kind(a, s, index), s.number + index, to);
	}
	finder_add_totals(a, 0, entered);
}

/* What changes have entered goes. */
KEDGE_KERNEL(kedge_finder_take_out, struct kedge_finder_args)
{
	unsigned slab;
	struct kedge_finder_slab s;
	int entered = 0;

	if (!finder_slab_mine(a, &slab))
		return;
	s = a.slabs[slab];
	for (unsigned k = threadIdx.x % 32; k < s.count && s.number != KEDGE_NO_NUMBER; k += 32) {
		unsigned change = a.changes[s.item_at + k], index = change >> 1;
		ulonglong2 d = finder_change(a, s, k);

		if (change & 1 || (a.origins && a.origins[s.item_at + k]) ||
		    (k < s.apart && finder_same(a.digests[s.place + index], d)))
			continue;
		entered += finder_replace(a, d, finder_next_kind(a, s, index), s.number + index, NOBODY);
	}
	finder_add_totals(a, 0, entered);
}

KEDGE_KERNEL(kedge_ages, struct kedge_ages_args)
{
	const u64 stride = (u64)gridDim.x * blockDim.x;

	for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < a.count; i += stride) {
		unsigned age = a.ages[i] & AGE_MAX;

		a.ages[i] = (unsigned char)((a.ages[i] & AGE_ODD) | (age > a.by ? age - a.by : 0));
	}
}
