#include "job/handle.h"

static bool on_l2(const kedge_t *k, uint64_t version)
{
	const struct kedge__catalog_entry *a = kedge__catalog_find(k->level[KEDGE__L1].flush, version);
	const struct kedge__catalog_entry *b = kedge__catalog_find(k->level[KEDGE__L2].flush, version);

	return a && b && !a->problem.code && !b->problem.code && a->set.ranks == b->set.ranks &&
	       kedge__set_key_id(&a->set) == kedge__set_key_id(&b->set);
}

/* Oldest first: a version comes to L2 after all that it refers to. */
static int copy_lineage(struct kedge__chore *c, struct kedge__error *err)
{
	kedge_t *k = c->k;
	struct kedge__catalog *from = k->level[KEDGE__L1].flush, *to = k->level[KEDGE__L2].flush;
	struct kedge__job_progress p = {k, "flush", c->version, 0};
	uint64_t *list;
	size_t count;
	int rc;

	if (!kedge__catalog_find(from, c->version)) {
		kedge__log(KEDGE_LOG_NOTICE, "version %llu left L1 before it could be copied to L2",
			   (unsigned long long)c->version);
		return 0;
	}
	rc = kedge__catalog_closure(from, c->version, &list, &count, err);
	if (rc)
		return rc;
	for (size_t i = 0; i < count && !rc; i++) {
		struct kedge__flush_part part = {.version = list[i]};
		const struct kedge__catalog_entry *e = kedge__catalog_find(from, list[i]);

		if (on_l2(k, list[i]))
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

void kedge__flush_local(struct kedge__chore *c)
{
	kedge_t *k = c->k;
	struct kedge__catalog *from = k->level[KEDGE__L1].flush, *to = k->level[KEDGE__L2].flush;

	c->started_at = k->clock();
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
	if (!c->rc)
		c->rc = copy_lineage(c, &c->err);
	kedge__catalog_unpin(from);
}

/* All ranks must have copied the same versions: they had the same manifests, unless somebody else is at the store. */
static int agree_copied(struct kedge__chore *c)
{
	const struct kedge__channel *ch = &c->k->back;
	struct {
		struct kedge__say say;
		uint64_t count, sum;
	} own, *all;
	int rc;

	memset(&own, 0, sizeof(own));
	kedge__say_set(&own.say, KEDGE__STEP_FLUSH, c->version, c->rc, &c->err);
	own.count = c->parts.count;
	for (size_t i = 0; i < c->parts.count; i++)
		own.sum = own.sum * UINT64_C(0x9e3779b97f4a7c15) + c->parts.at[i].version + 1;
	all = kedge__calloc((size_t)ch->group->size, sizeof(own));
	rc = all ? kedge__channel_gather(ch, &own, sizeof(own), all, &c->err) : kedge__error_nomem(&c->err);
	if (!rc)
		rc = kedge__say_judge(ch, all, sizeof(own), &c->err);
	for (int r = 0; !rc && r < ch->group->size; r++) {
		if (all[r].count != own.count || all[r].sum != own.sum)
			rc = kedge__error_set(&c->err, KEDGE_E_GROUP, 0,
					      "rank %d copied other versions to L2 than rank %d", r, ch->group->rank);
	}
	kedge__free(all);
	return rc;
}

/* A set as L1 has it, with the parts as they were copied. */
static int set_l2(struct kedge__chore *c, uint64_t version, const struct kedge__set_part *parts,
		  struct kedge__error *err)
{
	kedge_t *k = c->k;
	const struct kedge__catalog_entry *e = kedge__catalog_find(k->level[KEDGE__L1].flush, version);
	struct kedge__set set;

	if (!k->level[KEDGE__L2].leads)
		return 0;
	if (!e || e->problem.code)
		return kedge__error_set(err, KEDGE_E_MISSING, 0, "version %llu left L1 while it was copied",
					(unsigned long long)version);
	set = e->set;
	set.parts = (struct kedge__set_part *)parts;
	return kedge__set_publish(k->level[KEDGE__L2].flush, &set, err);
}

static int publish_part(struct kedge__chore *c, size_t i)
{
	const struct kedge__channel *ch = &c->k->back;
	const struct kedge__flush_part *own = &c->parts.at[i];
	struct kedge__set_part *all = kedge__calloc((size_t)ch->group->size, sizeof(*all));
	int rc =
	    all ? kedge__channel_gather(ch, &own->part, sizeof(own->part), all, &c->err) : kedge__error_nomem(&c->err);

	if (!rc)
		rc = set_l2(c, own->version, all, &c->err);
	kedge__free(all);
	return kedge__channel_agree(ch, KEDGE__STEP_FLUSH_PUBLISH, own->version, rc, NULL, &c->err);
}

static void discard_copies(struct kedge__chore *c, size_t first)
{
	for (size_t i = first; i < c->parts.count; i++)
		(void)kedge__segment_discard(c->k->level[KEDGE__L2].flush, c->parts.at[i].version,
					     (uint32_t)c->k->group.rank, c->parts.at[i].part.generation, NULL);
}

static void flush_measured(kedge_t *k, double seconds)
{
	pthread_mutex_lock(&k->state_lock);
	k->flush_seconds = seconds;
	pthread_mutex_unlock(&k->state_lock);
}

void kedge__flush_publish(struct kedge__chore *c)
{
	kedge_t *k = c->k;
	size_t done = 0;
	int rc = agree_copied(c);

	while (!rc && done < c->parts.count) {
		rc = publish_part(c, done);
		done += !rc;
	}
	if (rc) {
		discard_copies(c, done);
		kedge__error_prefix(&c->err, "version %llu did not reach L2", (unsigned long long)c->version);
		kedge__log(KEDGE_LOG_ERROR, "%s", kedge__error_text(&c->err));
		kedge__state_note(k, rc, &c->err);
	}
	if (c->pinned)
		kedge__catalog_unpin(k->level[KEDGE__L2].flush);
	if (!rc && c->parts.count)
		flush_measured(k, k->clock() - c->started_at);
	kedge__state_end(k, c->version, rc, &c->err);
}
