/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * emit.h: results become extents and literals, slab by slab in the order of addresses.
 */
#ifndef KEDGE_REDUCE_EMIT_H
#define KEDGE_REDUCE_EMIT_H

#include "reduce/reducer.h"

struct kedge__origin { /* a place to copy from, as its distance */
	uint32_t epoch;
	uint64_t delta; /* src - addr */
};

struct kedge__copy_run {
	uint64_t addr, len;
	struct kedge__origin origins[2];
	int count;
};

struct kedge__emitter {
	struct kedge__reducer *r;
	struct kedge__txn *t;
	struct kedge__reduction *out;
	const struct kedge__image_region *region;
	size_t region_index;
	uint64_t cursor; /* offset in it up to which extents have been made */
	struct kedge__sum sum; /* of its slabs so far */
	bool merge, full;
	bool *epoch_used;
	size_t root; /* the one that may cover the next item */
	struct kedge__copy_run run;
	struct kedge__error *err;
};

/* ERR is for all that follows; an emitter that did not begin may be done. */
int kedge__emitter_begin(struct kedge__emitter *e, struct kedge__reducer *r, struct kedge__reduction *out,
			 struct kedge__error *err);
/* Slabs come in order; ITEMS, N of them, are those of this one. */
int kedge__emitter_slab(struct kedge__emitter *e, size_t slab, const struct kedge__item *items, size_t n);
int kedge__emitter_end(struct kedge__emitter *e);
void kedge__emitter_done(struct kedge__emitter *e);

#endif
