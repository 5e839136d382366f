/* SPDX-License-Identifier: BSD-3-Clause */
/* record.c: numbers of chunks, what is known of them, and how much memory all of it may take (see record.h). */
#include "reduce/gpu.h"

#define AGE_MAX 127u
#define SMALL   4096u /* bytes: a finder of so many does not count */

#define LOG_FEW  65536u /* entries: so many the log has until more are of use, */
#define LOG_PAYS 16u    /* as it seems if one in so many was found again, */
#define LOG_IDLE 16u    /* and as long as it was so in one of so many versions */

/* While a version is reduced, a change has its digest, its number, its origin and its place in a wave. */
#define CHANGE_BYTES 24u
#define ENTRY_BYTES  7u /* in the finder, with what is empty of it; a change has a new entry before the old one goes */

void kedge__record_limits(struct kedge__reducer *r, uint64_t image_bytes)
{
	struct kedge__record *rec = &r->record;
	uint64_t chunks = kedge__chunks_of(image_bytes, r->options.chunk), limit = r->options.record_bytes;
	uint64_t kept = kedge__last_bytes(&r->options, r->options.chunk, image_bytes) + chunks;
	uint64_t most = kept + chunks * (2 * ENTRY_BYTES + CHANGE_BYTES),
		 past = sizeof(struct kedge__past) + ENTRY_BYTES;

	rec->log_wanted = KEDGE__MAX(rec->log_wanted, LOG_FEW);
	rec->log_limit = limit > most ? KEDGE__MIN((limit - most) / past, KEDGE__NUMBER_LIMIT) : 0;
	rec->log_limit = KEDGE__MIN(rec->log_limit, rec->log_wanted);
	rec->finder_limit =
	    limit > kept ? KEDGE__MIN(limit - kept, (2 * chunks + rec->log_limit) * ENTRY_BYTES + SMALL) : 0;
	if (kedge__log_limit(&rec->log, rec->log_limit) || rec->log_limit >> rec->finder.bits)
		kedge__finder_drop(&rec->finder);
}

bool kedge__record_judge_log(struct kedge__record *rec, uint64_t hits, uint64_t changes)
{
	uint64_t before = rec->log_wanted;

	if (hits && hits >= rec->log.count / LOG_PAYS) {
		rec->log_wanted = KEDGE__MAX(rec->log_wanted, KEDGE__MIN(2 * changes, KEDGE__NUMBER_LIMIT));
		rec->log_idle = 0;
	} else if (changes && ++rec->log_idle >= LOG_IDLE) {
		rec->log_wanted = LOG_FEW;
	}
	return rec->log_wanted != before;
}

/* ---- numbers */

void kedge__record_detach(struct kedge__reducer *r)
{
	for (size_t i = 0; i < r->last.regions.count; i++)
		r->last.regions.at[i]->numbered = 0;
	r->record.columns.count = 0;
	r->record.numbers = 0;
	kedge__finder_drop(&r->record.finder);
}

static bool number_region(struct kedge__record *rec, struct kedge__last_region *g)
{
	struct kedge__column c = {rec->numbers, g->room, g};

	if (g->room > KEDGE__NUMBER_LIMIT - rec->numbers)
		return true; /* nothing in it will be found */
	if (!kedge__array_push(&rec->columns, c))
		return false;
	g->number = rec->numbers;
	g->numbered = g->room;
	rec->numbers += g->room;
	return true;
}

/* A region grew out of its numbers, or most numbers are those of regions that are gone. */
static bool is_outnumbered(const struct kedge__reducer *r)
{
	uint64_t rooms = 0;

	for (size_t i = 0; i < r->last.regions.count; i++) {
		const struct kedge__last_region *g = r->last.regions.at[i];

		rooms += g->room;
		if (g->numbered && g->numbered < g->room)
			return true;
	}
	return r->record.numbers > 4 * rooms + KEDGE__BUCKET * KEDGE__BLOCK_BUCKETS;
}

int kedge__record_number(struct kedge__reducer *r, struct kedge__error *err)
{
	struct kedge__record *rec = &r->record;

	if (is_outnumbered(r))
		kedge__record_detach(r);
	for (size_t i = 0; i < r->last.regions.count; i++)
		if (!r->last.regions.at[i]->numbered && r->last.regions.at[i]->room &&
		    !number_region(rec, r->last.regions.at[i]))
			return kedge__error_nomem(err);
	if (rec->numbers >> rec->finder.bits)
		kedge__finder_drop(&rec->finder);
	return 0;
}

struct kedge__last_region *kedge__record_chunk(const struct kedge__reducer *r, uint32_t number, uint64_t *index)
{
	const struct kedge__record *rec = &r->record;
	size_t i;

	KEDGE__LAST_BEFORE(i, rec->columns.count, rec->columns.at[i].first <= number);
	*index = number - rec->columns.at[i].first;
	return *index < rec->columns.at[i].count ? rec->columns.at[i].region : NULL;
}

/* ---- chunks of the last version */

bool kedge__last_is(const struct kedge__reducer *r, const struct kedge__last_region *g, uint64_t index,
		    struct kedge__digest digest)
{
	uint64_t chunk = r->options.chunk;

	return g->known && index < kedge__chunks_of(g->bytes, chunk) &&
	       g->stale[index * chunk / KEDGE__SLAB_BYTES] == KEDGE__SLAB_KNOWN &&
	       kedge__digest_equal(g->digests[index], digest);
}

uint32_t kedge__last_since(const struct kedge__reducer *r, const struct kedge__last_region *g, uint64_t index)
{
	return r->record.since + (g->ages[index] & ~KEDGE__AGE_ODD);
}

/* The chunk of change NUMBER of the version in progress. */
static uint64_t change_addr(const struct kedge__reducer *r, uint32_t number)
{
	const struct kedge__txn *t = &r->txn;
	const struct kedge__slab *s;
	size_t i;

	KEDGE__LAST_BEFORE(i, t->slabs.count, t->slabs.at[i].item_at <= number);
	s = &t->slabs.at[i];
	return kedge__slab_region(t, s)->base +
	       (s->first + (t->workers[s->worker].changes.at[s->change_at + (number - s->item_at)] >> 1)) *
		   r->options.chunk;
}

struct kedge__place kedge__origin_place(const struct kedge__reducer *r, kedge__origin o)
{
	const struct kedge__record *rec = &r->record;
	const struct kedge__last_region *g;
	const struct kedge__past *past;
	uint64_t index;

	switch (kedge__origin_kind(o)) {
	case KEDGE__ORIGIN_LAST:
		g = kedge__record_chunk(r, kedge__origin_number(o), &index);
		return (struct kedge__place){g->base + index * r->options.chunk, kedge__last_since(r, g, index),
					     rec->parent};
	case KEDGE__ORIGIN_LOG:
		past = &rec->log.at[kedge__origin_number(o)];
		return (struct kedge__place){past->addr, past->from, past->to};
	case KEDGE__ORIGIN_HERE:
		return (struct kedge__place){change_addr(r, kedge__origin_number(o)), rec->epochs.current,
					     rec->epochs.current};
	case KEDGE__ORIGIN_NONE:
		break;
	}
	return (struct kedge__place){0, 0, 0};
}

uint32_t kedge__place_epoch(const struct kedge__reducer *r, const struct kedge__place *p)
{
	const struct kedge__epochs *epochs = &r->record.epochs;

	return p->from == epochs->current ? p->from : kedge__epochs_newest(epochs, p->from, p->to);
}

/* Ages are counted from later on. */
static void rejuvenate(struct kedge__reducer *r, uint32_t by)
{
	for (size_t i = 0; i < r->last.regions.count; i++) {
		struct kedge__last_region *g = r->last.regions.at[i];

		for (uint64_t k = 0; k < g->ages_room; k++)
			g->ages[k] = (uint8_t)((g->ages[k] & KEDGE__AGE_ODD) |
					       ((g->ages[k] & AGE_MAX) > by ? (g->ages[k] & AGE_MAX) - by : 0));
	}
	r->record.since += by;
	if (r->replicas)
		kedge__gpu_columns_rejuvenate(r, by);
}

uint8_t kedge__record_age(struct kedge__reducer *r)
{
	struct kedge__record *rec = &r->record;
	uint32_t age = rec->epochs.current - rec->since;

	if (age > AGE_MAX)
		rejuvenate(r, age - AGE_MAX / 2);
	return (uint8_t)(rec->epochs.current - rec->since);
}

/* ---- the whole */

void kedge__record_empty(struct kedge__reducer *r)
{
	kedge__finder_drop(&r->record.finder);
	kedge__log_done(&r->record.log);
	kedge__batch_done(&r->record.batch);
	r->record.log_wanted = r->record.log_idle = 0;
}

uint64_t kedge__record_memory(const struct kedge__record *rec)
{
	return (rec->finder.at ? kedge__finder_bytes(&rec->finder) : 0) + rec->log.room * sizeof(*rec->log.at);
}

void kedge__record_done(struct kedge__reducer *r)
{
	kedge__record_empty(r);
	kedge__epochs_done(&r->record.epochs);
	kedge__array_done(&r->record.columns);
	r->record.numbers = 0;
	r->record.parent = r->record.since = 0;
}
