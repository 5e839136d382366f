/* SPDX-License-Identifier: BSD-3-Clause */
/* audit.c: samples of what a caller calls unchanged, against the sums of the last version. */
#include "reduce/reducer.h"

#define TASK 256 /* grains */

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

static int audit_task(void *ctx, size_t task, int worker)
{
	struct audit *a = ctx;

	(void)worker;
	for (uint64_t i = 0; i < TASK; i++) {
		uint64_t number = a->first + (task * TASK + i) * a->share, offset = number * a->grain;
		uint64_t bytes = number < a->grains ? KEDGE__MIN(a->grain, a->region->bytes - offset) : 0;
		struct kedge__sum sum;

		if (!bytes)
			break;
		if (is_dirty(a, offset))
			continue;
		sum = kedge__sum_of((const uint8_t *)a->region->data + offset, bytes, offset);
		if (memcmp(&sum, &a->last->sums[number], sizeof(sum)) != 0) {
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
	uint64_t grain = kedge__grain(r->options.chunk);

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
