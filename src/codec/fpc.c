/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * FPC (Burtscher and Ratanaworabhan, IEEE Transactions on Computers 58(1), 2009) for doubles, and a twin for floats.
 * Two predictors, each a hash table: FCM of the values that followed the same recent values, DFCM of the differences
 * that followed the same recent differences. A number is XORed with the better prediction; half a byte says which one
 * and how many leading bytes are zero; the other bytes follow. Every block starts with empty tables.
 */
#include "codec/codec_table.h"

#define LEVEL_MIN    4
#define LEVEL_MAX    20
#define LEVEL_PRESET 12

#define INLINE static inline __attribute__((always_inline))

struct predictor {
	uint64_t *fcm, *dfcm; /* 1 << level each */
	uint64_t mask, fcm_at, dfcm_at, last;
};

static int predictor_init(struct predictor *p, unsigned level, struct kedge__error *err)
{
	*p = (struct predictor){.mask = (UINT64_C(1) << level) - 1};
	p->fcm = kedge__calloc((size_t)2 << level, sizeof(*p->fcm));
	if (!p->fcm)
		return kedge__error_nomem(err);
	p->dfcm = p->fcm + ((size_t)1 << level);
	return 0;
}

static void predictor_done(struct predictor *p)
{
	kedge__free(p->fcm);
}

INLINE uint64_t truncated(uint64_t v, unsigned width)
{
	return width == 8 ? v : v & UINT32_MAX;
}

INLINE uint64_t dfcm_guess(const struct predictor *p, unsigned width)
{
	return truncated(p->dfcm[p->dfcm_at] + p->last, width);
}

/* The hashes keep the top 16 bits of values and the top 24 of differences; of floats, 10 and 14. */
INLINE void predictor_learn(struct predictor *p, uint64_t v, unsigned width)
{
	uint64_t difference = truncated(v - p->last, width);

	p->fcm[p->fcm_at] = v;
	p->fcm_at = ((p->fcm_at << (width == 8 ? 6 : 4)) ^ v >> (width == 8 ? 48 : 22)) & p->mask;
	p->dfcm[p->dfcm_at] = difference;
	p->dfcm_at = ((p->dfcm_at << 2) ^ difference >> (width == 8 ? 40 : 18)) & p->mask;
	p->last = v;
}

/* Leading zero bytes of a residual as a code of three bits, and back. Of doubles a count of 4 is not used, so that 8
 * can be: 4 is rare. */
INLINE unsigned code_of(uint64_t residual, unsigned width)
{
	unsigned zeros = residual ? (unsigned)__builtin_clzll(residual) / 8 - (8 - width) : width;

	return width == 8 && zeros >= 4 ? zeros - 1 : zeros;
}

INLINE unsigned zeros_of(unsigned code, unsigned width)
{
	return width == 8 && code >= 4 ? code + 1 : code;
}

INLINE uint64_t load(const uint8_t *p, unsigned width)
{
	return width == 8 ? kedge__get64(p) : kedge__get32(p);
}

INLINE void store(uint8_t *p, uint64_t v, unsigned width)
{
	if (width == 8)
		kedge__put64(p, v);
	else
		kedge__put32(p, (uint32_t)v);
}

/* N numbers; the bytes written, or 0 if OUT is too small: even one number takes more than that. */
INLINE size_t fpc_pack(struct predictor *p, const uint8_t *raw, size_t n, uint8_t *out, size_t room, unsigned width)
{
	size_t at = (n + 1) / 2;

	if (at > room)
		return 0;
	memset(out, 0, at);
	for (size_t i = 0; i < n; i++) {
		uint64_t v = load(raw + i * width, width);
		uint64_t a = v ^ p->fcm[p->fcm_at], b = v ^ dfcm_guess(p, width);
		uint64_t residual = KEDGE__MIN(a, b);
		unsigned code = code_of(residual, width);
		unsigned bytes = width - zeros_of(code, width);

		predictor_learn(p, v, width);
		out[i / 2] |= (uint8_t)((code | (b < a ? 8 : 0)) << i % 2 * 4);
		if (room - at >= 8)
			kedge__put64(out + at, residual);
		else if (room - at >= bytes)
			memcpy(out + at, &residual, bytes);
		else
			return 0;
		at += bytes;
	}
	return at;
}

/* False if IN does not hold exactly N numbers. */
INLINE bool fpc_unpack(struct predictor *p, const uint8_t *in, size_t in_bytes, uint8_t *raw, size_t n, unsigned width)
{
	size_t at = (n + 1) / 2;

	if (at > in_bytes || (n % 2 && in[n / 2] >> 4))
		return false;
	for (size_t i = 0; i < n; i++) {
		unsigned code = in[i / 2] >> i % 2 * 4 & 15;
		unsigned zeros = zeros_of(code & 7, width);
		uint64_t residual = 0, v;

		if (zeros > width || in_bytes - at < width - zeros)
			return false;
		if (in_bytes - at >= 8)
			residual = zeros == 8 ? 0 : kedge__get64(in + at) << zeros * 8 >> zeros * 8;
		else
			memcpy(&residual, in + at, width - zeros);
		if (width == 4)
			residual = zeros == 4 ? 0 : residual & UINT32_MAX >> zeros * 8;
		at += width - zeros;
		v = residual ^ (code & 8 ? dfcm_guess(p, width) : p->fcm[p->fcm_at]);
		predictor_learn(p, v, width);
		store(raw + i * width, v, width);
	}
	return at == in_bytes;
}

/* What the first pass gives at most: half a byte a number more. */
static size_t first_bound(size_t raw, unsigned width)
{
	return raw + (raw / width + 1) / 2;
}

static size_t fpc_bound(size_t raw, unsigned width)
{
	return first_bound(raw, width) + raw / 64 + 1024;
}

/* Numbers, then the bytes that make no whole one. */
INLINE int encode(const struct kedge__codec_choice *how, const struct kedge__codec_input *in, uint8_t *out, size_t room,
		  size_t *used, unsigned width, struct kedge__error *err)
{
	size_t n = in->bytes / width, tail = in->bytes % width, bytes;
	struct predictor p;
	int rc = predictor_init(&p, (unsigned)how->level, err);

	if (rc)
		return rc;
	bytes = n ? fpc_pack(&p, in->raw, n, out, room, width) : 0;
	predictor_done(&p);
	if ((n && !bytes) || room - bytes < tail)
		return kedge__error_set(err, KEDGE_E_LIMIT, 0, "codec %s: %zu bytes do not compress into %zu",
					how->codec->name, in->bytes, room);
	memcpy(out + bytes, (const uint8_t *)in->raw + n * width, tail);
	*used = bytes + tail;
	return 0;
}

static int encode_any(const struct kedge__codec_choice *how, const struct kedge__codec_input *in, uint8_t *out,
		      size_t room, size_t *used, unsigned width, struct kedge__error *err)
{
	return width == 8 ? encode(how, in, out, room, used, 8, err) : encode(how, in, out, room, used, 4, err);
}

/* With a second pass, the four bytes before what it gives are the size of what it was given. */
static int encode_chain(const struct kedge__codec_choice *how, const struct kedge__codec_input *in, uint8_t *out,
			size_t room, size_t *used, unsigned width, struct kedge__error *err)
{
	size_t mid_room = first_bound(in->bytes, width), mid_bytes, n;
	uint8_t *mid = kedge__malloc(mid_room + 1);
	int rc;

	if (!mid)
		return kedge__error_nomem(err);
	rc = room < 4 ? KEDGE_E_LIMIT : encode_any(how, in, mid, mid_room, &mid_bytes, width, err);
	if (!rc)
		rc = kedge__chain_encode(how, mid, mid_bytes, out + 4, room - 4, &n, err);
	if (!rc) {
		kedge__put32(out, (uint32_t)mid_bytes);
		*used = n + 4;
	}
	kedge__free(mid);
	return rc == KEDGE_E_LIMIT ? kedge__error_set(err, KEDGE_E_LIMIT, 0, "codec %s: %zu bytes do not fit into %zu",
						      how->codec->name, in->bytes, room)
				   : rc;
}

static int fpc_encode(const struct kedge__codec_choice *how, const struct kedge__codec_input *in, void *out,
		      size_t room, size_t *used, uint16_t *param, unsigned width, struct kedge__error *err)
{
	int rc;

	if (how->second)
		rc = encode_chain(how, in, out, room, used, width, err);
	else
		rc = encode_any(how, in, out, room, used, width, err);
	if (!rc)
		*param = (uint16_t)(kedge__chain_id(how) | how->level << 8);
	return rc;
}

static bool decode(const uint8_t *in, size_t in_bytes, uint8_t *raw, size_t raw_bytes, struct predictor *p,
		   unsigned width)
{
	size_t n = raw_bytes / width, tail = raw_bytes % width;

	if (in_bytes < tail)
		return false;
	if (n && !(width == 8 ? fpc_unpack(p, in, in_bytes - tail, raw, n, 8)
			      : fpc_unpack(p, in, in_bytes - tail, raw, n, 4)))
		return false;
	memcpy(raw + n * width, in + in_bytes - tail, tail);
	return n || in_bytes == tail;
}

/* The first pass's bytes out of those of the second; *MID is the caller's to free. */
static int undo_second(const uint8_t *in, size_t in_bytes, uint16_t param, size_t bound, uint8_t **mid, size_t *bytes,
		       struct kedge__error *err)
{
	size_t n = in_bytes < 4 ? SIZE_MAX : kedge__get32(in);
	uint8_t *got;
	int rc;

	if (n > bound)
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "codec fpc: invalid size within the block");
	got = kedge__malloc(n + 1);
	if (!got)
		return kedge__error_nomem(err);
	rc = kedge__chain_decode(param, in + 4, in_bytes - 4, got, n, err);
	if (rc) {
		kedge__free(got);
		return rc;
	}
	*mid = got;
	*bytes = n;
	return 0;
}

static int fpc_decode(const void *in, size_t in_bytes, uint16_t param, void *raw, size_t raw_bytes, unsigned width,
		      struct kedge__error *err)
{
	unsigned level = param >> 8;
	struct predictor p;
	uint8_t *mid = NULL;
	int rc;

	if (level < LEVEL_MIN || level > LEVEL_MAX)
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "codec fpc: invalid parameter %u", param);
	if (param & 0xff) {
		rc = undo_second(in, in_bytes, param, first_bound(raw_bytes, width), &mid, &in_bytes, err);
		if (rc)
			return rc;
		in = mid;
	}
	rc = predictor_init(&p, level, err);
	if (!rc && !decode(in, in_bytes, raw, raw_bytes, &p, width))
		rc = kedge__error_set(err, KEDGE_E_DAMAGED, 0, "codec fpc: %zu bytes do not decompress to %zu",
				      in_bytes, raw_bytes);
	predictor_done(&p);
	kedge__free(mid);
	return rc;
}

static size_t fpc64_bound(size_t raw)
{
	return fpc_bound(raw, 8);
}

static size_t fpc32_bound(size_t raw)
{
	return fpc_bound(raw, 4);
}

static int fpc64_encode(const struct kedge__codec_choice *how, const struct kedge__codec_input *in, void *out,
			size_t room, size_t *used, uint16_t *param, struct kedge__error *err)
{
	return fpc_encode(how, in, out, room, used, param, 8, err);
}

static int fpc32_encode(const struct kedge__codec_choice *how, const struct kedge__codec_input *in, void *out,
			size_t room, size_t *used, uint16_t *param, struct kedge__error *err)
{
	return fpc_encode(how, in, out, room, used, param, 4, err);
}

static int fpc64_decode(const void *in, size_t in_bytes, uint16_t param, const void *base, void *raw, size_t raw_bytes,
			struct kedge__error *err)
{
	(void)base;
	return fpc_decode(in, in_bytes, param, raw, raw_bytes, 8, err);
}

static int fpc32_decode(const void *in, size_t in_bytes, uint16_t param, const void *base, void *raw, size_t raw_bytes,
			struct kedge__error *err)
{
	(void)base;
	return fpc_decode(in, in_bytes, param, raw, raw_bytes, 4, err);
}

const struct kedge__codec kedge__codec_fpc64 = {
    .id = KEDGE__CODEC_FPC64,
    .name = "fpc64",
    .min_level = LEVEL_MIN,
    .max_level = LEVEL_MAX,
    .preset_level = LEVEL_PRESET,
    .first = true,
    .bound = fpc64_bound,
    .encode = fpc64_encode,
    .decode = fpc64_decode,
};

const struct kedge__codec kedge__codec_fpc32 = {
    .id = KEDGE__CODEC_FPC32,
    .name = "fpc32",
    .min_level = LEVEL_MIN,
    .max_level = LEVEL_MAX,
    .preset_level = LEVEL_PRESET,
    .first = true,
    .bound = fpc32_bound,
    .encode = fpc32_encode,
    .decode = fpc32_decode,
};
