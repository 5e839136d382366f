/*
 * plan: models of checkpoint cost and failure. They say how often to checkpoint, to which level, and
 * what that costs; a simulator that shares no equation with them checks the answer; a controller
 * applies them while a job runs. docs/models.md derives every equation and names its source.
 *
 * Units everywhere: seconds, bytes, 1/s. Levels are numbered from 1 (the cheapest); arrays over levels
 * are indexed by level - 1.
 */
#ifndef KEDGE_PLAN_PLAN_H
#define KEDGE_PLAN_PLAN_H

#include "base/base.h"
#include "pipeline/pipeline.h"

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

/* ------------------------------------------------------------------ rex.c: incremental L1, coalesced into L2 by a separate thread */

/* Number of deltas after the last full one from which a full one pays off: max(0, ceil((full - delta_cost) / (p delta_restore) - 1)),
 * p = 1 - exp(-interval/mtbf). UINT64_MAX: never. */
uint64_t kedge__rex_coalesce(double full, double delta_cost, double delta_restore, double interval, double mtbf);

enum kedge__rex_full { KEDGE__REX_RULE, KEDGE__REX_NEVER, KEDGE__REX_ALWAYS };

struct kedge__rex {
	double mtbf, permanent;      /* seconds; share of failures that need L2 */
	double variation;            /* of L1 intervals: standard deviation / mean */
	double snapshot;             /* seconds of a full L1 checkpoint; one of fraction IC takes IC times that */
	double restore_l1;           /* seconds after a transient failure */
	double full, restore_full;   /* seconds to write, to read a full L2 checkpoint */
	double interval, interval_power; /* mean L1 interval: interval * ic^interval_power */
	double fixed, fixed_restore; /* part of L2 write and read time that does not depend on compression and bandwidth */
	double batch_growth;         /* 0: a batch is as large as one L1 checkpoint; 1: no page is written twice */
	bool scale_full;             /* compression and bandwidth act on full checkpoints too */
	enum kedge__rex_full policy;
	double work;                 /* seconds of computation; INFINITY is allowed except for simulation */
	double ic, ratio, cores, bandwidth; /* size of an L1 checkpoint / a full one; compression; cores; relative bandwidth */
};

struct kedge__rex_costs {
	double interval, snapshot; /* L1: mean computation, and halt */
	double period;             /* L2 to L2 */
	double delta, delta_restore, full;
	uint64_t deltas;           /* between full ones; UINT64_MAX: never a full one */
};

/* "fit-a" (the one to use), "fit-b", "natural", "v1", "v3", "v5", "v8": readings of what the paper leaves open (docs/models.md). */
int kedge__rex_preset(const char *name, struct kedge__rex *out, struct kedge__error *err);
const char *kedge__rex_preset_name(size_t i); /* NULL past the last */
int kedge__rex_check(const struct kedge__rex *rex, struct kedge__error *err);
void kedge__rex_derive(const struct kedge__rex *rex, uint64_t chi, struct kedge__rex_costs *out);
/* First-order ratio of run time to computation, with an L2 checkpoint after every CHI L1 checkpoints. */
double kedge__rex_ratio(const struct kedge__rex *rex, uint64_t chi);
uint64_t kedge__rex_best(const struct kedge__rex *rex); /* chi with the least ratio */

#define KEDGE__REX_ROWS 6
#define KEDGE__REX_COLUMNS 6
extern const double kedge__rex_table_ic[KEDGE__REX_ROWS], kedge__rex_table_cr[KEDGE__REX_COLUMNS];
extern const int kedge__rex_table[KEDGE__REX_ROWS][KEDGE__REX_COLUMNS]; /* Table 1 of the paper */
/* L1 checkpoints between L2 ones by the paper's run-time rule: bilinear in log(ic), log(ratio), then 4..9. */
int kedge__rex_table_lookup(double ic, double ratio);

/* ------------------------------------------------------------------ pccr.c: compression against a shared file system */

struct kedge__pccr {
	double size;              /* bytes per process */
	double collect, compress; /* seconds per process */
	double compress_pipelined; /* seconds of the compressing stage when stages overlap */
	double fs_bandwidth, process_bandwidth;
	double ratio; /* compressed / raw, in (0, 1] */
	double processes;
};

struct kedge__pccr_times {
	double uncompressed, serial, pipelined;
	double saturation, saturation_compressed, saturation_pipelined; /* processes that fill the file system */
	double beneficial_serial, beneficial_pipelined; /* processes from which compression pays off; INFINITY: never */
};

int kedge__pccr_evaluate(const struct kedge__pccr *in, struct kedge__pccr_times *out, struct kedge__error *err);

/* ------------------------------------------------------------------ random.c: the same numbers on every machine
 * Integer arithmetic, and IEEE + - * / sqrt in a fixed order; no libm. */

struct kedge__random {
	uint64_t s[4];
	double spare; /* second normal of a pair */
	bool has_spare;
};

void kedge__random_init(struct kedge__random *r, uint64_t seed, uint64_t stream);
double kedge__random_uniform(struct kedge__random *r); /* in (0, 1] */
double kedge__random_exponential(struct kedge__random *r); /* mean 1 */
double kedge__random_weibull(struct kedge__random *r, double shape); /* scale 1 */
/* The rest of a lifetime at a random moment: the first failure of a process that has been running for long. */
double kedge__random_weibull_residual(struct kedge__random *r, double shape);
double kedge__random_normal(struct kedge__random *r);
double kedge__portable_log(double x); /* x > 0, normal */
double kedge__portable_exp(double x);
double kedge__portable_gamma(double x); /* x in [1, 170] */

/* ------------------------------------------------------------------ failures.c: where failures come from */

enum kedge__failure_kind { KEDGE__FAILURES_EXPONENTIAL, KEDGE__FAILURES_WEIBULL, KEDGE__FAILURES_TRACE };

struct kedge__failure {
	double time;
	int level; /* 1.. */
};

struct kedge__failure_model {
	enum kedge__failure_kind kind;
	int levels;
	double rate[KEDGE__PLAN_LEVELS];
	double shape;      /* Weibull, in steady state; the mean time between failures follows from the rates */
	uint64_t nodes;    /* 0: one renewal process for the machine; else one for each node (Weibull) */
	const struct kedge__failure *trace; /* ascending times; borrowed */
	size_t trace_count;
	double trace_span; /* the trace repeats after this many seconds */
};

struct kedge__failure_source; /* one run's stream */

int kedge__failure_source_new(const struct kedge__failure_model *m, struct kedge__failure_source **out, struct kedge__error *err);
void kedge__failure_source_free(struct kedge__failure_source *s);
/* Begin a stream that only SEED, STREAM and the model decide. A trace starts at its beginning for stream 0, else at a random place. */
void kedge__failure_source_start(struct kedge__failure_source *s, uint64_t seed, uint64_t stream);
struct kedge__failure kedge__failure_source_next(struct kedge__failure_source *s); /* ascending times; INFINITY: no more failures */
/*
 * A file with one failure per line: time (with unit, or seconds) and optionally its level (1 if absent); '#' begins a comment.
 * `span = TIME` sets the length of the log (default: the last time plus the mean distance). KEDGE_E_ARG names file and line.
 */
int kedge__failure_trace_load(const char *path, int levels, struct kedge__failure **trace, size_t *count, double *span,
			      struct kedge__error *err);

/* ------------------------------------------------------------------ flush.c: nodes, staging servers, file system
 * Node i sends to server i mod servers, one node at a time; active servers share the file system equally, each with at
 * most its own rate. Without servers the nodes write directly. */

struct kedge__flush {
	double nodes, size;     /* bytes per node */
	double variation;       /* of sizes: standard deviation / mean */
	double servers;         /* 0: none */
	double node_rate;       /* bytes/s of one node's link; 0: no limit */
	double server_rate;     /* bytes/s that one server writes; 0: no limit */
	double pfs_rate;        /* of the file system */
};

struct kedge__flush_times {
	double first, mean, last; /* seconds until the first server, the average server, the last server was finished */
	double floor;             /* bytes / file system bandwidth */
};

int kedge__flush_check(const struct kedge__flush *f, struct kedge__error *err);
/* ROOM: f->servers (or f->nodes without servers) doubles of scratch. */
void kedge__flush_simulate(const struct kedge__flush *f, struct kedge__random *r, double *room, struct kedge__flush_times *out);
size_t kedge__flush_room(const struct kedge__flush *f);

/* ------------------------------------------------------------------ simulate.c: entire jobs, many times */

enum kedge__flush_mode {
	KEDGE__FLUSH_SEGMENTS, /* the copy is finished after `incomplete` segments, as in the model */
	KEDGE__FLUSH_CLOCK,    /* after `latency` seconds, whatever happens to the job except a failure of the top level */
	KEDGE__FLUSH_RESTART,  /* a failure of any level makes it start over */
};

struct kedge__sim {
	bool background;       /* the top level is written as in struct kedge__async, else synchronously */
	struct kedge__async machine;
	double interval;
	uint64_t counts[KEDGE__PLAN_LEVELS]; /* synchronous: as kedge__sync_expect(); else as in kedge__async_plan */
	uint64_t segments, incomplete;
	enum kedge__flush_mode flush;
	const struct kedge__flush *queue; /* not NULL: draws the latency of each copy (not with FLUSH_SEGMENTS) */
	const struct kedge__failure_model *failures;
	double work;           /* seconds of computation, rounded up to whole periods unless cold */
	bool cold;             /* begin without earlier checkpoints, end without a last one; false: steady state, as in the models */
	double limit;          /* abandon a run after this many seconds; 0: 1e4 times its work */
	uint64_t runs, seed;
};

struct kedge__sim_result {
	uint64_t runs, unfinished;
	double work;                       /* of a run */
	double seconds, error;             /* mean over runs, and its standard error */
	double low, high;                  /* 99 % confidence interval of the mean */
	double efficiency, efficiency_low, efficiency_high;
	double failures[KEDGE__PLAN_LEVELS]; /* per run */
	double checkpoints, flushes, flushes_skipped; /* per run */
	double checkpoint_seconds, restart_seconds, lost_seconds; /* per run; lost: repeated computation, and slow-down */
};

/* POOL may be NULL. The result does not depend on the number of threads. */
int kedge__sim_run(const struct kedge__sim *sim, struct kedge__pool *pool, struct kedge__sim_result *out, struct kedge__error *err);

struct kedge__rex_sim_result {
	uint64_t runs;
	double ratio, error, low, high;    /* run time / computation, standard error, 99 % confidence interval */
	double transient, permanent, l1, l2, full; /* per run */
};

int kedge__rex_simulate(const struct kedge__rex *rex, uint64_t chi, const struct kedge__failure_model *failures /* NULL: exponential */,
			uint64_t runs, uint64_t seed, struct kedge__pool *pool, struct kedge__rex_sim_result *out, struct kedge__error *err);

struct kedge__pccr_sim_result {
	double uncompressed[3], serial[3], pipelined[3]; /* mean, low and high end of its 99 % confidence interval */
};

/* Collection and compression times of processes vary by VARIATION (standard deviation / mean). */
int kedge__pccr_simulate(const struct kedge__pccr *in, double variation, uint64_t runs, uint64_t seed, struct kedge__pool *pool,
			 struct kedge__pccr_sim_result *out, struct kedge__error *err);

/* ------------------------------------------------------------------ machine.c: a machine and a job, as people describe them */

/* Key, kind, may be a list, text for the manual. Each is a line of a machine file and an option of the command. */
#define KEDGE__MACHINE_KEYS(X)                                                                                          \
	X(NAME, "name", TEXT, false, "name of the machine")                                                             \
	X(SOURCE, "source", TEXT, false, "source of the numbers")                                                       \
	X(NODES, "nodes", NUMBER, false, "nodes of the job")                                                            \
	X(SIZE, "size", BYTES, false, "bytes to save on each node")                                                     \
	X(L1_RATE, "l1_rate", BANDWIDTH, false, "level-1 bandwidth of one node")                                        \
	X(PFS, "pfs", BANDWIDTH, false, "bandwidth of the parallel file system, for all nodes together")                \
	X(PFS_READ, "pfs_read", BANDWIDTH, false, "bandwidth at restart (default: pfs)")                                \
	X(STAGING, "staging", NUMBER, false, "staging nodes that write to the file system")                             \
	X(STAGING_RATE, "staging_rate", BANDWIDTH, false, "bandwidth of one staging node (default: no limit)")          \
	X(COSTS, "costs", SECONDS, true, "time of a checkpoint, per level (default: from sizes and bandwidths)")        \
	X(RESTARTS, "restarts", SECONDS, true, "time of a restart, per level (default: as costs)")                      \
	X(RATES, "rates", RATE, true, "failures per second that need each level")                                       \
	X(MTBF, "mtbf", SECONDS, false, "mean time between failures of the machine")                                    \
	X(NODE_MTBF, "node_mtbf", SECONDS, false, "mean time between failures of one node")                             \
	X(SHARES, "shares", NUMBER, true, "share of failures that need each level")                                     \
	X(ALPHA, "alpha", NUMBER, false, "slow-down of computation while a copy to the top level runs (default: 0)")    \
	X(ALPHA_SLOPE, "alpha_slope", NUMBER, false, "alpha per GB/s that a staging node reads")                        \
	X(LATENCY, "latency", SECONDS, false, "time of a background copy (default: the cost of the top level)")         \
	X(INIT_COST, "init_cost", SECONDS, false, "time that starting a copy blocks the job (default: 0)")              \
	X(WORK, "work", SECONDS, false, "computation of the job (default: 30d)")                                        \
	X(FAILURE, "failure", NUMBER, false, "factor on all failure rates (default: 1)")                                \
	X(COST, "cost", NUMBER, false, "factor on cost, restart and latency of the top level (default: 1)")

enum kedge__machine_key {
#define KEDGE__X(id, key, kind, list, doc) KEDGE__MACHINE_##id,
	KEDGE__MACHINE_KEYS(KEDGE__X)
#undef KEDGE__X
	KEDGE__MACHINE_KEY_COUNT
};

extern const struct kedge__setting kedge__machine_table[KEDGE__MACHINE_KEY_COUNT];

struct kedge__machine_text {
	char *value[KEDGE__MACHINE_KEY_COUNT]; /* owned; "": not given */
};

int kedge__machine_text_init(struct kedge__machine_text *t, struct kedge__error *err);
void kedge__machine_text_done(struct kedge__machine_text *t);
int kedge__machine_text_load(struct kedge__machine_text *t, const char *path, struct kedge__error *err);
/*
 * Put VALUES (NULL: not given) over those of T. Old values that contradict a new one are dropped from T, but two new values
 * that contradict each other are KEDGE_E_ARG. ORIGIN is for messages: "--", for options.
 */
int kedge__machine_text_override(struct kedge__machine_text *t, const char *const values[KEDGE__MACHINE_KEY_COUNT],
				 struct kedge__error *err);
/* Parses a single value of KEY. KEDGE_E_ARG for keys that are text or a list. */
int kedge__machine_quantity(enum kedge__machine_key key, const char *text, double *out, struct kedge__error *err);
/* KEY by its name, with '-' or '_'; KEDGE__MACHINE_KEY_COUNT if there is none. */
enum kedge__machine_key kedge__machine_key_find(const char *name);

struct kedge__machine {
	struct kedge__async async; /* levels with all costs; sync uses only the levels */
	double work;
	struct kedge__flush flush; /* pfs_rate 0: not known */
	bool costs_given;          /* not from sizes and bandwidths */
};

/* Errors name what is missing or contradictory. BACKGROUND: costs may omit the top level's, which is then the latency. */
int kedge__machine_resolve(const struct kedge__machine_text *t, bool background, struct kedge__machine *out, struct kedge__error *err);

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
