/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The judge reads back every version of the present history, on all ranks, by way of the layers below the handle: it
 * changes nothing in the store. What it finds is held against the model, and `kedge verify` against what it finds.
 */
#include "restore/restore.h"
#include "store/store.h"
#include "walk.h"

#include <stdlib.h>

struct court {
	struct walk *w;
	struct model *m;
	struct kedge__catalog *cats[WALK_RANKS][2]; /* NULL: not there */
	struct kedge__run run;
	bool any;                   /* there is a run */
	bool found[MODEL_NODES];    /* can be restored on all ranks */
	bool intact[2][MODEL_NODES]; /* from this level alone */
	char why[MODEL_NODES][160]; /* not, of the versions that are listed, by number modulo their room */
	struct memory *memory;
};

static void court_open(struct court *c)
{
	char path[FILES_PATH];

	for (int r = 0; r < c->w->ranks; r++) {
		first_level_path(c->w, r, path);
		(void)kedge__catalog_open(path, "job", KEDGE__CATALOG_READ, &c->cats[r][0], NULL);
		second_level_path(c->w, path);
		if (c->w->second_level && !c->m->second_away)
			(void)kedge__catalog_open(path, "job", KEDGE__CATALOG_READ, &c->cats[r][1], NULL);
	}
}

static void court_close(struct court *c)
{
	for (int r = 0; r < c->w->ranks; r++) {
		kedge__catalog_close(c->cats[r][0]);
		kedge__catalog_close(c->cats[r][1]);
	}
	kedge__run_done(&c->run);
	memory_free(c->memory);
}

/* The run that counts, of all that any rank can see. */
static void find_run(struct court *c)
{
	struct kedge__catalog *levels[2 * WALK_RANKS];
	const struct kedge__set *head;
	size_t n = 0;

	for (int r = 0; r < c->w->ranks; r++)
		for (int l = 0; l < 2; l++)
			if (c->cats[r][l])
				levels[n++] = c->cats[r][l];
	head = kedge__history_head(levels, n);
	c->any = head && kedge__run_copy(&head->run, &c->run, NULL) == 0;
	c->m->epoch = head ? head->run.epoch : 0;
}

/* ------------------------------------------------------------------ one version */

static int target_find(struct memory *m, const struct kedge__region_record *r, struct kedge__restore_target *t)
{
	if (strcmp(r->name, "tag") == 0 && r->bytes == sizeof(m->tag)) {
		t->data = &m->tag;
		return 0;
	}
	for (size_t i = 0; i < MEMORY_AREAS; i++) {
		if (strcmp(r->name, memory_names[i]) == 0 && r->bytes <= MEMORY_ROOM) {
			m->areas[i].bytes = r->bytes;
			t->data = m->areas[i].at;
			return 0;
		}
	}
	return KEDGE_E_MISMATCH;
}

static int fill(struct kedge__lineage *l, struct memory *m, struct kedge__error *err)
{
	const struct kedge__segment *top = kedge__lineage_top(l);
	struct kedge__restore_target targets[MEMORY_AREAS + 1];
	int rc = top->region_count <= MEMORY_AREAS + 1 ? 0 : KEDGE_E_MISMATCH;

	for (size_t i = 0; i < MEMORY_AREAS; i++)
		m->areas[i].bytes = 0;
	for (size_t i = 0; i < top->region_count && !rc; i++) {
		targets[i] = (struct kedge__restore_target){.region = i};
		rc = target_find(m, &top->regions[i], &targets[i]);
	}
	if (rc)
		return kedge__error_set(err, rc, 0, "regions that nobody protected");
	return kedge__restore_fill(l, NULL, (struct kedge__io){0}, targets, top->region_count, NULL, NULL, NULL, err);
}

static int restore(struct kedge__catalog *const *levels, size_t n, const struct kedge__set *set, int rank,
		   struct memory *m, struct kedge__error *err)
{
	struct kedge__lineage *l;
	int rc = kedge__lineage_open(levels, n, set->version, (uint32_t)rank, &l, err);

	if (rc)
		return rc;
	if (!kedge__digest_equal(kedge__lineage_top(l)->summary.image_id, set->parts[rank].image_id))
		rc = kedge__error_set(err, KEDGE_E_DAMAGED, 0, "the segment is of another set");
	if (!rc)
		rc = fill(l, m, err);
	kedge__lineage_close(l);
	return rc;
}

static const struct kedge__set *set_of(const struct court *c, struct kedge__catalog *cat, uint64_t version)
{
	const struct kedge__catalog_entry *e = cat ? kedge__catalog_find(cat, version) : NULL;

	return e && !e->problem.code && e->set.ranks == (uint32_t)c->w->ranks && kedge__history_has(&c->run, &e->set)
		   ? &e->set
		   : NULL;
}

/* From level ONLY, or, with -1, as a restart takes it: levels that have the very set first. */
static int restore_rank(struct court *c, uint64_t version, int rank, int only, uint64_t *epoch,
			struct kedge__error *err)
{
	struct kedge__catalog *levels[2];
	const struct kedge__set *set = NULL;
	size_t n = 0;

	for (int pass = 0; pass < 2; pass++) {
		for (int l = 0; l < 2; l++) {
			const struct kedge__set *s = set_of(c, c->cats[rank][l], version);

			if (!c->cats[rank][l] || (s != NULL) != (pass == 0) || (only >= 0 && only != l))
				continue;
			levels[n++] = c->cats[rank][l];
			set = set ? set : s;
		}
	}
	if (!set)
		return kedge__error_set(err, KEDGE_E_NOTFOUND, 0, "rank %d does not have it", rank);
	*epoch = set->run.epoch;
	return restore(levels, n, set, rank, c->memory, err);
}

static bool same(struct court *c, uint64_t version, int rank)
{
	const struct memory_tag *tag = &c->memory->tag;
	struct node *node;

	if (tag->node >= (uint64_t)c->m->count || tag->rank != (uint64_t)rank || tag->version != version) {
		walk_trouble(c->w, "version %llu, rank %d: these are bytes of version %llu, rank %llu",
			     (unsigned long long)version, rank, (unsigned long long)tag->version,
			     (unsigned long long)tag->rank);
		return false;
	}
	node = &c->m->nodes[tag->node];
	for (size_t i = 0; i < MEMORY_AREAS; i++) {
		uint64_t digest = memory_digest(c->memory, i);

		if (node->racing && i == MEMORY_AREAS - 1 && !node->digest[rank][i])
			node->digest[rank][i] = digest;
		if (node->digest[rank][i] == digest)
			continue;
		walk_trouble(c->w, "version %llu (node %llu), rank %d: region %s is not what it was",
			     (unsigned long long)version, (unsigned long long)tag->node, rank, memory_names[i]);
		return false;
	}
	return true;
}

/* Restore it on all ranks. *NODE: which it is, as far as any rank can say; *INTACT: all can. False: wrong bytes. */
static bool look_at(struct court *c, uint64_t version, int only, int *node, bool *intact)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	uint64_t epoch = 0;

	*node = MODEL_NONE;
	*intact = true;
	for (int r = 0; r < c->w->ranks; r++) {
		if (restore_rank(c, version, r, only, &epoch, &err) != 0) {
			snprintf(c->why[version % MODEL_NODES], sizeof(c->why[0]), "rank %d: %s", r,
				 kedge__error_text(&err));
			kedge__error_done(&err);
			*intact = false;
			continue;
		}
		if (!same(c, version, r))
			return false;
		if (*node != MODEL_NONE && *node != (int)c->memory->tag.node && *intact) {
			walk_trouble(c->w, "version %llu: rank %d has node %llu, those before it node %d",
				     (unsigned long long)version, r, (unsigned long long)c->memory->tag.node, *node);
			return false;
		}
		*node = (int)c->memory->tag.node;
		c->m->nodes[*node].epoch = epoch;
	}
	return true;
}

static bool look(struct court *c, uint64_t version)
{
	bool intact, any = false;
	int node = MODEL_NONE;

	for (int l = 0; l < 2; l++) {
		if (!c->cats[0][l])
			continue;
		if (!look_at(c, version, l, &node, &intact))
			return false;
		if (intact)
			c->intact[l][node] = true;
		any = any || intact;
	}
	intact = any;
	if (!look_at(c, version, -1, &node, &intact))
		return false;
	c->m->shadow = c->m->shadow || !intact;
	if (node == MODEL_NONE)
		node = model_guess(c->m, version, c->m->base);
	if (node != MODEL_NONE)
		c->m->base = node;
	if (!intact)
		return true;
	c->found[node] = true;
	c->m->list[c->m->listed++] = node;
	c->m->top = node;
	return true;
}

/* The least version above AFTER (NO_VERSION: of all) that belongs to the history, or cannot be read. */
static uint64_t next_listed(const struct court *c, uint64_t after, bool *problem)
{
	uint64_t least = NO_VERSION;

	for (int r = 0; r < c->w->ranks; r++) {
		for (int l = 0; l < 2; l++) {
			struct kedge__catalog *cat = c->cats[r][l];

			for (size_t i = 0; cat && i < kedge__catalog_count(cat); i++) {
				const struct kedge__catalog_entry *e = kedge__catalog_at(cat, i);

				if ((after != NO_VERSION && e->version <= after) || e->version >= least ||
				    !(e->problem.code || kedge__history_has(&c->run, &e->set)))
					continue;
				least = e->version;
				*problem = e->problem.code;
			}
		}
	}
	return least;
}

/* ------------------------------------------------------------------ against the model */

static bool closure_has(struct kedge__catalog *cat, uint64_t version, uint64_t wanted)
{
	uint64_t *list;
	size_t count;
	bool has = false;

	if (kedge__catalog_closure(cat, version, &list, &count, NULL) != 0)
		return true; /* some manifest is damaged */
	for (size_t i = 0; i < count; i++)
		has = has || list[i] == wanted;
	kedge__free(list);
	return has;
}

/* A bit was altered of something that the version needs there. */
static bool excused(const struct court *c, int level, uint64_t version)
{
	for (int i = 0; i < c->m->mark_count; i++) {
		const struct mark *mark = &c->m->marks[i];

		if (mark->level != level || mark->version == NO_VERSION || access(mark->path, F_OK) != 0)
			continue;
		for (int r = 0; r < c->w->ranks; r++) {
			if (!c->cats[r][level] || closure_has(c->cats[r][level], version, mark->version))
				return true;
		}
	}
	return false;
}

/* keep, or gc, could let it go, since so many newer ones were there: they still are, or were left in the last life. */
static bool trimmed(const struct court *c, int level, int node)
{
	uint64_t newer = 0;

	if (!c->m->nodes[node].trim[level])
		return false;
	for (int i = 0; i < c->m->count; i++) {
		const struct node *n = &c->m->nodes[i];

		if (i != node && n->version > c->m->nodes[node].version &&
		    (c->intact[level][i] || n->was[level] || (i >= c->m->first && !model_has(c->m, c->m->top, i))))
			newer++;
	}
	return newer >= c->m->nodes[node].trim[level];
}

static bool is_due(const struct court *c, int node)
{
	const struct node *n = &c->m->nodes[node];

	for (int l = 0; l < 2; l++) {
		if (n->sure[l] && model_reaches(c->m, l) && !excused(c, l, n->version) && !trimmed(c, l, node))
			return true;
	}
	return false;
}

/* What is intact on a level must be found there from now on. */
static void remember(struct court *c)
{
	for (int i = 0; i < c->m->count; i++) {
		for (int l = 0; l < 2; l++) {
			struct node *n = &c->m->nodes[i];

			if (!model_reaches(c->m, l))
				continue;
			n->sure[l] = c->intact[l][i] || (n->sure[l] && !trimmed(c, l, i));
			n->trim[l] = 0;
			n->was[l] = false;
		}
	}
}

static bool lost(struct court *c, int node, const char *what)
{
	const struct node *n = &c->m->nodes[node];

	walk_trouble(c->w, "version %llu (node %d, sure on%s%s) %s: %s; the newest is version %llu (node %d)",
		     (unsigned long long)n->version, node, n->sure[0] ? " L1" : "", n->sure[1] ? " L2" : "", what,
		     c->why[n->version % MODEL_NODES],
		     c->m->top == MODEL_NONE ? 0 : (unsigned long long)c->m->nodes[c->m->top].version, c->m->top);
	return false;
}

/* A later run, that of BY, went on without NODE. */
static bool abandoned(const struct model *m, int node, int by)
{
	return by != MODEL_NONE && !model_has(m, by, node) && m->nodes[by].run != m->nodes[node].run &&
	       model_later(m, by, node);
}

/* What must be there is, and the newest of what is there is none that was abandoned. */
static bool compare(struct court *c)
{
	struct model *m = c->m;
	int newest = MODEL_NONE;
	bool left;

	for (int i = 0; i < m->count; i++) {
		if (is_due(c, i) && (newest == MODEL_NONE || model_later(m, i, newest)))
			newest = i;
	}
	if (newest == MODEL_NONE)
		return true;
	left = abandoned(m, newest, m->base); /* by what cannot be restored itself, perhaps */
	if (!left && m->top == MODEL_NONE)
		return lost(c, newest, "is lost");
	if (!left && !model_has(m, m->top, newest) && !abandoned(m, newest, m->top))
		return lost(c, newest, "does not count any more");
	for (int i = 0; i < m->count; i++) {
		if (model_has(m, m->top, i) && is_due(c, i) && !c->found[i])
			return lost(c, i, "is lost");
	}
	return true;
}

/* One past, and nothing in it that was discarded. */
static bool past(struct court *c)
{
	for (int i = 0; i < c->m->listed; i++) {
		int node = c->m->list[i];

		if (!model_has(c->m, c->m->top, node))
			return lost(c, node, "is of a past that was abandoned, and is listed");
		if (c->m->nodes[node].gone && !c->m->returned)
			return lost(c, node, "was discarded, and is there");
	}
	return true;
}

/* ------------------------------------------------------------------ kedge verify */

static bool verify(struct court *c, struct kedge__catalog *cat, int level)
{
	struct kedge__verify_report report = {0};
	struct kedge__error err = KEDGE__ERROR_INIT;
	bool fine = kedge__verify(cat, NULL, KEDGE_NEWEST, NULL, NULL, NULL, &report, &err) == 0;

	if (!fine)
		walk_trouble(c->w, "verify of L%d: %s", level + 1, kedge__error_text(&err));
	for (size_t i = 0; fine && i < kedge__catalog_count(cat); i++) {
		const struct kedge__catalog_entry *e = kedge__catalog_at(cat, i);
		bool told = false, is = false;

		if (e->problem.code)
			continue;
		for (size_t j = 0; j < report.versions_lost; j++)
			told = told || report.lost[j] == e->version;
		for (uint32_t r = 0; r < e->set.ranks && r < WALK_RANKS && !is; r++) {
			kedge__error_done(&err);
			is = restore(&cat, 1, &e->set, (int)r, c->memory, &err) != 0;
		}
		fine = told == is;
		if (!fine)
			walk_trouble(c->w, "verify of L%d says that version %llu is %s, and it is %s: %s", level + 1,
				     (unsigned long long)e->version, told ? "lost" : "intact", is ? "lost" : "intact",
				     kedge__error_text(&err));
	}
	kedge__error_done(&err);
	kedge__verify_report_done(&report);
	return fine;
}

/* Files that are not ours. */
static bool guests_stay(struct court *c)
{
	char level[FILES_PATH], path[FILES_PATH + 32];

	for (int l = 0; l < 1 + c->w->second_level; l++) {
		if (l && c->m->second_away)
			continue;
		if (l)
			second_level_path(c->w, level);
		else
			first_level_path(c->w, 0, level);
		if (!c->w->shared->foreign[l])
			continue;
		snprintf(path, sizeof(path), "%s/job/notes.tmp", level);
		if (access(path, F_OK) == 0)
			continue;
		walk_trouble(c->w, "%s is gone", path);
		return false;
	}
	return true;
}

static void half_published(struct model *m)
{
	for (int i = 0; i < m->count && m->half != MODEL_NONE; i++) {
		if (!model_has(m, m->nodes[m->half].parent, i))
			m->nodes[i].sure[0] = m->nodes[i].sure[1] = false;
	}
	m->half = MODEL_NONE;
}

static bool hear(struct court *c)
{
	uint64_t version = NO_VERSION;
	bool fine = true, problem;

	find_run(c);
	half_published(c->m);
	while (fine && (version = next_listed(c, version, &problem)) != NO_VERSION) {
		c->m->top_number = version;
		if (c->any)
			fine = look(c, version);
	}
	fine = fine && compare(c) && past(c) && guests_stay(c);
	if (fine && !c->w->own_first && c->cats[0][0])
		fine = verify(c, c->cats[0][0], 0);
	if (fine && c->cats[0][1])
		fine = verify(c, c->cats[0][1], 1);
	if (fine && c->m->top != MODEL_NONE)
		model_published(c->m, c->m->top);
	if (fine)
		remember(c);
	return fine;
}

bool judge(struct walk *w)
{
	struct court *c = calloc(1, sizeof(*c));
	struct model *m = &w->shared->model;
	bool fine;

	if (!c)
		abort();
	m->top = m->base = MODEL_NONE;
	m->shadow = false;
	m->listed = 0;
	m->top_number = NO_VERSION;
	c->w = w;
	c->m = m;
	c->memory = memory_new(1, 1);
	court_open(c);
	fine = hear(c);
	court_close(c);
	free(c);
	return fine;
}
