/* SPDX-License-Identifier: BSD-3-Clause */
/* What a program does between open and close: checkpoints, above all, and whatever else a program may do. */
#include "job.h"

#include <sys/wait.h>

static bool quiet(const struct job *j) /* nothing explains an error */
{
	return !j->life.errs && !j->away && !j->second_went && !j->damaged && !j->torn && !j->purged;
}

/* All ranks, outside of the library. */
static void gather(struct job *j)
{
	struct seat seat = {&j->walk->shared->side, j->rank, j->walk->ranks};
	uint64_t all[WALK_RANKS];

	if (meet(&seat, &(uint64_t){0}, sizeof(uint64_t), all) != 0)
		_exit(CUT_SHORT); /* another rank has found out why */
}

static uint64_t next_number(struct job *j)
{
	return (j->last == NO_VERSION ? 0 : j->last + 1) + draw_below(&j->common, 3);
}

static void say(struct job *j, const char *what, uint64_t version)
{
	if (j->rank == 0)
		walk_say(j->walk, " %s %lld", what, (long long)version);
}

/* ------------------------------------------------------------------ what must be refused */

static void refused(struct job *j, uint64_t version, const char *why)
{
	int rc;

	say(j, "refused", version);
	rc = kedge_checkpoint(j->k, version);
	if (rc == 0)
		wrong(j, "a version was taken that had to be refused", why);
	if (rc != KEDGE_E_STATE && !(j->walk->ranks > 1 && rc == KEDGE_E_GROUP))
		failed(j, why);
}

static bool move_low(struct job *j)
{
	if (j->floor && !j->life.errs) /* else it is not known what was taken */
		refused(j, draw_below(&j->common, j->floor), "a number that is not above all");
	return true;
}

#if defined(__SANITIZE_ADDRESS__)
#define CHILD_MAY_ALLOCATE false /* a lock of the sanitizer may be held by another thread at the fork, for ever */
#else
#define CHILD_MAY_ALLOCATE true
#endif

static bool move_fork(struct job *j)
{
	struct kedge_version_info *list;
	size_t n;
	int status;
	pid_t pid;

	if (!CHILD_MAY_ALLOCATE)
		return true;
	pid = fork();
	say(j, "fork", 0);
	if (pid == 0) {
		bool fine = kedge_checkpoint(j->k, next_number(j)) == KEDGE_E_STATE &&
			    kedge_wait(j->k) == KEDGE_E_STATE &&
			    kedge_restart(j->k, KEDGE_NEWEST, NULL) == KEDGE_E_STATE &&
			    kedge_versions(j->k, &list, &n) == KEDGE_E_STATE &&
			    kedge_discard(j->k, 0, KEDGE_LEVEL_1) == KEDGE_E_STATE &&
			    kedge_begin(j->k) == KEDGE_E_STATE && kedge_close(j->k) == KEDGE_E_STATE;

		_exit(fine ? 0 : 1);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
		wrong(j, "fork", "a child could do something");
	return true;
}

static bool move_guest(struct job *j)
{
	const char *role = draw_below(&j->common, 2) ? "rival" : "other";

	if (!quiet(j) || !*j->walk->program || j->walk->moments) /* a guest would outlive its host for a moment */
		return true;
	say(j, role, 0);
	if (j->rank == 0 && guest_run(j->walk, role) != 0)
		wrong(j, "guest", role);
	return true;
}

/* ------------------------------------------------------------------ going back */

/* After a restart that failed only what the program says on purpose leads on. */
static bool start_mismatch(struct job *j)
{
	uint64_t above = (j->last == NO_VERSION ? 0 : j->last + 1);
	size_t bytes = j->now->areas[0].bytes;
	int rc;

	j->now->areas[0].bytes = bytes - 8;
	rc = protect_all(j);
	if (rc == 0)
		rc = kedge_restart(j->k, KEDGE_NEWEST, NULL);
	j->now->areas[0].bytes = bytes;
	say(j, "mismatch", (uint64_t)-rc);
	if (rc == 0)
		wrong(j, "restart", "regions of another size were filled");
	if (rc == KEDGE_E_NOTFOUND && job_model(j)->top == MODEL_NONE)
		return protect_all(j) == 0 || j->life.errs;
	if (job_model(j)->top != MODEL_NONE && rc != KEDGE_E_MISMATCH && !(j->walk->ranks > 1 && rc == KEDGE_E_GROUP))
		failed(j, "restart with another size");
	if (j->life.errs)
		return false;
	if (protect_all(j) != 0)
		wrong(j, "protect", kedge_last_error(j->k));
	refused(j, above, "after a restart that failed");
	if (draw_below(&j->common, 2))
		return restart(j, KEDGE_NEWEST, job_model(j)->top);
	if (kedge_begin(j->k) != 0)
		wrong(j, "begin", kedge_last_error(j->k));
	say(j, "begin", 0);
	return true;
}

static bool start(struct job *j)
{
	const struct model *m = job_model(j);
	uint64_t kind = draw_below(&j->common, 20);

	if (kind < 3) {
		say(j, "no restart", 0);
		return protect_all(j) == 0 || (failed(j, "protect"), false);
	}
	if (kind < 6)
		return start_mismatch(j);
	if (kind < 9 && m->listed) {
		int node = m->list[draw_below(&j->common, (uint64_t)m->listed)];

		say(j, "restart", m->nodes[node].version);
		return restart(j, m->nodes[node].version, node);
	}
	say(j, "restart", m->top == MODEL_NONE ? NO_VERSION : m->nodes[m->top].version);
	return restart(j, KEDGE_NEWEST, m->top);
}

static bool move_restart(struct job *j)
{
	int node = j->tip;

	if (!quiet(j) || j->tip < j->first || j->tip < j->first_left || !settle(j))
		return true;
	if (j->run == MODEL_NONE &&
	    j->life.keep[0]) /* of what is left after others were discarded, KEEP may have left nothing */
		return true;
	if (draw_below(&j->common, 2) == 0 && j->run != MODEL_NONE) { /* else there may be newer ones */
		say(j, "restart newest", job_model(j)->nodes[node].version);
		return restart(j, KEDGE_NEWEST, node);
	}
	for (uint64_t back = draw_below(&j->common, 4); back > 0 && !j->life.keep[0]; back--) {
		int parent = job_model(j)->nodes[node].parent;

		if (parent >= j->first && parent >= j->first_left && !job_model(j)->nodes[parent].racing)
			node = parent;
	}
	say(j, "restart", job_model(j)->nodes[node].version);
	return restart(j, job_model(j)->nodes[node].version, node);
}

static bool move_discard(struct job *j)
{
	struct model *m = job_model(j);
	uint64_t from = j->last == NO_VERSION ? 0 : j->last - draw_below(&j->common, 4) % (j->last + 1);
	int rc;

	if (draw_below(&j->common, 5) == 0)
		from = 0;
	if (!quiet(j) || !settle(j))
		return true;
	gather(j); /* nobody begins before all are settled in the model */
	say(j, "discard", from);
	for (int i = 0; i < 2 * m->count && j->rank == 0; i++) {
		struct node *n = &m->nodes[i / 2];

		if (n->version < from)
			continue;
		n->was[i % 2] = n->was[i % 2] || n->sure[i % 2];
		n->sure[i % 2] = false;
	}
	rc = kedge_discard(j->k, from, KEDGE_LEVEL_1 | (j->walk->second_level ? KEDGE_LEVEL_2 : 0));
	if (rc) {
		failed(j, "discard");
		return false;
	}
	for (int i = 0; i < m->count && j->rank == 0; i++)
		m->nodes[i].gone = m->nodes[i].gone || m->nodes[i].version >= from;
	if (j->fresh || (j->last != NO_VERSION && j->last >= from)) {
		j->tip = model_below(m, j->tip, from);
		j->last = from ? from - 1 : NO_VERSION;
		j->again = j->fresh = false;
		j->floor = 0;
		j->run = MODEL_NONE;
	}
	return true;
}

/* ------------------------------------------------------------------ levels that come and go under a running process */

static bool move_purge(struct job *j)
{
	int rank = j->walk->own_first ? (int)draw_below(&j->common, (uint64_t)j->walk->ranks) : 0;
	char path[FILES_PATH];

	if (!quiet(j) || j->tip < j->first || !settle(j))
		return true;
	gather(j);
	say(j, "purge", (uint64_t)rank);
	if (j->rank == 0)
		first_level_lost(j->walk);
	gather(j);
	if (j->rank == rank) {
		first_level_path(j->walk, rank, path);
		tree_remove(path);
	}
	j->purged = true;
	j->first_left = j->next;
	gather(j);
	return true;
}

/* What this life brought there and went back behind, and what it follows, which may have come there with it, let keep
 * remove others, too: the judge, who looks there again in another life, has to count it. */
static void second_was(struct model *m)
{
	for (int i = 0; i < m->count; i++)
		if (i >= m->first || model_has(m, m->count - 1, i))
			m->nodes[i].was[1] = true;
}

static bool move_second(struct job *j)
{
	bool back = j->away;

	if (!j->walk->second_level || j->life.errs || j->damaged || j->tip < j->first)
		return true;
	(void)settle(j);
	gather(j);
	if (j->rank == 0 && back) {
		second_back(j->walk);
	} else if (j->rank == 0) {
		second_away(j->walk, draw_below(&j->life.state, 3));
		second_was(job_model(j));
	}
	gather(j);
	j->second_went = true;
	j->away = job_model(j)->second_away;
	back = back && !j->away;
	gather(j);
	for (int i = 0; i < j->next && back; i++)
		if (job_model(j)->nodes[i].sure[1] && job_model(j)->nodes[i].epoch > j->epoch)
			j->epoch = job_model(j)->nodes[i].epoch;
	if (back)
		j->run = MODEL_NONE;
	return true;
}

/* ------------------------------------------------------------------ what comes when */

static bool move_next(struct job *j)
{
	uint64_t version = next_number(j);

	say(j, "take", version);
	return take(j, version, false);
}

static bool move_again(struct job *j)
{
	if (!j->again || (j->life.errs && !j->life.sync)) /* whether it was replaced would not be known */
		return move_next(j);
	say(j, "take again", j->last);
	return take(j, j->last, false);
}

static bool move_racing(struct job *j)
{
	uint64_t version = next_number(j);

	if (!j->life.sync || j->life.errs || !j->now->areas[MEMORY_AREAS - 1].bytes)
		return move_next(j);
	say(j, "take racing", version);
	return take(j, version, true);
}

static bool move_settle(struct job *j)
{
	say(j, "wait", 0);
	(void)settle(j);
	return true;
}

static const struct {
	bool (*fn)(struct job *j);
	unsigned weight;
} choices[] = {
    {move_next, 40},   {move_again, 8}, {move_low, 8},   {move_settle, 12}, {move_restart, 8}, {move_racing, 6},
    {move_discard, 3}, {move_fork, 3},  {move_guest, 3}, {move_purge, 4},   {move_second, 5},
};

static bool move(struct job *j)
{
	uint64_t at = draw_below(&j->common, 100);
	size_t i = 0;

	while (at >= choices[i].weight)
		at -= choices[i++].weight;
	return choices[i].fn(j);
}

bool moves(struct job *j)
{
	bool goes_on = start(j);

	for (uint64_t i = 0; i < j->life.moves && goes_on; i++)
		goes_on = move(j);
	return goes_on;
}
