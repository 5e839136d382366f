/* SPDX-License-Identifier: BSD-3-Clause */
/* ranks: groups without MPI. Those who play the ranks meet twice over: in the foreground and in the background. */
#ifndef KEDGE_TESTS_LIB_RANKS_H
#define KEDGE_TESTS_LIB_RANKS_H

#include "meeting.h"

#define RANK_SECONDS 900

typedef void ranks_play(struct seat *front, struct seat *back, void *ctx);

/* SIZE processes; one that finds something wrong calls rank_end(), and the others find out when they wait for it. If all
 * wait and nobody can come they are ended (watch.h). One that is killed has left. Each has RANK_SECONDS; one that does much sets its alarm() again.
 * Returns the number of those that did not end with status 0, after having said which. */
int ranks_fork(int size, ranks_play *play, void *ctx);

/* The end of a process that plays a rank. */
void rank_end(struct seat *front, struct seat *back, int status) __attribute__((noreturn));

/* SIZE threads, until all have returned. */
void ranks_threads(int size, ranks_play *play, void *ctx);

#endif
