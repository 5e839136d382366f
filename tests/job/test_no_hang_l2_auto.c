/* SPDX-License-Identifier: BSD-3-Clause */
/* Faults while a version is taken and goes to L2, with coalesce=auto. */
#define SHARES 3
#define SHARE  0
#include "no_hang.h"

static void test_auto_sync(void **state)
{
	no_hang(*state, "auto_sync",
		&(struct scenario){NO_THREAD, false, SHARED_L1, true,
				   MORE(SMALL, "capture=sync", "coalesce=auto", "keep=2", "l2_keep=2"), NULL, STORED,
				   before_running, act_take});
}

static void test_auto_copy(void **state)
{
	no_hang(*state, "auto_copy",
		&(struct scenario){ANY_THREAD, true, OWN_L1, true,
				   MORE(SMALL, "capture=copy", "coalesce=auto", "keep=3", "l2_keep=2"), NULL, STORED,
				   before_running, act_take});
}

static void test_auto_cow(void **state)
{
	no_hang(*state, "auto_cow",
		&(struct scenario){ANY_THREAD_TWO_CHANNELS, false, MIXED_L1, true,
				   MORE(SMALL, "capture=cow-user", "coalesce=auto", "keep=2", "l2_keep=3"), NULL,
				   STORED, before_running, act_take});
}

static void test_run_begins(void **state)
{
	no_hang(*state, "run_begins",
		&(struct scenario){ANY_THREAD_TWO_CHANNELS, false, OWN_L1, true,
				   MORE(SMALL, "capture=copy", "keep=2", "l2_keep=2"), NULL, STORED, before_restarted,
				   act_take});
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {JOB(test_auto_sync), JOB(test_auto_copy), JOB(test_auto_cow),
					   JOB(test_run_begins)};

	return cases_run(argc, argv, tests, NULL, NULL);
}
