/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tracking by asynchronous write protection: the kernel itself lets a write to a protected page go on, after lifting
 * the protection of that page. PAGEMAP_SCAN finds such pages and protects them again in one step, page by page under
 * the page table's lock, so that a write falls on one side or the other of it and is never lost.
 *
 * What counts as clean is a page that still carries our protection mark: in memory, in swap, or (mark only) never
 * touched. Memory that was unmapped, moved or discarded lost the mark, and with it the mapping's registration.
 */
#include "capture/tracker.h"
#include "capture/tracker_abi.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define BATCH 2048

struct uffd_state {
	int fd, pagemap;
	bool plain; /* the kernel calls a page without our mark written even where there is no page: see scan_of() */
	struct kedge__page_region found[BATCH];
};

#define FEATURES (KEDGE__UFFD_WP_ASYNC | KEDGE__UFFD_WP_UNPOPULATED | KEDGE__UFFD_WP_HUGETLBFS_SHMEM)

static void uffd_close(void *state)
{
	struct uffd_state *s = state;

	if (!s)
		return;
	if (s->fd >= 0)
		close(s->fd);
	if (s->pagemap >= 0)
		close(s->pagemap);
	kedge__free(s);
}

static int uffd_pass(void *state, struct kedge__error *err)
{
	(void)state;
	(void)err;
	return 0;
}

static int uffd_arm(void *state, const struct kedge__area *area, struct kedge__error *err)
{
	struct uffd_state *s = state;
	struct kedge__pagemap_scan arg = {
	    .size = sizeof(arg),
	    .flags = KEDGE__SCAN_WP_MATCHING | KEDGE__SCAN_CHECK_WPASYNC,
	    .start = area->begin,
	    .end = area->end,
	};
	int rc = kedge__userfault_register(s->fd, area->begin, area->end, err);

	if (rc)
		return rc;
	/* Without a place for answers the scan only protects: several times faster than UFFDIO_WRITEPROTECT. */
	if (ioctl(s->pagemap, KEDGE__PAGEMAP_SCAN, &arg) >= 0)
		return 0;
	rc = kedge__error_set(err, KEDGE_E_STATE, errno, "cannot protect memory at 0x%zx", (size_t)area->begin);
	kedge__userfault_unregister(s->fd, area->begin, area->end, NULL);
	return rc;
}

static void uffd_drop(void *state, const struct kedge__area *area)
{
	struct uffd_state *s = state;

	/* It fails where the memory is gone, and then there is nothing to undo. */
	kedge__userfault_unregister(s->fd, area->begin, area->end, NULL);
}

static bool page_is_dirty(uint64_t categories, enum kedge__backing backing)
{
	if (categories & KEDGE__PAGE_WRITTEN)
		return true;
	/* A private page of a file that is not a copy of ours may have been one before: the copy was discarded. */
	if (backing == KEDGE__BACKING_PRIVATE_FILE)
		return true;
	return !(categories & (KEDGE__PAGE_PRESENT | KEDGE__PAGE_SWAPPED));
}

/*
 * One pass over AREA. Where the kernel has it right by itself, written pages are asked for, for which it has a path
 * that looks at nothing else. Where not (and for files, see above), pages that are written or not present: those that
 * are present and protected are the common ones, and are skipped; marks and swapped pages come along and are sorted out
 * here.
 */
static struct kedge__pagemap_scan scan_of(struct uffd_state *s, const struct kedge__area *area, uint64_t flags)
{
	uint64_t file = area->backing == KEDGE__BACKING_PRIVATE_FILE ? KEDGE__PAGE_FILE : 0;
	struct kedge__pagemap_scan arg = {
	    .size = sizeof(arg),
	    .flags = flags | KEDGE__SCAN_CHECK_WPASYNC,
	    .start = area->begin,
	    .end = area->end,
	    .vec = (uintptr_t)s->found,
	    .vec_len = BATCH,
	};

	if (s->plain && !file) {
		arg.category_mask = arg.return_mask = KEDGE__PAGE_WRITTEN;
		return arg;
	}
	arg.category_inverted = KEDGE__PAGE_PRESENT;
	arg.category_anyof_mask = KEDGE__PAGE_PRESENT | KEDGE__PAGE_WRITTEN | file;
	arg.return_mask = KEDGE__PAGE_PRESENT | KEDGE__PAGE_WRITTEN | KEDGE__PAGE_SWAPPED | file;
	return arg;
}

typedef int (*found_fn)(void *ctx, const struct kedge__page_region *region, struct kedge__error *err);

/*
 * Where to go on. The kernel gathers 512 ranges at a time, and when the last such round comes to the end of the memory,
 * it leaves walk_end where the round before had stopped: going on from there would find pages a second time. But a scan
 * that did not fill our array has seen everything.
 */
static uint64_t scan_next(const struct uffd_state *s, const struct kedge__pagemap_scan *arg, int found)
{
	return found < BATCH ? arg->end : KEDGE__MAX(arg->walk_end, s->found[found - 1].end);
}

static int scan(struct uffd_state *s, const struct kedge__area *area, uint64_t flags, found_fn fn, void *ctx,
		struct kedge__error *err)
{
	struct kedge__pagemap_scan arg = scan_of(s, area, flags);

	while (arg.start < arg.end) {
		int found = ioctl(s->pagemap, KEDGE__PAGEMAP_SCAN, &arg);

		if (found < 0 && errno == EPERM) /* part of it is not the memory that was registered */
			return KEDGE__AREA_LOST;
		if (found < 0)
			return kedge__error_set(err, KEDGE_E_STATE, errno, "cannot scan memory at 0x%zx",
						(size_t)arg.start);
		for (int i = 0; i < found; i++) {
			int rc = page_is_dirty(s->found[i].categories, area->backing) ? fn(ctx, &s->found[i], err) : 0;

			if (rc)
				return rc;
		}
		arg.start = scan_next(s, &arg, found);
	}
	/* The scan passes over addresses without any mapping; this call, which does nothing else, does not. */
	if (msync((void *)area->begin, area->end - area->begin, MS_ASYNC) != 0)
		return KEDGE__AREA_LOST;
	return 0;
}

static int add_found(void *ctx, const struct kedge__page_region *region, struct kedge__error *err)
{
	return kedge__pages_list_add(ctx, region->start, region->end) ? 0 : kedge__error_nomem(err);
}

static int uffd_collect(void *state, const struct kedge__area *area, struct kedge__pages_list *out,
			struct kedge__error *err)
{
	return scan(state, area, KEDGE__SCAN_WP_MATCHING, add_found, out, err);
}

static int count_found(void *ctx, const struct kedge__page_region *region, struct kedge__error *err)
{
	uint64_t *bytes = ctx;

	(void)err;
	*bytes += region->end - region->start;
	return 0;
}

static int uffd_count(void *state, const struct kedge__area *area, uint64_t *bytes, struct kedge__error *err)
{
	uint64_t sum = 0;
	int rc = scan(state, area, 0, count_found, &sum, err);

	if (rc == 0)
		*bytes += sum;
	return rc;
}

/* Tried out on memory of which one page was touched: its neighbours have a page table, and others have none. */
static bool holes_are_written(struct uffd_state *s)
{
	size_t table = kedge__page_size() / 8 * kedge__page_size();
	unsigned char *memory = kedge__map_alloc(3 * table);
	struct kedge__area area = {.backing = KEDGE__BACKING_ANONYMOUS};
	uint64_t bytes = 0;

	if (!memory)
		return false;
	(void)madvise(memory, 3 * table, MADV_NOHUGEPAGE);
	area.begin = ((uintptr_t)memory + table - 1) / table * table;
	area.end = area.begin + 2 * table;
	*(volatile unsigned char *)area.begin = 1;
	if (kedge__userfault_register(s->fd, area.begin, area.end, NULL) == 0)
		(void)uffd_count(s, &area, &bytes, NULL);
	kedge__map_free(memory, 3 * table);
	return bytes == 2 * table;
}

static int uffd_open(void **out, struct kedge__error *err)
{
	struct uffd_state *s = kedge__malloc(sizeof(*s));
	bool kernel_writes;
	int rc;

	if (!s)
		return kedge__error_nomem(err);
	s->fd = s->pagemap = -1;
	s->plain = true;
	rc = kedge__userfault_open(FEATURES, &s->fd, &kernel_writes, err);
	if (rc == 0)
		rc = kedge__pagemap_open(&s->pagemap, err);
	if (rc) {
		uffd_close(s);
		return rc;
	}
	s->plain = holes_are_written(s);
	*out = s;
	return 0;
}

static void uffd_touch(void *state, uintptr_t begin, uintptr_t end)
{
	(void)state;
	(void)begin;
	(void)end;
}

/* The real thing on one page: written, protected again, discarded. */
static int try_out(struct uffd_state *s, volatile char *page, struct kedge__error *err)
{
	struct kedge__area area = {
	    .begin = (uintptr_t)page, .end = (uintptr_t)page + kedge__page_size(), .backing = KEDGE__BACKING_ANONYMOUS};
	uint64_t armed = 0, written = 0, discarded = 0;
	int rc;

	page[0] = 1;
	rc = uffd_arm(s, &area, err);
	if (rc == 0)
		rc = uffd_count(s, &area, &armed, err);
	page[0] = 2;
	if (rc == 0)
		rc = scan(s, &area, KEDGE__SCAN_WP_MATCHING, count_found, &written, err);
	if (madvise((void *)area.begin, area.end - area.begin, MADV_DONTNEED) == 0 && rc == 0)
		rc = uffd_count(s, &area, &discarded, err);
	if (rc < 0)
		return rc;
	if (rc || armed || !written || !discarded)
		return kedge__error_set(err, KEDGE_E_STATE, 0, "PAGEMAP_SCAN does not report writes correctly");
	return 0;
}

static int uffd_probe(struct kedge__error *err)
{
	void *state, *page;
	int rc = uffd_open(&state, err);

	if (rc)
		return rc;
	page = kedge__map_alloc(kedge__page_size());
	rc = page ? try_out(state, page, err) : kedge__error_nomem(err);
	kedge__map_free(page, kedge__page_size());
	uffd_close(state);
	return rc;
}

const struct kedge__tracker_ops kedge__tracker_uffd = {
    .name = "uffd",
    .live = true,
    .exclusive = true,
    .automatic = true,
    .probe = uffd_probe,
    .open = uffd_open,
    .close = uffd_close,
    .start = uffd_pass,
    .finish = uffd_pass,
    .arm = uffd_arm,
    .drop = uffd_drop,
    .collect = uffd_collect,
    .count = uffd_count,
    .touch = uffd_touch,
};
