/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_digest.c: all variants of the digest agree bit for bit, and the digest keeps apart what checkpoints are made of.
 */
#include "../lib/cases.h"
#include "../lib/draw.h"
#include "base/digest_internal.h"

#include <stdlib.h>

static uint64_t seed = 1;

static uint8_t *random_bytes(size_t n)
{
	uint8_t *p = kedge__malloc(n);

	assert_non_null(p);
	draw_bytes(&seed, p, n);
	return p;
}

static void assert_digests_equal(const struct kedge__digest *a, const struct kedge__digest *b, size_t n)
{
	assert_memory_equal(a, b, n * sizeof(*a));
}

/* Of a reducer that drew it; the values are pinned for the seed 1, 2, 3 ... */
static struct kedge__digest_key *key;

static int make_key(void **state)
{
	uint8_t bytes[KEDGE__DIGEST_SEED_BYTES];

	(void)state;
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i + 1);
	return kedge__digest_key_new(bytes, &key, NULL);
}

static int free_key(void **state)
{
	(void)state;
	kedge__digest_key_free(key);
	return 0;
}

/* The definition in docs/digests.md, word by word. */
static struct kedge__digest block_by_definition(const struct digest_domain *d, const uint8_t *data, size_t bytes,
						size_t length)
{
	uint64_t s[4] = {0, 0, 0, 0};

	for (size_t i = 0; i * 8 < bytes; i++) {
		uint32_t w[2] = {0, 0};

		memcpy(w, data + i * 8, KEDGE__MIN(bytes - i * 8, (size_t)8));
		for (size_t p = 0; p < 4; p++) {
			uint32_t x = w[0] + (uint32_t)d->nh[i + 8 * p], y = w[1] + (uint32_t)(d->nh[i + 8 * p] >> 32);

			s[p] += (uint64_t)x * y;
		}
	}
	return digest_fold(&d->fold, s, length);
}

static struct kedge__digest by_definition(const uint8_t *data, size_t bytes)
{
	struct kedge__digest blocks[64];
	size_t n = 0;

	if (bytes <= 1024)
		return block_by_definition(&key->chunk, data, bytes, bytes);
	for (size_t at = 0; at < bytes; at += 1024) {
		size_t len = KEDGE__MIN(bytes - at, (size_t)1024);

		blocks[n++] = block_by_definition(&key->chunk, data + at, len, len);
	}
	return block_by_definition(&key->top, (const uint8_t *)blocks, n * 16, bytes);
}

enum { ROOM = 65536 * 5 };

static uint64_t mix(uint64_t v)
{
	v = (v ^ v >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
	v = (v ^ v >> 27) * UINT64_C(0x94D049BB133111EB);
	return v ^ v >> 31;
}

/* The region sum, word by word; POS is a multiple of 8. */
static struct kedge__sum sum_by_definition(const uint8_t *data, size_t bytes, uint64_t pos)
{
	const uint64_t step = UINT64_C(0x9E3779B97F4A7C15), keys = UINT64_C(0x27D4EB2F165667C5);
	struct kedge__sum s = {0, 0};

	for (size_t i = 0; i * 8 < bytes; i++) {
		uint64_t page = (pos / 8 + i) / 512, j = (pos / 8 + i) % 512;
		uint64_t k = mix(keys + j * step), m = mix(keys + (j + 16) * step);
		uint64_t v = mix(UINT64_C(0x6B656467652E7375) + page * step);
		uint32_t w[2] = {0, 0};

		memcpy(w, data + i * 8, KEDGE__MIN(bytes - i * 8, (size_t)8));
		s.s1 += (uint64_t)(uint32_t)(w[0] + k) * (uint32_t)(w[1] + (k >> 32)) * (v | 1);
		s.s2 += (uint64_t)(uint32_t)(w[0] + m) * (uint32_t)(w[1] + (m >> 32)) * ((v << 32 | v >> 32) | 1);
	}
	return s;
}

static void check_single(const struct digest_kernel *k, const uint8_t *data)
{
	for (size_t bytes = 0; bytes <= 65536; bytes += bytes < 1300 ? 1 : bytes < 5000 ? 61 : 5419) {
		const uint8_t *p = data + draw(&seed) % 64;
		struct kedge__digest d = by_definition(p, bytes), e = kedge__digest_chunk_by(k, key, p, bytes);
		struct kedge__sum s = sum_by_definition(p, bytes, 8 * bytes);
		struct kedge__sum t = kedge__sum_by(k, p, bytes, 8 * bytes);

		assert_digests_equal(&d, &e, 1);
		assert_true(s.s1 == t.s1 && s.s2 == t.s2);
	}
}

static void check_variant(const struct digest_kernel *k)
{
	uint8_t *data = random_bytes(ROOM + 64);
	static struct kedge__digest want[ROOM / 16 + 1], got[ROOM / 16 + 1];

	check_single(k, data);
	for (size_t chunk = 16; chunk <= 65536; chunk *= 2) {
		for (size_t count = 0; count < 24; count += count < 10 ? 1 : 6) {
			const uint8_t *p = data + draw(&seed) % 64;
			size_t most = chunk * count + draw(&seed) % chunk;
			size_t bytes = KEDGE__MIN(most, (size_t)ROOM);
			size_t n = (bytes + chunk - 1) / chunk;

			for (size_t i = 0; i < n; i++)
				want[i] = by_definition(p + i * chunk, KEDGE__MIN(bytes - i * chunk, chunk));
			kedge__digest_chunks_by(k, key, p, bytes, chunk, got);
			assert_digests_equal(want, got, n);
		}
	}
	kedge__free(data);
}

static void test_variants_agree(void **state)
{
	(void)state;
	check_variant(&kedge__digest_scalar);
	if (kedge__digest_avx2())
		check_variant(kedge__digest_avx2());
	if (kedge__digest_avx512())
		check_variant(kedge__digest_avx512());
	assert_non_null(kedge__digest_kernel());
}

static void assert_digest(struct kedge__digest d, uint64_t lo, uint64_t hi)
{
	assert_int_equal(d.lo, lo);
	assert_int_equal(d.hi, hi);
}

/*
 * Region digests are in segments: they may never change. They, and chunk digests for a seed, were computed by another
 * program that follows docs/digests.md.
 */
static void test_values_are_fixed(void **state)
{
	uint8_t data[5000];
	struct kedge__digest d, e;

	(void)state;
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i * 7 + (i >> 8));
	d = kedge__digest_chunk(key, data, 100);
	e = kedge__digest_chunk(key, data, 5000);
	assert_digest(d, UINT64_C(0x31B7684990FAD2E3), UINT64_C(0x5BC8FD428774051E));
	assert_digest(e, UINT64_C(0x4E53F46B053056CB), UINT64_C(0x58576461AA7A7D65));
	assert_digest(kedge__digest_chunk(key, data, 0), UINT64_C(0xB27F265FFB1701C4), UINT64_C(0x2EF549943B98011F));
	assert_digest(kedge__digest_node(key, 1, d, e), UINT64_C(0xD5CC49B8FBE60325), UINT64_C(0x65AA4DF4B32FAF6A));
	assert_digest(kedge__digest_node(key, 14, d, e), UINT64_C(0xB28D4CB22EC43D1B), UINT64_C(0x9D304A8A20371209));
	e = kedge__sum_digest(kedge__sum_of(data, 100, 800), 100);
	assert_digest(e, UINT64_C(0xCB885198D0A98450), UINT64_C(0x0192DAFFA7F1D954));
	e = kedge__sum_digest(kedge__sum_of(data, 5000, 0), 5000);
	assert_digest(e, UINT64_C(0x08BEBA52DB27B005), UINT64_C(0xBB3E1D251F45B11D));
	e = kedge__sum_digest(kedge__sum_ruled(KEDGE__SUM_ROWS, data, 100, 800), 100);
	assert_digest(e, UINT64_C(0xF7A756C776C5963F), UINT64_C(0x1EBEA76654E8967B));
}

/* What was mixed for the digest is had back from it. */
static void test_undigest(void **state)
{
	uint64_t x = 1;

	(void)state;
	for (int i = 0; i < 1000; i++) {
		struct kedge__sum sum, back;
		uint64_t bytes;

		sum.s1 = draw(&x);
		sum.s2 = draw(&x);
		bytes = sum.s2 >> (i % 64);
		back = kedge__sum_undigest(kedge__sum_digest(sum, bytes), bytes);
		assert_int_equal(back.s1, sum.s1);
		assert_int_equal(back.s2, sum.s2);
	}
}

/* Two keys that are drawn have nothing in common; one that is made of a seed has that seed. */
static void test_keys(void **state)
{
	struct kedge__digest_key *a, *b, *c;
	struct kedge__digest d;

	(void)state;
	assert_int_equal(kedge__digest_key_new(NULL, &a, NULL), 0);
	assert_int_equal(kedge__digest_key_new(NULL, &b, NULL), 0);
	assert_int_equal(kedge__digest_key_new(kedge__digest_key_seed(a), &c, NULL), 0);
	d = kedge__digest_chunk(a, "state", 5);
	assert_false(kedge__digest_equal(d, kedge__digest_chunk(b, "state", 5)));
	assert_true(kedge__digest_equal(d, kedge__digest_chunk(c, "state", 5)));
	kedge__digest_key_free(a);
	kedge__digest_key_free(b);
	kedge__digest_key_free(c);
	kedge__digest_key_free(NULL);
}

static void test_domains_and_lengths(void **state)
{
	static uint8_t zero[4096];
	struct kedge__digest d[2] = {kedge__digest_chunk(key, zero, 64), kedge__digest_chunk(key, zero, 32)};
	struct kedge__digest node = kedge__digest_node(key, 1, d[0], d[1]), flat = kedge__digest_chunk(key, d, 32);
	struct kedge__digest swapped = kedge__digest_node(key, 1, d[1], d[0]);
	struct kedge__digest above = kedge__digest_node(key, 2, d[0], d[1]);

	(void)state;
	assert_false(kedge__digest_equal(d[0], d[1]));
	assert_false(kedge__digest_equal(node, flat));
	assert_false(kedge__digest_equal(node, swapped));
	assert_false(kedge__digest_equal(node, above));
	for (size_t n = 1; n < sizeof(zero); n++)
		assert_false(
		    kedge__digest_equal(kedge__digest_chunk(key, zero, n), kedge__digest_chunk(key, zero, n - 1)));
}

/* A long chunk is not taken for one that holds the digests of its blocks. */
static void test_long_chunk_is_not_its_blocks(void **state)
{
	uint8_t *data = random_bytes(4096);
	struct kedge__digest blocks[4];

	(void)state;
	kedge__digest_chunks(key, data, 4096, 1024, blocks);
	assert_false(kedge__digest_equal(kedge__digest_chunk(key, data, 4096),
					 kedge__digest_chunk(key, blocks, sizeof(blocks))));
	for (size_t i = 0; i < 4096; i += 61) {
		struct kedge__digest d = kedge__digest_chunk(key, data, 4096);

		data[i] ^= 1;
		assert_false(kedge__digest_equal(d, kedge__digest_chunk(key, data, 4096)));
	}
	kedge__free(data);
}

/* The sum of a region is that of its parts, in any order; it sees swaps and pairs of sign flips. */
static void test_sum(void **state)
{
	enum { N = 40000 };
	uint8_t *data = random_bytes(N);
	struct kedge__sum whole = kedge__sum_of(data, N, 0), parts = {0, 0};

	(void)state;
	for (size_t at = 0, len; at < N; at += len) {
		size_t most = 8 * (1 + draw(&seed) % 500);

		len = KEDGE__MIN((size_t)N - at, most);
		parts = kedge__sum_add(kedge__sum_of(data + at, len, at), parts);
	}
	assert_true(whole.s1 == parts.s1 && whole.s2 == parts.s2);
	for (int i = 0; i < 2000; i++) {
		size_t a = draw(&seed) % (N / 8) * 8, b = draw(&seed) % (N / 8) * 8;
		struct kedge__sum s;

		if (a == b)
			continue;
		data[a + 7] ^= 0x80;
		data[b + 7] ^= 0x80;
		s = kedge__sum_of(data, N, 0);
		assert_false(s.s1 == whole.s1 && s.s2 == whole.s2);
		data[a + 7] ^= 0x80;
		data[b + 7] ^= 0x80;
		data[a] ^= 1;
		s = kedge__sum_of(data, N, 0);
		assert_true(s.s1 != whole.s1 && s.s2 != whole.s2);
		data[a] ^= 1;
	}
	kedge__free(data);
}

/* ---- the collision battery: families of 128-byte chunks that are alike in the ways that checkpoints are */

enum { WORDS = 16, FAMILY = 140000 };

static int by_lo(const void *a, const void *b)
{
	const struct kedge__digest *x = a, *y = b;

	return x->lo < y->lo ? -1 : x->lo > y->lo;
}

static int by_hi(const void *a, const void *b)
{
	const struct kedge__digest *x = a, *y = b;

	return x->hi < y->hi ? -1 : x->hi > y->hi;
}

/* At this size a chance collision in 64 bits has odds of 1e-9: none is allowed in either half. */
static void assert_all_distinct(const uint64_t (*chunks)[WORDS], size_t n)
{
	struct kedge__digest *d = kedge__malloc(n * sizeof(*d));

	assert_non_null(d);
	kedge__digest_chunks(key, chunks, n * WORDS * 8, WORDS * 8, d);
	qsort(d, n, sizeof(*d), by_lo);
	for (size_t i = 1; i < n; i++)
		assert_true(d[i].lo != d[i - 1].lo);
	qsort(d, n, sizeof(*d), by_hi);
	for (size_t i = 1; i < n; i++)
		assert_true(d[i].hi != d[i - 1].hi);
	kedge__free(d);
}

static uint64_t as_bits(double v)
{
	uint64_t u;

	memcpy(&u, &v, 8);
	return u;
}

/* Different signs of doubles: pairs of words, all pairs first; i spread over all 16 signs of 2^16 and more values. */
static void fill_signs(uint64_t c[WORDS], size_t i)
{
	for (int w = 0; w < WORDS; w++)
		c[w] = as_bits(1.0 + (double)(i >> 16)) | (uint64_t)(i >> w & 1) << 63;
}

static void fill_odd_signs(uint64_t c[WORDS], size_t i)
{
	for (int w = 0; w < WORDS; w++)
		c[w] = as_bits((double)(i / 2 + 1)) | (uint64_t)(w & (int)i & 1) << 63;
}

static void fill_low_entropy(uint64_t c[WORDS], size_t i)
{
	for (int w = 0; w < WORDS; w++)
		c[w] = i >> w & 1;
	c[i % 7] += 2 * (i >> 16);
}

static void fill_moving_word(uint64_t c[WORDS], size_t i)
{
	memset(c, 0, WORDS * 8);
	c[i % WORDS] = i / WORDS + 1;
}

/* One permutation of the same words each: the i-th by swaps. */
static void fill_swaps(uint64_t c[WORDS], size_t i)
{
	for (int w = 0; w < WORDS; w++)
		c[w] = as_bits(0.5 * w);
	for (size_t left = i, w = WORDS; w > 1; left /= w, w--) {
		uint64_t t = c[w - 1];

		c[w - 1] = c[left % w];
		c[left % w] = t;
	}
}

static void fill_counter(uint64_t c[WORDS], size_t i)
{
	for (size_t w = 0; w < WORDS; w++)
		c[w] = i + w;
}

static void fill_small_floats(uint64_t c[WORDS], size_t i)
{
	float f[2 * WORDS];

	for (size_t w = 0; w < 2 * WORDS; w++)
		f[w] = (float)((i >> (w % 18) & 1) ? 0.25 : 0.5);
	memcpy(c, f, sizeof(f));
}

static void fill_high_word(uint64_t c[WORDS], size_t i)
{
	memset(c, 0, WORDS * 8);
	c[i % WORDS] = (uint64_t)(i / WORDS + 1) << 40;
	c[(i + 1) % WORDS] = UINT64_C(1) << 63;
}

static void test_collisions(void **state)
{
	static void (*const fill[])(uint64_t *, size_t) = {fill_signs,        fill_odd_signs, fill_low_entropy,
							   fill_moving_word,  fill_swaps,     fill_counter,
							   fill_small_floats, fill_high_word};
	uint64_t(*chunks)[WORDS] = kedge__malloc((size_t)FAMILY * sizeof(*chunks));

	(void)state;
	assert_non_null(chunks);
	for (size_t f = 0; f < KEDGE__COUNT(fill); f++) {
		for (size_t i = 0; i < FAMILY; i++)
			fill[f](chunks[i], i);
		assert_all_distinct((const uint64_t(*)[WORDS])chunks, FAMILY);
	}
	kedge__free(chunks);
}

/* Every flip of one or two bits of a chunk is seen in both halves. */
static void test_bit_flips(void **state)
{
	enum { BITS = 64 * 8 };
	uint8_t *data = random_bytes(64);
	struct kedge__digest d = kedge__digest_chunk(key, data, 64);

	(void)state;
	for (int i = 0; i < BITS; i++) {
		for (int j = i; j < BITS; j++) {
			struct kedge__digest e;

			data[i / 8] ^= (uint8_t)(1 << i % 8);
			if (j > i)
				data[j / 8] ^= (uint8_t)(1 << j % 8);
			e = kedge__digest_chunk(key, data, 64);
			assert_true(e.lo != d.lo && e.hi != d.hi);
			data[i / 8] ^= (uint8_t)(1 << i % 8);
			if (j > i)
				data[j / 8] ^= (uint8_t)(1 << j % 8);
		}
	}
	kedge__free(data);
}

static void test_checksums(void **state)
{
	uint8_t data[5000];

	(void)state;
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i * 31 ^ i >> 5);
	for (size_t n = 0; n < sizeof(data); n += n < 600 ? 1 : 37)
		assert_int_equal(kedge__checksum(data + n % 3, n - n % 3),
				 kedge__checksum_plain(data + n % 3, n - n % 3));
	assert_int_equal(kedge__checksum("", 0), UINT64_C(0x2D06800538D394C2));
	assert_int_equal(kedge__seal("", 0).lo, UINT64_C(0x6001C324468D497F));
	assert_int_equal(kedge__seal("", 0).hi, UINT64_C(0x99AA06D3014798D8));
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_variants_agree),
	    cmocka_unit_test(test_values_are_fixed),
	    cmocka_unit_test(test_domains_and_lengths),
	    cmocka_unit_test(test_sum),
	    cmocka_unit_test(test_undigest),
	    cmocka_unit_test(test_keys),
	    cmocka_unit_test(test_long_chunk_is_not_its_blocks),
	    cmocka_unit_test(test_collisions),
	    cmocka_unit_test(test_bit_flips),
	    cmocka_unit_test(test_checksums),
	};

	return cases_run(argc, argv, tests, make_key, free_key);
}
