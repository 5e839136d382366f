/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * model: what must be in the store. Every checkpoint that a program asks for is a node, with the digests of what was in
 * memory, and with the node that it follows: so the versions of a job are a tree, of which the present history is one
 * path from the root. A node is sure on a level when the library said that it is complete there: from then on it has to
 * be found and to be right, until something happens that takes it away: an older version restarted from, kedge_discard(),
 * keep, gc, or damage.
 *
 * Of several paths the one with the latest run counts (FORMAT.md, "Runs"): runs are ordered by epoch, and those of one
 * epoch by time.
 */
#ifndef TESTS_LIVES_MODEL_H
#define TESTS_LIVES_MODEL_H

#include "../lib/meeting.h"
#include "memory.h"

#define MODEL_NODES 600
#define MODEL_RANKS 3
#define MODEL_NONE  (-1)
#define MODEL_MARKS 64
#define NO_VERSION  UINT64_MAX

struct node {
	uint64_t version;
	int parent;
	int run; /* the node that the run began with */
	uint64_t epoch;
	bool sure[2]; /* on L1, on L2 */
	uint64_t trim[2]; /* it may go when so many newer ones are there; 0: it may not */
	bool was[2];  /* it was there, or may have been, until a discard of this life, or until L2 went away: keep may have counted it before */
	bool gone;    /* discarded */
	bool racing;  /* the last area was written to meanwhile: its digest is what is found first */
	uint64_t digest[MODEL_RANKS][MEMORY_AREAS];
};

/* A file that a bit was altered of. */
struct mark {
	char path[256];
	uint64_t version; /* NO_VERSION: it is not a part of a version */
	int level;
};

struct model {
	int count; /* of nodes */
	struct node nodes[MODEL_NODES];
	struct mark marks[MODEL_MARKS];
	int mark_count;
	int instead;      /* of L2: what was put there */
	bool second_away; /* something else, or nothing, is where L2 was */
	bool torn;        /* a rank's L1 was lost, cloned or replaced, and not those of the others: manifests without segments */
	bool returned;    /* an old copy of L1 was put back: what was discarded may be there */

	/* The first version of a run, with an L1 for each rank, that was perhaps published on some of them and not on others: what
	 * it was to abandon, or to replace, does not count then, and it is not complete. MODEL_NONE: there is none. */
	int half;

	int first; /* of the last life */

	/* What the judge found, before a life. */
	int top;                  /* the newest version of the present history that can be restored */
	int base;                 /* the newest, whether it can or not */
	bool shadow;              /* not all can */
	int list[MODEL_NODES];    /* all that can be, ascending */
	int listed;
	uint64_t top_number;      /* of all that are there; NO_VERSION: none */
	uint64_t epoch;
};

bool model_has(const struct model *m, int tip, int node); /* TIP is NODE, or follows it */
int model_below(const struct model *m, int tip, uint64_t version); /* the newest of TIP and what it follows below VERSION */
bool model_reaches(const struct model *m, int level);
bool model_later(const struct model *m, int a, int b); /* A counts, not B */

/* NODE was published: nothing that it does not follow is sure any more, where it could be removed. */
void model_published(struct model *m, int node);
/* Of the versions of LEVEL that TIP follows, all but the newest KEEP (0: all) may go now. */
void model_keep(struct model *m, int level, int tip, uint64_t keep);
/* Which node VERSION is, if nobody can read it, of those that follow BASE, the version below it. */
int model_guess(const struct model *m, uint64_t version, int base);
void model_unsure(struct model *m, int level);
void model_mark(struct model *m, int level, const char *path);
bool model_marked(const struct model *m, int level);

#endif
