/*
 * Whether L2 is the one that belongs to the job, and the same for all ranks. A file system that is not mounted looks
 * like a directory in which nothing was ever saved; versions that go there are lost with the node. So L1 remembers
 * which store is its L2 (the tie), nobody makes a store before all ranks have looked, and all must see what rank 0
 * writes. What does not fit costs L2 alone: the job goes on with L1, and looks again at later checkpoints.
 */
#include "job/handle.h"

#include <stdio.h>
#include <unistd.h>

enum { UNTIED, TIED, TIED_UNKNOWN }; /* the last: the tie cannot be read */
enum choice { CHOICE_USE, CHOICE_MAKE, CHOICE_REFUSE };

/* What a rank sees of L2, and what its L1 says of it. */
struct view {
	struct kedge__say say;
	struct kedge__store_id id, tie;
	uint64_t nonce;
	uint32_t sight, tied, accept, unused;
	char host[64], path[256], text[160];
};

/* ------------------------------------------------------------------ refusing */

static void level_close(struct kedge__job_level *level)
{
	kedge__catalog_close(level->api);
	kedge__catalog_close(level->flush);
	kedge__catalog_close(level->write);
	*level = (struct kedge__job_level){0};
}

/* A full or read-only L2 takes no versions, but those that it has are there. */
static void open_to_read(kedge_t *k)
{
	struct kedge__job_level *l2 = &k->level[KEDGE__L2];
	struct kedge__error err = KEDGE__ERROR_INIT;

	if (kedge__catalog_open(k->set.l2, k->name, KEDGE__CATALOG_READ, &l2->api, &err)) {
		l2->api = NULL;
		kedge__log(KEDGE_LOG_WARNING, "%s: L2 cannot be read either: %s", k->name, kedge__error_text(&err));
	} else {
		kedge__catalog_pace(l2->api, &k->reads);
	}
	kedge__error_done(&err);
}

/* WHY, taken over, is told once for as long as it stays the same. */
static void refuse(kedge_t *k, int rc, struct kedge__error *why)
{
	bool told = k->l2_refused.code && strcmp(kedge__error_text(&k->l2_refused), kedge__error_text(why)) == 0;

	level_close(&k->level[KEDGE__L2]);
	kedge__error_done(&k->l2_refused);
	kedge__error_move(&k->l2_refused, why);
	k->l2_refused.code = rc; /* also if there was no memory to say why */
	if (!told)
		kedge__log(KEDGE_LOG_ERROR, "%s: L2 is not used, versions stay on L1 alone: %s", k->name,
			   kedge__error_text(&k->l2_refused));
}

/* ------------------------------------------------------------------ looking */

static void tie_look(kedge_t *k, struct view *own)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	struct kedge__tie tie;
	int rc = kedge__tie_read(k->level[KEDGE__L1].write, &tie, &err);

	if (!rc) {
		own->tied = TIED;
		own->tie = tie.id;
		snprintf(own->path, sizeof(own->path), "%s", tie.path);
		kedge__tie_done(&tie);
	} else if (rc != KEDGE_E_NOTFOUND) {
		own->tied = TIED_UNKNOWN;
		snprintf(own->path, sizeof(own->path), "%s", k->set.l2);
		kedge__log(KEDGE_LOG_WARNING, "which L2 belongs to this L1 cannot be read: %s",
			   kedge__error_text(&err));
	}
	kedge__error_done(&err);
}

static void view_make(kedge_t *k, struct view *own)
{
	struct kedge__error err = KEDGE__ERROR_INIT;

	own->sight = kedge__store_look(k->set.l2, &own->id, &err);
	if (own->sight == KEDGE__SIGHT_ERROR)
		snprintf(own->text, sizeof(own->text), "%s", kedge__error_text(&err));
	k->l2_sight = own->sight;
	k->l2_seen = own->id;
	own->say.code = err.code == KEDGE_E_NOMEM ? err.code : 0;
	kedge__error_done(&err);
	tie_look(k, own);
	own->accept = k->set.l2_accept;
	if (gethostname(own->host, sizeof(own->host) - 1) != 0)
		snprintf(own->host, sizeof(own->host), "an unknown host");
	if (!own->say.code)
		own->say.code = kedge__nonce_draw(&own->nonce, NULL);
}

/* All ranks' views, until the next message. */
static int views_gather(kedge_t *k, uint64_t turn, const struct view **all, struct kedge__error *err)
{
	struct view *own;
	void *slot, *gathered;
	int rc = kedge__channel_begin(&k->front, sizeof(*own), &slot, err);

	if (rc)
		return rc;
	own = slot;
	view_make(k, own);
	kedge__say_set(&own->say, KEDGE__STEP_LEVEL, turn, own->say.code, NULL);
	rc = kedge__channel_gather(&k->front, sizeof(*own), &gathered, err);
	if (!rc)
		rc = kedge__say_judge(&k->front, gathered, sizeof(*own), err);
	if (rc == KEDGE_E_NOMEM)
		(void)kedge__error_nomem(err);
	*all = gathered;
	return rc;
}

/* ------------------------------------------------------------------ judging what all see */

struct id_text {
	char at[33];
};

static struct id_text id_text(const struct kedge__store_id *id)
{
	struct id_text t;

	for (size_t i = 0; i < sizeof(id->at); i++)
		snprintf(t.at + 2 * i, 3, "%02x", id->at[i]);
	return t;
}

static bool is_store(const struct view *v)
{
	return v->sight == KEDGE__SIGHT_STORE || v->sight == KEDGE__SIGHT_DAMAGED;
}

/* An id that is not known contradicts nothing. */
static bool ids_clash(bool known_a, const struct kedge__store_id *a, bool known_b, const struct kedge__store_id *b)
{
	return known_a && known_b && !kedge__store_id_equal(a, b);
}

static const struct view *find_sight(const struct view *all, int n, bool store)
{
	for (int r = 0; r < n; r++) {
		if (is_store(&all[r]) == store)
			return &all[r];
	}
	return NULL;
}

/* KEDGE__SIGHT_STORE by all ranks, of one id, or KEDGE__SIGHT_NOTHING by all; else what is wrong is in ERR. */
static int sights_judge(const kedge_t *k, const struct view *all, enum kedge__sight *sight, struct kedge__error *err)
{
	int n = k->group.size;
	const struct view *with = find_sight(all, n, true), *without = find_sight(all, n, false), *known = NULL;

	for (int r = 0; r < n; r++) {
		if (all[r].sight == KEDGE__SIGHT_ERROR)
			return kedge__error_set(err, KEDGE_E_STATE, 0, "rank %d on %s: %s", r, all[r].host,
						all[r].text);
		if (all[r].sight != KEDGE__SIGHT_STORE)
			continue;
		known = known ? known : &all[r];
		if (ids_clash(true, &known->id, true, &all[r].id))
			return kedge__error_set(
			    err, KEDGE_E_STATE, 0,
			    "at %s rank %d on %s sees store %s, rank %d on %s store %s; L2 has to be one directory "
			    "that all ranks see",
			    k->set.l2, (int)(known - all), known->host, id_text(&known->id).at, r, all[r].host,
			    id_text(&all[r].id).at);
	}
	if (with && without)
		return kedge__error_set(
		    err, KEDGE_E_MISSING, 0,
		    "at %s rank %d on %s sees %s, but rank %d on %s sees %s; mount it on every node", k->set.l2,
		    (int)(with - all), with->host, kedge__sight_text((enum kedge__sight)with->sight),
		    (int)(without - all), without->host, kedge__sight_text((enum kedge__sight)without->sight));
	*sight = with ? KEDGE__SIGHT_STORE : KEDGE__SIGHT_NOTHING;
	return 0;
}

#define HOW_TO_ACCEPT "if that one is gone for good, set l2_accept = yes for one run"

/* What L1 remembers must be what there is, unless the user says that it is not any more. */
static int ties_judge(const kedge_t *k, const struct view *all, enum kedge__sight sight, struct kedge__error *err)
{
	bool accept = true;

	for (int r = 0; r < k->group.size; r++)
		accept = accept && all[r].accept;
	for (int r = 0; r < k->group.size && !accept; r++) {
		const struct view *v = &all[r];

		if (v->tied != UNTIED && sight == KEDGE__SIGHT_NOTHING)
			return kedge__error_set(
			    err, KEDGE_E_MISSING, 0,
			    "at %s there is %s, but L1 of rank %d on %s belongs to L2 %s (store %s): mount "
			    "it; " HOW_TO_ACCEPT,
			    k->set.l2, kedge__sight_text((enum kedge__sight)v->sight), r, v->host, v->path,
			    v->tied == TIED ? id_text(&v->tie).at : "not known");
		for (int s = 0; s < k->group.size; s++) {
			if (ids_clash(v->tied == TIED, &v->tie, all[s].sight == KEDGE__SIGHT_STORE, &all[s].id))
				return kedge__error_set(err, KEDGE_E_STATE, 0,
							"%s is store %s, but L1 of rank %d on %s belongs to L2 %s "
							"(store %s): mount that one; " HOW_TO_ACCEPT,
							k->set.l2, id_text(&all[s].id).at, r, v->host, v->path,
							id_text(&v->tie).at);
		}
	}
	return 0;
}

static enum choice choose(const kedge_t *k, const struct view *all, struct kedge__error *why)
{
	enum kedge__sight sight;

	if (sights_judge(k, all, &sight, why) || ties_judge(k, all, sight, why))
		return CHOICE_REFUSE;
	return sight == KEDGE__SIGHT_STORE ? CHOICE_USE : CHOICE_MAKE;
}

/* ------------------------------------------------------------------ taking it into use */

static int make_store(const kedge_t *k, struct kedge__error *err)
{
	struct kedge__catalog *cat;
	int rc;

	if (k->group.rank != 0)
		return 0;
	rc = kedge__catalog_open(k->set.l2, k->name, k->set.init ? KEDGE__CATALOG_INIT : KEDGE__CATALOG_CREATE, &cat,
				 err);
	if (!rc)
		kedge__catalog_close(cat);
	return rc;
}

/* A job that dies before its turn for L2 comes must not start counting from nothing each time. */
static uint64_t versions_behind(const kedge_t *k)
{
	const struct kedge__catalog *l1 = k->level[KEDGE__L1].write, *l2 = k->level[KEDGE__L2].write;
	size_t n = kedge__catalog_count(l2);
	uint64_t behind = 0;

	for (size_t i = 0; i < kedge__catalog_count(l1); i++)
		behind += !n || kedge__catalog_at(l1, i)->version > kedge__catalog_at(l2, n - 1)->version;
	return behind;
}

/* Rank 0 owns it, and leaves a mark for the others to see. The pin keeps the mark from being swept. */
static int lead(kedge_t *k, uint64_t nonce, bool *pinned, struct kedge__error *err)
{
	struct kedge__job_level *l2 = &k->level[KEDGE__L2];
	int rc = kedge__level_own(k, l2, err);

	if (!rc)
		rc = kedge__catalog_pin(l2->write, err);
	*pinned = !rc;
	return rc ? rc : kedge__probe_write(l2->write, nonce, err);
}

static int mark_look(kedge_t *k, uint64_t nonce, struct kedge__error *err)
{
	struct kedge__catalog *cat = k->level[KEDGE__L2].write;
	bool seen = false;
	int rc = kedge__probe_look(cat, nonce, &seen, err);

	if (!rc && !seen)
		rc = kedge__error_set(err, KEDGE_E_STATE, 0,
				      "what rank 0 writes to L2 is not seen in %s: L2 has to be one directory that all "
				      "ranks see",
				      k->set.l2);
	return rc;
}

/* *READABLE: if it cannot be used, then only because nothing can be written there. */
static int use(kedge_t *k, uint64_t nonce, uint64_t *readable, struct kedge__error *err)
{
	struct kedge__job_level *l2 = &k->level[KEDGE__L2];
	bool leads = k->group.rank == 0, pinned = false;
	uint64_t count = 0; /* only rank 0's counts */
	int rc = kedge__level_open(k, k->set.l2, l2, err);

	l2->leads = leads;
	l2->whole = true;
	if (!rc && leads)
		rc = lead(k, nonce, &pinned, err);
	*readable = rc == KEDGE_E_NOSPACE || rc == KEDGE_E_ACCESS;
	rc = kedge__agree(&k->front, KEDGE__STEP_LEVEL, 2, rc, readable, err);
	if (!rc)
		rc = mark_look(k, nonce, err);
	if (!rc && leads)
		count = versions_behind(k) << 1 | !kedge__catalog_count(l2->write);
	rc = kedge__agree(&k->front, KEDGE__STEP_LEVEL, 3, rc, &count, err);
	if (pinned) {
		kedge__probe_remove(l2->write, nonce);
		kedge__catalog_unpin(l2->write);
	}
	if (rc)
		return rc;
	l2->on = true;
	kedge__levels_turn_set(k, count >> 1, count & 1);
	return 0;
}

void kedge__l2_tie(kedge_t *k)
{
	const struct kedge__job_level *l1 = &k->level[KEDGE__L1];
	struct kedge__tie fresh = {.path = k->set.l2}, old = {.path = NULL};
	struct kedge__error err = KEDGE__ERROR_INIT;
	int rc;

	if (!l1->leads || kedge__store_look(k->set.l2, &fresh.id, NULL) != KEDGE__SIGHT_STORE)
		return;
	rc = kedge__tie_read(l1->write, &old, NULL);
	if (!rc && !kedge__store_id_equal(&old.id, &fresh.id))
		kedge__log(KEDGE_LOG_NOTICE, "%s: L1 belonged to L2 %s (store %s); it belongs to %s (store %s) now",
			   k->name, old.path, id_text(&old.id).at, fresh.path, id_text(&fresh.id).at);
	if (rc || !kedge__store_id_equal(&old.id, &fresh.id) || strcmp(old.path, fresh.path) != 0)
		rc = kedge__tie_write(l1->write, &fresh, &err);
	if (rc)
		kedge__log(KEDGE_LOG_WARNING, "which L2 belongs to this L1 is not written down: %s",
			   kedge__error_text(&err));
	kedge__tie_done(&old);
	kedge__error_done(&err);
}

/* *NONCE: of rank 0, once all see one store. */
static int find(kedge_t *k, uint64_t *nonce, struct kedge__error *err)
{
	const struct view *all;
	enum choice choice;
	int rc = views_gather(k, 0, &all, err);

	k->l2_hidden = true;
	if (rc)
		return rc;
	choice = choose(k, all, err);
	if (choice == CHOICE_MAKE) {
		rc = kedge__agree(&k->front, KEDGE__STEP_LEVEL, 1, make_store(k, err), NULL, err);
		if (!rc)
			rc = views_gather(k, 1, &all, err);
		if (rc)
			return rc;
		choice = choose(k, all, err);
		if (choice == CHOICE_MAKE)
			return kedge__error_set(err, KEDGE_E_STATE, 0, "the store that was made at %s is not there",
						k->set.l2);
	}
	*nonce = all[0].nonce;
	k->l2_hidden = choice == CHOICE_USE; /* what goes wrong from here on looking does not show */
	return choice == CHOICE_USE ? 0 : err->code;
}

int kedge__l2_meet(kedge_t *k)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	uint64_t nonce = 0, readable = 0;
	int rc;

	if (!kedge__l2_wanted(k))
		return 0;
	level_close(&k->level[KEDGE__L2]);
	rc = find(k, &nonce, &err);
	if (!rc)
		rc = use(k, nonce, &readable, &err);
	if (rc) {
		refuse(k, rc, &err);
		if (readable)
			open_to_read(k);
	} else {
		kedge__error_done(&k->l2_refused);
		kedge__l2_tie(k);
	}
	kedge__error_done(&err);
	return rc;
}

/* ------------------------------------------------------------------ later */

/* On this rank it looks different now, or may be different without looking so. */
static bool has_changed(kedge_t *k)
{
	struct kedge__store_id id;
	enum kedge__sight sight = kedge__store_look(k->set.l2, &id, NULL);

	return k->l2_hidden || sight != k->l2_sight || !kedge__store_id_equal(&id, &k->l2_seen);
}

void kedge__l2_look_again(kedge_t *k)
{
	uint64_t changed;

	if (!kedge__l2_wanted(k) || k->level[KEDGE__L2].on)
		return;
	changed = has_changed(k);
	if (kedge__agree(&k->front, KEDGE__STEP_LEVEL, 4, 0, &changed, NULL) || !changed)
		return;
	kedge__followups_settle(k); /* the flusher looks at the level */
	if (kedge__l2_meet(k))
		return;
	kedge__run_renew(k);
	kedge__log(KEDGE_LOG_NOTICE, "%s: L2 is there again: versions go to %s", k->name, k->set.l2);
}

int kedge__l2_check(const kedge_t *k, struct kedge__error *err)
{
	struct kedge__store_id id, own;
	enum kedge__sight sight;

	if (!k->level[KEDGE__L2].on)
		return kedge__error_set(err, k->l2_refused.code, 0, "%s", kedge__error_text(&k->l2_refused));
	sight = kedge__store_look(k->set.l2, &id, err);
	own = kedge__catalog_store_id(k->level[KEDGE__L2].flush);
	if (sight == KEDGE__SIGHT_ERROR)
		return err->code;
	if (sight == KEDGE__SIGHT_DAMAGED || (sight == KEDGE__SIGHT_STORE && kedge__store_id_equal(&id, &own)))
		return 0;
	return kedge__error_set(err, KEDGE_E_MISSING, 0, "L2 is not there any more: at %s there is %s%s", k->set.l2,
				sight == KEDGE__SIGHT_STORE ? "another store, " : "",
				sight == KEDGE__SIGHT_STORE ? id_text(&id).at : kedge__sight_text(sight));
}
