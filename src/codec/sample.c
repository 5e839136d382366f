#include "codec/codec_table.h"
#include "codec/field.h"

#define SAMPLES      4
#define SAMPLE_BYTES 32768 /* at most */
#define SAMPLE_LEAST 8192  /* less would be all headers */
#define SAMPLE_SHARE 16    /* of the data, as far as that leaves more than the least */
#define SMALL_BYTES  (UINT64_C(256) << 10)
#define FIRST_SLACK  1.15 /* what is this much worse on the beginnings of all samples need not be tried on the whole */
#define DECODE_LEAST 500e6

/* For which types a candidate is tried. */
#define ANY    1u
#define WIDE   2u /* elements of two bytes or more */
#define FLOATS 4u /* floating point of eight bytes */
#define SMALL  8u /* also for regions so small that trying all of them would take longer than any could save */

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
    {"lz4", 700e6, 2500e6, ANY | SMALL},
    {"zstd:1", 400e6, 1000e6, ANY | SMALL},
    {"zstd:3", 250e6, 900e6, ANY},
    {"zstd:9", 50e6, 900e6, ANY},
    {"zstd:19", 3e6, 800e6, ANY},
    {"shuffle+lz4", 700e6, 2000e6, WIDE},
    {"shuffle+zstd:1", 450e6, 1000e6, WIDE | SMALL},
    {"shuffle+zstd:3", 350e6, 1000e6, WIDE},
    {"shuffle+zstd:19", 4e6, 800e6, WIDE},
    {"bitshuffle+lz4", 900e6, 2000e6, WIDE},
    {"bitshuffle+zstd:1", 500e6, 1000e6, WIDE},
    {"bitshuffle+zstd:19", 5e6, 800e6, WIDE},
    {"delta+shuffle+zstd:1", 400e6, 900e6, WIDE},
    {"delta+bitshuffle+zstd:1", 450e6, 900e6, WIDE},
    {"field", 600e6, 800e6, WIDE | SMALL},
    {"fpc64:12", 400e6, 450e6, FLOATS},
};

struct sampler {
	const void *const *pieces;
	const size_t *bytes;
	size_t count;
	uint64_t total;
	enum kedge_type type;
	uint8_t *raw, *first, *packed; /* SAMPLE_BYTES: for each sample, for the beginnings, for what is tried */
	size_t len;                    /* of a sample */
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

	uint64_t len = s->total / SAMPLE_SHARE / size * size;

	len = KEDGE__MIN(KEDGE__MAX(len, (uint64_t)SAMPLE_LEAST), (uint64_t)SAMPLE_BYTES);
	s->len = (size_t)KEDGE__MIN(s->total, len);
	s->samples = KEDGE__MIN((s->total + len - 1) / len, (uint64_t)SAMPLES);
	for (uint64_t i = 0; i < s->samples; i++)
		gather(s, s->samples > 1 ? (s->total - s->len) / (s->samples - 1) * i / size * size : 0, s->len,
		       s->raw + i * SAMPLE_BYTES);
}

static double packed_share(struct sampler *s, const struct kedge__codec_choice *choice, const uint8_t *raw, size_t len)
{
	const struct kedge__codec_input in = {.raw = raw, .bytes = len, .type = s->type};
	uint16_t param;
	size_t used;

	if (choice->codec->encode(choice, &in, s->packed, len, &used, &param, NULL) != 0)
		used = len;
	return (double)used / (double)len;
}

/* Of all samples. */
static double packed_size(struct sampler *s, const struct kedge__codec_choice *choice)
{
	double sum = 0;

	for (uint64_t i = 0; i < s->samples; i++)
		sum += packed_share(s, choice, s->raw + i * SAMPLE_BYTES, s->len);
	return sum / (double)s->samples;
}

/* The beginnings of all samples, one behind the other, where a sample would be. */
static size_t take_beginnings(struct sampler *s)
{
	size_t size = KEDGE__MAX(kedge_type_size(s->type), (size_t)1);
	size_t each = KEDGE__MIN(s->len, SAMPLE_LEAST / (size_t)s->samples / size * size);

	for (uint64_t i = 0; i < s->samples; i++)
		memcpy(s->first + i * each, s->raw + i * SAMPLE_BYTES, each);
	return each * (size_t)s->samples;
}

static bool is_tried(const struct candidate *c, const struct kedge__codec_choice *wanted, const struct sampler *s)
{
	unsigned width = kedge__element_width(s->type);

	if ((c->types & WIDE) && (width < 2 || s->type == KEDGE_BYTES))
		return false;
	if ((c->types & FLOATS) && (!kedge__element_is_float(s->type) || width < 8))
		return false;
	if (wanted->smallest)
		return true;
	/* With a target, what cannot keep up; without, what could not even if storage took a hundredth of the default.
	 */
	if (s->total < SMALL_BYTES && !(c->types & SMALL))
		return false;
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

struct trial {
	const struct candidate *candidate;
	struct kedge__codec_choice choice;
	double size, cost; /* size as a share of raw bytes */
};

/* All candidates on the beginnings; those that are too slow however small they get are left out. */
static size_t try_first(struct sampler *s, const struct kedge__codec_choice *wanted, struct trial *trials,
			double *least)
{
	size_t n = 0, len = take_beginnings(s);

	*least = cost_of(&candidates[0], wanted, 1);
	for (size_t i = 1; i < KEDGE__COUNT(candidates); i++) {
		struct trial *t = &trials[n];

		if (!is_tried(&candidates[i], wanted, s) || cost_of(&candidates[i], wanted, 0) > *least ||
		    kedge__codec_choice_parse(candidates[i].name, &t->choice, NULL) != 0)
			continue;
		t->choice.row = wanted->row;
		t->choice.plane = wanted->plane;
		t->size = packed_share(s, &t->choice, s->first, len);
		t->cost = cost_of(&candidates[i], wanted, t->size);
		*least = KEDGE__MIN(*least, t->cost);
		t->candidate = &candidates[i];
		n++;
	}
	return n;
}

static struct kedge__codec_choice choose(struct sampler *s, const struct kedge__codec_choice *wanted)
{
	struct kedge__codec_choice best = {.codec = &kedge__codec_none};
	struct trial trials[KEDGE__COUNT(candidates)];
	double near, least = cost_of(&candidates[0], wanted, 1), smallest = 1;
	size_t n = try_first(s, wanted, trials, &near);

	for (size_t i = 0; i < n; i++) {
		struct trial *t = &trials[i];

		if (t->cost > near * FIRST_SLACK)
			continue;
		t->size = packed_size(s, &t->choice);
		t->cost = cost_of(t->candidate, wanted, t->size);
		if (t->size * 20 > 19 || t->cost > least || (t->cost == least && t->size >= smallest))
			continue;
		least = t->cost;
		smallest = t->size;
		best = t->choice;
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
	s.raw = kedge__malloc((SAMPLES + 2) * SAMPLE_BYTES);
	if (!s.raw)
		return choice;
	s.first = s.raw + SAMPLES * SAMPLE_BYTES;
	s.packed = s.first + SAMPLE_BYTES;
	take_samples(&s);
	choice = choose(&s, wanted);
	kedge__free(s.raw);
	return choice;
}
