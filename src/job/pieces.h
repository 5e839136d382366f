/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pieces: copies from GPUs to memory of the host that could not be pinned, through two small pieces that could. Private to
 * job.
 *
 * While a GPU copies to one piece, the threads of the pool empty the other. Without them, the driver would do the same with one
 * thread.
 */
#ifndef KEDGE_JOB_PIECES_H
#define KEDGE_JOB_PIECES_H

#include "gpu/gpu.h"
#include "pipeline/pipeline.h"

struct kedge__pieces {
	struct kedge__gpu *pinner; /* NULL: nothing is pinned, and the driver copies as it can */
	void *pieces;              /* two of them */
	size_t bytes;              /* of each */
};

/* It takes what it gets: nothing is fine, too. */
void kedge__pieces_open(struct kedge__pieces *s, struct kedge__gpu *pinner);
void kedge__pieces_close(struct kedge__pieces *s); /* also one that was not opened */

/* It returns when it is done. */
int kedge__pieces_out(struct kedge__pieces *s, struct kedge__pool *pool, struct kedge__gpu *g, void *to,
		       kedge__gpu_address from, uint64_t bytes, struct kedge__error *err);

#endif
