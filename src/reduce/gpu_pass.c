/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gpu_pass.c: the hash pass over an image that is on a GPU. Kernels find what changed and list it; the host gets the
 * lists, in which all is as if hash_pass.c had made them, and decides where literals go, which are gathered behind each
 * other.
 */
#include "reduce/gpu.h"

/* Literals of a region begin at multiples of this. */
#define START UINT64_C(256)

#define WAVES ((uint64_t)8)

/* An event beside those of the waves. */
#define BESIDE (KEDGE__GPU_EVENTS / 2)

uint64_t kedge__gpu_wave_slabs = 64;

/* ------------------------------------------------------------------ slabs, to the device */

struct cursor { /* the next slab of the image */
	size_t region;
	uint64_t offset, known; /* known: chunks of the region that the last version has */
	unsigned shift;         /* a chunk has 1 << shift bytes */
};

/* To the beginning of a region. */
static void cursor_set(const struct kedge__reducer *r, struct cursor *c, size_t region)
{
	const struct kedge__last_region *g = r->txn.regions[region];

	c->region = region;
	c->offset = 0;
	c->known = g->known ? kedge__chunks_of(g->bytes, r->options.chunk) : 0;
}

static struct kedge_slab slab_next(const struct kedge__reducer *r, struct cursor *c)
{
	const struct kedge__txn *t = &r->txn;
	const struct kedge__image_region *region = &t->image->regions[c->region];
	const struct kedge__last_region *g;
	uint64_t first;
	struct kedge_slab s;

	for (; c->offset >= region->bytes; region++)
		cursor_set(r, c, c->region + 1);
	g = t->regions[c->region];
	first = c->offset >> c->shift;
	s = (struct kedge_slab){
	    .data = (uintptr_t)region->data + c->offset,
	    .offset = c->offset,
	    .place = g->place + first,
	    .bytes = (unsigned)KEDGE__MIN(KEDGE__SLAB_BYTES, region->bytes - c->offset),
	};
	if (c->known > first && g->stale[c->offset / KEDGE__SLAB_BYTES] != KEDGE__SLAB_STALE)
		s.known = (unsigned)KEDGE__MIN(c->known - first, KEDGE__SLAB_BYTES >> c->shift);
	c->offset += s.bytes;
	return s;
}

/* Pinned memory for what is sent and comes back of N slabs. */
static int staged_need(struct kedge__gpu_replicas *w, uint64_t n, struct kedge__error *err)
{
	uint64_t each = sizeof(*w->slab_list) + sizeof(*w->found_list) + sizeof(*w->at_list);
	uint64_t all = n * each + KEDGE__GPU_SPARE;
	void *memory;
	int rc;

	if (n <= w->staged_slabs && w->slab_list)
		return 0;
	kedge__gpu_unpin(w->gpu, w->slab_list);
	w->slab_list = NULL;
	w->staged_slabs = 0;
	rc = kedge__gpu_pin(w->gpu, all, &memory, err);
	if (rc)
		return rc;
	w->slab_list = memory;
	w->spare = (uint8_t *)memory + n * each;
	w->found_list = (struct kedge_slab_found *)(w->slab_list + n);
	w->at_list = (struct kedge_slab_at *)(w->found_list + n);
	w->staged_slabs = n;
	return 0;
}

static int slabs_need(struct kedge__reducer *r, uint64_t n, struct kedge__error *err)
{
	struct kedge__gpu_replicas *w = r->replicas;
	uint64_t words = kedge__gpu_pass_words(r->options.chunk);
	int rc = staged_need(w, n, err);

	if (!rc && !kedge__array_reserve(&w->starts, r->txn.image->count + 1))
		rc = kedge__error_nomem(err);
	if (!rc)
		rc = kedge__gpu_array_need(w->gpu, &w->slabs, n * sizeof(struct kedge_slab), err);
	if (!rc)
		rc = kedge__gpu_array_need(w->gpu, &w->found, n * sizeof(struct kedge_slab_found), err);
	if (!rc)
		rc = kedge__gpu_array_need(w->gpu, &w->at, 2 * n * sizeof(struct kedge_slab_at), err);
	if (!rc)
		rc = kedge__gpu_array_need(w->gpu, &w->bits, 2 * n * words * sizeof(uint32_t), err);
	w->on = (struct kedge__gpu_slabs){.slabs = w->slabs.at,
					  .found = w->found.at,
					  .at = w->at.at,
					  .bits = w->bits.at,
					  .count = n,
					  .digests = w->digests.at,
					  .ages = w->ages.at,
					  .changes = w->changes.at,
					  .fresh = w->fresh.at,
					  .fills = w->fills.at,
					  .compare = r->txn.compare};
	return rc;
}

/* The first wave has half as many slabs as others, so that the bus has something to do soon; and so has the last one,
 * after which there is nothing to be hashed while its literals cross it. */
static uint64_t wave_begin(const struct kedge__gpu_replicas *w, unsigned wave)
{
	if (wave == 0 || wave == w->waves)
		return wave ? w->on.count : 0;
	return w->on.count * (2 * wave - 1) / (2 * w->waves - 2);
}

static uint64_t wave_end(const struct kedge__gpu_replicas *w, unsigned wave)
{
	return wave_begin(w, wave + 1);
}

/* Slabs of WAVE are sent and hashed, and what is found comes back; event WAVE says when. Two streams take turns, so
 * that one wave begins before the last blocks of the other have ended; what is done with a wave overtakes both. */
static int wave_start(struct kedge__reducer *r, unsigned wave, struct kedge__error *err)
{
	struct kedge__gpu_replicas *w = r->replicas;
	enum kedge__gpu_stream s = wave % 2 ? KEDGE__GPU_IN : KEDGE__GPU_PASS;
	uint64_t first = wave_begin(w, wave), end = wave_end(w, wave), n = end - first;
	int rc = kedge__gpu_copy_in(w->gpu, s, w->slabs.at + first * sizeof(*w->slab_list), w->slab_list + first,
				    n * sizeof(*w->slab_list), err);

	if (!rc)
		rc = kedge__gpu_clear(w->gpu, s, w->found.at + first * sizeof(*w->found_list),
				      n * sizeof(*w->found_list), err);
	if (!rc)
		rc = kedge__gpu_pass_run(w->pass, s, &w->on, first, end, err);
	if (!rc)
		rc = kedge__gpu_copy_out(w->gpu, s, w->found_list + first, w->found.at + first * sizeof(*w->found_list),
					 n * sizeof(*w->found_list), err);
	return rc ? rc : kedge__gpu_record(w->gpu, s, wave, err);
}

static bool is_odd(const struct kedge__image *image)
{
	for (size_t i = 0; i < image->count; i++)
		if (image->regions[i].bytes && (uintptr_t)image->regions[i].data % 16)
			return true;
	return false;
}

int kedge__gpu_pass_start(struct kedge__reducer *r, struct kedge__error *err)
{
	const struct kedge__txn *t = &r->txn;
	struct cursor c = {.shift = kedge__gpu_shift(r->options.chunk)};
	struct kedge__gpu_replicas *w;
	uint64_t n = 0;
	int rc = kedge__gpu_columns_need(r, t->device->gpu, err);

	for (size_t i = 0; i < t->image->count; i++)
		n += kedge__chunks_of(t->image->regions[i].bytes, KEDGE__SLAB_BYTES);
	if (!rc)
		rc = slabs_need(r, n, err);
	if (rc)
		return rc;
	w = r->replicas;
	if (n)
		cursor_set(r, &c, 0);
	w->on.odd = is_odd(t->image);
	w->waves = (unsigned)KEDGE__MAX(KEDGE__MIN(n / kedge__gpu_wave_slabs, WAVES), 1);
	rc = kedge__gpu_record(w->gpu, KEDGE__GPU_WORK, BESIDE, err); /* what the version before left there */
	if (!rc)
		rc = kedge__gpu_follow(w->gpu, KEDGE__GPU_IN, BESIDE, err);
	if (!rc)
		rc = kedge__gpu_follow(w->gpu, KEDGE__GPU_PASS, BESIDE, err);
	for (unsigned wave = 0; wave < w->waves && !rc; wave++) {
		for (uint64_t i = wave_begin(w, wave); i < wave_end(w, wave); i++)
			w->slab_list[i] = slab_next(r, &c);
		rc = wave_start(r, wave, err);
	}
	return rc;
}

/* ------------------------------------------------------------------ what changed */

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

/* How many of the changes of slab I are of chunks that had a digest: they come first. Where some chunks had none, only
 * the list says it. */
static size_t count_known(const struct kedge__gpu_replicas *w, size_t i, uint64_t chunk, bool *unsure)
{
	const struct kedge_slab *there = &w->slab_list[i];
	size_t changes = w->found_list[i].changes;

	if (!there->known || !changes)
		return 0;
	*unsure = *unsure || there->known * chunk < there->bytes;
	return changes;
}

/* All of slab S, which is THERE, is one constant, and new. */
static bool is_flat(const struct kedge__reducer *r, const struct kedge__slab *s, const struct kedge_slab *there,
		    const struct kedge_slab_found *f)
{
	const struct kedge__txn *t = &r->txn;

	if (!f->alike && there->bytes >= r->options.chunk)
		return false; /* as most are not */
	return (!t->compare || kedge__slab_known(t, s, r->options.chunk) <= s->first) && is_constant(r, there, f) &&
	       !is_cut(r, s, there, f->first);
}

/* The next slab of the version in progress, number I; its lists are behind those of all slabs before it. */
static struct kedge__slab *slab_add(struct kedge__reducer *r, size_t i)
{
	struct kedge__gpu_replicas *w = r->replicas;
	const struct kedge_slab_found *f = &w->found_list[i];
	struct kedge__txn *t = &r->txn;

	while (w->region + 1 < t->image->count && t->regions[w->region + 1]->slab_at <= i)
		w->region++;
	t->slabs.at[i] = (struct kedge__slab){.region = (uint32_t)w->region,
					      .first = w->slab_list[i].place - t->regions[w->region]->place,
					      .change_at = w->change_count,
					      .apart_at = w->change_count,
					      .item_at = w->change_count,
					      .fill_at = w->fill_count,
					      .sum = {f->sum[0], f->sum[1]}};
	t->slabs.count = i + 1;
	return &t->slabs.at[i];
}

/* What was found of slab I, as the host notes it. */
static int slab_take(struct kedge__reducer *r, size_t i, struct kedge__error *err)
{
	struct kedge__gpu_replicas *w = r->replicas;
	const struct kedge_slab_found *f = &w->found_list[i];
	struct kedge__slab *s = slab_add(r, i);
	struct kedge__last_region *g = r->txn.regions[s->region];
	uint64_t chunk = r->options.chunk, number = s->first * chunk / KEDGE__SLAB_BYTES;

	w->at_list[i] =
	    (struct kedge_slab_at){.changes = (unsigned)w->change_count, .fills = (unsigned)w->fill_count, .none = 1};
	if (!f->changes)
		return 0;
	if (is_flat(r, s, &w->slab_list[i], f)) {
		s->flat = true;
		s->pattern = f->first;
		w->at_list[i].flat = 1;
		w->flat_changes += f->changes;
		w->flat_fills += f->fills;
		return 0;
	}
	if (g->stale[number] == KEDGE__SLAB_FLAT && s->first * chunk < g->bytes && !kedge__last_raise(r, g, number))
		return kedge__error_nomem(err);
	s->count = f->changes;
	s->fill_count = f->fills;
	s->apart_count = count_known(w, i, chunk, &w->unsure);
	w->change_count += f->changes;
	w->fill_count += f->fills;
	if (w->slab_list[i].known)
		w->fresh_count = w->change_count;
	return 0;
}

/* ------------------------------------------------------------------ where literals go */

uint64_t kedge__gpu_slab_literals(const struct kedge__reducer *r, size_t i, bool found)
{
	const struct kedge_slab_found *f = &r->replicas->found_list[i];
	uint64_t chunk = r->options.chunk, n = found ? f->literals : f->changes - f->fills;

	if (r->txn.slabs.at[i].flat || !n)
		return 0;
	return n * chunk - (f->tail == KEDGE_TAIL_STORED ? chunk - r->replicas->slab_list[i].bytes % chunk : 0);
}

/* Those of slab I come behind all others; those of a region begin at a multiple of START. */
static void literals_place(struct kedge__reducer *r, size_t i, bool found)
{
	struct kedge__gpu_replicas *w = r->replicas;
	uint64_t bytes = kedge__gpu_slab_literals(r, i, found);

	for (; w->starts.count <= r->txn.slabs.at[i].region; w->starts.count++) {
		w->literal_bytes = (w->literal_bytes + START - 1) / START * START;
		w->starts.at[w->starts.count] = w->literal_bytes;
	}
	w->at_list[i].literals = w->literal_bytes;
	w->at_list[i].none = !bytes;
	w->literal_bytes += bytes;
}

/* Slabs of [FIRST, END) that are stored whole are copied as one, as far as they are neighbours; the others are
 * gathered. */
static int whole_slabs_copy(struct kedge__reducer *r, uint64_t first, uint64_t end, bool found,
			    struct kedge__error *err)
{
	struct kedge__gpu_replicas *w = r->replicas;
	int rc = 0;

	for (uint64_t i = first, next; i < end && !rc; i = next) {
		uint64_t bytes = 0;

		for (next = i; next < end && w->slab_list[next].bytes == kedge__gpu_slab_literals(r, next, found) &&
			       r->txn.slabs.at[next].region == r->txn.slabs.at[i].region;
		     next++) {
			w->at_list[next].none = 1;
			bytes += w->slab_list[next].bytes;
		}
		if (bytes)
			rc = kedge__gpu_copy_out(w->gpu, KEDGE__GPU_OUT, w->literals + w->at_list[i].literals,
						 w->slab_list[i].data, bytes, err);
		next += !bytes;
	}
	return rc;
}

static int at_send(struct kedge__reducer *r, enum kedge__gpu_stream s, uint64_t first, uint64_t end,
		   struct kedge__error *err)
{
	struct kedge__gpu_replicas *w = r->replicas;

	return kedge__gpu_copy_in(w->gpu, s, w->on.at + first * sizeof(*w->at_list), w->at_list + first,
				  (end - first) * sizeof(*w->at_list), err);
}

/* ------------------------------------------------------------------ a wave, when it was hashed */

/* Whether there is room for the lists so far. */
static bool lists_fit(const struct kedge__gpu_replicas *w)
{
	return w->change_count * sizeof(uint16_t) <= w->changes.bytes &&
	       w->fresh_count * sizeof(struct kedge__digest) <= w->fresh.bytes &&
	       w->fill_count * sizeof(uint64_t) <= w->fills.bytes;
}

/* Literals of slabs [FIRST, END), which are being listed. */
static int wave_gather(struct kedge__reducer *r, unsigned wave, uint64_t first, uint64_t end, struct kedge__error *err)
{
	struct kedge__gpu_replicas *w = r->replicas;
	int rc = kedge__gpu_record(w->gpu, KEDGE__GPU_WORK, wave, err);

	if (!rc)
		rc = kedge__gpu_follow(w->gpu, w->packing.on ? KEDGE__GPU_PACK : KEDGE__GPU_OUT, wave, err);
	if (rc)
		return rc;
	return w->packing.on
		   ? kedge__gpu_packing_take(r, first, end, false, err)
		   : kedge__gpu_pass_gather(w->pass, KEDGE__GPU_OUT, &w->on, first, end, (uintptr_t)w->literals, err);
}

/* Lists and literals of WAVE, beside the next ones: lists are made while the literals of the wave before cross the
 * bus. */
static int wave_finish(struct kedge__reducer *r, unsigned wave, uint64_t changes, struct kedge__error *err)
{
	struct kedge__gpu_replicas *w = r->replicas;
	uint64_t first = wave_begin(w, wave), end = wave_end(w, wave);
	int rc = 0;

	w->late = w->late || !lists_fit(w);
	w->streams = w->streams && !w->late && w->literal_bytes <= w->literal_room;
	if (w->late || w->change_count == changes)
		return 0;
	w->begun = w->begun || w->streams;
	if (w->streams && !w->packing.on)
		rc = whole_slabs_copy(r, first, end, false, err);
	if (!rc)
		rc = at_send(r, KEDGE__GPU_WORK, first, end, err);
	if (!rc)
		rc = kedge__gpu_pass_list(w->pass, KEDGE__GPU_WORK, &w->on, first, end, false, err);
	return rc || !w->streams ? rc : wave_gather(r, wave, first, end, err);
}

static int wave_take(struct kedge__reducer *r, unsigned wave, struct kedge__error *err)
{
	struct kedge__gpu_replicas *w = r->replicas;
	uint64_t changes = w->change_count;
	int rc = kedge__gpu_wait(w->gpu, wave, err);

	for (uint64_t i = wave_begin(w, wave); i < wave_end(w, wave) && !rc; i++) {
		rc = slab_take(r, i, err);
		if (w->streams)
			literals_place(r, i, false);
	}
	return rc ? rc : wave_finish(r, wave, changes, err);
}

/* Flat slabs are no changes for the host; their lists, which are needed for their digests, come last. */
static void flat_place(struct kedge__gpu_replicas *w)
{
	uint64_t changes = w->change_count, fills = w->fill_count;

	for (uint64_t i = 0; w->flat_changes && i < w->on.count; i++) {
		if (!w->at_list[i].flat)
			continue;
		w->at_list[i].changes = (unsigned)changes;
		w->at_list[i].fills = (unsigned)fills;
		changes += w->found_list[i].changes;
		fills += w->found_list[i].fills;
	}
}

/* Room for all lists, and some more. */
static int lists_need(struct kedge__reducer *r, struct kedge__error *err)
{
	struct kedge__gpu_replicas *w = r->replicas;
	uint64_t changes = w->change_count + w->flat_changes, fills = w->fill_count + w->flat_fills;
	uint64_t fresh = w->flat_changes ? changes : w->fresh_count;
	int rc;

	if (changes > UINT32_MAX)
		return kedge__error_set(err, KEDGE_E_LIMIT, 0, "%llu changed chunks are too many for a GPU",
					(unsigned long long)changes);
	w->late = w->late || changes * sizeof(uint16_t) > w->changes.bytes ||
		  fresh * sizeof(struct kedge__digest) > w->fresh.bytes || fills * sizeof(uint64_t) > w->fills.bytes;
	if (!w->late)
		return 0;
	rc = kedge__gpu_drain(w->gpu, err); /* what is there may be in use */
	if (!rc)
		rc = kedge__gpu_array_need(w->gpu, &w->changes, changes * sizeof(uint16_t), err);
	if (!rc)
		rc = kedge__gpu_array_need(w->gpu, &w->fresh, fresh * sizeof(struct kedge__digest), err);
	if (!rc)
		rc = kedge__gpu_array_need(w->gpu, &w->fills, fills * sizeof(uint64_t), err);
	w->on.changes = w->changes.at;
	w->on.fresh = w->fresh.at;
	w->on.fills = w->fills.at;
	return rc;
}

/* What was not listed yet, behind all else. */
static int lists_finish(struct kedge__reducer *r, struct kedge__error *err)
{
	struct kedge__gpu_replicas *w = r->replicas;
	int rc;

	flat_place(w);
	rc = lists_need(r, err);
	w->streams = w->streams && !w->late;
	if (rc || !(w->late || w->flat_changes))
		return rc;
	w->on.at += w->on.count * sizeof(*w->at_list); /* what was sent before may still be read */
	rc = at_send(r, KEDGE__GPU_WORK, 0, w->on.count, err);
	if (!rc && w->late)
		rc = kedge__gpu_pass_list(w->pass, KEDGE__GPU_WORK, &w->on, 0, w->on.count, false, err);
	if (!rc && w->flat_changes)
		rc = kedge__gpu_pass_list(w->pass, KEDGE__GPU_WORK, &w->on, 0, w->on.count, true, err);
	return rc;
}

/* Of slabs in which some chunks had no digest: how many of their changes did. */
static int known_count(struct kedge__reducer *r, struct kedge__error *err)
{
	struct kedge__gpu_replicas *w = r->replicas;
	uint16_t *changes = kedge__malloc(KEDGE__SLAB_BYTES / KEDGE__CHUNK_MIN * sizeof(*changes));
	int rc = changes ? 0 : kedge__error_nomem(err);

	for (uint64_t i = 0; i < w->on.count && !rc; i++) {
		const struct kedge_slab *there = &w->slab_list[i];
		struct kedge__slab *s = &r->txn.slabs.at[i];

		if (!s->apart_count || there->known >= kedge__chunks_of(there->bytes, r->options.chunk))
			continue;
		rc = kedge__gpu_copy_out(w->gpu, KEDGE__GPU_WORK, changes,
					 w->changes.at + s->change_at * sizeof(*changes), s->count * sizeof(*changes),
					 err);
		if (!rc)
			rc = kedge__gpu_sync(w->gpu, KEDGE__GPU_WORK, err);
		if (!rc)
			KEDGE__PARTITION_POINT(s->apart_count, s->count,
					       (uint64_t)(changes[s->apart_count] >> 1) < there->known);
	}
	kedge__free(changes);
	return rc;
}

/* Literals may be gathered before duplicates are looked for: those that are found then were copied for nothing. That
 * is worth while if there are few; the version before says what is to be expected. Blocks have literals only. */
static bool gathers_ahead(const struct kedge__reducer *r)
{
	return !r->txn.apart || (!r->replicas->repeats && !r->replicas->packing.on);
}

/* Nothing has been taken yet. */
static int taking_begin(struct kedge__reducer *r, struct kedge__error *err)
{
	const struct kedge__reduce_device *device = r->txn.device;
	struct kedge__gpu_replicas *w = r->replicas;
	int rc;

	w->change_count = w->fill_count = w->fresh_count = w->flat_changes = w->flat_fills = w->literal_bytes = 0;
	w->late = w->unsure = w->begun = false;
	w->region = 0;
	w->starts.count = 0;
	rc = device->room(device->ctx, 0, (void **)&w->literals, &w->literal_room, err);
	if (!rc)
		rc = kedge__gpu_packing_begin(r, err);
	w->streams = gathers_ahead(r);
	return rc;
}

int kedge__gpu_hash_pass(struct kedge__reducer *r, struct kedge__error *err)
{
	struct kedge__gpu_replicas *w = r->replicas;
	int rc = taking_begin(r, err);

	for (unsigned wave = 0; wave < w->waves && !rc; wave++)
		rc = wave_take(r, wave, err);
	r->txn.changes = w->change_count;
	r->txn.fills = w->fill_count;
	if (!rc)
		rc = lists_finish(r, err);
	if (!rc && w->unsure)
		rc = known_count(r, err);
	w->listed = !rc;
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
	struct kedge__gpu_replicas *w = r->replicas;
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
	struct kedge__gpu_replicas *w = r->replicas;
	int rc = origins_send(r, err);

	if (!rc)
		rc = kedge__gpu_pass_count(w->pass, KEDGE__GPU_WORK, &w->on, 0, w->on.count, err);
	if (!rc)
		rc = kedge__gpu_copy_out(w->gpu, KEDGE__GPU_WORK, w->found_list, w->found.at,
					 w->on.count * sizeof(*w->found_list), err);
	return rc ? rc : kedge__gpu_sync(w->gpu, KEDGE__GPU_WORK, err);
}

/* To the stage, after what finds them. */
static int literals_pack(struct kedge__reducer *r, bool found, struct kedge__error *err)
{
	struct kedge__gpu_replicas *w = r->replicas;
	int rc = kedge__gpu_record(w->gpu, KEDGE__GPU_WORK, BESIDE, err);

	if (!rc)
		rc = kedge__gpu_follow(w->gpu, KEDGE__GPU_PACK, BESIDE, err);
	if (!rc)
		rc = at_send(r, KEDGE__GPU_PACK, 0, w->on.count, err);
	kedge__gpu_packing_again(r);
	return rc ? rc : kedge__gpu_packing_take(r, 0, w->on.count, found, err);
}

/* All of them, when all is known. */
static int literals_gather(struct kedge__reducer *r, bool found, struct kedge__error *err)
{
	const struct kedge__reduce_device *device = r->txn.device;
	struct kedge__gpu_replicas *w = r->replicas;
	int rc = 0;

	w->literal_bytes = w->starts.count = 0;
	for (uint64_t i = 0; i < w->on.count; i++)
		literals_place(r, i, found);
	if (!w->literal_bytes)
		return 0;
	if (w->begun)
		rc = kedge__gpu_drain(w->gpu, err);
	if (!rc)
		rc = device->room(device->ctx, w->literal_bytes, (void **)&w->literals, &w->literal_room, err);
	if (!rc && w->packing.on)
		return literals_pack(r, found, err);
	if (!rc)
		rc = whole_slabs_copy(r, 0, w->on.count, found, err);
	if (!rc)
		rc = at_send(r, KEDGE__GPU_WORK, 0, w->on.count, err);
	return rc ? rc
		  : kedge__gpu_pass_gather(w->pass, KEDGE__GPU_WORK, &w->on, 0, w->on.count, (uintptr_t)w->literals,
					   err);
}

/* One change in MANY that was found pays for waiting until all are. */
#define MANY 4

static void repeats_learn(struct kedge__reducer *r)
{
	const struct kedge__txn *t = &r->txn;
	struct kedge__gpu_replicas *w = r->replicas;

	if (t->searched)
		w->repeats = t->hits * MANY > t->changes - t->fills;
}

int kedge__gpu_literals_fetch(struct kedge__reducer *r, struct kedge__error *err)
{
	struct kedge__gpu_replicas *w = r->replicas;
	bool found = has_origins(r);
	int rc = found && !w->streams ? origins_count(r, err) : 0;

	repeats_learn(r);
	if (!rc && !w->streams)
		rc = literals_gather(r, found, err);
	if (!rc && w->packing.on)
		rc = kedge__gpu_packing_end(r, err);
	if (!rc)
		rc = kedge__gpu_sync(w->gpu, KEDGE__GPU_WORK, err);
	return rc ? rc : kedge__gpu_sync(w->gpu, KEDGE__GPU_OUT, err);
}

/* Literals are behind each other, from the start of their region on. */
static void point_behind(const struct kedge__gpu_replicas *w, struct kedge__literal_list *list)
{
	uint64_t at = 0;

	for (size_t i = 0; i < list->count; i++) {
		struct kedge__literal *l = &list->at[i];

		if (!i || l->region != l[-1].region)
			at = w->starts.at[l->region];
		l->data = kedge__gpu_packing_is(w, l->region) ? NULL : w->literals + at;
		at += l->bytes;
	}
}

/* Among those of slab I there are duplicates, which were gathered before they were found. The first LEFT bytes belong
 * to *NEXT, which began in the slab before. */
static uint64_t point_slab(const struct kedge__reducer *r, size_t i, struct kedge__literal **next, uint64_t left)
{
	const struct kedge__gpu_replicas *w = r->replicas;
	const struct kedge__txn *t = &r->txn;
	const struct kedge__slab *s = &t->slabs.at[i];
	const uint16_t *changes = t->workers[s->worker].changes.at + s->change_at;
	const uint8_t *data = w->literals + w->at_list[i].literals;

	for (size_t k = 0; k < s->count; k++) {
		uint64_t begin = (uint64_t)(changes[k] >> 1) * r->options.chunk;
		uint64_t bytes = KEDGE__MIN(r->options.chunk, w->slab_list[i].bytes - begin);

		if (changes[k] & 1)
			continue;
		if (!t->origins[s->item_at + k]) {
			if (!left) {
				(*next)->data = data;
				left = (*next)->bytes;
			}
			left -= bytes;
			*next += !left;
		}
		data += bytes;
	}
	return left;
}

void kedge__gpu_literals_point(const struct kedge__reducer *r, struct kedge__reduction *red)
{
	struct kedge__literal *next = red->literals.at;
	struct kedge__gpu_replicas *w = r->replicas;
	uint64_t left = 0;

	if (!w->streams || !has_origins(r))
		point_behind(w, &red->literals);
	else
		for (size_t i = 0; i < r->txn.slabs.count; i++)
			left = point_slab(r, i, &next, left);
	if (w->packing.on) {
		red->ready = w->packing.blocks;
		w->packing.blocks = (struct kedge__ready_blocks){0};
	}
}

/* ------------------------------------------------------------------ afterwards */

void kedge__gpu_settle(struct kedge__reducer *r, bool committed)
{
	struct kedge__gpu_replicas *w = r->replicas;

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
