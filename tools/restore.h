/* restore: files that appear under a directory all at once, or not at all. */
#ifndef KEDGE_TOOLS_RESTORE_H
#define KEDGE_TOOLS_RESTORE_H

#include "tool.h"

struct kedge__output { /* one file on its way */
	char *temporary, *path;
};

struct kedge__outputs {
	const char *dir;
	bool sync;
	uint64_t next; /* for temporary names */
	KEDGE__ARRAY(struct kedge__output) list;
};

/*
 * Write BYTES of DATA below DIR (with RANK's folder before it if not negative) under a temporary name. REGION must be a
 * plain relative path: KEDGE_E_ARG if it is absolute, has "." or ".." or an empty component, or passes a symbolic link
 * that stands below DIR.
 */
int kedge__outputs_write(struct kedge__outputs *o, int64_t rank, const char *region, const void *data, size_t bytes,
			 struct kedge__error *err);
/* Rename all to their names. After a failure those that were renamed stay. */
int kedge__outputs_commit(struct kedge__outputs *o, struct kedge__error *err);
/* Remove what was not committed, free everything. */
void kedge__outputs_done(struct kedge__outputs *o);

#endif
