/*
 * reduce: what really changed. Reducers turn an image into an extent map and the literals it
 * needs; maps of many versions are resolved into the literals that are still alive.
 */
#ifndef KEDGE_REDUCE_REDUCE_H
#define KEDGE_REDUCE_REDUCE_H

#include "base/base.h"
#include "base/extent_map.h"
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
};

/* Where resolve gets maps from: *MAP stays valid until resolve returns; *PARENT is KEDGE__NO_VERSION for a base. */
struct kedge__map_source {
	int (*load)(void *ctx, uint64_t version, const struct kedge__extent_map **map, uint64_t *parent, struct kedge__error *err);
	void *ctx;
};

/*
 * Resolve RANGES (ascending, disjoint) of VERSION to literals and fills, newest version first, the maps of a version and
 * its parents in one sweep. STOP_BELOW: references to versions below it are not followed but come back as spans with
 * `version` = that version and `src` = image address there, in *OUTER (may be NULL if STOP_BELOW is 0); it is how a
 * batch is coalesced. OUT is ascending by addr; neighbours that continue each other are one span. A reference to a place that is not mapped, to a
 * version that is not older, or a copy of a copy within one version is KEDGE_E_DAMAGED.
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

/* Which image it is: a version may be replaced by another of the same number. */
struct kedge__image_key {
	uint64_t version;
	struct kedge__digest id; /* the store's image id of this rank's part */
};

/* Of N keys, ascending, that of VERSION, or NULL. */
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
};

struct kedge__literal_list {
	struct kedge__literal *at;
	size_t count, room;
};

/*
 * Literals that are not where their list says, or not to be looked at there. fill(): bytes of the literal space from
 * POSITION on into BUF, on worker WORKER of the pool, several at once. check() is NULL where they cannot change any more.
 * Else every byte that is stored goes to it once, as fill() gave it: KEDGE_E_STATE if it is not what was reduced. Stretches
 * that are checked begin where a literal does, or at a multiple of `unit` of it, and end so; all literals but the last of a
 * region are multiples of it. end() is the verdict on all of them. Several at once, but for end().
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
/* Versions before the last one are of use to it. */
bool kedge__reducer_remembers(enum kedge__reducer_id id);

struct kedge__reducer_options {
	enum kedge__reducer_id id;
	uint32_t chunk;         /* 16 .. 65536, a power of two; of rex, the size of its patterns, at most 256 */
	/*
	 * Memory limit of what is kept between versions: digests and sums of the last one, which a chunk of
	 * kedge__reducer_fit() keeps to a quarter, and the hash record, which has the rest. The record has a current and a
	 * previous generation of half its limit each. When the current one is full, later entries of that version are left
	 * out; at its commit the previous generation is dropped, the current one becomes the previous one, and what was hit
	 * in the dropped one is entered again. So what is still seen stays, what is not seen for two generations goes. Losing
	 * an entry loses a chance to save space, never data. (record.h)
	 * While a version is reduced, lists of what changed take as much again at most, and KEDGE__WORK_BYTES. A paranoid
	 * reducer has a copy of the last version besides.
	 */
	uint64_t record_bytes;
	bool paranoid;          /* never trust a digest: compare bytes (keeps a shadow copy of the last version) */
	/* Paranoid reads of older versions: LEN bytes at ADDR of VERSION into BUF. NULL: such duplicates are not used. */
	int (*fetch)(void *ctx, uint64_t version, uint64_t addr, void *buf, size_t len, struct kedge__error *err);
	void *fetch_ctx;
	bool track;             /* keep what a reduction with dirty ranges needs: 16 bytes for each 4 KiB; not with paranoid */
	const uint8_t *seed;    /* of the digests, KEDGE__DIGEST_SEED_BYTES, read while the reducer is made; NULL: drawn */
	uint64_t digest_mask;   /* tests weaken the digest with it to provoke collisions; 0: all bits count */
};

#define KEDGE__WORK_BYTES (UINT64_C(32) << 20)

/* The smallest chunk, from that of OPTIONS on, with which images of BYTES bytes keep to the memory limit; 0: none does. */
uint32_t kedge__reducer_fit(const struct kedge__reducer_options *options, uint64_t bytes);

/* What a reducer remembers between versions: digests of the last version's chunks, and the hash record. */
struct kedge__reducer;

int kedge__reducer_new(const struct kedge__reducer_options *options, struct kedge__reducer **out, struct kedge__error *err);
void kedge__reducer_free(struct kedge__reducer *r);
const struct kedge__reducer_options *kedge__reducer_options_of(const struct kedge__reducer *r);
/* The version that PARENT extents of the next reduction will refer to; KEDGE__NO_VERSION: it stands alone. */
uint64_t kedge__reducer_parent(const struct kedge__reducer *r);

struct kedge__reduction {
	enum kedge__reducer_id reducer;      /* what was really used (auto resolved) */
	uint32_t chunk;                      /* 0 for full */
	uint64_t version, parent;            /* parent: KEDGE__NO_VERSION if none is referred to by PARENT extents */
	struct kedge__extent_map map;
	struct kedge__literal_list literals; /* adjacent pieces of memory are one literal */
	struct kedge__digest *region_digests; /* one a region of the image */
	uint64_t *sources;                   /* versions that PARENT and COPY extents refer to, ascending, without itself */
	size_t source_count;
	uint64_t raw_bytes, literal_bytes, changed_bytes, duplicate_bytes, fill_bytes;
	double hash_seconds, reduce_seconds; /* hash pass; all of it */
};

/*
 * Where somebody knows which bytes may have changed: those outside the ranges are, on the caller's word, the same as in
 * the version that kedge__reducer_parent() tells, and are not looked at. Ranges are ascending and disjoint, offsets from
 * the region's start. What cannot be narrowed down (a region that is new or has another size, no parent, after a rollback
 * or a load) is looked at as a whole. The result is the same as without.
 */
struct kedge__region_dirty {
	bool known; /* false: anything may have changed */
	const struct kedge__range *at;
	size_t count;
};
/*
 * The bytes of an image while the application may be writing to its memory. get() gives BYTES bytes of REGION at OFFSET:
 * put into BUFFER, or where they stay until the literals are written; NULL: they cannot be had. Every stretch is asked for
 * at most once; but a paranoid reducer comes back, as worker 0, when all were. keep() follows, before the same worker's
 * next get(), for those of them that may become literals, at DATA of what get() gave; with ALL, they all will, and it is
 * not called. False: out of memory.
 *
 * keep() is NULL where literals are read a second time, and then checked (kedge__reducer_check()): get() is asked for
 * pieces that stay in the first-level cache, so that a copy of them costs little, and with ALL may give memory that changes.
 */
struct kedge__image_view {
	const void *(*get)(void *ctx, int worker, size_t region, uint64_t offset, void *buffer, size_t bytes, bool all);
	bool (*keep)(void *ctx, int worker, size_t region, uint64_t offset, const void *data, size_t bytes);
	void *ctx;
};

/* What a reduction may be told beside its image; nothing of it is known where it is 0. */
struct kedge__reduce_how {
	const struct kedge__image_view *view;    /* what the image is seen through, and `data` of regions and literals only says
						  * where they belong; NULL: nobody writes to its memory */
	const struct kedge__region_dirty *dirty; /* one per region */
	bool full;                               /* every region becomes one literal, and nothing is remembered but the version's
						  * number: hardly any memory is needed, whichever reducer it is */
	void (*progress)(void *ctx, uint64_t bytes); /* gets bytes hashed so far, from any worker */
	void *progress_ctx;
};

/*
 * Reduce IMAGE as VERSION against what the reducer knows. HOW may be NULL. The result is the same for any number of threads.
 * Until kedge__reducer_commit() or _rollback() the reducer accepts nothing else; rollback takes it back to the state before.
 */
int kedge__reducer_reduce(struct kedge__reducer *r, struct kedge__pool *pool, uint64_t version, const struct kedge__image *image,
			  const struct kedge__reduce_how *how, struct kedge__reduction *out, struct kedge__error *err);
/* Dirty ranges are looked at in such pieces, from the region's start. */
uint64_t kedge__reducer_grain(const struct kedge__reducer *r);
/* Whether the next reduction, as VERSION, will take the caller's word for the region at BASE, if it has BYTES bytes. */
bool kedge__reducer_narrows(const struct kedge__reducer *r, uint64_t version, uint64_t base, uint64_t bytes);
/*
 * Is what the caller calls unchanged so? Every SHARE-th grain outside DIRTY, from the TURN-th on, of regions that the next
 * reduction would take the caller's word for: so a change of SHARE grains in a row is found at once, and any in SHARE
 * turns. Bytes are read at `data`. False: the one at *OFFSET of *REGION is not.
 */
bool kedge__reducer_audit(const struct kedge__reducer *r, struct kedge__pool *pool, uint64_t version,
			  const struct kedge__image *image, const struct kedge__region_dirty *dirty, uint64_t share,
			  uint64_t turn, size_t *region, uint64_t *offset);
/*
 * Of the reduction in progress, from any thread: is DATA, a copy of BYTES bytes that are literals at OFFSET of region REGION
 * of the image, what was reduced? OFFSET and, but for the region's end, BYTES are multiples of the unit. A reducer
 * without digests only adds up here, so every literal must come by once; checked() says whether all were right, and if not
 * which *REGION was not.
 */
uint32_t kedge__reducer_unit(const struct kedge__reducer *r);
bool kedge__reducer_check(struct kedge__reducer *r, size_t region, uint64_t offset, const void *data, uint64_t bytes);
bool kedge__reducer_checked(const struct kedge__reducer *r, size_t *region);
void kedge__reduction_done(struct kedge__reduction *red);
void kedge__reducer_commit(struct kedge__reducer *r);
void kedge__reducer_rollback(struct kedge__reducer *r);

/*
 * Bring a new reducer up to date from stored data. prime_view: these bytes, seen through VIEW unless it is NULL, are
 * VERSION, the one that the next reduction's parent will be (hashes them; all chunks enter the record); the regions must
 * have these DIGESTS, unless they are NULL (KEDGE_E_DAMAGED). prime_literals: BYTES bytes at image address
 * ADDR of VERSION are literals there (only whole chunks at multiples of the chunk size are used); for older versions, oldest first,
 * before prime_view.
 */
int kedge__reducer_prime_literals(struct kedge__reducer *r, uint64_t version, uint64_t addr, const void *data, uint64_t bytes, struct kedge__error *err);
int kedge__reducer_prime_view(struct kedge__reducer *r, struct kedge__pool *pool, uint64_t version, const struct kedge__image *image,
			      const struct kedge__image_view *view, const struct kedge__digest *digests, struct kedge__error *err);
/* The version that was committed or primed last under this number is this image. One that is not identified has an id of
 * zeros. */
void kedge__reducer_identify(struct kedge__reducer *r, struct kedge__image_key image);
/* Forget duplicates in images that are not in ALIVE (ascending): they were removed from the store, or replaced. If the
 * parent is not alive, the next version is self-contained. */
void kedge__reducer_retain(struct kedge__reducer *r, const struct kedge__image_key *alive, size_t n);
/* Does it refer to a version of which HAVE (ascending) has another image? Those that HAVE lacks do not matter. */
bool kedge__reducer_contradicts(const struct kedge__reducer *r, const struct kedge__image_key *have, size_t n);
/* Start again from nothing. */
void kedge__reducer_reset(struct kedge__reducer *r);

/* The record kept beside the store (optional, for speed): a byte string that save makes and load takes back. Load refuses, with KEDGE_E_MISMATCH, a record made with other options. */
int kedge__reducer_save(const struct kedge__reducer *r, int (*write)(void *ctx, const void *data, size_t bytes, struct kedge__error *err), void *ctx, struct kedge__error *err);
uint64_t kedge__reducer_save_bytes(const struct kedge__reducer *r); /* what save would write */
int kedge__reducer_load(struct kedge__reducer *r, const void *data, size_t bytes, struct kedge__error *err);

#endif
