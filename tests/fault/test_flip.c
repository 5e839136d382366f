/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every byte of a small store is altered, one at a time. A restart must give exact memory (perhaps of an older version)
 * or an error, never wrong bytes; verify must find each one; and opening a damaged store must not make it worse: with
 * the byte put back, everything is whole again.
 */
#include "../lib/cases.h"
#include "../lib/damage.h"
#include "../lib/files.h"
#include "scenario.h"

#include "store/store.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct scenario scenario = {
    "flip", {"reducer=tree", "chunk=32", "block=4k", "codec=zstd", "threads=1", "journal=no"}, false, false};

static char paths[64][512];
static size_t path_count;

static int collect(const char *path, const struct stat *st, void *ctx)
{
	(void)ctx;
	/* The index is a copy of what the manifests say; tests/store/test_index.c alters it. */
	if (S_ISREG(st->st_mode) && st->st_size > 0 && strcmp(strrchr(path, '/'), "/index") != 0) {
		assert_true(path_count < 64);
		snprintf(paths[path_count++], sizeof(paths[0]), "%s", path);
	}
	return 0;
}

static bool verify_finds(const char *store)
{
	struct kedge__verify_report report = {0};
	struct kedge__catalog *cat;
	bool found;

	if (kedge__catalog_open(store, "job", KEDGE__CATALOG_READ, &cat, NULL) != 0)
		return true;
	found = kedge__verify(cat, NULL, KEDGE_NEWEST, NULL, NULL, NULL, &report, NULL) != 0 || report.findings > 0;
	kedge__verify_report_done(&report);
	kedge__catalog_close(cat);
	return found;
}

static void flip_all(const char *dir, const char *path, off_t step)
{
	struct stat st;
	char store[300];

	snprintf(store, sizeof(store), "%s/l1", dir);
	assert_int_equal(stat(path, &st), 0);
	for (off_t at = 0; at < st.st_size; at += step) {
		uint8_t mask = (uint8_t)(1u << at % 8);

		file_flip(path, (uint64_t)at, mask);
		if (!verify_finds(store))
			fail_msg("%s: bit %ld of byte %ld altered, and verify says nothing", path, (long)at % 8,
				 (long)at);
		(void)scenario_try_restart(&scenario, dir); /* compares whatever it restores */
		if (access(path, F_OK) != 0)
			fail_msg("%s: removed because byte %ld was altered", path, (long)at);
		file_flip(path, (uint64_t)at, mask);
	}
}

static void test_every_byte(void **state)
{
	char *dir = scenario_directory();
	uint64_t version;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	off_t step = 5;
#else
	off_t step = 1;
#endif

	(void)state;
	assert_int_equal(scenario_run(&scenario, dir, 3, -1), 0);
	assert_int_equal(tree_each(dir, collect, NULL), 0);
	assert_true(path_count >= 9); /* marker, and manifest and segment of each version */
	for (size_t i = 0; i < path_count; i++)
		flip_all(dir, paths[i], step);
	scenario_check_clean(&scenario, dir);
	scenario_recover(&scenario, dir, &version);
	assert_int_equal(version, SCENARIO_VERSIONS);
	scenario_remove(dir);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_byte)};

	return cases_run(argc, argv, tests, NULL, NULL);
}
