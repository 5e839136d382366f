/* SPDX-License-Identifier: BSD-3-Clause */
/* FORMAT.md, "BLKS: blocks". */
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
