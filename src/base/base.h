/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * base: what every folder may use; it uses none of them: errors, memory, log, clock, arrays,
 * bytes in little-endian order, digests, settings, and the one file that issues mutating
 * file-system calls (fs.c).
 */
#ifndef KEDGE_BASE_BASE_H
#define KEDGE_BASE_BASE_H

#include "base/search.h"

#include <kedge/kedge.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/uio.h>

#define KEDGE__PRINTF(f, a) __attribute__((format(printf, f, a)))
#define KEDGE__MIN(a, b) ((a) < (b) ? (a) : (b))
#define KEDGE__MAX(a, b) ((a) > (b) ? (a) : (b))
#define KEDGE__COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* ------------------------------------------------------------------ error.c
 * Functions that can fail return 0 or a negative KEDGE_E_ code and take a `struct kedge__error *`
 * as their last argument, which may be NULL. The text is what kedge_last_error() shows: it names
 * the file, the version and the errno. Setting an error replaces the previous one. */

struct kedge__error {
	int code;
	int sys_errno;
	char *text; /* owned; NULL: only the code is known (also if memory ran out) */
};

#define KEDGE__ERROR_INIT {0, 0, NULL}
void kedge__error_done(struct kedge__error *err);
/* Returns CODE. With SYS_ERRNO non-zero, ": strerror" is appended. */
int kedge__error_set(struct kedge__error *err, int code, int sys_errno, const char *fmt, ...) KEDGE__PRINTF(4, 5);
/* Prepend "context: " to the text; returns err->code (KEDGE_E_INTERNAL for NULL or none). */
int kedge__error_prefix(struct kedge__error *err, const char *fmt, ...) KEDGE__PRINTF(2, 3);
int kedge__error_nomem(struct kedge__error *err);            /* KEDGE_E_NOMEM */
int kedge__error_from_errno(int sys_errno);                   /* ENOSPC, EDQUOT: NOSPACE; EACCES, EROFS, EPERM: ACCESS; ENOENT: MISSING; ENOMEM; else IO */
void kedge__error_move(struct kedge__error *to, struct kedge__error *from); /* frees TO's, empties FROM */
const char *kedge__error_text(const struct kedge__error *err); /* never NULL */

/* ------------------------------------------------------------------ memory.c
 * All allocation goes through here, so that tests can make the n-th one fail. */

void *kedge__malloc(size_t n);
void *kedge__calloc(size_t n, size_t size);
void *kedge__realloc(void *p, size_t n);
void *kedge__reallocarray(void *p, size_t n, size_t size); /* NULL on overflow */
void kedge__free(void *p);
char *kedge__strdup(const char *s);
char *kedge__asprintf(const char *fmt, ...) KEDGE__PRINTF(1, 2); /* NULL when out of memory */
char *kedge__vasprintf(const char *fmt, va_list args) KEDGE__PRINTF(1, 0);
/* Large page-aligned buffers from mmap, freed with the same size; not for small allocations. */
void *kedge__map_alloc(size_t n);
bool kedge__memory_is_there(const void *p); /* the page of P has been touched, and is in memory */
bool kedge__memory_is_zero(const void *p, size_t n);
/* Zeros; where P is a mapped file whose file system can have holes, whole pages of them take no room. */
void kedge__memory_clear(void *p, size_t n);
/* The same contents followed by zeroes, without a copy; on failure P is unchanged. */
void *kedge__map_grow(void *p, size_t n, size_t wanted);
void kedge__map_free(void *p, size_t n);

/* ------------------------------------------------------------------ type.c */

const char *kedge__type_name(uint32_t type); /* "?" if it is none */
bool kedge__type_parse(const char *name, enum kedge_type *type);

/* A growing array of T: `KEDGE__ARRAY(struct foo) list = {0};` then list.at[i], list.count. */
#define KEDGE__ARRAY(T)        \
	struct {               \
		T *at;         \
		size_t count;  \
		size_t room;   \
	}
/* Evaluate to true, or to false if memory ran out (the array is then unchanged). */
#define kedge__array_reserve(a, n) kedge__array_grow((void **)&(a)->at, &(a)->room, (n), sizeof(*(a)->at))
#define kedge__array_push(a, v) (kedge__array_reserve((a), (a)->count + 1) ? ((a)->at[(a)->count++] = (v), true) : false)
#define kedge__array_done(a) (kedge__free((a)->at), (a)->at = NULL, (a)->count = (a)->room = 0)
bool kedge__array_grow(void **at, size_t *room, size_t need, size_t size);

/* A run of bytes. START is an address of an image, or an offset in a region: whoever has it says which. */
struct kedge__range {
	uint64_t start, len;
};

struct kedge__range_list { /* kedge__array_done() */
	struct kedge__range *at;
	size_t count, room;
};

/* ------------------------------------------------------------------ hash.c: items by hash, in constant time
 * The items belong to the caller and are known here by number; of those with the same hash, SAME finds the one of KEY. */

struct kedge__hash {
	struct kedge__hash_slot {
		uint64_t hash;
		size_t item; /* + 1; 0: none */
	} *at;
	size_t size, count; /* zeroed: empty */
};

#define KEDGE__HASH_NONE SIZE_MAX
typedef bool kedge__hash_same(const void *ctx, size_t item, const void *key);

size_t kedge__hash_find(const struct kedge__hash *h, uint64_t hash, kedge__hash_same *same, const void *ctx, const void *key); /* or NONE */
/* False: memory ran out, and nothing has changed. An item is put once. */
bool kedge__hash_put(struct kedge__hash *h, uint64_t hash, size_t item);
bool kedge__hash_reserve(struct kedge__hash *h, size_t count); /* room for COUNT items in total: putting them needs no memory */
void kedge__hash_move(struct kedge__hash *h, uint64_t hash, size_t from, size_t to); /* item FROM now has number TO */
void kedge__hash_remove(struct kedge__hash *h, uint64_t hash, size_t item);
void kedge__hash_done(struct kedge__hash *h);

/* ------------------------------------------------------------------ copy.c */

/* memcpy() to memory that will not be read soon; the ranges must not overlap. */
void kedge__copy_past_cache(void *to, const void *from, size_t bytes);
/* What kedge__copy_checked() and kedge__copy_summed() have copied comes before all that this thread stores from here on. */
void kedge__copy_fence(void);

/* ------------------------------------------------------------------ file_map.c */

/* Whether pages of this file may be touched, once they are known to be there. */
bool kedge__file_map_suits(int fd);
/* BYTES bytes of it from FROM on, a multiple of the page size; NULL: not to be had. There may be fewer in the file. */
const uint8_t *kedge__file_map(int fd, uint64_t from, size_t bytes);
void kedge__file_unmap(const uint8_t *at, size_t bytes); /* accepts NULL */
/* Where BYTES bytes of FD from FROM on are mapped, AT, all of them are in memory at this moment: they may be touched. */
bool kedge__file_map_is_there(int fd, uint64_t from, const uint8_t *at, size_t bytes);

/* ------------------------------------------------------------------ log.c */

void kedge__log(enum kedge_log_level level, const char *fmt, ...) KEDGE__PRINTF(2, 3);

/* ------------------------------------------------------------------ clock.c */

double kedge__clock_seconds(void);   /* monotonic */
uint64_t kedge__clock_wall_ns(void); /* since 1970, UTC */

/* ------------------------------------------------------------------ bytes.h: little-endian, unaligned */

static inline uint16_t kedge__get16(const void *p) { uint16_t v; memcpy(&v, p, 2); return v; }
static inline uint32_t kedge__get32(const void *p) { uint32_t v; memcpy(&v, p, 4); return v; }
static inline uint64_t kedge__get64(const void *p) { uint64_t v; memcpy(&v, p, 8); return v; }
static inline void kedge__put16(void *p, uint16_t v) { memcpy(p, &v, 2); }
static inline void kedge__put32(void *p, uint32_t v) { memcpy(p, &v, 4); }
static inline void kedge__put64(void *p, uint64_t v) { memcpy(p, &v, 8); }
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "Kedge's records are little-endian and this port has no byte swapping yet"
#endif

/* ------------------------------------------------------------------ digest.c, digest_key.c (definition: docs/digests.md) */

struct kedge__digest {
	uint64_t lo, hi;
};

static inline bool kedge__digest_equal(struct kedge__digest a, struct kedge__digest b)
{
	return a.lo == b.lo && a.hi == b.hi;
}

/*
 * The keys of the chunk digest, expanded from a seed. Digests can be compared only if they were made with the same key;
 * they exist in a reducer's memory, and never in a file.
 */
struct kedge__digest_key;
#define KEDGE__DIGEST_SEED_BYTES 32
#define KEDGE__DIGEST_MAX 65536u /* bytes of a chunk */

/* SEED: KEDGE__DIGEST_SEED_BYTES bytes, or NULL to draw them from the system. */
int kedge__digest_key_new(const uint8_t *seed, struct kedge__digest_key **out, struct kedge__error *err);
void kedge__digest_key_free(struct kedge__digest_key *key);
const uint8_t *kedge__digest_key_seed(const struct kedge__digest_key *key);

/* The 128-bit digest of a chunk of at most KEDGE__DIGEST_MAX bytes. */
struct kedge__digest kedge__digest_chunk(const struct kedge__digest_key *key, const void *data, size_t bytes);
/* Digests of all chunks of DATA: ceil(bytes / chunk) of them, the last over the remainder. CHUNK: a power of two, at least 16. */
void kedge__digest_chunks(const struct kedge__digest_key *key, const void *data, size_t bytes, size_t chunk, struct kedge__digest *out);
/* A node of the Merkle tree over 2^LEVEL chunks, LEVEL from 1 on. Each level has its own keys, as chunks do. */
struct kedge__digest kedge__digest_node(const struct kedge__digest_key *key, unsigned level, struct kedge__digest left, struct kedge__digest right);
const char *kedge__digest_kernel(void); /* "avx512", "avx2", "scalar": the variant in use, all bit-identical */

/* The region sum: 128 bits over an entire region, independent of the chunk digest, position-keyed and additive:
 * the sum of a region is the sum of its parts, computed in any order, on any number of threads. */
struct kedge__sum {
	uint64_t s1, s2;
};
/* What the sum of a stored region was made by. */
enum kedge__sum_rule {
	KEDGE__SUM_PAGES, /* as it is now */
	KEDGE__SUM_ROWS,  /* up to format 1.7: read, and never written */
};
/* Sum of BYTES bytes at byte POS of the region; POS is a multiple of 8. */
struct kedge__sum kedge__sum_of(const void *data, size_t bytes, uint64_t pos);
/* The same by RULE, for what is stored. */
struct kedge__sum kedge__sum_ruled(enum kedge__sum_rule rule, const void *data, size_t bytes, uint64_t pos);
static inline struct kedge__sum kedge__sum_add(struct kedge__sum a, struct kedge__sum b)
{
	return (struct kedge__sum){a.s1 + b.s1, a.s2 + b.s2};
}
/* The region digest that is stored: the sum of all parts, mixed with the region's length. */
struct kedge__digest kedge__sum_digest(struct kedge__sum total, uint64_t bytes);
struct kedge__sum kedge__sum_undigest(struct kedge__digest d, uint64_t bytes); /* the sum that it was made from */

/* Checksums of blocks and sections (XXH3-64), and seals over an index (XXH3-128). */
uint64_t kedge__checksum(const void *data, size_t bytes);

uint64_t kedge__checksum_plain(const void *data, size_t bytes); /* the same, for any machine */
/* kedge__copy_past_cache(), and the checksum of what was copied; its sum at byte POS of a region, a multiple of 8, is added to *SUM.
 * As many bytes at AHEAD, which may be NULL, are fetched to a core's cache. Before another thread is told of the copy: kedge__copy_fence(). */
uint64_t kedge__copy_checked(void *to, const void *from, const void *ahead, size_t bytes, uint64_t pos, struct kedge__sum *sum);
/* The same without a checksum. */
void kedge__copy_summed(void *to, const void *from, const void *ahead, size_t bytes, uint64_t pos, struct kedge__sum *sum);
/* memcpy(), and the checksum of what was copied. */
uint64_t kedge__copy_hashed(void *to, const void *from, size_t bytes);
bool kedge__copy_reads_once(const void *to, size_t bytes, uint64_t pos); /* kedge__copy_checked() copies what it checked, even if FROM changes meanwhile */
struct kedge__digest kedge__seal(const void *data, size_t bytes);

/* ------------------------------------------------------------------ fs.c
 * The only file, apart from optional/uring.c, that issues write, fsync, rename, unlink, truncate, mkdir. Each call is a fault point (fault.c):
 * numbered in order, it can be made to fail, to write short, or to be the last thing the process does. Every
 * function names PATH in its error. */

int kedge__fs_create(const char *path, int *fd, struct kedge__error *err);   /* O_EXCL, O_RDWR, mode 0600 */
int kedge__fs_create_public(const char *path, int *fd, struct kedge__error *err); /* the same, with the mode that the umask allows */
int kedge__fs_set_mode(int fd, unsigned mode, const char *path, struct kedge__error *err);
/* These two open regular files only: anything else is an error, and is never waited for. */
int kedge__fs_open_read(const char *path, int *fd, struct kedge__error *err); /* not a fault point */
int kedge__fs_open_lock(const char *path, int *fd, struct kedge__error *err); /* read-write, created if absent */
int kedge__fs_open_log(const char *path, bool create, int *fd, struct kedge__error *err); /* to read, and to write at its end */
int kedge__fs_open_dir(const char *path, int *fd, struct kedge__error *err);  /* to be kept open and compared (O_PATH); not a fault point */
/* PATH made absolute, using the current directory; links are not resolved. *OUT: kedge__free(). */
int kedge__fs_absolute(const char *path, char **out, struct kedge__error *err);
int kedge__fs_write(int fd, const void *data, size_t bytes, const char *path, struct kedge__error *err); /* all of it */
int kedge__fs_pwrite(int fd, const void *data, size_t bytes, uint64_t at, const char *path, struct kedge__error *err);
/* COUNT pieces, one behind the other, at once. */
#define KEDGE__FS_PIECES 4 /* at most */
int kedge__fs_pwrite_pieces(int fd, const struct iovec *pieces, size_t count, uint64_t at, const char *path, struct kedge__error *err);
int kedge__fs_append_line(const char *path, const char *line, struct kedge__error *err); /* one O_APPEND write, created if absent; a newline is added if LINE has none */
/* Exactly BYTES bytes at AT, or KEDGE_E_DAMAGED "is cut short" at end of file. Not a fault point. */
int kedge__fs_pread(int fd, void *data, size_t bytes, uint64_t at, const char *path, struct kedge__error *err);
/* The same into the N pieces of TO, in order; TO is modified. KEDGE_E_IO with EFAULT: the kernel may not write to the
 * memory. */
int kedge__fs_preadv(int fd, struct iovec *to, size_t n, uint64_t at, const char *path, struct kedge__error *err);
/* For reads past the page cache; offsets, lengths and memory are multiples of KEDGE__FS_DIRECT. Not available on every
 * file system. */
int kedge__fs_open_direct(const char *path, int *fd, struct kedge__error *err);
/* The page cache has at least half of these bytes, or the kernel (before Linux 6.5) cannot tell. */
bool kedge__fs_cached(int fd, uint64_t at, uint64_t bytes);
/* It has all of them, as it always has of a file system in memory; false if the kernel cannot tell. Elsewhere it looks at each piece
 * that the cache has of them. */
bool kedge__fs_cached_all(int fd, uint64_t at, uint64_t bytes);
/* These bytes will be read soon: the kernel may begin to read them. If it cannot, nothing happens. */
void kedge__fs_expect(int fd, uint64_t at, uint64_t bytes);
int kedge__fs_size(int fd, uint64_t *bytes, const char *path, struct kedge__error *err);
int kedge__fs_truncate(int fd, uint64_t bytes, const char *path, struct kedge__error *err);
/* Make a new, empty file BYTES long and reserve its space if the file system can: then filling it cannot run out of space. */
int kedge__fs_allocate(int fd, uint64_t bytes, const char *path, struct kedge__error *err);
/* Reserve room for these bytes of a file, which need not have that size yet, if the file system can. */
int kedge__fs_allocate_at(int fd, uint64_t at, uint64_t bytes, const char *path, struct kedge__error *err);
/* These bytes of a file, which are zero, need no room, if the file system can: it keeps its size. */
void kedge__fs_punch(int fd, uint64_t at, uint64_t bytes);
/* These bytes will be synced soon: begin to write them to storage. It promises nothing; only sync() does, and reports errors. */
void kedge__fs_hasten(int fd, uint64_t at, uint64_t bytes);
int kedge__fs_sync(int fd, const char *path, struct kedge__error *err);
int kedge__fs_sync_dir(const char *path, struct kedge__error *err);
int kedge__fs_sync_all(const char *path, struct kedge__error *err);               /* all that is on the file system of PATH */
/* DATA as the contents of PATH, written as PATH.tmp and renamed, not synced: whoever reads it finds all of it, or what was there before. OPEN: others may
 * read it as the umask allows, otherwise its mode is 0600. */
int kedge__fs_replace(const char *path, const void *data, size_t bytes, bool open, struct kedge__error *err);
int kedge__fs_rename(const char *from, const char *to, struct kedge__error *err); /* no directory sync */
int kedge__fs_touch(const char *path, struct kedge__error *err);                  /* it was changed just now, its times say */
int kedge__fs_unlink(const char *path, struct kedge__error *err);                 /* absent is success */
int kedge__fs_rmdir(const char *path, struct kedge__error *err);                  /* absent or not empty is success */
int kedge__fs_mkdir(const char *path, struct kedge__error *err);                  /* mode 0700, its parent synced; existing is success */
int kedge__fs_mkdirs(const char *path, struct kedge__error *err);                 /* the same with all its parents */
int kedge__fs_make_dir(const char *path, struct kedge__error *err);               /* mode 0700, nothing is synced; existing is success */
int kedge__fs_symlink(const char *target, const char *path, struct kedge__error *err);
int kedge__fs_link(const char *from, const char *to, struct kedge__error *err);  /* a link is not followed */
int kedge__fs_make_node(const char *path, unsigned mode, uint64_t device, struct kedge__error *err);
/* Who owns PATH, which is not followed if it is a link, and when it was changed last; of FD, if that is not -1. */
int kedge__fs_set_owner(int fd, const char *path, uint32_t uid, uint32_t gid, struct kedge__error *err);
int kedge__fs_set_mtime(int fd, const char *path, int64_t ns, struct kedge__error *err);
int kedge__fs_set_xattr(const char *path, const char *name, const void *value, size_t bytes, struct kedge__error *err);
int kedge__fs_set_path_mode(const char *path, unsigned mode, struct kedge__error *err); /* of a directory or node, not of a link */
/* EACH is called with every name in DIR but "." and "..", in no order, until it returns something else than 0: that is the result. */
int kedge__fs_each(const char *dir, int (*each)(void *ctx, const char *name, struct kedge__error *err), void *ctx, struct kedge__error *err);
int kedge__fs_list(const char *dir, char ***names, size_t *count, struct kedge__error *err); /* sorted, without "." and ".."; one kedge__fs_list_free() */
void kedge__fs_list_free(char **names, size_t count);
bool kedge__fs_exists(const char *path);
bool kedge__fs_is_file(const char *path); /* a regular file, not a link to one */
/* Write past the page cache from now on, or through it again. False, and a notice once, if the file system refuses. With ON, memory,
 * offset and length of every write must be multiples of KEDGE__FS_DIRECT; a write that is refused all the same goes through the cache. */
bool kedge__fs_direct(int fd, bool on, const char *path);
#define KEDGE__FS_DIRECT ((size_t)4096)
void kedge__fs_close(int fd); /* for descriptors that were only read from, or were synced before; -1 is allowed */

/* ------------------------------------------------------------------ optional/uring.c: several writes to one file in flight
 * With io_uring; each request is a fault point, like each write of fs.c, and names PATH in its error. One thread at a time. */

struct kedge__fs_queue;

bool kedge__fs_queue_built(void); /* compiled in? */
int kedge__fs_queue_probe(void);  /* 0: the kernel permits it; else the errno. Asked once per process */
/* FD and PATH belong to the caller and must outlive the queue. */
int kedge__fs_queue_new(int fd, const char *path, unsigned depth, struct kedge__fs_queue **out, struct kedge__error *err);
/* Begin a write: DATA must not change until SLOT (below DEPTH, not in use) has been waited for. */
int kedge__fs_queue_submit(struct kedge__fs_queue *q, unsigned slot, const void *data, size_t bytes, uint64_t at, struct kedge__error *err);
/* Wait until SLOT is free again. A write that has failed is the error of this and all later calls. */
int kedge__fs_queue_wait(struct kedge__fs_queue *q, unsigned slot, struct kedge__error *err);
int kedge__fs_queue_drain(struct kedge__fs_queue *q, struct kedge__error *err); /* all slots */
void kedge__fs_queue_free(struct kedge__fs_queue *q);                           /* drains first; takes NULL */

/* Reads in flight, of any files, one per slot. Several threads may call these functions, but not for one slot at once. */
struct kedge__fs_reads;

int kedge__fs_reads_new(unsigned depth, struct kedge__fs_reads **out, struct kedge__error *err);
/* Read up to BYTES bytes at AT into DATA, which belongs to the slot until it has been waited for. The next submit passes all
 * reads that were begun to the kernel. FD must stay open until the wait. */
void kedge__fs_reads_begin(struct kedge__fs_reads *r, unsigned slot, int fd, void *data, size_t bytes, uint64_t at);
void kedge__fs_reads_submit(struct kedge__fs_reads *r);
/* The number of bytes read, which may be fewer; 0 if there are none, for whatever reason. */
size_t kedge__fs_reads_wait(struct kedge__fs_reads *r, unsigned slot);
void kedge__fs_reads_free(struct kedge__fs_reads *r); /* waits for all; takes NULL */

/* ------------------------------------------------------------------ fault.c
 * $KEDGE_FAULT = "ACTION@N": at the N-th (from 1) fault point of the process do ACTION: kill (SIGKILL before the
 * call), cut (half of a write, then SIGKILL), eio, enospc (fail; every later call too with a trailing '+'), short
 * (a write that takes a single byte, once). "read@N" fails the N-th call that opens a file to read it, reads, or lists a
 * directory, with EIO; "alloc@N" the N-th allocation, "room@N" each that would bring the total above N bytes. "count@PATH"
 * appends the number of fault points met to PATH at exit. Tests may set it directly. Calls are counted from the first kedge__fault_set() on,
 * whatever it sets: kedge__fault_set(NULL) before a run and kedge__fault_count() after it give the N to go up to. */

int kedge__fault_set(const char *spec, struct kedge__error *err); /* NULL: no fault; resets the counters */
uint64_t kedge__fault_count(void);                                /* fs fault points met since set */
uint64_t kedge__fault_read_count(void);
uint64_t kedge__fault_alloc_count(void);
int64_t kedge__fault_bytes(void);      /* allocated since set and not freed */
int64_t kedge__fault_bytes_most(void); /* the maximum of that */

/* ------------------------------------------------------------------ settings.c
 * A settings struct is described by a table; INI file, environment and key=value strings fill it. */

enum kedge__setting_type {
	KEDGE__SETTING_STRING, /* char *, owned */
	KEDGE__SETTING_PLACE,  /* char *, owned: a directory or file, in which ~, %h, %r and %j stand for something else */
	KEDGE__SETTING_BOOL,   /* bool: yes/no/true/false/on/off/1/0 */
	KEDGE__SETTING_INT,    /* int64_t within [min, max] */
	KEDGE__SETTING_SIZE,   /* uint64_t bytes within [min, max]: 64k, 1MiB, 2GB (k, M, G, T: powers of 1024) */
	KEDGE__SETTING_REAL,   /* double within [min, max] */
	KEDGE__SETTING_CHOICE, /* int: index into a NULL-terminated list of words */
};

struct kedge__setting {
	const char *key;            /* lower case; the environment variable is KEDGE_<KEY> */
	enum kedge__setting_type type;
	size_t offset;              /* into the settings struct */
	const char *preset;         /* default, as it would be written */
	double min, max;            /* of numbers; no bounds unless min < max */
	const char *const *choices;
	bool tuning;                /* nobody needs to set it: shown after the others */
	const char *doc;            /* sentences for the manual and `kedge info --config`; `words` in backquotes are bold */
};

/* The struct that a table describes. */
struct kedge__settings {
	const struct kedge__setting *table;
	size_t n;
	void *values;
	char **origins; /* NULL, or N strings, owned: where each value is from, as in "kedge.conf:3"; NULL there: the preset */
};

/* How a value is written. In both, $NAME, ${NAME}, ${NAME:-TEXT} and $$ are expanded, and a ~ that begins a place. */
enum kedge__setting_form {
	KEDGE__FORM_FILE,  /* there may be quotes around it, of which '...' stands for itself, and a comment behind it */
	KEDGE__FORM_PLAIN, /* the environment, the call */
};

int kedge__settings_init(const struct kedge__setting *table, size_t n, void *settings, struct kedge__error *err); /* presets */
void kedge__settings_done(const struct kedge__setting *table, size_t n, void *settings);
/* An unknown key: KEDGE_E_CONFIG with file, line and the most similar key. The only section is [kedge]. After an error the
 * settings of the lines before it have been changed. */
int kedge__settings_load_file(const struct kedge__settings *in, const char *path, struct kedge__error *err);
/* KEDGE_* variables. Not settings are those in IGNORED (NULL-terminated; such as "KEDGE_CONFIG"), KEDGE_FAULT, and those that
 * package managers set (KEDGE_ROOT, _DIR, _HOME, _PREFIX). An unknown one that is almost a setting is an error, any other is logged. */
int kedge__settings_load_env(const struct kedge__settings *in, const char *const *ignored, struct kedge__error *err);
/* ORIGIN is for the message: "--set", "kedge_open". */
int kedge__settings_set(const struct kedge__settings *in, const char *key, const char *value, enum kedge__setting_form form,
			const char *origin, struct kedge__error *err);

#define KEDGE__RANK_NONE (-1) /* %r is an error */
#define KEDGE__RANK_ANY  (-2) /* a place with %r stays as it is written */

/* When all sources are read: %h, %r, %j and %% of every place. Until then a place is as it is written. */
int kedge__settings_places(const struct kedge__settings *in, int rank, struct kedge__error *err);
/* The value. The caller frees it. NULL if out of memory. */
char *kedge__settings_format(const struct kedge__setting *setting, const void *values);
/* The same as it would be written in a file, in quotes if it needs them. */
char *kedge__settings_written(const struct kedge__setting *setting, const void *values);
int kedge__size_parse(const char *text, uint64_t *bytes); /* 0 or KEDGE_E_ARG */
/* The nearest of N words by edit distance, or NULL if none is near. */
const char *kedge__nearest_word(const char *word, const char *const *words, size_t n);
size_t kedge__utf8_bytes(const char *text); /* of the UTF-8 character at TEXT; 0: it is none */

#endif
