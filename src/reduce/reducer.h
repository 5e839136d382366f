/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * reducer.h: what the files of this folder share. A reduction goes through these steps; each is a file:
 *
 *   last.c        the regions of the last version: digests of their chunks, in paranoid mode a shadow copy
 *   hash_pass.c   one pass over all bytes, or those that may have changed, by slabs on all threads: digests, region
 *                 sums, the list of changed chunks
 *   keep.c        for an image seen through a view: keeps what may have to be stored
 *   check.c       for an image that is not held: checks that what is stored is what was hashed
 *   stream.c      slabs that are stored in any case are hashed while they are, and not before
 *   duplicates.c  changed chunks are looked up in the record, or entered
 *   forest.c      subtrees of the Merkle tree are entered, and found (Algorithm 1)
 *   rex.c         changed patterns are looked for in their page (rex_page.c) and in this version (rex_wave.c, rex_table.c),
 *                 pages are decided on and emitted, some slabs at a time
 *   emit.c        extents, literals, totals
 *
 * After the hash pass all work is proportional to the number of changed chunks.
 */
#ifndef KEDGE_REDUCE_REDUCER_H
#define KEDGE_REDUCE_REDUCER_H

#include "reduce/record.h"
#include "reduce/reduce.h"
#include "reduce/rex_table.h"

#include <stdatomic.h>

#define KEDGE__CHUNK_MIN 16u
#define KEDGE__REX_PAGE  UINT64_C(4096)
#define KEDGE__REX_CHUNK_MAX 256u
#define KEDGE__CHUNK_MAX 65536u
#define KEDGE__SLAB_BYTES                                                                                              \
	(UINT64_C(256) << 10) /* a whole subtree for every chunk size; what a thread takes at once                     \
			       */

/* ---- last.c */

enum kedge__slab_state {
	KEDGE__SLAB_KNOWN,
	KEDGE__SLAB_STALE, /* nothing is known about its bytes */
	KEDGE__SLAB_FLAT,  /* all of it is one constant: it has no digests, and their memory is not touched */
};

struct kedge__last_region {
	uint64_t base, bytes;          /* bytes: 0 if it was not in the last version */
	uint64_t next_bytes;           /* in the version in progress */
	struct kedge__digest *digests; /* of all chunks, if the slab is not stale */
	uint64_t room;                 /* chunks */
	uint8_t *stale;                /* of a slab: enum kedge__slab_state */
	uint64_t *flat;                /* of a slab that is flat: the constant */
	uint64_t stale_room, flat_room;
	uint8_t *shadow; /* paranoid: the bytes of the last version */
	uint64_t shadow_room;
	bool known, present; /* in the last version, in the one in progress */
	/* With options.track: sums of grains, in place, and of slabs, as of the last version. */
	struct kedge__sum *sums, *slab_sums;
	uint64_t sums_room, slab_sums_room;
	bool summed; /* they are those of the last version, where slabs are not stale */
};

struct kedge__last {
	KEDGE__ARRAY(struct kedge__last_region *) regions; /* ascending base */
};

/* Zeroed memory, in large pages if it is large. */
void *kedge__large_alloc(uint64_t bytes);
void kedge__large_free(void *p, uint64_t bytes);
void kedge__last_done(struct kedge__last *last);
/* Mark those of IMAGE as present, adding new ones, with room for all their chunks; (*OUT)[i] is that of region i. */
int kedge__last_prepare(struct kedge__last *last, const struct kedge__image *image, uint32_t chunk, bool shadow,
			struct kedge__last_region ***out, struct kedge__error *err);
/* Room for the sums of all of REGIONS (COUNT), with grains of GRAIN bytes. */
int kedge__last_prepare_sums(struct kedge__last_region *const *regions, size_t count, uint64_t grain,
			     struct kedge__error *err);
void kedge__last_commit(struct kedge__last *last);
void kedge__last_rollback(struct kedge__last *last);
struct kedge__last_region *kedge__last_find(const struct kedge__last *last, uint64_t base);

/* ---- what is kept while a version is in progress */

enum kedge__item_kind {
	KEDGE__ITEM_PLAIN, /* a literal that is not in the record */
	KEDGE__ITEM_FIRST, /* a literal that was entered in the record */
	KEDGE__ITEM_SHIFT, /* the same as (epoch, src) */
	KEDGE__ITEM_FILL,  /* src is the pattern */
	KEDGE__ITEM_BACK,  /* the same as pattern number src of this version, which is a literal */
	/* All of a page, which is one extent: */
	KEDGE__ITEM_PAGE,      /* a literal */
	KEDGE__ITEM_PAGE_FILL, /* src is the pattern */
};

struct kedge__item {    /* a changed chunk */
	uint64_t index; /* in its region */
	uint64_t src;   /* by kind; of a literal nothing */
	uint32_t epoch;
	uint32_t kind : 8; /* enum kedge__item_kind */
	uint32_t region : 24;
};

struct kedge__slab {
	uint32_t region; /* index into the image */
	bool skip;       /* not hashed, only summed */
	bool flat;       /* all of it is new, and one constant: there are no items */
	bool stream;     /* all of it is stored, and hashed as it is: there are no items, and no sum until then */
	size_t glance_at, glance_count;
	int worker;
	uint64_t first; /* chunk */
	uint64_t pattern; /* if it is flat */
	size_t change_at, fill_at, undo_at, count, fill_count, undo_count;
	size_t item_at;
	uint64_t pages; /* rex: a bit for each that changed, */
	size_t page_at; /* and where the first of them is among txn.pages */
	struct kedge__sum sum;
};

struct kedge__rex_page { /* a changed page: where its literals are */
	uint64_t position;
	uint64_t plain[KEDGE__REX_PAGE / KEDGE__CHUNK_MIN / 64]; /* a bit for each pattern that is a literal */
};

struct kedge__root {  /* a subtree of shifted duplicates that is one piece elsewhere */
	size_t item;  /* its first */
	size_t count; /* items */
	uint64_t src;
	uint32_t epoch;
};

struct kedge__hash_worker {             /* what one thread found, in the order of its slabs */
	KEDGE__ARRAY(uint16_t) changes; /* index in the slab << 1 | is a fill */
	KEDGE__ARRAY(uint64_t) fills;   /* patterns */
	KEDGE__ARRAY(struct kedge__digest) undo; /* old digests of those that had one */
	struct kedge__digest *fresh; /* scratch: digests of a piece */
	uint8_t *bytes;              /* scratch: a slab that is seen through a view; what is compared */
};

struct kedge__emitter;

#define KEDGE__GLANCE 64

struct kedge__glance { /* bytes of a slab that is hashed as it is stored, as they were before */
	uint64_t offset; /* in the region */
	uint8_t bytes[KEDGE__GLANCE];
};

/* One version in progress. */
struct kedge__txn {
	struct kedge__pool *pool;
	uint64_t version;
	const struct kedge__image *image;
	struct kedge__image own; /* a copy: by the commit, the caller's may be gone and its memory changed */
	const struct kedge__image_view *view; /* NULL: bytes are at the addresses in the image */
	bool plain;                           /* nothing of it is remembered */
	enum kedge__reducer_id used;
	bool compare; /* the last version may be referred to */
	uint32_t parent_epoch; /* rex: that of the last version, 0: none */
	struct kedge__last_region **regions;
	const struct kedge__region_dirty *dirty; /* the caller's, while reduce runs; NULL: nothing is known */
	bool sums;                               /* grain and slab sums are kept */
	KEDGE__ARRAY(struct kedge__slab) slabs;
	struct kedge__hash_worker *workers; /* the reducer's */
	KEDGE__ARRAY(struct kedge__item) items; /* of all slabs; if the reducer works in waves, only their number */
	KEDGE__ARRAY(struct kedge__rex_page) pages; /* rex: the changed ones so far */
	struct kedge__emitter *emitter;
	KEDGE__ARRAY(struct kedge__root) roots; /* ascending */
	uint8_t *aside;                         /* paranoid: new bytes of chunks that are in the shadow */
	uint64_t aside_bytes;
	bool stream;                    /* some slabs may be hashed as they are stored; */
	KEDGE__ARRAY(struct kedge__glance) glances;
	struct kedge__digest *region_digests; /* the digests of their regions are known then: the reduction's */
	_Atomic uint64_t hashed;
	void (*progress)(void *ctx, uint64_t bytes);
	void *progress_ctx;
	uint64_t raw_bytes, changed_bytes, duplicate_bytes, fill_bytes, literal_bytes;
	uint64_t sample_bytes, sample_changed; /* of the slabs hashed while reduction is off */
};

/* auto.c: what the last versions showed. */
struct kedge__auto {
	enum kedge__reducer_id mode;
	uint32_t dry;   /* tree versions in a row whose shifted duplicates did not pay */
	uint32_t dense; /* versions in a row that were nearly all literals */
	uint32_t since; /* versions since the last probe by tree */
	uint32_t probes; /* unsuccessful ones, up to a few */
};

struct kedge__reducer {
	struct kedge__reducer_options options;
	struct kedge__digest_key *key; /* of all digests below */
	struct kedge__record record;
	struct kedge__last last;
	uint64_t parent;
	struct kedge__auto choice;
	/* Memory that stays from version to version, as far as KEDGE__KEPT_BYTES go: */
	struct kedge__hash_worker *workers;
	int worker_count;
	struct kedge__rex_table rex;
	struct kedge__rex_wave *wave;
	struct kedge__txn txn;
	bool busy;
};

/* Fresh work space costs a page fault per 4 KiB: more than the work on as many bytes. */
#define KEDGE__KEPT_BYTES (UINT64_C(16) << 20) /* each */

#define KEDGE__GRAIN_BYTES UINT64_C(4096) /* dirty ranges are rounded to this, or to chunks if those are larger */

static inline uint64_t kedge__grain(uint64_t chunk)
{
	return KEDGE__MAX(chunk, KEDGE__GRAIN_BYTES);
}

static inline uint64_t kedge__chunks_of(uint64_t bytes, uint64_t chunk)
{
	return bytes / chunk + (bytes % chunk != 0);
}

static inline const struct kedge__image_region *kedge__slab_region(const struct kedge__txn *t,
								   const struct kedge__slab *s)
{
	return &t->image->regions[s->region];
}

/* Items of slab I: from slabs.at[i].item_at up to this. */
static inline size_t kedge__slab_end(const struct kedge__txn *t, size_t i)
{
	return t->slabs.at[i].item_at + t->slabs.at[i].count;
}

static inline uint64_t kedge__item_len(const struct kedge__image_region *region, uint64_t index, uint64_t chunk)
{
	return KEDGE__MIN(chunk, region->bytes - index * chunk);
}

/* The first range that ends behind OFFSET. */
static inline size_t kedge__dirty_find(const struct kedge__region_dirty *d, uint64_t offset)
{
	size_t i;

	KEDGE__PARTITION_POINT(i, d->count, d->at[i].start + d->at[i].len <= offset);
	return i;
}

/* How many chunks of the region, up to the end of slab S, have a digest of the last version. */
static inline uint64_t kedge__slab_known(const struct kedge__txn *t, const struct kedge__slab *s, uint64_t chunk)
{
	const struct kedge__last_region *g = t->regions[s->region];

	return g->stale[s->first * chunk / KEDGE__SLAB_BYTES] != KEDGE__SLAB_KNOWN ? 0 : kedge__chunks_of(g->bytes, chunk);
}

/* For a short list, waking threads costs more than they gain. */
static inline struct kedge__pool *kedge__pool_if(struct kedge__pool *pool, size_t items)
{
	return items >= 4096 ? pool : NULL;
}

/* ---- the steps */

/* Split the image into slabs. SAMPLE: most are skipped. */
int kedge__slabs_plan(struct kedge__reducer *r, bool sample, struct kedge__error *err);
/* last.c: a flat slab of G, which is number SLAB, gets its digests after all. False: out of memory. */
bool kedge__last_raise(const struct kedge__reducer *r, struct kedge__last_region *g, uint64_t slab);
int kedge__hash_pass(struct kedge__reducer *r, struct kedge__error *err);
void kedge__hash_undo(struct kedge__reducer *r);
/* The first of [i, n) where both differ, or n. */
uint64_t kedge__next_difference(const struct kedge__digest *a, const struct kedge__digest *b, uint64_t i, uint64_t n);
/* N digests as options.digest_mask wants them. */
void kedge__digests_weaken(const struct kedge__reducer *r, struct kedge__digest *d, uint64_t n);
/* stream.c: IMAGE, seen through VIEW, has few duplicates, in itself and, if it FOLLOWS, in the last version, as far as a
 * sample says. */
bool kedge__stream_pays(const struct kedge__reducer *r, const struct kedge__image *image,
			const struct kedge__image_view *view, bool follows);
int kedge__stream_plan(struct kedge__reducer *r, struct kedge__error *err); /* which slabs are */
/* BYTES bytes of S at OFFSET of its region are stored, as they are at DATA. False: they have changed. Calls may run
 * concurrently. */
bool kedge__stream_take(struct kedge__reducer *r, struct kedge__slab *s, uint64_t offset, const uint8_t *data, uint64_t bytes);
void kedge__stream_end(struct kedge__reducer *r); /* all of them */
void kedge__stream_undo(struct kedge__reducer *r);
/* Empty the threads' lists and free the large ones. */
void kedge__workers_rest(struct kedge__reducer *r);
void kedge__workers_done(struct kedge__reducer *r);
/* The changed chunks of a slab from its thread's list to ITEMS, or of all to their places. */
void kedge__items_gather(const struct kedge__txn *t, size_t slab, struct kedge__item *items);
void kedge__items_gather_all(struct kedge__txn *t);
/* Shifted duplicates and first occurrences among the changed chunks. */
int kedge__duplicates_find(struct kedge__reducer *r, struct kedge__error *err);
/* prime.c: enter the chunks of the last version into an empty record, as far as there is room. */
void kedge__record_refill(struct kedge__reducer *r);
int kedge__forest_enter(struct kedge__reducer *r, struct kedge__error *err);
int kedge__forest_find(struct kedge__reducer *r, struct kedge__error *err);
/* rex: where the literal is that pattern NUMBER of this version is part of. */
uint64_t kedge__rex_position(const struct kedge__txn *t, uint64_t number, uint64_t chunk);

/* paranoid.c: are LEN bytes of REGION at OFFSET those at (epoch, src)? After the hash pass, on one thread. */
bool kedge__paranoid_equal(const struct kedge__reducer *r, size_t region, uint64_t offset, uint64_t len, uint32_t epoch,
			   uint64_t src);
int kedge__paranoid_keep(struct kedge__reducer *r, struct kedge__error *err);
void kedge__paranoid_commit(struct kedge__reducer *r);

/* keep.c: the part of slab S at OFFSET of its region is at DATA, its changes are those of the worker from number CHANGE
 * on, its constants those from number FILL on. False: out of memory. */
bool kedge__part_keep(const struct kedge__reducer *r, const struct kedge__slab *s, int worker, size_t change, size_t fill,
		      const uint8_t *data, uint64_t offset);

/* One constant: so are N fills, at least one, that are the same. */
static inline bool kedge__fills_are_one(const uint64_t *fills, size_t n)
{
	return !memcmp(fills, fills + 1, (n - 1) * sizeof(*fills));
}

/* rex_page.c: whether a page of LEN bytes with CHANGED changed patterns may become a single literal. If not, only those that
 * changed are stored. */
bool kedge__rex_may_be_literal(uint64_t len, uint64_t changed, uint64_t chunk);

/* A variant. `run` is what it does between the hash pass and the extents. */
struct kedge__reducer_ops {
	const char *name;
	int (*run)(struct kedge__reducer *r, struct kedge__error *err);
	bool hashes; /* keeps digests of the last version; not: sums only */
	bool sample; /* hashes a sample only */
	bool full;  /* each region is one literal */
	bool merge;  /* neighbouring results become one extent */
	bool pages;  /* a changed page of KEDGE__REX_PAGE bytes may become a single literal */
	bool waves; /* `run` gathers and emits the items of a few slabs at a time */
};

extern const struct kedge__reducer_ops kedge__full_ops, kedge__basic_ops, kedge__list_ops, kedge__tree_ops, kedge__rex_ops;
extern const struct kedge__reducer_ops kedge__off_ops; /* full, as auto uses it: samples */
const struct kedge__reducer_ops *kedge__reducer_ops_of(const struct kedge__reducer *r);

enum kedge__reducer_id kedge__auto_choose(const struct kedge__reducer *r);
void kedge__auto_learn(struct kedge__reducer *r);

/* How a version is reduced. */
struct kedge__way {
	enum kedge__reducer_id used;
	bool stream; /* what is stored in any case is hashed as it is stored */
};

/* FOLLOWS: there is a last version to compare with. VIEW: of an image that is not held, or NULL. */
struct kedge__way kedge__auto_way(const struct kedge__reducer *r, bool follows, const struct kedge__image *image,
				  const struct kedge__image_view *view, const struct kedge__region_dirty *dirty);

/* reducer.c */
int kedge__txn_run(struct kedge__reducer *r, struct kedge__way way, struct kedge__pool *pool, uint64_t version,
		   const struct kedge__image *image, const struct kedge__reduce_how *how, struct kedge__reduction *out,
		   struct kedge__error *err);

#endif
