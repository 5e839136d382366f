/* SPDX-License-Identifier: BSD-3-Clause */
/* Where the chunks of a dataset are, by all kinds of index. */
#include "aggregate/hdf5.h"

struct chunks {
	struct kedge__h5 *h;
	uint32_t variable;
	uint64_t bytes; /* of a chunk that is not filtered */
	int ndims;
};

/* What the plain form has unpacked belongs to VARIABLE, and the rest of it to the next one, which is packed. */
static uint32_t which(const struct kedge__h5 *h, uint32_t variable, uint64_t offset, uint64_t bytes)
{
	const struct kedge__plain_chunk *c;

	if (!h->plain || !h->data->filtered)
		return variable;
	c = kedge__plain_find(h->plain, offset);
	if (c && c->offset == offset && c->bytes == bytes && h->plain->pipes.at[c->pipe].elements)
		return variable;
	return variable + 1;
}

void kedge__h5_chunk(struct kedge__h5 *h, uint32_t variable, const struct kedge__h5_stored *stored)
{
	uint64_t offset = h->base + stored->address;

	if (!kedge__h5_defined(h, stored->address) || stored->address > UINT64_MAX - h->base)
		return;
	if (!kedge__layout_add(h->out, h->look->file->bytes, which(h, variable, offset, stored->bytes), offset,
			       stored->bytes))
		h->nomem = true;
	if (h->parts && h->data->filtered)
		kedge__h5_part(h, offset, stored);
}

/* Of a chunk; 0: more than a file can have. */
static uint64_t chunk_bytes(const struct kedge__h5 *h, const struct kedge__h5_storage_message *s)
{
	uint64_t bytes = s->element;

	for (int i = 0; i < s->ndims; i++) {
		if (!s->chunk[i] || bytes > h->look->file->bytes / s->chunk[i])
			return 0;
		bytes *= s->chunk[i];
	}
	return bytes;
}

/* ------------------------------------------------------------------ III.A.1: B-tree of version 1 */

struct node {
	uint64_t address;
	int level; /* that it must have; -1: any, it is the root */
};

struct node_list {
	struct node *at;
	size_t count, room;
};

static void tree_node(struct chunks *c, struct node node, struct node_list *todo)
{
	uint8_t text[8 + 8 * (KEDGE__H5_DIMS + 1) + 8 + 32];
	size_t head = 8 + 2 * c->h->offset, key = 8 + 8 * ((size_t)c->ndims + 1), each = key + c->h->offset;
	struct kedge__fields f;
	uint64_t n;

	if (!kedge__h5_at(c->h, node.address, text, head) || memcmp(text, "TREE", 4) != 0 || text[4] != 1 ||
	    (node.level >= 0 && text[5] != node.level))
		return;
	f = kedge__fields_of(text + 6, 2);
	n = kedge__fields_get(&f, 2);
	node.level = text[5];
	for (uint64_t i = 0; i < n && !c->h->nomem; i++) {
		uint64_t at = node.address + head + i * each;
		struct kedge__h5_stored stored = {
		    .entry = {.size_at = c->h->base + at, .address_at = c->h->base + at + key, .size_width = 4}};

		if (!kedge__h5_at(c->h, at, text, each))
			return;
		f = kedge__fields_of(text, each);
		stored.bytes = kedge__fields_get(&f, 4);
		stored.mask = (uint32_t)kedge__fields_get(&f, 4);
		kedge__fields_skip(&f, key - 8);
		stored.address = kedge__h5_address(c->h, &f);
		if (!node.level)
			kedge__h5_chunk(c->h, c->variable, &stored);
		else if (!kedge__array_push(todo, ((struct node){stored.address, node.level - 1})))
			c->h->nomem = true;
	}
}

static void tree_chunks(struct chunks *c, uint64_t address)
{
	struct node_list todo = {0};

	if (!kedge__array_push(&todo, ((struct node){address, -1})))
		c->h->nomem = true;
	while (todo.count && !c->h->nomem) {
		struct node node = todo.at[--todo.count];

		tree_node(c, node, &todo);
	}
	kedge__array_done(&todo);
}

/* ------------------------------------------------------------------ B-tree of version 2 */

/* III.A.2: records of types 10 and 11, the latter with the size of a filtered chunk. */
static bool tree2_chunk(void *ctx, uint8_t type, struct kedge__fields record, const struct kedge__h5_place *place)
{
	struct chunks *c = ctx;
	struct kedge__h5_stored stored = {.address = kedge__h5_address(c->h, &record), .bytes = c->bytes};
	size_t rest = 4 + 8 * (size_t)c->ndims;

	if (type == 11 && record.left > rest && record.left - rest <= 8) {
		stored.entry = (struct kedge__part_entry){.address_at = place->at,
							  .size_at = place->at + c->h->offset,
							  .size_width = (uint8_t)(record.left - rest),
							  .sum_from = place->sum_from,
							  .sum_bytes = place->sum_bytes};
		stored.bytes = kedge__fields_get(&record, stored.entry.size_width);
		stored.mask = (uint32_t)kedge__fields_get(&record, 4);
	} else if (type != 10) {
		return false;
	}
	kedge__h5_chunk(c->h, c->variable, &stored);
	return !c->h->nomem;
}

/* ------------------------------------------------------------------ all kinds */

/* All chunks of the dataset, one after the other. */
static uint64_t implicit_bytes(const struct kedge__h5_dataset *d, uint64_t chunk, uint64_t limit)
{
	uint64_t total = chunk;

	for (int i = 0; i < d->storage.ndims; i++) {
		uint64_t n = i < d->space.ndims ? d->space.dims[i] : 0, side = d->storage.chunk[i];
		uint64_t count = n / side + (n % side != 0);

		if (!count || total > limit / count)
			return 0;
		total *= count;
	}
	return total;
}

void kedge__h5_chunks(struct kedge__h5 *h, const struct kedge__h5_dataset *d, uint32_t variable)
{
	const struct kedge__h5_storage_message *s = &d->storage;
	struct chunks c = {.h = h, .variable = variable, .bytes = chunk_bytes(h, s), .ndims = s->ndims};
	struct kedge__h5_elements e = {variable, c.bytes};
	struct kedge__h5_stored one = {.address = s->address, .bytes = c.bytes};

	if (!c.bytes && !d->filtered)
		return;
	if (s->version < 4) {
		tree_chunks(&c, s->address);
		return;
	}
	switch (s->index) {
	case 1:
		if (s->filtered_single) {
			one.bytes = s->bytes;
			one.mask = s->single_mask;
			one.entry = d->single;
		}
		kedge__h5_chunk(h, variable, &one);
		break;
	case 2:
		one.bytes = c.bytes ? implicit_bytes(d, c.bytes, h->look->file->bytes) : 0;
		kedge__h5_chunk(h, variable, &one);
		break;
	case 3:
		kedge__h5_fixed_array(h, s->address, &e);
		break;
	case 4:
		kedge__h5_extensible_array(h, s->address, &e);
		break;
	case 5:
		kedge__h5_tree2(h, s->address, tree2_chunk, &c);
		break;
	default:
		break;
	}
}
