/*
 * digest_internal.h: what the variants of the digest share (docs/digests.md defines it). Only digest*.c include this.
 */
#ifndef KEDGE_BASE_DIGEST_INTERNAL_H
#define KEDGE_BASE_DIGEST_INTERNAL_H

#include "base/base.h"

#define DIGEST_STEP      UINT64_C(0x9E3779B97F4A7C15) /* distance of the keys of neighbouring words */
#define DIGEST_KEY_CHUNK UINT64_C(0x6B656467652D6331)
#define DIGEST_KEY_NODE  UINT64_C(0xC2B2AE3D27D4EB4F)
#define DIGEST_KEY_SUM   UINT64_C(0x27D4EB2F165667C5)
#define DIGEST_P1        UINT64_C(0xFF51AFD7ED558CCD)
#define DIGEST_P2        UINT64_C(0xD6E8FEB86659FD93)
#define DIGEST_F1        UINT64_C(0xBF58476D1CE4E5B9)
#define DIGEST_F2        UINT64_C(0x94D049BB133111EB)

/* The two sums before they are finished. */
struct digest_sums {
	uint64_t a, b;
};

/*
 * A variant. block: the sums over BLOCKS whole 64-byte blocks, the first of which starts at word WORD of its chunk.
 * chunks: digests of COUNT whole chunks of CHUNK bytes (a power of two, at least 32). sum: the region sum of BLOCKS
 * whole 64-byte blocks, the first at word WORD of the region.
 */
struct digest_kernel {
	const char *name;
	struct digest_sums (*block)(const uint8_t *data, size_t blocks, uint64_t word, uint64_t key);
	void (*chunks)(const uint8_t *data, size_t count, size_t chunk, struct kedge__digest *out);
	struct kedge__sum (*sum)(const uint8_t *data, size_t blocks, uint64_t word);
};

extern const struct digest_kernel kedge__digest_scalar;
const struct digest_kernel *kedge__digest_avx2(void);   /* NULL: not for this build or machine */
const struct digest_kernel *kedge__digest_avx512(void); /* NULL: not for this build or machine */
/* The same entry points on a variant of one's choice, for tests. */
struct kedge__digest kedge__digest_chunk_by(const struct digest_kernel *k, const void *data, size_t bytes);
void kedge__digest_chunks_by(const struct digest_kernel *k, const void *data, size_t bytes, size_t chunk,
			     struct kedge__digest *out);
struct kedge__sum kedge__sum_by(const struct digest_kernel *k, const void *data, size_t bytes, uint64_t pos);

/* The mixing fills the window of the core, so that it does not run ahead to the next loads by itself. */
static inline void digest_prefetch(const uint8_t *data)
{
	__builtin_prefetch((const void *)((uintptr_t)data + 4096));
}

static inline uint64_t digest_rotl(uint64_t v, int n)
{
	return v << n | v >> (64 - n);
}

/* A bijection of the word for each key: a change of one word alone never goes unseen in its lane. */
static inline uint64_t digest_mix(uint64_t word, uint64_t key)
{
	uint64_t x = (word ^ key) * DIGEST_P1;

	x ^= x >> 32;
	x *= DIGEST_P2;
	return x ^ x >> 29;
}

static inline uint64_t digest_final(uint64_t v)
{
	v ^= v >> 30;
	v *= DIGEST_F1;
	v ^= v >> 27;
	v *= DIGEST_F2;
	return v ^ v >> 31;
}

/* A bijection of (a, b) for each length; both halves depend on both sums. */
static inline struct kedge__digest digest_finish(struct digest_sums s, uint64_t bytes)
{
	uint64_t a = s.a ^ bytes * DIGEST_STEP;
	uint64_t b = digest_final(s.b + a);

	a = digest_final(a + b);
	return (struct kedge__digest){a, b + a};
}

#endif
