/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Turns at a GPU, taken by processes that are real, and are killed. No driver is needed: a queue has only the uuid of
 * its GPU. Whether somebody waits is read from the file of the queue, in which the number of tickets is.
 */
#include "../lib/cases.h"
#include "../lib/files.h"
#include "../lib/scratch.h"
#include "gpu/gpu.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define UUID "00112233445566778899aabbccddeeff"

static char dir[256], queue[400];
static struct kedge__gpu gpu;
static int notices;

static void count_notices(void *user, enum kedge_log_level level, const char *text)
{
	(void)user;
	notices += level == KEDGE_LOG_NOTICE && strstr(text, "do not take turns") != NULL;
}

static int setup(void **state)
{
	static const uint8_t uuid[16] = {0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77,
					 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff};

	(void)state;
	scratch_make(dir, sizeof(dir), "turn");
	text_make(queue, sizeof(queue), "%s/gpu-" UUID, dir);
	gpu = (struct kedge__gpu){.queues = dir};
	memcpy(gpu.uuid, uuid, sizeof(uuid));
	notices = 0;
	kedge_set_log(count_notices, NULL);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	kedge_set_log(NULL, NULL);
	return scratch_remove(dir);
}

/* ------------------------------------------------------------------ processes */

/* 0 in the child, which does not outlive the test. */
static pid_t start(void)
{
	pid_t parent = getpid(), pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(1);
	}
	return pid;
}

static void kill_now(pid_t pid)
{
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void ends_well(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

/* Tickets that were drawn so far. */
static uint64_t tickets(void)
{
	size_t n = 0;
	uint8_t *data = file_read(queue, &n);
	uint64_t drawn = data && n >= 8 ? kedge__get64(data) : 0;

	free(data);
	return drawn;
}

static void until_drawn(uint64_t n)
{
	while (tickets() < n)
		sched_yield();
}

struct pair {
	int read, write;
};

static struct pair pair_make(void)
{
	int fds[2];

	assert_int_equal(pipe(fds), 0);
	return (struct pair){fds[0], fds[1]};
}

static void pair_close(struct pair p)
{
	close(p.read);
	close(p.write);
}

static void put(struct pair p, int byte)
{
	uint8_t b = (uint8_t)byte;

	if (write(p.write, &b, 1) != 1)
		abort();
}

static int get(struct pair p)
{
	uint8_t b;

	return read(p.read, &b, 1) == 1 ? b : -1;
}

/* A process that takes its turn, says so by BYTE, and keeps it until it is killed, or if it does not KEEP it, gives it
 * back. It returns when that has its ticket. */
static pid_t taker(struct pair said, int byte, bool keep)
{
	uint64_t before = tickets();
	pid_t pid = start();

	if (pid == 0) {
		struct kedge__gpu_turn turn;

		kedge__gpu_turn_take(&gpu, &turn);
		put(said, turn.fd < 0 ? 255 : byte);
		while (keep)
			pause();
		kedge__gpu_turn_give(&turn);
		_exit(0);
	}
	until_drawn(before + 1);
	return pid;
}

/* ------------------------------------------------------------------ order */

static void test_order(void **state)
{
	enum { N = 8 };
	struct pair said = pair_make();
	struct kedge__gpu_turn turn;
	pid_t pids[N];

	(void)state;
	kedge__gpu_turn_take(&gpu, &turn);
	assert_true(turn.fd >= 0);
	for (int i = 0; i < N; i++)
		pids[i] = taker(said, i, false);
	put(said, 100); /* nobody has written before */
	kedge__gpu_turn_give(&turn);
	assert_int_equal(get(said), 100);
	for (int i = 0; i < N; i++)
		assert_int_equal(get(said), i);
	for (int i = 0; i < N; i++)
		ends_well(pids[i]);
	pair_close(said);
}

static void test_holder_is_killed(void **state)
{
	struct pair said = pair_make();
	pid_t holder, waiter;

	(void)state;
	for (int i = 0; i < 5; i++) {
		holder = taker(said, 1, true);
		assert_int_equal(get(said), 1);
		waiter = taker(said, 2, false);
		put(said, 100);
		assert_int_equal(get(said), 100);
		kill_now(holder);
		assert_int_equal(get(said), 2);
		ends_well(waiter);
	}
	pair_close(said);
}

/* Of eight that wait, every second one is killed; one of them is the next, and one the last. */
static void test_waiters_are_killed(void **state)
{
	enum { N = 8 };
	struct pair said = pair_make();
	struct kedge__gpu_turn turn;
	pid_t pids[N], last;

	(void)state;
	kedge__gpu_turn_take(&gpu, &turn);
	for (int i = 0; i < N; i++)
		pids[i] = taker(said, i, false);
	for (int i = 0; i < N; i++)
		if (i % 3 != 1)
			kill_now(pids[i]);
	last = taker(said, N, false);
	kedge__gpu_turn_give(&turn);
	for (int i = 1; i < N; i += 3) {
		assert_int_equal(get(said), i);
		ends_well(pids[i]);
	}
	assert_int_equal(get(said), N);
	ends_well(last);
	pair_close(said);
}

/* ------------------------------------------------------------------ one at a time */

struct shared {
	atomic_int inside; /* who is; 0: nobody */
	atomic_int count;  /* incremented in two steps */
	atomic_int wrong;
	atomic_bool doomed[64]; /* will be killed: what it leaves says nothing */
};

static struct shared *shared_make(void)
{
	struct shared *s = mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	assert_true(s != MAP_FAILED);
	return s;
}

static void turn_once(struct shared *s, struct kedge__gpu *g, int self)
{
	struct kedge__gpu_turn turn;
	int other, count;

	kedge__gpu_turn_take(g, &turn);
	other = atomic_load(&s->inside);
	if (turn.fd < 0 || (other && !atomic_load(&s->doomed[other])))
		atomic_store(&s->wrong, 1);
	atomic_store(&s->inside, self);
	count = atomic_load(&s->count);
	sched_yield();
	atomic_store(&s->count, count + 1);
	if (atomic_load(&s->inside) != self)
		atomic_store(&s->wrong, 1);
	atomic_store(&s->inside, 0);
	kedge__gpu_turn_give(&turn);
}

static void test_one_at_a_time(void **state)
{
	enum { N = 6, ROUNDS = 200 };
	struct shared *s = shared_make();
	pid_t pids[N];

	(void)state;
	for (int i = 0; i < N; i++) {
		pids[i] = start();
		if (pids[i])
			continue;
		for (int r = 0; r < ROUNDS; r++)
			turn_once(s, &gpu, i + 1);
		_exit(0);
	}
	for (int i = 0; i < N; i++)
		ends_well(pids[i]);
	assert_false(s->wrong);
	assert_int_equal(s->count, N * ROUNDS);
	munmap(s, sizeof(*s));
}

/* Some are killed wherever they happen to be, while others go on. */
static void test_kills_at_random(void **state)
{
	enum { KILLED = 40, N = 3, ROUNDS = 100 };
	struct shared *s = shared_make();
	pid_t pids[N];
	int before;

	(void)state;
	for (int i = 0; i < N; i++) {
		pids[i] = start();
		if (pids[i])
			continue;
		for (int r = 0; r < ROUNDS; r++)
			turn_once(s, &gpu, i + 1);
		_exit(0);
	}
	for (int i = 0; i < KILLED; i++) {
		pid_t pid = start();

		if (pid == 0)
			for (;;)
				turn_once(s, &gpu, N + 1 + i);
		before = s->count;
		while (s->count < before + 1 + i % 3)
			sched_yield();
		s->doomed[N + 1 + i] = true;
		kill_now(pid);
	}
	for (int i = 0; i < N; i++)
		ends_well(pids[i]);
	assert_false(s->wrong);
	munmap(s, sizeof(*s));
}

struct thread {
	pthread_t id;
	struct shared *s;
	struct kedge__gpu gpu; /* each has a handle of its own */
	int self;
};

static void *thread_run(void *arg)
{
	struct thread *t = arg;

	for (int r = 0; r < 100; r++)
		turn_once(t->s, &t->gpu, t->self);
	return NULL;
}

static void test_threads(void **state)
{
	enum { N = 4 };
	struct thread threads[N];
	struct shared *s = shared_make();

	(void)state;
	for (int i = 0; i < N; i++) {
		threads[i] = (struct thread){.s = s, .gpu = gpu, .self = i + 1};
		assert_int_equal(pthread_create(&threads[i].id, NULL, thread_run, &threads[i]), 0);
	}
	for (int i = 0; i < N; i++)
		pthread_join(threads[i].id, NULL);
	assert_false(s->wrong);
	assert_int_equal(s->count, N * 100);
	munmap(s, sizeof(*s));
}

/* ------------------------------------------------------------------ killed at every system call */

/* A process that stops at each system call, before and after. */
static pid_t traced(void)
{
	pid_t pid = start();

	if (pid == 0) {
		struct kedge__gpu_turn turn;

		if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
			_exit(77);
		raise(SIGSTOP);
		kedge__gpu_turn_take(&gpu, &turn);
		kedge__gpu_turn_give(&turn);
		_exit(0);
	}
	return pid;
}

/* Whether it came so far; then it is dead. */
static bool killed_at(int stop)
{
	pid_t pid = traced();
	int status = 0;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		skip();
	for (int i = 0; i < stop && WIFSTOPPED(status); i++) {
		assert_int_equal(ptrace(PTRACE_SYSCALL, pid, NULL, NULL), 0);
		assert_int_equal(waitpid(pid, &status, 0), pid);
	}
	if (!WIFSTOPPED(status)) {
		assert_true(WIFEXITED(status));
		assert_int_equal(WEXITSTATUS(status), 0);
		return false;
	}
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return true;
}

static void test_killed_at_every_call(void **state)
{
	int stop = 0;

	(void)state;
	while (killed_at(stop)) {
		struct kedge__gpu_turn turn;

		kedge__gpu_turn_take(&gpu, &turn);
		assert_true(turn.fd >= 0);
		kedge__gpu_turn_give(&turn);
		stop++;
	}
	assert_true(stop > 20);
	assert_int_equal(notices, 0);
}

/* ------------------------------------------------------------------ children */

/* A child lives on after its parent was killed, which had a turn. */
static void test_child_of_the_killed(void **state)
{
	struct pair said = pair_make(), hold = pair_make();
	struct kedge__gpu_turn turn;
	pid_t parent = start();

	(void)state;
	if (parent == 0) {
		kedge__gpu_turn_take(&gpu, &turn);
		if (fork() == 0) {
			close(hold.write);
			put(said, 1);
			(void)get(hold); /* until the test is over */
			_exit(0);
		}
		for (;;)
			pause();
	}
	assert_int_equal(get(said), 1);
	kill_now(parent);
	kedge__gpu_turn_take(&gpu, &turn);
	assert_true(turn.fd >= 0);
	kedge__gpu_turn_give(&turn);
	pair_close(hold);
	pair_close(said);
}

/* The turn is not the child's; it may want one of its own. */
static void test_child_waits(void **state)
{
	struct pair said = pair_make();
	struct kedge__gpu_turn turn, own;
	pid_t child;

	(void)state;
	kedge__gpu_turn_take(&gpu, &turn);
	child = start();
	if (child == 0) {
		kedge__gpu_turn_give(&turn); /* nothing */
		kedge__gpu_turn_take(&gpu, &own);
		put(said, 2);
		kedge__gpu_turn_give(&own);
		_exit(0);
	}
	until_drawn(2);
	put(said, 1);
	kedge__gpu_turn_give(&turn);
	assert_int_equal(get(said), 1);
	assert_int_equal(get(said), 2);
	ends_well(child);
	pair_close(said);
}

/* ------------------------------------------------------------------ no queue */

static void refused(const char *place)
{
	struct kedge__gpu g = gpu;
	struct kedge__gpu_turn a, b;

	notices = 0;
	g.queues = place;
	kedge__gpu_turn_take(&g, &a);
	kedge__gpu_turn_take(&g, &b); /* nobody waits */
	assert_int_equal(a.fd, -1);
	assert_int_equal(b.fd, -1);
	assert_int_equal(notices, 1);
	kedge__gpu_turn_give(&a);
	kedge__gpu_turn_give(&b);
}

static void test_no_place(void **state)
{
	char path[600];

	(void)state;
	text_make(path, sizeof(path), "%s/file", dir);
	file_write(path, "x", 1);
	refused(path);
	text_make(path, sizeof(path), "%s/file/below", dir);
	refused(path);
	text_make(path, sizeof(path), "%s/link", dir);
	assert_int_equal(symlink(dir, path), 0);
	refused(path);
	text_make(path, sizeof(path), "%s/public", dir);
	assert_int_equal(mkdir(path, 0700), 0);
	assert_int_equal(chmod(path, 0755), 0);
	refused(path);
}

static void test_failing_calls(void **state)
{
	struct kedge__gpu_turn turn;
	char spec[32];

	(void)state;
	for (int i = 1;; i++) {
		text_make(spec, sizeof(spec), "eio@%d", i);
		(void)remove(queue);
		kedge__fault_set(spec, NULL);
		gpu.queueless = false;
		notices = 0;
		kedge__gpu_turn_take(&gpu, &turn);
		kedge__gpu_turn_give(&turn);
		if (kedge__fault_count() < (uint64_t)i)
			break;
		assert_int_equal(notices, 1);
	}
	kedge__fault_set(NULL, NULL);
	assert_int_equal(notices, 0);
}

static void test_not_wanted(void **state)
{
	struct kedge__gpu_turn turn;

	(void)state;
	gpu.queues = NULL;
	kedge__gpu_turn_take(&gpu, &turn);
	kedge__gpu_turn_give(&turn);
	assert_int_equal(turn.fd, -1);
	assert_int_equal(notices, 0);
	assert_int_equal(access(queue, F_OK), -1);
}

/* It is the same whatever the environment says. */
static void test_usual_place(void **state)
{
	struct kedge__gpu_turn turn;
	char path[300];
	struct stat st;

	(void)state;
	if (access("/dev/shm", W_OK) != 0)
		skip();
	for (int i = 0; i < 4; i++)
		gpu.uuid[i] = (uint8_t)((unsigned)getpid() >> (24 - 8 * i));
	gpu.queues = "";
	kedge__gpu_turn_take(&gpu, &turn);
	assert_true(turn.fd >= 0);
	text_make(path, sizeof(path), "/dev/shm/kedge-%u/gpu-%08x445566778899aabbccddeeff", (unsigned)geteuid(),
		  (unsigned)getpid());
	assert_int_equal(stat(path, &st), 0);
	kedge__gpu_turn_give(&turn);
	assert_int_equal(unlink(path), 0);
	*strrchr(path, '/') = '\0';
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0700);
	(void)rmdir(path); /* unless a job is at work */
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    CASE(test_order),
	    CASE(test_holder_is_killed),
	    CASE(test_waiters_are_killed),
	    CASE(test_one_at_a_time),
	    CASE(test_kills_at_random),
	    CASE(test_threads),
	    CASE(test_killed_at_every_call),
	    CASE(test_child_of_the_killed),
	    CASE(test_child_waits),
	    CASE(test_no_place),
	    CASE(test_failing_calls),
	    CASE(test_not_wanted),
	    CASE(test_usual_place),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
