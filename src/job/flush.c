#include "job/handle.h"

/* Oldest first: a version comes to L2 after all that it refers to. */
static int copy_lineage(struct kedge__chore *c, struct kedge__error *err)
{
	kedge_t *k = c->k;
	struct kedge__catalog *from = k->level[KEDGE__L1].flush, *to = k->level[KEDGE__L2].flush;
	struct kedge__job_progress p = {k, "flush", c->version, 0};
	uint64_t *list;
	size_t count;
	int rc = kedge__catalog_closure(from, c->version, &list, &count, err);

	if (rc)
		return rc;
	for (size_t i = 0; i < count && !rc; i++) {
		struct kedge__flush_part part = {.version = list[i]};
		const struct kedge__catalog_entry *e = kedge__catalog_find(from, list[i]);

		if (kedge__flush_on_l2(k, list[i]) ||
		    (k->set.coalesce != KEDGE__COALESCE_NEVER && list[i] != c->version))
			continue;
		p.total = e->set.parts[k->group.rank].file_bytes;
		rc = kedge__level_copy(from, to, list[i], (uint32_t)k->group.rank, k->set.sync,
				       kedge__job_settings_io(&k->set), &k->bucket, kedge__state_progress_bytes, &p,
				       &part.part, err);
		if (!rc && !kedge__array_push(&c->parts, part))
			rc = kedge__error_nomem(err);
	}
	kedge__free(list);
	return rc;
}

static struct kedge__source_record image_of(const kedge_t *k, const struct kedge__catalog *cat, uint64_t version)
{
	const struct kedge__catalog_entry *e = version == KEDGE__NO_VERSION ? NULL : kedge__catalog_find(cat, version);

	if (!e)
		return (struct kedge__source_record){.version = KEDGE__NO_VERSION};
	return (struct kedge__source_record){version, e->set.parts[k->group.rank].image_id};
}

/* If the parent is on L1, too, what came since is found by what the two do not share there. */
static int merge_batch(struct kedge__chore *c, struct kedge__error *err)
{
	kedge_t *k = c->k;
	struct kedge__catalog *levels[] = {k->level[KEDGE__L1].flush, k->level[KEDGE__L2].flush};
	const struct kedge__catalog_entry *e = kedge__catalog_find(levels[0], c->version);
	struct kedge__job_progress p = {k, "flush", c->version, e->set.parts[k->group.rank].raw_bytes};
	struct kedge__flush_part part = {.version = c->version};
	struct kedge__batch batch = {
	    .image = image_of(k, levels[0], c->version),
	    .parent = image_of(k, levels[1], c->plan.form == KEDGE__FLUSH_DELTA ? c->plan.parent : KEDGE__NO_VERSION),
	    .rank = (uint32_t)k->group.rank,
	    .sync = k->set.sync,
	    .io = kedge__job_settings_io(&k->set),
	    .codec = k->codec,
	    .block_bytes = (uint32_t)k->set.block,
	    .bucket = &k->bucket,
	    .progress = kedge__state_progress_bytes,
	    .progress_ctx = &p,
	};
	int rc = kedge__batch_write(levels, KEDGE__COUNT(levels), levels[1], &batch, &part.part, &c->plan.refers, err);

	if (!rc && !kedge__array_push(&c->parts, part)) {
		(void)kedge__segment_discard(levels[1], c->version, batch.rank, part.part.generation, NULL);
		rc = kedge__error_nomem(err);
	}
	return rc;
}

/* What cannot be read now will not be readable for the next version that needs it. */
static void damage_note(kedge_t *k, int rc)
{
	if (rc != KEDGE_E_DAMAGED && rc != KEDGE_E_MISSING)
		return;
	kedge__trust_clear(k->trust[KEDGE__L1]);
	pthread_mutex_lock(&k->state_lock);
	k->l1_damaged = true;
	pthread_mutex_unlock(&k->state_lock);
}

static int flush_version(struct kedge__chore *c, struct kedge__error *err)
{
	int rc;

	if (!kedge__catalog_find(c->k->level[KEDGE__L1].flush, c->version)) {
		kedge__log(KEDGE_LOG_NOTICE, "version %llu left L1 before it could be copied to L2",
			   (unsigned long long)c->version);
		return 0;
	}
	rc = kedge__flush_plan(c, err);
	if (!rc)
		rc = c->plan.form == KEDGE__FLUSH_COPY ? copy_lineage(c, err) : merge_batch(c, err);
	damage_note(c->k, rc);
	return rc;
}

void kedge__flush_local(struct kedge__chore *c)
{
	kedge_t *k = c->k;
	struct kedge__catalog *from = k->level[KEDGE__L1].flush, *to = k->level[KEDGE__L2].flush;

	c->started_at = k->clock();
	c->rc = kedge__l2_check(k, &c->err);
	if (!c->rc)
		c->rc = kedge__catalog_pin(to, &c->err);
	if (c->rc)
		return;
	c->pinned = true;
	c->rc = kedge__catalog_pin(from, &c->err);
	if (c->rc)
		return;
	c->rc = kedge__catalog_scan(from, &c->err);
	if (!c->rc)
		c->rc = kedge__catalog_scan(to, &c->err);
	if (!c->rc && kedge__catalog_count(to))
		c->rc = kedge__catalog_refresh_lineage(
		    to, kedge__catalog_at(to, kedge__catalog_count(to) - 1)->version, &c->err);
	if (!c->rc)
		c->rc = flush_version(c, &c->err);
	kedge__catalog_unpin(from);
}

/* What a rank tells of what it wrote. */
struct written {
	struct kedge__say say;
	uint64_t count, sum;
};

/* All ranks must have written the same: they had the same manifests, unless somebody else is at the store. */
static int agree_written(struct kedge__chore *c)
{
	struct kedge__channel *ch = &c->k->back;
	struct written *own, *all;
	void *slot, *gathered;
	int rc = kedge__channel_begin(ch, sizeof(*own), &slot, &c->err);

	if (rc)
		return rc;
	own = slot;
	kedge__say_set(&own->say, KEDGE__STEP_FLUSH, c->version, c->rc, &c->err);
	own->count = c->parts.count;
	own->sum = (uint64_t)c->plan.form * 3 + c->plan.parent;
	for (size_t i = 0; i < c->parts.count; i++)
		own->sum = own->sum * UINT64_C(0x9e3779b97f4a7c15) + c->parts.at[i].version + 1;
	rc = kedge__channel_gather(ch, sizeof(*own), &gathered, &c->err);
	if (!rc)
		rc = kedge__say_judge(ch, gathered, sizeof(*own), &c->err);
	all = gathered;
	for (int r = 0; !rc && r < ch->group->size; r++) {
		if (all[r].count != own->count || all[r].sum != own->sum)
			rc = kedge__error_set(&c->err, KEDGE_E_GROUP, 0,
					      "rank %d copied other versions to L2 than rank %d", r, ch->group->rank);
	}
	return rc;
}

/* What a rank tells of a segment. */
struct piece {
	struct kedge__set_part part;
	uint64_t refers; /* to the plan's parent */
};

/* A set as L1 has it, with the parts as they are on L2, and, if it is coalesced, what it refers to there. */
static int set_l2(struct kedge__chore *c, uint64_t version, struct kedge__set_part *parts, bool refers,
		  struct kedge__error *err)
{
	kedge_t *k = c->k;
	const struct kedge__catalog_entry *e = kedge__catalog_find(k->level[KEDGE__L1].flush, version);
	struct kedge__set set;
	char *why = NULL;
	int rc;

	if (!k->level[KEDGE__L2].leads)
		return 0;
	if (!e || e->problem.code)
		return kedge__error_set(err, KEDGE_E_MISSING, 0, "version %llu left L1 while it was copied",
					(unsigned long long)version);
	set = e->set;
	set.parts = parts;
	if (c->plan.form != KEDGE__FLUSH_COPY) {
		set.reducer = KEDGE__REDUCER_MERGED;
		set.parent = refers ? c->plan.parent : KEDGE__NO_VERSION;
		set.sources = &c->plan.parent;
		set.source_count = refers;
	}
	if (version == c->version && c->plan.why[0]) {
		why = kedge__asprintf("%s%sL2: %s", set.why ? set.why : "", set.why ? "; " : "", c->plan.why);
		if (!why)
			return kedge__error_nomem(err);
		set.why = why;
	}
	rc = kedge__set_publish(k->level[KEDGE__L2].flush, &set, err);
	if (!rc && (c->plan.form != KEDGE__FLUSH_COPY || kedge__trust_has(k->trust[KEDGE__L1], &e->set)))
		kedge__trust_add(k->trust[KEDGE__L2], &set); /* what was merged was proved */
	if (!rc && version == c->version) /* those that it needs may be of older runs, which know of no later ones */
		kedge__run_sweep(k, KEDGE__L2, k->level[KEDGE__L2].flush, &set.run, KEDGE__NO_VERSION);
	kedge__free(why);
	return rc;
}

static int publish_part(struct kedge__chore *c, size_t i)
{
	struct kedge__channel *ch = &c->k->back;
	const struct kedge__flush_part *own = &c->parts.at[i];
	size_t ranks = (size_t)ch->group->size;
	struct kedge__set_part *parts = kedge__calloc(ranks, sizeof(*parts));
	struct piece *piece;
	bool refers = false;
	void *slot, *all;
	int rc = kedge__channel_begin(ch, sizeof(*piece), &slot, &c->err);

	if (!rc) {
		piece = slot;
		piece->part = own->part;
		piece->refers = c->plan.refers;
		rc = kedge__channel_gather(ch, sizeof(*piece), &all, &c->err);
	}
	if (!rc && !parts)
		rc = kedge__error_nomem(&c->err);
	for (size_t r = 0; !rc && r < ranks; r++) {
		piece = (struct piece *)all + r;
		parts[r] = piece->part;
		refers = refers || piece->refers;
	}
	if (!rc)
		rc = set_l2(c, own->version, parts, refers, &c->err);
	kedge__free(parts);
	return kedge__agree(ch, KEDGE__STEP_FLUSH_PUBLISH, own->version, rc, NULL, &c->err);
}

static void discard_copies(struct kedge__chore *c, size_t first)
{
	for (size_t i = first; i < c->parts.count; i++)
		(void)kedge__segment_discard(c->k->level[KEDGE__L2].flush, c->parts.at[i].version,
					     (uint32_t)c->k->group.rank, c->parts.at[i].part.generation, NULL);
}

static void flush_measured(const struct kedge__chore *c)
{
	kedge_t *k = c->k;
	struct kedge__l2_flush flush = {.seconds = k->clock() - c->started_at, .complete = c->plan.complete};

	for (size_t i = 0; i < c->parts.count; i++)
		flush.bytes += c->parts.at[i].part.file_bytes;
	pthread_mutex_lock(&k->state_lock);
	k->flushed = flush;
	pthread_mutex_unlock(&k->state_lock);
}

static void flush_failed(struct kedge__chore *c, int rc, size_t published)
{
	discard_copies(c, published);
	kedge__error_prefix(&c->err, "version %llu did not reach L2", (unsigned long long)c->version);
	kedge__log(KEDGE_LOG_ERROR, "%s", kedge__error_text(&c->err));
	kedge__state_note(c->k, rc, &c->err);
}

void kedge__flush_publish(struct kedge__chore *c)
{
	kedge_t *k = c->k;
	size_t done = 0;
	int rc = agree_written(c);

	while (!rc && done < c->parts.count) {
		rc = publish_part(c, done);
		done += !rc;
	}
	if (rc)
		flush_failed(c, rc, done);
	else if (c->plan.why[0] && k->group.rank == 0)
		kedge__log(KEDGE_LOG_INFO, "%s: version %llu on L2: %s", k->name, (unsigned long long)c->version,
			   c->plan.why);
	k->l2_anew = rc != 0;
	if (c->pinned)
		kedge__catalog_unpin(k->level[KEDGE__L2].flush);
	if (!rc && c->parts.count) {
		flush_measured(c);
		kedge__l2_tie(k); /* L1 may have been made again since */
	}
	kedge__state_end(k, c->version, rc, &c->err);
}
