/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rebuild: from the plain form back to the file. Chunks are packed as they were, and put where they were; what is
 * smaller than it was is followed by zeros, which nobody who unpacks it looks at. If libraries here pack less well than
 * those that made the file, and a chunk is larger than its place, it goes to the end of the file, and its entry in the
 * index, with the checksum over that, is changed.
 */
#include "equal/equal.h"

struct job {
	const struct kedge__plain_chunk *chunk;
	const struct kedge__plain_pipe *pipe;
	enum kedge__effort effort;
	uint8_t *plain;
	struct kedge__chunk_bytes packed;
};

static void job_done(struct job *j)
{
	kedge__free(j->plain);
	kedge__free(j->packed.at);
	*j = (struct job){0};
}

/* As it was; if that is too large, as small as can be. */
static int pack_chunk(void *ctx, size_t i, int worker)
{
	struct job *j = (struct job *)ctx + i;
	struct kedge__chunk_bytes small = {0};
	int rc = kedge__pipe_apply(j->pipe, j->effort, j->plain, j->chunk->plain, j->chunk->bytes, &j->packed);

	(void)worker;
	if (rc || j->packed.bytes == j->chunk->bytes || j->effort == KEDGE__EFFORT_NONE)
		return rc;
	rc = kedge__pipe_apply(j->pipe, KEDGE__EFFORT_MOST, j->plain, j->chunk->plain, j->chunk->bytes, &small);
	if (!rc && small.bytes < j->packed.bytes) {
		kedge__free(j->packed.at);
		j->packed = small;
	} else {
		kedge__free(small.at);
	}
	return rc;
}

struct move { /* a chunk that has another place now */
	uint64_t from, to, bytes;
};

struct rebuild {
	const struct kedge__contents *region;
	struct kedge__plain_view view;
	int fd;
	const char *name;
	struct kedge__pool *pool;
	enum kedge__effort effort;
	uint64_t done; /* bytes of the file that are written */
	uint64_t end;  /* of the file */
	KEDGE__ARRAY(struct move) moves;
};

static int copy_to(struct rebuild *r, uint64_t offset, struct kedge__error *err)
{
	uint64_t from = kedge__plain_view_place(&r->view, r->done);
	int rc = kedge__contents_copy(r->region, from, offset - r->done, r->fd, r->done, r->name, err);

	r->done = offset;
	return rc;
}

static int write_chunk(struct rebuild *r, const struct job *j, struct kedge__error *err)
{
	const struct kedge__plain_chunk *c = j->chunk;
	struct move move = {c->offset, r->end, j->packed.bytes};
	bool fits = j->packed.bytes == c->bytes;
	int rc = copy_to(r, c->offset, err);

	r->done += c->bytes;
	if (!rc && fits)
		rc = kedge__fs_pwrite(r->fd, j->packed.at, c->bytes, c->offset, r->name, err);
	if (rc || fits)
		return rc;
	r->end += move.bytes;
	if (!kedge__array_push(&r->moves, move))
		return kedge__error_nomem(err);
	return kedge__fs_pwrite(r->fd, j->packed.at, move.bytes, move.to, r->name, err);
}

/* ------------------------------------------------------------------ chunks, many at once */

static int read_batch(struct rebuild *r, size_t first, struct job *jobs, size_t *count, struct kedge__error *err)
{
	const struct kedge__plain *p = &r->view.plain;
	uint64_t bytes = 0;
	int rc = 0;

	*count = 0;
	while (!rc && first + *count < p->chunks.count && *count < KEDGE__CHUNKS_AT_ONCE &&
	       (!*count || bytes < KEDGE__CHUNKS_BYTES)) {
		const struct kedge__plain_chunk *c = &p->chunks.at[first + *count];
		struct job *j = &jobs[(*count)++];

		*j = (struct job){.chunk = c, .pipe = &p->pipes.at[c->pipe], .effort = r->effort};
		bytes += c->plain;
		j->plain = kedge__malloc(c->plain);
		rc = j->plain ? r->region->read(r->region->ctx, c->at, j->plain, c->plain, err)
			      : kedge__error_nomem(err);
	}
	return rc;
}

static int rebuild_batch(struct rebuild *r, size_t first, size_t *count, struct kedge__error *err)
{
	struct job jobs[KEDGE__CHUNKS_AT_ONCE];
	int rc = read_batch(r, first, jobs, count, err), packed;

	packed = rc ? 0 : kedge__pool_for(r->pool, *count, pack_chunk, jobs);
	if (packed)
		rc = packed == KEDGE_E_NOMEM
			 ? kedge__error_nomem(err)
			 : kedge__error_set(err, KEDGE_E_DAMAGED, 0, "%s: a chunk cannot be packed", r->name);
	for (size_t i = 0; i < *count; i++) {
		if (!rc)
			rc = write_chunk(r, &jobs[i], err);
		job_done(&jobs[i]);
	}
	return rc;
}

/* ------------------------------------------------------------------ entries of chunks that were moved */

static int put_number(struct rebuild *r, uint64_t at, unsigned width, uint64_t v, struct kedge__error *err)
{
	uint8_t text[8];

	if (width > 8 || (width < 8 && v >> 8 * width))
		return kedge__error_set(err, KEDGE_E_LIMIT, 0, "%s: a chunk that was packed again is too large",
					r->name);
	kedge__put64(text, v);
	return kedge__fs_pwrite(r->fd, text, width, at, r->name, err);
}

static int put_sum(struct rebuild *r, uint64_t from, uint32_t bytes, struct kedge__error *err)
{
	uint8_t *text, sum[4];
	int rc;

	if (!bytes)
		return 0;
	text = kedge__malloc(bytes);
	rc = text ? kedge__fs_pread(r->fd, text, bytes, from, r->name, err) : kedge__error_nomem(err);
	if (!rc) {
		kedge__put32(sum, kedge__lookup3(text, bytes));
		rc = kedge__fs_pwrite(r->fd, sum, sizeof(sum), from + bytes, r->name, err);
	}
	kedge__free(text);
	return rc;
}

static int change_entry(struct rebuild *r, const struct kedge__parts *parts, const struct move *move,
			struct kedge__error *err)
{
	const struct kedge__part_entry *e;
	size_t i;
	int rc;

	KEDGE__PARTITION_POINT(i, parts->list.count, parts->list.at[i].offset < move->from);
	if (i == parts->list.count || parts->list.at[i].offset != move->from)
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "%s: the entry of a chunk cannot be found", r->name);
	e = &parts->list.at[i].entry;
	rc = put_number(r, e->address_at, parts->width, move->to - parts->base, err);
	if (!rc)
		rc = put_number(r, e->size_at, e->size_width, move->bytes, err);
	return rc ? rc : put_sum(r, e->sum_from, e->sum_bytes, err);
}

static int change_entries(struct rebuild *r, struct kedge__error *err)
{
	struct kedge__parts parts = {0};
	int rc = r->moves.count ? kedge__parts_read(&r->view.file, &parts, err) : 0;

	for (size_t i = 0; !rc && i < r->moves.count; i++)
		rc = change_entry(r, &parts, &r->moves.at[i], err);
	if (!rc && r->moves.count)
		rc = put_number(r, parts.end_at, parts.width, r->end, err);
	if (!rc && r->moves.count)
		rc = put_sum(r, parts.super_from, parts.super_bytes, err);
	kedge__parts_done(&parts);
	return rc;
}

/* ------------------------------------------------------------------ all of it */

static int check_pipes(const struct rebuild *r, struct kedge__error *err)
{
	const struct kedge__filter *f = NULL;

	for (size_t i = 0; !f && i < r->view.plain.chunks.count; i++)
		f = kedge__pipe_lacks(&r->view.plain.pipes.at[r->view.plain.chunks.at[i].pipe]);
	if (!f)
		return 0;
	return kedge__error_set(err, KEDGE_E_CODEC, 0, "%s has data packed by %s, and this build has no %s", r->name,
				f->name, f->library ? f->library : "such filter");
}

static int rebuild(struct rebuild *r, struct kedge__error *err)
{
	size_t count;
	int rc = check_pipes(r, err);

	r->end = r->view.plain.file_bytes;
	for (size_t i = 0; !rc && i < r->view.plain.chunks.count; i += count)
		rc = rebuild_batch(r, i, &count, err);
	if (!rc)
		rc = copy_to(r, r->view.plain.file_bytes, err);
	if (!rc)
		rc = kedge__fs_truncate(r->fd, r->end, r->name, err);
	return rc ? rc : change_entries(r, err);
}

int kedge__plain_rebuild(const struct kedge__contents *region, int fd, const char *name, struct kedge__pool *pool,
			 enum kedge__effort effort, struct kedge__rebuilt *out, struct kedge__error *err)
{
	struct rebuild r = {.region = region, .fd = fd, .name = name, .pool = pool, .effort = effort};
	bool found;
	int rc = kedge__plain_view_init(&r.view, region, &found, err);

	if (rc)
		return rc;
	if (!found)
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0,
					"%s is not the plain form of a file that this build knows", name);
	rc = rebuild(&r, err);
	if (!rc)
		*out = (struct kedge__rebuilt){r.end, r.view.plain.chunks.count, r.moves.count};
	kedge__array_done(&r.moves);
	kedge__plain_view_done(&r.view);
	return rc;
}
