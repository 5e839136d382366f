/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mirrors: memory of the host in which regions on GPUs are while they are saved. Private to job.
 *
 * They belong to the application's threads.
 */
#ifndef KEDGE_JOB_MIRRORS_H
#define KEDGE_JOB_MIRRORS_H

#include "capture/capture.h"
#include "job/job.h"
#include "job/pieces.h"

struct kedge__job_mirrors {
	void *memory;                  /* of all mirrors */
	uint64_t bytes;
	struct kedge__gpu *pinner;     /* NULL: it is not pinned */
	struct kedge__pieces pieces; /* then they are copied through this */
	bool told;                     /* it was said that it is not pinned */
};

/* Mirrors begin at multiples of 256, and so do copies of regions on a GPU. */
static inline uint64_t kedge__mirror_room(const struct kedge__region *r)
{
	return (r->bytes + 255) / 256 * 256;
}

/* A place for each region that is on a GPU, and in it what the region has now, after the work that the application has given to its
 * GPUs; that which concerns managed memory is done, too. */
int kedge__mirrors_fetch(kedge_t *k, struct kedge__error *err);
void kedge__mirrors_done(kedge_t *k);

#endif
