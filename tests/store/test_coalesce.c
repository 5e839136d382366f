/* SPDX-License-Identifier: BSD-3-Clause */
#include "fixture.h"

static struct kedge__coalesce_options options_of(const struct job *job, uint64_t version, uint64_t from, bool keep_old)
{
	return (struct kedge__coalesce_options){.version = version,
						.from = from,
						.keep_old = keep_old,
						.codec = job->codec,
						.block_bytes = job->block_bytes};
}

struct store {
	struct job job;
	char *dir;
	struct kedge__catalog *cat;
};

/* Versions 1 to 8, of which those of ROWS have digests as they were up to format 1.7. */
static void store_open_ruled(struct store *s, enum kedge__reducer_id how, uint32_t rows)
{
	s->job = job_new(2, 2048);
	s->job.rows = rows;
	s->dir = make_dir();
	s->cat = open_store(s->dir);
	for (uint64_t version = 1; version <= 8; version++)
		save_next(s->cat, &s->job, version, how);
}

static void store_open(struct store *s, enum kedge__reducer_id how)
{
	store_open_ruled(s, how, 0);
}

static void store_close(struct store *s)
{
	kedge__catalog_close(s->cat);
	job_done(&s->job);
	remove_dir(s->dir);
}

static const struct kedge__set *set_of(const struct store *s, uint64_t version)
{
	return &kedge__catalog_find(s->cat, version)->set;
}

static void test_complete(void **state)
{
	const enum kedge__reducer_id shapes[] = {KEDGE__REDUCER_FULL, KEDGE__REDUCER_BASIC, KEDGE__REDUCER_LIST,
						 KEDGE__REDUCER_TREE};

	(void)state;
	for (size_t i = 0; i < KEDGE__COUNT(shapes); i++) {
		struct store s;
		struct kedge__coalesce_options options;
		struct kedge__coalesce_report report;
		struct kedge__digest id;

		store_open(&s, shapes[i]);
		id = set_of(&s, 6)->parts[1].image_id;
		options = options_of(&s.job, 6, 0, false);
		assert_ok(kedge__coalesce(s.cat, NULL, &options, &report, err));
		assert_int_equal(set_of(&s, 6)->source_count, 0);
		assert_int_equal(set_of(&s, 6)->parent, KEDGE__NO_VERSION);
		assert_int_equal(set_of(&s, 6)->reducer, KEDGE__REDUCER_MERGED);
		assert_int_equal(set_of(&s, 6)->parts[1].generation, 1);
		assert_true(kedge__digest_equal(id, set_of(&s, 6)->parts[1].image_id));
		assert_ok(compare_index(&s.cat, 1, &s.job, 5, err));
		assert_int_equal(kedge__catalog_count(s.cat), 8 - report.versions_removed);
		assert_int_equal(report.versions_removed + report.versions_kept_for_lineage, 5);
		assert_true(report.bytes_after < report.bytes_before);
		assert_all_intact(s.cat, &s.job);
		store_close(&s);
	}
}

/* With 'basic' nothing refers past the parent: the batch takes the place of its versions. */
static void test_batch(void **state)
{
	struct store s;
	struct kedge__coalesce_options options;
	struct kedge__coalesce_report report;

	(void)state;
	store_open(&s, KEDGE__REDUCER_BASIC);
	options = options_of(&s.job, 6, 4, false);
	assert_ok(kedge__coalesce(s.cat, NULL, &options, &report, err));
	assert_int_equal(report.versions_removed, 2);
	assert_int_equal(set_of(&s, 6)->source_count, 1);
	assert_int_equal(set_of(&s, 6)->sources[0], 3);
	assert_int_equal(set_of(&s, 6)->parent, 3);
	assert_null(kedge__catalog_find(s.cat, 5));
	assert_int_equal(kedge__catalog_count(s.cat), 6);
	assert_all_intact(s.cat, &s.job);
	/* And once more, over a version that was coalesced before. */
	options = options_of(&s.job, 8, 2, false);
	assert_ok(kedge__coalesce(s.cat, NULL, &options, &report, err));
	assert_int_equal(kedge__catalog_count(s.cat), 2);
	assert_all_intact(s.cat, &s.job);
	options = options_of(&s.job, 8, 0, false);
	assert_ok(kedge__coalesce(s.cat, NULL, &options, &report, err));
	assert_int_equal(kedge__catalog_count(s.cat), 1);
	assert_all_intact(s.cat, &s.job);
	store_close(&s);
}

static void test_batches_of_copies(void **state)
{
	(void)state;
	for (uint64_t from = 1; from <= 7; from += 2) {
		struct store s;
		struct kedge__coalesce_options options;
		struct kedge__coalesce_report report;

		store_open(&s, KEDGE__REDUCER_TREE);
		options = options_of(&s.job, 7, from, from == 5);
		assert_ok(kedge__coalesce(s.cat, NULL, &options, &report, err));
		for (size_t i = 0; i < set_of(&s, 7)->source_count; i++)
			assert_true(set_of(&s, 7)->sources[i] < from);
		if (from == 5)
			assert_int_equal(kedge__catalog_count(s.cat), 8);
		assert_all_intact(s.cat, &s.job);
		store_close(&s);
	}
}

/* Onto an older version: it is the only one that is needed, whatever was referred to before. */
static void test_onto(void **state)
{
	const enum kedge__reducer_id shapes[] = {KEDGE__REDUCER_FULL, KEDGE__REDUCER_BASIC, KEDGE__REDUCER_LIST,
						 KEDGE__REDUCER_TREE};

	(void)state;
	for (size_t i = 0; i < KEDGE__COUNT(shapes); i++) {
		for (uint64_t parent = 1; parent <= 6; parent += 5) {
			struct store s;
			struct kedge__coalesce_options options;

			store_open(&s, shapes[i]);
			options = options_of(&s.job, 7, 0, true);
			options.onto = true;
			options.parent = parent;
			assert_ok(kedge__coalesce(s.cat, NULL, &options, NULL, err));
			assert_true(set_of(&s, 7)->source_count <= 1);
			if (shapes[i] != KEDGE__REDUCER_FULL)
				assert_int_equal(set_of(&s, 7)->sources[0], parent);
			assert_all_intact(s.cat, &s.job);
			options.parent = 7;
			assert_fails(KEDGE_E_ARG, "not older", kedge__coalesce(s.cat, NULL, &options, NULL, err));
			store_close(&s);
		}
	}
}

/* Digests of two kinds in one lineage, in any order: each is compared with a sum of its own kind, and merges keep it.
 */
static void test_rules_of_digests(void **state)
{
	static const uint32_t rows[] = {0xff, 0x0f, 0xaa, 0x55, 0x40};

	(void)state;
	for (size_t i = 0; i < KEDGE__COUNT(rows) * 2; i++) {
		enum kedge__reducer_id how = i % 2 ? KEDGE__REDUCER_TREE : KEDGE__REDUCER_BASIC;
		struct kedge__coalesce_options options;
		struct kedge__digest id;
		struct store s;

		store_open_ruled(&s, how, rows[i / 2]);
		assert_all_intact(s.cat, &s.job);
		id = set_of(&s, 7)->parts[0].image_id;
		options = options_of(&s.job, 7, 0, true);
		options.onto = true;
		options.parent = 4;
		assert_ok(kedge__coalesce(s.cat, NULL, &options, NULL, err));
		assert_all_intact(s.cat, &s.job);
		options = options_of(&s.job, 7, 0, false);
		assert_ok(kedge__coalesce(s.cat, NULL, &options, NULL, err));
		assert_true(kedge__digest_equal(id, set_of(&s, 7)->parts[0].image_id));
		assert_all_intact(s.cat, &s.job);
		store_close(&s);
	}
}

/* Bytes that stood in several places as copies are not written several times. */
static void test_duplicates_stay_single(void **state)
{
	struct store s;
	struct kedge__coalesce_options options;
	struct kedge__coalesce_report report;
	uint8_t *data;

	(void)state;
	s.job = job_new(1, 2048);
	s.dir = make_dir();
	s.cat = open_store(s.dir);
	save_next(s.cat, &s.job, 1, KEDGE__REDUCER_TREE);
	job_step(&s.job, 2);
	data = s.job.images[1][0].data[0];
	for (size_t at = 64; at < 2048; at += 64)
		memcpy(data + at, s.job.images[0][0].data[0], 64);
	for (size_t at = 0; at < 64; at++)
		data[at] = (uint8_t)(3 * at + 1);
	assert_ok(save_index(s.cat, &s.job, 1, KEDGE__REDUCER_TREE, false, err));
	options = options_of(&s.job, 2, 0, false);
	assert_ok(kedge__coalesce(s.cat, NULL, &options, &report, err));
	assert_true(set_of(&s, 2)->parts[0].literal_bytes <= 128 + s.job.images[1][0].bytes[1]);
	assert_all_intact(s.cat, &s.job);
	store_close(&s);
}

/* Fills that end up at odd places: copied there by a map that is not cut at chunks. */
static void test_fill_at_odd_places(void **state)
{
	char *dir = make_dir();
	struct kedge__catalog *cat = open_store(dir);
	struct kedge__region_record region = {.name = "odd", .type = KEDGE_U8, .bytes = 96};
	struct kedge__reduction red = {.version = 1, .parent = KEDGE__NO_VERSION};
	struct kedge__source_record source = {.version = 1};
	struct kedge__set_part part;
	struct kedge__set set = {.name = NAME, .version = 1, .parent = KEDGE__NO_VERSION, .ranks = 1, .parts = &part};
	struct kedge__segment_spec spec = {.name = NAME,
					   .version = 1,
					   .ranks = 1,
					   .next_slot = 1,
					   .regions = &region,
					   .region_count = 1,
					   .reduction = &red,
					   .block_bytes = 1024};
	struct kedge__coalesce_options options = {.version = 2, .block_bytes = 7};
	struct kedge__lineage *l = NULL;
	uint8_t first[96], second[96], got[96];
	uint64_t one = 1;

	(void)state;
	for (size_t i = 0; i < 96; i++)
		first[i] = (uint8_t)(i % 8 + 10);
	for (size_t i = 0; i < 96; i++)
		second[i] = (uint8_t)(i + 100);
	memcpy(second + 3, first + 16, 64);
	assert_ok(kedge__codec_choice_parse("none", &spec.codec, err));
	options.codec = spec.codec;
	region.digest = kedge__sum_digest(kedge__sum_of(first, 96, 0), 96);
	assert_ok(kedge__extent_tape_append(
	    &red.map, (struct kedge__extent){.len = 96, .src = kedge__get64(first), .kind = KEDGE__EXTENT_FILL}, false,
	    err));
	assert_ok(kedge__segment_write(cat, NULL, &spec, &part, NULL, err));
	assert_ok(kedge__set_publish(cat, &set, err));
	source.image_id = part.image_id;
	kedge__extent_tape_done(&red.map);

	red.version = spec.version = set.version = 2;
	region.digest = kedge__sum_digest(kedge__sum_of(second, 96, 0), 96);
	assert_ok(kedge__extent_tape_append(&red.map, (struct kedge__extent){.len = 3, .kind = KEDGE__EXTENT_LITERAL},
					    false, err));
	assert_ok(
	    kedge__extent_tape_append(&red.map, (struct kedge__extent){3, 64, 16, 1, KEDGE__EXTENT_COPY}, false, err));
	assert_ok(kedge__extent_tape_append(
	    &red.map, (struct kedge__extent){.addr = 67, .len = 29, .src = 3, .kind = KEDGE__EXTENT_LITERAL}, false,
	    err));
	assert_true(kedge__array_push(&red.literals, ((struct kedge__literal){second, 3, 0, 0})));
	assert_true(kedge__array_push(&red.literals, ((struct kedge__literal){second + 67, 29, 0, 0})));
	spec.sources = &source;
	spec.source_count = 1;
	set.sources = &one;
	set.source_count = 1;
	assert_ok(kedge__segment_write(cat, NULL, &spec, &part, NULL, err));
	assert_ok(kedge__set_publish(cat, &set, err));
	kedge__extent_tape_done(&red.map);
	kedge__array_done(&red.literals);

	assert_ok(kedge__coalesce(cat, NULL, &options, NULL, err));
	assert_int_equal(kedge__catalog_count(cat), 1);
	assert_ok(kedge__lineage_open(&cat, 1, 2, 0, &l, err));
	assert_ok(kedge__lineage_read(l, 0, got, 96, err));
	assert_memory_equal(got, second, 96);
	for (size_t at = 0; at < 96; at += 5) {
		assert_ok(kedge__lineage_read(l, at, got, KEDGE__MIN(5, 96 - at), err));
		assert_memory_equal(got, second + at, KEDGE__MIN(5, 96 - at));
	}
	kedge__lineage_close(l);
	kedge__catalog_close(cat);
	remove_dir(dir);
}

static void test_codecs_and_threads(void **state)
{
	(void)state;
	for (int threads = 1; threads <= 3; threads++) {
		struct store s;
		struct kedge__coalesce_options options;

		store_open(&s, KEDGE__REDUCER_LIST);
		options = options_of(&s.job, 8, 0, false);
		assert_ok(kedge__codec_choice_parse(threads == 2 ? "auto" : "zstd", &options.codec, err));
		assert_ok(kedge__pool_new(threads, &s.job.pool, err));
		options.block_bytes = 300;
		assert_ok(kedge__coalesce(s.cat, s.job.pool, &options, NULL, err));
		assert_all_intact(s.cat, &s.job);
		kedge__pool_free(s.job.pool);
		store_close(&s);
	}
}

static void test_refused(void **state)
{
	struct store s;
	struct kedge__coalesce_options options;
	char *path;

	(void)state;
	store_open(&s, KEDGE__REDUCER_BASIC);
	options = options_of(&s.job, 9, 0, false);
	assert_fails(KEDGE_E_STATE, "version 9", kedge__coalesce(s.cat, NULL, &options, NULL, err));
	options = options_of(&s.job, 5, 6, false);
	assert_fails(KEDGE_E_ARG, "the first must be the older one", kedge__coalesce(s.cat, NULL, &options, NULL, err));
	path = kedge__segment_path(s.cat, 4, 1, 0);
	unlink(path);
	options = options_of(&s.job, 6, 0, false);
	assert_fails(KEDGE_E_MISSING, path, kedge__coalesce(s.cat, NULL, &options, NULL, err));
	assert_int_equal(kedge__catalog_count(s.cat), 8);
	assert_int_equal(set_of(&s, 6)->parts[0].generation, 0);
	kedge__free(path);
	path = kedge__segment_path(s.cat, 6, 0, 1);
	assert_false(kedge__fs_exists(path));
	kedge__free(path);
	store_close(&s);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_complete),
	    cmocka_unit_test(test_batch),
	    cmocka_unit_test(test_batches_of_copies),
	    cmocka_unit_test(test_onto),
	    cmocka_unit_test(test_rules_of_digests),
	    cmocka_unit_test(test_duplicates_stay_single),
	    cmocka_unit_test(test_fill_at_odd_places),
	    cmocka_unit_test(test_codecs_and_threads),
	    cmocka_unit_test(test_refused),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
