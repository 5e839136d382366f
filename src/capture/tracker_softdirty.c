/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tracking by the soft-dirty bits of the page tables, on kernels that keep them. One write to /proc/self/clear_refs
 * resets the bits of the whole process at once and cannot be joined with reading them: a write between the two is lost.
 * So this kind is only for callers whose memory is at rest while they collect, and it disturbs others who use the same
 * bits.
 */
#include "capture/tracker.h"
#include "capture/tracker_abi.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

struct soft_state {
	int pagemap;
};

/* The bits are the process's: a second tracker, or a probe, would reset what the first has not seen yet. */
static atomic_flag taken = ATOMIC_FLAG_INIT;

static void soft_close(void *state)
{
	struct soft_state *s = state;

	if (!s)
		return;
	if (s->pagemap >= 0)
		close(s->pagemap);
	kedge__free(s);
	atomic_flag_clear(&taken);
}

static int soft_open(void **out, struct kedge__error *err)
{
	struct soft_state *s;
	int rc;

	if (atomic_flag_test_and_set(&taken))
		return kedge__error_set(err, KEDGE_E_STATE, 0,
					"another tracker of this process is using the soft-dirty bits");
	s = kedge__malloc(sizeof(*s));
	if (!s) {
		atomic_flag_clear(&taken);
		return kedge__error_nomem(err);
	}
	s->pagemap = -1;
	rc = kedge__pagemap_open(&s->pagemap, err);
	if (rc) {
		soft_close(s);
		return rc;
	}
	*out = s;
	return 0;
}

static int soft_start(void *state, struct kedge__error *err)
{
	(void)state;
	(void)err;
	return 0;
}

static int soft_clear(void *state, struct kedge__error *err)
{
	int fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
	int rc = 0;

	(void)state;
	if (fd < 0)
		return kedge__error_set(err, KEDGE_E_STATE, errno, "cannot open /proc/self/clear_refs");
	/* Not a file of ours: a command to the kernel, in the form of a write. */
	if (write(fd, "4", 1) != 1)
		rc = kedge__error_set(err, KEDGE_E_STATE, errno, "cannot reset soft-dirty bits");
	close(fd);
	return rc;
}

/* Huge pages of hugetlbfs, which always have a file behind them, have no such bit. */
static int soft_arm(void *state, const struct kedge__area *area, struct kedge__error *err)
{
	(void)state;
	if (area->backing == KEDGE__BACKING_ANONYMOUS)
		return 0;
	return kedge__error_set(err, KEDGE_E_STATE, 0, "file-backed memory has no soft-dirty bits");
}

static void soft_drop(void *state, const struct kedge__area *area)
{
	(void)state;
	(void)area;
}

static int soft_collect(void *state, const struct kedge__area *area, struct kedge__pages_list *out,
			struct kedge__error *err)
{
	struct soft_state *s = state;
	size_t page = kedge__page_size();
	uint64_t entries[KEDGE__PAGEMAP_BATCH];

	for (uintptr_t at = area->begin; at < area->end; at += KEDGE__PAGEMAP_BATCH * page) {
		size_t count = KEDGE__MIN((area->end - at) / page, (size_t)KEDGE__PAGEMAP_BATCH);
		int rc = kedge__pagemap_read(s->pagemap, at, count, entries, err);

		if (rc)
			return rc;
		for (size_t i = 0; i < count; i++) {
			uintptr_t begin = at + i * page;

			if (!(entries[i] & KEDGE__PAGEMAP_SOFT_DIRTY) && kedge__pagemap_kept(entries[i], area->backing))
				continue;
			if (!kedge__pages_list_add(out, begin, begin + page))
				return kedge__error_nomem(err);
		}
	}
	return msync((void *)area->begin, area->end - area->begin, MS_ASYNC) ? KEDGE__AREA_LOST : 0;
}

static int soft_count(void *state, const struct kedge__area *area, uint64_t *bytes, struct kedge__error *err)
{
	struct kedge__pages_list spans = {0};
	int rc = soft_collect(state, area, &spans, err);

	for (size_t i = 0; rc == 0 && i < spans.count; i++)
		*bytes += spans.at[i].end - spans.at[i].begin;
	kedge__array_done(&spans);
	return rc;
}

static void soft_touch(void *state, uintptr_t begin, uintptr_t end)
{
	(void)state;
	(void)begin;
	(void)end;
}

/* Many kernels accept the reset and never set the bit. */
static int try_out(struct soft_state *s, volatile char *page, struct kedge__error *err)
{
	struct kedge__area area = {
	    .begin = (uintptr_t)page, .end = (uintptr_t)page + kedge__page_size(), .backing = KEDGE__BACKING_ANONYMOUS};
	uint64_t before = 0, after = 0;
	int rc;

	page[0] = 1;
	rc = soft_clear(s, err);
	if (rc == 0)
		rc = soft_count(s, &area, &before, err);
	page[0] = 2;
	if (rc == 0)
		rc = soft_count(s, &area, &after, err);
	if (rc < 0)
		return rc;
	if (rc || before || !after)
		return kedge__error_set(err, KEDGE_E_STATE, 0, "this kernel does not support soft-dirty bits");
	return 0;
}

static int soft_probe(struct kedge__error *err)
{
	void *state, *page;
	int rc = soft_open(&state, err);

	if (rc)
		return rc;
	page = kedge__map_alloc(kedge__page_size());
	rc = page ? try_out(state, page, err) : kedge__error_nomem(err);
	kedge__map_free(page, kedge__page_size());
	soft_close(state);
	return rc;
}

const struct kedge__tracker_ops kedge__tracker_softdirty = {
    .name = "softdirty",
    .automatic = false,
    .probe = soft_probe,
    .open = soft_open,
    .close = soft_close,
    .start = soft_start,
    .finish = soft_clear,
    .arm = soft_arm,
    .drop = soft_drop,
    .collect = soft_collect,
    .count = soft_count,
    .touch = soft_touch,
};
