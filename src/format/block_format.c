/* SPDX-License-Identifier: BSD-3-Clause */
/* FORMAT.md, "BLKS: blocks" and "SUMS: checksums of pages". */
#include "format/wire.h"

#define RECORD_LEAST 13 /* five varints of a byte and the checksum */

static const char *block_problem(const struct kedge__block_record *b)
{
	if (b->raw_bytes == 0 || b->raw_bytes > KEDGE__BLOCK_RAW_MAX)
		return "empty or too large";
	if (b->stored_bytes == 0 || b->stored_bytes > b->raw_bytes)
		return "the encoded size is zero or exceeds the decoded size";
	if (b->codec == KEDGE__CODEC_STORED && b->stored_bytes != b->raw_bytes)
		return "not encoded, but its size in the file differs";
	return NULL;
}

int kedge__blocks_encode(const struct kedge__block_record *b, size_t n, struct kedge__bytes *out,
			 struct kedge__error *err)
{
	struct kedge__wire_out w = kedge__wire_out_init(out);
	uint64_t region = 0;

	kedge__wire_put_varint(&w, n);
	for (size_t i = 0; i < n; i++) {
		const char *problem = block_problem(&b[i]);

		if (problem) {
			kedge__wire_out_undo(&w);
			return kedge__error_set(err, KEDGE_E_ARG, 0, "block %zu: %s", i, problem);
		}
		kedge__wire_put_varint(&w, b[i].raw_bytes);
		kedge__wire_put_varint(&w, b[i].raw_bytes - b[i].stored_bytes);
		kedge__wire_put_varint(&w, b[i].codec);
		kedge__wire_put_varint(&w, b[i].param);
		kedge__wire_put_varint(&w, kedge__zigzag(b[i].region - region));
		kedge__wire_put64(&w, b[i].checksum);
		region = b[i].region;
	}
	return kedge__wire_out_finish(&w, err);
}

static const char *get_block(struct kedge__wire_in *in, uint64_t region, struct kedge__block_record *b)
{
	uint64_t saved;

	b->raw_bytes = (uint32_t)kedge__wire_get_varint_max(in, KEDGE__BLOCK_RAW_MAX);
	saved = kedge__wire_get_varint_max(in, b->raw_bytes);
	b->codec = (uint16_t)kedge__wire_get_varint_max(in, UINT16_MAX);
	b->param = (uint16_t)kedge__wire_get_varint_max(in, UINT16_MAX);
	region += kedge__unzigzag(kedge__wire_get_varint(in));
	b->checksum = kedge__wire_get64(in);
	if (in->failed || region >= KEDGE__SLOT_LIMIT)
		return "the record is malformed";
	b->stored_bytes = b->raw_bytes - (uint32_t)saved;
	b->region = (uint32_t)region;
	return block_problem(b);
}

static int get_blocks(struct kedge__wire_in *in, uint64_t payload_bytes, struct kedge__block_record *b, size_t n,
		      struct kedge__error *err)
{
	uint64_t offset = 0, position = 0;

	for (size_t i = 0; i < n; i++) {
		const char *problem = get_block(in, i ? b[i - 1].region : 0, &b[i]);

		if (problem)
			return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "section BLKS: block %zu: %s", i, problem);
		b[i].offset = KEDGE__SEGMENT_HEADER_BYTES + offset;
		b[i].position = position;
		b[i].first_sum = KEDGE__NO_SUMS;
		if (b[i].stored_bytes > payload_bytes - offset)
			return kedge__error_set(err, KEDGE_E_DAMAGED, 0,
						"section BLKS: block %zu extends beyond the payload", i);
		offset += b[i].stored_bytes;
		position += b[i].raw_bytes;
	}
	if (in->left != 0)
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "section BLKS: extra bytes after the last record");
	if (offset != payload_bytes)
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "section BLKS: the blocks do not fill the payload");
	return 0;
}

int kedge__blocks_decode(const void *data, size_t bytes, uint64_t payload_bytes, struct kedge__block_record **b,
			 size_t *n, struct kedge__error *err)
{
	struct kedge__wire_in in = kedge__wire_in_init(data, bytes);
	uint64_t count = kedge__wire_get_varint(&in);
	struct kedge__block_record *got = NULL;
	int rc;

	if (in.failed || count > in.left / RECORD_LEAST)
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0,
					"section BLKS: more records than fit into the section");
	if (count > 0) {
		got = kedge__calloc((size_t)count, sizeof(*got));
		if (!got)
			return kedge__error_nomem(err);
	}
	rc = get_blocks(&in, payload_bytes, got, (size_t)count, err);
	if (rc != 0) {
		kedge__free(got);
		return rc;
	}
	*b = got;
	*n = (size_t)count;
	return 0;
}

/* ------------------------------------------------------------------ pages */

static size_t page_bytes(size_t bytes, size_t at)
{
	return KEDGE__MIN(bytes - at, KEDGE__BLOCK_PAGE);
}

uint64_t kedge__sums_make(const void *data, size_t bytes, uint8_t *sums)
{
	const uint8_t *p = data;
	uint8_t *to = sums;

	for (size_t at = 0; at < bytes; at += KEDGE__BLOCK_PAGE, to += KEDGE__SUM_BYTES)
		kedge__put64(to, kedge__checksum(p + at, page_bytes(bytes, at)));
	return kedge__checksum(sums, (size_t)(to - sums));
}

uint64_t kedge__block_checksum(const struct kedge__block_record *b, const void *stored, uint8_t *sums)
{
	if (b->codec == KEDGE__CODEC_STORED && kedge__block_has_pages(b))
		return kedge__sums_make(stored, b->stored_bytes, sums);
	return kedge__checksum(stored, b->stored_bytes);
}

size_t kedge__sums_check(const uint8_t *sums, const void *data, size_t bytes)
{
	const uint8_t *p = data;
	size_t page = 0;

	for (size_t at = 0; at < bytes; at += KEDGE__BLOCK_PAGE, page++)
		if (kedge__get64(sums + page * KEDGE__SUM_BYTES) != kedge__checksum(p + at, page_bytes(bytes, at)))
			break;
	return page;
}

/* A block with pages has the checksum of their checksums. */
static const char *assign_block(const uint8_t *sums, size_t count, struct kedge__block_record *b, size_t *used)
{
	size_t pages = kedge__pages_of(b->raw_bytes);

	if (pages > count - *used)
		return "has no checksums of its pages";
	if (*used >= KEDGE__NO_SUMS - pages)
		return "is behind too many pages";
	if (kedge__checksum(sums + *used * KEDGE__SUM_BYTES, pages * KEDGE__SUM_BYTES) != b->checksum)
		return "the checksums of its pages do not match its own";
	b->first_sum = (uint32_t)*used;
	*used += pages;
	return NULL;
}

int kedge__sums_assign(const void *data, size_t bytes, struct kedge__block_record *b, size_t n,
		       struct kedge__error *err)
{
	size_t used = 0;

	for (size_t i = 0; i < n; i++) {
		const char *problem = NULL;

		if (b[i].codec == KEDGE__CODEC_STORED && b[i].raw_bytes > KEDGE__BLOCK_PAGE)
			problem = assign_block(data, bytes / KEDGE__SUM_BYTES, &b[i], &used);
		if (problem)
			return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "block %zu: %s", i, problem);
	}
	if (!used || used * KEDGE__SUM_BYTES != bytes)
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "it does not have a checksum for each page");
	return 0;
}
