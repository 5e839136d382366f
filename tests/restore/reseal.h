/*
 * Damage that no checksum shows: a segment is taken apart, changed, and put together again with checksums, seal and
 * manifest that fit. And who is right about it: what verify says of every version is what a restore finds.
 */
#ifndef KEDGE_TESTS_RESTORE_RESEAL_H
#define KEDGE_TESTS_RESTORE_RESEAL_H

#include "restore/restore.h"
#include "../store/fixture.h"

#define SECTIONS_MAX 8

struct apart {
	uint8_t header[KEDGE__SEGMENT_HEADER_BYTES];
	uint8_t *payload;
	size_t payload_bytes;
	struct kedge__section_entry entries[SECTIONS_MAX];
	struct kedge__bytes text[SECTIONS_MAX];
	size_t count;
};

static inline char *segment_of(struct kedge__catalog *cat, uint64_t version, uint32_t rank)
{
	return kedge__segment_path(cat, version, rank, kedge__catalog_find(cat, version)->set.parts[rank].generation);
}

static inline void bytes_put(struct kedge__bytes *b, const void *data, size_t bytes)
{
	assert_true(kedge__array_reserve(b, b->count + bytes + 1));
	memcpy(b->at + b->count, data, bytes);
	b->count += bytes;
}

static inline void apart_take(struct apart *a, const char *path)
{
	struct kedge__segment_footer footer;
	size_t bytes;
	uint8_t *data = load_file(path, &bytes);

	memset(a, 0, sizeof(*a));
	assert_ok(
	    kedge__segment_footer_decode(data + bytes - KEDGE__SEGMENT_FOOTER_BYTES, (uint64_t)bytes, &footer, err));
	assert_true(footer.section_count <= SECTIONS_MAX);
	assert_ok(kedge__section_index_decode(data + footer.index_offset,
					      bytes - KEDGE__SEGMENT_FOOTER_BYTES - footer.index_offset, &footer,
					      a->entries, err));
	memcpy(a->header, data, sizeof(a->header));
	a->payload_bytes = footer.payload_bytes;
	a->payload = malloc(a->payload_bytes + 1);
	memcpy(a->payload, data + sizeof(a->header), a->payload_bytes);
	a->count = footer.section_count;
	for (size_t i = 0; i < a->count; i++)
		bytes_put(&a->text[i], data + a->entries[i].offset, a->entries[i].bytes);
	free(data);
}

static inline void apart_done(struct apart *a)
{
	free(a->payload);
	for (size_t i = 0; i < a->count; i++)
		kedge__bytes_done(&a->text[i]);
}

static inline struct kedge__bytes *apart_find(struct apart *a, uint32_t type)
{
	for (size_t i = 0; i < a->count; i++)
		if (a->entries[i].type == type)
			return &a->text[i];
	return NULL;
}

/* The image id follows the regions, if the summary can still be read. */
static inline struct kedge__digest apart_identify(struct apart *a)
{
	struct kedge__bytes *regions = apart_find(a, KEDGE__SECTION_REGIONS);
	struct kedge__bytes *text = apart_find(a, KEDGE__SECTION_SUMMARY);
	struct kedge__digest id = kedge__seal(regions->at, regions->count);
	struct kedge__segment_summary summary;

	if (kedge__summary_decode(text->at, text->count, &summary, NULL) == 0) {
		summary.image_id = id;
		text->count = 0;
		assert_ok(kedge__summary_encode(&summary, text, err));
		kedge__summary_done(&summary);
	}
	return id;
}

static inline void apart_publish(struct kedge__catalog *cat, uint64_t version, uint32_t rank, struct kedge__set_part part)
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

/* Write it back, and a manifest that fits. */
static inline void apart_seal(struct apart *a, struct kedge__catalog *cat, uint64_t version, uint32_t rank)
{
	struct kedge__set_part part = kedge__catalog_find(cat, version)->set.parts[rank];
	struct kedge__segment_footer footer = {.payload_bytes = a->payload_bytes};
	struct kedge__bytes file = {0}, index = {0};
	uint8_t text[KEDGE__SEGMENT_FOOTER_BYTES];
	char *path = segment_of(cat, version, rank);

	part.image_id = apart_identify(a);
	bytes_put(&file, a->header, sizeof(a->header));
	bytes_put(&file, a->payload, a->payload_bytes);
	for (size_t i = 0; i < a->count; i++) {
		a->entries[i].offset = file.count;
		a->entries[i].bytes = a->text[i].count;
		a->entries[i].checksum = kedge__checksum(a->text[i].at, a->text[i].count);
		bytes_put(&file, a->text[i].at, a->text[i].count);
	}
	assert_ok(kedge__section_index_encode(a->entries, a->count, &index, err));
	footer.index_offset = file.count;
	footer.section_count = (uint32_t)a->count;
	footer.seal = kedge__segment_seal(a->header, index.at, index.count);
	footer.file_bytes = file.count + index.count + sizeof(text);
	kedge__segment_footer_encode(&footer, text);
	bytes_put(&file, index.at, index.count);
	bytes_put(&file, text, sizeof(text));
	store_file(path, file.at, file.count);
	part.seal = footer.seal;
	part.file_bytes = file.count;
	part.metadata_bytes = file.count - a->payload_bytes;
	apart_publish(cat, version, rank, part);
	kedge__bytes_done(&file);
	kedge__bytes_done(&index);
	kedge__free(path);
}

/* ------------------------------------------------------------------ changes */

/* A byte of a block, and the block's checksum. */
static inline bool change_payload(struct apart *a, uint64_t dice)
{
	struct kedge__bytes *text = apart_find(a, KEDGE__SECTION_BLOCKS);
	struct kedge__block_record *blocks;
	size_t count;

	if (!a->payload_bytes)
		return false;
	a->payload[dice % a->payload_bytes] ^= (uint8_t)(1 + dice % 255);
	assert_ok(kedge__blocks_decode(text->at, text->count, a->payload_bytes, &blocks, &count, err));
	for (size_t i = 0; i < count; i++)
		blocks[i].checksum = kedge__checksum(a->payload + blocks[i].offset - sizeof(a->header),
						     blocks[i].stored_bytes);
	text->count = 0;
	assert_ok(kedge__blocks_encode(blocks, count, text, err));
	kedge__free(blocks);
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

static inline bool change_map(struct apart *a, uint64_t dice)
{
	struct kedge__bytes *text = apart_find(a, KEDGE__SECTION_MAP), *names = apart_find(a, KEDGE__SECTION_REGIONS),
			    *head = apart_find(a, KEDGE__SECTION_SUMMARY);
	struct kedge__region_record *regions;
	struct kedge__segment_header header;
	struct kedge__segment_summary summary;
	struct kedge__extent_map map = {0};
	enum kedge__map_encoding how;
	size_t count;

	assert_ok(kedge__segment_header_decode(a->header, &header, err));
	assert_ok(kedge__summary_decode(head->at, head->count, &summary, err));
	assert_ok(kedge__regions_decode(names->at, names->count, &regions, &count, NULL, err));
	assert_ok(kedge__map_decode(text->at, text->count, header.version, regions, count, &how, &map, err));
	if (map.count) {
		change_extent(&map.at[dice % map.count], dice >> 8, summary.literal_bytes);
		text->count = 0;
		assert_ok(kedge__map_encode(KEDGE__MAP_RUNS, &map, 0, header.version, regions, count, text, err));
	}
	kedge__extent_map_done(&map);
	kedge__regions_free(regions, count);
	kedge__summary_done(&summary);
	return true;
}

static inline bool change_section(struct apart *a, uint64_t dice)
{
	struct kedge__bytes *text = &a->text[dice % a->count];

	if (!text->count)
		return false;
	text->at[(dice >> 4) % text->count] ^= (uint8_t)(1 << dice % 8);
	return true;
}

/* What can still be taken apart. */
static inline void reseal(struct kedge__catalog *cat, uint64_t version, uint32_t rank,
			  bool (*change)(struct apart *a, uint64_t dice), uint64_t dice)
{
	char *path = segment_of(cat, version, rank);
	struct apart a;

	apart_take(&a, path);
	if (change(&a, dice))
		apart_seal(&a, cat, version, rank);
	apart_done(&a);
	kedge__free(path);
}

/* ------------------------------------------------------------------ verdicts */

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
		targets[i] = (struct kedge__restore_target){i, calloc(1, top->regions[i].bytes + 1)};
	if (count)
		rc = kedge__restore_fill(l, pool, (struct kedge__io){0}, targets, count, NULL, NULL, NULL, NULL);
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
	assert_int_equal(report.versions_whole + report.versions_lost, kedge__catalog_count(cat));
	if (report.versions_lost)
		assert_true(report.findings > 0);
	lost = report.versions_lost;
	kedge__verify_report_done(&report);
	return lost;
}

#endif
