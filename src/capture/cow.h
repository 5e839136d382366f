/* Inside of a session: what begin and end (cow.c), faults (cow_fault.c) and the reader (cow_read.c) share. */
#ifndef KEDGE_CAPTURE_COW_H
#define KEDGE_CAPTURE_COW_H

#include "capture/tracker.h"
#include <stdatomic.h>

/* What a page's entry says; else it is the number of its copy in the pool, from 1 on. */
#define KEDGE__COW_PROTECTED 0                /* memory has the bytes of begin(): what fresh memory for entries says */
#define KEDGE__COW_WAITING   UINT32_MAX       /* so it has, and a writer waits for room in the pool */
#define KEDGE__COW_RELEASED  (UINT32_MAX - 1) /* not wanted any more; protected until all of its piece is let go */
#define KEDGE__COW_OPEN      (UINT32_MAX - 2) /* not wanted any more, and not protected: the application wrote to it */
#define KEDGE__COW_LOST      (UINT32_MAX - 3) /* it was gone when the application wrote to what is there now */
#define KEDGE__COW_BACK      (UINT32_MAX - 4) /* the tracker has it again; what is below is the number of a copy */

/* Let go of together: a huge page, so that it need not be split. */
#define KEDGE__COW_PIECE ((uintptr_t)2 << 20)

#define KEDGE__COW_WAITERS 1024
#define KEDGE__COW_STREAMS 8

/* Writes that go on from page to page: where the last copy ended, and how many pages it took. */
struct kedge__cow_stream {
	uintptr_t end;
	size_t window;
};

struct kedge__cow_span {
	uintptr_t begin, end;           /* the range, in bytes */
	uintptr_t page_begin, page_end; /* whole pages of it: these are protected */
	uint32_t *pages;                /* an entry a page */
	uint32_t *wanted;               /* bytes of each piece that were not released yet */
	unsigned char *head, *tail;     /* copies of what lies before and after the whole pages */
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
	 * `door` is taken before `lock` and let go once that is held: so a fault gets its turn between two pieces of
	 * the reader's work. `lock` guards all that follows, the entries of pages and what is done to their protection.
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
	struct kedge__cow_stats stats;
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
void kedge__cow_fail(struct kedge__cow *c, struct kedge__error *err); /* takes ERR, keeps the first; locked */

/* Pages may be written, and who waits for one goes on. Memory that went away is no error: there, nothing is protected. */
int kedge__cow_open(struct kedge__cow *c, uintptr_t begin, uintptr_t end, struct kedge__error *err);
/* The same, and they are not ours any more. */
void kedge__cow_forget(struct kedge__cow *c, uintptr_t begin, uintptr_t end);

/* ------------------------------------------------------------------ cow_fault.c */

void *kedge__cow_fault_main(void *cow);
/* Pages were released: let writers go on that waited for room. Locked. */
void kedge__cow_serve_waiting(struct kedge__cow *c);

/* ------------------------------------------------------------------ cow_read.c */

/* All pages of span I. */
void kedge__cow_release_rest(struct kedge__cow *c, size_t i);

#endif
