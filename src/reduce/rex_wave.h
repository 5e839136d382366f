/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rex_wave.h: the patterns of a version go through rex in waves of slabs, few enough that everything about them
 * stays in the cache. Each slab notes its candidates; these are sorted by parts of the DeD-Table, and each
 * part takes its own in the order of addresses: neither the number of threads that share the parts nor the division into
 * waves matters.
 */
#ifndef KEDGE_REDUCE_REX_WAVE_H
#define KEDGE_REDUCE_REX_WAVE_H

#include "reduce/reducer.h"

struct kedge__rex_probe {
	uint64_t hash;
	uint32_t change; /* of the wave */
	uint32_t number; /* of the pattern */
};

/* A change is a pattern that changed; here they are counted from the first of the wave. */
struct kedge__rex_wave {
	struct kedge__reducer *r;
	size_t slab, slabs;              /* the first, how many */
	size_t begin, end;               /* changes, among all */
	size_t room, slab_room;          /* changes and slabs it may have */
	uint8_t *kinds;                  /* of each change: PLAIN, FILL, SHIFT or BACK */
	uint32_t *values;                /* SHIFT: the pattern of the page before; BACK: the number of the pattern */
	struct kedge__rex_probe *noted;  /* candidates of each slab, from the place of its first change on */
	size_t *noted_counts;            /* of each slab */
	struct kedge__rex_probe *probes; /* all of them, by parts */
	uint32_t *counts;                /* of a slab and part, then where they go */
	struct kedge__item *items;       /* what is emitted of each slab, from the place of its first change on */
	size_t *item_counts;             /* of each slab */
	uint32_t starts[KEDGE__REX_PARTS + 1];
};

/* The reducer's wave, before the first slab. */
int kedge__rex_wave_begin(struct kedge__reducer *r, struct kedge__rex_wave **out, struct kedge__error *err);
void kedge__rex_wave_free(struct kedge__rex_wave *w);
/* Move on to the next slabs; false: there are none. */
bool kedge__rex_wave_next(struct kedge__rex_wave *w);
/* The candidates of slab I of the wave: full patterns that are literals so far and may occur again. */
void kedge__rex_wave_note(struct kedge__rex_wave *w, size_t i);
/* Candidates that occurred earlier in this version become KEDGE__ITEM_BACK. */
void kedge__rex_wave_find(struct kedge__rex_wave *w, struct kedge__pool *pool);

static inline const struct kedge__slab *kedge__rex_wave_slab(const struct kedge__rex_wave *w, size_t i)
{
	return &w->r->txn.slabs.at[w->slab + i];
}

/* The first change of slab I of the wave. */
static inline size_t kedge__rex_wave_at(const struct kedge__rex_wave *w, size_t i)
{
	return kedge__rex_wave_slab(w, i)->item_at - w->begin;
}

/* Changes of a slab as the hash pass noted them: pattern of the slab << 1 | is a fill. */
static inline const uint16_t *kedge__slab_changes(const struct kedge__txn *t, const struct kedge__slab *s)
{
	return t->workers[s->worker].changes.at + s->change_at;
}

/* ------------------------------------------------------------------ rex_page.c */

#define KEDGE__REX_RUN_COST 24 /* bytes that a run must save: one for its pointer, the rest for the piece it is at restore */

struct kedge__rex_page_view { /* the changes of one page */
	const struct kedge__image_region *region;
	const struct kedge__last_region *last;
	uint64_t slab_first;     /* patterns of the region: the first of the slab, */
	uint64_t first;          /* and of the page */
	const uint16_t *changes;
	size_t count;
	const uint64_t *fills;   /* of those of them that are constant */
	size_t fill_count;
	uint8_t *kinds;
	uint32_t *values;
};

/* Move on to the next page of slab I, or to the first if P is all zero; false: there is none. */
bool kedge__rex_page_next(const struct kedge__rex_wave *w, size_t i, struct kedge__rex_page_view *p);
/* Changes that were elsewhere in the same page of the last version become KEDGE__ITEM_SHIFT. UNDO: the old digests of
 * those of them that had one; how many they are. */
size_t kedge__rex_page_moves(const struct kedge__rex_page_view *p, uint64_t chunk, const struct kedge__digest *undo);
/* Decide on the page: its items go to ITEMS, and their number is returned; its literals have their sizes in `position`. */
size_t kedge__rex_page_decide(const struct kedge__rex_page_view *p, const struct kedge__reducer *r,
			      struct kedge__item *items, struct kedge__rex_page *literals);

#endif
