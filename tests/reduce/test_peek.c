/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory that may change is compared with the last version in place, before it is copied. Only what has not changed is
 * not copied. */
#include "lab.h"

#include <string.h>

#define CHUNK 256u
#define PAGE  ((uint64_t)4096)
#define BYTES ((uint64_t)1 << 20)
#define TAIL  1000u

static uint8_t memory[BYTES + TAIL], before[BYTES + TAIL];

struct world {
	struct kedge__image_region region;
	struct kedge__image image;
	struct kedge__image_view view;
	const uint8_t *peeked;           /* where others look; NULL: nowhere */
	uint64_t got, looked;            /* bytes */
	uint64_t expected;               /* offset */
	size_t foreseen, requests;       /* pages that get() was asked for */
	struct kedge__reducer *r, *peer; /* the peer sees the image where it is */
	uint64_t seed;
};

static const void *world_get(void *ctx, int worker, size_t region, uint64_t offset, void *buffer, size_t bytes,
			     bool all)
{
	struct world *w = ctx;

	(void)worker, (void)all, (void)region;
	w->got += bytes;
	w->requests++;
	w->foreseen += offset == w->expected;
	return memcpy(buffer, memory + offset, bytes);
}

static const void *world_where(void *ctx, size_t region, uint64_t offset, size_t bytes)
{
	struct world *w = ctx;

	(void)region;
	w->looked += bytes;
	return w->peeked ? w->peeked + offset : NULL;
}

static void world_expect(void *ctx, size_t region, uint64_t offset, size_t bytes)
{
	struct world *w = ctx;

	(void)region;
	assert_true(bytes && offset + bytes <= sizeof(memory));
	w->expected = offset;
}

static void world_init(struct world *w, enum kedge__reducer_id id, uint64_t mask)
{
	static const uint8_t seed[KEDGE__DIGEST_SEED_BYTES] = {1};
	struct kedge__reducer_options o = {
	    .id = id, .chunk = CHUNK, .record_bytes = LAB_UNLIMITED, .track = true, .seed = seed, .digest_mask = mask};

	*w = (struct world){.region = {0, memory, sizeof(memory)}, .peeked = memory, .seed = 5};
	w->image = (struct kedge__image){&w->region, 1};
	w->view = (struct kedge__image_view){.get = world_get, .ctx = w, .where = world_where, .expect = world_expect};
	draw_bytes(&w->seed, memory, sizeof(memory));
	assert_int_equal(kedge__reducer_new(&o, &w->r, NULL), 0);
	assert_int_equal(kedge__reducer_new(&o, &w->peer, NULL), 0);
}

static void world_done(struct world *w)
{
	kedge__reducer_free(w->r);
	kedge__reducer_free(w->peer);
}

/* The same version, by both, with what is known of changes; *CHANGED: bytes that are. */
static void take_dirty(struct world *w, uint64_t version, const struct kedge__region_dirty *dirty, uint64_t *changed)
{
	const struct kedge__reduce_how how = {.view = &w->view, .dirty = dirty};
	struct kedge__reduction red = {0}, peer = {0};

	w->got = w->looked = w->expected = 0;
	w->foreseen = w->requests = 0;
	assert_int_equal(kedge__reducer_reduce(w->r, NULL, version, &w->image, &how, &red, NULL), 0);
	assert_int_equal(kedge__reducer_reduce(w->peer, NULL, version, &w->image, NULL, &peer, NULL), 0);
	assert_true(kedge__digest_equal(red.region_digests[0], peer.region_digests[0]));
	assert_true(tape_same(&red.map, &peer.map));
	*changed = red.changed_bytes;
	kedge__reducer_commit(w->r);
	kedge__reducer_commit(w->peer);
	kedge__reduction_done(&red);
	kedge__reduction_done(&peer);
}

static void take(struct world *w, uint64_t version, uint64_t *changed)
{
	take_dirty(w, version, NULL, changed);
}

/* What did not change is not copied; what did, is found, and once it has been it is known. */
static void test_only_changes_are_copied(void **state)
{
	static const enum kedge__reducer_id ids[] = {KEDGE__REDUCER_BASIC, KEDGE__REDUCER_LIST, KEDGE__REDUCER_TREE,
						     KEDGE__REDUCER_REX};
	uint64_t changed;
	struct world w;

	(void)state;
	for (size_t i = 0; i < KEDGE__COUNT(ids); i++) {
		world_init(&w, ids[i], 0);
		take(&w, 1, &changed);
		assert_int_equal(w.looked, 0);
		take(&w, 2, &changed);
		assert_int_equal(w.looked, sizeof(memory));
		assert_int_equal(w.got, 0);
		memory[7 * PAGE + 3] ^= 1;
		memory[BYTES + TAIL - 1] ^= 1;
		take(&w, 3, &changed);
		assert_int_equal(changed, CHUNK + TAIL % CHUNK);
		assert_int_equal(w.got, 2 * PAGE + TAIL); /* the one after a change is not looked at */
		take(&w, 4, &changed);
		assert_int_equal(w.got, 0);
		w.peeked = NULL;
		take(&w, 5, &changed);
		assert_int_equal(w.got, sizeof(memory));
		world_done(&w);
	}
}

/* Where most changes, few looks are in vain. */
static void test_all_new(void **state)
{
	uint64_t changed;
	struct world w;

	(void)state;
	world_init(&w, KEDGE__REDUCER_TREE, 0);
	take(&w, 1, &changed);
	draw_bytes(&w.seed, memory, sizeof(memory));
	take(&w, 2, &changed);
	assert_int_equal(w.got, sizeof(memory));
	assert_true(w.looked < sizeof(memory) / 8);
	world_done(&w);
}

/* A write between the look and the copy: the version has it if the look saw a change, and else the next one has. */
static void test_changed_meanwhile(void **state)
{
	uint64_t changed;
	struct kedge__reduction red = {0};
	struct world w;

	(void)state;
	world_init(&w, KEDGE__REDUCER_BASIC, 0);
	take(&w, 1, &changed);
	memcpy(before, memory, sizeof(memory));
	memory[5 * PAGE] ^= 1;
	w.peeked = before;
	assert_int_equal(
	    kedge__reducer_reduce(w.r, NULL, 2, &w.image, &(struct kedge__reduce_how){.view = &w.view}, &red, NULL), 0);
	assert_int_equal(red.changed_bytes, 0);
	kedge__reducer_commit(w.r);
	kedge__reduction_done(&red);
	before[9 * PAGE] ^= 1; /* this is seen, and gone when it is copied */
	assert_int_equal(
	    kedge__reducer_reduce(w.r, NULL, 3, &w.image, &(struct kedge__reduce_how){.view = &w.view}, &red, NULL), 0);
	assert_int_equal(red.changed_bytes, 0);
	kedge__reducer_commit(w.r);
	kedge__reduction_done(&red);
	w.peeked = memory;
	take(&w, 4, &changed);
	assert_int_equal(changed, CHUNK);
	world_done(&w);
}

/* Digests that cannot tell chunks apart: the sum of the region is that of its bytes all the same. */
static void test_sums_are_of_the_bytes(void **state)
{
	uint64_t changed;
	struct world w;

	(void)state;
	world_init(&w, KEDGE__REDUCER_BASIC, 1);
	take(&w, 1, &changed);
	for (uint64_t v = 2; v < 12; v++) {
		memory[draw_below(&w.seed, sizeof(memory))] ^= 1;
		take(&w, v, &changed);
		assert_true(w.got >= PAGE || w.got >= TAIL);
	}
	world_done(&w);
}

/* Pages here and there that a tracker names: few are looked at in vain, and the view is told of each before it is
 * requested. */
static void test_next_is_expected(void **state)
{
	struct kedge__range ranges[BYTES / PAGE];
	struct kedge__region_dirty dirty = {.known = true, .at = ranges};
	uint64_t changed;
	struct world w;

	(void)state;
	world_init(&w, KEDGE__REDUCER_TREE, 0);
	take(&w, 1, &changed);
	for (uint64_t at = 0; at + PAGE <= BYTES; at += (1 + draw_below(&w.seed, 4)) * PAGE) {
		ranges[dirty.count++] = (struct kedge__range){at + draw_below(&w.seed, 100), 8};
		memory[ranges[dirty.count - 1].start] ^= 1;
	}
	take_dirty(&w, 2, &dirty, &changed);
	assert_int_equal(changed, dirty.count * CHUNK);
	assert_int_equal(w.requests, dirty.count);
	assert_int_equal(w.foreseen, dirty.count); /* the first is at 0 */
	assert_true(w.looked <= 8 * PAGE);
	world_done(&w);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_only_changes_are_copied), cmocka_unit_test(test_all_new),
	    cmocka_unit_test(test_changed_meanwhile),       cmocka_unit_test(test_sums_are_of_the_bytes),
	    cmocka_unit_test(test_next_is_expected),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
