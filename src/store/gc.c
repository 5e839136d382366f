/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Keep what is asked for (keep.c) of the versions that can be restored from here, those with labels, and those that
 * they depend on. That they can be restored was proved (gc_prove.c), and their structure is checked again now that
 * nobody else uses the store. A version that does not count stays as long as more are asked for: it may be the only
 * trace of some data.
 */
#include "store/internal.h"

enum sight { UNSEEN, THERE, MISSING };

struct gc {
	struct kedge__catalog *cat;
	const struct kedge__gc_proof *proof;
	uint8_t *seen;   /* enum sight of the entry's segments, where nothing is read */
	bool **intact;   /* of each entry, NULL until it is needed: what each rank has of it, with all that it needs */
	uint8_t *keep;   /* 1: kept, for itself or for another */
	uint8_t *chosen; /* 1: asked for, or not to be removed */
	uint8_t *marks;  /* all zero between two uses */
	size_t unusable;
	struct kedge__rank_list ranks;
	struct kedge__keep_item *items; /* one for each entry */
};

/* ------------------------------------------------------------------ what can be restored */

static bool is_intact(const struct gc *gc, size_t i, uint32_t rank)
{
	return gc->intact[i] && gc->intact[i][rank];
}

/* The sources must have the images that the segment was made from, and be intact; they were examined before. */
static bool sources_fit(const struct gc *gc, const struct kedge__segment *seg)
{
	uint32_t rank = seg->header.rank;

	for (size_t i = 0; i < seg->source_count; i++) {
		uint64_t version = seg->sources[i].version;
		const struct kedge__catalog_entry *entry = kedge__catalog_find(gc->cat, version);

		if (!entry || entry->problem.code || rank >= entry->set.ranks ||
		    !kedge__digest_equal(entry->set.parts[rank].image_id, seg->sources[i].image_id) ||
		    !is_intact(gc, kedge__catalog_index(gc->cat, version), rank))
			return false;
	}
	return true;
}

static int examine_rank(const struct gc *gc, const struct kedge__set *set, uint32_t rank, bool *intact,
			struct kedge__error *err)
{
	struct kedge__error problem = KEDGE__ERROR_INIT;
	struct kedge__segment *seg;
	char *path = kedge__part_path(gc->cat, set->version, rank, &set->parts[rank]);
	struct kedge__segment_place place = {
	    .path = path, .part = &set->parts[rank], .set = set, .fd = -1, .levels = &gc->cat, .level_count = 1};
	int rc;

	if (!path)
		return kedge__error_nomem(err);
	rc = kedge__segment_load(&place, KEDGE__SEGMENT_LINES, NULL, &seg, &problem);
	kedge__free(path);
	if (rc) {
		*intact = false;
		kedge__log(KEDGE_LOG_WARNING, "gc: %s", kedge__error_text(&problem));
	} else {
		*intact = sources_fit(gc, seg);
		kedge__segment_close(seg);
	}
	kedge__error_done(&problem);
	return rc == KEDGE_E_NOMEM ? kedge__error_nomem(err) : 0;
}

/* The segments of entry I are there, with their sizes. */
static bool is_there(const struct gc *gc, size_t i)
{
	const struct kedge__set *set = &gc->cat->entries.at[i]->set;
	bool there = !gc->cat->entries.at[i]->problem.code;
	uint64_t bytes;

	if (gc->seen[i] != UNSEEN)
		return gc->seen[i] == THERE;
	for (uint32_t rank = 0; there && rank < set->ranks; rank++)
		there = !kedge__rank_list_has(&gc->ranks, rank) ||
			(kedge__segment_look(gc->cat, set->version, rank, &set->parts[rank], &bytes) == 0 &&
			 bytes == set->parts[rank].file_bytes);
	gc->seen[i] = there ? THERE : MISSING;
	return there;
}

/* What the ranks have of entry I, on their own: one may have lost what the others have. All that it needs was examined
 * before. */
static int examine(const struct gc *gc, size_t i, struct kedge__error *err)
{
	const struct kedge__catalog_entry *entry = gc->cat->entries.at[i];
	int rc = 0;

	if (gc->intact[i] || entry->problem.code)
		return 0;
	gc->intact[i] = kedge__calloc(entry->set.ranks + (size_t)1, sizeof(*gc->intact[i]));
	if (!gc->intact[i])
		return kedge__error_nomem(err);
	for (uint32_t rank = 0; rank < entry->set.ranks && !rc; rank++) {
		gc->intact[i][rank] = true;
		if (kedge__rank_list_has(&gc->ranks, rank))
			rc = examine_rank(gc, &entry->set, rank, &gc->intact[i][rank], err);
	}
	return rc;
}

static bool all_intact(const struct gc *gc, size_t i)
{
	const struct kedge__catalog_entry *entry = gc->cat->entries.at[i];
	bool intact = !entry->problem.code;

	for (uint32_t rank = 0; intact && rank < entry->set.ranks; rank++)
		intact = is_intact(gc, i, rank);
	return intact;
}

/* Where nothing goes, and nothing is read, segments that are there will do. */
static bool all_there(const struct gc *gc, size_t i, const uint8_t *marks, size_t lowest)
{
	for (size_t k = lowest; k <= i; k++)
		if (marks[k] && !is_there(gc, k))
			return false;
	return true;
}

/* Are entry I and all that it depends on present and good? MARKS, all zero before, has the lineage afterwards, from
 * *LOWEST on. */
static int can_be_restored(const struct gc *gc, size_t i, uint8_t *marks, size_t *lowest, bool *good,
			   struct kedge__error *err)
{
	struct kedge__error problem = KEDGE__ERROR_INIT;
	int rc = 0;

	*good = kedge__catalog_mark_from(gc->cat, gc->cat->entries.at[i]->version, false, marks, lowest, &problem) == 0;
	kedge__error_done(&problem);
	if (!*good || (gc->proof->idle && all_there(gc, i, marks, *lowest)))
		return 0;
	/* References go to older versions only. */
	for (size_t k = *lowest; k <= i && !rc; k++)
		if (marks[k])
			rc = examine(gc, k, err);
	*good = !rc && all_intact(gc, i) && kedge__gc_proved(gc->proof, gc->cat, i, marks, *lowest);
	return rc;
}

/* Of entries LOWEST to TOP, and take them away. */
static void add_marks(struct gc *gc, uint8_t *marks, size_t lowest, size_t top)
{
	for (size_t i = lowest; i <= top; i++) {
		gc->keep[i] |= marks[i];
		marks[i] = 0;
	}
}

static int look(void *ctx, size_t i, bool *fit, struct kedge__error *err)
{
	struct gc *gc = ctx;
	size_t lowest;
	int rc = can_be_restored(gc, i, gc->marks, &lowest, fit, err);

	memset(gc->marks, 0, i + 1);
	return rc;
}

static void say_unfit(const struct gc *gc, size_t i)
{
	kedge__log(KEDGE_LOG_WARNING,
		   "gc: version %" PRIu64
		   " in %s cannot be restored from here; it is not removed, and not counted among those to keep",
		   gc->items[i].version, gc->cat->dir);
}

/* Those that stay for themselves, and what they need, as far as it is there. */
static int choose(struct gc *gc, const struct kedge__keep *keep, struct kedge__error *err)
{
	int rc = kedge__keep_choose_fit(keep, gc->items, gc->cat->entries.count, look, gc, err);

	for (size_t i = gc->cat->entries.count; i-- > 0 && !rc;) {
		size_t lowest;

		if (!gc->items[i].why)
			continue;
		gc->chosen[i] = 1;
		if (gc->items[i].why & KEDGE__STAYS_UNFIT) {
			gc->unusable++;
			say_unfit(gc, i);
		}
		rc = kedge__catalog_mark_from(gc->cat, gc->items[i].version, true, gc->marks, &lowest, err);
		if (!rc)
			add_marks(gc, gc->marks, lowest, i);
	}
	return rc;
}

/* ------------------------------------------------------------------ remove */

static int remove_version(struct gc *gc, size_t i, bool dry_run, struct kedge__gc_report *report,
			  struct kedge__error *err)
{
	uint64_t version = gc->cat->entries.at[i]->version;
	uint64_t bytes = kedge__set_disk_bytes(gc->cat, version);
	int rc = 0;

	if (!dry_run)
		rc = kedge__set_remove(gc->cat, version, err);
	if (rc)
		return rc;
	if (!dry_run)
		kedge__trust_drop(gc->proof->trust, version);
	report->removed_versions[report->removed++] = version;
	report->bytes_freed += bytes;
	return 0;
}

static int remove_others(struct gc *gc, bool dry_run, struct kedge__gc_report *report, struct kedge__error *err)
{
	size_t count = gc->cat->entries.count;
	int rc = 0;

	report->removed_versions = kedge__calloc(count + 1, sizeof(*report->removed_versions));
	if (!report->removed_versions)
		return kedge__error_nomem(err);
	for (size_t i = count; i-- > 0 && !rc;) {
		if (gc->chosen[i])
			report->kept++;
		else if (gc->keep[i] || gc->proof->idle)
			report->kept_for_lineage++;
		else
			rc = remove_version(gc, i, dry_run, report, err);
	}
	return rc;
}

/* The newest version that stays and refers to entry I. */
static uint64_t needed_by(const struct gc *gc, size_t i)
{
	for (size_t k = gc->cat->entries.count; k-- > i + 1;) {
		const struct kedge__keep_item *v = &gc->items[k];

		for (size_t n = 0; gc->keep[k] && n < v->need_count; n++)
			if (v->needs[n] == gc->items[i].version)
				return v->version;
	}
	return KEDGE__NO_VERSION;
}

/* Why each version stays or goes, before the catalogue changes. */
static int explain(struct gc *gc, struct kedge__gc_report *report, struct kedge__error *err)
{
	size_t count = gc->cat->entries.count;

	report->items = kedge__calloc(count + 1, sizeof(*report->items));
	report->needed_by = kedge__calloc(count + 1, sizeof(*report->needed_by));
	if (!report->items || !report->needed_by)
		return kedge__error_nomem(err);
	report->item_count = count;
	for (size_t i = 0; i < count; i++) {
		report->items[i] = gc->items[i];
		report->items[i].needs = NULL;
		report->needed_by[i] = gc->chosen[i] || !gc->keep[i] ? KEDGE__NO_VERSION : needed_by(gc, i);
		report->bytes_left += gc->keep[i] || gc->chosen[i] || gc->proof->idle ? gc->items[i].bytes : 0;
	}
	return 0;
}

static int gc_seized(struct gc *gc, const struct kedge__gc_options *options, struct kedge__gc_report *report,
		     struct kedge__error *err)
{
	size_t count;
	int rc;

	rc = kedge__catalog_sweep(gc->cat, !options->brief, options->dry_run, &report->leftovers, err);
	if (rc)
		return rc;
	count = gc->cat->entries.count;
	gc->items = kedge__keep_items(gc->cat, options->keep.bytes, err);
	if (!gc->items)
		return KEDGE_E_NOMEM;
	gc->marks = kedge__calloc(count + 1, 1);
	gc->seen = kedge__calloc(count + 1, 1);
	gc->intact = kedge__calloc(count + 1, sizeof(*gc->intact));
	gc->keep = kedge__calloc(count + 1, 1);
	gc->chosen = kedge__calloc(count + 1, 1);
	rc = gc->marks && gc->seen && gc->intact && gc->keep && gc->chosen ? 0 : kedge__error_nomem(err);
	if (!rc)
		rc = kedge__rank_list_init(&gc->ranks, gc->cat, err);
	if (!rc)
		rc = choose(gc, &options->keep, err);
	if (!rc)
		rc = explain(gc, report, err);
	if (!rc)
		rc = remove_others(gc, options->dry_run, report, err);
	report->unusable = gc->unusable;
	kedge__free(gc->marks);
	kedge__free(gc->items);
	for (size_t i = 0; gc->intact && i < count; i++)
		kedge__free(gc->intact[i]);
	kedge__free(gc->intact);
	kedge__free(gc->seen);
	kedge__free(gc->keep);
	kedge__free(gc->chosen);
	kedge__rank_list_done(&gc->ranks);
	return rc;
}

static int gc_proved(struct gc *gc, const struct kedge__gc_options *options, struct kedge__gc_report *report,
		     struct kedge__error *err)
{
	int rc = kedge__catalog_seize(gc->cat, !options->no_wait, err);

	if (rc)
		return rc;
	rc = gc_seized(gc, options, report, err);
	kedge__catalog_release(gc->cat);
	return rc;
}

int kedge__gc_with(struct kedge__catalog *cat, const struct kedge__gc_options *options, struct kedge__gc_report *report,
		   struct kedge__error *err)
{
	struct kedge__gc_proof proof = {0};
	struct gc gc = {.cat = cat, .proof = &proof};
	struct kedge__gc_report done = {0};
	int rc;

	if (kedge__keep_everything(&options->keep))
		return kedge__error_set(err, KEDGE_E_ARG, 0, "gc must keep at least one version, and not all");
	rc = kedge__gc_prove(&proof, cat, options, err);
	if (!rc)
		rc = gc_proved(&gc, options, &done, err);
	done.proved = proof.count;
	kedge__gc_proof_done(&proof);
	if (!rc && report)
		*report = done;
	else
		kedge__gc_report_done(&done);
	return rc;
}

int kedge__gc(struct kedge__catalog *cat, size_t keep, bool dry_run, struct kedge__gc_report *report,
	      struct kedge__error *err)
{
	const struct kedge__gc_options options = {.keep = {.last = keep}, .dry_run = dry_run};

	return kedge__gc_with(cat, &options, report, err);
}

void kedge__gc_report_done(struct kedge__gc_report *report)
{
	kedge__free(report->removed_versions);
	kedge__free(report->items);
	kedge__free(report->needed_by);
	*report = (struct kedge__gc_report){0};
}
