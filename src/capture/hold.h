/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to a hold: what its begin and end (hold.c), a reduction (hold_view.c) and its literals (hold_literal.c) share. */
#ifndef KEDGE_CAPTURE_HOLD_H
#define KEDGE_CAPTURE_HOLD_H

#include "capture/tracker.h"
#include "pipeline/pipeline.h"
#include <pthread.h>
#include <stdatomic.h>

#define KEDGE__HOLD_BLOCK ((uint64_t)2 << 20) /* of the reserve, for one worker: several slabs of a reduction */

struct kedge__hold_stretch { /* bytes that are held */
	size_t region;
	uint64_t offset, bytes;
	uint8_t *copy;    /* NULL: */
	bool is_protected;
	size_t range;     /* of the session */
};

struct kedge__hold_run { /* read from protected memory, and kept */
	size_t region;
	uint64_t offset, bytes;
	const uint8_t *data;
};

struct kedge__hold_runs {
	struct kedge__hold_run *at;
	size_t count, room;
};

struct kedge__hold_piece {
	uint64_t position; /* in the literal space */
	size_t region;
	uint64_t offset, bytes;
	const uint8_t *data; /* NULL: only the session has them */
	uint32_t class;      /* as the literal has it */
};

struct kedge__hold_worker {
	struct kedge__hold_runs runs;
	uint8_t *at, *end; /* of its block */
	bool keeps;        /* what will be stored of what it read last is copied, and all pages were let go */
	size_t range;      /* if not: of the session, */
	uint64_t from, to; /* what was read last and is not known to be needed again; equal: nothing */
};

struct kedge__hold {
	struct kedge__image image;
	const struct kedge__hold_region *ways;
	KEDGE__ARRAY(struct kedge__hold_stretch) stretches; /* by region and offset */
	struct kedge__cow_range *ranges;
	size_t range_count;
	uint64_t protected_bytes;
	bool again; /* bytes are requested more than once */
	struct kedge__cow *cow; /* NULL: there is none, or it has ended */
	struct kedge__hold_worker *workers;
	int worker_count;
	struct kedge__reserve *reserve; /* NULL: nothing of it is used */
	uint64_t copied;                /* bytes of it before the blocks */
	uint8_t *blocks;
	size_t block_count;
	atomic_size_t next_block;
	struct kedge__image_view view;
	pthread_mutex_t lock; /* guards: */
	struct kedge__error failure; /* the first one, of a copy or the view */

	KEDGE__ARRAY(struct kedge__hold_piece) pieces; /* of the literal space */
	struct kedge__reducer *reducer; /* that sees them as they are stored; NULL: it has seen them */
	struct kedge__literal_source source;
};

void kedge__hold_view_init(struct kedge__hold *h);
/* The stretch with the byte at OFFSET of REGION, or NULL. */
const struct kedge__hold_stretch *kedge__hold_find(const struct kedge__hold *h, size_t region, uint64_t offset);
/* Bytes of S at OFFSET of its region, which is protected. */
int kedge__hold_read(struct kedge__hold *h, const struct kedge__hold_stretch *s, uint64_t offset, void *buffer, size_t bytes,
		     struct kedge__error *err);
/* ERR, which is consumed, is recorded if it is the first failure of a view. */
void kedge__hold_fail(struct kedge__hold *h, struct kedge__error *err);
/* What a worker read last and did not keep is not needed any more. */
int kedge__hold_let_go(struct kedge__hold *h, struct kedge__hold_worker *w, struct kedge__error *err);
/* End the session. */
int kedge__hold_release(struct kedge__hold *h, struct kedge__error *err);

#endif
