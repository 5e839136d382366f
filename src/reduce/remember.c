/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * remember.c: what becomes of the record when a version is committed: digests that it replaces go to the log, the new
 * ones take their places, and the finder follows. Or the version is rolled back.
 */
#include "reduce/gpu.h"

#define REBUILD  4          /* where more than one entry in so many would change, the finder is dropped */
#define FEW      (1u << 16) /* but not because of so few */
#define AHEAD    8          /* chunks that are on their way from memory */
#define TOGETHER ((size_t)64)

/* ---- which chunks */

static bool leave(struct kedge__departure *d, const struct kedge__last_region *g, const struct kedge__slab *s,
		  uint64_t first, size_t count)
{
	struct kedge__leaving l = {g, s, first, count, d->total, 0};

	if (!count)
		return true;
	d->total += count;
	return kedge__array_push(&d->list, l);
}

/* Chunks of G from FIRST on, slab by slab, as far as they are known. */
static bool leave_range(struct kedge__departure *d, const struct kedge__last_region *g, uint64_t first)
{
	uint64_t chunk = d->r->options.chunk, per_slab = KEDGE__SLAB_BYTES / chunk,
		 end = kedge__chunks_of(g->bytes, chunk);
	bool ok = true;

	for (uint64_t at = first, next; ok && at < end; at = next) {
		next = KEDGE__MIN((at / per_slab + 1) * per_slab, end);
		if (g->stale[at / per_slab] == KEDGE__SLAB_KNOWN)
			ok = leave(d, g, NULL, at, (size_t)(next - at));
	}
	return ok;
}

/* What the version in progress replaces. */
static bool leave_changes(struct kedge__departure *d)
{
	const struct kedge__txn *t = &d->r->txn;
	uint64_t chunk = d->r->options.chunk;
	bool ok = true;

	for (size_t i = 0; ok && i < t->slabs.count; i++) {
		const struct kedge__slab *s = &t->slabs.at[i];
		const struct kedge__last_region *g = t->regions[s->region];
		uint64_t known = kedge__slab_known(t, s, chunk);

		if (s->flat && g->known && known > s->first)
			ok = leave(d, g, NULL, s->first,
				   (size_t)KEDGE__MIN(known - s->first, KEDGE__SLAB_BYTES / chunk));
		else if (!s->flat)
			ok = leave(d, g, s, s->first, s->apart_count);
	}
	for (size_t i = 0; ok && i < d->r->last.regions.count; i++) {
		const struct kedge__last_region *g = d->r->last.regions.at[i];
		uint64_t left = g->present ? kedge__chunks_of(g->next_bytes, chunk) : 0;

		if (g->known && left < kedge__chunks_of(g->bytes, chunk))
			ok = leave_range(d, g, left);
	}
	return ok;
}

static uint64_t leaving_index(const struct kedge__departure *d, const struct kedge__leaving *l, size_t k)
{
	const struct kedge__slab *s = l->slab;

	return s ? s->first + (d->r->txn.workers[s->worker].changes.at[s->change_at + k] >> 1) : l->first + k;
}

/* ---- to the log, and entries follow */

/* An entry of the log is overwritten: nothing may point to it. */
static void forget_one(void *ctx, struct kedge__probe *p, const struct kedge__spot *s, struct kedge__tally *tally)
{
	uint32_t *at = kedge__spot_find(s, kedge__entry_make(ctx, s->mark, KEDGE__ENTRY_LOG, p->number));

	if (!at)
		return;
	kedge__spot_clear(s, at);
	tally->entered--;
}

/* Of N entries from FIRST on; before they are overwritten. */
void kedge__forget_here(struct kedge__reducer *r, uint64_t first, uint64_t n)
{
	struct kedge__record *rec = &r->record;
	struct kedge__batch *b = &rec->batch;
	bool sparse = rec->finder.state == KEDGE__FINDER_SPARSE;

	for (uint64_t i = 0; i < n; i++) {
		uint64_t number = (first + i) % rec->log.room;
		const struct kedge__past *past = &rec->log.at[number];

		if (past->to && (!sparse || kedge__is_sample(&past->digest)))
			b->probes[b->count++] =
			    (struct kedge__probe){.digest = past->digest, .number = (uint32_t)number};
		if (b->count == KEDGE__WAVE)
			kedge__batch_run(b, r->txn.pool, &rec->finder, forget_one, &rec->finder);
	}
	if (b->count)
		kedge__batch_run(b, r->txn.pool, &rec->finder, forget_one, &rec->finder);
}

/* A chunk's digest is in the log now, or nowhere. */
static void move_one(void *ctx, struct kedge__probe *p, const struct kedge__spot *s, struct kedge__tally *tally)
{
	uint32_t *at = kedge__spot_find(s, kedge__entry_make(ctx, s->mark, p->kind, p->number));

	if (!at)
		return;
	if (p->value != UINT32_MAX) {
		*at = kedge__entry_make(ctx, s->mark, KEDGE__ENTRY_LOG, p->value);
		return;
	}
	kedge__spot_clear(s, at);
	tally->entered--;
}

/* Changes [FROM, TO) of slab S take the places of what was there. */
static void settle(const struct kedge__txn *t, const struct kedge__slab *s, size_t from, size_t to)
{
	const struct kedge__hash_worker *w = &t->workers[s->worker];
	const struct kedge__last_region *g = t->regions[s->region];
	const struct kedge__digest *apart = w->apart.at + s->apart_at;
	const uint16_t *changes = w->changes.at + s->change_at;
	struct kedge__digest *digests = g->digests + s->first;
	uint8_t *ages = g->ages ? g->ages + s->first : NULL, age = t->age;

	for (size_t k = from; t->apart && k < KEDGE__MIN(to, s->apart_count); k++)
		digests[changes[k] >> 1] = apart[k];
	for (size_t k = from; ages && k < to; k++)
		ages[changes[k] >> 1] = (uint8_t)((~ages[changes[k] >> 1] & KEDGE__AGE_ODD) | age);
}

static struct kedge__probe leaving_probe(const struct kedge__last_region *g, uint64_t index, uint64_t slot)
{
	uint32_t number = index < g->numbered ? (uint32_t)(g->number + index) : KEDGE__NO_NUMBER;

	return (struct kedge__probe){.digest = g->digests[index],
				     .number = number & KEDGE__NO_NUMBER,
				     .kind = kedge__last_kind(g, index) & 3u,
				     .value = (uint32_t)slot};
}

/* Chunks [FROM, TO) of a slab: to the log, and from P on as probes, if the finder may know them. Returns how many. */
static size_t leave_some(const struct kedge__departure *d, const struct kedge__leaving *l, size_t from, size_t to,
			 struct kedge__probe *p)
{
	const struct kedge__reducer *r = d->r;
	const struct kedge__log *log = &r->record.log;
	const struct kedge__last_region *g = l->region;
	bool sparse = r->record.finder.state == KEDGE__FINDER_SPARSE;
	size_t n = 0;

	for (size_t k = from; k < to; k++) {
		uint64_t index = leaving_index(d, l, k), rank = l->rank + k, slot = UINT32_MAX;

		__builtin_prefetch(&g->digests[leaving_index(d, l, KEDGE__MIN(k + AHEAD, l->count - 1))], 1);
		if (rank >= d->skip && log->room) {
			slot = (d->slot + (rank - d->skip)) % log->room;
			log->at[slot] = (struct kedge__past){g->digests[index], g->base + index * r->options.chunk,
							     kedge__last_since(r, g, index), r->record.parent};
		}
		if (p && (!sparse || kedge__is_sample(&g->digests[index])))
			p[n++] = leaving_probe(g, index, slot);
	}
	return n;
}

/* Changes take their places while these are at hand. */
static int leave_slab(void *ctx, size_t i, int worker)
{
	const struct kedge__departure *d = ctx;
	struct kedge__leaving *l = &d->list.at[d->begin + i];
	struct kedge__probe *p = d->batch ? d->batch->probes + (l->rank - d->base) : NULL;

	(void)worker;
	if (!p && !l->slab && l->rank + l->count <= d->skip)
		return 0; /* where all of a version leaves, most finds no room */
	for (size_t from = 0, to; from < l->count; from = to) {
		to = KEDGE__MIN(from + TOGETHER, l->count);
		if (p || l->rank + to > d->skip)
			l->probes += leave_some(d, l, from, to, p ? p + l->probes : NULL);
		if (l->slab)
			settle(&d->r->txn, l->slab, from, to);
	}
	return 0;
}

/* Those of all slabs of the wave, without what is between them. */
static void gather_probes(struct kedge__departure *d)
{
	struct kedge__batch *b = d->batch;

	b->count = 0;
	for (size_t i = d->begin; i < d->end; i++) {
		const struct kedge__leaving *l = &d->list.at[i];

		kedge__batch_gather(b, (size_t)(l->rank - d->base), l->probes);
	}
}

void kedge__departure_run(struct kedge__departure *d)
{
	struct kedge__record *rec = &d->r->record;
	struct kedge__pool *pool = kedge__pool_if(d->r->txn.pool, (size_t)d->total);

	if (!d->batch) { /* no entries follow, so that there is nothing to be done in waves */
		d->begin = 0;
		kedge__pool_for(pool, d->list.count, leave_slab, d);
		return;
	}
	for (d->end = 0; d->end < d->list.count;) {
		size_t n = 0;

		d->begin = d->end;
		d->base = d->list.at[d->begin].rank;
		while (d->end < d->list.count && n + d->list.at[d->end].count <= KEDGE__WAVE)
			n += d->list.at[d->end++].count;
		kedge__pool_for(pool, d->end - d->begin, leave_slab, d);
		gather_probes(d);
		kedge__batch_run(d->batch, d->r->txn.pool, &rec->finder, move_one, &rec->finder);
	}
}

bool kedge__prepare_here(struct kedge__reducer *r, uint64_t n)
{
	return kedge__batch_begin(&r->record.batch, n, NULL) == 0;
}

void kedge__leave_here(struct kedge__departure *d)
{
	d->batch = &d->r->record.batch;
	kedge__departure_run(d);
}

static void depart(struct kedge__departure *d)
{
	struct kedge__record *rec = &d->r->record;
	uint64_t before = rec->log.count, room;

	if (!d->total)
		return;
	if (rec->finder.state && d->total > FEW && d->total > rec->numbers / REBUILD)
		kedge__finder_drop(&rec->finder);
	if (rec->finder.state && !rec->finder.ops->prepare(d->r, d->total + before))
		kedge__finder_drop(&rec->finder);
	kedge__log_extend(&rec->log, d->total, rec->log_limit, !rec->finder.state, &d->slot);
	room = rec->log.room;
	d->skip = d->total > room ? d->total - room : 0;
	if (rec->finder.state && before + (d->total - d->skip) > room)
		rec->finder.ops->forget(d->r, d->slot, d->total - d->skip);
	if (rec->finder.state)
		rec->finder.ops->leave(d);
	else
		kedge__departure_run(d);
}

/* ---- those that had no digest before, and what was only found */

static int settle_slab(void *ctx, size_t i, int worker)
{
	struct kedge__reducer *r = ctx;
	const struct kedge__txn *t = &r->txn;
	const struct kedge__slab *s = &t->slabs.at[i];
	struct kedge__last_region *g = t->regions[s->region];
	uint64_t end = KEDGE__MIN(s->first + KEDGE__SLAB_BYTES / r->options.chunk, g->ages_room);

	(void)worker;
	for (uint64_t k = s->first; (s->flat || s->stream) && k < end; k++)
		g->ages[k] = (uint8_t)((~g->ages[k] & KEDGE__AGE_ODD) | t->age);
	settle(t, s, t->departed ? s->apart_count : 0, s->count);
	return 0;
}

/* A digest that only the log had, and that a chunk has now: that will not be forgotten. */
static void adopt_one(void *ctx, struct kedge__probe *p, const struct kedge__spot *s, struct kedge__tally *tally)
{
	const struct kedge__record *rec = ctx;
	const struct kedge__finder *x = &rec->finder;
	uint32_t *at;
	unsigned match = kedge__spot_match(s);

	(void)tally;
	while ((at = kedge__spot_next(x, s, &match))) {
		if (kedge__entry_kind(x, *at) == KEDGE__ENTRY_LOG &&
		    kedge__digest_equal(rec->log.at[kedge__entry_number(x, *at)].digest, p->digest)) {
			*at = kedge__entry_make(x, s->mark, p->kind, p->number);
			return;
		}
	}
}

/* Paranoid: what was found may have been refused. */
static void adopt_slab(struct kedge__batch *b, const struct kedge__txn *t, const struct kedge__slab *s, bool paranoid)
{
	const struct kedge__last_region *g = t->regions[s->region];
	const uint16_t *changes = t->workers[s->worker].changes.at + s->change_at;

	for (size_t k = 0; k < s->count; k++) {
		enum kedge__origin_kind kind = kedge__origin_kind(t->origins[s->item_at + k]);
		uint64_t index = s->first + (changes[k] >> 1);

		if ((kind == KEDGE__ORIGIN_LAST || kind == KEDGE__ORIGIN_LOG || paranoid) && index < g->numbered)
			b->probes[b->count++] =
			    (struct kedge__probe){.digest = g->digests[index],
						  .number = (uint32_t)(g->number + index) & KEDGE__NO_NUMBER,
						  .kind = kedge__last_kind(g, index) & 3u};
	}
}

void kedge__adopt_here(struct kedge__reducer *r)
{
	struct kedge__record *rec = &r->record;
	const struct kedge__txn *t = &r->txn;
	struct kedge__batch *b = &rec->batch;

	if (kedge__batch_begin(b, t->changes, NULL))
		return;
	for (size_t i = 0; i < t->slabs.count; i++) {
		if (b->count + t->slabs.at[i].count > KEDGE__WAVE)
			kedge__batch_run(b, t->pool, &rec->finder, adopt_one, rec);
		adopt_slab(b, t, &t->slabs.at[i], r->options.paranoid);
	}
	if (b->count)
		kedge__batch_run(b, t->pool, &rec->finder, adopt_one, rec);
}

/* Before it is written to. */
static void judge_log(struct kedge__reducer *r)
{
	const struct kedge__txn *t = &r->txn;
	uint64_t hits = 0;

	for (size_t i = 0; t->hits && i < t->changes; i++)
		hits += kedge__origin_kind(t->origins[i]) == KEDGE__ORIGIN_LOG;
	if (kedge__record_judge_log(&r->record, hits, t->changes))
		kedge__record_limits(r, t->raw_bytes);
}

/* ---- commit and rollback */

static void regions_leave(struct kedge__record *rec, bool committed)
{
	for (size_t i = 0; i < rec->columns.count; i++) {
		struct kedge__last_region **g = &rec->columns.at[i].region;

		if (*g && !(committed ? (*g)->present : (*g)->known))
			*g = NULL;
	}
}

void kedge__record_commit(struct kedge__reducer *r)
{
	struct kedge__record *rec = &r->record;
	struct kedge__txn *t = &r->txn;
	struct kedge__departure d = {.r = r};

	t->age = kedge__record_age(r);
	if (!t->regions || (rec->finder.state && (!t->apart || t->spoilt || rec->finder.used > rec->finder.room)))
		kedge__finder_drop(&rec->finder);
	if (t->apart)
		judge_log(r);
	t->departed = t->apart && leave_changes(&d);
	if (t->departed)
		depart(&d);
	else
		kedge__finder_drop(&rec->finder);
	kedge__array_done(&d.list);
	if (t->regions)
		kedge__pool_for(kedge__pool_if(t->pool, t->changes), t->slabs.count, settle_slab, r);
	if (t->hits && rec->finder.state)
		rec->finder.ops->adopt(r);
	if (r->replicas)
		kedge__gpu_settle(r, true);
	regions_leave(rec, true);
	rec->parent = rec->epochs.current;
	rec->epochs.current = 0;
}

/* Take out what change K of slab S entered. */
static void take_out(struct kedge__reducer *r, const struct kedge__slab *s, size_t k)
{
	const struct kedge__txn *t = &r->txn;
	struct kedge__finder *x = &r->record.finder;
	const struct kedge__last_region *g = t->regions[s->region];
	unsigned change = t->workers[s->worker].changes.at[s->change_at + k];
	uint64_t index = s->first + (change >> 1);
	struct kedge__digest digest = kedge__change_digest(t, s, k);
	struct kedge__spot spot = kedge__finder_spot(x, kedge__digest_mix(digest));
	uint32_t *at;

	if (change & 1 || (t->origins && t->origins[s->item_at + k]) || index >= g->numbered ||
	    kedge__last_is(r, g, index, digest))
		return;
	at = kedge__spot_find(
	    &spot, kedge__entry_make(x, spot.mark, kedge__next_kind(g, index), (uint32_t)(g->number + index)));
	if (at) {
		kedge__spot_clear(&spot, at);
		x->used--;
	}
}

void kedge__take_out_here(struct kedge__reducer *r)
{
	const struct kedge__txn *t = &r->txn;

	for (size_t i = 0; i < t->slabs.count; i++)
		for (size_t k = 0; k < t->slabs.at[i].count; k++)
			take_out(r, &t->slabs.at[i], k);
}

void kedge__record_rollback(struct kedge__reducer *r)
{
	const struct kedge__txn *t = &r->txn;

	if (t->searched && t->changes > FEW)
		kedge__finder_drop(&r->record.finder);
	if (t->searched && r->record.finder.state)
		r->record.finder.ops->take_out(r);
	if (r->replicas)
		kedge__gpu_settle(r, false);
	regions_leave(&r->record, false);
	kedge__epochs_rollback(&r->record.epochs);
}

/* All of the last version to the log. */
static void leave_all(struct kedge__reducer *r)
{
	struct kedge__departure d = {.r = r};
	bool ok = r->options.record_bytes > 0;

	kedge__finder_drop(&r->record.finder);
	for (size_t i = 0; ok && i < r->last.regions.count; i++)
		if (r->last.regions.at[i]->known && r->last.regions.at[i]->ages)
			ok = leave_range(&d, r->last.regions.at[i], 0);
	if (ok)
		depart(&d);
	kedge__array_done(&d.list);
}

void kedge__record_retire(struct kedge__reducer *r)
{
	leave_all(r);
	kedge__record_detach(r);
}

void kedge__record_renew(struct kedge__reducer *r)
{
	leave_all(r);
	for (size_t i = 0; i < r->last.regions.count; i++) {
		struct kedge__last_region *g = r->last.regions.at[i];

		for (uint64_t slab = 0; g->known && slab < kedge__chunks_of(g->bytes, KEDGE__SLAB_BYTES); slab++)
			if (g->stale[slab] == KEDGE__SLAB_KNOWN)
				g->stale[slab] = KEDGE__SLAB_STALE;
	}
}
