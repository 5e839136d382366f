/* SPDX-License-Identifier: BSD-3-Clause */
/* group: ranks of a job as processes of this machine, which exchange messages through shared memory. */
#ifndef KEDGE_BENCH_GROUP_H
#define KEDGE_BENCH_GROUP_H

#include "tool.h"

#define KEDGE__BENCH_RANKS   64
#define KEDGE__BENCH_MESSAGE ((size_t)256 << 10)

/* Where all ranks meet. In memory that they share: kedge__bench_shared_alloc(). */
struct kedge__bench_meeting {
	pthread_barrier_t barrier;
	uint8_t message[KEDGE__BENCH_RANKS][KEDGE__BENCH_MESSAGE];
};

/* One rank's end of a meeting: the context of kedge__bench_allgather(). */
struct kedge__bench_channel {
	struct kedge__bench_meeting *meeting;
	int rank, ranks;
};

/* Zeroed, shared with processes that are forked later, never freed; NULL if there is no memory. */
void *kedge__bench_shared_alloc(size_t bytes);
void kedge__bench_meeting_init(struct kedge__bench_meeting *m, int ranks);
void kedge__bench_meet(struct kedge__bench_meeting *m);
/* The allgather() of struct kedge_group. */
int kedge__bench_allgather(void *ctx, const void *send, size_t bytes, void *recv);

/*
 * RUN in RANKS processes, which end with it. 0 if it returned 0 in each. If one fails, the others are ended, as they may
 * be waiting for it; its message is its own business.
 */
int kedge__bench_ranks_run(int ranks, int (*run)(void *ctx, int rank), void *ctx);

#endif
