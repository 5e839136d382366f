/* SPDX-License-Identifier: BSD-3-Clause */
#include "pipeline/ring.h"

#define ALIGNMENT 4096 /* what direct I/O asks for, and no two buffers in one page */

static int ring_map(struct kedge__ring *ring, size_t length, size_t stride, struct kedge__error *err)
{
	if (!stride)
		return 0;
	if (__builtin_mul_overflow(length, stride, &ring->memory_bytes))
		return kedge__error_nomem(err);
	ring->memory = kedge__map_alloc(ring->memory_bytes);
	return ring->memory ? 0 : kedge__error_nomem(err);
}

int kedge__ring_init(struct kedge__ring *ring, size_t length, size_t buffer_bytes, struct kedge__error *err)
{
	size_t stride = (buffer_bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
	int rc;

	if (stride < buffer_bytes)
		return kedge__error_nomem(err);
	*ring = (struct kedge__ring){.length = length};
	ring->at = kedge__calloc(length, sizeof(*ring->at));
	ring->spare = kedge__calloc(length, sizeof(*ring->spare));
	rc = ring->at && ring->spare ? ring_map(ring, length, stride, err) : kedge__error_nomem(err);
	if (rc) {
		kedge__ring_done(ring);
		return rc;
	}
	for (size_t i = 0; stride && i < length; i++) {
		ring->at[i].room = buffer_bytes;
		ring->spare[ring->spare_count++] = ring->memory + (length - 1 - i) * stride;
	}
	return 0;
}

void kedge__ring_done(struct kedge__ring *ring)
{
	if (ring->memory)
		kedge__map_free(ring->memory, ring->memory_bytes);
	kedge__free(ring->spare);
	kedge__free(ring->at);
	*ring = (struct kedge__ring){0};
}

void kedge__ring_claim(struct kedge__ring *ring, struct kedge__buffer *buffer, uint64_t number)
{
	if (ring->spare_count)
		buffer->data = ring->spare[--ring->spare_count];
	buffer->at = buffer->data;
	buffer->bytes = 0;
	buffer->number = number;
	buffer->tag = 0;
	buffer->state = KEDGE__BUFFER_BUSY;
}

void kedge__ring_release(struct kedge__ring *ring, struct kedge__buffer *buffer)
{
	if (buffer->data)
		ring->spare[ring->spare_count++] = buffer->data;
	buffer->data = NULL;
	buffer->state = KEDGE__BUFFER_EMPTY;
}

void kedge__buffer_pass(struct kedge__buffer *in, struct kedge__buffer *out)
{
	out->at = in->at;
	out->bytes = in->bytes;
	if (in->data && in->at >= in->data && in->at < in->data + in->room) {
		uint8_t *data = in->data;

		in->data = out->data;
		out->data = data;
	}
}
