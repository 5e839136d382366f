/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mirrors: memory of the host in which regions on GPUs are while they are saved. Private to job.
 *
 * They belong to the application's threads.
 */
#ifndef KEDGE_JOB_MIRRORS_H
#define KEDGE_JOB_MIRRORS_H

#include "capture/capture.h"
#include "gpu/gpu.h"
#include "job/job.h"

#define KEDGE__GPUS 64 /* of a process, at most */

struct kedge__job_mirrors {
	struct kedge__gpu *gpus[KEDGE__GPUS]; /* by number; opened when they are first needed */
	void *memory;                         /* of all mirrors, pinned */
	struct kedge__gpu *pinner;            /* by this one */
	uint64_t bytes;
};

/* GPU number DEVICE, opened. */
int kedge__mirrors_gpu(kedge_t *k, int device, struct kedge__gpu **out, struct kedge__error *err);
/* A place for each region that is on a GPU, and in it what the region has now. All work that the application has given to its GPUs is waited for. */
int kedge__mirrors_fetch(kedge_t *k, struct kedge__error *err);
void kedge__mirrors_done(kedge_t *k);

#endif
