/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/fs.h"
#include "base/base.h"
#include "base/fault.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <unistd.h>

static int fail(struct kedge__error *err, int sys_errno, const char *what, const char *path)
{
	return kedge__error_set(err, kedge__error_from_errno(sys_errno), sys_errno, "cannot %s %s", what, path);
}

/* The fault point of a call that is not a write: 0, or the errno it has to fail with. */
static int fault_errno(void)
{
	switch (kedge__fault_point()) {
	case KEDGE__FAULT_EIO:
		return EIO;
	case KEDGE__FAULT_ENOSPC:
		return ENOSPC;
	case KEDGE__FAULT_CUT:
		kedge__fault_die();
		break;
	case KEDGE__FAULT_SHORT:
	case KEDGE__FAULT_NONE:
		break;
	}
	return 0;
}

/* What is stored is its owner's alone, whatever the umask would let others have. */
#define FILE_MODE      0600
#define DIRECTORY_MODE 0700

static int open_retry(const char *path, int flags, mode_t mode)
{
	int fd;

	do
		fd = open(path, flags | O_CLOEXEC, mode);
	while (fd < 0 && errno == EINTR);
	return fd;
}

#define NOT_REGULAR (-1)

/*
 * 0, an errno, or NOT_REGULAR. A FIFO or a device in the place of a file must not keep us waiting, so the open does not
 * wait. Reads may: io_uring of older kernels gives up those of a descriptor with O_NONBLOCK.
 */
static int open_regular(const char *path, int flags, int *fd)
{
	struct stat st;
	int opened, failed = 0;

	if (!(flags & O_CREAT) && kedge__fault_read())
		return EIO;
	opened = open_retry(path, flags | O_NONBLOCK | O_NOCTTY, FILE_MODE);
	if (opened < 0)
		return errno == ENXIO ? NOT_REGULAR : errno;
	if (fstat(opened, &st) != 0)
		failed = errno;
	else if (!S_ISREG(st.st_mode))
		failed = S_ISDIR(st.st_mode) ? EISDIR : NOT_REGULAR;
	else if (fcntl(opened, F_SETFL, flags & (O_APPEND | O_DIRECT)) != 0)
		failed = errno;
	if (failed)
		close(opened);
	else
		*fd = opened;
	return failed;
}

static int open_failed(struct kedge__error *err, int failed, const char *path)
{
	if (failed == NOT_REGULAR)
		return kedge__error_set(err, KEDGE_E_IO, 0, "%s is not a regular file", path);
	return fail(err, failed, "open", path);
}

/* Open what exists; only when there is nothing is it a mutating call, and a fault point. */
static int open_or_create(const char *path, int flags, int *fd, struct kedge__error *err)
{
	int failed = open_regular(path, flags, fd);
	int fault;

	if (failed == ENOENT) {
		fault = fault_errno();
		if (fault)
			return fail(err, fault, "create", path);
		failed = open_regular(path, flags | O_CREAT, fd);
	}
	return failed ? open_failed(err, failed, path) : 0;
}

static int create(const char *path, mode_t mode, int *fd, struct kedge__error *err)
{
	int fault = fault_errno();
	int opened;

	if (fault)
		return fail(err, fault, "create", path);
	opened = open_retry(path, O_RDWR | O_CREAT | O_EXCL, mode);
	if (opened < 0)
		return fail(err, errno, "create", path);
	*fd = opened;
	return 0;
}

int kedge__fs_create(const char *path, int *fd, struct kedge__error *err)
{
	return create(path, FILE_MODE, fd, err);
}

int kedge__fs_create_public(const char *path, int *fd, struct kedge__error *err)
{
	return create(path, 0666, fd, err);
}

int kedge__fs_set_mode(int fd, unsigned mode, const char *path, struct kedge__error *err)
{
	int fault = fault_errno();

	if (!fault && fchmod(fd, (mode_t)mode) != 0)
		fault = errno;
	return fault ? fail(err, fault, "set the permissions of", path) : 0;
}

int kedge__fs_open_read(const char *path, int *fd, struct kedge__error *err)
{
	int failed = open_regular(path, O_RDONLY, fd);

	return failed ? open_failed(err, failed, path) : 0;
}

int kedge__fs_open_lock(const char *path, int *fd, struct kedge__error *err)
{
	return open_or_create(path, O_RDWR, fd, err);
}

int kedge__fs_open_log(const char *path, bool create, int *fd, struct kedge__error *err)
{
	int failed;

	if (create)
		return open_or_create(path, O_RDWR | O_APPEND, fd, err);
	failed = open_regular(path, O_RDWR | O_APPEND, fd);
	return failed ? open_failed(err, failed, path) : 0;
}

int kedge__fs_open_dir(const char *path, int *fd, struct kedge__error *err)
{
	int opened;

	if (kedge__fault_read())
		return fail(err, EIO, "open directory", path);
	opened = open_retry(path, O_PATH | O_DIRECTORY, 0);
	if (opened < 0)
		return fail(err, errno, "open directory", path);
	*fd = opened;
	return 0;
}

int kedge__fs_absolute(const char *path, char **out, struct kedge__error *err)
{
	char *here = path[0] == '/' ? NULL : getcwd(NULL, 0);
	char *whole;

	if (path[0] != '/' && !here)
		return fail(err, errno, "find the current directory, which is needed for", path);
	whole = here ? kedge__asprintf("%s/%s", strcmp(here, "/") == 0 ? "" : here, path) : kedge__strdup(path);
	free(here);
	if (!whole)
		return kedge__error_nomem(err);
	*out = whole;
	return 0;
}

/* ------------------------------------------------------------------ past the page cache */

bool kedge__fs_is_direct(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	return flags >= 0 && flags & O_DIRECT;
}

static void say_refused(const char *path)
{
	static atomic_flag said = ATOMIC_FLAG_INIT;

	if (!atomic_flag_test_and_set(&said))
		kedge__log(KEDGE_LOG_NOTICE,
			   "the file system of %s does not support direct writes; writing through the page cache",
			   path);
}

void kedge__fs_direct_refused(int fd, const char *path)
{
	(void)kedge__fs_direct(fd, false, path);
	say_refused(path);
}

bool kedge__fs_direct(int fd, bool on, const char *path)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags >= 0 && fcntl(fd, F_SETFL, on ? flags | O_DIRECT : flags & ~O_DIRECT) == 0)
		return true;
	if (on)
		say_refused(path);
	return false;
}

/* ------------------------------------------------------------------ pieces */

static size_t vector_bytes(const struct iovec *at, size_t n)
{
	size_t bytes = 0;

	for (size_t i = 0; i < n; i++)
		bytes += at[i].iov_len;
	return bytes;
}

/* *TO and *N without the first BYTES bytes, and without pieces that have none. */
static void vector_skip(struct iovec **to, size_t *n, size_t bytes)
{
	while (*n && bytes >= (*to)->iov_len) {
		bytes -= (*to)->iov_len;
		++*to;
		--*n;
	}
	if (*n) {
		(*to)->iov_base = (char *)(*to)->iov_base + bytes;
		(*to)->iov_len -= bytes;
	}
}

/* ------------------------------------------------------------------ write */

/* AT of NO_OFFSET: at the position of the descriptor. */
#define NO_OFFSET UINT64_MAX

/* The first BYTES bytes of N pieces. */
static ssize_t write_once(int fd, const struct iovec *from, size_t n, size_t bytes, uint64_t at)
{
	struct iovec part[KEDGE__FS_PIECES];
	ssize_t done;

	for (size_t i = 0; i < n; i++) {
		part[i] = (struct iovec){from[i].iov_base, KEDGE__MIN(from[i].iov_len, bytes)};
		bytes -= part[i].iov_len;
	}
	do
		done = at == NO_OFFSET ? writev(fd, part, (int)n) : pwritev(fd, part, (int)n, (off_t)at);
	while (done < 0 && errno == EINTR);
	return done;
}

size_t kedge__fs_fault_part(bool direct, size_t bytes, size_t part)
{
	if (!direct)
		return part;
	return KEDGE__MIN(KEDGE__MAX(part / KEDGE__FS_DIRECT * KEDGE__FS_DIRECT, KEDGE__FS_DIRECT), bytes);
}

/* One write call of all of N pieces, BYTES together, and its fault point. */
static ssize_t write_faulty(int fd, const struct iovec *from, size_t n, size_t bytes, uint64_t at)
{
	switch (kedge__fault_point()) {
	case KEDGE__FAULT_EIO:
		errno = EIO;
		return -1;
	case KEDGE__FAULT_ENOSPC:
		errno = ENOSPC;
		return -1;
	case KEDGE__FAULT_CUT:
		(void)!write_once(fd, from, n, kedge__fs_fault_part(kedge__fs_is_direct(fd), bytes, bytes / 2), at);
		kedge__fault_die();
		break;
	case KEDGE__FAULT_SHORT:
		return write_once(fd, from, n, kedge__fs_fault_part(kedge__fs_is_direct(fd), bytes, 1), at);
	case KEDGE__FAULT_NONE:
		break;
	}
	return write_once(fd, from, n, bytes, at);
}

static int write_all(int fd, struct iovec *from, size_t n, uint64_t at, const char *path, struct kedge__error *err)
{
	size_t bytes = vector_bytes(from, n);

	while (bytes) {
		ssize_t done = write_faulty(fd, from, n, bytes, at);

		if (done < 0 && errno == EINVAL && kedge__fs_is_direct(fd)) {
			kedge__fs_direct_refused(fd, path);
			continue;
		}
		/* A write that takes nothing and names no reason: going on could go on for ever. */
		if (done <= 0)
			return fail(err, done < 0 ? errno : EIO, "write", path);
		vector_skip(&from, &n, (size_t)done);
		bytes -= (size_t)done;
		if (at != NO_OFFSET)
			at += (uint64_t)done;
	}
	return 0;
}

int kedge__fs_write(int fd, const void *data, size_t bytes, const char *path, struct kedge__error *err)
{
	struct iovec from = {(void *)(uintptr_t)data, bytes};

	return write_all(fd, &from, 1, NO_OFFSET, path, err);
}

static bool fits_off_t(uint64_t at, uint64_t bytes)
{
	return at <= INT64_MAX && bytes <= INT64_MAX - at;
}

int kedge__fs_pwrite(int fd, const void *data, size_t bytes, uint64_t at, const char *path, struct kedge__error *err)
{
	const struct iovec piece = {(void *)(uintptr_t)data, bytes};

	return kedge__fs_pwrite_pieces(fd, &piece, 1, at, path, err);
}

int kedge__fs_pwrite_pieces(int fd, const struct iovec *pieces, size_t count, uint64_t at, const char *path,
			    struct kedge__error *err)
{
	struct iovec from[KEDGE__FS_PIECES];

	memcpy(from, pieces, count * sizeof(*pieces));
	if (!fits_off_t(at, vector_bytes(from, count)))
		return fail(err, EFBIG, "write", path);
	return write_all(fd, from, count, at, path, err);
}

static int append_text(const char *path, const char *text, struct kedge__error *err)
{
	int fd, rc;

	rc = open_or_create(path, O_WRONLY | O_APPEND, &fd, err);
	if (rc)
		return rc;
	rc = kedge__fs_write(fd, text, strlen(text), path, err);
	/* Not synced here, so an error of the file system may show only now. */
	if (close(fd) != 0 && errno != EINTR && rc == 0)
		rc = fail(err, errno, "write", path);
	return rc;
}

int kedge__fs_append_line(const char *path, const char *line, struct kedge__error *err)
{
	size_t length = strlen(line);
	char *text;
	int rc;

	if (length && line[length - 1] == '\n')
		return append_text(path, line, err);
	text = kedge__asprintf("%s\n", line);
	if (!text)
		return kedge__error_nomem(err);
	rc = append_text(path, text, err);
	kedge__free(text);
	return rc;
}

int kedge__fs_pread(int fd, void *data, size_t bytes, uint64_t at, const char *path, struct kedge__error *err)
{
	struct iovec to = {data, bytes};

	return kedge__fs_preadv(fd, &to, 1, at, path, err);
}

int kedge__fs_preadv(int fd, struct iovec *to, size_t n, uint64_t at, const char *path, struct kedge__error *err)
{
	size_t bytes = vector_bytes(to, n);

	vector_skip(&to, &n, 0);
	if (n && kedge__fault_read())
		return fail(err, EIO, "read", path);
	while (n) {
		ssize_t got =
		    fits_off_t(at, bytes) ? preadv(fd, to, (int)KEDGE__MIN(n, (size_t)IOV_MAX), (off_t)at) : 0;

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return fail(err, errno, "read", path);
		if (got == 0)
			return kedge__error_set(err, KEDGE_E_DAMAGED, 0,
						"%s is cut short: %zu more bytes expected at %llu", path, bytes,
						(unsigned long long)at);
		vector_skip(&to, &n, (size_t)got);
		bytes -= (size_t)got;
		at += (uint64_t)got;
	}
	return 0;
}

int kedge__fs_open_direct(const char *path, int *fd, struct kedge__error *err)
{
	int failed = open_regular(path, O_RDONLY | O_DIRECT, fd);

	return failed ? open_failed(err, failed, path) : 0;
}

/* As in linux/mman.h, which may be older than the kernel. */
struct cache_range {
	uint64_t at, bytes;
};

struct cache_pages {
	uint64_t cached, dirty, writeback, evicted, recently_evicted;
};

#ifndef SYS_cachestat
#define SYS_cachestat 451
#endif

/* How many pages the page cache has of those that these bytes are in; -1: the kernel cannot tell. */
static int64_t pages_cached(int fd, uint64_t at, uint64_t bytes)
{
	struct cache_range range = {at, bytes};
	struct cache_pages pages;

	return syscall(SYS_cachestat, fd, &range, &pages, 0) == 0 ? (int64_t)pages.cached : -1;
}

bool kedge__fs_cached(int fd, uint64_t at, uint64_t bytes)
{
	int64_t cached = pages_cached(fd, at, bytes);

	return cached < 0 || (uint64_t)cached >= bytes / (uint64_t)sysconf(_SC_PAGESIZE) / 2;
}

/* The page cache is all that there is of its files. What was swapped out comes back as it is read. */
static bool is_memory(int fd)
{
	struct statfs fs;

	return fstatfs(fd, &fs) == 0 && (fs.f_type == TMPFS_MAGIC || fs.f_type == RAMFS_MAGIC);
}

bool kedge__fs_cached_all(int fd, uint64_t at, uint64_t bytes)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	int64_t cached;

	if (is_memory(fd))
		return true;
	cached = pages_cached(fd, at, bytes);
	return cached >= 0 && bytes && (uint64_t)cached > (at + bytes - 1) / page - at / page;
}

void kedge__fs_expect(int fd, uint64_t at, uint64_t bytes)
{
	if (fits_off_t(at, bytes))
		(void)posix_fadvise(fd, (off_t)at, (off_t)bytes, POSIX_FADV_WILLNEED);
}

int kedge__fs_size(int fd, uint64_t *bytes, const char *path, struct kedge__error *err)
{
	struct stat st;

	if (kedge__fault_read())
		return fail(err, EIO, "examine", path);
	if (fstat(fd, &st) != 0)
		return fail(err, errno, "examine", path);
	*bytes = (uint64_t)st.st_size;
	return 0;
}

int kedge__fs_truncate(int fd, uint64_t bytes, const char *path, struct kedge__error *err)
{
	int fault = fits_off_t(bytes, 0) ? fault_errno() : EFBIG;
	int rc;

	if (fault)
		return fail(err, fault, "truncate", path);
	do
		rc = ftruncate(fd, (off_t)bytes);
	while (rc != 0 && errno == EINTR);
	return rc == 0 ? 0 : fail(err, errno, "truncate", path);
}

int kedge__fs_allocate(int fd, uint64_t bytes, const char *path, struct kedge__error *err)
{
	int fault = fits_off_t(bytes, 0) ? fault_errno() : EFBIG;
	int rc;

	if (fault)
		return fail(err, fault, "allocate", path);
	do
		rc = bytes ? fallocate(fd, 0, 0, (off_t)bytes) : 0;
	while (rc != 0 && errno == EINTR);
	/* Not posix_fallocate(): where the file system cannot, that one writes every block. */
	if (rc == 0 || (errno != EOPNOTSUPP && errno != EINVAL && errno != ENOSYS))
		return rc == 0 ? 0 : fail(err, errno, "allocate", path);
	do
		rc = ftruncate(fd, (off_t)bytes);
	while (rc != 0 && errno == EINTR);
	return rc == 0 ? 0 : fail(err, errno, "allocate", path);
}

int kedge__fs_allocate_at(int fd, uint64_t at, uint64_t bytes, const char *path, struct kedge__error *err)
{
	int fault = fits_off_t(at, bytes) ? fault_errno() : EFBIG;

	if (!fault && bytes && fallocate(fd, FALLOC_FL_KEEP_SIZE, (off_t)at, (off_t)bytes) != 0)
		fault = errno;
	if (fault == EOPNOTSUPP || fault == EINVAL || fault == ENOSYS || fault == EINTR)
		return 0;
	return fault ? fail(err, fault, "allocate", path) : 0;
}

void kedge__fs_punch(int fd, uint64_t at, uint64_t bytes)
{
	if (bytes && fits_off_t(at, bytes))
		(void)fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)at, (off_t)bytes);
}

/* Only EINTR is tried again: after any other error the kernel may have dropped the dirty pages. */
static int sync_retry(int fd)
{
	int rc;

	do
		rc = fsync(fd);
	while (rc != 0 && errno == EINTR);
	return rc;
}

void kedge__fs_hasten(int fd, uint64_t at, uint64_t bytes)
{
	if (fits_off_t(at, bytes))
		(void)sync_file_range(fd, (off64_t)at, (off64_t)bytes, SYNC_FILE_RANGE_WRITE);
}

int kedge__fs_sync(int fd, const char *path, struct kedge__error *err)
{
	int fault = fault_errno();

	if (fault)
		return fail(err, fault, "sync", path);
	return sync_retry(fd) == 0 ? 0 : fail(err, errno, "sync", path);
}

int kedge__fs_sync_dir(const char *path, struct kedge__error *err)
{
	int fault = fault_errno();
	int fd, rc, sys_errno;

	if (fault)
		return fail(err, fault, "sync directory", path);
	fd = open_retry(path, O_RDONLY | O_DIRECTORY, 0);
	if (fd < 0)
		return fail(err, errno, "open directory", path);
	rc = sync_retry(fd);
	sys_errno = errno;
	kedge__fs_close(fd);
	/* EINVAL: a file system that keeps its directories in order by itself and has no such call. */
	if (rc != 0 && sys_errno != EINVAL)
		return fail(err, sys_errno, "sync directory", path);
	return 0;
}

int kedge__fs_rename(const char *from, const char *to, struct kedge__error *err)
{
	int fault = fault_errno();

	if (!fault && rename(from, to) != 0)
		fault = errno;
	if (fault)
		return kedge__error_set(err, kedge__error_from_errno(fault), fault, "cannot rename %s to %s", from, to);
	return 0;
}

int kedge__fs_touch(const char *path, struct kedge__error *err)
{
	int fault = fault_errno();

	if (!fault && utimensat(AT_FDCWD, path, NULL, AT_SYMLINK_NOFOLLOW) != 0)
		fault = errno;
	return fault ? fail(err, fault, "set the times of", path) : 0;
}

int kedge__fs_unlink(const char *path, struct kedge__error *err)
{
	int fault = fault_errno();

	if (!fault && unlink(path) != 0)
		fault = errno;
	return fault && fault != ENOENT ? fail(err, fault, "remove", path) : 0;
}

int kedge__fs_rmdir(const char *path, struct kedge__error *err)
{
	int fault = fault_errno();

	if (!fault && rmdir(path) != 0)
		fault = errno;
	if (fault == ENOENT || fault == ENOTEMPTY || fault == EEXIST)
		return 0;
	return fault ? fail(err, fault, "remove directory", path) : 0;
}

static bool is_directory(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* The directory that holds the last component of PATH, which has LENGTH bytes and no slash at its end. */
static char *parent_of(const char *path, size_t length)
{
	while (length && path[length - 1] != '/')
		length--;
	if (!length)
		return kedge__strdup(".");
	while (length > 1 && path[length - 1] == '/')
		length--;
	return kedge__asprintf("%.*s", (int)length, path);
}

/* Between two calls another process may create PATH, and remove it again: then try once more. A name that is there and
 * is not a directory stays as it is. */
static int make_directory(const char *path)
{
	int fault = fault_errno();

	while (!fault && mkdir(path, DIRECTORY_MODE) != 0) {
		struct stat st;

		fault = errno;
		if (fault != EEXIST)
			break;
		if (lstat(path, &st) == 0)
			return S_ISDIR(st.st_mode) || (S_ISLNK(st.st_mode) && is_directory(path)) ? 0 : EEXIST;
		fault = errno == ENOENT ? 0 : errno;
	}
	return fault;
}

int kedge__fs_mkdir(const char *path, struct kedge__error *err)
{
	char *parent;
	int fault, rc;

	if (is_directory(path))
		return 0;
	/* If another process was faster, it may not have synced it yet. */
	fault = make_directory(path);
	if (fault == EEXIST)
		return kedge__error_set(err, KEDGE_E_IO, 0, "%s is a file, not a directory", path);
	if (fault)
		return fail(err, fault, "create directory", path);
	parent = parent_of(path, strlen(path));
	if (!parent)
		return kedge__error_nomem(err);
	rc = kedge__fs_sync_dir(parent, err);
	kedge__free(parent);
	return rc;
}

int kedge__fs_mkdirs(const char *path, struct kedge__error *err)
{
	size_t at = 0;
	char *copy;
	int rc = 0;

	if (!*path)
		return fail(err, ENOENT, "create directory", "\"\"");
	copy = kedge__strdup(path);
	if (!copy)
		return kedge__error_nomem(err);
	while (rc == 0 && path[at]) {
		at += strspn(path + at, "/");
		at += strcspn(path + at, "/");
		copy[at] = '\0';
		rc = kedge__fs_mkdir(copy, err);
		copy[at] = path[at];
		if (!path[at + strspn(path + at, "/")])
			break;
	}
	kedge__free(copy);
	return rc;
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

typedef KEDGE__ARRAY(char *) name_array;

static int push_name(void *ctx, const char *name, struct kedge__error *err)
{
	name_array *names = ctx;
	char *copy = kedge__strdup(name);

	if (!copy || !kedge__array_push(names, copy)) {
		kedge__free(copy);
		return kedge__error_nomem(err);
	}
	return 0;
}

int kedge__fs_each(const char *dir, int (*each)(void *ctx, const char *name, struct kedge__error *err), void *ctx,
		   struct kedge__error *err)
{
	const struct dirent *entry;
	DIR *stream;
	int rc = 0;

	if (kedge__fault_read())
		return fail(err, EIO, "list", dir);
	stream = opendir(dir);
	if (!stream)
		return fail(err, errno, "list", dir);
	while (!rc) {
		errno = 0;
		entry = readdir(stream);
		if (!entry) {
			rc = errno ? fail(err, errno, "list", dir) : 0;
			break;
		}
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			rc = each(ctx, entry->d_name, err);
	}
	closedir(stream);
	return rc;
}

int kedge__fs_list(const char *dir, char ***names, size_t *count, struct kedge__error *err)
{
	name_array list = {0};
	int rc = kedge__fs_each(dir, push_name, &list, err);

	if (rc) {
		kedge__fs_list_free(list.at, list.count);
		return rc;
	}
	if (list.count)
		qsort(list.at, list.count, sizeof(*list.at), compare_names);
	*names = list.at;
	*count = list.count;
	return 0;
}

void kedge__fs_list_free(char **names, size_t count)
{
	for (size_t i = 0; i < count; i++)
		kedge__free(names[i]);
	kedge__free(names);
}

bool kedge__fs_exists(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0;
}

bool kedge__fs_is_file(const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0 && S_ISREG(st.st_mode);
}

void kedge__fs_close(int fd)
{
	if (fd >= 0)
		(void)close(fd);
}

/* ------------------------------------------------------------------ what files are beside their bytes */

/* RC of a call that failed, or a fault. */
static int result(int fault, int rc, const char *what, const char *path, struct kedge__error *err)
{
	if (!fault && rc != 0)
		fault = errno;
	return fault ? fail(err, fault, what, path) : 0;
}

int kedge__fs_sync_all(const char *path, struct kedge__error *err)
{
	int fault = fault_errno(), fd = fault ? -1 : open(path, O_RDONLY | O_CLOEXEC | O_DIRECTORY), rc;

	if (!fault && fd < 0)
		fault = errno;
	rc = fault ? -1 : syncfs(fd);
	if (!fault && rc != 0)
		fault = errno;
	kedge__fs_close(fd);
	return fault ? fail(err, fault, "sync", path) : 0;
}

int kedge__fs_make_dir(const char *path, struct kedge__error *err)
{
	int fault = make_directory(path);

	return fault ? fail(err, fault, "create directory", path) : 0;
}

int kedge__fs_symlink(const char *target, const char *path, struct kedge__error *err)
{
	int fault = fault_errno();

	return result(fault, fault ? 0 : symlink(target, path), "create the link", path, err);
}

int kedge__fs_link(const char *from, const char *to, struct kedge__error *err)
{
	int fault = fault_errno();

	return result(fault, fault ? 0 : linkat(AT_FDCWD, from, AT_FDCWD, to, 0), "create the link", to, err);
}

int kedge__fs_make_node(const char *path, unsigned mode, uint64_t device, struct kedge__error *err)
{
	int fault = fault_errno();

	return result(fault, fault ? 0 : mknod(path, (mode_t)mode, (dev_t)device), "create", path, err);
}

int kedge__fs_set_owner(int fd, const char *path, uint32_t uid, uint32_t gid, struct kedge__error *err)
{
	int fault = fault_errno();

	if (!fault && (fd < 0 ? lchown(path, uid, gid) : fchown(fd, uid, gid)) != 0)
		fault = errno;
	return result(fault, 0, "set the owner of", path, err);
}

int kedge__fs_set_mtime(int fd, const char *path, int64_t ns, struct kedge__error *err)
{
	int64_t part = ns % 1000000000;
	struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_nsec = part < 0 ? part + 1000000000 : part}};
	int fault = fault_errno();

	times[1].tv_sec = (time_t)((ns - times[1].tv_nsec) / 1000000000);
	if (!fault && (fd < 0 ? utimensat(AT_FDCWD, path, times, AT_SYMLINK_NOFOLLOW) : futimens(fd, times)) != 0)
		fault = errno;
	return result(fault, 0, "set the time of", path, err);
}

int kedge__fs_set_xattr(const char *path, const char *name, const void *value, size_t bytes, struct kedge__error *err)
{
	int fault = fault_errno();

	return result(fault, fault ? 0 : lsetxattr(path, name, value, bytes, 0), "set an attribute of", path, err);
}

int kedge__fs_set_path_mode(const char *path, unsigned mode, struct kedge__error *err)
{
	int fault = fault_errno();

	return result(fault, fault ? 0 : chmod(path, (mode_t)mode), "set the permissions of", path, err);
}

int kedge__fs_replace(const char *path, const void *data, size_t bytes, bool open, struct kedge__error *err)
{
	char *tmp = kedge__asprintf("%s.tmp", path);
	int fd, rc = tmp ? kedge__fs_unlink(tmp, err) : kedge__error_nomem(err);

	if (!rc)
		rc = open ? kedge__fs_create_public(tmp, &fd, err) : kedge__fs_create(tmp, &fd, err);
	if (rc)
		goto free_name;
	rc = kedge__fs_write(fd, data, bytes, tmp, err);
	kedge__fs_close(fd);
	if (!rc)
		rc = kedge__fs_rename(tmp, path, err);
	if (rc)
		(void)kedge__fs_unlink(tmp, NULL);
free_name:
	kedge__free(tmp);
	return rc;
}
