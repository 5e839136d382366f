/* SPDX-License-Identifier: BSD-3-Clause */
/* controller: the models, fed with what a running job measures. */
#include "plan/block.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#define NEWEST          0.25  /* weight of the newest measurement */
#define ENOUGH_COSTS    3     /* checkpoints measured before the models are asked */
#define ENOUGH_FAILURES 3     /* failures seen, where no mean time between them is configured */
#define ENOUGH_GAIN     0.002 /* of efficiency, that a change must bring: costs are never measured better */
#define ROOM            1.1   /* for a copy to L2 to take longer than the last ones: the best plans let it just fit */
#define UNSEEN          0.69314718055994531 /* failures to count where none was seen: the median of what fits that */

void kedge__controller_init(struct kedge__controller *c, const struct kedge__controller_config *config)
{
	memset(c, 0, sizeof(*c));
	c->config = *config;
	c->interval = config->interval;
	c->l2_every = config->l2_every;
}

static bool usable(double seconds)
{
	return isfinite(seconds) && seconds >= 0;
}

static void measure(struct kedge__controller_mean *m, double value)
{
	/* The first few count alike, so that an odd first checkpoint does not linger. */
	double weight = KEDGE__MAX(NEWEST, 1 / ((double)m->count + 1));

	if (!usable(value))
		return;
	m->value += weight * (value - m->value);
	m->count++;
}

void kedge__controller_advance(struct kedge__controller *c, double seconds)
{
	if (!usable(seconds))
		return;
	c->elapsed += seconds;
	c->since += seconds;
}

void kedge__controller_checkpoint(struct kedge__controller *c, double blocked_seconds)
{
	measure(&c->cost[0], blocked_seconds);
	if (c->since > blocked_seconds)
		measure(&c->spacing, c->since - blocked_seconds);
	c->since = 0;
}

void kedge__controller_flush(struct kedge__controller *c, double seconds)
{
	measure(&c->cost[1], seconds);
}

void kedge__controller_failure(struct kedge__controller *c, int level, double restart_seconds)
{
	int i = level > 1;

	c->failures[i]++;
	measure(&c->restart[i], restart_seconds);
	c->since = 0;
}

static bool has_l2(const struct kedge__controller *c)
{
	return c->config.l2_every > 0;
}

/* A configured mean counts as one failure seen in that time; measurements outweigh it as they come. */
static double estimate_rate(const struct kedge__controller *c, int i)
{
	double prior = c->config.mtbf[i], seen = (double)c->failures[i];

	if (!has_l2(c)) /* there is but one kind of failure then */
		seen = (double)(c->failures[0] + c->failures[1]);

	if (prior > 0)
		return (1 + seen) / (prior + c->elapsed);
	return c->elapsed > 0 ? KEDGE__MAX(seen, UNSEEN) / c->elapsed : 0;
}

double kedge__controller_mtbf(const struct kedge__controller *c)
{
	double rate = 0;

	if (!(c->config.mtbf[0] > 0) && !(c->failures[0] + c->failures[1]))
		return 0;
	for (int i = 0; i < (has_l2(c) ? 2 : 1); i++)
		rate += estimate_rate(c, i);
	return rate > 0 ? 1 / rate : 0;
}

/* What is missing before the models can be asked, or NULL. */
static const char *lacking(const struct kedge__controller *c, char *text, size_t room)
{
	bool rates_known = c->config.mtbf[0] > 0 && (c->config.mtbf[1] > 0 || !has_l2(c));
	uint64_t seen = c->failures[0] + c->failures[1];

	if (c->cost[0].count < ENOUGH_COSTS)
		snprintf(text, room, "%" PRIu64 " of %d checkpoints measured", c->cost[0].count, ENOUGH_COSTS);
	else if (has_l2(c) && c->cost[1].count < 1)
		snprintf(text, room, "no copy to L2 measured");
	else if (!rates_known && seen < ENOUGH_FAILURES)
		snprintf(text, room, "%" PRIu64 " of %d failures seen, and no mean time between failures configured",
			 seen, ENOUGH_FAILURES);
	else if (c->config.interval == 0 && c->spacing.count < ENOUGH_COSTS)
		snprintf(text, room, "the distance of checkpoints is not known");
	else
		return NULL;
	return text;
}

static void describe_machine(const struct kedge__controller *c, struct kedge__async *as)
{
	memset(as, 0, sizeof(*as));
	as->levels.count = has_l2(c) ? 2 : 1;
	for (int i = 0; i < as->levels.count; i++) {
		as->levels.rate[i] = estimate_rate(c, i);
		as->levels.cost[i] = c->cost[i].value;
		as->levels.restart[i] = c->restart[i].count > 0 ? c->restart[i].value : c->cost[i].value;
	}
	as->alpha = c->config.alpha;
	as->latency = c->cost[1].value;
}

struct choice {
	const struct kedge__controller *controller;
	const struct kedge__async *machine;
	double interval;
};

/* Efficiency with every N-th checkpoint on L2, or every later one if a copy is not complete by then. */
static double efficiency(const struct choice *c, uint64_t n)
{
	const struct kedge__levels *lv = &c->machine->levels;
	struct kedge__async_plan plan = {.interval = c->interval, .segments = n};
	struct kedge__expectation e = {0};

	if (lv->count == 1)
		return c->interval / kedge__single_expect(lv->rate[0], lv->cost[0], lv->restart[0], c->interval);
	if (!c->controller->config.background)
		return kedge__sync_expect(lv, c->interval, (uint64_t[]){n - 1, 1}, &e, NULL) == 0 ? e.efficiency : 0;
	plan.incomplete = kedge__async_incomplete(c->machine, c->interval, plan.counts);
	plan.segments = KEDGE__MAX(n, plan.incomplete);
	return kedge__async_expect(c->machine, &plan, NULL) == 0 ? plan.expect.efficiency : 0;
}

/* Copies that begin before the last one is complete pile up. */
static bool copies_fit(const struct choice *c, uint64_t n)
{
	uint64_t counts[KEDGE__PLAN_LEVELS] = {0};

	return c->machine->levels.count == 1 || !c->controller->config.background ||
	       kedge__async_incomplete(c->machine, c->interval, counts) <= n;
}

static double loss(void *ctx, uint64_t n)
{
	return -efficiency(ctx, n);
}

/* The best L2 frequency where the interval is given. */
static uint64_t best_frequency(const struct choice *c)
{
	uint64_t counts[KEDGE__PLAN_LEVELS] = {0}, first = 1;
	double value;

	if (c->machine->levels.count == 1)
		return 0;
	if (c->controller->config.background)
		first = KEDGE__MAX(1, kedge__async_incomplete(c->machine, c->interval, counts));
	return kedge__integer_search(first, first, UINT64_C(1) << 20, loss, (void *)c, &value);
}

static double best_interval(const struct kedge__controller *c, const struct kedge__async *machine)
{
	struct kedge__sync_plan sync;
	struct kedge__async_plan async;
	double t;

	if (machine->levels.count == 1)
		t = kedge__single_best(machine->levels.rate[0], machine->levels.cost[0]);
	else if (!c->config.background)
		t = kedge__sync_best(&machine->levels, &sync, NULL) == 0 ? sync.interval : c->interval;
	else
		t = kedge__async_best(machine, &async, NULL) == 0 ? async.interval : c->interval;
	if (c->config.max_interval > 0)
		t = KEDGE__MIN(t, c->config.max_interval);
	return KEDGE__MAX(t, c->config.min_interval);
}

static void explain(const struct kedge__controller *c, const struct kedge__async *m, double before, bool changed,
		    struct kedge__decision *d)
{
	char change[120] = "interval and L2 frequency stay", l2[80] = "";
	double rate = kedge__levels_rate(&m->levels);
	uint64_t seen = c->failures[0] + c->failures[1];

	if (changed && has_l2(c))
		snprintf(change, sizeof(change), "interval %.4g s -> %.4g s, L2 every %" PRIu64 " -> %" PRIu64,
			 c->interval, d->interval, c->l2_every, d->l2_every);
	else if (changed)
		snprintf(change, sizeof(change), "interval %.4g s -> %.4g s", c->interval, d->interval);
	if (has_l2(c))
		snprintf(l2, sizeof(l2), ", L2 takes %.4g s (%" PRIu64 " measured)", c->cost[1].value,
			 c->cost[1].count);
	snprintf(d->text, sizeof(d->text),
		 "%s: a checkpoint takes %.4g s (%" PRIu64 " measured)%s, a failure comes every %.4g s (%" PRIu64
		 " seen in %.4g s); expected efficiency %.4f instead of %.4f",
		 change, c->cost[0].value, c->cost[0].count, l2, 1 / rate, seen, c->elapsed, d->efficiency, before);
}

bool kedge__controller_decide(struct kedge__controller *c, struct kedge__decision *out)
{
	struct kedge__async machine, roomy;
	struct choice now = {c, &machine, c->config.interval > 0 ? c->interval : c->spacing.value};
	struct choice best = {c, &roomy, now.interval};
	char why[120];
	double before;
	bool changed;

	*out = (struct kedge__decision){.interval = c->interval, .l2_every = c->l2_every};
	if (lacking(c, why, sizeof(why)) != NULL) {
		snprintf(out->text, sizeof(out->text), "configured values stay: %s", why);
		return false;
	}
	describe_machine(c, &machine);
	roomy = machine;
	roomy.latency *= ROOM;
	before = efficiency(&now, c->l2_every);
	if (c->config.interval > 0)
		best.interval = best_interval(c, &roomy);
	if (!(best.interval > 0) || isinf(best.interval)) {
		snprintf(out->text, sizeof(out->text), "values in force stay: no failure is expected");
		return false;
	}
	out->l2_every = best_frequency(&best);
	out->interval = c->config.interval > 0 ? best.interval : 0;
	out->efficiency = efficiency(&best, out->l2_every);
	changed = out->efficiency - before > ENOUGH_GAIN || !copies_fit(&now, c->l2_every);
	if (!changed) {
		out->interval = c->interval;
		out->l2_every = c->l2_every;
		out->efficiency = before;
	}
	explain(c, &machine, before, changed, out);
	c->interval = out->interval;
	c->l2_every = out->l2_every;
	return changed;
}

#define LINE_FORMAT "kedge-controller 1 %.17g %.17g %" PRIu64 " %" PRIu64 " %.17g %" PRIu64
#define MEANS       5

/* Costs, restarts and spacing in the order in which the line has them. */
static void list_means(struct kedge__controller *c, struct kedge__controller_mean *means[MEANS])
{
	means[0] = &c->cost[0];
	means[1] = &c->cost[1];
	means[2] = &c->restart[0];
	means[3] = &c->restart[1];
	means[4] = &c->spacing;
}

void kedge__controller_format(const struct kedge__controller *c, char line[KEDGE__CONTROLLER_LINE])
{
	struct kedge__controller copy = *c;
	struct kedge__controller_mean *means[MEANS];
	int at;

	list_means(&copy, means);
	at = snprintf(line, KEDGE__CONTROLLER_LINE, LINE_FORMAT, c->elapsed, c->since, c->failures[0], c->failures[1],
		      c->interval, c->l2_every);
	for (int i = 0; i < MEANS; i++)
		at += snprintf(line + at, (size_t)(KEDGE__CONTROLLER_LINE - at), " %.9g/%" PRIu64, means[i]->value,
			       means[i]->count);
}

int kedge__controller_parse(struct kedge__controller *c, const char *line, struct kedge__error *err)
{
	struct kedge__controller read = *c;
	struct kedge__controller_mean *means[MEANS];
	int used = 0, more = 0, n;
	bool right;

	list_means(&read, means);
	n = sscanf(line, "kedge-controller 1 %lf %lf %" SCNu64 " %" SCNu64 " %lf %" SCNu64 "%n", &read.elapsed,
		   &read.since, &read.failures[0], &read.failures[1], &read.interval, &read.l2_every, &used);
	right = n == 6 && usable(read.elapsed) && usable(read.since) && usable(read.interval);
	for (int i = 0; right && i < MEANS; i++) {
		n = sscanf(line + used, " %lf/%" SCNu64 "%n", &means[i]->value, &means[i]->count, &more);
		right = n == 2 && usable(means[i]->value);
		used += more;
	}
	if (!right)
		return kedge__error_set(err, KEDGE_E_FORMAT, 0, "'%.40s' is not a line of the controller", line);
	/* A configuration without L2, or without an interval, is not overruled by what an earlier one led to. */
	if (c->config.interval == 0 || read.interval == 0)
		read.interval = c->interval;
	if (c->config.l2_every == 0 || read.l2_every == 0)
		read.l2_every = c->l2_every;
	*c = read;
	return 0;
}
