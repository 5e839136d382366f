/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * retention_model: two levels as sets, and what retention has to answer, from first principles. Slow, and shares no code
 * with what it judges: sets are bits, what can be restored is a fixpoint, and an answer is carried out on the model before
 * it is believed.
 */
#ifndef KEDGE_TESTS_JOB_RETENTION_MODEL_H
#define KEDGE_TESTS_JOB_RETENTION_MODEL_H

#include "../lib/cases.h"
#include "job/retention.h"

#define MODEL_MOST 64
#define BIT(i) (UINT64_C(1) << (i))

typedef uint64_t set_t; /* bit i: version i of the level */

struct one {
	uint64_t number;
	set_t needs;
	uint64_t image, files, run;
	bool held, merged;
	bool orphan; /* it needs a version that was never held here */
};

struct level {
	size_t count;
	struct one at[MODEL_MOST];
};

/* No two segments are the same that were not copied. */
static inline uint64_t files_new(void)
{
	static uint64_t last = 1000000;

	return ++last;
}

/* ------------------------------------------------------------------ sets */

static inline size_t set_size(set_t s)
{
	return (size_t)__builtin_popcountll(s);
}

static inline set_t below(size_t i)
{
	return i >= 64 ? ~(set_t)0 : BIT(i) - 1;
}

/* The highest of S, which is not empty. */
static inline size_t newest_of(set_t s)
{
	return 63 - (size_t)__builtin_clzll(s);
}

static inline size_t oldest_of(set_t s)
{
	return (size_t)__builtin_ctzll(s);
}

static inline set_t held_of(const struct level *l)
{
	set_t s = 0;

	for (size_t i = 0; i < l->count; i++)
		s |= l->at[i].held ? BIT(i) : 0;
	return s;
}

/* The least set with all whose needs it has. */
static inline set_t restorable_of(const struct level *l)
{
	set_t good = 0, before;

	do {
		before = good;
		for (size_t i = 0; i < l->count; i++) {
			if (l->at[i].held && !l->at[i].orphan && !(l->at[i].needs & ~good))
				good |= BIT(i);
		}
	} while (good != before);
	return good;
}

/* I and all that it needs, held or not. */
static inline set_t closure_of(const struct level *l, size_t i)
{
	set_t all = BIT(i), before;

	do {
		before = all;
		for (size_t k = 0; k < l->count; k++)
			all |= all & BIT(k) ? l->at[k].needs : 0;
	} while (all != before);
	return all;
}

/* Versions that are the same on both levels: index I is the same number on both. */
static inline set_t same_of(const struct level *a, const struct level *b)
{
	set_t s = 0;

	for (size_t i = 0; i < a->count && i < b->count; i++) {
		if (a->at[i].held && b->at[i].held && a->at[i].image == b->at[i].image &&
		    a->at[i].run == b->at[i].run)
			s |= BIT(i);
	}
	return s;
}

/* ------------------------------------------------------------------ the model as holdings */

static inline void holdings_put(struct kedge__holdings *h, const struct level *l, size_t i)
{
	const struct one *v = &l->at[i];
	struct kedge__holding fresh = {
	    .version = v->number,
	    .image = v->image,
	    .files = v->files,
	    .run = v->run,
	    .bytes = 100 + i,
	    .merged = v->merged,
	    .usable = true, /* to be ignored */
	    .need_count = 77,
	};
	uint64_t needs[MODEL_MOST + 1];
	size_t n = 0;

	if (v->orphan)
		needs[n++] = v->number - 1;
	for (size_t k = l->count; k-- > 0;) {
		if (v->needs & BIT(k))
			needs[n++] = l->at[k].number;
	}
	assert_true(kedge__holdings_add(h, fresh, needs, n));
}

static inline void holdings_load(struct kedge__holdings *h, const struct level *l, size_t count)
{
	kedge__holdings_clear(h);
	for (size_t i = 0; i < count; i++) {
		if (l->at[i].held)
			holdings_put(h, l, i);
	}
}

/* Which of L the code under test holds for usable. */
static inline set_t usable_in(const struct kedge__holdings *h, const struct level *l)
{
	set_t s = 0;

	for (size_t i = 0; i < l->count; i++) {
		const struct kedge__holding *v = kedge__holdings_find(h, l->at[i].number);

		s |= v && v->usable ? BIT(i) : 0;
	}
	return s;
}

/* What REACH grants of L to a version that comes after the first COUNT. */
static inline set_t granted(const struct kedge__reach *reach, const struct kedge__holdings *h, const struct level *l,
			    size_t count)
{
	set_t s = 0;

	for (size_t i = 0; i < count; i++) {
		const struct kedge__holding *v = kedge__holdings_find(h, l->at[i].number);

		s |= v && v->usable && kedge__reach_has(reach, l->at[i].number) ? BIT(i) : 0;
	}
	return s;
}

static inline size_t index_of(const struct level *l, uint64_t number)
{
	for (size_t i = 0; i < l->count; i++) {
		if (l->at[i].number == number)
			return i;
	}
	return SIZE_MAX;
}

/* ------------------------------------------------------------------ the rule for references */

struct floor { /* below which new versions do not refer */
	bool any;
	size_t self; /* the newest that needs no other */
	size_t on;   /* the newest that was coalesced onto it and needs nothing else, or itself */
};

static inline struct floor floor_of(const struct level *l, size_t count)
{
	set_t good = restorable_of(l) & below(count);
	struct floor f = {0};

	for (size_t i = 0; i < count; i++) {
		if ((good & BIT(i)) && !l->at[i].needs)
			f = (struct floor){true, i, i};
	}
	for (size_t i = 0; i < count; i++) {
		if (f.any && (good & BIT(i)) && l->at[i].merged && l->at[i].needs == BIT(f.self))
			f.on = i;
	}
	return f;
}

static inline size_t slack_of(size_t keep)
{
	return keep < 10 ? 4 : keep / 2;
}

/* What a version after the first COUNT may refer to; *RENEWED: nothing, so that old ones can go. */
static inline set_t reach_of(const struct level *l, size_t count, const struct kedge__retention_rules *rules,
			     bool *renewed)
{
	set_t good = restorable_of(l) & below(count);
	struct floor f = floor_of(l, count);

	*renewed = false;
	if (!rules->keep || !f.any)
		return good;
	good = (good & ~below(f.on)) | BIT(f.self);
	*renewed = !rules->l1_coalesces && set_size(good) > 2 * rules->keep + slack_of(rules->keep);
	return *renewed ? 0 : good;
}

/* ------------------------------------------------------------------ removal */

/* Newest first until KEEP good ones were met; what cannot be restored stays meanwhile; and what all these need. */
static inline set_t kept_of(const struct level *l, size_t keep)
{
	set_t good = restorable_of(l), held = held_of(l), kept = 0;
	size_t met = 0;

	for (size_t i = l->count; i-- > 0 && met < keep;) {
		if (!(held & BIT(i)))
			continue;
		met += (good & BIT(i)) != 0;
		kept |= closure_of(l, i) & held;
	}
	return met < keep ? held : kept;
}

static inline void model_gc(struct level *l, size_t keep)
{
	set_t kept = keep ? kept_of(l, keep) : held_of(l);

	for (size_t i = 0; i < l->count; i++)
		l->at[i].held = (kept & BIT(i)) != 0;
}

/* The newest N of S. */
static inline set_t newest_n(set_t s, size_t n)
{
	while (set_size(s) > n)
		s &= s - 1;
	return s;
}

/* ------------------------------------------------------------------ L2 */

struct l2_wanted {
	bool parent_found;
	size_t parent;
	size_t batch;
	enum kedge__l2_form form; /* without a rule that asks for a self-contained version now */
};

/* All that V needs, and is on L2, is there as the very files of L1. */
static inline bool same_files(const struct level *l1, const struct level *l2, size_t v)
{
	set_t both = closure_of(l1, v) & same_of(l1, l2);

	for (size_t i = 0; i < l1->count; i++) {
		if ((both & BIT(i)) && l1->at[i].files != l2->at[i].files)
			return false;
	}
	return true;
}

/* V needs nothing that older versions on L2 are kept for. */
static inline bool above_floor(const struct level *l1, const struct level *l2, size_t v)
{
	struct floor f = floor_of(l2, v);
	set_t old = f.any ? below(f.on) & ~BIT(f.self) : 0;

	return !(closure_of(l1, v) & old);
}

static inline struct l2_wanted l2_wanted_of(const struct level *l1, const struct level *l2, set_t reach, size_t v,
					    const struct kedge__retention_rules *rules)
{
	bool never = rules->coalesce == KEDGE__COALESCE_NEVER;
	set_t good2 = restorable_of(l2), same = same_of(l1, l2), closure = closure_of(l1, v);
	set_t both = restorable_of(l1) & good2 & same & reach & below(v);
	struct l2_wanted w = {.form = KEDGE__L2_COPY};
	bool files = same_files(l1, l2, v) && (!rules->l2_keep || above_floor(l1, l2, v));

	if ((same & good2 & BIT(v)) || (never && files))
		return w;
	w.parent_found = both != 0;
	w.parent = both ? newest_of(both) : 0;
	w.batch = set_size(both ? closure & ~below(w.parent + 1) : closure);
	if (!both)
		w.form = l1->at[v].needs || (same & BIT(v)) ? KEDGE__L2_SELF_CONTAINED : KEDGE__L2_COPY;
	else if (w.batch > 1 || !files || (l1->at[v].needs & ~(same & good2)))
		w.form = KEDGE__L2_DELTA;
	return w;
}

/* What is on L2 after V went there. A copy leaves alone what is there already. */
static inline void l2_apply(const struct level *l1, struct level *l2, size_t v, const struct kedge__l2_answer *a,
			    bool never)
{
	set_t same = same_of(l1, l2), copied = never ? closure_of(l1, v) : BIT(v);
	size_t parent = a->parent == KEDGE__NO_VERSION ? SIZE_MAX : index_of(l1, a->parent);

	if (l2->count < l1->count)
		l2->count = l1->count;
	if (a->form == KEDGE__L2_COPY) {
		for (size_t i = 0; i < l1->count; i++) {
			if (copied & ~same & BIT(i))
				l2->at[i] = l1->at[i];
		}
		return;
	}
	l2->at[v] = l1->at[v];
	l2->at[v].files = files_new();
	l2->at[v].merged = true;
	l2->at[v].needs = a->form == KEDGE__L2_DELTA ? BIT(parent) : 0;
}

/* ------------------------------------------------------------------ what is rewritten */

/* The newest version that a new one on L2 could be a delta to, of the first COUNT. */
static inline set_t pivots_of(const struct level *l1, const struct level *l2)
{
	struct floor f = floor_of(l1, l1->count);
	set_t both = restorable_of(l1) & restorable_of(l2) & same_of(l1, l2);

	return f.any ? both & ~below(f.self) : 0;
}

/* How many are there beyond KEEP. */
static inline size_t spare_of(const struct level *l, size_t keep)
{
	size_t held = set_size(held_of(l));

	return held > keep ? held - keep : 0;
}

static inline struct kedge__fold fold_of(const struct level *l, const struct level *l2, size_t keep)
{
	struct kedge__fold fold = {KEDGE__NO_VERSION, KEDGE__NO_VERSION, KEDGE__NO_VERSION};
	set_t good = restorable_of(l), held = held_of(l), pivots = l2 ? pivots_of(l, l2) : 0;
	struct floor f = floor_of(l, l->count);
	size_t newest, pivot;

	if (!good || set_size(held) <= keep + slack_of(keep) || (newest_n(held, keep) & BIT(f.on)))
		return fold;
	newest = newest_of(good);
	pivot = pivots ? newest_of(pivots) : newest;
	if (l->at[pivot].needs)
		fold.bottom = l->at[pivot].number;
	if (pivot == newest)
		return fold;
	fold.version = l->at[newest].number;
	fold.onto = l->at[pivot].number;
	return fold;
}

static inline void fold_apply(struct level *l, const struct kedge__fold *fold)
{
	size_t bottom = index_of(l, fold->bottom), version = index_of(l, fold->version), onto = index_of(l, fold->onto);

	if (bottom != SIZE_MAX) {
		l->at[bottom].needs = 0;
		l->at[bottom].merged = true;
		l->at[bottom].files = files_new();
	}
	if (version != SIZE_MAX) {
		l->at[version].needs = BIT(onto);
		l->at[version].merged = true;
		l->at[version].files = files_new();
	}
}

static inline bool fold_same(const struct kedge__fold *a, const struct kedge__fold *b)
{
	return a->bottom == b->bottom && a->version == b->version && a->onto == b->onto;
}

#endif
