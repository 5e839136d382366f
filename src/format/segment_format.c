/* SPDX-License-Identifier: BSD-3-Clause */
/* FORMAT.md, "The segment": header, footer, index, seal. */
#include "format/wire.h"

#define ENTRY_BYTES 32

static const char header_magic[KEDGE__MAGIC_BYTES] = {'K', 'E', 'D', 'G', 'E', 'S', 'E', 'G'};
static const char footer_magic[KEDGE__MAGIC_BYTES] = {'K', 'E', 'D', 'G', 'E', 'E', 'N', 'D'};

void kedge__segment_header_encode(const struct kedge__segment_header *h, uint8_t out[KEDGE__SEGMENT_HEADER_BYTES])
{
	memset(out, 0, KEDGE__SEGMENT_HEADER_BYTES);
	memcpy(out, header_magic, sizeof(header_magic));
	kedge__put16(out + 8, KEDGE__FORMAT_MAJOR);
	kedge__put16(out + 10, KEDGE__FORMAT_MINOR);
	kedge__put32(out + 12, KEDGE__SEGMENT_HEADER_BYTES);
	kedge__put64(out + 16, h->version);
	kedge__put64(out + 24, h->created_ns);
	kedge__put32(out + 32, h->rank);
	kedge__put32(out + 36, h->ranks);
	kedge__put64(out + 56, kedge__checksum(out, 56));
}

static int header_check(const struct kedge__segment_header *h, struct kedge__error *err)
{
	if (h->version >= KEDGE_VERSION_LIMIT)
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "segment header: the version is out of range");
	if (h->ranks > KEDGE__RANK_LIMIT || h->rank >= h->ranks)
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "segment header: rank %u of %u is invalid", h->rank,
					h->ranks);
	return 0;
}

bool kedge__segment_begins(const uint8_t *in, size_t bytes)
{
	return bytes >= sizeof(header_magic) && memcmp(in, header_magic, sizeof(header_magic)) == 0;
}

int kedge__segment_header_decode(const uint8_t in[KEDGE__SEGMENT_HEADER_BYTES], struct kedge__segment_header *h,
				 struct kedge__error *err)
{
	struct kedge__segment_header got;
	int rc;

	if (!kedge__segment_begins(in, KEDGE__SEGMENT_HEADER_BYTES))
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "segment header: not a Kedge segment");
	/* Magic, version and checksum keep their places in all formats to come. */
	if (kedge__get64(in + 56) != kedge__checksum(in, 56))
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "segment header: checksum does not match");
	if (kedge__get16(in + 8) != KEDGE__FORMAT_MAJOR)
		return kedge__error_set(err, KEDGE_E_FORMAT, 0, "segment has format %u.%u, but this build reads %u.x",
					kedge__get16(in + 8), kedge__get16(in + 10), KEDGE__FORMAT_MAJOR);
	if (kedge__get32(in + 12) != KEDGE__SEGMENT_HEADER_BYTES || kedge__get64(in + 40) != 0 ||
	    kedge__get64(in + 48) != 0)
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "segment header: wrong size or reserved bytes in use");
	got.version = kedge__get64(in + 16);
	got.created_ns = kedge__get64(in + 24);
	got.rank = kedge__get32(in + 32);
	got.ranks = kedge__get32(in + 36);
	rc = header_check(&got, err);
	if (rc == 0)
		*h = got;
	return rc;
}

void kedge__segment_footer_encode(const struct kedge__segment_footer *f, uint8_t out[KEDGE__SEGMENT_FOOTER_BYTES])
{
	memset(out, 0, KEDGE__SEGMENT_FOOTER_BYTES);
	memcpy(out, footer_magic, sizeof(footer_magic));
	kedge__put64(out + 8, f->index_offset);
	kedge__put64(out + 16, f->payload_bytes);
	kedge__put64(out + 24, f->file_bytes);
	kedge__put32(out + 32, f->section_count);
	kedge__put64(out + 40, f->seal.lo);
	kedge__put64(out + 48, f->seal.hi);
	kedge__put64(out + 56, kedge__checksum(out, 56));
}

/* header, payload, sections, index, footer: nothing between, nothing over. */
static bool footer_adds_up(const struct kedge__segment_footer *f)
{
	const uint64_t frame = KEDGE__SEGMENT_HEADER_BYTES + KEDGE__SEGMENT_FOOTER_BYTES;
	uint64_t index_bytes = (uint64_t)f->section_count * ENTRY_BYTES;
	uint64_t room;

	if (f->file_bytes < frame || f->section_count > KEDGE__SECTION_LIMIT)
		return false;
	room = f->file_bytes - frame;
	if (index_bytes > room || f->index_offset != KEDGE__SEGMENT_HEADER_BYTES + (room - index_bytes))
		return false;
	return f->payload_bytes <= f->index_offset - KEDGE__SEGMENT_HEADER_BYTES;
}

int kedge__segment_footer_decode(const uint8_t in[KEDGE__SEGMENT_FOOTER_BYTES], uint64_t file_bytes,
				 struct kedge__segment_footer *f, struct kedge__error *err)
{
	struct kedge__segment_footer got;

	if (memcmp(in, footer_magic, sizeof(footer_magic)) != 0)
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0,
					"segment footer: not found; the file is cut short or overwritten");
	if (kedge__get64(in + 56) != kedge__checksum(in, 56))
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "segment footer: checksum does not match");
	got.index_offset = kedge__get64(in + 8);
	got.payload_bytes = kedge__get64(in + 16);
	got.file_bytes = kedge__get64(in + 24);
	got.section_count = kedge__get32(in + 32);
	got.seal.lo = kedge__get64(in + 40);
	got.seal.hi = kedge__get64(in + 48);
	if (got.file_bytes != file_bytes)
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0,
					"segment footer: the file has %llu bytes, but should have %llu",
					(unsigned long long)file_bytes, (unsigned long long)got.file_bytes);
	if (kedge__get32(in + 36) != 0 || !footer_adds_up(&got))
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "segment footer: sizes do not add up");
	*f = got;
	return 0;
}

int kedge__section_index_encode(const struct kedge__section_entry *e, size_t n, struct kedge__bytes *out,
				struct kedge__error *err)
{
	struct kedge__wire_out w = kedge__wire_out_init(out);

	if (n > KEDGE__SECTION_LIMIT)
		return kedge__error_set(err, KEDGE_E_LIMIT, 0, "more than %d sections", KEDGE__SECTION_LIMIT);
	for (size_t i = 0; i < n; i++) {
		kedge__wire_put32(&w, e[i].type);
		kedge__wire_put32(&w, e[i].flags);
		kedge__wire_put64(&w, e[i].offset);
		kedge__wire_put64(&w, e[i].bytes);
		kedge__wire_put64(&w, e[i].checksum);
	}
	return kedge__wire_out_finish(&w, err);
}

/* Every segment has the first of them, up to BASE. */
static const uint32_t known_sections[] = {KEDGE__SECTION_SUMMARY, KEDGE__SECTION_REGIONS, KEDGE__SECTION_MAP,
					  KEDGE__SECTION_BLOCKS,  KEDGE__SECTION_LINEAGE, KEDGE__SECTION_BASE,
					  KEDGE__SECTION_PACKING, KEDGE__SECTION_SUMS,    KEDGE__SECTION_CLASSES};

#define SECTIONS_ALWAYS 5

const char *kedge__section_name(uint32_t type, char text[5])
{
	for (int i = 0; i < 4; i++) {
		uint8_t c = (uint8_t)(type >> (8 * i));

		text[i] = c >= 0x20 && c < 0x7f ? (char)c : '?';
	}
	text[4] = 0;
	return text;
}

static const struct kedge__section_entry *find_section(const struct kedge__section_entry *e, size_t n, uint32_t type)
{
	for (size_t i = 0; i < n; i++)
		if (e[i].type == type)
			return &e[i];
	return NULL;
}

static bool is_known(uint32_t type)
{
	for (size_t i = 0; i < KEDGE__COUNT(known_sections); i++)
		if (known_sections[i] == type)
			return true;
	return false;
}

static uint32_t known_flags(uint32_t type)
{
	return KEDGE__SECTION_REQUIRED | KEDGE__SECTION_PACKED |
	       (type == KEDGE__SECTION_REGIONS ? KEDGE__SECTION_CHANGES : 0);
}

static int check_section_types(const struct kedge__section_entry *e, size_t n, struct kedge__error *err)
{
	char text[5];

	for (size_t i = 0; i < n; i++) {
		if (e[i].flags & ~known_flags(e[i].type))
			return kedge__error_set(err, KEDGE_E_FORMAT, 0,
						"section %s: flags %#x are unknown to this build",
						kedge__section_name(e[i].type, text), e[i].flags);
		if ((e[i].flags & KEDGE__SECTION_REQUIRED) && !is_known(e[i].type))
			return kedge__error_set(err, KEDGE_E_FORMAT, 0,
						"section %s is required, but unknown to this build",
						kedge__section_name(e[i].type, text));
		if (find_section(e, i, e[i].type))
			return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "section %s occurs twice",
						kedge__section_name(e[i].type, text));
	}
	for (size_t i = 0; i < SECTIONS_ALWAYS; i++)
		if (!find_section(e, n, known_sections[i]))
			return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "section %s is missing",
						kedge__section_name(known_sections[i], text));
	return 0;
}

int kedge__section_index_decode(const void *data, size_t bytes, const struct kedge__segment_footer *f,
				struct kedge__section_entry *e, struct kedge__error *err)
{
	struct kedge__wire_in r = kedge__wire_in_init(data, bytes);
	uint64_t at = KEDGE__SEGMENT_HEADER_BYTES + f->payload_bytes;

	if (f->section_count > KEDGE__SECTION_LIMIT || bytes != (size_t)f->section_count * ENTRY_BYTES)
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "section index: wrong size");
	for (uint32_t i = 0; i < f->section_count; i++) {
		e[i].type = kedge__wire_get32(&r);
		e[i].flags = kedge__wire_get32(&r);
		e[i].offset = kedge__wire_get64(&r);
		e[i].bytes = kedge__wire_get64(&r);
		e[i].checksum = kedge__wire_get64(&r);
		if (e[i].offset != at || at > f->index_offset || e[i].bytes > f->index_offset - at)
			return kedge__error_set(err, KEDGE_E_DAMAGED, 0,
						"section index: section %u does not start where the previous one ends",
						i);
		at += e[i].bytes;
	}
	if (at != f->index_offset)
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0,
					"section index: sections do not fill their part of the file");
	return check_section_types(e, f->section_count, err);
}

struct kedge__digest kedge__segment_seal(const uint8_t header[KEDGE__SEGMENT_HEADER_BYTES], const void *index,
					 size_t bytes)
{
	struct kedge__digest parts[2] = {kedge__seal(header, KEDGE__SEGMENT_HEADER_BYTES), kedge__seal(index, bytes)};
	uint8_t raw[32];

	for (int i = 0; i < 2; i++) {
		kedge__put64(raw + 16 * i, parts[i].lo);
		kedge__put64(raw + 16 * i + 8, parts[i].hi);
	}
	return kedge__seal(raw, sizeof(raw));
}
