/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * audit.c: samples of memory, against the sums of the last version: of what a caller calls unchanged, whether it is so;
 * and of a region that nobody watches, how much of it is.
 */
#include "reduce/reducer.h"

#define TASK   256 /* grains */
#define LOOKS  128 /* grains at most, */
#define SELDOM 32  /* and one in so many, */
#define FEW    2   /* or so few */

struct audit {
	const struct kedge__image_region *region;
	const struct kedge__last_region *last;
	const struct kedge__region_dirty *dirty;
	uint64_t grain, grains, share, first; /* the first to be looked at */
	_Atomic uint64_t changed;             /* offset of one that is not as it was, or UINT64_MAX */
};

static bool is_dirty(const struct audit *a, uint64_t offset)
{
	size_t i = kedge__dirty_find(a->dirty, offset);

	return i < a->dirty->count && a->dirty->at[i].start < offset + a->grain;
}

/* As in the last version. */
static bool grain_is(const struct kedge__last_region *last, const void *data, uint64_t offset, uint64_t bytes,
		     uint64_t number)
{
	struct kedge__sum sum = kedge__sum_of((const uint8_t *)data + offset, bytes, offset);

	return memcmp(&sum, &last->sums[number], sizeof(sum)) == 0;
}

static int audit_task(void *ctx, size_t task, int worker)
{
	struct audit *a = ctx;

	(void)worker;
	for (uint64_t i = 0; i < TASK; i++) {
		uint64_t number = a->first + (task * TASK + i) * a->share, offset = number * a->grain;
		uint64_t bytes = number < a->grains ? KEDGE__MIN(a->grain, a->region->bytes - offset) : 0;

		if (!bytes)
			break;
		if (is_dirty(a, offset))
			continue;
		if (!grain_is(a->last, a->region->data, offset, bytes, number)) {
			a->changed = offset;
			return 1;
		}
	}
	return 0;
}

bool kedge__reducer_audit(const struct kedge__reducer *r, struct kedge__pool *pool, uint64_t version,
			  const struct kedge__image *image, const struct kedge__region_dirty *dirty, uint64_t share,
			  uint64_t turn, size_t *region, uint64_t *offset)
{
	uint64_t grain = kedge__reducer_grain(r);

	r = kedge__reducer_in_use(r);
	for (size_t i = 0; i < image->count; i++) {
		const struct kedge__image_region *g = &image->regions[i];
		struct audit a = {
		    .region = g, .dirty = &dirty[i], .grain = grain, .share = share, .first = turn % share};
		uint64_t tasks;

		if (!dirty[i].known || !kedge__reducer_narrows(r, version, g->base, g->bytes))
			continue;
		a.last = kedge__last_find(&r->last, g->base);
		a.grains = kedge__chunks_of(g->bytes, grain);
		tasks = kedge__chunks_of(kedge__chunks_of(a.grains, share), TASK);
		if (kedge__pool_for(pool, tasks, audit_task, &a) == 0)
			continue;
		*region = i;
		*offset = a.changed;
		return false;
	}
	return true;
}

/* The first grain from AT on, before END, whose sum is known; END: there is none. */
static uint64_t known_from(const struct kedge__last_region *g, uint64_t at, uint64_t end, uint64_t grain)
{
	uint64_t per_slab = KEDGE__SLAB_BYTES / grain;

	while (at < end && g->stale[at / per_slab] == KEDGE__SLAB_STALE)
		at = (at / per_slab + 1) * per_slab;
	return KEDGE__MIN(at, end);
}

double kedge__reducer_changed(const struct kedge__reducer *r, uint64_t base, const void *data, uint64_t bytes,
			      uint64_t turn)
{
	const struct kedge__reducer *used = kedge__reducer_in_use(r);
	const struct kedge__last_region *g = kedge__last_find(&used->last, base);
	uint64_t grain = kedge__reducer_grain(r), grains = kedge__chunks_of(bytes, grain);
	uint64_t looks = KEDGE__MIN(KEDGE__MIN(KEDGE__MAX(grains / SELDOM, FEW), LOOKS), grains);
	uint64_t seen = 0, changed = 0;

	if (!g || !g->known || !g->summed || g->bytes != bytes || used->busy)
		return -1;
	for (uint64_t i = 0; i < looks; i++) {
		uint64_t first = i * grains / looks, end = (i + 1) * grains / looks;
		uint64_t at = known_from(g, first + kedge__spread(turn * LOOKS + i) % (end - first), end, grain);

		if (at == end)
			continue;
		seen++;
		changed += !grain_is(g, data, at * grain, KEDGE__MIN(grain, bytes - at * grain), at);
	}
	return seen ? (double)changed / (double)seen : -1;
}
