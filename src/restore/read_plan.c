#include "restore/read_plan.h"

#define BATCH_BYTES (UINT64_C(2) << 20)
#define FILL_BYTES  (UINT64_C(4) << 20)

/* While the plan is made: pieces are counted for each block of each segment, then put in their places. */
struct tally {
	struct kedge__lineage *lineage;
	size_t *base;   /* of each segment's blocks in `pieces` */
	size_t *pieces; /* one a block; later: the place of its next piece */
	size_t segments, blocks;
};

static void tally_done(struct tally *t)
{
	kedge__free(t->base);
	kedge__free(t->pieces);
}

static int tally_init(struct tally *t, struct kedge__lineage *l, struct kedge__error *err)
{
	t->lineage = l;
	t->segments = kedge__lineage_count(l);
	t->base = kedge__reallocarray(NULL, t->segments + 1, sizeof(size_t));
	if (!t->base)
		return kedge__error_nomem(err);
	for (size_t i = 0; i < t->segments; i++) {
		t->base[i] = t->blocks;
		t->blocks += kedge__lineage_at(l, i)->block_count;
	}
	t->pieces = kedge__calloc(t->blocks + 1, sizeof(size_t));
	return t->pieces ? 0 : kedge__error_nomem(err);
}

static int segment_index(const struct tally *t, uint64_t version, size_t *index, struct kedge__error *err)
{
	size_t low = 0, high = t->segments;

	while (low < high) {
		size_t mid = low + (high - low) / 2;
		uint64_t there = kedge__lineage_at(t->lineage, mid)->header.version;

		if (there == version) {
			*index = mid;
			return 0;
		}
		if (there < version)
			low = mid + 1;
		else
			high = mid;
	}
	return kedge__error_set(err, KEDGE_E_INTERNAL, 0, "version %llu is not in the lineage",
				(unsigned long long)version);
}

/* Walks spans in step with the slots, both ascending. Calls literal() or fill() for what lies in each target. */
struct walk {
	struct tally *tally;
	struct kedge__read_plan *plan;
	const struct kedge__read_plan_slot *slots;
	size_t slot_count;
	int (*literal)(struct walk *w, const struct kedge__span *s, uint8_t *to, uint32_t target,
		       struct kedge__error *err);
	int (*fill)(struct walk *w, const struct kedge__span *s, uint8_t *to, uint32_t target,
		    struct kedge__error *err);
};

static int walk_spans(struct walk *w, const struct kedge__span_list *spans, struct kedge__error *err)
{
	size_t i = 0;

	for (size_t s = 0; s < spans->count; s++) {
		const struct kedge__span *span = &spans->at[s];
		const struct kedge__read_plan_slot *slot;
		uint8_t *to;
		int rc;

		while (i < w->slot_count && w->slots[i].base + w->slots[i].bytes <= span->addr)
			i++;
		slot = &w->slots[i];
		if (i == w->slot_count || span->addr < slot->base ||
		    span->len > slot->bytes - (span->addr - slot->base))
			return kedge__error_set(err, KEDGE_E_INTERNAL, 0,
						"a resolved range lies outside of its region");
		to = slot->data + (span->addr - slot->base);
		rc = (span->fill ? w->fill : w->literal)(w, span, to, slot->target, err);
		if (rc)
			return rc;
	}
	return 0;
}

/* The part of SPAN that lies in block B, at literal position POS. */
static uint64_t part_of(const struct kedge__block_record *b, uint64_t pos, uint64_t left)
{
	return KEDGE__MIN(left, b->position + b->raw_bytes - pos);
}

static int span_check(const struct kedge__segment *seg, const struct kedge__span *s, struct kedge__error *err)
{
	const struct kedge__block_record *last = seg->block_count ? &seg->blocks[seg->block_count - 1] : NULL;
	uint64_t end = last ? last->position + last->raw_bytes : 0;

	if (s->src <= end && s->len <= end - s->src)
		return 0;
	return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "%s: literals are referred to that no block holds", seg->path);
}

static int count_literal(struct walk *w, const struct kedge__span *s, uint8_t *to, uint32_t target,
			 struct kedge__error *err)
{
	const struct kedge__segment *seg;
	uint64_t pos = s->src, left = s->len;
	size_t index, b;
	int rc = segment_index(w->tally, s->version, &index, err);

	(void)to, (void)target;
	if (rc)
		return rc;
	seg = kedge__lineage_at(w->tally->lineage, index);
	rc = span_check(seg, s, err);
	if (rc)
		return rc;
	for (b = kedge__segment_find_block(seg, pos); left; b++) {
		uint64_t n = part_of(&seg->blocks[b], pos, left);

		w->tally->pieces[w->tally->base[index] + b]++;
		w->plan->piece_count++;
		pos += n;
		left -= n;
	}
	return 0;
}

static int skip_fill(struct walk *w, const struct kedge__span *s, uint8_t *to, uint32_t target,
		     struct kedge__error *err)
{
	(void)w, (void)s, (void)to, (void)target, (void)err;
	return 0;
}

static int place_literal(struct walk *w, const struct kedge__span *s, uint8_t *to, uint32_t target,
			 struct kedge__error *err)
{
	const struct kedge__segment *seg;
	uint64_t pos = s->src, left = s->len;
	size_t index, b;
	int rc = segment_index(w->tally, s->version, &index, err);

	if (rc)
		return rc;
	seg = kedge__lineage_at(w->tally->lineage, index);
	for (b = kedge__segment_find_block(seg, pos); left; b++) {
		uint64_t n = part_of(&seg->blocks[b], pos, left);
		size_t place = w->tally->pieces[w->tally->base[index] + b]++;

		w->plan->pieces[place] = (struct kedge__piece){.to = to,
							       .offset = (uint32_t)(pos - seg->blocks[b].position),
							       .len = (uint32_t)n,
							       .target = target};
		to += n;
		pos += n;
		left -= n;
	}
	return 0;
}

static int place_fill(struct walk *w, const struct kedge__span *s, uint8_t *to, uint32_t target,
		      struct kedge__error *err)
{
	for (uint64_t done = 0; done < s->len; done += FILL_BYTES) {
		struct kedge__read_plan_fill f = {.to = to + done,
						  .len = KEDGE__MIN(FILL_BYTES, s->len - done),
						  .pattern = s->src,
						  .addr = s->addr + done,
						  .target = target};

		if (!kedge__array_push(&w->plan->fills, f))
			return kedge__error_nomem(err);
	}
	return 0;
}

static bool batch_takes(const struct kedge__read_plan *plan, const struct kedge__read_plan_batch *batch,
			const struct kedge__read_plan_block *b)
{
	const struct kedge__read_plan_block *last = &plan->blocks.at[batch->first + batch->count - 1];

	return last->segment == b->segment && batch->stored_bytes < BATCH_BYTES;
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

/* Counts become places, and blocks that have a live byte enter the plan, in the order of the files. */
static int blocks_collect(struct kedge__read_plan *plan, struct tally *t, struct kedge__error *err)
{
	size_t place = 0;

	for (size_t s = 0; s < t->segments; s++) {
		const struct kedge__segment *seg = kedge__lineage_at(t->lineage, s);

		for (size_t b = 0; b < seg->block_count; b++) {
			size_t *slot = &t->pieces[t->base[s] + b], count = *slot;
			struct kedge__read_plan_block block = {seg, seg->header.version, b, place, count};
			int rc = count ? block_add(plan, block, err) : 0;

			if (rc)
				return rc;
			*slot = place;
			place += count;
		}
	}
	return 0;
}

int kedge__read_plan_make(struct kedge__read_plan *plan, struct kedge__lineage *l, const struct kedge__span_list *spans,
			  const struct kedge__read_plan_slot *slots, size_t n, struct kedge__error *err)
{
	struct tally t = {0};
	struct walk w = {.tally = &t, .plan = plan, .slots = slots, .slot_count = n};
	int rc = tally_init(&t, l, err);

	*plan = (struct kedge__read_plan){0};
	w.literal = count_literal;
	w.fill = skip_fill;
	if (!rc)
		rc = walk_spans(&w, spans, err);
	if (!rc)
		rc = blocks_collect(plan, &t, err);
	if (!rc && plan->piece_count) {
		plan->pieces = kedge__reallocarray(NULL, plan->piece_count, sizeof(struct kedge__piece));
		if (!plan->pieces)
			rc = kedge__error_nomem(err);
	}
	w.literal = place_literal;
	w.fill = place_fill;
	if (!rc)
		rc = walk_spans(&w, spans, err);
	tally_done(&t);
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
