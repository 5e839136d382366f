/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kernels.h: the kernels, and what each is passed: one structure, by value. Included by the kernels and by the host code that
 * launches them; for the latter a pointer to device memory is an address.
 */
#ifndef KEDGE_GPU_KERNELS_H
#define KEDGE_GPU_KERNELS_H

#ifdef __cplusplus
#define KEDGE_AT(type) type *
#else
#include "gpu/gpu.h"
#define KEDGE_AT(type) kedge__gpu_address
#endif

#define KEDGE_THREADS 256 /* of a block, of every kernel */

/* ------------------------------------------------------------------ digest.cu
 * Chunk sizes that have a kernel, kedge_digest_<bytes>. SHORT(bytes, loads): four lanes work on four chunks together, a lane
 * with `loads` 16-byte loads of each. LONG(bytes, loads, blocks): eight lanes share a block and `blocks` neighbouring
 * groups a chunk. */

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

/* Keys of the fold are in here, so that they are operands from the constant bank. */
struct kedge_digest_args {
	KEDGE_AT(const ulonglong2) data; /* aligned to 16 bytes */
	unsigned long long count;        /* chunks */
	KEDGE_AT(ulonglong2) digests;    /* those of the version before; updated */
	KEDGE_AT(unsigned long long) totals; /* added to: the two halves of the region sum, the number of changed chunks */
	KEDGE_AT(const ulonglong2) nh;
	KEDGE_AT(const ulonglong2) top_nh;
	struct kedge_digest_fold fold, top_fold;
};

/* ------------------------------------------------------------------ pass.cu, finder.cu: a slab of an image that is on the device */

struct kedge_slab {
	unsigned long long data;  /* the address of its first byte */
	unsigned long long place; /* of its first chunk, in the columns of digests and ages */
	unsigned bytes;
	unsigned known; /* chunks of it, from the first on, that have a digest of the last version */
	/* What the pass finds: */
	unsigned change_at, count; /* its changes */
	unsigned fills;            /* those that are constant */
	unsigned flat;             /* all of it is one constant */
	unsigned long long pattern; /* that is it */
	unsigned long long sum[2];  /* of the region sum */
};

/* ------------------------------------------------------------------ planes.cu
 * kedge_planes_encode_<width>, kedge_planes_decode_<width>: strips of codec planes. */

#define KEDGE_PLANES_KERNELS(X) X(2) X(4) X(8)

#define KEDGE_PLANES_STRIP 16384u
#define KEDGE_PLANES_DELTA 1u /* as enum kedge__codec_step */
#define KEDGE_PLANES_XOR   2u
#define KEDGE_PLANES_MINUS 4u

struct kedge_planes_args {
	unsigned long long bytes; /* whole groups of eight numbers */
	KEDGE_AT(const unsigned char) base; /* or 0; as many bytes */
	unsigned steps;
	KEDGE_AT(unsigned) sizes; /* of each strip as it is packed; its size as it is: it does not shrink */
	/* encode */
	KEDGE_AT(const unsigned char) raw; /* aligned to a number, as base */
	KEDGE_AT(unsigned char) slots;     /* room for as many strips; those that do not shrink stay empty */
	/* decode */
	KEDGE_AT(const unsigned char) packed;
	KEDGE_AT(const unsigned long long) places; /* of each strip: where it begins there */
	KEDGE_AT(unsigned char) out;               /* aligned to a number */
	KEDGE_AT(unsigned) damaged;                /* strips that are not what they say are added to it, and left out */
};

#endif
