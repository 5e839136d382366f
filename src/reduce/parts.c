/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * parts.c: the extents of a version are made in parts, on all threads, and joined. Parts are of the same size whatever
 * the number of threads. Where a run goes on from one part into the next it is joined, as far as it comes from one
 * version.
 */
#include "reduce/emit.h"

#define PART       ((size_t)8)    /* slabs */
#define WAVE       ((size_t)4)    /* parts for each thread, and at least */
#define WAVE_LEAST ((size_t)32)   /* parts, that are there at once before they are joined */
#define MANY       ((size_t)4096) /* changes: below, parts cost more than they gain */

struct part {
	struct kedge__reduction out;
	size_t skip; /* literals that others have taken over, */
	size_t at;   /* and where those that are left go */
};

struct parts {
	struct kedge__emitter *e;
	struct kedge__item *items; /* of a slab, for each thread */
	size_t most;               /* of a slab */
	struct part *at;
	size_t begin, count; /* the wave */
	size_t literals;
};

static int emit_range(struct kedge__emitter *e, size_t from, size_t to, struct kedge__item *items)
{
	int rc = 0;

	for (size_t i = from; !rc && i < to; i++)
		rc = kedge__emitter_slab(e, i, items, kedge__items_gather(e->r, i, items));
	return rc;
}

static int emit_part(void *ctx, size_t i, int worker)
{
	struct parts *p = ctx;
	struct kedge__reduction *out = &p->at[i].out;
	struct kedge__emitter e;
	size_t from = (p->begin + i) * PART, to = KEDGE__MIN(from + PART, p->e->t->slabs.count);
	int rc;

	*out = (struct kedge__reduction){.parent = KEDGE__NO_VERSION, .map = out->map, .literals = out->literals};
	out->map.shift = p->e->out->map.shift;
	out->literals.count = 0;
	kedge__emitter_fork(p->e, from, out, &e);
	rc = emit_range(&e, from, to, p->items + (size_t)worker * p->most);
	return rc ? rc : kedge__emitter_until(&e, to);
}

/* ---- joining */

static bool literal_join(struct kedge__literal *last, const struct kedge__literal *l)
{
	if (!last || last->region != l->region || (const uint8_t *)last->data + last->bytes != l->data)
		return false;
	last->bytes += l->bytes;
	return true;
}

static void add_totals(struct kedge__reduction *out, const struct kedge__reduction *own)
{
	out->parent = own->parent == KEDGE__NO_VERSION ? out->parent : own->parent;
	out->literal_bytes += own->literal_bytes;
	out->changed_bytes += own->changed_bytes;
	out->duplicate_bytes += own->duplicate_bytes;
	out->fill_bytes += own->fill_bytes;
}

/* Its extents are taken over, and its literals have a place. */
static int place_part(struct parts *p, struct part *part, struct kedge__literal **last)
{
	struct kedge__reduction *out = p->e->out;
	const struct kedge__literal_list *literals = &part->out.literals;
	int rc = kedge__extent_tape_move(&out->map, &part->out.map, out->literal_bytes, p->e->merge, NULL);

	part->skip = literals->count && literal_join(*last, &literals->at[0]);
	part->at = p->literals;
	p->literals += literals->count - part->skip;
	if (literals->count > part->skip)
		*last = &literals->at[literals->count - 1];
	add_totals(out, &part->out);
	return rc;
}

static int copy_part(void *ctx, size_t i, int worker)
{
	const struct parts *p = ctx;
	const struct part *part = &p->at[i];
	const struct kedge__literal_list *own = &part->out.literals;
	size_t n = own->count - part->skip;

	(void)worker;
	if (n)
		memcpy(p->e->out->literals.at + part->at, own->at + part->skip, n * sizeof(*own->at));
	return 0;
}

/* How many there will be of N in the parts so far: room for all of them at once need not be moved. */
static size_t foresee(const struct parts *p, size_t n, size_t total)
{
	return n + n / 16 * (total - p->count) / p->count * 17;
}

/* TOTAL: parts of the version. */
static int join_wave(struct parts *p, size_t total)
{
	struct kedge__literal_list *list = &p->e->out->literals;
	struct kedge__literal *last = list->count ? &list->at[list->count - 1] : NULL;
	int rc = 0;

	p->literals = list->count;
	for (size_t i = 0; !rc && i < p->count; i++)
		rc = place_part(p, &p->at[i], &last);
	if (rc || !kedge__array_reserve(list, p->begin ? p->literals : foresee(p, p->literals, total)))
		return KEDGE_E_NOMEM;
	kedge__pool_for(p->e->t->pool, p->count, copy_part, p);
	list->count = p->literals;
	return 0;
}

/* ---- all of them */

static int run_waves(struct parts *p)
{
	size_t total = kedge__chunks_of(p->e->t->slabs.count, PART);
	size_t wave = KEDGE__MIN(total, KEDGE__MAX(WAVE * (size_t)kedge__pool_threads(p->e->t->pool), WAVE_LEAST));
	int rc = 0;

	p->at = kedge__calloc(wave, sizeof(*p->at));
	if (!p->at)
		return KEDGE_E_NOMEM;
	for (p->begin = 0; !rc && p->begin < total; p->begin += p->count) {
		p->count = KEDGE__MIN(wave, total - p->begin);
		rc = kedge__pool_for(p->e->t->pool, p->count, emit_part, p);
		if (!rc)
			rc = join_wave(p, total);
	}
	for (size_t i = 0; i < wave; i++)
		kedge__reduction_done(&p->at[i].out);
	kedge__free(p->at);
	return rc;
}

int kedge__emit_slabs(struct kedge__emitter *e)
{
	const struct kedge__txn *t = e->t;
	struct parts p = {.e = e, .most = 1};
	bool alone = e->full || e->r->options.paranoid || t->changes < MANY;
	int rc = KEDGE_E_NOMEM;

	for (size_t i = 0; i < t->slabs.count; i++)
		p.most = KEDGE__MAX(p.most, t->slabs.at[i].count);
	p.items = kedge__malloc((alone ? 1 : (size_t)kedge__pool_threads(t->pool)) * p.most * sizeof(*p.items));
	if (p.items)
		rc = alone ? emit_range(e, 0, t->slabs.count, p.items) : run_waves(&p);
	kedge__free(p.items);
	if (!alone)
		e->region_index = t->image->count;
	return rc == KEDGE_E_NOMEM ? kedge__error_nomem(e->err) : rc;
}
