/* SPDX-License-Identifier: BSD-3-Clause */
/* A disk that fails or is full, memory that runs out: the job is told, nothing is lost, and it goes on. */
#include "support.h"

#include <sys/wait.h>

#define BYTES 30000

static uint8_t m[BYTES], want[BYTES];
static uint64_t calls; /* of the file system, in the last third checkpoint */

static void state_make(uint8_t *to, uint64_t version)
{
	fill_random(to, BYTES, 1);
	for (uint64_t v = 1; v <= version; v++)
		fill_random(to + v % 5 * (BYTES / 5), BYTES / 5, v + 50);
}

static void comes_back(kedge_t *k, uint64_t expected)
{
	uint64_t version = 0;

	memset(m, 0, BYTES);
	assert_ok(k, kedge_restart(k, KEDGE_NEWEST, &version));
	assert_int_equal(version, expected);
	state_make(want, expected);
	assert_memory_equal(m, want, BYTES);
}

static void take(kedge_t *k, uint64_t version)
{
	state_make(m, version);
	assert_ok(k, kedge_checkpoint(k, version));
	assert_ok(k, kedge_wait(k));
}

/* What the third checkpoint of a series says when the N-th file-system call from its beginning on fails. */
static int third(const struct place *p, const char *const *more, const char *fault, bool l2)
{
	kedge_t *k = job_open(p, l2, more);
	int rc;

	assert_ok(k, kedge_protect(k, "m", m, BYTES, KEDGE_U8));
	take(k, 1);
	take(k, 2);
	state_make(m, 3);
	assert_int_equal(kedge__fault_set(fault, NULL), 0);
	rc = kedge_checkpoint(k, 3);
	if (!rc)
		rc = kedge_wait(k);
	calls = kedge__fault_count();
	kedge__fault_set(NULL, NULL);
	if (rc) {
		assert_true(strlen(kedge_last_error(k)) > 10);
		assert_true(kedge_test(k, 3) < 0);
	}
	/* An error on L1 leaves version 2; one on L2 leaves version 3. */
	if (!rc || versions_count(k) == 3) {
		comes_back(k, 3);
	} else {
		comes_back(k, 2);
		take(k, 3);
		comes_back(k, 3);
	}
	take(k, 4);
	comes_back(k, 4);
	assert_ok(k, kedge_close(k));
	k = job_open(p, l2, more);
	assert_ok(k, kedge_protect(k, "m", m, BYTES, KEDGE_U8));
	comes_back(k, 4);
	assert_ok(k, kedge_close(k));
	tree_remove(p->l1);
	tree_remove(p->l2);
	return rc;
}

static void every_call(const struct place *p, const char *const *more, const char *action, bool lasting, int code,
		       bool l2)
{
	uint64_t last;
	int failures = 0;

	assert_int_equal(third(p, more, NULL, l2), 0);
	last = calls;
	assert_true(last > 5);
	for (uint64_t n = 1; n <= last; n++) {
		char fault[32];
		int rc;

		text_make(fault, sizeof(fault), "%s@%llu%s", action, (unsigned long long)n, lasting ? "+" : "");
		rc = third(p, more, fault, l2);
		failures += rc != 0;
		if (rc)
			assert_int_equal(rc, code);
	}
	assert_true(failures > 5);
}

static void test_disk_full_at_every_call(void **state)
{
	every_call(*state, MORE("reducer=tree", "chunk=64"), "enospc", true, KEDGE_E_NOSPACE, false);
}

static void test_one_failing_call(void **state)
{
	every_call(*state, MORE("reducer=tree", "chunk=64", "capture=copy"), "eio", false, KEDGE_E_IO, true);
}

/* Of a version that goes to L2 while it is written to L1. */
static void test_one_failing_call_on_both_levels(void **state)
{
	every_call(*state, MORE("reducer=full", "capture=copy", "buffer=4k"), "eio", false, KEDGE_E_IO, true);
}

/* No allocation may crash the job or leave it unable to go on. */
static void test_every_allocation(void **state)
{
	const struct place *p = *state;
	const char *const *more = MORE("reducer=tree", "chunk=1024", "threads=1");
	uint64_t count, step;
	kedge_t *k = job_open(p, false, more);

	assert_ok(k, kedge_protect(k, "m", m, BYTES, KEDGE_U8));
	take(k, 1);
	kedge__fault_set(NULL, NULL);
	take(k, 2);
	assert_ok(k, kedge_restart(k, KEDGE_NEWEST, NULL));
	count = kedge__fault_alloc_count();
	step = count / 150 + 1;
	for (uint64_t n = 1; n <= count; n += step) {
		char fault[32];
		int rc;

		text_make(fault, sizeof(fault), "alloc@%llu", (unsigned long long)n);
		assert_int_equal(kedge__fault_set(fault, NULL), 0);
		state_make(m, 2);
		rc = kedge_checkpoint(k, 2);
		if (!rc)
			rc = kedge_restart(k, KEDGE_NEWEST, NULL);
		kedge__fault_set(NULL, NULL);
		assert_true(rc == 0 || rc == KEDGE_E_NOMEM);
		if (rc) /* a restart that failed must be followed by one that does not */
			assert_ok(k, kedge_restart(k, KEDGE_NEWEST, NULL));
	}
	take(k, 2);
	comes_back(k, 2);
	assert_ok(k, kedge_close(k));
}

static void test_open_and_close_with_failing_allocations(void **state)
{
	const struct place *p = *state;
	size_t fds = fds_open(), threads = threads_alive();
	struct options o;
	const char *const *settings = options_make(&o, p, true, MORE("capture=copy", "keep=3"));
	kedge_t *k = job_open(p, true, NULL);
	int failures = 0;

	assert_ok(k, kedge_protect(k, "m", m, BYTES, KEDGE_U8));
	take(k, 1);
	assert_ok(k, kedge_close(k));
	for (int n = 1; n < 400; n++) {
		char fault[32];
		int rc;

		text_make(fault, sizeof(fault), "alloc@%d", n);
		assert_int_equal(kedge__fault_set(fault, NULL), 0);
		rc = kedge_open("job", NULL, settings, &k);
		kedge__fault_set(NULL, NULL);
		failures += rc != 0;
		if (!rc)
			assert_ok(k, kedge_close(k));
		assert_int_equal(fds_open(), fds);
		assert_int_equal(threads_left(threads), threads);
	}
	assert_true(failures > 20);
}

/* Root may write anywhere, so this is for nobody. */
static void as_nobody(const struct place *p)
{
	struct options o;
	kedge_t *k = NULL;
	int rc;

	if (geteuid() == 0 && (setgid(65534) || setuid(65534)))
		_exit(3);
	rc = kedge_open("job", NULL, options_make(&o, p, false, NULL), &k);
	if (rc != KEDGE_E_ACCESS || !strstr(kedge_last_error(NULL), p->l1))
		fprintf(stderr, "%d %s\n", rc, kedge_last_error(NULL));
	_exit(rc == KEDGE_E_ACCESS && strstr(kedge_last_error(NULL), p->l1) ? 0 : 1);
}

static void test_read_only_directory(void **state)
{
	const struct place *p = *state;
	int status;
	pid_t pid;

	assert_int_equal(chmod(p->dir, 0755), 0);
	assert_int_equal(mkdir(p->l1, 0555), 0);
	fflush(NULL);
	pid = fork();
	if (pid == 0)
		as_nobody(p);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(test_disk_full_at_every_call, place_setup, place_teardown),
	    cmocka_unit_test_setup_teardown(test_one_failing_call, place_setup, place_teardown),
	    cmocka_unit_test_setup_teardown(test_one_failing_call_on_both_levels, place_setup, place_teardown),
	    cmocka_unit_test_setup_teardown(test_every_allocation, place_setup, place_teardown),
	    cmocka_unit_test_setup_teardown(test_open_and_close_with_failing_allocations, place_setup, place_teardown),
	    cmocka_unit_test_setup_teardown(test_read_only_directory, place_setup, place_teardown),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
