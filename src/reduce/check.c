/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * check.c: literals are read a second time when they are stored. Where nobody holds the memory still, what is read then
 * must be what was hashed: else the version would not be what its digests say, and all that refers to it would be
 * wrong. The digest of every chunk is compared; slabs that were not hashed before are hashed now (stream.c).
 */
#include "reduce/reducer.h"

#define BATCH 256 /* chunks that are hashed at once */

uint32_t kedge__reducer_unit(const struct kedge__reducer *r)
{
	r = kedge__reducer_in_use(r);
	return kedge__reducer_ops_of(r)->hashes ? r->options.chunk : 8;
}

bool kedge__reducer_streams(const struct kedge__reducer *r)
{
	return kedge__reducer_in_use(r)->txn.stream;
}

/* The first slab of REGION. */
static size_t first_slab(const struct kedge__txn *t, size_t region)
{
	size_t i;

	KEDGE__PARTITION_POINT(i, t->slabs.count, t->slabs.at[i].region < region);
	return i;
}

/* The digests of the chunks of REGION from INDEX on, all of which changed; *N becomes smaller where they go on
 * elsewhere. */
static const struct kedge__digest *digests_at(const struct kedge__reducer *r, size_t region, uint64_t index,
					      uint64_t *n)
{
	const struct kedge__txn *t = &r->txn;
	uint64_t per_slab = KEDGE__SLAB_BYTES / r->options.chunk;
	const struct kedge__slab *s;
	const struct kedge__hash_worker *w;
	size_t k;

	if (!t->apart)
		return t->regions[region]->digests + index;
	s = &t->slabs.at[t->regions[region]->slab_at + index / per_slab];
	w = &t->workers[s->worker];
	*n = KEDGE__MIN(*n, s->first + per_slab - index);
	KEDGE__PARTITION_POINT(k, s->apart_count, s->first + (uint64_t)(w->changes.at[s->change_at + k] >> 1) < index);
	if (k == s->apart_count)
		return t->regions[region]->digests + index;
	*n = KEDGE__MIN(*n, s->apart_count - k);
	return w->apart.at + s->apart_at + k;
}

/* Within slabs that were hashed. */
static bool chunks_are(const struct kedge__reducer *r, size_t region, uint64_t offset, const uint8_t *data,
		       uint64_t bytes)
{
	uint64_t chunk = r->options.chunk;
	struct kedge__digest fresh[BATCH];

	for (uint64_t at = 0, n; at < bytes; at += n * chunk) {
		const struct kedge__digest *known;

		n = KEDGE__MIN(BATCH, kedge__chunks_of(bytes - at, chunk));
		known = digests_at(r, region, (offset + at) / chunk, &n);
		kedge__digest_chunks(r->key, data + at, KEDGE__MIN(n * chunk, bytes - at), chunk, fresh);
		kedge__digests_weaken(r, fresh, n);
		if (kedge__next_difference(known, fresh, 0, n) < n)
			return false;
	}
	return true;
}

/* A slab that is one constant has no digests. */
static bool slab_is_flat(const struct kedge__reducer *r, size_t slab, uint64_t number, uint64_t *pattern)
{
	const struct kedge__slab *s = &r->txn.slabs.at[slab];
	const struct kedge__last_region *g = r->txn.regions[s->region];

	if (s->flat)
		*pattern = s->pattern;
	else if (g->stale[number] == KEDGE__SLAB_FLAT)
		*pattern = g->flat[number];
	else
		return false;
	return true;
}

/* DATA is at a multiple of 8 in its region. */
static bool bytes_are(const uint8_t *data, uint64_t bytes, uint64_t pattern)
{
	uint8_t wanted[8];
	uint64_t at = 0;

	kedge__put64(wanted, pattern);
	while (at + 8 <= bytes && kedge__get64(data + at) == pattern)
		at += 8;
	return at + 8 > bytes && memcmp(data + at, wanted, (size_t)(bytes - at)) == 0;
}

static bool slab_is(const struct kedge__reducer *r, size_t slab, uint64_t offset, const uint8_t *data, uint64_t bytes)
{
	const struct kedge__slab *s = &r->txn.slabs.at[slab];
	uint64_t pattern;

	if (slab_is_flat(r, slab, offset / KEDGE__SLAB_BYTES, &pattern))
		return bytes_are(data, bytes, pattern);
	return chunks_are(r, s->region, offset, data, bytes);
}

/* Whole units. */
static bool units_are(struct kedge__reducer *r, size_t region, uint64_t offset, const uint8_t *data, uint64_t bytes)
{
	struct kedge__txn *t = &r->txn;
	bool same = true;

	if (!t->stream)
		return chunks_are(r, region, offset, data, bytes);
	for (uint64_t at = offset, len; same && at < offset + bytes; at += len) {
		size_t slab = first_slab(t, region) + at / KEDGE__SLAB_BYTES;
		const uint8_t *part = data + (at - offset);

		len = KEDGE__MIN(KEDGE__SLAB_BYTES - at % KEDGE__SLAB_BYTES, offset + bytes - at);
		same = t->slabs.at[slab].stream ? kedge__stream_take(r, &t->slabs.at[slab], at, part, len)
						: slab_is(r, slab, at, part, len);
	}
	return same;
}

/* Less than a unit. */
static int part_is(struct kedge__reducer *r, size_t region, uint64_t offset, const uint8_t *data, uint64_t bytes)
{
	uint64_t unit = kedge__reducer_unit(r), start = offset / unit * unit;
	struct kedge__seam_part part = {.region = region,
					.start = start,
					.unit = KEDGE__MIN(unit, r->txn.image->regions[region].bytes - start),
					.skip = offset - start,
					.bytes = bytes,
					.data = data};
	uint8_t *whole;
	int rc = kedge__seam_add(&r->seams, &part, &whole);

	if (!rc && whole && !units_are(r, region, start, whole, part.unit))
		rc = KEDGE_E_STATE;
	kedge__free(whole);
	return rc;
}

int kedge__reducer_check(struct kedge__reducer *r, size_t region, uint64_t offset, const void *data, uint64_t bytes)
{
	const uint8_t *at = data;
	uint64_t unit, head, tail;
	int rc = 0;

	r = r->other ? r->other : r;
	unit = kedge__reducer_unit(r);
	head = offset % unit ? KEDGE__MIN(unit - offset % unit, bytes) : 0;
	tail = offset + bytes < r->txn.image->regions[region].bytes && bytes > head ? (offset + bytes) % unit : 0;
	if (head)
		rc = part_is(r, region, offset, at, head);
	if (!rc && bytes > head + tail && !units_are(r, region, offset + head, at + head, bytes - head - tail))
		rc = KEDGE_E_STATE;
	if (!rc && tail)
		rc = part_is(r, region, offset + bytes - tail, at + bytes - tail, tail);
	return rc;
}

bool kedge__reducer_checked(struct kedge__reducer *r)
{
	r = r->other ? r->other : r;
	if (r->txn.stream && r->txn.region_digests)
		kedge__region_digests(&r->txn, r->txn.region_digests);
	kedge__array_done(&r->txn.glances); /* nothing passes any more, and until the commit other ranks may take long */
	return !r->seams.count;
}
