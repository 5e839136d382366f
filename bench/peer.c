/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * peer.c: XXH3-128 over chunks, as fast as it goes: inlined, so that short chunks do not pay for calls, and
 * vectorised. Only this file is compiled for AVX2; without it the library's own function is used.
 */
#include "bench.h"

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define VECTORISED 1
#pragma GCC push_options
#pragma GCC target("avx2")
#define XXH_INLINE_ALL
#define XXH_VECTOR 2 /* XXH_AVX2 */
#include <xxhash.h>

static uint64_t hash_avx2(const uint8_t *data, size_t bytes, size_t chunk)
{
	uint64_t all = 0;

	for (size_t at = 0; at < bytes; at += chunk) {
		XXH128_hash_t h = XXH3_128bits(data + at, KEDGE__MIN(chunk, bytes - at));

		all += h.low64 ^ h.high64;
	}
	return all;
}

#pragma GCC pop_options
#else
#define VECTORISED 0
#include <xxhash.h>
static uint64_t hash_avx2(const uint8_t *data, size_t bytes, size_t chunk)
{
	(void)data, (void)bytes, (void)chunk;
	return 0;
}
#endif

static bool has_avx2(void)
{
#if VECTORISED
	return __builtin_cpu_supports("avx2");
#else
	return false;
#endif
}

const char *kedge__bench_hash_name(void)
{
	return has_avx2() ? "XXH3-128, inlined, AVX2" : "XXH3-128 of libxxhash";
}

uint64_t kedge__bench_hash(const void *data, size_t bytes, size_t chunk)
{
	uint64_t all = 0;

	if (has_avx2())
		return hash_avx2(data, bytes, chunk);
	for (size_t at = 0; at < bytes; at += chunk) {
		struct kedge__digest d = kedge__seal((const uint8_t *)data + at, KEDGE__MIN(chunk, bytes - at));

		all += d.lo ^ d.hi;
	}
	return all;
}
