/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * emit.h: results become extents and literals, slab by slab in the order of addresses.
 */
#ifndef KEDGE_REDUCE_EMIT_H
#define KEDGE_REDUCE_EMIT_H

#include "reduce/reducer.h"

struct kedge__copy_run { /* chunks that follow each other here, and where they come from */
	uint64_t addr, len;  /* len: 0 for none */
	struct kedge__place from;
	const struct kedge__last_region *region; /* that of the last version at that place; NULL: none */
};

struct kedge__emitter {
	struct kedge__reducer *r;
	struct kedge__txn *t;
	struct kedge__reduction *out;
	const struct kedge__image_region *region;
	size_t region_index;
	uint64_t cursor; /* offset in it up to which extents have been made */
	bool merge, full;
	bool *epoch_used;
	struct kedge__copy_run run;
	struct kedge__error *err;
};

/* ERR is for all that follows; an emitter that did not begin may be done. */
int kedge__emitter_begin(struct kedge__emitter *e, struct kedge__reducer *r, struct kedge__reduction *out,
			 struct kedge__error *err);
/* PART is for the slabs from number SLAB on, beside others of E, and makes *OUT of them, whose literals begin at 0. */
void kedge__emitter_fork(const struct kedge__emitter *e, size_t slab, struct kedge__reduction *out,
			 struct kedge__emitter *part);
/* Slabs come in order; ITEMS, N of them, are those of this one. */
int kedge__emitter_slab(struct kedge__emitter *e, size_t slab, const struct kedge__item *items, size_t n);
/* There is nothing more before SLAB, or the end. */
int kedge__emitter_until(struct kedge__emitter *e, size_t slab);
int kedge__emitter_end(struct kedge__emitter *e);
void kedge__emitter_done(struct kedge__emitter *e);

/* parts.c: all slabs, on all threads. */
int kedge__emit_slabs(struct kedge__emitter *e);

#endif
