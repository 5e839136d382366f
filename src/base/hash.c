/* SPDX-License-Identifier: BSD-3-Clause */
/* Open addressing with linear probing, at most half full; what is removed leaves no marks: those behind it move up. */
#include "base/base.h"

#define LEAST 16

void kedge__hash_done(struct kedge__hash *h)
{
	kedge__free(h->at);
	*h = (struct kedge__hash){0};
}

/* Hashes are good in their low bits already; those that are plain numbers are made so. */
static size_t home(const struct kedge__hash *h, uint64_t hash)
{
	return (size_t)((hash ^ hash >> 32) * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (h->size - 1);
}

size_t kedge__hash_find(const struct kedge__hash *h, uint64_t hash, kedge__hash_same *same, const void *ctx,
			const void *key)
{
	if (!h->count)
		return KEDGE__HASH_NONE;
	for (size_t i = home(h, hash); h->at[i].item; i = (i + 1) & (h->size - 1)) {
		if (h->at[i].hash == hash && same(ctx, h->at[i].item - 1, key))
			return h->at[i].item - 1;
	}
	return KEDGE__HASH_NONE;
}

static void place(struct kedge__hash *h, struct kedge__hash_slot slot)
{
	size_t i = home(h, slot.hash);

	while (h->at[i].item)
		i = (i + 1) & (h->size - 1);
	h->at[i] = slot;
}

bool kedge__hash_reserve(struct kedge__hash *h, size_t count)
{
	struct kedge__hash grown = {.size = KEDGE__MAX(h->size, (size_t)LEAST), .count = h->count};

	if (count > SIZE_MAX / 4 / sizeof(*h->at))
		return false;
	while (grown.size / 2 < count)
		grown.size *= 2;
	if (grown.size == h->size)
		return true;
	grown.at = kedge__calloc(grown.size, sizeof(*grown.at));
	if (!grown.at)
		return false;
	for (size_t i = 0; i < h->size; i++) {
		if (h->at[i].item)
			place(&grown, h->at[i]);
	}
	kedge__free(h->at);
	*h = grown;
	return true;
}

bool kedge__hash_put(struct kedge__hash *h, uint64_t hash, size_t item)
{
	if (!kedge__hash_reserve(h, h->count + 1))
		return false;
	place(h, (struct kedge__hash_slot){hash, item + 1});
	h->count++;
	return true;
}

/* Where ITEM is; it is there. */
static size_t seat(const struct kedge__hash *h, uint64_t hash, size_t item)
{
	size_t i = home(h, hash);

	while (h->at[i].item != item + 1)
		i = (i + 1) & (h->size - 1);
	return i;
}

void kedge__hash_move(struct kedge__hash *h, uint64_t hash, size_t from, size_t to)
{
	h->at[seat(h, hash, from)].item = to + 1;
}

void kedge__hash_remove(struct kedge__hash *h, uint64_t hash, size_t item)
{
	size_t mask = h->size - 1, gap = seat(h, hash, item);

	/* One that is found by way of the gap fills it, and leaves the next one. */
	for (size_t i = (gap + 1) & mask; h->at[i].item; i = (i + 1) & mask) {
		size_t wanted = home(h, h->at[i].hash);

		if (((i - wanted) & mask) >= ((i - gap) & mask)) {
			h->at[gap] = h->at[i];
			gap = i;
		}
	}
	h->at[gap].item = 0;
	h->count--;
}
