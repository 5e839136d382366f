/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Many regions, and names that come and go: slots are used again, and no version is harmed by it. The program is linked
 * so that calls of strcmp() and memmove() come by here (CMakeLists.txt): how work grows is counted, not timed.
 */
#include "support.h"

#include <malloc.h>

static _Atomic uint64_t steps; /* strings compared, and KiB moved */

int __real_strcmp(const char *a, const char *b);
void *__real_memmove(void *to, const void *from, size_t bytes);
int __wrap_strcmp(const char *a, const char *b);
void *__wrap_memmove(void *to, const void *from, size_t bytes);

int __wrap_strcmp(const char *a, const char *b)
{
	steps++;
	return __real_strcmp(a, b);
}

void *__wrap_memmove(void *to, const void *from, size_t bytes)
{
	steps += bytes >> 10;
	return __real_memmove(to, from, bytes);
}

/* ------------------------------------------------------------------ random lives */

enum { VERSIONS = SANITIZED ? 20 : 30, RESTART_EVERY = SANITIZED ? 3 : 1 };
enum { ROOMS = 24, ROOM_BYTES = 72 << 10 };

struct tenant { /* a region as it is, or as a version has it */
	char name[16];
	size_t room, bytes;
	uint8_t *copy; /* in a version */
};

struct life {
	const struct place *place;
	const char *const *settings;
	kedge_t *k;
	uint8_t (*rooms)[ROOM_BYTES];
	bool taken[ROOMS];
	struct tenant now[ROOMS];
	size_t count;
	struct {
		struct tenant all[ROOMS];
		size_t count;
		bool there;
	} past[VERSIONS + 1];
	uint64_t state; /* of draw() */
	int names;
};

static void leave(struct life *l, size_t i)
{
	assert_ok(l->k, kedge_unprotect(l->k, l->now[i].name));
	l->taken[l->now[i].room] = false;
	l->now[i] = l->now[--l->count];
}

static void protect(struct life *l, const struct tenant *t)
{
	assert_ok(l->k, kedge_protect(l->k, t->name, l->rooms[t->room], t->bytes, KEDGE_BYTES));
}

/* Into any free room, as it was left: often with what another region had there. */
static void move_in(struct life *l)
{
	static const size_t sizes[] = {0, 1, 100, 4096, 5000, 20000, ROOM_BYTES, ROOM_BYTES};
	struct tenant *t = &l->now[l->count];
	/* A name that was there once, or a new one. */
	int name = draw_below(&l->state, 4) || !l->names ? l->names++ : (int)draw_below(&l->state, (unsigned)l->names);

	text_make(t->name, sizeof(t->name), "n%d", name);
	for (size_t i = 0; i < l->count; i++) {
		if (strcmp(l->now[i].name, t->name) == 0)
			return;
	}
	for (t->room = draw_below(&l->state, ROOMS); l->taken[t->room];)
		t->room = (t->room + 1) % ROOMS;
	t->bytes = sizes[draw_below(&l->state, KEDGE__COUNT(sizes))];
	l->taken[t->room] = true;
	l->count++;
	protect(l, t);
}

static void write_some(struct life *l)
{
	struct tenant *t = &l->now[draw_below(&l->state, (unsigned)l->count)];
	uint8_t *data = l->rooms[t->room];

	switch (draw_below(&l->state, 4)) {
	case 0: /* what another room has */
		memcpy(data, l->rooms[draw_below(&l->state, ROOMS)], draw_below(&l->state, ROOM_BYTES));
		break;
	case 1:
		memset(data + draw_below(&l->state, ROOM_BYTES / 2), (int)draw_below(&l->state, 3),
		       draw_below(&l->state, ROOM_BYTES / 2));
		break;
	default:
		fill_random(data + draw_below(&l->state, ROOM_BYTES - 600), draw_below(&l->state, 600), l->state);
	}
}

static void past_drop(struct life *l, uint64_t version)
{
	for (size_t i = 0; i < l->past[version].count; i++)
		free(l->past[version].all[i].copy);
	l->past[version].count = 0;
	l->past[version].there = false;
}

static void checkpoint(struct life *l, uint64_t version)
{
	for (size_t i = 0; i < l->count; i++) {
		struct tenant *t = &l->past[version].all[i];

		*t = l->now[i];
		t->copy = malloc(t->bytes + 1);
		assert_non_null(t->copy);
		memcpy(t->copy, l->rooms[t->room], t->bytes);
	}
	l->past[version].count = l->count;
	l->past[version].there = true;
	assert_ok(l->k, kedge_checkpoint(l->k, version));
}

/* A new process, as far as the library knows: it protects what VERSION has, and restarts from it. */
static void restart(struct life *l, uint64_t version)
{
	if (l->k)
		assert_ok(NULL, kedge_close(l->k));
	l->k = job_open(l->place, false, l->settings);
	memset(l->taken, 0, sizeof(l->taken));
	memset(l->rooms, 0xa5, ROOMS * sizeof(*l->rooms));
	l->count = l->past[version].count;
	for (size_t i = 0; i < l->count; i++) {
		l->now[i] = l->past[version].all[i];
		l->taken[l->now[i].room] = true;
		protect(l, &l->now[i]);
	}
	assert_ok(l->k, kedge_restart(l->k, version, NULL));
	for (size_t i = 0; i < l->count; i++)
		assert_memory_equal(l->rooms[l->now[i].room], l->past[version].all[i].copy, l->now[i].bytes);
}

static void step(struct life *l, uint64_t version)
{
	for (unsigned n = draw_below(&l->state, 5); n && l->count; n--)
		leave(l, draw_below(&l->state, (unsigned)l->count));
	for (unsigned n = draw_below(&l->state, 6) + !l->count; n && l->count < ROOMS - 1; n--)
		move_in(l);
	for (unsigned n = draw_below(&l->state, 8); n && l->count; n--)
		write_some(l);
	checkpoint(l, version);
}

static void live(void **state, const char *const *settings)
{
	struct life *l = calloc(1, sizeof(*l));

	assert_non_null(l);
	*l = (struct life){.place = *state, .settings = settings, .state = 20};
	l->rooms = aligned_alloc(4096, sizeof(*l->rooms) * ROOMS);
	assert_non_null(l->rooms);
	fill_random(l->rooms, sizeof(*l->rooms) * ROOMS / 2, 1);
	memset(l->rooms[ROOMS / 2], 0, sizeof(*l->rooms) * ROOMS / 2);
	l->k = job_open(l->place, false, settings);
	for (uint64_t v = 1; v <= VERSIONS; v++) {
		step(l, v);
		if (v == 12)
			restart(l, 12);
		if (v == 18) { /* those above go with the next checkpoint */
			restart(l, 15);
			past_drop(l, 16);
			past_drop(l, 17);
			past_drop(l, 18);
		}
	}
	for (uint64_t v = 1; v <= VERSIONS; v++) {
		if (l->past[v].there && v % RESTART_EVERY == VERSIONS % RESTART_EVERY)
			restart(l, v);
		past_drop(l, v);
	}
	assert_ok(NULL, kedge_close(l->k));
	free(l->rooms);
	free(l);
}

static void test_lives_full(void **state)
{
	live(state, MORE("reducer=full"));
}

static void test_lives_basic(void **state)
{
	live(state, MORE("reducer=basic", "track=auto"));
}

static void test_lives_list(void **state)
{
	live(state, MORE("reducer=list", "chunk=64"));
}

static void test_lives_tree(void **state)
{
	live(state, MORE("reducer=tree", "track=auto", "capture=copy"));
}

static void test_lives_rex(void **state)
{
	live(state, MORE("reducer=rex", "track=auto"));
}

static void test_lives_cow(void **state)
{
	live(state, MORE("reducer=tree", "track=auto", "capture=cow"));
}

static void test_lives_paranoid(void **state)
{
	live(state, MORE("reducer=list", "paranoid=yes"));
}

static void test_lives_packed(void **state)
{
	live(state, MORE("reducer=auto", "codec=max"));
}

/* ------------------------------------------------------------------ how work grows */

static void names_protect(kedge_t *k, uint8_t *memory, int round, int count)
{
	char name[32];

	for (int i = 0; i < count; i++) {
		snprintf(name, sizeof(name), "r%d.%d", round, i);
		assert_ok(k, kedge_protect(k, name, memory + i, 1, KEDGE_U8));
	}
}

static void names_unprotect(kedge_t *k, int round, int count)
{
	char name[32];

	for (int i = 0; i < count; i++) {
		snprintf(name, sizeof(name), "r%d.%d", round, i);
		assert_ok(k, kedge_unprotect(k, name));
	}
}

/* Steps of a life with COUNT names: two versions, of which the second has other names, a restart and a read. */
static uint64_t steps_of(const struct place *p, int count, const char *reducer)
{
	uint8_t *memory = malloc((size_t)count);
	struct kedge_target *targets = calloc((size_t)count, sizeof(*targets));
	struct kedge_region_entry *list;
	uint64_t before = steps;
	size_t n;
	kedge_t *k;

	assert_true(memory && targets);
	fill_random(memory, (size_t)count, 5);
	k = job_open(p, false, MORE(reducer));
	names_protect(k, memory, 0, count);
	assert_ok(k, kedge_checkpoint(k, 1));
	names_unprotect(k, 0, count);
	names_protect(k, memory, 1, count);
	assert_ok(k, kedge_checkpoint(k, 2));
	assert_ok(NULL, kedge_close(k));
	k = job_open(p, false, MORE(reducer));
	names_protect(k, memory, 1, count);
	assert_ok(k, kedge_restart(k, 2, NULL));
	assert_ok(k, kedge_regions(k, 1, &list, &n));
	assert_int_equal(n, count);
	for (size_t i = 0; i < n; i++)
		targets[i] = (struct kedge_target){list[i].name, memory + i, 1};
	assert_ok(k, kedge_read(k, 1, targets, n));
	kedge_free(list);
	assert_ok(NULL, kedge_close(k));
	free(targets);
	free(memory);
	tree_remove(p->l1);
	return steps - before;
}

/* Eight times the regions are eight times the work, or a little more, and not 64 times. */
static void test_work_grows_with_regions(void **state)
{
	static const char *const reducers[] = {"reducer=full", "reducer=tree", "reducer=rex"};

	for (size_t i = 0; i < KEDGE__COUNT(reducers); i++) {
		uint64_t few = steps_of(*state, 1000, reducers[i]), many = steps_of(*state, 8000, reducers[i]);

		assert_in_range(few, 1000, 1000 * 100);
		assert_in_range(many, few, few * 12);
	}
}

/* A version does not pay for names that only older ones have, in work or in memory (where the allocator tells). */
static void test_old_names_cost_nothing(void **state)
{
	uint8_t memory[2000];
	uint64_t early = 0, late = 0;
	size_t early_bytes = 0;
	kedge_t *k = job_open(*state, false, MORE("reducer=basic", "keep=2"));

	fill_random(memory, sizeof(memory), 9);
	for (int round = 0; round < 16; round++) {
		uint64_t before = steps;

		names_protect(k, memory, round, sizeof(memory));
		assert_ok(k, kedge_checkpoint(k, (uint64_t)round));
		names_unprotect(k, round, sizeof(memory));
		assert_ok(k, kedge_wait(k)); /* who removes old versions needs memory, too */
		if (round == 7) {
			early = steps - before;
			early_bytes = mallinfo2().uordblks;
		}
		late = steps - before;
	}
	assert_in_range(late, 1, early * 3 / 2);
	assert_in_range(mallinfo2().uordblks, 0, early_bytes + (512 << 10));
	assert_ok(NULL, kedge_close(k));
}

/* A job goes on when it has used more names than there are slots. */
static void test_more_names_than_slots(void **state)
{
	enum { ROUNDS = 5, NAMES = (1 << 20) / 5 + 1000 };
	uint8_t *memory = malloc(NAMES), *copy = malloc(NAMES);
	kedge_t *k = job_open(*state, false, MORE("reducer=full", "codec=none"));
	uint64_t version = 0;

	assert_true(memory && copy);
	for (int round = 0; round < ROUNDS; round++) {
		fill_random(memory, NAMES, (uint64_t)round);
		if (round)
			names_unprotect(k, round - 1, NAMES);
		names_protect(k, memory, round, NAMES);
		assert_ok(k, kedge_checkpoint(k, (uint64_t)round));
	}
	assert_ok(NULL, kedge_close(k));
	memcpy(copy, memory, NAMES);
	memset(memory, 0, NAMES);
	k = job_open(*state, false, MORE("reducer=full", "codec=none"));
	names_protect(k, memory, ROUNDS - 1, NAMES);
	assert_ok(k, kedge_restart(k, KEDGE_NEWEST, &version));
	assert_int_equal(version, ROUNDS - 1);
	assert_memory_equal(memory, copy, NAMES);
	assert_ok(NULL, kedge_close(k));
	free(memory);
	free(copy);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    JOB(test_lives_full),
	    JOB(test_lives_basic),
	    JOB(test_lives_list),
	    JOB(test_lives_tree),
	    JOB(test_lives_rex),
	    JOB(test_lives_cow),
	    JOB(test_lives_paranoid),
	    JOB(test_lives_packed),
	    JOB(test_work_grows_with_regions),
	    JOB(test_old_names_cost_nothing),
	    JOB(test_more_names_than_slots),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
