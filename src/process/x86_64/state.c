/* SPDX-License-Identifier: BSD-3-Clause */
/* state: registers, signals, timers and the rest of what a stopped process is, beside its memory and its files. */
#include "process/target.h"

#include <elf.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#define XSTATE_MOST   ((size_t)16384)
#define SIGNALS       64
#define XCR0_AT       464 /* in what NT_X86_XSTATE gives */
#define PEEK_COUNT    32
#define CPU_BYTES     1024
#define KERNEL_ACTION 32 /* bytes of the kernel's struct sigaction */

_Static_assert(sizeof(struct user_regs_struct) == KEDGE__PROCESS_REGISTERS * 8, "registers");
_Static_assert(sizeof(siginfo_t) == KEDGE__PROCESS_SIGINFO, "siginfo");

/* ------------------------------------------------------------------ from outside */

static int read_pending(struct kedge__tracee *x, bool shared, struct kedge__process_blob *out, struct kedge__error *err)
{
	struct __ptrace_peeksiginfo_args args = {.flags = shared ? PTRACE_PEEKSIGINFO_SHARED : 0, .nr = PEEK_COUNT};
	siginfo_t list[PEEK_COUNT];
	KEDGE__ARRAY(uint8_t) all = {0};
	long got;

	while ((got = ptrace(PTRACE_PEEKSIGINFO, x->tid, &args, list)) > 0) {
		size_t bytes = (size_t)got * sizeof(siginfo_t);

		if (!kedge__array_reserve(&all, all.count + bytes)) {
			kedge__array_done(&all);
			return kedge__error_nomem(err);
		}
		memcpy(all.at + all.count, list, bytes);
		all.count += bytes;
		args.off += (unsigned long)got;
	}
	out->data = all.at;
	out->bytes = all.count;
	return got < 0
		   ? kedge__error_set(err, KEDGE_E_STATE, errno, "cannot read the signals of thread %d", (int)x->tid)
		   : 0;
}

static int read_xstate(struct kedge__tracee *x, struct kedge__process_blob *out, struct kedge__error *err)
{
	uint8_t *room = kedge__malloc(XSTATE_MOST);
	struct iovec io = {room, XSTATE_MOST};

	if (!room)
		return kedge__error_nomem(err);
	if (ptrace(PTRACE_GETREGSET, x->tid, NT_X86_XSTATE, &io) != 0 || io.iov_len == XSTATE_MOST) {
		kedge__free(room);
		return kedge__error_set(err, KEDGE_E_STATE, errno, "cannot read the vector registers of thread %d",
					(int)x->tid);
	}
	out->data = room;
	out->bytes = io.iov_len;
	return 0;
}

static void read_rseq(struct kedge__tracee *x, struct kedge__process_thread *s)
{
	struct __ptrace_rseq_configuration config = {0};

	if (ptrace(PTRACE_GET_RSEQ_CONFIGURATION, x->tid, sizeof(config), &config) < 0 || !config.rseq_abi_pointer)
		return;
	s->rseq_at = config.rseq_abi_pointer;
	s->rseq_bytes = config.rseq_abi_size;
	s->rseq_signature = config.signature;
}

static int read_cpus(struct kedge__tracee *x, struct kedge__process_blob *out, struct kedge__error *err)
{
	uint8_t cpus[CPU_BYTES];
	long got = syscall(SYS_sched_getaffinity, x->tid, sizeof(cpus), cpus);

	if (got > 0 && !kedge__blob_set(out, cpus, (size_t)got))
		return kedge__error_nomem(err);
	return 0;
}

/* What the thread's own files in /proc say: its id where it lives, and its name. */
static int read_status(struct kedge__target *t, struct kedge__tracee *x, struct kedge__process_thread *s,
		       struct kedge__error *err)
{
	char name[KEDGE__PATH_ROOM], *text, *end;
	const char *ids;
	int rc;

	snprintf(name, sizeof(name), "task/%d/status", (int)x->tid);
	rc = kedge__proc_read(t->pid, name, &text, NULL, err);
	if (rc)
		return rc;
	ids = kedge__proc_field(text, "NSpid");
	for (s->id = (uint32_t)x->tid; ids && *ids && *ids != '\n'; ids = end) {
		unsigned long id = strtoul(ids, &end, 10);

		if (end == ids)
			break;
		s->id = (uint32_t)id;
	}
	kedge__free(text);
	snprintf(name, sizeof(name), "task/%d/comm", (int)x->tid);
	rc = kedge__proc_read(t->pid, name, &s->name, NULL, err);
	if (!rc && *s->name)
		s->name[strlen(s->name) - 1] = '\0';
	return rc;
}

static int read_thread(struct kedge__target *t, struct kedge__tracee *x, struct kedge__process_thread *s,
		       struct kedge__error *err)
{
	int rc = kedge__tracee_registers(x, &x->registers, err);
	void *robust = NULL;
	size_t robust_bytes = 0;

	if (!rc && ptrace(PTRACE_GETSIGMASK, x->tid, sizeof(x->mask), &x->mask) != 0)
		rc = kedge__error_set(err, KEDGE_E_STATE, errno, "cannot read the signals of thread %d", (int)x->tid);
	if (!rc && x->registers.cs != 0x33)
		rc = kedge__error_set(err, KEDGE_E_STATE, 0, "thread %d runs 32-bit code", (int)x->tid);
	if (!rc)
		rc = read_xstate(x, &s->xstate, err);
	if (!rc)
		rc = read_pending(x, false, &s->pending, err);
	if (!rc)
		rc = read_cpus(x, &s->cpus, err);
	if (!rc)
		rc = read_status(t, x, s, err);
	if (rc)
		return rc;
	kedge__registers_mend(&x->registers);
	kedge__tracee_resume_from(t, x);
	memcpy(s->registers, &x->resumed, sizeof(x->resumed));
	s->mask = x->mask;
	read_rseq(x, s);
	if (syscall(SYS_get_robust_list, x->tid, &robust, &robust_bytes) == 0) {
		s->robust_at = (uint64_t)(uintptr_t)robust;
		s->robust_bytes = robust_bytes;
	}
	errno = 0;
	s->nice = (uint64_t)(int64_t)getpriority(PRIO_PROCESS, (id_t)x->tid);
	return 0;
}

/* ------------------------------------------------------------------ by injections */

static int ask_thread(struct kedge__target *t, struct kedge__tracee *x, struct kedge__process_thread *s,
		      struct kedge__error *err)
{
	stack_t stack;
	int64_t result;
	int rc = KEDGE__CALL(t, x, &result, err, SYS_sigaltstack, 0, t->arguments);

	if (!rc && result == 0)
		rc = kedge__target_read(t, t->arguments, &stack, sizeof(stack), err);
	if (!rc && result == 0) {
		s->stack_at = (uint64_t)(uintptr_t)stack.ss_sp;
		s->stack_bytes = stack.ss_size;
		/* Being on it is no property that can be set. */
		s->stack_flags = (uint32_t)stack.ss_flags & ~(uint32_t)SS_ONSTACK;
	}
	if (!rc)
		rc = KEDGE__CALL(t, x, &result, err, SYS_prctl, PR_GET_TID_ADDRESS, t->arguments);
	if (!rc && result == 0)
		rc = kedge__target_read(t, t->arguments, &s->clear_id, sizeof(s->clear_id), err);
	if (!rc && result != 0)
		rc = kedge__error_set(err, KEDGE_E_STATE, 0, "this kernel has no CONFIG_CHECKPOINT_RESTORE");
	return rc;
}

/* The signals that are caught or ignored; the others have their defaults. */
static uint64_t changed_signals(const char *status)
{
	const char *ignored = kedge__proc_field(status, "SigIgn"), *caught = kedge__proc_field(status, "SigCgt");

	return (ignored ? strtoull(ignored, NULL, 16) : 0) | (caught ? strtoull(caught, NULL, 16) : 0);
}

static int ask_actions(struct kedge__target *t, uint64_t signals, struct kedge__process_image *image,
		       struct kedge__error *err)
{
	int rc = 0;

	for (unsigned sig = 1; !rc && sig <= SIGNALS; sig++) {
		uint64_t raw[KERNEL_ACTION / 8];
		struct kedge__process_action a;

		if (!(signals >> (sig - 1) & 1))
			continue;
		rc = KEDGE__LEADER_CALL(t, "cannot read how it treats signals", NULL, err, SYS_rt_sigaction, sig, 0,
					t->arguments, 8);
		if (!rc)
			rc = kedge__target_read(t, t->arguments, raw, sizeof(raw), err);
		a = (struct kedge__process_action){sig, raw[0], raw[1], raw[2], raw[3]};
		if (!rc && !kedge__array_push(&image->actions, a))
			rc = kedge__error_nomem(err);
	}
	return rc;
}

static int ask_timers(struct kedge__target *t, struct kedge__process_image *image, struct kedge__error *err)
{
	int rc = 0;

	for (unsigned i = 0; !rc && i < 3; i++) {
		uint64_t *timer = image->timers + 4 * i;

		rc = KEDGE__LEADER_CALL(t, "cannot read its timers", NULL, err, SYS_getitimer, i, t->arguments);
		if (!rc)
			rc = kedge__target_read(t, t->arguments, timer, 4 * sizeof(*timer), err);
		/* One that has just run out, and is about to begin again. */
		if (!rc && (timer[0] || timer[1]) && !timer[2] && !timer[3])
			timer[3] = 1;
	}
	return rc;
}

static int ask_all(struct kedge__target *t, uint64_t signals, struct kedge__process_image *image,
		   struct kedge__error *err)
{
	int64_t brk;
	int rc = KEDGE__LEADER_CALL(t, "cannot ask for the end of its heap", &brk, err, SYS_brk, 0);

	if (!rc)
		image->mm[5] = (uint64_t)brk;
	if (!rc)
		rc = ask_timers(t, image, err);
	if (!rc)
		rc = ask_actions(t, signals, image, err);
	for (size_t i = 0; !rc && i < t->threads.count; i++)
		rc = ask_thread(t, &t->threads.at[i], &image->threads.at[i], err);
	return rc;
}

/* ------------------------------------------------------------------ the process */

/* The addresses of struct prctl_mm_map, all but brk, from /proc/PID/stat. */
static int read_mm(struct kedge__target *t, struct kedge__process_image *image, struct kedge__error *err)
{
	/* Fields 26 to 28 and 45 to 51, in the order of the struct. */
	static const int fields[] = {26, 27, 45, 46, 47, 0, 28, 48, 49, 50, 51};
	char *text, *at;
	int rc = kedge__proc_read(t->pid, "stat", &text, NULL, err);

	if (rc)
		return rc;
	at = strrchr(text, ')');
	for (int field = 3; at && (at = strchr(at, ' ')); field++) {
		uint64_t value = strtoull(++at, NULL, 10);

		for (size_t i = 0; i < KEDGE__COUNT(fields); i++)
			if (fields[i] == field)
				image->mm[i] = value;
		if (field == 22)
			image->started = value;
	}
	kedge__free(text);
	return 0;
}

static int read_process(struct kedge__target *t, struct kedge__process_image *image, struct kedge__error *err)
{
	struct timespec now;
	struct utsname host;
	char *text = NULL;
	size_t bytes;
	int rc = kedge__proc_read(t->pid, "auxv", &text, &bytes, err);

	if (rc)
		return rc;
	image->auxv = (struct kedge__process_blob){(uint8_t *)text, bytes};
	rc = kedge__proc_read(t->pid, "cmdline", &text, &bytes, err);
	if (rc)
		return rc;
	image->command = (struct kedge__process_blob){(uint8_t *)text, bytes};
	rc = kedge__proc_read(t->pid, "personality", &text, NULL, err);
	if (rc)
		return rc;
	image->personality = strtoull(text, NULL, 16);
	kedge__free(text);
	for (int i = 0; i < KEDGE__PROCESS_LIMITS; i++) {
		struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};

		prlimit(t->pid, (enum __rlimit_resource)i, NULL, &limit);
		image->limits[2 * i] = limit.rlim_cur;
		image->limits[2 * i + 1] = limit.rlim_max;
	}
	uname(&host);
	clock_gettime(CLOCK_MONOTONIC, &now);
	image->monotonic_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
	image->release = kedge__strdup(host.release);
	image->boot = kedge__process_boot();
	image->uid = geteuid();
	image->pid = (uint64_t)t->pid;
	kedge__cpu_features(image->features);
	return image->release && image->boot ? 0 : kedge__error_nomem(err);
}

int kedge__target_threads(struct kedge__target *t, struct kedge__process_image *image, struct kedge__error *err)
{
	int rc = 0;

	for (size_t i = 0; !rc && i < t->threads.count; i++) {
		struct kedge__process_thread s = {0};

		if (!kedge__array_push(&image->threads, s))
			return kedge__error_nomem(err);
		rc = read_thread(t, &t->threads.at[i], &image->threads.at[i], err);
	}
	if (!rc)
		image->xcr0 = kedge__get64(image->threads.at[0].xstate.data + XCR0_AT);
	return rc ? rc : read_pending(&t->threads.at[0], true, &image->pending, err);
}

int kedge__target_state(struct kedge__target *t, struct kedge__process_image *image, struct kedge__error *err)
{
	const char *mask;
	char *status;
	int rc = kedge__proc_read(t->pid, "status", &status, NULL, err);

	if (rc)
		return rc;
	mask = kedge__proc_field(status, "Umask");
	image->umask = mask ? strtoull(mask, NULL, 8) : 022;
	rc = read_process(t, image, err);
	if (!rc)
		rc = kedge__proc_link(t->pid, "cwd", &image->cwd, err);
	if (!rc)
		rc = read_mm(t, image, err);
	if (!rc)
		rc = kedge__target_threads(t, image, err);
	if (!rc)
		rc = kedge__scratch_map(t, image->threads.at, err);
	if (!rc)
		rc = ask_all(t, changed_signals(status), image, err);
	if (!rc && t->wants_still)
		rc = kedge__still_make(t, err);
	if (!rc)
		rc = kedge__scratch_unmap(t, err);
	kedge__free(status);
	return rc;
}
