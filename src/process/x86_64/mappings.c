/* SPDX-License-Identifier: BSD-3-Clause */
/* mappings: what a process has mapped, and a copy of the pages that are nowhere else. */
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

/* ------------------------------------------------------------------ the list */

static const struct {
	char word[3];
	unsigned bit;
} words[] = {
    {"gd", KEDGE__MAPPING_GROWS_DOWN}, {"nr", KEDGE__MAPPING_NO_RESERVE}, {"dc", KEDGE__MAPPING_NO_FORK},
    {"wf", KEDGE__MAPPING_WIPE},       {"dd", KEDGE__MAPPING_NO_DUMP},    {"hg", KEDGE__MAPPING_HUGE},
    {"nh", KEDGE__MAPPING_NO_HUGE},    {"mg", KEDGE__MAPPING_MERGE},
};

static const struct {
	char word[3];
	const char *what;
} refused[] = {
    {"io", "it has mapped a device"},       {"pf", "it has mapped a device"},
    {"ht", "it uses huge pages (hugetlb)"}, {"lo", "it has locked memory (mlock)"},
    {"um", "it uses userfaultfd itself"},   {"uw", "it uses userfaultfd itself"},
    {"sl", "it has sealed memory (mseal)"}, {"ss", "it uses shadow stacks"},
};

static int take_flags(const char *line, struct kedge__process_mapping *m, struct kedge__error *err)
{
	for (const char *p = line; *p && *p != '\n'; p += strspn(p, " ")) {
		for (size_t i = 0; i < KEDGE__COUNT(words); i++)
			if (strncmp(p, words[i].word, 2) == 0)
				m->bits |= words[i].bit;
		for (size_t i = 0; m->kind != KEDGE__MAPPING_KERNEL && i < KEDGE__COUNT(refused); i++)
			if (strncmp(p, refused[i].word, 2) == 0)
				return kedge__error_set(err, KEDGE_E_STATE, 0, "%s: 0x%llx %s", refused[i].what,
							(unsigned long long)m->start, m->name);
		p += strcspn(p, " \n");
	}
	return 0;
}

static int add_file(struct kedge__process_image *image, const char *path, uint32_t *index, struct kedge__error *err)
{
	struct kedge__process_file f = {0};
	int rc;

	for (*index = 0; *index < image->files.count; ++*index)
		if (strcmp(image->files.at[*index].path, path) == 0)
			return 0;
	f.mtime_ns = kedge__stat_mtime_ns(path, &f.bytes);
	if (!f.mtime_ns)
		return kedge__error_set(err, KEDGE_E_STATE, 0, "it has mapped a file that is not there any more: %s",
					path);
	rc = kedge__build_id(path, &f.build_id, err);
	if (rc)
		return rc;
	f.path = kedge__strdup(path);
	if (!f.path || !kedge__array_push(&image->files, f)) {
		kedge__free(f.path);
		kedge__free(f.build_id.data);
		return kedge__error_nomem(err);
	}
	return 0;
}

static int classify(struct kedge__process_image *image, struct kedge__process_mapping *m, bool shared, uint64_t inode,
		    struct kedge__error *err)
{
	const char *name = m->name;
	size_t n = strlen(name);

	m->file = KEDGE__PROCESS_NO_FILE;
	if (strcmp(name, "[vdso]") == 0 || strncmp(name, "[vvar", 5) == 0 || strcmp(name, "[vsyscall]") == 0) {
		m->kind = KEDGE__MAPPING_KERNEL;
		return 0;
	}
	if (shared && strcmp(name, "/dev/zero (deleted)") == 0) {
		m->kind = KEDGE__MAPPING_SHARED_ANONYMOUS;
		m->file = (uint32_t)inode;
		return 0;
	}
	if (name[0] != '/' || strncmp(name, "/dev/zero", 9) == 0) {
		m->kind = KEDGE__MAPPING_ANONYMOUS;
		m->offset = 0;
		return 0;
	}
	if (strncmp(name, "/SYSV", 5) == 0)
		return kedge__error_set(err, KEDGE_E_STATE, 0, "it uses shared memory of System V: %s", name);
	if (n > 10 && strcmp(name + n - 10, " (deleted)") == 0)
		return kedge__error_set(err, KEDGE_E_STATE, 0, "it has mapped a file that was removed, or memfd: %s",
					name);
	m->kind = shared ? KEDGE__MAPPING_SHARED_FILE : KEDGE__MAPPING_PRIVATE_FILE;
	return add_file(image, name, &m->file, err);
}

/* A line of /proc/PID/smaps that begins a mapping. *END: the one of the vsyscall page is not ours to keep. */
static int add_mapping(struct kedge__process_image *image, char *line, struct kedge__error *err)
{
	struct kedge__process_mapping m = {0};
	unsigned long long start, end, offset, inode;
	char rights[5], *name = NULL;
	int at = 0, rc;

	if (sscanf(line, "%llx-%llx %4s %llx %*s %llu %n", &start, &end, rights, &offset, &inode, &at) != 5 || !at)
		return kedge__error_set(err, KEDGE_E_INTERNAL, 0, "cannot understand /proc/PID/smaps");
	name = line + at;
	m.start = start;
	m.end = end;
	m.offset = offset;
	m.bits = (rights[0] == 'r' ? KEDGE__MAPPING_READ : 0) | (rights[1] == 'w' ? KEDGE__MAPPING_WRITE : 0) |
		 (rights[2] == 'x' ? KEDGE__MAPPING_EXECUTE : 0);
	m.name = kedge__strdup(name);
	if (!m.name)
		return kedge__error_nomem(err);
	rc = classify(image, &m, rights[3] == 's', inode, err);
	if (!rc && !kedge__array_push(&image->mappings, m))
		rc = kedge__error_nomem(err);
	if (rc)
		kedge__free(m.name);
	return rc;
}

static bool begins_mapping(const char *line)
{
	return (line[0] >= '0' && line[0] <= '9') || (line[0] >= 'a' && line[0] <= 'f');
}

static int parse(char *text, struct kedge__process_image *image, struct kedge__error *err)
{
	char *line = text, *end;
	int rc = 0;

	for (; !rc && (end = strchr(line, '\n')); line = end + 1) {
		*end = '\0';
		if (begins_mapping(line) && strstr(line, "[vsyscall]"))
			break; /* it is above all others, and the same everywhere */
		if (begins_mapping(line))
			rc = add_mapping(image, line, err);
		else if (strncmp(line, "VmFlags: ", 9) == 0 && image->mappings.count)
			rc = take_flags(line + 9, &image->mappings.at[image->mappings.count - 1], err);
	}
	return rc;
}

static int keep_vdso(struct kedge__target *t, struct kedge__process_image *image, struct kedge__error *err)
{
	for (size_t i = 0; i < image->mappings.count; i++) {
		const struct kedge__process_mapping *m = &image->mappings.at[i];

		if (strcmp(m->name, "[vdso]") != 0)
			continue;
		image->vdso.bytes = m->end - m->start;
		image->vdso.data = kedge__malloc((size_t)image->vdso.bytes);
		if (!image->vdso.data)
			return kedge__error_nomem(err);
		return kedge__target_read(t, m->start, image->vdso.data, (size_t)image->vdso.bytes, err);
	}
	return kedge__error_set(err, KEDGE_E_STATE, 0, "it has no vdso");
}

int kedge__target_mappings(struct kedge__target *t, struct kedge__process_image *image, struct kedge__error *err)
{
	char *text, *exe;
	uint32_t first;
	int rc = kedge__proc_link(t->pid, "exe", &exe, err);

	if (rc)
		return rc;
	rc = add_file(image, exe, &first, err);
	kedge__free(exe);
	if (!rc)
		rc = kedge__proc_read(t->pid, "smaps", &text, NULL, err);
	if (rc)
		return rc;
	rc = parse(text, image, err);
	kedge__free(text);
	return rc ? rc : keep_vdso(t, image, err);
}

/* ------------------------------------------------------------------ which pages */

static bool add_run(struct kedge__range_list *runs, uint64_t start, uint64_t end)
{
	struct kedge__range *last = runs->count ? &runs->at[runs->count - 1] : NULL;

	if (last && last->start + last->len == start) {
		last->len += end - start;
		return true;
	}
	return kedge__array_push(runs, ((struct kedge__range){start, end - start}));
}

/* Pages of a private mapping that are not the file's, and not the page of zeros. -1: see errno. */
static int scan_mapping(int fd, const struct kedge__process_mapping *m, struct kedge__range_list *runs)
{
	struct scan_region vec[SCAN_ROOM];
	struct scan scan = {.size = sizeof(scan),
			    .start = m->start,
			    .end = m->end,
			    .vec = (uintptr_t)vec,
			    .vec_len = SCAN_ROOM,
			    .category_inverted = PAGE_FILE | PAGE_PFNZERO,
			    .category_mask = PAGE_FILE | PAGE_PFNZERO,
			    .category_anyof_mask = PAGE_PRESENT | PAGE_SWAPPED,
			    .return_mask = PAGE_PRESENT};

	while (scan.start < m->end) {
		int got = ioctl(fd, SCAN_IOCTL, &scan);

		if (got < 0)
			return -1;
		for (int i = 0; i < got; i++) {
			if (!add_run(runs, vec[i].start, vec[i].end)) {
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

/* The same where the kernel has no PAGEMAP_SCAN. */
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

int kedge__target_pages(struct kedge__target *t, const struct kedge__process_image *image,
			struct kedge__range_list *runs, struct kedge__error *err)
{
	char path[KEDGE__PATH_ROOM];
	bool old = false;
	int fd, failed = 0;

	snprintf(path, sizeof(path), "/proc/%d/pagemap", (int)t->pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return kedge__error_set(err, KEDGE_E_STATE, errno, "cannot open %s", path);
	for (size_t i = 0; !failed && i < image->mappings.count; i++) {
		const struct kedge__process_mapping *m = &image->mappings.at[i];

		if (m->kind == KEDGE__MAPPING_SHARED_ANONYMOUS && !add_run(runs, m->start, m->end))
			failed = ENOMEM;
		if (m->kind != KEDGE__MAPPING_ANONYMOUS && m->kind != KEDGE__MAPPING_PRIVATE_FILE)
			continue;
		if (!old && scan_mapping(fd, m, runs) != 0)
			old = errno == ENOTTY, failed = old ? 0 : errno;
		if (old && look_mapping(fd, m, runs) != 0)
			failed = errno;
	}
	close(fd);
	return failed ? kedge__error_set(err, failed == ENOMEM ? KEDGE_E_NOMEM : KEDGE_E_STATE, failed,
					 "cannot read %s", path)
		      : 0;
}

/* ------------------------------------------------------------------ copies */

int kedge__target_copy(struct kedge__target *t, struct kedge__process_mirror *m, struct kedge__error *err)
{
	struct kedge__pieces p = {.count = 0};
	int rc = 0;

	for (size_t i = 0; !rc && i < m->count;) {
		const struct kedge__process_place *first = &m->sorted[i];
		size_t n = 1;

		while (i + n < m->count && n * KEDGE__PAGE_BYTES < PIECE_MOST &&
		       first[n].address == first->address + n * KEDGE__PAGE_BYTES && first[n].place == first->place + n)
			n++;
		p.local[p.count] = (struct iovec){m->pages + first->place * KEDGE__PAGE_BYTES, n * KEDGE__PAGE_BYTES};
		p.remote[p.count++] = (struct iovec){(void *)(uintptr_t)first->address, n * KEDGE__PAGE_BYTES};
		i += n;
		if (p.count == KEDGE__PIECES)
			rc = kedge__target_move(t, &p, false, err);
	}
	return rc ? rc : kedge__target_move(t, &p, false, err);
}
