/* SPDX-License-Identifier: BSD-3-Clause */
/* Sections SUMM, REGN, BLKS, SUMS, LINE, BASE, PACK, and the numbers they are made of. */
#include "format/wire.h"
#include "format_samples.h"

static void test_varints(void **state)
{
	static const uint64_t values[] = {0, 1, 127, 128, 16383, 16384, UINT32_MAX, UINT64_MAX >> 1, UINT64_MAX};
	static const size_t sizes[] = {1, 1, 1, 2, 2, 3, 5, 9, 10};

	(void)state;
	for (size_t i = 0; i < KEDGE__COUNT(values); i++) {
		struct kedge__bytes b = {0};
		struct kedge__wire_out w = kedge__wire_out_init(&b);
		struct kedge__wire_in r;

		kedge__wire_put_varint(&w, values[i]);
		assert_int_equal(b.count, sizes[i]);
		r = kedge__wire_in_init(b.at, b.count);
		assert_int_equal(kedge__wire_get_varint(&r), values[i]);
		assert_false(r.failed);
		assert_int_equal(r.left, 0);
		r = kedge__wire_in_init(b.at, b.count - 1);
		kedge__wire_get_varint(&r);
		assert_true(r.failed);
		kedge__bytes_done(&b);
	}
}

static void test_varints_are_canonical(void **state)
{
	static const char *const bad[] = {"\x80\0", "\xff\x80\0", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02",
					  "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x81\x01"};
	static const size_t sizes[] = {2, 3, 10, 11};

	(void)state;
	for (size_t i = 0; i < KEDGE__COUNT(bad); i++) {
		struct kedge__wire_in r = kedge__wire_in_init(bad[i], sizes[i]);

		assert_int_equal(kedge__wire_get_varint(&r), 0);
		assert_true(r.failed);
	}
}

static void test_zigzag(void **state)
{
	(void)state;
	assert_int_equal(kedge__zigzag(0), 0);
	assert_int_equal(kedge__zigzag((uint64_t)-1), 1);
	assert_int_equal(kedge__zigzag(1), 2);
	for (uint64_t v = 1; v; v <<= 1) {
		assert_int_equal(kedge__unzigzag(kedge__zigzag(v)), v);
		assert_int_equal(kedge__unzigzag(kedge__zigzag(0 - v)), 0 - v);
	}
}

static struct kedge__segment_summary sample_summary(void)
{
	return (struct kedge__segment_summary){.name = (char *)"heat2d",
					       .parent = KEDGE__NO_VERSION,
					       .reducer = 3,
					       .chunk = 64,
					       .next_slot = 9,
					       .image_id = sample_digest(1),
					       .raw_bytes = UINT64_C(1) << 40,
					       .literal_bytes = 12345,
					       .hash_seconds = 0.5,
					       .write_seconds = 0.125};
}

static void test_summary(void **state)
{
	struct kedge__segment_summary s = sample_summary(), got;
	struct kedge__bytes b = {0};

	(void)state;
	assert_int_equal(kedge__summary_encode(&s, &b, NULL), 0);
	assert_int_equal(b.count, 72 + 6);
	assert_int_equal(kedge__summary_decode(b.at, b.count, &got, NULL), 0);
	assert_string_equal(got.name, "heat2d");
	assert_true(got.parent == KEDGE__NO_VERSION);
	assert_int_equal(got.reducer, 3);
	assert_int_equal(got.chunk, 64);
	assert_int_equal(got.next_slot, 9);
	assert_int_equal(got.raw_bytes, s.raw_bytes);
	assert_int_equal(got.literal_bytes, 12345);
	assert_true(kedge__digest_equal(got.image_id, s.image_id));
	assert_true(got.hash_seconds == 0.5 && got.write_seconds == 0.125);
	kedge__summary_done(&got);
	for (size_t n = 0; n < b.count; n++)
		assert_int_equal(kedge__summary_decode(b.at, n, &got, NULL), KEDGE_E_DAMAGED);
	kedge__bytes_done(&b);
}

static void summary_refused(size_t at, const void *bytes, size_t n, const char *says)
{
	struct kedge__segment_summary s = sample_summary(), got;
	struct kedge__error err = KEDGE__ERROR_INIT;
	struct kedge__bytes b = {0};

	assert_int_equal(kedge__summary_encode(&s, &b, NULL), 0);
	memcpy(b.at + at, bytes, n);
	assert_refused(kedge__summary_decode(b.at, b.count, &got, &err), KEDGE_E_DAMAGED, &err, says);
	kedge__bytes_done(&b);
}

static void test_summary_refused(void **state)
{
	(void)state;
	summary_refused(0, "\xff\xff\xff\xff\xff\xff\xff\x7f", 8, "parent");
	summary_refused(40, "\0\0\0\0\0\0\xf0\x7f", 8, "seconds");
	summary_refused(48, "\0\0\0\0\0\0\0\x80", 8, "seconds");
	summary_refused(60, "\x41", 1, "chunk");
	summary_refused(60, "\x08", 1, "chunk");
	summary_refused(60, "\0\0\2\0", 4, "chunk");
	summary_refused(64, "\1\0\x10\0", 4, "slot");
	summary_refused(68, "\5", 1, "size");
	summary_refused(68, "\xff\xff\xff\xff", 4, "size");
	summary_refused(72, ".", 1, "name");
}

#define REGIONS 4

static const struct kedge__region_record regions[REGIONS] = {
    {.name = (char *)"u", .slot = 0, .type = KEDGE_F64, .ndims = 2, .dims = {10, 20}, .bytes = 1600},
    {.name = (char *)"step", .slot = 1, .type = KEDGE_U64, .bytes = 8},
    {.name = (char *)"r\xc3\xa4ume", .slot = 70000, .type = KEDGE_BYTES, .bytes = KEDGE__REGION_BYTES_MAX},
    {.name = (char *)"nothing",
     .slot = KEDGE__SLOT_LIMIT - 1,
     .type = KEDGE_C128,
     .ndims = 3,
     .dims = {4, 0, 5},
     .bytes = 0},
};

static void test_regions(void **state)
{
	struct kedge__region_record copy[REGIONS], *got;
	struct kedge__bytes b = {0};
	size_t n;

	(void)state;
	memcpy(copy, regions, sizeof(copy));
	for (int i = 0; i < REGIONS; i++)
		copy[i].digest = sample_digest((uint64_t)i);
	assert_int_equal(kedge__regions_encode(copy, REGIONS, &b, NULL), 0);
	assert_int_equal(kedge__regions_decode(b.at, b.count, &got, &n, NULL, NULL), 0);
	assert_int_equal(n, REGIONS);
	for (int i = 0; i < REGIONS; i++) {
		assert_string_equal(got[i].name, copy[i].name);
		assert_int_equal(got[i].slot, copy[i].slot);
		assert_int_equal(got[i].type, copy[i].type);
		assert_int_equal(got[i].ndims, copy[i].ndims);
		assert_memory_equal(got[i].dims, copy[i].dims, sizeof(copy[i].dims));
		assert_int_equal(got[i].bytes, copy[i].bytes);
		assert_true(kedge__digest_equal(got[i].digest, copy[i].digest));
	}
	kedge__regions_free(got, n);
	for (n = 0; n < b.count; n++)
		assert_int_equal(kedge__regions_decode(b.at, n, &got, &(size_t){0}, NULL, NULL), KEDGE_E_DAMAGED);
	kedge__bytes_done(&b);
}

/* What a region is was not stored; the name says it, here and nowhere else. */
static void test_region_of_a_file(void **state)
{
	char *const names[] = {"files/a", "files/", "files", "file/a", "a/files/b", "Files/a"};
	struct kedge__region_record r[KEDGE__COUNT(names)] = {0}, *got;
	struct kedge__bytes b = {0};
	size_t n;

	(void)state;
	for (uint32_t i = 0; i < KEDGE__COUNT(names); i++)
		r[i] = (struct kedge__region_record){.name = names[i], .slot = i};
	assert_int_equal(kedge__regions_encode(r, KEDGE__COUNT(names), &b, NULL), 0);
	assert_int_equal(kedge__regions_decode(b.at, b.count, &got, &n, NULL, NULL), 0);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(got[i].file, i < 2);
	kedge__regions_free(got, n);
	kedge__bytes_done(&b);
}

static void test_no_regions(void **state)
{
	struct kedge__region_record *got = (void *)&got;
	struct kedge__bytes b = {0};
	size_t n = 9;

	(void)state;
	assert_int_equal(kedge__regions_encode(NULL, 0, &b, NULL), 0);
	assert_int_equal(b.count, 1);
	assert_int_equal(kedge__regions_decode(b.at, b.count, &got, &n, NULL, NULL), 0);
	assert_null(got);
	assert_int_equal(n, 0);
	kedge__regions_free(got, n);
	kedge__bytes_done(&b);
}

static void region_refused(const struct kedge__region_record *r, size_t n)
{
	struct kedge__bytes b = {0};

	assert_int_equal(kedge__regions_encode(r, n, &b, NULL), KEDGE_E_ARG);
	assert_int_equal(b.count, 0);
	kedge__bytes_done(&b);
}

static void test_regions_encode_refused(void **state)
{
	static char longest[KEDGE_REGION_NAME_MAX + 2];
	struct kedge__region_record r[2];

	(void)state;
	memset(longest, 'x', sizeof(longest) - 1);
#define BROKEN(what)                                                                                                   \
	memcpy(r, regions, sizeof(r));                                                                                 \
	what;                                                                                                          \
	region_refused(r, 2)
	BROKEN(r[1].slot = 0);
	BROKEN(r[1].slot = KEDGE__SLOT_LIMIT);
	BROKEN(r[1].name = (char *)"u");
	BROKEN(r[1].name = (char *)"");
	BROKEN(r[1].name = longest);
	BROKEN(r[1].type = KEDGE_TYPE_COUNT);
	BROKEN(r[1].bytes = 9);
	BROKEN(r[1].bytes = KEDGE__SLOT_BYTES);
	BROKEN(r[0].bytes = 1608);
	BROKEN(r[0].ndims = KEDGE_MAX_DIMS + 1);
	BROKEN((r[0].dims[0] = r[0].dims[1] = UINT64_C(1) << 33));
#undef BROKEN
}

/* What an encoder would never write. */
static void regions_decode_refused(const void *raw, size_t n, int code, const char *says)
{
	struct kedge__region_record *got;
	struct kedge__error err = KEDGE__ERROR_INIT;

	assert_refused(kedge__regions_decode(raw, n, &got, &(size_t){0}, NULL, &err), code, &err, says);
}

#define DIGEST "0123456789abcdef"

static void test_regions_decode_refused(void **state)
{
	(void)state;
	regions_decode_refused("", 0, KEDGE_E_DAMAGED, "more records");
	regions_decode_refused("\xff\xff\xff\xff\xff\xff\xff\xff\xff\1" DIGEST DIGEST, 42, KEDGE_E_DAMAGED,
			       "more records");
	regions_decode_refused("\1\0\0\0\0\0\0" DIGEST "..", 25, KEDGE_E_DAMAGED, "name");
	regions_decode_refused("\1\1u\0\0\0\5" DIGEST ".", 24, KEDGE_E_DAMAGED, "after the last record");
	regions_decode_refused("\1\1u\0\x0f\0\0" DIGEST, 23, KEDGE_E_FORMAT, "element type 15");
	regions_decode_refused("\1\1u\0\x0c\0\5" DIGEST, 23, KEDGE_E_DAMAGED, "contradict each other");
	regions_decode_refused("\1\1u\0\0\7\5" DIGEST, 23, KEDGE_E_DAMAGED, "malformed");
	regions_decode_refused("\2\1u\0\0\0\5" DIGEST "\1u\0\0\0\5" DIGEST, 45, KEDGE_E_DAMAGED, "the name 'u'");
	regions_decode_refused("\1\2u\0\0\0\0\5" DIGEST, 24, KEDGE_E_DAMAGED, "NUL");
}

static void test_blocks(void **state)
{
	const struct kedge__block_record in[3] = {
	    {.raw_bytes = 1, .stored_bytes = 1, .codec = 0, .region = 5, .checksum = 1},
	    {.raw_bytes = KEDGE__BLOCK_RAW_MAX,
	     .stored_bytes = 1000,
	     .codec = 2,
	     .param = 65535,
	     .region = 1,
	     .checksum = 2},
	    {.raw_bytes = 300, .stored_bytes = 299, .codec = 65535, .region = 2, .checksum = UINT64_MAX}};
	struct kedge__block_record *got;
	struct kedge__bytes b = {0};
	size_t n;

	(void)state;
	assert_int_equal(kedge__blocks_encode(in, 3, &b, NULL), 0);
	assert_int_equal(kedge__blocks_decode(b.at, b.count, 1300, &got, &n, NULL), 0);
	assert_int_equal(n, 3);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(got[i].raw_bytes, in[i].raw_bytes);
		assert_int_equal(got[i].stored_bytes, in[i].stored_bytes);
		assert_int_equal(got[i].codec, in[i].codec);
		assert_int_equal(got[i].param, in[i].param);
		assert_int_equal(got[i].region, in[i].region);
		assert_int_equal(got[i].checksum, in[i].checksum);
	}
	assert_int_equal(got[2].offset, KEDGE__SEGMENT_HEADER_BYTES + 1001);
	assert_int_equal(got[2].position, 1 + (uint64_t)KEDGE__BLOCK_RAW_MAX);
	kedge__free(got);
	assert_int_equal(kedge__blocks_decode(b.at, b.count, 1299, &got, &n, NULL), KEDGE_E_DAMAGED);
	assert_int_equal(kedge__blocks_decode(b.at, b.count, 1301, &got, &n, NULL), KEDGE_E_DAMAGED);
	for (n = 0; n < b.count; n++)
		assert_int_equal(kedge__blocks_decode(b.at, n, 1300, &got, &(size_t){0}, NULL), KEDGE_E_DAMAGED);
	kedge__bytes_done(&b);
}

static void test_blocks_refused(void **state)
{
	struct kedge__block_record bad[] = {
	    {.raw_bytes = 0, .stored_bytes = 0},
	    {.raw_bytes = 9, .stored_bytes = 10, .codec = 1},
	    {.raw_bytes = 9, .stored_bytes = 0, .codec = 1},
	    {.raw_bytes = 9, .stored_bytes = 8, .codec = 0},
	    {.raw_bytes = KEDGE__BLOCK_RAW_MAX + 1, .stored_bytes = 1, .codec = 1},
	};
	static const char *const raw[] = {"\1\0\0\0\0\0........", "\1\5\1\0\0\0........", "\1\5\5\1\0\0........",
					  "\1\5\6\1\0\0........", "\1\5\0\0\0\1........"};
	struct kedge__block_record *got;
	struct kedge__bytes b = {0};

	(void)state;
	for (size_t i = 0; i < KEDGE__COUNT(bad); i++)
		assert_int_equal(kedge__blocks_encode(&bad[i], 1, &b, NULL), KEDGE_E_ARG);
	assert_int_equal(b.count, 0);
	for (size_t i = 0; i < KEDGE__COUNT(raw); i++)
		assert_int_equal(kedge__blocks_decode(raw[i], 14, 5, &got, &(size_t){0}, NULL), KEDGE_E_DAMAGED);
	assert_int_equal(kedge__blocks_decode("\xff\xff\xff\xff\x0f.........", 14, 5, &got, &(size_t){0}, NULL),
			 KEDGE_E_DAMAGED);
	kedge__bytes_done(&b);
}

static void test_sums(void **state)
{
	enum { PAGE = KEDGE__BLOCK_PAGE };
	static uint8_t data[3 * PAGE];
	struct kedge__block_record b[] = {{.raw_bytes = PAGE}, /* one page has no checksum but the block's */
					  {.raw_bytes = 2 * PAGE + 5},
					  {.raw_bytes = 3 * PAGE, .codec = 2},
					  {.raw_bytes = PAGE + 1}};
	uint8_t sums[5 * 8];

	(void)state;
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i * i >> 7);
	b[1].checksum = kedge__sums_make(data, b[1].raw_bytes, sums);
	b[3].checksum = kedge__sums_make(data + 7, b[3].raw_bytes, sums + 24);
	assert_int_equal(kedge__get64(sums + 16), kedge__checksum(data + 2 * PAGE, 5));
	assert_int_equal(b[1].checksum, kedge__checksum(sums, 24));
	assert_int_equal(kedge__sums_assign(sums, sizeof(sums), b, 4, NULL), 0);
	assert_int_equal(b[1].first_sum, 0);
	assert_int_equal(b[3].first_sum, 3);

	assert_int_equal(kedge__sums_check(sums, data, b[1].raw_bytes), 3);
	for (size_t i = 0; i < 3; i++) {
		data[i * PAGE + 4] ^= 1;
		assert_int_equal(kedge__sums_check(sums, data, b[1].raw_bytes), i);
		data[i * PAGE + 4] ^= 1;
	}

	assert_int_equal(kedge__sums_assign(sums, sizeof(sums) - 8, b, 4, NULL), KEDGE_E_DAMAGED);
	assert_int_equal(kedge__sums_assign(sums, sizeof(sums) - 1, b, 4, NULL), KEDGE_E_DAMAGED);
	assert_int_equal(kedge__sums_assign(sums, sizeof(sums), b, 3, NULL),
			 KEDGE_E_DAMAGED); /* some belong to nobody */
	assert_int_equal(kedge__sums_assign(sums, 0, b, 1, NULL), KEDGE_E_DAMAGED);
	for (size_t i = 0; i < sizeof(sums); i++) {
		sums[i] ^= 1;
		assert_int_equal(kedge__sums_assign(sums, sizeof(sums), b, 4, NULL), KEDGE_E_DAMAGED);
		sums[i] ^= 1;
	}
}

static void test_lineage(void **state)
{
	struct kedge__source_record in[] = {
	    {.version = 0}, {.version = 1}, {.version = 900}, {.version = KEDGE_VERSION_LIMIT - 1}};
	struct kedge__source_record *got;
	struct kedge__bytes b = {0};
	size_t n;

	(void)state;
	for (size_t i = 0; i < 4; i++)
		in[i].image_id = sample_digest(i);
	assert_int_equal(kedge__lineage_encode(in, 4, &b, NULL), 0);
	assert_int_equal(kedge__lineage_decode(b.at, b.count, &got, &n, NULL), 0);
	assert_int_equal(n, 4);
	for (size_t i = 0; i < 4; i++) {
		assert_int_equal(got[i].version, in[i].version);
		assert_true(kedge__digest_equal(got[i].image_id, in[i].image_id));
	}
	kedge__free(got);
	for (n = 0; n < b.count; n++)
		assert_int_equal(kedge__lineage_decode(b.at, n, &got, &(size_t){0}, NULL), KEDGE_E_DAMAGED);
	kedge__bytes_done(&b);
	in[1].version = 0;
	assert_int_equal(kedge__lineage_encode(in, 4, &b, NULL), KEDGE_E_ARG);
	assert_int_equal(kedge__lineage_decode("\1\xff\xff\xff\xff\xff\xff\xff\xff\x7f" DIGEST, 26, &got, &n, NULL),
			 KEDGE_E_DAMAGED);
	kedge__bytes_done(&b);
}

static void test_base(void **state)
{
	struct kedge__bytes b = {0};
	uint64_t version = 7;

	(void)state;
	assert_int_equal(kedge__base_encode(KEDGE_VERSION_LIMIT - 1, &b, NULL), 0);
	assert_int_equal(kedge__base_decode(b.at, b.count, &version, NULL), 0);
	assert_true(version == KEDGE_VERSION_LIMIT - 1);
	assert_int_equal(kedge__base_decode(b.at, b.count - 1, &version, NULL), KEDGE_E_DAMAGED);
	assert_int_equal(kedge__base_decode("\x01\x01", 2, &version, NULL), KEDGE_E_DAMAGED);
	assert_int_equal(kedge__base_decode("", 0, &version, NULL), KEDGE_E_DAMAGED);
	kedge__bytes_done(&b);
}

static void test_packing(void **state)
{
	struct kedge__packing_record p[] = {
	    {.region = 2, .reason = 3, .age = 5, .name = "xor+shuffle+zstd:3", .size = 0.25, .encode = 3e8},
	    {.region = 3, .reason = 999, .name = "lz4", .storage = 1e8, .target = 2e8}};
	struct kedge__packing_record *got = NULL;
	struct kedge__bytes b = {0};
	size_t n = 0;

	(void)state;
	assert_int_equal(kedge__packing_encode(p, 2, &b, NULL), 0);
	assert_int_equal(kedge__packing_decode(b.at, b.count, &got, &n, NULL), 0);
	assert_int_equal(n, 2);
	assert_memory_equal(got, p, sizeof(p));
	kedge__free(got);
	got = NULL;
	for (size_t cut = 0; cut < b.count; cut++)
		assert_int_equal(kedge__packing_decode(b.at, cut, &got, &n, NULL), KEDGE_E_DAMAGED);
	b.at[5] = '\n'; /* in the name */
	assert_int_equal(kedge__packing_decode(b.at, b.count, &got, &n, NULL), KEDGE_E_DAMAGED);
	kedge__bytes_done(&b);
	p[1].region = 2;
	assert_int_equal(kedge__packing_encode(p, 2, &b, NULL), KEDGE_E_ARG);
	p[1].region = 3;
	p[0].name[0] = '\0';
	assert_int_equal(kedge__packing_encode(p, 2, &b, NULL), KEDGE_E_ARG);
	assert_int_equal(b.count, 0);
	kedge__bytes_done(&b);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_varints),
	    cmocka_unit_test(test_varints_are_canonical),
	    cmocka_unit_test(test_zigzag),
	    cmocka_unit_test(test_summary),
	    cmocka_unit_test(test_summary_refused),
	    cmocka_unit_test(test_regions),
	    cmocka_unit_test(test_region_of_a_file),
	    cmocka_unit_test(test_no_regions),
	    cmocka_unit_test(test_regions_encode_refused),
	    cmocka_unit_test(test_regions_decode_refused),
	    cmocka_unit_test(test_blocks),
	    cmocka_unit_test(test_blocks_refused),
	    cmocka_unit_test(test_sums),
	    cmocka_unit_test(test_lineage),
	    cmocka_unit_test(test_base),
	    cmocka_unit_test(test_packing),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
