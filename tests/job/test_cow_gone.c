/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that the application frees, moves or discards while a version is saved from it, though nobody told the
 * library: that version fails and says which region, and what comes before and after is whole.
 */
#include "cow.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define BYTES ((size_t)1 << 20)
#define PART  ((size_t)256 << 10)

/* The writer waits behind it. */
struct gate {
	pthread_mutex_t lock;
	pthread_cond_t change;
	bool open;
};

static void gate_pass(void *ctx)
{
	struct gate *g = ctx;

	pthread_mutex_lock(&g->lock);
	while (!g->open)
		pthread_cond_wait(&g->change, &g->lock);
	pthread_mutex_unlock(&g->lock);
}

static void gate_open(struct gate *g)
{
	pthread_mutex_lock(&g->lock);
	g->open = true;
	pthread_cond_broadcast(&g->change);
	pthread_mutex_unlock(&g->lock);
}

static uint8_t *memory_map(void *at)
{
	uint8_t *p = mmap(at, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | (at ? MAP_FIXED : 0), -1, 0);

	assert_ptr_not_equal(p, MAP_FAILED);
	return p;
}

/* Each returns how much of the memory is left to be unmapped at P. */
static size_t unmap(uint8_t *p)
{
	munmap(p, BYTES);
	return 0;
}

static size_t unmap_part(uint8_t *p)
{
	munmap(p + PART, BYTES - PART);
	return PART;
}

static size_t map_anew(uint8_t *p)
{
	fill_random(memory_map(p), BYTES, 99);
	return BYTES;
}

static size_t discard(uint8_t *p)
{
	madvise(p + PART, PART, MADV_DONTNEED);
	return BYTES;
}

static size_t move(uint8_t *p)
{
	uint8_t *place = mremap(p, BYTES, 2 * BYTES, MREMAP_MAYMOVE);

	assert_ptr_not_equal(place, MAP_FAILED);
	assert_ptr_not_equal(place, p);
	memset(place, 1, 2 * BYTES);
	munmap(place, 2 * BYTES);
	return 0;
}

static void assert_version(kedge_t *k, uint64_t version, uint64_t seed)
{
	uint8_t *got = malloc(BYTES), *was = malloc(BYTES);
	struct kedge_target target = {"field", got, BYTES};

	fill_random(was, BYTES, seed);
	assert_ok(k, kedge_read(k, version, &target, 1));
	assert_memory_equal(got, was, BYTES);
	free(got);
	free(was);
}

static void assert_lost(kedge_t *k)
{
	assert_int_equal(kedge_wait(k), KEDGE_E_STATE);
	assert_non_null(strstr(kedge_last_error(k), "region \"field\""));
	assert_non_null(strstr(kedge_last_error(k), "kedge_unprotect()"));
}

/* What was protected is lost with the memory; what was copied because nothing can be protected here is not. */
static void lose(struct place *p, const char *const *more, size_t (*way)(uint8_t *p))
{
	struct gate gate = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false};
	kedge_t *k = cow_open(p, more);
	uint8_t *memory = memory_map(NULL), *fresh = memory_map(NULL);
	bool held = k->image.cow;
	size_t left;

	fill_random(memory, BYTES, 1);
	assert_ok(k, kedge_protect(k, "field", memory, BYTES, KEDGE_U8));
	assert_ok(k, kedge_checkpoint(k, 1));
	assert_ok(k, kedge_wait(k));
	fill_random(memory, BYTES, 2);
	assert_int_equal(kedge__worker_submit(k->writer, gate_pass, &gate, NULL), 0);
	assert_ok(k, kedge_checkpoint(k, 2));
	left = way(memory);
	gate_open(&gate);
	if (held)
		assert_lost(k);
	else
		assert_ok(k, kedge_wait(k));
	fill_random(fresh, BYTES, 3);
	assert_ok(k, kedge_protect(k, "field", fresh, BYTES, KEDGE_U8));
	assert_ok(k, kedge_checkpoint(k, 3));
	assert_ok(k, kedge_wait(k));
	assert_int_equal(versions_count(k), held ? 2 : 3);
	assert_version(k, 1, 1);
	if (!held)
		assert_version(k, 2, 2);
	assert_version(k, 3, 3);
	assert_ok(k, kedge_close(k));
	if (left)
		munmap(memory, left);
	munmap(fresh, BYTES);
	tree_remove(p->l1);
}

static void each_way(struct place *p, const char *const *more)
{
	lose(p, more, unmap);
	lose(p, more, unmap_part);
	lose(p, more, map_anew);
	lose(p, more, discard);
	lose(p, more, move);
}

static void test_lost(void **state)
{
	each_way(*state, MORE("capture=cow-user", "reducer=tree", "track=none"));
	each_way(*state, MORE("capture=cow-user", "reducer=full", "copy_memory=64k"));
	lose(*state, MORE("capture=cow", "reducer=rex"), unmap);
}

static void test_lost_and_tracked(void **state)
{
	if (!tracker_here(*state, "uffd"))
		return;
	each_way(*state, MORE("capture=cow-user", "reducer=basic", "track=uffd"));
}

/* The version is the parent's, whatever a child does with its copy of the memory. */
static void test_child(void **state)
{
	struct place *p = *state;
	struct gate gate = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false};
	uint8_t *memory = memory_map(NULL);
	int status;
	pid_t child;
	kedge_t *k;

	k = cow_open(p, MORE("capture=cow-user"));
	fill_random(memory, BYTES, 1);
	assert_ok(k, kedge_protect(k, "field", memory, BYTES, KEDGE_U8));
	assert_int_equal(kedge__worker_submit(k->writer, gate_pass, &gate, NULL), 0);
	assert_ok(k, kedge_checkpoint(k, 1));
	fflush(NULL);
	child = fork();
	if (child == 0) {
		memset(memory, 7, PART);
		munmap(memory + PART, PART);
		_exit(0);
	}
	memset(memory + PART, 9, PART);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	gate_open(&gate);
	assert_ok(k, kedge_wait(k));
	assert_version(k, 1, 1);
	assert_ok(k, kedge_close(k));
	munmap(memory, BYTES);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(test_lost, place_setup, place_teardown),
	    cmocka_unit_test_setup_teardown(test_lost_and_tracked, place_setup, place_teardown),
	    cmocka_unit_test_setup_teardown(test_child, place_setup, place_teardown),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
