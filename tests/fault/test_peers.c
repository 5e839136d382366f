/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ways in which other checkpoint libraries were seen to lose data or to end the job, each turned into a test: none
 * of them may happen here.
 */
#include "../lib/cases.h"
#include "../lib/damage.h"
#include "scenario.h"

#include "base/base.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct fixture {
	char *dir;
	uint64_t data[512];
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	f->dir = scenario_directory();
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	scenario_remove(f->dir);
	free(f);
	return 0;
}

static kedge_t *open_store(struct fixture *f, const char *store, const char *name, const char *extra)
{
	char l1[300];
	const char *settings[] = {l1, "threads=1", extra, NULL};
	kedge_t *k;

	snprintf(l1, sizeof(l1), "l1=%s/%s", f->dir, store);
	if (kedge_open(name, NULL, settings, &k) != 0)
		fail_msg("%s", kedge_last_error(NULL));
	return k;
}

static void fill(struct fixture *f, uint64_t v)
{
	for (size_t i = 0; i < 512; i++)
		f->data[i] = i * 3 + (i % 4 == 0 ? v : 0);
}

static void save(struct fixture *f, kedge_t *k, uint64_t v)
{
	fill(f, v);
	assert_int_equal(kedge_protect(k, "data", f->data, 512, KEDGE_U64), 0);
	if (kedge_checkpoint(k, v) != 0)
		fail_msg("%s", kedge_last_error(k));
}

static void expect(struct fixture *f, kedge_t *k, uint64_t wanted, uint64_t version)
{
	uint64_t got, copy[512];

	memset(f->data, 0xee, sizeof(f->data));
	assert_int_equal(kedge_protect(k, "data", f->data, 512, KEDGE_U64), 0);
	if (kedge_restart(k, wanted, &got) != 0)
		fail_msg("%s", kedge_last_error(k));
	assert_int_equal(got, version);
	memcpy(copy, f->data, sizeof(copy));
	fill(f, version);
	assert_memory_equal(copy, f->data, sizeof(copy));
}

static void segment_path(struct fixture *f, char *path, size_t room, uint64_t version)
{
	snprintf(path, room, "%s/store/job/v%020llu/r0000000-g0.seg", f->dir, (unsigned long long)version);
	assert_int_equal(access(path, F_OK), 0);
}

/* VELOC: a truncated newest file is an error, with no way to an older version. */
static void test_truncated_newest_falls_back(void **state)
{
	struct fixture *f = *state;
	kedge_t *k = open_store(f, "store", "job", "reducer=full");
	char path[400];

	for (uint64_t v = 1; v <= 3; v++)
		save(f, k, v);
	assert_int_equal(kedge_close(k), 0);
	segment_path(f, path, sizeof(path), 3);
	file_cut(path, 100);
	k = open_store(f, "store", "job", "reducer=full");
	expect(f, k, KEDGE_NEWEST, 2);
	save(f, k, 3); /* and the damaged one does not stand in the way */
	expect(f, k, KEDGE_NEWEST, 3);
	assert_int_equal(kedge_close(k), 0);
}

/* VELOC: with default settings one changed byte restarts into wrong data. */
static void test_changed_byte_is_never_restored(void **state)
{
	struct fixture *f = *state;
	kedge_t *k = open_store(f, "store", "job", "codec=none");
	char path[400];

	for (uint64_t v = 1; v <= 2; v++)
		save(f, k, v);
	assert_int_equal(kedge_close(k), 0);
	segment_path(f, path, sizeof(path), 2);
	file_flip(path, 200, 4);
	k = open_store(f, "store", "job", NULL);
	assert_int_equal(kedge_protect(k, "data", f->data, 512, KEDGE_U64), 0);
	assert_int_equal(kedge_restart(k, 2, NULL), KEDGE_E_DAMAGED);
	expect(f, k, KEDGE_NEWEST, 1);
	assert_int_equal(kedge_close(k), 0);
}

/* VELOC: a second job with other directories has its data written to the first one's. */
static void test_jobs_with_other_directories_do_not_mix(void **state)
{
	struct fixture *f = *state;
	kedge_t *a = open_store(f, "a", "job", NULL), *b = open_store(f, "b", "job", NULL);

	save(f, a, 1);
	save(f, b, 7);
	expect(f, a, KEDGE_NEWEST, 1);
	expect(f, b, KEDGE_NEWEST, 7);
	assert_int_equal(kedge_close(a), 0);
	assert_int_equal(kedge_close(b), 0);
}

/* VELOC: init after finalize crashes; re-protecting a region reports failure. */
static void test_open_again_and_protect_again(void **state)
{
	struct fixture *f = *state;
	uint64_t other[512];

	for (uint64_t v = 1; v <= 3; v++) {
		kedge_t *k = open_store(f, "store", "job", NULL);

		assert_int_equal(kedge_protect(k, "data", other, 512, KEDGE_U64), 0);
		save(f, k, v); /* protects the same name at another address */
		expect(f, k, KEDGE_NEWEST, v);
		assert_int_equal(kedge_close(k), 0);
	}
}

/* PyTorch's asynchronous save: a value written after the call ends up in the checkpoint. */
static void test_memory_changed_after_the_call_is_not_saved(void **state)
{
	struct fixture *f = *state;
	kedge_t *k = open_store(f, "store", "job", "capture=copy");

	for (uint64_t v = 1; v <= 20; v++) {
		save(f, k, v);
		memset(f->data, (int)v, sizeof(f->data));
	}
	assert_int_equal(kedge_wait(k), 0);
	for (uint64_t v = 20; v >= 1; v--)
		expect(f, k, v, v);
	assert_int_equal(kedge_close(k), 0);
}

/* SCR: an asynchronous flush is only completed by a later call of the library. */
static void test_background_version_needs_no_further_call(void **state)
{
	struct fixture *f = *state;
	kedge_t *k = open_store(f, "store", "job", "capture=copy");
	int done;

	save(f, k, 1);
	do {
		sched_yield();
		done = kedge_test(k, 1);
	} while (done == 0);
	assert_int_equal(done, 1);
	expect(f, k, KEDGE_NEWEST, 1);
	assert_int_equal(kedge_close(k), 0);
}

/* FTI, VELOC: sizes over 2 GiB wrap. */
static void test_region_over_2_gib(void **state)
{
	struct fixture *f = *state;
	size_t bytes = ((size_t)2 << 30) + 12345;
	uint8_t *big = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	struct kedge_region_info info;
	kedge_t *k;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	skip();
#endif
	assert_ptr_not_equal(big, MAP_FAILED);
	memset(big + bytes - 100, 0x5a, 100);
	k = open_store(f, "store", "job", "reducer=tree");
	assert_int_equal(kedge_protect(k, "big", big, bytes, KEDGE_U8), 0);
	assert_int_equal(kedge_checkpoint(k, 1), 0);
	assert_int_equal(madvise(big, bytes, MADV_DONTNEED), 0);
	assert_int_equal(kedge_region_stat(k, 1, "big", &info), 0);
	assert_true(info.bytes == bytes);
	assert_int_equal(kedge_restart(k, KEDGE_NEWEST, NULL), 0);
	assert_int_equal(big[bytes - 101], 0);
	for (size_t i = bytes - 100; i < bytes; i++)
		assert_int_equal(big[i], 0x5a);
	assert_int_equal(kedge_close(k), 0);
	munmap(big, bytes);
}

/* VELOC: cleaning up one job's files deletes another's. */
static void test_names_in_one_store_are_apart(void **state)
{
	struct fixture *f = *state;
	kedge_t *a = open_store(f, "store", "a-1", "keep=1"), *b = open_store(f, "store", "b.2", NULL);

	for (uint64_t v = 1; v <= 12; v++) {
		save(f, a, v);
		save(f, b, v + 100);
	}
	expect(f, a, KEDGE_NEWEST, 12);
	for (uint64_t v = 1; v <= 12; v++)
		expect(f, b, v + 100, v + 100);
	assert_int_equal(kedge_close(a), 0);
	assert_int_equal(kedge_close(b), 0);
}

int main(int argc, char **argv)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
	    TEST(test_truncated_newest_falls_back),
	    TEST(test_changed_byte_is_never_restored),
	    TEST(test_jobs_with_other_directories_do_not_mix),
	    TEST(test_open_again_and_protect_again),
	    TEST(test_memory_changed_after_the_call_is_not_saved),
	    TEST(test_background_version_needs_no_further_call),
	    TEST(test_region_over_2_gib),
	    TEST(test_names_in_one_store_are_apart),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
