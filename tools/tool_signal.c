/* SPDX-License-Identifier: BSD-3-Clause */
/* signal: Ctrl-C leaves a clean line, and says what became of the work. */
#include "tool.h"
#include <signal.h>
#include <unistd.h>

static const char *_Atomic command, *_Atomic outcome;

/* Only what a signal handler may do. */
static void say(const char *text)
{
	size_t n = strlen(text);

	if (write(STDERR_FILENO, text, n) < (ssize_t)n)
		return; /* there is nobody to say it to */
}

static void interrupt(int sig)
{
	if (isatty(STDERR_FILENO))
		say("\r\033[K");
	say(command);
	say(": interrupted: ");
	say(outcome);
	say("\n");
	raise(sig);
}

void kedge__tool_interruptible(const char *who, const char *what)
{
	static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
	struct sigaction sa = {.sa_handler = interrupt, .sa_flags = (int)(SA_RESETHAND | SA_NODEFER)}, old;

	command = who;
	outcome = what;
	for (size_t i = 0; i < KEDGE__COUNT(signals); i++)
		if (sigaction(signals[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
			sigaction(signals[i], &sa, NULL);
}

void kedge__tool_outcome(const char *what)
{
	outcome = what;
}
