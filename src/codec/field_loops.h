/*
 * field_loops: the loops of field.c over every number of a block, for any machine and for those with BMI2, where they
 * do the same with half the instructions.
 */
#ifndef KEDGE_CODEC_FIELD_LOOPS_H
#define KEDGE_CODEC_FIELD_LOOPS_H

#include "codec/field.h"

struct kedge__field {
	unsigned width; /* 2, 4, 8 */
	size_t n, tail; /* numbers, and bytes that make no whole one */
	struct kedge__field_reach reach;
	enum kedge__field_kind kind;
	bool order; /* floating point */
	bool zeros; /* there is a stream of counts of trailing zeros */
};

struct kedge__field_bits {
	const uint8_t *bits, *lengths, *zeros;
	uint64_t at;
};

struct kedge__field_loops {
	const char *name;
	/* Numbers to residuals, in place, with their lengths and (with f->zeros) counts of zeros. The sum of the bits
	 * to be stored. */
	uint64_t (*replace)(const struct kedge__field *f, uint8_t *p, uint8_t *lengths, uint8_t *zeros);
	/* The bits of residuals below the highest; eight bytes more are written than they take. */
	void (*write)(const struct kedge__field *f, const uint8_t *p, const uint8_t *lengths, uint8_t *out);
	/* Numbers out of all that; eight bytes more are read than the bits take. */
	void (*rebuild)(const struct kedge__field *f, struct kedge__field_bits b, uint8_t *raw);
};

extern const struct kedge__field_loops kedge__field_loops_portable;
const struct kedge__field_loops *kedge__field_loops_bmi2(void); /* NULL: not on this machine */

/* Trailing zeros, the count of a 0 being all bits. */
KEDGE__INLINE unsigned kedge__field_zeros(int64_t v, unsigned width)
{
	return v ? (unsigned)__builtin_ctzll((uint64_t)v) : width * 8;
}

#endif
