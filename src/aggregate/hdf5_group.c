/* SPDX-License-Identifier: BSD-3-Clause */
/* Members of groups: symbol tables of old groups, links of new ones in messages or in a fractal heap. */
#include "aggregate/hdf5.h"

#define TREE_HEAD  8    /* bytes of a node before its siblings */
#define HEAP_WIDTH 1024 /* of a doubling table, at most */

/* ------------------------------------------------------------------ III.A.1, III.B, III.D: symbol tables */

struct node {
	uint64_t address;
	int level; /* that it must have; -1: any, it is the root */
};

struct table {
	struct kedge__h5 *h;
	const char *group;
	uint64_t names, name_bytes; /* the data of the local heap */
	KEDGE__ARRAY(struct node) nodes;
};

static bool heap_open(struct table *t, uint64_t heap)
{
	uint8_t text[32];
	size_t bytes = 8 + 2 * t->h->length + t->h->offset;
	struct kedge__fields f = kedge__fields_of(text, bytes);

	if (!kedge__h5_at(t->h, heap, text, bytes) || memcmp(text, "HEAP", 4) != 0)
		return false;
	kedge__fields_skip(&f, 8);
	t->name_bytes = kedge__h5_length(t->h, &f);
	kedge__h5_length(t->h, &f);
	t->names = kedge__h5_address(t->h, &f);
	return !f.bad;
}

/* A name ends with a zero. */
static void symbol(struct table *t, uint64_t name, uint64_t address)
{
	uint8_t text[KEDGE__LAYOUT_NAME];
	size_t bytes;
	const uint8_t *end;

	if (name >= t->name_bytes || t->names > UINT64_MAX - name)
		return;
	bytes = (size_t)KEDGE__MIN((uint64_t)sizeof(text), t->name_bytes - name);
	if (!kedge__h5_at(t->h, t->names + name, text, bytes))
		return;
	end = memchr(text, 0, bytes);
	if (end)
		kedge__h5_link(t->h, t->group, text, (size_t)(end - text), address);
}

static void symbols(struct table *t, uint64_t address)
{
	uint8_t text[40];
	size_t each = 2 * t->h->offset + 24;
	struct kedge__fields f = kedge__fields_of(text, 8);
	uint64_t n;

	if (!kedge__h5_at(t->h, address, text, 8) || memcmp(text, "SNOD", 4) != 0)
		return;
	kedge__fields_skip(&f, 6);
	n = kedge__fields_get(&f, 2);
	for (uint64_t i = 0; i < n && !t->h->nomem; i++) {
		uint64_t name, object, kind;

		if (!kedge__h5_at(t->h, address + 8 + i * each, text, each))
			return;
		f = kedge__fields_of(text, each);
		name = kedge__h5_address(t->h, &f);
		object = kedge__h5_address(t->h, &f);
		kind = kedge__fields_get(&f, 4);
		if (kind != 2) /* not a symbolic link */
			symbol(t, name, object);
	}
}

static void tree_node(struct table *t, struct node node)
{
	uint8_t text[32];
	size_t head = TREE_HEAD + 2 * t->h->offset, each = t->h->length + t->h->offset;
	struct kedge__fields f;
	uint64_t n;

	if (!kedge__h5_at(t->h, node.address, text, head) || memcmp(text, "TREE", 4) != 0 || text[4] != 0 ||
	    (node.level >= 0 && text[5] != node.level))
		return;
	f = kedge__fields_of(text + 6, 2);
	n = kedge__fields_get(&f, 2);
	node.level = text[5];
	for (uint64_t i = 0; i < n && !t->h->nomem; i++) {
		uint64_t child;

		if (!kedge__h5_at(t->h, node.address + head + i * each, text, each))
			return;
		f = kedge__fields_of(text + t->h->length, t->h->offset);
		child = kedge__h5_address(t->h, &f);
		if (!node.level)
			symbols(t, child);
		else if (!kedge__array_push(&t->nodes, ((struct node){child, node.level - 1})))
			t->h->nomem = true;
	}
}

void kedge__h5_symbol_table(struct kedge__h5 *h, const char *group, uint64_t tree, uint64_t heap)
{
	struct table t = {.h = h, .group = group};

	if (!heap_open(&t, heap))
		return;
	if (!kedge__array_push(&t.nodes, ((struct node){tree, -1})))
		h->nomem = true;
	while (t.nodes.count && !h->nomem) {
		struct node node = t.nodes.at[--t.nodes.count];

		tree_node(&t, node);
	}
	kedge__array_done(&t.nodes);
}

/* ------------------------------------------------------------------ IV.A.2.g: links */

void kedge__h5_link_message(struct kedge__h5 *h, const char *group, struct kedge__fields f)
{
	uint64_t version = kedge__fields_get(&f, 1), flags = kedge__fields_get(&f, 1), type = 0, length, address;
	const uint8_t *name;

	if (flags & 8)
		type = kedge__fields_get(&f, 1);
	if (flags & 4)
		kedge__fields_get(&f, 8);
	if (flags & 16)
		kedge__fields_get(&f, 1);
	length = kedge__fields_get(&f, 1u << (flags & 3));
	name = length <= f.left ? kedge__fields_skip(&f, (size_t)length) : NULL;
	address = kedge__h5_address(h, &f);
	if (version == 1 && type == 0 && name && !f.bad)
		kedge__h5_link(h, group, name, (size_t)length, address);
}

/* ------------------------------------------------------------------ III.G: fractal heaps */

struct heap {
	struct kedge__h5 *h;
	const char *group;
	unsigned id_bytes, offset_bytes, length_bytes;
	uint64_t width, start,
	    most; /* the doubling table: blocks of a row, bytes of the first, and of the largest direct one */
	uint64_t root;
	uint64_t rows; /* of the root; 0: it is a direct block */
	bool filtered;
};

static unsigned log2_of(uint64_t v)
{
	return v ? (unsigned)(63 - __builtin_clzll(v)) : 0;
}

static bool fractal_open(struct heap *p, uint64_t address)
{
	uint8_t text[176];
	unsigned o = p->h->offset, l = p->h->length;
	size_t bytes = 22 + 12 * l + 3 * o;
	struct kedge__fields f = kedge__fields_of(text, bytes);
	uint64_t managed, bits;

	if (!kedge__h5_at(p->h, address, text, bytes) || memcmp(text, "FRHP", 4) != 0 || text[4] != 0)
		return false;
	kedge__fields_skip(&f, 5);
	p->id_bytes = (unsigned)kedge__fields_get(&f, 2);
	p->filtered = kedge__fields_get(&f, 2);
	kedge__fields_get(&f, 1);
	managed = kedge__fields_get(&f, 4);
	kedge__fields_skip(&f, 2 * (size_t)o + 10 * (size_t)l); /* huge, free, managed and tiny objects */
	p->width = kedge__fields_get(&f, 2);
	p->start = kedge__h5_length(p->h, &f);
	p->most = kedge__h5_length(p->h, &f);
	bits = kedge__fields_get(&f, 2);
	kedge__fields_get(&f, 2);
	p->root = kedge__h5_address(p->h, &f);
	p->rows = kedge__fields_get(&f, 2);
	p->offset_bytes = (unsigned)(bits + 7) / 8;
	p->length_bytes = KEDGE__MIN(kedge__h5_bytes_for(p->most), kedge__h5_bytes_for(managed));
	return !f.bad && !p->filtered && p->width && p->width <= HEAP_WIDTH && p->start && p->start <= p->most &&
	       !(p->start & (p->start - 1)) && !(p->most & (p->most - 1)) && bits <= 64 && p->rows <= 64 &&
	       p->id_bytes > p->offset_bytes && p->id_bytes <= 64;
}

/* Bytes of a block in row R. */
static uint64_t row_bytes(const struct heap *p, uint64_t r)
{
	uint64_t shift = r ? r - 1 : 0;

	return shift < 63 - log2_of(p->start) ? p->start << shift : 0;
}

/* The entry number of the row and column with byte *AT, which becomes that in the block; false: there is none. */
static bool entry_at(const struct heap *p, uint64_t rows, uint64_t *at, uint64_t *row, uint64_t *entry)
{
	for (*row = 0; *row < rows; ++*row) {
		uint64_t bytes = row_bytes(p, *row);

		if (!bytes || p->width > UINT64_MAX / bytes)
			return false;
		if (*at < bytes * p->width) {
			*entry = *row * p->width + *at / bytes;
			*at %= bytes;
			return true;
		}
		*at -= bytes * p->width;
	}
	return false;
}

/* The address of byte AT of the heap's space: down indirect blocks, each of which is smaller. */
static bool place_of(const struct heap *p, uint64_t at, uint64_t *address)
{
	uint64_t block = p->root, rows = p->rows, row, entry;
	size_t head = 5 + p->h->offset + p->offset_bytes;
	uint8_t text[8];

	for (int depth = 0; rows && depth < 64; depth++) {
		struct kedge__fields f = kedge__fields_of(text, p->h->offset);
		uint64_t bytes;

		if (!entry_at(p, rows, &at, &row, &entry) ||
		    !kedge__h5_at(p->h, block + head + entry * p->h->offset, text, p->h->offset))
			return false;
		block = kedge__h5_address(p->h, &f);
		bytes = row_bytes(p, row);
		/* Beyond the largest direct block they are indirect, with as many rows as add up to their size. */
		rows = bytes <= p->most ? 0 : log2_of(bytes) - log2_of(p->start * p->width) + 1;
		if (!kedge__h5_defined(p->h, block) || (bytes > p->most && rows > row))
			return false;
	}
	*address = block + at;
	return !rows && block <= UINT64_MAX - at;
}

/* A record of the index of names: a hash, and the identity of a link message in the heap. */
static bool dense_link(void *ctx, uint8_t type, struct kedge__fields record, const struct kedge__h5_place *place)
{
	struct heap *p = ctx;
	uint8_t text[KEDGE__LAYOUT_NAME + 64];
	uint64_t flags, at, bytes, address;

	(void)place;
	if (type != 5)
		return false;
	kedge__fields_get(&record, 4);
	flags = kedge__fields_get(&record, 1);
	if (flags >> 4 == 2) { /* tiny: in the identity itself */
		bytes = (flags & 15) + 1;
		if (bytes <= record.left)
			kedge__h5_link_message(p->h, p->group, kedge__fields_of(record.at, (size_t)bytes));
		return !p->h->nomem;
	}
	at = kedge__fields_get(&record, p->offset_bytes);
	bytes = kedge__fields_get(&record, p->length_bytes);
	if (flags >> 4 == 0 && !record.bad && bytes <= sizeof(text) && place_of(p, at, &address) &&
	    kedge__h5_at(p->h, address, text, (size_t)bytes))
		kedge__h5_link_message(p->h, p->group, kedge__fields_of(text, (size_t)bytes));
	return !p->h->nomem;
}

void kedge__h5_dense_links(struct kedge__h5 *h, const char *group, uint64_t heap, uint64_t tree)
{
	struct heap p = {.h = h, .group = group};

	if (fractal_open(&p, heap) && p.offset_bytes <= 8)
		kedge__h5_tree2(h, tree, dense_link, &p);
}
