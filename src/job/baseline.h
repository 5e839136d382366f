/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * baseline: the reducer, and the version that it compares the next one with. Private to job.
 *
 * It belongs to the thread that reduces: the one that takes a checkpoint, or the writer while a version is pending.
 */
#ifndef KEDGE_JOB_BASELINE_H
#define KEDGE_JOB_BASELINE_H

#include "job/version.h"

struct kedge__job_fetched {
	uint64_t version;
	struct kedge__lineage *lineage;
};

struct kedge__baseline {
	struct kedge__reducer *reducer;
	uint64_t at;        /* the version that the reducer has as its last, or KEDGE__NO_VERSION */
	bool primed;        /* no need to look into the store again */
	bool full_next;     /* there was no memory to reduce a version: the next one is stored in full */
	bool informed;          /* the reducer knows what may be referred to, as it was with REACH and REMOVALS of L1's holdings */
	struct kedge__reach reach;
	uint64_t removals;
	uint64_t reduced_at_once; /* bytes of images that were reduced while the application waited, so far */
	KEDGE__ARRAY(struct kedge__job_fetched) fetched; /* open while a paranoid reducer compares */
};

void kedge__baseline_init(struct kedge__baseline *b);
void kedge__baseline_done(struct kedge__baseline *b);
/* A reducer that suits what is protected now: if that has grown, another one, which knows nothing yet. */
int kedge__baseline_make(kedge_t *k, struct kedge__error *err);
void kedge__baseline_follow(struct kedge__version *v); /* what V may refer to, and nothing else, is remembered */
/* Of an image on a device: all that needs it; what is left is reduce()'s. */
int kedge__baseline_begin(struct kedge__version *v, struct kedge__error *err);
/* Image to map and literals; in any thread, while no other uses the reducer. */
int kedge__baseline_reduce(struct kedge__version *v, struct kedge__error *err);
void kedge__baseline_commit(struct kedge__version *v);   /* it was published */
void kedge__baseline_rollback(struct kedge__version *v, int rc); /* it was not, because of RC; nothing is left of its reduction */
/* Memory holds another version than the reducer's last: the next reduction looks into the store first. */
void kedge__baseline_restarted(kedge_t *k);

/* ------------------------------------------------------------------ prime.c, prime_stored.c: what a new process knows */

#define KEDGE__PRIME_VERSIONS 8 /* below the newest one whose literals are read: what this takes must not grow with what is stored */

void kedge__prime_same(struct kedge__version *v); /* what is the same as in the version that a primed reducer follows */
/* The store's newest version, KEYS[n - 1], as the reducer's last, and literals of older ones. */
int kedge__prime_store(struct kedge__version *v, const struct kedge__set_key *keys, size_t n, struct kedge__error *err);
int kedge__prime_stored(kedge_t *k, struct kedge__lineage *l, const struct kedge__region_dirty *same, struct kedge__error *err); /* SAME: regions that are not read; NULL: none */
/* This rank's image of a version that the writer's catalogue has. */
struct kedge__image_key kedge__image_key_of(const kedge_t *k, uint64_t version);

/* ------------------------------------------------------------------ fetch.c */

int kedge__fetch(void *ctx, uint64_t version, uint64_t addr, void *buf, size_t len, struct kedge__error *err);
void kedge__fetch_end(kedge_t *k);

#endif
