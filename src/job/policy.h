/*
 * policy: when to checkpoint, and how often to L2. Private to job.
 *
 * The models of plan answer, from what this job has measured; here is what they are fed with, and what holds while they
 * cannot answer. There is no clock in it: every call is told the time, in seconds of any clock that does not go back.
 */
#ifndef KEDGE_JOB_POLICY_H
#define KEDGE_JOB_POLICY_H

#include "plan/plan.h"

#define KEDGE__POLICY_INTERVAL 600.0 /* while nothing is configured and too little measured */
#define KEDGE__POLICY_L2_EVERY 4     /* the same; the least that the tables of REX have */
#define KEDGE__POLICY_TEXT     400

struct kedge__policy_config {
	double interval;      /* seconds of computation between checkpoints; 0: it decides */
	bool adaptive;        /* the interval is only where it begins */
	double mtbf, l2_mtbf; /* mean time between failures, and between those that lose L1; 0: not known */
	bool l2;              /* there is an L2 */
	uint64_t l2_every;    /* 0: it decides */
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
	bool unclean;                        /* the last process ended without closing */
	char why[KEDGE__POLICY_TEXT];        /* of the last "now"; empty: it said "later" since */
	char text[KEDGE__POLICY_TEXT];       /* of the last decision */
};

void kedge__policy_init(struct kedge__policy *p, const struct kedge__policy_config *config, double now);
double kedge__policy_interval(const struct kedge__policy *p);
uint64_t kedge__policy_l2_every(const struct kedge__policy *p); /* at least 1 */
/* Whether the answer depends on what is dirty: if not, it need not be counted. */
bool kedge__policy_wants_dirty(const struct kedge__policy *p, double now);
/* Is a checkpoint due? DIRTY: bytes in dirty pages, negative if not known. If it is, p->why tells why. */
bool kedge__policy_ask(struct kedge__policy *p, double now, double dirty);
/* Calls, at their usual pace, in which the answer can hardly change. */
uint64_t kedge__policy_skip(const struct kedge__policy *p, double now);
/* A checkpoint was taken, which ended NOW. True if interval or L2 frequency changed: p->text says how and why. */
bool kedge__policy_taken(struct kedge__policy *p, double now, double blocked, double dirty);
void kedge__policy_flushed(struct kedge__policy *p, double seconds);
/*
 * State came back from LEVEL (1, 2) within SECONDS. The first time after a process that did not close it counts as a
 * failure; UNSEEN is the time since the last version, of which that process may have spent a part computing.
 */
void kedge__policy_restarted(struct kedge__policy *p, double now, int level, double seconds, double unseen);
/* What it knows is worth keeping for the next process. */
bool kedge__policy_used(const struct kedge__policy *p);

#define KEDGE__POLICY_FILE_MAX 1024
/* The text of the file that is kept beside the hash record; CLOSED: the process ends as it should. */
void kedge__policy_format(const struct kedge__policy *p, bool closed, char text[KEDGE__POLICY_FILE_MAX]);
int kedge__policy_parse(struct kedge__policy *p, const char *text, struct kedge__error *err);

#endif
