/* SPDX-License-Identifier: BSD-3-Clause */
/* plan_eval: the models one by one, in plain numbers, for scripts. */
#include "plan.h"
#include <math.h>

struct eval {
	struct kedge__plan_input in;
	struct kedge__usage usage;
	const char *mode, *counts, *interval, *segments, *incomplete;
	bool json, background;
	struct kedge__machine machine;
};

#define MODE_OPTION(e)                                                                                                 \
	{                                                                                                              \
		"mode", 0, KEDGE__OPTION_TEXT, &(e)->mode, "sync|async", "how the top level is written"                \
	}

static void print_levels(json_t *o, const char *key, const uint64_t *counts, int n)
{
	json_t *list = kedge__json_array();

	for (int i = 0; i < n; i++)
		kedge__json_add(list, json_integer((json_int_t)counts[i]));
	kedge__json_set(o, key, list);
}

static void print_verdict(json_t *o, const struct kedge__levels *lv, double efficiency)
{
	char text[256];
	const char *reason = kedge__levels_verdict(lv, efficiency, text, sizeof(text));

	kedge__json_bool(o, "feasible", reason == NULL);
	kedge__json_text(o, "reason", reason);
}

static void print_counts(const uint64_t *counts, int n)
{
	for (int i = 0; i < n; i++)
		printf("%s%llu", i > 0 ? "," : ", counts ", (unsigned long long)counts[i]);
}

/* Says so where there is nothing to plan. */
static bool print_if_idle(double interval)
{
	if (isfinite(interval))
		return false;
	printf("no failures are expected: no checkpoint is worth its cost, efficiency 1\n");
	return true;
}

static void print_sync(const struct eval *e, const struct kedge__sync_plan *p)
{
	const struct kedge__levels *lv = &e->machine.async.levels;
	char text[256];
	const char *reason = kedge__levels_verdict(lv, p->expect.efficiency, text, sizeof(text));
	json_t *o;

	if (!e->json && print_if_idle(p->interval))
		return;
	if (!e->json) {
		printf("interval %.6g s", p->interval);
		print_counts(p->counts, lv->count);
		printf(", expected %.9g s for %.9g s of work, efficiency %.6f\n", p->expect.seconds, p->expect.work,
		       p->expect.efficiency);
		if (reason != NULL)
			printf("%s\n", reason);
		return;
	}
	o = kedge__json_object();
	kedge__json_real(o, "interval", p->interval);
	print_levels(o, "counts", p->counts, lv->count);
	kedge__json_real(o, "expected_seconds", p->expect.seconds);
	kedge__json_real(o, "work_seconds", p->expect.work);
	kedge__json_real(o, "efficiency", p->expect.efficiency);
	print_verdict(o, lv, p->expect.efficiency);
	kedge__json_print(o);
}

/* The top level's own cost blocks nobody here, so that it cannot be what makes a job hopeless. */
static struct kedge__levels blocking_levels(const struct kedge__async *as)
{
	struct kedge__levels lv = as->levels;

	lv.cost[lv.count - 1] = lv.cost[lv.count - 2];
	return lv;
}

static void print_async(const struct eval *e, const struct kedge__async_plan *p)
{
	struct kedge__levels lv = blocking_levels(&e->machine.async);
	char text[256];
	const char *reason = kedge__levels_verdict(&lv, p->expect.efficiency, text, sizeof(text));
	json_t *o;

	if (!e->json && print_if_idle(p->interval))
		return;
	if (!e->json) {
		printf("interval %.6g s", p->interval);
		print_counts(p->counts, lv.count - 2);
		printf(
		    ", %llu segments, %llu of them incomplete, expected %.9g s for %.9g s of work, efficiency %.6f\n",
		    (unsigned long long)p->segments, (unsigned long long)p->incomplete, p->expect.seconds,
		    p->expect.work, p->expect.efficiency);
		if (reason != NULL)
			printf("%s\n", reason);
		return;
	}
	o = kedge__json_object();
	kedge__json_real(o, "interval", p->interval);
	kedge__json_uint(o, "segments", p->segments);
	kedge__json_uint(o, "incomplete", p->incomplete);
	if (lv.count > 2)
		print_levels(o, "counts", p->counts, lv.count - 2);
	kedge__json_real(o, "expected_seconds", p->expect.seconds);
	kedge__json_real(o, "work_seconds", p->expect.work);
	kedge__json_real(o, "efficiency", p->expect.efficiency);
	print_verdict(o, &lv, p->expect.efficiency);
	kedge__json_print(o);
}

static int eval_sync(struct eval *e, struct kedge__error *err)
{
	struct kedge__sync_plan p = {0};
	int rc = kedge__plan_quantity(KEDGE__QUANTITY_SECONDS, "interval", e->interval, &p.interval, err);

	if (rc == 0 && (e->segments != NULL || e->incomplete != NULL))
		rc = kedge__error_set(err, KEDGE_E_ARG, 0, "--segments and --incomplete need --mode async");
	if (rc == 0)
		rc = kedge__plan_counts(e->counts, e->machine.async.levels.count, p.counts, err);
	if (rc == 0)
		rc = kedge__sync_expect(&e->machine.async.levels, p.interval, p.counts, &p.expect, err);
	if (rc == 0)
		print_sync(e, &p);
	return rc;
}

static int eval_async(struct eval *e, struct kedge__error *err)
{
	struct kedge__async_plan p = {0};
	int lower = e->machine.async.levels.count - 2;
	int rc = kedge__plan_quantity(KEDGE__QUANTITY_SECONDS, "interval", e->interval, &p.interval, err);

	if (rc == 0)
		rc = kedge__plan_count("segments", e->segments, &p.segments, err);
	if (rc == 0 && lower > 0)
		rc = kedge__plan_counts(e->counts, lower, p.counts, err);
	if (rc == 0 && lower <= 0 && e->counts != NULL)
		rc = kedge__error_set(err, KEDGE_E_ARG, 0, "--counts needs --mode sync, or at least three levels");
	if (rc == 0 && e->incomplete != NULL)
		rc = kedge__plan_count("incomplete", e->incomplete, &p.incomplete, err);
	else if (rc == 0)
		rc = kedge__plan_need_latency(&e->in, &e->machine, err);
	if (rc == 0 && e->incomplete == NULL)
		p.incomplete = kedge__async_incomplete(&e->machine.async, p.interval, p.counts);
	if (rc == 0)
		rc = kedge__async_expect(&e->machine.async, &p, err);
	if (rc == 0)
		print_async(e, &p);
	return rc;
}

static int best(struct eval *e, struct kedge__error *err)
{
	struct kedge__sync_plan sync;
	struct kedge__async_plan async;
	int rc;

	if (!e->background) {
		rc = kedge__sync_best(&e->machine.async.levels, &sync, err);
		if (rc == 0)
			print_sync(e, &sync);
		return rc;
	}
	rc = kedge__plan_need_latency(&e->in, &e->machine, err);
	if (rc == 0)
		rc = kedge__async_best(&e->machine.async, &async, err);
	if (rc == 0)
		print_async(e, &async);
	return rc;
}

static int run(struct eval *e, bool search, int argc, char **argv)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	int first, status, rc;

	e->usage.options = e->in.options;
	e->usage.option_count = e->in.option_count;
	if (!kedge__options_parse(&e->usage, argc, argv, &first, &status))
		return status;
	rc = kedge__plan_mode(e->mode, &e->background, &err);
	if (rc == 0)
		rc = kedge__plan_input_resolve(&e->in, e->background, &e->machine, &err);
	if (rc == 0)
		rc = search ? best(e, &err) : e->background ? eval_async(e, &err) : eval_sync(e, &err);
	return rc == 0 ? KEDGE__EXIT_OK : kedge__tool_fail(e->usage.command, &err, "cannot evaluate");
}

int kedge__plan_eval(int argc, char **argv)
{
	struct eval e = {
	    .usage = {.command = "kedge plan eval",
		      .about = "Prints the expected time of one period and the efficiency of a given plan.",
		      .example = "kedge plan eval --mode sync --rates 1e-5,1e-6 --costs 60,600 --restarts 60,600 "
				 "--counts 20,1 --interval 3600 --json"}};
	const struct kedge__option more[] = {
	    MODE_OPTION(&e),
	    {"interval", 0, KEDGE__OPTION_TEXT, &e.interval, "TIME", "computation between checkpoints"},
	    {"counts", 0, KEDGE__OPTION_TEXT, &e.counts, "N,...",
	     "checkpoints of each level between two of a higher one; 1 for the top level"},
	    {"segments", 0, KEDGE__OPTION_TEXT, &e.segments, "N", "async: checkpoints per period"},
	    {"incomplete", 0, KEDGE__OPTION_TEXT, &e.incomplete, "N",
	     "async: segments until the copy is finished (default: from latency)"},
	    KEDGE__OPTION_JSON(&e.json),
	};

	kedge__plan_input_init(&e.in, more, KEDGE__COUNT(more));
	return run(&e, false, argc, argv);
}

int kedge__plan_best(int argc, char **argv)
{
	struct eval e = {.usage = {.command = "kedge plan best",
				   .about = "Finds the interval and the counts with the best efficiency.",
				   .example =
				       "kedge plan best --mode async --rates 1e-5,1e-6 --costs 60 --restarts 60,600 "
				       "--latency 600 --alpha 0.01 --json"}};
	const struct kedge__option more[] = {MODE_OPTION(&e), KEDGE__OPTION_JSON(&e.json)};

	kedge__plan_input_init(&e.in, more, KEDGE__COUNT(more));
	return run(&e, true, argc, argv);
}

struct coalesce {
	const char *full, *cost, *restore, *interval, *mtbf;
	bool json;
};

static int coalesce(const struct coalesce *c, struct kedge__error *err)
{
	double full, cost, restore, interval, mtbf, p;
	uint64_t n;
	json_t *o;
	int rc = kedge__plan_quantity(KEDGE__QUANTITY_SECONDS, "full", c->full, &full, err);

	if (rc == 0)
		rc = kedge__plan_quantity(KEDGE__QUANTITY_SECONDS, "delta-cost", c->cost, &cost, err);
	if (rc == 0)
		rc = kedge__plan_quantity(KEDGE__QUANTITY_SECONDS, "delta-restore", c->restore, &restore, err);
	if (rc == 0)
		rc = kedge__plan_quantity(KEDGE__QUANTITY_SECONDS, "interval", c->interval, &interval, err);
	if (rc == 0)
		rc = kedge__plan_quantity(KEDGE__QUANTITY_SECONDS, "mtbf", c->mtbf, &mtbf, err);
	if (rc == 0 && !(mtbf > 0))
		rc = kedge__error_set(err, KEDGE_E_ARG, 0, "--mtbf must be greater than 0");
	if (rc != 0)
		return rc;
	n = kedge__rex_coalesce(full, cost, restore, interval, mtbf);
	p = -expm1(-interval / mtbf);
	if (!c->json && n == UINT64_MAX)
		printf("never: deltas cost nothing at a restart\n");
	else if (!c->json)
		printf("write a full checkpoint after %llu deltas\n", (unsigned long long)n);
	if (!c->json)
		return 0;
	o = kedge__json_object();
	kedge__json_set(o, "n_min", n == UINT64_MAX ? json_null() : json_integer((json_int_t)n));
	kedge__json_real(o, "failure_probability", p);
	kedge__json_print(o);
	return 0;
}

int kedge__plan_coalesce(int argc, char **argv)
{
	struct coalesce c = {0};
	const struct kedge__option options[] = {
	    {"full", 0, KEDGE__OPTION_TEXT, &c.full, "TIME", "time to write a full L2 checkpoint"},
	    {"delta-cost", 0, KEDGE__OPTION_TEXT, &c.cost, "TIME", "time to write a delta"},
	    {"delta-restore", 0, KEDGE__OPTION_TEXT, &c.restore, "TIME", "time that each delta adds to a restart"},
	    {"interval", 0, KEDGE__OPTION_TEXT, &c.interval, "TIME", "time between L2 checkpoints"},
	    {"mtbf", 0, KEDGE__OPTION_TEXT, &c.mtbf, "TIME", "mean time between failures"},
	    KEDGE__OPTION_JSON(&c.json),
	};
	const struct kedge__usage usage = {
	    .command = "kedge plan coalesce",
	    .about = "Prints after how many deltas a full L2 checkpoint pays off (REX, section 3.4).",
	    .options = options,
	    .option_count = KEDGE__COUNT(options),
	    .example = "kedge plan coalesce --full 60 --delta-cost 30 --delta-restore 15 --interval 854 --mtbf 10000"};
	struct kedge__error err = KEDGE__ERROR_INIT;
	int first, status;

	if (!kedge__options_parse(&usage, argc, argv, &first, &status))
		return status;
	if (coalesce(&c, &err) != 0)
		return kedge__tool_fail(usage.command, &err, "cannot evaluate");
	return KEDGE__EXIT_OK;
}
