/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rex_page.c: one page: its previous contents as a dictionary, and what it is stored as.
 */
#include "reduce/rex_wave.h"

#define PAGE_PATTERNS_MAX (KEDGE__REX_PAGE / KEDGE__CHUNK_MIN)
#define FILTER_BITS       4096

static uint64_t index_of(const struct kedge__rex_page_view *p, size_t i)
{
	return p->slab_first + (p->changes[i] >> 1);
}

bool kedge__rex_page_next(const struct kedge__rex_wave *w, size_t i, struct kedge__rex_page_view *p)
{
	const struct kedge__txn *t = &w->r->txn;
	const struct kedge__slab *s = kedge__rex_wave_slab(w, i);
	uint64_t patterns = KEDGE__REX_PAGE / w->r->options.chunk, end;
	size_t left;

	if (!p->region) {
		*p = (struct kedge__rex_page_view){.region = kedge__slab_region(t, s),
						   .last = t->regions[s->region],
						   .slab_first = s->first,
						   .changes = kedge__slab_changes(t, s),
						   .fills = t->workers[s->worker].fills.at + s->fill_at,
						   .kinds = w->kinds + kedge__rex_wave_at(w, i),
						   .values = w->values + kedge__rex_wave_at(w, i)};
	} else {
		p->changes += p->count;
		p->kinds += p->count;
		p->values += p->count;
		p->fills += p->fill_count;
	}
	left = s->count - (size_t)(p->changes - kedge__slab_changes(t, s));
	if (!left)
		return false;
	p->first = index_of(p, 0) / patterns * patterns;
	end = (p->first + patterns - s->first) << 1;
	p->count = left >= patterns && p->changes[patterns - 1] < end ? patterns : 1;
	while (p->count < left && p->changes[p->count] < end)
		p->count++;
	p->fill_count = 0;
	for (size_t k = 0; s->fill_count && k < p->count; k++)
		p->fill_count += p->changes[k] & 1;
	return true;
}

/* ---- the previous contents of a page */

struct dictionary {
	const struct kedge__digest *old;
	size_t count;
	uint64_t filter[FILTER_BITS / 64]; /* what is not in here is not there */
	uint8_t marks[PAGE_PATTERNS_MAX];  /* a byte of each digest, to be searched */
	struct kedge__digest own[PAGE_PATTERNS_MAX];
};

static void dictionary_fill(struct dictionary *d)
{
	memset(d->filter, 0, sizeof(d->filter));
	for (size_t i = 0; i < d->count; i++) {
		d->filter[d->old[i].lo % FILTER_BITS / 64] |= UINT64_C(1) << d->old[i].lo % 64;
		d->marks[i] = (uint8_t)(d->old[i].lo >> 56);
	}
}

/* The number of the first pattern with that digest; NEXT is tried first, so that neighbours move together. */
static int dictionary_find(const struct dictionary *d, struct kedge__digest key, size_t next)
{
	const uint8_t *at = d->marks, *end = at + d->count;

	if (!(d->filter[key.lo % FILTER_BITS / 64] >> key.lo % 64 & 1))
		return -1;
	if (next < d->count && kedge__digest_equal(d->old[next], key))
		return (int)next;
	for (; (at = memchr(at, (int)(key.lo >> 56), (size_t)(end - at))); at++)
		if (kedge__digest_equal(d->old[at - d->marks], key))
			return (int)(at - d->marks);
	return -1;
}

/* The last pattern of a region may be a short one, which is of no use. */
static size_t dictionary_make(struct dictionary *d, const struct kedge__rex_page_view *p, uint64_t chunk,
			      const struct kedge__digest *undo)
{
	uint64_t known = p->last->bytes / chunk, short_one = p->last->bytes % chunk != 0;
	size_t used = 0;

	d->count = known > p->first ? KEDGE__MIN(known - p->first, KEDGE__REX_PAGE / chunk) : 0;
	d->old = undo;
	if (d->count == p->count && d->count == KEDGE__REX_PAGE / chunk) { /* all are among those that changed */
		dictionary_fill(d);
		return p->count;
	}
	d->old = d->own;
	memcpy(d->own, p->last->digests + p->first, d->count * sizeof(d->own[0]));
	for (size_t i = 0; i < p->count && index_of(p, i) < known + short_one; i++, used++)
		if (index_of(p, i) < known)
			d->own[index_of(p, i) - p->first] = undo[used];
	dictionary_fill(d);
	return used;
}

size_t kedge__rex_page_moves(const struct kedge__rex_page_view *p, uint64_t chunk, const struct kedge__digest *undo)
{
	uint64_t whole = p->region->bytes / chunk;
	struct dictionary d;
	size_t used = dictionary_make(&d, p, chunk, undo), next = SIZE_MAX;

	for (size_t i = 0; i < p->count; i++) {
		int at = -1;

		if (p->kinds[i] == KEDGE__ITEM_PLAIN && index_of(p, i) < whole)
			at = dictionary_find(&d, p->last->digests[index_of(p, i)], next);
		next = at < 0 ? SIZE_MAX : (size_t)at + 1;
		if (at < 0)
			continue;
		p->kinds[i] = KEDGE__ITEM_SHIFT;
		p->values[i] = (uint32_t)at;
	}
	return used;
}

/* ---- what it is stored as */

static size_t plain_count(const struct kedge__rex_page_view *p)
{
	size_t n = 0;

	for (size_t i = 0; i < p->count; i++)
		n += p->kinds[i] == KEDGE__ITEM_PLAIN;
	return n;
}

/* All changes as items. */
static void make_items(const struct kedge__rex_page_view *p, const struct kedge__reducer *r, struct kedge__item *items)
{
	const uint64_t *fill = p->fills;

	for (size_t i = 0; i < p->count; i++) {
		struct kedge__item *item = &items[i];

		*item = (struct kedge__item){.index = index_of(p, i), .src = p->values[i], .kind = p->kinds[i]};
		if (item->kind == KEDGE__ITEM_FILL)
			item->src = *fill++;
		if (item->kind != KEDGE__ITEM_SHIFT)
			continue;
		item->epoch = r->txn.parent_epoch;
		item->src = p->region->base + (p->first + item->src) * r->options.chunk;
	}
}

/* What a page takes as literals and pointers (FORMAT.md, "Pages"), and what its runs cost when it is read. Never more
 * than kedge__rex_may_be_literal() reckons with. */
static uint64_t pointers_cost(const struct kedge__rex_page_view *p, const struct kedge__item *items, uint64_t chunk)
{
	static const uint8_t extra[] = {[KEDGE__ITEM_SHIFT] = 1, [KEDGE__ITEM_FILL] = 2, [KEDGE__ITEM_BACK] = 3};
	uint64_t cost = 2, next = p->first, go_on = 0;
	unsigned last = KEDGE__ITEM_PAGE; /* none */

	for (const struct kedge__item *item = items; item < items + p->count; item++) {
		unsigned kind = item->kind;
		uint64_t here = kind == KEDGE__ITEM_FILL   ? item->src
				: kind == KEDGE__ITEM_BACK ? item->src - item->index
							   : item->src - item->index * chunk;

		if (kind == KEDGE__ITEM_PLAIN)
			cost += kedge__item_len(p->region, item->index, chunk);
		if (item->index != next)
			cost++;
		if (item->index != next || kind != last || (kind != KEDGE__ITEM_PLAIN && here != go_on))
			cost += KEDGE__REX_RUN_COST + extra[kind];
		last = kind;
		go_on = here;
		next = item->index + 1;
	}
	return cost;
}

bool kedge__rex_may_be_literal(uint64_t len, uint64_t changed, uint64_t chunk)
{
	return 2 + changed * (chunk + 1 + KEDGE__REX_RUN_COST + 3) + len / 8 > len;
}

/* One constant, all over the page. What did not change is known by its digest alone: TRUST it. */
static bool is_constant(const struct kedge__rex_page_view *p, uint64_t chunk, uint64_t len, bool trust)
{
	const struct kedge__digest *digests = p->last->digests;
	size_t at = 0;

	if (p->fill_count != p->count || !kedge__fills_are_one(p->fills, p->count))
		return false;
	for (uint64_t i = p->first; i * chunk < p->first * chunk + len; i++) {
		if (at < p->count && index_of(p, at) == i)
			at++;
		else if (!trust || (i + 1) * chunk > p->region->bytes ||
			 !kedge__digest_equal(digests[i], digests[index_of(p, 0)]))
			return false;
	}
	return true;
}

static void note_literals(const struct kedge__rex_page_view *p, uint64_t chunk, struct kedge__rex_page *literals)
{
	for (size_t i = 0; i < p->count; i++) {
		uint64_t in_page = index_of(p, i) - p->first;

		if (p->kinds[i] != KEDGE__ITEM_PLAIN)
			continue;
		literals->position += kedge__item_len(p->region, index_of(p, i), chunk);
		literals->plain[in_page / 64] |= UINT64_C(1) << in_page % 64;
	}
}

size_t kedge__rex_page_decide(const struct kedge__rex_page_view *p, const struct kedge__reducer *r,
			      struct kedge__item *items, struct kedge__rex_page *literals)
{
	uint64_t chunk = r->options.chunk, offset = p->first * chunk;
	uint64_t len = KEDGE__MIN(KEDGE__REX_PAGE, p->region->bytes - offset);

	*literals = (struct kedge__rex_page){0};
	if (is_constant(p, chunk, len, !r->options.paranoid)) {
		*items = (struct kedge__item){.index = p->first, .src = p->fills[0], .kind = KEDGE__ITEM_PAGE_FILL};
		return 1;
	}
	/* Most that do not pay have too many literals, whatever their pointers take; all but the last of a region are
	 * whole. */
	if (plain_count(p) * chunk + len / 8 <= len + chunk) {
		make_items(p, r, items);
		if (pointers_cost(p, items, chunk) + len / 8 <= len) {
			note_literals(p, chunk, literals);
			return p->count;
		}
	}
	*items = (struct kedge__item){.index = p->first, .kind = KEDGE__ITEM_PAGE};
	literals->position = len;
	memset(literals->plain, 0xff, sizeof(literals->plain));
	return 1;
}
