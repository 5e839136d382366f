/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * journal: what happened to this job, one JSON object a line, appended by rank 0 (kedge-journal(5)). Private to job.
 *
 * Used by any thread; `lock` is held while a line is written. Nothing here fails: what cannot be written is counted, and logged once.
 * The same lines go to the file of `kedge run`, which is not rotated, because it is read while it grows.
 */
#ifndef KEDGE_JOB_JOURNAL_H
#define KEDGE_JOB_JOURNAL_H

#include "base/line.h"
#include "job/gauges.h"
#include "job/job.h"
#include <pthread.h>

#define KEDGE__JOURNAL_SCHEMA  1
#define KEDGE__JOURNAL_PARTS   64 /* of a region, in the map of what changed */
#define KEDGE__JOURNAL_REGIONS 32 /* of a version: the largest ones */

struct kedge__version;

struct kedge__journal_file {
	char *path;     /* NULL: there is none */
	uint64_t limit; /* bytes; 0: none */
	uint64_t lost, lost_ever; /* events since the last that was written, and in all */
	bool said;      /* that events are lost */
};

struct kedge__journal {
	pthread_mutex_t lock;
	bool opened;              /* until then lines are collected, and they follow that of the opening */
	KEDGE__ARRAY(char) early;
	struct kedge__journal_file files[2]; /* the job's own; that of kedge run */
	struct {
		uint64_t inode, bytes; /* of the first file, as far as L2 has it; 0: not known */
	} copy;
	double since;
	struct kedge__gauges gauges;
};

void kedge__journal_init(struct kedge__journal *j);
void kedge__journal_done(struct kedge__journal *j);
/* The caller has the lock. They end L, and write it. */
void kedge__journal_write(struct kedge__journal *j, const char *name, struct kedge__line *l);
void kedge__journal_opened(struct kedge__journal *j, const char *name, struct kedge__line *l);

/* ------------------------------------------------------------------ journal_copy.c: not from two threads at once */

void kedge__journal_fetch(kedge_t *k); /* go on with the copy on L2, if that is later; before anything is written */
void kedge__journal_carry(kedge_t *k); /* bring the copy up to date */

/* ------------------------------------------------------------------ events.c: each does nothing unless the caller is rank 0 */

void kedge__journal_open(kedge_t *k); /* the levels are there */
void kedge__journal_close(kedge_t *k);
void kedge__journal_begin(const struct kedge__version *v);
void kedge__journal_captured(const struct kedge__version *v);
/* Its reduction is still there. RAW and STORED: bytes of all ranks. */
void kedge__journal_sealed_put(const struct kedge__version *v, const struct kedge__set *set, uint64_t raw, uint64_t stored, struct kedge__line *l);
void kedge__journal_sealed(struct kedge__version *v, const struct kedge__set *set);
struct kedge__journal_flush {
	double seconds;
	uint64_t bytes; /* of rank 0 */
	bool refers;    /* it needs others that are there */
};
void kedge__journal_l2(const struct kedge__version *v, const struct kedge__journal_flush *flush);
void kedge__journal_failed(kedge_t *k, uint64_t version, const char *step, int rc, const struct kedge__error *err);
struct kedge__journal_restart {
	uint64_t version;
	int level;
	double seconds, age; /* what it took; how old the version was */
	bool failure;        /* the process before did not end properly */
};
void kedge__journal_restart(kedge_t *k, const struct kedge__journal_restart *restart);
/* Something else is used than was wanted. VERSION: that cannot be used, or KEDGE__NO_VERSION. TO: NULL, or what is used instead. */
void kedge__journal_fallback(kedge_t *k, const char *what, uint64_t version, const char *to, const char *reason);
/* VERSION answers a request of this KIND. */
void kedge__journal_request(kedge_t *k, const char *kind, uint64_t version, const char *why);
void kedge__journal_word(kedge_t *k, const char *event); /* an event of which there is nothing to say */
void kedge__journal_interval(kedge_t *k); /* the policy has just chosen another one */

#endif
