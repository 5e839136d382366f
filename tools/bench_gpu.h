/* SPDX-License-Identifier: BSD-3-Clause */
/* bench_gpu: kedge bench gpu. */
#ifndef KEDGE_TOOLS_BENCH_GPU_H
#define KEDGE_TOOLS_BENCH_GPU_H

#include "gpu/gpu.h"
#include "tool_bench.h"

#define KEDGE__BENCH_TURNS    64 /* at most */
#define KEDGE__BENCH_RESTORES 3

int kedge__bench_gpu(int argc, char **argv);

/* bench_gpu_restore.c */
struct kedge__bench_restore {
	char what[64];
	double bytes;
	double seconds[KEDGE__BENCH_TURNS];
	double limits[KEDGE__BENCH_TURNS]; /* seconds of what nothing can beat, in the same turns */
};

/* KEDGE__BENCH_RESTORES kinds of restore of BYTES at DATA. */
int kedge__bench_gpu_restore(struct kedge__gpu *g, kedge__gpu_address data, uint64_t bytes, void *pinned, uint64_t pinned_bytes,
			     uint64_t repeat, struct kedge__bench_restore *out, struct kedge__error *err);

#endif
