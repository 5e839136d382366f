/* SPDX-License-Identifier: BSD-3-Clause */
/* lz4_warp: what a GPU makes of a block for codec lz4 (src/gpu/lz4.cu): other bytes than those of liblz4, which decodes both. */
#ifndef KEDGE_CODEC_LZ4_WARP_H
#define KEDGE_CODEC_LZ4_WARP_H

#include "base/base.h"

/* To OUT, which has room for BYTES. Returns how many they became; BYTES: they do not shrink, and OUT has no meaning. */
size_t kedge__lz4_warp_encode(const uint8_t *raw, size_t bytes, uint8_t *out);

#endif
