/* SPDX-License-Identifier: BSD-3-Clause */
/* The codecs, one file each, and what they share. If its library is absent, a codec has NULL for encode and decode. */
#ifndef KEDGE_CODEC_CODEC_TABLE_H
#define KEDGE_CODEC_CODEC_TABLE_H

#include "codec/codec.h"

extern const struct kedge__codec kedge__codec_none;
extern const struct kedge__codec kedge__codec_lz4;
extern const struct kedge__codec kedge__codec_zstd;
extern const struct kedge__codec kedge__codec_deflate;
extern const struct kedge__codec kedge__codec_fpzip;
extern const struct kedge__codec kedge__codec_fpc64;
extern const struct kedge__codec kedge__codec_fpc32;
extern const struct kedge__codec kedge__codec_shuffle;
extern const struct kedge__codec kedge__codec_bitshuffle;
extern const struct kedge__codec kedge__codec_delta;
extern const struct kedge__codec kedge__codec_field;

/* ------------------------------------------------------------------ element.c: what a type is made of */

unsigned kedge__element_width(enum kedge_type type); /* bytes per number: 1, 2, 4, 8; for complex types, of one half */
unsigned kedge__element_step(enum kedge_type type);  /* numbers per element: 2 if complex, else 1 */
bool kedge__element_is_float(enum kedge_type type);
unsigned kedge__width_log2(unsigned width);

/* ------------------------------------------------------------------ chain.c: the general pass
 * The low byte of the parameter of a codec that may be first is the id of the general codec, 0 if there is none. */

int kedge__chain_encode(const struct kedge__codec_choice *how, const void *mid, size_t mid_bytes, void *out,
			size_t room, size_t *used, struct kedge__error *err);
int kedge__chain_decode(uint16_t param, const void *in, size_t in_bytes, void *mid, size_t mid_bytes,
			struct kedge__error *err);

static inline uint16_t kedge__chain_id(const struct kedge__codec_choice *how)
{
	return how->second ? how->second->id : KEDGE__CODEC_NONE;
}

#endif
