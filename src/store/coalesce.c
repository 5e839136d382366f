/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Coalescing is resolution written back: a version gets a segment of the next generation with the live bytes of the
 * versions that it needed, and the manifest that names it is published. The image stays the same, byte for byte, and
 * keeps its id, so versions that refer to it are not affected.
 */
#include "store/internal.h"

struct coalesce {
	struct kedge__catalog *cat;
	struct kedge__pool *pool;
	const struct kedge__coalesce_options *options;
	struct kedge__set set;     /* the new one */
	uint32_t written;          /* ranks whose new segments are written */
	uint32_t bundles;          /* 1 + the first rank of the last bundle that was begun; 0: none was */
	struct kedge__berth berth; /* of the next, if the set has bundles */
	uint64_t done, total;      /* literal bytes; TOTAL is an upper estimate */
	uint64_t done_before_rank;
};

static void rank_progress(void *ctx, uint64_t bytes)
{
	struct coalesce *c = ctx;

	c->done = c->done_before_rank + bytes;
	if (c->options->progress)
		c->options->progress(c->options->progress_ctx, KEDGE__MIN(c->done, c->total), c->total);
}

static int write_merged(struct coalesce *c, uint32_t rank, struct kedge__merge *m, struct kedge__lineage *lineage,
			struct kedge__error *err)
{
	const struct kedge__merge_target target = {.to = c->cat,
						   .berth = c->set.bundle ? &c->berth : NULL,
						   .lineage = lineage,
						   .pool = c->pool,
						   .codec = c->options->codec,
						   .block_bytes = c->options->block_bytes,
						   .sync = c->options->sync,
						   .io = c->options->io,
						   .progress = rank_progress,
						   .progress_ctx = c};

	return kedge__merge_write(m, &target, &c->set.parts[rank], err);
}

/* Ranks that share a bundle write it one after the other. */
static int berth_begin(struct coalesce *c, uint32_t rank, struct kedge__error *err)
{
	if (kedge__bundle_first(rank, c->set.bundle) != rank)
		return 0;
	c->berth = (struct kedge__berth){.bundle = c->set.bundle};
	c->bundles = rank + 1;
	return kedge__bundle_generation(c->cat, c->set.version, rank, &c->berth.generation, err);
}

static int berth_end(struct coalesce *c, uint32_t rank, struct kedge__error *err)
{
	uint32_t first = kedge__bundle_first(rank, c->set.bundle);

	c->berth.start = kedge__bundle_next(c->berth.start, c->set.parts[rank].file_bytes);
	if (rank + 1 < c->set.ranks && kedge__bundle_first(rank + 1, c->set.bundle) == first)
		return 0;
	return kedge__bundle_name(c->cat, c->set.version, first, c->berth.generation, c->options->sync, err);
}

/* Bytes that the merged version still takes from older ones are proved as well. */
static int write_rank(struct coalesce *c, uint32_t rank, struct kedge__merge *m, struct kedge__error *err)
{
	bool batch = c->options->from && !c->options->onto;
	struct kedge__lineage *lineage = NULL;
	int rc = batch ? kedge__lineage_open(&c->cat, 1, c->set.version, rank, &lineage, err) : 0;

	if (!rc && c->set.bundle)
		rc = berth_begin(c, rank, err);
	if (!rc)
		rc = write_merged(c, rank, m, lineage, err);
	if (!rc && c->set.bundle)
		rc = berth_end(c, rank, err);
	kedge__lineage_close(lineage);
	return rc;
}

static int add_set_sources(struct coalesce *c, const struct kedge__merge *m, struct kedge__error *err)
{
	size_t count;
	const struct kedge__source_record *sources = kedge__merge_sources(m, &count);

	for (size_t i = 0; i < count; i++) {
		uint64_t version = sources[i].version;
		uint64_t *grown;
		size_t at = 0;

		while (at < c->set.source_count && c->set.sources[at] < version)
			at++;
		if (at < c->set.source_count && c->set.sources[at] == version)
			continue;
		grown = kedge__reallocarray(c->set.sources, c->set.source_count + 1, sizeof(*grown));
		if (!grown)
			return kedge__error_nomem(err);
		memmove(grown + at + 1, grown + at, (c->set.source_count - at) * sizeof(*grown));
		grown[at] = version;
		c->set.sources = grown;
		c->set.source_count++;
	}
	return 0;
}

static void note_parent(struct coalesce *c, uint64_t parent)
{
	if (parent != KEDGE__NO_VERSION && (c->set.parent == KEDGE__NO_VERSION || parent > c->set.parent))
		c->set.parent = parent;
}

static int coalesce_rank(struct coalesce *c, uint32_t rank, struct kedge__error *err)
{
	size_t workers = c->pool ? (size_t)kedge__pool_threads(c->pool) : 1;
	uint64_t stop_below = c->options->onto ? 0 : c->options->from;
	struct kedge__lineage *l, *parent = NULL;
	struct kedge__merge *m = NULL;
	int rc;

	rc = kedge__lineage_open_from(&c->cat, 1, c->set.version, rank, stop_below, &l, err);
	if (rc)
		return rc;
	if (c->options->onto)
		rc = kedge__lineage_open(&c->cat, 1, c->options->parent, rank, &parent, err);
	if (!rc)
		rc = kedge__merge_new(l, stop_below, parent, workers, &m, err);
	if (!rc)
		rc = write_rank(c, rank, m, err);
	if (!rc) {
		c->written = rank + 1;
		c->done_before_rank += kedge__merge_reduction(m)->literal_bytes;
		note_parent(c, kedge__merge_reduction(m)->parent);
		rc = add_set_sources(c, m, err);
	}
	kedge__merge_free(m);
	kedge__lineage_close(parent);
	kedge__lineage_close(l);
	return rc;
}

/* ------------------------------------------------------------------ the set */

static int copy_set(const struct kedge__set *from, struct kedge__set *to, struct kedge__error *err)
{
	*to = *from;
	to->sources = NULL;
	to->source_count = 0;
	to->parent = KEDGE__NO_VERSION;
	to->reducer = KEDGE__REDUCER_MERGED;
	to->name = kedge__strdup(from->name);
	to->parts = kedge__calloc(from->ranks, sizeof(*to->parts));
	to->why = from->why ? kedge__strdup(from->why) : NULL;
	to->note = from->note ? kedge__strdup(from->note) : NULL;
	to->labels = from->labels ? kedge__strdup(from->labels) : NULL;
	to->keep = from->keep ? kedge__strdup(from->keep) : NULL;
	to->grouping = from->grouping ? kedge__grouping_copy(from->grouping) : NULL;
	to->run = (struct kedge__run){0};
	if (to->name && to->parts && !to->why == !from->why && !to->note == !from->note &&
	    !to->labels == !from->labels && !to->keep == !from->keep && !to->grouping == !from->grouping &&
	    kedge__run_copy(&from->run, &to->run, NULL) == 0)
		return 0;
	kedge__set_done(to);
	return kedge__error_nomem(err);
}

static void discard_written(struct coalesce *c)
{
	for (uint32_t rank = 0; c->set.bundle && rank < c->bundles; rank += c->set.bundle)
		(void)kedge__bundle_discard(
		    c->cat, c->set.version, rank,
		    rank + 1 == c->bundles ? c->berth.generation : c->set.parts[rank].generation, NULL);
	if (c->set.bundle)
		return;
	for (uint32_t rank = 0; rank < c->written; rank++)
		(void)kedge__segment_discard(c->cat, c->set.version, rank, c->set.parts[rank].generation, NULL);
}

static int rewrite_set(struct coalesce *c, const struct kedge__set *old, struct kedge__error *err)
{
	int rc;

	rc = copy_set(old, &c->set, err);
	if (rc)
		return rc;
	for (uint32_t rank = 0; rank < old->ranks; rank++)
		c->total += old->parts[rank].raw_bytes;
	for (uint32_t rank = 0; rank < c->set.ranks && !rc; rank++)
		rc = coalesce_rank(c, rank, err);
	if (!rc)
		rc = kedge__set_publish(c->cat, &c->set, err);
	if (rc)
		discard_written(c);
	kedge__set_done(&c->set);
	return rc;
}

static bool in_batch(const struct coalesce *c, uint64_t version)
{
	return version >= c->options->from && version < c->options->version;
}

/* Newest first, so that a crash leaves no version without the versions it refers to. */
static int remove_batch(struct coalesce *c, const uint8_t *needed, struct kedge__coalesce_report *report,
			struct kedge__error *err)
{
	int rc = 0;

	for (size_t i = c->cat->entries.count; i-- > 0 && !rc;) {
		uint64_t version = c->cat->entries.at[i]->version;

		if (!in_batch(c, version))
			continue;
		if (needed[i] || c->cat->entries.at[i]->set.labels) {
			report->versions_kept_for_lineage++;
			continue;
		}
		rc = kedge__set_remove(c->cat, version, err);
		if (!rc)
			report->versions_removed++;
	}
	return rc;
}

/* Versions that any version that stays depends on stay, too; if one of those cannot be read, all stay. */
static int remove_old(struct coalesce *c, struct kedge__coalesce_report *report, struct kedge__error *err)
{
	uint8_t *needed = kedge__calloc(c->cat->entries.count + 1, 1);
	int rc = needed ? 0 : kedge__error_nomem(err);

	for (size_t i = 0; i < c->cat->entries.count && !rc; i++) {
		const struct kedge__catalog_entry *entry = c->cat->entries.at[i];

		if (in_batch(c, entry->version) && !entry->problem.code && !entry->set.labels)
			continue;
		if (entry->problem.code && entry->version >= c->options->from) {
			kedge__log(KEDGE_LOG_WARNING,
				   "keeping older versions, because it is unknown what an unreadable one needs: %s",
				   kedge__error_text(&entry->problem));
			memset(needed, 1, c->cat->entries.count);
			break;
		}
		rc = kedge__catalog_mark(c->cat, entry->version, true, needed, err);
	}
	if (!rc)
		rc = remove_batch(c, needed, report, err);
	kedge__free(needed);
	return rc;
}

static uint64_t store_bytes(const struct kedge__catalog *cat)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < cat->entries.count; i++)
		bytes += kedge__set_disk_bytes(cat, cat->entries.at[i]->version);
	return bytes;
}

static int find_set(const struct kedge__catalog *cat, const struct kedge__coalesce_options *options,
		    const struct kedge__set **set, struct kedge__error *err)
{
	const struct kedge__catalog_entry *entry = kedge__catalog_find(cat, options->version);

	if (options->from > options->version)
		return kedge__error_set(err, KEDGE_E_ARG, 0,
					"cannot merge versions %" PRIu64 " to %" PRIu64
					": the first must be the older one",
					options->from, options->version);
	if (options->onto && options->parent >= options->version)
		return kedge__error_set(err, KEDGE_E_ARG, 0,
					"parent version %" PRIu64 " is not older than version %" PRIu64,
					options->parent, options->version);
	if (!entry)
		return kedge__error_set(err, KEDGE_E_STATE, 0, "cannot coalesce: %s has no version %" PRIu64, cat->dir,
					options->version);
	if (entry->problem.code)
		return kedge__error_set(err, entry->problem.code, 0, "%s", kedge__error_text(&entry->problem));
	*set = &entry->set;
	return 0;
}

static int coalesce_seized(struct coalesce *c, struct kedge__coalesce_report *report, struct kedge__error *err)
{
	const struct kedge__set *old = NULL;
	int rc;

	rc = kedge__catalog_rescan(c->cat, err);
	if (!rc)
		rc = find_set(c->cat, c->options, &old, err);
	if (rc)
		return rc;
	report->bytes_before = store_bytes(c->cat);
	rc = rewrite_set(c, old, err);
	if (!rc && !c->options->keep_old)
		rc = remove_old(c, report, err);
	report->bytes_after = store_bytes(c->cat);
	return rc;
}

int kedge__coalesce(struct kedge__catalog *cat, struct kedge__pool *pool, const struct kedge__coalesce_options *options,
		    struct kedge__coalesce_report *report, struct kedge__error *err)
{
	struct coalesce c = {.cat = cat, .pool = pool, .options = options};
	struct kedge__coalesce_report done = {0};
	int rc;

	rc = kedge__catalog_seize(cat, !options->no_wait, err);
	if (rc)
		return rc;
	rc = coalesce_seized(&c, &done, err);
	kedge__catalog_release(cat);
	if (!rc && report)
		*report = done;
	return rc;
}
