/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plan: models of checkpoint cost and failure. They say how often to checkpoint, to which level, and
 * what that costs; a controller applies them while a job runs. docs/models.md derives every equation and
 * names its source. Here is what a running job needs; simulators and models for offline use are in src/simulate.
 *
 * Units everywhere: seconds, bytes, 1/s. Levels are numbered from 1 (the cheapest); arrays over levels
 * are indexed by level - 1.
 */
#ifndef KEDGE_PLAN_PLAN_H
#define KEDGE_PLAN_PLAN_H

#include "base/base.h"

#define KEDGE__PLAN_LEVELS 16

/* ------------------------------------------------------------------ quantity.c: numbers with units */

enum kedge__quantity {
	KEDGE__QUANTITY_NUMBER,    /* 0.5, 1e-5, 1/8; 16% is 0.16 */
	KEDGE__QUANTITY_SECONDS,   /* plain, or ns us ms s min h d w month (30 d) y (365.25 d) */
	KEDGE__QUANTITY_BYTES,     /* plain, or B kB MB GB TB PB EB (powers of 1000), KiB .. EiB */
	KEDGE__QUANTITY_RATE,      /* plain: 1/s; 3/d, 1/13h */
	KEDGE__QUANTITY_BANDWIDTH, /* plain: bytes per second; 6.4GB/s, 1TB/h */
};

/* All quantities are finite and not negative. KEDGE_E_ARG names TEXT, the unit, and those that fit. */
int kedge__quantity_parse(enum kedge__quantity kind, const char *text, double *out, struct kedge__error *err);
/* A comma-separated list. KEDGE_E_ARG if there are more than ROOM values or an empty one. */
int kedge__quantity_parse_list(enum kedge__quantity kind, const char *text, double *out, size_t room, size_t *count,
			       struct kedge__error *err);

/* ------------------------------------------------------------------ levels.c: a machine as the models see it */

struct kedge__levels {
	int count;
	double rate[KEDGE__PLAN_LEVELS];    /* failures per second that need a checkpoint of this level or a higher one */
	double cost[KEDGE__PLAN_LEVELS];    /* seconds that a checkpoint blocks the job */
	double restart[KEDGE__PLAN_LEVELS]; /* seconds that a restart from it takes */
};

double kedge__levels_rate(const struct kedge__levels *lv); /* of all failures */
/* KEDGE_E_ARG names the value that is negative or not a number, or says that there are too many. */
int kedge__levels_check(const struct kedge__levels *lv, struct kedge__error *err);

struct kedge__expectation {
	double seconds;    /* expected time of one period; INFINITY when it is beyond the range of a double */
	double work;       /* seconds of computation in it */
	double efficiency; /* work / seconds */
};

/*
 * Why a job on this machine cannot finish, or NULL if it can: the mean time between failures is shorter than a
 * checkpoint that every interval ends with, or the best efficiency is below 1 %. Writes into TEXT.
 */
const char *kedge__levels_verdict(const struct kedge__levels *lv, double efficiency, char *text, size_t room);

/* ------------------------------------------------------------------ sync.c: L levels, every checkpoint blocks */

/* counts[k-1], k < L: level-k checkpoints between two of a higher level; counts[L-1] is 1. */
int kedge__sync_expect(const struct kedge__levels *lv, double interval, const uint64_t *counts,
		       struct kedge__expectation *out, struct kedge__error *err);

struct kedge__sync_plan {
	double interval; /* INFINITY: no failures, so no checkpoint is worth its cost */
	uint64_t counts[KEDGE__PLAN_LEVELS];
	struct kedge__expectation expect;
};

int kedge__sync_best(const struct kedge__levels *lv, struct kedge__sync_plan *out, struct kedge__error *err);

/* ------------------------------------------------------------------ async.c: the top level is written in the background */

/*
 * Levels 1..L-1 block; the last checkpoint of a period is also copied to level L while the job continues.
 * levels.cost[L-1] is not used. A segment ends with a level-(L-1) checkpoint; with L = 2 it is one interval.
 */
struct kedge__async {
	struct kedge__levels levels;
	double alpha;     /* slow-down of computation while the copy runs: 1 + alpha */
	double init_cost; /* what starting the copy adds to the last checkpoint of a period */
	double latency;   /* seconds that the copy takes; used by _segments() and _best() */
};

struct kedge__async_plan {
	double interval;
	uint64_t counts[KEDGE__PLAN_LEVELS]; /* of levels 1..L-2, as above; the rest is 1 */
	uint64_t segments;                   /* of a period: every segments-th level-(L-1) checkpoint goes to level L */
	uint64_t incomplete;                 /* segments that pass until the copy is finished, <= segments */
	struct kedge__expectation expect;
};

/* expect from the other members of PLAN. KEDGE_E_ARG: incomplete > segments, or fewer than two levels. */
int kedge__async_expect(const struct kedge__async *as, struct kedge__async_plan *plan, struct kedge__error *err);
/* Segments that the copy takes at this interval (with counts of the lower levels). */
uint64_t kedge__async_incomplete(const struct kedge__async *as, double interval, const uint64_t *counts);
int kedge__async_best(const struct kedge__async *as, struct kedge__async_plan *out, struct kedge__error *err);

/* ------------------------------------------------------------------ single.c: one level, closed forms */

double kedge__single_expect(double rate, double cost, double restart, double interval);
double kedge__single_best(double rate, double cost); /* exact optimum; INFINITY without failures */
double kedge__young_interval(double mtbf, double cost);
double kedge__daly_interval(double mtbf, double cost);
/* Expected time of WORK seconds without any checkpoint, started over after each failure. */
double kedge__bare_expect(double rate, double restart, double work);

/* ------------------------------------------------------------------ rex.c: incremental L1, coalesced L2: the rules of a running job */

/* Number of deltas after the last full one from which a full one pays off: max(0, ceil((full - delta_cost) / (p delta_restore) - 1)),
 * p = 1 - exp(-interval/mtbf). UINT64_MAX: never. */
uint64_t kedge__rex_coalesce(double full, double delta_cost, double delta_restore, double interval, double mtbf);

#define KEDGE__REX_ROWS 6
#define KEDGE__REX_COLUMNS 6
extern const double kedge__rex_table_ic[KEDGE__REX_ROWS], kedge__rex_table_cr[KEDGE__REX_COLUMNS];
extern const int kedge__rex_table[KEDGE__REX_ROWS][KEDGE__REX_COLUMNS]; /* Table 1 of the paper */
/* L1 checkpoints between L2 ones by the paper's run-time rule: bilinear in log(ic), log(ratio), then 4..9. */
int kedge__rex_table_lookup(double ic, double ratio);

/* ------------------------------------------------------------------ controller.c: the models at run time
 *
 * The job feeds what it measures and asks what to do. What the owner of the job has to call:
 *  1. kedge__controller_init() at open, with the configured interval and l2_every; then, if the last incarnation left a
 *     line, kedge__controller_parse(): failures are seen only across restarts.
 *  2. At a restart: kedge__controller_failure() with the level it came from and the seconds it took. In this order
 *     around a checkpoint: kedge__controller_advance() with the wall time since the last call to it, the blocked time
 *     included, then kedge__controller_checkpoint() with the blocked seconds. Whenever a copy to L2 is finished:
 *     kedge__controller_flush() with the seconds it took.
 *  3. kedge__controller_decide() after each checkpoint. If it returns true, log decision.text and use decision.interval
 *     and decision.l2_every from then on. On several ranks, rank 0 decides and sends the result to the others.
 *  4. kedge__controller_format() after each checkpoint, to keep the line beside the hash record.
 * No threads, no allocation, no clock of its own: the same calls give the same answers. */

struct kedge__controller_config {
	double interval;      /* configured; seconds of computation between checkpoints; 0: only the application decides */
	uint64_t l2_every;    /* configured; 0: there is no L2 */
	double mtbf[2];       /* configured mean time between failures that need L1, L2; 0: not known */
	double alpha;         /* slow-down while a copy runs */
	double min_interval, max_interval; /* bounds of its answers; 0: none */
	bool background;      /* L2 is written in the background (else: each L2 checkpoint blocks) */
};

struct kedge__controller_mean { /* exponentially weighted: one in four of the newest */
	double value;
	uint64_t count;
};

struct kedge__controller {
	struct kedge__controller_config config;
	struct kedge__controller_mean cost[2], restart[2], spacing; /* spacing: computation between checkpoints */
	double elapsed;       /* seconds under observation, over all incarnations */
	double since;         /* those since the last checkpoint */
	uint64_t failures[2];
	double interval;      /* in force */
	uint64_t l2_every;
};

struct kedge__decision {
	double interval;
	uint64_t l2_every;
	double efficiency; /* expected; 0: not known */
	char text[400];    /* what changed, and why; or why there is no answer yet */
};

void kedge__controller_init(struct kedge__controller *c, const struct kedge__controller_config *config);
void kedge__controller_advance(struct kedge__controller *c, double seconds);
void kedge__controller_checkpoint(struct kedge__controller *c, double blocked_seconds);
void kedge__controller_flush(struct kedge__controller *c, double seconds);
void kedge__controller_failure(struct kedge__controller *c, int level, double restart_seconds);
/* True if interval or l2_every changed by enough to matter. Always fills OUT. */
bool kedge__controller_decide(struct kedge__controller *c, struct kedge__decision *out);
/* Mean time between failures of any kind, as configured and seen; 0: not known. */
double kedge__controller_mtbf(const struct kedge__controller *c);
#define KEDGE__CONTROLLER_LINE 384
void kedge__controller_format(const struct kedge__controller *c, char line[KEDGE__CONTROLLER_LINE]);
/* Replaces the measurements, not the configuration. KEDGE_E_FORMAT: not a line of this version; nothing is changed. */
int kedge__controller_parse(struct kedge__controller *c, const char *line, struct kedge__error *err);

#endif
