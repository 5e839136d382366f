/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * state: how far each version is, and what is reported to the application. Private to job.
 *
 * Used by any thread; everything here is protected by `lock`, which is held only briefly.
 */
#ifndef KEDGE_JOB_STATE_H
#define KEDGE_JOB_STATE_H

#include "job/job.h"
#include <pthread.h>

/* How far a version of this process is; kept for kedge_test(). */
struct kedge__job_status {
	uint64_t version;
	bool done;
	struct kedge__error err;
};

struct kedge__state {
	pthread_mutex_t lock;
	KEDGE__ARRAY(struct kedge__job_status) status; /* ascending versions */
	struct kedge__error first; /* of a background step, not yet reported */
	struct kedge__error stuck; /* the first of the calls that describe what to save, not yet asked for */
	struct kedge_stats stats;
};

struct kedge__progress { /* callbacks run one at a time */
	pthread_mutex_t lock;
	void (*call)(void *user, const struct kedge_progress *p);
	void *user;
};

void kedge__state_init(struct kedge__state *s);
void kedge__state_done(struct kedge__state *s);
void kedge__progress_init(struct kedge__progress *p);
void kedge__progress_done(struct kedge__progress *p);
/* KEDGE_E_ARG: there is no handle; KEDGE_E_STATE: it is another process's. What every call begins with. */
int kedge__handle_check(const kedge_t *k, struct kedge__error *err);
int kedge__state_fail(const kedge_t *k, int rc, struct kedge__error *err); /* for kedge_last_error(); empties ERR; returns RC */
int kedge__state_stick(kedge_t *k, int rc, struct kedge__error *err); /* the same, and for kedge_check() */
void kedge__state_begin(kedge_t *k, uint64_t version);                     /* the version is on its way; forgets those above */
void kedge__state_end(kedge_t *k, uint64_t version, int rc, const struct kedge__error *err);
void kedge__state_drop_above(kedge_t *k, uint64_t version);
void kedge__state_drop_all(kedge_t *k);
void kedge__state_note(kedge_t *k, int rc, const struct kedge__error *err); /* an error for kedge_wait() to report */
int kedge__state_take(kedge_t *k, struct kedge__error *err);                /* the noted error, once */
/* What is known of the last version that was taken. AGAIN: more than before, unless another one was taken since. */
void kedge__state_stats(kedge_t *k, const struct kedge_stats *stats, bool again);
/* A progress report; DONE may come from any thread. */
struct kedge__job_progress {
	kedge_t *k;
	const char *phase;
	uint64_t version, total;
};
void kedge__state_progress(const struct kedge__job_progress *p, uint64_t done);
void kedge__state_progress_bytes(void *ctx, uint64_t done);                  /* of callbacks that know only bytes */
void kedge__state_progress_total(void *ctx, uint64_t done, uint64_t total);

#endif
