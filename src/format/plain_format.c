/* SPDX-License-Identifier: BSD-3-Clause */
/* FORMAT.md, "The plain form of a file". */
#include "format/wire.h"

#define VERSION      1
#define SUM_AT       56
#define COUNTS_BYTES 8
#define CHUNK_BYTES  24
#define PIPE_ROOM    (4 + KEDGE__PLAIN_FILTERS * (4 + 4 * KEDGE__PLAIN_VALUES))

static const char magic[KEDGE__MAGIC_BYTES] = {'K', 'E', 'D', 'G', 'E', 'P', 'L', 'N'};

void kedge__plain_done(struct kedge__plain *p)
{
	kedge__array_done(&p->pipes);
	kedge__array_done(&p->chunks);
}

const struct kedge__plain_chunk *kedge__plain_find(const struct kedge__plain *p, uint64_t offset)
{
	size_t i;

	KEDGE__PARTITION_POINT(i, p->chunks.count, p->chunks.at[i].offset <= offset);
	return i ? &p->chunks.at[i - 1] : NULL;
}

static bool same_filter(const struct kedge__plain_filter *a, const struct kedge__plain_filter *b)
{
	return a->id == b->id && a->count == b->count && memcmp(a->values, b->values, 4 * (size_t)a->count) == 0;
}

bool kedge__plain_pipe_same(const struct kedge__plain_pipe *a, const struct kedge__plain_pipe *b)
{
	bool same = a->count == b->count && a->elements == b->elements;

	for (uint32_t i = 0; same && i < a->count; i++)
		same = same_filter(&a->filters[i], &b->filters[i]);
	return same;
}

/* ------------------------------------------------------------------ encode */

static void pipe_put(struct kedge__wire_out *w, const struct kedge__plain_pipe *p)
{
	kedge__wire_put16(w, (uint16_t)p->count);
	kedge__wire_put16(w, p->elements);
	for (uint32_t i = 0; i < p->count; i++) {
		const struct kedge__plain_filter *f = &p->filters[i];

		kedge__wire_put16(w, f->id);
		kedge__wire_put16(w, f->count);
		for (uint16_t k = 0; k < f->count; k++)
			kedge__wire_put32(w, f->values[k]);
	}
}

static uint64_t body_bytes(const struct kedge__plain *p)
{
	uint64_t bytes = 0, end = 0;

	for (size_t i = 0; i < p->chunks.count; i++) {
		const struct kedge__plain_chunk *c = &p->chunks.at[i];

		bytes = kedge__plain_align(bytes + (c->offset - end)) + c->plain;
		end = c->offset + c->bytes;
	}
	return bytes + (p->file_bytes - end);
}

int kedge__plain_encode(const struct kedge__plain *p, uint8_t head[KEDGE__PLAIN_HEAD], struct kedge__bytes *recipe,
			struct kedge__error *err)
{
	struct kedge__wire_out w = kedge__wire_out_init(recipe);
	uint64_t end = 0;
	size_t before = recipe->count;
	int rc;

	kedge__wire_put32(&w, (uint32_t)p->pipes.count);
	kedge__wire_put32(&w, (uint32_t)p->chunks.count);
	for (size_t i = 0; i < p->pipes.count; i++)
		pipe_put(&w, &p->pipes.at[i]);
	for (size_t i = 0; i < p->chunks.count; i++) {
		const struct kedge__plain_chunk *c = &p->chunks.at[i];

		kedge__wire_put64(&w, c->offset - end);
		kedge__wire_put32(&w, c->bytes);
		kedge__wire_put32(&w, c->plain);
		kedge__wire_put32(&w, c->pipe);
		kedge__wire_put32(&w, 0);
		end = c->offset + c->bytes;
	}
	rc = kedge__wire_out_finish(&w, err);
	if (rc)
		return rc;
	memset(head, 0, KEDGE__PLAIN_HEAD);
	memcpy(head, magic, sizeof(magic));
	kedge__put16(head + 8, VERSION);
	kedge__put64(head + 16, p->file_bytes);
	kedge__put64(head + 24, body_bytes(p));
	kedge__put64(head + 32, recipe->count - before);
	kedge__put64(head + 40, kedge__checksum(recipe->at + before, recipe->count - before));
	kedge__put64(head + SUM_AT, kedge__checksum(head, SUM_AT));
	return 0;
}

/* ------------------------------------------------------------------ decode */

bool kedge__plain_head_decode(const void *head, uint64_t bytes, struct kedge__plain_head *out)
{
	const uint8_t *at = head;
	struct kedge__plain_head h;
	uint64_t body = kedge__get64(at + 24);

	if (bytes < KEDGE__PLAIN_HEAD || memcmp(at, magic, sizeof(magic)) != 0 || kedge__get16(at + 8) != VERSION ||
	    kedge__get64(at + SUM_AT) != kedge__checksum(at, SUM_AT) || body > bytes - KEDGE__PLAIN_HEAD)
		return false;
	h = (struct kedge__plain_head){.file_bytes = kedge__get64(at + 16),
				       .recipe_at = KEDGE__PLAIN_HEAD + body,
				       .recipe_bytes = kedge__get64(at + 32),
				       .recipe_sum = kedge__get64(at + 40)};
	if (h.recipe_bytes != bytes - h.recipe_at || h.recipe_bytes < COUNTS_BYTES ||
	    h.recipe_bytes > COUNTS_BYTES + KEDGE__PLAIN_PIPES * PIPE_ROOM + KEDGE__PLAIN_CHUNKS * CHUNK_BYTES ||
	    h.file_bytes > INT64_MAX)
		return false;
	*out = h;
	return true;
}

static bool pipe_get(struct kedge__wire_in *r, struct kedge__plain_pipe *p)
{
	uint16_t flags;

	*p = (struct kedge__plain_pipe){.count = kedge__wire_get16(r)};
	flags = kedge__wire_get16(r);
	p->elements = flags;
	if (r->failed || p->count < 1 || p->count > KEDGE__PLAIN_FILTERS || flags > 1)
		return false;
	for (uint32_t i = 0; i < p->count; i++) {
		struct kedge__plain_filter *f = &p->filters[i];

		f->id = kedge__wire_get16(r);
		f->count = kedge__wire_get16(r);
		if (f->count > KEDGE__PLAIN_VALUES)
			return false;
		for (uint16_t k = 0; k < f->count; k++)
			f->values[k] = kedge__wire_get32(r);
	}
	return !r->failed;
}

/* BODY: the bytes that the region has for the file. */
static bool chunks_get(struct kedge__wire_in *r, size_t count, uint64_t body, struct kedge__plain *p)
{
	uint64_t end = 0, at = 0;

	for (size_t i = 0; i < count; i++) {
		struct kedge__plain_chunk c = {0};
		uint64_t gap = kedge__wire_get64(r);

		c.bytes = kedge__wire_get32(r);
		c.plain = kedge__wire_get32(r);
		c.pipe = kedge__wire_get32(r);
		if (kedge__wire_get32(r) || r->failed || !c.bytes || !c.plain || c.plain > KEDGE__PLAIN_MOST ||
		    c.bytes > kedge__plain_room(c.plain) || c.pipe >= p->pipes.count || gap > p->file_bytes - end ||
		    c.bytes > p->file_bytes - end - gap || gap > body - at)
			return false;
		at = kedge__plain_align(at + gap);
		if (at > body || c.plain > body - at)
			return false;
		c.offset = end + gap;
		c.at = KEDGE__PLAIN_HEAD + at;
		p->chunks.at[p->chunks.count++] = c;
		end = c.offset + c.bytes;
		at += c.plain;
	}
	return p->file_bytes - end == body - at;
}

int kedge__plain_decode(const struct kedge__plain_head *head, const void *recipe, struct kedge__plain *out,
			struct kedge__error *err)
{
	struct kedge__wire_in r = kedge__wire_in_init(recipe, head->recipe_bytes);
	size_t pipes = kedge__wire_get32(&r), chunks = kedge__wire_get32(&r);
	struct kedge__plain p = {.file_bytes = head->file_bytes};
	bool ok = kedge__checksum(recipe, head->recipe_bytes) == head->recipe_sum && pipes <= KEDGE__PLAIN_PIPES &&
		  chunks <= r.left / CHUNK_BYTES;

	if (ok && (!kedge__array_reserve(&p.pipes, pipes + 1) || !kedge__array_reserve(&p.chunks, chunks + 1))) {
		kedge__plain_done(&p);
		return kedge__error_nomem(err);
	}
	for (size_t i = 0; ok && i < pipes; i++)
		ok = pipe_get(&r, &p.pipes.at[p.pipes.count++]);
	ok = ok && chunks_get(&r, chunks, head->recipe_at - KEDGE__PLAIN_HEAD, &p) && !r.left;
	if (!ok) {
		kedge__plain_done(&p);
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0,
					"the plain form of a file has a recipe that makes no sense");
	}
	*out = p;
	return 0;
}
