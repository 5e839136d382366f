/*
 * digest_avx512.c: the digest eight words at a time. Eight chunks are finished together, so that short chunks are not
 * paid for in scalar code. Sums are order-free: lanes are added up in whatever order the shuffles bring.
 */
#include "base/digest_internal.h"

#if defined(__x86_64__) && defined(__GNUC__)

#include <immintrin.h>

#define TARGET __attribute__((target("avx512f,avx512dq")))
#define INLINE __attribute__((target("avx512f,avx512dq"), always_inline)) static inline

INLINE __m512i keys_at(uint64_t key)
{
	__m512i lane = _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0);

	lane = _mm512_mullo_epi64(lane, _mm512_set1_epi64((long long)DIGEST_STEP));
	return _mm512_add_epi64(lane, _mm512_set1_epi64((long long)key));
}

INLINE __m512i mix(__m512i w, __m512i key)
{
	__m512i x = _mm512_mullo_epi64(_mm512_xor_si512(w, key), _mm512_set1_epi64((long long)DIGEST_P1));

	x = _mm512_xor_si512(x, _mm512_srli_epi64(x, 32));
	x = _mm512_mullo_epi64(x, _mm512_set1_epi64((long long)DIGEST_P2));
	return _mm512_xor_si512(x, _mm512_srli_epi64(x, 29));
}

INLINE __m512i final(__m512i v)
{
	v = _mm512_xor_si512(v, _mm512_srli_epi64(v, 30));
	v = _mm512_mullo_epi64(v, _mm512_set1_epi64((long long)DIGEST_F1));
	v = _mm512_xor_si512(v, _mm512_srli_epi64(v, 27));
	v = _mm512_mullo_epi64(v, _mm512_set1_epi64((long long)DIGEST_F2));
	return _mm512_xor_si512(v, _mm512_srli_epi64(v, 31));
}

INLINE __m512i triple(__m512i v)
{
	return _mm512_add_epi64(v, _mm512_add_epi64(v, v));
}

/* digest_finish() of eight chunks in order, stored as {lo, hi} pairs. */
INLINE void finish8(__m512i a, __m512i b, uint64_t bytes, struct kedge__digest *out)
{
	const __m512i low = _mm512_set_epi64(11, 3, 10, 2, 9, 1, 8, 0);
	const __m512i high = _mm512_set_epi64(15, 7, 14, 6, 13, 5, 12, 4);

	a = _mm512_xor_si512(a, _mm512_set1_epi64((long long)(bytes * DIGEST_STEP)));
	b = final(_mm512_add_epi64(b, a));
	a = final(_mm512_add_epi64(a, b));
	b = _mm512_add_epi64(b, a);
	_mm512_storeu_si512(out, _mm512_permutex2var_epi64(a, low, b));
	_mm512_storeu_si512(out + 4, _mm512_permutex2var_epi64(a, high, b));
}

/* Neighbouring 128-bit parts of both added up: those of U first. */
INLINE __m512i fold(__m512i u, __m512i v)
{
	return _mm512_add_epi64(_mm512_shuffle_i64x2(u, v, 0x88), _mm512_shuffle_i64x2(u, v, 0xdd));
}

/*
 * What a chunk adds up to: `x` the mixed words, `r` the same rotated, by 27 where the word is even, by 32 where odd.
 * Then a = x(even) + r(odd) and b = x(odd) + 3 r(even).
 */
struct lanes {
	__m512i x, r;
};

INLINE void lanes_add(struct lanes *l, __m512i x)
{
	const __m512i turn = _mm512_set_epi64(32, 27, 32, 27, 32, 27, 32, 27);

	l->x = _mm512_add_epi64(l->x, x);
	l->r = _mm512_add_epi64(l->r, _mm512_rolv_epi64(x, turn));
}

INLINE struct lanes chunk_lanes(const uint8_t *data, size_t blocks, __m512i key)
{
	const __m512i step = _mm512_set1_epi64((long long)(8 * DIGEST_STEP));
	struct lanes l = {_mm512_setzero_si512(), _mm512_setzero_si512()};

	for (size_t i = 0; i < blocks; i++, data += 64) {
		digest_prefetch(data);
		lanes_add(&l, mix(_mm512_loadu_si512(data), key));
		key = _mm512_add_epi64(key, step);
	}
	return l;
}

/* The lanes of MASK added up; the intrinsic for it adds signed numbers, which may not wrap. */
INLINE uint64_t total(__m512i v, unsigned mask)
{
	uint64_t lane[8], sum = 0;

	_mm512_storeu_si512(lane, v);
	for (int i = 0; i < 8; i++)
		sum += mask >> i & 1 ? lane[i] : 0;
	return sum;
}

TARGET static struct digest_sums avx512_block(const uint8_t *data, size_t blocks, uint64_t word, uint64_t key)
{
	struct lanes l = chunk_lanes(data, blocks, keys_at(key + word * DIGEST_STEP));

	return (struct digest_sums){total(l.x, 0x55) + total(l.r, 0xaa), total(l.x, 0xaa) + 3 * total(l.r, 0x55)};
}

INLINE void lanes_finish8(const struct lanes l[8], uint64_t bytes, struct kedge__digest *out)
{
	__m512i a[4], b[4];

	for (int i = 0; i < 4; i++) {
		const struct lanes *u = &l[2 * i], *v = &l[2 * i + 1];

		a[i] = _mm512_add_epi64(_mm512_unpacklo_epi64(u->x, v->x), _mm512_unpackhi_epi64(u->r, v->r));
		b[i] = _mm512_add_epi64(_mm512_unpackhi_epi64(u->x, v->x), triple(_mm512_unpacklo_epi64(u->r, v->r)));
	}
	finish8(fold(fold(a[0], a[1]), fold(a[2], a[3])), fold(fold(b[0], b[1]), fold(b[2], b[3])), bytes, out);
}

TARGET static void chunks_long(const uint8_t *data, size_t count, size_t chunk, struct kedge__digest *out)
{
	const __m512i key = keys_at(DIGEST_KEY_CHUNK);
	struct kedge__digest last[8];
	struct lanes l[8];

	for (; count >= 8; count -= 8, out += 8, data += 8 * chunk) {
		for (int i = 0; i < 8; i++)
			l[i] = chunk_lanes(data + (size_t)i * chunk, chunk / 64, key);
		lanes_finish8(l, chunk, out);
	}
	if (!count)
		return;
	for (size_t i = 0; i < 8; i++)
		l[i] = chunk_lanes(data + i * chunk, i < count ? chunk / 64 : 0, key);
	lanes_finish8(l, chunk, last);
	memcpy(out, last, count * sizeof(*out));
}

/* Even words of two blocks in E, odd ones in O: then only half as many rotations are needed. */
INLINE void split_sums(__m512i u, __m512i v, __m512i *a, __m512i *b)
{
	__m512i e = _mm512_unpacklo_epi64(u, v), o = _mm512_unpackhi_epi64(u, v);

	*a = _mm512_add_epi64(e, _mm512_rol_epi64(o, 32));
	*b = _mm512_add_epi64(o, triple(_mm512_rol_epi64(e, 27)));
}

TARGET static size_t chunks_64(const uint8_t *data, size_t count, struct kedge__digest *out)
{
	const __m512i key = keys_at(DIGEST_KEY_CHUNK);
	size_t done = 0;

	for (; done + 8 <= count; done += 8, data += 512) {
		__m512i a[4], b[4];

		for (int i = 0; i < 8; i++)
			digest_prefetch(data + 64 * i);
		for (int i = 0; i < 4; i++)
			split_sums(mix(_mm512_loadu_si512(data + 128 * i), key),
				   mix(_mm512_loadu_si512(data + 128 * i + 64), key), &a[i], &b[i]);
		finish8(fold(fold(a[0], a[1]), fold(a[2], a[3])), fold(fold(b[0], b[1]), fold(b[2], b[3])), 64,
			out + done);
	}
	return done;
}

/* Two chunks in a block; the shuffles bring them as 0 2 1 3 4 6 5 7. */
TARGET static size_t chunks_32(const uint8_t *data, size_t count, struct kedge__digest *out)
{
	const __m512i key = _mm512_shuffle_i64x2(keys_at(DIGEST_KEY_CHUNK), keys_at(DIGEST_KEY_CHUNK), 0x44);
	const __m512i order = _mm512_set_epi64(7, 5, 6, 4, 3, 1, 2, 0);
	size_t done = 0;

	for (; done + 8 <= count; done += 8, data += 256) {
		__m512i a[2], b[2];

		for (int i = 0; i < 4; i++)
			digest_prefetch(data + 64 * i);
		for (int i = 0; i < 2; i++)
			split_sums(mix(_mm512_loadu_si512(data + 128 * i), key),
				   mix(_mm512_loadu_si512(data + 128 * i + 64), key), &a[i], &b[i]);
		finish8(_mm512_permutexvar_epi64(order, fold(a[0], a[1])),
			_mm512_permutexvar_epi64(order, fold(b[0], b[1])), 32, out + done);
	}
	return done;
}

static void avx512_chunks(const uint8_t *data, size_t count, size_t chunk, struct kedge__digest *out)
{
	size_t done = 0;

	if (chunk == 32)
		done = chunks_32(data, count, out);
	else if (chunk == 64)
		done = chunks_64(data, count, out);
	if (chunk < 64)
		kedge__digest_scalar.chunks(data + done * chunk, count - done, chunk, out + done);
	else
		chunks_long(data + done * chunk, count - done, chunk, out + done);
}

TARGET static struct kedge__sum avx512_sum(const uint8_t *data, size_t blocks, uint64_t word)
{
	const __m512i step = _mm512_set1_epi64((long long)(8 * DIGEST_STEP));
	__m512i key = keys_at(DIGEST_KEY_SUM + word * DIGEST_STEP);
	__m512i s1 = _mm512_setzero_si512(), s2 = s1;

	for (size_t i = 0; i < blocks; i++, data += 64) {
		__m512i t = _mm512_xor_si512(_mm512_loadu_si512(data), key);

		s1 = _mm512_add_epi64(s1, _mm512_mul_epu32(t, _mm512_srli_epi64(t, 32)));
		s2 = _mm512_add_epi64(s2, t);
		key = _mm512_add_epi64(key, step);
	}
	return (struct kedge__sum){total(s1, 0xff), total(s2, 0xff)};
}

static const struct digest_kernel avx512_kernel = {"avx512", avx512_block, avx512_chunks, avx512_sum};

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
