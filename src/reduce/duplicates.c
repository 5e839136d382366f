/*
 * duplicates.c: each changed chunk that is not constant is looked up in the record: it is a first occurrence and
 * entered, or the same as one that was seen before. Goes in waves, so that little memory is needed at once.
 */
#include "reduce/reducer.h"

#define WAVE (UINT32_C(1) << 18)

/* The slab that holds item I. */
static size_t slab_of(const struct kedge__txn *t, size_t i)
{
	size_t low = 0, high = t->slabs.count;

	while (high - low > 1) {
		size_t mid = low + (high - low) / 2;

		if (t->slabs.at[mid].item_at <= i)
			low = mid;
		else
			high = mid;
	}
	return low;
}

/* Probes for items [begin, end). Returns how many. */
static size_t make_probes(const struct kedge__reducer *r, size_t begin, size_t end, struct kedge__probe *probes)
{
	const struct kedge__txn *t = &r->txn;
	size_t n = 0, slab = slab_of(t, begin);

	for (size_t i = begin; i < end; i++) {
		const struct kedge__item *item = &t->items.at[i];

		while (i >= kedge__slab_end(t, slab))
			slab++;
		if (item->kind != KEDGE__ITEM_PLAIN)
			continue;
		probes[n++] = (struct kedge__probe){
		    .key = t->regions[t->slabs.at[slab].region]->digests[item->index],
		    .addr = kedge__slab_region(t, &t->slabs.at[slab])->base + item->index * r->options.chunk,
		    .item = (uint32_t)(i - begin),
		};
	}
	return n;
}

static void take_outcomes(struct kedge__txn *t, uint32_t epoch, size_t begin, const struct kedge__probe *probes,
			  size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct kedge__item *item = &t->items.at[begin + probes[i].item];

		if (probes[i].outcome == KEDGE__PROBE_FOUND) {
			item->kind = KEDGE__ITEM_SHIFT;
			item->src = probes[i].src;
			item->epoch = probes[i].epoch;
		} else if (probes[i].outcome == KEDGE__PROBE_ENTERED) {
			item->kind = KEDGE__ITEM_FIRST;
			item->epoch = epoch;
		}
	}
}

/* Paranoid: a duplicate that is none, or that cannot be read again, stays a literal. */
static void check_duplicates(struct kedge__reducer *r)
{
	struct kedge__txn *t = &r->txn;

	for (size_t s = 0; s < t->slabs.count; s++) {
		const struct kedge__image_region *region = kedge__slab_region(t, &t->slabs.at[s]);

		for (size_t i = t->slabs.at[s].item_at; i < kedge__slab_end(t, s); i++) {
			struct kedge__item *item = &t->items.at[i];
			uint64_t offset = item->index * r->options.chunk;

			if (item->kind == KEDGE__ITEM_SHIFT &&
			    !kedge__paranoid_equal(r, (const uint8_t *)region->data + offset,
						   kedge__item_len(region, item->index, r->options.chunk), item->epoch,
						   item->src))
				item->kind = KEDGE__ITEM_PLAIN;
		}
	}
}

int kedge__duplicates_find(struct kedge__reducer *r, struct kedge__error *err)
{
	struct kedge__txn *t = &r->txn;
	size_t room = KEDGE__MIN(t->items.count, (size_t)WAVE);
	struct kedge__probe *probes = kedge__malloc((room + 1) * sizeof(*probes));
	int rc = probes ? 0 : kedge__error_nomem(err);

	r->record.expected = t->items.count / KEDGE__RECORD_SHARDS;
	for (size_t begin = 0; !rc && begin < t->items.count; begin += WAVE) {
		size_t n = make_probes(r, begin, KEDGE__MIN(begin + WAVE, t->items.count), probes);

		rc = kedge__record_enter(&r->record, t->pool, probes, n, err);
		if (!rc)
			take_outcomes(t, r->record.current, begin, probes, n);
	}
	r->record.expected = 0;
	kedge__free(probes);
	if (!rc && r->options.paranoid)
		check_duplicates(r);
	return rc;
}
