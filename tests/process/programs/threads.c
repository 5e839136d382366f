/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * threads: four threads with a barrier, a condition, mutexes of all kinds that know their owner, an epoll set with a
 * pipe and an event counter, and one thread that blocks all signals.
 */
#include "steps.h"

#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>

#define THREADS 4

static pthread_barrier_t barrier;
static pthread_mutex_t recursive, heir, robust, plain = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static uint64_t sums[THREADS], turn;
static unsigned long rounds;
static int ends[2], event, set;

static void make_mutex(pthread_mutex_t *m, int type, int protocol, int robustness)
{
	pthread_mutexattr_t a;

	pthread_mutexattr_init(&a);
	pthread_mutexattr_settype(&a, type);
	pthread_mutexattr_setprotocol(&a, protocol);
	pthread_mutexattr_setrobust(&a, robustness);
	pthread_mutex_init(m, &a);
}

static void must(int code)
{
	if (code)
		_exit(9);
}

/* A byte and a count go through the kernel. */
static uint64_t through_kernel(uint64_t x)
{
	struct epoll_event ready;
	unsigned char byte = (unsigned char)x, back;
	uint64_t one = 1, count;

	must(write(ends[1], &byte, 1) != 1 || write(event, &one, 8) != 8);
	must(epoll_wait(set, &ready, 1, -1) < 1);
	must(read(ends[0], &back, 1) != 1 || read(event, &count, 8) != 8);
	return back * 3u + count + ready.data.u64 % 2;
}

static uint64_t locked_round(uint64_t me, uint64_t x)
{
	must(pthread_mutex_lock(&recursive));
	must(pthread_mutex_lock(&recursive));
	must(pthread_mutex_lock(&heir));
	must(pthread_mutex_lock(&robust));
	for (int i = 0; i < 2000; i++)
		x = steps_mix(x + me);
	must(pthread_mutex_unlock(&robust));
	must(pthread_mutex_unlock(&heir));
	must(pthread_mutex_unlock(&recursive));
	must(pthread_mutex_unlock(&recursive));
	return x;
}

static void *work(void *arg)
{
	uint64_t me = (uint64_t)(uintptr_t)arg, x = me;
	sigset_t all;

	if (me == 1) {
		sigfillset(&all);
		pthread_sigmask(SIG_BLOCK, &all, NULL);
	}
	for (unsigned long i = 0; i < rounds; i++) {
		x = locked_round(me, x);
		/* One after the other. */
		must(pthread_mutex_lock(&plain));
		while (turn % THREADS != me)
			must(pthread_cond_wait(&changed, &plain));
		x = steps_mix(x + through_kernel(x + turn) + (turn ? sums[(me + 1) % THREADS] : 0));
		sums[me] = x;
		turn++;
		must(pthread_cond_broadcast(&changed));
		must(pthread_mutex_unlock(&plain));
		if (pthread_barrier_wait(&barrier) == PTHREAD_BARRIER_SERIAL_THREAD)
			steps_done();
		/* Each knows itself. */
		must(pthread_kill(pthread_self(), 0));
	}
	return NULL;
}

static void watch(int fd, uint64_t data)
{
	struct epoll_event e = {.events = EPOLLIN, .data = {.u64 = data}};

	must(epoll_ctl(set, EPOLL_CTL_ADD, fd, &e));
}

int main(int argc, char **argv)
{
	pthread_t threads[THREADS];
	uint64_t sum = 0;

	rounds = steps_open(argc, argv);
	make_mutex(&recursive, PTHREAD_MUTEX_RECURSIVE, PTHREAD_PRIO_NONE, PTHREAD_MUTEX_STALLED);
	make_mutex(&heir, PTHREAD_MUTEX_ERRORCHECK, PTHREAD_PRIO_INHERIT, PTHREAD_MUTEX_STALLED);
	make_mutex(&robust, PTHREAD_MUTEX_NORMAL, PTHREAD_PRIO_NONE, PTHREAD_MUTEX_ROBUST);
	pthread_barrier_init(&barrier, NULL, THREADS);
	event = eventfd(0, 0);
	set = epoll_create1(EPOLL_CLOEXEC);
	must(pipe(ends) || event < 0 || set < 0);
	watch(ends[0], 2);
	watch(event, 4);
	for (uintptr_t i = 0; i < THREADS; i++)
		must(pthread_create(&threads[i], NULL, work, (void *)i));
	for (int i = 0; i < THREADS; i++)
		must(pthread_join(threads[i], NULL));
	for (int i = 0; i < THREADS; i++)
		sum = steps_mix(sum ^ sums[i]);
	steps_answer(sum);
	return 0;
}
