#include "codec/codec_table.h"
#include "codec/field.h"

#define SAMPLES      4
#define SAMPLE_BYTES 32768
#define DECODE_LEAST 500e6

/* For which types a candidate is tried. */
#define ANY    1u
#define WIDE   2u /* elements of two bytes or more */
#define FLOATS 4u /* floating point of four or eight bytes */

/*
 * Candidates for "auto", with bytes a second and thread of packing and unpacking: what a core of a server of the 2020s
 * does on data that gives no more than it must. Built in, so that the choice depends on data alone; only their order of
 * magnitude matters.
 */
static const struct candidate {
	const char *name;
	double encode, decode;
	unsigned types;
} candidates[] = {
    {"none", 1e12, 1e12, ANY},
    {"lz4", 700e6, 2500e6, ANY},
    {"zstd:1", 400e6, 1000e6, ANY},
    {"zstd:3", 250e6, 900e6, ANY},
    {"zstd:9", 50e6, 900e6, ANY},
    {"zstd:19", 3e6, 800e6, ANY},
    {"shuffle+lz4", 700e6, 2000e6, WIDE},
    {"shuffle+zstd:1", 450e6, 1000e6, WIDE},
    {"shuffle+zstd:3", 350e6, 1000e6, WIDE},
    {"shuffle+zstd:19", 4e6, 800e6, WIDE},
    {"bitshuffle+lz4", 900e6, 2000e6, WIDE},
    {"bitshuffle+zstd:1", 500e6, 1000e6, WIDE},
    {"bitshuffle+zstd:19", 5e6, 800e6, WIDE},
    {"delta+shuffle+zstd:1", 400e6, 900e6, WIDE},
    {"delta+bitshuffle+zstd:1", 450e6, 900e6, WIDE},
    {"field", 600e6, 800e6, WIDE},
    {"fpc64:12", 400e6, 450e6, FLOATS},
};

struct sampler {
	const void *const *pieces;
	const size_t *bytes;
	size_t count;
	uint64_t total;
	enum kedge_type type;
	uint8_t *raw, *packed; /* SAMPLE_BYTES each for each sample */
	size_t len;            /* of a sample */
	uint64_t samples;
};

/* LEN bytes at POS of the pieces, as if they stood one behind the other. */
static void gather(struct sampler *s, uint64_t pos, size_t len, uint8_t *to)
{
	size_t done = 0;

	for (size_t i = 0; i < s->count && done < len; i++) {
		size_t n;

		if (pos >= s->bytes[i]) {
			pos -= s->bytes[i];
			continue;
		}
		n = KEDGE__MIN(len - done, s->bytes[i] - (size_t)pos);
		memcpy(to + done, (const uint8_t *)s->pieces[i] + pos, n);
		done += n;
		pos = 0;
	}
}

/* Samples from all over, each beginning with a whole element. */
static void take_samples(struct sampler *s)
{
	uint64_t size = kedge_type_size(s->type) ? kedge_type_size(s->type) : 1;

	s->len = (size_t)KEDGE__MIN(s->total, (uint64_t)SAMPLE_BYTES);
	s->samples = KEDGE__MIN((s->total + SAMPLE_BYTES - 1) / SAMPLE_BYTES, (uint64_t)SAMPLES);
	for (uint64_t i = 0; i < s->samples; i++)
		gather(s, s->samples > 1 ? (s->total - s->len) / (s->samples - 1) * i / size * size : 0, s->len,
		       s->raw + i * SAMPLE_BYTES);
}

static uint64_t packed_size(struct sampler *s, const struct kedge__codec_choice *choice)
{
	uint64_t sum = 0;

	for (uint64_t i = 0; i < s->samples; i++) {
		const struct kedge__codec_input in = {
		    .raw = s->raw + i * SAMPLE_BYTES, .bytes = s->len, .type = s->type};
		uint16_t param;
		size_t used;

		if (choice->codec->encode(choice, &in, s->packed, s->len, &used, &param, NULL) != 0)
			used = s->len;
		sum += used;
	}
	return sum;
}

static bool is_tried(const struct candidate *c, const struct kedge__codec_choice *wanted, enum kedge_type type)
{
	unsigned width = kedge__element_width(type);

	if (c->types == WIDE && (width < 2 || type == KEDGE_BYTES))
		return false;
	if (c->types == FLOATS && (!kedge__element_is_float(type) || width < 8))
		return false;
	if (wanted->smallest)
		return true;
	/* With a target, what cannot keep up; without, what could not even if storage took a hundredth of the default.
	 */
	return c->decode >= DECODE_LEAST && c->encode >= (wanted->target > 0 ? wanted->target : 0);
}

/*
 * What decides between candidates: the seconds a raw byte takes when packing and storage go on at the same time, the
 * slower of the two being what counts; with a target, or for the smallest, the size alone.
 */
static double cost_of(const struct candidate *c, const struct kedge__codec_choice *wanted, double fraction)
{
	double storage = wanted->storage > 0 ? wanted->storage : KEDGE__CODEC_STORAGE;

	if (wanted->smallest || wanted->target > 0)
		return fraction;
	return KEDGE__MAX(1 / c->encode, fraction / storage);
}

static struct kedge__codec_choice choose(struct sampler *s, const struct kedge__codec_choice *wanted)
{
	struct kedge__codec_choice best = {.codec = &kedge__codec_none};
	double raw = (double)(s->len * s->samples), least = cost_of(&candidates[0], wanted, 1), best_size = raw;

	for (size_t i = 1; i < KEDGE__COUNT(candidates); i++) {
		struct kedge__codec_choice choice;
		double size, cost;

		if (!is_tried(&candidates[i], wanted, s->type) ||
		    kedge__codec_choice_parse(candidates[i].name, &choice, NULL))
			continue;
		choice.row = wanted->row;
		choice.plane = wanted->plane;
		/* What is too slow however small it gets need not be tried. */
		if (cost_of(&candidates[i], wanted, 0) > least)
			continue;
		size = (double)packed_size(s, &choice);
		cost = cost_of(&candidates[i], wanted, size / raw);
		if (size * 20 > raw * 19 || cost > least || (cost == least && size >= best_size))
			continue;
		least = cost;
		best_size = size;
		best = choice;
	}
	return best;
}

struct kedge__codec_choice kedge__codec_sample(const struct kedge__codec_choice *wanted, enum kedge_type type,
					       const void *const *pieces, const size_t *bytes, size_t n)
{
	struct kedge__codec_choice choice = {.codec = &kedge__codec_none};
	struct sampler s = {.pieces = pieces, .bytes = bytes, .count = n, .type = type};

	if (!wanted->automatic)
		return *wanted;
	for (size_t i = 0; i < n; i++)
		s.total += bytes[i];
	if (s.total == 0)
		return choice;
	/* Without memory for a look, data is stored as it is: larger, never wrong. */
	s.raw = kedge__malloc((SAMPLES + 1) * SAMPLE_BYTES);
	if (!s.raw)
		return choice;
	s.packed = s.raw + SAMPLES * SAMPLE_BYTES;
	take_samples(&s);
	choice = choose(&s, wanted);
	kedge__free(s.raw);
	return choice;
}
