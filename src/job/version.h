/*
 * version: a checkpoint in flight, from kedge_checkpoint() until it is on L2 and older ones are gone. Private to job.
 *
 * One thread at a time has it: the application's, which takes it (checkpoint.c); the writer's, which seals it (seal.c), or the
 * application's again where the writer may not speak to the other ranks; then the flusher's (followup.c). All that it
 * needs after the ranks have agreed is there before they do.
 */
#ifndef KEDGE_JOB_VERSION_H
#define KEDGE_JOB_VERSION_H

#include "capture/capture.h"
#include "job/levels.h"

/* What was written, a list for each region of the image. */
struct kedge__job_dirty {
	struct kedge__region_dirty *lists;
	size_t count;
	uint64_t bytes;
	bool collected; /* the tracker began anew with this version */
	bool usable;    /* it is about the time since the reducer's last version */
};

struct kedge__flush_part { /* a segment that was written to L2 */
	uint64_t version;
	struct kedge__set_part part;
};

struct kedge__version {
	kedge_t *k;
	uint64_t version;

	/* What it may refer to; the same on all ranks. */
	struct kedge__reach reach;
	struct kedge__set_key *referable; /* ascending */
	size_t referable_count;
	bool pinned; /* L1, so that nothing of it goes meanwhile */

	/* Its image, until it is sealed. */
	uint32_t next_slot;
	struct kedge__image_region *regions;
	struct kedge__image image; /* the reducer looks at it until commit or rollback */
	struct kedge__region_record *records;
	size_t region_count;
	struct kedge__job_dirty pages; /* what the tracker says */
	double dirty;                  /* bytes in pages that were written, of tracked regions; negative: not known */
	struct kedge__hold_region *ways;
	struct kedge__hold *hold; /* of the image, to be reduced by the writer; NULL: */
	struct kedge__live *live; /* it is read where it is; NULL as well: its literals are copied */
	const struct kedge__literal_source *source;
	struct kedge__reduction reduction;
	bool reduced; /* the reducer waits for commit or rollback */

	/* Its segment and its set. */
	uint32_t generation;
	struct kedge__source_record *sources;
	struct kedge__segment_stats stats;
	struct kedge__set_part part;
	bool sealed;             /* the segment is there, not yet published */
	struct kedge__set set;   /* of all ranks; its parts are there where this rank leads a directory */
	double started, blocked; /* seconds: when it was begun, and how long the application waited */
	char why[400];           /* rank 0's: why it was taken now; empty: the application asked for it */
	int rc;                  /* how it fared on this rank until it was sealed */
	struct kedge__error err;

	/* Its way to L2. */
	struct kedge__l2_costs costs; /* as known when it was taken; rank 0's counts */
	struct kedge__l2_msg l2;      /* rank 0's answer */
	bool begins_run;              /* the first version of its run: what it abandons goes once it is there */
	char l2_why[KEDGE__POLICY_TEXT + 200];
	KEDGE__ARRAY(struct kedge__flush_part) parts; /* written, to be published */
	struct kedge__set_part *gathered; /* room for a part of every rank, where this rank publishes */
	bool l2_refers;     /* this rank's segment needs the parent */
	uint64_t l2_bytes;  /* of this rank's segments */
	double flush_began;
	int flush_rc; /* how it fared from there on */
	struct kedge__error flush_err;
	bool l2_pinned;
	bool begun, ready; /* under state_lock: given to the flusher; its local part is done */
	struct kedge__version *next; /* in the queue of the flusher */
};

/* With room for all that it will need; NULL: no memory. */
struct kedge__version *kedge__version_new(kedge_t *k, uint64_t version);
void kedge__version_release(struct kedge__version *v); /* what only an unfinished version holds */
void kedge__version_free(struct kedge__version *v);

#endif
