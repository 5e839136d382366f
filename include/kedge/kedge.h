/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kedge.h: checkpoint and restart for programs that run too long, or hold too much, to start over.
 *
 * A program opens a job handle, protects the memory that it cannot afford to lose as named regions, and takes
 * checkpoints, each with a version number of its choice. After a failure it opens the same job, protects the same
 * regions and restarts: Kedge puts the newest version that is sealed and intact back into memory, bit for bit. A
 * version is sealed when it has been published on all ranks, and intact if all its data matches its checksums.
 *
 * Results: a function that can fail returns 0 or one of the negative codes below. On failure it leaves its result
 * arguments untouched; only those that open a handle set it to NULL. kedge_last_error() describes the cause.
 *
 * Threads: a handle may be used by several threads, and calls on the same handle wait for each other. kedge_test() and
 * kedge_last_error() never wait for a checkpoint in progress. The application must not write to protected memory while
 * kedge_checkpoint() or kedge_restart() runs.
 *
 * Groups: all ranks of a group must make the calls that are marked as collective, in the same order.
 *
 * Processes: a handle belongs to the process that opened it. In a forked child every call on it, even kedge_close(),
 * does nothing and returns KEDGE_E_STATE at once.
 *
 * Callbacks may run on a thread of the library and must not call functions on the handle.
 *
 * The library never prints and never exits. It changes no signal handlers, except with track = mprotect, and leaves no
 * thread or descriptor behind after kedge_close().
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

/* One line per error: name, code, text. The enum, kedge_strerror() and the man page are generated from it. */
#define KEDGE_ERRORS(X)                                                                                                \
	X(ARG, -1, "invalid argument")                                                                                 \
	X(CONFIG, -2, "invalid configuration")                                                                         \
	X(NOMEM, -3, "out of memory")                                                                                  \
	X(IO, -4, "input/output error")                                                                                \
	X(NOSPACE, -5, "no space left on the storage level")                                                           \
	X(ACCESS, -6, "permission denied or read-only storage")                                                        \
	X(NOTFOUND, -7, "there is nothing: no version at all, no such region or store")                                \
	X(DAMAGED, -8, "stored data is damaged")                                                                       \
	X(MISSING, -9, "a file that the version depends on is missing")                                                \
	X(FORMAT, -10, "stored in a format that this build cannot read")                                               \
	X(LOCKED, -11, "the store is in use by another job")                                                           \
	X(MISMATCH, -12, "stored region does not match the protected region")                                          \
	X(CODEC, -13, "this build lacks a codec that is needed to read the data")                                      \
	X(GROUP, -14, "another rank failed, or the ranks are out of step")                                             \
	X(STATE, -15, "call not allowed in this state")                                                                \
	X(LIMIT, -16, "a limit of the format or the configuration is exceeded")                                        \
	X(CANCELED, -17, "canceled")                                                                                   \
	X(INTERNAL, -18, "internal error")                                                                             \
	X(DEVICE, -19, "no GPU can be used, or it failed")                                                             \
	X(VERSION, -20, "the version that was named is not there")

enum kedge_error {
	KEDGE_OK = 0
#define KEDGE_X(name, code, text) , KEDGE_E_##name = (code)
	KEDGE_ERRORS(KEDGE_X)
#undef KEDGE_X
};

/* Element types. The type of a region guides its compression and never changes its bytes. */
enum kedge_type {
	KEDGE_BYTES = 0,
	KEDGE_I8,
	KEDGE_U8,
	KEDGE_I16,
	KEDGE_U16,
	KEDGE_I32,
	KEDGE_U32,
	KEDGE_I64,
	KEDGE_U64,
	KEDGE_F16,
	KEDGE_BF16,
	KEDGE_F32,
	KEDGE_F64,
	KEDGE_C64,
	KEDGE_C128,
	KEDGE_TYPE_COUNT
};

#define KEDGE_MAX_DIMS        8                 /* dimensions of the shape of a region */
#define KEDGE_NAME_MAX        255               /* bytes of a job name: [A-Za-z0-9._-]+, not starting with '.' */
#define KEDGE_REGION_NAME_MAX 4095              /* bytes of a region name: any non-empty UTF-8 without NUL */
#define KEDGE_NOTE_MAX        255               /* bytes of a note on a version */
#define KEDGE_NEWEST          UINT64_MAX        /* as a version: the newest one that is sealed and intact */
#define KEDGE_NEXT            (UINT64_MAX - 1)  /* as a new version: the number after the last one */
#define KEDGE_VERSION_LIMIT   (UINT64_MAX >> 1) /* versions are below this */

typedef struct kedge kedge_t;

/* ------------------------------------------------------------------ open and close */

/*
 * Open the job NAME and give its handle in *OUT, or NULL on failure. The caller closes it with kedge_close().
 *
 * CONFIG is the path of a configuration file. If it is NULL, $KEDGE_CONFIG names the file; if that is not set either,
 * it is ~/.config/kedge.conf, if that exists. KEDGE_* variables in the environment override the file. SETTINGS is NULL or a NULL-terminated array
 * of "key=value" strings, which override both. kedge.conf(5) describes all settings.
 *
 * The call creates the store directories if they do not exist, removes what a crash left in them, and locks the job. If
 * another process owns the job, it fails with KEDGE_E_LOCKED, and the message names the owner.
 */
KEDGE_API int kedge_open(const char *name, const char *config, const char *const *settings, kedge_t **out);

/*
 * Wait for checkpoints in progress, then release the handle and everything that belongs to it. K may be NULL. Returns
 * the first error of a checkpoint that kedge_wait() has not reported; the handle is invalid in any case. Collective.
 */
KEDGE_API int kedge_close(kedge_t *k);

/*
 * A group of processes that checkpoint together, for launchers other than MPI (for MPI see kedge_mpi.h).
 *
 * allgather() collects BYTES bytes from every rank into RECV, in rank order, and returns 0, or non-zero on failure. All
 * ranks call it in the same order. If any_thread is non-zero, a thread of the library may call it. Otherwise the last
 * step of a background checkpoint, on which all ranks agree, is made by the application's next kedge_checkpoint(),
 * kedge_wait() or kedge_close().
 *
 * ctx is passed to allgather(). It belongs to the caller and must outlive the handle; kedge_close() passes it to
 * free_ctx(), unless that is NULL.
 *
 * background is NULL or, with any_thread, a second context for the same allgather(): a separate channel, on which a
 * call may be in progress at the same time as one on ctx. With it a version reaches L2 without another call; otherwise
 * it does so at the next collective call.
 *
 * reduce() and gather() are for large groups. If either is NULL, the library uses allgather() for both, and every rank
 * receives one message per rank. reduce() combines the BYTES bytes at INOUT of all ranks, in any order, by calls of
 * FOLD(acc, other), which folds OTHER into ACC; all ranks get the result. gather() collects BYTES bytes from every rank
 * into RECV of rank ROOT; RECV is NULL on the other ranks. Both return as allgather() does.
 *
 * neighbours is how many ranks of the group, this one included, share its machine, so that they share its processors,
 * too; 0 if that is not known.
 *
 * transfer() moves bytes between ranks, for `protect` (kedge.conf(5)); NULL: the library uses allgather(), and every rank
 * receives all that any rank sends. All ranks call it in the same order, those that have nothing to move with no SENDS and
 * no RECVS. What rank A sends to rank B in one call, B receives in that call, in the same order and with the same sizes. It
 * returns 0 when all is sent and received, or non-zero on failure; ranks that have nothing to do with each other need not
 * wait for each other.
 */
struct kedge_transfer {
	int rank; /* to which it goes, or from which it comes */
	void *data;
	size_t bytes;
};

struct kedge_group {
	int rank, size;
	int any_thread;
	int (*allgather)(void *ctx, const void *send, size_t bytes, void *recv);
	void (*free_ctx)(void *ctx);
	void *ctx;
	void *background;
	int (*reduce)(void *ctx, void *inout, size_t bytes, void (*fold)(void *acc, const void *other));
	int (*gather)(void *ctx, const void *send, size_t bytes, void *recv, int root);
	int neighbours;
	int (*transfer)(void *ctx, const struct kedge_transfer *send, size_t sends, const struct kedge_transfer *recv,
			size_t recvs);
};

/* kedge_open() as one rank of GROUP, which is copied. Collective: if it fails on one rank, it fails on all. */
KEDGE_API int kedge_open_group(const char *name, const char *config, const char *const *settings,
			       const struct kedge_group *group, kedge_t **out);

/* ------------------------------------------------------------------ regions */

/*
 * Protect COUNT elements of TYPE at PTR as region NAME: later checkpoints save them, and kedge_restart() fills them. If
 * NAME is already protected, its address, count and type are replaced: regions may move and change size between
 * checkpoints. PTR may be NULL only if COUNT is 0. The memory still belongs to the application.
 *
 * PTR may be memory of a GPU (cudaMalloc and its relatives): that is found out. kedge_checkpoint() then waits for the work
 * that the application has given to the device (see kedge_gpu_stream()), and is done with the region before it returns;
 * kedge_restart() fills it. KEDGE_E_ARG: fewer bytes than that were allocated there. A GPU that fails makes checkpoints and
 * restarts fail with KEDGE_E_DEVICE as long as regions of it are protected; other regions, and earlier versions, are not
 * affected.
 */
KEDGE_API int kedge_protect(kedge_t *k, const char *name, void *ptr, size_t count, enum kedge_type type);

/* The same for an array of NDIMS dimensions; DIMS[0] varies slowest. */
KEDGE_API int kedge_protect_array(kedge_t *k, const char *name, void *ptr, enum kedge_type type, int ndims,
				  const size_t *dims);

/*
 * The first error of a call of this section, or of kedge_version_note(), since the handle was opened or this function was called
 * last: a program may protect twenty arrays and check once. 0: there was none. kedge_last_error() describes it. It belongs to the
 * handle, whichever thread made the call.
 */
KEDGE_API int kedge_check(kedge_t *k);

/*
 * Stop protecting region NAME. With capture = cow the call waits until a version in progress no longer needs the
 * memory, so that the application may free it; so does a kedge_protect() that changes the address or the size of a
 * region.
 */
KEDGE_API int kedge_unprotect(kedge_t *k, const char *name);

#define KEDGE_REGION_DEVICE 1u /* written to by more than the program's own threads and system calls */

/*
 * Set FLAGS, 0 or KEDGE_REGION_DEVICE, for the protected region NAME until it is unprotected.
 *
 * Memory of GPUs, managed memory and memory that CUDA has pinned needs no flag. KEDGE_REGION_DEVICE is for other memory
 * that devices write to on their own (RDMA, GPUs, buffers registered with io_uring) or that is written through another
 * mapping. Its pages are neither tracked nor write-protected: every checkpoint reads all of the region, and saves or copies
 * it before kedge_checkpoint() returns. There must be no such writes until then.
 */
KEDGE_API int kedge_region_flags(kedge_t *k, const char *name, unsigned flags);

/*
 * All work of the application on GPU number DEVICE that concerns protected regions is on STREAM, a cudaStream_t or CUstream of
 * the device's primary context: kedge_checkpoint(), kedge_restart() and kedge_read() come after what is on it when they are
 * called, and wait for nothing else that the device has to do. Their own work is done when they return. With NULL, as in the
 * beginning, they wait for everything that the application has given to the device. (The default streams have names that are
 * not NULL: cudaStreamLegacy, cudaStreamPerThread.) STREAM must exist until it is replaced or the handle is closed.
 * KEDGE_E_ARG: there is no such number.
 */
KEDGE_API int kedge_gpu_stream(kedge_t *k, int device, void *stream);

#define KEDGE_FILE_PREFIX "files/" /* the region of file NAME is called "files/NAME" */

/*
 * Protect a file instead of memory. NAME is a plain file name. PATH, a buffer of SIZE bytes, receives the path where
 * the application must write the file: in a directory on L1 that belongs to this rank and exists. KEDGE_E_LIMIT: PATH
 * is too small.
 *
 * The file is protected as region "files/NAME" until kedge_unprotect(k, "files/NAME"). Each checkpoint saves it as it
 * is at that time, and kedge_restart() puts it back at the same path. It is read in pieces; with capture = sync it is
 * never in memory all at once. If it does not exist, the checkpoint fails. It must not change while kedge_checkpoint()
 * runs: if it changes or is truncated in a way that affects the stored data, the checkpoint fails with KEDGE_E_STATE.
 * The file itself stays until the application removes it.
 */
KEDGE_API int kedge_file_route(kedge_t *k, const char *name, char *path, size_t size);

/* ------------------------------------------------------------------ checkpoint */

/*
 * Save all protected regions as VERSION. Collective.
 *
 * Returns when the application may write to its memory again. With capture = sync the version is then sealed on L1.
 * With copy and cow a background thread writes it, and kedge_wait() returns the outcome. With cow the memory must stay
 * mapped until then, or until kedge_unprotect(); otherwise the version fails, with a message that names the region.
 * With sync no thread may write to the memory before the call returns. If one does, the version either is a consistent
 * image of old and new bytes that a restart accepts, or fails with KEDGE_E_STATE and the name of the region. Other
 * versions are not affected.
 *
 * Version numbers must ascend, with two exceptions: the version that the process restarted from and the last one that
 * it took may be taken again, which replaces them. When the first version after a restart is sealed, all stored
 * versions above the one restarted from are abandoned: they are removed, and those on a level that is unavailable at
 * that moment are never used again. Nothing else discards versions. KEDGE_E_STATE, with advice in the message, is
 * returned for
 * - a number that is not above all stored versions that the process did not restart from, and
 * - any number after a restart that failed with an error other than KEDGE_E_NOTFOUND and KEDGE_E_VERSION, until a restart succeeds or the
 *   program calls kedge_begin() or kedge_discard().
 *
 * With KEDGE_NEXT the library chooses the number: one above the version that the process restarted from or took last, or above all
 * stored versions if it did neither, and 1 if there are none. kedge_stats_get() has it.
 *
 * After an error no other sealed version is lost, and the job may continue.
 */
KEDGE_API int kedge_checkpoint(kedge_t *k, uint64_t version);

/*
 * What people will want to know of the next version that this handle takes: one line of text, of at most KEDGE_NOTE_MAX bytes,
 * which is copied, and shown by `kedge log`. NULL or "": nothing. It is part of the version, on every level. In a group rank 0's
 * counts. KEDGE_E_ARG: it is too long, or not one line of text.
 */
KEDGE_API int kedge_version_note(kedge_t *k, const char *note);

/*
 * Continue without the stored versions after a restart that failed. They stay in the store, and new versions need
 * higher numbers. Not needed after KEDGE_E_NOTFOUND. All ranks of a group must call it.
 */
KEDGE_API int kedge_begin(kedge_t *k);

/*
 * Is it time for a checkpoint? *NOW becomes 1 if the computing time since the last one exceeds the interval, else 0.
 * Collective: all ranks get the same answer. Call it in every step of the computation; most calls cost next to nothing.
 *
 * The interval is the setting of that name, or one that Kedge chooses and adapts to the costs that it measures and the
 * failures that occurred. It is time, too, if somebody outside wants a version: `kedge run`, `kedge checkpoint-now`, `kedge halt`, or a
 * signal (the setting on_signal); one rank that knows of it is enough, and a version taken without asking here answers it just as well.
 * The log reports each change of the interval. With a page tracker, a checkpoint is due earlier if little
 * memory is dirty, and later if much is. The reason is stored with the next version (see kedge ls -l).
 */
KEDGE_API int kedge_should_checkpoint(kedge_t *k, int *now);

/*
 * kedge_should_checkpoint(), and if it is time, kedge_checkpoint() of VERSION, which may be KEDGE_NEXT. *TAKEN, unless TAKEN is NULL,
 * becomes 1 if a checkpoint was taken, else 0. Collective.
 */
KEDGE_API int kedge_checkpoint_if_due(kedge_t *k, uint64_t version, int *taken);

/*
 * Somebody wants a version soon, because the process has been told to end, for instance: it is time for a checkpoint, says
 * kedge_should_checkpoint() on all ranks from the next time on that they speak to each other, which is within about 5 seconds, until
 * one is taken. This is the only function that a signal handler may call; it waits for nobody. One rank of a group is enough.
 */
KEDGE_API void kedge_checkpoint_soon(kedge_t *k);

/*
 * Should the job end? *NOW becomes 1 once a version was taken for a request to end: of `kedge run`, when the time of the allocation is
 * nearly over or the job is about to be preempted, of `kedge halt`, or of a signal (the setting on_signal). Else 0. All ranks get the same
 * answer after the same checkpoint. It costs nothing, and is not collective. A program that calls it after each step in which it may have
 * taken a checkpoint, and then closes the handle and ends, loses nothing:
 *
 *   if (kedge_checkpoint_if_due(k, KEDGE_NEXT, NULL) == 0 && kedge_should_exit(k, &now) == 0 && now)
 *           break;
 */
KEDGE_API int kedge_should_exit(kedge_t *k, int *now);

/*
 * 1 if VERSION has reached every level that it is meant for, 0 if it is still on its way, or the error that it failed
 * with; KEDGE_E_NOTFOUND if there is no such version. Never blocks. For a version of an earlier process, 1 only means
 * that it is sealed on some level.
 */
KEDGE_API int kedge_test(kedge_t *k, uint64_t version);

/*
 * Wait until all checkpoints taken so far have reached every level that they are meant for. Returns the first error
 * among them. Collective.
 */
KEDGE_API int kedge_wait(kedge_t *k);

/* ------------------------------------------------------------------ versions and restart */

struct kedge_version_info {
	uint64_t version;
	uint64_t parent; /* KEDGE_NEWEST if the version is self-contained */
	uint32_t levels; /* KEDGE_LEVEL_*: where it is sealed */
	uint32_t ranks;
	uint64_t created_ns;     /* since 1970, UTC */
	uint64_t raw_bytes;      /* of all ranks, as are those below */
	uint64_t stored_bytes;   /* the sizes of the segment files */
	uint64_t literal_bytes;  /* new bytes, before compression */
	uint64_t metadata_bytes; /* stored bytes that are not block payload */
	char reducer[16];
};

/* List the versions that are sealed on any level, in ascending order. The caller frees *LIST with kedge_free(). */
KEDGE_API int kedge_versions(kedge_t *k, struct kedge_version_info **list, size_t *count);

/* Free a list that the library allocated for the caller. P may be NULL. */
KEDGE_API void kedge_free(void *p);

struct kedge_region_info {
	uint64_t bytes;
	enum kedge_type type;
	int ndims;
	uint64_t dims[KEDGE_MAX_DIMS];
};

/* Size, type and shape of region NAME of this rank in VERSION (or KEDGE_NEWEST), for instance to allocate memory. */
KEDGE_API int kedge_region_stat(kedge_t *k, uint64_t version, const char *name, struct kedge_region_info *info);

/* A stored region. */
struct kedge_region_entry {
	const char *name;
	struct kedge_region_info info;
};

/*
 * List the regions of this rank in VERSION (or KEDGE_NEWEST). The caller frees *LIST with kedge_free(), which frees the
 * names too.
 */
KEDGE_API int kedge_regions(kedge_t *k, uint64_t version, struct kedge_region_entry **list, size_t *count);

/*
 * Find the newest version up to AT_MOST (KEDGE_NEWEST: of all) that is sealed and intact on every rank. Like a restart,
 * it reads and checks every block and compares every region with its digest, but fills no memory. KEDGE_E_NOTFOUND:
 * there is none. Collective.
 */
KEDGE_API int kedge_find(kedge_t *k, uint64_t at_most, uint64_t *version);

/*
 * The same without reading data that nobody has changed. The version is sealed on every rank, and every file that it
 * needs is there, with the size and the tables that the manifest says. Data are read and checked only if a file was
 * changed after it was sealed, by the times of the file system. What storage has changed by itself is left for
 * kedge_restart() and kedge_read() to find, which check every byte: they set the times of a damaged file, so that this
 * function does not return the version again. Collective.
 */
KEDGE_API int kedge_find_usable(kedge_t *k, uint64_t at_most, uint64_t *version);

struct kedge_target {
	const char *name; /* a stored region */
	void *ptr;
	size_t room; /* bytes at ptr; KEDGE_E_MISMATCH if the region is larger */
};

/*
 * Read COUNT regions of this rank from VERSION (or KEDGE_NEWEST) into memory of the caller's choice, and verify them.
 * It does not matter what is protected, and other ranks take no part. This is not a restart: the state of the handle
 * does not change. After an error other than KEDGE_E_ARG, KEDGE_E_NOTFOUND, KEDGE_E_VERSION and KEDGE_E_MISMATCH the contents of the
 * targets are undefined.
 */
KEDGE_API int kedge_read(kedge_t *k, uint64_t version, const struct kedge_target *targets, size_t count);

#define KEDGE_LEVEL_1 1u
#define KEDGE_LEVEL_2 2u

/*
 * Remove this job's versions from FROM on (0: all) from LEVELS, a sum of KEDGE_LEVEL_*. Versions on their way to a
 * level arrive there first. Nothing else in the store is touched. If LEVELS includes all levels of the job, the next
 * version may have any number above those that are left. Collective.
 */
KEDGE_API int kedge_discard(kedge_t *k, uint64_t from, unsigned levels);

/*
 * Set a callback that provides memory for regions whose size the program does not know before a restart; NULL removes
 * it. kedge_restart() calls ROOM for each stored region that is not protected, or is protected with a different size.
 * ROOM returns memory for INFO->bytes bytes, which is then protected as NAME, or NULL if the region is not wanted; for
 * a protected region NULL means KEDGE_E_MISMATCH. If the version turns out to be damaged, kedge_restart() tries an
 * older one and may call ROOM again with different sizes; memory that was provided before may be used again then. ROOM
 * runs in the thread that called kedge_restart() and must not call functions on the handle.
 */
KEDGE_API void kedge_set_room(kedge_t *k,
			      void *(*room)(void *user, const char *name, const struct kedge_region_info *info),
			      void *user);

/*
 * Fill all protected regions from VERSION, or with KEDGE_NEWEST from the newest version that is sealed and intact on
 * every rank. *RESTORED, unless RESTORED is NULL, becomes its number. Every byte is verified. If no region is
 * protected, none is filled, but the effect on later versions is the same. Collective.
 *
 * The fastest level is tried first. With KEDGE_NEWEST a version that cannot be used is skipped in favour of the next
 * older one, and the log reports why.
 *
 * KEDGE_E_NOTFOUND: there is nothing to restart from, so this is a fresh start. KEDGE_E_VERSION: the version that was named is not
 * there on every rank; there may be others. KEDGE_E_MISSING: no version was found, but there may be some on a level that
 * is unavailable or could not be read, or some ranks have versions and no version is there on every rank, as after the
 * loss of a node that nothing protected; not a fresh start. KEDGE_E_MISMATCH: a
 * protected region is not in the version or has a different size there; no memory was changed. After any other error
 * the contents of the protected regions are undefined.
 */
KEDGE_API int kedge_restart(kedge_t *k, uint64_t version, uint64_t *restored);

/* ------------------------------------------------------------------ what happened */

struct kedge_stats {
	uint64_t version; /* of the last checkpoint that this rank took; the rest describes it, as far as it is known: all of it once it is sealed */
	uint64_t raw_bytes, stored_bytes, literal_bytes, metadata_bytes;
	double blocked_seconds; /* time that the application had to wait */
	double hash_seconds, encode_seconds, write_seconds;
	char reducer[16];
};

/* Sizes and times of the last checkpoint that this rank took. */
KEDGE_API int kedge_stats_get(kedge_t *k, struct kedge_stats *stats);

struct kedge_progress {
	const char *phase; /* "hash", "write", "flush", "read", "verify" */
	uint64_t version;
	uint64_t done_bytes, total_bytes;
};

/* Have FN called from time to time during long operations; NULL for none. It may be called from any thread. */
KEDGE_API void kedge_set_progress(kedge_t *k, void (*fn)(void *user, const struct kedge_progress *p), void *user);

enum kedge_log_level { KEDGE_LOG_ERROR = 0, KEDGE_LOG_WARNING, KEDGE_LOG_NOTICE, KEDGE_LOG_INFO, KEDGE_LOG_DEBUG };

/*
 * Set the function that receives log messages of all handles of the process; NULL, the default, for none. Several
 * threads may call it at once, and it may be called once more just after it was replaced.
 */
KEDGE_API void kedge_set_log(void (*fn)(void *user, enum kedge_log_level level, const char *text), void *user);

/* The text for an error code. Never NULL. */
KEDGE_API const char *kedge_strerror(int code);

/*
 * Describe the last failure on K that the calling thread saw, or if K is NULL, the last failure of kedge_open() or
 * kedge_close() in this thread. Never NULL. The text is valid until the thread's next call into the library.
 */
KEDGE_API const char *kedge_last_error(const kedge_t *k);

/* The version of the library, such as "0.1.0". */
KEDGE_API const char *kedge_version_string(void);

/* The key of the I-th setting of kedge.conf(5), counting from 0, or NULL if there are no more. */
KEDGE_API const char *kedge_setting_name(size_t i);

/* The size in bytes of an element of TYPE, or 0 if TYPE is not valid. */
KEDGE_API size_t kedge_type_size(enum kedge_type type);

#ifdef __cplusplus
}
#endif
#endif
