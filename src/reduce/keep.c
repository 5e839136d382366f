/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * keep.c: what a reducer may store of an image that is seen through a view, told to the view while the bytes are at
 * hand: changed chunks that are not constant and, of reducers that store pages, whole pages.
 */
#include "reduce/reducer.h"

/* What is kept of a part goes to the view in long runs. */
struct keeper {
	const struct kedge__image_view *view;
	const struct kedge__slab *slab;
	int worker;
	const uint8_t *data; /* of the part, */
	uint64_t offset;     /* which is there in its region */
	uint64_t from, to;   /* a run, not passed on yet */
};

static bool keeper_flush(struct keeper *k)
{
	return k->from == k->to || k->view->keep(k->view->ctx, k->worker, k->slab->region, k->from,
						 k->data + (k->from - k->offset), k->to - k->from);
}

static bool keeper_add(struct keeper *k, uint64_t from, uint64_t to)
{
	if (from != k->to) {
		if (!keeper_flush(k))
			return false;
		k->from = from;
	}
	k->to = to;
	return true;
}

/* How many changes from number CHANGE on are in one page, and how many of them are FILLS. */
static size_t page_changes(const struct kedge__hash_worker *w, size_t change, uint64_t patterns, size_t *fills)
{
	uint64_t page = (w->changes.at[change] >> 1) / patterns;
	size_t n = 0;

	for (*fills = 0; change + n < w->changes.count && (w->changes.at[change + n] >> 1) / patterns == page; n++)
		*fills += w->changes.at[change + n] & 1;
	return n;
}

/* N changed chunks, but for constant ones. */
static bool chunks_keep(struct keeper *k, const struct kedge__reducer *r, size_t change, size_t n)
{
	const struct kedge__hash_worker *w = &r->txn.workers[k->worker];
	uint64_t chunk = r->options.chunk, bytes = kedge__slab_region(&r->txn, k->slab)->bytes;
	bool ok = true;

	for (size_t i = change; ok && i < change + n; i++) {
		uint64_t at = (k->slab->first + (w->changes.at[i] >> 1)) * chunk;

		if (!(w->changes.at[i] & 1))
			ok = keeper_add(k, at, KEDGE__MIN(at + chunk, bytes));
	}
	return ok;
}

/* The page of N changes from number CHANGE on: as a whole if it may be a literal; not at all if all of it is one
 * constant, as its FILLS, one for every pattern, tell. */
static bool page_keep(struct keeper *k, const struct kedge__reducer *r, size_t change, size_t n, const uint64_t *fills,
		      size_t fill_count)
{
	const struct kedge__hash_worker *w = &r->txn.workers[k->worker];
	uint64_t chunk = r->options.chunk, bytes = kedge__slab_region(&r->txn, k->slab)->bytes;
	uint64_t at = (k->slab->first + (w->changes.at[change] >> 1)) * chunk / KEDGE__REX_PAGE * KEDGE__REX_PAGE;
	uint64_t len = KEDGE__MIN(KEDGE__REX_PAGE, bytes - at);

	if (fill_count == kedge__chunks_of(len, chunk) && kedge__fills_are_one(fills, fill_count))
		return true;
	return kedge__rex_may_be_literal(len, n, chunk) ? keeper_add(k, at, at + len) : chunks_keep(k, r, change, n);
}

bool kedge__part_keep(const struct kedge__reducer *r, const struct kedge__slab *s, int worker, size_t change,
		      size_t fill, const uint8_t *data, uint64_t offset)
{
	const struct kedge__reducer_ops *ops = kedge__reducer_ops_of(r);
	const struct kedge__hash_worker *w = &r->txn.workers[worker];
	struct keeper k = {.view = r->txn.view, .slab = s, .worker = worker, .data = data, .offset = offset};
	bool ok = true;

	if (!k.view || !k.view->keep || ops->full)
		return true;
	if (!ops->pages)
		return chunks_keep(&k, r, change, w->changes.count - change) && keeper_flush(&k);
	while (ok && change < w->changes.count) {
		size_t fills, n = page_changes(w, change, KEDGE__REX_PAGE / r->options.chunk, &fills);

		ok = page_keep(&k, r, change, n, w->fills.at + fill, fills);
		change += n;
		fill += fills;
	}
	return ok && keeper_flush(&k);
}
