/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kedge_find_usable(): data are read only if somebody has changed them since they were sealed; and what a restart finds
 * damaged although nobody has changed it is not found again.
 */
#include "ranks.h"

#define VERSIONS 3

static struct stat state_of(const char *path)
{
	struct stat st;

	assert_int_equal(stat(path, &st), 0);
	return st;
}

/* A byte of the data of this rank; whoever looks at the times sees it. */
static void damage(const char *store, uint64_t version, int rank)
{
	clock_tick();
	segment_damage(store, version, rank);
}

/* The same as if storage had done it: the manifest is no older. */
static void damage_unseen(const char *store, uint64_t version, int rank)
{
	char segment[600], manifest[600];
	struct timespec times[2];

	segment_damage(store, version, rank);
	segment_path(store, version, rank, segment, sizeof(segment));
	manifest_path(store, version, manifest, sizeof(manifest));
	times[0] = times[1] = state_of(segment).st_ctim;
	assert_int_equal(utimensat(AT_FDCWD, manifest, times, 0), 0);
	clock_tick();
}

/* ------------------------------------------------------------------ one process */

static kedge_t *job_make(const struct place *p, bool l2)
{
	kedge_t *k = job_open(p, l2, MORE("reducer=full"));

	assert_ok(k, kedge_protect(k, "m", m, BYTES, KEDGE_U8));
	return k;
}

static void series_make(const struct place *p, bool l2)
{
	kedge_t *k = job_make(p, l2);

	for (uint64_t v = 1; v <= VERSIONS; v++) {
		state_make(m, 0, v);
		assert_ok(k, kedge_checkpoint(k, v));
	}
	assert_ok(k, kedge_wait(k));
	assert_ok(k, kedge_close(k));
}

static uint64_t usable(const struct place *p, bool l2, uint64_t at_most)
{
	kedge_t *k = job_make(p, l2);
	uint64_t version = 99;
	int rc = kedge_find_usable(k, at_most, &version);

	assert_true(rc == 0 || rc == KEDGE_E_NOTFOUND || rc == KEDGE_E_DAMAGED);
	assert_ok(k, kedge_close(k));
	return rc ? 0 : version;
}

static uint64_t intact(const struct place *p)
{
	kedge_t *k = job_make(p, false);
	uint64_t version = 0;

	assert_ok(k, kedge_find(k, KEDGE_NEWEST, &version));
	assert_ok(k, kedge_close(k));
	return version;
}

static void test_newest(void **state)
{
	const struct place *p = *state;

	assert_int_equal(usable(p, false, KEDGE_NEWEST), 0);
	series_make(p, false);
	assert_int_equal(usable(p, false, KEDGE_NEWEST), VERSIONS);
	assert_int_equal(usable(p, false, 2), 2);
	assert_int_equal(usable(p, false, 0), 0);
}

static void test_changed(void **state)
{
	const struct place *p = *state;

	series_make(p, false);
	damage(p->l1, 3, 0);
	assert_int_equal(usable(p, false, KEDGE_NEWEST), 2);
	damage(p->l1, 2, 0);
	assert_int_equal(usable(p, false, KEDGE_NEWEST), 1);
	damage(p->l1, 1, 0);
	assert_int_equal(usable(p, false, KEDGE_NEWEST), 0);
}

/* That a file was changed is a reason to read it, and nothing more. */
static void test_only_touched(void **state)
{
	const struct place *p = *state;

	series_make(p, false);
	damage(p->l1, 3, 0);
	damage(p->l1, 3, 0); /* the same bit */
	assert_int_equal(usable(p, false, KEDGE_NEWEST), 3);
}

static void test_incomplete(void **state)
{
	const struct place *p = *state;
	char path[600];

	series_make(p, false);
	segment_path(p->l1, 3, 0, path, sizeof(path));
	file_cut(path, (uint64_t)state_of(path).st_size - 1);
	assert_int_equal(usable(p, false, KEDGE_NEWEST), 2);
	segment_path(p->l1, 2, 0, path, sizeof(path));
	assert_int_equal(unlink(path), 0);
	assert_int_equal(usable(p, false, KEDGE_NEWEST), 1);
}

static void damage_found(const struct place *p, bool read)
{
	kedge_t *k = job_make(p, false);
	struct kedge_target target = {"m", m, BYTES};

	assert_int_equal(read ? kedge_read(k, 3, &target, 1) : kedge_restart(k, 3, NULL), KEDGE_E_DAMAGED);
	assert_ok(k, kedge_close(k));
}

/* The data of a file that nobody has changed are not read; who reads them remembers what is wrong with them. */
static void test_unseen(void **state)
{
	const struct place *p = *state;

	for (int read = 0; read < 2; read++) {
		series_make(p, false);
		damage_unseen(p->l1, 3, 0);
		assert_int_equal(usable(p, false, KEDGE_NEWEST), 3);
		damage_found(p, read);
		assert_int_equal(usable(p, false, KEDGE_NEWEST), 2);
		assert_int_equal(intact(p), 2);
		tree_remove(p->l1);
	}
}

/* kedge_find() reads in any case. */
static void test_find_reads(void **state)
{
	const struct place *p = *state;

	series_make(p, false);
	damage_unseen(p->l1, 3, 0);
	assert_int_equal(intact(p), 2);
	assert_int_equal(usable(p, false, KEDGE_NEWEST), 2);
}

/* Another level has the bytes: they come back, and nothing is wrong with the version. */
static void test_other_level(void **state)
{
	const struct place *p = *state;
	uint64_t version;
	kedge_t *k;

	series_make(p, true);
	damage_unseen(p->l1, 3, 0);
	assert_int_equal(usable(p, true, KEDGE_NEWEST), 3);
	k = job_make(p, true);
	assert_ok(k, kedge_restart(k, 3, &version));
	state_make(want, 0, 3);
	assert_memory_equal(m, want, BYTES);
	assert_ok(k, kedge_close(k));
	damage(p->l1, 2, 0);
	assert_int_equal(usable(p, true, 2), 2);
}

/* What was opened to find a version is used again to read it, but only as long as its files are what they were. */
static void test_kept(void **state)
{
	const struct place *p = *state;
	struct kedge_target target = {"m", m, BYTES};
	struct kedge_region_info info;
	uint64_t version;
	char path[600];
	kedge_t *k;

	for (int gone = 0; gone < 2; gone++) {
		series_make(p, false);
		k = job_make(p, false);
		assert_ok(k, kedge_find_usable(k, KEDGE_NEWEST, &version));
		assert_ok(k, kedge_region_stat(k, 3, "m", &info));
		assert_ok(k, kedge_read(k, 3, &target, 1));
		state_make(want, 0, 3);
		assert_memory_equal(m, want, BYTES);
		segment_path(p->l1, 3, 0, path, sizeof(path));
		clock_tick();
		if (gone)
			assert_int_equal(unlink(path), 0);
		else
			file_flip(path, (uint64_t)state_of(path).st_size - 20, 1); /* of the footer */
		assert_int_equal(kedge_region_stat(k, 3, "m", &info), gone ? KEDGE_E_MISSING : KEDGE_E_DAMAGED);
		assert_int_equal(kedge_read(k, 3, &target, 1), gone ? KEDGE_E_MISSING : KEDGE_E_DAMAGED);
		assert_int_equal(kedge_restart(k, 3, NULL), gone ? KEDGE_E_MISSING : KEDGE_E_DAMAGED);
		assert_ok(k, kedge_find_usable(k, KEDGE_NEWEST, &version));
		assert_int_equal(version, 2);
		assert_ok(k, kedge_close(k));
		tree_remove(p->l1);
	}
}

/* Who takes checkpoints needs it no longer. */
static void test_kept_until_a_checkpoint(void **state)
{
	const struct place *p = *state;
	uint64_t version;
	size_t before;
	kedge_t *k;

	series_make(p, false);
	k = job_make(p, false);
	assert_ok(k, kedge_restart(k, 3, NULL));
	before = fds_open();
	assert_ok(k, kedge_find_usable(k, KEDGE_NEWEST, &version));
	assert_true(fds_open() > before);
	assert_ok(k, kedge_checkpoint(k, 4));
	assert_ok(k, kedge_wait(k));
	assert_int_equal(fds_open(), before);
	assert_ok(k, kedge_close(k));
}

static void test_arguments(void **state)
{
	kedge_t *k = job_make(*state, false);

	assert_int_equal(kedge_find_usable(k, 1, NULL), KEDGE_E_ARG);
	assert_int_equal(kedge_find_usable(NULL, 1, NULL), KEDGE_E_ARG);
	assert_ok(k, kedge_close(k));
}

/* ------------------------------------------------------------------ several */

static void ranks_make(struct rank *r)
{
	kedge_t *k = rank_open(r);

	CHECK(kedge_protect(k, "m", m, BYTES, KEDGE_U8) == 0);
	take(r, k, 1, VERSIONS);
	CHECK(kedge_wait(k) == 0);
	CHECK(kedge_close(k) == 0);
}

static void ranks_find(struct rank *r, uint64_t expected)
{
	kedge_t *k = rank_open(r);
	uint64_t version = 0;

	CHECK(kedge_find_usable(k, KEDGE_NEWEST, &version) == 0);
	CHECK(version == expected);
	CHECK(kedge_close(k) == 0);
}

static void ranks_find_all(struct rank *r)
{
	ranks_find(r, VERSIONS);
}

static void ranks_find_before(struct rank *r)
{
	ranks_find(r, VERSIONS - 1);
}

/* Only the last rank can know what is wrong, and only by reading. */
static void ranks_fail(struct rank *r)
{
	kedge_t *k = rank_open(r);

	CHECK(kedge_protect(k, "m", m, BYTES, KEDGE_U8) == 0);
	CHECK(kedge_find_usable(k, KEDGE_NEWEST, &(uint64_t){0}) == 0);
	CHECK(kedge_restart(k, VERSIONS, NULL) == (r->rank == RANKS - 1 ? KEDGE_E_DAMAGED : KEDGE_E_GROUP));
	CHECK(kedge_find_usable(k, KEDGE_NEWEST, &(uint64_t){0}) == 0);
	comes_back(r, k, VERSIONS - 1, VERSIONS - 1);
	CHECK(kedge_close(k) == 0);
}

static void test_ranks(void **state)
{
	const struct place *p = *state;

	for (int own = 0; own < 2; own++) {
		struct plan plan = {RANKS, ANY_THREAD_TWO_CHANNELS, own, false, MORE("reducer=full")};
		char dir[400];

		text_make(dir, sizeof(dir), own ? "%s-%d" : "%s", p->l1, RANKS - 1);
		ranks_run(p, plan, ranks_make);
		ranks_run(p, plan, ranks_find_all);
		damage(dir, VERSIONS, RANKS - 1);
		ranks_run(p, plan, ranks_find_before);
		dirs_remove(p);
		ranks_run(p, plan, ranks_make);
		damage_unseen(dir, VERSIONS, RANKS - 1);
		ranks_run(p, plan, ranks_fail);
		ranks_run(p, plan, ranks_find_before);
		dirs_remove(p);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {JOB(test_newest),      JOB(test_changed), JOB(test_only_touched),
					   JOB(test_incomplete),  JOB(test_unseen),  JOB(test_find_reads),
					   JOB(test_other_level), JOB(test_kept),    JOB(test_kept_until_a_checkpoint),
					   JOB(test_arguments),   JOB(test_ranks)};

	return cases_run(argc, argv, tests, NULL, NULL);
}
