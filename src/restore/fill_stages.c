/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Batches of blocks, in the order of the files, then ranges of patterns, go through the pipeline:
 *
 *   announce    announce the next reads to the kernel, so that storage works while earlier blocks are checked and
 * decoded; fill        on all threads: read adjacent blocks at once, as many as stay in the core's cache: blocks that
 * are live and stored unchanged directly to their places, others into memory of the thread; check, decode and sum them,
 * and copy live bytes that are not yet in their places; account     in order: report progress.
 *
 * If there is more to fill than caches hold, the copy bypasses them.
 */
#include "restore/fill.h"

#include <errno.h>
#include <sys/uio.h>

#define RUN_BYTES  (UINT64_C(128) << 10) /* of one read: a part of a core's cache */
#define RUN_BLOCKS KEDGE__FILL_RUN
#define PART_BYTES (UINT64_C(16) << 10) /* blocks checked before they are summed and placed */
#define AHEAD      4                    /* batches announced before their turn, beyond those in the ring */
#define GAP_BYTES  (UINT64_C(16) << 10) /* announced together with its surroundings */
#define LARGE_BLOCK                                                                                                    \
	(UINT64_C(512) << 10) /* does not stay in the cache: decoded directly to its place, if it has one              \
			       */
#define SUM_PAD      8   /* sums behind those of a thread: what another one writes is in another line of the cache */
#define AHEAD_PIECES 4   /* pieces whose places are fetched while one is copied, */
#define LINES        256 /* and how many bytes of each */
#define PAST_BYTES   512 /* a piece that is worth copying past the cache */

/* ------------------------------------------------------------------ announce */

static void batch_announce(const struct kedge__filling *f, size_t i)
{
	const struct kedge__read_plan_batch *batch = &f->plan.batches.at[i];
	const struct kedge__read_plan_block *blocks = &f->plan.blocks.at[batch->first];
	const struct kedge__segment *seg = blocks[0].segment;
	uint64_t from = seg->blocks[blocks[0].block].offset, to = from;

	if (seg->fd < 0)
		return;
	for (size_t b = 0; b < batch->count; b++) {
		const struct kedge__block_record *record = &seg->blocks[blocks[b].block];

		if (record->offset > to + GAP_BYTES) {
			kedge__fs_expect(seg->fd, from, to - from);
			from = record->offset;
		}
		to = record->offset + record->stored_bytes;
	}
	kedge__fs_expect(seg->fd, from, to - from);
}

/* The kernel reads ahead better by itself in long sequential runs. */
static void announce_ahead(struct kedge__filling *f)
{
	for (; f->announced < KEDGE__MIN(f->next + 1 + AHEAD, f->plan.batches.count); f->announced++)
		if (!kedge__fill_past_suits(f, &f->plan.batches.at[f->announced]))
			batch_announce(f, f->announced);
}

static int announce(void *ctx, struct kedge__buffer *out, struct kedge__error *err)
{
	struct kedge__filling *f = ctx;

	(void)err;
	if (f->next == f->end)
		return KEDGE__PIPELINE_END;
	if (f->next >= f->plan.batches.count || !kedge__fill_past_begin(f, f->next))
		announce_ahead(f);
	out->tag = f->next++;
	return 0;
}

/* ------------------------------------------------------------------ fill: blocks */

static bool mendable(int code)
{
	return code == KEDGE_E_DAMAGED || code == KEDGE_E_IO || code == KEDGE_E_MISSING || code == KEDGE_E_ACCESS;
}

/* A block of VERSION's segment could not be read. If a copy on another level may help, all others are still tried, so
 * that one pass finds every bad segment. */
static int block_failed(struct kedge__filling *f, uint64_t version, struct kedge__error *err)
{
	bool known = false;
	int rc = err->code;

	pthread_mutex_lock(&f->lock);
	for (size_t i = 0; i < f->damaged.count; i++)
		known = known || f->damaged.at[i] == version;
	if (mendable(rc) && !known && !kedge__array_push(&f->damaged, version))
		rc = kedge__error_nomem(err); /* another copy might do: this is not damage */
	f->lost = f->lost || !mendable(rc);
	if (mendable(rc)) {
		if (!f->first.code)
			kedge__error_move(&f->first, err);
		kedge__error_done(err);
		rc = 0;
	}
	pthread_mutex_unlock(&f->lock);
	return rc;
}

static void bytes_place(const struct kedge__filling *f, uint8_t *to, const uint8_t *from, size_t len)
{
	if (f->past_cache && len >= PAST_BYTES)
		kedge__copy_past_cache(to, from, len);
	else
		memcpy(to, from, len);
}

/* The live bytes of a block at RAW, which may already be its place. Small ones go to lines that are not in the cache.
 */
static uint64_t pieces_place(struct kedge__filling *f, struct kedge__fill_worker *h,
			     const struct kedge__read_plan_block *b, const uint8_t *raw)
{
	const struct kedge__piece *pieces = &f->plan.pieces[b->first];
	uint64_t bytes = 0;

	kedge__fill_sum_pieces(f, h, pieces, b->count, raw);
	if (b->place) {
		if (b->place != raw)
			bytes_place(f, b->place, raw, b->segment->blocks[b->block].raw_bytes);
		return b->live;
	}
	for (size_t i = 0; i < b->count; i++) {
		for (uint32_t line = 0; i + AHEAD_PIECES < b->count && line < KEDGE__MIN(pieces[i].len, LINES);
		     line += 64)
			__builtin_prefetch(pieces[i + AHEAD_PIECES].to + line, 1);
		bytes_place(f, pieces[i].to, raw + pieces[i].offset, pieces[i].len);
		bytes += pieces[i].len;
	}
	return bytes;
}

/* The same without a place for them. */
static int pieces_check(struct kedge__filling *f, struct kedge__fill_worker *h, const struct kedge__piece *pieces,
			size_t n, const uint8_t *raw, uint64_t *bytes, struct kedge__error *err)
{
	int rc = 0;

	for (size_t i = 0; i < n && !rc; i++) {
		const struct kedge__piece *p = &pieces[i];

		rc = kedge__fill_check_piece(f, h, p->target, raw + p->offset,
					     (uint64_t)(p->to - f->goals[p->target].data), p->len, err);
		*bytes += p->len;
	}
	return rc;
}

static bool is_packed(const struct kedge__read_plan_block *b)
{
	return b->segment->blocks[b->block].codec != KEDGE__CODEC_NONE;
}

/* The raw bytes of a compressed block that was checked. */
static int block_unpack(struct kedge__filling *f, struct kedge__fill_worker *h, const struct kedge__read_plan_block *b,
			const uint8_t *stored, const uint8_t **raw, uint64_t *bad, struct kedge__error *err)
{
	const struct kedge__block_record *record = &b->segment->blocks[b->block];
	const struct kedge__piece *pieces = &f->plan.pieces[b->first];
	bool in_place =
	    !f->check && record->raw_bytes > LARGE_BLOCK && b->count == 1 && pieces[0].len == record->raw_bytes;
	uint8_t *to = in_place ? pieces[0].to : h->raw;
	double start = kedge__clock_seconds();
	int rc = kedge__segment_check_stored(b->segment, b->block, stored, err);

	*bad = b->version;
	*raw = to;
	if (!rc)
		rc = kedge__lineage_unpack_block(f->lineage, b->segment, b->block, stored, to, bad, err);
	start = kedge__clock_seconds() - start;
	h->decoding += start;
	h->placing -= start; /* timed as part of this */
	return rc;
}

/* STORED has already been checked if it is not compressed. */
static int block_fill(struct kedge__filling *f, struct kedge__fill_worker *h, const struct kedge__read_plan_block *b,
		      const uint8_t *stored, uint64_t *bytes, struct kedge__error *err)
{
	const struct kedge__block_record *record = &b->segment->blocks[b->block];
	const uint8_t *raw = stored;
	uint64_t bad;
	int rc = is_packed(b) ? block_unpack(f, h, b, stored, &raw, &bad, err) : 0;

	if (rc)
		return block_failed(f, bad, err);
	h->blocks_read++;
	h->bytes_read += record->stored_bytes;
	if (f->check)
		return pieces_check(f, h, &f->plan.pieces[b->first], b->count, raw, bytes, err);
	*bytes += pieces_place(f, h, b, raw);
	return 0;
}

/* How many of the N blocks from B on are adjacent in the file and fit into one read. */
static size_t run_length(const struct kedge__read_plan_block *b, size_t n)
{
	const struct kedge__block_record *records = b->segment->blocks;
	uint64_t bytes = records[b[0].block].stored_bytes;
	size_t count = 1;

	while (count < n && count < RUN_BLOCKS && b[count].block == b[0].block + count &&
	       records[b[count].block].offset == records[b[0].block].offset + bytes &&
	       bytes + records[b[count].block].stored_bytes <= RUN_BYTES)
		bytes += records[b[count++].block].stored_bytes;
	return count;
}

/* Where to read the stored bytes of each of the COUNT blocks from B on. */
static void run_aim(struct kedge__fill_worker *h, const struct kedge__read_plan_block *b, size_t count, bool in_place)
{
	const struct kedge__block_record *records = b->segment->blocks;

	for (size_t i = 0; i < count; i++)
		h->at[i] = in_place && b[i].place ? b[i].place
						  : h->stored + (records[b[i].block].offset - records[b->block].offset);
}

static int run_read(struct kedge__fill_worker *h, const struct kedge__read_plan_block *b, size_t count,
		    struct kedge__error *err)
{
	struct iovec to[RUN_BLOCKS];
	size_t n = 0;

	for (size_t i = 0; i < count; i++) {
		size_t bytes = b->segment->blocks[b[i].block].stored_bytes;

		if (n && (uint8_t *)to[n - 1].iov_base + to[n - 1].iov_len == h->at[i])
			to[n - 1].iov_len += bytes;
		else
			to[n++] = (struct iovec){h->at[i], bytes};
	}
	return kedge__segment_read_run(b->segment, b->block, to, n, err);
}

/* The uncompressed ones of the blocks FIRST to END - 1 from B on; AT is NULL for damaged ones. */
static int part_check(struct kedge__filling *f, struct kedge__fill_worker *h, const struct kedge__read_plan_block *b,
		      size_t first, size_t end, struct kedge__error *err)
{
	int rc = 0;

	for (size_t i = first; i < end && !rc; i++) {
		if (is_packed(&b[i]) || !kedge__segment_check_stored(b->segment, b[i].block, h->at[i], err))
			continue;
		h->at[i] = NULL;
		rc = block_failed(f, b->version, err);
	}
	return rc;
}

static size_t part_end(const struct kedge__read_plan_block *b, size_t first, size_t count)
{
	uint64_t bytes = 0;
	size_t i = first;

	while (i < count && (i == first || bytes < PART_BYTES))
		bytes += b->segment->blocks[b[i++].block].stored_bytes;
	return i;
}

/* Several blocks at once, because reading the clock takes time, but no more than the nearest cache keeps from one step
 * to the next. */
static int run_place(struct kedge__filling *f, struct kedge__fill_worker *h, const struct kedge__read_plan_block *b,
		     size_t count, uint64_t *bytes, struct kedge__error *err)
{
	double start = kedge__clock_seconds(), checked;
	int rc = 0;

	for (size_t first = 0, end; first < count && !rc; first = end) {
		end = part_end(b, first, count);
		rc = part_check(f, h, b, first, end, err);
		checked = kedge__clock_seconds();
		h->decoding += checked - start;
		for (size_t i = first; i < end && !rc; i++)
			if (h->at[i])
				rc = block_fill(f, h, &b[i], h->at[i], bytes, err);
		start = kedge__clock_seconds();
		h->placing += start - checked;
	}
	return rc;
}

/* The COUNT blocks from B on, in one read. If the kernel may not write to the memory, because of a debugger or a user-
 * mode fault handler, it is filled through the thread's own buffer. */
static int run_fill(struct kedge__filling *f, struct kedge__fill_worker *h, const struct kedge__read_plan_block *b,
		    size_t count, uint64_t *bytes, struct kedge__error *err)
{
	double start = kedge__clock_seconds();
	int rc;

	run_aim(h, b, count, true);
	rc = run_read(h, b, count, err);
	if (rc && err->sys_errno == EFAULT) {
		kedge__error_done(err);
		*err = (struct kedge__error)KEDGE__ERROR_INIT;
		run_aim(h, b, count, false);
		rc = run_read(h, b, count, err);
	}
	h->reading += kedge__clock_seconds() - start;
	return rc ? block_failed(f, b->version, err) : run_place(f, h, b, count, bytes, err);
}

/* A batch that was read past the page cache. */
static int batch_place(struct kedge__filling *f, struct kedge__fill_worker *h,
		       const struct kedge__read_plan_batch *batch, uint64_t number, uint64_t *bytes,
		       struct kedge__error *err)
{
	const struct kedge__read_plan_block *blocks = &f->plan.blocks.at[batch->first];
	int rc = 0;

	for (size_t i = 0, count; i < batch->count && !rc; i += count) {
		count = KEDGE__MIN(batch->count - i, (size_t)RUN_BLOCKS);
		for (size_t k = 0; k < count; k++)
			h->at[k] = kedge__fill_past_at(f, number, blocks->segment->blocks[blocks[i + k].block].offset);
		rc = run_place(f, h, &blocks[i], count, bytes, err);
	}
	return rc;
}

static int batch_fill(struct kedge__filling *f, struct kedge__fill_worker *h,
		      const struct kedge__read_plan_batch *batch, uint64_t number, uint64_t *bytes,
		      struct kedge__error *err)
{
	const struct kedge__read_plan_block *blocks = &f->plan.blocks.at[batch->first];
	double start = kedge__clock_seconds();
	bool came = kedge__fill_past_wait(f, number);
	int rc = 0;

	h->reading += kedge__clock_seconds() - start;
	if (came)
		return batch_place(f, h, batch, number, bytes, err);
	for (size_t i = 0, count; i < batch->count && !rc; i += count) {
		count = run_length(&blocks[i], batch->count - i);
		rc = run_fill(f, h, &blocks[i], count, bytes, err);
	}
	return rc;
}

/* ------------------------------------------------------------------ fill: patterns */

static int fill_fill(struct kedge__filling *f, struct kedge__fill_worker *h, const struct kedge__read_plan_fill *fill,
		     struct kedge__error *err)
{
	double start = kedge__clock_seconds();
	int rc = 0;

	if (f->check) {
		rc = kedge__fill_check_pattern(f, h, fill, err);
	} else {
		kedge__fill_put_pattern(fill->to, fill->len, fill->pattern, fill->addr);
		kedge__fill_sum_piece(f, h, fill->target, fill->to, (uint64_t)(fill->to - f->goals[fill->target].data),
				      fill->len);
	}
	h->placing += kedge__clock_seconds() - start;
	return rc;
}

static int fill(void *ctx, int worker, struct kedge__buffer *in, struct kedge__buffer *out, struct kedge__error *err)
{
	struct kedge__filling *f = ctx;
	struct kedge__fill_worker *h = &f->workers[worker];
	size_t batches = f->plan.batches.count, item = (size_t)in->tag;
	uint64_t bytes = 0;
	int rc = 0;

	if (item < batches) {
		rc = batch_fill(f, h, &f->plan.batches.at[item], item, &bytes, err);
	} else {
		rc = fill_fill(f, h, &f->plan.fills.at[item - batches], err);
		bytes = f->plan.fills.at[item - batches].len;
	}
	out->bytes = (size_t)bytes;
	return rc;
}

/* ------------------------------------------------------------------ account */

static int account(void *ctx, const struct kedge__buffer *in, struct kedge__error *err)
{
	struct kedge__filling *f = ctx;

	(void)err;
	f->done += in->bytes;
	if (f->progress)
		f->progress(f->progress_ctx, KEDGE__MIN(f->done, f->total), f->total);
	return 0;
}

/* ------------------------------------------------------------------ all of it */

void kedge__fill_workers_done(struct kedge__filling *f)
{
	for (size_t i = 0; f->workers && i < f->worker_count; i++) {
		kedge__free(f->workers[i].raw);
		kedge__free(f->workers[i].stored);
		kedge__free(f->workers[i].sums);
		kedge__array_done(&f->workers[i].edges);
	}
	kedge__free(f->workers);
	f->workers = NULL;
}

int kedge__fill_workers_init(struct kedge__filling *f, struct kedge__error *err)
{
	size_t stored = KEDGE__MAX(f->plan.stored_max, RUN_BYTES);

	f->worker_count = (size_t)kedge__pool_threads(f->pool);
	f->workers = kedge__calloc(f->worker_count, sizeof(*f->workers));
	if (!f->workers)
		return kedge__error_nomem(err);
	for (size_t i = 0; i < f->worker_count; i++) {
		struct kedge__fill_worker *h = &f->workers[i];

		h->raw = kedge__malloc(f->plan.raw_max + 1);
		h->stored = kedge__malloc(stored);
		h->sums = kedge__calloc(f->goal_count + SUM_PAD, sizeof(struct kedge__sum));
		if (!h->raw || !h->stored || !h->sums)
			return kedge__error_nomem(err);
	}
	return 0;
}

/* Items from where the round before ended to END. */
static int run_round(struct kedge__filling *f, size_t end, struct kedge__pipeline_stats *stats,
		     struct kedge__error *err)
{
	struct kedge__pipeline_spec spec = {
	    .collect = announce, .transform = fill, .store = account, .ctx = f, .queue = kedge__fill_past_queue(f)};
	struct kedge__pipeline_stats round = {0};
	int rc;

	f->end = end;
	rc = kedge__pipeline_run(end - f->next > 1 ? f->pool : NULL, &spec, &round, err);
	kedge__pipeline_stats_add(stats, &round);
	return rc;
}

int kedge__fill_run(struct kedge__filling *f, struct kedge__pipeline_stats *stats, struct kedge__error *err)
{
	size_t items = f->plan.batches.count + f->plan.fills.count;
	int rc = 0;

	f->next = f->announced = 0;
	f->done = 0;
	kedge__fill_past_init(f);
	if (f->plan.grounds)
		rc = run_round(f, f->plan.grounds, stats, err);
	if (!rc && f->plan.grounds < items)
		rc = run_round(f, items, stats, err);
	kedge__fill_past_done(f);
	return rc;
}
