/* SPDX-License-Identifier: BSD-3-Clause */
/* The manifest of a set. */
#include "format_samples.h"

static void make_set(struct kedge__set *s, uint32_t ranks)
{
	static const uint64_t sources[] = {0, 1, 5, 1000000};

	*s = (struct kedge__set){
	    .version = 1000001, .parent = 1000000, .created_ns = 17, .reducer = 3, .ranks = ranks, .seconds = 0.25};
	s->name = kedge__strdup("heat2d");
	s->parts = kedge__calloc(ranks, sizeof(*s->parts));
	s->sources = kedge__calloc(4, sizeof(*s->sources));
	assert_true(s->name && s->parts && s->sources);
	memcpy(s->sources, sources, sizeof(sources));
	s->source_count = 4;
	for (uint32_t i = 0; i < ranks; i++)
		s->parts[i] = (struct kedge__set_part){.generation = i,
						       .file_bytes = 100000 + i,
						       .seal = sample_digest(i),
						       .image_id = sample_digest(100 + i),
						       .raw_bytes = UINT64_C(1) << (i % 60),
						       .literal_bytes = 90000,
						       .metadata_bytes = 500};
}

static void test_round_trip(void **state)
{
	struct kedge__set s, got = {0};
	struct kedge__bytes b = {0};

	(void)state;
	make_set(&s, 70);
	assert_int_equal(kedge__set_encode(&s, &b, NULL), 0);
	assert_int_equal(kedge__set_decode(b.at, b.count, &got, NULL), 0);
	assert_string_equal(got.name, "heat2d");
	assert_int_equal(got.version, s.version);
	assert_int_equal(got.parent, s.parent);
	assert_int_equal(got.created_ns, 17);
	assert_int_equal(got.reducer, 3);
	assert_true(got.seconds == 0.25);
	assert_int_equal(got.ranks, 70);
	for (uint32_t i = 0; i < 70; i++) {
		assert_int_equal(got.parts[i].generation, i);
		assert_int_equal(got.parts[i].file_bytes, 100000 + i);
		assert_int_equal(got.parts[i].raw_bytes, s.parts[i].raw_bytes);
		assert_int_equal(got.parts[i].literal_bytes, 90000);
		assert_int_equal(got.parts[i].metadata_bytes, 500);
		assert_true(kedge__digest_equal(got.parts[i].seal, s.parts[i].seal));
		assert_true(kedge__digest_equal(got.parts[i].image_id, s.parts[i].image_id));
	}
	assert_int_equal(got.source_count, 4);
	assert_memory_equal(got.sources, s.sources, 4 * sizeof(*s.sources));
	kedge__set_done(&s);
	kedge__set_done(&got);
	kedge__set_done(&got);
	kedge__bytes_done(&b);
}

/* The reason is an extension: who does not know it skips it, and a manifest without one is as it always was. */
static void test_why(void **state)
{
	struct kedge__set s, got = {0};
	struct kedge__bytes plain = {0}, b = {0};
	char text[KEDGE__WHY_MAX + 2];

	(void)state;
	make_set(&s, 2);
	assert_int_equal(kedge__set_encode(&s, &plain, NULL), 0);
	memset(text, 'x', sizeof(text) - 1);
	text[KEDGE__WHY_MAX + 1] = 0;
	s.why = kedge__strdup(text);
	assert_int_equal(kedge__set_encode(&s, &b, NULL), KEDGE_E_ARG);
	s.why[KEDGE__WHY_MAX] = 0;
	assert_int_equal(kedge__set_encode(&s, &b, NULL), 0);
	assert_int_equal(kedge__get64(b.at + 72), 3 + KEDGE__WHY_MAX);
	assert_int_equal(b.count, plain.count + 3 + KEDGE__WHY_MAX);
	assert_int_equal(kedge__get16(plain.at + 10), 0);
	assert_int_equal(kedge__get16(b.at + 10), 1);
	assert_int_equal(kedge__set_decode(b.at, b.count, &got, NULL), 0);
	assert_string_equal(got.why, s.why);
	kedge__set_done(&got);
	assert_int_equal(kedge__set_decode(plain.at, plain.count, &got, NULL), 0);
	assert_null(got.why);
	kedge__set_done(&got);
	kedge__set_done(&s);
	kedge__bytes_done(&plain);
	kedge__bytes_done(&b);
}

/* What people say about a version: extensions, too. */
static void test_notes_and_labels(void **state)
{
	static const char *const bad_labels[] = {"", "7", "newest", ".a", "-a", "a  b", "a b ", "a/b", "a\n"};
	static const char *const bad_notes[] = {"", "two\nlines", "bell\a"};
	struct kedge__set s, got = {0};
	struct kedge__bytes b = {0};
	size_t extensions;

	(void)state;
	make_set(&s, 2);
	s.note = kedge__strdup("before the \xc3\xa4nderung");
	s.labels = kedge__strdup("good v1.2 2024-05");
	assert_int_equal(kedge__set_encode(&s, &b, NULL), 0);
	assert_int_equal(kedge__get16(b.at + 10), 1);
	assert_int_equal(kedge__set_decode(b.at, b.count, &got, NULL), 0);
	assert_string_equal(got.note, s.note);
	assert_string_equal(got.labels, s.labels);
	assert_true(kedge__set_has_label(&got, "v1.2") && kedge__set_has_label(&got, "good"));
	assert_false(kedge__set_has_label(&got, "v1") || kedge__set_has_label(&got, "1.2"));
	kedge__set_done(&got);
	/* A label that is none, under a good checksum. */
	extensions = b.count - 8 - strlen(s.labels);
	b.at[extensions] = ' ';
	kedge__put64(b.at + b.count - 8, kedge__checksum(b.at, b.count - 8));
	assert_int_equal(kedge__set_decode(b.at, b.count, &got, NULL), KEDGE_E_DAMAGED);
	kedge__bytes_done(&b);
	for (size_t i = 0; i < KEDGE__COUNT(bad_labels); i++) {
		kedge__free(s.labels);
		s.labels = kedge__strdup(bad_labels[i]);
		assert_int_equal(kedge__set_encode(&s, &b, NULL), KEDGE_E_ARG);
	}
	kedge__free(s.labels);
	s.labels = NULL;
	for (size_t i = 0; i < KEDGE__COUNT(bad_notes); i++) {
		kedge__free(s.note);
		s.note = kedge__strdup(bad_notes[i]);
		assert_int_equal(kedge__set_encode(&s, &b, NULL), KEDGE_E_ARG);
	}
	kedge__set_done(&s);
}

/* What stays on the level is part of it; longer than any rule is, it is none. */
static void test_keep(void **state)
{
	struct kedge__set s, got = {0};
	struct kedge__bytes b = {0};

	(void)state;
	make_set(&s, 2);
	s.keep = kedge__strdup("2 hourly:24");
	assert_int_equal(kedge__set_encode(&s, &b, NULL), 0);
	assert_int_equal(kedge__get16(b.at + 10), 1);
	assert_int_equal(kedge__set_decode(b.at, b.count, &got, NULL), 0);
	assert_string_equal(got.keep, s.keep);
	kedge__set_done(&got);
	kedge__bytes_done(&b);
	kedge__free(s.keep);
	s.keep = kedge__malloc(KEDGE__KEEP_MAX + 2);
	memset(s.keep, '1', KEDGE__KEEP_MAX + 1);
	s.keep[KEDGE__KEEP_MAX + 1] = '\0';
	assert_int_equal(kedge__set_encode(&s, &b, NULL), KEDGE_E_ARG);
	kedge__bytes_done(&b);
	kedge__set_done(&s);
}

static void test_flips_and_cuts(void **state)
{
	struct kedge__set s, got = {0};
	struct kedge__bytes b = {0};
	uint8_t *longer;

	(void)state;
	make_set(&s, 3);
	assert_int_equal(kedge__set_encode(&s, &b, NULL), 0);
	for (size_t i = 0; i < b.count; i++)
		for (int bit = 0; bit < 8; bit++) {
			b.at[i] ^= (uint8_t)(1 << bit);
			assert_int_equal(kedge__set_decode(b.at, b.count, &got, NULL), KEDGE_E_DAMAGED);
			b.at[i] ^= (uint8_t)(1 << bit);
		}
	for (size_t n = 0; n < b.count; n++)
		assert_int_equal(kedge__set_decode(b.at, n, &got, NULL), KEDGE_E_DAMAGED);
	longer = calloc(1, b.count + 1);
	assert_non_null(longer);
	memcpy(longer, b.at, b.count);
	assert_int_equal(kedge__set_decode(longer, b.count + 1, &got, NULL), KEDGE_E_DAMAGED);
	assert_null(got.name);
	free(longer);
	kedge__set_done(&s);
	kedge__bytes_done(&b);
}

/* Change BYTES at AT, put the size and checksum right, decode. EXTRA bytes go before the checksum. */
static int decode_with(size_t at, const void *bytes, size_t n, const void *extra, size_t extra_bytes,
		       struct kedge__error *err)
{
	struct kedge__set s, got = {0};
	struct kedge__bytes b = {0};
	uint8_t raw[1024];
	size_t body;
	int rc;

	make_set(&s, 2);
	assert_int_equal(kedge__set_encode(&s, &b, NULL), 0);
	body = b.count - 8 + extra_bytes;
	assert_true(body + 8 <= sizeof(raw));
	memcpy(raw, b.at, b.count - 8);
	memcpy(raw + b.count - 8, extra, extra_bytes);
	kedge__put64(raw + 16, body + 8);
	kedge__put64(raw + 72, extra_bytes);
	memcpy(raw + at, bytes, n);
	kedge__put64(raw + body, kedge__checksum(raw, body));
	rc = kedge__set_decode(raw, body + 8, &got, err);
	kedge__set_done(&got);
	kedge__set_done(&s);
	kedge__bytes_done(&b);
	return rc;
}

static void test_refused(void **state)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	const char *ones = "\xff\xff\xff\xff\xff\xff\xff\xff";

	(void)state;
	assert_int_equal(decode_with(0, "KEDGESET", 8, "", 0, NULL), 0);
	assert_refused(decode_with(8, "\3", 1, "", 0, &err), KEDGE_E_FORMAT, &err,
		       "format 3.0, but this build reads 1.x");
	assert_int_equal(decode_with(10, "\3", 1, "", 0, &err), 0);
	assert_refused(decode_with(12, "\1", 1, "", 0, &err), KEDGE_E_DAMAGED, &err, "header");
	assert_refused(decode_with(24, ones, 8, "", 0, &err), KEDGE_E_DAMAGED, &err, "version");
	assert_refused(decode_with(32, "\x41\x42\x0f", 3, "", 0, &err), KEDGE_E_DAMAGED, &err, "parent");
	assert_int_equal(decode_with(32, ones, 8, "", 0, &err), 0);
	assert_refused(decode_with(48, ones, 8, "", 0, &err), KEDGE_E_DAMAGED, &err, "seconds");
	assert_refused(decode_with(60, "\0", 1, "", 0, &err), KEDGE_E_DAMAGED, &err, "ranks");
	assert_refused(decode_with(60, "\0\0\x80\0", 4, "", 0, &err), KEDGE_E_DAMAGED, &err, "more ranks");
	assert_refused(decode_with(60, ones, 4, "", 0, &err), KEDGE_E_DAMAGED, &err, "ranks");
	assert_refused(decode_with(64, ones, 4, "", 0, &err), KEDGE_E_DAMAGED, &err, "more sources");
	assert_refused(decode_with(64, "\3", 1, "", 0, &err), KEDGE_E_DAMAGED, &err, "extensions");
	assert_refused(decode_with(68, ones, 4, "", 0, &err), KEDGE_E_DAMAGED, &err, "name");
	assert_refused(decode_with(80, "/", 1, "", 0, &err), KEDGE_E_DAMAGED, &err, "name");
	assert_refused(decode_with(80, "\0", 1, "", 0, &err), KEDGE_E_DAMAGED, &err, "NUL");
}

static void test_extensions(void **state)
{
	struct kedge__error err = KEDGE__ERROR_INIT;

	(void)state;
	assert_int_equal(decode_with(0, "K", 1, "\2\0\6\3abc", 7, NULL), 0);
	assert_refused(decode_with(0, "K", 1, "\3\0", 2, &err), KEDGE_E_FORMAT, &err, "extension 3");
	assert_refused(decode_with(0, "K", 1, "\2\1", 2, &err), KEDGE_E_DAMAGED, &err, "extension");
	assert_refused(decode_with(0, "K", 1, "\2", 1, &err), KEDGE_E_DAMAGED, &err, "extension");
	assert_refused(decode_with(72, "\1", 1, "\2\0", 2, &err), KEDGE_E_DAMAGED, &err, "extensions");
}

static const struct kedge__run_link links[] = {{7, 900}, {0, 12}};

/* A run is an extension, too, and every byte of it is checked. */
static void test_run(void **state)
{
	struct kedge__set s, got = {0};
	struct kedge__bytes b = {0};
	struct kedge__error err = KEDGE__ERROR_INIT;

	(void)state;
	make_set(&s, 2);
	s.run = (struct kedge__run){0x1122334455667788, 300, kedge__calloc(2, sizeof(links[0])), 2};
	memcpy(s.run.links, links, sizeof(links));
	assert_int_equal(kedge__set_encode(&s, &b, NULL), 0);
	assert_int_equal(kedge__get16(b.at + 10), 2);
	assert_int_equal(kedge__set_decode(b.at, b.count, &got, NULL), 0);
	assert_int_equal(got.run.id, s.run.id);
	assert_int_equal(got.run.epoch, 300);
	assert_int_equal(got.run.link_count, 2);
	assert_memory_equal(got.run.links, links, sizeof(links));
	kedge__set_done(&got);
	s.run.links[1].until = 900;
	assert_int_equal(kedge__set_encode(&s, &b, NULL), KEDGE_E_ARG);
	kedge__set_done(&s);
	kedge__bytes_done(&b);
	assert_int_equal(decode_with(0, "K", 1,
				     "\4\x0b"
				     "12345678\1\0\0",
				     13, &err),
			 KEDGE_E_DAMAGED);
	kedge__error_done(&err);
	assert_int_equal(decode_with(0, "K", 1,
				     "\4\x0a"
				     "12345678\1\0",
				     12, NULL),
			 0);
	assert_refused(decode_with(0, "K", 1,
				   "\4\x0a"
				   "12345678\1\1",
				   12, &err),
		       KEDGE_E_DAMAGED, &err, "run");
	assert_refused(decode_with(0, "K", 1,
				   "\4\2"
				   "12",
				   4, &err),
		       KEDGE_E_DAMAGED, &err, "run");
}

/* Which versions belong to a run that follows others. */
static void test_histories(void **state)
{
	struct kedge__run_link room[4];
	struct kedge__run old = {0}, first = {.links = (struct kedge__run_link[4]){{0}}}, next = {.links = room};

	(void)state;
	kedge__run_follow(&old, 10, 11, 5, &first); /* after version 10 of a store without runs */
	assert_int_equal(first.link_count, 1);
	assert_true(kedge__run_has(&first, 0, 10) && !kedge__run_has(&first, 0, 11) && kedge__run_has(&first, 5, 11));
	assert_true(kedge__run_abandons(&first, 0, 11));
	kedge__run_follow(&first, 20, 20, 6, &next); /* 20 is taken again */
	assert_true(kedge__run_has(&next, 5, 19) && !kedge__run_has(&next, 5, 20) && kedge__run_has(&next, 0, 10));
	assert_true(kedge__run_abandons(&next, 5, 20));
	kedge__run_follow(&first, 3, 4, 6, &next); /* back behind the beginning of the run */
	assert_int_equal(next.link_count, 1);
	assert_true(kedge__run_has(&next, 0, 3) && !kedge__run_has(&next, 0, 4) && !kedge__run_has(&next, 5, 3));
	/* A run that nobody remembers: what stands below is left alone. */
	assert_true(!kedge__run_has(&next, 99, 2) && !kedge__run_abandons(&next, 99, 2));
	assert_true(kedge__run_abandons(&next, 99, 4));
	kedge__run_follow(&first, KEDGE__NO_VERSION, 1, 7, &next); /* all was discarded */
	assert_int_equal(next.link_count, 0);
	assert_true(kedge__run_abandons(&next, 0, 1) && kedge__run_has(&next, 7, 1));
	kedge__run_follow(&first, 0, 0, 8, &next);
	assert_int_equal(next.link_count, 0);
}

/* Where segments are in bundles follows from the sizes. */
static void test_bundles(void **state)
{
	static const uint64_t bytes[] = {4096, 1, 10000, 4097, 5};
	static const uint64_t starts[] = {0, 4096, 8192, 0, 8192};
	struct kedge__set s, got = {0};
	struct kedge__bytes b = {0};
	uint8_t *tag;

	(void)state;
	make_set(&s, 5);
	s.bundle = 3;
	assert_int_equal(kedge__set_encode(&s, &b, NULL), KEDGE_E_ARG); /* with different generations */
	for (uint32_t i = 0; i < 5; i++) {
		s.parts[i].generation = i / 3;
		s.parts[i].file_bytes = bytes[i];
		s.parts[i].metadata_bytes = 0;
	}
	s.why = kedge__strdup("x");
	assert_int_equal(kedge__set_encode(&s, &b, NULL), 0);
	assert_int_equal(kedge__get16(b.at + 10), 3);
	assert_int_equal(kedge__set_decode(b.at, b.count, &got, NULL), 0);
	assert_int_equal(got.bundle, 3);
	assert_string_equal(got.why, "x");
	for (uint32_t i = 0; i < 5; i++) {
		assert_int_equal(got.parts[i].bundle, 3);
		assert_int_equal(got.parts[i].start, starts[i]);
	}
	kedge__set_done(&got);
	/* 1, and what no number of ranks can be; another odd tag; two of this one. */
	tag = b.at + b.count - 8 - 6;
	assert_memory_equal(tag, "\1\1\3\2\1x", 6);
	tag[2] = 1;
	kedge__put64(b.at + b.count - 8, kedge__checksum(b.at, b.count - 8));
	assert_int_equal(kedge__set_decode(b.at, b.count, &got, NULL), KEDGE_E_DAMAGED);
	tag[2] = 3;
	tag[0] = 3;
	kedge__put64(b.at + b.count - 8, kedge__checksum(b.at, b.count - 8));
	assert_int_equal(kedge__set_decode(b.at, b.count, &got, NULL), KEDGE_E_FORMAT);
	tag[0] = 1;
	tag[3] = 1;
	kedge__put64(b.at + b.count - 8, kedge__checksum(b.at, b.count - 8));
	assert_int_equal(kedge__set_decode(b.at, b.count, &got, NULL), KEDGE_E_FORMAT);
	s.parts[1].file_bytes = UINT64_MAX;
	b.count = 0;
	assert_int_equal(kedge__set_encode(&s, &b, NULL), 0);
	assert_int_equal(kedge__set_decode(b.at, b.count, &got, NULL), KEDGE_E_DAMAGED);
	s.bundle = 1;
	assert_int_equal(kedge__set_encode(&s, &b, NULL), KEDGE_E_ARG);
	kedge__set_done(&s);
	kedge__bytes_done(&b);
}

/* Files of many ranks: who does not know of them reads the rest. */
static void test_grouping(void **state)
{
	uint32_t numbers[] = {0, 1, 7};
	struct kedge__grouping g = {.size = 8, .count = 3, .numbers = numbers, .pattern = (char *)"a.{}"};
	struct kedge__set s, got = {0};
	struct kedge__bytes b = {0};
	uint32_t segment = 9;
	uint8_t *tag;

	(void)state;
	make_set(&s, 3);
	s.grouping = kedge__grouping_copy(&g);
	assert_non_null(s.grouping);
	assert_int_equal(kedge__set_encode(&s, &b, NULL), 0);
	assert_int_equal(kedge__get16(b.at + 10), 1);
	assert_int_equal(kedge__set_decode(b.at, b.count, &got, NULL), 0);
	assert_true(kedge__grouping_same(got.grouping, &g));
	assert_true(kedge__grouping_segment(got.grouping, 15, &segment));
	assert_int_equal(segment, 1);
	assert_true(kedge__grouping_segment(got.grouping, 63, &segment));
	assert_int_equal(segment, 2);
	assert_false(kedge__grouping_segment(got.grouping, 16, &segment));
	assert_false(kedge__grouping_segment(got.grouping, 64, &segment));
	kedge__set_done(&got);
	/* No ranks in a group; a number too many; no pattern. */
	tag = b.at + b.count - 8 - 10;
	assert_memory_equal(tag, "\14\10\10\0\0\5a.{}", 10);
	for (size_t at = 2; at < 6; at += 3) {
		uint8_t was = tag[at];

		tag[at] = at == 2 ? 0 : 0x80;
		kedge__put64(b.at + b.count - 8, kedge__checksum(b.at, b.count - 8));
		assert_int_equal(kedge__set_decode(b.at, b.count, &got, NULL), at == 2 ? KEDGE_E_DAMAGED : 0);
		kedge__set_done(&got);
		tag[at] = was;
	}
	tag[6] = tag[7] = tag[8] = tag[9] = 0;
	kedge__put64(b.at + b.count - 8, kedge__checksum(b.at, b.count - 8));
	assert_int_equal(kedge__set_decode(b.at, b.count, &got, NULL), KEDGE_E_DAMAGED);
	b.count = 0;
	s.grouping->numbers[1] = 7;
	assert_int_equal(kedge__set_encode(&s, &b, NULL), KEDGE_E_ARG);
	s.grouping->numbers[1] = 1;
	s.grouping->size = 0;
	assert_int_equal(kedge__set_encode(&s, &b, NULL), KEDGE_E_ARG);
	s.grouping->size = 8;
	s.grouping->count = 2;
	assert_int_equal(kedge__set_encode(&s, &b, NULL), KEDGE_E_ARG);
	s.grouping->count = 3;
	kedge__set_done(&s);
	kedge__bytes_done(&b);
}

static void test_encode_refused(void **state)
{
	struct kedge__bytes b = {0};
	struct kedge__set s;

	(void)state;
	make_set(&s, 2);
	s.sources[1] = 0;
	assert_int_equal(kedge__set_encode(&s, &b, NULL), KEDGE_E_ARG);
	s.sources[1] = 1;
	s.sources[3] = s.version;
	assert_int_equal(kedge__set_encode(&s, &b, NULL), KEDGE_E_ARG);
	s.source_count = 3;
	s.parent = s.version;
	assert_int_equal(kedge__set_encode(&s, &b, NULL), KEDGE_E_ARG);
	s.parent = KEDGE__NO_VERSION;
	s.seconds = -1;
	assert_int_equal(kedge__set_encode(&s, &b, NULL), KEDGE_E_ARG);
	assert_int_equal(b.count, 0);
	kedge__set_done(&s);
	kedge__bytes_done(&b);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_round_trip),       cmocka_unit_test(test_flips_and_cuts),
	    cmocka_unit_test(test_refused),          cmocka_unit_test(test_why),
	    cmocka_unit_test(test_notes_and_labels), cmocka_unit_test(test_keep),
	    cmocka_unit_test(test_extensions),       cmocka_unit_test(test_run),
	    cmocka_unit_test(test_histories),        cmocka_unit_test(test_encode_refused),
	    cmocka_unit_test(test_bundles),          cmocka_unit_test(test_grouping),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
