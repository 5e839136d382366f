/* The loops of field_loops.h, compiled once for each variant by the file that includes this. */
#include "codec/field_loops.h"

/* ------------------------------------------------------------------ residuals */

/* A number without its trailing zeros and the one before them. */
KEDGE__INLINE int64_t without_zeros(int64_t v, unsigned zeros)
{
	return v >> KEDGE__MIN(zeros + 1, 63u);
}

KEDGE__INLINE uint64_t with_zeros(int64_t v, unsigned zeros, unsigned width)
{
	return zeros >= width * 8 ? 0 : (uint64_t)v << zeros << 1 | UINT64_C(1) << zeros;
}

KEDGE__INLINE uint64_t residual_of(int64_t v, int64_t guess, unsigned zeros, bool with_third, unsigned width)
{
	if (!with_third)
		return kedge__field_zigzag(kedge__field_wrap((uint64_t)v - (uint64_t)guess, width));
	if (zeros >= width * 8)
		return 0;
	return kedge__field_zigzag(
	    kedge__field_wrap((uint64_t)without_zeros(v, zeros) - (uint64_t)without_zeros(guess, zeros), width));
}

/* One number: its residual to P, the length of that and the count of zeros to their streams. The bits to be stored. */
KEDGE__INLINE unsigned replace_one(uint8_t *p, uint8_t *lengths, uint8_t *zeros, size_t i, int64_t guess,
				   bool with_third, unsigned width)
{
	int64_t v = kedge__field_load(p, i, width);
	unsigned z = with_third ? kedge__field_zeros(v, width) : 0;
	uint64_t r = residual_of(v, guess, z, with_third, width);
	unsigned bits;

	if (width < 8)
		r &= (UINT64_C(1) << width * 8) - 1;
	bits = kedge__field_bits(r);
	if (with_third)
		zeros[i] = (uint8_t)z;
	lengths[i] = (uint8_t)bits;
	kedge__field_store(p, i, r, width);
	return bits - (bits != 0);
}

/* In place, from the end: what is predicted from is not yet replaced. The sum of the bits to be stored. */
KEDGE__INLINE uint64_t replace(uint8_t *p, uint8_t *lengths, uint8_t *zeros, size_t n, enum kedge__field_kind kind,
			       struct kedge__field_reach reach, bool with_third, unsigned width)
{
	size_t start = KEDGE__MIN(kedge__field_start(kind, reach), n);
	uint64_t total = 0;

	for (size_t i = n; i-- > start;) {
		uint64_t before = kind ? (uint64_t)kedge__field_load(p, i - reach.step, width) : 0;

		total += replace_one(p, lengths, zeros, i, kedge__field_predict(kind, p, i, before, width, reach),
				     with_third, width);
	}
	for (size_t i = start; i-- > 0;)
		total += replace_one(p, lengths, zeros, i, kedge__field_predict_early(p, i, width), with_third, width);
	return total;
}

#define BY_KIND(kind, CALL)                                                                                            \
	switch (kind) {                                                                                                \
	case KEDGE__FIELD_ZERO:                                                                                        \
		return CALL(KEDGE__FIELD_ZERO);                                                                        \
	case KEDGE__FIELD_LAST:                                                                                        \
		return CALL(KEDGE__FIELD_LAST);                                                                        \
	case KEDGE__FIELD_LINE:                                                                                        \
		return CALL(KEDGE__FIELD_LINE);                                                                        \
	case KEDGE__FIELD_PARABOLA:                                                                                    \
		return CALL(KEDGE__FIELD_PARABOLA);                                                                    \
	case KEDGE__FIELD_PLANE:                                                                                       \
		return CALL(KEDGE__FIELD_PLANE);                                                                       \
	case KEDGE__FIELD_RAMP:                                                                                        \
		return CALL(KEDGE__FIELD_RAMP);                                                                        \
	case KEDGE__FIELD_SPACE:                                                                                       \
		return CALL(KEDGE__FIELD_SPACE);                                                                       \
	default:                                                                                                       \
		return CALL(KEDGE__FIELD_PLANES);                                                                      \
	}

KEDGE__INLINE uint64_t replace_by_kind(const struct kedge__field *f, uint8_t *p, uint8_t *lengths, uint8_t *zeros,
				       unsigned width)
{
#define CALL(kind)                                                                                                     \
	(f->zeros ? replace(p, lengths, zeros, f->n, kind, f->reach, true, width)                                      \
		  : replace(p, lengths, zeros, f->n, kind, f->reach, false, width))
	BY_KIND(f->kind, CALL)
#undef CALL
}

static uint64_t replace_any(const struct kedge__field *f, uint8_t *p, uint8_t *lengths, uint8_t *zeros)
{
	return f->width == 8   ? replace_by_kind(f, p, lengths, zeros, 8)
	       : f->width == 4 ? replace_by_kind(f, p, lengths, zeros, 4)
			       : replace_by_kind(f, p, lengths, zeros, 2);
}

/* ------------------------------------------------------------------ bits */

struct bit_writer {
	uint8_t *at;
	uint64_t held;
	unsigned count; /* of bits held, below 8 */
};

/* At most 56 bits; eight bytes are written, and those that are not full again later. */
KEDGE__INLINE void put_bits(struct bit_writer *w, uint64_t v, unsigned n)
{
	w->held |= v << w->count;
	kedge__put64(w->at, w->held);
	w->count += n;
	w->at += w->count / 8;
	w->held >>= w->count / 8 * 8;
	w->count %= 8;
}

KEDGE__INLINE void write_bits(const uint8_t *p, const uint8_t *lengths, size_t n, uint8_t *out, unsigned width)
{
	struct bit_writer w = {.at = out};

	for (size_t i = 0; i < n; i++) {
		uint64_t v = (uint64_t)kedge__field_load(p, i, width);
		unsigned bits = lengths[i] ? lengths[i] - 1 : 0;

		v &= (UINT64_C(1) << bits) - 1;
		if (width == 8 && bits > 48) {
			put_bits(&w, v & UINT32_MAX, 32);
			v >>= 32;
			bits -= 32;
		}
		put_bits(&w, v, bits);
	}
	kedge__put64(w.at, w.held);
}

static void write_any(const struct kedge__field *f, const uint8_t *p, const uint8_t *lengths, uint8_t *out)
{
	if (f->width == 8)
		write_bits(p, lengths, f->n, out, 8);
	else if (f->width == 4)
		write_bits(p, lengths, f->n, out, 4);
	else
		write_bits(p, lengths, f->n, out, 2);
}

/* BITS bits from bit AT on; up to 63. */
KEDGE__INLINE uint64_t read_bits(const uint8_t *p, uint64_t at, unsigned bits, unsigned width)
{
	unsigned shift = at % 8;
	uint64_t v = kedge__get64(p + at / 8) >> shift;

	if (width == 8 && bits + shift > 64)
		v |= (uint64_t)p[at / 8 + 8] << (64 - shift);
	return v & ((UINT64_C(1) << bits) - 1);
}

/* Number I, given what it was predicted to be. */
KEDGE__INLINE int64_t rebuild_one(struct kedge__field_bits *b, size_t i, int64_t guess, bool with_third, unsigned width)
{
	unsigned some = b->lengths[i] != 0, count = b->lengths[i] - some;
	uint64_t r = read_bits(b->bits, b->at, count, width) | (uint64_t)some << count;
	uint64_t v = (uint64_t)kedge__field_unzigzag(r);

	b->at += count;
	if (with_third)
		v = with_zeros((int64_t)(v + (uint64_t)without_zeros(guess, b->zeros[i])), b->zeros[i], width);
	else
		v += (uint64_t)guess;
	return kedge__field_wrap(v, width);
}

KEDGE__INLINE void rebuild(uint8_t *raw, struct kedge__field_bits b, size_t n, enum kedge__field_kind kind,
			   struct kedge__field_reach reach, bool with_third, unsigned width)
{
	size_t start = KEDGE__MIN(kedge__field_start(kind, reach), n);
	int64_t v = 0;

	for (size_t i = 0; i < start; i++) {
		v = rebuild_one(&b, i, v, with_third, width);
		kedge__field_store(raw, i, (uint64_t)v, width);
	}
	if (reach.step == 1)
		for (size_t i = start; i < n; i++) {
			int64_t guess = kedge__field_predict(kind, raw, i, (uint64_t)v, width, reach);

			v = rebuild_one(&b, i, guess, with_third, width);
			kedge__field_store(raw, i, (uint64_t)v, width);
		}
	else
		for (size_t i = start; i < n; i++) {
			uint64_t before = kind ? (uint64_t)kedge__field_load(raw, i - reach.step, width) : 0;
			int64_t guess = kedge__field_predict(kind, raw, i, before, width, reach);

			v = rebuild_one(&b, i, guess, with_third, width);
			kedge__field_store(raw, i, (uint64_t)v, width);
		}
}

KEDGE__INLINE void rebuild_by_kind(const struct kedge__field *f, uint8_t *raw, struct kedge__field_bits b,
				   unsigned width)
{
#define CALL(kind)                                                                                                     \
	(f->zeros ? rebuild(raw, b, f->n, kind, f->reach, true, width)                                                 \
		  : rebuild(raw, b, f->n, kind, f->reach, false, width))
	BY_KIND(f->kind, CALL)
#undef CALL
}

static void rebuild_any(const struct kedge__field *f, struct kedge__field_bits b, uint8_t *raw)
{
	if (f->width == 8)
		rebuild_by_kind(f, raw, b, 8);
	else if (f->width == 4)
		rebuild_by_kind(f, raw, b, 4);
	else
		rebuild_by_kind(f, raw, b, 2);
}
