/*
 * Codec field: numbers as the difference to a prediction from their neighbours. Of each difference the number of its
 * bits goes to one stream, which is coded by frequency, and the bits below the highest to another, as they are: where
 * data is a smooth field with noise in its low bits, there is nothing more to be had from those.
 *
 * Numbers that end in zeros (positions on a grid, halves, integers stored as floating point) are predicted without them
 * and their count goes to a third stream.
 */
#include "codec/field.h"
#include "codec/codec_table.h"
#include "codec/symbols.h"

#define HEADER      20
#define PAD         8 /* zeros behind the bits, so that a decoder may read eight bytes anywhere */
#define FLAG_ORDER  1 /* floating point: kedge__field_order() */
#define FLAG_ZEROS  2
#define ZEROS_EVERY 61 /* numbers, of which one is looked at */
#define ZEROS_COST  4  /* bits, of a count that is not that of the number before */

struct field {
	unsigned width;
	size_t n, tail;
	struct kedge__field_reach reach;
	enum kedge__field_kind kind;
	unsigned flags;
};

/* ------------------------------------------------------------------ residuals */

/* Trailing zeros, the count of a 0 being all bits. */
KEDGE__INLINE unsigned zeros_of(int64_t v, unsigned width)
{
	return v ? (unsigned)__builtin_ctzll((uint64_t)v) : width * 8;
}

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
	unsigned z = with_third ? zeros_of(v, width) : 0;
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

KEDGE__INLINE uint64_t replace_by_kind(const struct field *f, uint8_t *p, uint8_t *lengths, uint8_t *zeros,
				       unsigned width)
{
#define CALL(kind)                                                                                                     \
	(f->flags & FLAG_ZEROS ? replace(p, lengths, zeros, f->n, kind, f->reach, true, width)                         \
			       : replace(p, lengths, zeros, f->n, kind, f->reach, false, width))
	BY_KIND(f->kind, CALL)
#undef CALL
}

static uint64_t replace_any(const struct field *f, uint8_t *p, uint8_t *lengths, uint8_t *zeros)
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

/* BITS bits from bit AT on; up to 63. */
KEDGE__INLINE uint64_t read_bits(const uint8_t *p, uint64_t at, unsigned bits, unsigned width)
{
	unsigned shift = at % 8;
	uint64_t v = kedge__get64(p + at / 8) >> shift;

	if (width == 8 && bits + shift > 64)
		v |= (uint64_t)p[at / 8 + 8] << (64 - shift);
	return v & ((UINT64_C(1) << bits) - 1);
}

struct bit_reader {
	const uint8_t *bits, *lengths, *zeros;
	uint64_t at;
};

/* Number I, given what it was predicted to be. */
KEDGE__INLINE int64_t rebuild_one(struct bit_reader *b, size_t i, int64_t guess, bool with_third, unsigned width)
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

KEDGE__INLINE void rebuild(uint8_t *raw, struct bit_reader b, size_t n, enum kedge__field_kind kind,
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

KEDGE__INLINE void rebuild_by_kind(const struct field *f, uint8_t *raw, struct bit_reader b, unsigned width)
{
#define CALL(kind)                                                                                                     \
	(f->flags & FLAG_ZEROS ? rebuild(raw, b, f->n, kind, f->reach, true, width)                                    \
			       : rebuild(raw, b, f->n, kind, f->reach, false, width))
	BY_KIND(f->kind, CALL)
#undef CALL
}

static void rebuild_any(const struct field *f, uint8_t *raw, struct bit_reader b)
{
	if (f->width == 8)
		rebuild_by_kind(f, raw, b, 8);
	else if (f->width == 4)
		rebuild_by_kind(f, raw, b, 4);
	else
		rebuild_by_kind(f, raw, b, 2);
}

/* ------------------------------------------------------------------ encode */

static size_t field_bound(size_t raw)
{
	return HEADER + PAD + raw + 2 * kedge__symbols_bound(raw / 2 + 1);
}

/* Do the trailing zeros, as a stream of their own, save more than they take? A count that is that of the number before
 * it takes next to nothing. */
KEDGE__INLINE bool zeros_pay_width(const uint8_t *p, size_t n, unsigned width)
{
	int64_t saved = 0;

	for (size_t i = 1; i < n; i += ZEROS_EVERY) {
		int64_t v = kedge__field_load(p, i, width), before = kedge__field_load(p, i - 1, width);
		unsigned z = zeros_of(v, width);

		if (z > 1 && v != before)
			saved += z + 1;
		if (z != zeros_of(before, width))
			saved -= ZEROS_COST;
	}
	return saved > (int64_t)(n / ZEROS_EVERY);
}

static bool zeros_pay(const uint8_t *p, size_t n, unsigned width)
{
	return width == 8 ? zeros_pay_width(p, n, 8) : width == 4 ? zeros_pay_width(p, n, 4) : zeros_pay_width(p, n, 2);
}

static bool field_init(struct field *f, const struct kedge__codec_choice *how, const struct kedge__codec_input *in)
{
	unsigned width = kedge__element_width(in->type), step = kedge__element_step(in->type);

	*f = (struct field){.width = width, .reach = {step, how->row * step, how->plane * step}};
	if (width < 2)
		return false;
	f->n = in->bytes / width;
	f->tail = in->bytes % width;
	f->flags = kedge__element_is_float(in->type) ? FLAG_ORDER : 0;
	return f->n > 0;
}

static void put_header(uint8_t *out, const struct field *f, size_t lengths_bytes)
{
	out[0] = (uint8_t)f->kind;
	out[1] = (uint8_t)f->flags;
	kedge__put16(out + 2, (uint16_t)f->reach.step);
	kedge__put32(out + 4, f->reach.row);
	kedge__put32(out + 8, f->reach.plane);
	kedge__put32(out + 12, (uint32_t)lengths_bytes);
	kedge__put32(out + 16, 0);
}

/* The streams, one behind the other, with the bits last. */
static int put_streams(const struct field *f, const uint8_t *p, const uint8_t *lengths, const uint8_t *zeros,
		       uint64_t bits, uint8_t *out, size_t room, size_t *used, struct kedge__error *err)
{
	size_t at = HEADER, n, bit_bytes = (size_t)((bits + 7) / 8) + PAD;
	int rc;

	if (room < HEADER + f->tail + bit_bytes)
		return kedge__error_set(err, KEDGE_E_LIMIT, 0, "codec field: does not fit into %zu bytes", room);
	rc = kedge__symbols_encode(lengths, f->n, f->reach.row, out + at, room - at - f->tail - bit_bytes, &n, err);
	if (rc)
		return rc;
	put_header(out, f, n);
	at += n;
	if (f->flags & FLAG_ZEROS) {
		rc = kedge__symbols_encode(zeros, f->n, f->reach.row, out + at, room - at - f->tail - bit_bytes, &n,
					   err);
		if (rc)
			return rc;
		kedge__put32(out + 16, (uint32_t)n);
		at += n;
	}
	memset(out + at + bit_bytes - PAD, 0, PAD);
	f->width == 8   ? write_bits(p, lengths, f->n, out + at, 8)
	: f->width == 4 ? write_bits(p, lengths, f->n, out + at, 4)
			: write_bits(p, lengths, f->n, out + at, 2);
	*used = at + bit_bytes;
	return 0;
}

static int field_encode(const struct kedge__codec_choice *how, const struct kedge__codec_input *in, void *out,
			size_t room, size_t *used, uint16_t *param, struct kedge__error *err)
{
	struct field f;
	uint8_t *p, *lengths, *zeros;
	uint64_t bits;
	int rc;

	if (!field_init(&f, how, in))
		return kedge__error_set(err, KEDGE_E_LIMIT, 0, "codec field: numbers of two or more bytes are needed");
	p = kedge__malloc(f.n * f.width + 2 * f.n);
	if (!p)
		return kedge__error_nomem(err);
	lengths = p + f.n * f.width;
	zeros = lengths + f.n;
	memcpy(p, in->raw, f.n * f.width);
	if (f.flags & FLAG_ORDER)
		kedge__field_order(p, f.n, f.width);
	f.kind = kedge__field_choose(p, f.n, f.width, f.reach);
	if (zeros_pay(p, f.n, f.width))
		f.flags |= FLAG_ZEROS;
	bits = replace_any(&f, p, lengths, zeros);
	rc = put_streams(&f, p, lengths, zeros, bits, out, room, used, err);
	kedge__free(p);
	if (rc)
		return rc;
	memcpy((uint8_t *)out + *used, (const uint8_t *)in->raw + f.n * f.width, f.tail);
	*used += f.tail;
	*param = (uint16_t)kedge__width_log2(f.width);
	return 0;
}

/* ------------------------------------------------------------------ decode */

static int damaged(struct kedge__error *err, const char *what)
{
	return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "codec field: %s", what);
}

static int get_header(struct field *f, const uint8_t *in, size_t in_bytes, uint16_t param, size_t raw_bytes,
		      struct kedge__error *err)
{
	unsigned log2 = param;

	if (log2 < 1 || log2 > 3)
		return damaged(err, "the parameter is not possible");
	*f = (struct field){.width = 1u << log2};
	f->n = raw_bytes / f->width;
	f->tail = raw_bytes % f->width;
	if (in_bytes < HEADER + PAD + f->tail || !f->n)
		return damaged(err, "the block is cut short");
	if (in[0] >= KEDGE__FIELD_KINDS || in[1] & ~(FLAG_ORDER | FLAG_ZEROS))
		return damaged(err, "the header is not possible");
	f->kind = (enum kedge__field_kind)in[0];
	f->flags = in[1];
	f->reach = (struct kedge__field_reach){kedge__get16(in + 2), kedge__get32(in + 4), kedge__get32(in + 8)};
	return kedge__field_reach_valid(f->kind, f->reach) ? 0 : damaged(err, "the header is not possible");
}

/* The number of bits that LENGTHS say, or UINT64_MAX for an impossible length or count of zeros. */
static uint64_t sum_lengths(const struct field *f, const uint8_t *lengths, const uint8_t *zeros)
{
	unsigned highest = 0;
	uint64_t bits = 0;

	for (size_t i = 0; i < f->n; i++) {
		bits += (unsigned)(lengths[i] - (lengths[i] != 0));
		highest = KEDGE__MAX(highest, (unsigned)lengths[i]);
	}
	for (size_t i = 0; zeros && i < f->n; i++)
		highest = KEDGE__MAX(highest, (unsigned)zeros[i]);
	return highest <= f->width * 8 ? bits : UINT64_MAX;
}

static int get_streams(const struct field *f, const uint8_t *in, size_t in_bytes, uint8_t *lengths, uint8_t *zeros,
		       const uint8_t **bits, struct kedge__error *err)
{
	size_t a = kedge__get32(in + 12), b = kedge__get32(in + 16);
	size_t left = in_bytes - HEADER - f->tail;
	uint64_t count;
	int rc;

	if (a > left || b > left - a || (!zeros && b))
		return damaged(err, "the block is cut short");
	rc = kedge__symbols_decode(in + HEADER, a, f->reach.row, lengths, f->n, err);
	if (!rc && zeros)
		rc = kedge__symbols_decode(in + HEADER + a, b, f->reach.row, zeros, f->n, err);
	if (rc)
		return rc;
	count = sum_lengths(f, lengths, zeros);
	if (count == UINT64_MAX || (count + 7) / 8 + PAD != left - a - b)
		return damaged(err, "lengths and bits do not fit each other");
	*bits = in + HEADER + a + b;
	return 0;
}

static int field_decode(const void *in, size_t in_bytes, uint16_t param, const void *base, void *raw, size_t raw_bytes,
			struct kedge__error *err)
{
	const uint8_t *bits;
	struct field f;
	uint8_t *lengths, *zeros;
	int rc = get_header(&f, in, in_bytes, param, raw_bytes, err);

	(void)base;
	if (rc)
		return rc;
	lengths = kedge__malloc(2 * f.n);
	if (!lengths)
		return kedge__error_nomem(err);
	zeros = f.flags & FLAG_ZEROS ? lengths + f.n : NULL;
	rc = get_streams(&f, in, in_bytes, lengths, zeros, &bits, err);
	if (!rc) {
		rebuild_any(&f, raw, (struct bit_reader){bits, lengths, zeros, 0});
		if (f.flags & FLAG_ORDER)
			kedge__field_order(raw, f.n, f.width);
		memcpy((uint8_t *)raw + f.n * f.width, (const uint8_t *)in + in_bytes - f.tail, f.tail);
	}
	kedge__free(lengths);
	return rc;
}

const struct kedge__codec kedge__codec_field = {
    .id = KEDGE__CODEC_FIELD,
    .name = "field",
    .bound = field_bound,
    .encode = field_encode,
    .decode = field_decode,
};
