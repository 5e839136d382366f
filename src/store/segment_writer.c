/* SPDX-License-Identifier: BSD-3-Clause */
/* Write a segment from front to back: header, blocks, sections, index, footer (FORMAT.md, "The segment"). */
#include "store/internal.h"

#define SECTIONS  9
#define SMALL_MAP ((size_t)1 << 16) /* extents */

struct sections {
	struct kedge__bytes text[SECTIONS];
	struct kedge__section_entry entries[SECTIONS];
	size_t count;
};

static void sections_done(struct sections *s)
{
	for (size_t i = 0; i < SECTIONS; i++)
		kedge__bytes_done(&s->text[i]);
}

static enum kedge__map_encoding map_encoding(enum kedge__reducer_id reducer)
{
	switch (reducer) {
	case KEDGE__REDUCER_BASIC:
		return KEDGE__MAP_BITMAP;
	case KEDGE__REDUCER_LIST:
		return KEDGE__MAP_LIST;
	case KEDGE__REDUCER_REX:
		return KEDGE__MAP_PAGES;
	default:
		return KEDGE__MAP_SMALLER;
	}
}

static int encode_map_as(const struct kedge__segment_spec *spec, enum kedge__map_encoding how, struct kedge__bytes *out,
			 struct kedge__error *err)
{
	const struct kedge__reduction *red = spec->reduction;

	return kedge__map_encode(how, kedge__extents_of_tape(&red->map), red->chunk, spec->version, spec->regions,
				 spec->region_count, out, err);
}

/* OTHER takes the place of OUT if it is smaller and not empty, as it is when it could not be encoded. One is freed. */
static void keep_smaller(struct kedge__bytes *out, struct kedge__bytes *other)
{
	struct kedge__bytes larger = *other;

	if (other->count && other->count < out->count) {
		larger = *out;
		*out = *other;
	}
	kedge__bytes_done(&larger);
}

/* Whether an encoding is worth trying: a map by pages is nearly always the smallest, so try others only if they are
 * quick to encode; a bitmap is larger if little changed. */
static bool runs_may_be_smaller(enum kedge__map_encoding how, size_t extents, size_t bytes)
{
	return how == KEDGE__MAP_PAGES ? extents <= SMALL_MAP : how == KEDGE__MAP_BITMAP && extents / 8 < bytes;
}

static int encode_map(const struct kedge__segment_spec *spec, struct kedge__bytes *out, struct kedge__error *err)
{
	const struct kedge__reduction *red = spec->reduction;
	enum kedge__map_encoding how = red->classes.count ? KEDGE__MAP_SMALLER : map_encoding(red->reducer);
	struct kedge__bytes runs = {0};
	int rc = encode_map_as(spec, how, out, err);

	if (rc || !runs_may_be_smaller(how, red->map.count, out->count))
		return rc;
	rc = encode_map_as(spec, KEDGE__MAP_SMALLER, &runs, err);
	keep_smaller(out, &runs);
	return rc;
}

/* The caller may leave the digests in the reduction. */
static int encode_regions(const struct kedge__segment_spec *spec, struct kedge__bytes *out, struct kedge__error *err)
{
	const struct kedge__digest *digests = spec->reduction->region_digests;
	struct kedge__region_record *regions;
	int rc;

	if (!digests)
		return kedge__regions_encode(spec->regions, spec->region_count, out, err);
	regions = kedge__calloc(spec->region_count + 1, sizeof(*regions));
	if (!regions)
		return kedge__error_nomem(err);
	for (size_t i = 0; i < spec->region_count; i++) {
		regions[i] = spec->regions[i];
		regions[i].digest = digests[i];
		regions[i].rule = KEDGE__SUM_PAGES;
	}
	rc = kedge__regions_encode(regions, spec->region_count, out, err);
	kedge__free(regions);
	return rc;
}

/* Pack the section that is added next, if that saves something. Columns are packed already. */
static int pack_section(struct sections *s, uint32_t type, uint32_t *flags, struct kedge__error *err)
{
	struct kedge__bytes *text = &s->text[s->count];
	bool packed = false;
	int rc = 0;

	if (type == KEDGE__SECTION_REGIONS || type == KEDGE__SECTION_PACKING || type == KEDGE__SECTION_CLASSES ||
	    (type == KEDGE__SECTION_MAP && text->at[0] != KEDGE__MAP_COLUMNS))
		rc = kedge__section_pack(text, &packed, err);
	if (packed)
		*flags |= KEDGE__SECTION_PACKED;
	return rc;
}

static int add_section(struct sections *s, uint32_t type, uint32_t flags, struct kedge__error *err)
{
	int rc = pack_section(s, type, &flags, err);

	if (rc)
		return rc;
	s->entries[s->count].type = type;
	s->entries[s->count].flags = flags;
	s->entries[s->count].bytes = s->text[s->count].count;
	s->entries[s->count].checksum = kedge__checksum(s->text[s->count].at, s->text[s->count].count);
	s->count++;
	return 0;
}

/* The base of blocks is a source like any other. */
static int encode_lineage(const struct kedge__segment_spec *spec, const struct kedge__written_blocks *written,
			  struct kedge__bytes *out, struct kedge__error *err)
{
	struct kedge__source_record *sources;
	size_t n = spec->source_count, at = 0;
	int rc;

	while (at < n && spec->sources[at].version < written->base.version)
		at++;
	if (written->base.version == KEDGE__NO_VERSION ||
	    (at < n && spec->sources[at].version == written->base.version))
		return kedge__lineage_encode(spec->sources, n, out, err);
	sources = kedge__calloc(n + 1, sizeof(*sources));
	if (!sources)
		return kedge__error_nomem(err);
	if (at)
		memcpy(sources, spec->sources, at * sizeof(*sources));
	sources[at] = written->base;
	if (n > at)
		memcpy(sources + at + 1, spec->sources + at, (n - at) * sizeof(*sources));
	rc = kedge__lineage_encode(sources, n + 1, out, err);
	kedge__free(sources);
	return rc;
}

/* The optional ones. */
static int encode_more(const struct kedge__written_blocks *written, struct sections *s, struct kedge__error *err)
{
	int rc = 0;

	if (written->base.version != KEDGE__NO_VERSION) {
		rc = kedge__base_encode(written->base.version, &s->text[s->count], err);
		if (!rc)
			rc = add_section(s, KEDGE__SECTION_BASE, KEDGE__SECTION_REQUIRED, err);
	}
	if (!rc && written->sums.count) {
		if (!kedge__array_reserve(&s->text[s->count], written->sums.count))
			return kedge__error_nomem(err);
		memcpy(s->text[s->count].at, written->sums.at, written->sums.count);
		s->text[s->count].count = written->sums.count;
		rc = add_section(s, KEDGE__SECTION_SUMS, KEDGE__SECTION_REQUIRED, err);
	}
	if (!rc && written->packing_count) {
		rc = kedge__packing_encode(written->packing, written->packing_count, &s->text[s->count], err);
		if (!rc)
			rc = add_section(s, KEDGE__SECTION_PACKING, 0, err);
	}
	if (!rc && written->classes.count) {
		rc = kedge__classes_encode(&written->classes, &s->text[s->count], err);
		if (!rc)
			rc = add_section(s, KEDGE__SECTION_CLASSES, 0, err);
	}
	return rc;
}

/* Regions before the summary, which has the id computed from them. */
static int encode_sections(struct kedge__catalog *cat, const struct kedge__segment_spec *spec,
			   struct kedge__segment_summary *summary, const struct kedge__written_blocks *written,
			   struct sections *s, struct kedge__error *err)
{
	static const uint32_t types[] = {KEDGE__SECTION_SUMMARY, KEDGE__SECTION_REGIONS, KEDGE__SECTION_MAP,
					 KEDGE__SECTION_BLOCKS, KEDGE__SECTION_LINEAGE};
	struct kedge__bytes *text = s->text;
	bool changes = false;
	int rc;

	rc = encode_regions(spec, &text[1], err);
	if (rc)
		return rc;
	summary->image_id = kedge__seal(text[1].at, text[1].count);
	rc = kedge__region_table_write(spec->home ? spec->home : cat, spec, summary->image_id, &text[1], &changes, err);
	if (!rc)
		rc = kedge__summary_encode(summary, &text[0], err);
	if (!rc)
		rc = encode_map(spec, &text[2], err);
	if (!rc)
		rc = kedge__blocks_encode(written->blocks, written->count, &text[3], err);
	if (!rc)
		rc = encode_lineage(spec, written, &text[4], err);
	for (size_t i = 0; i < KEDGE__COUNT(types) && !rc; i++)
		rc = add_section(s, types[i],
				 KEDGE__SECTION_REQUIRED |
				     (types[i] == KEDGE__SECTION_REGIONS && changes ? KEDGE__SECTION_CHANGES : 0),
				 err);
	return rc ? rc : encode_more(written, s, err);
}

/* Sections, index and footer after the payload, and the seal. */
static int append_tail(struct kedge__segment_file *file, const uint8_t *header, struct sections *s,
		       struct kedge__digest *seal, struct kedge__error *err)
{
	struct kedge__segment_footer footer = {.payload_bytes = file->offset - KEDGE__SEGMENT_HEADER_BYTES};
	uint8_t text[KEDGE__SEGMENT_FOOTER_BYTES];
	struct kedge__bytes index = {0};
	int rc = 0;

	for (size_t i = 0; i < s->count && !rc; i++) {
		s->entries[i].offset = file->offset;
		rc = kedge__segment_file_append(file, s->text[i].at, s->text[i].count, err);
	}
	if (!rc)
		rc = kedge__section_index_encode(s->entries, s->count, &index, err);
	if (rc)
		goto free;
	footer.index_offset = file->offset;
	footer.section_count = (uint32_t)s->count;
	footer.seal = kedge__segment_seal(header, index.at, index.count);
	footer.file_bytes = file->offset + index.count + sizeof(text);
	kedge__segment_footer_encode(&footer, text);
	rc = kedge__segment_file_append(file, index.at, index.count, err);
	if (!rc)
		rc = kedge__segment_file_append(file, text, sizeof(text), err);
	*seal = footer.seal;
free:
	kedge__bytes_done(&index);
	return rc;
}

static struct kedge__segment_summary summary_of(const struct kedge__segment_spec *spec,
						const struct kedge__block_record *blocks, size_t count)
{
	struct kedge__segment_summary s = {.name = (char *)spec->name,
					   .parent = spec->reduction->parent,
					   .reducer = (uint32_t)spec->reduction->reducer,
					   .chunk = spec->reduction->chunk,
					   .next_slot = spec->next_slot,
					   .hash_seconds = spec->reduction->hash_seconds};

	for (size_t i = 0; i < spec->region_count; i++)
		s.raw_bytes += spec->regions[i].bytes;
	for (size_t i = 0; i < count; i++)
		s.literal_bytes += blocks[i].raw_bytes;
	return s;
}

static double encode_seconds(const struct kedge__pipeline_stats *p)
{
	const struct kedge__stage_stats *s = &p->stage[KEDGE__STAGE_TRANSFORM];

	return s->width ? s->busy / s->width : 0;
}

static int write_all(struct kedge__catalog *cat, struct kedge__segment_file *file, struct kedge__pool *pool,
		     const struct kedge__segment_spec *spec, struct kedge__set_part *part,
		     struct kedge__segment_stats *stats, struct kedge__error *err)
{
	struct kedge__segment_header header = {
	    spec->version, spec->created_ns ? spec->created_ns : kedge__clock_wall_ns(), spec->rank, spec->ranks};
	uint8_t text[KEDGE__SEGMENT_HEADER_BYTES];
	struct kedge__segment_summary summary;
	struct kedge__written_blocks written;
	struct sections sections = {0};
	uint64_t payload;
	int rc;

	kedge__segment_header_encode(&header, text);
	rc = kedge__segment_file_append(file, text, sizeof(text), err);
	if (!rc)
		rc = kedge__block_writer_run(file, pool, spec, &written, &stats->pipeline, err);
	if (rc)
		return rc;
	payload = file->offset - sizeof(text);
	summary = summary_of(spec, written.blocks, written.count);
	summary.write_seconds = file->write_seconds;
	rc = encode_sections(cat, spec, &summary, &written, &sections, err);
	if (!rc)
		rc = append_tail(file, text, &sections, &part->seal, err);
	if (!rc)
		rc = kedge__segment_file_flush(file, err);
	kedge__companion_end(spec->companion, &written.blocks, written.count, rc ? 0 : file->offset);
	if (!rc)
		rc = kedge__segment_file_commit(file, err);
	sections_done(&sections);
	stats->base = written.base.version;
	kedge__written_blocks_done(&written);
	part->generation = spec->generation;
	part->file_bytes = stats->stored_bytes = file->offset;
	part->image_id = summary.image_id;
	part->raw_bytes = summary.raw_bytes;
	part->literal_bytes = stats->literal_bytes = summary.literal_bytes;
	part->metadata_bytes = stats->metadata_bytes = file->offset - payload;
	stats->encode_seconds = encode_seconds(&stats->pipeline);
	stats->write_seconds = file->write_seconds;
	return rc;
}

int kedge__segment_write(struct kedge__catalog *cat, struct kedge__pool *pool, const struct kedge__segment_spec *spec,
			 struct kedge__set_part *part, struct kedge__segment_stats *stats, struct kedge__error *err)
{
	struct kedge__segment_file file;
	struct kedge__segment_stats measured = {0};
	struct kedge__set_part written = {.bundle = spec->bundle, .start = spec->start};
	const struct kedge__berth berth = {spec->generation, spec->bundle, spec->start};
	int rc;

	rc = kedge__segment_file_open(&file, cat, spec->version, spec->rank, &berth, &spec->io, spec->sync,
				      spec->bucket, err);
	if (rc)
		goto prefix;
	kedge__companion_begin(spec->companion, &file);
	rc = write_all(cat, &file, pool, spec, &written, &measured, err);
	if (rc) {
		kedge__segment_file_abort(&file);
	} else {
		*part = written;
		if (stats)
			*stats = measured;
	}
	kedge__segment_file_done(&file);
prefix:
	if (rc)
		kedge__companion_give_up(spec->companion);
	if (rc)
		(void)kedge__error_prefix(err, "version %" PRIu64 ", rank %" PRIu32, spec->version, spec->rank);
	return rc;
}
