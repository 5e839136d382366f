/* SPDX-License-Identifier: BSD-3-Clause */
/* The reader's side of a session: bytes as of begin(), and letting go of pages. */
#include "capture/cow.h"
#include "capture/cow_copy.h"

/* Pages read at once: those who write to them then wait no longer than that takes. */
#define PIECE_PAGES 32

static uint64_t span_bytes(const struct kedge__cow *c, size_t range)
{
	return c->spans[range].end - c->spans[range].begin;
}

/* ---- read */

static int lost(uintptr_t at, struct kedge__error *err)
{
	return kedge__error_set(err, KEDGE_E_STATE, 0,
				"memory at 0x%zx was unmapped, moved or discarded before it was saved", (size_t)at);
}

/* Entries say that memory has it. */
static int copy_memory(const struct kedge__cow *c, uintptr_t at, uintptr_t end, unsigned char *to,
		       struct kedge__error *err)
{
	uintptr_t upto, last = (end + c->page - 1) / c->page * c->page;

	if (!kedge__cow_copy(to, at, end - at))
		return lost(at, err);
	upto = kedge__cow_proof(c->pagemap, at / c->page * c->page, last);
	return upto < last ? lost(KEDGE__MAX(upto, at), err) : 0;
}

/* The end of the run from AT on that memory has. Locked. */
static uintptr_t memory_run(const struct kedge__cow *c, const struct kedge__cow_span *span, uintptr_t at, uintptr_t end)
{
	uintptr_t page = at / c->page * c->page;

	while (page < end && kedge__cow_in_memory(*kedge__cow_entry(c, span, page)))
		page += c->page;
	return KEDGE__MAX(at, KEDGE__MIN(page, end));
}

/* Whatever its pages are. Locked: so they stay what they are. */
static int copy_pages(struct kedge__cow *c, const struct kedge__cow_span *span, uintptr_t at, uintptr_t end,
		      unsigned char *to, struct kedge__error *err)
{
	int rc = 0;

	while (rc == 0 && at < end) {
		uintptr_t page = at / c->page * c->page, upto = memory_run(c, span, at, end);
		uint32_t entry = *kedge__cow_entry(c, span, page);

		if (upto > at) {
			rc = copy_memory(c, at, upto, to, err);
		} else if (entry == KEDGE__COW_LOST) {
			rc = lost(at, err);
		} else if (entry >= KEDGE__COW_BACK) {
			rc =
			    kedge__error_set(err, KEDGE_E_STATE, 0, "memory at 0x%zx was already released", (size_t)at);
		} else {
			upto = KEDGE__MIN(end, page + c->page);
			memcpy(to, kedge__cow_copy_of(c, entry) + (at - page), upto - at);
		}
		to += upto - at;
		at = upto;
	}
	return rc;
}

/* Without the lock where nothing was written: if a page is, or goes away meanwhile, there is no proof. */
static int read_whole(struct kedge__cow *c, const struct kedge__cow_span *span, uintptr_t at, uintptr_t end,
		      unsigned char *to, struct kedge__error *err)
{
	bool plain;
	int rc;

	kedge__cow_lock(c);
	plain = memory_run(c, span, at, end) == end;
	kedge__cow_unlock(c);
	if (plain && copy_memory(c, at, end, to, NULL) == 0)
		return 0;
	kedge__cow_lock(c);
	rc = copy_pages(c, span, at, end, to, err);
	kedge__cow_unlock(c);
	return rc;
}

int kedge__cow_read(struct kedge__cow *c, size_t range, uint64_t offset, void *buffer, size_t bytes,
		    struct kedge__error *err)
{
	const struct kedge__cow_span *span;
	unsigned char *to = buffer;
	uintptr_t at, end;
	int rc = 0;

	if (range >= c->count || offset > span_bytes(c, range) || bytes > span_bytes(c, range) - offset)
		return kedge__error_set(err, KEDGE_E_ARG, 0, "read outside the captured ranges");
	span = &c->spans[range];
	at = span->begin + offset;
	end = at + bytes;
	while (rc == 0 && at < end) {
		uintptr_t upto = KEDGE__MIN(end, span->page_begin);

		if (at < span->page_begin) {
			memcpy(to, span->head + (at - span->begin), upto - at);
		} else if (at >= span->page_end) {
			upto = end;
			memcpy(to, span->tail + (at - span->page_end), upto - at);
		} else {
			upto = KEDGE__MIN(KEDGE__MIN(end, span->page_end), (at / c->page + PIECE_PAGES) * c->page);
			rc = read_whole(c, span, at, upto, to, err);
		}
		to += upto - at;
		at = upto;
	}
	return rc;
}

bool kedge__cow_waits(struct kedge__cow *c, size_t range, uint64_t offset, uint64_t bytes)
{
	const struct kedge__cow_span *span = &c->spans[range];
	uintptr_t begin = KEDGE__MAX((span->begin + offset) / c->page * c->page, span->page_begin);
	uintptr_t end = KEDGE__MIN(span->begin + offset + bytes, span->page_end);
	size_t pages = 0, there = 0;

	kedge__cow_lock(c);
	for (uintptr_t page = begin; page < end; page += c->page, pages++)
		there += kedge__cow_in_memory(*kedge__cow_entry(c, span, page));
	kedge__cow_unlock(c);
	return 2 * there >= pages;
}

/* ---- release */

/* A copy goes back to the pool. */
static void entry_release(struct kedge__cow *c, uint32_t *entry)
{
	if (kedge__cow_in_memory(*entry))
		*entry = KEDGE__COW_RELEASED;
	if (*entry >= KEDGE__COW_BACK)
		return;
	c->free[c->free_count++] = *entry;
	*entry = KEDGE__COW_OPEN;
}

/* Released pages [begin, end) to TO; those that did not stay as they were are marked. */
static void keep_run(struct kedge__cow *c, const struct kedge__cow_span *span, uintptr_t begin, uintptr_t end,
		     unsigned char *to)
{
	uintptr_t kept = kedge__cow_copy(to, begin, end - begin) ? kedge__cow_proof(c->pagemap, begin, end) : begin;

	for (uintptr_t page = kept; page < end; page += c->page)
		*kedge__cow_entry(c, span, page) = KEDGE__COW_LOST;
	if (kept < end)
		kedge__tracker_mark(c->tracker, (const void *)kept, end - kept);
}

/* Pages that are still protected to the scratch memory; others were written. */
static void keep_for_comparison(struct kedge__cow *c, const struct kedge__cow_span *span, uintptr_t begin,
				uintptr_t end)
{
	uintptr_t page = begin;

	while (page < end) {
		uintptr_t run = page;

		while (page < end && *kedge__cow_entry(c, span, page) == KEDGE__COW_RELEASED)
			page += c->page;
		if (page > run) {
			keep_run(c, span, run, page, c->scratch + (run - begin));
		} else {
			kedge__tracker_mark(c->tracker, (const void *)page, c->page);
			page += c->page;
		}
	}
}

/*
 * Memory has one userfaultfd at a time, and between ours letting go and the tracker's taking up nobody watches. A write
 * in between, or before, shows in the contents once the tracker watches again; one after is the tracker's.
 */
static void hand_back(struct kedge__cow *c, const struct kedge__cow_span *span, uintptr_t begin, uintptr_t end)
{
	unsigned char *before = c->scratch, *now = c->scratch + KEDGE__COW_PIECE;
	bool readable;

	keep_for_comparison(c, span, begin, end);
	kedge__cow_forget(c, begin, end);
	kedge__tracker_take_back(c->tracker, begin, end);
	readable = kedge__cow_copy(now, begin, end - begin);
	for (uintptr_t page = begin; page < end; page += c->page) {
		uint32_t *entry = kedge__cow_entry(c, span, page);

		if (*entry == KEDGE__COW_RELEASED &&
		    (!readable || memcmp(before + (page - begin), now + (page - begin), c->page) != 0))
			kedge__tracker_mark(c->tracker, (const void *)page, c->page);
		*entry = KEDGE__COW_BACK;
	}
}

/* All of a piece is released: [begin, end) of it is the span's. Locked, but without a tracker not on return. */
static int piece_open(struct kedge__cow *c, const struct kedge__cow_span *span, uintptr_t begin, uintptr_t end,
		      struct kedge__error *err)
{
	for (uintptr_t page = begin; page < end; page += c->page)
		entry_release(c, kedge__cow_entry(c, span, page));
	kedge__cow_serve_waiting(c);
	if (c->tracker) {
		hand_back(c, span, begin, end);
		kedge__cow_unlock(c);
		return 0;
	}
	/* Without the lock: who writes to one of these pages meanwhile is let go on by the other thread. */
	kedge__cow_unlock(c);
	return kedge__cow_open(c, begin, end, err);
}

/* Bytes [begin, end) within one piece. */
static void release_within(struct kedge__cow *c, const struct kedge__cow_span *span, uintptr_t begin, uintptr_t end)
{
	uintptr_t first = begin / KEDGE__COW_PIECE * KEDGE__COW_PIECE;
	uint32_t *wanted = &span->wanted[kedge__cow_piece(span, begin)];
	struct kedge__error err = KEDGE__ERROR_INIT;
	int rc = 0;

	kedge__cow_lock(c);
	for (uintptr_t page = (begin + c->page - 1) / c->page * c->page; page + c->page <= end; page += c->page)
		entry_release(c, kedge__cow_entry(c, span, page));
	*wanted -= (uint32_t)(end - begin);
	if (*wanted == 0) {
		rc = piece_open(c, span, KEDGE__MAX(first, span->page_begin),
				KEDGE__MIN(first + KEDGE__COW_PIECE, span->page_end), &err);
	} else {
		kedge__cow_serve_waiting(c);
		kedge__cow_unlock(c);
	}
	if (rc) {
		kedge__cow_lock(c);
		kedge__cow_fail(c, &err);
		kedge__cow_unlock(c);
	}
	kedge__error_done(&err);
}

int kedge__cow_release(struct kedge__cow *c, size_t range, uint64_t offset, uint64_t bytes, struct kedge__error *err)
{
	const struct kedge__cow_span *span;
	uintptr_t at, end;

	if (range >= c->count || offset > span_bytes(c, range) || bytes > span_bytes(c, range) - offset)
		return kedge__error_set(err, KEDGE_E_ARG, 0, "release outside the captured ranges");
	span = &c->spans[range];
	at = KEDGE__MAX(span->begin + offset, span->page_begin);
	end = KEDGE__MIN(span->begin + offset + bytes, span->page_end);
	while (at < end) {
		uintptr_t upto = KEDGE__MIN(end, (at / KEDGE__COW_PIECE + 1) * KEDGE__COW_PIECE);

		release_within(c, span, at, upto);
		at = upto;
	}
	return 0;
}

void kedge__cow_release_rest(struct kedge__cow *c, size_t i)
{
	const struct kedge__cow_span *span = &c->spans[i];

	for (uintptr_t at = span->page_begin; at < span->page_end;) {
		uintptr_t upto = KEDGE__MIN(span->page_end, (at / KEDGE__COW_PIECE + 1) * KEDGE__COW_PIECE);
		uint32_t wanted = span->wanted[kedge__cow_piece(span, at)];

		/* As if the last bytes of the piece were the missing ones: all of its pages go. */
		if (wanted)
			release_within(c, span, upto - wanted, upto);
		at = upto;
	}
}

/* ---- next */

int kedge__cow_next(struct kedge__cow *c, void *buffer, size_t room, size_t *range, uint64_t *offset, size_t *bytes,
		    struct kedge__error *err)
{
	const struct kedge__cow_span *span;
	uintptr_t at, end;
	int rc;

	if (room < c->page)
		return kedge__error_set(err, KEDGE_E_ARG, 0, "the buffer is smaller than a page");
	while (c->next_range < c->count && c->next_offset == span_bytes(c, c->next_range)) {
		c->next_range++;
		c->next_offset = 0;
	}
	if (c->next_range == c->count) {
		*bytes = 0;
		return 0;
	}
	span = &c->spans[c->next_range];
	at = span->begin + c->next_offset;
	end = span->end;
	/* Whole pages, so that what was read can be released. */
	if (end - at > room)
		end = (at + room) / c->page * c->page;
	rc = kedge__cow_read(c, c->next_range, c->next_offset, buffer, end - at, err);
	if (rc)
		return rc;
	*range = c->next_range;
	*offset = c->next_offset;
	*bytes = end - at;
	c->next_offset += end - at;
	return kedge__cow_release(c, *range, *offset, *bytes, err);
}
