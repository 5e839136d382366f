/*
 * digest_avx2.c: the digest four words at a time; 64-bit products are made of 32-bit ones. Four chunks are finished
 * together.
 */
#include "base/digest_internal.h"

#if defined(__x86_64__) && defined(__GNUC__)

#include <immintrin.h>

#define TARGET __attribute__((target("avx2")))
#define INLINE __attribute__((target("avx2"), always_inline)) static inline

INLINE __m256i keys_at(uint64_t key)
{
	return _mm256_set_epi64x((long long)(key + 3 * DIGEST_STEP), (long long)(key + 2 * DIGEST_STEP),
				 (long long)(key + DIGEST_STEP), (long long)key);
}

/* v * factor mod 2^64: low x low, plus both mixed products in the upper half. */
INLINE __m256i multiply(__m256i v, uint64_t factor)
{
	const __m256i f = _mm256_set1_epi64x((long long)factor);
	const __m256i f_high = _mm256_set1_epi64x((long long)(factor >> 32));
	__m256i mixed = _mm256_add_epi64(_mm256_mul_epu32(_mm256_srli_epi64(v, 32), f), _mm256_mul_epu32(v, f_high));

	return _mm256_add_epi64(_mm256_mul_epu32(v, f), _mm256_slli_epi64(mixed, 32));
}

INLINE __m256i mix(__m256i w, __m256i key)
{
	__m256i x = multiply(_mm256_xor_si256(w, key), DIGEST_P1);

	x = _mm256_xor_si256(x, _mm256_srli_epi64(x, 32));
	x = multiply(x, DIGEST_P2);
	return _mm256_xor_si256(x, _mm256_srli_epi64(x, 29));
}

INLINE __m256i final(__m256i v)
{
	v = _mm256_xor_si256(v, _mm256_srli_epi64(v, 30));
	v = multiply(v, DIGEST_F1);
	v = _mm256_xor_si256(v, _mm256_srli_epi64(v, 27));
	v = multiply(v, DIGEST_F2);
	return _mm256_xor_si256(v, _mm256_srli_epi64(v, 31));
}

/* Even lanes rotated by 27, odd ones by 32. */
INLINE __m256i rotate(__m256i x)
{
	__m256i even = _mm256_or_si256(_mm256_slli_epi64(x, 27), _mm256_srli_epi64(x, 37));

	return _mm256_blend_epi32(even, _mm256_shuffle_epi32(x, 0xb1), 0xcc);
}

/* See digest_avx512.c: a = x(even) + r(odd), b = x(odd) + 3 r(even). */
struct lanes {
	__m256i x, r;
};

INLINE struct lanes chunk_lanes(const uint8_t *data, size_t quads, __m256i key)
{
	const __m256i step = _mm256_set1_epi64x((long long)(4 * DIGEST_STEP));
	struct lanes l = {_mm256_setzero_si256(), _mm256_setzero_si256()};

	for (size_t i = 0; i < quads; i++, data += 32) {
		__m256i x = mix(_mm256_loadu_si256((const __m256i *)data), key);

		digest_prefetch(data);
		l.x = _mm256_add_epi64(l.x, x);
		l.r = _mm256_add_epi64(l.r, rotate(x));
		key = _mm256_add_epi64(key, step);
	}
	return l;
}

TARGET static struct digest_sums avx2_block(const uint8_t *data, size_t blocks, uint64_t word, uint64_t key)
{
	struct lanes l = chunk_lanes(data, 2 * blocks, keys_at(key + word * DIGEST_STEP));
	uint64_t x[4], r[4];

	_mm256_storeu_si256((__m256i *)x, l.x);
	_mm256_storeu_si256((__m256i *)r, l.r);
	return (struct digest_sums){x[0] + x[2] + r[1] + r[3], x[1] + x[3] + 3 * (r[0] + r[2])};
}

/* Two chunks' pairs of lanes: {0 1 | 0 1} of the first and second pair, added up when both halves are folded. */
INLINE __m256i fold(__m256i u, __m256i v)
{
	return _mm256_add_epi64(_mm256_permute2x128_si256(u, v, 0x20), _mm256_permute2x128_si256(u, v, 0x31));
}

TARGET static void finish4(const struct lanes l[4], uint64_t bytes, struct kedge__digest *out)
{
	__m256i s[2], t[2], a, b, low, high;

	for (int i = 0; i < 2; i++) {
		const struct lanes *u = &l[2 * i], *v = &l[2 * i + 1];
		__m256i r = _mm256_unpacklo_epi64(u->r, v->r);

		s[i] = _mm256_add_epi64(_mm256_unpacklo_epi64(u->x, v->x), _mm256_unpackhi_epi64(u->r, v->r));
		r = _mm256_add_epi64(r, _mm256_add_epi64(r, r));
		t[i] = _mm256_add_epi64(_mm256_unpackhi_epi64(u->x, v->x), r);
	}
	a = _mm256_xor_si256(fold(s[0], s[1]), _mm256_set1_epi64x((long long)(bytes * DIGEST_STEP)));
	b = final(_mm256_add_epi64(fold(t[0], t[1]), a));
	a = final(_mm256_add_epi64(a, b));
	b = _mm256_add_epi64(b, a);
	low = _mm256_unpacklo_epi64(a, b);
	high = _mm256_unpackhi_epi64(a, b);
	_mm256_storeu_si256((__m256i *)out, _mm256_permute2x128_si256(low, high, 0x20));
	_mm256_storeu_si256((__m256i *)(out + 2), _mm256_permute2x128_si256(low, high, 0x31));
}

TARGET static void avx2_chunks(const uint8_t *data, size_t count, size_t chunk, struct kedge__digest *out)
{
	const __m256i key = keys_at(DIGEST_KEY_CHUNK);
	struct kedge__digest last[4];
	struct lanes l[4];

	if (chunk < 32) {
		kedge__digest_scalar.chunks(data, count, chunk, out);
		return;
	}
	for (; count >= 4; count -= 4, out += 4, data += 4 * chunk) {
		for (int i = 0; i < 4; i++)
			l[i] = chunk_lanes(data + (size_t)i * chunk, chunk / 32, key);
		finish4(l, chunk, out);
	}
	if (!count)
		return;
	for (size_t i = 0; i < 4; i++)
		l[i] = chunk_lanes(data + i * chunk, i < count ? chunk / 32 : 0, key);
	finish4(l, chunk, last);
	memcpy(out, last, count * sizeof(*out));
}

TARGET static struct kedge__sum avx2_sum(const uint8_t *data, size_t blocks, uint64_t word)
{
	const __m256i step = _mm256_set1_epi64x((long long)(4 * DIGEST_STEP));
	__m256i key = keys_at(DIGEST_KEY_SUM + word * DIGEST_STEP);
	__m256i s1 = _mm256_setzero_si256(), s2 = s1;
	uint64_t u[4], v[4];

	for (size_t i = 0; i < 2 * blocks; i++, data += 32) {
		__m256i t = _mm256_xor_si256(_mm256_loadu_si256((const __m256i *)data), key);

		s1 = _mm256_add_epi64(s1, _mm256_mul_epu32(t, _mm256_srli_epi64(t, 32)));
		s2 = _mm256_add_epi64(s2, t);
		key = _mm256_add_epi64(key, step);
	}
	_mm256_storeu_si256((__m256i *)u, s1);
	_mm256_storeu_si256((__m256i *)v, s2);
	return (struct kedge__sum){u[0] + u[1] + u[2] + u[3], v[0] + v[1] + v[2] + v[3]};
}

static const struct digest_kernel avx2_kernel = {"avx2", avx2_block, avx2_chunks, avx2_sum};

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
