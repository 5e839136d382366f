/*
 * Runs: which versions a new one follows, and which it leaves behind (FORMAT.md, "Runs").
 *
 * A run begins with the first version that a process takes after it was opened, restarted, or discarded versions. From
 * the moment that this version is published, what does not belong to its history is abandoned, on every level: on those
 * that can be reached it is removed, on the others it will be known for what it is. Until then nothing has changed.
 *
 * No version is abandoned because of a number alone: a number that would leave stored versions behind is refused unless
 * the process restarted below them or discarded them.
 */
#include "job/handle.h"

#include <errno.h>
#include <sys/random.h>

void kedge__job_run_done(struct kedge__job_run *run)
{
	kedge__run_done(&run->is);
	kedge__run_done(&run->next);
	kedge__run_done(&run->from);
}

/* ------------------------------------------------------------------ the present run, of all that the ranks can see */

struct head_msg {
	struct kedge__say say;
	uint64_t epoch, created_ns, id, links;
	struct kedge__run_draw drawn; /* rank 0's is for the next run */
};

static bool head_before(const struct head_msg *a, const struct head_msg *b)
{
	if (a->epoch != b->epoch)
		return a->epoch < b->epoch;
	return a->created_ns != b->created_ns ? a->created_ns < b->created_ns : a->id < b->id;
}

static uint64_t id_draw(void)
{
	uint64_t id = 0;

	while (!id) {
		if (getrandom(&id, sizeof(id), 0) != (ssize_t)sizeof(id) && errno != EINTR)
			id = kedge__clock_wall_ns() * UINT64_C(0x9e3779b97f4a7c15) | 1;
	}
	return id;
}

/* The links of rank WINNER's run reach those that have another one. */
static int links_share(kedge_t *k, int winner, size_t links, struct kedge__run *run, struct kedge__error *err)
{
	size_t bytes = (links + 1) * sizeof(*run->links);
	struct kedge__run_link *copy = kedge__calloc(links + 1, sizeof(*copy));
	void *slot, *all;
	int rc = kedge__channel_begin(&k->front, bytes, &slot, err);

	if (!rc) {
		if (k->group.rank == winner && links)
			memcpy(slot, run->links, links * sizeof(*run->links));
		rc = kedge__channel_gather(&k->front, bytes, &all, err);
	}
	if (!rc && copy)
		memcpy(copy, (const char *)all + (size_t)winner * bytes, links * sizeof(*copy));
	if (!rc)
		rc = kedge__agree(&k->front, KEDGE__STEP_OWN, 1, copy ? 0 : kedge__error_nomem(err), NULL, err);
	if (rc) {
		kedge__free(copy);
		return rc;
	}
	kedge__free(run->links);
	run->links = copy;
	run->link_count = links;
	return 0;
}

static int head_choose(kedge_t *k, const struct head_msg *all, struct kedge__run *run, struct kedge__error *err)
{
	int winner = 0;
	bool same = true;

	for (int r = 1; r < k->group.size; r++) {
		if (head_before(&all[winner], &all[r]))
			winner = r;
		same = same && all[r].id == all[0].id;
	}
	run->epoch = all[winner].epoch;
	run->id = all[winner].id;
	return same ? 0 : links_share(k, winner, (size_t)all[winner].links, run, err);
}

int kedge__run_present(kedge_t *k, struct kedge__catalog *const *levels, size_t n, int rc, struct kedge__run *present,
		       struct kedge__run_draw *drawn, struct kedge__error *err)
{
	const struct kedge__set *head = rc ? NULL : kedge__history_head(levels, n);
	struct kedge__run run = {0};
	struct head_msg *own;
	void *slot, *all;

	if (head)
		rc = kedge__run_copy(&head->run, &run, err);
	(void)kedge__channel_begin(&k->front, sizeof(*own), &slot, NULL); /* there is always room */
	own = slot;
	kedge__say_set(&own->say, KEDGE__STEP_OWN, 0, rc, err);
	own->epoch = run.epoch;
	own->created_ns = head ? head->created_ns : 0;
	own->id = run.id;
	own->links = run.link_count;
	own->drawn = (struct kedge__run_draw){id_draw(), kedge__clock_wall_ns()};
	if (!rc)
		rc = kedge__channel_gather(&k->front, sizeof(*own), &all, err);
	else
		(void)kedge__channel_gather(&k->front, sizeof(*own), &all, NULL);
	if (!rc)
		rc = kedge__say_judge(&k->front, all, sizeof(*own), err);
	if (!rc) {
		*drawn = ((const struct head_msg *)all)->drawn;
		rc = head_choose(k, all, &run, err);
	}
	if (rc)
		kedge__run_done(&run);
	else
		*present = run;
	return rc;
}

/* ------------------------------------------------------------------ what a version may follow */

/* The newest version below LIMIT that belongs to RUN on any level of this rank, plus 1; 0: there is none. */
static uint64_t newest_after(const struct kedge__run *run, struct kedge__catalog *const *levels, size_t n,
			     uint64_t limit)
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

struct newest_msg {
	struct kedge__say say;
	uint64_t after;
};

static int newest_agree(kedge_t *k, uint64_t version, uint64_t *after, int rc, struct kedge__error *err)
{
	struct newest_msg *own;
	void *slot, *all;
	int met;

	(void)kedge__channel_begin(&k->front, sizeof(*own), &slot, NULL); /* there is always room */
	own = slot;
	kedge__say_set(&own->say, KEDGE__STEP_OWN, version, rc, err);
	own->after = *after;
	met = kedge__channel_gather(&k->front, sizeof(*own), &all, rc ? NULL : err);
	if (!met)
		met = kedge__say_judge(&k->front, all, sizeof(*own), rc ? NULL : err);
	for (int r = 0; !rc && !met && r < k->group.size; r++)
		*after = KEDGE__MAX(*after, ((const struct newest_msg *)all)[r].after);
	return rc ? rc : met;
}

static int refuse(const kedge_t *k, uint64_t version, uint64_t newest, struct kedge__error *err)
{
	return kedge__error_set(
	    err, KEDGE_E_STATE, 0,
	    "version %llu of %s is refused: versions up to %llu are stored, and this process did not restart from "
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
		struct kedge__catalog *cat = k->level[l].on ? k->level[l].write : k->level[l].api;
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

int kedge__run_begin(kedge_t *k, uint64_t version, struct kedge__error *err)
{
	struct kedge__catalog *levels[KEDGE__LEVELS];
	struct kedge__run present = {0}, next = {0};
	const struct kedge__run *base;
	struct kedge__run_draw drawn = {0, 0};
	uint64_t after = 0;
	bool fresh = k->run.last == KEDGE__NO_VERSION && !k->run.placed;
	size_t n;
	int rc;

	kedge__chores_settle(k); /* what is replaced may be on its way to L2 */
	n = levels_scan(k, levels, &rc, err);
	rc = kedge__run_present(k, levels, n, rc, &present, &drawn, err);
	if (rc)
		return rc;
	base = base_find(k, &present);
	next.links = kedge__calloc(base->link_count + 1, sizeof(*next.links));
	rc = next.links ? 0 : kedge__error_nomem(err);
	if (fresh)
		after = newest_after(&present, levels, n, KEDGE__NO_VERSION);
	else if (k->run.last != KEDGE__NO_VERSION)
		after = k->run.last + 1;
	else if (k->run.from_version != KEDGE__NO_VERSION)
		after = k->run.from_version + 1;
	rc = newest_agree(k, version, &after, rc, err);
	if (!rc && fresh && version < after)
		rc = refuse(k, version, after - 1, err);
	if (!rc) {
		kedge__run_follow(base, after ? after - 1 : KEDGE__NO_VERSION, version, drawn.id, &next);
		/* Above all that is known; of what is on a level that is away the clock knows more than a count does.
		 */
		next.epoch = KEDGE__MAX(KEDGE__MAX(present.epoch, base->epoch) + 1, drawn.ns);
		kedge__run_done(&k->run.next);
		k->run.next = next;
		next.links = NULL;
	}
	kedge__run_done(&next);
	kedge__run_done(&present);
	return rc;
}

/* ------------------------------------------------------------------ what becomes of it */

void kedge__run_sweep(const kedge_t *k, int l, struct kedge__catalog *cat, const struct kedge__run *run, uint64_t first)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	size_t removed = 0;

	if (kedge__history_sweep(cat, run, first, &removed, &err))
		kedge__log(KEDGE_LOG_WARNING, "abandoned versions of %s stay on L%d; they will not be used: %s",
			   k->name, l + 1, kedge__error_text(&err));
	if (removed)
		kedge__log(KEDGE_LOG_NOTICE, "%s: %zu abandoned version%s removed from L%d", k->name, removed,
			   removed == 1 ? " was" : "s were", l + 1);
	kedge__error_done(&err);
}

/* Collective. */
void kedge__run_published(kedge_t *k, uint64_t version)
{
	bool first = kedge__run_due(k, version);

	if (first) {
		kedge__run_done(&k->run.is);
		k->run.is = k->run.next;
		k->run.next = (struct kedge__run){0};
	}
	k->run.last = version;
	if (!first)
		return;
	for (int l = 0; l < KEDGE__LEVELS; l++) {
		if (k->level[l].on && k->level[l].leads)
			kedge__run_sweep(k, l, k->level[l].write, &k->run.is, version);
	}
	/* All ranks plan by what they find. */
	(void)kedge__agree(&k->front, KEDGE__STEP_OWN, version, 0, NULL, NULL);
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
	struct kedge__catalog *levels[KEDGE__LEVELS];
	struct kedge__run present = {0};
	struct kedge__run_draw drawn;
	uint64_t after = 0;
	size_t n;
	int rc;

	n = levels_scan(k, levels, &rc, err);
	rc = kedge__run_present(k, levels, n, rc, &present, &drawn, err);
	if (rc)
		return rc;
	rc = kedge__run_copy(base_find(k, &present), &cut->run, err);
	if (!rc) {
		cut->run.epoch = KEDGE__MAX(cut->run.epoch, present.epoch);
		after = newest_after(&cut->run, levels, n, from);
	}
	rc = newest_agree(k, from, &after, rc, err);
	cut->floor = after;
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
	}
	pthread_mutex_unlock(&k->lock);
	return 0;
}
