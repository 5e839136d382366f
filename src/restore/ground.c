/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Blocks that are read directly to their places. A block that no codec touched, and all of whose live bytes go to one
 * place, may be read there as a whole, with the dead bytes between them, if other blocks put the right bytes over those
 * afterwards. So a block in many pieces takes one read and no copy. Such blocks are filled before all others, and none
 * may write where another one does: therefore they are, for each target, blocks of one version whose literals are all
 * shifted by the same distance, its ground: that which has most of its bytes. Other blocks have a place only if they
 * have no dead byte.
 */
#include "restore/read_plan.h"

#define PLACE_BYTES 4096 /* a block that is worth its own piece of a read */
#define TASK_BLOCKS 256  /* looked at by one task */

struct ground {
	uint64_t version;
	uint64_t shift; /* from the literal's position to the place in the target, modulo 2^64 */
};

struct target {
	const struct kedge__read_plan_slot *slot;
	struct ground counted, best;
	uint64_t live, most; /* bytes of each, in blocks that may be read to their places and follow each other */
};

struct chooser {
	struct kedge__read_plan *plan;
	struct target *targets;
};

/* Dead bytes are written to memory only to be overwritten: at most half of a block may be dead. */
static void block_look(const struct chooser *c, struct kedge__read_plan_block *b)
{
	const struct kedge__block_record *record = &b->segment->blocks[b->block];
	const struct kedge__piece *pieces = &c->plan->pieces[b->first];
	const struct kedge__read_plan_slot *slot = c->targets[pieces[0].target].slot;
	uint64_t from = (uint64_t)(pieces[0].to - slot->data) - pieces[0].offset, live = 0;

	if (record->codec != KEDGE__CODEC_NONE || record->raw_bytes < PLACE_BYTES ||
	    (uint64_t)(pieces[0].to - slot->data) < pieces[0].offset || record->raw_bytes > slot->bytes - from)
		return;
	for (size_t i = 0; i < b->count; i++) {
		if (pieces[i].target != pieces[0].target || pieces[i].to - pieces[i].offset != slot->data + from)
			return;
		live += pieces[i].len;
	}
	if (2 * live < record->raw_bytes)
		return;
	b->place = slot->data + from;
	b->shift = from - record->position;
	b->target = pieces[0].target;
	b->live = (uint32_t)live;
}

static int blocks_look(void *ctx, size_t i, int worker)
{
	const struct chooser *c = ctx;
	size_t end = KEDGE__MIN((i + 1) * TASK_BLOCKS, c->plan->blocks.count);

	(void)worker;
	for (size_t b = i * TASK_BLOCKS; b < end; b++)
		block_look(c, &c->plan->blocks.at[b]);
	return 0;
}

static struct ground ground_of(const struct kedge__read_plan_block *b)
{
	return (struct ground){b->version, b->shift};
}

static bool same(struct ground a, struct ground b)
{
	return a.version == b.version && a.shift == b.shift;
}

static void count_live(struct chooser *c)
{
	for (size_t i = 0; i < c->plan->blocks.count; i++) {
		const struct kedge__read_plan_block *b = &c->plan->blocks.at[i];
		struct target *t = &c->targets[b->target];

		if (!b->place)
			continue;
		if (!same(ground_of(b), t->counted))
			t->live = 0;
		t->counted = ground_of(b);
		t->live += b->live;
		if (t->live > t->most) {
			t->most = t->live;
			t->best = t->counted;
		}
	}
}

static bool is_ground(const struct chooser *c, const struct kedge__read_plan_block *b)
{
	return b->place && same(ground_of(b), c->targets[b->target].best);
}

/* In the order of the files, both those of the ground and the others. */
static size_t partition(struct chooser *c, struct kedge__read_plan_block *sorted)
{
	struct kedge__read_plan_block *all = c->plan->blocks.at;
	size_t n = c->plan->blocks.count, grounds = 0, others;

	for (size_t i = 0; i < n; i++)
		grounds += is_ground(c, &all[i]);
	others = grounds;
	for (size_t i = 0, ground = 0; i < n; i++) {
		struct kedge__read_plan_block *b = &sorted[is_ground(c, &all[i]) ? ground++ : others++];

		*b = all[i];
		if (b->place && !is_ground(c, b) && b->live < b->segment->blocks[b->block].raw_bytes)
			b->place = NULL;
	}
	return grounds;
}

int kedge__read_plan_ground(struct kedge__read_plan *plan, struct kedge__pool *pool,
			    const struct kedge__read_plan_slot *slots, size_t n, size_t *grounds,
			    struct kedge__error *err)
{
	struct chooser c = {.plan = plan, .targets = kedge__calloc(n, sizeof(*c.targets))};
	size_t count = plan->blocks.count;
	struct kedge__read_plan_block *sorted = kedge__reallocarray(NULL, count, sizeof(*sorted));
	int rc = c.targets && sorted ? 0 : kedge__error_nomem(err);

	for (size_t i = 0; i < n && !rc; i++)
		c.targets[slots[i].target] = (struct target){.slot = &slots[i], .counted = {KEDGE__NO_VERSION, 0}};
	if (!rc) {
		(void)kedge__pool_for(pool, (count + TASK_BLOCKS - 1) / TASK_BLOCKS, blocks_look, &c);
		count_live(&c);
		*grounds = partition(&c, sorted);
		kedge__free(plan->blocks.at);
		plan->blocks.at = sorted;
		plan->blocks.room = count;
		sorted = NULL;
	}
	kedge__free(sorted);
	kedge__free(c.targets);
	return rc;
}
