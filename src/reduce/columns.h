/* SPDX-License-Identifier: BSD-3-Clause */
/* columns.c: resolution unit by unit, for ranges that many versions have changed in many places. Private to resolve.c. */
#ifndef KEDGE_REDUCE_COLUMNS_H
#define KEDGE_REDUCE_COLUMNS_H

#include "reduce/reduce.h"

/*
 * Append to OUT where the bytes of RANGE of VERSION are kept, in ascending order, and to LATER the parts of it that have to
 * be resolved in another way: all of it if the extents there are few, not aligned, or refer to each other in unusual ways.
 * It never decides that something is damaged: what looks like that is left for later.
 */
int kedge__columns_resolve(const struct kedge__map_source *source, uint64_t version, struct kedge__range range,
			   struct kedge__span_list *out, struct kedge__range_list *later, struct kedge__error *err);

#endif
