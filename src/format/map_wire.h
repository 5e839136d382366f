/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * map_wire: what the two sides of section MAPX share (FORMAT.md, "MAPX: the extent map").
 */
#ifndef KEDGE_FORMAT_MAP_WIRE_H
#define KEDGE_FORMAT_MAP_WIRE_H

#include "format/wire.h"

#define KEDGE__MAP_KIND_BITS 2u
#define KEDGE__MAP_LONG      4u /* in an entry's head: a length follows */
#define KEDGE__MAP_GAP_SHIFT 3u

#define KEDGE__MAP_SOURCE_OTHER 1u /* in a copy's source: the number of the source follows */
#define KEDGE__MAP_SOURCE_BYTES 2u /* the difference follows, in bytes */
#define KEDGE__MAP_SOURCE_SHIFT 2u

/*
 * Sources of copies: the versions of the table, newest first, and after them, as number `count`, the literals of this
 * segment. Each remembers where its last copy ended, because the next one usually continues there.
 */
struct kedge__map_sources {
	uint64_t *versions; /* owned, as is ends */
	uint64_t *ends;     /* count + 1 of them; MAP_END_UNKNOWN until the first copy */
	size_t count;
	size_t last; /* the source of the last copy */
};

#define KEDGE__MAP_END_UNKNOWN UINT64_MAX

/* Allocate for COUNT versions. */
int kedge__map_sources_init(struct kedge__map_sources *s, size_t count, struct kedge__error *err);
void kedge__map_sources_done(struct kedge__map_sources *s);

/* Where a copy to ADDR from source I is expected. */
static inline uint64_t kedge__map_sources_expect(const struct kedge__map_sources *s, size_t i, uint64_t addr)
{
	return s->ends[i] == KEDGE__MAP_END_UNKNOWN ? addr : s->ends[i];
}

/* An entry of runs, lists and columns, as it is stored. */
struct kedge__map_entry {
	enum kedge__extent_kind kind;
	bool long_form;
	uint64_t gap;
	uint64_t length;      /* if it is long */
	bool other, in_bytes; /* of a copy: a number follows; the difference is in bytes */
	uint64_t number;      /* of the source, if it is another */
	uint64_t difference;  /* zigzag */
	uint64_t pattern;     /* of a fill */
};

/* The chunks of all regions, each region's last one possibly short. */
static inline uint64_t kedge__map_chunks(const struct kedge__region_record *regions, size_t n, uint32_t chunk)
{
	uint64_t total = 0;

	for (size_t i = 0; i < n; i++)
		total += regions[i].bytes / chunk + (regions[i].bytes % chunk != 0);
	return total;
}

static inline uint64_t kedge__region_base(const struct kedge__region_record *r)
{
	return (uint64_t)r->slot << KEDGE__SLOT_SHIFT;
}

/* A fill's pattern: a byte if all are the same, else all eight. */
void kedge__map_put_fill(struct kedge__wire_out *w, uint64_t pattern);
bool kedge__map_get_fill(struct kedge__wire_in *in, uint64_t *pattern);

/* ---- map_columns.c */

struct kedge__columns_out;
struct kedge__columns_out *kedge__columns_out_new(void); /* NULL: no memory */
void kedge__columns_out_free(struct kedge__columns_out *c);
void kedge__columns_put(struct kedge__columns_out *c, const struct kedge__map_entry *e);
size_t kedge__columns_as_runs(const struct kedge__columns_out *c); /* bytes that the entries so far would take as runs */
void kedge__columns_finish(struct kedge__columns_out *c, struct kedge__wire_out *out);

struct kedge__columns_in;
/* All that is left of IN. */
int kedge__columns_in_new(struct kedge__wire_in *in, struct kedge__columns_in **out, struct kedge__error *err);
void kedge__columns_in_free(struct kedge__columns_in *c);
uint64_t kedge__columns_left(const struct kedge__columns_in *c);                     /* entries */
bool kedge__columns_get(struct kedge__columns_in *c, struct kedge__map_entry *e);    /* false: it is malformed */
/* The gaps before the next entries as long as these are a chunk of literals each, at most MOST; how many. 0: the next one is of another
 * kind, or malformed. */
size_t kedge__columns_get_chunks(struct kedge__columns_in *c, uint64_t *gaps, size_t most);
bool kedge__columns_ended(const struct kedge__columns_in *c);                        /* and nothing is left over */

/* ---- decoding: a cursor moves through the regions; the bytes that it passes become extents */

struct kedge__map_decoder {
	struct kedge__wire_in in;
	struct kedge__map_sources sources;
	struct kedge__columns_in *columns; /* NULL: the entries are in IN */
	uint64_t unit;
	enum kedge__map_encoding how;
	const struct kedge__region_record *regions;
	size_t region_count;
	size_t region;   /* where the next extent goes: this region, */
	uint64_t offset; /* this byte of it */
	struct kedge__extent_map map;
	struct kedge__error *err;
};

int kedge__map_damaged(struct kedge__map_decoder *d, const char *what);
/* Go to the next region if this one is mapped to its end. The number of bytes left in the current region; 0: none is left. */
uint64_t kedge__map_settle(struct kedge__map_decoder *d);
int kedge__map_emit(struct kedge__map_decoder *d, enum kedge__extent_kind kind, uint64_t len, uint64_t src,
		    uint64_t version);
/* COUNT times UNIT bytes at the same place in the parent, across ends of regions, where a unit may be short. */
int kedge__map_emit_gap(struct kedge__map_decoder *d, uint64_t count, uint64_t unit);

static inline uint64_t kedge__map_address(const struct kedge__map_decoder *d)
{
	return kedge__region_base(&d->regions[d->region]) + d->offset;
}

/* ---- pages_encode.c, pages_decode.c */

struct kedge__pages_encoder;
struct kedge__pages_encoder *kedge__pages_encoder_new(uint64_t unit); /* NULL: no memory */
void kedge__pages_encoder_free(struct kedge__pages_encoder *p);
/* All extents in order; LEFT is what the region has from its address on. */
void kedge__pages_put(struct kedge__pages_encoder *p, struct kedge__extent e, uint64_t left);
/* False: the extents cannot be expressed by pages; nothing was put. */
bool kedge__pages_finish(struct kedge__pages_encoder *p, uint64_t self, struct kedge__wire_out *out);

int kedge__pages_decode(struct kedge__map_decoder *d, uint64_t self, uint64_t unit);

#endif
