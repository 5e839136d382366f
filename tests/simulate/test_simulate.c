/* SPDX-License-Identifier: BSD-3-Clause */
/* The event simulator against the models, which it shares no equation with. */
#include "../plan/check.h"
#include "../plan/vectors.h"
#include "simulate/simulate.h"

#define RUNS 600

static int points, outside;
static double worst;

/* Each point must lie in a 99 % interval; of a hundred right ones, one does not. */
static void compare(const char *id, const struct kedge__sim *sim, double efficiency)
{
	struct kedge__sim_result r;
	double z;

	assert_int_equal(kedge__sim_run(sim, NULL, &r, NULL), 0);
	assert_int_equal(r.unfinished, 0);
	z = (r.seconds - r.work / efficiency) / r.error;
	points++;
	outside += !(efficiency > r.efficiency_low && efficiency < r.efficiency_high);
	worst = fmax(worst, fabs(z));
	if (fabs(z) > 4)
		fail_msg("%s: efficiency %.6f simulated, %.6f expected, z = %.2f", id, r.efficiency, efficiency, z);
}

static struct kedge__sim make_sim(const struct kedge__levels *lv, double interval, struct kedge__failure_model *m)
{
	struct kedge__sim sim = {.interval = interval, .work = 4e5, .failures = m, .runs = RUNS, .seed = 1};

	sim.machine.levels = *lv;
	*m = (struct kedge__failure_model){.levels = lv->count};
	memcpy(m->rate, lv->rate, sizeof(m->rate));
	return sim;
}

static void compare_sync(const char *id, const struct kedge__levels *lv, double t, const uint64_t *counts)
{
	struct kedge__failure_model m;
	struct kedge__sim sim = make_sim(lv, t, &m);
	struct kedge__expectation e;

	memcpy(sim.counts, counts, (size_t)lv->count * sizeof(*counts));
	assert_int_equal(kedge__sync_expect(lv, t, counts, &e, NULL), 0);
	compare(id, &sim, e.efficiency);
}

static void compare_async(const char *id, const struct kedge__async *as, struct kedge__async_plan *plan)
{
	struct kedge__failure_model m;
	struct kedge__sim sim = make_sim(&as->levels, plan->interval, &m);

	sim.background = true;
	sim.machine = *as;
	sim.segments = plan->segments;
	sim.incomplete = plan->incomplete;
	memcpy(sim.counts, plan->counts, sizeof(sim.counts));
	assert_int_equal(kedge__async_expect(as, plan, NULL), 0);
	compare(id, &sim, plan->expect.efficiency);
}

static void compare_vectors(void)
{
	for (size_t i = 0; i < KEDGE__COUNT(sync_vectors); i++)
		compare_sync(sync_vectors[i].id, &sync_vectors[i].levels, sync_vectors[i].t, sync_vectors[i].counts);
	for (size_t i = 0; i < KEDGE__COUNT(async_vectors); i++) {
		struct kedge__async as;
		struct kedge__async_plan plan;

		async_machine(&async_vectors[i], &as, &plan);
		compare_async(async_vectors[i].id, &as, &plan);
	}
}

/* Around the optimum of each machine. */
static void compare_grid(void)
{
	static const double machines[][4] = {
	    {SET_R, 1, 1}, {SET_B, 1, 1}, {SET_R, 2, 2}, {SET_B, 10, 1}, {SET_B, 2, 10}};
	static const double stretch[] = {0.5, 1, 2};

	for (size_t i = 0; i < KEDGE__COUNT(machines); i++) {
		struct kedge__async as = tsubame(machines[i][0], machines[i][1], machines[i][2], machines[i][3]);
		struct kedge__sync_plan sync;
		struct kedge__async_plan async;

		assert_int_equal(kedge__sync_best(&as.levels, &sync, NULL), 0);
		assert_int_equal(kedge__async_best(&as, &async, NULL), 0);
		for (size_t k = 0; k < KEDGE__COUNT(stretch); k++) {
			struct kedge__async_plan plan = async;

			compare_sync("sync grid", &as.levels, sync.interval * stretch[k], sync.counts);
			plan.interval = async.interval * stretch[k];
			compare_async("async grid", &as, &plan);
			plan.segments += 3;
			compare_async("async grid, longer period", &as, &plan);
		}
	}
}

static void compare_many_levels(void)
{
	static const struct kedge__levels four = {4, {1e-4, 3e-5, 2e-5, 5e-6}, {5, 30, 50, 300}, {6, 40, 60, 500}};
	struct kedge__async three = {
	    .levels = {3, {1e-4, 2e-5, 1e-5}, {5, 30, 0}, {6, 40, 500}}, .alpha = 0.1, .init_cost = 7};

	for (uint64_t n = 0; n < 3; n++) {
		struct kedge__async_plan plan = {
		    .interval = 400, .counts = {n}, .segments = 5, .incomplete = 1 + 2 * n};

		compare_sync("four levels", &four, 400, (uint64_t[]){n, 2 - n, 1 + n, 1});
		compare_async("async with three levels", &three, &plan);
	}
}

static void test_models(void **state)
{
	(void)state;
	compare_vectors();
	compare_grid();
	compare_many_levels();
	print_message("%d points, %d outside their 99 %% interval, largest |z| %.2f\n", points, outside, worst);
	assert_true(points >= 60);
	assert_true(outside <= 2);
}

static struct kedge__sim example(struct kedge__failure_model *m)
{
	struct kedge__async as = tsubame(SET_R, 2, 1);
	struct kedge__sim sim = make_sim(&as.levels, 2050.4, m);

	sim.background = true;
	sim.machine = as;
	sim.segments = sim.incomplete = 3;
	sim.runs = 300;
	return sim;
}

static void test_threads_do_not_matter(void **state)
{
	struct kedge__failure_model m;
	struct kedge__sim sim = example(&m);
	struct kedge__sim_result one, three, other;
	struct kedge__pool *pool;

	(void)state;
	assert_int_equal(kedge__pool_new(3, &pool, NULL), 0);
	assert_int_equal(kedge__sim_run(&sim, NULL, &one, NULL), 0);
	assert_int_equal(kedge__sim_run(&sim, pool, &three, NULL), 0);
	sim.seed = 2;
	assert_int_equal(kedge__sim_run(&sim, pool, &other, NULL), 0);
	kedge__pool_free(pool);
	assert_memory_equal(&one, &three, sizeof(one));
	assert_true(one.seconds != other.seconds);
}

/* To the last bit, as first simulated on x86-64. */
static void test_same_everywhere(void **state)
{
	struct kedge__failure_model m;
	struct kedge__sim sim = example(&m);
	struct kedge__sim_result r;
	char text[64];

	(void)state;
	sim.runs = 20;
	assert_int_equal(kedge__sim_run(&sim, NULL, &r, NULL), 0);
	snprintf(text, sizeof(text), "%.17g %.17g", r.seconds, r.error);
	assert_string_equal(text, "474894.05768310878 5721.3885324235325");
}

static void test_times_add_up(void **state)
{
	struct kedge__failure_model m;
	struct kedge__sim sim = example(&m);
	struct kedge__sim_result r;

	(void)state;
	assert_int_equal(kedge__sim_run(&sim, NULL, &r, NULL), 0);
	check_relative("sum", r.work + r.checkpoint_seconds + r.restart_seconds + r.lost_seconds, r.seconds, 1e-9);
	check_relative("level 1 failures", r.failures[0], r.seconds * m.rate[0], 0.05);
	check_relative("level 2 failures", r.failures[1], r.seconds * m.rate[1], 0.15);
	assert_true(r.checkpoints >= r.work / sim.interval && r.flushes > 0);
}

/* The sensitivity of the model to what happens to a copy that is under way when a node fails. */
static void test_flush_modes(void **state)
{
	struct kedge__failure_model m;
	struct kedge__sim sim = example(&m);
	struct kedge__sim_result segments, by_clock, restart;

	(void)state;
	assert_int_equal(kedge__sim_run(&sim, NULL, &segments, NULL), 0);
	sim.flush = KEDGE__FLUSH_CLOCK;
	assert_int_equal(kedge__sim_run(&sim, NULL, &by_clock, NULL), 0);
	sim.flush = KEDGE__FLUSH_RESTART;
	assert_int_equal(kedge__sim_run(&sim, NULL, &restart, NULL), 0);
	check_near("by the clock", by_clock.efficiency, segments.efficiency, 0.01);
	assert_true(restart.efficiency < by_clock.efficiency && restart.flushes < by_clock.flushes);
}

static void test_queue(void **state)
{
	struct kedge__flush queue = {
	    .nodes = 1408, .size = 29e9, .servers = 32, .server_rate = 1.6e9, .pfs_rate = 6.4e9};
	struct kedge__failure_model m;
	struct kedge__sim sim = example(&m);
	struct kedge__sim_result fixed, drawn;

	(void)state;
	sim.flush = KEDGE__FLUSH_CLOCK;
	assert_int_equal(kedge__sim_run(&sim, NULL, &fixed, NULL), 0);
	sim.queue = &queue;
	assert_int_equal(kedge__sim_run(&sim, NULL, &drawn, NULL), 0);
	check_relative("equal nodes take the latency", drawn.seconds, fixed.seconds, 1e-9);
	queue.variation = 0.5;
	assert_int_equal(kedge__sim_run(&sim, NULL, &drawn, NULL), 0);
	assert_true(drawn.flushes_skipped > fixed.flushes_skipped); /* the slowest server often misses the period */
}

static void test_cold_start(void **state)
{
	struct kedge__levels lv = {1, {0}, {10}, {10}};
	struct kedge__failure_model m;
	struct kedge__sim sim = make_sim(&lv, 100, &m);
	struct kedge__sim_result r;

	(void)state;
	sim.counts[0] = 1;
	sim.work = 1000;
	sim.runs = 2;
	sim.cold = true;
	assert_int_equal(kedge__sim_run(&sim, NULL, &r, NULL), 0);
	check_relative("no checkpoint after the last interval", r.seconds, 1000 + 9 * 10, 1e-12);
	sim.cold = false;
	assert_int_equal(kedge__sim_run(&sim, NULL, &r, NULL), 0);
	check_relative("steady state", r.seconds, 1000 + 10 * 10, 1e-12);
}

static void test_trace(void **state)
{
	static const struct kedge__failure trace[] = {{250, 1}, {1000, 1}};
	struct kedge__levels lv = {1, {0}, {10}, {5}};
	struct kedge__failure_model m = {
	    .kind = KEDGE__FAILURES_TRACE, .levels = 1, .trace = trace, .trace_count = 2, .trace_span = 1e9};
	struct kedge__sim sim = {.interval = 100, .counts = {1}, .work = 400, .failures = &m, .runs = 1, .seed = 1};
	struct kedge__sim_result r;

	(void)state;
	sim.machine.levels = lv;
	/* 100+10, 100+10, 30 lost, 5 to restart, then two intervals. */
	assert_int_equal(kedge__sim_run(&sim, NULL, &r, NULL), 0);
	check_relative("by hand", r.seconds, 250 + 5 + 220, 1e-12);
	check_relative("lost", r.lost_seconds, 30, 1e-9);
	assert_true(isinf(r.error));
}

static void test_weibull_needs_less_when_clustered(void **state)
{
	struct kedge__failure_model m;
	struct kedge__sim sim = example(&m);
	struct kedge__sim_result exponential, weibull;

	(void)state;
	assert_int_equal(kedge__sim_run(&sim, NULL, &exponential, NULL), 0);
	m.kind = KEDGE__FAILURES_WEIBULL;
	m.shape = 1;
	assert_int_equal(kedge__sim_run(&sim, NULL, &weibull, NULL), 0);
	check_near("shape 1", weibull.efficiency, exponential.efficiency, 4 * exponential.error / exponential.seconds);
}

static void test_unfinished(void **state)
{
	struct kedge__levels lv = {1, {0.1}, {100}, {100}};
	struct kedge__failure_model m;
	struct kedge__sim sim = make_sim(&lv, 100, &m);
	struct kedge__sim_result r;

	(void)state;
	sim.counts[0] = 1;
	sim.runs = 2;
	sim.limit = 1e5;
	assert_int_equal(kedge__sim_run(&sim, NULL, &r, NULL), 0);
	assert_int_equal(r.unfinished, 2);
}

static void test_refused(void **state)
{
	struct kedge__failure_model m;
	struct kedge__sim sim = example(&m);
	struct kedge__sim_result r;
	struct kedge__error err = KEDGE__ERROR_INIT;

	(void)state;
	sim.incomplete = 4;
	check_error(kedge__sim_run(&sim, NULL, &r, &err), &err, KEDGE_E_ARG,
		    "4 incomplete segments in a period of 3: a copy must finish before the next one begins");
	sim.runs = 0;
	check_error(kedge__sim_run(&sim, NULL, &r, &err), &err, KEDGE_E_ARG, "0 runs: it must be 1 to 4294967296");
	sim.interval = 1e-12;
	check_error(kedge__sim_run(&sim, NULL, &r, &err), &err, KEDGE_E_ARG,
		    "the work of 400000 s has 4e+17 intervals: it must have 1 to 1e12");
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_models),
	    cmocka_unit_test(test_threads_do_not_matter),
	    cmocka_unit_test(test_same_everywhere),
	    cmocka_unit_test(test_times_add_up),
	    cmocka_unit_test(test_flush_modes),
	    cmocka_unit_test(test_queue),
	    cmocka_unit_test(test_cold_start),
	    cmocka_unit_test(test_trace),
	    cmocka_unit_test(test_weibull_needs_less_when_clustered),
	    cmocka_unit_test(test_unfinished),
	    cmocka_unit_test(test_refused),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
