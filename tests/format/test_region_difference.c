/* SPDX-License-Identifier: BSD-3-Clause */
/* Section REGN as a difference: what was taken away comes back, and what fits no table is refused. */
#include "format_samples.h"

#define MANY 100000

static struct kedge__region_record *records_make(size_t n)
{
	struct kedge__region_record *r = calloc(n + 2, sizeof(*r));

	assert_non_null(r);
	for (size_t i = 0; i < n; i++) {
		r[i] = (struct kedge__region_record){.slot = (uint32_t)(i + i / 1000),
						     .type = KEDGE_F32,
						     .ndims = 1,
						     .dims = {16},
						     .bytes = 64,
						     .digest = sample_digest(i)};
		r[i].name = malloc(24);
		snprintf(r[i].name, 24, "region-%zu", i);
	}
	return r;
}

static void records_free(struct kedge__region_record *r, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(r[i].name);
	free(r);
}

static struct kedge__bytes encode(const struct kedge__region_record *r, size_t n)
{
	struct kedge__bytes b = {0};

	assert_int_equal(kedge__regions_encode(r, n, &b, NULL), 0);
	return b;
}

/* The size of the difference, which makes B of A. */
static size_t round_trip(const struct kedge__bytes *a, const struct kedge__bytes *b)
{
	struct kedge__bytes difference = {0}, again = {0};
	size_t bytes;

	assert_int_equal(kedge__regions_subtract(a->at, a->count, b->at, b->count, &difference, NULL), 0);
	assert_int_equal(kedge__regions_apply(a->at, a->count, difference.at, difference.count, &again, NULL), 0);
	assert_int_equal(again.count, b->count);
	assert_memory_equal(again.at, b->at, b->count);
	bytes = difference.count;
	kedge__bytes_done(&difference);
	kedge__bytes_done(&again);
	return bytes;
}

/* And both ways. */
static size_t both_ways(const struct kedge__bytes *a, const struct kedge__region_record *r, size_t n)
{
	struct kedge__bytes b = encode(r, n);
	size_t bytes = round_trip(a, &b);

	(void)round_trip(&b, a);
	kedge__bytes_done(&b);
	return bytes;
}

static void test_one_of_many(void **state)
{
	struct kedge__region_record *r = records_make(MANY), saved = r[4711];
	struct kedge__bytes a = encode(r, MANY);

	(void)state;
	assert_true(a.count > 30 * MANY);
	assert_int_equal(both_ways(&a, r, MANY), 0);
	r[4711].digest.lo++;
	assert_int_equal(both_ways(&a, r, MANY), 3 + 16);
	r[4711].bytes = 128; /* resized */
	r[4711].dims[0] = 32;
	assert_in_range(both_ways(&a, r, MANY), 19, 30);
	r[4711] = saved;
	r[4711].name = (char *)"another";
	assert_in_range(both_ways(&a, r, MANY), 20, 50);
	r[4711] = saved;
	assert_int_equal(both_ways(&a, r, MANY - 1), 3); /* the last one is gone, */
	memmove(&r[4711], &r[4712], (MANY - 4712) * sizeof(*r));
	assert_int_equal(both_ways(&a, r, MANY - 1), 3); /* or one in the middle; the other way round, it is new */
	memmove(&r[4712], &r[4711], (MANY - 4712) * sizeof(*r));
	r[4711] = saved;
	assert_int_equal(both_ways(&a, r, MANY), 0);
	kedge__bytes_done(&a);
	records_free(r, MANY);
}

static void test_to_and_from_nothing(void **state)
{
	struct kedge__region_record *r = records_make(3);
	struct kedge__bytes a = encode(r, 3);

	(void)state;
	both_ways(&a, r, 0);
	kedge__bytes_done(&a);
	a = encode(r, 0);
	assert_int_equal(both_ways(&a, r, 0), 0);
	kedge__bytes_done(&a);
	records_free(r, 3);
}

/* Some of RECORDS, some of them changed. */
static size_t records_draw(const struct kedge__region_record *from, size_t n, uint64_t *seed,
			   struct kedge__region_record *to)
{
	size_t count = 0;

	for (size_t i = 0; i < n; i++) {
		uint64_t dice = draw(seed) % 10;

		if (dice == 0)
			continue;
		to[count] = from[i];
		if (dice == 1)
			to[count].digest.hi = draw(seed);
		if (dice == 2)
			to[count].type = KEDGE_U32;
		if (dice == 3 && i + 1 < n && from[i + 1].slot > from[i].slot + 1)
			to[count].slot++;
		count++;
	}
	return count;
}

static void test_random_tables(void **state)
{
	struct kedge__region_record *all = records_make(3000), *x = calloc(3000, sizeof(*x)),
				    *y = calloc(3000, sizeof(*y));
	uint64_t seed = 15;

	(void)state;
	for (int round = 0; round < 300; round++) {
		size_t n = draw(&seed) % (round % 10 ? 30 : 3000);
		size_t first = records_draw(all, n, &seed, x), second = records_draw(all, n, &seed, y);
		struct kedge__bytes a = encode(x, first);

		both_ways(&a, y, second);
		kedge__bytes_done(&a);
	}
	free(x);
	free(y);
	records_free(all, 3000);
}

/* Any bytes: refused, or a text that starts with its count; whether that is a table is for the decoder to say. */
static int apply_any(const struct kedge__bytes *a, const uint8_t *at, size_t n)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	struct kedge__region_record *r = NULL;
	struct kedge__bytes out = {0};
	uint8_t *exact = malloc(n + 1);
	size_t count = 0;
	int rc;

	memcpy(exact, at, n);
	rc = kedge__regions_apply(a->at, a->count, exact, n, &out, &err);
	assert_true(rc == 0 || (rc == KEDGE_E_DAMAGED && out.count == 0));
	if (rc == 0) {
		assert_true(out.count <= a->count + n + 16);
		rc = kedge__regions_decode(out.at, out.count, &r, &count, NULL, NULL);
		if (rc == 0)
			kedge__regions_free(r, count);
	}
	free(exact);
	kedge__bytes_done(&out);
	kedge__error_done(&err);
	return rc;
}

static void test_flips_and_ends(void **state)
{
	struct kedge__region_record *r = records_make(40), *y = calloc(40, sizeof(*y));
	struct kedge__bytes a = encode(r, 40), b, difference = {0};
	uint64_t seed = 3;

	(void)state;
	b = encode(y, records_draw(r, 40, &seed, y));
	assert_int_equal(kedge__regions_subtract(a.at, a.count, b.at, b.count, &difference, NULL), 0);
	for (size_t i = 0; i < difference.count; i++) {
		for (int bit = 0; bit < 8; bit++) {
			difference.at[i] ^= (uint8_t)(1 << bit);
			apply_any(&a, difference.at, difference.count);
			difference.at[i] ^= (uint8_t)(1 << bit);
		}
		apply_any(&a, difference.at, i);
	}
	kedge__bytes_done(&a);
	kedge__bytes_done(&b);
	kedge__bytes_done(&difference);
	free(y);
	records_free(r, 40);
}

static void test_random_bytes(void **state)
{
	struct kedge__region_record *r = records_make(5);
	struct kedge__bytes a = encode(r, 5);
	uint64_t seed = 8;

	(void)state;
	for (int round = 0; round < 50000; round++) {
		uint8_t text[64];
		size_t n = draw(&seed) % sizeof(text);

		for (size_t i = 0; i < n; i++)
			text[i] = (uint8_t)(draw(&seed) % (draw(&seed) % 2 ? 12 : 256));
		apply_any(&a, text, n);
	}
	kedge__bytes_done(&a);
	records_free(r, 5);
}

static void test_refused(void **state)
{
	static const struct {
		const char *text;
		size_t bytes;
	} wrong[] = {{"\x0d", 1},            /* three are kept, then one is removed that is not there */
		     {"\x0a", 1},            /* one is added, but where is it */
		     {"\x0a\1x\0\1\0\1", 7}, /* without a digest */
		     {"\x0cxxxxxxxxxxxxxxxx", 17},
		     {"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", 10},
		     {"\x02\1x\xff\xff\x3f\1\0\1"
		      "0123456789abcdef",
		      25}}; /* the last slot there is, then others */
	struct kedge__region_record *r = records_make(3);
	struct kedge__bytes a = encode(r, 3);

	(void)state;
	for (size_t i = 0; i < KEDGE__COUNT(wrong); i++)
		assert_int_equal(apply_any(&a, (const uint8_t *)wrong[i].text, wrong[i].bytes), KEDGE_E_DAMAGED);
	kedge__bytes_done(&a);
	records_free(r, 3);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_one_of_many),   cmocka_unit_test(test_to_and_from_nothing),
	    cmocka_unit_test(test_random_tables), cmocka_unit_test(test_flips_and_ends),
	    cmocka_unit_test(test_random_bytes),  cmocka_unit_test(test_refused),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
