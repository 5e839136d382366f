/* SPDX-License-Identifier: BSD-3-Clause */
/* Chunks that an HDF5 file keeps packed, what was applied to them, and where the file says so. */
#include "aggregate/hdf5.h"

#include <stdlib.h>

enum { DEFLATE = 1, SHUFFLE = 2, FLETCHER32 = 3, SZIP = 4 };

void kedge__parts_done(struct kedge__parts *p)
{
	kedge__array_done(&p->pipes);
	kedge__array_done(&p->list);
}

/* From the last filter back, as far as they are known: what comes before them stays applied. False: there is nothing to
 * gain. */
static bool pipe_of(const struct kedge__h5_filters *f, uint32_t mask, struct kedge__plain_pipe *out)
{
	unsigned first = f->count;
	bool packs = false;

	*out = (struct kedge__plain_pipe){0};
	while (!f->unknown && first && f->at[first - 1].id >= DEFLATE && f->at[first - 1].id <= SZIP &&
	       f->at[first - 1].count <= KEDGE__PLAIN_VALUES)
		first--;
	out->elements = true;
	for (unsigned i = 0; i < first; i++)
		out->elements = out->elements && mask >> i & 1;
	for (unsigned i = first; i < f->count; i++) {
		if (mask >> i & 1)
			continue;
		if (out->count == KEDGE__PLAIN_FILTERS)
			return false;
		packs = packs || f->at[i].id == DEFLATE || f->at[i].id == SZIP;
		out->filters[out->count++] = f->at[i];
	}
	return packs;
}

/* The number of the pipe that is PIPE; -1: there are too many, or no memory. */
static int64_t pipe_number(struct kedge__h5 *h, const struct kedge__plain_pipe *pipe)
{
	struct kedge__parts *p = h->parts;

	for (size_t i = p->pipes.count; i-- > 0;)
		if (kedge__plain_pipe_same(&p->pipes.at[i], pipe))
			return (int64_t)i;
	if (p->pipes.count >= KEDGE__PLAIN_PIPES)
		return -1;
	if (!kedge__array_push(&p->pipes, *pipe)) {
		h->nomem = true;
		return -1;
	}
	return (int64_t)p->pipes.count - 1;
}

static uint64_t plain_bytes(const struct kedge__h5_storage_message *s)
{
	uint64_t bytes = s->element;

	for (int i = 0; i < s->ndims; i++) {
		if (!s->chunk[i] || bytes > KEDGE__PART_MOST / s->chunk[i])
			return 0;
		bytes *= s->chunk[i];
	}
	return bytes;
}

void kedge__h5_part(struct kedge__h5 *h, uint64_t offset, const struct kedge__h5_stored *stored)
{
	struct kedge__parts *p = h->parts;
	uint64_t file = h->look->file->bytes;
	struct kedge__part part = {
	    .offset = offset, .bytes = stored->bytes, .plain = plain_bytes(&h->data->storage), .entry = stored->entry};
	struct kedge__plain_pipe pipe;
	int64_t number;

	if (!part.bytes || offset > file || part.bytes > file - offset || p->list.count >= KEDGE__PLAIN_CHUNKS)
		return;
	number = pipe_of(&h->data->filters, stored->mask, &pipe) && part.entry.size_width &&
			 part.bytes <= kedge__plain_room(part.plain) && part.plain
		     ? pipe_number(h, &pipe)
		     : -1;
	if (number < 0) {
		p->foreign++;
		return;
	}
	part.pipe = (uint32_t)number;
	if (!kedge__array_push(&p->list, part))
		h->nomem = true;
}

static int part_order(const void *a, const void *b)
{
	const struct kedge__part *x = a, *y = b;

	if (x->offset != y->offset)
		return x->offset < y->offset ? -1 : 1;
	return (x->entry.size_at > y->entry.size_at) - (x->entry.size_at < y->entry.size_at);
}

/* In order. Those that overlap others are nothing that a library writes: all of them stay as they are. */
static void finish(struct kedge__parts *p)
{
	size_t kept = 0;
	uint64_t end = 0;

	if (p->list.count)
		qsort(p->list.at, p->list.count, sizeof(*p->list.at), part_order);
	for (size_t i = 0; i < p->list.count; i++) {
		struct kedge__part part = p->list.at[i];
		bool alone = part.offset >= end &&
			     (i + 1 == p->list.count || p->list.at[i + 1].offset >= part.offset + part.bytes);

		end = KEDGE__MAX(end, part.offset + part.bytes);
		if (alone)
			p->list.at[kept++] = part;
	}
	p->list.count = kept;
}

int kedge__parts_read(const struct kedge__contents *file, struct kedge__parts *out, struct kedge__error *err)
{
	struct kedge__parts parts = {0};
	struct kedge__layout layout = {0};
	struct kedge__look look;
	uint64_t super;
	int rc = kedge__look_init(&look, file, err);

	if (!rc && kedge__hdf5_find(&look, &super) && kedge__hdf5_read(&look, super, NULL, &layout, &parts) != 0)
		rc = kedge__error_nomem(err);
	kedge__look_done(&look);
	kedge__layout_done(&layout);
	if (rc) {
		kedge__parts_done(&parts);
		return rc;
	}
	finish(&parts);
	*out = parts;
	return 0;
}
