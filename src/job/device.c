/* SPDX-License-Identifier: BSD-3-Clause */
#include "job/handle.h"

#define GUESTS 4 /* bytes on the device for each one of a guest */
#define KEPT   8 /* versions for which literal memory is kept that none of them needs */

static bool is_there(const struct kedge__region *r)
{
	return r->memory.kind == KEDGE__MEMORY_DEVICE && !r->file;
}

/* ------------------------------------------------------------------ where */

/* The device that has most of the image; -1: none, or more than one. */
static int device_of(const kedge_t *k)
{
	uint64_t there = 0, guests = 0;
	int device = -1;

	for (size_t i = 0; i < kedge__region_table_count(k->regions.table); i++) {
		const struct kedge__region *r = kedge__region_table_at(k->regions.table, i);

		if (!r->bytes)
			continue;
		if (r->file || (is_there(r) && device >= 0 && r->memory.device != device))
			return -1;
		if (is_there(r))
			device = r->memory.device;
		*(is_there(r) ? &there : &guests) += r->bytes;
	}
	return guests <= there / GUESTS ? device : -1;
}

static bool may_be_there(const kedge_t *k)
{
	return !k->baseline.full_next && !k->device.given_up && kedge__reducer_on_device(k->baseline.reducer);
}

/* Everything that is on another device. */
static void device_leave(kedge_t *k)
{
	struct kedge__job_device *d = &k->device;

	if (!d->gpu)
		return;
	if (k->baseline.reducer)
		kedge__reducer_leave_device(k->baseline.reducer);
	kedge__gpu_release(d->gpu, d->guests, d->guest_room);
	kedge__gpu_unpin(d->gpu, d->literals);
	*d = (struct kedge__job_device){.given_up = d->given_up};
}

void kedge__device_done(kedge_t *k)
{
	device_leave(k);
}

/* ------------------------------------------------------------------ literals */

/* Pinned memory is slow to come by, and kept; but not if only the first version was large. */
static void literals_trim(struct kedge__job_device *d)
{
	if (++d->versions < KEPT)
		return;
	if (d->literal_room > 4 * d->most) {
		kedge__gpu_unpin(d->gpu, d->literals);
		d->literals = NULL;
		d->literal_room = 0;
	}
	d->most = d->versions = 0;
}

static int literals_room(void *ctx, uint64_t bytes, void **out, uint64_t *have, struct kedge__error *err)
{
	kedge_t *k = ctx;
	struct kedge__job_device *d = &k->device;
	int rc = 0;

	if (bytes > d->literal_room) {
		kedge__gpu_unpin(d->gpu, d->literals);
		d->literals = NULL;
		d->literal_room = 0;
		rc = kedge__gpu_pin(d->gpu, bytes + bytes / 8, &d->literals, err);
		d->literal_room = rc ? 0 : bytes + bytes / 8;
	}
	*out = d->literals;
	*have = d->literal_room;
	return rc;
}

/* ------------------------------------------------------------------ codecs */

/* How literals of region I are packed there, if they are. */
static void plan_region(struct kedge__version *v, const struct kedge__codec_choice *wanted, size_t i)
{
	const struct kedge__codec_region region = kedge__codec_region_of(&v->records[i]);
	uint16_t param;

	v->hows[i].codec = KEDGE__GPU_NONE;
	if (kedge__codec_plan_there(wanted, v->k->memory, &region, &v->plans[i]))
		(void)kedge__codec_there(&v->plans[i].choice, region.type, &v->hows[i], &param);
}

/* Without memory to plan it, nothing is packed there. */
static void plan_regions(struct kedge__version *v)
{
	const struct kedge__codec_choice wanted = kedge__seal_codec(v);

	v->plans = kedge__calloc(v->region_count + 1, sizeof(*v->plans));
	v->hows = kedge__calloc(v->region_count + 1, sizeof(*v->hows));
	v->device_room.block = (uint32_t)v->k->set.block;
	if (!v->plans || !v->hows)
		return;
	for (size_t i = 0; i < v->region_count; i++)
		plan_region(v, &wanted, i);
	v->device_room.hows = v->hows;
}

/* ------------------------------------------------------------------ the image */

static uint64_t guest_bytes(const kedge_t *k)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < kedge__region_table_count(k->regions.table); i++) {
		const struct kedge__region *r = kedge__region_table_at(k->regions.table, i);

		if (!is_there(r))
			bytes += kedge__mirror_room(r);
	}
	return bytes;
}

/* Where they will be. */
static int guests_lay(struct kedge__version *v, struct kedge__error *err)
{
	kedge_t *k = v->k;
	struct kedge__job_device *d = &k->device;
	uint64_t at = 0, bytes = guest_bytes(k);
	int rc = 0;

	if (bytes > d->guest_room) {
		kedge__gpu_release(d->gpu, d->guests, d->guest_room);
		d->guests = d->guest_room = 0;
		rc = kedge__gpu_alloc(d->gpu, bytes, &d->guests, err);
		d->guest_room = rc ? 0 : bytes;
	}
	for (size_t i = 0; i < v->region_count && !rc; i++) {
		const struct kedge__region *r = kedge__region_table_at(k->regions.table, i);

		v->regions[i].data = is_there(r) ? r->data : (const void *)(uintptr_t)(d->guests + at);
		if (!is_there(r))
			at += kedge__mirror_room(r);
	}
	return rc;
}

static int guests_send(struct kedge__version *v, struct kedge__error *err)
{
	kedge_t *k = v->k;
	struct kedge__gpu *g = k->device.gpu;
	int rc = 0;

	for (size_t i = 0; i < v->region_count && !rc; i++) {
		const struct kedge__region *r = kedge__region_table_at(k->regions.table, i);

		if (!is_there(r))
			rc =
			    kedge__gpu_copy_in(g, KEDGE__GPU_IN, (uintptr_t)v->regions[i].data, r->data, r->bytes, err);
	}
	return rc ? rc : kedge__gpu_sync(g, KEDGE__GPU_IN, err);
}

/* The image in memory of the host. */
static int fetch(struct kedge__version *v, struct kedge__error *err)
{
	int rc = kedge__mirrors_fetch(v->k, err);

	for (size_t i = 0; i < v->region_count && !rc; i++)
		v->regions[i].data = kedge__region_bytes(kedge__region_table_at(v->k->regions.table, i));
	return rc;
}

static int give_up(struct kedge__version *v, struct kedge__error *why, struct kedge__error *err)
{
	kedge_t *k = v->k;

	kedge__log(
	    KEDGE_LOG_NOTICE,
	    "%s: regions on the GPU are copied to the host and reduced there from now on, because memory is short: "
	    "%s",
	    k->name, kedge__error_text(why));
	kedge__error_done(why);
	k->device.given_up = true;
	device_leave(k);
	v->device = NULL;
	return fetch(v, err);
}

int kedge__device_lay(struct kedge__version *v, struct kedge__error *err)
{
	kedge_t *k = v->k;
	struct kedge__error why = KEDGE__ERROR_INIT;
	struct kedge__gpu *gpu = NULL;
	int device = may_be_there(k) ? device_of(k) : -1, rc;

	v->device = NULL;
	rc = device < 0 ? 0 : kedge__gpus_need(k, device, &gpu, err);
	if (rc)
		return rc;
	if (k->device.gpu != gpu || !gpu || !gpu->kernels)
		device_leave(k);
	if (!gpu || !gpu->kernels)
		return fetch(v, err);
	k->device.gpu = gpu;
	v->device_room = (struct kedge__reduce_device){.gpu = gpu, .room = literals_room, .ctx = k};
	v->device = &v->device_room;
	rc = guests_lay(v, &why);
	if (rc == KEDGE_E_NOMEM)
		return give_up(v, &why, err);
	if (why.code)
		kedge__error_move(err, &why);
	return rc;
}

int kedge__device_turn_begin(struct kedge__version *v, struct kedge__error *err)
{
	int rc = kedge__gpus_want(v->k, v->device->gpu->device, err);

	if (!rc)
		rc = kedge__gpus_begin(v->k, err);
	return rc ? rc : guests_send(v, err);
}

int kedge__device_turn_end(struct kedge__version *v, int rc, struct kedge__error *err)
{
	return kedge__gpus_end(v->k, rc, err);
}

static void captured(const struct kedge__version *v)
{
	const struct kedge__reducer *r = v->k->baseline.reducer;
	uint64_t fetched = kedge__reducer_fetched(r);

	v->k->device.most = KEDGE__MAX(v->k->device.most, fetched);
	kedge__log(KEDGE_LOG_DEBUG, "%s: version %llu was reduced on GPU %d: %llu bytes of literals%s", v->k->name,
		   (unsigned long long)v->version, v->device->gpu->device, (unsigned long long)fetched,
		   kedge__reducer_packed(r) ? ", packed there" : "");
}

int kedge__device_capture(struct kedge__version *v, struct kedge__error *err)
{
	struct kedge__error why = KEDGE__ERROR_INIT;
	int rc;

	if (!v->device)
		return 0;
	literals_trim(&v->k->device);
	plan_regions(v);
	rc = kedge__baseline_begin(v, &why);
	if (rc == KEDGE_E_NOMEM)
		return give_up(v, &why, err);
	if (rc)
		kedge__error_move(err, &why);
	else
		captured(v);
	kedge__error_done(&why); /* of what it could do without */
	return rc;
}
