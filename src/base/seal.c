/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * seal.c: XXH3 as the library has it, for any machine: seals, and checksums where checksum.c has nothing faster.
 */
#include "base/base.h"

#include <xxhash.h>

uint64_t kedge__checksum_plain(const void *data, size_t bytes)
{
	return XXH3_64bits(data, bytes);
}

struct kedge__digest kedge__seal(const void *data, size_t bytes)
{
	XXH128_hash_t h = XXH3_128bits(data, bytes);

	return (struct kedge__digest){h.low64, h.high64};
}
