/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_extent_map.c: merging, searching, and refusing maps that cannot be right.
 */
#include "../lib/cases.h"
#include "base/extent_map.h"

#define SLOT(n) ((uint64_t)(n) << KEDGE__SLOT_SHIFT)

static void append(struct kedge__extent_map *map, uint64_t addr, uint64_t len, enum kedge__extent_kind kind,
		   uint64_t src, uint64_t version)
{
	struct kedge__extent e = {addr, len, src, version, kind};

	assert_int_equal(kedge__extent_map_append(map, e, true, NULL), 0);
}

static void test_merge(void **state)
{
	struct kedge__extent_map m = {0};

	(void)state;
	append(&m, 0, 64, KEDGE__EXTENT_LITERAL, 0, 0);
	append(&m, 64, 64, KEDGE__EXTENT_LITERAL, 64, 0);
	assert_int_equal(m.count, 1);
	append(&m, 128, 64, KEDGE__EXTENT_LITERAL, 256, 0);
	assert_int_equal(m.count, 2);
	append(&m, 192, 64, KEDGE__EXTENT_COPY, 1024, 3);
	append(&m, 256, 64, KEDGE__EXTENT_COPY, 1088, 3);
	append(&m, 320, 64, KEDGE__EXTENT_COPY, 1152, 4);
	assert_int_equal(m.count, 4);
	append(&m, 384, 64, KEDGE__EXTENT_FILL, 7, 0);
	append(&m, 448, 64, KEDGE__EXTENT_FILL, 7, 0);
	append(&m, 512, 64, KEDGE__EXTENT_FILL, 8, 0);
	assert_int_equal(m.count, 6);
	append(&m, 576, 0, KEDGE__EXTENT_PARENT, 0, 0);
	append(&m, 576, 64, KEDGE__EXTENT_PARENT, 0, 0);
	append(&m, 700, 64, KEDGE__EXTENT_PARENT, 0, 0);
	assert_int_equal(m.count, 8);
	append(&m, SLOT(1) - 64, 64, KEDGE__EXTENT_PARENT, 0, 0);
	append(&m, SLOT(1), 64, KEDGE__EXTENT_PARENT, 0, 0);
	assert_int_equal(m.count, 10);
	append(&m, SLOT(2), 64, KEDGE__EXTENT_COPY, SLOT(1) - 64, 3);
	append(&m, SLOT(2) + 64, 64, KEDGE__EXTENT_COPY, SLOT(1), 3);
	assert_int_equal(m.count, 12);
	assert_int_equal(kedge__extent_map_check(&m, 5, 4, 320, NULL), 0);
	kedge__extent_map_done(&m);
	assert_null(m.at);
}

static void test_find(void **state)
{
	struct kedge__extent_map m = {0};

	(void)state;
	assert_int_equal(kedge__extent_map_find(&m, 5), 0);
	append(&m, 100, 50, KEDGE__EXTENT_LITERAL, 0, 0);
	append(&m, 200, 50, KEDGE__EXTENT_LITERAL, 500, 0);
	append(&m, 250, 10, KEDGE__EXTENT_PARENT, 0, 0);
	assert_int_equal(kedge__extent_map_find(&m, 0), 0);
	assert_int_equal(kedge__extent_map_find(&m, 100), 0);
	assert_int_equal(kedge__extent_map_find(&m, 149), 0);
	assert_int_equal(kedge__extent_map_find(&m, 150), 1);
	assert_int_equal(kedge__extent_map_find(&m, 249), 1);
	assert_int_equal(kedge__extent_map_find(&m, 250), 2);
	assert_int_equal(kedge__extent_map_find(&m, 260), 3);
	kedge__extent_map_done(&m);
}

static void check_refused(struct kedge__extent a, struct kedge__extent b, const char *word)
{
	struct kedge__extent list[2] = {a, b};
	struct kedge__extent_map m = {list, b.len || b.addr ? 2 : 1, 2};
	struct kedge__error err = KEDGE__ERROR_INIT;

	assert_int_equal(kedge__extent_map_check(&m, 5, KEDGE__NO_VERSION, 1000, &err), KEDGE_E_DAMAGED);
	assert_non_null(strstr(kedge__error_text(&err), word));
	kedge__error_done(&err);
}

static void test_check_refuses(void **state)
{
	const struct kedge__extent none = {0, 0, 0, 0, KEDGE__EXTENT_LITERAL};
	const struct kedge__extent fine = {64, 64, 0, 0, KEDGE__EXTENT_LITERAL};
	struct kedge__extent_map m = {NULL, 0, 0};

	(void)state;
	assert_int_equal(kedge__extent_map_check(&m, 5, 5, 0, NULL), KEDGE_E_DAMAGED);
	check_refused((struct kedge__extent){0, 0, 0, 0, KEDGE__EXTENT_LITERAL}, none, "empty");
	check_refused((struct kedge__extent){UINT64_MAX - 3, 64, 0, 0, KEDGE__EXTENT_LITERAL}, none, "extends beyond");
	check_refused((struct kedge__extent){SLOT(1) - 8, 16, 0, 0, KEDGE__EXTENT_LITERAL}, none, "extends beyond");
	check_refused(fine, (struct kedge__extent){100, 64, 100, 0, KEDGE__EXTENT_LITERAL}, "overlaps");
	check_refused(fine, (struct kedge__extent){0, 64, 100, 0, KEDGE__EXTENT_LITERAL}, "out of order");
	check_refused((struct kedge__extent){0, 64, 937, 0, KEDGE__EXTENT_LITERAL}, none, "outside");
	check_refused((struct kedge__extent){0, 64, UINT64_MAX, 0, KEDGE__EXTENT_LITERAL}, none, "outside");
	check_refused((struct kedge__extent){0, 64, 0, 0, KEDGE__EXTENT_PARENT}, none, "parent");
	check_refused((struct kedge__extent){0, 64, 0, 6, KEDGE__EXTENT_COPY}, none, "newer");
	check_refused((struct kedge__extent){0, 64, SLOT(1) - 8, 5, KEDGE__EXTENT_COPY}, none, "more than one region");
	check_refused((struct kedge__extent){4, 64, 0, 0, KEDGE__EXTENT_FILL}, none, "pattern");
	check_refused((struct kedge__extent){0, 64, 0, 0, (enum kedge__extent_kind)9}, none, "unknown");
	/* the very last byte of the space: nothing can follow */
	check_refused((struct kedge__extent){UINT64_MAX - 63, 64, 0, 0, KEDGE__EXTENT_LITERAL},
		      (struct kedge__extent){0, 64, 64, 0, KEDGE__EXTENT_LITERAL}, "out of order");
}

/* LEN bytes from ADDR on, in a buffer with something before and behind them. */
static void check_pattern(uint64_t pattern, uint64_t addr, size_t len)
{
	uint8_t got[64];

	memset(got, 0xa5, sizeof(got));
	kedge__fill_pattern(pattern, addr, got + 8, len);
	for (size_t i = 0; i < sizeof(got); i++)
		assert_int_equal(got[i], i < 8 || i >= 8 + len ? 0xa5 : (uint8_t)(pattern >> 8 * ((addr + i - 8) & 7)));
}

static void test_patterns(void **state)
{
	(void)state;
	for (uint64_t addr = 0; addr < 16; addr++)
		for (size_t len = 0; len <= 40; len++) {
			check_pattern(UINT64_C(0x0807060504030201), addr, len);
			check_pattern(UINT64_C(0x7777777777777777), addr, len);
			check_pattern(0, addr, len);
		}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_merge),
	    cmocka_unit_test(test_find),
	    cmocka_unit_test(test_check_refuses),
	    cmocka_unit_test(test_patterns),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
