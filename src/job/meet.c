/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How the ranks of a job meet in kedge_open(): whether the settings on which their common steps depend are the same,
 * and which rank leads which directory on L1. Equal store ids do not prove that two ranks share a directory, because
 * one may be a copy. So rank 0 draws a number, and every rank tries to create a probe of that number in its directory:
 * the one that succeeds leads there, and the others find its rank in the probe. Rank 0 tries first, and leads its
 * directory.
 */
#include "job/handle.h"

#include <errno.h>
#include <sys/random.h>

bool kedge__l2_wanted(const kedge_t *k)
{
	return k->set.l2 && k->set.l2[0] != '\0';
}

int kedge__nonce_draw(uint64_t *nonce, struct kedge__error *err)
{
	if (getrandom(nonce, sizeof(*nonce), 0) == (ssize_t)sizeof(*nonce))
		return 0;
	return kedge__error_set(err, KEDGE_E_IO, errno,
				"cannot get random bytes for the probe by which ranks find out who shares a directory");
}

/* ------------------------------------------------------------------ settings */

struct common_setting {
	const char *name;
	uint64_t value;
};

static void settings_list(const kedge_t *k, struct common_setting out[KEDGE__MEET_SETTINGS])
{
	const struct common_setting all[KEDGE__MEET_SETTINGS] = {
	    {"l2 (set, or not)", kedge__l2_wanted(k)},
	    {"l2_every", (uint64_t)k->set.l2_every},
	    {"group_size", kedge__bundles_size(k)},
	    {"l2_interval", (uint64_t)k->set.l2_interval},
	    {"coalesce", (uint64_t)k->set.coalesce},
	    {"capture", (uint64_t)k->set.capture},
	    {"keep (0, or not)",
	     !kedge__keep_everything(&k->levels.keep[KEDGE__L1]) + 2 * (k->levels.keep[KEDGE__L1].bytes > 0)},
	    {"l2_keep", kedge__checksum(k->set.l2_keep, strlen(k->set.l2_keep))},
	    {"protect", kedge__checksum(k->set.protect, strlen(k->set.protect))},
	    {"protect_in_background", k->set.protect_in_background},
	    {"begin_if_lost", k->set.begin_if_lost},
	};

	memcpy(out, all, sizeof(all));
}

static int settings_check(const struct kedge__meet_msg *met, const struct common_setting *names,
			  struct kedge__error *err)
{
	for (size_t i = 0; i < KEDGE__MEET_SETTINGS; i++) {
		int between[2];

		if (!kedge__msg_same_is(&met->settings[i], between))
			return kedge__error_set(err, KEDGE_E_GROUP, 0,
						"ranks %d and %d have different settings of %s: give all ranks the "
						"same value",
						between[0], between[1], names[i].name);
	}
	return 0;
}

/* ------------------------------------------------------------------ probes */

struct claim { /* of this rank to its directory */
	uint64_t nonce;
	bool leads;
	uint64_t leader;
};

/* The pin keeps others from sweeping the probe. Nobody but the leader holds one when the leader comes to sweep. */
static int claim_try(kedge_t *k, struct claim *c, struct kedge__error *err)
{
	struct kedge__catalog *cat = k->levels.at[KEDGE__L1].write;
	int rc = kedge__catalog_pin(cat, err);

	if (rc)
		return rc;
	rc = kedge__probe_claim(cat, c->nonce, (uint32_t)k->group.rank, &c->leads, err);
	if (!c->leads)
		kedge__catalog_unpin(cat);
	return rc;
}

/* All probes are written and closed. */
static int leader_find(const kedge_t *k, struct claim *c, struct kedge__error *err)
{
	uint32_t leader = (uint32_t)k->group.rank;
	bool seen = true;
	int rc = 0;

	if (!c->leads)
		rc = kedge__probe_read(k->levels.at[KEDGE__L1].write, c->nonce, &seen, &leader, err);
	if (!rc && (!seen || leader >= (uint32_t)k->group.size))
		rc = kedge__error_set(err, KEDGE_E_STATE, 0,
				      "the probe by which ranks find out who shares %s was removed or changed: make "
				      "sure that nothing else changes files there, and try again",
				      k->set.l1);
	c->leader = leader;
	return rc;
}

static void claim_end(kedge_t *k, struct claim *c)
{
	struct kedge__catalog *cat = k->levels.at[KEDGE__L1].write;

	if (!c->leads)
		return;
	kedge__probe_remove(cat, c->nonce);
	kedge__catalog_unpin(cat);
}

/* ------------------------------------------------------------------ the exchanges */

/* Rank 0's number and id, and everybody's settings. Rank 0 claims its directory before others know the number. */
static int greet(kedge_t *k, struct claim *c, union kedge__msg *msg, int rc, struct kedge__error *err)
{
	struct common_setting settings[KEDGE__MEET_SETTINGS];

	memset(msg, 0, sizeof(*msg));
	settings_list(k, settings);
	for (size_t i = 0; i < KEDGE__MEET_SETTINGS; i++)
		kedge__msg_same_set(&msg->meet.settings[i], k->group.rank, settings[i].value);
	msg->meet.watcher = kedge__requests_sees_run() ? k->group.rank : -1;
	if (!rc && k->group.rank == 0) {
		rc = kedge__nonce_draw(&c->nonce, err);
		if (!rc)
			rc = claim_try(k, c, err);
		msg->meet.nonce = c->nonce;
		msg->meet.id = kedge__catalog_store_id(k->levels.at[KEDGE__L1].write);
	}
	rc = kedge__exchange(&k->channels.front, KEDGE__STEP_MEET, 0, rc, msg, err);
	if (!rc)
		rc = settings_check(&msg->meet, settings, err);
	if (!rc) {
		c->nonce = msg->meet.nonce;
		kedge__requests_watch(k, msg->meet.watcher == k->group.rank);
	}
	return rc;
}

static int leaders_agree(kedge_t *k, const struct claim *c, int rc, union kedge__msg *msg, struct kedge__error *err)
{
	struct kedge__job_level *l1 = &k->levels.at[KEDGE__L1];
	int between[2];

	memset(msg, 0, sizeof(*msg));
	kedge__msg_same_set(&msg->meet.leader, k->group.rank, c->leader);
	msg->meet.followers = !c->leads;
	rc = kedge__exchange(&k->channels.front, KEDGE__STEP_MEET, 2, rc, msg, err);
	if (rc)
		return rc;
	kedge__level_lead(l1, k->group.rank, (int)c->leader, kedge__msg_same_is(&msg->meet.leader, between));
	kedge__levels_share(k, msg->meet.followers);
	if (k->levels.keep[KEDGE__L1].bytes && !l1->one_for_all)
		return kedge__error_set(
		    err, KEDGE_E_CONFIG, 0,
		    "keep = %s: bytes can be limited only in an L1 that all ranks share; give a number "
		    "of versions, or limit l2_keep",
		    k->set.keep);
	return 0;
}

static void copy_notice(const kedge_t *k, const struct kedge__store_id *first)
{
	struct kedge__store_id own = kedge__catalog_store_id(k->levels.at[KEDGE__L1].write);

	if (k->levels.at[KEDGE__L1].leads && k->group.rank != 0 && kedge__store_id_equal(&own, first))
		kedge__log(KEDGE_LOG_NOTICE,
			   "%s: the L1 of rank %d (%s) has the same store id as rank 0's, but is another directory: "
			   "one is a copy of the other; each is used as a store by itself",
			   k->name, k->group.rank, k->set.l1);
}

static int meet(kedge_t *k, struct claim *c, int rc, struct kedge__error *err)
{
	struct kedge__store_id first;
	union kedge__msg msg;

	rc = greet(k, c, &msg, rc, err);
	if (rc)
		return rc;
	first = msg.meet.id;
	if (k->group.rank != 0)
		rc = claim_try(k, c, err);
	rc = kedge__agree(&k->channels.front, KEDGE__STEP_MEET, 1, rc, NULL, err);
	if (rc)
		return rc;
	rc = leaders_agree(k, c, leader_find(k, c, err), &msg, err);
	if (!rc)
		copy_notice(k, &first);
	return rc;
}

int kedge__meet(kedge_t *k, int rc, struct kedge__error *err)
{
	struct claim c = {.leads = false};

	if (k->group.size == 1) {
		kedge__level_lead(&k->levels.at[KEDGE__L1], 0, 0, true);
		kedge__requests_watch(k, kedge__requests_sees_run());
		return rc;
	}
	rc = meet(k, &c, rc, err);
	claim_end(k, &c);
	return rc;
}

/* ------------------------------------------------------------------ before there is a handle */

#define RANKS_HERE 16384 /* whose answers fit on the stack */
#define NOBODY     INT32_MAX

static void lowest(void *acc, const void *other)
{
	int32_t a, b;

	memcpy(&a, acc, sizeof(a));
	memcpy(&b, other, sizeof(b));
	a = KEDGE__MIN(a, b);
	memcpy(acc, &a, sizeof(a));
}

static int lowest_of_all(const struct kedge_group *group, int32_t *rank, struct kedge__error *err)
{
	int32_t here[RANKS_HERE], *all = here;
	int failed;

	if (group->reduce && group->gather) {
		failed = group->reduce(group->ctx, rank, sizeof(*rank), lowest);
	} else {
		if (group->size > RANKS_HERE)
			all = kedge__malloc((size_t)group->size * sizeof(*all));
		if (!all)
			return kedge__error_nomem(err);
		failed = group->allgather(group->ctx, rank, sizeof(*rank), all);
		for (int r = 0; r < group->size && !failed; r++)
			lowest(rank, &all[r]);
		if (all != here)
			kedge__free(all);
	}
	if (!failed)
		return 0;
	return kedge__error_set(err, KEDGE_E_GROUP, 0,
				"rank %d cannot reach the other ranks: the group's transport failed", group->rank);
}

/*
 * A rank without memory for a handle, or with wrong arguments, must not be waited for: every rank says whether it goes
 * on. That needs memory only in groups of many ranks that cannot reduce.
 */
int kedge__meet_ready(const struct kedge_group *group, bool ready, struct kedge__error *err)
{
	int32_t missing;
	int rc;

	if (!group || group->size == 1)
		return 0;
	missing = ready ? NOBODY : group->rank;
	rc = lowest_of_all(group, &missing, err);
	if (!rc && missing != NOBODY && ready)
		rc = kedge__error_set(err, KEDGE_E_GROUP, 0,
				      "rank %d has no memory for a handle, or called with wrong arguments", missing);
	return rc;
}
