/* SPDX-License-Identifier: BSD-3-Clause */
/* Standard zlib streams (RFC 1950), made by libdeflate. */
#include "codec/codec_table.h"

#include <libdeflate.h>

/* Stored blocks of up to 65535 bytes with 5 bytes each, and what zlib puts around them. */
static size_t deflate_bound(size_t raw)
{
	return raw + 5 * (raw / 5000 + 2) + 16;
}

static int deflate_encode(const struct kedge__codec_choice *how, const struct kedge__codec_input *in, void *out,
			  size_t room, size_t *used, uint16_t *param, struct kedge__error *err)
{
	struct libdeflate_compressor *c = libdeflate_alloc_compressor(how->level);
	size_t n;

	if (!c)
		return kedge__error_nomem(err);
	n = libdeflate_zlib_compress(c, in->raw, in->bytes, out, room);
	libdeflate_free_compressor(c);
	if (n == 0)
		return kedge__error_set(err, KEDGE_E_LIMIT, 0, "codec deflate: %zu bytes do not compress into %zu",
					in->bytes, room);
	*used = n;
	*param = 0;
	return 0;
}

static int deflate_decode(const void *in, size_t in_bytes, uint16_t param, const void *base, void *raw,
			  size_t raw_bytes, struct kedge__error *err)
{
	struct libdeflate_decompressor *d;
	enum libdeflate_result result;
	size_t taken;

	(void)base;
	if (param != 0)
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "codec deflate: invalid parameter %u", param);
	d = libdeflate_alloc_decompressor();
	if (!d)
		return kedge__error_nomem(err);
	/* Without a place for the size, a stream of any other size is an error. */
	result = libdeflate_zlib_decompress_ex(d, in, in_bytes, raw, raw_bytes, &taken, NULL);
	libdeflate_free_decompressor(d);
	if (result != LIBDEFLATE_SUCCESS || taken != in_bytes)
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "codec deflate: %zu bytes do not decompress to %zu",
					in_bytes, raw_bytes);
	return 0;
}

const struct kedge__codec kedge__codec_deflate = {
    .id = KEDGE__CODEC_DEFLATE,
    .name = "deflate",
    .min_level = 1,
    .max_level = 12,
    .preset_level = 6,
    .general = true,
    .bound = deflate_bound,
    .encode = deflate_encode,
    .decode = deflate_decode,
};
