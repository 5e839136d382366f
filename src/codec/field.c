/*
 * Codec field: numbers as the difference to a prediction from their neighbours. Of each difference the number of its
 * bits goes to one stream, which is coded by frequency, and the bits below the highest to another, as they are: where
 * data is a smooth field with noise in its low bits, there is nothing more to be had from those.
 *
 * Numbers that end in zeros (positions on a grid, halves, integers stored as floating point) are predicted without them
 * and their count goes to a third stream.
 */
#include "codec/codec_table.h"
#include "codec/field_loops.h"
#include "codec/symbols.h"

#define HEADER      20
#define PAD         8 /* zeros behind the bits, so that a decoder may read eight bytes anywhere */
#define FLAG_ORDER  1 /* floating point: kedge__field_order() */
#define FLAG_ZEROS  2
#define ZEROS_EVERY 61 /* numbers, of which one is looked at */
#define ZEROS_COST  4  /* bits, of a count that is not that of the number before */

static const struct kedge__field_loops *loops(void)
{
	const struct kedge__field_loops *l = kedge__field_loops_bmi2();

	return l ? l : &kedge__field_loops_portable;
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
		unsigned z = kedge__field_zeros(v, width);

		if (z > 1 && v != before)
			saved += z + 1;
		if (z != kedge__field_zeros(before, width))
			saved -= ZEROS_COST;
	}
	return saved > (int64_t)(n / ZEROS_EVERY);
}

static bool zeros_pay(const uint8_t *p, size_t n, unsigned width)
{
	return width == 8 ? zeros_pay_width(p, n, 8) : width == 4 ? zeros_pay_width(p, n, 4) : zeros_pay_width(p, n, 2);
}

static bool field_init(struct kedge__field *f, const struct kedge__codec_choice *how,
		       const struct kedge__codec_input *in)
{
	unsigned width = kedge__element_width(in->type), step = kedge__element_step(in->type);

	*f = (struct kedge__field){.width = width, .reach = {step, how->row * step, how->plane * step}};
	if (width < 2)
		return false;
	f->n = in->bytes / width;
	f->tail = in->bytes % width;
	f->order = kedge__element_is_float(in->type);
	return f->n > 0;
}

static void put_header(uint8_t *out, const struct kedge__field *f, size_t lengths_bytes)
{
	out[0] = (uint8_t)f->kind;
	out[1] = (uint8_t)((f->order ? FLAG_ORDER : 0) | (f->zeros ? FLAG_ZEROS : 0));
	kedge__put16(out + 2, (uint16_t)f->reach.step);
	kedge__put32(out + 4, f->reach.row);
	kedge__put32(out + 8, f->reach.plane);
	kedge__put32(out + 12, (uint32_t)lengths_bytes);
	kedge__put32(out + 16, 0);
}

/* The streams, one behind the other, with the bits last. */
static int put_streams(const struct kedge__field *f, const uint8_t *p, const uint8_t *lengths, const uint8_t *zeros,
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
	if (f->zeros) {
		rc = kedge__symbols_encode(zeros, f->n, f->reach.row, out + at, room - at - f->tail - bit_bytes, &n,
					   err);
		if (rc)
			return rc;
		kedge__put32(out + 16, (uint32_t)n);
		at += n;
	}
	memset(out + at + bit_bytes - PAD, 0, PAD);
	loops()->write(f, p, lengths, out + at);
	*used = at + bit_bytes;
	return 0;
}

static int field_encode(const struct kedge__codec_choice *how, const struct kedge__codec_input *in, void *out,
			size_t room, size_t *used, uint16_t *param, struct kedge__error *err)
{
	struct kedge__field f;
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
	if (f.order)
		kedge__field_order(p, f.n, f.width);
	f.kind = kedge__field_choose(p, f.n, f.width, f.reach);
	f.zeros = zeros_pay(p, f.n, f.width);
	bits = loops()->replace(&f, p, lengths, zeros);
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

static int get_header(struct kedge__field *f, const uint8_t *in, size_t in_bytes, uint16_t param, size_t raw_bytes,
		      struct kedge__error *err)
{
	unsigned log2 = param;

	if (log2 < 1 || log2 > 3)
		return damaged(err, "the parameter is not possible");
	*f = (struct kedge__field){.width = 1u << log2};
	f->n = raw_bytes / f->width;
	f->tail = raw_bytes % f->width;
	if (in_bytes < HEADER + PAD + f->tail || !f->n)
		return damaged(err, "the block is cut short");
	if (in[0] >= KEDGE__FIELD_KINDS || in[1] & ~(FLAG_ORDER | FLAG_ZEROS))
		return damaged(err, "the header is not possible");
	f->kind = (enum kedge__field_kind)in[0];
	f->order = in[1] & FLAG_ORDER;
	f->zeros = in[1] & FLAG_ZEROS;
	f->reach = (struct kedge__field_reach){kedge__get16(in + 2), kedge__get32(in + 4), kedge__get32(in + 8)};
	return kedge__field_reach_valid(f->kind, f->reach) ? 0 : damaged(err, "the header is not possible");
}

/* The number of bits that LENGTHS say, or UINT64_MAX for an impossible length or count of zeros. */
static uint64_t sum_lengths(const struct kedge__field *f, const uint8_t *lengths, const uint8_t *zeros)
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

static int get_streams(const struct kedge__field *f, const uint8_t *in, size_t in_bytes, uint8_t *lengths,
		       uint8_t *zeros, const uint8_t **bits, struct kedge__error *err)
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
	struct kedge__field f;
	uint8_t *lengths, *zeros;
	int rc = get_header(&f, in, in_bytes, param, raw_bytes, err);

	(void)base;
	if (rc)
		return rc;
	lengths = kedge__malloc(2 * f.n);
	if (!lengths)
		return kedge__error_nomem(err);
	zeros = f.zeros ? lengths + f.n : NULL;
	rc = get_streams(&f, in, in_bytes, lengths, zeros, &bits, err);
	if (!rc) {
		loops()->rebuild(&f, (struct kedge__field_bits){bits, lengths, zeros, 0}, raw);
		if (f.order)
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
