/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Compare the image that results from a merge with the digests of the version's regions. Sums are additive: those of
 * the parent are carried over, less its words in the places that differ, plus the new ones.
 */
#include "store/verify.h"

#include <pthread.h>

#define PIECE_BYTES ((uint64_t)256 << 10) /* summed by a thread at once: a multiple of 8 */

struct item { /* words of a region to be summed */
	size_t region;
	uint64_t pos, len;
};

struct worker { /* one per thread */
	uint8_t *buffer;
	struct kedge__lineage_reader *outer, *parent;
};

struct prover {
	const struct kedge__proof *proof;
	const struct kedge__segment *top;
	const struct kedge__extent_tape *map;
	const struct kedge__region_record **old; /* one per region: the parent's in that slot, by that rule, or NULL */
	struct kedge__region_sum *sums;
	KEDGE__ARRAY(struct item) items;
	struct worker *workers;
	size_t worker_count;
	pthread_mutex_t lock; /* guards err */
	struct kedge__error err;
};

/* ------------------------------------------------------------------ the bytes */

/* Bytes that M leaves to older versions, read through the parent or through the version that M was made from. */
static int outer_read(struct worker *h, const struct kedge__extent *e, uint64_t addr, uint8_t *to, size_t len,
		      struct kedge__error *err)
{
	if (h->parent && e->kind == KEDGE__EXTENT_COPY)
		addr = e->src + (addr - e->addr);
	return kedge__lineage_reader_read(h->parent ? h->parent : h->outer, addr, to, len, err);
}

static int image_read(const struct prover *p, int worker, uint64_t addr, uint8_t *to, uint64_t len, unsigned depth,
		      struct kedge__error *err);

static int extent_read(const struct prover *p, int worker, const struct kedge__extent *e, uint64_t addr, uint8_t *to,
		       size_t len, unsigned depth, struct kedge__error *err)
{
	uint64_t src = e->src + (addr - e->addr);

	if (e->kind == KEDGE__EXTENT_LITERAL)
		return kedge__merge_fill(p->proof->merge, worker, src, to, len, err);
	if (e->kind == KEDGE__EXTENT_COPY && e->version == p->top->header.version)
		return image_read(p, worker, src, to, len, depth + 1, err);
	if (e->kind != KEDGE__EXTENT_FILL)
		return outer_read(&p->workers[worker], e, addr, to, len, err);
	kedge__fill_pattern(e->src, addr, to, len);
	return 0;
}

/* A copy within the version refers to a literal: there is no second step. */
static int image_read(const struct prover *p, int worker, uint64_t addr, uint8_t *to, uint64_t len, unsigned depth,
		      struct kedge__error *err)
{
	struct kedge__extent_reader map = kedge__extents_from(p->map, addr);
	struct kedge__extent e;
	int rc = 0;

	while (len && !rc) {
		uint64_t n;

		if (!kedge__extent_next(&map, &e) || e.addr > addr || depth > 1)
			return kedge__error_set(err, KEDGE_E_INTERNAL, 0,
						"the merged map of version %" PRIu64 " has a gap",
						p->top->header.version);
		n = KEDGE__MIN(len, e.addr + e.len - addr);
		rc = extent_read(p, worker, &e, addr, to, (size_t)n, depth, err);
		addr += n;
		to += n;
		len -= n;
	}
	return rc;
}

/* ------------------------------------------------------------------ sums */

static uint64_t clipped(uint64_t pos, uint64_t len, uint64_t end)
{
	return pos >= end ? 0 : KEDGE__MIN(len, end - pos);
}

static int item_sum(struct prover *p, const struct item *item, int worker, struct kedge__error *err)
{
	const struct kedge__region_record *r = &p->top->regions[item->region], *old = p->old[item->region];
	uint64_t start = (uint64_t)r->slot * KEDGE__SLOT_BYTES + item->pos;
	uint64_t fresh = clipped(item->pos, item->len, r->bytes);
	uint64_t stale = old ? clipped(item->pos, item->len, old->bytes) : 0;
	struct worker *h = &p->workers[worker];
	int rc = image_read(p, worker, start, h->buffer, fresh, 0, err);

	if (!rc)
		kedge__region_sum_part(&p->sums[item->region], false, h->buffer, (size_t)fresh, item->pos);
	if (!rc && stale)
		rc = kedge__lineage_reader_read(h->parent, start, h->buffer, (size_t)stale, err);
	if (!rc && stale)
		kedge__region_sum_part(&p->sums[item->region], true, h->buffer, (size_t)stale, item->pos);
	return rc;
}

static int item_run(void *ctx, size_t i, int worker)
{
	struct prover *p = ctx;
	struct kedge__error err = KEDGE__ERROR_INIT;
	int rc = item_sum(p, &p->items.at[i], worker, &err);

	if (rc) {
		pthread_mutex_lock(&p->lock);
		if (!p->err.code)
			kedge__error_move(&p->err, &err);
		pthread_mutex_unlock(&p->lock);
	}
	kedge__error_done(&err);
	return rc;
}

/* ------------------------------------------------------------------ what is to be summed */

/* Bytes [POS, END) of a region, in units of 8 bytes; the previous item may already cover the first ones. */
static int items_add(struct prover *p, size_t region, uint64_t pos, uint64_t end, struct kedge__error *err)
{
	struct item *last = p->items.count ? &p->items.at[p->items.count - 1] : NULL;

	pos &= ~UINT64_C(7);
	end = (end + 7) & ~UINT64_C(7);
	if (last && last->region == region)
		pos = KEDGE__MAX(pos, last->pos + last->len);
	for (; pos < end; pos += PIECE_BYTES) {
		struct item item = {region, pos, KEDGE__MIN(PIECE_BYTES, end - pos)};

		if (!kedge__array_push(&p->items, item))
			return kedge__error_nomem(err);
	}
	return 0;
}

/* The places where the version differs from the parent, and the end of the longer of the two. */
static int differences_add(struct prover *p, size_t region, struct kedge__error *err)
{
	const struct kedge__region_record *r = &p->top->regions[region], *old = p->old[region];
	uint64_t start = (uint64_t)r->slot * KEDGE__SLOT_BYTES, both = KEDGE__MIN(r->bytes, old->bytes);
	struct kedge__extent_reader map = kedge__extents_from(p->map, start);
	struct kedge__extent e;
	int rc = 0;

	while (!rc && kedge__extent_next(&map, &e) && e.addr < start + both)
		if (e.kind != KEDGE__EXTENT_PARENT)
			rc = items_add(p, region, e.addr - start, KEDGE__MIN(e.addr + e.len - start, both), err);
	if (!rc && r->bytes != old->bytes)
		rc = items_add(p, region, both, KEDGE__MAX(r->bytes, old->bytes), err);
	return rc;
}

static int region_add(struct prover *p, size_t region, struct kedge__error *err)
{
	const struct kedge__region_record *r = &p->top->regions[region], *old = p->old[region];
	struct kedge__sum sum;

	p->sums[region].rule = r->rule;
	if (!old)
		return items_add(p, region, 0, r->bytes, err);
	sum = kedge__sum_undigest(old->digest, old->bytes);
	atomic_store(&p->sums[region].s1, sum.s1);
	atomic_store(&p->sums[region].s2, sum.s2);
	return differences_add(p, region, err);
}

/* Regions are in the order of their slots. */
static void old_find(struct prover *p)
{
	const struct kedge__segment *parent = p->proof->parent ? kedge__lineage_top(p->proof->parent) : NULL;

	for (size_t i = 0, k = 0; parent && i < p->top->region_count; i++) {
		while (k < parent->region_count && parent->regions[k].slot < p->top->regions[i].slot)
			k++;
		if (k < parent->region_count && parent->regions[k].slot == p->top->regions[i].slot &&
		    parent->regions[k].rule == p->top->regions[i].rule)
			p->old[i] = &parent->regions[k];
	}
}

/* ------------------------------------------------------------------ all of it */

static int workers_init(struct prover *p, struct kedge__error *err)
{
	int rc = 0;

	p->worker_count = p->proof->pool ? (size_t)kedge__pool_threads(p->proof->pool) : 1;
	p->workers = kedge__calloc(p->worker_count, sizeof(*p->workers));
	if (!p->workers)
		return kedge__error_nomem(err);
	for (size_t i = 0; i < p->worker_count && !rc; i++) {
		struct worker *h = &p->workers[i];

		h->buffer = kedge__malloc(PIECE_BYTES);
		if (!h->buffer)
			return kedge__error_nomem(err);
		if (p->proof->parent)
			rc = kedge__lineage_reader_new(p->proof->parent, &h->parent, err);
		else
			rc = kedge__lineage_reader_new(p->proof->lineage, &h->outer, err);
	}
	return rc;
}

static int prover_init(struct prover *p, struct kedge__error *err)
{
	int rc;

	p->old = kedge__calloc(p->top->region_count + 1, sizeof(*p->old));
	p->sums = kedge__calloc(p->top->region_count + 1, sizeof(*p->sums));
	rc = p->old && p->sums ? workers_init(p, err) : kedge__error_nomem(err);
	if (!rc)
		old_find(p);
	for (size_t i = 0; i < p->top->region_count && !rc; i++)
		rc = region_add(p, i, err);
	return rc;
}

static void prover_done(struct prover *p)
{
	for (size_t i = 0; p->workers && i < p->worker_count; i++) {
		kedge__lineage_reader_free(p->workers[i].outer);
		kedge__lineage_reader_free(p->workers[i].parent);
		kedge__free(p->workers[i].buffer);
	}
	kedge__free(p->workers);
	kedge__free(p->old);
	kedge__free(p->sums);
	kedge__array_done(&p->items);
	kedge__error_done(&p->err);
	pthread_mutex_destroy(&p->lock);
}

static int verdict(const struct prover *p, struct kedge__error *err)
{
	for (size_t i = 0; i < p->top->region_count; i++)
		if (!kedge__region_sum_matches(&p->sums[i], &p->top->regions[i]))
			return kedge__error_set(
			    err, KEDGE_E_DAMAGED, 0,
			    "%s: region \"%s\" of version %" PRIu64
			    " does not match its digest; the version is left as it is: run 'kedge verify'",
			    p->top->path, p->top->regions[i].name, p->top->header.version);
	return 0;
}

int kedge__prove_merge(const struct kedge__proof *proof, struct kedge__error *err)
{
	struct prover p = {.proof = proof,
			   .top = kedge__merge_top(proof->merge),
			   .map = &kedge__merge_reduction(proof->merge)->map,
			   .err = KEDGE__ERROR_INIT};
	int rc;

	pthread_mutex_init(&p.lock, NULL);
	rc = prover_init(&p, err);
	if (!rc) {
		rc = kedge__pool_for(proof->pool, p.items.count, item_run, &p);
		if (rc)
			kedge__error_move(err, &p.err);
	}
	if (!rc)
		rc = verdict(&p, err);
	prover_done(&p);
	return rc;
}
