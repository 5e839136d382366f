/* SPDX-License-Identifier: BSD-3-Clause */
#include "fixture.h"

struct store {
	struct job job;
	char *dir;
	struct kedge__catalog *cat;
};

/* Versions 1 to COUNT; every fourth, from 1 on, stands alone. */
static void store_open(struct store *s, uint64_t count)
{
	s->job = job_new(2, 512);
	s->dir = make_dir();
	s->cat = open_store(s->dir);
	for (uint64_t version = 1; version <= count; version++)
		save_next(s->cat, &s->job, version, version % 4 == 1 ? KEDGE__REDUCER_FULL : KEDGE__REDUCER_BASIC);
}

static void store_close(struct store *s)
{
	kedge__catalog_close(s->cat);
	job_done(&s->job);
	remove_dir(s->dir);
}

static void test_keep(void **state)
{
	struct store s;
	struct kedge__gc_report report;

	(void)state;
	store_open(&s, 10);
	assert_fails(KEDGE_E_ARG, "at least one", kedge__gc(s.cat, 0, false, &report, err));
	/* 10, 9, 8: 9 stands alone, 8 needs 7, 6, 5. */
	assert_ok(kedge__gc(s.cat, 3, true, &report, err));
	assert_int_equal(report.kept, 3);
	assert_int_equal(report.kept_for_lineage, 3);
	assert_int_equal(report.removed, 4);
	assert_int_equal(report.removed_versions[0], 4);
	assert_true(report.bytes_freed > 0);
	kedge__gc_report_done(&report);
	assert_int_equal(kedge__catalog_count(s.cat), 10);
	assert_all_intact(s.cat, &s.job);
	assert_ok(kedge__gc(s.cat, 3, false, &report, err));
	assert_int_equal(report.removed, 4);
	kedge__gc_report_done(&report);
	assert_int_equal(kedge__catalog_count(s.cat), 6);
	assert_all_intact(s.cat, &s.job);
	assert_ok(kedge__gc(s.cat, 2, false, &report, err));
	kedge__gc_report_done(&report);
	assert_int_equal(kedge__catalog_count(s.cat), 2);
	assert_all_intact(s.cat, &s.job);
	assert_ok(kedge__gc(s.cat, 100, false, &report, err));
	assert_int_equal(report.removed, 0);
	kedge__gc_report_done(&report);
	store_close(&s);
}

/* A version that cannot be restored is no reason to give up one that can. */
static void test_broken_do_not_count(void **state)
{
	struct store s;
	struct kedge__gc_report report;
	char *path;

	(void)state;
	store_open(&s, 10);
	/* 10 loses a segment, 9 its manifest's sense. */
	path = kedge__segment_path(s.cat, 10, 1, 0);
	unlink(path);
	kedge__free(path);
	path = kedge__asprintf("%s/" NAME "/set-00000000000000000009", s.dir);
	file_write(path, "x", 1);
	kedge__free(path);
	assert_ok(kedge__gc(s.cat, 2, false, &report, err));
	assert_int_equal(report.unusable, 2);
	assert_int_equal(report.kept, 4);
	assert_int_equal(report.kept_for_lineage, 2);
	kedge__gc_report_done(&report);
	assert_int_equal(kedge__catalog_count(s.cat), 6);
	for (uint64_t version = 5; version <= 8; version++)
		assert_ok(compare_index(&s.cat, 1, &s.job, index_of(&s.job, version), err));
	store_close(&s);
}

/* A chain whose parent is gone; an old one goes once enough good ones are newer, a new one stays and is told of. */
static void test_missing_parent(void **state)
{
	struct store s;
	struct kedge__gc_report report;

	(void)state;
	store_open(&s, 10);
	assert_ok(kedge__set_remove(s.cat, 3, err));
	assert_ok(kedge__gc(s.cat, 3, false, &report, err));
	assert_int_equal(report.unusable, 0);
	assert_null(kedge__catalog_find(s.cat, 4));
	kedge__gc_report_done(&report);
	assert_ok(kedge__set_remove(s.cat, 6, err));
	assert_ok(kedge__gc(s.cat, 3, false, &report, err));
	assert_int_equal(report.unusable, 2);
	assert_non_null(kedge__catalog_find(s.cat, 8));
	kedge__gc_report_done(&report);
	store_close(&s);
}

/* Version 8 was made from another version 7 than the one that is there now. */
static void test_replaced_parent(void **state)
{
	struct store s;
	struct kedge__gc_report report;

	(void)state;
	store_open(&s, 8);
	save_next(s.cat, &s.job, 7, KEDGE__REDUCER_FULL);
	assert_ok(kedge__gc(s.cat, 1, false, &report, err));
	assert_int_equal(report.unusable, 1);
	kedge__gc_report_done(&report);
	assert_non_null(kedge__catalog_find(s.cat, 8));
	assert_ok(compare_index(&s.cat, 1, &s.job, index_of(&s.job, 7), err));
	store_close(&s);
}

static void test_nothing_good(void **state)
{
	struct store s;
	struct kedge__gc_report report;
	char *path;

	(void)state;
	store_open(&s, 4);
	path = kedge__segment_path(s.cat, 1, 1, 0);
	unlink(path);
	kedge__free(path);
	assert_ok(kedge__gc(s.cat, 1, false, &report, err));
	assert_int_equal(report.removed, 0);
	assert_int_equal(report.unusable, 4);
	kedge__gc_report_done(&report);
	assert_int_equal(kedge__catalog_count(s.cat), 4);
	store_close(&s);
}

/* One rank has lost its part of a version. What another one has of it is as good as ever to those that need only that.
 */
static void test_one_rank_lost(void **state)
{
	struct store s;
	struct kedge__gc_report report;
	char *path;

	(void)state;
	store_open(&s, 2);
	s.job.fulls = 2;
	save_next(s.cat, &s.job, 3, KEDGE__REDUCER_BASIC);
	s.job.fulls = 0;
	save_next(s.cat, &s.job, 4, KEDGE__REDUCER_BASIC);
	path = kedge__segment_path(s.cat, 2, 1, 0);
	unlink(path);
	kedge__free(path);
	assert_ok(kedge__gc(s.cat, 2, false, &report, err));
	assert_int_equal(report.unusable, 0);
	assert_int_equal(report.kept, 2);
	kedge__gc_report_done(&report);
	for (uint64_t version = 3; version <= 4; version++)
		assert_ok(compare_index(&s.cat, 1, &s.job, index_of(&s.job, version), err));
	/* Rank 1 of version 4 needs what it lost of 3. */
	path = kedge__segment_path(s.cat, 3, 1, 0);
	unlink(path);
	kedge__free(path);
	assert_ok(kedge__gc(s.cat, 1, false, &report, err));
	assert_int_equal(report.unusable, 3);
	assert_int_equal(report.removed, 0);
	kedge__gc_report_done(&report);
	assert_ok(compare_index(&s.cat, 1, &s.job, index_of(&s.job, 1), err));
	store_close(&s);
}

/* Storage that is local to a node has the segments of its own ranks only. */
static void test_ranks_elsewhere(void **state)
{
	struct store s;
	struct kedge__gc_report report;
	struct kedge__verify_report seen;

	(void)state;
	store_open(&s, 6);
	for (uint64_t version = 1; version <= 6; version++) {
		char *path = kedge__segment_path(s.cat, version, 1, 0);

		unlink(path);
		kedge__free(path);
	}
	assert_ok(kedge__gc(s.cat, 1, false, &report, err));
	assert_int_equal(report.unusable, 0);
	assert_int_equal(report.removed, 4);
	kedge__gc_report_done(&report);
	/* It is told once, not for every version; and nobody can restore the whole set from here. */
	assert_ok(kedge__verify(s.cat, NULL, KEDGE_NEWEST, NULL, NULL, NULL, &seen, err));
	assert_int_equal(seen.findings, 1);
	assert_int_equal(seen.segments, 2);
	assert_int_equal(seen.versions_lost, 2);
	kedge__verify_report_done(&seen);
	store_close(&s);
}

static void test_leftovers(void **state)
{
	struct store s;
	struct kedge__gc_report report;
	char *dir, *before, *after, *path;

	(void)state;
	store_open(&s, 3);
	before = tree_text(s.dir, "", NULL);
	dir = kedge__asprintf("%s/" NAME "/v00000000000000000008", s.dir);
	assert_int_equal(mkdir(dir, 0777), 0);
	path = kedge__asprintf("%s/r0000000-g0.seg", dir);
	file_write(path, "x", 1);
	kedge__free(path);
	path = kedge__asprintf("%s/" NAME "/v00000000000000000002/r0000001-g1.seg.tmp", s.dir);
	file_write(path, "x", 1);
	kedge__free(path);
	path = kedge__asprintf("%s/kedge-store.tmp", s.dir);
	file_write(path, "x", 1);
	kedge__free(path);
	assert_ok(kedge__gc(s.cat, 9, true, &report, err));
	assert_int_equal(report.leftovers, 3);
	kedge__gc_report_done(&report);
	assert_ok(kedge__gc(s.cat, 9, false, &report, err));
	assert_int_equal(report.leftovers, 3);
	kedge__gc_report_done(&report);
	after = tree_text(s.dir, "", NULL);
	assert_string_equal(before, after);
	kedge__free(before);
	kedge__free(after);
	kedge__free(dir);
	store_close(&s);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_keep),
	    cmocka_unit_test(test_broken_do_not_count),
	    cmocka_unit_test(test_missing_parent),
	    cmocka_unit_test(test_nothing_good),
	    cmocka_unit_test(test_replaced_parent),
	    cmocka_unit_test(test_one_rank_lost),
	    cmocka_unit_test(test_ranks_elsewhere),
	    cmocka_unit_test(test_leftovers),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
