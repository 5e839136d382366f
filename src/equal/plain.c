/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plain: from a file to its plain form. A chunk is replaced by what is in it only if that was packed again and is what
 * it was: the same bytes, or others that fit its place and have the same in them. All others stay as they are, chunk by
 * chunk.
 */
#include "equal/equal.h"

/* A file of zeros is a thousand times smaller when it is packed: its plain form may have so many times its size, or so
 * many bytes. */
#define GROWTH_MOST  128
#define GROWTH_LEAST (UINT64_C(256) << 20)

const char *kedge__plain_answer_text(enum kedge__plain_answer answer)
{
	switch (answer) {
	case KEDGE__PLAIN_MADE:
		return "unpacked";
	case KEDGE__PLAIN_NOT_HDF5:
		return "not an HDF5 file";
	case KEDGE__PLAIN_NOTHING:
		return "nothing in it is deflated or szipped";
	case KEDGE__PLAIN_FOREIGN:
		return "its filters are not known here";
	case KEDGE__PLAIN_KEPT:
		return "what is packed in it cannot be packed again in the same way";
	case KEDGE__PLAIN_ABSENT:
		return "this build has neither zlib nor libaec";
	case KEDGE__PLAIN_CLASH:
		return "its parts overlap: it is damaged";
	}
	return "not known";
}

/* ------------------------------------------------------------------ one chunk */

struct job {
	const struct kedge__part *part;
	const struct kedge__plain_pipe *pipe;
	uint8_t *stored;
	struct kedge__chunk_bytes plain;
	bool taken, different;
};

static void job_done(struct job *j)
{
	kedge__free(j->stored);
	kedge__free(j->plain.at);
	*j = (struct job){0};
}

/* PACKED, which is not the same as before, has the same in it, and fits. */
static int is_as_good(const struct job *j, const struct kedge__chunk_bytes *packed, bool *good)
{
	struct kedge__chunk_bytes again = {0};
	int rc;

	*good = false;
	if (packed->bytes != j->part->bytes)
		return 0;
	rc = kedge__pipe_undo(j->pipe, packed->at, packed->bytes, j->plain.bytes, &again);
	if (!rc)
		*good = again.bytes == j->plain.bytes && memcmp(again.at, j->plain.at, again.bytes) == 0;
	kedge__free(again.at);
	return rc == KEDGE_E_NOMEM ? rc : 0;
}

/* Is what is in it what the dataset's shape says? */
static bool fits(const struct job *j)
{
	return j->plain.bytes && j->plain.bytes <= KEDGE__PLAIN_MOST &&
	       j->part->bytes <= kedge__plain_room(j->plain.bytes) &&
	       (!j->pipe->elements || j->plain.bytes == j->part->plain);
}

static int try_chunk(void *ctx, size_t i, int worker)
{
	struct job *j = (struct job *)ctx + i;
	struct kedge__chunk_bytes packed = {0};
	int rc =
	    kedge__pipe_undo(j->pipe, j->stored, j->part->bytes, j->part->plain + j->part->plain / 8 + 64, &j->plain);

	(void)worker;
	if (!rc && fits(j))
		rc = kedge__pipe_apply(j->pipe, KEDGE__EFFORT_AS_WAS, j->plain.at, j->plain.bytes, j->part->bytes,
				       &packed);
	if (!rc && packed.at) {
		j->taken = packed.bytes == j->part->bytes && memcmp(packed.at, j->stored, packed.bytes) == 0;
		if (!j->taken) {
			rc = is_as_good(j, &packed, &j->taken);
			j->different = j->taken;
		}
	}
	kedge__free(packed.at);
	return rc == KEDGE_E_NOMEM ? rc : 0;
}

/* ------------------------------------------------------------------ all of them */

struct make {
	const struct kedge__contents *file;
	int fd;
	const char *name;
	struct kedge__pool *pool;
	struct kedge__parts parts;
	struct kedge__plain plain;
	uint64_t done, at; /* bytes of the file that are written, and where the next go */
	uint64_t most;     /* bytes that the chunks may take */
	struct kedge__plain_made made;
};

/* What is between chunks, up to OFFSET. */
static int copy_to(struct make *m, uint64_t offset, struct kedge__error *err)
{
	uint64_t n = offset - m->done;
	int rc = kedge__contents_copy(m->file, m->done, n, m->fd, m->at, m->name, err);

	m->done = offset;
	m->at += n;
	return rc;
}

static int write_chunk(struct make *m, const struct job *j, struct kedge__error *err)
{
	const struct kedge__plain_chunk c = {.offset = j->part->offset,
					     .bytes = (uint32_t)j->part->bytes,
					     .plain = (uint32_t)j->plain.bytes,
					     .pipe = j->part->pipe};
	int rc = copy_to(m, c.offset, err);

	m->at = kedge__plain_align(m->at);
	if (!rc)
		rc = kedge__fs_pwrite(m->fd, j->plain.at, c.plain, m->at, m->name, err);
	if (!rc && !kedge__array_push(&m->plain.chunks, c))
		rc = kedge__error_nomem(err);
	m->done += c.bytes;
	m->at += c.plain;
	m->made.chunks++;
	m->made.different += j->different;
	return rc;
}

static int read_batch(struct make *m, size_t first, struct job *jobs, size_t *count, struct kedge__error *err)
{
	uint64_t bytes = 0;
	int rc = 0;

	*count = 0;
	while (!rc && first + *count < m->parts.list.count && *count < KEDGE__CHUNKS_AT_ONCE &&
	       (!*count || bytes < KEDGE__CHUNKS_BYTES)) {
		const struct kedge__part *part = &m->parts.list.at[first + *count];
		struct job *j = &jobs[(*count)++];

		*j = (struct job){.part = part, .pipe = &m->parts.pipes.at[part->pipe]};
		bytes += part->plain;
		j->stored = kedge__malloc(part->bytes);
		rc = j->stored ? m->file->read(m->file->ctx, part->offset, j->stored, part->bytes, err)
			       : kedge__error_nomem(err);
	}
	return rc;
}

static int make_batch(struct make *m, size_t first, size_t *count, struct kedge__error *err)
{
	struct job jobs[KEDGE__CHUNKS_AT_ONCE];
	int rc = read_batch(m, first, jobs, count, err);

	if (!rc && kedge__pool_for(m->pool, *count, try_chunk, jobs) != 0)
		rc = kedge__error_nomem(err);
	for (size_t i = 0; i < *count; i++) {
		if (!rc && jobs[i].taken && m->at + jobs[i].plain.bytes <= m->most)
			rc = write_chunk(m, &jobs[i], err);
		else
			m->made.kept++;
		job_done(&jobs[i]);
	}
	return rc;
}

static int write_recipe(struct make *m, struct kedge__error *err)
{
	uint8_t head[KEDGE__PLAIN_HEAD];
	struct kedge__bytes recipe = {0};
	int rc = 0;

	m->plain.file_bytes = m->file->bytes;
	for (size_t i = 0; !rc && i < m->parts.pipes.count; i++)
		if (!kedge__array_push(&m->plain.pipes, m->parts.pipes.at[i]))
			rc = kedge__error_nomem(err);
	if (!rc)
		rc = kedge__plain_encode(&m->plain, head, &recipe, err);
	if (!rc)
		rc = kedge__fs_pwrite(m->fd, head, sizeof(head), 0, m->name, err);
	if (!rc)
		rc = kedge__fs_pwrite(m->fd, recipe.at, recipe.count, m->at, m->name, err);
	m->made.bytes = m->at + recipe.count;
	kedge__bytes_done(&recipe);
	return rc;
}

/* ------------------------------------------------------------------ what was written */

struct written {
	int fd;
	const char *name;
};

static int written_read(void *ctx, uint64_t offset, void *to, size_t bytes, struct kedge__error *err)
{
	const struct written *w = ctx;

	return kedge__fs_pread(w->fd, to, bytes, offset, w->name, err);
}

static bool same_part(const struct kedge__part *a, const struct kedge__part *b)
{
	return a->offset == b->offset && a->bytes == b->bytes && a->plain == b->plain && a->pipe == b->pipe &&
	       a->entry.address_at == b->entry.address_at && a->entry.size_at == b->entry.size_at;
}

/* Are chunks found without what is in them? Else what describes some is in others, and must not change with them. */
static int check(struct make *m, bool *same, struct kedge__error *err)
{
	struct written w = {m->fd, m->name};
	const struct kedge__contents region = {m->made.bytes, written_read, &w};
	struct kedge__plain_view view;
	struct kedge__parts parts = {0};
	int rc = kedge__plain_view_init(&view, &region, same, err);

	if (!rc && *same)
		rc = kedge__parts_read(&view.file, &parts, err);
	if (!rc && *same)
		*same = parts.list.count == m->parts.list.count && parts.foreign == m->parts.foreign;
	for (size_t i = 0; !rc && *same && i < parts.list.count; i++)
		*same = same_part(&parts.list.at[i], &m->parts.list.at[i]);
	kedge__parts_done(&parts);
	kedge__plain_view_done(&view);
	return rc;
}

static int make(struct make *m, struct kedge__error *err)
{
	size_t count;
	bool same;
	int rc = 0;

	for (size_t i = 0; !rc && i < m->parts.list.count; i += count)
		rc = make_batch(m, i, &count, err);
	if (rc || !m->plain.chunks.count) {
		m->made.answer = KEDGE__PLAIN_KEPT;
		return rc;
	}
	rc = copy_to(m, m->file->bytes, err);
	if (!rc)
		rc = write_recipe(m, err);
	if (!rc)
		rc = check(m, &same, err);
	if (!rc)
		m->made.answer = same ? KEDGE__PLAIN_MADE : KEDGE__PLAIN_CLASH;
	return rc;
}

int kedge__plain_make(const struct kedge__contents *file, int fd, const char *name, struct kedge__pool *pool,
		      struct kedge__plain_made *out, struct kedge__error *err)
{
	struct make m = {.file = file, .fd = fd, .name = name, .pool = pool, .at = KEDGE__PLAIN_HEAD};
	int rc = kedge__parts_read(file, &m.parts, err);

	if (rc)
		return rc;
	m.most = GROWTH_LEAST + KEDGE__MIN(file->bytes, UINT64_MAX / 2 / GROWTH_MOST) * GROWTH_MOST;
	if (!m.parts.hdf5)
		m.made.answer = KEDGE__PLAIN_NOT_HDF5;
	else if (!m.parts.list.count)
		m.made.answer = m.parts.foreign ? KEDGE__PLAIN_FOREIGN : KEDGE__PLAIN_NOTHING;
	else if (!kedge__filters_built())
		m.made.answer = KEDGE__PLAIN_ABSENT;
	else
		rc = make(&m, err);
	m.made.kept += m.parts.foreign;
	if (!rc)
		*out = m.made;
	kedge__parts_done(&m.parts);
	kedge__plain_done(&m.plain);
	return rc;
}
