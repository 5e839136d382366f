/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * With group_size, ranks that follow each other write their segments into one file on L2, a bundle. Where in it depends
 * on the sizes of all, and those are known when the segments are ready, on L1: there they are, or are merged to.
 *
 *  1. Each rank has its segments on L1, and room for what all say. The lowest rank of a bundle chooses its generation.
 *  2. FLUSH, as without bundles; then a gather to all of sizes and generations: every rank knows its places.
 *  3. Each rank copies its segments to their places, and syncs them.
 *  4. FLUSH_FILL: all have. The lowest rank of each bundle gives it its name.
 *  5. FLUSH_NAME: all bundles are there. The set can be published.
 */
#include "job/handle.h"

struct kedge__bundle_share { /* what a rank says of one of its segments */
	uint64_t bytes;
	uint64_t generation; /* of the bundle, if it is the lowest rank there */
};

uint32_t kedge__bundles_size(const kedge_t *k)
{
	return k->set.group_size < 2 || k->set.stage[0] ? 0 : (uint32_t)k->set.group_size;
}

static uint32_t self_of(const kedge_t *k)
{
	return (uint32_t)k->group.rank;
}

static bool names(const kedge_t *k)
{
	return kedge__bundle_first(self_of(k), kedge__bundles_size(k)) == self_of(k);
}

/* ------------------------------------------------------------------ 1 */

int kedge__bundles_prepare(struct kedge__version *v, struct kedge__error *err)
{
	kedge_t *k = v->k;
	int rc = 0;

	v->shares = kedge__calloc((size_t)k->group.size, sizeof(*v->shares));
	if (!v->shares)
		return kedge__error_nomem(err);
	for (size_t i = 0; i < v->parts.count && !rc; i++) {
		struct kedge__flush_part *part = &v->parts.at[i];

		part->berth.bundle = kedge__bundles_size(k);
		if (names(k))
			rc = kedge__bundle_generation(k->levels.at[KEDGE__L2].flush, part->version, self_of(k),
						      &part->berth.generation, err);
	}
	return rc;
}

/* ------------------------------------------------------------------ 2 */

static void place(const kedge_t *k, const struct kedge__bundle_share *shares, struct kedge__berth *berth)
{
	uint32_t first = kedge__bundle_first(self_of(k), berth->bundle);

	berth->generation = (uint32_t)shares[first].generation;
	berth->start = 0;
	for (uint32_t rank = first; rank < self_of(k); rank++)
		berth->start = kedge__bundle_next(berth->start, shares[rank].bytes);
}

int kedge__bundles_place(struct kedge__version *v, struct kedge__error *err)
{
	kedge_t *k = v->k;
	int rc = 0;

	for (size_t i = 0; i < v->parts.count && !rc; i++) {
		struct kedge__flush_part *part = &v->parts.at[i];
		const struct kedge__bundle_share own = {part->part.file_bytes, part->berth.generation};

		rc = kedge__gather(&k->channels.back, -1, &own, sizeof(own), v->shares, err);
		if (!rc)
			place(k, v->shares, &part->berth);
	}
	return rc;
}

/* ------------------------------------------------------------------ 3 */

static void aside_drop(const kedge_t *k, struct kedge__flush_part *part)
{
	if (part->aside)
		(void)kedge__segment_discard(k->levels.at[KEDGE__L1].flush, part->version, self_of(k),
					     part->aside_generation, NULL);
	part->aside = false;
}

int kedge__bundles_fill(struct kedge__version *v, struct kedge__error *err)
{
	kedge_t *k = v->k;
	int rc = 0;

	for (size_t i = 0; i < v->parts.count; i++) {
		struct kedge__flush_part *part = &v->parts.at[i];
		struct kedge__job_progress p = {k, "flush", part->version, part->part.file_bytes};

		if (!rc)
			rc = kedge__level_bundle(k->levels.at[KEDGE__L1].flush, k->levels.at[KEDGE__L2].flush,
						 part->version, self_of(k), &part->berth, k->set.sync,
						 kedge__job_settings_io(&k->set), &k->bucket,
						 kedge__state_progress_bytes, &p, &part->part, err);
		aside_drop(k, part);
	}
	return rc;
}

/* ------------------------------------------------------------------ 4 */

int kedge__bundles_name(struct kedge__version *v, struct kedge__error *err)
{
	kedge_t *k = v->k;
	int rc = 0;

	for (size_t i = 0; names(k) && i < v->parts.count && !rc; i++)
		rc = kedge__bundle_name(k->levels.at[KEDGE__L2].flush, v->parts.at[i].version, self_of(k),
					v->parts.at[i].berth.generation, k->set.sync, err);
	return rc;
}

/* Nobody writes there any more, or the ranks cannot reach each other: then a file that reappears is swept later. */
void kedge__bundles_discard(struct kedge__version *v, size_t first)
{
	kedge_t *k = v->k;

	for (size_t i = first; i < v->parts.count; i++) {
		aside_drop(k, &v->parts.at[i]);
		if (v->placed && names(k))
			(void)kedge__bundle_discard(k->levels.at[KEDGE__L2].flush, v->parts.at[i].version, self_of(k),
						    v->parts.at[i].berth.generation, NULL);
	}
}
