/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Remove old versions after a new one is sealed, according to `keep` and `l2_keep`. Nothing here makes a call fail.
 *
 * Nothing is removed in favour of a version that is not known to be intact. Versions published by this process are, as
 * long as no damage is found; versions that it found here are read once, in the background, when the first version
 * would be removed in their favour, and remembered. So a running job reads nothing, and a restarted one reads about its
 * newest KEEP versions once.
 */
#include "job/handle.h"

static int coalesce(kedge_t *k, int l, uint64_t version, uint64_t parent, struct kedge__error *err)
{
	struct kedge__catalog *cat = k->levels.at[l].flush;
	const struct kedge__catalog_entry *e;
	struct kedge__coalesce_options options = {
	    .version = version,
	    .onto = parent != KEDGE__NO_VERSION,
	    .parent = parent,
	    .keep_old = true, /* gc removes them, with regard to what newer versions refer to */
	    .no_wait = true,
	    .sync = k->set.sync,
	    .io = kedge__job_settings_io(&k->set),
	    .codec = k->codec,
	    .block_bytes = (uint32_t)k->set.block,
	};
	struct kedge__coalesce_report report = {0};
	int rc = kedge__coalesce(cat, NULL, &options, &report, err);

	e = rc ? NULL : kedge__catalog_find(cat, version);
	if (e && !e->problem.code) /* what is written was proved */
		kedge__trust_add(k->levels.trust[l], &e->set);
	return rc;
}

/* What the level holds now, and what is to be rewritten there. */
static int fold_find(kedge_t *k, int l, size_t keep, struct kedge__fold *fold, struct kedge__error *err)
{
	struct kedge__holdings held = {0}, l2 = {0};
	bool deltas = l == KEDGE__L1 && k->levels.at[KEDGE__L2].on && k->set.coalesce != KEDGE__COALESCE_NEVER;
	int rc = kedge__holdings_read(&held, k->levels.at[l].flush, (uint32_t)k->group.size, NULL, 0, err);

	if (!rc && deltas && !kedge__levels_copy_l2(k, &l2))
		rc = kedge__error_nomem(err);
	if (!rc)
		*fold = kedge__retention_fold(&held, deltas ? &l2 : NULL, keep);
	kedge__holdings_done(&held);
	kedge__holdings_done(&l2);
	return rc;
}

static int trim(kedge_t *k, int l, size_t keep, struct kedge__error *err)
{
	const struct kedge__gc_options options = {
	    .keep = keep, .trust = k->levels.trust[l], .brief = true, .no_wait = true};
	struct kedge__catalog *cat = k->levels.at[l].flush;
	struct kedge__gc_report report = {0};
	struct kedge__fold fold;
	int rc = kedge__catalog_scan(cat, err);

	if (rc || kedge__catalog_count(cat) <= keep)
		return rc;
	rc = kedge__gc_with(cat, &options, &report, err);
	kedge__gc_report_done(&report);
	if (!rc)
		rc = kedge__catalog_scan(cat, err);
	if (rc || !k->levels.at[l].one_for_all)
		return rc;
	rc = fold_find(k, l, keep, &fold, err);
	if (!rc && fold.bottom != KEDGE__NO_VERSION)
		rc = coalesce(k, l, fold.bottom, KEDGE__NO_VERSION, err);
	if (!rc && fold.version != KEDGE__NO_VERSION)
		rc = coalesce(k, l, fold.version, fold.onto, err);
	return rc;
}

/* Others may have a level pinned, and wait for this rank meanwhile: nobody waits for them here. */
bool kedge__trim(kedge_t *k)
{
	const int64_t keep[KEDGE__LEVELS] = {k->set.keep, k->set.l2_keep};
	bool done = true;

	for (int l = 0; l < KEDGE__LEVELS; l++) {
		struct kedge__error err = KEDGE__ERROR_INIT;
		int rc = 0;

		if (keep[l] > 0 && k->levels.at[l].on && k->levels.at[l].leads)
			rc = trim(k, l, (size_t)keep[l], &err);
		if (rc == KEDGE_E_LOCKED)
			done = false;
		else if (rc)
			kedge__log(KEDGE_LOG_WARNING, "old versions stay on L%d: %s", l + 1, kedge__error_text(&err));
		kedge__error_done(&err);
	}
	if (k->levels.at[KEDGE__L2].on && k->levels.at[KEDGE__L2].leads)
		kedge__levels_sync_l2(k);
	return done;
}
