/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Numbers by the planes of their bits: those of the same place in all numbers of a strip are put together, and bytes
 * that are zero are left out. Differences of numbers that change little have few planes that are not zero. Nothing is
 * looked for and nothing depends on what came before, so that a GPU makes the same bytes (src/gpu/planes.cu) many
 * strips at a time.
 *
 * A strip is 16 KiB of the block, the last may be shorter, and stands for itself: steps are taken within it. Where
 * differences were taken, the sign goes to the lowest bit, so that small negative numbers have few bits, too. Then the
 * planes are laid out as those of codec bitshuffle, and a bitmap says which of their bytes are not zero; of the bitmap,
 * bytes that are as the one before them are left out in the same way, twice over.
 *
 * The parameter: bits 8 to 10 the logarithm of the width, from 11 on the steps, as in filter.c.
 */
#include "codec/planes.h"
#include "codec/codec_table.h"
#include "codec/shuffle.h"

#define STRIP  KEDGE__PLANES_STRIP
#define LEVELS KEDGE__PLANES_LEVELS
#define SIGNED (KEDGE__STEP_DELTA | KEDGE__STEP_MINUS)

/* ------------------------------------------------------------------ bytes that are zero
 * compact: those of N that are not go to TO, and a bit for each of all to MAP; returns how many. expand: back; *USED of
 * FROM, of which there are ROOM; false: there are not enough. */

static size_t bitmap_bytes(size_t n)
{
	return (n + 7) / 8;
}

static size_t compact_tail(const uint8_t *from, size_t n, uint8_t *to, uint8_t *map)
{
	size_t used = 0;

	*map = 0;
	for (size_t i = 0; i < n; i++) {
		to[used] = from[i];
		used += from[i] != 0;
		*map |= (uint8_t)((from[i] != 0) << i);
	}
	return used;
}

static size_t compact(const uint8_t *from, size_t n, uint8_t *to, uint8_t *map)
{
	size_t used = 0;

	for (size_t i = 0; i < n; i += 8) {
		if (n - i >= 8 && kedge__get64(from + i) == 0)
			map[i / 8] = 0;
		else
			used += compact_tail(from + i, KEDGE__MIN(n - i, (size_t)8), to + used, &map[i / 8]);
	}
	return used;
}

static bool expand(const uint8_t *map, size_t n, const uint8_t *from, size_t room, uint8_t *to, size_t *used)
{
	size_t at = 0;

	for (size_t i = 0; i < n; i += 8) {
		unsigned bits = map[i / 8], count = (unsigned)__builtin_popcount(bits);

		if (room - at < count || (n - i < 8 && bits >> (n - i)))
			return false;
		for (size_t k = 0; k < KEDGE__MIN(n - i, (size_t)8); k++) {
			to[i + k] = bits >> k & 1 ? from[at] : 0;
			at += bits >> k & 1;
		}
	}
	*used = at;
	return true;
}

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

__attribute__((target("bmi2,sse2"))) static size_t compact_bmi2(const uint8_t *from, size_t n, uint8_t *to,
								uint8_t *map)
{
	size_t used = 0, i = 0;

	for (; i + 8 <= n; i += 8) {
		uint64_t v = kedge__get64(from + i), keep;
		unsigned bits = 0xff & ~(unsigned)_mm_movemask_epi8(
					   _mm_cmpeq_epi8(_mm_cvtsi64_si128((long long)v), _mm_setzero_si128()));

		map[i / 8] = (uint8_t)bits;
		if (!bits)
			continue;
		keep = _pdep_u64(bits, UINT64_C(0x0101010101010101)) * 255;
		kedge__put64(to + used, _pext_u64(v, keep));
		used += (size_t)__builtin_popcount(bits);
	}
	if (i < n)
		used += compact_tail(from + i, n - i, to + used, &map[i / 8]);
	return used;
}

__attribute__((target("bmi2"))) static bool expand_bmi2(const uint8_t *map, size_t n, const uint8_t *from, size_t room,
							uint8_t *to, size_t *used)
{
	size_t at = 0, i = 0, rest = 0;

	for (; i + 8 <= n && room - at >= 8; i += 8) {
		unsigned bits = map[i / 8];

		kedge__put64(to + i,
			     _pdep_u64(kedge__get64(from + at), _pdep_u64(bits, UINT64_C(0x0101010101010101)) * 255));
		at += (size_t)__builtin_popcount(bits);
	}
	if (!expand(map + i / 8, n - i, from + at, room - at, to + i, &rest))
		return false;
	*used = at + rest;
	return true;
}

static bool has_bmi2(void)
{
	return __builtin_cpu_supports("bmi2");
}
#else
#define compact_bmi2 compact
#define expand_bmi2  expand
static bool has_bmi2(void)
{
	return false;
}
#endif

/* ------------------------------------------------------------------ strips */

struct strip_work {
	uint8_t numbers[STRIP], planes[STRIP];
	uint8_t maps[LEVELS + 1][STRIP / 8], differences[STRIP / 8];
	uint8_t kept[STRIP + 8], kept_of_maps[LEVELS][STRIP / 8 + 8]; /* 8: what compact() may write beyond */
};

/* TO[i] = FROM[i] ^ FROM[i - 1] */
static void differ(const uint8_t *from, size_t n, uint8_t *to)
{
	to[0] = from[0];
	for (size_t i = 1; i < n; i++)
		to[i] = from[i] ^ from[i - 1];
}

size_t kedge__planes_strip_encode(unsigned steps, unsigned width, const uint8_t *raw, const uint8_t *base, size_t bytes,
				  uint8_t *out)
{
	size_t (*pack)(const uint8_t *, size_t, uint8_t *, uint8_t *) = has_bmi2() ? compact_bmi2 : compact;
	struct strip_work w;
	const uint8_t *numbers = raw;
	size_t used = 0, n[LEVELS + 1], kept[LEVELS + 1];

	if (steps) {
		kedge__steps_take(steps, raw, base, w.numbers, bytes, width);
		if (steps & SIGNED)
			kedge__signs_fold(w.numbers, bytes, width);
		numbers = w.numbers;
	}
	kedge__shuffle_bits(kedge__shuffle_best(), numbers, bytes, width, w.planes);
	n[0] = bytes;
	kept[0] = pack(w.planes, bytes, w.kept, w.maps[0]);
	for (int l = 1; l <= LEVELS; l++) {
		n[l] = bitmap_bytes(n[l - 1]);
		differ(w.maps[l - 1], n[l], w.differences);
		kept[l] = pack(w.differences, n[l], w.kept_of_maps[l - 1], w.maps[l]);
		used += kept[l];
	}
	used += kept[0] + bitmap_bytes(n[LEVELS]);
	if (used >= bytes)
		return bytes;
	memcpy(out, w.maps[LEVELS], bitmap_bytes(n[LEVELS]));
	out += bitmap_bytes(n[LEVELS]);
	for (int l = LEVELS; l >= 0; l--) {
		memcpy(out, l ? w.kept_of_maps[l - 1] : w.kept, kept[l]);
		out += kept[l];
	}
	return used;
}

static bool strip_decode(unsigned steps, unsigned width, const uint8_t *in, size_t in_bytes, const uint8_t *base,
			 uint8_t *raw, size_t bytes)
{
	bool (*unpack)(const uint8_t *, size_t, const uint8_t *, size_t, uint8_t *, size_t *) =
	    has_bmi2() ? expand_bmi2 : expand;
	struct strip_work w;
	size_t n[LEVELS + 1], used, top;

	n[0] = bytes;
	for (int l = 1; l <= LEVELS; l++)
		n[l] = bitmap_bytes(n[l - 1]);
	top = bitmap_bytes(n[LEVELS]);
	if (in_bytes < top)
		return false;
	memcpy(w.maps[LEVELS], in, top);
	in += top, in_bytes -= top;
	for (int l = LEVELS; l >= 1; l--) {
		if (!unpack(w.maps[l], n[l], in, in_bytes, w.maps[l - 1], &used))
			return false;
		in += used, in_bytes -= used;
		for (size_t i = 1; i < n[l]; i++)
			w.maps[l - 1][i] ^= w.maps[l - 1][i - 1];
	}
	if (!unpack(w.maps[0], bytes, in, in_bytes, w.planes, &used) || used != in_bytes)
		return false;
	kedge__unshuffle_bits(kedge__shuffle_best(), w.planes, bytes, width, raw);
	if (steps & SIGNED)
		kedge__signs_unfold(raw, bytes, width);
	kedge__steps_undo(steps, raw, base, bytes, width);
	return true;
}

/* ------------------------------------------------------------------ blocks */

/* Bytes of the block that strips have: whole groups of eight numbers. */
static size_t whole(size_t bytes, unsigned width)
{
	return bytes / (8 * width) * (8 * width);
}

static size_t strips(size_t bytes)
{
	return (bytes + STRIP - 1) / STRIP;
}

static size_t planes_bound(size_t raw)
{
	return raw + 2 * strips(raw) + 2;
}

static int planes_encode(const struct kedge__codec_choice *how, const struct kedge__codec_input *in, void *out,
			 size_t room, size_t *used, uint16_t *param, struct kedge__error *err)
{
	unsigned steps = in->base ? how->steps : how->steps & ~(unsigned)KEDGE__STEP_BASE;
	unsigned width = how->level ? (unsigned)how->level : kedge__element_width(in->type);
	const uint8_t *raw = in->raw, *base = in->base;
	size_t n = whole(in->bytes, width), tail = in->bytes - n, at = 2 * strips(n);
	uint8_t packed[STRIP];

	if (at + tail > room)
		return kedge__error_set(err, KEDGE_E_LIMIT, 0, "codec planes: %zu bytes do not fit into %zu", in->bytes,
					room);
	for (size_t i = 0; i < n; i += STRIP) {
		size_t bytes = KEDGE__MIN(n - i, (size_t)STRIP);
		size_t size = kedge__planes_strip_encode(steps, width, raw + i, base ? base + i : NULL, bytes, packed);

		if (size + tail > room - at)
			return kedge__error_set(err, KEDGE_E_LIMIT, 0, "codec planes: %zu bytes do not fit into %zu",
						in->bytes, room);
		kedge__put16((uint8_t *)out + i / STRIP * 2, (uint16_t)size);
		memcpy((uint8_t *)out + at, size < bytes ? packed : raw + i, size);
		at += size;
	}
	memcpy((uint8_t *)out + at, raw + n, tail);
	*used = at + tail;
	*param = (uint16_t)(kedge__width_log2(width) << KEDGE__WIDTH_SHIFT | steps << KEDGE__STEP_SHIFT);
	return 0;
}

static int damaged(struct kedge__error *err)
{
	return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "codec planes: a strip is not what it says");
}

bool kedge__planes_alone(uint16_t param)
{
	unsigned steps = param >> KEDGE__STEP_SHIFT, log2 = param >> KEDGE__WIDTH_SHIFT & 7;

	return !(param & 0xff) && log2 >= 1 && log2 <= 3 && !(steps & ~(unsigned)KEDGE__STEP_DELTA);
}

int kedge__planes_walk_init(struct kedge__planes_walk *w, const void *in, size_t in_bytes, uint16_t param,
			    size_t raw_bytes, struct kedge__error *err)
{
	unsigned width = 1u << (param >> KEDGE__WIDTH_SHIFT & 7);
	size_t n = whole(raw_bytes, width);

	if (param & 0xff)
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "codec planes: invalid parameter %u", param);
	if (2 * strips(n) > in_bytes)
		return damaged(err);
	*w = (struct kedge__planes_walk){.in = in,
					 .in_bytes = in_bytes,
					 .raw_bytes = raw_bytes,
					 .whole = n,
					 .width = width,
					 .steps = param >> KEDGE__STEP_SHIFT,
					 .count = strips(n) + (raw_bytes > n),
					 .from = 2 * strips(n)};
	return 0;
}

int kedge__planes_walk_next(struct kedge__planes_walk *w, bool *more, struct kedge__error *err)
{
	size_t left;

	w->from += w->size;
	w->at += w->bytes;
	left = w->in_bytes - w->from;
	*more = w->at < w->raw_bytes;
	if (w->at < w->whole) {
		w->bytes = KEDGE__MIN(w->whole - w->at, (size_t)STRIP);
		w->size = kedge__get16(w->in + w->at / STRIP * 2);
	} else { /* what no strip has, and then nothing */
		w->bytes = w->size = w->raw_bytes - w->at;
		if (left != w->size)
			return damaged(err);
	}
	return w->size > w->bytes || w->size > left ? damaged(err) : 0;
}

static int planes_decode(const void *in, size_t in_bytes, uint16_t param, const void *base, void *raw, size_t raw_bytes,
			 struct kedge__error *err)
{
	struct kedge__planes_walk w;
	bool more = true;
	int rc = kedge__steps_check(param, base, err);

	if (!rc)
		rc = kedge__planes_walk_init(&w, in, in_bytes, param, raw_bytes, err);
	while (!rc && more) {
		uint8_t *to;

		rc = kedge__planes_walk_next(&w, &more, err);
		if (rc || !more)
			break;
		to = (uint8_t *)raw + w.at;
		if (w.size == w.bytes)
			memcpy(to, w.in + w.from, w.size);
		else if (!strip_decode(w.steps, w.width, w.in + w.from, w.size,
				       base ? (const uint8_t *)base + w.at : NULL, to, w.bytes))
			rc = damaged(err);
	}
	return rc;
}

const struct kedge__codec kedge__codec_planes = {
    .id = KEDGE__CODEC_PLANES,
    .name = "planes",
    .max_level = 8,
    .widths = true,
    .bound = planes_bound,
    .encode = planes_encode,
    .decode = planes_decode,
};
