/* SPDX-License-Identifier: BSD-3-Clause */
#include "support.h"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define BYTES 300007 /* an odd tail */

static uint8_t m[BYTES], got[BYTES];

static void fill_all(struct lab *lab, struct kedge__lineage *l, struct kedge__restore_stats *stats)
{
	struct kedge__restore_target target = {0, got, NULL, false};
	int rc;

	memset(got, 0xa5, BYTES);
	rc = kedge__restore_fill(l, lab->pool, (struct kedge__io){0}, &target, 1, NULL, NULL, stats, &lab->err);
	if (rc)
		fprintf(stderr, "%s\n", kedge__error_text(&lab->err));
	assert_int_equal(rc, 0);
}

#define BLOCK_PAGES 32 /* at most, of a block here */

struct cell {
	bool live;
	uint64_t shift;
};

/* What must be read, by the maps alone: the pages with a live byte, or the blocks that have none, each once. A page
 * whose literals are at two distances from their places may be read twice, and one between two live ones with them. */
struct need {
	uint64_t blocks, least, most;
};

static void need_cell(struct need *need, struct cell *cell, uint64_t shift, uint64_t bytes)
{
	need->least += cell->live ? 0 : bytes;
	need->most += cell->live && cell->shift != shift ? bytes : 0;
	*cell = (struct cell){true, shift};
}

/* The cells of block B from OFFSET to before END. */
static void need_block(struct need *need, const struct kedge__segment *seg, size_t b, struct cell *cells,
		       uint64_t offset, uint64_t end, uint64_t shift)
{
	const struct kedge__block_record *block = &seg->blocks[b];
	bool live = false;

	for (size_t i = 0; i < BLOCK_PAGES; i++)
		live |= cells[i].live;
	need->blocks += !live;
	need->most += live ? 0 : block->stored_bytes;
	if (!kedge__block_has_pages(block)) {
		need_cell(need, &cells[0], shift, block->stored_bytes);
		return;
	}
	for (size_t page = offset / KEDGE__BLOCK_PAGE; page * KEDGE__BLOCK_PAGE < end; page++)
		need_cell(need, &cells[page], shift,
			  KEDGE__MIN(KEDGE__BLOCK_PAGE, block->raw_bytes - page * KEDGE__BLOCK_PAGE));
}

static struct need need_of(struct kedge__lineage *l)
{
	struct kedge__span_list spans = {0};
	struct cell *cells[256] = {0};
	struct need need = {0};

	assert_int_equal(kedge__lineage_resolve(l, NULL, 0, &spans, NULL), 0);
	for (size_t i = 0; i < spans.count; i++) {
		const struct kedge__span *s = &spans.at[i];
		const struct kedge__segment *seg = kedge__lineage_segment(l, s->version);

		if (s->fill)
			continue;
		if (!cells[s->version])
			cells[s->version] = calloc(seg->block_count * BLOCK_PAGES, sizeof(struct cell));
		for (uint64_t pos = s->src, end = s->src + s->len, to; pos < end; pos = to) {
			size_t b = kedge__segment_find_block(seg, pos);

			to = KEDGE__MIN(end, seg->blocks[b].position + seg->blocks[b].raw_bytes);
			need_block(&need, seg, b, cells[s->version] + b * BLOCK_PAGES, pos - seg->blocks[b].position,
				   to - seg->blocks[b].position, s->addr - s->src);
		}
	}
	for (size_t v = 0; v < 256; v++)
		free(cells[v]);
	kedge__span_list_done(&spans);
	return need;
}

static void long_lineage(enum kedge__reducer_id id, const char *codec, uint32_t chunk)
{
	struct lab *lab = lab_new(id, chunk, codec, 8192);
	struct lab_region region = {"m", m, BYTES, 0};
	struct kedge__restore_stats stats;
	struct kedge__lineage *l;
	struct need need;
	uint64_t x = 12345;

	fill_random(m, BYTES, 1);
	memset(m + 50000, 0, 40000);
	for (uint64_t v = 0; v <= 50; v++) {
		for (int i = 0; v && i < 6; i++) {
			uint64_t len = draw_below(&x, 5000) + 1, at = draw_below(&x, BYTES - len);

			if (i == 0)
				memmove(m + at, m + draw_below(&x, BYTES - len), len);
			else if (i == 1)
				memset(m + at, (int)v, len);
			else
				fill_random(m + at, len, draw_below(&x, 1u << 30));
		}
		lab_save(lab, v, &region, 1);
	}
	l = lab_open(lab, 50);
	fill_all(lab, l, &stats);
	assert_memory_equal(got, m, BYTES);
	need = need_of(l);
	assert_int_equal(stats.blocks_read, need.blocks);
	assert_in_range(stats.bytes_read, need.least, need.most);
	assert_int_equal(stats.bytes_filled, BYTES);
	kedge__lineage_close(l);
	lab_free(lab);
}

static void test_each_live_block_once(void **state)
{
	(void)state;
	long_lineage(KEDGE__REDUCER_TREE, "none", 64);
	long_lineage(KEDGE__REDUCER_TREE, "zstd", 32);
	long_lineage(KEDGE__REDUCER_LIST, "lz4", 256);
	long_lineage(KEDGE__REDUCER_BASIC, "none", 1024);
	long_lineage(KEDGE__REDUCER_FULL, "auto", 64);
	long_lineage(KEDGE__REDUCER_REX, "none", 32);
	long_lineage(KEDGE__REDUCER_REX, "zstd", 16);
}

/* Spoil all blocks of all versions but those that hold a byte of SPANS. */
static void spoil_others(struct lab *lab, struct kedge__lineage *l, const struct kedge__span_list *spans)
{
	for (size_t s = 0; s < kedge__lineage_count(l); s++) {
		const struct kedge__segment *seg = kedge__lineage_at(l, s);
		char *path = kedge__segment_path(lab->cat, seg->header.version, 0, 0);

		for (size_t b = 0; b < seg->block_count; b++) {
			uint64_t begin = seg->blocks[b].position, end = begin + seg->blocks[b].raw_bytes;
			bool needed = false;

			for (size_t i = 0; i < spans->count; i++)
				needed |= !spans->at[i].fill && spans->at[i].version == seg->header.version &&
					  spans->at[i].src < end && spans->at[i].src + spans->at[i].len > begin;
			if (!needed)
				file_flip(path, seg->blocks[b].offset, 4);
		}
		kedge__free(path);
	}
}

/* A page of rex's comes back from its own blocks, whatever became of all the others. */
static void test_one_page_of_many(void **state)
{
	struct lab *lab = lab_new(KEDGE__REDUCER_REX, 32, "zstd", 4096);
	struct lab_region region = {"m", m, BYTES, 3};
	struct kedge__range page = {3 * KEDGE__SLOT_BYTES + 20 * 4096, 4096};
	struct kedge__span_list spans = {0};
	struct kedge__lineage *l;

	(void)state;
	fill_random(m, BYTES, 1);
	for (size_t i = 0; i < BYTES; i++)
		m[i] &= 7; /* packs */
	lab_save(lab, 0, &region, 1);
	for (uint64_t v = 1; v < 4; v++) {
		for (size_t at = 0; at + 200 < BYTES; at += 1500)
			fill_random(m + at, 100, at + v);
		memmove(m + 20 * 4096 + 64, m + 20 * 4096, 1024);
		memcpy(m + 20 * 4096 + 2048, m + 4096, 512); /* what is in this version already */
		lab_save(lab, v, &region, 1);
	}
	l = lab_open(lab, 3);
	assert_int_equal(kedge__lineage_resolve(l, &page, 1, &spans, NULL), 0);
	spoil_others(lab, l, &spans);
	assert_int_equal(kedge__lineage_read(l, page.start, got, page.len, NULL), 0);
	assert_memory_equal(got, m + 20 * 4096, 4096);
	assert_int_equal(kedge__lineage_read(l, page.start + 30 * 4096, got, page.len, NULL), KEDGE_E_DAMAGED);
	kedge__span_list_done(&spans);
	kedge__lineage_close(l);
	lab_free(lab);
}

/* A block whose bytes were all overwritten later may be damaged as it likes; one that lives may not. */
static void test_dead_blocks_are_not_read(void **state)
{
	struct lab *lab = lab_new(KEDGE__REDUCER_BASIC, 64, "none", 8192);
	struct lab_region region = {"m", m, BYTES, 0};
	struct kedge__restore_target target = {0, got, NULL, false};
	struct kedge__lineage *l;
	char *path;

	(void)state;
	fill_random(m, BYTES, 1);
	lab_save(lab, 0, &region, 1);
	fill_random(m, 16384, 2); /* the first two blocks */
	lab_save(lab, 1, &region, 1);
	path = kedge__segment_path(lab->cat, 0, 0, 0);
	file_flip(path, 64 + 100, 4);
	file_flip(path, 64 + 8192 + 100, 4);
	l = lab_open(lab, 1);
	fill_all(lab, l, NULL);
	assert_memory_equal(got, m, BYTES);
	file_flip(path, 64 + 16384 + 100, 4);
	assert_int_equal(
	    kedge__restore_fill(l, lab->pool, (struct kedge__io){0}, &target, 1, NULL, NULL, NULL, &lab->err),
	    KEDGE_E_DAMAGED);
	assert_non_null(strstr(kedge__error_text(&lab->err), path));
	assert_non_null(strstr(kedge__error_text(&lab->err), "block 2"));
	assert_non_null(strstr(kedge__error_text(&lab->err), "region"));
	kedge__lineage_close(l);
	kedge__free(path);
	lab_free(lab);
}

/* The same of pages of a block: dead ones are not read, and it does not matter what became of them. */
static void test_dead_pages_are_not_read(void **state)
{
	struct lab *lab = lab_new(KEDGE__REDUCER_BASIC, 64, "none", 32768);
	struct lab_region region = {"m", m, BYTES, 0};
	struct kedge__restore_target target = {0, got, NULL, false};
	struct kedge__restore_stats stats;
	char *path = kedge__segment_path(lab->cat, 0, 0, 0);
	struct kedge__lineage *l;

	(void)state;
	fill_random(m, BYTES, 1);
	lab_save(lab, 0, &region, 1);
	fill_random(m + 2 * 4096, 3 * 4096, 2);
	fill_random(m + 65536 + 100 * 64, 64, 3); /* a part of a page */
	lab_save(lab, 1, &region, 1);
	for (int page = 2; page < 5; page++)
		file_flip(path, 64 + (size_t)page * 4096 + 100, 4);
	l = lab_open(lab, 1);
	fill_all(lab, l, &stats);
	assert_memory_equal(got, m, BYTES);
	assert_int_equal(stats.bytes_read, BYTES + 64);
	assert_int_equal(kedge__restore_check(l, lab->pool, (struct kedge__io){0}, NULL, NULL, NULL), 0);
	assert_int_equal(kedge__lineage_read(l, 0, got, 8192, NULL), 0);
	assert_int_equal(kedge__lineage_read(l, 5 * 4096, got + 8192, 8192, NULL), 0);
	assert_memory_equal(got, m, 8192);
	assert_memory_equal(got + 8192, m + 5 * 4096, 8192);
	file_flip(path, 64 + 5 * 4096 + 4000, 1);
	assert_int_equal(
	    kedge__restore_fill(l, lab->pool, (struct kedge__io){0}, &target, 1, NULL, NULL, NULL, &lab->err),
	    KEDGE_E_DAMAGED);
	assert_non_null(strstr(kedge__error_text(&lab->err), path));
	assert_non_null(strstr(kedge__error_text(&lab->err), "block 0 (region m): the checksum of page 5"));
	assert_int_equal(kedge__restore_check(l, lab->pool, (struct kedge__io){0}, NULL, NULL, NULL), KEDGE_E_DAMAGED);
	assert_int_equal(kedge__lineage_read(l, 5 * 4096, got, 8192, NULL), KEDGE_E_DAMAGED);
	kedge__lineage_close(l);
	kedge__free(path);
	lab_free(lab);
}

struct judged {
	size_t findings;
	int64_t block;
	char text[200];
};

static void note(void *ctx, const struct kedge__finding *f)
{
	struct judged *j = ctx;

	j->findings++;
	j->block = f->block;
	snprintf(j->text, sizeof(j->text), "%s", strstr(f->text, "): ") ? strstr(f->text, "): ") : f->text);
}

/* Flip a bit at AT of version 0's literals; verify finds it, and LOST of two versions, the older ones, are lost. */
static void assert_judged(struct lab *lab, size_t at, size_t lost, const char *text)
{
	char *path = kedge__segment_path(lab->cat, 0, 0, 0);

	file_flip(path, 64 + at, 16);
	for (int quick = 0; quick < 2; quick++) {
		struct judged judged = {0};
		struct kedge__verify_options options = {
		    .version = KEDGE_NEWEST, .quick = quick, .found = note, .ctx = &judged};
		struct kedge__verify_report report;

		assert_int_equal(kedge__verify_with(lab->cat, lab->pool, &options, &report, NULL), 0);
		assert_int_equal(judged.findings, 1);
		assert_int_equal(judged.block, at / 32768);
		assert_non_null(strstr(judged.text, text));
		assert_int_equal(report.versions_lost, lost);
		assert_int_equal(report.versions_intact, 2 - lost);
		assert_true(lost == 2 || report.newest_intact == 1);
		kedge__verify_report_done(&report);
	}
	file_flip(path, 64 + at, 16);
	kedge__free(path);
}

/* Every page is checked by verify, a dead one too, and only versions that need the damaged one are lost. */
static void test_verify_judges_by_page(void **state)
{
	struct lab *lab = lab_new(KEDGE__REDUCER_BASIC, 64, "none", 32768);
	struct lab_region region = {"m", m, BYTES, 0};

	(void)state;
	fill_random(m, BYTES, 1);
	lab_save(lab, 0, &region, 1);
	fill_random(m + 2 * 4096, 3 * 4096, 2);
	fill_random(m + 65536 + 100 * 64, 64, 3);
	lab_save(lab, 1, &region, 1);
	assert_judged(lab, 2 * 4096 - 1, 2, "page 1 ");
	assert_judged(lab, 2 * 4096, 1, "page 2 ");
	assert_judged(lab, 5 * 4096 - 1, 1, "page 4 ");
	assert_judged(lab, 5 * 4096, 2, "page 5 ");
	assert_judged(lab, 65536 + 100 * 64 + 5, 2, "page 1 "); /* some of the page is alive */
	assert_judged(lab, BYTES - 1, 2, "page 1 ");
	lab_free(lab);
}

/* Two blocks, each mostly alive and in one row, whose dead parts lie over each other's live ones. */
static void test_blocks_in_each_others_way(void **state)
{
	struct lab *lab = lab_new(KEDGE__REDUCER_TREE, 64, "none", 8192);
	struct lab_region region = {"m", m, BYTES, 0};
	struct kedge__lineage *l;

	(void)state;
	fill_random(m, BYTES, 1);
	lab_save(lab, 0, &region, 1);
	memmove(m + 8192 - 3008, m + 8192, 6016);
	fill_random(m + 8192 + 3008, 8192 - 3008, 2);
	lab_save(lab, 1, &region, 1);
	memmove(m + 32768 + 64, m + 32768, 8192); /* and one moved over its neighbour by a single chunk */
	lab_save(lab, 2, &region, 1);
	for (int i = 0; i < 3; i++) {
		l = lab_open(lab, 2);
		fill_all(lab, l, NULL);
		assert_memory_equal(got, m, BYTES);
		kedge__lineage_close(l);
	}
	lab_free(lab);
}

/* Versions 0 to LAST, each with some chunks of 64 bytes changed, alone or in rows. */
static void save_scattered(struct lab *lab, const struct lab_region *regions, size_t n, uint64_t last)
{
	uint64_t x = 77;

	for (size_t r = 0; r < n; r++)
		fill_random((uint8_t *)regions[r].data, regions[r].bytes, r + 1);
	for (uint64_t v = 0; v <= last; v++) {
		for (size_t r = 0; v && r < n; r++) {
			for (int i = 0; i < 60; i++) {
				uint64_t len = 64 * (draw_below(&x, i % 10 ? 2 : 40) + 1);
				uint64_t at = draw_below(&x, (regions[r].bytes - len) / 64) * 64;

				fill_random((uint8_t *)regions[r].data + at, len, draw_below(&x, 1u << 30));
			}
		}
		lab_save(lab, v, regions, n);
	}
}

/* Blocks in many pieces, of several regions, the last of which ends within a chunk; and a copy of a row elsewhere. */
static void test_scattered(void **state)
{
	static const enum kedge__reducer_id ids[] = {KEDGE__REDUCER_TREE, KEDGE__REDUCER_BASIC, KEDGE__REDUCER_REX};
	struct lab_region regions[] = {{"a", m, 196608, 0}, {"b", m + 196608, 8192, 1}, {"c", m + 204800, 95207, 4}};
	struct kedge__restore_target targets[] = {
	    {2, got + 204800, NULL, false}, {0, got, NULL, false}, {1, got + 196608, NULL, false}};

	(void)state;
	for (size_t i = 0; i < KEDGE__COUNT(ids); i++) {
		struct lab *lab = lab_new(ids[i], 64, "none", i == 1 ? 4096 : 32768);
		struct kedge__lineage *l;

		save_scattered(lab, regions, 3, 12);
		memmove(m + 100 * 64, m + 300 * 64, 1000 * 64);
		lab_save(lab, 13, regions, 3);
		l = lab_open(lab, 13);
		for (int pool = 0; pool < 2; pool++) {
			memset(got, 0xa5, BYTES);
			assert_int_equal(kedge__restore_fill(l, pool ? lab->pool : NULL, (struct kedge__io){0}, targets,
							     3, NULL, NULL, NULL, NULL),
					 0);
			assert_memory_equal(got, m, BYTES);
		}
		assert_int_equal(kedge__restore_check(l, lab->pool, (struct kedge__io){0}, NULL, NULL, NULL), 0);
		kedge__lineage_close(l);
		lab_free(lab);
	}
}

/* An altered bit anywhere in a block that is partly alive, in a live byte or in a dead one, is found. */
static void test_each_page_of_a_block_is_checked(void **state)
{
	struct lab *lab = lab_new(KEDGE__REDUCER_TREE, 64, "none", 32768);
	struct lab_region region = {"m", m, 8 * 32768, 0};
	struct kedge__restore_target target = {0, got, NULL, false};
	char *path = kedge__segment_path(lab->cat, 0, 0, 0);

	(void)state;
	save_scattered(lab, &region, 1, 6);
	for (uint64_t at = 64; at < 64 + 4 * 32768; at += 2000) {
		struct kedge__lineage *l = lab_open(lab, 6);

		file_flip(path, at, 1);
		assert_int_equal(
		    kedge__restore_fill(l, lab->pool, (struct kedge__io){0}, &target, 1, NULL, NULL, NULL, NULL),
		    KEDGE_E_DAMAGED);
		assert_int_equal(kedge__restore_check(l, lab->pool, (struct kedge__io){0}, NULL, NULL, NULL),
				 KEDGE_E_DAMAGED);
		file_flip(path, at, 1);
		kedge__lineage_close(l);
	}
	kedge__free(path);
	lab_free(lab);
}

static void test_region_digest_is_checked(void **state)
{
	struct lab *lab = lab_new(KEDGE__REDUCER_TREE, 64, "none", 8192);
	struct lab_region region = {"temperature", m, BYTES, 0};
	struct kedge__restore_target target = {0, got, NULL, false};
	struct kedge__lineage *l;

	(void)state;
	fill_random(m, BYTES, 1);
	lab->spoil_digest = true;
	lab_save(lab, 0, &region, 1);
	l = lab_open(lab, 0);
	assert_int_equal(
	    kedge__restore_fill(l, lab->pool, (struct kedge__io){0}, &target, 1, NULL, NULL, NULL, &lab->err),
	    KEDGE_E_DAMAGED);
	assert_non_null(strstr(kedge__error_text(&lab->err), "temperature"));
	assert_non_null(strstr(kedge__error_text(&lab->err), "digest"));
	kedge__lineage_close(l);
	lab_free(lab);
}

/* Regions of all sizes; any subset of them in any order; misaligned memory. */
static void test_subsets(void **state)
{
	struct lab *lab = lab_new(KEDGE__REDUCER_TREE, 32, "auto", 4096);
	uint8_t *a = m, *b = m + 5001, *c = m + 100003;
	struct lab_region regions[] = {
	    {"a", a, 5000, 0}, {"empty", NULL, 0, 1}, {"b", b, 90001, 4}, {"one", c, 1, 7}, {"c", c, 7777, 9}};
	struct kedge__restore_target targets[] = {{4, got + 3, NULL, false},
						  {1, NULL, NULL, false},
						  {0, got + 20001, NULL, false},
						  {3, got + 40000, NULL, false}};
	struct kedge__restore_stats stats;
	struct kedge__lineage *l;

	(void)state;
	fill_random(m, BYTES, 3);
	memset(b + 1000, 7, 30000);
	lab_save(lab, 1, regions, 5);
	a[100] ^= 1;
	c[7776] ^= 1;
	lab_save(lab, 2, regions, 5);
	l = lab_open(lab, 2);
	memset(got, 0, BYTES);
	assert_int_equal(
	    kedge__restore_fill(l, lab->pool, (struct kedge__io){0}, targets, 4, NULL, NULL, &stats, &lab->err), 0);
	assert_memory_equal(got + 3, c, 7777);
	assert_memory_equal(got + 20001, a, 5000);
	assert_int_equal(got[40000], c[0]);
	assert_int_equal(got[2] + got[3 + 7777] + got[40001], 0);
	assert_int_equal(stats.bytes_filled, 7777 + 5000 + 1);
	assert_int_equal(kedge__restore_fill(l, NULL, (struct kedge__io){0}, targets, 0, NULL, NULL, &stats, &lab->err),
			 0);
	targets[0].region = 5;
	assert_int_equal(kedge__restore_fill(l, NULL, (struct kedge__io){0}, targets, 4, NULL, NULL, &stats, &lab->err),
			 KEDGE_E_ARG);
	kedge__lineage_close(l);
	lab_free(lab);
}

static void progress(void *ctx, uint64_t done, uint64_t total)
{
	uint64_t *last = ctx;

	assert_true(done <= total);
	*last = done;
}

static void test_progress_ends_at_the_total(void **state)
{
	struct lab *lab = lab_new(KEDGE__REDUCER_FULL, 64, "none", 8192);
	struct lab_region region = {"m", m, BYTES, 0};
	struct kedge__restore_target target = {0, got, NULL, false};
	struct kedge__lineage *l;
	uint64_t last = 0;

	(void)state;
	lab_save(lab, 0, &region, 1);
	l = lab_open(lab, 0);
	assert_int_equal(
	    kedge__restore_fill(l, NULL, (struct kedge__io){0}, &target, 1, progress, &last, NULL, &lab->err), 0);
	assert_int_equal(last, BYTES);
	kedge__lineage_close(l);
	lab_free(lab);
}

/* More than a cache holds, in blocks of several sizes, read in batches and rings of several: it is the same memory. */
static void test_large(void **state)
{
	static const struct kedge__io ios[] = {
	    {.buffer = 0}, {.buffer = 4096, .queue = 1}, {.buffer = 8 << 20, .queue = 64}};
	static const uint32_t blocks[] = {4096, 100000, 1 << 20};
	const uint64_t bytes = (UINT64_C(17) << 20) + 5;
	uint8_t *state_bytes = malloc(bytes), *back = malloc(bytes);

	(void)state;
	for (size_t b = 0; b < KEDGE__COUNT(blocks); b++) {
		struct lab *lab = lab_new(KEDGE__REDUCER_BASIC, 256, b == 2 ? "lz4" : "none", blocks[b]);
		struct lab_region region = {"m", state_bytes, bytes, 0};
		struct kedge__restore_target target = {0, back, NULL, false};
		struct kedge__lineage *l;

		fill_random(state_bytes, bytes, 3 + b);
		memset(state_bytes + bytes / 2, 7, bytes / 4);
		lab_save(lab, 0, &region, 1);
		for (uint64_t at = 100; at < bytes; at += 70001)
			state_bytes[at]++;
		lab_save(lab, 1, &region, 1);
		l = lab_open(lab, 1);
		for (size_t i = 0; i < KEDGE__COUNT(ios); i++) {
			struct kedge__restore_stats stats;

			memset(back, 0, bytes);
			assert_int_equal(kedge__restore_fill(l, i == 2 ? NULL : lab->pool, ios[i], &target, 1, NULL,
							     NULL, &stats, &lab->err),
					 0);
			assert_memory_equal(back, state_bytes, bytes);
			assert_int_equal(stats.bytes_filled, bytes);
			assert_int_equal(stats.pipeline.stage[KEDGE__STAGE_STORE].bytes, bytes);
			assert_non_null(kedge__restore_bottleneck(&stats));
		}
		kedge__lineage_close(l);
		lab_free(lab);
	}
	free(state_bytes);
	free(back);
}

/* Memory that was never touched is filled in another way than memory that is there, and lines of the cache need not
 * begin where pages do: it is the same memory, and an altered bit in any page is found. */
static void test_large_and_untouched(void **state)
{
	static const uint32_t blocks[] = {4096, 100000};
	static const size_t shifts[] = {0, 8, 40};
	const uint64_t bytes = (UINT64_C(17) << 20) + 5, room = bytes + 64;
	uint8_t *data = malloc(bytes);

	(void)state;
	for (size_t b = 0; b < KEDGE__COUNT(blocks); b++) {
		struct lab *lab = lab_new(KEDGE__REDUCER_BASIC, 256, "none", blocks[b]);
		struct lab_region region = {"m", data, bytes, 0};
		struct kedge__lineage *l;
		char *path = kedge__segment_path(lab->cat, 0, 0, 0);

		fill_random(data, bytes, 9 + b);
		lab_save(lab, 0, &region, 1);
		for (uint64_t at = 4096; at < bytes; at += 50000)
			data[at]++;
		lab_save(lab, 1, &region, 1);
		l = lab_open(lab, 1);
		for (size_t turn = 0; turn < 2 * KEDGE__COUNT(shifts); turn++) {
			uint8_t *memory = kedge__map_alloc(room), *back = memory + shifts[turn / 2];
			struct kedge__restore_target target = {0, back, NULL, false};
			uint64_t altered = 64 + 4096 * (300 + 701 * turn) + 13 * turn;

			if (turn % 2)
				memset(memory, 1, room);
			assert_int_equal(kedge__restore_fill(l, lab->pool, (struct kedge__io){0}, &target, 1, NULL,
							     NULL, NULL, &lab->err),
					 0);
			assert_memory_equal(back, data, bytes);
			file_flip(path, altered, 1);
			assert_int_equal(kedge__restore_fill(l, lab->pool, (struct kedge__io){0}, &target, 1, NULL,
							     NULL, NULL, NULL),
					 KEDGE_E_DAMAGED);
			file_flip(path, altered, 1);
			kedge__map_free(memory, room);
		}
		kedge__free(path);
		kedge__lineage_close(l);
		lab_free(lab);
	}
	free(data);
}

/* ------------------------------------------------------------------ files that the page cache does not have */

static int forget(const char *path, const struct stat *st, void *ctx)
{
	int fd = S_ISREG(st->st_mode) ? open(path, O_RDONLY) : -1;

	(void)ctx;
	if (fd >= 0) {
		assert_int_equal(fdatasync(fd), 0);
		(void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
		close(fd);
	}
	return 0;
}

/* A byte of a block in the middle of the segment of VERSION. */
static void spoil_block(struct kedge__lineage *l, uint64_t version)
{
	const struct kedge__segment *seg = kedge__lineage_segment(l, version);
	const struct kedge__block_record *b = &seg->blocks[seg->block_count / 2];

	file_flip(seg->path, b->offset, 1);
}

/* Where the file system lets them be dropped they are read past it, in long and in short runs; it is the same memory,
 * and damage is found. */
static void test_files_out_of_the_cache(void **state)
{
	static const struct kedge__io ios[] = {{.buffer = 0}, {.queue = 1}, {.writer = KEDGE__WRITER_PWRITE}};
	const uint64_t bytes = (UINT64_C(9) << 20) + 77;
	uint8_t *data = malloc(bytes), *back = malloc(bytes);
	uint64_t x = 7;

	(void)state;
	for (size_t c = 0; c < 2; c++) {
		struct lab *lab = lab_new(KEDGE__REDUCER_BASIC, 256, c ? "lz4" : "none", c ? 100000 : 4096);
		struct lab_region region = {"m", data, bytes, 0};
		struct kedge__restore_target target = {0, back, NULL, false};
		struct kedge__lineage *l;

		fill_random(data, bytes, 5);
		for (uint64_t v = 0; v < 3; v++) {
			for (int i = 0; v && i < 20; i++) {
				uint64_t len = draw_below(&x, 200000) + 1, at = draw_below(&x, bytes - len);

				fill_random(data + at, len, x);
			}
			lab_save(lab, v, &region, 1);
		}
		l = lab_open(lab, 2);
		for (size_t i = 0; i < KEDGE__COUNT(ios); i++) {
			memset(back, 0, bytes);
			tree_each(lab->dir, forget, NULL);
			assert_int_equal(kedge__restore_fill(l, i == 1 ? NULL : lab->pool, ios[i], &target, 1, NULL,
							     NULL, NULL, &lab->err),
					 0);
			assert_memory_equal(back, data, bytes);
		}
		spoil_block(l, 2);
		tree_each(lab->dir, forget, NULL);
		assert_int_equal(kedge__restore_fill(l, lab->pool, ios[0], &target, 1, NULL, NULL, NULL, &lab->err),
				 KEDGE_E_DAMAGED);
		kedge__lineage_close(l);
		lab_free(lab);
	}
	free(data);
	free(back);
}

/* ------------------------------------------------------------------ memory that the kernel may not write to */

#define GUARDED_BYTES ((size_t)64 * 4096)

static uint8_t *guarded;
static volatile sig_atomic_t opened;

static void open_guarded(int sig, siginfo_t *info, void *context)
{
	(void)sig, (void)info, (void)context;
	if (mprotect(guarded, GUARDED_BYTES, PROT_READ | PROT_WRITE) == 0)
		opened = 1;
}

/* A handler as that of a page tracker makes memory writable for the application when it writes, not for read(2). */
static void test_memory_that_a_handler_opens(void **state)
{
	struct sigaction handler = {.sa_sigaction = open_guarded, .sa_flags = SA_SIGINFO}, before;
	struct lab *lab = lab_new(KEDGE__REDUCER_BASIC, 256, "none", 4096);
	uint8_t *data = malloc(GUARDED_BYTES);
	struct lab_region region = {"m", data, GUARDED_BYTES, 0};
	struct kedge__restore_target target;
	struct kedge__lineage *l;

	(void)state;
	guarded = mmap(NULL, GUARDED_BYTES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(guarded != MAP_FAILED);
	target = (struct kedge__restore_target){.data = guarded};
	fill_random(data, GUARDED_BYTES, 9);
	lab_save(lab, 0, &region, 1);
	l = lab_open(lab, 0);
	assert_int_equal(sigaction(SIGSEGV, &handler, &before), 0);
	assert_int_equal(
	    kedge__restore_fill(l, lab->pool, (struct kedge__io){0}, &target, 1, NULL, NULL, NULL, &lab->err), 0);
	assert_int_equal(sigaction(SIGSEGV, &before, NULL), 0);
	assert_true(opened);
	assert_memory_equal(guarded, data, GUARDED_BYTES);
	kedge__lineage_close(l);
	munmap(guarded, GUARDED_BYTES);
	free(data);
	lab_free(lab);
}

/* ------------------------------------------------------------------ files with holes */

#define HOLED_BYTES (UINT64_C(1) << 20)
#define HOLED_DATA  (HOLED_BYTES / 2)

/* Small pieces, so many that they would be summed later, and a hole, which nobody may touch. */
static void test_holes_are_not_touched(void **state)
{
	struct lab *lab = lab_new(KEDGE__REDUCER_TREE, 64, "none", 8192);
	uint8_t *data = calloc(1, HOLED_BYTES);
	uint8_t *to = mmap(NULL, HOLED_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct lab_region region = {"m", data, HOLED_BYTES, 0};
	struct kedge__restore_target target = {0, to, NULL, true};
	struct kedge__lineage *l;

	(void)state;
	assert_ptr_not_equal(to, MAP_FAILED);
	for (uint64_t at = 0; at < HOLED_DATA; at += 128)
		fill_random(data + at, 64, at + 1);
	lab_save(lab, 0, &region, 1);
	l = lab_open(lab, 0);
	assert_int_equal(mprotect(to + HOLED_DATA, HOLED_BYTES - HOLED_DATA, PROT_NONE), 0);
	assert_int_equal(
	    kedge__restore_fill(l, lab->pool, (struct kedge__io){0}, &target, 1, NULL, NULL, NULL, &lab->err), 0);
	assert_memory_equal(to, data, HOLED_DATA);
	kedge__lineage_close(l);
	munmap(to, HOLED_BYTES);
	free(data);
	lab_free(lab);
}

/* ------------------------------------------------------------------ the rate at which a restore reads */

struct slept {
	pthread_mutex_t lock;
	double longest;
};

static double still_now(void *ctx)
{
	(void)ctx;
	return 0;
}

static void note_sleep(void *ctx, double seconds)
{
	struct slept *s = ctx;

	pthread_mutex_lock(&s->lock);
	s->longest = KEDGE__MAX(s->longest, seconds);
	pthread_mutex_unlock(&s->lock);
}

static uint64_t size_of(const char *fmt, ...)
{
	char path[512];
	struct stat st;
	va_list args;

	va_start(args, fmt);
	vsnprintf(path, sizeof(path), fmt, args);
	va_end(args);
	assert_int_equal(stat(path, &st), 0);
	return (uint64_t)st.st_size;
}

/* The marker, the manifests, and all but the blocks of each segment. */
static uint64_t bytes_to_open(struct lab *lab, struct kedge__lineage *l)
{
	uint64_t sum = size_of("%s/%s", lab->dir, KEDGE__STORE_MARKER_NAME);

	sum += size_of("%s/job/%s", lab->dir, "index"); /* instead of the manifests */
	for (size_t i = 0; i < kedge__lineage_count(l); i++) {
		const struct kedge__segment *seg = kedge__lineage_at(l, i);

		sum += seg->footer.file_bytes - seg->footer.payload_bytes;
	}
	return sum;
}

/* Every byte that is read is taken from the bucket, once, whoever of the threads reads it: time stands still, so that
 * the last to come owes for all. */
static void test_reads_are_paced(void **state)
{
	static const char *const codecs[] = {"none", "zstd"};
	struct lab_region region = {"m", m, BYTES, 0};

	(void)state;
	for (size_t c = 0; c < KEDGE__COUNT(codecs); c++) {
		struct lab *lab = lab_new(KEDGE__REDUCER_TREE, 64, codecs[c], 8192);
		struct slept slept = {.lock = PTHREAD_MUTEX_INITIALIZER};
		struct kedge__bucket bucket;
		struct kedge__catalog *cat;
		struct kedge__lineage *l, *known;
		struct kedge__restore_stats stats;
		uint64_t wanted;

		fill_random(m, BYTES, 1);
		for (uint64_t v = 0; v < 6; v++) {
			m[v * 1000]++;
			memset(m + 10000 * (v + 1), (int)v, 3000);
			lab_save(lab, v, &region, 1);
		}
		known = lab_open(lab, 5);
		wanted = bytes_to_open(lab, known);
		kedge__lineage_close(known);

		kedge__bucket_init(&bucket, 100, 0);
		bucket.now = still_now;
		bucket.sleep = note_sleep;
		bucket.ctx = &slept;
		assert_int_equal(kedge__catalog_open(lab->dir, "job", KEDGE__CATALOG_READ, &cat, NULL), 0);
		kedge__catalog_pace(cat, &bucket);
		assert_int_equal(kedge__lineage_open(&cat, 1, 5, 0, &l, NULL), 0);
		fill_all(lab, l, &stats);
		assert_memory_equal(got, m, BYTES);
		assert_int_equal((uint64_t)bucket.taken, wanted + stats.bytes_read);
		assert_true(slept.longest == bucket.taken / 100);
		kedge__lineage_close(l);
		kedge__catalog_close(cat);
		lab_free(lab);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_each_live_block_once),
	    cmocka_unit_test(test_one_page_of_many),
	    cmocka_unit_test(test_dead_blocks_are_not_read),
	    cmocka_unit_test(test_dead_pages_are_not_read),
	    cmocka_unit_test(test_verify_judges_by_page),
	    cmocka_unit_test(test_blocks_in_each_others_way),
	    cmocka_unit_test(test_scattered),
	    cmocka_unit_test(test_each_page_of_a_block_is_checked),
	    cmocka_unit_test(test_region_digest_is_checked),
	    cmocka_unit_test(test_subsets),
	    cmocka_unit_test(test_progress_ends_at_the_total),
	    cmocka_unit_test(test_large),
	    cmocka_unit_test(test_large_and_untouched),
	    cmocka_unit_test(test_files_out_of_the_cache),
	    cmocka_unit_test(test_memory_that_a_handler_opens),
	    cmocka_unit_test(test_holes_are_not_touched),
	    cmocka_unit_test(test_reads_are_paced),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
