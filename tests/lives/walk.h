/* SPDX-License-Identifier: BSD-3-Clause */
/* walk: one store, and what is shared between the lives of its job, their ranks, and the judge. */
#ifndef TESTS_LIVES_WALK_H
#define TESTS_LIVES_WALK_H

#include "../lib/damage.h"
#include "../lib/files.h"
#include "../lib/meeting.h"
#include "../lib/scratch.h"
#include "model.h"
#include "settings.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define WALK_RANKS MODEL_RANKS

/* Memory that all processes of a walk share. */
struct shared {
	struct model model;
	struct meeting front, back; /* of a life's ranks, in the library */
	struct meeting side;        /* and outside of it */
	uint64_t other;             /* the last version that the other job was told is complete; 0: none that is sure */
	bool foreign[2];            /* files that are nobody's business were put there, and must stay */
	char trouble[600];
	char moves[8192]; /* of this walk so far, in words */
};

struct walk {
	uint64_t seed, state;
	int ranks;
	size_t scale;
	bool moments, verbose, second_level;
	bool own_first; /* each rank has an L1 of its own, as on nodes without a common one */
	int copied;     /* number of nodes when a copy of L1 was made; MODEL_NONE: there is none */
	bool copied_sure[MODEL_NODES];
	char dir[FILES_PATH];
	const char *program; /* this one's path */
	struct shared *shared;
};

enum ending { LIVED, WRONG, CUT_SHORT };

/* walk.c */
void walk_say(struct walk *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void walk_trouble(struct walk *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void first_level_path(const struct walk *w, int rank, char path[FILES_PATH]);
void second_level_path(const struct walk *w, char path[FILES_PATH]);

/* life.c: be RANK in LIFE. */
void live(struct walk *w, const struct life *life, int rank);

/* between.c: something happens to the files between two lives. */
void between(struct walk *w);
void first_level_lost(struct walk *w); /* in the model */
void second_away(struct walk *w, uint64_t how);
void second_back(struct walk *w);

/* judge.c: every version against the model. False: trouble. */
bool judge(struct walk *w);

/* guests.c: other processes. They return what main() has to. */
int guest_rival(const char *l1, const char *l2);
int guest_other(const char *l1, const char *l2, uint64_t last);
int guest_crowd(const char *l1, const char *l2, uint64_t above);
int guest_run(const struct walk *w, const char *role); /* 0: as it must be */

#endif
