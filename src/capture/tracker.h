/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to the trackers: the table that each kind fills, and what they share. */
#ifndef KEDGE_CAPTURE_TRACKER_H
#define KEDGE_CAPTURE_TRACKER_H

#include "capture/capture.h"
#include <pthread.h>

/* Page-aligned addresses, ascending and disjoint where several are in a list. */
struct kedge__pages {
	uintptr_t begin, end;
};

struct kedge__pages_list {
	struct kedge__pages *at;
	size_t count, room;
};

/* Append; joined with the last one if they touch. False: memory ran out. */
bool kedge__pages_list_add(struct kedge__pages_list *list, uintptr_t begin, uintptr_t end);
/* Order and join spans that came in any order. */
void kedge__pages_list_sort(struct kedge__pages_list *list);
/* Index of the first entry that ends after ADDRESS. */
size_t kedge__pages_list_find(const struct kedge__pages_list *list, uintptr_t address);
size_t kedge__page_size(void);

/* What backs an area of memory; this decides which evidence makes a page clean. */
enum kedge__backing {
	KEDGE__BACKING_NONE,         /* partly unmapped, not writable, or not fit for tracking */
	KEDGE__BACKING_ANONYMOUS,    /* private: a page that is gone has lost its contents */
	KEDGE__BACKING_PRIVATE_FILE, /* private: a page that is gone has the file's contents again */
	KEDGE__BACKING_SHARED,       /* a page that is gone keeps its contents */
};

/* A part of memory with one state: ranges that share pages share areas. */
struct kedge__area {
	uintptr_t begin, end;
	uint32_t refs;      /* ranges that cover it */
	uint32_t sole_refs; /* those of them added with KEDGE__TRACK_SOLE */
	uint32_t yield_refs; /* those of them that another tracker of the process had pages of before */
	bool armed;         /* the kind vouches for pages that it does not report */
	enum kedge__backing backing;
};

/*
 * A kind of tracker. All slots are filled. An area given to arm() counts as dirty; from then on the kind records writes
 * to it. collect() appends the pages written since and starts recording again; it returns KEDGE__AREA_LOST if it can no
 * longer vouch for the area: the caller then counts it as dirty and arms it again. A page is clean only if there is
 * evidence; memory that is not known to be unchanged is dirty.
 */
struct kedge__tracker_ops {
	const char *name;
	bool live;        /* a write that races with collect() is not lost */
	bool whole_pages; /* pages that a range covers in part are left alone: they are always dirty */
	bool exclusive;   /* memory that it watches cannot be protected by a second userfaultfd */
	bool automatic;   /* `auto` may choose it */
	bool blind;       /* watches nothing, whatever the memory is */

	int (*probe)(struct kedge__error *err);
	int (*open)(void **state, struct kedge__error *err);
	void (*close)(void *state);                           /* after all areas were dropped */
	int (*start)(void *state, struct kedge__error *err);  /* before the areas of one collect() */
	int (*finish)(void *state, struct kedge__error *err); /* after them */
	int (*arm)(void *state, const struct kedge__area *area, struct kedge__error *err);
	void (*drop)(void *state, const struct kedge__area *area);
	int (*collect)(void *state, const struct kedge__area *area, struct kedge__pages_list *out,
		       struct kedge__error *err);
	int (*count)(void *state, const struct kedge__area *area, uint64_t *bytes, struct kedge__error *err);
	/* The kernel is about to write there for a system call. */
	void (*touch)(void *state, uintptr_t begin, uintptr_t end);
};

#define KEDGE__AREA_LOST 1

extern const struct kedge__tracker_ops kedge__tracker_uffd, kedge__tracker_mprotect, kedge__tracker_softdirty,
    kedge__tracker_none;

/* ------------------------------------------------------------------ tracker_kinds.c */

const struct kedge__tracker_ops *kedge__tracker_kind_find(const char *name); /* NULL: there is no such kind */
const struct kedge__tracker_ops *kedge__tracker_kind_choose(void);

/* ------------------------------------------------------------------ tracker_maps.c: /proc/self/maps */

struct kedge__mapping {
	uintptr_t begin, end;
	bool read, write, execute, shared;
	bool file;  /* backed by an inode */
	bool stack; /* of the main thread */
};

struct kedge__mapping_list {
	struct kedge__mapping *at;
	size_t count, room;
};

int kedge__mappings_load(struct kedge__mapping_list *list, struct kedge__error *err);
/* The first mapping that ends after ADDRESS, or NULL. */
const struct kedge__mapping *kedge__mappings_find(const struct kedge__mapping_list *list, uintptr_t address);
/* Of all of [begin, end); KEDGE__BACKING_NONE unless all of it is readable and writable. */
enum kedge__backing kedge__mappings_backing(const struct kedge__mapping_list *list, uintptr_t begin, uintptr_t end);
/* Page size of the mapping at ADDRESS, as far as the kernel reports it. */
size_t kedge__mapping_page_size(uintptr_t address);

/* ------------------------------------------------------------------ tracker_pagemap.c: /proc/self/pagemap */

#define KEDGE__PAGEMAP_BATCH 512

int kedge__pagemap_open(int *fd, struct kedge__error *err);
/* Entries of COUNT pages from BEGIN on. */
int kedge__pagemap_read(int fd, uintptr_t begin, size_t count, uint64_t *entries, struct kedge__error *err);
/* Whether ENTRY shows that an unwritten page still has its contents. */
bool kedge__pagemap_kept(uint64_t entry, enum kedge__backing backing);

/* ------------------------------------------------------------------ tracker_userfault.c: opening a userfaultfd */

/* With at least FEATURES. *KERNEL_WRITES: faults of system calls are handled, too. */
int kedge__userfault_open(uint64_t features, int *fd, bool *kernel_writes, struct kedge__error *err);
int kedge__userfault_register(int fd, uintptr_t begin, uintptr_t end, struct kedge__error *err);
int kedge__userfault_unregister(int fd, uintptr_t begin, uintptr_t end, struct kedge__error *err);
/* Protect, or unprotect and wake whoever waits there. KEDGE_E_NOTFOUND: stopped at memory that is not registered. */
int kedge__userfault_protect(int fd, uintptr_t begin, uintptr_t end, bool protect, struct kedge__error *err);

/* ------------------------------------------------------------------ tracker.c */

/*
 * Lend pages that a second userfaultfd is to protect: the tracker releases them and, until they are returned, reports
 * everything around them as dirty. Returned pages are armed without being reported: the borrower marks what was written.
 * A span is returned in aligned pieces of 2 MiB, in any order. Kinds that tolerate a second protection do nothing.
 */
bool kedge__tracker_exclusive(const struct kedge__tracker *t); /* whether lending is needed */
int kedge__tracker_lend(struct kedge__tracker *t, uintptr_t begin, uintptr_t end, struct kedge__error *err);
void kedge__tracker_take_back(struct kedge__tracker *t, uintptr_t begin, uintptr_t end);

#endif
