#include "job/handle.h"

#include <stdio.h>

/* ------------------------------------------------------------------ the local part */

/* What is asked for, with what storage was measured to take for each thread. */
static struct kedge__codec_choice codec_wanted(const struct kedge__job_write *w)
{
	const kedge_t *k = w->k;
	struct kedge__codec_choice codec = k->codec;
	double l2_rate = k->level[KEDGE__L2].on ? (double)k->set.l2_rate : 0;

	codec.storage = kedge__pace_storage(&k->pace, l2_rate, w->l2.every) / kedge__pool_threads(k->pool);
	return codec;
}

/* What this version may be packed against: its parent, or the newest there is. */
static uint64_t base_version(const struct kedge__job_write *w)
{
	uint64_t version = w->reduction.parent;

	if (version == KEDGE__NO_VERSION && w->alive_count)
		version = w->alive[w->alive_count - 1].version;
	return version == KEDGE__NO_VERSION || version < w->k->rely_from ? KEDGE__NO_VERSION : version;
}

static int base_open(void *ctx, struct kedge__lineage **out, struct kedge__error *err)
{
	const struct kedge__job_write *w = ctx;
	struct kedge__catalog *cat = w->k->level[KEDGE__L1].write;

	return kedge__lineage_open(&cat, 1, base_version(w), (uint32_t)w->k->group.rank, out, err);
}

static void spec_fill(struct kedge__job_write *w, struct kedge__segment_spec *spec)
{
	const kedge_t *k = w->k;

	*spec = (struct kedge__segment_spec){
	    .name = k->name,
	    .version = w->version,
	    .rank = (uint32_t)k->group.rank,
	    .ranks = (uint32_t)k->group.size,
	    .generation = w->generation,
	    .next_slot = w->next_slot,
	    .regions = w->records,
	    .region_count = w->region_count,
	    .reduction = &w->reduction,
	    .source = w->source,
	    .sources = w->sources,
	    .source_count = w->reduction.source_count,
	    .codec = codec_wanted(w),
	    .memory = k->memory,
	    .base = {base_version(w) == KEDGE__NO_VERSION ? NULL : base_open, w},
	    .block_bytes = (uint32_t)k->set.block,
	    .sync = k->set.sync,
	    .io = kedge__job_settings_io(&k->set),
	};
}

static int segment_write(struct kedge__job_write *w, struct kedge__error *err)
{
	kedge_t *k = w->k;
	struct kedge__catalog *cat = k->level[KEDGE__L1].write;
	struct kedge__job_progress p = {k, "write", w->version, w->reduction.literal_bytes};
	struct kedge__segment_spec spec;
	int rc = kedge__catalog_next_generation(cat, w->version, (uint32_t)k->group.rank, &w->generation, err);

	if (rc)
		return rc;
	spec_fill(w, &spec);
	spec.progress = kedge__state_progress_bytes;
	spec.progress_ctx = &p;
	rc = kedge__segment_write(cat, k->pool, &spec, &w->part, &w->stats, err);
	w->sealed = !rc;
	if (w->sealed)
		kedge__pace_wrote(&k->pace, w->stats.stored_bytes, w->stats.write_seconds, w->started);
	return rc;
}

void kedge__write_segment(struct kedge__job_write *w)
{
	int rc;

	if (!w->rc && !w->reduced)
		w->rc = kedge__still_reduce(w, &w->err);
	if (!w->rc)
		w->rc = segment_write(w, &w->err);
	rc = kedge__still_end(w, w->rc ? NULL : &w->err);
	if (!w->rc)
		w->rc = rc;
}

/* ------------------------------------------------------------------ all ranks: one set */

/* What a rank tells of its segment; a bit for each alive version that it refers to follows. */
struct tale {
	struct kedge__say say;
	struct kedge__set_part part;
	uint64_t parent, created_ns;
	double seconds;
	struct kedge__l2_costs l2;
	uint32_t reducer;
	uint32_t unused;
	char why[KEDGE__POLICY_TEXT]; /* a multiple of eight bytes, as what follows needs */
};

static size_t tale_bytes(const struct kedge__job_write *w)
{
	return sizeof(struct tale) + (w->alive_count + 63) / 64 * 8;
}

static void tale_tell(const struct kedge__job_write *w, struct tale *t)
{
	uint64_t *bits = (uint64_t *)(t + 1);

	kedge__say_set(&t->say, KEDGE__STEP_SEAL, w->version, w->rc, &w->err);
	if (w->rc)
		return;
	t->part = w->part;
	t->parent = w->reduction.parent;
	t->created_ns = kedge__clock_wall_ns();
	t->seconds = w->blocked > 0 ? w->blocked : kedge__clock_seconds() - w->started;
	t->reducer = w->reduction.reducer;
	t->l2 = w->l2;
	memcpy(t->why, w->why, sizeof(t->why));
	for (size_t i = 0, s = 0; i < w->alive_count; i++) {
		bool source = s < w->reduction.source_count && w->alive[i].version == w->reduction.sources[s];

		s += source;
		if (source || w->alive[i].version == w->stats.base)
			bits[i / 64] |= UINT64_C(1) << i % 64;
	}
}

static bool any_refers(const struct kedge__job_write *w, const char *all, size_t i)
{
	for (int r = 0; r < w->k->group.size; r++) {
		const struct tale *t = (const struct tale *)(all + (size_t)r * tale_bytes(w));

		if (((const uint64_t *)(t + 1))[i / 64] >> i % 64 & 1)
			return true;
	}
	return false;
}

/* The set is the same in every directory: what is a rank's own comes from all, what is one comes from rank 0. */
static int set_make(const struct kedge__job_write *w, const char *all, struct kedge__set *set, struct kedge__error *err)
{
	const kedge_t *k = w->k;
	const struct tale *first = (const struct tale *)all;
	uint32_t ranks = (uint32_t)k->group.size;

	*set = (struct kedge__set){.version = w->version,
				   .parent = KEDGE__NO_VERSION,
				   .created_ns = first->created_ns,
				   .reducer = first->reducer,
				   .ranks = ranks};
	set->name = kedge__strdup(k->name);
	set->parts = kedge__calloc(ranks, sizeof(*set->parts));
	set->sources = kedge__calloc(w->alive_count + 1, sizeof(*set->sources));
	set->why = first->why[0] ? kedge__strdup(first->why) : NULL;
	if (!set->name || !set->parts || !set->sources || (first->why[0] && !set->why) ||
	    kedge__run_copy(kedge__run_of(k, w->version), &set->run, NULL)) {
		kedge__set_done(set);
		return kedge__error_nomem(err);
	}
	for (uint32_t r = 0; r < ranks; r++) {
		const struct tale *t = (const struct tale *)(all + r * tale_bytes(w));

		set->parts[r] = t->part;
		set->seconds = KEDGE__MAX(set->seconds, t->seconds);
		if (t->parent != KEDGE__NO_VERSION && (set->parent == KEDGE__NO_VERSION || t->parent > set->parent))
			set->parent = t->parent;
	}
	for (size_t i = 0; i < w->alive_count; i++) {
		if (any_refers(w, all, i))
			set->sources[set->source_count++] = w->alive[i].version;
	}
	return 0;
}

/* Gather all tales, learn whether all sealed theirs, and put the set together; *MADE is how that went here. */
static int set_agree(struct kedge__job_write *w, struct kedge__set *set, int *made, struct kedge__error *err)
{
	struct kedge__channel *ch = &w->k->front;
	size_t bytes = tale_bytes(w);
	void *slot, *all;
	int rc = kedge__channel_begin(ch, bytes, &slot, err);

	if (!rc) {
		tale_tell(w, slot);
		rc = kedge__channel_gather(ch, bytes, &all, err);
	}
	if (!rc)
		rc = kedge__say_judge(ch, all, bytes, err);
	if (rc)
		return rc;
	w->l2 = ((const struct tale *)all)->l2;
	*made = set_make(w, all, set, err);
	return 0;
}

/* Some directories have the set and one has not: it must not exist anywhere. */
static void withdraw(struct kedge__job_write *w)
{
	kedge_t *k = w->k;
	struct kedge__catalog *cat = k->level[KEDGE__L1].write;
	struct kedge__error err = KEDGE__ERROR_INIT;
	const struct kedge__catalog_entry *e;
	int rc = 0;

	if (k->level[KEDGE__L1].leads) {
		e = kedge__catalog_find(cat, w->version);
		if (e && !e->problem.code && e->set.ranks > (uint32_t)k->group.rank &&
		    e->set.parts[k->group.rank].generation == w->generation)
			rc = kedge__set_remove(cat, w->version, &err);
	}
	if (rc)
		kedge__log(KEDGE_LOG_ERROR, "version %llu cannot be withdrawn: %s", (unsigned long long)w->version,
			   kedge__error_text(&err));
	kedge__error_done(&err);
	(void)kedge__agree(&k->front, KEDGE__STEP_WITHDRAW, w->version, rc, NULL, NULL);
}

static void segment_discard(struct kedge__job_write *w)
{
	kedge_t *k = w->k;
	struct kedge__error err = KEDGE__ERROR_INIT;

	if (w->sealed &&
	    kedge__segment_discard(k->level[KEDGE__L1].write, w->version, (uint32_t)k->group.rank, w->generation, &err))
		kedge__log(KEDGE_LOG_WARNING, "a segment of version %llu stays as a leftover: %s",
			   (unsigned long long)w->version, kedge__error_text(&err));
	kedge__error_done(&err);
	w->sealed = false;
}

/* Where another rank publishes for this one, the manifest must be seen here, too, before the version counts. */
static int seen(struct kedge__job_write *w, const struct kedge__set *set, struct kedge__error *err)
{
	const kedge_t *k = w->k;
	struct kedge__catalog *cat = k->level[KEDGE__L1].write;
	const struct kedge__catalog_entry *e;
	int rc = kedge__catalog_refresh(cat, w->version, err);

	e = rc ? NULL : kedge__catalog_find(cat, w->version);
	if (!rc && !e) { /* listing the directory makes a network file system look again */
		rc = kedge__catalog_scan(cat, err);
		e = rc ? NULL : kedge__catalog_find(cat, w->version);
	}
	if (rc || (e && !e->problem.code && kedge__set_key_id(&e->set) == kedge__set_key_id(set)))
		return rc;
	return kedge__error_set(err, KEDGE_E_MISSING, 0, "rank %d does not see the manifest of version %llu in %s: %s",
				k->group.rank, (unsigned long long)w->version, k->set.l1,
				e && e->problem.code ? kedge__error_text(&e->problem)
						     : "the rank that leads there has written it elsewhere");
}

/* MADE is how putting the set together went. */
static int publish(struct kedge__job_write *w, const struct kedge__set *set, int made, struct kedge__error *err)
{
	kedge_t *k = w->k;
	int rc = made;

	if (!rc && k->level[KEDGE__L1].leads)
		rc = kedge__set_publish(k->level[KEDGE__L1].write, set, err);
	if (!rc && k->level[KEDGE__L1].leads)
		kedge__trust_add(k->trust[KEDGE__L1], set);
	rc = kedge__agree(&k->front, KEDGE__STEP_PUBLISH, w->version, rc, NULL, err);
	if (!rc && k->l1_shared) {
		rc = k->level[KEDGE__L1].leads ? 0 : seen(w, set, err);
		rc = kedge__agree(&k->front, KEDGE__STEP_SEEN, w->version, rc, NULL, err);
	}
	if (rc)
		withdraw(w);
	return rc;
}

static void stats_set(const struct kedge__job_write *w)
{
	kedge_t *k = w->k;
	const char *name = kedge__reducer_name(w->reduction.reducer);
	struct kedge_stats s = {
	    .version = w->version,
	    .raw_bytes = w->reduction.raw_bytes,
	    .stored_bytes = w->stats.stored_bytes,
	    .literal_bytes = w->stats.literal_bytes,
	    .metadata_bytes = w->stats.metadata_bytes,
	    .blocked_seconds = w->blocked,
	    .hash_seconds = w->reduction.hash_seconds,
	    .encode_seconds = w->stats.encode_seconds,
	    .write_seconds = w->stats.write_seconds,
	};

	snprintf(s.reducer, sizeof(s.reducer), "%s", name ? name : "unknown");
	pthread_mutex_lock(&k->state_lock);
	k->stats = s;
	/* What stands alone is no increment, unless all do. */
	if (w->reduction.source_count || kedge__job_settings_reducer(&k->set) == KEDGE__REDUCER_FULL) {
		k->increment[0] = s.raw_bytes;
		k->increment[1] = s.literal_bytes;
		k->increment[2] = s.stored_bytes;
	}
	pthread_mutex_unlock(&k->state_lock);
}

/* RAW and STORED of all ranks, as the set has them. */
static void journal_checkpoint(const struct kedge__job_write *w, const struct kedge__set *set)
{
	uint64_t raw = 0, stored = 0;

	if (w->k->group.rank != 0)
		return;
	for (uint32_t r = 0; r < set->ranks; r++) {
		raw += set->parts[r].raw_bytes;
		stored += set->parts[r].file_bytes;
	}
	kedge__journal_write("checkpoint %llu %llu %llu %.6f %llu", (unsigned long long)set->version,
			     (unsigned long long)raw, (unsigned long long)stored, set->seconds,
			     (unsigned long long)kedge__clock_wall_ns());
}

static void succeeded(struct kedge__job_write *w, const struct kedge__set *set)
{
	kedge_t *k = w->k;
	struct kedge__set_key key = {w->version, kedge__set_key_id(set)};

	kedge__reducer_commit(k->reducer);
	kedge__reducer_identify(k->reducer, (struct kedge__image_key){w->version, w->part.image_id});
	if (!k->record_stale)
		kedge__record_drop(k);
	k->track.at = w->collected ? w->version : KEDGE__NO_VERSION;
	w->reduced = w->sealed = false;
	k->reducer_at = w->version;
	k->reducer_primed = k->record_stale = true;
	kedge__run_published(k, w->version);
	if (w->blocked <= 0)
		w->blocked = kedge__clock_seconds() - w->started;
	stats_set(w);
	kedge__versions_published(k, key);
	journal_checkpoint(w, set);
}

/* Give back what only an unfinished write holds. */
static void let_go(struct kedge__job_write *w)
{
	if (w->reduced)
		kedge__reducer_rollback(w->k->reducer);
	if (w->reduced && w->rc == KEDGE_E_NOMEM) { /* what the reducer has may be what the write lacked */
		kedge__reducer_reset(w->k->reducer);
		w->k->reducer_at = KEDGE__NO_VERSION;
		w->k->whole_next = true;
	}
	w->reduced = false;
	segment_discard(w);
	if (w->pinned)
		kedge__catalog_unpin(w->k->level[KEDGE__L1].write);
	w->pinned = false;
}

void kedge__write_publish(struct kedge__job_write *w)
{
	kedge_t *k = w->k;
	struct kedge__set set = {0};
	int made = 0, rc = set_agree(w, &set, &made, w->rc ? NULL : &w->err);

	if (!w->rc && !rc)
		rc = publish(w, &set, made, &w->err);
	if (!w->rc)
		w->rc = rc;
	if (!w->rc)
		succeeded(w, &set);
	let_go(w);
	if (w->rc)
		kedge__state_end(k, w->version, w->rc, &w->err);
	else
		kedge__chores_add(w, set.created_ns);
	kedge__set_done(&set);
}

void kedge__write_free(struct kedge__job_write *w)
{
	if (!w)
		return;
	let_go(w);
	(void)kedge__still_end(w, NULL);
	kedge__dirty_free(&w->pages);
	kedge__free(w->ways);
	kedge__reduction_done(&w->reduction);
	kedge__regions_free(w->records, w->records ? w->region_count : 0);
	kedge__free(w->sources);
	kedge__free(w->regions);
	kedge__free(w->alive);
	for (size_t i = 0; i < KEDGE__COUNT(w->chores); i++)
		kedge__free(w->chores[i]);
	kedge__error_done(&w->err);
	kedge__free(w);
}

/* ------------------------------------------------------------------ in the background */

static void write_run(void *ctx)
{
	struct kedge__job_write *w = ctx;

	kedge__write_segment(w);
	if (w->k->front_alone)
		kedge__write_publish(w);
}

void kedge__write_submit(struct kedge__job_write *w)
{
	kedge_t *k = w->k;

	k->pending = w;
	w->blocked = kedge__clock_seconds() - w->started;
	/* Without memory for a task the write is done here: later than hoped, but done. */
	if (kedge__worker_submit(k->writer, write_run, w, NULL))
		write_run(w);
}

void kedge__write_finish(kedge_t *k)
{
	struct kedge__job_write *w = k->pending;

	if (!w)
		return;
	kedge__worker_drain(k->writer);
	if (!k->front_alone)
		kedge__write_publish(w);
	kedge__state_note(k, w->rc, &w->err);
	if (w->rc)
		kedge__log(KEDGE_LOG_ERROR, "version %llu was not written: %s", (unsigned long long)w->version,
			   kedge__error_text(&w->err));
	k->pending = NULL;
	kedge__write_free(w);
}
