/* SPDX-License-Identifier: BSD-3-Clause */
/* tool_files: input files, open, and watched for changes while they are read. */
#include "tool_files.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

char *kedge__save_region_name(const char *path)
{
	char *out = kedge__malloc(strlen(path) + 1), *end = out;

	if (!out)
		kedge__tool_no_memory();
	while (*path) {
		size_t n = strcspn(path, "/");

		if (n == 2 && memcmp(path, "..", 2) == 0) {
			while (end > out && *--end != '/')
				;
		} else if (n > 0 && !(n == 1 && path[0] == '.')) {
			if (end > out)
				*end++ = '/';
			memcpy(end, path, n);
			end += n;
		}
		path += n + (path[n] == '/');
	}
	*end = '\0';
	if (end > out)
		return out;
	kedge__free(out);
	return NULL;
}

static int check_file(struct kedge__save_file *f, struct kedge__error *err)
{
	/* Without O_NONBLOCK, opening a FIFO would wait for a writer before we could refuse it. */
	f->fd = open(f->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (f->fd < 0)
		return kedge__error_set(err, KEDGE_E_IO, errno, "cannot open %s", f->path);
	if (fstat(f->fd, &f->stat) != 0)
		return kedge__error_set(err, KEDGE_E_IO, errno, "cannot stat %s", f->path);
	if (S_ISDIR(f->stat.st_mode))
		return kedge__error_set(err, KEDGE_E_IO, EISDIR, "cannot save %s", f->path);
	if (!S_ISREG(f->stat.st_mode))
		return kedge__error_set(err, KEDGE_E_IO, 0, "%s is not a regular file", f->path);
	return 0;
}

static int open_file(struct kedge__save_file *f, const char *path, struct kedge__error *err)
{
	f->path = path;
	f->region = kedge__save_region_name(path);
	if (!f->region)
		return kedge__error_set(err, KEDGE_E_ARG, 0, "'%s' does not name a file", path);
	return check_file(f, err);
}

int kedge__save_files_add(struct kedge__save_files *files, const char *path, struct kedge__error *err)
{
	struct kedge__save_file *f;

	if (!kedge__array_push(files, (struct kedge__save_file){.fd = -1}))
		kedge__tool_no_memory();
	f = &files->at[files->count - 1];
	return open_file(f, path, err);
}

void kedge__save_files_close(struct kedge__save_files *files)
{
	for (size_t i = 0; i < files->count; i++) {
		struct kedge__save_file *f = &files->at[i];

		kedge__fs_close(f->fd);
		kedge__free(f->region);
	}
	kedge__array_done(files);
}

int kedge__save_file_read(const struct kedge__save_file *f, uint64_t offset, void *buffer, size_t bytes,
			  struct kedge__error *err)
{
	int rc = kedge__fs_pread(f->fd, buffer, bytes, offset, f->path, err);

	if (rc != KEDGE_E_DAMAGED)
		return rc;
	return kedge__error_set(err, KEDGE_E_IO, 0, "%s was truncated while it was being saved", f->path);
}

static bool same_time(struct timespec a, struct timespec b)
{
	return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

int kedge__save_files_check(const struct kedge__save_files *files, struct kedge__error *err)
{
	for (size_t i = 0; i < files->count; i++) {
		const struct kedge__save_file *f = &files->at[i];
		struct stat now;

		if (fstat(f->fd, &now) != 0)
			return kedge__error_set(err, KEDGE_E_IO, errno, "cannot stat %s", f->path);
		if (now.st_size != f->stat.st_size)
			return kedge__error_set(err, KEDGE_E_IO, 0,
						"%s changed from %lld to %lld bytes while it was being saved", f->path,
						(long long)f->stat.st_size, (long long)now.st_size);
		if (!same_time(now.st_mtim, f->stat.st_mtim))
			return kedge__error_set(err, KEDGE_E_IO, 0, "%s was modified while it was being saved",
						f->path);
	}
	return 0;
}

/* ------------------------------------------------------------------ temporary files */

const char *kedge__temporary_directory(void)
{
	const char *dir = getenv("TMPDIR");

	return dir && *dir ? dir : "/var/tmp";
}

int kedge__temporary_file(int *fd, struct kedge__error *err)
{
	char *path = kedge__asprintf("%s/kedge-%ld.tmp", kedge__temporary_directory(), (long)getpid());
	int rc;

	if (!path)
		kedge__tool_no_memory();
	rc = kedge__fs_create(path, fd, err);
	if (!rc)
		rc = kedge__fs_unlink(path, err);
	kedge__free(path);
	return rc;
}
