/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What was settled on for each region of a job, kept over its versions: looking closely at a region once is worth many
 * versions, and serves all regions of its kind. What is kept is doubted when the region is not what it was, when what
 * is asked for or storage's speed is not, when data packs to another size than it did or than others of its kind do,
 * and every now and then.
 */
#include "codec/codec.h"

#include <math.h>

#define EVERY       16   /* versions from one close look to the next */
#define CHANGE      2.0  /* by this factor sizes and speeds may change */
#define DRIFT       0.15 /* the share of its size by which what a version packs to may change */
#define CHECK_DRIFT 0.30 /* the same of a few samples, which are from here and there */
#define TINY        (UINT64_C(64) << 10)
#define CHECK_LEAST (UINT64_C(256) << 10)
#define SEEN_LEAST  4096 /* bytes, for their size to say something about a region */
#define KINDS_MAX   4096 /* that are told apart; names may differ in more than numbers */

struct entry {
	struct kedge__codec_subject subject;
	struct kedge__codec_choice wanted, choice;
	struct kedge__codec_why why;
	double seen; /* packed share of the first version that it was used for; 0: not known yet */
	bool drifted;
};

struct kind {
	uint64_t kind;
	struct entry model; /* of the region that was looked at */
	bool known;         /* one was */
	uint64_t turn;      /* when */
	uint64_t expected;  /* bytes in this turn */
};

struct kedge__codec_memory {
	KEDGE__ARRAY(struct entry) entries;
	KEDGE__ARRAY(struct kind) kinds;
	struct kedge__hash ids, names;  /* of the entries, of the kinds */
	size_t model[KEDGE_TYPE_COUNT]; /* + 1: of each type the one that was looked at last; 0: none */
	uint64_t turn;                  /* the number of the version */
};

int kedge__codec_memory_new(struct kedge__codec_memory **out, struct kedge__error *err)
{
	*out = kedge__calloc(1, sizeof(**out));
	return *out ? 0 : kedge__error_nomem(err);
}

void kedge__codec_memory_free(struct kedge__codec_memory *m)
{
	if (!m)
		return;
	kedge__array_done(&m->entries);
	kedge__array_done(&m->kinds);
	kedge__hash_done(&m->ids);
	kedge__hash_done(&m->names);
	kedge__free(m);
}

static bool has_id(const void *ctx, size_t item, const void *id)
{
	const struct kedge__codec_memory *m = ctx;

	return m->entries.at[item].subject.id == *(const uint32_t *)id;
}

static struct entry *entry_find(const struct kedge__codec_memory *m, uint32_t id)
{
	size_t i = kedge__hash_find(&m->ids, id, has_id, m, &id);

	return i == KEDGE__HASH_NONE ? NULL : &m->entries.at[i];
}

static struct entry *entry_add(struct kedge__codec_memory *m, uint32_t id)
{
	size_t n = m->entries.count;

	if (!kedge__array_reserve(&m->entries, n + 1) || !kedge__hash_put(&m->ids, id, n))
		return NULL;
	return &m->entries.at[m->entries.count++];
}

/* ------------------------------------------------------------------ kinds */

#define FNV_START UINT64_C(0xcbf29ce484222325)
#define FNV_PRIME UINT64_C(0x100000001b3)

uint64_t kedge__codec_kind(const char *name, enum kedge_type type, uint64_t bytes, bool base)
{
	unsigned size_class = bytes ? (unsigned)(63 - __builtin_clzll(bytes)) / 2 : 0;
	uint64_t h = FNV_START;
	bool digit = false;

	for (const char *p = name ? name : ""; *p; p++) {
		bool was = digit;

		digit = *p >= '0' && *p <= '9';
		if (!(digit && was))
			h = (h ^ (digit ? '0' : (uint8_t)*p)) * FNV_PRIME;
	}
	h = (h ^ (unsigned)type) * FNV_PRIME;
	h = (h ^ size_class) * FNV_PRIME;
	return (h ^ base) * FNV_PRIME;
}

static bool is_kind(const void *ctx, size_t item, const void *kind)
{
	const struct kedge__codec_memory *m = ctx;

	return m->kinds.at[item].kind == *(const uint64_t *)kind;
}

static struct kind *kind_find(const struct kedge__codec_memory *m, uint64_t kind)
{
	size_t i = kedge__hash_find(&m->names, kind, is_kind, m, &kind);

	return i == KEDGE__HASH_NONE ? NULL : &m->kinds.at[i];
}

/* NULL: without memory, or beyond the limit, every region is on its own. */
static struct kind *kind_add(struct kedge__codec_memory *m, uint64_t kind)
{
	size_t n = m->kinds.count;

	if (n >= KINDS_MAX || !kedge__array_reserve(&m->kinds, n + 1) || !kedge__hash_put(&m->names, kind, n))
		return NULL;
	m->kinds.at[n] = (struct kind){.kind = kind};
	return &m->kinds.at[m->kinds.count++];
}

/* One of them was looked at, not too long ago. */
static bool is_fresh(const struct kedge__codec_memory *m, const struct kind *k)
{
	return k->known && m->turn - k->turn < EVERY;
}

void kedge__codec_memory_begin(struct kedge__codec_memory *m)
{
	m->turn++;
	for (size_t i = 0; i < m->kinds.count; i++)
		m->kinds.at[i].expected = 0;
}

void kedge__codec_memory_expect(struct kedge__codec_memory *m, uint64_t kind, uint64_t bytes)
{
	struct kind *known = kind_find(m, kind), *k = known ? known : kind_add(m, kind);

	if (k)
		k->expected += bytes;
}

uint64_t kedge__codec_memory_expected(const struct kedge__codec_memory *m, uint64_t kind)
{
	const struct kind *k = kind_find(m, kind);

	return k && !is_fresh(m, k) ? k->expected : 0;
}

/* ------------------------------------------------------------------ choices */

/* Neither is more than CHANGE times the other. */
static bool is_near(double a, double b)
{
	return a == b || (a <= b * CHANGE && b <= a * CHANGE);
}

static bool same_wish(const struct kedge__codec_choice *a, const struct kedge__codec_choice *b)
{
	return a->automatic == b->automatic && a->smallest == b->smallest && is_near(a->bus, b->bus) &&
	       is_near(a->target, b->target) && is_near(a->storage, b->storage);
}

/* What was found out about it may do for others. */
static bool is_model(const struct entry *e)
{
	return e->why.tried && !(e->choice.steps & KEDGE__STEP_BASE);
}

static bool holds(const struct entry *e, const struct kedge__codec_subject *s, const struct kedge__codec_choice *wanted)
{
	return !e->drifted && e->why.age + 1 < EVERY && e->subject.type == s->type && e->subject.base == s->base &&
	       e->wanted.row == wanted->row && e->wanted.plane == wanted->plane && same_wish(&e->wanted, wanted) &&
	       is_near((double)e->subject.bytes, (double)s->bytes);
}

/* The region of the same kind that was looked at, not too long ago. */
static const struct entry *find_kin(const struct kedge__codec_memory *m, const struct kedge__codec_subject *s,
				    const struct kedge__codec_choice *wanted)
{
	const struct kind *k = kind_find(m, s->kind);

	return k && is_fresh(m, k) && same_wish(&k->model.wanted, wanted) ? &k->model : NULL;
}

/* The region of the same type that was looked at last, for one that is not worth a look. */
static const struct entry *find_model(const struct kedge__codec_memory *m, const struct kedge__codec_subject *s,
				      const struct kedge__codec_choice *wanted)
{
	size_t model = m->model[s->type];
	const struct entry *e = model ? &m->entries.at[model - 1] : NULL;

	return e && is_model(e) && e->subject.type == s->type && same_wish(&e->wanted, wanted) ? e : NULL;
}

static enum kedge__codec_look borrow(const struct entry *e, const struct kedge__codec_subject *s,
				     const struct kedge__codec_choice *wanted, struct kedge__codec_choice *choice,
				     struct kedge__codec_why *why)
{
	*choice = e->choice;
	choice->row = wanted->row;
	choice->plane = wanted->plane;
	*why = e->why;
	why->reason = KEDGE__CODEC_BORROWED;
	return s->packing < CHECK_LEAST ? KEDGE__LOOK_NOT : KEDGE__LOOK_CHECK;
}

enum kedge__codec_look kedge__codec_memory_ask(const struct kedge__codec_memory *m,
					       const struct kedge__codec_subject *s,
					       const struct kedge__codec_choice *wanted,
					       struct kedge__codec_choice *choice, struct kedge__codec_why *why)
{
	const struct entry *e = entry_find(m, s->id), *other = NULL;
	bool tiny = s->packing < TINY && !wanted->smallest;

	if (e && holds(e, s, wanted)) {
		*choice = e->choice;
		*why = e->why;
		why->age++;
		return s->packing < CHECK_LEAST ? KEDGE__LOOK_NOT : KEDGE__LOOK_CHECK;
	}
	/* A region that turned out to differ from its kind has an entry of its own, which does not hold: it is sampled.
	 */
	if (!e)
		other = find_kin(m, s, wanted);
	if (!other && tiny && kedge__codec_memory_expected(m, s->kind) < TINY)
		other = find_model(m, s, wanted);
	return other ? borrow(other, s, wanted, choice, why) : KEDGE__LOOK_CLOSE;
}

bool kedge__codec_memory_last(const struct kedge__codec_memory *m, const struct kedge__codec_subject *s,
			      const struct kedge__codec_choice *wanted, struct kedge__codec_choice *choice,
			      struct kedge__codec_why *why)
{
	const struct entry *e = entry_find(m, s->id);

	if (!e || !e->choice.codec || e->subject.type != s->type || e->subject.base != s->base ||
	    !same_wish(&e->wanted, wanted))
		return false;
	*choice = e->choice;
	*why = e->why;
	return true;
}

bool kedge__codec_memory_fits(const struct kedge__codec_why *why, double share)
{
	return fabs(share - why->size) <= CHECK_DRIFT * KEDGE__MAX(share, why->size);
}

/* The first look at a region of a kind is for all of them, until it is too long ago. */
static void keep_kind(struct kedge__codec_memory *m, const struct entry *e)
{
	struct kind *known = kind_find(m, e->subject.kind), *k = known ? known : kind_add(m, e->subject.kind);

	if (!k || e->why.age || (is_fresh(m, k) && same_wish(&k->model.wanted, &e->wanted)))
		return;
	k->model = *e;
	k->known = true;
	k->turn = m->turn;
}

int kedge__codec_memory_keep(struct kedge__codec_memory *m, const struct kedge__codec_subject *s,
			     const struct kedge__codec_choice *wanted, const struct kedge__codec_choice *choice,
			     const struct kedge__codec_why *why, struct kedge__error *err)
{
	struct entry *known = entry_find(m, s->id), *e = known ? known : entry_add(m, s->id);

	if (!e)
		return kedge__error_nomem(err);
	if (!known || why->age == 0)
		*e = (struct entry){.subject = *s, .wanted = *wanted, .choice = *choice};
	e->why = *why;
	if (is_model(e))
		m->model[s->type] = (size_t)(e - m->entries.at) + 1;
	keep_kind(m, e);
	return 0;
}

/* A region that has no choice of its own packs to another size than the one that it borrowed its choice from. */
static void note_stranger(struct kedge__codec_memory *m, const struct kedge__codec_subject *s, double share)
{
	const struct kind *k = kind_find(m, s->kind);
	struct entry *e;

	if (!k || !k->known || kedge__codec_memory_fits(&k->model.why, share))
		return;
	e = entry_add(m, s->id);
	if (e) /* without memory it stays with its kind */
		*e = (struct entry){.subject = *s, .drifted = true};
}

void kedge__codec_memory_seen(struct kedge__codec_memory *m, const struct kedge__codec_subject *s, uint64_t raw,
			      uint64_t stored)
{
	struct entry *e = entry_find(m, s->id);
	double share = raw ? (double)stored / (double)raw : 0;

	if (!e && raw >= SEEN_LEAST)
		note_stranger(m, s, share);
	if (!e || raw < TINY)
		return;
	if (e->seen <= 0)
		e->seen = share;
	e->drifted = fabs(share - e->seen) > DRIFT * KEDGE__MAX(share, e->seen);
}
