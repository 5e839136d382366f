/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Jobs that write in the background while threads scribble over the protected memory: every version must be, bit for
 * bit, what the memory was when kedge_checkpoint() was called.
 */
#include "cow.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define BIG      ((size_t)9 << 17)
#define ODD      ((size_t)300001)
#define SMALL    ((size_t)5000)
#define VERSIONS 8
#define WRITERS  2

struct memory {
	uint8_t *big; /* a mapping */
	uint8_t *odd; /* of the heap, not at a page's start */
	uint8_t small[SMALL];
};

struct copies {
	uint8_t *big[VERSIONS + 1], *odd[VERSIONS + 1], *small[VERSIONS + 1];
};

/* A thread of the application. It writes for as long as it is let to, from time to time over a whole stretch. */
struct writer {
	pthread_t thread;
	struct memory *m;
	uint64_t seed;
	atomic_bool *go;
	bool bulk;
};

static void *writer_main(void *ctx)
{
	struct writer *w = ctx;
	size_t lane = w->seed % WRITERS; /* every other byte: no two threads write to one */

	while (atomic_load(w->go)) {
		size_t at = draw_below(&w->seed, (BIG - 9000) / 2) * 2 + lane, n = w->bulk ? 8000 : 2;

		for (size_t i = 0; i < n; i += WRITERS)
			w->m->big[at + i] = (uint8_t)(w->seed >> 40);
		w->m->odd[draw_below(&w->seed, ODD / 2) * 2 + lane] ^= 5;
		w->m->small[draw_below(&w->seed, SMALL / 2) * 2 + lane] ^= 9;
	}
	return NULL;
}

static void writers_start(struct writer *w, struct memory *m, atomic_bool *go, uint64_t version)
{
	atomic_store(go, true);
	for (uint64_t i = 0; i < WRITERS; i++) {
		w[i] = (struct writer){.m = m, .seed = version * WRITERS + i, .go = go, .bulk = version % 3 == 0};
		assert_int_equal(pthread_create(&w[i].thread, NULL, writer_main, &w[i]), 0);
	}
}

static void writers_stop(struct writer *w, atomic_bool *go)
{
	atomic_store(go, false);
	for (int i = 0; i < WRITERS; i++)
		pthread_join(w[i].thread, NULL);
}

static void memory_new(struct memory *m)
{
	m->big = mmap(NULL, BIG, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(m->big, MAP_FAILED);
	m->odd = malloc(ODD);
	assert_non_null(m->odd);
	fill_random(m->big, BIG, 1);
	memset(m->big + BIG / 2, 7, BIG / 4); /* constant pages */
	fill_random(m->odd, ODD, 2);
	fill_random(m->small, SMALL, 3);
}

static void memory_free(struct memory *m)
{
	munmap(m->big, BIG);
	free(m->odd);
}

static void protect(kedge_t *k, struct memory *m)
{
	assert_ok(k, kedge_protect(k, "big", m->big, BIG, KEDGE_U8));
	assert_ok(k, kedge_protect(k, "odd", m->odd, ODD, KEDGE_U8));
	assert_ok(k, kedge_protect(k, "small", m->small, SMALL, KEDGE_U8));
}

static uint8_t *copy_of(const void *data, size_t bytes)
{
	uint8_t *copy = malloc(bytes);

	assert_non_null(copy);
	memcpy(copy, data, bytes);
	return copy;
}

static void copies_take(struct copies *c, const struct memory *m, uint64_t v)
{
	c->big[v] = copy_of(m->big, BIG);
	c->odd[v] = copy_of(m->odd, ODD);
	c->small[v] = copy_of(m->small, SMALL);
}

static void copies_check(kedge_t *k, const struct copies *c, struct memory *m, uint64_t v, uint64_t version)
{
	struct kedge_target targets[] = {{"big", m->big, BIG}, {"odd", m->odd, ODD}, {"small", m->small, SMALL}};

	assert_ok(k, kedge_read(k, version, targets, KEDGE__COUNT(targets)));
	assert_memory_equal(m->big, c->big[v], BIG);
	assert_memory_equal(m->odd, c->odd[v], ODD);
	assert_memory_equal(m->small, c->small[v], SMALL);
}

static void copies_free(struct copies *c)
{
	for (int v = 0; v <= VERSIONS; v++) {
		free(c->big[v]);
		free(c->odd[v]);
		free(c->small[v]);
	}
}

/* A version while nobody writes, and they begin at once. The last ones change little: few pages are dirty then. */
static void series(struct place *p, const char *const *more, size_t stays_below)
{
	struct copies c = {{0}, {0}, {0}};
	struct writer writers[WRITERS];
	struct memory m;
	atomic_bool go;
	kedge_t *k = cow_open(p, more);

	memory_new(&m);
	protect(k, &m);
	for (uint64_t v = 1; v <= VERSIONS; v++) {
		copies_take(&c, &m, v);
		assert_ok(k, kedge_checkpoint(k, v));
		if (v < 6) {
			writers_start(writers, &m, &go, v);
			assert_ok(k, kedge_wait(k));
			writers_stop(writers, &go);
		}
		m.big[v * 4096 + v] ^= 1;
		m.odd[v * 5000] ^= 1;
	}
	assert_ok(k, kedge_wait(k));
	assert_true(stays_below == 0 || k->image.reserve.bytes <= stays_below);
	assert_true(stays_below > 0 || k->baseline.reduced_at_once == 0);
	for (uint64_t v = 1; v <= VERSIONS; v++)
		copies_check(k, &c, &m, v, v);
	assert_ok(k, kedge_close(k));
	memory_free(&m);
	copies_free(&c);
	tree_remove(p->l1);
}

#define REDUCERS 5

/* The first N of them. Each sees the image in the same way. */
static void each_reducer(struct place *p, const char *capture, const char *track, size_t n)
{
	static const char *const reducers[REDUCERS] = {"reducer=tree", "reducer=basic", "reducer=full", "reducer=list",
						       "reducer=auto"};

	for (size_t i = 0; i < n; i++)
		series(p, MORE(capture, track, reducers[i], "codec=lz4", "block=16k"), 0);
}

static void test_copied(void **state)
{
	each_reducer(*state, "capture=copy", "track=none", 2);
	if (tracker_here(*state, "uffd"))
		each_reducer(*state, "capture=copy", "track=uffd", 2);
}

static void test_protected(void **state)
{
	each_reducer(*state, "capture=cow-user", "track=none", REDUCERS);
}

static void test_protected_and_tracked(void **state)
{
	if (tracker_here(*state, "uffd"))
		each_reducer(*state, "capture=cow-user", "track=uffd", 2);
	if (tracker_here(*state, "mprotect"))
		series(*state, MORE("capture=cow-user", "track=mprotect", "reducer=basic"), 0);
}

/* With little room, pages stay protected until they are written, and writers wait for them. */
static void test_little_memory(void **state)
{
	series(*state, MORE("capture=cow-user", "reducer=rex", "copy_memory=1M"), (size_t)1 << 20);
	series(*state, MORE("capture=cow-user", "reducer=full", "copy_memory=4M", "codec=none"), (size_t)4 << 20);
	series(*state, MORE("capture=cow-user", "reducer=tree", "copy_memory=100"), 100);
	series(*state, MORE("capture=copy", "reducer=tree", "copy_memory=1M"), (size_t)1 << 20);
}

#define NEW ((size_t)3 << 20) /* large enough for a sample */

static size_t pages_touched(const struct kedge__reserve *r)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), pages = r->bytes / page, count = 0;
	unsigned char *in = malloc(pages + 1);

	assert_non_null(in);
	assert_int_equal(r->memory ? mincore(r->memory, pages * page, in) : 0, 0);
	for (size_t i = 0; r->memory && i < pages; i++)
		count += in[i] & 1;
	free(in);
	return count;
}

/* What is stored in any case is read once, as it is stored: nothing is copied before, but what is written to first. */
static void test_new_is_not_copied(void **state)
{
	static const char *const reducers[] = {"reducer=full", "reducer=auto"};
	uint8_t *new = mmap(NULL, NEW, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint8_t *was[3], *got = malloc(NEW);
	struct kedge_target target = {"new", got, NEW};

	assert_ptr_not_equal(new, MAP_FAILED);
	for (size_t i = 0; i < KEDGE__COUNT(reducers); i++) {
		kedge_t *k = cow_open(*state, MORE("capture=cow-user", "track=none", reducers[i]));

		assert_ok(k, kedge_protect(k, "new", new, NEW, KEDGE_U8));
		for (uint64_t v = 0; v < 3; v++) {
			fill_random(new, NEW, v);
			was[v] = copy_of(new, NEW);
			assert_ok(k, kedge_checkpoint(k, v));
			memset(new + v *NEW / 3, 0, NEW / 3); /* is written to first, or not */
			assert_ok(k, kedge_wait(k));
			assert_true(!k->image.cow || pages_touched(&k->image.reserve) == 0);
		}
		for (uint64_t v = 0; v < 3; v++) {
			assert_ok(k, kedge_read(k, v, &target, 1));
			assert_memory_equal(got, was[v], NEW);
			free(was[v]);
		}
		assert_ok(k, kedge_close(k));
		tree_remove(((struct place *)*state)->l1);
	}
	munmap(new, NEW);
	free(got);
}

/* Memory may be freed when it is not protected any more, whatever the writer is at. */
static void test_unprotect_waits(void **state)
{
	struct place *p = *state;
	struct kedge_target target;
	uint8_t *was, *got = malloc(BIG);
	kedge_t *k;

	k = cow_open(p, MORE("capture=cow-user", "copy_memory=64k", "codec=zstd:9"));
	target = (struct kedge_target){"big", got, BIG};
	for (uint64_t v = 1; v <= 4; v++) {
		uint8_t *big = mmap(NULL, BIG, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		assert_ptr_not_equal(big, MAP_FAILED);
		fill_random(big, BIG, v);
		was = copy_of(big, BIG);
		assert_ok(k, kedge_protect(k, "big", big, BIG, KEDGE_U8)); /* the one before is let go by the first */
		assert_ok(k, kedge_checkpoint(k, v));
		if (v % 2)
			assert_ok(k, kedge_protect(k, "big", big, BIG / 2, KEDGE_U8));
		else
			assert_ok(k, kedge_unprotect(k, "big"));
		assert_false(k->image.holding);
		munmap(big, BIG);
		assert_ok(k, kedge_wait(k));
		assert_ok(k, kedge_read(k, v, &target, 1));
		assert_memory_equal(got, was, BIG);
		free(was);
	}
	assert_ok(k, kedge_close(k));
	free(got);
}

/* An older version is put where a newer one is being saved from, with room for one page aside. */
static void test_read_into_held_memory(void **state)
{
	struct place *p = *state;
	uint8_t *big = malloc(BIG), *first, *second;
	struct kedge_target target = {"big", big, BIG};
	kedge_t *k;

	fill_random(big, BIG, 1);
	first = copy_of(big, BIG);
	k = cow_open(p, MORE("capture=cow-user", "copy_memory=4k"));
	assert_ok(k, kedge_protect(k, "big", big, BIG, KEDGE_U8));
	assert_ok(k, kedge_checkpoint(k, 1));
	assert_ok(k, kedge_wait(k));
	fill_random(big, BIG, 2);
	second = copy_of(big, BIG);
	assert_ok(k, kedge_checkpoint(k, 2));
	assert_ok(k, kedge_read(k, 1, &target, 1));
	assert_memory_equal(big, first, BIG);
	assert_ok(k, kedge_wait(k));
	assert_ok(k, kedge_read(k, 2, &target, 1));
	assert_memory_equal(big, second, BIG);
	assert_ok(k, kedge_close(k));
	free(big);
	free(first);
	free(second);
}

/* What is not fit for protection is copied: shared memory, constants, two regions of one memory. */
static void test_memory_of_all_kinds(void **state)
{
	static const uint8_t constant[SMALL] = {1, 2, 3};
	struct place *p = *state;
	size_t bytes = (size_t)1 << 20;
	uint8_t *shared, *got = malloc(bytes), *was;
	struct kedge_target targets[2];
	kedge_t *k;

	shared = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(shared, MAP_FAILED);
	fill_random(shared, bytes, 4);
	was = copy_of(shared, bytes);
	k = cow_open(p, MORE("capture=cow-user"));
	assert_ok(k, kedge_protect(k, "constant", (void *)constant, SMALL, KEDGE_U8));
	assert_ok(k, kedge_protect(k, "shared", shared, bytes, KEDGE_U8));
	assert_ok(k, kedge_protect(k, "again", shared + 1000, bytes - 1000, KEDGE_U8));
	assert_ok(k, kedge_checkpoint(k, 1));
	memset(shared, 0, bytes);
	assert_ok(k, kedge_wait(k));
	targets[0] = (struct kedge_target){"shared", got, bytes};
	assert_ok(k, kedge_read(k, 1, targets, 1));
	assert_memory_equal(got, was, bytes);
	targets[0] = (struct kedge_target){"again", got, bytes};
	assert_ok(k, kedge_read(k, 1, targets, 1));
	assert_memory_equal(got, was + 1000, bytes - 1000);
	assert_ok(k, kedge_close(k));
	munmap(shared, bytes);
	free(got);
	free(was);
}

/* A version that could not be written leaves the one before, and memory open; the next one has everything. */
static void test_after_a_failure(void **state)
{
	struct place *p = *state;
	struct copies c = {{0}, {0}, {0}};
	struct memory m;
	kedge_t *k;

	memory_new(&m);
	k = cow_open(p, MORE("capture=cow-user", "reducer=tree"));
	protect(k, &m);
	for (uint64_t v = 1; v <= VERSIONS; v++) {
		copies_take(&c, &m, v);
		if (v % 2 == 0)
			assert_int_equal(kedge__fault_set(v % 4 ? "eio@4" : "enospc@3+", NULL), 0);
		assert_true(kedge_checkpoint(k, v) == 0 || v % 2 == 0);
		memset(m.big + v * 8192, (int)v, 100000);
		assert_true((kedge_wait(k) == 0) == (v % 2 == 1));
		kedge__fault_set(NULL, NULL);
		memset(m.odd, (int)v, ODD / 2);
	}
	for (uint64_t v = 1; v <= VERSIONS; v += 2)
		copies_check(k, &c, &m, v, v);
	assert_int_equal(versions_count(k), VERSIONS / 2);
	assert_ok(k, kedge_close(k));
	memory_free(&m);
	copies_free(&c);
}

/* Whichever allocation fails, a version that is complete has every byte. */
static void test_every_allocation(void **state)
{
	struct place *p = *state;
	struct copies c = {{0}, {0}, {0}};
	uint64_t count, version = 2;
	struct memory m;
	kedge_t *k;

	memory_new(&m);
	k = cow_open(p, MORE("capture=cow-user", "reducer=rex", "codec=none"));
	protect(k, &m);
	assert_ok(k, kedge_checkpoint(k, 1));
	assert_ok(k, kedge_wait(k));
	kedge__fault_set(NULL, NULL);
	assert_ok(k, kedge_checkpoint(k, 2));
	assert_ok(k, kedge_wait(k));
	count = kedge__fault_alloc_count();
	for (uint64_t n = 1; n <= count; n += count / 40 + 1) {
		char fault[32];
		int rc;

		text_make(fault, sizeof(fault), "alloc@%llu", (unsigned long long)n);
		fill_random(m.big + n % 500 * 1000, 500000, n);
		copies_take(&c, &m, 0);
		assert_int_equal(kedge__fault_set(fault, NULL), 0);
		rc = kedge_checkpoint(k, ++version);
		m.big[n % BIG] ^= 1;
		if (!rc)
			rc = kedge_wait(k);
		kedge__fault_set(NULL, NULL);
		assert_true(rc == 0 || rc == KEDGE_E_NOMEM);
		if (!rc)
			copies_check(k, &c, &m, 0, version);
		copies_free(&c);
		memset(&c, 0, sizeof(c));
	}
	assert_ok(k, kedge_close(k));
	memory_free(&m);
}

/* Where system calls could not write to held memory, cow is done by copying, and that is said. */
static void protected_or_copied(struct place *p)
{
	kedge_t *k;

	kedge_set_log(place_log, p);
	k = cow_open(p, MORE("capture=cow"));
	assert_true(k->image.cow == !strstr(place_said(p), "capture = copy is used instead of cow"));
	assert_ok(k, kedge_close(k));
	kedge_set_log(NULL, NULL);
}

static void all_as_this_user(struct place *p)
{
	series(p, MORE("capture=cow-user", "reducer=tree"), 0);
	series(p, MORE("capture=cow", "reducer=rex"), 0);
	protected_or_copied(p);
}

/* In a child where this user may become another; a process that did may not look at /proc/self before it says so. */
static void test_ordinary_user(void **state)
{
	struct place *p = *state;
	int status;
	pid_t child;

	protected_or_copied(p);
	if (geteuid() != 0) {
		all_as_this_user(p);
		return;
	}
	tree_remove(p->l1);
	assert_int_equal(chmod(p->dir, 0777), 0);
	fflush(NULL);
	child = fork();
	if (child == 0) {
		if (setgid(65534) || setuid(65534) || prctl(PR_SET_DUMPABLE, 1))
			_exit(2);
		place_forget(p);
		all_as_this_user(p);
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    JOB(test_copied),
	    JOB(test_protected),
	    JOB(test_protected_and_tracked),
	    JOB(test_little_memory),
	    JOB(test_new_is_not_copied),
	    JOB(test_unprotect_waits),
	    JOB(test_memory_of_all_kinds),
	    JOB(test_after_a_failure),
	    JOB(test_every_allocation),
	    JOB(test_ordinary_user),
	    JOB(test_read_into_held_memory),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
