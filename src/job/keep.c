/*
 * keep: old versions go after a new one is complete. With list and tree, new versions refer to the first occurrence of
 * their data, however old: gc alone would remove nothing. So now and then the oldest version that stays is made to
 * stand alone, and from then on new versions refer to nothing below it (kedge__keep_floor()). What was kept for the
 * lineage goes when the last version that refers to it does: the store holds no more than about twice KEEP versions and
 * the slack below. Nothing here is worth failing for.
 */
#include "job/handle.h"

size_t kedge__keep_slack(size_t keep)
{
	return KEDGE__MAX(keep / 2, 4);
}

uint64_t kedge__keep_floor(const kedge_t *k)
{
	const struct kedge__catalog *cat = k->level[KEDGE__L1].write;

	if (k->set.keep <= 0)
		return 0;
	for (size_t i = kedge__catalog_count(cat); i; i--) {
		const struct kedge__catalog_entry *e = kedge__catalog_at(cat, i - 1);

		if (!e->problem.code && e->set.parent == KEDGE__NO_VERSION && !e->set.source_count)
			return e->version;
	}
	return 0;
}

/* Whether some version above VERSION stands alone, too: then gc needs no help, only time. */
static bool stands_alone_from(const struct kedge__catalog *cat, uint64_t version)
{
	for (size_t i = kedge__catalog_count(cat); i; i--) {
		const struct kedge__catalog_entry *e = kedge__catalog_at(cat, i - 1);

		if (e->version < version)
			return false;
		if (!e->problem.code && e->set.parent == KEDGE__NO_VERSION && !e->set.source_count)
			return true;
	}
	return false;
}

static int coalesce(kedge_t *k, struct kedge__catalog *cat, uint64_t version, struct kedge__error *err)
{
	struct kedge__coalesce_options options = {
	    .version = version,
	    .keep_old = true, /* gc removes them, with regard to what newer versions refer to */
	    .sync = k->set.sync,
	    .io = kedge__job_settings_io(&k->set),
	    .codec = k->codec,
	    .block_bytes = (uint32_t)k->set.block,
	};
	struct kedge__coalesce_report report = {0};

	return kedge__coalesce(cat, NULL, &options, &report, err);
}

static int trim(kedge_t *k, struct kedge__job_level *level, size_t keep, struct kedge__error *err)
{
	struct kedge__catalog *cat = level->flush;
	struct kedge__gc_report report = {0};
	uint64_t oldest;
	size_t count;
	int rc = kedge__catalog_scan(cat, err);

	count = kedge__catalog_count(cat);
	if (rc || count <= keep)
		return rc;
	rc = kedge__gc(cat, keep, false, &report, err);
	kedge__gc_report_done(&report);
	if (!rc)
		rc = kedge__catalog_scan(cat, err);
	count = kedge__catalog_count(cat);
	if (rc || !level->whole || count <= keep + kedge__keep_slack(keep))
		return rc;
	oldest = kedge__catalog_at(cat, count - keep)->version;
	if (stands_alone_from(cat, oldest))
		return 0;
	return coalesce(k, cat, oldest, err);
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
