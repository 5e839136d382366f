/* SPDX-License-Identifier: BSD-3-Clause */
/* The thread that is told of writes to protected pages. */
#include "capture/cow.h"
#include "capture/cow_copy.h"
#include "capture/tracker_abi.h"

#include <errno.h>
#include <poll.h>
#include <unistd.h>

#define BATCH      32
#define WINDOW_MAX 32

static const struct kedge__cow_span *span_of(const struct kedge__cow *c, uintptr_t address)
{
	size_t i;

	KEDGE__PARTITION_POINT(i, c->count, c->order[i]->page_end <= address);
	return i < c->count && c->order[i]->page_begin <= address ? c->order[i] : NULL;
}

static void let_go_on(struct kedge__cow *c, uintptr_t begin, uintptr_t end)
{
	struct kedge__error err = KEDGE__ERROR_INIT;

	if (kedge__cow_open(c, begin, end, &err))
		kedge__cow_fail(c, &err);
	kedge__error_done(&err);
}

/* How many pages to copy for a write to PAGE: more and more for a writer that goes on where the last copy ended. */
static size_t window_of(struct kedge__cow *c, uintptr_t page)
{
	struct kedge__cow_stream *s = NULL;

	for (size_t i = 0; i < KEDGE__COW_STREAMS && !s; i++) {
		if (c->streams[i].end == page)
			s = &c->streams[i];
	}
	if (s) {
		s->window = KEDGE__MIN(2 * s->window, (size_t)WINDOW_MAX);
	} else {
		s = &c->streams[c->next_stream++ % KEDGE__COW_STREAMS];
		s->window = 1;
	}
	s->end = page + s->window * c->page;
	return s->window;
}

/* The number of the copy that is taken after N others. */
static uint32_t copy_number(const struct kedge__cow *c, size_t n)
{
	return n < c->free_count ? c->free[c->free_count - 1 - n] : (uint32_t)(c->fresh + n - c->free_count + 1);
}

/* Pages from PAGE on that were copied to free ones of the pool, of at most WINDOW; there is room for one. */
static size_t copy_pages(struct kedge__cow *c, const struct kedge__cow_span *span, uintptr_t page, size_t window)
{
	struct iovec to[WINDOW_MAX];
	size_t n = 0, most = KEDGE__MIN(KEDGE__MIN(window, kedge__cow_room(c)), (span->page_end - page) / c->page);
	uintptr_t end;

	for (; n < most; n++) {
		if (!kedge__cow_in_memory(*kedge__cow_entry(c, span, page + n * c->page)))
			break;
		to[n] = (struct iovec){kedge__cow_copy_of(c, copy_number(c, n)), c->page};
	}
	end = page + n * c->page;
	if (kedge__cow_scatter(to, n, page, end - page))
		return (kedge__cow_proof(c->pagemap, page, end) - page) / c->page;
	return n > 1 ? copy_pages(c, span, page, 1) : 0;
}

/* The page, and up to WINDOW pages from it on as long as they are protected and there is room. */
static void copy_aside(struct kedge__cow *c, const struct kedge__cow_span *span, uintptr_t page, size_t window)
{
	uint32_t *entries = kedge__cow_entry(c, span, page);
	size_t n = copy_pages(c, span, page, window);

	for (size_t i = 0; i < n; i++)
		entries[i] = copy_number(c, i);
	c->fresh += n - KEDGE__MIN(n, c->free_count);
	c->free_count -= KEDGE__MIN(n, c->free_count);
	atomic_fetch_add(&c->written, n);
	if (!n)
		entries[0] = KEDGE__COW_LOST;
	let_go_on(c, page, page + KEDGE__MAX(n, 1) * c->page);
}

static void on_write(struct kedge__cow *c, uintptr_t page)
{
	const struct kedge__cow_span *span = span_of(c, page);
	uint32_t *entry = span ? kedge__cow_entry(c, span, page) : NULL;

	if (entry && *entry == KEDGE__COW_PROTECTED && kedge__cow_room(c)) {
		copy_aside(c, span, page, window_of(c, page));
	} else if (entry && *entry == KEDGE__COW_PROTECTED && c->waiting_count < KEDGE__COW_WAITERS) {
		*entry = KEDGE__COW_WAITING;
		c->waiting[c->waiting_count++] = page;
		c->waits++;
	} else if (entry && (*entry == KEDGE__COW_RELEASED || *entry == KEDGE__COW_OPEN)) {
		/* The rest of its piece is still wanted, or the reader is about to unprotect it. */
		*entry = KEDGE__COW_OPEN;
		let_go_on(c, page, page + c->page);
	} else if (!entry || *entry != KEDGE__COW_WAITING) {
		/* Copied or handed back while this message was on its way; or more threads wait than can be noted, and
		 * this one is sent to fault again. */
		struct uffdio_range range = {page, c->page};

		(void)ioctl(c->fd, UFFDIO_WAKE, &range);
	}
}

void kedge__cow_serve_waiting(struct kedge__cow *c)
{
	size_t kept = 0;

	for (size_t i = 0; i < c->waiting_count; i++) {
		uintptr_t page = c->waiting[i];
		const struct kedge__cow_span *span = span_of(c, page);
		uint32_t *entry = kedge__cow_entry(c, span, page);

		if (*entry == KEDGE__COW_RELEASED || *entry == KEDGE__COW_OPEN) {
			*entry = KEDGE__COW_OPEN;
			let_go_on(c, page, page + c->page);
		}
		if (*entry != KEDGE__COW_WAITING)
			continue;
		if (kedge__cow_room(c))
			copy_aside(c, span, page, 1);
		else
			c->waiting[kept++] = page;
	}
	c->waiting_count = kept;
}

/* False when the session ends. */
static bool wait_for_message(struct kedge__cow *c)
{
	struct pollfd fds[2] = {{.fd = c->fd, .events = POLLIN}, {.fd = c->stop, .events = POLLIN}};

	while (poll(fds, 2, -1) < 0 && errno == EINTR)
		;
	return !fds[1].revents;
}

void *kedge__cow_fault_main(void *cow)
{
	struct kedge__cow *c = cow;
	struct uffd_msg messages[BATCH];

	while (wait_for_message(c)) {
		ssize_t bytes = read(c->fd, messages, sizeof(messages));

		if (bytes <= 0) /* EAGAIN: whoever waited was woken meanwhile */
			continue;
		kedge__cow_lock(c);
		for (size_t i = 0; i < (size_t)bytes / sizeof(messages[0]); i++) {
			if (messages[i].event == UFFD_EVENT_PAGEFAULT)
				on_write(c, messages[i].arg.pagefault.address / c->page * c->page);
		}
		kedge__cow_unlock(c);
	}
	return NULL;
}
