/* SPDX-License-Identifier: BSD-3-Clause */
/* levels: what the models know of a machine, and whether a job can live on it. */
#include "plan/plan.h"
#include <math.h>
#include <stdio.h>

#define HOPELESS 0.01

double kedge__levels_rate(const struct kedge__levels *lv)
{
	double sum = 0;

	for (int i = 0; i < lv->count; i++)
		sum += lv->rate[i];
	return sum;
}

int kedge__levels_check(const struct kedge__levels *lv, struct kedge__error *err)
{
	if (lv->count < 1 || lv->count > KEDGE__PLAN_LEVELS)
		return kedge__error_set(err, KEDGE_E_ARG, 0, "%d levels: a model has 1 to %d", lv->count,
					KEDGE__PLAN_LEVELS);
	for (int i = 0; i < lv->count; i++) {
		const struct {
			const char *what;
			double value;
		} all[] = {
		    {"failure rate", lv->rate[i]}, {"checkpoint cost", lv->cost[i]}, {"restart cost", lv->restart[i]}};

		for (size_t j = 0; j < KEDGE__COUNT(all); j++)
			if (!isfinite(all[j].value) || all[j].value < 0)
				return kedge__error_set(err, KEDGE_E_ARG, 0, "the %s of level %d is %g", all[j].what,
							i + 1, all[j].value);
	}
	if (isinf(kedge__levels_rate(lv)))
		return kedge__error_set(err, KEDGE_E_ARG, 0, "the failure rates add up to more than a number can hold");
	return 0;
}

static void explain_slow(const struct kedge__levels *lv, double mtbf, char *text, size_t room)
{
	for (int i = lv->count - 1; i >= 0; i--) {
		const char *what = lv->cost[i] > mtbf ? "checkpoint" : "restart";
		double seconds = lv->cost[i] > mtbf ? lv->cost[i] : lv->restart[i];

		if (seconds <= mtbf)
			continue;
		snprintf(text, room,
			 "the job cannot finish in useful time: a failure comes every %.6g s on average, but a "
			 "level-%d %s takes %.6g s",
			 mtbf, i + 1, what, seconds);
		return;
	}
	snprintf(text, room,
		 "the job cannot finish in useful time: a failure comes every %.6g s on average, and checkpoints and "
		 "restarts leave less than 1 %% of the time for work",
		 mtbf);
}

const char *kedge__levels_verdict(const struct kedge__levels *lv, double efficiency, char *text, size_t room)
{
	double rate = kedge__levels_rate(lv);
	double mtbf = 1 / rate;
	double cheapest = INFINITY;

	if (!(rate > 0))
		return NULL;
	for (int i = 0; i < lv->count; i++)
		cheapest = KEDGE__MIN(cheapest, lv->cost[i]);
	if (cheapest > mtbf) {
		snprintf(text, room,
			 "the job cannot finish: a failure comes every %.6g s on average, but even the cheapest "
			 "checkpoint takes %.6g s",
			 mtbf, cheapest);
		return text;
	}
	if (efficiency >= HOPELESS)
		return NULL;
	explain_slow(lv, mtbf, text, room);
	return text;
}
