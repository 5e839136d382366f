/*
 * field: what codecs for arrays of numbers share: numbers in an order in which neighbours are near each other, and
 * predictions of a number from those before it, along one, two or three dimensions.
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

/* How far, in numbers, the neighbours are: w before it, n a row before, u a plane before. */
struct kedge__field_reach {
	uint32_t step, row, plane;
};

KEDGE__INLINE int64_t kedge__field_load(const uint8_t *p, size_t i, unsigned width)
{
	return width == 8   ? (int64_t)kedge__get64(p + i * 8)
	       : width == 4 ? (int32_t)kedge__get32(p + i * 4)
			    : (int16_t)kedge__get16(p + i * 2);
}

KEDGE__INLINE void kedge__field_store(uint8_t *p, size_t i, uint64_t v, unsigned width)
{
	if (width == 8)
		kedge__put64(p + i * 8, v);
	else if (width == 4)
		kedge__put32(p + i * 4, (uint32_t)v);
	else
		kedge__put16(p + i * 2, (uint16_t)v);
}

/* V as a signed number of WIDTH bytes. */
KEDGE__INLINE int64_t kedge__field_wrap(uint64_t v, unsigned width)
{
	return width == 8 ? (int64_t)v : width == 4 ? (int32_t)(uint32_t)v : (int16_t)(uint16_t)v;
}

/* Numbers before the first that the prediction can be made for. */
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

/* The prediction of number I of P, from kedge__field_start() on; W is the number a step before it, which a decoder has
 * at hand before it can be read back from memory. */
KEDGE__INLINE int64_t kedge__field_predict(enum kedge__field_kind kind, const uint8_t *p, size_t i, uint64_t w,
					   unsigned width, struct kedge__field_reach r)
{
#define KEDGE__AT(back) ((uint64_t)kedge__field_load(p, i - (back), width))
	size_t s = r.step, n = r.row, u = r.plane;

	switch (kind) {
	case KEDGE__FIELD_ZERO:
		return 0;
	case KEDGE__FIELD_LAST:
		return (int64_t)w;
	case KEDGE__FIELD_LINE:
		return kedge__field_wrap(2 * w - KEDGE__AT(2 * s), width);
	case KEDGE__FIELD_PARABOLA:
		return kedge__field_wrap(3 * (w - KEDGE__AT(2 * s)) + KEDGE__AT(3 * s), width);
	case KEDGE__FIELD_PLANE:
		return kedge__field_wrap(KEDGE__AT(n) - KEDGE__AT(n + s) + w, width);
	case KEDGE__FIELD_RAMP:
		return kedge__field_wrap(
		    KEDGE__AT(n) - 2 * KEDGE__AT(n + s) + KEDGE__AT(n + 2 * s) - KEDGE__AT(2 * s) + 2 * w, width);
	case KEDGE__FIELD_SPACE:
		return kedge__field_wrap(KEDGE__AT(n) - KEDGE__AT(n + s) + KEDGE__AT(u) - KEDGE__AT(u + s) -
					     KEDGE__AT(u + n) + KEDGE__AT(u + n + s) + w,
					 width);
	default: {
		/* As a sum of differences to w, which do not overflow where neighbours are near each other. */
		uint64_t a = 2 * (KEDGE__AT(n) + KEDGE__AT(u)) - KEDGE__AT(n + s) - KEDGE__AT(u + s) - KEDGE__AT(u + n);

		return kedge__field_wrap(w + (uint64_t)((int64_t)(a - w) / 3), width);
	}
	}
#undef KEDGE__AT
}

/* Before that: the number before it, 0 for the first. */
KEDGE__INLINE int64_t kedge__field_predict_early(const uint8_t *p, size_t i, unsigned width)
{
	return i ? kedge__field_load(p, i - 1, width) : 0;
}

KEDGE__INLINE uint64_t kedge__field_zigzag(int64_t v)
{
	return (uint64_t)v << 1 ^ (uint64_t)(v >> 63);
}

KEDGE__INLINE int64_t kedge__field_unzigzag(uint64_t z)
{
	return (int64_t)(z >> 1 ^ (0 - (z & 1)));
}

KEDGE__INLINE unsigned kedge__field_bits(uint64_t z)
{
	return z ? 64 - (unsigned)__builtin_clzll(z) : 0;
}

/* ------------------------------------------------------------------ field_order.c */

/* Floating-point numbers as signed integers in the same order, and back (it is its own inverse): all but the sign bit
 * of negative ones is inverted. */
void kedge__field_order(uint8_t *p, size_t n, unsigned width);

/* The kind that gives the smallest residuals on samples of the N numbers at P; kinds that reach for a row or a plane
 * only where R has them. */
enum kedge__field_kind kedge__field_choose(const uint8_t *p, size_t n, unsigned width, struct kedge__field_reach r);
/* Sum over the same samples of the bits of residuals, for one kind. */
uint64_t kedge__field_cost(enum kedge__field_kind kind, const uint8_t *p, size_t n, unsigned width,
			   struct kedge__field_reach r);

/* What a decoder finds in a block must be possible before it is used. */
bool kedge__field_reach_valid(enum kedge__field_kind kind, struct kedge__field_reach r);

#endif
