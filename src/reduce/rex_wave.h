/*
 * rex_wave.h: the patterns of a version go through the DeD-Table in waves. Each slab notes the hashes of its candidates;
 * these are sorted by parts of the table, and each part takes its own in the order of addresses: its buckets stay in the
 * cache meanwhile, and it does not matter how many threads share the parts.
 */
#ifndef KEDGE_REDUCE_REX_WAVE_H
#define KEDGE_REDUCE_REX_WAVE_H

#include "reduce/reducer.h"

struct kedge__rex_probe {
	uint32_t low, high; /* of the hash */
	uint32_t item;
};

struct kedge__rex_wave {
	struct kedge__reducer *r;
	size_t slab, slabs;              /* the first, how many */
	size_t begin, end;               /* items */
	size_t room;                     /* items it may have */
	uint64_t *hashes;                /* of all items; 0: not a candidate */
	struct kedge__rex_probe *probes; /* candidates by parts */
	uint32_t *counts;                /* of a slab and part, then where they go */
	uint32_t starts[KEDGE__REX_PARTS + 1];
};

int kedge__rex_wave_init(struct kedge__rex_wave *w, struct kedge__reducer *r, struct kedge__error *err);
void kedge__rex_wave_done(struct kedge__rex_wave *w);
/* Go on to the next slabs; false: there are none with items. */
bool kedge__rex_wave_next(struct kedge__rex_wave *w);
/* The candidates of slab I of the wave: whole patterns that are literals so far. */
void kedge__rex_wave_note(struct kedge__rex_wave *w, size_t i);
/* Candidates that stood earlier in this version become KEDGE__ITEM_BACK. */
void kedge__rex_wave_find(struct kedge__rex_wave *w, struct kedge__pool *pool);

#endif
