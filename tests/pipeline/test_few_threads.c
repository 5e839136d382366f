/* SPDX-License-Identifier: BSD-3-Clause */
/* What happens when the system grants no more threads. This program's pthread_create() stands before the real one. */
#include "../lib/cases.h"
#include "pipeline/pipeline.h"

#include <stddef.h>
#include <stdint.h>

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

typedef int (*create_fn)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

static int granted = 1000;

int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
	create_fn real;

	if (granted == 0)
		return EAGAIN;
	granted--;
	*(void **)&real = dlsym(RTLD_NEXT, "pthread_create");
	return real(thread, attr, run, arg);
}

static int warnings;

static void count_warning(void *user, enum kedge_log_level level, const char *text)
{
	(void)user;
	if (level == KEDGE_LOG_WARNING && strcmp(text, "only 3 of 8 threads could be started") == 0)
		warnings++;
}

static int add(void *ctx, size_t i, int worker)
{
	(void)worker;
	atomic_fetch_add((atomic_size_t *)ctx, i);
	return 0;
}

static void pool_has_fewer(void **state)
{
	struct kedge__pool *pool;
	atomic_size_t sum;

	(void)state;
	for (int n = 0; n < 3; n++) {
		granted = n;
		atomic_init(&sum, 0);
		kedge_set_log(count_warning, NULL);
		assert_int_equal(kedge__pool_new(8, &pool, NULL), 0);
		kedge_set_log(NULL, NULL);
		assert_int_equal(kedge__pool_threads(pool), n + 1);
		assert_int_equal(kedge__pool_for(pool, 1000, add, &sum), 0);
		assert_int_equal(atomic_load(&sum), 499500);
		kedge__pool_free(pool);
	}
	assert_int_equal(warnings, 1);
}

static void worker_is_refused(void **state)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	struct kedge__worker *w = NULL;

	(void)state;
	granted = 0;
	assert_int_equal(kedge__worker_new(4, &w, &err), KEDGE_E_NOMEM);
	assert_string_equal(err.text, "cannot start the background thread: Resource temporarily unavailable");
	assert_null(w);
	kedge__error_done(&err);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(pool_has_fewer),
	    cmocka_unit_test(worker_is_refused),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
