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

#define CALLS_MOST 4096

/* Of a scenario: whether the N-th call is a write, from the test of short ones on. */
static bool is_write[sizeof(scenarios) / sizeof(scenarios[0])][CALLS_MOST];

struct outcome {
	int status;     /* as wait() has it */
	uint64_t acked; /* the newest version that it was told is complete */
	uint64_t calls; /* that it made, if it lived to say so */
};

/* After the versions, as large as none of them. */
#define CALLS(n) (UINT64_MAX - (n))

/* Run the job in a child with FAULT. */
static struct outcome run_child(const struct scenario *s, const char *dir, const char *fault)
{
	struct outcome out = {0};
	uint64_t v, calls;
	int ends[2], rc;
	pid_t pid;

	assert_int_equal(pipe(ends), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		close(ends[0]);
		if (kedge__fault_set(fault, NULL) != 0)
			_exit(99);
		rc = scenario_run(s, dir, 1, ends[1]);
		calls = CALLS(kedge__fault_count());
		_exit(rc == 0 && write(ends[1], &calls, sizeof(calls)) == sizeof(calls) ? 0 : 1);
	}
	close(ends[1]);
	while (read(ends[0], &v, sizeof(v)) == sizeof(v)) {
		if (v > SCENARIO_VERSIONS)
			out.calls = CALLS(v);
		else
			out.acked = v;
	}
	close(ends[0]);
	assert_int_equal(waitpid(pid, &out.status, 0), pid);
	return out;
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
	assert_true(calls > SCENARIO_VERSIONS * 6 && calls < CALLS_MOST);
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
	if (found == SCENARIO_VERSIONS)
		return;
	assert_int_equal(scenario_run(s, dir, found + 1, -1), 0);
	scenario_recover(s, dir, &last);
	assert_int_equal(last, SCENARIO_VERSIONS);
	scenario_check_clean(s, dir);
}

/* Which calls a fault comes to, and what it is. STEP thins them out: every one in the plain build, fewer where a
 * sanitizer makes each run slow. */
struct faults {
	const char *action, *suffix;
	uint64_t step;
	bool kills;
	bool writes_alone; /* where is_write[] says so: to any other call it is a kill */
	bool finds_writes; /* of a short write the rest is written, by one call more; any other call it leaves as it is
			    */
};

static void one_call(const struct faults *f, size_t i, uint64_t n, uint64_t calls)
{
	char *dir = scenario_directory(), fault[64];
	struct outcome out;

	snprintf(fault, sizeof(fault), "%s@%llu%s", f->action, (unsigned long long)n, f->suffix);
	out = run_child(&scenarios[i], dir, fault);
	if (f->kills && !(WIFSIGNALED(out.status) && WTERMSIG(out.status) == SIGKILL) && n + 8 < calls)
		fail_msg("%s, %s: the job was not killed", scenarios[i].name, fault);
	if (f->finds_writes)
		is_write[i][n] = out.status || out.calls != calls;
	if (!f->finds_writes || is_write[i][n])
		check_aftermath(&scenarios[i], dir, fault, out.acked);
	scenario_remove(dir);
}

static void each_call(const struct faults *f)
{
	for (size_t i = 0; i < sizeof(scenarios) / sizeof(scenarios[0]); i++) {
		uint64_t calls = count_calls(&scenarios[i]);
		size_t writes = 0;

		for (uint64_t n = 1; n <= calls; n += f->step) {
			if (!f->writes_alone || is_write[i][n])
				one_call(f, i, n, calls);
			writes += is_write[i][n];
		}
		assert_true(!f->finds_writes || writes * f->step >= SCENARIO_VERSIONS);
	}
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { KILLS = 29, ERRORS = 19, FULL = 59, WRITES = 13 };
#else
enum { KILLS = 1, ERRORS = 2, FULL = 6, WRITES = 2 };
#endif

static void test_kill_before_each_call(void **state)
{
	(void)state;
	each_call(&(struct faults){.action = "kill", .suffix = "", .step = KILLS, .kills = true});
}

static void test_error_at_each_call(void **state)
{
	(void)state;
	each_call(&(struct faults){.action = "eio", .suffix = "", .step = ERRORS});
}

static void test_full_disk_from_each_call_on(void **state)
{
	(void)state;
	each_call(&(struct faults){.action = "enospc", .suffix = "+", .step = FULL});
}

static void test_short_and_cut_at_each_write(void **state)
{
	(void)state;
	each_call(&(struct faults){.action = "short", .suffix = "", .step = WRITES, .finds_writes = true});
	each_call(&(struct faults){.action = "cut", .suffix = "", .step = WRITES, .kills = true, .writes_alone = true});
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_kill_before_each_call),
	    cmocka_unit_test(test_error_at_each_call),
	    cmocka_unit_test(test_full_disk_from_each_call_on),
	    cmocka_unit_test(test_short_and_cut_at_each_write),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
