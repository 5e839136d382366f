/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * digest_peer.c: XXH3-128 over chunks, inlined, so that short chunks do not pay for calls. Compiled once for each
 * vector unit (-mavx2, -mavx512f): PEER is the name of the function, XXH_VECTOR xxhash's number of the unit. Without
 * xxhash.h there is no peer.
 */
#include <stddef.h>
#include <stdint.h>

uint64_t PEER(const uint8_t *data, size_t bytes, size_t chunk);

#if defined(__x86_64__) && defined(__has_include)
#if __has_include(<xxhash.h>)
#define HAVE_PEER
#endif
#endif

#ifdef HAVE_PEER
#define XXH_INLINE_ALL
#include <xxhash.h>

uint64_t PEER(const uint8_t *data, size_t bytes, size_t chunk)
{
	uint64_t all = 0;

	for (size_t at = 0; at + chunk <= bytes; at += chunk) {
		XXH128_hash_t h = XXH3_128bits(data + at, chunk);

		all += h.low64 ^ h.high64;
	}
	return all;
}
#else
uint64_t PEER(const uint8_t *data, size_t bytes, size_t chunk)
{
	(void)data, (void)bytes, (void)chunk;
	return 0;
}
#endif
