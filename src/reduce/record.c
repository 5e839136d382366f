/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * record.c: tables, shards, epochs (see record.h for the rules).
 */
#include "reduce/record.h"

#define SLOT_BYTES     sizeof(struct kedge__record_slot)
#define SMALLEST_TABLE 16
#define MAPPED_TABLE   2048 /* slots from which a table is mapped rather than allocated */

static size_t load_limit(size_t size)
{
	return size / 10 * 7 + size % 10 * 7 / 10;
}

static struct kedge__record_slot *table_alloc(size_t size)
{
	return size >= MAPPED_TABLE ? kedge__map_alloc(size * SLOT_BYTES) : kedge__calloc(size, SLOT_BYTES);
}

static void table_done(struct kedge__record_table *t)
{
	if (t->size >= MAPPED_TABLE)
		kedge__map_free(t->at, t->size * SLOT_BYTES);
	else
		kedge__free(t->at);
	memset(t, 0, sizeof(*t));
}

void kedge__record_limit(struct kedge__record *rec, uint64_t bytes)
{
	uint64_t slots = bytes / KEDGE__RECORD_SHARDS / 2 / SLOT_BYTES;

	slots = KEDGE__MIN(slots, (uint64_t)SIZE_MAX / SLOT_BYTES / 4);
	for (rec->size_limit = 1; rec->size_limit <= slots / 2; rec->size_limit *= 2)
		;
	rec->room = KEDGE__MIN(load_limit((size_t)slots), load_limit(rec->size_limit));
	for (size_t i = 0; i < KEDGE__RECORD_SHARDS; i++) {
		if (rec->shards[i].now.size > rec->size_limit)
			table_done(&rec->shards[i].now);
		if (rec->shards[i].before.size > rec->size_limit)
			table_done(&rec->shards[i].before);
	}
}

void kedge__record_init(struct kedge__record *rec, uint64_t bytes)
{
	memset(rec, 0, sizeof(*rec));
	kedge__record_limit(rec, bytes);
}

void kedge__record_empty(struct kedge__record *rec)
{
	for (size_t i = 0; i < KEDGE__RECORD_SHARDS; i++) {
		struct kedge__record_shard *s = &rec->shards[i];

		table_done(&s->now);
		table_done(&s->before);
		kedge__array_done(&s->again);
		s->full = false;
	}
}

uint64_t kedge__record_memory(const struct kedge__record *rec)
{
	uint64_t slots = 0;

	for (size_t i = 0; i < KEDGE__RECORD_SHARDS; i++)
		slots += rec->shards[i].now.size + rec->shards[i].before.size;
	return slots * SLOT_BYTES;
}

bool kedge__record_is_empty(const struct kedge__record *rec)
{
	for (size_t i = 0; i < KEDGE__RECORD_SHARDS; i++)
		if (rec->shards[i].now.used || rec->shards[i].before.used)
			return false;
	return true;
}

void kedge__record_done(struct kedge__record *rec)
{
	kedge__record_empty(rec);
	kedge__array_done(&rec->epochs);
	rec->current = 0;
}

static size_t shard_of(struct kedge__digest key)
{
	return (size_t)(key.hi >> 58);
}

static size_t home(const struct kedge__record_table *t, struct kedge__digest key, uint32_t level)
{
	return (size_t)(key.lo ^ level) & (t->size - 1);
}

/* The slot of the key, or the empty one where it would go; NULL if there is no table. */
static struct kedge__record_slot *table_slot(const struct kedge__record_table *t, struct kedge__digest key,
					     uint32_t level)
{
	size_t i;

	if (!t->size)
		return NULL;
	for (i = home(t, key, level); t->at[i].epoch; i = (i + 1) & (t->size - 1))
		if (kedge__digest_equal(t->at[i].key, key) && t->at[i].level == level)
			break;
	return &t->at[i];
}

static void table_prefetch(const struct kedge__record_table *t, struct kedge__digest key, uint32_t level)
{
	if (t->size)
		__builtin_prefetch(&t->at[home(t, key, level)]);
}

/* May this version refer to it? */
static bool usable(const struct kedge__record *rec, uint32_t epoch)
{
	const struct kedge__epoch *e = &rec->epochs.at[epoch];

	return e->alive && (epoch == rec->current || e->version < rec->epochs.at[rec->current].version);
}

/* Make room for one more entry in the current table, without the dead ones. False: it is full. */
static bool table_rebuild(const struct kedge__record *rec, struct kedge__record_table *t)
{
	struct kedge__record_table fresh = {NULL, SMALLEST_TABLE, 0};
	size_t live = 0, wanted;

	for (size_t i = 0; i < t->size; i++)
		live += t->at[i].epoch && rec->epochs.at[t->at[i].epoch].alive;
	if (live + 1 > rec->room)
		return false;
	wanted = live + KEDGE__MAX(live / 2, rec->expected) + 1;
	while (load_limit(fresh.size) < wanted && fresh.size < rec->size_limit)
		fresh.size *= 2;
	fresh.size = KEDGE__MIN(fresh.size, rec->size_limit);
	fresh.at = table_alloc(fresh.size);
	if (!fresh.at)
		return false;
	for (size_t i = 0; i < t->size; i++) {
		const struct kedge__record_slot *s = &t->at[i];

		if (s->epoch && rec->epochs.at[s->epoch].alive)
			*table_slot(&fresh, s->key, s->level) = *s;
	}
	fresh.used = live;
	table_done(t);
	*t = fresh;
	return true;
}

static bool table_put(const struct kedge__record *rec, struct kedge__record_table *t,
		      const struct kedge__record_slot *entry)
{
	struct kedge__record_slot *s;

	if (t->used >= KEDGE__MIN(load_limit(t->size), rec->room) && !table_rebuild(rec, t))
		return false;
	s = table_slot(t, entry->key, entry->level);
	t->used += !s->epoch;
	*s = *entry;
	return true;
}

/* A hit in the previous table is entered again at commit; without memory, or with too many of them, it is not. */
static void note_again(const struct kedge__record *rec, struct kedge__record_shard *s,
		       const struct kedge__record_slot *hit)
{
	if (s->again.count < rec->room / 2)
		(void)kedge__array_push(&s->again, *hit);
}

static void probe_one(const struct kedge__record *rec, struct kedge__record_shard *s, struct kedge__probe *p)
{
	const struct kedge__record_slot *hit = table_slot(&s->now, p->key, p->level);
	const struct kedge__record_slot *old;
	struct kedge__record_slot entry = {p->key, p->addr, rec->current, p->level};

	if (hit && hit->epoch && rec->epochs.at[hit->epoch].alive) {
		p->outcome = usable(rec, hit->epoch) ? KEDGE__PROBE_FOUND : KEDGE__PROBE_LOST;
		p->src = hit->addr;
		p->epoch = hit->epoch;
		return;
	}
	old = table_slot(&s->before, p->key, p->level);
	if (old && old->epoch && usable(rec, old->epoch)) {
		p->outcome = KEDGE__PROBE_FOUND;
		p->src = old->addr;
		p->epoch = old->epoch;
		note_again(rec, s, old);
		return;
	}
	p->outcome = KEDGE__PROBE_LOST;
	if (!s->full && table_put(rec, &s->now, &entry))
		p->outcome = KEDGE__PROBE_ENTERED;
	else
		s->full = true;
}

const struct kedge__record_slot *kedge__record_find(const struct kedge__record *rec, struct kedge__digest key,
						    uint32_t level, bool *old)
{
	const struct kedge__record_shard *s = &rec->shards[shard_of(key)];
	const struct kedge__record_slot *slot = table_slot(&s->now, key, level);

	*old = false;
	if (slot && slot->epoch && rec->epochs.at[slot->epoch].alive)
		return usable(rec, slot->epoch) ? slot : NULL;
	*old = true;
	slot = table_slot(&s->before, key, level);
	return slot && slot->epoch && usable(rec, slot->epoch) ? slot : NULL;
}

void kedge__record_touch(struct kedge__record *rec, const struct kedge__record_slot *slot)
{
	note_again(rec, &rec->shards[shard_of(slot->key)], slot);
}

/* ---- batches: probes are dealt out to shards in order, and the shards to threads */

#define BLOCK 4096 /* probes that are dealt out by one thread; independent of the number of threads */
#define AHEAD 12   /* probes whose slots are on their way from memory */

struct batch {
	struct kedge__record *rec;
	struct kedge__probe *probes;
	size_t n;
	uint32_t *order;                          /* probes sorted by shard, then by place */
	uint32_t (*counts)[KEDGE__RECORD_SHARDS]; /* a row a block: how many, then where they go */
	size_t begin[KEDGE__RECORD_SHARDS + 1];
};

static int count_block(void *ctx, size_t block, int worker)
{
	struct batch *b = ctx;
	size_t end = KEDGE__MIN((block + 1) * BLOCK, b->n);

	(void)worker;
	for (size_t i = block * BLOCK; i < end; i++)
		b->counts[block][shard_of(b->probes[i].key)]++;
	return 0;
}

static int deal_block(void *ctx, size_t block, int worker)
{
	struct batch *b = ctx;
	size_t end = KEDGE__MIN((block + 1) * BLOCK, b->n);

	(void)worker;
	for (size_t i = block * BLOCK; i < end; i++)
		b->order[b->counts[block][shard_of(b->probes[i].key)]++] = (uint32_t)i;
	return 0;
}

static void place_blocks(struct batch *b, size_t blocks)
{
	uint32_t at = 0;

	for (size_t shard = 0; shard < KEDGE__RECORD_SHARDS; shard++) {
		b->begin[shard] = at;
		for (size_t block = 0; block < blocks; block++) {
			uint32_t n = b->counts[block][shard];

			b->counts[block][shard] = at;
			at += n;
		}
	}
	b->begin[KEDGE__RECORD_SHARDS] = at;
}

static int enter_shard(void *ctx, size_t shard, int worker)
{
	struct batch *b = ctx;
	struct kedge__record_shard *s = &b->rec->shards[shard];

	(void)worker;
	for (size_t i = b->begin[shard]; i < b->begin[shard + 1]; i++) {
		if (i + AHEAD < b->begin[shard + 1]) {
			const struct kedge__probe *p = &b->probes[b->order[i + AHEAD]];

			table_prefetch(&s->now, p->key, p->level);
			table_prefetch(&s->before, p->key, p->level);
		}
		probe_one(b->rec, s, &b->probes[b->order[i]]);
	}
	return 0;
}

static void enter_few(struct kedge__record *rec, struct kedge__probe *probes, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (i + AHEAD < n) {
			const struct kedge__probe *p = &probes[i + AHEAD];

			table_prefetch(&rec->shards[shard_of(p->key)].now, p->key, p->level);
			table_prefetch(&rec->shards[shard_of(p->key)].before, p->key, p->level);
		}
		probe_one(rec, &rec->shards[shard_of(probes[i].key)], &probes[i]);
	}
}

int kedge__record_enter(struct kedge__record *rec, struct kedge__pool *pool, struct kedge__probe *probes, size_t n,
			struct kedge__error *err)
{
	struct batch b = {.rec = rec, .probes = probes, .n = n};
	size_t blocks = (n + BLOCK - 1) / BLOCK;

	if (blocks <= 1 || !pool || kedge__pool_threads(pool) == 1) {
		enter_few(rec, probes, n);
		return 0;
	}
	b.order = kedge__malloc(n * sizeof(*b.order));
	b.counts = kedge__calloc(blocks, sizeof(*b.counts));
	if (!b.order || !b.counts) {
		kedge__free(b.order);
		kedge__free(b.counts);
		return kedge__error_nomem(err);
	}
	kedge__pool_for(pool, blocks, count_block, &b);
	place_blocks(&b, blocks);
	kedge__pool_for(pool, blocks, deal_block, &b);
	kedge__pool_for(pool, KEDGE__RECORD_SHARDS, enter_shard, &b);
	kedge__free(b.order);
	kedge__free(b.counts);
	return 0;
}

/* ---- epochs */

int kedge__record_begin(struct kedge__record *rec, uint64_t version, bool resume, struct kedge__error *err)
{
	struct kedge__epoch none = {0}, fresh = {.version = version, .alive = true};
	size_t last = rec->epochs.count;

	if (resume && last > 1 && rec->epochs.at[last - 1].alive && rec->epochs.at[last - 1].version == version) {
		rec->current = (uint32_t)(last - 1);
		return 0;
	}
	if (last >= UINT32_MAX)
		return kedge__error_set(err, KEDGE_E_LIMIT, 0, "the hash record is at its last epoch");
	if ((!last && !kedge__array_push(&rec->epochs, none)) || !kedge__array_push(&rec->epochs, fresh))
		return kedge__error_nomem(err);
	rec->current = (uint32_t)(rec->epochs.count - 1);
	return 0;
}

/* The previous table is forgotten, and a new one begun. */
static void rotate(struct kedge__record_shard *s)
{
	table_done(&s->before);
	s->before = s->now;
	memset(&s->now, 0, sizeof(s->now));
	s->full = false;
}

static void enter_again(const struct kedge__record *rec, struct kedge__record_shard *s)
{
	for (size_t i = 0; i < s->again.count; i++) {
		const struct kedge__record_slot *e = &s->again.at[i], *hit = table_slot(&s->now, e->key, e->level);

		if (hit && hit->epoch && rec->epochs.at[hit->epoch].alive)
			continue;
		if (!table_put(rec, &s->now, e)) {
			rotate(s);
			(void)table_put(rec, &s->now, e);
		}
	}
	kedge__array_done(&s->again);
}

void kedge__record_commit(struct kedge__record *rec)
{
	for (size_t i = 0; i < KEDGE__RECORD_SHARDS; i++) {
		struct kedge__record_shard *s = &rec->shards[i];

		if (s->full)
			rotate(s);
		enter_again(rec, s);
	}
	rec->current = 0;
}

void kedge__record_rollback(struct kedge__record *rec)
{
	if (rec->current)
		rec->epochs.at[rec->current].alive = false;
	for (size_t i = 0; i < KEDGE__RECORD_SHARDS; i++) {
		kedge__array_done(&rec->shards[i].again);
		rec->shards[i].full = false;
	}
	rec->current = 0;
}

uint32_t kedge__record_epoch_of(const struct kedge__record *rec, uint64_t version)
{
	for (size_t i = rec->epochs.count; i-- > 1;)
		if (rec->epochs.at[i].alive && rec->epochs.at[i].version == version)
			return (uint32_t)i;
	return 0;
}

void kedge__record_identify(struct kedge__record *rec, uint64_t version, struct kedge__digest id)
{
	uint32_t epoch = kedge__record_epoch_of(rec, version);

	if (epoch)
		rec->epochs.at[epoch].id = id;
}

void kedge__record_retain(struct kedge__record *rec, const struct kedge__image_key *alive, size_t n)
{
	for (size_t i = 1; i < rec->epochs.count; i++) {
		struct kedge__epoch *e = &rec->epochs.at[i];
		const struct kedge__image_key *key = kedge__image_key_find(alive, n, e->version);

		e->alive = e->alive && key && kedge__digest_equal(key->id, e->id);
	}
}
