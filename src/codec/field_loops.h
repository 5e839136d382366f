/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * field_loops: the loops of field.c and symbols.c over every number of a block, for any machine and for those with AVX2
 * and BMI2, where they do the same with half the instructions.
 */
#ifndef KEDGE_CODEC_FIELD_LOOPS_H
#define KEDGE_CODEC_FIELD_LOOPS_H

#include "codec/echo.h"
#include "codec/field.h"
#include "codec/symbols.h"

struct kedge__field_loops {
	const char *name;
	/* Raw bytes to numbers and back. Floating-point numbers become signed integers with the same order: all bits of
	 * negative ones except the sign are inverted. The bytes need not be aligned. */
	void (*take)(const struct kedge__field *f, const uint8_t *raw, void *numbers);
	void (*give)(const struct kedge__field *f, const void *numbers, uint8_t *raw);
	/* The kind that gives the smallest residuals on samples of the numbers; kinds that use a row or a plane
	 * only if there is one; and how many bits these have. */
	enum kedge__field_kind (*choose)(const struct kedge__field *f, const void *numbers, uint64_t *bits);
	/* Residuals and their lengths, of the numbers from FROM on up to TO, or of echo E of PART; with f->zeros
	 * without the trailing zeros, whose counts go to ZEROS. */
	void (*replace)(const struct kedge__field *f, const void *numbers, void *residuals, uint8_t *lengths,
			uint8_t *zeros, size_t from, size_t to);
	void (*echo)(const struct kedge__field *f, const struct kedge__echo_part *part, const struct kedge__echo *e,
		     const void *numbers, void *residuals, uint8_t *lengths, uint8_t *zeros);
	/* Numbers out of residuals, in place: from FROM on up to TO, or those of echo E of PART. All
	 * that comes before them is rebuilt. */
	void (*rebuild)(const struct kedge__field *f, void *numbers, const uint8_t *zeros, size_t from, size_t to);
	void (*rebuild_echo)(const struct kedge__field *f, const struct kedge__echo_part *part,
			     const struct kedge__echo *e, void *numbers, const uint8_t *zeros);
	/* See symbols.c. */
	void (*write)(const struct kedge__symbols *s, const struct kedge__symbol_codes *codes, const uint8_t *means,
		      struct kedge__symbol_lane *lanes, unsigned lane_count);
	void (*read)(const struct kedge__symbols *s, const uint32_t *const *of_mean, const uint8_t *in,
		     struct kedge__symbol_lane *lanes, unsigned lane_count);
};

extern const struct kedge__field_loops kedge__field_loops_portable;
const struct kedge__field_loops *kedge__field_loops_bmi2(void); /* NULL: not on this machine */
const struct kedge__field_loops *kedge__field_loops(void);      /* the one to use */

#endif
