/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * echo: numbers of a block that were there before, nearly: forwards or backwards, with the same sign or the other one.
 * Symmetric problems have mirror images, and blocks of a grid the cells of their neighbours.
 */
#ifndef KEDGE_CODEC_ECHO_H
#define KEDGE_CODEC_ECHO_H

#include "base/base.h"

/* N numbers from TO on are nearly those from FROM on, or, backwards, from FROM downwards. All count from the beginning
 * of the block; each is before the one that it is the echo of. */
struct kedge__echo {
	uint32_t to, n, from;
	bool backwards, negated;
};

#define KEDGE__ECHO_PART ((size_t)128 << 10) /* bytes of a block that are packed as one, of their echoes */

struct kedge__echo_list {
	KEDGE__ARRAY(struct kedge__echo);
};

/* What a part of a block has to know of the block. */
struct kedge__echo_part {
	const uint8_t *block; /* as it was: all that is before the part */
	size_t start;         /* number of the block with which the part begins */
	const struct kedge__echo
	    *at; /* those of the part, ascending; what each refers to is before the part, or in it */
	size_t count;
};

/* ------------------------------------------------------------------ echo_find.c */

/* Echoes among the N floating-point numbers of WIDTH bytes (4, 8) at RAW; false: no memory. */
bool kedge__echo_find(const uint8_t *raw, size_t n, unsigned width, struct kedge__echo_list *out);
/* Whether samples, one after the other, say that there are many of them. */
bool kedge__echo_pays(const uint8_t *raw, size_t n, unsigned width);

#endif
