/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ahead: a version on its way to L2 while it is written to L1. Private to job.
 *
 * Whether and how a version goes to L2 is decided when it is sealed. Where it will most likely go as it is, the flusher copies
 * its segment while the writer writes it (store/companion.c); the flush then finds it there. Nothing else depends on it: without it, or if it fails,
 * the flush does it all. It belongs to the flusher, except that the writer may give it up.
 */
#ifndef KEDGE_JOB_AHEAD_H
#define KEDGE_JOB_AHEAD_H

#include "job/version.h"

struct kedge__ahead {
	kedge_t *k;
	uint64_t version;
	struct kedge__companion *companion;
	bool pinned; /* L2 */
	double began, seconds; /* when the flusher began, and how long it took */
};

void kedge__ahead_begin(struct kedge__version *v); /* its segment is about to be written */
void kedge__ahead_decide(struct kedge__version *v); /* V is sealed, and how it goes to L2 is known */
void kedge__ahead_drop(struct kedge__version *v);  /* it is not needed; not for the flusher */
void kedge__ahead_end(struct kedge__version *v);   /* the flusher's: it is not needed any more */
struct kedge__companion *kedge__ahead_companion(const struct kedge__version *v); /* or NULL */

#endif
