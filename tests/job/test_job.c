/* SPDX-License-Identifier: BSD-3-Clause */
/* One process: protect, checkpoint, restart. */
#include "support.h"

#define BYTES 100003 /* an odd tail */

static const char *const reducers[] = {"reducer=full", "reducer=basic", "reducer=list", "reducer=tree", "reducer=auto"};
static const char *const captures[] = {"capture=sync", "capture=copy"};

/* VERSION's bytes: a few runs differ from version to version. */
static void state_make(uint8_t *m, uint64_t version)
{
	fill_random(m, BYTES, 1);
	for (uint64_t v = 1; v <= version; v++)
		fill_random(m + v * 7919 % (BYTES - 2000), 2000, v + 100);
}

static void series(const struct place *p, const char *reducer, const char *capture, const char *chunk)
{
	kedge_t *k = job_open(p, false, MORE(reducer, capture, chunk));
	static uint8_t m[BYTES], want[BYTES];
	uint64_t version;

	assert_ok(k, kedge_protect(k, "state", m, BYTES, KEDGE_U8));
	for (uint64_t v = 0; v < 6; v++) {
		state_make(m, v);
		assert_ok(k, kedge_checkpoint(k, v));
		memset(m, (int)v, BYTES); /* the application may write at once */
	}
	assert_ok(k, kedge_close(k));

	k = job_open(p, false, MORE(reducer, capture, chunk));
	assert_ok(k, kedge_protect(k, "state", m, BYTES, KEDGE_U8));
	assert_int_equal(versions_count(k), 6);
	for (uint64_t v = 6; v-- > 0;) {
		assert_ok(k, kedge_restart(k, v, &version));
		state_make(want, v);
		assert_int_equal(version, v);
		assert_memory_equal(m, want, BYTES);
	}
	assert_ok(k, kedge_restart(k, KEDGE_NEWEST, &version));
	assert_int_equal(version, 5);
	assert_ok(k, kedge_close(k));
	tree_remove(p->l1);
}

static void test_series(void **state)
{
	for (size_t r = 0; r < KEDGE__COUNT(reducers); r++) {
		for (size_t c = 0; c < KEDGE__COUNT(captures); c++) {
			series(*state, reducers[r], captures[c], "chunk=64");
			series(*state, reducers[r], captures[c], "chunk=4096");
		}
	}
}

/* Reduction does reduce: an unchanged version costs next to nothing, and stats tell. */
static void test_stats(void **state)
{
	kedge_t *k = job_open(*state, false, MORE("reducer=tree", "chunk=64"));
	static uint8_t m[BYTES];
	struct kedge_stats s;

	assert_int_equal(kedge_stats_get(k, &s), KEDGE_E_NOTFOUND);
	state_make(m, 0);
	assert_ok(k, kedge_protect(k, "state", m, BYTES, KEDGE_U8));
	assert_ok(k, kedge_checkpoint(k, 1));
	assert_ok(k, kedge_stats_get(k, &s));
	assert_int_equal(s.version, 1);
	assert_int_equal(s.raw_bytes, BYTES);
	assert_int_equal(s.literal_bytes, BYTES);
	assert_true(s.stored_bytes > BYTES);
	assert_true(s.blocked_seconds > 0);
	assert_string_equal(s.reducer, "tree");
	assert_ok(k, kedge_checkpoint(k, 2));
	assert_ok(k, kedge_stats_get(k, &s));
	assert_int_equal(s.literal_bytes, 0);
	assert_true(s.stored_bytes < 4096);
	assert_ok(k, kedge_close(k));
}

static void test_regions_move_grow_come_and_go(void **state)
{
	const struct place *p = *state;
	kedge_t *k = job_open(p, false, MORE("reducer=tree", "chunk=64"));
	uint8_t *a = malloc(5000), *b = malloc(9000), *c = malloc(777), *was = malloc(9000);
	struct kedge_region_info info;
	uint64_t version;
	const size_t dims[2] = {3, 259};

	fill_random(a, 5000, 1);
	fill_random(c, 777, 3);
	assert_ok(k, kedge_protect(k, "a", a, 5000, KEDGE_U8));
	assert_ok(k, kedge_protect_array(k, "c", c, KEDGE_U8, 2, dims));
	assert_ok(k, kedge_protect(k, "nothing", NULL, 0, KEDGE_F64));
	assert_ok(k, kedge_checkpoint(k, 1));
	memcpy(b, a, 5000); /* moved and grown */
	fill_random(b + 5000, 4000, 2);
	memcpy(was, b, 9000);
	assert_ok(k, kedge_protect(k, "a", b, 9000, KEDGE_U8));
	assert_ok(k, kedge_unprotect(k, "c"));
	assert_ok(k, kedge_checkpoint(k, 2));
	assert_ok(k, kedge_protect(k, "a", b, 1, KEDGE_U8));   /* shrunk */
	assert_ok(k, kedge_protect(k, "c", c, 777, KEDGE_U8)); /* back */
	assert_ok(k, kedge_checkpoint(k, 3));

	assert_ok(k, kedge_region_stat(k, 1, "c", &info));
	assert_int_equal(info.bytes, 777);
	assert_int_equal(info.ndims, 2);
	assert_int_equal(info.dims[1], 259);
	assert_int_equal(info.type, KEDGE_U8);
	assert_ok(k, kedge_region_stat(k, 1, "nothing", &info));
	assert_int_equal(info.bytes, 0);
	assert_ok(k, kedge_region_stat(k, KEDGE_NEWEST, "a", &info));
	assert_int_equal(info.bytes, 1);
	assert_int_equal(kedge_region_stat(k, 2, "c", &info), KEDGE_E_NOTFOUND);
	assert_int_equal(kedge_region_stat(k, 9, "c", &info), KEDGE_E_VERSION);

	assert_ok(k, kedge_protect(k, "a", b, 9000, KEDGE_U8));
	assert_int_equal(kedge_restart(k, 2, &version), KEDGE_E_MISMATCH); /* c is not in it */
	assert_non_null(strstr(kedge_last_error(k), "\"c\""));
	assert_ok(k, kedge_unprotect(k, "c"));
	assert_ok(k, kedge_protect(k, "a", b, 1, KEDGE_U8));
	memset(b, 0, 9000);
	assert_int_equal(kedge_restart(k, 2, &version), KEDGE_E_MISMATCH); /* 1 against 9000 bytes */
	assert_non_null(strstr(kedge_last_error(k), "9000"));
	assert_int_equal(b[0], 0); /* no memory was changed */
	assert_ok(k, kedge_protect(k, "a", b, 9000, KEDGE_U8));
	assert_ok(k, kedge_restart(k, 2, &version));
	assert_memory_equal(b, was, 9000);
	assert_ok(k, kedge_protect(k, "a", a, 5000, KEDGE_U8)); /* version 1 has c, which is not protected: fine */
	memset(a, 0, 5000);
	assert_ok(k, kedge_restart(k, 1, &version));
	assert_memory_equal(a, was, 5000);
	assert_ok(k, kedge_close(k));
	free(a);
	free(b);
	free(c);
	free(was);
}

/* A name that a process does not protect, and the next one does again, gets the right bytes from every version. */
static void test_names_come_back_after_a_restart_of_the_process(void **state)
{
	const struct place *p = *state;
	uint8_t a[1000], b[1000], want[1000];
	kedge_t *k = job_open(p, false, MORE("reducer=tree", "chunk=32"));

	fill_random(a, 1000, 1);
	fill_random(b, 1000, 2);
	assert_ok(k, kedge_protect(k, "a", a, 1000, KEDGE_U8));
	assert_ok(k, kedge_protect(k, "b", b, 1000, KEDGE_U8));
	assert_ok(k, kedge_checkpoint(k, 1));
	assert_ok(k, kedge_unprotect(k, "a"));
	assert_ok(k, kedge_checkpoint(k, 2));
	assert_ok(k, kedge_close(k));
	k = job_open(p, false, MORE("reducer=tree", "chunk=32"));
	assert_ok(k, kedge_protect(k, "c", b, 1000, KEDGE_U8));
	assert_ok(k, kedge_protect(k, "a", a, 1000, KEDGE_U8));
	assert_ok(k, kedge_checkpoint(k, 3));
	memset(a, 0, 1000);
	assert_ok(k, kedge_unprotect(k, "c"));
	assert_ok(k, kedge_restart(k, 1, NULL));
	fill_random(want, 1000, 1);
	assert_memory_equal(a, want, 1000);
	assert_ok(k, kedge_checkpoint(k, 2)); /* 2 and 3 were abandoned */
	assert_int_equal(versions_count(k), 2);
	memset(a, 0, 1000);
	assert_ok(k, kedge_restart(k, KEDGE_NEWEST, NULL));
	assert_memory_equal(a, want, 1000);
	assert_ok(k, kedge_close(k));
}

static void test_many_regions(void **state)
{
	enum { COUNT = 10000 };
	kedge_t *k = job_open(*state, false, MORE("reducer=tree", "chunk=32"));
	uint32_t *m = malloc(COUNT * 4 * sizeof(uint32_t));
	char name[32];

	for (uint32_t i = 0; i < COUNT; i++) {
		snprintf(name, sizeof(name), "r%u", i);
		for (uint32_t j = 0; j < 4; j++)
			m[4 * i + j] = i * 16 + j;
		assert_ok(k, kedge_protect(k, name, &m[4 * i], i % 5, KEDGE_U32));
	}
	assert_ok(k, kedge_checkpoint(k, 0));
	m[4 * 7777 + 1] = 1;
	assert_ok(k, kedge_checkpoint(k, 1));
	memset(m, 0xff, COUNT * 4 * sizeof(uint32_t));
	assert_ok(k, kedge_restart(k, KEDGE_NEWEST, NULL));
	for (uint32_t i = 0; i < COUNT; i++) {
		for (uint32_t j = 0; j < 4; j++)
			assert_int_equal(m[4 * i + j], j >= i % 5 ? UINT32_MAX : i == 7777 && j == 1 ? 1 : i * 16 + j);
	}
	assert_ok(k, kedge_close(k));
	free(m);
}

static void test_nothing_protected_and_nothing_stored(void **state)
{
	kedge_t *k = job_open(*state, false, NULL);
	uint64_t version = 77;

	assert_int_equal(kedge_restart(k, KEDGE_NEWEST, &version), KEDGE_E_NOTFOUND);
	assert_int_equal(kedge_restart(k, 3, &version), KEDGE_E_VERSION);
	assert_int_equal(version, 77);
	assert_ok(k, kedge_checkpoint(k, 3));
	assert_ok(k, kedge_restart(k, 3, &version));
	assert_int_equal(version, 3);
	assert_ok(k, kedge_close(k));
}

/* The library counts, where the program does not care. */
static void test_next_number(void **state)
{
	kedge_t *k = job_open(*state, false, NULL);
	struct kedge_version_info *list;
	struct kedge_stats stats;
	size_t n;

	assert_ok(k, kedge_version_note(k, "the first"));
	assert_ok(k, kedge_checkpoint(k, KEDGE_NEXT));
	assert_ok(k, kedge_checkpoint(k, 40));
	assert_ok(k, kedge_checkpoint(k, KEDGE_NEXT));
	assert_ok(k, kedge_stats_get(k, &stats));
	assert_int_equal(stats.version, 41);
	assert_ok(k, kedge_close(k));
	/* After a restart it follows that, and without one all that is stored. */
	k = job_open(*state, false, NULL);
	assert_ok(k, kedge_restart(k, 1, NULL));
	assert_ok(k, kedge_checkpoint(k, KEDGE_NEXT));
	assert_ok(k, kedge_close(k));
	k = job_open(*state, false, NULL);
	assert_ok(k, kedge_checkpoint(k, KEDGE_NEXT));
	assert_ok(k, kedge_versions(k, &list, &n));
	assert_int_equal(n, 3);
	assert_int_equal(list[1].version, 2);
	assert_int_equal(list[2].version, 3);
	kedge_free(list);
	assert_ok(k, kedge_discard(k, 2, KEDGE_LEVEL_1));
	assert_ok(k, kedge_checkpoint(k, KEDGE_NEXT));
	assert_ok(k, kedge_stats_get(k, &stats));
	assert_int_equal(stats.version, 2);
	assert_ok(k, kedge_close(k));
}

/* While the version is on its way, too. */
static void test_next_number_in_background(void **state)
{
	static uint8_t m[1 << 20];
	kedge_t *k = job_open(*state, false, MORE("capture=copy"));
	struct kedge_stats stats;

	assert_ok(k, kedge_protect(k, "m", m, sizeof(m), KEDGE_U8));
	for (uint64_t v = 1; v <= 5; v++) {
		m[v]++;
		assert_ok(k, kedge_checkpoint(k, KEDGE_NEXT));
		assert_ok(k, kedge_stats_get(k, &stats));
		assert_int_equal(stats.version, v);
		assert_int_equal(stats.raw_bytes, sizeof(m));
	}
	assert_ok(k, kedge_wait(k));
	assert_ok(k, kedge_stats_get(k, &stats));
	assert_int_equal(stats.version, 5);
	assert_true(stats.stored_bytes > 0);
	assert_ok(k, kedge_close(k));
}

static void test_wrong_arguments(void **state)
{
	kedge_t *k = job_open(*state, false, NULL);
	uint8_t m[64] = {1}, a[64], b[64];
	const struct kedge_target twice[] = {{"m", a, sizeof(a)}, {"m", b, sizeof(b)}};

	assert_ok(k, kedge_protect(k, "m", m, sizeof(m), KEDGE_U8));
	assert_ok(k, kedge_checkpoint(k, 1));
	assert_int_equal(kedge_read(k, 1, twice, 2), KEDGE_E_ARG);
	assert_non_null(strstr(kedge_last_error(k), "\"m\" is asked for twice"));
	assert_int_equal(kedge_discard(k, 0, 8 | KEDGE_LEVEL_1), KEDGE_E_ARG);
	assert_int_equal(kedge_discard(k, 0, 4), KEDGE_E_ARG);
	assert_ok(k, kedge_read(k, 1, twice, 1));
	assert_memory_equal(a, m, sizeof(m));
	assert_ok(k, kedge_close(k));
}

/* Errors of the calls that describe what to save stay until somebody asks. */
static void test_check_once(void **state)
{
	kedge_t *k = job_open(*state, false, NULL);
	char m[8] = {0}, path[8];

	assert_ok(k, kedge_check(k));
	for (int i = 0; i < 5; i++)
		(void)kedge_protect(k, i == 2 ? "" : i == 3 ? NULL : "m", m, sizeof(m), KEDGE_U8);
	(void)kedge_unprotect(k, "nothing");
	(void)kedge_file_route(k, "long", path, sizeof(path));
	assert_int_equal(kedge_check(k), KEDGE_E_ARG);
	assert_non_null(strstr(kedge_last_error(k), "name"));
	assert_ok(k, kedge_check(k));
	(void)kedge_version_note(k, "two\nlines");
	assert_int_equal(kedge_check(k), KEDGE_E_ARG);
	assert_non_null(strstr(kedge_last_error(k), "one line of text"));
	assert_int_equal(kedge_check(NULL), KEDGE_E_ARG);
	assert_ok(k, kedge_close(k));
}

static void test_replaced_and_abandoned(void **state)
{
	kedge_t *k = job_open(*state, false, MORE("reducer=tree", "chunk=32"));
	uint8_t m[4000];
	uint64_t version;

	assert_ok(k, kedge_protect(k, "m", m, sizeof(m), KEDGE_U8));
	for (uint64_t v = 10; v <= 50; v += 10) {
		fill_random(m, sizeof(m), v);
		assert_ok(k, kedge_checkpoint(k, v));
	}
	/* A number alone discards nothing. */
	assert_int_equal(kedge_checkpoint(k, 30), KEDGE_E_STATE);
	assert_int_equal(versions_count(k), 5);
	assert_ok(k, kedge_restart(k, 30, NULL));
	fill_random(m, sizeof(m), 99);
	assert_int_equal(kedge_checkpoint(k, 29), KEDGE_E_STATE);
	assert_int_equal(versions_count(k), 5);
	assert_ok(k, kedge_checkpoint(k, 30)); /* replaces 30; 40 and 50 go */
	assert_int_equal(versions_count(k), 3);
	assert_int_equal(kedge_test(k, 40), KEDGE_E_NOTFOUND);
	memset(m, 0, sizeof(m));
	assert_ok(k, kedge_restart(k, KEDGE_NEWEST, &version));
	assert_int_equal(version, 30);
	uint8_t want[4000];
	fill_random(want, sizeof(want), 99);
	assert_memory_equal(m, want, sizeof(m));
	/* Restarted from 10: 20 and 30 are another future, although the next version is above them. */
	assert_ok(k, kedge_restart(k, 10, &version));
	assert_int_equal(versions_count(k), 3);
	assert_ok(k, kedge_checkpoint(k, 35));
	assert_int_equal(versions_count(k), 2);
	fill_random(want, sizeof(want), 10);
	assert_ok(k, kedge_restart(k, 35, &version));
	assert_memory_equal(m, want, sizeof(m));
	assert_ok(k, kedge_close(k));
}

/* Everything an earlier process may leave for the next one: a version that is replaced by the first checkpoint. */
static void test_replace_after_reopening(void **state)
{
	uint8_t m[4000], want[4000];

	for (int round = 0; round < 3; round++) {
		kedge_t *k = job_open(*state, false, MORE("reducer=list", "chunk=32"));

		assert_ok(k, kedge_protect(k, "m", m, sizeof(m), KEDGE_U8));
		if (round)
			assert_ok(k, kedge_restart(k, 1, NULL));
		for (uint64_t v = 1; v < 4; v++) {
			fill_random(m, sizeof(m), v + (uint64_t)round);
			assert_ok(k, kedge_checkpoint(k, v));
		}
		assert_int_equal(versions_count(k), 3);
		for (uint64_t v = 1; v < 4; v++) {
			fill_random(want, sizeof(m), v + (uint64_t)round);
			assert_ok(k, kedge_restart(k, v, NULL));
			assert_memory_equal(m, want, sizeof(m));
		}
		assert_ok(k, kedge_close(k));
	}
}

static void test_versions_tell(void **state)
{
	kedge_t *k = job_open(*state, false, MORE("reducer=basic", "chunk=64"));
	uint8_t m[6400];
	struct kedge_version_info *list;
	size_t n;

	fill_random(m, sizeof(m), 1);
	assert_ok(k, kedge_protect(k, "m", m, sizeof(m), KEDGE_U8));
	assert_ok(k, kedge_checkpoint(k, 5));
	m[100] ^= 1;
	assert_ok(k, kedge_checkpoint(k, 8));
	assert_ok(k, kedge_versions(k, &list, &n));
	assert_int_equal(n, 2);
	assert_int_equal(list[0].version, 5);
	assert_true(list[0].parent == KEDGE_NEWEST);
	assert_int_equal(list[1].parent, 5);
	assert_int_equal(list[1].levels, 1);
	assert_int_equal(list[1].ranks, 1);
	assert_int_equal(list[1].raw_bytes, sizeof(m));
	assert_int_equal(list[1].literal_bytes, 64);
	assert_string_equal(list[1].reducer, "basic");
	kedge_free(list);
	assert_ok(k, kedge_close(k));
}

struct seen {
	int hash, write, read;
	uint64_t last;
};

static void see(void *user, const struct kedge_progress *p)
{
	struct seen *s = user;

	s->hash += strcmp(p->phase, "hash") == 0;
	s->write += strcmp(p->phase, "write") == 0;
	s->read += strcmp(p->phase, "read") == 0;
	assert_true(p->done_bytes <= p->total_bytes);
	s->last = p->version;
}

static void test_progress(void **state)
{
	kedge_t *k = job_open(*state, false, MORE("reducer=tree"));
	static uint8_t m[BYTES];
	struct seen s = {0};

	state_make(m, 1);
	kedge_set_progress(k, see, &s);
	assert_ok(k, kedge_protect(k, "m", m, BYTES, KEDGE_U8));
	assert_ok(k, kedge_checkpoint(k, 4));
	assert_true(s.hash > 0 && s.write > 0);
	assert_int_equal(s.last, 4);
	assert_ok(k, kedge_restart(k, 4, NULL));
	assert_true(s.read > 0);
	kedge_set_progress(k, NULL, NULL);
	s = (struct seen){0};
	assert_ok(k, kedge_checkpoint(k, 5));
	assert_int_equal(s.hash, 0);
	assert_ok(k, kedge_close(k));
}

static void test_bad_arguments(void **state)
{
	struct options o;
	kedge_t *k = NULL;

	assert_int_equal(kedge_open("bad/name", NULL, options_make(&o, *state, false, NULL), &k), KEDGE_E_ARG);
	assert_null(k);
	assert_int_equal(kedge_open(NULL, NULL, NULL, &k), KEDGE_E_ARG);
	assert_int_equal(kedge_open("job", NULL, options_make(&o, *state, false, MORE("chunk=33")), &k),
			 KEDGE_E_CONFIG);
	assert_non_null(strstr(kedge_last_error(NULL), "chunk"));
	assert_int_equal(kedge_checkpoint(NULL, 1), KEDGE_E_ARG);
	assert_int_equal(kedge_close(NULL), 0);
	k = job_open(*state, false, NULL);
	assert_int_equal(kedge_checkpoint(k, KEDGE_NEWEST), KEDGE_E_ARG);
	assert_int_equal(kedge_checkpoint(k, KEDGE_VERSION_LIMIT), KEDGE_E_ARG);
	assert_int_equal(kedge_protect(k, "", NULL, 0, KEDGE_U8), KEDGE_E_ARG);
	assert_int_equal(kedge_unprotect(k, "x"), KEDGE_E_NOTFOUND);
	assert_non_null(strstr(kedge_last_error(k), "\"x\""));
	assert_string_equal(kedge_last_error(NULL), "no error");
	assert_int_equal(kedge_test(k, 1), KEDGE_E_NOTFOUND);
	assert_ok(k, kedge_close(k));
}

/* A handle that was not initialised is NULL after a failure, whatever it was. */
static void test_no_handle_without_success(void **state)
{
	const struct kedge_group broken = {.rank = 3, .size = 2};
	struct options o;
	const char *const *settings = options_make(&o, *state, false, NULL);
	kedge_t *const garbage = (kedge_t *)&o, *held, *k;

	k = garbage;
	assert_int_equal(kedge_open(NULL, NULL, settings, &k), KEDGE_E_ARG);
	assert_null(k);
	k = garbage;
	assert_int_equal(kedge_open("bad/name", NULL, settings, &k), KEDGE_E_ARG);
	assert_null(k);
	k = garbage;
	assert_int_equal(kedge_open("job", NULL, MORE("chunk=33"), &k), KEDGE_E_CONFIG);
	assert_null(k);
	k = garbage;
	assert_int_equal(kedge_open_group("job", NULL, settings, &broken, &k), KEDGE_E_ARG);
	assert_null(k);
	held = job_open(*state, false, NULL);
	k = garbage;
	assert_int_equal(kedge_open("job", NULL, settings, &k), KEDGE_E_LOCKED);
	assert_null(k);
	assert_ok(held, kedge_close(held));
	assert_int_equal(kedge_open("job", NULL, settings, NULL), KEDGE_E_ARG);
}

static void test_second_opener_is_refused(void **state)
{
	struct options o;
	kedge_t *k = job_open(*state, true, NULL), *second = NULL;

	assert_int_equal(kedge_open("job", NULL, options_make(&o, *state, true, NULL), &second), KEDGE_E_LOCKED);
	assert_non_null(strstr(kedge_last_error(NULL), "in use by"));
	assert_int_equal(kedge_open("other", NULL, options_make(&o, *state, true, NULL), &second), 0);
	assert_ok(k, kedge_close(second));
	assert_ok(k, kedge_close(k));
	k = job_open(*state, true, NULL);
	assert_ok(k, kedge_close(k));
}

static void test_nothing_is_left_behind(void **state)
{
	size_t fds = fds_open(), threads = threads_alive();

	for (int i = 0; i < 3; i++) {
		kedge_t *k = job_open(*state, true, MORE("capture=copy", "keep=2", "threads=3"));
		uint8_t m[10000];

		assert_true(threads_alive() > threads || threads == 0);
		fill_random(m, sizeof(m), (uint64_t)i);
		assert_ok(k, kedge_protect(k, "m", m, sizeof(m), KEDGE_U8));
		for (uint64_t v = 0; v < 4; v++)
			assert_ok(k, kedge_checkpoint(k, 10 * (uint64_t)i + v));
		assert_ok(k, kedge_restart(k, KEDGE_NEWEST, NULL));
		assert_ok(k, kedge_close(k));
		assert_int_equal(fds_open(), fds);
		assert_int_equal(threads_left(threads), threads);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(test_series, place_setup, place_teardown),
	    cmocka_unit_test_setup_teardown(test_stats, place_setup, place_teardown),
	    cmocka_unit_test_setup_teardown(test_regions_move_grow_come_and_go, place_setup, place_teardown),
	    cmocka_unit_test_setup_teardown(test_names_come_back_after_a_restart_of_the_process, place_setup,
					    place_teardown),
	    cmocka_unit_test_setup_teardown(test_many_regions, place_setup, place_teardown),
	    cmocka_unit_test_setup_teardown(test_nothing_protected_and_nothing_stored, place_setup, place_teardown),
	    cmocka_unit_test_setup_teardown(test_next_number, place_setup, place_teardown),
	    cmocka_unit_test_setup_teardown(test_wrong_arguments, place_setup, place_teardown),
	    cmocka_unit_test_setup_teardown(test_next_number_in_background, place_setup, place_teardown),
	    cmocka_unit_test_setup_teardown(test_check_once, place_setup, place_teardown),
	    cmocka_unit_test_setup_teardown(test_replaced_and_abandoned, place_setup, place_teardown),
	    cmocka_unit_test_setup_teardown(test_replace_after_reopening, place_setup, place_teardown),
	    cmocka_unit_test_setup_teardown(test_versions_tell, place_setup, place_teardown),
	    cmocka_unit_test_setup_teardown(test_progress, place_setup, place_teardown),
	    cmocka_unit_test_setup_teardown(test_bad_arguments, place_setup, place_teardown),
	    cmocka_unit_test_setup_teardown(test_no_handle_without_success, place_setup, place_teardown),
	    cmocka_unit_test_setup_teardown(test_second_opener_is_refused, place_setup, place_teardown),
	    cmocka_unit_test_setup_teardown(test_nothing_is_left_behind, place_setup, place_teardown),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
