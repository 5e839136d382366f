/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * reduce: what really changed. Reducers turn an image into an extent map and the literals it
 * needs; maps of many versions are resolved into the literals that are still live.
 */
#ifndef KEDGE_REDUCE_REDUCE_H
#define KEDGE_REDUCE_REDUCE_H

#include "base/base.h"
#include "base/extent_tape.h"
#include "gpu/gpu.h"
#include "pipeline/pipeline.h"

/* ------------------------------------------------------------------ resolve.c
 * Map composition. A span says where the bytes of one range of the wanted version are kept. */

struct kedge__span {
	uint64_t addr, len; /* in the wanted version's image */
	uint64_t src;       /* literal position in `version`'s segment, or the fill pattern: the byte at address A is byte (A & 7) of it */
	uint64_t version;
	bool fill;
};

struct kedge__span_list {
	struct kedge__span *at;
	size_t count, room;
	uint64_t *scratch; /* of resolve, so that a list that is used again and again does not make it allocate each time */
	size_t scratch_room;
};

/* Where resolve gets maps from: *MAP stays valid until resolve returns; *PARENT is KEDGE__NO_VERSION for a base. */
struct kedge__map_source {
	int (*load)(void *ctx, uint64_t version, const struct kedge__extent_map **map, uint64_t *parent, struct kedge__error *err);
	void *ctx;
};

/*
 * Resolve RANGES (ascending, disjoint) of VERSION to literals and fills, newest version first, the maps of a version and
 * its parents in one sweep. STOP_BELOW: references to versions below it are not followed but returned in *OUTER (may be NULL if STOP_BELOW is 0) as
 * spans with `version` = that version and `src` = image address there; this is how a batch is coalesced. OUT, zero or a list whose
 * memory is used again, is ascending by addr, with neighbours that continue each other merged; on failure it is zero. A reference to
 * an unmapped place or to a version that is not older, and a copy of a copy within one version, are KEDGE_E_DAMAGED.
 */
int kedge__resolve(const struct kedge__map_source *source, uint64_t version, const struct kedge__range *ranges, size_t n,
		   uint64_t stop_below, struct kedge__span_list *out, struct kedge__span_list *outer, struct kedge__error *err);
void kedge__span_list_done(struct kedge__span_list *list);

/* ------------------------------------------------------------------ image.c */

struct kedge__image_region {
	uint64_t base;    /* slot * KEDGE__SLOT_BYTES */
	const void *data; /* host memory; stable while reduce and the write of its literals run */
	uint64_t bytes;
};

/* Identifies an image: a version may be replaced by another with the same number. */
struct kedge__image_key {
	uint64_t version;
	struct kedge__digest id; /* the store's image id of this rank's part */
};

/* The key of VERSION among N ascending keys, or NULL. */
static inline const struct kedge__image_key *kedge__image_key_find(const struct kedge__image_key *at, size_t n,
								   uint64_t version)
{
	size_t i;

	KEDGE__PARTITION_POINT(i, n, at[i].version < version);
	return i < n && at[i].version == version ? &at[i] : NULL;
}

struct kedge__image {
	const struct kedge__image_region *regions; /* ascending base */
	size_t count;
};

/* A piece of memory that must be stored, in the order of literal positions. */
struct kedge__literal {
	const void *data;
	uint64_t bytes;
	uint32_t region; /* index into the image */
	uint32_t class;  /* number of its class + 1; 0: it is packed with the others of its region */
};

struct kedge__literal_list {
	struct kedge__literal *at;
	size_t count, room;
};

/* Literals of several regions that belong together, and are packed as one. */
struct kedge__literal_class {
	char *name;
	enum kedge_type type;
	int ndims;
	uint64_t dims[KEDGE_MAX_DIMS]; /* slowest first; what most of it is made of */
	size_t pieces;                 /* that it has in this version */
};

struct kedge__literal_classes {
	struct kedge__literal_class *at;
	size_t count, room;
	/* How and why, for people and for the next version: as the segment has it (format.h, struct kedge__classes_record). */
	uint32_t scheme, reason, age;
	uint64_t block;
	double sizes[4];
};

/* Literals of a region that were packed where they are: blocks of them, which are stored as they are here. */
struct kedge__ready_block {
	const uint8_t *at;
	uint32_t region; /* index into the image */
	uint32_t raw, stored; /* bytes; if they are the same, it is not packed */
};

struct kedge__ready_blocks { /* by regions, in the order of literal positions */
	struct kedge__ready_block *at;
	size_t count, room;
};

/*
 * Literals that are not at the address in their list, or must not be read there. fill(): bytes of the literal space from
 * POSITION on into BUF, on worker WORKER of the pool; NULL: they are at those addresses. check() may be NULL. Otherwise every
 * stored byte passes through it once, as fill() gave it: KEDGE_E_STATE if it is not what was reduced. Pieces that begin
 * and end at multiples of `unit` in their region are checked fastest. end() gives the verdict on all of them. Calls may run concurrently, except end().
 */
struct kedge__literal_source {
	int (*fill)(void *ctx, int worker, uint64_t position, void *buf, size_t len, struct kedge__error *err);
	int (*check)(void *ctx, uint64_t position, const void *buf, size_t len, struct kedge__error *err);
	int (*end)(void *ctx, struct kedge__error *err);
	uint32_t unit; /* 0: any */
	void *ctx;
};

/* ------------------------------------------------------------------ reducer.c and full.c, basic.c, list.c, tree.c, rex.c, auto.c */

enum kedge__reducer_id { /* stable on disk */
	KEDGE__REDUCER_FULL = 0,
	KEDGE__REDUCER_BASIC = 1,
	KEDGE__REDUCER_LIST = 2,
	KEDGE__REDUCER_TREE = 3,
	KEDGE__REDUCER_AUTO = 4, /* never on disk */
	KEDGE__REDUCER_MERGED = 5, /* on disk only: written by coalescing */
	KEDGE__REDUCER_REX = 6,
};

const char *kedge__reducer_name(enum kedge__reducer_id id); /* NULL if unknown */
int kedge__reducer_parse(const char *name, enum kedge__reducer_id *id);
/* Whether versions before the last one are of use to it. */
bool kedge__reducer_remembers(enum kedge__reducer_id id);

struct kedge__reducer_options {
	enum kedge__reducer_id id;
	uint32_t chunk;         /* 16 .. 65536, a power of two; for rex, the size of its patterns, at most 256 */
	uint32_t pattern;       /* auto: of rex, which it may choose, too, if it can fetch() the last version; 0: it does not */
	/*
	 * Memory limit for what is kept between versions: digests and sums of the last one, which a chunk size of
	 * kedge__reducer_fit() keeps to a quarter, and the hash record (record.h); and for lists of changes while a version is
	 * reduced. The log of replaced digests gets what the others may leave, and drops its oldest entries when it is full.
	 * Losing an entry loses a chance to save space, never data. Work space, up to KEDGE__WORK_BYTES, and the extent map,
	 * which is the result, come on top. A paranoid reducer also has a copy of the last version.
	 */
	uint64_t record_bytes;
	bool paranoid;          /* never trust a digest: compare bytes (keeps a shadow copy of the last version) */
	/* Reads of older versions: LEN bytes at ADDR of VERSION into BUF, one thread at a time. Of paranoid ones, and NULL: such
	 * duplicates are not used; and of auto, when it goes over to patterns or back to chunks. */
	int (*fetch)(void *ctx, uint64_t version, uint64_t addr, void *buf, size_t len, struct kedge__error *err);
	void *fetch_ctx;
	bool track;             /* keep what a reduction needs with dirty ranges, or to look at memory where() it is: 16 bytes per 4 KiB; not with paranoid */
	const uint8_t *seed;    /* of the digests, KEDGE__DIGEST_SEED_BYTES, read only by kedge__reducer_new(); NULL: drawn */
	uint64_t digest_mask;   /* tests weaken the digest with it to provoke collisions; 0: all bits count */
};

#define KEDGE__WORK_BYTES (UINT64_C(32) << 20)

/* The smallest chunk size, from that of OPTIONS up, for which images of BYTES bytes stay within the memory limit; 0: none. */
uint32_t kedge__reducer_fit(const struct kedge__reducer_options *options, uint64_t bytes);

/* What a reducer remembers between versions: digests of the last version's chunks, and the hash record. */
struct kedge__reducer;

int kedge__reducer_new(const struct kedge__reducer_options *options, struct kedge__reducer **out, struct kedge__error *err);
void kedge__reducer_free(struct kedge__reducer *r);
/* Those in use: auto has the options of rex while it reduces by patterns. */
const struct kedge__reducer_options *kedge__reducer_options_of(const struct kedge__reducer *r);
/* The version that PARENT extents of the next reduction will refer to; KEDGE__NO_VERSION: it is self-contained. */
uint64_t kedge__reducer_parent(const struct kedge__reducer *r);

struct kedge__reduction {
	enum kedge__reducer_id reducer;      /* the one that was used (auto resolved) */
	uint32_t chunk;                      /* 0 for full */
	uint64_t version, parent;            /* parent: KEDGE__NO_VERSION if none is referred to by PARENT extents */
	struct kedge__extent_tape map;
	struct kedge__literal_list literals; /* adjacent pieces of memory are one literal */
	struct kedge__ready_blocks ready;    /* literals of their regions have no address */
	struct kedge__literal_classes classes; /* that literals were arranged by; none: they are in the order of the image */
	struct kedge__digest *region_digests; /* one per region of the image; see kedge__reducer_checked() */
	uint64_t *sources;                   /* versions that PARENT and COPY extents refer to, ascending, without itself */
	size_t source_count;
	uint64_t raw_bytes, literal_bytes, changed_bytes, duplicate_bytes, fill_bytes;
	double hash_seconds, reduce_seconds; /* hash pass; all of it */
};

/*
 * Which bytes may have changed: the caller vouches that those outside the ranges are the same as in the version that
 * kedge__reducer_parent() returns, and they are not read. Ranges are ascending and disjoint, offsets from the region's
 * start. If this cannot be used (a region that is new or has another size, no parent, after a rollback or a load), the
 * region is read in full. The result is the same as without.
 *
 * With `same`, all of the region is what the parent has, whose region digest this is. Nothing need be known of it: it is not read
 * while the parent is there and has as many bytes, except by paranoid reducers, and what is equal to it elsewhere is not found.
 */
struct kedge__region_dirty {
	bool known; /* false: anything may have changed */
	const struct kedge__range *at;
	size_t count;
	const struct kedge__digest *same; /* the caller's, while reduce runs; `known` is set, too, and there are no ranges */
};
/*
 * The bytes of an image while the application may be writing to its memory. get() gives BYTES bytes of REGION at OFFSET:
 * put into BUFFER, or a place where they stay until the literals are written; NULL: they are not available. Every byte is
 * requested at most once, except that a paranoid reducer returns to bytes, as worker 0, after all were read. keep() follows,
 * before the same worker's next get(), for those bytes that may become literals, at DATA of what get() gave; with ALL, all
 * of them will, and it is not called. False: out of memory.
 *
 * peek() gives bytes, like get() of worker 0, before they are requested, and any number of times; NULL: get() does that.
 * STAYS: nobody can change any of it until the literals are written, where what was not requested is seen for the first
 * time.
 *
 * keep() is NULL if literals are read a second time and then checked (kedge__reducer_check()): get() is called for pieces
 * that stay in the first-level cache, so that copying them costs little, or not at all for what is stored in any case.
 *
 * where() says where the bytes are while they may be changing, or NULL. A look there counts only if it finds, by digests and by
 * the sum, what the last version has; otherwise get() follows. It is NULL where that would save nothing.
 *
 * expect() says what will probably be requested next; NULL: nobody wants to know.
 */
struct kedge__image_view {
	const void *(*get)(void *ctx, int worker, size_t region, uint64_t offset, void *buffer, size_t bytes, bool all);
	bool (*keep)(void *ctx, int worker, size_t region, uint64_t offset, const void *data, size_t bytes);
	const void *(*peek)(void *ctx, size_t region, uint64_t offset, void *buffer, size_t bytes);
	void *ctx;
	bool stays;
	const void *(*where)(void *ctx, size_t region, uint64_t offset, size_t bytes);
	void (*expect)(void *ctx, size_t region, uint64_t offset, size_t bytes);
};

/* An image that is on a GPU. room() gives pinned memory of the host for at least BYTES bytes of literals, *HAVE of them, until the version
 * is stored; when it is asked for more than that, what was there is lost. */
struct kedge__reduce_device {
	struct kedge__gpu *gpu;
	int (*room)(void *ctx, uint64_t bytes, void **out, uint64_t *have, struct kedge__error *err);
	void *ctx;
	const struct kedge__gpu_how *hows; /* of each region: how its literals are packed there, if there is room for it; NULL: not at all */
	uint32_t block;                    /* bytes of a block then, at most, as the segment has them */
};

/* Optional information about an image; 0 means unknown. */
struct kedge__reduce_how {
	const struct kedge__reduce_device *device; /* `data` of regions are addresses there, and literals are fetched; for reducers that
						    * can work there (kedge__reducer_on_device()); without view and dirty */
	const struct kedge__image_view *view;    /* what the image is seen through, and `data` of regions and literals only says
						  * where they belong; NULL: nobody writes to its memory */
	const struct kedge__region_dirty *dirty; /* one per region */
	bool full;                               /* every region becomes one literal, and nothing is remembered but the version's
						  * number: hardly any memory is needed, whichever reducer it is */
	bool primes;                             /* prime.c's: regions with `same` are not read, whatever is known of them */
	void (*progress)(void *ctx, uint64_t bytes); /* gets bytes hashed so far, from any worker */
	void *progress_ctx;
};

/* Whether an image on a GPU can be reduced there. The result is the same as that of its bytes in memory of the host. */
bool kedge__reducer_on_device(const struct kedge__reducer *r);
/* What it has there is given up; it can be made again. */
void kedge__reducer_leave_device(struct kedge__reducer *r);

/*
 * Reduce IMAGE as VERSION against what the reducer knows. HOW may be NULL. The result is the same for any number of threads.
 * Until kedge__reducer_commit() or _rollback() the reducer accepts nothing else; after a rollback the next version finds
 * what it would have found without, though of equal chunks perhaps another one; but if a large version was new, by a sample,
 * the last one is forgotten.
 */
int kedge__reducer_reduce(struct kedge__reducer *r, struct kedge__pool *pool, uint64_t version, const struct kedge__image *image,
			  const struct kedge__reduce_how *how, struct kedge__reduction *out, struct kedge__error *err);
/* The same in two parts, for an image on a device: after the first, its literals are on the host, and it may change. */
int kedge__reducer_begin(struct kedge__reducer *r, struct kedge__pool *pool, uint64_t version, const struct kedge__image *image,
			 const struct kedge__reduce_device *device, struct kedge__error *err);
uint64_t kedge__reducer_fetched(const struct kedge__reducer *r); /* how much room they took */
bool kedge__reducer_packed(const struct kedge__reducer *r);      /* some of them were packed there */
int kedge__reducer_finish(struct kedge__reducer *r, struct kedge__reduction *out, struct kedge__error *err);
/* Dirty ranges are rounded to pieces of this size, from the region's start. */
uint64_t kedge__reducer_grain(const struct kedge__reducer *r);
/* Whether the next reduction, as VERSION, will use dirty ranges for the region at BASE, if it has BYTES bytes. */
bool kedge__reducer_narrows(const struct kedge__reducer *r, uint64_t version, uint64_t base, uint64_t bytes);
/*
 * Is memory outside DIRTY really unchanged? Checks every SHARE-th grain, from the TURN-th on, of regions for which the next
 * reduction would use dirty ranges: a change of SHARE grains in a row is found at once, and any change within SHARE turns.
 * Bytes are read at `data`. False: the grain at *OFFSET of *REGION changed.
 */
bool kedge__reducer_audit(const struct kedge__reducer *r, struct kedge__pool *pool, uint64_t version,
			  const struct kedge__image *image, const struct kedge__region_dirty *dirty, uint64_t share,
			  uint64_t turn, size_t *region, uint64_t *offset);
/*
 * How much of the region at BASE, which has BYTES bytes at DATA now, is not as it was in the last version: from 0 to 1, in
 * grains, by a sample that is another one with each TURN. Negative: nothing is known of it, or it had another size.
 */
double kedge__reducer_changed(const struct kedge__reducer *r, uint64_t base, const void *data, uint64_t bytes, uint64_t turn);
/*
 * Of the reduction in progress, from any thread: is DATA, a copy of BYTES bytes that are literals at OFFSET of region REGION
 * of the image, what was reduced? What was not read before is hashed here, so every literal must pass through once; after
 * checked() the reduction's region digests are those of what passed, and not before. Parts of a unit are kept until the others
 * have passed (seam.c). 0, KEDGE_E_STATE if it is not, or KEDGE_E_NOMEM; checked() is false if a part never came.
 */
uint32_t kedge__reducer_unit(const struct kedge__reducer *r);
bool kedge__reducer_streams(const struct kedge__reducer *r); /* literals must pass through check(), held or not */
int kedge__reducer_check(struct kedge__reducer *r, size_t region, uint64_t offset, const void *data, uint64_t bytes);
bool kedge__reducer_checked(struct kedge__reducer *r);
void kedge__reduction_done(struct kedge__reduction *red);

/* ------------------------------------------------------------------ arrange.c */

/* A part of the literals, from position on; in a class, pieces are ordered by `major`, then `minor`. */
struct kedge__arrange_piece {
	uint64_t position, bytes;
	const void *data; /* as a literal has it */
	uint32_t region, class;
	uint64_t major, minor;
	uint64_t to; /* result: its new position */
};

int kedge__arrange_order(const void *a, const void *b); /* of pointers to pieces, for qsort() */
/* Put the literals of RED into another order: first those without a class, as they are, then by classes. The N pieces at AT, in the
 * order of positions, are all of them. */
int kedge__reduction_arrange(struct kedge__reduction *red, struct kedge__arrange_piece *at, size_t n, struct kedge__error *err);
void kedge__reducer_commit(struct kedge__reducer *r);
void kedge__reducer_rollback(struct kedge__reducer *r);

/*
 * Bring a new reducer up to date from stored data. prime_view: these bytes, seen through VIEW unless it is NULL, are
 * VERSION, the one that the next reduction's parent will be (a hash pass; nothing is looked up); the regions must
 * have these DIGESTS, unless they are NULL (KEDGE_E_DAMAGED), but for those of which SAME, if it is not NULL, says that they will be the
 * same in the next version: they are not read. prime_literals: BYTES bytes at image address
 * ADDR of VERSION are literals there (only full chunks at multiples of the chunk size are used); for older versions, oldest first,
 * before prime_view.
 */
int kedge__reducer_prime_literals(struct kedge__reducer *r, uint64_t version, uint64_t addr, const void *data, uint64_t bytes, struct kedge__error *err);
int kedge__reducer_prime_view(struct kedge__reducer *r, struct kedge__pool *pool, uint64_t version, const struct kedge__image *image,
			      const struct kedge__image_view *view, const struct kedge__digest *digests,
			      const struct kedge__region_dirty *same, struct kedge__error *err);
/* The version last committed or primed under this number is this image. Until then its id is zero. */
void kedge__reducer_identify(struct kedge__reducer *r, struct kedge__image_key image);
/* Forget duplicates in images that are not in ALIVE (ascending): they were removed from the store, or replaced. If the
 * parent is not alive, the next version is self-contained. */
void kedge__reducer_retain(struct kedge__reducer *r, const struct kedge__image_key *alive, size_t n);
uint64_t kedge__reducer_memory(const struct kedge__reducer *r); /* bytes for what it remembers between versions */
/* Forget everything. */
void kedge__reducer_reset(struct kedge__reducer *r);

#endif
