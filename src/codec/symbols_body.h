/* SPDX-License-Identifier: BSD-3-Clause */
/* The loops of symbols.c, for field_loops_body.h. */

#ifdef __BMI2__
#include <immintrin.h>
#endif

/* Less than 64 of them. */
KEDGE__INLINE uint64_t low_bits(uint64_t v, unsigned n)
{
#ifdef __BMI2__
	return _bzhi_u64(v, n);
#else
	return v & ((UINT64_C(1) << n) - 1);
#endif
}

KEDGE__INLINE uint64_t value_at(const void *values, size_t i, unsigned width)
{
	return width == 8   ? ((const uint64_t *)values)[i]
	       : width == 4 ? ((const uint32_t *)values)[i]
			    : ((const uint16_t *)values)[i];
}

KEDGE__INLINE void set_value(void *values, size_t i, uint64_t v, unsigned width)
{
	if (width == 8)
		((uint64_t *)values)[i] = v;
	else if (width == 4)
		((uint32_t *)values)[i] = (uint32_t)v;
	else
		((uint16_t *)values)[i] = (uint16_t)v;
}

/* ------------------------------------------------------------------ write */

/* At most 56 bits, below those that were put before; eight bytes are written, and those that are not full again later.
 */
KEDGE__INLINE void put_bits(struct kedge__symbol_lane *l, uint64_t v, unsigned n)
{
	unsigned bits = l->held_bits + n;

	l->held = l->held << n | v;
	kedge__put64(l->to - 8, l->held << (-bits & 63));
	l->to -= bits / 8;
	l->held_bits = bits % 8;
}

/* What all lanes look at, in variables of its own: nothing that is written can change it. */
struct source {
	const uint8_t *symbols, *means;
	const void *values;
	size_t n;
	const struct kedge__symbol_code *const *of_mean;
	const uint16_t *states;
};

KEDGE__INLINE void write_one(struct kedge__symbol_lane *l, struct source s, size_t i, unsigned width)
{
	struct kedge__symbol_code code = s.of_mean[s.means[i]][s.symbols[i]];
	unsigned few = (l->state + code.bits) >> 16, rest = width ? code.rest : 0;
	uint64_t v = low_bits(l->state, few);

	if (width) {
		uint64_t value = low_bits(value_at(s.values, i, width), rest);

		if (width == 8 && rest > 44) {
			put_bits(l, value >> 32, rest - 32);
			value = low_bits(value, 32);
			rest = 32;
		}
		v |= value << few;
	}
	put_bits(l, v, few + rest);
	l->state = s.states[(ptrdiff_t)(l->state >> few) + code.find];
}

KEDGE__INLINE void write_group(struct kedge__symbol_lane *l, struct source s, size_t group, unsigned width)
{
	size_t from = l->groups[group], to = KEDGE__MIN(from + KEDGE__SYMBOL_GROUP, s.n);

	for (size_t i = to; i-- > from;)
		write_one(l, s, i, width);
}

/* A group of each of two lanes. */
KEDGE__INLINE void write_two(struct kedge__symbol_lane *a, struct kedge__symbol_lane *b, struct source s, size_t group,
			     unsigned width)
{
	size_t ia = a->groups[group], ib = b->groups[group];

	for (size_t i = KEDGE__SYMBOL_GROUP; i-- > 0;) {
		write_one(a, s, ia + i, width);
		write_one(b, s, ib + i, width);
	}
}

/* Two lanes from their ends; A is not shorter than B. */
KEDGE__INLINE void write_pair(struct kedge__symbol_lane *la, struct kedge__symbol_lane *lb, struct source s,
			      unsigned width)
{
	struct kedge__symbol_lane a = *la, b = *lb;

	for (size_t i = a.count; i-- > b.count;)
		write_group(&a, s, i, width);
	for (size_t i = b.count; i-- > 0;) {
		if (b.groups[i] + KEDGE__SYMBOL_GROUP <= s.n) {
			write_two(&a, &b, s, i, width);
			continue;
		}
		write_group(&a, s, i, width);
		write_group(&b, s, i, width);
	}
	*la = a;
	*lb = b;
}

KEDGE__INLINE void write_width(struct source s, struct kedge__symbol_lane *lanes, unsigned lane_count, unsigned width)
{
	struct kedge__symbol_lane none = {0};

	if (lane_count == 1)
		write_pair(&lanes[0], &none, s, width);
	for (unsigned l = 0; l + 1 < lane_count; l += 2)
		write_pair(&lanes[l], &lanes[l + 1], s, width);
}

static void write_symbols(const struct kedge__symbols *s, const struct kedge__symbol_codes *codes, const uint8_t *means,
			  struct kedge__symbol_lane *lanes, unsigned lane_count)
{
	const struct source from = {s->at, means, s->values, s->n, codes->of_mean, codes->states};

	if (s->width == 8)
		write_width(from, lanes, lane_count, 8);
	else if (s->width == 4)
		write_width(from, lanes, lane_count, 4);
	else if (s->width == 2)
		write_width(from, lanes, lane_count, 2);
	else
		write_width(from, lanes, lane_count, 0);
}

/* ------------------------------------------------------------------ read */

/* What all lanes look at, and where they write. */
struct target {
	uint8_t *symbols;
	void *values;
	size_t n, row;
	const uint32_t *const *of_mean;
	const uint8_t *in;
};

struct cursor {
	uint64_t bit, end;
	uint32_t state;
	unsigned before; /* symbol */
};

KEDGE__INLINE uint64_t window(const uint8_t *in, uint64_t bit)
{
	return kedge__get64(in + bit / 8) >> bit % 8;
}

/* A lane that has nothing left reads on at its end: what comes of it is found to be wrong when all is read. */
KEDGE__INLINE void read_one(struct cursor *c, struct target t, size_t i, unsigned up, unsigned width)
{
	uint32_t place = t.of_mean[(c->before + up) / 2][c->state];
	uint64_t at = KEDGE__MIN(c->bit, c->end), w = window(t.in, at);
	unsigned few = place >> 10 & 15, all = place >> 21;

	c->before = place >> 14 & 127;
	c->state = (place & 1023) + (uint32_t)low_bits(w, few);
	t.symbols[i] = (uint8_t)c->before;
	if (width) {
		unsigned rest = all - few;
		uint64_t value = low_bits(w >> few, rest);

		if (width == 8 && all > 57)
			value = low_bits(window(t.in, at + few), 32) | low_bits(window(t.in, at + few + 32), rest - 32)
									   << 32;
		set_value(t.values, i, value | (uint64_t)(c->before != 0) << rest, width);
	}
	c->bit += all;
}

KEDGE__INLINE struct cursor cursor_at(const struct kedge__symbol_lane *l, struct target t, size_t group)
{
	return (struct cursor){l->bit, l->bit_end, l->state, group ? t.symbols[l->groups[group] - 1] : 0};
}

KEDGE__INLINE void read_group(struct kedge__symbol_lane *l, struct target t, size_t group, unsigned width)
{
	size_t from = l->groups[group], to = KEDGE__MIN(from + KEDGE__SYMBOL_GROUP, t.n);
	struct cursor c = cursor_at(l, t, group);

	for (size_t i = from; i < to; i++)
		read_one(&c, t, i, t.row && i - l->groups[0] >= t.row ? t.symbols[i - t.row] : c.before, width);
	l->bit = c.bit;
	l->state = c.state;
}

/* A whole group of all four lanes; with ROWS, there is a row before each of them. */
KEDGE__INLINE void read_four(struct kedge__symbol_lane *l, struct target t, size_t group, bool rows, unsigned width)
{
	size_t ia = l[0].groups[group], ib = l[1].groups[group], ic = l[2].groups[group], id = l[3].groups[group];
	struct cursor a = cursor_at(&l[0], t, group), b = cursor_at(&l[1], t, group);
	struct cursor c = cursor_at(&l[2], t, group), d = cursor_at(&l[3], t, group);

	for (size_t k = 0; k < KEDGE__SYMBOL_GROUP; k++) {
		read_one(&a, t, ia + k, rows ? t.symbols[ia + k - t.row] : a.before, width);
		read_one(&b, t, ib + k, rows ? t.symbols[ib + k - t.row] : b.before, width);
		read_one(&c, t, ic + k, rows ? t.symbols[ic + k - t.row] : c.before, width);
		read_one(&d, t, id + k, rows ? t.symbols[id + k - t.row] : d.before, width);
	}
	l[0].bit = a.bit, l[0].state = a.state;
	l[1].bit = b.bit, l[1].state = b.state;
	l[2].bit = c.bit, l[2].state = c.state;
	l[3].bit = d.bit, l[3].state = d.state;
}

/* Are the groups of all four lanes whole, and have a row before them? */
KEDGE__INLINE bool are_whole(const struct kedge__symbol_lane *l, struct target t, size_t group)
{
	bool whole = true;

	for (unsigned i = 0; i < KEDGE__SYMBOL_LANES; i++)
		whole = whole && l[i].groups[group] + KEDGE__SYMBOL_GROUP <= t.n &&
			l[i].groups[group] - l[i].groups[0] >= t.row;
	return whole;
}

KEDGE__INLINE void read_width(struct target t, struct kedge__symbol_lane *lanes, unsigned lane_count, unsigned width)
{
	size_t together = lane_count == KEDGE__SYMBOL_LANES ? lanes[lane_count - 1].count : 0;

	for (size_t g = 0; g < together; g++) {
		bool whole = are_whole(lanes, t, g);

		if (whole && t.row)
			read_four(lanes, t, g, true, width);
		else if (whole)
			read_four(lanes, t, g, false, width);
		for (unsigned l = 0; !whole && l < lane_count; l++)
			read_group(&lanes[l], t, g, width);
	}
	for (unsigned l = 0; l < lane_count; l++)
		for (size_t g = together; g < lanes[l].count; g++)
			read_group(&lanes[l], t, g, width);
}

static void read_symbols(const struct kedge__symbols *s, const uint32_t *const *of_mean, const uint8_t *in,
			 struct kedge__symbol_lane *lanes, unsigned lane_count)
{
	const struct target to = {s->at, s->values, s->n, s->row, of_mean, in};

	if (s->width == 8)
		read_width(to, lanes, lane_count, 8);
	else if (s->width == 4)
		read_width(to, lanes, lane_count, 4);
	else if (s->width == 2)
		read_width(to, lanes, lane_count, 2);
	else
		read_width(to, lanes, lane_count, 0);
}
