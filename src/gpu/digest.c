/* SPDX-License-Identifier: BSD-3-Clause */
/* The host's side of digest.cu. */
#include "gpu/gpu.h"

#include "base/digest_internal.h"
#include "gpu/kernels.h"

#define KEY_BYTES (DIGEST_WORDS * sizeof(uint64_t))

static const struct kernel {
	uint32_t chunk;
	uint32_t lanes; /* for each chunk */
	const char *name;
} kernels[] = {
#define SHORT(bytes, loads)        {bytes, 1, "kedge_digest_" #bytes},
#define LONG(bytes, loads, blocks) {bytes, 8 * (blocks), "kedge_digest_" #bytes},
    KEDGE_DIGEST_KERNELS(SHORT, LONG)
#undef SHORT
#undef LONG
};

struct kedge__gpu_digest {
	struct kedge__gpu *gpu;
	const struct kernel *kernel;
	kedge__gpu_address keys; /* of chunks, then of the digests of a long chunk's blocks */
	struct kedge_digest_fold fold, top_fold;
};

static const struct kernel *kernel_find(uint32_t chunk)
{
	for (size_t i = 0; i < KEDGE__COUNT(kernels); i++) {
		if (kernels[i].chunk == chunk)
			return &kernels[i];
	}
	return NULL;
}

bool kedge__gpu_digests(uint32_t chunk)
{
	return kernel_find(chunk) != NULL;
}

static void fold_set(struct kedge_digest_fold *to, const struct digest_fold *from, uint64_t length)
{
	for (int j = 0; j < 4; j++) {
		for (int i = 0; i < 4; i++) {
			to->low[j][i] = (uint32_t)from->m[j][i];
			to->high[j][i] = (uint32_t)(from->m[j][i] >> 32);
		}
		to->start[j] = digest_length(from, j, length);
	}
}

static int keys_send(struct kedge__gpu_digest *d, const struct kedge__digest_key *key, struct kedge__error *err)
{
	int rc = kedge__gpu_alloc(d->gpu, 2 * KEY_BYTES, &d->keys, err);

	if (!rc)
		rc = kedge__gpu_copy_in(d->gpu, KEDGE__GPU_WORK, d->keys, key->chunk.nh, KEY_BYTES, err);
	if (!rc)
		rc = kedge__gpu_copy_in(d->gpu, KEDGE__GPU_WORK, d->keys + KEY_BYTES, key->top.nh, KEY_BYTES, err);
	return rc;
}

int kedge__gpu_digest_new(struct kedge__gpu *g, const struct kedge__digest_key *key, uint32_t chunk,
			  struct kedge__gpu_digest **out, struct kedge__error *err)
{
	const struct kernel *kernel = kernel_find(chunk);
	struct kedge__gpu_digest *d;
	int rc;

	if (!kernel)
		return kedge__error_set(err, KEDGE_E_LIMIT, 0, "GPUs have no kernel for chunks of %u bytes", chunk);
	d = kedge__calloc(1, sizeof(*d));
	if (!d)
		return kedge__error_nomem(err);
	d->gpu = g;
	d->kernel = kernel;
	fold_set(&d->fold, &key->chunk.fold, KEDGE__MIN(chunk, DIGEST_BLOCK));
	fold_set(&d->top_fold, &key->top.fold, chunk);
	rc = keys_send(d, key, err);
	if (rc)
		kedge__gpu_digest_free(d);
	else
		*out = d;
	return rc;
}

void kedge__gpu_digest_free(struct kedge__gpu_digest *d)
{
	if (!d)
		return;
	kedge__gpu_release(d->gpu, d->keys, 2 * KEY_BYTES);
	kedge__free(d);
}

int kedge__gpu_digest_run(struct kedge__gpu_digest *d, enum kedge__gpu_stream s, kedge__gpu_address data,
			  uint64_t count, kedge__gpu_address digests, kedge__gpu_address totals,
			  struct kedge__error *err)
{
	struct kedge_digest_args a = {
	    .data = data,
	    .count = count,
	    .digests = digests,
	    .totals = totals,
	    .nh = d->keys,
	    .top_nh = d->keys + KEY_BYTES,
	    .fold = d->fold,
	    .top_fold = d->top_fold,
	};
	uint64_t blocks = (count * d->kernel->lanes + KEDGE_THREADS - 1) / KEDGE_THREADS;

	return kedge__gpu_launch(d->gpu, s, d->kernel->name, (unsigned)KEDGE__MIN(blocks, d->gpu->processors * 16),
				 KEDGE_THREADS, &a, err);
}
