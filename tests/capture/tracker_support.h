/* SPDX-License-Identifier: BSD-3-Clause */
/* What the tests of trackers share: memory to track, results against what was written, children, kinds in turn. */
#ifndef KEDGE_TESTS_TRACKER_SUPPORT_H
#define KEDGE_TESTS_TRACKER_SUPPORT_H

#include "../lib/cases.h"
#include "../lib/draw.h"
#include "capture/capture.h"

#include <stddef.h>
#include <stdint.h>

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static inline size_t page_size(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

/* Populated, of small pages unless HUGE. */
static inline unsigned char *memory_new(size_t pages)
{
	unsigned char *p = mmap(NULL, pages * page_size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(p != MAP_FAILED);
	madvise(p, pages * page_size(), MADV_NOHUGEPAGE);
	memset(p, 1, pages * page_size());
	return p;
}

static inline void memory_free(void *p, size_t pages)
{
	munmap(p, pages * page_size());
}

static inline bool is_kind(const struct kedge__tracker *t, const char *name)
{
	return strcmp(kedge__tracker_name(t), name) == 0;
}

static inline struct kedge__tracker *open_kind(const char *kind)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	struct kedge__tracker *t = NULL;

	if (kedge__tracker_open(kind, &t, &err))
		fail_msg("%s", kedge__error_text(&err));
	return t;
}

static inline size_t add(struct kedge__tracker *t, const void *data, size_t bytes, unsigned flags)
{
	size_t id;

	assert_int_equal(kedge__tracker_add(t, data, bytes, flags, &id, NULL), 0);
	return id;
}

static inline void collect(struct kedge__tracker *t)
{
	struct kedge__error err = KEDGE__ERROR_INIT;

	if (kedge__tracker_collect(t, &err))
		fail_msg("%s", kedge__error_text(&err));
}

/* Dirty bytes of a range, checked to be ascending and apart. */
static inline uint64_t dirty_bytes(struct kedge__tracker *t, size_t id)
{
	struct kedge__range_list list = {0};
	uint64_t sum = 0, end = 0;

	assert_int_equal(kedge__tracker_dirty(t, id, &list, NULL), 0);
	for (size_t i = 0; i < list.count; i++) {
		assert_true(list.at[i].len > 0);
		assert_true(i == 0 || list.at[i].start > end);
		end = list.at[i].start + list.at[i].len;
		sum += list.at[i].len;
	}
	kedge__array_done(&list);
	return sum;
}

static inline bool is_dirty(struct kedge__tracker *t, size_t id, uint64_t offset)
{
	struct kedge__range_list list = {0};
	bool found = false;

	assert_int_equal(kedge__tracker_dirty(t, id, &list, NULL), 0);
	for (size_t i = 0; i < list.count; i++)
		found |= list.at[i].start <= offset && offset < list.at[i].start + list.at[i].len;
	kedge__array_done(&list);
	return found;
}

/* Exactly the pages of WRITTEN, a byte a page; what `none` reports is all of them. */
static inline void assert_dirty_pages(struct kedge__tracker *t, size_t id, const unsigned char *written, size_t pages)
{
	size_t expected = 0;

	for (size_t i = 0; i < pages; i++) {
		expected += written[i] != 0;
		if (written[i] && !is_dirty(t, id, i * page_size()))
			fail_msg("%s: page %zu was written and is not reported", kedge__tracker_name(t), i);
	}
	if (is_kind(t, "none"))
		expected = pages;
	assert_int_equal(dirty_bytes(t, id), expected * page_size());
}

/* Runs FN(kind) for every kind that works here. */
static inline void each_kind(void (*fn)(const char *kind))
{
	for (size_t i = 0; kedge__tracker_kind(i); i++) {
		struct kedge__error err = KEDGE__ERROR_INIT;

		if (kedge__tracker_probe(kedge__tracker_kind(i), &err) == 0)
			fn(kedge__tracker_kind(i));
		else
			print_message("skipped: %s\n", kedge__error_text(&err));
		kedge__error_done(&err);
	}
}

/* FN in a child as user nobody (65534); its assertions end the child with a status that is not 0. */
static inline void as_nobody(void (*fn)(void))
{
	int status;
	pid_t child;

	if (geteuid() != 0) {
		print_message("not root: run as the user that it is\n");
		fn();
		return;
	}
	fflush(NULL);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		/* A process that changes its user cannot look into /proc/self before it says so again. */
		if (setgid(65534) != 0 || setuid(65534) != 0 || prctl(PR_SET_DUMPABLE, 1) != 0)
			_exit(3);
		fn();
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

/* Copy-on-write sessions can be had here; if not, why not is printed. */
static inline bool has_sessions(void)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	bool kernel_writes, there = kedge__cow_probe(&kernel_writes, &err) == 0;

	if (!there)
		print_message("skipped: %s\n", kedge__error_text(&err));
	kedge__error_done(&err);
	return there;
}

#endif
