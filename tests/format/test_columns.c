/* SPDX-License-Identifier: BSD-3-Clause */
/* Section MAPX in columns, and packed strings: sizes, numbers of every size, and bytes that nobody wrote. */
#include "../lib/map.h"
#include "format/wire.h"
#include "format_samples.h"

#include <zstd.h>

#define SELF 100

static size_t encode(enum kedge__map_encoding how, const struct kedge__extent_map *map, uint32_t chunk,
		     const struct kedge__region_record *r, size_t n, struct kedge__bytes *b)
{
	assert_int_equal(kedge__map_encode(how, kedge__extents_of_map(map), chunk, SELF, r, n, b, NULL), 0);
	return b->count;
}

static void assert_same(const struct kedge__extent_map *map, const struct kedge__bytes *b,
			const struct kedge__region_record *r, size_t n)
{
	struct kedge__extent_map got = {0};
	enum kedge__map_encoding how;

	assert_int_equal(kedge__map_decode(b->at, b->count, SELF, r, n, &how, &got, NULL), 0);
	assert_int_equal(how, KEDGE__MAP_COLUMNS);
	assert_true(maps_same(&got, map));
	kedge__extent_map_done(&got);
}

/* The map of the example of runs. */
static void example_map(struct kedge__extent_map *map)
{
	sample_extent(map, KEDGE__EXTENT_PARENT, 0, 128, 0, 0);
	sample_extent(map, KEDGE__EXTENT_LITERAL, 128, 128, 0, 0);
	sample_extent(map, KEDGE__EXTENT_COPY, 256, 64, 64, 90);
	sample_extent(map, KEDGE__EXTENT_FILL, 320, 64, 0, 0);
	sample_extent(map, KEDGE__EXTENT_COPY, 384, 256, 128, 90);
	sample_extent(map, KEDGE__EXTENT_PARENT, SLOT(1), 100, 0, 0);
}

/* The example of FORMAT.md, byte for byte. */
static void test_example(void **state)
{
	static const uint8_t expect[] = {0x04, 0x40, 0x01, 0x0a, 0x04, 0x02, 0x00, 0x14, 0x33, 0x04, 0x00, 0x02,
					 0x00, 0x00, 0x00, 0x02, 0x00, 0x05, 0x00, 0x01, 0x00, 0x00, 0x00, 0x00,
					 0x02, 0x00, 0x05, 0x00, 0x02, 0x00, 0x01, 0x00, 0x00, 0x00};
	const struct kedge__region_record r[] = {sample_region(0, 640), sample_region(1, 100)};
	struct kedge__extent_map map = {0};
	struct kedge__bytes b = {0};

	(void)state;
	example_map(&map);
	encode(KEDGE__MAP_COLUMNS, &map, 64, r, 2, &b);
	assert_int_equal(b.count, sizeof(expect));
	assert_memory_equal(b.at, expect, sizeof(expect));
	assert_same(&map, &b, r, 2);
	kedge__bytes_done(&b);
	kedge__extent_map_done(&map);
}

/* One chunk in a hundred: the places alone hold 8.08 bits a chunk, runs take 15. */
static void test_scattered_changes_cost_a_byte(void **state)
{
	const struct kedge__region_record r[] = {sample_region(0, UINT64_C(64) << 20)};
	struct kedge__extent_map map = {0};
	struct kedge__bytes b = {0}, runs = {0};
	uint64_t literals = 0, changed = 0, seed = 11;

	(void)state;
	for (uint64_t at = 0; at < r[0].bytes; at += 64) {
		bool literal = draw(&seed) % 100 == 0;

		sample_extent(&map, literal ? KEDGE__EXTENT_LITERAL : KEDGE__EXTENT_PARENT, at, 64,
			      literal ? literals : 0, 0);
		literals += literal ? 64 : 0;
		changed += literal;
	}
	assert_in_range(encode(KEDGE__MAP_COLUMNS, &map, 64, r, 1, &b), changed, changed * 106 / 100);
	assert_true(encode(KEDGE__MAP_RUNS, &map, 64, r, 1, &runs) > changed * 180 / 100);
	assert_same(&map, &b, r, 1);
	kedge__bytes_done(&b);
	kedge__bytes_done(&runs);
	kedge__extent_map_done(&map);
}

/* Columns are taken only where they are smaller, and how large runs would be is known exactly. */
static void test_the_smaller_one(void **state)
{
	uint64_t seed = 6;
	size_t columns = 0;

	(void)state;
	for (int round = 0; round < 2000; round++) {
		const struct kedge__region_record r = sample_region(0, 64 * (1 + draw(&seed) % 300));
		struct kedge__bytes b[3] = {{0}};
		struct kedge__extent_map map = {0};

		for (uint64_t at = 0, literals = 0; at < r.bytes; at += 64) {
			uint64_t kind = draw(&seed) % 50 < 4 ? draw(&seed) % 4 : 1,
				 src = draw(&seed) % (1u << round % 30);

			if (kind == KEDGE__EXTENT_LITERAL)
				src = literals;
			sample_extent(&map, (enum kedge__extent_kind)kind, at, 64, kind == 1 ? 0 : src,
				      kind == KEDGE__EXTENT_COPY ? SELF - draw(&seed) % 4 : 0);
			literals += kind == KEDGE__EXTENT_LITERAL ? 64 : 0;
		}
		encode(KEDGE__MAP_RUNS, &map, 64, &r, 1, &b[0]);
		encode(KEDGE__MAP_COLUMNS, &map, 64, &r, 1, &b[1]);
		encode(KEDGE__MAP_SMALLER, &map, 64, &r, 1, &b[2]);
		assert_int_equal(b[2].count, KEDGE__MIN(b[0].count, b[1].count));
		columns += b[2].at[0] == KEDGE__MAP_COLUMNS;
		for (int i = 0; i < 3; i++)
			kedge__bytes_done(&b[i]);
		kedge__extent_map_done(&map);
	}
	assert_in_range(columns, 1, 1999);
}

/* Gaps and distances from 0 to beyond 2^33, around every power of two. */
static void test_numbers_of_every_size(void **state)
{
	const struct kedge__region_record r[] = {sample_region(0, UINT64_C(1) << 43)};
	struct kedge__extent_map map = {0};
	struct kedge__bytes b = {0};
	uint64_t at = 0, seed = 4;

	(void)state;
	for (unsigned bit = 0; bit < 36; bit++)
		for (uint64_t i = 0; i < 3; i++) {
			uint64_t gap = (UINT64_C(1) << bit) + i - 1 + draw(&seed) % (UINT64_C(1) << bit);

			if (gap)
				sample_extent(&map, KEDGE__EXTENT_PARENT, at, gap * 16, 0, 0);
			sample_extent(&map, KEDGE__EXTENT_COPY, at + gap * 16, 16,
				      SLOT(bit) + draw(&seed) % (1u << bit % 30) * 16, i);
			at += gap * 16 + 16;
		}
	assert_true(at < r[0].bytes);
	sample_extent(&map, KEDGE__EXTENT_PARENT, at, r[0].bytes - at, 0, 0);
	encode(KEDGE__MAP_COLUMNS, &map, 16, r, 1, &b);
	assert_same(&map, &b, r, 1);
	kedge__bytes_done(&b);
	kedge__extent_map_done(&map);
}

/* Whatever the bytes are, they are refused, or mean a map that covers the regions. */
static int decode_any(const uint8_t *at, size_t n, const struct kedge__region_record *r, size_t regions)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	struct kedge__extent_map got = {0};
	struct kedge__extent_reader extents;
	struct kedge__extent e;
	enum kedge__map_encoding how;
	uint64_t bytes = 0;
	int rc = kedge__map_decode(at, n, SELF, r, regions, &how, &got, &err);

	extents = kedge__extents_of_map(&got);
	while (rc == 0 && kedge__extent_next(&extents, &e))
		bytes += e.len;
	for (size_t i = 0; rc == 0 && i < regions; i++)
		bytes -= r[i].bytes;
	assert_int_equal(bytes, 0);
	assert_true(rc == 0 || rc == KEDGE_E_DAMAGED || rc == KEDGE_E_FORMAT);
	kedge__extent_map_done(&got);
	kedge__error_done(&err);
	return rc;
}

static void some_map(struct kedge__extent_map *map, const struct kedge__region_record *r)
{
	uint64_t literals = 0, seed = 21;

	for (uint64_t at = 0; at < r->bytes; at += 64) {
		uint64_t kind = draw(&seed) % 4, src = draw(&seed) % 5000 * 64;

		if (kind == KEDGE__EXTENT_LITERAL)
			sample_extent(map, KEDGE__EXTENT_LITERAL, at, 64, literals, 0);
		else if (kind == KEDGE__EXTENT_COPY)
			sample_extent(map, KEDGE__EXTENT_COPY, at, 64, src, SELF - draw(&seed) % 4);
		else
			sample_extent(map, (enum kedge__extent_kind)kind, at, 64, 0, 0);
		literals += kind == KEDGE__EXTENT_LITERAL ? 64 : 0;
	}
}

static void test_every_flip_and_every_end(void **state)
{
	const struct kedge__region_record r = sample_region(0, 64 * 700);
	struct kedge__extent_map map = {0};
	struct kedge__bytes b = {0};

	(void)state;
	some_map(&map, &r);
	encode(KEDGE__MAP_COLUMNS, &map, 64, &r, 1, &b);
	assert_same(&map, &b, &r, 1);
	for (size_t i = 0; i < b.count; i++) {
		uint8_t *exact = malloc(i + 1); /* so that a sanitizer sees what is read behind it */

		for (int bit = 0; bit < 8; bit++) {
			b.at[i] ^= (uint8_t)(1 << bit);
			decode_any(b.at, b.count, &r, 1);
			b.at[i] ^= (uint8_t)(1 << bit);
		}
		memcpy(exact, b.at, i);
		assert_int_equal(decode_any(exact, i, &r, 1), KEDGE_E_DAMAGED);
		free(exact);
	}
	kedge__bytes_done(&b);
	kedge__extent_map_done(&map);
}

static void test_random_bytes_in_columns(void **state)
{
	const struct kedge__region_record r = sample_region(0, 64 * 50);
	uint64_t seed = 77;

	(void)state;
	for (int round = 0; round < 20000; round++) {
		struct kedge__bytes b = {0};
		struct kedge__wire_out w = kedge__wire_out_init(&b);
		uint64_t entries = draw(&seed) % 12;

		kedge__wire_put(&w, "\4\x40\2\1\3", 5);
		kedge__wire_put_varint(&w, entries);
		for (int column = 0; column < 8; column++) {
			uint8_t text[16];
			size_t n = column == 1 ? (size_t)entries : (size_t)(draw(&seed) % 8);

			for (size_t i = 0; i < n; i++)
				text[i] = (uint8_t)(draw(&seed) % (draw(&seed) % 2 ? 8 : 256));
			kedge__packed_put(&w, text, n, 0);
		}
		decode_any(b.at, b.count, &r, 1);
		kedge__bytes_done(&b);
	}
}

static int unpack(const struct kedge__bytes *b, struct kedge__error *err)
{
	uint8_t *raw;
	size_t n;
	int rc = kedge__section_unpack(b->at, b->count, &raw, &n, err);

	if (rc == 0)
		kedge__free(raw);
	return rc;
}

static void put_packed(struct kedge__bytes *b, uint64_t raw, const void *stored, size_t bytes)
{
	struct kedge__wire_out w = kedge__wire_out_init(b);

	b->count = 0;
	kedge__wire_put_varint(&w, raw);
	kedge__wire_put_varint(&w, raw - bytes);
	kedge__wire_put(&w, stored, bytes);
}

/* A small file must not make a reader allocate or unpack much more than what it has. */
static void test_what_expands_too_much_is_refused(void **state)
{
	size_t raw = (size_t)80 << 20, n;
	uint8_t *zeros = calloc(1, raw), stored[1 << 16];
	struct kedge__error err = KEDGE__ERROR_INIT;
	struct kedge__bytes b = {0};

	(void)state;
	n = ZSTD_compress(stored, sizeof(stored), zeros, raw, 1);
	assert_false(ZSTD_isError(n));
	put_packed(&b, raw, stored, n);
	assert_refused(unpack(&b, &err), KEDGE_E_DAMAGED, &err, "impossible size");
	put_packed(&b, UINT64_C(1) << 60, stored, n);
	assert_refused(unpack(&b, &err), KEDGE_E_DAMAGED, &err, "impossible size");
	put_packed(&b, 1 << 20, stored, n); /* more than was announced */
	assert_refused(unpack(&b, &err), KEDGE_E_DAMAGED, &err, "cannot be unpacked");
	put_packed(&b, raw / 8, stored, ZSTD_compress(stored, sizeof(stored), zeros, raw / 8, 1));
	assert_int_equal(unpack(&b, &err), 0);
	b.at[b.count - 1] ^= 1;
	b.count--;
	assert_refused(unpack(&b, &err), KEDGE_E_DAMAGED, &err, "packed bytes");
	free(zeros);
	kedge__bytes_done(&b);
}

static void test_sections_are_packed_if_that_saves_something(void **state)
{
	struct kedge__bytes text = {0};
	struct kedge__wire_out w = kedge__wire_out_init(&text);
	uint64_t seed = 3;
	uint8_t *raw;
	size_t n;
	bool packed;

	(void)state;
	for (int i = 0; i < 100; i++)
		kedge__wire_put64(&w, (uint64_t)i % 7);
	assert_int_equal(kedge__section_pack(&text, &packed, NULL), 0);
	assert_true(packed && text.count < 100);
	assert_int_equal(kedge__section_unpack(text.at, text.count, &raw, &n, NULL), 0);
	assert_int_equal(n, 800);
	for (int i = 0; i < 100; i++)
		assert_int_equal(kedge__get64(raw + 8 * i), i % 7);
	kedge__free(raw);
	text.count = 0;
	for (int i = 0; i < 100; i++)
		kedge__wire_put64(&w, draw(&seed));
	assert_int_equal(kedge__section_pack(&text, &packed, NULL), 0);
	assert_true(!packed && text.count == 800);
	kedge__bytes_done(&text);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_example),
	    cmocka_unit_test(test_scattered_changes_cost_a_byte),
	    cmocka_unit_test(test_the_smaller_one),
	    cmocka_unit_test(test_numbers_of_every_size),
	    cmocka_unit_test(test_every_flip_and_every_end),
	    cmocka_unit_test(test_random_bytes_in_columns),
	    cmocka_unit_test(test_what_expands_too_much_is_refused),
	    cmocka_unit_test(test_sections_are_packed_if_that_saves_something),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
