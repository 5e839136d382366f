/* SPDX-License-Identifier: BSD-3-Clause */
/* shuffle: groups bytes or bits by their place in the elements. For filter.c and its tests. */
#ifndef KEDGE_CODEC_SHUFFLE_H
#define KEDGE_CODEC_SHUFFLE_H

#include "base/base.h"

/*
 * WIDTH is 1, 2, 4 or 8. Byte j of element i of N goes to OUT[j * pitch + i], and back. Of N bytes, a multiple of 8,
 * bit b of byte i goes to bit i % 8 of OUT[b * pitch + i / 8], and back.
 */
struct kedge__shuffle_kernel {
	const char *name;
	void (*split)(const uint8_t *in, size_t n, unsigned width, uint8_t *out, size_t pitch);
	void (*join)(const uint8_t *in, size_t pitch, size_t n, unsigned width, uint8_t *out);
	void (*bits_split)(const uint8_t *in, size_t n, uint8_t *out, size_t pitch);
	void (*bits_join)(const uint8_t *in, size_t pitch, size_t n, uint8_t *out);
};

extern const struct kedge__shuffle_kernel kedge__shuffle_portable;
const struct kedge__shuffle_kernel *kedge__shuffle_avx2(void); /* NULL: not on this machine */
const struct kedge__shuffle_kernel *kedge__shuffle_best(void);

/* An entire block with the given kernel: bytes that do not fill an element and, for bits, elements that do not fill a group of
 * eight stay unchanged at the end. */
void kedge__shuffle_bytes(const struct kedge__shuffle_kernel *k, const uint8_t *in, size_t bytes, unsigned width,
			  uint8_t *out);
void kedge__unshuffle_bytes(const struct kedge__shuffle_kernel *k, const uint8_t *in, size_t bytes, unsigned width,
			    uint8_t *out);
/* The same for records of any size. */
void kedge__shuffle_records(const uint8_t *in, size_t bytes, size_t stride, uint8_t *out);
void kedge__unshuffle_records(const uint8_t *in, size_t bytes, size_t stride, uint8_t *out);
void kedge__shuffle_bits(const struct kedge__shuffle_kernel *k, const uint8_t *in, size_t bytes, unsigned width,
			 uint8_t *out);
void kedge__unshuffle_bits(const struct kedge__shuffle_kernel *k, const uint8_t *in, size_t bytes, unsigned width,
			   uint8_t *out);

#endif
