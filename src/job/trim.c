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

static struct kedge__coalesce_options coalesce_options(const kedge_t *k, uint64_t version, uint64_t parent)
{
	return (struct kedge__coalesce_options){
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
}

static int coalesce(kedge_t *k, int l, struct kedge__coalesce_options options, struct kedge__error *err)
{
	struct kedge__catalog *cat = k->levels.at[l].flush;
	const struct kedge__catalog_entry *e;
	struct kedge__coalesce_report report = {0};
	int rc = kedge__coalesce(cat, NULL, &options, &report, err);

	e = rc ? NULL : kedge__catalog_find(cat, options.version);
	if (e && !e->problem.code) /* what is written was proved */
		kedge__trust_add(k->levels.trust[l], &e->set);
	return rc;
}

/* What the level holds now, and what is to be rewritten there. */
static int fold_find(kedge_t *k, int l, size_t spare, bool now, struct kedge__fold *fold, struct kedge__error *err)
{
	struct kedge__holdings held = {0}, l2 = {0};
	bool deltas = l == KEDGE__L1 && k->levels.at[KEDGE__L2].on && k->set.coalesce != KEDGE__COALESCE_NEVER;
	int rc = kedge__holdings_read(&held, k->levels.at[l].flush, (uint32_t)k->group.size, NULL, 0, err);

	if (!rc && deltas && !kedge__levels_copy_l2(k, &l2))
		rc = kedge__error_nomem(err);
	if (!rc)
		*fold = kedge__retention_fold(&held, deltas ? &l2 : NULL, kedge__keep_recent(&k->levels.keep[l]), spare,
					      now);
	kedge__holdings_done(&held);
	kedge__holdings_done(&l2);
	return rc;
}

static int fold(kedge_t *k, int l, size_t spare, bool now, struct kedge__error *err)
{
	struct kedge__fold fold;
	int rc = fold_find(k, l, spare, now, &fold, err);

	if (!rc && fold.bottom != KEDGE__NO_VERSION)
		rc = coalesce(k, l, coalesce_options(k, fold.bottom, KEDGE__NO_VERSION), err);
	if (!rc && fold.version != KEDGE__NO_VERSION)
		rc = coalesce(k, l, coalesce_options(k, fold.version, fold.onto), err);
	return rc;
}

static int collect(kedge_t *k, int l, const struct kedge__keep *keep, struct kedge__gc_report *report,
		   struct kedge__error *err)
{
	const struct kedge__gc_options options = {
	    .keep = *keep, .trust = k->levels.trust[l], .brief = true, .no_wait = true};
	struct kedge__catalog *cat = k->levels.at[l].flush;
	int rc = kedge__gc_with(cat, &options, report, err);

	return rc ? rc : kedge__catalog_scan(cat, err);
}

/* Room is left for another version like the newest, and, if that is stored as changes, for one that is rewritten so
 * beside a full one: so neither the next version nor rewriting exceeds the limit by more than one version, unless the
 * next one is much larger. */
static void leave_room(const struct kedge__catalog *cat, struct kedge__keep *keep)
{
	size_t n = kedge__catalog_count(cat);
	const struct kedge__catalog_entry *e = n ? kedge__catalog_at(cat, n - 1) : NULL;
	uint64_t newest = 0;

	for (uint32_t r = 0; e && !e->problem.code && r < e->set.ranks; r++)
		newest += e->set.parts[r].file_bytes;
	if (e && e->set.source_count)
		newest *= 2;
	if (keep->bytes)
		keep->bytes = keep->bytes > newest ? keep->bytes - newest : 1;
}

/* Old versions that are kept, for a label, their hour or their day, are rewritten once, so that those between them go.
 */
static int thin(kedge_t *k, int l, const struct kedge__keep *keep, size_t *rewritten, struct kedge__error *err)
{
	struct kedge__coalesce_options how = coalesce_options(k, 0, KEDGE__NO_VERSION);

	return kedge__gc_rewrite(k->levels.at[l].flush, NULL, &how, keep, kedge__keep_recent(keep), k->levels.trust[l],
				 rewritten, err);
}

/* What is there only because others need it takes room that the others could have, once they are rewritten. If a
 * single version is larger than all that may be there, nothing helps. */
static bool is_full(const struct kedge__keep *keep, const struct kedge__gc_report *report)
{
	uint64_t largest = 0;

	for (size_t i = 0; i < report->item_count; i++)
		largest = KEDGE__MAX(largest, report->items[i].bytes);
	return keep->bytes && report->bytes_left > keep->bytes && largest <= keep->bytes && report->kept_for_lineage;
}

static int rewrite(kedge_t *k, int l, const struct kedge__keep *keep, const struct kedge__gc_report *report,
		   bool *again, struct kedge__error *err)
{
	size_t spare = report->kept_for_lineage, rewritten = 0;
	bool full = is_full(keep, report);
	int rc = 0;

	if (spare > kedge__retention_slack(kedge__keep_recent(keep)) && !report->unusable)
		rc = thin(k, l, keep, &rewritten, err);
	if (!rc)
		rc = fold(k, l, spare, full, err);
	*again = full || rewritten;
	return rc;
}

static int trim(kedge_t *k, int l, struct kedge__error *err)
{
	struct kedge__catalog *cat = k->levels.at[l].flush;
	struct kedge__keep keep = k->levels.keep[l];
	struct kedge__gc_report report = {0};
	bool again = false;
	int rc = kedge__catalog_scan(cat, err);

	if (rc || (!keep.bytes && kedge__catalog_count(cat) <= kedge__keep_recent(&keep)))
		return rc;
	leave_room(cat, &keep);
	rc = collect(k, l, &keep, &report, err);
	if (!rc && k->levels.at[l].one_for_all)
		rc = rewrite(k, l, &keep, &report, &again, err);
	kedge__gc_report_done(&report);
	if (!rc && again)
		rc = collect(k, l, &keep, &report, err);
	kedge__gc_report_done(&report);
	return rc;
}

/* Others may have a level pinned, and wait for this rank meanwhile: nobody waits for them here. */
bool kedge__trim(kedge_t *k, bool l1)
{
	bool done = true;

	for (int l = l1 ? KEDGE__L1 : KEDGE__L2; l < KEDGE__LEVELS; l++) {
		struct kedge__error err = KEDGE__ERROR_INIT;
		int rc = 0;

		if (!kedge__keep_everything(&k->levels.keep[l]) && k->levels.at[l].on && k->levels.at[l].leads)
			rc = trim(k, l, &err);
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
