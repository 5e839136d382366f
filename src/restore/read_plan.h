/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * read_plan: which parts of which blocks must be read for a list of targets, and where their bytes go. Private to restore.
 *
 * A cell is what has a checksum of its own: a page of a block, or all of the block. A cell is read entirely or not at all.
 */
#ifndef KEDGE_RESTORE_READ_PLAN_H
#define KEDGE_RESTORE_READ_PLAN_H

#include "restore/restore.h"

#include <stdatomic.h>

/* A run of bytes of one cell, and the memory it goes to. */
struct kedge__piece {
	uint8_t *to;
	uint32_t offset, len; /* in the block, decoded */
	uint32_t target;
};

/* Cells of one block that follow each other. */
struct kedge__read_plan_unit {
	const struct kedge__segment *segment;
	uint64_t version;
	size_t block;
	uint32_t offset, bytes; /* stored, in the block */
	size_t first, count;    /* of its pieces, in no order; none if it is ground */
	uint8_t *place;         /* where all of it goes; NULL: it goes there piece by piece */
	uint32_t target;        /* if it has a place */
	uint32_t live;          /* bytes that are wanted */
	bool ground;            /* it has a place, where others put live bytes over its dead ones afterwards */
	bool leads;             /* it is the first of its block */
};

/* A run of units that one task reads, neighbours in the file: large enough to amortise the task, small enough to
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
	bool far; /* on a GPU */
	bool zeroed; /* nothing but live bytes may be put there */
};

/* A segment, with what is asked of it for every span. */
struct kedge__read_plan_member {
	const struct kedge__segment *seg;
	uint64_t version;
	uint64_t literals;    /* bytes */
	size_t *first_cells;  /* one per block, and the end */
	bool plain;           /* no block has a codec, and every cell is a page at most */
	bool cached;          /* the page cache had what was asked for of it: nothing more is announced */
};

/* The ground of a target: literals of one version that are all shifted by one distance: ground.c. */
struct kedge__read_plan_ground {
	const struct kedge__read_plan_member *member; /* NULL: there is none */
	uint64_t from, to; /* positions of literals whose places are in the target */
	uint64_t shift;    /* from the position of a literal to that in the target, modulo 2^64 */
	bool solid;        /* it is put to all of these places: no cell of it is dead or has a codec */
};

/* LEN literals from POSITION on, and where in the range of their overlay they belong. */
struct kedge__read_plan_over {
	uint64_t position;
	uint32_t at, len;
};

struct kedge__read_plan_layer {
	struct kedge__read_plan_member *member;
	size_t first, count; /* of its overs: ascending positions and places */
};

/* What goes over the ground of a range while it is in the cache: overlay.c. */
struct kedge__read_plan_overlay {
	KEDGE__ARRAY(struct kedge__read_plan_layer) layers; /* newest first; they are put oldest first */
	KEDGE__ARRAY(struct kedge__read_plan_over) overs;
	uint64_t bytes; /* of the overs */
};

struct kedge__read_plan {
	struct kedge__read_plan_member *members; /* ascending versions */
	size_t member_count, cell_count;
	struct kedge__read_plan_ground *grounds; /* one per target */
	size_t ground_count;
	_Atomic uint32_t *ground_live; /* one per cell: how many of its bytes are live where it is ground */
	struct kedge__read_plan_member **chain; /* the top, its parent, and so on; if there is ground */
	size_t chain_count;
	struct kedge__read_plan_overlay *overlays; /* one for each KEDGE__OVERLAY_BYTES of a slot, and for the rest */
	size_t overlay_count;
	size_t *first_overlays; /* one per target */
	atomic_bool *laid;      /* one per cell; that of the first of a block: some of the block lies over ground */
	size_t laid_count;      /* blocks, of which no unit is read */
	uint64_t laid_bytes;    /* of all overlays */
	KEDGE__ARRAY(struct kedge__read_plan_unit) units;
	KEDGE__ARRAY(struct kedge__read_plan_batch) batches;
	size_t ground_batches; /* so many are filled before any other: they write dead bytes where live ones of others go */
	KEDGE__ARRAY(struct kedge__read_plan_fill) fills;
	struct kedge__piece *pieces;
	size_t piece_count;
	uint64_t batch_bytes;         /* stored bytes, from which on the largest batches are full */
	uint32_t raw_max, stored_max; /* largest packed block, decoded; largest unit */
};

/* Resolve the part of the lineage's top version that SLOTS, ascending by base, cover, and sort it by place. The targets of the
 * N slots are numbers below N. With IN_PLACE, for slots with memory, units may have places. */
int kedge__read_plan_make(struct kedge__read_plan *plan, struct kedge__lineage *l, struct kedge__pool *pool,
			  const struct kedge__read_plan_slot *slots, size_t n, uint64_t batch_bytes, bool in_place,
			  struct kedge__error *err);
void kedge__read_plan_done(struct kedge__read_plan *plan);

/* The cell of block B that has byte OFFSET of it, decoded. */
static inline size_t kedge__read_plan_cell(const struct kedge__read_plan_member *m, size_t b, uint32_t offset)
{
	return m->first_cells[b] + (kedge__block_has_pages(&m->seg->blocks[b]) ? offset / KEDGE__BLOCK_PAGE : 0);
}

/* Where the first byte after the cell is. */
static inline uint32_t kedge__read_plan_cell_end(const struct kedge__block_record *b, uint32_t offset)
{
	uint32_t end = b->raw_bytes;

	if (kedge__block_has_pages(b))
		end = KEDGE__MIN((offset / KEDGE__BLOCK_PAGE + 1) * KEDGE__BLOCK_PAGE, end);
	return end;
}

/* No cell is larger than a page. */
static inline bool kedge__read_plan_paged(const struct kedge__block_record *b)
{
	return kedge__block_has_pages(b) || b->raw_bytes <= KEDGE__BLOCK_PAGE;
}

/* Where in its file a unit begins. */
static inline uint64_t kedge__read_plan_unit_at(const struct kedge__read_plan_unit *u)
{
	return u->segment->blocks[u->block].offset + u->offset;
}

/* overlay.c */

#define KEDGE__OVERLAY_BYTES  (UINT64_C(4) << 20)
#define KEDGE__OVERLAY_LAYERS 64 /* at most, of versions that follow each other */

struct kedge__overlay_maker; /* what a thread needs to make overlays */
struct kedge__overlay_maker *kedge__overlay_maker_new(void); /* NULL: no memory; kedge__free() */
/* Plan RANGE of SLOT, of KEDGE__OVERLAY_BYTES at most, where there is a choice of ground: what of it is ground with OUT over it is counted as that, the rest is
 * appended to LEFT. False: no memory. */
bool kedge__overlay_make(struct kedge__read_plan *plan, struct kedge__overlay_maker *o, const struct kedge__read_plan_slot *slot,
			 struct kedge__range range, struct kedge__read_plan_overlay *out, struct kedge__range_list *left);

/* ground.c */

/* Choose the ground of each slot's target. */
int kedge__read_plan_choose(struct kedge__read_plan *plan, const struct kedge__read_plan_slot *slots, size_t n,
			    struct kedge__error *err);
/* LEN bytes of G's literals from POSITION on are live where the ground has them. How many of them, from the first one on, cells
 * that are ground hold; 0: they are not for the ground. */
uint64_t kedge__read_plan_ground_take(const struct kedge__read_plan *plan, const struct kedge__read_plan_ground *g,
				      uint64_t position, uint64_t len);
/* The part of block B, of G's segment, whose cells have no codec and a place in the target; none: *END is not above *BEGIN. */
void kedge__read_plan_fits(const struct kedge__read_plan_ground *g, const struct kedge__block_record *b, uint32_t *begin,
			   uint32_t *end);
/* Whether ground is put to offset POS of TARGET; *LEN becomes how many bytes that is true of. */
bool kedge__read_plan_covers(const struct kedge__read_plan *plan, uint32_t target, uint64_t pos, uint64_t *len);
/* If so, it is also put to all of TARGET from *FROM to below *TO, POS among them. */
void kedge__read_plan_cover(const struct kedge__read_plan *plan, uint32_t target, uint64_t pos, uint64_t *from,
			    uint64_t *to);

#endif
