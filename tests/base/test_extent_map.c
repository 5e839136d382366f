/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_extent_map.c: merging, searching, and refusing maps that cannot be right.
 */
#include "../lib/cases.h"
#include "base/extent_tape.h"

#include <stdio.h>

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
	append(&m, 640, 8, KEDGE__EXTENT_PARENT, 0, 0);
	append(&m, 700, 64, KEDGE__EXTENT_PARENT, 0, 0);
	assert_int_equal(m.count, 6);
	assert_int_equal(m.inherited.count, 2);
	append(&m, SLOT(1) - 64, 64, KEDGE__EXTENT_PARENT, 0, 0);
	append(&m, SLOT(1), 64, KEDGE__EXTENT_PARENT, 0, 0);
	assert_int_equal(m.inherited.count, 4);
	append(&m, SLOT(2), 64, KEDGE__EXTENT_COPY, SLOT(1) - 64, 3);
	append(&m, SLOT(2) + 64, 64, KEDGE__EXTENT_COPY, SLOT(1), 3);
	assert_int_equal(m.count, 8);
	assert_int_equal(kedge__extent_map_check(&m, 5, 4, 320, NULL), 0);
	kedge__extent_map_done(&m);
	assert_null(m.at);
	assert_null(m.inherited.at);
}

/* What a reader of the map sees: ADDR, LEN and a letter for the kind of each. */
static void assert_read(const struct kedge__extent_map *map, const char *want)
{
	struct kedge__extent_reader r = kedge__extents_of_map(map);
	struct kedge__extent e;
	char got[256] = "";

	while (kedge__extent_next(&r, &e)) {
		size_t used = strlen(got);

		snprintf(got + used, sizeof(got) - used, "%s%llu+%llu%c", used ? " " : "", (unsigned long long)e.addr,
			 (unsigned long long)e.len, "LPCF"[e.kind]);
	}
	assert_false(kedge__extent_next(&r, &e));
	assert_string_equal(got, want);
	assert_int_equal(kedge__extent_map_has_inherited(map), strchr(want, 'P') != NULL);
}

static void assert_inherits(const struct kedge__extent_map *map, uint64_t addr, bool inherits, uint64_t len)
{
	uint64_t got;

	assert_int_equal(kedge__extent_map_inherits(map, addr, &got), inherits);
	assert_int_equal(got, len);
}

static void test_inherited(void **state)
{
	struct kedge__extent_map m = {0};

	(void)state;
	assert_read(&m, "");
	assert_inherits(&m, 7, false, UINT64_MAX - 7);
	append(&m, 0, 100, KEDGE__EXTENT_PARENT, 0, 0);
	assert_read(&m, "0+100P");
	append(&m, 8, 8, KEDGE__EXTENT_FILL, 0, 0);
	append(&m, 16, 4, KEDGE__EXTENT_LITERAL, 0, 0);
	append(&m, 30, 70, KEDGE__EXTENT_LITERAL, 50, 0);
	assert_read(&m, "0+8P 8+8F 16+4L 20+10P 30+70L");
	assert_inherits(&m, 0, true, 100);
	assert_inherits(&m, 20, true, 80);
	assert_inherits(&m, 100, false, UINT64_MAX - 100);
	append(&m, 120, 5, KEDGE__EXTENT_LITERAL, 500, 0); /* not inherited before it, nor behind it */
	append(&m, 130, 10, KEDGE__EXTENT_PARENT, 0, 0);
	append(&m, 140, 10, KEDGE__EXTENT_COPY, 0, 1);
	assert_read(&m, "0+8P 8+8F 16+4L 20+10P 30+70L 120+5L 130+10P 140+10C");
	assert_inherits(&m, 125, false, 5);
	assert_inherits(&m, 139, true, 1);
	kedge__extent_map_done(&m);

	/* the last bytes of the space */
	append(&m, UINT64_MAX - 63, 64, KEDGE__EXTENT_PARENT, 0, 0);
	assert_read(&m, "18446744073709551552+64P");
	append(&m, UINT64_MAX - 31, 16, KEDGE__EXTENT_LITERAL, 0, 0);
	assert_read(&m, "18446744073709551552+32P 18446744073709551584+16L 18446744073709551600+16P");
	append(&m, UINT64_MAX - 15, 16, KEDGE__EXTENT_LITERAL, 50, 0);
	assert_read(&m, "18446744073709551552+32P 18446744073709551584+16L 18446744073709551600+16L");
	kedge__extent_map_done(&m);

	/* all of it is covered */
	append(&m, 0, 16, KEDGE__EXTENT_PARENT, 0, 0);
	append(&m, 0, 16, KEDGE__EXTENT_LITERAL, 0, 0);
	assert_read(&m, "0+16L");
	assert_int_equal(kedge__extent_map_check(&m, 5, KEDGE__NO_VERSION, 16, NULL), 0);
	kedge__extent_map_done(&m);
}

static void test_find(void **state)
{
	struct kedge__extent_map m = {0};

	(void)state;
	assert_int_equal(kedge__extent_map_find(&m, 5), 0);
	append(&m, 100, 50, KEDGE__EXTENT_LITERAL, 0, 0);
	append(&m, 200, 50, KEDGE__EXTENT_LITERAL, 500, 0);
	append(&m, 250, 10, KEDGE__EXTENT_FILL, 0, 0);
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
	struct kedge__extent_map m = {.at = list, .count = b.len || b.addr ? 2 : 1, .room = 2};
	struct kedge__error err = KEDGE__ERROR_INIT;

	assert_int_equal(kedge__extent_map_check(&m, 5, KEDGE__NO_VERSION, 1000, &err), KEDGE_E_DAMAGED);
	assert_non_null(strstr(kedge__error_text(&err), word));
	kedge__error_done(&err);
}

static void check_range_refused(struct kedge__range a, struct kedge__range b, const char *word)
{
	struct kedge__range list[2] = {a, b};
	struct kedge__extent_map m = {.inherited = {list, b.len || b.start ? 2 : 1, 2}};
	struct kedge__error err = KEDGE__ERROR_INIT;

	assert_int_equal(kedge__extent_map_check(&m, 5, 4, 0, &err), KEDGE_E_DAMAGED);
	assert_non_null(strstr(kedge__error_text(&err), word));
	kedge__error_done(&err);
}

static void test_check_refuses(void **state)
{
	const struct kedge__extent none = {0, 0, 0, 0, KEDGE__EXTENT_LITERAL};
	const struct kedge__extent fine = {64, 64, 0, 0, KEDGE__EXTENT_LITERAL};
	struct kedge__extent_map m = {0};

	(void)state;
	assert_int_equal(kedge__extent_map_check(&m, 5, 5, 0, NULL), KEDGE_E_DAMAGED);
	check_refused((struct kedge__extent){0, 0, 0, 0, KEDGE__EXTENT_LITERAL}, none, "empty");
	check_refused((struct kedge__extent){UINT64_MAX - 3, 64, 0, 0, KEDGE__EXTENT_LITERAL}, none, "extends beyond");
	check_refused((struct kedge__extent){SLOT(1) - 8, 16, 0, 0, KEDGE__EXTENT_LITERAL}, none, "extends beyond");
	check_refused(fine, (struct kedge__extent){100, 64, 100, 0, KEDGE__EXTENT_LITERAL}, "overlaps");
	check_refused(fine, (struct kedge__extent){0, 64, 100, 0, KEDGE__EXTENT_LITERAL}, "out of order");
	check_refused((struct kedge__extent){0, 64, 937, 0, KEDGE__EXTENT_LITERAL}, none, "outside");
	check_refused((struct kedge__extent){0, 64, UINT64_MAX, 0, KEDGE__EXTENT_LITERAL}, none, "outside");
	append(&m, 0, 64, KEDGE__EXTENT_PARENT, 0, 0);
	assert_int_equal(kedge__extent_map_check(&m, 5, KEDGE__NO_VERSION, 0, NULL), KEDGE_E_DAMAGED);
	assert_int_equal(kedge__extent_map_check(&m, 5, 4, 0, NULL), 0);
	append(&m, 0, 63, KEDGE__EXTENT_LITERAL, 0, 0);
	assert_int_equal(kedge__extent_map_check(&m, 5, KEDGE__NO_VERSION, 64, NULL), KEDGE_E_DAMAGED);
	append(&m, 63, 1, KEDGE__EXTENT_LITERAL, 63, 0);
	assert_int_equal(kedge__extent_map_check(&m, 5, KEDGE__NO_VERSION, 64, NULL), 0);
	kedge__extent_map_done(&m);
	check_refused((struct kedge__extent){0, 64, 0, 0, KEDGE__EXTENT_PARENT}, none, "unknown");
	check_range_refused((struct kedge__range){0, 0}, (struct kedge__range){0}, "range 0");
	check_range_refused((struct kedge__range){SLOT(1) - 8, 16}, (struct kedge__range){0}, "beyond its region");
	check_range_refused((struct kedge__range){64, 64}, (struct kedge__range){100, 64}, "range 1");
	check_range_refused((struct kedge__range){64, 64}, (struct kedge__range){0, 8}, "out of order");
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
	    cmocka_unit_test(test_merge),         cmocka_unit_test(test_inherited), cmocka_unit_test(test_find),
	    cmocka_unit_test(test_check_refuses), cmocka_unit_test(test_patterns),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
