/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What was settled on for each region of a job, kept over its versions: looking closely at a region once is worth many
 * versions. What is kept is doubted when the region is not what it was, when what is asked for or storage's speed is
 * not, when data packs to another size than it did, and every now and then.
 */
#include "codec/codec.h"

#include <math.h>

#define EVERY       16   /* versions from one close look to the next */
#define CHANGE      2.0  /* by this factor sizes and speeds may change */
#define DRIFT       0.15 /* the share of its size by which what a version packs to may change */
#define CHECK_DRIFT 0.30 /* the same of a few samples, which are from here and there */
#define TINY        (UINT64_C(64) << 10)
#define CHECK_LEAST (UINT64_C(256) << 10)

struct entry {
	struct kedge__codec_subject subject;
	struct kedge__codec_choice wanted, choice;
	struct kedge__codec_why why;
	double seen; /* packed share of the first version that it was used for; 0: not known yet */
	bool drifted;
};

struct kedge__codec_memory {
	KEDGE__ARRAY(struct entry) entries;
	struct kedge__hash ids;         /* of the entries */
	size_t model[KEDGE_TYPE_COUNT]; /* + 1: of each type the one that was looked at last; 0: none */
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
	kedge__hash_done(&m->ids);
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

/* Neither is more than CHANGE times the other. */
static bool is_near(double a, double b)
{
	return a == b || (a <= b * CHANGE && b <= a * CHANGE);
}

static bool same_wish(const struct kedge__codec_choice *a, const struct kedge__codec_choice *b)
{
	return a->automatic == b->automatic && a->smallest == b->smallest && is_near(a->target, b->target) &&
	       is_near(a->storage, b->storage);
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

/* The region of the same type that was looked at last, for one that is not worth a look. */
static const struct entry *find_model(const struct kedge__codec_memory *m, const struct kedge__codec_subject *s,
				      const struct kedge__codec_choice *wanted)
{
	size_t model = m->model[s->type];
	const struct entry *e = model ? &m->entries.at[model - 1] : NULL;

	return e && is_model(e) && e->subject.type == s->type && same_wish(&e->wanted, wanted) ? e : NULL;
}

enum kedge__codec_look kedge__codec_memory_ask(const struct kedge__codec_memory *m,
					       const struct kedge__codec_subject *s,
					       const struct kedge__codec_choice *wanted,
					       struct kedge__codec_choice *choice, struct kedge__codec_why *why)
{
	const struct entry *e = entry_find(m, s->id);
	bool tiny = s->packing < TINY && !wanted->smallest;

	if (e && holds(e, s, wanted)) {
		*choice = e->choice;
		*why = e->why;
		why->age++;
		return s->packing < CHECK_LEAST ? KEDGE__LOOK_NOT : KEDGE__LOOK_CHECK;
	}
	e = tiny ? find_model(m, s, wanted) : NULL;
	if (!e)
		return KEDGE__LOOK_CLOSE;
	*choice = e->choice;
	choice->row = wanted->row;
	choice->plane = wanted->plane;
	*why = e->why;
	why->reason = KEDGE__CODEC_BORROWED;
	return KEDGE__LOOK_NOT;
}

bool kedge__codec_memory_fits(const struct kedge__codec_why *why, double share)
{
	return fabs(share - why->size) <= CHECK_DRIFT * KEDGE__MAX(share, why->size);
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
	return 0;
}

void kedge__codec_memory_seen(struct kedge__codec_memory *m, uint32_t id, uint64_t raw, uint64_t stored)
{
	struct entry *e = entry_find(m, id);
	double share = raw ? (double)stored / (double)raw : 0;

	if (!e || raw < TINY)
		return;
	if (e->seen <= 0)
		e->seen = share;
	e->drifted = fabs(share - e->seen) > DRIFT * KEDGE__MAX(share, e->seen);
}
