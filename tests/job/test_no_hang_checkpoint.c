/* SPDX-License-Identifier: BSD-3-Clause */
/* Faults while a group takes a checkpoint on L1 alone. */
#include "no_hang.h"

/* Ranks hold different versions: what all hold is found, and images are held again. */
static void lose_newest(const struct place *p)
{
	char store[400], path[500];

	text_make(store, sizeof(store), "%s-1", p->l1);
	manifest_path(store, STORED, path, sizeof(path));
	assert_int_equal(unlink(path), 0);
}

/* Scratch space is cleared while the job runs. */
static void before_purged(struct life *l)
{
	char store[400];

	before_running(l);
	barrier(l);
	l1_of(l->s, l->p, l->rank, store, sizeof(store));
	strcat(store, "/job");
	if (l->rank == 1)
		MUST(tree_remove(store) == 0);
	barrier(l);
	know(l, 0);
}

static void test_sync_shared(void **state)
{
	no_hang(*state, "sync_shared",
		&(struct scenario){NO_THREAD, false, SHARED_L1, false, MORE(SMALL, "capture=sync"), NULL, STORED,
				   before_running, act_take});
}

static void test_sync_own_keep(void **state)
{
	no_hang(*state, "sync_own_keep",
		&(struct scenario){NO_THREAD, true, OWN_L1, false, MORE(SMALL, "capture=sync", "keep=2"), NULL, STORED,
				   before_running, act_take});
}

static void test_sync_mixed(void **state)
{
	no_hang(*state, "sync_mixed",
		&(struct scenario){ANY_THREAD_TWO_CHANNELS, false, MIXED_L1, false,
				   MORE(SMALL, "capture=sync", "keep=2"), NULL, STORED, before_running, act_take});
}

static void test_copy_shared(void **state)
{
	no_hang(*state, "copy_shared",
		&(struct scenario){ANY_THREAD, true, SHARED_L1, false, MORE(SMALL, "capture=copy", "keep=2"), NULL,
				   STORED, before_running, act_take});
}

static void test_copy_mixed(void **state)
{
	no_hang(*state, "copy_mixed",
		&(struct scenario){NO_THREAD, false, MIXED_L1, false, MORE(SMALL, "capture=copy", "keep=2"), NULL,
				   STORED, before_running, act_two});
}

static void test_cow_own(void **state)
{
	no_hang(*state, "cow_own",
		&(struct scenario){ANY_THREAD_TWO_CHANNELS, true, OWN_L1, false,
				   MORE(SMALL, "capture=cow-user", "keep=2"), NULL, STORED, before_running, act_take});
}

static void test_cow_mixed(void **state)
{
	no_hang(*state, "cow_mixed",
		&(struct scenario){ANY_THREAD, false, MIXED_L1, false, MORE(SMALL, "capture=cow-user"), NULL, STORED,
				   before_running, act_two});
}

static void test_run_begins_sync(void **state)
{
	no_hang(*state, "run_begins_sync",
		&(struct scenario){NO_THREAD, true, MIXED_L1, false, MORE(SMALL, "capture=sync"), NULL, STORED,
				   before_restarted, act_take});
}

static void test_run_begins_copy(void **state)
{
	no_hang(*state, "run_begins_copy",
		&(struct scenario){ANY_THREAD, false, OWN_L1, false, MORE(SMALL, "capture=copy"), NULL, STORED,
				   before_restarted, act_take});
}

static void test_different_sync(void **state)
{
	no_hang(*state, "different_sync",
		&(struct scenario){NO_THREAD, false, OWN_L1, false, MORE(SMALL, "capture=sync"), lose_newest,
				   STORED - 1, before_open, act_take});
}

static void test_different_copy(void **state)
{
	no_hang(*state, "different_copy",
		&(struct scenario){ANY_THREAD, true, OWN_L1, false, MORE(SMALL, "capture=copy"), lose_newest,
				   STORED - 1, before_open, act_take});
}

static void test_different_cow(void **state)
{
	no_hang(*state, "different_cow",
		&(struct scenario){ANY_THREAD_TWO_CHANNELS, false, OWN_L1, false, MORE(SMALL, "capture=cow-user"),
				   lose_newest, STORED - 1, before_restarted, act_take});
}

static void test_purged_own(void **state)
{
	no_hang(*state, "purged_own",
		&(struct scenario){ANY_THREAD, true, OWN_L1, false, MORE(SMALL, "capture=copy"), NULL, STORED,
				   before_purged, act_take});
}

static void test_purged_shared(void **state)
{
	no_hang(*state, "purged_shared",
		&(struct scenario){NO_THREAD, false, SHARED_L1, false, MORE(SMALL, "capture=sync"), NULL, STORED,
				   before_purged, act_take});
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    JOB(test_sync_shared),     JOB(test_sync_own_keep),  JOB(test_sync_mixed),     JOB(test_copy_shared),
	    JOB(test_copy_mixed),      JOB(test_cow_own),        JOB(test_cow_mixed),      JOB(test_run_begins_sync),
	    JOB(test_run_begins_copy), JOB(test_different_sync), JOB(test_different_copy), JOB(test_different_cow),
	    JOB(test_purged_own),      JOB(test_purged_shared)};

	return cases_run(argc, argv, tests, NULL, NULL);
}
