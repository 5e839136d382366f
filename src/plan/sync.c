/* SPDX-License-Identifier: BSD-3-Clause */
/* sync: the n-level synchronous model, and the search for its best interval and counts. */
#include "plan/block.h"
#include <math.h>

#define COUNT_LIMIT (UINT64_C(1) << 22)
#define SWEEPS      24

static double expect(const struct kedge__levels *lv, double interval, const uint64_t *counts)
{
	struct kedge__block body, recovery;
	int top = lv->count;

	kedge__block_nest(lv, top, interval, counts, lv->cost[top - 1], &body);
	kedge__block_recovery(lv, top, &recovery);
	kedge__block_protect(top, top, &recovery, &body);
	return isnan(body.time) ? INFINITY : body.time;
}

static double intervals(int levels, const uint64_t *counts)
{
	double n = 1;

	for (int k = 0; k < levels - 1; k++)
		n *= (double)counts[k] + 1;
	return n;
}

static int check(const struct kedge__levels *lv, double interval, const uint64_t *counts, struct kedge__error *err)
{
	int rc = kedge__levels_check(lv, err);

	if (rc != 0)
		return rc;
	if (!(interval > 0) || isinf(interval))
		return kedge__error_set(err, KEDGE_E_ARG, 0, "the interval is %g s: it must be longer than 0",
					interval);
	if (counts[lv->count - 1] != 1)
		return kedge__error_set(err, KEDGE_E_ARG, 0,
					"the count of the top level is %llu: a period has 1 checkpoint of that level",
					(unsigned long long)counts[lv->count - 1]);
	return 0;
}

int kedge__sync_expect(const struct kedge__levels *lv, double interval, const uint64_t *counts,
		       struct kedge__expectation *out, struct kedge__error *err)
{
	int rc = check(lv, interval, counts, err);

	if (rc != 0)
		return rc;
	out->seconds = expect(lv, interval, counts);
	out->work = intervals(lv->count, counts) * interval;
	out->efficiency = out->work / out->seconds;
	return 0;
}

struct search {
	const struct kedge__levels *lv;
	uint64_t counts[KEDGE__PLAN_LEVELS];
	double lo, hi; /* of the interval */
	double precision;
	double interval;
	int level; /* whose count is searched */
};

/* Overhead, to be minimised: time for a second of work, as a logarithm so that huge values compare. */
static double overhead_at(void *ctx, double interval)
{
	struct search *s = ctx;

	return log(expect(s->lv, interval, s->counts)) - log(interval * intervals(s->lv->count, s->counts));
}

static double overhead_best_interval(struct search *s)
{
	double value;

	s->interval = kedge__golden_section(s->lo, s->hi, s->precision, overhead_at, s, &value);
	return value;
}

static double overhead_with_count(void *ctx, uint64_t n)
{
	struct search *s = ctx;

	s->counts[s->level] = n;
	return overhead_best_interval(s);
}

/* One level's count at a time, until none of them gains. */
static double descend(struct search *s)
{
	double best = overhead_best_interval(s);

	for (int sweep = 0; sweep < SWEEPS; sweep++) {
		double before = best;

		for (s->level = s->lv->count - 2; s->level >= 0; s->level--) {
			uint64_t old = s->counts[s->level];
			double value;
			uint64_t n = kedge__integer_search(0, old, COUNT_LIMIT, overhead_with_count, s, &value);

			s->counts[s->level] = value < best ? n : old;
			best = KEDGE__MIN(best, value);
		}
		if (before - best < 1e-9)
			break;
	}
	return overhead_best_interval(s);
}

/* Counts of two levels together: moves that a descent along one of them cannot make. */
static double polish(struct search *s, double best)
{
	int last = s->lv->count - 2;

	for (int a = 0; a <= last; a++) {
		for (int b = a + 1; b <= last; b++) {
			uint64_t ca = s->counts[a], cb = s->counts[b];

			for (int move = 0; move < 4; move++) {
				struct search trial = *s;
				double value;

				trial.counts[a] = move & 1 ? ca / 2 : ca + 1;
				trial.counts[b] = move & 2 ? cb / 2 : cb + 1;
				value = descend(&trial);
				if (value < best - 1e-9) {
					*s = trial;
					return polish(s, value);
				}
			}
		}
	}
	return best;
}

static void search_from(struct search *s, uint64_t start, struct search *best, double *best_value)
{
	double value;

	for (int k = 0; k < s->lv->count - 1; k++)
		s->counts[k] = start;
	value = descend(s);
	if (s->lv->count > 2)
		value = polish(s, value);
	if (value < *best_value || best->lv == NULL) {
		*best = *s;
		*best_value = value;
	}
}

static double cheapest_cost(const struct kedge__levels *lv)
{
	double cost = lv->cost[0];

	for (int i = 1; i < lv->count; i++)
		cost = KEDGE__MIN(cost, lv->cost[i]);
	return cost;
}

static void never(const struct kedge__levels *lv, struct kedge__sync_plan *out)
{
	memset(out, 0, sizeof(*out));
	out->interval = INFINITY;
	out->counts[lv->count - 1] = 1;
	out->expect = (struct kedge__expectation){INFINITY, INFINITY, 1};
}

int kedge__sync_best(const struct kedge__levels *lv, struct kedge__sync_plan *out, struct kedge__error *err)
{
	struct search s = {.lv = lv}, best = {.lv = NULL};
	double value = INFINITY;
	int rc = kedge__levels_check(lv, err);

	if (rc != 0)
		return rc;
	if (!(kedge__levels_rate(lv) > 0)) {
		never(lv, out);
		return 0;
	}
	kedge__interval_range(lv, cheapest_cost(lv), &s.lo, &s.hi);
	s.precision = KEDGE__COARSE;
	s.counts[lv->count - 1] = 1;
	search_from(&s, 0, &best, &value);
	if (lv->count > 2)
		search_from(&s, 4, &best, &value);
	best.precision = KEDGE__FINE;
	overhead_best_interval(&best);
	out->interval = best.interval;
	memcpy(out->counts, best.counts, sizeof(out->counts));
	return kedge__sync_expect(lv, out->interval, out->counts, &out->expect, err);
}
