/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * recovery: what is on the L1 of all nodes when a job is opened, and what becomes of it. Private to recover.c,
 * recover_inventory.c and recover_files.c. All ranks have the same, but for what is marked as this rank's.
 */
#ifndef KEDGE_JOB_RECOVERY_H
#define KEDGE_JOB_RECOVERY_H

#include "job/handle.h"

struct kedge__recovered { /* a version */
	struct kedge__set set;
	uint8_t *has;                 /* by place: 1: it has this manifest, 2: another one of the version, or one that cannot be read */
	struct kedge__item_list items;
	struct kedge__path *paths;    /* by rank */
	bool wanted;                  /* it is to be there in the end */
	bool possible;                /* every rank's segment is somewhere, or can be rebuilt */
	bool complete;                /* every rank's segment is where it belongs */
	int32_t barred;               /* the rank that has no use for it, because it cannot store it; -1: none */
	char why[200];
};

struct kedge__recovery {
	kedge_t *k;
	uint32_t ranks;
	uint32_t *home; /* by rank: its place */
	KEDGE__ARRAY(struct kedge__recovered) list; /* ascending versions */
	KEDGE__ARRAY(struct kedge__shield *) shields; /* what items point to */
	size_t moved, rebuilt; /* segments */

	/* This rank's. */
	struct kedge__courier courier;
	struct kedge__team_room room;
	struct kedge__bytes report; /* what it has to tell the others */
	int rc;                     /* what keeps the job from being opened, though the rank goes on in step */
	struct kedge__error err;
};

/* What a rank tells of a file. Fixed size, so that there is room for all before it begins. */
struct kedge__recovery_note {
	uint64_t version;
	uint32_t kind; /* enum kedge__recovery_kind */
	uint32_t rank;
	uint32_t place;
	char text[180];
};

enum kedge__recovery_kind {
	KEDGE__NOTE_CHECKED, /* a segment that is used is intact */
	KEDGE__NOTE_DAMAGED, /* it is not */
	KEDGE__NOTE_SHIELD_CHECKED,
	KEDGE__NOTE_SHIELD_DAMAGED,
	KEDGE__NOTE_ARRIVED, /* RANK's segment is where it belongs */
	KEDGE__NOTE_BARRED,  /* RANK cannot store it */
};

/* ------------------------------------------------------------------ recover_inventory.c */

/* How many of the newest versions are brought together on L1; 0: all. */
int64_t kedge__recovery_keep(const kedge_t *k);
/* SETS ascend, and may be NULL; MARK what the newest KEEP of RUN's history need, or all of it. */
void kedge__recovery_scope(const struct kedge__set *const *sets, size_t n, const struct kedge__run *run, uint32_t ranks, int64_t keep,
			   bool *mark);
/* Leaders tell what their directories have, and manifests reach all ranks: the list, with what is wanted and its items. Collective. */
int kedge__recovery_inventory(struct kedge__recovery *r, struct kedge__error *err);
struct kedge__recovered *kedge__recovery_find(struct kedge__recovery *r, uint64_t version); /* one that is wanted, or NULL */

/* ------------------------------------------------------------------ recover_files.c */

/* The report has room for it. */
void kedge__recovery_tell(struct kedge__recovery *r, uint64_t version, enum kedge__recovery_kind kind, uint32_t rank, uint32_t place,
			  const char *text);
/* Check what will be read, as far as this rank is the one to read it. Needs no other rank. */
void kedge__recovery_check(struct kedge__recovery *r);
/* Move and rebuild all segments that the plans say so of, in the order of versions and ranks. Collective. KEDGE_E_GROUP. */
int kedge__recovery_fetch(struct kedge__recovery *r, struct kedge__error *err);
/* The largest team, and how many of its members this rank has files of, for the room that is needed. */
void kedge__recovery_measure(const struct kedge__recovery *r, uint32_t *members, uint32_t *files, uint32_t *unit);

#endif
