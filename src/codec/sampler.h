/* SPDX-License-Identifier: BSD-3-Clause */
/* Between the files that choose by samples: sample.c, sample_records.c, and sample_far.c. */
#ifndef KEDGE_CODEC_SAMPLER_H
#define KEDGE_CODEC_SAMPLER_H

#include "codec/candidates.h"
#include "codec/chunks.h"

#define KEDGE__SAMPLE_BLOCK (128 << 10) /* bytes of an entire block, as a rule */
#define KEDGE__FINALS       16

struct kedge__trial {
	size_t candidate;
	struct kedge__codec_choice choice;
	size_t begun[KEDGE__CHUNKS];  /* bytes that parts of the chunks shrank to, */
	size_t packed[KEDGE__CHUNKS]; /* and that all of each did */
	double time;                  /* seconds that the latter took, as if all of the places were packed */
	double parted, setup;    /* the share of bytes and seconds that a chunk takes more if it is packed by halves */
	double whole;            /* the share of itself that an entire block shrinks to, */
	double joined, slowed;   /* and of the bytes and the seconds that its chunks take */
	bool compared;           /* on a block, */
	bool beaten;             /* and by one */
	double size, pace, cost; /* share, seconds a byte, what is compared */
	bool final;
	bool far; /* it may make use of repeats that are further away than a chunk is long */
	uint64_t bytes, tries; /* that it took */
};

struct kedge__sampler {
	struct kedge__codec_choice wanted;
	const struct kedge__codec_input *pieces;
	size_t count;
	uint64_t total;
	enum kedge_type type;
	bool base;
	double budget; /* seconds, */
	double blocks; /* and those of them that are left for entire blocks */
	size_t chunk;  /* bytes of one, at most */
	struct kedge__chunk chunks[KEDGE__CHUNKS];
	size_t chunk_count;
	double finding;  /* seconds to find the size of records in a block */
	uint8_t *packed; /* KEDGE__SAMPLE_BLOCK for each thread */
	struct kedge__trial *trials;
	size_t trial_count;
	struct kedge__trial *finals[KEDGE__FINALS]; /* those that are tried on more */
	size_t final_count;
};

double kedge__thread_seconds(void); /* of the processor */

/* The size of its records is found in each block. */
static inline bool kedge__trial_is_found(const struct kedge__trial *t)
{
	return kedge__candidates[t->candidate].data & KEDGE__FOUND;
}

/* sample.c */

/* What bytes FROM to TO of a chunk shrink to. */
size_t kedge__trial_pack(const struct kedge__sampler *s, struct kedge__trial *t, const struct kedge__chunk *c, size_t from, size_t to,
			 int worker);
double kedge__trial_share(const struct kedge__sampler *s, struct kedge__trial *t, const struct kedge__chunk *block); /* of all of it */
void kedge__sampler_add(struct kedge__sampler *s, struct kedge__trial *t); /* to those that are tried on more, if it is not one of them */

/* sample_far.c */

/* Whether data repeats itself further away than a chunk is long, if there is the time to look, or HOPELESS: chunks did not shrink.
 * Then those that BLOCK says make the most of it are among those that are tried on more. */
bool kedge__sampler_look_far(struct kedge__sampler *s, const struct kedge__chunk *block, bool hopeless);

/* sample_records.c */

/* The size of records: by the shape, or as found in the most restless places; 0: there are none. */
unsigned kedge__sampler_stride(const struct kedge__sampler *s);
/* Whether sizes are to be found, for any trial; and find them, with what that takes. Where no block of a sample has records, the
 * trials that need some are dropped. */
bool kedge__sampler_finds(const struct kedge__sampler *s);
void kedge__sampler_find(struct kedge__sampler *s);
const struct kedge__codec_input *kedge__sampler_piece(const struct kedge__sampler *s, const struct kedge__chunk *c); /* that C is of */

#endif
