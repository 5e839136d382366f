/* SPDX-License-Identifier: BSD-3-Clause */
/* block: pieces of a run that end in success or in a failure of some level (docs/models.md, "Blocks"). */
#ifndef KEDGE_PLAN_BLOCK_H
#define KEDGE_PLAN_BLOCK_H

#include "plan/plan.h"

struct kedge__block {
	double time;                     /* expected time until it is left, by any exit */
	double ok;                       /* probability of leaving it by success */
	double fail[KEDGE__PLAN_LEVELS]; /* by a failure that needs level i + 1 or higher and is not handled inside */
};

/* LEN seconds during which any failure ends the block. */
void kedge__block_phase(const struct kedge__levels *lv, double len, struct kedge__block *out);
void kedge__block_series(int levels, struct kedge__block *a, const struct kedge__block *b); /* a = a, then b */
void kedge__block_power(int levels, struct kedge__block *a, double n);                      /* a = a, n times */
/* Restart from level K: failures below K make it begin again, those of K and above go to a higher level. */
void kedge__block_recovery(const struct kedge__levels *lv, int k, struct kedge__block *out);
/* A body that begins with a checkpoint of level K: failures up to K are handled by RECOVERY and restart it. */
void kedge__block_protect(int levels, int k, const struct kedge__block *recovery, struct kedge__block *body);
double kedge__block_failing(int levels, const struct kedge__block *b); /* 1 - ok, without cancellation */

/*
 * Bodies of nested checkpoints up to level K: intervals of length T, each ended by a checkpoint of the level that is
 * due, the last one by a checkpoint of cost LAST.
 */
void kedge__block_nest(const struct kedge__levels *lv, int k, double t, const uint64_t *counts, double last,
		       struct kedge__block *out);

#define KEDGE__COARSE 1e-4 /* precisions of log x; at a smooth minimum the value is exact to their square */
#define KEDGE__FINE   1e-7

/* Minimum of F over log x in [log lo, log hi]; F falls, then rises. Returns x, *VALUE = f(x). */
double kedge__golden_section(double lo, double hi, double precision, double (*f)(void *ctx, double x), void *ctx,
			     double *value);
/* Minimum of F over integers >= FIRST, looked for around HINT and at most LIMIT above it; F falls, then rises. */
uint64_t kedge__integer_search(uint64_t first, uint64_t hint, uint64_t limit, double (*f)(void *ctx, uint64_t n),
			       void *ctx, double *value);
/* Range of intervals in which an optimum must lie. */
void kedge__interval_range(const struct kedge__levels *lv, double cheapest, double *lo, double *hi);

#endif
