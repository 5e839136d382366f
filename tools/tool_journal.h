/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * journal: what jobs record of themselves (kedge-journal(5)), read. Lines that are no events are passed over: the last may have been cut by the
 * death of its writer, and a later version may write more.
 */
#ifndef KEDGE_TOOLS_TOOL_JOURNAL_H
#define KEDGE_TOOLS_TOOL_JOURNAL_H

#include "tool.h"

struct kedge__journal_reader {
	uint64_t offset; /* in the file: read so far */
	uint64_t inode;  /* of which file; another one is read from its beginning */
	uint64_t passed; /* lines that are no events */
	bool old;        /* one of them was of the form that versions before 0.3 wrote */
};

/* O is an object with the texts `event` and `name`. A code that is not 0 ends the reading. */
typedef int kedge__journal_each(void *ctx, const json_t *o, struct kedge__error *err);

/* What PATH has had appended since the last call. A line without an end is left for the next one. */
int kedge__journal_read(struct kedge__journal_reader *r, const char *path, kedge__journal_each *each, void *ctx, struct kedge__error *err);
/* What is in the file FD, at PATH, now is not read. */
int kedge__journal_end(struct kedge__journal_reader *r, int fd, const char *path, struct kedge__error *err);
/* PATH.1, if there is one, and then PATH. */
int kedge__journal_read_all(const char *path, struct kedge__journal_reader *r, kedge__journal_each *each, void *ctx, struct kedge__error *err);

/* Members, whatever they are: 0, NULL, or KEDGE__NO_VERSION if they are not there or of another kind. */
uint64_t kedge__event_uint(const json_t *o, const char *key);
double kedge__event_real(const json_t *o, const char *key);
const char *kedge__event_text(const json_t *o, const char *key);
uint64_t kedge__event_version(const json_t *o, const char *key);
bool kedge__event_is(const json_t *o, const char *event);

#endif
