/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The image is cut into slabs, and all work on spans is done slab by slab on all threads: the data of a slab stays in a
 * core's cache while the maps of all versions are composed. Spans become sketches, one for each block that they touch;
 * these are sorted by block without comparisons, into pieces: counted, then placed.
 */
#include "restore/read_plan.h"

#include <pthread.h>
#include <stdatomic.h>

#define SLAB_BYTES (UINT64_C(2) << 20)
#define FILL_BYTES (UINT64_C(4) << 20)

/* A piece that does not yet have its place among those of its block. */
struct sketch {
	uint8_t *to;
	uint32_t block; /* of all segments' */
	uint32_t offset, len, target;
};

struct slab {
	size_t first, count; /* of its ranges */
	KEDGE__ARRAY(struct sketch) sketches;
	KEDGE__ARRAY(struct kedge__read_plan_fill) fills;
};

/* A segment, with what is asked of it for every span. */
struct member {
	const struct kedge__segment *seg;
	uint64_t version;
	uint64_t literals; /* bytes */
	size_t base;       /* of its blocks among those of all segments */
};

struct maker {
	struct kedge__read_plan *plan;
	struct kedge__lineage *lineage;
	const struct kedge__read_plan_slot *slots;
	size_t slot_count;
	struct kedge__range_list ranges;
	KEDGE__ARRAY(struct slab) slabs;
	struct member *members; /* ascending versions */
	size_t segments, blocks;
	atomic_size_t live_blocks;
	atomic_size_t *pieces;          /* one per block: how many; later the place of its next piece */
	struct kedge__span_list *spans; /* one list per worker, used for one slab after the other */
	size_t worker_count;
	pthread_mutex_t lock; /* guards err */
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

/* Versions mostly follow each other without gaps: the first guess is usually right. */
static int member_find(const struct maker *m, uint64_t version, const struct member **found, struct kedge__error *err)
{
	uint64_t guess = version - m->members[0].version;
	size_t i;

	if (guess < m->segments && m->members[guess].version == version) {
		*found = &m->members[guess];
		return 0;
	}
	KEDGE__PARTITION_POINT(i, m->segments, m->members[i].version < version);
	if (i == m->segments || m->members[i].version != version)
		return kedge__error_set(err, KEDGE_E_INTERNAL, 0, "version %llu is not in the lineage",
					(unsigned long long)version);
	*found = &m->members[i];
	return 0;
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

static int sketch_add(struct maker *m, struct slab *slab, struct sketch sketch, struct kedge__error *err)
{
	if (slab->sketches.count == slab->sketches.room &&
	    !kedge__array_reserve(&slab->sketches, slab->sketches.count + 1))
		return kedge__error_nomem(err);
	slab->sketches.at[slab->sketches.count++] = sketch;
	if (atomic_fetch_add_explicit(&m->pieces[sketch.block], 1, memory_order_relaxed) == 0)
		atomic_fetch_add_explicit(&m->live_blocks, 1, memory_order_relaxed);
	return 0;
}

static int literal_add(struct maker *m, struct slab *slab, const struct kedge__span *s, struct goal goal,
		       struct kedge__error *err)
{
	uint64_t pos = s->src, end = s->src + s->len;
	const struct member *member;
	int rc = member_find(m, s->version, &member, err);

	if (rc)
		return rc;
	if (s->src > member->literals || s->len > member->literals - s->src)
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "%s: refers to literals that no block holds",
					member->seg->path);
	for (size_t b = kedge__segment_find_block(member->seg, pos); pos < end && !rc; b++) {
		const struct kedge__block_record *block = &member->seg->blocks[b];
		struct sketch sketch = {.to = goal.to,
					.block = (uint32_t)(member->base + b),
					.offset = (uint32_t)(pos - block->position),
					.len = (uint32_t)(KEDGE__MIN(end, block->position + block->raw_bytes) - pos),
					.target = goal.target};

		rc = sketch_add(m, slab, sketch, err);
		goal.to += sketch.len;
		pos += sketch.len;
	}
	return rc;
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
	struct kedge__span_list *spans = &m->spans[worker];
	const struct kedge__range *ranges = &m->ranges.at[slab->first];
	struct kedge__error err = KEDGE__ERROR_INIT;
	size_t slot = slot_from(m, ranges[0].start);
	struct goal goal = {NULL, 0};
	int rc = kedge__lineage_resolve(m->lineage, ranges, slab->count, spans, &err);

	if (!rc && spans->count && !kedge__array_reserve(&slab->sketches, spans->count + spans->count / 8))
		rc = kedge__error_nomem(&err);
	for (size_t s = 0; !rc && s < spans->count; s++) {
		const struct kedge__span *span = &spans->at[s];

		rc = goal_find(m, span, &slot, &goal, &err);
		if (!rc)
			rc = span->fill ? fill_add(slab, span, goal, &err) : literal_add(m, slab, span, goal, &err);
	}
	return rc ? fail(m, &err) : 0;
}

/* ------------------------------------------------------------------ blocks, in the order of the files */

/* Counts become places, and blocks with a live byte enter the plan. */
static int blocks_collect(struct maker *m, struct kedge__error *err)
{
	size_t place = 0;

	if (!kedge__array_reserve(&m->plan->blocks, m->live_blocks))
		return kedge__error_nomem(err);
	for (size_t s = 0; s < m->segments; s++) {
		const struct kedge__segment *seg = m->members[s].seg;
		atomic_size_t *pieces = m->pieces + m->members[s].base;

		for (size_t b = 0; b < seg->block_count; b++) {
			size_t count = atomic_load_explicit(&pieces[b], memory_order_relaxed);
			struct kedge__read_plan_block block = {.segment = seg,
							       .version = m->members[s].version,
							       .block = b,
							       .first = place,
							       .count = count};

			if (count)
				m->plan->blocks.at[m->plan->blocks.count++] = block;
			atomic_store_explicit(&pieces[b], place, memory_order_relaxed);
			place += count;
		}
	}
	m->plan->piece_count = place;
	m->plan->pieces = place ? kedge__map_alloc(place * sizeof(struct kedge__piece)) : NULL;
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

static int slab_place(void *ctx, size_t i, int worker)
{
	struct maker *m = ctx;
	struct slab *slab = &m->slabs.at[i];

	(void)worker;
	for (size_t k = 0; k < slab->sketches.count; k++) {
		const struct sketch *s = &slab->sketches.at[k];
		size_t place = atomic_fetch_add_explicit(&m->pieces[s->block], 1, memory_order_relaxed);

		m->plan->pieces[place] =
		    (struct kedge__piece){.to = s->to, .offset = s->offset, .len = s->len, .target = s->target};
	}
	kedge__array_done(&slab->sketches);
	return 0;
}

/* ------------------------------------------------------------------ batches */

static bool batch_takes(const struct kedge__read_plan *plan, const struct kedge__read_plan_batch *batch,
			const struct kedge__read_plan_block *b)
{
	return plan->blocks.at[batch->first].segment == b->segment && batch->stored_bytes < plan->batch_bytes;
}

/* The blocks FIRST to END - 1. */
static int batches_make(struct kedge__read_plan *plan, size_t first, size_t end, struct kedge__error *err)
{
	struct kedge__read_plan_batch *last = NULL;

	for (size_t i = first; i < end; i++) {
		const struct kedge__read_plan_block *b = &plan->blocks.at[i];
		const struct kedge__block_record *record = &b->segment->blocks[b->block];

		plan->raw_max = KEDGE__MAX(plan->raw_max, record->raw_bytes);
		plan->stored_max = KEDGE__MAX(plan->stored_max, record->stored_bytes);
		if (!last || !batch_takes(plan, last, b)) {
			if (!kedge__array_push(&plan->batches, ((struct kedge__read_plan_batch){.first = i})))
				return kedge__error_nomem(err);
			last = &plan->batches.at[plan->batches.count - 1];
		}
		last->count++;
		last->stored_bytes += record->stored_bytes;
	}
	return 0;
}

static int batches_cut(struct maker *m, struct kedge__pool *pool, bool in_place, struct kedge__error *err)
{
	struct kedge__read_plan *plan = m->plan;
	size_t grounds = 0;
	int rc = in_place && plan->blocks.count
		     ? kedge__read_plan_ground(plan, pool, m->slots, m->slot_count, &grounds, err)
		     : 0;

	if (!rc)
		rc = batches_make(plan, 0, grounds, err);
	plan->grounds = plan->batches.count;
	return rc ? rc : batches_make(plan, grounds, plan->blocks.count, err);
}

/* ------------------------------------------------------------------ the plan */

static int members_init(struct maker *m, struct kedge__error *err)
{
	m->segments = kedge__lineage_count(m->lineage);
	m->members = kedge__calloc(m->segments, sizeof(*m->members));
	if (!m->members)
		return kedge__error_nomem(err);
	for (size_t i = 0; i < m->segments; i++) {
		const struct kedge__segment *seg = kedge__lineage_at(m->lineage, i);
		const struct kedge__block_record *last = seg->block_count ? &seg->blocks[seg->block_count - 1] : NULL;

		m->members[i] =
		    (struct member){seg, seg->header.version, last ? last->position + last->raw_bytes : 0, m->blocks};
		m->blocks += seg->block_count;
	}
	if (m->blocks > UINT32_MAX)
		return kedge__error_set(err, KEDGE_E_LIMIT, 0, "the versions have too many blocks");
	return 0;
}

static int maker_init(struct maker *m, struct kedge__pool *pool, struct kedge__error *err)
{
	int rc = members_init(m, err);

	if (rc)
		return rc;
	m->worker_count = (size_t)kedge__pool_threads(pool);
	m->spans = kedge__calloc(m->worker_count, sizeof(*m->spans));
	m->pieces = kedge__calloc(m->blocks + 1, sizeof(*m->pieces));
	return m->pieces && m->spans ? slabs_cut(m, err) : kedge__error_nomem(err);
}

static void maker_done(struct maker *m)
{
	for (size_t i = 0; i < m->slabs.count; i++) {
		kedge__array_done(&m->slabs.at[i].sketches);
		kedge__array_done(&m->slabs.at[i].fills);
	}
	for (size_t i = 0; m->spans && i < m->worker_count; i++)
		kedge__span_list_done(&m->spans[i]);
	kedge__array_done(&m->slabs);
	kedge__array_done(&m->ranges);
	kedge__free(m->members);
	kedge__free(m->spans);
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
			  const struct kedge__read_plan_slot *slots, size_t n, uint64_t batch_bytes, bool in_place,
			  struct kedge__error *err)
{
	struct maker m = {.plan = plan, .lineage = l, .slots = slots, .slot_count = n};
	int rc;

	*plan = (struct kedge__read_plan){.batch_bytes = batch_bytes};
	pthread_mutex_init(&m.lock, NULL);
	rc = maker_init(&m, pool, err);
	if (!rc)
		rc = run(&m, pool, slab_resolve, err);
	if (!rc)
		rc = blocks_collect(&m, err);
	if (!rc)
		rc = fills_collect(&m, err);
	if (!rc)
		rc = run(&m, pool, slab_place, err);
	if (!rc)
		rc = batches_cut(&m, pool, in_place, err);
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
	kedge__map_free(plan->pieces, plan->piece_count * sizeof(struct kedge__piece));
	*plan = (struct kedge__read_plan){0};
}
