/* SPDX-License-Identifier: BSD-3-Clause */
/* The host's side of finder.cu. */
#include "gpu/gpu.h"

#include "gpu/kernels.h"

#define WARPS (KEDGE_THREADS / 32)
#define ALIGN UINT64_C(256)

static uint64_t round_up(uint64_t bytes)
{
	return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

static uint64_t tiles_of(uint64_t probes)
{
	return (probes + KEDGE_DEAL_TILE - 1) / KEDGE_DEAL_TILE;
}

/* The next BYTES from *AT on. */
static kedge__gpu_address take(kedge__gpu_address *at, uint64_t bytes)
{
	kedge__gpu_address taken = *at;

	*at += round_up(bytes);
	return taken;
}

uint64_t kedge__gpu_wave_place(struct kedge_finder_args *a, kedge__gpu_address at, uint64_t probes, uint64_t blocks)
{
	kedge__gpu_address end = at;

	a->probes = take(&end, probes * sizeof(struct kedge_probe));
	a->begin = take(&end, (blocks + 2) * sizeof(unsigned));
	a->keys = take(&end, probes * sizeof(unsigned));
	a->order = take(&end, probes * sizeof(unsigned));
	a->keys_to = take(&end, probes * sizeof(unsigned));
	a->order_to = take(&end, probes * sizeof(unsigned));
	a->tallies = take(&end, (tiles_of(probes) << KEDGE_DEAL_BITS) * sizeof(unsigned));
	a->bins = take(&end, (UINT64_C(1) << KEDGE_DEAL_BITS) * sizeof(unsigned));
	return end - at;
}

static int launch(struct kedge__gpu *g, const char *kernel, uint64_t blocks, const struct kedge_finder_args *a,
		  struct kedge__error *err)
{
	return blocks ? kedge__gpu_launch(g, KEDGE__GPU_WORK, kernel, (unsigned)blocks, KEDGE_THREADS, a, err) : 0;
}

int kedge__gpu_finder_slabs(struct kedge__gpu *g, const char *kernel, const struct kedge_finder_args *a,
			    struct kedge__error *err)
{
	return launch(g, kernel, (a->slab_end - a->slab_begin + WARPS - 1) / WARPS, a, err);
}

int kedge__gpu_finder_each(struct kedge__gpu *g, const char *kernel, uint64_t n, const struct kedge_finder_args *a,
			   struct kedge__error *err)
{
	uint64_t blocks = (n + KEDGE_THREADS - 1) / KEDGE_THREADS;

	return launch(g, kernel, KEDGE__MIN(blocks, g->processors * 16), a, err);
}

/* One round of the sort: from `keys` and `order` to the others, which change places with them. */
static int deal_round(struct kedge__gpu *g, struct kedge_finder_args *a, struct kedge__error *err)
{
	struct kedge_finder_args done = *a;
	int rc = launch(g, "kedge_deal_count", tiles_of(a->count), a, err);

	if (!rc)
		rc = launch(g, "kedge_deal_scan", UINT64_C(1) << a->bin_bits, a, err);
	if (!rc)
		rc = launch(g, "kedge_deal_move", tiles_of(a->count), a, err);
	done.keys = a->keys_to;
	done.order = a->order_to;
	done.keys_to = a->keys;
	done.shift += a->bin_bits;
	*a = done;
	return rc;
}

static unsigned bits_of(uint64_t n)
{
	unsigned bits = 1;

	while (n >> bits)
		bits++;
	return bits;
}

int kedge__gpu_finder_run(struct kedge__gpu *g, const char *kernel, const char *follow,
			  const struct kedge_finder_args *wave, struct kedge__error *err)
{
	struct kedge_finder_args a = *wave;
	kedge__gpu_address spare = a.order;
	unsigned bits = bits_of(a.blocks), rounds = (bits + KEDGE_DEAL_BITS - 1) / KEDGE_DEAL_BITS;
	int rc = 0;

	if (!a.count)
		return 0;
	a.order = 0;
	a.shift = 0;
	a.bin_bits = (bits + rounds - 1) / rounds;
	for (unsigned i = 0; i < rounds && !rc; i++) {
		kedge__gpu_address before = i ? a.order : spare;

		rc = deal_round(g, &a, err);
		a.order_to = before;
	}
	if (!rc)
		rc = kedge__gpu_finder_each(g, "kedge_deal_begin", (uint64_t)a.count + 1, &a, err);
	if (!rc)
		rc = launch(g, kernel, ((uint64_t)a.blocks + WARPS - 1) / WARPS, &a, err);
	return rc || !follow ? rc : kedge__gpu_finder_each(g, follow, a.count, &a, err);
}
