/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to the reader of raw arrays: what a piece of a file costs, taken for this or for that. */
#ifndef KEDGE_AGGREGATE_RAW_H
#define KEDGE_AGGREGATE_RAW_H

#include "aggregate/layout.h"

#define KEDGE__RAW_WINDOW ((size_t)4096) /* bytes that are looked at in one place */
#define KEDGE__RAW_WIDTHS 3              /* 8, 4 and 2 bytes */
#define KEDGE__RAW_SMOOTH 28             /* of each width, byte order and place of the first byte */
#define KEDGE__RAW_KINDS  (1 + KEDGE__RAW_SMOOTH + KEDGE__RAW_WIDTHS)
#define KEDGE__RAW_OPAQUE 0

/* What bytes may be: opaque, numbers that are near those before them, or numbers that have no more in common with each other than where in
 * them which bytes are frequent. */
struct kedge__raw_kind {
	bool smooth;
	unsigned width;  /* 0: opaque */
	unsigned phase;  /* of the first byte, in the file; of rough ones not known */
	bool big_endian; /* the same */
};

struct kedge__raw_window {
	float cost[KEDGE__RAW_KINDS]; /* the share of its bytes that would be stored, about */
	uint32_t floats;              /* the smooth kinds (bit 0: the first) as which they look like floating point */
};

struct kedge__raw_kind kedge__raw_kind_at(unsigned i);
/* The smooth kinds of WIDTH begin at this one; there are 2 * WIDTH. */
unsigned kedge__raw_smooth_first(unsigned width);

#define KEDGE__RAW_LOGS 256

struct kedge__raw_logs { /* of small numbers, each times its logarithm */
	float of[KEDGE__RAW_LOGS];
};

void kedge__raw_logs_init(struct kedge__raw_logs *l);
/* What KEDGE__RAW_WINDOW bytes are, of which the first is at OFFSET of the file. */
void kedge__raw_window_judge(const struct kedge__raw_logs *logs, const uint8_t *at, uint64_t offset,
			     struct kedge__raw_window *out);

#endif
