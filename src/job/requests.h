/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * requests: somebody outside wants a version now, or wants the job to end. Private to job.
 *
 * A request is a file (store/request.c) that `kedge run` names in the environment, or that `kedge checkpoint-now` and `kedge halt` put
 * beside the versions; or a signal (signals.c). Few ranks look for files, and seldom: who leads an L1 directory looks there, rank 0 on L2,
 * and the lowest rank that sees it at the file of `kedge run`. What one rank has seen reaches all with the messages of
 * kedge_should_checkpoint() and kedge_checkpoint(). It is answered by the next version; a file beside versions is removed then.
 *
 * All of it belongs to the application's threads; the writer only removes files that the version has written down.
 */
#ifndef KEDGE_JOB_REQUESTS_H
#define KEDGE_JOB_REQUESTS_H

#include "job/job.h"
#include "job/levels.h"

#define KEDGE__REQUEST_RUN    KEDGE__LEVELS /* the file of `kedge run`, beside those of the levels */
#define KEDGE__REQUEST_PLACES (KEDGE__LEVELS + 1)

/* What a rank had seen when a version was taken, and what all ranks had. */
struct kedge__asked {
	uint64_t ns[KEDGE__REQUEST_PLACES]; /* 0: nothing there */
	unsigned signals;
	enum kedge__request_kind all; /* of all ranks */
};

struct kedge__requests {
	char *paths[KEDGE__REQUEST_PLACES]; /* that this rank looks at; NULL: it does not */
	bool watches;                       /* the file of `kedge run`; meet.c finds out */
	const char *signals;                /* it listens to; NULL: it is not open */
	bool pulse;                         /* `kedge run` wants to see that there is life */
	double looked;                      /* when; negative: never */
	struct kedge__request seen[KEDGE__REQUEST_PLACES];
	struct kedge__asked answered; /* by a version */
	unsigned signals_before;      /* answered by those before it */
	bool exit;                    /* a version was taken for a request to exit */
	bool asked, said;             /* kedge_should_exit() was called; the journal knows that it said yes */
};

void kedge__requests_init(struct kedge__requests *r);
void kedge__requests_done(kedge_t *k);
/* Whether this rank sees the file of `kedge run`; whether it is the one that looks at it. */
bool kedge__requests_sees_run(void);
void kedge__requests_watch(kedge_t *k, bool watches);
/* The ranks have met: which places are this rank's. What is older than SINCE_NS was not meant for this process, unless the last one died before
 * it could answer. */
int kedge__requests_open(kedge_t *k, uint64_t since_ns, struct kedge__error *err);
bool kedge__requests_signalled(const kedge_t *k); /* without looking at files */
/* Look, at most once a second unless NOW, and say what this rank knows of that is not answered. WHY (may be NULL): its reason. */
enum kedge__request_kind kedge__requests_look(kedge_t *k, bool now, const char **why);
void kedge__requests_note(const kedge_t *k, struct kedge__asked *asked);        /* what this rank has seen */
void kedge__requests_taken(kedge_t *k, const struct kedge__asked *asked);       /* a version, for what was noted */
void kedge__requests_failed(kedge_t *k);                                        /* it was not sealed */
/* VERSION is sealed: on rank 0 into the journal, and files are removed. Any thread. */
void kedge__requests_answered(kedge_t *k, const struct kedge__asked *asked, uint64_t version, const char *why);

/* ------------------------------------------------------------------ signals.c */

/* The setting on_signal: names with commas between them, each perhaps with ":checkpoint". */
int kedge__signals_check(const char *text, struct kedge__error *err);
/* For one handle each; signals that the program handles or ignores are left to it. */
void kedge__signals_open(const char *text, const char *name);
void kedge__signals_close(const char *text);
void kedge__signals_polite(void); /* the program asks whether to exit: it need not be ended by a signal */
unsigned kedge__signals_count(void); /* so far */
/* What those after the COUNT-th wanted, and which one came last; NULL: none came. */
const char *kedge__signals_since(unsigned count, enum kedge__request_kind *kind);

#endif
