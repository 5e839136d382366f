#include "job/handle.h"

enum { FLAG_TOO_LARGE = 1, FLAG_PURGED = 1 };

#define SKIP_SHIFT 8 /* of rank 0's flags at capture: questions to the policy that need no answer */

static void damaged_set(kedge_t *k)
{
	pthread_mutex_lock(&k->state_lock);
	k->l1_damaged = true;
	pthread_mutex_unlock(&k->state_lock);
}

/* Scratch directories are cleared by others. What is gone is made again, and the next version, on all ranks, needs none
 * of those that were there; also if this one fails. */
static int purge_repair(kedge_t *k, uint64_t *flags, struct kedge__error *err)
{
	struct kedge__catalog *cat = k->level[KEDGE__L1].write;
	bool gone = false;
	int rc = kedge__catalog_present(cat, &gone, err);

	if (rc || !gone)
		return rc;
	kedge__log(KEDGE_LOG_WARNING,
		   "%s: L1, or a part of it, was removed while the job runs: %s is made again, and the next version "
		   "stands alone",
		   k->name, kedge__catalog_store(cat));
	*flags |= FLAG_PURGED;
	damaged_set(k);
	rc = kedge__catalog_renew(cat, err);
	return rc ? rc : kedge__files_renew(k, err);
}

/* What the new version may refer to: versions that are complete in every rank's directory, with all that they need, and
 * not about to go. */
static int alive_list(struct kedge__job_write *w, struct kedge__error *err)
{
	kedge_t *k = w->k;
	struct kedge__catalog *cat = k->level[KEDGE__L1].write;
	int rc = kedge__catalog_pin(cat, err);

	w->pinned = !rc;
	if (!rc)
		rc = kedge__catalog_scan(cat, err);
	if (!rc)
		rc = kedge__versions_keys(cat, (uint32_t)k->group.size, w->version, kedge__run_of(k, w->version),
					  &w->alive, &w->alive_count, err);
	if (!rc) {
		w->alive_count = kedge__versions_whole(cat, w->alive, w->alive_count);
		w->alive_count = kedge__keep_alive(k, w->alive, w->alive_count);
	}
	rc = kedge__agree(&k->front, KEDGE__STEP_PAST, w->version, rc, NULL, err);
	return rc ? rc : kedge__common(&k->front, w->alive, &w->alive_count, err);
}

static void retain(struct kedge__job_write *w)
{
	struct kedge__image_key *images = kedge__calloc(w->alive_count + 1, sizeof(*images));

	if (!images) { /* what may be referred to is not known then */
		kedge__log(KEDGE_LOG_WARNING, "%s: version %llu stands alone: out of memory", w->k->name,
			   (unsigned long long)w->version);
		kedge__reducer_reset(w->k->reducer);
		return;
	}
	for (size_t i = 0; i < w->alive_count; i++)
		images[i] = kedge__image_key_of(w->k, w->alive[i].version);
	kedge__reducer_retain(w->k->reducer, images, w->alive_count);
	kedge__free(images);
}

int kedge__image_make(kedge_t *k, struct kedge__image_region **regions, size_t *count, struct kedge__error *err)
{
	size_t n = kedge__region_table_count(k->regions);
	struct kedge__image_region *image = kedge__calloc(n + 1, sizeof(*image));

	if (!image)
		return kedge__error_nomem(err);
	for (size_t i = 0; i < n; i++) {
		const struct kedge__region *r = kedge__region_table_at(k->regions, i);

		image[i] = (struct kedge__image_region){(uint64_t)r->slot * KEDGE__SLOT_BYTES, r->data, r->bytes};
	}
	*regions = image;
	*count = n;
	return 0;
}

/* Names are copied: the application may protect other things while the writer is at work. Digests are the reduction's.
 */
static int records_make(struct kedge__job_write *w, struct kedge__error *err)
{
	size_t n = w->region_count;

	w->records = kedge__calloc(n + 1, sizeof(*w->records));
	if (!w->records)
		return kedge__error_nomem(err);
	for (size_t i = 0; i < n; i++) {
		const struct kedge__region *r = kedge__region_table_at(w->k->regions, i);
		struct kedge__region_record *record = &w->records[i];

		record->name = kedge__strdup(r->name);
		if (!record->name)
			return kedge__error_nomem(err);
		record->slot = r->slot;
		record->type = (uint32_t)r->type;
		record->ndims = (uint32_t)r->ndims;
		memcpy(record->dims, r->dims, sizeof(record->dims));
		record->bytes = r->bytes;
	}
	return 0;
}

static int sources_make(struct kedge__job_write *w, struct kedge__error *err)
{
	const struct kedge__catalog *cat = w->k->level[KEDGE__L1].write;
	size_t n = w->reduction.source_count;

	w->sources = kedge__calloc(n + 1, sizeof(*w->sources));
	if (!w->sources)
		return kedge__error_nomem(err);
	for (size_t i = 0; i < n; i++) {
		uint64_t version = w->reduction.sources[i];
		const struct kedge__catalog_entry *e = kedge__catalog_find(cat, version);

		if (!e || e->problem.code)
			return kedge__error_set(err, KEDGE_E_INTERNAL, 0,
						"version %llu refers to version %llu, which is gone",
						(unsigned long long)w->version, (unsigned long long)version);
		w->sources[i] = (struct kedge__source_record){version, e->set.parts[w->k->group.rank].image_id};
	}
	return 0;
}

/* What the flusher could not read must not be built on, and old versions must be able to go: this one stands alone. */
static void begin_anew(struct kedge__job_write *w)
{
	kedge_t *k = w->k;
	bool damaged, many = kedge__keep_anew(k, w->alive_count);

	pthread_mutex_lock(&k->state_lock);
	damaged = k->l1_damaged;
	k->l1_damaged = false;
	pthread_mutex_unlock(&k->state_lock);
	if (!damaged && !many)
		return;
	kedge__log(damaged ? KEDGE_LOG_NOTICE : KEDGE_LOG_INFO, "%s: version %llu stands alone, for %s", k->name,
		   (unsigned long long)w->version,
		   damaged ? "what it would be built on is damaged or gone"
			   : "older ones are kept only because others refer to them");
	kedge__reducer_reset(k->reducer);
	k->reducer_at = KEDGE__NO_VERSION;
	k->reducer_primed = true;
	k->rely_from = w->version;
}

/* What the store has is needed by the reduction, and by nothing before it. */
static void prime(struct kedge__job_write *w)
{
	if (w->k->reducer_primed)
		return;
	kedge__prime_store(w->k, w->alive, w->alive_count);
	retain(w);
}

static const struct kedge__image_view *view_of(const struct kedge__job_write *w)
{
	return w->hold ? kedge__hold_view(w->hold) : kedge__live_view(w->live);
}

static int reduce_whole(struct kedge__job_write *w, struct kedge__job_progress *p, struct kedge__error *err)
{
	kedge_t *k = w->k;
	const struct kedge__reduce_how how = {
	    .view = view_of(w), .full = true, .progress = kedge__state_progress_bytes, .progress_ctx = p};

	return kedge__reducer_reduce(k->reducer, k->pool, w->version, &w->image, &how, &w->reduction, err);
}

/* Without memory to find what changed, all of it is stored. Memory that is held still is seen only once: then it is the
 * next version that is stored as a whole. */
static int reduce(struct kedge__job_write *w, struct kedge__job_progress *p, struct kedge__error *err)
{
	kedge_t *k = w->k;
	const struct kedge__reduce_how how = {.view = view_of(w),
					      .dirty = w->pages.usable ? w->pages.lists : NULL,
					      .progress = kedge__state_progress_bytes,
					      .progress_ctx = p};
	bool whole = k->whole_next;
	int rc;

	k->whole_next = false;
	if (whole)
		return reduce_whole(w, p, err);
	rc = kedge__reducer_reduce(k->reducer, k->pool, w->version, &w->image, &how, &w->reduction, err);
	if (rc != KEDGE_E_NOMEM)
		return rc;
	kedge__log(KEDGE_LOG_WARNING, "%s: there is no memory to find what changed: the %sversion is stored as a whole",
		   k->name, w->hold ? "next " : "");
	kedge__reducer_reset(k->reducer);
	k->whole_next = w->hold;
	if (w->hold)
		return rc;
	kedge__error_done(err);
	return reduce_whole(w, p, err);
}

int kedge__checkpoint_reduce(struct kedge__job_write *w, struct kedge__error *err)
{
	kedge_t *k = w->k;
	struct kedge__job_progress p = {k, "hash", w->version, 0};
	int rc;

	prime(w);
	for (size_t i = 0; i < w->region_count; i++)
		p.total += w->regions[i].bytes;
	if (w->blocked <= 0)
		k->reduced_at_once += p.total;
	rc = reduce(w, &p, err);
	kedge__fetch_end(k);
	if (rc)
		return rc;
	w->reduced = true;
	return sources_make(w, err);
}

/* All that a reduction needs, but for the bytes. */
static int reduce_prepare(struct kedge__job_write *w, struct kedge__error *err)
{
	kedge_t *k = w->k;
	int rc = kedge__reducer_make(k, err);

	if (!rc)
		begin_anew(w);
	if (!rc)
		retain(w);
	if (!rc)
		rc = kedge__image_make(k, &w->regions, &w->region_count, err);
	if (!rc)
		rc = records_make(w, err);
	if (rc)
		return rc;
	w->image = (struct kedge__image){w->regions, w->region_count};
	kedge__track_collect(k, &w->pages);
	kedge__track_audit(k, w->version, &w->image, &w->pages);
	w->collected = w->pages.collected;
	w->dirty = w->pages.usable ? (double)w->pages.bytes : -1;
	return 0;
}

/* Literals that are copied need nothing else of the image. */
static int literals_copy(struct kedge__job_write *w, uint64_t *flags, struct kedge__error *err)
{
	kedge_t *k = w->k;
	int rc = kedge__snapshot_take(&k->reserve, k->pool, &w->reduction.literals, w->source, k->set.copy_memory, err);

	if (!rc)
		return kedge__still_end(w, err);
	if (rc != KEDGE_E_LIMIT && rc != KEDGE_E_NOMEM)
		return rc;
	*flags = FLAG_TOO_LARGE;
	return 0;
}

/* The image is held still, or reduced at once and its literals copied. *FLAGS: neither is possible within the limit.
 * With capture = sync it is neither. */
static int set_aside(struct kedge__job_write *w, uint64_t *flags, struct kedge__error *err)
{
	kedge_t *k = w->k;
	int rc = kedge__still_take(w, err);

	kedge__track_arm(k);
	if (rc || w->hold || k->set.capture == KEDGE__CAPTURE_SYNC)
		return rc;
	rc = kedge__still_reduce(w, err);
	return rc ? rc : literals_copy(w, flags, err);
}

/*
 * With capture = copy or cow, what may have changed is set aside if it fits on every rank: all ranks finish this
 * version in the background, or none does. *BACKGROUND tells.
 */
static int capture(struct kedge__job_write *w, bool *background, struct kedge__error *err)
{
	kedge_t *k = w->k;
	uint64_t flags = 0;
	int rc = reduce_prepare(w, err);

	*background = false;
	if (!rc)
		rc = set_aside(w, &flags, err);
	if (k->set.capture == KEDGE__CAPTURE_SYNC)
		return rc;
	if (k->group.rank == 0)
		flags |= kedge__adapt_skip_ahead(k) << SKIP_SHIFT;
	rc = kedge__agree(&k->front, KEDGE__STEP_CAPTURE, w->version, rc, &flags, err);
	k->skip = flags >> SKIP_SHIFT;
	flags &= FLAG_TOO_LARGE;
	if (!rc && flags)
		kedge__log(KEDGE_LOG_NOTICE,
			   "version %llu has more new bytes than copy_memory allows: it is written at once",
			   (unsigned long long)w->version);
	*background = !rc && !flags;
	return rc;
}

static struct kedge__job_write *write_new(kedge_t *k, uint64_t version, double started)
{
	struct kedge__job_write *w = kedge__calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	w->k = k;
	w->version = version;
	w->started = started;
	w->dirty = -1;
	kedge__policy_l2_costs(&k->policy, &w->l2);
	memcpy(w->why, k->policy.why, sizeof(w->why));
	return w;
}

/* Before anything is touched: what can be known to fail. */
static int prepare(struct kedge__job_write *w, uint64_t version, kedge_t *k, uint64_t *flags, struct kedge__error *err)
{
	int rc = w ? 0 : kedge__error_nomem(err);

	if (!rc && version >= KEDGE_VERSION_LIMIT)
		rc = kedge__error_set(err, KEDGE_E_ARG, 0, "version %llu is above the limit",
				      (unsigned long long)version);
	if (!rc)
		rc = purge_repair(k, flags, err);
	if (!rc)
		rc = kedge__run_check(k, version, err);
	if (!rc)
		rc = kedge__chores_reserve(w, err);
	if (!rc)
		rc = kedge__files_take(k, err);
	if (!rc)
		rc = kedge__region_table_assign(k->regions, &k->next_slot, err);
	return rc;
}

static int take(struct kedge__job_write *w, bool *background, struct kedge__error *err)
{
	int rc = alive_list(w, err);

	if (rc)
		return rc;
	w->next_slot = w->k->next_slot;
	rc = capture(w, background, err);
	if (*background)
		return 0;
	/* Without a copy, a failure so far is agreed on together with that of the write. */
	if (w->k->set.capture == KEDGE__CAPTURE_SYNC || !rc) {
		w->rc = rc;
		kedge__error_move(&w->err, err);
		kedge__write_segment(w);
		kedge__write_publish(w);
		rc = w->rc;
		kedge__error_move(err, &w->err);
	}
	return rc;
}

int kedge__checkpoint_take(kedge_t *k, uint64_t version, struct kedge__error *err)
{
	double started = kedge__clock_seconds(), asked = k->clock(), dirty = -1;
	struct kedge__job_write *w;
	uint64_t flags = 0;
	bool background = false;
	int rc;

	kedge__write_finish(k);
	kedge__chores_progress(k);
	kedge__l2_look_again(k);
	k->skip = 0;
	w = write_new(k, version, started);
	rc = prepare(w, version, k, &flags, err);
	rc = kedge__agree(&k->front, KEDGE__STEP_BEGIN, version, rc, &flags, err);
	if (flags & FLAG_PURGED)
		damaged_set(k);
	if (!rc && kedge__run_due(k, version))
		rc = kedge__run_begin(k, version, err);
	if (!rc) {
		kedge__state_begin(k, version);
		rc = take(w, &background, err);
		dirty = w->dirty;
		if (!rc && background)
			kedge__write_submit(w);
		if (rc)
			kedge__state_end(k, version, rc, err);
	}
	if (rc || !background)
		kedge__write_free(w);
	kedge__files_drop(k); /* a background write has copies */
	if (!rc)
		kedge__adapt_taken(k, k->clock() - asked, dirty);
	return rc;
}

int kedge_checkpoint(kedge_t *k, uint64_t version)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	int rc = kedge__handle_check(k, &err);

	if (rc)
		return kedge__state_fail(k, rc, &err);
	pthread_mutex_lock(&k->lock);
	rc = kedge__checkpoint_take(k, version, &err);
	pthread_mutex_unlock(&k->lock);
	return kedge__state_fail(k, rc, &err);
}
