/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * levels: what L1 and L2 hold, for all ranks. Private to job.
 *
 * L1's holdings belong to the thread that takes a checkpoint, or to the writer while a version is pending; L2's to the flusher,
 * or to a call that has waited for it. `lock` protects the moments when the two meet: rank 0 decides how a version goes to L2
 * while the flusher may be working on another one.
 */
#ifndef KEDGE_JOB_LEVELS_H
#define KEDGE_JOB_LEVELS_H

#include "job/retention.h"
#include "stage/stage.h"

#include <pthread.h>

struct kedge__version;

enum { KEDGE__L1 = 0, KEDGE__L2 = 1, KEDGE__LEVELS = 2 };

struct kedge__job_level {
	bool on; /* if not, and `api` is open, it can only be read */
	bool leads; /* this rank publishes, cleans and removes for all ranks that share the directory */
	bool one_for_all; /* all ranks share one directory, */
	int leader; /* and this one leads */
	struct kedge__catalog *api, *write, *flush;
	struct kedge__stage_client *stage; /* carries what is written through `flush`; NULL: nobody does */
};

struct kedge__job_levels {
	struct kedge__job_level at[KEDGE__LEVELS];
	struct kedge__keep keep[KEDGE__LEVELS]; /* which versions stay; constant */
	struct kedge__trust *trust[KEDGE__LEVELS]; /* if this rank leads there; NULL: out of memory */
	bool shared;  /* some rank's L1 is led by another rank */
	bool doubted_here; /* this rank did not see a version that another one published for it */
	bool renewed; /* some L1 was recreated: ranks that share it must see each version there */

	struct kedge__holdings l1; /* the versions that every rank has there and that belong to the current run's history */
	uint64_t l1_changes;       /* the catalogue's counter when they were read */
	bool l1_current;           /* otherwise they are read again before they are used */
	uint64_t trusted_from;     /* L1 may be unable to restore older versions */
	pthread_mutex_t lock;      /* guards what follows; held for moments only */
	struct kedge__holdings l2; /* the versions there, of the same history, and those on their way */
	bool l2_current;
	uint64_t l2_failed; /* of the last version that did not get there, plus 1: what is older may be missing; 0: none. Set
			     * in the order of follow-ups, and so the same on all ranks when the next one begins */
	uint64_t l2_changes;       /* of the flusher's catalogue, when they were last compared */
	bool doubted;              /* some of L1 could not be read: nothing that it holds now is trusted */
	struct kedge__l2_turn turn; /* rank 0's */
};

void kedge__levels_init(struct kedge__job_levels *s);
void kedge__levels_done(struct kedge__job_levels *s);

void kedge__levels_keep(kedge_t *k); /* as the settings say */
/* Which of the ranks that share its directory leads a level. */
void kedge__level_lead(struct kedge__job_level *level, int rank, int leader, bool one_for_all);
void kedge__levels_share(kedge_t *k, bool shared); /* some rank's L1 is led by another rank */
void kedge__levels_unseen(kedge_t *k);             /* this rank did not see a version on L1 that another one published for it */
void kedge__levels_renewed(kedge_t *k);            /* some L1 was made again */
void kedge__level_on(struct kedge__job_level *level);
int kedge__level_open(kedge_t *k, const char *dir, struct kedge__job_level *level, struct kedge__error *err);
int kedge__level_own(kedge_t *k, struct kedge__job_level *level, struct kedge__error *err); /* if this rank leads there */
void kedge__level_clean(kedge_t *k, struct kedge__job_level *level); /* of what a crash left, if this rank leads there */
void kedge__level_close(struct kedge__job_level *level);
/* The catalogues of the levels that can be read: `api`, or with WRITE those through which a level in use is written. Their number. */
size_t kedge__levels_list(const kedge_t *k, bool write, struct kedge__catalog *out[KEDGE__LEVELS]);

struct kedge__retention_rules kedge__levels_rules(const kedge_t *k);
/* Another run has begun, or a level was replaced: read the holdings again before their next use. */
void kedge__levels_forget(kedge_t *k);
void kedge__levels_restarted(kedge_t *k); /* the same, and no version is on its way to L2 */
/* Update L1's holdings before a version is taken: one scan, and all entries only if another process changed something.
 * The caller holds a pin. */
int kedge__levels_refresh(kedge_t *k, uint64_t version, struct kedge__error *err);
/* New versions refer to no version below FROM any more; 0: all are trusted. */
void kedge__levels_trust_from(kedge_t *k, uint64_t from);
void kedge__levels_doubt(kedge_t *k); /* any thread: new versions no longer refer to anything that L1 holds now */
/* Reduce L1's holdings below VERSION to those that every rank has. Collective. */
int kedge__levels_common(kedge_t *k, uint64_t version, struct kedge__error *err);
/* The versions below VERSION within REACH, ascending; one kedge__free(). */
int kedge__levels_referable(const kedge_t *k, const struct kedge__reach *reach, uint64_t version, struct kedge__set_key **list, size_t *count,
			    struct kedge__error *err);
/* SET was published on L1. */
void kedge__levels_published(kedge_t *k, const struct kedge__set *set);

/* V, which is reduced, will most likely go to L2 in the form that it gets on L1, as far as this rank can tell: others may refer to other
 * versions, and rank 0 decides. */
bool kedge__levels_expect_l2(const struct kedge__version *v);
/* Rank 0: whether V goes to L2, and how: v->l2, v->l2_why. It is published on L1. */
void kedge__levels_decide_l2(struct kedge__version *v);
void kedge__levels_sealed(struct kedge__version *v);                  /* V exists; if it is due, it is on its way to L2 */
void kedge__levels_decided_l2(struct kedge__version *v, const struct kedge__l2_msg *l2); /* what rank 0 decided */
/* A version before it that did not get there, or has lost what it needs there, cannot be referred to: all ranks see that, and
 * write all of V. KEDGE_E_NOMEM: this rank cannot see it. */
int kedge__levels_check_parent(struct kedge__version *v, struct kedge__error *err);
void kedge__levels_reached_l2(struct kedge__version *v, bool refers); /* V is on L2; REFERS: some rank's segment needs the parent */
void kedge__levels_failed_l2(kedge_t *k, uint64_t version); /* it is not there: no version up to it is referred to */
/* L2 is used from now on: SINCE versions are newer than those there; BARE: it has none. */
void kedge__levels_turn_set(kedge_t *k, uint64_t since, bool bare);
/* Rank 0, the flusher: update L2's holdings from its catalogue, and keep versions on their way. */
void kedge__levels_sync_l2(kedge_t *k);
/* A copy of L2's holdings, for the flusher; one kedge__holdings_done(). False: out of memory. */
bool kedge__levels_copy_l2(kedge_t *k, struct kedge__holdings *out);

#endif
