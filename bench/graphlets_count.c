/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * graphlets_count: every connected set of vertices is found once, from its lowest vertex, by adding one vertex at a
 * time that no earlier one is a neighbour of (Wernicke, "Efficient detection of network motifs", 2006).
 */
#include "graphlets.h"

#define MOST KEDGE__GRAPHLET_MOST

/* ------------------------------------------------------------------ the graph */

int kedge__graph_init(struct kedge__graph *g, uint32_t vertices, struct kedge__error *err)
{
	g->vertices = kedge__calloc(vertices, sizeof(*g->vertices));
	g->count = vertices;
	return g->vertices ? 0 : kedge__error_nomem(err);
}

void kedge__graph_done(struct kedge__graph *g)
{
	kedge__free(g->vertices);
}

static bool joined(const struct kedge__graph *g, uint32_t a, uint32_t b)
{
	const struct kedge__neighbours *n = &g->vertices[a];

	for (uint32_t i = 0; i < n->count; i++)
		if (n->at[i] == b)
			return true;
	return false;
}

bool kedge__graph_join(struct kedge__graph *g, uint32_t a, uint32_t b)
{
	struct kedge__neighbours *x = &g->vertices[a], *y = &g->vertices[b];

	if (a == b || joined(g, a, b) || x->count == KEDGE__DEGREE_MOST || y->count == KEDGE__DEGREE_MOST)
		return false;
	x->at[x->count++] = b;
	y->at[y->count++] = a;
	return true;
}

static uint64_t draw(uint64_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed >> 11;
}

int kedge__graph_roads(struct kedge__graph *g, uint32_t side, uint64_t seed, struct kedge__error *err)
{
	int rc = kedge__graph_init(g, side * side, err);

	for (uint32_t v = 0; v < side * side && !rc; v++) {
		bool right = v % side + 1 < side, below = v / side + 1 < side;

		if (right && draw(&seed) % 100 < 72)
			(void)kedge__graph_join(g, v, v + 1);
		if (below && draw(&seed) % 100 < 66)
			(void)kedge__graph_join(g, v, v + side);
		if (right && below && draw(&seed) % 100 < 3)
			(void)kedge__graph_join(g, v, v + side + 1);
	}
	return rc;
}

/* ------------------------------------------------------------------ orbits */

struct order { /* of the vertices of a graph */
	unsigned at[MOST];
};

static unsigned factorial(unsigned k)
{
	return k < 2 ? 1 : k * factorial(k - 1);
}

static struct order order_make(unsigned k, unsigned number)
{
	unsigned left[MOST] = {0, 1, 2, 3, 4};
	struct order o = {{0}};

	for (unsigned i = 0; i < k; i++) {
		unsigned f = factorial(k - 1 - i), n = number / f;

		o.at[i] = left[n];
		memmove(&left[n], &left[n + 1], (MOST - 1 - n) * sizeof(left[0]));
		number %= f;
	}
	return o;
}

/* Of the graph whose vertex I is now vertex o->at[I]. */
static unsigned code_by(unsigned k, unsigned code, const struct order *o)
{
	unsigned result = 0;

	for (unsigned j = 1; j < k; j++) {
		for (unsigned i = 0; i < j; i++) {
			unsigned a = KEDGE__MIN(o->at[i], o->at[j]), b = KEDGE__MAX(o->at[i], o->at[j]);

			result |= (code >> kedge__orbit_bit(i, j) & 1) << kedge__orbit_bit(a, b);
		}
	}
	return result;
}

static bool is_connected(unsigned k, unsigned code)
{
	unsigned reached = 1, before = 0;

	while (reached != before) {
		before = reached;
		for (unsigned j = 1; j < k; j++)
			for (unsigned i = 0; i < j; i++)
				if (code >> kedge__orbit_bit(i, j) & 1 && (reached >> i | reached >> j) & 1)
					reached |= 1u << i | 1u << j;
	}
	return reached == (1u << k) - 1;
}

/* The lowest code of all orders is that of the graphlet; the lowest place that an order with this code gives to a
 * vertex is that of its orbit. */
static void places_find(unsigned k, unsigned code, unsigned *lowest, unsigned place[MOST])
{
	*lowest = code;
	for (unsigned n = 0; n < factorial(k); n++) {
		struct order o = order_make(k, n);

		*lowest = KEDGE__MIN(*lowest, code_by(k, code, &o));
	}
	for (unsigned i = 0; i < k; i++)
		place[i] = MOST;
	for (unsigned n = 0; n < factorial(k); n++) {
		struct order o = order_make(k, n);

		for (unsigned i = 0; code_by(k, code, &o) == *lowest && i < k; i++)
			place[i] = KEDGE__MIN(place[i], o.at[i]);
	}
}

void kedge__orbits_init(struct kedge__orbits *o)
{
	memset(o, 0, sizeof(*o));
	for (unsigned k = 2; k <= MOST; k++) {
		for (unsigned code = 0; code < 1u << k * (k - 1) / 2; code++) {
			unsigned lowest, place[MOST];

			if (!is_connected(k, code))
				continue;
			places_find(k, code, &lowest, place);
			o->graphlets += lowest == code;
			/* A graph comes after the one that it is like, and a vertex after the one at its place. */
			for (unsigned i = 0; i < k; i++)
				o->of[k][code][i] =
				    lowest == code && place[i] == i ? (uint8_t)o->count++ : o->of[k][lowest][place[i]];
		}
	}
}

/* ------------------------------------------------------------------ count */

struct search {
	const struct kedge__graph *g;
	const struct kedge__orbits *o;
	uint32_t *counts;
	uint8_t *seen; /* in the set, or a neighbour of one that is */
	uint32_t set[MOST];
};

/* The first K of the set, whose edges are CODE. */
static void found(const struct search *s, unsigned k, unsigned code)
{
	for (unsigned i = 0; i < k; i++)
		s->counts[(uint64_t)s->o->of[k][code][i] * s->g->count + s->set[i]]++;
}

/* Neighbours of the last one that none of the others is a neighbour of: they may be added from now on. */
static unsigned open(const struct search *s, unsigned k, uint32_t *next)
{
	const struct kedge__neighbours *n = &s->g->vertices[s->set[k - 1]];
	unsigned count = 0;

	for (uint32_t i = 0; i < n->count; i++)
		if (!s->seen[n->at[i]]) {
			s->seen[n->at[i]] = 1;
			next[count++] = n->at[i];
		}
	return count;
}

/* All sets that begin with the K that there are; COUNT at NEXT may be added, and their neighbours. */
static void extend(struct search *s, unsigned k, unsigned code, const uint32_t *next, unsigned count)
{
	uint32_t mine[MOST * KEDGE__DEGREE_MOST];

	while (count--) {
		uint32_t v = next[count];
		unsigned more = 0, with = code;

		if (v <= s->set[0])
			continue;
		for (unsigned i = 0; i < k; i++)
			with |= (unsigned)joined(s->g, s->set[i], v) << kedge__orbit_bit(i, k);
		s->set[k] = v;
		found(s, k + 1, with);
		if (k + 1 == MOST)
			continue;
		memcpy(mine, next, count * sizeof(*mine));
		more = open(s, k + 1, mine + count);
		extend(s, k + 1, with, mine, count + more);
		for (unsigned i = 0; i < more; i++)
			s->seen[mine[count + i]] = 0;
	}
}

void kedge__graphlets_count(const struct kedge__graph *g, const struct kedge__orbits *o, uint32_t first, uint32_t end,
			    uint32_t *counts, uint8_t *seen)
{
	struct search s = {.g = g, .o = o, .counts = counts, .seen = seen};
	uint32_t next[KEDGE__DEGREE_MOST];

	for (uint32_t v = first; v < end; v++) {
		unsigned count;

		s.set[0] = v;
		seen[v] = 1;
		count = open(&s, 1, next);
		extend(&s, 1, 0, next, count);
		for (unsigned i = 0; i < count; i++)
			seen[next[i]] = 0;
		seen[v] = 0;
	}
}
