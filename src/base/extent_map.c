/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * extent_map.c: building, searching and checking extent maps.
 */
#include "base/extent_tape.h"

void kedge__extent_map_done(struct kedge__extent_map *map)
{
	kedge__array_done(map);
	kedge__array_done(&map->inherited);
}

bool kedge__extent_goes_on(const struct kedge__extent *last, const struct kedge__extent *e)
{
	if (last->kind != e->kind || last->addr + last->len != e->addr ||
	    last->addr >> KEDGE__SLOT_SHIFT != e->addr >> KEDGE__SLOT_SHIFT)
		return false;
	switch (e->kind) {
	case KEDGE__EXTENT_PARENT:
		return true;
	case KEDGE__EXTENT_FILL:
		return last->src == e->src;
	case KEDGE__EXTENT_LITERAL:
		return last->src + last->len == e->src;
	case KEDGE__EXTENT_COPY:
		return last->version == e->version && last->src + last->len == e->src &&
		       last->src >> KEDGE__SLOT_SHIFT == e->src >> KEDGE__SLOT_SHIFT;
	}
	return false;
}

void kedge__extent_map_take(struct kedge__extent_map *map)
{
	struct kedge__extent *e = &map->at[map->count], *last = e - 1;

	if (!e->len)
		return;
	if (map->count && kedge__extent_goes_on(last, e))
		last->len += e->len;
	else
		map->count++;
}

static int inherit(struct kedge__range_list *list, struct kedge__range range, bool merge, struct kedge__error *err)
{
	struct kedge__range *last = list->count ? &list->at[list->count - 1] : NULL;

	if (merge && last && last->start + last->len == range.start &&
	    last->start >> KEDGE__SLOT_SHIFT == range.start >> KEDGE__SLOT_SHIFT) {
		last->len += range.len;
		return 0;
	}
	return !range.len || kedge__array_push(list, range) ? 0 : kedge__error_nomem(err);
}

int kedge__extent_map_append(struct kedge__extent_map *map, struct kedge__extent e, bool merge,
			     struct kedge__error *err)
{
	if (e.kind == KEDGE__EXTENT_PARENT)
		return inherit(&map->inherited, (struct kedge__range){e.addr, e.len}, merge, err);
	if (!kedge__array_reserve(map, map->count + 1))
		return kedge__error_nomem(err);
	map->at[map->count] = e;
	if (merge)
		kedge__extent_map_take(map);
	else
		map->count += e.len > 0;
	return 0;
}

size_t kedge__extent_map_find(const struct kedge__extent_map *map, uint64_t addr)
{
	size_t i;

	KEDGE__PARTITION_POINT(i, map->count, map->at[i].addr <= addr && addr - map->at[i].addr >= map->at[i].len);
	return i;
}

bool kedge__extent_map_inherits(const struct kedge__extent_map *map, uint64_t addr, uint64_t *len)
{
	const struct kedge__range_list *list = &map->inherited;
	size_t i;

	KEDGE__PARTITION_POINT(i, list->count,
			       list->at[i].start <= addr && addr - list->at[i].start >= list->at[i].len);
	if (i == list->count) {
		*len = UINT64_MAX - addr;
		return false;
	}
	if (list->at[i].start > addr) {
		*len = list->at[i].start - addr;
		return false;
	}
	*len = list->at[i].len - (addr - list->at[i].start);
	return true;
}

bool kedge__extent_map_has_inherited(const struct kedge__extent_map *map)
{
	struct kedge__extent_reader r = kedge__extents_of_map(map);
	struct kedge__extent e;

	while (kedge__extent_next(&r, &e))
		if (e.kind == KEDGE__EXTENT_PARENT)
			return true;
	return false;
}

/* [addr, addr + len) is not empty and lies in one slot. */
static bool range_fits(uint64_t addr, uint64_t len)
{
	uint64_t offset = addr & (KEDGE__SLOT_BYTES - 1);

	return len && len <= KEDGE__SLOT_BYTES - offset;
}

static const char *extent_problem(const struct kedge__extent *e, uint64_t self, uint64_t literal_bytes)
{
	switch (e->kind) {
	case KEDGE__EXTENT_LITERAL:
		return e->src > literal_bytes || e->len > literal_bytes - e->src ? "lies outside the literals" : NULL;
	case KEDGE__EXTENT_COPY:
		if (e->version > self)
			return "refers to a newer version";
		return range_fits(e->src, e->len) ? NULL : "refers to more than one region";
	case KEDGE__EXTENT_FILL:
		return e->addr & 7 ? "is a fill that does not start with its pattern" : NULL;
	case KEDGE__EXTENT_PARENT:
		break;
	}
	return "is of an unknown kind";
}

/* Ranges that are inherited. */
static int check_inherited(const struct kedge__extent_map *map, uint64_t self, uint64_t parent,
			   struct kedge__error *err)
{
	const struct kedge__range_list *list = &map->inherited;
	uint64_t end = 0;

	for (size_t i = 0; i < list->count; i++) {
		if (!range_fits(list->at[i].start, list->at[i].len) || (i && (end == 0 || list->at[i].start < end)))
			return kedge__error_set(err, KEDGE_E_DAMAGED, 0,
						"range %zu of version %llu that is as in the parent (at %#llx, %llu "
						"bytes) is out of order or extends beyond its region",
						i, (unsigned long long)self, (unsigned long long)list->at[i].start,
						(unsigned long long)list->at[i].len);
		end = list->at[i].start + list->at[i].len;
	}
	if (parent == KEDGE__NO_VERSION && kedge__extent_map_has_inherited(map))
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "version %llu refers to a parent that does not exist",
					(unsigned long long)self);
	return 0;
}

int kedge__extent_map_check(const struct kedge__extent_map *map, uint64_t self, uint64_t parent, uint64_t literal_bytes,
			    struct kedge__error *err)
{
	uint64_t end = 0;

	if (parent != KEDGE__NO_VERSION && parent >= self)
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "the parent of version %llu is not older",
					(unsigned long long)self);
	for (size_t i = 0; i < map->count; i++) {
		const struct kedge__extent *e = &map->at[i];
		const char *problem = extent_problem(e, self, literal_bytes);

		if (!range_fits(e->addr, e->len))
			problem = "is empty or extends beyond its region";
		else if (i && (end == 0 || e->addr < end))
			problem = "is out of order or overlaps the previous one";
		if (problem)
			return kedge__error_set(
			    err, KEDGE_E_DAMAGED, 0, "extent %zu of version %llu (at %#llx, %llu bytes) %s", i,
			    (unsigned long long)self, (unsigned long long)e->addr, (unsigned long long)e->len, problem);
		end = e->addr + e->len; /* 0 after the last byte of the space: nothing may follow */
	}
	return check_inherited(map, self, parent, err);
}

void kedge__fill_pattern(uint64_t pattern, uint64_t addr, void *buf, size_t len)
{
	uint8_t bytes[8], *to = buf;
	size_t i = 0;

	kedge__put64(bytes, pattern);
	if (pattern == UINT64_C(0x0101010101010101) * bytes[0]) {
		memset(to, bytes[0], len);
		return;
	}
	for (; i < len && (addr + i) % 8; i++)
		to[i] = bytes[(addr + i) % 8];
	for (; len - i >= 8; i += 8)
		memcpy(to + i, bytes, 8);
	for (; i < len; i++)
		to[i] = bytes[(addr + i) % 8];
}
