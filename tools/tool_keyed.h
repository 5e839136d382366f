/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tool_keyed: patterns of names in which {} is the part that says what a file belongs to: the set, for `kedge watch`; the rank,
 * for `kedge save --ranks`. Otherwise they are as the shell has them: *, ? and [...], within a component.
 */
#ifndef KEDGE_TOOLS_TOOL_KEYED_H
#define KEDGE_TOOLS_TOOL_KEYED_H

#include "tool.h"

#define KEDGE__KEYED_ROOM 256 /* for a component */

enum kedge__keyed_kind {
	KEDGE__KEYED_TEXT,   /* {} is a number if it can be, else any text */
	KEDGE__KEYED_NUMBER, /* {} is a number, and all of its digits */
};

/* Whether NAME, one component, fits PATTERN. KEY: what {} is, if it is known; NULL: *FOUND becomes that, if there is one; kedge__free(). */
bool kedge__keyed_fits(const char *pattern, enum kedge__keyed_kind kind, const char *name, const char *key, char **found);
/* The next component of *AT, in TEXT. False: there is none, or it is too long for any name. */
bool kedge__keyed_component(const char **at, char text[KEDGE__KEYED_ROOM]);
/* Names without empty components, "." and "..". NULL, or what is wrong. */
const char *kedge__keyed_check(const char *pattern);

enum kedge__rank_found {
	KEDGE__RANK_ABSENT,
	KEDGE__RANK_PRESENT,
	KEDGE__RANK_TOO_LARGE, /* no rank has such a number */
};

/*
 * The rank that NAME belongs to: some components of it in a row fit PATTERN, from the first on if that begins with a slash. So what is
 * in a directory that fits belongs to its rank.
 */
enum kedge__rank_found kedge__rank_of(const char *pattern, const char *name, uint64_t *rank);
const char *kedge__rank_check(const char *pattern); /* NULL, or what is wrong */

#endif
