/* SPDX-License-Identifier: BSD-3-Clause */
/* settings: what a life of a job is like: its settings, and what goes wrong. */
#ifndef TESTS_LIVES_SETTINGS_H
#define TESTS_LIVES_SETTINGS_H

#include "../lib/draw.h"

#include <stdbool.h>

#define LIFE_SETTINGS 32
#define LIFE_HANGS    120 /* seconds after which a life is taken as hung */

struct life {
	uint64_t state;     /* for further draws */
	uint64_t number;
	uint64_t moves;     /* to make */
	uint64_t keep[2];   /* versions on L1, on L2; 0: all */
	bool closes, sync;
	bool relative;      /* the paths of the levels are */
	bool any_thread, background; /* how ranks may meet */
	int struck;         /* the rank that the fault hits, modulo their number */
	bool errs;          /* the fault is one that calls may report */
	char fault[32];     /* for kedge__fault_set(), "" for none */
	char text[LIFE_SETTINGS][160];
	const char *settings[LIFE_SETTINGS + 1]; /* key=value, NULL-terminated, without the directories */
};

/* MOMENTS: no faults at counted calls, since the life will be killed at a moment that the clock gives. */
void life_draw(struct life *life, uint64_t seed, uint64_t number, bool moments);

/* All of it in one line that lasts until the next call. */
const char *life_text(const struct life *life);

#endif
