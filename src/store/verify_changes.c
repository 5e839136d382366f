/* SPDX-License-Identifier: BSD-3-Clause */
/* Where a version differs from its parent, in units of words, because the digest of a region is a sum over words. */
#include "store/verify.h"

#define WORD UINT64_C(8)

struct changes {
	const struct kedge__segment *seg, *parent;
	struct kedge__range_list *fresh, *stale;
	size_t extent; /* in SEG's map: the first one of the region being compared */
	bool apart;    /* it refers to bytes that the parent does not have, or its sum is of another kind */
};

static uint64_t word_begin(uint64_t offset)
{
	return offset & ~(WORD - 1);
}

static uint64_t word_end(uint64_t offset)
{
	return word_begin(offset + WORD - 1);
}

static bool push(struct kedge__range_list *list, uint64_t base, uint64_t from, uint64_t to)
{
	return from >= to || kedge__array_push(list, ((struct kedge__range){base + from, to - from}));
}

/* One change of a region that has BYTES bytes, and had BEFORE. */
static bool push_both(const struct changes *c, uint64_t base, struct kedge__range words, uint64_t bytes,
		      uint64_t before)
{
	uint64_t end = words.start + words.len;

	return push(c->fresh, base, words.start, KEDGE__MIN(end, bytes)) &&
	       push(c->stale, base, words.start, KEDGE__MIN(end, before));
}

/* Its sum cannot go on from the parent's. */
static bool rule_differs(const struct changes *c, const struct kedge__region_record *r, size_t old)
{
	return old != SIZE_MAX && c->parent->regions[old].rule != r->rule;
}

/* Changes of region I: runs of extents that are not the parent's, and everything beyond the end of the smaller one. */
static bool list_region(struct changes *c, size_t i)
{
	const struct kedge__region_record *r = &c->seg->regions[i];
	uint64_t base = (uint64_t)r->slot << KEDGE__SLOT_SHIFT, bytes = r->bytes;
	size_t old = kedge__segment_slot_region(c->parent, r->slot);
	uint64_t before = old == SIZE_MAX ? 0 : c->parent->regions[old].bytes;
	uint64_t same = bytes == before ? UINT64_MAX : word_begin(KEDGE__MIN(bytes, before));
	struct kedge__range run = {0, 0};
	uint64_t next = 0; /* where the extent before ended: what lies between is the parent's */

	for (; c->extent < c->seg->map.count && c->seg->map.at[c->extent].addr - base < bytes; c->extent++) {
		const struct kedge__extent *e = &c->seg->map.at[c->extent];
		uint64_t from = word_begin(e->addr - base), to = word_end(e->addr - base + e->len);

		c->apart |= e->addr - base > KEDGE__MAX(next, before);
		next = e->addr - base + e->len;
		if (from >= same)
			continue;
		to = KEDGE__MIN(to, same);
		if (run.len && from <= run.start + run.len) {
			run.len = KEDGE__MAX(run.len, to - run.start);
			continue;
		}
		if (!push_both(c, base, run, bytes, before))
			return false;
		run = (struct kedge__range){from, to - from};
	}
	c->apart |= rule_differs(c, r, old) || bytes > KEDGE__MAX(next, before);
	if (!push_both(c, base, run, bytes, before))
		return false;
	run = (struct kedge__range){same, word_end(KEDGE__MAX(bytes, before)) - same};
	return same == UINT64_MAX || push_both(c, base, run, bytes, before);
}

static uint64_t list_bytes(const struct kedge__range_list *list)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < list->count; i++)
		bytes += list->at[i].len;
	return bytes;
}

static int list_all(const struct kedge__segment *seg, struct kedge__range_list *fresh, struct kedge__error *err)
{
	for (size_t i = 0; i < seg->region_count; i++)
		if (!push(fresh, (uint64_t)seg->regions[i].slot << KEDGE__SLOT_SHIFT, 0, seg->regions[i].bytes))
			return kedge__error_nomem(err);
	return 0;
}

int kedge__changes_list(struct kedge__family *f, size_t m, struct kedge__range_list *fresh,
			struct kedge__range_list *stale, struct kedge__error *err)
{
	struct kedge__member *member = &f->members[m];
	struct changes c = {.seg = member->seg, .fresh = fresh, .stale = stale};

	fresh->count = stale->count = 0;
	if (member->parent == KEDGE__NO_MEMBER || f->members[member->parent].failed)
		member->apart = true;
	if (member->apart)
		return list_all(member->seg, fresh, err);
	c.parent = f->members[member->parent].seg;
	for (size_t i = 0; i < c.seg->region_count; i++)
		if (!list_region(&c, i))
			return kedge__error_nomem(err);
	if (!c.apart && list_bytes(fresh) + list_bytes(stale) < c.seg->summary.raw_bytes)
		return 0;
	member->apart = true;
	fresh->count = stale->count = 0;
	return list_all(member->seg, fresh, err);
}
