/* SPDX-License-Identifier: BSD-3-Clause */
/* pages: which pages of a process are nowhere else, which of them were written, and copies of them. */
#include "base/search.h"
#include "process/target.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* PAGEMAP_SCAN, since Linux 6.7: the header may be older. */
struct scan_region {
	uint64_t start, end, categories;
};

struct scan {
	uint64_t size, flags, start, end, walk_end, vec, vec_len, max_pages;
	uint64_t category_inverted, category_mask, category_anyof_mask, return_mask;
};

#define SCAN_IOCTL   _IOWR('f', 16, struct scan)
#define SCAN_PROTECT (UINT64_C(1) << 0) /* what is found */
#define SCAN_CHECK   (UINT64_C(1) << 1) /* fail where that cannot be done */
#define PAGE_WRITTEN (UINT64_C(1) << 1)
#define PAGE_FILE    (UINT64_C(1) << 2)
#define PAGE_PRESENT (UINT64_C(1) << 3)
#define PAGE_SWAPPED (UINT64_C(1) << 4)
#define PAGE_PFNZERO (UINT64_C(1) << 5)
#define SCAN_ROOM    1024
#define PIECE_MOST   (UINT64_C(64) << 20)

/* /proc/PID/pagemap of kernels before 6.7 */
#define ENTRY_PRESENT (UINT64_C(1) << 63)
#define ENTRY_SWAPPED (UINT64_C(1) << 62)
#define ENTRY_FILE    (UINT64_C(1) << 61)

static bool add_run(struct kedge__range_list *runs, uint64_t start, uint64_t end)
{
	struct kedge__range *last = runs->count ? &runs->at[runs->count - 1] : NULL;

	if (last && last->start + last->len == start) {
		last->len += end - start;
		return true;
	}
	return kedge__array_push(runs, ((struct kedge__range){start, end - start}));
}

/* ------------------------------------------------------------------ scans */

/* What ASKED finds from START to END, but nothing of the categories EXCEPT. -1: see errno. */
static int scan_range(int fd, const struct scan *asked, uint64_t start, uint64_t end, uint64_t except,
		      struct kedge__range_list *runs)
{
	struct scan_region vec[SCAN_ROOM];
	struct scan scan = *asked;

	scan.size = sizeof(scan);
	scan.start = start;
	scan.end = end;
	scan.vec = (uintptr_t)vec;
	scan.vec_len = SCAN_ROOM;
	while (scan.start < end) {
		int got = ioctl(fd, SCAN_IOCTL, &scan);

		if (got < 0)
			return -1;
		for (int i = 0; i < got; i++) {
			if (!(vec[i].categories & except) && !add_run(runs, vec[i].start, vec[i].end)) {
				errno = ENOMEM;
				return -1;
			}
		}
		if (got < SCAN_ROOM)
			return 0;
		/* What the kernel says of where it ended may be old (Linux 6.18). */
		scan.start = KEDGE__MAX(scan.walk_end, vec[got - 1].end);
	}
	return 0;
}

/*
 * Pages that are not the page of zeros; of mappings of files, those that are not the file's, which is much slower to
 * say. With WRITTEN, those of them that were written since they were protected: others cost next to nothing.
 */
static int scan_pages(int fd, const struct kedge__process_mapping *m, bool written, uint64_t flags,
		      struct kedge__range_list *runs)
{
	uint64_t without = PAGE_PFNZERO | (m->kind == KEDGE__MAPPING_PRIVATE_FILE ? PAGE_FILE : 0);
	struct scan scan = {.flags = flags,
			    .category_inverted = without,
			    .category_mask = without | (written ? PAGE_WRITTEN : 0),
			    .category_anyof_mask = PAGE_PRESENT | PAGE_SWAPPED,
			    /* One that they all lack or have, so that neighbours are joined. */
			    .return_mask = PAGE_PFNZERO};

	return scan_range(fd, &scan, m->start, m->end, 0, runs);
}

/* Where there are no such pages. */
static int scan_holes(int fd, const struct kedge__process_mapping *m, struct kedge__range_list *runs)
{
	struct scan scan = {.category_inverted = PAGE_PRESENT,
			    .category_anyof_mask = PAGE_PRESENT | PAGE_PFNZERO,
			    .return_mask = PAGE_SWAPPED};

	return scan_range(fd, &scan, m->start, m->end, PAGE_SWAPPED, runs);
}

/* All pages, where the kernel has no PAGEMAP_SCAN. */
static int look_mapping(int fd, const struct kedge__process_mapping *m, struct kedge__range_list *runs)
{
	uint64_t entries[512];

	for (uint64_t at = m->start; at < m->end;) {
		size_t n = (size_t)KEDGE__MIN((m->end - at) / KEDGE__PAGE_BYTES, KEDGE__COUNT(entries));

		if (pread(fd, entries, n * 8, (off_t)(at / KEDGE__PAGE_BYTES * 8)) != (ssize_t)(n * 8))
			return -1;
		for (size_t i = 0; i < n; i++, at += KEDGE__PAGE_BYTES) {
			if (!(entries[i] & (ENTRY_PRESENT | ENTRY_SWAPPED)) || (entries[i] & ENTRY_FILE))
				continue;
			if (!add_run(runs, at, at + KEDGE__PAGE_BYTES)) {
				errno = ENOMEM;
				return -1;
			}
		}
	}
	return 0;
}

/* ------------------------------------------------------------------ a survey */

void kedge__survey_done(struct kedge__survey *s)
{
	kedge__array_done(&s->set);
	kedge__array_done(&s->known);
	kedge__array_done(&s->holes);
	kedge__array_done(&s->dirty);
	kedge__array_done(&s->apart);
}

size_t kedge__range_pages(const struct kedge__range_list *list)
{
	size_t pages = 0;

	for (size_t i = 0; i < list->count; i++)
		pages += (size_t)(list->at[i].len / KEDGE__PAGE_BYTES);
	return pages;
}

bool kedge__ranges_within(const struct kedge__range_list *a, const struct kedge__range_list *b)
{
	for (size_t i = 0; i < a->count; i++) {
		uint64_t at = a->at[i].start, end = at + a->at[i].len;
		size_t j;

		KEDGE__PARTITION_POINT(j, b->count, b->at[j].start + b->at[j].len <= at);
		if (j == b->count || b->at[j].start > at || b->at[j].start + b->at[j].len < end)
			return false;
	}
	return true;
}

static bool add_runs(struct kedge__range_list *to, const struct kedge__range *from, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!add_run(to, from[i].start, from[i].start + from[i].len))
			return false;
	return true;
}

/* All pages of M are added to s->set. -1: see errno. */
static int list_pages(int fd, const struct kedge__process_mapping *m, struct kedge__survey *s)
{
	if (m->kind == KEDGE__MAPPING_SHARED_ANONYMOUS) {
		errno = ENOMEM;
		return add_run(&s->set, m->start, m->end) ? 0 : -1;
	}
	if (scan_pages(fd, m, false, 0, &s->set) == 0)
		return 0;
	return errno == ENOTTY ? look_mapping(fd, m, &s->set) : -1;
}

static int survey_untracked(int fd, const struct kedge__process_mapping *m, bool running, struct kedge__survey *s)
{
	struct kedge__range_list *to = kedge__mapping_is_apart(m) ? &s->apart : &s->dirty;
	struct kedge__survey own = {0};
	int rc = list_pages(fd, m, &own);

	errno = rc ? errno : ENOMEM;
	if (!rc &&
	    (!add_runs(&s->set, own.set.at, own.set.count) || (!running && !add_runs(to, own.set.at, own.set.count))))
		rc = -1;
	kedge__array_done(&own.set);
	return rc;
}

/* Pages of M that were protected and not copied count as written, if they are still there. */
static int add_missed(int fd, const struct kedge__process_mapping *m, const struct kedge__range_list *missed,
		      struct kedge__survey *s)
{
	int rc = 0;

	for (size_t i = 0; !rc && i < missed->count; i++) {
		struct kedge__process_mapping part = *m;

		part.start = KEDGE__MAX(m->start, missed->at[i].start);
		part.end = KEDGE__MIN(m->end, missed->at[i].start + missed->at[i].len);
		if (part.start < part.end)
			rc = scan_pages(fd, &part, false, SCAN_PROTECT | SCAN_CHECK, &s->dirty);
	}
	return rc;
}

/*
 * What the mirror has need not be asked for. What is written between the two scans is found the next time. EPERM, while
 * it runs: a part of it has been mapped again, and is not protected; the rest is, and the kernel does not say what was
 * written there before.
 */
static int survey_tracked(int fd, const struct kedge__process_mapping *m, struct kedge__process_tracker *k,
			  bool running, struct kedge__survey *s)
{
	struct kedge__range range = {m->start, m->end - m->start};
	int rc = scan_pages(fd, m, !k->all, SCAN_PROTECT | SCAN_CHECK, &s->dirty);

	if (!rc && !k->all)
		rc = scan_holes(fd, m, &s->holes);
	if (!rc && !running)
		rc = add_missed(fd, m, &k->missed, s);
	if (!rc && k->all)
		return 0;
	if (rc && (!running || errno != EPERM))
		return rc;
	errno = ENOMEM;
	if (!kedge__array_push(&s->known, range))
		return -1;
	return !rc || kedge__array_push(&k->missed, range) ? 0 : -1;
}

static int survey_mapping(int fd, const struct kedge__process_mapping *m, struct kedge__process_tracker *k,
			  bool running, struct kedge__survey *s, struct kedge__error *err)
{
	int rc = k && kedge__tracker_watches(k, m) ? survey_tracked(fd, m, k, running, s)
						   : survey_untracked(fd, m, running, s);

	return rc ? kedge__error_set(err, errno == ENOMEM ? KEDGE_E_NOMEM : KEDGE_E_STATE, errno,
				     "cannot read which pages it has at 0x%llx", (unsigned long long)m->start)
		  : 0;
}

int kedge__target_survey(struct kedge__target *t, const struct kedge__process_image *image,
			 struct kedge__process_tracker *k, bool running, struct kedge__survey *s,
			 struct kedge__error *err)
{
	char path[KEDGE__PATH_ROOM];
	int fd, rc = 0;

	snprintf(path, sizeof(path), "/proc/%d/pagemap", (int)t->pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return kedge__error_set(err, KEDGE_E_STATE, errno, "cannot open %s", path);
	for (size_t i = 0; !rc && i < image->mappings.count; i++) {
		const struct kedge__process_mapping *m = &image->mappings.at[i];

		if (m->kind == KEDGE__MAPPING_ANONYMOUS || m->kind == KEDGE__MAPPING_PRIVATE_FILE ||
		    m->kind == KEDGE__MAPPING_SHARED_ANONYMOUS)
			rc = survey_mapping(fd, m, k, running, s, err);
	}
	if (k && !running)
		k->missed.count = 0;
	close(fd);
	return rc;
}

/* ------------------------------------------------------------------ places */

/* The first place of a page at ADDRESS or above. */
static size_t find_place(const struct kedge__process_mirror *m, uint64_t address)
{
	size_t i;

	KEDGE__PARTITION_POINT(i, m->count, m->sorted[i].address < address);
	return i;
}

static int by_start(const void *a, const void *b)
{
	const struct kedge__range *x = a, *y = b;

	return (x->start > y->start) - (x->start < y->start);
}

/* In order, and without pages that are there twice. */
static void put_in_order(struct kedge__range_list *list)
{
	size_t n = 0;

	qsort(list->at, list->count, sizeof(*list->at), by_start);
	for (size_t i = 0; i < list->count; i++) {
		struct kedge__range *last = n ? &list->at[n - 1] : NULL, r = list->at[i];

		if (last && r.start <= last->start + last->len)
			last->len = KEDGE__MAX(last->start + last->len, r.start + r.len) - last->start;
		else
			list->at[n++] = r;
	}
	list->count = n;
}

/* Pages that the mirror has in RANGE, but not in holes from the AT-th on. */
static bool add_known(const struct kedge__survey *s, const struct kedge__process_mirror *m, struct kedge__range range,
		      size_t *at, struct kedge__range_list *all)
{
	for (size_t i = find_place(m, range.start); i < m->count; i++) {
		uint64_t address = m->sorted[i].address;

		if (address >= range.start + range.len)
			break;
		while (*at < s->holes.count && s->holes.at[*at].start + s->holes.at[*at].len <= address)
			++*at;
		if (*at < s->holes.count && s->holes.at[*at].start <= address)
			continue;
		if (!add_run(all, address, address + KEDGE__PAGE_BYTES))
			return false;
	}
	return true;
}

int kedge__survey_arrange(const struct kedge__survey *s, struct kedge__process_mirror *m, struct kedge__error *err)
{
	struct kedge__range_list all = {0};
	size_t hole = 0;
	bool done = add_runs(&all, s->set.at, s->set.count) && add_runs(&all, s->dirty.at, s->dirty.count) &&
		    add_runs(&all, s->apart.at, s->apart.count);
	int rc;

	for (size_t i = 0; done && i < s->known.count; i++)
		done = add_known(s, m, s->known.at[i], &hole, &all);
	if (done && all.count)
		put_in_order(&all);
	rc = done ? kedge__process_mirror_arrange(m, all.at, all.count, err) : kedge__error_nomem(err);
	kedge__array_done(&all);
	return rc;
}

/* ------------------------------------------------------------------ copies */

/* So many pages from the I-th on follow each other, here and there, below END. */
static size_t row_of(const struct kedge__process_mirror *m, size_t i, uint64_t end)
{
	const struct kedge__process_place *first = &m->sorted[i];
	size_t n = 1;

	while (i + n < m->count && n * KEDGE__PAGE_BYTES < PIECE_MOST && first[n].address < end &&
	       first[n].address == first->address + n * KEDGE__PAGE_BYTES && first[n].place == first->place + n)
		n++;
	return n;
}

/* Those that cannot be read, one by one, are MISSED. */
static int move_or_miss(struct kedge__target *t, struct kedge__pieces *p, struct kedge__range_list *missed,
			struct kedge__error *err)
{
	size_t n = p->count;
	int rc = kedge__target_move(t, p, false, missed ? NULL : err);

	if (!rc || !missed)
		return rc;
	for (size_t i = 0; i < n; i++) {
		uint64_t at = (uint64_t)(uintptr_t)p->remote[i].iov_base;

		if (kedge__target_read(t, at, p->local[i].iov_base, p->local[i].iov_len, NULL) != 0 &&
		    !kedge__array_push(missed, ((struct kedge__range){at, p->local[i].iov_len})))
			return kedge__error_nomem(err);
	}
	return 0;
}

int kedge__target_copy(struct kedge__target *t, struct kedge__process_mirror *m, const struct kedge__range_list *what,
		       struct kedge__range_list *missed, struct kedge__error *err)
{
	struct kedge__pieces p = {.count = 0};
	int rc = 0;

	for (size_t r = 0; !rc && r < what->count; r++) {
		uint64_t end = what->at[r].start + what->at[r].len;

		for (size_t i = find_place(m, what->at[r].start), n; !rc && i < m->count && m->sorted[i].address < end;
		     i += n) {
			const struct kedge__process_place *first = &m->sorted[i];

			n = row_of(m, i, end);
			p.local[p.count] =
			    (struct iovec){m->pages + first->place * KEDGE__PAGE_BYTES, n * KEDGE__PAGE_BYTES};
			p.remote[p.count++] = (struct iovec){(void *)(uintptr_t)first->address, n * KEDGE__PAGE_BYTES};
			if (p.count == KEDGE__PIECES)
				rc = move_or_miss(t, &p, missed, err);
		}
	}
	return rc ? rc : move_or_miss(t, &p, missed, err);
}

int kedge__target_stage(struct kedge__target *t, const struct kedge__range_list *what, uint8_t *to,
			struct kedge__error *err)
{
	struct kedge__pieces p = {.count = 0};
	int rc = 0;

	for (size_t r = 0; !rc && r < what->count; r++) {
		for (uint64_t at = 0, bytes; !rc && at < what->at[r].len; at += bytes) {
			bytes = KEDGE__MIN(what->at[r].len - at, PIECE_MOST);
			p.local[p.count] = (struct iovec){to, (size_t)bytes};
			p.remote[p.count++] =
			    (struct iovec){(void *)(uintptr_t)(what->at[r].start + at), (size_t)bytes};
			to += bytes;
			if (p.count == KEDGE__PIECES)
				rc = kedge__target_move(t, &p, false, err);
		}
	}
	return rc ? rc : kedge__target_move(t, &p, false, err);
}

void kedge__mirror_unstage(struct kedge__process_mirror *m, const struct kedge__range_list *what, const uint8_t *from)
{
	for (size_t r = 0; r < what->count; from += what->at[r++].len) {
		uint64_t start = what->at[r].start, end = start + what->at[r].len;

		for (size_t i = find_place(m, start); i < m->count && m->sorted[i].address < end; i++)
			memcpy(m->pages + m->sorted[i].place * KEDGE__PAGE_BYTES, from + (m->sorted[i].address - start),
			       KEDGE__PAGE_BYTES);
	}
}
