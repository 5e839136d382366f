/* SPDX-License-Identifier: BSD-3-Clause */
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

/* ---- where literals are */

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

/* ---- paranoid: what is not the same in bytes stays a literal */

/* Of a pattern of this version, in the image. */
static uint64_t address_of(const struct kedge__reducer *r, uint64_t number)
{
	uint64_t per_slab = KEDGE__SLAB_BYTES / r->options.chunk;
	const struct kedge__slab *s = &r->txn.slabs.at[number / per_slab];

	return kedge__slab_region(&r->txn, s)->base + (s->first + number % per_slab) * r->options.chunk;
}

static bool really_same(const struct kedge__reducer *r, const struct kedge__slab *s,
			const struct kedge__rex_page_view *p, size_t i)
{
	uint64_t chunk = r->options.chunk, offset = (s->first + (p->changes[i] >> 1)) * chunk;

	if (p->kinds[i] == KEDGE__ITEM_SHIFT)
		return kedge__paranoid_equal(r, s->region, offset, chunk, r->txn.parent_epoch,
					     p->region->base + (p->first + p->values[i]) * chunk);
	if (p->kinds[i] == KEDGE__ITEM_BACK)
		return kedge__paranoid_equal(r, s->region, offset, chunk, r->record.epochs.current,
					     address_of(r, p->values[i]));
	return true;
}

static void check_bytes(const struct kedge__rex_wave *w)
{
	for (size_t slab = 0; slab < w->slabs; slab++) {
		struct kedge__rex_page_view p = {0};

		while (kedge__rex_page_next(w, slab, &p))
			for (size_t i = 0; i < p.count; i++)
				if (!really_same(w->r, kedge__rex_wave_slab(w, slab), &p, i))
					p.kinds[i] = KEDGE__ITEM_PLAIN;
	}
}

/* ---- waves */

static int prepare_slab(void *ctx, size_t i, int worker)
{
	struct kedge__rex_wave *w = ctx;
	const struct kedge__txn *t = &w->r->txn;
	struct kedge__slab *s = &t->slabs.at[w->slab + i];
	const uint16_t *changes = kedge__slab_changes(t, s);
	const struct kedge__digest *undo = t->workers[s->worker].apart.at + s->apart_at;
	uint8_t *kinds = w->kinds + kedge__rex_wave_at(w, i);
	struct kedge__rex_page_view p = {0};

	(void)worker;
	memset(kinds, KEDGE__ITEM_PLAIN, s->count);
	for (size_t k = 0; s->fill_count && k < s->count; k++)
		if (changes[k] & 1)
			kinds[k] = KEDGE__ITEM_FILL;
	while (kedge__rex_page_next(w, i, &p)) {
		s->pages |= UINT64_C(1) << (p.first - s->first) * w->r->options.chunk / KEDGE__REX_PAGE;
		if (t->parent_epoch && s->apart_count)
			undo += kedge__rex_page_moves(&p, w->r->options.chunk, undo);
	}
	kedge__rex_wave_note(w, i);
	return 0;
}

static int decide_slab(void *ctx, size_t i, int worker)
{
	struct kedge__rex_wave *w = ctx;
	struct kedge__rex_page *literals = w->r->txn.pages.at + kedge__rex_wave_slab(w, i)->page_at;
	struct kedge__item *items = w->items + kedge__rex_wave_at(w, i);
	struct kedge__rex_page_view p = {0};
	size_t n = 0;

	(void)worker;
	while (kedge__rex_page_next(w, i, &p))
		n += kedge__rex_page_decide(&p, w->r, items + n, literals++);
	w->item_counts[i] = n;
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
		rc = kedge__emitter_slab(t->emitter, w->slab + i, w->items + kedge__rex_wave_at(w, i),
					 w->item_counts[i]);
	return rc;
}

static int run_wave(struct kedge__rex_wave *w, struct kedge__error *err)
{
	struct kedge__pool *pool = kedge__pool_if(w->r->txn.pool, w->end - w->begin);

	kedge__pool_for(pool, w->slabs, prepare_slab, w);
	if (!pages_reserve(&w->r->txn, w))
		return kedge__error_nomem(err);
	kedge__rex_wave_find(w, pool);
	if (w->r->options.paranoid)
		check_bytes(w);
	kedge__pool_for(pool, w->slabs, decide_slab, w);
	return wave_emit(w);
}

static int run(struct kedge__reducer *r, struct kedge__error *err)
{
	struct kedge__txn *t = &r->txn;
	struct kedge__rex_wave *w;
	int rc;

	t->parent_epoch = t->compare ? kedge__epochs_find(&r->record.epochs, r->parent) : 0;
	rc = kedge__rex_wave_begin(r, &w, err);
	while (!rc && kedge__rex_wave_next(w))
		rc = run_wave(w, err);
	return rc;
}

const struct kedge__reducer_ops kedge__rex_ops = {
    .name = "rex", .run = run, .hashes = true, .merge = true, .pages = true, .waves = true};
