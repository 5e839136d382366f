/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Dispositions of signals belong to the process, so the list of who wants faults does too. It is read in the handler
 * without a lock: a slot's function is set last and cleared first, and removal waits until no handler is at work.
 */
#include "capture/tracker_signal.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <ucontext.h>

#define SLOTS 16

static struct {
	pthread_mutex_t lock; /* of add and remove */
	size_t used;
	struct sigaction before;
	atomic_int inside;
	struct {
		_Atomic(kedge__fault_fn) fn;
		_Atomic(void *) ctx;
	} slots[SLOTS];
} registry = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Where this thread was last told to try again. Initial-exec: the first access must not allocate. */
static _Thread_local uintptr_t tried __attribute__((tls_model("initial-exec")));

static void pass_on(int number, siginfo_t *info, void *context)
{
	const struct sigaction *before = &registry.before;
	sigset_t mask;

	if (!(before->sa_flags & SA_SIGINFO) && (before->sa_handler == SIG_DFL || before->sa_handler == SIG_IGN)) {
		struct sigaction plain = {.sa_handler = SIG_DFL};

		/* The access is repeated after the return, and ends the process as it would have without us. */
		sigaction(number, &plain, NULL);
		return;
	}
	/* As if we were not between: the mask that the thread had, and the one asked for. SIGSEGV stays open, for the
	 * handler may itself write to tracked memory. */
	sigorset(&mask, &((ucontext_t *)context)->uc_sigmask, &before->sa_mask);
	sigdelset(&mask, SIGSEGV);
	pthread_sigmask(SIG_SETMASK, &mask, NULL);
	if (before->sa_flags & SA_SIGINFO)
		before->sa_sigaction(number, info, context);
	else
		before->sa_handler(number);
}

static enum kedge__fault_verdict verdict_of(enum kedge__fault_verdict a, enum kedge__fault_verdict b)
{
	return KEDGE__MAX(a, b);
}

static enum kedge__fault_verdict ask_all(uintptr_t address)
{
	enum kedge__fault_verdict verdict = KEDGE__FAULT_FOREIGN;

	for (size_t i = 0; i < SLOTS && verdict != KEDGE__FAULT_DONE; i++) {
		kedge__fault_fn fn = atomic_load(&registry.slots[i].fn);

		if (fn)
			verdict = verdict_of(verdict, fn(atomic_load(&registry.slots[i].ctx), address));
	}
	return verdict;
}

static void on_signal(int number, siginfo_t *info, void *context)
{
	uintptr_t address = (uintptr_t)info->si_addr;
	enum kedge__fault_verdict verdict = KEDGE__FAULT_FOREIGN;
	int saved = errno;

	if (info->si_code == SEGV_ACCERR) {
		atomic_fetch_add(&registry.inside, 1);
		verdict = ask_all(address);
		atomic_fetch_sub(&registry.inside, 1);
	}
	if (verdict == KEDGE__FAULT_STALE && tried == address)
		verdict = KEDGE__FAULT_FOREIGN;
	tried = verdict == KEDGE__FAULT_STALE ? address : 0;
	errno = saved;
	if (verdict == KEDGE__FAULT_FOREIGN)
		pass_on(number, info, context);
}

static int install(struct kedge__error *err)
{
	/* On the alternate stack where a thread has one: its own may be what is protected. */
	struct sigaction ours = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};

	sigfillset(&ours.sa_mask);
	sigdelset(&ours.sa_mask, SIGSEGV);
	if (sigaction(SIGSEGV, &ours, &registry.before) == 0)
		return 0;
	return kedge__error_set(err, KEDGE_E_STATE, errno, "cannot handle SIGSEGV");
}

/* An application that set a handler since then keeps it; ours stays where it may have been chained to. */
static void uninstall(void)
{
	struct sigaction now;

	if (sigaction(SIGSEGV, NULL, &now) == 0 && (now.sa_flags & SA_SIGINFO) && now.sa_sigaction == on_signal)
		sigaction(SIGSEGV, &registry.before, NULL);
}

int kedge__fault_handler_add(kedge__fault_fn fn, void *ctx, struct kedge__error *err)
{
	size_t i = 0;
	int rc = 0;

	pthread_mutex_lock(&registry.lock);
	while (i < SLOTS && atomic_load(&registry.slots[i].fn))
		i++;
	if (i == SLOTS)
		rc = kedge__error_set(err, KEDGE_E_LIMIT, 0, "more than %d mprotect trackers in one process", SLOTS);
	else if (!registry.used)
		rc = install(err);
	if (rc == 0) {
		registry.used++;
		atomic_store(&registry.slots[i].ctx, ctx);
		atomic_store(&registry.slots[i].fn, fn);
	}
	pthread_mutex_unlock(&registry.lock);
	return rc;
}

void kedge__fault_handler_remove(void *ctx)
{
	pthread_mutex_lock(&registry.lock);
	for (size_t i = 0; i < SLOTS; i++) {
		if (!atomic_load(&registry.slots[i].fn) || atomic_load(&registry.slots[i].ctx) != ctx)
			continue;
		atomic_store(&registry.slots[i].fn, NULL);
		if (--registry.used == 0)
			uninstall();
	}
	while (atomic_load(&registry.inside))
		sched_yield();
	pthread_mutex_unlock(&registry.lock);
}
