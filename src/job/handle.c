/* SPDX-License-Identifier: BSD-3-Clause */
#include "job/handle.h"

#include <sched.h>
#include <stdio.h>
#include <unistd.h>

#define FOLLOWUP_LIMIT ((size_t)1 << 20) /* never reached: back pressure here could dead-lock the ranks */

/* ------------------------------------------------------------------ making and unmaking, without the other ranks */

/* The processors that it may run on, and no more than its share of the machine's. */
static int threads_wanted(const kedge_t *k)
{
	long all = KEDGE__MAX(sysconf(_SC_NPROCESSORS_ONLN), 1), share = all / KEDGE__MAX(k->group.neighbours, 1);
	cpu_set_t cpus;

	if (k->set.threads > 0)
		return (int)k->set.threads;
	if (sched_getaffinity(0, sizeof(cpus), &cpus) == 0 && CPU_COUNT(&cpus) > 0)
		share = KEDGE__MIN(share, CPU_COUNT(&cpus));
	return (int)KEDGE__MAX(share, 1);
}

static int self_allgather(void *ctx, const void *send, size_t bytes, void *recv)
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

static kedge_t *handle_new(const struct kedge_group *group)
{
	static const struct kedge_group single = {.size = 1, .any_thread = 1, .allgather = self_allgather};
	kedge_t *k = kedge__calloc(1, sizeof(*k));

	if (!k)
		return NULL;
	k->group = group ? *group : single;
	if (kedge__channels_init(&k->channels, &k->group)) {
		kedge__channels_done(&k->channels);
		kedge__free(k);
		return NULL;
	}
	k->pid = getpid();
	pthread_mutex_init(&k->lock, NULL);
	kedge__state_init(&k->state);
	kedge__progress_init(&k->progress);
	kedge__image_init(k);
	kedge__gpus_init(k);
	kedge__levels_init(&k->levels);
	kedge__baseline_init(&k->baseline);
	kedge__job_run_init(&k->run);
	kedge__followups_init(&k->followups);
	kedge__advice_init(&k->advice);
	kedge__requests_init(&k->requests);
	kedge__journal_init(&k->journal);
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
	kedge__job_aggregate_done(k);
	kedge__device_done(k);
	kedge__baseline_done(&k->baseline);
	kedge__track_free(k);
	kedge__image_done(k);
	kedge__files_free(k);
	kedge__gpu_ways_done(k);
	kedge__mirrors_done(k);
	kedge__gpus_done(k);
	kedge__regions_done(k);
	kedge__job_run_done(&k->run);
	kedge__levels_done(&k->levels);
	kedge__versions_done(&k->versions);
	kedge__l2_done(&k->l2);
	kedge__shields_done(k);
	kedge__state_done(&k->state);
	kedge__progress_done(&k->progress);
	kedge__journal_done(&k->journal);
	kedge__channels_done(&k->channels);
	kedge__requests_done(k);
	kedge__job_settings_done(&k->set);
	kedge__free(k->name);
	pthread_mutex_destroy(&k->lock);
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
		kedge__image_choose(k);
	if (!rc)
		rc = kedge__regions_new(k, err);
	if (!rc)
		rc = kedge__pool_new(threads_wanted(k), &k->pool, err);
	if (!rc)
		rc = kedge__codec_memory_new(&k->memory, err);
	if (!rc)
		rc = kedge__job_aggregate_init(k, err);
	k->codec.target = (double)k->set.codec_rate / kedge__pool_threads(k->pool);
	k->codec.pace = k->set.codec_timed ? NULL : kedge__codec_pace_built_in;
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
	const struct kedge__job_sources from = {
	    .config = config, .overrides = settings, .call = "kedge_open", .rank = k->group.rank};
	int rc = kedge__job_name_check(name, err);

	if (!rc)
		rc = kedge__job_settings_load(&from, &k->set, err);
	if (!rc)
		rc = kedge__job_settings_root(&k->set, err);
	if (rc)
		return rc;
	kedge__levels_keep(k);
	kedge__level_on(&k->levels.at[KEDGE__L1]);
	k->name = kedge__strdup(name);
	rc = k->name ? parts_init(k, err) : kedge__error_nomem(err);
	if (!rc)
		rc = kedge__catalog_make(k->set.l1, name, k->set.init ? KEDGE__CATALOG_INIT : KEDGE__CATALOG_CREATE,
					 err);
	return rc;
}

/* ------------------------------------------------------------------ with the other ranks */

/* The states of all stored versions, *LIST, which are the caller's also on failure, and the names and slots of the
 * newest one that can be read. */
static int past_learn(kedge_t *k, struct kedge__set_key **list, size_t *count, struct kedge__error *err)
{
	struct kedge__set_key *keys;
	struct kedge__lineage *l;
	int rc = kedge__versions_scan(k, err);

	if (!rc)
		rc = kedge__versions_all(k, kedge__versions_run(k), list, count, err);
	keys = *list;
	for (size_t i = 0; i < *count && !rc; i++) {
		kedge__state_begin(k, keys[i].version);
		kedge__state_end(k, keys[i].version, 0, NULL);
	}
	for (size_t n = *count; n && !rc; n--) {
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
		rc = kedge__regions_remember(k, kedge__lineage_top(l), err);
		kedge__job_aggregate_remember(k, kedge__lineage_top(l));
		kedge__versions_close(k, l, true);
		break;
	}
	return rc;
}

static int open_together(kedge_t *k, const char *name, const char *config, const char *const *settings,
			 struct kedge__error *err)
{
	struct kedge__set_key *keys = NULL;
	uint64_t began_ns = kedge__clock_wall_ns();
	size_t n = 0;
	int rc = local_begin(k, name, config, settings, err);

	rc = kedge__agree(&k->channels.front, KEDGE__STEP_OPEN, 0, rc, NULL, err);
	if (rc)
		return rc;
	/* All ranks have created what they need, so the ids are final. */
	rc = kedge__meet(k, kedge__level_open(k, k->set.l1, &k->levels.at[KEDGE__L1], err), err);
	if (rc)
		return rc;
	/* A second opener is refused before anything of the first one's is cleaned. */
	rc = kedge__level_own(k, &k->levels.at[KEDGE__L1], err);
	if (!rc && !kedge__shields_wanted(k)) /* otherwise, what a crash left may still be of use: kedge__recover() */
		kedge__level_clean(k, &k->levels.at[KEDGE__L1]);
	rc = kedge__agree(&k->channels.front, KEDGE__STEP_OWN, 0, rc, NULL, err);
	if (rc)
		return rc;
	(void)kedge__l2_meet(k); /* what is wrong with L2 costs L2 alone */
	rc = kedge__shields_meet(k, err);
	if (!rc)
		rc = kedge__recover(k, err);
	if (rc)
		return rc;
	rc = kedge__requests_open(k, began_ns, err);
	if (!rc)
		rc = past_learn(k, &keys, &n, err);
	rc = kedge__agree(&k->channels.front, KEDGE__STEP_PAST, 0, rc, NULL, err);
	if (!rc)
		rc = kedge__versions_common(k, keys, n, err);
	kedge__free(keys);
	return rc;
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
		rc = kedge__error_set(&err, KEDGE_E_ARG, 0, "name and out must not be NULL");
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
	kedge__journal_open(k);
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
	kedge__adapt_save(k, true);
	rc = kedge__state_take(k, &err);
	/* The leader gives up the lock when nobody writes any more. */
	agreed = kedge__agree(&k->channels.front, KEDGE__STEP_CLOSE, 0, 0, NULL, rc ? NULL : &err);
	if (!rc)
		rc = agreed;
	kedge__journal_close(k);
	pthread_mutex_unlock(&k->lock);
	group = k->group;
	handle_free(k);
	if (group.free_ctx)
		group.free_ctx(group.ctx);
	return kedge__state_fail(NULL, rc, &err);
}
