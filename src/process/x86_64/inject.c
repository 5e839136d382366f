/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * inject: system calls that a stopped thread makes for us.
 *
 * If this process dies, the kernel lets the target run on. So each thread that has our registers runs at code of the
 * scratch that goes on with rt_sigreturn(2) behind the call, with the stack pointer at a frame that has its own
 * registers and signals: it becomes itself again, whenever we die. This does not hold while the scratch is mapped and
 * unmapped, some ten microseconds each; there the target is killed with us.
 */
#include "process/target.h"

#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/ucontext.h>
#include <sys/wait.h>
#include <unistd.h>

#define CALL_SECONDS  60.0
#define ALL_SIGNALS   UINT64_MAX
#define SOFTWARE_AT   464 /* in the xstate of a signal frame: what the kernel wants to know about it */
#define XSTATE_MAGIC1 0x46505853u
#define XSTATE_MAGIC2 0x46505845u
#define FRAME_FLAGS   7u /* there is an xstate, and the stack segment is right */
#define ALIGN(n, to)  (((n) + (to)-1) / (to) * (to))

/* What the kernel returns inside when a call is interrupted, to begin it again. */
#define RESTART_SYS    (-512)
#define RESTART_NOINTR (-513)
#define RESTART_NOHAND (-514)
#define RESTART_BLOCK  (-516)

/* syscall; mov $15, %eax (rt_sigreturn); syscall */
static const uint8_t code[] = {0x0f, 0x05, 0xb8, 0x0f, 0x00, 0x00, 0x00, 0x0f, 0x05};
#define CODE_ROOM 64

/*
 * The same for a call that makes a process: in the child, where the result is 0, exit_group(2) comes next. It is held
 * in the call as long as we live; without us there must not be a second one of the program.
 *
 * syscall; test %eax, %eax; jz 1f; mov $15, %eax; syscall; 1: mov $231, %eax; xor %edi, %edi; syscall
 */
static const uint8_t fork_code[] = {0x0f, 0x05, 0x85, 0xc0, 0x74, 0x07, 0xb8, 0x0f, 0x00, 0x00, 0x00,
				    0x0f, 0x05, 0xb8, 0xe7, 0x00, 0x00, 0x00, 0x31, 0xff, 0x0f, 0x05};
#define FORK_AT 32

void kedge__registers_mend(struct user_regs_struct *r)
{
	static const long impatient[] = {SYS_epoll_wait, SYS_epoll_pwait, SYS_epoll_pwait2, SYS_rt_sigtimedwait,
					 SYS_semop,      SYS_semtimedop,  SYS_io_getevents};

	if ((long long)r->orig_rax < 0 || (long long)r->rax != -EINTR)
		return;
	for (size_t i = 0; i < KEDGE__COUNT(impatient); i++) {
		if ((long)r->orig_rax == impatient[i]) {
			r->rax = r->orig_rax;
			r->rip -= 2;
			r->orig_rax = UINT64_MAX;
			return;
		}
	}
}

/*
 * A sleep that is interrupted a second time is restart_syscall(2) by then, which only the kernel of this very process
 * can go on with. Which call it was is in the code before: mov $NUMBER, %eax; syscall. Where it is not, the call ends
 * with EINTR.
 */
static uint64_t call_before(struct kedge__target *t, uint64_t rip)
{
	uint8_t bytes[7];

	if (kedge__target_read(t, rip - sizeof(bytes), bytes, sizeof(bytes), NULL) != 0 || bytes[0] != 0xb8)
		return UINT64_MAX;
	return kedge__get32(bytes + 1);
}

void kedge__tracee_resume_from(struct kedge__target *t, struct kedge__tracee *x)
{
	struct user_regs_struct *r = &x->resumed;
	long long result = (long long)x->registers.rax;
	uint64_t number = x->registers.orig_rax;

	*r = x->registers;
	r->orig_rax = UINT64_MAX;
	if ((long long)number < 0 ||
	    (result != RESTART_SYS && result != RESTART_NOINTR && result != RESTART_NOHAND && result != RESTART_BLOCK))
		return;
	if (number == SYS_restart_syscall)
		number = call_before(t, r->rip);
	if (number == UINT64_MAX) {
		r->rax = (unsigned long long)-EINTR;
		return;
	}
	r->rax = number;
	r->rip -= 2;
}

/* ------------------------------------------------------------------ memory */

int kedge__target_read(struct kedge__target *t, uint64_t at, void *data, size_t bytes, struct kedge__error *err)
{
	ssize_t got = pread(t->memory, data, bytes, (off_t)at);

	if (got != (ssize_t)bytes)
		return kedge__error_set(err, KEDGE_E_STATE, got < 0 ? errno : EFAULT,
					"cannot read memory of process %d at 0x%llx", (int)t->pid,
					(unsigned long long)at);
	return 0;
}

int kedge__target_write(struct kedge__target *t, uint64_t at, const void *data, size_t bytes, struct kedge__error *err)
{
	ssize_t put = pwrite(t->memory, data, bytes, (off_t)at);

	if (put != (ssize_t)bytes)
		return kedge__error_set(err, KEDGE_E_STATE, put < 0 ? errno : EFAULT,
					"cannot write memory of process %d at 0x%llx", (int)t->pid,
					(unsigned long long)at);
	return 0;
}

int kedge__target_move(struct kedge__target *t, struct kedge__pieces *p, bool to_target, struct kedge__error *err)
{
	size_t all = 0;
	ssize_t moved = 0;
	int rc = 0;

	for (size_t i = 0; i < p->count; i++)
		all += p->local[i].iov_len;
	if (all)
		moved = (to_target ? process_vm_writev : process_vm_readv)(t->pid, p->local, p->count, p->remote,
									   p->count, 0);
	for (size_t i = 0; !rc && moved != (ssize_t)all && i < p->count; i++) {
		uint64_t at = (uint64_t)(uintptr_t)p->remote[i].iov_base;
		void *data = p->local[i].iov_base;
		size_t bytes = p->local[i].iov_len;

		rc = to_target ? kedge__target_write(t, at, data, bytes, err)
			       : kedge__target_read(t, at, data, bytes, err);
	}
	p->count = 0;
	return rc;
}

/* ------------------------------------------------------------------ calls */

static int step(struct kedge__target *t, struct kedge__tracee *x, struct kedge__error *err)
{
	int status, rc;

	for (;;) {
		unsigned long created = 0;

		if (ptrace(PTRACE_SYSCALL, x->tid, 0, 0) != 0)
			return kedge__error_set(err, KEDGE_E_STATE, errno, "thread %d cannot go on", (int)x->tid);
		rc = kedge__tracee_wait(t, x, CALL_SECONDS, &status, err);
		if (rc || WSTOPSIG(status) == (SIGTRAP | 0x80))
			return rc;
		if (status >> 16 == PTRACE_EVENT_CLONE && ptrace(PTRACE_GETEVENTMSG, x->tid, 0, &created) == 0)
			t->created = (pid_t)created;
		else if (status >> 16 == 0)
			return kedge__error_set(err, KEDGE_E_STATE, 0, "thread %d got signal %d in a call of ours",
						(int)x->tid, WSTOPSIG(status));
	}
}

int kedge__tracee_call(struct kedge__target *t, struct kedge__tracee *x, long number, const uint64_t arguments[6],
		       int64_t *result, struct kedge__error *err)
{
	struct user_regs_struct r = x->registers;
	bool moved = x->moved;
	int rc;

	r.rip = t->call;
	r.orig_rax = UINT64_MAX;
	r.rax = (unsigned long long)number;
	r.rdi = arguments[0];
	r.rsi = arguments[1];
	r.rdx = arguments[2];
	r.r10 = arguments[3];
	r.r8 = arguments[4];
	r.r9 = arguments[5];
	if (x->frame)
		r.rsp = x->frame;
	rc = kedge__tracee_set_registers(x, &r, err);
	x->moved |= !rc;
	/* Now the frame would give it its signals back. */
	if (!rc && !moved)
		rc = kedge__tracee_set_mask(x, ALL_SIGNALS, err);
	for (int i = 0; !rc && i < 2; i++)
		rc = step(t, x, err);
	if (!rc)
		rc = kedge__tracee_registers(x, &r, err);
	if (!rc)
		*result = (int64_t)r.rax;
	return rc;
}

int kedge__target_call(struct kedge__target *t, const char *what, long number, const uint64_t arguments[6],
		       int64_t *result, struct kedge__error *err)
{
	int64_t got;
	int rc = kedge__tracee_call(t, &t->threads.at[0], number, arguments, &got, err);

	if (!rc && got < 0 && got > -4096)
		return kedge__error_set(err, KEDGE_E_STATE, (int)-got, "%s", what);
	if (!rc && result)
		*result = got;
	return rc;
}

/* ------------------------------------------------------------------ frames */

static size_t frame_bytes(const struct kedge__process_thread *s)
{
	return ALIGN(sizeof(ucontext_t), 64) + ALIGN((size_t)s->xstate.bytes + 4, 64);
}

static void fill_registers(gregset_t to, const struct user_regs_struct *r)
{
	to[REG_R8] = (greg_t)r->r8;
	to[REG_R9] = (greg_t)r->r9;
	to[REG_R10] = (greg_t)r->r10;
	to[REG_R11] = (greg_t)r->r11;
	to[REG_R12] = (greg_t)r->r12;
	to[REG_R13] = (greg_t)r->r13;
	to[REG_R14] = (greg_t)r->r14;
	to[REG_R15] = (greg_t)r->r15;
	to[REG_RDI] = (greg_t)r->rdi;
	to[REG_RSI] = (greg_t)r->rsi;
	to[REG_RBP] = (greg_t)r->rbp;
	to[REG_RBX] = (greg_t)r->rbx;
	to[REG_RDX] = (greg_t)r->rdx;
	to[REG_RAX] = (greg_t)r->rax;
	to[REG_RCX] = (greg_t)r->rcx;
	to[REG_RSP] = (greg_t)r->rsp;
	to[REG_RIP] = (greg_t)r->rip;
	to[REG_EFL] = (greg_t)r->eflags;
	to[REG_CSGSFS] =
	    (greg_t)((r->cs & 0xffff) | (r->gs & 0xffff) << 16 | (r->fs & 0xffff) << 32 | (r->ss & 0xffff) << 48);
}

/* At TO, which will be at AT in the target. */
static void frame_fill(uint8_t *to, uint64_t at, const struct kedge__tracee *x, const struct kedge__process_thread *s)
{
	uint8_t *xstate = to + ALIGN(sizeof(ucontext_t), 64);
	ucontext_t *u = (ucontext_t *)to;
	uint64_t features = kedge__get64(s->xstate.data + SOFTWARE_AT);

	u->uc_flags = FRAME_FLAGS;
	u->uc_stack.ss_flags = 0x7777; /* not valid: the kernel leaves the stack for signals as it is */
	fill_registers(u->uc_mcontext.gregs, &x->resumed);
	memcpy(&u->uc_mcontext.fpregs, &(uint64_t){at + ALIGN(sizeof(ucontext_t), 64)}, 8);
	memcpy(&u->uc_sigmask, &x->mask, sizeof(x->mask));
	memcpy(xstate, s->xstate.data, (size_t)s->xstate.bytes);
	memset(xstate + SOFTWARE_AT, 0, 48);
	kedge__put32(xstate + SOFTWARE_AT, XSTATE_MAGIC1);
	kedge__put32(xstate + SOFTWARE_AT + 4, (uint32_t)s->xstate.bytes + 4);
	kedge__put64(xstate + SOFTWARE_AT + 8, features);
	kedge__put32(xstate + SOFTWARE_AT + 16, (uint32_t)s->xstate.bytes);
	kedge__put32(xstate + s->xstate.bytes, XSTATE_MAGIC2);
}

static int frames_write(struct kedge__target *t, const struct kedge__process_thread *states, struct kedge__error *err)
{
	uint8_t *all = kedge__calloc(1, t->scratch_bytes);
	uint64_t at = t->arguments + KEDGE__ARGUMENTS_BYTES;
	int rc;

	if (!all)
		return kedge__error_nomem(err);
	memcpy(all, code, sizeof(code));
	memcpy(all + FORK_AT, fork_code, sizeof(fork_code));
	for (size_t i = 0; i < t->threads.count; i++) {
		frame_fill(all + (at - t->scratch), at, &t->threads.at[i], &states[i]);
		t->threads.at[i].frame = at;
		at += frame_bytes(&states[i]);
	}
	rc = kedge__target_write(t, t->scratch, all, t->scratch_bytes, err);
	kedge__free(all);
	return rc;
}

static int map(struct kedge__target *t, int rights, int64_t *at, struct kedge__error *err)
{
	return KEDGE__CALL(t, &t->threads.at[0], at, err, SYS_mmap, 0, t->scratch_bytes, (uint64_t)rights,
			   MAP_PRIVATE | MAP_ANONYMOUS, UINT64_MAX, 0);
}

int kedge__scratch_map(struct kedge__target *t, const struct kedge__process_thread *states, struct kedge__error *err)
{
	struct kedge__tracee *leader = &t->threads.at[0];
	int64_t at = 0;
	int rc;

	t->scratch_bytes = CODE_ROOM + KEDGE__ARGUMENTS_BYTES;
	for (size_t i = 0; i < t->threads.count; i++)
		t->scratch_bytes += frame_bytes(&states[i]);
	t->scratch_bytes = ALIGN(t->scratch_bytes, KEDGE__PAGE_BYTES);
	rc = kedge__tracee_options(leader, PTRACE_O_EXITKILL, err);
	if (!rc)
		rc = map(t, PROT_READ | PROT_WRITE | PROT_EXEC, &at, err);
	if (!rc && at < 0 && at > -4096)
		rc = kedge__error_set(err, KEDGE_E_STATE, (int)-at, "cannot map memory for code in it");
	if (rc)
		return rc;
	t->scratch = (uint64_t)at;
	t->arguments = t->scratch + CODE_ROOM;
	rc = frames_write(t, states, err);
	if (rc)
		return rc;
	t->call = t->scratch;
	/* The leader stands behind a call of the vdso: its next one is at the scratch. Let it make that now. */
	rc = KEDGE__CALL(t, leader, &at, err, SYS_getpid, 0);
	return rc ? rc : kedge__tracee_options(leader, 0, err);
}

uint64_t kedge__scratch_fork_call(const struct kedge__target *t)
{
	return t->scratch + FORK_AT;
}

/* X is what it was. Its frame is in the scratch as long as it is not. */
static int give_back(struct kedge__target *t, struct kedge__tracee *x, struct kedge__error *err)
{
	int rc = kedge__tracee_settle(t, x, err);

	if (!rc)
		rc = kedge__tracee_set_mask(x, x->mask, err);
	if (!rc)
		rc = kedge__tracee_set_registers(x, &x->registers, err);
	if (!rc)
		x->moved = false;
	return rc;
}

int kedge__scratch_unmap(struct kedge__target *t, struct kedge__error *err)
{
	struct kedge__tracee *leader = &t->threads.at[0];
	int64_t result;
	int rc = 0;

	for (size_t i = 1; !rc && i < t->threads.count; i++)
		if (t->threads.at[i].moved)
			rc = give_back(t, &t->threads.at[i], err);
	if (!rc)
		rc = kedge__tracee_options(leader, PTRACE_O_EXITKILL, err);
	if (rc)
		return rc;
	for (size_t i = 0; i < t->threads.count; i++)
		t->threads.at[i].frame = 0;
	t->call = t->vdso_call;
	rc = KEDGE__CALL(t, leader, &result, err, SYS_munmap, t->scratch, t->scratch_bytes);
	if (!rc)
		rc = give_back(t, leader, err);
	return rc ? rc : kedge__tracee_options(leader, 0, err);
}
