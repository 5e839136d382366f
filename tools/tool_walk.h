/* SPDX-License-Identifier: BSD-3-Clause */
/* tool_walk: the files that `kedge save` finds, by the operands, in directories, and in lists. */
#ifndef KEDGE_TOOLS_TOOL_WALK_H
#define KEDGE_TOOLS_TOOL_WALK_H

#include "tool_files.h"

/* ------------------------------------------------------------------ tool_patterns.c */

/*
 * Patterns as of other tools: without a slash, one that fits the last component of a name; with one, any components in a
 * row, and from the first on if it begins with a slash. `*` and `?` stop at slashes, `**` does not. With a slash at its
 * end only directories fit. What is below an excluded directory is not looked at.
 */
struct kedge__excludes {
	KEDGE__ARRAY(char *) list;
};

void kedge__excludes_add(struct kedge__excludes *x, const char *pattern);
/* One pattern per line of FILE, "-" for standard input, except empty ones and those that begin with '#'. */
int kedge__excludes_read(struct kedge__excludes *x, const char *file, struct kedge__error *err);
bool kedge__excludes_fit(const struct kedge__excludes *x, const char *name, bool directory);
void kedge__excludes_done(struct kedge__excludes *x);
/* Whether PATTERN, as above, fits NAME, or a directory that it is in. For `kedge restore`, too. */
bool kedge__pattern_fits(const char *pattern, const char *name, bool directory);

/* Every line of FILE ("-": standard input), or what ends in a NUL. Ends with the first failure of EACH. */
int kedge__lines_read(const char *file, bool nul, int (*each)(void *ctx, char *line, struct kedge__error *err), void *ctx,
		      struct kedge__error *err);

/* ------------------------------------------------------------------ tool_walk.c */

struct kedge__found {
	struct kedge__tree_entry entry; /* moves to a tree */
	char *path;                     /* to open it; owned */
	uint64_t device;                /* that it is on */
	uint32_t part;                  /* of the version that it goes to: a group of ranks */
	bool named;                     /* an operand */
	bool gone;                      /* it is about to be left out */
	bool same;                      /* as it was in the version before */
	bool large;                     /* it is read when it is saved, */
	const void *data;               /* or was read already: here */
	int fd;                         /* or a copy of it was made, here; -1: none */
	uint64_t plain_bytes;           /* of its plain form, if that is what DATA or FD has */
};

struct kedge__walk {
	const char *command;
	struct kedge__excludes excludes;
	bool one_file_system, quiet;
	bool store; /* this directory is not walked into: */
	uint64_t store_device, store_inode;
	KEDGE__ARRAY(struct kedge__found) found; /* in the order of names, after done() */
	size_t left_out;                         /* said by name */
	size_t hardlinks;
	struct kedge__hash links;                /* files with several names, by inode */
};

void kedge__walk_begin(struct kedge__walk *w, const char *store);
/* PATH and, if it is a directory and RECURSE, what is in it. NAMED: it is an operand, and has to be there. */
int kedge__walk_add(struct kedge__walk *w, const char *path, bool recurse, bool named, struct kedge__error *err);
/* What was found, in order. KEDGE_E_ARG: two files have the same name. */
int kedge__walk_end(struct kedge__walk *w, struct kedge__error *err);
/* "NAME was left out: why", counted. */
void kedge__walk_leave(struct kedge__walk *w, const char *path, const char *why);
void kedge__walk_done(struct kedge__walk *w);
void kedge__found_done(struct kedge__found *f);

#endif
