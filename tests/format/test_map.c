/* SPDX-License-Identifier: BSD-3-Clause */
/* Section MAPX: runs, lists, bitmaps and columns of one extent map (by pages: test_pages.c; more of columns:
 * test_columns.c). */
#include "../lib/map.h"
#include "format_samples.h"

#define SELF 100

static struct kedge__region_record region(const char *name, uint32_t slot, uint64_t bytes)
{
	return (struct kedge__region_record){.name = (char *)name, .slot = slot, .bytes = bytes};
}

static void add(struct kedge__extent_map *map, enum kedge__extent_kind kind, uint64_t addr, uint64_t len, uint64_t src,
		uint64_t version)
{
	struct kedge__extent e = {.addr = addr, .len = len, .src = src, .version = version, .kind = kind};

	assert_int_equal(kedge__extent_map_append(map, e, false, NULL), 0);
}

/* The same map with extents that continue each other as one: what decoding gives. */
static struct kedge__extent_map merged(const struct kedge__extent_map *map)
{
	struct kedge__extent_reader r = kedge__extents_of_map(map);
	struct kedge__extent_map out = {0};
	struct kedge__extent e;

	while (kedge__extent_next(&r, &e)) {
		e.version = e.kind == KEDGE__EXTENT_COPY ? e.version : 0;
		assert_int_equal(kedge__extent_map_append(&out, e, true, NULL), 0);
	}
	return out;
}

/* Encode, decode, compare; the encoded size. */
static size_t round_trip(enum kedge__map_encoding how, enum kedge__map_encoding expect,
			 const struct kedge__extent_map *map, uint32_t chunk, const struct kedge__region_record *r,
			 size_t n)
{
	struct kedge__extent_map got = {0}, want = merged(map);
	struct kedge__bytes b = {0};
	enum kedge__map_encoding used;
	size_t bytes;

	assert_int_equal(kedge__map_encode(how, kedge__extents_of_map(map), chunk, SELF, r, n, &b, NULL), 0);
	assert_int_equal(kedge__map_decode(b.at, b.count, SELF, r, n, &used, &got, NULL), 0);
	assert_int_equal(used, expect);
	assert_true(maps_same(&got, &want));
	bytes = b.count;
	kedge__extent_map_done(&got);
	kedge__extent_map_done(&want);
	kedge__bytes_done(&b);
	return bytes;
}

static void test_full_takes_a_handful_of_bytes(void **state)
{
	const struct kedge__region_record r[] = {region("a", 0, 12345), region("b", 1, 0),
						 region("c", 7, UINT64_C(1) << 40)};
	struct kedge__extent_map map = {0};

	(void)state;
	add(&map, KEDGE__EXTENT_LITERAL, SLOT(0), 12345, 0, 0);
	add(&map, KEDGE__EXTENT_LITERAL, SLOT(7), UINT64_C(1) << 40, 12345, 0);
	assert_int_equal(round_trip(KEDGE__MAP_RUNS, KEDGE__MAP_RUNS, &map, 0, r, 3), 7);
	kedge__extent_map_done(&map);
}

static void test_unchanged_takes_no_entries(void **state)
{
	const struct kedge__region_record r[] = {region("a", 0, 12345), region("c", 7, UINT64_C(1) << 40)};
	struct kedge__extent_map map = {0};

	(void)state;
	add(&map, KEDGE__EXTENT_PARENT, SLOT(0), 12345, 0, 0);
	add(&map, KEDGE__EXTENT_PARENT, SLOT(7), UINT64_C(1) << 40, 0, 0);
	assert_int_equal(round_trip(KEDGE__MAP_RUNS, KEDGE__MAP_RUNS, &map, 64, r, 2), 3);
	assert_int_equal(round_trip(KEDGE__MAP_LIST, KEDGE__MAP_LIST, &map, 64, r, 2), 3);
	kedge__extent_map_done(&map);
}

/* The example of FORMAT.md, byte for byte. */
static void test_example(void **state)
{
	static const uint8_t expect[] = {0x00, 0x40, 0x01, 0x0a, 0x14, 0x05, 0x02,
					 0x14, 0x03, 0x01, 0x00, 0x06, 0x00, 0x00};
	const struct kedge__region_record r[] = {region("a", 0, 640), region("b", 1, 100)};
	struct kedge__extent_map map = {0};
	struct kedge__bytes b = {0};

	(void)state;
	add(&map, KEDGE__EXTENT_PARENT, 0, 128, 0, 0);
	add(&map, KEDGE__EXTENT_LITERAL, 128, 128, 0, 0);
	add(&map, KEDGE__EXTENT_COPY, 256, 64, 64, 90);
	add(&map, KEDGE__EXTENT_FILL, 320, 64, 0, 0);
	add(&map, KEDGE__EXTENT_COPY, 384, 256, 128, 90);
	add(&map, KEDGE__EXTENT_PARENT, SLOT(1), 100, 0, 0);
	assert_int_equal(kedge__map_encode(KEDGE__MAP_RUNS, kedge__extents_of_map(&map), 64, SELF, r, 2, &b, NULL), 0);
	assert_int_equal(b.count, sizeof(expect));
	assert_memory_equal(b.at, expect, sizeof(expect));
	kedge__bytes_done(&b);
	round_trip(KEDGE__MAP_RUNS, KEDGE__MAP_RUNS, &map, 64, r, 2);
	round_trip(KEDGE__MAP_LIST, KEDGE__MAP_LIST, &map, 64, r, 2);
	kedge__extent_map_done(&map);
}

static void test_odd_ranges(void **state)
{
	const struct kedge__region_record r[] = {region("a", 0, 1000), region("b", 3, 77)};
	struct kedge__extent_map map = {0};

	(void)state;
	add(&map, KEDGE__EXTENT_PARENT, 0, 3, 0, 0);
	add(&map, KEDGE__EXTENT_LITERAL, 3, 5, 0, 0);
	add(&map, KEDGE__EXTENT_PARENT, 8, 128, 0, 0);
	add(&map, KEDGE__EXTENT_FILL, 136, 101, UINT64_C(0x123456789abcdef0), 0);
	add(&map, KEDGE__EXTENT_COPY, 237, 1, SLOT(1048575) + 5, 0);
	add(&map, KEDGE__EXTENT_COPY, 238, 100, 1, SELF);
	add(&map, KEDGE__EXTENT_LITERAL, 338, 60, 700, 0);
	add(&map, KEDGE__EXTENT_LITERAL, 398, 64, 5, 0);
	add(&map, KEDGE__EXTENT_PARENT, 462, 538, 0, 0);
	add(&map, KEDGE__EXTENT_LITERAL, SLOT(3), 77, 69, 0);
	for (uint32_t chunk = 32; chunk <= 65536; chunk *= 2)
		for (int how = 0; how < 3; how++)
			round_trip((enum kedge__map_encoding)how, KEDGE__MAP_RUNS, &map, chunk, r, 2);
	round_trip(KEDGE__MAP_BITMAP, KEDGE__MAP_RUNS, &map, 0, r, 2);
	round_trip(KEDGE__MAP_COLUMNS, KEDGE__MAP_COLUMNS, &map, 0, r, 2);
	round_trip(KEDGE__MAP_COLUMNS, KEDGE__MAP_COLUMNS, &map, 64, r, 2);
	kedge__extent_map_done(&map);
}

/* Bytes that follow each other in the address space and yet belong to two regions. */
static void test_copies_of_neighbours(void **state)
{
	const struct kedge__region_record r[] = {region("a", 0, 128)};
	struct kedge__extent_map map = {0};

	(void)state;
	add(&map, KEDGE__EXTENT_COPY, 0, 64, SLOT(1) - 64, 5);
	add(&map, KEDGE__EXTENT_COPY, 64, 64, SLOT(1), 5);
	round_trip(KEDGE__MAP_RUNS, KEDGE__MAP_RUNS, &map, 64, r, 1);
	round_trip(KEDGE__MAP_LIST, KEDGE__MAP_LIST, &map, 64, r, 1);
	kedge__extent_map_done(&map);
}

static void test_bitmap(void **state)
{
	const struct kedge__region_record r[] = {region("a", 0, 64 * 5 + 1), region("b", 1, 0), region("c", 2, 64 * 3)};
	struct kedge__extent_map map = {0};

	(void)state;
	add(&map, KEDGE__EXTENT_LITERAL, 0, 64, 0, 0);
	add(&map, KEDGE__EXTENT_PARENT, 64, 128, 0, 0);
	add(&map, KEDGE__EXTENT_LITERAL, 192, 129, 64, 0);
	add(&map, KEDGE__EXTENT_LITERAL, SLOT(2), 192, 193, 0);
	assert_int_equal(round_trip(KEDGE__MAP_BITMAP, KEDGE__MAP_BITMAP, &map, 64, r, 3), 2 + 2);
	map.at[2].src = 0;
	round_trip(KEDGE__MAP_BITMAP, KEDGE__MAP_RUNS, &map, 64, r, 3);
	map.at[2].kind = KEDGE__EXTENT_FILL;
	round_trip(KEDGE__MAP_BITMAP, KEDGE__MAP_RUNS, &map, 64, r, 3);
	kedge__extent_map_done(&map);
}

static void test_random_bitmaps(void **state)
{
	uint64_t seed = 5;

	(void)state;
	for (int round = 0; round < 300; round++) {
		const struct kedge__region_record r[] = {region("a", 0, draw(&seed) % 30000),
							 region("b", 1, draw(&seed) % 70),
							 region("c", 2, draw(&seed) % 30000)};
		struct kedge__extent_map map = {0};
		uint64_t chunks = 0, literals = 0;

		for (int k = 0; k < 3; k++) {
			chunks += (r[k].bytes + 31) / 32;
			for (uint64_t at = 0, len; at < r[k].bytes; at += len) {
				bool literal = draw(&seed) % 2;
				uint64_t run = 32 * (1 + draw(&seed) % (round % 2 ? 200 : 3));

				len = KEDGE__MIN(r[k].bytes - at, run);
				add(&map, literal ? KEDGE__EXTENT_LITERAL : KEDGE__EXTENT_PARENT, SLOT(k) + at, len,
				    literal ? literals : 0, 0);
				literals += literal ? len : 0;
			}
		}
		assert_int_equal(round_trip(KEDGE__MAP_BITMAP, KEDGE__MAP_BITMAP, &map, 32, r, 3),
				 2 + (chunks + 7) / 8);
		kedge__extent_map_done(&map);
	}
}

/* A chunk may be anything; LIST has an entry for each that is not at its old place, RUNS one for each run. */
static void random_map(struct kedge__extent_map *map, struct kedge__region_record *r, size_t n, uint32_t chunk,
		       uint64_t *seed)
{
	uint64_t literals = 0, src = 0;

	for (size_t k = 0; k < n; k++) {
		uint64_t run = 0;
		unsigned kind = 0;

		r[k] = region("r", (uint32_t)(3 * k), draw(seed) % 40 * chunk + draw(seed) % 3 * 7);
		for (uint64_t at = 0; at < r[k].bytes; at += chunk) {
			uint64_t len = KEDGE__MIN((uint64_t)chunk, r[k].bytes - at);
			uint64_t version = SELF - draw(seed) % 3 * 7;

			if (run-- == 0) {
				run = draw(seed) % 6;
				kind = draw(seed) % 4;
				src = SLOT(draw(seed) % 9) + draw(seed) % 1000 * chunk;
			}
			if (kind == KEDGE__EXTENT_LITERAL)
				add(map, kind, SLOT(r[k].slot) + at, len, literals, 0);
			else if (kind == KEDGE__EXTENT_COPY)
				add(map, kind, SLOT(r[k].slot) + at, len, src, run % 2 ? version : SELF - 7);
			else
				add(map, kind, SLOT(r[k].slot) + at, len, 0, 0);
			literals += kind == KEDGE__EXTENT_LITERAL ? len : 0;
			src += chunk;
		}
	}
}

static void test_random_maps_and_sizes(void **state)
{
	uint64_t seed = 3;

	(void)state;
	for (int round = 0; round < 2000; round++) {
		uint32_t chunk = 32u << draw(&seed) % 12;
		size_t n = 1 + draw(&seed) % 5, runs, list;
		struct kedge__region_record r[5];
		struct kedge__extent_map map = {0};

		random_map(&map, r, n, chunk, &seed);
		runs = round_trip(KEDGE__MAP_RUNS, KEDGE__MAP_RUNS, &map, chunk, r, n);
		list = round_trip(KEDGE__MAP_LIST, KEDGE__MAP_LIST, &map, chunk, r, n);
		assert_true(runs <= list);
		round_trip(KEDGE__MAP_COLUMNS, KEDGE__MAP_COLUMNS, &map, chunk, r, n);
		kedge__extent_map_done(&map);
	}
}

/* Ranges that have nothing to do with chunks: what coalescing may write. */
static void test_random_odd_maps(void **state)
{
	uint64_t seed = 9;

	(void)state;
	for (int round = 0; round < 2000; round++) {
		uint32_t chunk = round % 8 ? 32u << draw(&seed) % 5 : 0;
		const struct kedge__region_record r[] = {region("x", 1, draw(&seed) % 5000),
							 region("y", 9, draw(&seed) % 50)};
		struct kedge__extent_map map = {0};

		for (int k = 0; k < 2; k++)
			for (uint64_t at = 0, len; at < r[k].bytes; at += len) {
				len = 1 + draw(&seed) % KEDGE__MIN(r[k].bytes - at, (uint64_t)300);
				add(&map, draw(&seed) % 4, SLOT(r[k].slot) + at, len, draw(&seed) % 100000,
				    draw(&seed) % (SELF + 1));
			}
		round_trip(KEDGE__MAP_RUNS, KEDGE__MAP_RUNS, &map, chunk, r, 2);
		round_trip(KEDGE__MAP_COLUMNS, KEDGE__MAP_COLUMNS, &map, chunk, r, 2);
		kedge__extent_map_done(&map);
	}
}

static void test_scattered_changes_cost_two_bytes(void **state)
{
	const struct kedge__region_record r[] = {region("a", 0, 64 * 100 * 1000)};
	struct kedge__extent_map map = {0};

	(void)state;
	for (uint64_t i = 0; i < 1000; i++) {
		add(&map, KEDGE__EXTENT_LITERAL, i * 6400, 64, i * 64, 0);
		add(&map, KEDGE__EXTENT_PARENT, i * 6400 + 64, 6336, 0, 0);
	}
	assert_true(round_trip(KEDGE__MAP_RUNS, KEDGE__MAP_RUNS, &map, 64, r, 1) <= 2005);
	kedge__extent_map_done(&map);
}

static int encode_rc(const struct kedge__extent_map *map, const struct kedge__region_record *r, size_t n)
{
	struct kedge__bytes b = {0};
	int rc = kedge__map_encode(KEDGE__MAP_RUNS, kedge__extents_of_map(map), 64, SELF, r, n, &b, NULL);

	if (rc != 0)
		assert_int_equal(b.count, 0);
	kedge__bytes_done(&b);
	return rc;
}

static void test_maps_that_do_not_cover(void **state)
{
	const struct kedge__region_record r[] = {region("a", 0, 128), region("b", 1, 64)};
	struct kedge__extent_map map = {0};

	(void)state;
	assert_int_equal(encode_rc(&map, r, 2), KEDGE_E_ARG);
	add(&map, KEDGE__EXTENT_LITERAL, 0, 128, 0, 0);
	assert_int_equal(encode_rc(&map, r, 2), KEDGE_E_ARG);
	assert_int_equal(encode_rc(&map, r, 1), 0);
	assert_int_equal(encode_rc(&map, r, 0), KEDGE_E_ARG);
	add(&map, KEDGE__EXTENT_COPY, SLOT(1), 64, 0, SELF + 1);
	assert_int_equal(encode_rc(&map, r, 2), KEDGE_E_ARG);
	map.at[1].version = SELF;
	assert_int_equal(encode_rc(&map, r, 2), 0);
	map.at[0].len = 129;
	assert_int_equal(encode_rc(&map, r, 2), KEDGE_E_ARG);
	map.at[0].len = 127;
	assert_int_equal(encode_rc(&map, r, 2), KEDGE_E_ARG);
	kedge__extent_map_done(&map);
}

static void refused(const void *raw, size_t bytes, int code, const char *says)
{
	const struct kedge__region_record r[] = {region("a", 0, 128), region("b", 1, 65)};
	struct kedge__error err = KEDGE__ERROR_INIT;
	struct kedge__extent_map map = {0};
	enum kedge__map_encoding how;

	assert_refused(kedge__map_decode(raw, bytes, SELF, r, 2, &how, &map, &err), code, &err, says);
	assert_null(map.at);
}

#define REFUSED(raw, code, says) refused(raw, sizeof(raw) - 1, code, says)

static void test_decode_refused(void **state)
{
	(void)state;
	REFUSED("", KEDGE_E_DAMAGED, "head");
	REFUSED("\0", KEDGE_E_DAMAGED, "head");
	REFUSED("\0\x21\0", KEDGE_E_DAMAGED, "head");
	REFUSED("\5\x40\0", KEDGE_E_FORMAT, "encoding 5");
	REFUSED("\4\x40\0", KEDGE_E_DAMAGED, "impossible size");
	REFUSED("\2\0\7", KEDGE_E_DAMAGED, "chunk size");
	REFUSED("\1\0\0", KEDGE_E_DAMAGED, "chunk size");
	REFUSED("\0\x40", KEDGE_E_DAMAGED, "versions");
	REFUSED("\0\x40\xff\xff\xff\xff\x0f", KEDGE_E_DAMAGED, "more versions");
	REFUSED("\0\x40\1\x65", KEDGE_E_DAMAGED, "table of versions");
	REFUSED("\0\x40\2\x01\0", KEDGE_E_DAMAGED, "table of versions");
	REFUSED("\0\x40\0\x80", KEDGE_E_DAMAGED, "malformed");
	REFUSED("\0\x40\0\0\0\0\0\0", KEDGE_E_DAMAGED, "beyond the last region");
	REFUSED("\0\x40\0\x28\0", KEDGE_E_DAMAGED, "beyond the last region");
	REFUSED("\0\x40\0\x20\0", KEDGE_E_DAMAGED, "beyond the last region");
	REFUSED("\0\x40\0\4\7", KEDGE_E_DAMAGED, "beyond its region");
	REFUSED("\0\x40\0\4\1", KEDGE_E_DAMAGED, "empty");
	REFUSED("\0\x40\0\4\2", KEDGE_E_DAMAGED, "empty");
	REFUSED("\0\x40\0\3\2", KEDGE_E_DAMAGED, "pattern");
	REFUSED("\0\x40\0\3\x08"
		"1234567",
		KEDGE_E_DAMAGED, "pattern");
	REFUSED("\0\x40\0\2\1\1", KEDGE_E_DAMAGED, "not in the table of versions");
	REFUSED("\0\x40\1\1\2\6\0", KEDGE_E_DAMAGED, "invalid encoding");
	REFUSED("\0\x40\1\1\2\2\1", KEDGE_E_DAMAGED, "within one region");
	REFUSED("\1\x40\0\4\0", KEDGE_E_DAMAGED, "larger than a chunk");
	REFUSED("\2\x40", KEDGE_E_DAMAGED, "bitmap");
	REFUSED("\2\x40\1\1", KEDGE_E_DAMAGED, "bitmap");
	REFUSED("\2\x40\x11", KEDGE_E_DAMAGED, "bits are set after");
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_full_takes_a_handful_of_bytes),
	    cmocka_unit_test(test_unchanged_takes_no_entries),
	    cmocka_unit_test(test_example),
	    cmocka_unit_test(test_odd_ranges),
	    cmocka_unit_test(test_copies_of_neighbours),
	    cmocka_unit_test(test_bitmap),
	    cmocka_unit_test(test_random_bitmaps),
	    cmocka_unit_test(test_random_maps_and_sizes),
	    cmocka_unit_test(test_random_odd_maps),
	    cmocka_unit_test(test_scattered_changes_cost_two_bytes),
	    cmocka_unit_test(test_maps_that_do_not_cover),
	    cmocka_unit_test(test_decode_refused),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
