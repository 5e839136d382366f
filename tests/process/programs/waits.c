/* SPDX-License-Identifier: BSD-3-Clause */
/* waits: a thread in each kind of call that waits; none of them may notice anything. Ends when `progress` has ROUNDS
 * bytes. */
#include "steps.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <time.h>

static sem_t semaphore;
static int ends[2], set;
static volatile int over;

static void check(const char *what, long result)
{
	if (result < 0 && errno == EINTR) {
		FILE *f = fopen("interrupted", "a");

		fprintf(f, "%s\n", what);
		fclose(f);
	}
}

static void *wait_sleep(void *arg)
{
	struct timespec t = {0, 20000000};

	while (!over)
		check("nanosleep", nanosleep(&t, NULL));
	return arg;
}

static void *wait_poll(void *arg)
{
	struct pollfd p = {ends[0], POLLIN, 0};

	while (!over)
		check("poll", poll(&p, 1, 20));
	return arg;
}

static void *wait_select(void *arg)
{
	while (!over) {
		struct timeval t = {0, 20000};
		fd_set in;

		FD_ZERO(&in);
		FD_SET(ends[0], &in);
		check("select", select(ends[0] + 1, &in, NULL, NULL, &t));
	}
	return arg;
}

static void *wait_epoll(void *arg)
{
	struct epoll_event e;

	while (!over)
		check("epoll_wait", epoll_wait(set, &e, 1, 20));
	return arg;
}

static void *wait_semaphore(void *arg)
{
	while (!over) {
		struct timespec t;

		clock_gettime(CLOCK_REALTIME, &t);
		t.tv_nsec += 20000000;
		t.tv_sec += t.tv_nsec / 1000000000;
		t.tv_nsec %= 1000000000;
		check("sem_timedwait", sem_timedwait(&semaphore, &t));
	}
	return arg;
}

static void *wait_signal(void *arg)
{
	struct timespec t = {0, 20000000};
	sigset_t one;

	sigemptyset(&one);
	sigaddset(&one, SIGUSR1);
	while (!over)
		check("sigtimedwait", sigtimedwait(&one, NULL, &t));
	return arg;
}

static void *wait_read(void *arg)
{
	char byte;

	check("read", read(ends[0], &byte, 1));
	return arg;
}

int main(int argc, char **argv)
{
	static void *(*const all[])(void *) = {wait_sleep,     wait_poll,   wait_select, wait_epoll,
					       wait_semaphore, wait_signal, wait_read};
	unsigned long rounds = steps_open(argc, argv);
	pthread_t threads[sizeof(all) / sizeof(all[0])];
	sigset_t one;

	sigemptyset(&one);
	sigaddset(&one, SIGUSR1);
	sigprocmask(SIG_BLOCK, &one, NULL);
	set = epoll_create1(0);
	if (sem_init(&semaphore, 0, 0) || pipe(ends) || set < 0)
		return 5;
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		pthread_create(&threads[i], NULL, all[i], NULL);
	for (unsigned long i = 0; i < rounds; i++)
		steps_done();
	over = 1;
	if (write(ends[1], "x", 1) != 1)
		return 6;
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		pthread_join(threads[i], NULL);
	steps_answer(access("interrupted", F_OK) == 0);
	return 0;
}
