/* SPDX-License-Identifier: BSD-3-Clause */
#include "memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

const char *const memory_names[MEMORY_AREAS] = {"field", "heap", "cells", "wide"};

static const size_t first_sizes[MEMORY_AREAS] = {96 << 10, 40001, 12000, 128 << 10};

static uint8_t *map(void)
{
	void *at = mmap(NULL, MEMORY_ROOM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		abort();
	return at;
}

void memory_unmap(uint8_t *at)
{
	if (at)
		munmap(at, MEMORY_ROOM);
}

/* What is drawn for area I of NODE; PURPOSE keeps draws for different ends apart. */
static uint64_t stream(const struct memory *m, uint64_t node, size_t i, uint64_t purpose)
{
	uint64_t state = m->seed * 1000003 + node * 8191 + i * 17 + purpose;

	draw(&state);
	return state;
}

struct memory *memory_new(uint64_t seed, size_t scale)
{
	struct memory *m = calloc(1, sizeof(*m));

	if (!m)
		abort();
	m->seed = seed;
	m->scale = scale;
	for (size_t i = 0; i < MEMORY_AREAS; i++) {
		m->areas[i].at = map();
		m->areas[i].bytes = first_sizes[i] * scale;
		for (size_t j = 0; j + 8 <= m->areas[i].bytes; j += 8) {
			double value = (double)(j / 8 % 1000) * 0.001 + (double)i;

			memcpy(m->areas[i].at + j, &value, 8);
		}
	}
	return m;
}

void memory_free(struct memory *m)
{
	if (!m)
		return;
	for (size_t i = 0; i < MEMORY_AREAS; i++)
		memory_unmap(m->areas[i].at);
	free(m);
}

/* ---- the ways in which memory changes */

struct range {
	size_t at, bytes;
};

static struct range draw_range(uint64_t *state, size_t bytes)
{
	size_t at = draw_below(state, bytes), most = bytes - at;
	size_t limit = (size_t)1 << draw_below(state, 19);

	return (struct range){at, 1 + draw_below(state, most < limit ? most : limit)};
}

static void scatter(struct memory_area *a, uint64_t *state)
{
	for (uint64_t n = 1 + draw_below(state, 200); n > 0; n--)
		a->at[draw_below(state, a->bytes)] = (uint8_t)draw(state);
}

static void noise(struct memory_area *a, uint64_t *state)
{
	struct range r = draw_range(state, a->bytes);

	for (size_t i = 0; i < r.bytes; i++)
		a->at[r.at + i] = (uint8_t)draw(state);
}

/* A field that moves a little: doubles that keep their upper bits. */
static void drift(struct memory_area *a, uint64_t *state)
{
	struct range r = draw_range(state, a->bytes);
	double by = 1e-9 * (double)draw_below(state, 1000);

	for (size_t i = (r.at + 7) / 8 * 8; i + 8 <= r.at + r.bytes; i += 8) {
		double value = (double)(i / 8) * 0.001 + by;

		memcpy(a->at + i, &value, 8);
	}
}

static void shift(struct memory_area *a, uint64_t *state)
{
	struct range r = draw_range(state, a->bytes);
	size_t to = draw_below(state, a->bytes - r.bytes + 1);

	memmove(a->at + to, a->at + r.at, r.bytes);
}

static void fill(struct memory_area *a, uint64_t *state)
{
	struct range r = draw_range(state, a->bytes);

	memset(a->at + r.at, draw_below(state, 2) ? 0 : (int)draw_below(state, 256), r.bytes);
}

/* Few patterns of 32 bytes, in any order. */
static void patterns(struct memory_area *a, uint64_t *state)
{
	struct range r = draw_range(state, a->bytes);

	for (size_t i = r.at / 32 * 32; i + 32 <= r.at + r.bytes; i += 32)
		memset(a->at + i, (int)draw_below(state, 5) * 40 + 1, 32);
}

static void (*const changes[])(struct memory_area *, uint64_t *) = {scatter, scatter, noise,   drift,
								    shift,   fill,    patterns};

void memory_change(struct memory *m, uint64_t node, size_t first, size_t end)
{
	for (size_t i = first; i < end; i++) {
		uint64_t state = stream(m, node, i, 1);

		if (!m->areas[i].bytes)
			continue;
		for (uint64_t n = draw_below(&state, 4); n > 0; n--)
			changes[draw_below(&state, sizeof(changes) / sizeof(*changes))](&m->areas[i], &state);
	}
}

/* Area 1 grows and shrinks, area 2 comes and goes, the others stay. */
size_t memory_next_size(const struct memory *m, uint64_t node, size_t i)
{
	uint64_t state = stream(m, node, i, 2);
	size_t bytes = m->areas[i].bytes;

	if (i == 1 && draw_below(&state, 3) == 0)
		return 1 + draw_below(&state, draw_below(&state, 4) ? first_sizes[1] * m->scale * 3 : 5000);
	if (i == 2 && draw_below(&state, 5) == 0)
		return bytes ? 0 : first_sizes[2] * m->scale;
	return bytes;
}

uint8_t *memory_resize(struct memory *m, size_t i, size_t bytes, bool move)
{
	struct memory_area *a = &m->areas[i];
	size_t both = bytes < a->bytes ? bytes : a->bytes;
	uint8_t *old = NULL;

	if (move) {
		uint8_t *fresh = map();

		memcpy(fresh, a->at, both);
		old = a->at;
		a->at = fresh;
	} else if (bytes < a->bytes) {
		memset(a->at + bytes, 0, a->bytes - bytes);
	}
	a->bytes = bytes;
	return old;
}

uint64_t memory_digest(const struct memory *m, size_t i)
{
	const struct memory_area *a = &m->areas[i];
	uint64_t sum = a->bytes * 0x9e3779b97f4a7c15u + 1, word;

	for (size_t j = 0; j < a->bytes; j += 8) {
		word = 0;
		memcpy(&word, a->at + j, a->bytes - j < 8 ? a->bytes - j : 8);
		sum = (sum ^ word) * 0xff51afd7ed558ccdu;
		sum ^= sum >> 32;
	}
	return sum;
}
