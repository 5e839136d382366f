/* SPDX-License-Identifier: BSD-3-Clause */
/* FORMAT.md, "The index". */
#include "format/wire.h"

#define CHECKSUM_BYTES 8
#define HEAD_BYTES     16 /* of a record: length, kind, flags, version */
#define FILE_BYTES     32 /* of a published one, before the manifest */
#define FLAG_UNSWEPT   1

static const char magic[KEDGE__MAGIC_BYTES] = {'K', 'E', 'D', 'G', 'E', 'I', 'D', 'X'};

int kedge__index_header_encode(const struct kedge__store_id *id, uint64_t nonce, struct kedge__bytes *out,
			       struct kedge__error *err)
{
	struct kedge__wire_out w = kedge__wire_out_init(out);
	size_t start = out->count;

	kedge__wire_put(&w, magic, sizeof(magic));
	kedge__wire_put16(&w, KEDGE__FORMAT_MAJOR);
	kedge__wire_put16(&w, 0);
	kedge__wire_put32(&w, KEDGE__INDEX_HEADER_BYTES);
	kedge__wire_put(&w, id->at, sizeof(id->at));
	kedge__wire_put64(&w, nonce);
	if (!w.failed)
		kedge__wire_put64(&w, kedge__checksum(out->at + start, out->count - start));
	return kedge__wire_out_finish(&w, err);
}

int kedge__index_header_decode(const void *data, size_t bytes, struct kedge__store_id *id, struct kedge__error *err)
{
	const size_t checked = KEDGE__INDEX_HEADER_BYTES - CHECKSUM_BYTES;
	const uint8_t *raw = data;

	if (bytes < KEDGE__INDEX_HEADER_BYTES || memcmp(raw, magic, sizeof(magic)) != 0)
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "not an index of a Kedge job");
	if (kedge__get64(raw + checked) != kedge__checksum(raw, checked))
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "index: the checksum of the header does not match");
	if (kedge__get16(raw + 8) != KEDGE__FORMAT_MAJOR)
		return kedge__error_set(err, KEDGE_E_FORMAT, 0, "index has format %u.%u, but this build reads %u.x",
					kedge__get16(raw + 8), kedge__get16(raw + 10), KEDGE__FORMAT_MAJOR);
	if (kedge__get32(raw + 12) != KEDGE__INDEX_HEADER_BYTES)
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "index: the header has the wrong size");
	memcpy(id->at, raw + 16, sizeof(id->at));
	return 0;
}

static void put_file(struct kedge__wire_out *w, const struct kedge__index_record *r)
{
	kedge__wire_put64(w, r->file.inode);
	kedge__wire_put64(w, r->file.bytes);
	kedge__wire_put64(w, (uint64_t)r->file.mtime_ns);
	kedge__wire_put64(w, (uint64_t)r->file.ctime_ns);
	kedge__wire_put(w, r->manifest, (size_t)r->file.bytes);
}

int kedge__index_record_encode(const struct kedge__index_record *r, struct kedge__bytes *out, struct kedge__error *err)
{
	struct kedge__wire_out w = kedge__wire_out_init(out);
	const bool has_file = r->kind == KEDGE__INDEX_PUBLISHED;
	size_t start = out->count;

	if (start < CHECKSUM_BYTES || (has_file && r->file.bytes > KEDGE__INDEX_MANIFEST_MAX))
		return kedge__error_set(err, KEDGE_E_ARG, 0, "index: a record has invalid fields");
	kedge__wire_put32(&w, (uint32_t)(HEAD_BYTES + (has_file ? FILE_BYTES + r->file.bytes : 0) + CHECKSUM_BYTES));
	kedge__wire_put16(&w, (uint16_t)r->kind);
	kedge__wire_put16(&w, r->unswept ? FLAG_UNSWEPT : 0);
	kedge__wire_put64(&w, r->version);
	if (has_file)
		put_file(&w, r);
	/* With the checksum before it: a record belongs to the one place in the one log that it was written to. */
	if (!w.failed)
		kedge__wire_put64(
		    &w, kedge__checksum(out->at + start - CHECKSUM_BYTES, out->count - start + CHECKSUM_BYTES));
	return kedge__wire_out_finish(&w, err);
}

static int broken(struct kedge__error *err)
{
	return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "index: a record is cut short or malformed");
}

static int get_record(const uint8_t *raw, size_t length, struct kedge__index_record *r, struct kedge__error *err)
{
	struct kedge__wire_in in = kedge__wire_in_init(raw + 4, length - 4 - CHECKSUM_BYTES);
	struct kedge__index_record got = {.kind = kedge__wire_get16(&in)};
	uint16_t flags = kedge__wire_get16(&in);

	got.unswept = flags & FLAG_UNSWEPT;
	got.version = kedge__wire_get64(&in);
	if (got.kind == KEDGE__INDEX_PUBLISHED) {
		got.file.inode = kedge__wire_get64(&in);
		got.file.bytes = kedge__wire_get64(&in);
		got.file.mtime_ns = (int64_t)kedge__wire_get64(&in);
		got.file.ctime_ns = (int64_t)kedge__wire_get64(&in);
		if (in.failed || got.file.bytes != in.left)
			return broken(err);
		got.manifest = kedge__wire_get(&in, in.left);
	}
	if (in.failed || in.left || got.kind < KEDGE__INDEX_PUBLISHED || got.kind > KEDGE__INDEX_SWEPT ||
	    flags & ~(got.kind == KEDGE__INDEX_PUBLISHED ? FLAG_UNSWEPT : 0) || got.version >= KEDGE_VERSION_LIMIT)
		return broken(err);
	*r = got;
	return 0;
}

int kedge__index_record_decode(const uint8_t *data, size_t bytes, size_t *at, struct kedge__index_record *r,
			       struct kedge__error *err)
{
	const uint8_t *raw = data + *at;
	size_t left = bytes - *at, length;
	int rc;

	if (left < HEAD_BYTES + CHECKSUM_BYTES)
		return broken(err);
	length = kedge__get32(raw);
	if (length < HEAD_BYTES + CHECKSUM_BYTES || length > left ||
	    kedge__get64(raw + length - CHECKSUM_BYTES) != kedge__checksum(raw - CHECKSUM_BYTES, length))
		return broken(err);
	rc = get_record(raw, length, r, err);
	if (!rc)
		*at += length;
	return rc;
}
