/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * reducer.h: what the files of this folder share. A reduction goes through these steps; each is a file:
 *
 *   last.c        the regions of the last version: digests of their chunks, in paranoid mode a shadow copy
 *   novelty.c     whether all of it is new, so that the last version need not be compared with
 *   hash_pass.c   one pass over all bytes, or those that may have changed, by slabs on all threads: digests, region
 *                 sums, the list of changed chunks
 *   keep.c        for an image seen through a view: keeps what may have to be stored
 *   check.c       for an image that is not held: checks that what is stored is what was hashed
 *   seam.c        chunks that are stored in parts are checked when all of them were
 *   stream.c      slabs that are stored in any case are hashed while they are, and not before
 *   find.c        changed chunks are looked up in the record, or entered (record.h: record.c, build.c, finder.c, batch.c)
 *   rex.c         changed patterns are looked for in their page (rex_page.c) and in this version (rex_wave.c, rex_table.c),
 *                 pages are decided on and emitted, some slabs at a time
 *   emit.c        extents, literals, totals; chunks that follow each other where they come from are one copy; parts.c: on all
 *                 threads
 *   remember.c    at commit: the record has the new version
 *   auto.c        chooses the reducer; rex_turn.c goes from chunks to patterns and back, by samples (rex_sample.c)
 *
 * After the hash pass all work is proportional to the number of changed chunks.
 */
#ifndef KEDGE_REDUCE_REDUCER_H
#define KEDGE_REDUCE_REDUCER_H

#include "reduce/record.h"
#include "reduce/reduce.h"
#include "reduce/rex_table.h"

#include <pthread.h>
#include <stdatomic.h>

#define KEDGE__AGE_ODD   0x80u
#define KEDGE__CHUNK_MIN 16u
#define KEDGE__REX_PAGE  UINT64_C(4096)
#define KEDGE__REX_CHUNK_MAX 256u
#define KEDGE__CHUNK_MAX 65536u
#define KEDGE__LARGE     (UINT64_C(1) << 18) /* chunks: below, samples say little and save little */
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
	uint8_t *ages;                 /* of a chunk: the epoch since which it is what it is, from record.since on; and
					* KEDGE__AGE_ODD, which changes with it */
	uint64_t ages_room;
	uint64_t number, numbered; /* chunks from the first on that have numbers in the record, and that of the first */
	size_t slab_at;            /* the first slab, in the version in progress */
	uint64_t place, place_room; /* of the first chunk in the columns on a GPU (gpu.h), and how many there is room for */
	uint8_t *stale;                /* of a slab: enum kedge__slab_state */
	uint64_t *flat;                /* of a slab that is flat: the constant */
	uint64_t stale_room, flat_room;
	uint8_t *shadow; /* paranoid: the bytes of the last version */
	uint64_t shadow_room;
	bool known, present; /* in the last version, in the one in progress */
	bool same;           /* in both, as the caller says: it is not looked at, and this is its digest */
	struct kedge__digest digest;
	/* With options.track: sums of grains, in place, and of slabs, as of the last version. */
	struct kedge__sum *sums, *slab_sums;
	uint64_t sums_room, slab_sums_room;
	bool summed; /* they are those of the last version, where slabs are not stale */
};

struct kedge__last {
	KEDGE__ARRAY(struct kedge__last_region *) regions; /* ascending base */
};

struct kedge__last_needs {
	bool ages, shadow;
};

/* Zeroed memory, in large pages if it is large. */
void *kedge__large_alloc(uint64_t bytes);
/* What *P has stays; false, and all is as it was, without memory. */
bool kedge__large_grow(void **p, uint64_t bytes, uint64_t wanted);
void kedge__large_free(void *p, uint64_t bytes);
void kedge__last_done(struct kedge__last *last);
/* Mark those of IMAGE as present, adding new ones, with room for all their chunks; (*OUT)[i] is that of region i. */
int kedge__last_prepare(struct kedge__last *last, const struct kedge__image *image, uint32_t chunk,
			struct kedge__last_needs needs, struct kedge__last_region ***out, struct kedge__error *err);
/* Room for the sums of all of REGIONS (COUNT), with grains of GRAIN bytes. */
int kedge__last_prepare_sums(struct kedge__last_region *const *regions, size_t count, uint64_t grain,
			     struct kedge__error *err);
void kedge__last_commit(struct kedge__last *last);
void kedge__last_rollback(struct kedge__last *last);
struct kedge__last_region *kedge__last_find(const struct kedge__last *last, uint64_t base);

/* ---- what is kept while a version is in progress */

enum kedge__item_kind {
	KEDGE__ITEM_PLAIN, /* a literal */
	KEDGE__ITEM_SHIFT, /* rex: the same as (epoch, src) */
	KEDGE__ITEM_FOUND, /* the same as what the record has at src, a kedge__origin; epoch: the number of the change in its slab */
	KEDGE__ITEM_FILL,  /* src is the pattern */
	KEDGE__ITEM_BACK,  /* the same as pattern number src of this version, which is a literal */
	/* All of a page, which is one extent: */
	KEDGE__ITEM_PAGE,      /* a literal */
	KEDGE__ITEM_PAGE_FILL, /* src is the pattern */
};

struct kedge__item {    /* a changed chunk, or several */
	uint64_t index; /* in its region */
	uint64_t src;   /* by kind; of a literal nothing */
	uint32_t epoch;
	uint8_t kind; /* enum kedge__item_kind */
	uint16_t more; /* chunks that follow it and are literals, too */
};

/* Where a changed chunk is to be had: 0 for nowhere, or what kind of place and its number. */
typedef uint32_t kedge__origin;
enum kedge__origin_kind {
	KEDGE__ORIGIN_NONE,
	KEDGE__ORIGIN_LAST, /* a chunk of the last version */
	KEDGE__ORIGIN_LOG,  /* an entry of the log */
	KEDGE__ORIGIN_HERE, /* a change of this version, which is a literal */
};

static inline enum kedge__origin_kind kedge__origin_kind(kedge__origin o)
{
	return (enum kedge__origin_kind)(o >> 30);
}

static inline uint32_t kedge__origin_number(kedge__origin o)
{
	return o & ((UINT32_C(1) << 30) - 1);
}

static inline kedge__origin kedge__origin_make(enum kedge__origin_kind kind, uint32_t number)
{
	return (uint32_t)kind << 30 | number;
}

struct kedge__slab {
	uint32_t region; /* index into the image */
	bool skip;       /* not hashed, only summed */
	bool flat;       /* all of it is new, and one constant: there are no items */
	bool stream;     /* all of it is stored, and hashed as it is: there are no items, and no sum until then */
	size_t glance_at, glance_count;
	int worker;
	uint64_t first; /* chunk */
	uint64_t pattern; /* if it is flat */
	size_t change_at, fill_at, apart_at, count, fill_count, apart_count;
	size_t item_at;
	uint64_t pages; /* rex: a bit for each that changed, */
	size_t page_at; /* and where the first of them is among txn.pages */
	struct kedge__sum sum;
};

struct kedge__rex_page { /* a changed page: where its literals are */
	uint64_t position;
	uint64_t plain[KEDGE__REX_PAGE / KEDGE__CHUNK_MIN / 64]; /* a bit for each pattern that is a literal */
};

struct kedge__hash_worker {             /* what one thread found, in the order of its slabs */
	KEDGE__ARRAY(uint16_t) changes; /* index in the slab << 1 | is a fill */
	KEDGE__ARRAY(uint64_t) fills;   /* patterns */
	KEDGE__ARRAY(struct kedge__digest) apart; /* of those that had a digest: the old one, or the new one (txn.apart) */
	uint64_t touched; /* bytes of these that have been written to, and take memory */
	struct kedge__digest *fresh; /* scratch: digests of a piece */
	uint8_t *bytes;              /* scratch: a slab that is seen through a view; what is compared */
	uint64_t look_wait;          /* pieces before the next look where they are, */
	uint64_t look_failed;        /* after so many in a row that saw a change */
};

struct kedge__emitter;

#define KEDGE__GLANCE 64

struct kedge__glance { /* bytes of a slab that is hashed as it is stored, as they were before */
	uint64_t offset; /* in the region */
	uint8_t bytes[KEDGE__GLANCE];
};

enum kedge__stream {
	KEDGE__STREAM_NONE,
	KEDGE__STREAM_SOME, /* slabs with constants are not */
	KEDGE__STREAM_ALL,  /* none are expected */
};

/* One version in progress. */
/* ---- seam.c */

struct kedge__seam { /* a chunk of which some parts have passed */
	size_t region;
	uint64_t start; /* in the region */
	uint64_t got;
	uint8_t *bytes;
};

struct kedge__seams {
	struct kedge__seam *at;
	size_t count, room;
	struct kedge__hash places;
	pthread_mutex_t lock; /* guards all of it */
};

struct kedge__seam_part {
	size_t region;
	uint64_t start, unit; /* the chunk, and its bytes */
	uint64_t skip, bytes; /* the part of it */
	const uint8_t *data;
};

/* *WHOLE: all bytes of the chunk, if this was the last of its parts; the caller's then. 0 or KEDGE_E_NOMEM. */
int kedge__seam_add(struct kedge__seams *s, const struct kedge__seam_part *part, uint8_t **whole);
void kedge__seams_clear(struct kedge__seams *s);

struct kedge__txn {
	struct kedge__pool *pool;
	uint64_t version;
	const struct kedge__image *image;
	struct kedge__image own; /* a copy: by the commit, the caller's may be gone and its memory changed */
	const struct kedge__image_view *view; /* NULL: bytes are at the addresses in the image */
	bool plain;                           /* nothing of it is remembered */
	enum kedge__reducer_id used;
	bool compare; /* the last version may be referred to */
	bool primes;  /* what is the same in the version after it is not looked at */
	size_t same;  /* regions that are not looked at */
	uint32_t parent_epoch; /* rex: that of the last version, 0: none */
	struct kedge__last_region **regions;
	const struct kedge__region_dirty *dirty; /* the caller's, while reduce runs; NULL: nothing is known */
	const struct kedge__reduce_device *device; /* the same; NULL: the image is in memory of the host */
	bool sums;                               /* grain and slab sums are kept */
	KEDGE__ARRAY(struct kedge__slab) slabs;
	struct kedge__hash_worker *workers; /* the reducer's */
	size_t changes; /* of all slabs, */
	size_t fills;   /* and how many of them are constant */
	bool apart;     /* new digests are apart until commit, and the old ones in their places; else the other way round */
	kedge__origin *origins; /* of each change, if duplicates were looked for */
	uint64_t hits;          /* how many were found */
	uint8_t searched;       /* enum kedge__finder_state: changes that were entered in the finder */
	bool spoilt;            /* and others were not */
	uint8_t age;            /* of what is new, at commit */
	bool departed;          /* at commit: what had a digest has its new one */
	KEDGE__ARRAY(struct kedge__rex_page) pages; /* rex: the changed ones so far */
	struct kedge__emitter *emitter;
	uint8_t *aside;                         /* paranoid: new bytes of chunks that are in the shadow */
	uint64_t aside_bytes;
	enum kedge__stream stream;      /* some slabs may be hashed as they are stored; */
	KEDGE__ARRAY(struct kedge__glance) glances;
	struct kedge__digest *region_digests; /* the digests of their regions are known then: the reduction's */
	bool there;  /* the image is on a device: lists are, too, */
	bool listed; /* until they are fetched */
	double started, hash_seconds;
	_Atomic uint64_t hashed;
	void (*progress)(void *ctx, uint64_t bytes);
	void *progress_ctx;
	uint64_t raw_bytes, changed_bytes, duplicate_bytes, fill_bytes, literal_bytes;
};

/* auto.c: what the last versions showed. */
struct kedge__auto {
	enum kedge__reducer_id mode;
	uint32_t dry;   /* tree versions in a row whose shifted duplicates did not pay */
	uint32_t since; /* versions since the last probe by tree */
	uint32_t probes; /* unsuccessful ones, up to a few */
};

/* rex_sample.c: pages of an image, as they were in the last version and as they are now. */
#define KEDGE__SAMPLED 64

struct kedge__sampled {
	uint64_t base, offset; /* the region, and where in it */
	bool old, now;         /* the bytes are there */
};

struct kedge__sample {
	struct kedge__sampled at[KEDGE__SAMPLED]; /* in the order of addresses */
	size_t count;
	uint8_t *bytes;      /* of each two pages; NULL: there was no memory yet */
	uint64_t tree, rex;  /* bytes that those which changed would take */
	size_t seen;         /* how many did */
	uint64_t literals, candidates; /* of the last tree: bytes stored of those that changed and are not constant */
	uint32_t wait, every; /* versions until the next ones are drawn, and from then to the next */
	uint32_t tries;       /* versions in which too little was seen */
	bool rex_pays;        /* as far as was seen last */
};

struct kedge__reducer {
	struct kedge__reducer_options options;
	struct kedge__reducer *other; /* auto: the one that is in use instead of this; NULL: none */
	struct kedge__sample sample; /* auto */
	struct kedge__seams seams;   /* of the version in progress */
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
	struct kedge__gpu_replicas *replicas; /* gpu.h; NULL: none */
	struct kedge__slab *slabs;      /* room for as many, for the next version */
	size_t slab_room;
	struct kedge__txn txn;
	bool busy;
};

/* Fresh work space costs a page fault per 4 KiB: more than the work on as many bytes. */
#define KEDGE__KEPT_BYTES (UINT64_C(16) << 20) /* each; the lists of all threads together: KEDGE__WORK_BYTES */

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

/* Numbers that follow each other become numbers at no regular distance. */
static inline uint64_t kedge__spread(uint64_t n)
{
	n = (n ^ n >> 31) * UINT64_C(0x9E3779B97F4A7C15);
	return n ^ n >> 29;
}

/* All 8-byte words equal: then it is equal to itself one word further on. */
static inline bool kedge__is_constant(const uint8_t *data, uint64_t len)
{
	return len >= 16 && kedge__get64(data) == kedge__get64(data + 8) && !memcmp(data, data + 8, (size_t)len - 8);
}

/* Whether the bytes of an image may be requested again. */
static inline bool kedge__may_return(const struct kedge__image_view *view)
{
	return !view || !view->keep || view->stays;
}

/* Bytes of an image before they are requested. */
static inline const void *kedge__view_peek(const struct kedge__image_view *view, size_t region, uint64_t offset, void *buffer,
					   size_t bytes)
{
	return view->peek ? view->peek(view->ctx, region, offset, buffer, bytes)
			  : view->get(view->ctx, 0, region, offset, buffer, bytes, false);
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

/* Split the image into slabs. SKIP: they are not hashed. */
int kedge__slabs_plan(struct kedge__reducer *r, bool skip, struct kedge__error *err);
/* last.c: a flat slab of G, which is number SLAB, gets its digests after all. False: out of memory. */
bool kedge__last_raise(const struct kedge__reducer *r, struct kedge__last_region *g, uint64_t slab);
/* These digests, *COUNT of them, to be freed; NULL: out of memory. */
struct kedge__digest *kedge__last_constant(const struct kedge__reducer *r, const struct kedge__last_region *g, uint64_t slab,
					   uint64_t *count);
int kedge__hash_pass(struct kedge__reducer *r, struct kedge__error *err);
bool kedge__lists_reserve(struct kedge__hash_worker *w, uint64_t changes); /* room for so many more */
void kedge__hash_undo(struct kedge__reducer *r);
/* Of all regions, by what their slabs add up to, those among them that were hashed as they were stored. */
void kedge__region_digests(const struct kedge__txn *t, struct kedge__digest *out);
/* The first of [i, n) where both differ, or n. */
uint64_t kedge__next_difference(const struct kedge__digest *a, const struct kedge__digest *b, uint64_t i, uint64_t n);
/* N digests as options.digest_mask wants them. */
void kedge__digests_weaken(const struct kedge__reducer *r, struct kedge__digest *d, uint64_t n);
/* novelty.c, of an image that can be read again through VIEW, or is where it says: it has few duplicates, in itself and, if it
 * FOLLOWS, in the last version and the log; ALL: and no constants. */
enum kedge__stream kedge__image_is_new(const struct kedge__reducer *r, struct kedge__pool *pool, const struct kedge__image *image,
			  const struct kedge__image_view *view, bool follows);
/* And: it has none of what the last version and the log have. */
bool kedge__image_is_unknown(const struct kedge__reducer *r, struct kedge__pool *pool, const struct kedge__image *image,
			      const struct kedge__image_view *view);
int kedge__stream_plan(struct kedge__reducer *r, struct kedge__error *err); /* which slabs are */
/* BYTES bytes of S at OFFSET of its region are stored, as they are at DATA. False: they have changed. Calls may run
 * concurrently. */
bool kedge__stream_take(struct kedge__reducer *r, struct kedge__slab *s, uint64_t offset, const uint8_t *data, uint64_t bytes);
void kedge__stream_undo(struct kedge__reducer *r);
/* Empty the threads' lists; if they are large together, free them. */
void kedge__workers_rest(struct kedge__reducer *r);
void kedge__workers_done(struct kedge__reducer *r);
/* The changed chunks of a slab from its thread's list to ITEMS; literals that follow each other as one, if they may be
 * joined. Returns how many. */
size_t kedge__items_gather(const struct kedge__reducer *r, size_t slab, struct kedge__item *items);

/* find.c: shifted duplicates among the changed chunks. */
int kedge__duplicates_find(struct kedge__reducer *r, struct kedge__error *err);
/* Digest of change K of slab S, as it is now. */
static inline struct kedge__digest kedge__change_digest(const struct kedge__txn *t, const struct kedge__slab *s, size_t k)
{
	const struct kedge__hash_worker *w = &t->workers[s->worker];

	if (t->apart && k < s->apart_count)
		return w->apart.at[s->apart_at + k];
	return t->regions[s->region]->digests[s->first + (w->changes.at[s->change_at + k] >> 1)];
}

/* ---- record.c, build.c, remember.c */

/* How much each part of the record may take, for an image of so many bytes. */
void kedge__record_limits(struct kedge__reducer *r, uint64_t image_bytes);
/* Of CHANGES, so many were found in the log. True: it shall have more entries from now on, or fewer. */
bool kedge__record_judge_log(struct kedge__record *rec, uint64_t hits, uint64_t changes);
/* Regions that have no numbers get some. */
int kedge__record_number(struct kedge__reducer *r, struct kedge__error *err);
/* The chunk with NUMBER: its region, or NULL, and *INDEX there. */
struct kedge__last_region *kedge__record_chunk(const struct kedge__reducer *r, uint32_t number, uint64_t *index);
/* Is DIGEST that of chunk INDEX of G in the last version? */
bool kedge__last_is(const struct kedge__reducer *r, const struct kedge__last_region *g, uint64_t index,
		    struct kedge__digest digest);
/* The epoch since which chunk INDEX of G is what it is in the last version. */
uint32_t kedge__last_since(const struct kedge__reducer *r, const struct kedge__last_region *g, uint64_t index);
/* Of the entry of chunk INDEX of G, as the last version has it. */
static inline enum kedge__entry_kind kedge__last_kind(const struct kedge__last_region *g, uint64_t index)
{
	return g->ages[index] & KEDGE__AGE_ODD ? KEDGE__ENTRY_ODD : KEDGE__ENTRY_EVEN;
}

/* Of its entry in the version in progress, in which it has changed. */
static inline enum kedge__entry_kind kedge__next_kind(const struct kedge__last_region *g, uint64_t index)
{
	return g->ages[index] & KEDGE__AGE_ODD ? KEDGE__ENTRY_EVEN : KEDGE__ENTRY_ODD;
}

/* Bytes that are to be had at SRC of any version from one epoch to another. */
struct kedge__place {
	uint64_t src;
	uint32_t from, to;
};

struct kedge__place kedge__origin_place(const struct kedge__reducer *r, kedge__origin o);
/* The newest of these that may be referred to, or 0. */
uint32_t kedge__place_epoch(const struct kedge__reducer *r, const struct kedge__place *p);
/* What chunks get at commit that are new. */
uint8_t kedge__record_age(struct kedge__reducer *r);
/* Make a finder of what the last version and the log have, with room for CHANGES. */
int kedge__record_build(struct kedge__reducer *r, enum kedge__finder_state state, uint64_t changes,
			struct kedge__error *err);
/* Of a finder in memory of the host: see struct kedge__finder_ops. */
int kedge__build_here(struct kedge__reducer *r, struct kedge__error *err);
int kedge__find_here(struct kedge__reducer *r, bool sample, uint64_t candidates, uint64_t *hits, struct kedge__error *err);
bool kedge__prepare_here(struct kedge__reducer *r, uint64_t n);
void kedge__forget_here(struct kedge__reducer *r, uint64_t first, uint64_t n);
void kedge__leave_here(struct kedge__departure *d);
void kedge__adopt_here(struct kedge__reducer *r);
void kedge__take_out_here(struct kedge__reducer *r);

struct kedge__leaving { /* chunks of the last version that go */
	const struct kedge__last_region *region;
	const struct kedge__slab *slab; /* some of its changes; NULL: all of the chunks */
	uint64_t first;
	size_t count;
	uint64_t rank; /* of the first among all that leave */
	size_t probes; /* how many of them the finder may know */
};

struct kedge__departure {
	struct kedge__reducer *r;
	KEDGE__ARRAY(struct kedge__leaving) list;
	uint64_t total, skip; /* those that are not skipped, because they find no room, go to the log, */
	uint64_t slot;        /* the first of them here */
	struct kedge__batch *batch; /* NULL: there is no finder here that must follow */
	size_t begin, end; /* of the wave */
	uint64_t base;     /* rank of the first of the wave */
};

/* To the log, and new digests to their places. */
void kedge__departure_run(struct kedge__departure *d);
/* What the version in progress replaces goes to the log, and new digests to their places; or nothing happened. */
void kedge__record_commit(struct kedge__reducer *r);
void kedge__record_rollback(struct kedge__reducer *r);
/* The last version is no more; what it had in common with older ones is kept in the log. */
void kedge__record_retire(struct kedge__reducer *r);
/* The version in progress has nothing of the last one, whose digests make room: they go to the log, as far as that has room. */
void kedge__record_renew(struct kedge__reducer *r);
/* Columns lose their numbers. */
void kedge__record_detach(struct kedge__reducer *r);
void kedge__record_empty(struct kedge__reducer *r); /* all but epochs */
uint64_t kedge__record_memory(const struct kedge__record *rec); /* bytes */
void kedge__record_done(struct kedge__reducer *r);

/* rex: where the literal is that pattern NUMBER of this version is part of. */
uint64_t kedge__rex_position(const struct kedge__txn *t, uint64_t number, uint64_t chunk);

/* paranoid.c: are LEN bytes of REGION at OFFSET those at (epoch, src)? After the hash pass, on one thread. */
bool kedge__paranoid_equal(const struct kedge__reducer *r, size_t region, uint64_t offset, uint64_t len, uint32_t epoch,
			   uint64_t src);
/* Does change K of slab S have the bytes of O? */
bool kedge__origin_is_right(const struct kedge__reducer *r, const struct kedge__slab *s, size_t k, kedge__origin o);
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
	bool full;  /* each region is one literal */
	bool merge;  /* neighbouring results become one extent */
	bool pages;  /* a changed page of KEDGE__REX_PAGE bytes may become a single literal */
	bool waves; /* `run` gathers and emits the items of a few slabs at a time */
	bool apart; /* looks for duplicates in the last version, whose digests must stay until commit */
};

extern const struct kedge__reducer_ops kedge__full_ops, kedge__basic_ops, kedge__list_ops, kedge__tree_ops, kedge__rex_ops;
const struct kedge__reducer_ops *kedge__reducer_ops_of(const struct kedge__reducer *r);

enum kedge__reducer_id kedge__auto_choose(const struct kedge__reducer *r);
void kedge__auto_learn(struct kedge__reducer *r);

/* How a version is reduced. */
struct kedge__way {
	enum kedge__reducer_id used;
	enum kedge__stream stream; /* what is stored in any case is hashed as it is stored */
};

/* FOLLOWS: there is a last version to compare with. VIEW: of an image that can be read again, or NULL. */
struct kedge__way kedge__auto_way(const struct kedge__reducer *r, struct kedge__pool *pool, bool follows,
				  const struct kedge__image *image, const struct kedge__image_view *view,
				  const struct kedge__region_dirty *dirty);

/* rex_sample.c */
void kedge__sample_done(struct kedge__sample *s);
/* What the sampled pages are in IMAGE, where bytes may be requested again. */
void kedge__sample_look(struct kedge__reducer *r, const struct kedge__image *image, const struct kedge__reduce_how *how);
/* Where they may not: VIEW as seen through a glass that keeps those of sampled pages. */
struct kedge__sample_glass {
	struct kedge__sample *sample;
	const struct kedge__image *image;
	const struct kedge__image_view *under;
	struct kedge__image_view view;
};
void kedge__sample_glass_init(struct kedge__sample_glass *g, struct kedge__reducer *r, const struct kedge__image *image,
			      const struct kedge__image_view *view);
/* After a reduction, which IN_USE made: judge what was seen, and draw pages for the next version. */
void kedge__sample_end(struct kedge__reducer *r, const struct kedge__reducer *in_use, const struct kedge__image *image,
		       const struct kedge__reduce_how *how);
/* Pages from all over IMAGE, before it is primed. */
void kedge__sample_spread(struct kedge__reducer *r, const struct kedge__image *image);

/* rex_turn.c: auto in two forms: by chunks, and by patterns. */
static inline const struct kedge__reducer *kedge__reducer_in_use(const struct kedge__reducer *r)
{
	return r->other ? r->other : r;
}
/* It samples. */
bool kedge__rex_may_turn(const struct kedge__reducer *r);
/* The options of the other form for IMAGE; their chunk is 0 if it does not fit. */
struct kedge__reducer_options kedge__rex_options(const struct kedge__reducer *r, const struct kedge__image *image);
/* To the form that the sample speaks for, before VERSION is reduced. What goes wrong only leaves it as it is. */
void kedge__rex_turn(struct kedge__reducer *r, uint64_t version, const struct kedge__image *image);

/* reducer.c */
/* What is kept of an image of BYTES: digests, and sums with options.track. */
uint64_t kedge__last_bytes(const struct kedge__reducer_options *o, uint32_t chunk, uint64_t bytes);
void kedge__parent_forget(struct kedge__reducer *r); /* and all that is known of it but the record */
int kedge__txn_run(struct kedge__reducer *r, struct kedge__way way, struct kedge__pool *pool, uint64_t version,
		   const struct kedge__image *image, const struct kedge__reduce_how *how, struct kedge__reduction *out,
		   struct kedge__error *err);

#endif
