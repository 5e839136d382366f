/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that is written to while it is saved, by threads that stand still for kedge_checkpoint() alone. The save is
 * held up until they have written, so that it always happens; and nothing may have been reduced before.
 */
#include "cow.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define PAGE     ((size_t)4096)
#define GRID     ((size_t)512 * PAGE) /* its mapping; it begins smaller and grows */
#define HEAP     ((size_t)270001)
#define GUEST    ((size_t)80 * PAGE)
#define VERSIONS 6
#define WRITERS  2
#define FEW      40
#define MANY     500

/* Under the thread sanitizer every call is slow, and fewer of them show the same. */
#if defined(__SANITIZE_THREAD__)
#define STEP 5
#else
#define STEP 2
#endif

struct world {
	uint8_t *grid, *heap, *guest; /* a guest comes and goes */
	size_t grid_bytes;
	uint8_t *was[VERSIONS + 1][3]; /* grid, heap, guest */
	size_t bytes[VERSIONS + 1];    /* of the grid */
	kedge_t *k;

	pthread_mutex_t lock;
	pthread_cond_t turn;
	uint64_t bursts, allowed;      /* of all writers */
	uint64_t wanted[VERSIONS + 1]; /* before the save of a version goes on */
	int active;
	bool over;
	pthread_t threads[WRITERS];
	struct writer {
		struct world *w;
		uint64_t seed;
		size_t lane;
	} writers[WRITERS];
};

/* ---- the threads of the application */

/* What rex tells apart: noise, constants, moves within a page, a page that is there already. */
static void page_write(uint8_t *page, const uint8_t *other, uint64_t *seed)
{
	size_t n = 32 * (1 + draw_below(seed, 60));

	switch (draw_below(seed, 6)) {
	case 0:
		fill_random(page, PAGE, draw_below(seed, 1000));
		break;
	case 1:
		memset(page, (int)draw_below(seed, 3), PAGE);
		break;
	case 2:
		memmove(page + n, page, PAGE - n);
		break;
	case 3:
		memcpy(page, other, PAGE);
		break;
	case 4:
		fill_random(page + n, n, draw_below(seed, 1000));
		break;
	default:
		page[n] ^= 1;
	}
}

/* No two writers have a page in common. */
static void burst(struct world *w, struct writer *r)
{
	size_t pages = w->grid_bytes / PAGE / WRITERS;
	uint8_t *page = w->grid + (draw_below(&r->seed, pages) * WRITERS + r->lane) * PAGE;
	const uint8_t *other = w->grid + (draw_below(&r->seed, pages) * WRITERS + r->lane) * PAGE;

	if (page != other)
		page_write(page, other, &r->seed);
	w->heap[draw_below(&r->seed, HEAP / WRITERS) * WRITERS + r->lane] ^= 7;
	if (w->guest)
		w->guest[draw_below(&r->seed, GUEST / WRITERS) * WRITERS + r->lane] ^= 1;
}

static bool burst_begin(struct world *w)
{
	bool go;

	pthread_mutex_lock(&w->lock);
	while (!w->over && w->bursts + (uint64_t)w->active >= w->allowed)
		pthread_cond_wait(&w->turn, &w->lock);
	go = !w->over;
	w->active += go;
	pthread_mutex_unlock(&w->lock);
	return go;
}

static void *writer_main(void *ctx)
{
	struct writer *r = ctx;

	while (burst_begin(r->w)) {
		burst(r->w, r);
		pthread_mutex_lock(&r->w->lock);
		r->w->active--;
		r->w->bursts++;
		pthread_cond_broadcast(&r->w->turn);
		pthread_mutex_unlock(&r->w->lock);
	}
	return NULL;
}

/* In the background, when a part of the image was read: the rest is read when it has been written to. */
static void hold_up(void *user, const struct kedge_progress *p)
{
	struct world *w = user;

	if (strcmp(p->phase, "hash") != 0 || w->k->baseline.reduced_at_once)
		return;
	pthread_mutex_lock(&w->lock);
	while (w->bursts < w->wanted[p->version])
		pthread_cond_wait(&w->turn, &w->lock);
	pthread_mutex_unlock(&w->lock);
}

static void let_write(struct world *w, uint64_t bursts)
{
	pthread_mutex_lock(&w->lock);
	w->allowed += bursts;
	pthread_cond_broadcast(&w->turn);
	while (w->bursts < w->allowed)
		pthread_cond_wait(&w->turn, &w->lock);
	pthread_mutex_unlock(&w->lock);
}

/* ---- the memory */

static uint8_t *map(size_t bytes, uint64_t seed)
{
	uint8_t *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(p, MAP_FAILED);
	fill_random(p, bytes, seed);
	return p;
}

static void world_new(struct world *w)
{
	memset(w, 0, sizeof(*w));
	pthread_mutex_init(&w->lock, NULL);
	pthread_cond_init(&w->turn, NULL);
	w->grid = map(GRID, 1);
	memset(w->grid + GRID / 4, 0, GRID / 4);
	w->grid_bytes = GRID / 2;
	w->heap = malloc(HEAP);
	assert_non_null(w->heap);
	fill_random(w->heap, HEAP, 2);
	for (size_t i = 0; i < WRITERS; i++) {
		w->writers[i] = (struct writer){w, i + 1, i};
		assert_int_equal(pthread_create(&w->threads[i], NULL, writer_main, &w->writers[i]), 0);
	}
}

static void world_free(struct world *w)
{
	pthread_mutex_lock(&w->lock);
	w->over = true;
	pthread_cond_broadcast(&w->turn);
	pthread_mutex_unlock(&w->lock);
	for (size_t i = 0; i < WRITERS; i++)
		pthread_join(w->threads[i], NULL);
	for (size_t v = 0; v <= VERSIONS; v++)
		for (size_t i = 0; i < 3; i++)
			free(w->was[v][i]);
	munmap(w->grid, GRID);
	if (w->guest)
		munmap(w->guest, GUEST);
	free(w->heap);
	pthread_mutex_destroy(&w->lock);
	pthread_cond_destroy(&w->turn);
}

static uint8_t *copy_of(const void *data, size_t bytes)
{
	uint8_t *copy = malloc(bytes);

	assert_non_null(copy);
	memcpy(copy, data, bytes);
	return copy;
}

static void protect(struct world *w)
{
	assert_ok(w->k, kedge_protect(w->k, "grid", w->grid, w->grid_bytes, KEDGE_U8));
	assert_ok(w->k, kedge_protect(w->k, "heap", w->heap, HEAP, KEDGE_U8));
	if (w->guest)
		assert_ok(w->k, kedge_protect(w->k, "guest", w->guest, GUEST, KEDGE_U8));
}

/* Between two versions, while the one before may still be saved: the grid grows, or moves; the guest comes, or leaves
 * and takes its memory along. */
static void rearrange(struct world *w, uint64_t v)
{
	if (v == 3 || v == 6)
		w->grid_bytes += GRID / 8 + v;
	if (v == 5) {
		uint8_t *grid = map(GRID, 3);

		assert_ok(w->k, kedge_unprotect(w->k, "grid"));
		memcpy(grid, w->grid, w->grid_bytes);
		munmap(w->grid, GRID);
		w->grid = grid;
	}
	if (v % 2 == 0 && !w->guest) {
		w->guest = map(GUEST, v);
	} else if (v % 2 == 0) {
		assert_ok(w->k, kedge_unprotect(w->k, "guest"));
		munmap(w->guest, GUEST);
		w->guest = NULL;
	}
	protect(w);
}

static void remember(struct world *w, uint64_t v)
{
	w->bytes[v] = w->grid_bytes;
	w->was[v][0] = copy_of(w->grid, w->grid_bytes);
	w->was[v][1] = copy_of(w->heap, HEAP);
	w->was[v][2] = w->guest ? copy_of(w->guest, GUEST) : NULL;
}

static void compare(struct world *w, uint64_t v)
{
	uint8_t *got[] = {malloc(w->bytes[v]), malloc(HEAP), malloc(GUEST)};
	struct kedge_target targets[] = {
	    {"grid", got[0], w->bytes[v]}, {"heap", got[1], HEAP}, {"guest", got[2], GUEST}};

	assert_true(got[0] && got[1] && got[2]);
	assert_ok(w->k, kedge_read(w->k, v, targets, w->was[v][2] ? 3 : 2));
	assert_memory_equal(got[0], w->was[v][0], w->bytes[v]);
	assert_memory_equal(got[1], w->was[v][1], HEAP);
	if (w->was[v][2])
		assert_memory_equal(got[2], w->was[v][2], GUEST);
	for (size_t i = 0; i < KEDGE__COUNT(got); i++)
		free(got[i]);
}

/* ---- versions */

/* One that is saved while bursts go on: few of them, or so many that most pages are written. */
static void take(struct world *w, uint64_t v)
{
	remember(w, v);
	pthread_mutex_lock(&w->lock);
	w->wanted[v] = w->bursts + FEW / 2;
	pthread_mutex_unlock(&w->lock);
	assert_ok(w->k, kedge_checkpoint(w->k, v));
	let_write(w, v % 2 ? FEW : MANY);
}

static void series(struct place *p, const char *const *more)
{
	struct world w;

	world_new(&w);
	w.k = cow_open(p, more);
	kedge_set_progress(w.k, hold_up, &w);
	protect(&w);
	for (uint64_t v = 1; v <= VERSIONS; v++) {
		rearrange(&w, v);
		take(&w, v);
	}
	assert_ok(w.k, kedge_wait(w.k));
	assert_int_equal(w.k->baseline.reduced_at_once, 0);
	for (uint64_t v = 1; v <= VERSIONS; v++)
		compare(&w, v);
	assert_ok(w.k, kedge_close(w.k));
	world_free(&w);
	tree_remove(p->l1);
}

static void test_copied(void **state)
{
	series(*state, MORE("capture=copy", "track=none", "reducer=rex", "paranoid=yes"));
	if (tracker_here(*state, "uffd"))
		series(*state, MORE("capture=copy", "track=uffd", "reducer=rex", "pattern=16"));
}

static void test_protected(void **state)
{
	series(*state, MORE("capture=cow-user", "track=none", "reducer=rex", "pattern=256", "codec=none"));
	series(*state, MORE("capture=cow-user", "track=none", "reducer=rex", "paranoid=yes"));
	series(*state, MORE("capture=cow-user", "track=none", "reducer=auto"));
}

static void test_protected_and_tracked(void **state)
{
	if (!tracker_here(*state, "uffd"))
		return;
	series(*state, MORE("capture=cow-user", "track=uffd", "reducer=rex"));
	series(*state, MORE("capture=cow-user", "track=uffd", "reducer=tree"));
}

/* The count counts: at once is where nothing is held, and where what is to be held does not fit. */
static void test_count_of_bytes_reduced_at_once(void **state)
{
	static const char *const captures[] = {"capture=sync", "capture=copy"};
	uint8_t *heap = malloc(HEAP);

	assert_non_null(heap);
	fill_random(heap, HEAP, 1);
	for (size_t i = 0; i < KEDGE__COUNT(captures); i++) {
		kedge_t *k = job_open(*state, false, MORE(captures[i], "copy_memory=100", "reducer=rex"));

		assert_ok(k, kedge_protect(k, "heap", heap, HEAP, KEDGE_U8));
		assert_ok(k, kedge_checkpoint(k, 1 + i));
		assert_ok(k, kedge_wait(k));
		assert_int_equal(k->baseline.reduced_at_once, HEAP);
		assert_ok(k, kedge_close(k));
	}
	free(heap);
}

/* A process that opens a store without a restart: what it builds on is read in the background, too. */
static void test_first_of_a_process(void **state)
{
	struct place *p = *state;
	struct world w;

	world_new(&w);
	for (uint64_t v = 1; v <= 4; v++) {
		w.k = job_open(p, false, MORE("capture=copy", "reducer=rex"));
		kedge_set_progress(w.k, hold_up, &w);
		protect(&w);
		take(&w, v);
		assert_ok(w.k, kedge_wait(w.k));
		assert_int_equal(w.k->baseline.reduced_at_once, 0);
		for (uint64_t past = 1; past <= v; past++)
			compare(&w, past);
		assert_ok(w.k, kedge_close(w.k));
	}
	world_free(&w);
}

/* ---- saves that fail */

/* The N-th call of the file system from the middle of the reduction on. */
struct trap {
	struct world *w;
	char fault[32];
	atomic_bool set;
};

static void trap_spring(void *user, const struct kedge_progress *p)
{
	struct trap *t = user;

	hold_up(t->w, p);
	if (t->fault[0] && !atomic_exchange(&t->set, true))
		kedge__fault_set(t->fault, NULL);
}

static void trap_lay(struct trap *t, struct world *w, const char *action, uint64_t n)
{
	*t = (struct trap){.w = w};
	text_make(t->fault, sizeof(t->fault), "%s@%llu", action, (unsigned long long)n);
	kedge_set_progress(w->k, trap_spring, t);
}

/* Version 2 fails at call N. Whether there was one. */
static bool fails(struct place *p, const char *const *more, uint64_t n)
{
	struct world w;
	struct trap t;
	int rc;

	world_new(&w);
	w.k = cow_open(p, more);
	protect(&w);
	take(&w, 1);
	assert_ok(w.k, kedge_wait(w.k));
	trap_lay(&t, &w, "eio", n);
	take(&w, 2);
	rc = kedge_wait(w.k);
	kedge__fault_set(NULL, NULL);
	assert_true(rc == 0 || rc == KEDGE_E_IO);
	kedge_set_progress(w.k, hold_up, &w);
	take(&w, 3);
	assert_ok(w.k, kedge_wait(w.k));
	assert_int_equal(w.k->baseline.reduced_at_once, 0);
	assert_int_equal(versions_count(w.k), rc ? 2 : 3);
	compare(&w, 1);
	compare(&w, 3);
	assert_ok(w.k, kedge_close(w.k));
	world_free(&w);
	tree_remove(p->l1);
	return rc;
}

static void each_failure(struct place *p, const char *const *more)
{
	int failures = 0;

	for (uint64_t n = 1; n <= 12; n += STEP)
		failures += fails(p, more, n);
	assert_true(failures > (STEP > 1 ? 0 : 1)); /* a failure to note a change in the index is none */
}

static void test_failures(void **state)
{
	each_failure(*state, MORE("capture=copy", "reducer=rex"));
	each_failure(*state, MORE("capture=cow-user", "reducer=rex"));
}

/* A process that dies at call N of saving version 2; it has told what both were. */
static void child_main(struct place *p, const char *const *more, uint64_t n, const char *path)
{
	struct world w;
	struct trap t;
	FILE *f = fopen(path, "w");

	world_new(&w);
	w.k = cow_open(p, more);
	protect(&w);
	take(&w, 1);
	assert_ok(w.k, kedge_wait(w.k));
	trap_lay(&t, &w, "kill", n);
	remember(&w, 2);
	for (uint64_t v = 1; v <= 2; v++)
		assert_int_equal(fwrite(w.was[v][0], 1, w.grid_bytes, f), w.grid_bytes);
	assert_int_equal(fclose(f), 0);
	pthread_mutex_lock(&w.lock);
	w.wanted[2] = w.bursts + FEW;
	pthread_mutex_unlock(&w.lock);
	assert_ok(w.k, kedge_checkpoint(w.k, 2));
	let_write(&w, MANY);
	(void)kedge_wait(w.k);
	_exit(0);
}

static bool dies(struct place *p, const char *const *more, uint64_t n)
{
	uint8_t *got = malloc(GRID / 2), *was = malloc(GRID);
	struct kedge_target target = {"grid", got, GRID / 2};
	char path[400];
	int status;
	uint64_t version = 0;
	pid_t child;
	kedge_t *k;
	FILE *f;

	assert_true(got && was);
	text_make(path, sizeof(path), "%s/was", p->dir);
	fflush(NULL);
	child = fork();
	if (child == 0)
		child_main(p, more, n, path);
	assert_int_equal(waitpid(child, &status, 0), child);
	f = fopen(path, "r");
	assert_non_null(f);
	assert_int_equal(fread(was, 1, GRID, f), GRID);
	fclose(f);
	k = job_open(p, false, NULL);
	assert_ok(k, kedge_find(k, KEDGE_NEWEST, &version));
	assert_true(version == 2 || (version == 1 && WIFSIGNALED(status)));
	assert_ok(k, kedge_read(k, version, &target, 1));
	assert_memory_equal(got, was + (version - 1) * (GRID / 2), GRID / 2);
	assert_ok(k, kedge_close(k));
	free(got);
	free(was);
	tree_remove(p->l1);
	return WIFSIGNALED(status);
}

static void test_crashes(void **state)
{
	int deaths = 0;

	for (uint64_t n = 1; n <= 9; n += STEP)
		deaths += dies(*state, MORE("capture=cow-user", "reducer=rex"), n);
	assert_true(deaths > 1);
}

/* A copy that is new by a sample is hashed as it is stored, and then known: the next version has only what is new. */
static void test_copy_is_read_once(void **state)
{
	static uint8_t big[(size_t)2 << 20], was[sizeof(big)];
	const struct place *p = *state;
	static const char *const reducers[] = {"basic", "tree", "basic"};
	kedge_t *k = job_open(p, false, MORE("capture=copy", "reducer=auto", "chunk=64", "track=none"));
	struct kedge_stats stats;

	assert_ok(k, kedge_protect(k, "big", big, sizeof(big), KEDGE_U8));
	for (uint64_t v = 0; v < 3; v++) {
		if (v == 1)
			big[1000]++;
		else
			fill_random(big, sizeof(big), v + 1);
		memcpy(was, big, sizeof(big));
		assert_ok(k, kedge_checkpoint(k, v));
		memset(big, 0, sizeof(big)); /* it has its own copy */
		assert_ok(k, kedge_wait(k));
		assert_ok(k, kedge_stats_get(k, &stats));
		assert_string_equal(stats.reducer, reducers[v]);
		assert_int_equal(stats.literal_bytes, v == 1 ? 64 : sizeof(big));
		assert_ok(k, kedge_restart(k, v, NULL));
		assert_memory_equal(big, was, sizeof(big));
	}
	assert_ok(k, kedge_close(k));
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    JOB(test_copied),
	    JOB(test_protected),
	    JOB(test_protected_and_tracked),
	    JOB(test_count_of_bytes_reduced_at_once),
	    JOB(test_first_of_a_process),
	    JOB(test_failures),
	    JOB(test_crashes),
	    JOB(test_copy_is_read_once),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
