/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gpu.h: a reducer whose image is on a GPU. The host has all that it has for any image; the device has twins of what its
 * kernels look at, so that neither the data nor the digests of what did not change cross the bus:
 *
 *   gpu_columns.c  digests and ages of the last version, and the changes of the one in progress
 *   gpu_pass.c     the hash pass: fills the same lists as hash_pass.c
 *   gpu_finder.c   the finder, which is on the device alone, and a twin of the log
 *
 * Twins can be made again from what the host has at any time, and are given up when memory of the device is short.
 */
#ifndef KEDGE_REDUCE_GPU_H
#define KEDGE_REDUCE_GPU_H

#include "gpu/gpu.h"
#include "gpu/kernels.h"
#include "reduce/reducer.h"

#define KEDGE__GPU_FINDER_EVENT 15 /* of those of a GPU: the one that gpu_finder.c waits for */

/* ---- gpu_columns.c */

struct kedge__gpu_columns {
	struct kedge__gpu *gpu;
	/* Of the last version. Chunk I of a region is number `place` + I of both. */
	kedge__gpu_address digests; /* struct kedge__digest */
	kedge__gpu_address ages;    /* a byte each; 0: the reducer has none */
	uint64_t room, used;        /* chunks */
	bool current;               /* they are what the host has */
	/* Of the version in progress: change K of slab S is number s->item_at + K of both. */
	kedge__gpu_address changes; /* as in kedge__hash_worker */
	kedge__gpu_address fresh;   /* the new digests of those that had one; others have it in place, among `digests` */
	uint64_t change_room;
	bool listed; /* they are what the host has */
};

/* Make current what is not. On failure nothing but that is lost. */
int kedge__gpu_columns_ready(struct kedge__reducer *r, struct kedge__error *err);
/* All digests and ages of the last version, from what the host has; regions get places. */
int kedge__gpu_columns_upload(struct kedge__reducer *r, struct kedge__error *err);
/* The version in progress is committed, on the host, or rolled back. */
void kedge__gpu_columns_settle(struct kedge__reducer *r, bool committed);
/* Ages are counted from BY epochs later on. */
void kedge__gpu_columns_rejuvenate(struct kedge__reducer *r, uint32_t by);
void kedge__gpu_columns_done(struct kedge__gpu_columns *c);

/* ---- gpu_finder.c */

struct kedge__gpu_room { /* memory of the device */
	kedge__gpu_address at;
	uint64_t bytes;
};

struct kedge__gpu_finder {
	struct kedge__gpu_columns *columns;
	struct kedge__gpu_room buckets;
	struct kedge__gpu_room log;    /* struct kedge__past, as long as there is a finder */
	struct kedge__gpu_room tables; /* what is sent for each step, and at the end how many probes each slab has */
	struct kedge__gpu_room wave;
	struct kedge__gpu_room origins; /* as those of the version in progress, if `origin_count` is not 0 */
	uint64_t origin_count;
	struct kedge__gpu_room totals;
	uint8_t *staged; /* pinned: `tables`, as the host makes them */
	uint64_t staged_bytes;
};

/* From now on, the finder of R is on the device that has its columns. There is none to begin with. */
int kedge__gpu_finder_begin(struct kedge__reducer *r, struct kedge__error *err);
/* And from now on it is on the host again: it is made again when it is needed. Accepts one whose finder is on the host. */
void kedge__gpu_finder_end(struct kedge__reducer *r);
/* Origins of all changes of the version in progress on the device; 0: none was found. */
kedge__gpu_address kedge__gpu_origins(const struct kedge__reducer *r);

extern const struct kedge__finder_ops kedge__finder_on_gpu;

#endif
