/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * checksum_avx512.c: XXH3-64 a line of 64 bytes at a time; and for a page that is on its way to its place the checksum,
 * the region sum and the copy of each line while it is in a register. A copy past the cache is bound by memory, so the
 * arithmetic takes hardly any time of its own.
 */
#include "base/checksum_internal.h"
#include "base/digest_internal.h"

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)

#pragma GCC push_options
#pragma GCC target("avx512f")
#define XXH_INLINE_ALL
#define XXH_VECTOR 3 /* XXH_AVX512 */
#include <immintrin.h>
#include <xxhash.h>

#define LINE   CHECKSUM_LINE
#define LINES  (CHECKSUM_PAGE / LINE)
#define BLOCK  ((XXH_SECRET_DEFAULT_SIZE - LINE) / 8) /* lines from one scramble to the next */
#define INLINE __attribute__((always_inline)) static inline

static uint64_t checksum_long(const void *data, size_t bytes)
{
	return XXH3_64bits(data, bytes);
}

struct state {
	__m512i acc;    /* of the checksum */
	__m512i s1, s2; /* of the page of the region, so far */
};

INLINE struct state state_init(void)
{
	static const uint64_t start[8] = XXH3_INIT_ACC;

	return (struct state){_mm512_loadu_si512(start), _mm512_setzero_si512(), _mm512_setzero_si512()};
}

INLINE __m512i keyed(__m512i data, const uint64_t *keys)
{
	__m512i t = _mm512_add_epi32(data, _mm512_load_si512(keys));

	return _mm512_mul_epu32(t, _mm512_srli_epi64(t, 32));
}

INLINE void sum_line(struct state *s, __m512i data, const uint64_t *keys)
{
	s->s1 = _mm512_add_epi64(s->s1, keyed(data, keys));
	s->s2 = _mm512_add_epi64(s->s2, keyed(data, keys + KEDGE_SUM_SHIFT));
}

/* XXH3_accumulate_512 */
INLINE void hash_line(struct state *s, __m512i data, size_t secret)
{
	__m512i t = _mm512_xor_si512(data, _mm512_loadu_si512(XXH3_kSecret + secret));
	__m512i product = _mm512_mul_epu32(t, _mm512_srli_epi64(t, 32));

	s->acc = _mm512_add_epi64(s->acc, _mm512_shuffle_epi32(data, (_MM_PERM_ENUM)0x4e));
	s->acc = _mm512_add_epi64(s->acc, product);
}

/* XXH3_scrambleAcc */
INLINE void hash_scramble(struct state *s)
{
	const __m512i prime = _mm512_set1_epi32((int)XXH_PRIME32_1);
	__m512i t = _mm512_xor_si512(s->acc, _mm512_srli_epi64(s->acc, 47)), high;

	t = _mm512_xor_si512(t, _mm512_loadu_si512(XXH3_kSecret + XXH_SECRET_DEFAULT_SIZE - LINE));
	high = _mm512_mul_epu32(_mm512_srli_epi64(t, 32), prime);
	s->acc = _mm512_add_epi64(_mm512_mul_epu32(t, prime), _mm512_slli_epi64(high, 32));
}

INLINE uint64_t lanes_add(__m512i v)
{
	uint64_t lane[8], sum = 0;

	_mm512_storeu_si512(lane, v);
	for (int i = 0; i < 8; i++)
		sum += lane[i];
	return sum;
}

/* A page of the region, which need not be that of the block, is over. */
INLINE void sum_end(struct state *s, uint64_t page, struct kedge__sum *sum)
{
	kedge__sum_weigh(sum, (struct kedge__sum){lanes_add(s->s1), lanes_add(s->s2)}, page);
	s->s1 = s->s2 = _mm512_setzero_si512();
}

INLINE uint64_t hash_end(const struct state *s)
{
	XXH_ALIGN(LINE) uint64_t acc[8];

	_mm512_store_si512(acc, s->acc);
	return XXH3_mergeAccs(acc, XXH3_kSecret + XXH_SECRET_MERGEACCS_START, CHECKSUM_PAGE * XXH_PRIME64_1);
}

/* The line of the page that is number I. The last one meets the secret one byte later than it would otherwise. */
INLINE void line_hash(struct state *s, size_t i, __m512i data)
{
	hash_line(s, data, 8 * (i % BLOCK) + (i == LINES - 1));
	if (i % BLOCK == BLOCK - 1 && i != LINES - 1)
		hash_scramble(s);
}

INLINE void line_take(struct state *s, size_t i, __m512i data, const uint64_t *keys, bool check)
{
	sum_line(s, data, keys);
	if (check)
		line_hash(s, i, data);
}

/* The whole lines of TO begin HEAD bytes after it. What follows soon is fetched to the nearest cache, other things to
 * the next. CUT: a page of the region may end anywhere, not only where a block begins. */
INLINE uint64_t page_copy(uint8_t *to, const uint8_t *from, const uint8_t *ahead, size_t head, uint64_t word, bool cut,
			  bool check, struct kedge__sum *sum)
{
	struct state s = state_init();

	for (size_t block = 0; block < LINES; block += BLOCK, word += BLOCK * 8) {
		const uint64_t *keys = kedge__sum_keys + word % KEDGE_SUM_WORDS;

		if (block && word % KEDGE_SUM_WORDS == 0)
			sum_end(&s, word / KEDGE_SUM_WORDS - 1, sum);
#pragma GCC unroll 16
		for (size_t i = block; i < block + BLOCK; i++) {
			__m512i data = _mm512_loadu_si512(from + i * LINE);

			if (cut && i != block && (word + (i - block) * 8) % KEDGE_SUM_WORDS == 0) {
				sum_end(&s, word / KEDGE_SUM_WORDS, sum);
				keys -= KEDGE_SUM_WORDS;
			}
			if (check)
				_mm_prefetch((const char *)ahead + i * LINE, _MM_HINT_T0);
			else if (ahead)
				_mm_prefetch((const char *)ahead + i * LINE, _MM_HINT_T1);
			if (!head)
				_mm512_stream_si512((void *)(to + i * LINE), data);
			else if (i < LINES - 1)
				_mm512_stream_si512((void *)(to + head + i * LINE),
						    _mm512_loadu_si512(from + head + i * LINE));
			line_take(&s, i, data, keys + (i - block) * 8, check);
		}
	}
	sum_end(&s, (word - 1) / KEDGE_SUM_WORDS, sum);
	return check ? hash_end(&s) : 0;
}

/* What is before the first whole line of TO, and behind the last. */
INLINE void ends_copy(uint8_t *to, const uint8_t *from, size_t head)
{
	memcpy(to, from, head);
	memcpy(to + CHECKSUM_PAGE - (LINE - head), from + CHECKSUM_PAGE - (LINE - head), LINE - head);
}

#define COPY_PAGE(name, cut, check)                                                                                    \
	static uint64_t name(uint8_t *to, const uint8_t *from, const uint8_t *ahead, uint64_t word,                    \
			     struct kedge__sum *sum)                                                                   \
	{                                                                                                              \
		size_t head = (size_t)(-(uintptr_t)to % LINE);                                                         \
                                                                                                                       \
		if (!head)                                                                                             \
			return page_copy(to, from, ahead, 0, word, cut, check, sum);                                   \
		ends_copy(to, from, head);                                                                             \
		return page_copy(to, from, ahead, head, word, cut, check, sum);                                        \
	}
COPY_PAGE(copy_whole, false, true)
COPY_PAGE(copy_cut, true, true)
COPY_PAGE(sum_whole, false, false)
COPY_PAGE(sum_cut, true, false)

static uint64_t copy_page(uint8_t *to, const uint8_t *from, const uint8_t *ahead, uint64_t word, struct kedge__sum *sum)
{
	return (word % (BLOCK * 8) ? copy_cut : copy_whole)(to, from, ahead, word, sum);
}

static void sum_page(uint8_t *to, const uint8_t *from, const uint8_t *ahead, uint64_t word, struct kedge__sum *sum)
{
	(void)(word % (BLOCK * 8) ? sum_cut : sum_whole)(to, from, ahead, word, sum);
}

static uint64_t hash_page(uint8_t *to, const uint8_t *from)
{
	struct state s = state_init();

	for (size_t block = 0; block < LINES; block += BLOCK)
#pragma GCC unroll 16
		for (size_t i = block; i < block + BLOCK; i++) {
			__m512i data = _mm512_loadu_si512(from + i * LINE);

			_mm512_storeu_si512(to + i * LINE, data);
			line_hash(&s, i, data);
		}
	return hash_end(&s);
}

#pragma GCC pop_options

static const struct checksum_kernel kernel = {checksum_long, copy_page, hash_page, sum_page};

const struct checksum_kernel *kedge__checksum_avx512(void)
{
	return __builtin_cpu_supports("avx512f") ? &kernel : NULL;
}

#else

const struct checksum_kernel *kedge__checksum_avx512(void)
{
	return NULL;
}

#endif
