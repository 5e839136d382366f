/* SPDX-License-Identifier: BSD-3-Clause */
/* The host's side of pass.cu and gather.cu. */
#include "gpu/gpu.h"

#include "base/digest_internal.h"

/* Blocks that gather: as many as fill the bus, and no more, so that others go on beside them. */
#define GATHERERS 32u

#define KEY_BYTES (DIGEST_WORDS * sizeof(uint64_t))

static const struct kernels {
	uint32_t chunk;
	const char *pass, *odd, *list;
} kernels[] = {
#define KERNELS(bytes, ...) {bytes, "kedge_pass_" #bytes, "kedge_pass_odd_" #bytes, "kedge_list_" #bytes},
    KEDGE_PASS_KERNELS(KERNELS, KERNELS)
#undef KERNELS
};

struct kedge__gpu_pass {
	struct kedge__gpu *gpu;
	const struct kernels *kernels;
	kedge__gpu_address keys; /* of chunks, then of the digests of a long chunk's blocks */
	uint64_t mask[2];
	struct kedge_digest_fold fold, top_fold;
};

static const struct kernels *kernels_find(uint32_t chunk)
{
	for (size_t i = 0; i < KEDGE__COUNT(kernels); i++) {
		if (kernels[i].chunk == chunk)
			return &kernels[i];
	}
	return NULL;
}

bool kedge__gpu_passes(uint32_t chunk)
{
	return kernels_find(chunk) != NULL;
}

uint64_t kedge__gpu_pass_words(uint32_t chunk)
{
	return KEDGE_SLAB_BYTES / chunk / 32;
}

static void fold_set(struct kedge_digest_fold *to, const struct digest_fold *from, uint64_t length)
{
	for (int j = 0; j < 4; j++) {
		for (int i = 0; i < 4; i++) {
			to->low[j][i] = (uint32_t)from->m[j][i];
			to->high[j][i] = (uint32_t)(from->m[j][i] >> 32);
		}
		to->start[j] = digest_length(from, j, length);
		to->none[j] = from->u[j];
		to->length[j] = from->v[j];
	}
}

static int keys_send(struct kedge__gpu_pass *p, const struct kedge__digest_key *key, struct kedge__error *err)
{
	int rc = kedge__gpu_alloc(p->gpu, 2 * KEY_BYTES, &p->keys, err);

	if (!rc)
		rc = kedge__gpu_copy_in(p->gpu, KEDGE__GPU_WORK, p->keys, key->chunk.nh, KEY_BYTES, err);
	if (!rc)
		rc = kedge__gpu_copy_in(p->gpu, KEDGE__GPU_WORK, p->keys + KEY_BYTES, key->top.nh, KEY_BYTES, err);
	return rc;
}

int kedge__gpu_pass_new(struct kedge__gpu *g, const struct kedge__digest_key *key, uint32_t chunk, uint64_t mask,
			struct kedge__gpu_pass **out, struct kedge__error *err)
{
	const struct kernels *found = kernels_find(chunk);
	struct kedge__gpu_pass *p;
	int rc;

	if (!found)
		return kedge__error_set(err, KEDGE_E_LIMIT, 0, "GPUs have no kernel for chunks of %u bytes", chunk);
	p = kedge__calloc(1, sizeof(*p));
	if (!p)
		return kedge__error_nomem(err);
	p->gpu = g;
	p->kernels = found;
	p->mask[0] = mask ? mask : UINT64_MAX;
	p->mask[1] = mask ? 0 : UINT64_MAX;
	fold_set(&p->fold, &key->chunk.fold, KEDGE__MIN(chunk, DIGEST_BLOCK));
	fold_set(&p->top_fold, &key->top.fold, chunk);
	rc = keys_send(p, key, err);
	if (rc)
		kedge__gpu_pass_free(p);
	else
		*out = p;
	return rc;
}

void kedge__gpu_pass_free(struct kedge__gpu_pass *p)
{
	if (!p)
		return;
	kedge__gpu_release(p->gpu, p->keys, 2 * KEY_BYTES);
	kedge__free(p);
}

static struct kedge_pass_args pass_args(const struct kedge__gpu_pass *p, const struct kedge__gpu_slabs *on,
					uint64_t first, uint64_t end)
{
	uint64_t words = kedge__gpu_pass_words(p->kernels->chunk) * sizeof(uint32_t);

	return (struct kedge_pass_args){
	    .slabs = on->slabs + first * sizeof(struct kedge_slab),
	    .count = (unsigned)(end - first),
	    .compare = on->compare,
	    .found = on->found + first * sizeof(struct kedge_slab_found),
	    .at = on->at + first * sizeof(struct kedge_slab_at),
	    .digests = on->digests,
	    .bits = on->bits + first * words,
	    .fill_bits = on->bits + (on->count + first) * words,
	    .changes = on->changes,
	    .fresh = on->fresh,
	    .fills = on->fills,
	    .mask = {p->mask[0], p->mask[1]},
	    .nh = p->keys,
	    .top_nh = p->keys + KEY_BYTES,
	    .fold = p->fold,
	    .top_fold = p->top_fold,
	};
}

/* Blocks of threads: one a slab, or so many that all multiprocessors are busy. */
static unsigned blocks_for(const struct kedge__gpu_pass *p, uint64_t slabs)
{
	return (unsigned)KEDGE__MIN(slabs, p->gpu->processors * 16u);
}

int kedge__gpu_pass_run(struct kedge__gpu_pass *p, enum kedge__gpu_stream s, const struct kedge__gpu_slabs *on,
			uint64_t first, uint64_t end, struct kedge__error *err)
{
	struct kedge_pass_args a = pass_args(p, on, first, end);

	return kedge__gpu_launch(p->gpu, s, on->odd ? p->kernels->odd : p->kernels->pass, blocks_for(p, end - first),
				 KEDGE_THREADS, &a, err);
}

int kedge__gpu_pass_list(struct kedge__gpu_pass *p, enum kedge__gpu_stream s, const struct kedge__gpu_slabs *on,
			 uint64_t first, uint64_t end, bool flat, struct kedge__error *err)
{
	struct kedge_pass_args a = pass_args(p, on, first, end);

	a.flat = flat;
	return kedge__gpu_launch(p->gpu, s, p->kernels->list, blocks_for(p, end - first), KEDGE_THREADS, &a, err);
}

static int gather(struct kedge__gpu_pass *p, enum kedge__gpu_stream s, const char *kernel, unsigned blocks,
		  const struct kedge__gpu_slabs *on, uint64_t first, uint64_t end, uint64_t from, kedge__gpu_address to,
		  struct kedge__error *err)
{
	struct kedge_gather_args a = {
	    .slabs = on->slabs + first * sizeof(struct kedge_slab),
	    .count = (unsigned)(end - first),
	    .chunk = p->kernels->chunk,
	    .found = on->found + first * sizeof(struct kedge_slab_found),
	    .at = on->at + first * sizeof(struct kedge_slab_at),
	    .changes = on->changes,
	    .origins = on->origins,
	    .to = to,
	    .first = from,
	};

	return kedge__gpu_launch(p->gpu, s, kernel, blocks, KEDGE_THREADS, &a, err);
}

int kedge__gpu_pass_count(struct kedge__gpu_pass *p, enum kedge__gpu_stream s, const struct kedge__gpu_slabs *on,
			  uint64_t first, uint64_t end, struct kedge__error *err)
{
	return gather(p, s, "kedge_count", blocks_for(p, end - first), on, first, end, 0, 0, err);
}

int kedge__gpu_pass_gather(struct kedge__gpu_pass *p, enum kedge__gpu_stream s, const struct kedge__gpu_slabs *on,
			   uint64_t first, uint64_t end, kedge__gpu_address to, struct kedge__error *err)
{
	return gather(p, s, "kedge_gather", (unsigned)KEDGE__MIN(end - first, GATHERERS), on, first, end, 0, to, err);
}

int kedge__gpu_pass_stage(struct kedge__gpu_pass *p, enum kedge__gpu_stream s, const struct kedge__gpu_slabs *on,
			  uint64_t first, uint64_t end, uint64_t from, kedge__gpu_address to, struct kedge__error *err)
{
	return gather(p, s, "kedge_gather", blocks_for(p, end - first), on, first, end, from, to, err);
}

int kedge__gpu_pass_settle(struct kedge__gpu_pass *p, enum kedge__gpu_stream s, const struct kedge__gpu_slabs *on,
			   uint64_t first, uint64_t end, uint8_t age, struct kedge__error *err)
{
	struct kedge_settle_args a = {
	    .slabs = on->slabs + first * sizeof(struct kedge_slab),
	    .count = (unsigned)(end - first),
	    .found = on->found + first * sizeof(struct kedge_slab_found),
	    .at = on->at + first * sizeof(struct kedge_slab_at),
	    .changes = on->changes,
	    .fresh = on->fresh,
	    .digests = on->digests,
	    .ages = on->ages,
	    .chunk = p->kernels->chunk,
	    .age = age,
	};

	return kedge__gpu_launch(p->gpu, s, "kedge_settle", blocks_for(p, end - first), KEDGE_THREADS, &a, err);
}
