/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * version: a checkpoint in flight, from kedge_checkpoint() until it is on L2 and older versions are removed. Private to job.
 *
 * It belongs to one thread at a time: the application's, which takes it (checkpoint.c); the writer, which seals it (seal.c), or
 * again the application's thread if the writer may not communicate; then the flusher (followup.c). Everything that it needs
 * after the ranks have agreed is allocated before.
 */
#ifndef KEDGE_JOB_VERSION_H
#define KEDGE_JOB_VERSION_H

#include "aggregate/aggregate.h"
#include "capture/capture.h"
#include "job/levels.h"
#include "job/requests.h"

/* The ranges that were written, one list per region of the image. */
struct kedge__job_dirty {
	struct kedge__region_dirty *lists;
	size_t count;
	uint64_t bytes;
	bool collected; /* the tracker was reset for this version */
	bool usable;    /* it covers the time since the reducer's last version */
};

/* Regions that are what the last version has, by the word of whoever lent them (same.c). */
struct kedge__job_same {
	struct kedge__region_dirty *now, *stored; /* one per region of the image, and of the last version; NULL: there are none */
	struct kedge__digest *digests;
	size_t count;
};

/* Which regions somebody vouches for, while the application waits: it may protect others when the writer is at work. */
int kedge__same_note(struct kedge__version *v, struct kedge__error *err);
bool kedge__same_vouched(const struct kedge__version *v, uint64_t version); /* somebody says that a region is as it was in VERSION */
/* Those of V that STORED, the version that it will follow, has with the same name, slot and size. */
int kedge__same_find(struct kedge__version *v, const struct kedge__segment *stored, struct kedge__error *err);
void kedge__same_done(struct kedge__job_same *s);
uint64_t kedge__same_rest(const struct kedge__version *v); /* bytes of regions that nobody vouches for; UINT64_MAX if nobody vouches for any */

struct kedge__ahead;

struct kedge__bundle_share;

struct kedge__flush_part { /* a segment that was written to L2; with bundles, first one on L1 that will be */
	uint64_t version;
	struct kedge__set_part part;
	struct kedge__berth berth; /* in its bundle */
	bool aside;                /* it was merged to L1 only for that, */
	uint32_t aside_generation; /* and is this there */
};

struct kedge__version {
	kedge_t *k;
	uint64_t version;

	/* What it may refer to; the same on all ranks. */
	struct kedge__reach reach;
	struct kedge__set_key *referable; /* ascending */
	size_t referable_count;
	bool pinned; /* L1, so that nothing there is removed meanwhile */

	/* Its image, until it is sealed. */
	uint32_t next_slot;
	struct kedge__image_region *regions;
	struct kedge__image image; /* used by the reducer until commit or rollback */
	struct kedge__region_record *records;
	size_t region_count;
	struct kedge__job_dirty pages; /* the tracker's result */
	uint64_t *vouched;             /* of each region: the version that it is the same as, by somebody's word; NULL: nobody vouches */
	struct kedge__job_same same;   /* those of them that the version it follows has */
	double dirty;                  /* bytes in written pages of tracked regions; negative: unknown */
	struct kedge__hold_region *ways;
	const struct kedge__reduce_device *device; /* the GPU that it is reduced on, at once; NULL: it is on the host */
	struct kedge__reduce_device device_room;
	struct kedge__codec_plan *plans; /* of regions that are packed there; NULL: none is */
	struct kedge__gpu_how *hows;
	struct kedge__hold *hold; /* of the image, to be reduced by the writer; NULL: */
	struct kedge__live *live; /* it is read in place; if this is NULL, too: its literals are copied */
	KEDGE__ARRAY(struct kedge__aggregate_file) files; /* what is known of the contents of files, until it is reduced */
	const struct kedge__literal_source *source;
	struct kedge__reduction reduction;
	bool begun_there; /* on the device, to be finished */
	bool reduced; /* the reducer waits for commit or rollback */

	/* Its segment and its set. */
	uint32_t generation;
	struct kedge__source_record *sources;
	struct kedge__segment_stats stats;
	struct kedge__set_part part;
	bool sealed;             /* the segment exists, but is not published yet */
	struct kedge__set set;   /* of all ranks; has its parts if this rank leads a directory */
	double started, blocked; /* seconds: when it began, and how long the application was blocked */
	char why[400];           /* rank 0's: why it was taken now; empty: the application asked for it */
	char note[KEDGE_NOTE_MAX + 1]; /* rank 0's: what the application says of it; empty: nothing */
	struct kedge__asked asked; /* the requests that it answers */
	double sealed_at;        /* rank 0's, for the journal: when it was sealed, since 1970, */
	uint64_t sealed_number;  /* and how many there were in this process then */
	int rc;                  /* how it fared on this rank until it was sealed */
	struct kedge__error err;

	/* Its way to L2. */
	struct kedge__ahead *ahead;   /* what goes there while it is written to L1; NULL: nothing */
	struct kedge__l2_costs costs; /* as known when it was taken; rank 0's are used */
	struct kedge__l2_msg l2;      /* rank 0's answer */
	bool begins_run;              /* the first version of its run: the versions that it abandons are removed once it exists */
	char l2_why[KEDGE__POLICY_TEXT + 200];
	KEDGE__ARRAY(struct kedge__flush_part) parts; /* written, to be published */
	struct kedge__set_part *gathered; /* room for the parts of all ranks, if this rank publishes */
	struct kedge__bundle_share *shares; /* with bundles, room for what every rank says of a segment */
	bool l2_refers;     /* this rank's segment needs the parent */
	bool agreed;        /* FLUSH is over: flush_rc, and some rank's segment needs the parent if l2_refers is set */
	bool placed;        /* the segments have their places in bundles */
	uint64_t l2_bytes;  /* of this rank's segments */
	double flush_began;
	int flush_rc; /* how it fared from there on */
	struct kedge__error flush_err;
	bool l2_pinned, l1_pinned;
	bool begun, ready; /* under state_lock: given to the flusher; its local part is done */
	struct kedge__version *next; /* in the queue of the flusher */
};

/* With room for everything that it will need; NULL: out of memory. */
struct kedge__version *kedge__version_new(kedge_t *k, uint64_t version);
void kedge__version_release(struct kedge__version *v); /* resources that only an unfinished version holds */
void kedge__version_free(struct kedge__version *v);

#endif
