/* SPDX-License-Identifier: BSD-3-Clause */
/* Blocks that are packed against the version before. */
#include "fixture.h"

/* The last version with the lowest bit of most bytes, or all of some chunks, changed; ODDS in ten chunks stay. */
static size_t drift(struct job *job, uint64_t version, uint64_t odds)
{
	size_t index = job_step(job, version);

	for (uint32_t rank = 0; rank < job->ranks; rank++) {
		uint64_t seed = version * 31 + rank;

		for (int r = 0; r < REGIONS && index; r++) {
			const struct image *last = &job->images[index - 1][rank];
			struct image *image = &job->images[index][rank];

			memcpy(image->data[r], last->data[r], KEDGE__MIN(image->bytes[r], last->bytes[r]));
			for (uint64_t at = 0; at < image->bytes[r]; at += CHUNK) {
				uint64_t dice = draw(&seed) % 10;

				for (uint64_t i = at; i < KEDGE__MIN(at + CHUNK, image->bytes[r]); i++) {
					if (dice == 0 && odds)
						image->data[r][i] = (uint8_t)draw(&seed);
					else if (dice > odds)
						image->data[r][i] ^= (i + version) % 8 == 0;
				}
			}
		}
	}
	return index;
}

static void codec_set(struct job *job, const char *text)
{
	assert_ok(kedge__codec_choice_parse(text, &job->codec, err));
}

static struct kedge__segment *open_segment(struct kedge__catalog *cat, uint64_t version)
{
	const struct kedge__set_part *part = &kedge__catalog_find(cat, version)->set.parts[0];
	char *path = kedge__segment_path(cat, version, 0, part->generation);
	struct kedge__segment *seg = NULL;

	assert_ok(kedge__segment_open(cat, path, part, &seg, err));
	kedge__free(path);
	return seg;
}

static size_t count_based(struct kedge__catalog *cat, uint64_t version)
{
	struct kedge__segment *seg = open_segment(cat, version);
	size_t n = 0;

	for (size_t i = 0; i < seg->block_count; i++)
		n += kedge__codec_needs_base(seg->blocks[i].codec, seg->blocks[i].param);
	if (n)
		assert_true(seg->base != KEDGE__NO_VERSION);
	else
		assert_true(seg->base == KEDGE__NO_VERSION);
	kedge__segment_close(seg);
	return n;
}

struct store {
	char *dir;
	struct kedge__catalog *cat;
	struct job job;
	struct kedge__segment_stats stats;
};

static void store_open(struct store *s, uint32_t ranks, uint64_t scale, const char *codec)
{
	s->dir = make_dir();
	s->cat = open_store(s->dir);
	s->job = job_new(ranks, scale);
	s->job.base = true;
	s->job.stats = &s->stats;
	s->job.block_bytes = 512;
	codec_set(&s->job, codec);
}

static void store_close(struct store *s)
{
	kedge__catalog_close(s->cat);
	remove_dir(s->dir);
	job_done(&s->job);
}

static void store_drift(struct store *s, uint64_t version, enum kedge__reducer_id how, uint64_t odds)
{
	size_t index = drift(&s->job, version, odds);

	assert_ok(save_index(s->cat, &s->job, index, how, false, err));
}

/* The first of five and every fourth after it stand alone; those between stand on each other. */
static void test_depth(void **state)
{
	struct store s;

	(void)state;
	store_open(&s, 1, 4096, "xor+zstd");
	for (uint64_t version = 1; version <= 9; version++) {
		store_drift(&s, version, KEDGE__REDUCER_FULL, 0);
		if (version % 4 == 1) {
			assert_int_equal(count_based(s.cat, version), 0);
			assert_int_equal(kedge__catalog_find(s.cat, version)->set.source_count, 0);
		} else {
			assert_true(count_based(s.cat, version) > 0);
			assert_int_equal(s.stats.base, version - 1);
			assert_true(s.stats.stored_bytes < 3000);
		}
	}
	assert_all_intact(s.cat, &s.job);
	store_close(&s);
}

/* All reducers and codecs, several ranks and threads, growing regions; then coalesced in batches, and gc. */
static void test_histories(void **state)
{
	static const char *const codecs[] = {"xor+shuffle+zstd", "minus+bitshuffle+lz4", "xor+delta+zstd",
					     "minus+zstd"};
	struct kedge__coalesce_report report;
	struct kedge__gc_report gone;
	struct store s;

	(void)state;
	for (size_t c = 0; c < KEDGE__COUNT(codecs); c++) {
		struct kedge__coalesce_options options = {.version = 8, .from = 5, .block_bytes = 512};
		size_t based = 0;

		store_open(&s, 1 + c % 2, 6000, codecs[c]);
		if (c % 2)
			assert_ok(kedge__pool_new(3, &s.job.pool, err));
		for (uint64_t version = 1; version <= 12; version++) {
			store_drift(&s, version, (enum kedge__reducer_id)((version + c) % 4), version % 3);
			based += count_based(s.cat, version);
		}
		assert_true(based > 20);
		assert_all_intact(s.cat, &s.job);
		options.codec = s.job.codec;
		assert_ok(kedge__coalesce(s.cat, s.job.pool, &options, &report, err));
		assert_int_equal(count_based(s.cat, 8), 0);
		assert_all_intact(s.cat, &s.job);
		options = (struct kedge__coalesce_options){.version = 12, .block_bytes = 512, .codec = s.job.codec};
		assert_ok(kedge__gc(s.cat, 3, false, &gone, err));
		kedge__gc_report_done(&gone);
		assert_all_intact(s.cat, &s.job);
		assert_ok(kedge__coalesce(s.cat, s.job.pool, &options, &report, err));
		assert_int_equal(kedge__catalog_find(s.cat, 12)->set.source_count, 0);
		assert_ok(kedge__gc(s.cat, 1, false, &gone, err));
		kedge__gc_report_done(&gone);
		assert_int_equal(kedge__catalog_count(s.cat), 1);
		assert_all_intact(s.cat, &s.job);
		kedge__pool_free(s.job.pool);
		store_close(&s);
	}
}

/* With reducer full nothing but the base makes a version depend on another. */
static void test_gc_keeps_bases(void **state)
{
	struct kedge__gc_report gone;
	struct store s;

	(void)state;
	store_open(&s, 1, 4096, "xor+zstd");
	for (uint64_t version = 1; version <= 7; version++)
		store_drift(&s, version, KEDGE__REDUCER_FULL, 0);
	assert_ok(kedge__gc(s.cat, 1, false, &gone, err));
	assert_int_equal(gone.removed, 4);
	assert_int_equal(gone.kept_for_lineage, 2);
	assert_non_null(kedge__catalog_find(s.cat, 5));
	assert_all_intact(s.cat, &s.job);
	kedge__gc_report_done(&gone);
	store_close(&s);
}

struct told {
	size_t findings;
	uint64_t version;
};

static void tell(void *ctx, const struct kedge__finding *f)
{
	struct told *told = ctx;

	told->findings++;
	told->version = f->version;
	assert_int_equal(f->block, 0);
	assert_string_equal(f->region, "alpha");
}

static void flip(struct kedge__catalog *cat, uint64_t version, size_t at)
{
	char *path = kedge__segment_path(cat, version, 0, 0);

	file_flip(path, at, 0x10);
	kedge__free(path);
}

/* A byte of version 2 is wrong: 3 and 4 stand on it and are lost too; 1 and 5, which stands alone, are not. */
static void test_damage(void **state)
{
	struct kedge__verify_report report;
	struct told told = {0};
	struct store s;

	(void)state;
	store_open(&s, 1, 4096, "xor+zstd");
	for (uint64_t version = 1; version <= 6; version++)
		store_drift(&s, version, KEDGE__REDUCER_FULL, 0);
	flip(s.cat, 2, KEDGE__SEGMENT_HEADER_BYTES + 3);
	assert_ok(kedge__verify(s.cat, NULL, KEDGE_NEWEST, tell, &told, NULL, &report, err));
	assert_int_equal(told.findings, 1);
	assert_int_equal(told.version, 2);
	assert_int_equal(report.versions_lost, 3);
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(report.lost[i], 2 + i);
	assert_int_equal(report.versions_intact, 3);
	kedge__verify_report_done(&report);
	assert_ok(compare_index(&s.cat, 1, &s.job, 5, err));
	assert_fails(KEDGE_E_DAMAGED, "(version 2, rank 0): block 0", compare_index(&s.cat, 1, &s.job, 3, err));
	/* A version that cannot be read as a base is done without. */
	store_drift(&s, 7, KEDGE__REDUCER_FULL, 0);
	flip(s.cat, 7, KEDGE__SEGMENT_HEADER_BYTES + 3);
	store_drift(&s, 8, KEDGE__REDUCER_FULL, 0);
	assert_ok(compare_index(&s.cat, 1, &s.job, 7, err));
	store_close(&s);
}

/* Whose segment is at fault is told, so that another copy of that one can be used. */
static void test_blame(void **state)
{
	struct kedge__lineage *l = NULL;
	const struct kedge__segment *top;
	uint8_t raw[512], scratch[512];
	uint64_t bad = 99;
	struct store s;

	(void)state;
	store_open(&s, 1, 4096, "xor+zstd");
	for (uint64_t version = 1; version <= 3; version++)
		store_drift(&s, version, KEDGE__REDUCER_FULL, 0);
	flip(s.cat, 1, KEDGE__SEGMENT_HEADER_BYTES + 3);
	assert_ok(kedge__lineage_open(&s.cat, 1, 3, 0, &l, err));
	top = kedge__lineage_top(l);
	assert_fails(KEDGE_E_DAMAGED, "(version 1, rank 0): block 0",
		     kedge__lineage_read_block(l, top, 0, raw, scratch, &bad, err));
	assert_int_equal(bad, 1);
	assert_fails(KEDGE_E_STATE, "packed against version 2",
		     kedge__lineage_read_block(NULL, top, 0, raw, scratch, &bad, err));
	assert_ok(kedge__lineage_read_block(l, top, 2, raw, scratch, &bad, err));
	assert_memory_equal(raw, s.job.images[2][0].data[0] + 1024, 512);
	kedge__lineage_close(l);
	store_close(&s);
}

/* A base that was replaced by another version of its number is not used. */
static void test_replaced_base(void **state)
{
	struct store s;
	struct kedge__lineage *l;

	(void)state;
	store_open(&s, 1, 4096, "xor+zstd");
	for (uint64_t version = 1; version <= 3; version++)
		store_drift(&s, version, KEDGE__REDUCER_FULL, 0);
	codec_set(&s.job, "none");
	s.job.images[1][0].data[0][7] ^= 1;
	assert_ok(save_index(s.cat, &s.job, 1, KEDGE__REDUCER_FULL, false, err));
	assert_fails(KEDGE_E_MISSING, "was replaced since version 3", kedge__lineage_open(&s.cat, 1, 3, 0, &l, err));
	store_close(&s);
}

/* "auto" tries the base where it may pay, remembers it, and does not make a version depend on another for it. */
static void test_auto(void **state)
{
	struct store s;
	struct kedge__segment *seg;

	(void)state;
	store_open(&s, 1, UINT64_C(2) << 20, "auto");
	s.job.block_bytes = 65536;
	s.job.codec.storage = 50e6;
	s.job.codec.pace = kedge__codec_pace_built_in;
	assert_ok(kedge__codec_memory_new(&s.job.memory, err));
	store_drift(&s, 1, KEDGE__REDUCER_BASIC, 1);
	store_drift(&s, 2, KEDGE__REDUCER_FULL, 1);
	assert_int_equal(count_based(s.cat, 2), 0);
	store_drift(&s, 3, KEDGE__REDUCER_BASIC, 1);
	assert_true(count_based(s.cat, 3) > 10);
	seg = open_segment(s.cat, 3);
	assert_int_equal(seg->packing[0].age, 0);
	assert_non_null(strstr(seg->packing[0].name, "xor"));
	kedge__segment_close(seg);
	store_drift(&s, 4, KEDGE__REDUCER_BASIC, 1);
	assert_true(count_based(s.cat, 4) > 10);
	seg = open_segment(s.cat, 4);
	assert_int_equal(seg->packing[0].age, 1);
	kedge__segment_close(seg);
	assert_all_intact(s.cat, &s.job);
	kedge__codec_memory_free(s.job.memory);
	store_close(&s);
}

/* The last version, with a bit of every STEP-th chunk changed, others in each version. All of it can be packed. */
static void store_touch(struct store *s, uint64_t version, uint64_t step)
{
	size_t index = job_step(&s->job, version);
	const struct image *last = index ? &s->job.images[index - 1][0] : NULL;
	struct image *image = &s->job.images[index][0];

	for (int r = 0; r < REGIONS; r++) {
		if (last)
			memcpy(image->data[r], last->data[r], KEDGE__MIN(image->bytes[r], last->bytes[r]));
		for (uint64_t i = 0; i < image->bytes[r]; i++)
			image->data[r][i] &= 0x0f;
		for (uint64_t at = version % step * CHUNK; at < image->bytes[r]; at += step * CHUNK)
			image->data[r][at] ^= 1;
	}
	assert_ok(save_index(s->cat, &s->job, index, KEDGE__REDUCER_BASIC, false, err));
}

/* Blocks that are decoded to read all of VERSION in pieces. *HELD: those that there are in its lineage. */
static uint64_t count_decoded(struct store *s, uint64_t version, uint64_t *held)
{
	const struct image *image = &s->job.images[s->job.count - 1][0];
	struct kedge__lineage_reader *reader = NULL;
	struct kedge__lineage *l = NULL;
	uint8_t bytes[CHUNK * 3];
	uint64_t decoded;

	assert_ok(kedge__lineage_open(&s->cat, 1, version, 0, &l, err));
	assert_ok(kedge__lineage_reader_new(l, &reader, err));
	*held = 0;
	for (size_t i = 0; i < kedge__lineage_count(l); i++)
		*held += kedge__lineage_at(l, i)->block_count;
	for (int r = 0; r < REGIONS; r++)
		for (uint64_t at = 0, n; at < image->bytes[r]; at += n) {
			n = KEDGE__MIN(sizeof(bytes), image->bytes[r] - at);
			assert_ok(kedge__lineage_reader_read(reader, address(r, at), bytes, n, err));
			assert_memory_equal(bytes, image->data[r] + at, n);
		}
	decoded = kedge__lineage_unpacked(l);
	kedge__lineage_reader_free(reader);
	kedge__lineage_close(l);
	return decoded;
}

/* Neighbouring bytes come from more versions than a cache of a megabyte has room for, here as they are, and there as
 * the base of the version that is read: each block is decoded once or twice, not again and again for each piece. */
static void test_many_versions(void **state)
{
	enum { VERSIONS = 24, BLOCK = 64 << 10 };
	uint64_t decoded, held;
	struct store s;

	(void)state;
	store_open(&s, 1, VERSIONS * BLOCK, "zstd");
	s.job.block_bytes = BLOCK;
	for (uint64_t version = 1; version <= VERSIONS; version++)
		store_touch(&s, version, VERSIONS);
	decoded = count_decoded(&s, VERSIONS, &held);
	assert_in_range(decoded, VERSIONS, 2 * held);
	codec_set(&s.job, "xor+zstd");
	store_touch(&s, VERSIONS + 1, 1);
	assert_true(count_based(s.cat, VERSIONS + 1) >= VERSIONS);
	decoded = count_decoded(&s, VERSIONS + 1, &held);
	assert_in_range(decoded, 2 * VERSIONS, 2 * held);
	store_close(&s);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_depth),  cmocka_unit_test(test_histories),     cmocka_unit_test(test_gc_keeps_bases),
	    cmocka_unit_test(test_damage), cmocka_unit_test(test_blame),         cmocka_unit_test(test_replaced_base),
	    cmocka_unit_test(test_auto),   cmocka_unit_test(test_many_versions),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
