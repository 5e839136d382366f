/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to a session: what begin and end (cow.c), faults (cow_fault.c) and the reader (cow_read.c) share. */
#ifndef KEDGE_CAPTURE_COW_H
#define KEDGE_CAPTURE_COW_H

#include "capture/tracker.h"
#include <stdatomic.h>

/* Values of a page's entry; any other value is the number of its copy in the pool, from 1 on. */
#define KEDGE__COW_PROTECTED 0                /* memory has the bytes of begin(); zero, like fresh memory for entries */
#define KEDGE__COW_WAITING   UINT32_MAX       /* the same, and a writer waits for room in the pool */
#define KEDGE__COW_RELEASED  (UINT32_MAX - 1) /* no longer needed; protected until all of its piece is released */
#define KEDGE__COW_OPEN      (UINT32_MAX - 2) /* no longer needed and not protected: the application wrote to it */
#define KEDGE__COW_LOST      (UINT32_MAX - 3) /* it was gone by the time the application wrote to what replaced it */
#define KEDGE__COW_BACK      (UINT32_MAX - 4) /* returned to the tracker; smaller values are numbers of copies */

/* Released as a unit: a huge page, so that it need not be split. */
#define KEDGE__COW_PIECE ((uintptr_t)2 << 20)

#define KEDGE__COW_WAITERS 1024
#define KEDGE__COW_STREAMS 8

/* Writes that proceed from page to page: where the last copy ended, and how many pages it had. */
struct kedge__cow_stream {
	uintptr_t end;
	size_t window;
};

struct kedge__cow_span {
	uintptr_t begin, end;           /* the range, in bytes */
	uintptr_t page_begin, page_end; /* whole pages of it: these are protected */
	uint32_t *pages;                /* one entry per page */
	uint32_t *wanted;               /* bytes of each piece that are not released yet */
	unsigned char *head, *tail;     /* copies of what lies before and after the whole pages */
	bool lent; /* by the tracker */
	bool registered;
};

struct kedge__cow {
	struct kedge__cow_span *spans; /* as given */
	size_t count;
	const struct kedge__cow_span **order; /* by address */
	struct kedge__tracker *tracker;
	size_t page;
	int fd, stop; /* userfaultfd, eventfd */
	int pagemap;
	pthread_t thread;
	bool started;

	/*
	 * `door` is taken before `lock` and released once that is held, so that a fault gets its turn between two pieces of
	 * the reader's work. `lock` guards everything below, the entries of pages, and changes to their protection.
	 */
	pthread_mutex_t door, lock;
	unsigned char *aside; /* the pool, of aside_pages pages */
	size_t aside_pages, fresh; /* the first ones were in use before */
	uint32_t *free;            /* numbers of those of them that are free */
	size_t free_count;
	uintptr_t waiting[KEDGE__COW_WAITERS];
	size_t waiting_count;
	struct kedge__cow_stream streams[KEDGE__COW_STREAMS];
	size_t next_stream; /* to be replaced */
	atomic_size_t written; /* pages copied aside so far; read without the lock */
	uint64_t waits;        /* writes that found the pool full */
	struct kedge__error failure; /* the first one of a session */

	unsigned char *scratch; /* for the reader: two pieces to be compared */
	size_t next_range;      /* where next() is */
	uint64_t next_offset;
	void *tables, *edges, *pieces; /* memory behind the pointers above */
	size_t tables_bytes;
};

static inline uint32_t *kedge__cow_entry(const struct kedge__cow *c, const struct kedge__cow_span *span, uintptr_t page)
{
	return &span->pages[(page - span->page_begin) / c->page];
}

static inline bool kedge__cow_in_memory(uint32_t entry)
{
	return entry == KEDGE__COW_PROTECTED || entry == KEDGE__COW_WAITING;
}

static inline unsigned char *kedge__cow_copy_of(const struct kedge__cow *c, uint32_t entry)
{
	return c->aside + (entry - 1) * c->page;
}

/* Copies that there is room for. */
static inline size_t kedge__cow_room(const struct kedge__cow *c)
{
	return c->free_count + (c->aside_pages - c->fresh);
}

/* The number of the piece that ADDRESS is in, of those of SPAN. */
static inline size_t kedge__cow_piece(const struct kedge__cow_span *span, uintptr_t address)
{
	return address / KEDGE__COW_PIECE - span->page_begin / KEDGE__COW_PIECE;
}

static inline size_t kedge__cow_pieces(const struct kedge__cow_span *span)
{
	return span->page_begin == span->page_end ? 0 : kedge__cow_piece(span, span->page_end - 1) + 1;
}

void kedge__cow_lock(struct kedge__cow *c);
void kedge__cow_unlock(struct kedge__cow *c);
void kedge__cow_fail(struct kedge__cow *c, struct kedge__error *err); /* consumes ERR, keeps the first; locked */

/* Pages may be written, and whoever waits for one continues. Memory that is gone is no error: nothing is protected there. */
int kedge__cow_open(struct kedge__cow *c, uintptr_t begin, uintptr_t end, struct kedge__error *err);
/* The same, and the session no longer owns them. */
void kedge__cow_forget(struct kedge__cow *c, uintptr_t begin, uintptr_t end);

/* ------------------------------------------------------------------ cow_fault.c */

void *kedge__cow_fault_main(void *cow);
/* Pages were released: wake writers that wait for room. Locked. */
void kedge__cow_serve_waiting(struct kedge__cow *c);

/* ------------------------------------------------------------------ cow_read.c */

/* All pages of span I. */
void kedge__cow_release_rest(struct kedge__cow *c, size_t i);

#endif
