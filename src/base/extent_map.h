/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * extent_map: what reducers write, segments store and restore composes: for each byte range of an
 * image, where its bytes are.
 *
 * The image space: every region has its own slot, KEDGE__SLOT_BYTES wide, for as long as it is
 * protected. An address in the image is slot * KEDGE__SLOT_BYTES + offset. So a region may grow
 * or shrink without moving its neighbours, and most of it is at the same place as in the parent.
 * Nothing may rely on that: the slot of a region that is gone may belong to another in the next
 * version. The space is sparse; only [base, base + bytes) of each region is mapped.
 */
#ifndef KEDGE_BASE_EXTENT_MAP_H
#define KEDGE_BASE_EXTENT_MAP_H

#include "base/base.h"

#define KEDGE__SLOT_SHIFT 44
#define KEDGE__SLOT_BYTES (UINT64_C(1) << KEDGE__SLOT_SHIFT) /* 16 TiB per region */
#define KEDGE__SLOT_LIMIT (UINT32_C(1) << 20)                /* regions per version */
#define KEDGE__NO_VERSION UINT64_MAX

enum kedge__extent_kind {
	KEDGE__EXTENT_LITERAL = 0, /* src: position in this segment's literal space */
	KEDGE__EXTENT_PARENT = 1,  /* the same address in the parent version; src unused; on tapes, not in maps */
	KEDGE__EXTENT_COPY = 2,    /* src: image address in `version`, which may be this very version */
	KEDGE__EXTENT_FILL = 3,    /* src: an 8-byte pattern; the byte at address A is byte (A & 7) of it, lowest first */
};

struct kedge__extent {
	uint64_t addr, len;
	uint64_t src;
	uint64_t version; /* COPY only, else 0 */
	enum kedge__extent_kind kind;
};

/* Extents in ascending, non-overlapping order. Where single chunks change, what is as in the parent is as many pieces as what is not: it has
 * no extents, but is what those leave of whole ranges, mostly of regions. */
struct kedge__extent_map {
	struct kedge__extent *at;
	size_t count, room;
	struct kedge__range_list inherited; /* as in the parent where there is no extent; ascending */
};

void kedge__extent_map_done(struct kedge__extent_map *map);
/* Append; the caller maintains the order. With MERGE, an extent that continues the last one (in place and source) extends it. One of kind PARENT
 * becomes a range that is inherited. */
int kedge__extent_map_append(struct kedge__extent_map *map, struct kedge__extent e, bool merge, struct kedge__error *err);
/* Does E go on where LAST ends, in the image and at its source? */
bool kedge__extent_goes_on(const struct kedge__extent *last, const struct kedge__extent *e);
/* Append, as with MERGE, the extent that the caller put behind the last one, where there is room for it. */
void kedge__extent_map_take(struct kedge__extent_map *map);
/* Index of the extent that holds ADDR, or of the first one above it (count if none). */
size_t kedge__extent_map_find(const struct kedge__extent_map *map, uint64_t addr);
/* Whether ADDR, which no extent holds, is as in the parent. *LEN: of how many bytes, from there on, this is true but for those that extents hold. */
bool kedge__extent_map_inherits(const struct kedge__extent_map *map, uint64_t addr, uint64_t *len);
/* Whether any byte is as in the parent. */
bool kedge__extent_map_has_inherited(const struct kedge__extent_map *map);
/* Order, overlap, sizes, literal bounds (LITERAL_BYTES), COPY versions <= SELF, nothing inherited unless PARENT exists, fill alignment. */
int kedge__extent_map_check(const struct kedge__extent_map *map, uint64_t self, uint64_t parent, uint64_t literal_bytes, struct kedge__error *err);
/* LEN bytes of a fill's pattern, the first of which has address ADDR. */
void kedge__fill_pattern(uint64_t pattern, uint64_t addr, void *buf, size_t len);

#endif
