/* SPDX-License-Identifier: BSD-3-Clause */
/* gpu_novelty.c: what novelty.c wants to know of an image on a GPU, by kernels: the host looks at few bytes. */
#include "reduce/gpu.h"

struct kedge__gpu_novelty {
	struct kedge__gpu *gpu;
	size_t chunk, room;         /* chunks that can be picked */
	kedge__gpu_address *from;   /* pinned, as is what follows it: the chunks */
	struct kedge__gpu_array on; /* what is searched for */
};

struct kedge__gpu_novelty *kedge__gpu_novelty_get(const struct kedge__reducer *r, size_t room)
{
	struct kedge__gpu_replicas *w = r->replicas;
	struct kedge__gpu_novelty *n;
	void *memory;

	if (!r->txn.device || !w || !w->current || w->gpu != r->txn.device->gpu)
		return NULL;
	if (w->novelty)
		return w->novelty;
	n = kedge__calloc(1, sizeof(*n));
	if (!n || kedge__gpu_pin(w->gpu, room * (sizeof(*n->from) + r->options.chunk), &memory, NULL)) {
		kedge__free(n);
		return NULL;
	}
	n->gpu = w->gpu;
	n->chunk = r->options.chunk;
	n->room = room;
	n->from = memory;
	w->novelty = n;
	return n;
}

void kedge__gpu_novelty_free(struct kedge__gpu_novelty *n)
{
	if (!n)
		return;
	kedge__gpu_array_done(n->gpu, &n->on);
	kedge__gpu_unpin(n->gpu, n->from);
	kedge__free(n);
}

const uint8_t *kedge__gpu_pick(struct kedge__gpu_novelty *n, const kedge__gpu_address *from, size_t count)
{
	uint8_t *to = (uint8_t *)(n->from + n->room);
	struct kedge_pick_args a = {
	    .from = (uintptr_t)n->from, .to = (uintptr_t)to, .count = (unsigned)count, .chunk = (unsigned)n->chunk};
	uint64_t blocks = (count * 32 + KEDGE_THREADS - 1) / KEDGE_THREADS;

	memcpy(n->from, from, count * sizeof(*from));
	return kedge__gpu_launch(n->gpu, KEDGE__GPU_WORK, "kedge_pick", (unsigned)blocks, KEDGE_THREADS, &a, NULL) ||
		       kedge__gpu_sync(n->gpu, KEDGE__GPU_WORK, NULL)
		   ? NULL
		   : to;
}

/* ------------------------------------------------------------------ search */

typedef KEDGE__ARRAY(struct kedge_run) run_list;

/* Chunks of G that have a digest, except one that is cut short. */
static bool region_runs(const struct kedge__reducer *r, const struct kedge__last_region *g, run_list *list)
{
	uint64_t per_slab = KEDGE__SLAB_BYTES / r->options.chunk, whole = g->bytes / r->options.chunk;
	bool goes_on = false, ok = g->place_room >= whole;

	for (uint64_t first = 0; g->known && ok && first < whole; first += per_slab) {
		struct kedge_run run = {g->place + first, KEDGE__MIN(per_slab, whole - first)};
		bool known = g->stale[first / per_slab] == KEDGE__SLAB_KNOWN;

		if (known && goes_on)
			list->at[list->count - 1].count += run.count;
		else if (known)
			ok = kedge__array_push(list, run);
		goes_on = known;
	}
	return ok || !g->known;
}

/* All of it behind each other: the count, the filter, the digests, the runs. */
static int search_send(struct kedge__gpu_novelty *n, const struct kedge__digest *digests, size_t count,
		       const uint64_t *filter, const run_list *runs, struct kedge_search_args *a)
{
	size_t head = 64, bits = KEDGE_SEARCH_BITS / 8, sample = count * sizeof(*digests),
	       list = runs->count * sizeof(*runs->at), bytes = head + bits + sample + list;
	uint8_t *all = kedge__calloc(1, bytes);
	int rc = all ? kedge__gpu_array_need(n->gpu, &n->on, bytes, NULL) : KEDGE_E_NOMEM;

	if (!rc) {
		memcpy(all + head, filter, bits);
		memcpy(all + head + bits, digests, sample);
		memcpy(all + head + bits + sample, runs->at, list);
		rc = kedge__gpu_copy_in(n->gpu, KEDGE__GPU_WORK, n->on.at, all, bytes, NULL);
	}
	a->found = n->on.at;
	a->filter = n->on.at + head;
	a->sample = n->on.at + head + bits;
	a->runs = n->on.at + head + bits + sample;
	a->count = (unsigned)count;
	a->run_count = (unsigned)runs->count;
	if (!rc)
		rc = kedge__gpu_sync(n->gpu, KEDGE__GPU_WORK, NULL);
	kedge__free(all);
	return rc;
}

bool kedge__gpu_search(const struct kedge__reducer *r, struct kedge__gpu_novelty *n,
		       const struct kedge__digest *digests, size_t count, const uint64_t *filter, size_t *found)
{
	struct kedge_search_args a = {.digests = r->replicas->digests.at};
	run_list runs = {0};
	uint32_t result = 0;
	bool ok = true;

	for (size_t i = 0; i < r->last.regions.count && ok; i++)
		ok = region_runs(r, r->last.regions.at[i], &runs);
	if (ok && runs.count)
		ok = !search_send(n, digests, count, filter, &runs, &a) &&
		     !kedge__gpu_launch(n->gpu, KEDGE__GPU_WORK, "kedge_search", n->gpu->processors * 8, KEDGE_THREADS,
					&a, NULL) &&
		     !kedge__gpu_copy_out(n->gpu, KEDGE__GPU_WORK, &result, a.found, sizeof(result), NULL) &&
		     !kedge__gpu_sync(n->gpu, KEDGE__GPU_WORK, NULL);
	kedge__array_done(&runs);
	if (ok)
		*found = result;
	return ok;
}
