/* SPDX-License-Identifier: BSD-3-Clause */
/* bench_rex_files: increments in files of their own: as they are, as blocks with hashes, or through a compressor. */
#include "rex.h"

#include <errno.h>
#include <limits.h>
#include <sys/uio.h>
#include <zstd.h>

/* ---- files */

bool kedge__rex_there(void)
{
	return true;
}

int kedge__rex_nothing(struct kedge__rex_keeper *k, size_t step, const struct kedge__rex_increment *inc,
		       struct kedge__error *err)
{
	(void)k, (void)step, (void)inc, (void)err;
	return 0;
}

char *kedge__rex_path(const struct kedge__rex_keeper *k, const char *what, size_t step)
{
	char *path = kedge__asprintf("%s/%s.%zu", k->dir, what, step);

	if (!path)
		kedge__tool_no_memory();
	return path;
}

int kedge__rex_write(const char *path, const void *data, size_t bytes, struct kedge__error *err)
{
	int fd, rc = kedge__fs_unlink(path, err);

	if (rc == 0)
		rc = kedge__fs_create(path, &fd, err);
	if (rc)
		return rc;
	rc = kedge__fs_write(fd, data, bytes, path, err);
	kedge__fs_close(fd);
	return rc;
}

int kedge__rex_read(const char *path, struct kedge__bucket *bucket, uint8_t **data, size_t *bytes,
		    struct kedge__error *err)
{
	uint8_t *to = NULL;
	uint64_t size;
	int fd, rc = kedge__fs_open_read(path, &fd, err);

	if (rc)
		return rc;
	rc = kedge__fs_size(fd, &size, path, err);
	if (rc == 0) {
		kedge__bucket_take(bucket, (double)size);
		to = kedge__malloc(size);
		rc = to ? kedge__fs_pread(fd, to, size, 0, path, err) : kedge__error_nomem(err);
	}
	kedge__fs_close(fd);
	if (rc) {
		kedge__free(to);
		return rc;
	}
	*data = to;
	*bytes = size;
	return 0;
}

static int write_step(struct kedge__rex_keeper *k, size_t step, const void *data, size_t bytes,
		      struct kedge__error *err)
{
	char *path = kedge__rex_path(k, "increment", step);
	int rc = kedge__rex_write(path, data, bytes, err);

	kedge__free(path);
	return rc;
}

/* ---- plain increments: read straight to where the pages belong, as fast as it can be done */

int kedge__rex_plain_keep(struct kedge__rex_keeper *k, size_t step, const struct kedge__rex_increment *inc,
			  struct kedge__error *err)
{
	return write_step(k, step, inc->file, inc->bytes, err);
}

/* The same with a checksum of each page, behind the places. */
int kedge__rex_checked_keep(struct kedge__rex_keeper *k, size_t step, const struct kedge__rex_increment *inc,
			    struct kedge__error *err)
{
	size_t head = (inc->pages + 1) * 8, sums = inc->pages * 8;
	uint8_t *file = kedge__malloc(inc->bytes + sums);
	int rc;

	if (!file)
		return kedge__error_nomem(err);
	memcpy(file, inc->file, head);
	memcpy(file + head + sums, inc->file + head, inc->bytes - head);
	for (size_t i = 0; i < inc->pages; i++)
		kedge__put64(file + head + i * 8,
			     kedge__checksum(inc->file + head + i * KEDGE__PAGE_BYTES, KEDGE__PAGE_BYTES));
	rc = write_step(k, step, file, inc->bytes + sums, err);
	kedge__free(file);
	return rc;
}

enum { CHECKED_PAGES = 32 }; /* read and then checked: they are in the cache */

struct plain { /* one of these files */
	int fd;
	const char *path;
	struct kedge__bucket *bucket;
	uint64_t n, *places, *sums; /* sums: NULL if there are none */
};

/* As many of the pages from I on as one call takes, those that are neighbours as one piece; their number. */
static size_t gather(const struct plain *p, size_t i, uint8_t *image, struct iovec *to, int *pieces)
{
	size_t first = i, end = p->sums ? KEDGE__MIN(p->n, i + CHECKED_PAGES) : p->n;

	for (*pieces = 0; i < end; i++) {
		uint8_t *at = image + p->places[i] * KEDGE__PAGE_BYTES;

		if (*pieces && at == (uint8_t *)to[*pieces - 1].iov_base + to[*pieces - 1].iov_len)
			to[*pieces - 1].iov_len += KEDGE__PAGE_BYTES;
		else if (*pieces == IOV_MAX)
			break;
		else
			to[(*pieces)++] = (struct iovec){at, KEDGE__PAGE_BYTES};
	}
	return i - first;
}

static int check_pages(const struct plain *p, size_t first, size_t count, const uint8_t *image,
		       struct kedge__error *err)
{
	for (size_t i = first; p->sums && i < first + count; i++)
		if (kedge__checksum(image + p->places[i] * KEDGE__PAGE_BYTES, KEDGE__PAGE_BYTES) != p->sums[i])
			return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "%s: page %zu is damaged", p->path, i);
	return 0;
}

static int read_pages(const struct plain *p, uint8_t *image, struct kedge__error *err)
{
	off_t at = (off_t)((p->n * (p->sums ? 2 : 1) + 1) * 8);
	struct iovec to[IOV_MAX];
	int rc = 0;

	for (size_t i = 0, took; i < p->n && rc == 0; i += took) {
		int pieces;
		ssize_t got;

		took = gather(p, i, image, to, &pieces);
		kedge__bucket_take(p->bucket, (double)(took * KEDGE__PAGE_BYTES));
		got = preadv(p->fd, to, pieces, at);
		if (got != (ssize_t)(took * KEDGE__PAGE_BYTES))
			return kedge__error_set(err, KEDGE_E_IO, got < 0 ? errno : 0, "cannot read %s", p->path);
		at += got;
		rc = check_pages(p, i, took, image, err);
	}
	return rc;
}

static int plain_read(struct plain *p, size_t room, bool checked, uint8_t *image, struct kedge__error *err)
{
	size_t head;
	int rc;

	kedge__bucket_take(p->bucket, sizeof(p->n));
	rc = kedge__fs_pread(p->fd, &p->n, sizeof(p->n), 0, p->path, err);
	if (rc || p->n > room)
		return rc ? rc : kedge__error_set(err, KEDGE_E_DAMAGED, 0, "%s is no increment", p->path);
	head = p->n * (checked ? 2 : 1) * sizeof(*p->places);
	p->places = kedge__malloc(head + 1);
	if (!p->places)
		return kedge__error_nomem(err);
	p->sums = checked ? p->places + p->n : NULL;
	kedge__bucket_take(p->bucket, (double)head);
	rc = kedge__fs_pread(p->fd, p->places, head, sizeof(p->n), p->path, err);
	for (size_t i = 0; i < p->n && rc == 0; i++)
		if (p->places[i] >= room)
			rc = kedge__error_set(err, KEDGE_E_DAMAGED, 0, "%s has no place %zu", p->path, i);
	if (rc == 0)
		rc = read_pages(p, image, err);
	kedge__free(p->places);
	return rc;
}

static int plain_restore(struct kedge__rex_keeper *k, bool checked, uint8_t *image, struct kedge__error *err)
{
	int rc = 0;

	for (size_t step = 0; rc == 0 && step < k->series->steps; step++) {
		char *path = kedge__rex_path(k, "increment", step);
		struct plain p = {.path = path, .bucket = &k->reads};

		rc = kedge__fs_open_read(path, &p.fd, err);
		if (rc == 0) {
			rc = plain_read(&p, k->series->room, checked, image, err);
			kedge__fs_close(p.fd);
		}
		kedge__free(path);
	}
	return rc;
}

int kedge__rex_plain_restore(struct kedge__rex_keeper *k, uint8_t *image, struct kedge__error *err)
{
	return plain_restore(k, false, image, err);
}

int kedge__rex_checked_restore(struct kedge__rex_keeper *k, uint8_t *image, struct kedge__error *err)
{
	return plain_restore(k, true, image, err);
}

/* ---- blocks of 256 bytes, kept where their digest is another than before: their numbers, digests, and bytes */

enum { HASH_BLOCK = 256, HASH_BLOCKS = 4096 / HASH_BLOCK, HASH_RECORD = 4 + 16 + HASH_BLOCK };

int kedge__rex_hash_begin(struct kedge__rex_keeper *k, struct kedge__error *err)
{
	k->state = kedge__calloc(k->series->room * HASH_BLOCKS, sizeof(struct kedge__digest));
	return k->state ? 0 : kedge__error_nomem(err);
}

void kedge__rex_hash_end(struct kedge__rex_keeper *k)
{
	kedge__free(k->state);
}

static uint8_t *hash_page(struct kedge__digest *before, uint64_t place, const uint8_t *page, uint8_t *out)
{
	for (uint32_t b = 0; b < HASH_BLOCKS; b++) {
		struct kedge__digest d = kedge__seal(page + b * HASH_BLOCK, HASH_BLOCK);

		if (kedge__digest_equal(d, before[place * HASH_BLOCKS + b]))
			continue;
		before[place * HASH_BLOCKS + b] = d;
		kedge__put32(out, (uint32_t)(place * HASH_BLOCKS + b));
		memcpy(out + 4, &d, 16);
		memcpy(out + 20, page + b * HASH_BLOCK, HASH_BLOCK);
		out += HASH_RECORD;
	}
	return out;
}

int kedge__rex_hash_keep(struct kedge__rex_keeper *k, size_t step, const struct kedge__rex_increment *inc,
			 struct kedge__error *err)
{
	uint8_t *out = kedge__malloc(inc->pages * HASH_BLOCKS * HASH_RECORD + 1), *end = out;
	const uint8_t *places = inc->file + 8, *data = inc->file + (inc->pages + 1) * 8;
	int rc;

	if (!out)
		return kedge__error_nomem(err);
	for (size_t i = 0; i < inc->pages; i++)
		end = hash_page(k->state, kedge__get64(places + i * 8), data + i * KEDGE__PAGE_BYTES, end);
	rc = write_step(k, step, out, (size_t)(end - out), err);
	kedge__free(out);
	return rc;
}

static int hash_apply(const uint8_t *file, size_t bytes, uint8_t *image, size_t room, struct kedge__error *err)
{
	if (bytes % HASH_RECORD)
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "these are no blocks");
	for (const uint8_t *at = file; at < file + bytes; at += HASH_RECORD) {
		uint32_t block = kedge__get32(at);

		if (block / HASH_BLOCKS >= room)
			return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "there is no block %u", block);
		memcpy(image + (size_t)block * HASH_BLOCK, at + 20, HASH_BLOCK);
	}
	return 0;
}

/* ---- all files, each read as a whole and taken apart */

typedef int (*apply_fn)(const uint8_t *file, size_t bytes, uint8_t *image, size_t room, struct kedge__error *err);

static int apply_all(struct kedge__rex_keeper *k, apply_fn apply, uint8_t *image, struct kedge__error *err)
{
	int rc = 0;

	for (size_t step = 0; rc == 0 && step < k->series->steps; step++) {
		char *path = kedge__rex_path(k, "increment", step);
		uint8_t *file;
		size_t bytes;

		rc = kedge__rex_read(path, &k->reads, &file, &bytes, err);
		if (rc == 0) {
			rc = apply(file, bytes, image, k->series->room, err);
			kedge__free(file);
		}
		kedge__free(path);
	}
	return rc;
}

int kedge__rex_hash_restore(struct kedge__rex_keeper *k, uint8_t *image, struct kedge__error *err)
{
	return apply_all(k, hash_apply, image, err);
}

/* ---- general compressors: the increment as one piece, behind its size */

struct packer {
	const char *name;
	size_t (*room)(size_t bytes);
	int (*pack)(const void *raw, size_t bytes, void *out, size_t *used);
	int (*unpack)(const void *in, size_t bytes, void *raw, size_t *used);
};

static int packed_keep(struct kedge__rex_keeper *k, const struct packer *p, size_t step,
		       const struct kedge__rex_increment *inc, struct kedge__error *err)
{
	size_t used = p->room(inc->bytes);
	uint8_t *out = kedge__malloc(used + 8);
	int rc = out ? 0 : kedge__error_nomem(err);

	if (rc == 0 && p->pack(inc->file, inc->bytes, out + 8, &used) != 0)
		rc = kedge__error_set(err, KEDGE_E_CODEC, 0, "%s does not pack increment %zu", p->name, step);
	if (rc == 0) {
		kedge__put64(out, inc->bytes);
		rc = write_step(k, step, out, used + 8, err);
	}
	kedge__free(out);
	return rc;
}

static int packed_apply(const struct packer *p, const uint8_t *file, size_t bytes, uint8_t *image, size_t room,
			struct kedge__error *err)
{
	size_t raw_bytes = bytes >= 8 ? kedge__get64(file) : 0, used = raw_bytes;
	uint8_t *raw;
	int rc;

	if (raw_bytes < 8 || raw_bytes > 8 + room * (8 + KEDGE__PAGE_BYTES))
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "this is no increment");
	raw = kedge__malloc(raw_bytes);
	if (!raw)
		return kedge__error_nomem(err);
	if (p->unpack(file + 8, bytes - 8, raw, &used) != 0 || used != raw_bytes)
		rc = kedge__error_set(err, KEDGE_E_DAMAGED, 0, "%s does not unpack it", p->name);
	else
		rc = kedge__rex_increment_apply(raw, raw_bytes, image, room, err);
	kedge__free(raw);
	return rc;
}

static int zstd_pack(const void *raw, size_t bytes, void *out, size_t *used)
{
	*used = ZSTD_compress(out, *used, raw, bytes, 3);
	return ZSTD_isError(*used) ? -1 : 0;
}

static int zstd_unpack(const void *in, size_t bytes, void *raw, size_t *used)
{
	*used = ZSTD_decompress(raw, *used, in, bytes);
	return ZSTD_isError(*used) ? -1 : 0;
}

static const struct packer zstd_packer = {"zstd", ZSTD_compressBound, zstd_pack, zstd_unpack};

int kedge__rex_zstd_keep(struct kedge__rex_keeper *k, size_t step, const struct kedge__rex_increment *inc,
			 struct kedge__error *err)
{
	return packed_keep(k, &zstd_packer, step, inc, err);
}

static int zstd_apply(const uint8_t *file, size_t bytes, uint8_t *image, size_t room, struct kedge__error *err)
{
	return packed_apply(&zstd_packer, file, bytes, image, room, err);
}

int kedge__rex_zstd_restore(struct kedge__rex_keeper *k, uint8_t *image, struct kedge__error *err)
{
	return apply_all(k, zstd_apply, image, err);
}

/* What the library's manual asks for. */
static size_t bzip2_room(size_t bytes)
{
	return bytes + bytes / 100 + 600;
}

static const struct packer bzip2_packer = {"bzip2", bzip2_room, kedge__bzip2_pack, kedge__bzip2_unpack};

int kedge__rex_bzip2_keep(struct kedge__rex_keeper *k, size_t step, const struct kedge__rex_increment *inc,
			  struct kedge__error *err)
{
	return packed_keep(k, &bzip2_packer, step, inc, err);
}

static int bzip2_apply(const uint8_t *file, size_t bytes, uint8_t *image, size_t room, struct kedge__error *err)
{
	return packed_apply(&bzip2_packer, file, bytes, image, room, err);
}

int kedge__rex_bzip2_restore(struct kedge__rex_keeper *k, uint8_t *image, struct kedge__error *err)
{
	return apply_all(k, bzip2_apply, image, err);
}
