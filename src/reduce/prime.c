/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * prime.c: a new reducer learns what the store holds.
 */
#include "reduce/reducer.h"

#define BATCH 1024 /* chunks that are hashed at once */

struct known { /* a chunk or node that was entered */
	uint64_t index;
	struct kedge__digest key;
};

struct primer {
	struct kedge__reducer *r;
	uint64_t base; /* of the region */
	KEDGE__ARRAY(struct known) entered;
	struct kedge__probe probes[BATCH];
	struct kedge__digest digests[BATCH];
};

static bool is_constant(const uint8_t *data, uint32_t len)
{
	return !memcmp(data, data + 8, len - 8);
}

static struct kedge__digest weakened(const struct kedge__reducer *r, struct kedge__digest d)
{
	uint64_t mask = r->options.digest_mask;

	return mask ? (struct kedge__digest){d.lo & mask, 0} : d;
}

static int enter_chunks(struct primer *p, const uint8_t *data, uint64_t first, size_t count, struct kedge__error *err)
{
	uint32_t chunk = p->r->options.chunk;
	size_t n = 0;
	int rc;

	kedge__digest_chunks(p->r->key, data, count * chunk, chunk, p->digests);
	for (size_t i = 0; i < count; i++)
		if (!is_constant(data + i * chunk, chunk))
			p->probes[n++] = (struct kedge__probe){.key = weakened(p->r, p->digests[i]),
							       .addr = p->base + (first + i) * chunk,
							       .item = (uint32_t)i};
	rc = kedge__record_enter(&p->r->record, NULL, p->probes, n, err);
	for (size_t i = 0; !rc && i < n; i++) {
		struct known k = {first + p->probes[i].item, p->probes[i].key};

		if (p->probes[i].outcome == KEDGE__PROBE_ENTERED && !kedge__array_push(&p->entered, k))
			rc = kedge__error_nomem(err);
	}
	return rc;
}

/* Nodes over what was entered, as in the first pass of Algorithm 1; in place. */
static int enter_level(struct primer *p, unsigned level, struct kedge__error *err)
{
	struct known *k = p->entered.at;
	size_t out = 0;

	for (size_t i = 0; i + 1 < p->entered.count; i++) {
		struct kedge__probe probe = {.level = level + 1};

		if (k[i].index & 1 || k[i + 1].index != k[i].index + 1)
			continue;
		probe.key = weakened(p->r, kedge__digest_node(p->r->key, level + 1, k[i].key, k[i + 1].key));
		probe.addr = p->base + (k[i].index * p->r->options.chunk << level);
		k[out++] = (struct known){k[i].index / 2, probe.key};
		if (kedge__record_enter(&p->r->record, NULL, &probe, 1, err))
			return KEDGE_E_NOMEM;
		i++;
	}
	p->entered.count = out;
	return 0;
}

static int prime_chunks(struct kedge__reducer *r, uint64_t addr, const uint8_t *data, uint64_t count,
			struct kedge__error *err)
{
	struct primer *p = kedge__malloc(sizeof(*p));
	uint64_t first = (addr & (KEDGE__SLOT_BYTES - 1)) / r->options.chunk;
	int rc = 0;

	if (!p)
		return kedge__error_nomem(err);
	p->r = r;
	p->base = addr & ~(KEDGE__SLOT_BYTES - 1);
	memset(&p->entered, 0, sizeof(p->entered));
	for (uint64_t at = 0; !rc && at < count; at += BATCH)
		rc = enter_chunks(p, data + at * r->options.chunk, first + at, KEDGE__MIN(count - at, (uint64_t)BATCH),
				  err);
	for (unsigned level = 0; !rc && r->options.id != KEDGE__REDUCER_LIST && p->entered.count; level++)
		rc = enter_level(p, level, err);
	kedge__array_done(&p->entered);
	kedge__free(p);
	return rc;
}

int kedge__reducer_prime_literals(struct kedge__reducer *r, uint64_t version, uint64_t addr, const void *data,
				  uint64_t bytes, struct kedge__error *err)
{
	uint64_t skip = -addr & (r->options.chunk - 1);
	int rc;

	if (r->busy)
		return kedge__error_set(err, KEDGE_E_STATE, 0,
					"the previous reduction is neither committed nor rolled back");
	if (bytes > KEDGE__SLOT_BYTES - (addr & (KEDGE__SLOT_BYTES - 1)))
		return kedge__error_set(err, KEDGE_E_ARG, 0, "literals extend beyond their region");
	if (!kedge__reducer_remembers(r->options.id) || bytes < skip || bytes - skip < r->options.chunk)
		return 0;
	rc = kedge__record_begin(&r->record, version, true, err);
	if (!rc)
		rc = prime_chunks(r, addr + skip, (const uint8_t *)data + skip, (bytes - skip) / r->options.chunk, err);
	kedge__record_commit(&r->record);
	return rc;
}

/* ---- the last version, by its digests */

/* Chunks [FIRST, FIRST + COUNT) of G, all of them whole, into the record. */
static int refill_chunks(struct kedge__reducer *r, const struct kedge__last_region *g, uint64_t first, size_t count,
			 struct kedge__probe *probes)
{
	for (size_t i = 0; i < count; i++)
		probes[i] = (struct kedge__probe){.key = g->digests[first + i],
						  .addr = g->base + (first + i) * r->options.chunk};
	return kedge__record_enter(&r->record, r->txn.pool, probes, count, NULL);
}

static void refill_region(struct kedge__reducer *r, const struct kedge__last_region *g, struct kedge__probe *probes)
{
	uint64_t slab_chunks = KEDGE__SLAB_BYTES / r->options.chunk, whole = g->bytes / r->options.chunk;

	for (uint64_t slab = 0; slab * slab_chunks < whole; slab++)
		if (g->stale[slab] == KEDGE__SLAB_KNOWN &&
		    refill_chunks(r, g, slab * slab_chunks, KEDGE__MIN(slab_chunks, whole - slab * slab_chunks),
				  probes))
			return;
}

void kedge__record_refill(struct kedge__reducer *r)
{
	uint32_t current = r->record.current, parent = kedge__record_epoch_of(&r->record, r->parent);
	struct kedge__probe *probes;

	if (!parent || !kedge__record_is_empty(&r->record))
		return;
	probes = kedge__malloc(KEDGE__SLAB_BYTES / r->options.chunk * sizeof(*probes));
	r->record.current = parent;
	for (size_t i = 0; probes && i < r->last.regions.count; i++)
		if (r->last.regions.at[i]->known)
			refill_region(r, r->last.regions.at[i], probes);
	r->record.current = current;
	kedge__free(probes); /* without memory for them, less is found */
}

/* ---- the newest version, from its bytes */

int kedge__reducer_prime_view(struct kedge__reducer *r, struct kedge__pool *pool, uint64_t version,
			      const struct kedge__image *image, const struct kedge__image_view *view,
			      const struct kedge__digest *digests, struct kedge__error *err)
{
	enum kedge__reducer_id used = r->options.id == KEDGE__REDUCER_AUTO ? KEDGE__REDUCER_TREE : r->options.id;
	const struct kedge__reduce_how how = {.view = view};
	struct kedge__reduction red = {0};
	int rc;

	if (r->busy)
		return kedge__error_set(err, KEDGE_E_STATE, 0,
					"the previous reduction is neither committed nor rolled back");
	kedge__last_done(&r->last);
	r->parent = KEDGE__NO_VERSION;
	rc = kedge__txn_run(r, (struct kedge__way){used, false}, pool, version, image, &how, &red, err);
	if (rc)
		return rc;
	for (size_t i = 0; digests && !rc && i < image->count; i++)
		if (!kedge__digest_equal(digests[i], red.region_digests[i]))
			rc = kedge__error_set(err, KEDGE_E_DAMAGED, 0,
					      "region %zu of version %llu does not match its digest", i,
					      (unsigned long long)version);
	kedge__reduction_done(&red);
	if (rc)
		kedge__reducer_rollback(r);
	else
		kedge__reducer_commit(r);
	return rc;
}
