/* SPDX-License-Identifier: BSD-3-Clause */
/* What happens to the files of a job between two of its lives, and what it means for the model. */
#include "store/store.h"
#include "walk.h"

#include <kedge/kedge.h>

#include <stdlib.h>

static struct model *model(struct walk *w)
{
	return &w->shared->model;
}

void first_level_path(const struct walk *w, int rank, char path[FILES_PATH])
{
	if (w->own_first)
		path_make(path, "%s/l1-%d", w->dir, rank);
	else
		path_make(path, "%s/l1", w->dir);
}

void second_level_path(const struct walk *w, char path[FILES_PATH])
{
	path_make(path, "%s/l2", w->dir);
}

static bool tied(const struct walk *w, bool copy);

static int firsts(const struct walk *w)
{
	return w->own_first ? w->ranks : 1;
}

/* ------------------------------------------------------------------ L1 */

void first_level_lost(struct walk *w)
{
	model(w)->torn = w->own_first;
	model_unsure(model(w), 0);
	w->shared->foreign[0] = false;
	w->shared->other = 0;
}

/* All of it, or the versions, as where old files are removed. */
static void lose(struct walk *w)
{
	int rank = (int)draw_below(&w->state, (uint64_t)firsts(w));
	bool all = draw_below(&w->state, 2) && !model(w)->second_away; /* L1 alone knows which one L2 is */
	char path[FILES_PATH];

	walk_say(w, "L1 of rank %d %s", rank, all ? "is lost" : "loses its versions");
	first_level_path(w, rank, path);
	if (all)
		tree_remove(path);
	else
		versions_remove(path);
	first_level_lost(w);
}

static void copy_path(const struct walk *w, int rank, char path[FILES_PATH])
{
	path_make(path, "%s/copy-%d", w->dir, rank);
}

static void copy_make(struct walk *w)
{
	char from[FILES_PATH], to[FILES_PATH];

	if (model_marked(model(w), 0))
		return;
	for (int r = 0; r < firsts(w); r++) {
		first_level_path(w, r, from);
		copy_path(w, r, to);
		if (access(from, F_OK) != 0)
			return;
		tree_remove(to);
		tree_copy(from, to);
	}
	walk_say(w, "L1 is copied");
	w->copied = model(w)->count;
	for (int i = 0; i < w->copied; i++)
		w->copied_sure[i] = model(w)->nodes[i].sure[0];
}

/* A disk that was thought lost, or an old image of it, of one rank or of all. */
static void copy_return(struct walk *w)
{
	struct model *m = model(w);
	bool all = draw_below(&w->state, 2) || firsts(w) == 1;
	int one = (int)draw_below(&w->state, (uint64_t)firsts(w));
	char from[FILES_PATH], to[FILES_PATH];

	if (m->second_away && !tied(w, true))
		return;
	for (int r = 0; r < firsts(w); r++) {
		if (!all && r != one)
			continue;
		copy_path(w, r, from);
		first_level_path(w, r, to);
		tree_remove(to);
		tree_copy(from, to);
	}
	walk_say(w, "an old L1 %s is put back", all ? "of all" : "of one");
	for (int i = 0; i < m->count; i++)
		m->nodes[i].sure[0] = i < w->copied && w->copied_sure[i] && (all || m->nodes[i].sure[0]);
	for (int i = 0; i < m->mark_count && all; i++)
		if (m->marks[i].level == 0)
			m->marks[i].version = NO_VERSION;
	m->returned = true;
	m->torn = !all;
	w->shared->foreign[0] = false;
	w->shared->other = 0;
}

static void old_disk(struct walk *w)
{
	if (w->copied != MODEL_NONE && draw_below(&w->state, 3))
		copy_return(w);
	else
		copy_make(w);
}

static void clone_disk(struct walk *w)
{
	char from[FILES_PATH], to[FILES_PATH];
	int i = (int)draw_below(&w->state, (uint64_t)firsts(w)), j = (int)draw_below(&w->state, (uint64_t)firsts(w));

	first_level_path(w, i, from);
	first_level_path(w, j, to);
	if (i == j || access(from, F_OK) != 0 || model_marked(model(w), 0))
		return;
	tree_remove(to);
	tree_copy(from, to);
	walk_say(w, "L1 of rank %d is a clone of rank %d's", j, i);
	first_level_lost(w);
}

/* ------------------------------------------------------------------ L2 */

enum { GONE, BARE, ANOTHER };

/* What each L1 remembers of L2 is there: who cannot know that L2 is away makes another one. */
static bool tied(const struct walk *w, bool copy)
{
	const struct model *m = &w->shared->model;
	char path[FILES_PATH], level[FILES_PATH];

	for (int r = 0; r < firsts(w); r++) {
		if (copy)
			copy_path(w, r, level);
		else
			first_level_path(w, r, level);
		path_make(path, "%.400s/job/l2", level);
		if (access(path, F_OK) != 0)
			return false;
		for (int i = 0; i < m->mark_count; i++)
			if (strcmp(m->marks[i].path, path) == 0)
				return false;
	}
	return true;
}

void second_away(struct walk *w, uint64_t how)
{
	struct kedge__catalog *cat;
	char path[FILES_PATH], aside[FILES_PATH];

	second_level_path(w, path);
	path_make(aside, "%.400s-aside", path);
	if (!tied(w, false) || rename(path, aside) != 0)
		return;
	model(w)->second_away = true;
	model(w)->instead = (int)how;
	if (how != GONE)
		REQUIRE(mkdir(path, 0700) == 0);
	if (how == ANOTHER) {
		REQUIRE(kedge__catalog_open(path, "job", KEDGE__CATALOG_CREATE, &cat, NULL) == 0);
		kedge__catalog_close(cat);
	}
	walk_say(w, " L2 goes away (%s)", how == GONE ? "nothing there" : how == BARE ? "empty" : "another");
}

static size_t entries(const char *path)
{
	DIR *d = opendir(path);
	size_t n = 0;

	if (!d)
		return 0;
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

void second_back(struct walk *w)
{
	char path[FILES_PATH], aside[FILES_PATH];
	size_t expected = model(w)->instead == BARE ? 2 : 0;

	second_level_path(w, path);
	path_make(aside, "%.400s-aside", path);
	if (model(w)->instead != ANOTHER && entries(path) != expected)
		walk_trouble(w, "something was made where L2 was not: %s", path);
	tree_remove(path);
	REQUIRE(rename(aside, path) == 0);
	model(w)->second_away = false;
	walk_say(w, " L2 comes back");
}

static void second(struct walk *w)
{
	if (!w->second_level)
		return;
	if (model(w)->second_away)
		second_back(w);
	else
		second_away(w, draw_below(&w->state, 3));
}

/* ------------------------------------------------------------------ files */

static struct {
	char paths[1024][FILES_PATH];
	size_t count;
} found;

static int note_file(const char *path, const struct stat *st, void *ctx)
{
	(void)ctx;
	if (S_ISREG(st->st_mode) && st->st_size > 0 && found.count < 1024 && !strstr(path, "/notes") &&
	    !strstr(path, "/job/l2"))
		path_make(found.paths[found.count++], "%s", path);
	return 0;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(a, b);
}

static int level_draw(struct walk *w, char path[FILES_PATH])
{
	bool second = w->second_level && !model(w)->second_away && draw_below(&w->state, 3) == 0;

	if (second)
		second_level_path(w, path);
	else
		first_level_path(w, (int)draw_below(&w->state, (uint64_t)firsts(w)), path);
	return second;
}

/* Alter a bit of some file of a level. */
static void flip(struct walk *w)
{
	char level[FILES_PATH];
	int which = level_draw(w, level);
	const char *path;
	struct stat st;
	uint64_t at;

	found.count = 0;
	(void)tree_each(level, note_file, NULL);
	if (!found.count)
		return;
	qsort(found.paths, found.count, sizeof(found.paths[0]), by_name);
	path = found.paths[draw_below(&w->state, found.count)];
	REQUIRE(stat(path, &st) == 0);
	at = draw_below(&w->state, (uint64_t)st.st_size);
	file_flip(path, at, (uint8_t)(1u << draw_below(&w->state, 8)));
	model_mark(model(w), which, path);
	w->shared->other = 0;
	walk_say(w, "a bit of byte %lld of %s is altered", (long long)at, path + strlen(w->dir));
}

static void foreign(struct walk *w)
{
	char level[FILES_PATH], path[FILES_PATH];

	for (int l = 0; l < 1 + w->second_level; l++) {
		if (l)
			second_level_path(w, level);
		else
			first_level_path(w, 0, level);
		path_make(path, "%.400s/job", level);
		if (access(path, F_OK) != 0 || !model_reaches(model(w), l))
			continue;
		path_make(path, "%.400s/job/notes.tmp", level);
		file_write(path, "mine", 4);
		w->shared->foreign[l] = true;
	}
	walk_say(w, "somebody's files are put there");
}

/* ------------------------------------------------------------------ what somebody at the command line may do */

/* What counts on that level is what its files say: a past that was left while it was away counts there, too. */
static bool one_past(const struct model *m, int level)
{
	for (int i = 0; i < m->count; i++) {
		if (m->nodes[i].sure[level] && !model_has(m, m->top, i))
			return false;
	}
	return m->top != MODEL_NONE;
}

/* VERSION is there, and belongs to the present history, as far as is known. */
static bool is_known(const struct model *m, int level, uint64_t version)
{
	for (int i = 0; i < m->count; i++)
		if (m->nodes[i].version == version && m->nodes[i].sure[level] && model_has(m, m->top, i))
			return true;
	return false;
}

/* Others that are there: a job that was killed had no time to remove what it had abandoned, and another level than that
 * of the later run does not know that it was. They count when it comes to how many are kept. */
static uint64_t others(const struct model *m, const struct kedge__catalog *cat, int level)
{
	uint64_t count = 0;

	for (size_t i = 0; i < kedge__catalog_count(cat); i++)
		count += !is_known(m, level, kedge__catalog_at(cat, i)->version);
	return count;
}

static void gc(struct walk *w, struct kedge__catalog *cat, int level)
{
	struct kedge__gc_report report = {0};
	uint64_t keep = 1 + draw_below(&w->state, 3), besides = others(model(w), cat, level);

	(void)kedge__gc(cat, keep, false, &report, NULL);
	kedge__gc_report_done(&report);
	if (one_past(model(w), level) && besides < keep)
		model_keep(model(w), level, model(w)->top, keep - besides);
	else
		model_unsure(model(w), level);
	walk_say(w, "gc of L%d, keep %llu", level + 1, (unsigned long long)keep);
}

static void coalesce(struct walk *w, struct kedge__catalog *cat, int level)
{
	struct kedge__coalesce_options options = {.block_bytes = 4096, .keep_old = draw_below(&w->state, 2)};
	struct kedge__coalesce_report merged;
	struct model *m = model(w);
	size_t i = draw_below(&w->state, kedge__catalog_count(cat));

	options.version = kedge__catalog_at(cat, i)->version;
	options.onto = i && draw_below(&w->state, 2);
	if (options.onto)
		options.parent = kedge__catalog_at(cat, draw_below(&w->state, i))->version;
	(void)kedge__coalesce(cat, NULL, &options, &merged, NULL);
	for (int n = 0; n < m->count && !options.keep_old; n++)
		if (m->nodes[n].version < options.version)
			m->nodes[n].sure[level] = false;
	walk_say(w, "coalescing of version %llu of L%d%s%s", (unsigned long long)options.version, level + 1,
		 options.keep_old ? ", the old stay" : "", options.onto ? ", onto another" : "");
}

static void tend(struct walk *w)
{
	struct kedge__catalog *cat;
	char path[FILES_PATH];
	int level = level_draw(w, path);

	if (level == 0 && w->own_first) /* what one directory of several has is nobody's to tend */
		return;
	if (kedge__catalog_open(path, "job", KEDGE__CATALOG_READ, &cat, NULL) != 0)
		return;
	if (draw_below(&w->state, 2))
		gc(w, cat, level);
	else if (kedge__catalog_count(cat))
		coalesce(w, cat, level);
	kedge__catalog_close(cat);
}

/* A start with another number of ranks. */
static void crowd(struct walk *w)
{
	if (w->ranks == 1 || model(w)->top == MODEL_NONE || model(w)->second_away || model(w)->mark_count)
		return;
	walk_say(w, "one rank instead of %d", w->ranks);
	if (guest_run(w, "crowd") != 0)
		walk_trouble(w, "one rank could go on from what %d ranks saved", w->ranks);
}

static const struct {
	void (*fn)(struct walk *w);
	unsigned weight;
} choices[] = {{lose, 10}, {old_disk, 16}, {clone_disk, 6}, {second, 14},
	       {flip, 10}, {foreign, 4},   {tend, 14},      {crowd, 4}};

void between(struct walk *w)
{
	uint64_t at = draw_below(&w->state, 122);

	if (model(w)->second_away && draw_below(&w->state, 3) == 0) {
		second_back(w);
		return;
	}
	for (size_t i = 0; i < sizeof(choices) / sizeof(*choices); i++) {
		if (at < choices[i].weight) {
			choices[i].fn(w);
			return;
		}
		at -= choices[i].weight;
	}
}
