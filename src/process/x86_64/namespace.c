/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * namespace: processes and threads with given ids. Who may not choose ids, or wants some that are in use, gets them in
 * namespaces of processes, of mounts (for /proc), and of users if it is not root. Their first process waits until
 * this process closes its link or dies, and then as long as something lives there.
 */
#include "process/target.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

struct clone_arguments { /* the first version that has set_tid */
	uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls, set_tid, set_tid_size;
};

static pid_t clone_with(uint64_t flags, pid_t id)
{
	struct clone_arguments a = {.flags = flags, .exit_signal = flags & CLONE_PARENT ? 0 : SIGCHLD};

	if (id) {
		a.set_tid = (uintptr_t)&id;
		a.set_tid_size = 1;
	}
	return (pid_t)syscall(SYS_clone3, &a, sizeof(a));
}

/* ------------------------------------------------------------------ the first process */

static bool put_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool done = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	if (fd >= 0)
		close(fd);
	return done;
}

static bool map_user(uid_t uid, gid_t gid)
{
	char text[64];

	put_text("/proc/self/setgroups", "deny");
	snprintf(text, sizeof(text), "%u %u 1\n", (unsigned)uid, (unsigned)uid);
	if (!put_text("/proc/self/uid_map", text))
		return false;
	snprintf(text, sizeof(text), "%u %u 1\n", (unsigned)gid, (unsigned)gid);
	return put_text("/proc/self/gid_map", text);
}

static int set_next(pid_t id)
{
	char text[32];

	snprintf(text, sizeof(text), "%d", (int)id - 1);
	errno = 0;
	return put_text("/proc/sys/kernel/ns_last_pid", text) ? 0 : errno ? errno : EIO;
}

/* It has nothing of ours but the link: no lock of a store outlives us because of it. */
_Noreturn static void be_first(int link, bool users, uid_t uid, gid_t gid)
{
	int failed = users && !map_user(uid, gid) ? EPERM : 0, null = open("/dev/null", O_RDWR);
	pid_t id;

	setpgid(0, 0);
	signal(SIGCHLD, SIG_IGN);
	for (int i = 0; i <= 2; i++)
		dup2(null, i);
	dup2(link, 3);
	syscall(SYS_close_range, 4u, ~0u, 0u);
	/* Without its own /proc it works, too, but for programs that look for themselves there by number. */
	if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0)
		mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
	if (write(3, &failed, sizeof(failed)) != (ssize_t)sizeof(failed))
		_exit(1);
	while (!failed && read(3, &id, sizeof(id)) == (ssize_t)sizeof(id)) {
		failed = set_next(id);
		if (write(3, &failed, sizeof(failed)) != (ssize_t)sizeof(failed))
			break;
		failed = 0;
	}
	close(3);
	while (waitpid(-1, NULL, __WALL) > 0 || errno == EINTR)
		;
	_exit(0);
}

static int ask(int link, int *answer)
{
	return read(link, answer, sizeof(*answer)) == (ssize_t)sizeof(*answer) ? 0 : -1;
}

int kedge__spaces_open(struct kedge__spaces *s, struct kedge__error *err)
{
	uint64_t flags = CLONE_NEWPID | CLONE_NEWNS | (geteuid() ? (uint64_t)CLONE_NEWUSER : 0);
	uid_t uid = geteuid();
	gid_t gid = getegid();
	int link[2], answer = EIO;
	pid_t first;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, link) != 0)
		return kedge__error_set(err, KEDGE_E_IO, errno, "cannot create a socket");
	first = clone_with(flags, 0);
	if (first == 0)
		be_first(link[1], uid != 0, uid, gid);
	close(link[1]);
	if (first < 0 || ask(link[0], &answer) != 0 || answer) {
		int failed = first < 0 ? errno : answer;

		close(link[0]);
		if (first > 0) {
			kill(first, SIGKILL);
			waitpid(first, NULL, __WALL);
		}
		return kedge__error_set(err, KEDGE_E_STATE, failed,
					"its ids cannot be kept: namespaces of users and processes are not allowed "
					"here (--new-ids takes others)");
	}
	s->init = first;
	s->link = link[0];
	return 0;
}

void kedge__spaces_close(struct kedge__spaces *s)
{
	if (!s->init)
		return;
	close(s->link);
	kill(s->init, SIGKILL);
	waitpid(s->init, NULL, __WALL);
	s->init = 0;
	s->link = -1;
}

int kedge__spaces_next_id(const struct kedge__spaces *s, pid_t id, struct kedge__error *err)
{
	int answer = EIO;

	if (send(s->link, &id, sizeof(id), MSG_NOSIGNAL) != (ssize_t)sizeof(id) || ask(s->link, &answer) != 0 || answer)
		return kedge__error_set(err, KEDGE_E_STATE, answer, "cannot choose the id of a thread");
	return 0;
}

/* ------------------------------------------------------------------ a child */

/* Between us and the namespaces: who has entered them starts a child for us there, and ends. */
static void enter(const struct kedge__spaces *s, pid_t id, int report, bool *child)
{
	int pidfd = (int)syscall(SYS_pidfd_open, s->init, 0);
	int kinds = CLONE_NEWPID | CLONE_NEWNS | (geteuid() ? CLONE_NEWUSER : 0), result[2] = {0, 0};

	if (pidfd < 0 || setns(pidfd, kinds) != 0)
		result[1] = errno;
	else
		result[0] = (int)clone_with(CLONE_PARENT, id);
	if (result[0] == 0 && !result[1]) {
		*child = true;
		close(pidfd);
		return;
	}
	if (result[0] < 0)
		result[1] = errno;
	if (write(report, result, sizeof(result)) != (ssize_t)sizeof(result))
		_exit(1);
	_exit(0);
}

static int fork_inside(const struct kedge__spaces *s, pid_t id, pid_t *pid, struct kedge__error *err)
{
	int report[2], result[2] = {0, EIO};
	bool child = false;
	pid_t middle;

	if (pipe2(report, O_CLOEXEC) != 0)
		return kedge__error_set(err, KEDGE_E_IO, errno, "cannot create a pipe");
	middle = fork();
	if (middle == 0) {
		enter(s, id, report[1], &child);
		*pid = 0;
		return 0;
	}
	close(report[1]);
	if (middle > 0 && read(report[0], result, sizeof(result)) != (ssize_t)sizeof(result))
		result[1] = EIO;
	close(report[0]);
	if (middle > 0)
		waitpid(middle, NULL, 0);
	if (result[1] || result[0] <= 0)
		return kedge__error_set(err, KEDGE_E_STATE, result[1], "cannot start a process with id %d", (int)id);
	*pid = result[0];
	return 0;
}

int kedge__spaces_fork(const struct kedge__spaces *s, pid_t id, pid_t *pid, struct kedge__error *err)
{
	pid_t got;

	if (s->init)
		return fork_inside(s, id, pid, err);
	got = clone_with(0, id);
	if (got < 0)
		return kedge__error_set(err, KEDGE_E_STATE, errno, "cannot start a process with id %d", (int)id);
	*pid = got;
	return 0;
}
