/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * world: small jobs of all reducers and codecs, whose memory at every version is known. Whatever a store that was
 * tampered with gives back, it must be one of these, or an error.
 */
#ifndef TESTS_MUTATE_WORLD_H
#define TESTS_MUTATE_WORLD_H

#include "../lib/draw.h"
#include "../lib/files.h"
#include "../lib/scratch.h"

#include <fcntl.h>
#include <kedge/kedge.h>
#include <string.h>
#include <unistd.h>

#define WORLD_VERSIONS 5 /* 1 to this; the one after it is taken on a store that was tampered with */
#define WORLD_REGIONS  3
#define WORLD_ROOM     ((size_t)40 << 10)

struct subject {
	const char *name;
	const char *settings[8];
	bool second_level;
};

extern const struct subject subjects[];
extern const size_t subject_count;

struct memory {
	uint8_t at[WORLD_REGIONS][WORLD_ROOM];
	size_t bytes[WORLD_REGIONS];
};

extern const char *const region_names[WORLD_REGIONS];

void memory_at(struct memory *m, uint64_t version);
/* Whether these are the bytes of any region at any version. */
bool memory_known(const uint8_t *data, size_t bytes);

int world_open(const struct subject *s, const char *dir, kedge_t **k);
int world_protect(kedge_t *k, struct memory *m);
/* Versions 1 to WORLD_VERSIONS, in DIR. */
void world_make(const struct subject *s, const char *dir);

#endif
