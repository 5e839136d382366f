/* SPDX-License-Identifier: BSD-3-Clause */
/* Stores of released formats are read in full, for ever (README.md). */
#include "../lib/cases.h"
#include "../lib/files.h"
#include "../lib/scratch.h"
#include "restore/restore.h"
#include "store/store.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAME      "golden"
#define PATH_MAX_ 4096

/* ------------------------------------------------------------------ a copy to work on: the tree is not written to */

static char scratch[PATH_MAX_];

static int setup(void **state)
{
	(void)state;
	scratch_make_on_disk(scratch, sizeof(scratch), "golden");
	tree_copy(GOLDEN_DIR "/v1", scratch);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	return scratch_remove(scratch);
}

/* ------------------------------------------------------------------ the checks */

static struct kedge__catalog *open_store(const char *store)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	struct kedge__catalog *cat;
	char path[PATH_MAX_ + 64];

	snprintf(path, sizeof(path), "%s/%s", scratch, store);
	if (kedge__catalog_open(path, NAME, KEDGE__CATALOG_READ, &cat, &err) != 0)
		fail_msg("%s: %s", store, kedge__error_text(&err));
	return cat;
}

struct expectation {
	char store[64], region[256], seal[64];
	uint64_t version;
	uint32_t rank;
	size_t bytes;
};

static size_t region_index(const struct kedge__segment *seg, const char *name)
{
	for (size_t i = 0; i < seg->region_count; i++)
		if (strcmp(seg->regions[i].name, name) == 0)
			return i;
	fail_msg("%s: no region '%s'", seg->path, name);
	return 0;
}

static void restore_one(const struct expectation *x)
{
	struct kedge__catalog *cat = open_store(x->store);
	struct kedge__error err = KEDGE__ERROR_INIT;
	struct kedge__restore_target target = {.data = malloc(x->bytes + 1)};
	struct kedge__restore_stats stats;
	struct kedge__lineage *l;
	struct kedge__digest d;
	char seal[64];
	int rc = kedge__lineage_open(&cat, 1, x->version, x->rank, &l, &err);

	if (rc == 0) {
		target.region = region_index(kedge__lineage_top(l), x->region);
		assert_int_equal(kedge__lineage_top(l)->regions[target.region].bytes, x->bytes);
		rc = kedge__restore_fill(l, NULL, (struct kedge__io){0}, &target, 1, NULL, NULL, &stats, &err);
	}
	if (rc != 0)
		fail_msg("%s, version %" PRIu64 ", rank %u, region %s: %s", x->store, x->version, x->rank, x->region,
			 kedge__error_text(&err));
	d = kedge__seal(target.data, x->bytes);
	snprintf(seal, sizeof(seal), "%016" PRIx64 "%016" PRIx64, d.hi, d.lo);
	assert_string_equal(seal, x->seal);
	free(target.data);
	kedge__lineage_close(l);
	kedge__catalog_close(cat);
}

static void test_contents(void **state)
{
	FILE *f = fopen(GOLDEN_DIR "/v1/expected", "r");
	struct expectation x;
	char line[512];
	size_t lines = 0;

	(void)state;
	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		assert_int_equal(sscanf(line, "%63s %" SCNu64 " %" SCNu32 " %255s %zu %63s", x.store, &x.version,
					&x.rank, x.region, &x.bytes, x.seal),
				 6);
		restore_one(&x);
		lines++;
	}
	fclose(f);
	assert_true(lines >= 40);
}

/* What the stores have, over all of them. */
struct seen {
	size_t stores, segments;
	unsigned encodings, kinds, codecs, reducers; /* bits */
	unsigned flags;                              /* of sections */
	size_t pages;                                /* blocks with checksums of pages */
	size_t bundled;                              /* segments in bundles */
	unsigned rules;                              /* of region digests: bits */
};

static void look_at_sections(const char *path, const struct kedge__set_part *part, struct seen *seen)
{
	struct kedge__section_entry entries[KEDGE__SECTION_LIMIT];
	struct kedge__segment_footer f;
	size_t n;
	uint8_t *all = file_read(path, &n), *file = all + part->start;

	assert_non_null(all);
	n = part->file_bytes;
	assert_int_equal(kedge__segment_footer_decode(file + n - KEDGE__SEGMENT_FOOTER_BYTES, n, &f, NULL), 0);
	assert_int_equal(kedge__section_index_decode(file + f.index_offset,
						     n - KEDGE__SEGMENT_FOOTER_BYTES - f.index_offset, &f, entries,
						     NULL),
			 0);
	for (size_t i = 0; i < f.section_count; i++)
		seen->flags |= entries[i].flags;
	seen->bundled += part->bundle != 0;
	free(all);
}

static void look_at_segment(const struct kedge__segment *seg, struct seen *seen)
{
	struct kedge__extent_reader map = kedge__extents_of_map(&seg->map);
	struct kedge__extent e;

	seen->segments++;
	seen->encodings |= 1u << seg->map_encoding;
	seen->reducers |= 1u << seg->summary.reducer;
	for (size_t i = 0; i < seg->region_count; i++)
		seen->rules |= 1u << seg->regions[i].rule;
	while (kedge__extent_next(&map, &e))
		seen->kinds |= 1u << e.kind;
	for (size_t i = 0; i < seg->block_count; i++) {
		struct kedge__error err = KEDGE__ERROR_INIT;
		void *raw = malloc(seg->blocks[i].raw_bytes), *packed = malloc(seg->blocks[i].stored_bytes);

		assert_true(raw && packed);
		if (kedge__lineage_read_block(NULL, seg, i, raw, packed, NULL, &err) != 0)
			fail_msg("%s", kedge__error_text(&err));
		seen->codecs |= 1u << seg->blocks[i].codec;
		seen->pages += kedge__block_has_pages(&seg->blocks[i]);
		free(raw);
		free(packed);
	}
}

static void look_at_set(struct kedge__catalog *cat, const struct kedge__set *set, struct seen *seen)
{
	for (uint32_t rank = 0; rank < set->ranks; rank++) {
		struct kedge__error err = KEDGE__ERROR_INIT;
		struct kedge__segment *seg;
		char *path = kedge__part_path(cat, set->version, rank, &set->parts[rank]);

		if (kedge__segment_open(cat, path, &set->parts[rank], &seg, &err) != 0)
			fail_msg("%s", kedge__error_text(&err));
		look_at_segment(seg, seen);
		look_at_sections(path, &set->parts[rank], seen);
		kedge__segment_close(seg);
		kedge__free(path);
	}
}

static void found(void *ctx, const struct kedge__finding *f)
{
	(void)ctx;
	print_error("%s: %s\n", f->file, f->text);
}

static void look_at_store(const char *name, struct seen *seen)
{
	struct kedge__verify_report report;
	struct kedge__error err = KEDGE__ERROR_INIT;
	struct kedge__catalog *cat = open_store(name);

	seen->stores++;
	if (kedge__verify(cat, NULL, KEDGE_NEWEST, found, NULL, NULL, &report, &err) != 0)
		fail_msg("%s: %s", name, kedge__error_text(&err));
	assert_int_equal(report.findings, 0);
	assert_int_equal(report.versions_lost, 0);
	assert_int_equal(report.versions_intact, kedge__catalog_count(cat));
	kedge__verify_report_done(&report);
	for (size_t i = 0; i < kedge__catalog_count(cat); i++)
		look_at_set(cat, &kedge__catalog_at(cat, i)->set, seen);
	kedge__catalog_close(cat);
}

static void test_everything_is_there(void **state)
{
	struct seen seen = {0};
	char **names;
	size_t n;

	(void)state;
	assert_int_equal(kedge__fs_list(scratch, &names, &n, NULL), 0);
	for (size_t i = 0; i < n; i++)
		if (strcmp(names[i], "expected") != 0)
			look_at_store(names[i], &seen);
	kedge__fs_list_free(names, n);
	assert_int_equal(seen.stores, 14);
	assert_int_equal(seen.rules, 1 << KEDGE__SUM_PAGES | 1 << KEDGE__SUM_ROWS);
	assert_int_equal(seen.bundled, 9);
	assert_int_equal(seen.pages, 3);
	assert_true(seen.segments >= 24);
	assert_int_equal(seen.encodings, 1 << KEDGE__MAP_RUNS | 1 << KEDGE__MAP_LIST | 1 << KEDGE__MAP_BITMAP |
					     1 << KEDGE__MAP_PAGES | 1 << KEDGE__MAP_COLUMNS);
	assert_int_equal(seen.flags, KEDGE__SECTION_REQUIRED | KEDGE__SECTION_PACKED | KEDGE__SECTION_CHANGES);
	assert_int_equal(seen.kinds, 0xf);
	assert_int_equal(seen.codecs, 1 << KEDGE__CODEC_NONE | 1 << KEDGE__CODEC_LZ4 | 1 << KEDGE__CODEC_ZSTD |
					  1 << KEDGE__CODEC_RECORDS);
	assert_int_equal(seen.reducers, 1 << KEDGE__REDUCER_FULL | 1 << KEDGE__REDUCER_BASIC |
					    1 << KEDGE__REDUCER_LIST | 1 << KEDGE__REDUCER_TREE |
					    1 << KEDGE__REDUCER_MERGED | 1 << KEDGE__REDUCER_REX);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_contents),
	    cmocka_unit_test(test_everything_is_there),
	};

	return cases_run(argc, argv, tests, setup, teardown);
}
