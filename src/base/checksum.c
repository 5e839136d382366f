/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * checksum.c: XXH3-64 for blocks and sections. Every stored byte passes through it on its way in and out, so it is
 * compiled for AVX2 and AVX-512 too where the compiler can, and taken at run time where the machine has it. The result
 * is the same.
 */
#include "base/checksum_internal.h"

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
	const struct checksum_kernel *k = kedge__checksum_avx512();

	if (k)
		return k->checksum(data, bytes);
	return has_vector() ? checksum_vector(data, bytes) : kedge__checksum_plain(data, bytes);
}

/* NULL: it is done one after the other. */
static const struct checksum_kernel *page_kernel(size_t bytes, uint64_t pos)
{
	return bytes == CHECKSUM_PAGE && pos % (CHECKSUM_WORDS * 8) == 0 ? kedge__checksum_avx512() : NULL;
}

uint64_t kedge__copy_checked(void *to, const void *from, const void *ahead, size_t bytes, uint64_t pos,
			     struct kedge__sum *sum)
{
	const struct checksum_kernel *k = page_kernel(bytes, pos);
	uint64_t checksum;

	if (k)
		return k->copy_page(to, from, ahead ? ahead : from, pos / 8, sum);
	checksum = kedge__checksum(from, bytes);
	*sum = kedge__sum_add(*sum, kedge__sum_of(from, bytes, pos));
	kedge__copy_past_cache(to, from, bytes);
	return checksum;
}

/* Of the copy, where it is not made of each line as that is copied: what it was copied from may change meanwhile. */
uint64_t kedge__copy_hashed(void *to, const void *from, size_t bytes)
{
	const struct checksum_kernel *k = page_kernel(bytes, 0);

	if (k)
		return k->hash_page(to, from);
	memcpy(to, from, bytes);
	return kedge__checksum(to, bytes);
}

/* Where lines do not begin at the same bytes as in the copy, they are loaded twice. */
bool kedge__copy_reads_once(const void *to, size_t bytes, uint64_t pos)
{
	return (uintptr_t)to % CHECKSUM_LINE == 0 && page_kernel(bytes, pos);
}

void kedge__copy_summed(void *to, const void *from, const void *ahead, size_t bytes, uint64_t pos,
			struct kedge__sum *sum)
{
	const struct checksum_kernel *k = page_kernel(bytes, pos);

	if (k) {
		k->sum_page(to, from, ahead, pos / 8, sum);
		return;
	}
	*sum = kedge__sum_add(*sum, kedge__sum_of(from, bytes, pos));
	kedge__copy_past_cache(to, from, bytes);
}
