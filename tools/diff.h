/* SPDX-License-Identifier: BSD-3-Clause */
/* diff: what differs between two versions, rank by rank. */
#ifndef KEDGE_TOOLS_DIFF_H
#define KEDGE_TOOLS_DIFF_H

#include "restore/restore.h"
#include "tool.h"

struct kedge__diff_rank {
	uint32_t rank;
	struct kedge__diff_region *regions;
	size_t count;
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
	uint64_t changed_bytes, changed_regions, changed_ranges;
};

const char *kedge__diff_status(const struct kedge__diff_region *r); /* "same", "changed", "added", "removed" */

/* The heat map: a strip a region, its cells as dark as the share of their bytes that changed. Written under a temporary
 * name and renamed. */
int kedge__diff_svg(const struct kedge__diff_tool *d, const char *path, struct kedge__error *err);

#endif
