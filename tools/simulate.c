/* SPDX-License-Identifier: BSD-3-Clause */
/* simulate: a job with failures, many times over, compared with the models. */
#include "plan.h"
#include <math.h>

struct tool {
	struct kedge__plan_input in;
	struct kedge__usage usage;
	const char *mode, *counts, *interval, *segments, *incomplete, *failures, *shape, *flush, *variation, *limit;
	uint64_t runs, seed, threads;
	bool per_node, queue, cold, json;
	/* made of them */
	struct kedge__machine machine;
	struct kedge__failure_model model;
	struct kedge__failure *trace;
	struct kedge__sim sim;
	double analytic; /* efficiency, or 0: there is no model for this */
};

int kedge__failures_read(const char *kind, const char *shape, uint64_t nodes, struct kedge__failure_model *model,
			 struct kedge__failure **trace, struct kedge__error *err)
{
	int rc = 0;

	model->shape = 0.7;
	if (kind != NULL && strcmp(kind, "weibull") == 0) {
		model->kind = KEDGE__FAILURES_WEIBULL;
		model->nodes = nodes;
		if (shape != NULL)
			rc = kedge__plan_quantity(KEDGE__QUANTITY_NUMBER, "shape", shape, &model->shape, err);
		return rc;
	}
	if (shape != NULL || nodes > 0)
		return kedge__error_set(err, KEDGE_E_ARG, 0, "--shape and --per-node need --failures weibull");
	if (kind == NULL || strcmp(kind, "exponential") == 0)
		return 0;
	model->kind = KEDGE__FAILURES_TRACE;
	rc = kedge__failure_trace_load(kind, model->levels, trace, &model->trace_count, &model->trace_span, err);
	model->trace = *trace;
	return rc;
}

static int read_failures(struct tool *t, struct kedge__error *err)
{
	const struct kedge__levels *lv = &t->machine.async.levels;

	t->model = (struct kedge__failure_model){.levels = lv->count};
	memcpy(t->model.rate, lv->rate, sizeof(t->model.rate));
	if (t->per_node && !(t->machine.flush.nodes >= 1))
		return kedge__error_set(err, KEDGE_E_ARG, 0, "--per-node needs --nodes");
	return kedge__failures_read(t->failures, t->shape, t->per_node ? (uint64_t)t->machine.flush.nodes : 0,
				    &t->model, &t->trace, err);
}

/* Whole seconds (milliseconds for short ones): an optimum's last digits depend on the machine's libm, a simulation must
 * not. */
static double round_up(double interval)
{
	return interval >= 100 ? ceil(interval) : ceil(interval * 1000) / 1000;
}

static int plan_sync(struct tool *t, struct kedge__error *err)
{
	const struct kedge__levels *lv = &t->machine.async.levels;
	struct kedge__sync_plan best;
	struct kedge__expectation e;
	int rc = 0;

	if (t->segments != NULL || t->incomplete != NULL)
		return kedge__error_set(err, KEDGE_E_ARG, 0, "--segments and --incomplete are only for async");
	if (t->interval == NULL || t->counts == NULL)
		rc = kedge__sync_best(lv, &best, err);
	if (rc == 0 && t->interval != NULL)
		rc = kedge__plan_quantity(KEDGE__QUANTITY_SECONDS, "interval", t->interval, &t->sim.interval, err);
	else if (rc == 0)
		t->sim.interval = isinf(best.interval) ? t->machine.work : round_up(best.interval);
	if (rc == 0 && t->counts != NULL)
		rc = kedge__plan_counts(t->counts, lv->count, t->sim.counts, err);
	else if (rc == 0)
		memcpy(t->sim.counts, best.counts, sizeof(best.counts));
	if (rc == 0)
		rc = kedge__sync_expect(lv, t->sim.interval, t->sim.counts, &e, err);
	if (rc == 0)
		t->analytic = e.efficiency;
	return rc;
}

static int plan_pattern(struct tool *t, const struct kedge__async_plan *best, struct kedge__async_plan *p,
			struct kedge__error *err)
{
	int lower = t->machine.async.levels.count - 2, rc = 0;

	*p = *best;
	if (t->counts != NULL && lower > 0)
		rc = kedge__plan_counts(t->counts, lower, p->counts, err);
	else if (t->counts != NULL)
		rc = kedge__error_set(err, KEDGE_E_ARG, 0, "--counts is only for sync, or for at least three levels");
	if (rc == 0 && t->interval != NULL)
		rc = kedge__plan_quantity(KEDGE__QUANTITY_SECONDS, "interval", t->interval, &p->interval, err);
	else if (rc == 0)
		p->interval = isinf(best->interval) ? t->machine.work : round_up(best->interval);
	if (rc == 0 && t->incomplete != NULL)
		rc = kedge__plan_count("incomplete", t->incomplete, &p->incomplete, err);
	else if (rc == 0 && p->interval > 0)
		p->incomplete = kedge__async_incomplete(&t->machine.async, p->interval, p->counts);
	if (rc == 0 && t->segments != NULL)
		rc = kedge__plan_count("segments", t->segments, &p->segments, err);
	else if (rc == 0)
		p->segments = KEDGE__MAX(p->segments, p->incomplete);
	return rc;
}

static int plan_async(struct tool *t, struct kedge__error *err)
{
	struct kedge__async_plan best, p;
	int rc = t->incomplete == NULL ? kedge__plan_need_latency(&t->in, &t->machine, err) : 0;

	if (rc == 0)
		rc = kedge__async_best(&t->machine.async, &best, err);
	if (rc == 0)
		rc = plan_pattern(t, &best, &p, err);
	if (rc == 0)
		rc = kedge__async_expect(&t->machine.async, &p, err);
	if (rc != 0)
		return rc;
	t->sim.interval = p.interval;
	t->sim.segments = p.segments;
	t->sim.incomplete = p.incomplete;
	memcpy(t->sim.counts, p.counts, sizeof(p.counts));
	t->analytic = p.expect.efficiency;
	return 0;
}

static int read_flush(struct tool *t, struct kedge__error *err)
{
	static const char *const words[] = {"segments", "clock", "restart"};
	size_t i = 0;

	if (!t->sim.background && (t->flush != NULL || t->queue || t->variation != NULL))
		return kedge__error_set(err, KEDGE_E_ARG, 0,
					"--flush, --queue and --size-variation are only for async");
	if (t->flush != NULL)
		while (i < KEDGE__COUNT(words) && strcmp(words[i], t->flush) != 0)
			i++;
	else if (t->queue)
		i = KEDGE__FLUSH_CLOCK;
	if (i == KEDGE__COUNT(words))
		return kedge__error_set(err, KEDGE_E_ARG, 0, "--flush must be segments, clock or restart, not '%s'",
					t->flush);
	t->sim.flush = (enum kedge__flush_mode)i;
	if (!t->queue && t->variation == NULL)
		return 0;
	if (!t->queue)
		return kedge__error_set(err, KEDGE_E_ARG, 0, "--size-variation needs --queue");
	if (i == KEDGE__FLUSH_SEGMENTS)
		return kedge__error_set(
		    err, KEDGE_E_ARG, 0,
		    "--queue and --flush segments both set the time of a copy; give only one of them");
	if (!(t->machine.flush.pfs_rate > 0) || !(t->machine.flush.size > 0))
		return kedge__error_set(err, KEDGE_E_ARG, 0, "--queue needs --nodes, --size and --pfs");
	t->sim.queue = &t->machine.flush;
	return t->variation == NULL ? 0
				    : kedge__plan_quantity(KEDGE__QUANTITY_NUMBER, "size-variation", t->variation,
							   &t->machine.flush.variation, err);
}

static int prepare(struct tool *t, bool background, struct kedge__error *err)
{
	int rc = kedge__plan_input_resolve(&t->in, background, &t->machine, err);

	t->sim = (struct kedge__sim){
	    .background = background, .failures = &t->model, .cold = t->cold, .runs = t->runs, .seed = t->seed};
	if (rc == 0)
		rc = read_failures(t, err);
	if (rc == 0)
		rc = read_flush(t, err);
	if (rc == 0 && t->limit != NULL)
		rc = kedge__plan_quantity(KEDGE__QUANTITY_SECONDS, "limit", t->limit, &t->sim.limit, err);
	if (rc == 0)
		rc = background ? plan_async(t, err) : plan_sync(t, err);
	t->sim.machine = t->machine.async;
	t->sim.work = t->machine.work;
	if (t->model.kind != KEDGE__FAILURES_EXPONENTIAL || t->cold || t->sim.flush != KEDGE__FLUSH_SEGMENTS)
		t->analytic = 0;
	return rc;
}

static void print_json(const struct tool *t, const struct kedge__sim_result *r)
{
	json_t *o = kedge__json_object(), *failures = kedge__json_array(), *counts = kedge__json_array();

	kedge__json_text(o, "mode", t->sim.background ? "async" : "sync");
	kedge__json_uint(o, "runs", r->runs);
	kedge__json_uint(o, "unfinished", r->unfinished);
	kedge__json_uint(o, "seed", t->seed);
	kedge__json_real(o, "interval", t->sim.interval);
	for (int i = 0; i < t->model.levels; i++) {
		kedge__json_add(failures, json_real(r->failures[i]));
		kedge__json_add(counts, json_integer((json_int_t)t->sim.counts[i]));
	}
	if (t->sim.background) {
		json_decref(counts);
		kedge__json_uint(o, "segments", t->sim.segments);
		kedge__json_uint(o, "incomplete", t->sim.incomplete);
	} else {
		kedge__json_set(o, "counts", counts);
	}
	kedge__json_real(o, "work_seconds", r->work);
	kedge__json_real(o, "mean_seconds", r->seconds);
	kedge__json_real(o, "standard_error", r->error);
	kedge__json_real(o, "low_99", r->low);
	kedge__json_real(o, "high_99", r->high);
	kedge__json_real(o, "efficiency", r->efficiency);
	kedge__json_real(o, "efficiency_low_99", r->efficiency_low);
	kedge__json_real(o, "efficiency_high_99", r->efficiency_high);
	kedge__json_set(o, "failures", failures);
	kedge__json_real(o, "checkpoints", r->checkpoints);
	kedge__json_real(o, "copies", r->flushes);
	kedge__json_real(o, "copies_skipped", r->flushes_skipped);
	kedge__json_real(o, "checkpoint_seconds", r->checkpoint_seconds);
	kedge__json_real(o, "restart_seconds", r->restart_seconds);
	kedge__json_real(o, "lost_seconds", r->lost_seconds);
	if (t->analytic > 0) {
		kedge__json_real(o, "analytic_efficiency", t->analytic);
		kedge__json_real(o, "analytic_seconds", r->work / t->analytic);
		kedge__json_bool(o, "agrees", t->analytic >= r->efficiency_low && t->analytic <= r->efficiency_high);
	}
	kedge__json_print(o);
}

static void print_text(const struct tool *t, const struct kedge__sim_result *r)
{
	double scale = 100 / r->seconds;

	printf("%llu runs of %.6g s of work, a checkpoint every %.6g s", (unsigned long long)r->runs, r->work,
	       t->sim.interval);
	if (t->sim.background)
		printf(", 1 of %llu copied to the top level\n", (unsigned long long)t->sim.segments);
	else
		printf("\n");
	printf("run time    %.6g s, 99 %% confidence %.6g .. %.6g s\n", r->seconds, r->low, r->high);
	printf("efficiency  %.5f, 99 %% confidence %.5f .. %.5f\n", r->efficiency, r->efficiency_low,
	       r->efficiency_high);
	if (t->analytic > 0)
		printf("model       %.5f, %s\n", t->analytic,
		       t->analytic >= r->efficiency_low && t->analytic <= r->efficiency_high ? "within the interval"
											     : "outside the interval");
	printf("time        %.2f %% work, %.2f %% checkpoints, %.2f %% restarts, %.2f %% repeated or slowed down\n",
	       r->work * scale, r->checkpoint_seconds * scale, r->restart_seconds * scale, r->lost_seconds * scale);
	printf("failures   ");
	for (int i = 0; i < t->model.levels; i++)
		printf(" %.4g of level %d%s", r->failures[i], i + 1, i + 1 < t->model.levels ? "," : " per run\n");
	if (t->sim.background)
		printf("copies      %.4g per run, %.4g skipped because one was still running\n", r->flushes,
		       r->flushes_skipped);
	if (r->unfinished > 0)
		printf("unfinished  %llu runs were abandoned: the mean is too low\n",
		       (unsigned long long)r->unfinished);
}

static int make_pool(uint64_t threads, struct kedge__pool **pool, struct kedge__error *err)
{
	struct kedge__job_settings any = {.threads = (int64_t)KEDGE__MIN(threads, 1024)};

	return kedge__pool_new(kedge__tool_threads(&any), pool, err);
}

static int run_job(struct tool *t, bool background, struct kedge__error *err)
{
	struct kedge__sim_result r;
	struct kedge__pool *pool = NULL;
	int rc = prepare(t, background, err);

	if (rc == 0)
		rc = make_pool(t->threads, &pool, err);
	if (rc == 0)
		rc = kedge__sim_run(&t->sim, pool, &r, err);
	kedge__pool_free(pool);
	kedge__free(t->trace);
	if (rc == 0 && t->json)
		print_json(t, &r);
	else if (rc == 0)
		print_text(t, &r);
	return rc;
}

#define COMMON_OPTIONS(t)                                                                                              \
	{"runs", 0, KEDGE__OPTION_UINT, &(t)->runs, "N", "runs (default: 10000)"},                                     \
	    {"seed",     0,   KEDGE__OPTION_UINT,                                                                      \
	     &(t)->seed, "N", "the same seed gives the same result everywhere (default: 1)"},                          \
	    {"threads",     0,   KEDGE__OPTION_UINT,                                                                   \
	     &(t)->threads, "N", "threads (default: one per core); the result does not depend on it"},                 \
	    KEDGE__OPTION_JSON(&(t)->json)

static int simulate_job(int argc, char **argv, bool background)
{
	struct tool t = {.usage = {.command = background ? "kedge simulate async" : "kedge simulate sync",
				   .about =
				       "Simulates a job with multi-level checkpoints. Without --interval and the other "
				       "options of a plan,\nthe best plan is simulated.",
				   .example = "kedge simulate async -m tsubame2 --failure 10 --runs 10000"},
			 .runs = 10000,
			 .seed = 1};
	const struct kedge__option more[] = {
	    {"interval", 0, KEDGE__OPTION_TEXT, &t.interval, "TIME", "computation between checkpoints"},
	    {"counts", 0, KEDGE__OPTION_TEXT, &t.counts, "N,...",
	     "checkpoints of each level between two of a higher one"},
	    {"segments", 0, KEDGE__OPTION_TEXT, &t.segments, "N", "async: checkpoints per period"},
	    {"incomplete", 0, KEDGE__OPTION_TEXT, &t.incomplete, "N", "async: segments until the copy is finished"},
	    {"failures", 0, KEDGE__OPTION_TEXT, &t.failures, "KIND",
	     "exponential, weibull, or a file of failure times"},
	    {"shape", 0, KEDGE__OPTION_TEXT, &t.shape, "X", "shape of the Weibull distribution (default: 0.7)"},
	    {"per-node", 0, KEDGE__OPTION_FLAG, &t.per_node, NULL,
	     "each node has its own Weibull process, begun long ago"},
	    {"flush", 0, KEDGE__OPTION_TEXT, &t.flush, "HOW",
	     "when a copy is finished: segments (default), clock, restart"},
	    {"queue", 0, KEDGE__OPTION_FLAG, &t.queue, NULL, "copies go through the queues of staging servers"},
	    {"size-variation", 0, KEDGE__OPTION_TEXT, &t.variation, "X",
	     "variation of node sizes: standard deviation / mean"},
	    {"cold", 0, KEDGE__OPTION_FLAG, &t.cold, NULL, "begin without earlier checkpoints, end without a last one"},
	    {"limit", 0, KEDGE__OPTION_TEXT, &t.limit, "TIME",
	     "abandon a run after this time (default: 10000 times its work)"},
	    COMMON_OPTIONS(&t),
	};
	struct kedge__error err = KEDGE__ERROR_INIT;
	int first, status;

	kedge__plan_input_init(&t.in, more, KEDGE__COUNT(more));
	t.usage.options = t.in.options;
	t.usage.option_count = t.in.option_count;
	if (!kedge__options_parse(&t.usage, argc, argv, &first, &status))
		return status;
	if (run_job(&t, background, &err) != 0)
		return kedge__tool_fail(t.usage.command, &err, "cannot simulate");
	return KEDGE__EXIT_OK;
}

static int simulate_sync(int argc, char **argv)
{
	return simulate_job(argc, argv, false);
}

static int simulate_async(int argc, char **argv)
{
	return simulate_job(argc, argv, true);
}

int kedge__tool_simulate(int argc, char **argv)
{
	static const struct kedge__tool modes[] = {
	    {"sync", "checkpoints of every level block the job", simulate_sync},
	    {"async", "the top level is written in the background", simulate_async},
	    {"rex", "increments on L1, coalesced into L2 by a thread", kedge__simulate_rex},
	    {"pccr", "processes that compress against a shared file system", kedge__simulate_pccr},
	    {"flush", "one copy of all nodes through staging servers", kedge__simulate_flush},
	};

	if (argc < 2 || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
		printf("usage: kedge simulate MODE [OPTION]...\n\nSimulate a job with failures, event by event, many "
		       "times over.\n\nmodes:\n");
		for (size_t i = 0; i < KEDGE__COUNT(modes); i++)
			printf("  %-8s %s\n", modes[i].name, modes[i].summary);
		printf("\n'kedge simulate MODE --help' lists the options of a mode.\n\nexample:\n"
		       "  kedge simulate async -m tsubame2 --failure 10 --runs 10000\n");
		return argc < 2 ? KEDGE__EXIT_USAGE : KEDGE__EXIT_OK;
	}
	return kedge__tool_dispatch("kedge simulate", modes, KEDGE__COUNT(modes), argc - 1, argv + 1);
}
