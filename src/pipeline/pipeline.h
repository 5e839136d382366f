/*
 * pipeline: the only folder that starts threads. A pool for work that is split over cores, and a
 * background worker for work that follows the application.
 */
#ifndef KEDGE_PIPELINE_PIPELINE_H
#define KEDGE_PIPELINE_PIPELINE_H

#include "base/base.h"

/* ------------------------------------------------------------------ pool.c */

struct kedge__pool;

/* THREADS >= 1 counts the caller: a pool of one starts no thread. Signals are blocked in the workers. When the system
 * grants fewer threads, the pool has fewer, and says so in the log. */
int kedge__pool_new(int threads, struct kedge__pool **out, struct kedge__error *err);
void kedge__pool_free(struct kedge__pool *pool);
int kedge__pool_threads(const struct kedge__pool *pool); /* 1 for NULL */

/*
 * Call fn(ctx, i, worker) for every i in [0, n), in any order, on all threads of the pool, and wait. WORKER is
 * 0..threads-1, for scratch space a worker. The first non-zero result (of the lowest i that ran) stops the rest and
 * is returned. POOL may be NULL: the caller does it all. One call at a time on a pool; calls do not nest.
 */
typedef int (*kedge__pool_fn)(void *ctx, size_t i, int worker);
int kedge__pool_for(struct kedge__pool *pool, size_t n, kedge__pool_fn fn, void *ctx);

/* ------------------------------------------------------------------ worker.c */

struct kedge__worker;

/* One thread that runs tasks in the order of submission. The queue is bounded: submit waits while LIMIT tasks, with the
 * one that runs, are not finished. A task must not submit to, drain or free its own worker. */
int kedge__worker_new(size_t limit, struct kedge__worker **out, struct kedge__error *err);
int kedge__worker_submit(struct kedge__worker *w, void (*run)(void *ctx), void *ctx, struct kedge__error *err);
void kedge__worker_drain(struct kedge__worker *w); /* until all tasks submitted so far have run */
void kedge__worker_free(struct kedge__worker *w);  /* drains first; takes NULL */

/* ------------------------------------------------------------------ bucket.c
 * A token bucket that paces a stream to RATE bytes a second (0: no limit). It is its own clock's: NOW and SLEEP can
 * be replaced, so that tests need no wall time. */

struct kedge__bucket {
	double rate, burst, level, last;
	double (*now)(void *ctx);
	void (*sleep)(void *ctx, double seconds);
	void *ctx;
};

void kedge__bucket_init(struct kedge__bucket *b, double rate, double burst); /* real clock */
void kedge__bucket_take(struct kedge__bucket *b, double bytes);               /* waits as needed */

#endif
