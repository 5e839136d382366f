/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * simulate: what plans and simulates offline, for `kedge plan`, `kedge simulate` and benchmarks: descriptions of machines,
 * models that no running job asks, and simulators that share no equation with the models and check their answers. Not part
 * of libkedge: nothing in it may be called from src/job or below. docs/models.md derives every equation.
 *
 * Units and numbering of levels as in plan.h.
 */
#ifndef KEDGE_SIMULATE_SIMULATE_H
#define KEDGE_SIMULATE_SIMULATE_H

#include "base/base.h"
#include "pipeline/pipeline.h"
#include "plan/plan.h"

/* ------------------------------------------------------------------ rex.c: incremental L1, coalesced L2 by a thread of its own: the model */

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
	double work;                 /* seconds of computation; INFINITY is fine but for simulation */
	double ic, ratio, cores, bandwidth; /* size of an L1 checkpoint to a full one; compression; cores; relative bandwidth */
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

/* ------------------------------------------------------------------ pccr.c: compression against a shared file system */

struct kedge__pccr {
	double size;              /* bytes of a process */
	double collect, compress; /* seconds a process */
	double compress_pipelined; /* seconds of the compressing stage when stages overlap */
	double fs_bandwidth, process_bandwidth;
	double ratio; /* compressed / raw, in (0, 1] */
	double processes;
};

struct kedge__pccr_times {
	double uncompressed, serial, pipelined;
	double saturation, saturation_compressed, saturation_pipelined; /* processes that fill the file system */
	double beneficial_serial, beneficial_pipelined; /* processes from which compressing pays; INFINITY: never */
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
/* What is left of a lifetime at a time that does not know of it: the first failure of a process that runs for long. */
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
struct kedge__failure kedge__failure_source_next(struct kedge__failure_source *s); /* ascending times; INFINITY: none any more */
/*
 * A file with a failure a line: time (with unit, or seconds) and optionally its level (1 if absent); '#' begins a comment.
 * `span = TIME` sets the length of the log (default: the last time plus the mean distance). KEDGE_E_ARG names file and line.
 */
int kedge__failure_trace_load(const char *path, int levels, struct kedge__failure **trace, size_t *count, double *span,
			      struct kedge__error *err);

/* ------------------------------------------------------------------ flush.c: nodes, staging servers, file system
 * Node i sends to server i mod servers, one node at a time; active servers share the file system equally, each with at
 * most its own rate. Without servers the nodes write themselves. */

struct kedge__flush {
	double nodes, size;     /* bytes a node */
	double variation;       /* of sizes: standard deviation / mean */
	double servers;         /* 0: none */
	double node_rate;       /* bytes/s of one node's link; 0: no limit */
	double server_rate;     /* bytes/s that one server writes; 0: no limit */
	double pfs_rate;        /* of the file system */
};

struct kedge__flush_times {
	double first, mean, last; /* seconds until the first server, servers on average, the last server had done its share */
	double floor;             /* bytes / file system bandwidth */
};

int kedge__flush_check(const struct kedge__flush *f, struct kedge__error *err);
/* ROOM: f->servers (or f->nodes without servers) doubles of scratch. */
void kedge__flush_simulate(const struct kedge__flush *f, struct kedge__random *r, double *room, struct kedge__flush_times *out);
size_t kedge__flush_room(const struct kedge__flush *f);

/* ------------------------------------------------------------------ job.c, rex_job.c, pccr_processes.c: entire jobs, many times */

enum kedge__flush_mode {
	KEDGE__FLUSH_SEGMENTS, /* the copy is complete after `incomplete` segments, as in the model */
	KEDGE__FLUSH_CLOCK,    /* after `latency` seconds, whatever happens to the job but a failure of the top level */
	KEDGE__FLUSH_RESTART,  /* a failure of any level makes it begin again */
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
	double limit;          /* give a run up after this many seconds; 0: 1e4 times its work */
	uint64_t runs, seed;
};

struct kedge__sim_result {
	uint64_t runs, unfinished;
	double work;                       /* of a run */
	double seconds, error;             /* mean over runs, and its standard error */
	double low, high;                  /* 99 % confidence interval of the mean */
	double efficiency, efficiency_low, efficiency_high;
	double failures[KEDGE__PLAN_LEVELS]; /* a run */
	double checkpoints, flushes, flushes_skipped; /* a run */
	double checkpoint_seconds, restart_seconds, lost_seconds; /* a run; lost: computation done again, and slow-down */
};

/* POOL may be NULL. The result does not depend on the number of threads. */
int kedge__sim_run(const struct kedge__sim *sim, struct kedge__pool *pool, struct kedge__sim_result *out, struct kedge__error *err);

struct kedge__rex_sim_result {
	uint64_t runs;
	double ratio, error, low, high;    /* run time / computation, standard error, 99 % confidence interval */
	double transient, permanent, l1, l2, full; /* a run */
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
	X(NAME, "name", TEXT, false, "what the machine is called")                                                      \
	X(SOURCE, "source", TEXT, false, "where the numbers are from")                                                  \
	X(NODES, "nodes", NUMBER, false, "nodes of the job")                                                            \
	X(SIZE, "size", BYTES, false, "bytes to save on each node")                                                     \
	X(L1_RATE, "l1_rate", BANDWIDTH, false, "level-1 bandwidth of one node")                                        \
	X(PFS, "pfs", BANDWIDTH, false, "bandwidth of the parallel file system, for all nodes together")                \
	X(PFS_READ, "pfs_read", BANDWIDTH, false, "bandwidth at restart (default: pfs)")                                \
	X(STAGING, "staging", NUMBER, false, "staging nodes that write to the file system")                             \
	X(STAGING_RATE, "staging_rate", BANDWIDTH, false, "bandwidth of one staging node (default: no limit)")          \
	X(COSTS, "costs", SECONDS, true, "time of a checkpoint, a level (default: from sizes and bandwidths)")          \
	X(RESTARTS, "restarts", SECONDS, true, "time of a restart, a level (default: as costs)")                        \
	X(RATES, "rates", RATE, true, "failures a second that need each level")                                         \
	X(MTBF, "mtbf", SECONDS, false, "mean time between failures of the whole machine")                              \
	X(NODE_MTBF, "node_mtbf", SECONDS, false, "mean time between failures of one node")                             \
	X(SHARES, "shares", NUMBER, true, "share of the failures that needs each level")                                \
	X(ALPHA, "alpha", NUMBER, false, "slow-down of computation while a copy to the top level runs (default: 0)")    \
	X(ALPHA_SLOPE, "alpha_slope", NUMBER, false, "alpha for each GB/s that a staging node reads")                   \
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
 * Put VALUES (NULL: not given) over what T has. What contradicts a new value is dropped from T, but two new values that
 * contradict each other are KEDGE_E_ARG. ORIGIN is for messages: "--", for options.
 */
int kedge__machine_text_override(struct kedge__machine_text *t, const char *const values[KEDGE__MACHINE_KEY_COUNT],
				 struct kedge__error *err);
/* Parses a single value of KEY. KEDGE_E_ARG for keys that are text or a list. */
int kedge__machine_quantity(enum kedge__machine_key key, const char *text, double *out, struct kedge__error *err);
/* KEY by its name, with '-' or '_'; KEDGE__MACHINE_KEY_COUNT if there is none. */
enum kedge__machine_key kedge__machine_key_find(const char *name);

struct kedge__machine {
	struct kedge__async async; /* levels with all costs; sync uses levels alone */
	double work;
	struct kedge__flush flush; /* pfs_rate 0: not known */
	bool costs_given;          /* not from sizes and bandwidths */
};

/* What is missing or contradictory is named. BACKGROUND: costs may lack the top level's, which is then the latency. */
int kedge__machine_resolve(const struct kedge__machine_text *t, bool background, struct kedge__machine *out, struct kedge__error *err);

#endif
