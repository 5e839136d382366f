/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * store: segments, sets, catalogues, locks, publishing (the commit point), lineage, levels,
 * coalescing, gc, verify. The format folder defines what the files look like; this folder decides when
 * they come and go.
 *
 * What may happen at the same time, on one name of one store:
 *  - the lock: one job owns the name from open to close. The lock of an owner that is proved to be dead is taken over.
 *  - the guard: whoever reads segments, or writes a version that refers to older ones, shares it
 *    (pin); whoever removes or rewrites versions holds it exclusively (seize). So gc and coalesce are
 *    safe beside a running job and beside readers. A read-only store needs no pins.
 *
 * A writer pins before it writes its first segment and unpins after the manifest is published (or the segments are
 * discarded): whoever holds the guard exclusively removes files that no manifest names.
 *
 * Threads: pin, unpin, seize and release may be called by several threads on one handle; everything else on one handle
 * is for one thread at a time. Different handles are independent and exclude each other like those of different
 * processes, even on one name in one process. A pin never waits for a thread that waits to seize on another handle.
 */
#ifndef KEDGE_STORE_STORE_H
#define KEDGE_STORE_STORE_H

#include "base/base.h"
#include "codec/codec.h"
#include "format/format.h"
#include "pipeline/pipeline.h"
#include "reduce/reduce.h"

#include <stdatomic.h>

#define KEDGE__JOURNAL_NAME "record-journal" /* src/job keeps it beside the sets; ".1": the one before */

/* ------------------------------------------------------------------ catalog.c: the sets of one name in one store */

struct kedge__catalog;

enum kedge__catalog_mode {
	KEDGE__CATALOG_READ,   /* a store, or a pack: a file, with one version of one name */
	KEDGE__CATALOG_CREATE, /* whatever is missing; KEDGE_E_CONFIG: the directory is not a store and holds other things */
	KEDGE__CATALOG_INIT,   /* the same, whatever the directory holds */
};

/* READ: KEDGE_E_NOTFOUND names the missing store, or the missing job and the nearest name there. Scans. Both directories
 * are kept open, and STORE, unless it is only read, is made absolute now: the program may change its directory. */
int kedge__catalog_open(const char *store, const char *name, enum kedge__catalog_mode mode, struct kedge__catalog **out, struct kedge__error *err);
/* Only what CREATE and INIT make: nothing of what is there is read. */
int kedge__catalog_make(const char *store, const char *name, enum kedge__catalog_mode mode, struct kedge__error *err);
/* Another handle of the same name that knows what CAT knows and reads nothing. Whatever is set, pinned or owned by way of one is not so by
 * way of the other. They share entries, which never change, and may be used, and closed, by different threads from then on. */
int kedge__catalog_dup(const struct kedge__catalog *cat, struct kedge__catalog **out, struct kedge__error *err);
void kedge__catalog_close(struct kedge__catalog *cat); /* releases lock and pins; takes NULL */
const char *kedge__catalog_store(const struct kedge__catalog *cat); /* its directory; absolute, unless it is only read */
const char *kedge__catalog_name(const struct kedge__catalog *cat);
/* *GONE: the directories at its paths are not those that were opened, or have lost the marker or this job's lock; then its
 * versions may be gone too. KEDGE_E_LOCKED: another process took the name over. */
int kedge__catalog_present(const struct kedge__catalog *cat, bool *gone, struct kedge__error *err);
/* Recreate whatever is gone, with the same store id, owned if it was, and scan. KEDGE_E_STATE: the path now leads to
 * another store. The caller holds no pin. */
int kedge__catalog_renew(struct kedge__catalog *cat, struct kedge__error *err);
struct kedge__store_id kedge__catalog_store_id(const struct kedge__catalog *cat); /* same id: same directory, whatever the path */
/* The names in a store that have at least one set, or the one of a pack; one kedge__fs_list_free(). */
int kedge__store_names(const char *store, char ***names, size_t *count, struct kedge__error *err);

/*
 * Every read through CAT from now on, of manifests and of segments in lineages, takes its bytes from BUCKET; the bytes read
 * so far are taken at once. BUCKET, which may be NULL, outlives the catalogue and its lineages.
 */
void kedge__catalog_pace(struct kedge__catalog *cat, struct kedge__bucket *bucket);

/* With SYNC false, manifests that are published through CAT are not made durable; neither are their segments. */
void kedge__catalog_set_sync(struct kedge__catalog *cat, bool sync);

/*
 * Make the entries current. Thanks to the index (index.c) the cost of scan does not grow with the number of versions.
 *
 * scan: takes in whatever was published or removed through any catalogue of this name, in any process, since the last scan; if
 * nothing was, it reads nothing. Changes that do not go through the index (by a user, by Kedge 0.1, by a process that was killed
 * between the change and its note) are noticed only if the index itself has changed.
 * rescan: calls stat() on every manifest and reads those that have changed. A manifest that cannot be decoded becomes an entry
 * with `problem` set, and is read each time.
 */
int kedge__catalog_scan(struct kedge__catalog *cat, struct kedge__error *err);
int kedge__catalog_rescan(struct kedge__catalog *cat, struct kedge__error *err);
uint64_t kedge__catalog_manifests_read(const struct kedge__catalog *cat); /* from their files, so far */

struct kedge__catalog_entry {
	uint64_t version;
	struct kedge__set set;  /* valid if problem.code is 0 */
	struct kedge__error problem;
	uint64_t image, files;  /* kedge__set_image() and kedge__set_files() of SET */
	struct kedge__file_state file; /* of the manifest that SET was read from */
	uint64_t read_at;       /* kedge__catalog_manifests_read() when it was read from its file; 0: the index had it */
	atomic_size_t users;    /* catalogues that have it: kedge__catalog_dup(). Nothing else of it ever changes */
};

uint64_t kedge__catalog_changes(const struct kedge__catalog *cat); /* how often its entries have changed so far */
size_t kedge__catalog_problems(const struct kedge__catalog *cat);  /* entries with a problem */
/* One number of all others: catalogues with the same versions, images, runs and numbers of ranks have the same. */
uint64_t kedge__catalog_digest(const struct kedge__catalog *cat);
bool kedge__catalog_has_directory(const struct kedge__catalog *cat, uint64_t version); /* that VERSION's segments are in */
size_t kedge__catalog_count(const struct kedge__catalog *cat);                                    /* ascending versions */
const struct kedge__catalog_entry *kedge__catalog_at(const struct kedge__catalog *cat, size_t i);
size_t kedge__catalog_below(const struct kedge__catalog *cat, uint64_t version); /* entries below VERSION: the first so many */
const struct kedge__catalog_entry *kedge__catalog_find(const struct kedge__catalog *cat, uint64_t version); /* NULL */

#define KEDGE__WATCH_NAME "watch" /* in the directory of a name: the journal of kedge watch */

/* What the number of a segment of VERSION is the number of: "rank", or if it has a grouping "segment". */
const char *kedge__levels_unit(struct kedge__catalog *const *levels, size_t count, uint64_t version);

/* ------------------------------------------------------------------ pack.c: one self-contained segment, without a store around it */

bool kedge__pack_is_at(const char *path); /* a file; whether it is one that can be read shows when it is opened */
bool kedge__pack_begins_at(const char *path); /* it begins as packs do, or cannot be read */
/* The name of the job in a pack: kedge__free(). */
int kedge__pack_name(const char *path, char **name, struct kedge__error *err);

/* ------------------------------------------------------------------ history.c: which versions belong to the current run */

/* A set of the current run: of all sets on LEVELS, one with the highest epoch. NULL: there are no sets. Valid until a catalogue changes. */
const struct kedge__set *kedge__history_head(struct kedge__catalog *const *levels, size_t n);
bool kedge__history_has(const struct kedge__run *run, const struct kedge__set *set);
bool kedge__history_abandons(const struct kedge__run *run, const struct kedge__set *set); /* it may be removed */
/* Remove the versions that RUN abandoned, and count them in *REMOVED. Caller owns the name. If FIRST is the only version of RUN so
 * far, unreadable manifests above the last version that RUN follows are removed, too; with KEDGE__NO_VERSION they stay. If FIRST
 * replaces a version of REPLACED, that stays as well, until a later sweep without it (NULL). */
int kedge__history_sweep(struct kedge__catalog *cat, const struct kedge__run *run, uint64_t first, const struct kedge__run *replaced,
			 size_t *removed, struct kedge__error *err);

/* Check one manifest with stat(), and read it if it has changed: the entry is replaced, added, or removed with the file. */
int kedge__catalog_refresh(struct kedge__catalog *cat, uint64_t version, struct kedge__error *err);

/* The same for VERSION and all that it depends on. Call it before writing something that needs them: a scan may have missed changes
 * made behind the index. */
int kedge__catalog_refresh_lineage(struct kedge__catalog *cat, uint64_t version, struct kedge__error *err);

/* ------------------------------------------------------------------ sight.c: what is there, before anything is created or trusted */

enum kedge__sight {
	KEDGE__SIGHT_NOTHING, /* no directory */
	KEDGE__SIGHT_EMPTY,   /* an empty one */
	KEDGE__SIGHT_OTHER,   /* one that is not a store */
	KEDGE__SIGHT_STORE,
	KEDGE__SIGHT_DAMAGED, /* a store whose marker cannot be read: its id is unknown */
	KEDGE__SIGHT_ERROR,
};

/* Changes nothing. *ID is all zero except with SIGHT_STORE; ERR is set only with SIGHT_ERROR. */
enum kedge__sight kedge__store_look(const char *store, struct kedge__store_id *id, struct kedge__error *err);
const char *kedge__sight_text(enum kedge__sight sight); /* "an empty directory" */
bool kedge__store_id_equal(const struct kedge__store_id *a, const struct kedge__store_id *b);

/*
 * Two paths lead to one directory if a file written through one is visible through the other. Of all callers that claim one nonce
 * in one directory, exactly one creates the probe (*MADE), and removes it; it holds a pin while the probe exists. Once the
 * creator's claim has returned, the others can read its rank; *SEEN false: there is no such probe.
 */
int kedge__probe_claim(const struct kedge__catalog *cat, uint64_t nonce, uint32_t rank, bool *made, struct kedge__error *err);
int kedge__probe_read(const struct kedge__catalog *cat, uint64_t nonce, bool *seen, uint32_t *rank, struct kedge__error *err);
void kedge__probe_remove(const struct kedge__catalog *cat, uint64_t nonce);

/* Which store is the L2 of the job, as recorded in its L1, CAT. KEDGE_E_NOTFOUND: it had none. One kedge__tie_done(). */
int kedge__tie_read(const struct kedge__catalog *cat, struct kedge__tie *tie, struct kedge__error *err);
int kedge__tie_write(const struct kedge__catalog *cat, const struct kedge__tie *tie, struct kedge__error *err);

/* ------------------------------------------------------------------ request.c */

enum kedge__request_kind { KEDGE__REQUEST_NONE, KEDGE__REQUEST_CHECKPOINT, KEDGE__REQUEST_EXIT };
#define KEDGE__REQUEST_WHY 160

struct kedge__request { /* of somebody outside, to a running job */
	enum kedge__request_kind kind; /* a version; a version, and then the end */
	uint64_t ns;                   /* since 1970, when it was made: requests are told apart by it */
	char why[KEDGE__REQUEST_WHY];
};

const char *kedge__request_kind(enum kedge__request_kind kind);         /* "checkpoint", "exit" */
char *kedge__request_path(const char *store, const char *name);          /* where a job looks for one; kedge__free(), NULL: no memory */
int kedge__request_write(const char *path, const struct kedge__request *r, struct kedge__error *err); /* in place of another one */
bool kedge__request_read(const char *path, struct kedge__request *r);   /* false: there is none */
void kedge__request_remove(const char *path, uint64_t ns);              /* if it is still the one of NS */

/* ------------------------------------------------------------------ lock.c */

#define KEDGE__HOLDER_TEXT 512

/* The user asserts that an owner has ended about which nothing can be proved. */
void kedge__catalog_set_take_over(struct kedge__catalog *cat, bool take_over);
/* Own the name. KEDGE_E_LOCKED: "... is in use by <owner> (pid N on HOST, since TIME)". */
int kedge__catalog_own(struct kedge__catalog *cat, const char *owner, struct kedge__error *err);
bool kedge__catalog_owned_by(const struct kedge__catalog *cat, const char *owner); /* as far as the lock's file says */
/* *USED: somebody owns it; TEXT: who. */
int kedge__catalog_in_use(const struct kedge__catalog *cat, bool *used, char text[KEDGE__HOLDER_TEXT], struct kedge__error *err);
void kedge__catalog_disown(struct kedge__catalog *cat); /* removes the lock file */
/* Pins count; seize waits for all pins of other handles (WAIT false: KEDGE_E_LOCKED at once). Do not seize while holding a pin. */
int kedge__catalog_pin(struct kedge__catalog *cat, struct kedge__error *err);
void kedge__catalog_unpin(struct kedge__catalog *cat);
int kedge__catalog_seize(struct kedge__catalog *cat, bool wait, struct kedge__error *err);
void kedge__catalog_release(struct kedge__catalog *cat);

/* ------------------------------------------------------------------ publish.c: the only code that makes a set visible or removes it */

/* Write the manifest (temporary name, sync, rename, sync directory; see kedge__catalog_set_sync()). An older manifest of the version is replaced, and
 * segments of older generations or of a replaced set are removed afterwards. Caller holds a pin. Rescans the entry. */
int kedge__set_publish(struct kedge__catalog *cat, const struct kedge__set *set, struct kedge__error *err);
/* Remove manifest first, then segments. Caller has seized, or owns the name and removes a version above all others. */
int kedge__set_remove(struct kedge__catalog *cat, uint64_t version, struct kedge__error *err);
/* annotate.c: publish VERSION again with another NOTE and other LABELS; NULL: it has none. Its segments stay. Seizes. */
int kedge__set_annotate(struct kedge__catalog *cat, uint64_t version, const char *note, const char *labels, struct kedge__error *err);
/* Discard all sets with versions above VERSION, newest first (an abandoned future). */
int kedge__set_discard_above(struct kedge__catalog *cat, uint64_t version, struct kedge__error *err);
/* Remove what a crash left behind: temporary files, segments that no manifest names, empty directories. Seizes (without waiting; skips if busy). */
int kedge__catalog_clean(struct kedge__catalog *cat, size_t *removed, struct kedge__error *err);

/* ------------------------------------------------------------------ segment_file.c: how bytes move between memory and files */

enum kedge__writer { KEDGE__WRITER_AUTO, KEDGE__WRITER_PWRITE, KEDGE__WRITER_URING };

struct kedge__io { /* the settings of these names; all zero: their defaults */
	enum kedge__writer writer;
	bool direct;     /* bypass the page cache */
	uint64_t buffer; /* bytes per buffer of the rings, and per write; 0: KEDGE__IO_BUFFER */
	size_t queue;    /* buffers per ring; 0: the pipeline's default */
};

#define KEDGE__IO_BUFFER (UINT64_C(1) << 20)

static inline size_t kedge__io_buffer(const struct kedge__io *io)
{
	return (size_t)(io->buffer ? io->buffer : KEDGE__IO_BUFFER);
}

/*
 * Who takes the bytes of a segment to its file, where the process does not write it by itself: another process that sees
 * the same store. A file that was begun is ended by commit, which returns when it has its name, synced if SYNC, or by
 * drop; one that failed is dropped, too. One thread at a time per file.
 */
struct kedge__carrier {
	int (*begin)(void *ctx, uint64_t version, uint32_t rank, uint32_t generation, bool sync, void **file, struct kedge__error *err);
	int (*append)(void *file, const void *data, size_t bytes, struct kedge__error *err); /* DATA may be reused when it returns */
	int (*commit)(void *file, struct kedge__error *err);
	void (*drop)(void *file);
	void *ctx;
};

/* Segments that are written through CAT from now on are carried by C, which outlives the catalogue; NULL: by nobody. */
void kedge__catalog_carry(struct kedge__catalog *cat, const struct kedge__carrier *c);

/* The other end: bytes that come from elsewhere become a segment of CAT. One thread at a time per catalogue to open it, and per
 * segment for the rest. */
struct kedge__inbound;
int kedge__inbound_open(struct kedge__catalog *cat, uint64_t version, uint32_t rank, uint32_t generation, bool sync, struct kedge__inbound **out,
			struct kedge__error *err);
int kedge__inbound_append(struct kedge__inbound *in, const void *data, size_t bytes, struct kedge__error *err);
int kedge__inbound_commit(struct kedge__inbound *in, struct kedge__error *err); /* it has its name, and is synced if it was to be */
void kedge__inbound_close(struct kedge__inbound *in); /* what was not committed is removed; takes NULL */

/* ------------------------------------------------------------------ segment_writer.c */

struct kedge__lineage;
struct kedge__companion;
struct kedge__trust;

/* The base, i.e. the version that blocks may be packed against: opened when a codec asks for it, and closed by the block writer. */
struct kedge__base_source {
	int (*open)(void *ctx, struct kedge__lineage **out, struct kedge__error *err); /* NULL: there is none */
	void *ctx;
};

/* What a codec is told of a region. */
static inline struct kedge__codec_region kedge__codec_region_of(const struct kedge__region_record *r)
{
	return (struct kedge__codec_region){.id = r->slot,
					    .name = r->name,
					    .type = (enum kedge_type)r->type,
					    .bytes = r->bytes,
					    .ndims = (int)r->ndims,
					    .dims = r->dims};
}

struct kedge__segment_spec {
	const char *name;
	uint64_t version;
	uint32_t rank, ranks, generation;
	uint32_t bundle; /* as struct kedge__berth has them */
	uint64_t start;
	uint32_t next_slot;
	const struct kedge__region_record *regions; /* region i of the image */
	size_t region_count;
	const struct kedge__reduction *reduction;   /* map, literals, reducer, chunk, parent; its digests, if any, go before those of the regions */
	const struct kedge__literal_source *source; /* NULL: the literals are in memory; otherwise their `data` is ignored */
	uint64_t created_ns;                        /* 0: now */
	const struct kedge__source_record *sources;
	size_t source_count;
	struct kedge__codec_choice codec;
	const struct kedge__codec_plan *plans;      /* of regions whose blocks are ready: how they were packed, by kedge__codec_plan_there() */
	struct kedge__codec_memory *memory;         /* codecs chosen for earlier versions; NULL: choose afresh each time */
	struct kedge__base_source base;             /* "auto" uses it only for versions that refer to others anyway */
	uint32_t block_bytes;                       /* raw bytes per block; a block ends at the end of its region */
	struct kedge__io io;
	bool sync;                                  /* fsync before rename; only tests and scratch levels in memory turn it off */
	struct kedge__bucket *bucket;               /* NULL: no pacing */
	void (*progress)(void *ctx, uint64_t bytes); /* raw literal bytes written so far; any thread, one at a time */
	void *progress_ctx;
	struct kedge__companion *companion;                   /* NULL: nobody copies it meanwhile */
	struct kedge__catalog *home;                /* that it will be brought to afterwards, and whose versions it may continue; NULL: it stays */
};

struct kedge__segment_stats {
	uint64_t stored_bytes, literal_bytes, metadata_bytes;
	double encode_seconds; /* of all encoding threads, divided by their number */
	double write_seconds;  /* including sync and rename */
	uint64_t base;         /* version that blocks were packed against, now part of the lineage; KEDGE__NO_VERSION: none */
	struct kedge__pipeline_stats pipeline; /* collect, encode, append; all zero without literals */
};

/* Temporary name, blocks, sections, index, footer, sync, rename, sync directory. On failure nothing is left behind. */
int kedge__segment_write(struct kedge__catalog *cat, struct kedge__pool *pool, const struct kedge__segment_spec *spec,
			 struct kedge__set_part *part, struct kedge__segment_stats *stats, struct kedge__error *err);
/* The generation under which a version must be written: above the published one and not used by any file; 0 for a new version. */
int kedge__catalog_next_generation(const struct kedge__catalog *cat, uint64_t version, uint32_t rank, uint32_t *generation, struct kedge__error *err);
/* Remove a finished segment that will not be published. KEDGE_E_STATE if it is, e.g. because a failed publish could not be undone. */
int kedge__segment_discard(struct kedge__catalog *cat, uint64_t version, uint32_t rank, uint32_t generation, struct kedge__error *err);

/* ------------------------------------------------------------------ bundle.c: files with the segments of several ranks
 *
 * FIRST is the lowest rank of a bundle. A bundle has a temporary name until all its segments are written, and synced. */

/* Where a segment is written: to a file of its own, or, if BUNDLE is not 0, from START on into that of its bundle. */
struct kedge__berth {
	uint32_t generation;
	uint32_t bundle; /* ranks per bundle */
	uint64_t start;
};

/* As kedge__catalog_next_generation(). */
int kedge__bundle_generation(const struct kedge__catalog *cat, uint64_t version, uint32_t first, uint32_t *generation, struct kedge__error *err);
/* All that belongs to it is there: rename; with SYNC, the directory is synced. */
int kedge__bundle_name(struct kedge__catalog *cat, uint64_t version, uint32_t first, uint32_t generation, bool sync, struct kedge__error *err);
/* Remove one that will not be published, named or not, or not even begun. KEDGE_E_STATE if it is published. */
int kedge__bundle_discard(struct kedge__catalog *cat, uint64_t version, uint32_t first, uint32_t generation, struct kedge__error *err);

/* ------------------------------------------------------------------ segment_reader.c */

/* Where literals belong: LEN of them, from POSITION on, to the addresses from ADDR on. */
struct kedge__literal_place {
	uint64_t position, addr, len;
};

struct kedge__literal_places { /* ascending positions, disjoint */
	struct kedge__literal_place *at;
	size_t count, room;
};

struct kedge__segment { /* everything decoded and checked, except the blocks */
	char *path;
	int fd;
	uint64_t start; /* where it begins in the file: not 0 in a bundle */
	uint32_t first_rank, rank_count; /* that it has files of, if its version has a grouping; rank_count 0: none, or it is not known */
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
	uint8_t *sums; /* of the pages of blocks, as they are stored; NULL: no block has pages */
	struct kedge__source_record *sources;
	size_t source_count;
	uint64_t base; /* the version that some blocks were packed against; KEDGE__NO_VERSION: none was */
	struct kedge__literal_places places; /* of all literals, if there is a base */
	struct kedge__packing_record *packing; /* how the blocks of regions were packed, and why, as far as the segment says */
	size_t packing_count;
	struct kedge__classes_record classes; /* by which literals were arranged; none: they were not */
	struct kedge__bucket *bucket; /* paces reads of it; NULL: reads are not paced */
};

/* PART, if not NULL, is what the manifest says the file must be. CAT has the versions whose tables of regions the segment may
 * continue; NULL: one that does cannot be opened. */
int kedge__segment_open(struct kedge__catalog *cat, const char *path, const struct kedge__set_part *part, struct kedge__segment **out, struct kedge__error *err);
void kedge__segment_close(struct kedge__segment *seg);
/* The size of a segment, as far as its file goes: 0, or the errno of stat(). */
int kedge__segment_look(const struct kedge__catalog *cat, uint64_t version, uint32_t rank, const struct kedge__set_part *part, uint64_t *bytes);
/* The file that has the segment PART of RANK: its own, or a bundle, which has it at PART->start. */
char *kedge__part_path(const struct kedge__catalog *cat, uint64_t version, uint32_t rank, const struct kedge__set_part *part);
char *kedge__segment_path(const struct kedge__catalog *cat, uint64_t version, uint32_t rank, uint32_t generation); /* one of its own */
/* The stored bytes of block I, checked against their checksum. Thread-safe, as are the following. Errors name segment, block and region. */
int kedge__segment_read_stored(const struct kedge__segment *seg, size_t i, void *to, struct kedge__error *err);
/* The stored bytes of block FIRST, from OFFSET on, and of as many following blocks as fit into the N pieces of TO, in one read; the
 * caller checks each. TO is modified. */
int kedge__segment_read_run(const struct kedge__segment *seg, size_t first, uint32_t offset, struct iovec *to, size_t n, struct kedge__error *err);
int kedge__segment_check_stored(const struct kedge__segment *seg, size_t i, const void *stored, struct kedge__error *err);
/* The same for BYTES stored bytes from OFFSET on: entire pages, if the block has pages, otherwise all of it. */
int kedge__segment_check_part(const struct kedge__segment *seg, size_t i, uint32_t offset, const void *stored, uint32_t bytes, struct kedge__error *err);
/* The same for block I, which has no codec. The bytes are copied to TO on the way, past the cache, also if they turn out to be
 * damaged, and their sum at byte POS of a region, a multiple of 8, is added to *SUM. If they may change
 * meanwhile, TO has what was checked only where kedge__copy_reads_once(). NEXT: what the caller checks afterwards, or NULL.
 * kedge__copy_fence() before another thread is told. */
int kedge__segment_place_part(const struct kedge__segment *seg, size_t i, uint32_t offset, const void *stored, const void *next,
			      uint32_t bytes, void *to, uint64_t pos, struct kedge__sum *sum, struct kedge__error *err);
/* The same, where TO is memory that is used soon, and nothing is summed. */
int kedge__segment_take_part(const struct kedge__segment *seg, size_t i, uint32_t offset, const void *stored, uint32_t bytes, void *to,
			     struct kedge__error *err);
/* LEN bytes from OFFSET on of a block with pages; others than those pages are not read. */
int kedge__segment_read_pages(const struct kedge__segment *seg, size_t i, uint32_t offset, void *to, size_t len, struct kedge__error *err);
/* Index of the block that holds literal position POS. */
size_t kedge__segment_find_block(const struct kedge__segment *seg, uint64_t pos);
const struct kedge__region_record *kedge__segment_find_region(const struct kedge__segment *seg, const char *name);

/* The size and the seal that the file at PATH has at its end; false: it has none. Nothing else is read. */
bool kedge__segment_glance(const char *path, uint64_t *bytes, struct kedge__digest *seal);
/* Every byte of the file at PATH that counts is as it was written: it has the seal of PART, and all sections and blocks match
 * their checksums. No other version is needed, and nothing is unpacked. */
int kedge__segment_sound(const char *path, const struct kedge__set_part *part, struct kedge__error *err);

/* ------------------------------------------------------------------ shield_file.c: what protects segments of other nodes (format.h) */

char *kedge__shield_path(const struct kedge__catalog *cat, uint64_t version, uint32_t rank, uint32_t generation);

struct kedge__rank_file { /* a segment or a shield that other ranks had a part in, until it has its name */
	char *dir, *tmp, *path;
	int fd;
	bool sync, renamed;
};

struct kedge__shield_writer { /* rows, one after the other */
	struct kedge__rank_file file;
	size_t header, row;
	uint64_t rows, done;
	uint8_t *sums;
};

/* The file and everything that it needs, so that rows and commit need no memory. On failure nothing is left. */
int kedge__shield_create(struct kedge__shield_writer *w, struct kedge__catalog *cat, const struct kedge__shield *s, bool sync,
			 struct kedge__error *err);
int kedge__shield_append(struct kedge__shield_writer *w, const uint8_t *row, struct kedge__error *err);
/* After all rows: checksums, sync, rename, sync of the directory. */
int kedge__shield_commit(struct kedge__shield_writer *w, struct kedge__error *err);
void kedge__shield_abort(struct kedge__shield_writer *w); /* undo whatever was done */
void kedge__shield_writer_done(struct kedge__shield_writer *w);

struct kedge__shield_file { /* an existing one */
	char *path;
	int fd;
	struct kedge__shield shield;
	size_t header;
};

/* Reads the header; the file has the size that it asks for. */
int kedge__shield_open(const char *path, struct kedge__shield_file *out, struct kedge__error *err);
void kedge__shield_close(struct kedge__shield_file *f); /* takes one that is zeroed */
int kedge__shield_check(const struct kedge__shield_file *f, struct kedge__error *err); /* every row matches its checksum */
/* Is it one of SET, kept by RANK, for segments that SET has? */
bool kedge__shield_fits(const struct kedge__shield *s, const struct kedge__set *set, uint32_t rank);

/* A segment of another rank's bytes, at any place; then, if the file is sound: sync, rename, sync of the directory. */
int kedge__incoming_open(struct kedge__rank_file *in, struct kedge__catalog *cat, uint64_t version, uint32_t rank, uint32_t generation,
			 bool sync, struct kedge__error *err);
int kedge__incoming_put(struct kedge__rank_file *in, const void *data, size_t bytes, uint64_t at, struct kedge__error *err);
int kedge__incoming_commit(struct kedge__rank_file *in, const struct kedge__set_part *part, struct kedge__error *err);
void kedge__incoming_abort(struct kedge__rank_file *in);
void kedge__incoming_done(struct kedge__rank_file *in);

/* Each segment and shield in the directories of versions, whatever the manifests say. EACH returns 0, or what ends it. */
struct kedge__found_file {
	uint64_t version;
	uint32_t rank, generation;
	bool shield;
	const char *path;
};
int kedge__catalog_files(const struct kedge__catalog *cat, int (*each)(void *ctx, const struct kedge__found_file *f, struct kedge__error *err),
			 void *ctx, struct kedge__error *err);
/* Remove files of RANK that VERSION's set names: the rank is elsewhere now, and has them there. Caller owns the name. */
int kedge__rank_files_remove(struct kedge__catalog *cat, uint64_t version, uint32_t rank, uint32_t generation, struct kedge__error *err);

/* ------------------------------------------------------------------ lineage.c: all segments of one rank that a version needs */

/* LEVELS fastest first; each segment is taken from the first level where it opens and its image id matches. A fallback is logged. */
int kedge__lineage_open(struct kedge__catalog *const *levels, size_t n, uint64_t version, uint32_t rank, struct kedge__lineage **out, struct kedge__error *err);
/* The same on all threads of POOL, which outlives the lineage: also when a segment of it is replaced. */
int kedge__lineage_open_by(struct kedge__pool *pool, struct kedge__catalog *const *levels, size_t n, uint64_t version, uint32_t rank, struct kedge__lineage **out,
			   struct kedge__error *err);
void kedge__lineage_close(struct kedge__lineage *l);
const struct kedge__segment *kedge__lineage_top(const struct kedge__lineage *l);
const struct kedge__segment *kedge__lineage_segment(const struct kedge__lineage *l, uint64_t version); /* NULL */
size_t kedge__lineage_count(const struct kedge__lineage *l);
const struct kedge__segment *kedge__lineage_at(const struct kedge__lineage *l, size_t i);      /* ascending versions */
bool kedge__lineage_needs_others(const struct kedge__lineage *l); /* the first level did not have all of it */
/* All ranges of the regions at once (N == 0), or RANGES. */
int kedge__lineage_resolve(struct kedge__lineage *l, const struct kedge__range *ranges, size_t n, struct kedge__span_list *out, struct kedge__error *err);
/* A block of VERSION's segment is damaged: from now on use the copy on another level, or copies of the versions that refer to it which do
 * not need it. KEDGE_E_DAMAGED: neither exists, and L is unchanged. Resolve again afterwards; pointers to segments are invalid. */
int kedge__lineage_replace(struct kedge__lineage *l, uint64_t version, struct kedge__error *err);
/* No file of L was changed since the set that names it was published, as far as the times of the file system show it. */
bool kedge__lineage_untouched(const struct kedge__lineage *l);
bool kedge__lineage_current(const struct kedge__lineage *l); /* its files are those that were opened, and as they were then */
/* Data of L turned out to be damaged: the files at fault, or all if none is known, count as changed from now on, in other
 * processes, too. */
void kedge__lineage_distrust(const struct kedge__lineage *l);
/* LEN bytes at image address ADDR, one thread, with a small cache of decoded blocks: for coalescing, diff and odd reads. */
int kedge__lineage_read(struct kedge__lineage *l, uint64_t addr, void *buf, size_t len, struct kedge__error *err);
/* How many blocks were read to be decoded so far, for those who asked and as bases of others; the same one may count again. */
uint64_t kedge__lineage_unpacked(const struct kedge__lineage *l);
/* The same for several threads, one reader per thread; free it before closing the lineage and before replacing a segment of it. */
struct kedge__lineage_reader;
int kedge__lineage_reader_new(struct kedge__lineage *l, struct kedge__lineage_reader **out, struct kedge__error *err);
void kedge__lineage_reader_free(struct kedge__lineage_reader *r);
int kedge__lineage_reader_read(struct kedge__lineage_reader *r, uint64_t addr, void *buf, size_t len, struct kedge__error *err);

/* ------------------------------------------------------------------ block_reader.c */

/*
 * Block I of SEG, one of L's segments: unpack its STORED bytes, or read, check and unpack them, into RAW. SCRATCH has
 * room for its stored_bytes; not needed (NULL) for codec none. On failure *BAD (may be NULL) is the version whose
 * segment is at fault: SEG's, or one that SEG's block was packed against. L may be NULL for a block that needs no base
 * (otherwise KEDGE_E_STATE). Thread-safe.
 */
int kedge__lineage_unpack_block(struct kedge__lineage *l, const struct kedge__segment *seg, size_t i, const void *stored, void *raw, uint64_t *bad, struct kedge__error *err);
int kedge__lineage_read_block(struct kedge__lineage *l, const struct kedge__segment *seg, size_t i, void *raw, void *scratch, uint64_t *bad, struct kedge__error *err);

/* ------------------------------------------------------------------ companion.c: a segment on two levels at once
 *
 * While one thread writes a segment (spec.companion), another one copies what is there so far to another level. The writer never waits for the
 * copy, and does not fail with it. kedge__level_copy() takes it over once the segment is published; else it is removed with the companion. */

struct kedge__companion_place {
	struct kedge__catalog *cat; /* pinned, and scanned */
	uint64_t version;
	uint32_t rank;
	bool sync;
	struct kedge__io io;
	struct kedge__bucket *bucket; /* NULL: no pacing */
};

int kedge__companion_new(struct kedge__companion **out, struct kedge__error *err);
/* The copying thread, once: until all of it is copied, and synced, or given up. On failure nothing is left. */
int kedge__companion_run(struct kedge__companion *t, const struct kedge__companion_place *to, struct kedge__error *err);
void kedge__companion_give_up(struct kedge__companion *t); /* it will not be needed; any thread; takes NULL */
void kedge__companion_free(struct kedge__companion *t);    /* nobody runs or writes any more; takes NULL */

/* ------------------------------------------------------------------ level.c */

/* Copy one rank's segment of VERSION to another catalogue (checked while copying, paced by BUCKET), without publishing it. TWIN, or NULL,
 * may have done that while the segment was written. Reading and writing overlap: PROGRESS and BUCKET are used by
 * another thread. */
int kedge__level_copy(struct kedge__catalog *from, struct kedge__catalog *to, uint64_t version, uint32_t rank, bool sync, struct kedge__io io, struct kedge__bucket *bucket,
		      struct kedge__companion *companion, void (*progress)(void *ctx, uint64_t bytes), void *progress_ctx, struct kedge__set_part *part,
		      struct kedge__error *err);

/* The same of *PART, which FROM has but need not have published, to its place BERTH in a bundle of TO. Several processes do so at
 * once, each with a place of its own; *PART becomes what TO has then. */
int kedge__level_bundle(struct kedge__catalog *from, struct kedge__catalog *to, uint64_t version, uint32_t rank, const struct kedge__berth *berth,
			bool sync, struct kedge__io io, struct kedge__bucket *bucket, void (*progress)(void *ctx, uint64_t bytes), void *progress_ctx,
			struct kedge__set_part *part, struct kedge__error *err);

/* ------------------------------------------------------------------ batch.c */

struct kedge__batch {
	struct kedge__source_record image;  /* becomes one segment in another catalogue */
	struct kedge__source_record parent; /* the only version it may refer to, which must be there; KEDGE__NO_VERSION: it is self-contained */
	uint32_t rank;
	struct kedge__catalog *aside; /* where the segment is written, to be brought there later; NULL: there at once */
	bool sync;
	struct kedge__io io;
	struct kedge__codec_choice codec;
	uint32_t block_bytes;
	struct kedge__bucket *bucket;
	void (*progress)(void *ctx, uint64_t bytes);
	void *progress_ctx;
};

/*
 * Write one rank's IMAGE, read from LEVELS (fastest first), as one segment in TO, without publishing it. *REFERS: it
 * needs the parent. Damaged segments are replaced by copies on other levels. KEDGE_E_DAMAGED, with nothing left in TO: no
 * level has an intact copy, or the result does not match the digests of its regions (those of the parent are assumed to be
 * right). Callers hold pins.
 */
int kedge__batch_write(struct kedge__catalog *const *levels, size_t n, struct kedge__catalog *to, const struct kedge__batch *batch,
		       struct kedge__set_part *part, bool *refers, struct kedge__error *err);

#include "store/keep.h"

/* keep_catalog.c: SPARE, one for each entry: 1 if it is there only because others refer to it, or not yet removed, by what the newest
 * manifest says is kept. Those are not listed. */
int kedge__catalog_spare(const struct kedge__catalog *cat, uint8_t *spare, struct kedge__error *err);

/* ------------------------------------------------------------------ coalesce.c, gc.c, verify.c */

struct kedge__coalesce_options {
	uint64_t version;      /* becomes one segment per rank that needs no version in [from, version) */
	uint64_t from;         /* 0: it becomes self-contained */
	bool onto;             /* instead of FROM: it needs only PARENT, an older version */
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

/* Seizes the guard. All ranks of the set must be in this store. If the result does not match the digests of all regions, nothing is
 * changed and KEDGE_E_DAMAGED names version and region. Crash-safe at any point: the old form stays until the new one is published. */
int kedge__coalesce(struct kedge__catalog *cat, struct kedge__pool *pool, const struct kedge__coalesce_options *options, struct kedge__coalesce_report *report, struct kedge__error *err);

/*
 * remove.c: VERSION goes, wherever in the lineage of others it is: those that refer to it are rewritten first, one after the other,
 * as HOW says (its versions do not matter), and need no version from it on afterwards. Crash-safe: until it is gone, all are what
 * they were, in one form or the other. *REWRITTEN counts them. Caller owns the name.
 */
int kedge__version_remove(struct kedge__catalog *cat, struct kedge__pool *pool, const struct kedge__coalesce_options *how, uint64_t version,
			  size_t *rewritten, struct kedge__error *err);
/* All versions of the name, and its directory, unless other things are in it. Caller owns the name, and only closes CAT afterwards. */
int kedge__catalog_destroy(struct kedge__catalog *cat, struct kedge__error *err);
/* Of the versions that KEEP asks for, all that are older than the newest RECENT need no others afterwards: some of them are rewritten, as
 * HOW says; not more than MOST, if that is not 0. */
int kedge__gc_rewrite(struct kedge__catalog *cat, struct kedge__pool *pool, const struct kedge__coalesce_options *how,
		      const struct kedge__keep *keep, size_t recent, size_t most, struct kedge__trust *trust, size_t *rewritten,
		      struct kedge__error *err);

/*
 * trust.c: sets that are known to be intact and need not be read again. They are identified by the seals of all segments, so that
 * another form of the same version is not trusted. A job adds the sets that it published (every byte was summed before it was stored,
 * and no damage was found since), and gc those that it proved. Thread-safe; all take NULL. A set that cannot be added for lack of
 * memory is proved again.
 */
struct kedge__trust *kedge__trust_new(void);
void kedge__trust_free(struct kedge__trust *t);
void kedge__trust_add(struct kedge__trust *t, const struct kedge__set *set); /* replaces another form of that version */
bool kedge__trust_has(struct kedge__trust *t, const struct kedge__set *set);
void kedge__trust_drop(struct kedge__trust *t, uint64_t version);
void kedge__trust_clear(struct kedge__trust *t); /* damage was found */

struct kedge__gc_report {
	uint64_t bytes_freed;
	size_t removed, kept, kept_for_lineage, leftovers;
	size_t unusable;            /* of those kept: they cannot be restored from here; logged, and not counted among the KEEP */
	size_t proved;              /* versions that were read */
	uint64_t *removed_versions; /* owned; kedge__gc_report_done() */
	uint64_t bytes_left;        /* of what stays, as far as KEEP counts bytes */
	struct kedge__keep_item *items; /* every version, ascending, with why it stays or goes; owned, without what they need */
	uint64_t *needed_by;        /* for each: the newest that stays and refers to it, if nothing asks for it; or KEDGE__NO_VERSION; owned */
	size_t item_count;
};

struct kedge__gc_options {
	struct kedge__keep keep;    /* everything: an error */
	bool dry_run;
	bool quick;                 /* prove nothing: a version that can be opened counts */
	bool no_wait;               /* KEDGE_E_LOCKED at once if somebody else has a pin */
	bool brief;                 /* look for segments without a manifest only where, by the index, a crash may have left them */
	struct kedge__trust *trust; /* for this store; proved sets are added; NULL: no set is trusted */
	struct kedge__pool *pool;   /* NULL: one thread */
	void (*progress)(void *ctx, uint64_t done, uint64_t total); /* of what is read to prove versions; NULL: nobody asks */
	void *progress_ctx;
};

/*
 * Keep the good versions that KEEP asks for, those with labels, and all that they depend on; remove the others and what crashes left behind. A version is good if
 * it was proved (kedge__verify_with()) together with all that it needs, or if every set of its lineage is trusted. Other versions are
 * not counted, and stay as long as KEEP asks for more. So nothing is removed in favour of a version that a restart would
 * refuse. If nothing would be removed, nothing is proved. Proving comes before the guard is seized: checkpoints need not wait for it. A
 * version that is published meanwhile stays, uncounted.
 */
int kedge__gc_with(struct kedge__catalog *cat, const struct kedge__gc_options *options, struct kedge__gc_report *report, struct kedge__error *err);
int kedge__gc(struct kedge__catalog *cat, size_t keep, bool dry_run, struct kedge__gc_report *report, struct kedge__error *err);
void kedge__gc_report_done(struct kedge__gc_report *report);

/* Versions that VERSION depends on, itself included, ascending, by the manifests. KEDGE_E_MISSING names an absent parent. *LIST: kedge__free(). */
int kedge__catalog_closure(const struct kedge__catalog *cat, uint64_t version, uint64_t **list, size_t *count, struct kedge__error *err);

struct kedge__finding { /* one place where damage was found */
	uint64_t version;
	uint32_t rank;
	const char *file;     /* path */
	int64_t block;        /* -1: not a block */
	const char *section;  /* "header", "footer", "index", "SUMM", ..., "file" (cannot be opened), "shield", "bundle" (what is not a segment there), "manifest", "marker", "lineage", "digest" (of a region), "rank" (no file of it at all), "stray"; NULL for a block */
	const char *region;   /* name, or NULL */
	const char *text;
};

struct kedge__verify_report {
	uint64_t bytes_checked;
	size_t sets, segments, blocks, findings;
	uint64_t blocks_unpacked;             /* blocks needed again as the base of others are counted each time */
	size_t strays;                        /* files that belong to no set; passed to FOUND as section "stray", but not among the findings */
	size_t versions_intact, versions_lost; /* lost: cannot be restored, because they or versions they need are damaged */
	uint64_t *lost;                       /* owned; kedge__verify_report_done() */
	uint64_t newest_intact;                /* KEDGE__NO_VERSION: none is */
};

struct kedge__verify_options {
	uint64_t version; /* and what it needs; or KEDGE_NEWEST for all */
	bool quick;       /* check stored bytes only: blocks are not unpacked, and regions not compared with their digests */
	bool local;       /* ranks without any file in this store are not reported */
	uint64_t memory;  /* for notes on blocks that are read together; 0: 64 MiB */
	void (*found)(void *ctx, const struct kedge__finding *f);
	void (*progress)(void *ctx, uint64_t done, uint64_t total);
	void *ctx;
};

/* Check every byte of every file of the name (marker, manifests, segments, blocks), and that every version is what was saved. Unless
 * QUICK, the lost versions are exactly those that a restore from this store refuses. */
int kedge__verify_with(struct kedge__catalog *cat, struct kedge__pool *pool, const struct kedge__verify_options *options,
		       struct kedge__verify_report *report, struct kedge__error *err);
int kedge__verify(struct kedge__catalog *cat, struct kedge__pool *pool, uint64_t version /* or KEDGE_NEWEST for all */,
		  void (*found)(void *ctx, const struct kedge__finding *f), void *ctx,
		  void (*progress)(void *ctx, uint64_t done, uint64_t total),
		  struct kedge__verify_report *report, struct kedge__error *err);
void kedge__verify_report_done(struct kedge__verify_report *report);

#include "store/holdings.h" /* what a level holds at one moment, as a value */

#endif
