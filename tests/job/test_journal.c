/* SPDX-License-Identifier: BSD-3-Clause */
/* What a job records of itself: the journal, and the file for Prometheus. */
#include "ranks.h"

#include <math.h>
#include <signal.h>
#include <sys/resource.h>

static char *journal_text(const struct place *p, const char *suffix)
{
	char path[600];
	size_t n;
	char *text;

	text_make(path, sizeof(path), "%s/job/record-journal%s", p->l1, suffix);
	text = (char *)file_read(path, &n);
	assert_non_null(text);
	return text;
}

/* The N-th line, from 0, with an event of this kind, ended; *AFTER is what follows. NULL: there is none. */
static const char *event_at(const char *text, const char *event, size_t n, char line[8192])
{
	char wanted[64];

	snprintf(wanted, sizeof(wanted), ",\"event\":\"%s\",", event);
	while (*text) {
		size_t length = strcspn(text, "\n");

		assert_true(length < 8192);
		memcpy(line, text, length);
		line[length] = '\0';
		text += length + (text[length] == '\n');
		if (strncmp(line, "{\"time\":", 8) != 0 || !strstr(line, wanted))
			continue;
		assert_int_equal(line[length - 1], '}');
		if (!n--)
			return line;
	}
	return NULL;
}

static size_t events(const char *text, const char *event)
{
	char line[8192];
	size_t n = 0;

	while (event_at(text, event, n, line))
		n++;
	return n;
}

static void has(const char *line, const char *part)
{
	if (!strstr(line, part))
		fail_msg("no %s in %s", part, line);
}

static double real_of(const char *line, const char *key)
{
	char wanted[64];
	const char *at;

	snprintf(wanted, sizeof(wanted), "\"%s\":", key);
	at = strstr(line, wanted);
	assert_non_null(at);
	return strtod(at + strlen(wanted), NULL);
}

static void in_order(const char *text, const char *const *wanted)
{
	for (; *wanted; wanted++) {
		size_t length = strcspn(text, "\n");
		char event[64];

		snprintf(event, sizeof(event), "\"event\":\"%s\"", *wanted);
		if (!length || !memmem(text, length, event, strlen(event)))
			fail_msg("not %s: %.*s", *wanted, (int)length, text);
		text += length + 1;
	}
	assert_string_equal(text, "");
}

/* ------------------------------------------------------------------ what is in it */

static void test_a_life(void **state)
{
	const struct place *p = *state;
	uint8_t own[64 * 256];
	char line[8192];
	kedge_t *k = job_open(p, true, MORE("capture=copy", "reducer=tree", "chunk=256"));
	char *text;

	fill_random(own, sizeof(own), 1);
	assert_ok(k, kedge_protect(k, "m", own, sizeof(own), KEDGE_U8));
	assert_ok(k, kedge_checkpoint(k, 12));
	assert_ok(k, kedge_wait(k));
	assert_ok(k, kedge_close(k));
	text = journal_text(p, "");
	in_order(text, MORE("open", "begin", "captured", "sealed", "l2", "close"));
	has(event_at(text, "open", 0, line), "\"name\":\"job\",\"schema\":1,");
	has(line, "\"ranks\":1,");
	has(line, "\"capture\":\"copy\"");
	has(event_at(text, "begin", 0, line), "\"version\":12");
	has(event_at(text, "captured", 0, line), "\"blocked_seconds\":");
	has(event_at(text, "sealed", 0, line), "\"version\":12,");
	assert_true(real_of(line, "raw_bytes") == sizeof(own));
	assert_true(real_of(line, "stored_bytes") > sizeof(own));
	assert_true(real_of(line, "time") > 1.7e9);
	has(line, "\"regions\":[{\"name\":\"m\",\"bytes\":16384,\"new_bytes\":16384}]");
	has(event_at(text, "l2", 0, line), "\"form\":\"copy\",\"self_contained\":true");
	has(event_at(text, "close", 0, line), "\"versions\":1}");
	free(text);
}

/* What changed, in 64 parts, from the extent map. */
static void test_map_of_changes(void **state)
{
	const struct place *p = *state;
	static uint8_t own[64 * 1024], small[40], still[1000];
	kedge_t *k = job_open(p, false, MORE("reducer=tree", "chunk=256"));
	char line[8192], map[65];
	char *text;

	fill_random(own, sizeof(own), 1);
	assert_ok(k, kedge_protect(k, "m", own, sizeof(own), KEDGE_U8));
	assert_ok(k, kedge_protect(k, "small", small, sizeof(small), KEDGE_U8));
	assert_ok(k, kedge_protect(k, "still", still, sizeof(still), KEDGE_U8));
	assert_ok(k, kedge_checkpoint(k, 1));
	own[0] ^= 1;                   /* one chunk of the four of part 0 */
	for (int i = 0; i < 1024; i++) /* all of the last */
		own[63 * 1024 + i] ^= 1;
	small[3] = 7;
	assert_ok(k, kedge_checkpoint(k, 2));
	assert_ok(k, kedge_close(k));
	text = journal_text(p, "");
	assert_null(strstr(event_at(text, "sealed", 0, line), "\"map\""));
	memset(map, '0', 64);
	map[64] = '\0';
	map[0] = '4'; /* a quarter: 1 + 14/4 */
	map[63] = 'f';
	event_at(text, "sealed", 1, line);
	has(line, map);
	has(line, "\"parent\":1,");
	has(line, "{\"name\":\"m\",\"bytes\":65536,\"changed_bytes\":1280,\"new_bytes\":1280,");
	has(line, "{\"name\":\"small\",\"bytes\":40,\"changed_bytes\":40,\"new_bytes\":40,\"map\":"
		  "\"ffffffffffffffffffffffffffffffffffffffff\"}");
	has(line, "{\"name\":\"still\",\"bytes\":1000,\"changed_bytes\":0,\"new_bytes\":0,\"map\":\"000000");
	has(line, "\"rank0\":{\"bytes\":66576,\"changed_bytes\":1320,\"new_bytes\":1320,");
	free(text);
}

/* The largest 32, and the rest in one sum. */
static void test_many_regions(void **state)
{
	const struct place *p = *state;
	static uint8_t own[40][100];
	kedge_t *k = job_open(p, false, MORE("reducer=full"));
	char line[8192], name[32];
	char *text;

	for (int i = 0; i < 40; i++) {
		snprintf(name, sizeof(name), "r\"%02d", i);
		assert_ok(k, kedge_protect(k, name, own[i], 50 + (size_t)(i * 7 % 40), KEDGE_U8));
	}
	assert_ok(k, kedge_checkpoint(k, 1));
	assert_ok(k, kedge_close(k));
	text = journal_text(p, "");
	event_at(text, "sealed", 0, line);
	has(line, "{\"name\":\"r\\\"17\",\"bytes\":89,"); /* 17 * 7 % 40 == 39 */
	assert_null(strstr(line, "\"bytes\":57,"));
	has(line, "\"bytes\":58,");
	has(line, "],\"others\":{\"count\":8,\"bytes\":428,"); /* 50 + 51 + ... + 57 */
	free(text);
}

/* ------------------------------------------------------------------ what goes wrong */

static void test_failures_and_fallbacks(void **state)
{
	const struct place *p = *state;
	static uint8_t own[10000];
	char line[8192], dir[400];
	kedge_t *k = job_open(p, false, MORE("reducer=full"));
	char *text;

	fill_random(own, sizeof(own), 1);
	assert_ok(k, kedge_protect(k, "m", own, sizeof(own), KEDGE_U8));
	for (uint64_t v = 1; v <= 2; v++)
		assert_ok(k, kedge_checkpoint(k, v));
	text_make(dir, sizeof(dir), "%s/job/v%020d", p->l1, 3);
	file_write(dir, "x", 1); /* a file where the directory of the version must be */
	assert_int_not_equal(kedge_checkpoint(k, 3), 0);
	assert_int_equal(unlink(dir), 0);
	assert_ok(k, kedge_close(k));
	segment_damage(p->l1, 2, 0);
	k = job_open(p, false, NULL);
	assert_ok(k, kedge_protect(k, "m", own, sizeof(own), KEDGE_U8));
	assert_ok(k, kedge_restart(k, KEDGE_NEWEST, NULL));
	assert_ok(k, kedge_close(k));
	text = journal_text(p, "");
	assert_int_equal(events(text, "open"), 2);
	has(event_at(text, "failed", 0, line), "\"version\":3,\"step\":\"seal\",");
	has(line, "\"reason\":\"");
	has(event_at(text, "fallback", 0, line), "\"what\":\"version\",\"version\":2,\"reason\":\"");
	has(event_at(text, "restart", 0, line), "\"version\":1,\"level\":1,");
	assert_true(real_of(line, "age_seconds") > 0);
	free(text);
}

/* L2 is found to be unusable before the journal is open. */
static void test_early_fallback(void **state)
{
	const struct place *p = *state;
	char line[8192];
	kedge_t *k;
	char *text;

	file_write(p->l2, "x", 1);
	k = job_open(p, true, NULL);
	assert_ok(k, kedge_close(k));
	text = journal_text(p, "");
	in_order(text, MORE("open", "fallback", "close"));
	has(event_at(text, "fallback", 0, line), "\"what\":\"l2\",\"to\":\"l1\",\"reason\":\"");
	free(text);
}

/* ------------------------------------------------------------------ the file */

static void take_some(const struct place *p, uint64_t from, uint64_t to, const char *const *more)
{
	static uint8_t own[1000];
	kedge_t *k = job_open(p, false, more);

	assert_ok(k, kedge_protect(k, "m", own, sizeof(own), KEDGE_U8));
	for (uint64_t v = from; v <= to; v++) {
		own[v % sizeof(own)]++;
		assert_ok(k, kedge_checkpoint(k, v));
	}
	assert_ok(k, kedge_close(k));
}

static void test_appended_after_a_torn_line(void **state)
{
	const struct place *p = *state;
	char path[400], line[8192];
	char *text;
	FILE *f;

	take_some(p, 1, 1, NULL);
	text_make(path, sizeof(path), "%s/job/record-journal", p->l1);
	f = fopen(path, "a");
	assert_non_null(f);
	fputs("{\"time\":1.5,\"event\":\"sea", f);
	assert_int_equal(fclose(f), 0);
	take_some(p, 2, 2, NULL);
	text = journal_text(p, "");
	assert_int_equal(events(text, "open"), 2);
	assert_int_equal(events(text, "sealed"), 2);
	assert_int_equal(events(text, "close"), 2);
	has(event_at(text, "sealed", 1, line), "\"version\":2,");
	assert_non_null(strstr(text, "\"sea\n{"));
	free(text);
}

static void test_rotated(void **state)
{
	const struct place *p = *state;
	char path[400], line[8192];
	char *now, *before;
	uint64_t last;

	take_some(p, 1, 2, MORE("journal_limit=64k"));
	text_make(path, sizeof(path), "%s/job/record-journal", p->l1);
	{
		FILE *f = fopen(path, "a");

		assert_non_null(f);
		for (int i = 0; i < 63000; i++)
			fputs(i % 100 == 99 ? "\n" : "x", f);
		fclose(f);
	}
	take_some(p, 3, 9, MORE("journal_limit=64k"));
	before = journal_text(p, ".1");
	now = journal_text(p, "");
	assert_true(strlen(before) <= 65536 && strlen(now) <= 65536);
	assert_int_equal(events(before, "sealed") + events(now, "sealed"), 9);
	event_at(now, "sealed", events(now, "sealed") - 1, line);
	last = (uint64_t)real_of(line, "version");
	assert_int_equal(last, 9);
	free(now);
	free(before);
}

/* The disk is full after ten more bytes of the journal: versions are taken, and it is said once. */
static void test_full_disk(void **state)
{
	struct place *p = *state;
	struct rlimit limit, small;
	char path[400];
	char *before, *after;

	kedge_set_log(place_log, p);
	take_some(p, 1, 1, NULL);
	text_make(path, sizeof(path), "%s/job/record-journal", p->l1);
	{
		FILE *f = fopen(path, "a");

		assert_non_null(f);
		for (int i = 0; i < 100000; i++)
			fputs(i % 100 == 99 ? "\n" : "x", f);
		fclose(f);
	}
	before = journal_text(p, "");
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
	small = (struct rlimit){strlen(before) + 10, limit.rlim_max};
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	take_some(p, 2, 4, NULL);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
	after = journal_text(p, "");
	assert_string_equal(before, after);
	has(place_said(p), "events are missing from the journal, versions are not affected");
	assert_null(strstr(strstr(place_said(p), "events are missing") + 1, "events are missing"));
	free(before);
	free(after);
	take_some(p, 5, 5, NULL);
}

/* A place that comes later: what is lost until then is counted. */
static void test_elsewhere_and_lost(void **state)
{
	const struct place *p = *state;
	static uint8_t own[1000];
	char dir[400], path[500], set[500], line[8192];
	kedge_t *k;
	char *text;
	size_t n;

	text_make(dir, sizeof(dir), "%s/elsewhere", p->dir);
	text_make(path, sizeof(path), "%s/here", dir);
	text_make(set, sizeof(set), "journal=%s", path);
	k = job_open(p, false, MORE(set));
	assert_ok(k, kedge_protect(k, "m", own, sizeof(own), KEDGE_U8));
	assert_ok(k, kedge_checkpoint(k, 1));
	assert_int_equal(mkdir(dir, 0700), 0);
	assert_ok(k, kedge_checkpoint(k, 2));
	assert_ok(k, kedge_close(k));
	text = (char *)file_read(path, &n);
	assert_non_null(text);
	in_order(text, MORE("lost", "begin", "sealed", "close"));
	has(event_at(text, "lost", 0, line), "\"events\":3}"); /* open, begin, sealed */
	free(text);
	text_make(set, sizeof(set), "journal=%s/", dir);
	take_some(p, 3, 3, MORE(set));
	text_make(path, sizeof(path), "%s/job.journal", dir);
	assert_int_equal(access(path, F_OK), 0);
	take_some(p, 4, 4, MORE("journal=no"));
	text_make(path, sizeof(path), "%s/job/record-journal", p->l1);
	assert_int_equal(access(path, F_OK), -1);
	assert_int_equal(kedge_open("job", NULL, MORE("journal=here"), &k), KEDGE_E_CONFIG);
	assert_int_equal(kedge_open("job", NULL, MORE("metrics=here"), &k), KEDGE_E_CONFIG);
}

/* The same lines for kedge run, which reads them while they come. */
static void test_for_kedge_run(void **state)
{
	const struct place *p = *state;
	char path[400];
	char *mine, *run;
	size_t n;

	text_make(path, sizeof(path), "%s/run", p->dir);
	setenv("KEDGE_RUN_JOURNAL", path, 1);
	take_some(p, 1, 2, NULL);
	unsetenv("KEDGE_RUN_JOURNAL");
	mine = journal_text(p, "");
	run = (char *)file_read(path, &n);
	assert_non_null(run);
	assert_string_equal(mine, run);
	free(mine);
	free(run);
}

/* ------------------------------------------------------------------ ranks */

static void two_versions(struct rank *r)
{
	kedge_t *k = rank_open(r);

	CHECK(kedge_protect(k, "m", m, BYTES, KEDGE_U8) == 0);
	take(r, k, 1, 2);
	CHECK(kedge_close(k) == 0);
}

static void take_on_both(const struct place *p, uint64_t from, uint64_t to)
{
	static uint8_t own[1000];
	kedge_t *k = job_open(p, true, MORE("l2_every=1"));

	assert_ok(k, kedge_protect(k, "m", own, sizeof(own), KEDGE_U8));
	if (from > 1)
		assert_ok(k, kedge_restart(k, KEDGE_NEWEST, NULL));
	for (uint64_t v = from; v <= to; v++) {
		own[v % sizeof(own)]++;
		assert_ok(k, kedge_checkpoint(k, v));
		assert_ok(k, kedge_wait(k));
	}
	assert_ok(k, kedge_close(k));
}

/* A node is lost with its L1, another one goes on, and the first comes back with what it had. */
static void test_copy_on_l2(void **state)
{
	const struct place *p = *state;
	char there[600], aside[600];
	char *text, *copy;
	size_t n;

	text_make(there, sizeof(there), "%s/job/record-journal", p->l2);
	text_make(aside, sizeof(aside), "%s/aside", p->dir);
	take_on_both(p, 1, 3);
	text = journal_text(p, "");
	copy = (char *)file_read(there, &n);
	assert_string_equal(text, copy);
	free(copy);
	assert_int_equal(rename(p->l1, aside), 0);
	take_on_both(p, 4, 5);
	copy = journal_text(p, "");
	assert_memory_equal(copy, text, strlen(text));
	assert_int_equal(events(copy, "sealed"), 5);
	assert_int_equal(events(copy, "open"), 2);
	free(text);
	(void)tree_remove(p->l1);
	assert_int_equal(rename(aside, p->l1), 0);
	take_on_both(p, 6, 6);
	text = journal_text(p, "");
	assert_memory_equal(text, copy, strlen(copy));
	assert_int_equal(events(text, "sealed"), 6);
	free(copy);
	copy = (char *)file_read(there, &n);
	assert_string_equal(text, copy);
	free(copy);
	free(text);
}

/* It cannot be written: nothing else fails. */
static void test_no_copy_on_l2(void **state)
{
	const struct place *p = *state;
	char there[600], path[700];
	char *text;

	take_on_both(p, 1, 1);
	text_make(there, sizeof(there), "%s/job/record-journal", p->l2);
	assert_int_equal(unlink(there), 0);
	assert_int_equal(mkdir(there, 0700), 0);
	text_make(path, sizeof(path), "%s/x", there);
	assert_int_equal(mkdir(path, 0700), 0);
	take_on_both(p, 2, 4);
	text = journal_text(p, "");
	assert_int_equal(events(text, "sealed"), 4);
	assert_int_equal(events(text, "l2"), 4);
	free(text);
}

static void test_one_writer(void **state)
{
	const struct place *p = *state;
	char line[8192];
	char *text;

	ranks_run(p, (struct plan){RANKS, ANY_THREAD, false, false, MORE("capture=copy")}, two_versions);
	text = journal_text(p, "");
	in_order(text, MORE("open", "begin", "captured", "sealed", "begin", "captured", "sealed", "close"));
	has(event_at(text, "open", 0, line), "\"ranks\":3,");
	event_at(text, "sealed", 1, line);
	assert_true(real_of(line, "raw_bytes") == 3.0 * BYTES);
	free(text);
}

/* ------------------------------------------------------------------ for Prometheus */

static void test_metrics(void **state)
{
	const struct place *p = *state;
	char path[400], set[500], line[8192], wanted[600];
	char *text, *prom;
	double blocked;
	size_t n;

	text_make(path, sizeof(path), "%s/file.prom", p->dir);
	text_make(set, sizeof(set), "metrics=%s", path);
	take_some(p, 1, 3, MORE(set));
	text = journal_text(p, "");
	prom = (char *)file_read(path, &n);
	assert_non_null(prom);
	event_at(text, "sealed", 2, line);
	text_make(wanted, sizeof(wanted), "\nkedge_job_version{name=\"job\",store=\"%s\"} 3\n", p->l1);
	has(prom, wanted);
	text_make(wanted, sizeof(wanted), "\nkedge_job_versions_total{name=\"job\",store=\"%s\"} 3\n", p->l1);
	has(prom, wanted);
	text_make(wanted, sizeof(wanted), "\nkedge_job_last_blocked_seconds{name=\"job\",store=\"%s\"} ", p->l1);
	has(prom, "kedge_job_up{");
	has(prom, wanted);
	/* The journal has microseconds. */
	blocked = strtod(strstr(prom, wanted) + strlen(wanted), NULL);
	assert_true(blocked > 0 && fabs(blocked - real_of(line, "blocked_seconds")) < 0.6e-6);
	free(prom);
	free(text);
	/* One of the next process has the age from the beginning. */
	{
		kedge_t *k = job_open(p, false, MORE(set));

		prom = (char *)file_read(path, &n);
		assert_ok(k, kedge_close(k));
	}
	has(prom, "kedge_job_sealed_timestamp_seconds{");
	has(prom, "kedge_job_versions_total{");
	free(prom);
	text_make(path, sizeof(path), "%s/file.prom.tmp", p->dir);
	assert_int_equal(access(path, F_OK), -1);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    JOB(test_a_life),
	    JOB(test_map_of_changes),
	    JOB(test_many_regions),
	    JOB(test_failures_and_fallbacks),
	    JOB(test_early_fallback),
	    JOB(test_appended_after_a_torn_line),
	    JOB(test_rotated),
	    JOB(test_full_disk),
	    JOB(test_elsewhere_and_lost),
	    JOB(test_for_kedge_run),
	    JOB(test_copy_on_l2),
	    JOB(test_no_copy_on_l2),
	    JOB(test_one_writer),
	    JOB(test_metrics),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
