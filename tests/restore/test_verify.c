/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What verify says of a version is what a restore finds: in stores whose maps are drawn at random (any parent, copies
 * from anywhere, ranges that begin and end at any byte, regions that come, go, grow and shrink), coalesced, thinned
 * out, packed against each other, then damaged, also so that every checksum fits.
 */
#include "reseal.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SEEDS = 6, DAMAGED = 4, DAMAGES = 6, CHAIN = 200 };
#else
enum { SEEDS = 24, DAMAGED = 8, DAMAGES = 8, CHAIN = 800 };
#endif

#define SLOTS    4
#define VERSIONS 10
#define BYTES    6000

struct state { /* of one rank in one version */
	bool there[SLOTS];
	uint64_t bytes[SLOTS];
	uint8_t *data[SLOTS];
};

struct world {
	char *dir;
	struct kedge__catalog *cat;
	struct kedge__pool *pool;
	uint64_t seed;
	uint32_t ranks;
	size_t count;
	uint64_t versions[VERSIONS];
	struct state states[VERSIONS][RANKS_MAX];
	struct kedge__codec_choice codec;
	bool base;
	uint64_t scale; /* of sizes: 1, or so much that blocks have several pages */
};

#define LARGE 8

static uint64_t roll(struct world *w, uint64_t below)
{
	return draw_below(&w->seed, below);
}

/* ------------------------------------------------------------------ a version at random */

struct draft {
	struct world *w;
	uint32_t rank;
	const struct state *parent; /* NULL: none */
	struct state *state;
	struct kedge__reduction red;
	uint8_t *literals;
	uint32_t region; /* index of the slot that is drawn */
};

static void draw_literal(struct draft *d, struct kedge__extent *e, uint8_t *to)
{
	if (d->red.literal_bytes >= e->len && roll(d->w, 5) == 0) {
		e->src = roll(d->w, d->red.literal_bytes - e->len + 1);
		memcpy(to, d->literals + e->src, e->len);
		return;
	}
	for (uint64_t i = 0; i < e->len; i++)
		to[i] = (uint8_t)(roll(d->w, 3) ? 7 : draw(&d->w->seed));
	e->src = d->red.literal_bytes;
	memcpy(d->literals + e->src, to, e->len);
	add_literal(&d->red, d->literals + e->src, e->len, (int)d->region);
}

static bool draw_copy(struct draft *d, struct kedge__extent *e, uint8_t *to)
{
	size_t from = d->w->count ? roll(d->w, d->w->count) : 0;
	uint64_t slot = roll(d->w, SLOTS), at;
	const struct state *s = &d->w->states[from][d->rank];

	if (!d->w->count || !s->there[slot] || !s->bytes[slot])
		return false;
	at = roll(d->w, s->bytes[slot]);
	e->len = KEDGE__MIN(e->len, s->bytes[slot] - at);
	e->kind = KEDGE__EXTENT_COPY;
	e->src = address((int)slot, at);
	e->version = d->w->versions[from];
	memcpy(to, s->data[slot] + at, e->len);
	add_reference(&d->red, e->version);
	return true;
}

/* A literal of this very version. */
static bool draw_own(struct draft *d, struct kedge__extent *e, uint8_t *to)
{
	struct kedge__extent_reader r = kedge__extents_of_tape(&d->red.map);
	struct kedge__extent of = {.kind = KEDGE__EXTENT_PARENT};

	for (size_t i = d->red.map.count ? roll(d->w, d->red.map.count) + 1 : 0; i > 0; i--)
		assert_true(kedge__extent_next(&r, &of));
	if (of.kind != KEDGE__EXTENT_LITERAL)
		return false;
	e->len = KEDGE__MIN(e->len, of.len);
	e->kind = KEDGE__EXTENT_COPY;
	e->src = of.addr;
	e->version = d->w->versions[d->w->count];
	memcpy(to, d->literals + of.src, e->len);
	return true;
}

static bool draw_parent(struct draft *d, int slot, struct kedge__extent *e, uint8_t *to)
{
	uint64_t at = e->addr & (KEDGE__SLOT_BYTES - 1);
	uint64_t bytes = d->parent && d->parent->there[slot] ? d->parent->bytes[slot] : 0;

	if (at >= bytes)
		return false;
	e->len = KEDGE__MIN(e->len, bytes - at);
	e->kind = KEDGE__EXTENT_PARENT;
	memcpy(to, d->parent->data[slot] + at, e->len);
	add_reference(&d->red, d->red.parent);
	return true;
}

static void draw_extent(struct draft *d, int slot, uint64_t at, uint64_t left)
{
	uint64_t len = 1 + roll(d->w, (roll(d->w, 4) ? 60 : 700) * d->w->scale), dice = roll(d->w, 20);
	struct kedge__extent e = {.addr = address(slot, at), .len = KEDGE__MIN(len, left)};
	uint8_t *to = d->state->data[slot] + at;

	if (roll(d->w, 2) && (at + e.len) % 8 && e.len > 8)
		e.len -= (at + e.len) % 8;
	if (dice < 11 && draw_parent(d, slot, &e, to)) {
		;
	} else if (dice < 14 && draw_copy(d, &e, to)) {
		;
	} else if (dice < 15 && draw_own(d, &e, to)) {
		;
	} else if (dice < 17 && at % 8 == 0) {
		e.kind = KEDGE__EXTENT_FILL;
		e.src = roll(d->w, 2) ? 0 : (uint32_t)draw(&d->w->seed) * UINT64_C(0x100000001);
		for (uint64_t i = 0; i < e.len; i++)
			to[i] = (uint8_t)(e.src >> 8 * (i % 8));
	} else {
		draw_literal(d, &e, to);
	}
	assert_ok(kedge__extent_tape_append(&d->red.map, e, roll(d->w, 2), err));
}

static void draw_state(struct draft *d, struct kedge__region_record *regions, size_t *count)
{
	static char names[SLOTS][8] = {"zero", "one", "two", "three"};

	for (int slot = 0; slot < SLOTS; slot++) {
		struct state *s = d->state;
		bool had = d->parent && d->parent->there[slot];
		uint64_t at = 0;

		s->there[slot] = slot == 0 || roll(d->w, 7) != 0;
		if (!s->there[slot])
			continue;
		s->bytes[slot] = had && roll(d->w, 3) ? d->parent->bytes[slot] : roll(d->w, BYTES * d->w->scale);
		s->data[slot] = malloc(s->bytes[slot] + 1);
		d->region = (uint32_t)*count;
		while (at < s->bytes[slot]) {
			const struct kedge__extent *last;

			draw_extent(d, slot, at, s->bytes[slot] - at);
			last = kedge__extent_tape_last(&d->red.map);
			at = last->addr - address(slot, 0) + last->len;
		}
		regions[(*count)++] = (struct kedge__region_record){
		    .name = names[slot],
		    .slot = (uint32_t)slot,
		    .type = KEDGE_U8,
		    .bytes = s->bytes[slot],
		    .digest = kedge__sum_digest(kedge__sum_of(s->data[slot], s->bytes[slot], 0), s->bytes[slot])};
	}
}

static void write_draft(struct draft *d, const struct kedge__region_record *regions, size_t count, size_t parent,
			struct kedge__set *set)
{
	struct world *w = d->w;
	struct base_ctx base = {w->cat, d->parent ? w->versions[parent] : 0, d->rank};
	struct kedge__source_record sources[VERSIONS + 1];
	struct kedge__segment_spec spec = {.name = NAME,
					   .version = w->versions[w->count],
					   .rank = d->rank,
					   .ranks = w->ranks,
					   .next_slot = SLOTS,
					   .regions = regions,
					   .region_count = count,
					   .reduction = &d->red,
					   .sources = sources,
					   .source_count = d->red.source_count,
					   .codec = w->codec,
					   .base = {w->base && d->parent ? open_base : NULL, &base},
					   .block_bytes = (uint32_t)(64 + roll(w, w->base ? 2000 : 400))};
	struct kedge__segment_stats stats;

	if (w->scale > 1)
		spec.block_bytes = (uint32_t)(KEDGE__BLOCK_PAGE + roll(w, 5 * KEDGE__BLOCK_PAGE));

	for (size_t i = 0; i < d->red.source_count; i++) {
		sources[i] = (struct kedge__source_record){
		    d->red.sources[i], kedge__catalog_find(w->cat, d->red.sources[i])->set.parts[d->rank].image_id};
		set->sources[set->source_count++] = d->red.sources[i];
	}
	assert_ok(kedge__segment_write(w->cat, NULL, &spec, &set->parts[d->rank], &stats, err));
	if (stats.base != KEDGE__NO_VERSION)
		set->sources[set->source_count++] = stats.base;
}

static void draw_rank(struct world *w, uint32_t rank, size_t parent, struct kedge__set *set)
{
	struct draft d = {.w = w,
			  .rank = rank,
			  .parent = parent < w->count ? &w->states[parent][rank] : NULL,
			  .state = &w->states[w->count][rank],
			  .literals = malloc(SLOTS * BYTES * w->scale)};
	struct kedge__region_record regions[SLOTS];
	size_t count = 0;

	d.red.version = w->versions[w->count];
	d.red.parent = d.parent ? w->versions[parent] : KEDGE__NO_VERSION;
	d.red.reducer = KEDGE__REDUCER_TREE;
	d.red.sources = kedge__calloc(VERSIONS + 1, sizeof(*d.red.sources));
	draw_state(&d, regions, &count);
	write_draft(&d, regions, count, parent, set);
	kedge__free(d.red.sources);
	kedge__free(d.red.literals.at);
	kedge__extent_tape_done(&d.red.map);
	free(d.literals);
}

static void draw_version(struct world *w)
{
	uint64_t sources[RANKS_MAX * (VERSIONS + 2)];
	struct kedge__set_part parts[RANKS_MAX] = {0};
	size_t parent = roll(w, 6) == 0 ? SIZE_MAX : w->count ? w->count - 1 : SIZE_MAX, kept = 0;
	struct kedge__set set = {.name = NAME, .ranks = w->ranks, .parts = parts, .sources = sources, .created_ns = 1};

	if (w->count && roll(w, 4) == 0)
		parent = roll(w, w->count);
	w->versions[w->count] = w->count ? w->versions[w->count - 1] + 1 + roll(w, 3) : roll(w, 3);
	set.version = w->versions[w->count];
	set.parent = parent < w->count ? w->versions[parent] : KEDGE__NO_VERSION;
	assert_ok(kedge__catalog_pin(w->cat, err));
	for (uint32_t rank = 0; rank < w->ranks; rank++)
		draw_rank(w, rank, parent, &set);
	qsort(sources, set.source_count, sizeof(*sources), compare_u64);
	for (size_t i = 0; i < set.source_count; i++)
		if (!kept || sources[kept - 1] != sources[i])
			sources[kept++] = sources[i];
	set.source_count = kept;
	assert_ok(kedge__set_publish(w->cat, &set, err));
	kedge__catalog_unpin(w->cat);
	w->count++;
}

/* ------------------------------------------------------------------ a store at random */

static void world_open(struct world *w, uint64_t seed)
{
	static const char *const codecs[] = {"none", "none", "zstd", "xor+zstd", "minus+lz4"};
	const char *codec;

	memset(w, 0, sizeof(*w));
	w->seed = seed * 7919 + 1;
	w->dir = make_dir();
	w->cat = open_store(w->dir);
	w->ranks = 1 + (uint32_t)roll(w, RANKS_MAX);
	codec = codecs[roll(w, KEDGE__COUNT(codecs))];
	w->base = strchr(codec, '+') != NULL;
	w->scale = roll(w, 2) ? LARGE : 1;
	assert_ok(kedge__codec_choice_parse(codec, &w->codec, err));
	assert_ok(kedge__pool_new(2, &w->pool, err));
	while (w->count < VERSIONS)
		draw_version(w);
}

static void world_close(struct world *w)
{
	for (size_t i = 0; i < w->count; i++)
		for (uint32_t rank = 0; rank < w->ranks; rank++)
			for (int slot = 0; slot < SLOTS; slot++)
				free(w->states[i][rank].data[slot]);
	kedge__pool_free(w->pool);
	kedge__catalog_close(w->cat);
	remove_dir(w->dir);
}

static void world_thin(struct world *w)
{
	struct kedge__coalesce_options options = {
	    .version = w->versions[roll(w, w->count)], .keep_old = roll(w, 2), .codec = w->codec, .block_bytes = 200};
	struct kedge__coalesce_report coalesced;
	struct kedge__gc_report removed;

	if (w->scale > 1)
		options.block_bytes = 3 * KEDGE__BLOCK_PAGE;
	if (roll(w, 2))
		options.from = w->versions[roll(w, w->count)];
	if (options.from <= options.version)
		assert_ok(kedge__coalesce(w->cat, w->pool, &options, &coalesced, err));
	if (roll(w, 2))
		return;
	assert_ok(kedge__gc(w->cat, 1 + roll(w, 6), false, &removed, err));
	kedge__gc_report_done(&removed);
}

/* Memory for a few uses alone, or for all. */
static uint64_t draw_memory(struct world *w)
{
	return roll(w, 2) ? 1 + roll(w, 2000) : 0;
}

static void test_undamaged(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		struct world w;
		char what[32];

		snprintf(what, sizeof(what), "seed %llu", (unsigned long long)seed);
		world_open(&w, seed);
		assert_int_equal(assert_verdicts(w.cat, w.pool, draw_memory(&w), NULL, what), 0);
		world_thin(&w);
		assert_int_equal(assert_verdicts(w.cat, w.pool, draw_memory(&w), NULL, what), 0);
		world_close(&w);
	}
}

/* ------------------------------------------------------------------ damage */

static void flip_byte(struct world *w, uint64_t version, uint32_t rank)
{
	char *path = segment_of(w->cat, version, rank);
	size_t bytes;
	uint8_t *data = file_read(path, &bytes);

	data[roll(w, bytes)] ^= (uint8_t)(1 << roll(w, 8));
	file_write(path, data, bytes);
	free(data);
	kedge__free(path);
}

static void damage(struct world *w, bool (*change)(struct sealed *a, uint64_t dice))
{
	size_t i = roll(w, kedge__catalog_count(w->cat));
	const struct kedge__catalog_entry *entry = kedge__catalog_at(w->cat, i);
	uint32_t rank = (uint32_t)roll(w, entry->set.ranks);

	if (change)
		reseal(w->cat, entry->version, rank, change, draw(&w->seed));
	else
		flip_byte(w, entry->version, rank);
}

/* Each store is damaged again and again, each time from what it was. */
static void try_damage(bool (*change)(struct sealed *a, uint64_t dice), const char *how, struct findings *seen,
		       size_t *lost)
{
	for (uint64_t seed = 100; seed < 100 + DAMAGED; seed++) {
		struct world w;
		char *whole = make_dir();

		world_open(&w, seed);
		if (roll(&w, 2))
			world_thin(&w);
		tree_copy(w.dir, whole);
		for (int round = 0; round < DAMAGES; round++) {
			char what[64];

			snprintf(what, sizeof(what), "%s, seed %llu, round %d", how, (unsigned long long)seed, round);
			damage(&w, change);
			*lost += assert_verdicts(w.cat, w.pool, draw_memory(&w), seen, what);
			tree_remove(w.dir);
			tree_copy(whole, w.dir);
			assert_ok(kedge__catalog_scan(w.cat, err));
		}
		world_close(&w);
		remove_dir(whole);
	}
}

static void test_bytes(void **state)
{
	struct findings seen = {0};
	size_t lost = 0;

	(void)state;
	try_damage(NULL, "bytes", &seen, &lost);
	assert_true(lost > 20 && seen.others > 20);
}

static void test_resealed_payload(void **state)
{
	struct findings seen = {0};
	size_t lost = 0;

	(void)state;
	try_damage(change_payload, "payload", &seen, &lost);
	assert_true(lost > 20 && seen.digests > 20);
}

static void test_resealed_map(void **state)
{
	struct findings seen = {0};
	size_t lost = 0;

	(void)state;
	try_damage(change_map, "map", &seen, &lost);
	assert_true(lost > 20 && seen.digests > 20);
}

static void test_resealed_sections(void **state)
{
	struct findings seen = {0};
	size_t lost = 0;

	(void)state;
	try_damage(change_section, "sections", &seen, &lost);
	assert_true(lost > 20);
}

/* ------------------------------------------------------------------ what it costs */

struct cost {
	uint64_t unpacked, blocks;
};

/* A chain of N versions, each with a few new chunks. */
static struct cost chain_cost(size_t n, bool quick)
{
	enum { WORDS = 512 };
	struct kedge__verify_options options = {.version = KEDGE_NEWEST, .quick = quick};
	struct kedge__codec_choice codec;
	struct kedge__verify_report report;
	char *dir = make_dir();
	struct kedge__catalog *cat = open_store(dir);
	uint64_t data[WORDS] = {0};
	struct kedge__digest id = {0, 0};
	struct cost cost;

	assert_ok(kedge__codec_choice_parse("none", &codec, err));
	kedge__catalog_set_sync(cat, false);
	for (size_t v = 1; v <= n; v++) {
		size_t at = v == 1 ? 0 : v * 13 % (WORDS - 8), count = v == 1 ? WORDS : 8;
		struct kedge__source_record source = {v - 1, id};
		struct kedge__reduction red = {.version = v,
					       .parent = v == 1 ? KEDGE__NO_VERSION : v - 1,
					       .chunk = 64,
					       .reducer = KEDGE__REDUCER_BASIC};
		struct kedge__region_record region = {.name = "r", .type = KEDGE_U64, .bytes = sizeof(data)};
		struct kedge__segment_spec spec = {.name = NAME,
						   .version = v,
						   .ranks = 1,
						   .next_slot = 1,
						   .regions = &region,
						   .region_count = 1,
						   .reduction = &red,
						   .sources = &source,
						   .source_count = v > 1,
						   .codec = codec,
						   .block_bytes = 1024};
		struct kedge__set_part part;
		struct kedge__set set = {.name = NAME,
					 .version = v,
					 .parent = red.parent,
					 .ranks = 1,
					 .parts = &part,
					 .sources = &source.version,
					 .source_count = v > 1};
		struct kedge__extent e[] = {
		    {0, 8 * at, 0, 0, KEDGE__EXTENT_PARENT},
		    {8 * at, 8 * count, 0, 0, KEDGE__EXTENT_LITERAL},
		    {8 * (at + count), 8 * (WORDS - at - count), 0, 0, KEDGE__EXTENT_PARENT},
		};

		for (size_t i = at; i < at + count; i++)
			data[i] = v * 1000 + i;
		region.digest = kedge__sum_digest(kedge__sum_of(data, sizeof(data), 0), sizeof(data));
		for (size_t i = 0; i < KEDGE__COUNT(e); i++)
			if (e[i].len)
				assert_ok(kedge__extent_tape_append(&red.map, e[i], false, err));
		add_literal(&red, (const uint8_t *)(data + at), 8 * count, 0);
		assert_ok(kedge__catalog_pin(cat, err));
		assert_ok(kedge__segment_write(cat, NULL, &spec, &part, NULL, err));
		assert_ok(kedge__set_publish(cat, &set, err));
		kedge__catalog_unpin(cat);
		id = part.image_id;
		kedge__free(red.literals.at);
		kedge__extent_tape_done(&red.map);
	}
	assert_ok(kedge__verify_with(cat, NULL, &options, &report, err));
	assert_int_equal(report.versions_intact, n);
	assert_int_equal(report.findings, 0);
	cost = (struct cost){report.blocks_unpacked, report.blocks};
	kedge__verify_report_done(&report);
	kedge__catalog_close(cat);
	remove_dir(dir);
	return cost;
}

/* Every block once, however many versions use it. */
static void test_linear(void **state)
{
	const size_t counts[] = {50, CHAIN};

	(void)state;
	for (size_t i = 0; i < KEDGE__COUNT(counts); i++) {
		struct cost cost = chain_cost(counts[i], false);

		assert_int_equal(cost.blocks, counts[i] + 3);
		assert_int_equal(cost.unpacked, cost.blocks);
	}
	assert_int_equal(chain_cost(50, true).unpacked, 0);
}

/* Where blocks are packed against others, these are not unpacked again for each. */
static void test_linear_packed(void **state)
{
	struct kedge__verify_report report;
	struct job job = job_new(1, 16384);
	char *dir = make_dir();
	struct kedge__catalog *cat = open_store(dir);
	size_t based = 0;

	(void)state;
	assert_ok(kedge__codec_choice_parse("xor+zstd", &job.codec, err));
	job.base = true;
	job.block_bytes = 1024;
	for (uint64_t version = 1; version <= VERSIONS_MAX; version++) {
		save_next(cat, &job, version, KEDGE__REDUCER_FULL);
		based += kedge__catalog_find(cat, version)->set.source_count;
	}
	assert_true(based >= VERSIONS_MAX / 2);
	assert_ok(kedge__verify(cat, NULL, KEDGE_NEWEST, NULL, NULL, NULL, &report, err));
	assert_int_equal(report.versions_intact, VERSIONS_MAX);
	assert_true(report.blocks_unpacked <= report.blocks + report.blocks / 10);
	kedge__verify_report_done(&report);
	kedge__catalog_close(cat);
	job_done(&job);
	remove_dir(dir);
}

/* Stored bytes alone: what only a digest shows is not found, and what a checksum shows is. */
static void test_quick(void **state)
{
	struct kedge__verify_options options = {.version = KEDGE_NEWEST, .quick = true};
	struct kedge__verify_report report;
	struct job job = job_new(1, 1024);
	char *dir = make_dir(), *path;
	struct kedge__catalog *cat = open_store(dir);
	size_t bytes;
	uint8_t *data;

	(void)state;
	for (uint64_t version = 1; version <= 4; version++)
		save_next(cat, &job, version, KEDGE__REDUCER_TREE);
	reseal(cat, 4, 0, change_payload, 3);
	assert_ok(kedge__verify_with(cat, NULL, &options, &report, err));
	assert_int_equal(report.findings + report.versions_lost, 0);
	kedge__verify_report_done(&report);
	assert_int_equal(assert_verdicts(cat, NULL, 0, NULL, "quick"), 1);
	path = segment_of(cat, 3, 0);
	data = file_read(path, &bytes);
	data[KEDGE__SEGMENT_HEADER_BYTES] ^= 1;
	file_write(path, data, bytes);
	assert_ok(kedge__verify_with(cat, NULL, &options, &report, err));
	assert_int_equal(report.findings, 1);
	assert_true(is_lost(&report, 3) && !is_lost(&report, 2));
	kedge__verify_report_done(&report);
	free(data);
	kedge__free(path);
	kedge__catalog_close(cat);
	job_done(&job);
	remove_dir(dir);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_undamaged),         cmocka_unit_test(test_bytes),
	    cmocka_unit_test(test_resealed_payload),  cmocka_unit_test(test_resealed_map),
	    cmocka_unit_test(test_resealed_sections), cmocka_unit_test(test_linear),
	    cmocka_unit_test(test_linear_packed),     cmocka_unit_test(test_quick),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
