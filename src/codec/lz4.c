/* SPDX-License-Identifier: BSD-3-Clause */
/* LZ4 blocks without a frame: sizes and checksums are in the block table. */
#include "codec/codec_table.h"

#include <lz4.h>

static size_t lz4_bound(size_t raw)
{
	return raw + raw / 255 + 16;
}

/* Level 0 is LZ4's default; one further down is one step of "acceleration", faster and larger. */
static int lz4_encode(const struct kedge__codec_choice *how, const struct kedge__codec_input *in, void *out,
		      size_t room, size_t *used, uint16_t *param, struct kedge__error *err)
{
	int capacity = (int)KEDGE__MIN(room, (size_t)INT32_MAX);
	int n;

	if (in->bytes > LZ4_MAX_INPUT_SIZE)
		return kedge__error_set(err, KEDGE_E_LIMIT, 0, "codec lz4: %zu bytes are too many for a block",
					in->bytes);
	n = LZ4_compress_fast(in->raw, out, (int)in->bytes, capacity, 1 - how->level);
	if (n <= 0)
		return kedge__error_set(err, KEDGE_E_LIMIT, 0, "codec lz4: %zu bytes do not compress into %zu",
					in->bytes, room);
	*used = (size_t)n;
	*param = 0;
	return 0;
}

static int lz4_decode(const void *in, size_t in_bytes, uint16_t param, const void *base, void *raw, size_t raw_bytes,
		      struct kedge__error *err)
{
	int n;

	(void)base;
	if (param != 0 || in_bytes > INT32_MAX || raw_bytes > INT32_MAX)
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "codec lz4: invalid sizes or parameter");
	n = LZ4_decompress_safe(in, raw, (int)in_bytes, (int)raw_bytes);
	if (n < 0 || (size_t)n != raw_bytes)
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "codec lz4: %zu bytes do not decompress to %zu",
					in_bytes, raw_bytes);
	return 0;
}

const struct kedge__codec kedge__codec_lz4 = {
    .id = KEDGE__CODEC_LZ4,
    .name = "lz4",
    .min_level = -16,
    .general = true,
    .bound = lz4_bound,
    .encode = lz4_encode,
    .decode = lz4_decode,
};
