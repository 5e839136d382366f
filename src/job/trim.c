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

/* L1 has to know what has changed since the newest version on L2: two versions are rewritten there (retention.c). */
static bool has_pivot(const kedge_t *k, int l)
{
	return l == KEDGE__L1 && k->levels.at[KEDGE__L2].on && k->set.coalesce != KEDGE__COALESCE_NEVER;
}

/* What the level holds now, and what is to be rewritten there. */
static int fold_find(kedge_t *k, int l, size_t spare, bool now, struct kedge__fold *fold, struct kedge__error *err)
{
	struct kedge__holdings held = {0}, l2 = {0};
	bool deltas = has_pivot(k, l);
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

/* What a self-contained version may take, packed no worse than four times the largest that is there; without any
 * packing, and with digests of small chunks, a quarter more than the image has. */
static uint64_t largest_rewritten(const struct kedge__set *newest, uint64_t self_contained)
{
	uint64_t raw = kedge__set_sizes(newest).raw;

	raw += raw / 4;
	return KEDGE__MAX(KEDGE__MIN(raw, 4 * self_contained), self_contained);
}

/*
 * No more than the limit is there when a version begins, so that one version exceeds it by no more than itself. If
 * versions refer to others, the newest may have to be rewritten before any can go: room is left for that from the
 * start. Where the limit is hardly more than that, a chain may still grow to one and a half self-contained versions,
 * or each version would be rewritten; and where it is less than one, nothing holds it.
 */
static void leave_room(const kedge_t *k, int l, struct kedge__keep *keep)
{
	const struct kedge__catalog *cat = k->levels.at[l].flush;
	const struct kedge__set *newest = NULL;
	uint64_t self_contained = 0, limit = keep->bytes, least, room;
	bool refer = false;

	for (size_t i = 0; limit && i < kedge__catalog_count(cat); i++) {
		const struct kedge__catalog_entry *e = kedge__catalog_at(cat, i);

		if (e->problem.code)
			continue;
		newest = &e->set;
		refer = refer || newest->source_count;
		if (!newest->source_count)
			self_contained = KEDGE__MAX(self_contained, kedge__set_sizes(newest).stored);
	}
	if (!refer)
		return;
	room = largest_rewritten(newest, self_contained) * (has_pivot(k, l) ? 2 : 1);
	least = 2 * kedge__set_sizes(newest).stored;
	least = KEDGE__MIN(limit > least ? limit - least : 0, self_contained + self_contained / 2);
	least = KEDGE__MAX(least, self_contained + self_contained / 8);
	keep->bytes = KEDGE__MAX(limit > room ? limit - room : 1, least);
}

/* Old versions that are kept, for a label, their hour or their day, are rewritten once, so that those between them go:
 * where bytes are limited one at a time. */
static int thin(kedge_t *k, int l, const struct kedge__keep *keep, size_t *rewritten, struct kedge__error *err)
{
	struct kedge__coalesce_options how = coalesce_options(k, 0, KEDGE__NO_VERSION);

	return kedge__gc_rewrite(k->levels.at[l].flush, NULL, &how, keep, kedge__keep_recent(keep), keep->bytes ? 1 : 0,
				 k->levels.trust[l], rewritten, err);
}

/* What is there only because others need it takes room that the others could have, once they are rewritten. */
static bool is_full(const struct kedge__keep *keep, const struct kedge__gc_report *report)
{
	return keep->bytes && report->bytes_left > keep->bytes && report->kept_for_lineage;
}

/* All versions of a chain go together. So that not everything goes at once, another begins when one takes half of the
 * room; but not before it takes twice what the new one begins with. */
static bool chain_is_long(const struct kedge__catalog *cat, const struct kedge__keep *keep)
{
	size_t n = kedge__catalog_count(cat), length = 0;
	uint64_t *chain = NULL, bytes = 0, first = 0;

	if (!keep->bytes || !n ||
	    kedge__catalog_closure(cat, kedge__catalog_at(cat, n - 1)->version, &chain, &length, NULL))
		return false;
	for (size_t i = 0; i < length; i++) {
		const struct kedge__set *set = &kedge__catalog_find(cat, chain[i])->set;

		bytes += kedge__set_sizes(set).stored;
		first = KEDGE__MAX(first, set->source_count ? 0 : kedge__set_sizes(set).stored);
	}
	kedge__free(chain);
	return length > 1 && bytes > KEDGE__MAX(keep->bytes / 2, 2 * first);
}

struct rewritten {
	bool any;  /* some versions may go now that could not before, */
	bool more; /* and there may be another to rewrite then */
};

static int rewrite(kedge_t *k, int l, const struct kedge__keep *keep, const struct kedge__gc_report *report,
		   struct rewritten *out, struct kedge__error *err)
{
	size_t spare = report->kept_for_lineage, thinned = 0;
	bool full = is_full(keep, report) || chain_is_long(k->levels.at[l].flush, keep);
	int rc = 0;

	if (spare > kedge__retention_slack(kedge__keep_recent(keep)) && !report->unusable)
		rc = thin(k, l, keep, &thinned, err);
	out->more = keep->bytes && thinned;
	if (!rc && !out->more)
		rc = fold(k, l, spare, full, err);
	out->any = full || thinned;
	return rc;
}

static int trim(kedge_t *k, int l, struct kedge__error *err)
{
	struct kedge__catalog *cat = k->levels.at[l].flush;
	struct kedge__keep keep = k->levels.keep[l];
	struct kedge__gc_report report = {0};
	struct rewritten rewritten;
	size_t left;
	int rc = kedge__catalog_scan(cat, err);

	if (rc || (!keep.bytes && kedge__catalog_count(cat) <= kedge__keep_recent(&keep)))
		return rc;
	leave_room(k, l, &keep);
	left = kedge__catalog_count(cat);
	do {
		rewritten = (struct rewritten){.any = false};
		kedge__gc_report_done(&report);
		rc = collect(k, l, &keep, &report, err);
		if (!rc && k->levels.at[l].one_for_all)
			rc = rewrite(k, l, &keep, &report, &rewritten, err);
	} while (!rc && rewritten.more && left-- > 0);
	kedge__gc_report_done(&report);
	if (!rc && rewritten.any)
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
