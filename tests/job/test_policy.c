/* SPDX-License-Identifier: BSD-3-Clause */
/* When to checkpoint, by a scripted clock: the policy alone, and a job that follows it. */
#include "job/handle.h"
#include "support.h"

#include <math.h>
#include <stdatomic.h>

#define BYTES 20000

static uint8_t m[BYTES];

/* ------------------------------------------------------------------ the policy alone */

static struct kedge__policy policy_of(struct kedge__policy_config config)
{
	struct kedge__policy p;

	kedge__policy_init(&p, &config, 1000);
	return p;
}

static void test_fixed_interval(void **state)
{
	struct kedge__policy p = policy_of((struct kedge__policy_config){.interval = 60, .mtbf = 100});

	(void)state;
	assert_false(kedge__policy_ask(&p, 1059.9, -1));
	assert_string_equal(p.why, "");
	assert_true(kedge__policy_ask(&p, 1060, -1));
	assert_non_null(strstr(p.why, "interval 60 s, configured"));
	for (double t = 1062; t < 3000; t += 62) { /* costs of 2 s change nothing */
		assert_false(kedge__policy_taken(&p, t, 2, -1));
		assert_false(kedge__policy_ask(&p, t + 59.9, -1));
		assert_true(kedge__policy_ask(&p, t + 60, -1));
	}
}

static double interval_after(struct kedge__policy *p, int checkpoints, double cost)
{
	double t = p->resumed;

	for (int i = 0; i < checkpoints; i++) {
		t += kedge__policy_interval(p);
		assert_true(kedge__policy_ask(p, t + 0.001, -1));
		t += cost;
		kedge__policy_taken(p, t, cost, -1);
	}
	return kedge__policy_interval(p);
}

/* Young's interval for the configured failures comes out when costs are known, and not before. */
static void test_interval_moves(void **state)
{
	struct kedge__policy p = policy_of((struct kedge__policy_config){.mtbf = 1e6});
	double young = sqrt(2 * 5 * 1e6);

	(void)state;
	assert_true(interval_after(&p, 2, 5) == KEDGE__POLICY_INTERVAL);
	assert_non_null(strstr(p.text, "2 of 3 checkpoints measured"));
	assert_true(fabs(interval_after(&p, 1, 5) / young - 1) < 0.05);
	assert_non_null(strstr(p.text, "interval 600 s -> "));
	assert_true(kedge__policy_ask(&p, p.resumed + 4000, -1));
	assert_non_null(strstr(p.why, "chosen"));
	/* Dearer checkpoints, longer intervals. */
	assert_true(interval_after(&p, 30, 50) > 1.5 * young);
}

/* Nothing is known: the first checkpoint comes soon, and what it costs says when the next ones do. */
static void test_the_first_comes_early(void **state)
{
	struct kedge__policy p = policy_of((struct kedge__policy_config){.mtbf = 0});

	(void)state;
	assert_false(kedge__policy_ask(&p, 1009.9, -1));
	assert_true(kedge__policy_ask(&p, 1010, -1));
	assert_non_null(strstr(p.why, "interval 10 s, to see what a checkpoint costs"));
	kedge__policy_taken(&p, 1010.5, 0.5, -1); /* with a failure a day */
	assert_true(fabs(kedge__policy_interval(&p) / sqrt(2 * 0.5 * KEDGE__POLICY_MTBF) - 1) < 1e-9);
	assert_true(kedge__policy_ask(&p, 1010.5 + 300, -1));
	assert_non_null(strstr(p.why, "by what is measured so far"));
	kedge__policy_taken(&p, 1400, 60, -1);
	assert_true(kedge__policy_interval(&p) == KEDGE__POLICY_INTERVAL);
	/* Within the failures that were announced. */
	p = policy_of((struct kedge__policy_config){.mtbf = 60});
	assert_false(kedge__policy_ask(&p, 1002.9, -1));
	assert_true(kedge__policy_ask(&p, 1003, -1));
	kedge__policy_taken(&p, 1003.5, 0.5, -1);
	assert_true(kedge__policy_interval(&p) < 8);
}

static void test_begins_with_the_configured_one(void **state)
{
	struct kedge__policy p =
	    policy_of((struct kedge__policy_config){.interval = 50, .adaptive = true, .mtbf = 1e6});

	(void)state;
	assert_true(interval_after(&p, 2, 5) == 50);
	assert_true(interval_after(&p, 2, 5) > 1000);
}

/* Without mtbf it takes failures, which only restarts of processes that did not close are. */
static void test_failures_are_seen(void **state)
{
	struct kedge__policy p = policy_of((struct kedge__policy_config){.interval = 100, .adaptive = true});
	char text[KEDGE__POLICY_FILE_MAX];

	(void)state;
	interval_after(&p, 5, 1);
	kedge__policy_restarted(&p, p.resumed + 10, 1, 3, 40); /* within one process: no failure */
	assert_int_equal(p.controller.failures[0], 0);
	for (int i = 0; i < 3; i++) {
		kedge__policy_format(&p, i == 1, text);
		p = policy_of((struct kedge__policy_config){.interval = 100, .adaptive = true});
		assert_int_equal(kedge__policy_parse(&p, text, NULL), 0);
		assert_int_equal(p.unclean, i != 1);
		kedge__policy_restarted(&p, 1003, 1, 3, 40);
	}
	assert_int_equal(p.controller.failures[0], 2);
	assert_true(interval_after(&p, 1, 1) == 100);
	assert_non_null(strstr(p.text, "2 of 3 failures"));
	p.unclean = true;
	kedge__policy_restarted(&p, p.resumed + 50, 2, 3, 1e9);
	assert_int_equal(p.controller.failures[1], 1);
	assert_true(p.controller.elapsed < 1e4); /* of the billion seconds half an interval counts */
	assert_true(interval_after(&p, 1, 1) < 100);
}

static void test_l2_frequency_moves(void **state)
{
	struct kedge__policy_config config = {.interval = 100, .mtbf = 1e5, .l2 = true};
	struct kedge__policy p = policy_of(config);

	(void)state;
	assert_int_equal(kedge__policy_l2_every(&p), KEDGE__POLICY_L2_EVERY);
	for (int i = 0; i < 6; i++) {
		kedge__policy_flushed(&p, &(struct kedge__l2_flush){.seconds = 1000});
		interval_after(&p, 1, 1);
	}
	assert_true(kedge__policy_l2_every(&p) >= 10);  /* a copy takes as long as ten checkpoints */
	assert_true(kedge__policy_interval(&p) == 100); /* which is fixed */
	config.l2_every = 7;
	p = policy_of(config);
	interval_after(&p, 6, 1);
	assert_int_equal(kedge__policy_l2_every(&p), 7);
}

/* Little to save: earlier. Much: later. As usual: as usual. Always within bounds. */
static void test_dirty_pages(void **state)
{
	struct kedge__policy p = policy_of((struct kedge__policy_config){.interval = 100, .adaptive = true});
	double t = 1000;

	(void)state;
	assert_true(kedge__policy_ask(&p, t + 100, 1));
	for (int i = 0; i < 3; i++)
		kedge__policy_taken(&p, t += 100, 1, 4e6);
	assert_false(kedge__policy_wants_dirty(&p, t + 49));
	assert_true(kedge__policy_wants_dirty(&p, t + 50));
	assert_false(kedge__policy_ask(&p, t + 99, 4e6));
	assert_true(kedge__policy_ask(&p, t + 100, 4e6));
	assert_false(kedge__policy_ask(&p, t + 49, 0));
	assert_true(kedge__policy_ask(&p, t + 50, 0));
	assert_non_null(strstr(p.why, "0 MB are dirty instead of 4 MB"));
	assert_true(kedge__policy_ask(&p, t + 50, 1e6));
	assert_false(kedge__policy_ask(&p, t + 141, 8e6));
	assert_true(kedge__policy_ask(&p, t + 142, 8e6));
	assert_true(kedge__policy_ask(&p, t + 200, 1e12));
	p.moves_interval = false; /* a fixed interval is fixed */
	p.config.interval = 100;
	assert_false(kedge__policy_ask(&p, t + 99, 0));
}

static void test_skip(void **state)
{
	struct kedge__policy p = policy_of((struct kedge__policy_config){.interval = 100});
	double t = 1000;

	(void)state;
	assert_int_equal(kedge__policy_skip(&p, t), 0); /* the pace is not known */
	for (int i = 0; i < 10; i++)
		assert_false(kedge__policy_ask(&p, t += 0.1, -1));
	assert_in_range(kedge__policy_skip(&p, t), 45, 50); /* 5 seconds: somebody may want one soon */
	assert_int_equal(kedge__policy_skip(&p, 1100), 0);
	for (int i = 0; i < 10; i++)
		kedge__policy_ask(&p, t += 1e-9, -1);
	assert_in_range(kedge__policy_skip(&p, t), 1, 1000);
}

static void test_bad_files(void **state)
{
	static const char *const bad[] = {"", "\n", "kedge-controller 1 2 3", "kedge-controller 9 1\n", "closed\n"};
	struct kedge__policy p = policy_of((struct kedge__policy_config){.interval = 100}), before = p;

	(void)state;
	for (size_t i = 0; i < KEDGE__COUNT(bad); i++) {
		assert_int_equal(kedge__policy_parse(&p, bad[i], NULL), KEDGE_E_FORMAT);
		assert_memory_equal(&p, &before, sizeof(p));
	}
}

/* ------------------------------------------------------------------ a job */

static _Atomic double now_is;

static double scripted(void)
{
	return atomic_load(&now_is);
}

/* The clock is put in after opening: what was measured while opening is forgotten. */
static kedge_t *open_scripted(const struct place *p, bool l2, const char *const *more)
{
	kedge_t *k = job_open(p, l2, more);
	bool unclean = k->advice.policy.unclean;
	struct kedge__controller known = k->advice.policy.controller;

	k->advice.clock = scripted;
	assert_int_equal(kedge__adapt_init(k, NULL), 0);
	k->advice.policy.controller = known;
	k->advice.policy.unclean = unclean;
	assert_ok(k, kedge_protect(k, "m", m, BYTES, KEDGE_U8));
	return k;
}

static int asks(kedge_t *k)
{
	int now = -1;

	assert_ok(k, kedge_should_checkpoint(k, &now));
	return now;
}

/* The reason of VERSION as the store has it; "-" if it has none. */
static void why_of(const struct place *p, uint64_t version, char *out, size_t room)
{
	struct kedge__catalog *cat;
	const struct kedge__catalog_entry *e;

	assert_int_equal(kedge__catalog_open(p->l1, "job", KEDGE__CATALOG_READ, &cat, NULL), 0);
	e = kedge__catalog_find(cat, version);
	assert_non_null(e);
	text_make(out, room, "%s", e->set.why ? e->set.why : "-");
	kedge__catalog_close(cat);
}

static void test_job_says_why(void **state)
{
	const struct place *p = *state;
	char why[KEDGE__POLICY_TEXT];
	kedge_t *k;

	atomic_store(&now_is, 50);
	k = open_scripted(p, false, MORE("interval=2min", "capture=copy"));
	assert_int_equal(asks(k), 0);
	assert_ok(k, kedge_checkpoint(k, 1)); /* wanted all the same */
	atomic_store(&now_is, 169);
	assert_int_equal(asks(k), 0);
	atomic_store(&now_is, 171);
	assert_int_equal(asks(k), 1);
	assert_int_equal(asks(k), 1);
	assert_ok(k, kedge_checkpoint(k, 2));
	assert_int_equal(asks(k), 0);
	assert_ok(k, kedge_close(k));
	why_of(p, 1, why, sizeof(why));
	assert_string_equal(why, "-");
	why_of(p, 2, why, sizeof(why));
	assert_string_equal(why, "121 s of computation since the last one; interval 120 s, configured");
}

static void test_arguments(void **state)
{
	kedge_t *k = open_scripted(*state, false, NULL);
	int now = 7;

	assert_int_equal(kedge_should_checkpoint(NULL, &now), KEDGE_E_ARG);
	assert_int_equal(kedge_should_checkpoint(k, NULL), KEDGE_E_ARG);
	assert_int_equal(now, 7);
	assert_ok(k, kedge_close(k));
}

/* One call in the loop, and one in a signal handler. */
static void test_if_due(void **state)
{
	kedge_t *k;
	struct kedge_stats stats;
	int taken = 7;

	atomic_store(&now_is, 0);
	k = open_scripted(*state, false, NULL);
	assert_ok(k, kedge_checkpoint_if_due(k, KEDGE_NEXT, &taken));
	assert_int_equal(taken, 0);
	atomic_store(&now_is, 11);
	assert_ok(k, kedge_checkpoint_if_due(k, KEDGE_NEXT, &taken));
	assert_int_equal(taken, 1);
	assert_ok(k, kedge_stats_get(k, &stats));
	assert_int_equal(stats.version, 1);
	assert_ok(k, kedge_checkpoint_if_due(k, KEDGE_NEXT, NULL));
	kedge_checkpoint_soon(k);
	kedge_checkpoint_soon(NULL);
	assert_int_equal(asks(k), 1);
	assert_ok(k, kedge_checkpoint_if_due(k, KEDGE_NEXT, &taken));
	assert_int_equal(taken, 1);
	assert_int_equal(asks(k), 0); /* it was taken */
	assert_ok(k, kedge_stats_get(k, &stats));
	assert_int_equal(stats.version, 2);
	assert_int_equal(kedge_checkpoint_if_due(NULL, 1, NULL), KEDGE_E_ARG);
	assert_ok(k, kedge_close(k));
}

/* Failures are seen by the processes that follow, and with mtbf the interval moves; each move is in the log. */
static void test_job_learns(void **state)
{
	struct place *p = *state;
	const char *const *more = MORE("mtbf=1h", "interval=0");
	kedge_t *k;

	kedge_set_log(place_log, p);
	atomic_store(&now_is, 0);
	k = open_scripted(p, false, more);
	for (uint64_t v = 1; v <= 4; v++) {
		atomic_store(&now_is, atomic_load(&now_is) + 600);
		assert_int_equal(asks(k), 1);
		assert_ok(k, kedge_checkpoint(k, v));
	}
	assert_non_null(strstr(place_said(p), "interval 600 s -> 1 s")); /* checkpoints cost no scripted time at all */
	assert_non_null(strstr(place_said(p), "checkpoint is due"));
	assert_true(kedge__policy_interval(&k->advice.policy) == 1);
	assert_ok(k, kedge_close(k));
	k = open_scripted(p, false, more);
	assert_false(k->advice.policy.unclean);
	assert_true(kedge__policy_interval(&k->advice.policy) == 1); /* it is remembered */
	assert_ok(k, kedge_restart(k, KEDGE_NEWEST, NULL));
	assert_int_equal(k->advice.policy.controller.failures[0], 0);
	assert_int_equal(asks(k), 0);
	kedge__adapt_save(k, false);    /* as every checkpoint does; then the process dies */
	k->advice.policy.asked = false; /* so that closing writes nothing over it */
	assert_ok(k, kedge_close(k));
	k = open_scripted(p, false, more);
	assert_true(k->advice.policy.unclean);
	assert_ok(k, kedge_restart(k, KEDGE_NEWEST, NULL));
	assert_int_equal(k->advice.policy.controller.failures[0], 1);
	assert_ok(k, kedge_restart(k, KEDGE_NEWEST, NULL));
	assert_int_equal(k->advice.policy.controller.failures[0], 1);
	assert_ok(k, kedge_close(k));
}

static void test_relaunch_is_a_failure(void **state)
{
	kedge_t *k = open_scripted(*state, false, NULL);

	assert_ok(k, kedge_checkpoint(k, 1));
	assert_ok(k, kedge_close(k));
	setenv("KEDGE_RUN_LAUNCH", "2", 1);
	k = open_scripted(*state, false, NULL);
	unsetenv("KEDGE_RUN_LAUNCH");
	assert_ok(k, kedge_restart(k, 1, NULL));
	assert_int_equal(k->advice.policy.controller.failures[0], 1);
	assert_ok(k, kedge_close(k));
}

/* l2_every = 0: the first one, then by the table of REX, which has five for all of the image, then what the policy
 * says. */
static void test_job_moves_l2(void **state)
{
	kedge_t *k = open_scripted(*state, true, MORE("l2_every=0", "reducer=full", "codec=none"));

	fill_random(m, BYTES, 3);
	for (uint64_t v = 1; v <= 6; v++)
		assert_ok(k, kedge_checkpoint(k, v));
	assert_ok(k, kedge_wait(k));
	for (uint64_t v = 1; v <= 6; v++)
		assert_int_equal(levels_of(k, v), v == 1 || v == 6 ? 3 : 1);
	assert_int_equal(k->advice.policy.l2_by, KEDGE__L2_TABLE);
	k->advice.policy.controller.l2_every = 2;
	k->advice.policy.l2_by = KEDGE__L2_MODEL;
	for (uint64_t v = 7; v <= 8; v++)
		assert_ok(k, kedge_checkpoint(k, v));
	assert_ok(k, kedge_wait(k));
	assert_int_equal(levels_of(k, 7), 1);
	assert_int_equal(levels_of(k, 8), 3);
	assert_true(k->advice.flushed.seconds >= 0 || k->advice.policy.controller.cost[1].count > 0);
	assert_ok(k, kedge_close(k));
}

/* Small increments go to L2 less often than large ones until the models can answer, and it is said. */
static void test_l2_frequency_by_table(void **state)
{
	struct kedge__policy_config config = {.interval = 100, .l2 = true};
	struct kedge__policy p = policy_of(config);

	(void)state;
	kedge__policy_increment(&p, 16000, 1000, 1000);
	assert_true(kedge__policy_taken(&p, 1100, 1, -1));
	assert_int_equal(kedge__policy_l2_every(&p), 9);
	assert_non_null(strstr(p.text, "L2 every 4 -> 9: Table 1"));
	assert_false(kedge__policy_taken(&p, 1200, 1, -1));
	for (int i = 0; i < 30; i++)
		kedge__policy_increment(&p, 16000, 16000, 1000);
	assert_true(kedge__policy_taken(&p, 1300, 1, -1));
	assert_int_equal(kedge__policy_l2_every(&p), 4);
	config.l2_every = 3; /* not to be moved */
	p = policy_of(config);
	kedge__policy_increment(&p, 16000, 1000, 1000);
	assert_false(kedge__policy_taken(&p, 1100, 1, -1));
	assert_int_equal(kedge__policy_l2_every(&p), 3);
}

/* A process that ends before it asks anything is a failure like another. */
static void test_short_lives_count(void **state)
{
	kedge_t *k = open_scripted(*state, false, NULL);
	char text[KEDGE__POLICY_FILE_MAX];
	struct kedge__policy p;

	assert_int_equal(asks(k), 0);
	kedge__policy_format(&k->advice.policy, false, text);
	p = policy_of((struct kedge__policy_config){0});
	assert_int_equal(kedge__policy_parse(&p, text, NULL), 0);
	kedge__policy_restarted(&p, 1003, 1, 3, 40);
	assert_true(kedge__policy_known(&p));
	assert_int_equal(p.controller.failures[0], 1);
	assert_ok(k, kedge_close(k));
}

/* What L2 costs goes from one process to the next; a file without it is as good as none. */
static void test_costs_of_l2_are_kept(void **state)
{
	struct kedge__policy p = policy_of((struct kedge__policy_config){.l2 = true, .l2_every = 4, .mtbf = 1000}), q;
	struct kedge__l2_costs a, b;
	char text[KEDGE__POLICY_FILE_MAX], *line;

	(void)state;
	kedge__policy_flushed(&p, &(struct kedge__l2_flush){.seconds = 60, .bytes = 6000, .self_contained = true});
	kedge__policy_flushed(&p, &(struct kedge__l2_flush){.seconds = 10, .bytes = 1000});
	kedge__policy_read(&p, 5, 5000);
	kedge__policy_taken(&p, 1100, 1, -1);
	kedge__policy_l2_costs(&p, &a);
	assert_true(a.full == 60 && a.delta == 10 && a.write_rate == 100 && a.read_rate == 1000);
	assert_true(a.interval == 400 && a.mtbf_known && a.every == 4);
	kedge__policy_format(&p, true, text);
	q = policy_of((struct kedge__policy_config){.l2 = true, .l2_every = 4, .mtbf = 1000});
	assert_int_equal(kedge__policy_parse(&q, text, NULL), 0);
	assert_false(q.unclean);
	kedge__policy_l2_costs(&q, &b);
	assert_memory_equal(&a, &b, sizeof(a));
	line = strstr(text, "kedge-l2");
	assert_non_null(line);
	line[strlen("kedge-l2 1 60")] = 'x';
	assert_int_equal(kedge__policy_parse(&q, text, NULL), KEDGE_E_FORMAT);
	strcpy(line, "closed\n");
	q = policy_of((struct kedge__policy_config){.l2 = true});
	assert_int_equal(kedge__policy_parse(&q, text, NULL), 0);
	kedge__policy_l2_costs(&q, &b);
	assert_true(b.full < 0 && b.delta < 0 && !b.mtbf_known && b.mtbf == KEDGE__POLICY_MTBF);
}

/* A file of nonsense is no reason to fail, and losing it none either. */
static void test_damaged_file(void **state)
{
	struct place *p = *state;
	char path[400];
	kedge_t *k = open_scripted(p, false, NULL);

	assert_int_equal(asks(k), 0);
	assert_ok(k, kedge_close(k));
	text_make(path, sizeof(path), "%s/job/record-policy", p->l1);
	file_write(path, "nonsense", 8);
	kedge_set_log(place_log, p);
	k = open_scripted(p, false, NULL);
	assert_non_null(strstr(place_said(p), "are measured again"));
	assert_int_equal(asks(k), 0);
	assert_ok(k, kedge_close(k));
}

/* What cannot be kept does not fail a checkpoint; what fails one does not confuse the policy. */
static void test_full_disk(void **state)
{
	const struct place *p = *state;
	uint64_t count, version = 2, taken = 0;
	char path[400];
	kedge_t *k;

	atomic_store(&now_is, 0);
	k = open_scripted(p, false, MORE("interval=10"));
	assert_int_equal(asks(k), 0);
	assert_ok(k, kedge_checkpoint(k, 1));
	kedge__fault_set(NULL, NULL);
	assert_ok(k, kedge_checkpoint(k, 2));
	count = kedge__fault_count();
	for (uint64_t n = 1; n <= count; n++) {
		char fault[32];
		int rc;

		text_make(fault, sizeof(fault), "enospc@%llu", (unsigned long long)n);
		atomic_store(&now_is, atomic_load(&now_is) + 10);
		assert_int_equal(asks(k), 1);
		assert_int_equal(kedge__fault_set(fault, NULL), 0);
		rc = kedge_checkpoint(k, version + 1);
		kedge__fault_set(NULL, NULL);
		version += rc == 0;
		taken += rc == 0;
		assert_true(rc == 0 || rc == KEDGE_E_NOSPACE);
		assert_int_equal(asks(k), rc ? 1 : 0); /* it is still due if it failed */
	}
	assert_true(taken > 0 && taken < count);
	assert_ok(k, kedge_checkpoint(k, version + 1));
	assert_ok(k, kedge_close(k));
	text_make(path, sizeof(path), "%s/job/record-policy.tmp", p->l1);
	assert_int_not_equal(access(path, F_OK), 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_fixed_interval),
	    cmocka_unit_test(test_interval_moves),
	    cmocka_unit_test(test_the_first_comes_early),
	    cmocka_unit_test(test_begins_with_the_configured_one),
	    cmocka_unit_test(test_failures_are_seen),
	    cmocka_unit_test(test_l2_frequency_by_table),
	    cmocka_unit_test(test_costs_of_l2_are_kept),
	    cmocka_unit_test_setup_teardown(test_short_lives_count, place_setup, place_teardown),
	    cmocka_unit_test(test_l2_frequency_moves),
	    cmocka_unit_test(test_dirty_pages),
	    cmocka_unit_test(test_skip),
	    cmocka_unit_test(test_bad_files),
	    JOB(test_job_says_why),
	    JOB(test_arguments),
	    JOB(test_if_due),
	    JOB(test_job_learns),
	    JOB(test_relaunch_is_a_failure),
	    JOB(test_job_moves_l2),
	    JOB(test_damaged_file),
	    JOB(test_full_disk),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
