/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A fuzz target is one function over bytes that nobody vouches for. It aborts when something that must hold does not;
 * the sanitizers see the rest. libFuzzer calls it with what it invents (-DKEDGE_FUZZ=ON); replay.c with the corpus and
 * a fixed number of mutations of it, so that every build has it as an ordinary test.
 */
#ifndef KEDGE_TESTS_FUZZ_FUZZ_H
#define KEDGE_TESTS_FUZZ_FUZZ_H

#include "base/base.h"

#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FUZZ_REQUIRE(what)                                                                                             \
	do {                                                                                                           \
		if (!(what)) {                                                                                         \
			fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #what);                      \
			abort();                                                                                       \
		}                                                                                                      \
	} while (0)

/* The decoder failed with RC: the error must say the same, in words. */
static inline void fuzz_require_cause(int rc, struct kedge__error *err)
{
	FUZZ_REQUIRE(rc < 0 && err->code == rc && kedge__error_text(err)[0]);
	kedge__error_done(err);
}

/* Records carry checksums, so nearly every mutation ends there. This is DATA with the checksum over all before it, at
 * AT, put right. */
static inline uint8_t *fuzz_with_checksum(const uint8_t *data, size_t size, size_t at)
{
	uint8_t *copy = malloc(size);

	FUZZ_REQUIRE(copy && at + 8 <= size);
	memcpy(copy, data, size);
	kedge__put64(copy + at, kedge__checksum(copy, at));
	return copy;
}

/* DECODE data as it is, and once more with its last eight bytes put right: the checksum of those before. */
static inline void fuzz_decode_both(const uint8_t *data, size_t size, void (*decode)(const uint8_t *data, size_t size))
{
	decode(data, size);
	if (size >= 8) {
		uint8_t *copy = fuzz_with_checksum(data, size, size - 8);

		decode(copy, size);
		free(copy);
	}
}

#endif
