/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which codec for a region. All candidates that suit it are tried on short samples, the best few of them on longer
 * ones: on as much as a small share of the time that packing the region takes allows. What counts is the size of the
 * longer samples and the time that they took, so that the choice fits the data and the machine. Times decide between
 * codecs that differ in speed by more than measurements do; of the others the smallest is chosen.
 */
#include "codec/sampler.h"

#include <math.h>
#include <time.h>

#define CHUNKS_LEAST    3          /* before they are made longer than they must be */
#define CHUNK_BYTES     (64 << 10) /* at most */
#define CHUNK_LEAST     (16 << 10) /* of several */
#define ROWS            32         /* that make a chunk at least, if there is the time */
#define SHARE           0.05       /* of the time of packing */
#define SHARE_BYTES     0.1        /* of untyped data, of which nothing is known */
#define SHARE_MAX       0.25       /* the same for "max" */
#define SPEED           500e6      /* bytes a second that are packed, as a rule */
#define SPEED_MAX       50e6
#define SETUP           5e-6   /* seconds that a try takes however small the sample */
#define FASTER          0.25   /* of the time that a codec takes as a rule: what it may take at best */
#define WORTH_LEAST     512    /* bytes; those of less are stored sooner than anything begins to pack */
#define SIZE_MOST       0.98   /* share of itself that data has to shrink to */
#define SIZE_MOST_TIMED 0.95   /* the same where time counts, */
#define SIZE_MOST_MAX   0.995  /* and for "max" */
#define HOPELESS        0.99   /* what the best leaves of the short samples, if longer ones are not worth the time */
#define FINAL           4      /* candidates that are tried on more */
#define TURNS           2      /* of which the fastest counts, where time does */
#define FINAL_WORK      6.5    /* how often they pack the chunks together, in parts and as a whole */
#define FINAL_SHARE     0.6    /* of the time for that; the rest is for entire blocks, where there are some */
#define SETUP_MOST      0.5    /* of the time that a chunk takes */
#define BLOCK_WORK      3      /* how often it packs a block: as a whole, in chunks, and once more for the time */
#define PARTED          2      /* chunks that are also packed by halves, to see what a beginning takes */
#define ALIKE           1.3    /* times that differ by less count as the same */
#define ALIKE_POWER     0.15   /* of how much smaller one is, for what it may take more */
#define AS_SMALL        1.02   /* the same of sizes, */
#define AS_SMALL_USUAL  1.005  /* and where speeds are not measured, so that they say less */
#define FASTER_LEAST    0.95   /* of the time of another, for one to be the faster */
#define PACE_LEAST      0.6e-9 /* seconds a byte: what else a checkpoint does with it takes as long */
#define EVEN            1.25   /* how much more some chunks of even data may leave than others */
#define CONFIRMED       0.5    /* of what the samples promise to save, at least, has to be saved on a block */
#define CONFIRM_MOST    3      /* of them are tried */
#define IDLE            0.2 /* how much it counts that the core, or storage, which waits for the other has less to do */
#define DECODE_LEAST    500e6
#define BUS_LEAST       0.9  /* of what comes from a GPU as it is: it must not wait for what packs it there */
#define FETCH           1e9  /* bytes a second of the base */
#define BASE_LEAST      1.1  /* how much smaller what needs a base has to be than what does not, */
#define RECORDS_LEAST   1.25 /* and records of a base than other bytes of it, */
#define RECORDS_LITTLE  0.02 /* where both leave next to nothing: samples of that say little */
#define RIVAL           1.1  /* of the time of the winner, for what another level takes to be compared on a block */
#define NEAR            3    /* how many a block chooses among */
#define NEAR_COST       1.35 /* how much worse than the best they may be, and what is compared on a block */
#define GUESS           0.75 /* what the first candidate shrinks data to if there is no time to try it */

double kedge__thread_seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ------------------------------------------------------------------ what counts */

static double fetch_time(const struct kedge__sampler *s, const struct kedge__candidate *c)
{
	return c->data & KEDGE__WITH_BASE ? 1 / (s->wanted.fetch > 0 ? s->wanted.fetch : FETCH) : 0;
}

/* Seconds a byte, as a rule. */
static double usual_pace(const struct kedge__sampler *s, const struct kedge__candidate *c)
{
	return 1 / c->encode + fetch_time(s, c);
}

static double storage(const struct kedge__sampler *s)
{
	return s->wanted.storage > 0 ? s->wanted.storage : KEDGE__CODEC_STORAGE;
}

static bool by_size(const struct kedge__sampler *s)
{
	return s->wanted.smallest || s->wanted.target > 0;
}

static double handicap(const struct kedge__sampler *s, const struct kedge__trial *t)
{
	unsigned data = kedge__candidates[t->candidate].data;

	if (!(data & KEDGE__WITH_BASE) || s->wanted.smallest)
		return 1;
	return data & KEDGE__FOR_RECORDS && t->size < RECORDS_LITTLE ? BASE_LEAST * RECORDS_LEAST : BASE_LEAST;
}

/* The less the better. */
static double cost_of(const struct kedge__sampler *s, const struct kedge__trial *t)
{
	double stored = t->size / storage(s), pace = t->choice.there ? t->pace : KEDGE__MAX(t->pace, PACE_LEAST);

	if (s->wanted.target > 0 && t->pace > 1 / s->wanted.target)
		return INFINITY;
	if (by_size(s))
		return t->size * handicap(s, t);
	return KEDGE__MAX(pace, stored) + IDLE * KEDGE__MIN(pace, stored);
}

/* Speeds are measured, and matter. */
static bool time_counts(const struct kedge__sampler *s)
{
	return !s->wanted.pace && !by_size(s);
}

static double cost_of_none(const struct kedge__sampler *s)
{
	return by_size(s) ? 1 : 1 / storage(s);
}

/* ------------------------------------------------------------------ what is tried */

static bool is_tried(const struct kedge__sampler *s, const struct kedge__candidate *c)
{
	double best = (c->data & KEDGE__SLOW ? 1 : FASTER) / c->encode + fetch_time(s, c);

	if (c->data & KEDGE__THERE && (s->wanted.smallest || c->encode < BUS_LEAST * s->wanted.bus))
		return false;
	if (s->wanted.smallest)
		return true;
	if (c->data & (KEDGE__DEEP | KEDGE__SELDOM) || 1 / c->decode + fetch_time(s, c) > 1 / DECODE_LEAST)
		return false;
	/* However small it gets: too slow, or slower than storing the data as it is. */
	return best <= (s->wanted.target > 0 ? 1 / s->wanted.target : cost_of_none(s));
}

bool kedge__codec_base_may_pay(const struct kedge__codec_choice *wanted, enum kedge_type type)
{
	const struct kedge__sampler s = {.wanted = *wanted, .type = type, .base = true};
	struct kedge__codec_choice made;
	size_t i = 0;

	while (i < kedge__candidate_count &&
	       !(kedge__candidates[i].data & KEDGE__WITH_BASE && is_tried(&s, &kedge__candidates[i]) &&
		 kedge__candidate_make(i, wanted, type, true, &made)))
		i++;
	return i < kedge__candidate_count;
}

static void list_trials(struct kedge__sampler *s)
{
	for (size_t i = 0; i < kedge__candidate_count; i++) {
		struct kedge__trial *t = &s->trials[s->trial_count];

		*t = (struct kedge__trial){.candidate = i};
		if (is_tried(s, &kedge__candidates[i]) &&
		    kedge__candidate_make(i, &s->wanted, s->type, s->base, &t->choice))
			s->trial_count++;
	}
}

/* Bytes of the parts of all chunks together, if N candidates are tried: some on all of the chunks, too. */
static double screen_bytes(const struct kedge__sampler *s, size_t n)
{
	double slowness = 0;

	for (size_t i = 0; i < n; i++) {
		const struct kedge__candidate *c = &kedge__candidates[s->trials[i].candidate];

		if (!(c->data & KEDGE__DEEP))
			slowness += c->data & KEDGE__THERE ? 1 / SPEED : usual_pace(s, c);
	}
	return (s->budget - SETUP * (double)(n + FINAL)) /
	       (slowness * (1 + FINAL_WORK * KEDGE__CHUNK_PART / (double)(n + 1)));
}

/* How many candidates, and how much of them each. */
static void plan_work(struct kedge__sampler *s)
{
	double bytes = screen_bytes(s, s->trial_count),
	       least = KEDGE__MIN(KEDGE__CHUNK_LEAST, (double)s->total / KEDGE__CHUNK_PART);
	double size;

	while (s->trial_count > 1 && bytes < least && !s->wanted.smallest)
		bytes = screen_bytes(s, --s->trial_count);
	bytes = KEDGE__CHUNK_PART * KEDGE__MAX(bytes, least);
	/* With enough chunks, and long ones, there is time for entire blocks, of which one is like the other if they
	 * have a type. */
	if (bytes > KEDGE__CHUNKS * CHUNK_LEAST && s->type != KEDGE_BYTES && !s->wanted.smallest) {
		size = KEDGE__MAX(bytes * FINAL_SHARE, (double)KEDGE__CHUNKS * CHUNK_LEAST);
		s->blocks = s->budget * (1 - size / bytes);
		bytes = size;
	}
	/* Several places, then longer ones; of rows, some, if there are a few places. */
	size = (double)s->wanted.row * (double)kedge_type_size(s->type) * ROWS;
	size = KEDGE__MAX(KEDGE__MIN(size, bytes / CHUNKS_LEAST), KEDGE__MAX(bytes / KEDGE__CHUNKS, CHUNK_LEAST));
	size = KEDGE__MIN(KEDGE__MIN(size, CHUNK_BYTES), bytes);
	s->chunk = KEDGE__MAX((size_t)size / 64 * 64, (size_t)64);
	s->chunk_count = (size_t)KEDGE__MIN(KEDGE__MAX(bytes / size, 1), (double)KEDGE__CHUNKS);
}

/* ------------------------------------------------------------------ trials */

/* What bytes FROM to TO of a chunk shrink to. */
size_t kedge__trial_pack(const struct kedge__sampler *s, struct kedge__trial *t, const struct kedge__chunk *c,
			 size_t from, size_t to, int worker)
{
	const struct kedge__codec_input in = {
	    .raw = c->raw + from, .bytes = to - from, .type = s->type, .base = c->base ? c->base + from : NULL};
	struct kedge__codec_choice choice = t->choice;
	uint16_t param;
	size_t used;

	t->bytes += in.bytes;
	t->tries++;
	if (kedge__trial_is_found(t))
		choice.level = (int)c->stride;
	if (choice.codec->encode(&choice, &in, s->packed + (size_t)worker * KEDGE__SAMPLE_BLOCK, in.bytes, &used,
				 &param, NULL) != 0)
		return in.bytes;
	return used;
}

static void judge(const struct kedge__sampler *s, struct kedge__trial *t)
{
	const struct kedge__candidate *c = &kedge__candidates[t->candidate];
	double raw = 0, packed = 0, places = 0, block = KEDGE__MIN((double)s->total, KEDGE__SAMPLE_BLOCK), chunk;

	for (size_t i = 0; i < s->chunk_count; i++) {
		double weight = s->chunks[i].weight;

		raw += weight * (double)(t->final ? s->chunks[i].bytes : kedge__chunk_part_bytes(&s->chunks[i]));
		packed += weight * (double)(t->final ? t->packed[i] : t->begun[i]);
		places += weight;
	}
	t->size = packed / raw;
	t->pace = t->time / raw;
	chunk = raw / places;
	if (t->compared) {
		t->size *= t->joined;
		t->pace *= t->slowed;
	} else if (t->final && chunk < block) {
		/* A block is one of several chunks, of which all but one save what it takes to begin. */
		t->size *= KEDGE__MAX(1 - t->parted * (1 - chunk / block), 0.5);
		t->pace *= KEDGE__MAX(1 - t->setup * (1 - chunk / block), 1 - SETUP_MOST);
	}
	if (t->choice.there)
		t->pace = 1 / c->encode; /* not what it takes here */
	else if (s->wanted.pace)
		t->pace = s->wanted.pace(c->name, t->size);
	else if (t->pace <= 0)
		t->pace = kedge__codec_pace_built_in(c->name, t->size); /* short samples say nothing about time */
	if (kedge__trial_is_found(t))
		t->pace += s->finding / block;
	t->pace += fetch_time(s, c);
	t->cost = cost_of(s, t);
}

/* Short samples are all beginning: of what has tables, and predicts from the row before, they show too little. */
static bool is_shy(const struct kedge__trial *t)
{
	return t->choice.codec->id == KEDGE__CODEC_FIELD;
}

static int screen_one(void *ctx, size_t i, int worker)
{
	const struct kedge__sampler *s = ctx;
	struct kedge__trial *t = &s->trials[i];

	t->cost = INFINITY;
	t->size = 1;
	if (kedge__candidates[t->candidate].data & KEDGE__DEEP)
		return 0;
	for (size_t k = 0; k < s->chunk_count; k++)
		t->begun[k] = kedge__trial_pack(s, t, &s->chunks[k], s->chunks[k].part,
						s->chunks[k].part + kedge__chunk_part_bytes(&s->chunks[k]), worker);
	judge(s, t);
	return 0;
}

static void screen(struct kedge__sampler *s)
{
	(void)kedge__pool_for(s->wanted.pool, s->trial_count, screen_one, s);
}

static bool is_hopeless(const struct kedge__sampler *s)
{
	for (size_t i = 0; i < s->trial_count; i++)
		if (s->trials[i].size < HOPELESS || (s->wanted.row && is_shy(&s->trials[i])))
			return false;
	return !s->wanted.smallest;
}

static double time_part(const struct kedge__sampler *s, struct kedge__trial *t, size_t i, size_t from, size_t to,
			int worker, size_t *packed)
{
	double least = INFINITY;

	/* The least is what it takes; the rest is what else happens on the machine, and another thing each time. */
	for (int turn = 0; turn < (time_counts(s) ? TURNS : 1); turn++) {
		double start = kedge__thread_seconds();

		*packed = kedge__trial_pack(s, t, &s->chunks[i], from, to, worker);
		least = KEDGE__MIN(least, kedge__thread_seconds() - start);
	}
	return least;
}

/* What the more restless chunks take more by halves: bytes and seconds. TIMES are those of all of each. */
static void try_halves(const struct kedge__sampler *s, struct kedge__trial *t, const double times[KEDGE__CHUNKS],
		       int worker)
{
	size_t n = KEDGE__MIN(s->chunk_count, (size_t)PARTED);
	double packed = 0, time = 0, more = 0, longer = 0;

	for (size_t i = s->chunk_count - n; i < s->chunk_count; i++) {
		size_t half = s->chunks[i].bytes / 128 * 64, first = 0, second;
		double halves;

		if (!half)
			continue;
		halves = time_part(s, t, i, 0, half, worker, &first);
		halves += time_part(s, t, i, half, s->chunks[i].bytes, worker, &second);
		longer += KEDGE__MAX(halves - times[i], 0);
		time += times[i];
		more += first + second > t->packed[i] ? (double)(first + second - t->packed[i]) : 0;
		packed += (double)t->packed[i];
	}
	t->setup = time > 0 ? longer / time : 0;
	t->parted = packed > 0 ? more / packed : 0;
}

static int try_finally(void *ctx, size_t n, int worker)
{
	const struct kedge__sampler *s = ctx;
	struct kedge__trial *t = s->finals[n];
	double times[KEDGE__CHUNKS];

	for (size_t i = 0; i < s->chunk_count; i++) {
		times[i] = time_part(s, t, i, 0, s->chunks[i].bytes, worker, &t->packed[i]);
		t->time += times[i] * s->chunks[i].weight;
	}
	if (!(kedge__candidates[t->candidate].data & KEDGE__DEEP))
		try_halves(s, t, times, worker);
	judge(s, t);
	return 0;
}

void kedge__sampler_add(struct kedge__sampler *s, struct kedge__trial *t)
{
	if (s->final_count == KEDGE__FINALS || t->final)
		return;
	t->final = true;
	s->finals[s->final_count++] = t;
}

/* Of those that were not tried on more yet. */
static struct kedge__trial *find_best(const struct kedge__sampler *s, bool by_cost)
{
	struct kedge__trial *best = NULL;

	for (size_t i = 0; i < s->trial_count; i++) {
		struct kedge__trial *t = &s->trials[i];

		if (!t->final && (!best || (by_cost ? t->cost < best->cost : t->size < best->size)))
			best = t;
	}
	return best;
}

/* A general codec that sees the data as it is: it finds more in a block than in a chunk, and least in the beginning of
 * one. */
static bool is_plain(const struct kedge__trial *t)
{
	const struct kedge__candidate *c = &kedge__candidates[t->candidate];

	return t->choice.codec->general && !t->choice.steps && !(c->data & (KEDGE__DEEP | KEDGE__SLOW | KEDGE__THERE));
}

/* Of untyped data, which may be text, one of these is always among them. */
static void add_plain(struct kedge__sampler *s)
{
	struct kedge__trial *best = NULL;

	if (s->type != KEDGE_BYTES)
		return;
	for (size_t i = 0; i < s->trial_count; i++) {
		struct kedge__trial *t = &s->trials[i];

		if (is_plain(t) && t->final)
			return;
		if (is_plain(t) && (!best || t->cost < best->cost))
			best = t;
	}
	if (best)
		kedge__sampler_add(s, best);
}

/* The best few, by cost and, since short samples take more time a byte than others, by size; and those for which the
 * beginnings say too little. */
static void try_best(struct kedge__sampler *s)
{
	size_t n = 0;
	bool found = false;

	for (size_t i = 0; i < s->trial_count; i++) {
		struct kedge__trial *t = &s->trials[i];

		if (!is_shy(t) && (!kedge__trial_is_found(t) || found))
			continue;
		found = found ||
			kedge__trial_is_found(t); /* of records one, with whatever codec, says what they are worth */
		kedge__sampler_add(s, t);
		n = 1; /* however many there are of them: the others have their turns */
	}
	for (; n < KEDGE__MIN(s->trial_count, (size_t)FINAL); n++) {
		struct kedge__trial *best = find_best(s, n % 2 == 0);

		if (best)
			kedge__sampler_add(s, best);
	}
	add_plain(s);
	(void)kedge__pool_for(s->wanted.pool, s->final_count, try_finally, s);
}

/* ------------------------------------------------------------------ choose */

static void take(struct kedge__codec_why *why, const struct kedge__sampler *s, const struct kedge__trial *t)
{
	const struct kedge__candidate *c = &kedge__candidates[t->candidate];

	why->size = t->size;
	why->encode = 1 / t->pace;
	why->decode = 1 / (1 / c->decode + fetch_time(s, c));
	why->far = t->far;
	why->reason = s->wanted.smallest     ? KEDGE__CODEC_SMALLEST
		      : s->wanted.target > 0 ? KEDGE__CODEC_TARGET
					     : KEDGE__CODEC_FASTEST;
}

/* Without a look at the data: what is likely to be the best. */
static struct kedge__codec_choice guess(const struct kedge__sampler *s, struct kedge__codec_why *why)
{
	struct kedge__trial t = s->trials[0];

	t.size = GUESS;
	t.pace = usual_pace(s, &kedge__candidates[t.candidate]);
	if (cost_of(s, &t) > cost_of_none(s))
		return (struct kedge__codec_choice){.codec = &kedge__codec_none};
	take(why, s, &t);
	why->reason = KEDGE__CODEC_UNTRIED;
	return t.choice;
}

/* The best few of the trials, where blocks are worth a choice of their own: where there is no type. */
static uint64_t find_near(const struct kedge__sampler *s, double least)
{
	const struct kedge__trial *trials = s->trials;
	uint64_t set = 0;

	if (s->type != KEDGE_BYTES || s->base)
		return 0;
	for (size_t i = 0; i < s->trial_count; i++) {
		size_t better = 0;

		for (size_t k = 0; k < s->trial_count; k++)
			if (trials[k].final &&
			    (trials[k].cost < trials[i].cost || (trials[k].cost == trials[i].cost && k < i)))
				better += kedge__candidate_alike(&trials[k].choice, &trials[i].choice) ? NEAR : 1;
		if (trials[i].final && !trials[i].choice.there && better < NEAR && trials[i].cost <= least * NEAR_COST)
			set |= UINT64_C(1) << trials[i].candidate;
	}
	return set & (set - 1) ? set : 0;
}

/* For "max", every block is packed with all. */
static uint64_t find_all(const struct kedge__sampler *s)
{
	uint64_t set = 0;

	for (size_t i = 0; i < s->trial_count; i++)
		set |= UINT64_C(1) << s->trials[i].candidate;
	return set;
}

/* It was tried, and is worth it. */
static bool is_worth(const struct kedge__sampler *s, const struct kedge__trial *t)
{
	/* Where size is what counts, and where samples show too little: shuffled bytes pack better by the block. */
	double most = s->wanted.smallest                     ? SIZE_MOST_MAX
		      : by_size(s) || s->type == KEDGE_BYTES ? SIZE_MOST
							     : SIZE_MOST_TIMED;

	return t->final && !t->beaten && t->size <= most && t->cost <= cost_of_none(s);
}

/* FOUND: those that look for records count, too. */
static struct kedge__trial *find_cheapest(const struct kedge__sampler *s, bool found)
{
	struct kedge__trial *best = NULL;

	for (size_t i = 0; i < s->trial_count; i++)
		if (is_worth(s, &s->trials[i]) && (found || !kedge__trial_is_found(&s->trials[i])) &&
		    (!best || s->trials[i].cost < best->cost))
			best = &s->trials[i];
	return best;
}

/* What T may cost beside the cheapest to count as about the same: the more, the smaller it is. What a GPU packs, and
 * nothing beats, is not exchanged for something that costs about the same. */
static double cost_most(const struct kedge__sampler *s, const struct kedge__trial *cheapest,
			const struct kedge__trial *t)
{
	double smaller = cheapest->size * handicap(s, cheapest) / (t->size * handicap(s, t));

	if (by_size(s) || cheapest->choice.there)
		return cheapest->cost;
	return cheapest->cost * ALIKE * pow(KEDGE__MAX(smaller, 1), ALIKE_POWER);
}

/* Of those that cost about the least, the smallest; of those that are about as small, the fastest. */
static struct kedge__trial *find_winner(const struct kedge__sampler *s)
{
	double about = by_size(s) ? 1 : s->wanted.pace ? AS_SMALL_USUAL : AS_SMALL, small = INFINITY;
	const struct kedge__trial *cheapest = find_cheapest(s, true);
	struct kedge__trial *best = NULL;

	for (size_t i = 0; i < s->trial_count; i++) {
		const struct kedge__trial *t = &s->trials[i];

		if (is_worth(s, t) && t->cost <= cost_most(s, cheapest, t))
			small = KEDGE__MIN(small, t->size * handicap(s, t));
	}
	for (size_t i = 0; i < s->trial_count; i++) {
		struct kedge__trial *t = &s->trials[i];

		if (is_worth(s, t) && t->cost <= cost_most(s, cheapest, t) &&
		    t->size * handicap(s, t) <= small * about && (!best || t->pace < best->pace * FASTER_LEAST))
			best = t;
	}
	return best;
}

/* ------------------------------------------------------------------ entire blocks */

/* The piece with the most restless chunk, or that in the middle, if more of it is there. */
static struct kedge__chunk take_block(const struct kedge__sampler *s)
{
	const struct kedge__codec_input *piece = kedge__sampler_piece(s, &s->chunks[s->chunk_count - 1]),
					*middle = &s->pieces[s->count / 2];

	struct kedge__codec_input in = piece->bytes < middle->bytes ? *middle : *piece;
	bool found;

	in.bytes = KEDGE__MIN(in.bytes, KEDGE__SAMPLE_BLOCK);
	return (struct kedge__chunk){.raw = in.raw,
				     .base = s->base ? in.base : NULL,
				     .bytes = in.bytes,
				     .stride = kedge__sampler_finds(s) ? kedge__records_stride(&in, &found) : 0};
}

static double time_once(const struct kedge__sampler *s, struct kedge__trial *t, const struct kedge__chunk *c,
			size_t from, size_t to, size_t *packed)
{
	double start = kedge__thread_seconds();

	*packed += kedge__trial_pack(s, t, c, from, to, 0);
	return kedge__thread_seconds() - start;
}

/* As a whole first, which fetches it, then in chunks, and once more as a whole if time counts. */
static void try_block(const struct kedge__sampler *s, struct kedge__trial *t, const struct kedge__chunk *block)
{
	size_t whole = 0, parts = 0, again = 0;
	double first = time_once(s, t, block, 0, block->bytes, &whole), cut = 0;

	for (size_t at = 0; at < block->bytes; at += s->chunk)
		cut += time_once(s, t, block, at, KEDGE__MIN(block->bytes, at + s->chunk), &parts);
	if (time_counts(s))
		first = KEDGE__MIN(first, time_once(s, t, block, 0, block->bytes, &again));
	t->whole = (double)KEDGE__MAX(whole, (size_t)1) / (double)block->bytes;
	t->compared = true;
	t->joined = parts ? (double)whole / (double)parts : 1;
	t->slowed = cut > 0 ? KEDGE__MAX(first / cut, 1 - SETUP_MOST) : 1;
	judge(s, t);
}

/* Of those near the best by what is known so far, the one that costs the least and was not tried on a block. */
static struct kedge__trial *find_untried(const struct kedge__sampler *s)
{
	const struct kedge__trial *cheapest = find_cheapest(s, true);
	struct kedge__trial *next = NULL;

	for (size_t i = 0; i < s->trial_count; i++) {
		struct kedge__trial *t = &s->trials[i];

		if (is_worth(s, t) && !t->compared &&
		    t->cost <= KEDGE__MAX(cheapest->cost * NEAR_COST, cost_most(s, cheapest, t)) &&
		    (!next || t->cost < next->cost))
			next = t;
	}
	return next;
}

/* Chunks of it shrink about as much as each other. */
static bool is_even(const struct kedge__sampler *s, const struct kedge__trial *t)
{
	double least = INFINITY, most = 0;

	for (size_t i = 0; i < s->chunk_count; i++) {
		double share = (double)t->packed[i] / (double)s->chunks[i].bytes;

		least = KEDGE__MIN(least, share);
		most = KEDGE__MAX(most, share);
	}
	return most <= EVEN * least;
}

/* Chunks are from all over, but short and few, and the block is longer than all of them together: where it is like the
 * rest, how its sizes compare counts as much. */
static void weigh_blocks(struct kedge__sampler *s)
{
	const struct kedge__trial *best = NULL;
	double size, whole;

	for (size_t i = 0; i < s->trial_count; i++)
		if (s->trials[i].compared && (!best || s->trials[i].cost < best->cost))
			best = &s->trials[i];
	if (!best || !is_even(s, best))
		return;
	size = best->size;
	whole = best->whole;
	for (size_t i = 0; i < s->trial_count; i++) {
		struct kedge__trial *t = &s->trials[i];

		if (!t->compared)
			continue;
		t->size = sqrt(t->size * size * t->whole / whole);
		t->cost = cost_of(s, t);
	}
}

/* What a codec takes to begin, and what it finds in more of the data than a chunk, is foreseen from halves of chunks.
 * Those that are near each other are compared by what an entire block really takes. */
static void compare(struct kedge__sampler *s, const struct kedge__chunk *block)
{
	int work = time_counts(s) ? BLOCK_WORK : BLOCK_WORK - 1;
	struct kedge__trial *t;

	for (int n = 0; s->blocks > 0 || n < 2; n++) {
		t = find_untried(s);
		if (!t)
			break;
		try_block(s, t, block);
		s->blocks -= work * (double)block->bytes * t->pace;
	}
	weigh_blocks(s);
}

double kedge__trial_share(const struct kedge__sampler *s, struct kedge__trial *t, const struct kedge__chunk *block)
{
	return (double)kedge__trial_pack(s, t, block, 0, block->bytes, 0) / (double)block->bytes;
}

/* What chunks that are in the block shrink to; if there are none, what all do. */
static double share_there(const struct kedge__sampler *s, const struct kedge__chunk *block,
			  const struct kedge__trial *t)
{
	size_t raw = 0, packed = 0;

	for (size_t i = 0; i < s->chunk_count; i++) {
		const struct kedge__chunk *c = &s->chunks[i];

		if (c->raw < block->raw || c->raw >= block->raw + block->bytes)
			continue;
		raw += c->bytes;
		packed += t->packed[i];
	}
	return raw ? (double)packed / (double)raw : t->size;
}

/* Some codecs find in a chunk what they do not in a block: the winner has to hold there, or the next one has. */
static struct kedge__trial *confirm(struct kedge__sampler *s, const struct kedge__chunk *block, double *share)
{
	struct kedge__trial *best = NULL;

	for (int turn = 0; turn < CONFIRM_MOST && (!best || best->beaten); turn++) {
		best = find_winner(s);
		if (!best)
			return NULL;
		*share = kedge__trial_share(s, best, block);
		best->beaten = 1 - *share < CONFIRMED * (1 - share_there(s, block, best));
	}
	return best->beaten ? NULL : best;
}

/* The same with another level, which takes no longer: which of the two packs a block better, chunks often do not say.
 */
static bool is_rival(const struct kedge__trial *t, const struct kedge__trial *best)
{
	return kedge__candidate_alike(&t->choice, &best->choice) && t->pace <= best->pace * RIVAL;
}

/* Without the time to compare all: what chunks show too little of has one more chance beside the winner. */
static void confirm_others(struct kedge__sampler *s, const struct kedge__chunk *block)
{
	double share;
	const struct kedge__trial *best = confirm(s, block, &share);
	/* Chunks show too much of what records gain: a long block may have records of several kinds. */
	const struct kedge__trial *other = best && kedge__trial_is_found(best) ? find_cheapest(s, false) : NULL;
	bool even = best && is_even(s, best); /* so that a block is like the rest */

	for (size_t i = 0; best && i < s->trial_count; i++) {
		struct kedge__trial *t = &s->trials[i];

		if (t == best || !(t == other || is_shy(t) || (even && is_plain(t)) || is_rival(t, best)) ||
		    !is_worth(s, t) || t->cost > best->cost * NEAR_COST)
			continue;
		t->size = KEDGE__MIN(t->size, best->size * kedge__trial_share(s, t, block) / share);
		t->cost = cost_of(s, t);
	}
}

static void try_blocks(struct kedge__sampler *s, const struct kedge__chunk *block)
{
	if (s->wanted.smallest || block->bytes < 2 * s->chunk)
		return;
	for (size_t i = 0; i < s->trial_count; i++)
		if (s->trials[i].far)
			try_block(s, &s->trials[i], block);
	if (s->blocks > 0)
		compare(s, block);
	else
		confirm_others(s, block);
}

/* With "max", blocks are given their base wherever there is one: the choice says so. */
static const struct kedge__trial *find_based(const struct kedge__sampler *s, const struct kedge__trial *best)
{
	const struct kedge__trial *based = NULL;

	for (size_t i = 0; i < s->trial_count; i++) {
		const struct kedge__trial *t = &s->trials[i];

		if (t->choice.steps & KEDGE__STEP_BASE && (!based || t->size < based->size))
			based = t;
	}
	return based ? based : best;
}

static struct kedge__codec_choice choose(const struct kedge__sampler *s, struct kedge__codec_why *why)
{
	struct kedge__codec_choice choice = {.codec = &kedge__codec_none};
	const struct kedge__trial *best = find_winner(s);

	if (best) {
		choice = best->choice;
		take(why, s, best);
	}
	if (s->wanted.smallest) {
		choice = best ? find_based(s, best)->choice : choice;
		choice.near = find_all(s);
		choice.smallest = true;
	} else if (best && !choice.there) {
		choice.near = find_near(s, find_cheapest(s, true)->cost);
	}
	return choice;
}

static bool look_at_pieces(struct kedge__sampler *s)
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
static double packing_time(const struct kedge__sampler *s)
{
	uint64_t bytes = KEDGE__MAX(s->wanted.bytes, s->total);

	return (double)bytes / (s->wanted.smallest ? SPEED_MAX : SPEED);
}

bool kedge__codec_little(const struct kedge__codec_choice *wanted, uint64_t bytes)
{
	return wanted->automatic && !wanted->smallest && bytes < WORTH_LEAST;
}

static uint64_t tried_bytes(const struct kedge__sampler *s)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < s->trial_count; i++)
		bytes += s->trials[i].bytes;
	return bytes;
}

/* Seconds that the trials take, as a rule. */
static double tried_time(const struct kedge__sampler *s)
{
	double tries = 0;

	for (size_t i = 0; i < s->trial_count; i++)
		tries += (double)s->trials[i].tries;
	return (double)tried_bytes(s) / SPEED + SETUP * tries;
}

/* With chunks at hand, records are looked for, and candidates listed that suit them. */
static struct kedge__codec_choice look_closely(struct kedge__sampler *s, struct kedge__codec_why *why)
{
	struct kedge__codec_choice none = {.codec = &kedge__codec_none};
	struct kedge__chunk block;
	bool hopeless;
	size_t most;

	list_trials(s);
	if (!s->trial_count)
		return none;
	plan_work(s);
	if (s->trial_count == 1 && !s->wanted.smallest)
		return guess(s, why);
	s->chunk_count = kedge__chunks_take(s->pieces, s->count, s->base, s->chunk, s->chunk_count, s->chunks);
	s->wanted.stride = kedge__sampler_stride(s);
	if (s->wanted.stride) {
		most = s->trial_count;
		s->trial_count = 0;
		list_trials(s);
		s->trial_count = s->wanted.smallest ? s->trial_count : KEDGE__MIN(s->trial_count, most + 2);
	}
	if (kedge__sampler_finds(s))
		kedge__sampler_find(s);
	screen(s);
	hopeless = is_hopeless(s);
	block = take_block(s);
	if (kedge__sampler_look_far(s, &block, hopeless) || !hopeless) {
		try_best(s);
		try_blocks(s, &block);
	}
	why->tried = (uint32_t)s->trial_count;
	why->sampled_bytes = tried_bytes(s) / s->trial_count;
	return choose(s, why);
}

struct kedge__codec_choice kedge__codec_sample(const struct kedge__codec_choice *wanted,
					       const struct kedge__codec_input *pieces, size_t n,
					       struct kedge__codec_why *why)
{
	struct kedge__codec_choice choice = {.codec = &kedge__codec_none};
	struct kedge__sampler s = {.wanted = *wanted, .pieces = pieces, .count = n};
	struct kedge__codec_why unread;
	double own;

	why = why ? why : &unread;
	*why = (struct kedge__codec_why){.size = 1, .target = wanted->target, .storage = storage(&s)};
	if (!wanted->automatic) {
		why->reason = KEDGE__CODEC_GIVEN;
		return *wanted;
	}
	if (!look_at_pieces(&s) || kedge__codec_little(wanted, s.total))
		return choice;
	s.budget = packing_time(&s) * (wanted->smallest ? SHARE_MAX : s.type == KEDGE_BYTES ? SHARE_BYTES : SHARE);
	own = s.budget;
	s.budget = KEDGE__MAX(own, wanted->spare);
	/* Without memory for a look, data is stored as it is: larger, never wrong. */
	s.wanted.pool = wanted->pace ? wanted->pool : NULL;
	s.packed = kedge__malloc((size_t)kedge__pool_threads(s.wanted.pool) * KEDGE__SAMPLE_BLOCK);
	s.trials = kedge__malloc(kedge__candidate_count * sizeof(*s.trials));
	if (s.packed && s.trials)
		choice = look_closely(&s, why);
	why->spared = KEDGE__MAX(tried_time(&s) - own, 0);
	kedge__free(s.packed);
	kedge__free(s.trials);
	return choice;
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
	    [KEDGE__CODEC_BORROWED] = "the same as for another region of its kind",
	};

	return (unsigned)reason < KEDGE__CODEC_REASONS ? texts[reason] : "not known";
}
