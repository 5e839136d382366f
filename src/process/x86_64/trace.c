/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * trace: stop and release the threads of a process.
 *
 * Threads are waited for one by one, and never for ever: of a process that is killed meanwhile, the leader's end is not
 * reported before the ends of the others have been taken.
 */
#include "process/target.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define STOP_SECONDS 2.0  /* to wait for a thread that sleeps uninterruptibly */
#define CALL_SECONDS 60.0 /* the machine may be busy */
#define END_SECONDS  30.0 /* until a thread that was killed has ended */
#define EAGER_TURNS  400
#define OPTIONS      PTRACE_O_TRACESYSGOOD

static int gone(struct kedge__target *t, struct kedge__tracee *x, int status, struct kedge__error *err)
{
	x->gone = true;
	x->stopped = false;
	if (x->tid == t->pid && !t->ended) {
		t->ended = true;
		t->status = status;
	}
	return kedge__error_set(err, KEDGE_E_STATE, 0, "thread %d ended meanwhile", (int)x->tid);
}

/* Take the ends of threads other than X: some of them may have to be taken before X's is reported. */
static void take_ends(struct kedge__target *t, const struct kedge__tracee *x)
{
	for (size_t i = 0; i < t->threads.count; i++) {
		struct kedge__tracee *y = &t->threads.at[i];
		siginfo_t info = {0};
		int status;

		if (y == x || y->gone || waitid(P_PID, (id_t)y->tid, &info, WEXITED | WNOHANG | WNOWAIT | __WALL) != 0)
			continue;
		if ((info.si_code == CLD_EXITED || info.si_code == CLD_KILLED || info.si_code == CLD_DUMPED) &&
		    waitpid(y->tid, &status, WNOHANG | __WALL) == y->tid)
			gone(t, y, status, NULL);
	}
}

int kedge__tracee_wait(struct kedge__target *t, struct kedge__tracee *x, double seconds, int *status,
		       struct kedge__error *err)
{
	const struct timespec pause = {0, 100000};
	double deadline = kedge__clock_seconds() + seconds;

	x->stopped = false;
	for (unsigned turn = 0;; turn++) {
		pid_t got = waitpid(x->tid, status, WNOHANG | __WALL);

		if (got == x->tid && WIFSTOPPED(*status)) {
			x->stopped = true;
			return 0;
		}
		if (got == x->tid)
			return gone(t, x, *status, err);
		if (got < 0 && errno == ECHILD)
			return gone(t, x, 0, err);
		if (turn < EAGER_TURNS) {
			sched_yield();
			continue;
		}
		take_ends(t, x);
		if (kedge__clock_seconds() > deadline)
			return kedge__error_set(
			    err, KEDGE_E_STATE, 0,
			    "thread %d does not stop: it waits for a device, or for a process that it has just started",
			    (int)x->tid);
		nanosleep(&pause, NULL);
	}
}

static int tracer_of(pid_t tid)
{
	const char *value;
	char *status;
	int tracer;

	if (kedge__proc_read(tid, "status", &status, NULL, NULL) != 0)
		return 0;
	value = kedge__proc_field(status, "TracerPid");
	tracer = value ? atoi(value) : 0;
	kedge__free(status);
	return tracer;
}

static int seize(struct kedge__target *t, pid_t tid, struct kedge__error *err)
{
	struct kedge__tracee x = {.tid = tid};
	int tracer;

	if (ptrace(PTRACE_SEIZE, tid, 0, OPTIONS) != 0) {
		int failed = errno;

		if (failed == ESRCH)
			return 0;
		tracer = tracer_of(tid);
		if (tracer && tracer != getpid())
			return kedge__error_set(err, KEDGE_E_STATE, 0, "process %d traces it: a debugger, or strace",
						tracer);
		if (!tracer)
			return kedge__error_set(err, KEDGE_E_STATE, failed,
						"the kernel does not let it be traced (a set-user-id program, "
						"PR_SET_DUMPABLE, or kernel.yama.ptrace_scope above 1)");
	}
	if (!kedge__array_push(&t->threads, x)) {
		ptrace(PTRACE_INTERRUPT, tid, 0, 0);
		return kedge__error_nomem(err);
	}
	ptrace(PTRACE_INTERRUPT, tid, 0, 0);
	return 0;
}

struct listing {
	struct kedge__target *t;
	bool more;
};

static int list_thread(void *ctx, unsigned long tid, struct kedge__error *err)
{
	struct listing *l = ctx;

	for (size_t i = 0; i < l->t->threads.count; i++)
		if (l->t->threads.at[i].tid == (pid_t)tid)
			return 0;
	l->more = true;
	return seize(l->t, (pid_t)tid, err);
}

/* Signals that come first are passed on. */
static int await_stop(struct kedge__target *t, struct kedge__tracee *x, struct kedge__error *err)
{
	int status, rc;

	for (;;) {
		rc = kedge__tracee_wait(t, x, STOP_SECONDS, &status, err);
		if (rc)
			return rc;
		if (status >> 16 == PTRACE_EVENT_STOP) {
			if (WSTOPSIG(status) == SIGTRAP)
				return 0;
			return kedge__error_set(err, KEDGE_E_STATE, 0, "it is stopped by signal %d", WSTOPSIG(status));
		}
		ptrace(PTRACE_CONT, x->tid, 0, status >> 16 ? 0 : WSTOPSIG(status));
		ptrace(PTRACE_INTERRUPT, x->tid, 0, 0);
	}
}

static int stop_all(struct kedge__target *t, struct kedge__error *err)
{
	struct listing l = {t, true};
	int rc = 0;

	while (!rc && l.more) {
		l.more = false;
		rc = kedge__proc_numbers(t->pid, "task", list_thread, &l, err);
		for (size_t i = 0; !rc && i < t->threads.count; i++) {
			struct kedge__tracee *x = &t->threads.at[i];

			if (x->stopped || x->gone)
				continue;
			rc = await_stop(t, x, err);
			if (rc && x->gone && x->tid != t->pid)
				rc = 0; /* a thread that ended by itself */
		}
	}
	return rc;
}

/* The leader comes first, and nobody who is gone is left. */
static int put_in_order(struct kedge__target *t, struct kedge__error *err)
{
	size_t n = 0;

	for (size_t i = 0; i < t->threads.count; i++)
		if (!t->threads.at[i].gone)
			t->threads.at[n++] = t->threads.at[i];
	t->threads.count = n;
	for (size_t i = 0; i < n; i++) {
		if (t->threads.at[i].tid == t->pid) {
			struct kedge__tracee leader = t->threads.at[i];

			t->threads.at[i] = t->threads.at[0];
			t->threads.at[0] = leader;
			return 0;
		}
	}
	return kedge__error_set(err, KEDGE_E_STATE, 0, "its first thread has ended");
}

int kedge__target_open(struct kedge__target *t, struct kedge__error *err)
{
	char path[KEDGE__PATH_ROOM];

	snprintf(path, sizeof(path), "/proc/%d/mem", (int)t->pid);
	if (t->memory < 0)
		t->memory = open(path, O_RDWR | O_CLOEXEC);
	return t->memory < 0 ? kedge__error_set(err, KEDGE_E_STATE, errno, "cannot open %s", path) : 0;
}

int kedge__target_stop(struct kedge__target *t, struct kedge__error *err)
{
	int rc = kedge__target_open(t, err);

	t->stopped_at = kedge__clock_seconds();
	if (!rc)
		rc = stop_all(t, err);
	if (!rc)
		rc = put_in_order(t, err);
	return rc;
}

/* A thread that cannot be let go was killed: then its end has to be taken. */
static void let_go(struct kedge__target *t, struct kedge__tracee *x)
{
	double deadline = kedge__clock_seconds() + END_SECONDS;
	int status;

	while (!x->gone && kedge__clock_seconds() < deadline) {
		if (!x->stopped && kedge__tracee_wait(t, x, STOP_SECONDS, &status, NULL) != 0)
			continue;
		if (ptrace(PTRACE_DETACH, x->tid, 0, 0) == 0)
			return;
		x->stopped = false;
	}
}

void kedge__target_release(struct kedge__target *t)
{
	bool lost = false;

	for (size_t i = 0; i < t->threads.count; i++)
		lost |= t->threads.at[i].moved && !t->threads.at[i].frame;
	if (lost)
		kill(t->pid, SIGKILL);
	/* Of a process that was killed, the end of the leader is reported last. */
	for (size_t i = t->threads.count; i-- > 0;)
		let_go(t, &t->threads.at[i]);
	t->stood += t->threads.count ? kedge__clock_seconds() - t->stopped_at : 0;
	t->threads.count = 0;
}

void kedge__target_done(struct kedge__target *t)
{
	if (t->memory >= 0)
		close(t->memory);
	t->memory = -1;
	kedge__array_done(&t->threads);
}

/* ------------------------------------------------------------------ one thread */

int kedge__tracee_registers(struct kedge__tracee *x, struct user_regs_struct *out, struct kedge__error *err)
{
	struct iovec io = {out, sizeof(*out)};

	if (ptrace(PTRACE_GETREGSET, x->tid, NT_PRSTATUS, &io) != 0)
		return kedge__error_set(err, KEDGE_E_STATE, errno, "cannot read the registers of thread %d",
					(int)x->tid);
	return 0;
}

int kedge__tracee_set_registers(struct kedge__tracee *x, const struct user_regs_struct *in, struct kedge__error *err)
{
	struct iovec io = {(void *)in, sizeof(*in)};

	if (ptrace(PTRACE_SETREGSET, x->tid, NT_PRSTATUS, &io) != 0)
		return kedge__error_set(err, KEDGE_E_STATE, errno, "cannot set the registers of thread %d",
					(int)x->tid);
	return 0;
}

int kedge__tracee_set_mask(struct kedge__tracee *x, uint64_t mask, struct kedge__error *err)
{
	if (ptrace(PTRACE_SETSIGMASK, x->tid, sizeof(mask), &mask) != 0)
		return kedge__error_set(err, KEDGE_E_STATE, errno, "cannot set the signals of thread %d", (int)x->tid);
	return 0;
}

int kedge__tracee_settle(struct kedge__target *t, struct kedge__tracee *x, struct kedge__error *err)
{
	int status, rc;

	for (;;) {
		ptrace(PTRACE_INTERRUPT, x->tid, 0, 0);
		if (ptrace(PTRACE_CONT, x->tid, 0, 0) != 0)
			return kedge__error_set(err, KEDGE_E_STATE, errno, "thread %d cannot go on", (int)x->tid);
		rc = kedge__tracee_wait(t, x, CALL_SECONDS, &status, err);
		if (rc || status >> 16 == PTRACE_EVENT_STOP)
			return rc;
	}
}

int kedge__tracee_options(struct kedge__tracee *x, long more, struct kedge__error *err)
{
	if (ptrace(PTRACE_SETOPTIONS, x->tid, 0, OPTIONS | more) != 0)
		return kedge__error_set(err, KEDGE_E_STATE, errno, "cannot trace thread %d", (int)x->tid);
	return 0;
}

int kedge__target_find_call(struct kedge__target *t, uint64_t vdso, size_t bytes, struct kedge__error *err)
{
	uint8_t *code = kedge__malloc(bytes);
	int rc = code ? kedge__target_read(t, vdso, code, bytes, err) : kedge__error_nomem(err);

	t->vdso_call = 0;
	for (size_t i = 0; !rc && !t->vdso_call && i + 1 < bytes; i++)
		if (code[i] == 0x0f && code[i + 1] == 0x05)
			t->vdso_call = vdso + i;
	kedge__free(code);
	if (!rc && !t->vdso_call)
		rc =
		    kedge__error_set(err, KEDGE_E_STATE, 0, "the kernel's page of functions (vdso) has no system call");
	t->call = t->vdso_call;
	return rc;
}
