/* SPDX-License-Identifier: BSD-3-Clause */
/* Damage is judged by pages, where blocks have pages: the others of a damaged block are as good as before. */
#include "store/verify.h"

#define WORD UINT64_C(8)

/* On failure of some pages *BAD, for the caller to free, has a byte per page, 1 for those. */
static int pages_check(const struct kedge__segment *seg, size_t block, const uint8_t *raw, uint8_t **bad,
		       struct kedge__error *err)
{
	const struct kedge__block_record *b = &seg->blocks[block];
	size_t pages = kedge__pages_of(b->raw_bytes), count = 0;
	int rc = 0;

	for (size_t i = 0; i < pages; i++) {
		uint32_t at = (uint32_t)i * KEDGE__BLOCK_PAGE, bytes = KEDGE__MIN(KEDGE__BLOCK_PAGE, b->raw_bytes - at);

		if (kedge__sums_check(seg->sums + (b->first_sum + i) * KEDGE__SUM_BYTES, raw + at, bytes) == 1)
			continue;
		if (!*bad)
			*bad = kedge__calloc(pages, 1);
		if (!*bad)
			return kedge__error_nomem(err);
		(*bad)[i] = 1;
		if (!count++)
			rc = kedge__error_set(err, KEDGE_E_DAMAGED, 0, "the checksum of page %zu does not match", i);
	}
	if (count > 1)
		rc = kedge__error_set(err, KEDGE_E_DAMAGED, 0, "the checksums of %zu of %zu pages do not match", count,
				      pages);
	return rc;
}

int kedge__pages_read(struct kedge__family *f, const struct kedge__segment *seg, size_t block, size_t number,
		      uint8_t *raw, struct kedge__error *err)
{
	struct iovec piece = {raw, seg->blocks[block].stored_bytes};
	int rc = kedge__segment_read_run(seg, block, 0, &piece, 1, err);

	if (rc)
		return rc;
	rc = pages_check(seg, block, raw, &f->bad_pages[number], err);
	if (rc && rc != KEDGE_E_NOMEM)
		kedge__segment_prefix_block(seg, block, err);
	return rc;
}

/* From OFFSET of a bad block on: how many of LEN bytes are all bad, or all good. */
static uint32_t stretch(const struct kedge__family *f, size_t block, uint32_t offset, uint32_t len, bool *bad)
{
	const uint8_t *pages = f->bad_pages[block];
	uint32_t page = offset / KEDGE__BLOCK_PAGE, end = offset + len;

	*bad = !pages || pages[page];
	if (!pages)
		return len;
	while (page * KEDGE__BLOCK_PAGE < end && pages[page] == *bad)
		page++;
	return KEDGE__MIN(page * KEDGE__BLOCK_PAGE, end) - offset;
}

uint64_t kedge__family_bad_bytes(const struct kedge__family *f, size_t block, uint32_t offset, uint32_t len)
{
	uint64_t count = 0;

	for (uint32_t n; f->bad[block] && len; offset += n, len -= n) {
		bool bad;

		n = stretch(f, block, offset, len, &bad);
		count += bad ? n : 0;
	}
	return count;
}

/* Words count as bad with any of their bytes: so those of a version and those that a later one takes out of its sum
 * agree. */
void kedge__use_damaged(struct kedge__family *f, size_t block, const struct kedge__use *u, const uint8_t *raw)
{
	struct kedge__region_sum *sum = &f->sums[u->sum];
	uint32_t at = 0, done = 0, n;

	for (; at < u->len; at += n) {
		uint64_t from, to;
		bool bad;

		n = stretch(f, block, u->offset + at, u->len - at, &bad);
		if (!bad)
			continue;
		from = KEDGE__MAX((u->at + at) & ~(WORD - 1), u->at + done);
		to = KEDGE__MIN((u->at + at + n + WORD - 1) & ~(WORD - 1), u->at + u->len);
		if (from > u->at + done)
			kedge__region_sum_part(sum, u->minus, raw + u->offset + done, (size_t)(from - u->at - done),
					       u->at + done);
		kedge__region_sum_unread(sum, u->minus, to - from);
		done = (uint32_t)(to - u->at);
	}
	if (done < u->len)
		kedge__region_sum_part(sum, u->minus, raw + u->offset + done, u->len - done, u->at + done);
}
