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
	KEDGE__ARRAY(struct entry) entries; /* ascending ids */
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
	kedge__free(m);
}

static size_t entry_index(const struct kedge__codec_memory *m, uint32_t id)
{
	size_t low = 0, high = m->entries.count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (m->entries.at[middle].subject.id < id)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static struct entry *entry_find(const struct kedge__codec_memory *m, uint32_t id)
{
	size_t i = entry_index(m, id);

	return i < m->entries.count && m->entries.at[i].subject.id == id ? &m->entries.at[i] : NULL;
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

static bool holds(const struct entry *e, const struct kedge__codec_subject *s, const struct kedge__codec_choice *wanted)
{
	return !e->drifted && e->why.age + 1 < EVERY && e->subject.type == s->type && e->subject.base == s->base &&
	       e->wanted.row == wanted->row && e->wanted.plane == wanted->plane && same_wish(&e->wanted, wanted) &&
	       is_near((double)e->subject.bytes, (double)s->bytes);
}

/* A region of the same type that was looked at, for one that is not worth a look. */
static const struct entry *find_model(const struct kedge__codec_memory *m, const struct kedge__codec_subject *s,
				      const struct kedge__codec_choice *wanted)
{
	for (size_t i = 0; i < m->entries.count; i++) {
		const struct entry *e = &m->entries.at[i];

		if (e->subject.type == s->type && e->why.tried && !(e->choice.steps & KEDGE__STEP_BASE) &&
		    same_wish(&e->wanted, wanted))
			return e;
	}
	return NULL;
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
	size_t i = entry_index(m, s->id);
	bool known = i < m->entries.count && m->entries.at[i].subject.id == s->id;

	if (!known) {
		if (!kedge__array_reserve(&m->entries, m->entries.count + 1))
			return kedge__error_nomem(err);
		memmove(&m->entries.at[i + 1], &m->entries.at[i], (m->entries.count++ - i) * sizeof(m->entries.at[0]));
	}
	if (!known || why->age == 0)
		m->entries.at[i] = (struct entry){.subject = *s, .wanted = *wanted, .choice = *choice};
	m->entries.at[i].why = *why;
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
