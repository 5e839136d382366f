/* SPDX-License-Identifier: BSD-3-Clause */
/* show_text: a version for people. */
#include "show.h"

const char *kedge__show_kind(enum kedge__extent_kind kind)
{
	static const char *const names[] = {"literal", "parent", "copy", "fill"};

	return names[kind & 3];
}

const struct kedge__region_record *kedge__show_region_at(const struct kedge__show *s, uint64_t addr, uint64_t *offset)
{
	for (size_t i = 0; i < s->segment->region_count; i++) {
		const struct kedge__region_record *r = &s->segment->regions[i];

		if (r->slot == addr >> KEDGE__SLOT_SHIFT) {
			*offset = addr & (KEDGE__SLOT_BYTES - 1);
			return r;
		}
	}
	return NULL;
}

/* Which ranks share the file. */
static void print_bundle(const struct kedge__set *set, uint32_t rank)
{
	uint32_t first = kedge__bundle_first(rank, set->bundle);

	printf("bundle    ranks %u to %u (group_size %u), this one from byte %llu on\n", first,
	       first + KEDGE__MIN(set->bundle, set->ranks - first) - 1, set->bundle,
	       (unsigned long long)set->parts[rank].start);
}

/* Whose files the segment has. */
static void print_group(const struct kedge__grouping *g, uint32_t segment)
{
	uint64_t first = (uint64_t)g->numbers[segment] * g->size;

	kedge__print(stdout, "group     ranks %llu to %llu%s (group size %u), by names: %s\n",
		     (unsigned long long)first, (unsigned long long)(first + g->size - 1),
		     segment ? "" : ", and files of no rank", g->size, g->pattern);
}

static void print_shield(const struct kedge__shield *shield)
{
	char scheme[KEDGE__PROTECTION_TEXT];

	printf("protect   %s, by ranks",
	       kedge__protection_text(shield->scheme, shield->members, shield->parity, scheme));
	for (uint32_t i = 0; i < shield->members; i++)
		kedge__print(stdout, "%s %u (%s)", i ? "," : "", shield->at[i].rank, shield->at[i].node);
	printf("\n");
}

static void print_facts(const struct kedge__show *s)
{
	const struct kedge__segment *seg = s->segment;
	const struct kedge__segment_summary *sum = &seg->summary;
	const struct kedge__set_part *part = &s->set->parts[seg->header.rank];
	const char *reducer = kedge__reducer_name((enum kedge__reducer_id)sum->reducer);
	uint64_t refers = kedge__set_refers(s->set);
	char a[KEDGE__TEXT_ROOM], b[KEDGE__TEXT_ROOM];

	printf("version   %llu of %s, %s %u of %u\n", (unsigned long long)s->version, s->place.name,
	       s->set->grouping ? "segment" : "rank", seg->header.rank, seg->header.ranks);
	printf("time      %s\n", kedge__text_time(seg->header.created_ns, a));
	if (s->set->note)
		kedge__print(stdout, "note      %s\n", s->set->note);
	if (s->set->labels)
		printf("labels    %s\n", s->set->labels);
	kedge__print(stdout, "segment   %s, generation %u\n", seg->path, part->generation);
	if (part->bundle)
		print_bundle(s->set, seg->header.rank);
	if (s->set->grouping)
		print_group(s->set->grouping, seg->header.rank);
	printf("reducer   %s", reducer ? reducer : "?");
	if (sum->chunk)
		printf(", chunks of %u bytes", sum->chunk);
	if (refers == KEDGE__NO_VERSION)
		printf("\nparent    none\n");
	else
		printf("\nparent    %llu\n", (unsigned long long)refers);
	if (seg->base != KEDGE__NO_VERSION)
		printf("base      %llu\n", (unsigned long long)seg->base);
	printf("lineage  ");
	for (size_t i = 0; i < s->lineage_count; i++)
		printf(" %llu", (unsigned long long)s->lineage[i]);
	printf("%s\n", s->lineage ? "" : " incomplete: a version is missing");
	printf("raw       %s in %s\n", kedge__text_bytes(sum->raw_bytes, a),
	       kedge__text_count(seg->region_count, "region", "regions", b));
	printf("literal   %s\n", kedge__text_bytes(sum->literal_bytes, a));
	printf("stored    %s, %s of it metadata\n", kedge__text_bytes(part->file_bytes, a),
	       kedge__text_bytes(part->metadata_bytes, b));
	if (s->shield.path)
		print_shield(&s->shield.shield);
}

static void print_shape(const struct kedge__region_record *r, struct kedge__table *t)
{
	char shape[32 * KEDGE_MAX_DIMS] = "-";
	size_t at = 0;

	for (uint32_t i = 0; i < r->ndims && i < KEDGE_MAX_DIMS; i++)
		at += (size_t)snprintf(shape + at, sizeof(shape) - at, "%s%llu", i ? " x " : "",
				       (unsigned long long)r->dims[i]);
	kedge__table_add(t, "%s", shape);
}

static void print_regions(const struct kedge__show *s)
{
	struct kedge__table t;

	kedge__table_init(&t, "rrlll");
	kedge__table_add(&t, "SLOT");
	kedge__table_add(&t, "BYTES");
	kedge__table_add(&t, "TYPE");
	kedge__table_add(&t, "SHAPE");
	kedge__table_add(&t, "REGION");
	for (size_t i = 0; i < s->segment->region_count; i++) {
		const struct kedge__region_record *r = &s->segment->regions[i];
		char *name = kedge__text_name(r->name);

		kedge__table_add(&t, "%u", r->slot);
		kedge__table_add(&t, "%llu", (unsigned long long)r->bytes);
		kedge__table_add(&t, "%s", kedge__type_name(r->type));
		print_shape(r, &t);
		kedge__table_add(&t, "%s", name);
		kedge__free(name);
	}
	putchar('\n');
	kedge__table_print(&t, stdout);
}

static void print_counts(const struct kedge__show *s)
{
	struct kedge__table t;

	kedge__table_init(&t, "lrr");
	kedge__table_add(&t, "EXTENTS");
	kedge__table_add(&t, "COUNT");
	kedge__table_add(&t, "BYTES");
	for (int k = 0; k < 4; k++) {
		kedge__table_add(&t, "%s", kedge__show_kind((enum kedge__extent_kind)k));
		kedge__table_add(&t, "%llu", (unsigned long long)s->extents[k].count);
		kedge__table_add(&t, "%llu", (unsigned long long)s->extents[k].bytes);
	}
	putchar('\n');
	kedge__table_print(&t, stdout);
	kedge__table_init(&t, "lrrr");
	kedge__table_add(&t, "BLOCKS");
	kedge__table_add(&t, "COUNT");
	kedge__table_add(&t, "RAW");
	kedge__table_add(&t, "STORED");
	for (size_t c = 0; c < s->codec_count; c++) {
		kedge__table_add(&t, "%s", s->codecs[c].name);
		kedge__table_add(&t, "%llu", (unsigned long long)s->codecs[c].count);
		kedge__table_add(&t, "%llu", (unsigned long long)s->codecs[c].raw);
		kedge__table_add(&t, "%llu", (unsigned long long)s->codecs[c].stored);
	}
	putchar('\n');
	kedge__table_print(&t, stdout);
}

static void packing_begin(struct kedge__table *t, const char *what)
{
	kedge__table_init(t, "lrrrll");
	kedge__table_add(t, "PACKED");
	kedge__table_add(t, "RATIO");
	kedge__table_add(t, "BLOCKS");
	kedge__table_add(t, "AS IS");
	kedge__table_add(t, "%s", what);
	kedge__table_add(t, "WHY");
}

static void packing_add(struct kedge__table *t, const struct kedge__show_packed *p, const char *of)
{
	char chain[KEDGE__CODEC_NAME_ROOM], why[KEDGE__SHOW_WHY_ROOM];
	char *name;

	if (!p->blocks)
		return;
	name = kedge__text_name(of);
	kedge__table_add(t, "%s", kedge__show_chain(p, chain));
	kedge__table_add(t, "%.2f", (double)p->raw / (double)p->stored);
	kedge__table_add(t, "%llu", (unsigned long long)p->blocks);
	kedge__table_add(t, "%.0f %%", 100.0 * (double)p->as_is / (double)p->blocks);
	kedge__table_add(t, "%s", name);
	kedge__table_add(t, "%s", kedge__show_why(p->told, why));
	kedge__free(name);
}

static void print_packing(const struct kedge__show *s)
{
	const struct kedge__segment *seg = s->segment;
	char why[KEDGE__SHOW_WHY_ROOM];
	struct kedge__table t;

	if (!seg->block_count)
		return;
	packing_begin(&t, "REGION");
	for (size_t i = 0; i < seg->region_count; i++)
		packing_add(&t, &s->packed[i], seg->regions[i].name);
	putchar('\n');
	kedge__table_print(&t, stdout);
	if (!seg->classes.count)
		return;
	packing_begin(&t, "CLASS");
	for (size_t i = 0; i < seg->classes.count; i++)
		packing_add(&t, &s->packed[seg->region_count + i], seg->classes.at[i].name);
	printf("\narranged  %s\n\n", kedge__show_scheme(&seg->classes, why));
	kedge__table_print(&t, stdout);
}

static void add_source(const struct kedge__show *s, const struct kedge__extent *e, struct kedge__table *t)
{
	switch (e->kind) {
	case KEDGE__EXTENT_LITERAL:
		kedge__table_add(t, "literal at %llu", (unsigned long long)e->src);
		break;
	case KEDGE__EXTENT_PARENT:
		kedge__table_add(t, "same place in %llu", (unsigned long long)s->segment->summary.parent);
		break;
	case KEDGE__EXTENT_COPY:
		kedge__table_add(t, "slot %llu offset %llu of %llu", (unsigned long long)(e->src >> KEDGE__SLOT_SHIFT),
				 (unsigned long long)(e->src & (KEDGE__SLOT_BYTES - 1)),
				 (unsigned long long)e->version);
		break;
	case KEDGE__EXTENT_FILL:
		kedge__table_add(t, "fill 0x%016llx", (unsigned long long)e->src);
		break;
	}
}

static void print_extents(const struct kedge__show *s)
{
	struct kedge__extent_reader map = kedge__extents_of_map(&s->segment->map);
	struct kedge__extent e;
	struct kedge__table t;

	kedge__table_init(&t, "rrll");
	kedge__table_add(&t, "OFFSET");
	kedge__table_add(&t, "LENGTH");
	kedge__table_add(&t, "FROM");
	kedge__table_add(&t, "REGION");
	while (kedge__extent_next(&map, &e)) {
		uint64_t offset = e.addr;
		const struct kedge__region_record *r = kedge__show_region_at(s, e.addr, &offset);
		char *name = kedge__text_name(r ? r->name : "?");

		kedge__table_add(&t, "%llu", (unsigned long long)offset);
		kedge__table_add(&t, "%llu", (unsigned long long)e.len);
		add_source(s, &e, &t);
		kedge__table_add(&t, "%s", name);
		kedge__free(name);
	}
	putchar('\n');
	kedge__table_print(&t, stdout);
}

static void print_blocks(const struct kedge__show *s)
{
	struct kedge__table t;

	kedge__table_init(&t, "rrrrlrl");
	kedge__table_add(&t, "BLOCK");
	kedge__table_add(&t, "FILE OFFSET");
	kedge__table_add(&t, "RAW");
	kedge__table_add(&t, "STORED");
	kedge__table_add(&t, "CODEC");
	kedge__table_add(&t, "LITERAL");
	kedge__table_add(&t, "REGION");
	for (size_t i = 0; i < s->segment->block_count; i++) {
		const struct kedge__block_record *b = &s->segment->blocks[i];
		char a[KEDGE__CODEC_NAME_ROOM];
		char *name =
		    kedge__text_name(b->region < s->segment->region_count ? s->segment->regions[b->region].name : "?");

		kedge__table_add(&t, "%zu", i);
		kedge__table_add(&t, "%llu", (unsigned long long)b->offset);
		kedge__table_add(&t, "%u", b->raw_bytes);
		kedge__table_add(&t, "%u", b->stored_bytes);
		kedge__table_add(&t, "%s", kedge__codec_describe(b->codec, b->param, a));
		kedge__table_add(&t, "%llu", (unsigned long long)b->position);
		kedge__table_add(&t, "%s", name);
		kedge__free(name);
	}
	putchar('\n');
	kedge__table_print(&t, stdout);
}

static void print_meanings(void)
{
	static const char *const words[][2] = {
	    {"rank", "one of the processes of a parallel job; each has a segment of its own"},
	    {"segment",
	     "the file with one rank's part of a version; its generation grows when the version is rewritten"},
	    {"group", "the segment has the files of several ranks: kedge save --ranks"},
	    {"bundle", "the segment shares its file with those of other ranks: group_size in kedge.conf(5)"},
	    {"reducer", "how it was found out what changed: full, basic, list, tree or rex; see kedge.conf(5)"},
	    {"chunk", "the unit in which changes are found"},
	    {"parent", "the version that this one is stored as changes to; none: it needs no other"},
	    {"lineage", "all versions that a restore of this one reads; 'kedge coalesce' makes them fewer"},
	    {"base", "the version whose bytes blocks are compressed against"},
	    {"raw", "bytes of the regions, as the program has them"},
	    {"literal",
	     "new bytes, before compression; everything else is a reference to bytes that are stored already"},
	    {"stored", "bytes of the file; metadata is the part that says where things are"},
	    {"region", "a named array or file that was saved; its slot is its place in the image"},
	    {"extents",
	     "where the bytes of the image are: in this segment (literal), at the same place of the parent,"},
	    {"", "elsewhere in an older version (copy), or a repeated pattern such as zeros (fill)"},
	    {"blocks", "pieces of literals, compressed and checked as a unit, by codec"},
	    {"arranged", "how the contents of files were put together, and why: aggregate in kedge.conf(5)"},
	    {"class",
	     "variables of files that belong together; (rest) is what files have beside them, (all) entire files"},
	    {"packed", "how the blocks of a region were compressed; AS IS: share of blocks that no codec made smaller"},
	};

	putchar('\n');
	for (size_t i = 0; i < KEDGE__COUNT(words); i++)
		printf("%-9s %s\n", words[i][0], words[i][1]);
}

void kedge__show_text(const struct kedge__show *s)
{
	print_facts(s);
	print_regions(s);
	print_counts(s);
	print_packing(s);
	if (s->list_extents)
		print_extents(s);
	if (s->list_blocks)
		print_blocks(s);
	if (s->why)
		print_meanings();
}
