/* SPDX-License-Identifier: BSD-3-Clause */
/* Several threads on one handle, and what may be asked while a checkpoint is under way. */
#include "job/handle.h"
#include "support.h"

#include <pthread.h>
#include <stdatomic.h>

#define BYTES   50000
#define THREADS 4
#define ROUNDS  25

struct shared {
	kedge_t *k;
	atomic_uint_least64_t next;  /* no thread has drawn this number or one above it */
	atomic_uint_least64_t taken; /* the highest number that was accepted, plus 1 */
	atomic_int failures, accepted;
	uint8_t base[BYTES];
};

struct hammer {
	struct shared *shared;
	int id;
	uint8_t memory[1000], seen[BYTES];
};

/*
 * A number is refused only if another thread drew a higher one, and that one was accepted: the thread draws again.
 * Every refusal so needs a number that was accepted since the draw, and there are THREADS * ROUNDS of those: this ends.
 */
static void hammer_checkpoint(struct shared *s)
{
	uint64_t version, highest = s->taken;
	int rc;

	do {
		version = s->next++;
		rc = kedge_checkpoint(s->k, version);
	} while (rc == KEDGE_E_STATE && s->next > version + 1);
	s->failures += rc != 0;
	s->accepted += rc == 0;
	while (highest < version + 1 && !atomic_compare_exchange_weak(&s->taken, &highest, version + 1))
		;
}

/* After a wait a version is there; without it the first may still be on its way. */
static void hammer_read(struct hammer *h, bool waited)
{
	struct shared *s = h->shared;
	int rc = kedge_read(s->k, KEDGE_NEWEST, &(struct kedge_target){"base", h->seen, BYTES}, 1);

	s->failures += rc != 0 && (waited || rc != KEDGE_E_NOTFOUND);
	s->failures += rc == 0 && memcmp(h->seen, s->base, BYTES) != 0;
}

/* Every thread has a region of its own, which only it moves; others' checkpoints read it, under the handle's lock. */
static void hammer_once(struct hammer *h, int round)
{
	struct shared *s = h->shared;
	struct kedge_version_info *list;
	struct kedge_region_info info;
	struct kedge_stats stats;
	bool wait = round % 5 == h->id % 5;
	char name[32];
	size_t n;
	int rc;

	text_make(name, sizeof(name), "own-%d", h->id);
	s->failures += kedge_protect(s->k, name, h->memory, sizeof(h->memory) - (size_t)round % 7, KEDGE_U8) != 0;
	hammer_checkpoint(s);
	s->failures += kedge_unprotect(s->k, "no such region") != KEDGE_E_NOTFOUND;
	s->failures += strstr(kedge_last_error(s->k), "no such region") == NULL;
	s->failures += kedge_test(s->k, 1000000) != KEDGE_E_NOTFOUND;
	s->failures += strstr(kedge_last_error(s->k), "1000000") == NULL;
	if (kedge_versions(s->k, &list, &n) == 0)
		kedge_free(list);
	else
		s->failures++;
	(void)kedge_region_stat(s->k, KEDGE_NEWEST, name, &info);
	rc = kedge_stats_get(s->k, &stats); /* the first background version may still be on its way */
	s->failures += rc != 0 && rc != KEDGE_E_NOTFOUND;
	if (wait)
		s->failures += kedge_wait(s->k) != 0;
	hammer_read(h, wait);
	if (round % 9 == 0)
		s->failures += kedge_unprotect(s->k, name) != 0;
}

static void *hammer_run(void *arg)
{
	struct hammer *h = arg;

	for (int i = 0; i < ROUNDS; i++)
		hammer_once(h, i);
	return NULL;
}

static void see(void *user, const struct kedge_progress *p)
{
	uint64_t *last = user;

	*last = p->done_bytes; /* callbacks come one at a time: no lock here */
}

static void hammering(const struct place *p, const char *capture)
{
	struct shared s = {.k = job_open(p, true, MORE(capture, "reducer=tree", "chunk=64", "keep=3"))};
	static struct hammer h[THREADS];
	struct kedge_version_info *list;
	pthread_t threads[THREADS];
	uint64_t last = 0;
	size_t n;

	fill_random(s.base, BYTES, 1);
	kedge_set_progress(s.k, see, &last);
	assert_ok(s.k, kedge_protect(s.k, "base", s.base, BYTES, KEDGE_U8));
	for (int i = 0; i < THREADS; i++) {
		h[i].shared = &s;
		h[i].id = i;
		fill_random(h[i].memory, sizeof(h[i].memory), (uint64_t)i);
		assert_int_equal(pthread_create(&threads[i], NULL, hammer_run, &h[i]), 0);
	}
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	assert_int_equal(s.failures, 0);
	assert_int_equal(s.accepted, THREADS * ROUNDS);
	assert_ok(s.k, kedge_wait(s.k));
	assert_ok(s.k, kedge_versions(s.k, &list, &n));
	assert_true(n >= 3);
	assert_int_equal(list[n - 1].version, s.taken - 1);
	kedge_free(list);
	assert_ok(s.k, kedge_close(s.k));
	tree_remove(p->l1);
	tree_remove(p->l2);
}

static void test_hammering(void **state)
{
	hammering(*state, "capture=sync");
	hammering(*state, "capture=copy");
}

/* A progress callback that waits keeps a checkpoint under way for as long as the test needs it. */
struct gate {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool arrived, open;
	kedge_t *k;
};

static void gate_hold(void *user, const struct kedge_progress *p)
{
	struct gate *g = user;

	if (strcmp(p->phase, "write") != 0)
		return;
	pthread_mutex_lock(&g->lock);
	g->arrived = true;
	pthread_cond_broadcast(&g->changed);
	while (!g->open)
		pthread_cond_wait(&g->changed, &g->lock);
	pthread_mutex_unlock(&g->lock);
}

static void gate_await(struct gate *g)
{
	pthread_mutex_lock(&g->lock);
	while (!g->arrived)
		pthread_cond_wait(&g->changed, &g->lock);
	pthread_mutex_unlock(&g->lock);
}

static void gate_open(struct gate *g)
{
	pthread_mutex_lock(&g->lock);
	g->open = true;
	pthread_cond_broadcast(&g->changed);
	pthread_mutex_unlock(&g->lock);
}

static void *checkpoint_7(void *arg)
{
	struct gate *g = arg;

	return (void *)(intptr_t)kedge_checkpoint(g->k, 7);
}

/* With sync another thread, with copy this very one, asks while the write is held up. */
static void asking(const struct place *p, bool copy)
{
	struct gate g = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
	kedge_t *k = job_open(p, false, MORE(copy ? "capture=copy" : "capture=sync", "reducer=full"));
	uint8_t m[BYTES], want[BYTES];
	pthread_t thread;
	void *rc = NULL;

	g.k = k;
	fill_random(m, BYTES, 1);
	fill_random(want, BYTES, 1);
	assert_ok(k, kedge_protect(k, "m", m, BYTES, KEDGE_U8));
	kedge_set_progress(k, gate_hold, &g);
	if (copy)
		assert_ok(k, kedge_checkpoint(k, 7));
	else
		assert_int_equal(pthread_create(&thread, NULL, checkpoint_7, &g), 0);
	gate_await(&g);
	assert_int_equal(kedge_test(k, 7), 0);
	assert_int_equal(kedge_test(k, 8), KEDGE_E_NOTFOUND);
	assert_non_null(strstr(kedge_last_error(k), "8"));
	if (copy)
		memset(m, 0, BYTES); /* the copy is aside */
	gate_open(&g);
	if (!copy)
		assert_int_equal(pthread_join(thread, &rc), 0);
	assert_null(rc);
	assert_ok(k, kedge_wait(k));
	assert_int_equal(kedge_test(k, 7), 1);
	kedge_set_progress(k, NULL, NULL);
	assert_ok(k, kedge_restart(k, 7, NULL));
	assert_memory_equal(m, want, BYTES);
	assert_ok(k, kedge_close(k));
	tree_remove(p->l1);
}

static void test_asking_does_not_wait(void **state)
{
	asking(*state, false);
	asking(*state, true);
}

/* More new bytes than may be held aside: the checkpoint is synchronous, and complete when it returns. */
static void test_copy_memory_limit(void **state)
{
	kedge_t *k = job_open(*state, false, MORE("capture=copy", "copy_memory=10k", "reducer=tree", "chunk=64"));
	uint8_t m[BYTES];

	fill_random(m, BYTES, 1);
	assert_ok(k, kedge_protect(k, "m", m, BYTES, KEDGE_U8));
	assert_ok(k, kedge_checkpoint(k, 1));
	assert_int_equal(kedge_test(k, 1), 1);
	fill_random(m, 1000, 2);
	assert_ok(k, kedge_checkpoint(k, 2));
	assert_ok(k, kedge_close(k));
}

/* The error of a background version comes out of wait once, or else of close. */
static void test_background_errors_are_reported(void **state)
{
	for (int by_close = 0; by_close < 2; by_close++) {
		kedge_t *k = job_open(*state, false, MORE("capture=copy"));
		uint8_t m[1000] = {1};

		assert_ok(k, kedge_protect(k, "m", m, sizeof(m), KEDGE_U8));
		assert_int_equal(kedge__fault_set("enospc@1+", NULL), 0);
		assert_ok(k, kedge_checkpoint(k, 1));
		if (!by_close) {
			assert_int_equal(kedge_wait(k), KEDGE_E_NOSPACE);
			assert_int_equal(kedge_test(k, 1), KEDGE_E_NOSPACE);
			assert_ok(k, kedge_wait(k));
			kedge__fault_set(NULL, NULL);
			assert_ok(k, kedge_close(k));
		} else {
			assert_int_equal(kedge_close(k), KEDGE_E_NOSPACE);
			assert_true(strlen(kedge_last_error(NULL)) > 10);
			kedge__fault_set(NULL, NULL);
		}
	}
}

static int alone(void *ctx, const void *send, size_t bytes, void *recv)
{
	(void)ctx;
	memcpy(recv, send, bytes);
	return 0;
}

static int threads_with(const struct place *p, int neighbours, const char *threads)
{
	struct kedge_group group = {.size = 1, .any_thread = 1, .allgather = alone, .neighbours = neighbours};
	char l1[400];
	const char *settings[] = {l1, threads, NULL};
	kedge_t *k = NULL;
	int count;

	text_make(l1, sizeof(l1), "l1=%s", p->l1);
	assert_ok(NULL, kedge_open_group("job", NULL, settings, &group, &k));
	count = kedge__pool_threads(k->pool);
	assert_ok(k, kedge_close(k));
	return count;
}

/* Ranks of one machine share its processors, unless somebody says how many threads they have. */
static void test_neighbours(void **state)
{
	int all = threads_with(*state, 0, NULL);

	assert_int_equal(threads_with(*state, 1, NULL), all);
	assert_int_equal(threads_with(*state, 1 << 20, NULL), 1);
	assert_true(threads_with(*state, 2, NULL) <= all);
	assert_int_equal(threads_with(*state, 1 << 20, "threads=3"), 3);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(test_hammering, place_setup, place_teardown),
	    cmocka_unit_test_setup_teardown(test_asking_does_not_wait, place_setup, place_teardown),
	    cmocka_unit_test_setup_teardown(test_copy_memory_limit, place_setup, place_teardown),
	    cmocka_unit_test_setup_teardown(test_background_errors_are_reported, place_setup, place_teardown),
	    JOB(test_neighbours),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
