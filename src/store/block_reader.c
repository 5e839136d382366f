/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * From blocks to literals. Most blocks need no others. One that was packed against a base needs the bytes that an older
 * version has at the places of its literals; these come from other blocks, which may have a base again. The state of
 * each step down is kept in a base reader, with a small cache of the blocks decoded last.
 */
#include "store/internal.h"

#include <stdlib.h>

#define CACHE_BYTES (UINT32_C(1) << 20) /* blocks come in order, so the last few are enough */

struct kedge__base_reader {
	struct kedge__block_cache *cache;
	uint8_t *bytes;
	size_t room;
	struct kedge__literal_places pieces; /* positions are relative to the first wanted literal */
	struct kedge__range_list ranges;
	struct kedge__span_list spans;
	unsigned level;
	struct kedge__base_reader *next;
};

/* ------------------------------------------------------------------ places */

static int by_position(const void *a, const void *b)
{
	const struct kedge__literal_place *x = a, *y = b;

	if (x->position != y->position)
		return x->position < y->position ? -1 : 1;
	return x->addr < y->addr ? -1 : x->addr > y->addr;
}

/* A literal with several places counts for the first of them. */
static void drop_overlaps(struct kedge__literal_places *list)
{
	uint64_t end = 0;
	size_t kept = 0;

	for (size_t i = 0; i < list->count; i++) {
		struct kedge__literal_place p = list->at[i];
		uint64_t skip = end > p.position ? KEDGE__MIN(end - p.position, p.len) : 0;

		if (skip == p.len)
			continue;
		list->at[kept++] = (struct kedge__literal_place){p.position + skip, p.addr + skip, p.len - skip};
		end = p.position + p.len;
	}
	list->count = kept;
}

/* Extents that continue each other count as one: how a map splits them has no meaning. */
static bool place_continues(const struct kedge__literal_places *list, const struct kedge__extent *e)
{
	const struct kedge__literal_place *last = list->count ? &list->at[list->count - 1] : NULL;

	return last && last->addr + last->len == e->addr && last->position + last->len == e->src;
}

int kedge__literal_places_make(struct kedge__extent_reader map, struct kedge__literal_places *list,
			       struct kedge__error *err)
{
	struct kedge__extent e;
	bool sorted = true;

	while (kedge__extent_next(&map, &e)) {
		if (e.kind != KEDGE__EXTENT_LITERAL)
			continue;
		sorted = sorted && (!list->count || list->at[list->count - 1].position <= e.src);
		if (place_continues(list, &e))
			list->at[list->count - 1].len += e.len;
		else if (!kedge__array_push(list, ((struct kedge__literal_place){e.src, e.addr, e.len})))
			return kedge__error_nomem(err);
	}
	if (!sorted)
		qsort(list->at, list->count, sizeof(*list->at), by_position);
	drop_overlaps(list);
	return 0;
}

void kedge__literal_places_done(struct kedge__literal_places *list)
{
	kedge__array_done(list);
}

/* The first place that does not end before POSITION. */
static size_t place_find(const struct kedge__literal_places *list, uint64_t position)
{
	size_t i;

	KEDGE__PARTITION_POINT(i, list->count, list->at[i].position + list->at[i].len <= position);
	return i;
}

/* ------------------------------------------------------------------ readers */

static void reader_free(struct kedge__base_reader *h)
{
	if (!h)
		return;
	kedge__block_cache_free(h->cache);
	kedge__free(h->bytes);
	kedge__array_done(&h->pieces);
	kedge__array_done(&h->ranges);
	kedge__span_list_done(&h->spans);
	kedge__free(h);
}

static int reader_new(struct kedge__lineage *l, unsigned level, struct kedge__base_reader **out,
		      struct kedge__error *err)
{
	struct kedge__base_reader *h = kedge__calloc(1, sizeof(*h));
	int rc = h ? kedge__block_cache_new(CACHE_BYTES, l, level, &h->cache, err) : kedge__error_nomem(err);

	if (rc) {
		reader_free(h);
		return rc;
	}
	h->level = level;
	*out = h;
	return 0;
}

void kedge__base_readers_init(struct kedge__base_readers *readers)
{
	*readers = (struct kedge__base_readers){0};
	pthread_mutex_init(&readers->mutex, NULL);
}

void kedge__base_readers_done(struct kedge__base_readers *readers)
{
	for (size_t i = 0; i < KEDGE__BASE_DEPTH_READ; i++) {
		while (readers->idle[i]) {
			struct kedge__base_reader *h = readers->idle[i];

			readers->idle[i] = h->next;
			reader_free(h);
		}
	}
	pthread_mutex_destroy(&readers->mutex);
}

void kedge__base_readers_drop(struct kedge__base_readers *readers, const struct kedge__segment *seg)
{
	for (size_t i = 0; i < KEDGE__BASE_DEPTH_READ; i++)
		for (struct kedge__base_reader *h = readers->idle[i]; h; h = h->next)
			kedge__block_cache_drop(h->cache, seg);
}

static int reader_take(struct kedge__lineage *l, unsigned level, struct kedge__base_reader **out,
		       struct kedge__error *err)
{
	struct kedge__base_readers *readers = kedge__lineage_base_readers(l);
	struct kedge__base_reader *h;

	pthread_mutex_lock(&readers->mutex);
	h = readers->idle[level - 1];
	if (h)
		readers->idle[level - 1] = h->next;
	pthread_mutex_unlock(&readers->mutex);
	if (!h)
		return reader_new(l, level, out, err);
	*out = h;
	return 0;
}

void kedge__base_reader_give_back(struct kedge__lineage *l, struct kedge__base_reader *h)
{
	struct kedge__base_readers *readers = kedge__lineage_base_readers(l);

	if (!h)
		return;
	pthread_mutex_lock(&readers->mutex);
	h->next = readers->idle[h->level - 1];
	readers->idle[h->level - 1] = h;
	pthread_mutex_unlock(&readers->mutex);
}

const uint8_t *kedge__base_reader_bytes(const struct kedge__base_reader *h)
{
	return h->bytes;
}

/* ------------------------------------------------------------------ the bytes of a base */

static int by_addr(const void *a, const void *b)
{
	const struct kedge__literal_place *x = a, *y = b;

	return x->addr < y->addr ? -1 : x->addr > y->addr;
}

/* Bytes from ADDR on that the region there has in SEG. */
static uint64_t bytes_there(const struct kedge__segment *seg, uint64_t addr)
{
	uint64_t offset = addr & (KEDGE__SLOT_BYTES - 1);
	size_t i = kedge__segment_slot_region(seg, addr >> KEDGE__SLOT_SHIFT);

	return i == SIZE_MAX || seg->regions[i].bytes <= offset ? 0 : seg->regions[i].bytes - offset;
}

/* The parts of the LEN literals from POSITION on that have a place in BASE, in the order of addresses. */
static int list_pieces(struct kedge__base_reader *h, const struct kedge__segment *base,
		       const struct kedge__literal_places *places, uint64_t position, size_t len,
		       struct kedge__error *err)
{
	bool sorted = true;

	h->pieces.count = h->ranges.count = 0;
	for (size_t i = place_find(places, position); i < places->count && places->at[i].position < position + len;
	     i++) {
		const struct kedge__literal_place *p = &places->at[i];
		uint64_t from = KEDGE__MAX(p->position, position);
		uint64_t to = KEDGE__MIN(p->position + p->len, position + len);
		struct kedge__literal_place piece = {from - position, p->addr + (from - p->position), to - from};

		piece.len = KEDGE__MIN(piece.len, bytes_there(base, piece.addr));
		if (!piece.len)
			continue;
		sorted = sorted && (!h->pieces.count || h->pieces.at[h->pieces.count - 1].addr < piece.addr);
		if (!kedge__array_push(&h->pieces, piece))
			return kedge__error_nomem(err);
	}
	if (!sorted)
		qsort(h->pieces.at, h->pieces.count, sizeof(*h->pieces.at), by_addr);
	for (size_t i = 0; i < h->pieces.count; i++)
		if (!kedge__array_push(&h->ranges, ((struct kedge__range){h->pieces.at[i].addr, h->pieces.at[i].len})))
			return kedge__error_nomem(err);
	return 0;
}

static int fill_piece(struct kedge__base_reader *h, struct kedge__lineage *l, const struct kedge__span *s,
		      uint64_t addr, uint8_t *to, size_t n, struct kedge__error *err)
{
	if (s->fill) {
		kedge__fill_pattern(s->src, addr, to, n);
		return 0;
	}
	return kedge__block_cache_read(h->cache, kedge__lineage_segment(l, s->version), s->src + (addr - s->addr), to,
				       n, err);
}

/* Spans and pieces both ascend, and the spans cover all pieces. */
static int fill_pieces(struct kedge__base_reader *h, struct kedge__lineage *l, struct kedge__error *err)
{
	size_t s = 0;
	int rc = 0;

	for (size_t i = 0; i < h->pieces.count && !rc; i++) {
		const struct kedge__literal_place *p = &h->pieces.at[i];
		uint64_t done = 0;

		while (done < p->len && s < h->spans.count && !rc) {
			const struct kedge__span *span = &h->spans.at[s];
			uint64_t addr = p->addr + done, end = span->addr + span->len;
			uint64_t n = end > addr ? KEDGE__MIN(end - addr, p->len - done) : 0;

			if (n)
				rc = fill_piece(h, l, span, addr, h->bytes + p->position + done, (size_t)n, err);
			done += n;
			if (addr + n == end || !n)
				s++;
		}
	}
	return rc;
}

static int reader_fill(struct kedge__base_reader *h, struct kedge__lineage *l, uint64_t version,
		       const struct kedge__literal_places *places, uint64_t position, size_t len,
		       struct kedge__error *err)
{
	const struct kedge__segment *base = kedge__lineage_segment(l, version);
	int rc;

	kedge__block_cache_begin(h->cache, version);
	if (!base)
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "version %" PRIu64 " is missing from the lineage",
					version);
	if (!kedge__buffer_room(&h->bytes, &h->room, len))
		return kedge__error_nomem(err);
	memset(h->bytes, 0, len);
	h->spans.count = 0;
	rc = list_pieces(h, base, places, position, len, err);
	if (!rc && h->ranges.count)
		rc = kedge__lineage_resolve_at(l, version, h->ranges.at, h->ranges.count, &h->spans, err);
	return rc ? rc : fill_pieces(h, l, err);
}

int kedge__base_resolve(struct kedge__lineage *l, uint64_t version, const struct kedge__literal_places *places,
			uint64_t position, size_t len, struct kedge__span_list *out, struct kedge__error *err)
{
	struct kedge__base_reader h = {0};
	int rc = list_pieces(&h, kedge__lineage_segment(l, version), places, position, len, err);

	if (!rc && h.ranges.count)
		rc = kedge__lineage_resolve_at(l, version, h.ranges.at, h.ranges.count, out, err);
	kedge__array_done(&h.pieces);
	kedge__array_done(&h.ranges);
	return rc;
}

int kedge__base_read(struct kedge__lineage *l, uint64_t version, const struct kedge__literal_places *places,
		     uint64_t position, size_t len, unsigned level, struct kedge__base_reader **out, unsigned *depth,
		     uint64_t *bad, struct kedge__error *err)
{
	struct kedge__base_reader *h;
	int rc = reader_take(l, level, &h, err);

	*bad = version;
	if (rc)
		return rc;
	rc = reader_fill(h, l, version, places, position, len, err);
	kedge__block_cache_end(h->cache, depth, bad);
	if (rc) {
		kedge__base_reader_give_back(l, h);
		return kedge__error_prefix(err, "cannot read its base, version %" PRIu64, version);
	}
	*out = h;
	return 0;
}

bool kedge__base_reader_is_empty(const struct kedge__base_reader *h)
{
	return h->pieces.count == 0;
}

/* ------------------------------------------------------------------ blocks */

static int unpack_with_base(struct kedge__lineage *l, const struct kedge__segment *seg, size_t i, const void *stored,
			    void *raw, unsigned level, unsigned *depth, uint64_t *bad, struct kedge__error *err)
{
	const struct kedge__block_record *b = &seg->blocks[i];
	struct kedge__base_reader *h;
	int rc;

	if (!l)
		return kedge__error_set(err, KEDGE_E_STATE, 0,
					"it is packed against version %" PRIu64 ", which was not opened", seg->base);
	if (level >= KEDGE__BASE_DEPTH_READ)
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "more than %d blocks are packed against each other",
					KEDGE__BASE_DEPTH_READ);
	rc = kedge__base_read(l, seg->base, &seg->places, b->position, b->raw_bytes, level + 1, &h, depth, bad, err);
	if (rc)
		return rc;
	*bad = seg->header.version;
	++*depth;
	rc = kedge__block_unpack(b->codec, b->param, stored, b->stored_bytes, h->bytes, raw, b->raw_bytes, err);
	kedge__base_reader_give_back(l, h);
	return rc;
}

int kedge__block_unpack_at(struct kedge__lineage *l, const struct kedge__segment *seg, size_t i, const void *stored,
			   void *raw, unsigned level, unsigned *depth, uint64_t *bad, struct kedge__error *err)
{
	const struct kedge__block_record *b = &seg->blocks[i];
	int rc;

	*depth = 0;
	*bad = seg->header.version;
	if (kedge__codec_needs_base(b->codec, b->param))
		rc = unpack_with_base(l, seg, i, stored, raw, level, depth, bad, err);
	else
		rc = kedge__block_decode(b->codec, b->param, stored, b->stored_bytes, raw, b->raw_bytes, err);
	if (rc)
		kedge__segment_prefix_block(seg, i, err);
	return rc;
}

int kedge__block_read_at(struct kedge__lineage *l, const struct kedge__segment *seg, size_t i, void *raw, void *scratch,
			 unsigned level, unsigned *depth, uint64_t *bad, struct kedge__error *err)
{
	bool packed = seg->blocks[i].codec != KEDGE__CODEC_NONE;
	int rc;

	*depth = 0;
	*bad = seg->header.version;
	kedge__lineage_count_block(l);
	rc = kedge__segment_read_stored(seg, i, packed ? scratch : raw, err);
	if (!rc && packed)
		rc = kedge__block_unpack_at(l, seg, i, scratch, raw, level, depth, bad, err);
	return rc;
}

int kedge__lineage_unpack_block(struct kedge__lineage *l, const struct kedge__segment *seg, size_t i,
				const void *stored, void *raw, uint64_t *bad, struct kedge__error *err)
{
	uint64_t version;
	unsigned depth;
	int rc = kedge__block_unpack_at(l, seg, i, stored, raw, 0, &depth, &version, err);

	if (rc && bad)
		*bad = version;
	return rc;
}

int kedge__lineage_read_block(struct kedge__lineage *l, const struct kedge__segment *seg, size_t i, void *raw,
			      void *scratch, uint64_t *bad, struct kedge__error *err)
{
	uint64_t version;
	unsigned depth;
	int rc = kedge__block_read_at(l, seg, i, raw, scratch, 0, &depth, &version, err);

	if (rc && bad)
		*bad = version;
	return rc;
}
