/* SPDX-License-Identifier: BSD-3-Clause */
/* Versions for the tests of restore, written through reducer, segment and set as a job would. */
#ifndef KEDGE_TESTS_RESTORE_SUPPORT_H
#define KEDGE_TESTS_RESTORE_SUPPORT_H

#include "../lib/cases.h"
#include "../lib/damage.h"
#include "../lib/draw.h"
#include "../lib/files.h"
#include "../lib/scratch.h"
#include "restore/restore.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct lab {
	char dir[256];
	struct kedge__catalog *cat;
	struct kedge__reducer *reducer;
	struct kedge__pool *pool;
	struct kedge__codec_choice codec;
	uint32_t block;
	bool spoil_digest; /* of the first region */
	bool rows;         /* digests are as they were up to format 1.7 */
	struct kedge__error err;
};

static inline struct lab *lab_new(enum kedge__reducer_id id, uint32_t chunk, const char *codec, uint32_t block)
{
	struct lab *lab = calloc(1, sizeof(*lab));
	struct kedge__reducer_options options = {.id = id, .chunk = chunk, .record_bytes = (uint64_t)64 << 20};

	assert_non_null(lab);
	scratch_make_on_disk(lab->dir, sizeof(lab->dir), "restore");
	assert_int_equal(kedge__catalog_open(lab->dir, "job", KEDGE__CATALOG_CREATE, &lab->cat, NULL), 0);
	assert_int_equal(kedge__reducer_new(&options, &lab->reducer, NULL), 0);
	assert_int_equal(kedge__pool_new(3, &lab->pool, NULL), 0);
	assert_int_equal(kedge__codec_choice_parse(codec, &lab->codec, NULL), 0);
	lab->block = block;
	return lab;
}

static inline void lab_free(struct lab *lab)
{
	kedge__pool_free(lab->pool);
	kedge__reducer_free(lab->reducer);
	kedge__catalog_close(lab->cat);
	kedge__error_done(&lab->err);
	scratch_remove(lab->dir);
	free(lab);
}

struct lab_region {
	const char *name;
	const void *data;
	uint64_t bytes;
	uint32_t slot;
};

static inline void lab_publish(struct lab *lab, uint64_t version, const struct kedge__reduction *red,
			       const struct kedge__set_part *part)
{
	struct kedge__set_part parts[1] = {*part};
	struct kedge__set set = {.name = (char *)"job",
				 .version = version,
				 .parent = red->parent,
				 .created_ns = version + 1,
				 .reducer = red->reducer,
				 .ranks = 1,
				 .parts = parts,
				 .sources = red->sources,
				 .source_count = red->source_count};

	assert_int_equal(kedge__set_publish(lab->cat, &set, NULL), 0);
}

static inline void lab_write(struct lab *lab, uint64_t version, const struct kedge__image *image,
			     struct kedge__region_record *records, struct kedge__reduction *red)
{
	struct kedge__source_record sources[256];
	struct kedge__segment_spec spec = {.name = "job",
					   .version = version,
					   .ranks = 1,
					   .next_slot = 100,
					   .regions = records,
					   .region_count = image->count,
					   .reduction = red,
					   .sources = sources,
					   .source_count = red->source_count,
					   .codec = lab->codec,
					   .block_bytes = lab->block};
	struct kedge__segment_stats stats;
	struct kedge__set_part part;

	assert_true(red->source_count <= KEDGE__COUNT(sources));
	for (size_t i = 0; i < red->source_count; i++)
		sources[i] = (struct kedge__source_record){
		    red->sources[i], kedge__catalog_find(lab->cat, red->sources[i])->set.parts[0].image_id};
	for (size_t i = 0; i < image->count && red->region_digests; i++)
		records[i].digest = red->region_digests[i];
	assert_int_equal(kedge__catalog_pin(lab->cat, NULL), 0);
	assert_int_equal(kedge__segment_write(lab->cat, lab->pool, &spec, &part, &stats, NULL), 0);
	lab_publish(lab, version, red, &part);
	kedge__catalog_unpin(lab->cat);
}

/* The digests are in the records, and not in the reduction. */
static inline void lab_digest_by_rows(const struct lab_region *regions, size_t n, struct kedge__region_record *records,
				      struct kedge__reduction *red)
{
	for (size_t i = 0; i < n; i++) {
		struct kedge__sum sum = kedge__sum_ruled(KEDGE__SUM_ROWS, regions[i].data, regions[i].bytes, 0);

		records[i].digest = kedge__sum_digest(sum, regions[i].bytes);
		records[i].rule = KEDGE__SUM_ROWS;
	}
	kedge__free(red->region_digests);
	red->region_digests = NULL;
}

/* Regions in the order of their slots. */
static inline void lab_save(struct lab *lab, uint64_t version, const struct lab_region *regions, size_t n)
{
	struct kedge__image_region parts[16];
	struct kedge__region_record records[16];
	struct kedge__image image = {parts, n};
	struct kedge__reduction red = {0};

	memset(records, 0, sizeof(records));
	for (size_t i = 0; i < n; i++) {
		parts[i] = (struct kedge__image_region){regions[i].slot * KEDGE__SLOT_BYTES, regions[i].data,
							regions[i].bytes};
		records[i].name = (char *)regions[i].name;
		records[i].slot = regions[i].slot;
		records[i].bytes = regions[i].bytes;
		records[i].type = KEDGE_U8;
	}
	assert_int_equal(kedge__reducer_reduce(lab->reducer, lab->pool, version, &image, NULL, &red, NULL), 0);
	if (lab->spoil_digest)
		red.region_digests[0].lo ^= 1;
	if (lab->rows)
		lab_digest_by_rows(regions, n, records, &red);
	lab_write(lab, version, &image, records, &red);
	kedge__reducer_commit(lab->reducer);
	kedge__reduction_done(&red);
}

static inline struct kedge__lineage *lab_open(struct lab *lab, uint64_t version)
{
	struct kedge__lineage *l = NULL;

	assert_int_equal(kedge__catalog_scan(lab->cat, NULL), 0);
	assert_int_equal(kedge__lineage_open_by(lab->pool, &lab->cat, 1, version, 0, &l, NULL), 0);
	return l;
}

#endif
