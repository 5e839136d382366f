/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Is L2 the one that belongs to the job, and the same for all ranks? A file system that is not mounted looks like a
 * directory in which nothing was ever saved; versions written there are lost with the node. So L1 remembers which store
 * is its L2 (the tie), no store is created before all ranks have seen that there is none, and all must see what rank 0
 * writes. If something does not fit, the job continues without L2, and tries again at later checkpoints.
 */
#include "job/handle.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

/* Turns of the step LEVEL, in the place of a version. */
enum { TURN_VIEW, TURN_TIES, TURN_MAKE, TURN_VIEW_MADE, TURN_TIES_MADE, TURN_OPEN, TURN_PROBE, TURN_AGAIN };

enum tied { UNTIED, TIED, TIED_UNKNOWN }; /* the last: the tie cannot be read */

/* What this rank's L1 says of L2. */
struct own_tie {
	enum tied tied;
	struct kedge__tie tie; /* owned */
};

/* ------------------------------------------------------------------ refusing */

/* A full or read-only L2 takes no versions, but those that it has are there. */
static void open_to_read(kedge_t *k)
{
	struct kedge__job_level *l2 = &k->levels.at[KEDGE__L2];
	struct kedge__error err = KEDGE__ERROR_INIT;

	if (kedge__catalog_open(k->set.l2, k->name, KEDGE__CATALOG_READ, &l2->api, &err)) {
		l2->api = NULL;
		kedge__log(KEDGE_LOG_WARNING, "%s: L2 cannot be read either: %s", k->name, kedge__error_text(&err));
	} else {
		kedge__catalog_pace(l2->api, &k->reads);
	}
	kedge__error_done(&err);
}

/* WHY, taken over, is logged once for as long as it stays the same. */
static void refuse(kedge_t *k, int rc, struct kedge__error *why)
{
	bool told = k->l2.refused.code && strcmp(kedge__error_text(&k->l2.refused), kedge__error_text(why)) == 0;

	kedge__level_close(&k->levels.at[KEDGE__L2]);
	kedge__error_done(&k->l2.refused);
	kedge__error_move(&k->l2.refused, why);
	k->l2.refused.code = rc; /* also if there was no memory to say why */
	if (!told)
		kedge__log(KEDGE_LOG_ERROR, "%s: L2 is not used, versions stay on L1 only: %s", k->name,
			   kedge__error_text(&k->l2.refused));
	if (!told)
		kedge__journal_fallback(k, "l2", KEDGE__NO_VERSION, "l1", kedge__error_text(&k->l2.refused));
}

/* ------------------------------------------------------------------ looking */

static const char *host_name(char host[64])
{
	host[63] = '\0';
	if (gethostname(host, 63) != 0)
		snprintf(host, 64, "an unknown host");
	return host;
}

/* Not 0: there is not enough memory to see whether there is a tie. */
static int tie_look(const kedge_t *k, struct own_tie *own, struct kedge__error *err)
{
	struct kedge__error problem = KEDGE__ERROR_INIT;
	int rc = kedge__tie_read(k->levels.at[KEDGE__L1].write, &own->tie, &problem);

	own->tied = rc ? UNTIED : TIED;
	if (rc && rc != KEDGE_E_NOTFOUND) {
		own->tied = TIED_UNKNOWN;
		kedge__log(KEDGE_LOG_WARNING, "%s: cannot read which L2 belongs to the L1 of rank %d: %s", k->name,
			   k->group.rank, kedge__error_text(&problem));
	}
	kedge__error_done(&problem);
	return rc == KEDGE_E_NOMEM ? kedge__error_nomem(err) : 0;
}

static void KEDGE__PRINTF(4, 5) trouble_set(struct kedge__level_msg *msg, int rank, int code, const char *fmt, ...)
{
	va_list ap;

	msg->bad = rank;
	msg->code = code;
	va_start(ap, fmt);
	vsnprintf(msg->text, sizeof(msg->text), fmt, ap);
	va_end(ap);
}

static void msg_init(struct kedge__level_msg *msg)
{
	memset(msg, 0, sizeof(*msg));
	msg->bad = msg->with.rank = msg->without.rank = msg->known.rank = msg->other.rank = -1;
}

static bool is_store(enum kedge__sight sight)
{
	return sight == KEDGE__SIGHT_STORE || sight == KEDGE__SIGHT_DAMAGED;
}

/* What this rank sees of L2. Not 0: it has not enough memory to see anything. */
static int view_make(kedge_t *k, struct kedge__level_msg *msg, struct kedge__error *err)
{
	struct kedge__level_witness own = {.rank = k->group.rank};
	struct kedge__error problem = KEDGE__ERROR_INIT;
	int rc;

	msg_init(msg);
	host_name(own.host);
	k->l2.sight = kedge__store_look(k->set.l2, &own.id, &problem);
	k->l2.seen = own.id;
	own.sight = k->l2.sight;
	if (k->l2.sight == KEDGE__SIGHT_ERROR)
		trouble_set(msg, own.rank, KEDGE_E_STATE, "rank %d on %s: %s", own.rank, own.host,
			    kedge__error_text(&problem));
	rc = problem.code == KEDGE_E_NOMEM ? kedge__error_nomem(err) : 0;
	kedge__error_done(&problem);
	*(is_store(k->l2.sight) ? &msg->with : &msg->without) = own;
	if (k->l2.sight == KEDGE__SIGHT_STORE)
		msg->known = own;
	msg->refuse = !k->set.l2_accept;
	if (!rc && k->group.rank == 0)
		rc = kedge__nonce_draw(&msg->nonce, err);
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

/* All ranks see one store, or all see none; else ERR says what is wrong. */
static int sights_judge(const kedge_t *k, const struct kedge__level_msg *all, struct kedge__error *err)
{
	const struct kedge__level_witness *a = &all->known, *b = &all->other;

	if (all->bad >= 0)
		return kedge__error_set(err, all->code, 0, "%s", all->text);
	if (b->rank >= 0)
		return kedge__error_set(err, KEDGE_E_STATE, 0,
					"at %s rank %d on %s sees store %s, but rank %d on %s sees store %s; L2 has "
					"to be one directory that all ranks see",
					k->set.l2, a->rank, a->host, id_text(&a->id).at, b->rank, b->host,
					id_text(&b->id).at);
	a = &all->with;
	b = &all->without;
	if (a->rank >= 0 && b->rank >= 0)
		return kedge__error_set(err, KEDGE_E_MISSING, 0,
					"at %s rank %d on %s sees %s, but rank %d on %s sees %s; mount it on every "
					"node",
					k->set.l2, a->rank, a->host, kedge__sight_text((enum kedge__sight)a->sight),
					b->rank, b->host, kedge__sight_text((enum kedge__sight)b->sight));
	return 0;
}

#define WHAT_TO_DO "mount that one, or, if it is gone for good, set l2_accept = yes for one run"
#define PATH_SHOWN 140 /* bytes of a path, so that there is room for what to do */

/* The L2 to which this rank's L1 belongs must be the one that is there, unless all ranks accept another one. */
static void tie_judge(const kedge_t *k, const struct kedge__level_msg *all, const struct own_tie *own,
		      struct kedge__level_msg *msg)
{
	struct id_text tie = id_text(&own->tie.id);
	const char *id = own->tied == TIED ? tie.at : "of unknown id";
	const char *path = own->tied == TIED ? own->tie.path : k->set.l2;
	int rank = k->group.rank;
	char host[64];

	if (!all->refuse || own->tied == UNTIED)
		return;
	host_name(host);
	if (all->with.rank < 0)
		trouble_set(msg, rank, KEDGE_E_MISSING,
			    "rank %d on %s sees %s at %.*s, but its L1 belongs to L2 store %s: " WHAT_TO_DO
			    "; it was at %s",
			    rank, host, kedge__sight_text(k->l2.sight), PATH_SHOWN, k->set.l2, id, path);
	else if (own->tied == TIED && all->known.rank >= 0 && !kedge__store_id_equal(&own->tie.id, &all->known.id))
		trouble_set(msg, rank, KEDGE_E_STATE,
			    "%.*s is store %s, but the L1 of rank %d on %s belongs to L2 store %s: " WHAT_TO_DO
			    "; it was at %s",
			    PATH_SHOWN, k->set.l2, id_text(&all->known.id).at, rank, host, id, path);
}

/* Every rank says whether its L1 belongs to what ALL see. */
static int ties_agree(kedge_t *k, uint64_t turn, const struct kedge__level_msg *all, struct kedge__error *err)
{
	struct own_tie own = {.tied = UNTIED};
	union kedge__msg msg;
	int rc;

	msg_init(&msg.level);
	rc = tie_look(k, &own, err);
	if (!rc)
		tie_judge(k, all, &own, &msg.level);
	if (own.tied == TIED)
		kedge__tie_done(&own.tie);
	rc = kedge__exchange(&k->channels.front, KEDGE__STEP_LEVEL, turn, rc, &msg, err);
	if (!rc && msg.level.bad >= 0)
		rc = kedge__error_set(err, msg.level.code, 0, "%s", msg.level.text);
	return rc;
}

/* Whether there is one L2 for all ranks, or none yet, and the L1 of each belongs to it. */
static int view_all(kedge_t *k, uint64_t turn, struct kedge__level_msg *all, struct kedge__error *err)
{
	union kedge__msg msg;
	int rc = view_make(k, &msg.level, err);

	rc = kedge__exchange(&k->channels.front, KEDGE__STEP_LEVEL, turn, rc, &msg, err);
	*all = msg.level;
	if (!rc)
		rc = sights_judge(k, all, err);
	return rc ? rc : ties_agree(k, turn + 1, all, err);
}

/* ------------------------------------------------------------------ taking it into use */

static int make_store(const kedge_t *k, struct kedge__error *err)
{
	if (k->group.rank != 0)
		return 0;
	return kedge__catalog_make(k->set.l2, k->name, k->set.init ? KEDGE__CATALOG_INIT : KEDGE__CATALOG_CREATE, err);
}

/* A job that dies before its turn for L2 comes must not start counting from nothing each time. */
static uint64_t versions_behind(const kedge_t *k)
{
	const struct kedge__catalog *l1 = k->levels.at[KEDGE__L1].write, *l2 = k->levels.at[KEDGE__L2].write;
	size_t n = kedge__catalog_count(l2);
	uint64_t behind = 0;

	for (size_t i = 0; i < kedge__catalog_count(l1); i++)
		behind += !n || kedge__catalog_at(l1, i)->version > kedge__catalog_at(l2, n - 1)->version;
	return behind;
}

/* Rank 0 owns it, and leaves a probe for the others to see. The pin keeps the probe from being swept. */
static int lead(kedge_t *k, uint64_t nonce, bool *pinned, struct kedge__error *err)
{
	struct kedge__job_level *l2 = &k->levels.at[KEDGE__L2];
	bool made;
	int rc = kedge__level_own(k, l2, err);

	if (!rc)
		kedge__level_clean(k, l2);
	if (!rc)
		rc = kedge__catalog_pin(l2->write, err);
	*pinned = !rc;
	return rc ? rc : kedge__probe_claim(l2->write, nonce, 0, &made, err);
}

static int probe_check(kedge_t *k, uint64_t nonce, struct kedge__error *err)
{
	struct kedge__catalog *cat = k->levels.at[KEDGE__L2].write;
	uint32_t writer;
	bool seen;
	int rc = kedge__probe_read(cat, nonce, &seen, &writer, err);

	if (!rc && !seen)
		rc = kedge__error_set(err, KEDGE_E_STATE, 0,
				      "a file that rank 0 wrote to L2 does not show in %s: L2 has to be one directory "
				      "that all ranks see",
				      k->set.l2);
	return rc;
}

/* *READABLE: if it cannot be used, then only because nothing can be written there. */
static int use(kedge_t *k, uint64_t nonce, uint64_t *readable, struct kedge__error *err)
{
	struct kedge__job_level *l2 = &k->levels.at[KEDGE__L2];
	bool leads = k->group.rank == 0, pinned = false;
	uint64_t count = 0; /* only rank 0's counts */
	int rc = kedge__level_open(k, k->set.l2, l2, err);

	kedge__level_lead(l2, k->group.rank, 0, true);
	if (!rc && leads)
		rc = lead(k, nonce, &pinned, err);
	*readable = rc == KEDGE_E_NOSPACE || rc == KEDGE_E_ACCESS;
	rc = kedge__agree(&k->channels.front, KEDGE__STEP_LEVEL, TURN_OPEN, rc, readable, err);
	if (!rc)
		rc = probe_check(k, nonce, err);
	if (!rc && leads)
		count = versions_behind(k) << 1 | !kedge__catalog_count(l2->write);
	rc = kedge__agree(&k->channels.front, KEDGE__STEP_LEVEL, TURN_PROBE, rc, &count, err);
	if (pinned) {
		kedge__probe_remove(l2->write, nonce);
		kedge__catalog_unpin(l2->write);
	}
	if (rc)
		return rc;
	kedge__level_on(l2);
	kedge__levels_turn_set(k, count >> 1, count & 1);
	return 0;
}

void kedge__l2_tie(kedge_t *k)
{
	const struct kedge__job_level *l1 = &k->levels.at[KEDGE__L1];
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
		kedge__log(KEDGE_LOG_WARNING, "cannot write down on L1 which L2 belongs to it: %s",
			   kedge__error_text(&err));
	kedge__tie_done(&old);
	kedge__error_done(&err);
}

/* *NONCE: rank 0's, once all see one store. */
static int find(kedge_t *k, uint64_t *nonce, struct kedge__error *err)
{
	struct kedge__level_msg all;
	int rc;

	k->l2.hidden = true;
	rc = view_all(k, TURN_VIEW, &all, err);
	if (!rc && all.with.rank < 0) {
		rc = kedge__agree(&k->channels.front, KEDGE__STEP_LEVEL, TURN_MAKE, make_store(k, err), NULL, err);
		if (rc)
			return rc;
		rc = view_all(k, TURN_VIEW_MADE, &all, err);
		if (!rc && all.with.rank < 0)
			return kedge__error_set(err, KEDGE_E_STATE, 0, "the store that was made at %s is not there",
						k->set.l2);
	}
	*nonce = all.nonce;
	/* A rank that looks sees when these change; how later steps would fare it does not see. */
	k->l2.hidden = rc != KEDGE_E_STATE && rc != KEDGE_E_MISSING;
	return rc;
}

int kedge__l2_meet(kedge_t *k)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	uint64_t nonce = 0, readable = 0;
	int rc;

	if (!kedge__l2_wanted(k))
		return 0;
	kedge__level_close(&k->levels.at[KEDGE__L2]);
	rc = find(k, &nonce, &err);
	if (!rc)
		rc = use(k, nonce, &readable, &err);
	if (rc) {
		refuse(k, rc, &err);
		if (readable)
			open_to_read(k);
	} else {
		kedge__error_done(&k->l2.refused);
		kedge__l2_tie(k);
	}
	kedge__error_done(&err);
	return rc;
}

/* ------------------------------------------------------------------ later */

/* This rank sees something else there now, or cannot see whether it has changed. */
static bool has_changed(kedge_t *k)
{
	struct kedge__store_id id;
	enum kedge__sight sight = kedge__store_look(k->set.l2, &id, NULL);

	return k->l2.hidden || sight != k->l2.sight || !kedge__store_id_equal(&id, &k->l2.seen);
}

void kedge__l2_look_again(kedge_t *k)
{
	uint64_t changed;

	if (!kedge__l2_wanted(k) || k->levels.at[KEDGE__L2].on)
		return;
	changed = has_changed(k);
	if (kedge__agree(&k->channels.front, KEDGE__STEP_LEVEL, TURN_AGAIN, 0, &changed, NULL) || !changed)
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

	if (!k->levels.at[KEDGE__L2].on)
		return kedge__error_set(err, k->l2.refused.code, 0, "%s", kedge__error_text(&k->l2.refused));
	sight = kedge__store_look(k->set.l2, &id, err);
	own = kedge__catalog_store_id(k->levels.at[KEDGE__L2].flush);
	if (sight == KEDGE__SIGHT_ERROR)
		return err->code;
	if (sight == KEDGE__SIGHT_DAMAGED || (sight == KEDGE__SIGHT_STORE && kedge__store_id_equal(&id, &own)))
		return 0;
	return kedge__error_set(err, KEDGE_E_MISSING, 0, "L2 is gone: at %s there is now %s%s; mount it again",
				k->set.l2, sight == KEDGE__SIGHT_STORE ? "another store, " : "",
				sight == KEDGE__SIGHT_STORE ? id_text(&id).at : kedge__sight_text(sight));
}

void kedge__l2_done(struct kedge__l2_view *l2)
{
	kedge__error_done(&l2->refused);
}
