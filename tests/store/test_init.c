/* SPDX-License-Identifier: BSD-3-Clause */
/* What may become a store, and what is removed in one: only what is provably ours. */
#include "fixture.h"

static char *in(const char *dir, const char *leaf)
{
	char *path = kedge__asprintf("%s/%s", dir, leaf);

	assert_non_null(path);
	return path;
}

static void put(const char *dir, const char *leaf)
{
	char *path = in(dir, leaf);

	file_write(path, "precious", 8);
	kedge__free(path);
}

static bool has(const char *dir, const char *leaf)
{
	char *path = in(dir, leaf);
	bool there = kedge__fs_exists(path);

	kedge__free(path);
	return there;
}

static void refused(const char *dir, const char *because)
{
	struct kedge__catalog *cat = NULL;

	assert_fails(KEDGE_E_CONFIG, because, kedge__catalog_open(dir, NAME, KEDGE__CATALOG_CREATE, &cat, err));
	assert_fails(KEDGE_E_CONFIG, "init = yes", kedge__catalog_open(dir, NAME, KEDGE__CATALOG_CREATE, &cat, err));
	assert_fails(KEDGE_E_CONFIG, dir, kedge__catalog_open(dir, NAME, KEDGE__CATALOG_CREATE, &cat, err));
	assert_false(has(dir, "kedge-store"));
	assert_false(has(dir, "kedge-store.tmp"));
	assert_false(has(dir, NAME));
}

static void test_other_things(void **state)
{
	static const char *const names[] = {"notes", "data.tmp", ".hidden", "kedge-store.old"};
	struct kedge__catalog *cat;
	char *sub;

	(void)state;
	for (size_t i = 0; i < KEDGE__COUNT(names); i++) {
		char *dir = make_dir();

		put(dir, names[i]);
		refused(dir, names[i]);
		assert_ok(kedge__catalog_open(dir, NAME, KEDGE__CATALOG_INIT, &cat, err));
		kedge__catalog_close(cat);
		/* It is a store from now on. */
		cat = open_store(dir);
		kedge__catalog_close(cat);
		assert_true(has(dir, names[i]));
		remove_dir(dir);
	}
	for (int i = 0; i < 2; i++) {
		char *dir = make_dir();

		sub = in(dir, "src");
		assert_int_equal(mkdir(sub, 0700), 0);
		if (i)
			put(sub, "main.c");
		refused(dir, "src");
		kedge__free(sub);
		remove_dir(dir);
	}
}

/* What file systems put into their roots, and what a crash of ours left. */
static void test_as_good_as_empty(void **state)
{
	char *dir = make_dir(), *lost = in(dir, "lost+found"), *snapshot = in(dir, ".snapshot");
	struct kedge__catalog *cat;

	(void)state;
	assert_int_equal(mkdir(lost, 0700) | mkdir(snapshot, 0700), 0);
	put(dir, ".nfs000000000001");
	put(dir, "kedge-store.tmp");
	cat = open_store(dir);
	kedge__catalog_close(cat);
	assert_true(has(dir, "lost+found") && has(dir, ".snapshot") && has(dir, ".nfs000000000001"));
	kedge__free(lost);
	kedge__free(snapshot);
	remove_dir(dir);
}

/* Old files are removed from scratch directories, and the marker is the oldest: what is left is a store all the same.
 */
static void test_marker_lost(void **state)
{
	struct job job = job_new(1, 256);
	char *dir = make_dir(), *marker = in(dir, "kedge-store");
	struct kedge__catalog *cat = open_store(dir);

	(void)state;
	save_next(cat, &job, 1, KEDGE__REDUCER_FULL);
	kedge__catalog_close(cat);
	assert_int_equal(unlink(marker), 0);
	cat = open_store(dir);
	assert_int_equal(kedge__catalog_count(cat), 1);
	kedge__catalog_close(cat);
	/* But not if there is more than that. */
	assert_int_equal(unlink(marker), 0);
	put(dir, "notes");
	assert_fails(KEDGE_E_CONFIG, "notes", kedge__catalog_open(dir, NAME, KEDGE__CATALOG_CREATE, &cat, err));
	kedge__free(marker);
	job_done(&job);
	remove_dir(dir);
}

static const char *const ours[] = {
    "kedge-store.tmp",
    NAME "/set-00000000000000000009.tmp",
    NAME "/record-r0000000.tmp",
    NAME "/record-policy.tmp",
    NAME "/v00000000000000000001/r0000000-g7.seg.tmp",
    NAME "/v00000000000000000001/r0000000-g7.seg",
    NAME "/v00000000000000000009/r0000003-g0.seg.tmp",
};

static const char *const others[] = {
    "results.tmp",
    NAME "/results.tmp",
    NAME "/set-9.tmp",
    NAME "/set-00000000000000000009.tmp.tmp",
    NAME "/set-00000000000000000009.bak",
    NAME "/record-notes.tmp",
    NAME "/record-r00000000.tmp",
    NAME "/guard.tmp",
    NAME "/v00000000000000000001/results.tmp",
    NAME "/v00000000000000000001/r0000000.seg.tmp",
    NAME "/v00000000000000000001/r0000000-g07.seg.tmp",
    NAME "/v00000000000000000001/notes",
    NAME "/v00000000000000000009/notes.tmp",
    NAME "/files/data.tmp",
};

static void make_dirs(const char *dir)
{
	static const char *const names[] = {NAME "/v00000000000000000009", NAME "/files",
					    NAME "/set-00000000000000000008.tmp",
					    NAME "/v00000000000000000001/r0000000-g8.seg.tmp"};

	for (size_t i = 0; i < KEDGE__COUNT(names); i++) {
		char *path = in(dir, names[i]);

		assert_int_equal(mkdir(path, 0700), 0);
		kedge__free(path);
	}
}

static void test_only_ours_are_removed(void **state)
{
	struct job job = job_new(1, 256);
	char *dir = make_dir(), *fifo = in(dir, NAME "/set-00000000000000000007.tmp");
	struct kedge__catalog *cat = open_store(dir);
	struct kedge__gc_report report;
	size_t removed = 0;

	(void)state;
	save_next(cat, &job, 1, KEDGE__REDUCER_FULL);
	make_dirs(dir);
	assert_int_equal(mkfifo(fifo, 0600), 0);
	for (size_t i = 0; i < KEDGE__COUNT(ours); i++)
		put(dir, ours[i]);
	for (size_t i = 0; i < KEDGE__COUNT(others); i++)
		put(dir, others[i]);
	kedge__catalog_close(cat);
	drop_index(dir);
	cat = open_store(dir);
	assert_ok(kedge__catalog_clean(cat, &removed, err));
	assert_int_equal(removed, KEDGE__COUNT(ours));
	assert_ok(kedge__gc(cat, 1, false, &report, err));
	kedge__gc_report_done(&report);
	assert_ok(kedge__set_remove(cat, job.versions[0], err));
	for (size_t i = 0; i < KEDGE__COUNT(ours); i++)
		assert_false(has(dir, ours[i]));
	for (size_t i = 0; i < KEDGE__COUNT(others); i++)
		if (!has(dir, others[i]))
			fail_msg("%s was removed", others[i]);
	assert_true(has(dir, NAME "/set-00000000000000000007.tmp"));
	assert_true(has(dir, NAME "/set-00000000000000000008.tmp"));
	kedge__catalog_close(cat);
	kedge__free(fifo);
	job_done(&job);
	remove_dir(dir);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_other_things),
	    cmocka_unit_test(test_as_good_as_empty),
	    cmocka_unit_test(test_marker_lost),
	    cmocka_unit_test(test_only_ours_are_removed),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
