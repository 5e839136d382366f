/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * handle: what is behind a kedge_t. Private to job.
 *
 * Three kinds of threads meet here: those of the application, one at a time under `lock`; the writer, which seals versions
 * with capture = copy or cow; the flusher, which writes versions to L2 and removes old ones. Each object below belongs to one
 * of them, as its header says, and each of its fields is written in one file. Each kind of thread has its own catalogue
 * handles, so that none waits for another's:
 *   api    kedge_versions(), kedge_region_stat(), kedge_restart()
 *   write  the checkpoint and the writer; the application's threads use it only when no version is pending. Owns the names.
 *   flush  the flusher; in a group that agrees only in collective calls, also these, when the flusher is idle
 *
 * To avoid deadlocks, only collective calls wait for the flusher, and the flusher never waits for a pin of another rank, which
 * may be waiting for this one.
 */
#ifndef KEDGE_JOB_HANDLE_H
#define KEDGE_JOB_HANDLE_H

#include "capture/capture.h"
#include "job/adapt.h"
#include "job/ahead.h"
#include "job/baseline.h"
#include "job/device.h"
#include "job/followup.h"
#include "job/gpus.h"
#include "job/group.h"
#include "job/image.h"
#include "job/job.h"
#include "job/journal.h"
#include "job/l2.h"
#include "job/levels.h"
#include "job/mirrors.h"
#include "job/pace.h"
#include "job/regions.h"
#include "job/requests.h"
#include "job/run.h"
#include "job/seal.h"
#include "job/shields.h"
#include "job/gpu_ways.h"
#include "job/state.h"
#include "job/track.h"
#include "job/aggregate.h"
#include "job/version.h"
#include "job/versions.h"
#include "restore/restore.h"

#include <pthread.h>

struct kedge {
	/* What it was opened with; nothing of it changes afterwards. */
	char *name;
	pid_t pid; /* the process that opened it; a child that was forked may not use it */
	struct kedge__job_settings set;
	struct kedge__codec_choice codec;
	struct kedge_group group;
	struct kedge__channels channels;
	struct kedge__pool *pool;
	struct kedge__worker *writer, *flusher;
	struct kedge__bucket bucket; /* for what goes to L2 */
	struct kedge__bucket reads;  /* for what is read by way of the catalogues `api` */

	pthread_mutex_t lock; /* serialises the calls of the application */
	char note[KEDGE_NOTE_MAX + 1]; /* on the next version; empty: none */
	const struct kedge__grouping *grouping; /* of files that are lent; the lender's; NULL: none */
	struct kedge__job_regions regions;
	struct kedge__job_gpus gpus;
	struct kedge__job_mirrors mirrors;
	struct kedge__job_device device;
	struct kedge__job_gpu_ways gpu_ways;
	KEDGE__ARRAY(struct kedge__job_file) files;
	struct kedge__job_track track;
	struct kedge__job_image image;
	struct kedge__baseline baseline;
	struct kedge__codec_memory *memory;
	struct kedge__job_aggregate aggregate;
	struct kedge__pace pace;
	struct kedge__job_levels levels;
	struct kedge__l2_view l2;
	struct kedge__shields shields;
	struct kedge__versions versions;
	struct kedge__job_run run;
	struct kedge__sealing sealing;
	struct kedge__followups followups;
	struct kedge__advice advice;
	struct kedge__requests requests;
	struct kedge__state state;
	struct kedge__progress progress;
	struct kedge__journal journal;
};

/* ------------------------------------------------------------------ meet.c */

/* All ranks say whether they can begin at all: READY false must have its reason elsewhere. */
int kedge__meet_ready(const struct kedge_group *group, bool ready, struct kedge__error *err);
/* L1 is open, or not (RC): common settings, and who shares a directory. */
int kedge__meet(kedge_t *k, int rc, struct kedge__error *err);
int kedge__nonce_draw(uint64_t *nonce, struct kedge__error *err);

#endif
