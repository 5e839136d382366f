/* SPDX-License-Identifier: BSD-3-Clause */
/* Records that several tests start from. All are valid; each test breaks what it is about. */
#ifndef KEDGE_TESTS_FORMAT_SAMPLES_H
#define KEDGE_TESTS_FORMAT_SAMPLES_H

#include "../lib/cases.h"
#include "../lib/draw.h"
#include "format/format.h"

#include <stdio.h>
#include <stdlib.h>

#define SLOT(n) ((uint64_t)(n) << KEDGE__SLOT_SHIFT)

static inline struct kedge__digest sample_digest(uint64_t n)
{
	return (struct kedge__digest){.lo = n * UINT64_C(0x9e3779b97f4a7c15), .hi = ~n * UINT64_C(0xc2b2ae3d27d4eb4f)};
}

static inline struct kedge__region_record sample_region(uint32_t slot, uint64_t bytes)
{
	return (struct kedge__region_record){.name = (char *)"r", .slot = slot, .bytes = bytes};
}

static inline void sample_extent(struct kedge__extent_map *map, enum kedge__extent_kind kind, uint64_t addr, uint64_t len, uint64_t src,
				 uint64_t version)
{
	struct kedge__extent e = {.addr = addr, .len = len, .src = src, .version = version, .kind = kind};

	assert_int_equal(kedge__extent_map_append(map, e, true, NULL), 0);
}

/* RC must be CODE, and the text must say SAYS. */
#define assert_refused(rc, code_, err, says)                                                                           \
	do {                                                                                                           \
		assert_int_equal(rc, code_);                                                                           \
		assert_int_equal((err)->code, code_);                                                                  \
		if (!strstr(kedge__error_text(err), says))                                                             \
			fail_msg("\"%s\" does not say \"%s\"", kedge__error_text(err), says);                          \
		kedge__error_done(err);                                                                                \
	} while (0)

#endif
