/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside of `kedge-bench capture`. */
#ifndef KEDGE_BENCH_CAPTURE_H
#define KEDGE_BENCH_CAPTURE_H

#include "bench.h"
#include "capture/capture.h"

#define KEDGE__CAPTURE_TURNS 32

/* One thing that was measured, once a turn. */
struct kedge__capture_row {
	const char *pages, *who, *what, *pattern; /* pattern: "" where none applies */
	double percent;                           /* of pages dirty; negative where none applies */
	double seconds[KEDGE__CAPTURE_TURNS], ratio[KEDGE__CAPTURE_TURNS];
	size_t turns;
	uint64_t count; /* pages concerned */
};

struct kedge__capture_bench {
	struct kedge__usage usage;
	uint64_t size, repeat, threads, aside;
	const char *pages_text; /* base, huge, both */
	const char *reducer;    /* of jobs */
	bool json, jobs;        /* jobs: nothing else */
	const char *pages; /* of the pass that runs: "base" or "huge" */
	unsigned char *data, *copy;
	size_t page;
	uint64_t seed;
	double memcpy_seconds; /* of this turn */
	struct kedge__pool *pool;
	KEDGE__ARRAY(struct kedge__capture_row) rows;
};

/* A result of this turn; RATIO is to what the row is to be compared with, by default the turn's memcpy. */
void kedge__capture_note(struct kedge__capture_bench *b, struct kedge__capture_row key, double seconds, double ratio);
/* Copies all of the memory and takes the time. */
void kedge__capture_memcpy(struct kedge__capture_bench *b);
uint64_t kedge__capture_random(struct kedge__capture_bench *b);

/* Writes to every cache line of an eighth of the pages, one after the other; returns the time it took. */
double kedge__capture_sweep(struct kedge__capture_bench *b);

/* capture_tracker.c, capture_cow.c and capture_job.c: one turn. */
int kedge__capture_trackers(struct kedge__capture_bench *b, struct kedge__error *err);
int kedge__capture_cow(struct kedge__capture_bench *b, struct kedge__error *err);
int kedge__capture_job(struct kedge__capture_bench *b, struct kedge__error *err);

#endif
