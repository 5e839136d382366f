/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Write a sealed version to L2, as rank 0 decided when it was sealed:
 *
 *  1. Every rank writes its segment, or has it written by a staging server: a copy, which may be there already
 * (ahead.c), a delta to a version that is there, or all of it.
 *  2. FLUSH: all ranks have, in the same form. Rank 0 gets the table of all ranks' segments.
 *  3. Rank 0 publishes the manifest.
 *  4. FLUSH_PUBLISH: it has. From here on the version is on L2.
 *
 * With bundles (bundles.c), 1 brings it about that the segment is on L1, and more steps follow 2.
 */
#include "job/handle.h"

/* ------------------------------------------------------------------ 1: this rank's segment */

/* L2 has the very set that L1 has. The same bytes of an abandoned run will be removed. */
static bool is_on_l2(const kedge_t *k, uint64_t version)
{
	const struct kedge__catalog_entry *a = kedge__catalog_find(k->levels.at[KEDGE__L1].flush, version);
	const struct kedge__catalog_entry *b = kedge__catalog_find(k->levels.at[KEDGE__L2].flush, version);

	return a && b && !a->problem.code && !b->problem.code && a->set.ranks == b->set.ranks &&
	       a->set.run.id == b->set.run.id && a->image == b->image;
}

static int part_add(struct kedge__version *v, const struct kedge__flush_part *part, struct kedge__error *err)
{
	kedge_t *k = v->k;

	struct kedge__catalog *there = k->levels.at[kedge__bundles_size(k) ? KEDGE__L1 : KEDGE__L2].flush;

	if (kedge__array_push(&v->parts, *part)) {
		v->l2_bytes += part->part.file_bytes;
		return 0;
	}
	if (part->aside || !kedge__bundles_size(k))
		(void)kedge__segment_discard(there, part->version, (uint32_t)k->group.rank, part->part.generation,
					     NULL);
	return kedge__error_nomem(err);
}

/* Oldest first: a version comes to L2 after all that it refers to. */
static int copy_lineage(struct kedge__version *v, struct kedge__error *err)
{
	kedge_t *k = v->k;
	struct kedge__catalog *from = k->levels.at[KEDGE__L1].flush, *to = k->levels.at[KEDGE__L2].flush;
	struct kedge__job_progress p = {k, "flush", v->version, 0};
	uint64_t *list;
	size_t count;
	int rc = kedge__catalog_closure(from, v->version, &list, &count, err);

	if (rc)
		return rc;
	for (size_t i = 0; i < count && !rc; i++) {
		struct kedge__flush_part part = {.version = list[i]};
		const struct kedge__catalog_entry *e = kedge__catalog_find(from, list[i]);

		if (is_on_l2(k, list[i]) || (k->set.coalesce != KEDGE__COALESCE_NEVER && list[i] != v->version))
			continue;
		part.part = e->set.parts[k->group.rank];
		p.total = part.part.file_bytes;
		do
			rc = kedge__bundles_size(k)
				 ? 0
				 : kedge__level_copy(from, to, list[i], (uint32_t)k->group.rank, k->set.sync,
						     kedge__job_settings_io(&k->set), &k->bucket,
						     list[i] == v->version ? kedge__ahead_companion(v) : NULL,
						     kedge__state_progress_bytes, &p, &part.part, err);
		while (rc && kedge__stage_again(k->levels.at[KEDGE__L2].stage));
		if (!rc)
			rc = part_add(v, &part, err);
	}
	kedge__free(list);
	return rc;
}

static struct kedge__source_record image_of(const kedge_t *k, const struct kedge__catalog *cat, uint64_t version)
{
	const struct kedge__catalog_entry *e = version == KEDGE__NO_VERSION ? NULL : kedge__catalog_find(cat, version);

	if (!e || e->problem.code)
		return (struct kedge__source_record){.version = KEDGE__NO_VERSION};
	return (struct kedge__source_record){version, e->set.parts[k->group.rank].image_id};
}

/* If the parent is on L1, too, what came since is found by what the two do not share there. */
static int merge_batch(struct kedge__version *v, struct kedge__error *err)
{
	kedge_t *k = v->k;
	struct kedge__catalog *levels[] = {k->levels.at[KEDGE__L1].flush, k->levels.at[KEDGE__L2].flush};
	const struct kedge__catalog_entry *e = kedge__catalog_find(levels[0], v->version);
	struct kedge__job_progress p = {k, "flush", v->version, e->set.parts[k->group.rank].raw_bytes};
	struct kedge__flush_part part = {.version = v->version, .aside = kedge__bundles_size(k) != 0};
	struct kedge__batch batch = {
	    .image = image_of(k, levels[0], v->version),
	    .parent = image_of(k, levels[1], v->l2.form == KEDGE__L2_DELTA ? v->l2.parent : KEDGE__NO_VERSION),
	    .rank = (uint32_t)k->group.rank,
	    .sync = k->set.sync && !part.aside,
	    .io = kedge__job_settings_io(&k->set),
	    .codec = k->codec,
	    .block_bytes = (uint32_t)k->set.block,
	    .aside = part.aside ? levels[0] : NULL,
	    .bucket = part.aside ? NULL : &k->bucket,
	    .progress = kedge__state_progress_bytes,
	    .progress_ctx = &p,
	};
	int rc;

	do
		rc =
		    kedge__batch_write(levels, KEDGE__COUNT(levels), levels[1], &batch, &part.part, &v->l2_refers, err);
	while (rc && kedge__stage_again(k->levels.at[KEDGE__L2].stage));
	part.aside_generation = part.part.generation;
	return rc ? rc : part_add(v, &part, err);
}

/* What cannot be read now will not be readable for the next version that needs it. */
static void damage_note(kedge_t *k, int rc)
{
	if (rc != KEDGE_E_DAMAGED && rc != KEDGE_E_MISSING)
		return;
	kedge__trust_clear(k->levels.trust[KEDGE__L1]);
	kedge__levels_doubt(k);
}

static int write_local(struct kedge__version *v, struct kedge__error *err)
{
	kedge_t *k = v->k;
	const struct kedge__catalog_entry *e = kedge__catalog_find(k->levels.at[KEDGE__L1].flush, v->version);
	int rc;

	if (!e || e->problem.code) {
		kedge__log(KEDGE_LOG_NOTICE, "version %llu left L1 before it could be copied to L2",
			   (unsigned long long)v->version);
		return 0;
	}
	rc = kedge__levels_check_parent(v, err);
	if (rc)
		return rc;
	rc = v->l2.form == KEDGE__L2_COPY ? copy_lineage(v, err) : merge_batch(v, err);
	damage_note(k, rc);
	return rc || !kedge__bundles_size(k) ? rc : kedge__bundles_prepare(v, err);
}

static void l1_unpin(struct kedge__version *v)
{
	if (v->l1_pinned)
		kedge__catalog_unpin(v->k->levels.at[KEDGE__L1].flush);
	v->l1_pinned = false;
}

void kedge__flush_local(struct kedge__version *v)
{
	kedge_t *k = v->k;
	struct kedge__catalog *from = k->levels.at[KEDGE__L1].flush, *to = k->levels.at[KEDGE__L2].flush;

	v->flush_began = k->advice.clock() - (v->ahead ? v->ahead->seconds : 0);
	v->flush_rc = kedge__l2_check(k, &v->flush_err);
	if (!v->flush_rc)
		v->flush_rc = kedge__catalog_pin(to, &v->flush_err);
	if (v->flush_rc)
		return;
	v->l2_pinned = true;
	v->flush_rc = kedge__catalog_pin(from, &v->flush_err);
	if (v->flush_rc)
		return;
	v->l1_pinned = true;
	v->flush_rc = kedge__catalog_scan(from, &v->flush_err);
	if (!v->flush_rc)
		v->flush_rc = kedge__catalog_scan(to, &v->flush_err);
	if (!v->flush_rc && kedge__catalog_count(to))
		v->flush_rc = kedge__catalog_refresh_lineage(
		    to, kedge__catalog_at(to, kedge__catalog_count(to) - 1)->version, &v->flush_err);
	if (!v->flush_rc && k->levels.at[KEDGE__L2].leads)
		kedge__levels_sync_l2(k);
	if (!v->flush_rc)
		v->flush_rc = write_local(v, &v->flush_err);
	if (!kedge__bundles_size(k))
		l1_unpin(v);
}

/* ------------------------------------------------------------------ 2: all ranks' segments */

/* Which versions were written, in which form: the same on all ranks, unless somebody else is at the store. */
static uint64_t written_digest(const struct kedge__version *v)
{
	uint64_t sum = (uint64_t)v->l2.form * 3 + v->l2.parent + v->parts.count;

	for (size_t i = 0; i < v->parts.count; i++)
		sum = sum * UINT64_C(0x9e3779b97f4a7c15) + v->parts.at[i].version + 1;
	return sum;
}

static int agree_written(struct kedge__version *v)
{
	struct kedge__channel *ch = &v->k->channels.back;
	union kedge__msg msg = {.flush = {.refers = v->l2_refers}};
	int between[2], rc;

	kedge__msg_same_set(&msg.flush.written, ch->group->rank, written_digest(v));
	rc = kedge__exchange(ch, KEDGE__STEP_FLUSH, v->version, v->flush_rc, &msg, &v->flush_err);
	if (!rc && !kedge__msg_same_is(&msg.flush.written, between))
		rc = kedge__error_set(&v->flush_err, KEDGE_E_GROUP, 0,
				      "ranks %d and %d copied different versions to L2, or in different forms",
				      between[0], between[1]);
	v->l2_refers = msg.flush.refers;
	v->agreed = true;
	return rc;
}

bool kedge__flush_place(struct kedge__version *v)
{
	if (!kedge__bundles_size(v->k) || v->agreed)
		return false;
	v->flush_rc = agree_written(v);
	if (!v->flush_rc)
		v->flush_rc = kedge__bundles_place(v, &v->flush_err);
	v->placed = !v->flush_rc && v->parts.count;
	return v->placed;
}

void kedge__flush_fill(struct kedge__version *v)
{
	v->flush_rc = kedge__bundles_fill(v, &v->flush_err);
	damage_note(v->k, v->flush_rc);
	l1_unpin(v);
}

/* All bundles are there, under their names. */
static int agree_filled(struct kedge__version *v)
{
	struct kedge__channel *ch = &v->k->channels.back;
	int rc = kedge__agree(ch, KEDGE__STEP_FLUSH_FILL, v->version, v->flush_rc, NULL, &v->flush_err);

	if (rc)
		return rc;
	rc = kedge__bundles_name(v, &v->flush_err);
	return kedge__agree(ch, KEDGE__STEP_FLUSH_NAME, v->version, rc, NULL, &v->flush_err);
}

/* ------------------------------------------------------------------ 3: one set */

/* A set as L1 has it, with the parts as they are on L2, and, if it is coalesced, what it refers to there. */
static int set_publish(struct kedge__version *v, uint64_t version, bool refers, struct kedge__error *err)
{
	kedge_t *k = v->k;
	const struct kedge__catalog_entry *e = kedge__catalog_find(k->levels.at[KEDGE__L1].flush, version);
	char keep[KEDGE__KEEP_ROOM];
	struct kedge__set set;
	char *why = NULL;
	int rc;

	if (!e || e->problem.code)
		return kedge__error_set(err, KEDGE_E_MISSING, 0, "version %llu left L1 while it was copied",
					(unsigned long long)version);
	set = e->set;
	set.parts = v->gathered;
	set.bundle = kedge__bundles_size(k);
	set.keep = kedge__keep_everything(&k->levels.keep[KEDGE__L2])
		       ? NULL
		       : kedge__keep_text(&k->levels.keep[KEDGE__L2], keep);
	if (v->l2.form != KEDGE__L2_COPY) {
		set.reducer = KEDGE__REDUCER_MERGED;
		set.parent = refers ? v->l2.parent : KEDGE__NO_VERSION;
		set.sources = &v->l2.parent;
		set.source_count = refers;
	}
	if (version == v->version && v->l2_why[0]) {
		why = kedge__asprintf("%s%sL2: %s", set.why ? set.why : "", set.why ? "; " : "", v->l2_why);
		if (!why)
			return kedge__error_nomem(err);
		set.why = why;
	}
	rc = kedge__set_publish(k->levels.at[KEDGE__L2].flush, &set, err);
	if (!rc && (v->l2.form != KEDGE__L2_COPY || kedge__trust_has(k->levels.trust[KEDGE__L1], &e->set)))
		kedge__trust_add(k->levels.trust[KEDGE__L2], &set); /* what was merged was proved */
	if (!rc && version == v->version) /* those that it needs may be of older runs, which know of no later ones */
		kedge__run_sweep(k, KEDGE__L2, k->levels.at[KEDGE__L2].flush, &set.run,
				 v->begins_run ? version : KEDGE__NO_VERSION, NULL);
	kedge__free(why);
	return rc;
}

/* *PUBLISHED: how many sets are there now. */
static int publish_all(struct kedge__version *v, bool refers, uint64_t *published)
{
	kedge_t *k = v->k;
	int rc = 0, met = 0;

	*published = 0;
	for (size_t i = 0; i < v->parts.count && !met; i++) {
		struct kedge__flush_part *part = &v->parts.at[i];

		met = kedge__gather(&k->channels.back, 0, &part->part, sizeof(part->part), v->gathered,
				    rc ? NULL : &v->flush_err);
		if (!met && !rc && k->levels.at[KEDGE__L2].leads) {
			rc = set_publish(v, part->version, refers, &v->flush_err);
			*published += !rc;
		}
	}
	rc = kedge__agree(&k->channels.back, KEDGE__STEP_FLUSH_PUBLISH, v->version, rc ? rc : met, published,
			  &v->flush_err);
	return rc;
}

/* ------------------------------------------------------------------ 4 */

static void discard_copies(struct kedge__version *v, size_t first)
{
	if (kedge__bundles_size(v->k)) {
		kedge__bundles_discard(v, first);
		return;
	}
	for (size_t i = first; i < v->parts.count; i++)
		(void)kedge__segment_discard(v->k->levels.at[KEDGE__L2].flush, v->parts.at[i].version,
					     (uint32_t)v->k->group.rank, v->parts.at[i].part.generation, NULL);
}

static void flush_failed(struct kedge__version *v, int rc, size_t published)
{
	discard_copies(v, published);
	kedge__levels_failed_l2(v->k, v->version);
	kedge__error_prefix(&v->flush_err, "version %llu did not reach L2", (unsigned long long)v->version);
	kedge__log(KEDGE_LOG_ERROR, "%s", kedge__error_text(&v->flush_err));
	kedge__journal_failed(v->k, v->version, "l2", rc, &v->flush_err);
	kedge__state_note(v->k, rc, &v->flush_err);
}

static void flush_succeeded(struct kedge__version *v, bool refers)
{
	kedge_t *k = v->k;
	struct kedge__l2_flush flush = {.seconds = k->advice.clock() - v->flush_began,
					.bytes = v->l2_bytes,
					.self_contained =
					    v->l2.form == KEDGE__L2_COPY ? !v->set.source_count : !refers};

	if (v->l2_why[0] && k->group.rank == 0)
		kedge__log(KEDGE_LOG_INFO, "%s: version %llu on L2: %s", k->name, (unsigned long long)v->version,
			   v->l2_why);
	kedge__levels_reached_l2(v, refers);
	if (!v->parts.count)
		return;
	kedge__journal_l2(v, &(struct kedge__journal_flush){flush.seconds, flush.bytes, !flush.self_contained});
	kedge__adapt_flushed(k, &flush);
	kedge__l2_tie(k); /* L1 may have been made again since */
}

void kedge__flush_publish(struct kedge__version *v)
{
	kedge_t *k = v->k;
	uint64_t published = 0;
	int rc = v->agreed ? v->flush_rc : agree_written(v);

	if (v->placed)
		rc = agree_filled(v);
	if (!rc)
		rc = publish_all(v, v->l2_refers, &published);
	if (rc)
		flush_failed(v, rc, (size_t)published);
	else
		flush_succeeded(v, v->l2_refers);
	l1_unpin(v);
	if (v->l2_pinned)
		kedge__catalog_unpin(k->levels.at[KEDGE__L2].flush);
	v->l2_pinned = false;
	kedge__state_end(k, v->version, rc, &v->flush_err);
}
