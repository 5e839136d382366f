/* SPDX-License-Identifier: BSD-3-Clause */
/* show_json: a version for programs. */
#include "aggregate/aggregate.h"
#include "show.h"

static void add_digest(json_t *o, const char *key, struct kedge__digest d)
{
	char text[KEDGE__TEXT_ROOM];

	snprintf(text, sizeof(text), "%016llx%016llx", (unsigned long long)d.hi, (unsigned long long)d.lo);
	kedge__json_text(o, key, text);
}

static json_t *regions(const struct kedge__show *s)
{
	json_t *list = kedge__json_array();

	for (size_t i = 0; i < s->segment->region_count; i++) {
		const struct kedge__region_record *r = &s->segment->regions[i];
		json_t *o = kedge__json_object(), *dims = kedge__json_array();

		for (uint32_t d = 0; d < r->ndims && d < KEDGE_MAX_DIMS; d++)
			kedge__json_add(dims, json_integer((json_int_t)r->dims[d]));
		kedge__json_text(o, "name", r->name);
		kedge__json_uint(o, "slot", r->slot);
		kedge__json_uint(o, "bytes", r->bytes);
		kedge__json_text(o, "type", kedge__type_name(r->type));
		kedge__json_set(o, "shape", dims);
		add_digest(o, "digest", r->digest);
		kedge__json_add(list, o);
	}
	return list;
}

static json_t *extent_counts(const struct kedge__show *s)
{
	json_t *o = kedge__json_object();

	for (int k = 0; k < 4; k++) {
		json_t *kind = kedge__json_object();

		kedge__json_uint(kind, "count", s->extents[k].count);
		kedge__json_uint(kind, "bytes", s->extents[k].bytes);
		kedge__json_set(o, kedge__show_kind((enum kedge__extent_kind)k), kind);
	}
	return o;
}

static json_t *block_counts(const struct kedge__show *s)
{
	json_t *o = kedge__json_object();

	for (size_t c = 0; c < s->codec_count; c++) {
		json_t *codec = kedge__json_object();

		kedge__json_uint(codec, "count", s->codecs[c].count);
		kedge__json_uint(codec, "raw_bytes", s->codecs[c].raw);
		kedge__json_uint(codec, "stored_bytes", s->codecs[c].stored);
		kedge__json_set(o, s->codecs[c].name, codec);
	}
	return o;
}

static void add_figures(json_t *o, const struct kedge__packing_record *told)
{
	if (!told)
		return;
	kedge__json_real(o, "estimated_ratio", told->size > 0 ? 1 / told->size : 0);
	kedge__json_real(o, "encode_rate", told->encode);
	kedge__json_real(o, "storage_rate", told->storage);
	kedge__json_real(o, "target_rate", told->target);
	kedge__json_uint(o, "looked_at_versions_ago", told->age);
}

static json_t *packed(const struct kedge__show_packed *p, const char *what, const char *name)
{
	char chain[KEDGE__CODEC_NAME_ROOM], why[KEDGE__SHOW_WHY_ROOM];
	json_t *o = kedge__json_object();

	kedge__json_text(o, what, name);
	kedge__json_text(o, "codec", kedge__show_chain(p, chain));
	kedge__json_uint(o, "raw_bytes", p->raw);
	kedge__json_uint(o, "stored_bytes", p->stored);
	kedge__json_uint(o, "blocks", p->blocks);
	kedge__json_uint(o, "blocks_as_is", p->as_is);
	kedge__json_uint(o, "blocks_with_base", p->based);
	kedge__json_text(o, "reason", kedge__show_reason(p->told));
	kedge__json_text(o, "why", kedge__show_why(p->told, why));
	add_figures(o, p->told);
	return o;
}

static json_t *packing(const struct kedge__show *s)
{
	json_t *list = kedge__json_array();

	for (size_t i = 0; i < s->segment->region_count; i++)
		if (s->packed[i].blocks)
			kedge__json_add(list, packed(&s->packed[i], "region", s->segment->regions[i].name));
	return list;
}

static json_t *aggregate(const struct kedge__show *s)
{
	const struct kedge__classes_record *c = &s->segment->classes;
	char why[KEDGE__SHOW_WHY_ROOM];
	json_t *o, *list, *sizes;

	if (!c->count)
		return NULL;
	o = kedge__json_object();
	list = kedge__json_array();
	sizes = kedge__json_object();
	kedge__json_text(o, "scheme", kedge__aggregate_scheme_name(c->scheme));
	kedge__json_text(o, "why", kedge__show_scheme(c, why));
	kedge__json_uint(o, "block", c->block);
	kedge__json_uint(o, "tried_versions_ago", c->age);
	for (uint32_t i = 0; i < KEDGE__AGGREGATE_SCHEMES; i++)
		if (c->sizes[i] > 0)
			kedge__json_real(sizes, kedge__aggregate_scheme_name(KEDGE__AGGREGATE_AGNOSTIC + i),
					 1 / c->sizes[i]);
	kedge__json_set(o, "tried_ratios", sizes);
	for (size_t i = 0; i < c->count; i++) {
		const struct kedge__show_packed *p = &s->packed[s->segment->region_count + i];
		json_t *class = p->blocks ? packed(p, "class", c->at[i].name) : NULL;

		if (!class)
			continue;
		kedge__json_text(class, "type", kedge__type_name(c->at[i].type));
		kedge__json_uint(class, "pieces", c->at[i].pieces);
		kedge__json_add(list, class);
	}
	kedge__json_set(o, "classes", list);
	return o;
}

static json_t *extent_list(const struct kedge__show *s)
{
	struct kedge__extent_reader map = kedge__extents_of_map(&s->segment->map);
	json_t *list = kedge__json_array();
	struct kedge__extent e;

	while (kedge__extent_next(&map, &e)) {
		uint64_t offset = e.addr;
		const struct kedge__region_record *r = kedge__show_region_at(s, e.addr, &offset);
		json_t *o = kedge__json_object();
		char pattern[KEDGE__TEXT_ROOM];

		kedge__json_text(o, "region", r ? r->name : NULL);
		kedge__json_uint(o, "offset", offset);
		kedge__json_uint(o, "bytes", e.len);
		kedge__json_text(o, "kind", kedge__show_kind(e.kind));
		if (e.kind == KEDGE__EXTENT_LITERAL)
			kedge__json_uint(o, "literal", e.src);
		if (e.kind == KEDGE__EXTENT_COPY) {
			kedge__json_uint(o, "version", e.version);
			kedge__json_uint(o, "slot", e.src >> KEDGE__SLOT_SHIFT);
			kedge__json_uint(o, "from", e.src & (KEDGE__SLOT_BYTES - 1));
		}
		if (e.kind == KEDGE__EXTENT_FILL) {
			snprintf(pattern, sizeof(pattern), "%016llx", (unsigned long long)e.src);
			kedge__json_text(o, "pattern", pattern);
		}
		kedge__json_add(list, o);
	}
	return list;
}

static json_t *block_list(const struct kedge__show *s)
{
	json_t *list = kedge__json_array();
	char a[KEDGE__CODEC_NAME_ROOM];

	for (size_t i = 0; i < s->segment->block_count; i++) {
		const struct kedge__block_record *b = &s->segment->blocks[i];
		json_t *o = kedge__json_object();

		kedge__json_text(o, "region",
				 b->region < s->segment->region_count ? s->segment->regions[b->region].name : NULL);
		kedge__json_uint(o, "file_offset", b->offset);
		kedge__json_uint(o, "raw_bytes", b->raw_bytes);
		kedge__json_uint(o, "stored_bytes", b->stored_bytes);
		kedge__json_text(o, "codec", kedge__codec_describe(b->codec, b->param, a));
		kedge__json_uint(o, "literal", b->position);
		kedge__json_add(list, o);
	}
	return list;
}

static json_t *lineage(const struct kedge__show *s)
{
	json_t *list;

	if (!s->lineage)
		return json_null();
	list = kedge__json_array();
	for (size_t i = 0; i < s->lineage_count; i++)
		kedge__json_add(list, json_integer((json_int_t)s->lineage[i]));
	return list;
}

/* Null: the segment has no shield beside it. */
static void add_shield(json_t *o, const struct kedge__show *s)
{
	const struct kedge__shield *shield = &s->shield.shield;
	json_t *members = kedge__json_array();
	char scheme[KEDGE__PROTECTION_TEXT];

	for (uint32_t i = 0; s->shield.path && i < shield->members; i++) {
		json_t *member = kedge__json_object();

		kedge__json_uint(member, "rank", shield->at[i].rank);
		kedge__json_text(member, "node", shield->at[i].node);
		kedge__json_add(members, member);
	}
	kedge__json_text(
	    o, "protect",
	    s->shield.path ? kedge__protection_text(shield->scheme, shield->members, shield->parity, scheme) : NULL);
	kedge__json_set(o, "team", members);
}

void kedge__show_json(const struct kedge__show *s)
{
	const struct kedge__segment *seg = s->segment;
	const struct kedge__set_part *part = &s->set->parts[seg->header.rank];
	json_t *o = kedge__json_object();
	char time[KEDGE__TEXT_ROOM];

	kedge__json_text(o, "name", s->place.name);
	kedge__json_uint(o, "version", s->version);
	kedge__json_uint(o, "rank", seg->header.rank);
	kedge__json_uint(o, "ranks", seg->header.ranks);
	kedge__json_text(o, "created", kedge__text_time_iso(seg->header.created_ns, time));
	kedge__json_text(o, "segment", seg->path);
	kedge__json_uint(o, "generation", part->generation);
	kedge__json_uint(o, "group_size", s->set->grouping ? s->set->grouping->size : KEDGE__MAX(part->bundle, 1));
	if (s->set->grouping) {
		kedge__json_uint(o, "first_rank",
				 (uint64_t)s->set->grouping->numbers[seg->header.rank] * s->set->grouping->size);
		kedge__json_text(o, "rank_names", s->set->grouping->pattern);
	}
	kedge__json_uint(o, "start", part->start);
	kedge__json_text(o, "reducer", kedge__reducer_name((enum kedge__reducer_id)seg->summary.reducer));
	kedge__json_uint(o, "chunk", seg->summary.chunk);
	kedge__json_version(o, "parent", kedge__set_refers(s->set));
	kedge__json_text(o, "note", s->set->note);
	kedge__json_text(o, "labels", s->set->labels);
	kedge__json_version(o, "base", seg->base);
	kedge__json_set(o, "lineage", lineage(s));
	kedge__json_uint(o, "raw_bytes", seg->summary.raw_bytes);
	kedge__json_uint(o, "literal_bytes", seg->summary.literal_bytes);
	kedge__json_uint(o, "stored_bytes", part->file_bytes);
	kedge__json_uint(o, "metadata_bytes", part->metadata_bytes);
	add_shield(o, s);
	kedge__json_set(o, "regions", regions(s));
	kedge__json_set(o, "extents", extent_counts(s));
	kedge__json_set(o, "blocks", block_counts(s));
	kedge__json_set(o, "packing", packing(s));
	if (s->segment->classes.count)
		kedge__json_set(o, "aggregate", aggregate(s));
	if (s->list_extents)
		kedge__json_set(o, "extent_list", extent_list(s));
	if (s->list_blocks)
		kedge__json_set(o, "block_list", block_list(s));
	kedge__json_print(o);
}
