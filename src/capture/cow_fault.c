/* The thread that is told of writes to protected pages. */
#include "capture/cow.h"
#include "capture/cow_copy.h"
#include "capture/tracker_abi.h"

#include <errno.h>
#include <poll.h>
#include <unistd.h>

#define BATCH 32

static const struct kedge__cow_span *span_of(const struct kedge__cow *c, uintptr_t address)
{
	size_t low = 0, high = c->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (c->order[middle]->page_end <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low < c->count && c->order[low]->page_begin <= address ? c->order[low] : NULL;
}

static void let_go_on(struct kedge__cow *c, uintptr_t page)
{
	struct kedge__error err = KEDGE__ERROR_INIT;

	if (kedge__userfault_protect(c->fd, page, page + c->page, false, &err))
		kedge__cow_fail(c, &err);
	kedge__error_done(&err);
}

static void copy_aside(struct kedge__cow *c, uint32_t *entry, uintptr_t page)
{
	uint32_t copy = c->free[--c->free_count];

	kedge__cow_copy(c->aside + copy * c->page, (const void *)page, c->page);
	*entry = copy;
	c->stats.aside_pages++;
	let_go_on(c, page);
}

static void on_write(struct kedge__cow *c, uintptr_t page)
{
	const struct kedge__cow_span *span = span_of(c, page);
	uint32_t *entry = span ? &span->pages[(page - span->page_begin) / c->page] : NULL;

	if (entry && *entry == KEDGE__COW_PROTECTED && c->free_count) {
		copy_aside(c, entry, page);
	} else if (entry && *entry == KEDGE__COW_PROTECTED && c->waiting_count < KEDGE__COW_WAITERS) {
		*entry = KEDGE__COW_WAITING;
		c->waiting[c->waiting_count++] = page;
		c->stats.waits++;
	} else if (!entry || *entry != KEDGE__COW_WAITING) {
		/* Copied or released while this message was on its way; or more threads wait than can be noted, and
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
		uint32_t *entry = &span->pages[(page - span->page_begin) / c->page];

		if (*entry != KEDGE__COW_WAITING)
			continue;
		if (c->free_count)
			copy_aside(c, entry, page);
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
