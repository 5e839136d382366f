/* SPDX-License-Identifier: BSD-3-Clause */
/* Items that come, change their numbers and go, against a plain list of them. */
#include "../lib/draw.h"
#include "support.h"

#define ITEMS 400

struct shelf {
	struct kedge__hash index;
	uint64_t keys[ITEMS]; /* of item i, if it is there */
	size_t count;
	uint64_t spread; /* so many different hashes */
};

static size_t asked;

static bool is_key(const void *ctx, size_t item, const void *key)
{
	asked++;
	return ((const struct shelf *)ctx)->keys[item] == *(const uint64_t *)key;
}

static size_t find(const struct shelf *s, uint64_t key)
{
	return kedge__hash_find(&s->index, key % s->spread, is_key, s, &key);
}

/* The last item takes the number of the one that goes, as the users of the index have it. */
static void take_out(struct shelf *s, size_t i)
{
	kedge__hash_remove(&s->index, s->keys[i] % s->spread, i);
	s->count--;
	if (i != s->count)
		kedge__hash_move(&s->index, s->keys[s->count] % s->spread, s->count, i);
	s->keys[i] = s->keys[s->count];
}

static void live(uint64_t spread)
{
	struct shelf s = {.spread = spread};
	uint64_t seed = spread, next = 0;

	for (int step = 0; step < 4000; step++) {
		if (s.count < ITEMS && draw_below(&seed, 5) < (step / 1000 % 2 ? 2 : 3)) {
			s.keys[s.count] = next++ * 7919;
			assert_true(kedge__hash_put(&s.index, s.keys[s.count] % spread, s.count));
			s.count++;
		} else if (s.count) {
			uint64_t gone = s.keys[draw_below(&seed, s.count)];

			take_out(&s, find(&s, gone));
			assert_true(find(&s, gone) == KEDGE__HASH_NONE);
		}
		assert_int_equal(s.index.count, s.count);
		for (size_t i = step % 7; i < s.count; i += 7)
			assert_int_equal(find(&s, s.keys[i]), i);
	}
	kedge__hash_done(&s.index);
	assert_true(find(&s, 1) == KEDGE__HASH_NONE);
}

static void items_come_and_go(void **state)
{
	(void)state;
	live(UINT64_MAX);
	live(64); /* several have one hash */
	live(1);
}

/* A find asks about the one that is meant, however many there are. */
static void finds_are_direct(void **state)
{
	struct shelf s = {.spread = UINT64_MAX};

	(void)state;
	for (s.count = 0; s.count < ITEMS; s.count++) {
		s.keys[s.count] = s.count * 16; /* plain numbers */
		assert_true(kedge__hash_put(&s.index, s.keys[s.count], s.count));
	}
	asked = 0;
	for (size_t i = 0; i < ITEMS; i++)
		assert_int_equal(find(&s, s.keys[i]), i);
	assert_int_equal(asked, ITEMS);
	for (uint64_t i = 0; i < ITEMS; i++)
		assert_true(find(&s, i * 16 + 1) == KEDGE__HASH_NONE);
	assert_int_equal(asked, ITEMS);
	kedge__hash_done(&s.index);
}

static void without_memory_nothing_changes(void **state)
{
	struct shelf s = {.spread = UINT64_MAX};
	bool failed = false;

	(void)state;
	assert_true(kedge__hash_reserve(&s.index, 8));
	for (s.count = 0; s.count < ITEMS && !failed; s.count++) {
		s.keys[s.count] = s.count;
		assert_int_equal(kedge__fault_set("alloc@1", NULL), 0);
		failed = !kedge__hash_put(&s.index, s.count, s.count);
		kedge__fault_set(NULL, NULL);
	}
	assert_true(failed && s.count == 9);
	for (uint64_t i = 0; i < 8; i++)
		assert_int_equal(find(&s, i), i);
	assert_true(find(&s, 8) == KEDGE__HASH_NONE);
	assert_false(kedge__hash_reserve(&s.index, SIZE_MAX));
	kedge__hash_done(&s.index);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(items_come_and_go),
	    cmocka_unit_test(finds_are_direct),
	    cmocka_unit_test(without_memory_nothing_changes),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
