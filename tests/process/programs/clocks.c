/* SPDX-License-Identifier: BSD-3-Clause */
/* clocks: descriptors that stand for time and signals: timers that run, that are still to run, and that have run and
 * were not read; a signal that was not read. */
#include "steps.h"

#include <errno.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>

static int timer(int clock, long seconds, long ns, long every)
{
	struct itimerspec when = {{0, every}, {seconds, ns}};
	int fd = timerfd_create(clock, TFD_NONBLOCK);

	if (fd < 0 || timerfd_settime(fd, 0, &when, NULL) != 0)
		exit(5);
	return fd;
}

/* Expirations; 0: none yet. */
static uint64_t ticks(int fd)
{
	uint64_t n = 0;

	return read(fd, &n, sizeof(n)) == (ssize_t)sizeof(n) ? n : 0;
}

static int signals(void)
{
	sigset_t set;
	int fd;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, NULL);
	fd = signalfd(-1, &set, SFD_NONBLOCK);
	if (fd < 0 || raise(SIGUSR1) != 0)
		exit(5);
	return fd;
}

int main(int argc, char **argv)
{
	unsigned long rounds = steps_open(argc, argv);
	int running = timer(CLOCK_MONOTONIC, 0, 1000000, 1000000), far = timer(CLOCK_BOOTTIME, 100000, 0, 0),
	    once = timer(CLOCK_REALTIME, 0, 1, 0), unset = timer(CLOCK_MONOTONIC, 0, 0, 0), fd = signals(),
	    again = dup(once);
	struct signalfd_siginfo info = {0};
	struct itimerspec left;
	uint64_t x = 0;

	for (unsigned long i = 0; i < rounds; i++) {
		x = steps_mix(x + i);
		steps_done();
	}
	while (!ticks(running))
		usleep(100);
	if (timerfd_gettime(far, &left) != 0 || left.it_value.tv_sec > 100000 || left.it_value.tv_sec < 50000)
		exit(7);
	/* Both numbers are one timer, which has run once. */
	if (ticks(again) != 1 || ticks(once) != 0 || ticks(unset) != 0)
		exit(8);
	if (read(fd, &info, sizeof(info)) != (ssize_t)sizeof(info) || info.ssi_signo != SIGUSR1 ||
	    read(fd, &info, sizeof(info)) >= 0 || errno != EAGAIN)
		exit(9);
	steps_answer(x);
	return 0;
}
