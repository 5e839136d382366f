/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gpu_pass.c: the hash pass over an image that is on a GPU. Kernels find what changed and list it; the host gets the
 * lists, in which all is as if hash_pass.c had made them, and decides where literals go, which are gathered behind each
 * other.
 */
#include "reduce/gpu.h"

/* Literals of a region begin at multiples of this. */
#define START UINT64_C(256)

static struct kedge__gpu *gpu_of(const struct kedge__reducer *r)
{
	return r->twins->gpu;
}

/* ------------------------------------------------------------------ slabs, to the device */

/* Chunks of slab S that have a digest of the last version on the device: there, those of constants have some, too. */
static uint64_t known_there(const struct kedge__reducer *r, const struct kedge__slab *s)
{
	const struct kedge__last_region *g = r->txn.regions[s->region];
	uint64_t known = kedge__chunks_of(g->bytes, r->options.chunk);

	if (!g->known || known <= s->first ||
	    g->stale[s->first * r->options.chunk / KEDGE__SLAB_BYTES] == KEDGE__SLAB_STALE)
		return 0;
	return KEDGE__MIN(known - s->first, KEDGE__SLAB_BYTES / r->options.chunk);
}

static bool slabs_list(struct kedge__reducer *r)
{
	const struct kedge__txn *t = &r->txn;
	struct kedge__gpu_twins *w = r->twins;

	if (!kedge__array_reserve(&w->slab_list, t->slabs.count) ||
	    !kedge__array_reserve(&w->found_list, t->slabs.count) ||
	    !kedge__array_reserve(&w->at_list, t->slabs.count) ||
	    !kedge__array_reserve(&w->starts, t->image->count + 1))
		return false;
	for (size_t i = 0; i < t->slabs.count; i++) {
		const struct kedge__slab *s = &t->slabs.at[i];
		const struct kedge__image_region *region = kedge__slab_region(t, s);
		uint64_t offset = s->first * r->options.chunk;

		w->slab_list.at[i] = (struct kedge_slab){
		    .data = (uintptr_t)region->data + offset,
		    .offset = offset,
		    .place = t->regions[s->region]->place + s->first,
		    .bytes = (unsigned)KEDGE__MIN(KEDGE__SLAB_BYTES, region->bytes - offset),
		    .known = (unsigned)known_there(r, s),
		};
	}
	return true;
}

static int slabs_send(struct kedge__reducer *r, struct kedge__error *err)
{
	struct kedge__gpu_twins *w = r->twins;
	uint64_t n = r->txn.slabs.count, words = kedge__gpu_pass_words(r->options.chunk);
	int rc = slabs_list(r) ? 0 : kedge__error_nomem(err);

	if (!rc)
		rc = kedge__gpu_array_need(w->gpu, &w->slabs, n * sizeof(struct kedge_slab), err);
	if (!rc)
		rc = kedge__gpu_array_need(w->gpu, &w->found, n * sizeof(struct kedge_slab_found), err);
	if (!rc)
		rc = kedge__gpu_array_need(w->gpu, &w->at, n * sizeof(struct kedge_slab_at), err);
	if (!rc)
		rc = kedge__gpu_array_need(w->gpu, &w->bits, 2 * n * words * sizeof(uint32_t), err);
	if (rc)
		return rc;
	w->on = (struct kedge__gpu_slabs){.slabs = w->slabs.at,
					  .found = w->found.at,
					  .at = w->at.at,
					  .bits = w->bits.at,
					  .count = n,
					  .digests = w->digests.at,
					  .ages = w->ages.at,
					  .anew = !r->txn.compare};
	rc = kedge__gpu_copy_in(w->gpu, KEDGE__GPU_WORK, w->slabs.at, w->slab_list.at, n * sizeof(struct kedge_slab),
				err);
	return rc ? rc
		  : kedge__gpu_clear(w->gpu, KEDGE__GPU_WORK, w->found.at, n * sizeof(struct kedge_slab_found), err);
}

/* ------------------------------------------------------------------ what changed */

/* Wait for what was found in slabs. */
static int found_fetch(struct kedge__reducer *r, struct kedge__error *err)
{
	struct kedge__gpu_twins *w = r->twins;
	int rc = kedge__gpu_copy_out(w->gpu, KEDGE__GPU_WORK, w->found_list.at, w->found.at,
				     w->on.count * sizeof(struct kedge_slab_found), err);

	return rc ? rc : kedge__gpu_sync(w->gpu, KEDGE__GPU_WORK, err);
}

static int at_send(struct kedge__reducer *r, struct kedge__error *err)
{
	struct kedge__gpu_twins *w = r->twins;

	return kedge__gpu_copy_in(w->gpu, KEDGE__GPU_WORK, w->at.at, w->at_list.at,
				  w->on.count * sizeof(struct kedge_slab_at), err);
}

/* All of it is one constant. */
static bool is_constant(const struct kedge__reducer *r, const struct kedge_slab *there,
			const struct kedge_slab_found *f)
{
	return there->bytes >= 16 && f->alike == there->bytes / r->options.chunk &&
	       (there->bytes % r->options.chunk == 0 || f->tail_alike);
}

/* It was the same constant, and the region ends elsewhere: only its last chunks are new. */
static bool is_cut(const struct kedge__reducer *r, const struct kedge__slab *s, const struct kedge_slab *there,
		   uint64_t pattern)
{
	const struct kedge__last_region *g = r->txn.regions[s->region];
	uint64_t number = there->offset / KEDGE__SLAB_BYTES;

	return r->txn.compare && there->offset < g->bytes && g->stale[number] == KEDGE__SLAB_FLAT &&
	       g->flat[number] == pattern && KEDGE__MIN(KEDGE__SLAB_BYTES, g->bytes - there->offset) != there->bytes;
}

/* Slabs that are new, and one constant. */
static void flat_find(struct kedge__reducer *r)
{
	struct kedge__txn *t = &r->txn;

	for (size_t i = 0; i < t->slabs.count; i++) {
		const struct kedge_slab_found *f = &r->twins->found_list.at[i];
		const struct kedge_slab *there = &r->twins->slab_list.at[i];
		struct kedge__slab *s = &t->slabs.at[i];
		bool unknown = !t->compare || kedge__slab_known(t, s, r->options.chunk) <= s->first;

		s->flat = f->changes && unknown && is_constant(r, there, f) && !is_cut(r, s, there, f->first);
		s->pattern = f->first;
	}
}

/* Where the changes of each slab are listed. Those of flat ones, which are no changes for the host, come last. */
static int lists_place(struct kedge__reducer *r, uint64_t *changes, uint64_t *fills, struct kedge__error *err)
{
	struct kedge__gpu_twins *w = r->twins;
	uint64_t all, all_fills;
	int rc;

	*changes = *fills = 0;
	for (size_t i = 0; i < w->on.count; i++) {
		w->at_list.at[i] = (struct kedge_slab_at){
		    .changes = (unsigned)*changes, .fills = (unsigned)*fills, .flat = r->txn.slabs.at[i].flat};
		*changes += r->txn.slabs.at[i].flat ? 0 : w->found_list.at[i].changes;
		*fills += r->txn.slabs.at[i].flat ? 0 : w->found_list.at[i].fills;
	}
	all = *changes;
	all_fills = *fills;
	for (size_t i = 0; i < w->on.count; i++) {
		if (!w->at_list.at[i].flat)
			continue;
		w->at_list.at[i].changes = (unsigned)all;
		w->at_list.at[i].fills = (unsigned)all_fills;
		all += w->found_list.at[i].changes;
		all_fills += w->found_list.at[i].fills;
	}
	if (all > UINT32_MAX)
		return kedge__error_set(err, KEDGE_E_LIMIT, 0, "%llu changed chunks are too many for a GPU",
					(unsigned long long)all);
	rc = kedge__gpu_array_need(w->gpu, &w->changes, all * sizeof(uint16_t), err);
	if (!rc)
		rc = kedge__gpu_array_need(w->gpu, &w->fresh, all * sizeof(struct kedge__digest), err);
	if (!rc)
		rc = kedge__gpu_array_need(w->gpu, &w->fills, all_fills * sizeof(uint64_t), err);
	w->on.changes = w->changes.at;
	w->on.fresh = w->fresh.at;
	w->on.fills = w->fills.at;
	return rc ? rc : at_send(r, err);
}

/* ------------------------------------------------------------------ lists, to the host */

static int changes_fetch(struct kedge__reducer *r, uint64_t changes, uint64_t fills, struct kedge__error *err)
{
	struct kedge__hash_worker *h = &r->txn.workers[0];
	struct kedge__gpu_twins *w = r->twins;
	int rc;

	if (!kedge__lists_reserve(h, changes))
		return kedge__error_nomem(err);
	rc =
	    kedge__gpu_copy_out(w->gpu, KEDGE__GPU_WORK, h->changes.at, w->changes.at, changes * sizeof(uint16_t), err);
	if (!rc)
		rc = kedge__gpu_copy_out(w->gpu, KEDGE__GPU_WORK, h->fills.at, w->fills.at, fills * sizeof(uint64_t),
					 err);
	if (!rc)
		rc = kedge__gpu_copy_out(w->gpu, KEDGE__GPU_WORK, h->apart.at, w->fresh.at,
					 changes * sizeof(struct kedge__digest), err);
	h->changes.count = h->apart.count = changes;
	h->fills.count = fills;
	return rc;
}

/* Digests of slabs [FIRST, END), which are neighbours in one region, that had none before. */
static int digests_fetch(struct kedge__reducer *r, size_t first, size_t end, struct kedge__error *err)
{
	const struct kedge__slab *s = &r->txn.slabs.at[first];
	const struct kedge__last_region *g = r->txn.regions[s->region];
	uint64_t from = s->first + known_there(r, s);
	uint64_t to = KEDGE__MIN(kedge__chunks_of(g->next_bytes, r->options.chunk),
				 s->first + (end - first) * (KEDGE__SLAB_BYTES / r->options.chunk));

	return kedge__gpu_copy_out(gpu_of(r), KEDGE__GPU_WORK, g->digests + from,
				   r->twins->digests.at + (g->place + from) * sizeof(*g->digests),
				   (to - from) * sizeof(*g->digests), err);
}

static bool has_new_digests(const struct kedge__reducer *r, size_t i)
{
	const struct kedge__slab *s = &r->txn.slabs.at[i];
	const struct kedge_slab *there = &r->twins->slab_list.at[i];

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
		       has_new_digests(r, end) && !r->twins->slab_list.at[end].known)
			end++;
		rc = digests_fetch(r, i, end, err);
	}
	return rc;
}

/* ------------------------------------------------------------------ slabs, as the host has them */

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

/* How many of the changes of slab I are of chunks that had a digest: they come first. Only where some chunks had none the list says
 * it. */
static int count_known(struct kedge__reducer *r, size_t i, size_t *known, struct kedge__error *err)
{
	const struct kedge_slab *there = &r->twins->slab_list.at[i];
	const struct kedge__slab *s = &r->txn.slabs.at[i];
	uint16_t *changes;
	int rc;

	*known = there->known ? s->count : 0;
	if (!*known || there->known >= kedge__chunks_of(there->bytes, r->options.chunk))
		return 0;
	changes = kedge__malloc(s->count * sizeof(*changes));
	if (!changes)
		return kedge__error_nomem(err);
	rc = kedge__gpu_copy_out(gpu_of(r), KEDGE__GPU_WORK, changes,
				 r->twins->changes.at + s->change_at * sizeof(*changes), s->count * sizeof(*changes),
				 err);
	if (!rc)
		rc = kedge__gpu_sync(gpu_of(r), KEDGE__GPU_WORK, err);
	if (!rc)
		KEDGE__PARTITION_POINT(*known, s->count, (uint64_t)(changes[*known] >> 1) < there->known);
	kedge__free(changes);
	return rc;
}

static int slab_take(struct kedge__reducer *r, size_t i, struct kedge__error *err)
{
	const struct kedge_slab_found *f = &r->twins->found_list.at[i];
	const struct kedge__txn *t = &r->txn;
	struct kedge__slab *s = &t->slabs.at[i];
	struct kedge__last_region *g = t->regions[s->region];
	uint64_t number = s->first * r->options.chunk / KEDGE__SLAB_BYTES;

	s->worker = 0;
	s->sum = (struct kedge__sum){f->sum[0], f->sum[1]};
	s->change_at = s->apart_at = r->twins->at_list.at[i].changes;
	s->fill_at = r->twins->at_list.at[i].fills;
	if (s->flat)
		return 0;
	if (f->changes && g->stale[number] == KEDGE__SLAB_FLAT && s->first * r->options.chunk < g->bytes &&
	    !kedge__last_raise(r, g, number))
		return kedge__error_nomem(err);
	s->count = f->changes;
	s->fill_count = f->fills;
	return count_known(r, i, &s->apart_count, err);
}

int kedge__gpu_hash_pass(struct kedge__reducer *r, struct kedge__error *err)
{
	struct kedge__txn *t = &r->txn;
	int rc = kedge__gpu_columns_need(r, t->device->gpu, err);
	struct kedge__gpu_twins *w = r->twins;

	if (!rc)
		rc = slabs_send(r, err);
	if (!rc)
		rc = kedge__gpu_pass_run(w->pass, KEDGE__GPU_WORK, &w->on, 0, w->on.count, err);
	if (!rc)
		rc = found_fetch(r, err);
	if (!rc)
		flat_find(r);
	if (!rc)
		rc = lists_place(r, &w->change_count, &w->fill_count, err);
	if (!rc)
		rc = kedge__gpu_pass_list(w->pass, KEDGE__GPU_WORK, &w->on, 0, w->on.count, err);
	for (size_t i = 0; i < t->slabs.count && !rc; i++)
		rc = slab_take(r, i, err);
	if (w)
		w->listed = !rc;
	return rc;
}

static int origins_fetch(struct kedge__reducer *r, struct kedge__error *err)
{
	struct kedge__txn *t = &r->txn;
	kedge__gpu_address from = kedge__gpu_origins(r);

	return from ? kedge__gpu_copy_out(gpu_of(r), KEDGE__GPU_WORK, t->origins, from, t->changes * sizeof(*t->origins), err)
		    : 0;
}

int kedge__gpu_lists_fetch(struct kedge__reducer *r, struct kedge__error *err)
{
	struct kedge__txn *t = &r->txn;
	struct kedge__gpu_twins *w = r->twins;
	int rc;

	if (t->listed)
		return 0;
	rc = changes_fetch(r, w->change_count, w->fill_count, err);
	if (!rc)
		rc = all_digests_fetch(r, err);
	if (!rc)
		rc = origins_fetch(r, err);
	if (!rc)
		rc = kedge__gpu_sync(w->gpu, KEDGE__GPU_WORK, err);
	for (size_t i = 0; i < t->slabs.count && !t->apart && !rc; i++)
		exchange(t, &t->slabs.at[i]);
	t->listed = !rc;
	return rc;
}

/* ------------------------------------------------------------------ literals */

static bool has_origins(const struct kedge__reducer *r)
{
	return r->txn.origins && r->txn.hits;
}

/* The finder left them there, if it is on the device. */
static int origins_send(struct kedge__reducer *r, struct kedge__error *err)
{
	struct kedge__gpu_twins *w = r->twins;
	const struct kedge__txn *t = &r->txn;
	int rc;

	w->on.origins = kedge__gpu_origins(r);
	if (w->on.origins)
		return 0;
	rc = kedge__gpu_array_need(w->gpu, &w->origins, t->changes * sizeof(*t->origins), err);
	w->on.origins = w->origins.at;
	return rc ? rc
		  : kedge__gpu_copy_in(w->gpu, KEDGE__GPU_WORK, w->origins.at, t->origins,
				       t->changes * sizeof(*t->origins), err);
}

/* Those that have an origin are not stored. */
static int origins_count(struct kedge__reducer *r, struct kedge__error *err)
{
	struct kedge__gpu_twins *w = r->twins;
	int rc = origins_send(r, err);

	if (!rc)
		rc = kedge__gpu_pass_count(w->pass, KEDGE__GPU_WORK, &w->on, 0, w->on.count, err);
	return rc ? rc : found_fetch(r, err);
}

/* Bytes that are stored of slab I. */
static uint64_t slab_literals(const struct kedge__reducer *r, size_t i)
{
	const struct kedge_slab_found *f = &r->twins->found_list.at[i];
	uint64_t chunk = r->options.chunk, n = has_origins(r) ? f->literals : f->changes - f->fills;

	if (r->txn.slabs.at[i].flat)
		return 0;
	return n * chunk - (f->tail == KEDGE_TAIL_STORED ? chunk - r->twins->slab_list.at[i].bytes % chunk : 0);
}

/* Where they go; *BYTES: how much room that takes. */
static void literals_place(struct kedge__reducer *r, uint64_t *bytes)
{
	struct kedge__gpu_twins *w = r->twins;
	const struct kedge__txn *t = &r->txn;
	uint64_t at = 0;

	for (size_t i = 0, region = 0; i <= t->slabs.count; i++) {
		for (; region < t->image->count && (i == t->slabs.count || t->slabs.at[i].region >= region); region++) {
			at = (at + START - 1) / START * START;
			w->starts.at[region] = at;
		}
		if (i == t->slabs.count)
			break;
		w->at_list.at[i].literals = at;
		w->at_list.at[i].none = !slab_literals(r, i);
		at += slab_literals(r, i);
	}
	*bytes = at;
}

/* Slabs that are stored whole are copied as one, as far as they are neighbours; the others are gathered. */
static int whole_slabs_copy(struct kedge__reducer *r, struct kedge__error *err)
{
	struct kedge__gpu_twins *w = r->twins;
	int rc = 0;

	for (size_t i = 0, end; i < w->on.count && !rc; i = end) {
		uint64_t bytes = 0;

		for (end = i; end < w->on.count && w->slab_list.at[end].bytes == slab_literals(r, end) &&
			      r->txn.slabs.at[end].region == r->txn.slabs.at[i].region;
		     end++) {
			w->at_list.at[end].none = 1;
			bytes += w->slab_list.at[end].bytes;
		}
		if (bytes)
			rc = kedge__gpu_copy_out(w->gpu, KEDGE__GPU_OUT, w->literals + w->at_list.at[i].literals,
						 w->slab_list.at[i].data, bytes, err);
		end += !bytes;
	}
	return rc;
}

int kedge__gpu_literals_fetch(struct kedge__reducer *r, struct kedge__error *err)
{
	const struct kedge__reduce_device *device = r->txn.device;
	struct kedge__gpu_twins *w = r->twins;
	uint64_t bytes;
	int rc = has_origins(r) ? origins_count(r, err) : 0;

	if (rc)
		return rc;
	literals_place(r, &bytes);
	rc = device->room(device->ctx, bytes, (void **)&w->literals, err);
	if (!rc)
		rc = whole_slabs_copy(r, err);
	if (!rc)
		rc = at_send(r, err);
	if (!rc)
		rc = kedge__gpu_pass_gather(w->pass, KEDGE__GPU_WORK, &w->on, 0, w->on.count, (uintptr_t)w->literals,
					    err);
	if (!rc)
		rc = kedge__gpu_sync(w->gpu, KEDGE__GPU_WORK, err);
	return rc ? rc : kedge__gpu_sync(w->gpu, KEDGE__GPU_OUT, err);
}

void kedge__gpu_literals_point(const struct kedge__reducer *r, struct kedge__reduction *red)
{
	const struct kedge__gpu_twins *w = r->twins;
	uint64_t at = 0;

	for (size_t i = 0; i < red->literals.count; i++) {
		struct kedge__literal *l = &red->literals.at[i];

		if (!i || l->region != l[-1].region)
			at = w->starts.at[l->region];
		l->data = w->literals + at;
		at += l->bytes;
	}
}

/* ------------------------------------------------------------------ afterwards */

void kedge__gpu_settle(struct kedge__reducer *r, bool committed)
{
	struct kedge__gpu_twins *w = r->twins;

	if (committed)
		w->current =
		    w->current && w->listed &&
		    !kedge__gpu_pass_settle(w->pass, KEDGE__GPU_WORK, &w->on, 0, w->on.count, r->txn.age, NULL);
	w->listed = false;
}

static const void *peek(void *ctx, size_t region, uint64_t offset, void *buffer, size_t bytes)
{
	struct kedge__reducer *r = ctx;
	kedge__gpu_address at = (uintptr_t)r->txn.image->regions[region].data + offset;
	struct kedge__gpu *g = r->txn.device->gpu;

	if (kedge__gpu_copy_out(g, KEDGE__GPU_WORK, buffer, at, bytes, NULL) ||
	    kedge__gpu_sync(g, KEDGE__GPU_WORK, NULL))
		return NULL;
	return buffer;
}

struct kedge__image_view kedge__gpu_view(struct kedge__reducer *r)
{
	return (struct kedge__image_view){.peek = peek, .ctx = r, .stays = true};
}
