/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_retention_long.c: long histories, in which every answer of retention is carried out on the model: versions are
 * taken, go to L2, are removed, rewritten and lost. How much a level holds at most, and thousands of versions at once.
 */
#include "../lib/draw.h"
#include "retention_model.h"

#include <string.h>

/* What a reducer makes of what it may refer to. */
enum habit {
	REFERS_TO_ALL,
	REFERS_TO_PARENT,
	REFERS_TO_OLDEST,
	REFERS_TO_ANY,      /* drawn */
	REFERS_TO_UNMERGED, /* to all but what was coalesced */
	HABITS
};

struct life {
	struct level l1, l2;
	struct kedge__holdings h1, h2;
	struct kedge__retention_rules rules;
	enum habit habit;
	uint64_t seed, next;
	uint64_t every; /* version that goes to L2; 0: none does */
	bool l2_coalesces;
	size_t l1_most, l2_most; /* held at most, before removal */
	size_t renewed;
};

static const struct kedge__l2_costs unmeasured = {-1, -1, -1, -1, -1, -1, 1, KEDGE__L2_SET, false};

/* ------------------------------------------------------------------ the model has room for few versions */

static set_t renumber(set_t s, const size_t *to, size_t count)
{
	set_t out = 0;

	for (size_t i = 0; i < count; i++)
		out |= (s & BIT(i)) && to[i] != SIZE_MAX ? BIT(to[i]) : 0;
	return out;
}

static void level_compact(struct level *l, const size_t *to, set_t gone)
{
	size_t n = 0;

	for (size_t i = 0; i < l->count; i++) {
		struct one v = l->at[i];

		v.orphan |= (v.needs & gone) != 0;
		v.needs = renumber(v.needs, to, l->count);
		if (to[i] != SIZE_MAX)
			l->at[n++] = v;
	}
	l->count = n;
}

/* What no level has any more leaves the model. */
static void life_compact(struct life *life)
{
	set_t held = held_of(&life->l1) | held_of(&life->l2);
	size_t to[MODEL_MOST], n = 0, count = life->l1.count;

	for (size_t i = 0; i < count; i++)
		to[i] = held & BIT(i) ? n++ : SIZE_MAX;
	level_compact(&life->l1, to, ~held);
	level_compact(&life->l2, to, ~held);
}

/* ------------------------------------------------------------------ one version */

static set_t refer(struct life *life, set_t allowed)
{
	set_t merged = 0;

	if (!allowed || draw_below(&life->seed, 40) == 0)
		return life->habit == REFERS_TO_ANY ? 0 : allowed;
	for (size_t i = 0; i < life->l2.count; i++)
		merged |= life->l2.at[i].merged || life->l1.at[i].merged ? BIT(i) : 0;
	switch (life->habit) {
	case REFERS_TO_PARENT:
		return BIT(newest_of(allowed));
	case REFERS_TO_OLDEST:
		return BIT(oldest_of(allowed));
	case REFERS_TO_ANY:
		return allowed & draw(&life->seed);
	case REFERS_TO_UNMERGED:
		return allowed & ~merged;
	default:
		return allowed;
	}
}

static struct kedge__reach take(struct life *life)
{
	struct level *l = &life->l1;
	struct kedge__reach reach;
	bool renewed;
	set_t wanted, got;

	life_compact(life);
	assert_true(l->count < MODEL_MOST);
	holdings_load(&life->h1, l, l->count);
	wanted = reach_of(l, l->count, &life->rules, &renewed);
	reach = kedge__retention_reach(&life->h1, &life->rules, life->next);
	got = granted(&reach, &life->h1, l, l->count);
	assert_int_equal(got, wanted);
	assert_int_equal(reach.renewed, renewed);
	life->renewed += renewed;
	l->at[l->count] = (struct one){
	    .number = life->next,
	    .needs = refer(life, got),
	    .image = 500 + life->next,
	    .files = 700 + life->next,
	    .run = 9,
	    .held = true,
	};
	life->l2.at[l->count] = (struct one){.number = life->next};
	life->l2.count = ++l->count;
	life->next += 2 + 2 * draw_below(&life->seed, 3); /* the number before it was never one */
	assert_true(restorable_of(l) & BIT(l->count - 1));
	return reach;
}

static void send(struct life *life, const struct kedge__reach *reach)
{
	struct level *l1 = &life->l1, *l2 = &life->l2;
	bool renewed, never = life->rules.coalesce == KEDGE__COALESCE_NEVER;
	size_t v = l1->count - 1, keep = life->rules.l2_keep;
	struct l2_wanted w = l2_wanted_of(l1, l2, reach_of(l1, v, &life->rules, &renewed), v, &life->rules);
	struct kedge__l2_answer a;

	holdings_load(&life->h1, l1, l1->count);
	holdings_load(&life->h2, l2, l2->count);
	assert_int_equal(
	    kedge__retention_l2(&life->h1, &life->h2, &life->rules, reach, &unmeasured, l1->at[v].number, &a, NULL), 0);
	if (w.parent_found && keep && a.chain.deltas >= keep + slack_of(keep))
		w.form = l1->at[v].needs ? KEDGE__L2_SELF_CONTAINED : KEDGE__L2_COPY;
	assert_int_equal(a.form, w.form);
	assert_int_equal(a.parent, w.parent_found ? l1->at[w.parent].number : KEDGE__NO_VERSION);
	l2_apply(l1, l2, v, &a, never);
	assert_true(restorable_of(l2) & BIT(v));
}

/* The newest KEEP can still be restored. */
static void trim(struct life *life, struct level *l, const struct level *l2, size_t keep, bool coalesces)
{
	set_t newest = newest_n(restorable_of(l), keep);
	struct kedge__fold fold, wanted;

	if (!keep)
		return;
	model_gc(l, keep);
	assert_int_equal(restorable_of(l) & newest, newest);
	if (!coalesces)
		return;
	holdings_load(&life->h1, l, l->count);
	if (l2)
		holdings_load(&life->h2, l2, l2->count);
	fold = kedge__retention_fold(&life->h1, l2 ? &life->h2 : NULL, keep, spare_of(l, keep), false);
	wanted = fold_of(l, l2, keep);
	assert_true(fold_same(&fold, &wanted));
	fold_apply(l, &fold);
	assert_int_equal(restorable_of(l) & newest, newest);
}

static void step(struct life *life, uint64_t i)
{
	struct kedge__reach reach = take(life);
	bool deltas = life->every && life->rules.coalesce != KEDGE__COALESCE_NEVER;

	if (life->every && i % life->every == 0)
		send(life, &reach);
	life->l1_most = KEDGE__MAX(life->l1_most, set_size(held_of(&life->l1)));
	life->l2_most = KEDGE__MAX(life->l2_most, set_size(held_of(&life->l2)));
	trim(life, &life->l1, deltas ? &life->l2 : NULL, life->rules.keep, life->rules.l1_coalesces);
	trim(life, &life->l2, NULL, life->rules.l2_keep, life->l2_coalesces);
}

static void life_done(struct life *life)
{
	kedge__holdings_done(&life->h1);
	kedge__holdings_done(&life->h2);
}

/* ------------------------------------------------------------------ how much is held at most */

/*
 * A level is rewritten when it holds keep + slack + 1 versions. The versions before that go together when KEEP versions
 * were taken since, the rewritten one among them; or, with keep = 1, with the next one.
 */
static size_t bound_coalescing(size_t keep)
{
	return keep + slack_of(keep) + 1 + (keep > 1 ? keep - 1 : 1);
}

/* A version that refers to none is taken when 2 * keep + slack + 1 can be referred to; they go with its KEEP - 1st
 * follower. */
static size_t bound_renewing(size_t keep)
{
	return 2 * keep + slack_of(keep) + 1 + keep;
}

static void test_bound(void **state)
{
	(void)state;
	for (int habit = 0; habit < HABITS; habit++) {
		for (size_t keep = 1; keep <= 12; keep++) {
			for (int coalesces = 0; coalesces < 2; coalesces++) {
				struct life life = {.rules = {.keep = keep, .l1_coalesces = coalesces},
						    .habit = (enum habit)habit,
						    .seed = keep,
						    .next = 3};
				size_t bound = coalesces ? bound_coalescing(keep) : bound_renewing(keep);

				for (uint64_t i = 0; i < 400; i++)
					step(&life, i);
				assert_true(life.l1_most <= bound);
				if (habit == REFERS_TO_ALL || habit == REFERS_TO_PARENT) {
					assert_int_equal(life.l1_most, bound);
					assert_int_equal(life.renewed > 0, !coalesces);
				}
				life_done(&life);
			}
		}
	}
}

/* L2 as L1; if nobody coalesces there, a version goes self-contained after keep + slack deltas. */
static size_t bound_l2(size_t keep, bool coalesces)
{
	return coalesces ? bound_coalescing(keep) : 2 * keep + slack_of(keep) + 1;
}

/*
 * KEEP 0: L1 keeps all, as long as the model has room. Where the newest version on L2 left L1 already, or copies refer
 * to few of those before them, the next one on L2 is not a delta to its predecessor, and the KEEP newest have more than
 * one chain: what is checked then is what was met, not derived.
 */
static void two_levels(enum habit habit, size_t keep, uint64_t seed)
{
	bool ordered = habit != REFERS_TO_OLDEST && habit != REFERS_TO_ANY;
	struct life life = {
	    .rules = {.keep = keep, .l2_keep = 1 + seed % 4, .l1_coalesces = true, .coalesce = KEDGE__COALESCE_BATCH},
	    .habit = habit,
	    .seed = seed,
	    .next = 3,
	    .every = 1 + seed / 4 % 6,
	    .l2_coalesces = seed & 1,
	};

	for (uint64_t i = 0; i < (keep ? 300 : MODEL_MOST); i++)
		step(&life, i);
	assert_true(!keep || life.l1_most <= bound_coalescing(keep));
	assert_true(life.l2_most <=
		    bound_l2(life.rules.l2_keep, life.l2_coalesces) + (ordered ? 0 : life.rules.l2_keep));
	life_done(&life);
}

static void test_bound_l2(void **state)
{
	(void)state;
	for (int habit = 0; habit < HABITS; habit++) {
		for (size_t keep = 0; keep <= 5; keep++) {
			for (uint64_t seed = 0; seed < 48; seed++)
				two_levels((enum habit)habit, keep, seed);
		}
	}
}

/* ------------------------------------------------------------------ losses */

/* One version of one level is lost, now and then all of a level, or the job goes back to an older version. */
static void lose(struct life *life)
{
	struct level *l = draw_below(&life->seed, 2) ? &life->l1 : &life->l2;
	uint64_t what = draw_below(&life->seed, 12);
	size_t which = draw_below(&life->seed, l->count);

	for (size_t i = 0; i < l->count; i++) {
		if (what == 0 || i == which)
			l->at[i].held = false;
		if (what == 1 && i > which)
			life->l1.at[i].held = life->l2.at[i].held = false;
	}
}

static void test_losses(void **state)
{
	static const enum kedge__coalesce_mode modes[] = {KEDGE__COALESCE_BATCH, KEDGE__COALESCE_NEVER};

	(void)state;
	for (uint64_t seed = 0; seed < 600; seed++) {
		struct life life = {
		    .rules = {.keep = 1 + seed % 5,
			      .l2_keep = 1 + seed / 2 % 4,
			      .l1_coalesces = seed / 3 % 3 != 0,
			      .coalesce = modes[seed / 5 % 2]},
		    .habit = (enum habit)(seed % HABITS),
		    .seed = seed,
		    .next = 3,
		    .every = 1 + seed / 7 % 4,
		    .l2_coalesces = seed / 11 % 2,
		};

		for (uint64_t i = 0; i < 200; i++) {
			step(&life, i);
			if (draw_below(&life.seed, 9) == 0)
				lose(&life);
		}
		life_done(&life);
	}
}

/* ------------------------------------------------------------------ thousands of versions */

static void many_add(struct kedge__holdings *h, uint64_t version, bool self_contained)
{
	const uint64_t parent = version - 1;

	assert_true(kedge__holdings_add(h, (struct kedge__holding){.version = version, .image = version}, &parent,
					!self_contained));
}

/* A message has a bit for each version that can be referred to; how far back they go changes seldom. */
static void test_window(void **state)
{
	(void)state;
	for (size_t keep = 0; keep <= 3000; keep += 1500) {
		const struct kedge__retention_rules rules = {.keep = keep, .l1_coalesces = true};
		struct kedge__holdings h = {0};
		uint64_t from = 1;
		size_t moved = 0;

		for (uint64_t version = 1; version <= 9000; version++) {
			struct kedge__reach reach;
			size_t count;

			many_add(&h, version, version == 1);
			reach = kedge__retention_reach(&h, &rules, version + 1);
			count = version + 1 - reach.from + (reach.anchor < reach.from);
			assert_int_equal(reach.anchor, keep ? 1 : KEDGE__NO_VERSION);
			assert_true(reach.from >= from && reach.from <= version && !reach.renewed);
			assert_true(count <= KEDGE__MSG_SOURCES);
			assert_true(count > KEDGE__MSG_SOURCES - 1024 - 1 || reach.from == 1);
			moved += reach.from > from;
			from = reach.from;
		}
		assert_int_equal(moved, (9000 - 4095 + 1023) / 1024);
		kedge__holdings_done(&h);
	}
}

/* Also where there are more versions than bits, one that refers to none comes in time. */
static void test_window_renewal(void **state)
{
	static const size_t keeps[] = {1, 2, 1600, 1638, 1639, 1700, 2500};

	(void)state;
	for (size_t i = 0; i < KEDGE__COUNT(keeps); i++) {
		const struct kedge__retention_rules rules = {.keep = keeps[i]};
		size_t wanted = 2 * keeps[i] + slack_of(keeps[i]) + 1;
		struct kedge__holdings h = {0};

		for (uint64_t version = 1; version <= wanted + 3; version++) {
			struct kedge__reach reach = kedge__retention_reach(&h, &rules, version);

			assert_int_equal(reach.renewed, version == wanted + 1);
			many_add(&h, version, version == 1 || reach.renewed);
		}
		kedge__holdings_done(&h);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_bound),  cmocka_unit_test(test_bound_l2),       cmocka_unit_test(test_losses),
	    cmocka_unit_test(test_window), cmocka_unit_test(test_window_renewal),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
