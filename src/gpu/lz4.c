/* SPDX-License-Identifier: BSD-3-Clause */
/* The host's side of lz4.cu. */
#include "gpu/gpu.h"

#define HEAD UINT64_C(16)

static uint32_t parts(const struct kedge__gpu_blocks *b)
{
	return b->largest / KEDGE_MATCH_PART + (b->largest % KEDGE_MATCH_PART != 0);
}

uint64_t kedge__gpu_lz4_scratch(const struct kedge__gpu_blocks *b)
{
	return (uint64_t)b->count * parts(b) * (KEDGE_LZ4_SCRATCH + HEAD);
}

/* As many blocks of threads as UNITS need, PER of which one takes; what is beyond a sensible number, they take in
 * turns. */
static unsigned grid(uint64_t units, unsigned per)
{
	return (unsigned)KEDGE__MIN((units + per - 1) / per, UINT64_C(1) << 20);
}

int kedge__gpu_lz4_encode(struct kedge__gpu *g, const struct kedge__gpu_blocks *b, kedge__gpu_address raw,
			  kedge__gpu_address scratch, kedge__gpu_address slots, struct kedge__error *err)
{
	uint64_t units = (uint64_t)b->count * parts(b);
	struct kedge_lz4_args a = {
	    .count = b->count,
	    .parts = parts(b),
	    .places = b->places,
	    .lengths = b->lengths,
	    .sizes = b->sizes,
	    .raw = raw,
	    .scratch = scratch + units * HEAD,
	    .heads = scratch,
	    .slots = slots,
	};
	int rc = units ? kedge__gpu_launch(g, b->stream, "kedge_lz4_encode", grid(units, KEDGE_MATCH_THREADS / 32),
					   KEDGE_MATCH_THREADS, &a, err)
		       : 0;

	if (!rc && b->count)
		rc = kedge__gpu_launch(g, b->stream, "kedge_lz4_join", grid(b->count, 1), KEDGE_THREADS, &a, err);
	return rc;
}

int kedge__gpu_lz4_decode(struct kedge__gpu *g, const struct kedge__gpu_blocks *b, kedge__gpu_address packed,
			  kedge__gpu_address packed_places, kedge__gpu_address raw, kedge__gpu_address damaged,
			  struct kedge__error *err)
{
	struct kedge_lz4_args a = {
	    .count = b->count,
	    .places = b->places,
	    .lengths = b->lengths,
	    .sizes = b->sizes,
	    .packed = packed,
	    .packed_places = packed_places,
	    .out = raw,
	    .damaged = damaged,
	};

	return b->count ? kedge__gpu_launch(g, b->stream, "kedge_lz4_decode", grid(b->count, KEDGE_THREADS / 32),
					    KEDGE_THREADS, &a, err)
			: 0;
}
