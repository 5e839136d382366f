/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * run: which versions a new one follows, and which it abandons. Private to job.
 *
 * It belongs to the thread that takes a checkpoint, or to the writer while a version is pending.
 */
#ifndef KEDGE_JOB_RUN_H
#define KEDGE_JOB_RUN_H

#include "job/levels.h"

/* What the versions of this process follow; run.c. Looked at while no write is pending, or by the writer. */
struct kedge__job_run {
	struct kedge__run is;   /* of the versions taken so far */
	struct kedge__run next; /* of the version in progress, if a run begins with it */
	uint64_t last;          /* the newest version taken; KEDGE__NO_VERSION: none since open, restart or discard */
	bool placed;            /* by a restart or a discard: the next run follows version `from_version` of `from` */
	struct kedge__run from;
	uint64_t from_version;  /* what is not above it still counts; KEDGE__NO_VERSION: nothing does */
	struct kedge__run present; /* as this rank sees it, while a run begins */
	uint64_t floor;         /* the lowest number that the next version may have */
	int refused;            /* how the last restart failed; checkpoints are refused until the program decides */
};

void kedge__job_run_init(struct kedge__job_run *run);
void kedge__job_run_done(struct kedge__job_run *run);
/* The present run of all that the ranks can see on LEVELS, by an exchange of MSG, a restart_msg in which the rest is the caller's. RC is how this
 * rank fared so far. Collective. */
int kedge__run_present(kedge_t *k, enum kedge__step step, uint64_t version, struct kedge__catalog *const *levels, size_t n, int rc, union kedge__msg *msg,
		       struct kedge__run *present, struct kedge__error *err);
/* The newest version below LIMIT that belongs to RUN, or cannot be read, on any of the levels, plus 1; 0: there is none. */
uint64_t kedge__run_after(const struct kedge__run *run, struct kedge__catalog *const *levels, size_t n, uint64_t limit);
int kedge__run_check(const kedge_t *k, uint64_t version, struct kedge__error *err); /* KEDGE_E_STATE: it may not be taken */
int kedge__run_next(kedge_t *k, uint64_t *version, struct kedge__error *err); /* for KEDGE_NEXT: a number that may be taken. Collective */
bool kedge__run_due(const kedge_t *k, uint64_t version);                           /* a run begins with it */
/* If a run begins with VERSION: as this rank would have it, with what the others have to know; and, after BEGIN, as all have it. *CHANGED:
 * it follows another run than this rank thought. KEDGE_E_STATE: the version may not be taken. */
int kedge__run_prepare(kedge_t *k, uint64_t version, struct kedge__begin_msg *msg, struct kedge__error *err);
int kedge__run_agreed(kedge_t *k, uint64_t version, const struct kedge__begin_msg *msg, bool *changed, struct kedge__error *err);
const struct kedge__run *kedge__run_of(const kedge_t *k, uint64_t version);        /* the run of a version in progress */
void kedge__run_published(kedge_t *k, uint64_t version, bool goes_to_l2);                         /* what it abandons is removed where that is possible */
/* Remove from CAT, of level L, what RUN abandoned (kedge__history_sweep()). What fails is logged: it will not be used. */
void kedge__run_sweep(const kedge_t *k, int l, struct kedge__catalog *cat, const struct kedge__run *run, uint64_t first,
		      const struct kedge__run *replaced);
void kedge__run_restarted(kedge_t *k, struct kedge__run *from, uint64_t version);  /* takes FROM */
void kedge__run_renew(kedge_t *k); /* no write is pending */

struct kedge__run_cut { /* what a discard leaves */
	struct kedge__run run; /* owned */
	uint64_t floor;        /* above all versions that stay, as far as they can be seen */
};
int kedge__run_discarding(kedge_t *k, uint64_t from, struct kedge__run_cut *cut, struct kedge__error *err); /* before; collective */
void kedge__run_discarded(kedge_t *k, uint64_t from, struct kedge__run_cut *cut);                           /* after */
void kedge__run_refuse(kedge_t *k, int rc); /* a restart failed: checkpoints are refused until the program decides */

#endif
