/* SPDX-License-Identifier: BSD-3-Clause */
#include "codec/codec_table.h"

/* In the order of ids, those whose library is absent among them. */
static const struct kedge__codec *const known[] = {
    &kedge__codec_none,  &kedge__codec_lz4,     &kedge__codec_zstd,    &kedge__codec_deflate,    &kedge__codec_fpzip,
    &kedge__codec_fpc64, &kedge__codec_fpc32,   &kedge__codec_shuffle, &kedge__codec_bitshuffle, &kedge__codec_delta,
    &kedge__codec_field, &kedge__codec_records, &kedge__codec_planes,  &kedge__codec_echo,
};

size_t kedge__codec_count(void)
{
	size_t n = 0;

	for (size_t i = 0; i < KEDGE__COUNT(known); i++)
		n += known[i]->encode != NULL;
	return n;
}

const struct kedge__codec *kedge__codec_at(size_t i)
{
	for (size_t k = 0; k < KEDGE__COUNT(known); k++)
		if (known[k]->encode && i-- == 0)
			return known[k];
	return NULL;
}

const struct kedge__codec *kedge__codec_by_id(uint16_t id)
{
	return id < KEDGE__COUNT(known) && known[id]->encode ? known[id] : NULL;
}

const struct kedge__codec *kedge__codec_by_name(const char *name)
{
	for (size_t i = 0; i < KEDGE__COUNT(known); i++)
		if (known[i]->encode && strcmp(known[i]->name, name) == 0)
			return known[i];
	return NULL;
}

int kedge__codec_need(uint16_t id, const struct kedge__codec **codec, struct kedge__error *err)
{
	const struct kedge__codec *c = kedge__codec_by_id(id);

	if (!c && id < KEDGE__COUNT(known))
		return kedge__error_set(err, KEDGE_E_CODEC, 0, "codec %s (%u) is needed, but is not in this build",
					known[id]->name, id);
	if (!c)
		return kedge__error_set(err, KEDGE_E_CODEC, 0, "codec %u is needed, but is not in this build", id);
	*codec = c;
	return 0;
}
