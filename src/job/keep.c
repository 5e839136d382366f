/*
 * keep: old versions go after a new one is complete. With list and tree, new versions refer to the first occurrence of
 * their data, however old: gc alone would remove nothing. So now and then the newest version is made to stand alone,
 * and from then on new versions refer to nothing below it (kedge__keep_alive()). What was kept for the lineage goes
 * when the last version that refers to it does: the store holds no more than about twice KEEP versions and the slack
 * below. Nothing here is worth failing for.
 *
 * Nothing goes in favour of a version that is not known to be good. What this process published is, as long as nothing
 * is found damaged; what it found here is read once, in the background, when the first version would go in its favour,
 * and remembered (k->trust). So a running job reads nothing, and one that was restarted about its newest KEEP versions
 * once.
 *
 * Where L2 gets deltas, L1 must still tell what came since the newest version there, the pivot. So it is the pivot that
 * stands alone, and the newest version becomes a delta to it; versions between the two go.
 */
#include "job/handle.h"

size_t kedge__keep_slack(size_t keep)
{
	return KEDGE__MAX(keep / 2, 4);
}

static bool stands_alone(const struct kedge__catalog_entry *e)
{
	return !e->problem.code && e->set.parent == KEDGE__NO_VERSION && !e->set.source_count;
}

/* By coalescing a delta to VERSION, which stands alone. */
static bool stands_on(const struct kedge__catalog_entry *e, uint64_t version)
{
	return !e->problem.code && e->set.reducer == KEDGE__REDUCER_MERGED && e->set.source_count == 1 &&
	       e->set.sources[0] == version;
}

/* Of the newest version that stands alone, KEDGE__NO_VERSION if none does, and of the newest that stands on it. */
static void bottom_find(const struct kedge__catalog *cat, uint64_t *alone, uint64_t *on)
{
	size_t i = kedge__catalog_count(cat);

	*alone = *on = KEDGE__NO_VERSION;
	while (i && !stands_alone(kedge__catalog_at(cat, i - 1)))
		i--;
	if (!i)
		return;
	*alone = *on = kedge__catalog_at(cat, i - 1)->version;
	for (size_t above = kedge__catalog_count(cat); above > i && *on == *alone; above--)
		if (stands_on(kedge__catalog_at(cat, above - 1), *alone))
			*on = kedge__catalog_at(cat, above - 1)->version;
}

size_t kedge__keep_alive(const kedge_t *k, struct kedge__set_key *list, size_t count)
{
	uint64_t alone, on;
	size_t kept = 0;

	if (k->set.keep <= 0)
		return count;
	bottom_find(k->level[KEDGE__L1].write, &alone, &on);
	for (size_t i = 0; i < count; i++) {
		if (alone == KEDGE__NO_VERSION || list[i].version == alone || list[i].version >= on)
			list[kept++] = list[i];
	}
	return kept;
}

/* Where no rank can coalesce for all, a version that stands alone must be taken as such. */
bool kedge__keep_anew(const kedge_t *k, size_t alive)
{
	size_t keep = (size_t)KEDGE__MAX(k->set.keep, 0);

	return keep && !k->level[KEDGE__L1].whole && alive > 2 * keep + kedge__keep_slack(keep);
}

static int coalesce(kedge_t *k, struct kedge__job_level *level, uint64_t version, uint64_t parent,
		    struct kedge__error *err)
{
	const struct kedge__catalog_entry *e;
	struct kedge__coalesce_options options = {
	    .version = version,
	    .onto = parent != KEDGE__NO_VERSION,
	    .parent = parent,
	    .keep_old = true, /* gc removes them, with regard to what newer versions refer to */
	    .sync = k->set.sync,
	    .io = kedge__job_settings_io(&k->set),
	    .codec = k->codec,
	    .block_bytes = (uint32_t)k->set.block,
	};
	struct kedge__coalesce_report report = {0};
	int rc = kedge__coalesce(level->flush, NULL, &options, &report, err);

	e = rc ? NULL : kedge__catalog_find(level->flush, version);
	if (e && !e->problem.code) /* what is written was proved */
		kedge__trust_add(k->trust[level - k->level], &e->set);
	return rc;
}

/* The newest version that L2 has, too: what goes there next is a delta to it. */
static uint64_t pivot_find(kedge_t *k, const struct kedge__job_level *level)
{
	const struct kedge__catalog *cat = level->flush;

	if (level != &k->level[KEDGE__L1] || !k->level[KEDGE__L2].on || k->set.coalesce == KEDGE__COALESCE_NEVER ||
	    kedge__catalog_scan(k->level[KEDGE__L2].flush, NULL))
		return KEDGE__NO_VERSION;
	for (size_t i = kedge__catalog_count(cat); i; i--) {
		uint64_t version = kedge__catalog_at(cat, i - 1)->version;

		if (kedge__flush_on_l2(k, version))
			return version;
	}
	return KEDGE__NO_VERSION;
}

/* Gc needs no help, only time: newer versions will not refer below what was coalesced not long ago. */
static bool bottom_is_new(const struct kedge__catalog *cat, size_t keep)
{
	uint64_t alone, on;

	bottom_find(cat, &alone, &on);
	return alone != KEDGE__NO_VERSION && on >= kedge__catalog_at(cat, kedge__catalog_count(cat) - keep)->version;
}

static int lift_bottom(kedge_t *k, struct kedge__job_level *level, struct kedge__error *err)
{
	struct kedge__catalog *cat = level->flush;
	uint64_t newest = kedge__catalog_at(cat, kedge__catalog_count(cat) - 1)->version;
	uint64_t pivot = pivot_find(k, level);
	int rc = 0;

	if (pivot == KEDGE__NO_VERSION || pivot == newest)
		return coalesce(k, level, newest, KEDGE__NO_VERSION, err);
	if (!stands_alone(kedge__catalog_find(cat, pivot)))
		rc = coalesce(k, level, pivot, KEDGE__NO_VERSION, err);
	return rc ? rc : coalesce(k, level, newest, pivot, err);
}

static int trim(kedge_t *k, struct kedge__job_level *level, size_t keep, struct kedge__error *err)
{
	const struct kedge__gc_options options = {.keep = keep, .trust = k->trust[level - k->level]};
	struct kedge__catalog *cat = level->flush;
	struct kedge__gc_report report = {0};
	size_t count;
	int rc = kedge__catalog_scan(cat, err);

	count = kedge__catalog_count(cat);
	if (rc || count <= keep)
		return rc;
	rc = kedge__gc_with(cat, &options, &report, err);
	kedge__gc_report_done(&report);
	if (!rc)
		rc = kedge__catalog_scan(cat, err);
	count = kedge__catalog_count(cat);
	if (rc || !level->whole || count <= keep + kedge__keep_slack(keep) || bottom_is_new(cat, keep))
		return rc;
	return lift_bottom(k, level, err);
}

/* Versions that still wait for L2 must not leave L1; the chore behind the last of them will do this one's work. */
static bool flush_waits(struct kedge__chore *c)
{
	bool waits = false;

	pthread_mutex_lock(&c->k->state_lock);
	for (const struct kedge__chore *next = c->next; next; next = next->next)
		waits = waits || next->kind == KEDGE__CHORE_FLUSH;
	pthread_mutex_unlock(&c->k->state_lock);
	return waits;
}

void kedge__keep_local(struct kedge__chore *c)
{
	kedge_t *k = c->k;
	const int64_t keep[KEDGE__LEVELS] = {k->set.keep, k->set.l2_keep};

	if (flush_waits(c))
		return;
	for (int l = 0; l < KEDGE__LEVELS; l++) {
		struct kedge__error err = KEDGE__ERROR_INIT;

		if (keep[l] > 0 && k->level[l].on && k->level[l].leads && trim(k, &k->level[l], (size_t)keep[l], &err))
			kedge__log(KEDGE_LOG_WARNING, "old versions stay on L%d: %s", l + 1, kedge__error_text(&err));
		kedge__error_done(&err);
	}
}
