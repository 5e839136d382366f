/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * shields: who protects whom on L1, and the shields of a version. Private to job.
 *
 * Known once the job is open, and the same on all ranks; nothing of it changes afterwards.
 */
#ifndef KEDGE_JOB_SHIELDS_H
#define KEDGE_JOB_SHIELDS_H

#include "job/job.h"

struct kedge__version;
struct kedge__channel;

struct kedge__shields {
	struct kedge__protection wanted;
	bool on;                   /* versions are protected */
	struct kedge__seat *seats; /* of all ranks */
	uint32_t *team;            /* of all ranks */
	uint32_t members, self;    /* of this rank's team, and which of them it is */
	uint32_t ranks[KEDGE__TEAM_MOST];
};

bool kedge__shields_wanted(const kedge_t *k); /* by the settings */
/* Where all ranks are, and the teams. Collective. KEDGE_E_CONFIG, on all ranks: there are too few nodes. */
int kedge__shields_meet(kedge_t *k, struct kedge__error *err);
void kedge__shields_done(kedge_t *k);
bool kedge__shields_background(const kedge_t *k); /* by the flusher, rather than with the checkpoint */

/* SET's shield that this rank is to keep, without nodes' files: who is in the team, and how large it is. */
void kedge__shields_shape(const kedge_t *k, const struct kedge__set *set, struct kedge__shield *out);
/* Make this rank's shield of SET, which is on L1, with the others of its team; a rank that WANTS none, or has failed (RC), takes part
 * in the steps all the same. Collective, on CH; CAT is pinned. Ranks do not know how others fared. */
int kedge__shields_make(kedge_t *k, struct kedge__channel *ch, struct kedge__catalog *cat, const struct kedge__set *set, int rc, bool wants,
			struct kedge__error *err);
/* Of a version that was just sealed. An error is noted for kedge_wait(): the version exists without them. Collective. */
void kedge__shields_protect(struct kedge__version *v, bool background);

/* ------------------------------------------------------------------ recover.c */

/* Bring the files of L1 to the ranks that they belong to, rebuild what is lost, and protect it again; then remove what a crash left.
 * Collective. An error is one that keeps the job from being opened; versions that cannot be rebuilt are logged. */
int kedge__recover(kedge_t *k, struct kedge__error *err);

#endif
