/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Codec field: numbers as the difference to a prediction from their neighbours. Of each difference the number of its
 * bits is coded by frequency, and the bits below the highest follow as they are: where data is a smooth field with
 * noise in its low bits, there is nothing more to be had from those.
 *
 * Numbers that end in zeros (positions on a grid, halves, integers stored as floating point) are predicted without them
 * and their count goes to a stream of its own.
 */
#include "codec/codec_table.h"
#include "codec/field_loops.h"

#define HEADER     16
#define PAD        KEDGE__SYMBOL_PAD
#define FLAG_ORDER 1 /* floating point */
#define FLAG_ZEROS 2
#define FLAG_BIG   4         /* big-endian */
#define PARAM_FORM (1u << 8) /* of the stored bytes; the low byte is the logarithm of the width */

/* ------------------------------------------------------------------ encode */

static size_t field_bound(size_t raw)
{
	return HEADER + PAD + 8 + kedge__symbols_bound(raw / 2 + 1, 2) + kedge__symbols_bound(raw / 2 + 1, 0);
}

static bool field_init(struct kedge__field *f, const struct kedge__codec_choice *how,
		       const struct kedge__codec_input *in)
{
	unsigned width = kedge__element_width(in->type), step = kedge__element_step(in->type);

	*f = (struct kedge__field){.width = width, .reach = {step, how->row * step, how->plane * step}};
	/* Numbers of records have more in common with those of the record before. */
	if (width && how->level && (unsigned)how->level % width == 0)
		f->reach = (struct kedge__field_reach){.step = (unsigned)how->level / width};
	if (width < 2)
		return false;
	f->n = in->bytes / width;
	f->tail = in->bytes % width;
	f->order = kedge__element_is_float(in->type);
	return f->n > 0;
}

static void put_header(uint8_t *out, const struct kedge__field *f, size_t zeros_bytes)
{
	out[0] = (uint8_t)f->kind;
	out[1] = (uint8_t)((f->order ? FLAG_ORDER : 0) | (f->zeros ? FLAG_ZEROS : 0) | (f->big_endian ? FLAG_BIG : 0));
	kedge__put16(out + 2, (uint16_t)f->reach.step);
	kedge__put32(out + 4, f->reach.row);
	kedge__put32(out + 8, f->reach.plane);
	kedge__put32(out + 12, (uint32_t)zeros_bytes);
}

static struct kedge__symbols symbols_of(const struct kedge__field *f, uint8_t *at, void *values)
{
	return (struct kedge__symbols){.at = at,
				       .n = f->n,
				       .row = f->reach.row,
				       .highest = f->width * 8,
				       .width = values ? f->width : 0,
				       .values = values};
}

struct work {             /* for one block, behind each other */
	uint8_t *numbers; /* and then, when they are replaced, the space of symbols.c */
	uint8_t *residuals, *lengths, *zeros;
};

static int put_streams(const struct kedge__field *f, const struct work *w, uint8_t *out, size_t room, size_t *used,
		       struct kedge__error *err)
{
	struct kedge__symbols s = symbols_of(f, w->zeros, NULL);
	size_t at = HEADER, n = 0;
	int rc = 0;

	if (room < HEADER + PAD + f->tail)
		return kedge__error_set(err, KEDGE_E_LIMIT, 0, "codec field: does not fit into %zu bytes", room);
	room -= PAD + f->tail;
	if (f->zeros)
		rc = kedge__symbols_encode(&s, w->numbers, out + at, room - at, &n, err);
	if (rc)
		return rc;
	put_header(out, f, n);
	at += n;
	s = symbols_of(f, w->lengths, w->residuals);
	rc = kedge__symbols_encode(&s, w->numbers, out + at, room - at, &n, err);
	if (rc)
		return rc;
	memset(out + at + n, 0, PAD);
	*used = at + n + PAD;
	return 0;
}

/* Little-endian numbers to big-endian ones, or back. */
static void swap(const struct kedge__field *f, const uint8_t *from, uint8_t *to)
{
	for (size_t i = 0; f->width == 8 && i < f->n; i++)
		kedge__put64(to + 8 * i, __builtin_bswap64(kedge__get64(from + 8 * i)));
	for (size_t i = 0; f->width == 4 && i < f->n; i++)
		kedge__put32(to + 4 * i, __builtin_bswap32(kedge__get32(from + 4 * i)));
	for (size_t i = 0; f->width == 2 && i < f->n; i++)
		kedge__put16(to + 2 * i, __builtin_bswap16(kedge__get16(from + 2 * i)));
}

static void take(struct kedge__field *f, const struct kedge__field_loops *loops, const struct kedge__codec_input *in,
		 const struct work *w, uint64_t *bits)
{
	if (f->big_endian)
		swap(f, in->raw, w->residuals);
	loops->take(f, f->big_endian ? w->residuals : in->raw, w->numbers);
	f->kind = loops->choose(f, w->numbers, bits);
}

/* Integers without a sign may be big-endian numbers of any kind, which have no type of their own. */
static void take_best(struct kedge__field *f, const struct kedge__field_loops *loops,
		      const struct kedge__codec_input *in, const struct work *w)
{
	struct kedge__field best = *f, other = *f;
	uint64_t least, bits;

	take(&best, loops, in, w, &least);
	*f = best;
	if (in->type != KEDGE_U16 && in->type != KEDGE_U32 && in->type != KEDGE_U64)
		return;
	other.big_endian = true;
	for (int order = 0; order < 2; order++) {
		other.order = order;
		take(&other, loops, in, w, &bits);
		if (bits < least) {
			least = bits;
			best = other;
		}
	}
	*f = best;
	if (!best.big_endian || !best.order)
		take(f, loops, in, w, &bits);
}

static bool work_new(struct work *w, const struct kedge__field *f)
{
	/* Numbers take less than the space that writing them takes. */
	size_t space = (kedge__symbols_space(f->n, f->width) + 7) / 8 * 8;

	w->numbers = kedge__malloc(space + f->n * (f->width + 2));
	if (!w->numbers)
		return false;
	w->residuals = w->numbers + space;
	w->lengths = w->residuals + f->n * f->width;
	w->zeros = w->lengths + f->n;
	return true;
}

/* Residuals of numbers: those between echoes, and echoes. */
static void replace(const struct kedge__field *f, const struct kedge__field_loops *loops,
		    const struct kedge__echo_part *part, const struct work *w)
{
	size_t at = 0;

	for (size_t i = 0; part && i < part->count; i++) {
		const struct kedge__echo *e = &part->at[i];

		loops->replace(f, w->numbers, w->residuals, w->lengths, w->zeros, at, e->to - part->start);
		loops->echo(f, part, e, w->numbers, w->residuals, w->lengths, w->zeros);
		at = e->to - part->start + e->n;
	}
	loops->replace(f, w->numbers, w->residuals, w->lengths, w->zeros, at, f->n);
}

int kedge__field_pack(const struct kedge__codec_choice *how, const struct kedge__codec_input *in,
		      const struct kedge__echo_part *part, void *out, size_t room, size_t *used,
		      struct kedge__error *err)
{
	const struct kedge__field_loops *loops = kedge__field_loops();
	struct kedge__field f;
	struct work w;
	int rc;

	if (!field_init(&f, how, in))
		return kedge__error_set(err, KEDGE_E_LIMIT, 0,
					"codec field: only numbers of two or more bytes are supported");
	if (!work_new(&w, &f))
		return kedge__error_nomem(err);
	take_best(&f, loops, in, &w);
	f.zeros = kedge__field_zeros_pay(&f, w.numbers);
	replace(&f, loops, part, &w);
	rc = put_streams(&f, &w, out, room, used, err);
	kedge__free(w.numbers);
	if (rc)
		return rc;
	memcpy((uint8_t *)out + *used, (const uint8_t *)in->raw + f.n * f.width, f.tail);
	*used += f.tail;
	return 0;
}

static int field_encode(const struct kedge__codec_choice *how, const struct kedge__codec_input *in, void *out,
			size_t room, size_t *used, uint16_t *param, struct kedge__error *err)
{
	int rc = kedge__field_pack(how, in, NULL, out, room, used, err);

	if (!rc)
		*param = (uint16_t)(PARAM_FORM | kedge__width_log2(kedge__element_width(in->type)));
	return rc;
}

/* ------------------------------------------------------------------ decode */

static int damaged(struct kedge__error *err, const char *what)
{
	return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "codec field: %s", what);
}

static int get_header(struct kedge__field *f, const uint8_t *in, size_t in_bytes, unsigned width, size_t raw_bytes,
		      struct kedge__error *err)
{
	*f = (struct kedge__field){.width = width};
	f->n = raw_bytes / f->width;
	f->tail = raw_bytes % f->width;
	if (in_bytes < HEADER + PAD + f->tail || !f->n)
		return damaged(err, "the block is cut short");
	if (in[0] >= KEDGE__FIELD_KINDS || in[1] & ~(FLAG_ORDER | FLAG_ZEROS | FLAG_BIG))
		return damaged(err, "the header is invalid");
	f->kind = (enum kedge__field_kind)in[0];
	f->order = in[1] & FLAG_ORDER;
	f->zeros = in[1] & FLAG_ZEROS;
	f->big_endian = in[1] & FLAG_BIG;
	f->reach = (struct kedge__field_reach){kedge__get16(in + 2), kedge__get32(in + 4), kedge__get32(in + 8)};
	return kedge__field_reach_valid(f->kind, f->reach) ? 0 : damaged(err, "the header is invalid");
}

static int get_streams(const struct kedge__field *f, const uint8_t *in, size_t in_bytes, void *residuals,
		       uint8_t *lengths, uint8_t *zeros, struct kedge__error *err)
{
	size_t first = kedge__get32(in + 12), left = in_bytes - HEADER - PAD - f->tail;
	struct kedge__symbols s = symbols_of(f, zeros, NULL);
	int rc = 0;

	if (first > left || (!f->zeros && first))
		return damaged(err, "the block is cut short");
	if (f->zeros)
		rc = kedge__symbols_decode(&s, in + HEADER, first, err);
	if (rc)
		return rc;
	s = symbols_of(f, lengths, residuals);
	return kedge__symbols_decode(&s, in + HEADER + first, left - first, err);
}

/* Numbers out of residuals: those between echoes, and echoes. */
static void rebuild(const struct kedge__field *f, const struct kedge__field_loops *loops,
		    const struct kedge__echo_part *part, uint8_t *numbers, const uint8_t *zeros)
{
	size_t at = 0;

	for (size_t i = 0; part && i < part->count; i++) {
		const struct kedge__echo *e = &part->at[i];

		loops->rebuild(f, numbers, zeros, at, e->to - part->start);
		loops->rebuild_echo(f, part, e, numbers, zeros);
		at = e->to - part->start + e->n;
	}
	loops->rebuild(f, numbers, zeros, at, f->n);
}

int kedge__field_unpack(const void *in, size_t in_bytes, unsigned width, const struct kedge__echo_part *part, void *raw,
			size_t raw_bytes, struct kedge__error *err)
{
	const struct kedge__field_loops *loops = kedge__field_loops();
	struct kedge__field f;
	uint8_t *numbers, *lengths, *zeros;
	int rc = get_header(&f, in, in_bytes, width, raw_bytes, err);

	if (!rc && part && part->count && (!f.order || f.big_endian))
		rc = damaged(err, "echoes of what is no floating-point number");
	if (rc)
		return rc;
	numbers = kedge__malloc(f.n * f.width + 2 * f.n);
	if (!numbers)
		return kedge__error_nomem(err);
	lengths = numbers + f.n * f.width;
	zeros = lengths + f.n;
	rc = get_streams(&f, in, in_bytes, numbers, lengths, zeros, err);
	if (!rc) {
		rebuild(&f, loops, part, numbers, zeros);
		loops->give(&f, numbers, raw);
		if (f.big_endian)
			swap(&f, raw, raw);
		memcpy((uint8_t *)raw + f.n * f.width, (const uint8_t *)in + in_bytes - f.tail, f.tail);
	}
	kedge__free(numbers);
	return rc;
}

static int field_decode(const void *in, size_t in_bytes, uint16_t param, const void *base, void *raw, size_t raw_bytes,
			struct kedge__error *err)
{
	unsigned log2 = param ^ PARAM_FORM;

	(void)base;
	if (log2 < 1 || log2 > 3)
		return damaged(err, "the parameter is invalid");
	return kedge__field_unpack(in, in_bytes, 1u << log2, NULL, raw, raw_bytes, err);
}

const struct kedge__codec kedge__codec_field = {
    .id = KEDGE__CODEC_FIELD,
    .name = "field",
    .bound = field_bound,
    .encode = field_encode,
    .decode = field_decode,
};
