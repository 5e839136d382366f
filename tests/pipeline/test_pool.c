/* SPDX-License-Identifier: BSD-3-Clause */
#include "../lib/cases.h"
#include "pipeline/pipeline.h"

#include <stddef.h>
#include <stdint.h>

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>

struct visits {
	int threads;
	int *seen;           /* a count for each index; not atomic: one visit each */
	size_t *of_worker;   /* a count for each worker; not atomic: a worker is one thread at a time */
	atomic_bool strange; /* a worker out of range */
};

static int visit(void *ctx, size_t i, int worker)
{
	struct visits *v = ctx;

	if (worker < 0 || worker >= v->threads) {
		atomic_store(&v->strange, true);
		return 0;
	}
	v->seen[i]++;
	v->of_worker[worker]++;
	return 0;
}

static void visit_all(struct kedge__pool *pool, size_t n)
{
	struct visits v = {.threads = kedge__pool_threads(pool)};
	size_t total = 0;

	v.seen = calloc(n + 1, sizeof(*v.seen));
	v.of_worker = calloc((size_t)v.threads, sizeof(*v.of_worker));
	assert_int_equal(kedge__pool_for(pool, n, visit, &v), 0);
	assert_false(atomic_load(&v.strange));
	for (size_t i = 0; i < n; i++)
		assert_int_equal(v.seen[i], 1);
	assert_int_equal(v.seen[n], 0);
	for (int i = 0; i < v.threads; i++)
		total += v.of_worker[i];
	assert_int_equal(total, n);
	free(v.of_worker);
	free(v.seen);
}

static void every_index_once(void **state)
{
	(void)state;
	for (int threads = 1; threads <= 9; threads += 2) {
		struct kedge__pool *pool;

		assert_int_equal(kedge__pool_new(threads, &pool, NULL), 0);
		assert_int_equal(kedge__pool_threads(pool), threads);
		for (size_t n = 0; n < 40; n++)
			visit_all(pool, n);
		visit_all(pool, 20000);
		kedge__pool_free(pool);
	}
}

static void no_pool_is_the_caller(void **state)
{
	(void)state;
	assert_int_equal(kedge__pool_threads(NULL), 1);
	visit_all(NULL, 100);
	kedge__pool_free(NULL);
}

static void bad_sizes(void **state)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	struct kedge__pool *pool = NULL;

	(void)state;
	assert_int_equal(kedge__pool_new(0, &pool, &err), KEDGE_E_ARG);
	assert_int_equal(kedge__pool_new(-1, &pool, &err), KEDGE_E_ARG);
	for (int i = 1; i <= 2; i++) {
		kedge__fault_set(i == 1 ? "alloc@1" : "alloc@2", NULL);
		assert_int_equal(kedge__pool_new(2, &pool, &err), KEDGE_E_NOMEM);
	}
	kedge__fault_set(NULL, NULL);
	assert_null(pool);
	kedge__error_done(&err);
}

static int wait_for_all(void *ctx, size_t i, int worker)
{
	(void)i, (void)worker;
	pthread_barrier_wait(ctx);
	return 0;
}

/* With as many indices as threads, each of which waits for all: ends only if all threads take part at once. */
static void all_threads_take_part(void **state)
{
	pthread_barrier_t barrier;
	struct kedge__pool *pool;

	(void)state;
	assert_int_equal(kedge__pool_new(4, &pool, NULL), 0);
	pthread_barrier_init(&barrier, NULL, 4);
	for (int round = 0; round < 50; round++)
		assert_int_equal(kedge__pool_for(pool, 4, wait_for_all, &barrier), 0);
	pthread_barrier_destroy(&barrier);
	kedge__pool_free(pool);
}

struct failing {
	size_t from;
	atomic_size_t ran;
	atomic_size_t lowest; /* index that failed */
};

static int fail_from(void *ctx, size_t i, int worker)
{
	struct failing *f = ctx;
	size_t lowest = atomic_load(&f->lowest);

	(void)worker;
	atomic_fetch_add(&f->ran, 1);
	if (i < f->from)
		return 0;
	while (i < lowest && !atomic_compare_exchange_weak(&f->lowest, &lowest, i))
		;
	return (int)i + 1;
}

static void error_of_the_lowest_index(void **state)
{
	(void)state;
	for (int threads = 1; threads <= 4; threads++) {
		struct kedge__pool *pool;

		assert_int_equal(kedge__pool_new(threads, &pool, NULL), 0);
		for (int round = 0; round < 200; round++) {
			struct failing f = {.from = 50};
			int rc;

			atomic_init(&f.lowest, SIZE_MAX);
			rc = kedge__pool_for(pool, 100000, fail_from, &f);
			assert_int_equal(rc, atomic_load(&f.lowest) + 1);
			assert_true(atomic_load(&f.ran) < 100000);
			if (threads == 1)
				assert_int_equal(atomic_load(&f.ran), 51);
		}
		visit_all(pool, 100);
		kedge__pool_free(pool);
	}
}

struct meeting {
	pthread_barrier_t barrier;
	int rcs[2];
};

static int meet_and_fail(void *ctx, size_t i, int worker)
{
	struct meeting *m = ctx;

	(void)worker;
	if (i < 2)
		pthread_barrier_wait(&m->barrier);
	return i < 2 ? m->rcs[i] : 99;
}

/* Both 0 and 1 run and fail, in whatever order: the result is that of 0. */
static void lowest_wins_whoever_comes_first(void **state)
{
	struct meeting m = {.rcs = {-5, -6}};
	struct kedge__pool *pool;

	(void)state;
	assert_int_equal(kedge__pool_new(2, &pool, NULL), 0);
	pthread_barrier_init(&m.barrier, NULL, 2);
	for (int round = 0; round < 200; round++)
		assert_int_equal(kedge__pool_for(pool, 2, meet_and_fail, &m), -5);
	pthread_barrier_destroy(&m.barrier);
	kedge__pool_free(pool);
}

static int read_mask(void *ctx, size_t i, int worker)
{
	sigset_t *masks = ctx;

	(void)i;
	return pthread_sigmask(SIG_SETMASK, NULL, &masks[worker]);
}

struct masks {
	sigset_t of[3];
	pthread_barrier_t barrier;
};

static int read_mask_together(void *ctx, size_t i, int worker)
{
	struct masks *m = ctx;

	pthread_barrier_wait(&m->barrier);
	return read_mask(m->of, i, worker);
}

static void signals_stay_with_the_application(void **state)
{
	struct kedge__pool *pool;
	sigset_t before, after;
	struct masks m;

	(void)state;
	pthread_sigmask(SIG_SETMASK, NULL, &before);
	assert_int_equal(kedge__pool_new(3, &pool, NULL), 0);
	pthread_sigmask(SIG_SETMASK, NULL, &after);
	pthread_barrier_init(&m.barrier, NULL, 3);
	assert_int_equal(kedge__pool_for(pool, 3, read_mask_together, &m), 0);
	for (int sig = 1; sig < 32; sig++)
		assert_int_equal(sigismember(&before, sig), sigismember(&after, sig));
	for (int i = 1; i < 3; i++) {
		assert_true(sigismember(&m.of[i], SIGTERM));
		assert_true(sigismember(&m.of[i], SIGINT));
		assert_true(sigismember(&m.of[i], SIGALRM));
		assert_false(sigismember(&m.of[i], SIGSEGV));
	}
	assert_false(sigismember(&m.of[0], SIGTERM));
	pthread_barrier_destroy(&m.barrier);
	kedge__pool_free(pool);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_index_once),
	    cmocka_unit_test(no_pool_is_the_caller),
	    cmocka_unit_test(bad_sizes),
	    cmocka_unit_test(all_threads_take_part),
	    cmocka_unit_test(error_of_the_lowest_index),
	    cmocka_unit_test(lowest_wins_whoever_comes_first),
	    cmocka_unit_test(signals_stay_with_the_application),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
