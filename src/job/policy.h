/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * policy: when to checkpoint, and how often to L2. Private to job.
 *
 * The models of plan decide, from the measurements of this job; this header has their inputs, and the rules for as long as they
 * cannot decide. It has no clock: every call gets the time, in seconds of any monotonic clock.
 */
#ifndef KEDGE_JOB_POLICY_H
#define KEDGE_JOB_POLICY_H

#include "plan/plan.h"

#define KEDGE__POLICY_INTERVAL 600.0 /* the most while nothing is configured and too little measured */
#define KEDGE__POLICY_FIRST    10.0  /* the same, before the first checkpoint: it is taken early, to see what it costs */
#define KEDGE__POLICY_L2_EVERY 4     /* the same; the least that the tables of REX have */
#define KEDGE__POLICY_MTBF     86400.0 /* the same, where a mean time between failures cannot be done without */
#define KEDGE__POLICY_TEXT     400

struct kedge__policy_config {
	double interval;      /* seconds of computation between checkpoints; 0: it decides */
	bool adaptive;        /* the interval is only where it begins */
	double mtbf, l2_mtbf; /* mean time between failures, and between those that lose L1; 0: not known */
	bool l2;              /* there is an L2 */
	uint64_t l2_every;    /* 0: it decides */
	double l2_interval;   /* seconds that lie between versions on L2 at least */
};

enum kedge__l2_by { KEDGE__L2_SET, KEDGE__L2_PRESET, KEDGE__L2_TABLE, KEDGE__L2_MODEL }; /* who chose the frequency */

/* What is known of L2 when a version is taken; rank 0's counts. Negative: not known. */
struct kedge__l2_costs {
	double full, delta;           /* seconds that a self-contained version took there, and one that is not */
	double write_rate, read_rate; /* bytes a second, of rank 0 */
	double interval, mtbf;        /* seconds between versions there, and between failures */
	uint64_t every;               /* versions from one there to the next */
	uint32_t by;                  /* enum kedge__l2_by */
	bool mtbf_known;
};

struct kedge__l2_flush { /* what one took */
	double seconds;
	uint64_t bytes;
	bool self_contained;
};

struct kedge__policy {
	struct kedge__policy_config config;
	struct kedge__controller controller;
	bool moves_interval, moves_l2;
	bool asked;                          /* the application lets it decide when */
	double resumed;                      /* when computation went on after the last checkpoint, restart or open */
	double told;                         /* up to here the controller knows of time */
	double last_ask, call;               /* when it was asked last; the usual time between two calls */
	struct kedge__controller_mean dirty; /* bytes in dirty pages, at checkpoints */
	struct kedge__controller_mean full, delta, write_rate, read_rate; /* of L2, as in kedge__l2_costs */
	struct kedge__controller_mean increment, ratio; /* what of the image is new; bytes before and after packing */
	enum kedge__l2_by l2_by;
	bool loaded;                         /* an earlier process knew something */
	bool kept;                           /* this process has written its file: if it does not close, that is seen */
	bool unclean;                        /* the last process ended without closing */
	char why[KEDGE__POLICY_TEXT];        /* of the last "now"; empty: it said "later" since */
	char text[KEDGE__POLICY_TEXT];       /* of the last decision */
};

void kedge__policy_init(struct kedge__policy *p, const struct kedge__policy_config *config, double now);
double kedge__policy_interval(const struct kedge__policy *p);
const char *kedge__policy_by(const struct kedge__policy *p); /* why it is that: "configured", "chosen" and others, of unlimited life */
uint64_t kedge__policy_l2_every(const struct kedge__policy *p); /* at least 1 */
/* Whether the answer depends on what is dirty: if not, it need not be counted. */
bool kedge__policy_wants_dirty(const struct kedge__policy *p, double now);
/* Is a checkpoint due? DIRTY: bytes in dirty pages, negative if not known. If it is, p->why gives the reason. */
bool kedge__policy_ask(struct kedge__policy *p, double now, double dirty);
/* Calls, at their usual pace, in which the answer can hardly change. */
uint64_t kedge__policy_skip(const struct kedge__policy *p, double now);
/* A checkpoint was taken, which ended NOW. True if interval or L2 frequency changed: p->text says how and why. */
bool kedge__policy_taken(struct kedge__policy *p, double now, double blocked, double dirty);
/* Of it LITERAL bytes of RAW were new, in STORED bytes. */
void kedge__policy_increment(struct kedge__policy *p, uint64_t raw, uint64_t literal, uint64_t stored);
void kedge__policy_flushed(struct kedge__policy *p, const struct kedge__l2_flush *flush);
void kedge__policy_read(struct kedge__policy *p, double seconds, uint64_t bytes); /* of a restart from L2 */
void kedge__policy_l2_costs(const struct kedge__policy *p, struct kedge__l2_costs *out);
/*
 * State came back from LEVEL (1, 2) within SECONDS. The first time after a process that did not close it counts as a
 * failure; UNSEEN is the time since the last version, of which that process may have spent a part computing.
 */
void kedge__policy_restarted(struct kedge__policy *p, double now, int level, double seconds, double unseen);
/* It decides something: what it knows is kept after each checkpoint. */
bool kedge__policy_used(const struct kedge__policy *p);
/* It knows something that the next process has a use for. */
bool kedge__policy_known(const struct kedge__policy *p);

#define KEDGE__POLICY_FILE_MAX 2048
/* The text of the file that is kept beside the hash record; CLOSED: the process ends as it should. */
void kedge__policy_format(const struct kedge__policy *p, bool closed, char text[KEDGE__POLICY_FILE_MAX]);
int kedge__policy_parse(struct kedge__policy *p, const char *text, struct kedge__error *err);

/* ------------------------------------------------------------------ coalescing.c: a delta, or a self-contained version */

struct kedge__l2_chain { /* what L2 has, and what would come; bytes are those of the largest rank */
	uint64_t deltas;     /* that the newest version there needs, itself among them, on top of a self-contained one */
	double delta_bytes;  /* their mean; 0: there is none */
	double full_bytes;   /* of a self-contained version */
	double batch_bytes;  /* of what would become the next delta, or somewhat more */
};

/* By the rule of REX: should the next version on L2 be self-contained? WHY gives the reason. */
bool kedge__coalescing_due(const struct kedge__l2_costs *costs, const struct kedge__l2_chain *chain,
				char why[KEDGE__POLICY_TEXT]);

#endif
