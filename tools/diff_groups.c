/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * diff_groups: files of many ranks may be in other segments than they were. So names are compared first; then the pairs
 * of segments that have the same names.
 */
#include "diff.h"
#include "tool_keyed.h"
#include "tool_tree.h"
#include <stdlib.h>

struct place { /* of a file */
	char *name;
	uint64_t bytes;
	uint32_t segment;
};

struct side { /* a version */
	uint64_t version;
	const struct kedge__set *set;
	KEDGE__ARRAY(struct place) places; /* by name */
	struct kedge__tree tree;
};

struct grouped {
	struct kedge__diff_tool *tool;
	struct side a, b;
	bool *pairs; /* of segments that have names in common: of B in rows of A's */
	KEDGE__ARRAY(struct kedge__diff_region) regions;
};

bool kedge__diff_is_grouped(const struct kedge__set *a, const struct kedge__set *b)
{
	return (a->grouping || b->grouping) && (a->grouping || a->ranks == 1) && (b->grouping || b->ranks == 1);
}

/* ------------------------------------------------------------------ what there is */

static const char *pattern_of(const struct grouped *g)
{
	return g->a.set->grouping ? g->a.set->grouping->pattern : g->b.set->grouping->pattern;
}

static bool is_meant(const struct grouped *g, const char *name)
{
	uint64_t rank;

	if (strcmp(name, KEDGE__TREE_REGION) == 0)
		return false;
	return g->tool->rank == UINT64_MAX ||
	       (kedge__rank_of(pattern_of(g), name, &rank) == KEDGE__RANK_PRESENT && rank == g->tool->rank);
}

static int open_segment(const struct grouped *g, const struct side *s, uint32_t segment, struct kedge__lineage **l,
			struct kedge__error *err)
{
	const struct kedge__place *p = &g->tool->place;

	return kedge__lineage_open((struct kedge__catalog **)p->levels, p->level_count, s->version, segment, l, err);
}

static int read_segment(const struct grouped *g, struct side *s, uint32_t segment, struct kedge__error *err)
{
	struct kedge__lineage *l;
	struct kedge__tree tree = {0};
	bool present;
	int rc = open_segment(g, s, segment, &l, err);

	if (rc)
		return rc;
	for (size_t i = 0; i < kedge__lineage_top(l)->region_count; i++) {
		const struct kedge__region_record *r = &kedge__lineage_top(l)->regions[i];
		struct place place = {NULL, r->bytes, segment};

		if (!is_meant(g, r->name))
			continue;
		place.name = kedge__strdup(r->name);
		if (!place.name || !kedge__array_push(&s->places, place))
			kedge__tool_no_memory();
	}
	rc = kedge__tool_tree_read(l, g->tool->pool, kedge__job_settings_io(&g->tool->place.settings), &tree, &present,
				   NULL, err);
	if (!rc)
		kedge__tool_tree_join(&s->tree, &tree);
	kedge__tree_done(&tree);
	kedge__lineage_close(l);
	return rc;
}

static int by_name(const void *x, const void *y)
{
	return strcmp(((const struct place *)x)->name, ((const struct place *)y)->name);
}

/* Of a tree, what is not meant goes. */
static void narrow(const struct grouped *g, struct kedge__tree *tree)
{
	size_t kept = 0;

	for (size_t i = 0; i < tree->list.count; i++) {
		if (is_meant(g, tree->list.at[i].name))
			tree->list.at[kept++] = tree->list.at[i];
		else
			kedge__tree_entry_done(&tree->list.at[i]);
	}
	tree->list.count = kept;
}

static int read_side(const struct grouped *g, struct side *s, struct kedge__error *err)
{
	uint32_t first = 0, end = s->set->ranks;
	int rc = 0;

	if (g->tool->rank != UINT64_MAX && s->set->grouping && strcmp(s->set->grouping->pattern, pattern_of(g)) == 0) {
		if (!kedge__grouping_segment(s->set->grouping, g->tool->rank, &first))
			return 0;
		end = first + 1;
	}
	for (uint32_t i = first; i < end && !rc; i++)
		rc = read_segment(g, s, i, err);
	if (s->places.count)
		qsort(s->places.at, s->places.count, sizeof(*s->places.at), by_name);
	narrow(g, &s->tree);
	return rc;
}

static void side_done(struct side *s)
{
	for (size_t i = 0; i < s->places.count; i++)
		kedge__free(s->places.at[i].name);
	kedge__array_done(&s->places);
	kedge__tree_done(&s->tree);
}

/* ------------------------------------------------------------------ what differs */

static void add_region(struct grouped *g, const struct kedge__diff_region *r)
{
	if (!kedge__array_push(&g->regions, *r))
		kedge__tool_no_memory();
}

static void add_lone(struct grouped *g, const struct place *p, bool added)
{
	struct kedge__diff_region r = {.name = kedge__strdup(p->name),
				       .status = added ? KEDGE__DIFF_ADDED : KEDGE__DIFF_REMOVED,
				       .bytes_a = added ? 0 : p->bytes,
				       .bytes_b = added ? p->bytes : 0,
				       .changed_bytes = p->bytes,
				       .range_count = p->bytes > 0};

	r.ranges = p->bytes ? kedge__calloc(1, sizeof(*r.ranges)) : NULL;
	if (!r.name || (p->bytes && !r.ranges))
		kedge__tool_no_memory();
	if (p->bytes)
		r.ranges[0] = (struct kedge__range){0, p->bytes};
	add_region(g, &r);
}

static void match(struct grouped *g)
{
	for (size_t i = 0, j = 0; i < g->a.places.count || j < g->b.places.count;) {
		const struct place *x = i < g->a.places.count ? &g->a.places.at[i] : NULL;
		const struct place *y = j < g->b.places.count ? &g->b.places.at[j] : NULL;
		int order = !x ? 1 : !y ? -1 : by_name(x, y);

		if (order < 0)
			add_lone(g, x, false);
		else if (order > 0)
			add_lone(g, y, true);
		else
			g->pairs[(size_t)x->segment * g->b.set->ranks + y->segment] = true;
		i += order <= 0;
		j += order >= 0;
	}
}

static int compare_pair(struct grouped *g, uint32_t i, uint32_t j, struct kedge__error *err)
{
	struct kedge__lineage *a = NULL, *b = NULL;
	struct kedge__diff_region *regions = NULL;
	size_t count = 0;
	int rc = open_segment(g, &g->a, i, &a, err);

	if (!rc)
		rc = open_segment(g, &g->b, j, &b, err);
	if (!rc)
		rc = kedge__diff(a, b, g->tool->pool, NULL, NULL, &regions, &count, err);
	for (size_t k = 0; k < count; k++) {
		bool both = regions[k].status == KEDGE__DIFF_SAME || regions[k].status == KEDGE__DIFF_CHANGED;

		if (!both || !is_meant(g, regions[k].name))
			continue;
		add_region(g, &regions[k]);
		regions[k].name = NULL;
		regions[k].ranges = NULL;
	}
	kedge__diff_free(regions, count);
	kedge__lineage_close(a);
	kedge__lineage_close(b);
	return rc;
}

static int by_region(const void *x, const void *y)
{
	return strcmp(((const struct kedge__diff_region *)x)->name, ((const struct kedge__diff_region *)y)->name);
}

static int compare(struct grouped *g, struct kedge__error *err)
{
	int rc = 0;

	if (g->tool->rank != UINT64_MAX && !g->a.tree.list.count && !g->b.tree.list.count)
		return kedge__error_set(err, KEDGE_E_NOTFOUND, 0, "neither has files of rank %llu",
					(unsigned long long)g->tool->rank);
	match(g);
	for (uint32_t i = 0; i < g->a.set->ranks && !rc; i++)
		for (uint32_t j = 0; j < g->b.set->ranks && !rc; j++)
			if (g->pairs[(size_t)i * g->b.set->ranks + j])
				rc = compare_pair(g, i, j, err);
	if (g->regions.count)
		qsort(g->regions.at, g->regions.count, sizeof(*g->regions.at), by_region);
	return rc;
}

int kedge__diff_groups(struct kedge__diff_tool *d, const struct kedge__set *a, const struct kedge__set *b,
		       struct kedge__diff_rank *out, struct kedge__error *err)
{
	struct grouped g = {.tool = d, .a = {.version = d->a, .set = a}, .b = {.version = d->b, .set = b}};
	int rc = read_side(&g, &g.a, err);

	g.pairs = kedge__calloc((size_t)a->ranks * b->ranks, sizeof(*g.pairs));
	if (!g.pairs)
		kedge__tool_no_memory();
	if (!rc)
		rc = read_side(&g, &g.b, err);
	if (!rc)
		rc = compare(&g, err);
	out->regions = g.regions.at;
	out->count = g.regions.count;
	if (!rc)
		kedge__diff_trees(out, &g.a.tree, &g.b.tree);
	side_done(&g.a);
	side_done(&g.b);
	kedge__free(g.pairs);
	return rc;
}
