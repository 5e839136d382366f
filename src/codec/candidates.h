/* SPDX-License-Identifier: BSD-3-Clause */
/* candidates: what "auto" and "max" choose from. */
#ifndef KEDGE_CODEC_CANDIDATES_H
#define KEDGE_CODEC_CANDIDATES_H

#include "codec/codec_table.h"

/* For which data a candidate is tried. */
#define KEDGE__FOR_BYTES   1u  /* untyped, and numbers of a byte */
#define KEDGE__FOR_WIDE    2u  /* elements of two bytes or more */
#define KEDGE__FOR_FLOATS  4u  /* floating point of four or eight bytes */
#define KEDGE__FOR_DOUBLES 8u  /* of eight */
#define KEDGE__FOR_SINGLES 16u /* of four */
#define KEDGE__FOR_RECORDS 32u /* records were found, all of one size */
#define KEDGE__FOUND       4096u /* records whose size is found in each block: of text, or where arrays follow each other */
#define KEDGE__WITH_BASE   64u /* there is a base */
#define KEDGE__SLOW        128u /* however well data packs */
#define KEDGE__DEEP        256u /* for "max" alone, where a quicker form of it is not far from the best */
#define KEDGE__SELDOM      2048u /* for "max" alone: seldom the best, and as quick as others */
#define KEDGE__FOR_SMALL   1024u /* numbers of a byte, as those of pictures */
#define KEDGE__THERE       512u /* for data on a GPU, which packs it, at so many bytes a second for all threads */

struct kedge__candidate {
	const char *name;
	double encode, decode; /* bytes per second and thread, as a rule */
	unsigned data;
};

extern const struct kedge__candidate kedge__candidates[];
extern const size_t kedge__candidate_count; /* at most 64: they have a bit each in a set */

/* Candidate I for data of TYPE, as WANTED; false: it is not for such data, or not in this build. */
bool kedge__candidate_make(size_t i, const struct kedge__codec_choice *wanted, enum kedge_type type, bool base,
			   struct kedge__codec_choice *choice);
/* The same but for the level of the general codec. */
bool kedge__candidate_alike(const struct kedge__codec_choice *a, const struct kedge__codec_choice *b);

#endif
