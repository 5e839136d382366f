/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Records in samples: one size for all of a region, and, for what codec records would find by itself, one for each
 * block that a chunk is of.
 */
#include "codec/sampler.h"

#define STRIDE_TIME   60e-6 /* seconds to look for records in one place */
#define STRIDE_PLACES 3
#define FIND_TIME     15e-6 /* the same in a block that is packed */

/* The size of records: by the shape, or as found in the most restless places. */
unsigned kedge__sampler_stride(const struct kedge__sampler *s)
{
	unsigned width = (unsigned)KEDGE__MAX(kedge_type_size(s->type), (size_t)1);
	size_t places = KEDGE__MIN(s->chunk_count, (size_t)STRIDE_PLACES);
	struct kedge__strides strides;

	if (s->wanted.row)
		return s->wanted.row <= KEDGE__STRIDE_FOUND_MOST / width ? s->wanted.row * width : 0;
	if (!s->wanted.smallest && s->budget < 4 * STRIDE_TIME * (double)places)
		places = s->budget < 4 * STRIDE_TIME ? 0 : 1;
	kedge__strides_init(&strides);
	for (size_t i = 0; i < places; i++) {
		const struct kedge__chunk *c = &s->chunks[s->chunk_count - 1 - i];

		kedge__strides_count(&strides, c->raw, c->bytes);
	}
	return kedge__strides_best(&strides);
}

bool kedge__sampler_finds(const struct kedge__sampler *s)
{
	size_t i = 0;

	while (i < s->trial_count && !kedge__trial_is_found(&s->trials[i]))
		i++;
	return i < s->trial_count;
}

const struct kedge__codec_input *kedge__sampler_piece(const struct kedge__sampler *s, const struct kedge__chunk *c)
{
	const struct kedge__codec_input *piece = s->pieces;

	while (c->raw < (const uint8_t *)piece->raw || c->raw >= (const uint8_t *)piece->raw + piece->bytes)
		piece++;
	return piece;
}

/* That is packed as one, as a rule. */
static struct kedge__codec_input block_of(const struct kedge__sampler *s, const struct kedge__chunk *c)
{
	struct kedge__codec_input block = *kedge__sampler_piece(s, c);
	size_t at = (size_t)(c->raw - (const uint8_t *)block.raw) / KEDGE__SAMPLE_BLOCK * KEDGE__SAMPLE_BLOCK;

	block.raw = (const uint8_t *)block.raw + at;
	block.bytes = KEDGE__MIN(block.bytes - at, KEDGE__SAMPLE_BLOCK);
	return block;
}

static void drop_found(struct kedge__sampler *s)
{
	size_t kept = 0;

	for (size_t i = 0; i < s->trial_count; i++)
		if (!kedge__trial_is_found(&s->trials[i]))
			s->trials[kept++] = s->trials[i];
	s->trial_count = kept;
}

/* Where no block of a sample has records, none of the others is expected to. What is found in a block holds for all
 * chunks of it, though another size would do better in one of them. */
void kedge__sampler_find(struct kedge__sampler *s)
{
	double start = kedge__thread_seconds();
	size_t looks = 0;
	bool found, any = false;

	for (size_t i = 0; i < s->chunk_count; i++) {
		const struct kedge__codec_input block = block_of(s, &s->chunks[i]);
		size_t k = 0;

		while (k < i && block_of(s, &s->chunks[k]).raw != block.raw)
			k++;
		if (k < i) {
			s->chunks[i].stride = s->chunks[k].stride;
			continue;
		}
		s->chunks[i].stride = kedge__records_stride(&block, &found);
		any = any || found;
		looks++;
	}
	s->finding = s->wanted.pace ? FIND_TIME : (kedge__thread_seconds() - start) / (double)looks;
	if (!any && !s->wanted.smallest)
		drop_found(s);
}
