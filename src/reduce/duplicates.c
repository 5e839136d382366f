/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * duplicates.c: each changed chunk that is not constant is looked up in the record: it is a first occurrence and
 * entered, or the same as one that was seen before. Goes in waves, so that little memory is needed at once.
 */
#include "reduce/reducer.h"

#define WAVE  ((size_t)1 << 18)
#define BLOCK ((size_t)4096) /* independent of the number of threads */

/* The slab that holds ITEM. */
static size_t slab_of(const struct kedge__txn *t, size_t item)
{
	size_t i;

	KEDGE__LAST_BEFORE(i, t->slabs.count, t->slabs.at[i].item_at <= item);
	return i;
}

/* A wave, in blocks that threads share. */
struct wave {
	struct kedge__reducer *r;
	struct kedge__probe *probes;
	size_t begin, end;           /* items */
	size_t count;                /* probes */
	size_t counts[WAVE / BLOCK]; /* of a block, before they are moved together */
};

/* Probes for the items of a block, at the block's place. */
static int make_probes(void *ctx, size_t block, int worker)
{
	struct wave *w = ctx;
	const struct kedge__txn *t = &w->r->txn;
	size_t begin = w->begin + block * BLOCK, end = KEDGE__MIN(begin + BLOCK, w->end);
	size_t n = block * BLOCK, slab = slab_of(t, begin);

	(void)worker;
	for (size_t i = begin; i < end; i++) {
		const struct kedge__item *item = &t->items.at[i];

		while (i >= kedge__slab_end(t, slab))
			slab++;
		if (item->kind != KEDGE__ITEM_PLAIN)
			continue;
		w->probes[n++] = (struct kedge__probe){
		    .key = t->regions[t->slabs.at[slab].region]->digests[item->index],
		    .addr = kedge__slab_region(t, &t->slabs.at[slab])->base + item->index * w->r->options.chunk,
		    .item = (uint32_t)(i - w->begin),
		};
	}
	w->counts[block] = n - block * BLOCK;
	return 0;
}

/* Constant chunks leave gaps between the blocks. */
static void close_gaps(struct wave *w, size_t blocks)
{
	w->count = 0;
	for (size_t i = 0; i < blocks; i++) {
		if (w->count < i * BLOCK)
			memmove(w->probes + w->count, w->probes + i * BLOCK, w->counts[i] * sizeof(*w->probes));
		w->count += w->counts[i];
	}
}

static int take_outcomes(void *ctx, size_t block, int worker)
{
	const struct wave *w = ctx;
	size_t end = KEDGE__MIN((block + 1) * BLOCK, w->count);

	(void)worker;
	for (size_t i = block * BLOCK; i < end; i++) {
		const struct kedge__probe *p = &w->probes[i];
		struct kedge__item *item = &w->r->txn.items.at[w->begin + p->item];

		if (p->outcome == KEDGE__PROBE_FOUND) {
			item->kind = KEDGE__ITEM_SHIFT;
			item->src = p->src;
			item->epoch = p->epoch;
		} else if (p->outcome == KEDGE__PROBE_ENTERED) {
			item->kind = KEDGE__ITEM_FIRST;
			item->epoch = w->r->record.current;
		}
	}
	return 0;
}

static int run_wave(struct wave *w, struct kedge__error *err)
{
	struct kedge__pool *pool = kedge__pool_if(w->r->txn.pool, w->end - w->begin);
	size_t blocks = (w->end - w->begin + BLOCK - 1) / BLOCK;
	int rc;

	kedge__pool_for(pool, blocks, make_probes, w);
	close_gaps(w, blocks);
	rc = kedge__record_enter(&w->r->record, pool, w->probes, w->count, err);
	if (!rc)
		kedge__pool_for(pool, (w->count + BLOCK - 1) / BLOCK, take_outcomes, w);
	return rc;
}

/* Paranoid: a duplicate that is none, or that cannot be read again, stays a literal. */
static void check_duplicates(struct kedge__reducer *r)
{
	struct kedge__txn *t = &r->txn;

	for (size_t s = 0; s < t->slabs.count; s++) {
		const struct kedge__image_region *region = kedge__slab_region(t, &t->slabs.at[s]);

		for (size_t i = t->slabs.at[s].item_at; i < kedge__slab_end(t, s); i++) {
			struct kedge__item *item = &t->items.at[i];
			uint64_t offset = item->index * r->options.chunk;

			if (item->kind == KEDGE__ITEM_SHIFT &&
			    !kedge__paranoid_equal(r, t->slabs.at[s].region, offset,
						   kedge__item_len(region, item->index, r->options.chunk), item->epoch,
						   item->src))
				item->kind = KEDGE__ITEM_PLAIN;
		}
	}
}

int kedge__duplicates_find(struct kedge__reducer *r, struct kedge__error *err)
{
	size_t items = r->txn.items.count, room = KEDGE__MIN(items, (size_t)WAVE);
	struct wave w = {.r = r, .probes = kedge__malloc((room + 1) * sizeof(*w.probes))};
	int rc = w.probes ? 0 : kedge__error_nomem(err);

	r->record.expected = items / KEDGE__RECORD_SHARDS;
	for (; !rc && w.begin < items; w.begin += WAVE) {
		w.end = KEDGE__MIN(w.begin + WAVE, items);
		rc = run_wave(&w, err);
	}
	r->record.expected = 0;
	kedge__free(w.probes);
	if (!rc && r->options.paranoid)
		check_duplicates(r);
	return rc;
}
