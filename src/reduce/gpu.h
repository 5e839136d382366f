/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gpu.h: a reducer whose image is on a GPU. The host has all that it has for any image; the device has replicas of what its
 * kernels look at, so that neither the data nor the digests of what did not change cross the bus:
 *
 *   gpu_columns.c  digests and ages of the last version
 *   gpu_pass.c     the hash pass, which makes the same lists as hash_pass.c, and the literals
 *   gpu_lists.c    these lists, to the host
 *   gpu_pack.c     literals that are packed before they come to the host
 *   gpu_finder.c   the finder, which is on the device alone, and a replica of the log
 *
 * Replicas can be made again from what the host has at any time, and are given up when memory of the device is short.
 */
#ifndef KEDGE_REDUCE_GPU_H
#define KEDGE_REDUCE_GPU_H

#include "gpu/gpu.h"
#include "reduce/reducer.h"

struct kedge__gpu_array { /* memory of the device that grows */
	kedge__gpu_address at;
	uint64_t bytes;
};

#define KEDGE__GPU_SPARE UINT64_C(65536) /* bytes of pinned memory that are there whatever happens */

struct kedge__packed_region {
	struct kedge__gpu_how how;
	uint64_t end; /* of its literals, as far as they are on the stage; 0: none is */
};

/* Literals on their way through the stage of a packer. Positions are those in LITERALS if they were not packed. */
struct kedge__gpu_packing {
	struct kedge__gpu_packer *packer;
	bool on;      /* they are packed in the version in progress */
	bool no_room; /* for it on the device: said once, and not tried again */
	bool under_way; /* it was begun, and did not come to its end */
	uint32_t block;
	KEDGE__ARRAY(struct kedge__packed_region) regions;
	uint64_t first; /* the position that is at the beginning of the stage, */
	uint64_t cut;   /* and up to which blocks were cut, */
	size_t region;  /* in this region; */
	size_t last;    /* the region of the last literal there; */
	size_t touched; /* and regions since the last batch */
	struct kedge__ready_blocks blocks; /* of all regions; those that are not packed are left out in the end */
	uint64_t bytes; /* that came to the host */
};

/* What a reducer has on a device. */
struct kedge__gpu_replicas {
	struct kedge__gpu *gpu;
	struct kedge__gpu_pass *pass;
	/* Of the last version. Chunk I of a region is number `place` + I. */
	struct kedge__gpu_array digests, ages; /* struct kedge__digest; a byte each */
	uint64_t room, used;                   /* chunks */
	bool current;                          /* they are what the host has */
	/* Of the version in progress; `on` has the addresses of all this. */
	struct kedge__gpu_array slabs, found, at, bits, changes, fresh, fills, origins;
	struct kedge__gpu_slabs on;
	struct kedge_slab *slab_list;        /* pinned: what was sent, */
	struct kedge_slab_found *found_list; /* what came back, */
	struct kedge_slab_at *at_list;       /* and what is sent then */
	uint64_t staged_slabs;               /* that these have room for */
	uint8_t *spare;                      /* KEDGE__GPU_SPARE bytes behind them */
	bool sparing;                        /* what is fetched goes through these */
	unsigned waves;
	size_t region; /* of the slab that was taken last */
	uint64_t change_count, fill_count; /* in the lists, without those of flat slabs */
	uint64_t fresh_count;              /* changes up to the last that may have had a digest */
	uint64_t flat_changes, flat_fills;
	KEDGE__ARRAY(uint64_t) starts; /* of each region: where its literals begin in LITERALS */
	uint8_t *literals;             /* the caller's */
	uint64_t literal_bytes, literal_room;
	bool late;    /* there was no room for a list: they are made when all is known */
	bool streams; /* literals are gathered wave by wave, before duplicates are looked for */
	bool begun;   /* some of them are on their way, or were */
	bool repeats; /* the version before had many duplicates */
	bool unsure;  /* of some slabs only the list says how many changes had a digest */
	bool listed;                   /* the lists are those of the version in progress */
	struct kedge__gpu_novelty *novelty;
	bool no_finder; /* there was no room for it: it is on the host */
	struct kedge__gpu_packing packing;
};

/* Of a power of two. */
static inline unsigned kedge__gpu_shift(uint64_t n)
{
	return (unsigned)__builtin_ctzll(n);
}

/* At least BYTES; what was there is lost. */
int kedge__gpu_array_need(struct kedge__gpu *g, struct kedge__gpu_array *a, uint64_t bytes, struct kedge__error *err);
void kedge__gpu_array_done(struct kedge__gpu *g, struct kedge__gpu_array *a);

/* ------------------------------------------------------------------ gpu_columns.c */

/* Replicas on GPU, with all regions of the version in progress in their places. */
int kedge__gpu_columns_need(struct kedge__reducer *r, struct kedge__gpu *gpu, struct kedge__error *err);
/* Nothing is on a device any more. */
void kedge__gpu_replicas_drop(struct kedge__reducer *r);
/* Ages are counted from BY epochs later on. */
void kedge__gpu_columns_rejuvenate(struct kedge__reducer *r, uint32_t by);

/* ------------------------------------------------------------------ gpu_pass.c */

extern uint64_t kedge__gpu_wave_slabs; /* the least of a wave; a test may make it smaller */
/* Put it on the device; and take what it finds, after the slabs were planned. */
int kedge__gpu_pass_start(struct kedge__reducer *r, struct kedge__error *err);
int kedge__gpu_hash_pass(struct kedge__reducer *r, struct kedge__error *err);
/* After duplicates were found: what is stored, to memory of the host. */
int kedge__gpu_literals_fetch(struct kedge__reducer *r, struct kedge__error *err);
/* The literals of RED are there now. */
void kedge__gpu_literals_point(const struct kedge__reducer *r, struct kedge__reduction *red);
/* The version in progress is committed, on the host and in the finder, or rolled back: new digests take their places on the
 * device, or do not. */
void kedge__gpu_settle(struct kedge__reducer *r, bool committed);
/* A view of the image through which few bytes can be looked at. */
struct kedge__image_view kedge__gpu_view(struct kedge__reducer *r);

/* Bytes that are stored of slab I. FOUND: duplicates were looked for. */
uint64_t kedge__gpu_slab_literals(const struct kedge__reducer *r, size_t i, bool found);

/* ------------------------------------------------------------------ gpu_lists.c */

/* The lists, and the digests that are new: all that the host needs to go on without the image. */
int kedge__gpu_lists_fetch(struct kedge__reducer *r, struct kedge__error *err);

/* ------------------------------------------------------------------ gpu_pack.c */

/* Whether literals of the version in progress are packed on the device is in replicas->packing.on then. */
int kedge__gpu_packing_begin(struct kedge__reducer *r, struct kedge__error *err);
/* Literals of slabs [FIRST, END) are on the device, in lists, by work on KEDGE__GPU_PACK, and have their places. */
int kedge__gpu_packing_take(struct kedge__reducer *r, uint64_t first, uint64_t end, bool found, struct kedge__error *err);
/* All have been taken, and are on the host. */
int kedge__gpu_packing_end(struct kedge__reducer *r, struct kedge__error *err);
/* They are taken from the beginning; nothing is under way. */
void kedge__gpu_packing_again(struct kedge__reducer *r);
/* Whether those of REGION are packed. */
static inline bool kedge__gpu_packing_is(const struct kedge__gpu_replicas *w, size_t region)
{
	return w->packing.on && w->packing.regions.at[region].how.codec != KEDGE__GPU_NONE;
}
void kedge__gpu_packing_done(struct kedge__gpu_replicas *w);

/* ------------------------------------------------------------------ gpu_novelty.c */

struct kedge__gpu_novelty;

/* For up to ROOM chunks, the same each time; NULL: the device does not have what the host has, or there is no memory. */
struct kedge__gpu_novelty *kedge__gpu_novelty_get(const struct kedge__reducer *r, size_t room);
void kedge__gpu_novelty_free(struct kedge__gpu_novelty *n); /* accepts NULL */
/* COUNT chunks of the image, one behind the other, until the next call; NULL: the device failed. */
const uint8_t *kedge__gpu_pick(struct kedge__gpu_novelty *n, const kedge__gpu_address *from, size_t count);
/* How many whole chunks of the last version have one of DIGESTS, which novelty.c has sorted; FILTER has a bit for each of them.
 * False: the device failed. */
bool kedge__gpu_search(const struct kedge__reducer *r, struct kedge__gpu_novelty *n, const struct kedge__digest *digests,
		       size_t count, const uint64_t *filter, size_t *found);

/* ------------------------------------------------------------------ gpu_finder.c */

struct kedge__gpu_finder {
	struct kedge__gpu_replicas *replicas;
	struct kedge__gpu_array buckets;
	struct kedge__gpu_array log;    /* struct kedge__past, as long as there is a finder */
	struct kedge__gpu_array tables; /* what is sent for each step, and at the end how many probes each slab has */
	struct kedge__gpu_array wave;
	struct kedge__gpu_array origins; /* as those of the version in progress, if `origin_count` is not 0 */
	uint64_t origin_count;
	struct kedge__gpu_array totals;
	uint8_t *staged; /* pinned: `tables`, as the host makes them */
	uint64_t staged_bytes;
};

/* From now on, the finder of R is on the device that has its replicas. There is none to begin with. */
int kedge__gpu_finder_begin(struct kedge__reducer *r, struct kedge__error *err);
/* And from now on it is on the host again: it is made again when it is needed. Accepts one whose finder is on the host. */
void kedge__gpu_finder_end(struct kedge__reducer *r);
/* Origins of all changes of the version in progress on the device; 0: none was found. */
kedge__gpu_address kedge__gpu_origins(const struct kedge__reducer *r);

extern const struct kedge__finder_ops kedge__finder_on_gpu;

#endif
