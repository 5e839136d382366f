/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The form of a version on L2: a delta to the newest one there, or self-contained. A delta is cheaper to write, but
 * makes every later restart from L2 slower by the time it takes to read; REX, section 3.4, weighs the two. The sums are
 * the same on all ranks: they use rank 0's costs, and bytes from the manifests.
 */
#include "job/policy.h"

#include <inttypes.h>
#include <stdio.h>

#define CHAIN_LEAST                                                                                                    \
	1.0 /* seconds: deltas that a restart reads in less time do not justify writing a self-contained version */

struct estimate {
	double seconds;
	bool measured;
};

/* SECONDS as measured, or BYTES at a rate that was. */
static struct estimate estimate(double seconds, double bytes, double rate)
{
	if (seconds >= 0)
		return (struct estimate){seconds, true};
	return (struct estimate){rate > 0 ? bytes / rate : -1, false};
}

static const char *how(const struct estimate *e)
{
	return e->measured ? "measured" : "predicted";
}

bool kedge__coalescing_due(const struct kedge__l2_costs *costs, const struct kedge__l2_chain *chain,
			   char why[KEDGE__POLICY_TEXT])
{
	double bytes = chain->deltas ? chain->delta_bytes : chain->batch_bytes;
	struct estimate full = estimate(costs->full, chain->full_bytes, costs->write_rate);
	struct estimate delta = estimate(costs->delta, chain->batch_bytes, costs->write_rate);
	struct estimate restore = estimate(-1, bytes, costs->read_rate > 0 ? costs->read_rate : costs->write_rate);
	double gain = (double)(chain->deltas + 1) * restore.seconds;
	uint64_t least;
	bool self_contained;

	if (full.seconds < 0 || delta.seconds < 0 || restore.seconds < 0 || costs->interval < 0) {
		snprintf(why, KEDGE__POLICY_TEXT,
			 "a delta: too little is measured to weigh it against a self-contained version");
		return false;
	}
	least = kedge__rex_coalesce(full.seconds, delta.seconds, restore.seconds, costs->interval, costs->mtbf);
	self_contained = chain->deltas >= least && gain >= CHAIN_LEAST;
	snprintf(why, KEDGE__POLICY_TEXT,
		 "%s: n = %" PRIu64 " deltas %s %" PRIu64
		 "%s; self-contained %.3g s (%s), delta %.3g s (%s), to read one %.3g s "
		 "(%s), L2 interval %.4g s, a failure every %.4g s (%s)",
		 self_contained ? "self-contained" : "a delta", chain->deltas, chain->deltas >= least ? ">=" : "<",
		 least, chain->deltas >= least && !self_contained ? ", but they are read in less than a second" : "",
		 full.seconds, how(&full), delta.seconds, how(&delta), restore.seconds,
		 costs->read_rate > 0 ? "at the rate of restarts" : "at the rate of writing", costs->interval,
		 costs->mtbf, costs->mtbf_known ? "known" : "preset");
	return self_contained;
}
