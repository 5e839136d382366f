#include "restore/read_plan.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>

/* A target that is summed when all is there is summed in slabs of this many bytes: a multiple of 8. */
#define SLAB_BYTES (UINT64_C(4) << 20)

/* Pieces smaller than this on average cost more to sum one by one than a second pass over the memory does. */
#define SMALL_PIECE 1024

/* A target as the fill sees it. */
struct goal {
	const struct kedge__region_record *record;
	uint8_t *data;
	atomic_bool odd; /* its sum is taken when all is there: pieces are small, or not all at multiples of 8 */
};

struct hand { /* a worker's own */
	uint8_t *raw, *stored;
	struct kedge__sum *sums; /* one a target */
	uint64_t bytes_read, blocks_read;
};

struct filling {
	struct kedge__lineage *lineage;
	struct kedge__pool *pool;
	struct kedge__read_plan plan;
	struct goal *goals;
	size_t goal_count;
	struct hand *hands;
	size_t hand_count;
	bool sum_later;
	bool check; /* read and check blocks, and touch no target */

	void (*progress)(void *ctx, uint64_t done, uint64_t total);
	void *progress_ctx;
	atomic_uint_least64_t done;
	uint64_t total;

	pthread_mutex_t lock; /* guards what follows, and progress calls */
	struct kedge__error first;
	KEDGE__ARRAY(uint64_t) damaged; /* versions whose segment failed */
	bool lost;                      /* a failure that another copy cannot mend */
};

static void progress_add(struct filling *f, uint64_t bytes)
{
	uint64_t done = atomic_fetch_add(&f->done, bytes) + bytes;

	if (!f->progress || pthread_mutex_trylock(&f->lock) != 0)
		return;
	f->progress(f->progress_ctx, KEDGE__MIN(done, f->total), f->total);
	pthread_mutex_unlock(&f->lock);
}

/* Sum bytes while they are in the cache; a piece that cannot be summed alone leaves its target for later. */
static void sum_piece(struct filling *f, struct hand *h, uint32_t target, const uint8_t *at, uint64_t len)
{
	struct goal *g = &f->goals[target];
	uint64_t pos = (uint64_t)(at - g->data);

	if (f->sum_later || pos % 8 || (len % 8 && pos + len != g->record->bytes)) {
		atomic_store_explicit(&g->odd, true, memory_order_relaxed);
		return;
	}
	h->sums[target] = kedge__sum_add(h->sums[target], kedge__sum_of(at, len, pos));
}

static bool mendable(int code)
{
	return code == KEDGE_E_DAMAGED || code == KEDGE_E_IO || code == KEDGE_E_MISSING || code == KEDGE_E_ACCESS;
}

/* Note a block that could not be read, for the segment of VERSION. All others are still tried, so that one pass finds every bad segment. */
static void block_failed(struct filling *f, uint64_t version, struct kedge__error *err)
{
	bool known = false;

	pthread_mutex_lock(&f->lock);
	for (size_t i = 0; i < f->damaged.count; i++)
		known = known || f->damaged.at[i] == version;
	if (!mendable(err->code) || (!known && !kedge__array_push(&f->damaged, version)))
		f->lost = true;
	if (!f->first.code)
		kedge__error_move(&f->first, err);
	pthread_mutex_unlock(&f->lock);
}

/* RAW is NULL if the pieces are in their places already. */
static uint64_t pieces_take(struct filling *f, struct hand *h, const struct kedge__piece *pieces, size_t n,
			    const uint8_t *raw)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < n; i++) {
		if (raw)
			memcpy(pieces[i].to, raw + pieces[i].offset, pieces[i].len);
		sum_piece(f, h, pieces[i].target, pieces[i].to, pieces[i].len);
		bytes += pieces[i].len;
	}
	return bytes;
}

/* A block that goes to one place as a whole, or nearly so, is read or decoded right into it. */
static int block_fill(struct filling *f, struct hand *h, const struct kedge__read_plan_block *b,
		      uint64_t *bad, struct kedge__error *err)
{
	const struct kedge__block_record *record = &b->segment->blocks[b->block];
	const struct kedge__piece *pieces = &f->plan.pieces[b->first];
	bool whole = !f->check && b->count == 1 && pieces[0].len == record->raw_bytes;
	uint8_t *to = whole ? pieces[0].to : b->direct ? b->direct : h->raw;
	int rc = kedge__lineage_read_block(f->lineage, b->segment, b->block, to, h->stored, bad, err);
	uint64_t bytes;

	if (rc)
		return rc;
	h->blocks_read++;
	h->bytes_read += record->stored_bytes;
	bytes = f->check ? record->raw_bytes : pieces_take(f, h, pieces, b->count, to == h->raw ? to : NULL);
	progress_add(f, bytes);
	return 0;
}

/* The blocks of batch I that are direct, or those that are not. */
static void batch_fill(struct filling *f, size_t i, int worker, bool direct)
{
	const struct kedge__read_plan_batch *batch = &f->plan.batches.at[i];

	for (size_t b = 0; b < batch->count; b++) {
		const struct kedge__read_plan_block *block = &f->plan.blocks.at[batch->first + b];
		struct kedge__error err = KEDGE__ERROR_INIT;
		uint64_t bad;

		if ((block->direct != NULL) != direct)
			continue;
		if (block_fill(f, &f->hands[worker], block, &bad, &err))
			block_failed(f, bad, &err);
		kedge__error_done(&err);
	}
}

static int batch_fill_direct(void *ctx, size_t i, int worker)
{
	batch_fill(ctx, i, worker, true);
	return 0;
}

static int batch_fill_rest(void *ctx, size_t i, int worker)
{
	batch_fill(ctx, i, worker, false);
	return 0;
}

/* The byte at image address A is byte A & 7 of the pattern. */
static void pattern_fill(uint8_t *to, uint64_t len, uint64_t pattern, uint64_t addr)
{
	uint8_t bytes[8];
	uint64_t i = 0;

	kedge__put64(bytes, pattern);
	if (pattern == UINT64_C(0x0101010101010101) * bytes[0]) {
		memset(to, bytes[0], len);
		return;
	}
	for (; i < len && (addr + i) % 8; i++)
		to[i] = bytes[(addr + i) % 8];
	for (; len - i >= 8; i += 8)
		memcpy(to + i, bytes, 8);
	for (; i < len; i++)
		to[i] = bytes[(addr + i) % 8];
}

static int fill_fill(void *ctx, size_t i, int worker)
{
	struct filling *f = ctx;
	const struct kedge__read_plan_fill *fill = &f->plan.fills.at[i];

	pattern_fill(fill->to, fill->len, fill->pattern, fill->addr);
	sum_piece(f, &f->hands[worker], fill->target, fill->to, fill->len);
	progress_add(f, fill->len);
	return 0;
}

static void hands_done(struct filling *f)
{
	for (size_t i = 0; f->hands && i < f->hand_count; i++) {
		kedge__free(f->hands[i].raw);
		kedge__free(f->hands[i].stored);
		kedge__free(f->hands[i].sums);
	}
	kedge__free(f->hands);
	f->hands = NULL;
}

static int hands_init(struct filling *f, struct kedge__error *err)
{
	f->hand_count = f->pool ? (size_t)kedge__pool_threads(f->pool) : 1;
	f->hands = kedge__calloc(f->hand_count, sizeof(struct hand));
	if (!f->hands)
		return kedge__error_nomem(err);
	for (size_t i = 0; i < f->hand_count; i++) {
		struct hand *h = &f->hands[i];

		h->raw = kedge__malloc(f->plan.raw_max + 1);
		h->stored = kedge__malloc(f->plan.stored_max + 1);
		h->sums = kedge__calloc(f->goal_count, sizeof(struct kedge__sum));
		if (!h->raw || !h->stored || !h->sums)
			return kedge__error_nomem(err);
	}
	return 0;
}

/* ------------------------------------------------------------------ region digests */

struct slab {
	uint32_t target;
	uint64_t pos, len;
};

struct slab_work {
	struct filling *f;
	KEDGE__ARRAY(struct slab) slabs;
};

static int slab_sum(void *ctx, size_t i, int worker)
{
	struct slab_work *w = ctx;
	const struct slab *s = &w->slabs.at[i];
	struct kedge__sum *sum = &w->f->hands[worker].sums[s->target];

	*sum = kedge__sum_add(*sum, kedge__sum_of(w->f->goals[s->target].data + s->pos, s->len, s->pos));
	return 0;
}

/* Targets with odd pieces are summed again as a whole. */
static int odd_sum(struct filling *f, struct kedge__error *err)
{
	struct slab_work w = {.f = f};

	for (size_t t = 0; t < f->goal_count; t++) {
		uint64_t bytes = f->goals[t].record->bytes;

		if (!atomic_load(&f->goals[t].odd))
			continue;
		for (size_t h = 0; h < f->hand_count; h++)
			f->hands[h].sums[t] = (struct kedge__sum){0, 0};
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

static int digests_check(struct filling *f, struct kedge__error *err)
{
	const struct kedge__segment *top = kedge__lineage_top(f->lineage);

	for (size_t t = 0; t < f->goal_count; t++) {
		const struct kedge__region_record *r = f->goals[t].record;
		struct kedge__sum sum = {0, 0};

		for (size_t h = 0; h < f->hand_count; h++)
			sum = kedge__sum_add(sum, f->hands[h].sums[t]);
		if (!kedge__digest_equal(kedge__sum_digest(sum, r->bytes), r->digest))
			return kedge__error_set(err, KEDGE_E_DAMAGED, 0,
						"%s: region \"%s\" of version %llu does not match its digest",
						top->path, r->name, (unsigned long long)top->header.version);
	}
	return 0;
}

/* ------------------------------------------------------------------ one attempt, and the next after damage */

static void stats_add(const struct filling *f, struct kedge__restore_stats *stats)
{
	for (size_t i = 0; f->hands && i < f->hand_count; i++) {
		stats->bytes_read += f->hands[i].bytes_read;
		stats->blocks_read += f->hands[i].blocks_read;
	}
}

static int by_base(const void *a, const void *b)
{
	const struct kedge__read_plan_slot *x = a, *y = b;

	return (x->base > y->base) - (x->base < y->base);
}

/* Goals refer to the top segment, which a replacement may have exchanged. */
static int goals_set(struct filling *f, const struct kedge__restore_target *targets,
		     struct kedge__read_plan_slot *slots, struct kedge__error *err)
{
	const struct kedge__segment *top = kedge__lineage_top(f->lineage);

	f->total = 0;
	for (size_t i = 0; i < f->goal_count; i++) {
		const struct kedge__region_record *r;

		if (targets[i].region >= top->region_count)
			return kedge__error_set(err, KEDGE_E_ARG, 0, "%s has no region %zu", top->path,
						targets[i].region);
		r = &top->regions[targets[i].region];
		f->goals[i].record = r;
		f->goals[i].data = targets[i].data;
		atomic_init(&f->goals[i].odd, false);
		slots[i] = (struct kedge__read_plan_slot){(uint64_t)r->slot * KEDGE__SLOT_BYTES, r->bytes,
							  targets[i].data, (uint32_t)i};
		f->total += r->bytes;
	}
	qsort(slots, f->goal_count, sizeof(*slots), by_base);
	return 0;
}

static int plan_make(struct filling *f, const struct kedge__restore_target *targets, struct kedge__error *err)
{
	struct kedge__read_plan_slot *slots = kedge__calloc(f->goal_count, sizeof(*slots));
	int rc = slots ? goals_set(f, targets, slots, err) : kedge__error_nomem(err);

	if (!rc)
		rc = kedge__read_plan_make(&f->plan, f->lineage, f->pool, slots, f->goal_count, err);
	if (!rc && !f->check)
		rc = kedge__read_plan_direct(&f->plan, slots, f->goal_count, err);
	kedge__free(slots);
	return rc;
}

static int attempt(struct filling *f, const struct kedge__restore_target *targets, struct kedge__restore_stats *stats,
		   struct kedge__error *err)
{
	double start = kedge__clock_seconds(), resolved, read;
	int rc = plan_make(f, targets, err);

	if (!rc)
		rc = hands_init(f, err);
	if (rc)
		goto out;
	atomic_store(&f->done, 0);
	f->sum_later = f->plan.piece_count > f->total / SMALL_PIECE + 1;
	resolved = kedge__clock_seconds();
	kedge__pool_for(f->pool, f->plan.batches.count, batch_fill_direct, f);
	kedge__pool_for(f->pool, f->check ? 0 : f->plan.fills.count, fill_fill, f);
	kedge__pool_for(f->pool, f->plan.batches.count, batch_fill_rest, f);
	read = kedge__clock_seconds();
	stats->resolve_seconds += resolved - start;
	stats->read_seconds += read - resolved;
	if (f->first.code) {
		kedge__error_move(err, &f->first);
		rc = err->code;
		goto out;
	}
	if (!f->check)
		rc = odd_sum(f, err);
	if (!rc && !f->check)
		rc = digests_check(f, err);
	stats->verify_seconds += kedge__clock_seconds() - read;
out:
	stats_add(f, stats);
	hands_done(f);
	kedge__read_plan_done(&f->plan);
	return rc;
}

/* Turn to other copies of every segment that failed; RC is what made us look for them. */
static int replace_damaged(struct filling *f, int rc, struct kedge__error *err)
{
	if (f->lost || !f->damaged.count)
		return rc;
	for (size_t i = 0; i < f->damaged.count; i++) {
		struct kedge__error none = KEDGE__ERROR_INIT;
		int failed;

		if (!kedge__lineage_segment(f->lineage, f->damaged.at[i]))
			continue; /* replacing another one has made it needless */
		failed = kedge__lineage_replace(f->lineage, f->damaged.at[i], &none);
		kedge__error_done(&none);
		if (failed)
			return rc;
	}
	kedge__log(KEDGE_LOG_WARNING, "%s; using the copy on another level", kedge__error_text(err));
	f->damaged.count = 0;
	return 0;
}

static int fill_all(struct filling *f, const struct kedge__restore_target *targets, struct kedge__restore_stats *stats,
		    struct kedge__error *err)
{
	struct kedge__error local = KEDGE__ERROR_INIT;
	int rc;

	/* A lineage has at most a copy a level of each segment; replacing ends when they are used up. */
	for (;;) {
		rc = attempt(f, targets, stats, &local);
		if (!rc || replace_damaged(f, rc, &local))
			break;
	}
	if (rc && err)
		kedge__error_move(err, &local);
	kedge__error_done(&local);
	return rc;
}

static int fill_targets(struct filling *f, const struct kedge__restore_target *targets,
			struct kedge__restore_stats *stats, struct kedge__error *err)
{
	struct kedge__restore_stats used = {0};
	int rc;

	if (f->goal_count) {
		f->goals = kedge__calloc(f->goal_count, sizeof(struct goal));
		if (!f->goals)
			return kedge__error_nomem(err);
	}
	pthread_mutex_init(&f->lock, NULL);
	rc = f->goal_count ? fill_all(f, targets, &used, err) : 0;
	used.bytes_filled = f->total;
	if (!rc && f->progress)
		f->progress(f->progress_ctx, f->total, f->total);
	pthread_mutex_destroy(&f->lock);
	kedge__array_done(&f->damaged);
	kedge__error_done(&f->first);
	kedge__free(f->goals);
	if (!rc && stats)
		*stats = used;
	return rc;
}

int kedge__restore_fill(struct kedge__lineage *l, struct kedge__pool *pool, const struct kedge__restore_target *targets,
			size_t n, void (*progress)(void *ctx, uint64_t done, uint64_t total), void *progress_ctx,
			struct kedge__restore_stats *stats, struct kedge__error *err)
{
	struct filling f = {
	    .lineage = l, .pool = pool, .goal_count = n, .progress = progress, .progress_ctx = progress_ctx};

	return fill_targets(&f, targets, stats, err);
}

/* The read plan wants places for the bytes: addresses that are never touched take no memory. */
int kedge__restore_check(struct kedge__lineage *l, struct kedge__pool *pool,
			 void (*progress)(void *ctx, uint64_t done, uint64_t total), void *progress_ctx,
			 struct kedge__error *err)
{
	const struct kedge__segment *top = kedge__lineage_top(l);
	struct filling f = {.lineage = l,
			    .pool = pool,
			    .goal_count = top->region_count,
			    .check = true,
			    .progress = progress,
			    .progress_ctx = progress_ctx};
	struct kedge__restore_target *targets = kedge__calloc(f.goal_count + 1, sizeof(*targets));
	uint64_t largest = 1;
	void *nowhere;
	int rc;

	for (size_t i = 0; i < f.goal_count; i++)
		largest = KEDGE__MAX(largest, top->regions[i].bytes);
	nowhere = mmap(NULL, largest, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (!targets || nowhere == MAP_FAILED) {
		rc = kedge__error_nomem(err);
	} else {
		for (size_t i = 0; i < f.goal_count; i++)
			targets[i] = (struct kedge__restore_target){i, nowhere};
		rc = fill_targets(&f, targets, NULL, err);
	}
	if (nowhere != MAP_FAILED)
		munmap(nowhere, largest);
	kedge__free(targets);
	return rc;
}
