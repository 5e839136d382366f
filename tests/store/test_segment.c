/* SPDX-License-Identifier: BSD-3-Clause */
#include "fixture.h"

static const enum kedge__reducer_id shapes[] = {KEDGE__REDUCER_FULL, KEDGE__REDUCER_BASIC, KEDGE__REDUCER_LIST,
						KEDGE__REDUCER_TREE, KEDGE__REDUCER_REX};
static const enum kedge__map_encoding encodings[] = {KEDGE__MAP_RUNS, KEDGE__MAP_BITMAP, KEDGE__MAP_LIST,
						     KEDGE__MAP_RUNS, KEDGE__MAP_RUNS}; /* rex: not in pages here */

static void round_trip(enum kedge__reducer_id how, const char *codec, int threads, uint32_t block_bytes)
{
	struct job job = job_new(2, 4096);
	char *dir = make_dir();
	struct kedge__catalog *cat = open_store(dir);

	if (threads)
		assert_ok(kedge__pool_new(threads, &job.pool, err));
	job.block_bytes = block_bytes;
	assert_ok(kedge__codec_choice_parse(codec, &job.codec, err));
	for (uint64_t version = 0; version < 4; version++)
		save_next(cat, &job, version, how);
	assert_all_intact(cat, &job);
	kedge__catalog_close(cat);
	kedge__pool_free(job.pool);
	job_done(&job);
	remove_dir(dir);
}

static void test_round_trip(void **state)
{
	(void)state;
	for (size_t i = 0; i < KEDGE__COUNT(shapes); i++) {
		round_trip(shapes[i], "none", 0, 96);
		round_trip(shapes[i], "lz4", 2, 512);
		round_trip(shapes[i], "zstd", 0, 4096);
		round_trip(shapes[i], "auto", 2, 1 << 20);
	}
}

static struct kedge__segment *open_segment(struct kedge__catalog *cat, uint64_t version, uint32_t rank)
{
	const struct kedge__set_part *part = &kedge__catalog_find(cat, version)->set.parts[rank];
	char *path = kedge__segment_path(cat, version, rank, part->generation);
	struct kedge__segment *seg = NULL;

	assert_ok(kedge__segment_open(cat, path, part, &seg, err));
	kedge__free(path);
	return seg;
}

/* A bit a chunk is more than two runs need, if next to nothing changed. */
static void test_little_changed(void **state)
{
	struct job job = job_new(1, 65536);
	char *dir = make_dir();
	struct kedge__catalog *cat = open_store(dir);
	struct kedge__segment *seg;
	size_t index;

	(void)state;
	save_next(cat, &job, 1, KEDGE__REDUCER_BASIC);
	index = job_step(&job, 2);
	for (int r = 0; r < REGIONS; r++)
		memcpy(job.images[index][0].data[r], job.images[0][0].data[r], job.images[0][0].bytes[r]);
	assert_ok(save_index(cat, &job, index, KEDGE__REDUCER_BASIC, false, err));
	seg = open_segment(cat, 2, 0);
	assert_int_equal(seg->map_encoding, KEDGE__MAP_RUNS);
	assert_int_equal(seg->summary.reducer, KEDGE__REDUCER_BASIC);
	kedge__segment_close(seg);
	assert_all_intact(cat, &job);
	kedge__catalog_close(cat);
	job_done(&job);
	remove_dir(dir);
}

static void test_contents(void **state)
{
	(void)state;
	for (size_t i = 0; i < KEDGE__COUNT(shapes); i++) {
		struct job job = job_new(1, 4096);
		char *dir = make_dir();
		struct kedge__catalog *cat = open_store(dir);
		const struct kedge__set_part *part;
		struct kedge__segment *seg;
		uint64_t payload = 0;

		save_next(cat, &job, 5, shapes[i]);
		save_next(cat, &job, 9, shapes[i]);
		seg = open_segment(cat, 9, 0);
		part = &kedge__catalog_find(cat, 9)->set.parts[0];
		assert_int_equal(seg->map_encoding, encodings[i]);
		assert_int_equal(seg->summary.reducer, shapes[i]);
		assert_string_equal(seg->summary.name, NAME);
		assert_int_equal(seg->summary.parent, i ? 5 : KEDGE__NO_VERSION);
		assert_int_equal(seg->source_count, i ? 1 : 0);
		assert_int_equal(seg->region_count, REGIONS);
		assert_non_null(kedge__segment_find_region(seg, "beta"));
		assert_null(kedge__segment_find_region(seg, "delta"));
		for (size_t b = 0; b < seg->block_count; b++) {
			assert_true(seg->blocks[b].raw_bytes <= job.block_bytes);
			assert_int_equal(kedge__segment_find_block(seg, seg->blocks[b].position), b);
			assert_int_equal(
			    kedge__segment_find_block(seg, seg->blocks[b].position + seg->blocks[b].raw_bytes - 1), b);
			payload += seg->blocks[b].stored_bytes;
		}
		assert_int_equal(part->metadata_bytes + payload, part->file_bytes);
		assert_int_equal(part->raw_bytes, seg->summary.raw_bytes);
		assert_int_equal(part->literal_bytes, seg->summary.literal_bytes);
		kedge__segment_close(seg);
		kedge__catalog_close(cat);
		job_done(&job);
		remove_dir(dir);
	}
}

/* What memory holds in one piece is not gathered, however many blocks it makes; with a codec it still comes back. */
static void test_large_blocks(void **state)
{
	(void)state;
	round_trip(KEDGE__REDUCER_FULL, "none", 2, 1000);
	round_trip(KEDGE__REDUCER_TREE, "zstd", 2, 33);
}

static void write_empty(struct kedge__catalog *cat, uint64_t version, size_t regions)
{
	struct kedge__region_record record = {.name = "void", .slot = 0, .type = KEDGE_F32};
	struct kedge__reduction red = {.version = version, .parent = KEDGE__NO_VERSION};
	struct kedge__segment_spec spec = {.name = NAME,
					   .version = version,
					   .ranks = 1,
					   .next_slot = 1,
					   .regions = &record,
					   .region_count = regions,
					   .reduction = &red,
					   .block_bytes = 1024};
	struct kedge__set_part part;
	struct kedge__set set = {
	    .name = NAME, .version = version, .parent = KEDGE__NO_VERSION, .ranks = 1, .parts = &part};

	record.digest = kedge__sum_digest(kedge__sum_of("", 0, 0), 0);
	assert_ok(kedge__codec_choice_parse("auto", &spec.codec, err));
	assert_ok(kedge__segment_write(cat, NULL, &spec, &part, NULL, err));
	assert_ok(kedge__set_publish(cat, &set, err));
}

static void test_empty(void **state)
{
	char *dir = make_dir();
	struct kedge__catalog *cat = open_store(dir);
	struct kedge__verify_report report;

	(void)state;
	for (size_t regions = 0; regions < 2; regions++) {
		struct kedge__span_list spans = {0};
		struct kedge__lineage *l = NULL;

		write_empty(cat, regions, regions);
		assert_ok(kedge__lineage_open(&cat, 1, regions, 0, &l, err));
		assert_ok(kedge__lineage_resolve(l, NULL, 0, &spans, err));
		assert_int_equal(spans.count, 0);
		assert_int_equal(kedge__lineage_top(l)->region_count, regions);
		kedge__span_list_done(&spans);
		kedge__lineage_close(l);
	}
	assert_ok(kedge__verify(cat, NULL, KEDGE_NEWEST, NULL, NULL, NULL, &report, err));
	assert_int_equal(report.findings, 0);
	assert_int_equal(report.versions_intact, 2);
	kedge__verify_report_done(&report);
	kedge__catalog_close(cat);
	remove_dir(dir);
}

/* ------------------------------------------------------------------ blocks that are packed elsewhere */

enum { READY_BLOCK = 4096, READY_NUMBERS = 5000, READY_BYTES = 4 * READY_NUMBERS, READY_COUNT = 5 };

struct ready { /* a region of numbers, of which one block does not shrink, between two of bytes */
	uint8_t data[READY_BYTES], other[100], packed[READY_BYTES];
	struct kedge__region_record records[3];
	struct kedge__ready_block blocks[READY_COUNT + 1];
	struct kedge__codec_plan plans[3];
	struct kedge__reduction red;
	struct kedge__segment_spec spec;
};

static void ready_reduce(struct ready *r)
{
	struct kedge__image_region regions[] = {{0, r->other, sizeof(r->other)},
						{KEDGE__SLOT_BYTES, r->data, sizeof(r->data)},
						{2 * KEDGE__SLOT_BYTES, r->other, sizeof(r->other)}};
	const struct kedge__image image = {regions, 3};
	const struct kedge__reducer_options options = {.id = KEDGE__REDUCER_FULL, .record_bytes = 1 << 20};
	struct kedge__reducer *reducer;

	assert_ok(kedge__reducer_new(&options, &reducer, err));
	assert_ok(kedge__reducer_reduce(reducer, NULL, 1, &image, NULL, &r->red, err));
	kedge__reducer_rollback(reducer);
	kedge__reducer_free(reducer);
}

static void ready_make(struct ready *r)
{
	static char names[3][2] = {"a", "b", "c"};
	uint64_t seed = 4;
	uint8_t *to = r->packed;

	for (size_t i = 0; i < READY_NUMBERS; i++) {
		float f = 1 + (float)i / 8192;

		memcpy(r->data + 4 * i, &f, 4);
	}
	draw_bytes(&seed, r->data + READY_BLOCK, READY_BLOCK);
	draw_bytes(&seed, r->other, sizeof(r->other));
	for (uint32_t i = 0; i < 3; i++)
		r->records[i] = (struct kedge__region_record){.name = names[i],
							      .slot = i,
							      .type = i == 1 ? KEDGE_F32 : KEDGE_U8,
							      .bytes = i == 1 ? READY_BYTES : sizeof(r->other)};
	ready_reduce(r);
	r->spec = (struct kedge__segment_spec){.name = NAME,
					       .ranks = 1,
					       .next_slot = 3,
					       .regions = r->records,
					       .region_count = 3,
					       .reduction = &r->red,
					       .plans = r->plans,
					       .block_bytes = READY_BLOCK};
	assert_ok(kedge__codec_choice_parse("delta+planes", &r->spec.codec, err));
	r->spec.codec.bus = KEDGE__CODEC_BUS;
	for (uint32_t at = 0, i = 0; at < READY_BYTES; at += READY_BLOCK, i++) {
		uint32_t raw = (uint32_t)KEDGE__MIN(READY_BYTES - at, (uint32_t)READY_BLOCK);
		uint16_t codec, param;
		size_t used;

		assert_ok(
		    kedge__block_encode(&r->spec.codec, KEDGE_F32, r->data + at, raw, to, &used, &codec, &param, err));
		r->blocks[i] = (struct kedge__ready_block){to, 1, raw, (uint32_t)used};
		to += used;
	}
	for (int i = 0; i < 3; i++) {
		const struct kedge__codec_region region = kedge__codec_region_of(&r->records[i]);

		assert_int_equal(kedge__codec_plan_there(&r->spec.codec, NULL, &region, &r->plans[i]), i == 1);
	}
}

static struct kedge__segment *ready_write(struct ready *r, struct kedge__catalog *cat, uint64_t version)
{
	struct kedge__segment *seg;
	struct kedge__set_part part;
	struct kedge__set set = {
	    .name = NAME, .version = version, .parent = KEDGE__NO_VERSION, .ranks = 1, .parts = &part};
	char *path = kedge__segment_path(cat, version, 0, 0);

	r->spec.version = r->red.version = version;
	assert_ok(kedge__segment_write(cat, NULL, &r->spec, &part, NULL, err));
	assert_ok(kedge__set_publish(cat, &set, err));
	assert_ok(kedge__segment_open(cat, path, &part, &seg, err));
	kedge__free(path);
	return seg;
}

/* With auto: a look at the data, which is there only as it was packed. */
static void ready_doubted(struct ready *r, struct kedge__catalog *cat)
{
	struct kedge__codec_choice named = r->spec.codec;
	const struct kedge__codec_subject subject = {
	    .id = r->records[1].slot, .type = KEDGE_F32, .bytes = READY_BYTES, .packing = READY_BYTES};
	struct kedge__codec_choice choice;
	struct kedge__codec_why why;

	assert_ok(kedge__codec_choice_parse("auto", &r->spec.codec, err));
	assert_ok(kedge__codec_memory_new(&r->spec.memory, err));
	r->spec.codec.bus = KEDGE__CODEC_BUS;
	r->spec.codec.target = 100e9; /* which no processor sustains */
	r->plans[1].doubted = true;
	kedge__segment_close(ready_write(r, cat, 3));
	assert_int_not_equal(kedge__codec_memory_ask(r->spec.memory, &subject, &r->spec.codec, &choice, &why),
			     KEDGE__LOOK_CLOSE);
	assert_true(why.tried > 0); /* it was looked at */
	kedge__codec_memory_free(r->spec.memory);
	r->spec.memory = NULL;
	r->spec.codec = named;
	r->plans[1].doubted = false;
}

/* They are stored as if they had been packed here, and nothing else is taken for them. */
static void test_ready_blocks(void **state)
{
	char *dir = make_dir();
	struct kedge__catalog *cat = open_store(dir);
	struct kedge__segment *here, *there;
	struct kedge__verify_report report;
	struct kedge__set_part part;
	struct ready *r = calloc(1, sizeof(*r));

	(void)state;
	assert_non_null(r);
	ready_make(r);
	here = ready_write(r, cat, 1);
	r->red.ready = (struct kedge__ready_blocks){r->blocks, READY_COUNT, 0};
	for (size_t i = 0; i < r->red.literals.count; i++)
		if (r->red.literals.at[i].region == 1)
			r->red.literals.at[i].data = NULL;
	there = ready_write(r, cat, 2);
	assert_int_equal(here->block_count, READY_COUNT + 2);
	assert_int_equal(there->block_count, here->block_count);
	assert_memory_equal(there->blocks, here->blocks, here->block_count * sizeof(*here->blocks));
	assert_int_equal(there->blocks[1].codec, KEDGE__CODEC_PLANES);
	assert_int_equal(there->blocks[2].codec, KEDGE__CODEC_NONE);
	assert_int_equal(there->packing_count, here->packing_count);
	assert_int_equal(there->footer.payload_bytes, here->footer.payload_bytes);
	kedge__segment_close(here);
	kedge__segment_close(there);
	ready_doubted(r, cat);
	assert_ok(kedge__verify(cat, NULL, KEDGE_NEWEST, NULL, NULL, NULL, &report, err));
	assert_int_equal(report.findings, 0);
	assert_int_equal(report.versions_intact, 3);
	kedge__verify_report_done(&report);
	r->spec.version = 4;
	for (int i = 0; i < 4; i++) {
		struct kedge__ready_block was = r->blocks[2];

		r->red.ready.count = i == 0 ? READY_COUNT - 1 : i == 1 ? READY_COUNT + 1 : READY_COUNT;
		r->blocks[2].raw -= i == 2;
		r->blocks[2].region += i == 3;
		assert_fails(KEDGE_E_INTERNAL, "packed blocks",
			     kedge__segment_write(cat, NULL, &r->spec, &part, NULL, err));
		r->blocks[2] = was;
	}
	r->red.ready = (struct kedge__ready_blocks){0};
	kedge__reduction_done(&r->red);
	kedge__catalog_close(cat);
	remove_dir(dir);
	free(r);
}

/* ------------------------------------------------------------------ what is not read */

static void test_cut_short(void **state)
{
	struct job job = job_new(1, 256);
	char *dir = make_dir(), *path;
	struct kedge__catalog *cat = open_store(dir);
	const struct kedge__set_part *part;
	size_t bytes;
	uint8_t *data;

	(void)state;
	save_next(cat, &job, 3, KEDGE__REDUCER_TREE);
	part = &kedge__catalog_find(cat, 3)->set.parts[0];
	path = kedge__segment_path(cat, 3, 0, part->generation);
	data = file_read(path, &bytes);
	for (size_t length = 0; length < bytes; length++) {
		struct kedge__segment *seg;

		file_write(path, data, length);
		assert_fails(KEDGE_E_DAMAGED, "version 3, rank 0", kedge__segment_open(cat, path, part, &seg, err));
		assert_fails(KEDGE_E_DAMAGED, path, kedge__segment_open(NULL, path, NULL, &seg, err));
	}
	free(data);
	kedge__free(path);
	kedge__catalog_close(cat);
	job_done(&job);
	remove_dir(dir);
}

/* Put DATA in the place of a segment with one change of its header or index, all checksums right again. */
static void reseal(uint8_t *data, size_t bytes)
{
	uint8_t *footer = data + bytes - KEDGE__SEGMENT_FOOTER_BYTES;
	uint64_t index = kedge__get64(footer + 8);
	struct kedge__digest seal;

	kedge__put64(data + 56, kedge__checksum(data, 56));
	seal = kedge__segment_seal(data, data + index, bytes - KEDGE__SEGMENT_FOOTER_BYTES - index);
	kedge__put64(footer + 40, seal.lo);
	kedge__put64(footer + 48, seal.hi);
	kedge__put64(footer + 56, kedge__checksum(footer, 56));
}

static void test_newer_format(void **state)
{
	struct job job = job_new(1, 256);
	char *dir = make_dir(), *path;
	struct kedge__catalog *cat = open_store(dir);
	struct kedge__segment *seg;
	size_t bytes;
	uint8_t *data;

	(void)state;
	save_next(cat, &job, 3, KEDGE__REDUCER_FULL);
	path = kedge__segment_path(cat, 3, 0, 0);
	data = file_read(path, &bytes);
	kedge__put16(data + 8, KEDGE__FORMAT_MAJOR + 1);
	reseal(data, bytes);
	file_write(path, data, bytes);
	assert_fails(KEDGE_E_FORMAT, "format 2.0, but this build reads 1",
		     kedge__segment_open(NULL, path, NULL, &seg, err));
	assert_fails(KEDGE_E_FORMAT, "version 3, rank 0", kedge__segment_open(NULL, path, NULL, &seg, err));
	/* A higher minor only adds what may be skipped. */
	kedge__put16(data + 8, KEDGE__FORMAT_MAJOR);
	kedge__put16(data + 10, KEDGE__FORMAT_MINOR + 1);
	reseal(data, bytes);
	file_write(path, data, bytes);
	assert_ok(kedge__segment_open(NULL, path, NULL, &seg, err));
	kedge__segment_close(seg);
	free(data);
	kedge__free(path);
	kedge__catalog_close(cat);
	job_done(&job);
	remove_dir(dir);
}

/* The segment at DATA with one more section, TYPE, of eight bytes. */
static uint8_t *add_section(const uint8_t *data, size_t bytes, uint32_t type, uint32_t flags, size_t *grown)
{
	const uint8_t *old = data + bytes - KEDGE__SEGMENT_FOOTER_BYTES;
	size_t index = (size_t)kedge__get64(old + 8), index_bytes = bytes - KEDGE__SEGMENT_FOOTER_BYTES - index;
	uint8_t *out = calloc(1, bytes + 8 + 32), *entry = out + index + 8 + index_bytes, *footer = entry + 32;

	memcpy(out, data, index);
	memcpy(out + index, "whatever", 8);
	memcpy(out + index + 8, data + index, index_bytes);
	kedge__put32(entry, type);
	kedge__put32(entry + 4, flags);
	kedge__put64(entry + 8, index);
	kedge__put64(entry + 16, 8);
	kedge__put64(entry + 24, kedge__checksum("whatever", 8));
	memcpy(footer, old, KEDGE__SEGMENT_FOOTER_BYTES);
	*grown = bytes + 8 + 32;
	kedge__put64(footer + 8, index + 8);
	kedge__put64(footer + 24, *grown);
	kedge__put32(footer + 32, kedge__get32(old + 32) + 1);
	reseal(out, *grown);
	return out;
}

static void test_unknown_sections(void **state)
{
	struct job job = job_new(1, 256);
	char *dir = make_dir(), *path;
	struct kedge__catalog *cat = open_store(dir);
	struct kedge__segment *seg;
	size_t bytes, grown;
	uint8_t *data, *more;

	(void)state;
	save_next(cat, &job, 3, KEDGE__REDUCER_FULL);
	path = kedge__segment_path(cat, 3, 0, 0);
	data = file_read(path, &bytes);
	more = add_section(data, bytes, 0x5a5a5a5a, 0, &grown);
	file_write(path, more, grown);
	free(more);
	assert_ok(kedge__segment_open(NULL, path, NULL, &seg, err));
	kedge__segment_close(seg);
	more = add_section(data, bytes, 0x5a5a5a5a, KEDGE__SECTION_REQUIRED, &grown);
	file_write(path, more, grown);
	free(more);
	assert_fails(KEDGE_E_FORMAT, "ZZZZ", kedge__segment_open(NULL, path, NULL, &seg, err));
	free(data);
	kedge__free(path);
	kedge__catalog_close(cat);
	job_done(&job);
	remove_dir(dir);
}

/* ------------------------------------------------------------------ versions written again */

static void test_replaced(void **state)
{
	struct job job = job_new(2, 512);
	char *dir = make_dir(), *path;
	struct kedge__catalog *cat = open_store(dir);
	uint32_t generation;

	(void)state;
	save_next(cat, &job, 1, KEDGE__REDUCER_FULL);
	save_next(cat, &job, 1, KEDGE__REDUCER_FULL);
	assert_int_equal(kedge__catalog_count(cat), 1);
	assert_int_equal(kedge__catalog_at(cat, 0)->set.parts[1].generation, 1);
	path = kedge__segment_path(cat, 1, 1, 0);
	assert_false(kedge__fs_exists(path));
	kedge__free(path);
	assert_all_intact(cat, &job);
	assert_ok(kedge__catalog_next_generation(cat, 1, 1, &generation, err));
	assert_int_equal(generation, 2);
	assert_ok(kedge__catalog_next_generation(cat, 7, 0, &generation, err));
	assert_int_equal(generation, 0);
	kedge__catalog_close(cat);
	job_done(&job);
	remove_dir(dir);
}

static void test_published_is_not_written_over(void **state)
{
	struct job job = job_new(1, 256);
	char *dir = make_dir();
	struct kedge__catalog *cat = open_store(dir);
	struct kedge__reduction red = {.version = 1, .parent = KEDGE__NO_VERSION};
	struct kedge__segment_spec spec = {
	    .name = NAME, .version = 1, .ranks = 1, .next_slot = 1, .reduction = &red, .block_bytes = 1024};
	struct kedge__set_part part;

	(void)state;
	save_next(cat, &job, 1, KEDGE__REDUCER_FULL);
	assert_fails(KEDGE_E_STATE, "published", kedge__segment_write(cat, NULL, &spec, &part, NULL, err));
	assert_fails(KEDGE_E_STATE, "published", kedge__segment_discard(cat, 1, 0, 0, err));
	assert_all_intact(cat, &job);
	kedge__catalog_close(cat);
	job_done(&job);
	remove_dir(dir);
}

static void test_discard_above(void **state)
{
	struct job job = job_new(1, 256);
	char *dir = make_dir();
	struct kedge__catalog *cat = open_store(dir), *again;

	(void)state;
	for (uint64_t version = 1; version <= 4; version++)
		save_next(cat, &job, version, KEDGE__REDUCER_TREE);
	assert_ok(kedge__set_discard_above(cat, 2, err));
	assert_int_equal(kedge__catalog_count(cat), 2);
	again = open_store(dir);
	assert_int_equal(kedge__catalog_count(again), 2);
	assert_all_intact(again, &job);
	kedge__catalog_close(again);
	kedge__catalog_close(cat);
	job_done(&job);
	remove_dir(dir);
}

/* ------------------------------------------------------------------ opening */

static void test_not_found(void **state)
{
	struct job job = job_new(1, 256);
	char *dir = make_dir(), *absent = kedge__asprintf("%s/absent", dir), *plain = kedge__asprintf("%s/plain", dir);
	struct kedge__catalog *cat, *none;
	char **names = NULL;
	size_t count;

	(void)state;
	assert_int_equal(mkdir(plain, 0777), 0);
	assert_fails(KEDGE_E_NOTFOUND, "absent", kedge__catalog_open(absent, NAME, KEDGE__CATALOG_READ, &none, err));
	assert_fails(KEDGE_E_NOTFOUND, "not a store",
		     kedge__catalog_open(plain, NAME, KEDGE__CATALOG_READ, &none, err));
	assert_fails(KEDGE_E_ARG, "..", kedge__catalog_open(dir, "../x", KEDGE__CATALOG_CREATE, &none, err));
	cat = open_store(plain);
	save_next(cat, &job, 1, KEDGE__REDUCER_FULL);
	assert_fails(KEDGE_E_NOTFOUND, "did you mean job",
		     kedge__catalog_open(plain, "jobs", KEDGE__CATALOG_READ, &none, err));
	assert_ok(kedge__store_names(plain, &names, &count, err));
	assert_int_equal(count, 1);
	assert_string_equal(names[0], NAME);
	kedge__fs_list_free(names, count);
	kedge__catalog_close(cat);
	job_done(&job);
	kedge__free(absent);
	kedge__free(plain);
	remove_dir(dir);
}

static void open_in_child(void *ctx)
{
	struct kedge__catalog *cat;

	if (kedge__catalog_open(ctx, NAME, KEDGE__CATALOG_CREATE, &cat, NULL) != 0)
		_exit(1);
	kedge__catalog_close(cat);
}

/* The ranks of a job create the store together: one marker, the same id for all. */
static void test_created_at_once(void **state)
{
	char *dir = make_dir(), *store = kedge__asprintf("%s/a/b", dir), *text;
	pid_t children[8];
	int status;

	(void)state;
	for (size_t i = 0; i < KEDGE__COUNT(children); i++) {
		children[i] = fork();
		assert_true(children[i] >= 0);
		if (children[i] == 0) {
			open_in_child(store);
			_exit(0);
		}
	}
	for (size_t i = 0; i < KEDGE__COUNT(children); i++) {
		assert_int_equal(waitpid(children[i], &status, 0), children[i]);
		assert_int_equal(status, 0);
	}
	text = tree_text(store, "", NULL);
	assert_string_equal(text, "/job -1\n/job/guard 0\n/kedge-store 48\n");
	kedge__free(text);
	kedge__free(store);
	remove_dir(dir);
}

struct written { /* of one segment: what does not depend on the clock */
	uint8_t *payload;
	size_t bytes;
	struct kedge__block_record *blocks;
	size_t block_count;
};

static struct written take_written(struct kedge__catalog *cat, uint64_t version)
{
	struct kedge__segment *seg = open_segment(cat, version, 0);
	struct written w = {.blocks = seg->blocks, .block_count = seg->block_count};
	uint64_t end = KEDGE__SEGMENT_HEADER_BYTES + seg->footer.payload_bytes;

	w.payload = file_read(seg->path, &w.bytes);
	w.bytes = (size_t)end - KEDGE__SEGMENT_HEADER_BYTES;
	memmove(w.payload, w.payload + KEDGE__SEGMENT_HEADER_BYTES, w.bytes);
	seg->blocks = NULL;
	kedge__segment_close(seg);
	return w;
}

static struct written write_with(const char *codec, int threads, size_t queue, enum kedge__reducer_id how)
{
	struct job job = job_new(1, 400000);
	char *dir = make_dir();
	struct kedge__catalog *cat = open_store(dir);
	struct written w;

	if (threads)
		assert_ok(kedge__pool_new(threads, &job.pool, err));
	job.block_bytes = 5000;
	job.io.queue = queue;
	assert_ok(kedge__codec_choice_parse(codec, &job.codec, err));
	job.codec.pace = kedge__codec_pace_built_in; /* what is measured is not the same twice */
	save_next(cat, &job, 1, KEDGE__REDUCER_FULL);
	save_next(cat, &job, 2, how);
	assert_all_intact(cat, &job);
	w = take_written(cat, 2);
	kedge__catalog_close(cat);
	kedge__pool_free(job.pool);
	job_done(&job);
	remove_dir(dir);
	return w;
}

static void written_done(struct written *w)
{
	free(w->payload);
	kedge__free(w->blocks);
}

/* Whatever the number of threads and the length of the rings, the bytes are the same. */
static void test_same_bytes(void **state)
{
	static const char *const codecs[] = {"none", "lz4", "auto"};
	static const enum kedge__reducer_id how[] = {KEDGE__REDUCER_FULL, KEDGE__REDUCER_BASIC};

	(void)state;
	for (size_t c = 0; c < KEDGE__COUNT(codecs) * KEDGE__COUNT(how); c++) {
		struct written first = write_with(codecs[c / 2], 0, 0, how[c % 2]);

		assert_true(first.block_count > 10);
		for (int threads = 1; threads <= 5; threads += 2) {
			struct written w = write_with(codecs[c / 2], threads, (size_t)threads - 1, how[c % 2]);

			assert_int_equal(w.bytes, first.bytes);
			assert_memory_equal(w.payload, first.payload, first.bytes);
			assert_int_equal(w.block_count, first.block_count);
			assert_memory_equal(w.blocks, first.blocks, first.block_count * sizeof(*first.blocks));
			written_done(&w);
		}
		written_done(&first);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_round_trip),      cmocka_unit_test(test_contents),
	    cmocka_unit_test(test_little_changed),  cmocka_unit_test(test_large_blocks),
	    cmocka_unit_test(test_same_bytes),      cmocka_unit_test(test_empty),
	    cmocka_unit_test(test_ready_blocks),    cmocka_unit_test(test_cut_short),
	    cmocka_unit_test(test_newer_format),    cmocka_unit_test(test_unknown_sections),
	    cmocka_unit_test(test_replaced),        cmocka_unit_test(test_published_is_not_written_over),
	    cmocka_unit_test(test_discard_above),   cmocka_unit_test(test_not_found),
	    cmocka_unit_test(test_created_at_once),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
