/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mirrors: memory of the host in which regions on GPUs are while they are saved or restored. Private to job.
 *
 * They belong to the application's threads.
 */
#ifndef KEDGE_JOB_MIRRORS_H
#define KEDGE_JOB_MIRRORS_H

#include "capture/capture.h"
#include "job/job.h"
#include "job/staging.h"

struct kedge__job_mirrors {
	void *memory;                  /* of all mirrors */
	uint64_t bytes;
	struct kedge__gpu *pinner;     /* NULL: it is not pinned */
	struct kedge__staging staging; /* then they are copied through this */
	bool told;                     /* it was said that it is not pinned */
};

/* A place for each region that is on a GPU. What GPUs have to do to regions in managed memory is done afterwards. */
int kedge__mirrors_lay(kedge_t *k, struct kedge__error *err);
/* The same, and in it what the region has now, after the work that the application has given to its GPUs. */
int kedge__mirrors_fetch(kedge_t *k, struct kedge__error *err);
/* The regions get what is there. */
int kedge__mirrors_send(kedge_t *k, struct kedge__error *err);
/* BYTES bytes at FROM to TO, on GPU number DEVICE. */
int kedge__mirrors_put(kedge_t *k, int device, void *to, const void *from, uint64_t bytes, struct kedge__error *err);
void kedge__mirrors_done(kedge_t *k);

#endif
