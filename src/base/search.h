/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The binary search over anything that is in order. A macro, so that the condition is compiled into the loop.
 */
#ifndef KEDGE_BASE_SEARCH_H
#define KEDGE_BASE_SEARCH_H

#include <stddef.h>

/*
 * BEFORE is an expression of I, a size_t variable of the caller: true up to some index, false from there on. I becomes the
 * first index from FROM up to, but without, TO for which it is false, or TO if there is none. FROM and TO are evaluated once.
 */
#define KEDGE__PARTITION_POINT_FROM(i, from, to, before)                                                               \
	do {                                                                                                           \
		size_t kedge__low = (from), kedge__high = (to);                                                        \
                                                                                                                       \
		while (kedge__low < kedge__high) {                                                                     \
			(i) = kedge__low + (kedge__high - kedge__low) / 2;                                             \
			if (before)                                                                                    \
				kedge__low = (i) + 1;                                                                  \
			else                                                                                           \
				kedge__high = (i);                                                                     \
		}                                                                                                      \
		(i) = kedge__low;                                                                                      \
	} while (0)

/* The same over all N from 0 on. */
#define KEDGE__PARTITION_POINT(i, n, before) KEDGE__PARTITION_POINT_FROM(i, 0, n, before)

/* The last index for which BEFORE is true, or 0 if there is none: of stretches in order by their starts, the one that
 * holds a place. */
#define KEDGE__LAST_BEFORE(i, n, before)                                                                               \
	do {                                                                                                           \
		KEDGE__PARTITION_POINT(i, n, before);                                                                  \
		(i) -= (i) > 0;                                                                                        \
	} while (0)

#endif
