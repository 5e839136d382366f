/* SPDX-License-Identifier: BSD-3-Clause */
/* Read every block of a family, check it, unpack it, and pass it to all its users. */
#include "store/verify.h"

#include <stdlib.h>

#define BATCH_BLOCKS 512

struct turn { /* a block and its place: one thread reads all blocks of a place */
	uint64_t place;
	size_t block;
};

struct failure {
	size_t block;
	char *text;
};

struct block_check {
	struct kedge__family *family;
	const struct kedge__uses *uses; /* NULL: check stored bytes only */
	struct turn *turns;
	size_t *tasks; /* the first turn of each, and the end */
	size_t task_count;
	size_t first; /* task of the batch */
	size_t raw_room, stored_room;
	uint8_t **buffers; /* one per worker: raw, then stored */
	size_t workers;
	pthread_mutex_t mutex; /* protects FAILURES */
	KEDGE__ARRAY(struct failure) failures;
};

struct kedge__member *kedge__family_block(const struct kedge__family *f, size_t block)
{
	size_t i;

	KEDGE__LAST_BEFORE(i, f->count, f->members[i].first_block <= block);
	return &f->members[i];
}

/* ------------------------------------------------------------------ one block */

/* On failure the block cannot be read. *OWN: its own stored bytes are at fault; damage in a base is reported with the
 * base. */
static int read_block(const struct block_check *c, const struct kedge__member *m, size_t number, uint8_t *raw,
		      unsigned *depth, bool *own, struct kedge__error *err)
{
	const struct kedge__segment *seg = m->seg;
	size_t block = number - m->first_block;
	uint64_t self = seg->header.version, bad = self;
	int rc;

	if (kedge__block_has_pages(&seg->blocks[block]) && c->uses)
		kedge__lineage_count_block(c->family->lineage);
	if (kedge__block_has_pages(&seg->blocks[block]))
		rc = kedge__pages_read(c->family, seg, block, number, raw, err);
	else if (c->uses)
		rc = kedge__block_read_at(c->family->lineage, seg, block, raw, raw + c->raw_room, 0, depth, &bad, err);
	else
		rc = kedge__segment_read_stored(seg, block, raw + c->raw_room, err);
	*own = bad == self;
	/* Unlike in a restore, bases that are kept are not read again with their own bases. */
	if (!rc && *depth > KEDGE__BASE_DEPTH_READ)
		rc = kedge__error_set(err, KEDGE_E_DAMAGED, 0, "%s: more than %d blocks are packed against each other",
				      seg->path, KEDGE__BASE_DEPTH_READ);
	return rc;
}

static int failure_note(struct block_check *c, size_t block, const struct kedge__error *err)
{
	struct failure failure = {block, kedge__strdup(kedge__error_text(err))};
	int rc;

	pthread_mutex_lock(&c->mutex);
	rc = failure.text && kedge__array_push(&c->failures, failure) ? 0 : KEDGE_E_NOMEM;
	pthread_mutex_unlock(&c->mutex);
	if (rc)
		kedge__free(failure.text);
	return rc;
}

static void use_block(const struct block_check *c, size_t block, const uint8_t *raw)
{
	struct kedge__region_sum *sums = c->family->sums;
	const struct kedge__use *uses;
	size_t count;

	uses = kedge__uses_of(c->uses, block, &count);
	for (size_t i = 0; i < count; i++) {
		const struct kedge__use *u = &uses[i];

		if (kedge__family_bad_bytes(c->family, block, u->offset, u->len) && u->shared)
			kedge__region_sum_unread(&sums[u->sum], u->minus, u->len);
		else if (c->family->bad[block] && !u->shared)
			kedge__use_damaged(c->family, block, u, raw);
		else if (u->shared)
			memcpy((void *)(uintptr_t)u->at, raw + u->offset, u->len);
		else
			kedge__region_sum_part(&sums[u->sum], u->minus, raw + u->offset, u->len, u->at);
	}
}

static int check_block(struct block_check *c, size_t block, uint8_t *buffer)
{
	struct kedge__family *f = c->family;
	const struct kedge__member *m = kedge__family_block(f, block);
	struct kedge__error err = KEDGE__ERROR_INIT;
	unsigned depth = 0;
	bool own;
	int rc, noted = 0;

	rc = read_block(c, m, block, buffer, &depth, &own, &err);
	if (rc != KEDGE_E_NOMEM) {
		f->bad[block] = rc != 0;
		if (rc && own)
			noted = failure_note(c, block, &err);
		if (c->uses)
			use_block(c, block, buffer);
		if (c->uses && f->bases && !rc)
			kedge__bases_keep(f->bases, block, buffer, depth);
	}
	kedge__error_done(&err);
	return rc == KEDGE_E_NOMEM ? rc : noted;
}

static int check_task(void *ctx, size_t i, int worker)
{
	struct block_check *c = ctx;
	size_t task = c->first + i;
	int rc = 0;

	for (size_t k = c->tasks[task]; k < c->tasks[task + 1] && !rc; k++)
		rc = check_block(c, c->turns[k].block, c->buffers[worker]);
	return rc;
}

/* ------------------------------------------------------------------ many */

static void block_check_done(struct block_check *c)
{
	for (size_t i = 0; c->buffers && i < c->workers; i++)
		kedge__free(c->buffers[i]);
	kedge__free(c->buffers);
	for (size_t i = 0; i < c->failures.count; i++)
		kedge__free(c->failures.at[i].text);
	kedge__array_done(&c->failures);
	kedge__free(c->turns);
	kedge__free(c->tasks);
	pthread_mutex_destroy(&c->mutex);
}

static int compare_turns(const void *a, const void *b)
{
	const struct turn *x = a, *y = b;

	if (x->place != y->place)
		return x->place < y->place ? -1 : 1;
	return x->block < y->block ? -1 : x->block > y->block;
}

/* In the order of files; if blocks are packed against others, place by place, and within a place in the order of
 * versions. */
static bool turns_list(struct block_check *c, size_t first, size_t end)
{
	const struct kedge__bases *bases = c->uses ? c->family->bases : NULL;
	size_t n = end - first;

	c->turns = kedge__calloc(n + 1, sizeof(*c->turns));
	c->tasks = kedge__calloc(n + 1, sizeof(*c->tasks));
	if (!c->turns || !c->tasks)
		return false;
	for (size_t i = 0; i < n; i++)
		c->turns[i] = (struct turn){bases ? kedge__bases_place(bases, first + i) : i, first + i};
	if (bases)
		qsort(c->turns, n, sizeof(*c->turns), compare_turns);
	for (size_t i = 0; i < n; i++)
		if (!i || c->turns[i].place != c->turns[i - 1].place)
			c->tasks[c->task_count++] = i;
	c->tasks[c->task_count] = n;
	return true;
}

static void room_find(struct block_check *c, size_t first, size_t end)
{
	for (size_t i = first; i < end; i++) {
		const struct kedge__member *m = kedge__family_block(c->family, i);
		const struct kedge__block_record *b = &m->seg->blocks[i - m->first_block];

		c->raw_room = KEDGE__MAX(c->raw_room, b->raw_bytes);
		c->stored_room = KEDGE__MAX(c->stored_room, b->stored_bytes);
	}
}

static int block_check_init(struct block_check *c, size_t first, size_t end, struct kedge__error *err)
{
	struct kedge__pool *pool = c->family->verifier->pool;

	c->workers = (size_t)kedge__pool_threads(pool);
	pthread_mutex_init(&c->mutex, NULL);
	room_find(c, first, end);
	if (!turns_list(c, first, end)) {
		block_check_done(c);
		return kedge__error_nomem(err);
	}
	c->buffers = kedge__calloc(c->workers, sizeof(*c->buffers));
	for (size_t i = 0; c->buffers && i < c->workers; i++) {
		c->buffers[i] = kedge__malloc(c->raw_room + c->stored_room + 1);
		if (!c->buffers[i])
			break;
	}
	if (c->buffers && c->buffers[c->workers - 1])
		return 0;
	block_check_done(c);
	return kedge__error_nomem(err);
}

static int compare_failures(const void *a, const void *b)
{
	size_t x = ((const struct failure *)a)->block, y = ((const struct failure *)b)->block;

	return x < y ? -1 : x > y;
}

static void report_failures(struct block_check *c)
{
	struct kedge__verifier *v = c->family->verifier;

	if (c->failures.count)
		qsort(c->failures.at, c->failures.count, sizeof(*c->failures.at), compare_failures);
	for (size_t i = 0; i < c->failures.count; i++) {
		const struct kedge__member *m = kedge__family_block(c->family, c->failures.at[i].block);
		size_t block = c->failures.at[i].block - m->first_block;
		struct kedge__finding finding = {.version = m->seg->header.version,
						 .rank = c->family->rank,
						 .file = m->seg->path,
						 .block = (int64_t)block,
						 .region = m->seg->regions[m->seg->blocks[block].region].name,
						 .text = c->failures.at[i].text};

		v->vanished[m->entry] |= kedge__verifier_was_replaced(v, m->entry, c->family->rank);
		if (v->vanished[m->entry])
			continue;
		v->damaged[m->entry] = 1;
		kedge__verifier_report(v, &finding);
	}
}

static uint64_t stored_bytes(const struct block_check *c, size_t first, size_t end)
{
	uint64_t bytes = 0;

	for (size_t i = first; i < end; i++) {
		const struct kedge__member *m = kedge__family_block(c->family, c->turns[i].block);

		bytes += m->seg->blocks[c->turns[i].block - m->first_block].stored_bytes;
	}
	return bytes;
}

/* Tasks from FIRST on with up to a batch of blocks; at least one task. */
static size_t batch_end(const struct block_check *c)
{
	size_t end = c->first + 1;

	while (end < c->task_count && c->tasks[end + 1] - c->tasks[c->first] <= BATCH_BLOCKS)
		end++;
	return end;
}

int kedge__blocks_check(struct kedge__family *f, size_t first, size_t end, const struct kedge__uses *uses,
			struct kedge__error *err)
{
	struct kedge__verifier *v = f->verifier;
	struct block_check c = {.family = f, .uses = uses};
	int rc = block_check_init(&c, first, end, err);

	if (rc)
		return rc;
	for (size_t next; c.first < c.task_count && !rc; c.first = next) {
		next = batch_end(&c);
		rc = kedge__pool_for(v->pool, next - c.first, check_task, &c);
		kedge__verifier_advance(v, stored_bytes(&c, c.tasks[c.first], c.tasks[next]));
	}
	v->report->blocks += end - first;
	if (rc)
		(void)kedge__error_nomem(err);
	else
		report_failures(&c);
	block_check_done(&c);
	return rc;
}

/* ------------------------------------------------------------------ bases */

static bool meets_bad(const struct kedge__family *f, const struct kedge__span_list *spans)
{
	for (size_t i = 0; i < spans->count; i++) {
		const struct kedge__span *s = &spans->at[i];
		const struct kedge__member *m;

		if (s->fill)
			continue;
		m = &f->members[kedge__family_find(f, s->version)];
		for (size_t b = kedge__segment_find_block(m->seg, s->src);
		     b < m->seg->block_count && m->seg->blocks[b].position < s->src + s->len; b++) {
			const struct kedge__block_record *block = &m->seg->blocks[b];
			uint64_t from = KEDGE__MAX(s->src, block->position);
			uint64_t to = KEDGE__MIN(s->src + s->len, block->position + block->raw_bytes);

			if (kedge__family_bad_bytes(f, m->first_block + b, (uint32_t)(from - block->position),
						    (uint32_t)(to - from)))
				return true;
		}
	}
	return false;
}

static int spread_to(struct kedge__family *f, const struct kedge__member *m, size_t block, struct kedge__error *err)
{
	const struct kedge__block_record *b = &m->seg->blocks[block];
	struct kedge__span_list spans = {0};
	int rc;

	if (!kedge__codec_needs_base(b->codec, b->param) || f->bad[m->first_block + block])
		return 0;
	rc =
	    kedge__lineage_segment(f->lineage, m->seg->base)
		? kedge__base_resolve(f->lineage, m->seg->base, &m->seg->places, b->position, b->raw_bytes, &spans, err)
		: KEDGE_E_MISSING;
	if (rc != KEDGE_E_NOMEM)
		f->bad[m->first_block + block] = rc || meets_bad(f, &spans);
	kedge__span_list_done(&spans);
	return rc == KEDGE_E_NOMEM ? rc : 0;
}

/* Bases are older, so one pass from the oldest on is enough. */
int kedge__blocks_spread(struct kedge__family *f, struct kedge__error *err)
{
	int rc = 0;

	for (size_t i = 0; i < f->count && !rc; i++) {
		const struct kedge__member *m = &f->members[i];

		for (size_t b = 0; m->seg && m->seg->base != KEDGE__NO_VERSION && b < m->seg->block_count && !rc; b++)
			rc = spread_to(f, m, b, err);
	}
	return rc;
}
