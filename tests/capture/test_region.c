/* SPDX-License-Identifier: BSD-3-Clause */
#include "../lib/cases.h"
#include "capture/capture.h"

#include <stdio.h>

static struct kedge__error err;

static int setup(void **state)
{
	struct kedge__region_table *t;

	if (kedge__region_table_new(&t, &err))
		return -1;
	*state = t;
	return 0;
}

static int teardown(void **state)
{
	kedge__region_table_free(*state);
	kedge__error_done(&err);
	return 0;
}

static void test_put_replaces_by_name(void **state)
{
	struct kedge__region_table *t = *state;
	double a[4], b[8];
	const size_t dims[2] = {2, 4};

	assert_int_equal(kedge__region_table_put(t, "x", a, 4, KEDGE_F64, 0, NULL, &err), 0);
	assert_int_equal(kedge__region_table_put(t, "x", b, 8, KEDGE_F64, 2, dims, &err), 0);
	assert_int_equal(kedge__region_table_count(t), 1);
	assert_ptr_equal(kedge__region_table_at(t, 0)->data, b);
	assert_int_equal(kedge__region_table_at(t, 0)->bytes, 64);
	assert_int_equal(kedge__region_table_at(t, 0)->dims[1], 4);
	assert_null(kedge__region_table_find(t, "y"));
}

/* A name says nothing about it: whoever lists a file says so, and it is over when something else has the name. */
static void test_a_file_is_a_property(void **state)
{
	const struct kedge__region_file file = {.fd = 3, .path = "x"};
	struct kedge__region_table *t = *state;
	int x;

	assert_int_equal(kedge__region_table_put(t, KEDGE_FILE_PREFIX "x", &x, 1, KEDGE_I32, 0, NULL, &err), 0);
	assert_null(kedge__region_table_at(t, 0)->file);
	kedge__region_table_at(t, 0)->file = &file;
	assert_ptr_equal(kedge__region_table_find(t, KEDGE_FILE_PREFIX "x")->file, &file);
	assert_int_equal(kedge__region_table_put(t, KEDGE_FILE_PREFIX "x", &x, 1, KEDGE_I32, 0, NULL, &err), 0);
	assert_null(kedge__region_table_at(t, 0)->file);
	kedge__region_table_at(t, 0)->file = &file;
	assert_int_equal(kedge__region_table_remove(t, KEDGE_FILE_PREFIX "x", &err), 0);
	assert_int_equal(kedge__region_table_put(t, KEDGE_FILE_PREFIX "x", &x, 1, KEDGE_I32, 0, NULL, &err), 0);
	assert_null(kedge__region_table_at(t, 0)->file);
}

static void test_names_are_checked(void **state)
{
	static const char *const bad[] = {"\xff", "\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80",
					  "a\xe2\x82", NULL};
	static const char *const good[] = {"a", "é", "漢字", "𝄞", "with space/and.dots", NULL};
	struct kedge__region_table *t = *state;
	char longest[KEDGE_REGION_NAME_MAX + 2];
	int x;

	assert_int_equal(kedge__region_table_put(t, "", &x, 1, KEDGE_I32, 0, NULL, &err), KEDGE_E_ARG);
	for (size_t i = 0; bad[i]; i++) { /* files may be called so; what applications name is checked by kedge_protect() */
		assert_false(kedge__utf8_valid(bad[i]));
		assert_int_equal(kedge__region_table_put(t, bad[i], &x, 1, KEDGE_I32, 0, NULL, &err), 0);
	}
	for (size_t i = 0; good[i]; i++) {
		assert_true(kedge__utf8_valid(good[i]));
		assert_int_equal(kedge__region_table_put(t, good[i], &x, 1, KEDGE_I32, 0, NULL, &err), 0);
	}
	memset(longest, 'n', sizeof(longest));
	longest[KEDGE_REGION_NAME_MAX + 1] = '\0';
	assert_int_equal(kedge__region_table_put(t, longest, &x, 1, KEDGE_I32, 0, NULL, &err), KEDGE_E_LIMIT);
	longest[KEDGE_REGION_NAME_MAX] = '\0';
	assert_int_equal(kedge__region_table_put(t, longest, &x, 1, KEDGE_I32, 0, NULL, &err), 0);
	assert_int_equal(kedge__region_table_put(t, NULL, &x, 1, KEDGE_I32, 0, NULL, &err), KEDGE_E_ARG);
}

static void test_sizes_and_shapes_are_checked(void **state)
{
	struct kedge__region_table *t = *state;
	const size_t huge[2] = {SIZE_MAX / 2, 3}, wrong[2] = {2, 3};
	int x[4];

	assert_int_equal(kedge__region_table_put(t, "x", x, SIZE_MAX / 2, KEDGE_F64, 0, NULL, &err), KEDGE_E_LIMIT);
	assert_int_equal(kedge__region_table_put(t, "x", x, ((size_t)1 << 44) + 1, KEDGE_U8, 0, NULL, &err),
			 KEDGE_E_LIMIT);
	assert_int_equal(kedge__region_table_put(t, "x", x, 4, KEDGE_I32, 2, huge, &err), KEDGE_E_LIMIT);
	assert_int_equal(kedge__region_table_put(t, "x", x, 4, KEDGE_I32, 2, wrong, &err), KEDGE_E_ARG);
	assert_int_equal(kedge__region_table_put(t, "x", x, 4, KEDGE_I32, KEDGE_MAX_DIMS + 1, wrong, &err),
			 KEDGE_E_ARG);
	assert_int_equal(kedge__region_table_put(t, "x", x, 4, KEDGE_TYPE_COUNT, 0, NULL, &err), KEDGE_E_ARG);
	assert_int_equal(kedge__region_table_put(t, "x", NULL, 4, KEDGE_I32, 0, NULL, &err), KEDGE_E_ARG);
	assert_int_equal(kedge__region_table_count(t), 0);
	assert_int_equal(kedge__region_table_put(t, "x", NULL, 0, KEDGE_I32, 0, NULL, &err), 0);
}

static void test_remove_tells_the_nearest_name(void **state)
{
	struct kedge__region_table *t = *state;
	int x;

	assert_int_equal(kedge__region_table_put(t, "temperature", &x, 1, KEDGE_I32, 0, NULL, &err), 0);
	assert_int_equal(kedge__region_table_remove(t, "temprature", &err), KEDGE_E_NOTFOUND);
	assert_non_null(strstr(kedge__error_text(&err), "\"temperature\""));
	assert_int_equal(kedge__region_table_remove(t, "temperature", &err), 0);
	assert_int_equal(kedge__region_table_remove(t, "temperature", &err), KEDGE_E_NOTFOUND);
	assert_int_equal(kedge__region_table_count(t), 0);
}

static void put(struct kedge__region_table *t, const char *name)
{
	static int x;

	assert_int_equal(kedge__region_table_put(t, name, &x, 1, KEDGE_I32, 0, NULL, &err), 0);
}

static void take_out(struct kedge__region_table *t, const char *name)
{
	assert_int_equal(kedge__region_table_remove(t, name, &err), 0);
}

static uint32_t slot_of(struct kedge__region_table *t, const char *name)
{
	return kedge__region_table_find(t, name)->slot;
}

/* A name that comes back soon, or is known from the store, has its old slot; the table is in the order of slots. */
static void test_slots_last(void **state)
{
	struct kedge__region_table *t = *state;
	uint32_t next = 0;

	assert_int_equal(kedge__region_table_remember(t, "stored", 1, &err), 0);
	put(t, "a");
	put(t, "stored");
	put(t, "c");
	assert_int_equal(kedge__region_table_assign(t, &next, &err), 0);
	assert_int_equal(next, 3);
	assert_string_equal(kedge__region_table_at(t, 0)->name, "a");
	assert_string_equal(kedge__region_table_at(t, 1)->name, "stored");
	assert_int_equal(slot_of(t, "c"), 2);
	take_out(t, "a");
	put(t, "b");
	assert_int_equal(kedge__region_table_assign(t, &next, &err), 0);
	assert_int_equal(slot_of(t, "b"), 3);
	put(t, "a");
	assert_int_equal(kedge__region_table_assign(t, &next, &err), 0);
	assert_int_equal(slot_of(t, "a"), 0);
	assert_int_equal(next, 4);
	assert_int_equal(kedge__region_table_remember(t, "c", KEDGE__SLOT_LIMIT, &err), KEDGE_E_LIMIT);
}

/* The slot of a name that is gone for long is another's, under another tenancy. */
static void test_slots_are_reused(void **state)
{
	struct kedge__region_table *t = *state;
	uint32_t next = 0;
	uint64_t tenancy;
	char name[32];

	put(t, "a");
	put(t, "z");
	assert_int_equal(kedge__region_table_assign(t, &next, &err), 0);
	tenancy = kedge__region_table_find(t, "a")->tenancy;
	take_out(t, "a");
	for (int i = 0; i < 100; i++) {
		snprintf(name, sizeof(name), "fresh-%d", i);
		put(t, name);
		assert_int_equal(kedge__region_table_assign(t, &next, &err), 0);
		assert_true(slot_of(t, name) != slot_of(t, "z"));
		if (slot_of(t, name) == 0)
			assert_true(kedge__region_table_find(t, name)->tenancy > tenancy);
		take_out(t, name);
	}
	assert_true(next < 8);
	put(t, "a");
	assert_int_equal(kedge__region_table_assign(t, &next, &err), 0);
	assert_true(kedge__region_table_find(t, "a")->tenancy > tenancy);
}

/* The second of two that meet in one slot gets another. */
static void test_slots_never_meet(void **state)
{
	struct kedge__region_table *t = *state;
	uint32_t next = 8;

	assert_int_equal(kedge__region_table_remember(t, "a", 7, &err), 0);
	put(t, "a");
	put(t, "b");
	assert_int_equal(kedge__region_table_remember(t, "b", 7, &err), 0);
	assert_int_equal(kedge__region_table_assign(t, &next, &err), 0);
	assert_int_equal(slot_of(t, "b"), 7);
	assert_int_equal(slot_of(t, "a"), 0);
	assert_int_equal(kedge__region_table_remember(t, "b", 0, &err), 0);
	assert_int_equal(kedge__region_table_remember(t, "a", 7, &err), 0);
	assert_int_equal(kedge__region_table_assign(t, &next, &err), 0);
	assert_int_equal(slot_of(t, "b"), 0);
	assert_int_equal(slot_of(t, "a"), 7);
	assert_int_equal(next, 8);
}

/* Names of which each is there once, half the limit and more at a time: slots of the last ones are taken when there are
 * no others. What is protected at once has a limit. */
static void test_more_names_than_slots(void **state)
{
	const int many = (int)KEDGE__SLOT_LIMIT * 5 / 8;
	struct kedge__region_table *t = *state;
	uint32_t next = 0;
	char name[32];

	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < many; i++) {
			snprintf(name, sizeof(name), "%d.%d", round - 1, i);
			if (round)
				take_out(t, name);
			snprintf(name, sizeof(name), "%d.%d", round, i);
			put(t, name);
		}
		assert_int_equal(kedge__region_table_assign(t, &next, &err), 0);
		assert_true(next <= KEDGE__SLOT_LIMIT);
		for (int i = 1; i < many; i++)
			assert_true(kedge__region_table_at(t, (size_t)i - 1)->slot <
				    kedge__region_table_at(t, (size_t)i)->slot);
	}
	for (int i = many; i < (int)KEDGE__SLOT_LIMIT; i++) {
		snprintf(name, sizeof(name), "2.%d", i);
		put(t, name);
	}
	assert_int_equal(kedge__region_table_assign(t, &next, &err), 0);
	put(t, "one too many");
	assert_int_equal(kedge__region_table_assign(t, &next, &err), KEDGE_E_LIMIT);
	take_out(t, "2.0");
	assert_int_equal(kedge__region_table_assign(t, &next, &err), 0);
}

static void test_many_regions(void **state)
{
	struct kedge__region_table *t = *state;
	uint32_t next = 0;
	char name[32];

	for (int i = 0; i < 10000; i++) {
		snprintf(name, sizeof(name), "region-%d", i);
		put(t, name);
	}
	assert_int_equal(kedge__region_table_assign(t, &next, &err), 0);
	assert_int_equal(next, 10000);
	for (int i = 0; i < 10000; i += 2) {
		snprintf(name, sizeof(name), "region-%d", i);
		take_out(t, name);
	}
	assert_int_equal(kedge__region_table_count(t), 5000);
	assert_int_equal(kedge__region_table_assign(t, &next, &err), 0);
	for (size_t i = 0; i < 5000; i++) {
		snprintf(name, sizeof(name), "region-%zu", 2 * i + 1);
		assert_string_equal(kedge__region_table_at(t, i)->name, name);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(test_put_replaces_by_name, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_a_file_is_a_property, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_names_are_checked, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_sizes_and_shapes_are_checked, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_remove_tells_the_nearest_name, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_slots_last, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_slots_are_reused, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_slots_never_meet, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_more_names_than_slots, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_many_regions, setup, teardown),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
