/* SPDX-License-Identifier: BSD-3-Clause */
#include "job/handle.h"

void kedge__baseline_init(struct kedge__baseline *b)
{
	*b = (struct kedge__baseline){.at = KEDGE__NO_VERSION};
}

void kedge__baseline_done(struct kedge__baseline *b)
{
	kedge__reducer_free(b->reducer);
	kedge__baseline_init(b);
}

/* ------------------------------------------------------------------ the reducer */

/* With larger chunks, or without any, where what is remembered of an image of BYTES would take too much memory. */
static void options_fit(const kedge_t *k, struct kedge__reducer_options *options, uint64_t bytes)
{
	uint32_t chunk = kedge__reducer_fit(options, bytes);

	if (chunk == options->chunk)
		return;
	if (chunk)
		kedge__log(KEDGE_LOG_NOTICE,
			   "%s: looking for changes in units of %u bytes instead of %u, because the digests of %llu "
			   "bytes do not fit into record_memory",
			   k->name, chunk, options->chunk, (unsigned long long)bytes);
	else
		kedge__log(KEDGE_LOG_WARNING,
			   "%s: every version is stored in full, because the digests of %llu bytes do not fit into "
			   "record_memory; raise it to store only what changed",
			   k->name, (unsigned long long)bytes);
	if (chunk)
		options->chunk = chunk;
	else
		options->id = KEDGE__REDUCER_FULL;
}

static uint64_t table_bytes(const kedge_t *k)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < kedge__region_table_count(k->regions.table); i++)
		bytes += kedge__region_table_at(k->regions.table, i)->bytes;
	return bytes;
}

/* Whether the one that there is suits what is protected now. */
static bool reducer_suits(const kedge_t *k)
{
	const struct kedge__reducer_options *options = kedge__reducer_options_of(k->baseline.reducer);

	return kedge__reducer_fit(options, table_bytes(k)) == options->chunk;
}

int kedge__baseline_make(kedge_t *k, struct kedge__error *err)
{
	struct kedge__baseline *b = &k->baseline;
	enum kedge__reducer_id id = kedge__job_settings_reducer(&k->set);
	struct kedge__reducer_options options = {
	    .id = id,
	    .chunk = (uint32_t)(id == KEDGE__REDUCER_REX ? k->set.pattern : k->set.chunk),
	    .pattern = (uint32_t)k->set.pattern,
	    .record_bytes = k->set.record_memory,
	    .paranoid = k->set.paranoid,
	    .track = k->track.tracker || k->set.capture == KEDGE__CAPTURE_SYNC,
	    .fetch = kedge__fetch,
	    .fetch_ctx = k,
	};
	struct kedge__reducer *made;
	int rc;

	if (b->reducer && reducer_suits(k))
		return 0;
	options_fit(k, &options, table_bytes(k));
	rc = kedge__reducer_new(&options, &made, err);
	if (rc)
		return rc;
	if (b->reducer) { /* what it knows is about other chunks */
		b->at = KEDGE__NO_VERSION;
		b->primed = true;
	}
	kedge__reducer_free(b->reducer);
	b->reducer = made;
	b->informed = false;
	return 0;
}

/* It knows nothing any more: the next version is self-contained. */
static void forget(kedge_t *k)
{
	struct kedge__baseline *b = &k->baseline;

	if (b->reducer)
		kedge__reducer_reset(b->reducer);
	b->at = KEDGE__NO_VERSION;
	b->informed = false;
}

/* ------------------------------------------------------------------ what it may refer to */

static void retain(struct kedge__version *v)
{
	kedge_t *k = v->k;
	struct kedge__image_key *images = kedge__calloc(v->referable_count + 1, sizeof(*images));

	if (!images) { /* what may be referred to is not known then */
		kedge__log(KEDGE_LOG_WARNING, "%s: out of memory: writing version %llu as a self-contained checkpoint",
			   k->name, (unsigned long long)v->version);
		forget(k);
		return;
	}
	for (size_t i = 0; i < v->referable_count; i++)
		images[i] = kedge__image_key_of(k, v->referable[i].version);
	kedge__reducer_retain(k->baseline.reducer, images, v->referable_count);
	kedge__free(images);
	k->baseline.informed = true;
	k->baseline.reach = v->reach;
	k->baseline.removals = k->levels.l1.removals;
}

void kedge__baseline_follow(struct kedge__version *v)
{
	kedge_t *k = v->k;
	struct kedge__baseline *b = &k->baseline;

	if (!v->referable_count) {
		forget(k);
		b->primed = true;
		return;
	}
	/* What came since it was told last are versions of its own. */
	if (b->informed && b->removals == k->levels.l1.removals && b->reach.from == v->reach.from &&
	    b->reach.anchor == v->reach.anchor)
		return;
	retain(v);
}

/* Other ranks may have what this one lacks. */
static void say_without(const struct kedge__version *v, const char *why)
{
	unsigned long long base = v->referable[v->referable_count - 1].version;
	char *part = v->k->group.size > 1 ? kedge__asprintf("rank %d's part of ", v->k->group.rank) : kedge__strdup("");

	kedge__log(KEDGE_LOG_WARNING,
		   "%s: writing %sversion %llu as a self-contained checkpoint, because version %llu cannot be referred "
		   "to: %s",
		   v->k->name, part ? part : "", (unsigned long long)v->version, base, why);
	kedge__free(part);
}

/* What the store has is needed by the reduction, and by nothing before it. */
static void prime(struct kedge__version *v)
{
	kedge_t *k = v->k;
	struct kedge__baseline *b = &k->baseline;
	struct kedge__error problem = KEDGE__ERROR_INIT;
	int rc;

	if (kedge__reducer_options_of(b->reducer)->id == KEDGE__REDUCER_FULL)
		return;
	if (b->primed) {
		kedge__prime_same(v);
		return;
	}
	rc = kedge__prime_store(v, v->referable, v->referable_count, &problem);
	if (!rc) {
		b->at = v->referable[v->referable_count - 1].version;
	} else {
		say_without(v, kedge__error_text(&problem));
		forget(k);
	}
	kedge__error_done(&problem);
	b->primed = true;
	retain(v);
}

/* ------------------------------------------------------------------ reduction */

static const struct kedge__image_view *view_of(const struct kedge__version *v)
{
	return v->hold ? kedge__hold_view(v->hold) : kedge__live_view(v->live);
}

static int reduce_full(struct kedge__version *v, struct kedge__job_progress *p, struct kedge__error *err)
{
	kedge_t *k = v->k;
	const struct kedge__reduce_how how = {
	    .view = view_of(v), .full = true, .progress = kedge__state_progress_bytes, .progress_ctx = p};

	return kedge__reducer_reduce(k->baseline.reducer, k->pool, v->version, &v->image, &how, &v->reduction, err);
}

/* Without memory to find what changed, all of it is stored. Memory that is held is seen only once: then it is the next
 * version that is stored in full. */
static int reduce(struct kedge__version *v, struct kedge__job_progress *p, struct kedge__error *err)
{
	kedge_t *k = v->k;
	struct kedge__baseline *b = &k->baseline;
	const struct kedge__reduce_how how = {.view = view_of(v),
					      .dirty = v->same.count     ? v->same.now
						       : v->pages.usable ? v->pages.lists
									 : NULL,
					      .progress = kedge__state_progress_bytes,
					      .progress_ctx = p};
	bool full = b->full_next;
	int rc;

	b->full_next = false;
	if (full)
		return reduce_full(v, p, err);
	rc = kedge__reducer_reduce(b->reducer, k->pool, v->version, &v->image, &how, &v->reduction, err);
	if (rc != KEDGE_E_NOMEM)
		return rc;
	kedge__log(KEDGE_LOG_WARNING, "%s: not enough memory to find what changed: storing the %sversion in full",
		   k->name, v->hold ? "next " : "");
	forget(k);
	b->full_next = v->hold;
	if (v->hold)
		return rc;
	kedge__error_done(err);
	return reduce_full(v, p, err);
}

static int sources_make(struct kedge__version *v, struct kedge__error *err)
{
	const struct kedge__catalog *cat = v->k->levels.at[KEDGE__L1].write;
	size_t n = v->reduction.source_count;

	v->sources = kedge__calloc(n + 1, sizeof(*v->sources));
	if (!v->sources)
		return kedge__error_nomem(err);
	for (size_t i = 0; i < n; i++) {
		uint64_t version = v->reduction.sources[i];
		const struct kedge__catalog_entry *e = kedge__catalog_find(cat, version);

		if (!e || e->problem.code)
			return kedge__error_set(err, KEDGE_E_INTERNAL, 0,
						"version %llu refers to version %llu, which is gone",
						(unsigned long long)v->version, (unsigned long long)version);
		v->sources[i] = (struct kedge__source_record){version, e->set.parts[v->k->group.rank].image_id};
	}
	return 0;
}

int kedge__baseline_begin(struct kedge__version *v, struct kedge__error *err)
{
	kedge_t *k = v->k;
	int begun, rc;

	prime(v);
	begun = kedge__device_turn_begin(v, err);
	if (!begun)
		begun = kedge__reducer_begin(k->baseline.reducer, k->pool, v->version, &v->image, v->device, err);
	rc = kedge__device_turn_end(v, begun, err);
	if (rc && !begun)
		kedge__reducer_rollback(k->baseline.reducer);
	kedge__fetch_end(k);
	v->begun_there = !rc;
	return rc;
}

/* What was begun is finished. */
static int finish(struct kedge__version *v, struct kedge__error *err)
{
	int rc = kedge__reducer_finish(v->k->baseline.reducer, &v->reduction, err);

	v->begun_there = false;
	v->reduced = !rc;
	return rc ? rc : sources_make(v, err);
}

int kedge__baseline_reduce(struct kedge__version *v, struct kedge__error *err)
{
	kedge_t *k = v->k;
	struct kedge__job_progress p = {k, "hash", v->version, 0};
	int rc;

	if (v->begun_there)
		return finish(v, err);
	prime(v);
	for (size_t i = 0; i < v->region_count; i++)
		p.total += v->regions[i].bytes;
	if (v->blocked <= 0)
		k->baseline.reduced_at_once += p.total;
	rc = reduce(v, &p, err);
	kedge__fetch_end(k);
	if (rc)
		return rc;
	v->reduced = true;
	return sources_make(v, err);
}

void kedge__baseline_commit(struct kedge__version *v)
{
	struct kedge__baseline *b = &v->k->baseline;

	kedge__reducer_commit(b->reducer);
	kedge__reducer_identify(b->reducer, (struct kedge__image_key){v->version, v->part.image_id});
	b->at = v->version;
	b->primed = true;
	v->reduced = false;
	if (v->same.count)
		kedge__baseline_restarted(v->k);
}

void kedge__baseline_rollback(struct kedge__version *v, int rc)
{
	kedge_t *k = v->k;

	if (v->reduced || v->begun_there)
		kedge__reducer_rollback(k->baseline.reducer);
	if (v->reduced && rc == KEDGE_E_NOMEM) { /* what the reducer has may be what the write lacked */
		forget(k);
		k->baseline.full_next = true;
	}
	v->reduced = v->begun_there = false;
	if (v->same.count)
		kedge__baseline_restarted(k);
	kedge__same_done(&v->same);
	kedge__reduction_done(&v->reduction);
	kedge__free(v->sources);
	v->sources = NULL;
}

/* A restart does not wait for what the next version needs. And of regions that somebody vouched for nothing is known.
 */
void kedge__baseline_restarted(kedge_t *k)
{
	forget(k);
	k->baseline.primed = false;
}
