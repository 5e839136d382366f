/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What goes to L2 by itself: batches as deltas, and now and then everything. Whatever the form, every version that L2
 * has must be byte for byte what the application had, with L1 gone.
 */
#include "job/handle.h"
#include "support.h"

#include <stdatomic.h>

#define BYTES    24000
#define VERSIONS 13
#define MANY     40

static uint8_t m[BYTES], images[MANY + 1][BYTES];
static uint64_t seed;

/* A step of a random history: new bytes, bytes that move, bytes of long ago that return, runs of one value. */
static void history_step(uint64_t v)
{
	for (int i = 0; i < 6; i++) {
		size_t len = (1 + draw_below(&seed, 30)) * 64, from = draw_below(&seed, (BYTES - len) / 64) * 64,
		       to = draw_below(&seed, (BYTES - len) / 64) * 64;

		switch (draw_below(&seed, 4)) {
		case 0:
			fill_random(m + to, len, seed);
			break;
		case 1:
			memmove(m + to, m + from, len);
			break;
		case 2:
			memcpy(m + to, images[draw_below(&seed, v)] + from, len);
			break;
		default:
			memset(m + to, (int)draw_below(&seed, 256), len);
		}
	}
	memcpy(images[v], m, BYTES);
}

static kedge_t *open_series(const struct place *p, const char *const *more)
{
	kedge_t *k = job_open(p, true, more);

	assert_ok(k, kedge_protect(k, "m", m, BYTES, KEDGE_U8));
	return k;
}

static void comes_back(kedge_t *k, uint64_t wanted, uint64_t expected)
{
	uint64_t version = 0;

	memset(m, 0, BYTES);
	assert_ok(k, kedge_restart(k, wanted, &version));
	assert_int_equal(version, expected);
	assert_memory_equal(m, images[expected], BYTES);
}

static void take(kedge_t *k, uint64_t first, uint64_t last)
{
	for (uint64_t v = first; v <= last; v++) {
		history_step(v);
		assert_ok(k, kedge_checkpoint(k, v));
		assert_ok(k, kedge_wait(k));
	}
}

static void history_begin(uint64_t s)
{
	seed = s * 77 + 5;
	fill_random(m, BYTES, s);
	memcpy(images[0], m, BYTES);
}

static struct kedge__catalog *catalog_of(const char *store)
{
	struct kedge__catalog *cat;

	assert_int_equal(kedge__catalog_open(store, "job", KEDGE__CATALOG_READ, &cat, NULL), 0);
	return cat;
}

static void assert_intact(const char *store)
{
	struct kedge__catalog *cat = catalog_of(store);
	struct kedge__verify_report report = {0};

	assert_int_equal(kedge__verify(cat, NULL, KEDGE_NEWEST, NULL, NULL, NULL, &report, NULL), 0);
	assert_int_equal(report.findings + report.strays, 0);
	kedge__verify_report_done(&report);
	kedge__catalog_close(cat);
}

/* With L1 gone: what is on L2, and all of it. Returns how many versions that is. */
static size_t l2_alone(const struct place *p)
{
	struct kedge_version_info *list;
	kedge_t *k;
	size_t n;

	tree_remove(p->l1);
	k = open_series(p, NULL);
	assert_ok(k, kedge_versions(k, &list, &n));
	for (size_t i = 0; i < n; i++)
		comes_back(k, list[i].version, list[i].version);
	kedge_free(list);
	assert_ok(k, kedge_close(k));
	return n;
}

/* ------------------------------------------------------------------ against a replay of all increments */

static void test_random_histories(void **state)
{
	static const char *const reducers[] = {"reducer=full", "reducer=basic", "reducer=list", "reducer=tree",
					       "reducer=rex"};
	static const char *const modes[] = {"coalesce=batch", "coalesce=never", "l2_keep=2"};
	struct place *p = *state;
	char every[32];

	for (size_t i = 0; i < KEDGE__COUNT(reducers) * KEDGE__COUNT(modes); i++) {
		uint64_t step = 2 + i % 4;
		const char *mode = modes[i / KEDGE__COUNT(reducers)];
		kedge_t *k;

		text_make(every, sizeof(every), "l2_every=%llu", (unsigned long long)step);
		history_begin(i);
		k = open_series(
		    p, MORE(reducers[i % KEDGE__COUNT(reducers)], mode, every, "chunk=64", "codec=lz4", "block=4k"));
		take(k, 1, VERSIONS);
		for (uint64_t v = 1; v <= VERSIONS; v++)
			comes_back(k, v, v);
		assert_ok(k, kedge_close(k));
		assert_intact(p->l1);
		assert_intact(p->l2);
		assert_true(l2_alone(p) >= (i / KEDGE__COUNT(reducers) == 2 ? 2 : VERSIONS / step));
		tree_remove(p->l1);
		tree_remove(p->l2);
	}
}

/* ------------------------------------------------------------------ the forms */

static const struct kedge__set *set_of(struct kedge__catalog *cat, uint64_t version)
{
	const struct kedge__catalog_entry *e = kedge__catalog_find(cat, version);

	assert_non_null(e);
	assert_int_equal(e->problem.code, 0);
	return &e->set;
}

static void test_batch_is_one_delta(void **state)
{
	struct place *p = *state;
	kedge_t *k = open_series(p, MORE("l2_every=4", "reducer=basic", "chunk=64"));
	struct kedge__catalog *l1, *l2;
	uint64_t batch = 0;

	history_begin(1);
	take(k, 1, 12);
	assert_ok(k, kedge_close(k));
	l1 = catalog_of(p->l1);
	l2 = catalog_of(p->l2);
	assert_int_equal(kedge__catalog_count(l1), 12);
	assert_int_equal(kedge__catalog_count(l2), 3);
	assert_int_equal(set_of(l2, 4)->source_count, 0);
	for (uint64_t v = 8; v <= 12; v += 4) {
		assert_int_equal(set_of(l2, v)->source_count, 1);
		assert_int_equal(set_of(l2, v)->sources[0], v - 4);
		assert_int_equal(set_of(l2, v)->parent, v - 4);
		assert_int_equal(set_of(l2, v)->reducer, KEDGE__REDUCER_MERGED);
		assert_true(kedge__digest_equal(set_of(l2, v)->parts[0].image_id, set_of(l1, v)->parts[0].image_id));
		assert_true(set_of(l2, v)->created_ns == set_of(l1, v)->created_ns);
		assert_non_null(strstr(set_of(l2, v)->why, "L2: every 4 (as configured), 4 versions as a delta to "));
	}
	assert_non_null(strstr(set_of(l2, 4)->why, "all of it; self-contained: L2 has nothing"));
	/* The last copy of every byte: no more than what the four of them have, and less where they overlap. */
	for (uint64_t v = 5; v <= 8; v++)
		batch += set_of(l1, v)->parts[0].literal_bytes;
	assert_true(set_of(l2, 8)->parts[0].literal_bytes < batch);
	kedge__catalog_close(l1);
	kedge__catalog_close(l2);
}

/* One at a time, nothing is merged: segments are on L2 as they are on L1. */
static void test_single_versions_are_copied(void **state)
{
	struct place *p = *state;
	kedge_t *k = open_series(p, MORE("reducer=list", "chunk=64"));
	struct kedge__catalog *l1, *l2;

	history_begin(2);
	take(k, 1, 6);
	assert_ok(k, kedge_close(k));
	l1 = catalog_of(p->l1);
	l2 = catalog_of(p->l2);
	for (uint64_t v = 1; v <= 6; v++) {
		assert_true(kedge__digest_equal(set_of(l2, v)->parts[0].seal, set_of(l1, v)->parts[0].seal));
		assert_int_equal(set_of(l2, v)->reducer, set_of(l1, v)->reducer);
	}
	kedge__catalog_close(l1);
	kedge__catalog_close(l2);
}

static void test_never_copies_all(void **state)
{
	kedge_t *k = open_series(*state, MORE("l2_every=3", "reducer=basic", "coalesce=never"));

	history_begin(3);
	take(k, 1, 6);
	for (uint64_t v = 1; v <= 6; v++)
		assert_int_equal(levels_of(k, v), 3);
	assert_ok(k, kedge_close(k));
}

/* What came to L2 one way is a good parent the other way. */
static void test_modes_follow_each_other(void **state)
{
	static const char *const modes[] = {"coalesce=never", "coalesce=batch", "coalesce=auto", "coalesce=never"};
	struct place *p = *state;

	history_begin(4);
	for (uint64_t i = 0; i < KEDGE__COUNT(modes); i++) {
		kedge_t *k = open_series(p, MORE("l2_every=3", "reducer=tree", "chunk=64", modes[i]));

		take(k, 3 * i + 1, 3 * i + 3);
		assert_ok(k, kedge_close(k));
	}
	assert_intact(p->l2);
	(void)l2_alone(p);
}

/* ------------------------------------------------------------------ complete, by the rule */

static void test_rule(void **state)
{
	/* Psi, C, delta, T, M and the least n: shared with kedge plan coalesce. */
	static const double rows[][6] = {
	    {60, 30, 15, 854, 10000, 24}, {60, 15, 7.5, 854, 10000, 73}, {60, 7.5, 3.75, 500, 10000, 287},
	    {60, 30, 15, 400, 10000, 51}, {60, 30, 15, 854, 1000, 3},    {120, 10, 2, 600, 50000, 4610},
	};
	char why[KEDGE__POLICY_TEXT];

	(void)state;
	for (size_t i = 0; i < KEDGE__COUNT(rows); i++) {
		const double *r = rows[i];
		struct kedge__l2_costs costs = {.full = r[0],
						.delta = r[1],
						.write_rate = -1,
						.read_rate = 100,
						.interval = r[3],
						.mtbf = r[4],
						.mtbf_known = true};
		struct kedge__l2_chain chain = {.deltas = (uint64_t)r[5] - 1, .delta_bytes = 100 * r[2]};

		assert_false(kedge__coalescing_due(&costs, &chain, why));
		assert_non_null(strstr(why, "a delta: n = "));
		chain.deltas++;
		assert_true(kedge__coalescing_due(&costs, &chain, why));
		assert_non_null(strstr(why, "self-contained: n = "));
		assert_non_null(strstr(why, " >= "));
	}
}

static void test_rule_by_prediction(void **state)
{
	struct kedge__l2_costs costs = {
	    .full = -1, .delta = -1, .write_rate = -1, .read_rate = -1, .interval = 100, .mtbf = 1000};
	struct kedge__l2_chain chain = {.deltas = 5, .delta_bytes = 1e6, .full_bytes = 4e6, .batch_bytes = 2e6};
	char why[KEDGE__POLICY_TEXT];

	(void)state;
	assert_false(kedge__coalescing_due(&costs, &chain, why));
	assert_non_null(strstr(why, "too little is measured"));
	costs.write_rate = 1e5; /* 40 s against 20 s, 10 s to read one: p is 0.095, and n must be 21 */
	assert_false(kedge__coalescing_due(&costs, &chain, why));
	assert_non_null(strstr(why, "self-contained 40 s (predicted), delta 20 s (predicted), to read one 10 s"));
	chain.deltas = 20;
	assert_false(kedge__coalescing_due(&costs, &chain, why));
	chain.deltas = 21;
	assert_true(kedge__coalescing_due(&costs, &chain, why));
	costs.read_rate = 1e6; /* reading is ten times as fast: deltas may be more */
	assert_false(kedge__coalescing_due(&costs, &chain, why));
	costs.interval = -1;
	assert_false(kedge__coalescing_due(&costs, &chain, why));
	/* Where all changes each time a delta costs no less; but what is read in no time may stay as it is. */
	costs = (struct kedge__l2_costs){.full = 10, .delta = 10, .read_rate = 1e6, .interval = 100, .mtbf = 1000};
	chain = (struct kedge__l2_chain){.batch_bytes = 4e6, .full_bytes = 4e6};
	assert_true(kedge__coalescing_due(&costs, &chain, why));
	costs.read_rate = 1e7;
	assert_false(kedge__coalescing_due(&costs, &chain, why));
	assert_non_null(strstr(why, "less than a second"));
}

static _Atomic double now_is;

static double scripted(void)
{
	return atomic_load(&now_is);
}

static pthread_t application;

/* Every look of the flusher at the clock is a second later than the one before: by them a delta is as dear as all of
 * it. Those of the application do not count, since they may fall between. */
static double ticking(void)
{
	double t = atomic_load(&now_is);

	if (!pthread_equal(pthread_self(), application))
		atomic_store(&now_is, t + 1);
	return t;
}

static void clock_use(kedge_t *k, double (*clock)(void))
{
	k->advice.clock = clock;
	assert_int_equal(kedge__adapt_init(k, NULL), 0);
}

/* In a job: as long as nothing is measured deltas, then one that stands alone; older ones go as far as l2_keep says. */
static void test_job_goes_complete(void **state)
{
	struct place *p = *state;
	kedge_t *k = open_series(p, MORE("l2_every=3", "reducer=basic", "l2_keep=1", "mtbf=1000", "chunk=64"));
	struct kedge__catalog *l2;
	uint64_t bases = 0;

	atomic_store(&now_is, 1000);
	application = pthread_self();
	clock_use(k, ticking);
	history_begin(6);
	for (uint64_t v = 1; v <= 12; v++) {
		atomic_store(&now_is, 1000 + 10 * (double)v);
		take(k, v, v);
	}
	assert_true(k->advice.policy.full.count + k->advice.policy.delta.count >= 2);
	assert_ok(k, kedge_close(k));
	l2 = catalog_of(p->l2);
	assert_non_null(kedge__catalog_find(l2, 12));
	for (size_t i = 0; i < kedge__catalog_count(l2); i++)
		bases += kedge__catalog_at(l2, i)->set.source_count == 0;
	assert_true(bases >= 1);
	/* The first base went when a newer one took its place. */
	assert_null(kedge__catalog_find(l2, 3));
	kedge__catalog_close(l2);
	assert_intact(p->l2);
	(void)l2_alone(p);
}

/* l2_keep alone is reason enough, whatever the costs. */
static void test_keep_goes_complete(void **state)
{
	struct place *p = *state;
	kedge_t *k = open_series(p, MORE("l2_every=2", "reducer=tree", "l2_keep=1", "chunk=64", "coalesce=batch"));

	atomic_store(&now_is, 1000);
	clock_use(k, scripted);
	history_begin(7);
	take(k, 1, VERSIONS - 1);
	assert_ok(k, kedge_close(k));
	assert_intact(p->l2);
	assert_true(l2_alone(p) <= 6);
}

/* Old versions leave L1, and L2 gets deltas all the same: L1 keeps what tells of the time since the newest one there.
 */
static void test_keep_leaves_what_deltas_need(void **state)
{
	static const char *const reducers[] = {"reducer=basic", "reducer=list", "reducer=tree"};
	struct place *p = *state;

	for (size_t i = 0; i < KEDGE__COUNT(reducers); i++) {
		kedge_t *k = open_series(p, MORE(reducers[i], "l2_every=5", "keep=2", "chunk=64"));
		struct kedge__catalog *l2;
		size_t most = 0;

		history_begin(20 + i);
		for (uint64_t v = 1; v <= MANY; v++) {
			struct kedge__catalog *l1;

			take(k, v, v);
			l1 = catalog_of(p->l1);
			most = KEDGE__MAX(most, kedge__catalog_count(l1));
			kedge__catalog_close(l1);
		}
		assert_in_range(most, 2, 2 * 2 + 4 + 3);
		comes_back(k, MANY, MANY);
		comes_back(k, MANY - 1, MANY - 1);
		assert_ok(k, kedge_close(k));
		assert_intact(p->l1);
		assert_intact(p->l2);
		l2 = catalog_of(p->l2);
		for (uint64_t v = 10; v <= MANY; v += 5) {
			assert_int_equal(set_of(l2, v)->source_count, 1);
			assert_int_equal(set_of(l2, v)->sources[0], v - 5);
			assert_true(set_of(l2, v)->parts[0].literal_bytes < BYTES * 9 / 10);
		}
		kedge__catalog_close(l2);
		assert_int_equal(l2_alone(p), MANY / 5);
		tree_remove(p->l1);
		tree_remove(p->l2);
	}
}

/* ------------------------------------------------------------------ loss and damage */

/* L1 is lost between two batches: L2 has nothing that L1 knows, so it gets all of it, and goes on from there. */
static void test_l1_lost(void **state)
{
	struct place *p = *state;
	kedge_t *k = open_series(p, MORE("l2_every=3", "reducer=tree", "chunk=64"));
	struct kedge__catalog *l2;

	history_begin(8);
	take(k, 1, 7);
	assert_ok(k, kedge_close(k));
	tree_remove(p->l1);
	k = open_series(p, MORE("l2_every=3", "reducer=tree", "chunk=64"));
	comes_back(k, KEDGE_NEWEST, 6);
	take(k, 7, 12);
	assert_ok(k, kedge_close(k));
	l2 = catalog_of(p->l2);
	assert_int_equal(kedge__catalog_count(l2), 4);
	assert_int_equal(set_of(l2, 9)->source_count, 0);
	assert_int_equal(set_of(l2, 12)->sources[0], 9);
	kedge__catalog_close(l2);
	assert_intact(p->l2);
	assert_int_equal(l2_alone(p), 4);
}

/* A parent that L2 has lost is none. */
static void test_l2_lost(void **state)
{
	struct place *p = *state;
	kedge_t *k = open_series(p, MORE("l2_every=3", "reducer=basic", "chunk=64"));
	char path[600];

	history_begin(9);
	take(k, 1, 6);
	manifest_path(p->l2, 3, path, sizeof(path));
	assert_int_equal(unlink(path), 0);
	take(k, 7, 9);
	assert_ok(k, kedge_close(k));
	tree_remove(p->l1);
	k = open_series(p, NULL);
	comes_back(k, KEDGE_NEWEST, 9);
	assert_ok(k, kedge_close(k));
}

/*
 * An increment in the middle of a batch is damaged: L2 must not get something made of it, the job is told, restarts get
 * what is whole, and the job comes back to a good L2 by itself.
 */
static void test_damage_within_a_batch(void **state)
{
	struct place *p = *state;
	kedge_t *k = open_series(p, MORE("l2_every=4", "reducer=basic", "chunk=64", "codec=none"));

	history_begin(10);
	take(k, 1, 7);
	segment_damage(p->l1, 6, 0);
	history_step(8);
	memcpy(images[8] + 100, m + 100, 1);
	assert_ok(k, kedge_checkpoint(k, 8));
	assert_int_equal(kedge_wait(k), KEDGE_E_DAMAGED);
	assert_non_null(strstr(kedge_last_error(k), "version 8 did not reach L2"));
	assert_non_null(strstr(kedge_last_error(k), "version 6"));
	assert_true(kedge_test(k, 8) < 0);
	assert_int_equal(levels_of(k, 8), 1);
	/* The next one stands alone, so that the next batch is whole. */
	memcpy(m, images[8], BYTES);
	take(k, 9, 12);
	assert_int_equal(levels_of(k, 12), 3);
	assert_ok(k, kedge_close(k));
	k = open_series(p, NULL);
	comes_back(k, KEDGE_NEWEST, 12);
	assert_int_not_equal(kedge_restart(k, 8, NULL), 0);
	assert_int_not_equal(kedge_restart(k, 6, NULL), 0);
	comes_back(k, 5, 5);
	assert_ok(k, kedge_close(k));
	assert_intact(p->l2);
	tree_remove(p->l1);
	k = open_series(p, NULL);
	comes_back(k, KEDGE_NEWEST, 12);
	comes_back(k, 4, 4);
	assert_ok(k, kedge_close(k));
}

/* Damage to what L2 has already, as the base of the batch, does not hold it up: those bytes are not read. */
static void test_damage_below_a_batch(void **state)
{
	struct place *p = *state;
	kedge_t *k = open_series(p, MORE("l2_every=3", "reducer=basic", "chunk=64", "codec=none"));

	history_begin(11);
	take(k, 1, 3);
	segment_damage(p->l1, 1, 0);
	take(k, 4, 6);
	assert_ok(k, kedge_close(k));
	assert_intact(p->l2);
	k = open_series(p, NULL);
	comes_back(k, KEDGE_NEWEST, 6);
	assert_ok(k, kedge_close(k));
	assert_int_equal(l2_alone(p), 2);
}

/* Blocks of an increment turn bad after L2 has the batch in another form: that form serves. */
static void test_other_form_serves(void **state)
{
	struct place *p = *state;
	kedge_t *k = open_series(p, MORE("l2_every=4", "reducer=basic", "chunk=64", "codec=none"));

	history_begin(12);
	take(k, 1, 8);
	segment_damage(p->l1, 7, 0);
	segment_damage(p->l1, 1, 0);
	comes_back(k, KEDGE_NEWEST, 8);
	assert_ok(k, kedge_close(k));
}

/* Memory runs out at one place after the other: a batch may be late, but what L2 has is right, and it goes on. */
static void test_out_of_memory(void **state)
{
	struct place *p = *state;
	kedge_t *k =
	    open_series(p, MORE("l2_every=2", "reducer=basic", "chunk=1024", "threads=1", "l2_keep=2", "keep=2"));
	uint64_t count, failed = 0, got;

	history_begin(30);
	take(k, 1, 2);
	kedge__fault_set(NULL, NULL);
	take(k, 3, 4);
	count = kedge__fault_alloc_count();
	for (uint64_t n = 1; n <= count; n += count / 120 + 1) {
		uint64_t v = 5 + n % 8; /* each over again, onto the one before it */
		char fault[32];
		int rc = 0;

		assert_ok(k, kedge_discard(k, v, KEDGE_LEVEL_1 | KEDGE_LEVEL_2));
		text_make(fault, sizeof(fault), "alloc@%llu", (unsigned long long)n);
		assert_int_equal(kedge__fault_set(fault, NULL), 0);
		for (uint64_t i = 0; i < 2 && !rc; i++) {
			history_step(v + i);
			rc = kedge_checkpoint(k, v + i);
			if (!rc)
				rc = kedge_wait(k);
		}
		kedge__fault_set(NULL, NULL);
		assert_true(rc == 0 || rc == KEDGE_E_NOMEM);
		failed += rc != 0;
	}
	assert_true(failed > 5);
	take(k, 20, 25);
	assert_ok(k, kedge_close(k));
	assert_intact(p->l2);
	tree_remove(p->l1);
	k = open_series(p, NULL);
	assert_ok(k, kedge_restart(k, KEDGE_NEWEST, &got));
	assert_in_range(got, 24, 25); /* whose turn it was depends on what failed */
	assert_memory_equal(m, images[got], BYTES);
	assert_ok(k, kedge_close(k));
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(test_random_histories, place_setup, place_teardown),
	    cmocka_unit_test_setup_teardown(test_batch_is_one_delta, place_setup, place_teardown),
	    cmocka_unit_test_setup_teardown(test_single_versions_are_copied, place_setup, place_teardown),
	    cmocka_unit_test_setup_teardown(test_never_copies_all, place_setup, place_teardown),
	    cmocka_unit_test_setup_teardown(test_modes_follow_each_other, place_setup, place_teardown),
	    cmocka_unit_test(test_rule),
	    cmocka_unit_test(test_rule_by_prediction),
	    cmocka_unit_test_setup_teardown(test_job_goes_complete, place_setup, place_teardown),
	    cmocka_unit_test_setup_teardown(test_keep_goes_complete, place_setup, place_teardown),
	    cmocka_unit_test_setup_teardown(test_keep_leaves_what_deltas_need, place_setup, place_teardown),
	    cmocka_unit_test_setup_teardown(test_l1_lost, place_setup, place_teardown),
	    cmocka_unit_test_setup_teardown(test_l2_lost, place_setup, place_teardown),
	    cmocka_unit_test_setup_teardown(test_damage_within_a_batch, place_setup, place_teardown),
	    cmocka_unit_test_setup_teardown(test_damage_below_a_batch, place_setup, place_teardown),
	    cmocka_unit_test_setup_teardown(test_other_form_serves, place_setup, place_teardown),
	    cmocka_unit_test_setup_teardown(test_out_of_memory, place_setup, place_teardown),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
