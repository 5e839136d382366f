/* round: one store, and what is shared between the lives of its job, their ranks, and the judge. */
#ifndef TESTS_SOAK_ROUND_H
#define TESTS_SOAK_ROUND_H

#include "../meeting.h"
#include "draw.h"

#define ROUND_RANKS MEETING_RANKS

/* What the library called complete. */
struct promise {
	bool held;
	struct history_log log;
};

struct shared {
	struct promise level[2];
	bool first_needs_second; /* L1 was damaged: what is there now may refer to versions on L2 */
	bool damaged;            /* something was altered or lost in this round */
	bool first_flipped;      /* a bit of L1 was altered */
	bool second_damaged;     /* and nobody read it again: no version there can be relied on */
	uint64_t found[ROUND_RANKS]; /* the version that each rank of this life went on from; UINT64_MAX: not yet known */
	struct meeting front, back; /* of a life's ranks */
	char trouble[400];
};

struct round {
	uint64_t seed, state;
	int ranks;
	bool moments, verbose, second_level;
	bool own_first; /* each rank has an L1 of its own, as on nodes without a common one */
	char dir[64];
	struct shared *shared;
};

enum ending { LIVED, WRONG, CUT_SHORT };

/* live.c: be RANK in LIFE. */
void live(struct round *r, const struct life *life, int rank);

/* between.c: what happens to the files between two lives, in words. */
const char *damage(struct round *r);
const char *tend(struct round *r);
void remove_tree(const char *path);
void first_level_path(const struct round *r, int rank, char *path, size_t room);

#endif
