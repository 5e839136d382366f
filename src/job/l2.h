/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * l2: the right L2, or none. Private to job.
 *
 * It belongs to the application's threads, which examine L2 in collective calls.
 */
#ifndef KEDGE_JOB_L2_H
#define KEDGE_JOB_L2_H

#include "job/levels.h"

struct kedge__l2_view {
	struct kedge__error refused; /* why L2 is wanted but not used */
	enum kedge__sight sight;     /* what was seen there then, */
	struct kedge__store_id seen;
	bool hidden;                 /* and whether looking would show that it has changed */
};

void kedge__l2_done(struct kedge__l2_view *l2);
bool kedge__l2_wanted(const kedge_t *k); /* the settings name one; k->levels.at[KEDGE__L2].on: it is in use */
/* Collective. Not 0: it is not used, for what k->l2.refused says; logged. */
int kedge__l2_meet(kedge_t *k);
void kedge__l2_look_again(kedge_t *k); /* if it was refused; collective, in a call of the application, no write pending */
void kedge__l2_tie(kedge_t *k);        /* L1 remembers which L2 it belongs to from now on; any thread */
int kedge__l2_check(const kedge_t *k, struct kedge__error *err); /* it is still the one that it was; the flusher's */

#endif
