/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * watch_levels: which versions the levels have. A version that did not reach L2 because that was away goes there when
 * it is back; and what no level has, and no file in the directory either, need not be remembered.
 */
#include "watch.h"

void kedge__watch_levels_close(struct kedge__watch_levels *l)
{
	for (size_t i = 0; i < l->count; i++)
		kedge__catalog_close(l->at[i]);
	l->count = 0;
}

/* One that has no versions of NAME yet is none. */
int kedge__watch_levels_open(const struct kedge__watch *w, struct kedge__watch_levels *l, struct kedge__error *err)
{
	const char *paths[] = {w->l1, w->l2};

	*l = (struct kedge__watch_levels){.count = 0};
	for (size_t i = 0; i < KEDGE__COUNT(paths) && paths[i]; i++) {
		struct kedge__error problem = KEDGE__ERROR_INIT;
		int rc = kedge__catalog_open(paths[i], w->name, KEDGE__CATALOG_READ, &l->at[l->count], &problem);

		l->count += rc == 0;
		if (rc && rc != KEDGE_E_NOTFOUND) {
			kedge__error_move(err, &problem);
			kedge__watch_levels_close(l);
			return rc;
		}
		kedge__error_done(&problem);
	}
	return 0;
}

int kedge__watch_learn(struct kedge__watch *w, struct kedge__error *err)
{
	struct kedge__watch_levels l;
	int rc = kedge__watch_levels_open(w, &l, err);

	if (rc)
		return rc;
	for (size_t i = 0; i < l.count; i++)
		for (size_t k = 0; k < kedge__catalog_count(l.at[i]); k++) {
			const struct kedge__catalog_entry *e = kedge__catalog_at(l.at[i], k);
			uint64_t fingerprint;

			if (!e->problem.code && kedge__watch_note_parse(e->set.note, &fingerprint))
				kedge__watch_journal_learn(&w->journal, fingerprint, e->version);
		}
	kedge__watch_levels_close(&l);
	return 0;
}

/* ------------------------------------------------------------------ L2 that was away */

/* The newest intact version; false: there is none. */
static bool newest_of(const struct kedge__catalog *cat, uint64_t *version)
{
	for (size_t i = kedge__catalog_count(cat); i-- > 0;)
		if (!kedge__catalog_at(cat, i)->problem.code) {
			*version = kedge__catalog_at(cat, i)->version;
			return true;
		}
	return false;
}

/* The L2 that L1 belongs to is where it should be. */
static bool l2_is_there(const struct kedge__watch *w, const struct kedge__catalog *l1)
{
	struct kedge__tie tie = {.path = NULL};
	struct kedge__store_id id;
	bool there;

	if (kedge__tie_read(l1, &tie, NULL) != 0)
		return false;
	there = kedge__store_look(w->l2, &id, NULL) == KEDGE__SIGHT_STORE && kedge__store_id_equal(&id, &tie.id);
	kedge__tie_done(&tie);
	return there;
}

void kedge__watch_l2_look(struct kedge__watch *w)
{
	struct kedge__watch_levels l;
	uint64_t first, second = 0;

	w->behind = w->bring_failed = false;
	if (!w->l2 || !w->all_to_l2 || kedge__watch_levels_open(w, &l, NULL) != 0)
		return;
	if (l.count && newest_of(l.at[0], &first))
		w->behind = l.count < 2 || !newest_of(l.at[1], &second) || second < first;
	kedge__watch_levels_close(&l);
}

static int drain(const struct kedge__watch *w)
{
	char *argv[64] = {"drain", "--quiet", "-s", w->l1, "-n", (char *)w->name, "--to", w->l2};
	int argc = 8;

	for (size_t i = 0; i < w->sets.count && argc + 2 < (int)KEDGE__COUNT(argv); i++) {
		argv[argc++] = "--set";
		argv[argc++] = (char *)w->sets.at[i];
	}
	return kedge__tool_drain(argc, argv);
}

bool kedge__watch_l2_bring(struct kedge__watch *w)
{
	struct kedge__catalog *l1;
	bool there;

	if (!w->behind || kedge__catalog_open(w->l1, w->name, KEDGE__CATALOG_READ, &l1, NULL) != 0)
		return false;
	there = l2_is_there(w, l1);
	kedge__catalog_close(l1);
	if (!there)
		w->bring_failed = false;
	if (!there || w->bring_failed)
		return false;
	w->bring_failed = drain(w) != 0;
	kedge__tool_listen(w->usage.command, w->quiet);
	if (w->bring_failed)
		return false;
	w->behind = false;
	if (!w->quiet) {
		kedge__print(stdout, "L2 is back, and has what %s took without it\n", w->name);
		fflush(stdout);
	}
	return true;
}

/* ------------------------------------------------------------------ what need not be remembered */

struct memory {
	const struct kedge__watch_levels *levels;
	const struct kedge__watch_sets *sets;
};

static bool is_needed(void *ctx, const struct kedge__watch_known *k)
{
	const struct memory *m = ctx;

	for (size_t i = 0; i < m->sets->list.count; i++)
		if (m->sets->list.at[i].fingerprint == k->fingerprint)
			return true;
	for (size_t i = 0; i < m->levels->count; i++) {
		const struct kedge__catalog_entry *e = kedge__catalog_find(m->levels->at[i], k->version);
		uint64_t fingerprint;

		if (e && (e->problem.code ||
			  (kedge__watch_note_parse(e->set.note, &fingerprint) && fingerprint == k->fingerprint)))
			return true;
	}
	return k->state == KEDGE__WATCH_REMOVING;
}

void kedge__watch_prune(struct kedge__watch *w, const struct kedge__watch_sets *sets)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	struct kedge__watch_levels l;
	struct memory m = {&l, sets};

	if (!kedge__watch_journal_full(&w->journal) || kedge__watch_levels_open(w, &l, NULL) != 0)
		return;
	/* A level that is away may have what is not here. */
	if (l.count == (w->l2 ? 2 : 1) && kedge__watch_journal_prune(&w->journal, is_needed, &m, &err) != 0)
		kedge__tool_fail(w->usage.command, &err, "cannot shorten the journal of %s", w->name);
	kedge__error_done(&err);
	kedge__watch_levels_close(&l);
}
