/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What goes to GPUs. Checked and decoded bytes are put into parcels, and a parcel into a buffer on its way to the
 * device, with the places where its bytes go. A literal that several places need is in there once, whichever targets
 * they belong to: all its places are pieces of the same unit. Dead bytes are not sent, and neither are patterns, which
 * are written where they go.
 */
#include "codec/codec.h"
#include "restore/fill.h"

#include <stdlib.h>

#define PARCEL_BYTES (UINT64_C(256) << 10)
#define PARCEL_RUNS  2048
#define ALIGNED                                                                                                        \
	16 /* what a device reads and writes at once: bytes keep their distance from a multiple of it, if they can */
#define PAST_BYTES 512 /* a run that is worth copying past the cache */

/* Bytes of the block that are neighbours in the parcel, too. */
struct stretch {
	uint32_t offset, len; /* in the block, decoded */
	uint32_t at;          /* in the parcel */
};

/* Bytes that go to one place. */
struct run {
	uint64_t to;
	uint32_t from, len; /* in the parcel */
	uint32_t target;
};

struct kedge__fill_parcel {
	size_t room, run_room;
	uint32_t bytes;
	size_t stretch_count, run_count;
	struct stretch stretches[PARCEL_RUNS];
	struct run runs[PARCEL_RUNS];
};

/* ------------------------------------------------------------------ init and done */

static struct kedge__fill_device *device_of(const struct kedge__filling *f, const struct kedge__restore_device *device)
{
	for (size_t i = 0; i < f->device_count; i++)
		if (f->devices[i].device == device)
			return &f->devices[i];
	return NULL;
}

static int device_add(struct kedge__filling *f, struct kedge__restore_device *device, struct kedge__error *err)
{
	struct kedge__fill_device *d = &f->devices[f->device_count];

	*d = (struct kedge__fill_device){.device = device};
	d->targets = kedge__calloc(f->goal_count, sizeof(*d->targets));
	d->goals = kedge__calloc(f->goal_count, sizeof(*d->goals));
	f->device_count++;
	return d->targets && d->goals ? 0 : kedge__error_nomem(err);
}

/* What is not a multiple of 8 in memory cannot be summed word by word as it is written. */
static void goal_add(struct kedge__filling *f, struct kedge__fill_device *d, uint32_t goal)
{
	struct kedge__fill_goal *g = &f->goals[goal];

	g->number = (uint32_t)d->count;
	d->goals[d->count] = goal;
	d->targets[d->count++] =
	    (struct kedge__gpu_target){.at = (uintptr_t)g->data, .bytes = g->record->bytes, .rule = g->record->rule};
	if ((uintptr_t)g->data % 8 || g->number >= KEDGE__GPU_TARGETS)
		atomic_store(&g->odd, true);
}

int kedge__fill_devices_init(struct kedge__filling *f, struct kedge__error *err)
{
	size_t far = 0;
	int rc = 0;

	for (size_t i = 0; i < f->goal_count; i++)
		far += f->goals[i].device != NULL;
	if (!far)
		return 0;
	f->devices = kedge__calloc(far, sizeof(*f->devices));
	if (!f->devices)
		return kedge__error_nomem(err);
	for (size_t i = 0; i < f->goal_count && !rc; i++) {
		struct kedge__restore_device *device = f->goals[i].device;

		if (device && !device_of(f, device))
			rc = device_add(f, device, err);
		if (device && !rc)
			goal_add(f, device_of(f, device), (uint32_t)i);
	}
	return rc;
}

void kedge__fill_devices_done(struct kedge__filling *f)
{
	for (size_t i = 0; i < f->device_count; i++) {
		kedge__free(f->devices[i].targets);
		kedge__free(f->devices[i].goals);
	}
	kedge__free(f->devices);
	f->devices = NULL;
	f->device_count = 0;
}

/* ------------------------------------------------------------------ begin and end */

int kedge__fill_devices_begin(struct kedge__filling *f, struct kedge__error *err)
{
	int rc = 0;

	for (size_t i = 0; i < f->device_count && !rc; i++)
		rc = kedge__device_begin(f->devices[i].device, f->devices[i].targets, f->devices[i].count, err);
	return rc;
}

int kedge__fill_devices_send(struct kedge__filling *f, struct kedge__error *err)
{
	int rc = 0;

	for (size_t i = 0; i < f->device_count && !rc; i++)
		rc = kedge__device_send(f->devices[i].device, err);
	return rc;
}

int kedge__fill_devices_end(struct kedge__filling *f, struct kedge__error *err)
{
	uint64_t damaged = 0;
	int rc = 0;

	for (size_t i = 0; i < f->device_count && !rc; i++) {
		struct kedge__fill_device *d = &f->devices[i];

		for (size_t k = 0; k < d->count; k++)
			d->targets[k].later = atomic_load(&f->goals[d->goals[k]].odd);
		rc = kedge__device_end(d->device, d->targets, d->count, &damaged, err);
		for (size_t k = 0; k < d->count && !rc; k++)
			f->workers[0].sums[d->goals[k]] = d->targets[k].sum;
		if (!rc && damaged) {
			f->unpack_here = true; /* to find out which block it is, and whether there is another copy */
			rc =
			    kedge__error_set(err, KEDGE_E_DAMAGED, 0, "codec planes: %llu strips are not what they say",
					     (unsigned long long)damaged);
		}
	}
	return rc;
}

void kedge__fill_devices_abandon(struct kedge__filling *f)
{
	for (size_t i = 0; i < f->device_count; i++)
		kedge__device_abandon(f->devices[i].device);
}

/* ------------------------------------------------------------------ parcels */

int kedge__fill_parcel_new(const struct kedge__filling *f, struct kedge__fill_parcel **out, struct kedge__error *err)
{
	struct kedge__fill_parcel *p = kedge__malloc(sizeof(*p));

	if (!p)
		return kedge__error_nomem(err);
	p->room = PARCEL_BYTES;
	p->run_room = PARCEL_RUNS;
	for (size_t i = 0; i < f->device_count; i++) {
		uint64_t most = kedge__device_most(f->devices[i].device);

		p->room = KEDGE__MIN(p->room, most);
		p->run_room = KEDGE__MIN(p->run_room, most / sizeof(struct kedge__gpu_piece));
	}
	p->bytes = 0;
	p->stretch_count = p->run_count = 0;
	*out = p;
	return 0;
}

/* Whether the parcel has the byte at OFFSET of the block, or can have it as the next one, for a run that goes to TO. */
static bool stretch_takes(const struct stretch *s, uint32_t offset, uint64_t to)
{
	uint32_t end = s->offset + s->len;

	return offset >= s->offset && (offset < end || (offset == end && (s->at + s->len) % ALIGNED == to % ALIGNED));
}

/* How many of the LEN bytes from OFFSET on, which go to TO, the parcel takes as a run or as a part of the last one; 0:
 * it is full. */
static uint32_t parcel_add(struct kedge__fill_parcel *p, uint32_t offset, uint64_t to, uint32_t len, uint32_t target)
{
	struct stretch *s = p->stretch_count ? &p->stretches[p->stretch_count - 1] : NULL;
	struct run *r = p->run_count ? &p->runs[p->run_count - 1] : NULL;
	bool has = s && stretch_takes(s, offset, to);
	uint32_t at = has ? s->at + (offset - s->offset)
			  : (p->bytes + ALIGNED - 1) / ALIGNED * ALIGNED + (uint32_t)(to % ALIGNED);
	bool goes_on = r && r->target == target && r->from + r->len == at && r->to + r->len == to &&
		       r->len < KEDGE__GPU_PIECE_BYTES;

	if (at >= p->room || (!goes_on && p->run_count == p->run_room) || (!has && p->stretch_count == p->run_room))
		return 0;
	len = KEDGE__MIN(len, KEDGE__GPU_PIECE_BYTES - (goes_on ? r->len : 0));
	len = (uint32_t)KEDGE__MIN(len, p->room - at);
	if (!has) {
		s = &p->stretches[p->stretch_count++];
		*s = (struct stretch){.offset = offset, .at = at};
	}
	s->len = KEDGE__MAX(s->len, offset + len - s->offset);
	p->bytes = s->at + s->len;
	if (goes_on)
		r->len += len;
	else
		p->runs[p->run_count++] = (struct run){to, at, len, target};
	return len;
}

/* No processor needs them again. */
static void bytes_put(uint8_t *to, const uint8_t *from, size_t len)
{
	if (len >= PAST_BYTES)
		kedge__copy_past_cache(to, from, len);
	else
		memcpy(to, from, len);
}

/* A run that is summed as it is written has the number of its target. */
static struct kedge__gpu_piece piece_of(struct kedge__filling *f, const struct run *r, uint32_t at)
{
	struct kedge__fill_goal *g = &f->goals[r->target];
	bool later = kedge__fill_sum_defers(g, r->to - (uintptr_t)g->data, r->len);

	return (struct kedge__gpu_piece){r->to, at + r->from,
					 kedge__gpu_piece_what(r->len, false, later ? KEDGE__GPU_TARGETS : g->number)};
}

/* To the device; RAW is byte FROM of the block. */
static int parcel_send(struct kedge__filling *f, struct kedge__fill_parcel *p, struct kedge__restore_device *device,
		       const uint8_t *raw, uint32_t from, struct kedge__error *err)
{
	const struct kedge__device_need need = {.bytes = p->bytes, .pieces = p->run_count};
	struct kedge__device_claim claim;
	int rc = p->run_count ? kedge__device_claim(device, &need, &claim, err) : 0;

	for (size_t i = 0; i < p->stretch_count && !rc; i++) {
		const struct stretch *s = &p->stretches[i];

		bytes_put(claim.data + s->at, raw + (s->offset - from), s->len);
	}
	for (size_t i = 0; i < p->run_count && !rc; i++)
		claim.pieces[i] = piece_of(f, &p->runs[i], claim.at);
	if (!rc && p->run_count)
		rc = kedge__device_commit(device, &claim, err);
	p->bytes = 0;
	p->stretch_count = p->run_count = 0;
	return rc;
}

/* ------------------------------------------------------------------ pieces */

static int by_offset(const void *a, const void *b)
{
	const struct kedge__piece *x = a, *y = b;

	if (x->offset != y->offset)
		return x->offset < y->offset ? -1 : 1;
	return (x->to > y->to) - (x->to < y->to);
}

/* They mostly are in order: that of their places, which is also that of the block. */
static void pieces_sort(struct kedge__piece *pieces, size_t count)
{
	size_t i = 1;

	while (i < count && pieces[i - 1].offset <= pieces[i].offset)
		i++;
	if (i < count)
		qsort(pieces, count, sizeof(*pieces), by_offset);
}

static int piece_put(struct kedge__filling *f, struct kedge__fill_parcel *parcel, const struct kedge__piece *p,
		     const uint8_t *raw, uint32_t from, struct kedge__error *err)
{
	int rc = 0;

	for (uint32_t done = 0, n; done < p->len && !rc; done += n) {
		n = parcel_add(parcel, p->offset + done, (uintptr_t)p->to + done, p->len - done, p->target);
		if (!n)
			rc = parcel_send(f, parcel, f->goals[p->target].device, raw, from, err);
	}
	return rc;
}

int kedge__fill_device_put(struct kedge__filling *f, struct kedge__fill_worker *h, struct kedge__piece *pieces,
			   size_t count, const uint8_t *raw, uint32_t from, struct kedge__error *err)
{
	int rc = 0;

	pieces_sort(pieces, count);
	for (size_t d = 0; d < f->device_count && !rc; d++) {
		struct kedge__restore_device *device = f->devices[d].device;

		for (size_t i = 0; i < count && !rc; i++)
			if (f->goals[pieces[i].target].device == device)
				rc = piece_put(f, h->parcel, &pieces[i], raw, from, err);
		if (!rc)
			rc = parcel_send(f, h->parcel, device, raw, from, err);
	}
	return rc;
}

/* ------------------------------------------------------------------ blocks that are unpacked there */

/* The device that all of the pieces go to; NULL: not all go to the same. */
static struct kedge__restore_device *only_device(const struct kedge__filling *f, const struct kedge__piece *pieces,
						 size_t count)
{
	struct kedge__restore_device *device = count ? f->goals[pieces[0].target].device : NULL;

	for (size_t i = 1; i < count && device; i++)
		if (f->goals[pieces[i].target].device != device)
			device = NULL;
	return device;
}

static uint64_t parts_of(const struct kedge__piece *p)
{
	return (p->len + KEDGE__GPU_PIECE_BYTES - 1) / KEDGE__GPU_PIECE_BYTES;
}

bool kedge__fill_device_unpacks(const struct kedge__filling *f, const struct kedge__read_plan_unit *u)
{
	const struct kedge__block_record *b = &u->segment->blocks[u->block];
	const struct kedge__piece *pieces = &f->plan.pieces[u->first];
	struct kedge__device_need need = {.bytes = b->stored_bytes, .unpacked = b->raw_bytes};
	const struct kedge__restore_device *device;

	if (!f->device_count || f->unpack_here || b->codec != KEDGE__CODEC_PLANES || u->live < b->stored_bytes)
		return false;
	device = only_device(f, pieces, u->count);
	need.strips = b->raw_bytes / KEDGE__GPU_STRIP + 2;
	for (size_t i = 0; i < u->count; i++)
		need.pieces += parts_of(&pieces[i]);
	return device && kedge__device_unpacks(device) && kedge__planes_alone(b->param) &&
	       kedge__device_fits(device, &need);
}

static void strips_put(struct kedge__planes_walk *w, const struct kedge__device_claim *claim)
{
	bool more = true;

	for (size_t i = 0; kedge__planes_walk_next(w, &more, NULL) == 0 && more; i++)
		claim->strips[i] = (struct kedge__gpu_strip){.from = claim->at + (uint32_t)w->from,
							     .to = claim->unpacked + (uint32_t)w->at,
							     .size = (uint16_t)w->size,
							     .bytes = (uint16_t)w->bytes,
							     .how = w->width | w->steps << 8};
}

/* The pieces of the block, in parts that the device takes. */
static void parts_put(struct kedge__filling *f, const struct kedge__piece *pieces, size_t count,
		      const struct kedge__device_claim *claim)
{
	struct kedge__gpu_piece *to = claim->pieces;

	for (size_t i = 0; i < count; i++) {
		for (uint32_t done = 0; done < pieces[i].len; done += KEDGE__GPU_PIECE_BYTES) {
			struct run r = {.to = (uintptr_t)pieces[i].to + done,
					.from = pieces[i].offset + done,
					.len = KEDGE__MIN(pieces[i].len - done, KEDGE__GPU_PIECE_BYTES),
					.target = pieces[i].target};

			*to++ = piece_of(f, &r, KEDGE__GPU_UNPACKED + claim->unpacked);
		}
	}
}

/* All strips are looked at first: what is not as it says must not be sent. */
static int strips_check(const struct kedge__planes_walk *begin, struct kedge__error *err)
{
	struct kedge__planes_walk w = *begin;
	bool more = true;
	int rc = 0;

	while (!rc && more)
		rc = kedge__planes_walk_next(&w, &more, err);
	return rc;
}

int kedge__fill_device_unpack(struct kedge__filling *f, const struct kedge__read_plan_unit *u, const uint8_t *stored,
			      struct kedge__error *err)
{
	const struct kedge__block_record *b = &u->segment->blocks[u->block];
	const struct kedge__piece *pieces = &f->plan.pieces[u->first];
	struct kedge__restore_device *device = f->goals[pieces[0].target].device;
	struct kedge__device_need need = {.bytes = b->stored_bytes, .unpacked = b->raw_bytes};
	struct kedge__device_claim claim;
	struct kedge__planes_walk w;
	int rc = kedge__planes_walk_init(&w, stored, b->stored_bytes, b->param, b->raw_bytes, err);

	if (!rc)
		rc = strips_check(&w, err);
	if (rc)
		return rc;
	need.strips = w.count;
	for (size_t i = 0; i < u->count; i++)
		need.pieces += parts_of(&pieces[i]);
	rc = kedge__device_claim(device, &need, &claim, err);
	if (rc)
		return rc;
	bytes_put(claim.data, stored, b->stored_bytes);
	strips_put(&w, &claim);
	parts_put(f, pieces, u->count, &claim);
	return kedge__device_commit(device, &claim, err);
}

/* ------------------------------------------------------------------ patterns */

int kedge__fill_device_pattern(struct kedge__filling *f, const struct kedge__read_plan_fill *fill,
			       struct kedge__error *err)
{
	struct kedge__fill_goal *g = &f->goals[fill->target];
	uint64_t to = (uintptr_t)fill->to, pos = to - (uintptr_t)g->data;
	uint64_t count = (fill->len + KEDGE__GPU_FILL_BYTES - 1) / KEDGE__GPU_FILL_BYTES;
	uint8_t pattern[8];
	const struct kedge__device_need need = {.bytes = sizeof(pattern), .pieces = count, .filled = fill->len};
	bool later = kedge__fill_sum_defers(g, pos, fill->len);
	struct kedge__device_claim claim;
	int rc = kedge__device_claim(g->device, &need, &claim, err);

	if (rc)
		return rc;
	/* The byte at image address A is byte A % 8 of the pattern; on the device that at its own. */
	kedge__put64(pattern, fill->pattern);
	for (unsigned i = 0; i < 8; i++)
		claim.data[(to + i) % 8] = pattern[(fill->addr + i) % 8];
	for (uint64_t i = 0, at = 0; i < count; i++, at += KEDGE__GPU_FILL_BYTES)
		claim.pieces[i] = (struct kedge__gpu_piece){
		    to + at, claim.at,
		    kedge__gpu_piece_what((uint32_t)KEDGE__MIN(KEDGE__GPU_FILL_BYTES, fill->len - at), true,
					  later ? KEDGE__GPU_TARGETS : g->number)};
	return kedge__device_commit(g->device, &claim, err);
}
