/* SPDX-License-Identifier: BSD-3-Clause */
#include "client.h"

#include <stdarg.h>
#include <stdio.h>

/* One client per process; messages name its rank. */
static struct {
	int level;
	long rank;
} log_state = {KEDGE_LOG_WARNING, 0};

static void say(enum kedge_log_level level, const char *text)
{
	static const char *const words[] = {"error", "warning", "notice", "info", "debug"};

	if ((int)level <= log_state.level)
		fprintf(stderr, "veloc: %s: rank %ld: %s\n", words[level], log_state.rank, text);
}

static void from_kedge(void *user, enum kedge_log_level level, const char *text)
{
	(void)user;
	say(level, text);
}

void veloc__log_open(const char *level, long rank)
{
	static const char *const words[] = {"none", "error", "warning", "notice", "info", "debug"};

	log_state.rank = rank;
	log_state.level = KEDGE_LOG_WARNING;
	for (int i = 0; level && i < 6; i++) {
		if (strcmp(level, words[i]) == 0)
			log_state.level = i - 1;
	}
	kedge_set_log(from_kedge, NULL);
}

void veloc__log_close(void)
{
	kedge_set_log(NULL, NULL);
}

void veloc__log(enum kedge_log_level level, const char *fmt, ...)
{
	char text[2048];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	say(level, text);
}
