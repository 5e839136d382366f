/* SPDX-License-Identifier: BSD-3-Clause */
/* The same with AVX2, 32 elements at a time; what is left over goes the portable way. */
#include "codec/shuffle.h"

#if defined(__x86_64__) && defined(__GNUC__)

#include <immintrin.h>

#define TARGET __attribute__((target("avx2")))
#define INLINE __attribute__((target("avx2"), always_inline)) static inline

INLINE __m256i load(const uint8_t *p)
{
	return _mm256_loadu_si256((const __m256i *)(const void *)p);
}

INLINE void store(uint8_t *p, __m256i v)
{
	_mm256_storeu_si256((__m256i *)(void *)p, v);
}

/* Four rows of four 8-byte words, transposed; its own inverse. */
INLINE void transpose(__m256i v[4])
{
	__m256i a = _mm256_unpacklo_epi64(v[0], v[1]), b = _mm256_unpackhi_epi64(v[0], v[1]);
	__m256i c = _mm256_unpacklo_epi64(v[2], v[3]), d = _mm256_unpackhi_epi64(v[2], v[3]);

	v[0] = _mm256_permute2x128_si256(a, c, 0x20);
	v[1] = _mm256_permute2x128_si256(b, d, 0x20);
	v[2] = _mm256_permute2x128_si256(a, c, 0x31);
	v[3] = _mm256_permute2x128_si256(b, d, 0x31);
}

INLINE __m256i gather_bytes(void) /* within 16 bytes: byte j of four elements side by side; its own inverse */
{
	return _mm256_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15, 0, 4, 8, 12, 1, 5, 9, 13, 2, 6,
				10, 14, 3, 7, 11, 15);
}

/* 32 elements of four bytes, eight a vector, to four planes. */
INLINE void planes_of(__m256i v[4])
{
	const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);

	for (int i = 0; i < 4; i++)
		v[i] = _mm256_permutevar8x32_epi32(_mm256_shuffle_epi8(v[i], gather_bytes()), order);
	transpose(v);
}

INLINE void elements_of(__m256i v[4])
{
	const __m256i order = _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7);

	transpose(v);
	for (int i = 0; i < 4; i++)
		v[i] = _mm256_shuffle_epi8(_mm256_permutevar8x32_epi32(v[i], order), gather_bytes());
}

TARGET static void split4(const uint8_t *in, uint8_t *out, size_t pitch)
{
	__m256i v[4];

	for (int i = 0; i < 4; i++)
		v[i] = load(in + i * 32);
	planes_of(v);
	for (size_t j = 0; j < 4; j++)
		store(out + j * pitch, v[j]);
}

TARGET static void join4(const uint8_t *in, size_t pitch, uint8_t *out)
{
	__m256i v[4];

	for (size_t j = 0; j < 4; j++)
		v[j] = load(in + j * pitch);
	elements_of(v);
	for (int i = 0; i < 4; i++)
		store(out + i * 32, v[i]);
}

/* Elements of eight bytes are two of four, the lower and the upper halves. */
TARGET static void split8(const uint8_t *in, uint8_t *out, size_t pitch)
{
	__m256i low[4], high[4];

	for (int i = 0; i < 4; i++) {
		__m256 a = _mm256_castsi256_ps(load(in + i * 64)), b = _mm256_castsi256_ps(load(in + i * 64 + 32));

		low[i] = _mm256_permute4x64_epi64(_mm256_castps_si256(_mm256_shuffle_ps(a, b, 0x88)), 0xd8);
		high[i] = _mm256_permute4x64_epi64(_mm256_castps_si256(_mm256_shuffle_ps(a, b, 0xdd)), 0xd8);
	}
	planes_of(low);
	planes_of(high);
	for (size_t j = 0; j < 4; j++) {
		store(out + j * pitch, low[j]);
		store(out + (j + 4) * pitch, high[j]);
	}
}

TARGET static void join8(const uint8_t *in, size_t pitch, uint8_t *out)
{
	__m256i low[4], high[4];

	for (size_t j = 0; j < 4; j++) {
		low[j] = load(in + j * pitch);
		high[j] = load(in + (j + 4) * pitch);
	}
	elements_of(low);
	elements_of(high);
	for (int i = 0; i < 4; i++) {
		__m256i l = _mm256_permute4x64_epi64(low[i], 0xd8), h = _mm256_permute4x64_epi64(high[i], 0xd8);

		store(out + i * 64, _mm256_unpacklo_epi32(l, h));
		store(out + i * 64 + 32, _mm256_unpackhi_epi32(l, h));
	}
}

TARGET static void split(const uint8_t *in, size_t n, unsigned width, uint8_t *out, size_t pitch)
{
	size_t i = 0;

	if (width == 4)
		for (; i + 32 <= n; i += 32)
			split4(in + i * 4, out + i, pitch);
	if (width == 8)
		for (; i + 32 <= n; i += 32)
			split8(in + i * 8, out + i, pitch);
	kedge__shuffle_portable.split(in + i * width, n - i, width, out + i, pitch);
}

TARGET static void join(const uint8_t *in, size_t pitch, size_t n, unsigned width, uint8_t *out)
{
	size_t i = 0;

	if (width == 4)
		for (; i + 32 <= n; i += 32)
			join4(in + i, pitch, out + i * 4);
	if (width == 8)
		for (; i + 32 <= n; i += 32)
			join8(in + i, pitch, out + i * 8);
	kedge__shuffle_portable.join(in + i, pitch, n - i, width, out + i * width);
}

TARGET static void bits_split(const uint8_t *in, size_t n, uint8_t *out, size_t pitch)
{
	size_t i = 0;

	for (; i + 32 <= n; i += 32) {
		__m256i v = load(in + i);

		for (size_t b = 8; b-- > 0;) {
			kedge__put32(out + b * pitch + i / 8, (uint32_t)_mm256_movemask_epi8(v));
			v = _mm256_add_epi8(v, v);
		}
	}
	kedge__shuffle_portable.bits_split(in + i, n - i, out + i / 8, pitch);
}

/* Byte i of the result is made of bit i % 8 of byte i / 8 of each plane: the byte is spread out, its bit picked. */
TARGET static void bits_join(const uint8_t *in, size_t pitch, size_t n, uint8_t *out)
{
	const __m256i spread = _mm256_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2,
						3, 3, 3, 3, 3, 3, 3, 3);
	const __m256i pick = _mm256_set1_epi64x((long long)UINT64_C(0x8040201008040201));
	size_t i = 0;

	for (; i + 32 <= n; i += 32) {
		__m256i v = _mm256_setzero_si256();

		for (size_t b = 0; b < 8; b++) {
			__m256i w = _mm256_set1_epi32((int)kedge__get32(in + b * pitch + i / 8));

			w = _mm256_and_si256(_mm256_shuffle_epi8(w, spread), pick);
			w = _mm256_and_si256(_mm256_cmpeq_epi8(w, pick), _mm256_set1_epi8((char)(1 << b)));
			v = _mm256_or_si256(v, w);
		}
		store(out + i, v);
	}
	kedge__shuffle_portable.bits_join(in + i / 8, pitch, n - i, out + i);
}

static const struct kedge__shuffle_kernel avx2 = {"avx2", split, join, bits_split, bits_join};

const struct kedge__shuffle_kernel *kedge__shuffle_avx2(void)
{
	return __builtin_cpu_supports("avx2") ? &avx2 : NULL;
}

#else

const struct kedge__shuffle_kernel *kedge__shuffle_avx2(void)
{
	return NULL;
}

#endif
