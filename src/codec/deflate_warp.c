/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A stream is cut into pieces of four parts, whose matches are found as for codec lz4. A piece is a Deflate block with
 * codes of its own; an empty stored block behind it brings the next one to a whole byte, so that GPUs need not shift
 * what they join.
 */
#include "codec/deflate_warp.h"

#include "base/deflate_codes.h"
#include "codec/matches.h"

#include <stdlib.h>

#define PIECE (4 * KEDGE__MATCH_PART)
#define MATCH 0x8000u /* of a unit: a match of so many bytes, whose distance is the next unit */

struct piece {
	uint16_t *units; /* literals; lengths and distances, minus 1 */
	size_t count;
	unsigned counts[KEDGE__DEFLATE_ALL];
	unsigned char lengths[KEDGE__DEFLATE_ALL];
	unsigned short codes[KEDGE__DEFLATE_ALL];
	struct kedge__deflate_tree tree;
	struct kedge__deflate_head head;
};

struct output {
	uint8_t *at, *end;
	uint64_t bits;
	unsigned held; /* of bits */
	bool full;
};

static void bits_put(struct output *o, unsigned value, unsigned count)
{
	o->bits |= (uint64_t)value << o->held;
	for (o->held += count; o->held >= 8; o->held -= 8, o->bits >>= 8) {
		if (o->at == o->end)
			o->full = true;
		else
			*o->at++ = (uint8_t)o->bits;
	}
}

/* ------------------------------------------------------------------ units of a piece */

static void literals_add(struct piece *p, const uint8_t *raw, size_t from, size_t to)
{
	for (; from < to; from++) {
		p->units[p->count++] = raw[from];
		p->counts[raw[from]]++;
	}
}

static void match_add(struct piece *p, const struct kedge__match *m)
{
	unsigned distance = (unsigned)m->distance, n;

	for (unsigned left = (unsigned)m->length; left; left -= n) {
		n = kedge__deflate_piece(left);
		p->units[p->count++] = (uint16_t)(MATCH | n);
		p->units[p->count++] = (uint16_t)(distance - 1);
		p->counts[kedge__deflate_length(n).symbol]++;
		p->counts[KEDGE__DEFLATE_LITERALS + kedge__deflate_distance(distance).symbol]++;
	}
}

static void part_add(struct piece *p, const uint8_t *raw, size_t bytes, size_t at)
{
	struct kedge__match found[KEDGE__MATCH_GROUP / KEDGE__MATCH_LEAST];
	struct kedge__matcher m;
	size_t count, done = at, end = KEDGE__MIN(at + KEDGE__MATCH_PART, bytes);

	kedge__matcher_init(&m, raw, bytes, at, 0);
	while (kedge__matcher_next(&m, found, &count)) {
		for (size_t i = 0; i < count; i++) {
			literals_add(p, raw, done, found[i].at);
			match_add(p, &found[i]);
			done = found[i].at + found[i].length;
		}
	}
	literals_add(p, raw, done, end);
}

/* ------------------------------------------------------------------ codes */

static int by_count(const void *a, const void *b, void *ctx)
{
	const unsigned *counts = ctx;
	unsigned x = *(const unsigned short *)a, y = *(const unsigned short *)b;

	if (counts[x] != counts[y])
		return counts[x] < counts[y] ? -1 : 1;
	return x < y ? -1 : 1;
}

static void code_make(struct piece *p, unsigned first, unsigned symbols)
{
	unsigned short order[KEDGE__DEFLATE_LITERALS];
	unsigned n = 0;

	kedge__deflate_two(p->counts + first, symbols);
	memset(p->lengths + first, 0, symbols);
	for (unsigned i = 0; i < symbols; i++) {
		if (p->counts[first + i])
			order[n++] = (unsigned short)i;
	}
	qsort_r(order, n, sizeof(order[0]), by_count, p->counts + first);
	kedge__deflate_lengths(&p->tree, p->counts + first, order, n, KEDGE__DEFLATE_BITS, p->lengths + first);
	kedge__deflate_codes(p->lengths + first, symbols, p->codes + first);
}

static void symbol_put(const struct piece *p, struct output *o, unsigned first, struct kedge__deflate_symbol s)
{
	bits_put(o, p->codes[first + s.symbol], p->lengths[first + s.symbol]);
	bits_put(o, s.extra, s.bits);
}

static void piece_put(struct piece *p, struct output *o, bool last)
{
	const struct kedge__deflate_bits *head = &p->head.bits;

	kedge__deflate_head_make(&p->head, p->lengths, last);
	for (unsigned i = 0; i < head->count; i += 32)
		bits_put(o, head->words[i / 32], KEDGE__MIN(head->count - i, 32u));
	for (size_t i = 0; i < p->count; i++) {
		if (p->units[i] & MATCH) {
			symbol_put(p, o, 0, kedge__deflate_length(p->units[i] & ~MATCH));
			symbol_put(p, o, KEDGE__DEFLATE_LITERALS, kedge__deflate_distance(p->units[++i] + 1u));
		} else {
			bits_put(o, p->codes[p->units[i]], p->lengths[p->units[i]]);
		}
	}
	bits_put(o, p->codes[KEDGE__DEFLATE_END], p->lengths[KEDGE__DEFLATE_END]);
	if (!last)
		bits_put(o, 0, 3);
	bits_put(o, 0, (8 - o->held) % 8);
	if (!last)
		bits_put(o, 0xffff0000u, 32);
}

/* ------------------------------------------------------------------ streams */

static uint32_t adler(const uint8_t *p, size_t n)
{
	uint32_t a = 1, b = 0;

	for (size_t i = 0; i < n;) {
		for (size_t end = KEDGE__MIN(n, i + 5552); i < end; i++) {
			a += p[i];
			b += a;
		}
		a %= 65521;
		b %= 65521;
	}
	return b << 16 | a;
}

static size_t stream_put(struct piece *p, const uint8_t *raw, size_t bytes, uint8_t *out)
{
	struct output o = {.at = out, .end = out + bytes};

	bits_put(&o, 0x0178, 16);
	for (size_t at = 0; at < bytes && !o.full; at += PIECE) {
		p->count = 0;
		memset(p->counts, 0, sizeof(p->counts));
		for (size_t part = at; part < bytes && part < at + PIECE; part += KEDGE__MATCH_PART)
			part_add(p, raw, bytes, part);
		p->counts[KEDGE__DEFLATE_END] = 1;
		code_make(p, 0, KEDGE__DEFLATE_LITERALS);
		code_make(p, KEDGE__DEFLATE_LITERALS, KEDGE__DEFLATE_DISTANCES);
		piece_put(p, &o, bytes - at <= PIECE);
	}
	bits_put(&o, __builtin_bswap32(adler(raw, bytes)), 32);
	return o.full ? bytes : (size_t)(o.at - out);
}

size_t kedge__deflate_warp_encode(const uint8_t *raw, size_t bytes, uint8_t *out)
{
	struct piece *p = kedge__calloc(1, sizeof(*p));
	size_t size = bytes;

	if (p && bytes)
		p->units = kedge__malloc(PIECE * sizeof(*p->units));
	if (p && p->units)
		size = stream_put(p, raw, bytes, out);
	if (p)
		kedge__free(p->units);
	kedge__free(p);
	return size;
}
