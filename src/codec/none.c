/* SPDX-License-Identifier: BSD-3-Clause */
#include "codec/codec_table.h"

static size_t none_bound(size_t raw)
{
	return raw;
}

static int none_encode(const struct kedge__codec_choice *how, const struct kedge__codec_input *in, void *out,
		       size_t room, size_t *used, uint16_t *param, struct kedge__error *err)
{
	(void)how;
	if (in->bytes > room)
		return kedge__error_set(err, KEDGE_E_LIMIT, 0, "codec none: %zu bytes do not fit into %zu", in->bytes,
					room);
	if (in->bytes > 0)
		memcpy(out, in->raw, in->bytes);
	*used = in->bytes;
	*param = 0;
	return 0;
}

static int none_decode(const void *in, size_t in_bytes, uint16_t param, const void *base, void *raw, size_t raw_bytes,
		       struct kedge__error *err)
{
	(void)base;
	if (param != 0 || in_bytes != raw_bytes)
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "codec none: %zu bytes instead of %zu", in_bytes,
					raw_bytes);
	if (raw_bytes > 0)
		memcpy(raw, in, raw_bytes);
	return 0;
}

const struct kedge__codec kedge__codec_none = {
    .id = KEDGE__CODEC_NONE,
    .name = "none",
    .bound = none_bound,
    .encode = none_encode,
    .decode = none_decode,
};
