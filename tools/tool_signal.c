/* SPDX-License-Identifier: BSD-3-Clause */
/* signal: Ctrl-C leaves a clean line, and says what became of the work. */
#include "tool.h"
#include <signal.h>
#include <unistd.h>

static const int ending[] = {SIGINT, SIGTERM, SIGHUP};

void kedge__tool_ending(sigset_t *set)
{
	struct sigaction now;

	sigemptyset(set);
	for (size_t i = 0; i < KEDGE__COUNT(ending); i++)
		if (sigaction(ending[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN)
			sigaddset(set, ending[i]);
}

void kedge__tool_on_ending(void (*handler)(int sig), int flags)
{
	struct sigaction sa = {.sa_handler = handler, .sa_flags = flags};
	sigset_t set;

	kedge__tool_ending(&set);
	for (size_t i = 0; i < KEDGE__COUNT(ending); i++)
		if (sigismember(&set, ending[i]) == 1)
			sigaction(ending[i], &sa, NULL);
}

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
	command = who;
	outcome = what;
	kedge__tool_on_ending(interrupt, (int)(SA_RESETHAND | SA_NODEFER));
}

void kedge__tool_outcome(const char *what)
{
	outcome = what;
}
