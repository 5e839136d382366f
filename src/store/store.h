/*
 * store: segments, sets, catalogues, locks, publishing (the commit point), lineage, levels,
 * coalescing, gc, verify. What the files look like is format's business; this folder decides when
 * they come and go.
 *
 * Who may do what at the same time, on one name of one store:
 *  - the lock: one job owns the name from open to close. The lock of an owner that is proved to be dead is taken over.
 *  - the guard: whoever reads segments, or writes a version that refers to older ones, shares it
 *    (pin); whoever removes or rewrites versions holds it alone (seize). So gc and coalesce are
 *    safe beside a running job and beside readers. On a read-only store pins are not needed.
 *
 * A writer pins before it writes its first segment and unpins after the manifest is published (or the segments are
 * discarded): what no manifest names is removed by whoever gets the guard alone.
 *
 * Threads: pin, unpin, seize and release may be called by several threads on one handle; everything else on one handle
 * is one thread at a time. Different handles, also of one name in one process, are independent and exclude each other
 * as those of different processes do. A pin never waits for one who waits to seize on another handle.
 */
#ifndef KEDGE_STORE_STORE_H
#define KEDGE_STORE_STORE_H

#include "base/base.h"
#include "codec/codec.h"
#include "format/format.h"
#include "pipeline/pipeline.h"
#include "reduce/reduce.h"

/* ------------------------------------------------------------------ catalog.c: the sets of one name in one store */

struct kedge__catalog;

enum kedge__catalog_mode {
	KEDGE__CATALOG_READ,
	KEDGE__CATALOG_CREATE, /* what is missing; KEDGE_E_CONFIG: the directory is no store and holds other things */
	KEDGE__CATALOG_INIT,   /* the same, whatever the directory holds */
};

/* READ: KEDGE_E_NOTFOUND names the store or, with the nearest name there, the job that is missing. Scans. Both
 * directories are held open, and STORE, unless it is only read, is made absolute now: the program may go elsewhere. */
int kedge__catalog_open(const char *store, const char *name, enum kedge__catalog_mode mode, struct kedge__catalog **out, struct kedge__error *err);
void kedge__catalog_close(struct kedge__catalog *cat); /* releases lock and pins; takes NULL */
const char *kedge__catalog_store(const struct kedge__catalog *cat); /* its directory; from the root on, unless it is only read */
const char *kedge__catalog_name(const struct kedge__catalog *cat);
/* *GONE: the directories at its paths are not those that were opened, or have lost the marker or this job's lock; then its
 * versions may be gone too. KEDGE_E_LOCKED: somebody else took the name over. */
int kedge__catalog_present(const struct kedge__catalog *cat, bool *gone, struct kedge__error *err);
/* Make again what is gone, as the store that it was, owned if it was, and scan. KEDGE_E_STATE: the path is another store's now. No pin is held. */
int kedge__catalog_renew(struct kedge__catalog *cat, struct kedge__error *err);
struct kedge__store_id kedge__catalog_store_id(const struct kedge__catalog *cat); /* same id: same directory, whatever the path */
/* The names in a store that have at least one set; one kedge__fs_list_free(). */
int kedge__store_names(const char *store, char ***names, size_t *count, struct kedge__error *err);

/*
 * All that is read by way of CAT from now on, manifests and segments of lineages, takes its bytes from BUCKET, and so does
 * at once what was read to open it. BUCKET, which may be NULL, outlives the catalogue and its lineages.
 */
void kedge__catalog_pace(struct kedge__catalog *cat, struct kedge__bucket *bucket);

/* With SYNC false, manifests that are published by way of CAT are not made durable, as their segments are not. */
void kedge__catalog_set_sync(struct kedge__catalog *cat, bool sync);

/*
 * Make the entries current. Both cost nothing that grows with the number of versions but what the index (index.c) cannot spare.
 *
 * scan: what was published and removed through any catalogue of this name, in any process, since the last scan; nothing is read if
 * that is nothing. Whatever else changes the directory (a user, a process of Kedge 0.1, a process that was killed between the change
 * and its note) is noticed if the index is not what it was, and else not.
 * rescan: looks at each manifest, and reads those that stat() says were changed. A manifest that cannot be decoded becomes an entry
 * with `problem` set, and is read each time.
 */
int kedge__catalog_scan(struct kedge__catalog *cat, struct kedge__error *err);
int kedge__catalog_rescan(struct kedge__catalog *cat, struct kedge__error *err);
uint64_t kedge__catalog_manifests_read(const struct kedge__catalog *cat); /* from their files so far */

struct kedge__catalog_entry {
	uint64_t version;
	struct kedge__set set;  /* valid if problem.code is 0 */
	struct kedge__error problem;
	uint64_t image, files;  /* kedge__set_image() and kedge__set_files() of SET */
	struct kedge__file_state file; /* of the manifest that SET was read from */
	uint64_t read_at;       /* kedge__catalog_manifests_read() when it was read from its file; 0: the index had it */
	bool unswept;           /* its directory may hold segments that SET does not name */
};

uint64_t kedge__catalog_changes(const struct kedge__catalog *cat); /* how often its entries have changed so far */
size_t kedge__catalog_problems(const struct kedge__catalog *cat);  /* entries with a problem */
/* One number of all others: catalogues with the same versions, images, runs and numbers of ranks have the same. */
uint64_t kedge__catalog_digest(const struct kedge__catalog *cat);
size_t kedge__catalog_count(const struct kedge__catalog *cat);                                    /* ascending versions */
const struct kedge__catalog_entry *kedge__catalog_at(const struct kedge__catalog *cat, size_t i);
size_t kedge__catalog_below(const struct kedge__catalog *cat, uint64_t version); /* entries below VERSION: the first so many */
const struct kedge__catalog_entry *kedge__catalog_find(const struct kedge__catalog *cat, uint64_t version); /* NULL */

/* ------------------------------------------------------------------ history.c: which versions belong to the present run */

/* A set of the present run: of all that LEVELS have, one of the highest epoch. NULL: they have none. Valid until a catalogue changes. */
const struct kedge__set *kedge__history_head(struct kedge__catalog *const *levels, size_t n);
bool kedge__history_has(const struct kedge__run *run, const struct kedge__set *set);
bool kedge__history_abandons(const struct kedge__run *run, const struct kedge__set *set); /* it may be removed */
/* Remove what RUN abandoned, and count it in *REMOVED. Caller owns the name. If FIRST is the only version of RUN so far, manifests
 * that cannot be read and stand above what RUN follows go, too; with KEDGE__NO_VERSION they stay. */
int kedge__history_sweep(struct kedge__catalog *cat, const struct kedge__run *run, uint64_t first, size_t *removed, struct kedge__error *err);

/* Look at one manifest, and read it if stat() says that it was changed: the entry is replaced, added, or gone if the file is. */
int kedge__catalog_refresh(struct kedge__catalog *cat, uint64_t version, struct kedge__error *err);

/* The same for VERSION and all that it depends on: before something is made that needs them, since a scan need not have noticed what
 * somebody did to them. */
int kedge__catalog_refresh_lineage(struct kedge__catalog *cat, uint64_t version, struct kedge__error *err);

/* ------------------------------------------------------------------ sight.c: what there is, before anything is made or believed */

enum kedge__sight {
	KEDGE__SIGHT_NOTHING, /* no directory */
	KEDGE__SIGHT_EMPTY,   /* one without anything in it */
	KEDGE__SIGHT_OTHER,   /* one that is no store */
	KEDGE__SIGHT_STORE,
	KEDGE__SIGHT_DAMAGED, /* a store whose marker cannot be read: the id is not known */
	KEDGE__SIGHT_ERROR,
};

/* Changes nothing. *ID is all zero but for SIGHT_STORE; ERR is set with SIGHT_ERROR alone. */
enum kedge__sight kedge__store_look(const char *store, struct kedge__store_id *id, struct kedge__error *err);
const char *kedge__sight_text(enum kedge__sight sight); /* "an empty directory" */
bool kedge__store_id_equal(const struct kedge__store_id *a, const struct kedge__store_id *b);

/*
 * Two paths lead to one directory if what is written by way of one is seen by way of the other. Of all that claim one nonce in
 * one directory, exactly one makes the probe (*MADE), and removes it; it holds a pin as long as the probe is there. Once the
 * maker's claim has returned, the others can read its rank; *SEEN false: there is no such probe.
 */
int kedge__probe_claim(const struct kedge__catalog *cat, uint64_t nonce, uint32_t rank, bool *made, struct kedge__error *err);
int kedge__probe_read(const struct kedge__catalog *cat, uint64_t nonce, bool *seen, uint32_t *rank, struct kedge__error *err);
void kedge__probe_remove(const struct kedge__catalog *cat, uint64_t nonce);

/* Which store is the L2 of the job, as its L1, CAT, remembers. KEDGE_E_NOTFOUND: it had none. One kedge__tie_done(). */
int kedge__tie_read(const struct kedge__catalog *cat, struct kedge__tie *tie, struct kedge__error *err);
int kedge__tie_write(const struct kedge__catalog *cat, const struct kedge__tie *tie, struct kedge__error *err);

/* ------------------------------------------------------------------ lock.c */

/* An owner of whom nothing is known, neither that it lives nor that it is dead, has ended: the user says so. */
void kedge__catalog_set_take_over(struct kedge__catalog *cat, bool take_over);
/* Own the name. KEDGE_E_LOCKED: "... is in use by <owner> (pid N on HOST, since TIME)". */
int kedge__catalog_own(struct kedge__catalog *cat, const char *owner, struct kedge__error *err);
void kedge__catalog_disown(struct kedge__catalog *cat); /* removes the lock file */
/* Pins count; seize waits for all pins of other handles (WAIT false: KEDGE_E_LOCKED at once). Not to be called with one's own pin held. */
int kedge__catalog_pin(struct kedge__catalog *cat, struct kedge__error *err);
void kedge__catalog_unpin(struct kedge__catalog *cat);
int kedge__catalog_seize(struct kedge__catalog *cat, bool wait, struct kedge__error *err);
void kedge__catalog_release(struct kedge__catalog *cat);

/* ------------------------------------------------------------------ publish.c: the only code that makes a set visible or takes it away */

/* Write the manifest (temporary name, sync, rename, sync directory; see kedge__catalog_set_sync()). An older manifest of the version is replaced, and
 * segments of older generations or of a replaced set are removed afterwards. Caller holds a pin. Rescans the entry. */
int kedge__set_publish(struct kedge__catalog *cat, const struct kedge__set *set, struct kedge__error *err);
/* Remove manifest first, then segments. Caller has seized, or owns the name and removes a version above all others. */
int kedge__set_remove(struct kedge__catalog *cat, uint64_t version, struct kedge__error *err);
/* Discard all sets with versions above VERSION, newest first (an abandoned future). */
int kedge__set_discard_above(struct kedge__catalog *cat, uint64_t version, struct kedge__error *err);
/* Remove what a crash left: temporary files, segments that no manifest names, empty directories. Seizes (without waiting; skips if busy). */
int kedge__catalog_clean(struct kedge__catalog *cat, size_t *removed, struct kedge__error *err);

/* ------------------------------------------------------------------ segment_file.c: how bytes move between memory and files */

enum kedge__writer { KEDGE__WRITER_AUTO, KEDGE__WRITER_PWRITE, KEDGE__WRITER_URING };

struct kedge__io { /* the settings of these names; all zero: their presets */
	enum kedge__writer writer;
	bool direct;     /* past the page cache */
	uint64_t buffer; /* bytes of a buffer of the rings, and of a write; 0: KEDGE__IO_BUFFER */
	size_t queue;    /* buffers of each ring; 0: the pipeline's preset */
};

#define KEDGE__IO_BUFFER (UINT64_C(1) << 20)

static inline size_t kedge__io_buffer(const struct kedge__io *io)
{
	return (size_t)(io->buffer ? io->buffer : KEDGE__IO_BUFFER);
}

/* ------------------------------------------------------------------ segment_writer.c */

struct kedge__lineage;

/* The version that blocks may be packed against: opened when a codec asks for it, and closed by who opened it. */
struct kedge__base_source {
	int (*open)(void *ctx, struct kedge__lineage **out, struct kedge__error *err); /* NULL: there is none */
	void *ctx;
};

struct kedge__segment_spec {
	const char *name;
	uint64_t version;
	uint32_t rank, ranks, generation;
	uint32_t next_slot;
	const struct kedge__region_record *regions; /* region i of the image */
	size_t region_count;
	const struct kedge__reduction *reduction;   /* map, literals, reducer, chunk, parent; its digests, if any, go before those of the regions */
	const struct kedge__literal_source *source; /* NULL: the literals are in memory; else their `data` is not looked at */
	uint64_t created_ns;                        /* 0: now */
	const struct kedge__source_record *sources;
	size_t source_count;
	struct kedge__codec_choice codec;
	struct kedge__codec_memory *memory;         /* what was settled on for earlier versions; NULL: each is looked at anew */
	struct kedge__base_source base;             /* "auto" uses it only for versions that refer to others anyhow */
	uint32_t block_bytes;                       /* raw bytes of a block, cut at regions */
	struct kedge__io io;
	bool sync;                                  /* fsync before rename; only tests and scratch levels in memory turn it off */
	struct kedge__bucket *bucket;               /* NULL: no pacing */
	void (*progress)(void *ctx, uint64_t bytes); /* raw literal bytes written so far; any thread, one at a time */
	void *progress_ctx;
};

struct kedge__segment_stats {
	uint64_t stored_bytes, literal_bytes, metadata_bytes;
	double encode_seconds; /* of all threads that encode, divided by their number */
	double write_seconds;  /* sync and rename among them */
	uint64_t base;         /* version that blocks were packed against, in its lineage now; KEDGE__NO_VERSION: none */
	struct kedge__pipeline_stats pipeline; /* collect, encode, append; all zero without literals */
};

/* Temporary name, blocks, sections, index, footer, sync, rename, sync directory. On failure nothing is left behind. */
int kedge__segment_write(struct kedge__catalog *cat, struct kedge__pool *pool, const struct kedge__segment_spec *spec,
			 struct kedge__set_part *part, struct kedge__segment_stats *stats, struct kedge__error *err);
/* A generation above the published one that no file has: what a version that is written again must be written as; 0 for a new one. */
int kedge__catalog_next_generation(const struct kedge__catalog *cat, uint64_t version, uint32_t rank, uint32_t *generation, struct kedge__error *err);
/* Remove a sealed segment that will not be published. KEDGE_E_STATE if it is, e.g. because taking back a failed publish failed too. */
int kedge__segment_discard(struct kedge__catalog *cat, uint64_t version, uint32_t rank, uint32_t generation, struct kedge__error *err);

/* ------------------------------------------------------------------ segment_reader.c */

/* Where literals belong: LEN of them, from POSITION on, to the addresses from ADDR on. */
struct kedge__literal_place {
	uint64_t position, addr, len;
};

struct kedge__literal_places { /* ascending positions, disjoint */
	struct kedge__literal_place *at;
	size_t count, room;
};

struct kedge__segment { /* all decoded and checked, but for the blocks */
	char *path;
	int fd;
	struct kedge__segment_header header;
	struct kedge__segment_footer footer;
	struct kedge__segment_summary summary;
	struct kedge__region_record *regions;
	size_t region_count;
	struct kedge__hash names; /* of the regions */
	struct kedge__extent_map map;
	enum kedge__map_encoding map_encoding;
	struct kedge__block_record *blocks;
	size_t block_count;
	struct kedge__source_record *sources;
	size_t source_count;
	uint64_t base; /* the version that some blocks were packed against; KEDGE__NO_VERSION: none was */
	struct kedge__literal_places places; /* of all literals, if there is a base */
	struct kedge__packing_record *packing; /* how the blocks of regions were packed, and why, as far as it is told */
	size_t packing_count;
	struct kedge__bucket *bucket; /* that paces what is read of it; NULL: nothing does */
};

/* PART, if not NULL, is what the manifest says the file must be. */
int kedge__segment_open(const char *path, const struct kedge__set_part *part, struct kedge__segment **out, struct kedge__error *err);
void kedge__segment_close(struct kedge__segment *seg);
/* The size of a segment's file: 0, or the errno of asking for it. */
int kedge__segment_look(const struct kedge__catalog *cat, uint64_t version, uint32_t rank, uint32_t generation, uint64_t *bytes);
char *kedge__segment_path(const struct kedge__catalog *cat, uint64_t version, uint32_t rank, uint32_t generation);
/* The stored bytes of block I, as their checksum says. Thread-safe, as all that follows. Errors name segment, block and region. */
int kedge__segment_read_stored(const struct kedge__segment *seg, size_t i, void *to, struct kedge__error *err);
/* The stored bytes of block FIRST and those that follow it in the file, as many as fit into the N pieces of TO, in one read;
 * each has to be checked then. TO is used up. */
int kedge__segment_read_run(const struct kedge__segment *seg, size_t first, struct iovec *to, size_t n, struct kedge__error *err);
int kedge__segment_check_stored(const struct kedge__segment *seg, size_t i, const void *stored, struct kedge__error *err);
/* Index of the block that holds literal position POS. */
size_t kedge__segment_find_block(const struct kedge__segment *seg, uint64_t pos);
const struct kedge__region_record *kedge__segment_find_region(const struct kedge__segment *seg, const char *name);

/* ------------------------------------------------------------------ lineage.c: all segments of one rank that a version needs */

/* LEVELS fastest first; each segment is taken from the first level where it opens and fits (image ids match). Falling back is logged. */
int kedge__lineage_open(struct kedge__catalog *const *levels, size_t n, uint64_t version, uint32_t rank, struct kedge__lineage **out, struct kedge__error *err);
void kedge__lineage_close(struct kedge__lineage *l);
const struct kedge__segment *kedge__lineage_top(const struct kedge__lineage *l);
const struct kedge__segment *kedge__lineage_segment(const struct kedge__lineage *l, uint64_t version); /* NULL */
size_t kedge__lineage_count(const struct kedge__lineage *l);
const struct kedge__segment *kedge__lineage_at(const struct kedge__lineage *l, size_t i);      /* ascending versions */
bool kedge__lineage_needs_others(const struct kedge__lineage *l); /* not all of it could be taken from the first level */
/* All ranges of the regions at once (N == 0), or RANGES. */
int kedge__lineage_resolve(struct kedge__lineage *l, const struct kedge__range *ranges, size_t n, struct kedge__span_list *out, struct kedge__error *err);
/* A block of VERSION's segment is damaged: use the copy on another level from now on, or other copies of those that refer to it, which need not need it. KEDGE_E_DAMAGED: there is no such way, and L is as before. Resolve again afterwards; no segment is where it was. */
int kedge__lineage_replace(struct kedge__lineage *l, uint64_t version, struct kedge__error *err);
/* LEN bytes at image address ADDR, one thread, with a small cache of decoded blocks: for coalescing, diff and odd reads. */
int kedge__lineage_read(struct kedge__lineage *l, uint64_t addr, void *buf, size_t len, struct kedge__error *err);
/* The same by several threads, each with a reader of its own; freed before the lineage is closed, and before a segment of it is replaced. */
struct kedge__lineage_reader;
int kedge__lineage_reader_new(struct kedge__lineage *l, struct kedge__lineage_reader **out, struct kedge__error *err);
void kedge__lineage_reader_free(struct kedge__lineage_reader *r);
int kedge__lineage_reader_read(struct kedge__lineage_reader *r, uint64_t addr, void *buf, size_t len, struct kedge__error *err);

/* ------------------------------------------------------------------ block_reader.c */

/*
 * Block I of SEG, which is one of L's segments: from its STORED bytes, or read and checked first, to its raw ones. SCRATCH has
 * room for its stored_bytes; not needed (NULL) for codec none. On failure *BAD (may be NULL) is the version whose
 * segment is at fault: SEG's, or one that SEG's block was packed against. L may be NULL for a block that needs no base
 * (KEDGE_E_STATE else). Thread-safe.
 */
int kedge__lineage_unpack_block(struct kedge__lineage *l, const struct kedge__segment *seg, size_t i, const void *stored, void *raw, uint64_t *bad, struct kedge__error *err);
int kedge__lineage_read_block(struct kedge__lineage *l, const struct kedge__segment *seg, size_t i, void *raw, void *scratch, uint64_t *bad, struct kedge__error *err);

/* ------------------------------------------------------------------ level.c */

/* Copy one rank's segment of VERSION to another catalogue (checked while copying, paced by BUCKET), not yet published there. Reading and
 * writing overlap: PROGRESS and BUCKET are used by a thread of their own. */
int kedge__level_copy(struct kedge__catalog *from, struct kedge__catalog *to, uint64_t version, uint32_t rank, bool sync, struct kedge__io io, struct kedge__bucket *bucket,
		      void (*progress)(void *ctx, uint64_t bytes), void *progress_ctx, struct kedge__set_part *part, struct kedge__error *err);

/* ------------------------------------------------------------------ batch.c */

struct kedge__batch {
	struct kedge__source_record image;  /* becomes one segment in another catalogue */
	struct kedge__source_record parent; /* that refers to this one alone, which must be there; KEDGE__NO_VERSION: to none */
	uint32_t rank;
	bool sync;
	struct kedge__io io;
	struct kedge__codec_choice codec;
	uint32_t block_bytes;
	struct kedge__bucket *bucket;
	void (*progress)(void *ctx, uint64_t bytes);
	void *progress_ctx;
};

/*
 * One rank's IMAGE of LEVELS (fastest first), with the last copy of every byte, as a segment in TO that is not yet
 * published. *REFERS: it needs the parent. What is damaged on one level is taken from another; if no level has it,
 * KEDGE_E_DAMAGED and nothing is left in TO; the same where what would be written does not come to the digests of its
 * regions (those of the parent are taken as right). Callers hold pins.
 */
int kedge__batch_write(struct kedge__catalog *const *levels, size_t n, struct kedge__catalog *to, const struct kedge__batch *batch,
		       struct kedge__set_part *part, bool *refers, struct kedge__error *err);

/* ------------------------------------------------------------------ coalesce.c, gc.c, verify.c */

struct kedge__coalesce_options {
	uint64_t version;      /* becomes one segment a rank that needs no version in [from, version) */
	uint64_t from;         /* 0: complete, it needs no other version at all */
	bool onto;             /* instead of FROM: it needs PARENT alone, an older version */
	uint64_t parent;
	bool keep_old;         /* do not remove [from, version) */
	bool no_wait;          /* KEDGE_E_LOCKED at once if somebody else has a pin */
	bool sync;
	struct kedge__io io;
	struct kedge__codec_choice codec;
	uint32_t block_bytes;
	void (*progress)(void *ctx, uint64_t done, uint64_t total);
	void *progress_ctx;
};

struct kedge__coalesce_report {
	uint64_t bytes_before, bytes_after; /* of the store */
	size_t versions_removed, versions_kept_for_lineage;
};

/* Seizes the guard. All ranks of the set must be in this store. What is written comes to the digests of all regions, or nothing
 * is changed and KEDGE_E_DAMAGED names version and region. Crash-safe at any point: the old form stays until the new one is published. */
int kedge__coalesce(struct kedge__catalog *cat, struct kedge__pool *pool, const struct kedge__coalesce_options *options, struct kedge__coalesce_report *report, struct kedge__error *err);

/*
 * trust.c: sets that need not be read again to be counted on, by the seals of all segments, so that another form of a version
 * is not meant. A job adds what it published itself (every byte was summed before it was stored, and nothing was found damaged
 * since), and gc what it proved. Thread-safe; all take NULL. What cannot be remembered without memory is proved again.
 */
struct kedge__trust;
struct kedge__trust *kedge__trust_new(void);
void kedge__trust_free(struct kedge__trust *t);
void kedge__trust_add(struct kedge__trust *t, const struct kedge__set *set); /* instead of another of that version */
bool kedge__trust_has(struct kedge__trust *t, const struct kedge__set *set);
void kedge__trust_drop(struct kedge__trust *t, uint64_t version);
void kedge__trust_clear(struct kedge__trust *t); /* something was found damaged */

struct kedge__gc_report {
	uint64_t bytes_freed;
	size_t removed, kept, kept_for_lineage, leftovers;
	size_t unusable;            /* of those kept: cannot be restored from here, not counted among the KEEP, logged */
	size_t proved;              /* versions that were read */
	uint64_t *removed_versions; /* owned; kedge__gc_report_done() */
};

struct kedge__gc_options {
	size_t keep;
	bool dry_run;
	bool quick;                 /* prove nothing: what can be opened counts */
	bool no_wait;               /* KEDGE_E_LOCKED at once if somebody else has a pin */
	bool brief;                 /* look for segments of no set only where a crash may have left them, by the index */
	struct kedge__trust *trust; /* of this store, and added to; NULL: nothing is */
	struct kedge__pool *pool;   /* NULL: one thread */
};

/*
 * Keep the newest KEEP good versions and all that they depend on; remove the others and what crashes left. Good is one that was
 * proved (kedge__verify_with()), with all that it needs, or whose lineage is trusted set by set. Others are not counted, and stay
 * if they are newer than the last that is. So nothing is removed on the word of a version that a restart would refuse. Nothing
 * is proved where nothing would be removed. It is done before the guard is seized: checkpoints need not wait for it. A version
 * that is published meanwhile stays, uncounted.
 */
int kedge__gc_with(struct kedge__catalog *cat, const struct kedge__gc_options *options, struct kedge__gc_report *report, struct kedge__error *err);
int kedge__gc(struct kedge__catalog *cat, size_t keep, bool dry_run, struct kedge__gc_report *report, struct kedge__error *err);
void kedge__gc_report_done(struct kedge__gc_report *report);

/* Versions that VERSION depends on, itself included, ascending, by the manifests. KEDGE_E_MISSING names an absent parent. *LIST: kedge__free(). */
int kedge__catalog_closure(const struct kedge__catalog *cat, uint64_t version, uint64_t **list, size_t *count, struct kedge__error *err);

struct kedge__finding { /* a place that is damaged */
	uint64_t version;
	uint32_t rank;
	const char *file;     /* path */
	int64_t block;        /* -1: not a block */
	const char *section;  /* "header", "footer", "index", "SUMM", ..., "file" (cannot be opened), "manifest", "marker", "lineage", "digest" (of a region), "rank" (no file of it at all), "stray"; NULL for a block */
	const char *region;   /* name, or NULL */
	const char *text;
};

struct kedge__verify_report {
	uint64_t bytes_checked;
	size_t sets, segments, blocks, findings;
	uint64_t blocks_unpacked;             /* those that were needed again, as the base of others, more than once */
	size_t strays;                        /* files of no set; told to FOUND as section "stray", but not among the findings */
	size_t versions_intact, versions_lost; /* lost: cannot be restored any more, directly damaged or by lineage */
	uint64_t *lost;                       /* owned; kedge__verify_report_done() */
	uint64_t newest_intact;                /* KEDGE__NO_VERSION: none is */
};

struct kedge__verify_options {
	uint64_t version; /* and what it needs; or KEDGE_NEWEST for all */
	bool quick;       /* stored bytes alone: blocks are not unpacked, and regions not held against their digests */
	bool local;       /* ranks without a file in this store are not missed */
	uint64_t memory;  /* for what is noted of blocks that are read together; 0: 64 MiB */
	void (*found)(void *ctx, const struct kedge__finding *f);
	void (*progress)(void *ctx, uint64_t done, uint64_t total);
	void *ctx;
};

/* Every byte of every file of the name: marker, manifests, segments, blocks; and that every version is what was saved. What
 * is not quick finds the versions lost that a restore from this store refuses, and no others. */
int kedge__verify_with(struct kedge__catalog *cat, struct kedge__pool *pool, const struct kedge__verify_options *options,
		       struct kedge__verify_report *report, struct kedge__error *err);
int kedge__verify(struct kedge__catalog *cat, struct kedge__pool *pool, uint64_t version /* or KEDGE_NEWEST for all */,
		  void (*found)(void *ctx, const struct kedge__finding *f), void *ctx,
		  void (*progress)(void *ctx, uint64_t done, uint64_t total),
		  struct kedge__verify_report *report, struct kedge__error *err);
void kedge__verify_report_done(struct kedge__verify_report *report);

#include "store/holdings.h" /* what a level holds at one moment, as a value */

#endif
