/* SPDX-License-Identifier: BSD-3-Clause */
#include "store/internal.h"

#include <errno.h>
#include <sys/stat.h>

int kedge__file_read(const char *path, int fd, uint64_t limit, uint8_t **data, size_t *bytes, struct kedge__error *err)
{
	uint8_t *got = NULL;
	uint64_t size;
	int rc = fd < 0 ? kedge__fs_open_read(path, &fd, err) : 0;

	if (rc)
		return rc;
	rc = kedge__fs_size(fd, &size, path, err);
	if (rc)
		goto close;
	if (size > limit) {
		rc = kedge__error_set(err, KEDGE_E_DAMAGED, 0,
				      "%s has %" PRIu64 " bytes, more than such a file can have", path, size);
		goto close;
	}
	got = kedge__malloc(size ? (size_t)size : 1);
	if (!got) {
		rc = kedge__error_nomem(err);
		goto close;
	}
	rc = kedge__fs_pread(fd, got, (size_t)size, 0, path, err);
	if (rc) {
		kedge__free(got);
		goto close;
	}
	*data = got;
	*bytes = (size_t)size;
close:
	kedge__fs_close(fd);
	return rc;
}

/* A file of that name can only be left over from a crash: remove it and try again. */
int kedge__file_create_tmp(const char *tmp, int *fd, struct kedge__error *err)
{
	struct kedge__error first = KEDGE__ERROR_INIT;
	int rc = kedge__fs_create(tmp, fd, &first);

	if (rc && first.sys_errno == EEXIST && !kedge__fs_is_file(tmp)) {
		rc = kedge__error_set(&first, KEDGE_E_IO, 0, "%s exists and is not a regular file: move it away", tmp);
	} else if (rc && first.sys_errno == EEXIST) {
		rc = kedge__fs_unlink(tmp, &first);
		if (!rc)
			rc = kedge__fs_create(tmp, fd, &first);
	}
	if (rc)
		kedge__error_move(err, &first);
	kedge__error_done(&first);
	return rc;
}

/* Another rank that fails in this version removes the directory if it is empty, which it may be at this moment. */
static int open_in(int (*open)(const char *path, int *fd, struct kedge__error *err), const char *dir, const char *tmp,
		   int *fd, struct kedge__error *err)
{
	struct kedge__error problem = KEDGE__ERROR_INIT;
	int rc = 0;

	for (int i = 0; i < 3; i++) {
		/* Do not create its parents: if the store is gone, it must not reappear without its marker. */
		rc = kedge__fs_mkdir(dir, &problem);
		if (!rc)
			rc = open(tmp, fd, &problem);
		if (!rc || problem.sys_errno != ENOENT)
			break;
	}
	if (rc) {
		(void)kedge__fs_rmdir(dir, NULL);
		kedge__error_move(err, &problem);
	}
	kedge__error_done(&problem);
	return rc;
}

int kedge__file_create_in(const char *dir, const char *tmp, int *fd, struct kedge__error *err)
{
	return open_in(kedge__file_create_tmp, dir, tmp, fd, err);
}

int kedge__file_share_in(const char *dir, const char *tmp, int *fd, struct kedge__error *err)
{
	return open_in(kedge__fs_open_lock, dir, tmp, fd, err);
}

static int write_tmp(const char *path, const void *data, size_t bytes, bool sync, struct kedge__error *err)
{
	int fd, rc;

	rc = kedge__file_create_tmp(path, &fd, err);
	if (rc)
		return rc;
	rc = kedge__fs_write(fd, data, bytes, path, err);
	if (!rc && sync)
		rc = kedge__fs_sync(fd, path, err);
	kedge__fs_close(fd);
	if (rc)
		(void)kedge__fs_unlink(path, NULL);
	return rc;
}

int kedge__file_replace(const char *dir, const char *path, const void *data, size_t bytes, bool sync, bool *renamed,
			struct kedge__error *err)
{
	char *tmp = kedge__asprintf("%s" KEDGE__TMP_SUFFIX, path);
	int rc;

	*renamed = false;
	if (!tmp)
		return kedge__error_nomem(err);
	rc = write_tmp(tmp, data, bytes, sync, err);
	if (rc)
		goto free;
	rc = kedge__fs_rename(tmp, path, err);
	if (rc) {
		(void)kedge__fs_unlink(tmp, NULL);
		goto free;
	}
	*renamed = true;
	if (sync)
		rc = kedge__fs_sync_dir(dir, err);
free:
	kedge__free(tmp);
	return rc;
}

bool kedge__name_is_tmp(const char *name)
{
	size_t length = strlen(name), suffix = strlen(KEDGE__TMP_SUFFIX);

	return length > suffix && strcmp(name + length - suffix, KEDGE__TMP_SUFFIX) == 0;
}

/* NAME without the suffix; false: it does not have it, or is longer than any of ours. */
static bool stem_of(const char *name, char stem[64])
{
	size_t length = strlen(name), suffix = strlen(KEDGE__TMP_SUFFIX);

	if (!kedge__name_is_tmp(name) || length - suffix >= 64)
		return false;
	memcpy(stem, name, length - suffix);
	stem[length - suffix] = '\0';
	return true;
}

/* Files that src/job keeps beside the sets. */
static bool name_is_record(const char *name)
{
	static const char *const names[] = {KEDGE__RECORD_START "-policy", KEDGE__RECORD_START "-request",
					    KEDGE__TIE_NAME, KEDGE__JOURNAL_NAME, KEDGE__JOURNAL_NAME ".1"};

	for (size_t i = 0; i < KEDGE__COUNT(names); i++)
		if (strcmp(name, names[i]) == 0)
			return true;
	return false;
}

/* Version 0.1 kept what a rank's reducer knew in such a file. */
static bool name_is_old_record(const char *name)
{
	static const char rank[] = KEDGE__RECORD_START "-r";

	return strncmp(name, rank, strlen(rank)) == 0 && strlen(name) == strlen(rank) + 7 &&
	       strspn(name + strlen(rank), "0123456789") == 7;
}

bool kedge__name_is_leftover(const char *name)
{
	uint64_t version;
	char stem[64];

	if (name_is_old_record(name))
		return true;
	return stem_of(name, stem) && (kedge__set_file_parse(stem, &version) || name_is_record(stem) ||
				       name_is_old_record(stem) || strcmp(stem, KEDGE__INDEX_NAME) == 0);
}

bool kedge__name_is_ours(const char *name)
{
	static const char *const others[] = {KEDGE__LOCK_NAME,  KEDGE__LOCK_NAME KEDGE__TMP_SUFFIX,
					     KEDGE__GUARD_NAME, KEDGE__FILES_NAME,
					     KEDGE__INDEX_NAME, KEDGE__WATCH_NAME};
	uint64_t version;

	for (size_t i = 0; i < KEDGE__COUNT(others); i++)
		if (strcmp(name, others[i]) == 0)
			return true;
	return kedge__name_is_leftover(name) || name_is_record(name) || kedge__set_file_parse(name, &version) ||
	       kedge__version_dir_parse(name, &version);
}

bool kedge__segment_is_leftover(const char *name)
{
	uint32_t rank, generation;
	char stem[64];

	return stem_of(name, stem) && (kedge__segment_file_parse(stem, &rank, &generation) ||
				       kedge__shield_file_parse(stem, &rank, &generation) ||
				       kedge__bundle_file_parse(stem, &rank, &generation));
}

static int64_t nanoseconds(struct timespec t)
{
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

struct kedge__file_state kedge__file_state_of(const struct stat *st)
{
	return (struct kedge__file_state){.inode = (uint64_t)st->st_ino,
					  .bytes = (uint64_t)st->st_size,
					  .mtime_ns = nanoseconds(st->st_mtim),
					  .ctime_ns = nanoseconds(st->st_ctim)};
}

bool kedge__file_state_at(const char *path, struct kedge__file_state *state)
{
	struct stat st;

	if (stat(path, &st) != 0)
		return false;
	*state = kedge__file_state_of(&st);
	return true;
}

bool kedge__file_state_equal(const struct kedge__file_state *a, const struct kedge__file_state *b)
{
	return a->inode == b->inode && a->bytes == b->bytes && a->mtime_ns == b->mtime_ns && a->ctime_ns == b->ctime_ns;
}

bool kedge__file_is_at(int fd, const char *path)
{
	struct stat a, b;

	return fstat(fd, &a) == 0 && stat(path, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}
