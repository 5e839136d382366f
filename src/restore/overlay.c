/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Overlays: literals of newer versions that go over the ground while it is in a core's cache. Where single chunks
 * change all over an image, this takes neither a list of pieces in the order of the files, nor lines of memory that are
 * fetched again to be written over.
 *
 * The maps of a version and its parents, down to that of the ground, are gone through newest first. A mark for every
 * few bytes says whether a newer version has them; a literal without a byte of its own is left out. One whose bytes are
 * partly newer versions' stays as it is: all are put in their places oldest first.
 *
 * Cells where anything else shows are left to be resolved like all that has no ground: copies, fills, blocks with a
 * codec, literals in another order than the image's, cells of which the ground has nothing, and what looks like damage.
 * There they may turn out to be ground all the same, a copy of what was at this very place, so nothing is put over
 * them.
 */
#include "restore/read_plan.h"

#define MARK       32u /* bytes */
#define CELL       KEDGE__BLOCK_PAGE
#define CELL_WORDS (CELL / MARK / 64)
#define WORDS      (KEDGE__OVERLAY_BYTES / MARK / 64)
#define CELLS      (KEDGE__OVERLAY_BYTES / CELL)
#define FEW_LEFT   8          /* one of so many cells */
#define FEW_OVERS  8          /* of a layer, on average: pages of it would be read for each range again */
#define LONG_OVER  (CELL - 1) /* at most, on average: pages are faster to read to their places */

struct kedge__overlay_maker {
	uint64_t marks[WORDS];
	bool left[CELLS]; /* to others, */
	size_t left_count;
	uint32_t bare, bare_least; /* marks that are not set */
	size_t usual;              /* overs of the range before */
	struct kedge__range range;
	struct kedge__read_plan_overlay *out;
};

struct kedge__overlay_maker *kedge__overlay_maker_new(void)
{
	struct kedge__overlay_maker *o = kedge__malloc(sizeof(*o));

	if (o)
		o->usual = 0;
	return o;
}

/* ------------------------------------------------------------------ marks */

/* How many of the marks FROM to TO - 1 are not set. With SET, they are afterwards. */
static uint32_t marks_take(struct kedge__overlay_maker *o, uint32_t from, uint32_t to, bool set)
{
	uint32_t fresh = 0;

	while (from < to) {
		uint32_t bit = from % 64, n = KEDGE__MIN(64 - bit, to - from);
		uint64_t mask = (n == 64 ? UINT64_MAX : (UINT64_C(1) << n) - 1) << bit, *word = &o->marks[from / 64];

		if (!(mask & *word)) /* mostly */
			fresh += n;
		else
			fresh += (uint32_t)__builtin_popcountll(mask & ~*word);
		if (set)
			*word |= mask;
		from += n;
	}
	return fresh;
}

/* A newer version has the bytes from AT on, LEN of them, from here on. Whether it has any that none before had. */
static bool cover(struct kedge__overlay_maker *o, uint32_t at, uint32_t len)
{
	uint32_t end = at + len == o->range.len ? (at + len + MARK - 1) / MARK * MARK : at + len;
	uint32_t first = (at + MARK - 1) / MARK, last = end / MARK, fresh = 0;

	if (first < last) {
		fresh = marks_take(o, first, last, true);
		o->bare -= fresh;
	}
	return fresh || (at % MARK && marks_take(o, at / MARK, at / MARK + 1, false)) ||
	       (end % MARK && marks_take(o, end / MARK, end / MARK + 1, false));
}

static void leave_cell(struct kedge__overlay_maker *o, size_t cell)
{
	o->left_count += !o->left[cell];
	o->left[cell] = true;
}

static void leave(struct kedge__overlay_maker *o, uint32_t at, uint32_t len)
{
	if (cover(o, at, len))
		for (uint32_t cell = at / CELL; cell <= (at + len - 1) / CELL; cell++)
			leave_cell(o, cell);
}

static size_t cell_count(const struct kedge__overlay_maker *o)
{
	return (size_t)((o->range.len + CELL - 1) / CELL);
}

/* What is left here and there takes longer to resolve than all of the range at once; and where the ground is mostly
 * dead, pages of it are. */
static bool is_hopeless(const struct kedge__overlay_maker *o)
{
	return o->bare < o->bare_least || o->left_count * FEW_LEFT > cell_count(o);
}

/* ------------------------------------------------------------------ the layers over the ground */

static struct kedge__read_plan_layer *layer_begin(struct kedge__overlay_maker *o, struct kedge__read_plan_member *m)
{
	struct kedge__read_plan_layer fresh = {.member = m, .first = o->out->overs.count};

	return kedge__array_push(&o->out->layers, fresh) ? &o->out->layers.at[o->out->layers.count - 1] : NULL;
}

/* LEN literals of LAYER from POSITION on belong to AT. There is room for one more. */
static void over_add(struct kedge__overlay_maker *o, struct kedge__read_plan_layer *layer, uint64_t position,
		     uint32_t at, uint32_t len)
{
	const struct kedge__read_plan_member *m = layer->member;
	struct kedge__read_plan_over *last = layer->count ? &o->out->overs.at[o->out->overs.count - 1] : NULL;

	if (!m->plain || position > m->literals || len > m->literals - position ||
	    (last && position < last->position + last->len)) {
		leave(o, at, len);
		return;
	}
	if (!cover(o, at, len))
		return;
	layer->count++;
	o->out->bytes += len;
	o->out->overs.at[o->out->overs.count++] = (struct kedge__read_plan_over){position, at, len};
}

/* The part of E that is in the range begins AT there. */
static void extent_enter(const struct kedge__overlay_maker *o, const struct kedge__extent *e, uint32_t *at,
			 uint32_t *len)
{
	uint64_t from = KEDGE__MAX(e->addr, o->range.start);
	uint64_t to = KEDGE__MIN(e->addr + e->len, o->range.start + o->range.len);

	*at = (uint32_t)(from - o->range.start);
	*len = (uint32_t)(to - from);
}

/* Between the extents of MAP from FROM to before TO nothing is the version's own. What it does not inherit either is
 * left. */
static void leave_between(struct kedge__overlay_maker *o, const struct kedge__extent_map *map, uint32_t from,
			  uint32_t to)
{
	uint64_t len;

	for (; from < to; from += (uint32_t)len) {
		bool inherits = kedge__extent_map_inherits(map, o->range.start + from, &len);

		len = KEDGE__MIN(len, to - from);
		if (!inherits)
			leave(o, from, (uint32_t)len);
	}
}

/* How many of the N extents begin before END. */
static size_t extents_before(const struct kedge__extent *e, size_t n, uint64_t end)
{
	size_t i;

	KEDGE__PARTITION_POINT(i, n, e[i].addr < end);
	return i;
}

static bool layer_add(struct kedge__overlay_maker *o, struct kedge__read_plan_member *m)
{
	const struct kedge__extent_map *map = &m->seg->map;
	struct kedge__read_plan_layer *layer = layer_begin(o, m);
	uint64_t end = o->range.start + o->range.len, bytes;
	bool inherits =
	    kedge__extent_map_inherits(map, o->range.start, &bytes) && bytes >= o->range.len; /* all of it */
	size_t first = kedge__extent_map_find(map, o->range.start);
	size_t behind = first + extents_before(map->at + first, map->count - first, end);
	uint32_t next = 0, at, len;

	if (!layer || !kedge__array_reserve(&o->out->overs, o->out->overs.count + (behind - first)))
		return false;
	for (size_t i = first; i < behind && !is_hopeless(o); i++) {
		const struct kedge__extent *e = &map->at[i];

		extent_enter(o, e, &at, &len);
		if (!inherits)
			leave_between(o, map, next, at);
		if (e->kind == KEDGE__EXTENT_LITERAL)
			over_add(o, layer, e->src + (o->range.start + at - e->addr), at, len);
		else
			leave(o, at, len);
		next = at + len;
	}
	if (!inherits)
		leave_between(o, map, next, (uint32_t)o->range.len);
	o->out->layers.count -= layer->count == 0;
	return true;
}

/* ------------------------------------------------------------------ the ground */

/* What the ground's map has of the range, where it is not as the ground: inherited, filled, a copy, or shifted by
 * another distance. */
static void ground_extents(struct kedge__overlay_maker *o, const struct kedge__read_plan_ground *g, uint64_t base)
{
	const struct kedge__extent_map *map = &g->member->seg->map;
	uint64_t end = o->range.start + o->range.len;
	uint32_t next = 0, at, len;

	for (size_t i = kedge__extent_map_find(map, o->range.start); i < map->count && map->at[i].addr < end; i++) {
		const struct kedge__extent *e = &map->at[i];

		extent_enter(o, e, &at, &len);
		if (at > next)
			leave(o, next, at - next);
		if (e->kind != KEDGE__EXTENT_LITERAL || e->addr - base - e->src != g->shift)
			leave(o, at, len);
		next = at + len;
	}
	if (next < o->range.len)
		leave(o, next, (uint32_t)o->range.len - next);
}

/* The places FROM to TO - 1 of the target have no cell of the ground's. */
static void leave_places(struct kedge__overlay_maker *o, uint64_t offset, uint64_t from, uint64_t to)
{
	from = KEDGE__MAX(from, offset);
	to = KEDGE__MIN(to, offset + o->range.len);
	if (from < to)
		leave(o, (uint32_t)(from - offset), (uint32_t)(to - from));
}

/* Cells of the range are cells of the ground, or left. OFFSET: where the range begins in the target. */
static void ground_cells(struct kedge__overlay_maker *o, const struct kedge__read_plan_ground *g, uint64_t offset)
{
	const struct kedge__segment *seg = g->member->seg;
	uint64_t next = offset, end = offset + o->range.len, first = KEDGE__MAX(offset, g->from + g->shift);
	size_t b = first < g->to + g->shift ? kedge__segment_find_block(seg, first - g->shift) : seg->block_count;

	for (; b < seg->block_count && seg->blocks[b].position < g->to && next < end; b++) {
		const struct kedge__block_record *block = &seg->blocks[b];
		uint32_t from, to;
		uint64_t place;

		kedge__read_plan_fits(g, block, &from, &to);
		place = block->position + from + g->shift;
		if (from >= to || (place - offset) % CELL || from % CELL || !kedge__read_plan_paged(block))
			continue;
		leave_places(o, offset, next, place);
		next = place + (to - from);
	}
	leave_places(o, offset, next, end);
}

/* Two cells or more of which the ground has nothing are not worth reading it. */
static void leave_dead(struct kedge__overlay_maker *o)
{
	bool before = false;

	for (size_t i = 0; i < cell_count(o); i++) {
		bool dead = true;

		for (size_t w = 0; w < CELL_WORDS && dead; w++)
			dead = o->marks[i * CELL_WORDS + w] == UINT64_MAX;
		if (dead && before) {
			leave_cell(o, i - 1);
			leave_cell(o, i);
		}
		before = dead;
	}
}

/* ------------------------------------------------------------------ the overlay of a range */

static bool is_left(const struct kedge__overlay_maker *o, uint32_t at, uint32_t len)
{
	for (uint32_t cell = at / CELL; cell <= (at + len - 1) / CELL; cell++)
		if (o->left[cell])
			return true;
	return false;
}

/* The parts of the literals of LAYER that are not in cells which are left go to OUT. */
static bool layer_cut(const struct kedge__overlay_maker *o, struct kedge__read_plan_layer *layer,
		      struct kedge__read_plan_overlay *out)
{
	const struct kedge__read_plan_over *over = o->out->overs.at + layer->first;
	size_t first = out->overs.count, n = layer->count;

	for (size_t i = 0; i < n; i++) {
		bool whole = !is_left(o, over[i].at, over[i].len);

		for (uint32_t at = over[i].at, end = at + over[i].len, to; at < end; at = to) {
			struct kedge__read_plan_over part = {over[i].position + (at - over[i].at), at, 0};

			to = whole ? end : KEDGE__MIN((at / CELL + 1) * CELL, end);
			part.len = to - at;
			if (!whole && o->left[at / CELL])
				continue;
			if (!kedge__array_push(&out->overs, part))
				return false;
			out->bytes += part.len;
		}
	}
	layer->first = first;
	layer->count = out->overs.count - first;
	return true;
}

static bool overs_cut(struct kedge__overlay_maker *o)
{
	struct kedge__read_plan_overlay cut = {0};
	size_t kept = 0;

	if (!o->out->overs.count || !is_left(o, 0, (uint32_t)o->range.len))
		return true;
	for (size_t i = 0; i < o->out->layers.count; i++) {
		struct kedge__read_plan_layer *layer = &o->out->layers.at[i];

		if (!layer_cut(o, layer, &cut)) {
			kedge__array_done(&cut.overs);
			return false;
		}
		if (layer->count)
			o->out->layers.at[kept++] = *layer;
	}
	o->out->layers.count = kept;
	kedge__array_done(&o->out->overs);
	o->out->overs = cut.overs;
	o->out->bytes = cut.bytes;
	return true;
}

/* Ground from AT to before END of the range. */
static void ground_give(const struct kedge__overlay_maker *o, const struct kedge__read_plan *plan,
			const struct kedge__read_plan_ground *g, uint64_t offset, uint64_t at, uint64_t end)
{
	end = KEDGE__MIN(end, o->range.len);
	while (at < end)
		at += kedge__read_plan_ground_take(plan, g, offset + at - g->shift, end - at);
}

/* Runs of cells are ground, or left. */
static bool cells_give(const struct kedge__overlay_maker *o, const struct kedge__read_plan *plan,
		       const struct kedge__read_plan_ground *g, uint64_t offset, struct kedge__range_list *left)
{
	for (size_t i = 0, next; i < cell_count(o); i = next) {
		uint64_t at = i * CELL;

		for (next = i + 1; next < cell_count(o) && o->left[next] == o->left[i];)
			next++;
		if (!o->left[i])
			ground_give(o, plan, g, offset, at, next * CELL);
		else if (!kedge__array_push(left, ((struct kedge__range){o->range.start + at,
									 KEDGE__MIN(next * CELL, o->range.len) - at})))
			return false;
	}
	return true;
}

/* Blocks whose literals lie over the ground. */
static void blocks_note(const struct kedge__read_plan *plan, const struct kedge__read_plan_overlay *out)
{
	for (size_t i = 0; i < out->layers.count; i++) {
		const struct kedge__read_plan_layer *layer = &out->layers.at[i];
		const struct kedge__segment *seg = layer->member->seg;
		uint64_t end = 0; /* of the block */

		for (size_t k = layer->first; k < layer->first + layer->count; k++) {
			const struct kedge__read_plan_over *over = &out->overs.at[k];

			for (uint64_t pos = KEDGE__MAX(over->position, end); pos < over->position + over->len;
			     pos = end) {
				size_t b = kedge__segment_find_block(seg, pos);

				atomic_store_explicit(&plan->laid[layer->member->first_cells[b]], true,
						      memory_order_relaxed);
				end = seg->blocks[b].position + seg->blocks[b].raw_bytes;
			}
		}
	}
}

static void overlay_drop(struct kedge__read_plan_overlay *out)
{
	kedge__array_done(&out->layers);
	kedge__array_done(&out->overs);
	out->bytes = 0;
}

/* All versions from the newest to the one before the ground. */
static bool layers_add(struct kedge__overlay_maker *o, const struct kedge__read_plan *plan,
		       const struct kedge__read_plan_ground *g)
{
	for (size_t i = 0; plan->chain[i] != g->member && !is_hopeless(o); i++)
		if (!layer_add(o, plan->chain[i]))
			return false;
	return true;
}

/* The versions over the ground are its descendants, and threads can have a stream for each of them. */
static bool is_near(const struct kedge__read_plan *plan, const struct kedge__read_plan_member *m)
{
	if (&plan->members[plan->member_count] - m > KEDGE__OVERLAY_LAYERS)
		return false;
	for (size_t i = 0; i < plan->chain_count; i++)
		if (plan->chain[i] == m)
			return true;
	return false;
}

/* Nothing is gained by it. */
static bool is_idle(const struct kedge__overlay_maker *o)
{
	const struct kedge__read_plan_overlay *out = o->out;

	return is_hopeless(o) || out->bytes > LONG_OVER * out->overs.count ||
	       out->overs.count < FEW_OVERS * out->layers.count;
}

/* Marks behind the end of the range are set, up to the end of its last cell. */
static void marks_begin(struct kedge__overlay_maker *o)
{
	size_t words = cell_count(o) * CELL_WORDS;

	memset(o->marks, 0, words * sizeof(o->marks[0]));
	memset(o->left, 0, cell_count(o) * sizeof(o->left[0]));
	o->left_count = 0;
	o->bare = (uint32_t)((o->range.len + MARK - 1) / MARK);
	o->bare_least = o->bare / 2;
	if (o->bare % 64)
		o->marks[o->bare / 64] = UINT64_MAX << o->bare % 64;
	for (size_t w = (o->bare + 63) / 64; w < words; w++)
		o->marks[w] = UINT64_MAX;
}

bool kedge__overlay_make(struct kedge__read_plan *plan, struct kedge__overlay_maker *o,
			 const struct kedge__read_plan_slot *slot, struct kedge__range range,
			 struct kedge__read_plan_overlay *out, struct kedge__range_list *left)
{
	const struct kedge__read_plan_ground *g = &plan->grounds[slot->target];
	uint64_t offset = range.start - slot->base;

	if (!g->member || slot->far || !is_near(plan, g->member))
		return kedge__array_push(left, range);
	o->range = range;
	o->out = out;
	marks_begin(o);
	ground_cells(o, g, offset);
	if (!kedge__array_reserve(&out->overs, o->usual + o->usual / 8) || !layers_add(o, plan, g))
		return false;
	o->usual = out->overs.count;
	if (!is_hopeless(o)) {
		ground_extents(o, g, slot->base);
		leave_dead(o);
	}
	if (is_idle(o)) {
		overlay_drop(out);
		return kedge__array_push(left, range);
	}
	if (!overs_cut(o))
		return false;
	blocks_note(plan, out);
	return cells_give(o, plan, g, offset, left);
}
