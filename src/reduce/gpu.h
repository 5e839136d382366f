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

struct kedge__gpu_columns {
	struct kedge__gpu *gpu;
	/* Of the last version. Chunk I of a region is number `place` + I of both. */
	kedge__gpu_address digests; /* struct kedge__digest */
	kedge__gpu_address ages;    /* a byte each; 0: the reducer has none */
	uint64_t room, used;        /* chunks */
	bool current;               /* they are what the host has */
	/* Of the version in progress. */
	kedge__gpu_address slabs;          /* struct kedge_slab of each */
	kedge__gpu_address changes, fresh; /* of a slab from its change_at on: as in kedge__hash_worker, and the new digests */
	uint64_t slab_room, change_room;
};

#endif
