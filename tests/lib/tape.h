/* SPDX-License-Identifier: BSD-3-Clause */
/* tape.h: what is on a tape of extents, as a map; what is in a map, as extents. */
#ifndef KEDGE_TESTS_TAPE_H
#define KEDGE_TESTS_TAPE_H

#include "base/extent_tape.h"
#include "cases.h"

static inline struct kedge__extent_map tape_map(const struct kedge__extent_tape *tape)
{
	struct kedge__extent_reader r = kedge__extents_of_tape(tape);
	struct kedge__extent_map map = {0};
	struct kedge__extent e;

	while (kedge__extent_next(&r, &e))
		assert_int_equal(kedge__extent_map_append(&map, e, false, NULL), 0);
	assert_int_equal(map.count + map.inherited.count, tape->count);
	return map;
}

/* All that a reader of MAP sees, what is inherited too, as extents that can be changed. */
static inline struct kedge__extent_map map_flat(const struct kedge__extent_map *map)
{
	struct kedge__extent_reader r = kedge__extents_of_map(map);
	struct kedge__extent_map flat = {0};
	struct kedge__extent e;

	while (kedge__extent_next(&r, &e))
		assert_true(kedge__array_push(&flat, e));
	return flat;
}

static inline bool tape_same_extent(const struct kedge__extent *x, const struct kedge__extent *y)
{
	return x->addr == y->addr && x->len == y->len && x->src == y->src && x->version == y->version &&
	       x->kind == y->kind;
}

static inline bool tape_same(const struct kedge__extent_tape *a, const struct kedge__extent_tape *b)
{
	struct kedge__extent_reader r = kedge__extents_of_tape(a), s = kedge__extents_of_tape(b);
	struct kedge__extent x, y;

	while (kedge__extent_next(&r, &x))
		if (!kedge__extent_next(&s, &y) || !tape_same_extent(&x, &y))
			return false;
	return a->count == b->count && !kedge__extent_next(&s, &y);
}

static inline void assert_maps_equal(const struct kedge__extent_map *a, const struct kedge__extent_map *b)
{
	struct kedge__extent_reader r = kedge__extents_of_map(a), s = kedge__extents_of_map(b);
	struct kedge__extent x, y;

	while (kedge__extent_next(&r, &x)) {
		assert_true(kedge__extent_next(&s, &y));
		assert_int_equal(x.addr, y.addr);
		y.version = y.kind == KEDGE__EXTENT_COPY ? y.version : x.version;
		assert_true(tape_same_extent(&x, &y));
	}
	assert_false(kedge__extent_next(&s, &y));
}

#endif
