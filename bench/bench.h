/* SPDX-License-Identifier: BSD-3-Clause */
/* bench: what the files of `kedge-bench` share. */
#ifndef KEDGE_BENCH_H
#define KEDGE_BENCH_H

#include "bench_names.h"
#include "tool_bench.h"

#define KEDGE__X(name, run, summary) int run(int argc, char **argv);
KEDGE__BENCHES(KEDGE__X)
#undef KEDGE__X

/* peer.c: the bare hash pass that reducers are measured against: XXH3-128 of every chunk, compiled in place and
 * for AVX2 where the machine has it. Something that depends on all digests is returned, so that none can be left out. */
uint64_t kedge__bench_hash(const void *data, size_t bytes, size_t chunk);
const char *kedge__bench_hash_name(void);

#endif
