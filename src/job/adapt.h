/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * adapt: the policy of this job. Private to job.
 *
 * It belongs to the application's threads; rank 0's policy decides. The writer and the flusher hand over their measurements
 * under the lock of state.
 */
#ifndef KEDGE_JOB_ADAPT_H
#define KEDGE_JOB_ADAPT_H

#include "job/job.h"
#include "job/messages.h"
#include <stdatomic.h>

struct kedge__advice {
	struct kedge__policy policy;
	double (*clock)(void); /* what the policy takes for the time */
	uint64_t skip; /* questions to the policy that are answered "later" without asking, the same on all ranks */
	struct kedge__l2_flush flushed; /* that the policy does not know of yet; negative seconds: none */
	bool asked;             /* the application asks when to checkpoint, and the journal knows */
	atomic_bool soon;       /* somebody wants a version: a signal handler, perhaps */
	uint64_t increment[3];  /* the same of a version on L1: bytes of the image, new ones, stored; zeros: none */
};

void kedge__advice_init(struct kedge__advice *a);
int kedge__adapt_init(kedge_t *k, struct kedge__error *err); /* the settings are there */
void kedge__adapt_load(kedge_t *k);                          /* what the last process measured */
void kedge__adapt_save(kedge_t *k, bool closed);             /* only logs */
void kedge__adapt_taken(kedge_t *k, double blocked, double dirty);
/* Rank 0: questions after the checkpoint in progress that need no answer, so that its write is not waited for. */
uint64_t kedge__adapt_skip_ahead(const kedge_t *k);
void kedge__adapt_restarted(kedge_t *k, struct kedge__set_key key, int level, double seconds); /* LEVEL: 1 or 2 */
void kedge__adapt_skip(kedge_t *k, uint64_t questions);
void kedge__adapt_increment(kedge_t *k, const struct kedge_stats *stats);        /* of a version that was sealed; any thread */
void kedge__adapt_flushed(kedge_t *k, const struct kedge__l2_flush *flush);      /* any thread */

#endif
