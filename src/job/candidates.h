/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * candidates: the versions that a restart may return to, newest first. Private to job.
 *
 * Usually all ranks hold the same versions, as a digest shows in one exchange: then each rank walks down its own holdings, and
 * no list is made. Otherwise a list of the versions that all ranks have is made.
 */
#ifndef KEDGE_JOB_CANDIDATES_H
#define KEDGE_JOB_CANDIDATES_H

#include "job/levels.h"

struct kedge__candidates {
	kedge_t *k;
	struct kedge__run present;    /* owned */
	const struct kedge__run *run; /* they belong to: the present one; NULL: to any */
	uint64_t version;             /* or KEDGE_NEWEST */
	uint64_t at_most;
	size_t left[KEDGE__LEVELS];   /* entries of each level that were not passed yet */
	bool lost;                    /* some rank has versions, but none is there on every rank, on any level */
	bool listed;
	struct kedge__set_key *list;  /* owned; in the order in which they are tried */
	size_t count, next;
};

/* Collective. VERSION, or with KEDGE_NEWEST all up to AT_MOST. KEDGE_E_NOTFOUND, or a better reason: there is none. One _done(), also on failure. */
int kedge__candidates_find(kedge_t *k, uint64_t version, uint64_t at_most, struct kedge__candidates *c, struct kedge__error *err);
bool kedge__candidates_next(struct kedge__candidates *c, struct kedge__set_key *key); /* false: there is no other */
void kedge__candidates_done(struct kedge__candidates *c);

#endif
