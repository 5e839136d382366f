/* SPDX-License-Identifier: BSD-3-Clause */
/* diff: what differs between two versions, rank by rank. */
#ifndef KEDGE_TOOLS_DIFF_H
#define KEDGE_TOOLS_DIFF_H

#include "restore/restore.h"
#include "tool.h"

struct kedge__diff_entry { /* a file that is something else now, beside its bytes; both owned */
	char *name, *what;
};

struct kedge__diff_rank {
	uint32_t rank;
	struct kedge__diff_region *regions;
	size_t count;
	KEDGE__ARRAY(struct kedge__diff_entry) entries;
	KEDGE__ARRAY(const char *) apart; /* files of which one version has the plain form, in order; of its tree */
};

struct kedge__diff_tool {
	struct kedge__usage usage;
	struct kedge__place place;
	const char *wanted[2]; /* as written */
	uint64_t a, b, rank; /* rank UINT64_MAX: all */
	const char *svg;
	bool exit_code, all_ranges;
	struct kedge__pool *pool;
	KEDGE__ARRAY(struct kedge__diff_rank) ranks;
	uint64_t changed_bytes, changed_regions, changed_ranges, changed_entries;
};

/* diff_tree.c: takes the tree of files from the regions of R, and says what differs in it beside times. A file of which one version has
 * the plain form, and the other has not, is taken out, too: what was compared of it are two forms. */
int kedge__diff_tree(struct kedge__diff_rank *r, struct kedge__lineage *a, struct kedge__lineage *b, struct kedge__pool *pool, struct kedge__io io,
		     struct kedge__error *err);

/* The same of trees that were read already. */
void kedge__diff_trees(struct kedge__diff_rank *r, const struct kedge__tree *a, const struct kedge__tree *b);

void kedge__diff_entries_free(struct kedge__diff_rank *r);

/* diff_groups.c: versions of files of many ranks, A and B, by names, wherever these are: all of them, or those of d->rank. */
bool kedge__diff_is_grouped(const struct kedge__set *a, const struct kedge__set *b);
int kedge__diff_groups(struct kedge__diff_tool *d, const struct kedge__set *a, const struct kedge__set *b, struct kedge__diff_rank *out,
		       struct kedge__error *err);

const char *kedge__diff_status(const struct kedge__diff_region *r); /* "same", "changed", "added", "removed" */

/* The heat map: a strip a region, its cells as dark as the share of their bytes that changed. Written under a temporary
 * name and renamed. */
int kedge__diff_svg(const struct kedge__diff_tool *d, const char *path, struct kedge__error *err);

#endif
