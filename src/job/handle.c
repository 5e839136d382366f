#include "job/handle.h"

#include <sched.h>
#include <stdio.h>
#include <unistd.h>

#define FOLLOWUP_LIMIT ((size_t)1 << 20) /* never reached: back pressure here could dead-lock the ranks */

/* ------------------------------------------------------------------ making and unmaking, without the other ranks */

static int threads_wanted(const kedge_t *k)
{
	cpu_set_t cpus;

	if (k->set.threads > 0)
		return (int)k->set.threads;
	if (sched_getaffinity(0, sizeof(cpus), &cpus) == 0)
		return CPU_COUNT(&cpus) > 0 ? CPU_COUNT(&cpus) : 1;
	return (int)KEDGE__MAX(sysconf(_SC_NPROCESSORS_ONLN), 1);
}

static int alone_allgather(void *ctx, const void *send, size_t bytes, void *recv)
{
	(void)ctx;
	memcpy(recv, send, bytes);
	return 0;
}

static int group_check(const struct kedge_group *g, struct kedge__error *err)
{
	if (g->size >= 1 && g->rank >= 0 && g->rank < g->size && g->allgather)
		return 0;
	return kedge__error_set(err, KEDGE_E_ARG, 0, "a group needs an allgather, and a rank (%d) within its size (%d)",
				g->rank, g->size);
}

static int channels_init(kedge_t *k, const struct kedge_group *group)
{
	static const struct kedge_group alone = {.size = 1, .any_thread = 1, .allgather = alone_allgather};
	bool by_itself;
	int rc;

	k->group = group ? *group : alone;
	by_itself = k->group.size == 1 || k->group.any_thread;
	k->front_alone = by_itself;
	k->back_alone = k->group.size == 1 || (by_itself && k->group.background);
	rc = kedge__channel_init(&k->front, &k->group, k->group.ctx, NULL);
	return rc ? rc
		  : kedge__channel_init(&k->back, &k->group,
					k->back_alone && k->group.background ? k->group.background : k->group.ctx,
					NULL);
}

static kedge_t *handle_new(const struct kedge_group *group)
{
	kedge_t *k = kedge__calloc(1, sizeof(*k));

	if (!k)
		return NULL;
	if (channels_init(k, group)) {
		kedge__channel_done(&k->front);
		kedge__free(k);
		return NULL;
	}
	pthread_mutex_init(&k->lock, NULL);
	pthread_mutex_init(&k->state_lock, NULL);
	pthread_mutex_init(&k->progress_lock, NULL);
	pthread_cond_init(&k->let_go, NULL);
	k->run.last = k->run.from_version = k->stats.version = KEDGE__NO_VERSION;
	kedge__levels_init(&k->levels);
	kedge__baseline_init(&k->baseline);
	k->pid = getpid();
	kedge__followups_init(&k->followups);
	k->clock = kedge__clock_seconds;
	k->flushed.seconds = -1;
	for (int l = 0; l < KEDGE__LEVELS; l++)
		k->trust[l] = kedge__trust_new();
	return k;
}

static void handle_free(kedge_t *k)
{
	if (!k)
		return;
	kedge__worker_free(k->writer);
	kedge__worker_free(k->flusher);
	kedge__followups_free(k);
	kedge__pool_free(k->pool);
	kedge__codec_memory_free(k->memory);
	kedge__baseline_done(&k->baseline);
	kedge__levels_done(&k->levels);
	kedge__track_free(k);
	kedge__reserve_done(&k->reserve);
	kedge__files_free(k);
	kedge__region_table_free(k->regions);
	kedge__job_run_done(&k->run);
	for (int l = 0; l < KEDGE__LEVELS; l++) {
		kedge__catalog_close(k->level[l].api);
		kedge__catalog_close(k->level[l].flush);
		kedge__catalog_close(k->level[l].write);
		kedge__trust_free(k->trust[l]);
	}
	for (size_t i = 0; i < k->status.count; i++)
		kedge__error_done(&k->status.at[i].err);
	kedge__array_done(&k->status);
	kedge__array_done(&k->common);
	kedge__channel_done(&k->front);
	kedge__channel_done(&k->back);
	kedge__error_done(&k->first);
	kedge__error_done(&k->l2_refused);
	kedge__job_settings_done(&k->set);
	kedge__free(k->name);
	pthread_mutex_destroy(&k->lock);
	pthread_mutex_destroy(&k->state_lock);
	pthread_mutex_destroy(&k->progress_lock);
	pthread_cond_destroy(&k->let_go);
	kedge__free(k);
}

static int parts_init(kedge_t *k, struct kedge__error *err)
{
	int rc = kedge__codec_choice_parse(k->set.codec, &k->codec, err);

	if (!rc)
		rc = kedge__adapt_init(k, err);
	if (!rc)
		rc = kedge__track_init(k, err);
	if (!rc)
		kedge__image_init(k);
	if (!rc)
		rc = kedge__region_table_new(&k->regions, err);
	if (!rc)
		rc = kedge__pool_new(threads_wanted(k), &k->pool, err);
	if (!rc)
		rc = kedge__codec_memory_new(&k->memory, err);
	k->codec.target = (double)k->set.codec_rate / kedge__pool_threads(k->pool);
	if (!rc && k->set.capture != KEDGE__CAPTURE_SYNC)
		rc = kedge__worker_new(2, &k->writer, err);
	if (!rc && kedge__followups_wanted(k))
		rc = kedge__worker_new(FOLLOWUP_LIMIT, &k->flusher, err);
	kedge__job_bucket_init(&k->bucket, k->set.l2_rate);
	kedge__job_bucket_init(&k->reads, k->set.restore_rate);
	return rc;
}

/* The settings in force, and an L1 with a marker in it: nothing yet that another rank depends on. */
static int local_begin(kedge_t *k, const char *name, const char *config, const char *const *settings,
		       struct kedge__error *err)
{
	struct kedge__catalog *cat;
	int rc = kedge__job_name_check(name, err);

	if (!rc)
		rc = kedge__job_settings_load(config, settings, &k->set, err);
	if (!rc)
		rc = kedge__job_settings_root(&k->set, err);
	if (rc)
		return rc;
	k->level[KEDGE__L1].on = true;
	k->name = kedge__strdup(name);
	rc = k->name ? parts_init(k, err) : kedge__error_nomem(err);
	if (!rc)
		rc = kedge__catalog_open(k->set.l1, name, k->set.init ? KEDGE__CATALOG_INIT : KEDGE__CATALOG_CREATE,
					 &cat, err);
	if (!rc)
		kedge__catalog_close(cat);
	return rc;
}

int kedge__level_open(kedge_t *k, const char *dir, struct kedge__job_level *level, struct kedge__error *err)
{
	int rc = kedge__catalog_open(dir, k->name, KEDGE__CATALOG_CREATE, &level->write, err);

	if (!rc)
		rc = kedge__catalog_open(dir, k->name, KEDGE__CATALOG_CREATE, &level->api, err);
	if (!rc)
		kedge__catalog_pace(level->api, &k->reads);
	if (!rc && k->flusher)
		rc = kedge__catalog_open(dir, k->name, KEDGE__CATALOG_CREATE, &level->flush, err);
	if (!rc)
		kedge__catalog_set_sync(level->write, k->set.sync);
	if (!rc)
		kedge__catalog_set_take_over(level->write, k->set.take_over);
	if (!rc && level->flush)
		kedge__catalog_set_sync(level->flush, k->set.sync);
	return rc;
}

/* ------------------------------------------------------------------ with the other ranks */

int kedge__level_own(kedge_t *k, struct kedge__job_level *level, struct kedge__error *err)
{
	struct kedge__error problem = KEDGE__ERROR_INIT;
	size_t removed = 0;
	int rc = level->leads ? kedge__catalog_own(level->write, k->name, err) : 0;

	if (rc || !level->leads)
		return rc;
	if (kedge__catalog_clean(level->write, &removed, &problem))
		kedge__log(KEDGE_LOG_WARNING, "leftovers stay: %s", kedge__error_text(&problem));
	else if (removed)
		kedge__log(KEDGE_LOG_NOTICE, "%s: %zu leftovers of a crash were removed", k->name, removed);
	kedge__error_done(&problem);
	return 0;
}

/* The names and slots of the newest version that can be read; the states of all. */
static int past_learn(kedge_t *k, struct kedge__error *err)
{
	struct kedge__set_key *keys = NULL;
	struct kedge__lineage *l;
	size_t n = 0;
	int rc = kedge__versions_scan(k, err);

	if (!rc)
		rc = kedge__versions_all(k, kedge__versions_run(k), &keys, &n, err);
	for (size_t i = 0; i < n && !rc; i++) {
		kedge__state_begin(k, keys[i].version);
		kedge__state_end(k, keys[i].version, 0, NULL);
	}
	for (; n && !rc; n--) {
		struct kedge__error problem = KEDGE__ERROR_INIT;
		int failed = kedge__versions_open(k, keys[n - 1], &l, &problem);

		if (failed)
			kedge__log(KEDGE_LOG_WARNING, "version %llu is not usable: %s",
				   (unsigned long long)keys[n - 1].version, kedge__error_text(&problem));
		kedge__error_done(&problem);
		if (failed == KEDGE_E_NOMEM)
			rc = kedge__error_nomem(err);
		if (failed)
			continue;
		rc = kedge__versions_remember(k, kedge__lineage_top(l), err);
		kedge__lineage_close(l);
		break;
	}
	kedge__free(keys);
	return rc;
}

static int open_together(kedge_t *k, const char *name, const char *config, const char *const *settings,
			 struct kedge__error *err)
{
	int rc = local_begin(k, name, config, settings, err);

	rc = kedge__agree(&k->front, KEDGE__STEP_OPEN, 0, rc, NULL, err);
	if (rc)
		return rc;
	/* All ranks have created what they need, so the ids are final. */
	rc = kedge__meet(k, kedge__level_open(k, k->set.l1, &k->level[KEDGE__L1], err), err);
	if (rc)
		return rc;
	/* A second opener is refused before anything of the first one's is cleaned. */
	rc = kedge__level_own(k, &k->level[KEDGE__L1], err);
	rc = kedge__agree(&k->front, KEDGE__STEP_OPEN, 1, rc, NULL, err);
	if (rc)
		return rc;
	(void)kedge__l2_meet(k); /* what is wrong with L2 costs L2 alone */
	rc = kedge__agree(&k->front, KEDGE__STEP_OPEN, 2, past_learn(k, err), NULL, err);
	return rc ? rc : kedge__versions_common(k, err);
}

/* ------------------------------------------------------------------ the calls */

int kedge_open_group(const char *name, const char *config, const char *const *settings, const struct kedge_group *group,
		     kedge_t **out)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	kedge_t *k;
	int rc = 0, met;

	if (out)
		*out = NULL;
	if (!out || !name)
		rc = kedge__error_set(&err, KEDGE_E_ARG, 0, "no name, or no place for the handle");
	met = group ? group_check(group, rc ? NULL : &err) : 0;
	if (met)
		return kedge__state_fail(NULL, rc ? rc : met, &err);
	k = rc ? NULL : handle_new(group);
	if (!rc && !k)
		rc = kedge__error_nomem(&err);
	met = kedge__meet_ready(group, k, rc ? NULL : &err);
	if (!rc)
		rc = met ? met : open_together(k, name, config, settings, &err);
	if (rc) {
		handle_free(k);
		return kedge__state_fail(NULL, rc, &err);
	}
	kedge__adapt_load(k);
	if (k->group.rank == 0)
		kedge__journal_write("open %s %s", k->name, k->set.l1);
	*out = k;
	return 0;
}

int kedge_open(const char *name, const char *config, const char *const *settings, kedge_t **out)
{
	return kedge_open_group(name, config, settings, NULL, out);
}

int kedge_wait(kedge_t *k)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	int rc = kedge__handle_check(k, &err);

	if (rc)
		return kedge__state_fail(k, rc, &err);
	pthread_mutex_lock(&k->lock);
	kedge__seal_finish(k);
	kedge__followups_settle(k);
	rc = kedge__state_take(k, &err);
	pthread_mutex_unlock(&k->lock);
	return kedge__state_fail(k, rc, &err);
}

int kedge_close(kedge_t *k)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	struct kedge_group group;
	int rc, agreed;

	if (!k)
		return 0;
	rc = kedge__handle_check(k, &err); /* a child leaves its parent's handle alone */
	if (rc)
		return kedge__state_fail(k, rc, &err);
	pthread_mutex_lock(&k->lock);
	kedge__seal_finish(k);
	kedge__followups_settle(k);
	kedge__record_save(k);
	kedge__adapt_save(k, true);
	rc = kedge__state_take(k, &err);
	/* The leader gives up the lock when nobody writes any more. */
	agreed = kedge__agree(&k->front, KEDGE__STEP_CLOSE, 0, 0, NULL, rc ? NULL : &err);
	if (!rc)
		rc = agreed;
	if (k->group.rank == 0)
		kedge__journal_write("close");
	pthread_mutex_unlock(&k->lock);
	group = k->group;
	handle_free(k);
	if (group.free_ctx)
		group.free_ctx(group.ctx);
	return kedge__state_fail(NULL, rc, &err);
}

/* Where region NAME is; nowhere if there is none. */
static void region_current(const kedge_t *k, const char *name, struct kedge__job_tracked *out)
{
	const struct kedge__region *r = name ? kedge__region_table_find(k->regions, name) : NULL;

	*out = (struct kedge__job_tracked){.data = r ? r->data : NULL, .bytes = r ? r->bytes : 0};
}

/* Memory that is not protected any more is the application's to free: nobody may need it, or watch it. */
static void region_moved(kedge_t *k, const char *name, struct kedge__job_tracked before)
{
	struct kedge__job_tracked now;

	region_current(k, name, &now);
	if (!before.bytes || (now.data == before.data && now.bytes == before.bytes))
		return;
	kedge__image_wait(k);
	kedge__track_forget(k, before.data, before.bytes);
}

static int protect(kedge_t *k, const char *name, void *ptr, size_t count, enum kedge_type type, int ndims,
		   const size_t *dims)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	struct kedge__job_tracked before;
	int rc = kedge__handle_check(k, &err);

	if (rc)
		return kedge__state_fail(k, rc, &err);
	pthread_mutex_lock(&k->lock);
	region_current(k, name, &before);
	rc = kedge__region_table_put(k->regions, name, ptr, count, type, ndims, dims, &err);
	region_moved(k, name, before);
	pthread_mutex_unlock(&k->lock);
	return kedge__state_fail(k, rc, &err);
}

int kedge_protect(kedge_t *k, const char *name, void *ptr, size_t count, enum kedge_type type)
{
	return protect(k, name, ptr, count, type, 0, NULL);
}

int kedge_protect_array(kedge_t *k, const char *name, void *ptr, enum kedge_type type, int ndims, const size_t *dims)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	size_t count = 1;
	int rc = 0;

	if (ndims < 1 || ndims > KEDGE_MAX_DIMS || !dims)
		rc = kedge__error_set(&err, KEDGE_E_ARG, 0, "region \"%s\": a shape has 1 to %d dimensions",
				      name ? name : "", KEDGE_MAX_DIMS);
	for (int i = 0; !rc && i < ndims; i++) {
		if (__builtin_mul_overflow(count, dims[i], &count))
			rc = kedge__error_set(&err, KEDGE_E_LIMIT, 0, "region \"%s\": its shape overflows",
					      name ? name : "");
	}
	return rc ? kedge__state_fail(k, rc, &err) : protect(k, name, ptr, count, type, ndims, dims);
}

int kedge_region_flags(kedge_t *k, const char *name, unsigned flags)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	struct kedge__region *r;
	int rc = kedge__handle_check(k, &err);

	if (!rc && (!name || flags & ~KEDGE_REGION_DEVICE))
		rc = kedge__error_set(&err, KEDGE_E_ARG, 0, "there is no name, or flags that do not exist (0x%x)",
				      flags);
	if (rc)
		return kedge__state_fail(k, rc, &err);
	pthread_mutex_lock(&k->lock);
	r = kedge__region_table_find(k->regions, name);
	if (r)
		r->flags = flags;
	else
		rc = kedge__error_set(&err, KEDGE_E_NOTFOUND, 0, "no region \"%s\" is protected", name);
	if (r && flags & KEDGE_REGION_DEVICE)
		kedge__track_forget(k, r->data, r->bytes);
	pthread_mutex_unlock(&k->lock);
	return kedge__state_fail(k, rc, &err);
}

int kedge_unprotect(kedge_t *k, const char *name)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	struct kedge__job_tracked before;
	int rc = kedge__handle_check(k, &err);

	if (rc)
		return kedge__state_fail(k, rc, &err);
	pthread_mutex_lock(&k->lock);
	region_current(k, name, &before);
	/* Files are regions only while a version is saved or restored, and this call waits for that. */
	if ((name && kedge__region_table_find(k->regions, name)) || !kedge__file_forget(k, name))
		rc = kedge__region_table_remove(k->regions, name, &err);
	region_moved(k, name, before);
	pthread_mutex_unlock(&k->lock);
	return kedge__state_fail(k, rc, &err);
}
