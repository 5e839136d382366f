/* SPDX-License-Identifier: BSD-3-Clause */
/* Fill targets from a lineage, and repeat it with other copies of segments that turn out to be damaged. */
#include "restore/fill.h"

#include <stdlib.h>
#include <sys/mman.h>

/* If there are more pieces than one for so many bytes, they cost more to sum one by one than a second pass over the
 * memory does. */
#define SMALL_PIECE 384

/* Of blocks that are read together: at least, at most, and how many each thread has if it is something between. To hand
 * one over, and to ask the kernel about it, takes as long as to copy 100 KiB. */
#define BATCH_LEAST (UINT64_C(512) << 10)
#define BATCH_MOST  (UINT64_C(2) << 20)
#define BATCHES     128

/* More than this is no longer in a cache when all of it is filled. */
#define CACHE_BYTES (UINT64_C(16) << 20)

static void stats_add(const struct kedge__filling *f, const struct kedge__pipeline_stats *pipeline,
		      struct kedge__restore_stats *stats)
{
	double threads = (double)f->worker_count;

	for (size_t i = 0; f->workers && i < f->worker_count; i++) {
		stats->bytes_read += f->workers[i].bytes_read;
		stats->blocks_read += f->workers[i].blocks_read;
		stats->bytes_mapped += f->workers[i].bytes_mapped;
		stats->read_share += f->workers[i].reading / threads;
		stats->decode_share += f->workers[i].decoding / threads;
		stats->place_share += f->workers[i].placing / threads;
	}
	stats->blocks_read += f->plan.laid_count;
	stats->bytes_laid += f->plan.laid_bytes;
	kedge__pipeline_stats_add(&stats->pipeline, pipeline);
}

const char *kedge__restore_bottleneck(const struct kedge__restore_stats *stats)
{
	const struct {
		const char *name;
		double seconds;
	} parts[] = {{"read", stats->read_share},
		     {"decode", stats->decode_share},
		     {"place", stats->place_share},
		     {"resolve", stats->resolve_seconds},
		     {"verify", stats->verify_seconds}};
	size_t most = 0;

	for (size_t i = 1; i < KEDGE__COUNT(parts); i++)
		if (parts[i].seconds > parts[most].seconds)
			most = i;
	return parts[most].name;
}

static int by_base(const void *a, const void *b)
{
	const struct kedge__read_plan_slot *x = a, *y = b;

	return (x->base > y->base) - (x->base < y->base);
}

/* Goals refer to the top segment, which a replacement may have exchanged. */
static int goals_set(struct kedge__filling *f, const struct kedge__restore_target *targets,
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
		f->goals[i].device = targets[i].device;
		f->goals[i].zeroed = targets[i].zeroed;
		atomic_init(&f->goals[i].odd, false);
		slots[i] = (struct kedge__read_plan_slot){.base = (uint64_t)r->slot * KEDGE__SLOT_BYTES,
							  .bytes = r->bytes,
							  .data = targets[i].data,
							  .target = (uint32_t)i,
							  .far = targets[i].device != NULL,
							  .zeroed = f->goals[i].zeroed};
		f->total += r->bytes;
	}
	qsort(slots, f->goal_count, sizeof(*slots), by_base);
	return 0;
}

static uint64_t batch_bytes(const struct kedge__filling *f)
{
	uint64_t share = f->total / (BATCHES * (uint64_t)kedge__pool_threads(f->pool));
	uint64_t least = f->io.buffer ? f->io.buffer : BATCH_LEAST;

	return least < BATCH_LEAST ? least : KEDGE__MAX(least, KEDGE__MIN(share, BATCH_MOST));
}

static int plan_make(struct kedge__filling *f, const struct kedge__restore_target *targets, struct kedge__error *err)
{
	struct kedge__read_plan_slot *slots = kedge__calloc(f->goal_count, sizeof(*slots));
	int rc = slots ? goals_set(f, targets, slots, err) : kedge__error_nomem(err);

	if (!rc)
		rc = kedge__read_plan_make(&f->plan, f->lineage, f->pool, slots, f->goal_count, batch_bytes(f),
					   !f->check, err);
	kedge__free(slots);
	return rc;
}

/* All of the plan. */
static int run(struct kedge__filling *f, struct kedge__pipeline_stats *stats, struct kedge__error *err)
{
	int rc = kedge__fill_devices_begin(f, err);

	if (!rc)
		rc = kedge__fill_run(f, stats, err);
	if (!rc && f->first.code) {
		kedge__error_move(err, &f->first);
		rc = err->code;
	}
	if (!rc)
		rc = kedge__fill_devices_end(f, err);
	if (rc)
		kedge__fill_devices_abandon(f);
	return rc;
}

static int attempt(struct kedge__filling *f, const struct kedge__restore_target *targets,
		   struct kedge__restore_stats *stats, struct kedge__error *err)
{
	struct kedge__pipeline_stats pipeline = {0};
	double start = kedge__clock_seconds(), resolved, filled;
	int rc = plan_make(f, targets, err);

	if (!rc)
		rc = kedge__fill_devices_init(f, err);
	if (!rc)
		rc = kedge__fill_workers_init(f, err);
	if (rc)
		goto out;
	f->sum_later = f->plan.piece_count > f->total / SMALL_PIECE + 1;
	f->past_cache = f->total > CACHE_BYTES;
	resolved = kedge__clock_seconds();
	rc = run(f, &pipeline, err);
	filled = kedge__clock_seconds();
	stats->resolve_seconds += resolved - start;
	stats->fill_seconds += filled - resolved;
	if (!rc)
		rc = kedge__fill_sums_check(f, err);
	stats->verify_seconds += kedge__clock_seconds() - filled;
out:
	stats_add(f, &pipeline, stats);
	kedge__fill_workers_done(f);
	kedge__fill_devices_done(f);
	kedge__read_plan_done(&f->plan);
	return rc;
}

/* Switch to other copies of every segment that failed; RC is the error that made it necessary. */
static int replace_damaged(struct kedge__filling *f, int rc, struct kedge__error *err)
{
	if (f->lost || !f->damaged.count)
		return rc;
	for (size_t i = 0; i < f->damaged.count; i++) {
		struct kedge__error none = KEDGE__ERROR_INIT;
		int failed;

		if (!kedge__lineage_segment(f->lineage, f->damaged.at[i]))
			continue; /* replacing another one has made it unnecessary */
		failed = kedge__lineage_replace(f->lineage, f->damaged.at[i], &none);
		if (failed == KEDGE_E_NOMEM) /* there may be another copy: this is no damage */
			kedge__error_move(err, &none);
		kedge__error_done(&none);
		if (failed)
			return failed == KEDGE_E_NOMEM ? failed : rc;
	}
	kedge__log(KEDGE_LOG_WARNING, "%s; using the copy on another level", kedge__error_text(err));
	f->damaged.count = 0;
	return 0;
}

static int fill_all(struct kedge__filling *f, const struct kedge__restore_target *targets,
		    struct kedge__restore_stats *stats, struct kedge__error *err)
{
	struct kedge__error local = KEDGE__ERROR_INIT;
	bool unpacked_here = false;
	int rc;

	/* A lineage has at most one copy of each segment per level; replacing ends when these are used up. */
	while ((rc = attempt(f, targets, stats, &local)) != 0) {
		bool again = f->unpack_here && !unpacked_here; /* it may be another copy that is needed */

		f->again = true;
		unpacked_here = f->unpack_here;
		rc = again ? 0 : replace_damaged(f, rc, &local);
		if (rc)
			break;
	}
	if (rc && err)
		kedge__error_move(err, &local);
	kedge__error_done(&local);
	return rc;
}

static int fill_targets(struct kedge__filling *f, const struct kedge__restore_target *targets,
			struct kedge__restore_stats *stats, struct kedge__error *err)
{
	struct kedge__restore_stats used = {0};
	int rc;

	if (f->goal_count) {
		f->goals = kedge__calloc(f->goal_count, sizeof(struct kedge__fill_goal));
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

int kedge__restore_fill(struct kedge__lineage *l, struct kedge__pool *pool, struct kedge__io io,
			const struct kedge__restore_target *targets, size_t n,
			void (*progress)(void *ctx, uint64_t done, uint64_t total), void *progress_ctx,
			struct kedge__restore_stats *stats, struct kedge__error *err)
{
	struct kedge__filling f = {
	    .lineage = l, .pool = pool, .io = io, .goal_count = n, .progress = progress, .progress_ctx = progress_ctx};

	return fill_targets(&f, targets, stats, err);
}

/* The read plan needs places for the bytes: addresses that are never touched take no memory. */
int kedge__restore_check(struct kedge__lineage *l, struct kedge__pool *pool, struct kedge__io io,
			 void (*progress)(void *ctx, uint64_t done, uint64_t total), void *progress_ctx,
			 struct kedge__error *err)
{
	const struct kedge__segment *top = kedge__lineage_top(l);
	struct kedge__filling f = {.lineage = l,
				   .pool = pool,
				   .io = io,
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
			targets[i] = (struct kedge__restore_target){.region = i, .data = nowhere};
		rc = fill_targets(&f, targets, NULL, err);
	}
	if (nowhere != MAP_FAILED)
		munmap(nowhere, largest);
	kedge__free(targets);
	return rc;
}
