/* SPDX-License-Identifier: BSD-3-Clause */
#include "reduce/rex_wave.h"

#define WAVE       ((size_t)1 << 15) /* changes for each thread: those of a slab fit in */
#define WAVE_SLABS ((size_t)1024)
#define AHEAD      16u /* patterns: marks are fetched so far ahead */
#define GROUP      32u /* patterns whose buckets are fetched together */

static void release(struct kedge__rex_wave *w)
{
	kedge__large_free(w->kinds, w->room * sizeof(*w->kinds));
	kedge__large_free(w->values, w->room * sizeof(*w->values));
	kedge__large_free(w->noted, w->room * sizeof(*w->noted));
	kedge__large_free(w->probes, w->room * sizeof(*w->probes));
	kedge__large_free(w->items, w->room * sizeof(*w->items));
	kedge__free(w->counts);
	kedge__free(w->noted_counts);
	kedge__free(w->item_counts);
	*w = (struct kedge__rex_wave){0};
}

void kedge__rex_wave_free(struct kedge__rex_wave *w)
{
	if (w)
		release(w);
	kedge__free(w);
}

static int reserve(struct kedge__rex_wave *w, size_t changes, size_t slabs, struct kedge__error *err)
{
	if (changes <= w->room && slabs <= w->slab_room)
		return 0;
	changes = KEDGE__MAX(changes, w->room);
	slabs = KEDGE__MAX(slabs, w->slab_room);
	release(w);
	w->room = changes;
	w->slab_room = slabs;
	w->kinds = kedge__large_alloc(changes * sizeof(*w->kinds));
	w->values = kedge__large_alloc(changes * sizeof(*w->values));
	w->noted = kedge__large_alloc(changes * sizeof(*w->noted));
	w->probes = kedge__large_alloc(changes * sizeof(*w->probes));
	w->items = kedge__large_alloc(changes * sizeof(*w->items));
	w->counts = kedge__malloc(slabs * KEDGE__REX_PARTS * sizeof(*w->counts));
	w->noted_counts = kedge__malloc(slabs * sizeof(*w->noted_counts));
	w->item_counts = kedge__malloc(slabs * sizeof(*w->item_counts));
	if (w->kinds && w->values && w->noted && w->probes && w->items && w->counts && w->noted_counts &&
	    w->item_counts)
		return 0;
	release(w);
	return kedge__error_nomem(err);
}

/* ---- patterns that may be there again */

struct marking {
	struct kedge__reducer *r;
	bool shared;
	_Atomic uint64_t hits;
};

static int mark_slab(void *ctx, size_t i, int worker)
{
	struct marking *m = ctx;
	const struct kedge__txn *t = &m->r->txn;
	const struct kedge__slab *s = &t->slabs.at[i];
	const struct kedge__digest *digests = t->regions[s->region]->digests + s->first;
	const uint16_t *changes = kedge__slab_changes(t, s);
	struct kedge__rex_table table = m->r->rex;
	bool shared = m->shared;
	uint64_t hits = 0;

	(void)worker;
	for (size_t k = 0; k < s->count; k++) {
		size_t ahead = changes[KEDGE__MIN(k + AHEAD, s->count - 1)] >> 1;

		__builtin_prefetch(kedge__rex_marks_of(&table, kedge__rex_hash(digests[ahead])), 1);
		if (!(changes[k] & 1))
			hits += kedge__rex_mark(&table, kedge__rex_hash(digests[changes[k] >> 1]), shared);
	}
	if (hits)
		atomic_fetch_add(&m->hits, hits);
	return 0;
}

/* Marks all patterns but constant ones; at most *COUNT may be there again. */
static int mark_all(struct kedge__reducer *r, uint64_t *count, struct kedge__error *err)
{
	struct kedge__txn *t = &r->txn;
	struct kedge__pool *pool = kedge__pool_if(t->pool, t->changes);
	struct marking m = {.r = r, .shared = pool && kedge__pool_threads(pool) > 1};
	uint64_t patterns = t->changes;
	int rc;

	for (size_t i = 0; i < t->slabs.count; i++)
		patterns -= t->slabs.at[i].fill_count;
	rc = kedge__rex_marks_begin(&r->rex, patterns, r->options.record_bytes, err);
	if (rc)
		return rc;
	kedge__pool_for(pool, t->slabs.count, mark_slab, &m);
	*count = KEDGE__MIN(patterns, 2 * m.hits);
	return 0;
}

/* ---- waves */

int kedge__rex_wave_begin(struct kedge__reducer *r, struct kedge__rex_wave **out, struct kedge__error *err)
{
	size_t room = WAVE * (r->txn.pool ? (size_t)kedge__pool_threads(r->txn.pool) : 1);
	struct kedge__rex_wave *w = r->wave;
	uint64_t count = 0;
	int rc;

	if (!w)
		w = r->wave = kedge__calloc(1, sizeof(*w));
	if (!w)
		return kedge__error_nomem(err);
	rc = reserve(w, KEDGE__MIN(r->txn.changes, room), KEDGE__MIN(WAVE_SLABS, r->txn.slabs.count), err);
	if (rc)
		return rc;
	w->r = r;
	w->slab = w->slabs = w->begin = w->end = 0;
	*out = w;
	rc = mark_all(r, &count, err);
	return rc ? rc : kedge__rex_table_begin(&r->rex, count, r->options.record_bytes, err);
}

bool kedge__rex_wave_next(struct kedge__rex_wave *w)
{
	const struct kedge__txn *t = &w->r->txn;

	w->slab += w->slabs;
	w->begin = w->end;
	for (w->slabs = 0; w->slab + w->slabs < t->slabs.count && w->slabs < w->slab_room; w->slabs++) {
		size_t count = t->slabs.at[w->slab + w->slabs].count;

		if (count > w->room - (w->end - w->begin))
			break;
		w->end += count;
	}
	return w->slabs;
}

void kedge__rex_wave_note(struct kedge__rex_wave *w, size_t i)
{
	const struct kedge__txn *t = &w->r->txn;
	const struct kedge__slab *s = kedge__rex_wave_slab(w, i);
	const struct kedge__digest *digests = t->regions[s->region]->digests + s->first;
	const uint16_t *changes = kedge__slab_changes(t, s);
	uint64_t per_slab = KEDGE__SLAB_BYTES / w->r->options.chunk, number = (w->slab + i) * per_slab;
	uint64_t whole = kedge__slab_region(t, s)->bytes / w->r->options.chunk - s->first;
	uint32_t first = (uint32_t)kedge__rex_wave_at(w, i), counts[KEDGE__REX_PARTS] = {0};
	struct kedge__rex_probe *noted = w->noted + first;
	struct kedge__rex_table table = w->r->rex;
	const uint8_t *kinds = w->kinds + first;
	size_t n = 0;

	if (number + per_slab >= UINT32_MAX)
		whole = 0;
	for (uint32_t k = 0; k < s->count; k++) {
		uint64_t at = changes[k] >> 1, hash = kedge__rex_hash(digests[at]);
		size_t ahead = changes[KEDGE__MIN(k + AHEAD, s->count - 1)] >> 1;
		unsigned candidate =
		    kedge__rex_is_marked(&table, hash) & (kinds[k] == KEDGE__ITEM_PLAIN) & (at < whole);

		__builtin_prefetch(kedge__rex_marks_of(&table, kedge__rex_hash(digests[ahead])));
		noted[n] = (struct kedge__rex_probe){hash, first + k, (uint32_t)(number + at)};
		n += candidate; /* without a branch, which nothing could foretell */
		counts[kedge__rex_part(hash)] += candidate;
	}
	w->noted_counts[i] = n;
	memcpy(w->counts + i * KEDGE__REX_PARTS, counts, sizeof(counts));
}

/* Counts become places: part by part, and in it slab by slab. */
static void place_parts(struct kedge__rex_wave *w)
{
	uint32_t at = 0;

	for (size_t part = 0; part < KEDGE__REX_PARTS; part++) {
		w->starts[part] = at;
		for (size_t i = 0; i < w->slabs; i++) {
			uint32_t *c = &w->counts[i * KEDGE__REX_PARTS + part], count = *c;

			*c = at;
			at += count;
		}
	}
	w->starts[KEDGE__REX_PARTS] = at;
}

static int list_slab(void *ctx, size_t i, int worker)
{
	const struct kedge__rex_wave *w = ctx;
	const struct kedge__rex_probe *noted = w->noted + kedge__rex_wave_at(w, i);
	uint32_t next[KEDGE__REX_PARTS];

	(void)worker;
	memcpy(next, w->counts + i * KEDGE__REX_PARTS, sizeof(next));
	for (size_t k = 0; k < w->noted_counts[i]; k++)
		w->probes[next[kedge__rex_part(noted[k].hash)]++] = noted[k];
	return 0;
}

static const struct kedge__digest *digest_of(const struct kedge__rex_wave *w, uint32_t number)
{
	uint64_t per_slab = KEDGE__SLAB_BYTES / w->r->options.chunk;
	const struct kedge__slab *s = &w->r->txn.slabs.at[number / per_slab];

	return w->r->txn.regions[s->region]->digests + s->first + number % per_slab;
}

/* The number in bucket B of the pattern that is the same as NUMBER, + 1, or 0. */
static uint32_t find_in(const struct kedge__rex_wave *w, const struct kedge__rex_bucket *b, uint32_t tag,
			uint32_t number)
{
	for (int i = 0; i < 2; i++)
		if (b->way[i].tag == tag && b->way[i].number &&
		    kedge__digest_equal(*digest_of(w, b->way[i].number - 1), *digest_of(w, number)))
			return b->way[i].number;
	return 0;
}

/* The same, and where there is none NUMBER is entered. Nothing goes to the second bucket before the first is full. */
static uint32_t find_or_enter(const struct kedge__rex_wave *w, const struct kedge__rex_key *key, uint32_t number)
{
	struct kedge__rex_bucket *b = &key->part[key->first];
	uint32_t found = find_in(w, b, key->tag, number), second;

	if (found)
		return found;
	for (int i = 0; i < 2; i++) {
		if (!b->way[i].number) {
			b->way[i] = (struct kedge__rex_entry){key->tag, number + 1};
			return 0;
		}
	}
	second = kedge__rex_other(&w->r->rex, key->first, key->tag);
	found = find_in(w, &key->part[second], key->tag, number);
	if (!found)
		kedge__rex_table_enter(&w->r->rex, key->part, second, key->tag, number);
	return found;
}

static void fetch_next(const struct kedge__rex_wave *w, const struct kedge__rex_key *key)
{
	const struct kedge__rex_bucket *b = &key->part[key->first];

	for (int i = 0; i < 2; i++)
		if (b->way[i].tag == key->tag && b->way[i].number)
			__builtin_prefetch(digest_of(w, b->way[i].number - 1));
	if (b->way[1].number)
		__builtin_prefetch(&key->part[kedge__rex_other(&w->r->rex, key->first, key->tag)], 1);
}

/* N probes, at most GROUP. Memory is asked for in rounds, because every step would wait for it. */
static void find_group(struct kedge__rex_wave *w, const struct kedge__rex_probe *probes, size_t n)
{
	struct kedge__rex_key keys[GROUP];

	for (size_t i = 0; i < n; i++) {
		keys[i] = kedge__rex_key_of(&w->r->rex, probes[i].hash);
		__builtin_prefetch(&keys[i].part[keys[i].first], 1);
	}
	for (size_t i = 0; i < n; i++)
		fetch_next(w, &keys[i]);
	for (size_t i = 0; i < n; i++) {
		uint32_t first = find_or_enter(w, &keys[i], probes[i].number);

		if (first) {
			w->kinds[probes[i].change] = KEDGE__ITEM_BACK;
			w->values[probes[i].change] = first - 1;
		}
	}
}

static int find_part(void *ctx, size_t part, int worker)
{
	struct kedge__rex_wave *w = ctx;

	(void)worker;
	for (uint32_t i = w->starts[part]; i < w->starts[part + 1]; i += GROUP)
		find_group(w, w->probes + i, KEDGE__MIN(GROUP, w->starts[part + 1] - i));
	return 0;
}

void kedge__rex_wave_find(struct kedge__rex_wave *w, struct kedge__pool *pool)
{
	place_parts(w);
	kedge__pool_for(pool, w->slabs, list_slab, w);
	kedge__pool_for(pool, KEDGE__REX_PARTS, find_part, w);
}
