/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/base.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

typedef void (*log_fn)(void *user, enum kedge_log_level level, const char *text);

static pthread_mutex_t pair_lock = PTHREAD_MUTEX_INITIALIZER;
static log_fn pair_fn;
static void *pair_user;
static atomic_bool listening; /* so that nothing is formatted for nobody */

void kedge_set_log(log_fn fn, void *user)
{
	pthread_mutex_lock(&pair_lock);
	pair_fn = fn;
	pair_user = user;
	atomic_store_explicit(&listening, fn != NULL, memory_order_relaxed);
	pthread_mutex_unlock(&pair_lock);
}

/* The callback runs outside the lock, so that it may log, or replace itself. */
static void deliver(enum kedge_log_level level, const char *text)
{
	log_fn fn;
	void *user;

	pthread_mutex_lock(&pair_lock);
	fn = pair_fn;
	user = pair_user;
	pthread_mutex_unlock(&pair_lock);
	if (fn)
		fn(user, level, text);
}

void kedge__log(enum kedge_log_level level, const char *fmt, ...)
{
	char buffer[512];
	char *text = NULL;
	int saved = errno;
	va_list args;
	int length;

	if (!atomic_load_explicit(&listening, memory_order_relaxed))
		return;
	va_start(args, fmt);
	length = vsnprintf(buffer, sizeof(buffer), fmt, args);
	va_end(args);
	if (length < 0)
		return;
	if ((size_t)length >= sizeof(buffer)) {
		va_start(args, fmt);
		text = kedge__vasprintf(fmt, args);
		va_end(args);
	}
	deliver(level, text ? text : buffer);
	kedge__free(text);
	errno = saved;
}
