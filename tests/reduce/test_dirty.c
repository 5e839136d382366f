/* SPDX-License-Identifier: BSD-3-Clause */
/* Reductions that are told what may have changed, beside reductions that look at everything: no difference is allowed.
 */
#include "lab.h"

#include <stdio.h>
#include <string.h>

#define SLOTS 3

struct world {
	uint64_t seed;
	uint8_t *data[SLOTS];
	uint64_t bytes[SLOTS];
	bool present[SLOTS];
	bool fresh[SLOTS]; /* protected anew: everything may have changed */
	struct kedge__range dirty[SLOTS][64];
	size_t dirty_count[SLOTS];
	struct kedge__reducer *tracked, *plain;
	uint64_t version;
};

static void noise(struct world *w, uint8_t *p, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		p[i] = (uint8_t)draw_below(&w->seed, 256);
}

static void protect(struct world *w, int slot, uint64_t bytes)
{
	uint8_t *grown = calloc(1, bytes + 1);

	assert_non_null(grown);
	if (w->data[slot])
		memcpy(grown, w->data[slot], lab_min(bytes, w->bytes[slot]));
	free(w->data[slot]);
	w->data[slot] = grown;
	w->bytes[slot] = bytes;
	w->present[slot] = w->fresh[slot] = true;
}

/* A page tracker tells whole pages, and now and then more than was written. */
static void tell(struct world *w, int slot, uint64_t offset, uint64_t bytes)
{
	struct kedge__range *list = w->dirty[slot];
	size_t n = w->dirty_count[slot], i = 0;
	uint64_t start = offset & ~UINT64_C(4095),
		 end = lab_min((offset + bytes + 4095) & ~UINT64_C(4095), w->bytes[slot]);

	while (i < n && list[i].start + list[i].len < start)
		i++;
	while (i < n && list[i].start <= end) {
		uint64_t last = list[i].start + list[i].len;

		start = lab_min(start, list[i].start);
		end = last > end ? last : end;
		memmove(&list[i], &list[i + 1], (--n - i) * sizeof(*list));
	}
	assert_true(n < 64);
	memmove(&list[i + 1], &list[i], (n - i) * sizeof(*list));
	list[i] = (struct kedge__range){start, end - start};
	w->dirty_count[slot] = n + 1;
}

static void edit(struct world *w)
{
	int slot = (int)draw_below(&w->seed, SLOTS);
	uint64_t at, len, from;

	if (!w->present[slot] || !w->bytes[slot])
		return;
	at = draw_below(&w->seed, w->bytes[slot]);
	len = 1 + draw_below(&w->seed, lab_min(w->bytes[slot] - at, draw_below(&w->seed, 4) ? 3000 : 60000));
	tell(w, slot, at, len);
	switch (draw_below(&w->seed, 4)) {
	case 0: /* written with what was there */
		break;
	case 1: /* moved from elsewhere */
		from = draw_below(&w->seed, w->bytes[slot] - len + 1);
		memmove(w->data[slot] + at, w->data[slot] + from, len);
		break;
	case 2:
		memset(w->data[slot] + at, 0, len);
		break;
	default:
		noise(w, w->data[slot] + at, len);
	}
}

static void same_result(const struct kedge__reduction *a, const struct kedge__reduction *b, size_t regions)
{
	assert_int_equal(a->reducer, b->reducer);
	assert_int_equal(a->parent, b->parent);
	assert_int_equal(a->raw_bytes, b->raw_bytes);
	assert_int_equal(a->changed_bytes, b->changed_bytes);
	assert_int_equal(a->literal_bytes, b->literal_bytes);
	assert_true(tape_same(&a->map, &b->map));
	assert_int_equal(a->literals.count, b->literals.count);
	for (size_t i = 0; i < a->literals.count; i++)
		assert_true(a->literals.at[i].data == b->literals.at[i].data &&
			    a->literals.at[i].bytes == b->literals.at[i].bytes);
	assert_memory_equal(a->region_digests, b->region_digests, regions * sizeof(*a->region_digests));
}

/* Both reducers take a version; a rollback makes what was told so far worthless, as for a tracker. */
static void take(struct world *w, struct kedge__pool *pool, bool keep)
{
	struct kedge__image_region regions[SLOTS];
	struct kedge__region_dirty dirty[SLOTS];
	struct kedge__image image = {regions, 0};
	struct kedge__reduction a, b;

	for (int s = 0; s < SLOTS; s++) {
		if (!w->present[s])
			continue;
		regions[image.count] = (struct kedge__image_region){LAB_SLOT(s), w->data[s], w->bytes[s]};
		dirty[image.count] = (struct kedge__region_dirty){!w->fresh[s], w->dirty[s], w->dirty_count[s], NULL};
		image.count++;
	}
	w->version++;
	assert_int_equal(kedge__reducer_reduce(w->tracked, pool, w->version, &image,
					       &(struct kedge__reduce_how){.dirty = dirty}, &a, NULL),
			 0);
	assert_int_equal(kedge__reducer_reduce(w->plain, pool, w->version, &image, NULL, &b, NULL), 0);
	same_result(&a, &b, image.count);
	kedge__reduction_done(&a);
	kedge__reduction_done(&b);
	for (int s = 0; s < SLOTS; s++) {
		w->dirty_count[s] = 0;
		w->fresh[s] = !keep;
	}
	if (keep) {
		kedge__reducer_commit(w->tracked);
		kedge__reducer_commit(w->plain);
	} else {
		kedge__reducer_rollback(w->tracked);
		kedge__reducer_rollback(w->plain);
	}
}

static struct kedge__reducer *reducer_new(enum kedge__reducer_id id, uint32_t chunk, bool track, bool paranoid)
{
	struct kedge__reducer_options o = {
	    .id = id, .chunk = chunk, .record_bytes = LAB_UNLIMITED, .track = track, .paranoid = paranoid};
	struct kedge__reducer *r;

	assert_int_equal(kedge__reducer_new(&o, &r, NULL), 0);
	return r;
}

static void world_init(struct world *w, enum kedge__reducer_id id, uint32_t chunk, uint64_t seed)
{
	memset(w, 0, sizeof(*w));
	w->seed = seed;
	w->tracked = reducer_new(id, chunk, true, false);
	w->plain = reducer_new(id, chunk, false, false);
	protect(w, 0, 700 * 1000 + 13);
	protect(w, 1, 5000);
	noise(w, w->data[0], w->bytes[0]);
}

static void world_done(struct world *w)
{
	for (int s = 0; s < SLOTS; s++)
		free(w->data[s]);
	kedge__reducer_free(w->tracked);
	kedge__reducer_free(w->plain);
}

static void upheaval(struct world *w)
{
	switch (draw_below(&w->seed, 12)) {
	case 0:
		protect(w, 1, draw_below(&w->seed, 300000));
		break;
	case 1:
		protect(w, 2, draw_below(&w->seed, 40000));
		break;
	case 2:
		w->present[2] = false;
		break;
	case 3:
		w->fresh[draw_below(&w->seed, SLOTS)] = true; /* somebody says that it does not know */
		break;
	default:
		break;
	}
}

static void test_oracle(void **state)
{
	static const uint32_t chunks[] = {32, 256, 4096, 65536}, patterns[] = {16, 32, 64, 256};
	struct kedge__pool *pool;

	(void)state;
	assert_int_equal(kedge__pool_new(2, &pool, NULL), 0);
	for (int id = KEDGE__REDUCER_FULL; id <= KEDGE__REDUCER_REX; id++)
		for (size_t c = 0; id != KEDGE__REDUCER_MERGED && c < KEDGE__COUNT(chunks); c++) {
			struct world w;

			world_init(&w, (enum kedge__reducer_id)id, id == KEDGE__REDUCER_REX ? patterns[c] : chunks[c],
				   (uint64_t)id * 10 + c);
			for (int v = 0; v < LAB_SCALE(40); v++) {
				for (uint64_t n = draw_below(&w.seed, 12); n; n--)
					edit(&w);
				upheaval(&w);
				take(&w, draw_below(&w.seed, 2) ? pool : NULL, draw_below(&w.seed, 6) != 0);
			}
			world_done(&w);
		}
	kedge__pool_free(pool);
}

static uint64_t reduce_one(struct kedge__reducer *r, uint64_t version, void *data, uint64_t bytes,
			   const struct kedge__region_dirty *dirty, struct kedge__digest *digest)
{
	struct kedge__image_region region = {LAB_SLOT(1), data, bytes};
	struct kedge__image image = {&region, 1};
	struct kedge__reduction red;
	uint64_t changed;

	assert_int_equal(
	    kedge__reducer_reduce(r, NULL, version, &image, &(struct kedge__reduce_how){.dirty = dirty}, &red, NULL),
	    0);
	changed = red.changed_bytes;
	*digest = red.region_digests[0];
	kedge__reduction_done(&red);
	return changed;
}

/* What is told to be clean is not read: bytes that were changed behind its back stay unseen. */
static void test_clean_bytes_are_not_read(void **state)
{
	static uint8_t data[600000];
	struct kedge__range at = {8192, 10};
	struct kedge__region_dirty clean = {true, NULL, 0, NULL}, some = {true, &at, 1, NULL};
	struct kedge__reducer *r = reducer_new(KEDGE__REDUCER_TREE, 256, true, false);
	struct kedge__digest first, d;

	(void)state;
	assert_int_equal(reduce_one(r, 1, data, sizeof(data), &clean, &first), sizeof(data)); /* there is no parent */
	kedge__reducer_commit(r);
	memset(data, 1, sizeof(data));
	assert_int_equal(reduce_one(r, 2, data, sizeof(data), &clean, &d), 0);
	assert_memory_equal(&d, &first, sizeof(d));
	kedge__reducer_commit(r);
	assert_int_equal(reduce_one(r, 3, data, sizeof(data), &some, &d), 4096);
	kedge__reducer_rollback(r);
	assert_int_equal(reduce_one(r, 3, data, sizeof(data), &clean, &d), sizeof(data)); /* after a rollback: all */
	kedge__reducer_commit(r);
	assert_int_equal(reduce_one(r, 4, data, sizeof(data) - 1, &clean, &d), 191); /* another size: its last chunk */
	kedge__reducer_free(r);
}

/* Who did not ask for it, or trusts nobody, gets everything looked at. */
static void test_not_narrowed(void **state)
{
	static uint8_t data[300000];
	struct kedge__region_dirty clean = {true, NULL, 0, NULL};
	struct kedge__digest d;

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct kedge__reducer *r = reducer_new(KEDGE__REDUCER_BASIC, 256, i == 0, i == 0);

		memset(data, 0, sizeof(data));
		reduce_one(r, 1, data, sizeof(data), &clean, &d);
		kedge__reducer_commit(r);
		data[5] = 1;
		assert_int_equal(reduce_one(r, 2, data, sizeof(data), &clean, &d), 256);
		kedge__reducer_free(r);
	}
}

/* The share of a region that changed, by a sample: exact where it is all or nothing, and unknown where nothing is. */
static void test_sampled_share(void **state)
{
	static uint8_t data[(4 << 20) + 100];
	struct kedge__digest d;
	struct kedge__reducer *r = reducer_new(KEDGE__REDUCER_BASIC, 256, true, false);
	uint64_t seed = 3;
	double sum = 0;

	(void)state;
	draw_bytes(&seed, data, sizeof(data));
	assert_true(kedge__reducer_changed(r, LAB_SLOT(1), data, sizeof(data), 0) < 0);
	reduce_one(r, 1, data, sizeof(data), NULL, &d);
	assert_true(kedge__reducer_changed(r, LAB_SLOT(1), data, sizeof(data), 0) < 0); /* in progress */
	kedge__reducer_commit(r);
	assert_true(kedge__reducer_changed(r, LAB_SLOT(2), data, sizeof(data), 0) < 0);
	assert_true(kedge__reducer_changed(r, LAB_SLOT(1), data, sizeof(data) - 1, 0) < 0);
	for (uint64_t turn = 0; turn < 20; turn++)
		assert_true(kedge__reducer_changed(r, LAB_SLOT(1), data, sizeof(data), turn) == 0);
	for (size_t at = 0; at < sizeof(data); at += 4 * 4096) /* a page in four */
		data[at] ^= 1;
	for (uint64_t turn = 0; turn < 100; turn++)
		sum += kedge__reducer_changed(r, LAB_SLOT(1), data, sizeof(data), turn);
	assert_true(sum > 20 && sum < 30);
	for (size_t at = 0; at < sizeof(data); at += 4096)
		data[at] ^= 2;
	for (uint64_t turn = 0; turn < 20; turn++)
		assert_true(kedge__reducer_changed(r, LAB_SLOT(1), data, sizeof(data), turn) == 1);
	kedge__reducer_free(r);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_oracle),
	    cmocka_unit_test(test_clean_bytes_are_not_read),
	    cmocka_unit_test(test_not_narrowed),
	    cmocka_unit_test(test_sampled_share),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
