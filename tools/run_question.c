/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * run_question: short-lived commands that are asked something: the resource manager, or a look at a node. Each is
 * waited for here, by its number, so that the end of a launch is left for the loop to see.
 */
#include "run.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define ANSWER_SECONDS 30.0 /* for one question to the resource manager, or one look at a node */

extern char **environ;

int kedge__run_question_ask(const struct kedge__run_loop *r, char *const argv[], struct kedge__run_question *q,
			    struct kedge__error *err)
{
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attr;
	int ends[2], failed;

	if (pipe2(ends, O_CLOEXEC))
		return kedge__error_set(err, KEDGE_E_IO, errno, "cannot create a pipe");
	posix_spawn_file_actions_init(&files);
	posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&files, ends[1], STDOUT_FILENO);
	posix_spawnattr_init(&attr);
	posix_spawnattr_setsigmask(&attr, &r->inherited);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK);
	failed = posix_spawnp(&q->pid, argv[0], &files, &attr, argv, environ);
	posix_spawnattr_destroy(&attr);
	posix_spawn_file_actions_destroy(&files);
	close(ends[1]);
	q->fd = ends[0];
	q->deadline = kedge__clock_seconds() + ANSWER_SECONDS;
	if (failed) {
		close(q->fd);
		return kedge__error_set(err, KEDGE_E_IO, failed, "cannot start %s", argv[0]);
	}
	return 0;
}

/* False: time is up. */
static bool ready(int fd, double deadline)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	double left;

	do {
		left = deadline - kedge__clock_seconds();
		if (left <= 0)
			return false;
	} while (poll(&p, 1, (int)(left * 1000) + 1) < 0 && errno == EINTR);
	return p.revents != 0;
}

/* The end of Q's process: its status, or -1 if it had to be killed. */
static int finish(struct kedge__run_question *q)
{
	int watch = pidfd_open(q->pid, 0), status;
	bool late = watch >= 0 && !ready(watch, q->deadline);

	if (watch >= 0)
		close(watch);
	if (late)
		kill(q->pid, SIGKILL);
	while (waitpid(q->pid, &status, 0) < 0) {
		if (errno != EINTR)
			return -1;
	}
	return late || !WIFEXITED(status) ? -1 : WEXITSTATUS(status);
}

/* All that Q prints, and how it ended. *TEXT is NULL where memory ran out. */
int kedge__run_question_answer(struct kedge__run_question *q, char **text)
{
	KEDGE__ARRAY(char) got = {0};
	ssize_t n = 0;

	while (kedge__array_reserve(&got, got.count + 4096) && ready(q->fd, q->deadline)) {
		n = read(q->fd, got.at + got.count, 4095);
		if (n <= 0)
			break;
		got.count += (size_t)n;
	}
	close(q->fd);
	if (got.at)
		got.at[got.count] = '\0';
	*text = got.at;
	return finish(q);
}

int kedge__run_inquire(const struct kedge__run_loop *r, char *const argv[], char **text, struct kedge__error *err)
{
	struct kedge__run_question q;
	int rc = kedge__run_question_ask(r, argv, &q, err), status;

	if (rc)
		return rc;
	status = kedge__run_question_answer(&q, text);
	if (!*text)
		return kedge__error_nomem(err);
	if (status == 0)
		return 0;
	kedge__free(*text);
	return status < 0 ? kedge__error_set(err, KEDGE_E_IO, 0, "%s does not answer", argv[0])
			  : kedge__error_set(err, KEDGE_E_IO, 0, "%s ended with exit code %d", argv[0], status);
}
