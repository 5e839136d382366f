/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_rex.c: what rex makes of pages: moves within a page, repetitions, constant pages, pages that do not pay.
 */
#include "lab.h"

#define PAGE    4096
#define PATTERN 32

static struct lab lab;

static void setup(uint64_t bytes)
{
	memset(&lab, 0, sizeof(lab));
	lab.seed = 42;
	lab_resize(&lab, 1, bytes);
}

static void teardown(struct kedge__reducer *r)
{
	lab_restore_all(&lab);
	lab_done(&lab);
	kedge__reducer_free(r);
}

/* The previous contents of a page are its dictionary. */
static void test_moves_within_a_page(void **state)
{
	struct kedge__reducer *r = lab_reducer(KEDGE__REDUCER_REX, PATTERN);
	struct lab_version *v;
	uint8_t *page;

	(void)state;
	setup(64 * PAGE);
	lab_take(&lab, r, NULL, 1, false);
	page = lab.data[1] + 7 * PAGE;
	memmove(page + 320, page + 288, PAGE - 320);
	draw_bytes(&lab.seed, page + 288, PATTERN);
	v = lab_take(&lab, r, NULL, 2, false);
	assert_int_equal(v->red.literal_bytes, PATTERN);
	assert_int_equal(v->red.duplicate_bytes, PAGE - 320);
	assert_int_equal(lab_count(v, KEDGE__EXTENT_COPY), 1);
	assert_int_equal(v->red.source_count, 1);
	/* from another page it is not looked for */
	memmove(page, page + PAGE, 64);
	v = lab_take(&lab, r, NULL, 3, false);
	assert_int_equal(v->red.literal_bytes, 64);
	teardown(r);
}

/* A page that is there several times is stored once. */
static void test_repeated_pages(void **state)
{
	struct kedge__reducer *r = lab_reducer(KEDGE__REDUCER_REX, PATTERN);
	struct lab_version *v;

	(void)state;
	setup(40 * PAGE);
	for (int i = 1; i < 40; i++)
		memcpy(lab.data[1] + i * PAGE, lab.data[1], PAGE);
	v = lab_take(&lab, r, NULL, 1, false);
	assert_int_equal(v->red.literal_bytes, PAGE);
	assert_int_equal(v->red.duplicate_bytes, 39 * PAGE);
	assert_int_equal(v->red.map.count, 40);
	teardown(r);
}

/* What stood far before, in a page that is a literal and among the literals of one that is not. */
static void test_repeats_from_afar(void **state)
{
	struct kedge__reducer *r = lab_reducer(KEDGE__REDUCER_REX, PATTERN);
	struct lab_version *v;
	uint8_t *at;

	(void)state;
	setup(1024 * PAGE);
	memset(lab.data[1] + 500 * PAGE, 0, PAGE / 2);
	at = lab.data[1] + 1000 * PAGE;
	memcpy(at, lab.data[1] + 3 * PAGE + 1024, 1024);
	memcpy(at + 1024, lab.data[1] + 500 * PAGE + 3072, 1024);
	v = lab_take(&lab, r, NULL, 1, false);
	assert_int_equal(v->red.fill_bytes, PAGE / 2);
	assert_int_equal(v->red.duplicate_bytes, 2048);
	assert_int_equal(v->red.literal_bytes, 1024 * PAGE - PAGE / 2 - 2048);
	teardown(r);
}

static void test_constant_pages(void **state)
{
	struct kedge__reducer *r = lab_reducer(KEDGE__REDUCER_REX, PATTERN);
	struct lab_version *v;

	(void)state;
	setup(100 * PAGE + 24);
	memset(lab.data[1] + 10 * PAGE + 512, 0, 1024);
	lab_take(&lab, r, NULL, 1, false);
	memset(lab.data[1] + 10 * PAGE, 0, 70 * PAGE); /* a part of page 10 was zero before */
	memset(lab.data[1] + 100 * PAGE, 9, 24);
	v = lab_take(&lab, r, NULL, 2, false);
	assert_int_equal(v->red.literal_bytes, 0);
	assert_int_equal(v->red.fill_bytes, 70 * PAGE + 24);
	assert_int_equal(v->red.map.count, 4);
	teardown(r);
}

/* Kept as a whole, and its patterns serve others all the same. */
static void test_page_that_does_not_pay(void **state)
{
	struct kedge__reducer *r = lab_reducer(KEDGE__REDUCER_REX, PATTERN);
	struct lab_version *v;

	(void)state;
	setup(64 * PAGE);
	lab_take(&lab, r, NULL, 1, false);
	for (int at = 0; at < PAGE; at += PATTERN)
		if (at != 2 * PATTERN && at != 77 * PATTERN)
			draw_bytes(&lab.seed, lab.data[1] + 5 * PAGE + at, PATTERN);
	memcpy(lab.data[1] + 6 * PAGE, lab.data[1] + 5 * PAGE + 40 * PATTERN, 30 * PATTERN);
	v = lab_take(&lab, r, NULL, 2, false);
	assert_int_equal(v->red.literal_bytes, PAGE);
	assert_int_equal(v->red.duplicate_bytes, 30 * PATTERN);
	assert_int_equal(v->red.changed_bytes, PAGE + 30 * PATTERN);
	teardown(r);
}

/* A table without room finds less, and what it finds is right. */
static void test_small_table(void **state)
{
	static const uint64_t limits[] = {0, 5000, 100000, LAB_UNLIMITED};
	uint64_t found = 0;

	(void)state;
	for (size_t i = 0; i < KEDGE__COUNT(limits); i++) {
		struct kedge__reducer_options o = {.id = KEDGE__REDUCER_REX, .chunk = 16, .record_bytes = limits[i]};
		struct kedge__reducer *r;
		struct lab_version *v;

		setup(200 * PAGE);
		assert_int_equal(kedge__reducer_new(&o, &r, NULL), 0);
		memcpy(lab.data[1] + 100 * PAGE, lab.data[1], 100 * PAGE);
		v = lab_take(&lab, r, NULL, 1, false);
		assert_true(v->red.duplicate_bytes >= found);
		found = v->red.duplicate_bytes;
		teardown(r);
	}
	assert_int_equal(found, 100 * PAGE);
}

/* What the next process knows of the last version, from the store. */
static void test_next_process(void **state)
{
	struct kedge__reducer *r = lab_reducer(KEDGE__REDUCER_REX, PATTERN);
	struct kedge__image_region regions[LAB_REGIONS];
	struct kedge__image image = {regions, 0};
	struct lab_version *v;

	(void)state;
	setup(20 * PAGE + 7);
	lab_take(&lab, r, NULL, 1, false);
	kedge__reducer_free(r);
	r = lab_reducer(KEDGE__REDUCER_REX, PATTERN);
	image.count = lab_image(&lab, regions);
	assert_int_equal(kedge__reducer_prime_view(r, NULL, 1, &image, NULL, NULL, NULL, NULL), 0);
	memmove(lab.data[1] + PAGE + 64, lab.data[1] + PAGE, 640);
	v = lab_take(&lab, r, NULL, 2, false);
	assert_int_equal(v->red.literal_bytes, 0);
	assert_int_equal(v->red.duplicate_bytes, 640);
	assert_int_equal(v->red.parent, 1);
	teardown(r);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_moves_within_a_page),    cmocka_unit_test(test_repeated_pages),
	    cmocka_unit_test(test_repeats_from_afar),      cmocka_unit_test(test_constant_pages),
	    cmocka_unit_test(test_page_that_does_not_pay), cmocka_unit_test(test_small_table),
	    cmocka_unit_test(test_next_process),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
