/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_resolve.c: composition of maps: what is found, where it stops, and what is refused.
 */
#include "lab.h"

#include <stdio.h>

struct shelf {
	struct kedge__extent_map maps[8]; /* by version */
	uint64_t parents[8];
	int loads[8];
};

static int shelf_load(void *ctx, uint64_t version, const struct kedge__extent_map **map, uint64_t *parent,
		      struct kedge__error *err)
{
	struct shelf *s = ctx;

	if (version >= 8 || (!s->maps[version].count && !s->maps[version].inherited.count))
		return kedge__error_set(err, KEDGE_E_MISSING, 0, "no version %llu", (unsigned long long)version);
	s->loads[version]++;
	*map = &s->maps[version];
	*parent = s->parents[version];
	return 0;
}

static void shelf_init(struct shelf *s)
{
	memset(s, 0, sizeof(*s));
	for (int i = 0; i < 8; i++)
		s->parents[i] = i ? (uint64_t)i - 1 : KEDGE__NO_VERSION;
}

static void shelf_done(struct shelf *s)
{
	for (int i = 0; i < 8; i++)
		kedge__extent_map_done(&s->maps[i]);
}

static void shelf_add(struct shelf *s, int version, uint64_t addr, uint64_t len, enum kedge__extent_kind kind,
		      uint64_t src, uint64_t from)
{
	struct kedge__extent e = {addr, len, src, from, kind};

	assert_int_equal(kedge__extent_map_append(&s->maps[version], e, false, NULL), 0);
}

static int shelf_resolve(struct shelf *s, uint64_t version, uint64_t addr, uint64_t len, uint64_t stop,
			 struct kedge__span_list *out, struct kedge__span_list *outer, struct kedge__error *err)
{
	const struct kedge__map_source source = {shelf_load, s};
	struct kedge__range range = {addr, len};

	return kedge__resolve(&source, version, &range, 1, stop, out, outer, err);
}

static void assert_span(const struct kedge__span_list *l, size_t i, uint64_t addr, uint64_t len, uint64_t version,
			uint64_t src, bool fill)
{
	assert_true(i < l->count);
	assert_int_equal(l->at[i].addr, addr);
	assert_int_equal(l->at[i].len, len);
	assert_int_equal(l->at[i].version, version);
	assert_int_equal(l->at[i].src, src);
	assert_int_equal(l->at[i].fill, fill);
}

/* 0: literal 0..1000. 1: 200..300 new, the rest as before. 2: a copy of 150..350 of 1, its own literal, a copy of that.
 */
static void lineage(struct shelf *s)
{
	shelf_init(s);
	shelf_add(s, 0, 0, 1000, KEDGE__EXTENT_LITERAL, 0, 0);
	shelf_add(s, 1, 0, 200, KEDGE__EXTENT_PARENT, 0, 0);
	shelf_add(s, 1, 200, 100, KEDGE__EXTENT_LITERAL, 0, 0);
	shelf_add(s, 1, 300, 700, KEDGE__EXTENT_PARENT, 0, 0);
	shelf_add(s, 2, 0, 200, KEDGE__EXTENT_COPY, 150, 1);
	shelf_add(s, 2, 200, 50, KEDGE__EXTENT_LITERAL, 0, 0);
	shelf_add(s, 2, 250, 50, KEDGE__EXTENT_COPY, 200, 2);
	shelf_add(s, 2, 300, 700, KEDGE__EXTENT_PARENT, 0, 0);
}

static void test_compose(void **state)
{
	struct kedge__span_list out = {0};
	struct shelf s;

	(void)state;
	lineage(&s);
	assert_int_equal(shelf_resolve(&s, 2, 0, 1000, 0, &out, NULL, NULL), 0);
	assert_int_equal(out.count, 6);
	assert_span(&out, 0, 0, 50, 0, 150, false);
	assert_span(&out, 1, 50, 100, 1, 0, false);
	assert_span(&out, 2, 150, 50, 0, 300, false);
	assert_span(&out, 3, 200, 50, 2, 0, false);
	assert_span(&out, 4, 250, 50, 2, 0, false);
	assert_span(&out, 5, 300, 700, 0, 300, false);
	assert_int_equal(s.loads[0] + s.loads[1] + s.loads[2], 3);
	kedge__span_list_done(&out);
	assert_int_equal(shelf_resolve(&s, 1, 100, 300, 0, &out, NULL, NULL), 0);
	assert_int_equal(out.count, 3);
	assert_span(&out, 2, 300, 100, 0, 300, false);
	kedge__span_list_done(&out);
	shelf_done(&s);
}

static void test_stop_below(void **state)
{
	struct kedge__span_list out = {0}, outer = {0};
	struct shelf s;

	(void)state;
	lineage(&s);
	assert_int_equal(shelf_resolve(&s, 2, 0, 1000, 1, &out, &outer, NULL), 0);
	assert_int_equal(out.count, 3);
	assert_span(&out, 0, 50, 100, 1, 0, false);
	assert_int_equal(outer.count, 3);
	assert_span(&outer, 0, 0, 50, 0, 150, false);
	assert_span(&outer, 1, 150, 50, 0, 300, false);
	assert_span(&outer, 2, 300, 700, 0, 300, false);
	assert_int_equal(s.loads[0], 0);
	kedge__span_list_done(&out);
	kedge__span_list_done(&outer);
	shelf_done(&s);
}

/* Neighbours that come from different versions' extents but continue each other are one span. */
static void test_spans_merge(void **state)
{
	struct kedge__span_list out = {0};
	struct shelf s;

	(void)state;
	shelf_init(&s);
	shelf_add(&s, 0, 0, 100, KEDGE__EXTENT_LITERAL, 0, 0);
	shelf_add(&s, 1, 0, 40, KEDGE__EXTENT_PARENT, 0, 0);
	shelf_add(&s, 1, 40, 60, KEDGE__EXTENT_COPY, 40, 0);
	assert_int_equal(shelf_resolve(&s, 1, 0, 100, 0, &out, NULL, NULL), 0);
	assert_int_equal(out.count, 1);
	assert_span(&out, 0, 0, 100, 0, 0, false);
	kedge__span_list_done(&out);
	shelf_done(&s);
}

/* A pattern that is copied to another alignment is turned with it. */
static void test_fill_turns(void **state)
{
	struct kedge__span_list out = {0};
	struct shelf s;

	(void)state;
	shelf_init(&s);
	shelf_add(&s, 0, 0, 64, KEDGE__EXTENT_FILL, UINT64_C(0x0807060504030201), 0);
	shelf_add(&s, 1, 0, 32, KEDGE__EXTENT_COPY, 3, 0);
	assert_int_equal(shelf_resolve(&s, 1, 0, 32, 0, &out, NULL, NULL), 0);
	assert_int_equal(out.count, 1);
	/* the byte at 0 is the one at 3: 04 */
	assert_span(&out, 0, 0, 32, 0, UINT64_C(0x0302010807060504), true);
	kedge__span_list_done(&out);
	shelf_done(&s);
}

static void check_refused(struct shelf *s, uint64_t version, int code, const char *word)
{
	struct kedge__span_list out = {0};
	struct kedge__error err = KEDGE__ERROR_INIT;

	assert_int_equal(shelf_resolve(s, version, 0, 1000, 0, &out, NULL, &err), code);
	assert_non_null(strstr(kedge__error_text(&err), word));
	assert_null(out.at);
	kedge__error_done(&err);
	shelf_done(s);
	shelf_init(s);
}

static void test_refuses(void **state)
{
	struct shelf s;

	(void)state;
	shelf_init(&s);
	shelf_add(&s, 1, 0, 1000, KEDGE__EXTENT_PARENT, 0, 0);
	check_refused(&s, 1, KEDGE_E_MISSING, "no version 0");
	shelf_add(&s, 0, 0, 500, KEDGE__EXTENT_LITERAL, 0, 0); /* a hole at the end */
	check_refused(&s, 0, KEDGE_E_DAMAGED, "not mapped");
	shelf_add(&s, 0, 0, 500, KEDGE__EXTENT_LITERAL, 0, 0); /* and in the middle */
	shelf_add(&s, 0, 600, 500, KEDGE__EXTENT_LITERAL, 0, 0);
	check_refused(&s, 0, KEDGE_E_DAMAGED, "not mapped");
	shelf_add(&s, 1, 0, 1000, KEDGE__EXTENT_COPY, 0, 2); /* the future */
	check_refused(&s, 1, KEDGE_E_DAMAGED, "newer");
	shelf_add(&s, 1, 0, 1000, KEDGE__EXTENT_COPY, 0, 1); /* itself */
	check_refused(&s, 1, KEDGE_E_DAMAGED, "copy of a copy");
	shelf_add(&s, 1, 0, 1000, KEDGE__EXTENT_COPY, UINT64_MAX - 5, 0);
	check_refused(&s, 1, KEDGE_E_DAMAGED, "beyond");
	s.parents[1] = 1; /* a cycle */
	shelf_add(&s, 1, 0, 1000, KEDGE__EXTENT_PARENT, 0, 0);
	check_refused(&s, 1, KEDGE_E_DAMAGED, "not older");
	shelf_add(&s, 0, 0, 1000, KEDGE__EXTENT_PARENT, 0, 0);
	check_refused(&s, 0, KEDGE_E_DAMAGED, "not older");
	shelf_add(&s, 0, 0, 1000, (enum kedge__extent_kind)7, 0, 0);
	check_refused(&s, 0, KEDGE_E_DAMAGED, "unknown");
	shelf_done(&s);
}

/* A few kilobytes of map may not unfold into all of memory: N wide copies of a range of N extents. */
static void test_refuses_to_unfold(void **state)
{
	enum { N = 8192 };
	struct kedge__range range = {0, (uint64_t)N * N};
	struct kedge__span_list out = {0};
	struct kedge__error err = KEDGE__ERROR_INIT;
	struct shelf s;
	const struct kedge__map_source source = {shelf_load, &s};

	(void)state;
	shelf_init(&s);
	for (uint64_t i = 0; i < N; i++) {
		shelf_add(&s, 0, i, 1, KEDGE__EXTENT_LITERAL, 2 * i, 0);
		shelf_add(&s, 1, i * N, N, KEDGE__EXTENT_COPY, 0, 0);
	}
	assert_int_equal(kedge__resolve(&source, 1, &range, 1, 0, &out, NULL, &err), KEDGE_E_LIMIT);
	kedge__error_done(&err);
	shelf_done(&s);
}

static void test_bad_ranges(void **state)
{
	struct shelf s;
	struct kedge__map_source source = {shelf_load, &s};
	struct kedge__range ranges[2] = {{10, 10}, {5, 10}};
	struct kedge__span_list out = {0};

	(void)state;
	lineage(&s);
	assert_int_equal(kedge__resolve(&source, 0, ranges, 2, 0, &out, NULL, NULL), KEDGE_E_ARG);
	assert_int_equal(kedge__resolve(&source, 0, ranges, 1, 5, &out, NULL, NULL), KEDGE_E_ARG);
	ranges[0].len = 0;
	assert_int_equal(kedge__resolve(&source, 0, ranges, 1, 0, &out, NULL, NULL), 0);
	assert_int_equal(out.count, 0);
	shelf_done(&s);
}

/* ------------------------------------------------------------------ many pieces: unit by unit, or by the sweep */

enum { UNITS = 4096, DEEP = 8 };

/* An extent of N units from unit I on of version V, drawn from all kinds, of which most are usual. WHOLE: all of the
 * version is inherited where there is none. */
static void draw_extent(struct shelf *s, int v, bool whole, uint64_t unit, uint64_t i, uint64_t n, uint64_t *literals,
			uint64_t *seed)
{
	uint64_t kind = draw_below(seed, 100), from = draw_below(seed, UNITS - n + 1) * unit;

	if (v && kind < 50 && !whole)
		shelf_add(s, v, i * unit, n * unit, KEDGE__EXTENT_PARENT, 0, 0);
	else if (v && kind < 50)
		return;
	else if (v && kind < 60)
		shelf_add(s, v, i * unit, n * unit, KEDGE__EXTENT_COPY, from, (uint64_t)v - 1);
	else if (v && kind < 63)
		shelf_add(s, v, i * unit, n * unit, KEDGE__EXTENT_COPY, from + 8 * (kind == 62),
			  draw_below(seed, (uint64_t)v));
	else if (kind < 70)
		shelf_add(s, v, i * unit, n * unit, KEDGE__EXTENT_FILL, draw_below(seed, 3), 0);
	else
		shelf_add(s, v, i * unit, n * unit, KEDGE__EXTENT_LITERAL, *literals, 0);
	*literals += n * unit + 8 * (kind > 90);
}

static void draw_shelf(struct shelf *s, uint64_t unit, uint64_t most, uint64_t *seed)
{
	shelf_init(s);
	for (int v = 0; v < DEEP; v++) {
		uint64_t literals = 0, kind = draw_below(seed, 4);

		/* as of regions: mostly of all, or of one that was smaller than it is now */
		if (kind)
			shelf_add(s, v, 0, (kind == 1 ? UNITS / 2 : UNITS) * unit, KEDGE__EXTENT_PARENT, 0, 0);
		for (uint64_t i = 0, n; i < UNITS; i += n) {
			uint64_t left = i < UNITS / 2 ? UNITS / 2 - i : UNITS - i;

			n = draw_below(seed, KEDGE__MIN(most, left)) + 1;
			draw_extent(s, v, kind > 1 || (kind && i + n <= UNITS / 2), unit, i, n, &literals, seed);
		}
	}
}

/* The range in parts that are too small for columns. */
static int resolve_in_parts(struct shelf *s, uint64_t bytes, struct kedge__span_list *out)
{
	const struct kedge__map_source source = {shelf_load, s};
	struct kedge__range *ranges = calloc(bytes / 512 + 1, sizeof(*ranges));
	size_t n = 0;
	int rc;

	assert_non_null(ranges);
	for (uint64_t at = 0; at < bytes; at += 512)
		ranges[n++] = (struct kedge__range){at, KEDGE__MIN(512, bytes - at)};
	rc = kedge__resolve(&source, DEEP - 1, ranges, n, 0, out, NULL, NULL);
	free(ranges);
	return rc;
}

static void compare_ways(struct shelf *s, uint64_t bytes)
{
	struct kedge__span_list whole = {0}, parts = {0};
	int rc = resolve_in_parts(s, bytes, &parts);

	assert_int_equal(shelf_resolve(s, DEEP - 1, 0, bytes, 0, &whole, NULL, NULL), rc);
	assert_int_equal(whole.count, parts.count);
	for (size_t i = 0; i < whole.count; i++)
		assert_span(&whole, i, parts.at[i].addr, parts.at[i].len, parts.at[i].version, parts.at[i].src,
			    parts.at[i].fill);
	kedge__span_list_done(&whole);
	kedge__span_list_done(&parts);
}

static void test_many_pieces(void **state)
{
	uint64_t seed = 11;
	struct shelf s;

	(void)state;
	for (uint64_t unit = 8; unit <= 256; unit *= 2) {
		for (int i = 0; i < 12; i++) {
			draw_shelf(&s, unit, i % 2 ? 3 : 40, &seed);
			compare_ways(&s, UNITS * unit);
			compare_ways(&s, UNITS * unit - 5); /* the last unit is not a whole one */
			shelf_done(&s);
		}
	}
}

#define REMOVE(list, i) memmove(&(list)->at[i], &(list)->at[(i) + 1], (--(list)->count - (i)) * sizeof((list)->at[0]))

/* A place that a version does not have, and a later one refers to, is damage in whatever way it is found. */
static void test_many_pieces_with_holes(void **state)
{
	uint64_t seed = 12;
	size_t refused = 0;
	struct shelf s;

	(void)state;
	for (int i = 0; i < 120; i++) {
		struct kedge__extent_map *map = &s.maps[i % DEEP];
		struct kedge__span_list out = {0};
		size_t gone;

		draw_shelf(&s, 64, 4, &seed);
		gone = draw_below(&seed, map->count + map->inherited.count);
		if (gone < map->count)
			REMOVE(map, gone);
		else
			REMOVE(&map->inherited, gone - map->count);
		refused += shelf_resolve(&s, DEEP - 1, 0, UNITS * 64, 0, &out, NULL, NULL) == KEDGE_E_DAMAGED;
		kedge__span_list_done(&out);
		compare_ways(&s, UNITS * 64);
		shelf_done(&s);
	}
	assert_in_range(refused, 10, 119);
}

/* Every allocation fails in turn; the result is an error, and nothing leaks. */
static void test_no_memory(void **state)
{
	struct kedge__span_list out = {0};
	struct shelf s;
	int rc = KEDGE_E_NOMEM;

	(void)state;
	lineage(&s);
	for (int n = 1; rc; n++) {
		char spec[32];

		assert_true(n < 100);
		snprintf(spec, sizeof(spec), "alloc@%d", n);
		assert_int_equal(kedge__fault_set(spec, NULL), 0);
		rc = shelf_resolve(&s, 2, 0, 1000, 0, &out, NULL, NULL);
		assert_true(rc == 0 || rc == KEDGE_E_NOMEM);
	}
	assert_int_equal(kedge__fault_set(NULL, NULL), 0);
	assert_int_equal(out.count, 6);
	kedge__span_list_done(&out);
	shelf_done(&s);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_compose),
	    cmocka_unit_test(test_stop_below),
	    cmocka_unit_test(test_spans_merge),
	    cmocka_unit_test(test_fill_turns),
	    cmocka_unit_test(test_refuses),
	    cmocka_unit_test(test_refuses_to_unfold),
	    cmocka_unit_test(test_bad_ranges),
	    cmocka_unit_test(test_many_pieces),
	    cmocka_unit_test(test_many_pieces_with_holes),
	    cmocka_unit_test(test_no_memory),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
