/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pipeline: the only folder that starts threads. A pool for work that is split over cores, stages
 * joined by rings of buffers for data that flows, and a background worker for work that runs beside
 * the application.
 */
#ifndef KEDGE_PIPELINE_PIPELINE_H
#define KEDGE_PIPELINE_PIPELINE_H

#include "base/base.h"
#include "pipeline/thread.h"

#include <pthread.h>

/* ------------------------------------------------------------------ pool.c */

struct kedge__pool;

/* THREADS >= 1 counts the caller: a pool of one starts no thread. Signals are blocked in the workers. If the system
 * grants fewer threads, the pool has fewer and logs it. */
int kedge__pool_new(int threads, struct kedge__pool **out, struct kedge__error *err);
void kedge__pool_free(struct kedge__pool *pool);
int kedge__pool_threads(const struct kedge__pool *pool); /* 1 for NULL */

/*
 * Call fn(ctx, i, worker) for every i in [0, n), in any order, on all threads of the pool, and wait. WORKER is
 * 0..threads-1, for scratch space per worker. The first non-zero result (of the lowest i that ran) stops the rest and
 * is returned. POOL may be NULL: the caller does it all. Calls by several
 * threads take turns; they do not nest.
 */
typedef int (*kedge__pool_fn)(void *ctx, size_t i, int worker);
int kedge__pool_for(struct kedge__pool *pool, size_t n, kedge__pool_fn fn, void *ctx);

/* ------------------------------------------------------------------ ring.c */

enum kedge__buffer_state {
	KEDGE__BUFFER_EMPTY, /* the stage before the ring may fill it */
	KEDGE__BUFFER_BUSY,  /* a stage works on it */
	KEDGE__BUFFER_READY, /* the stage after the ring may take it */
};

struct kedge__buffer {
	uint8_t *data; /* its own memory */
	size_t room;
	const uint8_t *at; /* its contents: DATA, unless the stage sets other memory, which must not change until the
			    * pipeline has ended */
	size_t bytes;
	uint64_t number; /* from 0, in the order of collection */
	uint64_t tag;    /* for the stages; passed on */
	enum kedge__buffer_state state;
};

/* Move the contents of IN to OUT without a copy: the two exchange their memory if necessary. For the transforming stage. */
void kedge__buffer_pass(struct kedge__buffer *in, struct kedge__buffer *out);

/* ------------------------------------------------------------------ pipeline.c
 * collect -> ring -> transform -> ring -> store. One thread at a time collects and one stores, both in order; any number
 * transform, and their results are stored in the order of collection. A stage blocks, without spinning, while the ring
 * before it has no Ready buffer or the one after it no Empty one. */

enum kedge__stage { KEDGE__STAGE_COLLECT, KEDGE__STAGE_TRANSFORM, KEDGE__STAGE_STORE, KEDGE__STAGES };

#define KEDGE__PIPELINE_END  1 /* from `collect`: there is no more data, OUT is empty */
#define KEDGE__PIPELINE_HOLD 2 /* from `store`: what is in IN is needed until it returns 0. Never of the last buffer, nor of all in a ring */

struct kedge__pipeline_spec {
	/* Each returns 0, one of those above, or a negative code; the first that fails stops all. WORKER is that of the pool, or 0. */
	int (*collect)(void *ctx, struct kedge__buffer *out, struct kedge__error *err);
	int (*transform)(void *ctx, int worker, struct kedge__buffer *in, struct kedge__buffer *out, struct kedge__error *err);
	int (*store)(void *ctx, const struct kedge__buffer *in, struct kedge__error *err);
	void *ctx;
	size_t buffer_bytes; /* size of each buffer; 0: they only refer to other memory */
	size_t queue;        /* buffers per ring; 0: two per thread, at least KEDGE__QUEUE_MIN */
	/* A separate thread, in addition to those of the pool, for a stage that mostly waits for a device. If it cannot be
	 * started, the others do its work. */
	bool collect_apart, store_apart;
};

#define KEDGE__QUEUE_MIN 8

struct kedge__stage_stats {
	double busy;    /* seconds of work, over all its threads */
	double starved; /* seconds without input, */
	double blocked; /* and with input, but nowhere to put the result */
	uint64_t buffers, bytes; /* that it produced; for the last stage, that it consumed */
	int width;      /* threads that can work on it at once */
};

struct kedge__pipeline_stats {
	struct kedge__stage_stats stage[KEDGE__STAGES];
	double seconds;
};

/* Run the pipeline on the threads of POOL, including the caller's. POOL may be NULL or have one thread: then no other is
 * needed. STATS may be NULL; they are filled even on failure. On failure all stages have stopped, and ERR is that of the
 * earliest buffer that failed. */
int kedge__pipeline_run(struct kedge__pool *pool, const struct kedge__pipeline_spec *spec,
			struct kedge__pipeline_stats *stats, struct kedge__error *err);
void kedge__pipeline_stats_add(struct kedge__pipeline_stats *sum, const struct kedge__pipeline_stats *more);
/* The stage that the others wait for: the one that is busy for the largest part of the time. */
enum kedge__stage kedge__pipeline_bottleneck(const struct kedge__pipeline_stats *stats);
const char *kedge__stage_name(enum kedge__stage stage); /* "collect", "transform", "store" */

/* ------------------------------------------------------------------ worker.c */

struct kedge__worker;

/* One thread that runs tasks in the order of submission. The queue is bounded: submit waits while LIMIT tasks,
 * including the running one, are unfinished. A task must not submit to, drain or free its own worker. */
int kedge__worker_new(size_t limit, struct kedge__worker **out, struct kedge__error *err);
int kedge__worker_submit(struct kedge__worker *w, void (*run)(void *ctx), void *ctx, struct kedge__error *err);
void kedge__worker_drain(struct kedge__worker *w); /* waits until all tasks submitted so far have run */
void kedge__worker_free(struct kedge__worker *w);  /* drains first; takes NULL */

/* ------------------------------------------------------------------ bucket.c
 * A token bucket that paces a stream to RATE bytes per second (0: no limit, and nothing is counted). Any number of
 * threads may take from it. NOW and SLEEP can be replaced, so that tests need no wall-clock time. */

struct kedge__bucket {
	pthread_mutex_t lock; /* guards level, last and taken; NOW is called with it held, SLEEP is not */
	double rate, burst, level, last;
	double taken; /* bytes, in total */
	double (*now)(void *ctx);
	void (*sleep)(void *ctx, double seconds);
	void *ctx;
};

void kedge__bucket_init(struct kedge__bucket *b, double rate, double burst); /* real clock */
bool kedge__bucket_limits(const struct kedge__bucket *b);                    /* it has a rate; accepts NULL */
/* The same without waiting: the seconds that the caller has to let pass. */
double kedge__bucket_charge(struct kedge__bucket *b, double bytes);
void kedge__bucket_take(struct kedge__bucket *b, double bytes); /* waits as needed; accepts NULL, which does not pace */

#endif
