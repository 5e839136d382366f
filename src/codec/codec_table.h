/* The codecs of this build, one file each; for table.c alone. */
#ifndef KEDGE_CODEC_CODEC_TABLE_H
#define KEDGE_CODEC_CODEC_TABLE_H

#include "codec/codec.h"

extern const struct kedge__codec kedge__codec_none;
extern const struct kedge__codec kedge__codec_lz4;
extern const struct kedge__codec kedge__codec_zstd;

#endif
