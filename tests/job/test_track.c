/* SPDX-License-Identifier: BSD-3-Clause */
/* Jobs with page trackers, each beside a job that looks at everything: their versions must not differ in a bit. */
#include "cow.h"

#include <sys/mman.h>

#define BIG      ((size_t)1 << 20)
#define SMALL    3000
#define VERSIONS 18

struct bench {
	struct place *p;
	kedge_t *tracked, *plain;
	uint8_t *big; /* a mapping of its own */
	size_t big_bytes;
	uint8_t small[SMALL];
	uint64_t seed;
	bool system_calls; /* may write to tracked memory */
	int zero;
};

static kedge_t *open_at(const struct place *p, const char *dir, const char *track, const char *capture,
			const char *reducer)
{
	struct place mine = *p;
	char a[64], b[64], c[64];

	text_make(mine.l1, sizeof(mine.l1), "%s/%s", p->dir, dir);
	text_make(a, sizeof(a), "track=%s", track);
	text_make(b, sizeof(b), "capture=%s", capture);
	text_make(c, sizeof(c), "reducer=%s", reducer);
	return job_open(&mine, false, MORE(a, b, c));
}

static void protect(struct bench *b)
{
	kedge_t *both[] = {b->tracked, b->plain};

	for (int i = 0; i < 2; i++) {
		assert_ok(both[i], kedge_protect(both[i], "big", b->big, b->big_bytes, KEDGE_U8));
		assert_ok(both[i], kedge_protect(both[i], "small", b->small, SMALL, KEDGE_U8));
	}
}

static void bench_open(struct bench *b, struct place *p, const char *track, const char *capture, const char *reducer)
{
	memset(b, 0, sizeof(*b));
	b->p = p;
	b->seed = 7;
	b->system_calls = strcmp(track, "mprotect") != 0;
	b->zero = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	b->big_bytes = BIG;
	b->big = mmap(NULL, BIG, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(b->big, MAP_FAILED);
	fill_random(b->big, BIG, 1);
	b->tracked = open_at(p, "tracked", track, capture, reducer);
	b->plain = open_at(p, "plain", "none", capture, reducer);
	assert_non_null(b->tracked->track.tracker);
	protect(b);
}

static void bench_close(struct bench *b)
{
	char dir[400];

	assert_ok(b->tracked, kedge_close(b->tracked));
	assert_ok(b->plain, kedge_close(b->plain));
	munmap(b->big, b->big_bytes);
	close(b->zero);
	text_make(dir, sizeof(dir), "%s/tracked", b->p->dir);
	tree_remove(dir);
	text_make(dir, sizeof(dir), "%s/plain", b->p->dir);
	tree_remove(dir);
}

/* The digests of all regions, in one, as the store has them. */
static struct kedge__digest image_of(const struct bench *b, const char *dir, uint64_t version)
{
	struct kedge__catalog *cat;
	const struct kedge__catalog_entry *e;
	struct kedge__digest id;
	char store[400];

	text_make(store, sizeof(store), "%s/%s", b->p->dir, dir);
	assert_int_equal(kedge__catalog_open(store, "job", KEDGE__CATALOG_READ, &cat, NULL), 0);
	e = kedge__catalog_find(cat, version);
	assert_non_null(e);
	id = e->set.parts[0].image_id;
	kedge__catalog_close(cat);
	return id;
}

static void take_both(struct bench *b, uint64_t version)
{
	struct kedge__digest i, j;

	assert_ok(b->tracked, kedge_checkpoint(b->tracked, version));
	assert_ok(b->plain, kedge_checkpoint(b->plain, version));
	assert_ok(b->tracked, kedge_wait(b->tracked));
	assert_ok(b->plain, kedge_wait(b->plain));
	i = image_of(b, "tracked", version);
	j = image_of(b, "plain", version);
	assert_true(kedge__digest_equal(i, j));
}

/* Where both have the same versions, they store the same. */
static void take(struct bench *b, uint64_t version)
{
	struct kedge_stats x, y;

	take_both(b, version);
	assert_ok(b->tracked, kedge_stats_get(b->tracked, &x));
	assert_ok(b->plain, kedge_stats_get(b->plain, &y));
	assert_int_equal(x.literal_bytes, y.literal_bytes);
}

static void write_somewhere(struct bench *b)
{
	size_t at = draw_below(&b->seed, b->big_bytes),
	       n = 1 + draw_below(&b->seed, KEDGE__MIN(b->big_bytes - at, (size_t)5000));

	switch (draw_below(&b->seed, 6)) {
	case 0:
		b->small[draw_below(&b->seed, SMALL)] ^= 1;
		break;
	case 1:
		if (b->system_calls)
			assert_int_equal(read(b->zero, b->big + at, n), (ssize_t)n);
		break;
	case 2: /* gone, and zero when it is next looked at */
		at &= ~(size_t)4095;
		assert_int_equal(madvise(b->big + at, 4096, MADV_DONTNEED), 0);
		break;
	case 3: /* a thread of its own would not be seen otherwise than this one */
		memset(b->big + at, (int)draw_below(&b->seed, 256), n);
		break;
	default:
		fill_random(b->big + at, n, b->seed);
	}
}

/* Unmapped, moved, grown: the region is at another place then, or has another size. */
static void upheaval(struct bench *b)
{
	size_t bytes = BIG / 2 + (draw_below(&b->seed, BIG) & ~(size_t)4095);
	uint8_t *moved;

	assert_ok(b->tracked, kedge_unprotect(b->tracked, "big"));
	assert_ok(b->plain, kedge_unprotect(b->plain, "big"));
	moved = mremap(b->big, b->big_bytes, bytes, MREMAP_MAYMOVE);
	assert_ptr_not_equal(moved, MAP_FAILED);
	b->big = moved;
	b->big_bytes = bytes;
	protect(b);
}

static void series(struct place *p, const char *track, const char *capture, const char *reducer)
{
	struct bench b;

	bench_open(&b, p, track, capture, reducer);
	for (uint64_t v = 1; v <= VERSIONS; v++) {
		for (uint64_t n = draw_below(&b.seed, 8); n; n--)
			write_somewhere(&b);
		if (v % 7 == 0)
			upheaval(&b);
		if (v % 5 == 0)
			protect(&b); /* the same again: nothing changes */
		take(&b, v);
	}
	bench_close(&b);
}

static void test_oracle(void **state)
{
	static const char *const reducers[] = {"basic", "tree", "auto", "rex"};
	const char *kind;

	for (size_t i = 0; (kind = kedge__tracker_kind(i)) != NULL; i++) {
		if (strcmp(kind, "none") == 0 || !tracker_here(*state, kind))
			continue;
		for (size_t r = 0; r < KEDGE__COUNT(reducers); r++)
			series(*state, kind, r == 1 ? "copy" : "sync", reducers[r]);
	}
}

/* Without /proc there is none, which then is said, and nothing else can be tried. */
static const char *any_kind(const struct place *p)
{
	if (tracker_here(p, "uffd"))
		return "uffd";
	if (!tracker_here(p, "mprotect"))
		skip();
	return "mprotect";
}

/* A page costs a page, and nothing costs nothing. */
static void test_only_what_was_written(void **state)
{
	struct bench b;

	bench_open(&b, *state, any_kind(*state), "sync", "tree");
	take(&b, 1);
	take(&b, 2);
	assert_true(b.tracked->advice.policy.dirty.count == 1);
	assert_true(b.tracked->advice.policy.dirty.value <= 4 * 4096); /* `small` is a part of its pages */
	b.tracked->advice.policy.dirty = (struct kedge__controller_mean){0};
	b.big[100000] ^= 1;
	b.big[300000] ^= 1;
	assert_true(kedge__track_count(b.tracked) >= 2 * 4096);
	take(&b, 3);
	assert_in_range((uint64_t)b.tracked->advice.policy.dirty.value, 2 * 4096, 6 * 4096);
	bench_close(&b);
}

static void checkpoint_fails(struct bench *b, uint64_t version)
{
	assert_int_equal(kedge__fault_set("enospc@1+", NULL), 0);
	assert_true(kedge_checkpoint(b->tracked, version) < 0);
	kedge__fault_set(NULL, NULL);
}

/* What a checkpoint that failed had collected is in the next one. */
static void test_after_a_failure(void **state)
{
	struct bench b;

	bench_open(&b, *state, any_kind(*state), "sync", "tree");
	take(&b, 1);
	b.big[5000] ^= 1;
	checkpoint_fails(&b, 2);
	b.big[500000] ^= 1;
	take(&b, 2);
	checkpoint_fails(&b, 3);
	checkpoint_fails(&b, 3);
	take(&b, 4);
	take(&b, 5);
	bench_close(&b);
}

/* Whichever allocation fails, a version that is complete has every byte, and so has the next one. */
static void test_every_allocation(void **state)
{
	uint64_t count, version = 2;
	struct bench b;

	bench_open(&b, *state, any_kind(*state), "sync", "tree");
	take(&b, 1);
	kedge__fault_set(NULL, NULL);
	take(&b, 2);
	count = kedge__fault_alloc_count();
	for (uint64_t n = 1; n <= count; n += count / 60 + 1) {
		char fault[32];
		int rc;

		text_make(fault, sizeof(fault), "alloc@%llu", (unsigned long long)n);
		b.big[n * 4099 % BIG] ^= 1;
		assert_int_equal(kedge__fault_set(fault, NULL), 0);
		rc = kedge_checkpoint(b.tracked, ++version);
		kedge__fault_set(NULL, NULL);
		assert_true(rc == 0 || rc == KEDGE_E_NOMEM);
		if (!rc) {
			uint8_t *kept = malloc(BIG);

			assert_non_null(kept);
			memcpy(kept, b.big, BIG);
			assert_ok(b.tracked, kedge_restart(b.tracked, version, NULL));
			assert_memory_equal(b.big, kept, BIG);
			free(kept);
		}
	}
	take_both(&b, version + 1);
	b.big[9] ^= 1;
	take(&b, version + 2);
	bench_close(&b);
}

/* Memory is what was restored, not what was last collected. */
static void test_after_a_restart(void **state)
{
	struct bench b;
	kedge_t *both[2];

	bench_open(&b, *state, any_kind(*state), "sync", "basic");
	both[0] = b.tracked;
	both[1] = b.plain;
	take(&b, 1);
	fill_random(b.big, BIG / 2, 5);
	take(&b, 2);
	for (int i = 0; i < 2; i++)
		assert_ok(both[i], kedge_restart(both[i], 1, NULL));
	b.big[BIG - 1] ^= 1;
	take(&b, 2);
	b.big[0] ^= 1;
	take(&b, 3);
	bench_close(&b);
	bench_open(&b, *state, any_kind(*state), "sync", "tree");
	take(&b, 1);
	bench_close(&b);
}

/* What a device does: pages change, and the tracker knows nothing of it. */
static void write_unseen(struct bench *b, size_t at, size_t bytes)
{
	fill_random(b->big + at, bytes, at + bytes);
	assert_int_equal(kedge__tracker_collect(b->tracked->track.tracker, NULL), 0);
}

/* A long run is found at once, and the version that would have missed it has it. */
static void test_audit_finds_a_run(void **state)
{
	struct bench b;

	kedge_set_log(place_log, *state);
	bench_open(&b, *state, any_kind(*state), "sync", "tree");
	take(&b, 1);
	take(&b, 2);
	write_unseen(&b, 300000, 128 * 4096 + 4096);
	take(&b, 3);
	assert_null(b.tracked->track.tracker);
	assert_non_null(strstr(place_said(b.p), "did not see it"));
	b.big[7] ^= 1;
	take(&b, 4);
	bench_close(&b);
	kedge_set_log(NULL, NULL);
}

/* What a debugger writes is behind the back of mprotect, whose pages are read-only for everyone else. */
static void test_audit_finds_forced_writes(void **state)
{
	size_t at = 64 * 4096, bytes = 129 * 4096;
	struct bench b;
	uint8_t *fresh;
	int fd;

	if (!tracker_here(*state, "mprotect"))
		return;
	fresh = malloc(bytes);
	fd = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
	assert_true(fresh && fd >= 0);
	kedge_set_log(place_log, *state);
	bench_open(&b, *state, "mprotect", "sync", "tree");
	take(&b, 1);
	take(&b, 2);
	fill_random(fresh, bytes, 11);
	if (pwrite(fd, fresh, bytes, (off_t)(uintptr_t)(b.big + at)) == (ssize_t)bytes) {
		take(&b, 3);
		assert_null(b.tracked->track.tracker);
		assert_non_null(strstr(place_said(b.p), "did not see it"));
	}
	close(fd);
	free(fresh);
	bench_close(&b);
	kedge_set_log(NULL, NULL);
}

/* A page is found in as many versions as it takes to look at each once; an honest tracker is never blamed. */
static void test_audit_comes_round(void **state)
{
	uint64_t version = 2;
	struct bench b;

	bench_open(&b, *state, any_kind(*state), "sync", "basic");
	take(&b, 1);
	take(&b, 2);
	for (; version < 140; version++) {
		b.big[version * 5000 % BIG] ^= 1;
		assert_ok(b.tracked, kedge_checkpoint(b.tracked, version + 1));
	}
	assert_non_null(b.tracked->track.tracker);
	write_unseen(&b, 77 * 4096 + 100, 1);
	while (b.tracked->track.tracker && version < 140 + 128)
		assert_ok(b.tracked, kedge_checkpoint(b.tracked, ++version));
	assert_null(b.tracked->track.tracker);
	take_both(&b, version + 1);
	bench_close(&b);
}

/* A region that devices write to is looked at as a whole, always. */
static void test_device_region(void **state)
{
	struct bench b;

	bench_open(&b, *state, any_kind(*state), "sync", "tree");
	assert_int_equal(kedge_region_flags(b.tracked, "nothing", KEDGE_REGION_DEVICE), KEDGE_E_NOTFOUND);
	assert_int_equal(kedge_region_flags(b.tracked, "big", 2), KEDGE_E_ARG);
	take(&b, 1);
	assert_ok(b.tracked, kedge_region_flags(b.tracked, "big", KEDGE_REGION_DEVICE));
	assert_int_equal(b.tracked->track.ranges.count, 0);
	protect(&b); /* changes nothing of it */
	take(&b, 2);
	write_unseen(&b, 4096 * 9, 10);
	take(&b, 3);
	assert_int_equal(b.tracked->track.ranges.count, 0);
	assert_ok(b.tracked, kedge_region_flags(b.tracked, "big", 0));
	take(&b, 4);
	assert_int_equal(b.tracked->track.ranges.count, 1);
	b.big[50] ^= 1;
	take(&b, 5);
	bench_close(&b);
}

static bool is_watched(const struct bench *b)
{
	assert_int_equal(b->tracked->track.ranges.count, 1);
	return b->tracked->track.ranges.at[0].watched;
}

/* How much the tracker found written for the last version; nothing: it does not know. */
static uint64_t found_dirty(struct bench *b)
{
	uint64_t bytes = (uint64_t)b->tracked->advice.policy.dirty.value;

	b->tracked->advice.policy.dirty = (struct kedge__controller_mean){0};
	return bytes;
}

/*
 * A program that writes to all of its memory each time is not watched. When it begins to change little, the first such
 * version is compared as a whole, and from the next one on the tracker knows the pages. No version misses a change.
 */
static void dense(struct place *p, const char *capture)
{
	struct bench b;

	bench_open(&b, p, any_kind(p), capture, "basic");
	for (uint64_t v = 1; v <= 24; v++) {
		bool all = v < 10 || (v >= 14 && v < 20);

		if (all)
			fill_random(b.big, BIG, v);
		else
			b.big[v * 3000] ^= 1;
		take(&b, v);
		assert_int_equal(is_watched(&b), v < 3 || v == 6 || !all || v == 7 || v == 14);
		if (v > 10 && !all)
			assert_in_range(found_dirty(&b), v == 20 ? BIG : 1, v == 20 ? BIG + 4096 : 4 * 4096);
		else
			found_dirty(&b);
		if (v == 5) /* which is as if nothing was known of it */
			assert_ok(b.tracked, kedge_restart(b.tracked, v, NULL));
	}
	bench_close(&b);
}

/* Pages that are written with what was there are not watched time and again. */
static void test_dense_by_writes_alone(void **state)
{
	struct bench b;
	unsigned watched = 0;

	bench_open(&b, *state, any_kind(*state), "sync", "basic");
	for (uint64_t v = 1; v <= 40; v++) {
		for (size_t at = 0; at < BIG; at += 512)
			*(volatile uint8_t *)&b.big[at] = b.big[at];
		take(&b, v);
		watched += is_watched(&b);
	}
	assert_int_equal(watched, 5);
	bench_close(&b);
}

static void test_dense_regions_rest(void **state)
{
	dense(*state, "sync");
	dense(*state, "cow-user");
}

static void test_when_not(void **state)
{
	struct place *p = *state;
	char path[300];
	kedge_t *k = job_open(p, false, MORE("track=auto", "paranoid=yes"));

	assert_null(k->track.tracker);
	assert_ok(k, kedge_close(k));
	k = job_open(p, false, MORE("track=auto", "reducer=full"));
	assert_null(k->track.tracker);
	assert_ok(k, kedge_close(k));
	k = job_open(p, false, MORE("track=none"));
	assert_null(k->track.tracker);
	assert_ok(k, kedge_close(k));
	k = job_open(p, false, NULL);
	assert_true((k->track.tracker == NULL) == kedge__device_find("", path, sizeof(path)));
	assert_ok(k, kedge_close(k));
}

static void test_kind_that_is_not_there(void **state)
{
	struct options o;
	kedge_t *k = NULL;
	int rc;

	if (kedge__tracker_probe("softdirty", NULL) == 0)
		skip();
	rc = kedge_open("job", NULL, options_make(&o, *state, false, MORE("track=softdirty")), &k);
	assert_true(rc < 0);
	assert_non_null(strstr(kedge_last_error(NULL), "track = softdirty"));
}

#define COMMON ((size_t)4 << 20) /* large enough for copy-on-write */

#ifdef __SANITIZE_THREAD__ /* of 25 pairs of ways, those with each way first and second */
#define PAIR_STEP 4
#else
#define PAIR_STEP 1
#endif

/* Some bytes change, then both of two jobs over the same memory take a version, while more change. */
static void take_turn(kedge_t *const *jobs, uint8_t *m, uint64_t *seed, uint64_t version)
{
	static uint8_t want[2][COMMON], got[COMMON];
	struct kedge_target target = {"m", got, COMMON};

	for (size_t j = 0; j < 2; j++) {
		for (int i = 0; i < 20; i++)
			m[draw(seed) % COMMON]++;
		memcpy(want[j], m, COMMON);
		assert_ok(jobs[j], kedge_checkpoint(jobs[j], version));
	}
	for (size_t j = 0; j < 2; j++) {
		assert_ok(jobs[j], kedge_wait(jobs[j]));
		assert_ok(jobs[j], kedge_read(jobs[j], version, &target, 1));
		assert_memory_equal(got, want[j], COMMON);
	}
}

/* A page has one mark, which two trackers would take away from each other. */
static void test_two_jobs(void **state)
{
	static const char *const ways[][2] = {
	    {"auto", "sync"}, {"auto", "copy"}, {"auto", "cow"}, {"none", "cow"}, {"mprotect", "copy"}};
	struct place *p = *state;
	uint8_t *m = mmap(NULL, COMMON, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t seed = 1;

	assert_ptr_not_equal(m, MAP_FAILED);
	fill_random(m, COMMON, 1);
	for (size_t i = 0; i < KEDGE__COUNT(ways) * KEDGE__COUNT(ways); i += PAIR_STEP) {
		const char *const *a = ways[i / KEDGE__COUNT(ways)], *const *b = ways[i % KEDGE__COUNT(ways)];
		kedge_t *jobs[2];
		char dir[400];

		jobs[0] = open_at(p, "one", a[0], a[1], "tree");
		jobs[1] = open_at(p, "two", b[0], b[1], "tree");
		for (size_t j = 0; j < 2; j++)
			assert_ok(jobs[j], kedge_protect(jobs[j], "m", m, COMMON, KEDGE_U8));
		for (uint64_t v = 1; v <= 6; v++)
			take_turn(jobs, m, &seed, v);
		for (size_t j = 0; j < 2; j++)
			assert_ok(jobs[j], kedge_close(jobs[j]));
		text_make(dir, sizeof(dir), "%s/one", p->dir);
		tree_remove(dir);
		text_make(dir, sizeof(dir), "%s/two", p->dir);
		tree_remove(dir);
	}
	munmap(m, COMMON);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    JOB(test_oracle),
	    JOB(test_only_what_was_written),
	    JOB(test_after_a_failure),
	    JOB(test_after_a_restart),
	    JOB(test_every_allocation),
	    JOB(test_audit_finds_a_run),
	    JOB(test_audit_finds_forced_writes),
	    JOB(test_audit_comes_round),
	    JOB(test_device_region),
	    JOB(test_dense_regions_rest),
	    JOB(test_dense_by_writes_alone),
	    JOB(test_when_not),
	    JOB(test_kind_that_is_not_there),
	    JOB(test_two_jobs),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
