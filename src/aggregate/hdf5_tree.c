/* SPDX-License-Identifier: BSD-3-Clause */
/* B-trees of version 2: all records, in no particular order. */
#include "aggregate/hdf5.h"

#define DEPTH_MAX 32
#define NODE_MAX  65536 /* bytes of a node */
#define OVERHEAD  10    /* bytes of it: signature, version, type, checksum */

struct level {
	uint64_t most, sum; /* records of a node, and of all below it, at most */
	unsigned sum_bytes;
};

struct tree {
	struct kedge__h5 *h;
	uint8_t type;
	uint64_t node, record;
	unsigned count_bytes;
	struct level levels[DEPTH_MAX + 1];
	kedge__h5_record *fn;
	void *ctx;
	bool stop;
};

struct node {
	uint64_t address, records;
	unsigned depth;
};

struct node_list {
	struct node *at;
	size_t count, room;
};

static unsigned pointer_bytes(const struct tree *t, unsigned depth)
{
	return t->h->offset + t->count_bytes + (depth > 1 ? t->levels[depth - 1].sum_bytes : 0);
}

/* How many records nodes can have says how wide the counts are. */
static bool levels_make(struct tree *t, unsigned depth)
{
	t->levels[0].most = t->levels[0].sum = (t->node - OVERHEAD) / t->record;
	t->count_bytes = kedge__h5_bytes_for(t->levels[0].most);
	for (unsigned i = 1; i <= depth; i++) {
		struct level *l = &t->levels[i];
		uint64_t pointer = pointer_bytes(t, i), below = t->levels[i - 1].sum;

		if (t->node < OVERHEAD + pointer)
			return false;
		l->most = (t->node - OVERHEAD - pointer) / (t->record + pointer);
		l->sum = below > UINT64_MAX / (l->most + 1) - 1 ? UINT64_MAX : (l->most + 1) * below + l->most;
		l->sum_bytes = kedge__h5_bytes_for(l->sum);
	}
	return t->levels[0].most > 0;
}

static bool tree_open(struct tree *t, uint64_t address, struct node *root)
{
	uint8_t text[40];
	size_t bytes = 18 + t->h->offset;
	struct kedge__fields f = kedge__fields_of(text, bytes);

	if (!kedge__h5_at(t->h, address, text, bytes) || memcmp(text, "BTHD", 4) != 0 || text[4] != 0)
		return false;
	kedge__fields_skip(&f, 5);
	t->type = (uint8_t)kedge__fields_get(&f, 1);
	t->node = kedge__fields_get(&f, 4);
	t->record = kedge__fields_get(&f, 2);
	root->depth = (unsigned)kedge__fields_get(&f, 2);
	kedge__fields_skip(&f, 2);
	root->address = kedge__h5_address(t->h, &f);
	root->records = kedge__fields_get(&f, 2);
	return !f.bad && root->depth <= DEPTH_MAX && t->record && t->node > OVERHEAD && t->node <= NODE_MAX &&
	       kedge__h5_defined(t->h, root->address) && levels_make(t, root->depth);
}

static void children(struct tree *t, struct node node, struct kedge__fields f, struct node_list *todo)
{
	for (uint64_t i = 0; i <= node.records && !t->stop; i++) {
		struct node child = {.depth = node.depth - 1};

		child.address = kedge__h5_address(t->h, &f);
		child.records = kedge__fields_get(&f, t->count_bytes);
		if (node.depth > 1)
			kedge__fields_get(&f, t->levels[node.depth - 1].sum_bytes);
		if (f.bad)
			return;
		if (!kedge__array_push(todo, child))
			t->h->nomem = t->stop = true;
	}
}

static void node_read(struct tree *t, struct node node, uint8_t *text, struct node_list *todo)
{
	struct kedge__h5_place place = {.sum_from = t->h->base + node.address};
	struct kedge__fields f;

	if (node.records > t->levels[node.depth].most || !kedge__h5_at(t->h, node.address, text, (size_t)t->node - 4) ||
	    memcmp(text, node.depth ? "BTIN" : "BTLF", 4) != 0 || text[5] != t->type)
		return;
	f = kedge__fields_of(text, (size_t)t->node - 4);
	kedge__fields_skip(&f, 6);
	place.sum_bytes = (uint32_t)(6 + node.records * t->record);
	if (node.depth)
		place.sum_bytes += (uint32_t)((node.records + 1) * pointer_bytes(t, node.depth));
	for (uint64_t i = 0; i < node.records && !t->stop; i++) {
		const uint8_t *record = kedge__fields_skip(&f, (size_t)t->record);

		place.at = place.sum_from + 6 + i * t->record;
		t->stop = !record || !t->fn(t->ctx, t->type, kedge__fields_of(record, (size_t)t->record), &place);
	}
	if (node.depth && !t->stop)
		children(t, node, f, todo);
}

void kedge__h5_tree2(struct kedge__h5 *h, uint64_t address, kedge__h5_record *fn, void *ctx)
{
	struct tree t = {.h = h, .fn = fn, .ctx = ctx};
	struct node_list todo = {0};
	struct node node;
	uint8_t *text;

	if (!tree_open(&t, address, &node))
		return;
	text = kedge__malloc((size_t)t.node);
	if (!text || !kedge__array_push(&todo, node))
		h->nomem = true;
	while (todo.count && !t.stop && !h->nomem) {
		node = todo.at[--todo.count];
		node_read(&t, node, text, &todo);
	}
	kedge__array_done(&todo);
	kedge__free(text);
}
