/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Literals of newer versions are put over ground that has been read and checked, and before it is summed. Of each layer
 * a thread reads a few pages at a time, in the order of the file: the next unit of the batch goes on with them.
 */
#include "restore/fill.h"

#include <sys/uio.h>

#define STREAM_BYTES (UINT32_C(64) << 10)
#define GAP_BYTES    KEDGE__BLOCK_PAGE /* read with its surroundings, because another read takes as long */

static const struct kedge__read_plan_overlay *overlay_at(const struct kedge__filling *f, uint32_t target, uint64_t pos)
{
	return &f->plan.overlays[f->plan.first_overlays[target] + pos / KEDGE__OVERLAY_BYTES];
}

static uint64_t place_of(const struct kedge__filling *f, const struct kedge__read_plan_unit *u)
{
	return (uint64_t)(u->place - f->goals[u->target].data);
}

bool kedge__fill_overlay_has(const struct kedge__filling *f, const struct kedge__read_plan_unit *u)
{
	uint64_t pos, end;

	if (!f->plan.laid_bytes)
		return false;
	pos = place_of(f, u);
	end = pos + u->bytes;
	for (; pos < end; pos = (pos / KEDGE__OVERLAY_BYTES + 1) * KEDGE__OVERLAY_BYTES)
		if (overlay_at(f, u->target, pos)->overs.count)
			return true;
	return false;
}

/* ------------------------------------------------------------------ streams */

static size_t stream_count(const struct kedge__filling *f)
{
	return KEDGE__MIN(f->plan.member_count, KEDGE__OVERLAY_LAYERS);
}

static int streams_init(const struct kedge__filling *f, struct kedge__fill_worker *h, struct kedge__error *err)
{
	if (h->streams)
		return 0;
	h->streams = kedge__calloc(stream_count(f), sizeof(*h->streams));
	h->stream_bytes = h->streams ? kedge__malloc(stream_count(f) * STREAM_BYTES) : NULL;
	return h->stream_bytes ? 0 : kedge__error_nomem(err);
}

void kedge__fill_overlay_done(struct kedge__fill_worker *h)
{
	kedge__free(h->stream_bytes);
	kedge__free(h->streams);
}

/* Up to which byte of block B, decoded, to read from OFFSET on, where a page begins: to the end of the page with the
 * last byte that the N overs need, if others lie between only here and there. */
static uint32_t stretch(const struct kedge__block_record *b, uint32_t offset, const struct kedge__read_plan_over *over,
			size_t n)
{
	uint32_t most = KEDGE__MIN(b->raw_bytes, offset + STREAM_BYTES);
	uint32_t end = KEDGE__MIN(offset + KEDGE__BLOCK_PAGE, b->raw_bytes);

	for (size_t i = 0; i < n && end < most; i++) {
		uint64_t from = over[i].position < b->position ? 0 : over[i].position - b->position;
		uint64_t last = over[i].position + over[i].len - 1 - b->position;

		if (from > end + GAP_BYTES)
			break;
		if (last >= end)
			end = (uint32_t)KEDGE__MIN((last / KEDGE__BLOCK_PAGE + 1) * KEDGE__BLOCK_PAGE, most);
	}
	return end;
}

/* Read and check pages of MEMBER from the one with POSITION on. */
static int stream_read(struct kedge__fill_worker *h, struct kedge__fill_stream *s, uint8_t *to,
		       const struct kedge__read_plan_member *member, uint64_t position,
		       const struct kedge__read_plan_over *over, size_t n, struct kedge__error *err)
{
	size_t block = kedge__segment_find_block(member->seg, position);
	const struct kedge__block_record *b = &member->seg->blocks[block];
	uint32_t offset = (uint32_t)(position - b->position) / KEDGE__BLOCK_PAGE * KEDGE__BLOCK_PAGE;
	uint32_t bytes = stretch(b, offset, over, n) - offset;
	struct iovec piece = {to, bytes};
	double start = kedge__clock_seconds();
	int rc;

	s->member = NULL;
	rc = kedge__segment_read_run(member->seg, block, offset, &piece, 1, err);
	start = kedge__clock_seconds() - start;
	h->reading += start;
	h->decoding -= start; /* timed as part of this */
	h->bytes_read += bytes;
	if (!rc)
		rc = kedge__segment_check_part(member->seg, block, offset, to, bytes, err);
	if (!rc)
		*s = (struct kedge__fill_stream){member, b->position + offset, b->position + offset + bytes};
	return rc;
}

/* ------------------------------------------------------------------ put */

/* A part of an overlay's range, and where its bytes are. */
struct part {
	uint8_t *at;
	uint64_t from, to;
	uint64_t end; /* of the batch */
};

/* The first over that ends behind AT. */
static size_t over_find(const struct kedge__read_plan_over *overs, size_t n, uint64_t at)
{
	size_t i;

	KEDGE__PARTITION_POINT(i, n, overs[i].at + overs[i].len <= at);
	return i;
}

/* How many of the N overs begin before END. */
static size_t overs_before(const struct kedge__read_plan_over *overs, size_t n, uint64_t end)
{
	size_t i;

	KEDGE__PARTITION_POINT(i, n, overs[i].at < end);
	return i;
}

static int layer_put(const struct kedge__filling *f, struct kedge__fill_worker *h,
		     const struct kedge__read_plan_layer *layer, const struct kedge__read_plan_over *overs,
		     const struct part *p, struct kedge__error *err)
{
	size_t number = (size_t)(layer->member - f->plan.members) % stream_count(f);
	struct kedge__fill_stream *s = &h->streams[number];
	uint8_t *bytes = h->stream_bytes + number * STREAM_BYTES;
	int rc = 0;

	for (size_t i = over_find(overs, layer->count, p->from); i < layer->count && overs[i].at < p->to; i++) {
		const struct kedge__read_plan_over *o = &overs[i];
		uint64_t from = KEDGE__MAX(o->at, p->from), to = KEDGE__MIN(o->at + o->len, p->to), n;

		for (uint64_t at = from, pos = o->position + (from - o->at); at < to; at += n, pos += n) {
			if (s->member != layer->member || pos < s->from || pos >= s->to)
				rc = stream_read(h, s, bytes, layer->member, pos, o,
						 overs_before(o, layer->count - i, p->end), err);
			if (rc)
				return rc;
			n = KEDGE__MIN(to - at, s->to - pos);
			memcpy(p->at + (at - p->from), bytes + (pos - s->from), n);
		}
	}
	return 0;
}

/* Oldest first. */
static int part_put(const struct kedge__filling *f, struct kedge__fill_worker *h,
		    const struct kedge__read_plan_overlay *overlay, const struct part *p, uint64_t *bad,
		    struct kedge__error *err)
{
	int rc = 0;

	for (size_t i = overlay->layers.count; i-- > 0 && !rc;) {
		const struct kedge__read_plan_layer *layer = &overlay->layers.at[i];

		*bad = layer->member->version;
		rc = layer_put(f, h, layer, overlay->overs.at + layer->first, p, err);
	}
	return rc;
}

int kedge__fill_overlay_put(struct kedge__filling *f, struct kedge__fill_worker *h,
			    const struct kedge__read_plan_unit *u, uint8_t *at, uint64_t *bad, struct kedge__error *err)
{
	uint64_t pos = place_of(f, u), end = pos + u->bytes, n;
	uint64_t batch_end = h->last->target == u->target ? place_of(f, h->last) + h->last->bytes : end;
	int rc = streams_init(f, h, err);

	for (; pos < end && !rc; pos += n, at += n) {
		uint64_t from = pos % KEDGE__OVERLAY_BYTES;
		struct part p = {at, from, 0, from + (batch_end - pos)};

		n = KEDGE__MIN(end - pos, KEDGE__OVERLAY_BYTES - from);
		p.to = from + n;
		rc = part_put(f, h, overlay_at(f, u->target, pos), &p, bad, err);
	}
	return rc;
}

/* ------------------------------------------------------------------ announcements */

/* All that the overlay needs of a layer, from the first to the last. */
static void layer_announce(const struct kedge__read_plan_overlay *overlay, const struct kedge__read_plan_layer *layer)
{
	const struct kedge__read_plan_over *first = &overlay->overs.at[layer->first], *last = first + layer->count - 1;
	const struct kedge__segment *seg = layer->member->seg;
	const struct kedge__block_record *from = &seg->blocks[kedge__segment_find_block(seg, first->position)];
	const struct kedge__block_record *to =
	    &seg->blocks[kedge__segment_find_block(seg, last->position + last->len - 1)];
	uint64_t begin = seg->start + from->offset + (first->position - from->position);
	uint64_t end = seg->start + to->offset + (last->position + last->len - to->position);

	layer->member->cached = seg->fd < 0 || kedge__fs_cached_all(seg->fd, begin, end - begin);
	if (!layer->member->cached)
		kedge__fs_expect(seg->fd, begin, end - begin);
}

void kedge__fill_overlay_announce(struct kedge__filling *f, size_t number)
{
	const struct kedge__read_plan_batch *batch = &f->plan.batches.at[number];
	const struct kedge__read_plan_unit *u = &f->plan.units.at[batch->first];
	const struct kedge__read_plan_overlay *last = NULL;

	for (size_t i = 0; f->plan.laid_bytes && i < batch->count; i++) {
		const struct kedge__read_plan_overlay *overlay = overlay_at(f, u[i].target, place_of(f, &u[i]));

		for (size_t k = 0; overlay != last && k < overlay->layers.count; k++)
			if (!overlay->layers.at[k].member->cached)
				layer_announce(overlay, &overlay->layers.at[k]);
		last = overlay;
	}
}
