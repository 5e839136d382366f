/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tree.c: as list.c, but in the fewest extents: neighbours with the same result are one. That is what the Merkle tree
 * of the de-duplication paper (Algorithm 1) finds, without its nodes: a subtree of shifted duplicates is one piece
 * elsewhere exactly if the digests of its chunks follow each other there.
 */
#include "reduce/reducer.h"

const struct kedge__reducer_ops kedge__tree_ops = {
    .name = "tree", .run = kedge__duplicates_find, .hashes = true, .merge = true, .apart = true};
