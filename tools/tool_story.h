/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * story: what became of one job, told by its journal: its processes, its versions, and what else happened. Numbers are those of the
 * journal; sums and what failures cost are made of them here, and nowhere else.
 */
#ifndef KEDGE_TOOLS_TOOL_STORY_H
#define KEDGE_TOOLS_TOOL_STORY_H

#include "tool_journal.h"

struct kedge__story {
	char *name; /* NULL: of the first event */
	struct kedge__journal_reader reader;
	json_t *processes; /* time, last, ended (closed, killed or open), and what `open` said */
	json_t *versions;  /* in the order in which they began: process, and what the events said; times are begin, sealed, on_l2 */
	json_t *marks;     /* failed, fallback, restart, request, interval, lost: as they are in the journal, with process */
};

void kedge__story_init(struct kedge__story *s, const char *name);
void kedge__story_done(struct kedge__story *s);
/* What PATH has had appended since the last call; the first call reads PATH.1, too. */
int kedge__story_read(struct kedge__story *s, const char *path, struct kedge__error *err);
/* An object with all of it, and with `totals`; the caller's. */
json_t *kedge__story_json(const struct kedge__story *s);
json_t *kedge__story_totals(const struct kedge__story *s);
/* The file of NAME, according to the settings: kedge__free(). */
char *kedge__story_path(const struct kedge__job_settings *s, const char *name);

#endif
