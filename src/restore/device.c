/* SPDX-License-Identifier: BSD-3-Clause */
#include "restore/device.h"

#include <pthread.h>

#define BUFFER_LEAST  (UINT64_C(256) << 10) /* unless fewer are asked for */
#define CLAIM_ALIGNED 64

enum buffer_state {
	OPEN, /* being filled, or waiting for that */
	FULL, /* sent as soon as all claims are committed */
	SENT,
};

struct buffer {
	uint8_t *memory;
	struct kedge__device_need used;
	unsigned claims; /* not yet committed */
	enum buffer_state state;
};

struct kedge__restore_device {
	struct kedge__gpu *gpu;
	struct kedge__gpu_scatter *scatter;
	uint64_t bytes; /* of a buffer */
	struct kedge__gpu_layout layout;

	pthread_mutex_t lock; /* guards what follows, and the GPU while bytes are on their way */
	pthread_cond_t sent;
	struct buffer buffers[KEDGE__GPU_SCATTER_BUFFERS];
	unsigned current;
	uint64_t filled;            /* bytes of patterns, of buffers that are full */
	struct kedge__error failed; /* the first failure; nothing is sent after it */
};

/* ------------------------------------------------------------------ new and free */

static void memory_free(struct kedge__restore_device *d)
{
	for (unsigned i = 0; i < KEDGE__GPU_SCATTER_BUFFERS; i++) {
		kedge__gpu_unpin(d->gpu, d->buffers[i].memory);
		d->buffers[i].memory = NULL;
	}
	kedge__gpu_scatter_free(d->scatter);
	d->scatter = NULL;
}

static int memory_take(struct kedge__restore_device *d, struct kedge__error *err)
{
	int rc = kedge__gpu_scatter_new(d->gpu, d->bytes, &d->scatter, err);

	for (unsigned i = 0; i < KEDGE__GPU_SCATTER_BUFFERS && !rc; i++) {
		void *memory = NULL;

		rc = kedge__gpu_pin(d->gpu, d->bytes, &memory, err);
		d->buffers[i].memory = memory;
	}
	if (rc)
		memory_free(d);
	return rc;
}

/* As large as there is room for. */
static int memory_find(struct kedge__restore_device *d, uint64_t bytes, struct kedge__error *err)
{
	struct kedge__error local = KEDGE__ERROR_INIT;
	int rc;

	d->bytes = bytes;
	while ((rc = memory_take(d, &local)) == KEDGE_E_NOMEM && d->bytes / 2 >= BUFFER_LEAST)
		d->bytes /= 2;
	if (!rc && d->bytes < bytes)
		kedge__log(KEDGE_LOG_WARNING,
			   "GPU %d: data go to it through buffers of %llu bytes, and not %llu, which takes longer: %s",
			   d->gpu->device, (unsigned long long)d->bytes, (unsigned long long)bytes,
			   kedge__error_text(&local));
	d->layout = kedge__gpu_scatter_layout(d->bytes);
	if (rc)
		kedge__error_prefix(&local, "%u buffers of %llu bytes, through which data go to GPU %d",
				    KEDGE__GPU_SCATTER_BUFFERS, (unsigned long long)d->bytes, d->gpu->device);
	if (rc && err)
		kedge__error_move(err, &local);
	kedge__error_done(&local);
	return rc;
}

int kedge__restore_device_new(struct kedge__gpu *g, uint64_t bytes, struct kedge__restore_device **out,
			      struct kedge__error *err)
{
	struct kedge__restore_device *d = kedge__calloc(1, sizeof(*d));
	int rc;

	if (!d)
		return kedge__error_nomem(err);
	d->gpu = g;
	pthread_mutex_init(&d->lock, NULL);
	pthread_cond_init(&d->sent, NULL);
	rc = memory_find(d, bytes, err);
	if (rc)
		kedge__restore_device_free(d);
	else
		*out = d;
	return rc;
}

void kedge__restore_device_free(struct kedge__restore_device *d)
{
	if (!d)
		return;
	memory_free(d);
	kedge__error_done(&d->failed);
	pthread_cond_destroy(&d->sent);
	pthread_mutex_destroy(&d->lock);
	kedge__free(d);
}

/* ------------------------------------------------------------------ buffers, with the lock */

static uint64_t pieces_bytes(uint64_t pieces)
{
	return pieces * sizeof(struct kedge__gpu_piece);
}

/* Every thread reports the first failure. */
static int failure(struct kedge__restore_device *d, struct kedge__error *err)
{
	return kedge__error_set(err, d->failed.code, d->failed.sys_errno, "%s", kedge__error_text(&d->failed));
}

static int buffer_send(struct kedge__restore_device *d, struct buffer *b)
{
	struct kedge__gpu_load load = {b->memory, b->used.bytes, b->used.pieces, b->used.strips};
	int rc = d->failed.code;

	if (!rc && b->used.pieces)
		rc = kedge__gpu_scatter_send(d->scatter, (unsigned)(b - d->buffers), &load, &d->failed);
	b->state = b->used.pieces ? SENT : OPEN;
	pthread_cond_broadcast(&d->sent);
	return rc;
}

/* Its bytes have arrived. */
static int buffer_reopen(struct kedge__restore_device *d, struct buffer *b)
{
	int rc = kedge__gpu_scatter_wait(d->scatter, (unsigned)(b - d->buffers), &d->failed);

	b->state = OPEN;
	b->used = (struct kedge__device_need){0};
	return rc;
}

static uint64_t aligned(uint64_t at)
{
	return (at + CLAIM_ALIGNED - 1) / CLAIM_ALIGNED * CLAIM_ALIGNED;
}

/* What the buffer has used with it. */
static struct kedge__device_need used_with(const struct buffer *b, const struct kedge__device_need *need)
{
	return (struct kedge__device_need){.bytes = aligned(b->used.bytes) + need->bytes,
					   .pieces = b->used.pieces + need->pieces,
					   .strips = b->used.strips + need->strips,
					   .unpacked = aligned(b->used.unpacked) + need->unpacked,
					   .filled = b->used.filled + need->filled};
}

static bool buffer_has_room(const struct kedge__restore_device *d, const struct buffer *b,
			    const struct kedge__device_need *need)
{
	struct kedge__device_need u = used_with(b, need);

	return u.bytes + pieces_bytes(u.pieces) <= d->layout.pieces_end && u.strips <= d->layout.strips &&
	       u.unpacked <= d->layout.unpacked && b->used.filled < kedge__gpu_fills_enough(d->filled);
}

static void claim_take(struct kedge__restore_device *d, struct buffer *b, const struct kedge__device_need *need,
		       struct kedge__device_claim *out)
{
	uint8_t *end = b->memory + d->layout.pieces_end;

	out->buffer = (unsigned)(b - d->buffers);
	out->at = (uint32_t)aligned(b->used.bytes);
	out->data = b->memory + out->at;
	out->unpacked = (uint32_t)aligned(b->used.unpacked);
	out->strips = (struct kedge__gpu_strip *)(void *)end + b->used.strips;
	b->used = used_with(b, need);
	out->pieces = (struct kedge__gpu_piece *)(void *)(end - pieces_bytes(b->used.pieces));
	b->claims++;
}

/* Whether the current buffer has room; if not, it is full, and the one after it is current. */
static bool current_has_room(struct kedge__restore_device *d, const struct kedge__device_need *need)
{
	struct buffer *b = &d->buffers[d->current];

	if (b->state == FULL) {
		pthread_cond_wait(&d->sent, &d->lock);
	} else if (b->state == SENT) {
		(void)buffer_reopen(d, b);
	} else if (buffer_has_room(d, b, need)) {
		return true;
	} else {
		b->state = FULL;
		d->filled += b->used.filled;
		d->current = (d->current + 1) % KEDGE__GPU_SCATTER_BUFFERS;
		if (!b->claims)
			(void)buffer_send(d, b);
	}
	return false;
}

/* ------------------------------------------------------------------ what threads do */

uint64_t kedge__device_most(const struct kedge__restore_device *d)
{
	return d->bytes / 4 / CLAIM_ALIGNED * CLAIM_ALIGNED;
}

bool kedge__device_unpacks(const struct kedge__restore_device *d)
{
	return d->gpu->kernels;
}

bool kedge__device_fits(const struct kedge__restore_device *d, const struct kedge__device_need *need)
{
	return need->bytes <= kedge__device_most(d) && pieces_bytes(need->pieces) <= kedge__device_most(d) &&
	       need->strips <= d->layout.strips && need->unpacked <= d->layout.unpacked;
}

int kedge__device_claim(struct kedge__restore_device *d, const struct kedge__device_need *need,
			struct kedge__device_claim *out, struct kedge__error *err)
{
	int rc = 0;

	if (!kedge__device_fits(d, need))
		return kedge__error_set(err, KEDGE_E_INTERNAL, 0,
					"a buffer on its way to a GPU is too small: %llu bytes",
					(unsigned long long)d->bytes);
	pthread_mutex_lock(&d->lock);
	while (!d->failed.code && !current_has_room(d, need))
		;
	if (d->failed.code)
		rc = failure(d, err);
	else
		claim_take(d, &d->buffers[d->current], need, out);
	pthread_mutex_unlock(&d->lock);
	return rc;
}

int kedge__device_commit(struct kedge__restore_device *d, const struct kedge__device_claim *claim,
			 struct kedge__error *err)
{
	struct buffer *b = &d->buffers[claim->buffer];
	int rc = 0;

	pthread_mutex_lock(&d->lock);
	b->claims--;
	if (b->state == FULL && !b->claims)
		(void)buffer_send(d, b);
	if (d->failed.code)
		rc = failure(d, err);
	pthread_mutex_unlock(&d->lock);
	return rc;
}

/* ------------------------------------------------------------------ the whole */

static void reset(struct kedge__restore_device *d)
{
	for (unsigned i = 0; i < KEDGE__GPU_SCATTER_BUFFERS; i++)
		d->buffers[i] = (struct buffer){.memory = d->buffers[i].memory};
	d->current = 0;
	d->filled = 0;
	kedge__error_done(&d->failed);
	d->failed = (struct kedge__error)KEDGE__ERROR_INIT;
}

int kedge__device_begin(struct kedge__restore_device *d, const struct kedge__gpu_target *targets, size_t n,
			struct kedge__error *err)
{
	reset(d);
	return kedge__gpu_scatter_begin(d->scatter, targets, n, err);
}

int kedge__device_send(struct kedge__restore_device *d, struct kedge__error *err)
{
	int rc = 0;

	pthread_mutex_lock(&d->lock);
	if (d->buffers[d->current].state == OPEN)
		(void)buffer_send(d, &d->buffers[d->current]);
	if (d->buffers[d->current].state == SENT)
		d->current = (d->current + 1) % KEDGE__GPU_SCATTER_BUFFERS;
	if (d->failed.code)
		rc = failure(d, err);
	pthread_mutex_unlock(&d->lock);
	return rc;
}

int kedge__device_end(struct kedge__restore_device *d, struct kedge__gpu_target *targets, size_t n, uint64_t *damaged,
		      struct kedge__error *err)
{
	int rc = kedge__device_send(d, err);

	return rc ? rc : kedge__gpu_scatter_end(d->scatter, targets, n, damaged, err);
}

void kedge__device_abandon(struct kedge__restore_device *d)
{
	(void)kedge__gpu_drain(d->gpu, NULL);
	reset(d);
}
