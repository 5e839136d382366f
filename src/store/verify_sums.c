/* SPDX-License-Identifier: BSD-3-Clause */
#include "store/verify.h"

#define FILL_BYTES 4096

static void add(struct kedge__region_sum *sum, bool minus, struct kedge__sum part)
{
	atomic_fetch_add_explicit(&sum->s1, minus ? 0 - part.s1 : part.s1, memory_order_relaxed);
	atomic_fetch_add_explicit(&sum->s2, minus ? 0 - part.s2 : part.s2, memory_order_relaxed);
}

void kedge__region_sum_part(struct kedge__region_sum *sum, bool minus, const void *data, size_t bytes, uint64_t pos)
{
	add(sum, minus, kedge__sum_ruled(sum->rule, data, bytes, pos));
}

void kedge__region_sum_fill(struct kedge__region_sum *sum, bool minus, uint64_t pattern, uint64_t bytes, uint64_t pos)
{
	struct kedge__sum total = {0, 0};
	uint64_t words[FILL_BYTES / 8];

	kedge__fill_pattern(pattern, 0, words, (size_t)KEDGE__MIN(sizeof(words), bytes));
	for (uint64_t done = 0; done < bytes; done += sizeof(words)) {
		size_t n = (size_t)KEDGE__MIN(sizeof(words), bytes - done);

		total = kedge__sum_add(total, kedge__sum_ruled(sum->rule, words, n, pos + done));
	}
	add(sum, minus, total);
}

void kedge__region_sum_unread(struct kedge__region_sum *sum, bool minus, uint64_t bytes)
{
	atomic_fetch_add_explicit(&sum->unread, minus ? 0 - bytes : bytes, memory_order_relaxed);
}

void kedge__region_sum_carry(struct kedge__region_sum *sum, const struct kedge__region_sum *from)
{
	add(sum, false, (struct kedge__sum){atomic_load(&from->s1), atomic_load(&from->s2)});
	kedge__region_sum_unread(sum, false, atomic_load(&from->unread));
}

bool kedge__region_sum_matches(const struct kedge__region_sum *sum, const struct kedge__region_record *region)
{
	struct kedge__sum total = {atomic_load(&sum->s1), atomic_load(&sum->s2)};

	return kedge__digest_equal(kedge__sum_digest(total, region->bytes), region->digest);
}
