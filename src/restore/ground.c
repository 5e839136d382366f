/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ground: literals that are read directly to their places, whole cells of them, with the dead bytes among them.
 * Others put the right bytes over those afterwards. So literals in many pieces take one read, no copy and no list of
 * pieces. Such cells are filled before all others, and none may write where another one does: therefore they are, for
 * each target, literals of one version, without a codec, that are all shifted by the same distance. It is chosen before
 * the maps are resolved, as what probably has most of the live bytes. A target on a GPU has ground only if hardly any
 * of it can be dead, because all of it crosses a bus.
 */
#include "restore/read_plan.h"

#define TARGET_LEAST (UINT64_C(16) << 10) /* bytes of a target that is worth it */

/* What is known of a target while versions are looked at, the newest first. */
struct hope {
	uint64_t newer; /* literals of the versions so far */
	uint64_t best;  /* bytes of the ground, less those that newer versions have */
};

struct chooser {
	struct kedge__read_plan *plan;
	const struct kedge__read_plan_slot *slots;
	size_t count;
	struct hope *hopes; /* one per slot */
};

/* The longest run of literals of MEMBER in SLOT that are all shifted by *SHIFT. */
static uint64_t run_find(const struct kedge__read_plan_member *m, const struct kedge__read_plan_slot *slot,
			 uint64_t *shift)
{
	const struct kedge__extent_map *map = &m->seg->map;
	uint64_t run = 0, at = 0, most = 0;

	for (size_t i = kedge__extent_map_find(map, slot->base);
	     i < map->count && map->at[i].addr < slot->base + slot->bytes; i++) {
		const struct kedge__extent *e = &map->at[i];
		uint64_t here = e->addr - slot->base - e->src;

		if (e->kind != KEDGE__EXTENT_LITERAL)
			continue;
		if (here != at)
			run = 0;
		at = here;
		run += e->len;
		if (run > most) {
			most = run;
			*shift = here;
		}
	}
	return most;
}

/* The literals, and the part of them whose places are in the target. */
static struct kedge__read_plan_ground ground_make(const struct kedge__read_plan_member *m,
						  const struct kedge__read_plan_slot *slot, uint64_t shift)
{
	struct kedge__read_plan_ground g = {.member = m, .to = m->literals, .shift = shift};

	if (shift > slot->bytes) /* below zero: the first ones have no place */
		g.from = -shift;
	g.to = KEDGE__MIN(g.to, slot->bytes - shift);
	return g;
}

/* BYTES literals of M belong to SLOT. */
static void consider(struct chooser *c, const struct kedge__read_plan_member *m, size_t slot, uint64_t bytes)
{
	const struct kedge__read_plan_slot *s = &c->slots[slot];
	struct hope *h = &c->hopes[slot];
	uint64_t shift = 0, run;

	if (s->bytes >= TARGET_LEAST && !s->zeroed && (!s->far || !h->newer) && bytes > h->newer + h->best) {
		run = run_find(m, s, &shift);
		if (run > h->newer + h->best && (!s->far || run >= s->bytes / 2)) {
			h->best = run - h->newer;
			c->plan->grounds[s->target] = ground_make(m, s, shift);
		}
	}
	h->newer += bytes;
}

/* The slot that belongs to REGION; COUNT if none does. */
static size_t slot_find(const struct chooser *c, const struct kedge__region_record *region)
{
	uint64_t base = (uint64_t)region->slot * KEDGE__SLOT_BYTES;
	size_t i;

	KEDGE__PARTITION_POINT(i, c->count, c->slots[i].base < base);
	return i < c->count && c->slots[i].base == base ? i : c->count;
}

static void member_look(struct chooser *c, const struct kedge__read_plan_member *m)
{
	const struct kedge__segment *seg = m->seg;

	for (size_t i = 0, next; i < seg->block_count; i = next) {
		uint64_t bytes = 0;
		size_t slot = slot_find(c, &seg->regions[seg->blocks[i].region]);

		for (next = i; next < seg->block_count && seg->blocks[next].region == seg->blocks[i].region; next++)
			if (seg->blocks[next].codec == KEDGE__CODEC_NONE)
				bytes += seg->blocks[next].raw_bytes;
		if (slot < c->count)
			consider(c, m, slot, bytes);
	}
}

int kedge__read_plan_choose(struct kedge__read_plan *plan, const struct kedge__read_plan_slot *slots, size_t n,
			    struct kedge__error *err)
{
	struct chooser c = {plan, slots, n, kedge__calloc(n + 1, sizeof(*c.hopes))};

	plan->grounds = kedge__calloc(n + 1, sizeof(*plan->grounds));
	plan->ground_live = kedge__calloc(plan->cell_count + 1, sizeof(*plan->ground_live));
	if (c.hopes && plan->grounds && plan->ground_live) {
		plan->ground_count = n;
		for (size_t i = plan->member_count; i-- > 0;)
			member_look(&c, &plan->members[i]);
	}
	kedge__free(c.hopes);
	return c.hopes && plan->grounds && plan->ground_live ? 0 : kedge__error_nomem(err);
}

static uint32_t page_down(const struct kedge__block_record *b, uint32_t offset)
{
	return kedge__block_has_pages(b) ? offset / KEDGE__BLOCK_PAGE * KEDGE__BLOCK_PAGE : 0;
}

static uint32_t page_up(const struct kedge__block_record *b, uint32_t offset)
{
	return kedge__block_has_pages(b) ? KEDGE__MIN(page_down(b, offset + KEDGE__BLOCK_PAGE - 1), b->raw_bytes)
					 : b->raw_bytes;
}

void kedge__read_plan_fits(const struct kedge__read_plan_ground *g, const struct kedge__block_record *b,
			   uint32_t *begin, uint32_t *end)
{
	*begin = 0;
	*end = b->codec == KEDGE__CODEC_NONE ? b->raw_bytes : 0;
	if (b->position < g->from)
		*begin = page_up(b, (uint32_t)KEDGE__MIN(g->from - b->position, b->raw_bytes));
	if (*end && b->position + b->raw_bytes > g->to)
		*end = page_down(b, (uint32_t)(g->to > b->position ? g->to - b->position : 0));
}

uint64_t kedge__read_plan_ground_take(const struct kedge__read_plan *plan, const struct kedge__read_plan_ground *g,
				      uint64_t position, uint64_t len)
{
	const struct kedge__segment *seg = g->member->seg;
	size_t i = kedge__segment_find_block(seg, position);
	const struct kedge__block_record *b = &seg->blocks[i];
	uint32_t from = (uint32_t)(position - b->position), offset = from, begin, end;

	kedge__read_plan_fits(g, b, &begin, &end);
	if (from < begin || from >= end)
		return 0;
	end = (uint32_t)KEDGE__MIN(end, from + len);
	for (size_t cell = kedge__read_plan_cell(g->member, i, from); offset < end; cell++) {
		uint32_t next = KEDGE__MIN(kedge__read_plan_cell_end(b, offset), end);

		atomic_fetch_add_explicit(&plan->ground_live[cell], next - offset, memory_order_relaxed);
		offset = next;
	}
	return offset - from;
}

bool kedge__read_plan_covers(const struct kedge__read_plan *plan, uint32_t target, uint64_t pos, uint64_t *len)
{
	const struct kedge__read_plan_ground *g = plan->ground_count ? &plan->grounds[target] : NULL;
	const struct kedge__block_record *b;
	uint64_t first;
	uint32_t offset, begin, end;
	size_t i;

	if (!g || !g->member)
		return false;
	first = g->from + g->shift;
	if (pos >= g->to + g->shift || pos < first) {
		*len = pos < first ? KEDGE__MIN(*len, first - pos) : *len;
		return false;
	}
	i = kedge__segment_find_block(g->member->seg, pos - g->shift);
	b = &g->member->seg->blocks[i];
	offset = (uint32_t)(pos - g->shift - b->position);
	*len = KEDGE__MIN(*len, kedge__read_plan_cell_end(b, offset) - offset);
	kedge__read_plan_fits(g, b, &begin, &end);
	return offset >= begin && offset < end &&
	       atomic_load_explicit(&plan->ground_live[kedge__read_plan_cell(g->member, i, offset)],
				    memory_order_relaxed) > 0;
}

static bool is_live(const struct kedge__read_plan *plan, size_t cell)
{
	return atomic_load_explicit(&plan->ground_live[cell], memory_order_relaxed) > 0;
}

/* The cells of the block, as far as they are live. */
static void cover_block(const struct kedge__read_plan *plan, const struct kedge__read_plan_ground *g, uint64_t pos,
			uint64_t *from, uint64_t *to)
{
	size_t i = kedge__segment_find_block(g->member->seg, pos - g->shift), first, next;
	const struct kedge__block_record *b = &g->member->seg->blocks[i];
	size_t cell = kedge__read_plan_cell(g->member, i, (uint32_t)(pos - g->shift - b->position));
	uint32_t begin, end;

	kedge__read_plan_fits(g, b, &begin, &end);
	for (first = cell; first > kedge__read_plan_cell(g->member, i, begin) && is_live(plan, first - 1);)
		first--;
	for (next = cell + 1; next <= kedge__read_plan_cell(g->member, i, end - 1) && is_live(plan, next);)
		next++;
	first -= g->member->first_cells[i];
	next -= g->member->first_cells[i];
	*from = b->position + g->shift + KEDGE__MAX(first * KEDGE__BLOCK_PAGE, begin);
	*to = b->position + g->shift + (kedge__block_has_pages(b) ? KEDGE__MIN(next * KEDGE__BLOCK_PAGE, end) : end);
}

void kedge__read_plan_cover(const struct kedge__read_plan *plan, uint32_t target, uint64_t pos, uint64_t *from,
			    uint64_t *to)
{
	const struct kedge__read_plan_ground *g = &plan->grounds[target];

	if (g->solid) {
		*from = g->from + g->shift;
		*to = g->to + g->shift;
	} else {
		cover_block(plan, g, pos, from, to);
	}
}
