/* SPDX-License-Identifier: BSD-3-Clause */
/* rex: L1 checkpoints of what changed, coalesced in batches and written to L2 by a thread of its own: the model. */
#include "base/exact.h"
#include "simulate/simulate.h"
#include <math.h>

#define CHI_LIMIT 4096

/* What the paper states. */
#define STATED                                                                                                         \
	.mtbf = 10000, .permanent = 0.16, .variation = 0.12, .snapshot = 2, .restore_l1 = 20, .full = 60,              \
	.restore_full = 30, .ic = 0.5, .ratio = 2, .cores = 4, .bandwidth = 1

static const struct {
	const char *name;
	struct kedge__rex rex;
} presets[] = {
    {"fit-a",
     {STATED, .interval = 283.3, .interval_power = 0.561, .fixed = 0.707, .fixed_restore = 0.092, .scale_full = true,
      .policy = KEDGE__REX_RULE, .work = 32400}},
    {"fit-b",
     {STATED, .interval = 314.3, .interval_power = 0.622, .fixed = 0.761, .fixed_restore = 0.314, .batch_growth = 0.213,
      .scale_full = true, .policy = KEDGE__REX_RULE, .work = 36500}},
    {"natural",
     {STATED, .interval = 347.5, .interval_power = 0.593, .fixed = 0.54, .fixed_restore = 0.5,
      .policy = KEDGE__REX_NEVER, .work = 61000}},
    {"v1", {STATED, .interval = 120, .policy = KEDGE__REX_RULE, .work = INFINITY}},
    {"v3", {STATED, .interval = 200, .interval_power = 0.5, .policy = KEDGE__REX_RULE, .work = INFINITY}},
    {"v5", {STATED, .interval = 200, .interval_power = 0.5, .fixed = 0.5, .policy = KEDGE__REX_NEVER, .work = 10000}},
    {"v8",
     {STATED, .interval = 200, .fixed = 0.5, .fixed_restore = 0.5, .scale_full = true, .policy = KEDGE__REX_ALWAYS,
      .work = INFINITY}},
};

const char *kedge__rex_preset_name(size_t i)
{
	return i < KEDGE__COUNT(presets) ? presets[i].name : NULL;
}

int kedge__rex_preset(const char *name, struct kedge__rex *out, struct kedge__error *err)
{
	const char *words[KEDGE__COUNT(presets)], *near;

	for (size_t i = 0; i < KEDGE__COUNT(presets); i++) {
		if (strcmp(presets[i].name, name) == 0) {
			*out = presets[i].rex;
			return 0;
		}
		words[i] = presets[i].name;
	}
	near = kedge__nearest_word(name, words, KEDGE__COUNT(words));
	return kedge__error_set(err, KEDGE_E_ARG, 0, "no preset '%s'%s%s%s", name, near ? "; did you mean '" : "",
				near ? near : "", near ? "'?" : "");
}

int kedge__rex_check(const struct kedge__rex *rex, struct kedge__error *err)
{
	const struct {
		const char *what;
		double value, least, most;
	} all[] = {
	    {"mean time between failures", rex->mtbf, 1e-9, 1e18},
	    {"share of permanent failures", rex->permanent, 0, 1},
	    {"variation of intervals", rex->variation, 0, 0.5},
	    {"snapshot time", rex->snapshot, 0, 1e18},
	    {"L1 restore time", rex->restore_l1, 0, 1e18},
	    {"time of a full L2 checkpoint", rex->full, 0, 1e18},
	    {"time of a full L2 restore", rex->restore_full, 0, 1e18},
	    {"L1 interval", rex->interval, 1e-9, 1e18},
	    {"fixed part of L2 writes", rex->fixed, 0, 1},
	    {"fixed part of L2 reads", rex->fixed_restore, 0, 1},
	    {"growth of batches", rex->batch_growth, 0, 1},
	    {"fraction of an incremental checkpoint", rex->ic, 1e-9, 1},
	    {"compression ratio (raw / compressed)", rex->ratio, 1, 1e6},
	    {"number of cores", rex->cores, 1, 1e6},
	    {"relative bandwidth", rex->bandwidth, 1e-9, 1e9},
	};

	for (size_t i = 0; i < KEDGE__COUNT(all); i++)
		if (!(all[i].value >= all[i].least && all[i].value <= all[i].most))
			return kedge__error_set(err, KEDGE_E_ARG, 0, "the %s is %g: it must be %g to %g", all[i].what,
						all[i].value, all[i].least, all[i].most);
	if (!(rex->work > 0))
		return kedge__error_set(err, KEDGE_E_ARG, 0, "the work is %g s", rex->work);
	return 0;
}

void kedge__rex_derive(const struct kedge__rex *rex, uint64_t chi, struct kedge__rex_costs *out)
{
	double moved = 2 / (rex->ratio * rex->bandwidth); /* the stated costs are those of ratio 2, bandwidth 1 */
	double write = rex->fixed + (1 - rex->fixed) * moved;
	double read = rex->fixed_restore + (1 - rex->fixed_restore) * moved;
	double batch = KEDGE__MIN(1, rex->ic * (1 + ((double)chi - 1) * rex->batch_growth));

	out->interval = rex->interval * kedge__portable_exp(rex->interval_power * kedge__portable_log(rex->ic));
	out->snapshot = rex->snapshot * rex->ic;
	out->period = (double)chi * (out->interval + out->snapshot);
	out->delta = rex->full * batch * write;
	out->delta_restore = rex->restore_full * batch * read;
	out->full = rex->scale_full ? rex->full * write : rex->full;
	out->deltas = rex->policy == KEDGE__REX_ALWAYS ? 0
		      : rex->policy == KEDGE__REX_NEVER
			  ? UINT64_MAX
			  : kedge__rex_coalesce(out->full, out->delta, out->delta_restore, out->period, rex->mtbf);
}

double kedge__rex_ratio(const struct kedge__rex *rex, uint64_t chi)
{
	struct kedge__rex_costs c;
	double permanent = rex->permanent / rex->mtbf, transient = (1 - rex->permanent) / rex->mtbf;
	double periods, cost, chain;

	kedge__rex_derive(rex, chi, &c);
	periods = rex->work / c.period;
	if ((double)c.deltas < periods) {
		double n = (double)c.deltas;

		cost = (c.full + n * c.delta) / (n + 1);
		chain = n / 2;
	} else {
		cost = c.delta;
		chain = periods / 2;
	}
	return 1 + c.snapshot / c.interval + cost / (rex->cores * c.period) +
	       transient * (rex->restore_l1 + c.interval / 2) +
	       permanent * (rex->restore_full + c.delta_restore * chain + c.period / 2 + cost);
}

uint64_t kedge__rex_best(const struct kedge__rex *rex)
{
	uint64_t best = 1;
	double least = kedge__rex_ratio(rex, 1);
	int rises = 0;

	/* The rule moves in whole deltas, so that neighbours may be out of order: look a little further. */
	for (uint64_t chi = 2; chi <= CHI_LIMIT && rises < 32; chi++) {
		double value = kedge__rex_ratio(rex, chi);

		rises = value < least ? 0 : rises + 1;
		if (value < least) {
			least = value;
			best = chi;
		}
	}
	return best;
}
