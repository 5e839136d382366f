/* draw: numbers that depend on a seed alone. */
#ifndef KEDGE_TESTS_LIB_DRAW_H
#define KEDGE_TESTS_LIB_DRAW_H

#include <stdint.h>

static inline uint64_t draw(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

static inline uint64_t draw_below(uint64_t *state, uint64_t n)
{
	return draw(state) % n;
}

#endif
