/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * matches: earlier bytes of a block that the bytes at a place repeat, found as a warp of a GPU finds them (src/gpu/matches.cu):
 * the same bytes give the same matches. A block is cut into parts, and matches are chosen for each part on its own; what they repeat
 * may lie before it. Places are taken in groups of 32. A table has the last place at which each hash was seen; all
 * places of a group are looked up, in order, before any match is chosen.
 */
#ifndef KEDGE_CODEC_MATCHES_H
#define KEDGE_CODEC_MATCHES_H

#include "base/base.h"

#define KEDGE__MATCH_PART   ((size_t)16384) /* bytes of a block that are looked at together */
#define KEDGE__MATCH_BEFORE ((size_t)16384) /* that are entered into the table first, as far as the block has them */
#define KEDGE__MATCH_BITS   12              /* of a hash */
#define KEDGE__MATCH_GROUP  32
#define KEDGE__MATCH_LEAST  4
#define KEDGE__MATCH_BACK   4  /* bytes of the group, before the place that a match was found at, that may belong to it */
#define KEDGE__MATCH_TAIL   12 /* bytes at the end of a block in which no match begins */

struct kedge__match {
	size_t at, length, distance;
};

struct kedge__matcher {
	const uint8_t *raw;
	size_t start; /* of what is in the table */
	size_t last;  /* where a match may begin */
	size_t limit; /* where it may end */
	size_t at;    /* the next group */
	bool over;
	uint16_t table[1 << KEDGE__MATCH_BITS]; /* places, from start on */
};

/* The part of RAW, a block of BYTES, that begins at AT; KEEP: so many bytes at the end of the block belong to no match. */
void kedge__matcher_init(struct kedge__matcher *m, const uint8_t *raw, size_t bytes, size_t at, size_t keep);
/* The matches of the next group, in order: their number. False: the part is over. */
bool kedge__matcher_next(struct kedge__matcher *m, struct kedge__match out[KEDGE__MATCH_GROUP / KEDGE__MATCH_LEAST],
			 size_t *count);

#endif
