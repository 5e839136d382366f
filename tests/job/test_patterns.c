/* SPDX-License-Identifier: BSD-3-Clause */
/* A job whose reducer is auto goes over to the patterns of rex and back, however its memory is captured. */
#include "job/handle.h"
#include "support.h"

#define PAGE     4096u
#define PAGES    256u
#define BYTES    ((size_t)PAGES * PAGE)
#define PATTERN  32u
#define VERSIONS 14

struct world {
	struct place *p;
	kedge_t *k;
	uint8_t *memory, *was[VERSIONS + 1];
	uint64_t seed;
};

/* A new element in each page, which moves those behind it. */
static void insert(struct world *w)
{
	for (unsigned i = 0; i < PAGES; i++) {
		uint8_t *page = w->memory + (size_t)i * PAGE;

		memmove(page + 8 * PATTERN, page + 7 * PATTERN, PAGE - 8 * PATTERN);
		draw_bytes(&w->seed, page + 7 * PATTERN, PATTERN);
	}
}

static void start(struct world *w, const char *const *more)
{
	w->k = job_open(w->p, false, more);
	assert_ok(w->k, kedge_protect(w->k, "memory", w->memory, BYTES, KEDGE_BYTES));
}

/* Bytes of the segment of version V. */
static uint64_t take(struct world *w, uint64_t v)
{
	char path[600];
	uint8_t *file;
	size_t bytes;

	w->was[v] = malloc(BYTES);
	assert_non_null(w->was[v]);
	memcpy(w->was[v], w->memory, BYTES);
	assert_ok(w->k, kedge_checkpoint(w->k, v));
	assert_ok(w->k, kedge_wait(w->k));
	segment_path(w->p->l1, v, 0, path, sizeof(path));
	file = file_read(path, &bytes);
	free(file);
	return bytes;
}

static bool by_patterns(const struct world *w)
{
	return kedge__reducer_options_of(w->k->baseline.reducer)->id == KEDGE__REDUCER_REX;
}

static void compare_all(struct world *w, uint64_t last)
{
	uint8_t *got = malloc(BYTES);

	assert_non_null(got);
	for (uint64_t v = 1; v <= last; v++) {
		struct kedge_target target = {"memory", got, BYTES};

		assert_ok(w->k, kedge_read(w->k, v, &target, 1));
		assert_memory_equal(got, w->was[v], BYTES);
	}
	free(got);
}

static void world_init(struct world *w, struct place *p)
{
	*w = (struct world){.p = p, .seed = 5};
	w->memory = kedge__map_alloc(BYTES);
	assert_non_null(w->memory);
	draw_bytes(&w->seed, w->memory, BYTES);
}

static void world_done(struct world *w)
{
	for (size_t v = 0; v <= VERSIONS; v++)
		free(w->was[v]);
	kedge__map_free(w->memory, BYTES);
	tree_remove(w->p->l1);
}

static void series(struct place *p, const char *const *more)
{
	struct world w;
	uint64_t v = 1;

	world_init(&w, p);
	start(&w, more);
	take(&w, v++);
	for (; !by_patterns(&w); v++) {
		insert(&w);
		assert_true(v <= 5);
		take(&w, v);
	}
	for (; v <= 7; v++) {
		insert(&w);
		assert_true(take(&w, v) < BYTES / 16);
	}
	/* The next process: what it takes first is compared with what the store has. */
	assert_ok(w.k, kedge_close(w.k));
	start(&w, more);
	assert_ok(w.k, kedge_restart(w.k, KEDGE_NEWEST, NULL));
	assert_memory_equal(w.memory, w.was[v - 1], BYTES);
	for (; v <= VERSIONS; v++) {
		if (v < 10)
			insert(&w);
		else
			draw_bytes(&w.seed, w.memory, BYTES);
		take(&w, v);
	}
	assert_false(by_patterns(&w));
	compare_all(&w, VERSIONS);
	assert_ok(w.k, kedge_close(w.k));
	world_done(&w);
}

static void test_sync(void **state)
{
	series(*state, MORE("capture=sync", "track=none"));
}

static void test_copy(void **state)
{
	series(*state, MORE("capture=copy", "codec=none"));
}

static void test_cow(void **state)
{
	series(*state, MORE("capture=cow"));
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {JOB(test_sync), JOB(test_copy), JOB(test_cow)};

	return cases_run(argc, argv, tests, NULL, NULL);
}
