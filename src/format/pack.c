/* SPDX-License-Identifier: BSD-3-Clause */
/* FORMAT.md, "Packed strings": metadata is small and read rarely, so the fastest level of Zstandard will do. */
#include "format/wire.h"

#include <zstd.h>
#include <zstd_errors.h>

#define LEVEL       1
#define WORTH_IT    64 /* bytes: shorter strings are never compressed */
#define FRAME_LEAST 4

bool kedge__packed_fits(uint64_t raw, uint64_t stored, uint64_t allowance)
{
	return raw <= allowance || (raw - allowance) / KEDGE__PACKED_GROWTH <= stored;
}

/* The bytes that N at DATA take when compressed into TO; N if that is not fewer, or more than a reader would accept. */
static size_t compress(const void *data, size_t n, uint64_t allowance, uint8_t *to, size_t room)
{
	size_t used = n < WORTH_IT ? n : ZSTD_compress(to, room, data, n, LEVEL);

	return ZSTD_isError(used) || used >= n || !kedge__packed_fits(n, used, allowance) ? n : used;
}

void kedge__packed_put(struct kedge__wire_out *w, const void *data, size_t n, uint64_t allowance)
{
	uint8_t *to = kedge__malloc(n + 1);
	size_t used;

	if (!to) {
		w->failed = true;
		return;
	}
	used = compress(data, n, allowance, to, n);
	kedge__wire_put_varint(w, n);
	kedge__wire_put_varint(w, n - used);
	kedge__wire_put(w, used < n ? to : data, used);
	kedge__free(to);
}

static int decompress(const uint8_t *stored, size_t bytes, uint8_t *raw, size_t n, struct kedge__error *err)
{
	size_t got = ZSTD_decompress(raw, n, stored, bytes);

	if (ZSTD_isError(got) && ZSTD_getErrorCode(got) == ZSTD_error_memory_allocation)
		return kedge__error_nomem(err);
	if (ZSTD_isError(got) || got != n)
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "packed bytes cannot be unpacked: %s",
					ZSTD_isError(got) ? ZSTD_getErrorName(got) : "too few");
	return 0;
}

int kedge__packed_get(struct kedge__wire_in *in, uint64_t allowance, uint8_t **out, size_t *n, struct kedge__error *err)
{
	uint64_t raw = kedge__wire_get_varint(in);
	uint64_t saved = kedge__wire_get_varint_max(in, raw);
	const uint8_t *stored =
	    in->failed || raw - saved > in->left ? NULL : kedge__wire_get(in, (size_t)(raw - saved));
	uint8_t *got;
	int rc = 0;

	if (!stored || (saved && raw - saved < FRAME_LEAST) || !kedge__packed_fits(raw, raw - saved, allowance))
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "packed bytes have an impossible size");
	got = kedge__malloc((size_t)raw + 1);
	if (!got)
		return kedge__error_nomem(err);
	if (saved)
		rc = decompress(stored, (size_t)(raw - saved), got, (size_t)raw, err);
	else
		memcpy(got, stored, (size_t)raw);
	if (rc != 0) {
		kedge__free(got);
		return rc;
	}
	*out = got;
	*n = (size_t)raw;
	return 0;
}

int kedge__section_pack(struct kedge__bytes *text, bool *packed, struct kedge__error *err)
{
	struct kedge__bytes out = {0};
	struct kedge__wire_out w = kedge__wire_out_init(&out);
	int rc;

	*packed = false;
	if (text->count < KEDGE__SECTION_PACK_LEAST)
		return 0;
	kedge__packed_put(&w, text->at, text->count, KEDGE__SECTION_ALLOWANCE);
	rc = kedge__wire_out_finish(&w, err);
	if (rc == 0 && out.count < text->count - text->count / 8) {
		struct kedge__bytes larger = *text;

		*text = out;
		out = larger;
		*packed = true;
	}
	kedge__bytes_done(&out);
	return rc;
}

int kedge__section_unpack(const void *data, size_t bytes, uint8_t **out, size_t *n, struct kedge__error *err)
{
	struct kedge__wire_in in = kedge__wire_in_init(data, bytes);
	uint8_t *got;
	size_t count;
	int rc = kedge__packed_get(&in, KEDGE__SECTION_ALLOWANCE, &got, &count, err);

	if (rc != 0)
		return rc;
	if (in.left != 0) {
		kedge__free(got);
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "extra bytes after the packed ones");
	}
	*out = got;
	*n = count;
	return 0;
}
