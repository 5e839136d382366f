/* SPDX-License-Identifier: BSD-3-Clause */
/* region_sum.c: the region sum and the digest that is made of it (docs/digests.md), by the rules of all formats. */
#include "base/digest_internal.h"

const uint64_t kedge__sum_keys[KEDGE_SUM_COUNT] __attribute__((aligned(64))) = {KEDGE_SUM_KEYS};

static uint64_t mix(uint64_t v)
{
	return KEDGE_SUM_X3(KEDGE_SUM_X2(KEDGE_SUM_X1(v)));
}

void kedge__sum_weigh(struct kedge__sum *to, struct kedge__sum part, uint64_t page)
{
	uint64_t weight = mix(KEDGE_SUM_WEIGHT + page * KEDGE_SUM_STEP);

	to->s1 += part.s1 * (weight | 1);
	to->s2 += part.s2 * ((weight >> 32 | weight << 32) | 1);
}

/* Up to eight bytes, of which those that are missing are zeros. */
static uint64_t word_at(const uint8_t *p, size_t bytes)
{
	uint8_t last[8] = {0};

	if (bytes >= 8)
		return kedge__get64(p);
	memcpy(last, p, bytes);
	return kedge__get64(last);
}

/* Bytes of one page, from the word on that has the first of KEYS. */
static struct kedge__sum page_part(const struct digest_kernel *k, const uint8_t *p, size_t bytes, const uint64_t *keys)
{
	size_t blocks = bytes / 64;
	struct kedge__sum s = blocks ? k->sum(p, blocks, keys) : (struct kedge__sum){0, 0};

	for (size_t at = blocks * 64; at < bytes; at += 8) {
		uint64_t word = word_at(p + at, bytes - at);

		s.s1 += digest_product(word, keys[at / 8]);
		s.s2 += digest_product(word, keys[at / 8 + KEDGE_SUM_SHIFT]);
	}
	return s;
}

struct kedge__sum kedge__sum_by(const struct digest_kernel *k, const void *data, size_t bytes, uint64_t pos)
{
	const uint8_t *p = data;
	struct kedge__sum total = {0, 0};

	while (bytes) {
		size_t in = (size_t)(pos % KEDGE_SUM_PAGE), n = KEDGE__MIN(bytes, KEDGE_SUM_PAGE - in);

		kedge__sum_weigh(&total, page_part(k, p, n, kedge__sum_keys + in / 8), pos / KEDGE_SUM_PAGE);
		p += n;
		pos += n;
		bytes -= n;
	}
	return total;
}

struct kedge__sum kedge__sum_of(const void *data, size_t bytes, uint64_t pos)
{
	return kedge__sum_by(kedge__digest_variant(), data, bytes, pos);
}

/* KEDGE__SUM_ROWS: the keys go up by the same step from word to word. */
static struct kedge__sum rows_sum(const uint8_t *p, size_t bytes, uint64_t pos)
{
	uint64_t key = KEDGE_SUM_KEY + pos / 8 * KEDGE_SUM_STEP;
	struct kedge__sum s = {0, 0};

	for (size_t at = 0; at < bytes; at += 8, key += KEDGE_SUM_STEP) {
		uint64_t t = word_at(p + at, bytes - at) ^ key;

		s.s1 += (t & UINT32_MAX) * (t >> 32);
		s.s2 += t;
	}
	return s;
}

struct kedge__sum kedge__sum_ruled(enum kedge__sum_rule rule, const void *data, size_t bytes, uint64_t pos)
{
	return rule == KEDGE__SUM_ROWS ? rows_sum(data, bytes, pos) : kedge__sum_of(data, bytes, pos);
}

/* ---- the digest */

/* For each length a bijection of the two sums; both halves depend on both. */
struct kedge__digest kedge__sum_digest(struct kedge__sum total, uint64_t bytes)
{
	uint64_t a = total.s1 ^ bytes * KEDGE_SUM_STEP;
	uint64_t b = mix(total.s2 + a);

	a = mix(a + b);
	return (struct kedge__digest){a, b + a};
}

/* The inverse of an odd number, by Newton's steps: each doubles the bits that are right. */
static uint64_t inverse(uint64_t a)
{
	uint64_t x = a;

	for (int i = 0; i < 5; i++)
		x *= 2 - a * x;
	return x;
}

static uint64_t mix_undone(uint64_t v)
{
	v ^= v >> 31 ^ v >> 62;
	v *= inverse(KEDGE_SUM_F2);
	v ^= v >> 27 ^ v >> 54;
	v *= inverse(KEDGE_SUM_F1);
	return v ^ v >> 30 ^ v >> 60;
}

struct kedge__sum kedge__sum_undigest(struct kedge__digest d, uint64_t bytes)
{
	uint64_t b = d.hi - d.lo;
	uint64_t a = mix_undone(d.lo) - b;

	return (struct kedge__sum){a ^ bytes * KEDGE_SUM_STEP, mix_undone(b) - a};
}
