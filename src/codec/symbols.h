/*
 * symbols: streams of small numbers, coded by how often each follows those before it (rANS with fixed tables). For the
 * lengths and counts of zeros of field.c.
 */
#ifndef KEDGE_CODEC_SYMBOLS_H
#define KEDGE_CODEC_SYMBOLS_H

#include "base/base.h"

#define KEDGE__SYMBOL_MAX 64

/* The most that N symbols can take. */
size_t kedge__symbols_bound(size_t n);
/*
 * N symbols of at most KEDGE__SYMBOL_MAX. ROW: how far back, besides the one before it, a symbol is that says something
 * about the next; 0: none. KEDGE_E_LIMIT: they do not fit ROOM.
 */
int kedge__symbols_encode(const uint8_t *s, size_t n, size_t row, uint8_t *out, size_t room, size_t *used,
			  struct kedge__error *err);
/* Exactly N symbols out of exactly IN_BYTES, none above KEDGE__SYMBOL_MAX, or KEDGE_E_DAMAGED. */
int kedge__symbols_decode(const uint8_t *in, size_t in_bytes, size_t row, uint8_t *s, size_t n,
			  struct kedge__error *err);

#endif
