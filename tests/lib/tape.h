/* SPDX-License-Identifier: BSD-3-Clause */
/* tape.h: what is on a tape of extents, as a map. */
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
	assert_int_equal(map.count, tape->count);
	return map;
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

#endif
