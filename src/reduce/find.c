/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * find.c: each changed chunk that is not constant is looked up: the last version, the log or an earlier change of this
 * version may have it. If not, it is a literal, and entered.
 *
 * A finder of all that a large state has is costly to make and to keep. So, as long as there is none, many changes are
 * judged by a sample, and if it shows nothing, all of them are stored; so they are where most of a large version
 * changed. The sample consists of the chunks with certain digests, so that of two that are equal both are in it, or
 * none. What is lost is small: if a share P of the chunks are duplicates, none of N samples shows it with probability
 * (1 - P)^N, and P times that is never above 1/(e N). `auto` takes samples of few changes, too, and wants to see that
 * duplicates pay.
 */
#include "reduce/gpu.h"

#define MOST  4                   /* a version of which one chunk in so many changed has changed for the most part */
#define WORTH 256                 /* auto: one chunk in so many must be a duplicate */
#define TELL  (UINT64_C(1) << 15) /* changes: in a sample of them nothing is missed but 1/2800 of what is stored */
#define DRY   8                   /* versions without a duplicate after which samples do again */

struct search {
	struct kedge__reducer *r;
	struct kedge__batch *batch;
	bool sample;
	size_t begin, end; /* slabs of the wave */
	size_t *at;        /* of each: where its probes are, from 0 to the end of the last */
	size_t *counts;    /* and how many there are; more than there is room for: they are not all there */
	bool roomy;        /* there is room for all changes, and not for as many as a sample of them has */
};

/* ---- one chunk */

/* The number of the change of chunk INDEX of G among all; false: there is none. */
static bool change_of(const struct kedge__txn *t, const struct kedge__last_region *g, uint64_t index, uint64_t chunk,
		      size_t *slab, size_t *k)
{
	const struct kedge__slab *s;
	const uint16_t *changes;
	uint64_t at;

	if (!g->present || index >= kedge__chunks_of(g->next_bytes, chunk))
		return false;
	*slab = g->slab_at + (size_t)(index * chunk / KEDGE__SLAB_BYTES);
	s = &t->slabs.at[*slab];
	changes = t->workers[s->worker].changes.at + s->change_at;
	at = index - s->first;
	if (!s->count)
		return false;
	*k = (size_t)KEDGE__MIN(at, s->count - 1);
	if (changes[*k] >> 1 != at) /* else all chunks before it have changed, too */
		KEDGE__PARTITION_POINT(*k, s->count, (uint64_t)(changes[*k] >> 1) < at);
	return *k < s->count && changes[*k] >> 1 == at;
}

/* Chunk INDEX of G is a literal of this version with the digest of P, and comes before it. */
static bool is_earlier(const struct kedge__reducer *r, const struct kedge__last_region *g, uint64_t index,
		       const struct kedge__probe *p, uint32_t *number)
{
	const struct kedge__txn *t = &r->txn;
	size_t slab, k, item;

	if (!change_of(t, g, index, r->options.chunk, &slab, &k))
		return false;
	item = t->slabs.at[slab].item_at + k;
	/* Others look at origins of other digests. */
	if (item >= p->number || !kedge__digest_equal(kedge__change_digest(t, &t->slabs.at[slab], k), p->digest) ||
	    (t->origins && t->origins[item]))
		return false;
	*number = (uint32_t)item;
	return true;
}

enum verdict { NO, YES, DEAD }; /* DEAD: the digest is right, but nothing may refer to it */

static enum verdict past_verdict(const struct kedge__record *rec, uint32_t number, const struct kedge__probe *p,
				 kedge__origin *origin)
{
	const struct kedge__past *past = &rec->log.at[number];

	if (!past->to || !kedge__digest_equal(past->digest, p->digest))
		return NO;
	if (!kedge__epochs_newest(&rec->epochs, past->from, past->to))
		return DEAD;
	*origin = kedge__origin_make(KEDGE__ORIGIN_LOG, number);
	return YES;
}

static enum verdict verdict_on(const struct kedge__reducer *r, uint32_t entry, const struct kedge__probe *p,
			       kedge__origin *origin)
{
	const struct kedge__record *rec = &r->record;
	uint32_t number = kedge__entry_number(&rec->finder, entry), item;
	uint64_t index;
	const struct kedge__last_region *g;

	if (kedge__entry_kind(&rec->finder, entry) == KEDGE__ENTRY_LOG)
		return past_verdict(rec, number, p, origin);
	g = kedge__record_chunk(r, number, &index);
	if (!g)
		return NO;
	if (kedge__last_is(r, g, index, p->digest)) {
		*origin = kedge__origin_make(KEDGE__ORIGIN_LAST, number);
		return kedge__epochs_newest(&rec->epochs, kedge__last_since(r, g, index), rec->parent) ? YES : DEAD;
	}
	if (number == p->value)
		return kedge__entry_kind(&rec->finder, entry) == p->kind ? YES : NO; /* it has been entered already */
	if (!is_earlier(r, g, index, p, &item))
		return NO;
	*origin = kedge__origin_make(KEDGE__ORIGIN_HERE, item);
	return YES;
}

static void find_one(void *ctx, struct kedge__probe *p, const struct kedge__spot *s, struct kedge__tally *tally)
{
	const struct kedge__reducer *r = ((const struct search *)ctx)->r;
	const struct kedge__finder *x = &r->record.finder;
	kedge__origin origin = 0;
	uint32_t *at, *dead = NULL;
	unsigned match = kedge__spot_match(s);

	while ((at = kedge__spot_next(x, s, &match))) {
		enum verdict v = verdict_on(r, *at, p, &origin);

		if (v == YES) {
			if (r->txn.origins)
				r->txn.origins[p->number] = origin;
			tally->hits += origin != 0;
			return;
		}
		dead = v == DEAD ? at : dead;
		origin = 0;
	}
	if (p->value == KEDGE__NO_NUMBER)
		return;
	if (dead)
		*dead = kedge__entry_make(x, s->mark, p->kind, p->value);
	else
		tally->entered += kedge__spot_put(s, kedge__entry_make(x, s->mark, p->kind, p->value));
}

/* ---- all of them, in waves */

/* Probes for the changes of a slab, but for constants, at the slab's place. */
static int fill_slab(void *ctx, size_t i, int worker)
{
	const struct search *f = ctx;
	const struct kedge__txn *t = &f->r->txn;
	const struct kedge__slab *s = &t->slabs.at[f->begin + i];
	const uint16_t *changes = t->workers[s->worker].changes.at + s->change_at;
	const struct kedge__last_region *g = t->regions[s->region];
	const struct kedge__digest *list = t->workers[s->worker].apart.at + s->apart_at;
	size_t apart = t->apart ? s->apart_count : 0;
	struct kedge__probe *probes = f->batch->probes + f->at[i];
	size_t n = 0, room = f->at[i + 1] - f->at[i];

	(void)worker;
	for (size_t k = 0; k < s->count; k++) {
		uint64_t index = s->first + (changes[k] >> 1);
		const struct kedge__digest *digest = k < apart ? &list[k] : &g->digests[index];

		if ((f->sample && !kedge__is_sample(digest)) || changes[k] & 1)
			continue;
		if (n < room)
			probes[n] = (struct kedge__probe){.digest = *digest,
							  .number = (uint32_t)(s->item_at + k) & KEDGE__NO_NUMBER,
							  .value = index < g->numbered ? (uint32_t)(g->number + index)
										       : KEDGE__NO_NUMBER,
							  .kind = kedge__next_kind(g, index) & 3u};
		n++;
	}
	f->counts[i] = n;
	return 0;
}

/* How many probes there is room for, for N changes. */
static size_t room_for(const struct search *f, size_t n)
{
	return f->sample && !f->roomy ? kedge__sample_room(n) : n;
}

/* The next slabs: at least one, and no more than a wave has room for. */
static void next_wave(struct search *f)
{
	const struct kedge__txn *t = &f->r->txn;
	size_t room = 0;

	for (f->begin = f->end; f->end < t->slabs.count; f->end++) {
		size_t more = room_for(f, t->slabs.at[f->end].count - t->slabs.at[f->end].fill_count);

		if (room + more > KEDGE__WAVE)
			break;
		f->at[f->end - f->begin] = room;
		room += more;
	}
	f->at[f->end - f->begin] = room;
}

/* False: there are more of some slab than there is room for, as where many chunks are the same. */
static bool fill_wave(struct search *f)
{
	bool fits = true;

	kedge__pool_for(kedge__pool_if(f->r->txn.pool, f->r->txn.changes), f->end - f->begin, fill_slab, f);
	for (size_t i = 0; fits && i < f->end - f->begin; i++)
		fits = f->counts[i] <= f->at[i + 1] - f->at[i];
	return fits;
}

static void run_wave(struct search *f)
{
	struct kedge__batch *b = f->batch;
	struct kedge__pool *pool = f->r->txn.pool;

	next_wave(f);
	if (!fill_wave(f)) {
		f->roomy = true;
		f->end = f->begin;
		next_wave(f);
		fill_wave(f);
	}
	for (size_t i = 0; i < f->end - f->begin; i++)
		kedge__batch_gather(b, f->at[i], f->counts[i]);
	kedge__batch_run(b, pool, &f->r->record.finder, find_one, f);
}

int kedge__find_here(struct kedge__reducer *r, bool sample, uint64_t candidates, uint64_t *hits,
		     struct kedge__error *err)
{
	struct kedge__txn *t = &r->txn;
	struct search f = {.r = r, .batch = &r->record.batch, .sample = sample};
	int rc = kedge__batch_begin(f.batch, candidates, err);

	f.at = kedge__malloc((t->slabs.count + 1) * sizeof(*f.at));
	f.counts = kedge__malloc((t->slabs.count + 1) * sizeof(*f.counts));
	if (!rc && (!f.at || !f.counts))
		rc = kedge__error_nomem(err);
	while (!rc && f.end < t->slabs.count)
		run_wave(&f);
	*hits = f.batch->hits;
	kedge__free(f.at);
	kedge__free(f.counts);
	return rc;
}

/* ---- how much is looked up */

/* All of them, or a sample; *HITS: how many were found. */
static int find_all(struct kedge__reducer *r, bool sample, uint64_t candidates, uint64_t *hits,
		    struct kedge__error *err)
{
	int rc = r->record.finder.ops->find(r, sample, candidates, hits, err);

	r->txn.searched = (uint8_t)(rc ? 0 : sample ? KEDGE__FINDER_SPARSE : KEDGE__FINDER_DENSE);
	return rc;
}

/* Paranoid: a duplicate that is none, or that cannot be read again, stays a literal. */
static void check_duplicates(struct kedge__reducer *r)
{
	struct kedge__txn *t = &r->txn;

	for (size_t i = 0; i < t->slabs.count; i++) {
		const struct kedge__slab *s = &t->slabs.at[i];

		for (size_t k = 0; k < s->count; k++) {
			kedge__origin *o = &t->origins[s->item_at + k];

			if (*o && !kedge__origin_is_right(r, s, k, *o))
				*o = 0;
		}
	}
}

static bool is_worth(const struct kedge__reducer *r, uint64_t hits, uint64_t candidates)
{
	return r->options.id == KEDGE__REDUCER_AUTO ? hits * KEDGE__SAMPLE * WORTH >= candidates && hits : hits > 0;
}

/* Whether a sample says that it is of no use to look up the rest. */
static int sample_first(struct kedge__reducer *r, uint64_t candidates, bool *done, struct kedge__error *err)
{
	struct kedge__record *rec = &r->record;
	uint64_t hits = 0;
	bool most = candidates >= KEDGE__LARGE && candidates >= rec->numbers / MOST;
	bool light = rec->numbers >= KEDGE__LARGE && rec->finder.state != KEDGE__FINDER_DENSE &&
		     (r->options.id == KEDGE__REDUCER_AUTO || candidates >= TELL);
	int rc = 0;

	*done = false;
	if (!most && !light)
		return 0;
	if (!rec->finder.state)
		rc = kedge__record_build(r, KEDGE__FINDER_SPARSE, candidates, err);
	if (!rc && rec->finder.state)
		rc = find_all(r, true, candidates, &hits, err);
	*done = !is_worth(r, hits, candidates);
	r->txn.spoilt = *done && rec->finder.state == KEDGE__FINDER_DENSE;
	return rc;
}

static int look_up(struct kedge__reducer *r, uint64_t candidates, struct kedge__error *err)
{
	struct kedge__txn *t = &r->txn;
	bool done;
	int rc = sample_first(r, candidates, &done, err);

	if (rc || done)
		return rc;
	if (r->record.finder.state != KEDGE__FINDER_DENSE ||
	    r->record.finder.used + candidates > r->record.finder.room) {
		t->searched = 0;
		rc = kedge__record_build(r, KEDGE__FINDER_DENSE, candidates, err);
	}
	if (rc || !r->record.finder.state)
		return rc;
	t->origins = kedge__large_alloc(t->changes * sizeof(*t->origins));
	rc = t->origins ? find_all(r, false, candidates, &t->hits, err) : kedge__error_nomem(err);
	if (!rc && r->options.paranoid)
		check_duplicates(r);
	r->record.dry = t->hits || rc || candidates < TELL ? 0 : r->record.dry + 1;
	t->spoilt = t->spoilt || (r->record.dry >= DRY && r->record.numbers >= KEDGE__LARGE);
	return rc;
}

/* The finder is made on the host, as if nothing had been looked up. */
static int give_up_device(struct kedge__reducer *r, struct kedge__error *why, struct kedge__error *err)
{
	struct kedge__txn *t = &r->txn;

	kedge__log(KEDGE_LOG_NOTICE,
		   "chunks of regions on the GPU are looked up on the host, because memory is short: %s",
		   kedge__error_text(why));
	kedge__error_done(why);
	r->replicas->no_finder = true; /* or the host would make one for each version */
	kedge__gpu_finder_end(r);
	kedge__large_free(t->origins, t->changes * sizeof(*t->origins));
	t->origins = NULL;
	t->hits = t->searched = 0;
	t->spoilt = false;
	return t->there ? kedge__gpu_lists_fetch(r, err) : 0;
}

int kedge__duplicates_find(struct kedge__reducer *r, struct kedge__error *err)
{
	struct kedge__error why = KEDGE__ERROR_INIT;
	struct kedge__txn *t = &r->txn;
	uint64_t candidates = t->changes - t->fills;
	int rc;

	if (!candidates || t->changes > KEDGE__NUMBER_LIMIT)
		return 0;
	rc = kedge__record_number(r, err);
	if (!rc && t->there && !r->record.finder.device) /* the host looks them up */
		rc = kedge__gpu_lists_fetch(r, err);
	if (!rc)
		rc = look_up(r, candidates, &why);
	if (rc == KEDGE_E_NOMEM && r->record.finder.device) {
		rc = give_up_device(r, &why, err);
		return rc ? rc : look_up(r, candidates, err);
	}
	if (why.code)
		kedge__error_move(err, &why);
	return rc;
}
