/* Between the files of store/; nobody else includes it. */
#ifndef KEDGE_STORE_INTERNAL_H
#define KEDGE_STORE_INTERNAL_H

#include "store/store.h"

#include <inttypes.h>
#include <pthread.h>
#include <sys/types.h>

#define KEDGE__LOCK_NAME        "lock"
#define KEDGE__GUARD_NAME       "guard"
#define KEDGE__RECORD_START     "record" /* what the job keeps beside the sets */
#define KEDGE__FILES_NAME       "files"  /* where applications write files of their own: src/job/file.c */
#define KEDGE__TIE_NAME         "l2"     /* which L2 belongs to this L1 */
#define KEDGE__INDEX_NAME       "index"  /* what the manifests say, to be read at once: index.c */
#define KEDGE__TMP_SUFFIX       ".tmp"
#define KEDGE__NO_MANIFEST_SIZE (UINT64_C(1) << 30) /* larger is not a manifest */

/* ------------------------------------------------------------------ catalog.c */

struct kedge__entry_list {
	struct kedge__catalog_entry **at;
	size_t count, room;
};

struct kedge__version_list {
	uint64_t *at;
	size_t count, room;
};

struct kedge__index { /* the log as far as this catalogue has followed it: index.c */
	int fd;            /* -1: there was none */
	bool writable;
	uint64_t dev, ino; /* of FD */
	uint64_t offset;   /* what comes from here on is news; at least 8 */
	uint8_t chain[8];  /* the bytes before it */
	uint64_t limit;    /* above this size it is time to write it again */
	struct kedge__version_list pending; /* whose manifests may change at any moment, or have */
};

struct kedge__catalog {
	char *given;         /* the store's directory as the caller wrote it, for messages */
	char *store, *name;  /* the same, unless it is only read, from the root on: the program may go elsewhere */
	char *dir;           /* STORE/NAME */
	int store_fd, dir_fd; /* both directories, held: whatever comes to stand at these paths can be told from them */
	struct kedge__store_id id;
	struct kedge__error marker_problem;
	struct kedge__entry_list entries; /* ascending; each stays in place until it is replaced */
	uint64_t changes;                 /* of the entries, so far */
	size_t problems;                  /* entries that have one, */
	uint64_t digest;                  /* and the sum of all others: kedge__catalog_digest() */
	const struct kedge__set *head;    /* kedge__history_head() of this one, if HEAD_KNOWN */
	bool head_known;
	bool read_only;                   /* opened with KEDGE__CATALOG_READ: no index is made */
	char *index_path, *index_tmp;
	struct kedge__index index;
	uint64_t manifests_read;
	struct kedge__bucket *bucket;     /* that paces reads; NULL: nothing does, */
	uint64_t unpaced;                 /* and so many bytes were read so far */
	bool unsynced;                    /* what is published need not be durable */

	pthread_mutex_t mutex; /* over what follows */
	pthread_cond_t calm;   /* the last pin or the seizure is gone */
	int guard_fd;          /* -1: not held, or the store is read-only and has no guard */
	size_t pins;
	bool seized;
	pthread_t seizer;

	bool take_over; /* the user says that an owner of whom nothing is known has ended */
	char *owner;    /* as which it was owned, and is to be; NULL: not at all */
	int lock_fd;    /* -1: the name is not owned */
	pid_t lock_pid; /* who owns it: a forked child must not disown */
};

char *kedge__catalog_path(const struct kedge__catalog *cat, const char *leaf); /* STORE/NAME/LEAF */
char *kedge__catalog_set_path(const struct kedge__catalog *cat, uint64_t version);
char *kedge__catalog_version_path(const struct kedge__catalog *cat, uint64_t version);
/* What is on disk now, leaving the catalogue alone: 1 and *SET filled, 0 if there is no manifest, or an error. */
int kedge__catalog_read_set(struct kedge__catalog *cat, uint64_t version, struct kedge__set *set,
			    struct kedge__error *err);
void kedge__catalog_count_read(struct kedge__catalog *cat, uint64_t bytes); /* of its files, a segment's excepted */
size_t kedge__catalog_index(const struct kedge__catalog *cat, uint64_t version); /* of the first entry that is not below VERSION */

/* ------------------------------------------------------------------ scan.c: entries that are current */

void kedge__entries_free(struct kedge__entry_list *entries);
void kedge__catalog_forget(struct kedge__catalog *cat, uint64_t version);
/* The manifest of VERSION was just put in place with these contents: the entry, and what is to be noted of it. */
int kedge__catalog_put(struct kedge__catalog *cat, uint64_t version, const struct kedge__bytes *text, bool unswept,
		       struct kedge__index_record *note, struct kedge__error *err);
/* The same as kedge__catalog_rescan() and kedge__catalog_refresh(), but manifests are read, whatever stat() says of them. */
int kedge__catalog_reread(struct kedge__catalog *cat, struct kedge__error *err);
int kedge__catalog_reread_one(struct kedge__catalog *cat, uint64_t version, struct kedge__error *err);
/* Take notice of a record of the index. */
int kedge__catalog_apply(struct kedge__catalog *cat, const struct kedge__index_record *r, struct kedge__error *err);

/* ------------------------------------------------------------------ history.c */

void kedge__history_note(struct kedge__catalog *cat, const struct kedge__catalog_entry *entry); /* it is new */

/* ------------------------------------------------------------------ index.c */

struct kedge__index_hint { /* the last that the log says of a version */
	struct kedge__index_record record;
	bool gone; /* it was removed */
	size_t bytes; /* of the record */
};

struct kedge__index_view { /* a log that was read */
	uint8_t *data;
	size_t bytes;
	struct kedge__index_hint *at; /* ascending versions */
	size_t count, room;
	struct kedge__version_list pending;
	size_t dead; /* bytes that say nothing any more */
	bool sound;  /* all of it could be read */
	int locked;  /* the log that is going to be replaced, or filled; -1 */
	int fresh;   /* the file that is going to replace it; -1: it is filled */
};

struct kedge__index_record_list {
	struct kedge__index_record *at;
	size_t count, room;
};

void kedge__index_close(struct kedge__index *x);
/* Apply what others appended since. *LOST: the log is another one or cannot be followed: what it says is not enough. */
int kedge__index_follow(struct kedge__catalog *cat, bool *lost, struct kedge__error *err);
/* Before the directory is read: what is in the log, unless the catalogue has followed it (ALL: even so). *REBUILD: after reading the
 * directory, all records are to be given to kedge__index_finish(); else, those that the log does not have. Nothing of this fails. */
void kedge__index_begin(struct kedge__catalog *cat, bool all, struct kedge__index_view *view, bool *rebuild);
const struct kedge__index_hint *kedge__index_find(const struct kedge__index_view *view, uint64_t version); /* NULL */
void kedge__index_finish(struct kedge__catalog *cat, struct kedge__index_view *view,
			 const struct kedge__index_record_list *records, bool rebuild);
void kedge__index_drop(const struct kedge__catalog *cat, struct kedge__index_view *view); /* instead of finish(), on failure */
/* Append what this catalogue just did, or (CHANGING) is about to do. If that fails, there is no index any more. */
void kedge__index_note(struct kedge__catalog *cat, const struct kedge__index_record *r);

/* Set MARKS[i], one byte an entry, for VERSION and all entries that it depends on, by the manifests. TOLERANT: what is
 * missing or broken on the way is passed over. */
int kedge__catalog_mark(const struct kedge__catalog *cat, uint64_t version, bool tolerant, uint8_t *marks,
			struct kedge__error *err);

/* ------------------------------------------------------------------ small_file.c */

/* A whole small file, of at most LIMIT bytes. FD is the file if it is open already, and closed; else -1. *DATA:
 * kedge__free(). */
int kedge__file_read(const char *path, int fd, uint64_t limit, uint8_t **data, size_t *bytes, struct kedge__error *err);
/* kedge__fs_create() for a temporary name, where an old file can only be what a crash left. */
int kedge__file_create_tmp(const char *tmp, int *fd, struct kedge__error *err);
/* Temporary name, write, rename; with SYNC, both the file and DIR are synced. *RENAMED tells, also on failure, whether PATH
 * was replaced. */
int kedge__file_replace(const char *dir, const char *path, const void *data, size_t bytes, bool sync, bool *renamed,
			struct kedge__error *err);
bool kedge__name_is_tmp(const char *name);
bool kedge__name_is_leftover(const char *name); /* in STORE/NAME: a temporary name that store or job gives, lock.tmp excepted */
bool kedge__name_is_ours(const char *name);     /* in STORE/NAME: any name that store or job gives */
bool kedge__segment_is_leftover(const char *name); /* in the directory of a version */
bool kedge__file_is_at(int fd, const char *path); /* PATH still names the open file FD */

/* ------------------------------------------------------------------ marker.c */

/* A damaged marker is noted in the catalogue, and an id found that serves as well. */
int kedge__marker_open(struct kedge__catalog *cat, enum kedge__catalog_mode mode, struct kedge__error *err);
int kedge__marker_read(const char *path, struct kedge__store_id *id, size_t *bytes, struct kedge__error *err);
int kedge__marker_check(const struct kedge__catalog *cat, struct kedge__error *err);
/* The marker of the catalogue's id, made again if it is gone. KEDGE_E_STATE: another store's is there. */
int kedge__marker_renew(struct kedge__catalog *cat, struct kedge__error *err);
bool kedge__marker_is_there(const struct kedge__catalog *cat);

/* ------------------------------------------------------------------ sight.c */

bool kedge__probe_is_ours(const struct kedge__catalog *cat, const char *name); /* NAME is a probe, whoever wrote it */

/* ------------------------------------------------------------------ ranks.c */

struct kedge__rank_list {
	uint8_t *here; /* one per rank */
	size_t room;
	uint32_t ranks, found; /* those that manifests name, and how many of them were met */
};

int kedge__rank_list_init(struct kedge__rank_list *list, const struct kedge__catalog *cat, struct kedge__error *err);
void kedge__rank_list_done(struct kedge__rank_list *list);
bool kedge__rank_list_has(const struct kedge__rank_list *list, uint32_t rank); /* some file of RANK is in the store */

/* ------------------------------------------------------------------ holder.c */

#define KEDGE__HOLDER_BOOT 40
void kedge__boot_read(char boot[KEDGE__HOLDER_BOOT]); /* which boot of the kernel this is; "": not known */
#define KEDGE__HOLDER_TEXT 512

struct kedge__holder { /* of a lock */
	char name[128], host[256];
	char boot[KEDGE__HOLDER_BOOT];  /* of the kernel; "": not known */
	unsigned long long space;       /* its PID namespace; 0: not known */
	long pid;
	unsigned long long start;       /* of the process, in clock ticks since boot; 0: not known */
	long long since;                /* seconds since 1970 */
};

enum kedge__holder_state { KEDGE__HOLDER_UNKNOWN, KEDGE__HOLDER_ALIVE, KEDGE__HOLDER_DEAD };

void kedge__holder_self(const char *name, struct kedge__holder *h); /* this process, as the owner NAME */
int kedge__holder_write(int fd, const struct kedge__holder *h, const char *path, struct kedge__error *err);
bool kedge__holder_read(int fd, struct kedge__holder *h); /* false: there is no text, or not one of ours */
/* FD is the lock file, whose flock somebody has. DEAD: that this process is H and has ended is proved. */
enum kedge__holder_state kedge__holder_look(const struct kedge__holder *h, int fd);
void kedge__holder_text(const struct kedge__holder *h, char text[KEDGE__HOLDER_TEXT]); /* "NAME (pid N on HOST, since TIME)" */

/* ------------------------------------------------------------------ lock.c */

/* The lock file is still the one that this process has. KEDGE_E_LOCKED: somebody else's is there. */
int kedge__lock_check(const struct kedge__catalog *cat, bool *there, struct kedge__error *err);
/* Let go of a lock whose file is not there any more. */
void kedge__lock_drop(struct kedge__catalog *cat);
/* Remove the lock file of a dead owner, and an abandoned mutex of it. Counts what went, or would go with DRY_RUN. */
int kedge__lock_clean(struct kedge__catalog *cat, bool dry_run, size_t *removed, struct kedge__error *err);

/* ------------------------------------------------------------------ publish.c */

/* kedge__catalog_clean() for a caller that has seized the guard. THOROUGH: also where the index says that nothing is left. */
int kedge__catalog_sweep(struct kedge__catalog *cat, bool thorough, bool dry_run, size_t *removed,
			 struct kedge__error *err);
bool kedge__set_names(const struct kedge__set *set, uint32_t rank, uint32_t generation);
uint64_t kedge__set_disk_bytes(const struct kedge__catalog *cat, uint64_t version); /* manifest and segments */

/* ------------------------------------------------------------------ segment_file.c: a segment on its way to its name
 */

#define KEDGE__SEGMENT_SLOTS 4 /* writes in flight */

struct kedge__segment_file {
	char *dir, *tmp, *path;
	int fd;
	bool renamed;
	uint64_t offset;  /* bytes appended so far */
	uint64_t written; /* and written, or on their way */
	bool direct, uring;
	uint8_t *slots[KEDGE__SEGMENT_SLOTS]; /* in which appends gather; NULL until they are needed */
	size_t slot_bytes;
	unsigned slot; /* that is being filled, */
	size_t staged; /* and how far */
	struct kedge__fs_queue *queue; /* NULL until the first slot is full */
	struct kedge__bucket *bucket;
	double write_seconds;
};

int kedge__segment_file_open(struct kedge__segment_file *file, struct kedge__catalog *cat, uint64_t version,
			     uint32_t rank, uint32_t generation, const struct kedge__io *io,
			     struct kedge__bucket *bucket, struct kedge__error *err);
/* DATA may be used again when it returns. */
int kedge__segment_file_append(struct kedge__segment_file *file, const void *data, size_t bytes,
			       struct kedge__error *err);
/* Until all that was appended is in the file; nothing is appended afterwards. */
int kedge__segment_file_flush(struct kedge__segment_file *file, struct kedge__error *err);
/* Flush, sync, rename, sync the directory. */
int kedge__segment_file_commit(struct kedge__segment_file *file, bool sync, struct kedge__error *err);
/* Take back whatever has been done. Keeps quiet: the caller has the error that led here. */
void kedge__segment_file_abort(struct kedge__segment_file *file);
void kedge__segment_file_done(struct kedge__segment_file *file);

/* ------------------------------------------------------------------ block_writer.c */

struct kedge__written_blocks {
	struct kedge__block_record *blocks;
	size_t count;
	struct kedge__packing_record *packing; /* for each region that has blocks, if they may be packed at all */
	size_t packing_count;
	struct kedge__source_record base; /* what blocks were packed against; KEDGE__NO_VERSION: none was */
};

/* Cut, encode and append all literals of SPEC. */
int kedge__block_writer_run(struct kedge__segment_file *file, struct kedge__pool *pool,
			    const struct kedge__segment_spec *spec, struct kedge__written_blocks *out,
			    struct kedge__pipeline_stats *stats, struct kedge__error *err);
void kedge__written_blocks_done(struct kedge__written_blocks *out);

/* ------------------------------------------------------------------ segment_reader.c */

enum kedge__segment_depth {
	KEDGE__SEGMENT_LINES, /* summary, regions and lineage alone: no map, no blocks */
	KEDGE__SEGMENT_ALL,
};

struct kedge__segment_place {
	const char *path;
	const struct kedge__set_part *part; /* what the manifest says of it; NULL: it is not known */
	const struct kedge__set *set;       /* and of what it may refer to; NULL: neither */
	struct kedge__bucket *bucket;       /* from which what is read is taken; NULL: from none */
	int fd;                             /* the file, if it is open already, to be closed in any case; else -1 */
};

/* kedge__segment_open() that stops early and tells in *WHERE (may be NULL) which part was wrong: "header", "MAPX", ...
 */
int kedge__segment_load(const struct kedge__segment_place *place, enum kedge__segment_depth depth, const char **where,
			struct kedge__segment **out, struct kedge__error *err);
/* Tell the kernel what will be read of the file FD to open the segment. */
void kedge__segment_announce(int fd, const struct kedge__set_part *part);
/* Close the descriptor; blocks are read by opening the file each time. */
void kedge__segment_park(struct kedge__segment *seg);
/* Index of the region in SLOT, or SIZE_MAX. */
size_t kedge__segment_slot_region(const struct kedge__segment *seg, uint64_t slot);
void kedge__segment_prefix_block(const struct kedge__segment *seg, size_t i, struct kedge__error *err);

/* ------------------------------------------------------------------ block_cache.c: decoded blocks, for one thread */

struct kedge__block_cache;

/* Of segments of L; LEVEL: how many blocks that wait for these as their base stand above them. */
int kedge__block_cache_new(size_t bytes, struct kedge__lineage *l, unsigned level, struct kedge__block_cache **out,
			   struct kedge__error *err);
void kedge__block_cache_free(struct kedge__block_cache *cache);
/* LEN bytes at literal position POS of SEG. */
int kedge__block_cache_read(struct kedge__block_cache *cache, const struct kedge__segment *seg, uint64_t pos, void *buf,
			    size_t len, struct kedge__error *err);
void kedge__block_cache_drop(struct kedge__block_cache *cache, const struct kedge__segment *seg);
/* What is read between them: the deepest block's number of bases below it, and, after a failure, whose segment is at
 * fault; VERSION's, if it was no block's. */
void kedge__block_cache_begin(struct kedge__block_cache *cache, uint64_t version);
void kedge__block_cache_end(const struct kedge__block_cache *cache, unsigned *depth, uint64_t *bad);
bool kedge__buffer_room(uint8_t **buffer, size_t *room, size_t need); /* grown to NEED; false: no memory */

/* ------------------------------------------------------------------ block_reader.c */

#define KEDGE__BASE_DEPTH 3 /* blocks that are packed against each other, above one that stands alone */
/* As many are followed when reading: where versions of several levels take the place of each other, a block may come to
 * stand on another form of its base than it was packed against, with other blocks below. */
#define KEDGE__BASE_DEPTH_READ 64

int kedge__literal_places_make(const struct kedge__extent_map *map, struct kedge__literal_places *list,
			   struct kedge__error *err);
void kedge__literal_places_done(struct kedge__literal_places *list);

struct kedge__base_reader; /* of one thread that reads the bytes of a base */

struct kedge__base_readers {
	pthread_mutex_t mutex;
	struct kedge__base_reader *idle[KEDGE__BASE_DEPTH_READ]; /* by level */
};

void kedge__base_readers_init(struct kedge__base_readers *readers);
void kedge__base_readers_done(struct kedge__base_readers *readers);
void kedge__base_readers_drop(struct kedge__base_readers *readers, const struct kedge__segment *seg); /* all are idle */

/*
 * What VERSION, one of L's, has at the places of the LEN literals from POSITION on, 0 where it has nothing: in *OUT, until
 * that is given back. LEVEL is 1 for what a block needs that nobody needs as a base. *DEPTH: the bases below it.
 */
int kedge__base_read(struct kedge__lineage *l, uint64_t version, const struct kedge__literal_places *places,
		     uint64_t position, size_t len, unsigned level, struct kedge__base_reader **out, unsigned *depth,
		     uint64_t *bad, struct kedge__error *err);
/* Where these bytes are kept. */
int kedge__base_resolve(struct kedge__lineage *l, uint64_t version, const struct kedge__literal_places *places,
			uint64_t position, size_t len, struct kedge__span_list *out, struct kedge__error *err);
const uint8_t *kedge__base_reader_bytes(const struct kedge__base_reader *h);
bool kedge__base_reader_is_empty(const struct kedge__base_reader *h); /* VERSION has none of the places */
void kedge__base_reader_give_back(struct kedge__lineage *l, struct kedge__base_reader *h); /* takes NULL */

/* kedge__lineage_unpack_block() and _read_block() for a block that LEVEL others wait for. DEPTH and BAD are set. */
int kedge__block_unpack_at(struct kedge__lineage *l, const struct kedge__segment *seg, size_t i, const void *stored,
			   void *raw, unsigned level, unsigned *depth, uint64_t *bad, struct kedge__error *err);
int kedge__block_read_at(struct kedge__lineage *l, const struct kedge__segment *seg, size_t i, void *raw,
			 void *scratch, unsigned level, unsigned *depth, uint64_t *bad, struct kedge__error *err);

/* ------------------------------------------------------------------ lineage.c */

/* References to versions below STOP_BELOW are left alone: nothing there is opened. */
int kedge__lineage_open_from(struct kedge__catalog *const *levels, size_t n, uint64_t version, uint32_t rank,
			     uint64_t stop_below, struct kedge__lineage **out, struct kedge__error *err);
int kedge__lineage_resolve_from(struct kedge__lineage *l, uint64_t stop_below, struct kedge__span_list *out,
				struct kedge__span_list *outer, struct kedge__error *err);
/* RANGES of VERSION, which is one of L's. */
int kedge__lineage_resolve_at(const struct kedge__lineage *l, uint64_t version, const struct kedge__range *ranges,
			      size_t n, struct kedge__span_list *out, struct kedge__error *err);
/* SEGS, ascending versions, are the lineage's from then on. There is no version that it is the lineage of. */
int kedge__lineage_join(struct kedge__catalog *cat, uint32_t rank, struct kedge__segment *const *segs, size_t n,
			struct kedge__lineage **out, struct kedge__error *err);
struct kedge__base_readers *kedge__lineage_base_readers(struct kedge__lineage *l);
void kedge__lineage_count_block(struct kedge__lineage *l); /* one was unpacked; takes NULL */
uint64_t kedge__lineage_unpacked(const struct kedge__lineage *l);
/* Ask KEPT, from any thread, for the raw bytes of blocks that others were packed against before they are read, and for the
 * number of bases below them. */
typedef bool (*kedge__kept_fn)(void *ctx, const struct kedge__segment *seg, size_t block, void *raw, unsigned *depth);
void kedge__lineage_set_kept(struct kedge__lineage *l, kedge__kept_fn kept, void *ctx); /* NULL: nobody */
bool kedge__lineage_kept(const struct kedge__lineage *l, const struct kedge__segment *seg, size_t block, void *raw,
			 unsigned *depth);
void kedge__fill_pattern(uint64_t pattern, uint64_t addr, void *buf, size_t len);

/* ------------------------------------------------------------------ span_owner.c */

/* Pieces of literals, ascending by (version, src) and disjoint, each with the first address that shows it. */
int kedge__span_owners(const struct kedge__span_list *spans, struct kedge__span_list *out, struct kedge__error *err);
/* The last one that does not begin behind byte SRC of VERSION, or the first one. */
size_t kedge__span_owner_index(const struct kedge__span_list *owners, uint64_t version, uint64_t src);

/* ------------------------------------------------------------------ subtract.c */

/* SPANS, all of IMAGE, becomes what BASE's image does not have; *OUTER are references to BASE for the rest. On failure
 * both are as before. */
int kedge__spans_subtract(const struct kedge__lineage *image, struct kedge__lineage *base,
			  struct kedge__span_list *spans, struct kedge__span_list *outer, struct kedge__error *err);

/* ------------------------------------------------------------------ merge.c: a version's live bytes as a map of their
 * own */

struct kedge__merge;

/*
 * Spans of L's version, with references below STOP_BELOW kept as they are; L must outlive it. With BASE (STOP_BELOW is 0
 * then), what the older version BASE has is referred to there.
 */
int kedge__merge_new(struct kedge__lineage *l, uint64_t stop_below, struct kedge__lineage *base, size_t workers,
		     struct kedge__merge **out, struct kedge__error *err);
const struct kedge__segment *kedge__merge_top(const struct kedge__merge *m);
void kedge__merge_free(struct kedge__merge *m);
/* Map, parent, and literals without data: kedge__merge_fill() is the literal source that has their bytes. */
const struct kedge__reduction *kedge__merge_reduction(const struct kedge__merge *m);
const struct kedge__source_record *kedge__merge_sources(const struct kedge__merge *m, size_t *count);
int kedge__merge_fill(void *m, int worker, uint64_t position, void *buf, size_t len, struct kedge__error *err);

struct kedge__merge_target {
	struct kedge__catalog *to;
	struct kedge__lineage *lineage; /* what the merge was made of, with all that it needs; NULL: the merge's own is that */
	struct kedge__pool *pool; /* of as many threads as the merge has workers */
	struct kedge__codec_choice codec;
	uint32_t block_bytes;
	bool sync;
	struct kedge__io io;
	struct kedge__bucket *bucket;
	void (*progress)(void *ctx, uint64_t bytes);
	void *progress_ctx;
};

/* The version as one segment of the next generation; not published. What is written comes to the region digests
 * (kedge__prove_merge()), or nothing is. */
int kedge__merge_write(struct kedge__merge *m, const struct kedge__merge_target *target, struct kedge__set_part *part,
		       struct kedge__error *err);

/* ------------------------------------------------------------------ gc_prove.c */

struct kedge__gc_proof {
	bool quick;
	bool idle; /* nothing was proved, because nothing was to go; then nothing goes */
	struct kedge__trust *trust; /* the caller's, or one of its own */
	bool owns_trust;
	struct kedge__trust *proved; /* versions that were proved, whatever is wrong with those that they need */
	struct kedge__version_list lost;
	size_t count; /* versions that were read for it */
};

/* Read as many versions as it takes to know the KEEP newest good ones. The guard must not be held. done() on failure, too. */
int kedge__gc_prove(struct kedge__gc_proof *proof, struct kedge__catalog *cat, const struct kedge__gc_options *options,
		    struct kedge__error *err);
void kedge__gc_proof_done(struct kedge__gc_proof *proof);
/* May ENTRY be counted, whose lineage is MARKS? */
bool kedge__gc_proved(const struct kedge__gc_proof *proof, const struct kedge__catalog *cat, size_t entry,
		      const uint8_t *marks);

/* ------------------------------------------------------------------ prove.c: what a merge gives is the version */

/*
 * The map of M and the literals that it fills in come to the digests of the version's regions: KEDGE_E_DAMAGED names version
 * and region if they do not. Without BASE all of the image is read, what M leaves to older versions from WHOLE. With BASE,
 * whose digests are taken as right, what both have at the same place is not: the sums of BASE go on, less what it has in the
 * places that differ.
 */
struct kedge__proof {
	struct kedge__merge *merge;
	struct kedge__lineage *lineage, *base; /* BASE: NULL, or what M was made with */
	struct kedge__pool *pool;            /* of as many threads as the merge has workers; NULL: one */
};

int kedge__prove_merge(const struct kedge__proof *proof, struct kedge__error *err);

#endif
