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
extern const struct kedge__codec kedge__codec_records;
extern const struct kedge__codec kedge__codec_planes;
extern const struct kedge__codec kedge__codec_echo;

/* ------------------------------------------------------------------ element.c: what a type is made of */

unsigned kedge__element_width(enum kedge_type type); /* bytes per number: 1, 2, 4, 8; for complex types, of one half */
unsigned kedge__element_step(enum kedge_type type);  /* numbers per element: 2 if complex, else 1 */
bool kedge__element_is_float(enum kedge_type type);
unsigned kedge__width_log2(unsigned width);

/* ------------------------------------------------------------------ stride.c: the size of records */

#define KEDGE__STRIDE_LEAST       2
#define KEDGE__STRIDE_MOST        4096 /* that can be asked for; a block may have up to 65535 */
#define KEDGE__STRIDE_FOUND_LEAST 3
#define KEDGE__STRIDE_FOUND_MOST  512

struct kedge__strides {
	size_t most; /* distance that was looked at; 0: none */
	uint64_t compared;
	uint32_t equal[KEDGE__STRIDE_FOUND_MOST + 1]; /* of them, at each distance */
};

void kedge__strides_init(struct kedge__strides *s);
/* Compare bytes of one more place. */
void kedge__strides_count(struct kedge__strides *s, const uint8_t *p, size_t n);
unsigned kedge__strides_best(const struct kedge__strides *s); /* 0: there are no records */
unsigned kedge__strides_find(const uint8_t *p, size_t n);     /* in one place, and quickly */
/* records.c: the size that codec records takes for a block. *FOUND: there seem to be such records; else it is that of an element. */
unsigned kedge__records_stride(const struct kedge__codec_input *in, bool *found);

/* ------------------------------------------------------------------ filter.c */

/* In the parameter of a codec that takes steps, or has a width. */
#define KEDGE__WIDTH_SHIFT 8
#define KEDGE__STEP_SHIFT  11

/* FROM, with STEPS taken, to TO. Bytes that make no whole element stay, but for XOR. */
void kedge__steps_take(unsigned steps, const uint8_t *from, const uint8_t *base, uint8_t *to, size_t bytes,
		       unsigned width);
void kedge__steps_undo(unsigned steps, uint8_t *raw, const uint8_t *base, size_t bytes, unsigned width);
/* The width and the steps of a parameter are possible, and there is a base if they need one. */
int kedge__steps_check(uint16_t param, const void *base, struct kedge__error *err);
/* Numbers with a sign: it goes to the lowest bit, and back, so that small negative numbers have few bits, too. */
void kedge__signs_fold(uint8_t *p, size_t bytes, unsigned width);
void kedge__signs_unfold(uint8_t *p, size_t bytes, unsigned width);
/* TO[i] = FROM[i] ^ BASE[i]; TO may be FROM. */
void kedge__xor_bytes(const uint8_t *from, const uint8_t *base, uint8_t *to, size_t bytes);

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
