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
#include "gpu/kernels.h"

/* ------------------------------------------------------------------ what memory a pointer is of */

enum kedge__memory {
	KEDGE__MEMORY_HOST,    /* of the process */
	KEDGE__MEMORY_PINNED,  /* the same, but GPUs may write to it, too */
	KEDGE__MEMORY_DEVICE,  /* of a GPU: no processor may touch it */
	KEDGE__MEMORY_MANAGED, /* moves between the two; processors may touch it, and GPUs write to it */
};

struct kedge__memory_info {
	enum kedge__memory kind;
	int device;     /* the GPU that it belongs to; -1 for memory of the host, and if the driver does not say it any more */
	uint64_t bytes; /* from the address to the end of what was allocated; 0: not known */
};

/* A program that has not loaded a driver has memory of the host only; none is loaded to find out. */
void kedge__memory_find(const void *address, struct kedge__memory_info *out);

/* ------------------------------------------------------------------ a GPU */

enum kedge__gpu_stream {
	KEDGE__GPU_WORK, /* kernels, before those of the streams below */
	KEDGE__GPU_OUT,  /* copies to the host, and kernels that the bus waits for: before those of all other streams */
	KEDGE__GPU_IN,   /* copies from the host */
	KEDGE__GPU_PACK, /* kernels that pack what is copied to the host then: before those of other streams, too */
	KEDGE__GPU_PASS, /* kernels that others overtake */
	KEDGE__GPU_STREAMS,
};

#define KEDGE__GPU_EVENTS 24 /* the last one is that of kedge__gpu_sync() and _after(), and those before it of scatter.c */
#define KEDGE__GPU_PACK_EVENT 8 /* the first of four that are those of pack.c */

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
	int (*after)(struct kedge__gpu *g, void *stream, struct kedge__error *err);
	void (*close)(struct kedge__gpu *g);
};

struct kedge__gpu {
	const struct kedge__gpu_ops *ops;
	char name[128];
	int device;
	uint8_t uuid[16];    /* the same in all processes, whatever number they give to it */
	uint64_t memory;     /* its bytes */
	unsigned processors; /* multiprocessors */
	bool kernels;        /* this build has them; a test may deny it */
	uint64_t limit;      /* bytes of device memory that may be taken; 0: no limit */
	uint64_t taken;
	void *stream;       /* the application's; NULL: it may have work on any */
	const char *queues; /* where turns are taken: a directory; "": the usual one; NULL: nowhere */
	bool queueless;     /* it was said that there are no turns */
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
/* All that was put on S is done. */
int kedge__gpu_sync(struct kedge__gpu *g, enum kedge__gpu_stream s, struct kedge__error *err);
/* All that was put on any stream is done; and what the application had put on its own streams before. */
int kedge__gpu_finish(struct kedge__gpu *g, struct kedge__error *err);
/* What is put on the streams from now on comes after what the application has put on its stream. If it has named none,
 * everything that it has given to the device is waited for. */
int kedge__gpu_after(struct kedge__gpu *g, struct kedge__error *err);
/* All that was put on the streams is done; nothing of the application's is waited for. */
int kedge__gpu_drain(struct kedge__gpu *g, struct kedge__error *err);

/* ------------------------------------------------------------------ turn.c: one process at a time
 *
 * Processes of one user that share a GPU take turns, first come, first served; so do threads with handles of their own. A
 * process that dies has given its turn back. A turn is not needed for what is done to be right: it keeps several
 * checkpoints at once from slowing each other down, and from needing memory for each.
 *
 * While it is held, nothing may be waited for that another process does: it could be the next in the queue. Who needs
 * several turns takes them in the order of the uuids. */

struct kedge__gpu_turn {
	int fd; /* -1: there is none */
	struct kedge__gpu_turn *next;
};

#define KEDGE__GPU_TURN_NONE {-1, NULL}

/* Wait for it. Where there can be no queue, a notice says so, once, and nothing is waited for. TURN stays where it is until
 * it was given back. */
void kedge__gpu_turn_take(struct kedge__gpu *g, struct kedge__gpu_turn *turn);
void kedge__gpu_turn_give(struct kedge__gpu_turn *turn); /* also if there is none */

/* ------------------------------------------------------------------ pass.c: the hash pass of src/reduce, over an image that is on
 * the device. What it works on is described in kernels.h. */

struct kedge__gpu_pass;

/* Slabs of an image: their addresses on the device, of structures in kernels.h. */
struct kedge__gpu_slabs {
	kedge__gpu_address slabs;  /* struct kedge_slab */
	kedge__gpu_address found;  /* struct kedge_slab_found */
	kedge__gpu_address at;     /* struct kedge_slab_at */
	kedge__gpu_address bits;   /* 2 * kedge__gpu_pass_words() words for each slab: those of changes, then those of constants */
	uint64_t count;            /* slabs that the above have room for */
	kedge__gpu_address digests; /* of the last version, by places */
	kedge__gpu_address ages;    /* the same; 0: none */
	bool odd;                   /* some slabs begin at an address that is no multiple of 16 */
	bool compare;               /* what has the same digest as before has not changed; else all has */
	kedge__gpu_address changes, fresh, fills;
	kedge__gpu_address origins; /* 0: none */
};

/* Whether there is a kernel for chunks of this size. */
bool kedge__gpu_passes(uint32_t chunk);
/* KEY is copied; digests are weakened by MASK, unless it is 0. KEDGE_E_LIMIT: there is no kernel for chunks of this size. */
int kedge__gpu_pass_new(struct kedge__gpu *g, const struct kedge__digest_key *key, uint32_t chunk, uint64_t mask,
			struct kedge__gpu_pass **out, struct kedge__error *err);
void kedge__gpu_pass_free(struct kedge__gpu_pass *p); /* accepts NULL */
/* Words of bits that a slab has. */
uint64_t kedge__gpu_pass_words(uint32_t chunk);
/* Slabs [FIRST, END): what changed. `found` of them is zero. */
int kedge__gpu_pass_run(struct kedge__gpu_pass *p, enum kedge__gpu_stream s, const struct kedge__gpu_slabs *on, uint64_t first,
			uint64_t end, struct kedge__error *err);
/* The list of that, after `at` was set, of slabs that are flat or of those that are not. */
int kedge__gpu_pass_list(struct kedge__gpu_pass *p, enum kedge__gpu_stream s, const struct kedge__gpu_slabs *on, uint64_t first,
			 uint64_t end, bool flat, struct kedge__error *err);
/* With origins: how many are stored. */
int kedge__gpu_pass_count(struct kedge__gpu_pass *p, enum kedge__gpu_stream s, const struct kedge__gpu_slabs *on, uint64_t first,
			  uint64_t end, struct kedge__error *err);
/* What is stored, to TO and on as `at` says: memory of the device, or pinned memory of the host. */
int kedge__gpu_pass_gather(struct kedge__gpu_pass *p, enum kedge__gpu_stream s, const struct kedge__gpu_slabs *on, uint64_t first,
			   uint64_t end, kedge__gpu_address to, struct kedge__error *err);
/* The same to memory of the device, where literal number FROM goes to TO: FROM and those behind it. */
int kedge__gpu_pass_stage(struct kedge__gpu_pass *p, enum kedge__gpu_stream s, const struct kedge__gpu_slabs *on, uint64_t first,
			  uint64_t end, uint64_t from, kedge__gpu_address to, struct kedge__error *err);
/* New digests take their places, and AGE those of their ages. */
int kedge__gpu_pass_settle(struct kedge__gpu_pass *p, enum kedge__gpu_stream s, const struct kedge__gpu_slabs *on, uint64_t first,
			   uint64_t end, uint8_t age, struct kedge__error *err);

/* ------------------------------------------------------------------ finder.c: what finder.cu has; kernels.h has the rest */

struct kedge_finder_args;

/* Where a wave of up to PROBES probes for a finder of BLOCKS blocks has its parts, from AT on. Returns how many bytes it takes. */
uint64_t kedge__gpu_wave_place(struct kedge_finder_args *a, kedge__gpu_address at, uint64_t probes, uint64_t blocks);
/* KERNEL with a warp for each slab of A, or with a thread for each of N. */
int kedge__gpu_finder_slabs(struct kedge__gpu *g, const char *kernel, const struct kedge_finder_args *a,
			    struct kedge__error *err);
int kedge__gpu_finder_each(struct kedge__gpu *g, const char *kernel, uint64_t n, const struct kedge_finder_args *a,
			   struct kedge__error *err);
/* Deal the probes of WAVE out by blocks, and KERNEL takes them, with a warp for each block; FOLLOW, unless it is NULL, those that
 * belong to none. */
int kedge__gpu_finder_run(struct kedge__gpu *g, const char *kernel, const char *follow, const struct kedge_finder_args *wave,
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

/* ------------------------------------------------------------------ lz4.c: blocks of codec lz4, the same bytes as those of
 * src/codec/lz4_warp.c, which liblz4 decodes */

struct kedge__gpu_blocks {
	enum kedge__gpu_stream stream;
	uint32_t count;             /* of blocks */
	uint32_t largest;           /* bytes that none has more of */
	kedge__gpu_address places;  /* a u64 for each: where it begins, a multiple of 16 */
	kedge__gpu_address lengths; /* a u32 for each: its bytes */
	kedge__gpu_address sizes;   /* a u32 for each: what it is packed, or all of it if it does not shrink */
};

/* Bytes of the device that encode() needs. */
uint64_t kedge__gpu_lz4_scratch(const struct kedge__gpu_blocks *b);
/* RAW to SLOTS, in which every block begins at its place and has room for all of it. */
int kedge__gpu_lz4_encode(struct kedge__gpu *g, const struct kedge__gpu_blocks *b, kedge__gpu_address raw,
			  kedge__gpu_address scratch, kedge__gpu_address slots, struct kedge__error *err);
/* PACKED, in which block I begins at number I of PACKED_PLACES (u64), to RAW; liblz4's blocks, too. DAMAGED: a u32 to which
 * the number of blocks is added that are not what they say; what is at their places then has no meaning. */
int kedge__gpu_lz4_decode(struct kedge__gpu *g, const struct kedge__gpu_blocks *b, kedge__gpu_address packed,
			  kedge__gpu_address packed_places, kedge__gpu_address raw, kedge__gpu_address damaged,
			  struct kedge__error *err);

/* ------------------------------------------------------------------ deflate.c: blocks of codec deflate, the same bytes as
 * those of src/codec/deflate_warp.c, which any decoder of zlib streams decodes */

/* As kedge__gpu_lz4_scratch() and kedge__gpu_lz4_encode(). */
uint64_t kedge__gpu_deflate_scratch(const struct kedge__gpu_blocks *b);
int kedge__gpu_deflate_encode(struct kedge__gpu *g, const struct kedge__gpu_blocks *b, kedge__gpu_address raw,
			      kedge__gpu_address scratch, kedge__gpu_address slots, struct kedge__error *err);

/* ------------------------------------------------------------------ pack.c: blocks of the device, packed there, to the host
 *
 * What shall be packed is put on a stage, by work on KEDGE__GPU_PACK. A batch of blocks there is packed on that stream, put
 * together and, when the host knows how large they have become, copied to it, while the next batch is packed. They arrive in
 * the order in which they were added, without gaps. */

struct kedge__gpu_packer;

enum kedge__gpu_codec { KEDGE__GPU_NONE, KEDGE__GPU_PLANES, KEDGE__GPU_LZ4, KEDGE__GPU_DEFLATE };

struct kedge__gpu_how {
	enum kedge__gpu_codec codec;
	unsigned width, steps; /* of planes, as in struct kedge__gpu_planes */
};

/* Whether blocks of BYTES can be packed there. */
bool kedge__gpu_packs(uint32_t bytes);
/* For blocks of up to BLOCK bytes of an image of BYTES, and CODECS: a bit for each. KEDGE_E_NOMEM: the device has no room for it. */
int kedge__gpu_packer_new(struct kedge__gpu *g, unsigned codecs, uint32_t block, uint64_t bytes, struct kedge__gpu_packer **out,
			  struct kedge__error *err);
void kedge__gpu_packer_free(struct kedge__gpu_packer *p); /* accepts NULL */
/* The one that there is serves for this, too. */
bool kedge__gpu_packer_suits(const struct kedge__gpu_packer *p, unsigned codecs, uint32_t block, uint64_t bytes);
/* From now on what is packed goes to TO, pinned memory of the host with room for all of it. Nothing of what came before is
 * under way. */
void kedge__gpu_packer_begin(struct kedge__gpu_packer *p, void *to);
kedge__gpu_address kedge__gpu_packer_stage(const struct kedge__gpu_packer *p);
uint64_t kedge__gpu_packer_room(const struct kedge__gpu_packer *p); /* bytes of the stage */
size_t kedge__gpu_packer_most(const struct kedge__gpu_packer *p);   /* blocks of a batch */
/* BYTES at AT of the stage, a multiple of 16, are the next block of the batch. */
void kedge__gpu_packer_add(struct kedge__gpu_packer *p, uint64_t at, uint32_t bytes, const struct kedge__gpu_how *how);
/* Pack the batch. The stage may be used for others then, by work on KEDGE__GPU_PACK. */
int kedge__gpu_packer_run(struct kedge__gpu_packer *p, struct kedge__error *err);
/* All batches have arrived. *SIZES: of each block since begin() what it is packed, or its bytes: it is as it was. */
int kedge__gpu_packer_end(struct kedge__gpu_packer *p, const uint32_t **sizes, size_t *count, struct kedge__error *err);

/* ------------------------------------------------------------------ scatter.c: bytes of the host to many places of a device
 *
 * Buffers of pinned memory are sent one after the other: bytes from the beginning on, and pieces, which say where they go,
 * at the end. While one is on its way, and its bytes on the device go to their places, others are filled. Patterns are not
 * sent, but written there. The region sum of each target is made of what is written. Bytes may be strips of codec planes, which
 * are unpacked on the device; pieces then refer to what they become. */

#define KEDGE__GPU_SCATTER_BUFFERS 3

struct kedge__gpu_scatter;

/* As struct kedge_scatter_piece of kernels.h. */
struct kedge__gpu_piece {
	kedge__gpu_address to;
	uint32_t from; /* in the buffer, or plus KEDGE__GPU_UNPACKED, in what was unpacked */
	uint32_t what; /* kedge__gpu_piece_what() */
};

#define KEDGE__GPU_UNPACKED UINT32_C(0x80000000)

/* As struct kedge_unpack_strip. */
struct kedge__gpu_strip {
	uint32_t from, to;    /* in the buffer, and in what is unpacked: a multiple of a number */
	uint16_t size, bytes; /* as it is packed, and as it is; if they are the same, it is not packed */
	uint32_t how;         /* its width, 2, 4 or 8, and from bit 8 on the steps, of which none needs a base */
};

#define KEDGE__GPU_PIECE_BYTES UINT32_C(16384) /* of a piece, at most */
#define KEDGE__GPU_FILL_BYTES  UINT32_C(65536) /* of one that is filled with a pattern */
#define KEDGE__GPU_TARGETS     UINT32_C(16383) /* that can be summed by what is written; the number of none */

/* BYTES of TARGET. One that is summed must begin at a multiple of 8, in memory and in the target, and end at one or at the
 * end of the target. FILL: the eight bytes at `from`, which is a multiple of 8, over and over, byte A % 8 at address A. */
static inline uint32_t kedge__gpu_piece_what(uint32_t bytes, bool fill, uint32_t target)
{
	return bytes | (uint32_t)fill << 17 | KEDGE__MIN(target, KEDGE__GPU_TARGETS) << 18;
}

/* Bytes of patterns with which a buffer is sent, however little it has, so that the device begins; SENT: those of the buffers
 * before it. */
static inline uint64_t kedge__gpu_fills_enough(uint64_t sent)
{
	return KEDGE__MAX(UINT64_C(256) << 20, sent);
}

struct kedge__gpu_target {
	kedge__gpu_address at;
	uint64_t bytes;
	bool later; /* not all of its pieces are summed: all of it is, at the end */
	enum kedge__sum_rule rule; /* the device has kernels for KEDGE__SUM_PAGES; by another one the host sums what it reads back */
	struct kedge__sum sum;
};

/* What a buffer has: bytes from the beginning of the memory on; pieces, of which the last one ends at the layout's end of pieces; and from there on strips.
 * No two pieces of a buffer may overlap, and none that is summed any other. */
struct kedge__gpu_load {
	const void *memory; /* pinned, and not to be touched before it was waited for */
	uint64_t bytes, pieces, strips;
};

/* Of a buffer: where pieces end and strips begin, how many strips there may be, and how many bytes they may become. */
struct kedge__gpu_layout {
	uint64_t pieces_end, strips, unpacked;
};

struct kedge__gpu_layout kedge__gpu_scatter_layout(uint64_t bytes);
/* KEDGE__GPU_SCATTER_BUFFERS buffers of BYTES, a multiple of 64, on the device. */
int kedge__gpu_scatter_new(struct kedge__gpu *g, uint64_t bytes, struct kedge__gpu_scatter **out, struct kedge__error *err);
void kedge__gpu_scatter_free(struct kedge__gpu_scatter *s); /* accepts NULL */
/* What is sent comes after the work of the application (kedge__gpu_after()). */
int kedge__gpu_scatter_begin(struct kedge__gpu_scatter *s, const struct kedge__gpu_target *targets, size_t n,
			     struct kedge__error *err);
/* Buffer number BUFFER, which was waited for. A device without kernels takes no strips. */
int kedge__gpu_scatter_send(struct kedge__gpu_scatter *s, unsigned buffer, const struct kedge__gpu_load *load,
			    struct kedge__error *err);
int kedge__gpu_scatter_wait(struct kedge__gpu_scatter *s, unsigned buffer, struct kedge__error *err);
/* All is in its place; the targets, those of the beginning, get their sums. *DAMAGED: strips that were not what they say, and are left out. */
int kedge__gpu_scatter_end(struct kedge__gpu_scatter *s, struct kedge__gpu_target *targets, size_t n, uint64_t *damaged,
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
