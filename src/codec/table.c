#include "codec/codec_table.h"

static const struct kedge__codec *const codecs[] = {&kedge__codec_none, &kedge__codec_lz4, &kedge__codec_zstd};

size_t kedge__codec_count(void)
{
	return KEDGE__COUNT(codecs);
}

const struct kedge__codec *kedge__codec_at(size_t i)
{
	return i < KEDGE__COUNT(codecs) ? codecs[i] : NULL;
}

const struct kedge__codec *kedge__codec_by_id(uint16_t id)
{
	for (size_t i = 0; i < KEDGE__COUNT(codecs); i++)
		if (codecs[i]->id == id)
			return codecs[i];
	return NULL;
}

const struct kedge__codec *kedge__codec_by_name(const char *name)
{
	for (size_t i = 0; i < KEDGE__COUNT(codecs); i++)
		if (strcmp(codecs[i]->name, name) == 0)
			return codecs[i];
	return NULL;
}
