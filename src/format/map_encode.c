/* SPDX-License-Identifier: BSD-3-Clause */
#include "format/map_wire.h"

#include <stdlib.h>

struct encoder {
	struct kedge__wire_out w;
	struct kedge__map_sources sources;
	uint64_t unit;                      /* bytes that a length of 1 stands for */
	uint64_t gap;                       /* units at the same place in the parent since the last entry */
	bool single;                        /* LIST: an entry a chunk */
	struct kedge__columns_out *columns; /* NULL: entry by entry */
	size_t entries_at;                  /* bytes before the entries */
	struct kedge__pages_encoder *pages;
};

int kedge__map_sources_init(struct kedge__map_sources *s, size_t count, struct kedge__error *err)
{
	*s = (struct kedge__map_sources){.count = count};
	s->versions = kedge__calloc(count + 1, sizeof(*s->versions));
	s->ends = kedge__calloc(count + 1, sizeof(*s->ends));
	if (!s->versions || !s->ends) {
		kedge__map_sources_done(s);
		return kedge__error_nomem(err);
	}
	for (size_t i = 0; i < count; i++)
		s->ends[i] = KEDGE__MAP_END_UNKNOWN;
	return 0;
}

void kedge__map_sources_done(struct kedge__map_sources *s)
{
	kedge__free(s->versions);
	kedge__free(s->ends);
	*s = (struct kedge__map_sources){0};
}

static int compare_newest_first(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? 1 : x > y ? -1 : 0;
}

static size_t unique(uint64_t *at, size_t n)
{
	size_t kept = 0;

	if (n > 1)
		qsort(at, n, sizeof(*at), compare_newest_first);
	for (size_t i = 0; i < n; i++)
		if (kept == 0 || at[kept - 1] != at[i])
			at[kept++] = at[i];
	return kept;
}

/* The versions that copies refer to. There are few of them and many copies, so the list is kept short as it grows. */
static int collect_versions(struct kedge__extent_reader map, uint64_t self, struct kedge__map_sources *s,
			    struct kedge__error *err)
{
	KEDGE__ARRAY(uint64_t) list = {0};
	struct kedge__extent e;
	size_t crowded = 64;
	int rc = 0;

	while (rc == 0 && kedge__extent_next(&map, &e)) {
		if (e.kind != KEDGE__EXTENT_COPY)
			continue;
		if (list.count > 0 && list.at[list.count - 1] == e.version)
			continue;
		if (e.version > self)
			rc = kedge__error_set(err, KEDGE_E_ARG, 0, "a copy refers to a version that is not older");
		else if (!kedge__array_push(&list, e.version))
			rc = kedge__error_nomem(err);
		if (list.count >= crowded) {
			list.count = unique(list.at, list.count);
			crowded = 2 * list.count + 64;
		}
	}
	if (rc == 0) {
		list.count = unique(list.at, list.count);
		rc = kedge__map_sources_init(s, list.count, err);
	}
	for (size_t i = 0; rc == 0 && i < list.count; i++)
		s->versions[i] = list.at[i];
	kedge__array_done(&list);
	return rc;
}

static size_t find_version(const struct kedge__map_sources *s, uint64_t version)
{
	size_t i;

	if (s->last < s->count && s->versions[s->last] == version)
		return s->last;
	KEDGE__PARTITION_POINT(i, s->count, s->versions[i] > version);
	return i;
}

static void set_source(struct encoder *c, const struct kedge__extent *from, struct kedge__map_entry *e)
{
	struct kedge__map_sources *s = &c->sources;
	size_t i = from->kind == KEDGE__EXTENT_LITERAL ? s->count : find_version(s, from->version);
	uint64_t difference = from->src - kedge__map_sources_expect(s, i, from->addr);
	uint64_t units = kedge__zigzag((uint64_t)((int64_t)difference / (int64_t)c->unit));

	e->other = i != s->last;
	e->number = i;
	e->in_bytes = difference % c->unit != 0 || units >> (64 - KEDGE__MAP_SOURCE_SHIFT) != 0;
	e->difference = e->in_bytes ? kedge__zigzag(difference) : units;
	s->last = i;
	s->ends[i] = from->src + from->len;
}

void kedge__map_put_fill(struct kedge__wire_out *w, uint64_t pattern)
{
	bool one_byte = pattern == (pattern & 0xff) * UINT64_C(0x0101010101010101);

	kedge__wire_put_varint(w, one_byte ? 1 : 8);
	if (one_byte)
		kedge__wire_put(w, &(uint8_t){(uint8_t)pattern}, 1);
	else
		kedge__wire_put64(w, pattern);
}

static void put_source(struct kedge__wire_out *w, const struct kedge__map_entry *e)
{
	uint64_t flags = (e->other ? KEDGE__MAP_SOURCE_OTHER : 0) | (e->in_bytes ? KEDGE__MAP_SOURCE_BYTES : 0);

	kedge__wire_put_varint(w, flags | (e->in_bytes ? 0 : e->difference << KEDGE__MAP_SOURCE_SHIFT));
	if (e->other)
		kedge__wire_put_varint(w, e->number);
	if (e->in_bytes)
		kedge__wire_put_varint(w, e->difference);
}

static void put_run(struct kedge__wire_out *w, const struct kedge__map_entry *e)
{
	kedge__wire_put_varint(w, e->gap << KEDGE__MAP_GAP_SHIFT | (e->long_form ? KEDGE__MAP_LONG : 0) |
				      (unsigned)e->kind);
	if (e->long_form)
		kedge__wire_put_varint(w, e->length);
	if (e->kind == KEDGE__EXTENT_COPY)
		put_source(w, e);
	else if (e->kind == KEDGE__EXTENT_FILL)
		kedge__map_put_fill(w, e->pattern);
}

/* 0: all that is left. */
static uint64_t length_of(const struct encoder *c, uint64_t len, uint64_t left)
{
	if (len == left)
		return 0;
	return len % c->unit ? 2 + (len << 1) : 1 + (len / c->unit << 1);
}

/* One entry; LEFT is what the region has from its address on. */
static void put_entry(struct encoder *c, const struct kedge__extent *from, uint64_t left)
{
	uint64_t *literal_end = &c->sources.ends[c->sources.count];
	struct kedge__map_entry e = {.kind = from->kind, .gap = c->gap};

	/* A literal that does not follow the one before it goes out as a copy of the literals. */
	if (e.kind == KEDGE__EXTENT_LITERAL && from->src != *literal_end)
		e.kind = KEDGE__EXTENT_COPY;
	e.long_form = from->len != KEDGE__MIN(c->unit, left);
	e.length = length_of(c, from->len, left);
	if (e.kind == KEDGE__EXTENT_COPY)
		set_source(c, from, &e);
	else if (e.kind == KEDGE__EXTENT_FILL)
		e.pattern = from->src;
	else if (e.kind == KEDGE__EXTENT_LITERAL)
		*literal_end += from->len;
	c->gap = 0;
	if (c->columns)
		kedge__columns_put(c->columns, &e);
	else
		put_run(&c->w, &e);
}

static void put_extent(struct encoder *c, struct kedge__extent e, uint64_t left)
{
	if (e.kind == KEDGE__EXTENT_PARENT && (e.len % c->unit == 0 || e.len == left)) {
		c->gap += e.len / c->unit + (e.len % c->unit != 0);
		return;
	}
	while (c->single && e.len > c->unit) {
		struct kedge__extent first = e;

		first.len = c->unit;
		put_entry(c, &first, left);
		e.addr += c->unit;
		e.len -= c->unit;
		left -= c->unit;
		if (e.kind != KEDGE__EXTENT_FILL)
			e.src += c->unit;
	}
	put_entry(c, &e, left);
}

static bool continues(const struct kedge__extent *a, const struct kedge__extent *b)
{
	if (a->kind != b->kind || a->addr + a->len != b->addr)
		return false;
	switch (a->kind) {
	case KEDGE__EXTENT_PARENT:
		return true;
	case KEDGE__EXTENT_FILL:
		return a->src == b->src;
	case KEDGE__EXTENT_LITERAL:
		return a->src + a->len == b->src;
	case KEDGE__EXTENT_COPY:
		return a->version == b->version && a->src + a->len == b->src &&
		       a->src >> KEDGE__SLOT_SHIFT == b->src >> KEDGE__SLOT_SHIFT;
	}
	return false;
}

/* Call DO_EXTENT for all extents, those that continue each other as one, checking that they cover the regions. */
static int for_each_extent(struct kedge__extent_reader map, const struct kedge__region_record *regions, size_t n,
			   void (*do_extent)(struct encoder *c, struct kedge__extent e, uint64_t left),
			   struct encoder *c, struct kedge__error *err)
{
	struct kedge__extent next;
	bool more = kedge__extent_next(&map, &next);

	for (size_t k = 0; k < n; k++) {
		uint64_t at = kedge__region_base(&regions[k]);
		uint64_t left = regions[k].bytes;

		while (left > 0) {
			struct kedge__extent e = next;

			if (!more || e.addr != at || e.len == 0 || e.len > left)
				return kedge__error_set(err, KEDGE_E_ARG, 0, "the map does not cover region '%s'",
							regions[k].name);
			more = kedge__extent_next(&map, &next);
			for (; more && continues(&e, &next) && next.len <= left - e.len;
			     more = kedge__extent_next(&map, &next))
				e.len += next.len;
			do_extent(c, e, left);
			at += e.len;
			left -= e.len;
		}
	}
	if (more)
		return kedge__error_set(err, KEDGE_E_ARG, 0, "the map has extents outside all regions");
	return 0;
}

static int encode_entries(struct kedge__extent_reader map, uint64_t self, const struct kedge__region_record *regions,
			  size_t n, struct encoder *c, struct kedge__error *err)
{
	uint64_t newer = self;
	int rc = collect_versions(map, self, &c->sources, err);

	if (rc != 0)
		return rc;
	kedge__wire_put_varint(&c->w, c->sources.count);
	for (size_t i = 0; i < c->sources.count; i++) {
		kedge__wire_put_varint(&c->w, newer - c->sources.versions[i]);
		newer = c->sources.versions[i];
	}
	c->entries_at = c->w.bytes->count;
	rc = for_each_extent(map, regions, n, put_extent, c, err);
	kedge__map_sources_done(&c->sources);
	if (rc == 0 && c->columns)
		kedge__columns_finish(c->columns, &c->w);
	return rc;
}

/* *FIT: it takes fewer bytes than runs. */
static int encode_columns(struct kedge__extent_reader map, uint64_t self, const struct kedge__region_record *regions,
			  size_t n, uint32_t chunk, struct encoder *c, bool *fit, struct kedge__error *err)
{
	int rc;

	c->columns = kedge__columns_out_new();
	if (!c->columns)
		return kedge__error_nomem(err);
	kedge__wire_put_varint(&c->w, KEDGE__MAP_COLUMNS);
	kedge__wire_put_varint(&c->w, chunk);
	rc = encode_entries(map, self, regions, n, c, err);
	*fit = rc == 0 && c->w.bytes->count - c->entries_at < kedge__columns_as_runs(c->columns);
	kedge__columns_out_free(c->columns);
	c->columns = NULL;
	c->gap = 0;
	return rc;
}

/* A bit a chunk. */
struct bitmap {
	struct encoder c; /* first: for_each_extent() hands on a pointer to it */
	uint8_t *bits;
	uint64_t next;
};

static void set_bits(struct encoder *c, struct kedge__extent e, uint64_t left)
{
	struct bitmap *b = (struct bitmap *)c;
	uint64_t end = b->next + e.len / c->unit + (e.len % c->unit != 0);

	(void)left;
	while (e.kind == KEDGE__EXTENT_LITERAL && b->next < end) {
		uint64_t whole = b->next % 8 == 0 ? (end - b->next) / 8 : 0;

		if (whole > 0)
			memset(b->bits + b->next / 8, 0xff, (size_t)whole);
		else
			b->bits[b->next / 8] |= (uint8_t)(1u << b->next % 8);
		b->next += whole > 0 ? 8 * whole : 1;
	}
	b->next = end;
}

static int encode_bitmap(struct kedge__extent_reader map, const struct kedge__region_record *regions, size_t n,
			 struct encoder *c, struct kedge__error *err)
{
	struct bitmap b = {.c = *c};
	uint64_t chunks = kedge__map_chunks(regions, n, (uint32_t)c->unit);
	size_t bytes = (size_t)(chunks / 8 + (chunks % 8 != 0));
	int rc;

	b.bits = kedge__calloc(bytes + 1, 1);
	if (!b.bits)
		return kedge__error_nomem(err);
	rc = for_each_extent(map, regions, n, set_bits, &b.c, err);
	if (rc == 0)
		kedge__wire_put(&c->w, b.bits, bytes);
	kedge__free(b.bits);
	return rc;
}

static void put_pages(struct encoder *c, struct kedge__extent e, uint64_t left)
{
	kedge__pages_put(c->pages, e, left);
}

/* *FIT: the map could be expressed. */
static int encode_pages(struct kedge__extent_reader map, uint64_t self, const struct kedge__region_record *regions,
			size_t n, struct encoder *c, bool *fit, struct kedge__error *err)
{
	int rc;

	c->pages = kedge__pages_encoder_new(c->unit);
	if (!c->pages)
		return kedge__error_nomem(err);
	rc = for_each_extent(map, regions, n, put_pages, c, err);
	kedge__wire_put_varint(&c->w, KEDGE__MAP_PAGES);
	kedge__wire_put_varint(&c->w, c->unit);
	*fit = rc == 0 && kedge__pages_finish(c->pages, self, &c->w);
	kedge__pages_encoder_free(c->pages);
	return rc;
}

static enum kedge__map_encoding choose(enum kedge__map_encoding how, struct kedge__extent_reader map, uint32_t chunk)
{
	struct kedge__extent e;
	uint64_t literals = 0;

	if (how >= KEDGE__MAP_COLUMNS)
		return how;
	if (chunk == 0 || (how == KEDGE__MAP_PAGES && chunk > KEDGE__PATTERN_MAX))
		return KEDGE__MAP_RUNS;
	while (how != KEDGE__MAP_RUNS && kedge__extent_next(&map, &e)) {
		if (e.addr % chunk != 0)
			return KEDGE__MAP_RUNS;
		if (how != KEDGE__MAP_BITMAP || e.kind == KEDGE__EXTENT_PARENT)
			continue;
		if (e.kind != KEDGE__EXTENT_LITERAL || e.src != literals)
			return KEDGE__MAP_RUNS;
		literals += e.len;
	}
	return how;
}

int kedge__map_encode(enum kedge__map_encoding how, struct kedge__extent_reader map, uint32_t chunk, uint64_t self,
		      const struct kedge__region_record *regions, size_t n, struct kedge__bytes *out,
		      struct kedge__error *err)
{
	struct encoder c = {.w = kedge__wire_out_init(out), .unit = chunk ? chunk : 1};
	bool fit = false;
	int rc = 0;

	if (!kedge__chunk_valid(chunk) || (unsigned)how > KEDGE__MAP_SMALLER)
		return kedge__error_set(err, KEDGE_E_ARG, 0, "invalid chunk size: %u bytes", chunk);
	how = choose(how, map, chunk);
	if (how == KEDGE__MAP_PAGES)
		rc = encode_pages(map, self, regions, n, &c, &fit, err);
	else if (how >= KEDGE__MAP_COLUMNS)
		rc = encode_columns(map, self, regions, n, chunk, &c, &fit, err);
	if (rc != 0 || fit || how == KEDGE__MAP_COLUMNS)
		goto finish;
	kedge__wire_out_undo(&c.w);
	c.single = how == KEDGE__MAP_LIST;
	kedge__wire_put_varint(&c.w, how >= KEDGE__MAP_PAGES ? KEDGE__MAP_RUNS : how);
	kedge__wire_put_varint(&c.w, chunk);
	if (how == KEDGE__MAP_BITMAP)
		rc = encode_bitmap(map, regions, n, &c, err);
	else
		rc = encode_entries(map, self, regions, n, &c, err);
finish:
	if (rc != 0) {
		kedge__wire_out_undo(&c.w);
		return rc;
	}
	return kedge__wire_out_finish(&c.w, err);
}
