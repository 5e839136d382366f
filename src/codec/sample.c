/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which codec for a region: candidates are tried on samples of it, in the order in which they are likely to be the
 * best, as many of them and on as much as a small share of the time that packing the region takes allows. What is left
 * of them for a small region is one, which is then taken untried: a block that it does not shrink is stored as it is.
 */
#include "codec/codec_table.h"

#define CHUNKS          8
#define PLACES          32 /* that are looked at to find them */
#define LOOK_BYTES      256
#define CHUNK_BYTES     8192  /* at most */
#define CHUNK_LEAST     4096  /* less would be all headers */
#define SHARE           0.04  /* of the time of packing */
#define SHARE_BYTES     0.1   /* of untyped data, of which nothing is known */
#define SHARE_MAX       0.25  /* the same for "max" */
#define SPEED           500e6 /* bytes a second that are packed, as a rule */
#define SPEED_MAX       50e6
#define TIME_LEAST      0.4  /* of the time that a codec takes as a rule: for data that shrinks to nothing */
#define SETUP           5e-6 /* seconds that a try takes however small the sample */
#define WORTH_LEAST     512  /* bytes; those of less are stored sooner than anything begins to pack */
#define SIZE_MOST       0.98 /* share of itself that data has to shrink to */
#define SIZE_MOST_TIMED 0.95 /* the same where time counts */
#define DECODE_LEAST    500e6
#define FETCH           1e9  /* bytes a second of the base */
#define BASE_LEAST      1.1  /* how much better what needs a base has to be than what does not */
#define NEAR            3    /* how many a block chooses among */
#define NEAR_COST       1.35 /* how much worse than the best on the samples of the region they may be */
#define NEAR_COST_MAX   1.05
#define NEAR_BLOCK      (256 << 10) /* bytes, for a look at a block to be worth its time */
#define NEAR_CHUNKS     4
#define NEAR_SHARE      128  /* of a block, in each of the chunks */
#define GUESS           0.75 /* what the first candidate shrinks data to if there is no time to try it */

/* For which data a candidate is tried. */
#define BYTES   1u  /* untyped, and elements of a byte */
#define WIDE    2u  /* elements of two bytes or more */
#define FLOATS  4u  /* floating point of four or eight bytes */
#define DOUBLES 32u /* of eight */
#define BASE    8u  /* there is a base */
#define DEEP    16u /* for "max" alone */

/*
 * With bytes a second and thread of packing and unpacking: what a core of a server of the 2020s does on data that gives
 * no more than it must. Built in, so that the choice depends on data alone; only their order of magnitude matters.
 */
static const struct candidate {
	const char *name;
	double encode, decode;
	unsigned data;
} candidates[] = {
    {"field", 500e6, 600e6, WIDE},
    {"zstd:1", 350e6, 800e6, BYTES},
    {"shuffle+zstd:1", 450e6, 1000e6, WIDE},
    {"shuffle:8+zstd:1", 350e6, 1000e6, BYTES},
    {"lz4", 700e6, 2500e6, BYTES},
    {"xor+shuffle+zstd:1", 450e6, 1000e6, WIDE | BASE},
    {"xor+zstd:1", 450e6, 1000e6, BYTES | BASE},
    {"bitshuffle+lz4", 900e6, 2000e6, WIDE},
    {"zstd:3", 220e6, 800e6, BYTES | WIDE},
    {"delta+bitshuffle+zstd:1", 450e6, 900e6, WIDE},
    {"shuffle+zstd:3", 350e6, 1000e6, WIDE},
    {"lz4", 700e6, 2500e6, WIDE},
    {"shuffle:4+zstd:1", 350e6, 1000e6, BYTES},
    {"bitshuffle+zstd:1", 500e6, 1000e6, WIDE},
    {"delta+shuffle+zstd:1", 400e6, 900e6, WIDE},
    {"minus+bitshuffle+zstd:1", 450e6, 900e6, WIDE | BASE},
    {"zstd:9", 50e6, 900e6, BYTES | WIDE},
    {"shuffle+zstd:19", 4e6, 800e6, WIDE | DEEP},
    {"zstd:19", 3e6, 800e6, BYTES | WIDE | DEEP},
    {"bitshuffle+zstd:19", 5e6, 800e6, WIDE | DEEP},
    {"shuffle:8+zstd:19", 4e6, 800e6, BYTES | DEEP},
    {"fpzip", 60e6, 70e6, FLOATS | DEEP},
    {"fpc64:12", 400e6, 450e6, DOUBLES | DEEP},
};

_Static_assert(KEDGE__COUNT(candidates) <= 32, "a set of candidates is 32 bits");

struct sampler {
	const struct kedge__codec_choice *wanted;
	const struct kedge__codec_input *pieces;
	size_t count;
	uint64_t total;
	enum kedge_type type;
	bool base;
	double budget; /* seconds */
	uint8_t *raw, *raw_base, *packed;
	size_t chunks, chunk; /* that are packed, and the bytes of each */
	size_t slices, slice; /* of which a chunk is made */
};

struct trial {
	const struct candidate *candidate;
	struct kedge__codec_choice choice;
	double cost;
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

/* What shrinks to SIZE takes less time the smaller that is. */
static double encode_time_of(const struct sampler *s, const struct candidate *c, double size)
{
	return encode_time(s, c) * KEDGE__MIN(1, TIME_LEAST + size);
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
	if (c->data & (FLOATS | DOUBLES))
		return kedge__element_is_float(s->type) && (width == 8 || (width == 4 && c->data & FLOATS));
	return c->data & (width > 1 ? WIDE : BYTES);
}

static double storage(const struct sampler *s)
{
	return s->wanted->storage > 0 ? s->wanted->storage : KEDGE__CODEC_STORAGE;
}

/* What counts of a candidate that leaves SIZE, a share of the raw bytes; the less the better. */
static double cost_of(const struct sampler *s, const struct candidate *c, double size)
{
	double cost = s->wanted->smallest || s->wanted->target > 0
			  ? size
			  : KEDGE__MAX(encode_time_of(s, c, size), size / storage(s));

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
	return encode_time_of(s, c, 0) < cost_of_none(s);
}

static bool trial_make(const struct kedge__codec_choice *wanted, const struct candidate *c, struct trial *t)
{
	t->candidate = c;
	if (kedge__codec_choice_parse(c->name, &t->choice, NULL) != 0)
		return false; /* not in this build */
	t->choice.smallest = wanted->smallest;
	t->choice.row = wanted->row;
	t->choice.plane = wanted->plane;
	t->choice.target = wanted->target;
	t->choice.storage = wanted->storage;
	return true;
}

/* Bytes of samples before one more candidate than N is worth more than more of them. */
static double needed(const struct sampler *s, size_t n)
{
	double bytes = n < 3 ? CHUNK_LEAST : n < 5 ? 4 * CHUNK_LEAST : CHUNKS * CHUNK_LEAST;

	return KEDGE__MIN((double)s->total, bytes);
}

/* Candidates in their order, as many as can be tried on enough; how much each is then tried on. */
static size_t list_trials(struct sampler *s, struct trial *trials)
{
	double slowness = 0, bytes;
	size_t n = 0, places;

	for (size_t i = 0; i < KEDGE__COUNT(candidates); i++) {
		double time = slowness + encode_time(s, &candidates[i]) + SETUP / CHUNK_BYTES;

		if (!is_tried(s, &candidates[i]) || (n && s->budget < time * needed(s, n) + SETUP * (double)(n + 1)) ||
		    !trial_make(s->wanted, &candidates[i], &trials[n]))
			continue;
		n++;
		slowness = time;
	}
	bytes = n ? (s->budget - SETUP * (double)n) / slowness : 0;
	bytes = KEDGE__MIN(KEDGE__MAX(bytes, needed(s, 0)), (double)s->total);
	places = (size_t)KEDGE__MIN(KEDGE__MAX(bytes / CHUNK_LEAST, 1), (double)CHUNKS);
	s->slice = (size_t)KEDGE__MIN(bytes / (double)places, (double)CHUNK_BYTES);
	/* Bytes have no neighbours that a cut would part. */
	s->slices = s->type == KEDGE_BYTES ? places : 1;
	s->chunks = places / s->slices;
	s->chunk = s->slice * s->slices;
	return n;
}

/* ------------------------------------------------------------------ samples */

/* LEN bytes at POS of the pieces, as if they stood one behind the other; of the base, to BASE. */
static void gather(const struct sampler *s, uint64_t pos, size_t len, uint8_t *to, uint8_t *base)
{
	size_t done = 0;

	for (size_t i = 0; i < s->count && done < len; i++) {
		const struct kedge__codec_input *piece = &s->pieces[i];
		size_t n;

		if (pos >= piece->bytes) {
			pos -= piece->bytes;
			continue;
		}
		n = KEDGE__MIN(len - done, piece->bytes - (size_t)pos);
		memcpy(to + done, (const uint8_t *)piece->raw + pos, n);
		if (base)
			memcpy(base + done, (const uint8_t *)piece->base + pos, n);
		done += n;
		pos = 0;
	}
}

/* How many words of a place are not that before them. */
static unsigned unrest(const struct sampler *s, uint64_t pos)
{
	uint8_t look[LOOK_BYTES] = {0};
	unsigned n = 0;

	gather(s, pos, sizeof(look), look, NULL);
	for (size_t i = 8; i < sizeof(look); i += 8)
		n += kedge__get64(look + i) != kedge__get64(look + i - 8);
	return n;
}

/* Places from all over, each beginning with a whole element, from the calmest to the most restless. */
static void find_places(const struct sampler *s, uint64_t places[PLACES])
{
	uint64_t size = KEDGE__MAX(kedge_type_size(s->type), (size_t)1);
	unsigned rest[PLACES];

	for (size_t i = 0; i < PLACES; i++) {
		uint64_t pos = (s->total - s->slice) / (PLACES - 1) * i / size * size;
		unsigned n = unrest(s, pos);
		size_t k = i;

		for (; k > 0 && rest[k - 1] > n; k--) {
			rest[k] = rest[k - 1];
			places[k] = places[k - 1];
		}
		rest[k] = n;
		places[k] = pos;
	}
}

/* Slices that stand for as many places each: a region may be calm here and restless there. */
static void take_slices(struct sampler *s)
{
	size_t n = s->chunks * s->slices;
	uint64_t places[PLACES];

	find_places(s, places);
	for (size_t i = 0; i < n; i++)
		gather(s, places[(2 * i + 1) * PLACES / (2 * n)], s->slice, s->raw + i * s->slice,
		       s->base ? s->raw_base + i * s->slice : NULL);
}

static double packed_share(const struct sampler *s, const struct kedge__codec_choice *choice)
{
	size_t sum = 0;

	for (size_t i = 0; i < s->chunks; i++) {
		const struct kedge__codec_input in = {.raw = s->raw + i * s->chunk,
						      .bytes = s->chunk,
						      .type = s->type,
						      .base = s->base ? s->raw_base + i * s->chunk : NULL};
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

/* But for the level of the general codec, which a look at a block could not tell. */
static bool is_same_way(const struct kedge__codec_choice *a, const struct kedge__codec_choice *b)
{
	return a->codec == b->codec && a->steps == b->steps && (a->codec->general || a->level == b->level);
}

/* The best few of the trials, where blocks are worth a choice of their own: for "max", and where there is no type. */
static uint32_t find_near(const struct sampler *s, const struct trial *trials, size_t n, double least)
{
	uint32_t set = 0;

	if (!s->wanted->smallest && (s->type != KEDGE_BYTES || s->base))
		return 0;
	for (size_t i = 0; i < n; i++) {
		size_t better = 0;

		for (size_t k = 0; k < n; k++)
			if (trials[k].cost < trials[i].cost || (trials[k].cost == trials[i].cost && k < i))
				better += is_same_way(&trials[k].choice, &trials[i].choice) ? NEAR : 1;
		if (better < NEAR && trials[i].cost <= least * (s->wanted->smallest ? NEAR_COST_MAX : NEAR_COST) &&
		    !(trials[i].candidate->data & BASE))
			set |= UINT32_C(1) << (trials[i].candidate - candidates);
	}
	return set & (set - 1) ? set : 0;
}

static struct kedge__codec_choice choose(const struct sampler *s, struct trial *trials, size_t n,
					 struct kedge__codec_why *why)
{
	struct kedge__codec_choice best = {.codec = &kedge__codec_none};
	double least = cost_of_none(s);
	/* Where size is what counts, and where samples show too little: shuffled bytes pack better by the block. */
	double most =
	    s->wanted->smallest || s->wanted->target > 0 || s->type == KEDGE_BYTES ? SIZE_MOST : SIZE_MOST_TIMED;

	for (size_t i = 0; i < n; i++) {
		double size = packed_share(s, &trials[i].choice), cost = cost_of(s, trials[i].candidate, size);

		trials[i].cost = cost;
		if (size > most || cost > least || (cost == least && size >= why->size))
			continue;
		least = cost;
		best = trials[i].choice;
		take(why, s, trials[i].candidate, size);
	}
	if (best.codec->id != KEDGE__CODEC_NONE)
		best.near = find_near(s, trials, n, least);
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

bool kedge__codec_little(const struct kedge__codec_choice *wanted, uint64_t bytes)
{
	return wanted->automatic && !wanted->smallest && bytes < WORTH_LEAST;
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
	if (!look_at_pieces(&s) || kedge__codec_little(wanted, s.total))
		return choice;
	s.budget = packing_time(&s) * (wanted->smallest ? SHARE_MAX : s.type == KEDGE_BYTES ? SHARE_BYTES : SHARE);
	count = list_trials(&s, trials);
	if (!count)
		return choice;
	if (count == 1 && !wanted->smallest)
		return guess(&s, &trials[0], why);
	/* Without memory for a look, data is stored as it is: larger, never wrong. */
	s.raw = kedge__malloc((size_t)3 * CHUNKS * CHUNK_BYTES);
	if (!s.raw)
		return choice;
	s.raw_base = s.raw + (size_t)CHUNKS * CHUNK_BYTES;
	s.packed = s.raw_base + (size_t)CHUNKS * CHUNK_BYTES;
	take_slices(&s);
	choice = choose(&s, trials, count, why);
	kedge__free(s.raw);
	return choice;
}

/* ------------------------------------------------------------------ a block */

/* All of the block for "max", else chunks of it. */
static double block_share(const struct kedge__codec_choice *choice, const struct kedge__codec_input *in,
			  uint8_t *packed)
{
	size_t chunks = choice->smallest ? 1 : NEAR_CHUNKS,
	       chunk = choice->smallest ? in->bytes : in->bytes / NEAR_SHARE;
	size_t sum = 0;

	for (size_t i = 0; i < chunks; i++) {
		/* Elements of up to 16 bytes stay whole. */
		size_t at = chunks > 1 ? (in->bytes - chunk) / (chunks - 1) * i / 16 * 16 : 0, used;
		const struct kedge__codec_input part = {
		    .raw = (const uint8_t *)in->raw + at, .bytes = chunk, .type = in->type};
		uint16_t param;

		if (choice->codec->encode(choice, &part, packed, chunk, &used, &param, NULL) != 0)
			used = chunk;
		sum += used;
	}
	return (double)sum / (double)(chunks * chunk);
}

struct kedge__codec_choice kedge__codec_settle(const struct kedge__codec_choice *choice,
					       const struct kedge__codec_input *in)
{
	const struct sampler s = {.wanted = choice, .type = in->type};
	struct kedge__codec_choice best = *choice;
	double least = 0;
	uint8_t *packed;

	if (!choice->near || in->bytes < (choice->smallest ? 1 : NEAR_BLOCK))
		return best;
	packed = kedge__malloc(in->bytes);
	for (size_t i = 0; packed && i < KEDGE__COUNT(candidates); i++) {
		struct trial t;

		if (!(choice->near >> i & 1) || !trial_make(choice, &candidates[i], &t))
			continue;
		t.cost = cost_of(&s, t.candidate, block_share(&t.choice, in, packed));
		if (!least || t.cost < least) {
			least = t.cost;
			best = t.choice;
		}
	}
	kedge__free(packed);
	return best;
}

const char *kedge__codec_reason_text(enum kedge__codec_reason reason)
{
	static const char *const texts[] = {
	    [KEDGE__CODEC_NOTHING] = "no codec saves more time in storage than it takes",
	    [KEDGE__CODEC_GIVEN] = "set explicitly",
	    [KEDGE__CODEC_UNTRIED] = "the usual choice; too small to sample",
	    [KEDGE__CODEC_FASTEST] = "the fastest through compression and storage",
	    [KEDGE__CODEC_TARGET] = "the best compression that sustains codec_rate",
	    [KEDGE__CODEC_SMALLEST] = "the best compression",
	    [KEDGE__CODEC_BORROWED] = "the same as another region of its type; too small to sample",
	};

	return (unsigned)reason < KEDGE__CODEC_REASONS ? texts[reason] : "not known";
}
