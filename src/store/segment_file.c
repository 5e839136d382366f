/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A segment file until it has its final name. Bytes are written in large pieces, in one of two ways:
 *
 *  - through the page cache by pwrite: small appends are buffered, large ones are written in place, together with what
 * was buffered, up to where the next write begins best;
 *  - from aligned slots into which everything is copied, if writes bypass the page cache (O_DIRECT), or if several of
 * them are in flight (io_uring) while the next slot is filled.
 *
 * Where a carrier takes them to the file, they go to it in the same pieces, and the rest of this is done elsewhere. A
 * bundle is written by several at once, each in its place, and gets its name from one of them (bundle.c).
 *
 * The rest at the end, which does not fill a slot, goes through the page cache. What will be synced begins its way from
 * there to storage while the rest is still being made: the sync at the end then has little left to wait for.
 */
#include "store/internal.h"

#include <stdatomic.h>
#include <stdio.h>

#define LARGE_BYTES (UINT64_C(256) << 10) /* an append of this size is written in place */
#define PIECE_BYTES (UINT64_C(8) << 20)   /* one write call; the unit that the bucket paces, and that storage gets */
#define FOLIO_MOST  (UINT64_C(2) << 20)   /* the largest piece of memory that the page cache has for a file, */
#define FOLIO_LEAST (UINT64_C(64) << 10)  /* and the smallest for which the rest of a write is worth a copy, */
#define REST_SHARE  16                    /* if that is no more than one of so many bytes */

static int make_paths(struct kedge__segment_file *file, const struct kedge__catalog *cat, uint64_t version,
		      uint32_t rank, struct kedge__error *err)
{
	const struct kedge__set_part part = {.generation = file->berth.generation, .bundle = file->berth.bundle};

	file->dir = kedge__catalog_version_path(cat, version);
	file->path = kedge__part_path(cat, version, rank, &part);
	file->tmp = file->path ? kedge__asprintf("%s" KEDGE__TMP_SUFFIX, file->path) : NULL;
	return file->dir && file->tmp ? 0 : kedge__error_nomem(err);
}

/* ------------------------------------------------------------------ ways to its file */

/* What one call writes: bytes that were staged, and more behind them. */
struct kedge__segment_piece {
	struct iovec part[KEDGE__FS_PIECES];
	size_t count, bytes;
};

struct kedge__segment_way { /* in this order; undo() instead of name(), or after it */
	int (*create)(struct kedge__segment_file *file, struct kedge__error *err);
	int (*write)(struct kedge__segment_file *file, const struct kedge__segment_piece *p, struct kedge__error *err);
	int (*sync)(struct kedge__segment_file *file, struct kedge__error *err);
	int (*name)(struct kedge__segment_file *file, struct kedge__error *err);
	void (*undo)(struct kedge__segment_file *file);
};

/* Whole pages: the one that the next write goes on in would be written twice. */
static void hasten(struct kedge__segment_file *file, uint64_t written)
{
	uint64_t end = written / KEDGE__FS_DIRECT * KEDGE__FS_DIRECT;

	if (!file->sync || file->direct || end < file->hastened + PIECE_BYTES)
		return;
	kedge__fs_hasten(file->fd, file->berth.start + file->hastened, end - file->hastened);
	file->hastened = end;
}

static int create_here(struct kedge__segment_file *file, struct kedge__error *err)
{
	return kedge__file_create_in(file->dir, file->tmp, &file->fd, err);
}

static int write_here(struct kedge__segment_file *file, const struct kedge__segment_piece *p, struct kedge__error *err)
{
	int rc =
	    kedge__fs_pwrite_pieces(file->fd, p->part, p->count, file->berth.start + file->written, file->tmp, err);

	if (!rc)
		hasten(file, file->written + p->bytes);
	return rc;
}

static int sync_here(struct kedge__segment_file *file, struct kedge__error *err)
{
	return kedge__fs_sync(file->fd, file->tmp, err);
}

static int name_here(struct kedge__segment_file *file, struct kedge__error *err)
{
	int rc = kedge__fs_rename(file->tmp, file->path, err);

	if (rc)
		return rc;
	file->renamed = true;
	return file->sync ? kedge__fs_sync_dir(file->dir, err) : 0;
}

static void undo_here(struct kedge__segment_file *file)
{
	kedge__fs_close(file->fd);
	file->fd = -1;
	(void)kedge__fs_unlink(file->renamed ? file->path : file->tmp, NULL);
	(void)kedge__fs_rmdir(file->dir, NULL);
}

static int create_there(struct kedge__segment_file *file, struct kedge__error *err)
{
	return file->carrier->begin(file->carrier->ctx, file->version, file->rank, file->berth.generation, file->sync,
				    &file->carried, err);
}

static int write_there(struct kedge__segment_file *file, const struct kedge__segment_piece *p, struct kedge__error *err)
{
	int rc = 0;

	for (size_t i = 0; i < p->count && !rc; i++)
		rc = file->carrier->append(file->carried, p->part[i].iov_base, p->part[i].iov_len, err);
	return rc;
}

static int sync_there(struct kedge__segment_file *file, struct kedge__error *err)
{
	(void)file;
	(void)err;
	return 0; /* whoever writes it does so on his own */
}

/* This host may remember that there was no such file, as one of NFS does: opening the directory makes it look again. */
static int name_there(struct kedge__segment_file *file, struct kedge__error *err)
{
	int rc = file->carrier->commit(file->carried, err);

	if (rc)
		return rc;
	file->renamed = true;
	file->carried = NULL;
	(void)kedge__fs_sync_dir(file->dir, NULL);
	return 0;
}

static void undo_there(struct kedge__segment_file *file)
{
	if (file->carried)
		file->carrier->drop(file->carried);
	file->carried = NULL;
	if (file->renamed)
		undo_here(file);
}

static int create_among(struct kedge__segment_file *file, struct kedge__error *err)
{
	return kedge__file_share_in(file->dir, file->tmp, &file->fd, err);
}

static int name_among(struct kedge__segment_file *file, struct kedge__error *err)
{
	(void)file;
	(void)err;
	return 0;
}

/* Others may be at it: whoever would have named it removes it. */
static void undo_among(struct kedge__segment_file *file)
{
	kedge__fs_close(file->fd);
	file->fd = -1;
}

static const struct kedge__segment_way here = {create_here, write_here, sync_here, name_here, undo_here},
				       there = {create_there, write_there, sync_there, name_there, undo_there},
				       among = {create_among, write_here, sync_here, name_among, undo_among};

/* ------------------------------------------------------------------ open */

/* The requested way of writing, as far as it is available. */
static bool takes_uring(const struct kedge__io *io)
{
	static atomic_flag said = ATOMIC_FLAG_INIT;
	int refused;

	if (io->writer == KEDGE__WRITER_PWRITE || (io->writer == KEDGE__WRITER_AUTO && !io->direct))
		return false;
	refused = kedge__fs_queue_probe();
	if (refused && io->writer == KEDGE__WRITER_URING && !atomic_flag_test_and_set(&said))
		kedge__log(KEDGE_LOG_NOTICE, "writer = uring is not available (%s); using pwrite",
			   kedge__fs_queue_built() ? strerror(refused) : "not compiled in");
	return !refused;
}

static const struct kedge__segment_way *way_of(const struct kedge__catalog *cat, const struct kedge__berth *berth)
{
	if (berth->bundle)
		return &among;
	return cat->carrier ? &there : &here;
}

static bool is_published(const struct kedge__catalog_entry *entry, uint32_t rank, const struct kedge__berth *berth)
{
	if (!entry || entry->problem.code)
		return false;
	if (berth->bundle)
		return kedge__set_bundles(&entry->set, kedge__bundle_first(rank, berth->bundle), berth->generation);
	return kedge__set_names(&entry->set, rank, berth->generation);
}

int kedge__segment_file_open(struct kedge__segment_file *file, struct kedge__catalog *cat, uint64_t version,
			     uint32_t rank, const struct kedge__berth *berth, const struct kedge__io *io, bool sync,
			     struct kedge__bucket *bucket, struct kedge__error *err)
{
	const struct kedge__index_record reopened = {.kind = KEDGE__INDEX_REOPENED, .version = version};
	const struct kedge__catalog_entry *entry = kedge__catalog_find(cat, version);
	int rc;

	if (is_published(entry, rank, berth))
		return kedge__error_set(err, KEDGE_E_STATE, 0,
					"version %" PRIu64 ", rank %" PRIu32 ", generation %" PRIu32
					" is published and cannot be overwritten",
					version, rank, berth->generation);
	if (berth->bundle && cat->carrier)
		return kedge__error_set(err, KEDGE_E_STATE, 0, "a staging server does not write bundles");
	*file = (struct kedge__segment_file){.way = way_of(cat, berth),
					     .carrier = cat->carrier,
					     .version = version,
					     .rank = rank,
					     .berth = *berth,
					     .fd = -1,
					     .sync = sync,
					     .bucket = bucket,
					     .uring = !cat->carrier && takes_uring(io)};
	file->slot_bytes = (kedge__io_buffer(io) + KEDGE__FS_DIRECT - 1) / KEDGE__FS_DIRECT * KEDGE__FS_DIRECT;
	rc = make_paths(file, cat, version, rank, err);
	/* Cleaning up after a crash searches the directory of a published version only if the index says so. */
	if (!rc && (entry || berth->generation)) {
		(void)kedge__catalog_apply(cat, &reopened, NULL);
		kedge__index_note(cat, &reopened);
	}
	if (!rc)
		rc = file->way->create(file, err);
	if (rc)
		kedge__segment_file_done(file);
	else
		file->direct = !file->carrier && io->direct && kedge__fs_direct(file->fd, true, file->tmp);
	if (!rc && !file->carrier && !file->direct && !file->uring && kedge__file_map_suits(file->fd))
		file->at_once = FOLIO_MOST;
	return rc;
}

/* ------------------------------------------------------------------ write */

static void piece_add(struct kedge__segment_piece *p, const void *data, size_t bytes)
{
	if (bytes)
		p->part[p->count++] = (struct iovec){(void *)(uintptr_t)data, bytes};
	p->bytes += bytes;
}

/* What is staged, and the first BYTES of DATA, from byte *SKIP of it on, as far as one call goes. */
static struct kedge__segment_piece piece_next(const struct kedge__segment_file *file, const struct iovec *data,
					      size_t *skip, size_t bytes)
{
	size_t from = *skip, left = KEDGE__MIN(bytes - *skip, PIECE_BYTES);
	struct kedge__segment_piece p = {.count = 0};

	*skip += left;
	piece_add(&p, file->slots[file->slot], file->staged);
	for (; left; data++) {
		size_t n = from < data->iov_len ? KEDGE__MIN(data->iov_len - from, left) : 0;

		piece_add(&p, (const uint8_t *)data->iov_base + from, n);
		from = n ? 0 : from - data->iov_len;
		left -= n;
	}
	return p;
}

/* What is staged, and the first BYTES of DATA. */
static int write_out(struct kedge__segment_file *file, const struct iovec *data, size_t bytes, struct kedge__error *err)
{
	size_t done = 0;
	int rc = 0;

	while ((file->staged || done < bytes) && !rc) {
		struct kedge__segment_piece p = piece_next(file, data, &done, bytes);
		double start;

		kedge__bucket_take(file->bucket, (double)p.bytes);
		start = kedge__clock_seconds();
		rc = file->way->write(file, &p, err);
		file->staged = 0;
		file->written += p.bytes;
		file->write_seconds += kedge__clock_seconds() - start;
	}
	return rc;
}

/* Start writing the full slot; continue with the next one when it is free. */
static int slot_submit(struct kedge__segment_file *file, struct kedge__error *err)
{
	double start = kedge__clock_seconds();
	int rc;

	rc = kedge__fs_queue_submit(file->queue, file->slot, file->slots[file->slot], file->staged,
				    file->berth.start + file->written, err);
	file->written += file->staged;
	file->staged = 0;
	file->slot = (file->slot + 1) % KEDGE__SEGMENT_SLOTS;
	if (!rc)
		rc = kedge__fs_queue_wait(file->queue, file->slot, err);
	file->write_seconds += kedge__clock_seconds() - start;
	return rc;
}

static int slot_out(struct kedge__segment_file *file, struct kedge__error *err)
{
	size_t bytes = file->staged;

	/* If no queue can be created after all, use pwrite. */
	if (file->uring && !file->queue && bytes == file->slot_bytes)
		file->uring = kedge__fs_queue_new(file->fd, file->tmp, KEDGE__SEGMENT_SLOTS, &file->queue, NULL) == 0;
	if (file->queue && bytes == file->slot_bytes) {
		kedge__bucket_take(file->bucket, (double)bytes);
		return slot_submit(file, err);
	}
	return write_out(file, NULL, 0, err);
}

static int slot_fill(struct kedge__segment_file *file, const uint8_t *data, size_t bytes, struct kedge__error *err)
{
	int rc = 0;

	while (bytes && !rc) {
		size_t n = KEDGE__MIN(bytes, file->slot_bytes - file->staged);

		if (!file->slots[file->slot])
			file->slots[file->slot] = kedge__map_alloc(file->slot_bytes);
		if (!file->slots[file->slot])
			return kedge__error_nomem(err);
		memcpy(file->slots[file->slot] + file->staged, data, n);
		file->staged += n;
		data += n;
		bytes -= n;
		if (file->staged == file->slot_bytes)
			rc = slot_out(file, err);
	}
	return rc;
}

int kedge__segment_file_flush(struct kedge__segment_file *file, struct kedge__error *err)
{
	double start = kedge__clock_seconds();
	int rc = 0;

	if (file->queue)
		rc = kedge__fs_queue_drain(file->queue, err);
	file->write_seconds += kedge__clock_seconds() - start;
	if (file->direct && file->staged % KEDGE__FS_DIRECT) {
		(void)kedge__fs_direct(file->fd, false, file->tmp);
		file->direct = false;
	}
	return rc ? rc : slot_out(file, err);
}

/* How many of BYTES to leave to the next write. The page cache keeps what is written at once in pieces that are as
 * large as their places in the file allow, and large ones are read, and above all mapped, faster: so a write should
 * begin at a multiple of a power of two. Headers and the ends of regions are what stands in the way. */
static size_t rest_of(const struct kedge__segment_file *file, size_t bytes)
{
	uint64_t all = file->staged + bytes, end = file->berth.start + file->written + all;

	for (uint64_t folio = FOLIO_MOST; folio >= FOLIO_LEAST; folio /= 2)
		if (folio <= all && end % folio <= bytes / REST_SHARE && end % folio < file->slot_bytes)
			return (size_t)(end % folio);
	return 0;
}

int kedge__segment_file_append(struct kedge__segment_file *file, const void *data, size_t bytes,
			       struct kedge__error *err)
{
	const struct iovec piece = {(void *)(uintptr_t)data, bytes};

	return kedge__segment_file_append_pieces(file, &piece, 1, err);
}

int kedge__segment_file_append_pieces(struct kedge__segment_file *file, const struct iovec *pieces, size_t count,
				      struct kedge__error *err)
{
	size_t bytes = 0, skip = 0;
	int rc = 0;

	for (size_t i = 0; i < count; i++)
		bytes += pieces[i].iov_len;
	file->offset += bytes;
	if (!file->uring && !file->direct && bytes >= LARGE_BYTES) {
		skip = bytes - rest_of(file, bytes);
		rc = write_out(file, pieces, skip, err);
	}
	for (size_t i = 0; i < count && !rc; i++) {
		size_t n = KEDGE__MIN(skip, pieces[i].iov_len);

		rc = slot_fill(file, (const uint8_t *)pieces[i].iov_base + n, pieces[i].iov_len - n, err);
		skip -= n;
	}
	return rc;
}

int kedge__segment_file_sync(struct kedge__segment_file *file, struct kedge__error *err)
{
	return file->way->sync(file, err);
}

int kedge__segment_file_commit(struct kedge__segment_file *file, struct kedge__error *err)
{
	double start;
	int rc;

	rc = kedge__segment_file_flush(file, err);
	start = kedge__clock_seconds();
	if (!rc && file->sync)
		rc = file->way->sync(file, err);
	if (!rc)
		rc = file->way->name(file, err);
	file->write_seconds += kedge__clock_seconds() - start;
	return rc;
}

void kedge__segment_file_abort(struct kedge__segment_file *file)
{
	kedge__fs_queue_free(file->queue);
	file->queue = NULL;
	file->way->undo(file);
}

void kedge__segment_file_done(struct kedge__segment_file *file)
{
	kedge__fs_queue_free(file->queue);
	kedge__fs_close(file->fd);
	for (size_t i = 0; i < KEDGE__SEGMENT_SLOTS; i++)
		if (file->slots[i])
			kedge__map_free(file->slots[i], file->slot_bytes);
	kedge__free(file->dir);
	kedge__free(file->tmp);
	kedge__free(file->path);
	memset(file, 0, sizeof(*file));
	file->fd = -1;
}

/* ------------------------------------------------------------------ from elsewhere */

struct kedge__inbound {
	struct kedge__segment_file file;
	bool committed;
};

int kedge__inbound_open(struct kedge__catalog *cat, uint64_t version, uint32_t rank, uint32_t generation, bool sync,
			struct kedge__inbound **out, struct kedge__error *err)
{
	const struct kedge__io io = {.writer = KEDGE__WRITER_PWRITE};
	const struct kedge__berth berth = {.generation = generation};
	struct kedge__inbound *in = kedge__calloc(1, sizeof(*in));
	int rc = in ? kedge__catalog_scan(cat, err) : kedge__error_nomem(err);

	if (!rc)
		rc = kedge__segment_file_open(&in->file, cat, version, rank, &berth, &io, sync, NULL, err);
	if (rc)
		kedge__free(in);
	else
		*out = in;
	return rc;
}

int kedge__inbound_append(struct kedge__inbound *in, const void *data, size_t bytes, struct kedge__error *err)
{
	return kedge__segment_file_append(&in->file, data, bytes, err);
}

int kedge__inbound_commit(struct kedge__inbound *in, struct kedge__error *err)
{
	int rc = kedge__segment_file_commit(&in->file, err);

	in->committed = !rc;
	return rc;
}

void kedge__inbound_close(struct kedge__inbound *in)
{
	if (!in)
		return;
	if (!in->committed)
		kedge__segment_file_abort(&in->file);
	kedge__segment_file_done(&in->file);
	kedge__free(in);
}
