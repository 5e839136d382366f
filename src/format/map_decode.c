/* SPDX-License-Identifier: BSD-3-Clause */
#include "format/map_wire.h"

#define CHUNKS 256 /* that are decoded in one go */

int kedge__map_damaged(struct kedge__map_decoder *d, const char *what)
{
	return kedge__error_set(d->err, KEDGE_E_DAMAGED, 0, "section MAPX: %s", what);
}

uint64_t kedge__map_settle(struct kedge__map_decoder *d)
{
	while (d->region < d->region_count && d->offset == d->regions[d->region].bytes) {
		d->region++;
		d->offset = 0;
	}
	return d->region < d->region_count ? d->regions[d->region].bytes - d->offset : 0;
}

int kedge__map_emit(struct kedge__map_decoder *d, enum kedge__extent_kind kind, uint64_t len, uint64_t src,
		    uint64_t version)
{
	struct kedge__extent *e;

	if (kind == KEDGE__EXTENT_PARENT) { /* what no extent holds of a region is */
		d->offset += len;
		return 0;
	}
	if (d->map.count == d->map.room && !kedge__array_reserve(&d->map, d->map.count + 1))
		return kedge__error_nomem(d->err);
	/* Field by field where it belongs: a copy of what was just put together would wait for it to be. */
	e = &d->map.at[d->map.count];
	e->addr = kedge__map_address(d);
	e->len = len;
	e->src = src;
	e->version = version;
	e->kind = kind;
	d->offset += len;
	kedge__extent_map_take(&d->map);
	return 0;
}

int kedge__map_emit_gap(struct kedge__map_decoder *d, uint64_t count, uint64_t unit)
{
	while (count > 0) {
		uint64_t left = kedge__map_settle(d);
		uint64_t units = left / unit + (left % unit != 0);
		int rc;

		if (left == 0)
			return kedge__map_damaged(d, "a gap extends beyond the last region");
		rc = kedge__map_emit(d, KEDGE__EXTENT_PARENT, count >= units ? left : count * unit, 0, 0);
		if (rc != 0)
			return rc;
		count -= KEDGE__MIN(count, units);
	}
	return 0;
}

static int get_length(struct kedge__map_decoder *d, const struct kedge__map_entry *e, uint64_t left, uint64_t *len)
{
	uint64_t n, unit;

	*len = KEDGE__MIN(d->unit, left);
	if (!e->long_form)
		return 0;
	if (e->length == 0) {
		*len = left;
		return 0;
	}
	unit = (e->length - 1) & 1 ? 1 : d->unit;
	n = (e->length - 1) >> 1;
	if (n == 0 || n > left / unit)
		return kedge__map_damaged(d, "an extent is empty or extends beyond its region");
	*len = n * unit;
	return 0;
}

static bool source_valid(uint64_t src, uint64_t len)
{
	return (src & (KEDGE__SLOT_BYTES - 1)) + len <= KEDGE__SLOT_BYTES;
}

static int emit_copy(struct kedge__map_decoder *d, const struct kedge__map_entry *e, uint64_t len)
{
	struct kedge__map_sources *s = &d->sources;
	size_t i = e->other ? (size_t)e->number : s->last;
	uint64_t src = kedge__unzigzag(e->difference) * (e->in_bytes ? 1 : d->unit);

	src += kedge__map_sources_expect(s, i, kedge__map_address(d));
	s->last = i;
	s->ends[i] = src + len;
	if (i == s->count) {
		if (src > KEDGE__IMAGE_BYTES_MAX)
			return kedge__map_damaged(d, "a literal is out of range");
		return kedge__map_emit(d, KEDGE__EXTENT_LITERAL, len, src, 0);
	}
	if (!source_valid(src, len))
		return kedge__map_damaged(d, "the source of a copy is not within one region");
	return kedge__map_emit(d, KEDGE__EXTENT_COPY, len, src, s->versions[i]);
}

bool kedge__map_get_fill(struct kedge__wire_in *in, uint64_t *pattern)
{
	uint64_t size = kedge__wire_get_varint(in);
	const uint8_t *at = size == 1 || size == 8 ? kedge__wire_get(in, (size_t)size) : NULL;

	if (at)
		*pattern = size == 8 ? kedge__get64(at) : *at * UINT64_C(0x0101010101010101);
	return at;
}

static int emit_literal(struct kedge__map_decoder *d, uint64_t len)
{
	uint64_t *end = &d->sources.ends[d->sources.count];
	uint64_t src = *end;

	if (src > KEDGE__IMAGE_BYTES_MAX)
		return kedge__map_damaged(d, "a literal is out of range");
	*end += len;
	return kedge__map_emit(d, KEDGE__EXTENT_LITERAL, len, src, 0);
}

static int get_source(struct kedge__map_decoder *d, struct kedge__map_entry *e)
{
	uint64_t v = kedge__wire_get_varint(&d->in);

	e->other = v & KEDGE__MAP_SOURCE_OTHER;
	e->in_bytes = v & KEDGE__MAP_SOURCE_BYTES;
	if (e->other)
		e->number = kedge__wire_get_varint(&d->in);
	e->difference = v >> KEDGE__MAP_SOURCE_SHIFT;
	if (e->in_bytes) {
		if (e->difference)
			return kedge__map_damaged(d, "a source has an invalid encoding");
		e->difference = kedge__wire_get_varint(&d->in);
	}
	return 0;
}

/* The next entry of runs or of a list. */
static int get_run(struct kedge__map_decoder *d, struct kedge__map_entry *e)
{
	uint64_t head = kedge__wire_get_varint(&d->in);
	int rc = 0;

	e->kind = (enum kedge__extent_kind)(head & ((1u << KEDGE__MAP_KIND_BITS) - 1));
	e->long_form = head & KEDGE__MAP_LONG;
	e->gap = head >> KEDGE__MAP_GAP_SHIFT;
	if (d->how == KEDGE__MAP_LIST && e->long_form)
		return kedge__map_damaged(d, "an entry of a list is larger than a chunk");
	if (e->long_form)
		e->length = kedge__wire_get_varint(&d->in);
	if (e->kind == KEDGE__EXTENT_COPY)
		rc = get_source(d, e);
	else if (e->kind == KEDGE__EXTENT_FILL && !kedge__map_get_fill(&d->in, &e->pattern))
		rc = kedge__map_damaged(d, "the pattern of a fill is not 1 or 8 bytes long");
	if (rc == 0 && d->in.failed)
		rc = kedge__map_damaged(d, "an entry is malformed");
	return rc;
}

static int emit_entry(struct kedge__map_decoder *d, const struct kedge__map_entry *e)
{
	uint64_t left, len;
	int rc = kedge__map_emit_gap(d, e->gap, d->unit);

	if (rc != 0)
		return rc;
	left = kedge__map_settle(d);
	if (left == 0)
		return kedge__map_damaged(d, "an entry extends beyond the last region");
	rc = get_length(d, e, left, &len);
	if (rc != 0)
		return rc;
	switch (e->kind) {
	case KEDGE__EXTENT_LITERAL:
		return emit_literal(d, len);
	case KEDGE__EXTENT_PARENT:
		return kedge__map_emit(d, KEDGE__EXTENT_PARENT, len, 0, 0);
	case KEDGE__EXTENT_COPY:
		if (e->other && e->number > d->sources.count)
			return kedge__map_damaged(d, "a source is not in the table of versions");
		return emit_copy(d, e, len);
	case KEDGE__EXTENT_FILL:
		return kedge__map_emit(d, KEDGE__EXTENT_FILL, len, e->pattern, 0);
	}
	return kedge__map_damaged(d, "an entry is of unknown kind");
}

static int decode_versions(struct kedge__map_decoder *d, uint64_t self)
{
	uint64_t count = kedge__wire_get_varint(&d->in);
	uint64_t newer = self;
	int rc;

	if (d->in.failed || count > d->in.left)
		return kedge__map_damaged(d, "more versions than fit into the section");
	rc = kedge__map_sources_init(&d->sources, (size_t)count, d->err);
	for (uint64_t i = 0; rc == 0 && i < count; i++) {
		uint64_t back = kedge__wire_get_varint(&d->in);

		if (d->in.failed || back > newer || (i > 0 && back == 0))
			rc = kedge__map_damaged(d, "the table of versions is malformed");
		newer -= back;
		d->sources.versions[i] = newer;
	}
	return rc;
}

static int decode_runs(struct kedge__map_decoder *d)
{
	struct kedge__map_entry e;
	int rc = 0;

	while (rc == 0 && d->in.left > 0) {
		rc = get_run(d, &e);
		if (rc == 0)
			rc = emit_entry(d, &e);
	}
	return rc;
}

/* Chunks of literals, each with GAPS before it, as long as they are within the region and do not go on with each other:
 * what most entries are where single chunks change. How many. */
static size_t emit_apart(struct kedge__map_decoder *d, const uint64_t *gaps, size_t n)
{
	struct kedge__extent_map *map = &d->map;
	uint64_t unit = d->unit, chunks = kedge__map_settle(d) / unit, *end = &d->sources.ends[d->sources.count];
	struct kedge__extent e = {.len = unit, .src = *end, .kind = KEDGE__EXTENT_LITERAL};
	uint64_t base = chunks ? kedge__map_address(d) : 0, next = 0;
	size_t i;

	n = KEDGE__MIN(n, map->room - map->count);
	for (i = 0; i < n && gaps[i] && gaps[i] < chunks - next && e.src <= KEDGE__IMAGE_BYTES_MAX; i++) {
		next += gaps[i];
		e.addr = base + next * unit;
		map->at[map->count++] = e;
		e.src += unit;
		next++;
	}
	*end = e.src;
	d->offset += next * unit;
	return i;
}

static int emit_chunks(struct kedge__map_decoder *d, const uint64_t *gaps, size_t n)
{
	int rc = 0;

	for (size_t i = 0; i < n && rc == 0;) {
		struct kedge__map_entry e = {.kind = KEDGE__EXTENT_LITERAL};

		i += emit_apart(d, gaps + i, n - i);
		if (i == n)
			break;
		e.gap = gaps[i++];
		rc = emit_entry(d, &e);
	}
	return rc;
}

static int decode_columns(struct kedge__map_decoder *d)
{
	struct kedge__map_entry e;
	uint64_t gaps[CHUNKS];
	int rc = kedge__columns_in_new(&d->in, &d->columns, d->err);

	if (rc != 0) {
		(void)kedge__error_prefix(d->err, "section MAPX");
		return rc;
	}
	if (!kedge__array_reserve(&d->map, (size_t)kedge__columns_left(d->columns)))
		return kedge__error_nomem(d->err);
	while (rc == 0 && kedge__columns_left(d->columns)) {
		size_t n = kedge__columns_get_chunks(d->columns, gaps, CHUNKS);

		if (n)
			rc = emit_chunks(d, gaps, n);
		else
			rc = kedge__columns_get(d->columns, &e) ? emit_entry(d, &e)
								: kedge__map_damaged(d, "an entry is malformed");
	}
	if (rc == 0 && !kedge__columns_ended(d->columns))
		rc = kedge__map_damaged(d, "something is left over after the last entry");
	return rc;
}

static int decode_entries(struct kedge__map_decoder *d, uint64_t self)
{
	uint64_t left;
	int rc = decode_versions(d, self);

	if (rc == 0)
		rc = d->how == KEDGE__MAP_COLUMNS ? decode_columns(d) : decode_runs(d);
	while (rc == 0 && (left = kedge__map_settle(d)) > 0)
		rc = kedge__map_emit(d, KEDGE__EXTENT_PARENT, left, 0, 0);
	return rc;
}

/* COUNT chunks of literals, over region ends. */
static int emit_literals(struct kedge__map_decoder *d, uint64_t count, uint64_t *literals)
{
	while (count > 0) {
		uint64_t left = kedge__map_settle(d);
		uint64_t units = left / d->unit + (left % d->unit != 0);
		uint64_t len = count >= units ? left : count * d->unit;
		int rc = kedge__map_emit(d, KEDGE__EXTENT_LITERAL, len, *literals, 0);

		if (rc != 0)
			return rc;
		*literals += len;
		count -= KEDGE__MIN(count, units);
	}
	return 0;
}

/* The first of the bits FROM .. END - 1 that is not as bit FROM is; END if all are. Eight bytes at a time, because most
 * bitmaps are long and nearly empty. */
static uint64_t run_end(const uint8_t *bits, uint64_t from, uint64_t end)
{
	bool set = bits[from / 8] >> (from % 8) & 1;
	uint64_t same = set ? UINT64_MAX : 0;
	uint64_t i = from;

	while (i < end && (bits[i / 8] >> (i % 8) & 1) == set) {
		if (i % 8 == 0 && end - i >= 64 && kedge__get64(bits + i / 8) == same)
			i += 64;
		else
			i++;
	}
	return i;
}

static int decode_bitmap(struct kedge__map_decoder *d)
{
	uint64_t chunks = kedge__map_chunks(d->regions, d->region_count, (uint32_t)d->unit);
	uint64_t literals = 0;
	int rc = 0;

	if (d->in.left != chunks / 8 + (chunks % 8 != 0))
		return kedge__map_damaged(d, "the size of the bitmap does not match the number of chunks");
	if (chunks % 8 != 0 && d->in.at[d->in.left - 1] >> (chunks % 8) != 0)
		return kedge__map_damaged(d, "bits are set after the end of the bitmap");
	for (uint64_t i = 0, end; i < chunks && rc == 0; i = end) {
		end = run_end(d->in.at, i, chunks);
		if (d->in.at[i / 8] >> (i % 8) & 1)
			rc = emit_literals(d, end - i, &literals);
		else
			rc = kedge__map_emit_gap(d, end - i, d->unit);
	}
	return rc;
}

static int decode_section(struct kedge__map_decoder *d, uint64_t self)
{
	uint64_t how = kedge__wire_get_varint(&d->in);
	uint64_t chunk = kedge__wire_get_varint_max(&d->in, KEDGE__CHUNK_MAX);

	if (d->in.failed || !kedge__chunk_valid((uint32_t)chunk))
		return kedge__map_damaged(d, "the header is malformed");
	if (how > KEDGE__MAP_COLUMNS)
		return kedge__error_set(d->err, KEDGE_E_FORMAT, 0,
					"section MAPX: encoding %llu is unknown to this build",
					(unsigned long long)how);
	if (chunk == 0 && how != KEDGE__MAP_RUNS && how != KEDGE__MAP_COLUMNS)
		return kedge__map_damaged(d, "the chunk size is zero");
	d->how = (enum kedge__map_encoding)how;
	d->unit = chunk ? chunk : 1;
	if (d->how == KEDGE__MAP_PAGES && chunk > KEDGE__PATTERN_MAX)
		return kedge__map_damaged(d, "the pattern size is invalid");
	if (d->how == KEDGE__MAP_PAGES)
		return kedge__pages_decode(d, self, chunk);
	return d->how == KEDGE__MAP_BITMAP ? decode_bitmap(d) : decode_entries(d, self);
}

/* Whole regions. */
static int inherit(struct kedge__map_decoder *d)
{
	struct kedge__range_list *list = &d->map.inherited;

	if (!kedge__array_reserve(list, d->region_count))
		return kedge__error_nomem(d->err);
	for (size_t i = 0; i < d->region_count; i++)
		if (d->regions[i].bytes)
			list->at[list->count++] =
			    (struct kedge__range){kedge__region_base(&d->regions[i]), d->regions[i].bytes};
	return 0;
}

int kedge__map_decode(const void *data, size_t bytes, uint64_t self, const struct kedge__region_record *regions,
		      size_t n, enum kedge__map_encoding *how, struct kedge__extent_map *map, struct kedge__error *err)
{
	struct kedge__map_decoder d = {
	    .in = kedge__wire_in_init(data, bytes), .regions = regions, .region_count = n, .err = err};
	int rc = decode_section(&d, self);

	if (rc == 0)
		rc = inherit(&d);
	kedge__map_sources_done(&d.sources);
	kedge__columns_in_free(d.columns);
	if (rc != 0) {
		kedge__extent_map_done(&d.map);
		return rc;
	}
	*how = d.how;
	*map = d.map;
	return 0;
}
