/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Arrays of records: bytes of the same place in their records are put together, for a general codec to find what they
 * have in common. The size of a record is given, or found in the data.
 *
 * The parameter: bits 0 to 7 the general codec, bit 12 that the base was applied, as in filter.c. The stored bytes
 * begin with the size of a record, two bytes.
 */
#include "codec/codec_table.h"
#include "codec/shuffle.h"

#define HEAD 2

static size_t records_bound(size_t raw)
{
	return HEAD + raw + raw / 128 + 1024;
}

unsigned kedge__records_stride(const struct kedge__codec_input *in, bool *found)
{
	unsigned least = KEDGE__MAX((unsigned)kedge_type_size(in->type), (unsigned)KEDGE__STRIDE_LEAST);
	/* From the middle: what begins a region is often not like the rest of it. */
	unsigned stride = kedge__strides_find((const uint8_t *)in->raw + in->bytes / 2, in->bytes - in->bytes / 2);

	*found = stride != 0;
	return KEDGE__MAX(stride, least);
}

static unsigned stride_of(const struct kedge__codec_choice *how, const struct kedge__codec_input *in)
{
	bool found;

	return how->level ? (unsigned)how->level : kedge__records_stride(in, &found);
}

static int encode_planes(const struct kedge__codec_choice *how, const struct kedge__codec_input *in, unsigned stride,
			 uint8_t *out, size_t room, size_t *used, struct kedge__error *err)
{
	bool based = how->steps & KEDGE__STEP_XOR && in->base;
	uint8_t *scratch = kedge__malloc(2 * in->bytes + 1), *laid = scratch + in->bytes;
	int rc;

	if (!scratch)
		return kedge__error_nomem(err);
	if (based)
		kedge__xor_bytes(in->raw, in->base, scratch, in->bytes);
	kedge__shuffle_records(based ? scratch : in->raw, in->bytes, stride, laid);
	rc = kedge__chain_encode(how, laid, in->bytes, out, room, used, err);
	kedge__free(scratch);
	return rc;
}

static int records_encode(const struct kedge__codec_choice *how, const struct kedge__codec_input *in, void *out,
			  size_t room, size_t *used, uint16_t *param, struct kedge__error *err)
{
	unsigned steps = in->base ? how->steps & KEDGE__STEP_XOR : 0, stride = stride_of(how, in);
	int rc;

	if (room <= HEAD)
		return kedge__error_set(err, KEDGE_E_LIMIT, 0, "codec records: %zu bytes do not fit into %zu",
					in->bytes, room);
	rc = encode_planes(how, in, stride, (uint8_t *)out + HEAD, room - HEAD, used, err);
	if (rc)
		return rc;
	kedge__put16(out, (uint16_t)stride);
	*used += HEAD;
	*param = (uint16_t)(kedge__chain_id(how) | steps << KEDGE__STEP_SHIFT);
	return 0;
}

static int head_check(uint16_t param, const uint8_t *in, size_t in_bytes, const void *base, struct kedge__error *err)
{
	if (param & ~(0xff | KEDGE__STEP_XOR << KEDGE__STEP_SHIFT))
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "codec records: invalid parameter %u", param);
	if (kedge__codec_needs_base(KEDGE__CODEC_RECORDS, param) && !base)
		return kedge__error_set(
		    err, KEDGE_E_DAMAGED, 0,
		    "codec records: the bytes of the previous version are needed, but were not given");
	if (in_bytes < HEAD || kedge__get16(in) < KEDGE__STRIDE_LEAST)
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "codec records: the size of a record is invalid");
	return 0;
}

static int records_decode(const void *in, size_t in_bytes, uint16_t param, const void *base, void *raw,
			  size_t raw_bytes, struct kedge__error *err)
{
	uint8_t *laid;
	int rc = head_check(param, in, in_bytes, base, err);

	if (rc)
		return rc;
	laid = kedge__malloc(raw_bytes + 1);
	if (!laid)
		return kedge__error_nomem(err);
	rc = kedge__chain_decode(param, (const uint8_t *)in + HEAD, in_bytes - HEAD, laid, raw_bytes, err);
	if (!rc)
		kedge__unshuffle_records(laid, raw_bytes, kedge__get16(in), raw);
	if (!rc && kedge__codec_needs_base(KEDGE__CODEC_RECORDS, param))
		kedge__xor_bytes(raw, base, raw, raw_bytes);
	kedge__free(laid);
	return rc;
}

const struct kedge__codec kedge__codec_records = {
    .id = KEDGE__CODEC_RECORDS,
    .name = "records",
    .min_level = KEDGE__STRIDE_LEAST,
    .max_level = KEDGE__STRIDE_MOST,
    .first = true,
    .bound = records_bound,
    .encode = records_encode,
    .decode = records_decode,
};
