#include "store/internal.h"

#define PIECE_BYTES (UINT64_C(4) << 20)

struct copy {
	const struct kedge__segment *seg;
	struct kedge__segment_file *file;
	uint8_t *buffer;
	size_t room;
	void (*progress)(void *ctx, uint64_t bytes);
	void *progress_ctx;
};

static int check_blocks(const struct copy *c, size_t first, size_t last, struct kedge__error *err)
{
	const struct kedge__block_record *blocks = c->seg->blocks;

	for (size_t i = first; i < last; i++)
		if (kedge__checksum(c->buffer + (blocks[i].offset - blocks[first].offset), blocks[i].stored_bytes) !=
		    blocks[i].checksum)
			return kedge__error_set(err, KEDGE_E_DAMAGED, 0,
						"segment %s (version %" PRIu64 ", rank %" PRIu32
						"): block %zu (region %s): the checksum does not match",
						c->seg->path, c->seg->header.version, c->seg->header.rank, i,
						c->seg->regions[blocks[i].region].name);
	return 0;
}

/* Blocks [first, last), if any, start at AT. */
static int copy_range(struct copy *c, uint64_t at, uint64_t bytes, size_t first, size_t last, struct kedge__error *err)
{
	int rc;

	rc = kedge__fs_pread(c->seg->fd, c->buffer, (size_t)bytes, at, c->seg->path, err);
	if (!rc)
		rc = check_blocks(c, first, last, err);
	if (!rc)
		rc = kedge__segment_file_append(c->file, c->buffer, (size_t)bytes, err);
	if (!rc && c->progress)
		c->progress(c->progress_ctx, c->file->offset);
	return rc;
}

/* As many whole blocks as the buffer holds at a time: what is checked is what is written. */
static int copy_blocks(struct copy *c, struct kedge__error *err)
{
	const struct kedge__block_record *blocks = c->seg->blocks;
	size_t last;
	int rc;

	for (size_t first = 0; first < c->seg->block_count; first = last) {
		uint64_t bytes = 0;

		for (last = first; last < c->seg->block_count; last++) {
			if (bytes && bytes + blocks[last].stored_bytes > c->room)
				break;
			bytes += blocks[last].stored_bytes;
		}
		rc = copy_range(c, blocks[first].offset, bytes, first, last, err);
		if (rc)
			return rc;
	}
	return 0;
}

static int copy_tail(struct copy *c, struct kedge__error *err)
{
	uint64_t at = KEDGE__SEGMENT_HEADER_BYTES + c->seg->footer.payload_bytes;
	int rc = 0;

	while (at < c->seg->footer.file_bytes && !rc) {
		uint64_t bytes = KEDGE__MIN(c->seg->footer.file_bytes - at, c->room);

		rc = copy_range(c, at, bytes, 0, 0, err);
		at += bytes;
	}
	return rc;
}

/* Opening the copy checks everything in it that is not a block, the seal included. */
static int check_copy(struct kedge__segment_file *file, const struct kedge__set_part *part, struct kedge__error *err)
{
	struct kedge__segment *written;
	int rc;

	rc = kedge__segment_file_flush(file, err);
	if (!rc)
		rc = kedge__segment_open(file->tmp, part, &written, err);
	if (!rc)
		kedge__segment_close(written);
	return rc;
}

static size_t buffer_room(const struct kedge__segment *seg)
{
	uint64_t room = PIECE_BYTES;

	for (size_t i = 0; i < seg->block_count; i++)
		room = KEDGE__MAX(room, seg->blocks[i].stored_bytes);
	return (size_t)room;
}

static int copy_segment(struct copy *c, const struct kedge__set_part *part, bool sync, struct kedge__error *err)
{
	int rc;

	c->room = buffer_room(c->seg);
	c->buffer = kedge__map_alloc(c->room);
	if (!c->buffer)
		return kedge__error_nomem(err);
	rc = copy_range(c, 0, KEDGE__SEGMENT_HEADER_BYTES, 0, 0, err);
	if (!rc)
		rc = copy_blocks(c, err);
	if (!rc)
		rc = copy_tail(c, err);
	if (!rc)
		rc = check_copy(c->file, part, err);
	if (!rc)
		rc = kedge__segment_file_commit(c->file, sync, err);
	kedge__map_free(c->buffer, c->room);
	return rc;
}

/* The same image may be there in another form, coalesced or not; that is as good. */
static bool is_there(const struct kedge__catalog *to, uint64_t version, uint32_t rank,
		     const struct kedge__set_part *part, struct kedge__set_part *there)
{
	const struct kedge__catalog_entry *entry = kedge__catalog_find(to, version);
	char *path;
	bool exists;

	if (!entry || entry->problem.code || rank >= entry->set.ranks ||
	    !kedge__digest_equal(entry->set.parts[rank].image_id, part->image_id))
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

static int copy_file(struct kedge__catalog *from, struct kedge__catalog *to, uint64_t version, uint32_t rank,
		     const struct kedge__set_part *part, uint32_t generation, bool sync, struct kedge__bucket *bucket,
		     struct copy *c, struct kedge__error *err)
{
	char *path = kedge__segment_path(from, version, rank, part->generation);
	struct kedge__segment_file file;
	struct kedge__segment *seg;
	int rc;

	rc = path ? kedge__segment_open(path, part, &seg, err) : kedge__error_nomem(err);
	kedge__free(path);
	if (rc)
		return rc;
	rc = kedge__segment_file_open(&file, to, version, rank, generation, bucket, err);
	if (rc)
		goto close;
	c->seg = seg;
	c->file = &file;
	rc = copy_segment(c, part, sync, err);
	if (rc)
		kedge__segment_file_abort(&file);
	kedge__segment_file_done(&file);
close:
	kedge__segment_close(seg);
	return rc;
}

int kedge__level_copy(struct kedge__catalog *from, struct kedge__catalog *to, uint64_t version, uint32_t rank,
		      bool sync, struct kedge__bucket *bucket, void (*progress)(void *ctx, uint64_t bytes),
		      void *progress_ctx, struct kedge__set_part *part, struct kedge__error *err)
{
	struct copy c = {.progress = progress, .progress_ctx = progress_ctx};
	const struct kedge__set_part *source = NULL;
	uint32_t generation;
	int rc;

	rc = find_part(from, version, rank, &source, err);
	if (rc)
		return rc;
	if (is_there(to, version, rank, source, part))
		return 0;
	rc = kedge__catalog_next_generation(to, version, rank, &generation, err);
	if (!rc)
		rc = copy_file(from, to, version, rank, source, generation, sync, bucket, &c, err);
	if (rc)
		return rc;
	*part = *source;
	part->generation = generation;
	return 0;
}
