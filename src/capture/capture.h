/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * capture: what the application protects, and how its bytes are held while they are saved.
 */
#ifndef KEDGE_CAPTURE_CAPTURE_H
#define KEDGE_CAPTURE_CAPTURE_H

#include "base/base.h"
#include "gpu/gpu.h"
#include "reduce/reduce.h"

/* ------------------------------------------------------------------ region.c: the table of protected regions */

struct kedge__region_file { /* a region that is a file: its bytes are read from here */
	int fd; /* -1: it is being restored, and mapped at the region's address; or, with `opened`, */
	const char *path;
	bool opened;            /* PATH is opened whenever it is read, so that any number of files may be saved, and must be */
	uint64_t device, inode; /* this one then */
	bool kept;              /* it was opened by kedge__region_file_keep() */
};

struct kedge__region {
	char *name; /* owned by the table */
	void *data;
	uint64_t bytes;
	enum kedge_type type;
	int ndims;
	uint64_t dims[KEDGE_MAX_DIMS];
	uint32_t slot;  /* in the image space; kept while the name is protected, and for some checkpoints after that */
	bool has_slot;
	uint64_t tenancy; /* changes each time that a name is given a slot */
	unsigned flags; /* KEDGE_REGION_*, for as long as it is protected */
	struct kedge__memory_info memory; /* what is at its address */
	void *mirror; /* where the bytes are while it is saved, if it is on a GPU */
	const struct kedge__region_file *file; /* NULL: what is at its address is the application's memory */
	bool contents;    /* it is what a file has, which may be understood */
	bool same;        /* the caller vouches that its bytes are those of the region of its name */
	uint64_t same_as; /* in this version */
};

/* Where its bytes can be read and written. */
static inline void *kedge__region_bytes(const struct kedge__region *r)
{
	return r->mirror ? r->mirror : r->data;
}

/* Others than the program's own threads and system calls may write to it. */
static inline bool kedge__region_is_shared(const struct kedge__region *r)
{
	return r->flags & KEDGE_REGION_DEVICE || r->memory.kind != KEDGE__MEMORY_HOST;
}

bool kedge__utf8_valid(const char *text);

struct kedge__region_table; /* found by name in constant time */

int kedge__region_table_new(struct kedge__region_table **out, struct kedge__error *err);
void kedge__region_table_free(struct kedge__region_table *t);
/* Add or replace by name (a replaced region keeps its slot). Checks name, type, shape, overflow, KEDGE__SLOT_BYTES. It is
 * memory until the caller sets `file`. Names of files may have any bytes; those that applications give are UTF-8. */
int kedge__region_table_put(struct kedge__region_table *t, const char *name, void *data, size_t count, enum kedge_type type, int ndims, const size_t *dims, struct kedge__error *err);
int kedge__region_table_remove(struct kedge__region_table *t, const char *name, struct kedge__error *err); /* KEDGE_E_NOTFOUND, nearest name */
size_t kedge__region_table_count(const struct kedge__region_table *t);
struct kedge__region *kedge__region_table_at(const struct kedge__region_table *t, size_t i); /* in order of slot from assign() to the next put or remove */
struct kedge__region *kedge__region_table_find(const struct kedge__region_table *t, const char *name);
/* Assign slots to regions that have none: the lowest free ones. A name that is no longer protected keeps its slot for some checkpoints, or
 * until no others are free. Then order by slot. *NEXT is raised above all slots. KEDGE_E_LIMIT: more regions than KEDGE__SLOT_LIMIT. */
int kedge__region_table_assign(struct kedge__region_table *t, uint32_t *next, struct kedge__error *err);
/* Give NAME the slot that it has in a stored version; any other region that had this slot now has none. */
int kedge__region_table_remember(struct kedge__region_table *t, const char *name, uint32_t slot, struct kedge__error *err);

/* ------------------------------------------------------------------ snapshot.c: literals copied aside, so that the application can continue */

/* Memory for copies. It is kept from version to version: fresh pages would cost more than copying into them. But what
 * several versions in a row have not needed, as when only the first one was large, goes back to the system. */
struct kedge__reserve {
	void *memory;
	size_t bytes;
	size_t most;    /* of what was asked for */
	unsigned turns; /* in the last so many calls */
};

/* At least BYTES bytes, of which only the first KEPT are kept for the next version; the contents are lost. NULL: out of memory. */
void *kedge__reserve_get(struct kedge__reserve *r, size_t bytes, size_t kept);
void kedge__reserve_return(struct kedge__reserve *r, size_t from); /* what lies behind goes back to the system */
void kedge__reserve_done(struct kedge__reserve *r);
/* Copy all literals from SOURCE, which checks them, into R and point them there. KEDGE_E_LIMIT if they exceed LIMIT. */
int kedge__snapshot_take(struct kedge__reserve *r, struct kedge__pool *pool, struct kedge__literal_list *literals, const struct kedge__literal_source *source, uint64_t limit, struct kedge__error *err);

/* ------------------------------------------------------------------ tracker.c: which pages may have changed
 *
 * Ranges of memory are registered; collect() finds the pages of all of them that were written since the last collect()
 * (all pages, the first time) and starts to watch them again, page by page: a write that races with it is in this result
 * or in the next. dirty() then reads the result for each range. A page is clean only if there is evidence: memory that was
 * unmapped, mapped again, moved or discarded is dirty, and so is everything that the kind cannot watch. In the child after
 * a fork everything is dirty; the parent's tracker is not affected.
 *
 * No kind except none sees writes that do not come from a processor through our mapping: by devices to memory that they
 * pinned (RDMA, GPU), and through another mapping of shared memory. See docs/guide/tracking.md.
 *
 * Calls on one tracker may come from several threads; only one of them may call collect() and read its result. */

struct kedge__tracker;

/* device.c: the first thing under ROOT ("" for the system's) that can write to a process's memory without its processors:
 * network adapters with RDMA, accelerators, memory shared between processes page by page. False: there is none. */
bool kedge__device_find(const char *root, char *path, size_t room);

/* Names of the kinds, best first: uffd, softdirty, mprotect, none; NULL after the last. */
const char *kedge__tracker_kind(size_t i);
/* 0, or why NAME does not work here. Tries it out. */
int kedge__tracker_probe(const char *name, struct kedge__error *err);
/* NAME: a kind, or NULL or "auto": the best that works here. That is never mprotect, which takes over SIGSEGV, nor
 * softdirty, whose bits are reset for the entire process. */
int kedge__tracker_open(const char *name, struct kedge__tracker **out, struct kedge__error *err);
/* Accepts NULL. With mprotect, no thread may write to tracked memory during the call. */
void kedge__tracker_close(struct kedge__tracker *t);
const char *kedge__tracker_name(const struct kedge__tracker *t);
/* Whether memory may be written while collect() runs; if not (softdirty), such writes may be lost. */
bool kedge__tracker_live(const struct kedge__tracker *t);

/* Shared memory is tracked only if the caller vouches that it is written only through this mapping, and that nobody punches
 * holes into it. Not for device memory. */
#define KEDGE__TRACK_SOLE 1u

/* *ID is for the calls below, until it is removed. Ranges may overlap. Memory that cannot be tracked is accepted and always dirty. */
int kedge__tracker_add(struct kedge__tracker *t, const void *data, uint64_t bytes, unsigned flags, size_t *id, struct kedge__error *err);
void kedge__tracker_remove(struct kedge__tracker *t, size_t id); /* before the memory is freed, with mprotect */
/* After an error, everything is dirty at the next call. */
int kedge__tracker_collect(struct kedge__tracker *t, struct kedge__error *err);
/* The same, but memory that was not watched before is not watched yet: a session (cow.c) may take it first, and arm() starts
 * watching the rest before anybody writes again. */
int kedge__tracker_collect_first(struct kedge__tracker *t, struct kedge__error *err);
void kedge__tracker_arm(struct kedge__tracker *t);
/* What the last collect() found of range ID, whole pages clipped to the range: offsets in it, ascending, disjoint, not
 * touching. All of it, if it was added since. */
int kedge__tracker_dirty(struct kedge__tracker *t, size_t id, struct kedge__range_list *out, struct kedge__error *err);
/* Bytes in pages of all ranges that are dirty now; nothing is reset. */
int kedge__tracker_count(struct kedge__tracker *t, uint64_t *bytes, struct kedge__error *err);
/* The pages that the last collect() found were not saved after all: everything is dirty at the next one. */
void kedge__tracker_taint(struct kedge__tracker *t);
/* These pages will be dirty at the next collect(), e.g. because a device wrote to them. */
void kedge__tracker_mark(struct kedge__tracker *t, const void *data, uint64_t bytes);
/* A system call is about to write there: with mprotect it would fail with EFAULT unless the pages are opened first. */
void kedge__tracker_touch(struct kedge__tracker *t, const void *data, uint64_t bytes);

/* ------------------------------------------------------------------ cow.c: memory as it was, while the application continues
 *
 * begin() write-protects ranges and returns; from then on the application may write. read() and next() give the bytes as
 * they were at begin(), whatever was written since: a page that the application writes to first is copied aside by a
 * thread of the session before the write proceeds. The copies are in a pool of bounded size: when it is full, writers to
 * further pages wait until the reader has released some. Therefore release promptly, and never wait for the application
 * between begin() and end().
 *
 * Memory that is unmapped, moved or discarded in the meantime cannot be read any more, and whatever replaces it is not read
 * either: such a read fails, everything else continues. If the kernel allows only user-mode faults (an unprivileged user,
 * with vm.unprivileged_userfaultfd = 0), a system call that writes to a protected page fails with EFAULT until the page is
 * released. begin() copies pages that a range covers only in part, so that data outside the range is never affected. */

struct kedge__cow;

struct kedge__cow_range {
	void *data;
	uint64_t bytes;
};

struct kedge__cow_options {
	struct kedge__tracker *tracker; /* or NULL; after the session it knows what was written during it */
	struct kedge__pool *pool;       /* or NULL; shares the work of begin() */
	uint64_t aside_bytes;           /* pool of copies; 0: 64 MiB */
};

struct kedge__cow_stats {
	uint64_t aside_pages; /* copied because the application wrote first */
	uint64_t waits;       /* writes that found the pool full */
};

/* 0, or why it does not work here. *KERNEL_WRITES: system calls may write to protected memory. */
int kedge__cow_probe(bool *kernel_writes, struct kedge__error *err);
/* No thread may write to the ranges until it returns. They must not overlap, and the array must stay valid until end().
 * They should be few and long, because each is a separate mapping in the kernel; KEDGE_E_LIMIT above 8192. */
int kedge__cow_begin(const struct kedge__cow_range *ranges, size_t count, const struct kedge__cow_options *options, struct kedge__cow **out, struct kedge__error *err);
/* Bytes of range RANGE at OFFSET, as of begin(). KEDGE_E_STATE if some were released or are gone. Several threads may call
 * read() and release() at once. */
int kedge__cow_read(struct kedge__cow *c, size_t range, uint64_t offset, void *buffer, size_t bytes, struct kedge__error *err);
/* Whether whoever writes to these bytes would have to wait for a copy of them: at least half of the pages. The others are copied. */
bool kedge__cow_waits(struct kedge__cow *c, size_t range, uint64_t offset, uint64_t bytes);
/* These bytes are no longer needed; each is released once. Memory is unprotected in pieces of 2 MiB, once none of their bytes
 * is needed, so that huge pages are not split. */
int kedge__cow_release(struct kedge__cow *c, size_t range, uint64_t offset, uint64_t bytes, struct kedge__error *err);
/* The next run, in order of ranges, copied to BUFFER (at least a page) and released. *BYTES 0: there are no more. */
int kedge__cow_next(struct kedge__cow *c, void *buffer, size_t room, size_t *range, uint64_t *offset, size_t *bytes, struct kedge__error *err);
/* Bytes that were copied aside so far, because the application wrote to them first. */
uint64_t kedge__cow_written(const struct kedge__cow *c);
/* Releases the rest and frees the session. Accepts NULL. An error since begin() means that what was read cannot be trusted.
 * STATS may be NULL. */
int kedge__cow_end(struct kedge__cow *c, struct kedge__cow_stats *stats, struct kedge__error *err);

/* ------------------------------------------------------------------ hold.c: an image held while the application continues
 *
 * begin() copies regions that are small, have few dirty pages or must not be protected, and write-protects the rest (or
 * copies that, too). Then a reduction sees the image through view(), which releases the pages of protected memory that will
 * not be stored. The others stay protected until they are written: they are read through *SOURCE of literals(), whose check()
 * releases them, and shows them to a reduction that has not seen them yet. Only while the application writes to protected
 * memory, some of them are copied and released before. If nothing has to be read from the session, literals() ends it, and
 * *SOURCE is NULL unless the reduction has to see them. */

struct kedge__hold;

struct kedge__hold_region { /* of the image */
	const char *name;                       /* for messages */
	const struct kedge__region_file *file;  /* NULL: it is memory */
	bool copied;                            /* never protected: devices write to it, or it is unmapped before end() */
	const struct kedge__region_dirty *only; /* NULL: all of it; else nothing outside these ranges, in entire grains, will be requested */
};

struct kedge__hold_options {
	struct kedge__reserve *reserve;
	struct kedge__pool *pool;
	struct kedge__tracker *tracker; /* or NULL */
	uint64_t limit;                 /* bytes of copies, of any kind */
	uint64_t grain;                 /* dirty ranges are rounded to this */
	bool protect;                   /* if not, everything is copied */
	bool again;                     /* bytes will be requested again: no page is released before literals() */
};

/* IMAGE, WAYS and what they point to must stay valid until end(). KEDGE_E_LIMIT: the copies would exceed the limit. */
int kedge__hold_begin(const struct kedge__image *image, const struct kedge__hold_region *ways, const struct kedge__hold_options *options, struct kedge__hold **out, struct kedge__error *err);
const struct kedge__image_view *kedge__hold_view(struct kedge__hold *h);
bool kedge__hold_protects(const struct kedge__hold *h); /* the memory is still needed */
/* R: the reducer, which may have to see them. *SOURCE: NULL if they are where LITERALS says. */
int kedge__hold_literals(struct kedge__hold *h, struct kedge__reducer *r, struct kedge__literal_list *literals, const struct kedge__literal_source **source, struct kedge__error *err);
/* Accepts NULL. An error means that what was read cannot be trusted, or says why view() gave nothing; without ERR the hold
 * is only freed. */
int kedge__hold_end(struct kedge__hold *h, struct kedge__error *err);

/* ------------------------------------------------------------------ live.c: an image that is read where it is
 *
 * Nobody should write to it in the meantime, but nobody can be sure. Every byte is read once for the reduction, and once
 * more if it is a literal; the second copy, which is the one that is stored, is checked against the digests of the first.
 * So a version matches its digests, or it fails with KEDGE_E_STATE and the name of the region or file. */

struct kedge__live;

/* IMAGE, WAYS and what they point to must stay valid until end(). WORKERS: threads of the pool that will read it. */
int kedge__live_begin(const struct kedge__image *image, const struct kedge__hold_region *ways, int workers, struct kedge__live **out, struct kedge__error *err);
const struct kedge__image_view *kedge__live_view(struct kedge__live *l);
/* LITERALS of the reduction in progress of R, which saw view(); both must stay valid until end(). */
int kedge__live_literals(struct kedge__live *l, struct kedge__reducer *r, const struct kedge__literal_list *literals, const struct kedge__literal_source **source, struct kedge__error *err);
/* Accepts NULL. An error says why view() gave nothing. */
int kedge__live_end(struct kedge__live *l, struct kedge__error *err);
/* BYTES bytes of region G at OFFSET, as they are now. */
int kedge__region_read(const struct kedge__image_region *g, const struct kedge__hold_region *way, uint64_t offset, void *buffer, size_t bytes, struct kedge__error *err);

/* ------------------------------------------------------------------ file.c: regions that are files, read as they are now */

/* One that is opened whenever it is read is open until leave(). If that is not possible, reads will say why. */
void kedge__region_file_keep(struct kedge__region_file *file);
void kedge__region_file_leave(struct kedge__region_file *file);
/* BYTES bytes at OFFSET. KEDGE_E_STATE, with the name, if it ends before them, or PATH is another file by now or none. */
int kedge__region_file_read(const struct kedge__region_file *file, uint64_t offset, void *buffer, size_t bytes, struct kedge__error *err);

/* What one thread reads of files, one after the other from front to back, in few calls; holes are not read at all. */
struct kedge__file_window {
	const struct kedge__region_file *file; /* NULL: nothing was read yet */
	int fd;                                /* open, if it is `opened` */
	uint64_t offset, bytes;                /* of what is in `buffer` */
	bool hole;                             /* and that is zero, though the buffer is not */
	uint8_t *buffer;
};

/* BYTES bytes, KEDGE__WINDOW_BYTES at most, at OFFSET of FILE, which has TOTAL: at BUFFER, or, in a hole, zeros that stay. NULL: see ERR. */
#define KEDGE__WINDOW_BYTES (UINT64_C(256) << 10)
const void *kedge__file_window_get(struct kedge__file_window *w, const struct kedge__region_file *file, uint64_t total, uint64_t offset,
				   void *buffer, size_t bytes, struct kedge__error *err);
void kedge__file_window_done(struct kedge__file_window *w); /* takes one that is all zero */

#endif
