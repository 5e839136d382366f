/* SPDX-License-Identifier: BSD-3-Clause */
/* tool_tree: the tree of files of a stored version. */
#ifndef KEDGE_TOOLS_TOOL_TREE_H
#define KEDGE_TOOLS_TOOL_TREE_H

#include "restore/restore.h"
#include "tool.h"

/* That of the lineage's top version. *PRESENT: it has one; most versions of programs have none. BYTES_READ is added to, and may be NULL. */
int kedge__tool_tree_read(struct kedge__lineage *l, struct kedge__pool *pool, struct kedge__io io, struct kedge__tree *tree, bool *present,
			  uint64_t *bytes_read, struct kedge__error *err);
/* What FROM has moves to ALL, but for names that this has already: segments of one version have the same directories. */
void kedge__tool_tree_join(struct kedge__tree *all, struct kedge__tree *from);
/* "-rw-r--r--", as ls(1) has it. */
#define KEDGE__MODE_ROOM 11
const char *kedge__text_mode(const struct kedge__tree_entry *e, char text[KEDGE__MODE_ROOM]);

#endif
