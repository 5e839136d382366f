/* SPDX-License-Identifier: BSD-3-Clause */
/* Faults while a version is taken and goes to L2, with coalesce=batch. */
#define SHARES 3
#define SHARE  1
#include "no_hang.h"

static void test_batch_sync(void **state)
{
	no_hang(*state, "batch_sync",
		&(struct scenario){ANY_THREAD, false, MIXED_L1, true,
				   MORE(SMALL, "capture=sync", "coalesce=batch", "group_size=2", "keep=2", "l2_keep=2"),
				   NULL, STORED, before_running, act_take});
}

static void test_batch_copy(void **state)
{
	no_hang(*state, "batch_copy",
		&(struct scenario){ANY_THREAD_TWO_CHANNELS, true, SHARED_L1, true,
				   MORE(SMALL, "capture=copy", "coalesce=batch", "group_size=2", "keep=2", "l2_keep=2"),
				   NULL, STORED, before_running, act_two});
}

static void test_batch_cow(void **state)
{
	no_hang(*state, "batch_cow",
		&(struct scenario){NO_THREAD, false, OWN_L1, true,
				   MORE(SMALL, "capture=cow-user", "coalesce=batch", "keep=2", "l2_keep=1"), NULL,
				   STORED, before_running, act_take});
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {JOB(test_batch_sync), JOB(test_batch_copy), JOB(test_batch_cow)};

	return cases_run(argc, argv, tests, NULL, NULL);
}
