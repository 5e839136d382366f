/* SPDX-License-Identifier: BSD-3-Clause */
/* gpu_columns.c: twins of digests, ages and changes on a GPU. */
#include "reduce/gpu.h"

void kedge__gpu_columns_done(struct kedge__gpu_columns *c)
{
	struct kedge__gpu *gpu = c->gpu;

	kedge__gpu_release(gpu, c->digests, c->room * sizeof(struct kedge__digest));
	kedge__gpu_release(gpu, c->ages, c->room);
	kedge__gpu_release(gpu, c->changes, c->change_room * sizeof(uint16_t));
	kedge__gpu_release(gpu, c->fresh, c->change_room * sizeof(struct kedge__digest));
	*c = (struct kedge__gpu_columns){.gpu = gpu};
}

/* ---- the last version */

static int columns_reserve(struct kedge__gpu_columns *c, uint64_t chunks, struct kedge__error *err)
{
	int rc;

	if (chunks <= c->room)
		return 0;
	kedge__gpu_release(c->gpu, c->digests, c->room * sizeof(struct kedge__digest));
	kedge__gpu_release(c->gpu, c->ages, c->room);
	c->digests = c->ages = 0;
	c->room = 0;
	rc = kedge__gpu_alloc(c->gpu, chunks * sizeof(struct kedge__digest), &c->digests, err);
	if (rc)
		return rc;
	rc = kedge__gpu_alloc(c->gpu, chunks, &c->ages, err);
	if (rc) {
		kedge__gpu_release(c->gpu, c->digests, chunks * sizeof(struct kedge__digest));
		c->digests = 0;
		return rc;
	}
	c->room = chunks;
	return 0;
}

static int region_upload(const struct kedge__gpu_columns *c, const struct kedge__last_region *g, uint64_t chunk,
			 struct kedge__error *err)
{
	uint64_t bytes = g->present ? KEDGE__MAX(g->bytes, g->next_bytes) : g->bytes,
		 n = KEDGE__MIN(kedge__chunks_of(bytes, chunk), g->room);
	int rc = kedge__gpu_copy_in(c->gpu, KEDGE__GPU_WORK, c->digests + g->place * sizeof(*g->digests), g->digests,
				    n * sizeof(*g->digests), err);

	return rc || !g->ages ? rc : kedge__gpu_copy_in(c->gpu, KEDGE__GPU_WORK, c->ages + g->place, g->ages, n, err);
}

int kedge__gpu_columns_upload(struct kedge__reducer *r, struct kedge__error *err)
{
	struct kedge__gpu_columns *c = r->columns;
	uint64_t used = 0;
	int rc;

	c->current = false;
	for (size_t i = 0; i < r->last.regions.count; i++) {
		struct kedge__last_region *g = r->last.regions.at[i];

		g->place = used;
		g->place_room = g->room;
		used += g->room;
	}
	rc = columns_reserve(c, used, err);
	for (size_t i = 0; i < r->last.regions.count && !rc; i++)
		rc = region_upload(c, r->last.regions.at[i], r->options.chunk, err);
	c->used = used;
	c->current = !rc;
	return rc;
}

void kedge__gpu_columns_rejuvenate(struct kedge__reducer *r, uint32_t by)
{
	struct kedge__gpu_columns *c = r->columns;
	struct kedge_ages_args a = {.ages = c->ages, .count = c->used, .by = by};
	uint64_t blocks = (c->used + KEDGE_THREADS - 1) / KEDGE_THREADS;

	if (!c->current || !blocks)
		return;
	c->current =
	    kedge__gpu_launch(c->gpu, KEDGE__GPU_WORK, "kedge_ages",
			      (unsigned)KEDGE__MIN(blocks, c->gpu->processors * 16), KEDGE_THREADS, &a, NULL) == 0;
}

/* ---- the version in progress */

static int changes_reserve(struct kedge__gpu_columns *c, uint64_t count, struct kedge__error *err)
{
	int rc;

	if (count <= c->change_room)
		return 0;
	kedge__gpu_release(c->gpu, c->changes, c->change_room * sizeof(uint16_t));
	kedge__gpu_release(c->gpu, c->fresh, c->change_room * sizeof(struct kedge__digest));
	c->changes = c->fresh = 0;
	c->change_room = 0;
	rc = kedge__gpu_alloc(c->gpu, count * sizeof(uint16_t), &c->changes, err);
	if (rc)
		return rc;
	rc = kedge__gpu_alloc(c->gpu, count * sizeof(struct kedge__digest), &c->fresh, err);
	if (rc) {
		kedge__gpu_release(c->gpu, c->changes, count * sizeof(uint16_t));
		c->changes = 0;
		return rc;
	}
	c->change_room = count;
	return 0;
}

/* From the threads' lists. */
static int changes_upload(struct kedge__reducer *r, struct kedge__error *err)
{
	struct kedge__gpu_columns *c = r->columns;
	const struct kedge__txn *t = &r->txn;
	int rc = changes_reserve(c, t->changes, err);

	for (size_t i = 0; i < t->slabs.count && !rc; i++) {
		const struct kedge__slab *s = &t->slabs.at[i];
		const struct kedge__hash_worker *w = &t->workers[s->worker];

		rc = kedge__gpu_copy_in(c->gpu, KEDGE__GPU_WORK, c->changes + s->item_at * sizeof(uint16_t),
					w->changes.at + s->change_at, s->count * sizeof(uint16_t), err);
		if (!rc)
			rc = kedge__gpu_copy_in(
			    c->gpu, KEDGE__GPU_WORK, c->fresh + s->item_at * sizeof(struct kedge__digest),
			    w->apart.at + s->apart_at, s->apart_count * sizeof(struct kedge__digest), err);
	}
	c->listed = !rc;
	return rc;
}

int kedge__gpu_columns_ready(struct kedge__reducer *r, struct kedge__error *err)
{
	int rc = r->columns->current ? 0 : kedge__gpu_columns_upload(r, err);

	return rc || r->columns->listed ? rc : changes_upload(r, err);
}

void kedge__gpu_columns_settle(struct kedge__reducer *r, bool committed)
{
	(void)committed;
	r->columns->current = r->columns->listed = false;
}
