/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * staging: copies between GPUs and memory of the host that could not be pinned, through two small pieces that could.
 * Private to job.
 *
 * While a GPU copies to or from one piece, the threads of the pool empty or fill the other. Without them, the driver would do
 * the same with one thread.
 */
#ifndef KEDGE_JOB_STAGING_H
#define KEDGE_JOB_STAGING_H

#include "gpu/gpu.h"
#include "pipeline/pipeline.h"

struct kedge__staging {
	struct kedge__gpu *pinner; /* NULL: nothing is pinned, and the driver copies as it can */
	void *pieces;              /* two of them */
	size_t bytes;              /* of each */
};

/* It takes what it gets: nothing is fine, too. */
void kedge__staging_open(struct kedge__staging *s, struct kedge__gpu *pinner);
void kedge__staging_close(struct kedge__staging *s); /* also one that was not opened */

/* Both return when it is done. */
int kedge__staging_out(struct kedge__staging *s, struct kedge__pool *pool, struct kedge__gpu *g, void *to,
		       kedge__gpu_address from, uint64_t bytes, struct kedge__error *err);
int kedge__staging_in(struct kedge__staging *s, struct kedge__pool *pool, struct kedge__gpu *g, kedge__gpu_address to,
		      const void *from, uint64_t bytes, struct kedge__error *err);

#endif
