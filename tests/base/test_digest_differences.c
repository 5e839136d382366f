/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_digest_differences.c: does a change at one place of a chunk cancel one at another? Comparing digests of N chunks
 * looks at N pairs; here the *differences* that a kind of change makes to the sums of a digest are collected, 2^21 at
 * each of two places, and looked for in each other: that is 2^42 pairs of changes, so that odds of 2^-40 show. The
 * keyed sum of Kedge 0.1 is here as a control: what it takes for unchanged has to be found.
 */
#include "../lib/cases.h"
#include "../lib/draw.h"
#include "base/digest_internal.h"

#include <stdio.h>
#include <stdlib.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { DRAWS = 1 << 16, FULL = 0 };
#else
enum { DRAWS = 1 << 21, FULL = 1 };
#endif

enum { BUCKETS = 2048, ROOM = DRAWS / BUCKETS + DRAWS / BUCKETS / 4 + 64, TABLE = 2048 };

static uint64_t seed = 1;

/* ---- digests that are sums: what N words, one or two, at word AT add to each sum */

enum { SUMS = 4 };
typedef void (*sums_fn)(size_t at, const uint64_t w[2], int n, uint64_t sums[SUMS]);

static struct kedge__digest_key *key;

static void nh_sums(size_t at, const uint64_t w[2], int n, uint64_t sums[SUMS])
{
	for (size_t p = 0; p < SUMS; p++)
		sums[p] = digest_product(w[0], key->chunk.nh[at + p * DIGEST_LINE]);
	for (size_t p = 0; n > 1 && p < SUMS; p++)
		sums[p] += digest_product(w[1], key->chunk.nh[at + 1 + p * DIGEST_LINE]);
}

/* One half of the sums alone: 64 bits of bound, so that 2^42 pairs still match with odds of 2^-22. */
static void nh_first_half(size_t at, const uint64_t w[2], int n, uint64_t sums[SUMS])
{
	nh_sums(at, w, n, sums);
	sums[2] = sums[3] = 0;
}

static void nh_second_half(size_t at, const uint64_t w[2], int n, uint64_t sums[SUMS])
{
	nh_sums(at, w, n, sums);
	sums[0] = sums[1] = 0;
}

static uint64_t mix(uint64_t v)
{
	return KEDGE_SUM_X3(KEDGE_SUM_X2(KEDGE_SUM_X1(v)));
}

static uint64_t rotl(uint64_t v, int n)
{
	return v << n | v >> (64 - n);
}

static uint64_t keyed_mix(uint64_t w, uint64_t i)
{
	uint64_t x = (w ^ (UINT64_C(0x6B656467652D6331) + i * KEDGE_SUM_STEP)) * UINT64_C(0xFF51AFD7ED558CCD);

	x ^= x >> 32;
	x *= UINT64_C(0xD6E8FEB86659FD93);
	return x ^ x >> 29;
}

/* The keyed sum of Kedge 0.1. */
static void keyed_sums(size_t at, const uint64_t w[2], int n, uint64_t sums[SUMS])
{
	uint64_t x = keyed_mix(w[0], at), y = n > 1 ? keyed_mix(w[1], at + 1) : 0;

	if (at % 2) {
		uint64_t t = x;

		x = y;
		y = t;
	}
	sums[0] = x + rotl(y, 32);
	sums[1] = y + 3 * rotl(x, 27);
	sums[2] = sums[3] = 0;
}

static void ruled_sums(enum kedge__sum_rule rule, size_t at, const uint64_t w[2], int n, uint64_t sums[SUMS])
{
	struct kedge__sum s = kedge__sum_ruled(rule, w, 8 * (size_t)n, at * 8);

	sums[0] = s.s1;
	sums[1] = s.s2;
	sums[2] = sums[3] = 0;
}

static void region_sums(size_t at, const uint64_t w[2], int n, uint64_t sums[SUMS])
{
	ruled_sums(KEDGE__SUM_PAGES, at, w, n, sums);
}

/* One of the two, to see that each finds changes on its own. */
static void region_first(size_t at, const uint64_t w[2], int n, uint64_t sums[SUMS])
{
	ruled_sums(KEDGE__SUM_PAGES, at, w, n, sums);
	sums[1] = 0;
}

static void region_second(size_t at, const uint64_t w[2], int n, uint64_t sums[SUMS])
{
	ruled_sums(KEDGE__SUM_PAGES, at, w, n, sums);
	sums[0] = 0;
}

/* Up to format 1.7. */
static void region_rows(size_t at, const uint64_t w[2], int n, uint64_t sums[SUMS])
{
	ruled_sums(KEDGE__SUM_ROWS, at, w, n, sums);
}

/* ---- kinds of changes: of one word, or of it and the next. SECOND: the change at the second place */

typedef void (*change_fn)(uint64_t w[2], int arg, bool second);

struct kind {
	const char *name;
	change_fn change;
	uint64_t mask; /* of the words that are drawn */
	int words;
	int args, step; /* the argument is below args, and goes up by step */
};

static void flip(uint64_t w[2], int bit, bool second)
{
	(void)second;
	w[0] ^= UINT64_C(1) << bit;
}

static void flip_two(uint64_t w[2], int bit, bool second)
{
	(void)second;
	w[0] ^= UINT64_C(1) << bit;
	w[1] ^= UINT64_C(1) << bit;
}

/* One more here, one less there. */
static void count(uint64_t w[2], int arg, bool second)
{
	(void)arg;
	w[0] += second ? UINT64_MAX : 1;
}

static uint64_t halves_add(uint64_t w, uint32_t low, uint32_t high)
{
	return (uint32_t)(w + low) | (uint64_t)(uint32_t)((w >> 32) + high) << 32;
}

/* Floats that move by a unit in the last place: the lower, the upper, both up, one up and one down. */
static void float_ulp(uint64_t w[2], int arg, bool second)
{
	uint32_t one = second ? UINT32_MAX : 1;

	w[0] = halves_add(w[0], arg == 1 ? 0 : one, arg == 0 ? 0 : arg == 3 ? 0 - one : one);
}

static void float_signs(uint64_t w[2], int arg, bool second)
{
	(void)second;
	w[0] ^= UINT64_C(0x8000000080000000);
	w[1] ^= arg ? UINT64_C(0x8000000080000000) : 0;
}

static void swap_halves(uint64_t w[2], int arg, bool second)
{
	(void)arg, (void)second;
	w[0] = w[0] << 32 | w[0] >> 32;
}

static void swap_words(uint64_t w[2], int arg, bool second)
{
	uint64_t t = w[0];

	(void)arg, (void)second;
	w[0] = w[1];
	w[1] = t;
}

/* A two's complement number changes its sign. */
static void negate(uint64_t w[2], int arg, bool second)
{
	(void)second;
	w[0] = 0 - w[0];
	w[1] = arg ? 0 - w[1] : w[1];
}

#define UPPER UINT64_C(0xffffffff00000000)

/* Every ninth bit: the first and the last are among them. */
static const struct kind kinds[] = {
    {"a bit", flip, UINT64_MAX, 1, 64, 9},
    {"a bit of words with an empty lower half", flip, UPPER, 1, 64, 9},
    {"a bit of neighbours", flip_two, UINT64_MAX, 2, 64, 9},
    {"a sign of neighbours, lower halves empty", flip_two, UPPER, 2, 64, 63},
    {"one more, one less", count, UINT64_MAX, 1, 1, 1},
    {"one more, one less, of small numbers", count, 0xffffff, 1, 1, 1},
    {"floats by a unit in the last place", float_ulp, UINT64_MAX, 1, 4, 1},
    {"signs of floats", float_signs, UINT64_MAX, 2, 2, 1},
    {"halves of a word swapped", swap_halves, UINT64_MAX, 1, 1, 1},
    {"neighbours swapped", swap_words, UINT64_MAX, 2, 1, 1},
    {"neighbours swapped, lower halves empty", swap_words, UPPER, 2, 1, 1},
    {"negated", negate, UINT64_MAX, 2, 2, 1},
};

/* ---- lists of differences, as hashes dealt out to buckets */

struct list {
	uint64_t at[BUCKETS][ROOM];
	uint32_t count[BUCKETS];
};

static uint64_t hash_of(const uint64_t d[SUMS])
{
	uint64_t a = d[0] * KEDGE_SUM_STEP ^ rotl(d[1] * KEDGE_SUM_F1, 19),
		 b = d[2] * KEDGE_SUM_F2 ^ rotl(d[3] * KEDGE_SUM_STEP, 41);

	return mix(mix(a) + b);
}

/* Where the second change is: several places, between which draws are dealt out, or one. */
struct places {
	size_t at[4];
	size_t count;
};

static inline void list_put(struct list *l, uint64_t h)
{
	size_t b = h % BUCKETS;

	if (l->count[b] < ROOM)
		l->at[b][l->count[b]++] = h;
}

/* Inlined where the digest and the change are known. */
static inline __attribute__((always_inline)) void fill_with(struct list *l, sums_fn sums, change_fn change,
							    const struct kind *k, int words, int arg,
							    const struct places *where, bool second)
{
	for (int i = 0; i < DRAWS; i++) {
		uint64_t w[2] = {draw(&seed) & k->mask, words > 1 ? draw(&seed) & k->mask : 0};
		uint64_t before[SUMS], after[SUMS];
		size_t at = where->at[(size_t)i % where->count];

		sums(at, w, words, before);
		change(w, arg, second);
		sums(at, w, words, after);
		for (int p = 0; p < SUMS; p++)
			after[p] = second ? before[p] - after[p] : after[p] - before[p];
		list_put(l, hash_of(after));
	}
}

/* What K does, DRAWS times. A kind that makes few different differences does not fill more than some buckets. */
static void list_fill(struct list *l, sums_fn sums, const struct kind *k, int arg, const struct places *where,
		      bool second)
{
	memset(l->count, 0, sizeof(l->count));
	if (sums == nh_sums && k->change == flip)
		fill_with(l, nh_sums, flip, k, 1, arg, where, second);
	else
		fill_with(l, sums, k->change, k, k->words, arg, where, second);
}

struct slot {
	uint64_t hash;
	uint32_t count;
};

static struct slot *slot_of(struct slot *table, uint64_t hash)
{
	size_t i = (hash >> 20) % TABLE;

	while (table[i].count && table[i].hash != hash)
		i = (i + 1) % TABLE;
	return &table[i];
}

/* Pairs of one of A and one of B that cancel. */
static uint64_t pairs(const struct list *a, const struct list *b)
{
	static struct slot table[TABLE];
	uint64_t found = 0;

	for (size_t k = 0; k < BUCKETS; k++) {
		memset(table, 0, sizeof(table));
		for (size_t i = 0; i < a->count[k]; i++) {
			struct slot *s = slot_of(table, a->at[k][i]);

			s->hash = a->at[k][i];
			s->count++;
		}
		for (size_t i = 0; i < b->count[k]; i++)
			found += slot_of(table, b->at[k][i])->count;
	}
	return found;
}

static struct list *lists;

static int setup(void **state)
{
	static const uint8_t bytes[KEDGE__DIGEST_SEED_BYTES] = "differences";

	(void)state;
	lists = kedge__map_alloc(2 * sizeof(*lists));
	return lists ? kedge__digest_key_new(bytes, &key, NULL) : -1;
}

static int teardown(void **state)
{
	(void)state;
	kedge__map_free(lists, 2 * sizeof(*lists));
	kedge__digest_key_free(key);
	return 0;
}

static const struct places start = {{0}, 1};

/* Pairs of a change at word 0 and one at WHERE that cancel. */
static uint64_t cancelling_at(sums_fn sums, const struct kind *k, int arg, const struct places *where)
{
	list_fill(&lists[0], sums, k, arg, &start, false);
	list_fill(&lists[1], sums, k, arg, where, true);
	return pairs(&lists[0], &lists[1]);
}

static uint64_t cancelling(sums_fn sums, const struct kind *k, int arg, size_t at)
{
	const struct places one = {{at}, 1};

	return cancelling_at(sums, k, arg, &one);
}

/* ---- tests */

/*
 * One of the same parity, one of the other, one whose key in a pass is that of word 0 in the next, the last but one; of
 * changes to a single word also the neighbour.
 */
static const struct places apart = {{2, 3, 8, 126}, 4}, near_and_apart = {{1, 2, 8, 126}, 4};

static void assert_none(const struct kind *k, int arg, uint64_t found)
{
	if (found)
		print_message("%s (%d): %llu pairs cancel\n", k->name, arg, (unsigned long long)found);
	assert_int_equal(found, 0);
}

static void test_changes_do_not_cancel(void **state)
{
	bool every = getenv("KEDGE_TEST_LONG"); /* every bit */

	(void)state;
	for (size_t i = 0; i < KEDGE__COUNT(kinds); i++)
		for (int arg = 0; arg < kinds[i].args; arg += every ? 1 : kinds[i].step)
			assert_none(
			    &kinds[i], arg,
			    cancelling_at(nh_sums, &kinds[i], arg, kinds[i].words > 1 ? &apart : &near_and_apart));
}

/* The sign, the exponent, the middle and the end of a word, 2^42 pairs for each place. */
static void test_bits_do_not_cancel_at_any_place(void **state)
{
	static const size_t at[] = {1, 2, 3, 8, 9, 126};

	(void)state;
	for (int bit = 63; bit >= 0; bit -= 21)
		for (size_t i = 0; i < KEDGE__COUNT(at); i++)
			assert_none(&kinds[0], bit, cancelling(nh_sums, &kinds[0], bit, at[i]));
}

static void test_halves_do_not_cancel(void **state)
{
	(void)state;
	for (int bit = 63; bit >= 0; bit -= 21) {
		assert_none(&kinds[0], bit, cancelling_at(nh_first_half, &kinds[0], bit, &near_and_apart));
		assert_none(&kinds[0], bit, cancelling_at(nh_second_half, &kinds[0], bit, &near_and_apart));
	}
}

/* The control: what the old digest took for unchanged, at words 0 and 2, with odds of 2^-24 to 2^-37. */
static void test_finds_what_the_old_digest_missed(void **state)
{
	static const struct {
		int bit;
		double odds; /* 2 to the power of minus this */
	} known[] = {{63, 23.9}, {62, 26.2}, {60, 22.1}, {56, 30.0}, {52, 33.9}, {48, 37.4}};

	(void)state;
	for (size_t i = 0; i < (FULL ? KEDGE__COUNT(known) : 3); i++) {
		uint64_t found = cancelling(keyed_sums, &kinds[0], known[i].bit, 2);

		print_message("the old digest, bit %d of words 0 and 2: %llu cancel\n", known[i].bit,
			      (unsigned long long)found);
		assert_true(found > 0);
	}
}

/* A digest of 38 bits, 2^42 pairs: about sixteen match. So odds of 2^-38 are seen for certain, 2^-40 nearly so. */
static void few_bits(size_t at, const uint64_t w[2], int n, uint64_t sums[SUMS])
{
	(void)n;
	sums[0] = mix(mix(w[0]) + at * KEDGE_SUM_STEP) << 26;
	sums[1] = sums[2] = sums[3] = 0;
}

static void test_has_power(void **state)
{
	uint64_t found;

	(void)state;
	if (!FULL)
		skip();
	found = cancelling(few_bits, &kinds[0], 63, 2);
	print_message("a sum of 38 bits: %llu cancel\n", (unsigned long long)found);
	assert_in_range(found, 4, 40);
}

/* ---- the region sum */

/* In the page of word 0: the neighbour of changes to two words, the key of word 0 in the other sum; at the same place
 * of the next page; far. */
static const struct places in_both = {{2, 16, 512, 512 * 262144 + 5}, 4};
/* One after the other, with one sum alone. */
static const struct places in_page = {{2, 3, 16, 510}, 4}, in_pages = {{512, 513, 528, 512 * 262144 + 5}, 4};

static void test_changes_of_a_region_do_not_cancel(void **state)
{
	bool every = getenv("KEDGE_TEST_LONG");

	(void)state;
	for (size_t i = 0; i < KEDGE__COUNT(kinds); i++)
		for (int arg = kinds[i].args - 1; arg >= 0; arg -= every ? 1 : KEDGE__MAX(kinds[i].step, 21))
			assert_none(&kinds[i], arg, cancelling_at(region_sums, &kinds[i], arg, &in_both));
}

/*
 * The same with one of its two sums, each of which has odds of about 2^-33: some 500 of 2^42 pairs. Of words with an
 * empty lower half the difference is the same each time, so that all pairs cancel, or none.
 */
static void test_one_sum_of_a_region(void **state)
{
	static const sums_fn one[] = {region_first, region_second};
	static const struct {
		size_t kind;
		int arg;
		uint64_t most; /* of 2^42 pairs */
	} known[] = {{0, 63, 1 << 11}, {1, 63, 0}, {4, 0, 1 << 11}};

	(void)state;
	if (!FULL)
		skip();
	for (size_t i = 0; i < KEDGE__COUNT(known) * 4; i++) {
		const struct kind *k = &kinds[known[i / 4].kind];
		uint64_t found = cancelling_at(one[i % 2], k, known[i / 4].arg, i % 4 < 2 ? &in_page : &in_pages);

		print_message("sum %zu of a region, %s, %s (%d): %llu of 2^42 cancel\n", i % 2 + 1,
			      i % 4 < 2 ? "in a page" : "in two pages", k->name, known[i / 4].arg,
			      (unsigned long long)found);
		assert_true(found <= known[i / 4].most);
	}
}

/* The control: up to format 1.7 two flips of the sign were seen by one sum alone, with 2^-33 to miss them. */
static void test_odds_of_the_sum_by_rows(void **state)
{
	static const struct {
		size_t kind;
		int arg;
		uint64_t least, most;
	} known[] = {{0, 63, 256, 1024}, {0, 0, 256, 1024}, {4, 0, 256, 1024}, {7, 0, 128, 1024}, {9, 0, 0, 0}};

	(void)state;
	if (!FULL)
		skip();
	for (size_t i = 0; i < KEDGE__COUNT(known); i++) {
		const struct kind *k = &kinds[known[i].kind];
		uint64_t found = cancelling(region_rows, k, known[i].arg, 2);

		print_message("the sum by rows, %s (%d): %llu of 2^42 cancel\n", k->name, known[i].arg,
			      (unsigned long long)found);
		assert_in_range(found, known[i].least, known[i].most);
	}
}

/* ---- runs: the same bit of N words that follow each other, or are at the same place of pages that do */

enum { RUNS = 100000 };

/* Words of doubles: any with an empty lower half, or whole numbers that follow each other. */
static uint64_t run_word(bool whole, uint64_t first, size_t i)
{
	double number = (double)(640 + (first & 255) + i);
	uint64_t word;

	memcpy(&word, &number, sizeof(word));
	return whole ? word : draw(&seed) & UPPER;
}

struct run {
	size_t words;
	int bit;
	bool whole;
	uint64_t stride; /* words from one to the next */
};

static struct kedge__sum run_sum(enum kedge__sum_rule rule, const struct run *run, const uint64_t *w, uint64_t first)
{
	struct kedge__sum s = {0, 0};

	for (size_t i = 0; i < run->words; i++)
		s = kedge__sum_add(s, kedge__sum_ruled(rule, &w[i], 8, (first + i * run->stride) * 8));
	return s;
}

/* How many of RUNS such flips, anywhere in a region, a sum misses. */
static int runs_missed(enum kedge__sum_rule rule, const struct run *run)
{
	int missed = 0;

	for (int r = 0; r < RUNS; r++) {
		uint64_t w[16], first = draw(&seed), word = draw(&seed) >> 24;
		struct kedge__sum before, after;

		for (size_t i = 0; i < run->words; i++)
			w[i] = run_word(run->whole, first, i);
		before = run_sum(rule, run, w, word);
		for (size_t i = 0; i < run->words; i++)
			w[i] ^= UINT64_C(1) << run->bit;
		after = run_sum(rule, run, w, word);
		missed += before.s1 == after.s1 && before.s2 == after.s2;
	}
	return missed;
}

/*
 * Up to format 1.7 keys went up by the same step from word to word, so that of words whose lower halves are equal both
 * sums saw the same bit of several words as a row of numbers that is added here and subtracted there. Now no run is
 * missed.
 */
static void test_runs(void **state)
{
	static const struct {
		struct run run;
		int least, most; /* that the sum by rows misses */
	} known[] = {{{2, 63, false, 1}, 0, 0},        {{4, 63, false, 1}, 10000, 15000},
		     {{8, 52, false, 1}, 2500, 3700},  {{16, 33, false, 1}, 400, 800},
		     {{8, 63, true, 1}, 25000, 60000}, {{4, 63, false, 512}, 7000, 10000},
		     {{8, 63, true, 512}, 5000, 8500}};

	(void)state;
	for (size_t i = 0; i < KEDGE__COUNT(known); i++) {
		const struct run *run = &known[i].run;
		int rows = runs_missed(KEDGE__SUM_ROWS, run), now = runs_missed(KEDGE__SUM_PAGES, run);

		print_message("bit %d of %zu %s, %d apart: of %d the sum by rows misses %d, that by pages %d\n",
			      run->bit, run->words, run->whole ? "whole numbers" : "words with an empty lower half",
			      (int)run->stride, RUNS, rows, now);
		assert_in_range(rows, known[i].least, known[i].most);
		assert_int_equal(now, 0);
	}
}

/* Four words at two places of two pages that are alike, one bit of each: what rows and columns of keys have in common
 * would cancel. */
static void test_squares(void **state)
{
	int missed = 0;

	(void)state;
	for (int r = 0; r < RUNS; r++) {
		uint64_t page = draw(&seed) >> 40, far = page + 1 + draw(&seed) % 64,
			 bit = UINT64_C(1) << draw(&seed) % 64;
		uint64_t at[2] = {draw(&seed) % 512, draw(&seed) % 512};
		struct kedge__sum sum[2] = {{0, 0}, {0, 0}};

		at[1] += at[1] == at[0] ? 1 - 2 * (at[1] % 2) : 0;
		for (unsigned after = 0; after < 2; after++)
			for (unsigned k = 0; k < 4; k++) {
				uint64_t word = ((k & 1 ? far : page) * 512 + at[k / 2]) * 8;
				uint64_t w =
				    (((k & 1) ^ k / 2) == after) ? bit : 0; /* one comes where the other goes */

				sum[after] = kedge__sum_add(sum[after], kedge__sum_of(&w, 8, word));
			}
		missed += memcmp(&sum[0], &sum[1], sizeof(sum[0])) == 0;
	}
	assert_int_equal(missed, 0);
}

/* A change of one half of a word is seen for certain: for that the keys of both sums must differ in both halves. */
static void test_keys_of_the_region_sum(void **state)
{
	(void)state;
	for (size_t i = 0; i < KEDGE_SUM_WORDS; i++) {
		uint64_t differ = kedge__sum_keys[i] ^ kedge__sum_keys[i + KEDGE_SUM_SHIFT];

		assert_true((uint32_t)differ && differ >> 32);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_finds_what_the_old_digest_missed),
	    cmocka_unit_test(test_has_power),
	    cmocka_unit_test(test_changes_do_not_cancel),
	    cmocka_unit_test(test_bits_do_not_cancel_at_any_place),
	    cmocka_unit_test(test_halves_do_not_cancel),
	    cmocka_unit_test(test_changes_of_a_region_do_not_cancel),
	    cmocka_unit_test(test_one_sum_of_a_region),
	    cmocka_unit_test(test_odds_of_the_sum_by_rows),
	    cmocka_unit_test(test_runs),
	    cmocka_unit_test(test_squares),
	    cmocka_unit_test(test_keys_of_the_region_sum),
	};

	return cases_run(argc, argv, tests, setup, teardown);
}
