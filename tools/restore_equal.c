/* SPDX-License-Identifier: BSD-3-Clause */
/* restore_equal: files whose data was unpacked when they were saved are packed again. */
#include "equal/equal.h"
#include "restore.h"
#include "tool_files.h"
#include <errno.h>

#define PIECE ((size_t)1 << 20)

struct memory {
	const uint8_t *at;
};

static int memory_read(void *ctx, uint64_t offset, void *to, size_t bytes, struct kedge__error *err)
{
	const struct memory *m = ctx;

	(void)err;
	memcpy(to, m->at + offset, bytes);
	return 0;
}

static int rebuild(const void *data, uint64_t bytes, int fd, const char *path, struct kedge__pool *pool, uint64_t *size,
		   struct kedge__error *err)
{
	struct memory m = {data};
	const struct kedge__contents region = {bytes, memory_read, &m};
	struct kedge__rebuilt rebuilt;
	int rc = kedge__plain_rebuild(&region, fd, path, pool, KEDGE__EFFORT_AS_WAS, &rebuilt, err);

	if (!rc)
		*size = rebuilt.bytes;
	return rc;
}

int kedge__output_rebuild(const struct kedge__output *out, struct kedge__pool *pool, struct kedge__error *err)
{
	struct kedge__plain_head head;
	uint64_t size;

	if (out->form == KEDGE__FILLED_ANY &&
	    !(out->bytes >= KEDGE__PLAIN_HEAD && kedge__plain_head_decode(out->data, out->bytes, &head)))
		return out->bytes ? kedge__fs_write(out->fd, out->data, out->bytes, out->temporary, err) : 0;
	return rebuild(out->data, out->bytes, out->fd, out->path, pool, &size, err);
}

int kedge__output_print(const void *data, uint64_t bytes, const char *name, struct kedge__pool *pool,
			struct kedge__error *err)
{
	uint8_t *buffer = kedge__malloc(PIECE);
	uint64_t size = 0;
	int fd = -1, rc = buffer ? kedge__temporary_file(&fd, err) : kedge__error_nomem(err);

	if (!rc)
		rc = rebuild(data, bytes, fd, name, pool, &size, err);
	for (uint64_t at = 0; !rc && at < size; at += PIECE) {
		size_t n = (size_t)KEDGE__MIN((uint64_t)PIECE, size - at);

		rc = kedge__fs_pread(fd, buffer, n, at, "a temporary file", err);
		if (!rc && fwrite(buffer, 1, n, stdout) != n)
			rc = kedge__error_set(err, KEDGE_E_IO, errno, "cannot write to standard output");
	}
	kedge__fs_close(fd);
	kedge__free(buffer);
	return rc;
}
