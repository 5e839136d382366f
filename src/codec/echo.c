/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Codec echo: codec field for blocks that are large enough to have in them what their numbers are echoes of. A block is
 * made of parts, which are packed as blocks of field are, and so remain in a processor's cache; before each stand
 * the echoes that are in it.
 */
#include "codec/echo.h"
#include "codec/codec_table.h"
#include "codec/field.h"

#define PART_BYTES  KEDGE__ECHO_PART
#define PART_HEAD   8
#define FLAGS       2 /* bits: */
#define BACKWARDS   1
#define NEGATED     2
#define VARINT_MOST 5
#define ECHO_LEAST  4 /* numbers; what a part, or where it begins, cuts off and is shorter is none */

/* ------------------------------------------------------------------ echoes of a part */

static uint8_t *put_varint(uint8_t *out, uint32_t v)
{
	for (; v >= 128; v >>= 7)
		*out++ = (uint8_t)(v | 128);
	*out++ = (uint8_t)v;
	return out;
}

static bool get_varint(const uint8_t **in, const uint8_t *end, uint32_t *v)
{
	uint64_t got = 0;

	for (unsigned shift = 0; shift < 7 * VARINT_MOST && *in < end; shift += 7) {
		uint8_t byte = *(*in)++;

		got |= (uint64_t)(byte & 127) << shift;
		*v = (uint32_t)got;
		if (!(byte & 128))
			return got <= UINT32_MAX;
	}
	return false;
}

/* Each as the numbers between it and the one before it, its length with the flags, and how far back it reaches. */
static size_t put_echoes(const struct kedge__echo_part *p, uint8_t *out)
{
	uint8_t *at = out;
	size_t end = p->start;

	for (size_t i = 0; i < p->count; i++) {
		const struct kedge__echo *e = &p->at[i];

		at = put_varint(at, (uint32_t)(e->to - end));
		at = put_varint(at, e->n << FLAGS | (e->negated ? NEGATED : 0) | (e->backwards ? BACKWARDS : 0));
		at = put_varint(at, e->to - e->from);
		end = e->to + e->n;
	}
	return (size_t)(at - out);
}

/* It is in the part, behind the one before it, and all that it is the echo of is before the part, or all is in it. */
static bool is_valid(const struct kedge__echo *e, size_t start, size_t end)
{
	size_t last = e->backwards ? (size_t)e->from - e->n + 1 : (size_t)e->from + e->n - 1;

	if (!e->n || e->n > end - e->to || e->from >= e->to || (e->backwards && e->from + UINT64_C(1) < e->n))
		return false;
	return e->from < start ? last < start : last >= start;
}

static bool get_echoes(const uint8_t *in, size_t bytes, size_t start, size_t n, struct kedge__echo_list *out,
		       bool *no_memory)
{
	const uint8_t *end = in + bytes;
	uint64_t at = start;

	while (in < end) {
		uint32_t gap, length, back;
		struct kedge__echo e;

		if (!get_varint(&in, end, &gap) || !get_varint(&in, end, &length) || !get_varint(&in, end, &back))
			return false;
		if (at + gap > start + n || back > at + gap || !back)
			return false;
		e = (struct kedge__echo){(uint32_t)(at + gap), length >> FLAGS, (uint32_t)(at + gap - back),
					 length & BACKWARDS, length & NEGATED};
		if (!is_valid(&e, start, start + n))
			return false;
		*no_memory = !kedge__array_push(out, e);
		if (*no_memory)
			return false;
		at = (uint64_t)e.to + e.n;
	}
	return true;
}

/* ------------------------------------------------------------------ encode */

struct cutter { /* of echoes of the block into those of parts */
	const struct kedge__echo_list *all;
	size_t next;
	struct kedge__echo_list part;
};

/* The first N numbers of E; the rest stays. */
static struct kedge__echo cut_off(struct kedge__echo *e, uint32_t n)
{
	struct kedge__echo first = *e;

	first.n = n;
	e->to += n;
	e->n -= n;
	e->from = e->backwards ? e->from - n : e->from + n;
	return first;
}

/* How many of its numbers are echoes of what is on the same side of START. */
static uint32_t same_side(const struct kedge__echo *e, size_t start)
{
	size_t n = e->n;

	if (e->backwards && e->from >= start)
		n = KEDGE__MIN(n, e->from - start + 1);
	else if (!e->backwards && e->from < start)
		n = KEDGE__MIN(n, start - e->from);
	return (uint32_t)n;
}

/* Those between START and END. */
static bool cut(struct cutter *c, struct kedge__echo *rest, size_t start, size_t end)
{
	c->part.count = 0;
	while (rest->n || c->next < c->all->count) {
		struct kedge__echo e;

		if (!rest->n)
			*rest = c->all->at[c->next++];
		if (rest->to >= end)
			return true;
		e = cut_off(rest, KEDGE__MIN(same_side(rest, start), (uint32_t)(end - rest->to)));
		if (e.n >= ECHO_LEAST && !kedge__array_push(&c->part, e))
			return false;
	}
	return true;
}

/* A part with its head; what does not shrink stays as it is. */
static int put_part(const struct kedge__codec_choice *how, const struct kedge__codec_input *in,
		    const struct kedge__echo_part *part, uint8_t *out, size_t room, size_t *used)
{
	size_t most = PART_HEAD + part->count * 3 * VARINT_MOST, echoes, n;
	int rc;

	if (room < most)
		return KEDGE_E_LIMIT;
	echoes = put_echoes(part, out + PART_HEAD);
	rc = kedge__field_pack(how, in, part, out + PART_HEAD + echoes,
			       KEDGE__MIN(room - PART_HEAD - echoes, in->bytes - 1), &n, NULL);
	if (rc == KEDGE_E_LIMIT) {
		if (room < PART_HEAD + in->bytes)
			return rc;
		echoes = 0;
		n = in->bytes;
		memcpy(out + PART_HEAD, in->raw, n);
		rc = 0;
	}
	kedge__put32(out, (uint32_t)echoes);
	kedge__put32(out + 4, (uint32_t)n);
	*used = PART_HEAD + echoes + n;
	return rc;
}

static int put_parts(const struct kedge__codec_choice *how, const struct kedge__codec_input *in, struct cutter *c,
		     uint8_t *out, size_t room, size_t *used)
{
	unsigned width = kedge__element_width(in->type);
	struct kedge__echo rest = {.n = 0};
	size_t filled = 0, n;
	int rc = 0;

	for (size_t at = 0; at < in->bytes && !rc; at += PART_BYTES) {
		struct kedge__codec_input piece = *in;
		struct kedge__echo_part part = {.block = in->raw, .start = at / width};

		piece.raw = (const uint8_t *)in->raw + at;
		piece.bytes = KEDGE__MIN(in->bytes - at, PART_BYTES);
		if (!cut(c, &rest, part.start, part.start + piece.bytes / width))
			return KEDGE_E_NOMEM;
		part.at = c->part.at;
		part.count = c->part.count;
		rc = put_part(how, &piece, &part, out + filled, room - filled, &n);
		filled += rc ? 0 : n;
	}
	if (!rc)
		*used = filled;
	return rc;
}

static size_t echo_bound(size_t raw)
{
	return raw + (raw / PART_BYTES + 1) * (PART_HEAD + 3 * VARINT_MOST * (PART_BYTES / 4 / ECHO_LEAST));
}

static int echo_encode(const struct kedge__codec_choice *how, const struct kedge__codec_input *in, void *out,
		       size_t room, size_t *used, uint16_t *param, struct kedge__error *err)
{
	unsigned width = kedge__element_width(in->type);
	struct kedge__echo_list all = {0};
	struct cutter c = {.all = &all};
	int rc;

	if (!kedge__element_is_float(in->type) || width < 4)
		return kedge__error_set(err, KEDGE_E_LIMIT, 0,
					"codec echo: only floating-point numbers of 4 and 8 bytes are supported");
	rc = kedge__echo_find(in->raw, in->bytes / width, width, &all) ? 0 : KEDGE_E_NOMEM;
	if (!rc)
		rc = put_parts(how, in, &c, out, room, used);
	kedge__array_done(&all);
	kedge__array_done(&c.part);
	if (rc == KEDGE_E_LIMIT)
		return kedge__error_set(err, rc, 0, "codec echo: does not fit into %zu bytes", room);
	*param = (uint16_t)kedge__width_log2(width);
	return rc ? kedge__error_nomem(err) : 0;
}

/* ------------------------------------------------------------------ decode */

static int damaged(struct kedge__error *err)
{
	return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "codec echo: the block is damaged");
}

/* The part that is BYTES bytes of RAW, which begin at AT, from *IN on. */
static int get_part(const uint8_t **in, const uint8_t *end, unsigned width, uint8_t *raw, size_t at, size_t bytes,
		    struct kedge__echo_list *echoes, struct kedge__error *err)
{
	struct kedge__echo_part part = {.block = raw, .start = at / width};
	bool no_memory = false;
	size_t head, n;
	int rc = 0;

	if (end - *in < PART_HEAD)
		return damaged(err);
	head = kedge__get32(*in);
	n = kedge__get32(*in + 4);
	*in += PART_HEAD;
	if (head > (size_t)(end - *in) || n > (size_t)(end - *in) - head || (n == bytes && head))
		return damaged(err);
	echoes->count = 0;
	if (!get_echoes(*in, head, part.start, bytes / width, echoes, &no_memory))
		return no_memory ? kedge__error_nomem(err) : damaged(err);
	part.at = echoes->at;
	part.count = echoes->count;
	if (n == bytes)
		memcpy(raw + at, *in, n);
	else
		rc = kedge__field_unpack(*in + head, n, width, &part, raw + at, bytes, err);
	*in += head + n;
	return rc;
}

static int echo_decode(const void *in, size_t in_bytes, uint16_t param, const void *base, void *raw, size_t raw_bytes,
		       struct kedge__error *err)
{
	const uint8_t *at = in, *end = at + in_bytes;
	struct kedge__echo_list echoes = {0};
	int rc = 0;

	(void)base;
	if (param != 2 && param != 3)
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "codec echo: invalid parameter %u", param);
	for (size_t done = 0; done < raw_bytes && !rc; done += PART_BYTES)
		rc = get_part(&at, end, 1u << param, raw, done, KEDGE__MIN(raw_bytes - done, (size_t)PART_BYTES),
			      &echoes, err);
	kedge__array_done(&echoes);
	return rc || at == end ? rc : damaged(err);
}

const struct kedge__codec kedge__codec_echo = {
    .id = KEDGE__CODEC_ECHO,
    .name = "echo",
    .bound = echo_bound,
    .encode = echo_encode,
    .decode = echo_decode,
};
