/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cases: cmocka, and the arguments that every cmocka program takes:
 *
 *   --list        the names of the cases, one a line
 *   --case NAME   only that one; may be given several times; * and ? stand for what they do in file names
 *
 * Anything else, and a NAME that no case has, is refused with status 2.
 */
#ifndef KEDGE_TESTS_LIB_CASES_H
#define KEDGE_TESTS_LIB_CASES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

struct cases {
	const struct CMUnitTest *at;
	size_t count;
	CMFixtureFunction setup, teardown; /* of all together, or NULL */
	bool (*here)(void); /* NULL, or whether they can be tried here: if not, the status is 77, "skipped" */
};

/* The status of the program. */
int cases_main(int argc, char **argv, const struct cases *cases);

/* The last statement of main(), with TESTS an array of struct CMUnitTest. */
#define cases_run(argc, argv, tests, setup, teardown) cases_run_where(argc, argv, tests, setup, teardown, NULL)
#define cases_run_where(argc, argv, tests, setup, teardown, here)                                                      \
	cases_main(argc, argv, &(const struct cases){tests, sizeof(tests) / sizeof((tests)[0]), setup, teardown, here})

#endif
