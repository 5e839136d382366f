/* SPDX-License-Identifier: BSD-3-Clause */
/* map.h: extents as whoever reads a map or a tape sees them. */
#ifndef KEDGE_TESTS_LIB_MAP_H
#define KEDGE_TESTS_LIB_MAP_H

#include "base/extent_tape.h"
#include "require.h"

static inline bool extent_same(const struct kedge__extent *x, const struct kedge__extent *y)
{
	return x->addr == y->addr && x->len == y->len && x->src == y->src && x->version == y->version &&
	       x->kind == y->kind;
}

static inline bool extents_same(struct kedge__extent_reader a, struct kedge__extent_reader b)
{
	struct kedge__extent x, y;

	while (kedge__extent_next(&a, &x))
		if (!kedge__extent_next(&b, &y) || !extent_same(&x, &y))
			return false;
	return !kedge__extent_next(&b, &y);
}

static inline bool maps_same(const struct kedge__extent_map *a, const struct kedge__extent_map *b)
{
	return extents_same(kedge__extents_of_map(a), kedge__extents_of_map(b));
}

/* All that a reader of MAP sees, what is inherited too, as extents that can be changed. */
static inline struct kedge__extent_map map_flat(const struct kedge__extent_map *map)
{
	struct kedge__extent_reader r = kedge__extents_of_map(map);
	struct kedge__extent_map flat = {0};
	struct kedge__extent e;

	while (kedge__extent_next(&r, &e))
		REQUIRE(kedge__array_push(&flat, e));
	return flat;
}

#endif
