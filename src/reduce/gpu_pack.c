/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gpu_pack.c: literals of an image on a GPU that are packed there. They are gathered on a stage, one region behind the
 * other, and cut into the blocks that a segment has of them. When the stage is full, the blocks that are whole are
 * packed and sent, and the beginning of the next one goes to the beginning of the stage. Literals of regions that are
 * not packed go the same way, as they are.
 */
#include "reduce/gpu.h"

static struct kedge__gpu_packing *packing_of(const struct kedge__reducer *r)
{
	return &r->replicas->packing;
}

/* ------------------------------------------------------------------ begin */

/* The codecs of all regions, a bit each. */
static unsigned codecs_wanted(const struct kedge__reducer *r)
{
	const struct kedge__reduce_device *d = r->txn.device;
	unsigned codecs = 0;

	for (size_t i = 0; d->hows && i < r->txn.image->count; i++)
		if (d->hows[i].codec != KEDGE__GPU_NONE && r->txn.image->regions[i].bytes)
			codecs |= 1u << d->hows[i].codec;
	return kedge__gpu_packs(d->block) ? codecs : 0;
}

static int packer_need(struct kedge__reducer *r, struct kedge__error *err)
{
	const struct kedge__reduce_device *d = r->txn.device;
	struct kedge__gpu_packing *p = packing_of(r);

	unsigned codecs = codecs_wanted(r);

	if (p->packer && kedge__gpu_packer_suits(p->packer, codecs, d->block, r->txn.raw_bytes))
		return 0;
	kedge__gpu_packer_free(p->packer);
	p->packer = NULL;
	return kedge__gpu_packer_new(d->gpu, codecs, d->block, r->txn.raw_bytes, &p->packer, err);
}

/* Without room for it they come as they are. */
static int no_room(struct kedge__gpu_packing *p, struct kedge__error *why)
{
	kedge__log(KEDGE_LOG_NOTICE, "regions on the GPU are compressed on the host, because memory is short: %s",
		   kedge__error_text(why));
	kedge__error_done(why);
	p->on = false;
	p->no_room = true;
	return 0;
}

int kedge__gpu_packing_begin(struct kedge__reducer *r, struct kedge__error *err)
{
	const struct kedge__reduce_device *d = r->txn.device;
	struct kedge__gpu_packing *p = packing_of(r);
	struct kedge__error why = KEDGE__ERROR_INIT;
	size_t n = r->txn.image->count;
	int rc;

	p->on = codecs_wanted(r) && !p->no_room;
	p->blocks.count = 0;
	p->bytes = 0;
	if (!p->on)
		return 0;
	if (!kedge__array_reserve(&p->regions, n))
		return kedge__error_nomem(err);
	rc = packer_need(r, &why);
	if (rc == KEDGE_E_NOMEM)
		return no_room(p, &why);
	if (rc) {
		kedge__error_move(err, &why);
		return rc;
	}
	rc = p->under_way ? kedge__gpu_drain(d->gpu, err) : 0; /* what is left of a version that failed */
	if (rc)
		return rc;
	p->under_way = true;
	p->block = d->block;
	p->regions.count = n;
	for (size_t i = 0; i < n; i++)
		p->regions.at[i].how = d->hows[i];
	kedge__gpu_packing_again(r);
	return 0;
}

void kedge__gpu_packing_again(struct kedge__reducer *r)
{
	struct kedge__gpu_packing *p = packing_of(r);

	for (size_t i = 0; i < p->regions.count; i++)
		p->regions.at[i].end = 0;
	p->first = p->cut = p->region = p->last = p->touched = p->blocks.count = 0;
	kedge__gpu_packer_begin(p->packer, r->replicas->literals);
}

void kedge__gpu_packing_done(struct kedge__gpu_replicas *w)
{
	struct kedge__gpu_packing *p = &w->packing;

	kedge__gpu_packer_free(p->packer);
	kedge__array_done(&p->regions);
	kedge__array_done(&p->blocks);
	p->packer = NULL;
}

/* ------------------------------------------------------------------ blocks */

static int block_add(struct kedge__gpu_packing *p, size_t region, uint32_t bytes, struct kedge__error *err)
{
	struct kedge__ready_block b = {.region = (uint32_t)region, .raw = bytes};

	if (!kedge__array_push(&p->blocks, b))
		return kedge__error_nomem(err);
	kedge__gpu_packer_add(p->packer, p->cut - p->first, bytes, &p->regions.at[region].how);
	p->cut += bytes;
	return 0;
}

/* Of the regions on the stage; of the last one only whole blocks, unless ALL of it is there. */
static int blocks_cut(struct kedge__reducer *r, bool all, struct kedge__error *err)
{
	struct kedge__gpu_packing *p = packing_of(r);
	int rc = 0;

	for (;; p->region++) {
		uint64_t end = p->regions.at[p->region].end;

		while (p->cut < end && !rc) {
			uint32_t bytes = (uint32_t)KEDGE__MIN(end - p->cut, p->block);

			if (bytes < p->block && p->region == p->last && !all)
				return 0;
			rc = block_add(p, p->region, bytes, err);
		}
		if (rc || p->region == p->last)
			return rc;
		if (p->regions.at[p->region + 1].end)
			p->cut = r->replicas->starts.at[p->region + 1];
	}
}

/* What of the last block is on the stage goes to its beginning. */
static int stage_move(struct kedge__reducer *r, struct kedge__error *err)
{
	struct kedge__gpu_packing *p = packing_of(r);
	uint64_t end = p->regions.at[p->last].end, left = end > p->cut ? end - p->cut : 0;
	kedge__gpu_address stage = kedge__gpu_packer_stage(p->packer), from = stage + (p->cut - p->first);

	p->first = (p->cut + 15) / 16 * 16; /* if nothing is left, the next region begins behind it */
	return kedge__gpu_copy_within(r->replicas->gpu, KEDGE__GPU_PACK, stage, from, left, err);
}

/* ------------------------------------------------------------------ slabs */

static int slabs_gather(struct kedge__reducer *r, uint64_t first, uint64_t end, struct kedge__error *err)
{
	struct kedge__gpu_replicas *w = r->replicas;

	if (first == end)
		return 0;
	return kedge__gpu_pass_stage(w->pass, KEDGE__GPU_PACK, &w->on, first, end, w->packing.first,
				     kedge__gpu_packer_stage(w->packing.packer), err);
}

/* Room on the stage for literals that end at END: what there is is packed. */
static int stage_clear(struct kedge__reducer *r, uint64_t end, struct kedge__error *err)
{
	struct kedge__gpu_packing *p = packing_of(r);
	int rc = blocks_cut(r, false, err);

	if (!rc)
		rc = kedge__gpu_packer_run(p->packer, err);
	p->touched = 0;
	if (!rc && end - p->first > kedge__gpu_packer_room(p->packer))
		rc = stage_move(r, err);
	return rc;
}

/* Those of slab I will be on the stage, too. */
static void slab_add(struct kedge__reducer *r, uint64_t i, uint64_t end)
{
	struct kedge__gpu_packing *p = packing_of(r);
	size_t region = r->txn.slabs.at[i].region;

	if (!p->regions.at[region].end) {
		p->touched++;
		if (p->cut >= p->regions.at[p->last].end) { /* nothing is left */
			p->region = region;
			p->cut = r->replicas->starts.at[region];
		}
	}
	p->regions.at[region].end = end;
	p->last = region;
}

int kedge__gpu_packing_take(struct kedge__reducer *r, uint64_t first, uint64_t end, bool found,
			    struct kedge__error *err)
{
	struct kedge__gpu_packing *p = packing_of(r);
	uint64_t from = first;
	int rc = 0;

	for (uint64_t i = first; i < end && !rc; i++) {
		uint64_t bytes = kedge__gpu_slab_literals(r, i, found), to = r->replicas->at_list[i].literals + bytes;

		if (!bytes)
			continue;
		if (to - p->first > kedge__gpu_packer_room(p->packer) ||
		    p->touched + 1 >= kedge__gpu_packer_most(p->packer) / 2) {
			rc = slabs_gather(r, from, i, err);
			if (!rc)
				rc = stage_clear(r, to, err);
			from = i;
		}
		slab_add(r, i, to);
	}
	return rc ? rc : slabs_gather(r, from, end, err);
}

/* ------------------------------------------------------------------ end */

/* Where blocks are on the host; those of regions that are packed stay in the list. */
static void blocks_place(struct kedge__gpu_replicas *w, const uint32_t *sizes)
{
	struct kedge__gpu_packing *p = &w->packing;
	size_t kept = 0;

	p->bytes = 0;
	for (size_t i = 0; i < p->blocks.count; i++) {
		struct kedge__ready_block b = p->blocks.at[i];

		b.at = w->literals + p->bytes;
		b.stored = sizes[i];
		p->bytes += b.stored;
		if (kedge__gpu_packing_is(w, b.region))
			p->blocks.at[kept++] = b;
		else if (!i || p->blocks.at[i - 1].region != b.region)
			w->starts.at[b.region] = (uint64_t)(b.at - w->literals);
	}
	p->blocks.count = kept;
}

int kedge__gpu_packing_end(struct kedge__reducer *r, struct kedge__error *err)
{
	struct kedge__gpu_packing *p = packing_of(r);
	const uint32_t *sizes;
	size_t count;
	int rc = blocks_cut(r, true, err);

	if (!rc)
		rc = kedge__gpu_packer_end(p->packer, &sizes, &count, err);
	if (!rc && count != p->blocks.count)
		rc = kedge__error_set(err, KEDGE_E_INTERNAL, 0, "%zu of %zu blocks came back from the GPU", count,
				      p->blocks.count);
	if (!rc)
		blocks_place(r->replicas, sizes);
	p->under_way = rc != 0;
	return rc;
}
