/*
 * rex.c: pages of patterns, after REX (section 3.2 of the paper). The hash pass finds the patterns that changed; of
 * these a pattern may be constant, may have stood elsewhere in the same page of the last version (the page's previous
 * contents are its dictionary), may have stood earlier in this version (the DeD-Table), or is new: a literal. Then each
 * page is decided on: one that would not become smaller is a literal as a whole, whose patterns still serve others.
 *
 * Steps go over the slabs of a wave on all threads; only the table needs an order, and that is kept for each of its
 * parts.
 */
#include "reduce/emit.h"
#include "reduce/rex_wave.h"

#define PAGE_PATTERNS_MAX (KEDGE__REX_PAGE / KEDGE__CHUNK_MIN)
#define RUN_COST          24 /* bytes that a run must save: one for its pointer, the rest for the piece it is at restore */
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

/* UNDO: the old digests of its patterns that changed; how many they are. The last pattern of a region may be a short
 * one, which is of no use. */
static size_t dictionary_make(struct dictionary *d, const struct page *p, uint64_t chunk,
			      const struct kedge__digest *undo)
{
	uint64_t known = p->last->bytes / chunk, short_one = p->last->bytes % chunk != 0;
	size_t used = 0;

	d->count = (uint32_t)(known > p->first ? KEDGE__MIN(known - p->first, KEDGE__REX_PAGE / chunk) : 0);
	memcpy(d->old, p->last->digests + p->first, d->count * sizeof(d->old[0]));
	for (size_t i = 0; i < p->count && p->items[i].index < known + short_one; i++, used++)
		if (p->items[i].index < known)
			d->old[p->items[i].index - p->first] = undo[used];
	dictionary_fill(d);
	return used;
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

/* Those of the N items of slab S that are in the page of the first. */
static struct page page_at(const struct kedge__reducer *r, const struct kedge__slab *s, struct kedge__item *items,
			   size_t n)
{
	const struct kedge__txn *t = &r->txn;
	uint64_t patterns = KEDGE__REX_PAGE / r->options.chunk;
	struct page p = {.region = kedge__slab_region(t, s), .last = t->regions[s->region], .items = items};

	p.first = items->index / patterns * patterns;
	while (p.count < n && items[p.count].index < p.first + patterns)
		p.count++;
	return p;
}

static void moves_in_slab(const struct kedge__reducer *r, const struct kedge__slab *s, struct kedge__item *items)
{
	const struct kedge__digest *undo = r->txn.workers[s->worker].undo.at + s->undo_at;
	struct dictionary d;
	struct page p;

	for (size_t at = 0; at < s->count; at += p.count) {
		p = page_at(r, s, items + at, s->count - at);
		undo += dictionary_make(&d, &p, r->options.chunk, undo);
		find_moves(r, &p, &d);
	}
}

/* ---- paranoid: what is not the same in bytes stays a literal */

static bool really_same(const struct kedge__reducer *r, const struct kedge__item *item, uint32_t epoch, uint64_t src)
{
	uint64_t chunk = r->options.chunk;

	return kedge__paranoid_equal(r, item->region, item->index * chunk, chunk, epoch, src);
}

/* Of a pattern of this version, in the image. */
static uint64_t address_of(const struct kedge__reducer *r, uint64_t number)
{
	uint64_t per_slab = KEDGE__SLAB_BYTES / r->options.chunk;
	const struct kedge__slab *s = &r->txn.slabs.at[number / per_slab];

	return kedge__slab_region(&r->txn, s)->base + (s->first + number % per_slab) * r->options.chunk;
}

static void check_bytes(const struct kedge__reducer *r, struct kedge__item *items, size_t n)
{
	for (struct kedge__item *item = items; item < items + n; item++) {
		bool back = item->kind == KEDGE__ITEM_BACK;

		if ((item->kind == KEDGE__ITEM_SHIFT && !really_same(r, item, item->epoch, item->src)) ||
		    (back && !really_same(r, item, r->record.current, address_of(r, item->src))))
			item->kind = KEDGE__ITEM_PLAIN;
	}
}

/* ---- pages */

/* What a page takes as literals and pointers (FORMAT.md, "Pages"), and what its runs cost when it is read. Never more
 * than kedge__rex_may_be_literal() reckons with. */
static uint64_t pointers_cost(const struct page *p, uint64_t chunk)
{
	static const uint8_t extra[] = {[KEDGE__ITEM_SHIFT] = 1, [KEDGE__ITEM_FILL] = 2, [KEDGE__ITEM_BACK] = 3};
	uint64_t cost = 2, next = p->first, go_on = 0;
	unsigned last = KEDGE__ITEM_PAGE; /* none */

	for (size_t i = 0; i < p->count; i++) {
		const struct kedge__item *item = &p->items[i];
		unsigned kind = item->kind;
		uint64_t here = kind == KEDGE__ITEM_FILL   ? item->src
				: kind == KEDGE__ITEM_BACK ? item->src - item->index
							   : item->src - item->index * chunk;

		if (kind == KEDGE__ITEM_PLAIN)
			cost += kedge__item_len(p->region, item->index, chunk);
		if (item->index != next)
			cost++;
		if (item->index != next || kind != last || (kind != KEDGE__ITEM_PLAIN && here != go_on))
			cost += RUN_COST + extra[kind];
		last = kind;
		go_on = here;
		next = item->index + 1;
	}
	return cost;
}

bool kedge__rex_may_be_literal(uint64_t len, uint64_t changed, uint64_t chunk)
{
	return 2 + changed * (chunk + 1 + RUN_COST + 3) + len / 8 > len;
}

/* One constant, all over the page. What did not change is known by its digest alone: TRUST it. */
static bool is_constant(const struct page *p, uint64_t chunk, uint64_t len, bool trust)
{
	const struct kedge__digest *digests = p->last->digests;
	const struct kedge__item *item = p->items, *end = item + p->count;

	for (uint64_t i = p->first; i * chunk < p->first * chunk + len; i++) {
		if (item < end && item->index == i) {
			if (item->kind != KEDGE__ITEM_FILL || item->src != p->items->src)
				return false;
			item++;
		} else if (!trust || (i + 1) * chunk > p->region->bytes ||
			   !kedge__digest_equal(digests[i], digests[p->items->index])) {
			return false;
		}
	}
	return true;
}

/* *OUT: its literals, and in `position` how many bytes they are. */
static void decide(const struct page *p, uint64_t chunk, bool trust, struct kedge__rex_page *out)
{
	uint64_t offset = p->first * chunk, len = KEDGE__MIN(KEDGE__REX_PAGE, p->region->bytes - offset);
	struct kedge__item *head = p->items;

	*out = (struct kedge__rex_page){0};
	if (is_constant(p, chunk, len, trust)) {
		head->kind = KEDGE__ITEM_PAGE_FILL;
		head->epoch = (uint32_t)p->count;
	} else if (pointers_cost(p, chunk) + len / 8 > len) {
		head->kind = KEDGE__ITEM_PAGE;
		head->epoch = (uint32_t)p->count;
		out->position = len;
		memset(out->plain, 0xff, sizeof(out->plain));
	} else {
		for (const struct kedge__item *i = head; i < head + p->count; i++) {
			if (i->kind != KEDGE__ITEM_PLAIN)
				continue;
			out->position += kedge__item_len(p->region, i->index, chunk);
			out->plain[(i->index - p->first) / 64] |= UINT64_C(1) << (i->index - p->first) % 64;
		}
	}
}

uint64_t kedge__rex_position(const struct kedge__txn *t, uint64_t number, uint64_t chunk)
{
	uint64_t patterns = KEDGE__REX_PAGE / chunk, in_slab = number % (KEDGE__SLAB_BYTES / chunk);
	const struct kedge__slab *s = &t->slabs.at[number / (KEDGE__SLAB_BYTES / chunk)];
	uint64_t before = s->pages & ((UINT64_C(1) << in_slab / patterns) - 1), in_page = in_slab % patterns, rank = 0;
	const struct kedge__rex_page *page = &t->pages.at[s->page_at + (size_t)__builtin_popcountll(before)];

	for (uint64_t i = 0; i < in_page / 64; i++)
		rank += (uint64_t)__builtin_popcountll(page->plain[i]);
	rank += (uint64_t)__builtin_popcountll(page->plain[in_page / 64] & ((UINT64_C(1) << in_page % 64) - 1));
	return page->position + rank * chunk;
}

/* ---- waves */

static uint64_t pages_of(const struct kedge__slab *s, const struct kedge__item *items, uint64_t patterns)
{
	uint64_t pages = 0;

	for (size_t k = 0; k < s->count; k++)
		pages |= UINT64_C(1) << (items[k].index - s->first) / patterns;
	return pages;
}

static int prepare_slab(void *ctx, size_t i, int worker)
{
	struct kedge__rex_wave *w = ctx;
	struct kedge__txn *t = &w->r->txn;
	struct kedge__slab *s = &t->slabs.at[w->slab + i];
	struct kedge__item *items = kedge__rex_wave_items(w, i);

	(void)worker;
	kedge__items_gather(t, w->slab + i, items);
	s->pages = pages_of(s, items, KEDGE__REX_PAGE / w->r->options.chunk);
	if (t->parent_epoch && s->undo_count)
		moves_in_slab(w->r, s, items);
	kedge__rex_wave_note(w, i);
	return 0;
}

static int decide_slab(void *ctx, size_t i, int worker)
{
	struct kedge__rex_wave *w = ctx;
	struct kedge__txn *t = &w->r->txn;
	const struct kedge__slab *s = &t->slabs.at[w->slab + i];
	struct kedge__item *items = kedge__rex_wave_items(w, i);
	struct kedge__rex_page *out = t->pages.at + s->page_at;
	struct page p;

	(void)worker;
	for (size_t at = 0; at < s->count; at += p.count) {
		p = page_at(w->r, s, items + at, s->count - at);
		decide(&p, w->r->options.chunk, !w->r->options.paranoid, out++);
	}
	return 0;
}

/* Room for what is to be decided on. */
static bool pages_reserve(struct kedge__txn *t, const struct kedge__rex_wave *w)
{
	for (size_t i = w->slab; i < w->slab + w->slabs; i++) {
		t->slabs.at[i].page_at = t->pages.count;
		t->pages.count += (size_t)__builtin_popcountll(t->slabs.at[i].pages);
	}
	return kedge__array_reserve(&t->pages, t->pages.count);
}

/* Literals come in the order of pages: sizes become positions. */
static int wave_emit(struct kedge__rex_wave *w)
{
	struct kedge__txn *t = &w->r->txn;
	uint64_t position = t->emitter->out->literal_bytes;
	int rc = 0;

	for (size_t i = t->slabs.at[w->slab].page_at; i < t->pages.count; i++) {
		uint64_t bytes = t->pages.at[i].position;

		t->pages.at[i].position = position;
		position += bytes;
	}
	for (size_t i = 0; !rc && i < w->slabs; i++)
		rc = kedge__emitter_slab(t->emitter, w->slab + i, kedge__rex_wave_items(w, i));
	return rc;
}

/* The epoch of the version that the last digests are of. */
static uint32_t parent_epoch(const struct kedge__reducer *r)
{
	for (size_t i = r->record.epochs.count; i-- > 1;)
		if (r->record.epochs.at[i].alive && r->record.epochs.at[i].version == r->parent)
			return (uint32_t)i;
	return 0;
}

static int run_wave(struct kedge__rex_wave *w, struct kedge__error *err)
{
	struct kedge__pool *pool = kedge__pool_if(w->r->txn.pool, w->end - w->begin);

	kedge__pool_for(pool, w->slabs, prepare_slab, w);
	if (!pages_reserve(&w->r->txn, w))
		return kedge__error_nomem(err);
	kedge__rex_wave_find(w, pool);
	if (w->r->options.paranoid)
		check_bytes(w->r, w->items, w->end - w->begin);
	kedge__pool_for(pool, w->slabs, decide_slab, w);
	return wave_emit(w);
}

static int run(struct kedge__reducer *r, struct kedge__error *err)
{
	struct kedge__txn *t = &r->txn;
	struct kedge__rex_wave *w;
	int rc;

	t->parent_epoch = t->compare ? parent_epoch(r) : 0;
	rc = kedge__rex_wave_begin(r, &w, err);
	while (!rc && kedge__rex_wave_next(w))
		rc = run_wave(w, err);
	return rc;
}

const struct kedge__reducer_ops kedge__rex_ops = {
    .name = "rex", .run = run, .hashes = true, .merge = true, .pages = true, .waves = true};
