/* files: directories of a test's own, trees that are copied and removed, whole files in memory. */
#ifndef KEDGE_TESTS_LIB_FILES_H
#define KEDGE_TESTS_LIB_FILES_H

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* For what a test cannot go on without. */
#define FILES_REQUIRE(what)                                                                                            \
	do {                                                                                                           \
		if (!(what)) {                                                                                         \
			fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #what);                      \
			abort();                                                                                       \
		}                                                                                                      \
	} while (0)

#define FILES_PATH 512

static inline void __attribute__((format(printf, 2, 3))) path_make(char out[FILES_PATH], const char *fmt, ...)
{
	__builtin_va_list ap;
	int n;

	__builtin_va_start(ap, fmt);
	n = vsnprintf(out, FILES_PATH, fmt, ap);
	__builtin_va_end(ap);
	FILES_REQUIRE(n >= 0 && n < FILES_PATH);
}

/* A fresh directory, in memory where there is some: many small files, each synced, cost nothing there. */
static inline void scratch_make(char out[FILES_PATH], const char *what)
{
	const char *tmp = getenv("TMPDIR");

	if (!tmp || !tmp[0])
		tmp = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
	path_make(out, "%s/kedge-%s-XXXXXX", tmp, what);
	FILES_REQUIRE(mkdtemp(out));
}

static inline int tree_remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st, (void)type, (void)ftw;
	return remove(path);
}

static inline void tree_remove(const char *dir)
{
	(void)nftw(dir, tree_remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

static inline uint8_t *file_read(const char *path, size_t *bytes)
{
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	uint8_t *data;

	if (fd < 0)
		return NULL;
	FILES_REQUIRE(fstat(fd, &st) == 0);
	data = malloc((size_t)st.st_size + 1);
	FILES_REQUIRE(data && read(fd, data, (size_t)st.st_size) == st.st_size);
	close(fd);
	*bytes = (size_t)st.st_size;
	return data;
}

static inline void file_write(const char *path, const void *data, size_t bytes)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	FILES_REQUIRE(fd >= 0 && write(fd, data, bytes) == (ssize_t)bytes && close(fd) == 0);
}

static inline void tree_copy(const char *from, const char *to)
{
	DIR *d = opendir(from);
	struct dirent *e;

	FILES_REQUIRE(d && (mkdir(to, 0700) == 0 || access(to, W_OK) == 0));
	while ((e = readdir(d))) {
		char a[FILES_PATH], b[FILES_PATH];
		struct stat st;
		uint8_t *data;
		size_t n;

		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		path_make(a, "%s/%s", from, e->d_name);
		path_make(b, "%s/%s", to, e->d_name);
		FILES_REQUIRE(stat(a, &st) == 0);
		if (S_ISDIR(st.st_mode)) {
			tree_copy(a, b);
			continue;
		}
		data = file_read(a, &n);
		FILES_REQUIRE(data);
		file_write(b, data, n);
		free(data);
	}
	closedir(d);
}

#endif
