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
		rc = kedge__error_set(err, KEDGE_E_DAMAGED, 0, "%s is far too large (%" PRIu64 " bytes)", path, size);
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

/* A file of that name can only be what a crash left: take it away and try again. */
int kedge__file_create_tmp(const char *tmp, int *fd, struct kedge__error *err)
{
	struct kedge__error first = KEDGE__ERROR_INIT;
	int rc = kedge__fs_create(tmp, fd, &first);

	if (rc && first.sys_errno == EEXIST) {
		rc = kedge__fs_unlink(tmp, &first);
		if (!rc)
			rc = kedge__fs_create(tmp, fd, &first);
	}
	if (rc)
		kedge__error_move(err, &first);
	kedge__error_done(&first);
	return rc;
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

bool kedge__file_is_at(int fd, const char *path)
{
	struct stat a, b;

	return fstat(fd, &a) == 0 && stat(path, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}
