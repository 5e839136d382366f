/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Passes that give as many bytes as they get, for a general codec to find what they expose: differences to the element
 * before or to a base, then bytes or bits of the same place in their elements put together.
 *
 * The parameter: bits 0 to 7 the general codec, 8 to 10 the logarithm of the width, from 11 on the steps.
 */
#include "codec/codec_table.h"
#include "codec/shuffle.h"

#define STEP_MASK (KEDGE__STEP_DELTA | KEDGE__STEP_BASE)

#define INLINE static inline __attribute__((always_inline))

/* ------------------------------------------------------------------ steps */

INLINE uint64_t load(const uint8_t *p, unsigned width)
{
	return width == 8 ? kedge__get64(p) : width == 4 ? kedge__get32(p) : width == 2 ? kedge__get16(p) : *p;
}

INLINE void store(uint8_t *p, uint64_t v, unsigned width)
{
	if (width == 8)
		kedge__put64(p, v);
	else if (width == 4)
		kedge__put32(p, (uint32_t)v);
	else if (width == 2)
		kedge__put16(p, (uint16_t)v);
	else
		*p = (uint8_t)v;
}

/* TO[i] = FROM[i] - FROM[i - 1]; the first element as it is. Backwards, so that both may be the same. */
INLINE void difference(const uint8_t *from, uint8_t *to, size_t n, unsigned width)
{
	for (size_t i = n; i-- > 1;)
		store(to + i * width, load(from + i * width, width) - load(from + (i - 1) * width, width), width);
	if (n)
		store(to, load(from, width), width);
}

INLINE void sum(uint8_t *p, size_t n, unsigned width)
{
	uint64_t v = 0;

	for (size_t i = 0; i < n; i++) {
		v += load(p + i * width, width);
		store(p + i * width, v, width);
	}
}

/* TO[i] = FROM[i] + SIGN * BASE[i] */
INLINE void add(const uint8_t *from, const uint8_t *base, uint64_t sign, uint8_t *to, size_t n, unsigned width)
{
	for (size_t i = 0; i < n; i++)
		store(to + i * width, load(from + i * width, width) + sign * load(base + i * width, width), width);
}

#define BY_WIDTH(width, call) ((width) == 8 ? call(8) : (width) == 4 ? call(4) : (width) == 2 ? call(2) : call(1))

static void difference_any(const uint8_t *from, uint8_t *to, size_t n, unsigned width)
{
#define CALL(w) difference(from, to, n, w)
	BY_WIDTH(width, CALL);
#undef CALL
}

static void sum_any(uint8_t *p, size_t n, unsigned width)
{
#define CALL(w) sum(p, n, w)
	BY_WIDTH(width, CALL);
#undef CALL
}

static void add_any(const uint8_t *from, const uint8_t *base, uint64_t sign, uint8_t *to, size_t n, unsigned width)
{
#define CALL(w) add(from, base, sign, to, n, w)
	BY_WIDTH(width, CALL);
#undef CALL
}

INLINE void fold(uint8_t *p, size_t n, unsigned width)
{
	for (size_t i = 0; i < n; i++) {
		uint64_t v = load(p + i * width, width);

		store(p + i * width, v << 1 ^ (0 - (v >> (8 * width - 1))), width);
	}
}

INLINE void unfold(uint8_t *p, size_t n, unsigned width)
{
	for (size_t i = 0; i < n; i++) {
		uint64_t v = load(p + i * width, width);

		store(p + i * width, v >> 1 ^ (0 - (v & 1)), width);
	}
}

void kedge__signs_fold(uint8_t *p, size_t bytes, unsigned width)
{
#define CALL(w) fold(p, bytes / (w), w)
	BY_WIDTH(width, CALL);
#undef CALL
}

void kedge__signs_unfold(uint8_t *p, size_t bytes, unsigned width)
{
#define CALL(w) unfold(p, bytes / (w), w)
	BY_WIDTH(width, CALL);
#undef CALL
}

void kedge__xor_bytes(const uint8_t *from, const uint8_t *base, uint8_t *to, size_t bytes)
{
	size_t i = 0;

	for (; i + 8 <= bytes; i += 8)
		kedge__put64(to + i, kedge__get64(from + i) ^ kedge__get64(base + i));
	for (; i < bytes; i++)
		to[i] = from[i] ^ base[i];
}

void kedge__steps_take(unsigned steps, const uint8_t *from, const uint8_t *base, uint8_t *to, size_t bytes,
		       unsigned width)
{
	size_t n = bytes / width;

	if (steps & KEDGE__STEP_XOR)
		kedge__xor_bytes(from, base, to, bytes);
	else
		memcpy(to + n * width, from + n * width, bytes - n * width);
	if (steps & KEDGE__STEP_MINUS)
		add_any(from, base, UINT64_MAX, to, n, width);
	if (steps & KEDGE__STEP_DELTA)
		difference_any(steps & KEDGE__STEP_BASE ? to : from, to, n, width);
}

void kedge__steps_undo(unsigned steps, uint8_t *raw, const uint8_t *base, size_t bytes, unsigned width)
{
	if (steps & KEDGE__STEP_DELTA)
		sum_any(raw, bytes / width, width);
	if (steps & KEDGE__STEP_MINUS)
		add_any(raw, base, 1, raw, bytes / width, width);
	if (steps & KEDGE__STEP_XOR)
		kedge__xor_bytes(raw, base, raw, bytes);
}

/* ------------------------------------------------------------------ layouts */

static void lay_out(uint16_t id, const uint8_t *in, size_t bytes, unsigned width, uint8_t *out)
{
	if (id == KEDGE__CODEC_SHUFFLE)
		kedge__shuffle_bytes(kedge__shuffle_best(), in, bytes, width, out);
	else
		kedge__shuffle_bits(kedge__shuffle_best(), in, bytes, width, out);
}

static void undo_layout(uint16_t id, const uint8_t *in, size_t bytes, unsigned width, uint8_t *out)
{
	if (id == KEDGE__CODEC_SHUFFLE)
		kedge__unshuffle_bytes(kedge__shuffle_best(), in, bytes, width, out);
	else
		kedge__unshuffle_bits(kedge__shuffle_best(), in, bytes, width, out);
}

/* ------------------------------------------------------------------ the codecs */

static size_t filter_bound(size_t raw)
{
	return raw + raw / 128 + 1024;
}

static int filter_encode(const struct kedge__codec_choice *how, const struct kedge__codec_input *in, void *out,
			 size_t room, size_t *used, uint16_t *param, struct kedge__error *err)
{
	unsigned steps = in->base ? how->steps : how->steps & ~(unsigned)KEDGE__STEP_BASE;
	unsigned width = how->level ? (unsigned)how->level : kedge__element_width(in->type);
	bool layout = how->codec->id != KEDGE__CODEC_DELTA;
	uint8_t *scratch = kedge__malloc(2 * in->bytes + 1), *stepped = scratch, *laid = scratch + in->bytes;
	const uint8_t *mid = in->raw;
	int rc;

	if (!scratch)
		return kedge__error_nomem(err);
	if (steps) {
		kedge__steps_take(steps, in->raw, in->base, stepped, in->bytes, width);
		mid = stepped;
	}
	if (layout) {
		lay_out(how->codec->id, mid, in->bytes, width, laid);
		mid = laid;
	}
	rc = kedge__chain_encode(how, mid, in->bytes, out, room, used, err);
	kedge__free(scratch);
	if (!rc)
		*param = (uint16_t)(kedge__chain_id(how) | kedge__width_log2(width) << KEDGE__WIDTH_SHIFT |
				    steps << KEDGE__STEP_SHIFT);
	return rc;
}

int kedge__steps_check(uint16_t param, const void *base, struct kedge__error *err)
{
	unsigned steps = param >> KEDGE__STEP_SHIFT;

	if ((param >> KEDGE__WIDTH_SHIFT & 7) > 3 || steps & ~(unsigned)STEP_MASK ||
	    (steps & KEDGE__STEP_BASE) == KEDGE__STEP_BASE)
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "codec: invalid parameter %u", param);
	if (steps & KEDGE__STEP_BASE && !base)
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0,
					"codec: the bytes of the previous version are needed, but were not given");
	return 0;
}

static int filter_decode(uint16_t id, const void *in, size_t in_bytes, uint16_t param, const void *base, void *raw,
			 size_t raw_bytes, struct kedge__error *err)
{
	unsigned width = 1u << (param >> KEDGE__WIDTH_SHIFT & 7);
	bool layout = id != KEDGE__CODEC_DELTA;
	uint8_t *laid = raw;
	int rc = kedge__steps_check(param, base, err);

	if (rc)
		return rc;
	if (layout)
		laid = kedge__malloc(raw_bytes + 1);
	if (!laid)
		return kedge__error_nomem(err);
	rc = kedge__chain_decode(param, in, in_bytes, laid, raw_bytes, err);
	if (!rc && layout)
		undo_layout(id, laid, raw_bytes, width, raw);
	if (!rc)
		kedge__steps_undo(param >> KEDGE__STEP_SHIFT, raw, base, raw_bytes, width);
	if (layout)
		kedge__free(laid);
	return rc;
}

bool kedge__codec_needs_base(uint16_t id, uint16_t param)
{
	return (id == KEDGE__CODEC_SHUFFLE || id == KEDGE__CODEC_BITSHUFFLE || id == KEDGE__CODEC_DELTA ||
		id == KEDGE__CODEC_RECORDS || id == KEDGE__CODEC_PLANES) &&
	       param >> KEDGE__STEP_SHIFT & KEDGE__STEP_BASE;
}

#define FILTER(which, ID, WIDTH_MAX)                                                                                   \
	static int which##_decode(const void *in, size_t in_bytes, uint16_t param, const void *base, void *raw,        \
				  size_t raw_bytes, struct kedge__error *err)                                          \
	{                                                                                                              \
		return filter_decode(ID, in, in_bytes, param, base, raw, raw_bytes, err);                              \
	}                                                                                                              \
	const struct kedge__codec kedge__codec_##which = {                                                             \
	    .id = ID,                                                                                                  \
	    .name = #which,                                                                                            \
	    .max_level = WIDTH_MAX,                                                                                    \
	    .widths = true,                                                                                            \
	    .first = true,                                                                                             \
	    .bound = filter_bound,                                                                                     \
	    .encode = filter_encode,                                                                                   \
	    .decode = which##_decode,                                                                                  \
	}

FILTER(shuffle, KEDGE__CODEC_SHUFFLE, 8);
FILTER(bitshuffle, KEDGE__CODEC_BITSHUFFLE, 8);
FILTER(delta, KEDGE__CODEC_DELTA, 0);
