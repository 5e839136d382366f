/* SPDX-License-Identifier: BSD-3-Clause */
/* watch_sets: the files that belong together, as they are now, and whether somebody still writes to them. */
#include "watch.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#define SECOND_NS INT64_C(1000000000)
#define EVENTS    (IN_CLOSE_WRITE | IN_MOVED_TO | IN_CREATE | IN_DELETE | IN_MOVED_FROM)

struct scan {
	const struct kedge__watch_spec *spec;
	struct kedge__watch_sets *sets;
	bool marker; /* what is found are markers */
};

static char *join(const char *dir, const char *name)
{
	char *path = *dir ? kedge__asprintf("%s/%s", dir, name) : kedge__strdup(name);

	if (!path)
		kedge__tool_no_memory();
	return path;
}

/* ------------------------------------------------------------------ sets */

static struct kedge__watch_set *set_of(struct kedge__watch_sets *sets, const char *key)
{
	struct kedge__watch_set fresh = {.key = NULL};

	for (size_t i = 0; i < sets->list.count; i++)
		if (strcmp(sets->list.at[i].key, key) == 0)
			return &sets->list.at[i];
	fresh.key = kedge__strdup(key);
	if (!fresh.key || !kedge__array_push(&sets->list, fresh))
		kedge__tool_no_memory();
	return &sets->list.at[sets->list.count - 1];
}

const struct kedge__watch_set *kedge__watch_sets_find(const struct kedge__watch_sets *sets, const char *key)
{
	for (size_t i = 0; i < sets->list.count; i++)
		if (strcmp(sets->list.at[i].key, key) == 0)
			return &sets->list.at[i];
	return NULL;
}

static void set_done(struct kedge__watch_set *set)
{
	for (size_t i = 0; i < set->files.count; i++)
		kedge__free(set->files.at[i].path);
	for (size_t i = 0; i < set->operands.count; i++)
		kedge__free(set->operands.at[i]);
	kedge__array_done(&set->files);
	kedge__array_done(&set->operands);
	kedge__free(set->marker);
	kedge__free(set->key);
}

void kedge__watch_sets_done(struct kedge__watch_sets *sets)
{
	for (size_t i = 0; i < sets->list.count; i++)
		set_done(&sets->list.at[i]);
	kedge__array_done(&sets->list);
}

static bool set_has(const struct kedge__watch_set *set, const char *path)
{
	for (size_t i = 0; i < set->files.count; i++)
		if (strcmp(set->files.at[i].path, path) == 0)
			return true;
	return false;
}

static void file_add(struct kedge__watch_set *set, const char *path, const struct stat *st)
{
	struct kedge__watch_file f = {.path = kedge__strdup(path),
				      .size = (uint64_t)st->st_size,
				      .inode = st->st_ino,
				      .mtime_ns = st->st_mtim.tv_sec * SECOND_NS + st->st_mtim.tv_nsec,
				      .regular = S_ISREG(st->st_mode)};

	if (!f.path || !kedge__array_push(&set->files, f))
		kedge__tool_no_memory();
	set->newest = KEDGE__MAX(set->newest, f.mtime_ns);
}

static void operand_add(struct kedge__watch_set *set, const char *path)
{
	char *copy = kedge__strdup(path);

	if (!copy || !kedge__array_push(&set->operands, copy))
		kedge__tool_no_memory();
}

/* ------------------------------------------------------------------ looking */

/* Watched from before it is read on, so that nothing falls between. Directories vanish at any time. */
static int list(const struct scan *s, const char *rel, char ***names, size_t *n)
{
	char *path = *rel ? join(s->spec->dir, rel) : join("", s->spec->dir);
	int rc;

	if (s->spec->inotify >= 0)
		(void)inotify_add_watch(s->spec->inotify, path, EVENTS | IN_ONLYDIR);
	rc = kedge__fs_list(path, names, n, NULL);
	kedge__free(path);
	return rc;
}

static bool look(const struct scan *s, const char *rel, struct stat *st)
{
	char *path = join(s->spec->dir, rel);
	bool there = lstat(path, st) == 0;

	kedge__free(path);
	if (there && S_ISDIR(st->st_mode) && st->st_dev == s->spec->store_device && st->st_ino == s->spec->store_inode)
		return false;
	return there;
}

static void add_below(struct scan *s, const char *key, const char *rel)
{
	char **names;
	size_t n;

	if (list(s, rel, &names, &n) != 0)
		return;
	for (size_t i = 0; i < n; i++) {
		char *path = join(rel, names[i]);
		struct stat st;

		if (look(s, path, &st) && S_ISDIR(st.st_mode))
			add_below(s, key, path);
		else if (look(s, path, &st))
			file_add(set_of(s->sets, key), path, &st);
		kedge__free(path);
	}
	kedge__fs_list_free(names, n);
}

static void found(struct scan *s, const char *key, const char *path, const struct stat *st)
{
	struct kedge__watch_set *set = set_of(s->sets, key);

	if (s->marker && set->marker)
		return;
	if (s->marker) {
		set->marker = kedge__strdup(path);
		if (!set->marker)
			kedge__tool_no_memory();
	}
	if ((s->marker || s->spec->patterns.count > 1) && set_has(set, path))
		return;
	operand_add(set, path);
	if (S_ISDIR(st->st_mode))
		add_below(s, key, path);
	else
		file_add(set, path, st);
}

/* PATTERN, from the component that is next, in the directory REL. */
static void expand(struct scan *s, const char *pattern, const char *rel, const char *key)
{
	size_t length = strcspn(pattern, "/"), n;
	char *part = kedge__asprintf("%.*s", (int)length, pattern), **names;

	if (!part)
		kedge__tool_no_memory();
	if (list(s, rel, &names, &n) != 0) {
		kedge__free(part);
		return;
	}
	for (size_t i = 0; i < n; i++) {
		char *own = NULL, *path;
		struct stat st;

		if (!kedge__keyed_fits(part, KEDGE__KEYED_TEXT, names[i], key, &own))
			continue;
		path = join(rel, names[i]);
		if (look(s, path, &st) && !pattern[length])
			found(s, own ? own : key ? key : "", path, &st);
		else if (look(s, path, &st) && S_ISDIR(st.st_mode))
			expand(s, pattern + length + 1, path, own ? own : key);
		kedge__free(path);
		kedge__free(own);
	}
	kedge__fs_list_free(names, n);
	kedge__free(part);
}

/* ------------------------------------------------------------------ what they are */

static int by_path(const void *a, const void *b)
{
	return strcmp(((const struct kedge__watch_file *)a)->path, ((const struct kedge__watch_file *)b)->path);
}

/* Without inodes: a set that was restored is the one that it was. */
static void set_finish(struct kedge__watch_set *set)
{
	struct kedge__bytes text = {0};

	if (set->files.count)
		qsort(set->files.at, set->files.count, sizeof(*set->files.at), by_path);
	for (size_t i = 0; i < set->files.count; i++) {
		const struct kedge__watch_file *f = &set->files.at[i];
		uint64_t facts[3] = {f->size, (uint64_t)f->mtime_ns, f->regular};
		size_t n = strlen(f->path) + 1;

		set->counted += f->regular && !(set->marker && strcmp(set->marker, f->path) == 0);
		if (!kedge__array_reserve(&text, text.count + n + sizeof(facts)))
			kedge__tool_no_memory();
		memcpy(text.at + text.count, f->path, n);
		memcpy(text.at + text.count + n, facts, sizeof(facts));
		text.count += n + sizeof(facts);
	}
	set->fingerprint = kedge__checksum(text.at, text.count);
	kedge__bytes_done(&text);
}

/* Shorter numbers are lower. */
static int compare_keys(const char *a, const char *b)
{
	size_t n = strlen(a), m = strlen(b);
	bool numbers = strspn(a, "0123456789") == n && strspn(b, "0123456789") == m;

	if (numbers && n != m)
		return n < m ? -1 : 1;
	return strcmp(a, b);
}

static int by_age(const void *a, const void *b)
{
	const struct kedge__watch_set *x = a, *y = b;

	if (x->newest != y->newest)
		return x->newest < y->newest ? -1 : 1;
	return compare_keys(x->key, y->key);
}

int kedge__watch_sets_scan(struct kedge__watch_sets *sets, const struct kedge__watch_spec *spec,
			   struct kedge__error *err)
{
	struct scan s = {.spec = spec, .sets = sets};
	struct stat st;

	*sets = (struct kedge__watch_sets){{0}};
	if (stat(spec->dir, &st) != 0 || !S_ISDIR(st.st_mode))
		return kedge__error_set(err, KEDGE_E_IO, errno, "cannot look into %s", spec->dir);
	for (size_t i = 0; i < spec->patterns.count; i++)
		expand(&s, spec->patterns.at[i], "", NULL);
	s.marker = true;
	if (spec->marker)
		expand(&s, spec->marker, "", NULL);
	for (size_t i = 0; i < sets->list.count; i++)
		set_finish(&sets->list.at[i]);
	if (sets->list.count)
		qsort(sets->list.at, sets->list.count, sizeof(*sets->list.at), by_age);
	return 0;
}

bool kedge__watch_set_complete(const struct kedge__watch_set *set, const struct kedge__watch_spec *spec)
{
	if (spec->marker && !set->marker)
		return false;
	return set->counted && (!spec->count || set->counted == spec->count);
}

/* ------------------------------------------------------------------ being written */

/* A lease to read is granted only while nobody has the file open, or mapped, for writing. */
static enum kedge__watch_quiet file_quiet(const char *path, bool hold)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK), refused;

	if (fd < 0) /* who saves it says why it cannot be read; one that vanished is no part of a complete set */
		return errno == ENOENT ? KEDGE__WATCH_BUSY : KEDGE__WATCH_UNKNOWN;
	refused = fcntl(fd, F_SETLEASE, F_RDLCK) != 0 ? errno : 0;
	if (!hold || refused)
		kedge__fs_close(fd); /* which gives the lease back */
	if (!refused)
		return KEDGE__WATCH_QUIET;
	return refused == EAGAIN ? KEDGE__WATCH_BUSY : KEDGE__WATCH_UNKNOWN;
}

enum kedge__watch_quiet kedge__watch_set_quiet(const struct kedge__watch_set *set, const char *dir, bool hold)
{
	enum kedge__watch_quiet all = KEDGE__WATCH_QUIET;

	for (size_t i = 0; i < set->files.count && all != KEDGE__WATCH_BUSY; i++) {
		char *path = set->files.at[i].regular ? join(dir, set->files.at[i].path) : NULL;
		enum kedge__watch_quiet one = path ? file_quiet(path, hold) : KEDGE__WATCH_QUIET;

		all = one == KEDGE__WATCH_QUIET ? all : one;
		kedge__free(path);
	}
	return all;
}
