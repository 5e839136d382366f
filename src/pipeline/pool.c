/* SPDX-License-Identifier: BSD-3-Clause */
#include "pipeline/pipeline.h"
#include "pipeline/thread.h"

#include <pthread.h>
#include <stdatomic.h>

struct member {
	struct kedge__pool *pool;
	pthread_t thread;
	int worker;
};

struct kedge__pool {
	int started; /* threads; the caller is one more */
	struct member *members;
	pthread_mutex_t turn; /* held by the caller whose loop it is */

	/*
	 * LOCK guards all that follows but the two atomics. While OPEN, members may join the loop; the caller closes it
	 * when no index is left and waits only for those who joined, not for those who are still waking up.
	 */
	pthread_mutex_t lock;
	pthread_cond_t work, done;
	bool open, stop;
	uint64_t loop; /* number of the loop, so that no member joins one twice */
	int joined;
	size_t n;
	kedge__pool_fn fn;
	void *ctx;
	int result;
	size_t result_index;

	atomic_size_t next;
	atomic_bool failed;
};

static void take_result(struct kedge__pool *pool, size_t i, int rc)
{
	pthread_mutex_lock(&pool->lock);
	if (!pool->result || i < pool->result_index) {
		pool->result = rc;
		pool->result_index = i;
	}
	pthread_mutex_unlock(&pool->lock);
	atomic_store_explicit(&pool->failed, true, memory_order_relaxed);
}

/* n, fn and ctx do not change while anybody runs in here. */
static void run_loop(struct kedge__pool *pool, int worker)
{
	while (!atomic_load_explicit(&pool->failed, memory_order_relaxed)) {
		size_t i = atomic_fetch_add_explicit(&pool->next, 1, memory_order_relaxed);
		int rc;

		if (i >= pool->n)
			return;
		rc = pool->fn(pool->ctx, i, worker);
		if (rc)
			take_result(pool, i, rc);
	}
}

static void *member_main(void *ctx)
{
	struct member *m = ctx;
	struct kedge__pool *pool = m->pool;
	uint64_t seen = 0;

	pthread_mutex_lock(&pool->lock);
	for (;;) {
		while (!pool->stop && !(pool->open && pool->loop != seen))
			pthread_cond_wait(&pool->work, &pool->lock);
		if (pool->stop)
			break;
		seen = pool->loop;
		pool->joined++;
		pthread_mutex_unlock(&pool->lock);
		run_loop(pool, m->worker);
		pthread_mutex_lock(&pool->lock);
		if (--pool->joined == 0)
			pthread_cond_signal(&pool->done);
	}
	pthread_mutex_unlock(&pool->lock);
	return NULL;
}

/* As many as the system grants: a pool with fewer threads is slower, not wrong. */
static void start_members(struct kedge__pool *pool, int wanted)
{
	while (pool->started < wanted) {
		struct member *m = &pool->members[pool->started];

		m->pool = pool;
		m->worker = pool->started + 1;
		if (kedge__thread_start(&m->thread, member_main, m) != 0)
			break;
		pool->started++;
	}
	if (pool->started < wanted)
		kedge__log(KEDGE_LOG_WARNING, "only %d of %d threads could be started", pool->started + 1, wanted + 1);
}

int kedge__pool_new(int threads, struct kedge__pool **out, struct kedge__error *err)
{
	struct kedge__pool *pool;

	if (threads < 1)
		return kedge__error_set(err, KEDGE_E_ARG, 0, "invalid number of threads: %d", threads);
	pool = kedge__calloc(1, sizeof(*pool));
	if (!pool)
		return kedge__error_nomem(err);
	pool->members = kedge__calloc((size_t)threads, sizeof(*pool->members));
	if (!pool->members) {
		kedge__free(pool);
		return kedge__error_nomem(err);
	}
	pthread_mutex_init(&pool->turn, NULL);
	pthread_mutex_init(&pool->lock, NULL);
	pthread_cond_init(&pool->work, NULL);
	pthread_cond_init(&pool->done, NULL);
	start_members(pool, threads - 1);
	*out = pool;
	return 0;
}

void kedge__pool_free(struct kedge__pool *pool)
{
	if (!pool)
		return;
	pthread_mutex_lock(&pool->lock);
	pool->stop = true;
	pthread_cond_broadcast(&pool->work);
	pthread_mutex_unlock(&pool->lock);
	for (int i = 0; i < pool->started; i++)
		pthread_join(pool->members[i].thread, NULL);
	pthread_cond_destroy(&pool->done);
	pthread_cond_destroy(&pool->work);
	pthread_mutex_destroy(&pool->lock);
	pthread_mutex_destroy(&pool->turn);
	kedge__free(pool->members);
	kedge__free(pool);
}

int kedge__pool_threads(const struct kedge__pool *pool)
{
	return pool ? pool->started + 1 : 1;
}

static int run_alone(size_t n, kedge__pool_fn fn, void *ctx)
{
	int rc = 0;

	for (size_t i = 0; i < n && rc == 0; i++)
		rc = fn(ctx, i, 0);
	return rc;
}

static void open_loop(struct kedge__pool *pool, size_t n, kedge__pool_fn fn, void *ctx)
{
	pthread_mutex_lock(&pool->lock);
	pool->n = n;
	pool->fn = fn;
	pool->ctx = ctx;
	pool->result = 0;
	atomic_store_explicit(&pool->next, 0, memory_order_relaxed);
	atomic_store_explicit(&pool->failed, false, memory_order_relaxed);
	pool->loop++;
	pool->open = true;
	pthread_cond_broadcast(&pool->work);
	pthread_mutex_unlock(&pool->lock);
}

static int close_loop(struct kedge__pool *pool)
{
	int rc;

	pthread_mutex_lock(&pool->lock);
	pool->open = false;
	while (pool->joined)
		pthread_cond_wait(&pool->done, &pool->lock);
	rc = pool->result;
	pthread_mutex_unlock(&pool->lock);
	return rc;
}

int kedge__pool_for(struct kedge__pool *pool, size_t n, kedge__pool_fn fn, void *ctx)
{
	int rc;

	if (!pool || !pool->started || n < 2)
		return run_alone(n, fn, ctx);
	pthread_mutex_lock(&pool->turn);
	open_loop(pool, n, fn, ctx);
	run_loop(pool, 0);
	rc = close_loop(pool);
	pthread_mutex_unlock(&pool->turn);
	return rc;
}
