/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stream.c: a slab of which every byte will be stored need not be read before. Its digests and its part of the region's
 * sum are made of the bytes that are stored, as they pass, so that such a version is read once. That is how full works,
 * and auto on an image that is new, as far as a sample says: in the first version, and where nearly everything changes.
 * If the sample met constants, slabs of which a few looks say that they may have some are hashed first, like any other.
 *
 * What is read once cannot be seen to change. So, of an image that is not held, some is read before, here and there,
 * and must be the same when it is stored: a thread that writes to a share F of the memory meanwhile is noticed but for
 * (1 - F)^16384.
 */
#include "reduce/reducer.h"

#define LOOKS   8     /* into a slab */
#define GLANCES 16384 /* of a version, and one of each slab */

/* ------------------------------------------------------------------ before */

/* Any part of it, as far as a few looks tell. Bytes that cannot be read will be missed by whoever needs them. */
static bool looks_constant(const struct kedge__txn *t, const struct kedge__slab *s, uint64_t chunk)
{
	uint64_t start = s->first * chunk,
		 bytes = KEDGE__MIN(KEDGE__SLAB_BYTES, kedge__slab_region(t, s)->bytes - start);
	uint64_t part = bytes / LOOKS & ~UINT64_C(7);
	uint8_t buffer[KEDGE__GLANCE];

	if (part < KEDGE__GLANCE)
		return true;
	for (uint64_t i = 0; i < LOOKS; i++) {
		uint64_t at = start + i * part + (kedge__spread(start + i) % (part - KEDGE__GLANCE + 1) & ~UINT64_C(7));
		const void *data = kedge__view_peek(t->view, s->region, at, buffer, KEDGE__GLANCE);

		if (!data || kedge__is_constant(data, KEDGE__GLANCE))
			return true;
	}
	return false;
}

static void sums_clear(const struct kedge__reducer *r, const struct kedge__slab *s)
{
	struct kedge__last_region *g = r->txn.regions[s->region];
	uint64_t grain = kedge__grain(r->options.chunk), first = s->first * r->options.chunk;
	uint64_t end = KEDGE__MIN(first + KEDGE__SLAB_BYTES, kedge__slab_region(&r->txn, s)->bytes);

	memset(&g->sums[first / grain], 0, (kedge__chunks_of(end, grain) - first / grain) * sizeof(*g->sums));
}

/* N places of slab S, at no regular distance; all of it, if that is no more. */
static int glance(struct kedge__txn *t, struct kedge__slab *s, uint64_t chunk, size_t n, struct kedge__error *err)
{
	uint64_t start = s->first * chunk,
		 bytes = KEDGE__MIN(KEDGE__SLAB_BYTES, kedge__slab_region(t, s)->bytes - start);
	uint64_t places = kedge__chunks_of(bytes, KEDGE__GLANCE);

	n = KEDGE__MIN(n, (size_t)places);
	if (!kedge__array_reserve(&t->glances, t->glances.count + n))
		return kedge__error_nomem(err);
	s->glance_at = t->glances.count;
	for (size_t i = 0; i < n; i++) {
		uint64_t first = i * places / n, room = (i + 1) * places / n - first;
		struct kedge__glance *g = &t->glances.at[t->glances.count];
		const void *data;
		size_t len;

		g->offset = start + (first + kedge__spread(start + i) % room) * KEDGE__GLANCE;
		len = (size_t)KEDGE__MIN((uint64_t)KEDGE__GLANCE, start + bytes - g->offset);
		data = kedge__view_peek(t->view, s->region, g->offset, g->bytes, len);
		if (!data)
			return kedge__error_set(err, KEDGE_E_STATE, 0, "the captured memory is no longer available");
		if (data != g->bytes)
			memcpy(g->bytes, data, len);
		t->glances.count++;
		s->glance_count++;
	}
	return 0;
}

int kedge__stream_plan(struct kedge__reducer *r, struct kedge__error *err)
{
	struct kedge__txn *t = &r->txn;
	int rc = 0;

	for (size_t i = 0; i < t->slabs.count && !rc; i++) {
		struct kedge__slab *s = &t->slabs.at[i];

		s->stream = kedge__reducer_ops_of(r)->full || t->stream == KEDGE__STREAM_ALL ||
			    !looks_constant(t, s, r->options.chunk);
		if (s->stream && t->sums)
			sums_clear(r, s);
		if (s->stream && !t->view->stays)
			rc = glance(t, s, r->options.chunk, KEDGE__MAX(GLANCES / t->slabs.count, 1), err);
	}
	return rc;
}

/* ------------------------------------------------------------------ as it is stored */

static void sum_to(struct kedge__sum *to, struct kedge__sum sum)
{
	__atomic_fetch_add(&to->s1, sum.s1, __ATOMIC_RELAXED);
	__atomic_fetch_add(&to->s2, sum.s2, __ATOMIC_RELAXED);
}

/* Grains may be given in parts. */
static void sums_take(const struct kedge__reducer *r, struct kedge__slab *s, uint64_t offset, const uint8_t *data,
		      uint64_t bytes)
{
	uint64_t grain = kedge__grain(r->options.chunk), len;
	struct kedge__sum total = {0, 0};

	if (!r->txn.sums) {
		sum_to(&s->sum, kedge__sum_of(data, bytes, offset));
		return;
	}
	for (uint64_t at = 0; at < bytes; at += len) {
		struct kedge__sum sum;

		len = KEDGE__MIN(grain - (offset + at) % grain, bytes - at);
		sum = kedge__sum_of(data + at, len, offset + at);
		sum_to(&r->txn.regions[s->region]->sums[(offset + at) / grain], sum);
		total = kedge__sum_add(total, sum);
	}
	sum_to(&s->sum, total);
}

static void digests_take(struct kedge__reducer *r, const struct kedge__slab *s, uint64_t offset, const uint8_t *data,
			 uint64_t bytes)
{
	uint64_t chunk = r->options.chunk;
	struct kedge__digest *to = r->txn.regions[s->region]->digests + offset / chunk;

	kedge__digest_chunks(r->key, data, bytes, chunk, to);
	kedge__digests_weaken(r, to, kedge__chunks_of(bytes, chunk));
}

/* Whether they are what they were, as far as somebody looked. */
static bool as_before(const struct kedge__txn *t, const struct kedge__slab *s, uint64_t offset, const uint8_t *data,
		      uint64_t bytes)
{
	const struct kedge__glance *g = t->glances.at + s->glance_at;
	size_t i;

	KEDGE__PARTITION_POINT(i, s->glance_count, g[i].offset + KEDGE__GLANCE <= offset);
	for (; i < s->glance_count && g[i].offset < offset + bytes; i++) {
		uint64_t from = KEDGE__MAX(offset, g[i].offset),
			 to = KEDGE__MIN(offset + bytes, g[i].offset + KEDGE__GLANCE);

		if (memcmp(g[i].bytes + (from - g[i].offset), data + (from - offset), (size_t)(to - from)) != 0)
			return false;
	}
	return true;
}

bool kedge__stream_take(struct kedge__reducer *r, struct kedge__slab *s, uint64_t offset, const uint8_t *data,
			uint64_t bytes)
{
	sums_take(r, s, offset, data, bytes);
	if (kedge__reducer_ops_of(r)->hashes)
		digests_take(r, s, offset, data, bytes);
	return as_before(&r->txn, s, offset, data, bytes);
}

/* ------------------------------------------------------------------ after */

/* What there was may be gone in part. */
void kedge__stream_undo(struct kedge__reducer *r)
{
	struct kedge__txn *t = &r->txn;

	for (size_t i = 0; t->regions && i < t->slabs.count; i++) {
		const struct kedge__slab *s = &t->slabs.at[i];

		if (!s->stream)
			continue;
		t->regions[s->region]->stale[s->first * r->options.chunk / KEDGE__SLAB_BYTES] = KEDGE__SLAB_STALE;
		kedge__finder_drop(&r->record.finder);
	}
}
