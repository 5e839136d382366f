/* SPDX-License-Identifier: BSD-3-Clause */
/* The frame of a segment: header, footer, index, seal; and the store marker. */
#include "format_samples.h"

#define SECTIONS 6

static const struct kedge__segment_header header = {
    .version = 12, .created_ns = 1700000000123456789, .rank = 3, .ranks = 8};

/* A segment of 1000 payload bytes and six sections, one of which no reader knows. */
static void make_frame(struct kedge__section_entry e[SECTIONS], struct kedge__segment_footer *f)
{
	static const uint32_t types[SECTIONS] = {KEDGE__SECTION_SUMMARY, KEDGE__SECTION_REGIONS, KEDGE__SECTION_MAP,
						 KEDGE__SECTION_BLOCKS,  KEDGE__SECTION_LINEAGE, 0x3f3f3f3f};
	uint64_t at = KEDGE__SEGMENT_HEADER_BYTES + 1000;

	for (int i = 0; i < SECTIONS; i++) {
		uint64_t bytes = (uint64_t)(10 * i);

		e[i] = (struct kedge__section_entry){
		    .type = types[i], .offset = at, .bytes = bytes, .checksum = sample_digest(bytes).lo};
		e[i].flags = i < 5 ? KEDGE__SECTION_REQUIRED : 0;
		at += bytes;
	}
	*f = (struct kedge__segment_footer){.index_offset = at, .payload_bytes = 1000, .section_count = SECTIONS};
	f->file_bytes = at + 32 * SECTIONS + KEDGE__SEGMENT_FOOTER_BYTES;
	f->seal = sample_digest(5);
}

static void test_header_round_trip(void **state)
{
	uint8_t raw[KEDGE__SEGMENT_HEADER_BYTES];
	struct kedge__segment_header got = {0};

	(void)state;
	kedge__segment_header_encode(&header, raw);
	assert_memory_equal(raw, "KEDGESEG\1\0\0\0\x40\0\0\0\x0c\0\0\0\0\0\0\0", 24);
	assert_int_equal(kedge__segment_header_decode(raw, &got, NULL), 0);
	assert_int_equal(got.version, header.version);
	assert_int_equal(got.created_ns, header.created_ns);
	assert_int_equal(got.rank, 3);
	assert_int_equal(got.ranks, 8);
}

static void test_header_flips(void **state)
{
	const struct kedge__segment_header untouched = {.version = 77};
	struct kedge__segment_header got = untouched;
	uint8_t raw[KEDGE__SEGMENT_HEADER_BYTES];

	(void)state;
	kedge__segment_header_encode(&header, raw);
	for (size_t i = 0; i < sizeof(raw); i++)
		for (int bit = 0; bit < 8; bit++) {
			raw[i] ^= (uint8_t)(1 << bit);
			assert_int_equal(kedge__segment_header_decode(raw, &got, NULL), KEDGE_E_DAMAGED);
			raw[i] ^= (uint8_t)(1 << bit);
		}
	assert_memory_equal(&got, &untouched, sizeof(got));
}

/* Change bytes and make the checksum right again: what is refused then is refused for what it says. */
static int header_with(size_t at, const void *bytes, size_t n, struct kedge__error *err)
{
	struct kedge__segment_header got;
	uint8_t raw[KEDGE__SEGMENT_HEADER_BYTES];

	kedge__segment_header_encode(&header, raw);
	memcpy(raw + at, bytes, n);
	kedge__put64(raw + 56, kedge__checksum(raw, 56));
	return kedge__segment_header_decode(raw, &got, err);
}

static void test_header_refused(void **state)
{
	struct kedge__error err = KEDGE__ERROR_INIT;

	(void)state;
	assert_refused(header_with(8, "\2\0\7\0", 4, &err), KEDGE_E_FORMAT, &err,
		       "format 2.7, but this build reads 1.x");
	assert_refused(header_with(8, "\0\0", 2, &err), KEDGE_E_FORMAT, &err, "format 0.0");
	assert_int_equal(header_with(10, "\x63\0", 2, &err), 0);
	assert_refused(header_with(12, "\x41", 1, &err), KEDGE_E_DAMAGED, &err, "size");
	assert_refused(header_with(16, "\xff\xff\xff\xff\xff\xff\xff\x7f", 8, &err), KEDGE_E_DAMAGED, &err, "version");
	assert_refused(header_with(32, "\x08", 1, &err), KEDGE_E_DAMAGED, &err, "rank 8 of 8");
	assert_refused(header_with(36, "\0\0\0\1", 4, &err), KEDGE_E_DAMAGED, &err, "rank");
	assert_refused(header_with(40, "\1", 1, &err), KEDGE_E_DAMAGED, &err, "reserved");
	assert_refused(header_with(55, "\1", 1, &err), KEDGE_E_DAMAGED, &err, "reserved");
}

static void test_footer_round_trip_and_flips(void **state)
{
	struct kedge__section_entry e[SECTIONS];
	struct kedge__segment_footer f, got;
	uint8_t raw[KEDGE__SEGMENT_FOOTER_BYTES];

	(void)state;
	make_frame(e, &f);
	kedge__segment_footer_encode(&f, raw);
	assert_int_equal(kedge__segment_footer_decode(raw, f.file_bytes, &got, NULL), 0);
	assert_int_equal(got.index_offset, f.index_offset);
	assert_int_equal(got.payload_bytes, 1000);
	assert_int_equal(got.section_count, SECTIONS);
	assert_true(kedge__digest_equal(got.seal, f.seal));
	for (size_t i = 0; i < sizeof(raw); i++)
		for (int bit = 0; bit < 8; bit++) {
			raw[i] ^= (uint8_t)(1 << bit);
			assert_int_equal(kedge__segment_footer_decode(raw, f.file_bytes, &got, NULL), KEDGE_E_DAMAGED);
			raw[i] ^= (uint8_t)(1 << bit);
		}
}

static int footer_with(void (*change)(struct kedge__segment_footer *f), int64_t grown, struct kedge__error *err)
{
	struct kedge__section_entry e[SECTIONS];
	struct kedge__segment_footer f, got;
	uint8_t raw[KEDGE__SEGMENT_FOOTER_BYTES];

	make_frame(e, &f);
	change(&f);
	kedge__segment_footer_encode(&f, raw);
	return kedge__segment_footer_decode(raw, f.file_bytes + (uint64_t)grown, &got, err);
}

static void no_change(struct kedge__segment_footer *f)
{
	(void)f;
}

static void early_index(struct kedge__segment_footer *f)
{
	f->index_offset--;
}

static void huge_payload(struct kedge__segment_footer *f)
{
	f->payload_bytes = UINT64_MAX - 10;
}

static void large_payload(struct kedge__segment_footer *f)
{
	f->payload_bytes = f->index_offset - KEDGE__SEGMENT_HEADER_BYTES + 1;
}

static void many_sections(struct kedge__segment_footer *f)
{
	f->section_count = UINT32_MAX;
}

static void tiny_file(struct kedge__segment_footer *f)
{
	f->file_bytes = 127;
	f->index_offset = 0;
	f->section_count = 0;
}

static void test_footer_refused(void **state)
{
	struct kedge__error err = KEDGE__ERROR_INIT;

	(void)state;
	assert_int_equal(footer_with(no_change, 0, NULL), 0);
	assert_refused(footer_with(no_change, 1, &err), KEDGE_E_DAMAGED, &err, "bytes, but should have");
	assert_refused(footer_with(no_change, -1, &err), KEDGE_E_DAMAGED, &err, "bytes, but should have");
	assert_refused(footer_with(early_index, 0, &err), KEDGE_E_DAMAGED, &err, "add up");
	assert_refused(footer_with(huge_payload, 0, &err), KEDGE_E_DAMAGED, &err, "add up");
	assert_refused(footer_with(large_payload, 0, &err), KEDGE_E_DAMAGED, &err, "add up");
	assert_refused(footer_with(many_sections, 0, &err), KEDGE_E_DAMAGED, &err, "add up");
	assert_refused(footer_with(tiny_file, 0, &err), KEDGE_E_DAMAGED, &err, "add up");
}

/* A byte of header or index that changes changes the seal, or the index does not decode. */
static void test_index_flips(void **state)
{
	struct kedge__section_entry e[SECTIONS], got[SECTIONS];
	struct kedge__segment_footer f;
	struct kedge__bytes index = {0};
	uint8_t raw[KEDGE__SEGMENT_HEADER_BYTES];
	struct kedge__digest seal;

	(void)state;
	make_frame(e, &f);
	kedge__segment_header_encode(&header, raw);
	assert_int_equal(kedge__section_index_encode(e, SECTIONS, &index, NULL), 0);
	seal = kedge__segment_seal(raw, index.at, index.count);
	assert_int_equal(kedge__section_index_decode(index.at, index.count, &f, got, NULL), 0);
	assert_memory_equal(got, e, sizeof(e));
	for (size_t i = 0; i < index.count; i++) {
		index.at[i] ^= 0x10;
		assert_false(kedge__digest_equal(seal, kedge__segment_seal(raw, index.at, index.count)));
		index.at[i] ^= 0x10;
	}
	for (size_t i = 0; i < sizeof(raw); i++) {
		raw[i] ^= 0x10;
		assert_false(kedge__digest_equal(seal, kedge__segment_seal(raw, index.at, index.count)));
		raw[i] ^= 0x10;
	}
	assert_true(kedge__digest_equal(seal, kedge__segment_seal(raw, index.at, index.count)));
	kedge__bytes_done(&index);
}

static int index_with(void (*change)(struct kedge__section_entry *e), struct kedge__error *err)
{
	struct kedge__section_entry e[SECTIONS], got[SECTIONS];
	struct kedge__segment_footer f;
	struct kedge__bytes index = {0};
	int rc;

	make_frame(e, &f);
	change(e);
	assert_int_equal(kedge__section_index_encode(e, SECTIONS, &index, NULL), 0);
	rc = kedge__section_index_decode(index.at, index.count, &f, got, err);
	kedge__bytes_done(&index);
	return rc;
}

static void overlap(struct kedge__section_entry *e)
{
	e[2].offset--;
	e[2].bytes++;
}

static void beyond(struct kedge__section_entry *e)
{
	e[5].bytes++;
}

static void wrap(struct kedge__section_entry *e)
{
	e[1].bytes = UINT64_MAX - 5;
}

static void gap_at_end(struct kedge__section_entry *e)
{
	e[5].bytes--;
}

static void required_unknown(struct kedge__section_entry *e)
{
	e[5].flags = KEDGE__SECTION_REQUIRED;
}

static void unknown_flags(struct kedge__section_entry *e)
{
	e[5].flags = 8;
}

static void twice(struct kedge__section_entry *e)
{
	e[5].type = KEDGE__SECTION_SUMMARY;
}

static void missing(struct kedge__section_entry *e)
{
	e[2].type = 0x41424344;
	e[2].flags = 0;
}

static void test_index_refused(void **state)
{
	struct kedge__error err = KEDGE__ERROR_INIT;

	(void)state;
	assert_refused(index_with(overlap, &err), KEDGE_E_DAMAGED, &err, "does not start where the previous one ends");
	assert_refused(index_with(beyond, &err), KEDGE_E_DAMAGED, &err, "section 5");
	assert_refused(index_with(wrap, &err), KEDGE_E_DAMAGED, &err, "section 1");
	assert_refused(index_with(gap_at_end, &err), KEDGE_E_DAMAGED, &err, "fill");
	assert_refused(index_with(required_unknown, &err), KEDGE_E_FORMAT, &err, "section ???? is required");
	assert_refused(index_with(unknown_flags, &err), KEDGE_E_FORMAT, &err, "flags");
	assert_refused(index_with(twice, &err), KEDGE_E_DAMAGED, &err, "SUMM occurs twice");
	assert_refused(index_with(missing, &err), KEDGE_E_DAMAGED, &err, "MAPX is missing");
}

static void test_marker(void **state)
{
	const struct kedge__store_id id = {{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}};
	struct kedge__store_id got = {{0}};
	struct kedge__error err = KEDGE__ERROR_INIT;
	struct kedge__bytes b = {0};

	(void)state;
	assert_int_equal(kedge__store_marker_encode(&id, &b, NULL), 0);
	assert_int_equal(kedge__store_marker_decode(b.at, b.count, &got, NULL), 0);
	assert_memory_equal(&got, &id, sizeof(id));
	for (size_t n = 0; n < b.count; n++)
		assert_int_equal(kedge__store_marker_decode(b.at, n, &got, NULL), KEDGE_E_DAMAGED);
	for (size_t i = 0; i < b.count; i++)
		for (int bit = 0; bit < 8; bit++) {
			b.at[i] ^= (uint8_t)(1 << bit);
			assert_int_equal(kedge__store_marker_decode(b.at, b.count, &got, NULL), KEDGE_E_DAMAGED);
			b.at[i] ^= (uint8_t)(1 << bit);
		}
	b.at[8] = 9;
	kedge__put64(b.at + 40, kedge__checksum(b.at, 40));
	assert_refused(kedge__store_marker_decode(b.at, b.count, &got, &err), KEDGE_E_FORMAT, &err, "format 9.0");
	b.at[8] = 1;
	b.at[35] = 9;
	kedge__put64(b.at + 40, kedge__checksum(b.at, 40));
	assert_refused(kedge__store_marker_decode(b.at, b.count, &got, &err), KEDGE_E_DAMAGED, &err, "reserved");
	kedge__bytes_done(&b);
}

/* What is written is read; anything else is refused, whatever byte it is. */
static void test_shield(void **state)
{
	static struct kedge__shield s, got;
	struct kedge__bytes b = {0};
	size_t head = 0;

	(void)state;
	s = (struct kedge__shield){.version = 9, .scheme = KEDGE__SCHEME_XOR, .members = 4, .parity = 1, .self = 2};
	for (uint32_t i = 0; i < s.members; i++)
		s.at[i] = (struct kedge__shield_member){i * 2, i, 3000000 + i, {i, 7}, "node"};
	kedge__shield_measure(&s);
	assert_true(s.rows == 6 && s.unit % 64 == 0 && s.unit * s.rows * 3 >= 3000003); /* a third of it, little more */
	assert_true(s.unit * s.rows * 3 < 3000003 + 3 * 64 * s.rows);
	assert_true(s.unit * 3 <= 512 << 10); /* a row stays in a processor's cache */
	assert_int_equal(kedge__shield_encode(&s, &b, NULL), 0);
	assert_int_equal(kedge__shield_decode(b.at, b.count, &got, &head, NULL), 0);
	assert_int_equal(head, b.count);
	assert_memory_equal(&got, &s, sizeof(s));
	assert_int_equal(kedge__shield_file_bytes(&s, head), head + s.rows * (s.unit + 8) + 8);
	for (size_t n = 0; n < b.count; n++)
		assert_int_equal(kedge__shield_decode(b.at, n, &got, &head, NULL), KEDGE_E_DAMAGED);
	for (size_t i = 0; i < b.count; i++) {
		b.at[i] ^= 4;
		assert_int_not_equal(kedge__shield_decode(b.at, b.count, &got, &head, NULL), 0);
		b.at[i] ^= 4;
	}
	s.rows++; /* more than the segments have */
	b.count = 0;
	assert_int_equal(kedge__shield_encode(&s, &b, NULL), 0);
	assert_int_equal(kedge__shield_decode(b.at, b.count, &got, &head, NULL), KEDGE_E_DAMAGED);
	kedge__bytes_done(&b);
}

static void test_tie(void **state)
{
	const struct kedge__tie tie = {{{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}}, "/lustre/me"};
	struct kedge__tie got = {.path = NULL};
	struct kedge__error err = KEDGE__ERROR_INIT;
	struct kedge__bytes b = {0};

	(void)state;
	assert_int_equal(kedge__tie_encode(&tie, &b, NULL), 0);
	assert_int_equal(b.count, 48 + 10);
	assert_int_equal(kedge__tie_decode(b.at, b.count, &got, NULL), 0);
	assert_memory_equal(&got.id, &tie.id, sizeof(tie.id));
	assert_string_equal(got.path, tie.path);
	kedge__tie_done(&got);
	for (size_t n = 0; n < b.count; n++)
		assert_int_equal(kedge__tie_decode(b.at, n, &got, NULL), KEDGE_E_DAMAGED);
	for (size_t i = 0; i < b.count; i++)
		for (int bit = 0; bit < 8; bit++) {
			b.at[i] ^= (uint8_t)(1 << bit);
			assert_int_equal(kedge__tie_decode(b.at, b.count, &got, NULL), KEDGE_E_DAMAGED);
			b.at[i] ^= (uint8_t)(1 << bit);
		}
	b.at[8] = 9;
	kedge__put64(b.at + b.count - 8, kedge__checksum(b.at, b.count - 8));
	assert_refused(kedge__tie_decode(b.at, b.count, &got, &err), KEDGE_E_FORMAT, &err, "format 9.0");
	b.at[8] = 1;
	b.at[32] = 9;
	kedge__put64(b.at + b.count - 8, kedge__checksum(b.at, b.count - 8));
	assert_refused(kedge__tie_decode(b.at, b.count, &got, &err), KEDGE_E_DAMAGED, &err, "path");
	b.at[32] = 10;
	b.at[44] = 0;
	kedge__put64(b.at + b.count - 8, kedge__checksum(b.at, b.count - 8));
	assert_refused(kedge__tie_decode(b.at, b.count, &got, &err), KEDGE_E_DAMAGED, &err, "path of L2");
	kedge__bytes_done(&b);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_header_round_trip),
	    cmocka_unit_test(test_header_flips),
	    cmocka_unit_test(test_header_refused),
	    cmocka_unit_test(test_footer_round_trip_and_flips),
	    cmocka_unit_test(test_footer_refused),
	    cmocka_unit_test(test_index_flips),
	    cmocka_unit_test(test_index_refused),
	    cmocka_unit_test(test_marker),
	    cmocka_unit_test(test_tie),
	    cmocka_unit_test(test_shield),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
