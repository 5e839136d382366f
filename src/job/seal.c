/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * From an image to a version that exists:
 *
 *  1. Reduce the image; write, sync and rename this rank's segment.
 *  2. SEAL: all ranks have. The leaders of directories get the table of all ranks' segments.
 *  3. Leaders publish the manifest.
 *  4. PUBLISH: all of them have. Rank 0 says whether and how the version goes to L2. From here on the version exists.
 *  5. With `protect`, and unless that is done in the background: shields.c.
 *  6. Settle the consequences: the reducer's baseline, the run, the holdings of the level, the follow-ups.
 *
 * If any rank fails before the end of step 4, the version is withdrawn everywhere.
 */
#include "job/handle.h"

#include <stdio.h>

/* ------------------------------------------------------------------ 1: this rank's segment */

struct kedge__codec_choice kedge__seal_codec(const struct kedge__version *v)
{
	const kedge_t *k = v->k;
	struct kedge__codec_choice codec = k->codec;
	double l2_rate = k->levels.at[KEDGE__L2].on ? (double)k->set.l2_rate : 0;

	codec.storage = kedge__pace_storage(&k->pace, l2_rate, v->costs.every) / kedge__pool_threads(k->pool);
	codec.bus = v->device ? KEDGE__CODEC_BUS : 0;
	return codec;
}

/* Packed against the newest version that it refers to anyhow. If it refers to none, a codec that was asked for by name
 * may still have a base: the newest version that it could refer to, which it then needs like any other. */
static uint64_t base_version(const struct kedge__version *v)
{
	if (v->reduction.source_count)
		return v->reduction.sources[v->reduction.source_count - 1];
	return v->referable_count ? v->referable[v->referable_count - 1].version : KEDGE__NO_VERSION;
}

static int base_open(void *ctx, struct kedge__lineage **out, struct kedge__error *err)
{
	const struct kedge__version *v = ctx;
	struct kedge__catalog *cat = v->k->levels.at[KEDGE__L1].write;

	return kedge__lineage_open(&cat, 1, base_version(v), (uint32_t)v->k->group.rank, out, err);
}

static void spec_fill(struct kedge__version *v, struct kedge__segment_spec *spec)
{
	const kedge_t *k = v->k;

	*spec = (struct kedge__segment_spec){
	    .name = k->name,
	    .version = v->version,
	    .rank = (uint32_t)k->group.rank,
	    .ranks = (uint32_t)k->group.size,
	    .generation = v->generation,
	    .next_slot = v->next_slot,
	    .regions = v->records,
	    .region_count = v->region_count,
	    .reduction = &v->reduction,
	    .source = v->source,
	    .sources = v->sources,
	    .source_count = v->reduction.source_count,
	    .codec = kedge__seal_codec(v),
	    .plans = v->plans,
	    .memory = k->memory,
	    .base = {base_version(v) == KEDGE__NO_VERSION ? NULL : base_open, v},
	    .block_bytes = (uint32_t)k->set.block,
	    .io = kedge__job_settings_io(&k->set),
	    .sync = k->set.sync,
	};
}

static int segment_write(struct kedge__version *v, struct kedge__error *err)
{
	kedge_t *k = v->k;
	struct kedge__catalog *cat = k->levels.at[KEDGE__L1].write;
	struct kedge__job_progress p = {k, "write", v->version, v->reduction.literal_bytes};
	struct kedge__segment_spec spec;
	int rc = kedge__catalog_next_generation(cat, v->version, (uint32_t)k->group.rank, &v->generation, err);

	if (rc)
		return rc;
	spec_fill(v, &spec);
	kedge__ahead_begin(v);
	spec.companion = kedge__ahead_companion(v);
	spec.progress = kedge__state_progress_bytes;
	spec.progress_ctx = &p;
	rc = kedge__segment_write(cat, k->pool, &spec, &v->part, &v->stats, err);
	v->sealed = !rc;
	if (v->sealed)
		kedge__pace_wrote(&k->pace, v->stats.stored_bytes, v->stats.write_seconds, v->started);
	return rc;
}

/* What the set is made of, beside the parts; nothing may be lacking once all have sealed theirs. */
static int set_prepare(struct kedge__version *v, struct kedge__error *err)
{
	char keep[KEDGE__KEEP_ROOM];

	v->set.sources = kedge__calloc(v->referable_count + 1, sizeof(*v->set.sources));
	v->set.why = v->why[0] ? kedge__strdup(v->why) : NULL;
	v->set.note = v->note[0] ? kedge__strdup(v->note) : NULL;
	kedge__keep_text(&v->k->levels.keep[KEDGE__L1], keep);
	v->set.keep = keep[0] ? kedge__strdup(keep) : NULL;
	v->set.grouping = v->k->grouping ? kedge__grouping_copy(v->k->grouping) : NULL;
	if (!v->set.grouping != !v->k->grouping)
		return kedge__error_nomem(err);
	if (!v->set.sources || (v->why[0] && !v->set.why) || (v->note[0] && !v->set.note) || (keep[0] && !v->set.keep))
		return kedge__error_nomem(err);
	return kedge__run_copy(kedge__run_of(v->k, v->version), &v->set.run, err);
}

void kedge__seal_write(struct kedge__version *v)
{
	int rc;

	if (!v->rc && !v->reduced)
		v->rc = kedge__image_reduce(v, &v->err);
	if (!v->rc)
		v->rc = set_prepare(v, &v->err);
	if (!v->rc)
		v->rc = segment_write(v, &v->err);
	rc = kedge__image_release(v, v->rc ? NULL : &v->err);
	if (!v->rc)
		v->rc = rc;
}

/* ------------------------------------------------------------------ 2: all ranks' segments */

static void seal_fill(const struct kedge__version *v, struct kedge__seal_msg *msg)
{
	msg->created_ns = kedge__clock_wall_ns();
	msg->parent = v->reduction.parent == KEDGE__NO_VERSION ? 0 : v->reduction.parent + 1;
	msg->seconds = v->blocked > 0 ? v->blocked : kedge__clock_seconds() - v->started;
	msg->reducer = v->reduction.reducer;
	for (size_t i = 0, s = 0; i < v->referable_count; i++) {
		uint64_t version = v->referable[i].version;
		bool source = s < v->reduction.source_count && version == v->reduction.sources[s];

		s += source;
		if (source || version == v->stats.base)
			msg->sources[i / 64] |= UINT64_C(1) << i % 64;
	}
}

static void set_fill(struct kedge__version *v, const struct kedge__seal_msg *msg)
{
	struct kedge__set *set = &v->set;

	set->created_ns = msg->created_ns;
	set->parent = msg->parent ? msg->parent - 1 : KEDGE__NO_VERSION;
	set->seconds = msg->seconds;
	set->reducer = msg->reducer;
	for (size_t i = 0; i < v->referable_count; i++) {
		if (msg->sources[i / 64] >> i % 64 & 1)
			set->sources[set->source_count++] = v->referable[i].version;
	}
}

/* A manifest names every rank's segment: they reach every rank that publishes one. */
static int parts_gather(struct kedge__version *v, struct kedge__error *err)
{
	kedge_t *k = v->k;
	int root = k->levels.at[KEDGE__L1].one_for_all ? k->levels.at[KEDGE__L1].leader : -1;

	return kedge__gather(&k->channels.front, root, &v->part, sizeof(v->part), v->set.parts, err);
}

static int seal(struct kedge__version *v, struct kedge__error *err)
{
	union kedge__msg msg = {.seal = {.created_ns = 0}};
	int rc;

	if (!v->rc)
		seal_fill(v, &msg.seal);
	rc = kedge__exchange(&v->k->channels.front, KEDGE__STEP_SEAL, v->version, v->rc, &msg, err);
	if (rc)
		return rc;
	set_fill(v, &msg.seal);
	return parts_gather(v, err);
}

/* ------------------------------------------------------------------ 3 and 4: one set */

/* Some directories have the set and one has not: it must not exist anywhere. */
static void withdraw(struct kedge__version *v)
{
	kedge_t *k = v->k;
	struct kedge__catalog *cat = k->levels.at[KEDGE__L1].write;
	struct kedge__error err = KEDGE__ERROR_INIT;
	const struct kedge__catalog_entry *e;
	int rc = 0;

	if (k->levels.at[KEDGE__L1].leads) {
		e = kedge__catalog_find(cat, v->version);
		if (e && !e->problem.code && e->set.ranks > (uint32_t)k->group.rank &&
		    e->set.parts[k->group.rank].generation == v->generation)
			rc = kedge__set_remove(cat, v->version, &err);
	}
	if (rc)
		kedge__log(KEDGE_LOG_ERROR, "version %llu cannot be withdrawn: %s", (unsigned long long)v->version,
			   kedge__error_text(&err));
	kedge__error_done(&err);
	(void)kedge__agree(&k->channels.front, KEDGE__STEP_WITHDRAW, v->version, rc, NULL, NULL);
}

/* Where another rank publishes for this one: the set as it is in this rank's directory. */
static int see(struct kedge__version *v, const struct kedge__set **set, struct kedge__error *err)
{
	const kedge_t *k = v->k;
	struct kedge__catalog *cat = k->levels.at[KEDGE__L1].write;
	const struct kedge__catalog_entry *e;
	int rc = kedge__catalog_refresh(cat, v->version, err);

	e = rc ? NULL : kedge__catalog_find(cat, v->version);
	if (!rc && !e) { /* listing the directory makes a network file system look again */
		rc = kedge__catalog_scan(cat, err);
		e = rc ? NULL : kedge__catalog_find(cat, v->version);
	}
	if (!rc && e && !e->problem.code && e->set.ranks == v->set.ranks &&
	    kedge__digest_equal(e->set.parts[k->group.rank].seal, v->part.seal)) {
		*set = &e->set;
		return 0;
	}
	if (rc)
		return rc;
	return kedge__error_set(err, KEDGE_E_MISSING, 0, "rank %d does not see the manifest of version %llu in %s: %s",
				k->group.rank, (unsigned long long)v->version, k->set.l1,
				e && e->problem.code ? kedge__error_text(&e->problem)
						     : "the rank that leads there has written it elsewhere");
}

/* All leaders have published it, but this rank's directory does not show it: it is not referred to from here, and so by
 * no rank from the next version on; and all ranks see to it that versions are seen. */
static void unseen(struct kedge__version *v, int rc, struct kedge__error *err)
{
	kedge__log(KEDGE_LOG_ERROR, "%s: %s", v->k->name, kedge__error_text(err));
	if (rc != KEDGE_E_NOMEM)
		kedge__levels_unseen(v->k);
	kedge__error_done(err);
}

/* *SET: as it was published in this rank's directory; NULL: it is not seen there. */
static int publish(struct kedge__version *v, const struct kedge__set **set, struct kedge__error *err)
{
	kedge_t *k = v->k;
	union kedge__msg msg = {.publish = {.l2 = {0}}};
	bool leads = k->levels.at[KEDGE__L1].leads;
	int published, rc = leads ? kedge__set_publish(k->levels.at[KEDGE__L1].write, &v->set, err) : 0;

	*set = &v->set;
	if (!rc && leads) {
		kedge__trust_add(k->levels.trust[KEDGE__L1], &v->set);
		kedge__levels_published(k, &v->set);
	}
	if (!rc && k->group.rank == 0) {
		kedge__levels_decide_l2(v);
		msg.publish.l2 = v->l2;
	}
	rc = published = kedge__exchange(&k->channels.front, KEDGE__STEP_PUBLISH, v->version, rc, &msg, err);
	kedge__levels_decided_l2(v, &msg.publish.l2);
	if (!rc && !leads) {
		rc = see(v, set, err);
		if (!rc)
			kedge__levels_published(k, *set);
	}
	if (k->levels.shared && k->levels.renewed)
		rc = kedge__agree(&k->channels.front, KEDGE__STEP_SEEN, v->version, rc, NULL, err);
	else if (!published && rc) {
		unseen(v, rc, err);
		*set = NULL;
		rc = 0;
	}
	if (rc) {
		kedge__levels_forget(k);
		withdraw(v);
	}
	return rc;
}

/* ------------------------------------------------------------------ 6: what follows */

/* BEGUN: it went on its way before. */
static void stats_set(const struct kedge__version *v, bool begun)
{
	kedge_t *k = v->k;
	const char *name = kedge__reducer_name(v->reduction.reducer);
	struct kedge_stats s = {
	    .version = v->version,
	    .raw_bytes = v->reduction.raw_bytes,
	    .stored_bytes = v->stats.stored_bytes,
	    .literal_bytes = v->stats.literal_bytes,
	    .metadata_bytes = v->stats.metadata_bytes,
	    .blocked_seconds = v->blocked,
	    .hash_seconds = v->reduction.hash_seconds,
	    .encode_seconds = v->stats.encode_seconds,
	    .write_seconds = v->stats.write_seconds,
	};
	/* A self-contained version is no increment, unless all are. */
	bool increment = v->reduction.source_count || kedge__job_settings_reducer(&k->set) == KEDGE__REDUCER_FULL;

	snprintf(s.reducer, sizeof(s.reducer), "%s", name ? name : "unknown");
	kedge__state_stats(k, &s, begun);
	if (increment)
		kedge__adapt_increment(k, &s);
}

static void succeeded(struct kedge__version *v, const struct kedge__set *set)
{
	kedge_t *k = v->k;
	bool begun;

	kedge__baseline_commit(v);
	kedge__track_committed(k, v->pages.collected ? v->version : KEDGE__NO_VERSION);
	v->sealed = false;
	v->begins_run = kedge__run_due(k, v->version);
	kedge__run_published(k, v->version, v->l2.due);
	begun = v->blocked > 0;
	if (!begun)
		v->blocked = kedge__clock_seconds() - v->started;
	stats_set(v, begun);
	if (set)
		kedge__versions_published(k, (struct kedge__set_key){v->version, kedge__set_image(set)});
	if (set)
		kedge__journal_sealed(v, set);
	kedge__requests_answered(k, &v->asked, v->version, v->why);
	kedge__levels_sealed(v);
}

void kedge__seal_publish(struct kedge__version *v)
{
	const struct kedge__set *set = NULL;
	int rc = seal(v, v->rc ? NULL : &v->err);

	if (!rc)
		rc = publish(v, &set, &v->err);
	if (!v->rc)
		v->rc = rc;
	if (!v->rc)
		kedge__shields_protect(v, false);
	if (!v->rc)
		succeeded(v, set);
	if (!v->rc)
		kedge__ahead_decide(v);
	kedge__version_release(v);
	if (v->rc) {
		kedge__journal_failed(v->k, v->version, "seal", v->rc, &v->err);
		kedge__state_end(v->k, v->version, v->rc, &v->err);
	}
}

int kedge__seal_now(struct kedge__version *v, struct kedge__error *err)
{
	int rc;

	kedge__seal_write(v);
	kedge__seal_publish(v);
	rc = v->rc;
	kedge__error_move(err, &v->err);
	if (rc)
		kedge__version_free(v);
	else
		kedge__followups_add(v);
	return rc;
}

/* ------------------------------------------------------------------ in the background */

/* How it went is for the next call of the application; the version itself goes on to the flusher. */
static void settle(struct kedge__version *v)
{
	struct kedge__sealing *s = &v->k->sealing;

	s->rc = v->rc;
	kedge__error_move(&s->err, &v->err);
	if (v->rc)
		kedge__version_free(v);
	else
		kedge__followups_add(v);
}

static void seal_run(void *ctx)
{
	struct kedge__version *v = ctx;

	kedge__seal_write(v);
	if (!v->k->channels.writer_speaks)
		return;
	kedge__seal_publish(v);
	settle(v);
}

void kedge__seal_submit(struct kedge__version *v)
{
	kedge_t *k = v->k;
	struct kedge_stats known = {.version = v->version};

	k->sealing.pending = v;
	k->sealing.version = v->version;
	v->blocked = known.blocked_seconds = kedge__clock_seconds() - v->started;
	for (size_t i = 0; i < v->region_count; i++)
		known.raw_bytes += v->regions[i].bytes;
	kedge__state_stats(k, &known, false);
	kedge__journal_captured(v);
	/* Without memory for a task it is done here: later than hoped, but done. */
	if (kedge__worker_submit(k->writer, seal_run, v, NULL))
		seal_run(v);
}

void kedge__seal_finish(kedge_t *k)
{
	struct kedge__sealing *s = &k->sealing;
	struct kedge__version *v = s->pending;

	if (!v)
		return;
	kedge__worker_drain(k->writer);
	if (!k->channels.writer_speaks) {
		kedge__seal_publish(v);
		settle(v);
	}
	kedge__state_note(k, s->rc, &s->err);
	if (s->rc)
		kedge__requests_failed(k);
	if (s->rc)
		kedge__log(KEDGE_LOG_ERROR, "version %llu was not written: %s", (unsigned long long)s->version,
			   kedge__error_text(&s->err));
	kedge__error_done(&s->err);
	s->pending = NULL;
}
