/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pages_wire: what the two sides of a map by pages share (FORMAT.md, "Pages").
 */
#ifndef KEDGE_FORMAT_PAGES_WIRE_H
#define KEDGE_FORMAT_PAGES_WIRE_H

#include "format/map_wire.h"

#define KEDGE__PAGE_BYTES UINT64_C(4096)

enum kedge__page_kind {
	KEDGE__PAGE_LITERAL = 0,
	KEDGE__PAGE_CONSTANT = 1,
	KEDGE__PAGE_POINTERS = 2,  /* follow those of the page before */
	KEDGE__PAGE_ELSEWHERE = 3, /* the same as an earlier page's: how far back follows */
};
#define KEDGE__PAGE_RUN         4u /* in an entry's head: the number of pages follows, less 2 */
#define KEDGE__PAGE_DELTA_SHIFT 3u

enum kedge__pointer_kind { /* low bits of a pointer; the rest is the number of patterns it covers */
	KEDGE__POINTER_SAME = 0,
	KEDGE__POINTER_NEXT = 1,
	KEDGE__POINTER_ZERO = 2,
	KEDGE__POINTER_FILL = 3,
	KEDGE__POINTER_MOVE = 4, /* a byte follows: the pattern of the page in the other version */
	KEDGE__POINTER_BACK = 5, /* how far follows, in patterns */
	KEDGE__POINTER_BACK_BYTES = 6,
};
#define KEDGE__POINTER_KIND_BITS 3u
#define KEDGE__POINTER_ALL       0u  /* to the end of the page */
#define KEDGE__POINTER_MANY      31u /* a varint follows: so many more */

/* Limit for the pointers of pages stored elsewhere, so that a few bytes cannot expand into many. */
static inline uint64_t kedge__pages_elsewhere_max(uint64_t bytes)
{
	return (UINT64_C(1) << 20) + 32 * bytes;
}

#endif
