/* SPDX-License-Identifier: BSD-3-Clause */
/* tape.h: what is on a tape of extents, as a map. */
#ifndef KEDGE_TESTS_TAPE_H
#define KEDGE_TESTS_TAPE_H

#include "cases.h"
#include "map.h"

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

static inline bool tape_same(const struct kedge__extent_tape *a, const struct kedge__extent_tape *b)
{
	return a->count == b->count && extents_same(kedge__extents_of_tape(a), kedge__extents_of_tape(b));
}

#endif
