/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gpu_columns.c: replicas of the last version's digests and ages on a device. A region has a place there for as long as
 * it fits; one that is new, or has outgrown its place, is put behind all others, and when there is no room left, all
 * are laid out again. What is in their places is sent from the host only when the device does not have it.
 */
#include "reduce/gpu.h"

int kedge__gpu_array_need(struct kedge__gpu *g, struct kedge__gpu_array *a, uint64_t bytes, struct kedge__error *err)
{
	kedge__gpu_address at = 0;
	int rc;

	if (bytes <= a->bytes)
		return 0;
	kedge__gpu_array_done(g, a);
	rc = kedge__gpu_alloc(g, bytes, &at, err);
	if (!rc)
		*a = (struct kedge__gpu_array){at, bytes};
	return rc;
}

void kedge__gpu_array_done(struct kedge__gpu *g, struct kedge__gpu_array *a)
{
	kedge__gpu_release(g, a->at, a->bytes);
	*a = (struct kedge__gpu_array){0};
}

void kedge__gpu_replicas_drop(struct kedge__reducer *r)
{
	struct kedge__gpu_replicas *t = r->replicas;

	if (!t)
		return;
	kedge__gpu_finder_end(r);
	kedge__gpu_array_done(t->gpu, &t->digests);
	kedge__gpu_array_done(t->gpu, &t->ages);
	kedge__gpu_array_done(t->gpu, &t->slabs);
	kedge__gpu_array_done(t->gpu, &t->found);
	kedge__gpu_array_done(t->gpu, &t->at);
	kedge__gpu_array_done(t->gpu, &t->bits);
	kedge__gpu_array_done(t->gpu, &t->changes);
	kedge__gpu_array_done(t->gpu, &t->fresh);
	kedge__gpu_array_done(t->gpu, &t->fills);
	kedge__gpu_array_done(t->gpu, &t->origins);
	kedge__gpu_packing_done(t);
	kedge__gpu_novelty_free(t->novelty);
	kedge__gpu_pass_free(t->pass);
	kedge__gpu_unpin(t->gpu, t->slab_list);
	kedge__array_done(&t->starts);
	kedge__free(t);
	r->replicas = NULL;
	for (size_t i = 0; i < r->last.regions.count; i++)
		r->last.regions.at[i]->place_room = 0;
}

static int replicas_need(struct kedge__reducer *r, struct kedge__gpu *gpu, struct kedge__error *err)
{
	struct kedge__gpu_replicas *t;
	int rc;

	if (r->replicas && r->replicas->gpu != gpu)
		kedge__gpu_replicas_drop(r);
	if (r->replicas)
		return 0;
	t = kedge__calloc(1, sizeof(*t));
	if (!t)
		return kedge__error_nomem(err);
	t->gpu = gpu;
	rc = kedge__gpu_pass_new(gpu, r->key, r->options.chunk, r->options.digest_mask, &t->pass, err);
	if (rc) {
		kedge__free(t);
		return rc;
	}
	r->replicas = t;
	return 0;
}

/* ------------------------------------------------------------------ from the host */

/* Digests of a slab that is one constant, which the host does not have. */
static int send_flat(const struct kedge__reducer *r, const struct kedge__last_region *g, uint64_t slab,
		     struct kedge__error *err)
{
	uint64_t first = slab * (KEDGE__SLAB_BYTES / r->options.chunk), n;
	struct kedge__digest *digests = kedge__last_constant(r, g, slab, &n);
	int rc = digests ? 0 : kedge__error_nomem(err);

	if (!rc)
		rc = kedge__gpu_copy_in(r->replicas->gpu, KEDGE__GPU_WORK,
					r->replicas->digests.at + (g->place + first) * sizeof(*digests), digests,
					n * sizeof(*digests), err);
	kedge__free(digests);
	return rc;
}

/* What the host has of region G. */
static int region_send(const struct kedge__reducer *r, const struct kedge__last_region *g, struct kedge__error *err)
{
	const struct kedge__gpu_replicas *t = r->replicas;
	uint64_t chunks = g->known ? kedge__chunks_of(g->bytes, r->options.chunk) : 0;
	int rc = kedge__gpu_copy_in(t->gpu, KEDGE__GPU_WORK, t->digests.at + g->place * sizeof(*g->digests), g->digests,
				    chunks * sizeof(*g->digests), err);

	for (uint64_t i = 0; !rc && i < kedge__chunks_of(chunks * r->options.chunk, KEDGE__SLAB_BYTES); i++)
		if (g->stale[i] == KEDGE__SLAB_FLAT)
			rc = send_flat(r, g, i, err);
	if (!rc && g->ages)
		rc = kedge__gpu_copy_in(t->gpu, KEDGE__GPU_WORK, t->ages.at + g->place, g->ages, g->ages_room, err);
	return rc;
}

/* ------------------------------------------------------------------ places */

static uint64_t rooms_of(const struct kedge__reducer *r)
{
	uint64_t rooms = 0;

	for (size_t i = 0; i < r->last.regions.count; i++)
		rooms += r->last.regions.at[i]->room;
	return rooms;
}

/* All regions, one behind the other, from what the host has. */
static int lay_out(struct kedge__reducer *r, struct kedge__error *err)
{
	struct kedge__gpu_replicas *t = r->replicas;
	uint64_t rooms = rooms_of(r), wanted = t->room ? rooms + rooms / 8 : rooms; /* what grew once grows again */
	int rc = 0;

	if (rooms > t->room) {
		rc = kedge__gpu_array_need(t->gpu, &t->digests, wanted * sizeof(struct kedge__digest), err);
		if (!rc && kedge__reducer_remembers(r->options.id))
			rc = kedge__gpu_array_need(t->gpu, &t->ages, wanted, err);
		t->room = rc ? 0 : wanted;
	}
	t->used = 0;
	for (size_t i = 0; i < r->last.regions.count && !rc; i++) {
		struct kedge__last_region *g = r->last.regions.at[i];

		g->place = t->used;
		g->place_room = g->room;
		t->used += g->room;
		rc = region_send(r, g, err);
	}
	if (!rc)
		rc = kedge__gpu_sync(t->gpu, KEDGE__GPU_WORK, err);
	t->current = !rc;
	return rc;
}

/* A place behind all others. */
static int region_move(struct kedge__reducer *r, struct kedge__last_region *g, struct kedge__error *err)
{
	g->place = r->replicas->used;
	g->place_room = g->room;
	r->replicas->used += g->room;
	return region_send(r, g, err);
}

int kedge__gpu_columns_need(struct kedge__reducer *r, struct kedge__gpu *gpu, struct kedge__error *err)
{
	int rc = replicas_need(r, gpu, err);
	uint64_t more = 0;

	if (!rc && !r->record.finder.device && !r->replicas->no_finder && kedge__reducer_remembers(r->options.id))
		rc = kedge__gpu_finder_begin(r, err);
	if (rc)
		return rc;
	for (size_t i = 0; i < r->last.regions.count; i++)
		if (r->last.regions.at[i]->place_room < r->last.regions.at[i]->room)
			more += r->last.regions.at[i]->room;
	if (!r->replicas->current || more > r->replicas->room - r->replicas->used)
		return lay_out(r, err);
	for (size_t i = 0; more && i < r->last.regions.count && !rc; i++)
		if (r->last.regions.at[i]->place_room < r->last.regions.at[i]->room)
			rc = region_move(r, r->last.regions.at[i], err);
	r->replicas->current = !rc;
	return rc;
}

void kedge__gpu_columns_rejuvenate(struct kedge__reducer *r, uint32_t by)
{
	struct kedge__gpu_replicas *t = r->replicas;
	struct kedge_ages_args a = {.ages = t->ages.at, .count = t->used, .by = by};
	uint64_t blocks = (t->used + KEDGE_THREADS - 1) / KEDGE_THREADS;

	if (!t->current || !t->ages.at)
		return;
	t->current =
	    kedge__gpu_launch(t->gpu, KEDGE__GPU_WORK, "kedge_ages",
			      (unsigned)KEDGE__MIN(blocks, t->gpu->processors * 16), KEDGE_THREADS, &a, NULL) == 0;
}
