/* SPDX-License-Identifier: BSD-3-Clause */
/* Slabs that are hashed as they are stored: what is known afterwards is what would be known if they were hashed before.
 */
#include "lab.h"

#define CHUNK 64u
#define BYTES ((uint64_t)3 << 20) /* many chunks */
#define TAIL  1234u               /* of the last slab */
#define SLAB  ((uint64_t)256 << 10)

static uint8_t one[BYTES + TAIL], two[5000];

struct world {
	struct kedge__image_region regions[2];
	struct kedge__image image;
	struct kedge__image_view view;
	struct kedge__reducer *r, *peer; /* the peer sees the image where it is */
	struct kedge__reduction red;
	uint64_t seed;
};

static const void *live_get(void *ctx, int worker, size_t region, uint64_t offset, void *buffer, size_t bytes, bool all)
{
	const struct kedge__image *image = ctx;

	(void)worker, (void)all;
	assert_true(offset + bytes <= image->regions[region].bytes);
	return memcpy(buffer, (const uint8_t *)image->regions[region].data + offset, bytes);
}

static void world_init(struct world *w, enum kedge__reducer_id id, bool track)
{
	struct kedge__reducer_options o = {.id = id, .chunk = CHUNK, .record_bytes = LAB_UNLIMITED, .track = track};

	memset(w, 0, sizeof(*w));
	w->regions[0] = (struct kedge__image_region){0, one, sizeof(one)};
	w->regions[1] = (struct kedge__image_region){KEDGE__SLOT_BYTES, two, sizeof(two)};
	w->image = (struct kedge__image){w->regions, 2};
	w->view = (struct kedge__image_view){.get = live_get, .ctx = &w->image};
	w->seed = 1;
	draw_bytes(&w->seed, one, sizeof(one));
	draw_bytes(&w->seed, two, sizeof(two));
	assert_int_equal(kedge__reducer_new(&o, &w->r, NULL), 0);
	assert_int_equal(kedge__reducer_new(&o, &w->peer, NULL), 0);
}

static void world_done(struct world *w)
{
	kedge__reducer_free(w->r);
	kedge__reducer_free(w->peer);
}

static void reduce(struct world *w, uint64_t version, const struct kedge__region_dirty *dirty)
{
	const struct kedge__reduce_how how = {.view = &w->view, .dirty = dirty};

	assert_int_equal(kedge__reducer_reduce(w->r, NULL, version, &w->image, &how, &w->red, NULL), 0);
}

/* All literals, in pieces of odd sizes, up to LIMIT bytes. */
static void store(struct world *w, uint64_t limit)
{
	uint32_t unit = kedge__reducer_unit(w->r);

	for (size_t i = 0; i < w->red.literals.count && limit; i++) {
		const struct kedge__literal *l = &w->red.literals.at[i];
		uint64_t start = (uint64_t)((const uint8_t *)l->data - (const uint8_t *)w->regions[l->region].data), n;

		for (uint64_t at = 0; at < l->bytes && limit; at += n, limit -= lab_min(limit, n)) {
			n = lab_min((1 + draw_below(&w->seed, 3000)) * unit, l->bytes - at);
			assert_int_equal(
			    kedge__reducer_check(w->r, l->region, start + at, (const uint8_t *)l->data + at, n), 0);
		}
	}
}

/* The digests of regions are those of the bytes, by somebody who has read them. */
static void digests_are_right(struct world *w, uint64_t version)
{
	struct kedge__reduction red = {0};

	assert_int_equal(kedge__reducer_reduce(w->peer, NULL, version, &w->image, NULL, &red, NULL), 0);
	for (size_t i = 0; i < w->image.count; i++)
		assert_true(kedge__digest_equal(red.region_digests[i], w->red.region_digests[i]));
	kedge__reducer_commit(w->peer);
	kedge__reduction_done(&red);
}

static void take(struct world *w, uint64_t version, const struct kedge__region_dirty *dirty,
		 enum kedge__reducer_id used, uint64_t literals)
{
	reduce(w, version, dirty);
	assert_int_equal(w->red.reducer, used);
	assert_int_equal(w->red.literal_bytes, literals);
	store(w, UINT64_MAX);
	assert_true(kedge__reducer_checked(w->r));
	digests_are_right(w, version);
	kedge__reducer_commit(w->r);
	kedge__reduction_done(&w->red);
}

#define ALL (sizeof(one) + sizeof(two))

static void test_full(void **state)
{
	struct world w;

	(void)state;
	world_init(&w, KEDGE__REDUCER_FULL, false);
	for (uint64_t v = 1; v <= 3; v++) {
		take(&w, v, NULL, KEDGE__REDUCER_FULL, ALL);
		one[v * 1000]++;
	}
	world_done(&w);
}

/* What was stored is known: the next version has nothing new but what is new. */
static void test_first_version(void **state)
{
	struct world w;

	(void)state;
	for (int track = 0; track < 2; track++) {
		struct kedge__range dirty[] = {{100 * 4096, 4096}, {BYTES + 1000, 1}};
		struct kedge__region_dirty lists[] = {{true, dirty, 2, NULL}, {true, NULL, 0, NULL}};

		world_init(&w, KEDGE__REDUCER_AUTO, track);
		take(&w, 1, NULL, KEDGE__REDUCER_BASIC, ALL);
		take(&w, 2, NULL, KEDGE__REDUCER_TREE, 0);
		one[100 * 4096 + 5]++;
		one[BYTES + 1000]++;
		take(&w, 3, track ? lists : NULL, KEDGE__REDUCER_TREE, 2 * CHUNK);
		world_done(&w);
	}
}

/* With the sums of grains that passed by, a tracker can narrow the second version already. */
static void test_narrow(void **state)
{
	struct kedge__range dirty[] = {{8192, 4096}};
	struct kedge__region_dirty lists[] = {{true, dirty, 1, NULL}, {true, NULL, 0, NULL}};
	struct world w;

	(void)state;
	world_init(&w, KEDGE__REDUCER_AUTO, true);
	take(&w, 1, NULL, KEDGE__REDUCER_BASIC, ALL);
	assert_true(kedge__reducer_narrows(w.r, 2, 0, sizeof(one)));
	one[9000]++;
	take(&w, 2, lists, KEDGE__REDUCER_TREE, CHUNK);
	world_done(&w);
}

/* Constants are found, where a few looks into a slab meet one. */
static void test_constants(void **state)
{
	struct world w;

	(void)state;
	world_init(&w, KEDGE__REDUCER_AUTO, false);
	memset(one + 2 * SLAB, 0, 3 * SLAB);
	memset(one + 7 * SLAB, 7, SLAB / 2);
	take(&w, 1, NULL, KEDGE__REDUCER_BASIC, ALL - 3 * SLAB - SLAB / 2);
	take(&w, 2, NULL, KEDGE__REDUCER_TREE, 0);
	one[3 * SLAB] = 1;
	take(&w, 3, NULL, KEDGE__REDUCER_TREE, CHUNK);
	world_done(&w);
}

static unsigned peeks;

static const void *held_get(void *ctx, int worker, size_t region, uint64_t offset, void *buffer, size_t bytes, bool all)
{
	(void)worker, (void)all;
	assert_true(false); /* all of it is seen as it is stored */
	return live_get(ctx, 0, region, offset, buffer, bytes, true);
}

static bool held_keep(void *ctx, int worker, size_t region, uint64_t offset, const void *data, size_t bytes)
{
	(void)ctx, (void)worker, (void)region, (void)offset, (void)data, (void)bytes;
	return true;
}

static const void *held_peek(void *ctx, size_t region, uint64_t offset, void *buffer, size_t bytes)
{
	peeks++;
	return live_get(ctx, 0, region, offset, buffer, bytes, false);
}

/* Of memory that is held, no more than the sample is read before, if that shows no constants. */
static void test_looks(void **state)
{
	struct world w;

	(void)state;
	world_init(&w, KEDGE__REDUCER_AUTO, true);
	w.view = (struct kedge__image_view){
	    .get = held_get, .keep = held_keep, .peek = held_peek, .ctx = &w.image, .stays = true};
	for (uint64_t v = 1; v <= 3; v++) {
		draw_bytes(&w.seed, one, sizeof(one));
		draw_bytes(&w.seed, two, sizeof(two));
		peeks = 0;
		take(&w, v, NULL, KEDGE__REDUCER_BASIC, ALL);
		assert_in_range(peeks, 1, 2048);
	}
	world_done(&w);
}

/* An image that repeats itself is worth a look at every chunk, and a small one is. */
static void test_duplicates(void **state)
{
	struct world w;

	(void)state;
	world_init(&w, KEDGE__REDUCER_AUTO, false);
	for (uint64_t at = 6400; at + 6400 <= BYTES; at += 6400)
		memcpy(one + at, one, 6400);
	reduce(&w, 1, NULL);
	assert_int_equal(w.red.reducer, KEDGE__REDUCER_TREE);
	assert_true(w.red.literal_bytes < 40000);
	kedge__reducer_rollback(w.r);
	kedge__reduction_done(&w.red);
	w.regions[0].bytes = 100000;
	take(&w, 1, NULL, KEDGE__REDUCER_TREE, 6400 + sizeof(two) + 100000 % CHUNK);
	world_done(&w);
}

/* Everything changes, and is stored without further ado. Then nothing does, and that is seen at once. */
static void test_dense(void **state)
{
	struct world w;
	uint64_t v = 1;

	(void)state;
	world_init(&w, KEDGE__REDUCER_AUTO, true);
	take(&w, v++, NULL, KEDGE__REDUCER_BASIC, ALL);
	for (int i = 0; i < 4; i++) {
		draw_bytes(&w.seed, one, sizeof(one));
		draw_bytes(&w.seed, two, sizeof(two));
		take(&w, v++, NULL, KEDGE__REDUCER_BASIC, ALL);
	}
	take(&w, v++, NULL, KEDGE__REDUCER_TREE, 0);
	world_done(&w);
}

/* All has moved, and little is new: that is not new, though every chunk differs from what was at its place. */
static void test_moved(void **state)
{
	struct world w;

	(void)state;
	world_init(&w, KEDGE__REDUCER_AUTO, false);
	take(&w, 1, NULL, KEDGE__REDUCER_BASIC, ALL);
	memmove(one + 10 * CHUNK, one, BYTES - 10 * CHUNK);
	draw_bytes(&w.seed, one, 10 * CHUNK);
	take(&w, 2, NULL, KEDGE__REDUCER_TREE, 10 * CHUNK);
	world_done(&w);
}

/* A version that is given up half-way leaves nothing that anybody believes. */
static void test_rollback(void **state)
{
	struct world w;

	(void)state;
	for (uint64_t limit = 0; limit <= BYTES; limit += BYTES / 3) {
		world_init(&w, KEDGE__REDUCER_AUTO, true);
		reduce(&w, 1, NULL);
		store(&w, limit);
		kedge__reducer_rollback(w.r);
		kedge__reduction_done(&w.red);
		take(&w, 1, NULL, KEDGE__REDUCER_BASIC, ALL);
		for (int i = 0; i < 2; i++) {
			draw_bytes(&w.seed, one, sizeof(one));
			draw_bytes(&w.seed, two, sizeof(two));
			take(&w, (uint64_t)i + 2, NULL, KEDGE__REDUCER_BASIC, ALL);
		}
		draw_bytes(&w.seed, one, sizeof(one));
		reduce(&w, 4, NULL);
		store(&w, limit);
		kedge__reducer_rollback(w.r);
		kedge__reduction_done(&w.red);
		assert_false(kedge__reducer_narrows(w.r, 4, 0, sizeof(one)));
		one[5]++;
		take(&w, 4, NULL, KEDGE__REDUCER_BASIC, ALL);
		take(&w, 5, NULL, KEDGE__REDUCER_TREE, 0);
		world_done(&w);
	}
}

/* One chunk in a hundred changes after it was glanced at: some of it was seen. */
static void test_changes_meanwhile(void **state)
{
	struct world w;

	(void)state;
	for (int id = 0; id < 2; id++) {
		bool same = true;

		world_init(&w, id ? KEDGE__REDUCER_AUTO : KEDGE__REDUCER_FULL, false);
		reduce(&w, 1, NULL);
		for (uint64_t at = 50; at < sizeof(one); at += 100 * CHUNK)
			one[at]++;
		for (uint64_t at = 0; at < BYTES; at += SLAB)
			same = kedge__reducer_check(w.r, 0, at, one + at, SLAB) == 0 && same;
		assert_false(same);
		kedge__reducer_rollback(w.r);
		kedge__reduction_done(&w.red);
		take(&w, 1, NULL, id ? KEDGE__REDUCER_BASIC : KEDGE__REDUCER_FULL, ALL);
		world_done(&w);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_full),     cmocka_unit_test(test_first_version),
	    cmocka_unit_test(test_narrow),   cmocka_unit_test(test_constants),
	    cmocka_unit_test(test_looks),    cmocka_unit_test(test_duplicates),
	    cmocka_unit_test(test_dense),    cmocka_unit_test(test_moved),
	    cmocka_unit_test(test_rollback), cmocka_unit_test(test_changes_meanwhile),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
