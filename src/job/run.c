/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs: which versions a new one follows, and which it abandons (FORMAT.md, "Runs").
 *
 * A run begins with the first version that a process takes after it opened the job, restarted, or discarded versions.
 * Once that version is published, every version that does not belong to its history is abandoned, on every level: where
 * it can be reached it is removed, elsewhere it will be recognized later. Until then nothing has changed.
 *
 * A number alone never abandons a version: a number that would leave stored versions behind is refused unless the
 * process restarted below them or discarded them.
 */
#include "job/handle.h"

#include <errno.h>
#include <sys/random.h>

void kedge__job_run_init(struct kedge__job_run *run)
{
	*run = (struct kedge__job_run){.last = KEDGE__NO_VERSION, .from_version = KEDGE__NO_VERSION};
}

void kedge__run_refuse(kedge_t *k, int rc)
{
	k->run.refused = rc;
}

void kedge__job_run_done(struct kedge__job_run *run)
{
	kedge__run_done(&run->is);
	kedge__run_done(&run->next);
	kedge__run_done(&run->from);
	kedge__run_done(&run->present);
}

/* ------------------------------------------------------------------ the present run, of all that the ranks can see */

static uint64_t id_draw(void)
{
	uint64_t id = 0;

	while (!id) {
		if (getrandom(&id, sizeof(id), 0) != (ssize_t)sizeof(id) && errno != EINTR)
			id = kedge__clock_wall_ns() * UINT64_C(0x9e3779b97f4a7c15) | 1;
	}
	return id;
}

static struct kedge__run_draw run_draw(void)
{
	return (struct kedge__run_draw){id_draw(), kedge__clock_wall_ns()};
}

/* The present run as this rank sees it on LEVELS: a copy in RUN, and in HEAD for the others. */
static int head_see(const kedge_t *k, struct kedge__catalog *const *levels, size_t n, struct kedge__run *run,
		    struct kedge__run_head *head, struct kedge__error *err)
{
	const struct kedge__set *latest = kedge__history_head(levels, n);
	int rc = latest ? kedge__run_copy(&latest->run, run, err) : 0;

	*head = (struct kedge__run_head){.epoch = run->epoch,
					 .created_ns = latest ? latest->created_ns : 0,
					 .id = run->id,
					 .links = run->link_count,
					 .rank = k->group.rank};
	return rc;
}

/* Where ranks see different runs, the latest one's links reach all. Collective then. */
static int head_take(kedge_t *k, const struct kedge__run_head *head, struct kedge__run *run, struct kedge__error *err)
{
	struct kedge__run_link *links;
	size_t bytes = (size_t)head->links * sizeof(*links);
	int rc, agreed;

	if (!head->differ)
		return 0;
	links = kedge__calloc((size_t)head->links + 1, sizeof(*links));
	if (links && run->id == head->id && run->link_count == head->links && bytes)
		memcpy(links, run->links, bytes);
	rc = links ? 0 : kedge__error_nomem(err);
	agreed = kedge__share(&k->channels.front, head->rank, links, bytes, rc ? NULL : err);
	agreed = kedge__agree(&k->channels.front, KEDGE__STEP_SHARE, 0, rc ? rc : agreed, NULL, err);
	if (agreed) {
		kedge__free(links);
		return agreed;
	}
	kedge__free(run->links);
	*run = (struct kedge__run){head->id, head->epoch, links, (size_t)head->links};
	return 0;
}

int kedge__run_present(kedge_t *k, enum kedge__step step, uint64_t version, struct kedge__catalog *const *levels,
		       size_t n, int rc, union kedge__msg *msg, struct kedge__run *present, struct kedge__error *err)
{
	struct kedge__run run = {0};

	if (!rc)
		rc = head_see(k, levels, n, &run, &msg->restart.run, err);
	rc = kedge__exchange(&k->channels.front, step, version, rc, msg, err);
	if (!rc)
		rc = head_take(k, &msg->restart.run, &run, err);
	if (rc)
		kedge__run_done(&run);
	else
		*present = run;
	return rc;
}

/* ------------------------------------------------------------------ what a version may follow */

uint64_t kedge__run_after(const struct kedge__run *run, struct kedge__catalog *const *levels, size_t n, uint64_t limit)
{
	uint64_t after = 0;

	for (size_t l = 0; l < n; l++) {
		for (size_t i = 0; i < kedge__catalog_count(levels[l]); i++) {
			const struct kedge__catalog_entry *e = kedge__catalog_at(levels[l], i);

			/* What cannot be read may be the newest: its number is not free. */
			if (e->version < limit && (e->problem.code || kedge__history_has(run, &e->set)))
				after = KEDGE__MAX(after, e->version + 1);
		}
	}
	return after;
}

static int refuse(const kedge_t *k, uint64_t version, uint64_t newest, struct kedge__error *err)
{
	return kedge__error_set(
	    err, KEDGE_E_STATE, 0,
	    "version %llu of %s is refused: versions up to %llu are stored, and this process has not restarted from "
	    "them. Call kedge_restart() first, use numbers above %llu, or remove the stored versions with "
	    "kedge_discard()",
	    (unsigned long long)version, k->name, (unsigned long long)newest, (unsigned long long)newest);
}

static int refuse_lower(const kedge_t *k, uint64_t version, uint64_t than, const char *what, struct kedge__error *err)
{
	return kedge__error_set(err, KEDGE_E_STATE, 0,
				"version %llu of %s is refused: it is below version %llu, %s. Restart from an older "
				"version, or remove versions with kedge_discard(), to go back",
				(unsigned long long)version, k->name, (unsigned long long)than, what);
}

int kedge__run_check(const kedge_t *k, uint64_t version, struct kedge__error *err)
{
	const struct kedge__job_run *run = &k->run;

	if (run->refused)
		return kedge__error_set(
		    err, KEDGE_E_STATE, 0,
		    "version %llu of %s is refused: the last kedge_restart() failed (%s). Mend the cause and restart, "
		    "or "
		    "call kedge_begin() to go on without what is stored, or kedge_discard() to remove it",
		    (unsigned long long)version, k->name, kedge_strerror(run->refused));
	if (run->last != KEDGE__NO_VERSION && version < run->last)
		return refuse_lower(k, version, run->last, "which this process took", err);
	if (run->last == KEDGE__NO_VERSION && run->placed && version < run->floor)
		return refuse_lower(k, version, run->floor, "the lowest that may follow what is stored", err);
	return 0;
}

bool kedge__run_due(const kedge_t *k, uint64_t version)
{
	return k->run.last == KEDGE__NO_VERSION || k->run.last == version;
}

/* L2 that cannot be read has no say: what it has will be known for what it is when it is back. */
static size_t levels_scan(kedge_t *k, struct kedge__catalog *out[KEDGE__LEVELS], int *rc, struct kedge__error *err)
{
	size_t n = 0;

	*rc = 0;
	for (int l = 0; l < KEDGE__LEVELS; l++) {
		struct kedge__error problem = KEDGE__ERROR_INIT;
		struct kedge__catalog *cat = k->levels.at[l].on ? k->levels.at[l].write : k->levels.at[l].api;
		int failed = cat ? kedge__catalog_scan(cat, &problem) : 0;

		if (cat && !failed)
			out[n++] = cat;
		if (failed && l == KEDGE__L2) {
			kedge__log(KEDGE_LOG_WARNING, "L2 cannot be read: %s", kedge__error_text(&problem));
		} else if (failed) {
			*rc = failed;
			kedge__error_move(err, &problem);
		}
		kedge__error_done(&problem);
	}
	return n;
}

/* What the new run follows: what was restarted from, what this process took, or the newest there is. */
static const struct kedge__run *base_find(const kedge_t *k, const struct kedge__run *present)
{
	if (k->run.last != KEDGE__NO_VERSION)
		return &k->run.is;
	return k->run.placed ? &k->run.from : present;
}

/* The run of VERSION as this rank would have it, in k->run.next; what is rank 0's to choose comes with the message. */
static int next_make(kedge_t *k, uint64_t version, const struct kedge__run *present, uint64_t after,
		     struct kedge__error *err)
{
	const struct kedge__run *base = base_find(k, present);
	struct kedge__run next = {.links = kedge__calloc(base->link_count + 1, sizeof(*next.links))};

	if (!next.links)
		return kedge__error_nomem(err);
	kedge__run_follow(base, after ? after - 1 : KEDGE__NO_VERSION, version, 0, &next);
	next.epoch = KEDGE__MAX(present->epoch, base->epoch) + 1;
	kedge__run_done(&k->run.next);
	k->run.next = next;
	return 0;
}

static bool is_fresh(const kedge_t *k)
{
	return k->run.last == KEDGE__NO_VERSION && !k->run.placed;
}

/* What the run follows, plus 1; 0: nothing. */
static uint64_t after_find(const kedge_t *k, const struct kedge__run *present, struct kedge__catalog *const *levels,
			   size_t n)
{
	if (is_fresh(k))
		return kedge__run_after(present, levels, n, KEDGE__NO_VERSION);
	if (k->run.last != KEDGE__NO_VERSION)
		return k->run.last + 1;
	return k->run.from_version != KEDGE__NO_VERSION ? k->run.from_version + 1 : 0;
}

/* A process that has neither restarted nor taken a version has to look, and ask the others. */
int kedge__run_next(kedge_t *k, uint64_t *version, struct kedge__error *err)
{
	struct kedge__catalog *levels[KEDGE__LEVELS];
	union kedge__msg msg = {.begin = {.after = 0}};
	struct kedge__run seen = {0};
	uint64_t after;
	size_t n;
	int rc = 0;

	if (is_fresh(k)) {
		n = levels_scan(k, levels, &rc, err);
		if (!rc)
			rc = head_see(k, levels, n, &seen, &msg.begin.run, err);
		if (!rc)
			msg.begin.after = kedge__run_after(&seen, levels, n, KEDGE__NO_VERSION);
		kedge__run_done(&seen);
		rc = kedge__exchange(&k->channels.front, KEDGE__STEP_BEGIN, KEDGE_NEXT, rc, &msg, err);
		after = msg.begin.after;
	} else {
		after = KEDGE__MAX(after_find(k, NULL, NULL, 0), k->run.floor);
	}
	if (!rc)
		*version = KEDGE__MAX(after, 1);
	return rc;
}

int kedge__run_prepare(kedge_t *k, uint64_t version, struct kedge__begin_msg *msg, struct kedge__error *err)
{
	struct kedge__catalog *levels[KEDGE__LEVELS];
	size_t n;
	int rc;

	if (!kedge__run_due(k, version))
		return 0;
	n = levels_scan(k, levels, &rc, err);
	kedge__run_done(&k->run.present);
	if (!rc)
		rc = head_see(k, levels, n, &k->run.present, &msg->run, err);
	if (!rc) {
		msg->drawn = run_draw();
		msg->after = after_find(k, &k->run.present, levels, n);
		rc = next_make(k, version, &k->run.present, msg->after, err);
	}
	return rc;
}

/* Ranks saw different runs: what some took for the newest version may have been abandoned by the run that is the
 * present one. */
static int after_agree(kedge_t *k, uint64_t version, uint64_t *after, struct kedge__error *err)
{
	struct kedge__catalog *levels[KEDGE__LEVELS];
	size_t n = kedge__levels_list(k, true, levels);
	union kedge__msg msg = {.begin = {.after = 0}};
	int rc;

	msg.begin.after = after_find(k, &k->run.present, levels, n);
	rc = kedge__exchange(&k->channels.front, KEDGE__STEP_BEGIN, version, 0, &msg, err);
	*after = msg.begin.after;
	return rc;
}

/* *CHANGED: another run is followed than this rank thought. */
int kedge__run_agreed(kedge_t *k, uint64_t version, const struct kedge__begin_msg *msg, bool *changed,
		      struct kedge__error *err)
{
	struct kedge__job_run *run = &k->run;
	uint64_t after = msg->after;
	int rc;

	if (!kedge__run_due(k, version))
		return 0;
	rc = head_take(k, &msg->run, &run->present, err);
	if (!rc && msg->run.differ)
		rc = after_agree(k, version, &after, err);
	if (!rc && is_fresh(k) && version < after)
		rc = refuse(k, version, after - 1, err);
	if (!rc && msg->run.differ)
		rc = kedge__agree(&k->channels.front, KEDGE__STEP_SHARE, 1,
				  next_make(k, version, &run->present, after, err), NULL, err);
	if (rc)
		return rc;
	if (is_fresh(k) && run->next.link_count) /* other ranks may have newer versions of the same run */
		run->next.links[0].until = KEDGE__MIN(after, version) - 1;
	*changed = *changed || msg->run.differ;
	run->next.id = msg->drawn.id;
	/* Above all that is known; of what is on a level that is away the clock knows more than a count does. */
	run->next.epoch = KEDGE__MAX(run->next.epoch, msg->drawn.ns);
	return 0;
}

/* ------------------------------------------------------------------ what becomes of it */

void kedge__run_sweep(const kedge_t *k, int l, struct kedge__catalog *cat, const struct kedge__run *run, uint64_t first,
		      const struct kedge__run *replaced)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	size_t removed = 0;

	if (kedge__history_sweep(cat, run, first, replaced, &removed, &err))
		kedge__log(KEDGE_LOG_WARNING, "abandoned versions of %s stay on L%d; they will not be used: %s",
			   k->name, l + 1, kedge__error_text(&err));
	if (removed)
		kedge__log(KEDGE_LOG_NOTICE, "%s: %zu abandoned version%s removed from L%d", k->name, removed,
			   removed == 1 ? " was" : "s were", l + 1);
	kedge__error_done(&err);
}

/* What VERSION replaces on L2 is what a restart finds if L1 is lost before a version of the new run gets there: it
 * stays until then. What the process went back behind does not. */
static const struct kedge__run *replaced_find(const struct kedge__job_run *run, const struct kedge__run *was,
					      uint64_t version)
{
	if (run->last == version)
		return was;
	return run->placed && run->from_version == version ? &run->from : NULL;
}

/* L2 is swept when the version gets there, if it is to: until then other ranks may be writing it. */
void kedge__run_published(kedge_t *k, uint64_t version, bool goes_to_l2)
{
	struct kedge__run was = k->run.is;
	const struct kedge__run *replaced = replaced_find(&k->run, &was, version);
	bool first = kedge__run_due(k, version);

	k->run.last = version;
	if (!first)
		return;
	k->run.is = k->run.next;
	k->run.next = (struct kedge__run){0};
	for (int l = 0; l < KEDGE__LEVELS; l++) {
		if (k->levels.at[l].on && k->levels.at[l].leads && !(l == KEDGE__L2 && goes_to_l2))
			kedge__run_sweep(k, l, k->levels.at[l].write, &k->run.is, version,
					 l == KEDGE__L2 ? replaced : NULL);
	}
	kedge__run_done(&was);
}

const struct kedge__run *kedge__run_of(const kedge_t *k, uint64_t version)
{
	return kedge__run_due(k, version) ? &k->run.next : &k->run.is;
}

void kedge__run_restarted(kedge_t *k, struct kedge__run *from, uint64_t version)
{
	kedge__job_run_done(&k->run);
	k->run = (struct kedge__job_run){.last = KEDGE__NO_VERSION,
					 .placed = true,
					 .from = *from,
					 .from_version = version,
					 .floor = version == KEDGE__NO_VERSION ? 0 : version};
	*from = (struct kedge__run){0};
	kedge__levels_restarted(k);
}

/* What L2 had when it was not seen may call itself later than this run: the next version begins one that is later
 * still. */
void kedge__run_renew(kedge_t *k)
{
	struct kedge__run is = k->run.is;
	uint64_t last = k->run.last;
	int refused = k->run.refused;

	if (last == KEDGE__NO_VERSION)
		return;
	k->run.is = (struct kedge__run){0};
	kedge__run_restarted(k, &is, last);
	k->run.refused = refused;
}

int kedge__run_discarding(kedge_t *k, uint64_t from, struct kedge__run_cut *cut, struct kedge__error *err)
{
	union kedge__msg msg = {.restart = {.after = 0}}, first = msg;
	struct kedge__catalog *levels[KEDGE__LEVELS];
	struct kedge__run present = {0};
	size_t n;
	int rc;

	n = levels_scan(k, levels, &rc, err);
	rc = kedge__run_present(k, KEDGE__STEP_DISCARD, from, levels, n, rc, &first, &present, err);
	if (rc)
		return rc;
	rc = kedge__run_copy(base_find(k, &present), &cut->run, err);
	if (!rc) {
		cut->run.epoch = KEDGE__MAX(cut->run.epoch, present.epoch);
		msg.restart.after = kedge__run_after(&cut->run, levels, n, from);
	}
	rc = kedge__exchange(&k->channels.front, KEDGE__STEP_DISCARD, from, rc, &msg, err);
	cut->floor = msg.restart.after;
	kedge__run_done(&present);
	return rc;
}

void kedge__run_discarded(kedge_t *k, uint64_t from, struct kedge__run_cut *cut)
{
	struct kedge__job_run *run = &k->run;
	uint64_t at = run->last != KEDGE__NO_VERSION ? run->last : run->from_version;

	run->refused = 0;
	if ((run->last == KEDGE__NO_VERSION && !run->placed) || (at != KEDGE__NO_VERSION && at >= from)) {
		/* What stays and cannot be seen now, on a level that is away, will count when it is back. */
		kedge__run_restarted(k, &cut->run, from ? from - 1 : KEDGE__NO_VERSION);
		run->floor = cut->floor;
	}
}

int kedge_begin(kedge_t *k)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	int rc = kedge__handle_check(k, &err);

	if (rc)
		return kedge__state_fail(k, rc, &err);
	pthread_mutex_lock(&k->lock);
	k->run.refused = 0;
	if (k->run.last == KEDGE__NO_VERSION) {
		kedge__run_done(&k->run.from);
		k->run.placed = false;
		kedge__levels_forget(k);
	}
	pthread_mutex_unlock(&k->lock);
	return 0;
}
