/*
 * kedge.h: checkpoint and restart for programs too long or too large to lose.
 *
 * A program opens a job handle, protects the memory it cannot lose as named regions, and takes
 * checkpoints, each with a version number of its choice. After a failure it opens the same job,
 * protects the same regions and restarts: the newest version that is complete and intact is put
 * back into memory, bit for bit.
 *
 * Results: every function that can fail returns 0 or one of the negative codes below, and leaves
 * its result arguments untouched on failure, but for the handle of those that open one, which is
 * NULL then; kedge_last_error() has the cause in words.
 *
 * Threads: a handle may be used from several threads; calls on one handle are serialised inside.
 * kedge_test() and kedge_last_error() never wait for a checkpoint in progress. The application
 * must not write to protected memory while kedge_checkpoint() or kedge_restart() runs.
 *
 * Processes: a handle belongs to the process that opened it. In a child that was forked every call
 * on it returns KEDGE_E_STATE at once, kedge_close() too, and does nothing.
 *
 * Callbacks may run on a thread of the library and must not call back into the handle.
 *
 * The library never prints, never exits, never changes signal handlers (but with track = mprotect),
 * and leaves no thread or descriptor behind after kedge_close().
 */
#ifndef KEDGE_KEDGE_H
#define KEDGE_KEDGE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define KEDGE_API __attribute__((visibility("default")))
#else
#define KEDGE_API
#endif

#define KEDGE_VERSION_MAJOR 0
#define KEDGE_VERSION_MINOR 1
#define KEDGE_VERSION_PATCH 0

/* One line an error: name, code, text. The enum, kedge_strerror() and the manual are made of it. */
#define KEDGE_ERRORS(X)                                                          \
	X(ARG, -1, "invalid argument")                                           \
	X(CONFIG, -2, "invalid configuration")                                   \
	X(NOMEM, -3, "out of memory")                                            \
	X(IO, -4, "input/output error")                                          \
	X(NOSPACE, -5, "no space left on the storage level")                     \
	X(ACCESS, -6, "permission denied or read-only storage")                  \
	X(NOTFOUND, -7, "no such version, region or store")                      \
	X(DAMAGED, -8, "stored data is damaged")                                 \
	X(MISSING, -9, "a file that the version depends on is missing")          \
	X(FORMAT, -10, "stored by a format this build cannot read")              \
	X(LOCKED, -11, "the store is in use by another job")                     \
	X(MISMATCH, -12, "stored region does not fit the protected region")      \
	X(CODEC, -13, "a codec needed to read the data is not in this build")    \
	X(GROUP, -14, "another rank failed, or the ranks do not agree")          \
	X(STATE, -15, "call not allowed now")                                    \
	X(LIMIT, -16, "a limit of the format or the configuration is exceeded") \
	X(CANCELED, -17, "canceled")                                             \
	X(INTERNAL, -18, "internal error")

enum kedge_error {
	KEDGE_OK = 0,
#define KEDGE_X(name, code, text) KEDGE_E_##name = (code),
	KEDGE_ERRORS(KEDGE_X)
#undef KEDGE_X
};

/* Element types. The type of a region steers how it is packed; it never changes the bytes. */
enum kedge_type {
	KEDGE_BYTES = 0,
	KEDGE_I8, KEDGE_U8, KEDGE_I16, KEDGE_U16, KEDGE_I32, KEDGE_U32, KEDGE_I64, KEDGE_U64,
	KEDGE_F16, KEDGE_BF16, KEDGE_F32, KEDGE_F64, KEDGE_C64, KEDGE_C128,
	KEDGE_TYPE_COUNT
};

#define KEDGE_MAX_DIMS 8          /* dimensions of a region's shape */
#define KEDGE_NAME_MAX 255        /* bytes of a job name: [A-Za-z0-9._-]+, not starting with '.' */
#define KEDGE_REGION_NAME_MAX 4095 /* bytes of a region name: any non-empty UTF-8 without NUL */
#define KEDGE_NEWEST UINT64_MAX   /* "the newest version that is complete and intact" */
#define KEDGE_VERSION_LIMIT (UINT64_MAX >> 1) /* versions are 0 .. this - 1 */

typedef struct kedge kedge_t;

/* ------------------------------------------------------------------ open and close */

/*
 * Open the job NAME. CONFIG is the path of a configuration file, or NULL for $KEDGE_CONFIG, or,
 * if that is unset, for defaults. KEDGE_* environment variables override the file. SETTINGS is
 * NULL or a NULL-terminated array of "key=value" strings that override both. Creates the store
 * directories as needed, removes what a crash left there, and takes the store's lock: a second
 * job on the same store and name gets KEDGE_E_LOCKED and a message naming the owner. *OUT is NULL
 * after a failure.
 */
KEDGE_API int kedge_open(const char *name, const char *config, const char *const *settings, kedge_t **out);

/*
 * Wait for checkpoints in progress, release everything. Takes NULL. Returns the first error of a
 * checkpoint that had not been reported by kedge_wait(); the handle is gone in any case.
 */
KEDGE_API int kedge_close(kedge_t *k);

/*
 * A group of processes that checkpoint together, for launchers other than MPI (kedge_mpi.h does
 * MPI). allgather() gathers BYTES bytes of every rank into RECV, in rank order, and returns 0 or
 * non-zero on failure; all ranks call it in the same order. If any_thread is non-zero, it may be
 * called from a thread of the library; if not, the last step of a background checkpoint (all
 * ranks agreeing) waits for the application's next kedge_checkpoint(), kedge_wait() or
 * kedge_close(). CTX belongs to the caller and must outlive the handle; free_ctx, which may be
 * NULL, is called with it by kedge_close().
 *
 * BACKGROUND, with any_thread, is NULL or a second context for the same allgather(): a channel of
 * its own, on which calls may be under way while others are on CTX. With it a version reaches L2
 * without another call; without it, when the ranks next meet in a collective call.
 *
 * REDUCE and GATHER are for large groups; where one of them is NULL, both are made of allgather(), and every rank
 * receives as many messages as there are ranks. reduce() combines the BYTES bytes at INOUT of all ranks, in any order,
 * by calls of FOLD(acc, other), which folds OTHER into ACC; all ranks get the result. gather() gathers BYTES bytes of
 * every rank into RECV of rank ROOT alone; RECV is NULL on the others. Both return as allgather() does.
 */
struct kedge_group {
	int rank, size;
	int any_thread;
	int (*allgather)(void *ctx, const void *send, size_t bytes, void *recv);
	void (*free_ctx)(void *ctx);
	void *ctx;
	void *background;
	int (*reduce)(void *ctx, void *inout, size_t bytes, void (*fold)(void *acc, const void *other));
	int (*gather)(void *ctx, const void *send, size_t bytes, void *recv, int root);
};

/* kedge_open() as one rank of a group. Collective. On failure on any rank, all ranks fail; *OUT is NULL then. */
KEDGE_API int kedge_open_group(const char *name, const char *config, const char *const *settings,
			       const struct kedge_group *group, kedge_t **out);

/* ------------------------------------------------------------------ regions */

/*
 * Protect COUNT elements of TYPE at PTR as region NAME. Protecting a name again replaces its
 * address, count and type: regions may move and change size between checkpoints. PTR may be NULL
 * only if COUNT is 0. The memory stays the application's.
 */
KEDGE_API int kedge_protect(kedge_t *k, const char *name, void *ptr, size_t count, enum kedge_type type);

/* The same with a shape: DIMS[0] is the slowest-varying dimension. */
KEDGE_API int kedge_protect_array(kedge_t *k, const char *name, void *ptr, enum kedge_type type, int ndims,
				  const size_t *dims);

/* With capture = cow it returns, as kedge_protect() of another place or size does, when a version in progress does not
 * need the memory any more: then it may be freed. */
KEDGE_API int kedge_unprotect(kedge_t *k, const char *name);

#define KEDGE_REGION_DEVICE 1u /* not only the program's own threads and system calls write to it */

/*
 * FLAGS, a sum of KEDGE_REGION_*, for the protected region NAME, until it is unprotected. With KEDGE_REGION_DEVICE its pages are
 * neither tracked nor write-protected: it is copied or saved as a whole in kedge_checkpoint(), and looked at as a whole. For
 * memory that devices write to by themselves (RDMA, GPUs, buffers registered with io_uring) or that is written through another
 * mapping; such writes must rest while kedge_checkpoint() runs.
 */
KEDGE_API int kedge_region_flags(kedge_t *k, const char *name, unsigned flags);

#define KEDGE_FILE_PREFIX "files/" /* the region of file NAME is called "files/NAME" */

/*
 * A file instead of memory: write file NAME (a plain file name) where PATH, of SIZE bytes, then says: a directory of this
 * rank's own on L1, which exists. From then on the file is protected as region "files/NAME": each checkpoint takes it as it
 * is, read in pieces and with capture = sync never as a whole in memory, with everything that regions have; a file that is
 * not there fails the checkpoint. kedge_restart() puts it back there, and kedge_unprotect(k, "files/NAME") ends it. The file
 * itself stays until the application removes it, and must not change while kedge_checkpoint() runs: one that does, or is
 * cut short, fails the checkpoint with KEDGE_E_STATE if that matters to what is stored. KEDGE_E_LIMIT: PATH does not fit.
 */
KEDGE_API int kedge_file_route(kedge_t *k, const char *name, char *path, size_t size);

/* ------------------------------------------------------------------ checkpoint */

/*
 * Save all protected regions as VERSION. Returns when the application may change its memory
 * again: with capture = sync the version is then complete on L1; with capture = copy or cow it is
 * written by a background thread, and kedge_wait() tells how that ended. With cow the memory must
 * stay mapped until then, or until kedge_unprotect(); if not, the version fails and says which
 * region is gone. With sync no thread may write to it before the call returns; if one does, the
 * version is still one image that restarts accept, with old and new bytes, or fails with
 * KEDGE_E_STATE and the name of the region; versions before and after it are not harmed.
 *
 * Numbers ascend. The version that the process restarted from, and the last one that it took, may
 * be taken again: they are replaced. When the first version after a restart is complete, all
 * stored versions above the one restarted from are abandoned: they are removed, and on a level
 * that is away at that moment they are never used again. Nothing else discards versions:
 * KEDGE_E_STATE, with what to do, is the answer to a number that is not above all versions which
 * the process did not restart from, and to every number after a restart that failed for any
 * reason but KEDGE_E_NOTFOUND, until a restart succeeds or kedge_begin() or kedge_discard() says
 * that the program means it. Collective in a group. On error nothing else that was complete is
 * lost, and the job may go on.
 */
KEDGE_API int kedge_checkpoint(kedge_t *k, uint64_t version);

/*
 * Go on without what is stored, after a restart that failed: stored versions stay, and new ones
 * need numbers above them. Not needed after KEDGE_E_NOTFOUND. All ranks of a group call it.
 */
KEDGE_API int kedge_begin(kedge_t *k);

/*
 * Is it time for a checkpoint? *NOW becomes 1 or 0. It is when the time of computation since the last one exceeds the
 * interval: the one set by `interval`, or one that the library chooses and moves by the costs it measures and the
 * failures it has seen, each change reported through the log. With a page tracker little dirty memory makes it earlier,
 * much makes it later. The reason is kept with the version that is taken next (kedge ls -l). Cheap: call it in every
 * step of the computation. Collective in a group: all ranks get the same answer.
 */
KEDGE_API int kedge_should_checkpoint(kedge_t *k, int *now);

/*
 * 1: VERSION has reached every level it is meant for; 0: still on its way; negative: its error (KEDGE_E_NOTFOUND: there
 * is no such version). Does not wait. Of a version of an earlier process it tells only that it is complete somewhere.
 */
KEDGE_API int kedge_test(kedge_t *k, uint64_t version);

/* Wait until all checkpoints so far have reached every level; the first error among them. Collective in a group. */
KEDGE_API int kedge_wait(kedge_t *k);

/* ------------------------------------------------------------------ versions and restart */

struct kedge_version_info {
	uint64_t version;
	uint64_t parent;         /* KEDGE_NEWEST when the version stands alone */
	uint32_t levels;         /* bit 0: complete on L1, bit 1: complete on L2 */
	uint32_t ranks;
	uint64_t created_ns;     /* since 1970, UTC */
	uint64_t raw_bytes;      /* of all ranks, as is all below */
	uint64_t stored_bytes;   /* segment files in full */
	uint64_t literal_bytes;  /* new bytes, before the codec */
	uint64_t metadata_bytes; /* stored bytes that are not block payload */
	char reducer[16];
};

/*
 * The complete versions on any level, ascending. *LIST is one allocation, freed with kedge_free().
 */
KEDGE_API int kedge_versions(kedge_t *k, struct kedge_version_info **list, size_t *count);
KEDGE_API void kedge_free(void *p);

struct kedge_region_info {
	uint64_t bytes;
	enum kedge_type type;
	int ndims;
	uint64_t dims[KEDGE_MAX_DIMS];
};

/* What is stored of region NAME of this rank in VERSION (or KEDGE_NEWEST), e.g. to allocate it. */
KEDGE_API int kedge_region_stat(kedge_t *k, uint64_t version, const char *name, struct kedge_region_info *info);

/* A region as it is stored. */
struct kedge_region_entry {
	const char *name;
	struct kedge_region_info info;
};

/* All regions of this rank in VERSION (or KEDGE_NEWEST). *LIST and its names are one allocation, freed with kedge_free(). */
KEDGE_API int kedge_regions(kedge_t *k, uint64_t version, struct kedge_region_entry **list, size_t *count);

/*
 * The newest version up to AT_MOST (KEDGE_NEWEST: of all) that is complete and intact on every rank: every block of it is
 * read and checked, every region is held against its digest as by a restart, and nothing is put into memory. KEDGE_E_NOTFOUND: there is none. Collective in a group.
 */
KEDGE_API int kedge_find(kedge_t *k, uint64_t at_most, uint64_t *version);

struct kedge_target {
	const char *name; /* of a stored region */
	void *ptr;
	size_t room;      /* bytes at PTR: KEDGE_E_MISMATCH if the region is larger */
};

/*
 * Put COUNT regions of this rank's part of VERSION (or KEDGE_NEWEST) into memory of the caller's choice, verified, without
 * the other ranks and whatever is protected. The handle goes on as before: this is no restart. After an error other than
 * KEDGE_E_ARG, KEDGE_E_NOTFOUND and KEDGE_E_MISMATCH the contents of the targets are undefined.
 */
KEDGE_API int kedge_read(kedge_t *k, uint64_t version, const struct kedge_target *targets, size_t count);

#define KEDGE_LEVEL_1 1u
#define KEDGE_LEVEL_2 2u

/*
 * Remove this job's versions from FROM on (0: all) from LEVELS, a sum of KEDGE_LEVEL_*; what is on the way to a level gets
 * there first. Nothing else in the store is touched. With all levels that the job has, the next version may have any number
 * above those that are left. Collective in a group.
 */
KEDGE_API int kedge_discard(kedge_t *k, uint64_t from, unsigned levels);

/*
 * Room for regions whose size the program does not know before a restart. kedge_restart() calls ROOM for each stored region
 * that is not protected, or is protected with another size: ROOM returns memory for INFO->bytes, which is protected under NAME
 * from then on, or NULL: the region is not wanted (KEDGE_E_MISMATCH if it is protected). If a version turns out to be damaged,
 * kedge_restart() goes on to an older one and may ask again, with other sizes: memory given before can be used again then.
 * NULL: no such function. ROOM runs in the thread that called kedge_restart() and must not call back into the handle.
 */
KEDGE_API void kedge_set_room(kedge_t *k, void *(*room)(void *user, const char *name, const struct kedge_region_info *info),
			      void *user);

/*
 * Fill all protected regions from VERSION, or from the newest version that is complete and intact
 * on every rank with KEDGE_NEWEST, and give its number in *RESTORED (may be NULL). Every byte is
 * verified. Levels are tried fastest first; with KEDGE_NEWEST an unusable version is passed over
 * for the next older one, each step reported through the log callback. KEDGE_E_NOTFOUND means
 * that there is nothing to restart from: a fresh start. KEDGE_E_MISMATCH: a protected region is
 * not in the version or has another size; no memory was changed. After any other error the
 * contents of the protected regions are undefined. With no region protected, none is filled, and all else is the same.
 * Collective in a group.
 */
KEDGE_API int kedge_restart(kedge_t *k, uint64_t version, uint64_t *restored);

/* ------------------------------------------------------------------ what happened */

struct kedge_stats {
	uint64_t version;        /* of the last checkpoint that this rank took; the rest is about it */
	uint64_t raw_bytes, stored_bytes, literal_bytes, metadata_bytes;
	double blocked_seconds;  /* the application stood still */
	double hash_seconds, encode_seconds, write_seconds;
	char reducer[16];
};

KEDGE_API int kedge_stats_get(kedge_t *k, struct kedge_stats *stats);

struct kedge_progress {
	const char *phase;       /* "hash", "write", "flush", "read", "verify" */
	uint64_t version;
	uint64_t done_bytes, total_bytes;
};

KEDGE_API void kedge_set_progress(kedge_t *k, void (*fn)(void *user, const struct kedge_progress *p), void *user);

enum kedge_log_level { KEDGE_LOG_ERROR = 0, KEDGE_LOG_WARNING, KEDGE_LOG_NOTICE, KEDGE_LOG_INFO, KEDGE_LOG_DEBUG };

/* Where messages go; none by default. Process-wide, because kedge_open() must be able to speak. It may be called from
 * several threads at once, and once more just after it was replaced. */
KEDGE_API void kedge_set_log(void (*fn)(void *user, enum kedge_log_level level, const char *text), void *user);

/* The text of a code. Never NULL. */
KEDGE_API const char *kedge_strerror(int code);

/*
 * The cause of the last failure on K seen by the calling thread; with NULL, of the last kedge_open() or kedge_close()
 * that failed in this thread. Never NULL; valid until the thread's next call into the library.
 */
KEDGE_API const char *kedge_last_error(const kedge_t *k);

/* "0.1.0" */
KEDGE_API const char *kedge_version_string(void);

/* The name of setting I (kedge.conf(5)), NULL behind the last. */
KEDGE_API const char *kedge_setting_name(size_t i);

/* Size of one element of TYPE in bytes, 0 if TYPE is not one. */
KEDGE_API size_t kedge_type_size(enum kedge_type type);

#ifdef __cplusplus
}
#endif
#endif
