/* SPDX-License-Identifier: BSD-3-Clause */
#include "format/wire.h"

#include <math.h>

void kedge__bytes_done(struct kedge__bytes *b)
{
	kedge__free(b->at);
	*b = (struct kedge__bytes){0};
}

struct kedge__wire_out kedge__wire_out_init(struct kedge__bytes *bytes)
{
	return (struct kedge__wire_out){.bytes = bytes, .start = bytes->count};
}

void kedge__wire_put(struct kedge__wire_out *w, const void *data, size_t bytes)
{
	struct kedge__bytes *b = w->bytes;

	if (w->failed || bytes == 0)
		return;
	if (bytes > SIZE_MAX - b->count || !kedge__array_reserve(b, b->count + bytes)) {
		w->failed = true;
		return;
	}
	memcpy(b->at + b->count, data, bytes);
	b->count += bytes;
}

void kedge__wire_put16(struct kedge__wire_out *w, uint16_t v)
{
	uint8_t raw[2];

	kedge__put16(raw, v);
	kedge__wire_put(w, raw, sizeof(raw));
}

void kedge__wire_put32(struct kedge__wire_out *w, uint32_t v)
{
	uint8_t raw[4];

	kedge__put32(raw, v);
	kedge__wire_put(w, raw, sizeof(raw));
}

void kedge__wire_put64(struct kedge__wire_out *w, uint64_t v)
{
	uint8_t raw[8];

	kedge__put64(raw, v);
	kedge__wire_put(w, raw, sizeof(raw));
}

void kedge__wire_put_double(struct kedge__wire_out *w, double v)
{
	uint64_t bits;

	memcpy(&bits, &v, sizeof(bits));
	kedge__wire_put64(w, bits);
}

void kedge__wire_put_digest(struct kedge__wire_out *w, struct kedge__digest d)
{
	kedge__wire_put64(w, d.lo);
	kedge__wire_put64(w, d.hi);
}

void kedge__wire_put_varint(struct kedge__wire_out *w, uint64_t v)
{
	uint8_t raw[10];
	size_t n = 0;

	while (v >= 0x80) {
		raw[n++] = (uint8_t)(v | 0x80);
		v >>= 7;
	}
	raw[n++] = (uint8_t)v;
	kedge__wire_put(w, raw, n);
}

void kedge__wire_out_undo(struct kedge__wire_out *w)
{
	w->bytes->count = w->start;
}

int kedge__wire_out_finish(struct kedge__wire_out *w, struct kedge__error *err)
{
	if (!w->failed)
		return 0;
	kedge__wire_out_undo(w);
	return kedge__error_nomem(err);
}

struct kedge__wire_in kedge__wire_in_init(const void *data, size_t bytes)
{
	return (struct kedge__wire_in){.at = data, .left = bytes};
}

const uint8_t *kedge__wire_get(struct kedge__wire_in *r, size_t bytes)
{
	const uint8_t *at = r->at;

	if (r->failed || bytes > r->left) {
		r->failed = true;
		return NULL;
	}
	r->at += bytes;
	r->left -= bytes;
	return at;
}

uint16_t kedge__wire_get16(struct kedge__wire_in *r)
{
	const uint8_t *at = kedge__wire_get(r, 2);

	return at ? kedge__get16(at) : 0;
}

uint32_t kedge__wire_get32(struct kedge__wire_in *r)
{
	const uint8_t *at = kedge__wire_get(r, 4);

	return at ? kedge__get32(at) : 0;
}

uint64_t kedge__wire_get64(struct kedge__wire_in *r)
{
	const uint8_t *at = kedge__wire_get(r, 8);

	return at ? kedge__get64(at) : 0;
}

double kedge__wire_get_double(struct kedge__wire_in *r)
{
	uint64_t bits = kedge__wire_get64(r);
	double v;

	memcpy(&v, &bits, sizeof(v));
	return v;
}

struct kedge__digest kedge__wire_get_digest(struct kedge__wire_in *r)
{
	struct kedge__digest d;

	d.lo = kedge__wire_get64(r);
	d.hi = kedge__wire_get64(r);
	return d;
}

uint64_t kedge__wire_get_varint(struct kedge__wire_in *r)
{
	uint64_t v = 0;

	for (unsigned shift = 0; shift < 64; shift += 7) {
		const uint8_t *at = kedge__wire_get(r, 1);

		if (!at)
			return 0;
		if ((shift == 63 && *at > 1) || (shift > 0 && *at == 0))
			break;
		v |= (uint64_t)(*at & 0x7f) << shift;
		if (*at < 0x80)
			return v;
	}
	r->failed = true;
	return 0;
}

uint64_t kedge__wire_get_varint_max(struct kedge__wire_in *r, uint64_t max)
{
	uint64_t v = kedge__wire_get_varint(r);

	if (v <= max)
		return v;
	r->failed = true;
	return 0;
}

int kedge__wire_get_string(struct kedge__wire_in *r, uint64_t bytes, const char *what, char **out,
			   struct kedge__error *err)
{
	const uint8_t *at = bytes <= r->left ? kedge__wire_get(r, (size_t)bytes) : NULL;
	char *s;

	if (!at || memchr(at, 0, (size_t)bytes))
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "%s is cut short or contains a NUL", what);
	s = kedge__malloc((size_t)bytes + 1);
	if (!s)
		return kedge__error_nomem(err);
	memcpy(s, at, (size_t)bytes);
	s[bytes] = 0;
	*out = s;
	return 0;
}

int kedge__wire_get_job_name(struct kedge__wire_in *r, uint64_t bytes, const char *what, char **out,
			     struct kedge__error *err)
{
	char *name;
	int rc;

	if (bytes > KEDGE_NAME_MAX)
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "%s: the job name is too long", what);
	rc = kedge__wire_get_string(r, bytes, "the job name", &name, err);
	if (rc != 0)
		return rc;
	if (kedge__job_name_check(name, NULL) != 0) {
		kedge__free(name);
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "%s: the job name is invalid", what);
	}
	*out = name;
	return 0;
}

bool kedge__wire_seconds_valid(double v)
{
	return isfinite(v) && !signbit(v);
}
