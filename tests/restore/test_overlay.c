/* SPDX-License-Identifier: BSD-3-Clause */
/* Literals of newer versions that go over the ground while it is in the cache: of whatever sizes and at whatever
 * places, with copies, fills, packed blocks and dead pages among them, what is restored is what was saved. */
#include "support.h"

#define MOST   ((UINT64_C(9) << 20) + 4099) /* three overlays, the last one short */
#define GROWTH 30000
#define PLACES 32          /* that changed lately */
#ifdef __SANITIZE_THREAD__ /* ten times slower */
#define PLANS 20
#define FLIPS 1
#else
#define PLANS 100
#define FLIPS 4
#endif

struct world {
	struct lab *lab;
	struct lab_region regions[3];
	uint8_t *data[3];
	uint8_t *first; /* of the first region, in version 0 */
	uint64_t places[PLACES], changes;
	uint64_t seed, chunk, versions;
	uint64_t oddness; /* four of so many changes are no new bytes */
	size_t count;
};

static uint64_t roll(struct world *w, uint64_t n)
{
	return draw_below(&w->seed, n);
}

static uint64_t place(struct world *w, uint64_t bytes, uint64_t len)
{
	uint64_t at = roll(w, bytes - len + 1);

	return roll(w, 3) ? at / w->chunk * w->chunk : at;
}

static void fill(struct world *w, uint8_t *to, uint64_t len)
{
	bool packs = roll(w, 2); /* a codec can do something with it */

	fill_random(to, len, draw(&w->seed));
	for (uint64_t i = 12; i < len && packs; i++) /* and which is not a pattern of eight bytes */
		to[i] = to[i % 12];
}

/* Some bytes of a region become new, zero, those of another place, or what was at this very place at first. */
static void change(struct world *w, size_t r)
{
	uint64_t bytes = w->regions[r].bytes, dice = roll(w, w->oddness), at;
	uint64_t len = w->chunk * (1 + (roll(w, 12) ? 0 : roll(w, 20)));

	if (!roll(w, 8))
		len = 1 + roll(w, len);
	if (!roll(w, 100))
		len = 4096 * (1 + roll(w, 4));
	len = KEDGE__MIN(len, bytes / 2);
	at = place(w, bytes, len);
	if (dice < 2 && r == 0 && w->changes)
		at = w->places[roll(w, w->changes) % PLACES] / w->chunk * w->chunk;
	at = KEDGE__MIN(at, bytes - len);
	if (dice < 2 && r == 0 && w->changes)
		memcpy(w->data[0] + at, w->first + at, len);
	else if (dice == 2)
		memset(w->data[r] + at, (int)roll(w, 3), len);
	else if (dice == 3)
		memmove(w->data[r] + at, w->data[r] + place(w, bytes, len), len);
	else
		fill(w, w->data[r] + at, len);
	if (r == 0)
		w->places[w->changes++ % PLACES] = at;
}

static void world_open(struct world *w, uint64_t seed)
{
	static const enum kedge__reducer_id ids[] = {KEDGE__REDUCER_TREE, KEDGE__REDUCER_BASIC, KEDGE__REDUCER_REX};
	static const uint32_t blocks[] = {131072, 4096, 100000, 65536};
	static const char *const names[] = {"a", "b", "c"};
	enum kedge__reducer_id id;

	*w = (struct world){.seed = seed};
	id = ids[roll(w, 3)];
	w->chunk = id == KEDGE__REDUCER_REX ? 16 : UINT64_C(32) << roll(w, 6);
	w->versions = 1 + roll(w, 12);
	w->oddness = UINT64_C(40) << roll(w, 4);
	w->count = 1 + roll(w, 3);
	w->lab = lab_new(id, (uint32_t)w->chunk, roll(w, 4) ? "none" : "lz4", blocks[roll(w, 4)]);
	w->lab->rows = seed % 5 == 0;
	for (size_t r = 0; r < w->count; r++) {
		uint64_t bytes = r == 0 && !roll(w, 2) ? MOST - roll(w, 9000) : 16384 + roll(w, 700000);

		w->data[r] = malloc(bytes + GROWTH);
		w->regions[r] = (struct lab_region){names[r], w->data[r], bytes, (uint32_t)(2 * r)};
		fill_random(w->data[r], bytes + GROWTH, draw(&w->seed));
	}
	w->first = malloc(w->regions[0].bytes + GROWTH);
	memcpy(w->first, w->data[0], w->regions[0].bytes + GROWTH);
}

static void world_close(struct world *w)
{
	for (size_t r = 0; r < w->count; r++)
		free(w->data[r]);
	free(w->first);
	lab_free(w->lab);
}

/* Some of the worlds have a region that grows and shrinks. */
static void world_save(struct world *w)
{
	uint64_t most = 16 + roll(w, 6) * roll(w, 300), least = w->regions[0].bytes;
	bool grows = !roll(w, 3);

	for (uint64_t v = 0; v <= w->versions; v++) {
		if (grows)
			w->regions[0].bytes = least + (roll(w, 2) ? roll(w, GROWTH) : w->regions[0].bytes - least);
		for (size_t r = 0; v && r < w->count; r++)
			for (uint64_t i = roll(w, most + 1); i > 0; i--)
				change(w, r);
		lab_save(w->lab, v, w->regions, w->count);
	}
}

/* With many threads or one, in batches of any size, to memory that is there or is not. */
static uint64_t world_restore(struct world *w)
{
	struct kedge__lineage *l = lab_open(w->lab, w->versions);
	struct kedge__io io = {.buffer = roll(w, 2) ? 0 : (size_t)4096 << roll(w, 11)};
	struct kedge__restore_target targets[3] = {{0}};
	struct kedge__restore_stats stats;

	for (size_t r = 0; r < w->count; r++) {
		targets[r] = (struct kedge__restore_target){.region = r, .data = kedge__map_alloc(w->regions[r].bytes)};
		if (roll(w, 2))
			memset(targets[r].data, 0xa5, w->regions[r].bytes);
	}
	if (kedge__restore_fill(l, roll(w, 2) ? w->lab->pool : NULL, io, targets, w->count, NULL, NULL, &stats,
				&w->lab->err))
		fail_msg("%s", kedge__error_text(&w->lab->err));
	for (size_t r = 0; r < w->count; r++) {
		assert_memory_equal(targets[r].data, w->data[r], w->regions[r].bytes);
		kedge__map_free(targets[r].data, w->regions[r].bytes);
	}
	kedge__lineage_close(l);
	return stats.bytes_laid;
}

static void test_any(void **state)
{
	uint64_t laid = 0, worlds = 0;

	(void)state;
	for (uint64_t seed = 1; seed <= PLANS; seed++) {
		struct world w;
		uint64_t bytes;

		world_open(&w, seed);
		world_save(&w);
		bytes = world_restore(&w);
		laid += bytes;
		worlds += bytes > 0;
		world_close(&w);
	}
	/* It was put to the test. */
	assert_true(worlds > PLANS / 6);
	assert_true(laid > UINT64_C(10000) * PLANS);
}

/* ------------------------------------------------------------------ one region, chunk by chunk */

#define BYTES  (UINT64_C(1) << 20)
#define CHUNK  256
#define LAST   5
#define LITTLE 200 /* chunks that change each time */

struct single {
	struct lab *lab;
	uint8_t *data, *back;
	uint64_t bytes, seed;
	struct kedge__restore_stats stats; /* of the last restore */
};

static void single_open(struct single *s, uint64_t bytes)
{
	*s = (struct single){.lab = lab_new(KEDGE__REDUCER_TREE, CHUNK, "none", 131072),
			     .data = malloc(bytes),
			     .back = malloc(bytes),
			     .bytes = bytes,
			     .seed = 5};
	fill_random(s->data, bytes, 1);
}

static void single_close(struct single *s)
{
	lab_free(s->lab);
	free(s->data);
	free(s->back);
}

static void single_save(struct single *s, uint64_t version)
{
	struct lab_region region = {"m", s->data, s->bytes, 0};

	lab_save(s->lab, version, &region, 1);
}

/* N chunks of the first BYTES become new. */
static void single_change(struct single *s, uint64_t bytes, int n)
{
	for (int i = 0; i < n; i++)
		fill_random(s->data + draw_below(&s->seed, bytes / CHUNK) * CHUNK, CHUNK, draw(&s->seed));
}

static int single_fill(struct single *s, struct kedge__lineage *l, struct kedge__pool *pool, struct kedge__error *err)
{
	struct kedge__restore_target target = {0, s->back, NULL, false};

	memset(s->back, 0, s->bytes);
	return kedge__restore_fill(l, pool, (struct kedge__io){0}, &target, 1, NULL, NULL, &s->stats, err);
}

static void single_restore(struct single *s, uint64_t version, struct kedge__pool *pool)
{
	struct kedge__lineage *l = lab_open(s->lab, version);

	assert_int_equal(single_fill(s, l, pool, NULL), 0);
	kedge__lineage_close(l);
}

/* More than fits into a cache: three versions, of which the changes of the first MiB are overlays. */
static void large_open(struct single *s, bool rows)
{
	single_open(s, (UINT64_C(17) << 20) + 72);
	s->lab->rows = rows;
	for (uint64_t v = 0; v <= 2; v++) {
		single_change(s, BYTES, v ? LITTLE : 0);
		fill_random(s->data + 5 * BYTES, v * 20000, v);
		single_save(s, v);
	}
}

/* Memory that is written past the cache, with sums that are made on the way, or, of digests as they were, are not; from
 * where the page cache has the file, if that is to be had, and from what was read. */
static void test_more_than_a_cache(void **state)
{
	(void)state;
	for (int rows = 0; rows < 2; rows++) {
		struct kedge__lineage *l;
		struct single s;

		large_open(&s, rows);
		for (uint64_t v = 0; v <= 2; v += 2) {
			single_restore(&s, v, s.lab->pool);
			assert_int_equal(memcmp(s.back, s.data, s.bytes) == 0, v == 2);
		}
		l = lab_open(s.lab, 2);
		if (kedge__file_map_suits(kedge__lineage_segment(l, 0)->fd))
			assert_int_equal(s.stats.bytes_mapped > 0, !rows);
		kedge__lineage_close(l);
		single_close(&s);
	}
}

/* An altered byte anywhere, and the end of the file that is gone, are found, and reported as ever. */
static void test_more_than_a_cache_damaged(void **state)
{
	const struct kedge__segment *seg;
	struct kedge__lineage *l;
	struct single s;

	(void)state;
	large_open(&s, false);
	l = lab_open(s.lab, 2);
	seg = kedge__lineage_segment(l, 0);
	for (uint64_t at = 77; at < FLIPS * 4 * BYTES; at += 4 * BYTES - 4096) {
		file_flip(seg->path, seg->blocks[0].offset + at, 1);
		assert_int_equal(single_fill(&s, l, s.lab->pool, NULL), KEDGE_E_DAMAGED);
		file_flip(seg->path, seg->blocks[0].offset + at, 1);
	}
	assert_int_equal(single_fill(&s, l, s.lab->pool, NULL), 0);
	assert_memory_equal(s.back, s.data, s.bytes);
	assert_int_equal(truncate(seg->path, (off_t)(9 * BYTES)), 0);
	assert_int_not_equal(single_fill(&s, l, s.lab->pool, NULL), 0);
	kedge__lineage_close(l);
	single_close(&s);
}

/* Pieces are taken from where the page cache has them, too, every other batch at first: ground by rows is not. Runs of
 * a page, none of which is at one of the file; one of four of these is dead, so that units are small. */
static void test_pieces(void **state)
{
	const struct kedge__segment *seg;
	struct kedge__lineage *l;
	struct single s;

	(void)state;
	single_open(&s, UINT64_C(17) << 20);
	s.lab->rows = true;
	single_save(&s, 0);
	fill_random(s.data, CHUNK, 7);
	for (uint64_t at = 4 * BYTES + CHUNK; at + 4096 <= s.bytes; at += 8192)
		fill_random(s.data + at, 4096, at);
	single_save(&s, 1);
	for (uint64_t at = 4 * BYTES + CHUNK; at + 3 * 4096 <= s.bytes; at += 4 * 8192) {
		fill_random(s.data + at, 4096, at + 1);
		fill_random(s.data + at + 8192, 4096, at + 2);
	}
	single_save(&s, 2);
	l = lab_open(s.lab, 2);
	seg = kedge__lineage_segment(l, 1);
	assert_int_equal(single_fill(&s, l, NULL, NULL), 0);
	assert_memory_equal(s.back, s.data, s.bytes);
	if (kedge__file_map_suits(seg->fd))
		assert_true(s.stats.bytes_mapped >= BYTES);
	for (size_t b = 3; b < seg->block_count; b += seg->block_count / (3 * FLIPS)) {
		struct kedge__error err = KEDGE__ERROR_INIT;

		file_flip(seg->path, seg->blocks[b].offset + 9000, 1);
		assert_int_equal(single_fill(&s, l, NULL, &err), KEDGE_E_DAMAGED);
		assert_non_null(strstr(kedge__error_text(&err), seg->path));
		file_flip(seg->path, seg->blocks[b].offset + 9000, 1);
		kedge__error_done(&err);
	}
	kedge__lineage_close(l);
	single_close(&s);
}

/* One page of eight is alive, and the others are constants now: it is taken from where the page cache has it, and they
 * are not looked at. */
static void test_wide_gaps(void **state)
{
	const struct kedge__segment *seg;
	struct kedge__lineage *l;
	struct single s;

	(void)state;
	single_open(&s, UINT64_C(17) << 20);
	single_save(&s, 0);
	for (uint64_t at = 0; at + 8 * 4096 <= s.bytes; at += 8 * 4096)
		memset(s.data + at, 0, 7 * 4096);
	single_save(&s, 1);
	l = lab_open(s.lab, 1);
	seg = kedge__lineage_segment(l, 0);
	assert_int_equal(kedge__lineage_segment(l, 1)->block_count, 0);
	assert_int_equal(single_fill(&s, l, NULL, NULL), 0);
	assert_memory_equal(s.back, s.data, s.bytes);
	if (kedge__file_map_suits(seg->fd))
		assert_true(s.stats.bytes_mapped > 0);
	for (uint64_t page = 0; page < 32; page++) {
		size_t b = seg->block_count * page / 32;

		file_flip(seg->path, seg->blocks[b].offset + page * 4096, 1);
		assert_int_equal(single_fill(&s, l, NULL, NULL), page % 8 == 7 ? KEDGE_E_DAMAGED : 0);
		file_flip(seg->path, seg->blocks[b].offset + page * 4096, 1);
	}
	kedge__lineage_close(l);
	single_close(&s);
}

/* An altered bit in a page of any layer is found, and said to be that layer's. */
static void test_each_layer_is_checked(void **state)
{
	struct kedge__lineage *l;
	struct single s;

	(void)state;
	single_open(&s, BYTES);
	for (uint64_t v = 0; v <= LAST; v++) {
		single_change(&s, BYTES, v ? LITTLE : 0);
		single_save(&s, v);
	}
	l = lab_open(s.lab, LAST);
	assert_int_equal(single_fill(&s, l, s.lab->pool, NULL), 0);
	assert_memory_equal(s.back, s.data, BYTES);
	assert_true(s.stats.bytes_laid > (LAST - 1) * LITTLE * CHUNK);
	for (uint64_t v = 1; v <= LAST; v++) {
		const struct kedge__segment *seg = kedge__lineage_segment(l, v);

		for (uint64_t at = 17; at < seg->blocks[0].raw_bytes; at += 4096) {
			struct kedge__error err = KEDGE__ERROR_INIT;

			file_flip(seg->path, seg->blocks[0].offset + at, 1);
			assert_int_equal(single_fill(&s, l, s.lab->pool, &err), KEDGE_E_DAMAGED);
			assert_non_null(strstr(kedge__error_text(&err), seg->path));
			file_flip(seg->path, seg->blocks[0].offset + at, 1);
			kedge__error_done(&err);
		}
	}
	kedge__lineage_close(l);
	single_close(&s);
}

/* One version changes the same chunks as the one before, again and again: what is dead is not read. One thread, because
 * two may read the same page of a layer. */
static void test_dead_layers_are_not_read(void **state)
{
	struct single s;

	(void)state;
	single_open(&s, BYTES);
	for (uint64_t v = 0; v <= LAST; v++) {
		for (uint64_t at = 0; v && at < BYTES; at += 32 * CHUNK)
			fill_random(s.data + at, CHUNK, 100 * v + at);
		single_save(&s, v);
	}
	single_restore(&s, LAST, NULL);
	assert_memory_equal(s.back, s.data, BYTES);
	assert_int_equal(s.stats.bytes_laid, BYTES / 32);
	assert_int_equal(s.stats.bytes_read, BYTES + BYTES / 32);
	single_close(&s);
}

/* The ground is a version that left some pages as they were: its literals behind them are elsewhere than those before.
 */
static void test_ground_that_inherits(void **state)
{
	const uint64_t kept = BYTES / 4096 * 235 / 256 * 4096, pages = 3 * 4096;
	struct single s;

	(void)state;
	single_open(&s, BYTES);
	single_save(&s, 0);
	fill_random(s.data, kept, 2);
	fill_random(s.data + kept + pages, BYTES - kept - pages, 3);
	for (uint64_t v = 1; v <= LAST; v++) {
		single_change(&s, kept, v > 1 ? LITTLE : 0);
		single_save(&s, v);
	}
	single_restore(&s, LAST, s.lab->pool);
	assert_memory_equal(s.back, s.data, BYTES);
	assert_true(s.stats.bytes_laid > 0);
	single_close(&s);
}

/* Many versions that changed little each share pages of their segments with all of the image: each is read once. */
static void test_little_is_read_once(void **state)
{
	enum { VERSIONS = 100 };
	const uint64_t bytes = UINT64_C(12) << 20;
	struct single s;

	(void)state;
	single_open(&s, bytes);
	for (uint64_t v = 0; v <= VERSIONS; v++) {
		single_change(&s, bytes, v ? 12 : 0);
		single_save(&s, v);
	}
	for (uint64_t v = 30; v <= VERSIONS; v += 35) {
		single_restore(&s, v, s.lab->pool);
		assert_in_range(s.stats.bytes_read, bytes, bytes + v * 12 * CHUNK);
	}
	assert_memory_equal(s.back, s.data, bytes);
	single_close(&s);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_any),
	    cmocka_unit_test(test_more_than_a_cache),
	    cmocka_unit_test(test_more_than_a_cache_damaged),
	    cmocka_unit_test(test_pieces),
	    cmocka_unit_test(test_wide_gaps),
	    cmocka_unit_test(test_each_layer_is_checked),
	    cmocka_unit_test(test_dead_layers_are_not_read),
	    cmocka_unit_test(test_ground_that_inherits),
	    cmocka_unit_test(test_little_is_read_once),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
