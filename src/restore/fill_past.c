/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads past the page cache, several in flight (io_uring). Long runs that the page cache does not have are put directly
 * into our memory, with a fraction of the processor time, while earlier blocks are checked and placed. Runs that the
 * page cache has are faster to get from there.
 *
 * Such a read is a hint that may fail: bytes that did not arrive this way are read through the page cache.
 */
#include "restore/fill.h"

#define LEAST_BYTES  (UINT64_C(256) << 10) /* the smallest batch that is worth it */
#define GAP_BYTES    (UINT64_C(16) << 10)  /* read together with its surroundings */
#define PROBE_BYTES  (UINT64_C(32) << 10)  /* of a batch, when the kernel is asked whether it has them */
#define FLIGHT       16                    /* batches in flight before their turn; half of them are begun at once */
#define FLIGHT_LEAST 4                     /* where batches are large, */
#define FLIGHT_BYTES (UINT64_C(64) << 20)  /* and how much all of them are if they are not these few */
#define FEW_BYTES    (UINT64_C(1) << 20)   /* in total; fewer are not worth a ring */

static uint64_t down(uint64_t at)
{
	return at & ~(uint64_t)(KEDGE__FS_DIRECT - 1);
}

static uint64_t up(uint64_t at)
{
	return down(at + KEDGE__FS_DIRECT - 1);
}

/* ------------------------------------------------------------------ init and done */

size_t kedge__fill_past_queue(const struct kedge__filling *f)
{
	return f->io.queue ? f->io.queue : 2 * f->worker_count;
}

static uint64_t plan_bytes(const struct kedge__read_plan *plan)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < plan->batches.count; i++)
		bytes += plan->batches.at[i].stored_bytes;
	return bytes;
}

static size_t flight_of(size_t room)
{
	return (size_t)KEDGE__MAX(KEDGE__MIN(FLIGHT_BYTES / room, FLIGHT), FLIGHT_LEAST);
}

/* Restores work without a ring, too; with a rate nothing is read before its turn. */
void kedge__fill_past_init(struct kedge__filling *f)
{
	struct kedge__fill_past *p = &f->past;
	size_t count;

	*p = (struct kedge__fill_past){.fd = -1};
	/* The last unit of a batch may go beyond its size, and what lies between two of them is read, too. */
	p->room = (size_t)up(f->plan.batch_bytes + f->plan.stored_max +
			     2 * KEDGE__FILL_READS * (GAP_BYTES + KEDGE__FS_DIRECT));
	p->flight = flight_of(p->room);
	count = KEDGE__MIN(kedge__fill_past_queue(f) + p->flight, f->plan.batches.count);
	if (f->io.writer == KEDGE__WRITER_PWRITE || plan_bytes(&f->plan) < FEW_BYTES || kedge__fs_queue_probe() != 0 ||
	    kedge__bucket_limits(kedge__lineage_top(f->lineage)->bucket))
		return;
	p->slots = kedge__calloc(count, sizeof(*p->slots));
	if (p->slots && kedge__fs_reads_new((unsigned)(count * KEDGE__FILL_READS), &p->reads, NULL) == 0)
		p->count = count;
}

void kedge__fill_past_done(struct kedge__filling *f)
{
	struct kedge__fill_past *p = &f->past;

	kedge__fs_reads_free(p->reads);
	kedge__fs_close(p->fd);
	if (p->memory)
		kedge__map_free(p->memory, p->count * p->room);
	kedge__free(p->slots);
	*p = (struct kedge__fill_past){.fd = -1};
}

/* ------------------------------------------------------------------ begin */

/* The batch in a few reads; false: it is in too many pieces, or does not fit. */
static bool reads_make(const struct kedge__filling *f, const struct kedge__read_plan_batch *batch,
		       struct kedge__fill_slot *s)
{
	const struct kedge__read_plan_unit *u = &f->plan.units.at[batch->first];
	struct kedge__fill_read *r = s->reads;

	s->count = 0;
	for (size_t i = 0; i < batch->count; i++) {
		uint64_t from = kedge__read_plan_unit_at(&u[i]), to = from + u[i].bytes;

		if (!s->count || from > r->needed + GAP_BYTES) {
			if (s->count == KEDGE__FILL_READS)
				return false;
			r = &s->reads[s->count++];
			r->from = down(from);
			r->at = s->count > 1 ? (size_t)(r[-1].at + up(r[-1].needed) - r[-1].from) : 0;
		}
		r->needed = to;
	}
	return r->at + up(r->needed) - r->from <= f->past.room;
}

static bool plan_reads(const struct kedge__filling *f, const struct kedge__read_plan_batch *batch,
		       struct kedge__fill_slot *s)
{
	return batch->stored_bytes >= LEAST_BYTES && reads_make(f, batch, s);
}

bool kedge__fill_past_suits(const struct kedge__filling *f, const struct kedge__read_plan_batch *batch)
{
	struct kedge__fill_slot s;

	return plan_reads(f, batch, &s);
}

/* Where read I of slot S is tracked while in flight. */
static unsigned read_slot(const struct kedge__fill_past *p, const struct kedge__fill_slot *s, size_t i)
{
	return (unsigned)((size_t)(s - p->slots) * KEDGE__FILL_READS + i);
}

/* Asked of the beginning alone, because the kernel goes through all its pages to answer. */
static bool is_cached(const struct kedge__segment *seg, const struct kedge__fill_slot *s)
{
	uint64_t bytes = s->reads[0].needed - s->reads[0].from;

	return kedge__fs_cached(seg->fd, seg->start + s->reads[0].from, KEDGE__MIN(bytes, PROBE_BYTES));
}

/* The descriptor of SEG stays open for the next batch. */
static bool open_past(struct kedge__fill_past *p, const struct kedge__segment *seg)
{
	if (p->segment != seg) {
		kedge__fs_reads_submit(p->reads);
		kedge__fs_close(p->fd);
		p->fd = -1;
		p->segment = seg;
		(void)kedge__fs_open_direct(seg->path, &p->fd, NULL);
	}
	return p->fd >= 0;
}

static bool slot_memory(struct kedge__fill_past *p, struct kedge__fill_slot *s)
{
	if (!p->memory)
		p->memory = kedge__map_alloc(p->count * p->room);
	s->data = p->memory ? p->memory + (size_t)(s - p->slots) * p->room : NULL;
	return s->data;
}

static void begin(struct kedge__filling *f, size_t number)
{
	const struct kedge__read_plan_batch *batch = &f->plan.batches.at[number];
	const struct kedge__segment *seg = f->plan.units.at[batch->first].segment;
	struct kedge__fill_past *p = &f->past;
	struct kedge__fill_slot *s = &p->slots[number % p->count];

	s->used =
	    plan_reads(f, batch, s) && seg->fd >= 0 && !is_cached(seg, s) && open_past(p, seg) && slot_memory(p, s);
	for (size_t i = 0; i < s->count && s->used; i++) {
		struct kedge__fill_read *r = &s->reads[i];
		size_t bytes = (size_t)(up(r->needed) - r->from);

		kedge__bucket_take(seg->bucket, (double)bytes);
		kedge__fs_reads_begin(p->reads, read_slot(p, s, i), p->fd, s->data + r->at, bytes,
				      seg->start + r->from);
	}
}

bool kedge__fill_past_begin(struct kedge__filling *f, size_t number)
{
	struct kedge__fill_past *p = &f->past;

	if (!p->count)
		return false;
	if (p->begun <= number + p->flight / 2) {
		for (; p->begun < KEDGE__MIN(number + p->flight, f->plan.batches.count); p->begun++)
			begin(f, p->begun);
		kedge__fs_reads_submit(p->reads);
	}
	return p->slots[number % p->count].used;
}

/* ------------------------------------------------------------------ end */

bool kedge__fill_past_wait(struct kedge__filling *f, uint64_t number)
{
	struct kedge__fill_past *p = &f->past;
	struct kedge__fill_slot *s = p->count ? &p->slots[number % p->count] : NULL;
	bool all = true;

	if (!s || !s->used)
		return false;
	for (size_t i = 0; i < s->count; i++)
		all =
		    kedge__fs_reads_wait(p->reads, read_slot(p, s, i)) >= s->reads[i].needed - s->reads[i].from && all;
	s->used = false;
	return all;
}

uint8_t *kedge__fill_past_at(const struct kedge__filling *f, uint64_t number, uint64_t offset)
{
	const struct kedge__fill_slot *s = &f->past.slots[number % f->past.count];
	size_t i = 0;

	while (offset >= s->reads[i].needed)
		i++;
	return s->data + s->reads[i].at + (offset - s->reads[i].from);
}
