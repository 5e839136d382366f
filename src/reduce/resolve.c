/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * resolve.c: composition of extent maps. Ranges in many pieces are resolved unit by unit where that suffices
 * (columns.c); what follows is for all else. References into a version are gathered until no newer version can add to
 * them, then sorted and followed in one sweep over the maps of the version and all its parents at once, a cursor each:
 * at every address the newest map that does not say "as in the parent" has it. So a range that most versions left alone
 * is not cut into pieces again and again, and the cost is that of the extents that the sweep meets.
 */
#include "reduce/columns.h"

#include <stdlib.h>

#define WINDOW_BYTES (UINT64_C(4) << 20)

/* LEN bytes at image address ADDR of some version are wanted at DEST. */
struct ref {
	uint64_t addr, len, dest;
	bool copied; /* by an extent of that very version: it must not be copied there once more */
};

struct pending { /* what is wanted of one version */
	uint64_t version;
	KEDGE__ARRAY(struct ref) refs;
};

/* Pending versions: found by number through a table, taken newest first from a heap. */
struct agenda {
	KEDGE__ARRAY(struct pending) lists;
	KEDGE__ARRAY(size_t) heap;
	size_t *table; /* index + 1 into lists, 0: empty; linear probing, at most half full */
	size_t table_size;
	size_t last; /* the list that was used last */
};

/* One map of the chain from a version down to its oldest parent, and what it says where the sweep is: the extent AT,
 * or, if that begins later, nothing; true for the LEN bytes from BEGIN on. */
struct layer {
	uint64_t begin, len;
	bool through; /* as in the parent */
	size_t at;
	uint64_t version, parent;
	const struct kedge__extent_map *map;
};

struct chain {
	KEDGE__ARRAY(struct layer) layers; /* newest first; older ones come in when they are needed */
};

/* A map that was asked for, so that it is asked for once. */
struct known {
	uint64_t version, parent;
	const struct kedge__extent_map *map;
};

struct resolver {
	const struct kedge__map_source *source;
	KEDGE__ARRAY(struct known) known; /* newest first */
	uint64_t stop_below;
	struct agenda agenda;
	struct chain chain;
	struct kedge__span_list *out, *outer;
	uint64_t bytes;   /* wanted */
	uint64_t extents; /* of all maps so far, and ranges */
};

void kedge__span_list_done(struct kedge__span_list *list)
{
	kedge__array_done(list);
	kedge__free(list->scratch);
	list->scratch = NULL;
	list->scratch_room = 0;
}

static int damaged(struct kedge__error *err, uint64_t version, uint64_t addr, const char *what)
{
	return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "version %llu, address %#llx: %s", (unsigned long long)version,
				(unsigned long long)addr, what);
}

/* ---- the agenda */

static void agenda_done(struct agenda *a)
{
	for (size_t i = 0; i < a->lists.count; i++)
		kedge__array_done(&a->lists.at[i].refs);
	kedge__array_done(&a->lists);
	kedge__array_done(&a->heap);
	kedge__free(a->table);
}

static size_t *agenda_slot(const struct agenda *a, uint64_t version)
{
	size_t i = (size_t)(version * UINT64_C(0x9E3779B97F4A7C15) >> 32) & (a->table_size - 1);

	while (a->table[i] && a->lists.at[a->table[i] - 1].version != version)
		i = (i + 1) & (a->table_size - 1);
	return &a->table[i];
}

static bool agenda_grow(struct agenda *a)
{
	size_t size = a->table_size ? 2 * a->table_size : 64;
	size_t *table = kedge__calloc(size, sizeof(*table));

	if (!table)
		return false;
	kedge__free(a->table);
	a->table = table;
	a->table_size = size;
	for (size_t i = 0; i < a->lists.count; i++)
		*agenda_slot(a, a->lists.at[i].version) = i + 1;
	return true;
}

static uint64_t heap_version(const struct agenda *a, size_t i)
{
	return a->lists.at[a->heap.at[i]].version;
}

static void heap_swap(struct agenda *a, size_t i, size_t j)
{
	size_t t = a->heap.at[i];

	a->heap.at[i] = a->heap.at[j];
	a->heap.at[j] = t;
}

static bool heap_push(struct agenda *a, size_t list)
{
	if (!kedge__array_push(&a->heap, list))
		return false;
	for (size_t i = a->heap.count - 1; i && heap_version(a, (i - 1) / 2) < heap_version(a, i); i = (i - 1) / 2)
		heap_swap(a, i, (i - 1) / 2);
	return true;
}

/* The newest pending list leaves the heap. */
static size_t heap_pop(struct agenda *a)
{
	size_t top = a->heap.at[0], i = 0;

	a->heap.at[0] = a->heap.at[--a->heap.count];
	for (;;) {
		size_t largest = i;

		for (size_t child = 2 * i + 1; child < KEDGE__MIN(2 * i + 3, a->heap.count); child++)
			if (heap_version(a, child) > heap_version(a, largest))
				largest = child;
		if (largest == i)
			return top;
		heap_swap(a, i, largest);
		i = largest;
	}
}

static struct pending *agenda_list(struct agenda *a, uint64_t version)
{
	struct pending fresh = {.version = version};
	size_t *slot;

	if (a->last < a->lists.count && a->lists.at[a->last].version == version)
		return &a->lists.at[a->last];
	if (2 * a->lists.count + 2 > a->table_size && !agenda_grow(a))
		return NULL;
	slot = agenda_slot(a, version);
	if (!*slot) {
		if (!kedge__array_push(&a->lists, fresh))
			return NULL;
		*slot = a->lists.count;
		if (!heap_push(a, a->lists.count - 1))
			return NULL;
	}
	a->last = *slot - 1;
	return &a->lists.at[a->last];
}

/* ---- one version */

/*
 * A hostile file of a few kilobytes could unfold into more spans than memory holds: many references to one wide range
 * of many extents. Honest maps stay far below this.
 */
static int check_size(const struct resolver *r, size_t pieces, struct kedge__error *err)
{
	uint64_t by_extents = (UINT64_C(1) << 24) + 1024 * r->extents;
	uint64_t by_bytes = (UINT64_C(1) << 20) + r->bytes / 8;

	if (pieces <= by_extents && pieces <= by_bytes)
		return 0;
	return kedge__error_set(err, KEDGE_E_LIMIT, 0, "the extent maps expand into more than %zu pieces", pieces);
}

static int push_ref(struct resolver *r, uint64_t version, struct ref ref, struct kedge__error *err)
{
	struct pending *p;

	if (version < r->stop_below) {
		struct kedge__span s = {ref.dest, ref.len, ref.addr, version, false};

		return kedge__array_push(r->outer, s) ? check_size(r, r->outer->count, err) : kedge__error_nomem(err);
	}
	p = agenda_list(&r->agenda, version);
	if (!p || !kedge__array_push(&p->refs, ref))
		return kedge__error_nomem(err);
	return check_size(r, p->refs.count, err);
}

static int push_span(struct resolver *r, struct kedge__span s, struct kedge__error *err)
{
	if (!kedge__array_push(r->out, s))
		return kedge__error_nomem(err);
	return check_size(r, r->out->count, err);
}

/* Extent E of layer VERSION holds PART, a reference into the version that OWN is for: there copies within it go. */
static int follow(struct resolver *r, uint64_t version, const struct kedge__extent *e, struct ref part,
		  struct pending *own, struct kedge__error *err)
{
	uint64_t into = part.addr - e->addr;
	struct kedge__span s = {part.dest, part.len, e->src + into, version, false};
	struct ref next = {e->src + into, part.len, part.dest, e->version == version};
	int turn = 8 * (int)((part.dest - part.addr) & 7);

	switch (e->kind) {
	case KEDGE__EXTENT_LITERAL:
		return push_span(r, s, err);
	case KEDGE__EXTENT_FILL:
		s.src = turn ? e->src << turn | e->src >> (64 - turn) : e->src;
		s.fill = true;
		return push_span(r, s, err);
	case KEDGE__EXTENT_COPY:
		if (next.addr + next.len - 1 < next.addr)
			return damaged(err, version, part.addr, "copies from beyond the image");
		if (e->version > version)
			return damaged(err, version, part.addr, "refers to a newer version");
		if (e->version != own->version)
			return push_ref(r, e->version, next, err);
		if (part.copied)
			return damaged(err, version, part.addr, "is a copy of a copy");
		if (!kedge__array_push(&own->refs, next))
			return kedge__error_nomem(err);
		return check_size(r, own->refs.count, err);
	case KEDGE__EXTENT_PARENT:
		break;
	}
	return damaged(err, version, part.addr, "is of an unknown kind");
}

static int ref_order(const void *a, const void *b)
{
	const struct ref *x = a, *y = b;

	if (x->addr != y->addr)
		return x->addr < y->addr ? -1 : 1;
	return x->dest < y->dest ? -1 : x->dest > y->dest;
}

static void sort_refs(struct pending *p)
{
	for (size_t i = 1; i < p->refs.count; i++) {
		if (ref_order(&p->refs.at[i - 1], &p->refs.at[i]) > 0) {
			qsort(p->refs.at, p->refs.count, sizeof(p->refs.at[0]), ref_order);
			return;
		}
	}
}

static bool ends_before(const struct kedge__extent *e, uint64_t addr)
{
	return e->addr <= addr && addr - e->addr >= e->len;
}

/* The first extent from I on that does not end before ADDR: near most of the time, so in growing steps. */
static size_t skip_to(const struct kedge__extent_map *map, size_t i, uint64_t addr)
{
	size_t step = 1, next;

	if (i >= map->count || !ends_before(&map->at[i], addr))
		return i;
	while (step < map->count - i && ends_before(&map->at[i + step], addr)) {
		i += step;
		step *= 2;
	}
	/* at[i] ends before ADDR; the one a step on, if there is one, does not. */
	KEDGE__PARTITION_POINT_FROM(next, i + 1, i + KEDGE__MIN(step, map->count - i),
				    ends_before(&map->at[next], addr));
	return next;
}

/* ---- the chain of a version and its parents */

/* Where VERSION is among the known, or would be. */
static size_t known_find(const struct resolver *r, uint64_t version)
{
	size_t i;

	KEDGE__PARTITION_POINT(i, r->known.count, r->known.at[i].version > version);
	return i;
}

static int known_get(struct resolver *r, uint64_t version, struct known *k, struct kedge__error *err)
{
	size_t at = known_find(r, version);
	int rc;

	if (at < r->known.count && r->known.at[at].version == version) {
		*k = r->known.at[at];
		return 0;
	}
	*k = (struct known){version, KEDGE__NO_VERSION, NULL};
	rc = r->source->load(r->source->ctx, version, &k->map, &k->parent, err);
	if (rc)
		return rc;
	r->extents += k->map->count + k->map->inherited.count;
	if (!kedge__array_reserve(&r->known, r->known.count + 1))
		return kedge__error_nomem(err);
	memmove(&r->known.at[at + 1], &r->known.at[at], (r->known.count++ - at) * sizeof(r->known.at[0]));
	r->known.at[at] = *k;
	return 0;
}

static int chain_add(struct resolver *r, uint64_t version, struct kedge__error *err)
{
	struct known k;
	struct layer l;
	int rc = known_get(r, version, &k, err);

	if (rc)
		return rc;
	l = (struct layer){.version = version, .parent = k.parent, .map = k.map};
	return kedge__array_push(&r->chain.layers, l) ? 0 : kedge__error_nomem(err);
}

/* One layer more, because all so far say "as in the parent" at ADDR. *BELOW: the parent is not to be followed. */
static int chain_extend(struct resolver *r, uint64_t addr, bool *below, struct kedge__error *err)
{
	const struct layer *last = &r->chain.layers.at[r->chain.layers.count - 1];

	if (last->parent == KEDGE__NO_VERSION || last->parent >= last->version)
		return damaged(err, last->version, addr, "refers to a parent that is not older");
	*below = last->parent < r->stop_below;
	return *below ? 0 : chain_add(r, last->parent, err);
}

/* Mostly forward and near; back only where references overlap. */
static void layer_move(struct layer *l, uint64_t addr)
{
	const struct kedge__extent *e;

	l->at = addr >= l->begin ? skip_to(l->map, l->at, addr) : kedge__extent_map_find(l->map, addr);
	e = &l->map->at[l->at];
	if (l->at < l->map->count && e->addr <= addr) {
		l->begin = e->addr;
		l->len = e->len;
		l->through = false;
	} else {
		l->begin = addr;
		l->through = kedge__extent_map_inherits(l->map, addr, &l->len);
		if (l->at < l->map->count)
			l->len = KEDGE__MIN(l->len, e->addr - addr);
	}
}

/* The newest layer that has the first byte of PART, which is cut to what it has and no newer one covers. NULL in
 * *LAYER: it is in a version below the one to stop at. */
static int chain_descend(struct resolver *r, struct ref *part, struct layer **layer, struct kedge__error *err)
{
	for (size_t i = 0;; i++) {
		struct layer *l;
		bool below = false;
		int rc = i < r->chain.layers.count ? 0 : chain_extend(r, part->addr, &below, err);

		*layer = NULL;
		if (rc || below)
			return rc;
		l = &r->chain.layers.at[i];
		if (part->addr - l->begin >= l->len)
			layer_move(l, part->addr);
		part->len = KEDGE__MIN(part->len, l->len - (part->addr - l->begin));
		if (!l->through) {
			*layer = l;
			return 0;
		}
	}
}

static int follow_ref(struct resolver *r, struct ref ref, struct pending *own, struct kedge__error *err)
{
	while (ref.len) {
		struct ref part = ref;
		struct layer *l;
		int rc = chain_descend(r, &part, &l, err);

		if (!rc && !l) {
			part.copied = false;
			rc = push_ref(r, r->chain.layers.at[r->chain.layers.count - 1].parent, part, err);
		} else if (!rc && (l->at >= l->map->count || l->map->at[l->at].addr > part.addr)) {
			rc = damaged(err, l->version, part.addr, "is needed but not mapped");
		} else if (!rc) {
			rc = follow(r, l->version, &l->map->at[l->at], part, own, err);
		}
		if (rc)
			return rc;
		ref.addr += part.len;
		ref.dest += part.len;
		ref.len -= part.len;
	}
	return 0;
}

static int sweep(struct resolver *r, struct pending *p, struct pending *own, struct kedge__error *err)
{
	int rc = 0;

	sort_refs(p);
	for (size_t i = 0; !rc && i < p->refs.count; i++)
		rc = follow_ref(r, p->refs.at[i], own, err);
	return rc;
}

static int resolve_version(struct resolver *r, size_t list, struct kedge__error *err)
{
	struct pending p = r->agenda.lists.at[list], own = {.version = p.version}, none = {.version = p.version};
	int rc;

	/* The list leaves the agenda, which may move while others are added to. */
	memset(&r->agenda.lists.at[list].refs, 0, sizeof(r->agenda.lists.at[list].refs));
	r->chain.layers.count = 0;
	rc = chain_add(r, p.version, err);
	if (!rc)
		rc = sweep(r, &p, &own, err);
	if (!rc)
		rc = sweep(r, &own, &none, err);
	kedge__array_done(&p.refs);
	kedge__array_done(&own.refs);
	kedge__array_done(&none.refs);
	return rc;
}

/* ---- results */

static int span_order(const void *a, const void *b)
{
	const struct kedge__span *x = a, *y = b;

	return x->addr < y->addr ? -1 : x->addr > y->addr;
}

static bool span_continues(const struct kedge__span *a, const struct kedge__span *b)
{
	return a->addr + a->len == b->addr && a->fill == b->fill && a->version == b->version &&
	       (a->fill ? a->src == b->src : a->src + a->len == b->src);
}

static void sort_and_merge(struct kedge__span_list *list)
{
	size_t kept = 0;

	for (size_t i = 1; i < list->count; i++) {
		if (list->at[i - 1].addr > list->at[i].addr) {
			qsort(list->at, list->count, sizeof(list->at[0]), span_order);
			break;
		}
	}
	for (size_t i = 1; i < list->count; i++) {
		if (span_continues(&list->at[kept], &list->at[i]))
			list->at[kept].len += list->at[i].len;
		else
			list->at[++kept] = list->at[i];
	}
	list->count = list->count ? kept + 1 : 0;
}

static int check_ranges(const struct kedge__range *ranges, size_t n, uint64_t *bytes, struct kedge__error *err)
{
	uint64_t end = 0;

	*bytes = 0;
	for (size_t i = 0; i < n; i++) {
		if (ranges[i].start < end || ranges[i].len > UINT64_MAX - ranges[i].start)
			return kedge__error_set(err, KEDGE_E_ARG, 0, "ranges to resolve are out of order");
		end = ranges[i].start + ranges[i].len;
		*bytes += ranges[i].len;
	}
	return 0;
}

static int load_known(void *ctx, uint64_t version, const struct kedge__extent_map **map, uint64_t *parent,
		      struct kedge__error *err)
{
	struct known k;
	int rc = known_get(ctx, version, &k, err);

	if (!rc) {
		*map = k.map;
		*parent = k.parent;
	}
	return rc;
}

/* By columns, in windows so that they stay small, or by the sweep; references below STOP_BELOW are not for columns. */
static int resolve_range(struct resolver *r, uint64_t version, struct kedge__range range, struct kedge__error *err)
{
	const struct kedge__map_source source = {load_known, r};
	struct kedge__range_list later = {0};
	uint64_t n;
	int rc = 0;

	for (; range.len && !rc; range.start += n, range.len -= n) {
		struct kedge__range window = range;

		n = window.len = r->stop_below ? range.len : KEDGE__MIN(range.len, WINDOW_BYTES);
		if (!r->stop_below)
			rc = kedge__columns_resolve(&source, version, window, r->out, &later, err);
		else if (!kedge__array_push(&later, window))
			rc = kedge__error_nomem(err);
	}
	for (size_t i = 0; !rc && i < later.count; i++)
		rc = push_ref(r, version, (struct ref){later.at[i].start, later.at[i].len, later.at[i].start, false},
			      err);
	kedge__array_done(&later);
	return rc;
}

int kedge__resolve(const struct kedge__map_source *source, uint64_t version, const struct kedge__range *ranges,
		   size_t n, uint64_t stop_below, struct kedge__span_list *out, struct kedge__span_list *outer,
		   struct kedge__error *err)
{
	struct kedge__span_list inside = *out, outside = {0};
	struct resolver r = {.source = source, .stop_below = stop_below, .out = &inside, .outer = &outside};
	int rc = check_ranges(ranges, n, &r.bytes, err);

	inside.count = 0;
	if (!rc && version < stop_below)
		rc = kedge__error_set(err, KEDGE_E_ARG, 0, "version %llu is below the one to stop at",
				      (unsigned long long)version);
	r.extents = n;
	for (size_t i = 0; !rc && i < n; i++)
		if (ranges[i].len)
			rc = resolve_range(&r, version, ranges[i], err);
	while (!rc && r.agenda.heap.count)
		rc = resolve_version(&r, heap_pop(&r.agenda), err);
	agenda_done(&r.agenda);
	kedge__array_done(&r.chain.layers);
	kedge__array_done(&r.known);
	*out = inside;
	if (rc || (outside.count && !outer)) {
		kedge__span_list_done(out);
		kedge__span_list_done(&outside);
		return rc ? rc : kedge__error_set(err, KEDGE_E_ARG, 0, "there are outer references, but outer is NULL");
	}
	sort_and_merge(out);
	sort_and_merge(&outside);
	if (outer)
		*outer = outside;
	return 0;
}
