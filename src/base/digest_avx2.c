/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * digest_avx2.c: the digest four pairs of words at a time; four chunks are folded together. Keys are read from where
 * they are: half a line of them never crosses a cache line.
 */
#include "base/digest_internal.h"

#if defined(__x86_64__) && defined(__GNUC__)

#include <immintrin.h>

#define TARGET __attribute__((target("avx2")))
#define INLINE __attribute__((target("avx2"), always_inline)) static inline

struct sums {
	__m256i p[DIGEST_PASSES];
};

INLINE __m256i load(const void *p)
{
	return _mm256_loadu_si256((const __m256i *)p);
}

INLINE __m256i add(__m256i a, __m256i b)
{
	return _mm256_add_epi64(a, b);
}

INLINE __m256i product(__m256i w, __m256i key)
{
	__m256i t = _mm256_add_epi32(w, key);

	return _mm256_mul_epu32(t, _mm256_srli_epi64(t, 32));
}

/* A chunk of HALVES half lines. */
INLINE struct sums chunk_sums(const struct digest_domain *d, const uint8_t *data, size_t halves)
{
	__m256i w = load(data);
	struct sums s;

	digest_prefetch(data);
#pragma GCC unroll 4
	for (size_t p = 0; p < DIGEST_PASSES; p++)
		s.p[p] = product(w, load(d->nh + p * DIGEST_LINE));
#pragma GCC unroll 8
	for (size_t i = 1; i < halves; i++) {
		w = load(data + i * 32);
		if (i % 2 == 0)
			digest_prefetch(data + i * 32);
#pragma GCC unroll 4
		for (size_t p = 0; p < DIGEST_PASSES; p++)
			s.p[p] = add(s.p[p], product(w, load(d->nh + i * 4 + p * DIGEST_LINE)));
	}
	return s;
}

TARGET static void avx2_nh(const struct digest_domain *d, const uint8_t *data, size_t lines, uint64_t sums[4])
{
	struct sums s = chunk_sums(d, data, 2 * lines);

#pragma GCC unroll 4
	for (int p = 0; p < DIGEST_PASSES; p++) {
		uint64_t lane[4];

		_mm256_storeu_si256((__m256i *)lane, s.p[p]);
		sums[p] = lane[0] + lane[1] + lane[2] + lane[3];
	}
}

/* Neighbouring lanes of both added up: those of U first, in both halves. */
INLINE __m256i pair(__m256i u, __m256i v)
{
	return add(_mm256_unpacklo_epi64(u, v), _mm256_unpackhi_epi64(u, v));
}

/* Halves added up: those of U first. */
INLINE __m256i fold(__m256i u, __m256i v)
{
	return add(_mm256_permute2x128_si256(u, v, 0x20), _mm256_permute2x128_si256(u, v, 0x31));
}

INLINE __m256i all(uint64_t v)
{
	return _mm256_set1_epi64x((long long)v);
}

/* The J-th 32 bits of the hash of (b0 b1 b2 b3), each in the lower half of its lane; they come in the upper half. */
INLINE __m256i fold_part(const struct digest_fold *f, int j, const __m256i b[4], uint64_t start)
{
	__m256i low = all(start), high = _mm256_mul_epu32(b[0], all(f->h[j][0]));

#pragma GCC unroll 4
	for (int i = 0; i < 4; i++)
		low = add(low, _mm256_mul_epu32(b[i], all(f->m[j][i])));
#pragma GCC unroll 4
	for (int i = 1; i < 4; i++)
		high = add(high, _mm256_mul_epu32(b[i], all(f->h[j][i])));
	return add(low, _mm256_slli_epi64(high, 32));
}

/* Upper halves of U and V, as lower and upper half. */
INLINE __m256i upper_halves(__m256i u, __m256i v)
{
	return _mm256_blend_epi32(_mm256_srli_epi64(u, 32), v, 0xaa);
}

/* digest_fold() of four chunks in order, stored as {lo, hi} pairs. */
INLINE void finish4(const struct digest_fold *f, const uint64_t start[4], const __m256i s[4], struct kedge__digest *out)
{
	const __m256i b[4] = {s[2], _mm256_srli_epi64(s[2], 32), s[3], _mm256_srli_epi64(s[3], 32)};
	__m256i part[4], a, c, low, high;

#pragma GCC unroll 4
	for (int j = 0; j < 4; j++)
		part[j] = fold_part(f, j, b, start[j]);
	a = _mm256_add_epi32(s[0], upper_halves(part[0], part[1]));
	c = _mm256_add_epi32(s[1], upper_halves(part[2], part[3]));
	low = _mm256_unpacklo_epi64(a, c);
	high = _mm256_unpackhi_epi64(a, c);
	_mm256_storeu_si256((__m256i *)out, _mm256_permute2x128_si256(low, high, 0x20));
	_mm256_storeu_si256((__m256i *)(out + 2), _mm256_permute2x128_si256(low, high, 0x31));
}

INLINE void length_starts(const struct digest_fold *f, uint64_t length, uint64_t start[4])
{
#pragma GCC unroll 4
	for (int j = 0; j < 4; j++)
		start[j] = digest_length(f, j, length);
}

/* Short chunks in a row, so that all stays in registers; longer ones in a loop, so that the code stays small. */
INLINE void gather(const struct digest_domain *d, const uint8_t *data, size_t halves, struct sums c[4])
{
	if (halves <= 4) {
#pragma GCC unroll 4
		for (size_t i = 0; i < 4; i++)
			c[i] = chunk_sums(d, data + i * halves * 32, halves);
		return;
	}
#pragma GCC unroll 1
	for (size_t i = 0; i < 4; i++)
		c[i] = chunk_sums(d, data + i * halves * 32, halves);
}

/* Chunks of HALVES half lines, four at a time. Returns how many were done. */
INLINE size_t chunks_of_halves(const struct digest_domain *d, uint64_t length, const uint8_t *data, size_t count,
			       size_t halves, struct kedge__digest *out)
{
	uint64_t start[4];
	size_t done = 0;

	length_starts(&d->fold, length, start);
	for (; done + 4 <= count; done += 4) {
		__m256i s[DIGEST_PASSES];
		struct sums c[4];

		gather(d, data, halves, c);
		data += 4 * halves * 32;
#pragma GCC unroll 4
		for (int p = 0; p < DIGEST_PASSES; p++)
			s[p] = fold(pair(c[0].p[p], c[1].p[p]), pair(c[2].p[p], c[3].p[p]));
		finish4(&d->fold, start, s, out + done);
	}
	return done;
}

#define CHUNKS(bytes)                                                                                                  \
	TARGET static size_t chunks_##bytes(const struct digest_domain *d, uint64_t length, const uint8_t *data,       \
					    size_t count, struct kedge__digest *out)                                   \
	{                                                                                                              \
		return chunks_of_halves(d, length, data, count, (bytes) / 32, out);                                    \
	}
CHUNKS(32)
CHUNKS(64)
CHUNKS(128)
CHUNKS(256)
CHUNKS(512)
CHUNKS(1024)

/* Two chunks in half a line; they come as 0 2 1 3. */
TARGET static size_t chunks_16(const struct digest_domain *d, uint64_t length, const uint8_t *data, size_t count,
			       struct kedge__digest *out)
{
	uint64_t start[4];
	size_t done = 0;

	length_starts(&d->fold, length, start);
	for (; done + 4 <= count; done += 4, data += 64) {
		__m256i u = load(data), v = load(data + 32), s[DIGEST_PASSES];

		digest_prefetch(data);
#pragma GCC unroll 4
		for (size_t p = 0; p < DIGEST_PASSES; p++) {
			__m256i key = _mm256_broadcastsi128_si256(
			    _mm_loadu_si128((const __m128i *)(const void *)(d->nh + p * DIGEST_LINE)));

			s[p] = _mm256_permute4x64_epi64(pair(product(u, key), product(v, key)), 0xd8);
		}
		finish4(&d->fold, start, s, out + done);
	}
	return done;
}

static const struct digest_kernel avx2_kernel;

static void avx2_chunks(const struct digest_domain *d, uint64_t length, const uint8_t *data, size_t count, size_t chunk,
			struct kedge__digest *out)
{
	static size_t (*const by_size[])(const struct digest_domain *, uint64_t, const uint8_t *, size_t,
					 struct kedge__digest *) = {chunks_16,  chunks_32,  chunks_64,  chunks_128,
								    chunks_256, chunks_512, chunks_1024};
	size_t done = by_size[__builtin_ctzll(chunk) - 4](d, length, data, count, out);

	kedge__digest_rest(&avx2_kernel, d, length, data + done * chunk, count - done, chunk, out + done);
}

TARGET static struct kedge__sum avx2_sum(const uint8_t *data, size_t blocks, const uint64_t *keys)
{
	__m256i s1 = _mm256_setzero_si256(), s2 = s1;
	uint64_t u[4], v[4];

	for (size_t i = 0; i < 2 * blocks; i++, data += 32, keys += 4) {
		__m256i w = load(data);

		s1 = add(s1, product(w, load(keys)));
		s2 = add(s2, product(w, load(keys + KEDGE_SUM_SHIFT)));
	}
	_mm256_storeu_si256((__m256i *)u, s1);
	_mm256_storeu_si256((__m256i *)v, s2);
	return (struct kedge__sum){u[0] + u[1] + u[2] + u[3], v[0] + v[1] + v[2] + v[3]};
}

static const struct digest_kernel avx2_kernel = {"avx2", avx2_nh, avx2_chunks, avx2_sum};

const struct digest_kernel *kedge__digest_avx2(void)
{
	return __builtin_cpu_supports("avx2") ? &avx2_kernel : NULL;
}

#else

const struct digest_kernel *kedge__digest_avx2(void)
{
	return NULL;
}

#endif
