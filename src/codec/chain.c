/* SPDX-License-Identifier: BSD-3-Clause */
#include "codec/codec_table.h"

int kedge__chain_encode(const struct kedge__codec_choice *how, const void *mid, size_t mid_bytes, void *out,
			size_t room, size_t *used, struct kedge__error *err)
{
	const struct kedge__codec_choice second = {.codec = how->second, .level = how->second_level};
	const struct kedge__codec_input in = {.raw = mid, .bytes = mid_bytes};
	uint16_t param;

	if (how->second)
		return how->second->encode(&second, &in, out, room, used, &param, err);
	return kedge__codec_none.encode(&second, &in, out, room, used, &param, err);
}

int kedge__chain_decode(uint16_t param, const void *in, size_t in_bytes, void *mid, size_t mid_bytes,
			struct kedge__error *err)
{
	const struct kedge__codec *second;
	int rc = kedge__codec_need(param & 0xff, &second, err);

	if (rc)
		return rc;
	if (second->id != KEDGE__CODEC_NONE && !second->general)
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "codec %s cannot be a second pass", second->name);
	return second->decode(in, in_bytes, 0, NULL, mid, mid_bytes, err);
}
