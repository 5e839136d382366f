/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * save_child: a save in a process of its own, so that whatever ends it (a file that is cut short, a lack of memory, a
 * signal) leaves the caller to clean up. The child does not outlive the caller.
 */
#include "save_files.h"
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static const int passed_on[] = {SIGINT, SIGTERM, SIGHUP};

static void signals_of(sigset_t *set)
{
	struct sigaction now;

	sigemptyset(set);
	sigaddset(set, SIGCHLD);
	for (size_t i = 0; i < KEDGE__COUNT(passed_on); i++)
		if (sigaction(passed_on[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN)
			sigaddset(set, passed_on[i]);
}

/* Nothing of the caller is touched but its memory's copy. */
static _Noreturn void be_child(const struct kedge__save_as *as, pid_t caller, const sigset_t *watched, char **argv)
{
	int argc = 0, status;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != caller)
		_exit(KEDGE__EXIT_FAILURE);
	for (size_t i = 0; i < KEDGE__COUNT(passed_on); i++)
		if (signal(passed_on[i], SIG_DFL) == SIG_IGN)
			signal(passed_on[i], SIG_IGN);
	sigprocmask(SIG_UNBLOCK, watched, NULL);
	while (argv[argc])
		argc++;
	status = as->prepare ? as->prepare(as->ctx) : 0;
	if (status == 0)
		status = kedge__save_as(as, argc, argv);
	_exit(kedge__tool_finish(as->command, status));
}

static int await_child(pid_t child, const sigset_t *watched, int *stopped)
{
	int status = 0;

	for (;;) {
		int sig = sigwaitinfo(watched, NULL);

		if (sig > 0 && sig != SIGCHLD) {
			*stopped = sig;
			kill(child, sig);
		}
		if (waitpid(child, &status, WNOHANG) == child)
			return status;
	}
}

int kedge__save_child(const struct kedge__save_as *as, char **argv, int *stopped)
{
	sigset_t watched, before;
	struct sigaction preset = {.sa_handler = SIG_DFL};
	pid_t caller = getpid(), child;
	int status;

	fflush(NULL);
	signals_of(&watched);
	sigaction(SIGCHLD, &preset, NULL);
	sigprocmask(SIG_BLOCK, &watched, &before);
	child = fork();
	if (child == 0)
		be_child(as, caller, &watched, argv);
	status = child < 0 ? -1 : await_child(child, &watched, stopped);
	sigprocmask(SIG_SETMASK, &before, NULL);
	if (child < 0) {
		kedge__tool_say(as->command, "cannot start a process");
		return KEDGE__EXIT_FAILURE;
	}
	if (WIFEXITED(status))
		return WEXITSTATUS(status);
	if (!*stopped && WTERMSIG(status) != as->tolerated)
		kedge__tool_say(as->command, "the process that saves was ended by signal %d", WTERMSIG(status));
	return KEDGE__EXIT_FAILURE;
}
