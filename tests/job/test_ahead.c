/* SPDX-License-Identifier: BSD-3-Clause */
/* A version on its way to L2 while it is written to L1. */
#include "job/handle.h"
#include "support.h"

#include <time.h>

#define BYTES  ((size_t)1 << 20)
#define BUFFER "buffer=16k"
#define LIMIT  60 /* seconds until what has to happen has not */

static uint8_t m[BYTES], was[BYTES], got[BYTES];

struct watch { /* until a file is there */
	char path[700];
	uint64_t at;
	bool seen;
};

static void watch_until(struct watch *w)
{
	struct stat st;
	time_t end = time(NULL) + LIMIT;

	while (!w->seen && time(NULL) < end) {
		w->seen = stat(w->path, &st) == 0 && st.st_size > 0;
		sched_yield();
	}
}

static void report(void *user, const struct kedge_progress *p)
{
	struct watch *w = user;

	if (strcmp(p->phase, "write") == 0 && p->done_bytes >= w->at && !w->seen)
		watch_until(w);
}

static void state_make(uint64_t version)
{
	fill_random(m, BYTES, version);
	memcpy(was, m, BYTES);
}

static void comes_back(kedge_t *k, uint64_t version)
{
	struct kedge_target target = {"m", got, BYTES};

	assert_ok(k, kedge_read(k, version, &target, 1));
	assert_memory_equal(got, was, BYTES);
}

static kedge_t *open_both(const struct place *p, const char *const *more)
{
	kedge_t *k = job_open(p, true, more);

	assert_ok(k, kedge_protect(k, "m", m, BYTES, KEDGE_U8));
	return k;
}

static void assert_same_file(const struct place *p, uint64_t version)
{
	char a[600], b[600];
	size_t a_bytes, b_bytes;
	uint8_t *a_data, *b_data;

	segment_path(p->l1, version, 0, a, sizeof(a));
	segment_path(p->l2, version, 0, b, sizeof(b));
	a_data = file_read(a, &a_bytes);
	b_data = file_read(b, &b_bytes);
	assert_int_equal(a_bytes, b_bytes);
	assert_memory_equal(a_data, b_data, a_bytes);
	free(a_data);
	free(b_data);
}

/* Half-way on L1, some of it is on L2, under another name. */
static void test_both_at_once(void **state)
{
	static const char *const captures[] = {"capture=sync", "capture=copy", "capture=cow-user"};
	const struct place *p = *state;

	for (size_t i = 0; i < KEDGE__COUNT(captures); i++) {
		kedge_t *k = open_both(p, MORE(BUFFER, captures[i], "reducer=full", "codec=lz4"));

		for (uint64_t v = 1; v <= 2; v++) {
			struct watch w = {.at = BYTES / 2};

			text_make(w.path, sizeof(w.path), "%s/job/v%020llu/r0000000-g0.seg.tmp", p->l2,
				  (unsigned long long)v);
			kedge_set_progress(k, report, &w);
			state_make(v);
			assert_ok(k, kedge_checkpoint(k, v));
			assert_ok(k, kedge_wait(k));
			kedge_set_progress(k, NULL, NULL);
			assert_true(w.seen);
			assert_int_equal(levels_of(k, v), 3);
			assert_same_file(p, v);
			comes_back(k, v);
		}
		assert_ok(k, kedge_close(k));
		tree_remove(p->l1);
		tree_remove(p->l2);
	}
}

/* Where it cannot be written, L1 has it, and kedge_wait() says so; afterwards all is well again. */
static void test_l2_fails(void **state)
{
	const struct place *p = *state;
	kedge_t *k = open_both(p, MORE(BUFFER, "capture=copy", "reducer=full"));
	char path[600];

	text_make(path, sizeof(path), "%s/job/v%020d", p->l2, 1);
	file_fill(path, 10, 1); /* where a directory should be */
	state_make(1);
	assert_ok(k, kedge_checkpoint(k, 1));
	assert_true(kedge_wait(k) < 0);
	assert_non_null(strstr(kedge_last_error(k), "did not reach L2"));
	assert_int_equal(levels_of(k, 1), 1);
	comes_back(k, 1);
	state_make(2);
	assert_ok(k, kedge_checkpoint(k, 2));
	assert_ok(k, kedge_wait(k));
	assert_int_equal(levels_of(k, 2), 3);
	comes_back(k, 2);
	assert_ok(k, kedge_close(k));
}

/* A version that is not written to L1 leaves nothing on L2. */
static void test_l1_fails(void **state)
{
	const struct place *p = *state;
	kedge_t *k = open_both(p, MORE(BUFFER, "capture=copy", "reducer=full"));
	char path[600];
	struct stat st;

	text_make(path, sizeof(path), "%s/job/v%020d", p->l1, 1);
	file_fill(path, 10, 1);
	state_make(1);
	assert_ok(k, kedge_checkpoint(k, 1));
	assert_true(kedge_wait(k) < 0);
	text_make(path, sizeof(path), "%s/job/v%020d", p->l2, 1);
	assert_int_not_equal(stat(path, &st), 0);
	assert_ok(k, kedge_close(k));
}

/* What L2 has in another form, or not at all, is not referred to there: nothing is copied ahead of the decision. */
static void test_deltas_are_merged(void **state)
{
	const struct place *p = *state;
	kedge_t *k = open_both(p, MORE(BUFFER, "reducer=basic", "coalesce=batch", "l2_every=2"));

	fill_random(m, BYTES, 1);
	for (uint64_t v = 1; v <= 6; v++) {
		fill_random(m + v * BYTES / 8, BYTES / 8, v);
		memcpy(was, m, BYTES);
		assert_ok(k, kedge_checkpoint(k, v));
		assert_ok(k, kedge_wait(k));
		assert_int_equal(levels_of(k, v), v % 2 ? 1 : 3);
		comes_back(k, v);
	}
	assert_ok(k, kedge_close(k));
	tree_remove(p->l1);
	k = open_both(p, MORE(BUFFER));
	comes_back(k, 6);
	assert_ok(k, kedge_close(k));
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    JOB(test_both_at_once),
	    JOB(test_l2_fails),
	    JOB(test_l1_fails),
	    JOB(test_deltas_are_merged),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
