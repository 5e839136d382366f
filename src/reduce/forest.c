/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * forest.c: the Merkle tree over changed chunks (Algorithm 1 of the de-duplication paper), in two passes. First the
 * subtrees of which every chunk is a first occurrence are entered in the record; then shifted duplicates are joined
 * upwards as long as the joined subtree is one piece somewhere: its digest is in the record, or both halves follow each
 * other at their source.
 *
 * Levels are flat: node i of level k covers the chunks [i * 2^k, (i + 1) * 2^k) of its region, for any number of
 * chunks; a node exists only if all of them do. A slab is a whole subtree for every chunk size, so that slabs are
 * worked on in parallel and only the few levels above them one after the other. Nodes are kept as lists of those that
 * exist, never as a whole tree.
 */
#include "reduce/reducer.h"

#include <stdlib.h>

#define GROUP_ITEMS (size_t)(1 << 18) /* what is worked on at once, to bound memory; independent of threads */
#define GROUP_SLABS (size_t)4096

struct node {
	uint64_t index;
	struct kedge__digest key;
	uint64_t src;
	const struct kedge__record_slot *old; /* found in the previous table, where it shall not be forgotten */
	size_t item, count;
	uint32_t epoch, region;
};

struct found {
	struct kedge__root root;
	const struct kedge__record_slot *old;
};

struct nodes {
	KEDGE__ARRAY(struct node) list;
};

struct forest {
	struct kedge__reducer *r;
	unsigned slab_level;
	size_t slab_chunks;
	size_t begin;                /* first slab of the group */
	size_t first_item;           /* of the group */
	struct node *scratch;        /* slab_chunks a worker */
	struct node *tops;           /* a slab of the group: the node that covers it all; count 0: none */
	size_t *counts;              /* a slab of the group: results */
	struct kedge__probe *probes; /* results of the first pass, room for one an item */
	struct found *founds;        /* results of the second pass */
	struct nodes upper;          /* all tops so far */
};

/* What a climb does with two siblings and with a node that goes no further. */
struct climber {
	struct forest *f;
	bool (*join)(struct climber *c, unsigned level, const struct node *left, const struct node *right,
		     struct node *up);
	void (*stop)(struct climber *c, unsigned level, const struct node *n);
	size_t results; /* written at the slab's place */
	size_t at;
};

/* One level up, in place. Returns the number of nodes there. */
static size_t climb(struct climber *c, unsigned level, struct node *n, size_t count)
{
	size_t out = 0;

	for (size_t i = 0; i < count; i++) {
		struct node up;

		if (i + 1 < count && !(n[i].index & 1) && n[i + 1].index == n[i].index + 1 &&
		    n[i + 1].region == n[i].region && c->join(c, level, &n[i], &n[i + 1], &up)) {
			n[out++] = up;
			i++;
		} else {
			c->stop(c, level, &n[i]);
		}
	}
	return out;
}

/* Nodes of the items of one slab that are of KIND, in SCRATCH. */
static size_t leaves(const struct forest *f, size_t slab, enum kedge__item_kind kind, struct node *out)
{
	const struct kedge__txn *t = &f->r->txn;
	const struct kedge__slab *s = &t->slabs.at[slab];
	const struct kedge__digest *digests = t->regions[s->region]->digests;
	size_t n = 0;

	for (size_t i = s->item_at; i < kedge__slab_end(t, slab); i++) {
		const struct kedge__item *item = &t->items.at[i];

		if (item->kind == kind)
			out[n++] = (struct node){.index = item->index,
						 .key = digests[item->index],
						 .src = item->src,
						 .item = i,
						 .count = 1,
						 .epoch = item->epoch,
						 .region = s->region};
	}
	return n;
}

/* LEVEL is that of the two. */
static void join_up(const struct forest *f, unsigned level, const struct node *left, const struct node *right,
		    struct node *up)
{
	uint64_t mask = f->r->options.digest_mask;

	*up = *left;
	up->index = left->index / 2;
	up->key = kedge__digest_node(f->r->key, level + 1, left->key, right->key);
	if (mask)
		up->key = (struct kedge__digest){up->key.lo & mask, 0};
	up->count = left->count + right->count;
	up->old = NULL;
}

/* ---- first pass */

static struct kedge__probe node_probe(const struct forest *f, unsigned level, const struct node *n)
{
	return (struct kedge__probe){.key = n->key,
				     .addr = f->r->txn.image->regions[n->region].base +
					     (n->index * f->r->options.chunk << level),
				     .level = level};
}

static bool join_first(struct climber *c, unsigned level, const struct node *left, const struct node *right,
		       struct node *up)
{
	join_up(c->f, level, left, right, up);
	c->f->probes[c->at + c->results++] = node_probe(c->f, level + 1, up);
	return true;
}

static void stop_first(struct climber *c, unsigned level, const struct node *n)
{
	(void)c, (void)level, (void)n;
}

/* ---- second pass */

/* Sources of both follow each other: then the joined node is one piece there, recorded or not. */
static bool follows(const struct forest *f, unsigned level, const struct node *left, const struct node *right)
{
	uint64_t len = (uint64_t)f->r->options.chunk << level;

	return left->epoch == right->epoch && left->src + len == right->src &&
	       left->src >> KEDGE__SLOT_SHIFT == right->src >> KEDGE__SLOT_SHIFT;
}

static bool equal_bytes(const struct forest *f, unsigned level, const struct node *n, uint32_t epoch, uint64_t src)
{
	const struct kedge__image_region *region = &f->r->txn.image->regions[n->region];
	uint64_t offset = n->index * f->r->options.chunk << level;
	uint64_t len = KEDGE__MIN((uint64_t)f->r->options.chunk << level, region->bytes - offset);

	return kedge__paranoid_equal(f->r, n->region, offset, len, epoch, src);
}

static bool join_shift(struct climber *c, unsigned level, const struct node *left, const struct node *right,
		       struct node *up)
{
	const struct kedge__record_slot *slot;
	bool old;

	join_up(c->f, level, left, right, up);
	if (follows(c->f, level, left, right)) {
		up->old = left->old;
		return true;
	}
	slot = kedge__record_find(&c->f->r->record, up->key, level + 1, &old);
	if (!slot || (c->f->r->options.paranoid && !equal_bytes(c->f, level + 1, up, slot->epoch, slot->addr)))
		return false;
	up->src = slot->addr;
	up->epoch = slot->epoch;
	up->old = old ? slot : NULL;
	return true;
}

static void stop_shift(struct climber *c, unsigned level, const struct node *n)
{
	if (level)
		c->f->founds[c->at + c->results++] = (struct found){{n->item, n->count, n->src, n->epoch}, n->old};
}

static int found_order(const void *a, const void *b)
{
	const struct found *x = a, *y = b;

	return x->root.item < y->root.item ? -1 : x->root.item > y->root.item;
}

/* ---- slabs in groups, then what is above them */

static const struct climber first_climber = {.join = join_first, .stop = stop_first};
static const struct climber shift_climber = {.join = join_shift, .stop = stop_shift};

static void climb_slab(struct forest *f, size_t i, int worker, struct climber c, enum kedge__item_kind kind)
{
	struct node *n = f->scratch + (size_t)worker * f->slab_chunks;
	size_t slab = f->begin + i, count = leaves(f, slab, kind, n);

	c.f = f;
	c.at = f->r->txn.slabs.at[slab].item_at - f->first_item;
	for (unsigned level = 0; count && level < f->slab_level; level++)
		count = climb(&c, level, n, count);
	f->tops[i].count = 0;
	if (count)
		f->tops[i] = n[0];
	f->counts[i] = c.results;
	if (f->founds)
		qsort(f->founds + c.at, c.results, sizeof(*f->founds), found_order);
}

static int climb_first(void *ctx, size_t i, int worker)
{
	climb_slab(ctx, i, worker, first_climber, KEDGE__ITEM_FIRST);
	return 0;
}

static int climb_shift(void *ctx, size_t i, int worker)
{
	climb_slab(ctx, i, worker, shift_climber, KEDGE__ITEM_SHIFT);
	return 0;
}

/* Slabs from f->begin on that make a group: at least one. */
static size_t group_size(const struct forest *f, size_t *items)
{
	const struct kedge__txn *t = &f->r->txn;
	size_t n = 0;

	*items = 0;
	while (f->begin + n < t->slabs.count && n < GROUP_SLABS) {
		size_t more = t->slabs.at[f->begin + n].count;

		if (n && *items + more > GROUP_ITEMS)
			break;
		*items += more;
		n++;
	}
	return n;
}

static int keep_tops(struct forest *f, size_t n, struct kedge__error *err)
{
	for (size_t i = 0; i < n; i++)
		if (f->tops[i].count && !kedge__array_push(&f->upper.list, f->tops[i]))
			return kedge__error_nomem(err);
	return 0;
}

static int take_first(struct forest *f, size_t n, struct kedge__error *err)
{
	size_t total = 0;

	for (size_t i = 0; i < n; i++) {
		size_t at = f->r->txn.slabs.at[f->begin + i].item_at - f->first_item;

		memmove(f->probes + total, f->probes + at, f->counts[i] * sizeof(*f->probes));
		total += f->counts[i];
	}
	return kedge__record_enter(&f->r->record, f->r->txn.pool, f->probes, total, err);
}

static int take_found(struct forest *f, const struct found *found, struct kedge__error *err)
{
	if (found->old)
		kedge__record_touch(&f->r->record, found->old);
	return kedge__array_push(&f->r->txn.roots, found->root) ? 0 : kedge__error_nomem(err);
}

static int take_shift(struct forest *f, size_t n, struct kedge__error *err)
{
	int rc = 0;

	for (size_t i = 0; i < n; i++) {
		size_t at = f->r->txn.slabs.at[f->begin + i].item_at - f->first_item;

		for (size_t k = 0; !rc && k < f->counts[i]; k++)
			rc = take_found(f, &f->founds[at + k], err);
	}
	return rc;
}

static int climb_groups(struct forest *f, struct kedge__pool *pool, kedge__pool_fn slab_fn,
			int (*take)(struct forest *f, size_t n, struct kedge__error *err), struct kedge__error *err)
{
	const struct kedge__txn *t = &f->r->txn;
	int rc = 0;

	while (!rc && f->begin < t->slabs.count) {
		size_t items, n = group_size(f, &items);

		f->first_item = t->slabs.at[f->begin].item_at;
		if (items) {
			kedge__pool_for(kedge__pool_if(pool, items), n, slab_fn, f);
			rc = keep_tops(f, n, err);
			if (!rc)
				rc = take(f, n, err);
		}
		f->begin += n;
	}
	return rc;
}

static int climb_upper_first(struct forest *f, struct kedge__error *err)
{
	struct climber c = first_climber;
	size_t count = f->upper.list.count;
	int rc = 0;

	c.f = f;
	kedge__free(f->probes);
	f->probes = kedge__malloc((count + 1) * sizeof(*f->probes));
	if (!f->probes)
		return kedge__error_nomem(err);
	for (unsigned level = f->slab_level; !rc && count; level++) {
		c.results = 0;
		count = climb(&c, level, f->upper.list.at, count);
		rc = kedge__record_enter(&f->r->record, NULL, f->probes, c.results, err);
	}
	return rc;
}

static int root_order(const void *a, const void *b)
{
	const struct kedge__root *x = a, *y = b;

	return x->item < y->item ? -1 : x->item > y->item;
}

static int climb_upper_shift(struct forest *f, struct kedge__error *err)
{
	struct climber c = shift_climber;
	struct kedge__txn *t = &f->r->txn;
	size_t count = f->upper.list.count;
	int rc = 0;

	c.f = f;
	kedge__free(f->founds);
	f->founds = kedge__malloc((count + 1) * sizeof(*f->founds));
	if (!f->founds)
		return kedge__error_nomem(err);
	for (unsigned level = f->slab_level; count; level++)
		count = climb(&c, level, f->upper.list.at, count);
	for (size_t i = 0; !rc && i < c.results; i++)
		rc = take_found(f, &f->founds[i], err);
	if (!rc && c.results)
		qsort(t->roots.at, t->roots.count, sizeof(t->roots.at[0]), root_order);
	return rc;
}

static int forest_init(struct forest *f, struct kedge__reducer *r, struct kedge__pool *pool, struct kedge__error *err)
{
	size_t workers = pool ? (size_t)kedge__pool_threads(pool) : 1;
	size_t slabs = KEDGE__MIN(GROUP_SLABS, r->txn.slabs.count);

	*f = (struct forest){.r = r, .slab_chunks = KEDGE__SLAB_BYTES / r->options.chunk};
	while ((size_t)1 << f->slab_level < f->slab_chunks)
		f->slab_level++;
	f->scratch = kedge__malloc(workers * f->slab_chunks * sizeof(*f->scratch));
	f->tops = kedge__malloc((slabs + 1) * sizeof(*f->tops));
	f->counts = kedge__malloc((slabs + 1) * sizeof(*f->counts));
	return f->scratch && f->tops && f->counts ? 0 : kedge__error_nomem(err);
}

static void forest_done(struct forest *f)
{
	kedge__free(f->scratch);
	kedge__free(f->tops);
	kedge__free(f->counts);
	kedge__free(f->probes);
	kedge__free(f->founds);
	kedge__array_done(&f->upper.list);
}

/* Results of a group at most: one an item, and a group has at most a slab more than GROUP_ITEMS. */
static size_t group_room(const struct forest *f)
{
	return KEDGE__MIN(f->r->txn.items.count, GROUP_ITEMS + f->slab_chunks) + 1;
}

int kedge__forest_enter(struct kedge__reducer *r, struct kedge__error *err)
{
	struct forest f;
	int rc = forest_init(&f, r, r->txn.pool, err);

	if (!rc) {
		f.probes = kedge__malloc(group_room(&f) * sizeof(*f.probes));
		rc = f.probes ? 0 : kedge__error_nomem(err);
	}
	if (!rc)
		rc = climb_groups(&f, r->txn.pool, climb_first, take_first, err);
	if (!rc)
		rc = climb_upper_first(&f, err);
	forest_done(&f);
	return rc;
}

int kedge__forest_find(struct kedge__reducer *r, struct kedge__error *err)
{
	struct kedge__pool *pool = r->options.paranoid ? NULL : r->txn.pool; /* fetch() is for one thread */
	struct forest f;
	int rc = forest_init(&f, r, pool, err);

	if (!rc) {
		f.founds = kedge__malloc(group_room(&f) * sizeof(*f.founds));
		rc = f.founds ? 0 : kedge__error_nomem(err);
	}
	if (!rc)
		rc = climb_groups(&f, pool, climb_shift, take_shift, err);
	if (!rc)
		rc = climb_upper_shift(&f, err);
	forest_done(&f);
	return rc;
}
