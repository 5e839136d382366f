/* SPDX-License-Identifier: BSD-3-Clause */
#include "job/candidates.h"

#include "job/handle.h"

enum {
	FLAG_UNREAD = 1,  /* a level could not be looked at: what is not found may be there */
	FLAG_PROBLEM = 2, /* there are manifests that cannot be read */
};

/* ------------------------------------------------------------------ walking down */

static bool fits(const struct kedge__candidates *c, const struct kedge__catalog_entry *e)
{
	if (e->problem.code || e->set.ranks != (uint32_t)c->k->group.size)
		return false;
	if (c->version == KEDGE_NEWEST ? e->version > c->at_most : e->version != c->version)
		return false;
	return !c->run || kedge__history_has(c->run, &e->set);
}

/* The next entry of level L that may be tried; NULL: there is none. It is not passed yet. */
static const struct kedge__catalog_entry *peek(struct kedge__candidates *c, int l)
{
	const struct kedge__catalog *cat = c->k->levels.at[l].api;

	for (; c->left[l]; c->left[l]--) {
		const struct kedge__catalog_entry *e = kedge__catalog_at(cat, c->left[l] - 1);

		if (fits(c, e))
			return e;
		if (c->version != KEDGE_NEWEST && e->version < c->version)
			break;
	}
	c->left[l] = 0;
	return NULL;
}

static struct kedge__set_key key_of(const struct kedge__catalog_entry *e)
{
	return (struct kedge__set_key){e->version, e->image};
}

/* Versions descend; of two sets of one version the one of L1 comes first, and of two that are equal only that. */
static bool walk(struct kedge__candidates *c, struct kedge__set_key *key)
{
	const struct kedge__catalog_entry *a = peek(c, KEDGE__L1), *b = peek(c, KEDGE__L2);
	bool first = a && (!b || a->version >= b->version);

	if (!a && !b)
		return false;
	*key = key_of(first ? a : b);
	c->left[first ? KEDGE__L1 : KEDGE__L2]--;
	if (first && b && b->version == a->version && b->image == key->id)
		c->left[KEDGE__L2]--;
	return true;
}

/* Behind the last entry that may be meant. */
static void walk_begin(struct kedge__candidates *c, const struct kedge__run *run)
{
	c->run = run;
	for (int l = 0; l < KEDGE__LEVELS; l++) {
		const struct kedge__catalog *cat = c->k->levels.at[l].api;

		c->left[l] = cat ? kedge__catalog_count(cat) : 0;
		if (cat && c->version != KEDGE_NEWEST)
			c->left[l] = kedge__catalog_below(cat, c->version + 1);
	}
}

bool kedge__candidates_next(struct kedge__candidates *c, struct kedge__set_key *key)
{
	if (!c->listed)
		return walk(c, key);
	if (c->next == c->count)
		return false;
	*key = c->list[c->next++];
	return true;
}

void kedge__candidates_done(struct kedge__candidates *c)
{
	kedge__run_done(&c->present);
	kedge__free(c->list);
	c->list = NULL;
}

/* ------------------------------------------------------------------ why there may be none */

/* The newest set of another rank count, if it is newer than all that fit, is what the user means: say why it will not
 * do. */
static int ranks_check(const struct kedge__candidates *c, const struct kedge__set_key *newest, struct kedge__error *err)
{
	const kedge_t *k = c->k;

	for (int l = 0; l < KEDGE__LEVELS; l++) {
		const struct kedge__catalog *cat = k->levels.at[l].api;

		for (size_t i = cat ? kedge__catalog_count(cat) : 0; i; i--) {
			const struct kedge__catalog_entry *e = kedge__catalog_at(cat, i - 1);
			bool meant = c->version == KEDGE_NEWEST || e->version == c->version;

			if (newest && e->version <= newest->version)
				break;
			if (!e->problem.code && e->set.ranks != (uint32_t)k->group.size && meant &&
			    (!c->run || kedge__history_has(c->run, &e->set)))
				return kedge__error_set(
				    err, KEDGE_E_GROUP, 0, "version %llu of %s was saved by %u ranks; this job has %d",
				    (unsigned long long)e->version, k->name, (unsigned)e->set.ranks, k->group.size);
		}
	}
	return 0;
}

/* A manifest that cannot be read may be that of the newest version: it is passed over, but never silently. */
static int problems_report(const struct kedge__candidates *c, bool any, struct kedge__error *err)
{
	int rc = 0;

	for (int l = 0; l < KEDGE__LEVELS; l++) {
		const struct kedge__catalog *cat = c->k->levels.at[l].api;

		for (size_t i = cat && kedge__catalog_problems(cat) ? kedge__catalog_count(cat) : 0; i; i--) {
			const struct kedge__catalog_entry *e = kedge__catalog_at(cat, i - 1);

			if (!e->problem.code || (c->version != KEDGE_NEWEST && e->version != c->version))
				continue;
			kedge__log(KEDGE_LOG_WARNING, "skipping version %llu on L%d: %s",
				   (unsigned long long)e->version, l + 1, kedge__error_text(&e->problem));
			if (!any && !rc)
				rc = kedge__error_set(err, e->problem.code, 0, "%s", kedge__error_text(&e->problem));
		}
	}
	return rc;
}

static int nothing_found(const struct kedge__candidates *c, bool unread, struct kedge__error *err)
{
	kedge_t *k = c->k;

	if (unread)
		return kedge__versions_unread(k, err);
	if (c->version != KEDGE_NEWEST)
		return kedge__error_set(err, KEDGE_E_VERSION, 0, "version %llu of %s is not there on every rank",
					(unsigned long long)c->version, k->name);
	return kedge__error_set(err, KEDGE_E_NOTFOUND, 0, "there is no version of %s to restart from", k->name);
}

/* Some rank may have versions all the same, and a job that began afresh would give them up: say so on all ranks. */
static int nothing_common(struct kedge__candidates *c, bool had, bool unread, struct kedge__error *err)
{
	union kedge__msg msg = {.restart = {.after = had}};
	kedge_t *k = c->k;
	int rc;

	if (had)
		kedge__log(KEDGE_LOG_WARNING, "%s: rank %d has versions, but none that every rank has", k->name,
			   k->group.rank);
	rc = kedge__exchange(&k->channels.front, KEDGE__STEP_RESTART, c->version, 0, &msg, err);
	if (rc)
		return rc;
	c->lost = !unread && c->version == KEDGE_NEWEST && msg.restart.after;
	if (c->lost)
		return kedge__error_set(err, KEDGE_E_MISSING, 0,
					"some ranks have versions of %s, but no version is there on every rank: a node "
					"may be lost. This is not a fresh start; bring the node or L2 back, set "
					"begin_if_lost = yes, or call kedge_discard() with 0 to begin without them",
					k->name);
	return nothing_found(c, unread, err);
}

/* What the walk would give first, without passing it. */
static bool first_of(const struct kedge__candidates *c, struct kedge__set_key *key)
{
	struct kedge__candidates copy = *c;

	return walk(&copy, key);
}

/* ------------------------------------------------------------------ where ranks hold different versions */

/* All that the walk gives here, or as much as there is memory for. */
static int list_make(struct kedge__candidates *c, struct kedge__error *err)
{
	KEDGE__ARRAY(struct kedge__set_key) keys = {0};
	struct kedge__set_key key;
	int rc = 0;

	while (!rc && walk(c, &key)) {
		if (!kedge__array_push(&keys, key))
			rc = kedge__error_nomem(err);
	}
	if (rc) {
		kedge__array_done(&keys);
		return rc;
	}
	kedge__free(c->list);
	c->list = keys.at;
	c->count = keys.count;
	return 0;
}

/* *HAD: this rank has some. */
static int list_agree(struct kedge__candidates *c, const struct kedge__run *run, bool *had, struct kedge__error *err)
{
	kedge_t *k = c->k;
	struct kedge__set_key newest;
	int rc;

	walk_begin(c, run);
	*had = first_of(c, &newest);
	rc = ranks_check(c, *had ? &newest : NULL, err);
	if (!rc)
		rc = problems_report(c, *had, err);
	c->listed = true;
	if (!rc)
		rc = list_make(c, err);
	rc = kedge__agree(&k->channels.front, KEDGE__STEP_RESTART, c->version, rc, NULL, err);
	return rc ? rc : kedge__common(&k->channels.front, c->list, &c->count, err);
}

/* ------------------------------------------------------------------ all of it */

/* An abandoned version is found only by whoever asks for it by its number, if there is no other one of that number. */
static int any_run(const struct kedge__candidates *c)
{
	kedge__log(KEDGE_LOG_WARNING, "%s: version %llu belongs to a run that was abandoned", c->k->name,
		   (unsigned long long)c->version);
	return 0;
}

static int find_listed(struct kedge__candidates *c, bool unread, struct kedge__error *err)
{
	bool had = false;
	int rc = list_agree(c, &c->present, &had, err);

	if (!rc && !c->count && c->version != KEDGE_NEWEST) {
		rc = list_agree(c, NULL, &had, err);
		if (!rc && c->count)
			rc = any_run(c);
	}
	return rc || c->count ? rc : nothing_common(c, had, unread, err);
}

/* All ranks come to the same answer by themselves. */
static int find_same(struct kedge__candidates *c, struct kedge__error *err)
{
	struct kedge__set_key newest;
	bool found;
	int rc;

	walk_begin(c, &c->present);
	found = first_of(c, &newest);
	rc = ranks_check(c, found ? &newest : NULL, err);
	if (!rc && !found && c->version != KEDGE_NEWEST) {
		walk_begin(c, NULL);
		found = first_of(c, &newest);
		if (found)
			rc = any_run(c);
	}
	return rc || found ? rc : nothing_found(c, false, err);
}

static uint64_t held_digest(const kedge_t *k, uint64_t *flags)
{
	uint64_t sum = 0;

	for (int l = 0; l < KEDGE__LEVELS; l++) {
		const struct kedge__catalog *cat = k->levels.at[l].api;

		if (!cat)
			continue;
		sum = sum * UINT64_C(0x9e3779b97f4a7c15) + kedge__catalog_digest(cat);
		*flags |= kedge__catalog_problems(cat) ? FLAG_PROBLEM : 0;
	}
	return sum;
}

int kedge__candidates_find(kedge_t *k, uint64_t version, uint64_t at_most, struct kedge__candidates *c,
			   struct kedge__error *err)
{
	struct kedge__catalog *levels[KEDGE__LEVELS];
	union kedge__msg msg = {.restart = {.after = 0}};
	size_t n = kedge__levels_list(k, false, levels);
	int between[2], rc = kedge__versions_scan(k, err);

	*c = (struct kedge__candidates){.k = k, .version = version, .at_most = at_most};
	msg.head.flags = k->versions.unread ? FLAG_UNREAD : 0;
	kedge__msg_same_set(&msg.restart.held, k->group.rank, held_digest(k, &msg.head.flags));
	rc = kedge__run_present(k, KEDGE__STEP_RESTART, version, levels, n, rc, &msg, &c->present, err);
	if (rc)
		return rc;
	if (!msg.head.flags && !msg.restart.run.differ && kedge__msg_same_is(&msg.restart.held, between))
		rc = find_same(c, err);
	else
		rc = find_listed(c, msg.head.flags & FLAG_UNREAD, err);
	if (!rc && kedge__l2_wanted(k) && !k->levels.at[KEDGE__L2].api && k->group.rank == 0)
		kedge__log(KEDGE_LOG_WARNING, "%s: there may be newer versions on L2, which is not used: %s", k->name,
			   kedge__error_text(&k->l2.refused));
	return rc;
}
