/* SPDX-License-Identifier: BSD-3-Clause */
/* chunks: the parts of a region that candidates are tried on. */
#ifndef KEDGE_CODEC_CHUNKS_H
#define KEDGE_CODEC_CHUNKS_H

#include "codec/codec_table.h"

#define KEDGE__CHUNKS      8    /* at most */
#define KEDGE__CHUNK_PART  8    /* of a chunk, its most restless part, is what all candidates are tried on */
#define KEDGE__CHUNK_LEAST 2048 /* bytes of it; less would be all headers */

struct kedge__chunk {
	const uint8_t *raw, *base;
	size_t bytes;
	size_t part;   /* where the part begins on which all candidates are tried */
	double weight; /* how many places it stands for */
	unsigned stride; /* of records, as codec records takes it for the block around it; 0: it was not looked for */
};

/*
 * WANTED chunks at most, of at most BYTES bytes, from the calmest to the most restless: how many. They stand for the
 * places around them: a region may be calm here and restless there. Where there is more to be packed they are closer to
 * each other: a region that is calm nearly everywhere is judged by where it is not. BASE: all pieces have one.
 */
size_t kedge__chunks_take(const struct kedge__codec_input *pieces, size_t count, bool base, size_t bytes, size_t wanted,
			  struct kedge__chunk chunks[KEDGE__CHUNKS]);
/* Bytes of the part on which all candidates are tried. */
size_t kedge__chunk_part_bytes(const struct kedge__chunk *c);

#endif
