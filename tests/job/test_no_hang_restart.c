/* SPDX-License-Identifier: BSD-3-Clause */
/* Faults while a group restarts. */
#include "no_hang.h"

/* The L1 of one rank is gone; L2 has its versions. */
static void lose_l1(const struct place *p)
{
	char store[400];

	text_make(store, sizeof(store), "%s-1", p->l1);
	assert_int_equal(tree_remove(store), 0);
}

/* The newest segment of one rank is damaged. */
static void lose_segment(const struct place *p)
{
	char store[400];

	text_make(store, sizeof(store), "%s-1", p->l1);
	segment_damage(store, STORED, 1);
}

static void test_newest_shared(void **state)
{
	no_hang(*state, "newest_shared",
		&(struct scenario){NO_THREAD, false, SHARED_L1, false, MORE(SMALL, "capture=sync"), NULL, STORED,
				   before_open, act_restart});
}

static void test_newest_mixed(void **state)
{
	no_hang(*state, "newest_mixed",
		&(struct scenario){ANY_THREAD, true, MIXED_L1, false, MORE(SMALL, "capture=copy"), NULL, STORED,
				   before_running, act_restart});
}

static void test_newest_l2(void **state)
{
	no_hang(*state, "newest_l2",
		&(struct scenario){ANY_THREAD_TWO_CHANNELS, false, OWN_L1, true, MORE(SMALL, "capture=copy"), NULL,
				   STORED, before_open, act_restart});
}

static void test_given_own(void **state)
{
	no_hang(*state, "given_own",
		&(struct scenario){NO_THREAD, true, OWN_L1, false, MORE(SMALL, "capture=sync"), NULL, STORED,
				   before_open, act_restart_given});
}

static void test_given_l2(void **state)
{
	no_hang(*state, "given_l2",
		&(struct scenario){ANY_THREAD, false, MIXED_L1, true, MORE(SMALL, "capture=copy"), NULL, STORED,
				   before_running, act_restart_given});
}

static void test_l1_lost(void **state)
{
	no_hang(*state, "l1_lost",
		&(struct scenario){ANY_THREAD_TWO_CHANNELS, true, OWN_L1, true, MORE(SMALL, "capture=copy"), lose_l1,
				   STORED, before_open, act_restart});
}

static void test_damaged_l2(void **state)
{
	no_hang(*state, "damaged_l2",
		&(struct scenario){NO_THREAD, false, OWN_L1, true, MORE(SMALL, "capture=sync"), lose_segment, STORED,
				   before_open, act_restart});
}

static void test_damaged(void **state)
{
	no_hang(*state, "damaged",
		&(struct scenario){ANY_THREAD, false, OWN_L1, false, MORE(SMALL, "capture=copy"), lose_segment,
				   STORED - 1, before_open, act_restart});
}

static void test_different(void **state)
{
	no_hang(*state, "different",
		&(struct scenario){NO_THREAD, false, OWN_L1, false, MORE(SMALL, "capture=sync"), lose_segment,
				   STORED - 1, before_restarted, act_take});
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {JOB(test_newest_shared), JOB(test_newest_mixed), JOB(test_newest_l2),
					   JOB(test_given_own),     JOB(test_given_l2),     JOB(test_l1_lost),
					   JOB(test_damaged_l2),    JOB(test_damaged),      JOB(test_different)};

	return cases_run(argc, argv, tests, NULL, NULL);
}
