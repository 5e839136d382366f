/* SPDX-License-Identifier: BSD-3-Clause */
/* The two halves of make_golden. */
#ifndef KEDGE_TESTS_GOLDEN_MAKE_GOLDEN_H
#define KEDGE_TESTS_GOLDEN_MAKE_GOLDEN_H

#include "../lib/require.h"
#include "base/base.h"

#include <stdio.h>
#include <stdlib.h>

#define GOLDEN_NAME "golden"

/* Rewrite VERSION of rank 0 of STORE, the only rank, as a later minor version of the format would write it. */
void golden_make_future(const char *store, uint64_t version);

#endif
