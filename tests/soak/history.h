/*
 * history: memory that changes from version to version in ways drawn from a seed, so that what it was at any version can
 * be worked out again and compared with what a restart gave.
 *
 * A version has a branch: the number of the life in which it was computed. Two lives that compute the same version get
 * different memory, so that a store that mixes an abandoned future with a later one is found out. The branches of all
 * versions so far are part of the memory (the region "log").
 */
#ifndef TESTS_SOAK_HISTORY_H
#define TESTS_SOAK_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HISTORY_VERSIONS 60
#define HISTORY_AREAS 4
#define HISTORY_ROOM ((size_t)1536 << 10) /* bytes that an area may have at most */

struct history_log {
	uint64_t version;
	uint64_t branch[HISTORY_VERSIONS + 1];
};

/* Memory of one region: BYTES of a mapping of HISTORY_ROOM bytes. BYTES is 0 while the area is not there. */
struct history_area {
	uint8_t *at;
	size_t bytes;
};

struct history {
	uint64_t seed;
	struct history_log log;
	struct history_area areas[HISTORY_AREAS];
};

struct history *history_new(uint64_t seed); /* at version 0 */
void history_free(struct history *h);

/* Change areas FIRST .. END - 1 to what they are at version h->log.version + 1 on BRANCH. Not their size. */
void history_change(struct history *h, uint64_t branch, size_t first, size_t end);

/* The bytes that area I has at the next version on BRANCH; what is new is zero. */
size_t history_next_size(const struct history *h, uint64_t branch, size_t i);

/* Set area I to BYTES; a MOVE takes a fresh mapping. The old mapping, to be unmapped by the caller, or NULL. */
uint8_t *history_resize(struct history *h, size_t i, size_t bytes, bool move);
void history_unmap(uint8_t *at);

/* All areas were changed: it is the next version now. */
void history_advance(struct history *h, uint64_t branch);

/* What the memory with this log must be. */
struct history *history_replay(uint64_t seed, const struct history_log *log);

/* NULL, or in words where H differs from WANT, in a buffer that lasts until the next call. */
const char *history_difference(const struct history *h, const struct history *want);

/* Numbers that depend on the state alone. */
uint64_t draw(uint64_t *state);
static inline uint64_t draw_below(uint64_t *state, uint64_t n)
{
	return draw(state) % n;
}

#endif
