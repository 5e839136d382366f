/* SPDX-License-Identifier: BSD-3-Clause */
/* require: for what a test cannot go on without, in helpers that know nothing of the program that uses them. */
#ifndef KEDGE_TESTS_LIB_REQUIRE_H
#define KEDGE_TESTS_LIB_REQUIRE_H

#include <stdio.h>
#include <stdlib.h>

#define REQUIRE(what)                                                                                                  \
	do {                                                                                                           \
		if (!(what)) {                                                                                         \
			fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #what);                      \
			abort();                                                                                       \
		}                                                                                                      \
	} while (0)

#endif
