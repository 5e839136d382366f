/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory, and files, that change while they are saved. The version then fails and says what changed, or it is an image
 * that can be had back; and in no case does it harm those that follow.
 */
#include "job/job.h"
#include "support.h"

#include <pthread.h>
#include <stdatomic.h>

#define SLAB     ((size_t)256 << 10) /* progress is reported after each */
#define BYTES    (5 * SLAB + 1234)
#define VERSIONS 40
#define PAGE     ((size_t)4096)

#if defined(__SANITIZE_THREAD__)
#define RACES_ALLOWED 0 /* where the race itself is the test, it would be reported */
#else
#define RACES_ALLOWED 1
#endif

static uint8_t m[BYTES], before[BYTES], got[BYTES];

struct run {
	kedge_t *k;
	uint8_t *kept[VERSIONS]; /* what still versions must be; NULL: it was not still, or failed */
	bool taken[VERSIONS];
	uint64_t next;
	/* When to write: at the AT-th report of PHASE. */
	const char *phase;
	unsigned at, reports;
	bool writes_all; /* not only some places */
	uint64_t seed;
	const char *path; /* a file that is cut short instead */
	size_t cut;
};

/* Some bytes of every other page, or all of them. */
static void scribble(struct run *r)
{
	r->seed++;
	for (size_t at = 0; at < BYTES; at += r->writes_all ? 1 : 2 * PAGE)
		m[at] = (uint8_t)(m[at] + 1 + r->seed % 7);
}

static void report(void *user, const struct kedge_progress *p)
{
	struct run *r = user;

	if (!r->phase || strcmp(p->phase, r->phase) != 0 || r->reports++ != r->at)
		return;
	if (r->path)
		file_cut(r->path, r->cut);
	else
		scribble(r);
}

static void run_open(struct run *r, const struct place *p, const char *const *more)
{
	*r = (struct run){.k = job_open(p, false, more)};
	kedge_set_progress(r->k, report, r);
}

/* The version of this number is what it must be. */
static void version_check(struct run *r, uint64_t v)
{
	struct kedge_target target = {.name = "field", .ptr = got, .room = BYTES};

	assert_ok(r->k, kedge_read(r->k, v, &target, 1));
	if (r->kept[v])
		assert_memory_equal(got, r->kept[v], BYTES);
}

static void take_still(struct run *r)
{
	uint64_t v = r->next++;

	assert_true(v < VERSIONS);
	assert_ok(r->k, kedge_checkpoint(r->k, v));
	r->taken[v] = true;
	r->kept[v] = malloc(BYTES);
	assert_non_null(r->kept[v]);
	memcpy(r->kept[v], m, BYTES);
	assert_ok(r->k, kedge_wait(r->k));
	version_check(r, v);
}

/* Each byte is one that was there, and some are new. */
static void race_check(struct run *r, uint64_t v)
{
	version_check(r, v);
	for (size_t i = 0; i < BYTES; i++)
		assert_true(got[i] == before[i] || got[i] == m[i]);
}

/* A version while memory changes at a moment; its result. */
static int take_race(struct run *r, const char *phase, unsigned at)
{
	uint64_t v = r->next++;
	int rc;

	assert_true(v < VERSIONS);
	memcpy(before, m, BYTES);
	r->phase = phase;
	r->at = at;
	r->reports = 0;
	rc = kedge_checkpoint(r->k, v);
	if (rc) {
		assert_int_equal(rc, KEDGE_E_STATE);
		assert_non_null(strstr(kedge_last_error(r->k), "\"field\" changed while it was saved"));
		assert_int_equal(kedge_test(r->k, v), KEDGE_E_STATE);
	} else {
		assert_ok(r->k, kedge_wait(r->k));
		r->taken[v] = true;
		race_check(r, v);
	}
	r->phase = NULL;
	return rc;
}

/* All versions once more, by another process. */
static void run_close(struct run *r, const struct place *p, const char *const *more)
{
	uint64_t restored;
	int rc;

	assert_ok(r->k, kedge_close(r->k));
	r->k = job_open(p, false, more);
	for (uint64_t v = 0; v < r->next; v++) {
		if (r->taken[v])
			version_check(r, v);
		else
			assert_int_equal(kedge_test(r->k, v), KEDGE_E_NOTFOUND);
	}
	assert_ok(r->k, kedge_protect(r->k, "field", m, BYTES, KEDGE_U8));
	rc = kedge_restart(r->k, KEDGE_NEWEST, &restored);
	assert_int_equal(rc, 0);
	assert_memory_equal(m, r->kept[restored], BYTES);
	assert_ok(r->k, kedge_close(r->k));
	for (size_t v = 0; v < VERSIONS; v++)
		free(r->kept[v]);
	tree_remove(p->l1);
}

/* Something for every reducer: noise, a stretch of zeros, repetition, and a few changes. */
static void memory_fill(uint64_t seed)
{
	fill_random(m, BYTES, seed);
	memset(m + SLAB / 2, 0, SLAB);
	memcpy(m + 2 * SLAB, m, SLAB / 4);
}

static void memory_change(uint64_t seed)
{
	for (size_t at = seed % PAGE; at < BYTES; at += 3 * PAGE)
		fill_random(m + at, BYTES - at < 300 ? BYTES - at : 300, seed + at);
}

/* What is written to memory after it was hashed, before it is stored. */
static void race_series(const struct place *p, const char *reducer, const char *codec, const char *other)
{
	const char *const *more = MORE("capture=sync", "threads=1", "chunk=64", "block=20k", reducer, codec, other);
	unsigned failed = 0;
	struct run r;

	run_open(&r, p, more);
	memory_fill(1);
	assert_ok(r.k, kedge_protect(r.k, "field", m, BYTES, KEDGE_U8));
	take_still(&r);
	for (unsigned at = 0; at < 6; at++) {
		memory_change(at + 2);
		/* Every page that changed is hashed by the last report, and none is stored. */
		failed += take_race(&r, "hash", at) != 0;
		take_still(&r);
	}
	for (unsigned at = 0; at < 3; at++) {
		r.writes_all = at == 1;
		memory_change(at + 20);
		failed += take_race(&r, "write", at) != 0;
		take_still(&r);
		take_still(&r); /* all of it is referred to */
	}
	assert_true(failed >= 2); /* the last of each at least, or nothing was tried */
	run_close(&r, p, more);
}

static const char *const reducers[] = {"reducer=full", "reducer=basic", "reducer=list",
				       "reducer=tree", "reducer=rex",   "reducer=auto"};

static void test_sync(void **state)
{
	for (size_t i = 0; i < KEDGE__COUNT(reducers); i++) {
		if (!SANITIZED || i % 2)
			race_series(*state, reducers[i], "codec=none", "track=none");
		if (!SANITIZED || i % 2 == 0)
			race_series(*state, reducers[i], "codec=zstd", "track=none");
	}
}

static void test_sync_otherwise(void **state)
{
	for (size_t i = 0; i < KEDGE__COUNT(reducers); i++) {
		if (!SANITIZED || i % 3 == 0)
			race_series(*state, reducers[i], "codec=auto", "track=auto");
		if (!SANITIZED || i % 3 == 1)
			race_series(*state, reducers[i], "codec=none", "paranoid=yes");
		if (!SANITIZED || i % 3 == 2)
			race_series(*state, reducers[i], "codec=none", "direct=yes");
	}
}

/* Where auto has found that nothing repeats, it stores everything, and hashes it as it does. */
static void test_dense(void **state)
{
	const char *const *more = MORE("capture=sync", "threads=1", "chunk=64", "reducer=auto", "codec=none");
	struct kedge_stats stats;
	struct run r;

	run_open(&r, *state, more);
	assert_ok(r.k, kedge_protect(r.k, "field", m, BYTES, KEDGE_U8));
	for (uint64_t i = 0; i < 4; i++) {
		fill_random(m, BYTES, i);
		take_still(&r);
	}
	assert_ok(r.k, kedge_stats_get(r.k, &stats));
	assert_string_equal(stats.reducer, "basic");
	fill_random(m, BYTES, 10);
	assert_int_equal(take_race(&r, "hash", 5), KEDGE_E_STATE);
	for (uint64_t i = 0; i < 3; i++) { /* little changes now */
		take_still(&r);
		memory_change(i);
		(void)take_race(&r, "hash", (unsigned)i);
	}
	take_still(&r);
	run_close(&r, *state, more);
}

/* With capture = copy what counts is what was there; with too little memory for that, what was hashed. */
static void test_copy(void **state)
{
	for (size_t i = 0; i < KEDGE__COUNT(reducers); i++) {
		const char *const *more =
		    MORE("capture=copy", "threads=1", "chunk=64", reducers[i], i % 2 ? "copy_memory=1M" : "track=none");
		struct run r;

		run_open(&r, *state, more);
		memory_fill(3);
		assert_ok(r.k, kedge_protect(r.k, "field", m, BYTES, KEDGE_U8));
		take_still(&r);
		for (unsigned at = 0; at < 6; at++) {
			memory_change(at);
			if (take_race(&r, at % 2 ? "hash" : "write", at) == 0 && i % 2 == 0)
				assert_memory_equal(got, before, BYTES);
			else if (i % 2 == 0)
				fail();
			take_still(&r);
		}
		run_close(&r, *state, more);
	}
}

/* ---- a thread that does not stop */

static atomic_bool stop, began;

/* Two values in turn: so some versions find what they hashed, and are taken. Not of the sanitizer's business. */
__attribute__((no_sanitize("thread"))) static void *toggle(void *arg)
{
	volatile uint8_t *at = arg;

	while (!stop) {
		for (size_t i = 0; i < BYTES; i += 37 * PAGE)
			at[i] ^= 0x55;
		began = true;
	}
	return NULL;
}

static void stress(const struct place *p, const char *reducer, const char *codec)
{
	const char *const *more = MORE("capture=sync", "chunk=64", reducer, codec);
	struct run r;

	run_open(&r, p, more);
	memory_fill(5);
	assert_ok(r.k, kedge_protect(r.k, "field", m, BYTES, KEDGE_U8));
	for (unsigned round = 0; round < 10; round++) {
		pthread_t thread;
		uint64_t v = r.next++;
		int rc;

		memory_change(round);
		stop = began = false;
		assert_int_equal(pthread_create(&thread, NULL, toggle, m), 0);
		while (!began)
			sched_yield();
		rc = kedge_checkpoint(r.k, v);
		stop = true;
		pthread_join(thread, NULL);
		assert_true(rc == 0 || rc == KEDGE_E_STATE);
		r.taken[v] = rc == 0;
		if (!rc)
			version_check(&r, v);
		take_still(&r);
	}
	run_close(&r, p, more);
}

static void test_stress(void **state)
{
	if (!RACES_ALLOWED)
		skip();
	for (size_t i = 0; i < KEDGE__COUNT(reducers); i++)
		stress(*state, reducers[i], i % 2 ? "codec=none" : "codec=zstd");
}

/* ---- files */

static void cut_series(const struct place *p, const char *reducer, const char *capture, const char *phase, unsigned at)
{
	const char *const *more = MORE("threads=1", "chunk=64", "codec=none", "copy_memory=16k", reducer, capture);
	char path[600];
	struct run r;

	run_open(&r, p, more);
	assert_ok(r.k, kedge_file_route(r.k, "state.bin", path, sizeof(path)));
	file_fill(path, BYTES, 1);
	assert_ok(r.k, kedge_checkpoint(r.k, 0));
	file_fill(path, BYTES - 5000, 2);
	r.path = path;
	r.cut = 70000; /* behind what was hashed, and before the page where it ends */
	r.phase = phase;
	r.at = at;
	assert_int_equal(kedge_checkpoint(r.k, 1), KEDGE_E_STATE);
	assert_non_null(strstr(kedge_last_error(r.k), "state.bin was cut short while it was saved"));
	r.phase = NULL;
	assert_ok(r.k, kedge_checkpoint(r.k, 2)); /* short as it is */
	file_fill(path, BYTES - 100, 3);
	assert_ok(r.k, kedge_checkpoint(r.k, 3));
	assert_int_equal(kedge_test(r.k, 1), KEDGE_E_STATE);
	assert_ok(r.k, kedge_restart(r.k, 2, NULL));
	file_is(path, 70000, 2);
	assert_ok(r.k, kedge_restart(r.k, 0, NULL));
	file_is(path, BYTES, 1);
	assert_ok(r.k, kedge_restart(r.k, 3, NULL));
	file_is(path, BYTES - 100, 3);
	assert_ok(r.k, kedge_close(r.k));
	tree_remove(p->l1);
}

/* A file that is lent, as 'kedge save' does: elements of a type, and cut short while it is read. */
static void test_lent_file(void **state)
{
	struct place *p = *state;
	char path[400];

	text_make(path, sizeof(path), "%s/input", p->dir);
	for (size_t i = 0; i < KEDGE__COUNT(reducers); i++) {
		struct kedge__file_loan loan = {.region = "a/b", .path = path, .bytes = BYTES & ~(size_t)7, .type = KEDGE_F64};
		struct kedge_region_info info;
		struct run r;

		file_fill(path, BYTES & ~(size_t)7, i);
		loan.fd = open(path, O_RDONLY | O_CLOEXEC);
		assert_true(loan.fd >= 0);
		run_open(&r, p, MORE(reducers[i]));
		assert_ok(r.k, kedge__file_lend(r.k, &loan, NULL));
		assert_ok(r.k, kedge_checkpoint(r.k, 0));
		assert_ok(r.k, kedge_region_stat(r.k, 0, "a/b", &info));
		assert_int_equal(info.type, KEDGE_F64);
		r.phase = "hash";
		r.path = path;
		r.cut = 1000;
		assert_int_equal(kedge_checkpoint(r.k, 1), KEDGE_E_STATE);
		assert_non_null(strstr(kedge_last_error(r.k), "input was cut short while it was saved"));
		assert_ok(r.k, kedge_close(r.k));
		close(loan.fd);
		tree_remove(p->l1);
	}
}

static void lend_memory(kedge_t *k, const char *region, const uint8_t *data, size_t bytes)
{
	const struct kedge__file_loan loan = {.region = region, .path = region, .data = data, .fd = -1, .bytes = bytes};

	assert_ok(k, kedge__file_lend(k, &loan, NULL));
}

/* A file that somebody vouches for, and that is not there to be read. */
static void lend_nothing(kedge_t *k, const char *region, size_t bytes, uint64_t same_as)
{
	const struct kedge__file_loan loan = {.region = region,
					      .path = "/nowhere/to/be/found",
					      .fd = -1,
					      .bytes = bytes,
					      .same = true,
					      .same_as = same_as};

	assert_ok(k, kedge__file_lend(k, &loan, NULL));
}

static void region_is(kedge_t *k, uint64_t version, const char *region, const uint8_t *data, size_t bytes)
{
	struct kedge_target target = {.name = region, .ptr = got, .room = bytes};

	memset(got, 0xEE, bytes);
	assert_ok(k, kedge_read(k, version, &target, 1));
	assert_memory_equal(got, data, bytes);
}

/* Regions between, before and behind others that are the same as before: none of them is read, all of them are there. */
static void test_lent_files_that_are_the_same(void **state)
{
	static const char *const names[] = {"1", "2", "3", "4"};
	static const size_t bytes[] = {3, BYTES / 2, 70000, 1};
	struct place *p = *state;

	for (size_t i = 0; i < KEDGE__COUNT(reducers); i++) {
		bool full = strstr(reducers[i], "full");
		struct run r;

		fill_random(m, BYTES, 7 + i);
		memcpy(before, m, BYTES);
		run_open(&r, p, MORE(reducers[i], "capture=sync"));
		for (size_t n = 0; n < 4; n++)
			lend_memory(r.k, names[n], m, bytes[n]);
		assert_ok(r.k, kedge_checkpoint(r.k, 0));
		assert_ok(r.k, kedge_close(r.k));
		run_open(&r, p, MORE(reducers[i], "capture=sync"));
		fill_random(m, BYTES / 2, 99);
		lend_nothing(r.k, "1", bytes[0], 0);
		lend_memory(r.k, "2", m, bytes[1]);
		lend_nothing(r.k, "3", bytes[2], 0);
		lend_nothing(r.k, "4", bytes[3], 0);
		if (full) { /* it refers to nothing, and has to read them */
			assert_int_equal(kedge_checkpoint(r.k, 1), KEDGE_E_STATE);
		} else {
			assert_ok(r.k, kedge_checkpoint(r.k, 1));
			region_is(r.k, 1, "1", before, bytes[0]);
			region_is(r.k, 1, "2", m, bytes[1]);
			region_is(r.k, 1, "3", before, bytes[2]);
			region_is(r.k, 1, "4", before, bytes[3]);
			/* What the same as an older version is must be looked at, and so must what has another size. */
			assert_int_equal(kedge_checkpoint(r.k, 2), KEDGE_E_STATE);
			assert_non_null(strstr(kedge_last_error(r.k), "/nowhere/to/be/found was removed or replaced"));
			kedge__files_unlend(r.k);
			lend_nothing(r.k, "3", bytes[2] - 1, 1);
			assert_int_equal(kedge_checkpoint(r.k, 2), KEDGE_E_STATE);
			/* The handle knows as much as a new one. */
			kedge__files_unlend(r.k);
			lend_nothing(r.k, "1", bytes[0], 1);
			lend_memory(r.k, "3", before, bytes[2]);
			assert_ok(r.k, kedge_checkpoint(r.k, 2));
			region_is(r.k, 2, "1", before, bytes[0]);
			region_is(r.k, 2, "3", before, bytes[2]);
		}
		assert_ok(r.k, kedge_close(r.k));
		tree_remove(p->l1);
	}
}

/* A file that is opened when it is read: another one in its place is noticed; holes are zeros. */
static void test_lent_file_that_is_opened(void **state)
{
	struct place *p = *state;
	struct kedge__file_loan loan = {.region = "a", .fd = -1, .bytes = BYTES};
	struct stat st;
	char path[400];
	struct run r;
	int fd;

	text_make(path, sizeof(path), "%s/opened", p->dir);
	file_fill(path, BYTES / 2, 5);
	fd = open(path, O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0 && ftruncate(fd, BYTES) == 0 && fstat(fd, &st) == 0);
	memset(before, 0, BYTES);
	assert_int_equal(pread(fd, before, BYTES / 2, 0), BYTES / 2);
	close(fd);
	loan.path = path;
	loan.device = st.st_dev;
	loan.inode = st.st_ino;
	run_open(&r, p, MORE("capture=sync"));
	assert_ok(r.k, kedge__file_lend(r.k, &loan, NULL));
	assert_ok(r.k, kedge_checkpoint(r.k, 0));
	region_is(r.k, 0, "a", before, BYTES);
	kedge__files_unlend(r.k);
	loan.inode++;
	assert_ok(r.k, kedge__file_lend(r.k, &loan, NULL));
	assert_int_equal(kedge_checkpoint(r.k, 1), KEDGE_E_STATE);
	assert_non_null(strstr(kedge_last_error(r.k), "opened was removed or replaced while it was saved"));
	assert_ok(r.k, kedge_close(r.k));
	tree_remove(p->l1);
}

static void test_file_is_cut_short(void **state)
{
	for (size_t i = 0; i < KEDGE__COUNT(reducers); i++) {
		cut_series(*state, reducers[i], "capture=sync", "hash", 0);
		cut_series(*state, reducers[i], "capture=sync", "hash", 4);
		cut_series(*state, reducers[i], "capture=sync", "write", 0);
		cut_series(*state, reducers[i], "capture=copy", "hash", 1);
	}
}

/* Memory changes between a restart's last look at what it filled in and its return: the next version is held against
 * what is stored, not against memory. */
static void report_restart(void *user, const struct kedge_progress *p)
{
	struct run *r = user;

	/* The second time that all is done, it is found to be right. */
	if (strcmp(p->phase, "read") == 0 && p->done_bytes == p->total_bytes && ++r->reports == 2)
		scribble(r);
}

static void test_after_restart(void **state)
{
	struct place *p = *state;

	for (size_t i = 1; i < KEDGE__COUNT(reducers); i++) { /* the first remembers nothing */
		const char *const *more = MORE(reducers[i], "codec=none", "track=none");
		struct run r;
		uint64_t restored;

		memory_fill(i);
		run_open(&r, p, more);
		assert_ok(r.k, kedge_protect(r.k, "field", m, BYTES, KEDGE_U8));
		take_still(&r);
		memory_change(7);
		take_still(&r);
		assert_ok(r.k, kedge_close(r.k));
		r.k = job_open(p, false, more);
		kedge_set_progress(r.k, report_restart, &r);
		assert_ok(r.k, kedge_protect(r.k, "field", m, BYTES, KEDGE_U8));
		r.reports = 0;
		assert_ok(r.k, kedge_restart(r.k, KEDGE_NEWEST, &restored));
		assert_int_equal(restored, 1);
		assert_memory_not_equal(m, r.kept[1], BYTES);
		take_still(&r);
		memory_change(9);
		take_still(&r);
		run_close(&r, p, more);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    JOB(test_sync),   JOB(test_sync_otherwise),    JOB(test_dense),         JOB(test_copy),
	    JOB(test_stress), JOB(test_file_is_cut_short), JOB(test_after_restart), JOB(test_lent_file),
	    JOB(test_lent_files_that_are_the_same), JOB(test_lent_file_that_is_opened),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
