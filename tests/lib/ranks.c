/* SPDX-License-Identifier: BSD-3-Clause */
#include "ranks.h"

#include "require.h"
#include "watch.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#define WATCH_MS 100

void rank_end(struct seat *front, struct seat *back, int status)
{
	meeting_leave(front->meeting);
	meeting_leave(back->meeting);
	_exit(status);
}

static void say_stuck(const struct meeting *m, const char *channel)
{
	fprintf(stderr, "\t%s channel: %d of %d ranks wait, %d have left\n", channel, m->arrived, m->size, m->left);
}

/* One that was killed has not said that it leaves. */
static void leave_for(pid_t pid, struct meeting *front, struct meeting *back)
{
	siginfo_t how = {0};

	if (waitid(P_PID, (id_t)pid, &how, WEXITED | WNOWAIT) == 0 && how.si_code != CLD_EXITED) {
		meeting_leave(front);
		meeting_leave(back);
	}
}

/* Until all have closed the other end of their ENDED, which they do when they end; those that cannot go on are ended.
 */
static void watch_over(pid_t *pids, int size, const int *ended, struct meeting *front, struct meeting *back)
{
	struct pollfd ends[MEETING_RANKS];
	struct watch w = {0};
	int left = size;

	for (int i = 0; i < size; i++)
		ends[i] = (struct pollfd){.fd = ended[i], .events = POLLIN};
	while (left) {
		if (poll(ends, (nfds_t)size, WATCH_MS) > 0) {
			for (int i = 0; i < size; i++) {
				if (!ends[i].revents)
					continue;
				leave_for(pids[i], front, back);
				ends[i].fd = -1;
				left--;
			}
			continue;
		}
		if (!watch_stuck(&w, pids, (size_t)size))
			continue;
		fprintf(stderr, "no rank can go on: all wait, and nobody is left to come\n");
		say_stuck(front, "front");
		say_stuck(back, "back");
		for (int i = 0; i < size; i++)
			kill(pids[i], SIGKILL);
		return;
	}
}

/* *ENDED can be read from once the process has ended. */
static pid_t rank_fork(int rank, int size, struct meeting *front, struct meeting *back, int *ended, ranks_play *play,
		       void *ctx)
{
	int ends[2];
	pid_t pid;

	REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
	pid = fork();
	REQUIRE(pid >= 0);
	if (pid == 0) {
		struct seat a = {front, rank, size}, b = {back, rank, size};

		for (int i = 0; i < rank; i++)
			close(ended[i - rank]);
		close(ends[0]);
		alarm(RANK_SECONDS);
		play(&a, &b, ctx);
		rank_end(&a, &b, 0);
	}
	close(ends[1]);
	*ended = ends[0];
	return pid;
}

int ranks_fork(int size, ranks_play *play, void *ctx)
{
	struct meeting *front = meeting_new(size), *back = meeting_new(size);
	pid_t pids[MEETING_RANKS];
	int failed = 0, ended[MEETING_RANKS];

	fflush(NULL);
	for (int i = 0; i < size; i++)
		pids[i] = rank_fork(i, size, front, back, &ended[i], play, ctx);
	watch_over(pids, size, ended, front, back);
	for (int i = 0; i < size; i++) {
		int status;

		close(ended[i]);
		REQUIRE(waitpid(pids[i], &status, 0) == pids[i]);
		if (status)
			fprintf(stderr, "rank %d ended with status %#x\n", i, (unsigned)status);
		failed += status != 0;
	}
	meeting_free(front);
	meeting_free(back);
	return failed;
}

struct player {
	struct seat front, back;
	ranks_play *play;
	void *ctx;
	pthread_t thread;
};

static void *player_main(void *arg)
{
	struct player *p = arg;

	p->play(&p->front, &p->back, p->ctx);
	meeting_leave(p->front.meeting);
	meeting_leave(p->back.meeting);
	return NULL;
}

void ranks_threads(int size, ranks_play *play, void *ctx)
{
	struct meeting *front = meeting_new(size), *back = meeting_new(size);
	struct player players[MEETING_RANKS];

	for (int i = 0; i < size; i++) {
		players[i] = (struct player){{front, i, size}, {back, i, size}, play, ctx, 0};
		REQUIRE(pthread_create(&players[i].thread, NULL, player_main, &players[i]) == 0);
	}
	for (int i = 0; i < size; i++)
		REQUIRE(pthread_join(players[i].thread, NULL) == 0);
	meeting_free(front);
	meeting_free(back);
}
