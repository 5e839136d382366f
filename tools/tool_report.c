/* SPDX-License-Identifier: BSD-3-Clause */
/* report: messages on standard error, and what a failure means for the exit code. */
#include "tool.h"
#include <stdlib.h>

int kedge__exit_from_error(int code)
{
	switch (code) {
	case KEDGE_OK:
		return KEDGE__EXIT_OK;
	case KEDGE_E_ARG:
	case KEDGE_E_CONFIG:
		return KEDGE__EXIT_USAGE;
	case KEDGE_E_NOTFOUND:
	case KEDGE_E_VERSION:
		return KEDGE__EXIT_NOTFOUND;
	case KEDGE_E_LOCKED:
		return KEDGE__EXIT_LOCKED;
	case KEDGE_E_IO:
	case KEDGE_E_NOSPACE:
	case KEDGE_E_ACCESS:
		return KEDGE__EXIT_IO;
	case KEDGE_E_DAMAGED:
	case KEDGE_E_MISSING:
	case KEDGE_E_FORMAT:
	case KEDGE_E_CODEC:
		return KEDGE__EXIT_DAMAGED;
	default:
		return KEDGE__EXIT_FAILURE;
	}
}

static void say(const char *command, const char *fmt, va_list ap, const char *cause)
{
	fflush(stdout);
	flockfile(stderr);
	fprintf(stderr, "%s: ", command);
	kedge__vprint(stderr, fmt, ap);
	if (cause)
		kedge__print(stderr, ": %s", cause);
	fputc('\n', stderr);
	funlockfile(stderr);
}

void kedge__tool_say(const char *command, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say(command, fmt, ap, NULL);
	va_end(ap);
}

int kedge__tool_fail(const char *command, struct kedge__error *err, const char *fmt, ...)
{
	int status = kedge__exit_from_error(err->code ? err->code : KEDGE_E_INTERNAL);
	va_list ap;

	va_start(ap, fmt);
	say(command, fmt, ap, kedge__error_text(err));
	va_end(ap);
	kedge__error_done(err);
	*err = (struct kedge__error)KEDGE__ERROR_INIT;
	return status;
}

int kedge__tool_fail_job(const char *command, const kedge_t *k, int code, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say(command, fmt, ap, kedge_last_error(k));
	va_end(ap);
	return kedge__exit_from_error(code);
}

void kedge__tool_no_memory(void)
{
	fputs("kedge: out of memory\n", stderr);
	exit(KEDGE__EXIT_FAILURE);
}

static struct {
	pthread_mutex_t lock;
	bool on;
	KEDGE__ARRAY(uint64_t) said; /* checksums */
} once = {.lock = PTHREAD_MUTEX_INITIALIZER};

void kedge__tool_listen_once(void)
{
	pthread_mutex_lock(&once.lock);
	once.on = true;
	pthread_mutex_unlock(&once.lock);
}

/* Another rank said the same. */
static bool is_repeated(const char *text)
{
	uint64_t sum = kedge__checksum(text, strlen(text));
	bool repeated = false;

	pthread_mutex_lock(&once.lock);
	for (size_t i = 0; once.on && i < once.said.count && !repeated; i++)
		repeated = once.said.at[i] == sum;
	if (once.on && !repeated)
		(void)kedge__array_push(&once.said, sum); /* without memory it is said again */
	pthread_mutex_unlock(&once.lock);
	return repeated;
}

static struct {
	pthread_mutex_t lock;
	bool on;
	KEDGE__ARRAY(uint64_t) said; /* checksums */
} causes = {.lock = PTHREAD_MUTEX_INITIALIZER};

void kedge__tool_causes_once(void)
{
	pthread_mutex_lock(&causes.lock);
	causes.on = true;
	pthread_mutex_unlock(&causes.lock);
}

static bool is_said(const char *cause)
{
	uint64_t sum = kedge__checksum(cause, strlen(cause));

	for (size_t i = 0; i < causes.said.count; i++)
		if (causes.said.at[i] == sum)
			return true;
	return false;
}

/* The causes in TEXT are what follows each colon; TEXT may be the cause of something itself. */
size_t kedge__tool_unsaid(const char *text)
{
	const char *end = NULL;

	pthread_mutex_lock(&causes.lock);
	for (const char *p = strstr(text, ": "); causes.on && p && !end; p = strstr(p + 2, ": "))
		if (is_said(p + 2))
			end = p;
	for (const char *p = text; causes.on && p; p = strstr(p, ": ") ? strstr(p, ": ") + 2 : NULL)
		(void)kedge__array_push(&causes.said, kedge__checksum(p, strlen(p))); /* else it is said again */
	pthread_mutex_unlock(&causes.lock);
	return end ? (size_t)(end - text) : strlen(text);
}

static void log_all(void *command, enum kedge_log_level level, const char *text)
{
	if (level <= KEDGE_LOG_NOTICE && is_repeated(text))
		return;
	if (level <= KEDGE_LOG_ERROR)
		kedge__tool_say(command, "%.*s", (int)kedge__tool_unsaid(text), text);
	else if (level <= KEDGE_LOG_NOTICE)
		kedge__tool_say(command, "note: %s", text);
}

static void log_errors(void *command, enum kedge_log_level level, const char *text)
{
	if (level <= KEDGE_LOG_ERROR && !is_repeated(text))
		kedge__tool_say(command, "%.*s", (int)kedge__tool_unsaid(text), text);
}

void kedge__tool_listen(const char *command, bool quiet)
{
	kedge_set_log(quiet ? log_errors : log_all, (void *)command);
}
