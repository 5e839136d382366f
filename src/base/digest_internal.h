/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * digest_internal.h: what the variants of the digest share (docs/digests.md defines it). Only digest*.c include this.
 */
#ifndef KEDGE_BASE_DIGEST_INTERNAL_H
#define KEDGE_BASE_DIGEST_INTERNAL_H

#include "base/base.h"
#include "base/sum_keys.h"

#define DIGEST_PASSES 4
#define DIGEST_LINE   8    /* words; the keys of a pass are those of the pass before, shifted by this many */
#define DIGEST_BLOCK  1024 /* bytes; a longer chunk is the digest of the digests of its blocks */
#define DIGEST_BLOCKS (KEDGE__DIGEST_MAX / DIGEST_BLOCK)
#define DIGEST_WORDS  (DIGEST_BLOCK / 8 + (DIGEST_PASSES - 1) * DIGEST_LINE)
#define DIGEST_LEVELS 48

/* Keys of the fold of four sums into a digest; h: the upper halves of m, for variants that multiply 32 by 32 bits. */
struct digest_fold {
	uint64_t m[4][4], u[4], v[4], h[4][4];
};

/* Keys of the chunks, or of the digests of a long chunk's blocks. `nh` starts at a cache line. */
struct digest_domain {
	uint64_t nh[DIGEST_WORDS];
	struct digest_fold fold;
};

struct kedge__digest_key {
	struct digest_domain chunk, top;
	struct digest_fold node[DIGEST_LEVELS];
	uint8_t seed[KEDGE__DIGEST_SEED_BYTES];
	void *memory; /* the allocation that contains it */
};

/*
 * A variant. nh: the four sums over LINES whole 64-byte lines, from the first key on. chunks: digests of COUNT chunks of
 * CHUNK bytes, a power of two from 16 to DIGEST_BLOCK, in which the length counts as LENGTH. sum: both region sums of
 * BLOCKS whole 64-byte blocks of one page, of which the first word has the first of KEYS; not weighed.
 */
struct digest_kernel {
	const char *name;
	void (*nh)(const struct digest_domain *d, const uint8_t *data, size_t lines, uint64_t sums[4]);
	void (*chunks)(const struct digest_domain *d, uint64_t length, const uint8_t *data, size_t count, size_t chunk,
		       struct kedge__digest *out);
	struct kedge__sum (*sum)(const uint8_t *data, size_t blocks, const uint64_t *keys);
};

extern const uint64_t kedge__sum_keys[KEDGE_SUM_COUNT];
/* The sums of parts of page number PAGE of a region are added to its. */
void kedge__sum_weigh(struct kedge__sum *to, struct kedge__sum part, uint64_t page);

extern const struct digest_kernel kedge__digest_scalar;
const struct digest_kernel *kedge__digest_variant(void); /* that suits the machine */
const struct digest_kernel *kedge__digest_avx2(void);   /* NULL: not for this build or machine */
const struct digest_kernel *kedge__digest_avx512(void); /* NULL: not for this build or machine */
/* The same entry points for a given variant, for tests. */
struct kedge__digest kedge__digest_chunk_by(const struct digest_kernel *k, const struct kedge__digest_key *key,
					    const void *data, size_t bytes);
void kedge__digest_chunks_by(const struct digest_kernel *k, const struct kedge__digest_key *key, const void *data,
			     size_t bytes, size_t chunk, struct kedge__digest *out);
struct kedge__sum kedge__sum_by(const struct digest_kernel *k, const void *data, size_t bytes, uint64_t pos);
/* COUNT chunks, one by one: the remainder of a batch. */
void kedge__digest_rest(const struct digest_kernel *k, const struct digest_domain *d, uint64_t length,
			const uint8_t *data, size_t count, size_t chunk, struct kedge__digest *out);

#ifndef DIGEST_AHEAD
#define DIGEST_AHEAD 4096
#endif

/* The arithmetic fills the core's window, so it does not reach the next loads on its own. */
static inline void digest_prefetch(const uint8_t *data)
{
	__builtin_prefetch((const void *)((uintptr_t)data + DIGEST_AHEAD));
}

/* One pair of 32-bit words, in one pass. */
static inline uint64_t digest_product(uint64_t word, uint64_t key)
{
	return (uint64_t)((uint32_t)word + (uint32_t)key) * ((uint32_t)(word >> 32) + (uint32_t)(key >> 32));
}

/* The contribution of the length to the J-th part of the fold. */
static inline uint64_t digest_length(const struct digest_fold *f, int j, uint64_t length)
{
	return f->u[j] + f->v[j] * length;
}

/* s[0], s[1], each 32 bits of them plus a strongly universal hash of s[2], s[3] and the length. */
static inline struct kedge__digest digest_fold(const struct digest_fold *f, const uint64_t s[4], uint64_t length)
{
	uint32_t part[4];

	for (int j = 0; j < 4; j++) {
		uint64_t t = digest_length(f, j, length);

		t += f->m[j][0] * (uint32_t)s[2] + f->m[j][1] * (s[2] >> 32);
		t += f->m[j][2] * (uint32_t)s[3] + f->m[j][3] * (s[3] >> 32);
		part[j] = (uint32_t)(s[j / 2] >> 32 * (j % 2)) + (uint32_t)(t >> 32);
	}
	return (struct kedge__digest){part[0] | (uint64_t)part[1] << 32, part[2] | (uint64_t)part[3] << 32};
}

#endif
