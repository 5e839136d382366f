/* SPDX-License-Identifier: BSD-3-Clause */
/* deflate_warp: what a GPU makes of a block for codec deflate (src/gpu/deflate.cu): a zlib stream like any other. */
#ifndef KEDGE_CODEC_DEFLATE_WARP_H
#define KEDGE_CODEC_DEFLATE_WARP_H

#include "base/base.h"

/* To OUT, which has room for BYTES. Returns how many they became; BYTES: they do not shrink, or there is no memory to find
 * out, and OUT has no meaning. */
size_t kedge__deflate_warp_encode(const uint8_t *raw, size_t bytes, uint8_t *out);

#endif
