/* SPDX-License-Identifier: BSD-3-Clause */
/* restore: files that appear under a directory all at once, or not at all. */
#ifndef KEDGE_TOOLS_RESTORE_H
#define KEDGE_TOOLS_RESTORE_H

#include "tool.h"

struct kedge__output {          /* one file on its way */
	char *temporary, *path; /* temporary: NULL once it has its name */
	void *data;             /* mapped while it is filled */
	size_t bytes;
	int fd;
};

struct kedge__outputs {
	const char *dir;
	bool sync;
	uint64_t next;  /* for temporary names */
	size_t settled; /* those before it are filled and closed */
	KEDGE__ARRAY(struct kedge__output) list;
};

/*
 * A file of BYTES bytes below DIR (in RANK's folder if RANK is not negative), under a temporary name; *DATA is its
 * contents to be filled in, NULL if BYTES is 0. REGION must be a plain relative path: KEDGE_E_MISMATCH if it is absolute,
 * has "." or ".." or an empty component, or passes a symbolic link below DIR.
 */
int kedge__outputs_add(struct kedge__outputs *o, int64_t rank, const char *region, uint64_t bytes, void **data,
		       struct kedge__error *err);
/* All files added so far are filled: make them durable and close them. */
int kedge__outputs_settle(struct kedge__outputs *o, struct kedge__error *err);
/* Rename all to their names. After a failure those that were renamed stay. */
int kedge__outputs_commit(struct kedge__outputs *o, struct kedge__error *err);
/* Remove what was not committed, free everything. */
void kedge__outputs_done(struct kedge__outputs *o);

#endif
