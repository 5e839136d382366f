/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * list.c: changed chunks are first occurrences or shifted duplicates of anything in the record; one extent a chunk.
 */
#include "reduce/reducer.h"

const struct kedge__reducer_ops kedge__list_ops = {
    .name = "list", .run = kedge__duplicates_find, .hashes = true, .apart = true};
