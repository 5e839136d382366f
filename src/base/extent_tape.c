/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * extent_tape.c: writing and reading tapes. An extent begins with a varint: its kind, flags, and its length, in units
 * if it is a multiple of them. What is expected is not written: an extent begins where the one before it ends, a
 * literal where the literal before it ends, a copy goes on at its source, a fill has the pattern of the last one.
 */
#include "base/extent_tape.h"

#define JUMP     4u  /* it begins further on: by how much follows */
#define BYTES    8u  /* the length is in bytes */
#define ELSE     16u /* its source is not the one that is expected: it follows */
#define SHIFT    5
#define MOST     64u            /* bytes of an extent, at most */
#define PART_MAX ((size_t)4096) /* bytes; then another part begins, so that a place is found soon */

void kedge__extent_tape_done(struct kedge__extent_tape *tape)
{
	for (size_t i = 0; i < tape->part_count; i++)
		kedge__free(tape->parts[i].bytes);
	kedge__free(tape->parts);
	*tape = (struct kedge__extent_tape){.shift = tape->shift};
}

/* ------------------------------------------------------------------ writing */

static uint8_t *put_varint(uint8_t *to, uint64_t v)
{
	for (; v >= 0x80; v >>= 7)
		*to++ = (uint8_t)(v | 0x80);
	*to++ = (uint8_t)v;
	return to;
}

/* Small numbers of either sign become small ones. */
static uint64_t fold(uint64_t difference)
{
	return difference << 1 ^ (0 - (difference >> 63));
}

static uint64_t unfold(uint64_t v)
{
	return v >> 1 ^ (0 - (v & 1));
}

static bool is_expected(const struct kedge__tape_state *s, const struct kedge__extent *e)
{
	switch (e->kind) {
	case KEDGE__EXTENT_LITERAL:
		return e->src == s->literal;
	case KEDGE__EXTENT_COPY:
		return e->src == s->copy && e->version == s->version;
	case KEDGE__EXTENT_FILL:
		return e->src == s->fill;
	case KEDGE__EXTENT_PARENT:
		break;
	}
	return true;
}

static uint8_t *put_source(uint8_t *to, const struct kedge__tape_state *s, const struct kedge__extent *e)
{
	if (e->kind == KEDGE__EXTENT_LITERAL)
		return put_varint(to, fold(e->src - s->literal));
	if (e->kind == KEDGE__EXTENT_FILL) {
		kedge__put64(to, e->src);
		return to + 8;
	}
	return put_varint(put_varint(to, fold(e->src - s->copy)), fold(e->version - s->version));
}

static void go_on(struct kedge__tape_state *s, const struct kedge__extent *e)
{
	s->addr = e->addr + e->len;
	if (e->kind == KEDGE__EXTENT_LITERAL)
		s->literal = e->src + e->len;
	if (e->kind == KEDGE__EXTENT_FILL)
		s->fill = e->src;
	if (e->kind == KEDGE__EXTENT_COPY) {
		s->copy = e->src + e->len;
		s->version = e->version;
	}
}

/* The last one of P is complete. */
static bool pack_last(struct kedge__tape_part *p, unsigned shift)
{
	const struct kedge__extent *e = &p->last;
	bool units = !(e->len & ((UINT64_C(1) << shift) - 1)), jump = e->addr != p->state.addr;
	bool expected = is_expected(&p->state, e);
	uint64_t length = units ? e->len >> shift : e->len;
	uint8_t *to;

	if (!kedge__array_grow((void **)&p->bytes, &p->room, p->used + MOST, 1))
		return false;
	to = put_varint(p->bytes + p->used, length << SHIFT | (expected ? 0 : ELSE) | (units ? 0 : BYTES) |
						(jump ? JUMP : 0) | (unsigned)e->kind);
	if (jump)
		to = put_varint(to, e->addr - p->state.addr);
	if (!expected)
		to = put_source(to, &p->state, e);
	p->used = (size_t)(to - p->bytes);
	go_on(&p->state, e);
	return true;
}

static bool add_part(struct kedge__extent_tape *tape, uint64_t start)
{
	if (!kedge__array_grow((void **)&tape->parts, &tape->part_room, tape->part_count + 1, sizeof(*tape->parts)))
		return false;
	tape->parts[tape->part_count++] = (struct kedge__tape_part){.start = start, .state.addr = start};
	return true;
}

const struct kedge__extent *kedge__extent_tape_last(const struct kedge__extent_tape *tape)
{
	return tape->part_count ? &tape->parts[tape->part_count - 1].last : NULL;
}

int kedge__extent_tape_append(struct kedge__extent_tape *tape, struct kedge__extent e, bool merge,
			      struct kedge__error *err)
{
	struct kedge__tape_part *p = tape->part_count ? &tape->parts[tape->part_count - 1] : NULL;

	if (!e.len)
		return 0;
	if (p && p->position && e.kind == KEDGE__EXTENT_LITERAL)
		e.src -= p->position;
	if (p && merge && kedge__extent_goes_on(&p->last, &e)) {
		p->last.len += e.len;
		return 0;
	}
	if (!p || p->used + MOST > PART_MAX) {
		e.src += p && e.kind == KEDGE__EXTENT_LITERAL ? p->position : 0;
		if (!add_part(tape, e.addr))
			return kedge__error_nomem(err);
		p = &tape->parts[tape->part_count - 1];
	} else if (!pack_last(p, tape->shift)) {
		return kedge__error_nomem(err);
	}
	p->last = e;
	tape->count++;
	return 0;
}

bool kedge__extent_tape_alternate(struct kedge__extent_tape *tape, uint64_t addr, uint64_t gap, uint64_t len,
				  uint64_t src)
{
	struct kedge__tape_part *p = tape->part_count ? &tape->parts[tape->part_count - 1] : NULL;
	uint64_t unit = (UINT64_C(1) << tape->shift) - 1;
	uint8_t *to;

	if (!p || p->used + 2 * MOST > p->room || p->position || (p->last.len & unit) || (gap & unit) || !gap || !len ||
	    p->last.kind != KEDGE__EXTENT_LITERAL || p->last.addr != p->state.addr || p->last.src != p->state.literal ||
	    p->last.addr + p->last.len != addr)
		return false;
	to = put_varint(p->bytes + p->used, p->last.len >> tape->shift << SHIFT | KEDGE__EXTENT_LITERAL);
	to = put_varint(to, gap >> tape->shift << SHIFT | KEDGE__EXTENT_PARENT);
	p->used = (size_t)(to - p->bytes);
	p->state.literal += p->last.len;
	p->state.addr = addr + gap;
	p->last.addr = addr + gap;
	p->last.len = len;
	p->last.src = src;
	tape->count += 2;
	return true;
}

/* Does FIRST, of a tape whose literals begin at POSITION, go on with the last of P? */
static bool is_joint(const struct kedge__tape_part *p, struct kedge__extent first, uint64_t position, bool join)
{
	struct kedge__extent last = p->last;

	last.src += last.kind == KEDGE__EXTENT_LITERAL ? p->position : 0;
	first.src += first.kind == KEDGE__EXTENT_LITERAL ? position : 0;
	return kedge__extent_goes_on(&last, &first) &&
	       (join || first.kind == KEDGE__EXTENT_PARENT || first.kind == KEDGE__EXTENT_FILL);
}

int kedge__extent_tape_move(struct kedge__extent_tape *tape, struct kedge__extent_tape *from, uint64_t position,
			    bool join, struct kedge__error *err)
{
	struct kedge__tape_part *last = tape->part_count ? &tape->parts[tape->part_count - 1] : NULL;
	struct kedge__extent_reader r = kedge__extents_of_tape(from);
	struct kedge__extent first;
	bool joint;

	if (!kedge__extent_next(&r, &first))
		return 0;
	joint = last && is_joint(last, first, position, join);
	if (joint && from->count == 1) { /* as where nothing changes */
		last->last.len += first.len;
		kedge__extent_tape_done(from);
		return 0;
	}
	if (!kedge__array_grow((void **)&tape->parts, &tape->part_room, tape->part_count + from->part_count,
			       sizeof(*tape->parts)))
		return kedge__error_nomem(err);
	from->parts[0].joined = joint;
	for (size_t i = 0; i < from->part_count; i++)
		from->parts[i].position += position;
	memcpy(tape->parts + tape->part_count, from->parts, from->part_count * sizeof(*tape->parts));
	tape->part_count += from->part_count;
	tape->count += from->count - joint;
	from->part_count = from->count = 0;
	return 0;
}

/* ------------------------------------------------------------------ reading */

struct kedge__extent_reader kedge__extents_of_map(const struct kedge__extent_map *map)
{
	const struct kedge__range_list *list = &map->inherited;

	return (struct kedge__extent_reader){.at = map->at,
					     .end = map->count ? map->at + map->count : map->at,
					     .range = list->at,
					     .ranges_end = list->count ? list->at + list->count : list->at};
}

/* The extent of the map, or the part of a range before it that is inherited. False: there are no more. */
static bool next_of_map(struct kedge__extent_reader *r, struct kedge__extent *e)
{
	uint64_t from, to;

	while (r->range != r->ranges_end && r->next >= r->range->start && r->next - r->range->start >= r->range->len)
		r->range++;
	from = r->range != r->ranges_end ? KEDGE__MAX(r->range->start, r->next) : UINT64_MAX;
	if (r->at != r->end && r->at->addr <= from) {
		*e = *r->at++;
	} else if (r->range != r->ranges_end) {
		to = r->range->start + r->range->len;
		*e = (struct kedge__extent){.addr = from, .kind = KEDGE__EXTENT_PARENT};
		e->len = (r->at != r->end && r->at->addr - from < to - from ? r->at->addr : to) - from;
	} else {
		return false;
	}
	r->next = e->addr + e->len;
	if (!r->next) /* behind the last byte of the space nothing follows */
		r->range = r->ranges_end;
	return true;
}

static void begin_part(struct kedge__extent_reader *r, const struct kedge__tape_part *p)
{
	r->part = p;
	r->byte = 0;
	r->state = (struct kedge__tape_state){.addr = p < r->parts_end ? p->start : 0};
}

struct kedge__extent_reader kedge__extents_of_tape(const struct kedge__extent_tape *tape)
{
	struct kedge__extent_reader r = {.shift = tape->shift};

	if (tape->part_count) {
		r.parts_end = tape->parts + tape->part_count;
		begin_part(&r, tape->parts);
	}
	return r;
}

static uint64_t get_varint(const uint8_t **at)
{
	uint64_t v = *(*at)++;

	if (v < 0x80)
		return v;
	v &= 0x7f;
	for (unsigned shift = 7;; shift += 7) {
		uint64_t b = *(*at)++;

		v |= (b & 0x7f) << shift;
		if (b < 0x80)
			return v;
	}
}

static const uint8_t *get_source(const uint8_t *at, struct kedge__tape_state *s, enum kedge__extent_kind kind)
{
	if (kind == KEDGE__EXTENT_LITERAL)
		s->literal += unfold(get_varint(&at));
	if (kind == KEDGE__EXTENT_COPY) {
		s->copy += unfold(get_varint(&at));
		s->version += unfold(get_varint(&at));
	}
	if (kind == KEDGE__EXTENT_FILL) {
		s->fill = kedge__get64(at);
		at += 8;
	}
	return at;
}

/* The next one of the part, which has more than its last one. */
static void unpack(struct kedge__extent_reader *r, struct kedge__extent *e)
{
	const uint8_t *at = r->part->bytes + r->byte;
	uint64_t head = get_varint(&at);
	struct kedge__tape_state *s = &r->state;

	e->kind = (enum kedge__extent_kind)(head & 3);
	e->len = head & BYTES ? head >> SHIFT : head >> SHIFT << r->shift;
	e->addr = s->addr + (head & JUMP ? get_varint(&at) : 0);
	if (head & ELSE)
		at = get_source(at, s, e->kind);
	e->src = e->kind == KEDGE__EXTENT_LITERAL ? s->literal
		 : e->kind == KEDGE__EXTENT_COPY  ? s->copy
		 : e->kind == KEDGE__EXTENT_FILL  ? s->fill
						  : 0;
	e->version = e->kind == KEDGE__EXTENT_COPY ? s->version : 0;
	go_on(s, e);
	r->byte = (size_t)(at - r->part->bytes);
}

/* One of a part; *LAST: there are no more in it. False: there are no more at all. */
static bool next_of_part(struct kedge__extent_reader *r, struct kedge__extent *e, bool *last)
{
	if (r->part == r->parts_end)
		return false;
	*last = r->byte == r->part->used;
	if (*last)
		*e = r->part->last;
	else
		unpack(r, e);
	if (e->kind == KEDGE__EXTENT_LITERAL)
		e->src += r->part->position;
	if (*last)
		begin_part(r, r->part + 1);
	return true;
}

bool kedge__extent_next(struct kedge__extent_reader *r, struct kedge__extent *e)
{
	struct kedge__extent more;
	bool last;

	if (r->at != r->end || r->range != r->ranges_end)
		return next_of_map(r, e);
	if (!next_of_part(r, e, &last))
		return false;
	while (last && r->part < r->parts_end && r->part->joined && next_of_part(r, &more, &last))
		e->len += more.len;
	return true;
}

struct kedge__extent_reader kedge__extents_from(const struct kedge__extent_tape *tape, uint64_t addr)
{
	struct kedge__extent_reader r = kedge__extents_of_tape(tape), next;
	struct kedge__extent e;
	size_t i;

	if (!tape->part_count)
		return r;
	KEDGE__LAST_BEFORE(i, tape->part_count, tape->parts[i].start <= addr);
	while (i && tape->parts[i].joined)
		i--; /* what holds the address begins before */
	begin_part(&r, tape->parts + i);
	for (next = r; kedge__extent_next(&next, &e) && e.addr <= addr && addr - e.addr >= e.len;)
		r = next;
	return r;
}
