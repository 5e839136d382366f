/*
 * How the ranks of a job meet at open: each learns whether all have the settings on which common steps depend, and
 * which ranks share its directory on L1. Equal store ids do not prove that: a directory may be the copy of another one.
 * So of each directory one rank writes a probe there, and ranks with the same id look for it. The lowest rank whose
 * probe is seen leads.
 */
#include "job/handle.h"

#include <errno.h>
#include <sys/random.h>

#define NOBODY UINT64_MAX

/* What a rank tells in every round. */
struct hello {
	struct kedge__say say;
	struct kedge__store_id id;
	struct kedge__dir_place place;
	uint64_t settings; /* what must be the same for the ranks to take the same steps */
	uint64_t nonce;    /* of its probe */
	uint64_t wrote;    /* its probe is there since this round */
	uint64_t leader;   /* of its directory; NOBODY: not known yet */
};

bool kedge__l2_wanted(const kedge_t *k)
{
	return k->set.l2 && k->set.l2[0] != '\0';
}

static uint64_t settings_sum(const kedge_t *k)
{
	uint64_t all[] = {kedge__l2_wanted(k),      (uint64_t)k->set.l2_every, (uint64_t)k->set.l2_interval,
			  (uint64_t)k->set.capture, k->set.keep > 0,           (uint64_t)k->set.l2_keep,
			  (uint64_t)k->set.coalesce};

	return kedge__checksum(all, sizeof(all));
}

static int settings_check(const kedge_t *k, const struct hello *all, struct kedge__error *err)
{
	int own = k->group.rank;

	for (int r = 0; r < k->group.size; r++) {
		if (all[r].settings != all[own].settings)
			return kedge__error_set(
			    err, KEDGE_E_GROUP, 0,
			    "ranks %d and %d differ in l2, l2_every, l2_interval, coalesce, capture, keep or l2_keep",
			    r, own);
	}
	return 0;
}

int kedge__nonce_draw(uint64_t *nonce, struct kedge__error *err)
{
	if (getrandom(nonce, sizeof(*nonce), 0) == (ssize_t)sizeof(*nonce))
		return 0;
	return kedge__error_set(err, KEDGE_E_IO, errno, "no random bytes to tell directories apart");
}

static int hello_make(kedge_t *k, struct hello *own, struct kedge__error *err)
{
	const struct kedge__catalog *cat = k->level[KEDGE__L1].write;
	int rc = kedge__nonce_draw(&own->nonce, err);

	if (!rc)
		rc = kedge__catalog_place(cat, &own->place, err);
	own->id = kedge__catalog_store_id(cat);
	own->settings = settings_sum(k);
	own->leader = NOBODY;
	return rc;
}

/* All ranks' in *ALL, until the next message. RC is how this rank fared; on failure, all fail. */
static int hello_gather(kedge_t *k, uint64_t round, const struct hello *own, int rc, const struct hello **all,
			struct kedge__error *err)
{
	void *slot, *gathered;
	int met = kedge__channel_begin(&k->front, sizeof(*own), &slot, rc ? NULL : err);

	if (met)
		return rc ? rc : met;
	if (!rc)
		memcpy(slot, own, sizeof(*own));
	kedge__say_set(slot, KEDGE__STEP_OPEN, round, rc, err);
	met = kedge__channel_gather(&k->front, sizeof(*own), &gathered, rc ? NULL : err);
	if (!met)
		met = kedge__say_judge(&k->front, gathered, sizeof(*own), rc ? NULL : err);
	*all = gathered;
	return rc ? rc : met;
}

static bool same_place(const struct hello *a, const struct hello *b)
{
	return kedge__store_id_equal(&a->id, &b->id) && memcmp(&a->place, &b->place, sizeof(a->place)) == 0;
}

/* The lowest of those that still look for their leader and that the kernel says are in one place. */
static bool writes_probe(const kedge_t *k, const struct hello *all)
{
	const struct hello *own = &all[k->group.rank];

	for (int r = 0; r < k->group.rank; r++) {
		if (all[r].leader == NOBODY && same_place(&all[r], own))
			return false;
	}
	return own->leader == NOBODY;
}

static int leader_look(kedge_t *k, const struct hello *all, uint64_t round, struct hello *own, struct kedge__error *err)
{
	int rc = 0;

	for (int r = 0; r < k->group.size && own->leader == NOBODY && !rc; r++) {
		bool seen = r == k->group.rank;

		if (all[r].wrote != round || !kedge__store_id_equal(&all[r].id, &own->id))
			continue;
		if (!seen)
			rc = kedge__probe_look(k->level[KEDGE__L1].write, all[r].nonce, &seen, err);
		if (!rc && seen)
			own->leader = (uint64_t)r;
	}
	return rc;
}

static void leaders_settle(kedge_t *k, const struct hello *all)
{
	struct kedge__job_level *l1 = &k->level[KEDGE__L1];
	const struct hello *own = &all[k->group.rank];
	int copy_of = -1;

	l1->leads = own->leader == (uint64_t)k->group.rank;
	l1->whole = true;
	l1->leader = (int)own->leader;
	k->l1_shared = false;
	for (int r = 0; r < k->group.size; r++) {
		l1->whole = l1->whole && all[r].leader == own->leader;
		k->l1_shared = k->l1_shared || all[r].leader != (uint64_t)r;
		if (copy_of < 0 && all[r].leader != own->leader && kedge__store_id_equal(&all[r].id, &own->id))
			copy_of = r;
	}
	if (l1->leads && copy_of >= 0 && copy_of < k->group.rank)
		kedge__log(KEDGE_LOG_NOTICE,
			   "%s: the L1 of rank %d (%s) has the id of rank %d's, but is another directory: a copy",
			   k->name, k->group.rank, k->set.l1, copy_of);
}

static bool all_led(const kedge_t *k, const struct hello *all)
{
	for (int r = 0; r < k->group.size; r++) {
		if (all[r].leader == NOBODY)
			return false;
	}
	return true;
}

/* Usually one round; more only where the kernels of copied machines tell of one place and there are two. */
static int sharing_prove(kedge_t *k, struct hello *own, const struct hello *all, struct kedge__error *err)
{
	struct kedge__catalog *cat = k->level[KEDGE__L1].write;
	uint64_t round = 0;
	bool pinned = false;
	int rc = 0;

	while (!rc && !all_led(k, all)) {
		round++;
		if (writes_probe(k, all)) {
			rc = kedge__catalog_pin(cat, err);
			pinned = !rc;
			if (!rc)
				rc = kedge__probe_write(cat, own->nonce, err);
			own->wrote = rc ? 0 : round;
		}
		rc = hello_gather(k, 2 * round, own, rc, &all, err);
		if (rc)
			break;
		rc = leader_look(k, all, round, own, err);
		rc = hello_gather(k, 2 * round + 1, own, rc, &all, err);
	}
	if (!rc)
		leaders_settle(k, all);
	if (own->wrote)
		kedge__probe_remove(cat, own->nonce);
	if (pinned)
		kedge__catalog_unpin(cat);
	return rc;
}

int kedge__meet(kedge_t *k, int rc, struct kedge__error *err)
{
	const struct hello *all;
	struct hello own = {.leader = 0};

	if (k->group.size == 1) {
		k->level[KEDGE__L1].leads = k->level[KEDGE__L1].whole = true;
		return rc;
	}
	if (!rc)
		rc = hello_make(k, &own, err);
	rc = hello_gather(k, 0, &own, rc, &all, err);
	if (!rc)
		rc = settings_check(k, all, err);
	return rc ? rc : sharing_prove(k, &own, all, err);
}

/* ------------------------------------------------------------------ before there is a handle */

#define BYTES_HERE 65536 /* ranks whose answers fit on the stack */

/*
 * A rank without memory for a handle, or with wrong arguments, must not be waited for: one byte of every rank says
 * whether it goes on. Only in groups of more ranks than fit here does that need memory.
 */
int kedge__meet_ready(const struct kedge_group *group, bool ready, struct kedge__error *err)
{
	char here[BYTES_HERE], mine = ready, *all = here;
	size_t size = group ? (size_t)group->size : 1;
	int rc = 0, missing = -1;

	if (size == 1)
		return 0;
	if (size > sizeof(here))
		all = kedge__malloc(size);
	if (!all)
		return kedge__error_nomem(err);
	if (group->allgather(group->ctx, &mine, 1, all) != 0)
		rc = kedge__error_set(err, KEDGE_E_GROUP, 0,
				      "rank %d cannot reach the other ranks: the allgather failed", group->rank);
	for (size_t r = 0; r < size && !rc && missing < 0; r++) {
		if (!all[r])
			missing = (int)r;
	}
	if (missing >= 0 && ready)
		rc = kedge__error_set(err, KEDGE_E_GROUP, 0,
				      "rank %d has no memory, or was called with wrong arguments", missing);
	if (all != here)
		kedge__free(all);
	return rc;
}
