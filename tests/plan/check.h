/* SPDX-License-Identifier: BSD-3-Clause */
/* check: cmocka, and comparisons of reals that say what differed. */
#ifndef KEDGE_TESTS_PLAN_CHECK_H
#define KEDGE_TESTS_PLAN_CHECK_H

#include "../lib/cases.h"

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static inline void check_near(const char *what, double value, double expected, double tolerance)
{
	if (!(fabs(value - expected) <= tolerance))
		fail_msg("%s: %.12g instead of %.12g, off by %.3g", what, value, expected, value - expected);
}

static inline void check_relative(const char *what, double value, double expected, double tolerance)
{
	check_near(what, value, expected, tolerance * fabs(expected));
}

#define check_error(rc, err, code, words)                                                                              \
	do {                                                                                                           \
		assert_int_equal((rc), (code));                                                                        \
		assert_string_equal(kedge__error_text(err), (words));                                                  \
		kedge__error_done(err);                                                                                \
	} while (0)

#endif
