/* SPDX-License-Identifier: BSD-3-Clause */
/* The choice for a block, where that for its region leaves one: of memory without a type, and with "max". */
#include "codec/candidates.h"

#define NEAR_BLOCK  (256 << 10) /* bytes, for a look at a block to be worth its time */
#define NEAR_CHUNKS 4
#define NEAR_SHARE  128  /* of a block, in each of the chunks */
#define DEEP_NEAR   1.35 /* how much larger than the best the quick form of a slow codec may be */

/* ------------------------------------------------------------------ by samples */

static double block_share(const struct kedge__codec_choice *choice, const struct kedge__codec_input *in,
			  uint8_t *packed)
{
	size_t chunk = in->bytes / NEAR_SHARE, sum = 0;

	for (size_t i = 0; i < NEAR_CHUNKS; i++) {
		/* Elements of up to 16 bytes stay whole. */
		size_t at = (in->bytes - chunk) / (NEAR_CHUNKS - 1) * i / 16 * 16, used;
		const struct kedge__codec_input part = {
		    .raw = (const uint8_t *)in->raw + at, .bytes = chunk, .type = in->type};
		uint16_t param;

		if (choice->codec->encode(choice, &part, packed, chunk, &used, &param, NULL) != 0)
			used = chunk;
		sum += used;
	}
	return (double)sum / (double)(NEAR_CHUNKS * chunk);
}

/* Those that are near are about as fast as one another, so that size decides. */
struct kedge__codec_choice kedge__codec_settle(const struct kedge__codec_choice *choice,
					       const struct kedge__codec_input *in)
{
	struct kedge__codec_choice best = *choice;
	double least = 0;
	uint8_t *packed;

	if (!choice->near || choice->smallest || in->bytes < NEAR_BLOCK)
		return best;
	packed = kedge__malloc(in->bytes / NEAR_SHARE);
	for (size_t i = 0; packed && i < kedge__candidate_count; i++) {
		struct kedge__codec_choice c;
		double share;

		if (!(choice->near >> i & 1) || !kedge__candidate_make(i, choice, in->type, false, &c))
			continue;
		share = block_share(&c, in, packed);
		if (least <= 0 || share < least) {
			least = share;
			best = c;
		}
	}
	kedge__free(packed);
	return best;
}

/* ------------------------------------------------------------------ by trying all */

struct contest {
	const struct kedge__codec_choice *choice;
	const struct kedge__codec_input *in;
	uint8_t *scratch, *out; /* the best so far is in OUT */
	size_t used;            /* as many as there are raw: nothing shrank it */
	uint16_t codec, param;
	size_t sizes[64]; /* of the quick ones; 0: not tried */
};

static void compete(struct contest *c, size_t i)
{
	struct kedge__codec_choice with;
	uint16_t param;
	size_t used;

	if (!(c->choice->near >> i & 1) || !kedge__candidate_make(i, c->choice, c->in->type, c->in->base, &with) ||
	    with.codec->encode(&with, c->in, c->scratch, c->in->bytes - 1, &used, &param, NULL) != 0)
		return;
	c->sizes[i] = used;
	if (used >= c->used)
		return;
	memcpy(c->out, c->scratch, used);
	c->used = used;
	c->codec = with.codec->id;
	c->param = param;
}

/* The quick form of deep candidate I came close to the best, or it has none. */
static bool has_chance(const struct contest *c, size_t i)
{
	struct kedge__codec_choice deep, quick;
	bool known = false;

	if (!kedge__candidate_make(i, c->choice, c->in->type, c->in->base, &deep))
		return false;
	for (size_t k = 0; k < kedge__candidate_count; k++) {
		if (!c->sizes[k] || kedge__candidates[k].data & KEDGE__DEEP ||
		    !kedge__candidate_make(k, c->choice, c->in->type, c->in->base, &quick) ||
		    !kedge__candidate_alike(&deep, &quick))
			continue;
		known = true;
		if ((double)c->sizes[k] <= DEEP_NEAR * (double)c->used)
			return true;
	}
	return !known;
}

bool kedge__codec_smallest(const struct kedge__codec_choice *choice, const struct kedge__codec_input *in, void *out,
			   size_t *used, uint16_t *codec, uint16_t *param)
{
	struct contest c = {.choice = choice, .in = in, .out = out, .used = in->bytes};

	c.scratch = kedge__malloc(in->bytes);
	for (size_t i = 0; c.scratch && i < kedge__candidate_count; i++)
		if (!(kedge__candidates[i].data & KEDGE__DEEP))
			compete(&c, i);
	for (size_t i = 0; c.scratch && i < kedge__candidate_count; i++)
		if (kedge__candidates[i].data & KEDGE__DEEP && has_chance(&c, i))
			compete(&c, i);
	kedge__free(c.scratch);
	if (c.used == in->bytes)
		return false;
	*used = c.used;
	*codec = c.codec;
	*param = c.param;
	return true;
}
