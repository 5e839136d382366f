/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gpu: memory on a GPU, and the kernels that work on it.
 *
 * Nothing of CUDA is needed to build or to load Kedge: the driver is looked for at run time (cuda.c), and the kernels are
 * data of the library (optional/kernels.c). Everything else goes through the operations below, so that other devices
 * than those of NVIDIA may follow. On a machine without a GPU, tests have a driver of their own (tests/gpu/fake_driver.cpp).
 *
 * Work is put on streams. What is put on one is done in its order; an event, recorded on one stream, orders others, or
 * the host, behind it. A failure of the device may be reported by any later call.
 */
#ifndef KEDGE_GPU_GPU_H
#define KEDGE_GPU_GPU_H

#include "base/base.h"

/* ------------------------------------------------------------------ what memory a pointer is of */

enum kedge__memory {
	KEDGE__MEMORY_HOST,    /* of the process */
	KEDGE__MEMORY_PINNED,  /* the same, but GPUs may write to it, too */
	KEDGE__MEMORY_DEVICE,  /* of a GPU: no processor may touch it */
	KEDGE__MEMORY_MANAGED, /* moves between the two; processors may touch it, and GPUs write to it */
};

struct kedge__memory_info {
	enum kedge__memory kind;
	int device;     /* the GPU that it belongs to; -1 for memory of the host */
	uint64_t bytes; /* from the address to the end of what was allocated; 0: not known */
};

/* A program that has not loaded a driver has memory of the host only; none is loaded to find out. */
void kedge__memory_find(const void *address, struct kedge__memory_info *out);

/* ------------------------------------------------------------------ a GPU */

typedef uint64_t kedge__gpu_address;

enum kedge__gpu_stream {
	KEDGE__GPU_WORK, /* kernels */
	KEDGE__GPU_OUT,  /* copies to the host */
	KEDGE__GPU_IN,   /* copies from the host */
	KEDGE__GPU_STREAMS,
};

#define KEDGE__GPU_EVENTS 16

struct kedge__gpu;

struct kedge__gpu_ops {
	int (*alloc)(struct kedge__gpu *g, uint64_t bytes, kedge__gpu_address *out, struct kedge__error *err);
	void (*release)(struct kedge__gpu *g, kedge__gpu_address address);
	int (*pin)(struct kedge__gpu *g, size_t bytes, void **out, struct kedge__error *err);
	void (*unpin)(struct kedge__gpu *g, void *memory);
	int (*copy_in)(struct kedge__gpu *g, enum kedge__gpu_stream s, kedge__gpu_address to, const void *from,
		       size_t bytes, struct kedge__error *err);
	int (*copy_out)(struct kedge__gpu *g, enum kedge__gpu_stream s, void *to, kedge__gpu_address from, size_t bytes,
			struct kedge__error *err);
	int (*copy_within)(struct kedge__gpu *g, enum kedge__gpu_stream s, kedge__gpu_address to,
			   kedge__gpu_address from, uint64_t bytes, struct kedge__error *err);
	int (*clear)(struct kedge__gpu *g, enum kedge__gpu_stream s, kedge__gpu_address at, uint64_t bytes,
		     struct kedge__error *err);
	int (*launch)(struct kedge__gpu *g, enum kedge__gpu_stream s, const char *kernel, unsigned blocks,
		      unsigned threads, const void *args, struct kedge__error *err);
	int (*record)(struct kedge__gpu *g, enum kedge__gpu_stream s, unsigned event, struct kedge__error *err);
	int (*follow)(struct kedge__gpu *g, enum kedge__gpu_stream s, unsigned event, struct kedge__error *err);
	int (*wait)(struct kedge__gpu *g, unsigned event, struct kedge__error *err);
	int (*finish)(struct kedge__gpu *g, struct kedge__error *err);
	void (*close)(struct kedge__gpu *g);
};

struct kedge__gpu {
	const struct kedge__gpu_ops *ops;
	char name[128];
	int device;
	unsigned processors; /* multiprocessors */
	uint64_t limit;      /* bytes of device memory that may be taken; 0: no limit */
	uint64_t taken;
};

/* cuda.c: GPU number DEVICE, in the primary context that the application's runtime uses. KEDGE_E_DEVICE: there is no
 * driver, or no such device. */
int kedge__gpu_open(int device, struct kedge__gpu **out, struct kedge__error *err);
void kedge__gpu_close(struct kedge__gpu *g); /* accepts NULL */

/* *OUT is aligned to 256 bytes. KEDGE_E_NOMEM: the device, or the limit, has no room for it. */
int kedge__gpu_alloc(struct kedge__gpu *g, uint64_t bytes, kedge__gpu_address *out, struct kedge__error *err);
void kedge__gpu_release(struct kedge__gpu *g, kedge__gpu_address address, uint64_t bytes); /* what alloc() was asked for */
/* Memory of the host that devices copy to and from at full speed, behind the caller's back. */
int kedge__gpu_pin(struct kedge__gpu *g, size_t bytes, void **out, struct kedge__error *err);
void kedge__gpu_unpin(struct kedge__gpu *g, void *memory);

/* They return before it is done, unless the memory of the host is not pinned. */
int kedge__gpu_copy_in(struct kedge__gpu *g, enum kedge__gpu_stream s, kedge__gpu_address to, const void *from,
		       size_t bytes, struct kedge__error *err);
int kedge__gpu_copy_out(struct kedge__gpu *g, enum kedge__gpu_stream s, void *to, kedge__gpu_address from, size_t bytes,
			struct kedge__error *err);
int kedge__gpu_copy_within(struct kedge__gpu *g, enum kedge__gpu_stream s, kedge__gpu_address to,
			   kedge__gpu_address from, uint64_t bytes, struct kedge__error *err);
int kedge__gpu_clear(struct kedge__gpu *g, enum kedge__gpu_stream s, kedge__gpu_address at, uint64_t bytes,
		     struct kedge__error *err);
/* KERNEL takes one structure, by value: ARGS. KEDGE_E_DEVICE: kernels are not in this build, or not for this device. */
int kedge__gpu_launch(struct kedge__gpu *g, enum kedge__gpu_stream s, const char *kernel, unsigned blocks,
		      unsigned threads, const void *args, struct kedge__error *err);

int kedge__gpu_record(struct kedge__gpu *g, enum kedge__gpu_stream s, unsigned event, struct kedge__error *err);
int kedge__gpu_follow(struct kedge__gpu *g, enum kedge__gpu_stream s, unsigned event, struct kedge__error *err);
int kedge__gpu_wait(struct kedge__gpu *g, unsigned event, struct kedge__error *err);
/* All that was put on any stream is done; and what the application had put on its own streams before. */
int kedge__gpu_finish(struct kedge__gpu *g, struct kedge__error *err);

/* ------------------------------------------------------------------ digest.c: digests and region sums, as those of base */

struct kedge__gpu_digest;

/* Totals of a pass, on the device: the region sum, and the number of chunks whose digest is another one now. */
struct kedge__gpu_totals {
	struct kedge__sum sum;
	uint64_t changed;
};

/* Whether there is a kernel for chunks of this size. */
bool kedge__gpu_digests(uint32_t chunk);
/* KEY is copied. KEDGE_E_LIMIT: there is no kernel for chunks of this size. */
int kedge__gpu_digest_new(struct kedge__gpu *g, const struct kedge__digest_key *key, uint32_t chunk,
			  struct kedge__gpu_digest **out, struct kedge__error *err);
void kedge__gpu_digest_free(struct kedge__gpu_digest *d); /* accepts NULL */
/* COUNT whole chunks at DATA, which is a multiple of 16: DIGESTS of the device are compared and replaced, and TOTALS, at an
 * address of the device, are added to; the sum is that of bytes from the beginning of a region on. */
int kedge__gpu_digest_run(struct kedge__gpu_digest *d, enum kedge__gpu_stream s, kedge__gpu_address data,
			  uint64_t count, kedge__gpu_address digests, kedge__gpu_address totals, struct kedge__error *err);

/* ------------------------------------------------------------------ finder.c: what finder.cu has; kernels.h has the rest */

struct kedge_finder_args;

/* Where a wave of up to PROBES probes for a finder of BLOCKS blocks has its parts, from AT on. Returns how many bytes it takes. */
uint64_t kedge__gpu_wave_place(struct kedge_finder_args *a, kedge__gpu_address at, uint64_t probes, uint64_t blocks);
/* KERNEL with a warp for each slab of A, or with a thread for each of N. */
int kedge__gpu_finder_slabs(struct kedge__gpu *g, const char *kernel, const struct kedge_finder_args *a,
			    struct kedge__error *err);
int kedge__gpu_finder_each(struct kedge__gpu *g, const char *kernel, uint64_t n, const struct kedge_finder_args *a,
			   struct kedge__error *err);
/* Deal the probes of WAVE out by blocks, and KERNEL takes them, with a warp for each block. */
int kedge__gpu_finder_run(struct kedge__gpu *g, const char *kernel, const struct kedge_finder_args *wave,
			  struct kedge__error *err);

/* ------------------------------------------------------------------ planes.c: strips of codec planes, the same bytes as
 * those of src/codec/planes.c */

#define KEDGE__GPU_STRIP UINT64_C(16384)

struct kedge__gpu_planes {
	enum kedge__gpu_stream stream;
	unsigned width, steps;    /* width: 2, 4 or 8 */
	uint64_t bytes;           /* a multiple of eight numbers */
	kedge__gpu_address base;  /* 0: none */
	kedge__gpu_address sizes; /* a u32 for each strip: what it is packed, or all of it if it does not shrink */
};

/* RAW, aligned to a number, to SLOTS, in which every strip has room for all of it. */
int kedge__gpu_planes_encode(struct kedge__gpu *g, const struct kedge__gpu_planes *p, kedge__gpu_address raw,
			     kedge__gpu_address slots, struct kedge__error *err);
/* PACKED, in which strip I begins at number I of PLACES (u64), to RAW. DAMAGED: a u32 to which the number of strips is
 * added that are not what they say, and are left out. */
int kedge__gpu_planes_decode(struct kedge__gpu *g, const struct kedge__gpu_planes *p, kedge__gpu_address packed,
			     kedge__gpu_address places, kedge__gpu_address raw, kedge__gpu_address damaged,
			     struct kedge__error *err);

/* ------------------------------------------------------------------ what there is, for kedge info */

struct kedge__gpu_about {
	char driver[32]; /* "13.0"; empty: there is none */
	int devices;
	char name[128];      /* of the first */
	int major, minor;    /* its compute capability */
	uint64_t memory;     /* its bytes */
	unsigned processors; /* its multiprocessors */
};

/* Loads the driver, if there is one. WHY says why no GPU can be used; on success it is untouched. */
int kedge__gpu_about(struct kedge__gpu_about *out, struct kedge__error *why);

/* optional/kernels.c, or kernels_absent.c where there was no compiler for them. */
extern const unsigned char *const kedge__gpu_kernels; /* NULL: they are not in this build */
extern const char kedge__gpu_kernels_for[];           /* the architectures, "sm_80 sm_90 ..." */

#endif
