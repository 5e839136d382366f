/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * keep: with list and tree, new versions refer to the first occurrence of their data, however old, so removing only
 * unneeded versions would remove nothing. So the newest version is periodically made self-contained, and from then on
 * new versions refer to nothing below it. A version kept for others is removed with the last version that needs it: a
 * level holds no more than about twice KEEP versions plus the slack. Those beyond KEEP are only there for their bytes:
 * the newest manifest says what is kept (`keep`), and whoever lists versions leaves the others out.
 *
 * If L2 gets deltas, L1 must be able to say what has changed since the newest version there, the pivot. So the pivot
 * becomes self-contained, and the newest version a delta to it; versions between the two are removed.
 */
#include "job/retention.h"

#include <inttypes.h>
#include <stdio.h>

#define REACH_STEP                                                                                                     \
	1024 /* what may be referred to shrinks by so many at once: each time costs a walk over the record             \
	      */

size_t kedge__retention_slack(size_t keep)
{
	return KEDGE__MAX(keep / 2, 4);
}

static bool is_self_contained(const struct kedge__holding *v)
{
	return v->usable && !v->need_count;
}

/* ------------------------------------------------------------------ what a new version may refer to */

struct bottom {
	const struct kedge__holding *self; /* the newest that is self-contained; NULL: none is */
	const struct kedge__holding *on;   /* the newest that was coalesced to a delta to it, or itself */
};

static struct bottom bottom_find(const struct kedge__holdings *h, size_t count)
{
	struct bottom b = {NULL, NULL};
	size_t i = count;

	while (i && !is_self_contained(&h->list.at[i - 1]))
		i--;
	if (!i)
		return b;
	b.self = b.on = &h->list.at[i - 1];
	for (size_t above = count; above > i && b.on == b.self; above--) {
		const struct kedge__holding *v = &h->list.at[above - 1];

		if (v->usable && v->merged && v->need_count == 1 && kedge__holding_needs(h, v)[0] == b.self->version)
			b.on = v;
	}
	return b;
}

/* Holdings below VERSION. */
static size_t count_below(const struct kedge__holdings *h, uint64_t version)
{
	size_t n = h->list.count;

	while (n && h->list.at[n - 1].version >= version)
		n--;
	return n;
}

/* A message names what is referred to by bits, and there are so many of them. */
static uint64_t window_from(const struct kedge__holdings *h, size_t count)
{
	size_t most = KEDGE__MSG_SOURCES - 1, over; /* the anchor needs one */

	if (!count)
		return KEDGE__NO_VERSION;
	if (count <= most)
		return h->list.at[0].version;
	over = (count - most + REACH_STEP - 1) / REACH_STEP * REACH_STEP;
	return h->list.at[KEDGE__MIN(over, count - 1)].version;
}

/* Usable versions from the bottom on, whether there is a bit for each or not. */
static size_t usable_count(const struct kedge__holdings *h, size_t count, const struct bottom *b)
{
	size_t n = 0;

	for (size_t i = count; i && h->list.at[i - 1].version >= b->on->version; i--)
		n += h->list.at[i - 1].usable;
	return n + (b->on != b->self);
}

struct kedge__reach kedge__retention_reach(const struct kedge__holdings *l1, const struct kedge__retention_rules *rules,
					   uint64_t version)
{
	const struct kedge__reach none = {KEDGE__NO_VERSION, KEDGE__NO_VERSION, true};
	size_t count = count_below(l1, version);
	struct kedge__reach reach = {window_from(l1, count), KEDGE__NO_VERSION, false};
	struct bottom b;

	if (!rules->keep)
		return reach;
	b = bottom_find(l1, count);
	if (!b.self)
		return reach;
	/* Where no rank can coalesce for all, a version has to be taken as self-contained. */
	if (!rules->l1_coalesces && usable_count(l1, count, &b) > 2 * rules->keep + kedge__retention_slack(rules->keep))
		return none;
	reach.anchor = b.self->version;
	reach.from = KEDGE__MAX(reach.from, b.on->version);
	return reach;
}

/* ------------------------------------------------------------------ whether it goes to L2 */

bool kedge__retention_due(const struct kedge__l2_turn *turn, const struct kedge__retention_rules *rules, uint64_t every,
			  uint64_t created_ns)
{
	uint64_t interval = (uint64_t)KEDGE__MAX(rules->l2_interval, 0) * UINT64_C(1000000000);
	bool first = turn->bare && rules->l2_every == 0;

	if (rules->l2_interval < 0 || (turn->since + 1 < every && !first))
		return false;
	/* A clock that was set back says nothing about how long ago that was. */
	return !turn->last_ns || created_ns < turn->last_ns || created_ns - turn->last_ns >= interval;
}

/* ------------------------------------------------------------------ and how */

bool kedge__retention_on_l2(const struct kedge__holdings *l1, const struct kedge__holdings *l2, uint64_t version)
{
	const struct kedge__holding *a = kedge__holdings_find(l1, version), *b = kedge__holdings_find(l2, version);

	/* The same bytes of an abandoned run will be removed. */
	return a && b && a->image == b->image && a->run == b->run;
}

/* Also with all that it needs there. */
static bool can_be_restored_from_l2(const struct kedge__holdings *l1, const struct kedge__holdings *l2,
				    uint64_t version)
{
	return kedge__retention_on_l2(l1, l2, version) && kedge__holdings_find(l2, version)->usable;
}

bool kedge__retention_as_it_is(const struct kedge__holdings *l1, const struct kedge__holdings *l2, uint64_t version,
			       const uint64_t *needs, size_t need_count)
{
	if (kedge__holdings_find(l2, version))
		return false;
	for (size_t i = 0; i < need_count; i++) {
		if (!can_be_restored_from_l2(l1, l2, needs[i]) ||
		    kedge__holdings_find(l1, needs[i])->files != kedge__holdings_find(l2, needs[i])->files)
			return false;
	}
	return true;
}

/* What the question is about, with marks of what the version needs on L1 and its parent on L2. */
struct l2_case {
	const struct kedge__holdings *l1, *l2;
	const struct kedge__retention_rules *rules;
	const struct kedge__reach *reach;
	const struct kedge__holding *v;
	uint8_t *needed;  /* of L1 */
	uint8_t *chained; /* of L2 */
};

/*
 * What L2 has of all that the version needs is what L1 has, to the byte. If not, one of them was coalesced on one
 * level: a copy of the version could have blocks that were packed against others, which need still others there, and so
 * on from copy to copy.
 */
static bool forms_agree(const struct l2_case *c)
{
	for (size_t i = 0; i < c->l1->list.count; i++) {
		const struct kedge__holding *v = &c->l1->list.at[i];

		if (c->needed[i] && kedge__retention_on_l2(c->l1, c->l2, v->version) &&
		    kedge__holdings_find(c->l2, v->version)->files != v->files)
			return false;
	}
	return true;
}

/* With l2_keep new versions on L2 refer to nothing below its bottom either, or what is older could never go. */
static bool is_above_bottom(const struct l2_case *c)
{
	struct bottom b = bottom_find(c->l2, count_below(c->l2, c->v->version));

	for (size_t i = 0; i < c->l1->list.count && c->rules->l2_keep && b.self; i++) {
		uint64_t version = c->l1->list.at[i].version;

		if (c->needed[i] && version != b.self->version && version < b.on->version)
			return false;
	}
	return true;
}

/* L2 has all that the version refers to, with all that that needs there. */
static bool needs_are_on_l2(const struct l2_case *c)
{
	const uint64_t *needs = kedge__holding_needs(c->l1, c->v);

	for (size_t i = 0; i < c->v->need_count; i++) {
		if (!can_be_restored_from_l2(c->l1, c->l2, needs[i]))
			return false;
	}
	return true;
}

/* The newest version that both levels can give back. */
static uint64_t parent_find(const struct l2_case *c)
{
	for (size_t i = c->l2->list.count; i; i--) {
		const struct kedge__holding *there = &c->l2->list.at[i - 1];
		const struct kedge__holding *here = kedge__holdings_find(c->l1, there->version);

		if (there->version < c->v->version && here && here->usable &&
		    kedge__reach_has(c->reach, there->version) && can_be_restored_from_l2(c->l1, c->l2, there->version))
			return there->version;
	}
	return KEDGE__NO_VERSION;
}

static void chain_measure(const struct l2_case *c, uint64_t parent, struct kedge__l2_chain *chain)
{
	double deltas = 0;

	if (parent == KEDGE__NO_VERSION)
		return;
	(void)kedge__holdings_mark(c->l2, parent, c->chained);
	for (size_t i = 0; i < c->l2->list.count; i++) {
		const struct kedge__holding *v = &c->l2->list.at[i];

		if (!c->chained[i])
			continue;
		if (v->need_count) {
			chain->deltas++;
			deltas += (double)v->bytes;
		} else {
			chain->full_bytes = (double)v->bytes;
		}
	}
	if (chain->deltas)
		chain->delta_bytes = deltas / (double)chain->deltas;
}

/* What L1 has for the version since the parent, or all if there is none. */
static void batch_measure(const struct l2_case *c, struct kedge__l2_answer *a)
{
	for (size_t i = 0; i < c->l1->list.count; i++) {
		const struct kedge__holding *v = &c->l1->list.at[i];

		if (!c->needed[i] || (a->parent != KEDGE__NO_VERSION && v->version <= a->parent))
			continue;
		a->batch++;
		a->chain.batch_bytes += (double)v->bytes;
	}
}

static bool decide_self_contained(const struct l2_case *c, const struct kedge__l2_costs *costs,
				  const struct kedge__l2_answer *a, char why[KEDGE__POLICY_TEXT])
{
	size_t keep = c->rules->l2_keep;

	if (a->parent == KEDGE__NO_VERSION) {
		snprintf(why, KEDGE__POLICY_TEXT, "self-contained: L2 has nothing that it could refer to");
		return true;
	}
	/* More versions than l2_keep asks for wait for one that is self-contained, so that they can go. */
	if (keep && a->chain.deltas >= keep + kedge__retention_slack(keep)) {
		snprintf(why, KEDGE__POLICY_TEXT, "self-contained: n = %" PRIu64 " deltas, with l2_keep = %zu",
			 a->chain.deltas, keep);
		return true;
	}
	if (c->rules->coalesce == KEDGE__COALESCE_AUTO)
		return kedge__coalescing_due(costs, &a->chain, why);
	snprintf(why, KEDGE__POLICY_TEXT, "a delta: %s",
		 c->rules->coalesce == KEDGE__COALESCE_BATCH
		     ? "coalesce = batch"
		     : "what it needs has another form on L2, or is to go there");
	return false;
}

static const char *frequency(const struct kedge__l2_costs *costs)
{
	static const char *const by[] = {
	    [KEDGE__L2_SET] = "as configured",
	    [KEDGE__L2_PRESET] = "preset",
	    [KEDGE__L2_TABLE] = "by Table 1 of REX",
	    [KEDGE__L2_MODEL] = "by measured costs",
	};

	return costs->by < KEDGE__COUNT(by) ? by[costs->by] : "";
}

static void why_write(struct kedge__l2_answer *a, const struct kedge__l2_costs *costs, const char *reason)
{
	char what[120] = "all of it";

	if (a->form == KEDGE__L2_DELTA)
		snprintf(what, sizeof(what), "%zu version%s as a delta to %" PRIu64, a->batch, a->batch == 1 ? "" : "s",
			 a->parent);
	else if (a->form == KEDGE__L2_COPY)
		snprintf(what, sizeof(what), "as on L1");
	snprintf(a->why, sizeof(a->why), "every %" PRIu64 " (%s), %s; %s", costs->every, frequency(costs), what,
		 reason);
}

static void decide(const struct l2_case *c, const struct kedge__l2_costs *costs, struct kedge__l2_answer *a)
{
	bool there = kedge__retention_on_l2(c->l1, c->l2, c->v->version);
	bool as_it_is = forms_agree(c) && is_above_bottom(c);
	char reason[KEDGE__POLICY_TEXT];

	if (can_be_restored_from_l2(c->l1, c->l2, c->v->version) ||
	    (as_it_is && c->rules->coalesce == KEDGE__COALESCE_NEVER))
		return;
	a->parent = parent_find(c);
	chain_measure(c, a->parent, &a->chain);
	batch_measure(c, a);
	if (decide_self_contained(c, costs, a, reason))
		/* What L2 has and cannot give back is not copied once more. */
		a->form = c->v->need_count || there ? KEDGE__L2_SELF_CONTAINED : KEDGE__L2_COPY;
	else
		a->form = a->batch > 1 || !as_it_is || !needs_are_on_l2(c) ? KEDGE__L2_DELTA : KEDGE__L2_COPY;
	why_write(a, costs, reason);
}

int kedge__retention_l2(const struct kedge__holdings *l1, const struct kedge__holdings *l2,
			const struct kedge__retention_rules *rules, const struct kedge__reach *reach,
			const struct kedge__l2_costs *costs, uint64_t version, struct kedge__l2_answer *out,
			struct kedge__error *err)
{
	struct l2_case c = {l1, l2, rules, reach, kedge__holdings_find(l1, version), NULL, NULL};
	int rc = 0;

	*out = (struct kedge__l2_answer){.form = KEDGE__L2_COPY, .parent = KEDGE__NO_VERSION};
	c.needed = kedge__calloc(l1->list.count + 1, 1);
	c.chained = kedge__calloc(l2->list.count + 1, 1);
	if (!c.needed || !c.chained)
		rc = kedge__error_nomem(err);
	else if (!c.v || !kedge__holdings_mark(l1, version, c.needed))
		rc = kedge__error_set(err, KEDGE_E_MISSING, 0,
				      "version %" PRIu64 " cannot go to L2: L1 has lost it, or a version that it needs",
				      version);
	else
		decide(&c, costs, out);
	kedge__free(c.needed);
	kedge__free(c.chained);
	return rc;
}

/* ------------------------------------------------------------------ what is rewritten */

/* The newest version that both levels can give back, from the bottom on: new versions do not refer below that. */
static const struct kedge__holding *pivot_find(const struct kedge__holdings *level, const struct kedge__holdings *l2,
					       const struct bottom *b)
{
	for (size_t i = l2 && b->self ? level->list.count : 0; i; i--) {
		const struct kedge__holding *v = &level->list.at[i - 1];

		if (v->version < b->self->version)
			return NULL;
		if (v->usable && can_be_restored_from_l2(level, l2, v->version))
			return v;
	}
	return NULL;
}

struct kedge__fold kedge__retention_fold(const struct kedge__holdings *level, const struct kedge__holdings *l2,
					 size_t keep, size_t spare, bool now)
{
	struct kedge__fold fold = {KEDGE__NO_VERSION, KEDGE__NO_VERSION, KEDGE__NO_VERSION};
	size_t recent = KEDGE__MIN(keep, level->list.count);
	struct bottom b = bottom_find(level, level->list.count);
	const struct kedge__holding *newest = kedge__holdings_newest(level), *pivot = pivot_find(level, l2, &b);

	if (!newest || (!now && spare <= kedge__retention_slack(keep)))
		return fold;
	/* Newer versions will not refer below what was coalesced not long ago: it only takes time. */
	if (!now && b.self && b.on->version >= level->list.at[level->list.count - recent].version)
		return fold;
	if (!pivot || pivot == newest) {
		fold.bottom = newest->need_count ? newest->version : KEDGE__NO_VERSION;
		return fold;
	}
	if (pivot->need_count)
		fold.bottom = pivot->version;
	fold.version = newest->version;
	fold.onto = pivot->version;
	return fold;
}
