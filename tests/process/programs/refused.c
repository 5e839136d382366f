/* SPDX-License-Identifier: BSD-3-Clause */
/* refused: what cannot be captured, by name in $REFUSED. */
#include "steps.h"

#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

/* A descriptor that is no file. -1: there is no such kind; -2: this kernel has none. */
static int descriptor(const char *kind)
{
	char ring[256] = {0}; /* struct io_uring_params */
	int fd = -1;

	if (strcmp(kind, "memfd") == 0)
		fd = memfd_create("its", 0);
	else if (strcmp(kind, "inotify") == 0)
		fd = inotify_init();
	else if (strcmp(kind, "io_uring") == 0)
		fd = (int)syscall(425, 1, ring);
	else
		return -1;
	return fd < 0 ? -2 : fd;
}

static void have(const char *what)
{
	void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int pair[2], fd;
	timer_t timer;

	if (strcmp(what, "child") == 0) {
		if (fork() == 0) {
			while (getppid() != 1)
				usleep(1000);
			_exit(0);
		}
	} else if (strcmp(what, "connection") == 0) {
		if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
			exit(5);
	} else if (strcmp(what, "timer") == 0) {
		struct sigevent none = {.sigev_notify = SIGEV_NONE};

		if (timer_create(CLOCK_MONOTONIC, &none, &timer))
			exit(5);
	} else if (strcmp(what, "device") == 0) {
		if (open("/dev/ptmx", O_RDWR | O_NOCTTY) < 0)
			exit(77);
	} else if (strcmp(what, "locked memory") == 0) {
		if (mlock(p, 4096))
			exit(77);
	} else if (strcmp(what, "removed") == 0) {
		fd = open("gone", O_RDWR | O_CREAT, 0600);
		unlink("gone");
		if (fd < 0)
			exit(5);
	} else if (strcmp(what, "System V") == 0) {
		int id = shmget(IPC_PRIVATE, 4096, 0600);

		if (id < 0 || shmat(id, NULL, 0) == (void *)-1)
			exit(77);
		shmctl(id, IPC_RMID, NULL);
	} else if (strcmp(what, "has locked") == 0) {
		fd = open("held", O_RDWR | O_CREAT, 0600);
		if (fd < 0 || flock(fd, LOCK_EX))
			exit(5);
	} else {
		fd = descriptor(what);
		if (fd < 0)
			exit(fd == -2 ? 77 : 6);
	}
}

int main(int argc, char **argv)
{
	unsigned long rounds = steps_open(argc, argv);
	uint64_t x = 0;

	have(getenv("REFUSED"));
	for (unsigned long i = 0; i < rounds; i++) {
		x = steps_mix(x + i);
		steps_done();
	}
	steps_answer(x);
	return 0;
}
