/*
 * direct.c: which blocks may be read right into the memory that they belong to, although parts of them are dead. A base
 * version with a little of each block overwritten since is the common case, and a copy of nearly all bytes is saved.
 *
 * What makes it right: such blocks come first, all others and the fills after them, so that whatever a dead part put in
 * the wrong place is written over; and no two of them overlap, so that none puts dead bytes over another's live ones.
 */
#include "restore/read_plan.h"

#include <stdlib.h>

/* Where the block would begin if all of it lay as its pieces do; NULL if they do not lie in one row, or too few are
 * live. */
static uint8_t *block_base(const struct kedge__read_plan *plan, const struct kedge__read_plan_block *b)
{
	const struct kedge__piece *p = &plan->pieces[b->first];
	uint64_t raw = b->segment->blocks[b->block].raw_bytes, live = 0;

	for (size_t i = 0; i < b->count; i++) {
		if (p[i].to - p[i].offset != p[0].to - p[0].offset || p[i].target != p[0].target)
			return NULL;
		live += p[i].len;
	}
	return live >= raw / 2 && live < raw ? p[0].to - p[0].offset : NULL;
}

static bool inside(const struct kedge__read_plan_block *b, const uint8_t *base,
		   const struct kedge__read_plan_slot *slot)
{
	uint64_t raw = b->segment->blocks[b->block].raw_bytes;

	return base >= slot->data && (uint64_t)(base - slot->data) + raw <= slot->bytes;
}

static int by_place(const void *a, const void *b)
{
	const struct kedge__read_plan_block *const *x = a, *const *y = b;

	return ((*x)->direct > (*y)->direct) - ((*x)->direct < (*y)->direct);
}

/* The first of those that overlap stays. */
static void drop_overlaps(struct kedge__read_plan_block **blocks, size_t n)
{
	const uint8_t *end = NULL;

	qsort(blocks, n, sizeof(blocks[0]), by_place);
	for (size_t i = 0; i < n; i++) {
		if (end && blocks[i]->direct < end)
			blocks[i]->direct = NULL;
		else
			end = blocks[i]->direct + blocks[i]->segment->blocks[blocks[i]->block].raw_bytes;
	}
}

int kedge__read_plan_direct(struct kedge__read_plan *plan, const struct kedge__read_plan_slot *slots, size_t n,
			    struct kedge__error *err)
{
	const struct kedge__read_plan_slot **of = kedge__calloc(n + 1, sizeof(*of)); /* a target */
	KEDGE__ARRAY(struct kedge__read_plan_block *) found = {0};
	int rc = of ? 0 : kedge__error_nomem(err);

	for (size_t i = 0; i < n && !rc; i++)
		of[slots[i].target] = &slots[i];
	for (size_t i = 0; i < plan->blocks.count && !rc; i++) {
		struct kedge__read_plan_block *b = &plan->blocks.at[i];
		uint8_t *base = block_base(plan, b);

		if (!base || !inside(b, base, of[plan->pieces[b->first].target]))
			continue;
		b->direct = base;
		if (!kedge__array_push(&found, b))
			rc = kedge__error_nomem(err);
	}
	if (!rc && found.count)
		drop_overlaps(found.at, found.count);
	kedge__array_done(&found);
	kedge__free(of);
	return rc;
}
