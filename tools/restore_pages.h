/* SPDX-License-Identifier: BSD-3-Clause */
/* restore_pages: the page image of a version, if it has one. */
#ifndef KEDGE_TOOLS_RESTORE_PAGES_H
#define KEDGE_TOOLS_RESTORE_PAGES_H

#include "restore.h"
#include "restore/restore.h"

struct kedge__restore_pages {
	struct kedge__lineage *lineage;
	struct kedge__pool *pool;
	struct kedge__io io;
	struct kedge__outputs *outputs;
	int64_t folder;   /* of kedge__outputs_add() */
	const char *name; /* of the index; ends in .idx */
	struct kedge__bar *bar;
	bool *output_failed; /* set when it is not the version that is at fault */
};

/* Fill the two files of the image; *COUNT pages, 0 if the version has no image. What was read is added to STATS. */
int kedge__restore_pages(const struct kedge__restore_pages *r, struct kedge__restore_stats *stats, size_t *count,
			 struct kedge__error *err);

#endif
