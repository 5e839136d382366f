/*
 * Which codec for a region: candidates are tried on samples of it, in the order in which they are likely to be the
 * best, as many of them and on as much as a small share of the time that packing the region takes allows. What is left
 * of them for a small region is one, which is then taken untried: a block that it does not shrink is stored as it is.
 */
#include "codec/codec_table.h"

#define CHUNKS       4
#define CHUNK_BYTES  16384 /* at most */
#define CHUNK_LEAST  4096  /* less would be all headers */
#define SHARE        0.04  /* of the time of packing */
#define SHARE_MAX    0.25  /* the same for "max" */
#define SPEED        400e6 /* bytes a second that are packed, as a rule */
#define SPEED_MAX    4e6
#define SETUP        8e-6 /* seconds that a try takes however small the sample */
#define DECODE_LEAST 500e6
#define FETCH        1e9  /* bytes a second of the base */
#define BASE_LEAST   1.1  /* how much better what needs a base has to be than what does not */
#define GUESS        0.75 /* what the first candidate shrinks data to if there is no time to try it */

/* For which data a candidate is tried. */
#define BYTES  1u  /* untyped, and elements of a byte */
#define WIDE   2u  /* elements of two bytes or more */
#define FLOATS 4u  /* floating point of eight bytes */
#define BASE   8u  /* there is a base */
#define DEEP   16u /* for "max" alone */

/*
 * With bytes a second and thread of packing and unpacking: what a core of a server of the 2020s does on data that gives
 * no more than it must. Built in, so that the choice depends on data alone; only their order of magnitude matters.
 */
static const struct candidate {
	const char *name;
	double encode, decode;
	unsigned data;
} candidates[] = {
    {"field", 450e6, 600e6, WIDE},
    {"zstd:1", 400e6, 1000e6, BYTES},
    {"shuffle+zstd:1", 450e6, 1000e6, WIDE},
    {"lz4", 700e6, 2500e6, BYTES},
    {"shuffle:8+zstd:1", 400e6, 1000e6, BYTES},
    {"xor+shuffle+zstd:1", 450e6, 1000e6, WIDE | BASE},
    {"xor+zstd:1", 450e6, 1000e6, BYTES | BASE},
    {"bitshuffle+lz4", 900e6, 2000e6, WIDE},
    {"zstd:3", 250e6, 900e6, BYTES | WIDE},
    {"delta+bitshuffle+zstd:1", 450e6, 900e6, WIDE},
    {"shuffle+zstd:3", 350e6, 1000e6, WIDE},
    {"lz4", 700e6, 2500e6, WIDE},
    {"shuffle:4+zstd:1", 400e6, 1000e6, BYTES},
    {"bitshuffle+zstd:1", 500e6, 1000e6, WIDE},
    {"delta+shuffle+zstd:1", 400e6, 900e6, WIDE},
    {"minus+bitshuffle+zstd:1", 450e6, 900e6, WIDE | BASE},
    {"zstd:9", 50e6, 900e6, BYTES | WIDE},
    {"shuffle+zstd:19", 4e6, 800e6, WIDE | DEEP},
    {"zstd:19", 3e6, 800e6, BYTES | WIDE | DEEP},
    {"bitshuffle+zstd:19", 5e6, 800e6, WIDE | DEEP},
    {"shuffle:8+zstd:19", 4e6, 800e6, BYTES | DEEP},
    {"fpc64:12", 400e6, 450e6, FLOATS | DEEP},
};

struct sampler {
	const struct kedge__codec_choice *wanted;
	const struct kedge__codec_input *pieces;
	size_t count;
	uint64_t total;
	enum kedge_type type;
	bool base;
	double budget;         /* seconds */
	uint8_t *raw, *packed; /* CHUNKS times CHUNK_BYTES, and as much of the base behind it; CHUNK_BYTES */
	size_t chunk, chunks;
};

struct trial {
	const struct candidate *candidate;
	struct kedge__codec_choice choice;
};

/* ------------------------------------------------------------------ what is tried */

static double fetch(const struct sampler *s)
{
	return s->wanted->fetch > 0 ? s->wanted->fetch : FETCH;
}

/* Seconds a byte. */
static double encode_time(const struct sampler *s, const struct candidate *c)
{
	return 1 / c->encode + (c->data & BASE ? 1 / fetch(s) : 0);
}

static double decode_time(const struct sampler *s, const struct candidate *c)
{
	return 1 / c->decode + (c->data & BASE ? 1 / fetch(s) : 0);
}

static bool fits_data(const struct sampler *s, const struct candidate *c)
{
	unsigned width = s->type == KEDGE_BYTES ? 1 : kedge__element_width(s->type);

	if (c->data & BASE && !s->base)
		return false;
	if (c->data & FLOATS)
		return kedge__element_is_float(s->type) && width == 8;
	return c->data & (width > 1 ? WIDE : BYTES);
}

static double storage(const struct sampler *s)
{
	return s->wanted->storage > 0 ? s->wanted->storage : KEDGE__CODEC_STORAGE;
}

/* What counts of a candidate that leaves SIZE, a share of the raw bytes; the less the better. */
static double cost_of(const struct sampler *s, const struct candidate *c, double size)
{
	double cost =
	    s->wanted->smallest || s->wanted->target > 0 ? size : KEDGE__MAX(encode_time(s, c), size / storage(s));

	return c->data & BASE ? cost * BASE_LEAST : cost;
}

static double cost_of_none(const struct sampler *s)
{
	return s->wanted->smallest || s->wanted->target > 0 ? 1 : 1 / storage(s);
}

static bool is_tried(const struct sampler *s, const struct candidate *c)
{
	if (!fits_data(s, c))
		return false;
	if (s->wanted->smallest)
		return true;
	if (c->data & DEEP || decode_time(s, c) > 1 / DECODE_LEAST)
		return false;
	if (s->wanted->target > 0)
		return encode_time(s, c) <= 1 / s->wanted->target;
	/* However small it gets, it is slower than storing the data as it is. */
	return encode_time(s, c) < cost_of_none(s);
}

/* Candidates in their order, as long as each can still be tried on the least sample; the size of a sample to N. */
static size_t list_trials(struct sampler *s, struct trial *trials)
{
	double slowness = 0, least = KEDGE__MIN((double)s->total, (double)CHUNK_LEAST), bytes;
	size_t n = 0;

	for (size_t i = 0; i < KEDGE__COUNT(candidates); i++) {
		const struct candidate *c = &candidates[i];

		if (!is_tried(s, c) ||
		    (n && s->budget < (slowness + encode_time(s, c)) * least + SETUP * (double)(n + 1)) ||
		    kedge__codec_choice_parse(c->name, &trials[n].choice, NULL) != 0)
			continue;
		trials[n].choice.row = s->wanted->row;
		trials[n].choice.plane = s->wanted->plane;
		trials[n++].candidate = c;
		slowness += encode_time(s, c);
	}
	bytes = n ? (s->budget - SETUP * (double)n) / slowness : 0;
	bytes = KEDGE__MIN(KEDGE__MAX(bytes, least), (double)s->total);
	s->chunks = (size_t)KEDGE__MIN(KEDGE__MAX(bytes / CHUNK_LEAST, 1), (double)CHUNKS);
	s->chunk = (size_t)KEDGE__MIN(bytes / (double)s->chunks, (double)CHUNK_BYTES);
	return n;
}

/* ------------------------------------------------------------------ samples */

/* The chunk at POS of the pieces, as if they stood one behind the other. */
static void gather(const struct sampler *s, uint64_t pos, uint8_t *to)
{
	size_t done = 0;

	for (size_t i = 0; i < s->count && done < s->chunk; i++) {
		const struct kedge__codec_input *piece = &s->pieces[i];
		size_t n;

		if (pos >= piece->bytes) {
			pos -= piece->bytes;
			continue;
		}
		n = KEDGE__MIN(s->chunk - done, piece->bytes - (size_t)pos);
		memcpy(to + done, (const uint8_t *)piece->raw + pos, n);
		if (s->base)
			memcpy(to + (size_t)CHUNKS * CHUNK_BYTES + done, (const uint8_t *)piece->base + pos, n);
		done += n;
		pos = 0;
	}
}

/* From all over, each beginning with a whole element. */
static void take_chunks(struct sampler *s)
{
	uint64_t size = KEDGE__MAX(kedge_type_size(s->type), (size_t)1);

	for (uint64_t i = 0; i < s->chunks; i++)
		gather(s, s->chunks > 1 ? (s->total - s->chunk) / (s->chunks - 1) * i / size * size : 0,
		       s->raw + i * CHUNK_BYTES);
}

static double packed_share(const struct sampler *s, const struct kedge__codec_choice *choice)
{
	size_t sum = 0;

	for (size_t i = 0; i < s->chunks; i++) {
		const uint8_t *raw = s->raw + i * CHUNK_BYTES;
		const struct kedge__codec_input in = {.raw = raw,
						      .bytes = s->chunk,
						      .type = s->type,
						      .base = s->base ? raw + (size_t)CHUNKS * CHUNK_BYTES : NULL};
		uint16_t param;
		size_t used;

		if (choice->codec->encode(choice, &in, s->packed, s->chunk, &used, &param, NULL) != 0)
			used = s->chunk;
		sum += used;
	}
	return (double)sum / (double)(s->chunks * s->chunk);
}

/* ------------------------------------------------------------------ choose */

static void take(struct kedge__codec_why *why, const struct sampler *s, const struct candidate *c, double size)
{
	why->size = size;
	why->encode = 1 / encode_time(s, c);
	why->decode = 1 / decode_time(s, c);
	why->reason = s->wanted->smallest     ? KEDGE__CODEC_SMALLEST
		      : s->wanted->target > 0 ? KEDGE__CODEC_TARGET
					      : KEDGE__CODEC_FASTEST;
}

/* Without a look at the data: what is likely to be the best. */
static struct kedge__codec_choice guess(const struct sampler *s, const struct trial *t, struct kedge__codec_why *why)
{
	if (cost_of(s, t->candidate, GUESS) > cost_of_none(s))
		return (struct kedge__codec_choice){.codec = &kedge__codec_none};
	take(why, s, t->candidate, GUESS);
	why->reason = KEDGE__CODEC_UNTRIED;
	return t->choice;
}

static struct kedge__codec_choice choose(const struct sampler *s, const struct trial *trials, size_t n,
					 struct kedge__codec_why *why)
{
	struct kedge__codec_choice best = {.codec = &kedge__codec_none};
	double least = cost_of_none(s);

	for (size_t i = 0; i < n; i++) {
		double size = packed_share(s, &trials[i].choice), cost = cost_of(s, trials[i].candidate, size);

		if (size * 20 > 19 || cost > least || (cost == least && size >= why->size))
			continue;
		least = cost;
		best = trials[i].choice;
		take(why, s, trials[i].candidate, size);
	}
	why->tried = (uint32_t)n;
	why->sampled_bytes = s->chunks * s->chunk;
	return best;
}

static bool look_at_pieces(struct sampler *s)
{
	s->base = s->count > 0;
	for (size_t i = 0; i < s->count; i++) {
		s->total += s->pieces[i].bytes;
		s->base = s->base && s->pieces[i].base;
		s->type = s->pieces[i].type;
	}
	return s->total > 0;
}

/* Seconds that packing all of it takes, as a rule. */
static double packing_time(const struct sampler *s)
{
	uint64_t bytes = KEDGE__MAX(s->wanted->bytes, s->total);

	return (double)bytes / (s->wanted->smallest ? SPEED_MAX : SPEED);
}

struct kedge__codec_choice kedge__codec_sample(const struct kedge__codec_choice *wanted,
					       const struct kedge__codec_input *pieces, size_t n,
					       struct kedge__codec_why *why)
{
	struct kedge__codec_choice choice = {.codec = &kedge__codec_none};
	struct sampler s = {.wanted = wanted, .pieces = pieces, .count = n};
	struct trial trials[KEDGE__COUNT(candidates)];
	struct kedge__codec_why unread;
	size_t count;

	why = why ? why : &unread;
	*why = (struct kedge__codec_why){.size = 1, .target = wanted->target, .storage = storage(&s)};
	if (!wanted->automatic) {
		why->reason = KEDGE__CODEC_GIVEN;
		return *wanted;
	}
	if (!look_at_pieces(&s))
		return choice;
	s.budget = packing_time(&s) * (wanted->smallest ? SHARE_MAX : SHARE);
	count = list_trials(&s, trials);
	if (!count)
		return choice;
	if (count == 1 && !wanted->smallest)
		return guess(&s, &trials[0], why);
	/* Without memory for a look, data is stored as it is: larger, never wrong. */
	s.raw = kedge__malloc((2 * CHUNKS + 1) * CHUNK_BYTES);
	if (!s.raw)
		return choice;
	s.packed = s.raw + (size_t)2 * CHUNKS * CHUNK_BYTES;
	take_chunks(&s);
	choice = choose(&s, trials, count, why);
	kedge__free(s.raw);
	return choice;
}

const char *kedge__codec_reason_text(enum kedge__codec_reason reason)
{
	static const char *const texts[] = {
	    [KEDGE__CODEC_NOTHING] = "nothing made it smaller by a twentieth in less time than storing it takes",
	    [KEDGE__CODEC_GIVEN] = "asked for",
	    [KEDGE__CODEC_UNTRIED] = "what is best as a rule; too small for samples",
	    [KEDGE__CODEC_FASTEST] = "the fastest way through packing and storage",
	    [KEDGE__CODEC_TARGET] = "the smallest that keeps up with the target",
	    [KEDGE__CODEC_SMALLEST] = "the smallest",
	    [KEDGE__CODEC_BORROWED] = "as for another region of its type; too small for samples",
	};

	return (unsigned)reason < KEDGE__CODEC_REASONS ? texts[reason] : "not known";
}
