/* SPDX-License-Identifier: BSD-3-Clause */
/* A segment and a manifest from the future: a higher minor, and things in them that readers of today do not know. */
#include "../lib/files.h"
#include "format/format.h"
#include "make_golden.h"

#define MINOR 9

static struct kedge__bytes read_all(const char *path)
{
	struct kedge__bytes b = {0};
	FILE *f = fopen(path, "rb");
	int c;

	REQUIRE(f);
	while ((c = getc(f)) != EOF)
		REQUIRE(kedge__array_push(&b, (uint8_t)c));
	fclose(f);
	return b;
}

static void write_all(const char *path, const struct kedge__bytes *b)
{
	file_write(path, b->at, b->count);
}

static void append(struct kedge__bytes *b, const void *data, size_t n)
{
	REQUIRE(kedge__array_reserve(b, b->count + n));
	memcpy(b->at + b->count, data, n);
	b->count += n;
}

/* Put a section that is not required between the others and the index. */
static void make_segment(const char *path, struct kedge__set_part *part)
{
	static const char news[] = "what this says will be known one day";
	struct kedge__bytes in = read_all(path), out = {0};
	struct kedge__section_entry e[KEDGE__SECTION_LIMIT];
	struct kedge__segment_footer f;
	uint8_t raw[KEDGE__SEGMENT_FOOTER_BYTES];
	size_t index;

	REQUIRE(kedge__segment_footer_decode(in.at + in.count - sizeof(raw), in.count, &f, NULL) == 0);
	REQUIRE(kedge__section_index_decode(in.at + f.index_offset, in.count - sizeof(raw) - f.index_offset, &f, e,
					    NULL) == 0);
	append(&out, in.at, f.index_offset);
	kedge__put16(out.at + 10, MINOR);
	kedge__put64(out.at + 56, kedge__checksum(out.at, 56));
	append(&out, news, sizeof(news));
	e[f.section_count++] = (struct kedge__section_entry){.type = 0x5357454e,
							     .offset = f.index_offset,
							     .bytes = sizeof(news),
							     .checksum = kedge__checksum(news, sizeof(news))};
	index = out.count;
	REQUIRE(kedge__section_index_encode(e, f.section_count, &out, NULL) == 0);
	f.index_offset = index;
	f.file_bytes = out.count + sizeof(raw);
	f.seal = kedge__segment_seal(out.at, out.at + index, out.count - index);
	kedge__segment_footer_encode(&f, raw);
	append(&out, raw, sizeof(raw));
	part->metadata_bytes += out.count - in.count;
	part->file_bytes = out.count;
	part->seal = f.seal;
	write_all(path, &out);
	kedge__bytes_done(&in);
	kedge__bytes_done(&out);
}

static void make_manifest(const char *path, const struct kedge__set *set)
{
	static const char extension[] = "\2\5later";
	struct kedge__bytes b = {0};
	uint8_t checksum[8];

	REQUIRE(kedge__set_encode(set, &b, NULL) == 0);
	b.count -= 8;
	append(&b, extension, sizeof(extension) - 1);
	kedge__put16(b.at + 10, MINOR);
	kedge__put64(b.at + 16, b.count + 8);
	kedge__put64(b.at + 72, sizeof(extension) - 1);
	kedge__put64(checksum, kedge__checksum(b.at, b.count));
	append(&b, checksum, 8);
	write_all(path, &b);
	kedge__bytes_done(&b);
}

void golden_make_future(const char *store, uint64_t version)
{
	char *set_name = kedge__set_file_name(version), *dir = kedge__version_dir_name(version);
	char *segment = kedge__segment_file_name(0, 0);
	char *set_path = kedge__asprintf("%s/%s/%s", store, GOLDEN_NAME, set_name);
	char *path = kedge__asprintf("%s/%s/%s/%s", store, GOLDEN_NAME, dir, segment);
	struct kedge__bytes b;
	struct kedge__set set;

	REQUIRE(set_path && path);
	b = read_all(set_path);
	REQUIRE(kedge__set_decode(b.at, b.count, &set, NULL) == 0 && set.ranks == 1);
	make_segment(path, &set.parts[0]);
	make_manifest(set_path, &set);
	kedge__set_done(&set);
	kedge__bytes_done(&b);
	kedge__free(path);
	kedge__free(set_path);
	kedge__free(segment);
	kedge__free(dir);
	kedge__free(set_name);
}
