/* SPDX-License-Identifier: BSD-3-Clause */
/* test_extent_tape.c: what is written to a tape is what is read from it, and what a map would have. */
#include "../lib/cases.h"
#include "../lib/draw.h"
#include "../lib/tape.h"

#define SLOT(n) ((uint64_t)(n) << KEDGE__SLOT_SHIFT)

struct world {
	uint64_t seed, addr, literals;
	struct kedge__extent last;
};

/* Any extent, of which many go on with the one before. */
static struct kedge__extent next_extent(struct world *w, unsigned shift)
{
	uint64_t unit = draw_below(&w->seed, 4) ? UINT64_C(1) << shift : 1;
	struct kedge__extent e = {.len = unit * (1 + draw_below(&w->seed, draw_below(&w->seed, 8) ? 20 : 1 << 20)),
				  .kind = (enum kedge__extent_kind)draw_below(&w->seed, 4)};

	if (!draw_below(&w->seed, 30))
		w->addr += draw_below(&w->seed, 3) ? 8 + draw_below(&w->seed, 100) : SLOT(1 + draw_below(&w->seed, 9));
	if (!draw_below(&w->seed, 3))
		e.kind = w->last.kind;
	if (e.kind == KEDGE__EXTENT_LITERAL)
		e.src = draw_below(&w->seed, 6) ? w->literals : draw_below(&w->seed, w->literals + 1);
	if (e.kind == KEDGE__EXTENT_COPY && w->last.kind == KEDGE__EXTENT_COPY && draw_below(&w->seed, 2)) {
		e.src = w->last.src + w->last.len;
		e.version = w->last.version;
	} else if (e.kind == KEDGE__EXTENT_COPY) {
		e.src = draw_below(&w->seed, UINT64_MAX);
		e.version = draw_below(&w->seed, 2) ? draw_below(&w->seed, 3) : draw_below(&w->seed, UINT64_MAX >> 1);
	}
	if (e.kind == KEDGE__EXTENT_FILL)
		e.src = draw_below(&w->seed, 2) ? 0 : draw_below(&w->seed, UINT64_MAX);
	e.addr = w->addr;
	w->addr += e.len;
	w->literals = e.kind == KEDGE__EXTENT_LITERAL ? KEDGE__MAX(w->literals, e.src + e.len) : w->literals;
	w->last = e;
	return e;
}

static void same(const struct kedge__extent_tape *tape, const struct kedge__extent_map *map)
{
	assert_int_equal(tape->count, map->count + map->inherited.count);
	assert_true(extents_same(kedge__extents_of_tape(tape), kedge__extents_of_map(map)));
}

/* From any address on, as the map finds it. */
static void found(const struct kedge__extent_tape *tape, const struct kedge__extent_map *flat, uint64_t addr)
{
	struct kedge__extent_reader r = kedge__extents_from(tape, addr);
	size_t i = kedge__extent_map_find(flat, addr);
	struct kedge__extent x;

	assert_int_equal(kedge__extent_next(&r, &x), i < flat->count);
	if (i < flat->count)
		assert_true(extent_same(&x, &flat->at[i]));
}

static void test_as_a_map(void **state)
{
	size_t alternated = 0;

	(void)state;
	for (uint64_t seed = 1; seed <= 60; seed++) {
		struct world w = {.seed = seed, .addr = SLOT(seed % 3)};
		struct kedge__extent_tape tape = {.shift = (unsigned)(seed % 9)};
		struct kedge__extent_map map = {0}, flat;

		for (uint64_t n = seed * seed * 3; n > 0; n--) {
			struct kedge__extent e = next_extent(&w, tape.shift);
			bool merge = draw_below(&w.seed, 2);

			struct kedge__extent stored = {e.addr + e.len, 1 + draw_below(&w.seed, 200), w.literals, 0,
						       KEDGE__EXTENT_LITERAL};

			if (e.kind == KEDGE__EXTENT_PARENT &&
			    kedge__extent_tape_alternate(&tape, e.addr, e.len, stored.len, stored.src)) {
				assert_int_equal(kedge__extent_map_append(&map, e, false, NULL), 0);
				assert_int_equal(kedge__extent_map_append(&map, stored, false, NULL), 0);
				w.literals += stored.len;
				w.addr += stored.len;
				w.last = stored;
				alternated++;
				continue;
			}
			assert_int_equal(kedge__extent_tape_append(&tape, e, merge, NULL), 0);
			assert_int_equal(kedge__extent_map_append(&map, e, merge, NULL), 0);
		}
		same(&tape, &map);
		flat = map_flat(&map);
		for (int i = 0; i < 200; i++)
			found(&tape, &flat, draw_below(&w.seed, w.addr + 1000));
		for (size_t i = 0; i < flat.count; i += 7)
			found(&tape, &flat, flat.at[i].addr);
		kedge__extent_map_done(&flat);
		kedge__extent_tape_done(&tape);
		kedge__extent_map_done(&map);
	}
	assert_true(alternated > 1000);
}

/* Tapes of several writers become one: extents that go on from one into the next are joined. */
static void test_moved(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 60; seed++) {
		struct world w = {.seed = seed};
		bool join = seed % 2;
		struct kedge__extent_tape tape = {.shift = 6};
		struct kedge__extent_map map = {0}, flat;

		for (uint64_t part = 0; part < 12; part++) {
			struct kedge__extent_tape own = {.shift = 6};
			uint64_t position = w.literals;

			for (uint64_t n = draw_below(&w.seed, 3) * draw_below(&w.seed, 900); n > 0; n--) {
				struct kedge__extent e = next_extent(&w, 6);
				bool alike = e.kind == KEDGE__EXTENT_PARENT || e.kind == KEDGE__EXTENT_FILL;

				assert_int_equal(kedge__extent_map_append(&map, e, join || alike, NULL), 0);
				e.src -= e.kind == KEDGE__EXTENT_LITERAL ? position : 0;
				assert_int_equal(kedge__extent_tape_append(&own, e, join || alike, NULL), 0);
			}
			assert_int_equal(kedge__extent_tape_move(&tape, &own, position, join, NULL), 0);
			assert_int_equal(own.count, 0);
			kedge__extent_tape_done(&own);
		}
		same(&tape, &map);
		flat = map_flat(&map);
		for (int i = 0; i < 200; i++)
			found(&tape, &flat, draw_below(&w.seed, w.addr + 1000));
		kedge__extent_map_done(&flat);
		kedge__extent_tape_done(&tape);
		kedge__extent_map_done(&map);
	}
}

/* Single chunks here and there take a few bytes each. */
static void test_small(void **state)
{
	struct kedge__extent_tape tape = {.shift = 6};
	size_t bytes = 0, n = 10000;

	(void)state;
	for (uint64_t i = 0; i < n; i++) {
		struct kedge__extent same_place = {640 * i, 576, 0, 0, KEDGE__EXTENT_PARENT};
		struct kedge__extent stored = {640 * i + 576, 64, 64 * i, 0, KEDGE__EXTENT_LITERAL};

		assert_int_equal(kedge__extent_tape_append(&tape, same_place, true, NULL), 0);
		assert_int_equal(kedge__extent_tape_append(&tape, stored, true, NULL), 0);
	}
	for (size_t i = 0; i < tape.part_count; i++)
		bytes += tape.parts[i].room + sizeof(tape.parts[i]);
	assert_true(bytes < 4 * n);
	kedge__extent_tape_done(&tape);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_as_a_map),
	    cmocka_unit_test(test_moved),
	    cmocka_unit_test(test_small),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
