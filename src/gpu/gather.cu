/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gather.cu: changed chunks that are stored go where the host wants them, which may be its own memory; and new digests to
 * their places. A block of threads works on a slab, and those without changes cost one load.
 */
#include "gpu/kernels.h"

#define GATHER_ALL  0xffffffffu
#define GATHER_TILE 256u /* changes at once: as many as threads */

/* Whether change K of the slab is stored. */
static __device__ __forceinline__ bool is_literal(const unsigned short *changes, const unsigned *origins, unsigned k)
{
	return !(changes[k] & 1) && !(origins && origins[k]);
}

/* In how many threads of the block before this one HAS is true; *TOTAL: in how many at all. */
static __device__ __forceinline__ unsigned rank_in_block(bool has, unsigned *total)
{
	__shared__ unsigned count[8];
	const unsigned lane = threadIdx.x % 32, votes = __ballot_sync(GATHER_ALL, has);
	unsigned rank = (unsigned)__popc(votes & ((1u << lane) - 1)), sum = 0;

	__syncthreads();
	if (lane == 0)
		count[threadIdx.x / 32] = (unsigned)__popc(votes);
	__syncthreads();
	for (unsigned w = 0; w < 8; w++) {
		rank += w < threadIdx.x / 32 ? count[w] : 0;
		sum += count[w];
	}
	*total = sum;
	return rank;
}

/* LEN bytes by GROUP lanes; TO is a multiple of 16. */
static __device__ __forceinline__ void copy_chunk(unsigned char *to, unsigned long long from, unsigned len, unsigned lane,
						  unsigned group)
{
	const unsigned whole = len / 16;

	for (unsigned i = lane; i < whole; i += group) {
		ulonglong2 w = from % 16 ? load<true>(from + 16 * i, from + len) : load<false>(from + 16 * i, from + len);

		__stcs((ulonglong2 *)(to + 16 * i), w);
	}
	for (unsigned i = whole * 16 + lane; i < len; i += group)
		to[i] = ((const unsigned char *)from)[i];
}

KEDGE_KERNEL(kedge_gather, struct kedge_gather_args)
{
	__shared__ unsigned short list[GATHER_TILE];
	const unsigned lanes = a.chunk / 16, group = lanes < 32 ? lanes : 32;
	const unsigned lane = threadIdx.x % group, mine = threadIdx.x / group, groups = blockDim.x / group;

	for (unsigned slab = blockIdx.x; slab < a.count; slab += gridDim.x) {
		const unsigned count = a.found[slab].changes;
		const struct kedge_slab s = a.slabs[slab];
		const struct kedge_slab_at at = a.at[slab];
		const unsigned short *changes = a.changes + at.changes;
		const unsigned *origins = a.origins ? a.origins + at.changes : 0;
		unsigned long long done = at.literals - a.first;

		if (!count || at.none)
			continue;
		for (unsigned from = 0; from < count; from += GATHER_TILE) {
			const unsigned k = from + threadIdx.x;
			const bool stored = k < count && is_literal(changes, origins, k);
			unsigned n;
			const unsigned rank = rank_in_block(stored, &n);

			if (stored)
				list[rank] = changes[k] >> 1;
			__syncthreads();
			for (unsigned i = mine; i < n; i += groups) {
				const unsigned begin = list[i] * a.chunk;
				const unsigned len = s.bytes - begin < a.chunk ? s.bytes - begin : a.chunk;

				copy_chunk(a.to + done + (unsigned long long)i * a.chunk, s.data + begin, len, lane, group);
			}
			done += (unsigned long long)n * a.chunk;
			__syncthreads();
		}
	}
}

/* How many are stored, when duplicates were found. */
KEDGE_KERNEL(kedge_count, struct kedge_gather_args)
{
	for (unsigned slab = blockIdx.x; slab < a.count; slab += gridDim.x) {
		const struct kedge_slab_at at = a.at[slab];
		const unsigned count = at.flat ? 0 : a.found[slab].changes;
		unsigned literals = 0;

		for (unsigned from = 0; from < count; from += blockDim.x) {
			const unsigned k = from + threadIdx.x;
			unsigned n;

			(void)rank_in_block(k < count && is_literal(a.changes + at.changes, a.origins + at.changes, k), &n);
			literals += n;
		}
		if (threadIdx.x)
			continue;
		a.found[slab].literals = literals;
		if (count && a.found[slab].tail == KEDGE_TAIL_STORED && a.origins[at.changes + count - 1])
			a.found[slab].tail = KEDGE_TAIL_FOUND;
	}
}

/* The bit that changes with the chunk, and the epoch since which it is what it is. */
static __device__ __forceinline__ unsigned char aged(unsigned char was, unsigned age)
{
	return (unsigned char)((~was & 0x80u) | age);
}

KEDGE_KERNEL(kedge_settle, struct kedge_settle_args)
{
	for (unsigned slab = blockIdx.x; slab < a.count; slab += gridDim.x) {
		const unsigned count = a.found[slab].changes, known = a.slabs[slab].known;
		const unsigned long long place = a.slabs[slab].place;
		const unsigned at = a.at[slab].changes;

		for (unsigned k = threadIdx.x; k < count; k += blockDim.x) {
			const unsigned c = a.changes[at + k] >> 1;

			if (c < known)
				a.digests[place + c] = a.fresh[at + k];
			if (a.ages && !a.at[slab].flat)
				a.ages[place + c] = aged(a.ages[place + c], a.age);
		}
		if (count && a.ages && a.at[slab].flat) /* of slabs without changes nobody says it */
			for (unsigned c = threadIdx.x; (unsigned long long)c * a.chunk < a.slabs[slab].bytes; c += blockDim.x)
				a.ages[place + c] = aged(a.ages[place + c], a.age);
	}
}
