/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wire: cursors over bytes, only for the encoders and decoders of this folder. Errors are sticky: once a put has run out
 * of memory or a get has run past the end, later calls do nothing, and the caller checks once, at the end.
 */
#ifndef KEDGE_FORMAT_WIRE_H
#define KEDGE_FORMAT_WIRE_H

#include "format/format.h"

#define KEDGE__MAGIC_BYTES 8

struct kedge__wire_out {
	struct kedge__bytes *bytes;
	size_t start; /* bytes before it belong to the caller */
	bool failed;
};

struct kedge__wire_out kedge__wire_out_init(struct kedge__bytes *bytes);
void kedge__wire_put(struct kedge__wire_out *w, const void *data, size_t bytes);
void kedge__wire_put16(struct kedge__wire_out *w, uint16_t v);
void kedge__wire_put32(struct kedge__wire_out *w, uint32_t v);
void kedge__wire_put64(struct kedge__wire_out *w, uint64_t v);
void kedge__wire_put_double(struct kedge__wire_out *w, double v);
void kedge__wire_put_digest(struct kedge__wire_out *w, struct kedge__digest d);
void kedge__wire_put_varint(struct kedge__wire_out *w, uint64_t v);
/* Undo all puts. */
void kedge__wire_out_undo(struct kedge__wire_out *w);
/* 0, or KEDGE_E_NOMEM with all puts undone. */
int kedge__wire_out_finish(struct kedge__wire_out *w, struct kedge__error *err);

struct kedge__wire_in {
	const uint8_t *at;
	size_t left;
	bool failed;
};

struct kedge__wire_in kedge__wire_in_init(const void *data, size_t bytes);
/* The next BYTES bytes, or NULL. */
const uint8_t *kedge__wire_get(struct kedge__wire_in *r, size_t bytes);
uint16_t kedge__wire_get16(struct kedge__wire_in *r);
uint32_t kedge__wire_get32(struct kedge__wire_in *r);
uint64_t kedge__wire_get64(struct kedge__wire_in *r);
double kedge__wire_get_double(struct kedge__wire_in *r);
struct kedge__digest kedge__wire_get_digest(struct kedge__wire_in *r);
/* A varint that is not canonical (FORMAT.md, "Numbers") fails like one that is truncated. */
uint64_t kedge__wire_get_varint(struct kedge__wire_in *r);
/* The same, failing if it is above MAX. */
uint64_t kedge__wire_get_varint_max(struct kedge__wire_in *r, uint64_t max);
/* BYTES bytes without NUL as a string that is kedge__free()d. WHAT is for the message. */
int kedge__wire_get_string(struct kedge__wire_in *r, uint64_t bytes, const char *what, char **out,
			   struct kedge__error *err);
/* The same, and a valid job name. */
int kedge__wire_get_job_name(struct kedge__wire_in *r, uint64_t bytes, const char *what, char **out,
			     struct kedge__error *err);

/* Map signed differences to varints: 0, -1, 1, -2, ... become 0, 1, 2, 3, ... */
static inline uint64_t kedge__zigzag(uint64_t difference)
{
	return (difference << 1) ^ (0 - (difference >> 63));
}

static inline uint64_t kedge__unzigzag(uint64_t v)
{
	return (v >> 1) ^ (0 - (v & 1));
}

/* ---- pack.c: a string of bytes that may be compressed. A reader accepts ALLOWANCE bytes and KEDGE__PACKED_GROWTH for each
 * that is stored; a writer does not compress what would exceed that. */
#define KEDGE__PACKED_GROWTH 256
bool kedge__packed_fits(uint64_t raw, uint64_t stored, uint64_t allowance);
void kedge__packed_put(struct kedge__wire_out *w, const void *data, size_t n, uint64_t allowance);
/* *OUT: kedge__free(). */
int kedge__packed_get(struct kedge__wire_in *in, uint64_t allowance, uint8_t **out, size_t *n, struct kedge__error *err);

/* Seconds in records are finite and not negative. */
bool kedge__wire_seconds_valid(double v);
void kedge__wire_put_packing(struct kedge__wire_out *w, const struct kedge__packing_record *p); /* without its region */
bool kedge__wire_get_packing(struct kedge__wire_in *in, struct kedge__packing_record *p); /* false: it is not valid; P is zeros before */

/* ------------------------------------------------------------------ grouping_format.c, for the manifest of RANKS segments */

const char *kedge__grouping_problem(const struct kedge__grouping *g, uint32_t ranks); /* NULL: there is none */
void kedge__grouping_encode(const struct kedge__grouping *g, struct kedge__wire_out *w);
int kedge__grouping_decode(const void *data, size_t bytes, uint32_t ranks, struct kedge__grouping **out, struct kedge__error *err);

#endif
