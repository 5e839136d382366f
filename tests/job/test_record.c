/* SPDX-License-Identifier: BSD-3-Clause */
/* What a process remembers of the versions of earlier ones: by the record file, or by looking into the store. */
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
	literal_bytes_are(k, literals);
	assert_ok(k, kedge_close(k));
}

static void record_path(const struct place *p, char *out, size_t room)
{
	text_make(out, room, "%s/job/record-r0000000", p->l1);
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
static void a_b_a_b(const struct place *p, const char *const *more, bool restart,
		    void (*between)(const struct place *p))
{
	process(p, more, false, 1, 1, BYTES);
	between(p);
	process(p, more, restart, 2, 2, BYTES);
	between(p);
	process(p, more, restart, 3, 1, 0);
	between(p);
	process(p, more, restart, 4, 2, 0);
	all_come_back(p);
	tree_remove(p->l1);
}

static void nothing(const struct place *p)
{
	char path[500];

	record_path(p, path, sizeof(path));
	assert_int_equal(access(path, F_OK), 0);
}

static void removed(const struct place *p)
{
	char path[500];

	record_path(p, path, sizeof(path));
	assert_int_equal(unlink(path), 0);
}

static void damaged(const struct place *p)
{
	char path[500];

	record_path(p, path, sizeof(path));
	file_flip(path, 100, 0x40);
}

static void cut(const struct place *p)
{
	char path[500];

	record_path(p, path, sizeof(path));
	file_cut(path, 1000);
}

static void test_a_b_a_b(void **state)
{
	const char *const *tree = MORE("reducer=tree", "chunk=256"), *const *list = MORE("reducer=list", "chunk=256");
	void (*const between[])(const struct place *p) = {nothing, removed, damaged, cut};

	for (size_t i = 0; i < KEDGE__COUNT(between); i++) {
		a_b_a_b(*state, tree, false, between[i]);
		a_b_a_b(*state, tree, true, between[i]);
	}
	a_b_a_b(*state, list, true, nothing);
	a_b_a_b(*state, list, false, removed);
}

static void no_file(const struct place *p)
{
	char path[500];

	record_path(p, path, sizeof(path));
	assert_int_not_equal(access(path, F_OK), 0);
}

static void test_without_record_file(void **state)
{
	a_b_a_b(*state, MORE("reducer=tree", "chunk=256", "record_file=no"), true, no_file);
}

/* A record that was made with another chunk size is of no use, and does no harm. */
static void test_other_options(void **state)
{
	const struct place *p = *state;

	process(p, MORE("reducer=tree", "chunk=256"), false, 1, 1, BYTES);
	process(p, MORE("reducer=tree", "chunk=128"), false, 2, 2, BYTES);
	process(p, MORE("reducer=list", "chunk=128"), false, 3, 1, 0);
	process(p, MORE("reducer=basic", "chunk=64"), true, 4, 2, BYTES);
	all_come_back(p);
}

/* The store was changed behind the record's back: the version it speaks of is another one now. */
static void test_record_of_a_replaced_version(void **state)
{
	const struct place *p = *state;
	const char *const *more = MORE("reducer=tree", "chunk=256");
	char path[500], kept[500];

	process(p, more, false, 1, 7, BYTES);
	record_path(p, path, sizeof(path));
	text_make(kept, sizeof(kept), "%s/kept", p->dir);
	assert_int_equal(rename(path, kept), 0);
	process(p, more, true, 1, 1, BYTES);
	assert_int_equal(rename(kept, path), 0);
	process(p, more, false, 2, 2, BYTES);
	process(p, more, false, 3, 1, 0);
	process(p, more, false, 4, 2, 0);
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

/* A record names bytes of every version, not only of the last one: one that was replaced makes it a stale one. */
static void test_record_of_older_versions_that_were_replaced(void **state)
{
	struct place *p = *state;
	const char *const *more = MORE("reducer=tree", "chunk=256");
	char path[500], kept[500];

	for (int restart = 0; restart < 2; restart++) {
		process(p, more, false, 1, 1, BYTES);
		process(p, more, false, 2, 2, BYTES);
		record_path(p, path, sizeof(path));
		text_make(kept, sizeof(kept), "%s/kept", p->dir);
		assert_int_equal(rename(path, kept), 0);
		replace_first(p, more);
		assert_int_equal(rename(kept, path), 0);
		kedge_set_log(place_log, p);
		process(p, more, restart, 3, 1, BYTES); /* the bytes of seed 1 are nowhere any more */
		kedge_set_log(NULL, NULL);
		assert_non_null(strstr(p->log, "versions were replaced"));
		comes_back(p, 1, 9);
		comes_back(p, 2, 2);
		comes_back(p, 3, 1);
		tree_remove(p->l1);
		p->log[0] = 0;
	}
}

/* Versions that are gone are forgotten, what is known of the others still holds. */
static void test_record_of_versions_that_are_gone(void **state)
{
	struct place *p = *state;
	const char *const *more = MORE("reducer=tree", "chunk=256", "rebuild=0");
	char path[500];

	process(p, more, false, 1, 1, BYTES);
	process(p, more, false, 2, 2, BYTES);
	process(p, more, false, 3, 3, BYTES);
	manifest_path(p->l1, 1, path, sizeof(path));
	assert_int_equal(unlink(path), 0);
	process(p, more, false, 4, 2, 0); /* found by the record alone: nothing may be read for it */
	process(p, more, false, 5, 1, BYTES);
	comes_back(p, 3, 3);
	comes_back(p, 4, 2);
	comes_back(p, 5, 1);
}

/* A process that dies leaves no record behind: that of the process before it knows too little. */
static void test_no_record_after_a_crash(void **state)
{
	const struct place *p = *state;
	const char *const *more = MORE("reducer=tree", "chunk=256");
	pid_t pid;
	int status;

	process(p, more, false, 1, 1, BYTES);
	nothing(p);
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
	no_file(p);
	process(p, more, false, 3, 1, 0);
	process(p, more, false, 4, 2, 0);
	all_come_back(p);
}

/* The same bytes under another name, of another rank, of another store: another record. */
static void test_record_is_tied(void **state)
{
	const struct place *p = *state;
	struct kedge__reducer_options options = {.id = KEDGE__REDUCER_TREE, .chunk = 256, .record_bytes = 1 << 20};
	struct kedge__record_tie tie = {.name = {1, 2}, .last = {7, {3, 4}}, .ranks = 2}, other;
	struct kedge__image_region region = {0, m, BYTES};
	struct kedge__image image = {&region, 1};
	struct kedge__reducer *r;
	char path[500];

	text_make(path, sizeof(path), "%s/record", p->dir);
	fill_random(m, BYTES, 1);
	assert_int_equal(kedge__reducer_new(&options, &r, NULL), 0);
	assert_int_equal(kedge__reducer_prime_view(r, NULL, 7, &image, NULL, NULL, NULL), 0);
	kedge__reducer_identify(r, tie.last);
	assert_int_equal(kedge__record_file_save(path, &tie, r, NULL), 0);
	assert_int_equal(kedge__record_file_load(path, &tie, r, NULL), 0);
	for (int i = 0; i < 6; i++) {
		other = tie;
		other.name.hi += i == 0;
		other.last.version += i == 1;
		other.last.id.lo += i == 2;
		other.rank += i == 3;
		other.ranks += i == 4;
		other.store.at[0] ^= i == 5;
		assert_int_equal(kedge__record_file_load(path, &other, r, NULL), KEDGE_E_NOTFOUND);
	}
	kedge__reducer_identify(r, (struct kedge__image_key){7, {9, 9}}); /* inside it speaks of another image */
	assert_int_equal(kedge__record_file_save(path, &tie, r, NULL), 0);
	assert_int_equal(kedge__record_file_load(path, &tie, r, NULL), KEDGE_E_DAMAGED);
	kedge__reducer_free(r);
}

/* A record that is large beside what is stored is not kept: the store says the same. */
static void test_large_record_is_not_kept(void **state)
{
	a_b_a_b(*state, MORE("reducer=tree", "chunk=32"), true, no_file);
}

/* ---- no record, and little memory */

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
	    MORE("reducer=tree", "chunk=4096", "record_file=no", "buffer=16k", "block=16k", "codec=none");

	little_memory(*state, tree, "room@8000000", true);
	little_memory(*state, tree, "room@2200000", false);
	if (SANITIZED)
		return;
	little_memory(*state, tree, "room@1800000", false);
	little_memory(*state, MORE("reducer=rex", "record_file=no", "buffer=16k", "block=16k", "codec=none"),
		      "room@2200000", false);
}

/* Whichever allocation fails while the store is read, the version is stored, or the next one is. */
static void test_every_allocation_of_priming(void **state)
{
	struct place *p = *state;
	const char *const *more = MORE("reducer=tree", "chunk=1024", "record_file=no", "threads=1");
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
	const char *const *more = MORE("reducer=tree", "chunk=256", "record_file=no", "rebuild=0");

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
	    cmocka_unit_test_setup_teardown(test_without_record_file, place_setup, place_teardown),
	    cmocka_unit_test_setup_teardown(test_other_options, place_setup, place_teardown),
	    cmocka_unit_test_setup_teardown(test_record_of_a_replaced_version, place_setup, place_teardown),
	    JOB(test_record_of_older_versions_that_were_replaced),
	    JOB(test_record_of_versions_that_are_gone),
	    JOB(test_no_record_after_a_crash),
	    JOB(test_record_is_tied),
	    JOB(test_large_record_is_not_kept),
	    JOB(test_little_memory_after_a_crash),
	    JOB(test_every_allocation_of_priming),
	    cmocka_unit_test_setup_teardown(test_rebuild_limit, place_setup, place_teardown),
	    cmocka_unit_test_setup_teardown(test_paranoid, place_setup, place_teardown),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
