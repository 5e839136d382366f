/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the files of store/; nobody else includes it. */
#ifndef KEDGE_STORE_INTERNAL_H
#define KEDGE_STORE_INTERNAL_H

#include "store/store.h"

#include <inttypes.h>
#include <pthread.h>
#include <sys/types.h>

#define KEDGE__LOCK_NAME        "lock"
#define KEDGE__GUARD_NAME       "guard"
#define KEDGE__RECORD_START     "record" /* files that src/job keeps beside the sets */
#define KEDGE__FILES_NAME       "files"  /* where applications write routed files: src/job/file.c */
#define KEDGE__TIE_NAME         "l2"     /* which L2 belongs to this L1 */
#define KEDGE__INDEX_NAME       "index"  /* the contents of all manifests, in one file: index.c */
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
	uint64_t offset;   /* everything from here on is new; at least 8 */
	uint8_t chain[8];  /* the bytes before it */
	uint64_t limit;    /* above this size the log is rewritten */
	struct kedge__version_list pending; /* their manifests may change at any moment, or have changed */
};

struct kedge__catalog {
	char *given;         /* the store's directory as the caller wrote it, for messages */
	char *store, *name;  /* the same, absolute unless it is only read: the program may change its directory */
	char *dir;           /* STORE/NAME */
	int store_fd, dir_fd; /* both directories, kept open, so that others that appear at these paths are recognized; of a pack, its file */
	struct kedge__store_id id;
	struct kedge__error marker_problem;
	struct kedge__entry_list entries; /* ascending; each stays in place until it is replaced */
	struct kedge__version_list unswept; /* ascending: those whose directory may hold segments that their set does not name */
	uint64_t changes;                 /* of the entries, so far */
	size_t problems;                  /* entries that have one, */
	uint64_t digest;                  /* and the sum of all others: kedge__catalog_digest() */
	const struct kedge__set *head;    /* kedge__history_head() of this one, if HEAD_KNOWN */
	bool head_known;
	bool read_only;                   /* opened with KEDGE__CATALOG_READ: no index is made */
	bool pack;                        /* STORE is a pack: DIR is its path, too, and there are no directories (pack.c) */
	struct kedge__version_list directories; /* of versions, ascending, that the last rescan saw, if READ_ONLY */
	char *index_path, *index_tmp;
	struct kedge__index index;
	uint64_t manifests_read;
	struct kedge__bucket *bucket;     /* paces reads; NULL: they are not paced, */
	uint64_t unpaced;                 /* and this many bytes were read so far */
	bool unsynced;                    /* published sets need not be durable */
	const struct kedge__carrier *carrier; /* of segments; NULL: this process writes them */
	struct kedge__region_tables *tables;     /* of regions, of some versions: region_tables.c */

	pthread_mutex_t mutex; /* over what follows */
	pthread_cond_t calm;   /* the last pin or the seizure is gone */
	int guard_fd;          /* -1: not held, or the store is read-only and has no guard */
	size_t pins;
	bool seized;
	pthread_t seizer;

	bool take_over; /* the user asserts that an owner about which nothing can be proved has ended */
	char *owner;    /* the owner's name, kept for renewal; NULL: the catalogue was never owned */
	int lock_fd;    /* -1: the name is not owned */
	pid_t lock_pid; /* the owning process: a forked child must not disown */
};

char *kedge__catalog_path(const struct kedge__catalog *cat, const char *leaf); /* STORE/NAME/LEAF */
char *kedge__catalog_set_path(const struct kedge__catalog *cat, uint64_t version);
char *kedge__catalog_version_path(const struct kedge__catalog *cat, uint64_t version);
/* Read the manifest on disk without changing the entries: 1 and *SET filled, 0 if there is no manifest, or an error. */
int kedge__catalog_read_set(struct kedge__catalog *cat, uint64_t version, struct kedge__set *set,
			    struct kedge__error *err);
void kedge__catalog_count_read(struct kedge__catalog *cat, uint64_t bytes); /* of its files, except segments */
size_t kedge__catalog_index(const struct kedge__catalog *cat, uint64_t version); /* of the first entry that is not below VERSION */

/* ------------------------------------------------------------------ scan.c: keep the entries current */

void kedge__entries_free(struct kedge__entry_list *entries);
bool kedge__entries_share(const struct kedge__entry_list *entries, struct kedge__entry_list *out); /* false: no memory */
bool kedge__catalog_is_unswept(const struct kedge__catalog *cat, uint64_t version);
void kedge__catalog_forget(struct kedge__catalog *cat, uint64_t version);
/* The manifest of VERSION was just put in place with these contents: update the entry, and make the index record for it. */
int kedge__catalog_put(struct kedge__catalog *cat, uint64_t version, const struct kedge__bytes *text, bool unswept,
		       struct kedge__index_record *note, struct kedge__error *err);
/* Like kedge__catalog_rescan() and kedge__catalog_refresh(), but manifests are read whatever stat() says. */
int kedge__catalog_reread(struct kedge__catalog *cat, struct kedge__error *err);
int kedge__catalog_reread_one(struct kedge__catalog *cat, uint64_t version, struct kedge__error *err);
/* Update the entries by a record of the index. */
int kedge__catalog_apply(struct kedge__catalog *cat, const struct kedge__index_record *r, struct kedge__error *err);

/* ------------------------------------------------------------------ pack.c */

/* CAT, whose path is that of a file, becomes the catalogue of the pack in it. */
int kedge__pack_begin(struct kedge__catalog *cat, struct kedge__error *err);
/* The set that a manifest would have. *STATE is that of the file. 1, or an error; 0: it is of another version. */
int kedge__pack_read_set(struct kedge__catalog *cat, uint64_t version, struct kedge__set *set,
			 struct kedge__file_state *state, struct kedge__error *err);
int kedge__pack_version(const struct kedge__catalog *cat, uint64_t *version, struct kedge__error *err);
int kedge__pack_reopen(const struct kedge__catalog *cat); /* the file that was opened then, whatever has its name now; -1: CAT is no pack */
int kedge__pack_refuse(const struct kedge__catalog *cat, struct kedge__error *err); /* to change it */

/* ------------------------------------------------------------------ history.c */

void kedge__history_note(struct kedge__catalog *cat, const struct kedge__catalog_entry *entry); /* ENTRY is new */

/* ------------------------------------------------------------------ index.c */

struct kedge__index_hint { /* the last record of a version in the log */
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
	size_t dead; /* bytes of superseded records */
	bool sound;  /* all of it could be read */
	int locked;  /* the log that is about to be replaced or filled; -1 */
	int fresh;   /* the file that is about to replace it; -1: the log is filled instead */
};

struct kedge__index_record_list {
	struct kedge__index_record *at;
	size_t count, room;
};

void kedge__index_close(struct kedge__index *x);
/* TO, another catalogue of the same directory, has followed the log as far as FROM has; or TO will read it from the start. */
void kedge__index_share(const struct kedge__catalog *from, struct kedge__catalog *to);
/* Apply the records that others have appended. *LOST: the log was replaced or cannot be followed: the directory must be read. */
int kedge__index_follow(struct kedge__catalog *cat, bool *lost, struct kedge__error *err);
/* Call before reading the directory: reads the log, unless the catalogue has followed it (ALL: even then). *REBUILD: after reading the
 * directory, pass all records to kedge__index_finish(); otherwise only those that the log does not have. Never fails. */
void kedge__index_begin(struct kedge__catalog *cat, bool all, struct kedge__index_view *view, bool *rebuild);
const struct kedge__index_hint *kedge__index_find(const struct kedge__index_view *view, uint64_t version); /* NULL */
void kedge__index_finish(struct kedge__catalog *cat, struct kedge__index_view *view,
			 const struct kedge__index_record_list *records, bool rebuild);
void kedge__index_drop(const struct kedge__catalog *cat, struct kedge__index_view *view); /* instead of finish(), on failure */
/* Append a record of what this catalogue just did, or (CHANGING) is about to do. If that fails, the index is removed. */
void kedge__index_note(struct kedge__catalog *cat, const struct kedge__index_record *r);

/* Set MARKS[i], one byte per entry, for VERSION and all entries that it depends on, according to the manifests. TOLERANT: skip
 * entries that are missing or unreadable. */
int kedge__catalog_mark(const struct kedge__catalog *cat, uint64_t version, bool tolerant, uint8_t *marks,
			struct kedge__error *err);
/* The same; *LOWEST: below it nothing was marked by this call. On failure it is 0. */
int kedge__catalog_mark_from(const struct kedge__catalog *cat, uint64_t version, bool tolerant, uint8_t *marks,
			     size_t *lowest, struct kedge__error *err);

/* ------------------------------------------------------------------ small_file.c */

/* Read all of a small file, of at most LIMIT bytes. FD is the file if it is already open, and is closed; otherwise -1. *DATA:
 * kedge__free(). */
int kedge__file_read(const char *path, int fd, uint64_t limit, uint8_t **data, size_t *bytes, struct kedge__error *err);
/* kedge__fs_create() for a temporary name, where an old file can only be a crash's leftover. */
int kedge__file_create_tmp(const char *tmp, int *fd, struct kedge__error *err);
int kedge__file_create_in(const char *dir, const char *tmp, int *fd, struct kedge__error *err); /* the same in the directory of a version, which is made */
int kedge__file_share_in(const char *dir, const char *tmp, int *fd, struct kedge__error *err);  /* one that several may be the first to open */
/* Temporary name, write, rename; with SYNC, both the file and DIR are synced. *RENAMED says whether PATH was replaced, also on
 * failure. */
int kedge__file_replace(const char *dir, const char *path, const void *data, size_t bytes, bool sync, bool *renamed,
			struct kedge__error *err);
bool kedge__name_is_tmp(const char *name);
bool kedge__name_is_leftover(const char *name); /* in STORE/NAME: a temporary name that store or job gives, except lock.tmp */
bool kedge__name_is_ours(const char *name);     /* in STORE/NAME: any name that store or job gives */
bool kedge__segment_is_leftover(const char *name); /* in the directory of a version */
struct stat;
struct kedge__file_state kedge__file_state_of(const struct stat *st);
bool kedge__file_state_at(const char *path, struct kedge__file_state *state); /* false: there is no such file */
bool kedge__file_state_equal(const struct kedge__file_state *a, const struct kedge__file_state *b);
bool kedge__file_is_at(int fd, const char *path); /* PATH still names the open file FD */

/* ------------------------------------------------------------------ marker.c */

/* A damaged marker is noted in the catalogue, and a substitute id is derived. */
int kedge__marker_open(struct kedge__catalog *cat, enum kedge__catalog_mode mode, struct kedge__error *err);
int kedge__marker_read(const char *path, struct kedge__store_id *id, size_t *bytes, struct kedge__error *err);
int kedge__marker_check(const struct kedge__catalog *cat, struct kedge__error *err);
/* Recreate the marker with the catalogue's id if it is gone. KEDGE_E_STATE: the marker of another store is there. */
int kedge__marker_renew(struct kedge__catalog *cat, struct kedge__error *err);
bool kedge__marker_is_there(const struct kedge__catalog *cat);

/* ------------------------------------------------------------------ sight.c */

bool kedge__probe_is_ours(const struct kedge__catalog *cat, const char *name); /* NAME is a probe, of any writer */

/* ------------------------------------------------------------------ ranks.c */

struct kedge__rank_list {
	uint8_t *here; /* one per rank */
	size_t room;
	uint32_t ranks, found; /* those that manifests name, and how many of them were found */
};

int kedge__rank_list_init(struct kedge__rank_list *list, const struct kedge__catalog *cat, struct kedge__error *err);
void kedge__rank_list_done(struct kedge__rank_list *list);
bool kedge__rank_list_has(const struct kedge__rank_list *list, uint32_t rank); /* some file of RANK is in the store */

/* ------------------------------------------------------------------ holder.c */

#define KEDGE__HOLDER_BOOT 40
void kedge__boot_read(char boot[KEDGE__HOLDER_BOOT]); /* which boot of the kernel this is; "": unknown */

struct kedge__holder { /* of a lock */
	char name[128], host[256];
	char boot[KEDGE__HOLDER_BOOT];  /* of the kernel; "": unknown */
	unsigned long long space;       /* its PID namespace; 0: unknown */
	long pid;
	unsigned long long start;       /* of the process, in clock ticks since boot; 0: unknown */
	long long since;                /* seconds since 1970 */
};

enum kedge__holder_state { KEDGE__HOLDER_UNKNOWN, KEDGE__HOLDER_ALIVE, KEDGE__HOLDER_DEAD };

void kedge__holder_self(const char *name, struct kedge__holder *h); /* this process, as the owner NAME */
int kedge__holder_write(int fd, const struct kedge__holder *h, const char *path, struct kedge__error *err);
bool kedge__holder_read(int fd, struct kedge__holder *h); /* false: there is no text, or not one of ours */
/* FD is the lock file, whose flock is held. DEAD: it is proved that H held it and has ended. */
enum kedge__holder_state kedge__holder_look(const struct kedge__holder *h, int fd);
void kedge__holder_text(const struct kedge__holder *h, char text[KEDGE__HOLDER_TEXT]); /* "NAME (pid N on HOST, since TIME)" */

/* ------------------------------------------------------------------ lock.c */

/* *THERE: the lock file is still the one that this process holds. KEDGE_E_LOCKED: another process's is there. */
int kedge__lock_check(const struct kedge__catalog *cat, bool *there, struct kedge__error *err);
/* Release a lock whose file no longer exists. */
void kedge__lock_drop(struct kedge__catalog *cat);
/* Remove the lock file of a dead owner, and its abandoned mutex. Counts removed files, or with DRY_RUN those it would remove. */
int kedge__lock_clean(struct kedge__catalog *cat, bool dry_run, size_t *removed, struct kedge__error *err);

/* ------------------------------------------------------------------ publish.c */

/* kedge__catalog_clean() for a caller that has seized the guard. THOROUGH: also search where the index says that nothing is left over. */
int kedge__catalog_sweep(struct kedge__catalog *cat, bool thorough, bool dry_run, size_t *removed,
			 struct kedge__error *err);
typedef bool kedge__set_names_fn(const struct kedge__set *set, uint32_t rank, uint32_t generation);
kedge__set_names_fn kedge__set_names;   /* a file of the rank's own */
kedge__set_names_fn kedge__set_bundles; /* a bundle, by its first rank */
/* Whether no manifest of VERSION names the file (by NAMES); KEDGE_E_STATE if one does. */
int kedge__set_spares(struct kedge__catalog *cat, uint64_t version, kedge__set_names_fn *names, uint32_t rank,
		      uint32_t generation, struct kedge__error *err);
/* Nothing is between the segments of a bundle that SET names, or behind the last; else *RANK is the one before it. */
int kedge__bundle_check(const char *path, const struct kedge__set *set, uint32_t first, uint32_t *rank, struct kedge__error *err);
uint64_t kedge__set_disk_bytes(const struct kedge__catalog *cat, uint64_t version); /* manifest and segments */

/* ------------------------------------------------------------------ segment_file.c: a segment on its way to its name
 */

#define KEDGE__SEGMENT_SLOTS 4 /* writes in flight */

struct kedge__segment_way; /* to its file */

struct kedge__segment_file {
	const struct kedge__segment_way *way;
	const struct kedge__carrier *carrier; /* NULL: the file is written here, */
	void *carried;                        /* else there, */
	uint64_t version;                     /* as this segment */
	uint32_t rank;
	struct kedge__berth berth;
	char *dir, *tmp, *path;
	int fd;
	bool renamed;
	uint64_t offset;  /* bytes appended so far */
	uint64_t written; /* and written, or on their way */
	uint64_t hastened; /* and on their way to storage */
	bool sync, direct, uring;
	size_t at_once; /* so many bytes are best written by one call; 0: it makes no difference */
	uint8_t *slots[KEDGE__SEGMENT_SLOTS]; /* buffers for appends; NULL until they are needed */
	size_t slot_bytes;
	unsigned slot; /* the one being filled, */
	size_t staged; /* and how far */
	struct kedge__fs_queue *queue; /* NULL until the first slot is full */
	struct kedge__bucket *bucket;
	double write_seconds;
};

int kedge__segment_file_open(struct kedge__segment_file *file, struct kedge__catalog *cat, uint64_t version,
			     uint32_t rank, const struct kedge__berth *berth, const struct kedge__io *io, bool sync,
			     struct kedge__bucket *bucket, struct kedge__error *err);
/* DATA may be reused when it returns. */
int kedge__segment_file_append(struct kedge__segment_file *file, const void *data, size_t bytes,
			       struct kedge__error *err);
/* COUNT pieces, one behind the other, at once if they are large. */
#define KEDGE__SEGMENT_PIECES (KEDGE__FS_PIECES - 1) /* at most */
int kedge__segment_file_append_pieces(struct kedge__segment_file *file, const struct iovec *pieces, size_t count,
				      struct kedge__error *err);
/* Wait until all that was appended is in the file; nothing may be appended afterwards. */
int kedge__segment_file_flush(struct kedge__segment_file *file, struct kedge__error *err);
/* What is in the file is on storage, as far as that can be had before it has its name. */
int kedge__segment_file_sync(struct kedge__segment_file *file, struct kedge__error *err);
/* Flush, sync if that was asked for, rename, sync the directory; a bundle is renamed by kedge__bundle_name(). */
int kedge__segment_file_commit(struct kedge__segment_file *file, struct kedge__error *err);
/* Undo whatever has been done. Reports nothing: the caller has the error that led here. */
void kedge__segment_file_abort(struct kedge__segment_file *file);
void kedge__segment_file_done(struct kedge__segment_file *file);

/* ------------------------------------------------------------------ block_writer.c */

struct kedge__written_blocks {
	struct kedge__block_record *blocks;
	size_t count;
	struct kedge__bytes sums; /* section SUMS; empty: no block has pages */
	struct kedge__packing_record *packing; /* for each region that has blocks, if they may be packed at all */
	size_t packing_count;
	struct kedge__classes_record classes; /* none: nothing was arranged */
	struct kedge__source_record base; /* the version that blocks were packed against; KEDGE__NO_VERSION: none was */
};

/* Cut, encode and append all literals of SPEC. */
int kedge__block_writer_run(struct kedge__segment_file *file, struct kedge__pool *pool,
			    const struct kedge__segment_spec *spec, struct kedge__written_blocks *out,
			    struct kedge__pipeline_stats *stats, struct kedge__error *err);
void kedge__written_blocks_done(struct kedge__written_blocks *out);

/* ------------------------------------------------------------------ companion.c; all take NULL */

void kedge__companion_begin(struct kedge__companion *t, const struct kedge__segment_file *file);
/* What FILE has so far can be read there; the first COUNT of BLOCKS, which stay until the end, are final. */
void kedge__companion_announce(struct kedge__companion *t, const struct kedge__segment_file *file,
			  const struct kedge__block_record *blocks, size_t count);
/* All BYTES of the file are there (0: it will not be), with COUNT blocks; *BLOCKS is taken. */
void kedge__companion_end(struct kedge__companion *t, struct kedge__block_record **blocks, size_t count, uint64_t bytes);
/* The copy becomes the caller's, if it is one of all of SEG. */
bool kedge__companion_take(struct kedge__companion *t, const struct kedge__segment *seg, struct kedge__segment_file *file,
		      uint32_t *generation);

/* ------------------------------------------------------------------ segment_reader.c */

enum kedge__segment_depth {
	KEDGE__SEGMENT_LINES, /* only summary, regions and lineage: no map, no blocks */
	KEDGE__SEGMENT_ALL,
};

struct kedge__segment_place {
	const char *path;
	const struct kedge__set_part *part; /* its record in the manifest; NULL: unknown */
	const struct kedge__set *set;       /* the set, for the versions it may refer to; NULL: unknown */
	struct kedge__bucket *bucket;       /* paces reads; NULL: they are not paced */
	int fd;                             /* the file, if it is already open, closed in any case; otherwise -1 */
	struct kedge__catalog *const *levels; /* that may have the versions whose tables of regions it continues */
	size_t level_count;
};

/* kedge__segment_open() to a given depth; *WHERE (may be NULL) names the part that was wrong: "header", "MAPX", ...
 */
int kedge__segment_load(const struct kedge__segment_place *place, enum kedge__segment_depth depth, const char **where,
			struct kedge__segment **out, struct kedge__error *err);
/* Section REGN alone, unpacked; the caller knows the image id. */
struct kedge__region_table_section {
	struct kedge__bytes text;
	bool changes;                     /* it is a difference, */
	struct kedge__source_record base; /* and this is what it is a difference to: an older version */
};
int kedge__segment_read_table(const struct kedge__segment_place *place, struct kedge__region_table_section *out,
			      struct kedge__error *err);
/* Announce to the kernel which parts of file FD will be read to open the segment. */
void kedge__segment_announce(int fd, const struct kedge__set_part *part);
/* Close the descriptor; from then on each read of a block opens the file. */
void kedge__segment_park(struct kedge__segment *seg);
/* Index of the region in SLOT, or SIZE_MAX. */
size_t kedge__segment_slot_region(const struct kedge__segment *seg, uint64_t slot);
/* How many regions beside that of its record have bytes in block I. */
size_t kedge__segment_block_others(const struct kedge__segment *seg, size_t i);
void kedge__segment_prefix_block(const struct kedge__segment *seg, size_t i, struct kedge__error *err);

/* ------------------------------------------------------------------ region_tables.c: tables of regions, by image id */

struct kedge__region_tables; /* those that a catalogue remembers; any thread */

struct kedge__region_table {
	struct kedge__digest image_id;
	struct kedge__bytes text; /* section REGN without flags */
	/* The newest version that is known to have it, the differences below it, and their bytes. Only for writers. */
	_Atomic uint64_t version;
	atomic_uint depth;
	_Atomic uint64_t chain_bytes;
	atomic_size_t users;
};

struct kedge__region_table_place {
	struct kedge__catalog *const *levels; /* fastest first, at least one, which remembers what was loaded */
	size_t level_count;
	uint32_t rank;
};

struct kedge__region_tables *kedge__region_tables_new(void); /* NULL: no memory */
void kedge__region_tables_free(struct kedge__region_tables *t); /* takes NULL */
/* Forget nothing until it is released. */
void kedge__region_tables_hold(struct kedge__region_tables *t);
void kedge__region_tables_release(struct kedge__region_tables *t);
/* The table of SOURCE, from a level that has it with that image. One kedge__region_table_drop(). */
int kedge__region_table_load(const struct kedge__region_table_place *p, struct kedge__source_record source, struct kedge__region_table **out,
		      struct kedge__error *err);
void kedge__region_table_drop(struct kedge__region_table *table); /* takes NULL */
/* TEXT is the table of SPEC; replace it by the difference to the parent's (*CHANGES) if CAT has that and it is worth it. */
int kedge__region_table_write(struct kedge__catalog *cat, const struct kedge__segment_spec *spec,
		       struct kedge__digest image_id, struct kedge__bytes *text, bool *changes, struct kedge__error *err);

/* ------------------------------------------------------------------ block_cache.c: decoded blocks, for one thread */

struct kedge__block_cache;

/* For segments of L; LEVEL: how many blocks wait, each for the next as its base, for the blocks read through this cache. */
int kedge__block_cache_new(size_t bytes, struct kedge__lineage *l, unsigned level, struct kedge__block_cache **out,
			   struct kedge__error *err);
void kedge__block_cache_free(struct kedge__block_cache *cache);
/* LEN bytes at literal position POS of SEG. */
int kedge__block_cache_read(struct kedge__block_cache *cache, const struct kedge__segment *seg, uint64_t pos, void *buf,
			    size_t len, struct kedge__error *err);
void kedge__block_cache_drop(struct kedge__block_cache *cache, const struct kedge__segment *seg);
/* Of the reads between begin and end: the largest number of bases below a block and, after a failure, the version whose
 * segment is at fault; VERSION if no block was. */
void kedge__block_cache_begin(struct kedge__block_cache *cache, uint64_t version);
void kedge__block_cache_end(const struct kedge__block_cache *cache, unsigned *depth, uint64_t *bad);
bool kedge__buffer_room(uint8_t **buffer, size_t *room, size_t need); /* grow it to NEED; false: out of memory */

/* ------------------------------------------------------------------ block_reader.c */

#define KEDGE__BASE_DEPTH 3 /* blocks packed against each other, above one without a base */
/* The limit when reading: if versions are taken from several levels, a block may meet another form of its base than it was
 * packed against, with other blocks below. */
#define KEDGE__BASE_DEPTH_READ 64

int kedge__literal_places_make(struct kedge__extent_reader map, struct kedge__literal_places *list,
			   struct kedge__error *err);
void kedge__literal_places_done(struct kedge__literal_places *list);

struct kedge__base_reader; /* reads the bytes of a base, for one thread */

struct kedge__base_readers {
	pthread_mutex_t mutex;
	struct kedge__base_reader *idle[KEDGE__BASE_DEPTH_READ]; /* by level */
};

void kedge__base_readers_init(struct kedge__base_readers *readers);
void kedge__base_readers_done(struct kedge__base_readers *readers);
void kedge__base_readers_drop(struct kedge__base_readers *readers, const struct kedge__segment *seg); /* all are idle */

/*
 * The bytes that VERSION, one of L's, has at the places of the LEN literals from POSITION on, 0 where it has none: in *OUT,
 * until that is given back. LEVEL is 1 for a block that is not itself needed as a base. *DEPTH: the bases below it.
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

/* kedge__lineage_unpack_block() and _read_block() for a block that LEVEL others wait for. They set DEPTH and BAD. */
int kedge__block_unpack_at(struct kedge__lineage *l, const struct kedge__segment *seg, size_t i, const void *stored,
			   void *raw, unsigned level, unsigned *depth, uint64_t *bad, struct kedge__error *err);
int kedge__block_read_at(struct kedge__lineage *l, const struct kedge__segment *seg, size_t i, void *raw,
			 void *scratch, unsigned level, unsigned *depth, uint64_t *bad, struct kedge__error *err);

/* ------------------------------------------------------------------ lineage.c */

/* References to versions below STOP_BELOW are not followed, and nothing there is opened. */
int kedge__lineage_open_from(struct kedge__catalog *const *levels, size_t n, uint64_t version, uint32_t rank,
			     uint64_t stop_below, struct kedge__lineage **out, struct kedge__error *err);
int kedge__lineage_resolve_from(struct kedge__lineage *l, uint64_t stop_below, struct kedge__span_list *out,
				struct kedge__span_list *outer, struct kedge__error *err);
/* RANGES of VERSION, which is one of L's. */
int kedge__lineage_resolve_at(const struct kedge__lineage *l, uint64_t version, const struct kedge__range *ranges,
			      size_t n, struct kedge__span_list *out, struct kedge__error *err);
/* The lineage takes over SEGS, ascending versions. It has no top version. */
int kedge__lineage_join(struct kedge__catalog *cat, uint32_t rank, struct kedge__segment *const *segs, size_t n,
			struct kedge__lineage **out, struct kedge__error *err);
uint64_t kedge__lineage_version(const struct kedge__lineage *l);
struct kedge__block_cache **kedge__lineage_cache(struct kedge__lineage *l); /* NULL until something is read */
struct kedge__base_readers *kedge__lineage_base_readers(struct kedge__lineage *l);
void kedge__lineage_count_block(struct kedge__lineage *l); /* a block was unpacked; takes NULL */
/* Before reading a block that others were packed against, ask KEPT, from any thread, for its raw bytes and for the number
 * of bases below it. */
typedef bool (*kedge__kept_fn)(void *ctx, const struct kedge__segment *seg, size_t block, void *raw, unsigned *depth);
void kedge__lineage_set_kept(struct kedge__lineage *l, kedge__kept_fn kept, void *ctx); /* NULL: nobody */
bool kedge__lineage_kept(const struct kedge__lineage *l, const struct kedge__segment *seg, size_t block, void *raw,
			 unsigned *depth);

/* ------------------------------------------------------------------ span_owner.c */

/* Pieces of literals, ascending by (version, src) and disjoint, each with the first address that shows it. */
int kedge__span_owners(const struct kedge__span_list *spans, struct kedge__span_list *out, struct kedge__error *err);
/* The last one that does not begin behind byte SRC of VERSION, or the first one. */
size_t kedge__span_owner_index(const struct kedge__span_list *owners, uint64_t version, uint64_t src);

/* ------------------------------------------------------------------ subtract.c */

/* Reduce SPANS, all of IMAGE, to what PARENT's image does not have; *OUTER refers to PARENT for the rest. On failure both are
 * unchanged. */
int kedge__spans_subtract(const struct kedge__lineage *image, struct kedge__lineage *parent,
			  struct kedge__span_list *spans, struct kedge__span_list *outer, struct kedge__error *err);

/* ------------------------------------------------------------------ merge.c: a version's live bytes as a new map */

struct kedge__merge;

struct kedge__merge_piece { /* of the new literal space; without a version it is the first LEN bytes of the pattern SRC */
	uint64_t position, version, src, len;
};

struct kedge__merge_pieces {
	struct kedge__merge_piece *at;
	size_t count, room;
};

/* merge_classes.c: literals of RED that were arranged in the segments of L are here, too; PIECES, which they are made of, follow. */
int kedge__merge_classes(struct kedge__lineage *l, struct kedge__merge_pieces *pieces, struct kedge__reduction *red, struct kedge__error *err);


/*
 * Spans of L's version, with references below STOP_BELOW kept as they are; L must outlive it. With PARENT, an older version
 * (then STOP_BELOW is 0), bytes that PARENT has become references to it.
 */
int kedge__merge_new(struct kedge__lineage *l, uint64_t stop_below, struct kedge__lineage *parent, size_t workers,
		     struct kedge__merge **out, struct kedge__error *err);
const struct kedge__segment *kedge__merge_top(const struct kedge__merge *m);
void kedge__merge_free(struct kedge__merge *m);
/* Map, parent, and literals without data: kedge__merge_fill() is the literal source that has their bytes. */
const struct kedge__reduction *kedge__merge_reduction(const struct kedge__merge *m);
const struct kedge__source_record *kedge__merge_sources(const struct kedge__merge *m, size_t *count);
int kedge__merge_fill(void *m, int worker, uint64_t position, void *buf, size_t len, struct kedge__error *err);

struct kedge__merge_target {
	struct kedge__catalog *to;
	struct kedge__catalog *aside; /* where it is written, to be brought there later; NULL: there at once */
	const struct kedge__berth *berth; /* where in it; NULL: a file of its own, of the next generation */
	struct kedge__lineage *lineage; /* of the version, with all that it needs; NULL: the merge's own has all */
	struct kedge__pool *pool; /* with as many threads as the merge has workers */
	struct kedge__codec_choice codec;
	uint32_t block_bytes;
	bool sync;
	struct kedge__io io;
	struct kedge__bucket *bucket;
	void (*progress)(void *ctx, uint64_t bytes);
	void *progress_ctx;
};

/* Write the version as one segment of the next generation, without publishing it. If it does not match the region digests
 * (kedge__prove_merge()), nothing is written. */
int kedge__merge_write(struct kedge__merge *m, const struct kedge__merge_target *target, struct kedge__set_part *part,
		       struct kedge__error *err);

/* ------------------------------------------------------------------ gc_prove.c */

/*
 * keep_catalog.c: the versions of a catalogue, one item for each entry, abandoned ones outside; those without a manifest are unfit. BYTES:
 * with the sizes of their files, which are looked up. What they need belongs to the catalogue. kedge__free().
 */
struct kedge__keep_item *kedge__keep_items(const struct kedge__catalog *cat, bool bytes, struct kedge__error *err);
/* What KEEP asks for, if those that LOOK finds unfit are not counted: it is asked once about each that would stay, but for labels. */
int kedge__keep_choose_fit(const struct kedge__keep *keep, struct kedge__keep_item *items, size_t count,
			   int (*look)(void *ctx, size_t i, bool *fit, struct kedge__error *err), void *ctx, struct kedge__error *err);

struct kedge__gc_proof {
	bool quick;
	bool idle; /* nothing was proved, because nothing would be removed; then nothing is removed */
	struct kedge__trust *trust; /* the caller's, or this proof's */
	bool owns_trust;
	struct kedge__trust *proved; /* versions that were proved, even if those that they need are damaged */
	struct kedge__version_list lost;
	size_t count; /* versions that were read */
};

/* Read as many versions as it takes to know the KEEP newest good ones. The guard must not be held. Call done() even on failure. */
int kedge__gc_prove(struct kedge__gc_proof *proof, struct kedge__catalog *cat, const struct kedge__gc_options *options,
		    struct kedge__error *err);
void kedge__gc_proof_done(struct kedge__gc_proof *proof);
/* May ENTRY, whose lineage is MARKS, from LOWEST on, be counted as good? */
bool kedge__gc_proved(const struct kedge__gc_proof *proof, const struct kedge__catalog *cat, size_t entry,
		      const uint8_t *marks, size_t lowest);

/* ------------------------------------------------------------------ prove.c: the result of a merge is the version */

/*
 * Check that the map of MERGE and the literals that it fills in match the digests of the version's regions: KEDGE_E_DAMAGED
 * names version and region if they do not. Without PARENT all of the image is read; bytes that MERGE leaves to older versions
 * come from LINEAGE. With PARENT, whose digests are assumed to be right, bytes that both have at the same place are not read:
 * the sums of PARENT are carried over, less its words in the places that differ.
 */
struct kedge__proof {
	struct kedge__merge *merge;
	struct kedge__lineage *lineage, *parent; /* PARENT: NULL, or the one that MERGE was made with */
	struct kedge__pool *pool;                /* with as many threads as the merge has workers; NULL: one thread */
};

int kedge__prove_merge(const struct kedge__proof *proof, struct kedge__error *err);

#endif
