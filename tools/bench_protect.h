/* SPDX-License-Identifier: BSD-3-Clause */
/* bench_protect: kedge bench protect. */
#ifndef KEDGE_TOOLS_BENCH_PROTECT_H
#define KEDGE_TOOLS_BENCH_PROTECT_H

#include "protect/protect.h"
#include "tool_bench.h"

int kedge__bench_protect(int argc, char **argv);

/* bench_protect_ranks.c: ranks that are threads, and move bytes by copying them from one's memory to the other's. */
struct kedge__bench_ranks;

struct kedge__bench_ranks *kedge__bench_ranks_new(uint32_t ranks); /* NULL: out of memory */
void kedge__bench_ranks_free(struct kedge__bench_ranks *g);
/* For one rank; the same for all calls of it. */
struct kedge__mover kedge__bench_ranks_mover(struct kedge__bench_ranks *g, uint32_t rank);

#endif
