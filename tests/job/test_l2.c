/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * L2 that is away, empty, another one, or that fails: it costs L2 alone, is told, and nothing is made where L2 only
 * seems to be. A file system that is not mounted is a directory that was moved aside here, with or without an empty one
 * instead. And L2 of a job that takes a version again.
 */
#include "support.h"

#include <sys/file.h>
#include <sys/wait.h>

#define BYTES 20000

static uint8_t m[BYTES], want[BYTES];

/* Each version changes a tenth of the bytes. */
static void state_make(uint8_t *to, uint64_t version)
{
	fill_random(to, BYTES, 1);
	for (uint64_t v = 1; v <= version; v++)
		fill_random(to + v % 10 * (BYTES / 10), BYTES / 10, v + 50);
}

static kedge_t *open_series(struct place *p, const char *const *more)
{
	kedge_t *k;

	place_forget(p);
	kedge_set_log(place_log, p);
	k = job_open(p, true, more);
	assert_ok(k, kedge_protect(k, "m", m, BYTES, KEDGE_U8));
	return k;
}

static void take(kedge_t *k, uint64_t version)
{
	state_make(m, version);
	assert_ok(k, kedge_checkpoint(k, version));
}

static void take_both(kedge_t *k, uint64_t first, uint64_t last)
{
	for (uint64_t v = first; v <= last; v++) {
		take(k, v);
		assert_ok(k, kedge_wait(k));
		assert_int_equal(kedge_test(k, v), 1);
		assert_int_equal(levels_of(k, v), 3);
	}
}

/* The checkpoint succeeds; that it did not get to L2 is told, once. */
static void take_l1_alone(kedge_t *k, uint64_t version)
{
	take(k, version);
	assert_true(kedge_wait(k) < 0);
	assert_non_null(strstr(kedge_last_error(k), "did not reach L2"));
	assert_true(kedge_test(k, version) < 0);
	assert_ok(k, kedge_wait(k));
	assert_int_equal(levels_of(k, version), 1);
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

static void after(struct place *p, const char *lost, uint64_t expected)
{
	kedge_t *k;

	tree_remove(lost);
	k = open_series(p, NULL);
	comes_back(k, KEDGE_NEWEST, expected);
	assert_ok(k, kedge_close(k));
}

static const char *aside(const struct place *p)
{
	static char path[400];

	text_make(path, sizeof(path), "%s-mounted-elsewhere", p->l2);
	return path;
}

enum away { GONE, BARE, ANOTHER };

static void unmount(const struct place *p, enum away how)
{
	assert_int_equal(rename(p->l2, aside(p)), 0);
	if (how != GONE)
		assert_int_equal(mkdir(p->l2, 0700), 0);
	if (how == ANOTHER) {
		struct place other = *p;
		kedge_t *k;

		text_make(other.l1, sizeof(other.l1), "%s/other", p->dir);
		k = job_open(&other, true, NULL);
		assert_ok(k, kedge_close(k));
	}
}

static void mount_again(const struct place *p)
{
	tree_remove(p->l2);
	assert_int_equal(rename(aside(p), p->l2), 0);
}

static void begin_with_l2(struct place *p)
{
	kedge_t *k = open_series(p, NULL);

	take_both(k, 1, 2);
	assert_ok(k, kedge_close(k));
}

static void test_not_mounted_at_open(void **state)
{
	struct place *p = *state;

	for (int how = GONE; how <= ANOTHER; how++) {
		kedge_t *k;

		begin_with_l2(p);
		unmount(p, (enum away)how);
		k = open_series(p, NULL);
		assert_non_null(strstr(place_said(p), "L2 is not used"));
		assert_non_null(strstr(place_said(p), p->l2));
		assert_non_null(strstr(place_said(p), "l2_accept"));
		comes_back(k, KEDGE_NEWEST, 2);
		take_l1_alone(k, 3);
		assert_ok(k, kedge_close(k));
		if (how == GONE)
			assert_int_not_equal(access(p->l2, F_OK), 0);
		else if (how == BARE)
			assert_int_equal(entries_of(p->l2), 2);
		mount_again(p);
		k = open_series(p, NULL);
		assert_null(strstr(place_said(p), "L2 is not used"));
		comes_back(k, KEDGE_NEWEST, 3);
		take_both(k, 4, 4);
		assert_ok(k, kedge_close(k));
		after(p, p->l1, 4);
		tree_remove(p->l1);
		tree_remove(p->l2);
	}
}

/* All versions of a process that waits at its end only. */
static void test_told_at_close(void **state)
{
	struct place *p = *state;
	kedge_t *k;

	begin_with_l2(p);
	unmount(p, BARE);
	k = open_series(p, MORE("capture=copy"));
	comes_back(k, KEDGE_NEWEST, 2);
	take(k, 3);
	take(k, 4);
	assert_true(kedge_close(k) < 0);
	assert_non_null(strstr(kedge_last_error(NULL), "did not reach L2"));
	mount_again(p);
	after(p, p->l2, 4);
}

static void test_mounted_again_while_running(void **state)
{
	struct place *p = *state;

	for (int how = GONE; how <= ANOTHER; how++) {
		kedge_t *k;

		begin_with_l2(p);
		unmount(p, (enum away)how);
		k = open_series(p, MORE("capture=copy", "reducer=tree", "chunk=64"));
		comes_back(k, KEDGE_NEWEST, 2);
		take_l1_alone(k, 3);
		take_l1_alone(k, 4);
		mount_again(p);
		take_both(k, 5, 6); /* with what is in them of 3 and 4, which L2 has not */
		assert_non_null(strstr(place_said(p), "there again"));
		assert_ok(k, kedge_close(k));
		after(p, p->l1, 6);
		tree_remove(p->l1);
		tree_remove(p->l2);
	}
}

/* The mount goes while the job runs: nothing is written under the mount point. */
static void test_unmounted_while_running(void **state)
{
	struct place *p = *state;
	kedge_t *k = open_series(p, NULL);

	take_both(k, 1, 2);
	unmount(p, BARE);
	take(k, 3);
	assert_true(kedge_wait(k) < 0);
	assert_int_equal(entries_of(p->l2), 2);
	mount_again(p);
	take_both(k, 4, 4);
	assert_ok(k, kedge_close(k));
	after(p, p->l1, 4);
}

static void test_replaced_for_good(void **state)
{
	struct place *p = *state;
	kedge_t *k;

	for (int how = GONE; how <= ANOTHER; how++) {
		begin_with_l2(p);
		unmount(p, (enum away)how);
		k = open_series(p, MORE("l2_accept=yes"));
		comes_back(k, KEDGE_NEWEST, 2);
		take_both(k, 3, 3);
		assert_ok(k, kedge_close(k));
		k = open_series(p, NULL); /* L1 belongs to the new one now */
		comes_back(k, KEDGE_NEWEST, 3);
		take_both(k, 4, 4);
		assert_ok(k, kedge_close(k));
		after(p, p->l1, 4);
		tree_remove(p->l1);
		tree_remove(p->l2);
		tree_remove(aside(p));
	}
}

/* "Nothing there" would be taken for a fresh start. */
static void test_nothing_on_l1_is_not_a_fresh_start(void **state)
{
	struct place *p = *state;
	struct kedge_region_info info;
	kedge_t *k;
	uint64_t version;

	begin_with_l2(p);
	unmount(p, BARE);
	versions_remove(p->l1);
	k = open_series(p, NULL);
	assert_int_equal(kedge_restart(k, KEDGE_NEWEST, NULL), KEDGE_E_MISSING);
	assert_non_null(strstr(kedge_last_error(k), p->l2));
	assert_int_equal(kedge_restart(k, 2, NULL), KEDGE_E_MISSING);
	assert_int_equal(kedge_find(k, 100, &version), KEDGE_E_MISSING);
	assert_int_equal(kedge_region_stat(k, KEDGE_NEWEST, "m", &info), KEDGE_E_MISSING);
	assert_true(kedge_discard(k, 1, KEDGE_LEVEL_1 | KEDGE_LEVEL_2) < 0);
	assert_ok(k, kedge_close(k));
	mount_again(p);
	k = open_series(p, NULL);
	comes_back(k, KEDGE_NEWEST, 2);
	assert_int_equal(kedge_restart(k, 7, NULL), KEDGE_E_VERSION);
	assert_ok(k, kedge_close(k));
}

/* "Mount it and try again" needs no new process. */
static void test_restart_looks_again(void **state)
{
	struct place *p = *state;
	kedge_t *k;
	uint64_t version = 0;

	begin_with_l2(p);
	unmount(p, GONE);
	versions_remove(p->l1);
	k = open_series(p, NULL);
	assert_int_equal(kedge_restart(k, KEDGE_NEWEST, NULL), KEDGE_E_MISSING);
	mount_again(p);
	assert_ok(k, kedge_find(k, 1, &version));
	assert_int_equal(version, 1);
	comes_back(k, KEDGE_NEWEST, 2);
	take_both(k, 3, 3);
	assert_ok(k, kedge_close(k));
}

/* What L2 has calls itself later than what this process began without knowing of it. */
static void test_begun_without_l2(void **state)
{
	struct place *p = *state;
	kedge_t *k;

	begin_with_l2(p);
	for (uint64_t v = 3; v <= 4; v++) {
		k = open_series(p, NULL);
		comes_back(k, KEDGE_NEWEST, v - 1);
		take_both(k, v, v);
		assert_ok(k, kedge_close(k));
	}
	unmount(p, GONE);
	versions_remove(p->l1);
	k = open_series(p, MORE("l2_every=3"));
	assert_int_equal(kedge_restart(k, KEDGE_NEWEST, NULL), KEDGE_E_MISSING);
	assert_ok(k, kedge_begin(k));
	take(k, 5);
	mount_again(p);
	take(k, 6);
	assert_ok(k, kedge_close(k)); /* neither was due for L2 */
	k = open_series(p, NULL);
	comes_back(k, KEDGE_NEWEST, 6);
	take_both(k, 7, 7);
	assert_ok(k, kedge_close(k));
	after(p, p->l1, 7);
}

/* The same, and L2 is back only when the process is gone: which of the two runs is the later one, neither could know.
 */
static void test_begun_without_l2_for_all_its_life(void **state)
{
	struct place *p = *state;
	kedge_t *k;

	begin_with_l2(p);
	for (uint64_t v = 3; v <= 4; v++) {
		k = open_series(p, NULL);
		comes_back(k, KEDGE_NEWEST, v - 1);
		take_both(k, v, v);
		assert_ok(k, kedge_close(k));
	}
	unmount(p, GONE);
	versions_remove(p->l1);
	k = open_series(p, NULL);
	assert_int_equal(kedge_restart(k, KEDGE_NEWEST, NULL), KEDGE_E_MISSING);
	assert_ok(k, kedge_begin(k));
	take_l1_alone(k, 5);
	assert_ok(k, kedge_close(k));
	mount_again(p);
	k = open_series(p, NULL);
	comes_back(k, KEDGE_NEWEST, 5);
	take_both(k, 6, 6);
	assert_ok(k, kedge_close(k));
	after(p, p->l1, 6);
}

/* A program that computes the same again: L2 has the bytes already, but of versions that go. */
static void test_same_bytes_of_an_abandoned_run(void **state)
{
	struct place *p = *state;
	kedge_t *k;

	begin_with_l2(p);
	k = open_series(p, NULL);
	comes_back(k, KEDGE_NEWEST, 2);
	take_both(k, 3, 4);
	assert_ok(k, kedge_close(k));
	unmount(p, GONE);
	k = open_series(p, NULL);
	comes_back(k, 1, 1);
	take_l1_alone(k, 2);
	take_l1_alone(k, 3);
	mount_again(p);
	take_both(k, 4, 5);
	assert_ok(k, kedge_close(k));
	after(p, p->l1, 5);
}

/* A purge of L1 takes the tie with it. */
static void test_tie_comes_again(void **state)
{
	struct place *p = *state;
	kedge_t *k = open_series(p, NULL);
	char path[400];

	text_make(path, sizeof(path), "%s/job/l2", p->l1);
	take_both(k, 1, 1);
	assert_int_equal(unlink(path), 0);
	take_both(k, 2, 2);
	assert_int_equal(access(path, F_OK), 0);
	assert_ok(k, kedge_close(k));
}

/* What cannot be a directory, root or not. */
static void test_no_directory(void **state)
{
	struct place *p = *state;
	kedge_t *k;

	file_write(p->l2, "", 0);
	k = open_series(p, NULL);
	assert_non_null(strstr(place_said(p), p->l2));
	take_l1_alone(k, 1);
	assert_int_equal(unlink(p->l2), 0);
	take_both(k, 2, 3);
	assert_ok(k, kedge_close(k));
	after(p, p->l1, 3);
}

static int to_nobody(const char *path, const struct stat *st, void *ctx)
{
	(void)st, (void)ctx;
	return lchown(path, 65534, 65534);
}

static int closed_to_writes(const char *path, const struct stat *st, void *ctx)
{
	(void)ctx;
	return chmod(path, S_ISDIR(st->st_mode) ? 0500 : 0400);
}

static int open_again(const char *path, const struct stat *st, void *ctx)
{
	(void)st, (void)ctx;
	return chmod(path, 0700);
}

static void restart_from_l2_that_is_read_only(struct place *p)
{
	kedge_t *k;

	if (geteuid() == 0) /* to whom nothing is closed */
		assert_int_equal(setuid(65534), 0);
	k = open_series(p, NULL);
	assert_non_null(strstr(place_said(p), "L2 is not used"));
	comes_back(k, KEDGE_NEWEST, 2);
	take_l1_alone(k, 3);
	comes_back(k, 1, 1);
	comes_back(k, KEDGE_NEWEST, 3);
	assert_true(kedge_close(k) == 0);
}

/* L1 is lost, and L2 takes nothing any more (read-only here, full elsewhere): what it has can be restarted from. */
static void test_read_only(void **state)
{
	struct place *p = *state;
	int status;
	pid_t pid;

	begin_with_l2(p);
	tree_remove(p->l1);
	if (geteuid() == 0)
		assert_int_equal(tree_each(p->dir, to_nobody, NULL), 0);
	assert_int_equal(tree_each_inside_first(p->l2, closed_to_writes, NULL), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		restart_from_l2_that_is_read_only(p);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(tree_each(p->l2, open_again, NULL), 0);
}

static void test_owned_by_another(void **state)
{
	struct place *p = *state, other = *p;
	kedge_t *k, *owner;

	text_make(other.l1, sizeof(other.l1), "%s/other", p->dir);
	owner = job_open(&other, true, NULL);
	k = open_series(p, NULL);
	assert_non_null(strstr(place_said(p), "in use by"));
	take_l1_alone(k, 1);
	assert_ok(owner, kedge_close(owner));
	take_both(k, 2, 2); /* looks again, though nothing looks different */
	assert_ok(k, kedge_close(k));
	after(p, p->l1, 2);
}

/* A directory where a manifest should be can neither be read nor be removed. */
static void test_abandoned_versions_stay(void **state)
{
	struct place *p = *state;
	char path[400];
	kedge_t *k;

	begin_with_l2(p);
	manifest_path(p->l2, 9, path, sizeof(path));
	assert_int_equal(mkdir(path, 0700), 0);
	k = open_series(p, NULL);
	comes_back(k, 1, 1);
	take_both(k, 2, 2);
	assert_non_null(strstr(place_said(p), "stay on L2"));
	comes_back(k, KEDGE_NEWEST, 2);
	assert_ok(k, kedge_close(k));
}

/* Which L2 it is cannot be told any more: it is a store, and that has to do. */
static void test_tie_damaged(void **state)
{
	struct place *p = *state;
	char path[400];
	kedge_t *k;

	begin_with_l2(p);
	text_make(path, sizeof(path), "%s/job/l2", p->l1);
	file_flip(path, 20, 0x40);
	unmount(p, BARE);
	k = open_series(p, NULL);
	take_l1_alone(k, 3);
	assert_ok(k, kedge_close(k));
	mount_again(p);
	k = open_series(p, NULL);
	take_both(k, 4, 4);
	assert_ok(k, kedge_close(k));
	unmount(p, ANOTHER);
	k = open_series(p, NULL); /* and is known again */
	take_l1_alone(k, 5);
	assert_ok(k, kedge_close(k));
}

/* The newest version again, with the same bytes: the same image, in another form and of another run. L2 has it, and
 * what comes after it, whole. */
static void test_taken_again(void **state)
{
	static const char *const ways[][4] = {{"reducer=basic", "coalesce=auto"}, {"reducer=basic", "coalesce=never"},
					      {"reducer=list", "coalesce=never"}, {"reducer=tree", "coalesce=auto"},
					      {"reducer=rex", "coalesce=auto"},   {"reducer=rex", "coalesce=never"},
					      {"reducer=full", "coalesce=batch"}};
	struct place *p = *state;

	for (size_t i = 0; i < KEDGE__COUNT(ways); i++)
		for (uint64_t more = 0; more < 3; more++) {
			kedge_t *k = open_series(p, ways[i]);

			take_both(k, 1, 3);
			take_both(k, 3, 3 + more);
			assert_ok(k, kedge_close(k));
			after(p, p->l1, 3 + more);
			tree_remove(p->l1);
			tree_remove(p->l2);
		}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    JOB(test_taken_again),
	    JOB(test_not_mounted_at_open),
	    JOB(test_told_at_close),
	    JOB(test_mounted_again_while_running),
	    JOB(test_unmounted_while_running),
	    JOB(test_replaced_for_good),
	    JOB(test_nothing_on_l1_is_not_a_fresh_start),
	    JOB(test_restart_looks_again),
	    JOB(test_begun_without_l2),
	    JOB(test_begun_without_l2_for_all_its_life),
	    JOB(test_same_bytes_of_an_abandoned_run),
	    JOB(test_tie_comes_again),
	    JOB(test_no_directory),
	    JOB(test_read_only),
	    JOB(test_owned_by_another),
	    JOB(test_abandoned_versions_stay),
	    JOB(test_tie_damaged),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
