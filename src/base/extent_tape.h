/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * extent_tape: the extents of a map in few bytes each: what a reducer writes, to be read in order. An extent map has 40 bytes for
 * an extent, and where single chunks change all over a large image that is more than is known of the chunks; here two
 * to four do.
 *
 * A tape consists of parts that are read independently of each other, so that several threads can write one.
 */
#ifndef KEDGE_BASE_EXTENT_TAPE_H
#define KEDGE_BASE_EXTENT_TAPE_H

#include "base/extent_map.h"

/* What the next extent of a part is told apart from. */
struct kedge__tape_state {
	uint64_t addr, literal; /* where the last one, and the last literal, ended */
	uint64_t copy, version; /* where the last copy ended at its source */
	uint64_t fill;
};

struct kedge__tape_part {
	uint8_t *bytes; /* all but the last extent */
	size_t used, room;
	struct kedge__extent last; /* that may still grow */
	struct kedge__tape_state state;
	uint64_t start;    /* address of the first */
	uint64_t position; /* where the literals of the part begin among those of the tape */
	bool joined;       /* its first one goes on with the last of the part before: both are one */
};

struct kedge__extent_tape {
	struct kedge__tape_part *parts;
	size_t part_count, part_room;
	size_t count;   /* extents */
	unsigned shift; /* lengths are mostly multiples of 1 << shift */
};

void kedge__extent_tape_done(struct kedge__extent_tape *tape);
/* As kedge__extent_map_append(). */
int kedge__extent_tape_append(struct kedge__extent_tape *tape, struct kedge__extent e, bool merge, struct kedge__error *err);
/* GAP bytes that are as in the parent, then LEN that are stored behind the last literal: the most frequent case by far, if the last extent
 * is such a literal. False: it is not, or there is no room, and nothing has happened. */
bool kedge__extent_tape_alternate(struct kedge__extent_tape *tape, uint64_t addr, uint64_t gap, uint64_t len, uint64_t src);
/* All of FROM, which is empty then, behind what TAPE has; its literals begin at POSITION. JOIN: its first extent becomes part of the
 * last one if it goes on with that; else only what is as in the parent, or filled, does. */
int kedge__extent_tape_move(struct kedge__extent_tape *tape, struct kedge__extent_tape *from, uint64_t position, bool join,
			    struct kedge__error *err);
/* The last extent, or NULL; literals are counted from the position of its part. */
const struct kedge__extent *kedge__extent_tape_last(const struct kedge__extent_tape *tape);

/* Reads extents in order, from a tape or a map, which must stay; what a map inherits, as extents of kind PARENT. A copy reads on from where it was
 * made. */
struct kedge__extent_reader {
	const struct kedge__extent *at, *end; /* of a map */
	const struct kedge__range *range, *ranges_end; /* that it inherits */
	uint64_t next; /* where the last one ended */
	const struct kedge__tape_part *part, *parts_end;
	size_t byte; /* in the part */
	unsigned shift;
	struct kedge__tape_state state;
};

struct kedge__extent_reader kedge__extents_of_map(const struct kedge__extent_map *map);
struct kedge__extent_reader kedge__extents_of_tape(const struct kedge__extent_tape *tape);
/* From the extent that holds ADDR on, or from the first one above it. */
struct kedge__extent_reader kedge__extents_from(const struct kedge__extent_tape *tape, uint64_t addr);
/* False: there are no more. */
bool kedge__extent_next(struct kedge__extent_reader *r, struct kedge__extent *e);

#endif
