/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * build.c: a finder of all that is known: of each digest the first chunk of the last version that has it, or else the
 * newest entry of the log.
 */
#include "reduce/reducer.h"

#define WAVE_SLABS ((size_t)4096)

struct builder {
	struct kedge__reducer *r;
	struct kedge__batch *batch;
	bool sparse;
	/* A wave of slabs: */
	struct slab {
		const struct kedge__last_region *region;
		uint64_t first; /* chunk */
		size_t count;   /* chunks */
		size_t at;      /* probes: where they may be, */
		size_t probes;  /* and how many there are */
	} * slabs;
	size_t slab_count, room;
};

/* A chunk, or an entry of the log, with the digest of P. */
static bool is_there(const struct kedge__reducer *r, uint32_t entry, struct kedge__digest digest)
{
	const struct kedge__record *rec = &r->record;
	uint32_t number = kedge__entry_number(&rec->finder, entry);
	uint64_t index;
	const struct kedge__last_region *g;

	if (kedge__entry_kind(&rec->finder, entry) == KEDGE__ENTRY_LOG)
		return kedge__digest_equal(rec->log.at[number].digest, digest);
	g = kedge__record_chunk(r, number, &index);
	return g && kedge__last_is(r, g, index, digest);
}

static void enter(void *ctx, struct kedge__probe *p, const struct kedge__spot *s, struct kedge__tally *tally)
{
	const struct builder *b = ctx;
	const struct kedge__finder *x = &b->r->record.finder;
	const uint32_t *at;
	unsigned match = kedge__spot_match(s);

	while ((at = kedge__spot_next(x, s, &match)))
		if (is_there(b->r, *at, p->digest))
			return;
	tally->entered += kedge__spot_put(s, kedge__entry_make(x, s->mark, p->kind, p->number));
}

static int fill_slab(void *ctx, size_t i, int worker)
{
	const struct builder *b = ctx;
	struct slab *s = &b->slabs[i];
	struct kedge__probe *p = b->batch->probes + s->at;

	(void)worker;
	for (size_t k = 0; k < s->count; k++) {
		const struct kedge__digest *digest = &s->region->digests[s->first + k];

		if (b->sparse && !kedge__is_sample(digest))
			continue;
		p->digest = *digest;
		p->number = (uint32_t)(s->region->number + s->first + k) & KEDGE__NO_NUMBER;
		p->kind = kedge__last_kind(s->region, s->first + k) & 3u;
		p++;
	}
	s->probes = (size_t)(p - (b->batch->probes + s->at));
	return 0;
}

/* Those of the slabs of the wave. */
static void run_wave(struct builder *b)
{
	struct kedge__batch *batch = b->batch;

	kedge__pool_for(b->r->txn.pool, b->slab_count, fill_slab, b);
	batch->count = 0;
	for (size_t i = 0; i < b->slab_count; i++) {
		if (batch->count < b->slabs[i].at)
			memmove(batch->probes + batch->count, batch->probes + b->slabs[i].at,
				b->slabs[i].probes * sizeof(*batch->probes));
		batch->count += b->slabs[i].probes;
	}
	kedge__batch_run(batch, b->r->txn.pool, &b->r->record.finder, enter, b);
	b->slab_count = b->room = 0;
}

static void add_slab(struct builder *b, const struct kedge__last_region *g, uint64_t first, size_t count)
{
	if (b->room + count > KEDGE__WAVE || b->slab_count == WAVE_SLABS)
		run_wave(b);
	b->slabs[b->slab_count++] = (struct slab){g, first, count, b->room, 0};
	b->room += count;
}

static void add_region(struct builder *b, const struct kedge__last_region *g)
{
	uint64_t per_slab = KEDGE__SLAB_BYTES / b->r->options.chunk;
	uint64_t count = kedge__chunks_of(g->bytes, b->r->options.chunk);

	for (uint64_t at = 0; g->known && g->numbered && at < count; at += per_slab)
		if (g->stale[at / per_slab] == KEDGE__SLAB_KNOWN)
			add_slab(b, g, at, (size_t)KEDGE__MIN(per_slab, count - at));
}

/* Newest first: an older one with the same digest is not entered. */
static void add_log(struct builder *b)
{
	const struct kedge__log *log = &b->r->record.log;
	struct kedge__batch *batch = b->batch;

	for (uint64_t i = 0; i < log->count; i++) {
		uint64_t number = (log->next + log->room - 1 - i) % log->room;
		const struct kedge__past *past = &log->at[number];

		if (past->to && (!b->sparse || kedge__is_sample(&past->digest)))
			batch->probes[batch->count++] = (struct kedge__probe){
			    .digest = past->digest, .number = (uint32_t)number, .kind = KEDGE__ENTRY_LOG};
		if (batch->count == KEDGE__WAVE)
			kedge__batch_run(batch, b->r->txn.pool, &b->r->record.finder, enter, b);
	}
	kedge__batch_run(batch, b->r->txn.pool, &b->r->record.finder, enter, b);
}

/* Entries that there will be soon: those of all chunks, of changes before the old ones go, and some in the log. */
static uint64_t expected(const struct kedge__record *rec, enum kedge__finder_state state, uint64_t changes)
{
	uint64_t past = KEDGE__MIN(rec->log_limit, KEDGE__MAX(rec->numbers / 8, 2 * (rec->log.count + changes)));
	uint64_t all = rec->numbers + past + changes + changes / 8;

	return state == KEDGE__FINDER_DENSE ? all : all / KEDGE__SAMPLE * 5 / 4 + 1024;
}

int kedge__build_here(struct kedge__reducer *r, struct kedge__error *err)
{
	struct kedge__record *rec = &r->record;
	struct builder b = {.r = r, .batch = &rec->batch, .sparse = rec->finder.state == KEDGE__FINDER_SPARSE};
	int rc = kedge__batch_begin(b.batch, KEDGE__MAX(rec->numbers, rec->log.count), err);

	b.slabs = kedge__malloc(WAVE_SLABS * sizeof(*b.slabs));
	if (!rc && !b.slabs)
		rc = kedge__error_nomem(err);
	for (size_t i = 0; !rc && i < r->last.regions.count; i++)
		add_region(&b, r->last.regions.at[i]);
	if (!rc) {
		run_wave(&b);
		add_log(&b);
	}
	kedge__free(b.slabs);
	return rc;
}

int kedge__record_build(struct kedge__reducer *r, enum kedge__finder_state state, uint64_t changes,
			struct kedge__error *err)
{
	struct kedge__record *rec = &r->record;
	int rc = kedge__finder_make(&rec->finder, state, expected(rec, state, changes),
				    KEDGE__MAX(rec->numbers, rec->log_limit), rec->finder_limit, err);

	if (rc || !rec->finder.state)
		return rc;
	rc = rec->finder.ops->build(r, err);
	if (rc)
		kedge__finder_drop(&rec->finder);
	return rc;
}
