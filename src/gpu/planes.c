/* SPDX-License-Identifier: BSD-3-Clause */
/* The host's side of planes.cu. */
#include "gpu/gpu.h"

static const struct kernels {
	unsigned width;
	const char *encode, *decode;
} kernels[] = {
#define PLANES(width) {width, "kedge_planes_encode_" #width, "kedge_planes_decode_" #width},
    KEDGE_PLANES_KERNELS(PLANES)
#undef PLANES
};

static int launch(struct kedge__gpu *g, bool encode, const struct kedge__gpu_planes *p, struct kedge_planes_args *a,
		  struct kedge__error *err)
{
	uint64_t strips = (p->bytes + KEDGE_PLANES_STRIP - 1) / KEDGE_PLANES_STRIP;
	size_t i = 0;

	while (i < KEDGE__COUNT(kernels) && kernels[i].width != p->width)
		i++;
	if (i == KEDGE__COUNT(kernels) || p->bytes % (8 * p->width))
		return kedge__error_set(err, KEDGE_E_ARG, 0, "codec planes: %llu bytes of numbers of %u on a GPU",
					(unsigned long long)p->bytes, p->width);
	a->bytes = p->bytes;
	a->base = p->base;
	a->steps = p->steps;
	a->sizes = p->sizes;
	return kedge__gpu_launch(g, p->stream, encode ? kernels[i].encode : kernels[i].decode,
				 (unsigned)KEDGE__MIN(strips, g->processors * 32u), KEDGE_THREADS, a, err);
}

int kedge__gpu_planes_encode(struct kedge__gpu *g, const struct kedge__gpu_planes *p, kedge__gpu_address raw,
			     kedge__gpu_address slots, struct kedge__error *err)
{
	struct kedge_planes_args a = {.raw = raw, .slots = slots};

	return launch(g, true, p, &a, err);
}

int kedge__gpu_planes_decode(struct kedge__gpu *g, const struct kedge__gpu_planes *p, kedge__gpu_address packed,
			     kedge__gpu_address places, kedge__gpu_address raw, kedge__gpu_address damaged,
			     struct kedge__error *err)
{
	struct kedge_planes_args a = {.packed = packed, .places = places, .out = raw, .damaged = damaged};

	return launch(g, false, p, &a, err);
}
