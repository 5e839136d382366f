/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Regions that are files. A file need not be open all the time: it is opened when it is read, and is the right one if
 * it is the same inode. Where it was written to, the check of what is stored finds that (live.c).
 */
#include "capture/capture.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static const uint8_t zeros[KEDGE__WINDOW_BYTES];

static int replaced(const struct kedge__region_file *file, struct kedge__error *err)
{
	return kedge__error_set(err, KEDGE_E_STATE, 0, "file %s was removed or replaced while it was saved",
				file->path);
}

/* Without O_NONBLOCK a FIFO that took its place would wait for a writer. */
static int file_open(const struct kedge__region_file *file, int *fd, struct kedge__error *err)
{
	struct stat st;
	int opened = open(file->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY);

	if (opened < 0 && (errno == ENOENT || errno == ENOTDIR || errno == ELOOP))
		return replaced(file, err);
	if (opened < 0)
		return kedge__error_set(err, KEDGE_E_IO, errno, "cannot open %s", file->path);
	if (fstat(opened, &st) != 0 || st.st_dev != file->device || st.st_ino != file->inode) {
		kedge__fs_close(opened);
		return replaced(file, err);
	}
	*fd = opened;
	return 0;
}

static int read_from(int fd, const struct kedge__region_file *file, uint64_t offset, void *buffer, size_t bytes,
		     struct kedge__error *err)
{
	int rc = kedge__fs_pread(fd, buffer, bytes, offset, file->path, err);

	if (rc != KEDGE_E_DAMAGED)
		return rc;
	return kedge__error_set(err, KEDGE_E_STATE, 0,
				"file %s was cut short while it was saved: it must not be changed before "
				"kedge_checkpoint() returns",
				file->path);
}

void kedge__region_file_keep(struct kedge__region_file *file)
{
	if (file->opened && file_open(file, &file->fd, NULL) == 0) {
		file->opened = false;
		file->kept = true;
	}
}

void kedge__region_file_leave(struct kedge__region_file *file)
{
	if (file->kept)
		kedge__fs_close(file->fd);
	file->kept = false;
}

int kedge__region_file_read(const struct kedge__region_file *file, uint64_t offset, void *buffer, size_t bytes,
			    struct kedge__error *err)
{
	int fd = file->fd, rc = file->opened ? file_open(file, &fd, err) : 0;

	if (!rc)
		rc = read_from(fd, file, offset, buffer, bytes, err);
	if (file->opened)
		kedge__fs_close(fd);
	return rc;
}

/* Whether nothing but a hole is there; a file system that does not know says no. */
static bool is_hole(int fd, uint64_t offset, uint64_t bytes)
{
	struct stat st;
	off_t data;

	if (bytes < KEDGE__WINDOW_BYTES && offset == 0)
		return false; /* small: to read it costs as little as to ask */
	data = lseek(fd, (off_t)offset, SEEK_DATA);
	if (data >= 0)
		return (uint64_t)data >= offset + bytes;
	return errno == ENXIO && fstat(fd, &st) == 0 && (uint64_t)st.st_size >= offset + bytes;
}

static void window_close(struct kedge__file_window *w)
{
	if (w->file && w->file->opened)
		kedge__fs_close(w->fd);
	w->file = NULL;
	w->bytes = 0;
}

static int window_move(struct kedge__file_window *w, const struct kedge__region_file *file, struct kedge__error *err)
{
	int fd = file->fd, rc = 0;

	if (w->file == file)
		return 0;
	window_close(w);
	if (!w->buffer)
		w->buffer = kedge__malloc(KEDGE__WINDOW_BYTES);
	if (!w->buffer)
		return kedge__error_nomem(err);
	if (file->opened)
		rc = file_open(file, &fd, err);
	if (rc)
		return rc;
	w->file = file;
	w->fd = fd;
	return 0;
}

/* Windows begin at multiples of their size, or, where that is not enough, at OFFSET. */
static int window_fill(struct kedge__file_window *w, uint64_t total, uint64_t offset, size_t bytes,
		       struct kedge__error *err)
{
	uint64_t from = offset / KEDGE__WINDOW_BYTES * KEDGE__WINDOW_BYTES;
	int rc = 0;

	if (offset + bytes > from + KEDGE__WINDOW_BYTES)
		from = offset;
	w->bytes = 0;
	w->offset = from;
	w->hole = is_hole(w->fd, from, KEDGE__MIN(KEDGE__WINDOW_BYTES, total - from));
	if (!w->hole)
		rc = read_from(w->fd, w->file, from, w->buffer, (size_t)KEDGE__MIN(KEDGE__WINDOW_BYTES, total - from),
			       err);
	if (!rc)
		w->bytes = KEDGE__MIN(KEDGE__WINDOW_BYTES, total - from);
	return rc;
}

const void *kedge__file_window_get(struct kedge__file_window *w, const struct kedge__region_file *file, uint64_t total,
				   uint64_t offset, void *buffer, size_t bytes, struct kedge__error *err)
{
	int rc = window_move(w, file, err);

	if (!rc && (offset < w->offset || offset + bytes > w->offset + w->bytes))
		rc = window_fill(w, total, offset, bytes, err);
	if (rc)
		return NULL;
	if (w->hole)
		return zeros;
	memcpy(buffer, w->buffer + (offset - w->offset), bytes);
	return buffer;
}

void kedge__file_window_done(struct kedge__file_window *w)
{
	window_close(w);
	kedge__free(w->buffer);
	*w = (struct kedge__file_window){0};
}
