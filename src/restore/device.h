/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * device: pinned buffers on their way to a GPU, which all threads of a fill put bytes into. Private to restore.
 *
 * A thread claims a part of the buffer that is being filled, writes to it and commits it. A buffer that is full is sent when
 * all that was claimed of it is committed; by then the next one is being filled. A thread has one claim at a time.
 */
#ifndef KEDGE_RESTORE_DEVICE_H
#define KEDGE_RESTORE_DEVICE_H

#include "restore/restore.h"

struct kedge__device_need {
	uint64_t bytes, pieces;
	uint64_t strips, unpacked; /* of codec planes, and bytes that they become */
	uint64_t filled;           /* bytes that patterns become */
};

struct kedge__device_claim {
	unsigned buffer;
	uint8_t *data; /* at a multiple of 64 */
	uint32_t at;   /* in the buffer */
	struct kedge__gpu_piece *pieces;
	struct kedge__gpu_strip *strips;
	uint32_t unpacked; /* where the first byte goes that becomes of them, at a multiple of 64 */
};

/* Whether it is small enough for a claim. */
bool kedge__device_fits(const struct kedge__restore_device *d, const struct kedge__device_need *need);
/* Whether strips can be unpacked there. */
bool kedge__device_unpacks(const struct kedge__restore_device *d);
/* Bytes of a claim, at most, and of its pieces. */
uint64_t kedge__device_most(const struct kedge__restore_device *d);
int kedge__device_begin(struct kedge__restore_device *d, const struct kedge__gpu_target *targets, size_t n,
			struct kedge__error *err);
int kedge__device_claim(struct kedge__restore_device *d, const struct kedge__device_need *need,
			struct kedge__device_claim *out, struct kedge__error *err);
int kedge__device_commit(struct kedge__restore_device *d, const struct kedge__device_claim *claim, struct kedge__error *err);
/* All that was committed is on its way, before all that is claimed from here on. */
int kedge__device_send(struct kedge__restore_device *d, struct kedge__error *err);
/* All is in its place; the targets get their sums. *DAMAGED: strips that were not what they say, and are left out. */
int kedge__device_end(struct kedge__restore_device *d, struct kedge__gpu_target *targets, size_t n, uint64_t *damaged,
		      struct kedge__error *err);
/* Instead of the end, after a failure: nothing is on its way any more. */
void kedge__device_abandon(struct kedge__restore_device *d);

#endif
