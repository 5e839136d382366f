/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * run_child: one launch of a command in a process group of its own. Signals are waited for, never handled: all that
 * matter are blocked, and the wait for the child's end is a wait for SIGCHLD among them.
 */
#include "run.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* Passed on to the whole group, as a terminal does, but for USR1, and for TERM where a job can be asked instead
 * (run_ask.c). Of these, the first four ask the job to stop. */
static const int passed_on[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGCONT, SIGTSTP};
#define STOPPING 4

/* After a request to stop, processes that outlive the command get this long to end by themselves. */
#define GRACE_SECONDS 10.0

#define PID_LIMIT (4 << 20) /* no Linux numbers processes from here on */

void kedge__run_signals_init(struct kedge__run_loop *r)
{
	struct sigaction now, preset = {.sa_handler = SIG_DFL};

	sigemptyset(&r->watched);
	sigaddset(&r->watched, SIGCHLD);
	for (size_t i = 0; i < KEDGE__COUNT(passed_on); i++) {
		/* What was ignored when we started stays ignored (nohup); waiting for it would take it back. */
		if (sigaction(passed_on[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN)
			sigaddset(&r->watched, passed_on[i]);
	}
	sigaction(SIGCHLD, &preset, NULL);
	sigprocmask(SIG_BLOCK, &r->watched, &r->inherited);
	/* Ranks whose launcher was killed become our children, so that they can be found and ended. */
	prctl(PR_SET_CHILD_SUBREAPER, 1);
}

static void pass_on(struct kedge__run_loop *r, int sig)
{
	/* It would kill a program that does not expect it; launchers pass it on to their ranks. */
	if (sig == SIGUSR1) {
		kedge__run_ask(r, "signal USR1");
		return;
	}
	if (sig == SIGTERM && r->ask.asked) {
		kedge__run_insist(r);
		return;
	}
	if (sig == SIGTERM && kedge__run_listens(r)) {
		kedge__run_ask(r, "signal TERM");
		return;
	}
	for (size_t i = 0; i < STOPPING; i++) {
		if (sig == passed_on[i])
			r->stop_signal = sig;
	}
	if (r->group > 0)
		kill(-r->group, sig);
	if (sig == SIGTSTP)
		raise(SIGSTOP); /* SIGCONT wakes us up and is passed on in turn */
}

/* Wait for a watched signal until DEADLINE (monotonic) and pass it on. False: time is up. */
bool kedge__run_await(struct kedge__run_loop *r, double deadline)
{
	struct timespec left = {0, 0};
	double seconds = deadline - kedge__clock_seconds();
	int sig;

	if (seconds <= 0)
		return false;
	left.tv_sec = (time_t)seconds;
	left.tv_nsec = (long)((seconds - (double)left.tv_sec) * 1e9);
	sig = sigtimedwait(&r->watched, NULL, &left);
	if (sig > 0 && sig != SIGCHLD)
		pass_on(r, sig);
	return true;
}

void kedge__run_pause(struct kedge__run_loop *r, double seconds)
{
	double deadline = kedge__clock_seconds() + seconds;

	while (!r->stop_signal && !r->ask.asked && kedge__run_await(r, deadline))
		;
}

/* In the child. A terminal is not handed on: the group is not in its foreground, and a read would stop it. */
static void set_input(int launch)
{
	int fd;

	if (launch == 1 && !isatty(STDIN_FILENO))
		return;
	fd = open("/dev/null", O_RDONLY);
	if (fd > STDIN_FILENO) {
		dup2(fd, STDIN_FILENO);
		close(fd);
	}
}

_Noreturn static void become_command(const struct kedge__run_loop *r, int launch, pid_t parent, int report)
{
	char **command = r->nodes.command.count ? r->nodes.command.at : r->command;
	int failed;

	setpgid(0, 0);
	/* A job must not outlive the process that would relaunch it: two jobs would fight for the store. */
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != parent)
		_exit(128 + SIGTERM);
	set_input(launch);
	sigprocmask(SIG_SETMASK, &r->inherited, NULL);
	execvp(command[0], command);
	failed = errno;
	while (write(report, &failed, sizeof(failed)) < 0 && errno == EINTR)
		;
	_exit(failed == ENOENT || failed == ENOTDIR ? 127 : 126);
}

/* The errno with which exec failed, or 0: the pipe is closed by a successful one. */
static int read_report(int fd)
{
	int failed = 0;
	ssize_t got;

	do {
		got = read(fd, &failed, sizeof(failed));
	} while (got < 0 && errno == EINTR);
	close(fd);
	return got == (ssize_t)sizeof(failed) ? failed : 0;
}

static int start(struct kedge__run_loop *r, struct kedge__run_launch *launch, pid_t *child, struct kedge__error *err)
{
	pid_t parent = getpid();
	int report[2];

	if (pipe2(report, O_CLOEXEC))
		return kedge__error_set(err, KEDGE_E_IO, errno, "cannot create a pipe");
	fflush(NULL);
	*child = fork();
	if (*child < 0) {
		int failed = errno;

		close(report[0]);
		close(report[1]);
		return kedge__error_set(err, KEDGE_E_IO, failed, "cannot start a process");
	}
	if (*child == 0)
		become_command(r, launch->number, parent, report[1]);
	setpgid(*child, *child); /* here too: whoever comes first, signals find the group */
	close(report[1]);
	launch->exec_errno = read_report(report[0]);
	return 0;
}

/* Collect all that ended. True if CHILD is among them, with its status. */
static bool reap(pid_t child, int *status)
{
	bool found = false;
	int any;

	for (;;) {
		pid_t pid = waitpid(-1, &any, WNOHANG);

		if (pid <= 0)
			return found;
		if (pid == child) {
			*status = any;
			found = true;
		}
	}
}

/* The parent of process PID, or -1. */
static pid_t parent_of(const char *pid)
{
	char path[64], text[512];
	const char *after;
	ssize_t got;
	int fd, parent;

	snprintf(path, sizeof(path), "/proc/%.20s/stat", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	got = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (got <= 0)
		return -1;
	text[got] = '\0';
	/* "PID (name) STATE PPID": the name may hold anything, even parentheses. */
	after = strrchr(text, ')');
	return after && sscanf(after + 1, " %*c %d", &parent) == 1 ? (pid_t)parent : -1;
}

/* Without /proc every number that a process may have is tried: waitid() knows which are our children. */
static void kill_adopted_blindly(void)
{
	for (pid_t pid = 2; pid < PID_LIMIT; pid++) {
		siginfo_t info;

		if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0)
			kill(pid, SIGKILL);
	}
}

static void kill_adopted(void)
{
	DIR *proc = access("/proc/self", F_OK) == 0 ? opendir("/proc") : NULL;
	struct dirent *entry;
	pid_t self = getpid();

	if (!proc) {
		kill_adopted_blindly();
		return;
	}
	while ((entry = readdir(proc))) {
		if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9' && parent_of(entry->d_name) == self)
			kill((pid_t)atoi(entry->d_name), SIGKILL);
	}
	closedir(proc);
}

static bool children_left(void)
{
	siginfo_t info;

	return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0;
}

/*
 * End what the launch left behind, so that the next one finds the store free. Killing a process may hand its children
 * to us in turn: until there are none.
 */
static void end_leftovers(struct kedge__run_loop *r)
{
	double deadline = kedge__clock_seconds() + GRACE_SECONDS;
	int status;

	while ((r->stop_signal || r->ask.asked) && children_left() && kedge__run_await(r, deadline))
		reap(0, &status);
	kill(-r->group, SIGKILL);
	while (children_left()) {
		kill_adopted();
		while (waitpid(-1, &status, 0) < 0 && errno == EINTR)
			;
		reap(0, &status);
	}
}

static void record_end(struct kedge__run_launch *launch, int status)
{
	launch->ended_ns = kedge__clock_wall_ns();
	if (WIFSIGNALED(status)) {
		launch->signal = WTERMSIG(status);
		launch->exit_code = 128 + launch->signal;
	} else {
		launch->exit_code = WEXITSTATUS(status);
	}
}

void kedge__run_launch_ended(struct kedge__run_loop *r, struct kedge__run_launch *launch, int status)
{
	record_end(launch, status);
	if (launch->exit_code != 0)
		end_leftovers(r);
	r->group = 0;
}

int kedge__run_launch(struct kedge__run_loop *r, struct kedge__run_launch *launch, struct kedge__error *err)
{
	pid_t child;
	int status = 0, rc;

	launch->began_ns = kedge__clock_wall_ns();
	rc = start(r, launch, &child, err);
	if (rc)
		return rc;
	r->group = child;
	r->launch = launch;
	kedge__run_ask_begin(r);
	while (!reap(child, &status))
		kedge__run_await(r, kedge__run_watch(r, launch));
	r->launch = NULL;
	kedge__run_launch_ended(r, launch, status);
	return 0;
}
