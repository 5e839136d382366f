/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * memory: what a rank protects. It changes from version to version in ways drawn from a seed, and its digests are what the
 * model remembers of it.
 */
#ifndef TESTS_LIVES_MEMORY_H
#define TESTS_LIVES_MEMORY_H

#include "../lib/draw.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MEMORY_AREAS 4
#define MEMORY_ROOM  ((size_t)1536 << 10) /* bytes that an area may have at most */
#define MEMORY_SCALE 4                    /* at most */

/* A region of its own: which node of the model (model.h) the memory is of, on which rank. */
struct memory_tag {
	uint64_t node, version, rank, seed;
};

/* Memory of one region: BYTES of a mapping of MEMORY_ROOM bytes. BYTES is 0 while the area is not there. */
struct memory_area {
	uint8_t *at;
	size_t bytes;
};

struct memory {
	uint64_t seed;
	size_t scale;
	struct memory_tag tag;
	struct memory_area areas[MEMORY_AREAS];
};

extern const char *const memory_names[MEMORY_AREAS]; /* of regions */

struct memory *memory_new(uint64_t seed, size_t scale);
void memory_free(struct memory *m);

/* Change areas FIRST .. END - 1 to what they become at NODE. Not their size. */
void memory_change(struct memory *m, uint64_t node, size_t first, size_t end);

/* The bytes that area I has at NODE; what is new is zero. */
size_t memory_next_size(const struct memory *m, uint64_t node, size_t i);

/* Set area I to BYTES; a MOVE takes a fresh mapping. The old mapping, to be unmapped by the caller, or NULL. */
uint8_t *memory_resize(struct memory *m, size_t i, size_t bytes, bool move);
void memory_unmap(uint8_t *at);

/* Of the bytes and their number. */
uint64_t memory_digest(const struct memory *m, size_t i);

#endif
