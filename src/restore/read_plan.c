/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The image is cut into slabs, and all work on spans is done slab by slab on all threads: the data of a slab stays in a
 * core's cache while the maps of all versions are composed. Most of what is ground with newer literals over it
 * (overlay.c) is not resolved at all. Of the rest, spans of the ground (ground.c) are only counted; others become
 * sketches, one for each cell that they touch; these are sorted by cell without comparisons, into pieces: counted, then
 * placed. Cells that follow each other become units.
 */
#include "restore/read_plan.h"

#include <pthread.h>
#include <stdatomic.h>

#define SLAB_BYTES KEDGE__OVERLAY_BYTES
#define FILL_BYTES (UINT64_C(4) << 20)

/* A piece that does not yet have its place among those of its cell. */
struct sketch {
	uint8_t *to;
	uint32_t cell; /* of all segments' */
	uint32_t offset, len, target;
};

struct slab {
	size_t first, count; /* of its ranges */
	KEDGE__ARRAY(struct sketch) sketches;
	KEDGE__ARRAY(struct kedge__read_plan_fill) fills;
};

struct maker {
	struct kedge__read_plan *plan;
	struct kedge__lineage *lineage;
	const struct kedge__read_plan_slot *slots;
	size_t slot_count;
	struct kedge__range_list ranges;
	KEDGE__ARRAY(struct slab) slabs;
	atomic_size_t *pieces;                    /* one per cell: how many; later the place of its next piece */
	struct kedge__span_list *spans;           /* one list per worker, used for one slab after the other, */
	struct kedge__range_list *left;           /* as is this one: ranges to resolve */
	struct kedge__overlay_maker **overlayers; /* one per worker, if there is ground */
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

		if (m->plan->ground_count)
			m->plan->first_overlays[s->target] = m->ranges.count;
		for (uint64_t at = 0; at < s->bytes; at += SLAB_BYTES) {
			struct kedge__range range = {s->base + at, KEDGE__MIN(SLAB_BYTES, s->bytes - at)};

			if (!slab_add(m, range, &room))
				return kedge__error_nomem(err);
		}
	}
	return 0;
}

/* Versions mostly follow each other without gaps: the first guess is usually right. */
static int member_find(const struct maker *m, uint64_t version, const struct kedge__read_plan_member **found,
		       struct kedge__error *err)
{
	const struct kedge__read_plan_member *members = m->plan->members;
	size_t n = m->plan->member_count, i;
	uint64_t guess = version - members[0].version;

	if (guess < n && members[guess].version == version) {
		*found = &members[guess];
		return 0;
	}
	KEDGE__PARTITION_POINT(i, n, members[i].version < version);
	if (i == n || members[i].version != version)
		return kedge__error_set(err, KEDGE_E_INTERNAL, 0, "version %llu is not in the lineage",
					(unsigned long long)version);
	*found = &members[i];
	return 0;
}

/* Where the bytes of a span go. */
struct goal {
	uint8_t *to;
	uint64_t pos; /* in the target */
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
	*goal = (struct goal){slot->data + (span->addr - slot->base), span->addr - slot->base, slot->target};
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
	atomic_fetch_add_explicit(&m->pieces[sketch.cell], 1, memory_order_relaxed);
	return 0;
}

/* LEN literals of block B from OFFSET on, cell by cell. */
static int block_add(struct maker *m, struct slab *slab, const struct kedge__read_plan_member *member, size_t b,
		     uint32_t offset, uint32_t len, struct goal goal, struct kedge__error *err)
{
	const struct kedge__block_record *block = &member->seg->blocks[b];
	int rc = 0;

	while (len && !rc) {
		uint32_t n = KEDGE__MIN(kedge__read_plan_cell_end(block, offset) - offset, len);
		struct sketch sketch = {.to = goal.to,
					.cell = (uint32_t)kedge__read_plan_cell(member, b, offset),
					.offset = offset,
					.len = n,
					.target = goal.target};

		rc = sketch_add(m, slab, sketch, err);
		goal.to += n;
		offset += n;
		len -= n;
	}
	return rc;
}

/* How many literals from POS on the ground takes. */
static uint64_t ground_add(const struct maker *m, const struct kedge__read_plan_member *member, uint64_t pos,
			   uint64_t len, struct goal goal)
{
	const struct kedge__read_plan_ground *g = m->plan->ground_count ? &m->plan->grounds[goal.target] : NULL;

	return g && g->member == member && g->shift == goal.pos - pos
		   ? kedge__read_plan_ground_take(m->plan, g, pos, len)
		   : 0;
}

static int literal_add(struct maker *m, struct slab *slab, const struct kedge__span *s, struct goal goal,
		       struct kedge__error *err)
{
	uint64_t pos = s->src, end = s->src + s->len, n;
	const struct kedge__read_plan_member *member;
	int rc = member_find(m, s->version, &member, err);

	if (rc)
		return rc;
	if (s->src > member->literals || s->len > member->literals - s->src)
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "%s: refers to literals that no block holds",
					member->seg->path);
	for (; pos < end && !rc; pos += n, goal.to += n, goal.pos += n) {
		const struct kedge__block_record *block;
		size_t b;

		n = ground_add(m, member, pos, end - pos, goal);
		if (n)
			continue;
		b = kedge__segment_find_block(member->seg, pos);
		block = &member->seg->blocks[b];
		n = KEDGE__MIN(end, block->position + block->raw_bytes) - pos;
		rc = block_add(m, slab, member, b, (uint32_t)(pos - block->position), (uint32_t)n, goal, err);
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

/* Threads take one number after the other, and neighbours in the image have neighbours in the files: so that no two of
 * them count the same cells at the same time, each goes through a part of its own. */
static struct slab *slab_turn(struct maker *m, size_t i)
{
	size_t parts = KEDGE__MIN(m->worker_count, m->slabs.count), whole = m->slabs.count / parts;

	return &m->slabs.at[i < whole * parts ? i % parts * whole + i / parts : i];
}

/* What is left of the slab for the resolution of maps. */
static bool slab_overlay(struct maker *m, const struct slab *slab, int worker)
{
	struct kedge__range_list *left = &m->left[worker];
	size_t slot = slot_from(m, m->ranges.at[slab->first].start);

	left->count = 0;
	for (size_t i = slab->first; i < slab->first + slab->count; i++) {
		struct kedge__range range = m->ranges.at[i];

		while (m->slots[slot].base + m->slots[slot].bytes <= range.start)
			slot++;
		if (!(m->plan->ground_count ? kedge__overlay_make(m->plan, m->overlayers[worker], &m->slots[slot],
								  range, &m->plan->overlays[i], left)
					    : kedge__array_push(left, range)))
			return false;
	}
	return true;
}

static int slab_resolve(void *ctx, size_t i, int worker)
{
	struct maker *m = ctx;
	struct slab *slab = slab_turn(m, i);
	struct kedge__span_list *spans = &m->spans[worker];
	struct kedge__error err = KEDGE__ERROR_INIT;
	size_t slot = slot_from(m, m->ranges.at[slab->first].start);
	struct goal goal = {NULL, 0, 0};
	int rc = slab_overlay(m, slab, worker) ? 0 : kedge__error_nomem(&err);

	if (!rc && !m->left[worker].count)
		return 0;
	if (!rc)
		rc = kedge__lineage_resolve(m->lineage, m->left[worker].at, m->left[worker].count, spans, &err);
	/* About half of the spans are the ground's, if there is one. */
	if (!rc && spans->count && !kedge__array_reserve(&slab->sketches, spans->count / 2 + 8))
		rc = kedge__error_nomem(&err);
	for (size_t s = 0; !rc && s < spans->count; s++) {
		const struct kedge__span *span = &spans->at[s];

		rc = goal_find(m, span, &slot, &goal, &err);
		if (!rc)
			rc = span->fill ? fill_add(slab, span, goal, &err) : literal_add(m, slab, span, goal, &err);
	}
	return rc ? fail(m, &err) : 0;
}

/* ------------------------------------------------------------------ pieces, in the order of the files */

/* Counts become places, where there are any; most cells have none, and memory for them that nobody has touched. */
static int pieces_collect(struct maker *m, struct kedge__error *err)
{
	size_t place = 0;

	for (size_t i = 0; i < m->plan->cell_count; i++) {
		size_t count = atomic_load_explicit(&m->pieces[i], memory_order_relaxed);

		if (count)
			atomic_store_explicit(&m->pieces[i], place, memory_order_relaxed);
		place += count;
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
	struct slab *slab = slab_turn(m, i);

	(void)worker;
	for (size_t k = 0; k < slab->sketches.count; k++) {
		const struct sketch *s = &slab->sketches.at[k];
		size_t place = atomic_fetch_add_explicit(&m->pieces[s->cell], 1, memory_order_relaxed);

		m->plan->pieces[place] =
		    (struct kedge__piece){.to = s->to, .offset = s->offset, .len = s->len, .target = s->target};
	}
	kedge__array_done(&slab->sketches);
	return 0;
}

/* ------------------------------------------------------------------ units */

/* Of one cell. */
static struct kedge__read_plan_unit unit_of(const struct kedge__read_plan_member *member, size_t block, size_t cell)
{
	const struct kedge__block_record *b = &member->seg->blocks[block];
	uint32_t offset = (uint32_t)(cell - member->first_cells[block]) * KEDGE__BLOCK_PAGE;

	return (struct kedge__read_plan_unit){
	    .segment = member->seg,
	    .version = member->version,
	    .block = block,
	    .offset = offset,
	    .bytes = kedge__block_has_pages(b) ? kedge__read_plan_cell_end(b, offset) - offset : b->stored_bytes};
}

/* Does U go on where LAST ends, in the file and in memory? */
static bool unit_continues(const struct kedge__read_plan_unit *last, const struct kedge__read_plan_unit *u)
{
	return last->segment == u->segment && last->block == u->block && last->offset + last->bytes == u->offset &&
	       last->place + (last->place ? last->bytes : 0) == u->place &&
	       (!u->place || (last->target == u->target && last->ground == u->ground));
}

/* Some of the block is ground, or lies over it. */
static bool has_ground(const struct kedge__read_plan *plan, const struct kedge__read_plan_member *member, size_t block)
{
	if (plan->ground_count && atomic_load_explicit(&plan->laid[member->first_cells[block]], memory_order_relaxed))
		return true;
	for (size_t cell = member->first_cells[block]; plan->ground_count && cell < member->first_cells[block + 1];
	     cell++)
		if (atomic_load_explicit(&plan->ground_live[cell], memory_order_relaxed))
			return true;
	return false;
}

static int unit_add(struct maker *m, struct kedge__read_plan_unit u, struct kedge__error *err)
{
	struct kedge__read_plan *plan = m->plan;
	struct kedge__read_plan_unit *last = plan->units.count ? &plan->units.at[plan->units.count - 1] : NULL;

	if (last && unit_continues(last, &u)) {
		last->bytes += u.bytes;
		last->count += u.count;
		last->live += u.live;
		return 0;
	}
	u.leads = u.leads && (!last || last->segment != u.segment || last->block != u.block);
	return kedge__array_push(&plan->units, u) ? 0 : kedge__error_nomem(err);
}

static uint32_t ground_live(const struct maker *m, size_t cell)
{
	return atomic_load_explicit(&m->plan->ground_live[cell], memory_order_relaxed);
}

/* The cells from FIRST to below END of BLOCK are ground of SLOT's target, as far as they are live. *LIVE: they all are.
 */
static int ground_block(struct maker *m, const struct kedge__read_plan_slot *slot, size_t block, size_t first,
			size_t end, bool *live, struct kedge__error *err)
{
	const struct kedge__read_plan_ground *g = &m->plan->grounds[slot->target];
	const struct kedge__block_record *b = &g->member->seg->blocks[block];
	int rc = 0;

	for (size_t cell = first; cell < end && !rc; cell++) {
		struct kedge__read_plan_unit u;

		if (!ground_live(m, cell)) {
			*live = false;
			continue;
		}
		u = unit_of(g->member, block, cell);
		u.ground = true;
		u.leads = !atomic_load_explicit(&m->plan->laid[g->member->first_cells[block]], memory_order_relaxed);
		u.target = slot->target;
		u.place = slot->data + (b->position + u.offset + g->shift);
		u.live = ground_live(m, cell);
		while (cell + 1 < end && ground_live(m, cell + 1)) {
			u.live += ground_live(m, ++cell);
			u.bytes = kedge__read_plan_cell_end(b, u.offset + u.bytes) - u.offset;
		}
		rc = unit_add(m, u, err);
	}
	return rc;
}

static int ground_units(struct maker *m, const struct kedge__read_plan_slot *slot, struct kedge__error *err)
{
	struct kedge__read_plan_ground *g = &m->plan->grounds[slot->target];
	const struct kedge__read_plan_member *member = g->member;
	size_t b = member && g->from < g->to ? kedge__segment_find_block(member->seg, g->from) : 0;
	bool solid = true;
	int rc = 0;

	for (; member && b < member->seg->block_count && member->seg->blocks[b].position < g->to && !rc; b++) {
		const struct kedge__block_record *block = &member->seg->blocks[b];
		uint32_t begin, end;

		kedge__read_plan_fits(g, block, &begin, &end);
		solid = solid && begin == 0 && end == block->raw_bytes;
		if (begin < end)
			rc = ground_block(m, slot, b, kedge__read_plan_cell(member, b, begin),
					  kedge__read_plan_cell(member, b, end - 1) + 1, &solid, err);
	}
	g->solid = solid;
	return rc;
}

/* A cell that goes to one place has it, if it is worth a piece of a read of its own. */
static void unit_aim(const struct maker *m, struct kedge__read_plan_unit *u, bool in_place)
{
	const struct kedge__piece *piece = &m->plan->pieces[u->first];

	for (size_t i = 0; i < u->count; i++)
		u->live += piece[i].len;
	if (!in_place || u->count != 1 || u->bytes < KEDGE__BLOCK_PAGE || piece->len != u->bytes ||
	    u->segment->blocks[u->block].codec != KEDGE__CODEC_NONE)
		return;
	u->place = piece->to;
	u->target = piece->target;
}

static int member_units(struct maker *m, const struct kedge__read_plan_member *member, bool in_place, size_t *piece,
			struct kedge__error *err)
{
	int rc = 0;

	for (size_t b = 0; b < member->seg->block_count; b++) {
		bool leads = !has_ground(m->plan, member, b);

		for (size_t cell = member->first_cells[b]; cell < member->first_cells[b + 1] && !rc; cell++) {
			size_t end = atomic_load_explicit(&m->pieces[cell], memory_order_relaxed);
			struct kedge__read_plan_unit u;

			if (!end)
				continue;
			u = unit_of(member, b, cell);
			u.first = *piece;
			u.count = end - *piece;
			u.leads = leads;
			unit_aim(m, &u, in_place);
			rc = unit_add(m, u, err);
			*piece = end;
		}
	}
	return rc;
}

/* ------------------------------------------------------------------ batches */

/* U follows the last unit of the batch in the plan; in the file the ground of another target may come before it. */
static bool batch_takes(const struct kedge__read_plan_batch *batch, const struct kedge__read_plan_unit *u,
			uint64_t full)
{
	return u[-1].segment == u->segment && batch->stored_bytes < full &&
	       kedge__read_plan_unit_at(&u[-1]) + u[-1].bytes <= kedge__read_plan_unit_at(u);
}

/* The units from FIRST on, in batches that are full from so many stored bytes on. */
static int batches_make(struct kedge__read_plan *plan, size_t first, uint64_t full, struct kedge__error *err)
{
	struct kedge__read_plan_batch *last = NULL;

	for (size_t i = first; i < plan->units.count; i++) {
		const struct kedge__read_plan_unit *u = &plan->units.at[i];
		const struct kedge__block_record *record = &u->segment->blocks[u->block];

		if (record->codec != KEDGE__CODEC_NONE)
			plan->raw_max = KEDGE__MAX(plan->raw_max, record->raw_bytes);
		plan->stored_max = KEDGE__MAX(plan->stored_max, u->bytes);
		if (!last || !batch_takes(last, u, full)) {
			if (!kedge__array_push(&plan->batches, ((struct kedge__read_plan_batch){.first = i})))
				return kedge__error_nomem(err);
			last = &plan->batches.at[plan->batches.count - 1];
		}
		last->count++;
		last->stored_bytes += u->bytes;
	}
	return 0;
}

/* A large batch, of which every thread has several. */
static uint64_t share_of(const struct maker *m)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < m->slot_count; i++)
		bytes += m->slots[i].bytes;
	return KEDGE__MIN(bytes / (16 * m->worker_count), KEDGE__OVERLAY_BYTES);
}

static void laid_count(struct kedge__read_plan *plan)
{
	for (size_t i = 0; i < plan->member_count; i++)
		for (size_t b = 0; plan->ground_count && b < plan->members[i].seg->block_count; b++)
			plan->laid_count +=
			    atomic_load_explicit(&plan->laid[plan->members[i].first_cells[b]], memory_order_relaxed);
	for (size_t i = 0; i < plan->overlay_count; i++)
		plan->laid_bytes += plan->overlays[i].bytes;
}

static int batches_cut(struct maker *m, bool in_place, struct kedge__error *err)
{
	struct kedge__read_plan *plan = m->plan;
	uint64_t full = plan->batch_bytes;
	size_t piece = 0, first;
	int rc = 0;

	laid_count(plan);
	if (plan->laid_bytes) /* pages of layers are read once for all units of a batch */
		plan->batch_bytes = KEDGE__MAX(full, share_of(m));

	for (size_t i = 0; plan->ground_count && i < m->slot_count && !rc; i++)
		rc = ground_units(m, &m->slots[i], err);
	if (!rc)
		rc = batches_make(plan, 0, plan->batch_bytes, err);
	plan->ground_batches = plan->batches.count;
	first = plan->units.count;
	for (size_t i = 0; i < plan->member_count && !rc; i++)
		rc = member_units(m, &plan->members[i], in_place, &piece, err);
	return rc ? rc : batches_make(plan, first, full, err);
}

/* ------------------------------------------------------------------ the plan */

static int cells_number(struct kedge__read_plan *plan, struct kedge__read_plan_member *member, struct kedge__error *err)
{
	const struct kedge__segment *seg = member->seg;

	member->first_cells = kedge__reallocarray(NULL, seg->block_count + 1, sizeof(*member->first_cells));
	if (!member->first_cells)
		return kedge__error_nomem(err);
	for (size_t b = 0; b < seg->block_count; b++) {
		const struct kedge__block_record *block = &seg->blocks[b];

		member->first_cells[b] = plan->cell_count;
		plan->cell_count += kedge__block_has_pages(block) ? kedge__pages_of(block->raw_bytes) : 1;
	}
	member->first_cells[seg->block_count] = plan->cell_count;
	return plan->cell_count > UINT32_MAX
		   ? kedge__error_set(err, KEDGE_E_LIMIT, 0, "the versions have too many blocks")
		   : 0;
}

static bool is_plain(const struct kedge__segment *seg)
{
	for (size_t b = 0; b < seg->block_count; b++)
		if (seg->blocks[b].codec != KEDGE__CODEC_NONE || !kedge__read_plan_paged(&seg->blocks[b]))
			return false;
	return true;
}

static int members_init(struct maker *m, struct kedge__error *err)
{
	struct kedge__read_plan *plan = m->plan;
	int rc = 0;

	plan->member_count = kedge__lineage_count(m->lineage);
	plan->members = kedge__calloc(plan->member_count, sizeof(*plan->members));
	if (!plan->members)
		return kedge__error_nomem(err);
	for (size_t i = 0; i < plan->member_count && !rc; i++) {
		const struct kedge__segment *seg = kedge__lineage_at(m->lineage, i);
		const struct kedge__block_record *last = seg->block_count ? &seg->blocks[seg->block_count - 1] : NULL;

		plan->members[i] =
		    (struct kedge__read_plan_member){.seg = seg,
						     .version = seg->header.version,
						     .literals = last ? last->position + last->raw_bytes : 0,
						     .plain = is_plain(seg)};
		rc = cells_number(plan, &plan->members[i], err);
	}
	return rc;
}

/* The top, its parent, and so on. */
static void chain_make(struct kedge__read_plan *plan)
{
	struct kedge__read_plan_member *next = plan->member_count ? &plan->members[plan->member_count - 1] : NULL;

	while (next) {
		uint64_t parent = next->seg->summary.parent;
		size_t i = (size_t)(next - plan->members);

		plan->chain[plan->chain_count++] = next;
		while (i > 0 && plan->members[i - 1].version > parent)
			i--;
		next = i > 0 && plan->members[i - 1].version == parent ? &plan->members[i - 1] : NULL;
	}
}

static int overlays_init(struct maker *m, struct kedge__error *err)
{
	struct kedge__read_plan *plan = m->plan;

	plan->chain = kedge__calloc(plan->member_count + 1, sizeof(*plan->chain));
	plan->laid = kedge__calloc(plan->cell_count + 1, sizeof(*plan->laid));
	plan->first_overlays = kedge__calloc(m->slot_count + 1, sizeof(*plan->first_overlays));
	m->overlayers = kedge__calloc(m->worker_count, sizeof(*m->overlayers));
	if (!plan->chain || !plan->laid || !plan->first_overlays || !m->overlayers)
		return kedge__error_nomem(err);
	for (size_t i = 0; i < m->worker_count; i++) {
		m->overlayers[i] = kedge__overlay_maker_new();
		if (!m->overlayers[i])
			return kedge__error_nomem(err);
	}
	chain_make(plan);
	return 0;
}

static int maker_init(struct maker *m, struct kedge__pool *pool, bool in_place, struct kedge__error *err)
{
	struct kedge__read_plan *plan = m->plan;
	int rc = members_init(m, err);

	if (!rc && in_place)
		rc = kedge__read_plan_choose(plan, m->slots, m->slot_count, err);
	if (rc)
		return rc;
	m->worker_count = (size_t)kedge__pool_threads(pool);
	m->spans = kedge__calloc(m->worker_count, sizeof(*m->spans));
	m->left = kedge__calloc(m->worker_count, sizeof(*m->left));
	m->pieces = kedge__calloc(plan->cell_count + 1, sizeof(*m->pieces));
	if (!m->pieces || !m->spans || !m->left)
		return kedge__error_nomem(err);
	if (plan->ground_count)
		rc = overlays_init(m, err);
	if (!rc)
		rc = slabs_cut(m, err);
	if (rc || !plan->ground_count)
		return rc;
	plan->overlays = kedge__calloc(m->ranges.count + 1, sizeof(*plan->overlays));
	plan->overlay_count = m->ranges.count;
	return plan->overlays ? 0 : kedge__error_nomem(err);
}

static void maker_done(struct maker *m)
{
	for (size_t i = 0; i < m->slabs.count; i++) {
		kedge__array_done(&m->slabs.at[i].sketches);
		kedge__array_done(&m->slabs.at[i].fills);
	}
	for (size_t i = 0; m->spans && i < m->worker_count; i++)
		kedge__span_list_done(&m->spans[i]);
	for (size_t i = 0; m->left && i < m->worker_count; i++)
		kedge__array_done(&m->left[i]);
	for (size_t i = 0; m->overlayers && i < m->worker_count; i++)
		kedge__free(m->overlayers[i]);
	kedge__array_done(&m->slabs);
	kedge__array_done(&m->ranges);
	kedge__free(m->spans);
	kedge__free(m->left);
	kedge__free(m->overlayers);
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
	rc = maker_init(&m, pool, in_place, err);
	if (!rc)
		rc = run(&m, pool, slab_resolve, err);
	if (!rc)
		rc = pieces_collect(&m, err);
	if (!rc)
		rc = fills_collect(&m, err);
	if (!rc)
		rc = run(&m, pool, slab_place, err);
	if (!rc)
		rc = batches_cut(&m, in_place, err);
	maker_done(&m);
	if (rc)
		kedge__read_plan_done(plan);
	return rc;
}

void kedge__read_plan_done(struct kedge__read_plan *plan)
{
	for (size_t i = 0; plan->members && i < plan->member_count; i++)
		kedge__free(plan->members[i].first_cells);
	kedge__free(plan->members);
	kedge__free(plan->grounds);
	kedge__free(plan->ground_live);
	for (size_t i = 0; plan->overlays && i < plan->overlay_count; i++) {
		kedge__array_done(&plan->overlays[i].layers);
		kedge__array_done(&plan->overlays[i].overs);
	}
	kedge__free(plan->overlays);
	kedge__free(plan->first_overlays);
	kedge__free(plan->laid);
	kedge__free(plan->chain);
	kedge__array_done(&plan->units);
	kedge__array_done(&plan->batches);
	kedge__array_done(&plan->fills);
	kedge__map_free(plan->pieces, plan->piece_count * sizeof(struct kedge__piece));
	*plan = (struct kedge__read_plan){0};
}
