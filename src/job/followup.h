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
void kedge__flush_publish(struct kedge__version *v);     /* collective */
bool kedge__trim(kedge_t *k, bool l1 /* and not only L2 */); /* false: somebody has a level pinned, and old versions stay for now */

#endif
