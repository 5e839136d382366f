/* SPDX-License-Identifier: BSD-3-Clause */
/* Faults while a group opens a job, discards versions, and closes it. */
#include "no_hang.h"

static void lose_all(const struct place *p)
{
	dirs_remove(p);
}

/* A version is pending, or on its way to L2, when the job is closed. */
static void before_pending(struct life *l)
{
	before_running(l);
	call_take(l);
	MUST(l->rc[TAKE] == 0);
	l->ceiling = l->version;
}

static void test_open_first_shared(void **state)
{
	no_hang(*state, "open_first_shared",
		&(struct scenario){NO_THREAD, false, SHARED_L1, false, MORE(SMALL, "capture=sync"), lose_all, 0,
				   before_nothing, act_open});
}

static void test_open_first_mixed_l2(void **state)
{
	no_hang(*state, "open_first_mixed_l2",
		&(struct scenario){ANY_THREAD, true, MIXED_L1, true, MORE(SMALL, "capture=sync"), lose_all, 0,
				   before_nothing, act_open});
}

static void test_open_stored_own(void **state)
{
	no_hang(*state, "open_stored_own",
		&(struct scenario){NO_THREAD, true, OWN_L1, false, MORE(SMALL, "capture=copy", "keep=2"), NULL, STORED,
				   before_nothing, act_open});
}

static void test_open_stored_l2(void **state)
{
	no_hang(*state, "open_stored_l2",
		&(struct scenario){ANY_THREAD_TWO_CHANNELS, false, SHARED_L1, true,
				   MORE(SMALL, "capture=copy", "l2_keep=2"), NULL, STORED, before_nothing, act_open});
}

static void test_discard_mixed(void **state)
{
	no_hang(*state, "discard_mixed",
		&(struct scenario){NO_THREAD, true, MIXED_L1, false, MORE(SMALL, "capture=sync"), NULL, STORED,
				   before_restarted, act_discard});
}

static void test_discard_l2(void **state)
{
	no_hang(*state, "discard_l2",
		&(struct scenario){ANY_THREAD_TWO_CHANNELS, false, OWN_L1, true, MORE(SMALL, "capture=copy"), NULL,
				   STORED, before_restarted, act_discard});
}

static void test_close_pending(void **state)
{
	no_hang(*state, "close_pending",
		&(struct scenario){NO_THREAD, true, MIXED_L1, true, MORE(SMALL, "capture=copy", "keep=2", "l2_keep=2"),
				   NULL, STORED, before_pending, act_close});
}

static void test_close_threads(void **state)
{
	no_hang(*state, "close_threads",
		&(struct scenario){ANY_THREAD_TWO_CHANNELS, false, OWN_L1, true,
				   MORE(SMALL, "capture=copy", "keep=2", "l2_keep=2"), NULL, STORED, before_pending,
				   act_close});
}

/* Each waits for the other, on another channel. */
static void wait_apart(struct seat *front, struct seat *back_seat, void *ctx)
{
	char own = 0, all[2];

	(void)ctx;
	(void)meet(front->rank ? front : back_seat, &own, 1, all);
}

/* What the other cases rely on: ranks that wait for ever are found, and ended. */
static void test_hang_is_found(void **state)
{
	(void)state;
	assert_int_equal(ranks_fork(2, wait_apart, NULL), 2);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_hang_is_found),
					   JOB(test_open_first_shared),
					   JOB(test_open_first_mixed_l2),
					   JOB(test_open_stored_own),
					   JOB(test_open_stored_l2),
					   JOB(test_discard_mixed),
					   JOB(test_discard_l2),
					   JOB(test_close_pending),
					   JOB(test_close_threads)};

	return cases_run(argc, argv, tests, NULL, NULL);
}
