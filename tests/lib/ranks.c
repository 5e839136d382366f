#include "ranks.h"

#include "require.h"

#include <sys/wait.h>
#include <unistd.h>

#define RANK_SECONDS 60

void rank_end(struct seat *front, struct seat *back, int status)
{
	meeting_leave(front->meeting);
	meeting_leave(back->meeting);
	_exit(status);
}

int ranks_fork(int size, ranks_play *play, void *ctx)
{
	struct meeting *front = meeting_new(size), *back = meeting_new(size);
	pid_t pids[MEETING_RANKS];
	int failed = 0;

	fflush(NULL);
	for (int i = 0; i < size; i++) {
		pids[i] = fork();
		REQUIRE(pids[i] >= 0);
		if (pids[i] == 0) {
			struct seat a = {front, i, size}, b = {back, i, size};

			alarm(RANK_SECONDS);
			play(&a, &b, ctx);
			rank_end(&a, &b, 0);
		}
	}
	for (int i = 0; i < size; i++) {
		int status;

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
