/* SPDX-License-Identifier: BSD-3-Clause */
/* bench_protect: kedge bench protect. */
#ifndef KEDGE_TOOLS_BENCH_PROTECT_H
#define KEDGE_TOOLS_BENCH_PROTECT_H

#include "protect/protect.h"
#include "tool_bench.h"

int kedge__bench_protect(int argc, char **argv);

/* bench_protect_ranks.c: ranks that are threads. */
struct kedge__bench_ranks;

struct kedge__bench_ranks *kedge__bench_ranks_new(uint32_t ranks); /* NULL: out of memory */
void kedge__bench_ranks_free(struct kedge__bench_ranks *g);
/* Of one rank. LENDS: bytes are read where the other has them; they stay as they are until all ranks have ended. */
struct kedge__mover kedge__bench_ranks_mover(struct kedge__bench_ranks *g, uint32_t rank, bool lends);

#endif
