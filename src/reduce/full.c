/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * full.c: all bytes, every time. Nothing is hashed but the region sums; as auto uses it, a sample of slabs is hashed
 * too, to see when reduction would pay again.
 */
#include "reduce/reducer.h"

static int run(struct kedge__reducer *r, struct kedge__error *err)
{
	(void)r, (void)err;
	return 0;
}

const struct kedge__reducer_ops kedge__full_ops = {.name = "full", .run = run, .full = true, .merge = true};
const struct kedge__reducer_ops kedge__off_ops = {
    .name = "full", .run = run, .hashes = true, .sample = true, .full = true, .merge = true};
