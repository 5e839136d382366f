#include "store/internal.h"

#include <errno.h>

#define STAGE_BYTES  (UINT64_C(1) << 20)   /* no more than rings hold: while it is written they have to fill the next */
#define DIRECT_BYTES (UINT64_C(256) << 10) /* an append of this size is written from where it is */
#define PIECE_BYTES  (UINT64_C(8) << 20)   /* one write call; what the bucket paces */

static int make_paths(struct kedge__segment_file *file, const struct kedge__catalog *cat, uint64_t version,
		      uint32_t rank, uint32_t generation, struct kedge__error *err)
{
	file->dir = kedge__catalog_version_path(cat, version);
	file->path = kedge__segment_path(cat, version, rank, generation);
	file->tmp = file->path ? kedge__asprintf("%s" KEDGE__TMP_SUFFIX, file->path) : NULL;
	return file->dir && file->tmp ? 0 : kedge__error_nomem(err);
}

/* Another rank that fails in this version removes the directory when it finds it empty, which it may be just now. */
static int create_in_dir(struct kedge__segment_file *file, struct kedge__error *err)
{
	struct kedge__error problem = KEDGE__ERROR_INIT;
	int rc = 0;

	for (int i = 0; i < 3; i++) {
		rc = kedge__fs_mkdirs(file->dir, &problem);
		if (!rc)
			rc = kedge__file_create_tmp(file->tmp, &file->fd, &problem);
		if (!rc || problem.sys_errno != ENOENT)
			break;
	}
	if (rc) {
		(void)kedge__fs_rmdir(file->dir, NULL);
		kedge__error_move(err, &problem);
	}
	kedge__error_done(&problem);
	return rc;
}

int kedge__segment_file_open(struct kedge__segment_file *file, struct kedge__catalog *cat, uint64_t version,
			     uint32_t rank, uint32_t generation, struct kedge__bucket *bucket, struct kedge__error *err)
{
	const struct kedge__catalog_entry *entry = kedge__catalog_find(cat, version);
	int rc;

	if (entry && !entry->problem.code && kedge__set_names(&entry->set, rank, generation))
		return kedge__error_set(err, KEDGE_E_STATE, 0,
					"version %" PRIu64 ", rank %" PRIu32 ", generation %" PRIu32
					" is published and cannot be written over",
					version, rank, generation);
	*file = (struct kedge__segment_file){.fd = -1, .bucket = bucket};
	file->stage = kedge__map_alloc(STAGE_BYTES);
	rc = file->stage ? make_paths(file, cat, version, rank, generation, err) : kedge__error_nomem(err);
	if (!rc)
		rc = create_in_dir(file, err);
	if (rc)
		kedge__segment_file_done(file);
	return rc;
}

static int write_out(struct kedge__segment_file *file, const uint8_t *data, size_t bytes, struct kedge__error *err)
{
	double start;
	int rc = 0;

	while (bytes && !rc) {
		size_t piece = KEDGE__MIN(bytes, PIECE_BYTES);

		if (file->bucket)
			kedge__bucket_take(file->bucket, (double)piece);
		start = kedge__clock_seconds();
		rc = kedge__fs_write(file->fd, data, piece, file->tmp, err);
		file->write_seconds += kedge__clock_seconds() - start;
		data += piece;
		bytes -= piece;
	}
	return rc;
}

int kedge__segment_file_flush(struct kedge__segment_file *file, struct kedge__error *err)
{
	size_t bytes = file->staged;

	file->staged = 0;
	return write_out(file, file->stage, bytes, err);
}

int kedge__segment_file_append(struct kedge__segment_file *file, const void *data, size_t bytes,
			       struct kedge__error *err)
{
	int rc;

	file->offset += bytes;
	if (bytes > STAGE_BYTES - file->staged || bytes >= DIRECT_BYTES) {
		rc = kedge__segment_file_flush(file, err);
		if (rc)
			return rc;
	}
	if (bytes >= DIRECT_BYTES)
		return write_out(file, data, bytes, err);
	if (bytes)
		memcpy(file->stage + file->staged, data, bytes);
	file->staged += bytes;
	return 0;
}

int kedge__segment_file_commit(struct kedge__segment_file *file, bool sync, struct kedge__error *err)
{
	double start;
	int rc;

	rc = kedge__segment_file_flush(file, err);
	start = kedge__clock_seconds();
	if (!rc && sync)
		rc = kedge__fs_sync(file->fd, file->tmp, err);
	if (!rc)
		rc = kedge__fs_rename(file->tmp, file->path, err);
	if (!rc) {
		file->renamed = true;
		if (sync)
			rc = kedge__fs_sync_dir(file->dir, err);
	}
	file->write_seconds += kedge__clock_seconds() - start;
	return rc;
}

void kedge__segment_file_abort(struct kedge__segment_file *file)
{
	kedge__fs_close(file->fd);
	file->fd = -1;
	(void)kedge__fs_unlink(file->renamed ? file->path : file->tmp, NULL);
	(void)kedge__fs_rmdir(file->dir, NULL);
}

void kedge__segment_file_done(struct kedge__segment_file *file)
{
	kedge__fs_close(file->fd);
	if (file->stage)
		kedge__map_free(file->stage, STAGE_BYTES);
	kedge__free(file->dir);
	kedge__free(file->tmp);
	kedge__free(file->path);
	memset(file, 0, sizeof(*file));
	file->fd = -1;
}
