/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * image: where the bytes of a version come from. Private to job.
 *
 * `holding` is protected by the lock of state: the writer releases memory that a thread of the application waits for. The rest
 * belongs to the thread that takes a checkpoint.
 */
#ifndef KEDGE_JOB_IMAGE_H
#define KEDGE_JOB_IMAGE_H

#include "job/version.h"
#include <pthread.h>

struct kedge__job_image {
	struct kedge__reserve reserve; /* what a pending version holds aside is in it */
	bool cow;                      /* memory may be write-protected for that */
	bool holding;                  /* the pending version needs the application's memory as it is */
	pthread_cond_t let_go;         /* it does not any more */
};

void kedge__image_init(kedge_t *k);
void kedge__image_choose(kedge_t *k); /* by the settings, and by what the kernel can do */
void kedge__image_done(kedge_t *k);
/* v->hold, so that the rest is the writer's, or v->live, with capture = sync or where a hold cannot be had. */
int kedge__image_hold(struct kedge__version *v, struct kedge__error *err);
int kedge__image_reduce(struct kedge__version *v, struct kedge__error *err); /* what was taken; then v->source */
int kedge__image_release(struct kedge__version *v, struct kedge__error *err);
void kedge__image_forget(struct kedge__version *v); /* what came of it so far; it may be held again */
void kedge__image_wait(kedge_t *k); /* until no version needs the application's memory any more */

#endif
