/* SPDX-License-Identifier: BSD-3-Clause */
/* bench_gpu: kedge bench gpu. */
#ifndef KEDGE_TOOLS_BENCH_GPU_H
#define KEDGE_TOOLS_BENCH_GPU_H

#include "gpu/gpu.h"
#include "tool_bench.h"

#define KEDGE__BENCH_GPU_TURNS 64 /* at most */
#define KEDGE__BENCH_GPU_ROWS  96

int kedge__bench_gpu(int argc, char **argv);

/* bench_gpu_restore.c */
#define KEDGE__BENCH_RESTORES 4

struct kedge__bench_restore {
	char what[64];
	double bytes;
	double seconds[KEDGE__BENCH_GPU_TURNS];
	double limits[KEDGE__BENCH_GPU_TURNS]; /* seconds of what nothing can beat, in the same turns */
};

/* KEDGE__BENCH_RESTORES kinds of restore of BYTES at DATA. */
int kedge__bench_gpu_restore(struct kedge__gpu *g, kedge__gpu_address data, uint64_t bytes, void *pinned, uint64_t pinned_bytes,
			     uint64_t repeat, struct kedge__bench_restore *out, struct kedge__error *err);

struct kedge__bench_gpu_row {
	char what[96];
	double bytes; /* that count */
	double ratio; /* 0: none */
	double seconds[KEDGE__BENCH_GPU_TURNS];
};

struct kedge__bench_gpu_rows {
	struct kedge__gpu *gpu;
	uint64_t repeat;
	size_t count;
	struct kedge__bench_gpu_row at[KEDGE__BENCH_GPU_ROWS];
};

/* A row more: turns of F, in which BYTES count. */
int kedge__bench_gpu_take(struct kedge__bench_gpu_rows *rows, const char *what, double bytes,
			  int (*f)(void *ctx, struct kedge__error *err), void *ctx, struct kedge__error *err);

/* bench_gpu_reduce.c: rows of whole checkpoints of SIZE bytes at DATA. */
int kedge__bench_gpu_reduce(struct kedge__bench_gpu_rows *rows, kedge__gpu_address data, uint64_t size,
			    struct kedge__error *err);

/* The same with all of it changed, floats to begin with, and packed on the device. What is at DATA is lost. */
int kedge__bench_gpu_packed(struct kedge__bench_gpu_rows *rows, kedge__gpu_address data, uint64_t size,
			    struct kedge__error *err);

/* bench_gpu_job.c: rows of whole jobs, whose versions go to a directory in DIR; NULL: in memory, if there is a place for that. */
int kedge__bench_gpu_job(struct kedge__bench_gpu_rows *rows, kedge__gpu_address data, uint64_t size, const char *dir,
			 struct kedge__error *err);

/* bench_gpu_series.c: files of DIR, versions of one state, by all reducers. */
int kedge__bench_gpu_series(struct kedge__gpu *gpu, const char *dir, bool json, struct kedge__error *err);

/* bench_gpu_blocks.c: rows of the codecs that work on blocks, on data that is made up and, unless FILE is NULL, on that of a
 * file; DATA and OTHER have room for SIZE bytes. */
int kedge__bench_gpu_blocks(struct kedge__bench_gpu_rows *rows, kedge__gpu_address data, kedge__gpu_address other,
			    uint64_t size, const char *file, struct kedge__error *err);

/* bench_gpu_finder.c: rows of the finder for a state of SIZE bytes. */
int kedge__bench_gpu_finder(struct kedge__bench_gpu_rows *rows, uint64_t size, struct kedge__error *err);

#endif
