/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A column says for each unit of a range where it is kept. The maps of a version and its parents are painted into it,
 * the oldest first, so that what is left in the end is what the newest say. This takes a store for each unit that some
 * version changed, however many versions there are and in however many pieces the range is: less than a search among
 * the cursors of all maps for each piece, as soon as the pieces are small.
 *
 * What a column cannot express is left to the sweep in resolve.c: copies from elsewhere, and all that looks like
 * damage, so that there is one place which judges it.
 */
#include "reduce/columns.h"

#define UNIT_LEAST 16
#define UNIT_MOST  4096
#define FEW_UNITS  64 /* a range as small as this */
#define SPARSE     32 /* or with fewer extents than one for so many units is faster to sweep */

/* A literal: the layer, and its position. A fill: a bit, the layer, and the number of its extent. */
#define POSITION_BITS 47
#define POSITION_MASK ((UINT64_C(1) << POSITION_BITS) - 1)
#define IS_FILL       (UINT64_C(1) << 63)
#define LAYER_LIMIT   0xfffe /* one less than fits */
#define LATER         UINT64_MAX

struct layer {
	const struct kedge__extent_map *map;
	uint64_t version, parent;
	size_t first, end;  /* extents in the range */
	uint64_t inherited; /* up to this address of the range, all is as in the parent where there is no extent */
	bool through;       /* some is */
	bool moves;         /* some extents are copies from it */
};

struct columns {
	const struct kedge__map_source *source;
	struct kedge__range range;
	KEDGE__ARRAY(struct layer) layers; /* newest first */
	uint64_t unit, units;
	unsigned shift;  /* its logarithm */
	uint64_t *at;    /* one per unit; the span list's scratch */
	uint64_t *below; /* the same of the version before, if there are copies from it; room behind AT */
};

/* ------------------------------------------------------------------ layers */

static uint64_t range_end(const struct columns *c)
{
	return c->range.start + c->range.len;
}

/* The extents of L in the range; their beginnings, and their ends where something inherited follows, go into *MARKS. */
static void layer_look(const struct columns *c, struct layer *l, uint64_t *marks)
{
	const struct kedge__extent_map *map = l->map;
	uint64_t next = c->range.start, len;

	l->inherited = c->range.start;
	if (kedge__extent_map_inherits(map, c->range.start, &len))
		l->inherited += KEDGE__MIN(len, c->range.len);
	l->first = kedge__extent_map_find(map, c->range.start);
	for (l->end = l->first; l->end < map->count && map->at[l->end].addr < range_end(c); l->end++) {
		const struct kedge__extent *e = &map->at[l->end];

		if (e->addr > c->range.start)
			*marks |= e->addr;
		if (e->addr + e->len < l->inherited)
			*marks |= e->addr + e->len;
		l->through = l->through || next < KEDGE__MIN(e->addr, l->inherited);
		l->moves = l->moves || (e->kind == KEDGE__EXTENT_COPY && e->version == l->parent);
		next = e->addr + e->len;
	}
	l->through = l->through || next < l->inherited;
}

/* All layers that may show in the range. False: this is for the sweep. */
static bool layers_make(struct columns *c, uint64_t version, uint64_t *extents)
{
	uint64_t marks = c->range.start | UNIT_MOST;
	bool through = true;

	*extents = 0;
	while (through) {
		struct layer l = {.version = version};

		if (c->layers.count == LAYER_LIMIT ||
		    c->source->load(c->source->ctx, version, &l.map, &l.parent, NULL) != 0)
			return false;
		layer_look(c, &l, &marks);
		*extents += l.end - l.first;
		through = l.through || l.moves;
		if (through && (l.parent == KEDGE__NO_VERSION || l.parent >= version))
			return false;
		version = l.parent;
		if (!kedge__array_push(&c->layers, l))
			return false;
	}
	c->unit = marks & -marks;
	c->shift = (unsigned)__builtin_ctzll(c->unit);
	c->units = (c->range.len + c->unit - 1) >> c->shift;
	return c->unit >= UNIT_LEAST && c->units > FEW_UNITS && *extents * SPARSE > c->units;
}

/* ------------------------------------------------------------------ paint */

static uint64_t index_of(const struct columns *c, uint64_t addr)
{
	return (addr - c->range.start) >> c->shift;
}

static void paint(uint64_t *to, uint64_t n, uint64_t value, uint64_t step)
{
	for (uint64_t i = 0; i < n; i++)
		to[i] = value + i * step;
}

/* N units of layer L, as extent E says; the first is at ADDR, unit I of the range. */
static void paint_extent(const struct columns *c, size_t l, const struct kedge__extent *e, uint64_t addr, uint64_t i,
			 uint64_t n)
{
	const struct layer *layer = &c->layers.at[l];
	uint64_t src = e->src + (addr - e->addr), number = (uint64_t)(e - layer->map->at);
	uint64_t key = (uint64_t)l << POSITION_BITS;

	if (e->kind == KEDGE__EXTENT_LITERAL && src + e->len <= POSITION_MASK)
		paint(c->at + i, n, key | src, c->unit);
	else if (e->kind == KEDGE__EXTENT_FILL && number <= POSITION_MASK)
		paint(c->at + i, n, IS_FILL | key | number, 0);
	else if (e->kind == KEDGE__EXTENT_COPY && e->version == layer->parent && src >= c->range.start &&
		 (src - c->range.start) % c->unit == 0 && index_of(c, src) + n < c->units)
		memcpy(c->at + i, c->below + index_of(c, src), n * sizeof(*c->at));
	else
		paint(c->at + i, n, LATER, 0);
}

/* Nothing is left to say of what L inherits from FROM to before TO; what it does not map, nobody may refer to. */
static void paint_between(const struct columns *c, const struct layer *l, uint64_t from, uint64_t to)
{
	from = KEDGE__MAX(from, l->inherited);
	if (from < to)
		paint(c->at + index_of(c, from), index_of(c, to + c->unit - 1) - index_of(c, from), LATER, 0);
}

static void paint_layer(const struct columns *c, size_t l)
{
	const struct layer *layer = &c->layers.at[l];
	uint64_t next = c->range.start;

	if (layer->moves)
		memcpy(c->below, c->at, c->units * sizeof(*c->at));
	for (size_t k = layer->first; k < layer->end; k++) {
		const struct kedge__extent *e = &layer->map->at[k];
		uint64_t from = KEDGE__MAX(e->addr, c->range.start), to = KEDGE__MIN(e->addr + e->len, range_end(c));
		uint64_t i = index_of(c, from), n = index_of(c, to + c->unit - 1) - i;

		paint_between(c, layer, next, from);
		paint_extent(c, l, e, from, i, n);
		next = to;
	}
	paint_between(c, layer, next, range_end(c));
}

/* ------------------------------------------------------------------ read it off */

/* How many units from I on continue each other. */
static uint64_t run_units(const struct columns *c, uint64_t i)
{
	uint64_t value = c->at[i], step = value & IS_FILL ? 0 : c->unit, n = 1;

	while (i + n < c->units && c->at[i + n] == value + n * step)
		n++;
	return n;
}

static bool run_add(const struct columns *c, uint64_t value, struct kedge__range run, struct kedge__span_list *out,
		    struct kedge__range_list *later)
{
	struct kedge__span s = {
	    .addr = run.start, .len = run.len, .src = value & POSITION_MASK, .fill = value & IS_FILL};
	const struct layer *layer;

	if (value == LATER)
		return kedge__array_push(later, run);
	layer = &c->layers.at[(value & ~IS_FILL) >> POSITION_BITS];
	s.version = layer->version;
	if (s.fill)
		s.src = layer->map->at[s.src].src;
	return kedge__array_push(out, s);
}

static bool read_off(const struct columns *c, struct kedge__span_list *out, struct kedge__range_list *later)
{
	for (uint64_t i = 0, n; i < c->units; i += n) {
		struct kedge__range run = {c->range.start + (i << c->shift), 0};

		n = run_units(c, i);
		run.len = KEDGE__MIN(n << c->shift, range_end(c) - run.start);
		if (!run_add(c, c->at[i], run, out, later))
			return false;
	}
	return true;
}

static bool layers_move(const struct columns *c)
{
	for (size_t l = 0; l < c->layers.count; l++)
		if (c->layers.at[l].moves)
			return true;
	return false;
}

int kedge__columns_resolve(const struct kedge__map_source *source, uint64_t version, struct kedge__range range,
			   struct kedge__span_list *out, struct kedge__range_list *later, struct kedge__error *err)
{
	struct columns c = {.source = source, .range = range};
	uint64_t extents;
	bool done;

	if (range.len <= FEW_UNITS * UNIT_LEAST || !layers_make(&c, version, &extents)) {
		kedge__array_done(&c.layers);
		return kedge__array_push(later, range) ? 0 : kedge__error_nomem(err);
	}
	done = kedge__array_grow((void **)&out->scratch, &out->scratch_room,
				 (layers_move(&c) ? 2 : 1) * (size_t)c.units, sizeof(*c.at)) &&
	       kedge__array_reserve(out, out->count + KEDGE__MIN(extents, c.units));
	if (done) {
		c.at = out->scratch;
		c.below = c.at + c.units;
		for (size_t l = c.layers.count; l-- > 0;)
			paint_layer(&c, l);
		done = read_off(&c, out, later);
	}
	kedge__array_done(&c.layers);
	return done ? 0 : kedge__error_nomem(err);
}
