/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tree.c: as list.c, but consolidated by the Merkle tree into the fewest extents.
 */
#include "reduce/reducer.h"

static int run(struct kedge__reducer *r, struct kedge__error *err)
{
	int rc = kedge__duplicates_find(r, err);

	if (!rc)
		rc = kedge__forest_enter(r, err);
	if (!rc)
		rc = kedge__forest_find(r, err);
	return rc;
}

const struct kedge__reducer_ops kedge__tree_ops = {.name = "tree", .run = run, .hashes = true, .merge = true};
