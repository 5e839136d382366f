/* SPDX-License-Identifier: BSD-3-Clause */
/* job: one rank of a life that is under way. */
#ifndef TESTS_LIVES_JOB_H
#define TESTS_LIVES_JOB_H

#include "walk.h"
#include "base/base.h"

#include <kedge/kedge.h>

#include <sched.h>
#include <stdatomic.h>

struct job {
	struct walk *walk;
	struct life life;
	struct memory *now;
	kedge_t *k;
	int rank;
	uint64_t common; /* for draws that must be the same on all ranks */
	atomic_bool still;

	/* As the model has it; the same on all ranks. */
	int next, first; /* the next node; the first of this life */
	int tip;         /* what the next version follows */
	int run;         /* MODEL_NONE: the next version begins one */
	uint64_t epoch;
	uint64_t last;   /* what is taken next is above it; NO_VERSION: anything may be */
	bool again;      /* it may be taken itself */
	bool fresh;      /* neither restarted nor taken a version */
	uint64_t floor;  /* numbers below it are refused, for sure */
	bool away;        /* L2 is */
	bool second_went; /* L2 was, or came back, in this life */
	int first_left;   /* the first node of this life that L1 was not purged of */
	int first_heard;  /* the first node after a failure in the background: another past may have had the number of one before */
	bool purged;      /* L1 was, and no version was taken since */
	bool shadow;      /* versions are listed that cannot be restored */
	bool torn;        /* some rank's L1 is not what the others' are */
	bool damaged;     /* some file was, before this life */
};

/* life.c */
struct model *job_model(struct job *j);
_Noreturn void wrong(struct job *j, const char *what, const char *detail);
/* A call failed: the end of this life where a fault explains it, a finding where not. */
void failed(struct job *j, const char *call);
int protect_all(struct job *j);
bool take(struct job *j, uint64_t version, bool racing); /* false: this life ends */
bool settle(struct job *j); /* all is on its levels; false: not all */
bool restart(struct job *j, uint64_t version, int node);

/* moves.c: all that the program does between open and close. False: a fault ended it. */
bool moves(struct job *j);

#endif
