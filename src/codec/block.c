#include "codec/codec.h"

static int store_as_is(const void *raw, size_t raw_bytes, void *out, size_t *used, uint16_t *codec, uint16_t *param)
{
	if (raw_bytes > 0)
		memcpy(out, raw, raw_bytes);
	*used = raw_bytes;
	*codec = KEDGE__CODEC_NONE;
	*param = 0;
	return 0;
}

int kedge__block_encode(const struct kedge__codec_choice *choice, enum kedge_type type, const void *raw,
			size_t raw_bytes, void *out, size_t *used, uint16_t *codec, uint16_t *param,
			struct kedge__error *err)
{
	struct kedge__codec_choice with = kedge__codec_sample(choice, type, &raw, &raw_bytes, 1);
	size_t n;
	uint16_t p;
	int rc;

	if (with.codec->id == KEDGE__CODEC_NONE || raw_bytes < 2)
		return store_as_is(raw, raw_bytes, out, used, codec, param);
	/* The error of a block that does not shrink is of no interest to anybody, nor is the time to format it. */
	rc = with.codec->encode(raw, raw_bytes, type, with.level, out, raw_bytes - 1, &n, &p, NULL);
	if (rc == KEDGE_E_LIMIT)
		return store_as_is(raw, raw_bytes, out, used, codec, param);
	if (rc != 0)
		return kedge__error_set(err, rc, 0, "codec %s: %zu bytes could not be packed", with.codec->name,
					raw_bytes);
	*used = n;
	*codec = with.codec->id;
	*param = p;
	return 0;
}

int kedge__block_decode(uint16_t codec, uint16_t param, const void *in, size_t in_bytes, void *raw, size_t raw_bytes,
			struct kedge__error *err)
{
	const struct kedge__codec *c = kedge__codec_by_id(codec);

	if (!c)
		return kedge__error_set(err, KEDGE_E_CODEC, 0, "codec %u is needed and not in this build", codec);
	return c->decode(in, in_bytes, param, raw, raw_bytes, err);
}
