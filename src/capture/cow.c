/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A session: ranges write-protected by a userfaultfd of its own, in synchronous mode: a write to a protected page waits
 * until we let it go on. Invariant, under the lock: a page whose entry says that memory has its
 * bytes is protected.
 */
#include "capture/cow.h"
#include "capture/tracker_abi.h"
#include "pipeline/pipeline.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define FEATURES (UFFD_FEATURE_PAGEFAULT_FLAG_WP | KEDGE__UFFD_WP_HUGETLBFS_SHMEM | KEDGE__UFFD_WP_UNPOPULATED)

#define RANGES_MAX   8192
#define ASIDE_PRESET (UINT64_C(64) << 20)
#define SCRATCH      (KEDGE__COW_PIECE / c->page) /* pages: what the reader lets go of at once */
/* Protected in pieces of that size, by all threads of the pool. */
#define PIECE ((size_t)32 << 20)

void kedge__cow_lock(struct kedge__cow *c)
{
	pthread_mutex_lock(&c->door);
	pthread_mutex_lock(&c->lock);
	pthread_mutex_unlock(&c->door);
}

void kedge__cow_unlock(struct kedge__cow *c)
{
	pthread_mutex_unlock(&c->lock);
}

void kedge__cow_fail(struct kedge__cow *c, struct kedge__error *err)
{
	if (!c->failure.code)
		kedge__error_move(&c->failure, err);
}

/* ---- pages */

int kedge__cow_open(struct kedge__cow *c, uintptr_t begin, uintptr_t end, struct kedge__error *err)
{
	struct uffdio_range range = {begin, end - begin};
	int rc = kedge__userfault_protect(c->fd, begin, end, false, err);

	if (rc != KEDGE_E_NOTFOUND)
		return rc;
	/* It stops where memory is gone; what lies behind may still be there. */
	for (uintptr_t page = begin; page < end; page += c->page)
		(void)kedge__userfault_protect(c->fd, page, page + c->page, false, NULL);
	(void)ioctl(c->fd, UFFDIO_WAKE, &range);
	kedge__error_done(err);
	return 0;
}

/* It is refused as a whole if a part of it is gone. */
void kedge__cow_forget(struct kedge__cow *c, uintptr_t begin, uintptr_t end)
{
	uintptr_t middle = begin + (end - begin) / c->page / 2 * c->page;

	if (kedge__userfault_unregister(c->fd, begin, end, NULL) == 0 || middle == begin)
		return;
	kedge__cow_forget(c, begin, middle);
	kedge__cow_forget(c, middle, end);
}

/* ---- memory of a session */

static int span_compare(const void *a, const void *b)
{
	const struct kedge__cow_span *x = *(const struct kedge__cow_span *const *)a;
	const struct kedge__cow_span *y = *(const struct kedge__cow_span *const *)b;

	return (x->begin > y->begin) - (x->begin < y->begin);
}

static void span_init(const struct kedge__cow *c, struct kedge__cow_span *span, const struct kedge__cow_range *range)
{
	span->begin = (uintptr_t)range->data;
	span->end = span->begin + range->bytes;
	span->page_begin = KEDGE__MIN((span->begin + c->page - 1) / c->page * c->page, span->end);
	span->page_end = KEDGE__MAX(span->end / c->page * c->page, span->page_begin);
	/* A range within one page has no whole one: all of it is head. */
	if (span->page_begin == span->end)
		span->page_end = span->end;
}

static int spans_new(struct kedge__cow *c, const struct kedge__cow_range *ranges, size_t count,
		     struct kedge__error *err)
{
	if (count > RANGES_MAX)
		return kedge__error_set(err, KEDGE_E_LIMIT, 0, "%zu ranges to protect; the limit is %d", count,
					RANGES_MAX);
	c->spans = kedge__calloc(count, sizeof(*c->spans));
	c->order = kedge__calloc(count, sizeof(*c->order));
	if (!c->spans || !c->order)
		return kedge__error_nomem(err);
	c->count = count;
	for (size_t i = 0; i < count; i++) {
		span_init(c, &c->spans[i], &ranges[i]);
		c->order[i] = &c->spans[i];
	}
	qsort(c->order, count, sizeof(*c->order), span_compare);
	for (size_t i = 1; i < count; i++) {
		if (c->order[i]->begin < c->order[i - 1]->end)
			return kedge__error_set(err, KEDGE_E_ARG, 0, "ranges to protect overlap at 0x%zx",
						(size_t)c->order[i]->begin);
	}
	return 0;
}

/* Returns what is behind its own at AT. */
static uint32_t *pieces_init(struct kedge__cow_span *span, uint32_t *at)
{
	uintptr_t begin = span->page_begin;

	span->wanted = at;
	while (begin < span->page_end) {
		uintptr_t end = KEDGE__MIN(span->page_end, (begin / KEDGE__COW_PIECE + 1) * KEDGE__COW_PIECE);

		*at++ = (uint32_t)(end - begin);
		begin = end;
	}
	return at;
}

static int pieces_new(struct kedge__cow *c, struct kedge__error *err)
{
	size_t count = 0;
	uint32_t *at;

	for (size_t i = 0; i < c->count; i++)
		count += kedge__cow_pieces(&c->spans[i]);
	at = c->pieces = kedge__malloc(count * sizeof(*at));
	if (!at)
		return kedge__error_nomem(err);
	for (size_t i = 0; i < c->count; i++)
		at = pieces_init(&c->spans[i], at);
	return 0;
}

/*
 * One mapping for the entries of all pages, the free list, the scratch pages and the pool: it is far from the heap, and
 * begin() touches none of it, for that would take longer than most of what it does.
 */
static int tables_new(struct kedge__cow *c, uint64_t aside_bytes, struct kedge__error *err)
{
	size_t pages = 0, words;
	uint32_t *at;

	for (size_t i = 0; i < c->count; i++)
		pages += (c->spans[i].page_end - c->spans[i].page_begin) / c->page;
	c->aside_pages = KEDGE__MAX(KEDGE__MIN((aside_bytes ? aside_bytes : ASIDE_PRESET) / c->page, pages), 1);
	words = (pages + c->aside_pages) * sizeof(uint32_t);
	words = (words + c->page - 1) / c->page * c->page;
	c->tables_bytes = (c->aside_pages + 2 * SCRATCH) * c->page + words;
	c->tables = kedge__map_alloc(c->tables_bytes);
	if (!c->tables)
		return kedge__error_nomem(err);
	at = c->tables;
	c->scratch = (unsigned char *)c->tables + words;
	c->aside = c->scratch + 2 * SCRATCH * c->page;
	for (size_t i = 0; i < c->count; i++) {
		c->spans[i].pages = at;
		at += (c->spans[i].page_end - c->spans[i].page_begin) / c->page;
	}
	c->free = at;
	return 0;
}

static int edges_new(struct kedge__cow *c, struct kedge__error *err)
{
	size_t bytes = 0;
	unsigned char *at;

	for (size_t i = 0; i < c->count; i++)
		bytes += c->spans[i].page_begin - c->spans[i].begin + (c->spans[i].end - c->spans[i].page_end);
	at = c->edges = kedge__malloc(bytes);
	if (!at)
		return kedge__error_nomem(err);
	for (size_t i = 0; i < c->count; i++) {
		struct kedge__cow_span *span = &c->spans[i];

		span->head = at;
		at += span->page_begin - span->begin;
		span->tail = at;
		at += span->end - span->page_end;
	}
	return 0;
}

static void session_free(struct kedge__cow *c)
{
	if (c->fd >= 0)
		close(c->fd);
	if (c->stop >= 0)
		close(c->stop);
	if (c->pagemap >= 0)
		close(c->pagemap);
	kedge__map_free(c->tables, c->tables_bytes);
	kedge__free(c->edges);
	kedge__free(c->pieces);
	kedge__free(c->spans);
	kedge__free(c->order);
	kedge__error_done(&c->failure);
	pthread_mutex_destroy(&c->lock);
	pthread_mutex_destroy(&c->door);
	kedge__free(c);
}

static int session_new(const struct kedge__cow_range *ranges, size_t count, const struct kedge__cow_options *options,
		       struct kedge__cow **out, struct kedge__error *err)
{
	struct kedge__cow *c = kedge__calloc(1, sizeof(*c));
	bool kernel_writes;
	int rc;

	if (!c)
		return kedge__error_nomem(err);
	c->fd = c->stop = c->pagemap = -1;
	c->page = kedge__page_size();
	c->tracker = options->tracker && kedge__tracker_exclusive(options->tracker) ? options->tracker : NULL;
	pthread_mutex_init(&c->door, NULL);
	pthread_mutex_init(&c->lock, NULL);
	rc = spans_new(c, ranges, count, err);
	if (rc == 0)
		rc = tables_new(c, options->aside_bytes, err);
	if (rc == 0)
		rc = pieces_new(c, err);
	if (rc == 0)
		rc = edges_new(c, err);
	if (rc == 0)
		rc = kedge__userfault_open(FEATURES, &c->fd, &kernel_writes, err);
	if (rc == 0)
		rc = kedge__pagemap_open(&c->pagemap, err);
	if (rc) {
		session_free(c);
		return rc;
	}
	*out = c;
	return 0;
}

/* ---- begin and end */

static int thread_start(struct kedge__cow *c, struct kedge__error *err)
{
	int rc;

	c->stop = eventfd(0, EFD_CLOEXEC);
	if (c->stop < 0)
		return kedge__error_set(err, KEDGE_E_STATE, errno, "cannot create an eventfd");
	rc = kedge__thread_start(&c->thread, kedge__cow_fault_main, c);
	if (rc)
		return kedge__error_set(err, KEDGE_E_NOMEM, rc, "cannot start the thread that copies pages");
	c->started = true;
	return 0;
}

static int span_register(struct kedge__cow *c, struct kedge__cow_span *span, struct kedge__error *err)
{
	int rc;

	memcpy(span->head, (const void *)span->begin, span->page_begin - span->begin);
	memcpy(span->tail, (const void *)span->page_end, span->end - span->page_end);
	if (span->page_begin == span->page_end)
		return 0;
	if (c->tracker) {
		rc = kedge__tracker_lend(c->tracker, span->page_begin, span->page_end, err);
		if (rc)
			return rc;
		span->lent = true;
	}
	rc = kedge__userfault_register(c->fd, span->page_begin, span->page_end, err);
	/* Only then is it ours to forget: the kernel asks nobody whose registration it ends. */
	span->registered = rc == 0;
	/* Refused for memory whose pages are larger than the ones that we can copy aside. */
	if (rc == 0)
		rc = kedge__userfault_protect(c->fd, span->page_begin, span->page_begin + c->page, false, err);
	return rc;
}

struct protect_job {
	struct kedge__cow *cow;
	struct kedge__pages *pieces;
};

static int protect_piece(void *ctx, size_t i, int worker)
{
	struct protect_job *job = ctx;
	struct kedge__error err = KEDGE__ERROR_INIT;
	int rc = kedge__userfault_protect(job->cow->fd, job->pieces[i].begin, job->pieces[i].end, true, &err);

	(void)worker;
	if (rc) {
		kedge__cow_lock(job->cow);
		kedge__cow_fail(job->cow, &err);
		kedge__cow_unlock(job->cow);
		kedge__error_done(&err);
	}
	return rc;
}

static int protect_all(struct kedge__cow *c, struct kedge__pool *pool, struct kedge__error *err)
{
	struct kedge__pages_list pieces = {0};
	struct protect_job job = {.cow = c};
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < c->count; i++) {
		struct kedge__cow_span *span = &c->spans[i];

		for (uintptr_t at = span->page_begin; rc == 0 && at < span->page_end; at = (at / PIECE + 1) * PIECE) {
			struct kedge__pages piece = {at, KEDGE__MIN((at / PIECE + 1) * PIECE, span->page_end)};

			if (!kedge__array_push(&pieces, piece))
				rc = kedge__error_nomem(err);
		}
	}
	job.pieces = pieces.at;
	if (rc == 0 && pieces.count) {
		rc = kedge__pool_for(pool, pieces.count, protect_piece, &job);
		if (rc && err)
			kedge__error_move(err, &c->failure);
	}
	kedge__array_done(&pieces);
	return rc;
}

static int session_begin(struct kedge__cow *c, struct kedge__pool *pool, struct kedge__error *err)
{
	int rc = thread_start(c, err);

	for (size_t i = 0; rc == 0 && i < c->count; i++)
		rc = span_register(c, &c->spans[i], err);
	return rc ? rc : protect_all(c, pool, err);
}

/* The thread is gone. Nothing that was not handed back stays with us. */
static void session_end(struct kedge__cow *c)
{
	uint64_t one = 1;

	if (c->started) {
		while (write(c->stop, &one, sizeof(one)) < 0 && errno == EINTR)
			;
		pthread_join(c->thread, NULL);
	}
	for (size_t i = 0; i < c->count; i++) {
		struct kedge__cow_span *span = &c->spans[i];

		/* With children of a fork holding the descriptor, closing it is not enough. */
		if (span->registered)
			kedge__cow_forget(c, span->page_begin, span->page_end);
	}
}

int kedge__cow_begin(const struct kedge__cow_range *ranges, size_t count, const struct kedge__cow_options *options,
		     struct kedge__cow **out, struct kedge__error *err)
{
	struct kedge__cow *c;
	int rc = session_new(ranges, count, options, &c, err);

	if (rc)
		return rc;
	rc = session_begin(c, options->pool, err);
	if (rc == 0) {
		*out = c;
		return 0;
	}
	session_end(c);
	for (size_t i = 0; c->tracker && i < count; i++) {
		struct kedge__cow_span *span = &c->spans[i];

		if (!span->lent)
			continue;
		kedge__tracker_take_back(c->tracker, span->page_begin, span->page_end);
		kedge__tracker_mark(c->tracker, (void *)span->page_begin, span->page_end - span->page_begin);
	}
	session_free(c);
	return rc;
}

int kedge__cow_end(struct kedge__cow *c, struct kedge__cow_stats *stats, struct kedge__error *err)
{
	int rc;

	if (!c)
		return 0;
	for (size_t i = 0; i < c->count; i++) {
		kedge__cow_release_rest(c, i);
		/* What the tracker has again is its own. */
		c->spans[i].registered &= !c->tracker;
	}
	session_end(c);
	rc = c->failure.code;
	if (stats)
		*stats = (struct kedge__cow_stats){atomic_load(&c->written), c->waits};
	if (rc && err)
		kedge__error_move(err, &c->failure);
	session_free(c);
	return rc;
}

uint64_t kedge__cow_written(const struct kedge__cow *c)
{
	return (uint64_t)atomic_load_explicit(&c->written, memory_order_relaxed) * c->page;
}

/* The real thing on one page. */
static int try_out(unsigned char *page, struct kedge__error *err)
{
	struct kedge__cow_range range = {page, kedge__page_size()};
	struct kedge__cow_options options = {0};
	struct kedge__cow *c = NULL;
	unsigned char found = 0;
	int rc, ended;

	page[0] = 1;
	rc = kedge__cow_begin(&range, 1, &options, &c, err);
	if (rc)
		return rc;
	rc = kedge__cow_read(c, 0, 0, &found, 1, err);
	ended = kedge__cow_end(c, NULL, rc ? NULL : err);
	if (rc || ended)
		return rc ? rc : ended;
	return found == 1
		   ? 0
		   : kedge__error_set(err, KEDGE_E_STATE, 0, "write-protected memory does not read back correctly");
}

int kedge__cow_probe(bool *kernel_writes, struct kedge__error *err)
{
	int fd, rc = kedge__userfault_open(FEATURES, &fd, kernel_writes, err);
	void *page = NULL;

	if (rc == 0) {
		close(fd);
		page = kedge__map_alloc(kedge__page_size());
		rc = page ? try_out(page, err) : kedge__error_nomem(err);
	}
	kedge__map_free(page, kedge__page_size());
	return rc ? kedge__error_prefix(err, "capture = cow") : 0;
}
