/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tool_walk: make a list of files from the operands. A directory is read completely and closed before the walk goes
 * down into it, so that few are open at a time, however deep the tree is.
 */
#include "tool_walk.h"
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

enum { BLOCK = 512 }; /* st_blocks are of this size */

void kedge__walk_begin(struct kedge__walk *w, const char *store)
{
	struct stat st;

	if (!store || stat(store, &st) != 0)
		return;
	w->store = true;
	w->store_device = st.st_dev;
	w->store_inode = st.st_ino;
}

void kedge__walk_leave(struct kedge__walk *w, const char *path, const char *why)
{
	kedge__tool_say(w->command, "%s was left out: %s", path, why);
	w->left_out++;
}

void kedge__found_done(struct kedge__found *f)
{
	kedge__tree_entry_done(&f->entry);
	kedge__free(f->path);
	kedge__fs_close(f->fd);
}

void kedge__walk_done(struct kedge__walk *w)
{
	for (size_t i = 0; i < w->found.count; i++)
		kedge__found_done(&w->found.at[i]);
	kedge__array_done(&w->found);
	kedge__excludes_done(&w->excludes);
	kedge__hash_done(&w->links);
}

/* ------------------------------------------------------------------ one file */

static uint8_t kind_of(mode_t mode)
{
	return S_ISREG(mode)    ? KEDGE__TREE_FILE
	       : S_ISDIR(mode)  ? KEDGE__TREE_DIRECTORY
	       : S_ISLNK(mode)  ? KEDGE__TREE_SYMLINK
	       : S_ISFIFO(mode) ? KEDGE__TREE_FIFO
	       : S_ISCHR(mode)  ? KEDGE__TREE_CHARACTER
	       : S_ISBLK(mode)  ? KEDGE__TREE_BLOCK
				: KEDGE__TREE_SOCKET;
}

static int64_t ns_of(struct timespec t)
{
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void entry_fill(struct kedge__tree_entry *e, const struct stat *st)
{
	e->kind = kind_of(st->st_mode);
	e->mode = st->st_mode & 07777;
	e->uid = st->st_uid;
	e->gid = st->st_gid;
	e->inode = st->st_ino;
	e->mtime_ns = ns_of(st->st_mtim);
	e->ctime_ns = ns_of(st->st_ctim);
	if (S_ISREG(st->st_mode)) {
		e->size = (uint64_t)st->st_size;
		if (st->st_blocks < st->st_size / BLOCK)
			e->flags = KEDGE__TREE_SPARSE;
	} else if (S_ISCHR(st->st_mode) || S_ISBLK(st->st_mode)) {
		e->size = st->st_rdev;
	}
}

static bool link_is(const void *ctx, size_t item, const void *wanted)
{
	const struct kedge__found *f = &((const struct kedge__walk *)ctx)->found.at[item], *x = wanted;

	return f->device == x->device && f->entry.inode == x->entry.inode;
}

/* A file that has another name already is a link to it. */
static void find_link(struct kedge__walk *w, struct kedge__found *f)
{
	uint64_t key[2] = {f->device, f->entry.inode}, hash = kedge__checksum(key, sizeof(key));
	size_t first = kedge__hash_find(&w->links, hash, link_is, w, f);

	if (first == KEDGE__HASH_NONE) {
		if (!kedge__hash_put(&w->links, hash, w->found.count))
			kedge__tool_no_memory();
		return;
	}
	if (strcmp(w->found.at[first].entry.name, f->entry.name) == 0)
		return; /* the same once more */
	w->hardlinks++;
	f->entry.kind = KEDGE__TREE_HARDLINK;
	f->entry.size = 0;
	f->entry.target = kedge__strdup(w->found.at[first].entry.name);
	if (!f->entry.target)
		kedge__tool_no_memory();
}

static int read_target(struct kedge__found *f)
{
	char target[4096];
	ssize_t n = readlink(f->path, target, sizeof(target));

	if (n <= 0 || (size_t)n == sizeof(target))
		return -1;
	f->entry.target = kedge__malloc((size_t)n + 1);
	if (!f->entry.target)
		kedge__tool_no_memory();
	memcpy(f->entry.target, target, (size_t)n);
	f->entry.target[n] = '\0';
	return 0;
}

/* Whether entries of its kind are kept as what they are: only root may make them again, except FIFOs. */
static const char *why_not(const struct kedge__found *f)
{
	switch (f->entry.kind) {
	case KEDGE__TREE_SOCKET:
		return "it is a socket";
	case KEDGE__TREE_FIFO:
		return geteuid() ? "it is a FIFO, which only root saves" : NULL;
	case KEDGE__TREE_CHARACTER:
	case KEDGE__TREE_BLOCK:
		return geteuid() ? "it is a device, which only root saves" : NULL;
	default:
		return NULL;
	}
}

/* Takes F, or frees it. */
static int take(struct kedge__walk *w, struct kedge__found *f, const struct stat *st, bool named,
		struct kedge__error *err)
{
	const char *why;

	entry_fill(&f->entry, st);
	f->device = st->st_dev;
	f->named = named;
	if (S_ISLNK(st->st_mode) && read_target(f) != 0) {
		kedge__walk_leave(w, f->path, strerror(errno));
		kedge__found_done(f);
		return 0;
	}
	why = why_not(f);
	if (named && f->entry.kind >= KEDGE__TREE_FIFO) {
		int rc = kedge__error_set(err, KEDGE_E_IO, 0, "%s is not a regular file", f->path);

		kedge__found_done(f);
		return rc;
	}
	if (why) {
		kedge__walk_leave(w, f->path, why);
		kedge__found_done(f);
		return 0;
	}
	if (named && S_ISLNK(st->st_mode) && !w->quiet)
		kedge__tool_say(w->command, "note: %s is a symbolic link, and saved as one, without what it leads to",
				f->path);
	if (S_ISREG(st->st_mode) && st->st_nlink > 1)
		find_link(w, f);
	if (!kedge__array_push(&w->found, *f))
		kedge__tool_no_memory();
	return 0;
}

/* ------------------------------------------------------------------ directories */

static int walk_in(struct kedge__walk *w, const char *path, const char *name, uint64_t device,
		   struct kedge__error *err);

static char *join(const char *a, const char *b)
{
	size_t n = strlen(a);
	char *path = !*a ? kedge__strdup(b) : kedge__asprintf("%s%s%s", a, a[n - 1] == '/' ? "" : "/", b);

	if (!path)
		kedge__tool_no_memory();
	return path;
}

static bool is_store(const struct kedge__walk *w, const struct stat *st)
{
	return w->store && st->st_dev == w->store_device && st->st_ino == w->store_inode;
}

/* PATH, which is called NAME (owned by the callee) in the version; "" for the root of everything. */
static int walk_one(struct kedge__walk *w, const char *path, char *name, const uint64_t *device, bool recurse,
		    bool named, struct kedge__error *err)
{
	struct kedge__found f = {.fd = -1};
	struct stat st;
	bool directory;
	int rc = 0;

	if (lstat(path, &st) != 0) {
		if (named)
			rc = kedge__error_set(err, KEDGE_E_IO, errno, "cannot open %s", path);
		else
			kedge__walk_leave(w, path, strerror(errno));
		kedge__free(name);
		return rc;
	}
	directory = S_ISDIR(st.st_mode);
	if ((*name && kedge__excludes_fit(&w->excludes, name, directory)) || (directory && is_store(w, &st))) {
		kedge__free(name);
		return 0;
	}
	if (*name) {
		f.entry.name = kedge__strdup(name);
		f.path = kedge__strdup(path);
		if (!f.entry.name || !f.path)
			kedge__tool_no_memory();
		rc = take(w, &f, &st, named, err);
	}
	if (rc == 0 && directory && recurse && !(w->one_file_system && device && *device != st.st_dev))
		rc = walk_in(w, path, name, device ? *device : st.st_dev, err);
	kedge__free(name);
	return rc;
}

static int walk_in(struct kedge__walk *w, const char *path, const char *name, uint64_t device, struct kedge__error *err)
{
	struct kedge__error problem = KEDGE__ERROR_INIT;
	char **names;
	size_t count;
	int rc = kedge__fs_list(path, &names, &count, &problem);

	if (rc) {
		kedge__walk_leave(w, path, kedge__error_text(&problem));
		kedge__error_done(&problem);
		return 0;
	}
	for (size_t i = 0; i < count && rc == 0; i++) {
		char *below = join(path, names[i]);

		rc = walk_one(w, below, join(name, names[i]), &device, true, false, err);
		kedge__free(below);
	}
	kedge__fs_list_free(names, count);
	return rc;
}

int kedge__walk_add(struct kedge__walk *w, const char *path, bool recurse, bool named, struct kedge__error *err)
{
	char *name = kedge__save_region_name(path);
	struct stat st;

	if (!name && (stat(path, &st) != 0 || !S_ISDIR(st.st_mode)))
		return kedge__error_set(err, KEDGE_E_ARG, 0, "'%s' does not name a file", path);
	if (!name)
		name = kedge__strdup("");
	if (!name)
		kedge__tool_no_memory();
	return walk_one(w, path, name, NULL, recurse, named, err);
}

/* ------------------------------------------------------------------ all of them */

static int by_name(const void *a, const void *b)
{
	const struct kedge__found *x = a, *y = b;

	return strcmp(x->entry.name, y->entry.name);
}

/* The same file twice is there once; two directories are one. */
static bool is_twice(const struct kedge__found *a, const struct kedge__found *b)
{
	bool directories = a->entry.kind == KEDGE__TREE_DIRECTORY && b->entry.kind == KEDGE__TREE_DIRECTORY;

	return directories || (a->device == b->device && a->entry.inode == b->entry.inode);
}

int kedge__walk_end(struct kedge__walk *w, struct kedge__error *err)
{
	struct kedge__found *at = w->found.at;
	size_t kept = 0;
	int rc = 0;

	if (w->found.count)
		qsort(at, w->found.count, sizeof(*at), by_name);
	for (size_t i = 0; i < w->found.count; i++) {
		bool again = kept && strcmp(at[kept - 1].entry.name, at[i].entry.name) == 0;

		if (again && !rc && !is_twice(&at[kept - 1], &at[i]))
			rc = kedge__error_set(err, KEDGE_E_ARG, 0, "'%s' and '%s' would both become region '%s'",
					      at[kept - 1].path, at[i].path, at[i].entry.name);
		if (again)
			kedge__found_done(&at[i]);
		else
			at[kept++] = at[i];
	}
	w->found.count = kept;
	kedge__hash_done(&w->links);
	return rc;
}
