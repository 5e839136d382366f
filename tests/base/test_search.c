/* SPDX-License-Identifier: BSD-3-Clause */
/* Every size, every place where the condition changes, and no look outside. */
#include "support.h"

#define MOST 70

static size_t looks, lowest, highest;

static bool is_before(size_t i, size_t point)
{
	looks++;
	lowest = KEDGE__MIN(lowest, i);
	highest = KEDGE__MAX(highest, i);
	return i < point;
}

static void begin(void)
{
	looks = 0;
	lowest = SIZE_MAX;
	highest = 0;
}

static size_t bits(size_t n)
{
	size_t b = 0;

	for (; n; n >>= 1)
		b++;
	return b;
}

static void the_first_that_is_not_before(void **state)
{
	size_t i = MOST;

	(void)state;
	for (size_t n = 0; n <= MOST; n++)
		for (size_t point = 0; point <= n; point++) {
			begin();
			KEDGE__PARTITION_POINT(i, n, is_before(i, point));
			assert_int_equal(i, point);
			assert_true(looks <= bits(n));
			assert_true(!n || highest < n);
		}
}

static void from_a_place_on(void **state)
{
	size_t i = 0;

	(void)state;
	for (size_t from = 0; from <= 20; from++)
		for (size_t to = from; to <= 20; to++)
			for (size_t point = 0; point <= 21; point++) {
				begin();
				KEDGE__PARTITION_POINT_FROM(i, from, to, is_before(i, point));
				assert_int_equal(i, KEDGE__MIN(KEDGE__MAX(point, from), to));
				assert_true(lowest >= from && (!looks || highest < to));
			}
}

static void the_last_that_is_before(void **state)
{
	size_t i = MOST;

	(void)state;
	for (size_t n = 0; n <= MOST; n++)
		for (size_t point = 0; point <= n; point++) {
			begin();
			KEDGE__LAST_BEFORE(i, n, is_before(i, point));
			assert_int_equal(i, point ? point - 1 : 0);
			assert_true(!n || highest < n);
		}
}

/* The first of equal keys, or the first behind them. */
static void equal_keys(void **state)
{
	const int keys[] = {1, 3, 3, 3, 7, 7, 9};
	size_t i = 0;

	(void)state;
	KEDGE__PARTITION_POINT(i, KEDGE__COUNT(keys), keys[i] < 3);
	assert_int_equal(i, 1);
	KEDGE__PARTITION_POINT(i, KEDGE__COUNT(keys), keys[i] <= 3);
	assert_int_equal(i, 4);
	KEDGE__LAST_BEFORE(i, KEDGE__COUNT(keys), keys[i] <= 3);
	assert_int_equal(i, 3);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_first_that_is_not_before),
	    cmocka_unit_test(from_a_place_on),
	    cmocka_unit_test(the_last_that_is_before),
	    cmocka_unit_test(equal_keys),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
