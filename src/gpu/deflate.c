/* SPDX-License-Identifier: BSD-3-Clause */
/* The host's side of deflate.cu. */
#include "gpu/gpu.h"

#define HEAD UINT64_C(48)

static uint64_t pieces(const struct kedge__gpu_blocks *b)
{
	return b->largest / KEDGE_DEFLATE_PIECE + (b->largest % KEDGE_DEFLATE_PIECE != 0);
}

uint64_t kedge__gpu_deflate_scratch(const struct kedge__gpu_blocks *b)
{
	return b->count * pieces(b) * (KEDGE_DEFLATE_SCRATCH + HEAD);
}

int kedge__gpu_deflate_encode(struct kedge__gpu *g, const struct kedge__gpu_blocks *b, kedge__gpu_address raw,
			      kedge__gpu_address scratch, kedge__gpu_address slots, struct kedge__error *err)
{
	uint64_t units = b->count * pieces(b);
	struct kedge_deflate_args a = {
	    .count = b->count,
	    .pieces = (unsigned)pieces(b),
	    .places = b->places,
	    .lengths = b->lengths,
	    .sizes = b->sizes,
	    .raw = raw,
	    .scratch = scratch + units * HEAD,
	    .heads = scratch,
	    .slots = slots,
	};
	int rc = units ? kedge__gpu_launch(g, b->stream, "kedge_deflate_encode",
					   (unsigned)KEDGE__MIN(units, UINT64_C(1) << 20), KEDGE_MATCH_THREADS, &a, err)
		       : 0;

	if (!rc && b->count)
		rc = kedge__gpu_launch(g, b->stream, "kedge_deflate_join",
				       (unsigned)KEDGE__MIN(b->count, UINT32_C(1) << 20), KEDGE_THREADS, &a, err);
	return rc;
}
