/* SPDX-License-Identifier: BSD-3-Clause */
/* Every reducer's versions, right ones, and those of one that takes different chunks for equal: verify finds what
 * restore does. */
#include "reseal.h"

#define BYTES    (24 << 10)
#define VERSIONS 8

struct writer {
	struct kedge__catalog *cat;
	struct kedge__reducer *reducer;
	struct kedge__codec_choice codec;
	uint8_t *data[2];
	uint64_t bytes[2];
};

static void writer_open(struct writer *w, const char *dir, enum kedge__reducer_id id, const char *codec, uint64_t mask)
{
	static const uint8_t seed[KEDGE__DIGEST_SEED_BYTES] = {1}; /* the same collisions each time */
	struct kedge__reducer_options options = {
	    .id = id, .chunk = 64, .record_bytes = UINT64_C(4) << 20, .digest_mask = mask, .seed = seed};

	memset(w, 0, sizeof(*w));
	w->cat = open_store(dir);
	assert_ok(kedge__reducer_new(&options, &w->reducer, err));
	assert_ok(kedge__codec_choice_parse(codec, &w->codec, err));
	w->bytes[0] = BYTES;
	w->bytes[1] = 1001;
	for (int i = 0; i < 2; i++)
		w->data[i] = calloc(1, BYTES);
}

static void writer_close(struct writer *w)
{
	kedge__reducer_free(w->reducer);
	kedge__catalog_close(w->cat);
	for (int i = 0; i < 2; i++)
		free(w->data[i]);
}

/* New, zero and moved pieces, and a second region that grows by odd numbers. */
static void writer_change(struct writer *w, uint64_t version)
{
	uint64_t seed = version * 77;

	w->bytes[1] += version * 13;
	for (uint64_t at = 0; at + 512 <= BYTES; at += 512) {
		uint64_t dice = draw(&seed) % (version == 1 ? 1 : 8), from = draw(&seed) % (BYTES - 512);

		for (uint64_t i = 0; i < 300 && dice == 0; i++)
			w->data[0][at + i] = (uint8_t)draw(&seed);
		if (dice == 1)
			memset(w->data[0] + at, (int)version, 256);
		if (dice == 2)
			memmove(w->data[0] + at, w->data[0] + from / 64 * 64, 512);
	}
	for (uint64_t i = 0; i < w->bytes[1]; i += 1 + version)
		w->data[1][i] ^= (uint8_t)version;
}

static void write_reduction(struct writer *w, struct kedge__reduction *red)
{
	struct kedge__region_record regions[2] = {
	    {.name = (char *)"field", .slot = 0, .type = KEDGE_U8, .bytes = w->bytes[0]},
	    {.name = (char *)"tail", .slot = 1, .type = KEDGE_U8, .bytes = w->bytes[1]}};
	struct kedge__source_record sources[VERSIONS];
	struct kedge__segment_spec spec = {.name = NAME,
					   .version = red->version,
					   .ranks = 1,
					   .next_slot = 2,
					   .regions = regions,
					   .region_count = 2,
					   .reduction = red,
					   .sources = sources,
					   .source_count = red->source_count,
					   .codec = w->codec,
					   .block_bytes = 4096};
	struct kedge__set_part part;
	struct kedge__set set = {.name = NAME,
				 .version = red->version,
				 .parent = red->parent,
				 .created_ns = 1,
				 .reducer = red->reducer,
				 .ranks = 1,
				 .parts = &part,
				 .sources = red->sources,
				 .source_count = red->source_count};

	for (size_t i = 0; i < red->source_count; i++)
		sources[i] = (struct kedge__source_record){
		    red->sources[i], kedge__catalog_find(w->cat, red->sources[i])->set.parts[0].image_id};
	assert_ok(kedge__catalog_pin(w->cat, err));
	assert_ok(kedge__segment_write(w->cat, NULL, &spec, &part, NULL, err));
	assert_ok(kedge__set_publish(w->cat, &set, err));
	kedge__catalog_unpin(w->cat);
}

static void writer_save(struct writer *w, uint64_t version)
{
	struct kedge__image_region parts[2] = {{0, w->data[0], w->bytes[0]},
					       {KEDGE__SLOT_BYTES, w->data[1], w->bytes[1]}};
	struct kedge__image image = {parts, 2};
	struct kedge__reduction red = {0};

	assert_ok(kedge__reducer_reduce(w->reducer, NULL, version, &image, NULL, &red, err));
	write_reduction(w, &red);
	kedge__reducer_commit(w->reducer);
	kedge__reduction_done(&red);
}

static size_t lost_of(enum kedge__reducer_id id, const char *codec, uint64_t mask, struct findings *seen)
{
	char *dir = make_dir();
	struct writer w;
	size_t lost;

	writer_open(&w, dir, id, codec, mask);
	for (uint64_t version = 1; version <= VERSIONS; version++) {
		writer_change(&w, version);
		writer_save(&w, version);
	}
	lost = assert_verdicts(w.cat, NULL, 0, seen, kedge__reducer_name(id));
	writer_close(&w);
	remove_dir(dir);
	return lost;
}

static const enum kedge__reducer_id reducers[] = {KEDGE__REDUCER_FULL, KEDGE__REDUCER_BASIC, KEDGE__REDUCER_LIST,
						  KEDGE__REDUCER_TREE, KEDGE__REDUCER_REX,   KEDGE__REDUCER_AUTO};

static void test_right(void **state)
{
	static const char *const codecs[] = {"none", "zstd", "shuffle+lz4"};
	struct findings seen = {0};

	(void)state;
	for (size_t i = 0; i < KEDGE__COUNT(reducers); i++)
		for (size_t c = 0; c < KEDGE__COUNT(codecs); c++)
			assert_int_equal(lost_of(reducers[i], codecs[c], 0, &seen), 0);
	assert_int_equal(seen.digests + seen.others, 0);
}

/* Nothing is damaged, all maps are sound, and the bytes are others. */
static void test_collisions(void **state)
{
	(void)state;
	for (size_t i = 1; i < KEDGE__COUNT(reducers) - 1; i++) {
		struct findings seen = {0};

		assert_true(lost_of(reducers[i], "none", 0x3f, &seen) > 0);
		assert_true(seen.digests > 0);
		assert_int_equal(seen.others, 0);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_right), cmocka_unit_test(test_collisions)};

	return cases_run(argc, argv, tests, NULL, NULL);
}
