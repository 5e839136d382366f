/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * save_groups: which segment a file goes to. Files of ranks that follow each other are together; what belongs to no
 * rank is with the first of them; and other names of a file are where it is.
 */
#include "save_files.h"
#include "tool_keyed.h"
#include <stdlib.h>

struct numbers {
	KEDGE__ARRAY(uint32_t) list;
};

static int by_number(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

static size_t index_of(const struct kedge__save_set *s, const char *name)
{
	size_t i;

	KEDGE__PARTITION_POINT(i, s->walk.found.count, strcmp(s->walk.found.at[i].entry.name, name) < 0);
	return i < s->walk.found.count && strcmp(s->walk.found.at[i].entry.name, name) == 0 ? i : SIZE_MAX;
}

/* The name of a file, as a pattern has to fit it. */
static const char *example(const struct kedge__save_set *s)
{
	for (size_t i = 0; i < s->walk.found.count; i++)
		if (s->walk.found.at[i].entry.kind == KEDGE__TREE_FILE)
			return s->walk.found.at[i].entry.name;
	return s->walk.found.at[0].entry.name;
}

/* The groups that have files, each once, in order. */
static int find_groups(const struct kedge__save_set *s, const char *pattern, uint64_t size, struct numbers *n,
		       struct kedge__error *err)
{
	size_t kept = 0;

	for (size_t i = 0; i < s->walk.found.count; i++) {
		const struct kedge__tree_entry *e = &s->walk.found.at[i].entry;
		uint64_t rank;
		enum kedge__rank_found found = kedge__rank_of(pattern, e->name, &rank);

		if (found == KEDGE__RANK_TOO_LARGE)
			return kedge__error_set(err, KEDGE_E_ARG, 0,
						"'%s' fits --ranks '%s' with a number that is too large for a rank",
						e->name, pattern);
		if (found == KEDGE__RANK_ABSENT || e->kind == KEDGE__TREE_DIRECTORY)
			continue;
		if (!kedge__array_push(&n->list, (uint32_t)(rank / size)))
			kedge__tool_no_memory();
	}
	if (!n->list.count)
		return kedge__error_set(
		    err, KEDGE_E_ARG, 0,
		    "no file fits --ranks '%s': one is called '%s'; which part of the names is the rank?", pattern,
		    example(s));
	qsort(n->list.at, n->list.count, sizeof(*n->list.at), by_number);
	for (size_t i = 0; i < n->list.count; i++)
		if (!kept || n->list.at[kept - 1] != n->list.at[i])
			n->list.at[kept++] = n->list.at[i];
	n->list.count = kept;
	if (kept > KEDGE__SAVE_GROUPS_MOST)
		return kedge__error_set(err, KEDGE_E_ARG, 0,
					"there are files of %zu groups of ranks, and at most %d fit into a version; "
					"use a larger --group-size",
					kept, KEDGE__SAVE_GROUPS_MOST);
	return 0;
}

/* By its name; false: that has no rank, or there are no files of its group. */
static bool part_of(const struct kedge__grouping *g, const struct kedge__found *f, uint32_t *part)
{
	uint64_t rank;

	return kedge__rank_of(g->pattern, f->entry.name, &rank) == KEDGE__RANK_PRESENT &&
	       kedge__grouping_segment(g, rank, part);
}

/* Names of one file in several groups: each group has to have it. */
static void be_file(struct kedge__found *f, const struct kedge__found *file)
{
	kedge__free(f->entry.target);
	f->entry.target = NULL;
	f->entry.kind = KEDGE__TREE_FILE;
	f->entry.flags = file->entry.flags;
	f->entry.size = file->entry.size;
	f->entry.inode = file->entry.inode;
	f->entry.mtime_ns = file->entry.mtime_ns;
	f->entry.ctime_ns = file->entry.ctime_ns;
	f->device = file->device;
}

struct stand_in { /* a file that stands for another in its part */
	size_t file, index;
};

typedef KEDGE__ARRAY(struct stand_in) stand_ins;

/* Link I to FILE, which is in another part: a file, or a link to the first that became one. */
static void stand_in(struct kedge__save_set *s, size_t i, size_t file, stand_ins *list)
{
	struct kedge__found *at = s->walk.found.at;
	char *target;

	for (size_t k = 0; k < list->count; k++) {
		const struct stand_in *in = &list->at[k];

		if (in->file != file || at[in->index].part != at[i].part)
			continue;
		target = kedge__strdup(at[in->index].entry.name);
		if (!target)
			kedge__tool_no_memory();
		kedge__free(at[i].entry.target);
		at[i].entry.target = target;
		return;
	}
	be_file(&at[i], &at[file]);
	if (!kedge__array_push(list, ((struct stand_in){file, i})))
		kedge__tool_no_memory();
}

/* A file is where one of its names belongs, and the others are, too, unless they belong elsewhere. */
static void place_links(struct kedge__save_set *s, bool *placed)
{
	struct kedge__found *at = s->walk.found.at;
	stand_ins list = {0};

	for (size_t i = 0; i < s->walk.found.count; i++) {
		size_t file = at[i].entry.kind == KEDGE__TREE_HARDLINK ? index_of(s, at[i].entry.target) : SIZE_MAX;

		if (file != SIZE_MAX && placed[i] && !placed[file]) {
			at[file].part = at[i].part;
			placed[file] = true;
		}
	}
	for (size_t i = 0; i < s->walk.found.count; i++) {
		size_t file = at[i].entry.kind == KEDGE__TREE_HARDLINK ? index_of(s, at[i].entry.target) : SIZE_MAX;

		if (file == SIZE_MAX)
			continue;
		if (placed[i] && at[i].part != at[file].part)
			stand_in(s, i, file, &list);
		else
			at[i].part = at[file].part;
	}
	kedge__array_done(&list);
}

static void give_parts(struct kedge__save_set *s)
{
	bool *placed = s->grouping ? kedge__calloc(s->walk.found.count + 1, sizeof(*placed)) : NULL;

	if (!s->grouping)
		return;
	if (!placed)
		kedge__tool_no_memory();
	for (size_t i = 0; i < s->walk.found.count; i++)
		placed[i] = part_of(s->grouping, &s->walk.found.at[i], &s->walk.found.at[i].part);
	place_links(s, placed);
	kedge__free(placed);
}

static int make_grouping(struct kedge__save_set *s, const char *pattern, uint64_t size, struct kedge__error *err)
{
	struct numbers n = {{0}};
	struct kedge__grouping found = {.size = (uint32_t)size, .pattern = (char *)pattern};
	int rc = find_groups(s, pattern, size, &n, err);

	found.numbers = n.list.at;
	found.count = (uint32_t)n.list.count;
	if (!rc) {
		s->grouping = kedge__grouping_copy(&found);
		rc = s->grouping ? 0 : kedge__error_nomem(err);
	}
	kedge__array_done(&n.list);
	return rc;
}

int kedge__save_set_group(struct kedge__save_set *s, const char *pattern, uint64_t size, struct kedge__error *err)
{
	int rc = pattern ? make_grouping(s, pattern, size, err) : 0;

	if (rc)
		return rc;
	s->part_count = s->grouping ? s->grouping->count : 1;
	s->parts = kedge__calloc(s->part_count, sizeof(*s->parts));
	if (!s->parts)
		kedge__tool_no_memory();
	for (uint32_t i = 0; i < s->part_count; i++)
		s->parts[i].before_version = KEDGE__NO_VERSION;
	give_parts(s);
	return 0;
}

/* The directories that entry I is in, as far as they were found. */
static void add_parents(const struct kedge__save_set *s, size_t i, bool *in)
{
	char *name = kedge__strdup(s->walk.found.at[i].entry.name), *slash;

	if (!name)
		kedge__tool_no_memory();
	while ((slash = strrchr(name, '/'))) {
		size_t parent;

		*slash = '\0';
		parent = index_of(s, name);
		if (parent != SIZE_MAX && in[parent])
			break;
		if (parent != SIZE_MAX)
			in[parent] = true;
	}
	kedge__free(name);
}

bool *kedge__save_set_members(const struct kedge__save_set *s, uint32_t part)
{
	bool *in = kedge__calloc(s->walk.found.count + 1, sizeof(*in));

	if (!in)
		kedge__tool_no_memory();
	for (size_t i = 0; i < s->walk.found.count; i++)
		in[i] = s->walk.found.at[i].part == part;
	for (size_t i = 0; s->part_count > 1 && i < s->walk.found.count; i++)
		if (s->walk.found.at[i].part == part)
			add_parents(s, i, in);
	return in;
}

struct kedge__save_part kedge__save_set_sum(const struct kedge__save_set *s)
{
	struct kedge__save_part sum = {.files = 0};

	for (uint32_t i = 0; i < s->part_count; i++) {
		const struct kedge__save_part *p = &s->parts[i];

		sum.files += p->files;
		sum.same += p->same;
		sum.equals += p->equals;
		sum.bytes += p->bytes;
		sum.lent += p->lent;
		sum.tree.count += p->tree.count;
	}
	return sum;
}
