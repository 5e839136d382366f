/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * read_plan: which blocks must be read for a list of targets, and where their bytes go. Private to restore.
 */
#ifndef KEDGE_RESTORE_READ_PLAN_H
#define KEDGE_RESTORE_READ_PLAN_H

#include "restore/restore.h"

/* A run of bytes of one block, and the memory it goes to. */
struct kedge__piece {
	uint8_t *to;
	uint32_t offset, len; /* in the block, decoded */
	uint32_t target;
};

struct kedge__read_plan_block {
	const struct kedge__segment *segment;
	uint64_t version;
	size_t block;
	size_t first, count; /* of its pieces, in no order */
	uint8_t *place;      /* where all of it goes, dead bytes too; NULL: it goes there piece by piece */
	uint64_t shift;      /* if it has a place: from the position of its literals to that in the target, modulo 2^64; */
	uint32_t target;     /* the target; */
	uint32_t live;       /* live bytes */
};

/* A run of blocks that one task reads, neighbours in the file: large enough to amortise the task, small enough to
 * share.
 */
struct kedge__read_plan_batch {
	size_t first, count;
	uint64_t stored_bytes;
};

/* A range filled with a pattern; long ones are split, so that threads share them. */
struct kedge__read_plan_fill {
	uint8_t *to;
	uint64_t len, pattern, addr;
	uint32_t target;
};

/* Where an image address goes: one per target. */
struct kedge__read_plan_slot {
	uint64_t base, bytes;
	uint8_t *data;
	uint32_t target;
};

struct kedge__read_plan {
	KEDGE__ARRAY(struct kedge__read_plan_block) blocks;
	KEDGE__ARRAY(struct kedge__read_plan_batch) batches;
	size_t grounds; /* so many batches are filled before any other: they write dead bytes where live ones of others go */
	KEDGE__ARRAY(struct kedge__read_plan_fill) fills;
	struct kedge__piece *pieces;
	size_t piece_count;
	uint64_t batch_bytes;         /* stored bytes, from which on a batch is full */
	uint32_t raw_max, stored_max; /* largest block */
};

/* Resolve the part of the lineage's top version that SLOTS, ascending by base, cover, and sort it by place. With
 * IN_PLACE, for slots with memory, blocks may have places. */
int kedge__read_plan_make(struct kedge__read_plan *plan, struct kedge__lineage *l, struct kedge__pool *pool,
			  const struct kedge__read_plan_slot *slots, size_t n, uint64_t batch_bytes, bool in_place,
			  struct kedge__error *err);
void kedge__read_plan_done(struct kedge__read_plan *plan);

/* ground.c. Give blocks their places, and put those with dead bytes, and their neighbours, before all others: the first
 * *GROUNDS. The targets of the N slots are numbers below N. */
int kedge__read_plan_ground(struct kedge__read_plan *plan, struct kedge__pool *pool,
			    const struct kedge__read_plan_slot *slots, size_t n, size_t *grounds, struct kedge__error *err);

#endif
