/* SPDX-License-Identifier: BSD-3-Clause */
/* plan: how often to checkpoint, to which level, and what it will cost. */
#include "plan.h"
#include <math.h>

struct tool {
	struct kedge__plan_input in;
	struct kedge__usage usage;
	struct kedge__text_list sweeps;
	const char *required, *svg, *title;
	bool bars, json;
};

/* One level: what remains if only the top level is used. */
static struct kedge__levels top_level(const struct kedge__levels *all)
{
	int top = all->count - 1;

	return (struct kedge__levels){1, {kedge__levels_rate(all)}, {all->cost[top]}, {all->restart[top]}};
}

/* What blocks the job if the top level is written in the background. */
static struct kedge__levels blocking_levels(const struct kedge__levels *all)
{
	struct kedge__levels lv = *all;

	lv.cost[lv.count - 1] = lv.cost[lv.count - 2];
	return lv;
}

static int top_only(const struct kedge__machine *m, struct kedge__sync_plan *out, struct kedge__error *err)
{
	struct kedge__levels lv = top_level(&m->async.levels);

	return kedge__sync_best(&lv, out, err);
}

/* With the staging nodes taken from the machine: what all nodes together achieve. */
static double staging_value(const struct kedge__machine_text *text, double n, double nodes)
{
	struct kedge__machine_text with;
	struct kedge__machine m;
	struct kedge__async_plan plan;
	bool good;

	if (kedge__plan_with(text, KEDGE__MACHINE_STAGING, n, &with, NULL) != 0)
		return 0;
	good = kedge__machine_resolve(&with, false, &m, NULL) == 0 && kedge__async_best(&m.async, &plan, NULL) == 0;
	kedge__machine_text_done(&with);
	return good ? plan.expect.efficiency * nodes / (nodes + n) : 0;
}

static bool said(const struct kedge__machine_text *text, enum kedge__machine_key key)
{
	return text->value[key][0] != '\0';
}

static void try_staging(const struct kedge__machine_text *text, double n, double nodes, double *best, double *value)
{
	double v = staging_value(text, n, nodes);

	if (v <= *value)
		return;
	*value = v;
	*best = n;
}

/* 0: not enough is known about staging nodes. */
static double best_staging(const struct kedge__machine_text *text)
{
	double best = 0, value = 0, nodes, high;

	if (!said(text, KEDGE__MACHINE_STAGING_RATE) || !said(text, KEDGE__MACHINE_ALPHA_SLOPE) ||
	    kedge__machine_quantity(KEDGE__MACHINE_NODES, text->value[KEDGE__MACHINE_NODES], &nodes, NULL) != 0)
		return 0;
	for (double n = 1; n <= nodes && n <= 65536; n = ceil(n * 1.1))
		try_staging(text, n, nodes, &best, &value);
	/* Between the points of that: all numbers if they are small, else about a hundredth apart. */
	high = floor(best * 1.1);
	for (double n = ceil(best / 1.1); best > 0 && n <= high && n <= nodes; n += ceil(high / 100))
		try_staging(text, n, nodes, &best, &value);
	return best;
}

/* If everything about staging nodes is known except their number, the best number is used. */
static int choose_staging(struct kedge__machine_text *text, double *best, struct kedge__error *err)
{
	const char *values[KEDGE__MACHINE_KEY_COUNT] = {NULL};
	char number[32];

	*best = best_staging(text);
	if (*best == 0 || said(text, KEDGE__MACHINE_STAGING))
		return 0;
	snprintf(number, sizeof(number), "%.0f", *best);
	values[KEDGE__MACHINE_STAGING] = number;
	return kedge__machine_text_override(text, values, err);
}

struct report {
	const struct kedge__machine_text *text;
	const struct kedge__machine *machine;
	struct kedge__plan_report plans;
	struct kedge__sync_plan single;
	double bare;    /* expected seconds without checkpoints */
	double staging; /* best number of nodes, or 0 */
};

static const char *duration(double seconds, char buf[KEDGE__TEXT_ROOM])
{
	if (seconds >= 1e3 * 365.25 * 86400 && isfinite(seconds))
		snprintf(buf, KEDGE__TEXT_ROOM, "%.3g years", seconds / (365.25 * 86400));
	else if (seconds >= 10 * 86400 && isfinite(seconds))
		snprintf(buf, KEDGE__TEXT_ROOM, "%.1f days", seconds / 86400);
	else
		kedge__text_seconds(seconds, buf);
	return buf;
}

static void print_machine(const struct report *r)
{
	const struct kedge__async *as = &r->machine->async;
	char a[KEDGE__TEXT_ROOM], b[KEDGE__TEXT_ROOM], c[KEDGE__TEXT_ROOM];
	struct kedge__table t;

	if (r->text->value[KEDGE__MACHINE_NAME][0] != '\0')
		printf("%s\n", r->text->value[KEDGE__MACHINE_NAME]);
	kedge__table_init(&t, "lrrr");
	kedge__table_add(&t, "level");
	kedge__table_add(&t, "failure every");
	kedge__table_add(&t, "checkpoint");
	kedge__table_add(&t, "restart");
	for (int i = 0; i < as->levels.count; i++) {
		kedge__table_add(&t, "%d", i + 1);
		kedge__table_add(&t, "%s", duration(1 / as->levels.rate[i], a));
		kedge__table_add(&t, "%s", duration(as->levels.cost[i], b));
		kedge__table_add(&t, "%s", duration(as->levels.restart[i], c));
	}
	kedge__table_print(&t, stdout);
	if (as->levels.count > 1)
		printf("a background copy takes %s and slows computation down by %.3g %%\n", duration(as->latency, a),
		       100 * as->alpha);
	printf("the job computes for %s\n\n", duration(r->machine->work, a));
}

/* What a model finds for a job that cannot finish is no advice. LV: NULL without checkpoints, when it ends some day. */
static void plan_row(struct kedge__table *t, const char *what, const struct kedge__levels *lv, double interval,
		     const char *pattern, double efficiency, double work)
{
	char a[KEDGE__TEXT_ROOM], b[KEDGE__TEXT_ROOM], text[256];
	bool never = lv && kedge__levels_verdict(lv, efficiency, text, sizeof(text));

	kedge__table_add(t, "%s", what);
	kedge__table_add(t, "%s", never || isinf(interval) ? "-" : duration(interval, a));
	kedge__table_add(t, "%s", never ? "-" : pattern);
	kedge__table_add(t, efficiency < 1e-3 ? "%.2e" : "%.4f", efficiency);
	kedge__table_add(t, "%s", never ? "never" : duration(work / efficiency, b));
}

static void sync_pattern(const struct report *r, char *out, size_t room)
{
	int n = r->machine->async.levels.count;
	size_t at = 0;

	snprintf(out, room, "-");
	for (int k = 0; k < n - 1 && at < room; k++)
		at += (size_t)snprintf(out + at, room - at, "%s%llu L%d per L%d", k > 0 ? ", " : "",
				       (unsigned long long)r->plans.sync.counts[k], k + 1, k + 2);
}

static void async_pattern(const struct report *r, char *out, size_t room)
{
	const struct kedge__async_plan *p = &r->plans.async;
	int top = r->machine->async.levels.count;
	size_t at = 0;

	for (int k = 0; k < top - 2 && at < room; k++)
		at += (size_t)snprintf(out + at, room - at, "%llu L%d per L%d, ", (unsigned long long)p->counts[k],
				       k + 1, k + 2);
	if (at < room)
		snprintf(out + at, room - at, "1 L%d of %llu copied, taking %llu", top - 1,
			 (unsigned long long)p->segments, (unsigned long long)p->incomplete);
}

/* Whether the job can finish; says why not. */
static bool print_note(const struct kedge__levels *lv, const char *mode, double efficiency)
{
	char text[256];
	const char *reason = kedge__levels_verdict(lv, efficiency, text, sizeof(text));

	if (reason != NULL)
		printf("%s: %s\n", mode, reason);
	return reason == NULL;
}

/* Kedge copies to L2 in the background; if that is worse than L2 without L1, the store had better be there. */
static void print_settings(const struct report *r)
{
	const struct kedge__async_plan *best = &r->plans.async;

	if (r->machine->async.levels.count != 2 || !isfinite(best->interval))
		return;
	if (r->single.expect.efficiency > best->expect.efficiency)
		printf("kedge.conf(5): l1 = (a place on level 2), no l2, interval = %.0f\n", ceil(r->single.interval));
	else
		printf("kedge.conf(5): interval = %.0f, l2_every = %llu\n", ceil(best->interval),
		       (unsigned long long)best->segments);
}

static void print_notes(const struct report *r)
{
	const struct kedge__async *as = &r->machine->async;
	bool sync, async = false;

	printf("\n");
	if (!(kedge__levels_rate(&as->levels) > 0))
		printf("no failures are expected: a checkpoint would only cost time\n");
	else if (as->levels.cost[0] == 0)
		printf("level-1 checkpoints cost nothing: take them as often as the program can\n");
	sync = print_note(&as->levels, "synchronous", r->plans.sync.expect.efficiency);
	if (r->plans.has_async) {
		struct kedge__levels blocking = blocking_levels(&as->levels);

		async = print_note(&blocking, "asynchronous", r->plans.async.expect.efficiency);
		if (sync || async)
			printf("asynchronous checkpointing is %.3f times as efficient as synchronous\n",
			       r->plans.async.expect.efficiency / r->plans.sync.expect.efficiency);
	}
	if (r->staging > 0)
		printf("best number of staging nodes: %.0f (counting them as nodes that do not compute)\n", r->staging);
	if (async)
		print_settings(r);
}

static void print_report(const struct report *r)
{
	const struct kedge__levels *lv = &r->machine->async.levels;
	struct kedge__levels top = top_level(lv);
	double work = r->machine->work;
	char pattern[256];
	struct kedge__table t;

	print_machine(r);
	kedge__table_init(&t, "lrlrr");
	kedge__table_add(&t, "checkpointing");
	kedge__table_add(&t, "interval");
	kedge__table_add(&t, "pattern");
	kedge__table_add(&t, "efficiency");
	kedge__table_add(&t, "expected run time");
	sync_pattern(r, pattern, sizeof(pattern));
	plan_row(&t, "synchronous", lv, r->plans.sync.interval, pattern, r->plans.sync.expect.efficiency, work);
	if (r->plans.has_async) {
		struct kedge__levels blocking = blocking_levels(lv);

		async_pattern(r, pattern, sizeof(pattern));
		plan_row(&t, "asynchronous", &blocking, r->plans.async.interval, pattern,
			 r->plans.async.expect.efficiency, work);
		plan_row(&t, "top level alone", &top, r->single.interval, "-", r->single.expect.efficiency, work);
	}
	plan_row(&t, "none", NULL, INFINITY, "-", work / r->bare, work);
	kedge__table_print(&t, stdout);
	print_notes(r);
}

static json_t *machine_json(const struct report *r)
{
	const struct kedge__async *as = &r->machine->async;
	json_t *o = kedge__json_object(), *levels = kedge__json_array();

	kedge__json_text(o, "name", r->text->value[KEDGE__MACHINE_NAME]);
	for (int i = 0; i < as->levels.count; i++) {
		json_t *l = kedge__json_object();

		kedge__json_real(l, "rate", as->levels.rate[i]);
		kedge__json_real(l, "cost", as->levels.cost[i]);
		kedge__json_real(l, "restart", as->levels.restart[i]);
		kedge__json_add(levels, l);
	}
	kedge__json_set(o, "levels", levels);
	kedge__json_real(o, "alpha", as->alpha);
	kedge__json_real(o, "latency", as->latency);
	kedge__json_real(o, "work_seconds", r->machine->work);
	return o;
}

static json_t *plan_json(const struct kedge__levels *lv, double interval, double efficiency, double work)
{
	char text[256];
	const char *reason = kedge__levels_verdict(lv, efficiency, text, sizeof(text));
	json_t *o = kedge__json_object();

	kedge__json_real(o, "interval", interval);
	kedge__json_real(o, "efficiency", efficiency);
	kedge__json_real(o, "expected_run_seconds", work / efficiency);
	kedge__json_bool(o, "feasible", reason == NULL);
	kedge__json_text(o, "reason", reason);
	return o;
}

static json_t *sync_json(const struct kedge__levels *lv, const struct kedge__sync_plan *p, double work)
{
	json_t *o = plan_json(lv, p->interval, p->expect.efficiency, work), *counts = kedge__json_array();

	for (int i = 0; i < lv->count; i++)
		kedge__json_add(counts, json_integer((json_int_t)p->counts[i]));
	kedge__json_set(o, "counts", counts);
	return o;
}

static void print_json(const struct report *r)
{
	const struct kedge__levels *lv = &r->machine->async.levels;
	double work = r->machine->work;
	json_t *o = kedge__json_object(), *async, *bare = kedge__json_object();

	kedge__json_set(o, "machine", machine_json(r));
	kedge__json_set(o, "synchronous", sync_json(lv, &r->plans.sync, work));
	if (r->plans.has_async) {
		struct kedge__levels blocking = blocking_levels(lv);

		async = plan_json(&blocking, r->plans.async.interval, r->plans.async.expect.efficiency, work);
		kedge__json_uint(async, "segments", r->plans.async.segments);
		kedge__json_uint(async, "incomplete", r->plans.async.incomplete);
		kedge__json_set(o, "asynchronous", async);
		kedge__json_real(o, "gain", r->plans.async.expect.efficiency / r->plans.sync.expect.efficiency);
	}
	kedge__json_set(o, "top_level_only", plan_json(lv, r->single.interval, r->single.expect.efficiency, work));
	kedge__json_real(bare, "efficiency", work / r->bare);
	kedge__json_real(bare, "expected_run_seconds", r->bare);
	kedge__json_set(o, "no_checkpoints", bare);
	if (r->staging > 0)
		kedge__json_real(o, "best_staging", r->staging);
	kedge__json_print(o);
}

static int plan_one(struct kedge__machine_text *text, bool json, struct kedge__error *err)
{
	struct kedge__machine machine;
	struct report r = {.text = text, .machine = &machine};
	int rc = choose_staging(text, &r.staging, err);

	if (rc == 0)
		rc = kedge__machine_resolve(text, false, &machine, err);
	if (rc == 0)
		rc = kedge__plan_evaluate(&machine, &r.plans, err);
	if (rc == 0)
		rc = top_only(&machine, &r.single, err);
	if (rc != 0)
		return rc;
	r.bare = kedge__bare_expect(kedge__levels_rate(&machine.async.levels), 0, machine.work);
	if (json)
		print_json(&r);
	else
		print_report(&r);
	return 0;
}

static int sweep(struct tool *t, struct kedge__machine_text *text, struct kedge__error *err)
{
	struct kedge__plan_sweep *s = kedge__calloc(1, sizeof(*s));
	int rc = 0, status;

	if (s == NULL)
		return kedge__tool_fail(t->usage.command, err, "out of memory");
	*s = (struct kedge__plan_sweep){.usage = &t->usage,
					.text = text,
					.svg = t->svg,
					.title = t->title != NULL ? t->title : "Efficiency of checkpointing",
					.bars = t->bars,
					.json = t->json};
	if (t->title == NULL && t->required != NULL)
		s->title = "Bandwidth that an efficiency needs";
	if (t->sweeps.count > 2)
		rc = kedge__error_set(err, KEDGE_E_ARG, 0, "--sweep is given %zu times; at most 2 are allowed",
				      t->sweeps.count);
	for (size_t i = 0; rc == 0 && i < t->sweeps.count; i++)
		rc = kedge__sweep_parse(t->sweeps.at[i], NULL, &s->sweeps[s->sweep_count++], err);
	if (rc == 0 && t->required != NULL)
		rc = kedge__quantity_parse_list(KEDGE__QUANTITY_NUMBER, t->required, s->targets,
						KEDGE__COUNT(s->targets), &s->target_count, err);
	status = rc != 0 ? kedge__tool_fail(t->usage.command, err, "cannot plan") : kedge__plan_sweep_run(s);
	kedge__free(s);
	return status;
}

static int run(struct tool *t, int argc, char **argv)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	struct kedge__machine_text text;
	int first, status;

	if (!kedge__options_parse(&t->usage, argc, argv, &first, &status))
		return status;
	if (kedge__plan_input_read(&t->in, &text, &err) != 0)
		return kedge__tool_fail(t->usage.command, &err, "cannot plan");
	if (t->sweeps.count > 0 || t->required != NULL || t->svg != NULL)
		status = sweep(t, &text, &err);
	else if (plan_one(&text, t->json, &err) != 0)
		status = kedge__tool_fail(t->usage.command, &err, "cannot plan");
	else
		status = KEDGE__EXIT_OK;
	kedge__machine_text_done(&text);
	return status;
}

static int plan(int argc, char **argv)
{
	struct tool t = {
	    .usage = {
		.command = "kedge plan",
		.about = "Finds the best interval between checkpoints, how many of them go to a higher level, and what "
			 "that\n"
			 "costs. Numbers may have units: 29GB, 6.4GB/s, 13h, 3/d. For scripts there are kedge plan\n"
			 "eval|best|coalesce|pccr|rex --help.",
		.example = "kedge plan --nodes 1408 --size 29GB --l1-rate 400MB/s --pfs 6.4GB/s --mtbf 13h "
			   "--shares 84%,16% --alpha 0.00184\n"
			   "kedge plan -m tsubame2 --sweep failure=1..16 --sweep cost=1,2,10 --svg efficiency.svg\n"
			   "kedge plan -m tsubame2 --required-bandwidth 0.9,0.8,0.7 --sweep failure=1..16"}};
	const struct kedge__option more[] = {
	    {"sweep", 0, KEDGE__OPTION_LIST, &t.sweeps, "KEY=A..B",
	     "a table over values of an option: A..B doubles, A..B:N has N points,\nA,B,C is a list; may be given "
	     "twice"},
	    {"required-bandwidth", 0, KEDGE__OPTION_TEXT, &t.required, "E,...",
	     "the lowest pfs that achieves these efficiencies"},
	    {"svg", 0, KEDGE__OPTION_TEXT, &t.svg, "FILE", "draw the table"},
	    {"bars", 0, KEDGE__OPTION_FLAG, &t.bars, NULL, "draw bars instead of lines"},
	    {"title", 0, KEDGE__OPTION_TEXT, &t.title, "TEXT", "title of the drawing"},
	    KEDGE__OPTION_JSON(&t.json),
	};
	int status;

	kedge__plan_input_init(&t.in, more, KEDGE__COUNT(more));
	t.usage.options = t.in.options;
	t.usage.option_count = t.in.option_count;
	status = run(&t, argc, argv);
	kedge__array_done(&t.sweeps);
	return status;
}

int kedge__tool_plan(int argc, char **argv)
{
	static const struct kedge__tool pieces[] = {
	    {"eval", "expected time and efficiency of a given plan", kedge__plan_eval},
	    {"best", "the best plan", kedge__plan_best},
	    {"coalesce", "when a full L2 checkpoint pays", kedge__plan_coalesce},
	    {"pccr", "when compressing pays", kedge__plan_pccr},
	    {"rex", "how many L1 checkpoints before an L2 one", kedge__plan_rex},
	};

	if (argc > 1 && argv[1][0] != '-')
		return kedge__tool_dispatch("kedge plan", pieces, KEDGE__COUNT(pieces), argc - 1, argv + 1);
	return plan(argc, argv);
}
