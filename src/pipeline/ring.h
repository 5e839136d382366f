/* SPDX-License-Identifier: BSD-3-Clause */
/* Between ring.c and pipeline.c. The owner of a ring guards the states and the cursors of both sides with a lock. */
#ifndef KEDGE_PIPELINE_RING_H
#define KEDGE_PIPELINE_RING_H

#include "pipeline/pipeline.h"

struct kedge__ring {
	struct kedge__buffer *at;
	size_t length;
	uint8_t *memory;
	size_t memory_bytes;
	/* Memory of Empty buffers. The buffer returned last is handed out first: it is still in a cache, and a pipeline
	 * whose stages keep pace never touches the others. */
	uint8_t **spare;
	size_t spare_count;
};

int kedge__ring_init(struct kedge__ring *ring, size_t length, size_t buffer_bytes, struct kedge__error *err);
void kedge__ring_done(struct kedge__ring *ring); /* takes one that is all zero */

static inline struct kedge__buffer *kedge__ring_at(const struct kedge__ring *ring, uint64_t number)
{
	return &ring->at[number % ring->length];
}

/* Empty to Busy: a fresh buffer for NUMBER. */
void kedge__ring_claim(struct kedge__ring *ring, struct kedge__buffer *buffer, uint64_t number);
void kedge__ring_release(struct kedge__ring *ring, struct kedge__buffer *buffer); /* Busy to Empty */

#endif
