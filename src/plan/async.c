/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * async: the top level is written in the background. The staging paper derives two levels; here the segments may hold
 * any number of lower levels, which for two gives back the closed form of docs/models.md.
 */
#include "plan/block.h"
#include <math.h>

#define SEGMENT_LIMIT (UINT64_C(1) << 22)
#define EVERY_COPY    40 /* lengths of the copy, in segments, that are all tried */
#define FAR_WORSE     12 /* lengths in a row without a better plan that end the search */
#define SWEEPS        12

struct segment { /* one kind of segment: unprotected (its base was read from the top level) and protected */
	struct kedge__block bare, safe;
};

struct kinds {
	struct segment fast, fast_last, slow, slow_last; /* slow: while the copy runs; last: starts the next copy */
};

static void make_segment(const struct kedge__async *as, double t, const uint64_t *counts, double extra,
			 const struct kedge__block *recovery, struct segment *out)
{
	int k = as->levels.count - 1;

	kedge__block_nest(&as->levels, k, t, counts, as->levels.cost[k - 1] + extra, &out->bare);
	out->safe = out->bare;
	kedge__block_protect(k + 1, k, recovery, &out->safe);
}

static void make_kinds(const struct kedge__async *as, double t, const uint64_t *counts, struct kinds *out)
{
	struct kedge__block recovery;
	double slow = (1 + as->alpha) * t;

	kedge__block_recovery(&as->levels, as->levels.count - 1, &recovery);
	make_segment(as, t, counts, 0, &recovery, &out->fast);
	make_segment(as, slow, counts, 0, &recovery, &out->slow);
	out->fast_last = out->fast;
	out->slow_last = out->slow;
	if (as->init_cost > 0) {
		make_segment(as, t, counts, as->init_cost, &recovery, &out->fast_last);
		make_segment(as, slow, counts, as->init_cost, &recovery, &out->slow_last);
	}
}

/* A whole period from a base on the top level until it is done, restarts from that base included. */
static double replay(const struct kedge__async *as, const struct kinds *s, double segments, double top_restart)
{
	int levels = as->levels.count;
	struct kedge__block q = segments == 1 ? s->fast_last.bare : s->fast.bare;

	if (segments > 1) {
		struct kedge__block middle = s->fast.safe;

		kedge__block_power(levels, &middle, segments - 2);
		kedge__block_series(levels, &q, &middle);
		kedge__block_series(levels, &q, &s->fast_last.safe);
	}
	return (q.time + kedge__block_failing(levels, &q) * top_restart) / q.ok;
}

/* N copies of A, or N-1 of A and one of LAST. */
static struct kedge__block chain(int levels, const struct kedge__block *a, double n, const struct kedge__block *last)
{
	struct kedge__block out = *a;

	kedge__block_power(levels, &out, last != NULL ? n - 1 : n);
	if (last != NULL)
		kedge__block_series(levels, &out, last);
	return out;
}

static double expect(const struct kedge__async *as, double t, const uint64_t *counts, double segments,
		     double incomplete)
{
	int levels = as->levels.count, top = levels - 1;
	struct kedge__block r, slow, fast = {0, 1, {0}};
	struct kinds s;
	double top_restart, back, seconds;

	make_kinds(as, t, counts, &s);
	kedge__block_recovery(&as->levels, levels, &r);
	top_restart = r.time;
	back = top_restart + replay(as, &s, segments, top_restart);
	slow = chain(levels, &s.slow.safe, incomplete, incomplete == segments ? &s.slow_last.safe : NULL);
	if (incomplete < segments)
		fast = chain(levels, &s.fast.safe, segments - incomplete, &s.fast_last.safe);
	seconds = (slow.time + slow.fail[top] * back + slow.ok * (fast.time + fast.fail[top] * back)) / slow.ok;
	return isnan(seconds) ? INFINITY : seconds;
}

/* Intervals of a segment, and the time its checkpoints take. */
static double segment_intervals(const struct kedge__async *as, const uint64_t *counts, double *costs)
{
	int k = as->levels.count - 1;
	double n = 1;

	*costs = as->levels.cost[k - 1];
	for (int j = k - 2; j >= 0; j--) {
		*costs += n * (double)counts[j] * as->levels.cost[j];
		n *= (double)counts[j] + 1;
	}
	return n;
}

uint64_t kedge__async_incomplete(const struct kedge__async *as, double interval, const uint64_t *counts)
{
	double costs, n = segment_intervals(as, counts, &costs);
	double segments = ceil(as->latency / (n * (1 + as->alpha) * interval + costs));

	return segments < (double)(UINT64_MAX >> 1) ? (uint64_t)segments : UINT64_MAX >> 1;
}

static int check(const struct kedge__async *as, struct kedge__error *err)
{
	const struct {
		const char *what;
		double value;
	} all[] = {
	    {"slow-down alpha", as->alpha}, {"cost of starting a copy", as->init_cost}, {"latency", as->latency}};
	int rc = kedge__levels_check(&as->levels, err);

	if (rc != 0)
		return rc;
	if (as->levels.count < 2)
		return kedge__error_set(
		    err, KEDGE_E_ARG, 0,
		    "1 level: writing in the background needs a level to copy from and one to copy to");
	for (size_t i = 0; i < KEDGE__COUNT(all); i++)
		if (!isfinite(all[i].value) || all[i].value < 0)
			return kedge__error_set(err, KEDGE_E_ARG, 0, "the %s is %g", all[i].what, all[i].value);
	return 0;
}

int kedge__async_expect(const struct kedge__async *as, struct kedge__async_plan *plan, struct kedge__error *err)
{
	int rc = check(as, err);
	double costs;

	if (rc != 0)
		return rc;
	if (!(plan->interval > 0) || isinf(plan->interval))
		return kedge__error_set(err, KEDGE_E_ARG, 0, "the interval is %g s: it must be longer than 0",
					plan->interval);
	if (plan->segments < 1)
		return kedge__error_set(err, KEDGE_E_ARG, 0, "a period has no segments: it needs at least 1");
	if (plan->incomplete > plan->segments)
		return kedge__error_set(
		    err, KEDGE_E_ARG, 0,
		    "%llu incomplete segments in a period of %llu: a copy must finish before the next one begins",
		    (unsigned long long)plan->incomplete, (unsigned long long)plan->segments);
	plan->expect.work = (double)plan->segments * segment_intervals(as, plan->counts, &costs) * plan->interval;
	plan->expect.seconds =
	    expect(as, plan->interval, plan->counts, (double)plan->segments, (double)plan->incomplete);
	plan->expect.efficiency = plan->expect.work / plan->expect.seconds;
	return 0;
}

struct search {
	const struct kedge__async *as;
	double lo, hi;   /* interval */
	double from, to; /* intervals at which the copy takes `incomplete` segments */
	double costs, per_segment;
	double precision;
	uint64_t counts[KEDGE__PLAN_LEVELS];
	uint64_t segments, incomplete;
	double interval, value; /* best so far with these */
	int level;
};

static double overhead_at(void *ctx, double t)
{
	struct search *s = ctx;
	double n = (double)s->segments;

	return log(expect(s->as, t, s->counts, n, (double)s->incomplete)) - log(n * s->per_segment * t);
}

/* In [from, to) the curve falls, then rises; often it only rises, which two values show. */
static double overhead_with_segments(void *ctx, uint64_t n)
{
	struct search *s = ctx;
	double value, next, first = overhead_at(s, (s->segments = n, s->from));

	s->interval = s->from;
	next = s->from * (1 + 1e-6);
	if (next >= s->to || (isfinite(first) && overhead_at(s, next) >= first))
		return first;
	s->interval = kedge__golden_section(s->from, s->to, s->precision, overhead_at, s, &value);
	if (value < first)
		return value;
	s->interval = s->from;
	return first;
}

static double interval_of_copy(const struct search *s, double segments)
{
	return (s->as->latency / segments - s->costs) / (s->per_segment * (1 + s->as->alpha));
}

/* False: no interval makes the copy take this many segments. */
static bool set_incomplete(struct search *s, uint64_t m)
{
	s->incomplete = m;
	s->from = m == 0 ? s->lo : KEDGE__MAX(s->lo, interval_of_copy(s, (double)m));
	s->to = m <= 1 ? KEDGE__MAX(s->hi, s->from) : interval_of_copy(s, (double)(m - 1));
	/* The end of the range belongs to it, but rounding may say otherwise. */
	for (double step = 1e-15; m > 0 && kedge__async_incomplete(s->as, s->from, s->counts) > m; step *= 2) {
		s->from *= 1 + step;
		if (s->from >= s->to && m > 1)
			return false;
	}
	return s->from < s->to || m <= 1;
}

/* The best plan with a copy of M segments, kept if it is better than *BEST. */
static bool try_incomplete(struct search *s, uint64_t m, struct search *best)
{
	uint64_t n;
	double value;

	if (!set_incomplete(s, m))
		return false;
	n = kedge__integer_search(KEDGE__MAX(m, 1), best->segments, SEGMENT_LIMIT, overhead_with_segments, s, &value);
	if (value < best->value || best->as == NULL) {
		overhead_with_segments(s, n);
		s->value = value;
		*best = *s;
	}
	return true;
}

/* From the best copy so far, in steps that shrink: teeth this narrow differ by less than the steps between them. */
static void climb_teeth(struct search *s, struct search *best)
{
	for (uint64_t step = best->incomplete / 16; step > 0; step /= 2) {
		uint64_t m = best->incomplete;

		try_incomplete(s, m + step, best);
		if (m > step)
			try_incomplete(s, m - step, best);
	}
}

static uint64_t next_copy(uint64_t m)
{
	return m < EVERY_COPY ? m + 1 : m + m / 8;
}

/* The efficiency is a saw-tooth in the interval: each length of the copy, in segments, is a tooth. */
static double search_teeth(struct search *s)
{
	struct search best = {.as = NULL, .value = INFINITY};
	int worse = 0;

	s->per_segment = segment_intervals(s->as, s->counts, &s->costs);
	if (!(s->as->latency > 0)) {
		try_incomplete(s, 0, &best);
		*s = best;
		return best.value;
	}
	for (uint64_t m = 1; m < SEGMENT_LIMIT && worse < FAR_WORSE; m = next_copy(m)) {
		double before = best.value;

		if (!try_incomplete(s, m, &best) && s->to <= s->lo)
			break;
		worse = best.value < before ? 0 : worse + 1;
	}
	if (best.as != NULL && best.incomplete > EVERY_COPY)
		climb_teeth(s, &best);
	*s = best;
	return best.value;
}

static double overhead_with_count(void *ctx, uint64_t n)
{
	struct search *s = ctx, trial = *s;

	trial.counts[s->level] = n;
	return search_teeth(&trial);
}

static void search_counts(struct search *s)
{
	int lower = s->as->levels.count - 2;
	double best = search_teeth(s);

	for (int sweep = 0; lower > 0 && sweep < SWEEPS; sweep++) {
		double before = best, value;

		for (int level = lower - 1; level >= 0; level--) {
			struct search trial = *s;

			trial.level = level;
			trial.counts[level] = kedge__integer_search(0, s->counts[level], SEGMENT_LIMIT,
								    overhead_with_count, &trial, &value);
			if (value < best) {
				*s = trial;
				best = search_teeth(s);
			}
		}
		if (before - best < 1e-9)
			break;
	}
}

static void never(struct kedge__async_plan *out)
{
	memset(out, 0, sizeof(*out));
	out->interval = INFINITY;
	out->segments = 1;
	out->expect = (struct kedge__expectation){INFINITY, INFINITY, 1};
}

int kedge__async_best(const struct kedge__async *as, struct kedge__async_plan *out, struct kedge__error *err)
{
	struct search s = {.as = as, .value = INFINITY, .precision = KEDGE__COARSE};
	double cheapest = INFINITY;
	int rc = check(as, err);

	if (rc != 0)
		return rc;
	if (!(kedge__levels_rate(&as->levels) > 0)) {
		never(out);
		return 0;
	}
	for (int i = 0; i < as->levels.count - 1; i++)
		cheapest = KEDGE__MIN(cheapest, as->levels.cost[i]);
	kedge__interval_range(&as->levels, cheapest, &s.lo, &s.hi);
	search_counts(&s);
	s.precision = KEDGE__FINE;
	overhead_with_segments(&s, s.segments);
	memset(out, 0, sizeof(*out));
	memcpy(out->counts, s.counts, sizeof(out->counts));
	out->interval = s.interval;
	out->segments = s.segments;
	out->incomplete = s.incomplete;
	return kedge__async_expect(as, out, err);
}
