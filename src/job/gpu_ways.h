/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gpu_ways: the ways to GPUs (restore.h), through which a restart and kedge_read() fill memory there. Private to job.
 *
 * They belong to the application's threads, and are kept until the handle is closed.
 */
#ifndef KEDGE_JOB_GPU_WAYS_H
#define KEDGE_JOB_GPU_WAYS_H

#include "job/gpus.h"
#include "restore/restore.h"

struct kedge__job_gpu_ways {
	struct {
		struct kedge__restore_device *way; /* NULL: it was not needed yet */
		uint64_t bytes;                    /* of a buffer, as it was asked for */
	} devices[KEDGE__GPUS]; /* by number */
	uint64_t most; /* bytes of a buffer; 0: as many as are of use */
};

/* The way to GPU number DEVICE, for BYTES. The one that an earlier call got may be gone: it is asked for all bytes at once. */
int kedge__gpu_ways_need(kedge_t *k, int device, uint64_t bytes, struct kedge__restore_device **out, struct kedge__error *err);
void kedge__gpu_ways_done(kedge_t *k);

#endif
