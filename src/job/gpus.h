/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gpus: the GPUs that a handle has work for. Private to job.
 *
 * They belong to the application's threads. Work on them is bracketed: the GPUs that take part are wanted, then it begins,
 * with a turn on each of them, and ends. Nothing that other ranks do may be waited for in between: they may want the turn.
 */
#ifndef KEDGE_JOB_GPUS_H
#define KEDGE_JOB_GPUS_H

#include "gpu/gpu.h"
#include "job/job.h"

#define KEDGE__GPUS 64 /* of a process, at most */

struct kedge__job_gpus {
	struct kedge__job_gpu {
		struct kedge__gpu *gpu; /* opened when it is first needed */
		void *stream;           /* of the application's work; NULL: any */
		bool wanted;            /* for what begins next, or has begun */
		struct kedge__gpu_turn turn;
	} at[KEDGE__GPUS]; /* by number */
};

void kedge__gpus_init(kedge_t *k);
void kedge__gpus_done(kedge_t *k);

/* GPU number DEVICE, opened. */
int kedge__gpus_need(kedge_t *k, int device, struct kedge__gpu **out, struct kedge__error *err);
/* What the application has given to it is done: processors may read and write managed memory. */
int kedge__gpus_wait(kedge_t *k, int device, struct kedge__error *err);
/* As need(), and it takes part in what begins next. */
int kedge__gpus_want(kedge_t *k, int device, struct kedge__error *err);
/* A turn on each; and what is put on their streams comes after what the application has given to them. */
int kedge__gpus_begin(kedge_t *k, struct kedge__error *err);
/* RC is that of begin() and of all since then: unless it has failed, what was put on the streams is waited for. In any case
 * the turns are given back, and nothing is wanted any more. */
int kedge__gpus_end(kedge_t *k, int rc, struct kedge__error *err);

#endif
