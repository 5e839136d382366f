/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_keep.c: what a running job keeps: exactly so many versions whenever it has waited; those of their hours and days
 * in thirty days of a clock that is set here; and no more bytes than were asked for.
 */
#include "support.h"

#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>

#include "store/store.h"

/* ------------------------------------------------------------------ the clock on the wall */

static _Atomic int64_t ahead; /* seconds; threads of the library ask while it is set */

int clock_gettime(clockid_t id, struct timespec *t)
{
	int rc = (int)syscall(SYS_clock_gettime, id, t);

	if (rc == 0 && id == CLOCK_REALTIME)
		t->tv_sec += ahead;
	return rc;
}

/* ------------------------------------------------------------------ how many bytes there are whenever a file gets its
 * name */

static struct {
	_Atomic(const char *) dir; /* NULL: nobody wants to know */
	pthread_mutex_t lock;      /* over what follows, but for the reader at the end */
	uint64_t sum;
	_Atomic uint64_t most;
} watched = {.lock = PTHREAD_MUTEX_INITIALIZER};

static int add_file(const char *path, const struct stat *st, void *ctx)
{
	(void)ctx;
	if (S_ISREG(st->st_mode) && strstr(path, "/v0")) /* of a version */
		watched.sum += (uint64_t)st->st_size;
	return 0;
}

int rename(const char *from, const char *to)
{
	int rc = (int)syscall(SYS_renameat, AT_FDCWD, from, AT_FDCWD, to);
	const char *dir = watched.dir;

	if (!rc && dir && strncmp(to, dir, strlen(dir)) == 0) {
		pthread_mutex_lock(&watched.lock);
		watched.sum = 0;
		(void)tree_each(dir, add_file, NULL);
		watched.most = KEDGE__MAX(watched.most, watched.sum);
		pthread_mutex_unlock(&watched.lock);
	}
	return rc;
}

/* ------------------------------------------------------------------ a job */

#define BYTES 65536

static uint8_t field[BYTES];

/* One page in sixteen changes with each version; what it was can be said at any time. */
static void field_set(uint8_t *to, uint64_t version)
{
	for (size_t page = 0; page < BYTES / 4096; page++) {
		uint64_t last = version < page ? 0 : version - (version - page) % (BYTES / 4096); /* when it changed */
		uint64_t seed = last * 31 + page;

		for (size_t i = 0; i < 4096; i += 8) {
			uint64_t word = draw(&seed);

			memcpy(to + page * 4096 + i, &word, 8);
		}
	}
}

static kedge_t *keep_open(const struct place *p, bool l2, const char *keep, const char *l2_keep)
{
	char one[100], two[100];
	kedge_t *k;

	text_make(one, sizeof(one), "keep=%s", keep);
	text_make(two, sizeof(two), "l2_keep=%s", l2_keep);
	k = job_open(p, l2, MORE(one, two, "chunk=512", "l2_every=1", "codec=none"));
	assert_ok(k, kedge_protect(k, "field", field, BYTES, KEDGE_BYTES));
	return k;
}

static void take(kedge_t *k, uint64_t version)
{
	field_set(field, version);
	assert_ok(k, kedge_checkpoint(k, version));
}

/* ------------------------------------------------------------------ what is there */

struct seen {
	size_t there, kept;
	uint64_t versions[2000]; /* that are kept */
	uint64_t bytes, largest;
};

static void look(const char *store, struct seen *s)
{
	struct kedge__catalog *cat;
	uint8_t spare[2000];

	*s = (struct seen){.there = 0};
	assert_int_equal(kedge__catalog_open(store, "job", KEDGE__CATALOG_READ, &cat, NULL), 0);
	s->there = kedge__catalog_count(cat);
	assert_true(s->there < KEDGE__COUNT(spare));
	assert_int_equal(kedge__catalog_spare(cat, spare, NULL), 0);
	for (size_t i = 0; i < s->there; i++) {
		const struct kedge__catalog_entry *e = kedge__catalog_at(cat, i);

		if (!spare[i])
			s->versions[s->kept++] = e->version;
		s->bytes += e->set.parts[0].file_bytes;
		s->largest = KEDGE__MAX(s->largest, e->set.parts[0].file_bytes);
	}
	kedge__catalog_close(cat);
}

static void assert_right(kedge_t *k, uint64_t version)
{
	static uint8_t got[BYTES], wanted[BYTES];
	struct kedge_target target = {.name = "field", .ptr = got, .room = BYTES};

	field_set(wanted, version);
	assert_ok(k, kedge_read(k, version, &target, 1));
	assert_memory_equal(got, wanted, BYTES);
}

/* ------------------------------------------------------------------ so many */

static void test_exactly(void **state)
{
	const struct place *p = *state;
	kedge_t *k = keep_open(p, true, "2", "3");

	for (uint64_t v = 1; v <= 60; v++) {
		struct seen one, two;

		take(k, v);
		assert_ok(k, kedge_wait(k));
		look(p->l1, &one);
		look(p->l2, &two);
		assert_int_equal(one.kept, KEDGE__MIN(v, (uint64_t)2));
		assert_int_equal(one.versions[one.kept - 1], v);
		assert_int_equal(two.kept, KEDGE__MIN(v, (uint64_t)3));
		assert_true(one.there <= 9 && two.there <= 12);
		for (size_t i = 0; i < one.kept && v % 7 == 0; i++)
			assert_right(k, one.versions[i]);
	}
	kedge_close(k);
}

/* ------------------------------------------------------------------ thirty days */

#define VERSIONS 400
#define HOUR     3600

static void assert_as_asked(const struct seen *s, const char *keep, const int64_t *times, uint64_t newest)
{
	static struct kedge__keep_item items[VERSIONS + 1];
	struct kedge__keep k;
	size_t n = 0;

	assert_int_equal(kedge__keep_parse(keep, &k, NULL), 0);
	memset(items, 0, sizeof(items));
	for (uint64_t v = 1; v <= newest; v++) {
		items[v - 1].version = v;
		items[v - 1].time_ns = (uint64_t)times[v] * UINT64_C(1000000000);
	}
	kedge__keep_choose(&k, items, newest);
	for (uint64_t v = 1; v <= newest; v++) {
		if (!items[v - 1].why)
			continue;
		assert_true(n < s->kept);
		assert_int_equal(s->versions[n++], v);
	}
	assert_int_equal(n, s->kept);
}

static int64_t now_seconds(void)
{
	struct timespec t;

	assert_int_equal(clock_gettime(CLOCK_REALTIME, &t), 0);
	return t.tv_sec;
}

/* Times are a quarter past an hour: the minutes that this takes do not matter. */
static void quarter_past(int64_t hours)
{
	int64_t now = now_seconds() - ahead; /* it never goes back */

	ahead = (now / HOUR + 1) * HOUR + hours * HOUR + HOUR / 4 - now;
}

static void test_thirty_days(void **state)
{
	static const char keep[] = "2 hourly:6 daily:7 weekly:3", l2_keep[] = "1 daily:4";
	static int64_t times[VERSIONS + 1];
	const struct place *p = *state;
	kedge_t *k = keep_open(p, true, keep, l2_keep);
	uint64_t seed = 5;
	int64_t hour = 0;
	struct seen s;

	for (uint64_t v = 1; v <= VERSIONS; v++) {
		quarter_past(hour);
		times[v] = now_seconds();
		take(k, v);
		assert_ok(k, kedge_wait(k));
		hour += (int64_t)draw_below(&seed, 4); /* 30 days, about */
		look(p->l1, &s);
		assert_as_asked(&s, keep, times, v);
		assert_true(s.there <= s.kept + 9);
		look(p->l2, &s);
		assert_as_asked(&s, l2_keep, times, v);
		assert_true(s.there <= s.kept + 12);
	}
	assert_true(hour > 20 * 24);
	look(p->l1, &s);
	assert_true(s.kept >= 2 + 6 + 3);
	for (size_t i = 0; i < s.kept; i++)
		assert_right(k, s.versions[i]);
	kedge_close(k);
	ahead = 0;
}

/* ------------------------------------------------------------------ so many bytes */

struct quota {
	const char *reducer, *codec, *more; /* MORE: another setting, or rules beside the limit */
	bool l2;                            /* that is limited */
	bool both;                          /* L2 is on, and L1 is limited */
	uint64_t limit;
	bool whole;     /* such a burst leaves nothing as it was */
	uint64_t burst; /* every so many versions most of each page is another; 0: never */
};

/* Pages of a burst, and those that were never written, can be told from the number of the version. */
static void field_burst(uint8_t *to, uint64_t version, const struct quota *q)
{
	uint64_t last = q->burst ? version / q->burst * q->burst : 0;

	field_set(to, version);
	for (size_t i = 0; i < BYTES && last; i++)
		if (q->whole || i % 4096 >= 512) /* a chunk of each page stays, so that it refers to many others */
			to[i] = (uint8_t)(to[i] ^ (last * 151 + i / 4096 * 7));
}

static kedge_t *quota_open(const struct place *p, const struct quota *q)
{
	char keep[100], other[60];
	kedge_t *k;

	text_make(keep, sizeof(keep), "%s=bytes:%llu %s", q->l2 ? "l2_keep" : "keep", (unsigned long long)q->limit,
		  q->more ? q->more : "");
	text_make(other, sizeof(other), q->l2 ? "keep=1" : q->both ? "l2_keep=3" : "l2=");
	k = job_open(p, q->l2 || q->both, MORE(keep, q->reducer, other, "chunk=512", "l2_every=1", q->codec));
	assert_ok(k, kedge_protect(k, "field", field, BYTES, KEDGE_BYTES));
	return k;
}

/* No file gets its name while there is more than the limit and one version. */
static void quota(const struct place *p, const struct quota *q, uint64_t versions)
{
	static uint8_t got[BYTES], wanted[BYTES];
	const char *store = q->l2 ? p->l2 : p->l1;
	uint64_t largest = 0;
	kedge_t *k = quota_open(p, q);
	struct seen s;

	watched.most = 0;
	watched.dir = store;
	for (uint64_t v = 1; v <= versions; v++) {
		if (q->more)
			quarter_past((int64_t)v / 2);
		field_burst(field, v, q);
		assert_ok(k, kedge_checkpoint(k, v));
		if (v % 3)
			continue;
		assert_ok(k, kedge_wait(k));
		look(store, &s);
		assert_true(s.bytes <= q->limit);
		largest = KEDGE__MAX(largest, s.largest);
	}
	assert_ok(k, kedge_wait(k));
	watched.dir = NULL;
	ahead = 0;
	assert_true(watched.most > q->limit / 2 || versions * 4096 < q->limit);
	if (watched.most > q->limit + largest)
		fail_msg("%llu bytes, but the limit is %llu and the largest version %llu",
			 (unsigned long long)watched.most, (unsigned long long)q->limit, (unsigned long long)largest);
	look(store, &s);
	if (s.bytes > q->limit || s.bytes <= KEDGE__MIN(q->limit / 5, (uint64_t)BYTES))
		fail_msg("%s%s%s: %llu bytes of %llu after %llu versions, %zu kept of %zu, bursts of %llu%s",
			 q->reducer, q->l2 ? " L2" : "", q->both ? " both" : "", (unsigned long long)s.bytes,
			 (unsigned long long)q->limit, (unsigned long long)versions, s.kept, s.there,
			 (unsigned long long)q->burst, q->whole ? " whole" : "");
	for (size_t i = 0; i < s.kept; i++) {
		struct kedge_target target = {.name = "field", .ptr = got, .room = BYTES};

		field_burst(wanted, s.versions[i], q);
		assert_ok(k, kedge_read(k, s.versions[i], &target, 1));
		assert_memory_equal(got, wanted, BYTES);
	}
	kedge_close(k);
}

static void test_bytes(void **state)
{
	quota(*state, &(struct quota){.reducer = "reducer=tree", .codec = "codec=none", .limit = 160800}, 80);
}

static void test_bytes_full(void **state)
{
	quota(*state, &(struct quota){.reducer = "reducer=full", .codec = "codec=none", .limit = 5 * BYTES}, 40);
}

static void test_bytes_l2(void **state)
{
	quota(*state,
	      &(struct quota){.reducer = "reducer=tree", .codec = "codec=none", .l2 = true, .limit = 5 * BYTES / 2},
	      80);
}

/* Small changes for a while, then almost everything is another: the version is as large as what is rewritten after it.
 */
static void test_bytes_bursts(void **state)
{
	const struct place *p = *state;
	struct quota q = {.reducer = "reducer=tree", .codec = "codec=none", .limit = 5 * BYTES / 2, .burst = 13};

	for (; q.limit <= 4 * BYTES; q.limit += SANITIZED ? 3 * BYTES / 4 : BYTES / 4) {
		quota(p, &q, 60);
		(void)tree_remove(p->l1);
		(void)tree_remove(p->l2);
	}
}

static void test_bytes_bursts_l2(void **state)
{
	const struct place *p = *state;
	struct quota q = {
	    .reducer = "reducer=basic", .codec = "codec=none", .limit = 7 * BYTES / 2, .burst = 11, .l2 = true};

	quota(p, &q, 60);
	(void)tree_remove(p->l1);
	(void)tree_remove(p->l2);
	q.l2 = false;
	q.both = true;
	q.limit = 5 * BYTES;
	quota(p, &q, 60);
}

/* KEEP_TEST_ROUNDS=N in the environment tries more. */
static void test_bytes_drawn(void **state)
{
	static const char *const reducers[] = {"reducer=tree", "reducer=list", "reducer=basic", "reducer=full"};
	const char *rounds = getenv("KEEP_TEST_ROUNDS");
	const struct place *p = *state;
	uint64_t seed = 11;

	for (int i = 0; i < (rounds ? atoi(rounds) : SANITIZED ? 2 : 6); i++) {
		struct quota q = {.reducer = reducers[draw_below(&seed, KEDGE__COUNT(reducers))],
				  .codec = "codec=none"};

		q.limit = 5 * BYTES / 2 + draw_below(&seed, 6 * BYTES);
		q.burst = draw_below(&seed, 30);
		q.whole = draw_below(&seed, 3) == 0;
		q.l2 = draw_below(&seed, 3) == 0;
		q.both = !q.l2 && draw_below(&seed, 2);
		q.limit += q.both ? 2 * BYTES : 0;
		quota(p, &q, 30 + draw_below(&seed, 60));
		(void)tree_remove(p->l1);
		(void)tree_remove(p->l2);
	}
}

/* The newest of each hour is rewritten so that those between two hours can go. */
static void test_bytes_hourly(void **state)
{
	quota(*state,
	      &(struct quota){.reducer = "reducer=tree",
			      .codec = "codec=none",
			      .limit = 6 * BYTES,
			      .burst = 17,
			      .whole = true,
			      .more = "1 hourly:20"},
	      80);
}

/* Less than a version takes: what is asked for cannot be, the newest stays, and no more than two are there. */
static void test_too_few_bytes(void **state)
{
	const struct place *p = *state;
	kedge_t *k = keep_open(p, false, "bytes:1000", "0");
	struct seen s;

	for (uint64_t v = 1; v <= 60; v++) {
		take(k, v);
		assert_ok(k, kedge_wait(k));
		look(p->l1, &s);
		assert_true(s.bytes <= BYTES + BYTES / 2);
	}
	assert_int_equal(s.kept, 1);
	assert_right(k, 60);
	kedge_close(k);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    JOB(test_exactly),     JOB(test_thirty_days),   JOB(test_bytes),           JOB(test_bytes_full),
	    JOB(test_bytes_l2),    JOB(test_bytes_bursts),  JOB(test_bytes_bursts_l2), JOB(test_bytes_hourly),
	    JOB(test_bytes_drawn), JOB(test_too_few_bytes),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
