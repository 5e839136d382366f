/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * graphlets: how often each vertex of a graph is at each place of a graphlet, an induced connected subgraph of two to five
 * vertices: its graphlet degree vector. Places that are alike are one orbit; there are 73.
 */
#ifndef KEDGE_BENCH_GRAPHLETS_H
#define KEDGE_BENCH_GRAPHLETS_H

#include "base/base.h"

#define KEDGE__GRAPHLET_MOST 5 /* vertices */
#define KEDGE__ORBITS        73
#define KEDGE__DEGREE_MOST   8

struct kedge__graph {
	uint32_t count;
	struct kedge__neighbours {
		uint32_t count, at[KEDGE__DEGREE_MOST];
	} *vertices;
};

/* No edges yet. */
int kedge__graph_init(struct kedge__graph *g, uint32_t vertices, struct kedge__error *err);
void kedge__graph_done(struct kedge__graph *g);
/* False: they are one, have it already, or one of them has KEDGE__DEGREE_MOST others. */
bool kedge__graph_join(struct kedge__graph *g, uint32_t a, uint32_t b);
/* As roads are: crossings of a grid of SIDE x SIDE, most of which are joined to some of their neighbours, and few diagonally. */
int kedge__graph_roads(struct kedge__graph *g, uint32_t side, uint64_t seed, struct kedge__error *err);

/* Of each graph of K vertices, with bit CODE of its edges as kedge__orbit_bit() has them, and each vertex: the orbit. */
struct kedge__orbits {
	uint8_t of[KEDGE__GRAPHLET_MOST + 1][1 << 10][KEDGE__GRAPHLET_MOST];
	uint32_t count, graphlets;
};

static inline unsigned kedge__orbit_bit(unsigned low, unsigned high)
{
	return high * (high - 1) / 2 + low;
}

void kedge__orbits_init(struct kedge__orbits *o);

/* Graphlets whose lowest vertex is one of [FIRST, END) are added to COUNTS: those of an orbit, of all vertices, before those of the
 * next. SEEN: a byte for each vertex, all 0. */
void kedge__graphlets_count(const struct kedge__graph *g, const struct kedge__orbits *o, uint32_t first, uint32_t end,
			    uint32_t *counts, uint8_t *seen);

#endif
