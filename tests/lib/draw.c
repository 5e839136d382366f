/* SPDX-License-Identifier: BSD-3-Clause */
#include "draw.h"

#include <string.h>

/* splitmix64 */
uint64_t draw(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

uint64_t draw_below(uint64_t *state, uint64_t n)
{
	return n ? draw(state) % n : 0;
}

void draw_bytes(uint64_t *state, void *data, size_t bytes)
{
	for (size_t i = 0; i < bytes; i += 8) {
		uint64_t v = draw(state);

		memcpy((uint8_t *)data + i, &v, bytes - i < 8 ? bytes - i : 8);
	}
}

void fill_random(void *data, size_t bytes, uint64_t seed)
{
	uint64_t state = draw(&seed); /* far from the streams of other seeds, and from that of a generator at SEED */

	draw_bytes(&state, data, bytes);
}
