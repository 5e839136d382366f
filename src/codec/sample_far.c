/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What samples are too short for: data that repeats itself at a distance that is longer than a chunk and shorter than a
 * block. In chunks of it nothing may be worth packing that shrinks to a third in blocks.
 */
#include "codec/sampler.h"

#define FAR       0.75 /* of what a block shrinks to in chunks, at most, where it has such repeats, */
#define FAR_ALONE 0.95 /* and where nothing else shrinks it */
#define FAR_PLACES                                                                                                     \
	3 /* blocks in which they are looked for, where chunks do not shrink; LZ4 is quick there, else in one, */
#define FAR_BUDGET 0.5e-3 /* if there are so many seconds */
#define FAR_LEVEL  (-7)   /* of LZ4: three times as fast, and as good at long repeats */
#define FAR_TRIALS 2      /* the best of those that could use them, which are tried as others are then */

/* What LZ4 makes of blocks beside what it makes of their chunks, in so many PLACES. */
static double far_share(const struct kedge__sampler *s, size_t places)
{
	struct kedge__trial lz4 = {.choice = {.codec = &kedge__codec_lz4, .level = FAR_LEVEL}};
	size_t whole = 0, parts = 0;

	for (size_t i = 0; i < s->count && places; i++) {
		const struct kedge__codec_input *piece = &s->pieces[(s->count / 2 + i) % s->count];
		const struct kedge__chunk block = {.raw = piece->raw,
						   .bytes = KEDGE__MIN(piece->bytes, KEDGE__SAMPLE_BLOCK)};

		if (block.bytes < 2 * s->chunk)
			continue;
		places--;
		whole += kedge__trial_pack(s, &lz4, &block, 0, block.bytes, 0);
		for (size_t at = 0; at < block.bytes; at += s->chunk)
			parts += kedge__trial_pack(s, &lz4, &block, at, KEDGE__MIN(block.bytes, at + s->chunk), 0);
	}
	return parts ? (double)whole / (double)parts : 1;
}

/* It would make use of them, and needs no base. */
static bool sees_far(const struct kedge__trial *t)
{
	const struct kedge__codec_choice *c = &t->choice;
	unsigned data = kedge__candidates[t->candidate].data;

	return (c->codec->general || c->second) && !(c->steps & KEDGE__STEP_BASE) &&
	       !(data & (KEDGE__DEEP | KEDGE__SLOW | KEDGE__THERE | KEDGE__SELDOM));
}

/* Those that make the most of such repeats, by a block: chunks do not show them. */
static void add_far(struct kedge__sampler *s, const struct kedge__chunk *block)
{
	for (size_t i = 0; i < s->trial_count; i++)
		s->trials[i].whole = sees_far(&s->trials[i]) ? kedge__trial_share(s, &s->trials[i], block) : 1;
	for (size_t n = 0; n < FAR_TRIALS; n++) {
		struct kedge__trial *best = NULL;

		for (size_t i = 0; i < s->trial_count; i++) {
			struct kedge__trial *t = &s->trials[i];

			if (!t->far && (!best || t->whole < best->whole))
				best = t;
		}
		if (!best || best->whole >= 1)
			return;
		best->far = true;
		kedge__sampler_add(s, best);
	}
}

bool kedge__sampler_look_far(struct kedge__sampler *s, const struct kedge__chunk *block, bool hopeless)
{
	if (s->wanted.smallest || (!hopeless && s->budget < FAR_BUDGET) ||
	    far_share(s, hopeless ? FAR_PLACES : 1) > (hopeless ? FAR_ALONE : FAR))
		return false;
	add_far(s, block);
	return true;
}
