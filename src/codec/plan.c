/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How the blocks of each region of a version are packed: as the configuration says, or, with "auto" and "max", as was
 * settled on for an earlier version, if a few samples say that this is still right, or as a close look finds now. A
 * base is considered where a region has enough new bytes for it.
 */
#include "codec/codec_table.h"
#include "codec/echo.h"

#define SAMPLE_PIECES 8
#define SAMPLE_BYTES  (UINT32_C(128) << 10)
#define SAMPLE_LEAST  (UINT32_C(32) << 10)
#define SAMPLE_PART   32 /* of what is packed, in each piece */
#define CHECK_PIECES  2
#define CHECK_BYTES   (UINT32_C(16) << 10)
#define SPARE         10e-3  /* seconds of a version for looks at small regions, */
#define SPARE_REGION  2.5e-3 /* and of one of them */
#define SPARE_PACE    0.5e-9 /* seconds a byte: a quarter of the time of packing, at most, */
#define SPARE_LEAST   300e-6 /* but for the first few, until a tenth of all is spent */
#define SPARE_CHECK   400e-6 /* to see that nothing is worth it */
#define USES_UNTIMED  3      /* versions that a choice serves where speeds are not measured: there may be no other */
#define BASE_LEAST    (UINT64_C(256) << 10) /* new bytes of a region for which a base is considered */
#define JOINT_MOST    (UINT64_C(6) << 20)   /* bytes of a block with echoes, */
#define JOINT_LEAST   (UINT64_C(256) << 10) /* and of a region that is looked at for them */
#define WINDOW        ((size_t)8 << 10)     /* bytes that are, of */
#define WINDOW_EVERY  ((size_t)32 << 10)    /* so many */

int kedge__codec_planner_init(struct kedge__codec_planner *p, const struct kedge__codec_choice *wanted,
			      struct kedge__codec_memory *memory, struct kedge__error *err)
{
	*p = (struct kedge__codec_planner){
	    .wanted = *wanted, .memory = wanted->automatic ? memory : NULL, .spare = SPARE};
	if (p->memory)
		kedge__codec_memory_begin(p->memory);
	if (!wanted->automatic)
		return 0;
	p->samples = kedge__malloc((size_t)2 * SAMPLE_PIECES * SAMPLE_BYTES);
	return p->samples ? 0 : kedge__error_nomem(err);
}

void kedge__codec_planner_done(struct kedge__codec_planner *p)
{
	kedge__free(p->samples);
	p->samples = NULL;
}

/* ---- samples */

struct look { /* at one region */
	struct kedge__codec_planner *planner;
	const struct kedge__codec_blocks *blocks;
	struct kedge__codec_plan *plan;
	struct kedge__codec_choice wanted;
};

/* The bytes that the base has for a sample go behind the samples. */
static bool sample_base(const struct look *l, size_t block, size_t k, struct kedge__codec_input *piece)
{
	uint8_t *to = l->planner->samples + (SAMPLE_PIECES + k) * SAMPLE_BYTES;

	if (!l->blocks->base(l->blocks->ctx, block, to, piece->bytes))
		return false;
	piece->base = to;
	return true;
}

/* A number that follows no rule, but is always the same. */
static uint64_t spread(uint64_t a, uint64_t b)
{
	uint8_t text[16];

	kedge__put64(text, a);
	kedge__put64(text + 8, b);
	return kedge__checksum(text, sizeof(text));
}

/* Which block is number K of N samples of COUNT: one of those between its neighbours', at no regular distance, since
 * what is stored is often periodic. */
static size_t sample_block(size_t count, size_t n, size_t k, size_t turn)
{
	size_t from = k * count / n, to = (k + 1) * count / n;

	return from + (size_t)(spread(k, turn) % (to - from));
}

/* N pieces, no more than there are blocks, of at most BYTES bytes from all over them; TURN moves them. That in the
 * middle has WHOLE bytes at most: some codecs gain on half a block and lose on all of it, so that the choice is
 * confirmed there. Either all get a base or none does. */
static int take_samples(const struct look *l, size_t n, size_t bytes, size_t whole, size_t turn, bool base,
			struct kedge__codec_input *pieces, struct kedge__error *err)
{
	const struct kedge__codec_blocks *b = l->blocks;
	int rc = 0;

	for (size_t k = 0; k < n && !rc; k++) {
		size_t block = sample_block(b->count, n, k, turn);

		pieces[k] =
		    (struct kedge__codec_input){.bytes = k == n / 2 ? whole : bytes, .type = l->plan->subject.type};
		rc = b->raw(b->ctx, block, 0, l->planner->samples + k * SAMPLE_BYTES, &pieces[k].raw, &pieces[k].bytes,
			    err);
		base = base && !rc && sample_base(l, block, k, &pieces[k]);
	}
	for (size_t k = 0; k < n && !base; k++)
		pieces[k].base = NULL;
	return rc;
}

/* ---- settle */

static bool base_opens(const struct look *l)
{
	return l->blocks->base_open && l->blocks->base_open(l->blocks->ctx);
}

static int sample_closely(struct look *l, struct kedge__error *err)
{
	struct kedge__codec_plan *p = l->plan;
	struct kedge__codec_input pieces[SAMPLE_PIECES];
	size_t n = KEDGE__MIN(l->blocks->count, SAMPLE_PIECES);
	/* No more than a part of the data is worth reading for it. */
	size_t most = (size_t)KEDGE__MIN(KEDGE__MAX(p->subject.packing / SAMPLE_PART, SAMPLE_LEAST), SAMPLE_BYTES);
	bool base = p->subject.base && kedge__codec_base_may_pay(&l->wanted, p->subject.type) && base_opens(l);
	int rc = take_samples(l, n, most, SAMPLE_BYTES, 0, base, pieces, err);

	if (rc)
		return rc;
	l->wanted.bytes = p->subject.packing;
	if (l->planner->memory)
		l->wanted.bytes =
		    (l->wanted.pace ? USES_UNTIMED : KEDGE__CODEC_USES) *
		    KEDGE__MAX(l->wanted.bytes, kedge__codec_memory_expected(l->planner->memory, p->subject.kind));
	l->wanted.spare = SPARE_PACE * (double)l->wanted.bytes;
	if (l->planner->spare >= 0.9 * SPARE)
		l->wanted.spare = KEDGE__MAX(l->wanted.spare, SPARE_LEAST);
	l->wanted.spare = KEDGE__MIN(l->wanted.spare, KEDGE__MIN(l->planner->spare, SPARE_REGION));
	p->choice = kedge__codec_sample(&l->wanted, pieces, n, &p->why);
	l->planner->spare -= KEDGE__MIN(l->planner->spare, p->why.spared);
	return 0;
}

/* Behind the few samples of a check there is room for what they are packed to. */
static double packed_share(const struct look *l, const struct kedge__codec_input *pieces, size_t n)
{
	uint8_t *packed = l->planner->samples + n * SAMPLE_BYTES;
	size_t raw = 0, all = 0;

	for (size_t k = 0; k < n; k++) {
		uint16_t codec, param;
		size_t used = pieces[k].bytes;

		(void)kedge__block_pack(&l->plan->choice, &pieces[k], packed, &used, &codec, &param, NULL);
		raw += pieces[k].bytes;
		all += used;
	}
	return (double)all / (double)raw;
}

/* Is what is remembered still right, by a few samples? Where nothing is packed, that nothing is worth it. Repeats that
 * are far from each other are seen in entire blocks alone. */
static int check_remembered(struct look *l, bool *right, struct kedge__error *err)
{
	const struct kedge__codec_plan *p = l->plan;
	struct kedge__codec_input pieces[CHECK_PIECES];
	size_t n = KEDGE__MIN(l->blocks->count, CHECK_PIECES);
	size_t bytes = p->why.far || !kedge__codec_plan_packs(p) ? SAMPLE_BYTES : CHECK_BYTES;
	bool base = kedge__codec_plan_wants_base(p) && base_opens(l);
	int rc = take_samples(l, n, bytes, bytes, p->why.age, base, pieces, err);

	if (rc)
		return rc;
	if (kedge__codec_plan_packs(p)) {
		*right = (kedge__codec_plan_wants_base(p) && !pieces[0].base) ||
			 kedge__codec_memory_fits(&p->why, packed_share(l, pieces, n));
		return 0;
	}
	l->wanted.bytes = p->subject.packing / 2;
	l->wanted.spare = SPARE_CHECK;
	*right = kedge__codec_sample(&l->wanted, pieces, n, NULL).codec->id == KEDGE__CODEC_NONE;
	return 0;
}

static int settle(struct look *l, struct kedge__error *err)
{
	struct kedge__codec_plan *p = l->plan;
	bool little = kedge__codec_little(&l->wanted, p->subject.packing); /* nothing to remember either */
	struct kedge__codec_memory *memory = little ? NULL : l->planner->memory;
	enum kedge__codec_look look = KEDGE__LOOK_CLOSE;
	bool right = true;
	int rc = 0;

	if (memory)
		look = kedge__codec_memory_ask(memory, &p->subject, &l->wanted, &p->choice, &p->why);
	if (look == KEDGE__LOOK_CHECK)
		rc = check_remembered(l, &right, err);
	if (!rc && (look == KEDGE__LOOK_CLOSE || !right))
		rc = sample_closely(l, err);
	if (!rc && memory && p->why.reason != KEDGE__CODEC_BORROWED)
		rc = kedge__codec_memory_keep(memory, &p->subject, &l->wanted, &p->choice, &p->why, err);
	return rc;
}

static struct kedge__codec_subject subject_of(const struct kedge__codec_region *r, const struct kedge__codec_blocks *b)
{
	/* A self-contained version is not made to depend on another for the sake of its size alone. */
	bool base = b->base_open && b->depends && b->bytes >= BASE_LEAST;

	return (struct kedge__codec_subject){.id = r->id,
					     .kind = kedge__codec_kind(r->name, r->type, r->bytes, base),
					     .type = r->type,
					     .bytes = r->bytes,
					     .packing = b->bytes,
					     .base = base};
}

void kedge__codec_planner_expect(struct kedge__codec_planner *planner, const struct kedge__codec_region *region,
				 const struct kedge__codec_blocks *blocks)
{
	if (planner->memory)
		kedge__codec_memory_expect(planner->memory, subject_of(region, blocks).kind, blocks->bytes);
}

/* ---- echoes */

/* Windows of block I, one after the other. Where each is nobody can foresee, so that whatever the distance of numbers
 * and their echoes is, some of both are in windows. */
static int take_windows(const struct kedge__codec_blocks *b, size_t i, uint8_t *windows, size_t room, size_t *filled,
			struct kedge__error *err)
{
	size_t bytes = WINDOW;

	for (size_t at = 0; bytes == WINDOW && *filled + WINDOW <= room; at += WINDOW_EVERY) {
		size_t skip = (size_t)(spread(i, at) % (WINDOW_EVERY - WINDOW)) / 64 * 64;
		const void *raw;
		int rc;

		rc = b->raw(b->ctx, i, at + skip, windows + *filled, &raw, &bytes, err);
		if (rc)
			return rc;
		if (bytes && raw != windows + *filled)
			memcpy(windows + *filled, raw, bytes);
		*filled += bytes / 64 * 64;
	}
	return 0;
}

/* Numbers that codec echo knows. */
static bool may_echo(enum kedge_type type)
{
	return kedge__element_is_float(type) && kedge__element_width(type) >= 4;
}

bool kedge__codec_echoes(enum kedge_type type, const void *windows, size_t bytes)
{
	unsigned width = kedge__element_width(type);

	return may_echo(type) && kedge__echo_pays(windows, bytes / width, width);
}

/* Among the first JOINT blocks of a region. */
static int look_for_echoes(const struct look *l, size_t joint, bool *found, struct kedge__error *err)
{
	size_t room = (size_t)JOINT_MOST / WINDOW_EVERY * WINDOW, filled = 0;
	uint8_t *windows = kedge__malloc(room);
	int rc = windows ? 0 : kedge__error_nomem(err);

	for (size_t i = 0; i < joint && !rc; i++)
		rc = take_windows(l->blocks, i, windows, room, &filled, err);
	*found = !rc && kedge__codec_echoes(l->plan->subject.type, windows, filled);
	kedge__free(windows);
	return rc;
}

static struct kedge__codec_choice echo_choice(const struct look *l)
{
	return (struct kedge__codec_choice){
	    .codec = &kedge__codec_echo, .row = l->wanted.row, .plane = l->wanted.plane};
}

/* Whether the first JOINT blocks, as one, pack to less with echoes than what was chosen promises, which may be better
 * than codec field. */
static int weigh_echoes(const struct look *l, size_t joint, bool *less, struct kedge__error *err)
{
	const struct kedge__codec_choice echo = echo_choice(l);
	const struct kedge__codec_blocks *b = l->blocks;
	size_t room = (size_t)KEDGE__MIN(b->bytes, 2 * JOINT_MOST), filled = 0, used;
	uint8_t *joined = kedge__malloc(2 * room), *packed = joined + room;
	struct kedge__codec_input in = {.raw = joined, .type = l->plan->subject.type};
	int rc = joined ? 0 : kedge__error_nomem(err);
	uint16_t codec, param;

	for (size_t i = 0; i < joint && filled < room && !rc; i++) {
		size_t bytes = room - filled;
		const void *raw;

		rc = b->raw(b->ctx, i, 0, joined + filled, &raw, &bytes, err);
		if (!rc && raw != joined + filled)
			memcpy(joined + filled, raw, bytes);
		filled += rc ? 0 : bytes;
	}
	in.bytes = used = filled;
	if (!rc)
		rc = kedge__block_pack(&echo, &in, packed, &used, &codec, &param, err);
	*less = !rc && (double)used < l->plan->why.size * (double)filled;
	kedge__free(joined);
	return rc;
}

/* Where numbers have echoes, blocks are joined to such as have both. */
static int settle_joint(struct look *l, struct kedge__error *err)
{
	const struct kedge__codec_blocks *b = l->blocks;
	struct kedge__codec_plan *p = l->plan;
	size_t each = (size_t)KEDGE__MAX(b->bytes / b->count, 1);
	size_t most = (size_t)KEDGE__MAX(JOINT_MOST / each, 1), joints = (b->count + most - 1) / most;
	size_t joint = (b->count + joints - 1) / joints;
	bool echo = p->choice.codec == &kedge__codec_echo; /* NULL: not packed */
	int rc = 0;

	if (!b->joins || joint < 2)
		return 0;
	if (l->wanted.automatic && p->choice.codec && !kedge__codec_plan_wants_base(p) && b->bytes >= JOINT_LEAST &&
	    may_echo(p->subject.type)) {
		rc = look_for_echoes(l, joint, &echo, err);
		if (!rc && echo && p->choice.codec != &kedge__codec_field)
			rc = weigh_echoes(l, joint, &echo, err);
	}
	if (!rc && echo) {
		if (l->wanted.automatic)
			p->choice = echo_choice(l);
		p->joint = joint;
	}
	return rc;
}

int kedge__codec_plan_make(struct kedge__codec_planner *planner, const struct kedge__codec_region *region,
			   const struct kedge__codec_blocks *blocks, struct kedge__codec_plan *plan,
			   struct kedge__error *err)
{
	struct look l = {.planner = planner, .blocks = blocks, .plan = plan, .wanted = planner->wanted};
	int rc = 0;

	l.wanted.pool = planner->pool;
	kedge__codec_choice_shape(&l.wanted, region->ndims, region->dims);
	*plan = (struct kedge__codec_plan){.made = true, .subject = subject_of(region, blocks)};
	if (l.wanted.automatic) {
		rc = settle(&l, err);
	} else {
		plan->choice = l.wanted;
		plan->why = (struct kedge__codec_why){.reason = KEDGE__CODEC_GIVEN};
	}
	if (!rc && kedge__codec_plan_wants_base(plan) && !base_opens(&l))
		plan->choice.steps &= ~(unsigned)KEDGE__STEP_BASE;
	return rc ? rc : settle_joint(&l, err);
}

/* ---- where the data is */

/* What was settled on for earlier versions, whether or not they had a base, if that is packed there. */
static bool remembered_there(const struct kedge__codec_choice *wanted, const struct kedge__codec_memory *memory,
			     const struct kedge__codec_region *r, struct kedge__codec_plan *plan)
{
	bool found = false;

	for (int i = 0; memory && i < 4 && !found; i++) {
		plan->doubted = i >= 2;
		plan->subject.base = i % 2 == 0;
		plan->subject.kind = kedge__codec_kind(r->name, r->type, r->bytes, plan->subject.base);
		if (plan->doubted)
			found = kedge__codec_memory_last(memory, &plan->subject, wanted, &plan->choice, &plan->why);
		else
			found = kedge__codec_memory_ask(memory, &plan->subject, wanted, &plan->choice, &plan->why) !=
				KEDGE__LOOK_CLOSE;
		found = found && plan->choice.there;
	}
	return found;
}

bool kedge__codec_plan_there(const struct kedge__codec_choice *wanted, const struct kedge__codec_memory *memory,
			     const struct kedge__codec_region *region, struct kedge__codec_plan *plan)
{
	struct kedge__codec_plan made = {.made = true, .choice = *wanted, .why = {.reason = KEDGE__CODEC_GIVEN}};
	struct kedge__codec_choice shaped = *wanted;
	struct kedge__gpu_how how;
	uint16_t param;

	kedge__codec_choice_shape(&shaped, region->ndims, region->dims);
	made.subject = (struct kedge__codec_subject){
	    .id = region->id, .type = region->type, .bytes = region->bytes, .packing = region->bytes};
	made.choice = shaped;
	if (wanted->automatic && !remembered_there(&shaped, memory, region, &made))
		return false;
	if (!kedge__codec_there(&made.choice, region->type, &how, &param))
		return false;
	*plan = made;
	return true;
}

/* A look at this version is one for the next: this one is packed. */
int kedge__codec_plan_follow(struct kedge__codec_planner *planner, const struct kedge__codec_region *region,
			     const struct kedge__codec_blocks *blocks, const struct kedge__codec_plan *plan,
			     struct kedge__error *err)
{
	struct kedge__codec_plan next;

	if (plan->doubted)
		return kedge__codec_plan_make(planner, region, blocks, &next, err);
	if (!planner->memory || plan->why.reason == KEDGE__CODEC_BORROWED)
		return 0;
	return kedge__codec_memory_keep(planner->memory, &plan->subject, &planner->wanted, &plan->choice, &plan->why,
					err);
}

/* ---- what becomes of it */

bool kedge__codec_choice_packs(const struct kedge__codec_choice *choice)
{
	return choice->codec && (choice->automatic || choice->codec->id != KEDGE__CODEC_NONE);
}

bool kedge__codec_plan_packs(const struct kedge__codec_plan *plan)
{
	return plan->choice.codec && plan->choice.codec->id != KEDGE__CODEC_NONE;
}

bool kedge__codec_plan_wants_base(const struct kedge__codec_plan *plan)
{
	return plan->choice.steps & KEDGE__STEP_BASE;
}

void kedge__codec_plan_count(struct kedge__codec_plan *plan, uint16_t codec, uint16_t param, uint64_t raw,
			     uint64_t stored)
{
	/* Some blocks find no base; they say nothing about those that do. */
	if (kedge__codec_plan_wants_base(plan) && !kedge__codec_needs_base(codec, param))
		return;
	plan->raw += raw;
	plan->stored += stored;
}

void kedge__codec_plan_learn(const struct kedge__codec_planner *planner, const struct kedge__codec_plan *plan)
{
	if (planner->memory && plan->made && !plan->doubted)
		kedge__codec_memory_seen(planner->memory, &plan->subject, plan->raw, plan->stored);
}
