/* SPDX-License-Identifier: BSD-3-Clause */
/* FORMAT.md, "The store marker". */
#include "format/wire.h"

#define MARKER_BYTES 48

static const char magic[KEDGE__MAGIC_BYTES] = {'K', 'E', 'D', 'G', 'E', 'S', 'T', 'O'};

int kedge__store_marker_encode(const struct kedge__store_id *id, struct kedge__bytes *out, struct kedge__error *err)
{
	struct kedge__wire_out w = kedge__wire_out_init(out);
	uint8_t raw[MARKER_BYTES] = {0};

	memcpy(raw, magic, sizeof(magic));
	kedge__put16(raw + 8, KEDGE__FORMAT_MAJOR);
	kedge__put16(raw + 10, KEDGE__FORMAT_MINOR);
	kedge__put32(raw + 12, MARKER_BYTES);
	memcpy(raw + 16, id->at, sizeof(id->at));
	kedge__put64(raw + 40, kedge__checksum(raw, 40));
	kedge__wire_put(&w, raw, sizeof(raw));
	return kedge__wire_out_finish(&w, err);
}

int kedge__store_marker_decode(const void *data, size_t bytes, struct kedge__store_id *id, struct kedge__error *err)
{
	const uint8_t *raw = data;

	if (bytes < sizeof(magic) || memcmp(raw, magic, sizeof(magic)) != 0)
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "not the marker of a Kedge store");
	/* Later formats keep magic and version where they are, and the checksum at the end. */
	if (bytes < 24 || kedge__get64(raw + bytes - 8) != kedge__checksum(raw, bytes - 8))
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "store marker: checksum does not match");
	if (kedge__get16(raw + 8) != KEDGE__FORMAT_MAJOR)
		return kedge__error_set(err, KEDGE_E_FORMAT, 0,
					"store marker has format %u.%u, but this build reads %u.x",
					kedge__get16(raw + 8), kedge__get16(raw + 10), KEDGE__FORMAT_MAJOR);
	if (bytes != MARKER_BYTES || kedge__get32(raw + 12) != MARKER_BYTES || kedge__get64(raw + 32) != 0)
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "store marker: wrong size or reserved bytes in use");
	memcpy(id->at, raw + 16, sizeof(id->at));
	return 0;
}
