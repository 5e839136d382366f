/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * device: an image that is reduced on the GPU that has it, so that only what changed, and is nowhere else, comes to the
 * host. Private to job.
 *
 * This is done if all regions on GPUs are on one, and others are small beside them: these are sent there. Otherwise, and
 * where the device has not enough memory for it, the image is copied to the host and reduced there (mirrors.h).
 */
#ifndef KEDGE_JOB_DEVICE_H
#define KEDGE_JOB_DEVICE_H

#include "job/job.h"
#include "reduce/reduce.h"

struct kedge__version;

struct kedge__job_device {
	struct kedge__gpu *gpu;  /* what follows is its */
	void *literals;          /* pinned, those of the version that is pending */
	uint64_t literal_room;
	uint64_t most;           /* that was asked for */
	unsigned versions;       /* in the last so many versions */
	kedge__gpu_address guests; /* regions of the host, on the device */
	uint64_t guest_room;
	bool given_up; /* and said so */
};

/* Where the image of V is reduced: v->device, with addresses in v->regions, or in mirrors. */
int kedge__device_lay(struct kedge__version *v, struct kedge__error *err);
/* Around a reduction there: with a turn, after the application's work, and with the regions of the host sent. RC is that of begin()
 * and of the reduction. */
int kedge__device_turn_begin(struct kedge__version *v, struct kedge__error *err);
int kedge__device_turn_end(struct kedge__version *v, int rc, struct kedge__error *err);
/* Reduce it there, if that is where; its literals are the host's then. If memory of the device is short, v->device is NULL afterwards,
 * and the image on the host. */
int kedge__device_capture(struct kedge__version *v, struct kedge__error *err);
void kedge__device_done(kedge_t *k);

#endif
