/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Section MAPX; the first byte chooses the regions. What decodes covers them exactly, and means the same after encoding
 * it again in any of the five ways.
 */
#include "../lib/map.h"
#include "format/format.h"
#include "fuzz.h"

#define SELF 1000

static const struct kedge__region_record plain[] = {
    {.name = (char *)"a", .slot = 0, .bytes = 640},
    {.name = (char *)"b", .slot = 1, .bytes = 0},
    {.name = (char *)"c", .slot = 2, .bytes = 1001},
    {.name = (char *)"d", .slot = 1048575, .bytes = KEDGE__REGION_BYTES_MAX},
};

/* With the highest bit of the choice: pages. */
static const struct kedge__region_record paged[] = {
    {.name = (char *)"a", .slot = 0, .bytes = 20000},
    {.name = (char *)"b", .slot = 7, .bytes = 8192},
};

static const struct kedge__region_record *regions;

static void require_cover(const struct kedge__extent_map *map, size_t n)
{
	struct kedge__extent_reader r = kedge__extents_of_map(map);
	struct kedge__extent e;

	for (size_t k = 0; k < n; k++) {
		uint64_t base = (uint64_t)regions[k].slot << KEDGE__SLOT_SHIFT, at = 0;

		for (; at < regions[k].bytes; at += e.len)
			FUZZ_REQUIRE(kedge__extent_next(&r, &e) && e.addr == base + at && e.len > 0 &&
				     e.len <= regions[k].bytes - at);
		FUZZ_REQUIRE(at == regions[k].bytes);
	}
	FUZZ_REQUIRE(!kedge__extent_next(&r, &e));
}

static void encode_again(enum kedge__map_encoding how, const struct kedge__extent_map *map, uint32_t chunk, size_t n)
{
	struct kedge__extent_map got = {0};
	struct kedge__bytes b = {0};
	enum kedge__map_encoding used;

	FUZZ_REQUIRE(kedge__map_encode(how, kedge__extents_of_map(map), chunk, SELF, regions, n, &b, NULL) == 0);
	FUZZ_REQUIRE(kedge__map_decode(b.at, b.count, SELF, regions, n, &used, &got, NULL) == 0);
	FUZZ_REQUIRE(used == how || used == KEDGE__MAP_RUNS);
	FUZZ_REQUIRE(maps_same(map, &got));
	kedge__extent_map_done(&got);
	kedge__bytes_done(&b);
}

/* A list or a bitmap of the largest region would be as long as it is large, and its pages take as long to go through.
 */
static bool small(const struct kedge__extent_map *map)
{
	struct kedge__extent_reader r = kedge__extents_of_map(map);
	struct kedge__extent e;

	while (kedge__extent_next(&r, &e))
		if (e.len > 100000)
			return false;
	return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kedge__extent_map map = {0};
	struct kedge__error err = KEDGE__ERROR_INIT;
	enum kedge__map_encoding how;
	size_t n;
	int rc;

	if (size < 1)
		return 0;
	regions = data[0] & 0x80 ? paged : plain;
	n = data[0] % (data[0] & 0x80 ? KEDGE__COUNT(paged) + 1 : KEDGE__COUNT(plain) + 1);
	rc = kedge__map_decode(data + 1, size - 1, SELF, regions, n, &how, &map, &err);
	if (rc != 0) {
		fuzz_require_cause(rc, &err);
		FUZZ_REQUIRE(!map.at);
		return 0;
	}
	require_cover(&map, n);
	encode_again(KEDGE__MAP_RUNS, &map, 64, n);
	encode_again(KEDGE__MAP_RUNS, &map, 0, n);
	encode_again(KEDGE__MAP_COLUMNS, &map, 64, n);
	encode_again(KEDGE__MAP_COLUMNS, &map, 0, n);
	if (small(&map)) {
		encode_again(KEDGE__MAP_LIST, &map, 32, n);
		encode_again(KEDGE__MAP_BITMAP, &map, 32, n);
		encode_again(KEDGE__MAP_PAGES, &map, 16, n);
		encode_again(KEDGE__MAP_PAGES, &map, 64, n);
	}
	kedge__extent_map_done(&map);
	return 0;
}
