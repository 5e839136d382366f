/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * field: what codecs for arrays of numbers share: integers whose order is that of the numbers, and predictions of a
 * number from those before it, along one, two or three dimensions.
 *
 * Everything is integer arithmetic modulo two to the width, so that encoder and decoder agree on every machine, in
 * every rounding mode and with denormals flushed or not.
 */
#ifndef KEDGE_CODEC_FIELD_H
#define KEDGE_CODEC_FIELD_H

#include "base/base.h"

#define KEDGE__INLINE static inline __attribute__((always_inline))

enum kedge__field_kind {                        /* stable on disk */
			 KEDGE__FIELD_ZERO,     /* 0 */
			 KEDGE__FIELD_LAST,     /* w */
			 KEDGE__FIELD_LINE,     /* 2w - ww */
			 KEDGE__FIELD_PARABOLA, /* 3w - 3ww + www */
			 KEDGE__FIELD_PLANE,    /* w + n - nw */
			 KEDGE__FIELD_RAMP,     /* 2w - ww + n - 2nw + nww */
			 KEDGE__FIELD_SPACE,    /* w + n - nw + u - uw - un + unw */
			 KEDGE__FIELD_PLANES,   /* the mean of w + n - nw, w + u - uw and n + u - un */
			 KEDGE__FIELD_KINDS
};

/* Distances of the neighbours, in numbers: w is the one before, n a row before, u a plane before. */
struct kedge__field_reach {
	uint32_t step, row, plane;
};

struct kedge__field {
	unsigned width; /* 2, 4, 8 */
	size_t n, tail; /* numbers, and remaining bytes */
	struct kedge__field_reach reach;
	enum kedge__field_kind kind;
	bool order; /* floating point */
	bool big_endian;
	bool zeros; /* there is a stream of counts of trailing zeros */
};

/* Numbers before the first that can be predicted. */
KEDGE__INLINE size_t kedge__field_start(enum kedge__field_kind kind, struct kedge__field_reach r)
{
	switch (kind) {
	case KEDGE__FIELD_ZERO:
		return 0;
	case KEDGE__FIELD_LAST:
		return r.step;
	case KEDGE__FIELD_LINE:
		return 2 * (size_t)r.step;
	case KEDGE__FIELD_PARABOLA:
		return 3 * (size_t)r.step;
	case KEDGE__FIELD_PLANE:
		return (size_t)r.row + r.step;
	case KEDGE__FIELD_RAMP:
		return (size_t)r.row + 2 * (size_t)r.step;
	default:
		return (size_t)r.plane + r.row + r.step;
	}
}

struct kedge__codec_choice;
struct kedge__codec_input;
struct kedge__echo_part;

/* ------------------------------------------------------------------ field.c
 * The stored bytes of codec field. With a PART, of codec echo: numbers that are echoes are predicted by what they are
 * echoes of. */

int kedge__field_pack(const struct kedge__codec_choice *how, const struct kedge__codec_input *in,
		      const struct kedge__echo_part *part, void *out, size_t room, size_t *used,
		      struct kedge__error *err);
int kedge__field_unpack(const void *in, size_t in_bytes, unsigned width, const struct kedge__echo_part *part, void *raw,
			size_t raw_bytes, struct kedge__error *err);

/* ------------------------------------------------------------------ field_order.c */

/* Does a separate stream of trailing zeros save more than it takes? */
bool kedge__field_zeros_pay(const struct kedge__field *f, const void *numbers);

/* Check what a decoder found in a block before it is used. */
bool kedge__field_reach_valid(enum kedge__field_kind kind, struct kedge__field_reach r);

#endif
