/* SPDX-License-Identifier: BSD-3-Clause */
/* L1 is removed, or replaced, under a running job; and the job goes to another directory. */
#include "support.h"

#include <errno.h>

#define BYTES 100000

static uint8_t m[BYTES], want[BYTES];

/* Each version changes a tenth of the bytes. */
static void state_make(uint8_t *to, uint64_t version)
{
	fill_random(to, BYTES, 1);
	for (uint64_t v = 1; v <= version; v++)
		fill_random(to + v % 10 * (BYTES / 10), BYTES / 10, v + 50);
}

static kedge_t *open_job(const struct place *p, bool l2, const char *const *more)
{
	kedge_t *k = job_open(p, l2, more);

	assert_ok(k, kedge_protect(k, "m", m, BYTES, KEDGE_U8));
	return k;
}

static uint64_t take(kedge_t *k, uint64_t version)
{
	struct kedge_stats stats;

	state_make(m, version);
	assert_ok(k, kedge_checkpoint(k, version));
	assert_ok(k, kedge_wait(k));
	assert_ok(k, kedge_stats_get(k, &stats));
	return stats.literal_bytes;
}

static void comes_back(kedge_t *k, uint64_t wanted, uint64_t expected)
{
	uint64_t version = 0;

	memset(m, 0, BYTES);
	assert_ok(k, kedge_restart(k, wanted, &version));
	assert_int_equal(version, expected);
	state_make(want, expected);
	assert_memory_equal(m, want, BYTES);
}

static void id_of(const struct place *p, char id[64])
{
	char path[400];
	FILE *f;

	text_make(path, sizeof(path), "%s/kedge-store", p->l1);
	f = fopen(path, "r");
	assert_non_null(f);
	memset(id, 0, 64);
	assert_in_range(fread(id, 1, 64, f), 16, 64);
	fclose(f);
}

static void path_remove(const struct place *p, const char *leaf)
{
	char path[400];

	text_make(path, sizeof(path), "%s/%s", p->l1, leaf);
	tree_remove(path);
}

/* After a removal, two versions: the first is self-contained, with a warning; the second is incremental again. */
static void goes_on(const struct place *p, kedge_t *k, uint64_t version)
{
	char path[400];

	assert_null(strstr(place_said(p), "will be self-contained"));
	assert_int_equal(take(k, version), BYTES);
	assert_non_null(strstr(place_said(p), "1 job: L1, or a part of it, was removed while the job was running"));
	assert_in_range(take(k, version + 1), BYTES / 10, BYTES / 5);
	text_make(path, sizeof(path), "%s/job/lock", p->l1);
	assert_int_equal(access(path, F_OK), 0);
	text_make(path, sizeof(path), "%s/job/guard", p->l1);
	assert_int_equal(access(path, F_OK), 0);
	comes_back(k, KEDGE_NEWEST, version + 1);
	comes_back(k, version, version);
	comes_back(k, version + 1, version + 1);
}

static void purge(struct place *p, const char *leaf, bool l2, const char *capture)
{
	const char *const *more = MORE("reducer=basic", "chunk=64", "codec=none", capture);
	char before[64], after[64];
	kedge_t *k = open_job(p, l2, more), *other;
	struct options o;

	kedge_set_log(place_log, p);
	place_forget(p);
	assert_int_equal(take(k, 1), BYTES);
	take(k, 2);
	take(k, 3);
	id_of(p, before);
	path_remove(p, leaf);
	goes_on(p, k, 4);
	/* It is the same store, and still owned. */
	id_of(p, after);
	assert_memory_equal(before, after, 64);
	assert_int_equal(kedge_open("job", NULL, options_make(&o, p, false, NULL), &other), KEDGE_E_LOCKED);
	assert_ok(k, kedge_close(k));
	k = open_job(p, l2, more);
	comes_back(k, KEDGE_NEWEST, 5);
	if (l2)
		assert_int_equal(levels_of(k, 5), 3);
	assert_ok(k, kedge_close(k));
	if (!l2)
		return;
	/* L2 has all of them, and needs nothing of L1. */
	tree_remove(p->l1);
	k = open_job(p, l2, more);
	for (uint64_t v = 1; v <= 5; v++)
		comes_back(k, v, v);
	assert_ok(k, kedge_close(k));
}

static void test_store_removed(void **state)
{
	purge(*state, "", false, "capture=sync");
}

static void test_name_removed(void **state)
{
	purge(*state, "job", false, "capture=copy");
}

/* Where old files are removed it is the marker that goes first. */
static void test_marker_removed(void **state)
{
	purge(*state, "kedge-store", false, "capture=sync");
}

static void test_lock_removed(void **state)
{
	purge(*state, "job/lock", false, "capture=sync");
}

static void test_store_removed_with_l2(void **state)
{
	purge(*state, "", true, "capture=sync");
}

/* Another store at the path is never written to; the job goes on when its own is back. */
static void test_another_store(void **state)
{
	struct place *p = *state;
	kedge_t *k = open_job(p, false, NULL), *other;
	char away[400];

	take(k, 1);
	text_make(away, sizeof(away), "%s/away", p->dir);
	assert_int_equal(rename(p->l1, away), 0);
	other = open_job(p, false, NULL);
	take(other, 7);
	assert_ok(other, kedge_close(other));
	assert_int_equal(kedge_checkpoint(k, 2), KEDGE_E_STATE);
	assert_non_null(strstr(kedge_last_error(k), "another store"));
	assert_int_equal(kedge_checkpoint(k, 2), KEDGE_E_STATE);
	other = open_job(p, false, NULL);
	assert_int_equal(levels_of(other, 2), 0);
	comes_back(other, KEDGE_NEWEST, 7);
	assert_ok(other, kedge_close(other));
	tree_remove(p->l1);
	assert_int_equal(rename(away, p->l1), 0);
	take(k, 3);
	comes_back(k, KEDGE_NEWEST, 3);
	comes_back(k, 1, 1);
	assert_ok(k, kedge_close(k));
}

/* An owner that somebody took the job over from finds out before it writes. */
static void test_taken_over(void **state)
{
	struct place *p = *state;
	kedge_t *k = open_job(p, false, NULL), *other;
	char path[400];

	take(k, 1);
	text_make(path, sizeof(path), "%s/job/lock", p->l1);
	assert_int_equal(unlink(path), 0);
	other = open_job(p, false, NULL);
	assert_int_equal(kedge_checkpoint(k, 2), KEDGE_E_LOCKED);
	assert_non_null(strstr(kedge_last_error(k), "was taken over by job (pid "));
	take(other, 2);
	assert_ok(k, kedge_close(k));
	assert_int_equal(access(path, F_OK), 0);
	assert_ok(other, kedge_close(other));
}

/* ------------------------------------------------------------------ another directory */

static void test_chdir(void **state)
{
	struct place *p = *state;
	char here[4096], a[400], b[400], file[4096];
	kedge_t *k, *other;

	assert_non_null(getcwd(here, sizeof(here)));
	text_make(a, sizeof(a), "%s/a", p->dir);
	text_make(b, sizeof(b), "%s/b", p->dir);
	assert_int_equal(mkdir(a, 0700) | mkdir(b, 0700) | chdir(b), 0);
	snprintf(p->l1, sizeof(p->l1), "store");
	snprintf(p->l2, sizeof(p->l2), "far");
	/* Somebody else's job there, of the same name. */
	other = open_job(p, false, NULL);
	take(other, 1);
	assert_int_equal(chdir(a), 0);
	k = open_job(p, true, NULL);
	take(k, 4);
	assert_int_equal(chdir(b), 0);
	take(k, 5);
	assert_ok(k, kedge_file_route(k, "out", file, sizeof(file)));
	assert_memory_equal(file, a, strlen(a));
	assert_ok(k, kedge_unprotect(k, KEDGE_FILE_PREFIX "out"));
	take(other, 2);
	assert_int_equal(levels_of(other, 5) | levels_of(other, 4), 0);
	assert_int_equal(levels_of(k, 5) & levels_of(k, 4), 3);
	comes_back(k, KEDGE_NEWEST, 5);
	assert_ok(k, kedge_close(k));
	assert_ok(other, kedge_close(other));
	assert_int_equal(access("far", F_OK), -1);
	assert_int_equal(chdir(a), 0);
	k = open_job(p, true, NULL);
	comes_back(k, KEDGE_NEWEST, 5);
	assert_ok(k, kedge_close(k));
	assert_int_equal(chdir(here), 0);
}

/* ------------------------------------------------------------------ routed files */

/* What the application calls its files is its own affair: a restart takes none of them for something temporary. */
static void test_files_named_tmp(void **state)
{
	kedge_t *k = open_job(*state, false, NULL);
	char path[4096], tmp[4200];
	uint64_t version;

	assert_ok(k, kedge_file_route(k, "out", path, sizeof(path)));
	file_write(path, "x", 1);
	take(k, 1);
	snprintf(tmp, sizeof(tmp), "%s.tmp", path);
	file_write(tmp, "y", 1);
	assert_int_equal(unlink(path), 0);
	assert_ok(k, kedge_restart(k, 1, &version));
	assert_int_equal(access(path, F_OK), 0);
	assert_int_equal(access(tmp, F_OK), 0);
	assert_ok(k, kedge_close(k));
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    JOB(test_store_removed),         JOB(test_name_removed),  JOB(test_marker_removed), JOB(test_lock_removed),
	    JOB(test_store_removed_with_l2), JOB(test_another_store), JOB(test_taken_over),     JOB(test_chdir),
	    JOB(test_files_named_tmp),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
