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
 * Where copies come from: the versions of the table, newest first, and behind them, as number `count`, the literals of
 * this very segment. Each remembers where its last copy ended, because the next one most often goes on from there.
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

#endif
