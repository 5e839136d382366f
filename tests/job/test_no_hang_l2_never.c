/* SPDX-License-Identifier: BSD-3-Clause */
/* Faults while a version is taken and goes to L2, with coalesce=never. */
#define SHARES 3
#define SHARE  2
#include "no_hang.h"

static void test_never_sync(void **state)
{
	no_hang(*state, "never_sync",
		&(struct scenario){ANY_THREAD_TWO_CHANNELS, true, OWN_L1, true,
				   MORE(SMALL, "capture=sync", "coalesce=never", "keep=2", "l2_keep=2"), NULL, STORED,
				   before_running, act_two});
}

static void test_never_copy(void **state)
{
	no_hang(*state, "never_copy",
		&(struct scenario){NO_THREAD, true, MIXED_L1, true,
				   MORE(SMALL, "capture=copy", "coalesce=never", "group_size=2", "keep=2", "l2_keep=2"),
				   NULL, STORED, before_running, act_take});
}

static void test_never_cow(void **state)
{
	no_hang(*state, "never_cow",
		&(struct scenario){ANY_THREAD, false, SHARED_L1, true,
				   MORE(SMALL, "capture=cow-user", "coalesce=never", "keep=2", "l2_keep=2"), NULL,
				   STORED, before_running, act_take});
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {JOB(test_never_sync), JOB(test_never_copy), JOB(test_never_cow)};

	return cases_run(argc, argv, tests, NULL, NULL);
}
