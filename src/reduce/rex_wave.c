#include "reduce/rex_wave.h"

#define WAVE       ((size_t)1 << 20) /* items: those of a slab fit in */
#define WAVE_SLABS ((size_t)1024)
#define GROUP      32u /* patterns whose buckets are fetched together */

int kedge__rex_wave_init(struct kedge__rex_wave *w, struct kedge__reducer *r, struct kedge__error *err)
{
	size_t items = r->txn.items.count;

	memset(w, 0, sizeof(*w));
	w->r = r;
	w->room = KEDGE__MIN(items, WAVE);
	w->hashes = kedge__large_alloc(w->room * sizeof(*w->hashes));
	w->probes = kedge__large_alloc(w->room * sizeof(*w->probes));
	w->counts =
	    kedge__malloc(KEDGE__MIN(WAVE_SLABS, r->txn.slabs.count + 1) * KEDGE__REX_PARTS * sizeof(*w->counts));
	if (!w->hashes || !w->probes || !w->counts)
		return kedge__error_nomem(err);
	return kedge__rex_table_begin(&r->rex, items, r->options.record_bytes, err);
}

void kedge__rex_wave_done(struct kedge__rex_wave *w)
{
	kedge__large_free(w->hashes, w->room * sizeof(*w->hashes));
	kedge__large_free(w->probes, w->room * sizeof(*w->probes));
	kedge__free(w->counts);
}

bool kedge__rex_wave_next(struct kedge__rex_wave *w)
{
	const struct kedge__txn *t = &w->r->txn;

	w->slab += w->slabs;
	w->begin = w->end;
	for (w->slabs = 0; w->slab + w->slabs < t->slabs.count && w->slabs < WAVE_SLABS; w->slabs++) {
		size_t count = t->slabs.at[w->slab + w->slabs].count;

		if (count > w->room - (w->end - w->begin))
			break;
		w->end += count;
	}
	return t->items.count && w->slabs;
}

static struct kedge__digest digest_of(const struct kedge__txn *t, size_t item)
{
	return t->regions[t->items.at[item].region]->digests[t->items.at[item].index];
}

void kedge__rex_wave_note(struct kedge__rex_wave *w, size_t i)
{
	const struct kedge__txn *t = &w->r->txn;
	const struct kedge__slab *s = &t->slabs.at[w->slab + i];
	const struct kedge__digest *digests = t->regions[s->region]->digests;
	uint64_t whole = kedge__slab_region(t, s)->bytes / w->r->options.chunk;
	uint32_t *counts = w->counts + i * KEDGE__REX_PARTS;
	uint64_t *hashes = w->hashes + (s->item_at - w->begin);

	memset(counts, 0, KEDGE__REX_PARTS * sizeof(*counts));
	for (size_t k = 0; k < s->count; k++) {
		const struct kedge__item *item = &t->items.at[s->item_at + k];
		bool candidate = item->kind == KEDGE__ITEM_PLAIN && item->index < whole && s->item_at + k < UINT32_MAX;

		hashes[k] = candidate ? kedge__rex_hash(digests[item->index]) | 1 : 0;
		counts[kedge__rex_part(hashes[k])] += candidate;
	}
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
	const struct kedge__slab *s = &w->r->txn.slabs.at[w->slab + i];
	const uint64_t *hashes = w->hashes + (s->item_at - w->begin);
	uint32_t *next = w->counts + i * KEDGE__REX_PARTS;

	(void)worker;
	for (size_t k = 0; k < s->count; k++)
		if (hashes[k])
			w->probes[next[kedge__rex_part(hashes[k])]++] = (struct kedge__rex_probe){
			    (uint32_t)hashes[k], (uint32_t)(hashes[k] >> 32), (uint32_t)(s->item_at + k)};
	return 0;
}

/* The number of the item in bucket B that is the same as ITEM, + 1, or 0. */
static uint32_t find_in(const struct kedge__txn *t, const struct kedge__rex_bucket *b, uint32_t tag, uint32_t item)
{
	for (int i = 0; i < 2; i++)
		if (b->way[i].tag == tag && b->way[i].item &&
		    kedge__digest_equal(digest_of(t, b->way[i].item - 1), digest_of(t, item)))
			return b->way[i].item;
	return 0;
}

/* In the second bucket only if the first is full, for nothing goes there before. */
static uint32_t find_first(const struct kedge__txn *t, const struct kedge__rex_key *key, uint32_t item)
{
	uint32_t found = find_in(t, &key->part[key->first], key->tag, item);

	return found || !key->part[key->first].way[1].item ? found
							   : find_in(t, &key->part[key->second], key->tag, item);
}

static void fetch_next(const struct kedge__txn *t, const struct kedge__rex_key *key)
{
	const struct kedge__rex_bucket *b = &key->part[key->first];

	for (int i = 0; i < 2; i++)
		if (b->way[i].tag == key->tag && b->way[i].item)
			__builtin_prefetch(&t->items.at[b->way[i].item - 1]);
	if (b->way[1].item)
		__builtin_prefetch(&key->part[key->second], 1);
}

/* N probes, at most GROUP. Memory is asked for in rounds, because every step would wait for it. */
static void find_group(struct kedge__rex_wave *w, const struct kedge__rex_probe *probes, size_t n)
{
	struct kedge__txn *t = &w->r->txn;
	struct kedge__rex_key keys[GROUP];

	for (size_t i = 0; i < n; i++) {
		keys[i] = kedge__rex_key_of(&w->r->rex, (uint64_t)probes[i].high << 32 | probes[i].low);
		__builtin_prefetch(&keys[i].part[keys[i].first], 1);
	}
	for (size_t i = 0; i < n; i++)
		fetch_next(t, &keys[i]);
	for (size_t i = 0; i < n; i++) {
		uint32_t first = find_first(t, &keys[i], probes[i].item);

		if (first) {
			t->items.at[probes[i].item].kind = KEDGE__ITEM_BACK;
			t->items.at[probes[i].item].src = first - 1;
		} else {
			kedge__rex_table_enter(&w->r->rex, &keys[i], probes[i].item);
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
