/* SPDX-License-Identifier: BSD-3-Clause */
/* test_holdings.c: holdings against a model that searches everything each time. */
#include "fixture.h"
#include "store/holdings.h"

#include <string.h>

#define VERSIONS   24 /* numbers 0 .. VERSIONS - 1 */
#define NEEDS_MOST 6

struct held {
	bool held;
	uint64_t image, needs[NEEDS_MOST];
	size_t need_count;
};

struct model {
	struct held at[VERSIONS];
	uint64_t removals;
};

static bool is_usable(const struct model *m, uint64_t version)
{
	const struct held *v = &m->at[version];

	if (!v->held)
		return false;
	for (size_t i = 0; i < v->need_count; i++) {
		if (v->needs[i] >= version || !is_usable(m, v->needs[i]))
			return false;
	}
	return true;
}

/* What VERSION needs, and itself, as far as it is held. */
static void needed(const struct model *m, uint64_t version, bool *marks)
{
	const struct held *v = &m->at[version];

	if (!v->held)
		return;
	marks[version] = true;
	for (size_t i = 0; i < v->need_count; i++) {
		if (v->needs[i] < version)
			needed(m, v->needs[i], marks);
	}
}

static bool model_put(struct kedge__holdings *h, const struct model *m, uint64_t version)
{
	struct kedge__holding fresh = {.version = version,
				       .image = m->at[version].image,
				       .files = version * 7,
				       .bytes = version * 11,
				       .needs = 12345,
				       .need_count = 99,
				       .usable = true};

	return kedge__holdings_add(h, fresh, m->at[version].needs, m->at[version].need_count);
}

/* ------------------------------------------------------------------ the two agree */

static void compare_list(const struct kedge__holdings *h, const struct model *m)
{
	size_t n = 0, needs = 0;
	const struct kedge__holding *newest = NULL;

	for (uint64_t v = 0; v < VERSIONS; v++) {
		const struct kedge__holding *found = kedge__holdings_find(h, v);
		const struct held *wanted = &m->at[v];

		assert_int_equal(found != NULL, wanted->held);
		if (!found)
			continue;
		assert_ptr_equal(found, &h->list.at[n++]);
		assert_int_equal(found->version, v);
		assert_int_equal(found->image, wanted->image);
		assert_int_equal(found->files, v * 7);
		assert_int_equal(found->bytes, v * 11);
		assert_int_equal(found->usable, is_usable(m, v));
		assert_int_equal(found->need_count, wanted->need_count);
		if (wanted->need_count)
			assert_memory_equal(kedge__holding_needs(h, found), wanted->needs, wanted->need_count * 8);
		needs += wanted->need_count;
		newest = found->usable ? found : newest;
	}
	assert_int_equal(h->list.count, n);
	assert_int_equal(h->needs.count, needs); /* nothing stays of those that left */
	assert_ptr_equal(kedge__holdings_newest(h), newest);
	assert_int_equal(h->removals, m->removals);
}

static void compare_marks(const struct kedge__holdings *h, const struct model *m, uint64_t version)
{
	uint8_t marks[VERSIONS + 1] = {0};
	bool wanted[VERSIONS] = {false};

	needed(m, version, wanted);
	assert_int_equal(kedge__holdings_mark(h, version, marks), is_usable(m, version));
	for (size_t i = 0; i < h->list.count; i++)
		assert_int_equal(marks[i], wanted[h->list.at[i].version]);
}

/* The same in another order has the same digest; so has what of it is usable, and nothing else. */
static void compare_digest(const struct kedge__holdings *h, const struct model *m, uint64_t *seed)
{
	struct kedge__holdings other = {0}, usable = {0};
	uint64_t order[VERSIONS];

	for (uint64_t v = 0; v < VERSIONS; v++) {
		size_t at = draw_below(seed, v + 1);

		order[v] = order[at];
		order[at] = v;
	}
	for (size_t i = 0; i < VERSIONS; i++) {
		if (m->at[order[i]].held)
			assert_true(model_put(&other, m, order[i]));
		if (is_usable(m, order[i]))
			assert_true(model_put(&usable, m, order[i]));
	}
	assert_int_equal(other.digest, h->digest);
	assert_int_equal(usable.digest, h->digest);
	assert_int_equal(other.removals, 0);
	if (usable.list.count) {
		kedge__holdings_remove(&usable, usable.list.at[draw_below(seed, usable.list.count)].version);
		assert_int_not_equal(usable.digest, h->digest);
	} else {
		assert_int_equal(h->digest, 0);
	}
	kedge__holdings_done(&other);
	kedge__holdings_done(&usable);
}

/* ------------------------------------------------------------------ what is done to them */

/* Those that were usable in BEFORE and are not any more; one that is replaced was removed. */
static void count_removals(struct model *m, const struct model *before, uint64_t replaced)
{
	for (uint64_t v = 0; v < VERSIONS; v++)
		m->removals += is_usable(before, v) && (v == replaced || !is_usable(m, v));
}

static struct held draw_held(uint64_t *seed, uint64_t version)
{
	struct held v = {.held = true, .image = draw_below(seed, 3), .need_count = draw_below(seed, NEEDS_MOST + 1)};
	bool sound = draw_below(seed, 4) != 0;

	if (draw_below(seed, 3) == 0)
		v.need_count = 0;
	for (size_t i = 0; i < v.need_count; i++)
		v.needs[i] = draw_below(seed, sound ? version : VERSIONS);
	if (!version && sound)
		v.need_count = 0;
	return v;
}

static void do_add(struct kedge__holdings *h, struct model *m, uint64_t *seed)
{
	struct model before = *m;
	uint64_t version = draw_below(seed, VERSIONS);

	m->at[version] = draw_held(seed, version);
	if (!model_put(h, m, version))
		m->at[version].held = false;
	count_removals(m, &before, version);
}

static void do_remove(struct kedge__holdings *h, struct model *m, uint64_t *seed)
{
	struct model before = *m;
	uint64_t version = draw_below(seed, VERSIONS);

	kedge__holdings_remove(h, version);
	m->at[version].held = false;
	count_removals(m, &before, version);
}

static void do_clear(struct kedge__holdings *h, struct model *m)
{
	struct model before = *m;

	kedge__holdings_clear(h);
	memset(m->at, 0, sizeof(m->at));
	count_removals(m, &before, VERSIONS);
}

static void do_something(struct kedge__holdings *h, struct model *m, uint64_t *seed)
{
	uint64_t what = draw_below(seed, 60);

	if (what == 0)
		do_clear(h, m);
	else if (what < 20)
		do_remove(h, m, seed);
	else
		do_add(h, m, seed);
}

static void test_operations(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 40; seed++) {
		struct kedge__holdings h = {0};
		struct model m = {0};
		uint64_t numbers = seed;

		for (int i = 0; i < 400; i++) {
			do_something(&h, &m, &numbers);
			compare_list(&h, &m);
			compare_marks(&h, &m, draw_below(&numbers, VERSIONS));
			if (i % 8 == 0)
				compare_digest(&h, &m, &numbers);
		}
		kedge__holdings_done(&h);
		assert_int_equal(h.list.count + h.needs.count + h.digest, 0);
	}
}

/* Each allocation fails in turn: the version is not held, and what needs it is not usable; the rest is as it was. */
static void test_no_memory(void **state)
{
	uint64_t failed = 0, k, met = 1;

	(void)state;
	for (k = 1; met >= k; k++) {
		struct kedge__holdings h = {0};
		struct model m = {0};
		uint64_t numbers = 77, other = 5;
		char spec[32];

		snprintf(spec, sizeof(spec), "alloc@%llu", (unsigned long long)k);
		assert_int_equal(kedge__fault_set(spec, NULL), 0);
		for (int i = 0; i < 200; i++) {
			uint64_t version = numbers, before = kedge__fault_alloc_count();

			version = draw_below(&version, VERSIONS);
			do_add(&h, &m, &numbers);
			compare_list(&h, &m);
			if (before < k && kedge__fault_alloc_count() >= k) {
				failed++;
				assert_null(kedge__holdings_find(&h, version));
			}
		}
		met = kedge__fault_alloc_count();
		kedge__fault_set(NULL, NULL);
		compare_digest(&h, &m, &other);
		kedge__holdings_done(&h);
	}
	assert_true(failed == k - 2 && failed >= 4);
}

/* ------------------------------------------------------------------ from a catalogue */

static void read_without_memory(const struct kedge__catalog *cat)
{
	int rc = KEDGE_E_NOMEM;

	for (uint64_t k = 1; rc; k++) {
		struct kedge__holdings h = {0};
		char spec[32];

		snprintf(spec, sizeof(spec), "alloc@%llu", (unsigned long long)k);
		assert_int_equal(kedge__fault_set(spec, NULL), 0);
		rc = kedge__holdings_read(&h, cat, 1, NULL, 0, NULL);
		kedge__fault_set(NULL, NULL);
		assert_int_equal(rc, rc ? KEDGE_E_NOMEM : 0);
		assert_int_equal(h.list.count, rc ? 0 : 5);
		assert_true(rc ? !h.digest : h.digest != 0);
		kedge__holdings_done(&h);
	}
}

static void test_read(void **state)
{
	struct job job = job_new(1, 2048);
	char *dir = make_dir();
	struct kedge__catalog *cat = open_store(dir);
	struct kedge__holdings h = {0};

	(void)state;
	for (uint64_t version = 1; version <= 5; version++)
		save_next(cat, &job, version, KEDGE__REDUCER_TREE);
	assert_ok(kedge__holdings_read(&h, cat, 1, NULL, 0, err));
	assert_int_equal(h.list.count, 5);
	for (size_t i = 0; i < 5; i++) {
		const struct kedge__set *set = &kedge__catalog_find(cat, i + 1)->set;

		assert_true(h.list.at[i].usable);
		assert_int_equal(h.list.at[i].image, kedge__set_image(set));
		assert_int_equal(h.list.at[i].need_count, set->source_count);
	}
	assert_true(h.list.at[4].need_count > 0);
	assert_ok(kedge__holdings_read(&h, cat, 2, NULL, 0, err)); /* of a job with more ranks */
	assert_int_equal(h.list.count, 0);
	assert_int_equal(h.removals, 5);
	assert_ok(kedge__holdings_read(&h, cat, 1, NULL, 4, err)); /* without those that they need */
	assert_int_equal(h.list.count, 2);
	assert_null(kedge__holdings_newest(&h));
	kedge__holdings_done(&h);
	read_without_memory(cat);
	kedge__catalog_close(cat);
	remove_dir(dir);
	job_done(&job);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_operations),
	    cmocka_unit_test(test_no_memory),
	    cmocka_unit_test(test_read),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
