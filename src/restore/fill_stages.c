/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Batches of units, in the order of the files, then ranges of patterns, go through the pipeline:
 *
 *   announce: announce the next reads to the kernel, so that storage works while earlier units are checked and decoded;
 *
 *   fill, on all threads: read neighbours at once, as many as stay in the core's cache: units that have a place
 * directly to it, others into memory of the thread; check, decode and sum them, and copy live bytes that are not yet in
 * their places;
 *
 *   account, in order: report progress.
 *
 * If there is more to fill than caches hold, the copy bypasses them.
 */
#include "restore/fill.h"

#include <errno.h>
#include <sys/uio.h>

#define RUN_BYTES   (UINT64_C(128) << 10) /* of one read: a part of a core's cache */
#define RUN_UNITS   KEDGE__FILL_RUN
#define RUN_GAP     KEDGE__BLOCK_PAGE    /* read with its surroundings, because another read takes as long */
#define PART_BYTES  (UINT32_C(16) << 10) /* units checked before they are summed and placed */
#define THERE_BYTES ((uintptr_t)2 << 20) /* of memory that was touched or not, all of it */
#define AHEAD       4                    /* batches announced before their turn, beyond those in the ring */
#define GAP_BYTES   (UINT64_C(16) << 10) /* announced together with its surroundings */
#define LARGE_BLOCK                                                                                                    \
	(UINT64_C(512) << 10) /* does not stay in the cache: decoded directly to its place, if it has one              \
			       */
#define SUM_PAD      8   /* sums behind those of a thread: what another one writes is in another line of the cache */
#define AHEAD_PIECES 8   /* pieces whose places are fetched while one is copied, */
#define LINES        256 /* and how many bytes of each */
#define PAST_BYTES   512 /* a piece that is worth copying past the cache */

/* ------------------------------------------------------------------ announce */

/* The kernel looks at every page to find out that nothing has to be read, so it is not asked to then. */
static void batch_announce(const struct kedge__filling *f, size_t number)
{
	const struct kedge__read_plan_batch *batch = &f->plan.batches.at[number];
	const struct kedge__read_plan_unit *units = &f->plan.units.at[batch->first];
	const struct kedge__segment *seg = units[0].segment;
	uint64_t from = kedge__read_plan_unit_at(units), to = from;
	const struct kedge__read_plan_unit *last = &units[batch->count - 1];

	if (seg->fd < 0 ||
	    kedge__fs_cached_all(seg->fd, seg->start + from, kedge__read_plan_unit_at(last) + last->bytes - from))
		return;
	for (size_t i = 0; i < batch->count; i++) {
		uint64_t at = kedge__read_plan_unit_at(&units[i]);

		if (at > to + GAP_BYTES) {
			kedge__fs_expect(seg->fd, seg->start + from, to - from);
			from = at;
		}
		to = at + units[i].bytes;
	}
	kedge__fs_expect(seg->fd, seg->start + from, to - from);
}

/* The kernel reads ahead better by itself in long sequential runs. */
static void announce_ahead(struct kedge__filling *f)
{
	for (; f->announced < KEDGE__MIN(f->next + 1 + AHEAD, f->plan.batches.count); f->announced++)
		if (!kedge__fill_past_suits(f, &f->plan.batches.at[f->announced]))
			batch_announce(f, f->announced);
}

static void announce_layers(struct kedge__filling *f)
{
	for (; f->layers_announced < KEDGE__MIN(f->next + 1 + AHEAD, f->plan.ground_batches); f->layers_announced++)
		kedge__fill_overlay_announce(f, f->layers_announced);
}

static int announce(void *ctx, struct kedge__buffer *out, struct kedge__error *err)
{
	struct kedge__filling *f = ctx;

	(void)err;
	if (f->next == f->end)
		return KEDGE__PIPELINE_END;
	announce_layers(f);
	if (f->next >= f->plan.batches.count || !kedge__fill_past_begin(f, f->next))
		announce_ahead(f);
	out->tag = f->next++;
	return 0;
}

/* ------------------------------------------------------------------ fill: units */

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

static uint64_t position_of(const struct kedge__filling *f, uint32_t target, const uint8_t *to)
{
	return (uint64_t)(to - f->goals[target].data);
}

static void piece_clear(struct kedge__filling *f, struct kedge__fill_worker *h, const struct kedge__piece *p)
{
	kedge__fill_sum_clear(f, h, p->target, position_of(f, p->target, p->to), p->len);
}

static int piece_put(struct kedge__filling *f, struct kedge__fill_worker *h, const struct kedge__piece *p,
		     const uint8_t *at, struct kedge__error *err)
{
	return kedge__fill_sum_put(f, h, p->target, at, position_of(f, p->target, p->to), p->len, err);
}

/* Units with a place, which have no codec, are summed as they are checked, part after part. */
static bool is_summed(const struct kedge__filling *f, const struct kedge__read_plan_unit *u)
{
	return !f->check && u->place;
}

/* Memory that is there already is filled faster past the cache, by one pass that checks and sums as well, than by the
 * kernel; memory that the kernel has to clear first is in the cache then. */
static bool is_carried(const struct kedge__filling *f, const struct kedge__read_plan_unit *u, const uint8_t *stored)
{
	return f->past_cache && is_summed(f, u) && stored != u->place &&
	       kedge__fill_sum_suits(f, u->target, position_of(f, u->target, u->place), u->bytes);
}

/* Check a unit, which goes to its place on the way. NEXT are the stored bytes of the next one, or NULL. */
static int unit_carry(struct kedge__filling *f, struct kedge__fill_worker *h, const struct kedge__read_plan_unit *u,
		      const uint8_t *stored, const uint8_t *next, struct kedge__error *err)
{
	struct kedge__sum sum = {0, 0};
	int rc = kedge__segment_place_part(u->segment, u->block, u->offset, stored, next, u->bytes, u->place,
					   position_of(f, u->target, u->place), &sum, err);

	if (!rc)
		kedge__fill_sum_add(f, h, u->target, sum);
	return rc;
}

/* Check the stored bytes of a unit that is not compressed; what is summed is in the nearest cache from one to the
 * other. */
static int unit_check(struct kedge__filling *f, struct kedge__fill_worker *h, const struct kedge__read_plan_unit *u,
		      const uint8_t *stored, struct kedge__error *err)
{
	uint32_t most = kedge__block_has_pages(&u->segment->blocks[u->block]) ? PART_BYTES : u->bytes;
	uint64_t pos;
	int rc = 0;

	if (!is_summed(f, u))
		return kedge__segment_check_part(u->segment, u->block, u->offset, stored, u->bytes, err);
	pos = position_of(f, u->target, u->place);
	for (uint32_t at = 0, n; at < u->bytes && !rc; at += n) {
		n = KEDGE__MIN(most, u->bytes - at);
		rc = kedge__segment_check_part(u->segment, u->block, u->offset + at, stored + at, n, err);
		if (!rc)
			rc = kedge__fill_sum_put(f, h, u->target, stored + at, pos + at, n, err);
	}
	return rc;
}

/* Check a unit of pieces, which is mapped AT, and copy it to memory of the thread on the way. */
static int unit_take(struct kedge__fill_worker *h, const struct kedge__read_plan_unit *u, uint8_t **at,
		     struct kedge__error *err)
{
	const uint8_t *mapped = *at;

	*at = h->stored;
	return kedge__segment_take_part(u->segment, u->block, u->offset, mapped, u->bytes, h->stored, err);
}

/* Ground with newer literals: these are put over it here, and all of it goes to its place, while what is AHEAD is
 * fetched. */
static int unit_overlay(struct kedge__filling *f, struct kedge__fill_worker *h, const struct kedge__read_plan_unit *u,
			uint8_t *stored, const uint8_t *ahead, uint64_t *bad, struct kedge__error *err)
{
	uint64_t pos = position_of(f, u->target, u->place);
	struct kedge__sum sum = {0, 0};
	bool carried;
	int rc;

	*bad = u->version;
	if (h->from_map)
		rc = kedge__segment_take_part(u->segment, u->block, u->offset, stored, u->bytes, h->stored, err);
	else
		rc = kedge__segment_check_part(u->segment, u->block, u->offset, stored, u->bytes, err);
	stored = h->from_map ? h->stored : stored;
	carried = is_carried(f, u, stored);
	if (!rc)
		rc = kedge__fill_overlay_put(f, h, u, stored, bad, err);
	if (rc)
		return rc;
	if (!carried && stored != u->place)
		bytes_place(f, u->place, stored, u->bytes);
	if (!carried)
		return kedge__fill_sum_put(f, h, u->target, stored, pos, u->bytes, err);
	for (uint32_t at = 0, n; at < u->bytes; at += n) {
		n = KEDGE__MIN(KEDGE__BLOCK_PAGE, u->bytes - at);
		kedge__copy_summed(u->place + at, stored + at, ahead ? ahead + at : NULL, n, pos + at, &sum);
	}
	kedge__fill_sum_add(f, h, u->target, sum);
	return 0;
}

/* No processor may touch the places of this target. */
static bool is_far(const struct kedge__filling *f, uint32_t target)
{
	return f->device_count && f->goals[target].device;
}

/* The bytes of a unit with a place, which may already be there. What was there was taken out of the sum. */
static int unit_place(struct kedge__filling *f, struct kedge__fill_worker *h, const struct kedge__read_plan_unit *u,
		      const uint8_t *raw, struct kedge__error *err)
{
	struct kedge__piece all = {.to = u->place, .offset = u->offset, .len = u->bytes, .target = u->target};

	if (is_far(f, u->target)) {
		if (u->live < u->bytes) /* others go over it */
			atomic_store(&f->goals[u->target].odd, true);
		return kedge__fill_device_put(f, h, &all, 1, raw, u->offset, err);
	}
	if (u->place != raw)
		bytes_place(f, u->place, raw, u->bytes);
	return 0;
}

/* RAW is byte FROM of the block, decoded. Small pieces go to lines that are not in the cache. */
static int pieces_place(struct kedge__filling *f, struct kedge__fill_worker *h, const struct kedge__read_plan_unit *u,
			const uint8_t *raw, uint32_t from, struct kedge__error *err)
{
	struct kedge__piece *pieces = &f->plan.pieces[u->first];
	size_t far = 0;
	int rc = 0;

	for (size_t i = 0; i < u->count && !rc; i++) {
		const uint8_t *at = raw + (pieces[i].offset - from);

		if (is_far(f, pieces[i].target)) {
			far++;
			continue;
		}
		for (uint32_t line = 0; i + AHEAD_PIECES < u->count && line < KEDGE__MIN(pieces[i].len, LINES);
		     line += 64)
			__builtin_prefetch(pieces[i + AHEAD_PIECES].to + line, 1);
		piece_clear(f, h, &pieces[i]);
		rc = piece_put(f, h, &pieces[i], at, err);
		bytes_place(f, pieces[i].to, at, pieces[i].len);
	}
	return far && !rc ? kedge__fill_device_put(f, h, pieces, u->count, raw, from, err) : rc;
}

/* The same without a place for them. */
static int pieces_check(struct kedge__filling *f, struct kedge__fill_worker *h, const struct kedge__read_plan_unit *u,
			const uint8_t *raw, uint32_t from, struct kedge__error *err)
{
	const struct kedge__piece *p = &f->plan.pieces[u->first];
	int rc = 0;

	for (size_t i = 0; i < u->count && !rc; i++, p++)
		rc = kedge__fill_check_piece(f, h, p->target, raw + (p->offset - from),
					     position_of(f, p->target, p->to), p->len, err);
	return rc;
}

static bool is_packed(const struct kedge__read_plan_unit *u)
{
	return u->segment->blocks[u->block].codec != KEDGE__CODEC_NONE;
}

/* A large block that goes to one place is unpacked there. */
static bool unpacks_in_place(const struct kedge__filling *f, const struct kedge__read_plan_unit *u)
{
	uint32_t bytes = u->segment->blocks[u->block].raw_bytes;
	const struct kedge__piece *piece = &f->plan.pieces[u->first];

	return !f->check && bytes > LARGE_BLOCK && u->count == 1 && piece->len == bytes && !is_far(f, piece->target);
}

/* The raw bytes of a compressed block, after its check. */
static int block_unpack(struct kedge__filling *f, struct kedge__fill_worker *h, const struct kedge__read_plan_unit *u,
			const uint8_t *stored, uint8_t *to, uint64_t *bad, struct kedge__error *err)
{
	double start = kedge__clock_seconds();
	int rc = kedge__segment_check_stored(u->segment, u->block, stored, err);

	*bad = u->version;
	if (!rc)
		rc = kedge__lineage_unpack_block(f->lineage, u->segment, u->block, stored, to, bad, err);
	start = kedge__clock_seconds() - start;
	h->decoding += start;
	h->placing -= start; /* timed as part of this */
	return rc;
}

/* To the device that unpacks it. */
static int packed_send(struct kedge__filling *f, struct kedge__fill_worker *h, const struct kedge__read_plan_unit *u,
		       const uint8_t *stored, struct kedge__error *err)
{
	double start = kedge__clock_seconds();
	int rc = kedge__segment_check_stored(u->segment, u->block, stored, err);

	start = kedge__clock_seconds() - start;
	h->decoding += start;
	h->placing -= start; /* timed as part of this */
	if (!rc)
		rc = kedge__fill_device_unpack(f, u, stored, err);
	return rc == KEDGE_E_DAMAGED ? block_failed(f, u->version, err) : rc;
}

static int packed_fill(struct kedge__filling *f, struct kedge__fill_worker *h, const struct kedge__read_plan_unit *u,
		       const uint8_t *stored, struct kedge__error *err)
{
	const struct kedge__piece *pieces = &f->plan.pieces[u->first];
	bool there = unpacks_in_place(f, u);
	uint64_t bad;
	int rc;

	if (kedge__fill_device_unpacks(f, u))
		return packed_send(f, h, u, stored, err);
	if (there)
		piece_clear(f, h, pieces);
	rc = block_unpack(f, h, u, stored, there ? pieces[0].to : h->raw, &bad, err);
	if (rc)
		return block_failed(f, bad, err);
	if (f->check)
		return pieces_check(f, h, u, h->raw, 0, err);
	if (!there)
		return pieces_place(f, h, u, h->raw, 0, err);
	return piece_put(f, h, pieces, pieces[0].to, err);
}

/* STORED has already been checked if it is not compressed. */
static int unit_fill(struct kedge__filling *f, struct kedge__fill_worker *h, const struct kedge__read_plan_unit *u,
		     const uint8_t *stored, uint64_t *bytes, struct kedge__error *err)
{
	int rc = 0;

	h->blocks_read += u->leads;
	h->bytes_read += u->bytes;
	*bytes += u->live;
	if (is_packed(u))
		rc = packed_fill(f, h, u, stored, err);
	else if (f->check)
		rc = pieces_check(f, h, u, stored, u->offset, err);
	else if (u->place)
		rc = unit_place(f, h, u, stored, err);
	else
		rc = pieces_place(f, h, u, stored, u->offset, err);
	return rc;
}

/* Bytes between U and the next unit, in the file. */
static uint64_t gap_after(const struct kedge__read_plan_unit *u)
{
	return kedge__read_plan_unit_at(u + 1) - (kedge__read_plan_unit_at(u) + u->bytes);
}

/* How many of the N units from U on are neighbours in the file and fit into one read. */
static size_t run_length(const struct kedge__read_plan_unit *u, size_t n)
{
	uint64_t bytes = u[0].bytes;
	size_t count = 1;

	while (count < n && count < RUN_UNITS && gap_after(&u[count - 1]) <= RUN_GAP) {
		bytes += gap_after(&u[count - 1]) + u[count].bytes;
		if (bytes > RUN_BYTES)
			break;
		count++;
	}
	return count;
}

/* Whether P has been touched, as far as one page says of the huge page around it. What has been stays so. */
static bool is_there(struct kedge__fill_worker *h, const uint8_t *p)
{
	uintptr_t around = (uintptr_t)p / THERE_BYTES + 1, *there = &h->there[around % KEDGE__FILL_THERE];

	if (*there == around)
		return true;
	if (h->absent == around)
		return false;
	if (kedge__memory_is_there(p))
		*there = around;
	else
		h->absent = around;
	return *there == around;
}

/* Whether the COUNT units from U on are read to where they go: what is not there yet is cleared by the kernel as it
 * copies. */
static bool run_is_direct(const struct kedge__filling *f, struct kedge__fill_worker *h,
			  const struct kedge__read_plan_unit *u, size_t count)
{
	if (!f->past_cache)
		return true;
	for (size_t i = 0; i < count; i++)
		if (u[i].place && !is_far(f, u[i].target))
			return !is_there(h, u[i].place);
	return false;
}

/* Where to read the stored bytes of each of the COUNT units from U on. */
static void run_aim(const struct kedge__filling *f, struct kedge__fill_worker *h, const struct kedge__read_plan_unit *u,
		    size_t count, bool in_place)
{
	uint64_t from = kedge__read_plan_unit_at(u);

	for (size_t i = 0; i < count; i++)
		h->at[i] = in_place && u[i].place && !is_far(f, u[i].target)
			       ? u[i].place
			       : h->stored + (kedge__read_plan_unit_at(&u[i]) - from);
}

/* Other bytes come to the places of the COUNT units from U on. Under the ground there is nothing. */
static void run_clear(struct kedge__filling *f, struct kedge__fill_worker *h, const struct kedge__read_plan_unit *u,
		      size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (u[i].place && !u[i].ground)
			kedge__fill_sum_clear(f, h, u[i].target, position_of(f, u[i].target, u[i].place), u[i].bytes);
}

static void piece_add(struct iovec *to, size_t *n, uint8_t *at, size_t bytes)
{
	if (*n && (uint8_t *)to[*n - 1].iov_base + to[*n - 1].iov_len == at)
		to[*n - 1].iov_len += bytes;
	else if (bytes)
		to[(*n)++] = (struct iovec){at, bytes};
}

static int run_read(struct kedge__fill_worker *h, const struct kedge__read_plan_unit *u, size_t count,
		    struct kedge__error *err)
{
	struct iovec to[2 * RUN_UNITS];
	size_t n = 0;

	for (size_t i = 0; i < count; i++) {
		if (i)
			piece_add(to, &n, h->gap, (size_t)gap_after(&u[i - 1]));
		piece_add(to, &n, h->at[i], u[i].bytes);
	}
	return kedge__segment_read_run(u->segment, u->block, u->offset, to, n, err);
}

/* The uncompressed ones of the units FIRST to END - 1 of the COUNT from U on; AT is NULL for damaged ones. */
static int part_check(struct kedge__filling *f, struct kedge__fill_worker *h, const struct kedge__read_plan_unit *u,
		      size_t first, size_t end, size_t count, struct kedge__error *err)
{
	int rc = 0;

	for (size_t i = first; i < end && !rc; i++) {
		bool overlaid = u[i].ground && kedge__fill_overlay_has(f, &u[i]);
		bool carried = !overlaid && (h->from_map ? u[i].place != NULL : is_carried(f, &u[i], h->at[i]));
		const uint8_t *next = i + 1 < count ? h->at[i + 1] : NULL;
		uint64_t bad = u->version;

		if (is_packed(&u[i]))
			continue;
		if (overlaid)
			rc = unit_overlay(f, h, &u[i], h->at[i], h->from_map ? next : NULL, &bad, err);
		else if (h->from_map && !carried)
			rc = unit_take(h, &u[i], &h->at[i], err);
		else if (h->from_map)
			rc = unit_carry(f, h, &u[i], kedge__fill_mapped_take(f, h, &u[i], h->at[i]), next, err);
		else if (carried)
			rc = unit_carry(f, h, &u[i], h->at[i], next, err);
		else
			rc = unit_check(f, h, &u[i], h->at[i], err);
		if (!rc) {
			h->at[i] = carried || overlaid ? u[i].place : h->at[i];
			continue;
		}
		h->at[i] = NULL;
		rc = block_failed(f, bad, err);
	}
	return rc;
}

/* Of mapped pieces, one unit at a time is in memory of the thread. */
static size_t part_end(const struct kedge__fill_worker *h, const struct kedge__read_plan_unit *u, size_t first,
		       size_t count)
{
	uint64_t bytes = 0;
	size_t i = first;

	while (i < count && (i == first || (bytes < PART_BYTES && (!h->from_map || u[i - 1].place))))
		bytes += u[i++].bytes;
	return i;
}

/* Several units at once, because reading the clock takes time, but no more than the nearest cache keeps from one step
 * to the next. It is START now. */
static int run_place(struct kedge__filling *f, struct kedge__fill_worker *h, const struct kedge__read_plan_unit *u,
		     size_t count, double start, uint64_t *bytes, struct kedge__error *err)
{
	double checked;
	int rc = 0;

	for (size_t first = 0, end; first < count && !rc; first = end) {
		end = part_end(h, u, first, count);
		rc = part_check(f, h, u, first, end, count, err);
		checked = kedge__clock_seconds();
		h->decoding += checked - start;
		for (size_t i = first; i < end && !rc; i++)
			if (h->at[i])
				rc = unit_fill(f, h, &u[i], h->at[i], bytes, err);
		start = kedge__clock_seconds();
		h->placing += start - checked;
	}
	return rc;
}

/* The COUNT units from U on, in one read. If the kernel may not write to the memory, because of a debugger or a user-
 * mode fault handler, it is filled through the thread's own buffer. */
static int run_fill(struct kedge__filling *f, struct kedge__fill_worker *h, const struct kedge__read_plan_unit *u,
		    size_t count, uint64_t *bytes, struct kedge__error *err)
{
	double start = kedge__clock_seconds(), end;
	int rc;

	run_clear(f, h, u, count);
	run_aim(f, h, u, count, run_is_direct(f, h, u, count));
	rc = run_read(h, u, count, err);
	if (rc && err->sys_errno == EFAULT) {
		kedge__error_done(err);
		*err = (struct kedge__error)KEDGE__ERROR_INIT;
		run_aim(f, h, u, count, false);
		rc = run_read(h, u, count, err);
	}
	end = kedge__clock_seconds();
	h->reading += end - start;
	for (size_t i = 1; i < count; i++)
		h->bytes_read += gap_after(&u[i - 1]);
	return rc ? block_failed(f, u->version, err) : run_place(f, h, u, count, end, bytes, err);
}

/* A batch that was read past the page cache, or is MAPPED. */
static int batch_place(struct kedge__filling *f, struct kedge__fill_worker *h,
		       const struct kedge__read_plan_batch *batch, uint64_t number, const uint8_t *mapped,
		       uint64_t *bytes, struct kedge__error *err)
{
	const struct kedge__read_plan_unit *units = &f->plan.units.at[batch->first];
	uint64_t from = kedge__read_plan_unit_at(units);
	int rc = 0;

	h->from_map = mapped;
	for (size_t i = 0, count; i < batch->count && !rc; i += count) {
		count = KEDGE__MIN(batch->count - i, (size_t)RUN_UNITS);
		for (size_t k = 0; k < count; k++) {
			uint64_t at = kedge__read_plan_unit_at(&units[i + k]);

			h->at[k] =
			    mapped ? (uint8_t *)(uintptr_t)mapped + (at - from) : kedge__fill_past_at(f, number, at);
			h->bytes_mapped += mapped ? units[i + k].bytes : 0;
		}
		run_clear(f, h, &units[i], count);
		rc = run_place(f, h, &units[i], count, kedge__clock_seconds(), bytes, err);
	}
	h->from_map = false;
	return rc;
}

/* Through the page cache. */
static int batch_read(struct kedge__filling *f, struct kedge__fill_worker *h,
		      const struct kedge__read_plan_batch *batch, uint64_t *bytes, struct kedge__error *err)
{
	const struct kedge__read_plan_unit *units = &f->plan.units.at[batch->first];
	int rc = 0;

	for (size_t i = 0, count; i < batch->count && !rc; i += count) {
		count = run_length(&units[i], batch->count - i);
		rc = run_fill(f, h, &units[i], count, bytes, err);
	}
	return rc;
}

static int batch_fill(struct kedge__filling *f, struct kedge__fill_worker *h,
		      const struct kedge__read_plan_batch *batch, uint64_t number, uint64_t *bytes,
		      struct kedge__error *err)
{
	const struct kedge__read_plan_unit *units = &f->plan.units.at[batch->first];
	double start = kedge__clock_seconds();
	bool came = kedge__fill_past_wait(f, number), suits;
	const uint8_t *mapped = NULL;
	int rc;

	h->last = &units[batch->count - 1];
	h->reading += kedge__clock_seconds() - start;
	if (came)
		return batch_place(f, h, batch, number, NULL, bytes, err);
	suits = !f->check && !run_is_direct(f, h, units, batch->count) &&
		kedge__fill_mapped_suits(f, &h->mapped, units, batch->count);
	if (suits && kedge__fill_mapped_wanted(&h->mapped))
		mapped = kedge__fill_mapped_at(&h->mapped, units, batch->count);
	rc = mapped ? batch_place(f, h, batch, number, mapped, bytes, err) : batch_read(f, h, batch, bytes, err);
	if (suits)
		kedge__fill_mapped_note(&h->mapped, mapped, batch->stored_bytes, kedge__clock_seconds() - start);
	return rc;
}

/* ------------------------------------------------------------------ fill: patterns */

static bool is_hole(const struct kedge__filling *f, const struct kedge__read_plan_fill *fill)
{
	return f->goals[fill->target].zeroed && fill->pattern == 0;
}

static int fill_fill(struct kedge__filling *f, struct kedge__fill_worker *h, const struct kedge__read_plan_fill *fill,
		     struct kedge__error *err)
{
	double start = kedge__clock_seconds();
	int rc = 0;

	if (is_far(f, fill->target)) {
		rc = kedge__fill_device_pattern(f, fill, err);
	} else if (f->check || is_hole(f, fill)) {
		if (f->again && !f->check) /* another copy may have had data there */
			kedge__memory_clear(fill->to, fill->len);
		rc = kedge__fill_check_pattern(f, h, fill, err);
	} else {
		uint64_t pos = position_of(f, fill->target, fill->to);

		kedge__fill_sum_clear(f, h, fill->target, pos, fill->len);
		kedge__fill_pattern(fill->pattern, fill->addr, fill->to, fill->len);
		rc = kedge__fill_sum_put(f, h, fill->target, fill->to, pos, fill->len, err);
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
	kedge__copy_fence();
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
		kedge__map_free(f->workers[i].stored, f->stored_room);
		kedge__free(f->workers[i].gap);
		kedge__free(f->workers[i].sums);
		kedge__array_done(&f->workers[i].edges);
		kedge__free(f->workers[i].parcel);
		kedge__fill_overlay_done(&f->workers[i]);
	}
	kedge__free(f->workers);
	f->workers = NULL;
}

int kedge__fill_workers_init(struct kedge__filling *f, struct kedge__error *err)
{
	f->stored_room = KEDGE__MAX(f->plan.stored_max, RUN_BYTES);
	f->worker_count = (size_t)kedge__pool_threads(f->pool);
	f->workers = kedge__calloc(f->worker_count, sizeof(*f->workers));
	if (!f->workers)
		return kedge__error_nomem(err);
	for (size_t i = 0; i < f->worker_count; i++) {
		struct kedge__fill_worker *h = &f->workers[i];

		h->raw = kedge__malloc(f->plan.raw_max + 1);
		h->stored = kedge__map_alloc(f->stored_room); /* aligned, for the kernel's copies */
		h->gap = kedge__malloc(RUN_GAP);
		h->sums = kedge__calloc(f->goal_count + SUM_PAD, sizeof(struct kedge__sum));
		if (!h->raw || !h->stored || !h->gap || !h->sums)
			return kedge__error_nomem(err);
		if (f->device_count && kedge__fill_parcel_new(f, &h->parcel, err) != 0)
			return KEDGE_E_NOMEM;
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

/* By all threads at once: it takes a tenth of the time that copying what was mapped does. */
static int worker_unmap(void *ctx, size_t i, int worker)
{
	struct kedge__filling *f = ctx;

	(void)worker;
	kedge__fill_mapped_done(&f->workers[i].mapped);
	return 0;
}

int kedge__fill_run(struct kedge__filling *f, struct kedge__pipeline_stats *stats, struct kedge__error *err)
{
	size_t items = f->plan.batches.count + f->plan.fills.count;
	int rc = 0;

	f->next = f->announced = f->layers_announced = 0;
	f->done = 0;
	kedge__fill_past_init(f);
	if (f->plan.ground_batches)
		rc = run_round(f, f->plan.ground_batches, stats, err);
	if (!rc && f->plan.ground_batches)
		rc = kedge__fill_devices_send(f, err);
	if (!rc && f->plan.ground_batches < items)
		rc = run_round(f, items, stats, err);
	kedge__fill_past_done(f);
	kedge__pool_for(f->pool, f->worker_count, worker_unmap, f);
	return rc;
}
