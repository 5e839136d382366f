/* SPDX-License-Identifier: BSD-3-Clause */
#include "pipeline/thread.h"

#include <signal.h>

/*
 * Signals sent to the process are the application's: our threads must not be the ones that take them. Those that a
 * thread brings upon itself stay open, for the handlers an application may have for them.
 */
int kedge__thread_start(pthread_t *thread, void *(*run)(void *ctx), void *ctx)
{
	static const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT};
	sigset_t blocked, before;
	int rc;

	sigfillset(&blocked);
	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
		sigdelset(&blocked, own[i]);
	rc = pthread_sigmask(SIG_BLOCK, &blocked, &before);
	if (rc)
		return rc;
	rc = pthread_create(thread, NULL, run, ctx);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return rc;
}
