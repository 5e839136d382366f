/* SPDX-License-Identifier: BSD-3-Clause */
#include "support.h"

#define BYTES 100003

static uint8_t a[BYTES], b[BYTES];

static struct kedge__diff_region *diff(struct lab *lab, uint64_t from, uint64_t to, size_t *n)
{
	struct kedge__lineage *x = lab_open(lab, from), *y = lab_open(lab, to);
	struct kedge__diff_region *regions = NULL;

	assert_int_equal(kedge__diff(x, y, lab->pool, NULL, NULL, &regions, n, &lab->err), 0);
	kedge__lineage_close(x);
	kedge__lineage_close(y);
	return regions;
}

/* Exactly the bytes that differ, in ascending ranges that do not touch. */
static void ranges_are_exact(const struct kedge__diff_region *r, const uint8_t *x, const uint8_t *y, size_t bytes)
{
	uint64_t at = 0, total = 0;

	for (size_t i = 0; i <= r->range_count; i++) {
		uint64_t start = i < r->range_count ? r->ranges[i].start : bytes;
		uint64_t end = i < r->range_count ? start + r->ranges[i].len : bytes;

		assert_true(i == 0 || i == r->range_count || start > at);
		assert_memory_equal(x + at, y + at, start - at);
		for (uint64_t j = start; j < end; j++)
			assert_true(x[j] != y[j]);
		total += end - start;
		at = end;
	}
	assert_int_equal(r->changed_bytes, total);
}

static void edits(enum kedge__reducer_id id)
{
	struct lab *lab = lab_new(id, 64, "none", 8192);
	struct lab_region region = {"m", b, BYTES, 0};
	struct kedge__diff_region *r;
	uint64_t x = 99;
	size_t n;

	fill_random(b, BYTES, 1);
	memset(b + 10000, 0, 10000);
	memcpy(a, b, BYTES);
	lab_save(lab, 0, &region, 1);
	for (uint64_t v = 1; v < 10; v++) {
		for (int i = 0; i < 20; i++) {
			uint64_t len = draw_below(&x, 300) + 1, at = draw_below(&x, BYTES - len);

			fill_random(b + at, len, draw_below(&x, 1u << 30));
		}
		lab_save(lab, v, &region, 1);
		r = diff(lab, 0, v, &n);
		assert_int_equal(n, 1);
		assert_int_equal(r[0].status, KEDGE__DIFF_CHANGED);
		ranges_are_exact(&r[0], a, b, BYTES);
		kedge__diff_free(r, n);
	}
	r = diff(lab, 4, 4, &n);
	assert_int_equal(r[0].status, KEDGE__DIFF_SAME);
	assert_int_equal(r[0].range_count, 0);
	kedge__diff_free(r, n);
	lab_free(lab);
}

static void test_edits(void **state)
{
	(void)state;
	edits(KEDGE__REDUCER_TREE);
	edits(KEDGE__REDUCER_REX);
	edits(KEDGE__REDUCER_FULL); /* nothing is shared: all is read */
}

static void test_regions_come_go_and_resize(void **state)
{
	struct lab *lab = lab_new(KEDGE__REDUCER_TREE, 64, "zstd", 8192);
	struct lab_region first[] = {{"gone", a, 1000, 0}, {"stays", a + 1000, 1000, 1}, {"shrinks", a + 5000, 700, 2}};
	struct lab_region second[] = {
	    {"stays", a + 1000, 1000, 1}, {"shrinks", a + 5000, 600, 2}, {"new", a + 9000, 50, 3}};
	struct kedge__diff_region *r;
	size_t n;

	(void)state;
	fill_random(a, BYTES, 1);
	lab_save(lab, 1, first, 3);
	lab_save(lab, 2, second, 3);
	r = diff(lab, 1, 2, &n);
	assert_int_equal(n, 4);
	assert_string_equal(r[0].name, "stays");
	assert_int_equal(r[0].status, KEDGE__DIFF_SAME);
	assert_int_equal(r[1].status, KEDGE__DIFF_CHANGED);
	assert_int_equal(r[1].range_count, 1);
	assert_int_equal(r[1].ranges[0].start, 600);
	assert_int_equal(r[1].ranges[0].len, 100);
	assert_int_equal(r[2].status, KEDGE__DIFF_ADDED);
	assert_int_equal(r[2].changed_bytes, 50);
	assert_string_equal(r[3].name, "gone");
	assert_int_equal(r[3].status, KEDGE__DIFF_REMOVED);
	assert_int_equal(r[3].changed_bytes, 1000);
	kedge__diff_free(r, n);
	lab_free(lab);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_edits),
					   cmocka_unit_test(test_regions_come_go_and_resize)};

	return cases_run(argc, argv, tests, NULL, NULL);
}
