/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * symbols: streams of small numbers, coded by how often each follows those before it (asymmetric numeral systems with
 * tables). A symbol may be the length of a value, whose lower bits then follow it uncoded. For
 * field.c.
 */
#ifndef KEDGE_CODEC_SYMBOLS_H
#define KEDGE_CODEC_SYMBOLS_H

#include "base/base.h"

#define KEDGE__SYMBOL_MAX      64
#define KEDGE__SYMBOL_SCALE    1024 /* what the frequencies of a table add up to: two to the */
#define KEDGE__SYMBOL_BITS     10
#define KEDGE__SYMBOL_CONTEXTS 8
#define KEDGE__SYMBOL_LANES    4
#define KEDGE__SYMBOL_GROUP    64 /* symbols; a group of zeros is not coded at all */
#define KEDGE__SYMBOL_PAD      16 /* bytes after a stream that a decoder may read, whatever they contain */

struct kedge__symbols {
	uint8_t *at; /* N symbols */
	size_t n;
	size_t row; /* distance of a second earlier symbol, besides the previous one, that helps predict the next; 0: none */
	unsigned highest; /* that can be; at most KEDGE__SYMBOL_MAX */
	unsigned width;   /* bytes of a value: 2, 4, 8; 0: there are none */
	void *values;     /* N numbers of that width: a value of length k is 0 (k = 0), or 2^(k-1) and more */
};

/* Upper bound for the size of N symbols with values. */
size_t kedge__symbols_bound(size_t n, unsigned width);
/* Bytes of work space that encoding needs. */
size_t kedge__symbols_space(size_t n, unsigned width);
/* KEDGE_E_LIMIT: they do not fit ROOM. SPACE has kedge__symbols_space() bytes; nothing is kept in it. */
int kedge__symbols_encode(const struct kedge__symbols *s, uint8_t *space, uint8_t *out, size_t room, size_t *used,
			  struct kedge__error *err);
/* Fills s->at and s->values out of exactly IN_BYTES bytes, or KEDGE_E_DAMAGED. No symbol is above s->highest. There are
 * KEDGE__SYMBOL_PAD bytes behind IN. */
int kedge__symbols_decode(const struct kedge__symbols *s, const uint8_t *in, size_t in_bytes, struct kedge__error *err);

/* ------------------------------------------------------------------ between symbols.c and its loops */

/* How a symbol is written in a context: the state, plus BITS, has the number of its bits that go out in its upper half;
 * what is left of it, plus FIND, is the place of the next one in the table of states. REST bits of a value go out. */
struct kedge__symbol_code {
	uint32_t bits;
	int16_t find;
	uint8_t rest;
};

struct kedge__symbol_codes {
	struct kedge__symbol_code codes[KEDGE__SYMBOL_CONTEXTS][KEDGE__SYMBOL_MAX + 1];
	uint16_t states[KEDGE__SYMBOL_CONTEXTS * KEDGE__SYMBOL_SCALE];
	const struct kedge__symbol_code *of_mean[KEDGE__SYMBOL_MAX + 1];
};

/* Some of the groups; lanes are coded independently, so that a processor can work on several at once. */
struct kedge__symbol_lane {
	const uint32_t *groups; /* the first symbol of each; the last of all groups may be shorter */
	size_t count;
	uint32_t state;
	/* Written from its end to its beginning: downwards from TO, HELD_BITS of the lower bits of HELD being next. */
	uint8_t *to;
	uint64_t held;
	unsigned held_bits;
	/* Read forwards: bits, from the beginning of the stream. */
	uint64_t bit, bit_end;
};

/* A place of the table of a context, as it is read: the state that comes next, less bits that come in, 10 bits; how
 * many come in, 4; the symbol, 7; how many come in with those of the value, 7. */
#define KEDGE__SYMBOL_PLACE(base, few, symbol, all)                                                                    \
	((uint32_t)(base) | (uint32_t)(few) << 10 | (uint32_t)(symbol) << 14 | (uint32_t)(all) << 21)

#endif
