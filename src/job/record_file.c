/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The record file: the reducer's memory, kept beside the store from one process to the next. It is a cache, not part of
 * the store: it is never synced, and not used unless store, job, rank, the last version and the image of every version
 * that it refers to match (prime.c). The reducer's bytes come first, the tie and the checksum last, so that it can be
 * written as a stream.
 */
#include "job/handle.h"

#define MAGIC       UINT64_C(0x3230434552474b45) /* "EKGREC02" */
#define TAIL_BYTES  96
#define TAIL_SUM    72 /* where the checksum of the body is in it */
#define PIECE_BYTES ((size_t)1 << 20)

struct stream {
	int fd;
	const char *path;
	uint8_t *piece;
	size_t used;
	uint64_t sum, bytes;
};

/* Checksums of pieces are chained: the whole need not be in memory at once. */
static uint64_t chain(uint64_t sum, const void *data, size_t bytes)
{
	uint64_t link[2] = {sum, kedge__checksum(data, bytes)};

	return kedge__checksum(link, sizeof(link));
}

static int stream_flush(struct stream *s, struct kedge__error *err)
{
	int rc = s->used ? kedge__fs_write(s->fd, s->piece, s->used, s->path, err) : 0;

	if (!rc && s->used)
		s->sum = chain(s->sum, s->piece, s->used);
	s->bytes += s->used;
	s->used = 0;
	return rc;
}

static int stream_write(void *ctx, const void *data, size_t bytes, struct kedge__error *err)
{
	struct stream *s = ctx;
	const uint8_t *from = data;
	int rc = 0;

	while (bytes && !rc) {
		size_t n = KEDGE__MIN(bytes, PIECE_BYTES - s->used);

		memcpy(s->piece + s->used, from, n);
		s->used += n;
		from += n;
		bytes -= n;
		if (s->used == PIECE_BYTES)
			rc = stream_flush(s, err);
	}
	return rc;
}

static void tail_encode(const struct kedge__record_tie *tie, uint64_t bytes, uint64_t sum, uint8_t out[TAIL_BYTES])
{
	memcpy(out, tie->store.at, 16);
	kedge__put64(out + 16, tie->name.lo);
	kedge__put64(out + 24, tie->name.hi);
	kedge__put64(out + 32, tie->last.version);
	kedge__put64(out + 40, tie->last.id.lo);
	kedge__put64(out + 48, tie->last.id.hi);
	kedge__put32(out + 56, tie->rank);
	kedge__put32(out + 60, tie->ranks);
	kedge__put64(out + 64, bytes);
	kedge__put64(out + TAIL_SUM, sum);
	kedge__put64(out + 80, MAGIC);
	kedge__put64(out + 88, kedge__checksum(out, 88));
}

static int file_write(const char *tmp, const struct kedge__record_tie *tie, const struct kedge__reducer *r,
		      struct kedge__error *err)
{
	struct stream s = {.path = tmp, .piece = kedge__malloc(PIECE_BYTES)};
	uint8_t tail[TAIL_BYTES];
	int rc = s.piece ? kedge__fs_create(tmp, &s.fd, err) : kedge__error_nomem(err);

	if (rc) {
		kedge__free(s.piece);
		return rc;
	}
	rc = kedge__reducer_save(r, stream_write, &s, err);
	if (!rc)
		rc = stream_flush(&s, err);
	tail_encode(tie, s.bytes, s.sum, tail);
	if (!rc)
		rc = kedge__fs_write(s.fd, tail, sizeof(tail), tmp, err);
	kedge__fs_close(s.fd);
	kedge__free(s.piece);
	return rc;
}

int kedge__record_file_save(const char *path, const struct kedge__record_tie *tie, const struct kedge__reducer *r,
			    struct kedge__error *err)
{
	char *tmp = kedge__asprintf("%s.tmp", path);
	int rc;

	if (!tmp)
		return kedge__error_nomem(err);
	rc = kedge__fs_unlink(tmp, err);
	if (!rc)
		rc = file_write(tmp, tie, r, err);
	if (!rc)
		rc = kedge__fs_rename(tmp, path, err);
	if (rc)
		(void)kedge__fs_unlink(tmp, NULL);
	kedge__free(tmp);
	return rc;
}

static int not_ours(const char *path, struct kedge__error *err)
{
	return kedge__error_set(err, KEDGE_E_NOTFOUND, 0, "%s is not the record of this version", path);
}

static int body_load(const uint8_t *data, uint64_t bytes, uint64_t sum, const char *path, struct kedge__reducer *r,
		     struct kedge__error *err)
{
	uint64_t have = 0;

	for (uint64_t at = 0; at < bytes; at += PIECE_BYTES)
		have = chain(have, data + at, (size_t)KEDGE__MIN(PIECE_BYTES, bytes - at));
	if (have != sum)
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "%s does not match its checksum", path);
	return kedge__reducer_load(r, data, (size_t)bytes, err);
}

/* The last version is one of those that the reducer refers to: it must be the image that the file is tied to. */
static int parent_check(const char *path, const struct kedge__record_tie *tie, const struct kedge__reducer *r,
			struct kedge__error *err)
{
	if (kedge__reducer_parent(r) == tie->last.version && !kedge__reducer_contradicts(r, &tie->last, 1))
		return 0;
	return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "%s ends with another version than it says", path);
}

static int file_load(int fd, uint64_t size, const char *path, const struct kedge__record_tie *tie,
		     struct kedge__reducer *r, struct kedge__error *err)
{
	uint8_t tail[TAIL_BYTES], wanted[TAIL_BYTES];
	uint8_t *data;
	int rc;

	if (size < TAIL_BYTES)
		return not_ours(path, err);
	rc = kedge__fs_pread(fd, tail, TAIL_BYTES, size - TAIL_BYTES, path, err);
	if (rc)
		return rc;
	/* The tie fixes all of the tail but the checksum, which is taken over. */
	tail_encode(tie, size - TAIL_BYTES, kedge__get64(tail + TAIL_SUM), wanted);
	if (memcmp(tail, wanted, TAIL_BYTES) != 0)
		return not_ours(path, err);
	size -= TAIL_BYTES;
	data = kedge__map_alloc(size ? (size_t)size : 1);
	if (!data)
		return kedge__error_nomem(err);
	rc = kedge__fs_pread(fd, data, (size_t)size, 0, path, err);
	if (!rc)
		rc = body_load(data, size, kedge__get64(tail + TAIL_SUM), path, r, err);
	if (!rc)
		rc = parent_check(path, tie, r, err);
	kedge__map_free(data, size ? (size_t)size : 1);
	return rc;
}

int kedge__record_file_load(const char *path, const struct kedge__record_tie *tie, struct kedge__reducer *r,
			    struct kedge__error *err)
{
	uint64_t size;
	int fd, rc;

	if (!kedge__fs_exists(path))
		return kedge__error_set(err, KEDGE_E_NOTFOUND, 0, "%s is not there", path);
	rc = kedge__fs_open_read(path, &fd, err);
	if (rc)
		return rc;
	rc = kedge__fs_size(fd, &size, path, err);
	if (!rc)
		rc = file_load(fd, size, path, tie, r, err);
	kedge__fs_close(fd);
	return rc;
}
