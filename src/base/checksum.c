/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * checksum.c: XXH3-64 for blocks and sections. Every stored byte passes through it on its way in and out, so it is
 * compiled for AVX2 too where the compiler can, and taken at run time where the machine has it. The result is the same.
 */
#include "base/base.h"

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#pragma GCC push_options
#pragma GCC target("avx2")
#define XXH_INLINE_ALL
#define XXH_VECTOR 2 /* XXH_AVX2 */
#include <xxhash.h>

static uint64_t checksum_vector(const void *data, size_t bytes)
{
	return XXH3_64bits(data, bytes);
}

#pragma GCC pop_options

static bool has_vector(void)
{
	return __builtin_cpu_supports("avx2");
}
#else
#include <xxhash.h>

static uint64_t checksum_vector(const void *data, size_t bytes)
{
	return XXH3_64bits(data, bytes);
}

static bool has_vector(void)
{
	return true;
}
#endif

uint64_t kedge__checksum(const void *data, size_t bytes)
{
	return has_vector() ? checksum_vector(data, bytes) : kedge__checksum_plain(data, bytes);
}
