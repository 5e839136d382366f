/* SPDX-License-Identifier: BSD-3-Clause */
/* FORMAT.md, "What a reader refuses": the rules between sections. */
#include "format/map_wire.h"

static int check_summary(const struct kedge__segment_parts *p, struct kedge__error *err)
{
	const struct kedge__segment_summary *s = p->summary;
	uint64_t total = 0;

	for (size_t i = 0; i < p->region_count; i++)
		total += p->regions[i].bytes;
	if (s->raw_bytes != total)
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "sections SUMM and REGN: sizes do not agree");
	if (p->region_count > 0 && p->regions[p->region_count - 1].slot >= s->next_slot)
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0,
					"sections SUMM and REGN: a region has a slot that was never allocated");
	if (!kedge__digest_equal(s->image_id, kedge__seal(p->regions_data, p->regions_bytes)))
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "sections SUMM and REGN: the image id does not match");
	if (s->parent != KEDGE__NO_VERSION && s->parent >= p->header->version)
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "section SUMM: the parent is not older");
	return 0;
}

static int check_blocks(const struct kedge__segment_parts *p, struct kedge__error *err)
{
	uint64_t total = 0;

	for (size_t i = 0; i < p->block_count; i++) {
		if (p->blocks[i].region >= p->region_count)
			return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "section BLKS: block %zu belongs to no region",
						i);
		total += p->blocks[i].raw_bytes;
	}
	if (total != p->summary->literal_bytes)
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "sections SUMM and BLKS: sizes do not agree");
	return 0;
}

static bool in_lineage(const struct kedge__segment_parts *p, uint64_t version)
{
	size_t i;

	KEDGE__PARTITION_POINT(i, p->source_count, p->sources[i].version < version);
	return i < p->source_count && p->sources[i].version == version;
}

static int unlisted(uint64_t version, struct kedge__error *err)
{
	return kedge__error_set(err, KEDGE_E_DAMAGED, 0,
				"section MAPX: refers to version %llu, which is not in section LINE",
				(unsigned long long)version);
}

static int check_references(const struct kedge__segment_parts *p, struct kedge__error *err)
{
	uint64_t self = p->header->version, known = self;

	if (p->source_count > 0 && p->sources[p->source_count - 1].version >= self)
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "section LINE: lists a version that is not older");
	if (p->base != KEDGE__NO_VERSION && !in_lineage(p, p->base))
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "section BASE: version %llu is not in section LINE",
					(unsigned long long)p->base);
	for (size_t i = 0; i < p->map->count; i++) {
		const struct kedge__extent *e = &p->map->at[i];

		if (e->kind != KEDGE__EXTENT_COPY || e->version == self || e->version == known)
			continue;
		if (!in_lineage(p, e->version))
			return unlisted(e->version, err);
		known = e->version;
	}
	/* If there is no parent, nothing is inherited: kedge__extent_map_check(). */
	if (p->summary->parent != KEDGE__NO_VERSION && !in_lineage(p, p->summary->parent) &&
	    kedge__extent_map_has_inherited(p->map))
		return unlisted(p->summary->parent, err);
	return 0;
}

/* Where a check of a map, region by region, is. */
struct cover {
	const struct kedge__extent_map *map;
	size_t extent, range; /* the next ones */
};

/* The extents of a region that is inherited as a whole, as most are. */
static bool extents_fit(struct cover *c, uint64_t base, uint64_t bytes)
{
	const struct kedge__extent *e = c->map->at;

	for (; c->extent < c->map->count && e[c->extent].addr - base < bytes; c->extent++)
		if (e[c->extent].len > bytes - (e[c->extent].addr - base))
			return false;
	return true;
}

/* Extents, and what is inherited between them, follow each other to the end of the region. */
static bool pieces_fit(struct cover *c, uint64_t base, uint64_t bytes)
{
	const struct kedge__range_list *list = &c->map->inherited;

	for (uint64_t at = 0, len; at < bytes; at += len) {
		const struct kedge__extent *e = c->extent < c->map->count ? &c->map->at[c->extent] : NULL;

		if (e && e->addr == base + at) {
			len = e->len;
			c->extent++;
		} else if (!kedge__extent_map_inherits(c->map, base + at, &len)) {
			return false;
		} else if (e) {
			len = KEDGE__MIN(len, e->addr - (base + at));
		}
		if (len > bytes - at)
			return false;
	}
	for (; c->range < list->count && list->at[c->range].start - base < bytes; c->range++)
		if (list->at[c->range].len > bytes - (list->at[c->range].start - base))
			return false;
	return true;
}

static bool region_fits(struct cover *c, uint64_t base, uint64_t bytes)
{
	const struct kedge__range_list *list = &c->map->inherited;

	if (c->range == list->count || list->at[c->range].start != base || list->at[c->range].len != bytes)
		return pieces_fit(c, base, bytes);
	c->range++;
	return extents_fit(c, base, bytes);
}

static int check_cover(const struct kedge__segment_parts *p, struct kedge__error *err)
{
	struct cover c = {.map = p->map};

	for (size_t k = 0; k < p->region_count; k++)
		if (p->regions[k].bytes && !region_fits(&c, kedge__region_base(&p->regions[k]), p->regions[k].bytes))
			return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "section MAPX: region '%s' is not covered",
						p->regions[k].name);
	if (c.extent != p->map->count || c.range != p->map->inherited.count)
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "section MAPX: extents lie outside all regions");
	return 0;
}

int kedge__segment_check(const struct kedge__segment_parts *p, struct kedge__error *err)
{
	const struct kedge__segment_summary *s = p->summary;
	int rc = check_summary(p, err);

	if (rc == 0)
		rc = check_blocks(p, err);
	if (rc == 0)
		rc = kedge__extent_map_check(p->map, p->header->version, s->parent, s->literal_bytes, err);
	if (rc == 0)
		rc = check_cover(p, err);
	if (rc == 0)
		rc = check_references(p, err);
	return rc;
}
