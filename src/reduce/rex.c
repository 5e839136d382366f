/*
 * rex.c: pages of patterns, after REX (section 3.2 of the paper). The hash pass finds the patterns that changed; of
 * these a pattern may be constant, may have stood elsewhere in the same page of the last version (the page's previous
 * contents are its dictionary), may have stood earlier in this version (the DeD-Table), or is new: a literal. Then each
 * page is decided on: one that would not become smaller is a literal as a whole, whose patterns still serve others.
 *
 * Steps go over slabs on all threads; only the table needs an order, and that is kept for each of its parts.
 */
#include "reduce/reducer.h"
#include "reduce/rex_table.h"

#define WAVE  ((size_t)1 << 18)
#define BLOCK ((size_t)4096)
#define GROUP 32 /* patterns whose buckets are fetched together */

#define PAGE_PATTERNS_MAX (KEDGE__REX_PAGE / KEDGE__CHUNK_MIN)
#define DICTIONARY_SLOTS  512 /* twice as many as patterns, at least */

/* ---- the previous contents of a page */

struct page {
	const struct kedge__image_region *region;
	const struct kedge__last_region *last;
	uint64_t first; /* pattern */
	struct kedge__item *items;
	size_t count;
};

struct dictionary {
	struct kedge__digest old[PAGE_PATTERNS_MAX];
	uint32_t count;
	uint16_t slots[DICTIONARY_SLOTS]; /* number + 1 */
};

static uint32_t slot_of(struct kedge__digest d)
{
	return (uint32_t)((d.lo ^ d.hi) * UINT64_C(0x9E3779B97F4A7C15) >> 55);
}

static void dictionary_fill(struct dictionary *d)
{
	memset(d->slots, 0, sizeof(d->slots));
	for (uint32_t i = 0; i < d->count; i++) {
		uint32_t s = slot_of(d->old[i]);

		while (d->slots[s] && !kedge__digest_equal(d->old[d->slots[s] - 1], d->old[i]))
			s = (s + 1) % DICTIONARY_SLOTS;
		if (!d->slots[s])
			d->slots[s] = (uint16_t)(i + 1);
	}
}

/* The number of a pattern with that digest; NEXT is tried first, so that neighbours move together. */
static int dictionary_find(const struct dictionary *d, struct kedge__digest key, uint32_t next)
{
	if (next < d->count && kedge__digest_equal(d->old[next], key))
		return (int)next;
	for (uint32_t s = slot_of(key); d->slots[s]; s = (s + 1) % DICTIONARY_SLOTS)
		if (kedge__digest_equal(d->old[d->slots[s] - 1], key))
			return d->slots[s] - 1;
	return -1;
}

static bool is_whole(const struct page *p, const struct kedge__item *item, uint64_t chunk)
{
	return (item->index + 1) * chunk <= p->region->bytes;
}

/* UNDO: old digests of patterns that changed, from those of this page on; where those of the next one begin. */
static const struct kedge__undo *dictionary_make(struct dictionary *d, const struct page *p, uint64_t chunk,
						 const struct kedge__undo *undo, const struct kedge__undo *end)
{
	uint64_t known = p->last->bytes / chunk, patterns = KEDGE__REX_PAGE / chunk;

	d->count = (uint32_t)(known > p->first ? KEDGE__MIN(known - p->first, patterns) : 0);
	memcpy(d->old, p->last->digests + p->first, d->count * sizeof(d->old[0]));
	for (; undo < end && undo->index < p->first + patterns; undo++)
		if (undo->index - p->first < d->count)
			d->old[undo->index - p->first] = undo->digest;
	dictionary_fill(d);
	return undo;
}

static void find_moves(const struct kedge__reducer *r, const struct page *p, const struct dictionary *d)
{
	uint64_t chunk = r->options.chunk;
	uint32_t next = UINT32_MAX;

	for (size_t i = 0; i < p->count; i++) {
		struct kedge__item *item = &p->items[i];
		int at = -1;

		if (item->kind == KEDGE__ITEM_PLAIN && is_whole(p, item, chunk))
			at = dictionary_find(d, p->last->digests[item->index], next);
		next = at < 0 ? UINT32_MAX : (uint32_t)at + 1;
		if (at < 0)
			continue;
		item->kind = KEDGE__ITEM_SHIFT;
		item->epoch = r->txn.parent_epoch;
		item->src = p->region->base + (p->first + (uint64_t)at) * chunk;
	}
}

/* The items from BEGIN on that are in one page. */
static struct page page_at(const struct kedge__reducer *r, const struct kedge__slab *s, size_t begin, size_t end)
{
	const struct kedge__txn *t = &r->txn;
	uint64_t patterns = KEDGE__REX_PAGE / r->options.chunk;
	struct page p = {.region = kedge__slab_region(t, s), .last = t->regions[s->region]};

	p.items = &t->items.at[begin];
	p.first = p.items->index / patterns * patterns;
	while (begin + p.count < end && p.items[p.count].index < p.first + patterns)
		p.count++;
	return p;
}

static int moves_in_slab(void *ctx, size_t i, int worker)
{
	struct kedge__reducer *r = ctx;
	const struct kedge__txn *t = &r->txn;
	const struct kedge__slab *s = &t->slabs.at[i];
	const struct kedge__undo *undo = t->workers[s->worker].undo.at + s->undo_at;
	const struct kedge__undo *end = undo + s->undo_count;
	struct dictionary d;
	struct page p;

	(void)worker;
	for (size_t at = s->item_at; s->undo_count && at < kedge__slab_end(t, i); at += p.count) {
		p = page_at(r, s, at, kedge__slab_end(t, i));
		undo = dictionary_make(&d, &p, r->options.chunk, undo, end);
		find_moves(r, &p, &d);
	}
	return 0;
}

/* ---- what stood earlier in this version */

struct dedup {
	struct kedge__reducer *r;
	struct kedge__rex_table table;
	size_t begin, end; /* items of the wave */
	uint32_t *list;    /* of those, by parts */
	uint32_t *counts;  /* of a block and part, then where they go */
	uint32_t starts[KEDGE__REX_PARTS + 1];
};

static struct kedge__digest digest_of(const struct kedge__txn *t, const struct kedge__item *item)
{
	return t->regions[item->region]->digests[item->index];
}

static bool is_candidate(const struct kedge__reducer *r, const struct kedge__item *item)
{
	uint64_t chunk = r->options.chunk;

	return item->kind == KEDGE__ITEM_PLAIN &&
	       (item->index + 1) * chunk <= r->txn.image->regions[item->region].bytes;
}

/* The item that is the same, or NULL. */
static struct kedge__item *find_first(const struct kedge__txn *t, const struct kedge__rex_key *key,
				      struct kedge__digest digest)
{
	const struct kedge__rex_bucket *buckets[2] = {&key->part[key->first], &key->part[key->second]};

	for (int i = 0; i < 4; i++) {
		const struct kedge__rex_entry *e = &buckets[i / 2]->way[i % 2];

		if (e->tag == key->tag && e->item &&
		    kedge__digest_equal(digest_of(t, &t->items.at[e->item - 1]), digest))
			return &t->items.at[e->item - 1];
	}
	return NULL;
}

static void fetch_found(const struct kedge__txn *t, const struct kedge__rex_key *key)
{
	const struct kedge__rex_bucket *buckets[2] = {&key->part[key->first], &key->part[key->second]};

	for (int i = 0; i < 4; i++)
		if (buckets[i / 2]->way[i % 2].tag == key->tag && buckets[i / 2]->way[i % 2].item)
			__builtin_prefetch(&t->items.at[buckets[i / 2]->way[i % 2].item - 1]);
}

/* N items, at most GROUP, ascending. Memory is asked for in rounds, because every step would wait for it. */
static void dedup_group(struct dedup *d, const uint32_t *list, size_t n)
{
	struct kedge__txn *t = &d->r->txn;
	struct kedge__digest digests[GROUP];
	struct kedge__rex_key keys[GROUP];

	for (size_t i = 0; i < n; i++) {
		digests[i] = digest_of(t, &t->items.at[list[i]]);
		keys[i] = kedge__rex_key_of(&d->table, kedge__rex_hash(digests[i]));
		__builtin_prefetch(&keys[i].part[keys[i].first], 1);
		__builtin_prefetch(&keys[i].part[keys[i].second], 1);
	}
	for (size_t i = 0; i < n; i++)
		fetch_found(t, &keys[i]);
	for (size_t i = 0; i < n; i++) {
		struct kedge__item *item = &t->items.at[list[i]], *first = find_first(t, &keys[i], digests[i]);

		if (first) {
			item->kind = KEDGE__ITEM_BACK;
			item->src = (uint64_t)(first - t->items.at);
		} else {
			item->kind = KEDGE__ITEM_FIRST;
			kedge__rex_table_enter(&d->table, &keys[i], list[i]);
		}
	}
}

static void dedup_in_order(struct dedup *d)
{
	uint32_t list[GROUP];
	size_t n = 0;

	for (size_t i = d->begin; i < d->end; i++) {
		if (!is_candidate(d->r, &d->r->txn.items.at[i]))
			continue;
		list[n++] = (uint32_t)i;
		if (n == GROUP) {
			dedup_group(d, list, n);
			n = 0;
		}
	}
	dedup_group(d, list, n);
}

static int count_parts(void *ctx, size_t block, int worker)
{
	const struct dedup *d = ctx;
	size_t begin = d->begin + block * BLOCK, end = KEDGE__MIN(begin + BLOCK, d->end);
	uint32_t *counts = d->counts + block * KEDGE__REX_PARTS;
	const struct kedge__txn *t = &d->r->txn;

	(void)worker;
	memset(counts, 0, KEDGE__REX_PARTS * sizeof(*counts));
	for (size_t i = begin; i < end; i++)
		if (is_candidate(d->r, &t->items.at[i]))
			counts[kedge__rex_part(kedge__rex_hash(digest_of(t, &t->items.at[i])))]++;
	return 0;
}

static int list_parts(void *ctx, size_t block, int worker)
{
	const struct dedup *d = ctx;
	size_t begin = d->begin + block * BLOCK, end = KEDGE__MIN(begin + BLOCK, d->end);
	uint32_t *next = d->counts + block * KEDGE__REX_PARTS;
	const struct kedge__txn *t = &d->r->txn;

	(void)worker;
	for (size_t i = begin; i < end; i++)
		if (is_candidate(d->r, &t->items.at[i]))
			d->list[next[kedge__rex_part(kedge__rex_hash(digest_of(t, &t->items.at[i])))]++] = (uint32_t)i;
	return 0;
}

/* Counts become places: part by part, and in it block by block. */
static void place_parts(struct dedup *d, size_t blocks)
{
	uint32_t at = 0;

	for (size_t part = 0; part < KEDGE__REX_PARTS; part++) {
		d->starts[part] = at;
		for (size_t block = 0; block < blocks; block++) {
			uint32_t *c = &d->counts[block * KEDGE__REX_PARTS + part], count = *c;

			*c = at;
			at += count;
		}
	}
	d->starts[KEDGE__REX_PARTS] = at;
}

static int dedup_part(void *ctx, size_t part, int worker)
{
	struct dedup *d = ctx;

	(void)worker;
	for (uint32_t i = d->starts[part]; i < d->starts[part + 1]; i += GROUP)
		dedup_group(d, d->list + i, KEDGE__MIN(GROUP, d->starts[part + 1] - i));
	return 0;
}

static void dedup_wave(struct dedup *d)
{
	struct kedge__pool *pool = kedge__pool_if(d->r->txn.pool, d->end - d->begin);
	size_t blocks = (d->end - d->begin + BLOCK - 1) / BLOCK;

	if (!pool || kedge__pool_threads(pool) == 1) {
		dedup_in_order(d);
		return;
	}
	kedge__pool_for(pool, blocks, count_parts, d);
	place_parts(d, blocks);
	kedge__pool_for(pool, blocks, list_parts, d);
	kedge__pool_for(pool, KEDGE__REX_PARTS, dedup_part, d);
}

static int find_repeats(struct kedge__reducer *r, struct kedge__error *err)
{
	size_t items = KEDGE__MIN(r->txn.items.count, (size_t)UINT32_MAX - 1);
	struct dedup d = {.r = r};
	int rc = kedge__rex_table_init(&d.table, items, r->options.record_bytes, err);

	d.list = kedge__malloc(KEDGE__MIN(items + 1, WAVE) * sizeof(*d.list));
	d.counts = kedge__malloc(WAVE / BLOCK * KEDGE__REX_PARTS * sizeof(*d.counts));
	if (!rc && (!d.list || !d.counts))
		rc = kedge__error_nomem(err);
	for (; !rc && d.begin < items; d.begin = d.end) {
		d.end = KEDGE__MIN(d.begin + WAVE, items);
		dedup_wave(&d);
	}
	kedge__rex_table_done(&d.table);
	kedge__free(d.list);
	kedge__free(d.counts);
	return rc;
}

/* ---- paranoid: what is not the same in bytes stays a literal */

static bool really_same(const struct kedge__reducer *r, const struct kedge__item *item)
{
	const struct kedge__image_region *regions = r->txn.image->regions;
	const struct kedge__item *first = &r->txn.items.at[item->src];
	uint64_t chunk = r->options.chunk;

	return !memcmp((const uint8_t *)regions[item->region].data + item->index * chunk,
		       (const uint8_t *)regions[first->region].data + first->index * chunk, chunk);
}

static void check_bytes(struct kedge__reducer *r)
{
	struct kedge__txn *t = &r->txn;
	uint64_t chunk = r->options.chunk;

	for (size_t i = 0; i < t->items.count; i++) {
		struct kedge__item *item = &t->items.at[i];
		const uint8_t *data = (const uint8_t *)t->image->regions[item->region].data + item->index * chunk;

		if ((item->kind == KEDGE__ITEM_SHIFT &&
		     !kedge__paranoid_equal(r, data, chunk, item->epoch, item->src)) ||
		    (item->kind == KEDGE__ITEM_BACK && !really_same(r, item)))
			item->kind = KEDGE__ITEM_PLAIN;
	}
}

/* ---- pages */

/* What a page takes as literals and pointers, by a rough count of the pointers (FORMAT.md, "Pages"). */
static uint64_t pointers_cost(const struct page *p, uint64_t chunk)
{
	static const uint8_t extra[] = {[KEDGE__ITEM_SHIFT] = 1, [KEDGE__ITEM_FILL] = 2, [KEDGE__ITEM_BACK] = 3};
	uint64_t cost = 2, next = p->first, go_on = 0;
	unsigned last = KEDGE__ITEM_PAGE; /* none */

	for (size_t i = 0; i < p->count; i++) {
		const struct kedge__item *item = &p->items[i];
		unsigned kind = item->kind == KEDGE__ITEM_FIRST ? KEDGE__ITEM_PLAIN : item->kind;
		uint64_t here = kind == KEDGE__ITEM_FILL   ? item->src
				: kind == KEDGE__ITEM_BACK ? item->src - item->index
							   : item->src - item->index * chunk;

		if (kind == KEDGE__ITEM_PLAIN)
			cost += kedge__item_len(p->region, item->index, chunk);
		if (item->index != next)
			cost++;
		if (item->index != next || kind != last || (kind != KEDGE__ITEM_PLAIN && here != go_on))
			cost += 1 + extra[kind];
		last = kind;
		go_on = here;
		next = item->index + 1;
	}
	return cost;
}

static bool is_constant(const uint8_t *data, uint64_t len)
{
	return len >= 16 && !memcmp(data, data + 8, len - 8);
}

static void decide(const struct page *p, uint64_t chunk)
{
	uint64_t offset = p->first * chunk, len = KEDGE__MIN(KEDGE__REX_PAGE, p->region->bytes - offset);
	const uint8_t *data = (const uint8_t *)p->region->data + offset;
	struct kedge__item *head = p->items;

	if (head->kind == KEDGE__ITEM_FILL && is_constant(data, len)) {
		head->kind = KEDGE__ITEM_PAGE_FILL;
		head->epoch = (uint32_t)p->count;
	} else if (pointers_cost(p, chunk) + len / 32 > len) {
		head->kind = KEDGE__ITEM_PAGE;
		head->epoch = (uint32_t)p->count;
	}
}

static int decide_slab(void *ctx, size_t i, int worker)
{
	struct kedge__reducer *r = ctx;
	const struct kedge__txn *t = &r->txn;
	struct page p;

	(void)worker;
	for (size_t at = t->slabs.at[i].item_at; at < kedge__slab_end(t, i); at += p.count) {
		p = page_at(r, &t->slabs.at[i], at, kedge__slab_end(t, i));
		decide(&p, r->options.chunk);
	}
	return 0;
}

/* The epoch of the version that the last digests are of. */
static uint32_t parent_epoch(const struct kedge__reducer *r)
{
	for (size_t i = r->record.epochs.count; i-- > 1;)
		if (r->record.epochs.at[i].alive && r->record.epochs.at[i].version == r->parent)
			return (uint32_t)i;
	return 0;
}

static int run(struct kedge__reducer *r, struct kedge__error *err)
{
	struct kedge__txn *t = &r->txn;
	struct kedge__pool *pool = kedge__pool_if(t->pool, t->items.count);
	size_t slabs = t->items.count ? t->slabs.count : 0;
	int rc;

	t->parent_epoch = t->compare ? parent_epoch(r) : 0;
	if (t->parent_epoch)
		kedge__pool_for(pool, slabs, moves_in_slab, r);
	rc = find_repeats(r, err);
	if (rc)
		return rc;
	if (r->options.paranoid)
		check_bytes(r);
	kedge__pool_for(pool, slabs, decide_slab, r);
	return 0;
}

const struct kedge__reducer_ops kedge__rex_ops = {.name = "rex", .run = run, .hashes = true, .merge = true, .looks = true};
