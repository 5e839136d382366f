/* SPDX-License-Identifier: BSD-3-Clause */
/* Open segments and read blocks (FORMAT.md, "The segment"). Nothing is trusted, no size either, before its checksum was
 * compared. */
#include "store/internal.h"

struct reader {
	struct kedge__segment *seg;
	const struct kedge__set_part *part;
	const struct kedge__set *set;
	struct kedge__section_entry entries[KEDGE__SECTION_LIMIT];
	uint8_t header[KEDGE__SEGMENT_HEADER_BYTES];
	uint64_t file_bytes;
	uint8_t *tail; /* everything after the blocks, from TAIL_AT on; NULL: it is read piece by piece */
	uint64_t tail_at;
	struct kedge__bytes regions; /* section REGN, without flags */
	const struct kedge__segment_place *place;
	uint32_t flags; /* of the section that is being read */
	const char *where;
};

static int damaged(struct kedge__error *err, const char *text)
{
	return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "%s", text);
}

/* Every read of a segment goes through here. */
static int read_vector(const struct kedge__segment *seg, uint64_t at, struct iovec *to, size_t n,
		       struct kedge__error *err)
{
	int fd = seg->fd, rc = 0;
	size_t bytes = 0;

	if (seg->fd < 0)
		rc = kedge__fs_open_read(seg->path, &fd, err);
	if (rc)
		return rc;
	for (size_t i = 0; i < n; i++)
		bytes += to[i].iov_len;
	kedge__bucket_take(seg->bucket, (double)bytes);
	rc = kedge__fs_preadv(fd, to, n, seg->start + at, seg->path, err);
	if (seg->fd < 0)
		kedge__fs_close(fd);
	return rc;
}

static int read_range(const struct kedge__segment *seg, uint64_t at, size_t bytes, void *to, struct kedge__error *err)
{
	struct iovec piece = {to, bytes};

	return read_vector(seg, at, &piece, 1, err);
}

/* ------------------------------------------------------------------ after the blocks */

/* According to the manifest: 0 if that is unknown or impossible. */
static uint64_t tail_bytes(const struct kedge__set_part *part, uint64_t file_bytes)
{
	uint64_t bytes = part && part->metadata_bytes > KEDGE__SEGMENT_HEADER_BYTES
			     ? part->metadata_bytes - KEDGE__SEGMENT_HEADER_BYTES
			     : 0;

	return bytes <= file_bytes - KEDGE__SEGMENT_HEADER_BYTES ? bytes : 0;
}

void kedge__segment_announce(int fd, const struct kedge__set_part *part)
{
	uint64_t tail = part->file_bytes > KEDGE__SEGMENT_HEADER_BYTES ? tail_bytes(part, part->file_bytes) : 0;

	kedge__fs_expect(fd, part->start, KEDGE__SEGMENT_HEADER_BYTES);
	kedge__fs_expect(fd, part->start + part->file_bytes - tail, tail);
}

/* In one read. An error here occurs again, and is reported, when the unreadable part is needed. */
static void tail_load(struct reader *r)
{
	uint64_t bytes = tail_bytes(r->part, r->file_bytes);

	r->tail = bytes ? kedge__malloc((size_t)bytes) : NULL;
	r->tail_at = r->file_bytes - bytes;
	if (r->tail && read_range(r->seg, r->tail_at, (size_t)bytes, r->tail, NULL) != 0) {
		kedge__free(r->tail);
		r->tail = NULL;
	}
}

/* AT and BYTES are within the file. */
static int read_part(const struct reader *r, uint64_t at, size_t bytes, void *to, struct kedge__error *err)
{
	if (!r->tail || at < r->tail_at)
		return read_range(r->seg, at, bytes, to, err);
	memcpy(to, r->tail + (at - r->tail_at), bytes);
	return 0;
}

/* ------------------------------------------------------------------ header, footer, index */

/* Version and rank from the path; false for a file outside a store. */
static bool place_of(const char *path, uint64_t *version, uint32_t *rank)
{
	const char *leaf = strrchr(path, '/'), *dir;
	char name[64];
	uint32_t generation;
	size_t length;

	if (!leaf || !kedge__segment_file_parse(leaf + 1, rank, &generation))
		return false;
	for (dir = leaf; dir > path && dir[-1] != '/';)
		dir--;
	length = (size_t)(leaf - dir);
	if (length >= sizeof(name))
		return false;
	memcpy(name, dir, length);
	name[length] = '\0';
	return kedge__version_dir_parse(name, version);
}

/* A bundle may be cut short behind the segment. */
static int measure(struct reader *r, struct kedge__error *err)
{
	const struct kedge__set_part *part = r->part;
	uint64_t bytes;
	int rc = kedge__fs_size(r->seg->fd, &bytes, r->seg->path, err);

	if (rc)
		return rc;
	if (part && part->bundle)
		bytes = KEDGE__MIN(bytes > part->start ? bytes - part->start : 0, part->file_bytes);
	r->file_bytes = bytes;
	return 0;
}

static int read_header(struct reader *r, struct kedge__error *err)
{
	struct kedge__segment *seg = r->seg;
	uint64_t version;
	uint32_t rank;
	int rc;

	r->where = "header";
	rc = measure(r, err);
	if (rc)
		return rc;
	if (r->part && r->file_bytes != r->part->file_bytes)
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0,
					"the %s has %" PRIu64 " bytes, but according to the manifest %" PRIu64,
					r->part->bundle ? "segment" : "file", r->file_bytes, r->part->file_bytes);
	if (r->file_bytes < KEDGE__SEGMENT_HEADER_BYTES + KEDGE__SEGMENT_FOOTER_BYTES)
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "the file is truncated to %" PRIu64 " bytes",
					r->file_bytes);
	rc = read_range(seg, 0, sizeof(r->header), r->header, err);
	if (!rc)
		rc = kedge__segment_header_decode(r->header, &seg->header, err);
	if (rc)
		return rc;
	if (place_of(seg->path, &version, &rank) && (version != seg->header.version || rank != seg->header.rank))
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "it contains version %" PRIu64 " of rank %" PRIu32,
					seg->header.version, seg->header.rank);
	return 0;
}

static int read_footer(struct reader *r, struct kedge__error *err)
{
	uint8_t text[KEDGE__SEGMENT_FOOTER_BYTES];
	struct kedge__segment *seg = r->seg;
	int rc;

	r->where = "footer";
	rc = read_part(r, r->file_bytes - sizeof(text), sizeof(text), text, err);
	if (!rc)
		rc = kedge__segment_footer_decode(text, r->file_bytes, &seg->footer, err);
	return rc;
}

static int read_index(struct reader *r, struct kedge__error *err)
{
	struct kedge__segment *seg = r->seg;
	const struct kedge__segment_footer *f = &seg->footer;
	uint64_t bytes = f->file_bytes - KEDGE__SEGMENT_FOOTER_BYTES - f->index_offset;
	struct kedge__digest seal;
	uint8_t *text;
	int rc;

	r->where = "index";
	text = kedge__malloc((size_t)bytes + 1);
	rc = text ? read_part(r, f->index_offset, (size_t)bytes, text, err) : kedge__error_nomem(err);
	if (rc)
		goto free;
	seal = kedge__segment_seal(r->header, text, (size_t)bytes);
	if (!kedge__digest_equal(seal, f->seal))
		rc = damaged(err, "the seal does not match header and index");
	else if (r->part && !kedge__digest_equal(seal, r->part->seal))
		rc = damaged(err, "the seal is not the one in the manifest");
	else
		rc = kedge__section_index_decode(text, (size_t)bytes, f, r->entries, err);
free:
	kedge__free(text);
	return rc;
}

/* ------------------------------------------------------------------ sections */

static int take_summary(struct reader *r, const uint8_t *text, size_t bytes, struct kedge__error *err)
{
	return kedge__summary_decode(text, bytes, &r->seg->summary, err);
}

/* The version that the table of regions is a difference to: the parent. */
static int find_base(struct reader *r, struct kedge__source_record *base, struct kedge__error *err)
{
	const struct kedge__segment *seg = r->seg;

	for (size_t i = 0; i < seg->source_count; i++)
		if (seg->sources[i].version == seg->summary.parent && seg->summary.parent < seg->header.version) {
			*base = seg->sources[i];
			return 0;
		}
	return damaged(err, "it is a difference, but section LINE does not have the parent");
}

/* TEXT is a difference: the table itself. */
static int complete_regions(struct reader *r, const uint8_t *text, size_t bytes, struct kedge__error *err)
{
	const struct kedge__region_table_place place = {r->place->levels, r->place->level_count, r->seg->header.rank};
	struct kedge__source_record base = {0};
	struct kedge__region_table *table = NULL;
	int rc = find_base(r, &base, err);

	if (rc)
		return rc;
	r->where = "lineage";
	if (place.level_count)
		rc = kedge__region_table_load(&place, base, &table, err);
	else
		rc = kedge__error_set(err, KEDGE_E_MISSING, 0, "it is a difference, and no store was named");
	if (rc)
		return kedge__error_prefix(err, "the table of regions of version %" PRIu64 ", which it continues",
					   base.version);
	r->where = "REGN";
	rc = kedge__regions_apply(table->text.at, table->text.count, text, bytes, &r->regions, err);
	kedge__region_table_drop(table);
	return rc;
}

static int take_regions(struct reader *r, const uint8_t *text, size_t bytes, struct kedge__error *err)
{
	int rc = 0;

	if (r->flags & KEDGE__SECTION_CHANGES) {
		rc = complete_regions(r, text, bytes, err);
	} else {
		r->regions = (struct kedge__bytes){kedge__malloc(bytes + 1), bytes, bytes + 1};
		if (!r->regions.at)
			return kedge__error_nomem(err);
		memcpy(r->regions.at, text, bytes);
	}
	return rc ? rc
		  : kedge__regions_decode(r->regions.at, r->regions.count, &r->seg->regions, &r->seg->region_count,
					  &r->seg->names, err);
}

static int take_map(struct reader *r, const uint8_t *text, size_t bytes, struct kedge__error *err)
{
	struct kedge__segment *seg = r->seg;

	return kedge__map_decode(text, bytes, seg->header.version, seg->regions, seg->region_count, &seg->map_encoding,
				 &seg->map, err);
}

static int take_blocks(struct reader *r, const uint8_t *text, size_t bytes, struct kedge__error *err)
{
	struct kedge__segment *seg = r->seg;

	return kedge__blocks_decode(text, bytes, seg->footer.payload_bytes, &seg->blocks, &seg->block_count, err);
}

/* They are used as they are. */
static int take_sums(struct reader *r, const uint8_t *text, size_t bytes, struct kedge__error *err)
{
	struct kedge__segment *seg = r->seg;
	int rc = kedge__sums_assign(text, bytes, seg->blocks, seg->block_count, err);

	if (rc)
		return rc;
	seg->sums = kedge__malloc(bytes);
	if (!seg->sums)
		return kedge__error_nomem(err);
	memcpy(seg->sums, text, bytes);
	return 0;
}

static int take_lineage(struct reader *r, const uint8_t *text, size_t bytes, struct kedge__error *err)
{
	return kedge__lineage_decode(text, bytes, &r->seg->sources, &r->seg->source_count, err);
}

static int take_base(struct reader *r, const uint8_t *text, size_t bytes, struct kedge__error *err)
{
	return kedge__base_decode(text, bytes, &r->seg->base, err);
}

static int take_packing(struct reader *r, const uint8_t *text, size_t bytes, struct kedge__error *err)
{
	return kedge__packing_decode(text, bytes, &r->seg->packing, &r->seg->packing_count, err);
}

static int take_classes(struct reader *r, const uint8_t *text, size_t bytes, struct kedge__error *err)
{
	return kedge__classes_decode(text, bytes, &r->seg->classes, err);
}

static const struct {
	uint32_t type;
	const char *name;
	enum kedge__segment_depth depth;
	int (*take)(struct reader *r, const uint8_t *text, size_t bytes, struct kedge__error *err);
	bool optional;
} known[] = {
    /* in the order of their dependencies */
    {KEDGE__SECTION_SUMMARY, "SUMM", KEDGE__SEGMENT_LINES, take_summary, false},
    {KEDGE__SECTION_LINEAGE, "LINE", KEDGE__SEGMENT_LINES, take_lineage, false},
    {KEDGE__SECTION_REGIONS, "REGN", KEDGE__SEGMENT_LINES, take_regions, false},
    {KEDGE__SECTION_BASE, "BASE", KEDGE__SEGMENT_LINES, take_base, true},
    {KEDGE__SECTION_BLOCKS, "BLKS", KEDGE__SEGMENT_ALL, take_blocks, false},
    {KEDGE__SECTION_SUMS, "SUMS", KEDGE__SEGMENT_ALL, take_sums, true},
    {KEDGE__SECTION_MAP, "MAPX", KEDGE__SEGMENT_ALL, take_map, false},
    {KEDGE__SECTION_PACKING, "PACK", KEDGE__SEGMENT_ALL, take_packing, true},
    {KEDGE__SECTION_CLASSES, "CLAS", KEDGE__SEGMENT_ALL, take_classes, true},
};

static const struct kedge__section_entry *find_entry(const struct reader *r, uint32_t type)
{
	for (size_t i = 0; i < r->seg->footer.section_count; i++)
		if (r->entries[i].type == type)
			return &r->entries[i];
	return NULL;
}

static int read_section(struct reader *r, const struct kedge__section_entry *entry, uint8_t **text,
			struct kedge__error *err)
{
	uint8_t *got = kedge__malloc((size_t)entry->bytes + 1);
	int rc;

	if (!got)
		return kedge__error_nomem(err);
	rc = read_part(r, entry->offset, (size_t)entry->bytes, got, err);
	if (!rc && kedge__checksum(got, (size_t)entry->bytes) != entry->checksum)
		rc = damaged(err, "the checksum does not match");
	if (rc) {
		kedge__free(got);
		return rc;
	}
	*text = got;
	return 0;
}

/* The section as its decoder expects it. */
static int read_unpacked(struct reader *r, const struct kedge__section_entry *entry, uint8_t **text, size_t *bytes,
			 struct kedge__error *err)
{
	uint8_t *stored;
	int rc = read_section(r, entry, &stored, err);

	*bytes = (size_t)entry->bytes;
	if (rc || !(entry->flags & KEDGE__SECTION_PACKED)) {
		*text = rc ? NULL : stored;
		return rc;
	}
	rc = kedge__section_unpack(stored, (size_t)entry->bytes, text, bytes, err);
	kedge__free(stored);
	return rc;
}

static int read_known(struct reader *r, size_t i, struct kedge__error *err)
{
	const struct kedge__section_entry *entry = find_entry(r, known[i].type);
	uint8_t *text = NULL;
	size_t bytes;
	int rc;

	r->where = known[i].name;
	r->flags = entry ? entry->flags : 0;
	if (!entry && known[i].optional)
		return 0;
	if (!entry)
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "section %s is missing", known[i].name);
	rc = read_unpacked(r, entry, &text, &bytes, err);
	if (!rc) {
		rc = known[i].take(r, text, bytes, err);
		kedge__free(text);
	}
	if (rc)
		(void)kedge__error_prefix(err, "section %s", known[i].name);
	return rc;
}

/* ------------------------------------------------------------------ do the sections fit each other */

static int check_image(struct reader *r, struct kedge__error *err)
{
	r->where = "REGN";
	if (!kedge__digest_equal(r->seg->summary.image_id, kedge__seal(r->regions.at, r->regions.count)))
		return damaged(err, "the image id is not that of the regions");
	if (r->part && !kedge__digest_equal(r->seg->summary.image_id, r->part->image_id))
		return damaged(err, "the image id is not the one in the manifest");
	return 0;
}

/* Removal goes by manifests: a version that this one's manifest does not name may be removed at any time. */
static int check_sources(struct reader *r, struct kedge__error *err)
{
	size_t at = 0;

	r->where = "LINE";
	for (size_t i = 0; r->set && i < r->seg->source_count; i++) {
		while (at < r->set->source_count && r->set->sources[at] < r->seg->sources[i].version)
			at++;
		if (at == r->set->source_count || r->set->sources[at] != r->seg->sources[i].version)
			return kedge__error_set(err, KEDGE_E_DAMAGED, 0,
						"it refers to version %" PRIu64 ", which the manifest does not name",
						r->seg->sources[i].version);
	}
	return 0;
}

/* Codecs check the lengths of compressed blocks; restore relies on those of the others. */
static int check_plain_blocks(const struct kedge__segment *seg, struct kedge__error *err)
{
	for (size_t i = 0; i < seg->block_count; i++)
		if (seg->blocks[i].codec == KEDGE__CODEC_NONE &&
		    seg->blocks[i].stored_bytes != seg->blocks[i].raw_bytes)
			return kedge__error_set(err, KEDGE_E_DAMAGED, 0,
						"block %zu is not compressed, but its raw and stored sizes differ", i);
	return 0;
}

/* The map alone says for which literals a base has bytes. */
static int check_base(struct kedge__segment *seg, struct kedge__error *err)
{
	for (size_t i = 0; i < seg->block_count && seg->base == KEDGE__NO_VERSION; i++)
		if (kedge__codec_needs_base(seg->blocks[i].codec, seg->blocks[i].param))
			return kedge__error_set(
			    err, KEDGE_E_DAMAGED, 0,
			    "block %zu was packed against another version, but the segment names none", i);
	return seg->base == KEDGE__NO_VERSION
		   ? 0
		   : kedge__literal_places_make(kedge__extents_of_map(&seg->map), &seg->places, err);
}

/* Their blocks are the last ones. */
static int check_classes(const struct kedge__segment *seg, struct kedge__error *err)
{
	uint64_t blocks = 0;

	for (size_t i = 0; i < seg->classes.count && blocks <= seg->block_count; i++)
		blocks += seg->classes.at[i].blocks;
	return blocks <= seg->block_count ? 0 : damaged(err, "section CLAS describes blocks that do not exist");
}

static int check_all(struct reader *r, struct kedge__error *err)
{
	struct kedge__segment *seg = r->seg;
	const struct kedge__segment_parts parts = {.header = &seg->header,
						   .summary = &seg->summary,
						   .regions_data = r->regions.at,
						   .regions_bytes = r->regions.count,
						   .regions = seg->regions,
						   .region_count = seg->region_count,
						   .map = &seg->map,
						   .blocks = seg->blocks,
						   .block_count = seg->block_count,
						   .sources = seg->sources,
						   .source_count = seg->source_count,
						   .base = seg->base};
	int rc;

	r->where = "sections";
	rc = kedge__segment_check(&parts, err);
	if (!rc)
		rc = check_plain_blocks(seg, err);
	if (!rc && seg->packing_count && seg->packing[seg->packing_count - 1].region >= seg->region_count)
		rc = damaged(err, "section PACK describes a region that does not exist");
	if (!rc)
		rc = check_classes(seg, err);
	return rc ? rc : check_base(seg, err);
}

/* ------------------------------------------------------------------ open and close */

static int read_frame(struct reader *r, enum kedge__segment_depth depth, struct kedge__error *err)
{
	int rc;

	rc = read_header(r, err);
	if (!rc && depth == KEDGE__SEGMENT_ALL)
		tail_load(r);
	if (!rc)
		rc = read_footer(r, err);
	return rc ? rc : read_index(r, err);
}

static int read_all(struct reader *r, enum kedge__segment_depth depth, struct kedge__error *err)
{
	int rc = read_frame(r, depth, err);

	for (size_t i = 0; i < KEDGE__COUNT(known) && !rc; i++)
		if (known[i].depth <= depth)
			rc = read_known(r, i, err);
	if (!rc)
		rc = check_image(r, err);
	if (!rc)
		rc = check_sources(r, err);
	if (!rc && depth == KEDGE__SEGMENT_ALL)
		rc = check_all(r, err);
	return rc;
}

/* In a bundle, the first of its ranks is in the path, and which one this is only as far as it was read. */
static void prefix_place(const struct kedge__segment *seg, struct kedge__error *err)
{
	uint64_t version;
	uint32_t rank;

	if (place_of(seg->path, &version, &rank) && seg->rank_count > 1)
		(void)kedge__error_prefix(err, "segment %s (version %" PRIu64 ", ranks %" PRIu32 " to %" PRIu32 ")",
					  seg->path, version, seg->first_rank, seg->first_rank + seg->rank_count - 1);
	else if (place_of(seg->path, &version, &rank))
		(void)kedge__error_prefix(err, "segment %s (version %" PRIu64 ", rank %" PRIu32 ")", seg->path, version,
					  seg->rank_count ? seg->first_rank : rank);
	else if (seg->start)
		(void)kedge__error_prefix(err, "segment at byte %" PRIu64 " of %s", seg->start, seg->path);
	else
		(void)kedge__error_prefix(err, "segment %s", seg->path);
}

/* In a version with a grouping, what looks like a rank is the number of a group. */
static void note_ranks(struct kedge__segment *seg, const struct kedge__set *set)
{
	uint64_t version;
	uint32_t number;

	if (!set || !set->grouping || !place_of(seg->path, &version, &number) || number >= set->grouping->count)
		return;
	seg->rank_count = set->grouping->size;
	seg->first_rank = set->grouping->numbers[number] * set->grouping->size;
}

int kedge__segment_load(const struct kedge__segment_place *place, enum kedge__segment_depth depth, const char **where,
			struct kedge__segment **out, struct kedge__error *err)
{
	struct kedge__error problem = KEDGE__ERROR_INIT;
	struct kedge__segment *seg = kedge__calloc(1, sizeof(*seg));
	struct reader r = {.seg = seg, .part = place->part, .set = place->set, .place = place, .where = "file"};
	int rc;

	if (!seg) {
		kedge__fs_close(place->fd);
		return kedge__error_nomem(err);
	}
	seg->fd = place->fd < 0 && place->level_count == 1 ? kedge__pack_reopen(place->levels[0]) : place->fd;
	seg->start = place->part ? place->part->start : 0;
	seg->bucket = place->bucket;
	seg->base = KEDGE__NO_VERSION;
	seg->path = kedge__strdup(place->path);
	rc = seg->path ? 0 : kedge__error_nomem(&problem);
	if (!rc)
		note_ranks(seg, place->set);
	if (!rc && seg->fd < 0)
		rc = kedge__fs_open_read(place->path, &seg->fd, &problem);
	if (!rc)
		rc = read_all(&r, depth, &problem);
	kedge__free(r.tail);
	kedge__bytes_done(&r.regions);
	if (!rc) {
		*out = seg;
		return 0;
	}
	if (where)
		*where = r.where;
	if (rc != KEDGE_E_NOMEM)
		prefix_place(seg, &problem);
	kedge__error_move(err, &problem);
	kedge__segment_close(seg);
	return rc;
}

/* Summary and lineage come first: they say what a difference is a difference to. */
static int read_table(struct reader *r, struct kedge__region_table_section *out, struct kedge__error *err)
{
	const struct kedge__section_entry *entry;
	uint8_t *text;
	size_t bytes;
	int rc = read_frame(r, KEDGE__SEGMENT_LINES, err);

	for (size_t i = 0; i < KEDGE__COUNT(known) && !rc; i++)
		if (known[i].type == KEDGE__SECTION_SUMMARY || known[i].type == KEDGE__SECTION_LINEAGE)
			rc = read_known(r, i, err);
	entry = rc ? NULL : find_entry(r, KEDGE__SECTION_REGIONS);
	if (!entry)
		return rc ? rc : damaged(err, "section REGN is missing");
	out->changes = entry->flags & KEDGE__SECTION_CHANGES;
	if (out->changes)
		rc = find_base(r, &out->base, err);
	if (!rc)
		rc = read_unpacked(r, entry, &text, &bytes, err);
	if (!rc)
		out->text = (struct kedge__bytes){text, bytes, bytes};
	return rc;
}

int kedge__segment_read_table(const struct kedge__segment_place *place, struct kedge__region_table_section *out,
			      struct kedge__error *err)
{
	struct kedge__segment seg = {.fd = -1,
				     .bucket = place->bucket,
				     .path = (char *)place->path,
				     .start = place->part ? place->part->start : 0};
	struct reader r = {.seg = &seg, .part = place->part, .place = place, .where = "file"};
	int rc = kedge__fs_open_read(place->path, &seg.fd, err);

	if (!rc)
		rc = read_table(&r, out, err);
	kedge__fs_close(seg.fd);
	kedge__summary_done(&seg.summary);
	kedge__free(seg.sources);
	if (rc && rc != KEDGE_E_NOMEM)
		prefix_place(&seg, err);
	return rc;
}

static int part_check(const struct kedge__segment *seg, size_t i, uint32_t offset, const void *stored, uint32_t bytes,
		      struct kedge__error *err)
{
	const struct kedge__block_record *b = &seg->blocks[i];
	size_t first = offset / KEDGE__BLOCK_PAGE, page;

	if (!kedge__block_has_pages(b))
		return kedge__checksum(stored, bytes) == b->checksum ? 0 : damaged(err, "the checksum does not match");
	page = kedge__sums_check(seg->sums + (b->first_sum + first) * KEDGE__SUM_BYTES, stored, bytes);
	if (page == kedge__pages_of(bytes))
		return 0;
	return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "the checksum of page %zu does not match", first + page);
}

/* Every section, known or not, and every block. */
static int check_sound(struct reader *r, struct kedge__error *err)
{
	struct kedge__segment *seg = r->seg;
	uint8_t *text = NULL;
	int rc = read_frame(r, KEDGE__SEGMENT_ALL, err);

	for (size_t i = 0; i < seg->footer.section_count && !rc; i++) {
		rc = read_section(r, &r->entries[i], &text, err);
		if (!rc)
			kedge__free(text);
	}
	for (size_t i = 0; i < KEDGE__COUNT(known) && !rc; i++)
		if (known[i].type == KEDGE__SECTION_BLOCKS || known[i].type == KEDGE__SECTION_SUMS)
			rc = read_known(r, i, err);
	for (size_t i = 0; i < seg->block_count && !rc; i++) {
		const struct kedge__block_record *b = &seg->blocks[i];

		text = kedge__malloc((size_t)b->stored_bytes + 1);
		rc = text ? read_range(seg, b->offset, b->stored_bytes, text, err) : kedge__error_nomem(err);
		if (!rc)
			rc = part_check(seg, i, 0, text, b->stored_bytes, err);
		kedge__free(text);
	}
	return rc;
}

bool kedge__segment_glance(const char *path, uint64_t *bytes, struct kedge__digest *seal)
{
	struct kedge__segment seg = {.fd = -1, .path = (char *)path};
	struct reader r = {.seg = &seg};
	int rc = kedge__fs_open_read(path, &seg.fd, NULL);

	if (!rc)
		rc = kedge__fs_size(seg.fd, &r.file_bytes, path, NULL);
	if (!rc && r.file_bytes < KEDGE__SEGMENT_HEADER_BYTES + KEDGE__SEGMENT_FOOTER_BYTES)
		rc = KEDGE_E_DAMAGED;
	if (!rc)
		rc = read_footer(&r, NULL);
	kedge__fs_close(seg.fd);
	*bytes = r.file_bytes;
	*seal = seg.footer.seal;
	return !rc;
}

int kedge__segment_sound(const char *path, const struct kedge__set_part *part, struct kedge__error *err)
{
	const struct kedge__segment_place place = {.path = path, .part = part, .fd = -1};
	struct kedge__segment seg = {.fd = -1, .path = (char *)path, .start = part->start};
	struct reader r = {.seg = &seg, .part = part, .place = &place, .where = "file"};
	int rc = kedge__fs_open_read(path, &seg.fd, err);

	if (!rc)
		rc = check_sound(&r, err);
	kedge__fs_close(seg.fd);
	kedge__free(r.tail);
	kedge__free(seg.blocks);
	kedge__free(seg.sums);
	if (rc && rc != KEDGE_E_NOMEM)
		prefix_place(&seg, err);
	return rc;
}

int kedge__segment_open(struct kedge__catalog *cat, const char *path, const struct kedge__set_part *part,
			struct kedge__segment **out, struct kedge__error *err)
{
	const struct kedge__segment_place place = {
	    .path = path, .part = part, .fd = -1, .levels = &cat, .level_count = cat ? 1 : 0};

	return kedge__segment_load(&place, KEDGE__SEGMENT_ALL, NULL, out, err);
}

void kedge__segment_park(struct kedge__segment *seg)
{
	kedge__fs_close(seg->fd);
	seg->fd = -1;
}

void kedge__segment_close(struct kedge__segment *seg)
{
	if (!seg)
		return;
	kedge__fs_close(seg->fd);
	kedge__summary_done(&seg->summary);
	kedge__regions_free(seg->regions, seg->region_count);
	kedge__hash_done(&seg->names);
	kedge__extent_map_done(&seg->map);
	kedge__free(seg->blocks);
	kedge__free(seg->sums);
	kedge__free(seg->sources);
	kedge__literal_places_done(&seg->places);
	kedge__free(seg->packing);
	kedge__classes_done(&seg->classes);
	kedge__free(seg->path);
	kedge__free(seg);
}

/* ------------------------------------------------------------------ blocks */

/* Extents are in the order of addresses, and so of regions. */
size_t kedge__segment_block_others(const struct kedge__segment *seg, size_t i)
{
	const struct kedge__block_record *b = &seg->blocks[i];
	uint64_t last = UINT64_MAX;
	size_t regions = 0;

	for (size_t k = 0; k < seg->map.count; k++) {
		const struct kedge__extent *e = &seg->map.at[k];

		if (e->kind != KEDGE__EXTENT_LITERAL || e->src >= b->position + b->raw_bytes ||
		    e->src + e->len <= b->position || e->addr >> KEDGE__SLOT_SHIFT == last)
			continue;
		last = e->addr >> KEDGE__SLOT_SHIFT;
		regions++;
	}
	return regions ? regions - 1 : 0;
}

void kedge__segment_prefix_block(const struct kedge__segment *seg, size_t i, struct kedge__error *err)
{
	const char *name = seg->regions[seg->blocks[i].region].name;
	size_t others = kedge__segment_block_others(seg, i);

	if (others)
		(void)kedge__error_prefix(err, "block %zu (region %s and %zu other%s)", i, name, others,
					  others == 1 ? "" : "s");
	else
		(void)kedge__error_prefix(err, "block %zu (region %s)", i, name);
	prefix_place(seg, err);
}

int kedge__segment_read_run(const struct kedge__segment *seg, size_t first, uint32_t offset, struct iovec *to, size_t n,
			    struct kedge__error *err)
{
	int rc = read_vector(seg, seg->blocks[first].offset + offset, to, n, err);

	if (rc)
		kedge__segment_prefix_block(seg, first, err);
	return rc;
}

int kedge__segment_check_part(const struct kedge__segment *seg, size_t i, uint32_t offset, const void *stored,
			      uint32_t bytes, struct kedge__error *err)
{
	int rc = part_check(seg, i, offset, stored, bytes, err);

	if (rc)
		kedge__segment_prefix_block(seg, i, err);
	return rc;
}

int kedge__segment_check_stored(const struct kedge__segment *seg, size_t i, const void *stored,
				struct kedge__error *err)
{
	return kedge__segment_check_part(seg, i, 0, stored, seg->blocks[i].stored_bytes, err);
}

int kedge__segment_read_pages(const struct kedge__segment *seg, size_t i, uint32_t offset, void *to, size_t len,
			      struct kedge__error *err)
{
	uint8_t page[KEDGE__BLOCK_PAGE], *at = to;
	int rc = 0;

	while (len && !rc) {
		uint32_t begin = offset / KEDGE__BLOCK_PAGE * KEDGE__BLOCK_PAGE;
		uint32_t bytes = KEDGE__MIN(KEDGE__BLOCK_PAGE, seg->blocks[i].stored_bytes - begin);
		size_t n = KEDGE__MIN(begin + bytes - offset, len);
		struct iovec piece = {page, bytes};

		rc = kedge__segment_read_run(seg, i, begin, &piece, 1, err);
		if (!rc)
			rc = kedge__segment_check_part(seg, i, begin, page, bytes, err);
		if (!rc)
			memcpy(at, page + (offset - begin), n);
		at += n;
		offset += (uint32_t)n;
		len -= n;
	}
	return rc;
}

int kedge__segment_read_stored(const struct kedge__segment *seg, size_t i, void *to, struct kedge__error *err)
{
	struct iovec piece = {to, seg->blocks[i].stored_bytes};
	int rc = kedge__segment_read_run(seg, i, 0, &piece, 1, err);

	return rc ? rc : kedge__segment_check_stored(seg, i, to, err);
}

/* Most blocks have the same size: the first guess is usually right. */
size_t kedge__segment_find_block(const struct kedge__segment *seg, uint64_t pos)
{
	size_t i;
	uint64_t guess = seg->block_count ? pos / seg->blocks[0].raw_bytes : 0;

	if (guess < seg->block_count && seg->blocks[guess].position <= pos &&
	    pos - seg->blocks[guess].position < seg->blocks[guess].raw_bytes)
		return (size_t)guess;
	KEDGE__LAST_BEFORE(i, seg->block_count, seg->blocks[i].position <= pos);
	return i;
}

size_t kedge__segment_slot_region(const struct kedge__segment *seg, uint64_t slot)
{
	size_t i;

	KEDGE__PARTITION_POINT(i, seg->region_count, seg->regions[i].slot < slot);
	return i < seg->region_count && seg->regions[i].slot == slot ? i : SIZE_MAX;
}

const struct kedge__region_record *kedge__segment_find_region(const struct kedge__segment *seg, const char *name)
{
	size_t i = kedge__regions_find(seg->regions, &seg->names, name);

	return i == KEDGE__HASH_NONE ? NULL : &seg->regions[i];
}
