/* SPDX-License-Identifier: BSD-3-Clause */
/* block: the algebra of exits (equations of docs/models.md, sections 1 and 2). */
#include "plan/block.h"
#include <math.h>

double kedge__block_failing(int levels, const struct kedge__block *b)
{
	double sum = 0;

	for (int i = 0; i < levels; i++)
		sum += b->fail[i];
	return sum;
}

void kedge__block_phase(const struct kedge__levels *lv, double len, struct kedge__block *out)
{
	double rate = kedge__levels_rate(lv);
	double failing = -expm1(-rate * len);

	/* time = failing / rate is the mean of min(len, exponential); it tends to len without failures. */
	out->time = rate * len > 0 ? failing / rate : len;
	out->ok = exp(-rate * len);
	for (int i = 0; i < lv->count; i++)
		out->fail[i] = rate > 0 ? lv->rate[i] / rate * failing : 0;
}

void kedge__block_series(int levels, struct kedge__block *a, const struct kedge__block *b)
{
	a->time += a->ok * b->time;
	for (int i = 0; i < levels; i++)
		a->fail[i] += a->ok * b->fail[i];
	a->ok *= b->ok;
}

void kedge__block_power(int levels, struct kedge__block *a, double n)
{
	double failing = kedge__block_failing(levels, a);
	double log_ok = failing < 0.5 ? log1p(-failing) : log(a->ok);
	double times = n; /* expected number of copies that are entered */

	if (failing > 0)
		times = -expm1(n * log_ok) / failing;
	a->time *= times;
	for (int i = 0; i < levels; i++)
		a->fail[i] *= times;
	a->ok = n > 0 ? exp(n * log_ok) : 1;
}

void kedge__block_recovery(const struct kedge__levels *lv, int k, struct kedge__block *out)
{
	int levels = lv->count;
	struct kedge__block p;
	double leave;

	kedge__block_phase(lv, lv->restart[k - 1], &p);
	leave = p.ok;
	if (k < levels)
		for (int i = k - 1; i < levels; i++)
			leave += p.fail[i];
	memset(out->fail, 0, sizeof(out->fail));
	out->time = p.time / leave;
	out->ok = p.ok / leave;
	if (k == levels)
		return;
	out->fail[k] = (p.fail[k - 1] + p.fail[k]) / leave;
	for (int i = k + 1; i < levels; i++)
		out->fail[i] = p.fail[i] / leave;
}

void kedge__block_protect(int levels, int k, const struct kedge__block *recovery, struct kedge__block *body)
{
	double again = kedge__block_failing(k, body);
	double leave = body->ok; /* as a sum of exits: 1 - again * recovery->ok cancels when success is rare */

	for (int i = k; i < levels; i++)
		leave += body->fail[i] + again * recovery->fail[i];
	body->time = (body->time + again * recovery->time) / leave;
	body->ok /= leave;
	for (int i = 0; i < levels; i++)
		body->fail[i] = i < k ? 0 : (body->fail[i] + again * recovery->fail[i]) / leave;
}

/* With bodies[c] for every level c that may end it, so that one pass over the levels serves all. */
void kedge__block_nest(const struct kedge__levels *lv, int k, double t, const uint64_t *counts, double last,
		       struct kedge__block *out)
{
	struct kedge__block bodies[KEDGE__PLAN_LEVELS], recovery, repeated, body;
	int levels = lv->count;

	for (int c = 0; c < k; c++)
		kedge__block_phase(lv, t + (c == k - 1 ? last : lv->cost[c]), &bodies[c]);
	for (int j = 1; j < k; j++) {
		if (counts[j - 1] == 0)
			continue;
		kedge__block_recovery(lv, j, &recovery);
		repeated = bodies[j - 1];
		kedge__block_protect(levels, j, &recovery, &repeated);
		kedge__block_power(levels, &repeated, (double)(counts[j - 1] - 1));
		for (int c = j; c < k; c++) {
			body = bodies[j - 1];
			kedge__block_series(levels, &body, &repeated);
			kedge__block_protect(levels, j, &recovery, &bodies[c]);
			kedge__block_series(levels, &body, &bodies[c]);
			bodies[c] = body;
		}
	}
	*out = bodies[k - 1];
}
