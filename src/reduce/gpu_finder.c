/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gpu_finder.c: the finder on a GPU: what find.c, build.c and remember.c do with one in memory of the host, by the
 * kernels of src/gpu/finder.cu. Each step sends tables of regions and slabs, puts kernels on the stream, wave by wave,
 * and waits once, for what they counted. A step that fails at commit or at rollback costs the finder, which is made
 * again.
 */
#include "reduce/gpu.h"

#define WAVE ((uint64_t)1 << 20) /* probes: what is found does not depend on it */
#define NEAR UINT64_C(64)        /* tables begin at multiples of it */

struct step {
	struct kedge__reducer *r;
	struct kedge__gpu_finder *f;
	struct kedge__gpu *gpu;
	struct kedge_finder_args a;
	struct kedge_finder_slab *slabs; /* staged */
	size_t slab_count;
	uint64_t probes;   /* of all slabs */
	uint64_t slabs_at; /* in the tables */
	struct kedge__error *err;
};

/* ---- memory of the device */

static int staged_reserve(struct kedge__gpu_finder *f, uint64_t bytes, struct kedge__error *err)
{
	void *memory;
	int rc;

	if (bytes <= f->staged_bytes)
		return 0;
	kedge__gpu_unpin(f->replicas->gpu, f->staged);
	f->staged = NULL;
	f->staged_bytes = 0;
	rc = kedge__gpu_pin(f->replicas->gpu, (size_t)bytes, &memory, err);
	if (rc)
		return rc;
	f->staged = memory;
	f->staged_bytes = bytes;
	return 0;
}

static int on_gpu_alloc(struct kedge__finder *x, struct kedge__error *err)
{
	struct kedge__gpu_finder *f = x->device;
	struct kedge__gpu *gpu = f->replicas->gpu;
	int rc = kedge__gpu_array_need(gpu, &f->buckets, kedge__finder_bytes(x), err);

	if (!rc)
		rc = kedge__gpu_clear(gpu, KEDGE__GPU_WORK, f->buckets.at, kedge__finder_bytes(x), err);
	if (rc)
		kedge__gpu_array_done(gpu, &f->buckets);
	return rc;
}

static void on_gpu_release(struct kedge__finder *x)
{
	struct kedge__gpu_finder *f = x->device;

	kedge__gpu_array_done(f->replicas->gpu, &f->buckets);
	kedge__gpu_array_done(f->replicas->gpu, &f->log);
}

/* Who has no replicas has no finder on the device. */
static int replicas_check(const struct kedge__reducer *r, struct kedge__error *err)
{
	return r->replicas->current && r->replicas->listed
		   ? 0
		   : kedge__error_set(err, KEDGE_E_NOMEM, 0, "the GPU does not have what is looked up");
}

/* ---- tables */

static uint64_t near_up(uint64_t bytes)
{
	return (bytes + NEAR - 1) / NEAR * NEAR;
}

struct layout { /* bytes from the beginning of the tables */
	uint64_t columns, newest, states, slabs, counts, end;
};

static uint64_t slabs_known(const struct kedge__last_region *g)
{
	return g && g->known ? kedge__chunks_of(g->bytes, KEDGE__SLAB_BYTES) : 0;
}

static struct layout layout_of(const struct kedge__reducer *r, size_t slabs)
{
	const struct kedge__record *rec = &r->record;
	struct layout l = {0};
	uint64_t states = 0;

	for (size_t i = 0; i < rec->columns.count; i++)
		states += slabs_known(rec->columns.at[i].region);
	l.newest = near_up(rec->columns.count * sizeof(struct kedge_column));
	l.states = l.newest + near_up(rec->epochs.count * sizeof(uint32_t));
	l.slabs = l.states + near_up(states);
	l.counts = l.slabs + near_up(slabs * sizeof(struct kedge_finder_slab));
	l.end = l.counts + near_up(slabs * sizeof(uint32_t));
	return l;
}

static void put_columns(const struct kedge__reducer *r, struct kedge_column *to, uint8_t *states)
{
	const struct kedge__record *rec = &r->record;
	uint64_t at = 0, chunk = r->options.chunk;

	for (size_t i = 0; i < rec->columns.count; i++) {
		const struct kedge__last_region *g = rec->columns.at[i].region;
		uint64_t slabs = slabs_known(g);

		to[i] = (struct kedge_column){.first = (unsigned)rec->columns.at[i].first};
		if (!g)
			continue;
		to[i].count = (unsigned)rec->columns.at[i].count;
		to[i].chunks = g->known ? (unsigned)kedge__chunks_of(g->bytes, chunk) : 0;
		to[i].next = g->present ? (unsigned)kedge__chunks_of(g->next_bytes, chunk) : 0;
		to[i].place = g->place;
		to[i].state_at = (unsigned)at;
		to[i].slab_at = (unsigned)g->slab_at;
		if (slabs)
			memcpy(states + at, g->stale, (size_t)slabs);
		at += slabs;
	}
}

static void put_newest(const struct kedge__epochs *epochs, uint32_t *to)
{
	uint32_t newest = 0;

	for (size_t i = 0; i < epochs->count; i++) {
		if (i && epochs->at[i].alive && epochs->at[i].version < epochs->at[epochs->current].version)
			newest = (uint32_t)i;
		to[i] = newest;
	}
}

/* What all kernels get, with room for SLABS slabs. */
static int step_begin(struct step *s, struct kedge__reducer *r, size_t slabs, struct kedge__error *err)
{
	const struct kedge__record *rec = &r->record;
	struct kedge__gpu_finder *f = rec->finder.device;
	const struct kedge__gpu_replicas *c = f->replicas;
	struct layout l = layout_of(r, slabs);
	int rc = kedge__gpu_array_need(c->gpu, &f->tables, l.end, err);

	*s = (struct step){.r = r, .f = f, .gpu = c->gpu, .slabs_at = l.slabs, .err = err};
	if (!rc)
		rc = staged_reserve(f, l.end, err);
	if (!rc)
		rc = kedge__gpu_array_need(c->gpu, &f->totals, 2 * sizeof(uint64_t), err);
	if (!rc)
		rc = kedge__gpu_clear(c->gpu, KEDGE__GPU_WORK, f->totals.at, 2 * sizeof(uint64_t), err);
	if (rc)
		return rc;
	s->slabs = (struct kedge_finder_slab *)(void *)(f->staged + l.slabs);
	put_columns(r, (struct kedge_column *)(void *)f->staged, f->staged + l.states);
	put_newest(&rec->epochs, (uint32_t *)(void *)(f->staged + l.newest));
	s->a = (struct kedge_finder_args){.buckets = f->buckets.at,
					  .blocks = (unsigned)rec->finder.blocks,
					  .block_buckets = rec->finder.buckets,
					  .bits = rec->finder.bits,
					  .sparse = rec->finder.state == KEDGE__FINDER_SPARSE,
					  .columns = f->tables.at,
					  .states = f->tables.at + l.states,
					  .newest = f->tables.at + l.newest,
					  .slabs = f->tables.at + l.slabs,
					  .counts = f->tables.at + l.counts,
					  .digests = c->digests.at,
					  .ages = c->ages.at,
					  .changes = c->changes.at,
					  .fresh = c->fresh.at,
					  .log = f->log.at,
					  .column_count = (unsigned)rec->columns.count,
					  .slab_shift = kedge__gpu_shift(KEDGE__SLAB_BYTES / r->options.chunk),
					  .since = rec->since,
					  .parent = rec->parent,
					  .log_room = (unsigned)rec->log.room,
					  .totals = f->totals.at};
	return 0;
}

static unsigned number_of(const struct kedge__last_region *g, uint64_t first)
{
	return first < g->numbered ? (unsigned)(g->number + first) : KEDGE_NO_NUMBER;
}

/* The next slab, with so many PROBES. */
static void slab_add(struct step *s, struct kedge_finder_slab slab, uint64_t probes)
{
	slab.at = (unsigned)s->probes;
	s->slabs[s->slab_count++] = slab;
	s->probes += probes;
}

/* All slabs of the version in progress. */
static void put_changes(struct step *s)
{
	const struct kedge__txn *t = &s->r->txn;

	for (size_t i = 0; i < t->slabs.count; i++) {
		const struct kedge__slab *slab = &t->slabs.at[i];
		const struct kedge__last_region *g = t->regions[slab->region];

		slab_add(s,
			 (struct kedge_finder_slab){.place = g->place + slab->first,
						    .item_at = (unsigned)slab->item_at,
						    .count = (unsigned)slab->count,
						    .apart = (unsigned)slab->apart_count,
						    .number = number_of(g, slab->first)},
			 slab->count - slab->fill_count);
	}
}

/* N chunks of G from FIRST on. */
static void put_range(struct step *s, const struct kedge__last_region *g, uint64_t first, uint64_t n)
{
	slab_add(s,
		 (struct kedge_finder_slab){.place = g->place + first,
					    .item_at = KEDGE_ALL_CHUNKS,
					    .count = (unsigned)n,
					    .number = number_of(g, first)},
		 n);
}

/* To the device, up to the end of the slabs. */
static int tables_send(const struct step *s)
{
	return kedge__gpu_copy_in(s->gpu, KEDGE__GPU_WORK, s->f->tables.at, s->f->staged,
				  (size_t)(s->slabs_at + s->slab_count * sizeof(*s->slabs)), s->err);
}

static int step_wait(const struct step *s)
{
	return kedge__gpu_sync(s->gpu, KEDGE__GPU_WORK, s->err);
}

/* What was counted: the tables are no longer needed. */
static int step_end(const struct step *s, uint64_t *hits)
{
	uint64_t *totals = (uint64_t *)(void *)s->f->staged;
	int rc = kedge__gpu_copy_out(s->gpu, KEDGE__GPU_WORK, totals, s->f->totals.at, 2 * sizeof(*totals), s->err);

	if (!rc)
		rc = step_wait(s);
	if (rc)
		return rc;
	s->r->record.finder.used += totals[1];
	*hits = totals[0];
	return 0;
}

/* ---- waves of probes */

static int wave_reserve(struct step *s, uint64_t probes)
{
	uint64_t n = KEDGE__MIN(probes, WAVE), bytes = kedge__gpu_wave_place(&s->a, 0, n, s->a.blocks);
	int rc = kedge__gpu_array_need(s->gpu, &s->f->wave, bytes, s->err);

	if (!rc)
		(void)kedge__gpu_wave_place(&s->a, s->f->wave.at, n, s->a.blocks);
	return rc;
}

/* Of a sample nobody knows beforehand how many a slab has. */
static int count_samples(struct step *s)
{
	uint32_t *counts = (uint32_t *)(void *)(s->f->staged + (s->a.counts - s->f->tables.at));
	int rc = tables_send(s);

	s->a.slab_begin = 0;
	s->a.slab_end = (unsigned)s->slab_count;
	if (!rc)
		rc = kedge__gpu_finder_slabs(s->gpu, "kedge_finder_count", &s->a, s->err);
	if (!rc)
		rc = kedge__gpu_copy_out(s->gpu, KEDGE__GPU_WORK, counts, s->a.counts, s->slab_count * sizeof(*counts),
					 s->err);
	if (!rc)
		rc = step_wait(s);
	s->probes = 0;
	for (size_t i = 0; i < s->slab_count && !rc; i++) {
		s->slabs[i].at = (unsigned)s->probes;
		s->probes += counts[i];
	}
	return rc;
}

/* Probes of all slabs, made by PROBES, are taken by KERNEL, and then by FOLLOW. */
static int run_slabs(struct step *s, const char *probes, const char *kernel, const char *follow)
{
	int rc = s->a.sparse ? count_samples(s) : 0;

	if (!rc)
		rc = wave_reserve(s, s->probes);
	if (!rc)
		rc = tables_send(s);
	for (size_t i = 0; i < s->slab_count && !rc;) {
		size_t begin = i;
		uint64_t base = s->slabs[i].at, end = base;

		while (i < s->slab_count) {
			uint64_t next = i + 1 < s->slab_count ? s->slabs[i + 1].at : s->probes;

			if (next - base > WAVE)
				break;
			end = next;
			i++;
		}
		s->a.slab_begin = (unsigned)begin;
		s->a.slab_end = (unsigned)i;
		s->a.base = (unsigned)base;
		s->a.count = (unsigned)(end - base);
		rc = kedge__gpu_finder_slabs(s->gpu, probes, &s->a, s->err);
		if (!rc)
			rc = kedge__gpu_finder_run(s->gpu, kernel, follow, &s->a, s->err);
	}
	return rc;
}

/* ---- build */

static int log_upload(const struct kedge__reducer *r, struct kedge__gpu_finder *f, struct kedge__error *err)
{
	const struct kedge__log *log = &r->record.log;
	struct kedge__gpu *gpu = f->replicas->gpu;
	uint64_t bytes = log->room * sizeof(*log->at);
	int rc = kedge__gpu_array_need(gpu, &f->log, bytes, err);

	return rc || !bytes ? rc : kedge__gpu_copy_in(gpu, KEDGE__GPU_WORK, f->log.at, log->at, (size_t)bytes, err);
}

static int run_log(struct step *s)
{
	const struct kedge__log *log = &s->r->record.log;
	int rc = wave_reserve(s, log->count);

	s->a.log_first = (unsigned)log->next;
	for (uint64_t at = 0; at < log->count && !rc; at += WAVE) {
		s->a.base = (unsigned)at;
		s->a.count = (unsigned)KEDGE__MIN(log->count - at, WAVE);
		rc = kedge__gpu_finder_each(s->gpu, "kedge_finder_pasts", s->a.count, &s->a, s->err);
		if (!rc)
			rc = kedge__gpu_finder_run(s->gpu, "kedge_finder_enter", NULL, &s->a, s->err);
	}
	return rc;
}

static void put_region(struct step *s, const struct kedge__last_region *g)
{
	uint64_t chunk = s->r->options.chunk, per_slab = KEDGE__SLAB_BYTES / chunk;
	uint64_t count = kedge__chunks_of(g->bytes, chunk);

	for (uint64_t at = 0; g->known && g->numbered && at < count; at += per_slab)
		if (g->stale[at / per_slab] == KEDGE__SLAB_KNOWN)
			put_range(s, g, at, KEDGE__MIN(per_slab, count - at));
}

static int on_gpu_build(struct kedge__reducer *r, struct kedge__error *err)
{
	struct kedge__gpu_finder *f = r->record.finder.device;
	struct step s;
	uint64_t hits, slabs = 0;
	int rc = replicas_check(r, err);

	for (size_t i = 0; i < r->last.regions.count; i++)
		slabs += slabs_known(r->last.regions.at[i]);
	if (!rc)
		rc = log_upload(r, f, err);
	if (!rc)
		rc = step_begin(&s, r, (size_t)slabs, err);
	if (rc)
		return rc;
	for (size_t i = 0; i < r->last.regions.count; i++)
		put_region(&s, r->last.regions.at[i]);
	rc = run_slabs(&s, "kedge_finder_probes", "kedge_finder_enter", NULL);
	if (!rc)
		rc = run_log(&s);
	return rc ? rc : step_end(&s, &hits);
}

/* ---- find */

static int origins_begin(struct step *s)
{
	const struct kedge__txn *t = &s->r->txn;
	struct kedge__gpu_finder *f = s->f;
	uint64_t bytes = t->changes * sizeof(*t->origins);
	int rc;

	f->origin_count = 0;
	if (!t->origins)
		return 0;
	rc = kedge__gpu_array_need(s->gpu, &f->origins, bytes, s->err);
	if (!rc)
		rc = kedge__gpu_clear(s->gpu, KEDGE__GPU_WORK, f->origins.at, bytes, s->err);
	s->a.origins = f->origins.at;
	return rc;
}

static int find_run(struct kedge__reducer *r, bool sample, uint64_t *hits, struct kedge__error *err)
{
	struct kedge__txn *t = &r->txn;
	struct step s;
	int rc = replicas_check(r, err);

	if (!rc)
		rc = step_begin(&s, r, t->slabs.count, err);
	if (rc)
		return rc;
	s.a.sparse = sample;
	s.a.singly = !t->compare;
	put_changes(&s);
	rc = origins_begin(&s);
	if (!rc)
		rc = run_slabs(&s, "kedge_finder_probes", "kedge_finder_find", "kedge_finder_follow");
	if (!rc)
		rc = step_end(&s, hits);
	if (rc || !t->origins)
		return rc;
	s.f->origin_count = t->changes;
	return 0;
}

static int on_gpu_find(struct kedge__reducer *r, bool sample, uint64_t candidates, uint64_t *hits,
		       struct kedge__error *err)
{
	int rc = find_run(r, sample, hits, err);

	(void)candidates;
	if (rc)
		kedge__finder_drop(&r->record.finder); /* some may have been entered */
	return rc;
}

kedge__gpu_address kedge__gpu_origins(const struct kedge__reducer *r)
{
	const struct kedge__gpu_finder *f = r->record.finder.device;

	return f && r->txn.hits && f->origin_count == r->txn.changes ? f->origins.at : 0;
}

/* ---- commit and rollback */

static bool on_gpu_prepare(struct kedge__reducer *r, uint64_t n)
{
	(void)n;
	return replicas_check(r, NULL) == 0;
}

/* The log has grown, and its entries are where they were. */
static int log_grow(const struct kedge__reducer *r, struct kedge__gpu_finder *f)
{
	struct kedge__gpu *gpu = f->replicas->gpu;
	struct kedge__gpu_array grown = {0};
	uint64_t bytes = r->record.log.room * sizeof(struct kedge__past);
	int rc;

	if (bytes <= f->log.bytes)
		return 0;
	rc = kedge__gpu_array_need(gpu, &grown, bytes, NULL);
	if (!rc)
		rc = kedge__gpu_copy_within(gpu, KEDGE__GPU_WORK, grown.at, f->log.at, f->log.bytes, NULL);
	if (!rc)
		rc = kedge__gpu_clear(gpu, KEDGE__GPU_WORK, grown.at + f->log.bytes, bytes - f->log.bytes, NULL);
	if (!rc)
		rc = kedge__gpu_sync(gpu, KEDGE__GPU_WORK, NULL); /* the old one is released */
	if (rc) {
		kedge__gpu_array_done(gpu, &grown);
		return rc;
	}
	kedge__gpu_array_done(gpu, &f->log);
	f->log = grown;
	return 0;
}

static int forget_run(struct kedge__reducer *r, uint64_t first, uint64_t n)
{
	struct kedge__gpu_finder *f = r->record.finder.device;
	struct step s;
	uint64_t hits;
	int rc = log_grow(r, f);

	if (!rc)
		rc = step_begin(&s, r, 0, NULL);
	if (rc)
		return rc;
	s.a.log_first = (unsigned)first;
	s.a.log_count = (unsigned)n;
	rc = kedge__gpu_finder_each(s.gpu, "kedge_finder_forget", n, &s.a, NULL);
	return rc ? rc : step_end(&s, &hits);
}

static void on_gpu_forget(struct kedge__reducer *r, uint64_t first, uint64_t n)
{
	if (forget_run(r, first, n))
		kedge__finder_drop(&r->record.finder);
}

static int leave_run(const struct kedge__departure *d)
{
	struct kedge__reducer *r = d->r;
	struct step s;
	uint64_t hits;
	int rc = log_grow(r, r->record.finder.device);

	if (!rc)
		rc = step_begin(&s, r, d->list.count, NULL);
	if (rc)
		return rc;
	for (size_t i = 0; i < d->list.count; i++) {
		const struct kedge__leaving *l = &d->list.at[i];

		put_range(&s, l->region, l->first, l->count);
		if (l->slab)
			s.slabs[i].item_at = (unsigned)l->slab->item_at;
	}
	s.a.slab_end = (unsigned)s.slab_count;
	s.a.log_first = (unsigned)d->slot;
	s.a.skip = (unsigned)d->skip;
	rc = tables_send(&s);
	if (!rc)
		rc = kedge__gpu_finder_slabs(s.gpu, "kedge_finder_leave", &s.a, NULL);
	return rc ? rc : step_end(&s, &hits);
}

/* The host has the log, too, and digests in their places. */
static void on_gpu_leave(struct kedge__departure *d)
{
	if (leave_run(d))
		kedge__finder_drop(&d->r->record.finder);
	kedge__departure_run(d);
}

static int changes_run(struct kedge__reducer *r, const char *kernel)
{
	const struct kedge__gpu_finder *f = r->record.finder.device;
	struct step s;
	uint64_t hits;
	int rc = replicas_check(r, NULL);

	if (!rc)
		rc = step_begin(&s, r, r->txn.slabs.count, NULL);
	if (rc)
		return rc;
	put_changes(&s);
	s.a.origins = f->origin_count == r->txn.changes ? f->origins.at : 0;
	s.a.slab_end = (unsigned)s.slab_count;
	rc = tables_send(&s);
	if (!rc)
		rc = kedge__gpu_finder_slabs(s.gpu, kernel, &s.a, NULL);
	return rc ? rc : step_end(&s, &hits);
}

static void on_gpu_take_out(struct kedge__reducer *r)
{
	if (changes_run(r, "kedge_finder_take_out"))
		kedge__finder_drop(&r->record.finder);
}

static int adopt_run(struct kedge__reducer *r)
{
	const struct kedge__gpu_finder *f = r->record.finder.device;
	const struct kedge__gpu_replicas *c = f->replicas;
	struct step s;
	uint64_t hits;
	int rc = c->current && c->listed && f->origin_count == r->txn.changes ? 0 : KEDGE_E_STATE;

	if (!rc)
		rc = step_begin(&s, r, r->txn.slabs.count, NULL);
	if (rc)
		return rc;
	put_changes(&s);
	for (size_t i = 0; i < s.slab_count; i++)
		s.slabs[i].at = s.slabs[i].item_at; /* every change has a probe */
	s.a.singly = !r->txn.compare;
	s.probes = r->txn.changes;
	s.a.sparse = 0;
	s.a.origins = f->origins.at;
	rc = run_slabs(&s, "kedge_finder_adopted", "kedge_finder_adopt", NULL);
	return rc ? rc : step_end(&s, &hits);
}

/* Digests and ages on the device are still those of the last version. */
static void on_gpu_adopt(struct kedge__reducer *r)
{
	if (adopt_run(r))
		kedge__finder_drop(&r->record.finder);
}

const struct kedge__finder_ops kedge__finder_on_gpu = {
    .alloc = on_gpu_alloc,
    .release = on_gpu_release,
    .build = on_gpu_build,
    .find = on_gpu_find,
    .prepare = on_gpu_prepare,
    .forget = on_gpu_forget,
    .leave = on_gpu_leave,
    .adopt = on_gpu_adopt,
    .take_out = on_gpu_take_out,
};

/* ---- the whole */

int kedge__gpu_finder_begin(struct kedge__reducer *r, struct kedge__error *err)
{
	struct kedge__gpu_finder *f = kedge__calloc(1, sizeof(*f));

	if (!f)
		return kedge__error_nomem(err);
	kedge__gpu_finder_end(r);
	kedge__finder_drop(&r->record.finder);
	f->replicas = r->replicas;
	r->record.finder.device = f;
	r->record.finder.ops = &kedge__finder_on_gpu;
	return 0;
}

void kedge__gpu_finder_end(struct kedge__reducer *r)
{
	struct kedge__finder *x = &r->record.finder;
	struct kedge__gpu_finder *f = x->device;
	struct kedge__gpu *gpu;

	if (!f)
		return;
	gpu = f->replicas->gpu;
	kedge__finder_drop(x);
	x->device = NULL;
	x->ops = &kedge__finder_here;
	kedge__gpu_array_done(gpu, &f->buckets);
	kedge__gpu_array_done(gpu, &f->log);
	kedge__gpu_array_done(gpu, &f->tables);
	kedge__gpu_array_done(gpu, &f->wave);
	kedge__gpu_array_done(gpu, &f->origins);
	kedge__gpu_array_done(gpu, &f->totals);
	kedge__gpu_unpin(gpu, f->staged);
	kedge__free(f);
}
