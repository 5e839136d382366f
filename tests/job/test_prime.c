/* SPDX-License-Identifier: BSD-3-Clause */
/* What a process, or one that has restarted, knows of earlier versions: it looks into the store. */
#include "support.h"

#include "job/handle.h"

#include <sys/wait.h>

#define BYTES 64000

static uint8_t m[BYTES], want[BYTES];

static void literal_bytes_are(kedge_t *k, uint64_t bytes)
{
	struct kedge_stats s;

	assert_ok(k, kedge_stats_get(k, &s));
	assert_int_equal(s.literal_bytes, bytes);
}

/* One process: bring the newest state back if asked to, then save the state of SEED as VERSION. */
static void process(const struct place *p, const char *const *more, bool restart, uint64_t version, uint64_t seed,
		    uint64_t literals)
{
	kedge_t *k = job_open(p, false, more);

	assert_ok(k, kedge_protect(k, "m", m, BYTES, KEDGE_U8));
	if (restart)
		assert_ok(k, kedge_restart(k, KEDGE_NEWEST, NULL));
	fill_random(m, BYTES, seed);
	assert_ok(k, kedge_checkpoint(k, version));
	assert_ok(k, kedge_wait(k));
	literal_bytes_are(k, literals);
	assert_ok(k, kedge_close(k));
}

static void all_come_back(const struct place *p)
{
	static const uint64_t seeds[] = {0, 1, 2, 1, 2};
	kedge_t *k = job_open(p, false, NULL);

	assert_ok(k, kedge_protect(k, "m", m, BYTES, KEDGE_U8));
	for (uint64_t v = 1; v <= 4; v++) {
		assert_ok(k, kedge_restart(k, v, NULL));
		fill_random(want, BYTES, seeds[v]);
		assert_memory_equal(m, want, BYTES);
	}
	assert_ok(k, kedge_close(k));
}

/* A, B, A, B over four processes: the third and fourth find what the first and second stored. */
static void a_b_a_b(const struct place *p, const char *const *more, bool restart)
{
	process(p, more, false, 1, 1, BYTES);
	process(p, more, restart, 2, 2, BYTES);
	process(p, more, restart, 3, 1, 0);
	process(p, more, restart, 4, 2, 0);
	all_come_back(p);
	tree_remove(p->l1);
}

static void test_a_b_a_b(void **state)
{
	const char *const *tree = MORE("reducer=tree", "chunk=256"), *const *list = MORE("reducer=list", "chunk=256");

	for (int restart = 0; restart < 2; restart++) {
		a_b_a_b(*state, tree, restart);
		a_b_a_b(*state, list, restart);
		a_b_a_b(*state, MORE("reducer=tree", "chunk=32", "capture=copy"), restart);
	}
}

/* The same within one process that goes back before each version. */
static void test_restart_and_go_on(void **state)
{
	const struct place *p = *state;
	static const uint64_t literals[] = {0, BYTES, BYTES, 0, 0};
	kedge_t *k = job_open(p, false, MORE("reducer=tree", "chunk=256"));

	assert_ok(k, kedge_protect(k, "m", m, BYTES, KEDGE_U8));
	for (uint64_t v = 1; v <= 4; v++) {
		fill_random(m, BYTES, v % 2 ? 1 : 2);
		assert_ok(k, kedge_checkpoint(k, v));
		literal_bytes_are(k, literals[v]);
		memset(m, 0, BYTES);
		assert_ok(k, kedge_restart(k, KEDGE_NEWEST, NULL));
		fill_random(want, BYTES, v % 2 ? 1 : 2);
		assert_memory_equal(m, want, BYTES);
	}
	assert_ok(k, kedge_checkpoint(k, 5)); /* what was restored has not changed */
	literal_bytes_are(k, 0);
	assert_ok(k, kedge_close(k));
	all_come_back(p);
}

/* Other chunks than those of the process before. */
static void test_other_options(void **state)
{
	const struct place *p = *state;

	process(p, MORE("reducer=tree", "chunk=256"), false, 1, 1, BYTES);
	process(p, MORE("reducer=tree", "chunk=128"), false, 2, 2, BYTES);
	process(p, MORE("reducer=list", "chunk=128"), false, 3, 1, 0);
	process(p, MORE("reducer=basic", "chunk=64"), true, 4, 2, BYTES);
	all_come_back(p);
}

static void comes_back(const struct place *p, uint64_t version, uint64_t seed)
{
	kedge_t *k = job_open(p, false, NULL);

	assert_ok(k, kedge_protect(k, "m", m, BYTES, KEDGE_U8));
	assert_ok(k, kedge_restart(k, version, NULL));
	fill_random(want, BYTES, seed);
	assert_memory_equal(m, want, BYTES);
	assert_ok(k, kedge_close(k));
}

/* Versions 1 and 2 again, 1 with other bytes than it had: 2 is the same image as before. */
static void replace_first(const struct place *p, const char *const *more)
{
	kedge_t *k = job_open(p, false, more);

	assert_ok(k, kedge_protect(k, "m", m, BYTES, KEDGE_U8));
	assert_ok(k, kedge_restart(k, 1, NULL));
	fill_random(m, BYTES, 9);
	assert_ok(k, kedge_checkpoint(k, 1));
	fill_random(m, BYTES, 2);
	assert_ok(k, kedge_checkpoint(k, 2));
	assert_ok(k, kedge_close(k));
}

/* What a version had before it was replaced is nowhere any more. */
static void test_versions_that_were_replaced(void **state)
{
	struct place *p = *state;
	const char *const *more = MORE("reducer=tree", "chunk=256");

	for (int restart = 0; restart < 2; restart++) {
		process(p, more, false, 1, 1, BYTES);
		process(p, more, false, 2, 2, BYTES);
		replace_first(p, more);
		process(p, more, restart, 3, 1, BYTES);
		comes_back(p, 1, 9);
		comes_back(p, 2, 2);
		comes_back(p, 3, 1);
		tree_remove(p->l1);
	}
}

static void test_versions_that_are_gone(void **state)
{
	struct place *p = *state;
	const char *const *more = MORE("reducer=tree", "chunk=256");
	char path[500];

	process(p, more, false, 1, 1, BYTES);
	process(p, more, false, 2, 2, BYTES);
	process(p, more, false, 3, 3, BYTES);
	manifest_path(p->l1, 1, path, sizeof(path));
	assert_int_equal(unlink(path), 0);
	process(p, more, false, 4, 2, 0);
	process(p, more, false, 5, 1, BYTES);
	comes_back(p, 3, 3);
	comes_back(p, 4, 2);
	comes_back(p, 5, 1);
}

static void test_after_a_crash(void **state)
{
	const struct place *p = *state;
	const char *const *more = MORE("reducer=tree", "chunk=256");
	pid_t pid;
	int status;

	process(p, more, false, 1, 1, BYTES);
	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		kedge_t *k = job_open(p, false, more);

		assert_ok(k, kedge_protect(k, "m", m, BYTES, KEDGE_U8));
		fill_random(m, BYTES, 2);
		_exit(kedge_checkpoint(k, 2) ? 1 : 0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	process(p, more, false, 3, 1, 0);
	process(p, more, false, 4, 2, 0);
	all_come_back(p);
}

/* Version 0.1 left a file with what the reducer knew: it goes, and nothing else does. */
static void test_old_record_goes(void **state)
{
	const struct place *p = *state;
	char old[500], other[500];

	process(p, NULL, false, 1, 1, BYTES);
	text_make(old, sizeof(old), "%s/job/record-r0000000", p->l1);
	text_make(other, sizeof(other), "%s/job/record-results", p->l1);
	file_write(old, "EKGREC02", 8);
	file_write(other, "mine", 4);
	process(p, NULL, false, 2, 2, BYTES);
	assert_int_not_equal(access(old, F_OK), 0);
	assert_int_equal(access(other, F_OK), 0);
	comes_back(p, 1, 1);
}

/* ---- little memory */

#define BIG ((size_t)16 << 20)

static void big_make(uint8_t *big, uint64_t version)
{
	fill_random(big, BIG, 5);
	fill_random(big + version * 4096, 4096, version + 10);
}

static void big_comes_back(kedge_t *k, uint8_t *big, uint8_t *other, uint64_t version)
{
	memset(big, 0, BIG);
	assert_ok(k, kedge_restart(k, version, NULL));
	big_make(other, version);
	assert_memory_equal(big, other, BIG);
}

/* The image does not fit into what is left: it is looked at in pieces, or not at all. */
static void little_memory(const struct place *p, const char *const *more, const char *room, bool parts)
{
	uint8_t *big = test_malloc(BIG), *other = test_malloc(BIG);
	struct kedge_stats s;

	for (uint64_t v = 1; v <= 4; v++) {
		kedge_t *k = job_open(p, false, more);

		assert_ok(k, kedge_protect(k, "m", big, BIG, KEDGE_U8));
		big_make(big, v);
		assert_int_equal(kedge__fault_set(v > 1 ? room : NULL, NULL), 0);
		if (kedge_checkpoint(k, v)) /* what it was reduced with left no room to write it: that happens once */
			assert_ok(k, kedge_checkpoint(k, v));
		assert_true(kedge__fault_bytes_most() < (v > 1 ? (int64_t)BIG : INT64_MAX));
		kedge__fault_set(NULL, NULL);
		assert_ok(k, kedge_stats_get(k, &s));
		if (parts && v > 1)
			assert_true(s.literal_bytes < BIG / 2);
		assert_ok(k, kedge_close(k));
		k = job_open(p, false, more);
		assert_ok(k, kedge_protect(k, "m", big, BIG, KEDGE_U8));
		for (uint64_t back = 1; back <= v; back++)
			big_comes_back(k, big, other, back);
		assert_ok(k, kedge_close(k));
	}
	test_free(other);
	test_free(big);
	tree_remove(p->l1);
}

static void test_little_memory_after_a_crash(void **state)
{
	const char *const *tree =
	    MORE("reducer=tree", "chunk=4096", "buffer=16k", "block=16k", "codec=none");

	little_memory(*state, tree, "room@8000000", true);
	little_memory(*state, tree, "room@2200000", false);
	if (SANITIZED)
		return;
	little_memory(*state, tree, "room@1800000", false);
	little_memory(*state, MORE("reducer=rex", "buffer=16k", "block=16k", "codec=none"),
		      "room@2200000", false);
}

/* Whichever allocation fails while the store is read, the version is stored, or the next one is. */
static void test_every_allocation_of_priming(void **state)
{
	struct place *p = *state;
	const char *const *more = MORE("reducer=tree", "chunk=1024", "threads=1");
	uint64_t count = 1;

	for (uint64_t v = 1; v <= count; v += v > 2 && SANITIZED ? 4 : 1) {
		kedge_t *k = job_open(p, false, more);
		char fault[32];
		int rc;

		assert_ok(k, kedge_protect(k, "m", m, BYTES, KEDGE_U8));
		fill_random(m, BYTES, v % 3);
		text_make(fault, sizeof(fault), "alloc@%llu", (unsigned long long)v - 1);
		assert_int_equal(kedge__fault_set(v > 2 ? fault : NULL, NULL), 0);
		rc = kedge_checkpoint(k, v);
		if (v <= 2)
			count = kedge__fault_alloc_count();
		kedge__fault_set(NULL, NULL);
		assert_true(rc == 0 || (v > 2 && rc == KEDGE_E_NOMEM));
		if (rc)
			assert_ok(k, kedge_checkpoint(k, v));
		memset(m, 0, BYTES);
		assert_ok(k, kedge_restart(k, KEDGE_NEWEST, NULL));
		fill_random(want, BYTES, v % 3);
		assert_memory_equal(m, want, BYTES);
		assert_ok(k, kedge_close(k));
	}
	assert_true(count > 100);
}

/* rebuild = 0: nothing but the newest version is read. */
static void test_rebuild_limit(void **state)
{
	const struct place *p = *state;
	const char *const *more = MORE("reducer=tree", "chunk=256", "rebuild=0");

	process(p, more, false, 1, 1, BYTES);
	process(p, more, false, 2, 2, BYTES);
	process(p, more, false, 3, 1, BYTES);
	process(p, more, false, 4, 2, BYTES);
	all_come_back(p);
}

/* Bytes are compared, with memory and with the store: what is equal is still found. */
static void paranoid(const struct place *p, const char *capture, const char *reducer)
{
	kedge_t *k = job_open(p, false, MORE(reducer, capture, "chunk=64", "paranoid=yes"));

	assert_ok(k, kedge_protect(k, "m", m, BYTES, KEDGE_U8));
	for (uint64_t v = 1; v <= 4; v++) {
		fill_random(m, BYTES, v % 2 ? 1 : 2);
		assert_ok(k, kedge_checkpoint(k, v));
		memset(m, 0, BYTES); /* what the reducer keeps must not be read from here any more */
		assert_ok(k, kedge_wait(k));
		literal_bytes_are(k, v <= 2 ? BYTES : 0);
	}
	assert_ok(k, kedge_close(k));
	all_come_back(p);
	tree_remove(p->l1);
}

static void test_paranoid(void **state)
{
	paranoid(*state, "capture=sync", "reducer=tree");
	paranoid(*state, "capture=copy", "reducer=tree");
	paranoid(*state, "capture=copy", "reducer=list");
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(test_a_b_a_b, place_setup, place_teardown),
	    JOB(test_restart_and_go_on),
	    JOB(test_other_options),
	    JOB(test_versions_that_were_replaced),
	    JOB(test_versions_that_are_gone),
	    JOB(test_after_a_crash),
	    JOB(test_old_record_goes),
	    JOB(test_little_memory_after_a_crash),
	    JOB(test_every_allocation_of_priming),
	    cmocka_unit_test_setup_teardown(test_rebuild_limit, place_setup, place_teardown),
	    cmocka_unit_test_setup_teardown(test_paranoid, place_setup, place_teardown),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
