/* SPDX-License-Identifier: BSD-3-Clause */
/* What the ranks find out about their directories when they meet, and what each has to see before a version counts. */
#include "ranks.h"

static void own_path(const struct place *p, const char *level, int rank, char *out, size_t room)
{
	(void)p;
	text_make(out, room, "%s-%d", level, rank);
}

/* ------------------------------------------------------------------ L1: copies of one directory */

static void two_versions(struct rank *r)
{
	kedge_t *k = rank_open(r);

	CHECK(kedge_protect(k, "m", m, BYTES, KEDGE_U8) == 0);
	take(r, k, 1, 2);
	CHECK(kedge_close(k) == 0);
}

static void goes_on(struct rank *r, uint64_t from, uint64_t to)
{
	kedge_t *k = rank_open(r);
	char path[500];
	struct place mine = *r->p;

	CHECK(kedge_protect(k, "m", m, BYTES, KEDGE_U8) == 0);
	comes_back(r, k, KEDGE_NEWEST, from);
	take(r, k, from + 1, to);
	CHECK(kedge_wait(k) == 0);
	CHECK(kedge_close(k) == 0);
	rank_dir(r, mine.l1, sizeof(mine.l1));
	for (uint64_t v = from + 1; v <= to; v++) {
		manifest_path(mine.l1, v, path, sizeof(path));
		CHECK(access(path, F_OK) == 0);
	}
	CHECK(!file_find(mine.l1, "probe", "", path, sizeof(path)));
	text_make(path, sizeof(path), "%s/job", mine.l1);
	CHECK(!file_find(path, "probe", "", path, sizeof(path)));
	k = rank_open(r);
	CHECK(kedge_protect(k, "m", m, BYTES, KEDGE_U8) == 0);
	comes_back(r, k, KEDGE_NEWEST, to);
	CHECK(kedge_close(k) == 0);
}

static void comes_back_to_two(struct rank *r)
{
	kedge_t *k = rank_open(r);

	CHECK(kedge_protect(k, "m", m, BYTES, KEDGE_U8) == 0);
	comes_back(r, k, KEDGE_NEWEST, 2);
	CHECK(kedge_close(k) == 0);
}

static void goes_on_to_five(struct rank *r)
{
	goes_on(r, 2, 5);
}

static void goes_on_to_seven(struct rank *r)
{
	goes_on(r, 5, 7);
}

static void test_copied_l1(void **state)
{
	struct place *p = *state;
	char path[400];

	for (int size = 2; size <= RANKS; size++) {
		for (int t = NO_THREAD; t <= ANY_THREAD_TWO_CHANNELS; t++) {
			struct plan plan = {size, (enum threading)t, false, false, MORE("reducer=tree", "chunk=64")};

			ranks_run(p, plan, two_versions);
			for (int i = 0; i < size; i++) {
				own_path(p, p->l1, i, path, sizeof(path));
				tree_copy(p->l1, path);
			}
			plan.own_dirs = true;
			ranks_run(p, plan, goes_on_to_five);
			plan.more = MORE("capture=copy", "reducer=tree", "chunk=64");
			ranks_run(p, plan, goes_on_to_seven);
			dirs_remove(p);
		}
	}
}

/* Ranks 0 and 1 share a directory by two paths, rank 2 has a copy of it. */
static void test_shared_and_copied_l1(void **state)
{
	struct place *p = *state;
	struct plan plan = {RANKS, ANY_THREAD, false, false, MORE("keep=3")};
	char path[400];

	ranks_run(p, plan, two_versions);
	for (int i = 0; i < 2; i++) {
		own_path(p, p->l1, i, path, sizeof(path));
		assert_int_equal(symlink(p->l1, path), 0);
	}
	own_path(p, p->l1, 2, path, sizeof(path));
	tree_copy(p->l1, path);
	plan.own_dirs = true;
	ranks_run(p, plan, goes_on_to_five);
	ranks_run(p, plan, goes_on_to_seven);
}

static void test_probe_left_by_a_crash(void **state)
{
	struct place *p = *state;
	struct plan plan = {2, ANY_THREAD, false, false, NULL};
	static const char raw[24] = {'K', 'E', 'D', 'G', 'E', 'P', 'R', 'B', 0x0f}, other[16] = "others' numbers";
	static const struct {
		const char *name, *data;
		size_t bytes;
		bool stays;
	} files[] = {{"probe-000000000000000f", raw, 20, false},
		     {"probe-0000000000000f0f", raw, 9, false}, /* cut short in its number */
		     {"probe-000000000000000e", raw, 16, true}, /* does not say what its name does */
		     {"probe-000000000000000f.txt", raw, 16, true},
		     {"probe-00000000000000ee", raw, 24, true}, /* too long */
		     {"probe-00000000000000ff", raw, 5, false}, /* cut short */
		     {"probe-00000000000000fe", raw, 0, false},
		     {"probe-00000000000000fd", other, 16, true},
		     {"probe-00000000000000fc", other, 5, true},
		     {"probe-data", raw, 16, true}};
	char path[500];

	ranks_run(p, plan, two_versions);
	for (size_t i = 0; i < KEDGE__COUNT(files); i++) {
		text_make(path, sizeof(path), "%s/job/%s", p->l1, files[i].name);
		file_write(path, files[i].data, files[i].bytes);
	}
	ranks_run(p, plan, comes_back_to_two);
	for (size_t i = 0; i < KEDGE__COUNT(files); i++) {
		text_make(path, sizeof(path), "%s/job/%s", p->l1, files[i].name);
		assert_int_equal(access(path, F_OK) == 0, files[i].stays);
	}
}

/* ------------------------------------------------------------------ a version counts when all see it */

/* Rank 1's path leads to a copy from some moment on: what it writes is there, the manifest is not. */
static void directory_is_swapped(struct rank *r)
{
	kedge_t *k = rank_open(r);
	char own[400], copy[500], path[600];
	int dummy = 0, all[RANKS];

	own_path(r->p, r->p->l1, r->rank, own, sizeof(own));
	text_make(copy, sizeof(copy), "%s-copy", r->p->l1);
	CHECK(kedge_protect(k, "m", m, BYTES, KEDGE_U8) == 0);
	take(r, k, 1, 2);
	if (r->rank == 1) {
		tree_copy(r->p->l1, copy);
		CHECK(unlink(own) == 0 && symlink(copy, own) == 0);
	}
	CHECK(meet(&r->front, &dummy, sizeof(dummy), all) == 0);
	state_make(m, r->rank, 3);
	CHECK(kedge_checkpoint(k, 3) == (r->rank == 1 ? KEDGE_E_MISSING : KEDGE_E_GROUP));
	CHECK(strstr(kedge_last_error(k), "rank 1 does not see the manifest of version 3"));
	CHECK(meet(&r->front, &dummy, sizeof(dummy), all) == 0);
	manifest_path(r->p->l1, 3, path, sizeof(path));
	CHECK(access(path, F_OK) != 0);
	if (r->rank == 1)
		CHECK(unlink(own) == 0 && symlink(r->p->l1, own) == 0);
	CHECK(meet(&r->front, &dummy, sizeof(dummy), all) == 0);
	comes_back(r, k, KEDGE_NEWEST, 2);
	take(r, k, 4, 4);
	comes_back(r, k, KEDGE_NEWEST, 4);
	CHECK(kedge_close(k) == 0);
}

static void test_manifest_not_seen(void **state)
{
	struct place *p = *state;
	char path[400];

	assert_int_equal(mkdir(p->l1, 0700), 0);
	for (int i = 0; i < 2; i++) {
		own_path(p, p->l1, i, path, sizeof(path));
		assert_int_equal(symlink(p->l1, path), 0);
	}
	ranks_run(p, (struct plan){2, ANY_THREAD, true, false, MORE("reducer=tree")}, directory_is_swapped);
}

/* ------------------------------------------------------------------ L2: one for all */

/* Every rank has a path of its own to L2. */
static kedge_t *open_l2(struct rank *r)
{
	struct place mine = *r->p;
	struct options o;
	kedge_t *k = NULL;

	own_path(r->p, r->p->l2, r->rank, mine.l2, sizeof(mine.l2));
	rank_dir(r, mine.l1, sizeof(mine.l1));
	CHECK(kedge_open_group("job", NULL, options_make(&o, &mine, true, r->more), &r->group, &k) == 0);
	CHECK(kedge_protect(k, "m", m, BYTES, KEDGE_U8) == 0);
	return k;
}

static void reach_l2(struct rank *r, kedge_t *k, uint64_t first, uint64_t last)
{
	take(r, k, first, last);
	CHECK(kedge_wait(k) == 0);
	for (uint64_t v = first; v <= last; v++)
		CHECK(kedge_test(k, v) == 1);
	CHECK(levels_of(k, last) == 3);
}

static void l1_alone(struct rank *r, kedge_t *k, uint64_t version)
{
	take(r, k, version, version);
	CHECK(kedge_wait(k) < 0);
	CHECK(strstr(kedge_last_error(k), "did not reach L2"));
	CHECK(kedge_test(k, version) < 0);
	CHECK(levels_of(k, version) == 1);
}

static void l2_used(struct rank *r)
{
	kedge_t *k = open_l2(r);

	reach_l2(r, k, 1, 2);
	CHECK(kedge_close(k) == 0);
}

static void l2_not_used(struct rank *r)
{
	kedge_t *k = open_l2(r);

	l1_alone(r, k, 3);
	comes_back(r, k, KEDGE_NEWEST, 3);
	CHECK(kedge_close(k) == 0);
}

/* Until rank 0, between two checkpoints, mounts it for the others. */
static void l2_mounted_later(struct rank *r)
{
	kedge_t *k = open_l2(r);
	int dummy = 0, all[RANKS];
	char path[400];

	comes_back(r, k, KEDGE_NEWEST, 2);
	l1_alone(r, k, 3);
	CHECK(meet(&r->front, &dummy, sizeof(dummy), all) == 0);
	if (r->rank == 0) {
		own_path(r->p, r->p->l2, 1, path, sizeof(path));
		CHECK(entries_of(path) == 2); /* nobody made a store there */
		CHECK(rmdir(path) == 0 && symlink(r->p->l2, path) == 0);
	}
	CHECK(meet(&r->front, &dummy, sizeof(dummy), all) == 0);
	reach_l2(r, k, 4, 5);
	CHECK(kedge_close(k) == 0);
}

static void back_from_l2(struct rank *r)
{
	kedge_t *k = open_l2(r);

	comes_back(r, k, KEDGE_NEWEST, 5);
	CHECK(kedge_close(k) == 0);
}

static void nothing_there_but_l2_is_away(struct rank *r)
{
	kedge_t *k = open_l2(r);

	CHECK(kedge_restart(k, KEDGE_NEWEST, NULL) == KEDGE_E_MISSING);
	CHECK(strstr(kedge_last_error(k), "rank 0 on ") && strstr(kedge_last_error(k), "sees a store, but rank 1 on "));
	CHECK(strstr(kedge_last_error(k), "sees an empty directory; mount it on every node"));
	CHECK(kedge_close(k) == 0);
}

static void l2_link(const struct place *p, int rank, const char *to)
{
	char path[400];

	own_path(p, p->l2, rank, path, sizeof(path));
	tree_remove(path);
	unlink(path);
	if (to)
		assert_int_equal(symlink(to, path), 0);
	else
		assert_int_equal(mkdir(path, 0700), 0);
}

static void test_l2_not_mounted_on_one_node(void **state)
{
	struct place *p = *state;

	for (int t = NO_THREAD; t <= ANY_THREAD_TWO_CHANNELS; t++) {
		struct plan plan = {RANKS, (enum threading)t, true, true, MORE("reducer=tree", "chunk=64")};

		assert_int_equal(mkdir(p->l2, 0700), 0);
		for (int i = 0; i < RANKS; i++)
			l2_link(p, i, p->l2);
		ranks_run(p, plan, l2_used);
		l2_link(p, 1, NULL);
		ranks_run(p, plan, l2_mounted_later);
		dirs_remove_l1(p);
		l2_link(p, 1, NULL);
		ranks_run(p, plan, nothing_there_but_l2_is_away);
		l2_link(p, 1, p->l2);
		ranks_run(p, plan, back_from_l2);
		dirs_remove(p);
	}
}

/* A new L2 that is a directory of each node is none. */
static void test_l2_of_every_node(void **state)
{
	struct place *p = *state;

	for (int i = 0; i < RANKS; i++)
		l2_link(p, i, NULL);
	ranks_run(p, (struct plan){RANKS, ANY_THREAD, true, true, NULL}, l2_not_used);
}

/* The ids are the same, the directories are not. */
static void test_copied_l2(void **state)
{
	struct place *p = *state;
	struct plan plan = {RANKS, ANY_THREAD_TWO_CHANNELS, false, true, NULL};
	char path[400];

	assert_int_equal(mkdir(p->l2, 0700), 0);
	for (int i = 0; i < RANKS; i++)
		l2_link(p, i, p->l2);
	ranks_run(p, plan, l2_used);
	l2_link(p, 2, p->l2);
	own_path(p, p->l2, 2, path, sizeof(path));
	unlink(path);
	tree_copy(p->l2, path);
	ranks_run(p, plan, l2_not_used);
}

static const char *refusal; /* what all ranks have to be told */

static void l2_refused(struct rank *r)
{
	kedge_t *k = open_l2(r);

	CHECK(kedge_restart(k, KEDGE_NEWEST, NULL) == KEDGE_E_MISSING);
	CHECK(strstr(kedge_last_error(k), refusal));
	CHECK(strstr(kedge_last_error(k), "mount that one, or, if it is gone for good, set l2_accept = yes"));
	CHECK(strstr(kedge_last_error(k), r->p->l2));
	CHECK(kedge_close(k) == 0);
}

/* One that does not accept another L2 suffices. */
static void l2_accepted_by_some(struct rank *r)
{
	r->more = r->rank == 1 ? NULL : MORE("l2_accept=yes");
	l2_refused(r);
}

static void l2_accepted_by_all(struct rank *r)
{
	kedge_t *k;

	r->more = MORE("l2_accept=yes");
	k = open_l2(r);
	reach_l2(r, k, 3, 4);
	CHECK(kedge_close(k) == 0);
}

/* Only rank 2 has an L1 that remembers its L2: that is enough, and all are told which rank it is. */
static void test_l2_of_one_ranks_l1(void **state)
{
	struct place *p = *state;
	struct plan plan = {RANKS, ANY_THREAD, true, true, NULL};
	char path[400];

	assert_int_equal(mkdir(p->l2, 0700), 0);
	for (int i = 0; i < RANKS; i++)
		l2_link(p, i, p->l2);
	ranks_run(p, plan, l2_used);
	for (int i = 0; i < 2; i++) {
		own_path(p, p->l1, i, path, sizeof(path));
		tree_remove(path);
	}
	tree_remove(p->l2);
	assert_int_equal(mkdir(p->l2, 0700), 0);
	refusal = "rank 2 on ";
	ranks_run(p, plan, l2_refused);
	ranks_run(p, plan, l2_accepted_by_some);
	assert_int_equal(entries_of(p->l2), 2);
	text_make(path, sizeof(path), "%s-3", p->l1); /* another job makes a store there */
	{
		struct place other = *p;
		kedge_t *k;

		text_make(other.l1, sizeof(other.l1), "%s", path);
		k = job_open(&other, true, NULL);
		assert_ok(k, kedge_close(k));
	}
	refusal = ", but the L1 of rank 2 on ";
	ranks_run(p, plan, l2_refused);
	ranks_run(p, plan, l2_accepted_by_all);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    JOB(test_copied_l1),         JOB(test_shared_and_copied_l1),       JOB(test_probe_left_by_a_crash),
	    JOB(test_manifest_not_seen), JOB(test_l2_not_mounted_on_one_node), JOB(test_l2_of_every_node),
	    JOB(test_copied_l2),         JOB(test_l2_of_one_ranks_l1),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
