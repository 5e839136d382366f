#include "capture/capture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

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

static void test_names_are_checked(void **state)
{
	static const char *const bad[] = {"",          "\xff", "\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80",
					  "a\xe2\x82", NULL};
	static const char *const good[] = {"a", "é", "漢字", "𝄞", "with space/and.dots", NULL};
	struct kedge__region_table *t = *state;
	char longest[KEDGE_REGION_NAME_MAX + 2];
	int x;

	for (size_t i = 0; bad[i]; i++)
		assert_int_equal(kedge__region_table_put(t, bad[i], &x, 1, KEDGE_I32, 0, NULL, &err), KEDGE_E_ARG);
	for (size_t i = 0; good[i]; i++)
		assert_int_equal(kedge__region_table_put(t, good[i], &x, 1, KEDGE_I32, 0, NULL, &err), 0);
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

/* A name that comes back, or is known from the store, has its old slot; the table is in the order of slots. */
static void test_slots_last(void **state)
{
	struct kedge__region_table *t = *state;
	uint32_t next = 5;
	int x;

	assert_int_equal(kedge__region_table_remember(t, "stored", 3, &err), 0);
	assert_int_equal(kedge__region_table_put(t, "a", &x, 1, KEDGE_I32, 0, NULL, &err), 0);
	assert_int_equal(kedge__region_table_put(t, "stored", &x, 1, KEDGE_I32, 0, NULL, &err), 0);
	assert_int_equal(kedge__region_table_assign(t, &next, &err), 0);
	assert_int_equal(next, 6);
	assert_string_equal(kedge__region_table_at(t, 0)->name, "stored");
	assert_int_equal(kedge__region_table_find(t, "a")->slot, 5);
	assert_int_equal(kedge__region_table_remove(t, "a", &err), 0);
	assert_int_equal(kedge__region_table_put(t, "b", &x, 1, KEDGE_I32, 0, NULL, &err), 0);
	assert_int_equal(kedge__region_table_put(t, "a", &x, 1, KEDGE_I32, 0, NULL, &err), 0);
	assert_int_equal(kedge__region_table_assign(t, &next, &err), 0);
	assert_int_equal(kedge__region_table_find(t, "a")->slot, 5);
	assert_int_equal(kedge__region_table_find(t, "b")->slot, 6);
	assert_int_equal(kedge__region_table_remember(t, "c", KEDGE__SLOT_LIMIT, &err), KEDGE_E_LIMIT);
}

static void test_slots_run_out_and_never_meet(void **state)
{
	struct kedge__region_table *t = *state;
	uint32_t next = KEDGE__SLOT_LIMIT - 1;
	int x;

	assert_int_equal(kedge__region_table_remember(t, "a", 7, &err), 0);
	assert_int_equal(kedge__region_table_remember(t, "b", 7, &err), 0);
	assert_int_equal(kedge__region_table_put(t, "a", &x, 1, KEDGE_I32, 0, NULL, &err), 0);
	assert_int_equal(kedge__region_table_put(t, "b", &x, 1, KEDGE_I32, 0, NULL, &err), 0);
	assert_int_equal(kedge__region_table_assign(t, &next, &err), 0);
	assert_int_not_equal(kedge__region_table_find(t, "a")->slot, kedge__region_table_find(t, "b")->slot);
	assert_int_equal(kedge__region_table_put(t, "c", &x, 1, KEDGE_I32, 0, NULL, &err), 0);
	assert_int_equal(kedge__region_table_assign(t, &next, &err), KEDGE_E_LIMIT);
}

static void test_many_regions(void **state)
{
	struct kedge__region_table *t = *state;
	uint32_t next = 0;
	char name[32];
	int x;

	for (int i = 0; i < 10000; i++) {
		snprintf(name, sizeof(name), "region-%d", i);
		assert_int_equal(kedge__region_table_put(t, name, &x, 1, KEDGE_I32, 0, NULL, &err), 0);
	}
	assert_int_equal(kedge__region_table_assign(t, &next, &err), 0);
	assert_int_equal(next, 10000);
	for (int i = 0; i < 10000; i += 2) {
		snprintf(name, sizeof(name), "region-%d", i);
		assert_int_equal(kedge__region_table_remove(t, name, &err), 0);
	}
	assert_int_equal(kedge__region_table_count(t), 5000);
	assert_string_equal(kedge__region_table_at(t, 4999)->name, "region-9999");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(test_put_replaces_by_name, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_names_are_checked, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_sizes_and_shapes_are_checked, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_remove_tells_the_nearest_name, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_slots_last, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_slots_run_out_and_never_meet, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_many_regions, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
