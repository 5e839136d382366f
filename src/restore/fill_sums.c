/* SPDX-License-Identifier: BSD-3-Clause */
/* Every region has a digest over all its bytes: it shows whether all of them are in their places. */
#include "restore/fill.h"

#include <stdlib.h>

/* A target that is summed after it is filled is summed in slabs of this many bytes: a multiple of 8. */
#define SLAB_BYTES (UINT64_C(4) << 20)

static bool is_odd(const struct kedge__fill_goal *g, uint64_t pos, uint64_t len)
{
	return pos % 8 || (len % 8 && pos + len != g->record->bytes);
}

static struct kedge__sum sum_of(const struct kedge__filling *f, uint32_t target, const void *data, uint64_t len,
				uint64_t pos)
{
	return kedge__sum_ruled(f->goals[target].record->rule, data, len, pos);
}

static void defer(struct kedge__fill_goal *g)
{
	if (!atomic_load_explicit(&g->odd, memory_order_relaxed))
		atomic_store_explicit(&g->odd, true, memory_order_relaxed);
}

bool kedge__fill_sum_defers(struct kedge__fill_goal *g, uint64_t pos, uint64_t len)
{
	if (is_odd(g, pos, len))
		defer(g);
	return atomic_load_explicit(&g->odd, memory_order_relaxed);
}

int kedge__fill_sum_put(struct kedge__filling *f, struct kedge__fill_worker *h, uint32_t target, const uint8_t *at,
			uint64_t pos, uint64_t len, struct kedge__error *err)
{
	struct kedge__fill_goal *g = &f->goals[target];

	if (g->device) /* it sums what it writes */
		return 0;
	if (g->zeroed)
		return kedge__fill_check_piece(f, h, target, at, pos, len, err);
	if (f->sum_later || is_odd(g, pos, len))
		defer(g);
	else
		h->sums[target] = kedge__sum_add(h->sums[target], sum_of(f, target, at, len, pos));
	return 0;
}

bool kedge__fill_sum_suits(const struct kedge__filling *f, uint32_t target, uint64_t pos, uint64_t len)
{
	const struct kedge__fill_goal *g = &f->goals[target];

	return !g->device && g->record->rule == KEDGE__SUM_PAGES && !is_odd(g, pos, len);
}

void kedge__fill_sum_add(struct kedge__filling *f, struct kedge__fill_worker *h, uint32_t target, struct kedge__sum sum)
{
	if (f->sum_later && !f->goals[target].zeroed)
		defer(&f->goals[target]);
	else
		h->sums[target] = kedge__sum_add(h->sums[target], sum);
}

/* What is at offset POS of TARGET leaves the sum. */
static void take_out(struct kedge__filling *f, struct kedge__fill_worker *h, uint32_t target, uint64_t pos,
		     uint64_t len)
{
	struct kedge__sum old = sum_of(f, target, f->goals[target].data + pos, len, pos);

	h->sums[target].s1 -= old.s1;
	h->sums[target].s2 -= old.s2;
}

/* All of it goes over the ground that the piece before went over. */
static bool is_covered(const struct kedge__fill_cover *c, uint32_t target, uint64_t pos, uint64_t len)
{
	return c->target == target && pos >= c->from && pos < c->to && len <= c->to - pos;
}

void kedge__fill_sum_clear(struct kedge__filling *f, struct kedge__fill_worker *h, uint32_t target, uint64_t pos,
			   uint64_t len)
{
	struct kedge__fill_goal *g = &f->goals[target];
	uint64_t n;

	if (is_covered(&h->cover, target, pos, len) && !is_odd(g, pos, len)) {
		take_out(f, h, target, pos, len);
		return;
	}
	for (uint64_t end = pos + len; pos < end && !f->sum_later && !g->device; pos += n) {
		n = end - pos;
		if (!kedge__read_plan_covers(&f->plan, target, pos, &n))
			continue;
		if (is_odd(g, pos, n)) {
			defer(g);
			return;
		}
		take_out(f, h, target, pos, n);
		h->cover.target = target;
		kedge__read_plan_cover(&f->plan, target, pos, &h->cover.from, &h->cover.to);
	}
}

struct slab {
	uint32_t target;
	uint64_t pos, len;
};

struct slab_work {
	struct kedge__filling *f;
	KEDGE__ARRAY(struct slab) slabs;
};

static int slab_sum(void *ctx, size_t i, int worker)
{
	struct slab_work *w = ctx;
	const struct slab *s = &w->slabs.at[i];
	struct kedge__sum *sum = &w->f->workers[worker].sums[s->target];

	*sum = kedge__sum_add(*sum, sum_of(w->f, s->target, w->f->goals[s->target].data + s->pos, s->len, s->pos));
	return 0;
}

/* Targets with odd pieces are summed again entirely. */
static int odd_sum(struct kedge__filling *f, struct kedge__error *err)
{
	struct slab_work w = {.f = f};

	for (size_t t = 0; t < f->goal_count; t++) {
		uint64_t bytes = f->goals[t].record->bytes;

		if (!atomic_load(&f->goals[t].odd) || f->goals[t].device)
			continue;
		for (size_t h = 0; h < f->worker_count; h++)
			f->workers[h].sums[t] = (struct kedge__sum){0, 0};
		for (uint64_t pos = 0; pos < bytes; pos += SLAB_BYTES) {
			struct slab s = {(uint32_t)t, pos, KEDGE__MIN(SLAB_BYTES, bytes - pos)};

			if (!kedge__array_push(&w.slabs, s)) {
				kedge__array_done(&w.slabs);
				return kedge__error_nomem(err);
			}
		}
	}
	kedge__pool_for(f->pool, w.slabs.count, slab_sum, &w);
	kedge__array_done(&w.slabs);
	return 0;
}

/* ------------------------------------------------------------------ without memory to read */

#define PATTERN_BYTES 4096

static int edge_add(struct kedge__fill_worker *h, uint32_t target, const uint8_t *at, uint64_t pos, uint64_t len,
		    struct kedge__error *err)
{
	struct kedge__fill_edge e = {.pos = pos & ~UINT64_C(7), .target = target};
	uint8_t bytes[8] = {0};

	if (!len)
		return 0;
	memcpy(bytes + pos % 8, at, len);
	e.word = kedge__get64(bytes);
	return kedge__array_push(&h->edges, e) ? 0 : kedge__error_nomem(err);
}

/* Words with all their bytes are summed at once; the bytes of others, at most two, wait until all have arrived. */
int kedge__fill_check_piece(struct kedge__filling *f, struct kedge__fill_worker *h, uint32_t target, const uint8_t *at,
			    uint64_t pos, uint64_t len, struct kedge__error *err)
{
	uint64_t head = KEDGE__MIN((8 - pos % 8) % 8, len);
	uint64_t tail = pos + len == f->goals[target].record->bytes ? 0 : (len - head) % 8;
	uint64_t middle = len - head - tail;
	int rc = edge_add(h, target, at, pos, head, err);

	if (!rc)
		rc = edge_add(h, target, at + head + middle, pos + head + middle, tail, err);
	h->sums[target] = kedge__sum_add(h->sums[target], sum_of(f, target, at + head, middle, pos + head));
	return rc;
}

int kedge__fill_check_pattern(struct kedge__filling *f, struct kedge__fill_worker *h,
			      const struct kedge__read_plan_fill *fill, struct kedge__error *err)
{
	uint64_t pos = (uint64_t)(fill->to - f->goals[fill->target].data), n;
	uint8_t bytes[PATTERN_BYTES + 8];
	int rc = 0;

	/* Regions begin at multiples of 8; after the first round so does every one. */
	kedge__fill_pattern(fill->pattern, 0, bytes, sizeof(bytes));
	for (uint64_t done = 0; done < fill->len && !rc; done += n) {
		uint64_t skip = (pos + done) % 8;

		n = KEDGE__MIN(PATTERN_BYTES - skip, fill->len - done);
		rc = kedge__fill_check_piece(f, h, fill->target, bytes + skip, pos + done, n, err);
	}
	return rc;
}

static int by_place(const void *a, const void *b)
{
	const struct kedge__fill_edge *x = a, *y = b;

	if (x->target != y->target)
		return x->target < y->target ? -1 : 1;
	return (x->pos > y->pos) - (x->pos < y->pos);
}

static int edges_gather(struct kedge__filling *f, struct kedge__fill_edges *all, struct kedge__error *err)
{
	for (size_t h = 0; h < f->worker_count; h++) {
		const struct kedge__fill_edges *own = &f->workers[h].edges;

		if (!own->count)
			continue;
		if (!kedge__array_reserve(all, all->count + own->count))
			return kedge__error_nomem(err);
		memcpy(all->at + all->count, own->at, own->count * sizeof(*own->at));
		all->count += own->count;
	}
	return 0;
}

/* Words that arrived in parts. */
static int edges_sum(struct kedge__filling *f, struct kedge__error *err)
{
	struct kedge__fill_edges all = {0};
	int rc = edges_gather(f, &all, err);

	if (!rc && all.count)
		qsort(all.at, all.count, sizeof(*all.at), by_place);
	for (size_t i = 0, end; i < all.count && !rc; i = end) {
		const struct kedge__fill_edge *e = &all.at[i];
		struct kedge__sum *sum = &f->workers[0].sums[e->target];
		uint64_t word = 0;
		uint8_t bytes[8];

		for (end = i; end < all.count && by_place(e, &all.at[end]) == 0; end++)
			word |= all.at[end].word;
		kedge__put64(bytes, word);
		*sum = kedge__sum_add(*sum, sum_of(f, e->target, bytes, sizeof(bytes), e->pos));
	}
	kedge__array_done(&all);
	return rc;
}

/* ------------------------------------------------------------------ the verdict */

static int digests_check(const struct kedge__filling *f, struct kedge__error *err)
{
	const struct kedge__segment *top = kedge__lineage_top(f->lineage);

	for (size_t t = 0; t < f->goal_count; t++) {
		const struct kedge__region_record *r = f->goals[t].record;
		struct kedge__sum sum = {0, 0};

		for (size_t h = 0; h < f->worker_count; h++)
			sum = kedge__sum_add(sum, f->workers[h].sums[t]);
		if (!kedge__digest_equal(kedge__sum_digest(sum, r->bytes), r->digest))
			return kedge__error_set(err, KEDGE_E_DAMAGED, 0,
						"%s: region \"%s\" of version %llu does not match its digest",
						top->path, r->name, (unsigned long long)top->header.version);
	}
	return 0;
}

int kedge__fill_sums_check(struct kedge__filling *f, struct kedge__error *err)
{
	int rc = odd_sum(f, err);

	if (!rc)
		rc = edges_sum(f, err);
	return rc ? rc : digests_check(f, err);
}
