/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hash_pass.c: the one pass over all bytes. A slab is taken in pieces that stay in the first-level cache, so that the
 * region sum and the search for constant chunks read no memory a second time. Digests are compared with those of the
 * last version in place; what changed goes on a list of the thread, and the old digest or the new one on another.
 * Where the caller knows which bytes may have changed, only those are read, in grains of at least a page.
 *
 * Memory that may change is read once, into a buffer: the digest, the sum and what is taken for a constant must be of
 * the same bytes, or what is stored is not what the sums say. Only what is found to be as it was, by both, need not be
 * copied for that.
 */
#include "reduce/gpu.h"

/* What is copied is less than half of the first-level cache; and while a page is worked on, the processor fetches on by
 * itself. Copies of 16 KiB took a third more time. */
#define PIECE_BYTES (UINT64_C(16) << 10)
#define COPY_BYTES  (UINT64_C(4) << 10)
#define LIST_MIN    (size_t)1024

/* Whether region I need not be looked at: then it has no slabs, and what has none is the same as in the parent. */
static bool is_same(const struct kedge__reducer *r, size_t i)
{
	const struct kedge__txn *t = &r->txn;
	const struct kedge__last_region *g = t->regions ? t->regions[i] : NULL;

	if (!g || !t->dirty || !t->dirty[i].same || r->options.paranoid || kedge__reducer_ops_of(r)->full)
		return false;
	return t->primes || (t->compare && g->known && g->bytes == g->next_bytes);
}

static void same_take(struct kedge__txn *t, size_t i)
{
	struct kedge__last_region *g = t->regions[i];

	g->same = true;
	g->digest = *t->dirty[i].same;
	if (!g->known && g->next_bytes)
		memset(g->stale, KEDGE__SLAB_STALE, kedge__chunks_of(g->next_bytes, KEDGE__SLAB_BYTES));
	t->same++;
}

int kedge__slabs_plan(struct kedge__reducer *r, bool skip, struct kedge__error *err)
{
	struct kedge__txn *t = &r->txn;
	size_t planned = 0;

	for (size_t i = 0; i < t->image->count; i++) {
		uint64_t slabs = kedge__chunks_of(t->image->regions[i].bytes, KEDGE__SLAB_BYTES);

		if (t->regions)
			t->regions[i]->slab_at = planned;
		if (is_same(r, i)) {
			same_take(t, i);
			continue;
		}
		planned += slabs;
		if (!kedge__array_reserve(&t->slabs, planned))
			return kedge__error_nomem(err);
		for (uint64_t k = 0; k < slabs && !t->device; k++) {
			struct kedge__slab s = {
			    .region = (uint32_t)i, .first = k * (KEDGE__SLAB_BYTES / r->options.chunk), .skip = skip};

			t->slabs.at[t->slabs.count++] = s;
		}
	}
	return 0;
}

struct piece {
	struct kedge__last_region *last;
	const uint8_t *data;
	uint64_t bytes, offset; /* in the region */
	uint64_t first;         /* chunk */
	uint64_t slab_first;    /* that of the slab */
	uint64_t old_chunks;    /* of the region that have a digest */
	uint64_t after;      /* where in the region the next piece is, behind all that are at hand; 0: there is none */
	bool compare, apart; /* as in txn */
};

static bool same_bytes(const struct piece *p, uint64_t at, uint64_t len, uint64_t chunk)
{
	uint64_t offset = p->offset + at;
	uint64_t old_len = KEDGE__MIN(chunk, p->last->bytes - offset);

	return len == old_len && !memcmp(p->last->shadow + offset, p->data + at, len);
}

/* The ends of a worker's lists, on which there is room. */
struct ends {
	uint16_t *change;
	uint64_t *fill;
	struct kedge__digest *apart;
};

static struct ends ends_of(const struct kedge__hash_worker *w)
{
	return (struct ends){w->changes.at + w->changes.count, w->fills.at + w->fills.count,
			     w->apart.at + w->apart.count};
}

static void set_ends(struct kedge__hash_worker *w, const struct ends *e)
{
	w->changes.count = (size_t)(e->change - w->changes.at);
	w->fills.count = (size_t)(e->fill - w->fills.at);
	w->apart.count = (size_t)(e->apart - w->apart.at);
}

static void note_change(struct ends *e, const struct piece *p, uint64_t i, uint64_t chunk, struct kedge__digest fresh)
{
	uint64_t at = i * chunk, len = KEDGE__MIN(chunk, p->bytes - at);
	struct kedge__digest *digest = &p->last->digests[p->first + i];
	bool fill = kedge__is_constant(p->data + at, len), known = p->first + i < p->old_chunks;

	if (known)
		*e->apart++ = p->apart ? fresh : *digest;
	if (fill)
		*e->fill++ = kedge__get64(p->data + at);
	*e->change++ = (uint16_t)((p->first + i - p->slab_first) << 1 | fill);
	if (!known || !p->apart)
		*digest = fresh;
}

/* Most do not differ, so eight are looked at together. */
uint64_t kedge__next_difference(const struct kedge__digest *a, const struct kedge__digest *b, uint64_t i, uint64_t n)
{
	for (; i + 8 <= n; i += 8) {
		uint64_t difference = 0;

		for (int k = 0; k < 8; k++)
			difference |= (a[i + k].lo ^ b[i + k].lo) | (a[i + k].hi ^ b[i + k].hi);
		if (difference)
			break;
	}
	while (i < n && kedge__digest_equal(a[i], b[i]))
		i++;
	return i;
}

/* The same in paranoid mode, where equal digests prove nothing. */
static uint64_t next_difference_in_bytes(const struct piece *p, const struct kedge__digest *fresh, uint64_t i,
					 uint64_t n, uint64_t chunk)
{
	const struct kedge__digest *old = p->last->digests + p->first;

	while (i < n && kedge__digest_equal(old[i], fresh[i]) &&
	       same_bytes(p, i * chunk, KEDGE__MIN(chunk, p->bytes - i * chunk), chunk))
		i++;
	return i;
}

/* In large pages, where there are many. */
static bool list_reserve(void **at, size_t *room, size_t need, size_t size)
{
	size_t wanted = KEDGE__MAX(2 * *room, KEDGE__MAX(need, LIST_MIN));

	if (need <= *room)
		return true;
	if (!kedge__large_grow(at, *room * size, wanted * size))
		return false;
	*room = wanted;
	return true;
}

#define LIST_RESERVE(list, n)                                                                                          \
	list_reserve((void **)&(list)->at, &(list)->room, (list)->count + (n), sizeof(*(list)->at))

bool kedge__lists_reserve(struct kedge__hash_worker *w, uint64_t changes)
{
	return LIST_RESERVE(&w->apart, changes) && LIST_RESERVE(&w->fills, changes) &&
	       LIST_RESERVE(&w->changes, changes);
}

static bool compare_piece(const struct kedge__reducer *r, struct kedge__hash_worker *w, const struct piece *p)
{
	uint64_t chunk = r->options.chunk, n = kedge__chunks_of(p->bytes, chunk), i = 0;
	uint64_t known = p->compare && p->first < p->old_chunks ? KEDGE__MIN(n, p->old_chunks - p->first) : 0;
	const struct kedge__digest *old = p->last->digests + p->first, *fresh = w->fresh;
	struct ends ends = {0};

	for (;; i++) {
		if (i < known && kedge__digest_equal(old[i], fresh[i]))
			i = r->options.paranoid ? next_difference_in_bytes(p, fresh, i, known, chunk)
						: kedge__next_difference(old, fresh, i, known);
		if (i == n)
			break;
		if (!ends.change && !kedge__lists_reserve(w, n))
			return false;
		if (!ends.change)
			ends = ends_of(w);
		note_change(&ends, p, i, chunk, fresh[i]);
	}
	if (ends.change)
		set_ends(w, &ends);
	return true;
}

void kedge__digests_weaken(const struct kedge__reducer *r, struct kedge__digest *d, uint64_t n)
{
	uint64_t mask = r->options.digest_mask;

	for (uint64_t i = 0; mask && i < n; i++)
		d[i] = (struct kedge__digest){d[i].lo & mask, 0};
}

/* Sums of grains are kept, so that those of grains that nobody wrote to need not be made again. */
static struct kedge__sum piece_sum(const struct kedge__reducer *r, const struct piece *p)
{
	uint64_t grain = kedge__grain(r->options.chunk);
	struct kedge__sum total = {0, 0};

	if (!r->txn.sums)
		return kedge__sum_of(p->data, p->bytes, p->offset);
	for (uint64_t at = 0; at < p->bytes; at += grain) {
		struct kedge__sum *sum = &p->last->sums[(p->offset + at) / grain];

		*sum = kedge__sum_of(p->data + at, KEDGE__MIN(grain, p->bytes - at), p->offset + at);
		total = kedge__sum_add(total, *sum);
	}
	return total;
}

/* ---- an image that is seen through a view */

/* LEN bytes of the slab's region at OFFSET, whole where every byte is stored anyway. */
static const uint8_t *part_get(const struct kedge__reducer *r, const struct kedge__slab *s, int worker, uint64_t offset,
			       uint64_t len)
{
	const struct kedge__txn *t = &r->txn;
	const struct kedge__image_view *view = t->view;

	if (!view)
		return (const uint8_t *)kedge__slab_region(t, s)->data + offset;
	return view->get(view->ctx, worker, s->region, offset, t->workers[worker].bytes, len,
			 kedge__reducer_ops_of(r)->full);
}

/* Each piece is asked for by itself, when it is needed. */
static bool is_in_pieces(const struct kedge__reducer *r)
{
	return r->txn.view && !r->txn.view->keep && !kedge__reducer_ops_of(r)->full;
}

/* ---- a look at memory that may be changing */

#define PATIENCE 64 /* pieces at most without a look */

/* Sums of the last version must be known: who saw its digests in one moment and its sum in another saw what is the same
 * in both, or did not. */
static bool may_look(const struct kedge__reducer *r, const struct piece *p)
{
	const struct kedge__txn *t = &r->txn;

	return t->view && t->view->where && t->sums && p->compare && p->last->summed;
}

/* Is piece P, of one grain, what it was? */
static bool is_as_it_was(const struct kedge__reducer *r, const struct kedge__slab *s, struct kedge__hash_worker *w,
			 const struct piece *p)
{
	uint64_t chunk = r->options.chunk, n = kedge__chunks_of(p->bytes, chunk);
	const void *data = r->txn.view->where(r->txn.view->ctx, s->region, p->offset, p->bytes);
	struct kedge__sum sum;

	if (!data || p->first + n > p->old_chunks)
		return false;
	kedge__digest_chunks(r->key, data, p->bytes, chunk, w->fresh);
	kedge__digests_weaken(r, w->fresh, n);
	if (kedge__next_difference(p->last->digests + p->first, w->fresh, 0, n) < n)
		return false;
	sum = kedge__sum_of(data, p->bytes, p->offset);
	return !memcmp(&sum, &p->last->sums[p->offset / kedge__grain(chunk)], sizeof(sum));
}

/* A look that saw a change was in vain, and where most changes, as where a tracker says so, few are taken. */
static bool look(const struct kedge__reducer *r, const struct kedge__slab *s, struct kedge__hash_worker *w,
		 const struct piece *p)
{
	if (w->look_wait) {
		w->look_wait--;
		return false;
	}
	if (is_as_it_was(r, s, w, p)) {
		w->look_failed = 0;
		return true;
	}
	w->look_failed = KEDGE__MIN(2 * w->look_failed + 1, PATIENCE);
	w->look_wait = w->look_failed;
	return false;
}

/* The piece after P, if P is not the last of BYTES, or what comes after all of them, is on its way while P is worked
 * on. The digest's own prefetch sees only the copy. */
static void expect(const struct kedge__reducer *r, const struct kedge__slab *s, const struct piece *p, uint64_t bytes)
{
	const struct kedge__image_view *view = r->txn.view;
	uint64_t from = p->bytes < bytes ? p->offset + p->bytes : p->after, end = kedge__slab_region(&r->txn, s)->bytes;

	if (view->expect && from && from < end)
		view->expect(view->ctx, s->region, from, KEDGE__MIN(end - from, COPY_BYTES));
}

/* ---- slabs */

/* BYTES bytes of slab S, at P; without data there, each piece is asked for when it is needed. */
static int hash_pieces(struct kedge__reducer *r, struct kedge__slab *s, int worker, struct piece p, uint64_t bytes)
{
	struct kedge__hash_worker *w = &r->txn.workers[worker];
	bool in_pieces = !p.data;
	uint64_t chunk = r->options.chunk, step = KEDGE__MAX(in_pieces ? COPY_BYTES : PIECE_BYTES, chunk);
	bool looks = in_pieces && may_look(r, &p);

	for (uint64_t at = 0; at < bytes; at += step, p.offset += step, p.first += step / chunk) {
		p.bytes = KEDGE__MIN(step, bytes - at);
		if (looks && look(r, s, w, &p)) {
			s->sum = kedge__sum_add(s->sum, p.last->sums[p.offset / step]);
			continue;
		}
		if (in_pieces)
			p.data = part_get(r, s, worker, p.offset, p.bytes);
		if (!p.data)
			return KEDGE_E_STATE;
		if (in_pieces)
			expect(r, s, &p, bytes - at);
		kedge__digest_chunks(r->key, p.data, p.bytes, chunk, w->fresh);
		s->sum = kedge__sum_add(s->sum, piece_sum(r, &p));
		kedge__digests_weaken(r, w->fresh, kedge__chunks_of(p.bytes, chunk));
		if (!compare_piece(r, w, &p))
			return KEDGE_E_NOMEM;
		p.data += p.bytes;
	}
	return 0;
}

/* A part of slab S, BYTES bytes at P. */
static int hash_part(struct kedge__reducer *r, struct kedge__slab *s, int worker, struct piece p, uint64_t bytes)
{
	const struct kedge__hash_worker *w = &r->txn.workers[worker];
	size_t change = w->changes.count, fill = w->fills.count;
	int rc;

	if (!p.data && !is_in_pieces(r)) {
		p.data = part_get(r, s, worker, p.offset, bytes);
		if (!p.data)
			return KEDGE_E_STATE;
	}
	rc = hash_pieces(r, s, worker, p, bytes);
	if (!rc && !kedge__part_keep(r, s, worker, change, fill, p.data, p.offset))
		rc = KEDGE_E_NOMEM;
	return rc;
}

/* Whether the caller knows where the slab may have changed, and all that is needed of the rest is there. */
static bool is_narrow(const struct kedge__txn *t, const struct kedge__slab *s, uint64_t number)
{
	const struct kedge__last_region *g = t->regions[s->region];

	return t->sums && t->compare && t->dirty && t->dirty[s->region].known && g->known && g->summed &&
	       g->bytes == g->next_bytes && g->stale[number] != KEDGE__SLAB_STALE;
}

/* Only grains with a dirty byte; P is at the start of the slab, which has BYTES, and has no data yet. */
static int hash_dirty(struct kedge__reducer *r, struct kedge__slab *s, int worker, const struct piece *p,
		      uint64_t bytes)
{
	const struct kedge__region_dirty *d = &r->txn.dirty[s->region];
	uint64_t chunk = r->options.chunk, grain = kedge__grain(chunk), start = p->offset, end = start + bytes;
	uint64_t done = start;
	size_t i = kedge__dirty_find(d, start);

	if (i == d->count || d->at[i].start >= end) {
		s->sum = p->last->slab_sums[start / KEDGE__SLAB_BYTES];
		return 0;
	}
	if (p->last->stale[start / KEDGE__SLAB_BYTES] == KEDGE__SLAB_FLAT &&
	    !kedge__last_raise(r, p->last, start / KEDGE__SLAB_BYTES))
		return KEDGE_E_NOMEM;
	for (; i < d->count && d->at[i].start < end; i++) {
		uint64_t from = KEDGE__MAX(done, d->at[i].start / grain * grain);
		uint64_t to = KEDGE__MIN(end, (d->at[i].start + d->at[i].len + grain - 1) / grain * grain);
		struct piece part = *p;
		int rc;

		if (from >= to)
			continue;
		part.offset = from;
		part.first = from / chunk;
		part.old_chunks = kedge__slab_known(&r->txn, s, chunk);
		part.after = i + 1 < d->count ? d->at[i + 1].start / grain * grain : 0;
		rc = hash_part(r, s, worker, part, to - from);
		if (rc)
			return rc;
		done = to;
	}
	s->sum = (struct kedge__sum){0, 0};
	for (uint64_t at = start; at < end; at += grain)
		s->sum = kedge__sum_add(s->sum, p->last->sums[at / grain]);
	return 0;
}

/* Paranoid reducers compare bytes, which they have of chunks; what has digests is compared by them. */
static bool may_be_flat(const struct kedge__reducer *r, const struct piece *p)
{
	return !r->options.paranoid && !(p->compare && p->first < p->old_chunks);
}

/* Take a slab at P that is one constant: as it was, or all of it new. False: it is not, and its chunks are compared one
 * by one. */
static bool take_flat(const struct kedge__reducer *r, struct kedge__slab *s, const struct piece *p, uint64_t bytes)
{
	uint64_t number = p->offset / KEDGE__SLAB_BYTES;
	const struct kedge__last_region *g = p->last;
	bool same;

	if (!may_be_flat(r, p) || !kedge__is_constant(p->data, bytes))
		return false;
	s->pattern = kedge__get64(p->data);
	same =
	    p->compare && p->offset < g->bytes && g->stale[number] == KEDGE__SLAB_FLAT && g->flat[number] == s->pattern;
	if (same && KEDGE__MIN(KEDGE__SLAB_BYTES, g->bytes - p->offset) != bytes)
		return false; /* the region ends elsewhere: only its last chunks are new */
	s->flat = !same;
	return true;
}

/* Sums are made as of any slab. */
static void sum_flat(const struct kedge__reducer *r, struct kedge__slab *s, struct piece p, uint64_t bytes)
{
	uint64_t step = KEDGE__MAX(PIECE_BYTES, (uint64_t)r->options.chunk);

	for (uint64_t at = 0; at < bytes; at += step, p.data += step, p.offset += step) {
		p.bytes = KEDGE__MIN(step, bytes - at);
		s->sum = kedge__sum_add(s->sum, piece_sum(r, &p));
	}
}

/* The slab as one, if it may be one constant; else nothing, where it can be had in pieces. */
static int slab_get(const struct kedge__reducer *r, const struct kedge__slab *s, int worker, uint64_t bytes,
		    struct piece *p)
{
	uint64_t first = KEDGE__MIN(COPY_BYTES, bytes);

	if (is_in_pieces(r) && !may_be_flat(r, p))
		return 0;
	if (is_in_pieces(r)) {
		p->data = part_get(r, s, worker, p->offset, first);
		if (!p->data)
			return KEDGE_E_STATE;
		if (!kedge__is_constant(p->data, first)) {
			p->data = NULL;
			return 0;
		}
	}
	p->data = part_get(r, s, worker, p->offset, bytes);
	return p->data ? 0 : KEDGE_E_STATE;
}

static int hash_all(struct kedge__reducer *r, struct kedge__slab *s, int worker, struct piece p, uint64_t bytes)
{
	uint64_t number = p.offset / KEDGE__SLAB_BYTES;
	int rc = slab_get(r, s, worker, bytes, &p);

	if (rc)
		return rc;
	if (p.data && take_flat(r, s, &p, bytes)) {
		sum_flat(r, s, p, bytes);
		return 0;
	}
	if (p.last->stale[number] == KEDGE__SLAB_FLAT && p.offset < p.last->bytes &&
	    !kedge__last_raise(r, p.last, number))
		return KEDGE_E_NOMEM;
	p.old_chunks = kedge__slab_known(&r->txn, s, r->options.chunk);
	return hash_part(r, s, worker, p, bytes);
}

/* Nothing but the sum. */
static int sum_slab(const struct kedge__reducer *r, struct kedge__slab *s, int worker, uint64_t offset, uint64_t bytes)
{
	const uint8_t *data = part_get(r, s, worker, offset, bytes);

	if (!data)
		return KEDGE_E_STATE;
	s->sum = kedge__sum_of(data, bytes, offset);
	return 0;
}

static int hash_slab(void *ctx, size_t i, int worker)
{
	struct kedge__reducer *r = ctx;
	struct kedge__txn *t = &r->txn;
	struct kedge__slab *s = &t->slabs.at[i];
	struct kedge__hash_worker *w = &t->workers[worker];
	struct piece p = {.offset = s->first * r->options.chunk,
			  .first = s->first,
			  .slab_first = s->first,
			  .compare = t->compare,
			  .apart = t->apart};
	uint64_t bytes = KEDGE__MIN(KEDGE__SLAB_BYTES, kedge__slab_region(t, s)->bytes - p.offset);
	uint64_t number = p.offset / KEDGE__SLAB_BYTES;
	int rc;

	s->worker = worker;
	s->change_at = w->changes.count;
	s->fill_at = w->fills.count;
	s->apart_at = w->apart.count;
	if (!s->skip) {
		p.last = t->regions[s->region];
		p.old_chunks = kedge__slab_known(t, s, r->options.chunk);
	}
	if (s->stream)
		rc = 0;
	else if (!s->skip && is_narrow(t, s, number))
		rc = hash_dirty(r, s, worker, &p, bytes);
	else if (!s->skip)
		rc = hash_all(r, s, worker, p, bytes);
	else
		rc = sum_slab(r, s, worker, p.offset, bytes);
	s->count = w->changes.count - s->change_at;
	s->fill_count = w->fills.count - s->fill_at;
	s->apart_count = w->apart.count - s->apart_at;
	if (!rc && t->progress)
		t->progress(t->progress_ctx, atomic_fetch_add(&t->hashed, bytes) + bytes);
	return rc;
}

size_t kedge__items_gather(const struct kedge__reducer *r, size_t i, struct kedge__item *item)
{
	const struct kedge__txn *t = &r->txn;
	const struct kedge__slab *s = &t->slabs.at[i];
	const struct kedge__hash_worker *w = &t->workers[s->worker];
	const uint16_t *changes = w->changes.at + s->change_at;
	const kedge__origin *origins = t->origins ? t->origins + s->item_at : NULL;
	const uint64_t *fill = w->fills.at + s->fill_at;
	bool merge = kedge__reducer_ops_of(r)->merge;
	size_t n = 0;

	for (size_t k = 0; k < s->count; k++, n++) {
		size_t from = k;

		item[n] = (struct kedge__item){.index = s->first + (changes[k] >> 1), .kind = KEDGE__ITEM_PLAIN};
		if (changes[k] & 1) {
			item[n].kind = KEDGE__ITEM_FILL;
			item[n].src = *fill++;
		} else if (origins && origins[k]) {
			item[n].kind = KEDGE__ITEM_FOUND;
			item[n].src = origins[k];
			item[n].epoch = (uint32_t)k;
		} else {
			while (merge && k + 1 < s->count && changes[k + 1] == changes[k] + 2 &&
			       !(origins && origins[k + 1]))
				k++;
			item[n].more = (uint16_t)(k - from);
		}
	}
	return n;
}

static void items_count(struct kedge__txn *t)
{
	t->changes = t->fills = 0;
	for (size_t i = 0; i < t->slabs.count; i++) {
		t->slabs.at[i].item_at = t->changes;
		t->changes += t->slabs.at[i].count;
		t->fills += t->slabs.at[i].fill_count;
	}
}

static void list_drop(void **at, size_t *count, size_t *room, size_t size)
{
	kedge__large_free(*at, *room * size);
	*at = NULL;
	*count = *room = 0;
}

#define LIST_DROP(list) list_drop((void **)&(list)->at, &(list)->count, &(list)->room, sizeof(*(list)->at))

static void lists_drop(struct kedge__hash_worker *w)
{
	LIST_DROP(&w->changes);
	LIST_DROP(&w->fills);
	LIST_DROP(&w->apart);
	w->touched = 0;
}

void kedge__workers_done(struct kedge__reducer *r)
{
	for (int i = 0; i < r->worker_count; i++) {
		lists_drop(&r->workers[i]);
		kedge__free(r->workers[i].fresh);
		kedge__free(r->workers[i].bytes);
	}
	kedge__free(r->workers);
	r->workers = NULL;
	r->worker_count = 0;
}

void kedge__workers_rest(struct kedge__reducer *r)
{
	uint64_t touched = 0;

	for (int i = 0; i < r->worker_count; i++) {
		struct kedge__hash_worker *w = &r->workers[i];
		uint64_t now = w->changes.count * sizeof(*w->changes.at) + w->fills.count * sizeof(*w->fills.at) +
			       w->apart.count * sizeof(*w->apart.at);

		w->touched = KEDGE__MAX(w->touched, now);
		touched += w->touched;
		w->changes.count = w->fills.count = w->apart.count = 0;
	}
	for (int i = 0; touched >= KEDGE__WORK_BYTES && i < r->worker_count; i++)
		lists_drop(&r->workers[i]);
}

/* One for each thread. */
static int workers_make(struct kedge__reducer *r, struct kedge__error *err)
{
	size_t scratch = KEDGE__MAX(PIECE_BYTES, (uint64_t)r->options.chunk) / r->options.chunk;
	int count = r->txn.pool ? kedge__pool_threads(r->txn.pool) : 1;
	bool bytes = r->txn.view || r->options.paranoid;

	if (r->worker_count != count) {
		kedge__workers_done(r);
		r->workers = kedge__calloc((size_t)count, sizeof(*r->workers));
		if (!r->workers)
			return kedge__error_nomem(err);
		r->worker_count = count;
	}
	for (int i = 0; i < count; i++) {
		struct kedge__hash_worker *w = &r->workers[i];

		if (!w->fresh)
			w->fresh = kedge__malloc(scratch * sizeof(*w->fresh));
		if (!w->bytes && bytes)
			w->bytes = kedge__malloc(KEDGE__SLAB_BYTES);
		if (!w->fresh || (bytes && !w->bytes))
			return kedge__error_nomem(err);
		w->look_wait = w->look_failed = 0;
	}
	r->txn.workers = r->workers;
	return 0;
}

int kedge__hash_pass(struct kedge__reducer *r, struct kedge__error *err)
{
	struct kedge__txn *t = &r->txn;
	int rc = workers_make(r, err);

	if (rc)
		return rc;
	if (t->device)
		return kedge__gpu_hash_pass(r, err);
	kedge__gpu_finder_end(r);
	rc = kedge__pool_for(t->pool, t->slabs.count, hash_slab, r);
	if (rc == KEDGE_E_STATE)
		return kedge__error_set(err, rc, 0, "the captured memory is no longer available");
	items_count(t);
	return rc ? kedge__error_nomem(err) : 0;
}

void kedge__region_digests(const struct kedge__txn *t, struct kedge__digest *out)
{
	for (size_t i = 0, slab = 0; i < t->image->count; i++) {
		struct kedge__sum sum = {0, 0};

		for (; slab < t->slabs.count && t->slabs.at[slab].region == i; slab++)
			sum = kedge__sum_add(sum, t->slabs.at[slab].sum);
		out[i] = t->regions && t->regions[i]->same ? t->regions[i]->digest
							   : kedge__sum_digest(sum, t->image->regions[i].bytes);
	}
}

void kedge__hash_undo(struct kedge__reducer *r)
{
	struct kedge__txn *t = &r->txn;

	bool done = t->workers && !t->apart && (!t->there || t->listed);

	for (size_t i = 0; done && i < t->slabs.count; i++) {
		const struct kedge__slab *s = &t->slabs.at[i];
		const struct kedge__hash_worker *w = &t->workers[s->worker];
		uint64_t known = s->apart_count ? kedge__slab_known(t, s, r->options.chunk) : 0;
		const struct kedge__digest *old = w->apart.at + s->apart_at;

		for (size_t k = 0; known && k < s->count; k++) {
			uint64_t index = s->first + (w->changes.at[s->change_at + k] >> 1);

			if (index < known)
				t->regions[s->region]->digests[index] = *old++;
		}
	}
}
