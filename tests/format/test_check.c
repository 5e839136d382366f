/* SPDX-License-Identifier: BSD-3-Clause */
/* What must hold between the sections of a segment, and memory that runs out. */
#include "format_samples.h"

#define SELF 100

/* A segment in memory: two regions, two blocks, a map of every kind of extent, a lineage of two. */
struct sample {
	struct kedge__segment_header header;
	struct kedge__segment_summary summary;
	struct kedge__region_record regions[2];
	struct kedge__extent extents[4];
	struct kedge__range inherited[2];
	struct kedge__extent_map map;
	struct kedge__block_record blocks[2];
	struct kedge__source_record sources[2];
	struct kedge__bytes regn;
	struct kedge__segment_parts parts;
};

static void sample_init(struct sample *s)
{
	*s = (struct sample){
	    .header = {.version = SELF, .ranks = 1},
	    .summary = {.name = (char *)"job",
			.parent = 90,
			.chunk = 64,
			.next_slot = 2,
			.raw_bytes = 740,
			.literal_bytes = 128},
	    .regions = {{.name = (char *)"a", .slot = 0, .bytes = 640}, {.name = (char *)"b", .slot = 1, .bytes = 100}},
	    .extents = {{.addr = 128, .len = 128, .kind = KEDGE__EXTENT_LITERAL},
			{.addr = 256, .len = 64, .src = 64, .version = 80, .kind = KEDGE__EXTENT_COPY},
			{.addr = 320, .len = 64, .kind = KEDGE__EXTENT_FILL},
			{.addr = 384, .len = 256, .src = 128, .version = SELF, .kind = KEDGE__EXTENT_COPY}},
	    .inherited = {{0, 640}, {SLOT(1), 100}},
	    .blocks = {{.raw_bytes = 100, .stored_bytes = 100, .region = 0},
		       {.raw_bytes = 28, .stored_bytes = 20, .codec = 1, .region = 1}},
	    .sources = {{.version = 80}, {.version = 90}},
	};
	s->map = (struct kedge__extent_map){.at = s->extents, .count = 4, .inherited = {s->inherited, 2, 2}};
	assert_int_equal(kedge__regions_encode(s->regions, 2, &s->regn, NULL), 0);
	s->summary.image_id = kedge__seal(s->regn.at, s->regn.count);
	s->parts = (struct kedge__segment_parts){.base = KEDGE__NO_VERSION,
						 .header = &s->header,
						 .summary = &s->summary,
						 .regions_data = s->regn.at,
						 .regions_bytes = s->regn.count,
						 .regions = s->regions,
						 .region_count = 2,
						 .map = &s->map,
						 .blocks = s->blocks,
						 .block_count = 2,
						 .sources = s->sources,
						 .source_count = 2};
}

static void test_right(void **state)
{
	struct sample s;

	(void)state;
	sample_init(&s);
	assert_int_equal(kedge__segment_check(&s.parts, NULL), 0);
	s.inherited[0].len = 128; /* nothing more of it is */
	assert_int_equal(kedge__segment_check(&s.parts, NULL), 0);
	s.extents[0].addr = 136;
	s.extents[0].len = 120;
	s.inherited[0].len = 136;
	assert_int_equal(kedge__segment_check(&s.parts, NULL), 0);
	s.summary.next_slot = KEDGE__SLOT_LIMIT;
	assert_int_equal(kedge__segment_check(&s.parts, NULL), 0);
	kedge__bytes_done(&s.regn);
}

static void test_wrong(void **state)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	struct sample s;

	(void)state;
#define BROKEN(what, says)                                                                                             \
	sample_init(&s);                                                                                               \
	what;                                                                                                          \
	assert_refused(kedge__segment_check(&s.parts, &err), KEDGE_E_DAMAGED, &err, says);                             \
	kedge__bytes_done(&s.regn)
	BROKEN(s.summary.raw_bytes++, "SUMM and REGN");
	BROKEN(s.summary.next_slot = 1, "slot");
	BROKEN(s.regn.at[s.regn.count - 1] ^= 1, "image id");
	BROKEN(s.summary.parent = SELF, "parent");
	BROKEN(s.summary.parent = KEDGE__NO_VERSION, "parent");
	BROKEN(s.blocks[1].region = 2, "block 1");
	BROKEN(s.blocks[1].raw_bytes--, "SUMM and BLKS");
	BROKEN(s.summary.literal_bytes--, "SUMM and BLKS");
	BROKEN((s.summary.literal_bytes--, s.blocks[1].raw_bytes--), "literals");
	BROKEN(s.extents[1].version = SELF + 1, "newer");
	BROKEN(s.extents[1].version = 81, "version 81");
	BROKEN(s.summary.parent = 89, "version 89");
	BROKEN(s.parts.source_count = 1, "version 90");
	BROKEN(s.sources[1].version = SELF, "not older");
	BROKEN(s.extents[1].src = SLOT(1) - 1, "extent 1");
	BROKEN(s.map.inherited.count = 1, "region 'b' is not covered");
	BROKEN(s.parts.region_count = 1, "");
	BROKEN(s.inherited[1].len = 99, "region 'b' is not covered");
	BROKEN(s.inherited[1].len = 101, "region 'b' is not covered");
	BROKEN(s.inherited[1].start++, "region 'b' is not covered");
	BROKEN(s.inherited[1].start = SLOT(2), "region 'b' is not covered");
	BROKEN(s.inherited[0].len = 127, "region 'a' is not covered");
	BROKEN(s.inherited[0].start = 1, "region 'a' is not covered");
	BROKEN(s.extents[2].addr = 319, "extent 2");
	BROKEN(s.extents[3].len = 257, "region 'a' is not covered");
	BROKEN((s.inherited[0].len = 128, s.extents[3].len = 255), "region 'a' is not covered");
	BROKEN((s.inherited[0].len = 128, s.extents[3].len = 257), "region 'a' is not covered");
	BROKEN(s.extents[3].addr = SLOT(2), "outside all regions");
	BROKEN((s.inherited[0].len = 128, s.inherited[1] = (struct kedge__range){640, 8}), "");
#undef BROKEN
}

static int encode_all(const struct sample *s, struct kedge__bytes out[7], struct kedge__error *err)
{
	struct kedge__set_part part = {.file_bytes = 5000};
	uint64_t sources[] = {80, 90};
	struct kedge__set set = {.name = (char *)"job",
				 .version = SELF,
				 .parent = 90,
				 .ranks = 1,
				 .parts = &part,
				 .sources = sources,
				 .source_count = 2};
	int rc = kedge__summary_encode(&s->summary, &out[0], err);

	if (rc == 0)
		rc = kedge__regions_encode(s->regions, 2, &out[1], err);
	if (rc == 0)
		rc = kedge__map_encode(KEDGE__MAP_RUNS, kedge__extents_of_map(&s->map), 64, SELF, s->regions, 2,
				       &out[2], err);
	if (rc == 0)
		rc = kedge__blocks_encode(s->blocks, 2, &out[3], err);
	if (rc == 0)
		rc = kedge__lineage_encode(s->sources, 2, &out[4], err);
	if (rc == 0)
		rc = kedge__set_encode(&set, &out[5], err);
	if (rc == 0)
		rc = kedge__store_marker_encode(&(struct kedge__store_id){{7}}, &out[6], err);
	return rc;
}

static int decode_all(const struct sample *s, const struct kedge__bytes in[7], struct kedge__error *err)
{
	struct kedge__segment_summary summary = {0};
	struct kedge__region_record *regions = NULL;
	struct kedge__extent_map map = {0};
	struct kedge__block_record *blocks = NULL;
	struct kedge__source_record *sources = NULL;
	struct kedge__set set = {0};
	enum kedge__map_encoding how;
	size_t n = 0, m;
	int rc = kedge__summary_decode(in[0].at, in[0].count, &summary, err);

	if (rc == 0)
		rc = kedge__regions_decode(in[1].at, in[1].count, &regions, &n, NULL, err);
	if (rc == 0)
		rc = kedge__map_decode(in[2].at, in[2].count, SELF, s->regions, 2, &how, &map, err);
	if (rc == 0)
		rc = kedge__blocks_decode(in[3].at, in[3].count, 120, &blocks, &m, err);
	if (rc == 0)
		rc = kedge__lineage_decode(in[4].at, in[4].count, &sources, &m, err);
	if (rc == 0)
		rc = kedge__set_decode(in[5].at, in[5].count, &set, err);
	kedge__set_done(&set);
	kedge__free(sources);
	kedge__free(blocks);
	kedge__extent_map_done(&map);
	kedge__regions_free(regions, n);
	kedge__summary_done(&summary);
	return rc;
}

static void fail_allocation(uint64_t n)
{
	char spec[32];

	snprintf(spec, sizeof(spec), "alloc@%llu", (unsigned long long)n);
	assert_int_equal(kedge__fault_set(spec, NULL), 0);
}

/* Every allocation fails once: a clean error, nothing leaked (as the address sanitizer sees), nothing half-written. */
static void test_out_of_memory(void **state)
{
	struct kedge__bytes out[7] = {{0}};
	struct kedge__error err = KEDGE__ERROR_INIT;
	struct sample s;
	uint64_t encoding, decoding;

	(void)state;
	sample_init(&s);
	kedge__fault_set(NULL, NULL);
	assert_int_equal(encode_all(&s, out, NULL), 0);
	encoding = kedge__fault_alloc_count();
	kedge__fault_set(NULL, NULL);
	assert_int_equal(decode_all(&s, out, NULL), 0);
	decoding = kedge__fault_alloc_count();
	assert_true(encoding >= 7 && decoding >= 7);
	for (uint64_t n = 1; n <= decoding; n++) {
		fail_allocation(n);
		assert_int_equal(decode_all(&s, out, &err), KEDGE_E_NOMEM);
		kedge__error_done(&err);
	}
	for (uint64_t n = 1; n <= encoding; n++) {
		for (int i = 0; i < 7; i++)
			kedge__bytes_done(&out[i]);
		fail_allocation(n);
		assert_int_equal(encode_all(&s, out, &err), KEDGE_E_NOMEM);
		kedge__error_done(&err);
	}
	kedge__fault_set(NULL, NULL);
	for (int i = 0; i < 7; i++)
		kedge__bytes_done(&out[i]);
	kedge__bytes_done(&s.regn);
}

static void test_names_out_of_memory(void **state)
{
	(void)state;
	fail_allocation(1);
	assert_null(kedge__set_file_name(1));
	fail_allocation(1);
	assert_null(kedge__version_dir_name(1));
	fail_allocation(1);
	assert_null(kedge__segment_file_name(1, 1));
	kedge__fault_set(NULL, NULL);
}

/* Encoders append, and leave what was there alone when they fail. */
static void test_encoders_append(void **state)
{
	struct kedge__bytes b = {0};
	struct sample s;
	size_t first;

	(void)state;
	sample_init(&s);
	assert_int_equal(kedge__lineage_encode(s.sources, 2, &b, NULL), 0);
	first = b.count;
	assert_int_equal(kedge__blocks_encode(s.blocks, 2, &b, NULL), 0);
	assert_true(b.count > first);
	s.blocks[1].raw_bytes = 0;
	first = b.count;
	assert_int_equal(kedge__blocks_encode(s.blocks, 2, &b, NULL), KEDGE_E_ARG);
	assert_int_equal(b.count, first);
	kedge__bytes_done(&b);
	kedge__bytes_done(&s.regn);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_right),           cmocka_unit_test(test_wrong),
	    cmocka_unit_test(test_out_of_memory),   cmocka_unit_test(test_names_out_of_memory),
	    cmocka_unit_test(test_encoders_append),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
