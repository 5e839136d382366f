/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * track: the pages that were written. Private to job.
 *
 * It belongs to the thread that takes a checkpoint; the writer reports which version was committed.
 */
#ifndef KEDGE_JOB_TRACK_H
#define KEDGE_JOB_TRACK_H

#include "job/version.h"

struct kedge__job_tracked { /* a region that the tracker watches, or would watch if that were of use */
	uint64_t tenancy; /* of its slot: in another name's it is another region */
	void *data;
	uint64_t bytes;
	size_t id; /* while it is watched */
	bool seen;
	bool watched;
	bool fresh;     /* since the last collect: that says nothing of it */
	bool woken;     /* it was not for a while, and has not been of use since */
	uint32_t dense; /* collects in a row that found most of it written */
	uint32_t rest;  /* checkpoints before it is asked whether watching would pay again */
	uint32_t rests; /* in a row */
};

struct kedge__job_track {
	struct kedge__tracker *tracker; /* NULL: pages are not tracked */
	KEDGE__ARRAY(struct kedge__job_tracked) ranges;
	struct kedge__hash places; /* ranges by address and size */
	uint64_t at; /* the version that the last collect belongs to, once it is committed; else KEDGE__NO_VERSION */
	uint64_t turn; /* of the audit */
};

int kedge__track_init(kedge_t *k, struct kedge__error *err);
void kedge__track_free(kedge_t *k);
bool kedge__track_wanted(const kedge_t *k);
void kedge__track_forget(kedge_t *k, const void *data, uint64_t bytes); /* this is not protected any more */
void kedge__track_reset(kedge_t *k); /* what is protected may be anything: it will be filled, by system calls, too */
void kedge__track_touch(kedge_t *k, const void *data, uint64_t bytes); /* the same, of a part of it */
/* The pages written since the last collect; tracking starts over. If they are not known, D is not usable, and the log says why. */
void kedge__track_collect(kedge_t *k, struct kedge__job_dirty *d);
void kedge__track_committed(kedge_t *k, uint64_t version); /* that the last collect belongs to; KEDGE__NO_VERSION: to none */
void kedge__track_arm(kedge_t *k); /* once memory is held still: what collect left alone because it may be protected */
/* Looks at some of what D calls clean. If it is not, nothing is tracked from now on, and D is not usable. */
void kedge__track_audit(kedge_t *k, uint64_t version, const struct kedge__image *image, struct kedge__job_dirty *d);
void kedge__dirty_free(struct kedge__job_dirty *d);
double kedge__track_count(kedge_t *k); /* bytes in pages written so far; negative: not known */

#endif
