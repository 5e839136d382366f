/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The shared library as a plugin has it: loaded by dlopen() into a program that does not know it, used by several
 * threads, and unloaded. The program is not linked with it; its path is KEDGE_SHARED.
 */
#include "../lib/cases.h"
#include "../lib/files.h"
#include "../lib/scratch.h"

#include <kedge/kedge.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { THREADS = 4, ROUNDS = 3 };

/* What the program calls, found by name. */
struct library {
	void *handle;
	int (*open)(const char *name, const char *config, const char *const *settings, kedge_t **out);
	int (*protect)(kedge_t *k, const char *name, void *ptr, size_t count, enum kedge_type type);
	int (*checkpoint)(kedge_t *k, uint64_t version);
	int (*restart)(kedge_t *k, uint64_t version, uint64_t *restored);
	int (*close)(kedge_t *k);
	const char *(*last_error)(const kedge_t *k);
};

static void *symbol(void *handle, const char *name)
{
	void *found = dlsym(handle, name);

	if (!found)
		fail_msg("%s", dlerror());
	return found;
}

static void load(struct library *l)
{
	l->handle = dlopen(KEDGE_SHARED, RTLD_NOW | RTLD_LOCAL);
	if (!l->handle)
		fail_msg("%s", dlerror());
	*(void **)&l->open = symbol(l->handle, "kedge_open");
	*(void **)&l->protect = symbol(l->handle, "kedge_protect");
	*(void **)&l->checkpoint = symbol(l->handle, "kedge_checkpoint");
	*(void **)&l->restart = symbol(l->handle, "kedge_restart");
	*(void **)&l->close = symbol(l->handle, "kedge_close");
	*(void **)&l->last_error = symbol(l->handle, "kedge_last_error");
}

struct work {
	const struct library *library;
	const char *dir;
	int number, failed;
};

/* A job of its own, and failures with texts of their own, of which the last is left to the end of the thread. */
static void *run(void *arg)
{
	struct work *w = arg;
	const struct library *l = w->library;
	char l1[400], name[32];
	const char *const settings[] = {l1, "sync=no", NULL}, *const wrong[] = {"chunk=77", NULL};
	double data[100] = {w->number};
	kedge_t *k = NULL;

	snprintf(l1, sizeof(l1), "l1=%s/l1", w->dir);
	snprintf(name, sizeof(name), "job-%d", w->number);
	w->failed |= l->open(name, NULL, settings, &k) != 0;
	if (w->failed)
		return NULL;
	w->failed |= l->protect(k, "data", data, 100, KEDGE_F64) || l->checkpoint(k, 1);
	data[0] = -1;
	w->failed |= l->restart(k, KEDGE_NEWEST, NULL) || data[0] < w->number || data[0] > w->number;
	w->failed |= l->restart(k, 7, NULL) != KEDGE_E_VERSION || !strstr(l->last_error(k), name);
	w->failed |= l->close(k) != 0;
	w->failed |= l->open(name, NULL, wrong, &k) != KEDGE_E_CONFIG || k || !strstr(l->last_error(NULL), "chunk");
	return NULL;
}

static void test_loaded_used_and_unloaded(void **state)
{
	char dir[300];

	(void)state;
	/* What libfabric leaks has its name only as long as it is loaded; if it is not there, nothing needs it. */
	(void)dlopen("libfabric.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
	scratch_make_on_disk(dir, sizeof(dir), "dlopen");
	for (int round = 0; round < ROUNDS; round++) {
		struct library l;
		struct work works[THREADS + 1];
		pthread_t threads[THREADS];

		load(&l);
		for (int i = 0; i <= THREADS; i++)
			works[i] = (struct work){&l, dir, i, 0};
		for (int i = 0; i < THREADS; i++)
			assert_int_equal(pthread_create(&threads[i], NULL, run, &works[i]), 0);
		run(&works[THREADS]);
		for (int i = 0; i < THREADS; i++)
			assert_int_equal(pthread_join(threads[i], NULL), 0);
		for (int i = 0; i <= THREADS; i++)
			assert_int_equal(works[i].failed, 0);
		assert_int_equal(dlclose(l.handle), 0);
		assert_int_equal(tree_remove(dir), 0);
		assert_int_equal(mkdir(dir, 0700), 0);
	}
	assert_int_equal(scratch_remove(dir), 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_loaded_used_and_unloaded)};

	return cases_run(argc, argv, tests, NULL, NULL);
}
