/* SPDX-License-Identifier: BSD-3-Clause */
/* auto goes over to the patterns of rex where they store less than chunks, and back where they do not. */
#include "lab.h"

#define PAGE    4096u
#define CHUNK   256u
#define PATTERN 32u
#define PAGES   300u

static struct lab lab;
static uint64_t fetches, refused; /* fetches that are not answered: from this number on, 0 for none */

/* What the store has: restored from maps and literals. */
static int fetch(void *ctx, uint64_t version, uint64_t addr, void *buf, size_t len, struct kedge__error *err)
{
	const struct kedge__map_source source = {lab_load, &lab};
	struct kedge__range range = {addr, len};
	struct kedge__span_list spans = {0};

	(void)ctx;
	if (++fetches >= refused && refused)
		return kedge__error_set(err, KEDGE_E_IO, 0, "not now");
	assert_int_equal(kedge__resolve(&source, version, &range, 1, 0, &spans, NULL, err), 0);
	for (size_t i = 0; i < spans.count; i++)
		lab_fill(&lab, &spans.at[i], (uint8_t *)buf + (spans.at[i].addr - addr));
	kedge__span_list_done(&spans);
	return 0;
}

static struct kedge__reducer *reducer(bool track)
{
	struct kedge__reducer_options o = {.id = KEDGE__REDUCER_AUTO,
					   .chunk = CHUNK,
					   .pattern = PATTERN,
					   .record_bytes = LAB_UNLIMITED,
					   .track = track,
					   .fetch = fetch};
	struct kedge__reducer *r = NULL;

	assert_int_equal(kedge__reducer_new(&o, &r, NULL), 0);
	return r;
}

static void setup(void)
{
	memset(&lab, 0, sizeof(lab));
	fetches = refused = 0;
	lab.seed = 17;
	lab_resize(&lab, 1, PAGES * PAGE + 100);
	lab_resize(&lab, 4, 3 * PAGE + 7);
}

static void teardown(struct kedge__reducer *r)
{
	lab_restore_all(&lab);
	kedge__reducer_free(r);
	lab_done(&lab);
}

/* A new element in each page but every fifth, which moves those behind it. */
static void insert(void)
{
	for (unsigned i = 0; i < PAGES; i++) {
		uint8_t *page = lab.data[1] + (size_t)i * PAGE;

		if (i % 5 == 0)
			continue;
		memmove(page + 5 * PATTERN, page + 4 * PATTERN, PAGE - 5 * PATTERN);
		draw_bytes(&lab.seed, page + 4 * PATTERN, PATTERN);
	}
}

static void renew(void)
{
	for (unsigned i = 0; i < PAGES; i++)
		if (i % 5)
			draw_bytes(&lab.seed, lab.data[1] + (size_t)i * PAGE, PAGE);
}

/* Each page gets what the next one had. */
static void move_pages(void)
{
	memmove(lab.data[1], lab.data[1] + PAGE, (PAGES - 1) * PAGE);
}

static enum kedge__reducer_id take(struct kedge__reducer *r, uint64_t version, void (*change)(void))
{
	if (change)
		change();
	return lab_take(&lab, r, NULL, version, false)->red.reducer;
}

/* From the second version on: the first is what pages are compared with. */
static void test_goes_over_at_once(void **state)
{
	struct kedge__reducer *r = reducer(false);

	(void)state;
	setup();
	assert_int_not_equal(take(r, 1, NULL), KEDGE__REDUCER_REX);
	for (uint64_t v = 2; v < 8; v++) {
		assert_int_equal(take(r, v, insert), KEDGE__REDUCER_REX);
		assert_int_equal(lab.versions[v - 1].red.chunk, PATTERN);
		assert_int_equal(lab.versions[v - 1].red.parent, v - 1);
		assert_true(lab.versions[v - 1].red.literal_bytes <= PAGES * 2 * PATTERN);
	}
	assert_int_equal(kedge__reducer_options_of(r)->chunk, PATTERN);
	teardown(r);
}

/* Whichever form is in use can say how much of a region has changed. */
static void test_knows_what_changed(void **state)
{
	struct kedge__reducer *r = reducer(true);
	uint64_t base = KEDGE__SLOT_BYTES, bytes = PAGES * PAGE + 100;

	(void)state;
	setup();
	take(r, 1, NULL);
	assert_true(kedge__reducer_changed(r, base, lab.data[1], bytes, 0) == 0);
	assert_int_equal(take(r, 2, insert), KEDGE__REDUCER_REX);
	assert_true(kedge__reducer_changed(r, base, lab.data[1], bytes, 0) == 0);
	insert();
	assert_true(kedge__reducer_changed(r, base, lab.data[1], bytes, 0) > 0.5);
	assert_int_equal(take(r, 3, NULL), KEDGE__REDUCER_REX);
	teardown(r);
}

/* What is new everywhere, or comes from elsewhere, is no case for it. */
static void test_stays(void **state)
{
	void (*const changes[])(void) = {renew, move_pages};

	(void)state;
	for (size_t i = 0; i < KEDGE__COUNT(changes); i++) {
		struct kedge__reducer *r = reducer(false);

		setup();
		for (uint64_t v = 1; v < 24; v++)
			assert_int_not_equal(take(r, v, v > 1 ? changes[i] : NULL), KEDGE__REDUCER_REX);
		assert_int_equal(fetches, 0);
		teardown(r);
	}
}

/* And its record has the older versions still. */
static void test_comes_back(void **state)
{
	struct kedge__reducer *r = reducer(false);
	uint64_t v = 1, renewed;
	uint8_t *gone;

	(void)state;
	setup();
	take(r, v++, NULL);
	gone = malloc(16 * PAGE);
	assert_non_null(gone);
	memcpy(gone, lab.data[1] + 10 * PAGE, 16 * PAGE);
	for (; v < 6; v++)
		assert_int_equal(take(r, v, insert), KEDGE__REDUCER_REX);
	for (renewed = v; take(r, v, renew) == KEDGE__REDUCER_REX; v++)
		assert_true(v < renewed + 20);
	assert_int_equal(lab.versions[v - 1].red.parent, v - 1); /* it refers to the last one all the same */
	memcpy(lab.data[1] + 100 * PAGE, gone, 16 * PAGE);
	assert_int_equal(take(r, ++v, NULL), KEDGE__REDUCER_TREE);
	assert_true(lab.versions[v - 1].red.literal_bytes < PAGE);
	free(gone);
	teardown(r);
}

static void copy_tape(const struct kedge__extent_tape *from, struct kedge__extent_tape *to)
{
	struct kedge__extent_reader r = kedge__extents_of_tape(from);
	struct kedge__extent e;

	while (kedge__extent_next(&r, &e))
		assert_int_equal(kedge__extent_tape_append(to, e, false, NULL), 0);
}

/* The same versions give the same maps. */
static void test_equal_runs(void **state)
{
	struct kedge__extent_tape maps[12] = {0};

	(void)state;
	for (int run = 0; run < 2; run++) {
		struct kedge__reducer *r = reducer(false);

		setup();
		for (uint64_t v = 1; v <= KEDGE__COUNT(maps); v++) {
			take(r, v, v == 1 ? NULL : v < 7 ? insert : renew);
			if (run)
				assert_true(tape_same(&maps[v - 1], &lab.versions[v - 1].red.map));
			else
				copy_tape(&lab.versions[v - 1].red.map, &maps[v - 1]);
		}
		teardown(r);
	}
	for (size_t i = 0; i < KEDGE__COUNT(maps); i++)
		kedge__extent_tape_done(&maps[i]);
}

/* A store that cannot be read leaves everything as it is. */
static void test_store_is_away(void **state)
{
	struct kedge__reducer *r = reducer(false);

	(void)state;
	setup();
	take(r, 1, NULL);
	refused = 1;
	for (uint64_t v = 2; v < 5; v++) {
		assert_int_not_equal(take(r, v, insert), KEDGE__REDUCER_REX);
		assert_int_equal(lab.versions[v - 1].red.parent, v - 1);
	}
	refused = fetches + 3; /* half-way */
	assert_int_not_equal(take(r, 5, insert), KEDGE__REDUCER_REX);
	refused = 0;
	for (uint64_t v = 6; take(r, v, insert) != KEDGE__REDUCER_REX; v++)
		assert_true(v < 40);
	refused = fetches + 1; /* on the way back */
	for (uint64_t v = 40; v < 60; v++)
		assert_int_equal(take(r, v, renew), KEDGE__REDUCER_REX);
	assert_int_equal(lab.versions[lab.count - 1].red.parent, 58);
	teardown(r);
}

/* Versions that are rolled back, and those that are removed. */
static void test_rollback_and_retain(void **state)
{
	struct kedge__reducer *r = reducer(false);
	struct kedge__image_key alive[2] = {{.version = 3}, {.version = 4}};

	(void)state;
	setup();
	take(r, 1, NULL);
	insert();
	lab_take(&lab, r, NULL, 2, true);
	assert_int_equal(kedge__reducer_parent(r), 1);
	assert_int_equal(take(r, 3, insert), KEDGE__REDUCER_REX);
	assert_int_equal(take(r, 4, insert), KEDGE__REDUCER_REX);
	kedge__reducer_retain(r, alive, 2);
	assert_int_equal(kedge__reducer_parent(r), 4);
	assert_int_equal(take(r, 5, insert), KEDGE__REDUCER_REX);
	kedge__reducer_retain(r, alive, 2);
	assert_int_equal(kedge__reducer_parent(r), KEDGE__NO_VERSION);
	take(r, 6, insert);
	assert_int_equal(lab.versions[lab.count - 1].red.source_count, 0);
	kedge__reducer_reset(r);
	assert_int_equal(kedge__reducer_options_of(r)->chunk, CHUNK);
	assert_int_not_equal(take(r, 7, insert), KEDGE__REDUCER_REX);
	teardown(r);
}

/* ---- seen through a view, whose bytes may be had once; and only those that changed */

struct once {
	const struct kedge__image *image;
	const struct kedge__region_dirty *dirty;
	uint8_t taken[PAGES + 1];
};

static const void *once_get(void *ctx, int worker, size_t region, uint64_t offset, void *buffer, size_t bytes, bool all)
{
	struct once *o = ctx;

	(void)worker, (void)all;
	for (uint64_t at = offset; region == 0 && at < offset + bytes; at += PAGE) {
		assert_false(o->taken[at / PAGE]);
		assert_false(o->dirty && (at / PAGE) % 5 == 0 && at / PAGE < PAGES);
		o->taken[at / PAGE] = 1;
	}
	return memcpy(buffer, (const uint8_t *)o->image->regions[region].data + offset, bytes);
}

static bool once_keep(void *ctx, int worker, size_t region, uint64_t offset, const void *data, size_t bytes)
{
	(void)ctx, (void)worker, (void)region, (void)offset, (void)data, (void)bytes;
	return true;
}

static enum kedge__reducer_id take_once(struct kedge__reducer *r, uint64_t version, bool narrow)
{
	struct kedge__image_region regions[LAB_REGIONS];
	struct kedge__image image = {regions, lab_image(&lab, regions)};
	struct kedge__range ranges[PAGES / 5];
	struct kedge__region_dirty dirty[2] = {{true, ranges, PAGES / 5, NULL}, {true, NULL, 0, NULL}};
	struct once o = {.image = &image, .dirty = narrow ? dirty : NULL};
	const struct kedge__image_view view = {.get = once_get, .keep = once_keep, .ctx = &o};
	const struct kedge__reduce_how how = {.view = &view, .dirty = o.dirty};

	for (unsigned i = 0; i < PAGES / 5; i++)
		ranges[i] = (struct kedge__range){(uint64_t)(5 * i + 1) * PAGE, 4 * PAGE};
	if (narrow)
		assert_true(kedge__reducer_narrows(r, version, LAB_SLOT(1), PAGES * PAGE + 100));
	return lab_take_so(&lab, r, NULL, version, &how, false)->red.reducer;
}

static void test_through_a_view(void **state)
{
	(void)state;
	for (int narrow = 0; narrow < 2; narrow++) {
		struct kedge__reducer *r = reducer(true);

		setup();
		take_once(r, 1, false);
		for (uint64_t v = 2; v < 8; v++) {
			insert();
			/* What it was is seen in one version, what it is in the next, and the third one knows. */
			assert_int_equal(take_once(r, v, narrow) == KEDGE__REDUCER_REX, v >= 4);
		}
		teardown(r);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_goes_over_at_once),
	    cmocka_unit_test(test_knows_what_changed),
	    cmocka_unit_test(test_stays),
	    cmocka_unit_test(test_comes_back),
	    cmocka_unit_test(test_equal_runs),
	    cmocka_unit_test(test_store_is_away),
	    cmocka_unit_test(test_rollback_and_retain),
	    cmocka_unit_test(test_through_a_view),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
