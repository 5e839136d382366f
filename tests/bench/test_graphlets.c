/* SPDX-License-Identifier: BSD-3-Clause */
/* Graphlets that are counted, beside all sets of vertices of small graphs. */
#include "../lib/cases.h"
#include "../lib/draw.h"
#include "graphlets.h"

#include <stdlib.h>

static struct kedge__orbits orbits;

static int setup(void **state)
{
	(void)state;
	kedge__orbits_init(&orbits);
	return 0;
}

/* Vertices A and B of the graph CODE of K vertices change places. */
static unsigned swapped(unsigned k, unsigned code, unsigned a, unsigned b)
{
	unsigned result = 0;

	for (unsigned j = 1; j < k; j++) {
		for (unsigned i = 0; i < j; i++) {
			unsigned x = i == a ? b : i == b ? a : i, y = j == a ? b : j == b ? a : j;
			unsigned bit = kedge__orbit_bit(KEDGE__MIN(x, y), KEDGE__MAX(x, y));

			result |= (code >> kedge__orbit_bit(i, j) & 1) << bit;
		}
	}
	return result;
}

static unsigned edges(unsigned k, unsigned code, unsigned v)
{
	unsigned n = 0;

	for (unsigned i = 0; i < k; i++)
		if (i != v)
			n += code >> kedge__orbit_bit(KEDGE__MIN(i, v), KEDGE__MAX(i, v)) & 1;
	return n;
}

static bool connected(unsigned k, unsigned code)
{
	unsigned group[KEDGE__GRAPHLET_MOST] = {0, 1, 2, 3, 4};

	for (unsigned turn = 0; turn < k; turn++)
		for (unsigned j = 1; j < k; j++)
			for (unsigned i = 0; i < j; i++)
				if (code >> kedge__orbit_bit(i, j) & 1)
					group[i] = group[j] = KEDGE__MIN(group[i], group[j]);
	for (unsigned i = 1; i < k; i++)
		if (group[i])
			return false;
	return true;
}

/* An orbit does not depend on names, and there are as many as the literature has: so they are those. Names are
 * exchanged in pairs, which gives all orders. */
static void test_orbits(void **state)
{
	unsigned degree[KEDGE__ORBITS] = {0};

	(void)state;
	assert_int_equal(orbits.count, KEDGE__ORBITS);
	assert_int_equal(orbits.graphlets, 30);
	for (unsigned k = 2; k <= KEDGE__GRAPHLET_MOST; k++) {
		for (unsigned code = 0; code < 1u << k * (k - 1) / 2; code++) {
			const uint8_t *of = orbits.of[k][code];

			for (unsigned a = 0; connected(k, code) && a < k; a++) {
				const uint8_t *other = orbits.of[k][swapped(k, code, a, (a + 1) % k)];

				for (unsigned i = 0; i < k; i++)
					assert_int_equal(of[i], other[i == a ? (a + 1) % k : i == (a + 1) % k ? a : i]);
				assert_true(!degree[of[a]] || degree[of[a]] == edges(k, code, a) + 10 * k);
				degree[of[a]] = edges(k, code, a) + 10 * k;
			}
		}
	}
	for (unsigned i = 0; i < KEDGE__ORBITS; i++)
		assert_true(degree[i] > 0);
}

static bool joined(const struct kedge__graph *g, uint32_t a, uint32_t b)
{
	for (uint32_t i = 0; i < g->vertices[a].count; i++)
		if (g->vertices[a].at[i] == b)
			return true;
	return false;
}

/* All sets of two to five vertices. */
static void count_all(const struct kedge__graph *g, uint32_t *counts)
{
	for (uint32_t set = 0; set < 1u << g->count; set++) {
		uint32_t v[32];
		unsigned k = 0, code = 0;

		for (uint32_t i = 0; i < g->count; i++)
			if (set >> i & 1)
				v[k++] = i;
		if (k < 2 || k > KEDGE__GRAPHLET_MOST)
			continue;
		for (unsigned j = 1; j < k; j++)
			for (unsigned i = 0; i < j; i++)
				code |= (unsigned)joined(g, v[i], v[j]) << kedge__orbit_bit(i, j);
		for (unsigned i = 0; connected(k, code) && i < k; i++)
			counts[orbits.of[k][code][i] * g->count + v[i]]++;
	}
}

static void graph_check(const struct kedge__graph *g, uint32_t parts)
{
	uint64_t bytes = (uint64_t)KEDGE__ORBITS * g->count * sizeof(uint32_t);
	uint32_t *want = calloc(1, bytes), *got = calloc(1, bytes);
	uint8_t *seen = calloc(1, g->count);

	assert_true(want && got && seen);
	count_all(g, want);
	for (uint32_t i = 0; i < parts; i++)
		kedge__graphlets_count(g, &orbits, g->count * i / parts, g->count * (i + 1) / parts, got, seen);
	assert_memory_equal(got, want, bytes);
	for (uint32_t v = 0; v < g->count; v++) {
		assert_int_equal(got[v], g->vertices[v].count); /* the first orbit is the degree */
		assert_int_equal(seen[v], 0);
	}
	free(want);
	free(got);
	free(seen);
}

static void test_counts(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 12; seed++) {
		struct kedge__graph g;
		uint64_t r = seed;

		assert_int_equal(kedge__graph_init(&g, 6 + (uint32_t)seed % 9, NULL), 0);
		for (uint32_t i = 0; i < g.count * (1 + seed % 4); i++)
			(void)kedge__graph_join(&g, (uint32_t)draw_below(&r, g.count),
						(uint32_t)draw_below(&r, g.count));
		graph_check(&g, 1 + seed % 5);
		kedge__graph_done(&g);
	}
}

static void test_roads(void **state)
{
	struct kedge__graph g;

	(void)state;
	for (uint64_t seed = 1; seed <= 4; seed++) {
		assert_int_equal(kedge__graph_roads(&g, 4, seed, NULL), 0);
		graph_check(&g, 20);
		kedge__graph_done(&g);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_orbits),
	    cmocka_unit_test(test_counts),
	    cmocka_unit_test(test_roads),
	};

	return cases_run(argc, argv, tests, setup, NULL);
}
