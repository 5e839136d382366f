/* SPDX-License-Identifier: BSD-3-Clause */
#include "files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void text_make(char *out, size_t room, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(out, room, fmt, ap);
	va_end(ap);
	REQUIRE(n >= 0 && (size_t)n < room);
}

void path_make(char out[FILES_PATH], const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(out, FILES_PATH, fmt, ap);
	va_end(ap);
	REQUIRE(n >= 0 && n < FILES_PATH);
}

uint8_t *file_read(const char *path, size_t *bytes)
{
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	uint8_t *data;

	if (fd < 0)
		return NULL;
	REQUIRE(fstat(fd, &st) == 0);
	data = malloc((size_t)st.st_size + 1);
	REQUIRE(data && read(fd, data, (size_t)st.st_size) == st.st_size);
	close(fd);
	data[st.st_size] = '\0';
	*bytes = (size_t)st.st_size;
	return data;
}

void file_write(const char *path, const void *data, size_t bytes)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);

	REQUIRE(fd >= 0 && write(fd, data, bytes) == (ssize_t)bytes && close(fd) == 0);
}

static bool has_ends(const char *name, const char *prefix, const char *suffix)
{
	size_t length = strlen(name), end = strlen(suffix);

	return strncmp(name, prefix, strlen(prefix)) == 0 && length >= end && strcmp(name + length - end, suffix) == 0;
}

bool file_find(const char *dir, const char *prefix, const char *suffix, char *out, size_t room)
{
	struct dirent **names;
	int n = scandir(dir, &names, NULL, alphasort);
	bool found = false;

	for (int i = 0; i < n; i++) {
		if (!found && has_ends(names[i]->d_name, prefix, suffix)) {
			text_make(out, room, "%s/%s", dir, names[i]->d_name);
			found = true;
		}
		free(names[i]);
	}
	if (n >= 0)
		free(names);
	return found;
}

static _Thread_local struct { /* nftw() gives its function no context */
	tree_visit *visit;
	void *ctx;
} walk;

static int walk_step(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	struct stat now;

	(void)ftw;
	if (type == FTW_NS) { /* a job that is at work there has removed it */
		REQUIRE(lstat(path, &now) != 0 && errno == ENOENT);
		return 0;
	}
	return walk.visit(path, st, walk.ctx);
}

static int walk_tree(const char *dir, int flags, tree_visit *visit, void *ctx)
{
	walk.visit = visit;
	walk.ctx = ctx;
	return nftw(dir, walk_step, 16, flags) ? -1 : 0;
}

int tree_each(const char *dir, tree_visit *visit, void *ctx)
{
	return walk_tree(dir, FTW_PHYS, visit, ctx);
}

int tree_each_inside_first(const char *dir, tree_visit *visit, void *ctx)
{
	return walk_tree(dir, FTW_PHYS | FTW_DEPTH, visit, ctx);
}

static int remove_entry(const char *path, const struct stat *st, void *ctx)
{
	(void)st, (void)ctx;
	return remove(path) == 0 || errno == ENOENT ? 0 : -1;
}

int tree_remove(const char *dir)
{
	return tree_each_inside_first(dir, remove_entry, NULL);
}

static void file_copy(const char *from, const char *to)
{
	size_t bytes;
	uint8_t *data = file_read(from, &bytes);

	REQUIRE(data);
	file_write(to, data, bytes);
	free(data);
}

void tree_copy(const char *from, const char *to)
{
	DIR *d = opendir(from);
	struct dirent *e;

	REQUIRE(d && (mkdir(to, 0777) == 0 || access(to, W_OK) == 0));
	while ((e = readdir(d))) {
		char a[FILES_PATH], b[FILES_PATH];
		struct stat st;

		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		path_make(a, "%s/%s", from, e->d_name);
		path_make(b, "%s/%s", to, e->d_name);
		REQUIRE(stat(a, &st) == 0);
		if (S_ISDIR(st.st_mode))
			tree_copy(a, b);
		else if (S_ISREG(st.st_mode))
			file_copy(a, b);
	}
	closedir(d);
}
