/*
 * rex_wave.h: the patterns of a version go through rex in waves of slabs, few enough that all that is known of them
 * stays in the cache. Each slab notes the hashes of its candidates; these are sorted by parts of the DeD-Table, and each
 * part takes its own in the order of addresses: it does not matter how many threads share the parts, nor how slabs make
 * waves.
 */
#ifndef KEDGE_REDUCE_REX_WAVE_H
#define KEDGE_REDUCE_REX_WAVE_H

#include "reduce/reducer.h"

struct kedge__rex_probe {
	uint32_t low, high; /* of the hash */
	uint32_t item;      /* of the wave */
	uint32_t number;    /* of the pattern */
};

struct kedge__rex_wave {
	struct kedge__reducer *r;
	size_t slab, slabs;              /* the first, how many */
	size_t begin, end;               /* items */
	size_t room, slab_room;          /* items and slabs it may have */
	struct kedge__item *items;       /* those from `begin` on */
	uint64_t *hashes;                /* of all items; 0: not a candidate */
	struct kedge__rex_probe *probes; /* candidates by parts */
	uint32_t *counts;                /* of a slab and part, then where they go */
	uint32_t starts[KEDGE__REX_PARTS + 1];
};

/* The reducer's wave, before the first slab. */
int kedge__rex_wave_begin(struct kedge__reducer *r, struct kedge__rex_wave **out, struct kedge__error *err);
void kedge__rex_wave_free(struct kedge__rex_wave *w);
/* Go on to the next slabs; false: there are none. */
bool kedge__rex_wave_next(struct kedge__rex_wave *w);
/* The candidates of slab I of the wave: whole patterns that are literals so far. */
void kedge__rex_wave_note(struct kedge__rex_wave *w, size_t i);
/* Candidates that stood earlier in this version become KEDGE__ITEM_BACK. */
void kedge__rex_wave_find(struct kedge__rex_wave *w, struct kedge__pool *pool);

/* Items of slab I of the wave. */
static inline struct kedge__item *kedge__rex_wave_items(const struct kedge__rex_wave *w, size_t i)
{
	return w->items + (w->r->txn.slabs.at[w->slab + i].item_at - w->begin);
}

#endif
