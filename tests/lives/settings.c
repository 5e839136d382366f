/* SPDX-License-Identifier: BSD-3-Clause */
#include "settings.h"

#include "capture/capture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORDS 12

/* Each word is as likely as the others of its line; NULL leaves the default. */
static const struct {
	const char *key;
	const char *words[WORDS];
	size_t count;
} choices[] = {
    {"reducer", {"full", "basic", "list", "tree", "auto", "rex", "rex", "rex"}, 8},
    {"capture", {"sync", "copy", "cow", "cow-user", "cow"}, 5},
    {"track", {NULL, "none", "uffd", "mprotect"}, 4},
    {"chunk", {NULL, "32", "64", "512", "4096"}, 5},
    {"pattern", {NULL, "16", "64", "256"}, 4},
    {"codec",
     {NULL, "none", "lz4", "zstd", "shuffle+zstd", "xor+zstd", "minus+lz4", "delta+zstd", "field", "records+lz4",
      "max"},
     11},
    {"block", {NULL, "4096", "64k", "1M"}, 4},
    {"copy_memory", {NULL, NULL, "0", "100k", "2M"}, 5},
    {"coalesce", {NULL, "batch", "never"}, 3},
    {"l2_every", {NULL, "0", "2", "3"}, 4},
    {"keep", {NULL, NULL, NULL, NULL, "1", "2,daily:2", "4"}, 7},
    {"l2_keep", {NULL, NULL, NULL, NULL, "1", "2,hourly:2"}, 6},
    {"writer", {NULL, NULL, "uring"}, 3},
    {"direct", {NULL, NULL, "yes"}, 3},
    {"buffer", {NULL, "4096", "64k"}, 3},
    {"queue", {NULL, "1", "3"}, 3},
    {"threads", {NULL, "1", "3"}, 3},
    {"record_memory", {NULL, NULL, "1M"}, 3},
    {"rebuild", {NULL, NULL, "0"}, 3},
    {"paranoid", {NULL, NULL, NULL, NULL, "yes"}, 5},
    {"sync", {"no", "no", "no", "yes"}, 4},
    {"group_size", {NULL, NULL, "2", "3"}, 4},
};

static const char *const faults[] = {"",     "",    "",    "",    "",       "kill",  "kill",
				     "kill", "cut", "cut", "eio", "enospc", "short", "alloc"};

static void draw_fault(struct life *life)
{
	const char *kind = faults[draw_below(&life->state, sizeof(faults) / sizeof(*faults))];
	uint64_t at =
	    1 + draw_below(&life->state, (uint64_t)8 << draw_below(&life->state, strcmp(kind, "alloc") ? 6 : 10));
	bool lasts = strcmp(kind, "enospc") == 0 && draw_below(&life->state, 2);

	life->errs = strcmp(kind, "eio") == 0 || strcmp(kind, "enospc") == 0 || strcmp(kind, "alloc") == 0;
	life->fault[0] = '\0';
	if (*kind)
		snprintf(life->fault, sizeof(life->fault), "%s@%llu%s", kind, (unsigned long long)at, lasts ? "+" : "");
}

void life_draw(struct life *life, uint64_t seed, uint64_t number, bool moments)
{
	size_t n = 0;

	*life = (struct life){.state = seed * 7919 + number * 104729, .number = number};
	draw(&life->state);
	life->moves = 1 + draw_below(&life->state, 9);
	life->closes = draw_below(&life->state, 2);
	life->relative = draw_below(&life->state, 4) == 0;
	life->any_thread = draw_below(&life->state, 3) != 0;
	life->background = draw_below(&life->state, 2);
	life->struck = (int)draw_below(&life->state, 1000);
	for (size_t i = 0; i < sizeof(choices) / sizeof(*choices); i++) {
		const char *word = choices[i].words[draw_below(&life->state, choices[i].count)];

		if (!word || (strcmp(choices[i].key, "track") == 0 && kedge__tracker_probe(word, NULL) != 0))
			continue;
		if (strcmp(choices[i].key, "capture") == 0)
			life->sync = strcmp(word, "sync") == 0;
		if (strcmp(choices[i].key, "keep") == 0)
			life->keep[0] = strtoull(word, NULL, 10);
		if (strcmp(choices[i].key, "l2_keep") == 0)
			life->keep[1] = strtoull(word, NULL, 10);
		snprintf(life->text[n], sizeof(life->text[n]), "%s=%s", choices[i].key, word);
		life->settings[n] = life->text[n];
		n++;
	}
	if (!moments)
		draw_fault(life);
}

const char *life_text(const struct life *life)
{
	static char text[2048];
	size_t at = (size_t)snprintf(text, sizeof(text),
				     "life %llu, %llu moves, fault \"%s\":", (unsigned long long)life->number,
				     (unsigned long long)life->moves, life->fault);

	for (size_t i = 0; life->settings[i] && at < sizeof(text); i++)
		at += (size_t)snprintf(text + at, sizeof(text) - at, " %s", life->settings[i]);
	return text;
}
