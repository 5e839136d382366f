/* SPDX-License-Identifier: BSD-3-Clause */
/* Parts of blocks without a codec that are checked as they are copied: page by page, or all of a block that has none.
 * To say what is wrong, the copy is checked once more: the original may be another by then. */
#include "store/internal.h"

struct part {
	const struct kedge__block_record *block;
	const uint8_t *sums; /* of its pages; NULL: it has none */
	uint32_t page;       /* bytes that have a checksum */
};

static struct part part_of(const struct kedge__segment *seg, size_t i, uint32_t offset, uint32_t bytes)
{
	const struct kedge__block_record *b = &seg->blocks[i];

	if (!kedge__block_has_pages(b))
		return (struct part){b, NULL, bytes};
	return (struct part){b, seg->sums + (b->first_sum + offset / KEDGE__BLOCK_PAGE) * (size_t)KEDGE__SUM_BYTES,
			     KEDGE__BLOCK_PAGE};
}

/* The checksum of what is AT bytes from the beginning of the part on. */
static uint64_t checksum_at(const struct part *p, uint32_t at)
{
	return p->sums ? kedge__get64(p->sums + at / p->page * KEDGE__SUM_BYTES) : p->block->checksum;
}

int kedge__segment_place_part(const struct kedge__segment *seg, size_t i, uint32_t offset, const void *stored,
			      const void *next, uint32_t bytes, void *to, uint64_t pos, struct kedge__sum *sum,
			      struct kedge__error *err)
{
	struct part p = part_of(seg, i, offset, bytes);
	bool same = true;

	for (uint32_t at = 0, n; at < bytes; at += n) {
		const uint8_t *from = (const uint8_t *)stored + at;

		n = KEDGE__MIN(p.page, bytes - at);
		same &= kedge__copy_checked((uint8_t *)to + at, from, at + n < bytes ? from + n : next, n, pos + at,
					    sum) == checksum_at(&p, at);
	}
	return same ? 0 : kedge__segment_check_part(seg, i, offset, to, bytes, err);
}

int kedge__segment_take_part(const struct kedge__segment *seg, size_t i, uint32_t offset, const void *stored,
			     uint32_t bytes, void *to, struct kedge__error *err)
{
	struct part p = part_of(seg, i, offset, bytes);
	bool same = true;

	for (uint32_t at = 0; at < bytes; at += p.page)
		same &= kedge__copy_hashed((uint8_t *)to + at, (const uint8_t *)stored + at,
					   KEDGE__MIN(p.page, bytes - at)) == checksum_at(&p, at);
	return same ? 0 : kedge__segment_check_part(seg, i, offset, to, bytes, err);
}
