/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The image is cut into slabs, and all work on spans is done slab by slab on all threads: the data of a slab stays in a
 * core's cache while the maps of all versions are composed. Pieces are sorted by block without comparisons: counted,
 * then placed.
 */
#include "restore/read_plan.h"

#include <pthread.h>
#include <stdatomic.h>

#define SLAB_BYTES (UINT64_C(2) << 20)
#define FILL_BYTES (UINT64_C(4) << 20)

struct slab {
	size_t first, count; /* of its ranges */
	struct kedge__span_list spans;
	KEDGE__ARRAY(struct kedge__read_plan_fill) fills;
};

struct maker {
	struct kedge__read_plan *plan;
	struct kedge__lineage *lineage;
	const struct kedge__read_plan_slot *slots;
	size_t slot_count;
	struct kedge__range_list ranges;
	KEDGE__ARRAY(struct slab) slabs;
	size_t segments, blocks;
	size_t *base;          /* of each segment's blocks in `pieces` */
	atomic_size_t *pieces; /* one per block: how many; later the place of its next piece */
	pthread_mutex_t lock;  /* guards err */
	struct kedge__error err;
};

static int fail(struct maker *m, struct kedge__error *err)
{
	int rc = err->code;

	pthread_mutex_lock(&m->lock);
	if (!m->err.code)
		kedge__error_move(&m->err, err);
	pthread_mutex_unlock(&m->lock);
	kedge__error_done(err);
	return rc;
}

/* ------------------------------------------------------------------ slabs */

static bool slab_add(struct maker *m, struct kedge__range range, uint64_t *room)
{
	struct slab fresh = {.first = m->ranges.count};

	if (!kedge__array_push(&m->ranges, range))
		return false;
	if (!m->slabs.count || *room < range.len) {
		if (!kedge__array_push(&m->slabs, fresh))
			return false;
		*room = SLAB_BYTES;
	}
	m->slabs.at[m->slabs.count - 1].count++;
	*room -= range.len;
	return true;
}

/* Small regions share a slab, large ones are cut. */
static int slabs_cut(struct maker *m, struct kedge__error *err)
{
	uint64_t room = 0;

	for (size_t i = 0; i < m->slot_count; i++) {
		const struct kedge__read_plan_slot *s = &m->slots[i];

		for (uint64_t at = 0; at < s->bytes; at += SLAB_BYTES) {
			struct kedge__range range = {s->base + at, KEDGE__MIN(SLAB_BYTES, s->bytes - at)};

			if (!slab_add(m, range, &room))
				return kedge__error_nomem(err);
		}
	}
	return 0;
}

/* The segment of the last span; usually the next span has the same. */
struct found {
	const struct kedge__segment *seg;
	size_t index;
};

static int segment_find(const struct maker *m, uint64_t version, struct found *found, struct kedge__error *err)
{
	const struct kedge__segment *seg;
	size_t i;

	if (found->seg && found->seg->header.version == version)
		return 0;
	KEDGE__PARTITION_POINT(i, m->segments, kedge__lineage_at(m->lineage, i)->header.version < version);
	seg = i < m->segments ? kedge__lineage_at(m->lineage, i) : NULL;
	if (!seg || seg->header.version != version)
		return kedge__error_set(err, KEDGE_E_INTERNAL, 0, "version %llu is not in the lineage",
					(unsigned long long)version);
	*found = (struct found){seg, i};
	return 0;
}

static int span_check(const struct kedge__segment *seg, const struct kedge__span *s, struct kedge__error *err)
{
	const struct kedge__block_record *last = seg->block_count ? &seg->blocks[seg->block_count - 1] : NULL;
	uint64_t end = last ? last->position + last->raw_bytes : 0;

	if (s->src <= end && s->len <= end - s->src)
		return 0;
	return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "%s: refers to literals that no block holds", seg->path);
}

/* Where the bytes of a span go. */
struct goal {
	uint8_t *to;
	uint32_t target;
};

/* Spans and slots both ascend: *I advances with them. */
static int goal_find(const struct maker *m, const struct kedge__span *span, size_t *i, struct goal *goal,
		     struct kedge__error *err)
{
	const struct kedge__read_plan_slot *slot;

	while (*i < m->slot_count && m->slots[*i].base + m->slots[*i].bytes <= span->addr)
		++*i;
	slot = &m->slots[*i];
	if (*i == m->slot_count || span->addr < slot->base || span->len > slot->bytes - (span->addr - slot->base))
		return kedge__error_set(err, KEDGE_E_INTERNAL, 0, "a resolved range lies outside its region");
	*goal = (struct goal){slot->data + (span->addr - slot->base), slot->target};
	return 0;
}

/* The first slot that ends above ADDR. */
static size_t slot_from(const struct maker *m, uint64_t addr)
{
	size_t i;

	KEDGE__PARTITION_POINT(i, m->slot_count, m->slots[i].base + m->slots[i].bytes <= addr);
	return i;
}

/* ------------------------------------------------------------------ first pass: resolve, count */

static int literal_count(struct maker *m, const struct kedge__span *s, struct found *found, struct kedge__error *err)
{
	const struct kedge__segment *seg;
	uint64_t end = s->src + s->len;
	int rc = segment_find(m, s->version, found, err);

	if (rc)
		return rc;
	seg = found->seg;
	rc = span_check(seg, s, err);
	if (rc)
		return rc;
	for (size_t b = kedge__segment_find_block(seg, s->src); b < seg->block_count && seg->blocks[b].position < end;
	     b++)
		atomic_fetch_add_explicit(&m->pieces[m->base[found->index] + b], 1, memory_order_relaxed);
	return 0;
}

static int fill_add(struct slab *slab, const struct kedge__span *s, struct goal goal, struct kedge__error *err)
{
	for (uint64_t done = 0; done < s->len; done += FILL_BYTES) {
		struct kedge__read_plan_fill f = {.to = goal.to + done,
						  .len = KEDGE__MIN(FILL_BYTES, s->len - done),
						  .pattern = s->src,
						  .addr = s->addr + done,
						  .target = goal.target};

		if (!kedge__array_push(&slab->fills, f))
			return kedge__error_nomem(err);
	}
	return 0;
}

static int slab_resolve(void *ctx, size_t i, int worker)
{
	struct maker *m = ctx;
	struct slab *slab = &m->slabs.at[i];
	const struct kedge__range *ranges = &m->ranges.at[slab->first];
	struct kedge__error err = KEDGE__ERROR_INIT;
	size_t slot = slot_from(m, ranges[0].start);
	struct goal goal = {NULL, 0};
	struct found found = {NULL, 0};
	int rc = kedge__lineage_resolve(m->lineage, ranges, slab->count, &slab->spans, &err);

	(void)worker;
	for (size_t s = 0; s < slab->spans.count && !rc; s++) {
		const struct kedge__span *span = &slab->spans.at[s];

		rc = goal_find(m, span, &slot, &goal, &err);
		if (!rc)
			rc = span->fill ? fill_add(slab, span, goal, &err) : literal_count(m, span, &found, &err);
	}
	return rc ? fail(m, &err) : 0;
}

/* ------------------------------------------------------------------ blocks, in the order of the files */

static bool batch_takes(const struct kedge__read_plan *plan, const struct kedge__read_plan_batch *batch,
			const struct kedge__read_plan_block *b)
{
	const struct kedge__read_plan_block *last = &plan->blocks.at[batch->first + batch->count - 1];

	return last->segment == b->segment && batch->stored_bytes < plan->batch_bytes;
}

static int block_add(struct kedge__read_plan *plan, struct kedge__read_plan_block b, struct kedge__error *err)
{
	const struct kedge__block_record *record = &b.segment->blocks[b.block];
	struct kedge__read_plan_batch *last = plan->batches.count ? &plan->batches.at[plan->batches.count - 1] : NULL;
	struct kedge__read_plan_batch fresh = {plan->blocks.count, 1, record->stored_bytes};

	plan->raw_max = KEDGE__MAX(plan->raw_max, record->raw_bytes);
	plan->stored_max = KEDGE__MAX(plan->stored_max, record->stored_bytes);
	if (last && batch_takes(plan, last, &b)) {
		last->count++;
		last->stored_bytes += record->stored_bytes;
	} else if (!kedge__array_push(&plan->batches, fresh)) {
		return kedge__error_nomem(err);
	}
	return kedge__array_push(&plan->blocks, b) ? 0 : kedge__error_nomem(err);
}

/* Counts become places, and blocks with a live byte enter the plan. */
static int blocks_collect(struct maker *m, struct kedge__error *err)
{
	size_t place = 0;

	for (size_t s = 0; s < m->segments; s++) {
		const struct kedge__segment *seg = kedge__lineage_at(m->lineage, s);

		for (size_t b = 0; b < seg->block_count; b++) {
			size_t count = atomic_load(&m->pieces[m->base[s] + b]);
			struct kedge__read_plan_block block = {seg, seg->header.version, b, place, count};
			int rc = count ? block_add(m->plan, block, err) : 0;

			if (rc)
				return rc;
			atomic_store(&m->pieces[m->base[s] + b], place);
			place += count;
		}
	}
	m->plan->piece_count = place;
	m->plan->pieces = place ? kedge__reallocarray(NULL, place, sizeof(struct kedge__piece)) : NULL;
	return place && !m->plan->pieces ? kedge__error_nomem(err) : 0;
}

static int fills_collect(struct maker *m, struct kedge__error *err)
{
	for (size_t i = 0; i < m->slabs.count; i++) {
		const struct slab *slab = &m->slabs.at[i];

		if (!slab->fills.count)
			continue;
		if (!kedge__array_reserve(&m->plan->fills, m->plan->fills.count + slab->fills.count))
			return kedge__error_nomem(err);
		memcpy(&m->plan->fills.at[m->plan->fills.count], slab->fills.at,
		       slab->fills.count * sizeof(slab->fills.at[0]));
		m->plan->fills.count += slab->fills.count;
	}
	return 0;
}

/* ------------------------------------------------------------------ second pass: put pieces in their places */

static int literal_place(struct maker *m, const struct kedge__span *s, struct goal goal, struct found *found,
			 struct kedge__error *err)
{
	const struct kedge__segment *seg;
	uint64_t pos = s->src, end = s->src + s->len;
	int rc = segment_find(m, s->version, found, err);

	if (rc)
		return rc;
	seg = found->seg;
	for (size_t b = kedge__segment_find_block(seg, pos); b < seg->block_count && seg->blocks[b].position < end;
	     b++) {
		const struct kedge__block_record *block = &seg->blocks[b];
		uint64_t n = KEDGE__MIN(end, block->position + block->raw_bytes) - pos;
		size_t place =
		    atomic_fetch_add_explicit(&m->pieces[m->base[found->index] + b], 1, memory_order_relaxed);

		m->plan->pieces[place] = (struct kedge__piece){.to = goal.to,
							       .offset = (uint32_t)(pos - block->position),
							       .len = (uint32_t)n,
							       .target = goal.target};
		goal.to += n;
		pos += n;
	}
	return 0;
}

static int slab_place(void *ctx, size_t i, int worker)
{
	struct maker *m = ctx;
	const struct slab *slab = &m->slabs.at[i];
	struct kedge__error err = KEDGE__ERROR_INIT;
	size_t slot = slot_from(m, m->ranges.at[slab->first].start);
	struct goal goal = {NULL, 0};
	struct found found = {NULL, 0};
	int rc = 0;

	(void)worker;
	for (size_t s = 0; s < slab->spans.count && !rc; s++) {
		const struct kedge__span *span = &slab->spans.at[s];

		rc = goal_find(m, span, &slot, &goal, &err);
		if (!rc && !span->fill)
			rc = literal_place(m, span, goal, &found, &err);
	}
	return rc ? fail(m, &err) : 0;
}

/* ------------------------------------------------------------------ the plan */

static int maker_init(struct maker *m, struct kedge__error *err)
{
	m->segments = kedge__lineage_count(m->lineage);
	m->base = kedge__reallocarray(NULL, m->segments + 1, sizeof(size_t));
	if (!m->base)
		return kedge__error_nomem(err);
	for (size_t i = 0; i < m->segments; i++) {
		m->base[i] = m->blocks;
		m->blocks += kedge__lineage_at(m->lineage, i)->block_count;
	}
	m->pieces = kedge__calloc(m->blocks + 1, sizeof(*m->pieces));
	return m->pieces ? slabs_cut(m, err) : kedge__error_nomem(err);
}

static void maker_done(struct maker *m)
{
	for (size_t i = 0; i < m->slabs.count; i++) {
		kedge__span_list_done(&m->slabs.at[i].spans);
		kedge__array_done(&m->slabs.at[i].fills);
	}
	kedge__array_done(&m->slabs);
	kedge__array_done(&m->ranges);
	kedge__free(m->base);
	kedge__free(m->pieces);
	kedge__error_done(&m->err);
	pthread_mutex_destroy(&m->lock);
}

static int run(struct maker *m, struct kedge__pool *pool, kedge__pool_fn fn, struct kedge__error *err)
{
	int rc = kedge__pool_for(pool, m->slabs.count, fn, m);

	if (rc && err)
		kedge__error_move(err, &m->err);
	return rc;
}

int kedge__read_plan_make(struct kedge__read_plan *plan, struct kedge__lineage *l, struct kedge__pool *pool,
			  const struct kedge__read_plan_slot *slots, size_t n, uint64_t batch_bytes,
			  struct kedge__error *err)
{
	struct maker m = {.plan = plan, .lineage = l, .slots = slots, .slot_count = n};
	int rc;

	*plan = (struct kedge__read_plan){.batch_bytes = batch_bytes};
	pthread_mutex_init(&m.lock, NULL);
	rc = maker_init(&m, err);
	if (!rc)
		rc = run(&m, pool, slab_resolve, err);
	if (!rc)
		rc = blocks_collect(&m, err);
	if (!rc)
		rc = fills_collect(&m, err);
	if (!rc)
		rc = run(&m, pool, slab_place, err);
	maker_done(&m);
	if (rc)
		kedge__read_plan_done(plan);
	return rc;
}

void kedge__read_plan_done(struct kedge__read_plan *plan)
{
	kedge__array_done(&plan->blocks);
	kedge__array_done(&plan->batches);
	kedge__array_done(&plan->fills);
	kedge__free(plan->pieces);
	*plan = (struct kedge__read_plan){0};
}
