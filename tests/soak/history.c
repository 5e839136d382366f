#include "history.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static const size_t first_sizes[HISTORY_AREAS] = {700 << 10, 300001, 90000, 1 << 20};

uint64_t draw(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

static uint8_t *map(void)
{
	void *at = mmap(NULL, HISTORY_ROOM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		abort();
	return at;
}

void history_unmap(uint8_t *at)
{
	if (at)
		munmap(at, HISTORY_ROOM);
}

/* What is drawn for area I of the next version; PURPOSE keeps draws for different ends apart. */
static uint64_t stream(const struct history *h, uint64_t branch, size_t i, uint64_t purpose)
{
	uint64_t state = h->seed * 1000003 + (h->log.version + 1) * 8191 + branch * 131 + i * 17 + purpose;

	draw(&state);
	return state;
}

struct history *history_new(uint64_t seed)
{
	struct history *h = calloc(1, sizeof(*h));

	if (!h)
		abort();
	h->seed = seed;
	for (size_t i = 0; i < HISTORY_AREAS; i++) {
		h->areas[i].at = map();
		h->areas[i].bytes = first_sizes[i];
		for (size_t j = 0; j + 8 <= h->areas[i].bytes; j += 8) {
			double value = (double)(j / 8 % 1000) * 0.001 + (double)i;

			memcpy(h->areas[i].at + j, &value, 8);
		}
	}
	return h;
}

void history_free(struct history *h)
{
	if (!h)
		return;
	for (size_t i = 0; i < HISTORY_AREAS; i++)
		history_unmap(h->areas[i].at);
	free(h);
}

/* ---- the ways in which memory changes */

struct range {
	size_t at, bytes;
};

static struct range draw_range(uint64_t *state, size_t bytes)
{
	size_t at = draw_below(state, bytes), most = bytes - at;
	size_t limit = (size_t)1 << draw_below(state, 21);

	return (struct range){at, 1 + draw_below(state, most < limit ? most : limit)};
}

static void scatter(struct history_area *a, uint64_t *state)
{
	for (uint64_t n = 1 + draw_below(state, 200); n > 0; n--)
		a->at[draw_below(state, a->bytes)] = (uint8_t)draw(state);
}

static void noise(struct history_area *a, uint64_t *state)
{
	struct range r = draw_range(state, a->bytes);

	for (size_t i = 0; i < r.bytes; i++)
		a->at[r.at + i] = (uint8_t)draw(state);
}

/* A field that moves a little: doubles that keep their upper bits. */
static void drift(struct history_area *a, uint64_t *state)
{
	struct range r = draw_range(state, a->bytes);
	double by = 1e-9 * (double)draw_below(state, 1000);

	for (size_t i = (r.at + 7) / 8 * 8; i + 8 <= r.at + r.bytes; i += 8) {
		double value = (double)(i / 8) * 0.001 + by;

		memcpy(a->at + i, &value, 8);
	}
}

static void shift(struct history_area *a, uint64_t *state)
{
	struct range r = draw_range(state, a->bytes);
	size_t to = draw_below(state, a->bytes - r.bytes + 1);

	memmove(a->at + to, a->at + r.at, r.bytes);
}

static void fill(struct history_area *a, uint64_t *state)
{
	struct range r = draw_range(state, a->bytes);

	memset(a->at + r.at, draw_below(state, 2) ? 0 : (int)draw_below(state, 256), r.bytes);
}

/* Few patterns of 32 bytes, in any order. */
static void patterns(struct history_area *a, uint64_t *state)
{
	struct range r = draw_range(state, a->bytes);

	for (size_t i = r.at / 32 * 32; i + 32 <= r.at + r.bytes; i += 32)
		memset(a->at + i, (int)draw_below(state, 5) * 40 + 1, 32);
}

static void (*const changes[])(struct history_area *, uint64_t *) = {scatter, scatter, noise,   drift,
								     shift,   fill,    patterns};

void history_change(struct history *h, uint64_t branch, size_t first, size_t end)
{
	for (size_t i = first; i < end; i++) {
		uint64_t state = stream(h, branch, i, 1);

		if (!h->areas[i].bytes)
			continue;
		for (uint64_t n = draw_below(&state, 4); n > 0; n--)
			changes[draw_below(&state, sizeof(changes) / sizeof(*changes))](&h->areas[i], &state);
	}
}

/* Area 1 grows and shrinks, area 2 comes and goes, the others stay. */
size_t history_next_size(const struct history *h, uint64_t branch, size_t i)
{
	uint64_t state = stream(h, branch, i, 2);
	size_t bytes = h->areas[i].bytes;

	if (i == 1 && draw_below(&state, 3) == 0)
		return 1 + draw_below(&state, draw_below(&state, 4) ? HISTORY_ROOM : 5000);
	if (i == 2 && draw_below(&state, 5) == 0)
		return bytes ? 0 : first_sizes[2];
	return bytes;
}

uint8_t *history_resize(struct history *h, size_t i, size_t bytes, bool move)
{
	struct history_area *a = &h->areas[i];
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

void history_advance(struct history *h, uint64_t branch)
{
	h->log.version++;
	h->log.branch[h->log.version] = branch;
}

/* ---- what it must have been */

struct history *history_replay(uint64_t seed, const struct history_log *log)
{
	struct history *h = history_new(seed);

	while (h->log.version < log->version) {
		uint64_t branch = log->branch[h->log.version + 1];

		for (size_t i = 0; i < HISTORY_AREAS; i++)
			(void)history_resize(h, i, history_next_size(h, branch, i), false);
		history_change(h, branch, 0, HISTORY_AREAS);
		history_advance(h, branch);
	}
	return h;
}

const char *history_difference(const struct history *h, const struct history *want)
{
	static char text[160];

	if (memcmp(&h->log, &want->log, sizeof(h->log)) != 0)
		return "the log differs";
	for (size_t i = 0; i < HISTORY_AREAS; i++) {
		const struct history_area *a = &h->areas[i], *b = &want->areas[i];

		if (a->bytes != b->bytes) {
			snprintf(text, sizeof(text), "area %zu has %zu bytes, not %zu", i, a->bytes, b->bytes);
			return text;
		}
		for (size_t j = 0; j < a->bytes; j++) {
			if (a->at[j] != b->at[j]) {
				snprintf(text, sizeof(text), "area %zu of %zu bytes differs first at byte %zu", i,
					 a->bytes, j);
				return text;
			}
		}
	}
	return NULL;
}
