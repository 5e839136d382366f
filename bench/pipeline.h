/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside of `kedge-bench pipeline`. */
#ifndef KEDGE_BENCH_PIPELINE_H
#define KEDGE_BENCH_PIPELINE_H

#include "bench.h"
#include "codec/codec.h"
#include "simulate/simulate.h"

#define KEDGE__FLOW_TURNS 32

/* What is sent through the stages, and where to. */
struct kedge__flow {
	const uint8_t *data;
	size_t size, buffer;
	size_t queue;
	struct kedge__codec_choice codec;
	double collect_rate, store_rate; /* bytes a second; 0: as fast as it goes */
	const char *path;                /* file to write to; NULL: memory */
	int fd;
};

/* Which stages do their work; the others hand on what they get, without touching it. */
enum kedge__flow_part {
	KEDGE__FLOW_COLLECT = 1,
	KEDGE__FLOW_COMPRESS = 2,
	KEDGE__FLOW_STORE = 4,
	KEDGE__FLOW_SIZE = 8, /* the compressed sizes are known: store as many bytes */
};

struct kedge__flow_result {
	double seconds;
	uint64_t stored; /* bytes */
	struct kedge__pipeline_stats stats;
};

/* WORKERS 0: one thread does one stage after the other, buffer by buffer. POOL has WORKERS threads. */
int kedge__flow_run(const struct kedge__flow *flow, unsigned parts, struct kedge__pool *pool, bool overlap,
		    double ratio, struct kedge__flow_result *out, struct kedge__error *err);

/* pipeline_writers.c: prints its results. */
struct kedge__writers_spec {
	const uint8_t *data;
	size_t size;
	const size_t *buffers;
	size_t buffer_count, queue;
	const char *dir;
	struct kedge__codec_choice codec;
	int threads;
	uint64_t repeat;
	bool json;
};

int kedge__bench_writers(const struct kedge__writers_spec *spec, struct kedge__error *err);

#endif
