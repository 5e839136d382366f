/* SPDX-License-Identifier: BSD-3-Clause */
/* Every byte of a small store, changed: it is found, and nobody crashes over it or gets other bytes than were saved. */
#include "fixture.h"

struct seen {
	size_t blocks, manifests, markers, others;
	char region[64];
	uint64_t version;
	uint32_t rank;
};

static void note(void *ctx, const struct kedge__finding *f)
{
	struct seen *seen = ctx;

	assert_non_null(f->text);
	assert_non_null(f->file);
	if (f->block >= 0) {
		seen->blocks++;
		assert_null(f->section);
		snprintf(seen->region, sizeof(seen->region), "%s", f->region);
	} else if (strcmp(f->section, "manifest") == 0) {
		seen->manifests++;
	} else if (strcmp(f->section, "marker") == 0) {
		seen->markers++;
	} else {
		seen->others++;
	}
	seen->version = f->version;
	seen->rank = f->rank;
}

static size_t count_findings(struct kedge__catalog *cat, struct seen *seen, struct kedge__verify_report *report)
{
	memset(seen, 0, sizeof(*seen));
	assert_ok(kedge__verify(cat, NULL, KEDGE_NEWEST, note, seen, NULL, report, err));
	assert_int_equal(report->versions_intact + report->versions_lost, report->sets);
	return report->findings;
}

/* Any version may fail to come back, or come back right. */
static size_t compare_all(struct kedge__catalog *cat, const struct job *job)
{
	size_t back = 0;

	for (size_t i = 0; i < job->count; i++) {
		int rc = compare_index(&cat, 1, job, i, NULL);

		assert_true(rc <= 0);
		back += rc == 0;
	}
	return back;
}

static void flip_all(const char *dir, const char *path, const struct job *job)
{
	struct kedge__verify_report report;
	struct seen seen;
	size_t bytes;
	uint8_t *data = file_read(path, &bytes);

	for (size_t i = 0; i < bytes; i++) {
		struct kedge__catalog *cat;

		data[i] ^= (uint8_t)(1u << (i % 8));
		file_write(path, data, bytes);
		data[i] ^= (uint8_t)(1u << (i % 8));
		if (kedge__catalog_open(dir, NAME, KEDGE__CATALOG_READ, &cat, NULL) != 0)
			fail_msg("%s, byte %zu: does not even open", path, i);
		if (count_findings(cat, &seen, &report) == 0)
			fail_msg("%s, byte %zu: not found", path, i);
		/* What verify calls whole comes back, and the other way round. */
		assert_int_equal(compare_all(cat, job), report.versions_intact);
		kedge__verify_report_done(&report);
		kedge__catalog_close(cat);
	}
	file_write(path, data, bytes);
	free(data);
}

static void flip_tree(const char *dir, const char *path, const struct job *job, size_t *files)
{
	char **names;
	size_t count;
	struct stat st;

	assert_int_equal(stat(path, &st), 0);
	if (S_ISREG(st.st_mode)) {
		*files += st.st_size > 0;
		flip_all(dir, path, job);
		return;
	}
	assert_ok(kedge__fs_list(path, &names, &count, err));
	for (size_t i = 0; i < count; i++) {
		char *below = kedge__asprintf("%s/%s", path, names[i]);

		if (strcmp(names[i], "index") != 0) /* test_index.c */
			flip_tree(dir, below, job, files);
		kedge__free(below);
	}
	kedge__fs_list_free(names, count);
}

static void flip_store(const char *codec, enum kedge__reducer_id how, uint64_t versions)
{
	struct job job = job_new(1, 96);
	char *dir = make_dir();
	struct kedge__catalog *cat = open_store(dir);
	size_t files = 0;

	assert_ok(kedge__codec_choice_parse(codec, &job.codec, err));
	for (uint64_t version = 1; version <= versions; version++)
		save_next(cat, &job, version, how);
	assert_all_intact(cat, &job);
	kedge__catalog_close(cat);
	flip_tree(dir, dir, &job, &files);
	assert_int_equal(files, 2 * versions + 1);
	cat = open_store(dir);
	assert_all_intact(cat, &job);
	kedge__catalog_close(cat);
	job_done(&job);
	remove_dir(dir);
}

static void test_every_byte_tree(void **state)
{
	(void)state;
	flip_store("none", KEDGE__REDUCER_TREE, 3);
}

static void test_every_byte_packed(void **state)
{
	(void)state;
	flip_store("zstd", KEDGE__REDUCER_BASIC, 2);
}

/* Checksums of pages, and every so many bytes of the pages. */
static void test_every_byte_of_sums(void **state)
{
	struct job job = job_new(1, 5000);
	char *dir = make_dir(), *path;
	struct kedge__catalog *cat = open_store(dir);
	struct kedge__verify_report report;
	struct kedge__segment *seg;
	struct seen seen;
	size_t bytes, step;
	uint8_t *data;

	(void)state;
	job.block_bytes = 16384;
	save_next(cat, &job, 1, KEDGE__REDUCER_FULL);
	path = kedge__segment_path(cat, 1, 0, 0);
	data = file_read(path, &bytes);
	assert_ok(kedge__segment_open(cat, path, NULL, &seg, err));
	assert_true(kedge__block_has_pages(&seg->blocks[0]));
	for (size_t i = 0; i < bytes; i += step) {
		step = i < seg->footer.payload_bytes ? 331 : 1;
		data[i] ^= (uint8_t)(1u << (i % 8));
		file_write(path, data, bytes);
		data[i] ^= (uint8_t)(1u << (i % 8));
		if (count_findings(cat, &seen, &report) == 0)
			fail_msg("byte %zu: not found", i);
		assert_int_equal(compare_all(cat, &job), report.versions_intact);
		kedge__verify_report_done(&report);
	}
	kedge__segment_close(seg);
	kedge__free(path);
	free(data);
	kedge__catalog_close(cat);
	job_done(&job);
	remove_dir(dir);
}

/* ------------------------------------------------------------------ what verify says */

static char *only_segment(struct kedge__catalog *cat, uint64_t version, uint32_t rank)
{
	return kedge__segment_path(cat, version, rank, kedge__catalog_find(cat, version)->set.parts[rank].generation);
}

static void change_byte(const char *path, size_t at)
{
	file_flip(path, at, 1);
}

/* A block that only its own version uses loses that version; one that later ones use loses them too. */
static void test_lost_versions(void **state)
{
	struct job job = job_new(2, 1024);
	char *dir = make_dir(), *path;
	struct kedge__catalog *cat = open_store(dir);
	struct kedge__verify_report report;
	struct kedge__pool *pool = NULL;
	struct seen seen = {0};

	(void)state;
	assert_ok(kedge__pool_new(2, &pool, err));
	for (uint64_t version = 1; version <= 4; version++)
		save_next(cat, &job, version, KEDGE__REDUCER_TREE);
	path = only_segment(cat, 4, 1);
	change_byte(path, KEDGE__SEGMENT_HEADER_BYTES);
	assert_ok(kedge__verify(cat, pool, KEDGE_NEWEST, note, &seen, NULL, &report, err));
	assert_int_equal(report.findings, 1);
	assert_int_equal(seen.blocks, 1);
	assert_int_equal(seen.version, 4);
	assert_int_equal(seen.rank, 1);
	assert_string_equal(seen.region, "alpha");
	assert_int_equal(report.versions_lost, 1);
	assert_int_equal(report.lost[0], 4);
	assert_int_equal(report.segments, 8);
	kedge__verify_report_done(&report);
	/* A version that does not use it can be verified alone. */
	assert_ok(kedge__verify(cat, pool, 3, note, &seen, NULL, &report, err));
	assert_int_equal(report.findings, 0);
	kedge__verify_report_done(&report);
	change_byte(path, KEDGE__SEGMENT_HEADER_BYTES);
	kedge__free(path);

	path = only_segment(cat, 1, 0);
	unlink(path);
	assert_ok(kedge__verify(cat, pool, KEDGE_NEWEST, note, &seen, NULL, &report, err));
	assert_int_equal(report.findings, 1);
	assert_int_equal(report.versions_lost, 4);
	kedge__verify_report_done(&report);
	kedge__free(path);
	assert_fails(KEDGE_E_NOTFOUND, "version 9", kedge__verify(cat, pool, 9, NULL, NULL, NULL, &report, err));
	kedge__pool_free(pool);
	kedge__catalog_close(cat);
	job_done(&job);
	remove_dir(dir);
}

static void test_lineage_and_strays(void **state)
{
	struct job job = job_new(1, 512);
	char *dir = make_dir(), *path = kedge__asprintf("%s/" NAME "/v00000000000000000002/r0000000-g9.seg", dir);
	char *record = kedge__asprintf("%s/" NAME "/record-policy", dir),
	     *odd = kedge__asprintf("%s/" NAME "/notes.txt", dir);
	struct kedge__catalog *cat = open_store(dir);
	struct kedge__verify_report report;
	struct seen seen = {0};
	size_t removed;

	(void)state;
	for (uint64_t version = 1; version <= 3; version++)
		save_next(cat, &job, version, KEDGE__REDUCER_BASIC);
	file_write(path, "x", 1);
	file_write(record, "x", 1);
	file_write(odd, "x", 1);
	assert_ok(kedge__verify(cat, NULL, KEDGE_NEWEST, note, &seen, NULL, &report, err));
	assert_int_equal(report.findings, 0);
	assert_int_equal(report.strays, 2);
	kedge__verify_report_done(&report);
	/* What a crash can leave goes; what somebody put there, and the job's record, stays. */
	kedge__catalog_close(cat);
	drop_index(dir);
	cat = open_store(dir);
	assert_ok(kedge__catalog_clean(cat, &removed, err));
	assert_int_equal(removed, 1);
	assert_true(kedge__fs_exists(record) && kedge__fs_exists(odd) && !kedge__fs_exists(path));
	assert_ok(kedge__set_remove(cat, 2, err));
	memset(&seen, 0, sizeof(seen));
	assert_ok(kedge__verify(cat, NULL, KEDGE_NEWEST, note, &seen, NULL, &report, err));
	assert_int_equal(report.findings, 1);
	assert_int_equal(seen.version, 0); /* of the stray, told last */
	assert_int_equal(report.versions_lost, 1);
	assert_int_equal(report.lost[0], 3);
	kedge__verify_report_done(&report);
	kedge__catalog_close(cat);
	job_done(&job);
	kedge__free(path);
	kedge__free(record);
	kedge__free(odd);
	remove_dir(dir);
}

/* A segment that is whole, has the right size and place, but is not the one that was published. */
static void test_another_segment(void **state)
{
	struct job job = job_new(1, 256), other = job_new(1, 256);
	char *dir = make_dir(), *elsewhere = make_dir(), *path, *wrong;
	struct kedge__catalog *cat = open_store(dir), *others = open_store(elsewhere);
	struct kedge__verify_report report;
	struct seen seen = {0};
	size_t bytes;
	uint8_t *data;

	(void)state;
	save_next(cat, &job, 7, KEDGE__REDUCER_FULL);
	job_step(&other, 7);
	other.images[0][0].data[0][9] ^= 1;
	assert_ok(save_index(others, &other, 0, KEDGE__REDUCER_FULL, false, err));
	path = only_segment(cat, 7, 0);
	wrong = only_segment(others, 7, 0);
	data = file_read(wrong, &bytes);
	assert_int_equal(bytes, kedge__catalog_at(cat, 0)->set.parts[0].file_bytes);
	file_write(path, data, bytes);
	assert_fails(KEDGE_E_DAMAGED, "the seal is not the one in the manifest", compare_index(&cat, 1, &job, 0, err));
	assert_int_equal(count_findings(cat, &seen, &report), 1);
	assert_int_equal(report.versions_lost, 1);
	kedge__verify_report_done(&report);
	free(data);
	kedge__free(path);
	kedge__free(wrong);
	kedge__catalog_close(cat);
	kedge__catalog_close(others);
	job_done(&job);
	job_done(&other);
	remove_dir(dir);
	remove_dir(elsewhere);
}

/* A manifest that names a file that is not there, and one that is cut short at every length. */
static void test_manifests(void **state)
{
	struct job job = job_new(1, 256);
	char *dir = make_dir(), *path = kedge__asprintf("%s/" NAME "/set-00000000000000000002", dir);
	struct kedge__catalog *cat = open_store(dir);
	size_t bytes, removed;
	uint8_t *data;
	char *segment;

	(void)state;
	save_next(cat, &job, 1, KEDGE__REDUCER_FULL);
	save_next(cat, &job, 2, KEDGE__REDUCER_FULL);
	segment = only_segment(cat, 2, 0);
	data = file_read(path, &bytes);
	for (size_t length = 0; length < bytes; length++) {
		file_write(path, data, length);
		assert_ok(kedge__catalog_rescan(cat, err));
		assert_int_equal(kedge__catalog_count(cat), 2);
		assert_int_equal(kedge__catalog_at(cat, 1)->problem.code, KEDGE_E_DAMAGED);
		assert_fails(KEDGE_E_DAMAGED, path, compare_index(&cat, 1, &job, 1, err));
		assert_ok(compare_index(&cat, 1, &job, 0, err));
	}
	/* Its segments are not leftovers. */
	assert_ok(kedge__catalog_clean(cat, &removed, err));
	assert_int_equal(removed, 0);
	file_write(path, data, bytes);
	assert_ok(kedge__catalog_rescan(cat, err));
	assert_all_intact(cat, &job);
	unlink(segment);
	assert_fails(KEDGE_E_MISSING, segment, compare_index(&cat, 1, &job, 1, err));
	free(data);
	kedge__free(segment);
	kedge__catalog_close(cat);
	job_done(&job);
	kedge__free(path);
	remove_dir(dir);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_every_byte_tree),    cmocka_unit_test(test_every_byte_packed),
	    cmocka_unit_test(test_every_byte_of_sums), cmocka_unit_test(test_lost_versions),
	    cmocka_unit_test(test_lineage_and_strays), cmocka_unit_test(test_another_segment),
	    cmocka_unit_test(test_manifests),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
