/* SPDX-License-Identifier: BSD-3-Clause */
#include "reseal.h"

#include <dirent.h>
#include <string.h>

#define PIECE_MAX ((size_t)1 << 30)

void piece_set(struct piece *p, const void *data, size_t bytes)
{
	uint8_t *fresh = malloc(bytes + 1);

	REQUIRE(fresh && bytes < PIECE_MAX);
	memcpy(fresh, data, bytes);
	free(p->at);
	*p = (struct piece){fresh, bytes};
}

void piece_splice(struct piece *p, size_t at, size_t bytes, const void *data, size_t count)
{
	struct piece old = *p;

	REQUIRE(at <= old.bytes && bytes <= old.bytes - at);
	p->bytes = old.bytes - bytes + count;
	p->at = malloc(p->bytes + 1);
	REQUIRE(p->at);
	memcpy(p->at, old.at, at);
	memcpy(p->at + at, data, count);
	memcpy(p->at + at + count, old.at + at + bytes, old.bytes - at - bytes);
	free(old.at);
}

struct section *sealed_section(struct sealed *im, uint32_t type)
{
	for (size_t i = 0; i < im->count; i++)
		if (im->sections[i].type == type)
			return &im->sections[i];
	return NULL;
}

/* ---- taking apart */

/* Sections are changed, and written again, as they are without this flag. */
static void section_unpack(struct section *s)
{
	uint8_t *raw;
	size_t n;

	if (!(s->flags & KEDGE__SECTION_PACKED))
		return;
	REQUIRE(kedge__section_unpack(s->data.at, s->data.bytes, &raw, &n, NULL) == 0);
	piece_set(&s->data, raw, n);
	kedge__free(raw);
	s->flags &= ~KEDGE__SECTION_PACKED;
}

void sealed_load(struct sealed *im)
{
	struct kedge__section_entry entries[KEDGE__SECTION_LIMIT];
	struct kedge__segment_footer f;
	size_t bytes;
	uint8_t *file = file_read(im->path, &bytes);

	REQUIRE(file && bytes >= KEDGE__SEGMENT_HEADER_BYTES + KEDGE__SEGMENT_FOOTER_BYTES);
	REQUIRE(kedge__segment_header_decode(file, &im->header, NULL) == 0);
	REQUIRE(kedge__segment_footer_decode(file + bytes - KEDGE__SEGMENT_FOOTER_BYTES, bytes, &f, NULL) == 0);
	REQUIRE(kedge__section_index_decode(file + f.index_offset, bytes - KEDGE__SEGMENT_FOOTER_BYTES - f.index_offset,
					    &f, entries, NULL) == 0);
	piece_set(&im->payload, file + KEDGE__SEGMENT_HEADER_BYTES, f.payload_bytes);
	im->count = f.section_count;
	for (size_t i = 0; i < im->count; i++) {
		im->sections[i] = (struct section){.type = entries[i].type, .flags = entries[i].flags};
		piece_set(&im->sections[i].data, file + entries[i].offset, entries[i].bytes);
		section_unpack(&im->sections[i]);
	}
	free(file);
}

void sealed_free(struct sealed *im)
{
	free(im->payload.at);
	for (size_t i = 0; i < im->count; i++)
		free(im->sections[i].data.at);
}

static int sealed_by_version(const void *a, const void *b)
{
	const struct sealed *x = a, *y = b;

	return (x->version > y->version) - (x->version < y->version);
}

static void note_version(struct store *s, const char *name, uint64_t version)
{
	struct sealed *im = &s->images[s->count];
	char dir[FILES_PATH];
	struct dirent *e;
	uint32_t rank, generation;
	DIR *d;

	path_make(dir, "%s/%s", s->dir, name);
	d = opendir(dir);
	REQUIRE(d && s->count < STORE_VERSIONS);
	while ((e = readdir(d))) {
		if (!kedge__segment_file_parse(e->d_name, &rank, &generation) || rank)
			continue;
		im->version = version;
		path_make(im->path, "%s/%s", dir, e->d_name);
	}
	closedir(d);
	s->count += im->path[0] != '\0';
}

void store_load(struct store *s, const char *dir)
{
	struct dirent *e;
	uint64_t version;
	DIR *d = opendir(dir);

	memset(s, 0, sizeof(*s));
	path_make(s->dir, "%s", dir);
	REQUIRE(d);
	while ((e = readdir(d)))
		if (kedge__version_dir_parse(e->d_name, &version))
			note_version(s, e->d_name, version);
	closedir(d);
	qsort(s->images, s->count, sizeof(s->images[0]), sealed_by_version);
	for (size_t i = 0; i < s->count; i++)
		sealed_load(&s->images[i]);
}

void store_free(struct store *s)
{
	for (size_t i = 0; i < s->count; i++)
		sealed_free(&s->images[i]);
}

/* ---- what is said twice */

static void section_take(struct section *s, struct kedge__bytes *b)
{
	piece_set(&s->data, b->at, b->count);
	kedge__bytes_done(b);
}

void sealed_mend_blocks(struct sealed *im)
{
	struct section *s = sealed_section(im, KEDGE__SECTION_BLOCKS), *sums = sealed_section(im, KEDGE__SECTION_SUMS);
	struct kedge__block_record *blocks;
	struct kedge__bytes b = {0};
	uint64_t at = 0, sum = 0;
	size_t n;

	if (!s || kedge__blocks_decode(s->data.at, s->data.bytes, im->payload.bytes, &blocks, &n, NULL) != 0)
		return;
	for (size_t i = 0; i < n; at += blocks[i++].stored_bytes) {
		uint64_t bytes = kedge__pages_of(blocks[i].raw_bytes) * KEDGE__SUM_BYTES;

		blocks[i].checksum = kedge__checksum(im->payload.at + at, blocks[i].stored_bytes);
		if (blocks[i].codec != KEDGE__CODEC_STORED || bytes == KEDGE__SUM_BYTES || !sums ||
		    sum + bytes > sums->data.bytes)
			continue;
		blocks[i].checksum = kedge__sums_make(im->payload.at + at, blocks[i].stored_bytes, sums->data.at + sum);
		sum += bytes;
	}
	if (kedge__blocks_encode(blocks, n, &b, NULL) == 0)
		section_take(s, &b);
	kedge__free(blocks);
}

uint64_t sealed_literal_bytes(struct sealed *im)
{
	struct section *s = sealed_section(im, KEDGE__SECTION_BLOCKS);
	struct kedge__block_record *blocks;
	uint64_t sum = 0;
	size_t n;

	if (!s || kedge__blocks_decode(s->data.at, s->data.bytes, im->payload.bytes, &blocks, &n, NULL) != 0)
		return UINT64_MAX;
	for (size_t i = 0; i < n; i++)
		sum += blocks[i].raw_bytes;
	kedge__free(blocks);
	return sum;
}

/* The table of a difference is not known here: then the id stays. */
static struct kedge__digest sealed_id(struct sealed *im)
{
	struct section *s = sealed_section(im, KEDGE__SECTION_SUMMARY), *g = sealed_section(im, KEDGE__SECTION_REGIONS);

	if (s && g && g->flags & KEDGE__SECTION_CHANGES && s->data.bytes >= 72)
		return (struct kedge__digest){kedge__get64(s->data.at + 24), kedge__get64(s->data.at + 32)};
	return g ? kedge__seal(g->data.at, g->data.bytes) : (struct kedge__digest){0, 0};
}

void sealed_mend_summary(struct sealed *im)
{
	struct section *s = sealed_section(im, KEDGE__SECTION_SUMMARY), *g = sealed_section(im, KEDGE__SECTION_REGIONS);
	struct kedge__region_record *regions;
	struct kedge__digest id;
	uint64_t raw = 0, literals = sealed_literal_bytes(im);
	size_t n;

	if (!s || !g || s->data.bytes < 72)
		return;
	id = sealed_id(im);
	kedge__put64(s->data.at + 24, id.lo);
	kedge__put64(s->data.at + 32, id.hi);
	if (literals != UINT64_MAX)
		kedge__put64(s->data.at + 16, literals);
	if (kedge__regions_decode(g->data.at, g->data.bytes, &regions, &n, NULL, NULL) != 0)
		return;
	for (size_t i = 0; i < n; i++)
		raw += regions[i].bytes;
	kedge__put64(s->data.at + 8, raw);
	kedge__regions_free(regions, n);
}

static void mend_lineage(struct store *st, struct sealed *im)
{
	struct section *s = sealed_section(im, KEDGE__SECTION_LINEAGE);
	struct kedge__source_record *sources;
	struct kedge__bytes b = {0};
	size_t n;

	if (!s || kedge__lineage_decode(s->data.at, s->data.bytes, &sources, &n, NULL) != 0)
		return;
	for (size_t i = 0; i < n; i++)
		for (size_t j = 0; j < st->count; j++)
			if (st->images[j].version == sources[i].version)
				sources[i].image_id = sealed_id(&st->images[j]);
	if (kedge__lineage_encode(sources, n, &b, NULL) == 0)
		section_take(s, &b);
	kedge__free(sources);
}

/* ---- putting together */

void sealed_write(struct sealed *im, struct kedge__set_part *part)
{
	struct kedge__section_entry entries[KEDGE__SECTION_LIMIT];
	uint64_t at = KEDGE__SEGMENT_HEADER_BYTES + im->payload.bytes;
	struct kedge__segment_footer f = {.payload_bytes = im->payload.bytes, .section_count = (uint32_t)im->count};
	struct kedge__bytes index = {0};
	uint8_t *file;

	for (size_t i = 0; i < im->count; i++) {
		const struct section *s = &im->sections[i];

		entries[i] = (struct kedge__section_entry){s->type, s->flags, at, s->data.bytes,
							   kedge__checksum(s->data.at, s->data.bytes)};
		at += s->data.bytes;
	}
	REQUIRE(kedge__section_index_encode(entries, im->count, &index, NULL) == 0);
	f.index_offset = at;
	f.file_bytes = at + index.count + KEDGE__SEGMENT_FOOTER_BYTES;
	file = malloc(f.file_bytes);
	REQUIRE(file);
	kedge__segment_header_encode(&im->header, file);
	memcpy(file + KEDGE__SEGMENT_HEADER_BYTES, im->payload.at, im->payload.bytes);
	for (size_t i = 0; i < im->count; i++)
		memcpy(file + entries[i].offset, im->sections[i].data.at, entries[i].bytes);
	memcpy(file + at, index.at, index.count);
	f.seal = kedge__segment_seal(file, index.at, index.count);
	kedge__segment_footer_encode(&f, file + at + index.count);
	file_write(im->path, file, f.file_bytes);
	part->file_bytes = f.file_bytes;
	part->metadata_bytes = f.file_bytes - im->payload.bytes;
	part->seal = f.seal;
	part->image_id = sealed_id(im);
	free(file);
	kedge__bytes_done(&index);
}

/* The manifest of IM, as it is now. */
static void sealed_publish(struct store *st, struct sealed *im)
{
	struct kedge__bytes out = {0};
	char path[FILES_PATH], *name = kedge__set_file_name(im->version);
	struct kedge__set set;
	size_t bytes;
	uint8_t *file;

	path_make(path, "%s/%s", st->dir, name);
	file = file_read(path, &bytes);
	kedge__free(name);
	REQUIRE(file && kedge__set_decode(file, bytes, &set, NULL) == 0 && set.ranks == 1);
	sealed_write(im, &set.parts[0]);
	REQUIRE(kedge__set_encode(&set, &out, NULL) == 0);
	file_write(path, out.at, out.count);
	kedge__bytes_done(&out);
	kedge__set_done(&set);
	free(file);
}

void store_seal(struct store *s, unsigned mend)
{
	for (size_t i = 0; i < s->count; i++) {
		struct sealed *im = &s->images[i];

		if (mend & MEND_BLOCKS)
			sealed_mend_blocks(im);
		if (mend & MEND_SUMMARY)
			sealed_mend_summary(im);
		if (mend & MEND_LINEAGE)
			mend_lineage(s, im);
		sealed_publish(s, im);
	}
}

void manifest_seal(struct piece *p)
{
	if (p->bytes < 32)
		return;
	kedge__put64(p->at + 16, p->bytes);
	kedge__put64(p->at + p->bytes - 8, kedge__checksum(p->at, p->bytes - 8));
}
