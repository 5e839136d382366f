/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gpu_lists.c: the lists that the hash pass on a GPU made, and the digests that are new, to the host, while the
 * application goes on. The image may be another one by then: what is not fetched now can never be. So nothing here
 * needs memory of the device, and if the driver says that it has none, even for copies, they go through memory that was
 * pinned before.
 */
#include "reduce/gpu.h"

/* Chunks from number FIRST of G on, within a slab, that have a digest of the last version on the device: there, those
 * of constants have some, too. */
static uint64_t known_there(const struct kedge__reducer *r, const struct kedge__last_region *g, uint64_t first)
{
	uint64_t known = kedge__chunks_of(g->bytes, r->options.chunk);

	if (!g->known || known <= first || g->stale[first * r->options.chunk / KEDGE__SLAB_BYTES] == KEDGE__SLAB_STALE)
		return 0;
	return KEDGE__MIN(known - first, KEDGE__SLAB_BYTES / r->options.chunk);
}

/* With w->sparing, nothing is put on the device that is not waited for. */
static int bytes_fetch(struct kedge__gpu_replicas *w, void *to, kedge__gpu_address from, uint64_t bytes,
		       struct kedge__error *err)
{
	int rc = 0;

	if (!w->sparing)
		return kedge__gpu_copy_out(w->gpu, KEDGE__GPU_WORK, to, from, bytes, err);
	for (uint64_t at = 0; at < bytes && !rc; at += KEDGE__GPU_SPARE) {
		size_t n = (size_t)KEDGE__MIN(bytes - at, KEDGE__GPU_SPARE);

		rc = kedge__gpu_copy_out(w->gpu, KEDGE__GPU_WORK, w->spare, from + at, n, err);
		if (!rc)
			rc = kedge__gpu_sync(w->gpu, KEDGE__GPU_WORK, err);
		if (!rc)
			memcpy((uint8_t *)to + at, w->spare, n);
	}
	return rc;
}

static int changes_fetch(struct kedge__reducer *r, uint64_t changes, uint64_t fills, struct kedge__error *err)
{
	struct kedge__hash_worker *h = &r->txn.workers[0];
	struct kedge__gpu_replicas *w = r->replicas;
	int rc = bytes_fetch(w, h->changes.at, w->changes.at, changes * sizeof(uint16_t), err);

	if (!rc)
		rc = bytes_fetch(w, h->fills.at, w->fills.at, fills * sizeof(uint64_t), err);
	if (!rc)
		rc = bytes_fetch(w, h->apart.at, w->fresh.at, w->fresh_count * sizeof(struct kedge__digest), err);
	h->changes.count = h->apart.count = changes;
	h->fills.count = fills;
	return rc;
}

/* Digests of slabs [FIRST, END), which are neighbours in one region, that had none before. */
static int digests_fetch(struct kedge__reducer *r, size_t first, size_t end, struct kedge__error *err)
{
	const struct kedge__slab *s = &r->txn.slabs.at[first];
	const struct kedge__last_region *g = r->txn.regions[s->region];
	uint64_t from = s->first + known_there(r, g, s->first);
	uint64_t to = KEDGE__MIN(kedge__chunks_of(g->next_bytes, r->options.chunk),
				 s->first + (end - first) * (KEDGE__SLAB_BYTES / r->options.chunk));

	return bytes_fetch(r->replicas, g->digests + from,
			   r->replicas->digests.at + (g->place + from) * sizeof(*g->digests),
			   (to - from) * sizeof(*g->digests), err);
}

static bool has_new_digests(const struct kedge__reducer *r, size_t i)
{
	const struct kedge__slab *s = &r->txn.slabs.at[i];
	const struct kedge_slab *there = &r->replicas->slab_list[i];

	return !s->flat && there->known < kedge__chunks_of(there->bytes, r->options.chunk);
}

static int all_digests_fetch(struct kedge__reducer *r, struct kedge__error *err)
{
	const struct kedge__txn *t = &r->txn;
	int rc = 0;

	for (size_t i = 0, end; i < t->slabs.count && !rc; i = end) {
		end = i + 1;
		if (!has_new_digests(r, i))
			continue;
		while (end < t->slabs.count && t->slabs.at[end].region == t->slabs.at[i].region &&
		       has_new_digests(r, end) && !r->replicas->slab_list[end].known)
			end++;
		rc = digests_fetch(r, i, end, err);
	}
	return rc;
}

/* Changes take the places of old digests, which are kept: the other way round (txn.apart). */
static void exchange(const struct kedge__txn *t, const struct kedge__slab *s)
{
	const struct kedge__hash_worker *h = &t->workers[0];
	struct kedge__digest *digests = t->regions[s->region]->digests + s->first, *apart = h->apart.at + s->apart_at;

	for (size_t k = 0; k < s->apart_count; k++) {
		struct kedge__digest *at = &digests[h->changes.at[s->change_at + k] >> 1], fresh = apart[k];

		apart[k] = *at;
		*at = fresh;
	}
}

static int origins_fetch(struct kedge__reducer *r, struct kedge__error *err)
{
	struct kedge__txn *t = &r->txn;
	kedge__gpu_address from = kedge__gpu_origins(r);

	return from ? bytes_fetch(r->replicas, t->origins, from, t->changes * sizeof(*t->origins), err) : 0;
}

static int fetch(struct kedge__reducer *r, struct kedge__error *err)
{
	struct kedge__gpu_replicas *w = r->replicas;
	int rc = changes_fetch(r, w->change_count, w->fill_count, err);

	if (!rc)
		rc = all_digests_fetch(r, err);
	if (!rc)
		rc = origins_fetch(r, err);
	return rc || w->sparing ? rc : kedge__gpu_sync(w->gpu, KEDGE__GPU_WORK, err);
}

/* Once more, without all that is not needed there any more: literals are on the host. */
static int fetch_sparingly(struct kedge__reducer *r, struct kedge__error *why, struct kedge__error *err)
{
	struct kedge__gpu_replicas *w = r->replicas;
	int rc;

	kedge__log(KEDGE_LOG_NOTICE,
		   "version %llu: what a GPU found of it is copied in small pieces, because memory is short: %s",
		   (unsigned long long)r->txn.version, kedge__error_text(why));
	kedge__error_done(why);
	kedge__gpu_packer_free(w->packing.packer);
	w->packing.packer = NULL;
	kedge__gpu_novelty_free(w->novelty);
	w->novelty = NULL;
	w->sparing = true;
	rc = fetch(r, err);
	w->sparing = false;
	return rc;
}

int kedge__gpu_lists_fetch(struct kedge__reducer *r, struct kedge__error *err)
{
	struct kedge__error why = KEDGE__ERROR_INIT;
	struct kedge__txn *t = &r->txn;
	int rc;

	if (t->listed)
		return 0;
	if (!kedge__lists_reserve(&t->workers[0], r->replicas->change_count))
		return kedge__error_nomem(err);
	rc = fetch(r, &why);
	if (rc == KEDGE_E_NOMEM && !t->device) /* the application has gone on */
		rc = fetch_sparingly(r, &why, err);
	else if (rc)
		kedge__error_move(err, &why);
	for (size_t i = 0; i < t->slabs.count && !t->apart && !rc; i++)
		exchange(t, &t->slabs.at[i]);
	t->listed = !rc;
	return rc;
}
