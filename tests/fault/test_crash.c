/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A job is killed, or refused, at each of its file-system calls in turn. Whatever it had called complete must come back
 * exact, the store must be clean once it has been opened again, and the job must be able to go on.
 */
#include "../lib/cases.h"
#include "scenario.h"

#include "base/base.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct scenario scenarios[] = {
    /* Several writes a segment, in flight at once where the kernel permits it. */
    {"full",
     {"reducer=full", "codec=none", "threads=1", "journal=no", "writer=uring", "direct=yes", "buffer=128k"},
     false,
     true},
    {"tree", {"reducer=tree", "chunk=32", "block=4k", "threads=1", "journal=no"}, false, false},
    /* What is small is copied, as with capture=copy; the rest is protected, where the kernel can. */
    {"cow", {"reducer=tree", "chunk=32", "capture=cow-user", "threads=1", "journal=no"}, false, true},
    {"rex", {"reducer=rex", "block=4k", "threads=1", "journal=no"}, false, false},
    /* With a journal, and its copy on L2. */
    {"two levels", {"reducer=basic", "chunk=32", "coalesce=never", "group_size=2", "threads=1"}, true, false},
    {"keep", {"reducer=list", "chunk=32", "keep=2", "l2_keep=3", "threads=1", "journal=no"}, true, false},
    {"batches",
     {"reducer=list", "chunk=32", "l2_every=2", "keep=1", "l2_keep=1", "group_size=2", "threads=1", "journal=no"},
     true,
     false},
};

/* Run the job in a child with FAULT; *ACKED is the newest version it was told is complete. Returns the wait status. */
static int run_child(const struct scenario *s, const char *dir, const char *fault, uint64_t *acked)
{
	int ends[2], status;
	uint64_t v;
	pid_t pid;

	assert_int_equal(pipe(ends), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		close(ends[0]);
		if (kedge__fault_set(fault, NULL) != 0)
			_exit(99);
		_exit(scenario_run(s, dir, 1, ends[1]) == 0 ? 0 : 1);
	}
	close(ends[1]);
	*acked = 0;
	while (read(ends[0], &v, sizeof(v)) == sizeof(v))
		*acked = v;
	close(ends[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static uint64_t count_calls(const struct scenario *s)
{
	char *dir = scenario_directory();
	uint64_t calls;

	assert_int_equal(kedge__fault_set(NULL, NULL), 0);
	assert_int_equal(scenario_run(s, dir, 1, -1), 0);
	calls = kedge__fault_count();
	scenario_check_clean(s, dir);
	scenario_remove(dir);
	assert_true(calls > SCENARIO_VERSIONS * 6);
	return calls;
}

/* After the fault: nothing lost, nothing left, and the job goes on to its end. */
static void check_aftermath(const struct scenario *s, const char *dir, const char *fault, uint64_t acked)
{
	uint64_t found, last;

	scenario_recover(s, dir, &found);
	if (found < acked)
		fail_msg("%s, %s: version %llu was complete, %llu came back", s->name, fault, (unsigned long long)acked,
			 (unsigned long long)found);
	scenario_check_clean(s, dir);
	assert_int_equal(scenario_run(s, dir, found + 1, -1), 0);
	scenario_recover(s, dir, &last);
	assert_int_equal(last, SCENARIO_VERSIONS);
	scenario_check_clean(s, dir);
}

/* STEP thins out the calls: every one in the plain build, fewer where a sanitizer makes each run slow. */
static void each_call(const char *action, const char *suffix, bool kills, uint64_t step)
{
	for (size_t i = 0; i < sizeof(scenarios) / sizeof(scenarios[0]); i++) {
		const struct scenario *s = &scenarios[i];
		uint64_t calls = count_calls(s);

		for (uint64_t n = 1; n <= calls; n += step) {
			char *dir = scenario_directory(), fault[64];
			uint64_t acked;
			int status;

			snprintf(fault, sizeof(fault), "%s@%llu%s", action, (unsigned long long)n, suffix);
			status = run_child(s, dir, fault, &acked);
			if (kills && !(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) && n + 8 < calls)
				fail_msg("%s, %s: the job was not killed", s->name, fault);
			check_aftermath(s, dir, fault, acked);
			scenario_remove(dir);
		}
	}
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define STEP 13
#else
#define STEP 1
#endif

static void test_kill_before_each_call(void **state)
{
	(void)state;
	each_call("kill", "", true, STEP);
}

static void test_kill_in_the_middle_of_each_write(void **state)
{
	(void)state;
	each_call("cut", "", true, STEP);
}

static void test_error_at_each_call(void **state)
{
	(void)state;
	each_call("eio", "", false, STEP);
}

static void test_full_disk_from_each_call_on(void **state)
{
	(void)state;
	each_call("enospc", "+", false, STEP * 3);
}

static void test_short_write_at_each_call(void **state)
{
	(void)state;
	each_call("short", "", false, STEP * 3);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_kill_before_each_call),    cmocka_unit_test(test_kill_in_the_middle_of_each_write),
	    cmocka_unit_test(test_error_at_each_call),       cmocka_unit_test(test_full_disk_from_each_call_on),
	    cmocka_unit_test(test_short_write_at_each_call),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
