/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * digest.cuh: chunk sizes that have a kernel, and what is passed to one.
 *
 * SHORT(bytes, loads): four lanes work on four chunks together, a lane with `loads` 16-byte loads of each. LONG(bytes, loads,
 * blocks): eight lanes share a block and `blocks` neighbouring groups a chunk.
 */
#ifndef KEDGE_GPU_DIGEST_CUH
#define KEDGE_GPU_DIGEST_CUH

#define KEDGE_DIGEST_KERNELS(SHORT, LONG) \
	SHORT(64, 1)                      \
	SHORT(128, 2)                     \
	SHORT(256, 4)                     \
	LONG(512, 4, 1)                   \
	LONG(1024, 8, 1)                  \
	LONG(2048, 8, 2)                  \
	LONG(4096, 8, 4)

/* Keys of a fold, the length of the chunk already in: of each word the lower and the upper half. */
struct kedge_digest_fold {
	unsigned low[4][4], high[4][4];
	unsigned long long start[4];
};

/* By value, so that keys of the fold are operands from the constant bank. `nh` points to device memory. */
struct kedge_digest_args {
	const ulonglong2 *data; /* aligned to 16 bytes */
	unsigned long long count;
	ulonglong2 *digests; /* those of the version before; updated */
	unsigned long long *region_sum;
	unsigned long long *changed; /* the number of chunks that changed is added */
	const ulonglong2 *nh, *top_nh;
	struct kedge_digest_fold fold, top_fold;
};

#endif
