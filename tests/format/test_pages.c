/* SPDX-License-Identifier: BSD-3-Clause */
/* Section MAPX by pages: the page table and the pointer file. */
#include "../lib/map.h"
#include "format_samples.h"

#define SELF 100
#define PAGE UINT64_C(4096)

/* Encode, decode, compare; the encoded bytes are the caller's. */
static struct kedge__bytes round_trip(enum kedge__map_encoding expect, const struct kedge__extent_map *map,
				      uint32_t chunk, const struct kedge__region_record *r, size_t n)
{
	struct kedge__extent_map got = {0};
	struct kedge__bytes b = {0};
	enum kedge__map_encoding used;

	assert_int_equal(kedge__map_encode(KEDGE__MAP_PAGES, kedge__extents_of_map(map), chunk, SELF, r, n, &b, NULL),
			 0);
	assert_int_equal(kedge__map_decode(b.at, b.count, SELF, r, n, &used, &got, NULL), 0);
	assert_int_equal(used, expect);
	assert_true(maps_same(&got, map));
	kedge__extent_map_done(&got);
	return b;
}

static size_t size_of(enum kedge__map_encoding expect, struct kedge__extent_map *map, uint32_t chunk,
		      const struct kedge__region_record *r, size_t n)
{
	struct kedge__bytes b = round_trip(expect, map, chunk, r, n);
	size_t bytes = b.count;

	kedge__bytes_done(&b);
	kedge__extent_map_done(map);
	return bytes;
}

/* The example of FORMAT.md, byte by byte. */
static void test_example(void **state)
{
	static const uint8_t want[] = {
	    3,    32,      /* by pages, patterns of 32 bytes */
	    10,            /* moves are from version 100 - 10 */
	    0xe4, 0x41,    /* 8420 bytes of literals */
	    8,             /* bytes of pointers */
	    0x10, 0x21,    /* two patterns the same, four new ones */
	    0x14, 7,       /* two from pattern 7 on of the page in version 90 */
	    0x0a,          /* a zero */
	    0x15, 3,       /* two once more, from three patterns back */
	    0,             /* all that is left: the same */
	    0x14, 0,       /* from page 1 on: literals, 2 pages */
	    0x0a,          /* the next one: pointers */
	    9,    1,    0, /* the next one: constant, zero */
	    0x10,          /* the second from there on: a literal */
	};
	const struct kedge__region_record r[] = {sample_region(0, 5 * PAGE), sample_region(1, PAGE + 100)};
	struct kedge__extent_map map = {0};
	struct kedge__bytes b;

	(void)state;
	sample_extent(&map, KEDGE__EXTENT_PARENT, 0, PAGE, 0, 0);
	sample_extent(&map, KEDGE__EXTENT_LITERAL, PAGE, 2 * PAGE, 0, 0);
	sample_extent(&map, KEDGE__EXTENT_PARENT, 3 * PAGE, 64, 0, 0);
	sample_extent(&map, KEDGE__EXTENT_LITERAL, 3 * PAGE + 64, 128, 2 * PAGE, 0);
	sample_extent(&map, KEDGE__EXTENT_COPY, 3 * PAGE + 192, 64, 3 * PAGE + 7 * 32, 90);
	sample_extent(&map, KEDGE__EXTENT_FILL, 3 * PAGE + 256, 32, 0, 0);
	sample_extent(&map, KEDGE__EXTENT_LITERAL, 3 * PAGE + 288, 64, 2 * PAGE + 32, 0);
	sample_extent(&map, KEDGE__EXTENT_PARENT, 3 * PAGE + 352, PAGE - 352, 0, 0);
	sample_extent(&map, KEDGE__EXTENT_FILL, 4 * PAGE, PAGE, 0, 0);
	sample_extent(&map, KEDGE__EXTENT_PARENT, SLOT(1), PAGE, 0, 0);
	sample_extent(&map, KEDGE__EXTENT_LITERAL, SLOT(1) + PAGE, 100, 2 * PAGE + 128, 0);
	b = round_trip(KEDGE__MAP_PAGES, &map, 32, r, 2);
	assert_int_equal(b.count, sizeof(want));
	assert_memory_equal(b.at, want, sizeof(want));
	kedge__bytes_done(&b);
	kedge__extent_map_done(&map);
}

static void test_whole_pages_cost_a_few_bytes(void **state)
{
	const struct kedge__region_record r[] = {sample_region(0, UINT64_C(1) << 30)};
	struct kedge__extent_map map = {0};

	(void)state;
	sample_extent(&map, KEDGE__EXTENT_LITERAL, 0, UINT64_C(1) << 30, 0, 0);
	assert_true(size_of(KEDGE__MAP_PAGES, &map, 32, r, 1) <= 14);
	sample_extent(&map, KEDGE__EXTENT_PARENT, 0, UINT64_C(1) << 29, 0, 0);
	sample_extent(&map, KEDGE__EXTENT_FILL, UINT64_C(1) << 29, UINT64_C(1) << 29, 0, 0);
	assert_true(size_of(KEDGE__MAP_PAGES, &map, 32, r, 1) <= 14);
	sample_extent(&map, KEDGE__EXTENT_PARENT, 0, UINT64_C(1) << 30, 0, 0);
	assert_int_equal(size_of(KEDGE__MAP_PAGES, &map, 32, r, 1), 5);
}

/* One pattern in every page, always the same one: its pointers are stored once. */
static void test_pointers_are_shared(void **state)
{
	enum { PAGES = 1000 };
	const struct kedge__region_record r[] = {sample_region(3, PAGES * PAGE)};
	struct kedge__extent_map map = {0};

	(void)state;
	for (uint64_t i = 0; i < PAGES; i++) {
		sample_extent(&map, KEDGE__EXTENT_PARENT, SLOT(3) + i * PAGE, 320, 0, 0);
		sample_extent(&map, KEDGE__EXTENT_LITERAL, SLOT(3) + i * PAGE + 320, 32, i * 32, 0);
		sample_extent(&map, KEDGE__EXTENT_PARENT, SLOT(3) + i * PAGE + 352, PAGE - 352, 0, 0);
	}
	assert_true(size_of(KEDGE__MAP_PAGES, &map, 32, r, 1) <= 2 * PAGES + 20);
}

static void random_piece(struct kedge__extent_map *map, uint64_t addr, uint64_t len, uint32_t unit, uint64_t *literals,
			 uint64_t *seed)
{
	uint64_t page = addr & ~(PAGE - 1), kind = draw(seed) % 6, back;

	switch (kind) {
	case 0:
	case 1:
		sample_extent(map, KEDGE__EXTENT_LITERAL, addr, len, *literals, 0);
		*literals += len;
		break;
	case 2:
		back = unit * (1 + draw(seed) % 300) + draw(seed) % 2 * 4;
		if (back > *literals || back < len)
			sample_extent(map, KEDGE__EXTENT_FILL, addr, len, 77, 0);
		else
			sample_extent(map, KEDGE__EXTENT_LITERAL, addr, len, *literals - back, 0);
		break;
	case 3:
		sample_extent(map, KEDGE__EXTENT_FILL, addr, len, draw(seed) % 2 * UINT64_C(0x0101010101010101), 0);
		break;
	case 4:
		if (PAGE - len >= unit)
			sample_extent(map, KEDGE__EXTENT_COPY, addr, len,
				      page + draw(seed) % ((PAGE - len) / unit) * unit, 93);
		else
			sample_extent(map, KEDGE__EXTENT_PARENT, addr, len, 0, 0);
		break;
	default:
		sample_extent(map, KEDGE__EXTENT_PARENT, addr, len, 0, 0);
	}
}

static void random_region(struct kedge__extent_map *map, const struct kedge__region_record *r, uint32_t unit,
			  uint64_t *literals, uint64_t *seed)
{
	uint64_t len;

	for (uint64_t at = 0; at < r->bytes; at += len) {
		uint64_t room = KEDGE__MIN(PAGE - at % PAGE, r->bytes - at);

		len = draw(seed) % 3 ? (1 + draw(seed) % 40) * unit : room;
		len = KEDGE__MIN(len, room);
		random_piece(map, SLOT(r->slot) + at, len, unit, literals, seed);
	}
}

static void test_random_maps(void **state)
{
	uint64_t seed = 5;

	(void)state;
	for (int round = 0; round < 2000; round++) {
		uint32_t unit = 16u << draw(&seed) % 5;
		size_t n = 1 + draw(&seed) % 4;
		struct kedge__region_record r[4];
		struct kedge__extent_map map = {0};
		uint64_t literals = 0;

		for (size_t k = 0; k < n; k++) {
			r[k] = sample_region((uint32_t)(2 * k), draw(&seed) % 6 * PAGE / 2 + draw(&seed) % 3 * 7);
			random_region(&map, &r[k], unit, &literals, &seed);
		}
		size_of(KEDGE__MAP_PAGES, &map, unit, r, n);
	}
}

/* What pages cannot express is written as runs. */
static void test_falls_back(void **state)
{
	const struct kedge__region_record r[] = {sample_region(0, 2 * PAGE)};
	const struct kedge__extent odd[] = {
	    {.addr = 0, .len = 33, .kind = KEDGE__EXTENT_PARENT},
	    {.addr = 0, .len = 32, .src = PAGE, .version = 90, .kind = KEDGE__EXTENT_COPY},
	    {.addr = 0, .len = 32, .src = 8, .version = 90, .kind = KEDGE__EXTENT_COPY},
	    {.addr = 0, .len = 32, .src = 32, .version = SELF, .kind = KEDGE__EXTENT_COPY},
	    {.addr = 0, .len = 32, .src = 100, .kind = KEDGE__EXTENT_LITERAL},
	};

	(void)state;
	for (size_t i = 0; i < KEDGE__COUNT(odd); i++) {
		struct kedge__extent_map map = {0};

		sample_extent(&map, odd[i].kind, 0, odd[i].len, odd[i].src, odd[i].version);
		sample_extent(&map, KEDGE__EXTENT_FILL, odd[i].len, 2 * PAGE - odd[i].len, 0, 0);
		size_of(KEDGE__MAP_RUNS, &map, 32, r, 1);
	}
	for (uint64_t version = 90; version <= 91; version++) { /* moves from two versions */
		struct kedge__extent_map map = {0};

		sample_extent(&map, KEDGE__EXTENT_COPY, 0, 32, 64, 90);
		sample_extent(&map, KEDGE__EXTENT_COPY, 32, 32, 0, version);
		sample_extent(&map, KEDGE__EXTENT_PARENT, 64, 2 * PAGE - 64, 0, 0);
		size_of(version == 90 ? KEDGE__MAP_PAGES : KEDGE__MAP_RUNS, &map, 32, r, 1);
	}
}

static void refused(const void *raw, size_t bytes, int code, const char *says)
{
	const struct kedge__region_record r[] = {sample_region(0, 2 * PAGE), sample_region(1, 100)};
	struct kedge__error err = KEDGE__ERROR_INIT;
	struct kedge__extent_map map = {0};
	enum kedge__map_encoding how;

	assert_refused(kedge__map_decode(raw, bytes, SELF, r, 2, &how, &map, &err), code, &err, says);
	assert_null(map.at);
}
#define REFUSED(raw, says) refused(raw, sizeof(raw) - 1, KEDGE_E_DAMAGED, says)

/* After encoding and pattern: version of moves, bytes of literals, of pointers; pointers; table. */
#define HEAD "\3\x20"

static void test_decode_refused(void **state)
{
	(void)state;
	refused("\5\x20", 2, KEDGE_E_FORMAT, "unknown to this build");
	REFUSED("\3\0", "size is zero");
	REFUSED("\3\x80\4\0\0\0", "the pattern size is invalid");
	REFUSED(HEAD, "head");
	REFUSED(HEAD "\0\0", "head");
	REFUSED(HEAD "\x65\0\0", "head");
	REFUSED(HEAD "\0\0\1", "pointer file is cut short");
	REFUSED(HEAD "\0\0\xff\xff\xff\xff\xff\xff\xff\xff\xff\1", "pointer file is cut short");
	/* the page table */
	REFUSED(HEAD "\0\0\0\1\1\0", "listed twice");
	REFUSED(HEAD "\0\0\0\x09\1\0\1\1\0", "listed twice");
	REFUSED(HEAD "\0\0\0\x21\1\0", "outside all regions");
	REFUSED(HEAD "\0\0\0\x0d\2\1\0", "outside all regions");
	REFUSED(HEAD "\0\0\0\x0d\1\1\0\x11\1\0", "outside all regions");
	REFUSED(HEAD "\0\0\0\xf9\xff\xff\xff\xff\xff\xff\xff\xff\1\1\0", "outside all regions");
	REFUSED(HEAD "\0\0\0\x0d\xff\xff\xff\xff\xff\xff\xff\xff\xff\1\1\0", "malformed");
	REFUSED(HEAD "\0\0\0\x09\2", "1 or 8");
	REFUSED(HEAD "\0\0\0\x09\x08"
		     "1234567",
		"1 or 8");
	REFUSED(HEAD "\0\0\0\x80", "malformed");
	/* PF* */
	REFUSED(HEAD "\0\0\0\x0a", "outside the pointer file");
	REFUSED(HEAD "\0\0\1\0\x0a\x0a", "outside the pointer file");
	REFUSED(HEAD "\0\0\1\0\x0a\x0b\2", "outside the pointer file");
	REFUSED(HEAD "\0\0\1\0\x0a\x0b\0", "outside the pointer file");
	REFUSED(HEAD "\0\0\1\0\x0a\x0b", "outside the pointer file");
	REFUSED(HEAD "\0\0\1\x08\x0a", "outside the pointer file");
	REFUSED(HEAD "\0\0\1\0\x0a\x0f\0\1", "refers to pointers of another page");
	REFUSED(HEAD "\0\0\2\0\0\x0a", "some pointers belong to no page");
	/* pointers */
	REFUSED(HEAD "\0\0\2\xf8\x62\x0a", "beyond its page");
	REFUSED(HEAD "\0\0\3\x08\xf8\x61\x0a", "beyond its page");
	REFUSED(HEAD "\0\0\1\7\x0a", "unknown kind");
	REFUSED(HEAD "\0\0\2\x04\0\x0a", "a move refers to no version");
	REFUSED(HEAD "\x0a\0\3\x0c\x80\0\x0a", "a move starts outside the page");
	REFUSED(HEAD "\x0a\0\2\4\1\x0a", "a move starts outside the page");
	REFUSED(HEAD "\x0a\0\1\x0c\x0a", "a move starts outside the page");
	REFUSED(HEAD "\0\0\3\3\2\0\x0a", "1 or 8");
	/* literals */
	REFUSED(HEAD "\0\0\1\1\x0a", "outside the pattern sequence");
	REFUSED(HEAD "\0\x1f\2\x09\0\x0a", "outside the pattern sequence");
	REFUSED(HEAD "\0\x40\2\x09\0\x0a", "longer than its pointers say");
	REFUSED(HEAD "\0\0\0\x08", "outside the pattern sequence");
	REFUSED(HEAD "\0\x20\4\x09\x0d\2\0\x0a", "does not point to a literal");
	REFUSED(HEAD "\0\x20\4\x09\x0d\0\0\x0a", "does not point to a literal");
	REFUSED(HEAD "\0\x20\4\x09\x15\1\0\x0a", "does not point to a literal");
	REFUSED(HEAD "\0\x20\4\x09\x0e\x1f\0\x0a", "does not point to a literal");
	REFUSED(HEAD "\0\x20\x0d\x09\x0d\xff\xff\xff\xff\xff\xff\xff\xff\xff\1\0\x0a", "does not point to a literal");
}

/* ---- pointers of one or two bytes, read one by one as FORMAT.md has them */

enum { STREAM_PAGES = 5, STREAM_BYTES = STREAM_PAGES * 4096 - 100, STREAM_ROOM = 8192 };

struct stream {
	uint8_t bytes[STREAM_ROOM];
	size_t count;
	uint64_t unit, literals;
};

static size_t put_varint(uint8_t *to, uint64_t v)
{
	size_t n = 0;

	for (; v >= 0x80; v >>= 7)
		to[n++] = (uint8_t)(v | 0x80);
	to[n++] = (uint8_t)v;
	return n;
}

/* Pages of what is the same, literals and zeros; now and then a pointer is too long, or of no kind. */
static struct stream stream_draw(uint64_t *seed)
{
	struct stream s = {.unit = UINT64_C(16) << draw_below(seed, 4)};
	uint64_t odd = draw_below(seed, 2) ? 2000 : UINT64_MAX;

	for (uint64_t page = 0, left; page < STREAM_PAGES; page++)
		for (left = KEDGE__MIN(PAGE, STREAM_BYTES - page * PAGE); left;) {
			uint64_t most = (left + s.unit - 1) / s.unit, limit = draw_below(seed, 3) ? 6 : 400;
			uint64_t n = 1 + draw_below(seed, KEDGE__MIN(most, limit)), len;
			uint64_t kind = draw_below(seed, 10) ? draw_below(seed, 2) : 2;

			n = draw_below(seed, odd) ? n : most + 1 + draw_below(seed, 40);
			kind = draw_below(seed, odd) ? kind : 7;
			len = draw_below(seed, 20) ? KEDGE__MIN(n * s.unit, left) : left;
			s.bytes[s.count++] = (uint8_t)(kind | (len == left && n <= most ? 0 : KEDGE__MIN(n, 31)) << 3);
			if (s.bytes[s.count - 1] >> 3 == 31)
				s.count += put_varint(s.bytes + s.count, n - 31);
			s.literals += kind == 1 ? len : 0;
			left -= len;
		}
	return s;
}

/* False: the stream is wrong. END: literals there are to be; COUNT: bytes of pointers. */
static bool stream_read(const struct stream *s, size_t count, uint64_t end, struct kedge__extent_map *map)
{
	uint64_t next = 0;
	size_t at = 0;

	for (uint64_t addr = 0, len; addr < STREAM_BYTES; addr += len) {
		uint64_t left = KEDGE__MIN(PAGE - addr % PAGE, STREAM_BYTES - addr), n,
			 patterns = (left + s->unit - 1) / s->unit;
		unsigned kind;

		if (at == count)
			return false;
		kind = s->bytes[at] & 7;
		n = s->bytes[at++] >> 3;
		for (unsigned shift = 0; n >= 31; shift += 7) {
			if (at == count)
				return false;
			n += (uint64_t)(s->bytes[at] & 0x7f) << shift;
			if (s->bytes[at++] < 0x80)
				break;
		}
		if (n > patterns || kind > 2)
			return false;
		len = n ? KEDGE__MIN(n * s->unit, left) : left;
		if (kind == 1 && len > end - next)
			return false;
		if (kind)
			assert_int_equal(
			    kedge__extent_map_append(
				map,
				(struct kedge__extent){.addr = addr,
						       .len = len,
						       .src = kind == 1 ? next : 0,
						       .kind = kind == 1 ? KEDGE__EXTENT_LITERAL : KEDGE__EXTENT_FILL},
				true, NULL),
			    0);
		next += kind == 1 ? len : 0;
	}
	return next == end && at == count;
}

/* All pages by pointers, in a section of their size. */
static int stream_decode(const struct stream *s, size_t count, uint64_t end, struct kedge__extent_map *map)
{
	const struct kedge__region_record r[] = {sample_region(0, STREAM_BYTES)};
	uint8_t head[64] = {3}, *raw;
	enum kedge__map_encoding how;
	size_t n = 1;
	int rc;

	n += put_varint(head + n, s->unit);
	head[n++] = 0;
	n += put_varint(head + n, end);
	n += put_varint(head + n, count);
	raw = malloc(n + count + 2);
	memcpy(raw, head, n);
	memcpy(raw + n, s->bytes, count);
	raw[n + count] = 1 << 3 | 4 | 2;
	raw[n + count + 1] = STREAM_PAGES - 2;
	rc = kedge__map_decode(raw, n + count + 2, SELF, r, 1, &how, map, NULL);
	free(raw);
	return rc;
}

/* What is wrong is refused, whatever that is; all else becomes the same extents. */
static void test_pointers_one_by_one(void **state)
{
	uint64_t seed = 5;
	size_t good = 0, bad = 0;

	(void)state;
	for (int i = 0; i < 20000; i++) {
		struct stream s = stream_draw(&seed);
		struct kedge__extent_map want = {0}, got = {0};
		size_t count = draw_below(&seed, 4) ? s.count : draw_below(&seed, s.count);
		uint64_t end = draw_below(&seed, 4)
				   ? s.literals
				   : s.literals + s.unit * draw_below(&seed, 3) - KEDGE__MIN(s.literals, s.unit);
		bool right = stream_read(&s, count, end, &want);

		assert_int_equal(stream_decode(&s, count, end, &got), right ? 0 : KEDGE_E_DAMAGED);
		if (right) {
			assert_int_equal(got.count, want.count);
			for (size_t k = 0; k < got.count; k++)
				assert_true(extent_same(&got.at[k], &want.at[k]));
		}
		good += right;
		bad += !right;
		kedge__extent_map_done(&got);
		kedge__extent_map_done(&want);
	}
	assert_true(good > 5000 && bad > 5000);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_example),
	    cmocka_unit_test(test_whole_pages_cost_a_few_bytes),
	    cmocka_unit_test(test_pointers_are_shared),
	    cmocka_unit_test(test_random_maps),
	    cmocka_unit_test(test_falls_back),
	    cmocka_unit_test(test_decode_refused),
	    cmocka_unit_test(test_pointers_one_by_one),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
