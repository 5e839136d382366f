/* SPDX-License-Identifier: BSD-3-Clause */
/* Faults while versions are protected, and while what a node had is rebuilt. */
#define SHARES 11 /* of the calls of each scenario one in so many fails */
#define SHARE  3
#include "no_hang.h"

#define PROTECTED SMALL, "node=n%r", "protect=partner"

static void lose_a_node(const struct place *p)
{
	char dir[400];

	text_make(dir, sizeof(dir), "%s-1", p->l1);
	tree_remove(dir);
}

static void test_open_recovers(void **state)
{
	no_hang(*state, "open_recovers",
		&(struct scenario){NO_THREAD, false, OWN_L1, false, MORE(PROTECTED, "capture=sync"), lose_a_node,
				   STORED, before_nothing, act_open});
}

static void test_protect_sync(void **state)
{
	no_hang(*state, "protect_sync",
		&(struct scenario){NO_THREAD, true, OWN_L1, false, MORE(PROTECTED, "capture=sync"), NULL, STORED,
				   before_running, act_take});
}

static void test_protect_behind(void **state)
{
	no_hang(*state, "protect_behind",
		&(struct scenario){ANY_THREAD_TWO_CHANNELS, false, OWN_L1, true,
				   MORE(PROTECTED, "capture=copy", "protect_in_background=yes", "keep=2"), NULL, STORED,
				   before_running, act_two});
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {JOB(test_open_recovers), JOB(test_protect_sync), JOB(test_protect_behind)};

	return cases_run(argc, argv, tests, NULL, NULL);
}
