/* SPDX-License-Identifier: BSD-3-Clause */
#include "codec/candidates.h"

#define TIME_LEAST 0.4 /* of the time that a codec takes as a rule: for data that shrinks to nothing */

#define BYTES   KEDGE__FOR_BYTES
#define SMALL   KEDGE__FOR_SMALL
#define WIDE    KEDGE__FOR_WIDE
#define FLOATS  KEDGE__FOR_FLOATS
#define DOUBLES KEDGE__FOR_DOUBLES
#define SINGLES KEDGE__FOR_SINGLES
#define RECORDS KEDGE__FOR_RECORDS
#define FOUND   KEDGE__FOUND
#define BASE    KEDGE__WITH_BASE
#define SLOW    KEDGE__SLOW
#define DEEP    KEDGE__DEEP
#define SELDOM  KEDGE__SELDOM
#define THERE   KEDGE__THERE

/*
 * In the order in which they are likely to be the best, since there may be no time for all. The speeds are those of a
 * core of a server of the 2020s on data that gives no more than it must: they say how much can be tried, and stand in
 * where nothing can be measured. What is chosen depends on what was measured; only that of GPUs (H200) is taken for
 * granted.
 */
const struct kedge__candidate kedge__candidates[] = {
    {"delta+planes", 300e9, 1500e6, WIDE | THERE},
    {"planes", 300e9, 1500e6, WIDE | THERE},
    {"lz4", 36e9, 2500e6, BYTES | WIDE | THERE},
    {"deflate:1", 28e9, 500e6, BYTES | WIDE | THERE},
    {"field", 600e6, 700e6, WIDE},
    {"shuffle+zstd:1", 450e6, 1000e6, WIDE},
    {"zstd:1", 350e6, 800e6, BYTES},
    {"delta+zstd:1", 350e6, 800e6, SMALL},
    {"bitshuffle+zstd:1", 500e6, 1000e6, SMALL},
    {"records+zstd:1", 450e6, 1200e6, BYTES | WIDE | RECORDS},
    {"records+zstd:1", 400e6, 1200e6, BYTES | FOUND},
    {"field", 600e6, 700e6, WIDE | RECORDS},
    {"shuffle:8+zstd:1", 350e6, 1000e6, BYTES},
    {"lz4", 800e6, 2500e6, BYTES | WIDE},
    {"zstd:1", 350e6, 800e6, WIDE},
    {"minus+bitshuffle+zstd:1", 500e6, 1000e6, WIDE | BASE},
    {"xor+shuffle+zstd:1", 450e6, 1000e6, WIDE | BASE},
    {"xor+zstd:1", 450e6, 1000e6, BYTES | WIDE | BASE},
    {"xor+records+zstd:1", 450e6, 1000e6, BYTES | WIDE | RECORDS | BASE},
    {"minus+shuffle+zstd:1", 450e6, 1000e6, WIDE | BASE},
    {"bitshuffle+lz4", 900e6, 2000e6, WIDE},
    {"shuffle+lz4", 900e6, 2500e6, WIDE},
    {"delta+bitshuffle+zstd:1", 500e6, 900e6, WIDE},
    {"delta+shuffle+zstd:1", 450e6, 900e6, WIDE},
    {"bitshuffle+zstd:1", 500e6, 1000e6, WIDE},
    {"records+lz4", 700e6, 2000e6, BYTES | WIDE | RECORDS},
    {"shuffle+zstd:3", 350e6, 1000e6, WIDE},
    {"zstd:3", 220e6, 800e6, BYTES | WIDE},
    {"delta+zstd:1", 350e6, 800e6, WIDE},
    {"records+zstd:3", 300e6, 1200e6, BYTES | WIDE | RECORDS},
    {"records+lz4", 600e6, 2000e6, BYTES | FOUND},
    {"records+zstd:3", 280e6, 1200e6, BYTES | FOUND},
    {"records+zstd:3", 280e6, 1200e6, WIDE | FOUND | SELDOM},
    {"fpc64:12", 800e6, 800e6, DOUBLES},
    {"fpc32:12", 700e6, 700e6, SINGLES},
    {"shuffle:4+zstd:1", 350e6, 1000e6, BYTES},
    {"delta+planes", 500e6, 500e6, SMALL},
    {"delta+zstd:3", 250e6, 800e6, SMALL | WIDE},
    {"bitshuffle+lz4", 900e6, 2000e6, SMALL},
    {"fpc64:12+zstd:1", 500e6, 600e6, DOUBLES | SELDOM},
    {"zstd:9", 60e6, 900e6, BYTES | WIDE | SLOW},
    {"shuffle+zstd:9", 60e6, 900e6, WIDE | SLOW},
    {"bitshuffle+zstd:9", 80e6, 1000e6, SMALL | WIDE | SELDOM},
    {"shuffle+zstd:19", 4e6, 800e6, WIDE | DEEP},
    {"zstd:19", 3e6, 800e6, BYTES | WIDE | DEEP},
    {"bitshuffle+zstd:19", 5e6, 800e6, SMALL | WIDE | DEEP},
    {"delta+shuffle+zstd:19", 4e6, 800e6, WIDE | DEEP},
    {"delta+bitshuffle+zstd:19", 5e6, 800e6, WIDE | DEEP},
    {"records+zstd:19", 4e6, 800e6, BYTES | WIDE | RECORDS | DEEP},
    {"records+zstd:19", 4e6, 800e6, BYTES | WIDE | FOUND | DEEP},
    {"shuffle:8+zstd:19", 4e6, 800e6, BYTES | DEEP},
    {"shuffle:4+zstd:19", 4e6, 800e6, BYTES | DEEP},
    {"delta+zstd:19", 5e6, 800e6, SMALL | WIDE | DEEP},
    {"xor+zstd:19", 4e6, 800e6, BYTES | WIDE | BASE | DEEP},
    {"xor+shuffle+zstd:19", 4e6, 800e6, WIDE | BASE | DEEP},
    {"xor+records+zstd:19", 4e6, 800e6, BYTES | WIDE | RECORDS | BASE | DEEP},
    {"minus+shuffle+zstd:19", 4e6, 800e6, WIDE | BASE | DEEP},
    {"minus+bitshuffle+zstd:19", 5e6, 800e6, WIDE | BASE | DEEP},
    {"fpzip", 80e6, 80e6, FLOATS | DEEP},
    {"fpc64:12+zstd:19", 5e6, 400e6, DOUBLES | DEEP},
    {"deflate:9", 30e6, 500e6, BYTES | WIDE | DEEP},
};

const size_t kedge__candidate_count = KEDGE__COUNT(kedge__candidates);

_Static_assert(KEDGE__COUNT(kedge__candidates) <= 64, "a set of candidates is 64 bits");

/* Such records are as long as a number, for which there is a faster way to the same. */
static bool is_number(unsigned stride)
{
	return stride == 4 || stride == 8;
}

static bool fits(const struct kedge__candidate *c, const struct kedge__codec_choice *wanted, enum kedge_type type,
		 bool base)
{
	unsigned stride = wanted->stride;
	unsigned width = type == KEDGE_BYTES ? 1 : kedge__element_width(type);
	bool number = kedge__element_is_float(type);

	if ((c->data & THERE && wanted->bus <= 0) || (c->data & BASE && !base) ||
	    (c->data & RECORDS && (!stride || stride == width)))
		return false;
	/* Where nothing is known of the data, records of one size are seldom all there is: they are looked for in each
	 * block. */
	if (c->data & RECORDS && !(c->data & BASE) && type == KEDGE_BYTES && !is_number(stride))
		return false;
	if (c->data & SMALL && width == 1)
		return type != KEDGE_BYTES;
	if (c->data & DOUBLES)
		return number && width == 8;
	if (c->data & SINGLES)
		return number && width == 4;
	if (c->data & FLOATS)
		return number && (width == 8 || width == 4);
	return c->data & (width > 1 ? WIDE : BYTES);
}

/* False: not for such records. */
static bool use_stride(struct kedge__codec_choice *choice, unsigned stride, enum kedge_type type)
{
	bool field = choice->codec == &kedge__codec_field;

	choice->level = (int)stride;
	if (is_number(stride) && !field)
		choice->codec = &kedge__codec_shuffle;
	return !field || (!choice->row && stride % kedge__element_width(type) == 0);
}

bool kedge__candidate_make(size_t i, const struct kedge__codec_choice *wanted, enum kedge_type type, bool base,
			   struct kedge__codec_choice *choice)
{
	const struct kedge__candidate *c = &kedge__candidates[i];
	struct kedge__codec_choice made;

	if (!fits(c, wanted, type, base) || kedge__codec_choice_parse(c->name, &made, NULL) != 0)
		return false;
	made.smallest = wanted->smallest;
	made.row = wanted->row;
	made.plane = wanted->plane;
	made.stride = wanted->stride;
	made.target = wanted->target;
	made.storage = wanted->storage;
	made.pace = wanted->pace;
	made.bus = wanted->bus;
	made.there = c->data & THERE;
	if (c->data & RECORDS && !use_stride(&made, wanted->stride, type))
		return false;
	*choice = made;
	return true;
}

bool kedge__candidate_alike(const struct kedge__codec_choice *a, const struct kedge__codec_choice *b)
{
	return a->codec == b->codec && a->steps == b->steps && a->there == b->there &&
	       (a->codec->general || a->level == b->level);
}

double kedge__codec_pace_built_in(const char *codec, double size)
{
	for (size_t i = 0; i < kedge__candidate_count; i++)
		if (!(kedge__candidates[i].data & THERE) && strcmp(kedge__candidates[i].name, codec) == 0)
			/* What shrinks to less takes less time. */
			return KEDGE__MIN(1, TIME_LEAST + size) / kedge__candidates[i].encode;
	return 0;
}
