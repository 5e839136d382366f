/* SPDX-License-Identifier: BSD-3-Clause */
/* group: ranks as processes that meet in shared memory. */
#include "group.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

void *kedge__bench_shared_alloc(size_t bytes)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	return at == MAP_FAILED ? NULL : at;
}

void kedge__bench_meeting_init(struct kedge__bench_meeting *m, int ranks)
{
	pthread_barrierattr_t attributes;

	pthread_barrierattr_init(&attributes);
	pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
	pthread_barrier_init(&m->barrier, &attributes, (unsigned)ranks);
	pthread_barrierattr_destroy(&attributes);
}

void kedge__bench_meet(struct kedge__bench_meeting *m)
{
	pthread_barrier_wait(&m->barrier);
}

int kedge__bench_allgather(void *ctx, const void *send, size_t bytes, void *recv)
{
	struct kedge__bench_channel *c = ctx;

	if (bytes > KEDGE__BENCH_MESSAGE)
		return 1;
	memcpy(c->meeting->message[c->rank], send, bytes);
	kedge__bench_meet(c->meeting);
	for (int r = 0; r < c->ranks; r++)
		memcpy((uint8_t *)recv + (size_t)r * bytes, c->meeting->message[r], bytes);
	kedge__bench_meet(c->meeting);
	return 0;
}

/* PIDS of those that have ended become 0: their numbers may be others' by now. */
static int ranks_wait(int ranks, pid_t *pids)
{
	bool failed = false;

	for (int left = ranks; left; left--) {
		int status = 0;
		pid_t pid = wait(&status);
		bool fails = pid < 0 || status != 0;

		for (int r = 0; r < ranks; r++) {
			if (pids[r] == pid)
				pids[r] = 0;
			else if (fails && !failed && pids[r] > 0)
				kill(pids[r], SIGKILL);
		}
		failed = failed || fails;
	}
	return failed ? KEDGE_E_IO : 0;
}

int kedge__bench_ranks_run(int ranks, int (*run)(void *ctx, int rank), void *ctx)
{
	pid_t pids[KEDGE__BENCH_RANKS];

	fflush(NULL);
	for (int r = 0; r < ranks; r++) {
		pids[r] = fork();
		if (pids[r] == 0) {
			int rc = run(ctx, r);

			fflush(NULL);
			_exit(rc ? KEDGE__EXIT_FAILURE : 0);
		}
		if (pids[r] < 0) {
			while (r--)
				kill(pids[r], SIGKILL);
			while (wait(NULL) > 0)
				continue;
			return KEDGE_E_NOMEM;
		}
	}
	return ranks_wait(ranks, pids);
}
