/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Damage that no checksum shows: a segment is taken apart, changed, and put together again with checksums, seal and
 * manifest that fit. And who is right about it: what verify says of every version is what a restore finds.
 */
#ifndef KEDGE_TESTS_RESTORE_RESEAL_H
#define KEDGE_TESTS_RESTORE_RESEAL_H

#include "restore/restore.h"
#include "../lib/map.h"
#include "../lib/reseal.h"
#include "../store/fixture.h"

static inline char *segment_of(struct kedge__catalog *cat, uint64_t version, uint32_t rank)
{
	return kedge__segment_path(cat, version, rank, kedge__catalog_find(cat, version)->set.parts[rank].generation);
}

static inline void publish_part(struct kedge__catalog *cat, uint64_t version, uint32_t rank, struct kedge__set_part part)
{
	const struct kedge__set *old = &kedge__catalog_find(cat, version)->set;
	struct kedge__set_part parts[RANKS_MAX];
	struct kedge__set set = *old;

	memcpy(parts, old->parts, old->ranks * sizeof(*parts));
	parts[rank] = part;
	set.parts = parts;
	assert_ok(kedge__catalog_pin(cat, err));
	assert_ok(kedge__set_publish(cat, &set, err));
	kedge__catalog_unpin(cat);
}

/* ------------------------------------------------------------------ changes */

static inline bool change_payload(struct sealed *a, uint64_t dice)
{
	if (!a->payload.bytes)
		return false;
	a->payload.at[dice % a->payload.bytes] ^= (uint8_t)(1 + dice % 255);
	sealed_mend_blocks(a);
	return true;
}

/* An extent gets its bytes from elsewhere: what a reducer that is wrong about equal chunks writes. */
static inline void change_extent(struct kedge__extent *e, uint64_t dice, uint64_t literal_bytes)
{
	switch (e->kind) {
	case KEDGE__EXTENT_LITERAL:
		e->src = dice % (literal_bytes - e->len + 1);
		break;
	case KEDGE__EXTENT_COPY:
		e->src = e->src / KEDGE__SLOT_BYTES * KEDGE__SLOT_BYTES + dice % 600;
		break;
	case KEDGE__EXTENT_FILL:
		e->src ^= UINT64_C(1) << dice % 64;
		break;
	case KEDGE__EXTENT_PARENT:
		if (e->addr % 8 == 0)
			*e = (struct kedge__extent){e->addr, e->len, dice, 0, KEDGE__EXTENT_FILL};
		break;
	}
}

static inline bool change_map(struct sealed *a, uint64_t dice)
{
	struct piece *text = &sealed_section(a, KEDGE__SECTION_MAP)->data;
	const struct piece *names = &sealed_section(a, KEDGE__SECTION_REGIONS)->data;
	struct kedge__region_record *regions;
	struct kedge__extent_map map = {0}, flat;
	struct kedge__bytes changed = {0};
	enum kedge__map_encoding how;
	uint64_t version = a->header.version;
	size_t count;

	assert_ok(kedge__regions_decode(names->at, names->bytes, &regions, &count, NULL, err));
	assert_ok(kedge__map_decode(text->at, text->bytes, version, regions, count, &how, &map, err));
	flat = map_flat(&map);
	if (flat.count) {
		change_extent(&flat.at[dice % flat.count], dice >> 8, sealed_literal_bytes(a));
		assert_ok(kedge__map_encode(KEDGE__MAP_RUNS, kedge__extents_of_map(&flat), 0, version, regions, count, &changed, err));
		piece_set(text, changed.at, changed.count);
	}
	kedge__bytes_done(&changed);
	kedge__extent_map_done(&flat);
	kedge__extent_map_done(&map);
	kedge__regions_free(regions, count);
	return true;
}

static inline bool change_section(struct sealed *a, uint64_t dice)
{
	struct piece *text = &a->sections[dice % a->count].data;

	if (!text->bytes)
		return false;
	text->at[(dice >> 4) % text->bytes] ^= (uint8_t)(1 << dice % 8);
	return true;
}

/* What can still be taken apart. The image id follows the regions. */
static inline void reseal(struct kedge__catalog *cat, uint64_t version, uint32_t rank,
			  bool (*change)(struct sealed *a, uint64_t dice), uint64_t dice)
{
	struct kedge__set_part part = kedge__catalog_find(cat, version)->set.parts[rank];
	char *path = segment_of(cat, version, rank);
	struct sealed a = {.version = version};

	path_make(a.path, "%s", path);
	kedge__free(path);
	sealed_load(&a);
	if (change(&a, dice)) {
		sealed_mend_summary(&a);
		sealed_write(&a, &part);
		publish_part(cat, version, rank, part);
	}
	sealed_free(&a);
}

/* ------------------------------------------------------------------ verdicts */

/* A check without memory comes to the same. */
static inline int restore_rank(struct kedge__catalog *cat, struct kedge__pool *pool, uint64_t version, uint32_t rank)
{
	struct kedge__lineage *l = NULL;
	struct kedge__restore_target *targets;
	const struct kedge__segment *top;
	int rc = kedge__lineage_open(&cat, 1, version, rank, &l, NULL);
	size_t count;

	if (rc)
		return rc;
	top = kedge__lineage_top(l);
	count = top->region_count;
	targets = calloc(count + 1, sizeof(*targets));
	for (size_t i = 0; i < count; i++)
		targets[i] = (struct kedge__restore_target){i, calloc(1, top->regions[i].bytes + 1), NULL, false};
	if (count)
		rc = kedge__restore_fill(l, pool, (struct kedge__io){0}, targets, count, NULL, NULL, NULL, NULL);
	assert_int_equal(kedge__restore_check(l, pool, (struct kedge__io){0}, NULL, NULL, NULL), rc);
	for (size_t i = 0; i < count; i++)
		free(targets[i].data);
	free(targets);
	kedge__lineage_close(l);
	return rc;
}

static inline bool can_restore(struct kedge__catalog *cat, struct kedge__pool *pool, uint64_t version)
{
	const struct kedge__catalog_entry *entry = kedge__catalog_find(cat, version);
	bool can = entry && !entry->problem.code;

	for (uint32_t rank = 0; can && rank < entry->set.ranks; rank++)
		can = restore_rank(cat, pool, version, rank) == 0;
	return can;
}

static inline bool is_lost(const struct kedge__verify_report *report, uint64_t version)
{
	for (size_t i = 0; i < report->versions_lost; i++)
		if (report->lost[i] == version)
			return true;
	return false;
}

struct findings {
	size_t digests, others;
};

static inline void note_finding(void *ctx, const struct kedge__finding *f)
{
	struct findings *seen = ctx;

	assert_non_null(f->text);
	assert_non_null(f->file);
	if (f->section && strcmp(f->section, "digest") == 0) {
		assert_non_null(f->region);
		seen->digests++;
	} else {
		seen->others++;
	}
}

/* Returns the number of versions lost. MEMORY: as in kedge__verify_options. */
static inline size_t assert_verdicts(struct kedge__catalog *cat, struct kedge__pool *pool, uint64_t memory,
				     struct findings *seen, const char *what)
{
	struct findings own = {0};
	struct kedge__verify_options options = {
	    .version = KEDGE_NEWEST, .memory = memory, .found = note_finding, .ctx = seen ? seen : &own};
	struct kedge__verify_report report;
	size_t lost;

	assert_ok(kedge__verify_with(cat, pool, &options, &report, err));
	for (size_t i = 0; i < kedge__catalog_count(cat); i++) {
		uint64_t version = kedge__catalog_at(cat, i)->version;

		if (can_restore(cat, pool, version) == is_lost(&report, version))
			fail_msg("%s: version %llu is %s, and verify says otherwise", what, (unsigned long long)version,
				 is_lost(&report, version) ? "restored" : "lost");
	}
	assert_int_equal(report.versions_intact + report.versions_lost, kedge__catalog_count(cat));
	if (report.versions_lost)
		assert_true(report.findings > 0);
	lost = report.versions_lost;
	kedge__verify_report_done(&report);
	return lost;
}

#endif
