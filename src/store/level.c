/* SPDX-License-Identifier: BSD-3-Clause */
#include "store/internal.h"

#define NO_BLOCK UINT64_MAX

struct copy {                             /* read -> check -> write */
	struct kedge__catalog *levels[2]; /* from, to */
	const struct kedge__segment *seg;
	struct kedge__segment_file *file;
	struct kedge__berth berth;
	struct kedge__io io;
	bool sync;
	uint64_t at;  /* the next offset to read, */
	size_t block; /* and the first block there, or after it */
	size_t room;
	void (*progress)(void *ctx, uint64_t bytes);
	void *progress_ctx;
};

/* As many entire blocks as fit into a buffer: the bytes that are checked are the bytes that are written. */
static uint64_t blocks_bytes(const struct copy *c, size_t first)
{
	const struct kedge__block_record *blocks = c->seg->blocks;
	uint64_t bytes = 0;

	for (size_t i = first; i < c->seg->block_count && bytes + blocks[i].stored_bytes <= c->room; i++)
		bytes += blocks[i].stored_bytes;
	return bytes;
}

/* The header, then blocks, then the tail; each piece has only blocks or none. */
static int read_piece(void *ctx, struct kedge__buffer *out, struct kedge__error *err)
{
	struct copy *c = ctx;
	const struct kedge__segment *seg = c->seg;
	uint64_t payload_end = KEDGE__SEGMENT_HEADER_BYTES + seg->footer.payload_bytes;
	uint64_t at = c->at, bytes;

	if (at == seg->footer.file_bytes)
		return KEDGE__PIPELINE_END;
	out->tag = NO_BLOCK;
	if (at < KEDGE__SEGMENT_HEADER_BYTES) {
		bytes = KEDGE__SEGMENT_HEADER_BYTES;
	} else if (at < payload_end) {
		out->tag = c->block;
		bytes = blocks_bytes(c, c->block);
		for (uint64_t passed = 0; passed < bytes; c->block++)
			passed += seg->blocks[c->block].stored_bytes;
	} else {
		bytes = KEDGE__MIN(seg->footer.file_bytes - at, c->room);
	}
	c->at += bytes;
	out->bytes = (size_t)bytes;
	return kedge__fs_pread(seg->fd, out->data, out->bytes, seg->start + at, seg->path, err);
}

static int check_piece(void *ctx, int worker, struct kedge__buffer *in, struct kedge__buffer *out,
		       struct kedge__error *err)
{
	const struct copy *c = ctx;
	size_t i = (size_t)in->tag;

	(void)worker;
	for (size_t at = 0; in->tag != NO_BLOCK && at < in->bytes; at += c->seg->blocks[i++].stored_bytes) {
		int rc = kedge__segment_check_stored(c->seg, i, in->at + at, err);

		if (rc)
			return rc;
	}
	kedge__buffer_pass(in, out);
	return 0;
}

static int write_piece(void *ctx, const struct kedge__buffer *in, struct kedge__error *err)
{
	struct copy *c = ctx;
	int rc = kedge__segment_file_append(c->file, in->at, in->bytes, err);

	if (!rc && c->progress)
		c->progress(c->progress_ctx, c->file->offset);
	return rc;
}

/* The segment PART at PATH, on either level, may continue tables of regions of both. */
static int open_part(const struct copy *c, const char *path, const struct kedge__set_part *part,
		     struct kedge__segment **out, struct kedge__error *err)
{
	const struct kedge__segment_place place = {
	    .path = path, .part = part, .fd = -1, .levels = c->levels, .level_count = KEDGE__COUNT(c->levels)};

	return kedge__segment_load(&place, KEDGE__SEGMENT_ALL, NULL, out, err);
}

static struct kedge__set_part part_at(const struct kedge__set_part *part, const struct kedge__berth *berth)
{
	struct kedge__set_part at = *part;

	at.generation = berth->generation;
	at.bundle = berth->bundle;
	at.start = berth->start;
	return at;
}

/* Opening the copy checks everything in it except the blocks, including the seal; where somebody else wrote it, also
 * that he did so here. A bundle does not have its name yet. */
static int check_copy(const struct copy *c, const struct kedge__set_part *part, struct kedge__error *err)
{
	const struct kedge__set_part at = part_at(part, &c->berth);
	struct kedge__segment *written;
	int rc = open_part(c, at.bundle ? c->file->tmp : c->file->path, &at, &written, err);

	if (!rc)
		kedge__segment_close(written);
	return rc;
}

static size_t buffer_room(const struct kedge__segment *seg, const struct kedge__io *io)
{
	uint64_t room = kedge__io_buffer(io);

	for (size_t i = 0; i < seg->block_count; i++)
		room = KEDGE__MAX(room, seg->blocks[i].stored_bytes);
	return (size_t)room;
}

/* Another thread writes, unless everything fits into one or two pieces. */
static int copy_segment(struct copy *c, const struct kedge__set_part *part, struct kedge__error *err)
{
	struct kedge__pipeline_spec spec = {
	    .collect = read_piece, .transform = check_piece, .store = write_piece, .ctx = c, .queue = c->io.queue};
	int rc = 0;

	spec.buffer_bytes = c->room = buffer_room(c->seg, &c->io);
	spec.store_apart = c->seg->footer.file_bytes > 2 * c->room;
	if (c->at < c->seg->footer.file_bytes)
		rc = kedge__pipeline_run(NULL, &spec, NULL, err);
	else if (c->progress)
		c->progress(c->progress_ctx, c->at);
	if (!rc)
		rc = kedge__segment_file_commit(c->file, err);
	if (!rc)
		rc = check_copy(c, part, err);
	return rc;
}

/* The very same segment may already be there, of a run that was abandoned. The same image in another form is not as
 * good: it refers to other versions than the set says that will be published. And a bundle goes with the set that it
 * belongs to. */
static bool is_there(const struct kedge__catalog *to, uint64_t version, uint32_t rank,
		     const struct kedge__set_part *part, struct kedge__set_part *there)
{
	const struct kedge__catalog_entry *entry = kedge__catalog_find(to, version);
	char *path;
	bool exists;

	if (!entry || entry->problem.code || rank >= entry->set.ranks || entry->set.bundle ||
	    entry->set.parts[rank].file_bytes != part->file_bytes ||
	    !kedge__digest_equal(entry->set.parts[rank].seal, part->seal))
		return false;
	path = kedge__segment_path(to, version, rank, entry->set.parts[rank].generation);
	exists = path && kedge__fs_exists(path);
	kedge__free(path);
	if (exists)
		*there = entry->set.parts[rank];
	return exists;
}

static int find_part(const struct kedge__catalog *from, uint64_t version, uint32_t rank,
		     const struct kedge__set_part **part, struct kedge__error *err)
{
	const struct kedge__catalog_entry *entry = kedge__catalog_find(from, version);

	if (!entry || (!entry->problem.code && rank >= entry->set.ranks))
		return kedge__error_set(err, KEDGE_E_NOTFOUND, 0, "%s has no version %" PRIu64 " of rank %" PRIu32,
					from->dir, version, rank);
	if (entry->problem.code)
		return kedge__error_set(err, entry->problem.code, 0, "%s", kedge__error_text(&entry->problem));
	*part = &entry->set.parts[rank];
	return 0;
}

/* A file with all that TWIN has copied, or an empty one. */
static int begin(struct copy *c, struct kedge__bucket *bucket, struct kedge__companion *companion,
		 struct kedge__error *err)
{
	const struct kedge__segment_header *h = &c->seg->header;
	struct kedge__catalog *to = c->levels[1];
	int rc = 0;

	if (kedge__companion_take(companion, c->seg, c->file, &c->berth.generation)) {
		c->at = c->file->offset;
		return 0;
	}
	if (!c->berth.bundle)
		rc = kedge__catalog_next_generation(to, h->version, h->rank, &c->berth.generation, err);
	if (!rc)
		rc =
		    kedge__segment_file_open(c->file, to, h->version, h->rank, &c->berth, &c->io, c->sync, bucket, err);
	return rc;
}

static int copy_file(struct copy *c, const struct kedge__set_part *part, struct kedge__bucket *bucket,
		     struct kedge__companion *companion, struct kedge__error *err)
{
	struct kedge__segment_file file;
	int rc;

	c->file = &file;
	rc = begin(c, bucket, companion, err);
	if (rc)
		return rc;
	rc = copy_segment(c, part, err);
	if (rc)
		kedge__segment_file_abort(&file);
	kedge__segment_file_done(&file);
	return rc;
}

/* SOURCE, which the first level has, becomes *PART of the second. */
static int copy_part(struct copy *c, uint64_t version, uint32_t rank, const struct kedge__set_part *source,
		     struct kedge__bucket *bucket, struct kedge__companion *companion, struct kedge__set_part *part,
		     struct kedge__error *err)
{
	char *path = kedge__part_path(c->levels[0], version, rank, source);
	struct kedge__segment *seg;
	int rc = path ? open_part(c, path, source, &seg, err) : kedge__error_nomem(err);

	kedge__free(path);
	if (rc)
		return rc;
	c->seg = seg;
	rc = copy_file(c, source, bucket, companion, err);
	kedge__segment_close(seg);
	if (!rc)
		*part = part_at(source, &c->berth);
	return rc;
}

int kedge__level_copy(struct kedge__catalog *from, struct kedge__catalog *to, uint64_t version, uint32_t rank,
		      bool sync, struct kedge__io io, struct kedge__bucket *bucket, struct kedge__companion *companion,
		      void (*progress)(void *ctx, uint64_t bytes), void *progress_ctx, struct kedge__set_part *part,
		      struct kedge__error *err)
{
	struct copy c = {
	    .levels = {from, to}, .io = io, .sync = sync, .progress = progress, .progress_ctx = progress_ctx};
	const struct kedge__set_part *source = NULL;
	int rc = find_part(from, version, rank, &source, err);

	if (rc || is_there(to, version, rank, source, part))
		return rc;
	return copy_part(&c, version, rank, source, bucket, companion, part, err);
}

int kedge__level_bundle(struct kedge__catalog *from, struct kedge__catalog *to, uint64_t version, uint32_t rank,
			const struct kedge__berth *berth, bool sync, struct kedge__io io, struct kedge__bucket *bucket,
			void (*progress)(void *ctx, uint64_t bytes), void *progress_ctx, struct kedge__set_part *part,
			struct kedge__error *err)
{
	const struct kedge__set_part source = *part;
	struct copy c = {.levels = {from, to},
			 .berth = *berth,
			 .io = io,
			 .sync = sync,
			 .progress = progress,
			 .progress_ctx = progress_ctx};

	return copy_part(&c, version, rank, &source, bucket, NULL, part, err);
}
