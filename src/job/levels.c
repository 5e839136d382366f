/* SPDX-License-Identifier: BSD-3-Clause */
#include "job/handle.h"

#include <time.h>

void kedge__levels_init(struct kedge__job_levels *s)
{
	*s = (struct kedge__job_levels){.turn = {.bare = true}};
	pthread_mutex_init(&s->lock, NULL);
	for (int l = 0; l < KEDGE__LEVELS; l++)
		s->trust[l] = kedge__trust_new();
}

void kedge__levels_done(struct kedge__job_levels *s)
{
	for (int l = 0; l < KEDGE__LEVELS; l++) {
		kedge__level_close(&s->at[l]);
		kedge__trust_free(s->trust[l]);
	}
	kedge__holdings_done(&s->l1);
	kedge__holdings_done(&s->l2);
	pthread_mutex_destroy(&s->lock);
}

/* ------------------------------------------------------------------ the directories */

void kedge__level_lead(struct kedge__job_level *level, int rank, int leader, bool one_for_all)
{
	level->leader = leader;
	level->leads = leader == rank;
	level->one_for_all = one_for_all;
}

void kedge__level_on(struct kedge__job_level *level)
{
	level->on = true;
}

void kedge__levels_share(kedge_t *k, bool shared)
{
	k->levels.shared = shared;
}

void kedge__levels_unseen(kedge_t *k)
{
	k->levels.doubted_here = true;
}

void kedge__levels_renewed(kedge_t *k)
{
	k->levels.renewed = true;
}

/* L2's segments go by a staging server, if one is configured. */
static int stage_open(kedge_t *k, struct kedge__job_level *level, struct kedge__error *err)
{
	const struct kedge__stage_options o = {.servers = k->set.stage,
					       .auth = k->set.stage_auth,
					       .buffer = k->set.stage_buffer,
					       .buffers = (size_t)k->set.stage_buffers,
					       .timeout = (double)k->set.stage_timeout,
					       .retry = (double)k->set.stage_retry};
	const struct kedge__store_id id = kedge__catalog_store_id(level->flush);
	int rc = kedge__stage_client_new(&o, k->name, &id, &level->stage, err);

	if (!rc)
		kedge__catalog_carry(level->flush, kedge__stage_carrier(level->stage));
	return rc ? kedge__error_prefix(err, "staging") : 0;
}

int kedge__level_open(kedge_t *k, const char *dir, struct kedge__job_level *level, struct kedge__error *err)
{
	int rc = kedge__catalog_open(dir, k->name, KEDGE__CATALOG_CREATE, &level->api, err);

	if (!rc)
		kedge__catalog_pace(level->api, &k->reads);
	if (!rc)
		rc = kedge__catalog_dup(level->api, &level->write, err);
	if (!rc && k->flusher)
		rc = kedge__catalog_dup(level->api, &level->flush, err);
	if (!rc)
		kedge__catalog_set_sync(level->write, k->set.sync);
	if (!rc)
		kedge__catalog_set_take_over(level->write, k->set.take_over);
	if (!rc && level->flush)
		kedge__catalog_set_sync(level->flush, k->set.sync);
	if (!rc && level->flush && level == &k->levels.at[KEDGE__L2] && k->set.stage[0])
		rc = stage_open(k, level, err);
	if (!rc && level->stage && k->set.group_size > 1 && k->group.rank == 0)
		kedge__log(KEDGE_LOG_NOTICE,
			   "%s: group_size = %llu has no effect: a staging server writes one file per rank", k->name,
			   (unsigned long long)k->set.group_size);
	return rc;
}

/* What an earlier process of this job had sealed may be on its way to L2: that ends by itself. */
static int own_after_drain(kedge_t *k, struct kedge__catalog *cat, struct kedge__error *err)
{
	const struct timespec pause = {0, 50000000};
	bool said = false, again = false;
	int rc;

	for (;;) {
		bool drains;

		rc = kedge__catalog_own(cat, k->name, err);
		if (rc != KEDGE_E_LOCKED)
			return rc;
		drains = kedge__catalog_owned_by(cat, KEDGE__DRAIN_OWNER);
		if (!drains && again)
			return rc;
		again = !drains; /* it may have ended since */
		if (again)
			continue;
		if (!said)
			kedge__log(KEDGE_LOG_NOTICE, "%s: waiting: %s", k->name, kedge__error_text(err));
		said = true;
		nanosleep(&pause, NULL);
	}
}

int kedge__level_own(kedge_t *k, struct kedge__job_level *level, struct kedge__error *err)
{
	return level->leads ? own_after_drain(k, level->write, err) : 0;
}

void kedge__level_clean(kedge_t *k, struct kedge__job_level *level)
{
	struct kedge__error problem = KEDGE__ERROR_INIT;
	size_t removed = 0;

	if (!level->leads)
		return;
	if (kedge__catalog_clean(level->write, &removed, &problem))
		kedge__log(KEDGE_LOG_WARNING, "leftovers stay: %s", kedge__error_text(&problem));
	else if (removed)
		kedge__log(KEDGE_LOG_NOTICE, "%s: %zu leftovers of a crash were removed", k->name, removed);
	kedge__error_done(&problem);
}

void kedge__level_close(struct kedge__job_level *level)
{
	kedge__catalog_close(level->api);
	kedge__catalog_close(level->flush);
	kedge__catalog_close(level->write);
	kedge__stage_client_free(level->stage);
	*level = (struct kedge__job_level){0};
}

size_t kedge__levels_list(const kedge_t *k, bool write, struct kedge__catalog *out[KEDGE__LEVELS])
{
	size_t n = 0;

	for (int l = 0; l < KEDGE__LEVELS; l++) {
		const struct kedge__job_level *level = &k->levels.at[l];
		struct kedge__catalog *cat = write && level->on ? level->write : level->api;

		if (cat)
			out[n++] = cat;
	}
	return n;
}

/* ------------------------------------------------------------------ what they hold */

void kedge__levels_keep(kedge_t *k)
{
	for (int l = 0; l < KEDGE__LEVELS; l++)
		k->levels.keep[l] = kedge__job_settings_keep(&k->set, l);
}

struct kedge__retention_rules kedge__levels_rules(const kedge_t *k)
{
	return (struct kedge__retention_rules){
	    .keep = kedge__keep_recent(&k->levels.keep[KEDGE__L1]),
	    .l2_keep = kedge__keep_recent(&k->levels.keep[KEDGE__L2]),
	    .l1_coalesces = k->levels.at[KEDGE__L1].one_for_all,
	    .coalesce = (enum kedge__coalesce_mode)k->set.coalesce,
	    .l2_every = (uint64_t)k->set.l2_every,
	    .l2_interval = k->set.l2_interval,
	};
}

void kedge__levels_forget(kedge_t *k)
{
	k->levels.l1_current = false;
	pthread_mutex_lock(&k->levels.lock);
	k->levels.l2_current = false;
	pthread_mutex_unlock(&k->levels.lock);
}

void kedge__levels_restarted(kedge_t *k)
{
	kedge__levels_forget(k);
	pthread_mutex_lock(&k->levels.lock);
	k->levels.l2_failed = 0;
	pthread_mutex_unlock(&k->levels.lock);
}

void kedge__levels_trust_from(kedge_t *k, uint64_t from)
{
	k->levels.trusted_from = from;
	k->levels.l1_current = false;
}

void kedge__levels_doubt(kedge_t *k)
{
	pthread_mutex_lock(&k->levels.lock);
	k->levels.doubted = true;
	pthread_mutex_unlock(&k->levels.lock);
}

/* ------------------------------------------------------------------ L1 */

static bool doubt_take(struct kedge__job_levels *s)
{
	bool doubted;

	pthread_mutex_lock(&s->lock);
	doubted = s->doubted;
	s->doubted = false;
	pthread_mutex_unlock(&s->lock);
	return doubted;
}

static int l1_read(kedge_t *k, uint64_t version, struct kedge__error *err)
{
	struct kedge__catalog *cat = k->levels.at[KEDGE__L1].write;
	int rc = kedge__holdings_read(&k->levels.l1, cat, (uint32_t)k->group.size, kedge__run_of(k, version),
				      k->levels.trusted_from, err);

	k->levels.l1_changes = kedge__catalog_changes(cat);
	k->levels.l1_current = !rc;
	return rc;
}

/* L2 that cannot be read is taken for empty: the next version there is self-contained. */
static void l2_read(kedge_t *k, uint64_t version)
{
	struct kedge__job_levels *s = &k->levels;
	struct kedge__catalog *cat = k->levels.at[KEDGE__L2].on ? k->levels.at[KEDGE__L2].write : NULL;

	pthread_mutex_lock(&s->lock);
	if (!s->l2_current) {
		kedge__holdings_clear(&s->l2);
		if (cat && !kedge__catalog_scan(cat, NULL))
			(void)kedge__holdings_read(&s->l2, cat, (uint32_t)k->group.size, kedge__run_of(k, version), 0,
						   NULL);
		s->l2_current = true;
	}
	pthread_mutex_unlock(&s->lock);
}

int kedge__levels_refresh(kedge_t *k, uint64_t version, struct kedge__error *err)
{
	struct kedge__catalog *cat = k->levels.at[KEDGE__L1].write;
	int rc = kedge__catalog_scan(cat, err);

	if (rc)
		return rc;
	if (doubt_take(&k->levels)) {
		kedge__log(KEDGE_LOG_NOTICE,
			   "%s: writing version %llu as a self-contained checkpoint, because what it would refer to on "
			   "L1 is damaged or gone",
			   k->name, (unsigned long long)version);
		kedge__levels_trust_from(k, version);
	}
	if (!k->levels.l1_current || k->levels.l1_changes != kedge__catalog_changes(cat))
		rc = l1_read(k, version, err);
	l2_read(k, version);
	return rc;
}

static struct kedge__set_key key_of(const struct kedge__holding *v)
{
	return (struct kedge__set_key){v->version, v->image};
}

int kedge__levels_referable(const kedge_t *k, const struct kedge__reach *reach, uint64_t version,
			    struct kedge__set_key **list, size_t *count, struct kedge__error *err)
{
	const struct kedge__holdings *l1 = &k->levels.l1;
	struct kedge__set_key *keys;
	size_t first = l1->list.count, n = 0;

	while (first &&
	       (l1->list.at[first - 1].version >= version || kedge__reach_has(reach, l1->list.at[first - 1].version)))
		first--;
	keys = kedge__calloc(l1->list.count - first + 2, sizeof(*keys));
	if (!keys)
		return kedge__error_nomem(err);
	if (reach->anchor != KEDGE__NO_VERSION && reach->anchor < reach->from)
		keys[n++] = key_of(kedge__holdings_find(l1, reach->anchor));
	for (size_t i = first; i < l1->list.count; i++) {
		const struct kedge__holding *v = &l1->list.at[i];

		if (v->usable && v->version < version && v->version >= reach->from)
			keys[n++] = key_of(v);
	}
	*list = keys;
	*count = n;
	return 0;
}

/* Whatever of the list is not in the front part any more leaves the holdings. */
static void keep_only(kedge_t *k, uint64_t version, const struct kedge__set_key *keys, size_t n)
{
	struct kedge__holdings *l1 = &k->levels.l1;

	for (size_t i = l1->list.count; i; i--) {
		const struct kedge__holding *v = &l1->list.at[i - 1];
		bool kept = v->version >= version;

		for (size_t j = 0; j < n && !kept; j++)
			kept = keys[j].version == v->version && keys[j].id == v->image;
		if (!kept)
			kedge__holdings_remove(l1, v->version);
	}
}

/* A rank without memory for its list has none: then nothing is referred to. */
int kedge__levels_common(kedge_t *k, uint64_t version, struct kedge__error *err)
{
	const struct kedge__reach all = {0, KEDGE__NO_VERSION, false};
	struct kedge__set_key *keys = NULL;
	size_t n = 0;
	int rc;

	(void)kedge__levels_referable(k, &all, version, &keys, &n, NULL);
	rc = kedge__common(&k->channels.front, keys, &n, err);
	if (!rc)
		keep_only(k, version, keys, n);
	kedge__free(keys);
	return rc;
}

void kedge__levels_published(kedge_t *k, const struct kedge__set *set)
{
	struct kedge__job_levels *s = &k->levels;
	struct kedge__holding v;

	kedge__holding_of(set, &v);
	if (!kedge__holdings_add(&s->l1, v, set->sources, set->source_count))
		s->l1_current = false;
	s->l1_changes = kedge__catalog_changes(k->levels.at[KEDGE__L1].write);
}

/* ------------------------------------------------------------------ L2 */

bool kedge__levels_expect_l2(const struct kedge__version *v)
{
	const struct kedge__retention_rules rules = kedge__levels_rules(v->k);
	struct kedge__job_levels *s = &v->k->levels;
	bool expected;

	if (!kedge__l2_wanted(v->k) || !s->at[KEDGE__L2].on)
		return false;
	pthread_mutex_lock(&s->lock);
	expected =
	    kedge__retention_due(&s->turn, &rules, v->costs.every, kedge__clock_wall_ns()) &&
	    kedge__retention_as_it_is(&s->l1, &s->l2, v->version, v->reduction.sources, v->reduction.source_count);
	pthread_mutex_unlock(&s->lock);
	return expected;
}

/* Rank 0's. Of what cannot be decided without memory, the form that is always right is taken. */
void kedge__levels_decide_l2(struct kedge__version *v)
{
	kedge_t *k = v->k;
	struct kedge__job_levels *s = &k->levels;
	const struct kedge__retention_rules rules = kedge__levels_rules(k);
	struct kedge__l2_answer answer;

	v->l2 = (struct kedge__l2_msg){.parent = KEDGE__NO_VERSION};
	pthread_mutex_lock(&s->lock);
	v->l2.due = kedge__l2_wanted(k) && kedge__retention_due(&s->turn, &rules, v->costs.every, v->set.created_ns);
	if (v->l2.due) {
		if (kedge__retention_l2(&s->l1, &s->l2, &rules, &v->reach, &v->costs, v->version, &answer, NULL))
			answer =
			    (struct kedge__l2_answer){.form = KEDGE__L2_SELF_CONTAINED, .parent = KEDGE__NO_VERSION};
		v->l2.form = answer.form;
		v->l2.parent = answer.parent;
		memcpy(v->l2_why, answer.why, sizeof(v->l2_why));
	}
	pthread_mutex_unlock(&s->lock);
}

/* What it will need there, as far as that is known before it is written. */
static void note_expected(struct kedge__version *v)
{
	struct kedge__job_levels *s = &v->k->levels;
	const struct kedge__holding *here = kedge__holdings_find(&s->l1, v->version);
	struct kedge__holding there;
	bool copied = v->l2.form == KEDGE__L2_COPY;

	if (!here)
		return;
	there = *here;
	there.files = copied ? here->files : 0;
	there.merged = !copied;
	pthread_mutex_lock(&s->lock);
	if (copied)
		(void)kedge__holdings_add(&s->l2, there, kedge__holding_needs(&s->l1, here), here->need_count);
	else
		(void)kedge__holdings_add(&s->l2, there, &v->l2.parent, v->l2.parent != KEDGE__NO_VERSION);
	pthread_mutex_unlock(&s->lock);
}

void kedge__levels_sealed(struct kedge__version *v)
{
	struct kedge__job_levels *s = &v->k->levels;

	pthread_mutex_lock(&s->lock);
	if (v->l2.due)
		s->turn = (struct kedge__l2_turn){.last_ns = v->set.created_ns};
	else
		s->turn.since++;
	pthread_mutex_unlock(&s->lock);
	if (v->l2.due)
		note_expected(v);
}

void kedge__levels_decided_l2(struct kedge__version *v, const struct kedge__l2_msg *l2)
{
	v->l2 = *l2;
}

int kedge__levels_check_parent(struct kedge__version *v, struct kedge__error *err)
{
	struct kedge__job_levels *s = &v->k->levels;
	struct kedge__error problem = KEDGE__ERROR_INIT;
	uint64_t *needed = NULL;
	size_t count;
	bool follows;
	int rc = 0;

	if (v->l2.form != KEDGE__L2_DELTA)
		return 0;
	pthread_mutex_lock(&s->lock);
	follows = v->l2.parent >= s->l2_failed;
	pthread_mutex_unlock(&s->lock);
	if (follows)
		rc = kedge__catalog_closure(s->at[KEDGE__L2].flush, v->l2.parent, &needed, &count, &problem);
	kedge__error_done(&problem);
	kedge__free(needed);
	if (rc == KEDGE_E_NOMEM)
		return kedge__error_nomem(err);
	if (follows && !rc)
		return 0;
	v->l2.form = KEDGE__L2_SELF_CONTAINED;
	v->l2.parent = KEDGE__NO_VERSION;
	return 0;
}

void kedge__levels_reached_l2(struct kedge__version *v, bool refers)
{
	struct kedge__job_levels *s = &v->k->levels;
	const struct kedge__holding *expected;
	struct kedge__holding there;

	pthread_mutex_lock(&s->lock);
	expected = kedge__holdings_find(&s->l2, v->version);
	if (expected && v->l2.form != KEDGE__L2_COPY) {
		there = *expected;
		there.bytes = v->l2_bytes ? v->l2_bytes : there.bytes;
		(void)kedge__holdings_add(&s->l2, there, &v->l2.parent, refers);
	}
	pthread_mutex_unlock(&s->lock);
}

void kedge__levels_turn_set(kedge_t *k, uint64_t since, bool bare)
{
	pthread_mutex_lock(&k->levels.lock);
	k->levels.turn = (struct kedge__l2_turn){.since = since, .bare = bare};
	k->levels.l2_current = false;
	pthread_mutex_unlock(&k->levels.lock);
}

/* Versions above all that L2 has are on their way; of the others, those that are not there any more leave. */
static void l2_drop_missing(struct kedge__job_levels *s, const struct kedge__catalog *cat)
{
	size_t n = kedge__catalog_count(cat);
	uint64_t newest = n ? kedge__catalog_at(cat, n - 1)->version : 0;

	for (size_t i = s->l2.list.count; n && i; i--) {
		const struct kedge__holding *v = &s->l2.list.at[i - 1];
		const struct kedge__catalog_entry *e = kedge__catalog_find(cat, v->version);

		if (v->version <= newest && (!e || e->problem.code || e->image != v->image))
			kedge__holdings_remove(&s->l2, v->version);
	}
}

void kedge__levels_sync_l2(kedge_t *k)
{
	const struct kedge__catalog *cat = k->levels.at[KEDGE__L2].flush;
	struct kedge__job_levels *s = &k->levels;

	pthread_mutex_lock(&s->lock);
	if (s->l2_changes != kedge__catalog_changes(cat)) {
		l2_drop_missing(s, cat);
		for (size_t i = 0; i < kedge__catalog_count(cat); i++) {
			const struct kedge__catalog_entry *e = kedge__catalog_at(cat, i);
			const struct kedge__holding *held = kedge__holdings_find(&s->l2, e->version);
			struct kedge__holding v;

			if (!held || e->problem.code)
				continue;
			kedge__holding_of_entry(e, &v);
			if (v.files != held->files || v.bytes != held->bytes)
				(void)kedge__holdings_add(&s->l2, v, e->set.sources, e->set.source_count);
		}
		s->l2_changes = kedge__catalog_changes(cat);
	}
	pthread_mutex_unlock(&s->lock);
}

void kedge__levels_failed_l2(kedge_t *k, uint64_t version)
{
	pthread_mutex_lock(&k->levels.lock);
	kedge__holdings_clear(&k->levels.l2);
	k->levels.l2_failed = version + 1;
	pthread_mutex_unlock(&k->levels.lock);
}

bool kedge__levels_copy_l2(kedge_t *k, struct kedge__holdings *out)
{
	bool ok = true;

	*out = (struct kedge__holdings){0};
	pthread_mutex_lock(&k->levels.lock);
	for (size_t i = 0; i < k->levels.l2.list.count && ok; i++) {
		const struct kedge__holding *v = &k->levels.l2.list.at[i];

		ok = kedge__holdings_add(out, *v, kedge__holding_needs(&k->levels.l2, v), v->need_count);
	}
	pthread_mutex_unlock(&k->levels.lock);
	if (!ok)
		kedge__holdings_done(out);
	return ok;
}
