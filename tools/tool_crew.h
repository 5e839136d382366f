/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tool_crew: the ranks of a job that are all in this process, each with a thread of its own. Few have their turn at a time, and one that waits for the others lets another have its turn. So what many ranks need at once is what few need.
 */
#ifndef KEDGE_TOOLS_TOOL_CREW_H
#define KEDGE_TOOLS_TOOL_CREW_H

#include "tool.h"

struct kedge__crew_seat { /* a rank's; its group's context */
	struct kedge__crew *crew;
	int rank;
	const void *send; /* in the exchange that goes on */
};

struct kedge__crew {
	int size, at_once;
	struct kedge__crew_seat *seats;
	struct kedge__worker **workers; /* of each rank; NULL: they were not needed yet */
	pthread_mutex_t lock; /* over what follows */
	pthread_cond_t turn;  /* somebody may have one */
	pthread_cond_t met;   /* all have come */
	int turns;            /* that nobody has */
	int arrived;
	uint64_t round;
	size_t bytes; /* of the first that arrived */
	bool broken;  /* they were out of step once: no exchange will do */
	uint8_t *fold; /* what is left when all messages are one */
	size_t fold_room;
};

void kedge__crew_init(struct kedge__crew *c, int size, int at_once);
void kedge__crew_done(struct kedge__crew *c); /* takes one that is all zero */
/* For kedge_open_group(); the crew outlives the handles. */
struct kedge_group kedge__crew_group(struct kedge__crew *c, int rank);
/*
 * PLAY for each rank; for a crew of one in this thread. All play, whatever becomes of others, and so may meet in collective calls, each
 * in the same ones. The first failure that is not that of another rank, or 0.
 */
int kedge__crew_run(struct kedge__crew *c, int (*play)(void *ctx, int rank, struct kedge__error *err), void *ctx, struct kedge__error *err);
/* RC of a call to kedge.h in this thread, with what the library says. */
int kedge__crew_said(const kedge_t *k, int rc, struct kedge__error *err);

#endif
