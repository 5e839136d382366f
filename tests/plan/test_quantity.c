/* SPDX-License-Identifier: BSD-3-Clause */
/* Numbers with units. */
#include "check.h"
#include "plan/plan.h"

struct good {
	enum kedge__quantity kind;
	const char *text;
	double value;
};

static void test_accepted(void **state)
{
	static const struct good all[] = {
	    {KEDGE__QUANTITY_NUMBER, "0.5", 0.5},          {KEDGE__QUANTITY_NUMBER, "1/8", 0.125},
	    {KEDGE__QUANTITY_NUMBER, "16%", 0.16},         {KEDGE__QUANTITY_NUMBER, " 1e-300 ", 1e-300},
	    {KEDGE__QUANTITY_NUMBER, ".5", 0.5},           {KEDGE__QUANTITY_NUMBER, "+3", 3},
	    {KEDGE__QUANTITY_SECONDS, "13h", 46800},       {KEDGE__QUANTITY_SECONDS, "90", 90},
	    {KEDGE__QUANTITY_SECONDS, "1.5 min", 90},      {KEDGE__QUANTITY_SECONDS, "2d", 172800},
	    {KEDGE__QUANTITY_SECONDS, "1y", 31557600},     {KEDGE__QUANTITY_SECONDS, "250ms", 0.25},
	    {KEDGE__QUANTITY_BYTES, "29GB", 29e9},         {KEDGE__QUANTITY_BYTES, "32GiB", 34359738368.0},
	    {KEDGE__QUANTITY_BYTES, "500", 500},           {KEDGE__QUANTITY_BYTES, "1e3 kB", 1e6},
	    {KEDGE__QUANTITY_RATE, "2e-6", 2e-6},          {KEDGE__QUANTITY_RATE, "1/13h", 1.0 / 46800},
	    {KEDGE__QUANTITY_RATE, "3/d", 3.0 / 86400},    {KEDGE__QUANTITY_RATE, "0", 0},
	    {KEDGE__QUANTITY_BANDWIDTH, "6.4GB/s", 6.4e9}, {KEDGE__QUANTITY_BANDWIDTH, "36GB/h", 1e7},
	    {KEDGE__QUANTITY_BANDWIDTH, "6400", 6400},     {KEDGE__QUANTITY_BANDWIDTH, "400 MB / s", 4e8},
	};

	(void)state;
	for (size_t i = 0; i < KEDGE__COUNT(all); i++) {
		struct kedge__error err = KEDGE__ERROR_INIT;
		double value;

		if (kedge__quantity_parse(all[i].kind, all[i].text, &value, &err) != 0)
			fail_msg("'%s': %s", all[i].text, kedge__error_text(&err));
		check_relative(all[i].text, value, all[i].value, 1e-15);
	}
}

struct bad {
	enum kedge__quantity kind;
	const char *text, *message;
};

static void test_refused(void **state)
{
	static const struct bad all[] = {
	    {KEDGE__QUANTITY_BYTES, "29G",
	     "'29G' has an unknown unit: expected a size such as 29GB (1000s) or 32GiB (1024s)"},
	    {KEDGE__QUANTITY_BYTES, "29GB/s",
	     "'29GB/s' has an unknown unit: expected a size such as 29GB (1000s) or 32GiB (1024s)"},
	    {KEDGE__QUANTITY_SECONDS, "13hours",
	     "'13hours' has an unknown unit: expected a time such as 90, 90s, 15min, 13h, 30d, 2y"},
	    {KEDGE__QUANTITY_SECONDS, "", "'' is not a number: expected a time such as 90, 90s, 15min, 13h, 30d, 2y"},
	    {KEDGE__QUANTITY_SECONDS, "-5s", "'-5s' is negative: expected a time such as 90, 90s, 15min, 13h, 30d, 2y"},
	    {KEDGE__QUANTITY_SECONDS, "5s s",
	     "'5s s' has something after its unit: expected a time such as 90, 90s, 15min, 13h, 30d, 2y"},
	    {KEDGE__QUANTITY_NUMBER, "nan", "'nan' is not a number: expected a number such as 0.5, 1/8 or 16%"},
	    {KEDGE__QUANTITY_NUMBER, "inf", "'inf' is not a number: expected a number such as 0.5, 1/8 or 16%"},
	    {KEDGE__QUANTITY_NUMBER, "0x10", "'0x10' is not a number: expected a number such as 0.5, 1/8 or 16%"},
	    {KEDGE__QUANTITY_NUMBER, "1e999", "'1e999' is too large: expected a number such as 0.5, 1/8 or 16%"},
	    {KEDGE__QUANTITY_NUMBER, "1/0", "'1/0' has an unknown unit: expected a number such as 0.5, 1/8 or 16%"},
	    {KEDGE__QUANTITY_RATE, "1h", "'1h' has an unknown unit: expected a rate such as 2e-6 (1/s), 3/d or 1/13h"},
	    {KEDGE__QUANTITY_BANDWIDTH, "6.4GB/GB",
	     "'6.4GB/GB' has an unknown unit: expected a bandwidth such as 6.4GB/s"},
	};

	(void)state;
	for (size_t i = 0; i < KEDGE__COUNT(all); i++) {
		struct kedge__error err = KEDGE__ERROR_INIT;
		double value = 42;

		check_error(kedge__quantity_parse(all[i].kind, all[i].text, &value, &err), &err, KEDGE_E_ARG,
			    all[i].message);
		assert_true(value == 42);
	}
}

static void test_lists(void **state)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	double values[3];
	size_t n;

	(void)state;
	assert_int_equal(kedge__quantity_parse_list(KEDGE__QUANTITY_SECONDS, "1,2min,3h", values, 3, &n, NULL), 0);
	assert_true(n == 3 && values[0] == 1 && values[1] == 120 && values[2] == 10800);
	check_error(kedge__quantity_parse_list(KEDGE__QUANTITY_SECONDS, "1,2,3,4", values, 3, &n, &err), &err,
		    KEDGE_E_ARG, "'1,2,3,4' has more than 3 values");
	check_error(kedge__quantity_parse_list(KEDGE__QUANTITY_SECONDS, "1,,2", values, 3, &n, &err), &err, KEDGE_E_ARG,
		    "'1,,2' has an empty or overlong value: expected a time such as 90, 90s, 15min, 13h, 30d, 2y");
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_accepted),
	    cmocka_unit_test(test_refused),
	    cmocka_unit_test(test_lists),
	};

	return cases_run(argc, argv, tests, NULL, NULL);
}
