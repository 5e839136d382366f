/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_retention.c: every history of up to six versions on two levels, with losses and damage, against
 * retention_model.h.
 *
 * A history is a word: version by version one letter for L1 and one for L2. The words are tried in the order of their
 * length, so the first that fails is a smallest one; it is printed. Every STRIDE-th word is tried, with another first
 * word in each enumeration: with -DSTRIDE=1 all of them, for half a minute. What goes wrong in fewer than one word in
 * seven of some enumeration may be missed; under a sanitizer, which makes this slower by a factor of about twenty, one
 * in 101.
 */
#include "retention_model.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Primes, so that no letter is always left out. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define STRIDE 101
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define STRIDE 101
#endif
#endif
#ifndef STRIDE
#define STRIDE 7
#endif

#define OLDEST_NUMBER 5
#define NUMBER_STEP   3 /* numbers are not places */
#define MOST          6

struct world {
	struct level l1, l2;
	struct kedge__holdings h1, h2;
	uint64_t words;        /* spelt so far */
	uint64_t tried, asked; /* histories, and questions about them */
};

static struct world world;

/* ------------------------------------------------------------------ what failed */

static void level_print(const char *name, const struct level *l, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const struct one *v = &l->at[i];

		if (!v->held)
			continue;
		print_error("  %s: version %" PRIu64 "%s, image %" PRIu64 ", files %" PRIu64 ", run %" PRIu64 ", needs",
			    name, v->number, v->merged ? " (merged)" : "", v->image, v->files, v->run);
		for (size_t k = 0; k < count; k++) {
			if (v->needs & BIT(k))
				print_error(" %" PRIu64, l->at[k].number);
		}
		print_error("%s\n", v->orphan ? " and one that is lost" : "");
	}
}

#define CHECK(what, ...)                                                                                               \
	do {                                                                                                           \
		if (!(what)) {                                                                                         \
			print_error("does not hold: %s\n  ", #what);                                                   \
			print_error(__VA_ARGS__);                                                                      \
			print_error("\n");                                                                             \
			level_print("L1", &world.l1, world.l1.count);                                                  \
			level_print("L2", &world.l2, world.l2.count);                                                  \
			fail();                                                                                        \
		}                                                                                                      \
	} while (0)

/* ------------------------------------------------------------------ words */

static void world_reset(size_t count)
{
	memset(&world.l1, 0, sizeof(world.l1));
	memset(&world.l2, 0, sizeof(world.l2));
	world.l1.count = world.l2.count = count;
	for (size_t i = 0; i < count; i++)
		world.l1.at[i].number = world.l2.at[i].number = OLDEST_NUMBER + NUMBER_STEP * i;
}

static uint64_t number_after(const struct level *l)
{
	return l->at[l->count - 1].number + NUMBER_STEP;
}

static bool word_is_tried(void)
{
	return world.words++ % STRIDE == world.l1.count % STRIDE;
}

static int world_setup(void **state)
{
	(void)state;
	memset(&world, 0, sizeof(world));
	return 0;
}

static int world_done(void **state)
{
	(void)state;
	print_message("%" PRIu64 " words, one in %d of which was tried: %" PRIu64 " histories, %" PRIu64 " questions\n",
		      world.words, STRIDE, world.tried, world.asked);
	kedge__holdings_done(&world.h1);
	kedge__holdings_done(&world.h2);
	return world.tried >= world.words / STRIDE && world.tried ? 0 : -1;
}

/* ------------------------------------------------------------------ L1 alone, with any needs */

static void one_set(struct one *v, set_t needs, bool merged)
{
	*v = (struct one){
	    .number = v->number,
	    .needs = needs,
	    .image = 500 + v->number,
	    .files = 700 + v->number,
	    .run = 9,
	    .held = true,
	    .merged = merged,
	};
}

static void check_holdings(const struct level *l, const struct kedge__holdings *h)
{
	set_t good = restorable_of(l), held = held_of(l);
	const struct kedge__holding *newest = kedge__holdings_newest(h);

	CHECK(usable_in(h, l) == good, "usable");
	CHECK(h->list.count == set_size(held), "held");
	CHECK(good ? newest && newest->version == l->at[newest_of(good)].number : !newest, "newest");
	for (size_t i = 0; i < l->count; i++) {
		uint8_t marks[MOST + 1] = {0};
		bool found = kedge__holdings_mark(h, l->at[i].number, marks);
		set_t marked = 0;

		for (size_t k = 0; k < h->list.count; k++)
			marked |= marks[k] ? BIT(index_of(l, h->list.at[k].version)) : 0;
		CHECK(found == ((good >> i) & 1), "mark of %zu", i);
		CHECK(marked == (held & BIT(i) ? closure_of(l, i) & held : 0) || !found, "marks of %zu", i);
	}
}

/* Whatever it refers to of what was granted, it can be restored, and so can the newest KEEP after removal. */
static void check_safety(const struct level *l, set_t allowed, size_t keep)
{
	struct level after = *l;
	set_t good, newest;

	after.count++;
	after.at[l->count].number = number_after(l);
	one_set(&after.at[l->count], allowed, false);
	good = restorable_of(&after);
	CHECK(good & BIT(l->count), "a new version cannot be restored");
	model_gc(&after, keep);
	newest = keep ? newest_n(good, keep) : good;
	CHECK((restorable_of(&after) & newest) == newest, "removal took what is needed");
}

static void check_reach(const struct level *l, size_t keep, bool coalesces, size_t count)
{
	struct kedge__retention_rules rules = {.keep = keep, .l1_coalesces = coalesces};
	uint64_t number = count < l->count ? l->at[count].number : number_after(l);
	struct kedge__reach reach = kedge__retention_reach(&world.h1, &rules, number);
	bool renewed;
	set_t wanted = reach_of(l, count, &rules, &renewed), got = granted(&reach, &world.h1, l, count);

	world.asked++;
	CHECK(got == wanted, "reach of version %" PRIu64 ", keep %zu: %#" PRIx64 ", not %#" PRIx64, number, keep, got,
	      wanted);
	CHECK(reach.renewed == renewed, "renewed");
	CHECK(reach.anchor == KEDGE__NO_VERSION || (kedge__holdings_find(&world.h1, reach.anchor) && keep), "anchor");
	if (count == l->count)
		check_safety(l, got, keep);
}

/* After it was carried out, nothing is lost; what is asked again is nothing; and it takes KEEP versions until old ones
 * went. */
static void check_fold_effect(const struct level *l, const struct kedge__fold *fold, size_t keep)
{
	struct kedge__retention_rules rules = {.keep = keep, .l1_coalesces = true};
	struct level after = *l;
	set_t good = restorable_of(l);
	bool renewed;
	size_t newest = good ? newest_of(good) : 0;

	fold_apply(&after, fold);
	CHECK((restorable_of(&after) & good) == good, "coalescing lost a version");
	if (fold->bottom == KEDGE__NO_VERSION && fold->version == KEDGE__NO_VERSION)
		return;
	for (size_t n = 0; n <= keep; n++) {
		set_t allowed = reach_of(&after, after.count, &rules, &renewed);

		after.at[after.count].number = number_after(&after);
		one_set(&after.at[after.count++], allowed, false);
		model_gc(&after, keep);
	}
	/* The version onto which it was coalesced, the version itself, and those that came since. */
	CHECK(set_size(held_of(&after) & below(newest)) <= 1 && set_size(held_of(&after)) <= keep + 3,
	      "old versions stay: %#" PRIx64, held_of(&after));
}

static void check_fold(const struct level *l, const struct level *l2, const struct kedge__holdings *h2, size_t keep,
		       bool effect)
{
	struct kedge__fold got = kedge__retention_fold(&world.h1, h2, keep, spare_of(l, keep), false),
			   wanted = fold_of(l, l2, keep);

	world.asked++;
	if (effect)
		check_fold_effect(l, &got, keep);
	CHECK(fold_same(&got, &wanted),
	      "fold, keep %zu: bottom %" PRId64 ", %" PRId64 " onto %" PRId64 "; not %" PRId64 ", %" PRId64
	      " onto %" PRId64,
	      keep, (int64_t)got.bottom, (int64_t)got.version, (int64_t)got.onto, (int64_t)wanted.bottom,
	      (int64_t)wanted.version, (int64_t)wanted.onto);
}

static void ask_l1(void)
{
	const struct level *l = &world.l1;

	world.tried++;
	holdings_load(&world.h1, l, l->count);
	check_holdings(l, &world.h1);
	for (size_t keep = 0; keep <= 3; keep++) {
		check_reach(l, keep, true, l->count);
		check_reach(l, keep, true, l->count - 1);
		check_reach(l, keep, false, l->count);
	}
	check_fold(l, NULL, NULL, 1, true);
}

/* Version I is not held, or needs any set of older ones; if they are few, it may have been coalesced onto them. */
static void any_needs(size_t i, bool absent, void (*ask)(void))
{
	struct one *v = &world.l1.at[i];

	if (i == world.l1.count) {
		if (word_is_tried())
			ask();
		return;
	}
	v->held = false;
	if (absent)
		any_needs(i + 1, absent, ask);
	for (set_t needs = 0; needs < BIT(i); needs++) {
		one_set(v, needs, false);
		any_needs(i + 1, absent, ask);
		if (set_size(needs) != 1 && (set_size(needs) != 2 || !absent))
			continue;
		v->merged = true;
		any_needs(i + 1, absent, ask);
	}
	v->held = false;
	v->needs = 0;
}

static void test_any_needs(void **state)
{
	uint64_t all = 0, words = 1;

	(void)state;
	for (size_t count = 1, older = 0; count <= MOST; count++, older++) {
		world_reset(count);
		any_needs(0, true, ask_l1);
		words *= 1 + BIT(older) + older + older * (older - 1) / 2;
		all += words;
	}
	assert_int_equal(world.words, all);
}

/* ------------------------------------------------------------------ what is rewritten, where L2 gets deltas */

#define L2_STATES (2 * (1 << MOST))

static struct level l2_states[L2_STATES];
static struct kedge__holdings l2_held[L2_STATES];

/* Any set of versions is on L2; or so, and the newest of them cannot be restored from there. */
static void l2_states_make(void)
{
	for (size_t s = 0; s < L2_STATES; s++) {
		struct level *l = &l2_states[s];

		*l = world.l1;
		for (size_t i = 0; i < l->count; i++) {
			one_set(&l->at[i], 0, false);
			l->at[i].held = (s >> 1) & BIT(i);
			l->at[i].orphan = (s & 1) && (s >> 1) >> i == 1;
		}
		holdings_load(&l2_held[s], l, l->count);
	}
}

static void ask_fold(void)
{
	const struct level *l = &world.l1;

	holdings_load(&world.h1, l, l->count);
	for (size_t s = 0; s < L2_STATES; s++) {
		if (s == 1)
			continue;
		world.tried++;
		world.l2 = l2_states[s];
		check_fold(l, &l2_states[s], &l2_held[s], 1, set_size(s >> 1) <= 1);
	}
}

static void test_fold(void **state)
{
	(void)state;
	world_reset(MOST);
	l2_states_make();
	any_needs(0, false, ask_fold);
	for (size_t s = 0; s < L2_STATES; s++)
		kedge__holdings_done(&l2_held[s]);
}

/* ------------------------------------------------------------------ two levels */

static const struct kedge__l2_costs unmeasured = {-1, -1, -1, -1, -1, -1, 1, KEDGE__L2_SET, false};
/* A version costs nothing to write, and deltas take long to read. */
static const struct kedge__l2_costs for_self_contained = {0, 0, 1, 1e-3, 1, 1, 1, KEDGE__L2_SET, true};

static void check_chain(const struct level *l2, const struct kedge__l2_answer *a)
{
	set_t chain = a->parent == KEDGE__NO_VERSION ? 0 : closure_of(l2, index_of(l2, a->parent));
	size_t deltas = 0, bytes = 0, full = 0;

	for (size_t i = 0; i < l2->count; i++) {
		bool in = chain & BIT(i), delta = l2->at[i].needs;

		deltas += in && delta;
		bytes += in && delta ? 100 + i : 0;
		full = in && !delta ? 100 + i : full;
	}
	CHECK(a->chain.deltas == deltas, "%" PRIu64 " deltas, not %zu", a->chain.deltas, deltas);
	CHECK(a->chain.full_bytes == (double)full, "bytes of a self-contained version");
	CHECK(a->chain.delta_bytes == (deltas ? (double)bytes / (double)deltas : 0), "bytes of deltas");
}

static void check_batch(const struct level *l1, size_t v, const struct kedge__l2_answer *a)
{
	set_t batch = closure_of(l1, v);
	double bytes = 0;

	if (a->parent != KEDGE__NO_VERSION)
		batch &= ~below(index_of(l1, a->parent) + 1);
	for (size_t i = 0; i < l1->count; i++)
		bytes += batch & BIT(i) ? 100 + (double)i : 0;
	CHECK(a->batch == set_size(batch) && a->chain.batch_bytes == bytes, "batch of %zu", a->batch);
}

/* What came to L2 refers to the images that it refers to on L1, and nothing there refers to an image that was replaced.
 */
static bool images_fit(const struct level *l1, const struct level *before, const struct level *after)
{
	set_t same = same_of(l1, after), replaced = held_of(before) & same & ~same_of(l1, before);

	for (size_t i = 0; i < after->count; i++) {
		const struct one *v = &after->at[i];
		bool came = v->held && memcmp(v, &before->at[i], sizeof(*v)) != 0;

		if (v->needs & (came ? ~same : replaced) & (v->held ? ~(set_t)0 : 0))
			return false;
	}
	return true;
}

/* The answer is carried out: the version can be restored from L2, with the images that it has on L1, and nothing is
 * lost. */
static void check_effect(const struct level *l1, const struct level *l2, size_t v, const struct kedge__l2_answer *a,
			 bool never)
{
	struct level after = *l2;
	set_t good = restorable_of(l2), kept, replaced;

	l2_apply(l1, &after, v, a, never);
	kept = restorable_of(&after);
	replaced = same_of(l1, &after) & ~same_of(l1, l2); /* of another run, or another image */
	CHECK(kept & BIT(v), "cannot be restored from L2");
	CHECK(images_fit(l1, l2, &after), "refers to other images on L2 than on L1");
	CHECK(a->form != KEDGE__L2_COPY || (same_of(l1, l2) & good & BIT(v)) || same_files(l1, &after, v),
	      "a copy onto other files");
	CHECK(!(good & ~kept & ~replaced), "lost on L2: %#" PRIx64, good & ~kept);
}

struct mode {
	enum kedge__coalesce_mode coalesce;
	const struct kedge__l2_costs *costs;
	size_t keep, l2_keep;
};

static void check_l2(const struct level *l1, const struct level *l2, const struct mode *mode)
{
	struct kedge__retention_rules rules = {
	    .keep = mode->keep, .l2_keep = mode->l2_keep, .l1_coalesces = true, .coalesce = mode->coalesce};
	size_t v = l1->count - 1;
	struct kedge__reach reach = kedge__retention_reach(&world.h1, &rules, l1->at[v].number);
	bool renewed, never = mode->coalesce == KEDGE__COALESCE_NEVER;
	struct l2_wanted w = l2_wanted_of(l1, l2, reach_of(l1, v, &rules, &renewed), v, &rules);
	struct kedge__l2_answer a;
	int rc = kedge__retention_l2(&world.h1, &world.h2, &rules, &reach, mode->costs, l1->at[v].number, &a, NULL);

	world.asked++;
	if (!(restorable_of(l1) & BIT(v))) {
		CHECK(rc == KEDGE_E_MISSING, "goes to L2 without what it needs");
		return;
	}
	if (mode->costs == &for_self_contained && w.parent_found)
		w.form = l1->at[v].needs || (same_of(l1, l2) & BIT(v)) ? KEDGE__L2_SELF_CONTAINED : KEDGE__L2_COPY;
	CHECK(!rc, "no answer");
	CHECK(a.form == w.form, "form %d, not %d, coalesce %d", a.form, w.form, mode->coalesce);
	CHECK(a.parent == (w.parent_found ? l1->at[w.parent].number : KEDGE__NO_VERSION), "parent %" PRId64,
	      (int64_t)a.parent);
	check_effect(l1, l2, v, &a, never);
	if (w.batch) {
		check_chain(l2, &a);
		check_batch(l1, v, &a);
	}
}

/* ------------------------------------------------------------------ letters */

enum { ABSENT, NOTHING, PARENT, OLDEST, TWO, ONTO, ORPHAN, L1_LETTERS };
enum { NOT_THERE, COPY, SELF, DELTA, UNUSABLE, OTHER_IMAGE, OTHER_RUN, L2_LETTERS };

/* False: this letter is none, or another one's, after what came before. */
static bool l1_letter(struct level *l, size_t i, int letter)
{
	set_t good = restorable_of(l) & below(i);
	struct floor f = floor_of(l, i);
	struct one *v = &l->at[i];

	one_set(v, 0, letter == ONTO);
	if (((letter == PARENT || letter == ONTO) && !good) ||
	    ((letter == OLDEST || letter == TWO) && set_size(good) < 2)) {
		v->held = false;
		return false;
	}
	v->held = letter != ABSENT;
	v->orphan = letter == ORPHAN;
	if (letter == PARENT || letter == TWO)
		v->needs |= BIT(newest_of(good));
	if (letter == OLDEST || letter == TWO)
		v->needs |= BIT(oldest_of(good));
	if (letter == ONTO)
		v->needs = BIT(f.self);
	return true;
}

static bool l2_letter(const struct level *l1, struct level *l, size_t i, int letter)
{
	set_t good = restorable_of(l) & same_of(l1, l) & below(i);
	struct one *v = &l->at[i];

	v->held = false;
	if ((letter == DELTA && !good) || (letter == COPY && !l1->at[i].held) || (!l1->at[i].held && letter > DELTA))
		return false;
	if (letter == COPY) { /* as if it came there; what it needs may be lost since */
		*v = l1->at[i];
		v->held = !(v->needs & held_of(l) & ~same_of(l1, l));
		return v->held;
	}
	one_set(v, letter == DELTA ? BIT(newest_of(good)) : 0, true);
	v->held = letter != NOT_THERE;
	v->files += 1000;
	v->image += letter == OTHER_IMAGE;
	v->run += letter == OTHER_RUN;
	v->orphan = letter == UNUSABLE;
	return true;
}

struct alphabet {
	unsigned l1, l2;         /* bits: letters */
	unsigned top_l1, top_l2; /* of the version that is asked about */
	void (*ask)(void);
};

static void spell(const struct alphabet *a, size_t i)
{
	bool top = i + 1 == world.l1.count;
	unsigned first = top ? a->top_l1 : a->l1, second = top ? a->top_l2 : a->l2;

	if (i == world.l1.count) {
		if (word_is_tried())
			a->ask();
		return;
	}
	for (int one = 0; one < L1_LETTERS; one++) {
		if (!(first & BIT(one)) || !l1_letter(&world.l1, i, one))
			continue;
		for (int two = 0; two < L2_LETTERS; two++) {
			if ((second & BIT(two)) && l2_letter(&world.l1, &world.l2, i, two))
				spell(a, i + 1);
		}
		world.l2.at[i].held = false;
	}
	world.l1.at[i].held = false;
}

static void spell_all(const struct alphabet *a, size_t least, size_t most)
{
	for (size_t count = least; count <= most; count++) {
		world_reset(count);
		spell(a, 0);
	}
}

static const struct mode modes[] = {
    {KEDGE__COALESCE_NEVER, &unmeasured, 0, 0}, {KEDGE__COALESCE_BATCH, &unmeasured, 2, 1},
    {KEDGE__COALESCE_BATCH, &unmeasured, 0, 0}, {KEDGE__COALESCE_NEVER, &unmeasured, 2, 2},
    {KEDGE__COALESCE_AUTO, &unmeasured, 0, 3},  {KEDGE__COALESCE_AUTO, &for_self_contained, 2, 0},
};

static void ask_modes(const struct level *l1, const struct level *l2, size_t count)
{
	world.tried++;
	holdings_load(&world.h1, l1, l1->count);
	holdings_load(&world.h2, l2, l2->count);
	for (size_t m = 0; m < count; m++)
		check_l2(l1, l2, &modes[m]);
}

static void ask_all_modes(void)
{
	ask_modes(&world.l1, &world.l2, KEDGE__COUNT(modes));
}

static void ask_two_modes(void)
{
	ask_modes(&world.l1, &world.l2, 2);
}

/* All letters, up to four versions. */
static void test_two_levels_all_letters(void **state)
{
	const struct alphabet a = {~0u, ~0u, ~1u, ~0u, ask_all_modes};

	(void)state;
	spell_all(&a, 1, 4);
}

/* Six versions, each of which L1 has, or has not, in any form, and L2 in any form. */
static void test_two_levels(void **state)
{
	const struct alphabet a = {
	    BIT(ABSENT) | BIT(NOTHING) | BIT(PARENT) | BIT(OLDEST) | BIT(TWO) | BIT(ONTO),
	    BIT(NOT_THERE) | BIT(COPY) | BIT(SELF) | BIT(DELTA),
	    BIT(NOTHING) | BIT(PARENT) | BIT(OLDEST) | BIT(TWO),
	    BIT(NOT_THERE),
	    ask_two_modes,
	};

	(void)state;
	spell_all(&a, 1, MOST);
}

/* Up to one version is lost on each level after all were taken; the others needed it, or not. */
static void ask_losses(void)
{
	struct level l1 = world.l1, l2 = world.l2;
	size_t older = l1.count - 1;

	for (size_t a = 0; a <= older; a++) {
		for (size_t b = 0; b <= older; b++) {
			world.l1 = l1;
			world.l2 = l2;
			if ((a < older && !l1.at[a].held) || (b < older && !l2.at[b].held))
				continue;
			world.l1.at[a].held = a == older;
			world.l2.at[b].held = b < older ? false : l2.at[b].held;
			ask_two_modes();
		}
	}
	world.l1 = l1;
	world.l2 = l2;
}

static void test_losses(void **state)
{
	const struct alphabet a = {
	    BIT(NOTHING) | BIT(PARENT) | BIT(OLDEST) | BIT(TWO),
	    BIT(NOT_THERE) | BIT(COPY) | BIT(SELF) | BIT(DELTA),
	    BIT(PARENT) | BIT(OLDEST) | BIT(TWO),
	    BIT(NOT_THERE),
	    ask_losses,
	};

	(void)state;
	spell_all(&a, 2, MOST);
}

/* ------------------------------------------------------------------ whether it goes to L2 */

struct due_case {
	uint64_t l2_every, every;
	int64_t interval;
	bool there; /* L2 has something already */
};

/* Versions a second and a half apart; one goes when enough came, and enough time went by, since the last. */
static void due_play(const struct due_case *c)
{
	const struct kedge__retention_rules rules = {.l2_every = c->l2_every, .l2_interval = c->interval};
	struct kedge__l2_turn turn = {.bare = !c->there};
	int last = -1;

	for (int i = 0; i < 40; i++) {
		uint64_t now = UINT64_C(5000000000) + (uint64_t)i * 1500000000;
		bool enough = (uint64_t)(i - last) >= c->every || (last < 0 && !c->there && !c->l2_every);
		bool later = last < 0 || (i - last) * 3 >= 2 * c->interval;
		bool wanted = c->interval >= 0 && enough && later;

		world.asked++;
		assert_int_equal(kedge__retention_due(&turn, &rules, c->every, now), wanted);
		if (wanted)
			turn = (struct kedge__l2_turn){.last_ns = now};
		else
			turn.since++;
		last = wanted ? i : last;
	}
}

static void test_due(void **state)
{
	const struct kedge__l2_turn turn = {.since = 5, .last_ns = UINT64_C(9000000000)};

	(void)state;
	/* A clock that is set back by a second, or an hour, does not keep versions from L2 until it has caught up. */
	for (int64_t interval = 0; interval <= 3600; interval += 60) {
		const struct kedge__retention_rules rules = {.l2_every = 1, .l2_interval = interval};

		assert_true(kedge__retention_due(&turn, &rules, 1, UINT64_C(8000000000)));
		assert_int_equal(kedge__retention_due(&turn, &rules, 1, UINT64_C(9000000001)), interval == 0);
	}
	for (uint64_t every = 1; every <= 7; every++) {
		for (int64_t interval = -1; interval <= 12; interval++) {
			for (int bits = 0; bits < 4; bits++) {
				due_play(&(struct due_case){bits & 1 ? every : 0, every, interval, bits & 2});
				world.words++;
				world.tried++;
			}
		}
	}
}

static void test_slack(void **state)
{
	(void)state;
	for (size_t keep = 0; keep < 100; keep++)
		assert_int_equal(kedge__retention_slack(keep), slack_of(keep));
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(test_any_needs, world_setup, world_done),
	    cmocka_unit_test_setup_teardown(test_fold, world_setup, world_done),
	    cmocka_unit_test_setup_teardown(test_two_levels_all_letters, world_setup, world_done),
	    cmocka_unit_test_setup_teardown(test_two_levels, world_setup, world_done),
	    cmocka_unit_test_setup_teardown(test_losses, world_setup, world_done),
	    cmocka_unit_test_setup_teardown(test_due, world_setup, world_done),
	    cmocka_unit_test(test_slack),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
