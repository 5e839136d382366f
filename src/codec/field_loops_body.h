/* SPDX-License-Identifier: BSD-3-Clause */
/* The loops of field_loops.h, compiled once for each variant by the file that includes this. */
#include "codec/field_loops.h"

#define SAMPLE_RUN   32 /* numbers */
#define SAMPLE_EVERY 768

#define KEDGE__JOIN3_(a, b, c) a##b##c
#define KEDGE__JOIN3(a, b, c)  KEDGE__JOIN3_(a, b, c)

#define BY_KIND(which, CALL)                                                                                           \
	switch (which) {                                                                                               \
	case KEDGE__FIELD_ZERO:                                                                                        \
		CALL(KEDGE__FIELD_ZERO);                                                                               \
		break;                                                                                                 \
	case KEDGE__FIELD_LAST:                                                                                        \
		CALL(KEDGE__FIELD_LAST);                                                                               \
		break;                                                                                                 \
	case KEDGE__FIELD_LINE:                                                                                        \
		CALL(KEDGE__FIELD_LINE);                                                                               \
		break;                                                                                                 \
	case KEDGE__FIELD_PARABOLA:                                                                                    \
		CALL(KEDGE__FIELD_PARABOLA);                                                                           \
		break;                                                                                                 \
	case KEDGE__FIELD_PLANE:                                                                                       \
		CALL(KEDGE__FIELD_PLANE);                                                                              \
		break;                                                                                                 \
	case KEDGE__FIELD_RAMP:                                                                                        \
		CALL(KEDGE__FIELD_RAMP);                                                                               \
		break;                                                                                                 \
	case KEDGE__FIELD_SPACE:                                                                                       \
		CALL(KEDGE__FIELD_SPACE);                                                                              \
		break;                                                                                                 \
	default:                                                                                                       \
		CALL(KEDGE__FIELD_PLANES);                                                                             \
	}

#define BITS 16
#include "codec/field_width_body.h"
#define BITS 32
#include "codec/field_width_body.h"
#define BITS 64
#include "codec/field_width_body.h"

#include "codec/symbols_body.h"

static void take_any(const struct kedge__field *f, const uint8_t *raw, void *numbers)
{
	if (f->order)
		(f->width == 8 ? take_64 : f->width == 4 ? take_32 : take_16)(f, raw, numbers);
	else
		memcpy(numbers, raw, f->n * f->width);
}

static void give_any(const struct kedge__field *f, const void *numbers, uint8_t *raw)
{
	if (f->order)
		(f->width == 8 ? give_64 : f->width == 4 ? give_32 : give_16)(f, numbers, raw);
	else
		memcpy(raw, numbers, f->n * f->width);
}

static void replace_any(const struct kedge__field *f, const void *p, void *to, uint8_t *lengths, uint8_t *zeros,
			size_t from, size_t end)
{
	(f->width == 8   ? replace_any_64
	 : f->width == 4 ? replace_any_32
			 : replace_any_16)(f, p, to, lengths, zeros, from, end);
}

static void echo_any(const struct kedge__field *f, const struct kedge__echo_part *part, const struct kedge__echo *e,
		     const void *p, void *to, uint8_t *lengths, uint8_t *zeros)
{
	(f->width == 8 ? echo_any_64 : f->width == 4 ? echo_any_32 : echo_any_16)(f, part, e, p, to, lengths, zeros);
}

static void rebuild_any(const struct kedge__field *f, void *p, const uint8_t *zeros, size_t from, size_t to)
{
	(f->width == 8 ? rebuild_any_64 : f->width == 4 ? rebuild_any_32 : rebuild_any_16)(f, p, zeros, from, to);
}

static void rebuild_echo_any(const struct kedge__field *f, const struct kedge__echo_part *part,
			     const struct kedge__echo *e, void *p, const uint8_t *zeros)
{
	(f->width == 8 ? rebuild_echo_64 : f->width == 4 ? rebuild_echo_32 : rebuild_echo_16)(f, part, e, p, zeros);
}

static enum kedge__field_kind choose_any(const struct kedge__field *f, const void *p, uint64_t *least)
{
	enum kedge__field_kind best = KEDGE__FIELD_ZERO;
	uint64_t best_bits = UINT64_MAX;

	for (int k = 0; k < KEDGE__FIELD_KINDS; k++) {
		enum kedge__field_kind kind = (enum kedge__field_kind)k;
		uint64_t bits;

		if (!kedge__field_reach_valid(kind, f->reach) || kedge__field_start(kind, f->reach) > f->n / 2)
			continue;
		bits = (f->width == 8 ? cost_any_64 : f->width == 4 ? cost_any_32 : cost_any_16)(f, kind, p);
		if (bits < best_bits) {
			best_bits = bits;
			best = kind;
		}
	}
	*least = best_bits;
	return best;
}
