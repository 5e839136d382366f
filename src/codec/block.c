/* SPDX-License-Identifier: BSD-3-Clause */
#include "codec/codec.h"

static int store_as_is(const struct kedge__codec_input *in, void *out, size_t *used, uint16_t *codec, uint16_t *param)
{
	if (in->bytes > 0)
		memcpy(out, in->raw, in->bytes);
	*used = in->bytes;
	*codec = KEDGE__CODEC_NONE;
	*param = 0;
	return 0;
}

int kedge__block_pack(const struct kedge__codec_choice *choice, const struct kedge__codec_input *in, void *out,
		      size_t *used, uint16_t *codec, uint16_t *param, struct kedge__error *err)
{
	struct kedge__codec_choice with = kedge__codec_sample(choice, in, 1, NULL);
	size_t n;
	uint16_t p;
	int rc;

	if (with.smallest && with.near && in->bytes >= 2 && kedge__codec_smallest(&with, in, out, used, codec, param))
		return 0;
	with = kedge__codec_settle(&with, in);
	if (with.codec->id == KEDGE__CODEC_NONE || in->bytes < 2)
		return store_as_is(in, out, used, codec, param);
	/* The error of a block that does not shrink is of no interest to anybody, nor is the time to format it. */
	rc = with.codec->encode(&with, in, out, in->bytes - 1, &n, &p, NULL);
	if (rc == KEDGE_E_LIMIT)
		return store_as_is(in, out, used, codec, param);
	if (rc != 0)
		return kedge__error_set(err, rc, 0, "codec %s: cannot compress %zu bytes", with.codec->name, in->bytes);
	*used = n;
	*codec = with.codec->id;
	*param = p;
	return 0;
}

int kedge__block_unpack(uint16_t codec, uint16_t param, const void *in, size_t in_bytes, const void *base, void *raw,
			size_t raw_bytes, struct kedge__error *err)
{
	const struct kedge__codec *c;
	int rc = kedge__codec_need(codec, &c, err);

	return rc ? rc : c->decode(in, in_bytes, param, base, raw, raw_bytes, err);
}

int kedge__block_encode(const struct kedge__codec_choice *choice, enum kedge_type type, const void *raw,
			size_t raw_bytes, void *out, size_t *used, uint16_t *codec, uint16_t *param,
			struct kedge__error *err)
{
	const struct kedge__codec_input in = {.raw = raw, .bytes = raw_bytes, .type = type};

	return kedge__block_pack(choice, &in, out, used, codec, param, err);
}

int kedge__block_decode(uint16_t codec, uint16_t param, const void *in, size_t in_bytes, void *raw, size_t raw_bytes,
			struct kedge__error *err)
{
	return kedge__block_unpack(codec, param, in, in_bytes, NULL, raw, raw_bytes, err);
}
