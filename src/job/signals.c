/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Signals that are requests. The handler counts, and nothing else: handles compare the count with what they have
 * answered. Handlers belong to the process, so this is the one place beside the log with state of its own.
 */
#include "job/requests.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>

/* ENDS: its meaning is that the process has to end; one that does not ask whether it should is ended. */
static const struct {
	const char *name, *why;
	int number;
	bool ends;
} known[] = {
    {"USR1", "signal USR1", SIGUSR1, false}, {"USR2", "signal USR2", SIGUSR2, false},
    {"TERM", "signal TERM", SIGTERM, true},  {"INT", "signal INT", SIGINT, true},
    {"HUP", "signal HUP", SIGHUP, true},     {"URG", "signal URG", SIGURG, false},
    {"XCPU", "signal XCPU", SIGXCPU, false}, {"CONT", "signal CONT", SIGCONT, false},
};

static struct {
	int handles; /* that want it */
	bool ours;
	atomic_bool checkpoint; /* only a version is wanted */
	struct sigaction before;
} state[KEDGE__COUNT(known)];

static int users;                                        /* handles */
static atomic_bool inherited;                            /* by a child, whose handles do nothing */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* over STATE and USERS, but for the atomic */
static atomic_uint came, exits;                          /* signals so far; the last of them that asked for the end */
static atomic_int last;                                  /* an index of KNOWN */
static atomic_bool polite;

static int find(int number)
{
	for (size_t i = 0; i < KEDGE__COUNT(known); i++) {
		if (known[i].number == number)
			return (int)i;
	}
	return -1;
}

static void handler(int number)
{
	int i = find(number);
	unsigned count;

	if (i < 0)
		return;
	if (atomic_load(&inherited) || (known[i].ends && !atomic_load(&polite))) {
		signal(number, SIG_DFL);
		raise(number); /* it comes when the handler returns */
		return;
	}
	count = atomic_fetch_add(&came, 1) + 1;
	atomic_store(&last, i);
	if (!atomic_load(&state[i].checkpoint))
		atomic_store(&exits, count);
}

unsigned kedge__signals_count(void)
{
	return atomic_load(&came);
}

const char *kedge__signals_since(unsigned count, enum kedge__request_kind *kind)
{
	if (atomic_load(&came) == count)
		return NULL;
	*kind = (int)(atomic_load(&exits) - count) > 0 ? KEDGE__REQUEST_EXIT : KEDGE__REQUEST_CHECKPOINT;
	return known[atomic_load(&last)].why;
}

void kedge__signals_polite(void)
{
	atomic_store(&polite, true);
}

/* ------------------------------------------------------------------ the setting */

/* The next word of *TEXT; -1: it has none, -2: it is no signal. */
static int next(const char **text, bool *checkpoint)
{
	const char *at = *text + strspn(*text, ", ");
	size_t n = strcspn(at, ", :"), rest = strcspn(at, ", ");

	*text = at + rest;
	if (!rest)
		return -1;
	*checkpoint = rest - n == strlen(":checkpoint") && strncmp(at + n, ":checkpoint", rest - n) == 0;
	if (rest != n && !*checkpoint)
		return -2;
	if (n > 3 && strncmp(at, "SIG", 3) == 0) {
		at += 3;
		n -= 3;
	}
	for (size_t i = 0; i < KEDGE__COUNT(known); i++) {
		if (strlen(known[i].name) == n && strncmp(known[i].name, at, n) == 0)
			return (int)i;
	}
	return -2;
}

int kedge__signals_check(const char *text, struct kedge__error *err)
{
	const char *at = text;
	bool checkpoint;
	int i;

	do
		i = next(&at, &checkpoint);
	while (i >= 0);
	if (i == -1)
		return 0;
	return kedge__error_set(
	    err, KEDGE_E_CONFIG, 0,
	    "on_signal = %s: must be a list of USR1, USR2, TERM, INT, HUP, URG, XCPU and CONT, with "
	    "commas between them, each as it is or followed by :checkpoint",
	    text);
}

/* ------------------------------------------------------------------ handlers */

static bool install(int i)
{
	struct sigaction ours = {.sa_handler = handler, .sa_flags = SA_RESTART};

	if (sigaction(known[i].number, NULL, &state[i].before) || state[i].before.sa_flags & SA_SIGINFO ||
	    state[i].before.sa_handler != SIG_DFL)
		return false;
	sigfillset(&ours.sa_mask);
	return sigaction(known[i].number, &ours, NULL) == 0;
}

/* Unless the program has put another handler in its place meanwhile. */
static void uninstall(int i)
{
	struct sigaction now;

	if (sigaction(known[i].number, NULL, &now) == 0 && !(now.sa_flags & SA_SIGINFO) && now.sa_handler == handler)
		sigaction(known[i].number, &state[i].before, NULL);
}

static void fork_child(void)
{
	atomic_store(&inherited, true);
}

static void forks_watch(void)
{
	(void)pthread_atfork(NULL, NULL, fork_child);
}

void kedge__signals_open(const char *text, const char *name)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	bool checkpoint;
	int i;

	pthread_once(&once, forks_watch);
	pthread_mutex_lock(&lock);
	users++;
	atomic_store(&inherited, false);
	while ((i = next(&text, &checkpoint)) >= 0) {
		if (state[i].handles++ > 0)
			continue;
		atomic_store(&state[i].checkpoint, checkpoint);
		state[i].ours = install(i);
		if (!state[i].ours)
			kedge__log(KEDGE_LOG_INFO,
				   "%s: on_signal: %s is left to the program, which handles or ignores it", name,
				   known[i].name);
	}
	pthread_mutex_unlock(&lock);
}

void kedge__signals_close(const char *text)
{
	bool checkpoint;
	int i;

	pthread_mutex_lock(&lock);
	while ((i = next(&text, &checkpoint)) >= 0) {
		if (--state[i].handles == 0 && state[i].ours)
			uninstall(i);
	}
	if (--users == 0)
		atomic_store(&polite, false);
	pthread_mutex_unlock(&lock);
}
