/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * finder.c: buckets of 12 entries; a digest may be in one of two buckets of its block, and a new entry goes to the one
 * with more room. So blocks fill nearly up before an entry finds no place, entries never move, and one that is taken
 * out leaves nothing behind.
 */
#include "reduce/reducer.h"

#define BUCKET_BYTES sizeof(struct kedge__finder_bucket)

/* Of 6 places, 5 are used when it is full by count: then hardly any digest has two full buckets. */
static uint64_t places_for(uint64_t entries)
{
	return entries + entries / 5 + 4 * KEDGE__BUCKET;
}

static unsigned bits_of(uint64_t n)
{
	unsigned bits = 1;

	while (n >> bits)
		bits++;
	return bits;
}

/* Where it is to be stays. */
static void reset(struct kedge__finder *x)
{
	*x = (struct kedge__finder){.ops = x->ops, .device = x->device};
}

/* A block with a power of two of buckets, or as many full blocks as are needed. */
static void size_for(struct kedge__finder *x, uint64_t buckets, uint64_t limit)
{
	x->buckets = 1;
	while (x->buckets < KEDGE__BLOCK_BUCKETS && x->buckets < buckets && 2 * x->buckets <= limit)
		x->buckets *= 2;
	x->blocks = KEDGE__MAX(KEDGE__MIN(kedge__chunks_of(buckets, x->buckets), limit / x->buckets), 1);
	if (x->buckets < KEDGE__BLOCK_BUCKETS)
		x->blocks = 1;
}

int kedge__finder_make(struct kedge__finder *x, enum kedge__finder_state state, uint64_t entries, uint64_t numbers,
		       uint64_t limit, struct kedge__error *err)
{
	int rc;

	kedge__finder_drop(x);
	if (limit < BUCKET_BYTES)
		return 0;
	size_for(x, kedge__chunks_of(places_for(entries), KEDGE__BUCKET), limit / BUCKET_BYTES);
	x->bits = bits_of(numbers);
	x->room = x->blocks * x->buckets * KEDGE__BUCKET / 6 * 5;
	rc = x->ops->alloc(x, err);
	if (rc)
		reset(x);
	else
		x->state = state;
	return rc;
}

void kedge__finder_drop(struct kedge__finder *x)
{
	if (!x->state)
		return;
	x->ops->release(x);
	reset(x);
}

static int here_alloc(struct kedge__finder *x, struct kedge__error *err)
{
	x->at = kedge__large_alloc(kedge__finder_bytes(x));
	return x->at ? 0 : kedge__error_nomem(err);
}

static void here_release(struct kedge__finder *x)
{
	kedge__large_free(x->at, kedge__finder_bytes(x));
}

const struct kedge__finder_ops kedge__finder_here = {
    .alloc = here_alloc,
    .release = here_release,
    .build = kedge__build_here,
    .find = kedge__find_here,
    .prepare = kedge__prepare_here,
    .forget = kedge__forget_here,
    .leave = kedge__leave_here,
    .adopt = kedge__adopt_here,
    .take_out = kedge__take_out_here,
};

/* Of 12 bits. */
static unsigned count_bits(unsigned mask)
{
	mask -= mask >> 1 & 0x555;
	mask = (mask & 0x333) + (mask >> 2 & 0x333);
	return (mask + (mask >> 4) + (mask >> 8)) & 0xf;
}

bool kedge__spot_put(const struct kedge__spot *s, uint32_t entry)
{
	unsigned free[2] = {kedge__finder_match(s->bucket[0], 0), kedge__finder_match(s->bucket[1], 0)};
	int which = count_bits(free[1]) > count_bits(free[0]);
	unsigned i;

	if (!free[which])
		return false;
	i = (unsigned)__builtin_ctz(free[which]);
	s->bucket[which]->tags[i] = s->tag;
	s->bucket[which]->entries[i] = entry;
	return true;
}
