/* SPDX-License-Identifier: BSD-3-Clause */
/* restore_tree: which files of a version are restored, and what is not made of bytes. */
#include "restore.h"
#include "tool_keyed.h"
#include "tool_walk.h"
#include <sys/stat.h>

/* ------------------------------------------------------------------ what is wanted */

void kedge__wanted_init(struct kedge__wanted *w, char *const *words, size_t count)
{
	w->words = words;
	w->count = count;
	w->rank = UINT64_MAX;
	w->names = kedge__calloc(count + 1, sizeof(*w->names));
	w->found = kedge__calloc(count + 1, sizeof(*w->found));
	if (!w->names || !w->found)
		kedge__tool_no_memory();
	for (size_t i = 0; i < count; i++)
		w->names[i] = kedge__save_region_name(words[i]);
}

void kedge__wanted_done(struct kedge__wanted *w)
{
	for (size_t i = 0; w->names && i < w->count; i++)
		kedge__free(w->names[i]);
	kedge__free(w->names);
	kedge__free(w->found);
}

static bool fits(const struct kedge__wanted *w, size_t i, const char *name, bool directory)
{
	const char *wanted = w->names[i];
	size_t n = wanted ? strlen(wanted) : 0;

	if (strcmp(w->words[i], name) == 0 || !wanted)
		return true;
	if (strncmp(wanted, name, n) == 0 && (name[n] == '\0' || name[n] == '/'))
		return true;
	return strpbrk(w->words[i], "*?[") && kedge__pattern_fits(w->words[i], name, directory);
}

bool kedge__wanted_some(const struct kedge__wanted *w)
{
	return w->count || (w->grouping && w->rank != UINT64_MAX);
}

static bool fits_rank(const struct kedge__wanted *w, const char *name)
{
	uint64_t rank;

	if (!w->grouping || w->rank == UINT64_MAX)
		return true;
	return kedge__rank_of(w->grouping->pattern, name, &rank) == KEDGE__RANK_PRESENT && rank == w->rank;
}

bool kedge__wanted_fits(struct kedge__wanted *w, const char *name, bool directory)
{
	bool wanted = w->count == 0;

	if (!fits_rank(w, name))
		return false;
	w->of_rank++;
	for (size_t i = 0; i < w->count; i++)
		if (fits(w, i, name, directory))
			wanted = w->found[i] = true;
	return wanted;
}

/* ------------------------------------------------------------------ the tree */

static size_t index_of(const struct kedge__restore_tree *t, const char *name)
{
	const struct kedge__tree_entry *e = kedge__tree_find(&t->tree, name);

	return e ? (size_t)(e - t->tree.list.at) : SIZE_MAX;
}

/* The directories that a file is in, so that they become what they were, too. */
static void choose_parents(struct kedge__restore_tree *t, size_t i)
{
	char *name = kedge__strdup(t->tree.list.at[i].name), *slash;

	if (!name)
		kedge__tool_no_memory();
	while ((slash = strrchr(name, '/'))) {
		size_t parent;

		*slash = '\0';
		parent = index_of(t, name);
		if (parent != SIZE_MAX && t->chosen[parent])
			break;
		if (parent != SIZE_MAX)
			t->chosen[parent] = true;
	}
	kedge__free(name);
}

/* A link whose file is not restored takes its bytes, and other links to it are links to that one. */
static void choose_stand_ins(struct kedge__restore_tree *t)
{
	for (size_t i = 0; i < t->tree.list.count; i++) {
		const struct kedge__tree_entry *e = &t->tree.list.at[i];
		size_t file = t->chosen[i] && e->kind == KEDGE__TREE_HARDLINK ? index_of(t, e->target) : SIZE_MAX;

		if (file != SIZE_MAX && !t->chosen[file] && t->stands_for[file] == SIZE_MAX)
			t->stands_for[file] = i;
	}
}

void kedge__restore_tree_choose(struct kedge__restore_tree *t, struct kedge__wanted *w)
{
	size_t n = t->tree.list.count;

	t->chosen = kedge__calloc(n + 1, sizeof(*t->chosen));
	t->stands_for = kedge__calloc(n + 1, sizeof(*t->stands_for));
	if (!t->chosen || !t->stands_for)
		kedge__tool_no_memory();
	for (size_t i = 0; i < n; i++) {
		const struct kedge__tree_entry *e = &t->tree.list.at[i];

		t->stands_for[i] = SIZE_MAX;
		t->chosen[i] = kedge__wanted_fits(w, e->name, e->kind == KEDGE__TREE_DIRECTORY);
	}
	for (size_t i = 0; kedge__wanted_some(w) && i < n; i++)
		if (t->chosen[i])
			choose_parents(t, i);
	choose_stand_ins(t);
}

void kedge__restore_tree_done(struct kedge__restore_tree *t)
{
	kedge__tree_done(&t->tree);
	kedge__free(t->chosen);
	kedge__free(t->stands_for);
	*t = (struct kedge__restore_tree){0};
}

const struct kedge__tree_entry *kedge__restore_tree_output(const struct kedge__restore_tree *t, const char *name)
{
	size_t i = index_of(t, name);

	if (i == SIZE_MAX)
		return NULL;
	if (t->chosen[i])
		return &t->tree.list.at[i];
	return t->stands_for[i] == SIZE_MAX ? NULL : &t->tree.list.at[t->stands_for[i]];
}

static struct kedge__output_spec spec_of(const struct kedge__tree_entry *e, int64_t rank)
{
	return (struct kedge__output_spec){.rank = rank, .name = e->name, .entry = e};
}

int kedge__restore_tree_directories(const struct kedge__restore_tree *t, struct kedge__outputs *o, int64_t rank,
				    struct kedge__error *err)
{
	int rc = 0;

	for (size_t i = 0; !rc && i < t->tree.list.count; i++) {
		const struct kedge__output_spec spec = spec_of(&t->tree.list.at[i], rank);

		if (t->chosen[i] && spec.entry->kind == KEDGE__TREE_DIRECTORY)
			rc = kedge__outputs_directory(o, &spec, err);
	}
	return rc;
}

static int link_add(const struct kedge__restore_tree *t, size_t i, struct kedge__outputs *o, int64_t rank,
		    struct kedge__error *err)
{
	const struct kedge__output_spec spec = spec_of(&t->tree.list.at[i], rank);
	size_t file = index_of(t, spec.entry->target);

	if (file == SIZE_MAX || t->tree.list.at[file].kind != KEDGE__TREE_FILE)
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "'%s' is a link to '%s', which is not a file",
					spec.name, spec.entry->target);
	if (t->chosen[file])
		return kedge__outputs_link(o, &spec, spec.entry->target, err);
	if (t->stands_for[file] == i)
		return 0;
	return kedge__outputs_link(o, &spec, t->tree.list.at[t->stands_for[file]].name, err);
}

int kedge__restore_tree_links(const struct kedge__restore_tree *t, struct kedge__outputs *o, int64_t rank,
			      struct kedge__error *err)
{
	int rc = 0;

	for (size_t i = 0; !rc && i < t->tree.list.count; i++) {
		const struct kedge__output_spec spec = spec_of(&t->tree.list.at[i], rank);

		if (!t->chosen[i] || spec.entry->kind == KEDGE__TREE_DIRECTORY || spec.entry->kind == KEDGE__TREE_FILE)
			continue;
		rc = spec.entry->kind == KEDGE__TREE_HARDLINK ? link_add(t, i, o, rank, err)
							      : kedge__outputs_node(o, &spec, err);
	}
	return rc;
}
