/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * followup: the work on a version after it is sealed. Private to job.
 *
 * The queue is protected by the lock of state; its first version belongs to the flusher.
 */
#ifndef KEDGE_JOB_FOLLOWUP_H
#define KEDGE_JOB_FOLLOWUP_H

#include "job/version.h"

struct kedge__followups { /* sealed versions that something comes after; under the lock of state */
	struct kedge__version *first, **end;
	bool untrimmed; /* old versions stay because another rank had a level pinned */
};

void kedge__followups_init(struct kedge__followups *f);
void kedge__followups_free(kedge_t *k);                  /* those that could not be ended */
bool kedge__followups_wanted(const kedge_t *k);          /* the settings ask for a flusher */
void kedge__followups_add(struct kedge__version *v);     /* V is sealed; takes it */
void kedge__followups_progress(kedge_t *k);              /* collective, does not wait for the flusher */
void kedge__followups_settle(kedge_t *k);                /* collective, until none is left */
void kedge__flush_local(struct kedge__version *v);
/* Collective. With bundles, where segments go is known then: true, and kedge__flush_fill() is to come before the end. False: it is not. */
bool kedge__flush_place(struct kedge__version *v);
void kedge__flush_fill(struct kedge__version *v);
void kedge__flush_publish(struct kedge__version *v);     /* collective */

/* bundles.c: files on L2 that have the segments of several ranks; its steps, of which place is collective */
uint32_t kedge__bundles_size(const kedge_t *k); /* ranks per bundle; 0: there are none */
int kedge__bundles_prepare(struct kedge__version *v, struct kedge__error *err);
int kedge__bundles_place(struct kedge__version *v, struct kedge__error *err);
int kedge__bundles_fill(struct kedge__version *v, struct kedge__error *err);
int kedge__bundles_name(struct kedge__version *v, struct kedge__error *err);
void kedge__bundles_discard(struct kedge__version *v, size_t first); /* of parts from FIRST on */
bool kedge__trim(kedge_t *k, bool l1 /* and not only L2 */); /* false: somebody has a level pinned, and old versions stay for now */

#endif
