#include "format/map_wire.h"

struct decoder {
	struct kedge__wire_in in;
	struct kedge__map_sources sources;
	uint64_t unit;
	enum kedge__map_encoding how;
	const struct kedge__region_record *regions;
	size_t region_count;
	size_t region;   /* where the next extent goes: this region, */
	uint64_t offset; /* this byte of it */
	struct kedge__extent_map map;
	struct kedge__error *err;
};

static int damaged(struct decoder *d, const char *what)
{
	return kedge__error_set(d->err, KEDGE_E_DAMAGED, 0, "section MAPX: %s", what);
}

/* Go to the next region if this one is mapped to its end; what is left of the one we are in, 0: no region is left. */
static uint64_t settle(struct decoder *d)
{
	while (d->region < d->region_count && d->offset == d->regions[d->region].bytes) {
		d->region++;
		d->offset = 0;
	}
	return d->region < d->region_count ? d->regions[d->region].bytes - d->offset : 0;
}

static uint64_t address(const struct decoder *d)
{
	return kedge__region_base(&d->regions[d->region]) + d->offset;
}

static int emit(struct decoder *d, enum kedge__extent_kind kind, uint64_t len, uint64_t src, uint64_t version)
{
	struct kedge__extent e = {.addr = address(d), .len = len, .src = src, .version = version, .kind = kind};

	d->offset += len;
	return kedge__extent_map_append(&d->map, e, true, d->err);
}

/* COUNT units at the same place in the parent, over region ends, where a unit may be short. */
static int emit_gap(struct decoder *d, uint64_t count)
{
	while (count > 0) {
		uint64_t left = settle(d);
		uint64_t units = left / d->unit + (left % d->unit != 0);
		int rc;

		if (left == 0)
			return damaged(d, "a gap goes beyond the last region");
		rc = emit(d, KEDGE__EXTENT_PARENT, count >= units ? left : count * d->unit, 0, 0);
		if (rc != 0)
			return rc;
		count -= KEDGE__MIN(count, units);
	}
	return 0;
}

static int get_length(struct decoder *d, bool long_form, uint64_t left, uint64_t *len)
{
	uint64_t v, n, unit;

	*len = KEDGE__MIN(d->unit, left);
	if (!long_form)
		return 0;
	v = kedge__wire_get_varint(&d->in);
	if (v == 0) {
		*len = left;
		return 0;
	}
	unit = (v - 1) & 1 ? 1 : d->unit;
	n = (v - 1) >> 1;
	if (n == 0 || n > left / unit)
		return damaged(d, "an extent is empty or goes beyond its region");
	*len = n * unit;
	return 0;
}

static bool source_valid(uint64_t src, uint64_t len)
{
	return (src & (KEDGE__SLOT_BYTES - 1)) + len <= KEDGE__SLOT_BYTES;
}

static int emit_copy(struct decoder *d, uint64_t len)
{
	struct kedge__map_sources *s = &d->sources;
	uint64_t v = kedge__wire_get_varint(&d->in);
	size_t i = s->last;
	uint64_t src, difference;

	if (v & KEDGE__MAP_SOURCE_OTHER)
		i = (size_t)kedge__wire_get_varint_max(&d->in, s->count);
	difference = kedge__unzigzag(v >> KEDGE__MAP_SOURCE_SHIFT) * d->unit;
	if (v & KEDGE__MAP_SOURCE_BYTES) {
		if (v >> KEDGE__MAP_SOURCE_SHIFT)
			return damaged(d, "a source is coded in a way that is not allowed");
		difference = kedge__unzigzag(kedge__wire_get_varint(&d->in));
	}
	src = kedge__map_sources_expect(s, i, address(d)) + difference;
	s->last = i;
	s->ends[i] = src + len;
	if (i == s->count) {
		if (src > KEDGE__IMAGE_BYTES_MAX)
			return damaged(d, "a literal is out of range");
		return emit(d, KEDGE__EXTENT_LITERAL, len, src, 0);
	}
	if (!source_valid(src, len))
		return damaged(d, "the source of a copy is not within one region");
	return emit(d, KEDGE__EXTENT_COPY, len, src, s->versions[i]);
}

static int emit_fill(struct decoder *d, uint64_t len)
{
	uint64_t size = kedge__wire_get_varint(&d->in);
	const uint8_t *at = size == 1 || size == 8 ? kedge__wire_get(&d->in, (size_t)size) : NULL;

	if (!at)
		return damaged(d, "a fill has no pattern of 1 or 8 bytes");
	return emit(d, KEDGE__EXTENT_FILL, len, size == 8 ? kedge__get64(at) : *at * UINT64_C(0x0101010101010101), 0);
}

static int emit_literal(struct decoder *d, uint64_t len)
{
	uint64_t *end = &d->sources.ends[d->sources.count];
	uint64_t src = *end;

	if (src > KEDGE__IMAGE_BYTES_MAX)
		return damaged(d, "a literal is out of range");
	*end += len;
	return emit(d, KEDGE__EXTENT_LITERAL, len, src, 0);
}

static int decode_entry(struct decoder *d)
{
	uint64_t head = kedge__wire_get_varint(&d->in);
	bool long_form = head & KEDGE__MAP_LONG;
	uint64_t left, len;
	int rc;

	if (d->how == KEDGE__MAP_LIST && long_form)
		return damaged(d, "an entry of more than a chunk in a list");
	rc = emit_gap(d, head >> KEDGE__MAP_GAP_SHIFT);
	if (rc != 0)
		return rc;
	left = settle(d);
	if (left == 0)
		return damaged(d, "an entry goes beyond the last region");
	rc = get_length(d, long_form, left, &len);
	if (rc != 0)
		return rc;
	switch ((enum kedge__extent_kind)(head & ((1u << KEDGE__MAP_KIND_BITS) - 1))) {
	case KEDGE__EXTENT_LITERAL:
		return emit_literal(d, len);
	case KEDGE__EXTENT_PARENT:
		return emit(d, KEDGE__EXTENT_PARENT, len, 0, 0);
	case KEDGE__EXTENT_COPY:
		return emit_copy(d, len);
	case KEDGE__EXTENT_FILL:
		return emit_fill(d, len);
	}
	return damaged(d, "an entry of no known kind");
}

static int decode_versions(struct decoder *d, uint64_t self)
{
	uint64_t count = kedge__wire_get_varint(&d->in);
	uint64_t newer = self;
	int rc;

	if (d->in.failed || count > d->in.left)
		return damaged(d, "more versions than bytes for them");
	rc = kedge__map_sources_init(&d->sources, (size_t)count, d->err);
	for (uint64_t i = 0; rc == 0 && i < count; i++) {
		uint64_t back = kedge__wire_get_varint(&d->in);

		if (d->in.failed || back > newer || (i > 0 && back == 0))
			rc = damaged(d, "the table of versions is broken");
		newer -= back;
		d->sources.versions[i] = newer;
	}
	return rc;
}

static int decode_entries(struct decoder *d, uint64_t self)
{
	uint64_t left;
	int rc = decode_versions(d, self);

	while (rc == 0 && d->in.left > 0) {
		rc = decode_entry(d);
		if (rc == 0 && d->in.failed)
			rc = damaged(d, "an entry is broken");
	}
	while (rc == 0 && (left = settle(d)) > 0)
		rc = emit(d, KEDGE__EXTENT_PARENT, left, 0, 0);
	return rc;
}

/* COUNT chunks of literals, over region ends. */
static int emit_literals(struct decoder *d, uint64_t count, uint64_t *literals)
{
	while (count > 0) {
		uint64_t left = settle(d);
		uint64_t units = left / d->unit + (left % d->unit != 0);
		uint64_t len = count >= units ? left : count * d->unit;
		int rc = emit(d, KEDGE__EXTENT_LITERAL, len, *literals, 0);

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

static int decode_bitmap(struct decoder *d)
{
	uint64_t chunks = kedge__map_chunks(d->regions, d->region_count, (uint32_t)d->unit);
	uint64_t literals = 0;
	int rc = 0;

	if (d->in.left != chunks / 8 + (chunks % 8 != 0))
		return damaged(d, "the bitmap is not as long as the regions have chunks");
	if (chunks % 8 != 0 && d->in.at[d->in.left - 1] >> (chunks % 8) != 0)
		return damaged(d, "bits behind the end of the bitmap");
	for (uint64_t i = 0, end; i < chunks && rc == 0; i = end) {
		end = run_end(d->in.at, i, chunks);
		if (d->in.at[i / 8] >> (i % 8) & 1)
			rc = emit_literals(d, end - i, &literals);
		else
			rc = emit_gap(d, end - i);
	}
	return rc;
}

static int decode_section(struct decoder *d, uint64_t self)
{
	uint64_t how = kedge__wire_get_varint(&d->in);
	uint64_t chunk = kedge__wire_get_varint_max(&d->in, KEDGE__CHUNK_MAX);

	if (d->in.failed || !kedge__chunk_valid((uint32_t)chunk))
		return damaged(d, "its head is broken");
	if (how > KEDGE__MAP_BITMAP)
		return kedge__error_set(d->err, KEDGE_E_FORMAT, 0, "section MAPX: encoding %llu is not known here",
					(unsigned long long)how);
	if (chunk == 0 && how != KEDGE__MAP_RUNS)
		return damaged(d, "chunks of no size");
	d->how = (enum kedge__map_encoding)how;
	d->unit = chunk ? chunk : 1;
	return d->how == KEDGE__MAP_BITMAP ? decode_bitmap(d) : decode_entries(d, self);
}

int kedge__map_decode(const void *data, size_t bytes, uint64_t self, const struct kedge__region_record *regions,
		      size_t n, enum kedge__map_encoding *how, struct kedge__extent_map *map, struct kedge__error *err)
{
	struct decoder d = {.in = kedge__wire_in_init(data, bytes), .regions = regions, .region_count = n, .err = err};
	int rc = decode_section(&d, self);

	kedge__map_sources_done(&d.sources);
	if (rc != 0) {
		kedge__extent_map_done(&d.map);
		return rc;
	}
	*how = d.how;
	*map = d.map;
	return 0;
}
