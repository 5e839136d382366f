/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * build.c: a finder of all that is known: of each digest the first chunk of the last version that has it, or else the
 * newest entry of the log.
 */
#include "reduce/reducer.h"

#define LIST_SLABS ((size_t)4096)

struct builder {
	struct kedge__reducer *r;
	struct kedge__batch *batch;
	bool sparse;
	bool roomy; /* there is room for all digests of a slab, and not for as many as a sample of them has */
	/* Slabs, from BEGIN on those of a wave: */
	struct slab {
		const struct kedge__last_region *region;
		uint64_t first; /* chunk */
		size_t count;   /* chunks */
		size_t at;      /* probes: where they may be, */
		size_t probes;  /* and how many there are; more than there is room for: they are not all there */
	} * slabs;
	size_t slab_count, begin, end;
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

static size_t room_for(const struct builder *b, size_t n)
{
	return b->sparse && !b->roomy ? kedge__sample_room(n) : n;
}

static int fill_slab(void *ctx, size_t i, int worker)
{
	const struct builder *b = ctx;
	struct slab *s = &b->slabs[b->begin + i];
	struct kedge__probe *probes = b->batch->probes + s->at;
	size_t n = 0, room = room_for(b, s->count);

	(void)worker;
	for (size_t k = 0; k < s->count; k++) {
		const struct kedge__digest *digest = &s->region->digests[s->first + k];

		if (b->sparse && !kedge__is_sample(digest))
			continue;
		if (n < room)
			probes[n] = (struct kedge__probe){.digest = *digest,
							  .number = (uint32_t)(s->region->number + s->first + k) &
								    KEDGE__NO_NUMBER,
							  .kind = kedge__last_kind(s->region, s->first + k) & 3u};
		n++;
	}
	s->probes = n;
	return 0;
}

/* The next slabs: at least one, and no more than a wave has room for. */
static void next_wave(struct builder *b)
{
	size_t room = 0;

	for (b->end = b->begin; b->end < b->slab_count; b->end++) {
		size_t more = room_for(b, b->slabs[b->end].count);

		if (room + more > KEDGE__WAVE)
			break;
		b->slabs[b->end].at = room;
		room += more;
	}
}

/* False: some slab has more than there is room for, as where many chunks are the same. */
static bool fill_wave(struct builder *b)
{
	bool fits = true;

	kedge__pool_for(b->r->txn.pool, b->end - b->begin, fill_slab, b);
	for (size_t i = b->begin; fits && i < b->end; i++)
		fits = b->slabs[i].probes <= room_for(b, b->slabs[i].count);
	return fits;
}

/* All that are listed. */
static void run_slabs(struct builder *b)
{
	struct kedge__batch *batch = b->batch;

	for (b->begin = 0; b->begin < b->slab_count; b->begin = b->end) {
		next_wave(b);
		if (!fill_wave(b)) {
			b->roomy = true;
			next_wave(b);
			fill_wave(b);
		}
		for (size_t i = b->begin; i < b->end; i++)
			kedge__batch_gather(batch, b->slabs[i].at, b->slabs[i].probes);
		/* So few are entered sooner by one thread than they are dealt out. */
		kedge__batch_run(batch, b->sparse ? NULL : b->r->txn.pool, &b->r->record.finder, enter, b);
	}
	b->slab_count = 0;
}

static void add_slab(struct builder *b, const struct kedge__last_region *g, uint64_t first, size_t count)
{
	if (b->slab_count == LIST_SLABS)
		run_slabs(b);
	b->slabs[b->slab_count++] = (struct slab){g, first, count, 0, 0};
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

	b.slabs = kedge__malloc(LIST_SLABS * sizeof(*b.slabs));
	if (!rc && !b.slabs)
		rc = kedge__error_nomem(err);
	for (size_t i = 0; !rc && i < r->last.regions.count; i++)
		add_region(&b, r->last.regions.at[i]);
	if (!rc) {
		run_slabs(&b);
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
