/* SPDX-License-Identifier: BSD-3-Clause */
/* FORMAT.md, "The tie". */
#include "format/wire.h"

#define HEAD_BYTES 40

static const char magic[KEDGE__MAGIC_BYTES] = {'K', 'E', 'D', 'G', 'E', 'T', 'I', 'E'};

int kedge__tie_encode(const struct kedge__tie *tie, struct kedge__bytes *out, struct kedge__error *err)
{
	struct kedge__wire_out w = kedge__wire_out_init(out);
	size_t start = out->count, length = KEDGE__MIN(strlen(tie->path), KEDGE__TIE_PATH_MAX);

	kedge__wire_put(&w, magic, sizeof(magic));
	kedge__wire_put16(&w, KEDGE__FORMAT_MAJOR);
	kedge__wire_put16(&w, KEDGE__FORMAT_MINOR);
	kedge__wire_put32(&w, (uint32_t)(HEAD_BYTES + length + 8));
	kedge__wire_put(&w, tie->id.at, sizeof(tie->id.at));
	kedge__wire_put32(&w, (uint32_t)length);
	kedge__wire_put32(&w, 0);
	kedge__wire_put(&w, tie->path, length);
	if (!w.failed)
		kedge__wire_put64(&w, kedge__checksum(out->at + start, out->count - start));
	return kedge__wire_out_finish(&w, err);
}

int kedge__tie_decode(const void *data, size_t bytes, struct kedge__tie *tie, struct kedge__error *err)
{
	const uint8_t *raw = data;
	struct kedge__wire_in r;
	uint32_t length;
	int rc;

	if (bytes < sizeof(magic) || memcmp(raw, magic, sizeof(magic)) != 0)
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "not a tie between the levels of a job");
	if (bytes < 24 || kedge__get64(raw + bytes - 8) != kedge__checksum(raw, bytes - 8))
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "tie: checksum does not match");
	if (kedge__get16(raw + 8) != KEDGE__FORMAT_MAJOR)
		return kedge__error_set(err, KEDGE_E_FORMAT, 0, "tie has format %u.%u, but this build reads %u.x",
					kedge__get16(raw + 8), kedge__get16(raw + 10), KEDGE__FORMAT_MAJOR);
	if (bytes < HEAD_BYTES + 8 || kedge__get32(raw + 12) != bytes || kedge__get32(raw + 36) != 0)
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "tie: wrong size or reserved bytes in use");
	length = kedge__get32(raw + 32);
	if (length > KEDGE__TIE_PATH_MAX || length != bytes - HEAD_BYTES - 8)
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "tie: the length of the path is wrong");
	r = kedge__wire_in_init(raw + HEAD_BYTES, length);
	rc = kedge__wire_get_string(&r, length, "path of L2", &tie->path, err);
	if (!rc)
		memcpy(tie->id.at, raw + 16, sizeof(tie->id.at));
	return rc;
}

void kedge__tie_done(struct kedge__tie *tie)
{
	kedge__free(tie->path);
	*tie = (struct kedge__tie){0};
}
