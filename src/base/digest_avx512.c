/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * digest_avx512.c: the digest eight pairs of words at a time. The keys of a pass are those of the pass before, a line
 * further on: a line of data meets four lines of keys, three of which the next line needs again. Eight chunks are
 * folded together. Sums are order-free: lanes are added up in whatever order the shuffles bring.
 */
#include "base/digest_internal.h"

#if defined(__x86_64__) && defined(__GNUC__)

#include <immintrin.h>

#define TARGET __attribute__((target("avx512f,avx512dq")))
#define INLINE __attribute__((target("avx512f,avx512dq"), always_inline)) static inline

struct sums {
	__m512i p[DIGEST_PASSES];
};

INLINE __m512i product(__m512i w, __m512i key)
{
	__m512i t = _mm512_add_epi32(w, key);

	return _mm512_mul_epu32(t, _mm512_srli_epi64(t, 32));
}

INLINE __m512i key_line(const struct digest_domain *d, size_t line)
{
	return _mm512_loadu_si512(d->nh + line * DIGEST_LINE);
}

INLINE __m512i add(__m512i a, __m512i b)
{
	return _mm512_add_epi64(a, b);
}

/* LINES lines; the first four lines of keys are in registers from chunk to chunk, if LINES is a small constant. */
INLINE struct sums chunk_sums(const struct digest_domain *d, const uint8_t *data, size_t lines)
{
	__m512i k0 = key_line(d, 0), k1 = key_line(d, 1), k2 = key_line(d, 2), k3 = key_line(d, 3);
	__m512i w = _mm512_loadu_si512(data);
	struct sums s = {{product(w, k0), product(w, k1), product(w, k2), product(w, k3)}};

	digest_prefetch(data);
#pragma GCC unroll 4
	for (size_t i = 1; i < lines; i++) {
		w = _mm512_loadu_si512(data + i * 64);
		digest_prefetch(data + i * 64);
		k0 = k1, k1 = k2, k2 = k3, k3 = key_line(d, i + 3);
		s.p[0] = add(s.p[0], product(w, k0));
		s.p[1] = add(s.p[1], product(w, k1));
		s.p[2] = add(s.p[2], product(w, k2));
		s.p[3] = add(s.p[3], product(w, k3));
	}
	return s;
}

/* The lanes of V added up; the intrinsic for it adds signed numbers, which may not wrap. */
INLINE uint64_t total(__m512i v)
{
	uint64_t lane[8], sum = 0;

	_mm512_storeu_si512(lane, v);
	for (int i = 0; i < 8; i++)
		sum += lane[i];
	return sum;
}

TARGET static void avx512_nh(const struct digest_domain *d, const uint8_t *data, size_t lines, uint64_t sums[4])
{
	struct sums s = chunk_sums(d, data, lines);

#pragma GCC unroll 4
	for (int p = 0; p < DIGEST_PASSES; p++)
		sums[p] = total(s.p[p]);
}

/* Neighbouring lanes of both added up: those of U first, in every 128 bits. */
INLINE __m512i pair(__m512i u, __m512i v)
{
	return add(_mm512_unpacklo_epi64(u, v), _mm512_unpackhi_epi64(u, v));
}

/* Neighbouring 128-bit parts of both added up: those of U first. */
INLINE __m512i fold(__m512i u, __m512i v)
{
	return add(_mm512_shuffle_i64x2(u, v, 0x88), _mm512_shuffle_i64x2(u, v, 0xdd));
}

INLINE __m512i all(uint64_t v)
{
	return _mm512_set1_epi64((long long)v);
}

/* The J-th 32 bits of the hash of (b0 b1 b2 b3); they come in the upper half. */
INLINE __m512i fold_part(const struct digest_fold *f, int j, const __m512i b[4], uint64_t start)
{
	__m512i t = all(start);

#pragma GCC unroll 4
	for (int i = 0; i < 4; i++)
		t = add(t, _mm512_mullo_epi64(b[i], all(f->m[j][i])));
	return t;
}

/* Upper halves of U and V, as lower and upper half. */
INLINE __m512i upper_halves(__m512i u, __m512i v)
{
	return _mm512_mask_shuffle_epi32(v, 0x5555, u, (_MM_PERM_ENUM)0xf5);
}

/* digest_fold() of eight chunks, stored as {lo, hi} pairs: LOW and HIGH pick those of the first and of the last four.
 */
INLINE void finish_in_order(const struct digest_fold *f, const uint64_t start[4], const __m512i s[4], __m512i low,
			    __m512i high, struct kedge__digest *out)
{
	const __m512i b[4] = {_mm512_maskz_mov_epi32(0x5555, s[2]), _mm512_srli_epi64(s[2], 32),
			      _mm512_maskz_mov_epi32(0x5555, s[3]), _mm512_srli_epi64(s[3], 32)};
	__m512i part[4], a, c;

#pragma GCC unroll 4
	for (int j = 0; j < 4; j++)
		part[j] = fold_part(f, j, b, start[j]);
	a = _mm512_add_epi32(s[0], upper_halves(part[0], part[1]));
	c = _mm512_add_epi32(s[1], upper_halves(part[2], part[3]));
	_mm512_storeu_si512(out, _mm512_permutex2var_epi64(a, low, c));
	_mm512_storeu_si512(out + 4, _mm512_permutex2var_epi64(a, high, c));
}

INLINE void finish8(const struct digest_fold *f, const uint64_t start[4], const __m512i s[4], struct kedge__digest *out)
{
	finish_in_order(f, start, s, _mm512_set_epi64(11, 3, 10, 2, 9, 1, 8, 0),
			_mm512_set_epi64(15, 7, 14, 6, 13, 5, 12, 4), out);
}

INLINE void length_starts(const struct digest_fold *f, uint64_t length, uint64_t start[4])
{
#pragma GCC unroll 4
	for (int j = 0; j < 4; j++)
		start[j] = digest_length(f, j, length);
}

/* The sums of eight chunks, each in the lane of its number. */
INLINE void collate(const struct sums c[8], __m512i s[DIGEST_PASSES])
{
#pragma GCC unroll 4
	for (int p = 0; p < DIGEST_PASSES; p++) {
		__m512i u = fold(pair(c[0].p[p], c[1].p[p]), pair(c[2].p[p], c[3].p[p]));
		__m512i v = fold(pair(c[4].p[p], c[5].p[p]), pair(c[6].p[p], c[7].p[p]));

		s[p] = fold(u, v);
	}
}

/* Short chunks in a row, so that all stays in registers; longer ones in a loop, so that the code stays small. */
INLINE void gather(const struct digest_domain *d, const uint8_t *data, size_t lines, struct sums c[8])
{
	if (lines <= 2) {
#pragma GCC unroll 8
		for (size_t i = 0; i < 8; i++)
			c[i] = chunk_sums(d, data + i * lines * 64, lines);
		return;
	}
#pragma GCC unroll 1
	for (size_t i = 0; i < 8; i++)
		c[i] = chunk_sums(d, data + i * lines * 64, lines);
}

/* Chunks of LINES lines, eight at a time. Returns how many were done. */
INLINE size_t chunks_of_lines(const struct digest_domain *d, uint64_t length, const uint8_t *data, size_t count,
			      size_t lines, struct kedge__digest *out)
{
	uint64_t start[4];
	size_t done = 0;

	length_starts(&d->fold, length, start);
	for (; done + 8 <= count; done += 8) {
		__m512i s[DIGEST_PASSES];
		struct sums c[8];

		gather(d, data, lines, c);
		data += 8 * lines * 64;
		collate(c, s);
		finish8(&d->fold, start, s, out + done);
	}
	return done;
}

#define CHUNKS(bytes)                                                                                                  \
	TARGET static size_t chunks_##bytes(const struct digest_domain *d, uint64_t length, const uint8_t *data,       \
					    size_t count, struct kedge__digest *out)                                   \
	{                                                                                                              \
		return chunks_of_lines(d, length, data, count, (bytes) / 64, out);                                     \
	}
CHUNKS(64)
CHUNKS(128)
CHUNKS(256)
CHUNKS(512)
CHUNKS(1024)

/* Short chunks are turned round first: word I of eight of them, W[I], meets the same keys. */
INLINE void words_sums(const struct digest_domain *d, const __m512i *w, size_t words, __m512i s[DIGEST_PASSES])
{
#pragma GCC unroll 4
	for (size_t p = 0; p < DIGEST_PASSES; p++) {
		s[p] = product(w[0], all(d->nh[p * DIGEST_LINE]));
#pragma GCC unroll 4
		for (size_t i = 1; i < words; i++)
			s[p] = add(s[p], product(w[i], all(d->nh[i + p * DIGEST_LINE])));
	}
}

/* Two chunks in a line; the shuffles bring them as 0 2 1 3 4 6 5 7. */
TARGET static size_t chunks_32(const struct digest_domain *d, uint64_t length, const uint8_t *data, size_t count,
			       struct kedge__digest *out)
{
	const __m512i low = _mm512_set_epi64(11, 3, 9, 1, 10, 2, 8, 0);
	const __m512i high = _mm512_set_epi64(15, 7, 13, 5, 14, 6, 12, 4);
	uint64_t start[4];
	size_t done = 0;

	length_starts(&d->fold, length, start);
	for (; done + 8 <= count; done += 8, data += 256) {
		__m512i a = _mm512_loadu_si512(data), b = _mm512_loadu_si512(data + 64);
		__m512i c = _mm512_loadu_si512(data + 128), e = _mm512_loadu_si512(data + 192);
		__m512i even = _mm512_unpacklo_epi64(a, b), odd = _mm512_unpackhi_epi64(a, b);
		__m512i more_even = _mm512_unpacklo_epi64(c, e), more_odd = _mm512_unpackhi_epi64(c, e);
		const __m512i w[4] = {
		    _mm512_shuffle_i64x2(even, more_even, 0x88), _mm512_shuffle_i64x2(odd, more_odd, 0x88),
		    _mm512_shuffle_i64x2(even, more_even, 0xdd), _mm512_shuffle_i64x2(odd, more_odd, 0xdd)};
		__m512i s[DIGEST_PASSES];

#pragma GCC unroll 4
		for (int i = 0; i < 4; i++)
			digest_prefetch(data + 64 * i);
		words_sums(d, w, 4, s);
		finish_in_order(&d->fold, start, s, low, high, out + done);
	}
	return done;
}

/* Four chunks in a line; they come as 0 4 1 5 2 6 3 7. */
TARGET static size_t chunks_16(const struct digest_domain *d, uint64_t length, const uint8_t *data, size_t count,
			       struct kedge__digest *out)
{
	const __m512i low = _mm512_set_epi64(14, 6, 12, 4, 10, 2, 8, 0);
	const __m512i high = _mm512_set_epi64(15, 7, 13, 5, 11, 3, 9, 1);
	uint64_t start[4];
	size_t done = 0;

	length_starts(&d->fold, length, start);
	for (; done + 8 <= count; done += 8, data += 128) {
		__m512i a = _mm512_loadu_si512(data), b = _mm512_loadu_si512(data + 64), s[DIGEST_PASSES];
		const __m512i w[2] = {_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b)};

		digest_prefetch(data);
		digest_prefetch(data + 64);
		words_sums(d, w, 2, s);
		finish_in_order(&d->fold, start, s, low, high, out + done);
	}
	return done;
}

static const struct digest_kernel avx512_kernel;

static void avx512_chunks(const struct digest_domain *d, uint64_t length, const uint8_t *data, size_t count,
			  size_t chunk, struct kedge__digest *out)
{
	static size_t (*const by_size[])(const struct digest_domain *, uint64_t, const uint8_t *, size_t,
					 struct kedge__digest *) = {chunks_16,  chunks_32,  chunks_64,  chunks_128,
								    chunks_256, chunks_512, chunks_1024};
	size_t done = by_size[__builtin_ctzll(chunk) - 4](d, length, data, count, out);

	kedge__digest_rest(&avx512_kernel, d, length, data + done * chunk, count - done, chunk, out + done);
}

TARGET static struct kedge__sum avx512_sum(const uint8_t *data, size_t blocks, const uint64_t *keys)
{
	__m512i s1 = _mm512_setzero_si512(), s2 = s1;

	for (size_t i = 0; i < blocks; i++, data += 64, keys += 8) {
		__m512i w = _mm512_loadu_si512(data);

		s1 = add(s1, product(w, _mm512_loadu_si512(keys)));
		s2 = add(s2, product(w, _mm512_loadu_si512(keys + KEDGE_SUM_SHIFT)));
	}
	return (struct kedge__sum){total(s1), total(s2)};
}

static const struct digest_kernel avx512_kernel = {"avx512", avx512_nh, avx512_chunks, avx512_sum};

const struct digest_kernel *kedge__digest_avx512(void)
{
	return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") ? &avx512_kernel : NULL;
}

#else

const struct digest_kernel *kedge__digest_avx512(void)
{
	return NULL;
}

#endif
