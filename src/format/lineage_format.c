/* SPDX-License-Identifier: BSD-3-Clause */
/* FORMAT.md, "LINE: lineage". */
#include "format/wire.h"

#define RECORD_LEAST 17

int kedge__lineage_encode(const struct kedge__source_record *s, size_t n, struct kedge__bytes *out,
			  struct kedge__error *err)
{
	struct kedge__wire_out w = kedge__wire_out_init(out);
	uint64_t after = 0;

	kedge__wire_put_varint(&w, n);
	for (size_t i = 0; i < n; i++) {
		if (s[i].version < after || s[i].version >= KEDGE_VERSION_LIMIT) {
			kedge__wire_out_undo(&w);
			return kedge__error_set(err, KEDGE_E_ARG, 0,
						"lineage: versions are out of order or out of range");
		}
		kedge__wire_put_varint(&w, s[i].version - after);
		kedge__wire_put_digest(&w, s[i].image_id);
		after = s[i].version + 1;
	}
	return kedge__wire_out_finish(&w, err);
}

static int get_sources(struct kedge__wire_in *in, struct kedge__source_record *s, size_t n, struct kedge__error *err)
{
	uint64_t after = 0;

	for (size_t i = 0; i < n; i++) {
		s[i].version = after + kedge__wire_get_varint_max(in, KEDGE_VERSION_LIMIT);
		s[i].image_id = kedge__wire_get_digest(in);
		if (in->failed || s[i].version >= KEDGE_VERSION_LIMIT)
			return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "section LINE: record %zu is malformed", i);
		after = s[i].version + 1;
	}
	if (in->left != 0)
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "section LINE: extra bytes after the last record");
	return 0;
}

int kedge__lineage_decode(const void *data, size_t bytes, struct kedge__source_record **s, size_t *n,
			  struct kedge__error *err)
{
	struct kedge__wire_in in = kedge__wire_in_init(data, bytes);
	uint64_t count = kedge__wire_get_varint(&in);
	struct kedge__source_record *got = NULL;
	int rc;

	if (in.failed || count > in.left / RECORD_LEAST)
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0,
					"section LINE: more records than fit into the section");
	if (count > 0) {
		got = kedge__calloc((size_t)count, sizeof(*got));
		if (!got)
			return kedge__error_nomem(err);
	}
	rc = get_sources(&in, got, (size_t)count, err);
	if (rc != 0) {
		kedge__free(got);
		return rc;
	}
	*s = got;
	*n = (size_t)count;
	return 0;
}
