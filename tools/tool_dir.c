/* SPDX-License-Identifier: BSD-3-Clause */
/* tool_dir: directories that a benchmark, or a pack on its way, makes for itself. */
#include "tool_bench.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define DESCRIPTORS 16

int kedge__bench_dir_make(const char *parent, char **dir, struct kedge__error *err)
{
	return kedge__dir_make(parent, "kedge-bench", dir, err);
}

int kedge__dir_make(const char *parent, const char *prefix, char **dir, struct kedge__error *err)
{
	char *made = kedge__asprintf("%s/%s-XXXXXX", parent, prefix);

	if (!made)
		return kedge__error_nomem(err);
	if (!mkdtemp(made)) {
		int rc = kedge__error_set(err, KEDGE_E_IO, errno, "cannot make a directory in %s", parent);

		kedge__free(made);
		return rc;
	}
	*dir = made;
	return 0;
}

static int clear_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st, (void)type;
	return ftw->level ? remove(path) : 0;
}

void kedge__bench_dir_clear(const char *dir)
{
	nftw(dir, clear_entry, DESCRIPTORS, FTW_DEPTH | FTW_PHYS);
}

void kedge__bench_dir_remove(const char *dir)
{
	kedge__bench_dir_clear(dir);
	rmdir(dir);
}

int kedge__bench_dir_use(const char *parent, int (*measure)(void *bench, const char *dir, struct kedge__error *err),
			 void *bench, struct kedge__error *err)
{
	char *dir;
	int rc = kedge__bench_dir_make(parent, &dir, err);

	if (rc)
		return rc;
	rc = measure(bench, dir, err);
	kedge__bench_dir_remove(dir);
	kedge__free(dir);
	return rc;
}

int kedge__bench_said(kedge_t *k, int rc, struct kedge__error *err)
{
	return rc ? kedge__error_set(err, rc, 0, "%s", kedge_last_error(k)) : 0;
}

/* nftw() passes nothing on to its function. */
static uint64_t pages, pages_left;

static void count_left(int fd, size_t bytes)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), n = (bytes + page - 1) / page;
	void *at = bytes ? mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;
	unsigned char *left = kedge__malloc(n + 1);

	if (at != MAP_FAILED && left && mincore(at, bytes, left) == 0) {
		pages += n;
		for (size_t i = 0; i < n; i++)
			pages_left += left[i] & 1;
	}
	if (at != MAP_FAILED)
		munmap(at, bytes);
	kedge__free(left);
}

static int forget_file(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	int fd = type == FTW_F ? open(path, O_RDONLY | O_CLOEXEC) : -1;

	(void)ftw;
	if (fd >= 0) {
		(void)fdatasync(fd);
		(void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
		count_left(fd, (size_t)st->st_size);
		close(fd);
	}
	return 0;
}

bool kedge__bench_forget(const char *path)
{
	pages = pages_left = 0;
	nftw(path, forget_file, DESCRIPTORS, FTW_PHYS);
	return pages_left <= pages / 2;
}

static int fetch_file(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	static char piece[1 << 16];
	int fd = type == FTW_F ? open(path, O_RDONLY | O_CLOEXEC) : -1;

	(void)st, (void)ftw;
	while (fd >= 0 && read(fd, piece, sizeof(piece)) > 0)
		;
	kedge__fs_close(fd);
	return 0;
}

void kedge__bench_fetch(const char *path)
{
	nftw(path, fetch_file, DESCRIPTORS, FTW_PHYS);
}
