/* SPDX-License-Identifier: BSD-3-Clause */
/* mappings: what a process has mapped. */
#include "process/target.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define SMALL_PAGES 4096 /* of a process of which everything is asked each time: 16 MiB */

struct listing {
	struct kedge__process_image *image;
	const struct kedge__process_image *known; /* NULL: nothing is */
	bool ours;                                /* as for kedge__target_mappings() */
};

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

static int take_flags(const char *line, bool ours, struct kedge__process_mapping *m, struct kedge__error *err)
{
	for (const char *p = line; *p && *p != '\n'; p += strspn(p, " ")) {
		for (size_t i = 0; i < KEDGE__COUNT(words); i++)
			if (strncmp(p, words[i].word, 2) == 0)
				m->bits |= words[i].bit;
		for (size_t i = 0; m->kind != KEDGE__MAPPING_KERNEL && i < KEDGE__COUNT(refused); i++)
			if (strncmp(p, refused[i].word, 2) == 0 && !(ours && strncmp(p, "uw", 2) == 0))
				return kedge__error_set(err, KEDGE_E_STATE, 0, "%s: 0x%llx %s", refused[i].what,
							(unsigned long long)m->start, m->name);
		p += strcspn(p, " \n");
	}
	return 0;
}

static int find_build_id(const struct listing *l, const char *path, struct kedge__process_file *f,
			 struct kedge__error *err)
{
	for (size_t i = 0; l->known && i < l->known->files.count; i++) {
		const struct kedge__process_file *k = &l->known->files.at[i];

		if (k->bytes == f->bytes && k->mtime_ns == f->mtime_ns && strcmp(k->path, path) == 0)
			return kedge__blob_set(&f->build_id, k->build_id.data, (size_t)k->build_id.bytes)
				   ? 0
				   : kedge__error_nomem(err);
	}
	return kedge__build_id(path, &f->build_id, err);
}

static int add_file(const struct listing *l, const char *path, uint32_t *index, struct kedge__error *err)
{
	struct kedge__process_image *image = l->image;
	struct kedge__process_file f = {0};
	int rc;

	for (*index = 0; *index < image->files.count; ++*index)
		if (strcmp(image->files.at[*index].path, path) == 0)
			return 0;
	f.mtime_ns = kedge__stat_mtime_ns(path, &f.bytes);
	if (!f.mtime_ns)
		return kedge__error_set(err, KEDGE_E_STATE, 0, "it has mapped a file that is not there any more: %s",
					path);
	rc = find_build_id(l, path, &f, err);
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

static int classify(const struct listing *l, struct kedge__process_mapping *m, bool shared, uint64_t inode,
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
	return add_file(l, name, &m->file, err);
}

/* A line of /proc/PID/maps, or one of /proc/PID/smaps that begins a mapping. *END: the one of the vsyscall page is not
 * ours to keep. */
static int add_mapping(const struct listing *l, char *line, struct kedge__error *err)
{
	struct kedge__process_mapping m = {0};
	unsigned long long start, end, offset, inode;
	char rights[5], *name = NULL;
	int at = 0, rc;

	if (sscanf(line, "%llx-%llx %4s %llx %*s %llu %n", &start, &end, rights, &offset, &inode, &at) != 5 || !at)
		return kedge__error_set(err, KEDGE_E_INTERNAL, 0, "cannot understand /proc/PID/maps");
	name = line + at;
	m.start = start;
	m.end = end;
	m.offset = offset;
	m.bits = (rights[0] == 'r' ? KEDGE__MAPPING_READ : 0) | (rights[1] == 'w' ? KEDGE__MAPPING_WRITE : 0) |
		 (rights[2] == 'x' ? KEDGE__MAPPING_EXECUTE : 0);
	m.name = kedge__strdup(name);
	if (!m.name)
		return kedge__error_nomem(err);
	rc = classify(l, &m, rights[3] == 's', inode, err);
	if (!rc && !kedge__array_push(&l->image->mappings, m))
		rc = kedge__error_nomem(err);
	if (rc)
		kedge__free(m.name);
	return rc;
}

static bool begins_mapping(const char *line)
{
	return (line[0] >= '0' && line[0] <= '9') || (line[0] >= 'a' && line[0] <= 'f');
}

static int parse(const struct listing *l, char *text, struct kedge__error *err)
{
	struct kedge__process_image *image = l->image;
	char *line = text, *end;
	int rc = 0;

	for (; !rc && (end = strchr(line, '\n')); line = end + 1) {
		*end = '\0';
		if (begins_mapping(line) && strstr(line, "[vsyscall]"))
			break; /* it is above all others, and the same everywhere */
		if (begins_mapping(line))
			rc = add_mapping(l, line, err);
		else if (strncmp(line, "VmFlags: ", 9) == 0 && image->mappings.count)
			rc = take_flags(line + 9, l->ours, &image->mappings.at[image->mappings.count - 1], err);
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

/* ------------------------------------------------------------------ what is known already */

static void forget(struct kedge__process_image *image)
{
	for (size_t i = 0; i < image->mappings.count; i++)
		kedge__free(image->mappings.at[i].name);
	image->mappings.count = 0;
	for (size_t i = 0; i < image->files.count; i++) {
		kedge__free(image->files.at[i].path);
		kedge__free(image->files.at[i].build_id.data);
	}
	image->files.count = 0;
}

static int read_list(const struct listing *l, pid_t pid, const char *name, struct kedge__error *err)
{
	char *text = NULL, *exe;
	uint32_t first;
	int rc = kedge__proc_link(pid, "exe", &exe, err);

	if (rc)
		return rc;
	rc = add_file(l, exe, &first, err);
	kedge__free(exe);
	if (!rc)
		rc = kedge__proc_read(pid, name, &text, NULL, err);
	if (!rc)
		rc = parse(l, text, err);
	kedge__free(text);
	return rc;
}

static bool is_same(const struct kedge__process_mapping *a, const struct kedge__process_mapping *b)
{
	const unsigned rights = KEDGE__MAPPING_READ | KEDGE__MAPPING_WRITE | KEDGE__MAPPING_EXECUTE;

	return a->start == b->start && a->end == b->end && a->offset == b->offset && a->kind == b->kind &&
	       (a->bits & rights) == (b->bits & rights) &&
	       (a->kind != KEDGE__MAPPING_SHARED_ANONYMOUS || a->file == b->file) && strcmp(a->name, b->name) == 0;
}

/* The rest of what is to be known of the mappings, if all of them are known. */
static bool complete(struct kedge__process_image *image, const struct kedge__process_image *known)
{
	size_t at = 0;

	for (size_t i = 0; i < image->mappings.count; i++) {
		struct kedge__process_mapping *m = &image->mappings.at[i];

		while (at < known->mappings.count && known->mappings.at[at].start < m->start)
			at++;
		if (at == known->mappings.count || !is_same(&known->mappings.at[at], m))
			return false;
		m->bits = known->mappings.at[at].bits;
	}
	return true;
}

static bool is_small(pid_t pid)
{
	unsigned long resident = 0;
	char *text;

	if (kedge__proc_read(pid, "statm", &text, NULL, NULL) != 0)
		return true;
	if (sscanf(text, "%*s %lu", &resident) != 1)
		resident = 0;
	kedge__free(text);
	return resident <= SMALL_PAGES;
}

/*
 * For its flags of mappings the kernel looks at every page, which takes 50 ms for a GiB. So those of a large process
 * are asked for only if there is a new mapping. What is missed is advice, by madvise(2), on an entire mapping that has
 * been there for long.
 */
static int list(pid_t pid, const struct kedge__process_image *known, bool ours, struct kedge__process_image *image,
		struct kedge__error *err)
{
	struct listing l = {image, known, ours};
	int rc = known && known->mappings.count && !is_small(pid) ? read_list(&l, pid, "maps", err) : 0;

	if (rc || (image->mappings.count && complete(image, known)))
		return rc;
	forget(image);
	return read_list(&l, pid, "smaps", err);
}

int kedge__mappings_refresh(pid_t pid, struct kedge__process_image *known, bool ours, struct kedge__error *err)
{
	struct kedge__process_image now = {0};
	int rc = list(pid, known, ours, &now, err);

	if (rc) {
		kedge__process_image_done(&now);
		return rc;
	}
	kedge__process_image_done(known);
	*known = now;
	return 0;
}

int kedge__target_mappings(struct kedge__target *t, const struct kedge__process_image *known, bool ours,
			   struct kedge__process_image *image, struct kedge__error *err)
{
	int rc = list(t->pid, known, ours, image, err);

	return rc ? rc : keep_vdso(t, image, err);
}

bool kedge__mapping_is_apart(const struct kedge__process_mapping *m)
{
	return m->kind == KEDGE__MAPPING_SHARED_ANONYMOUS || m->bits & (KEDGE__MAPPING_NO_FORK | KEDGE__MAPPING_WIPE);
}

int kedge__target_find_vdso(struct kedge__target *t, struct kedge__error *err)
{
	unsigned long long start, end;
	char *text, *line;
	int rc = kedge__proc_read(t->pid, "maps", &text, NULL, err);

	if (rc)
		return rc;
	line = strstr(text, "[vdso]");
	while (line && line > text && line[-1] != '\n')
		line--;
	if (!line || sscanf(line, "%llx-%llx", &start, &end) != 2)
		rc = kedge__error_set(err, KEDGE_E_STATE, 0, "it has no vdso, or is a 32-bit program");
	else
		rc = kedge__target_find_call(t, start, (size_t)(end - start), err);
	kedge__free(text);
	return rc;
}
