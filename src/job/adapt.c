/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The policy of this job: it gets the costs of checkpoints, copies and restarts, answers the application, and is kept
 * in a file beside the hash record, because only the next process can notice a failure. Rank 0's policy decides; the
 * other ranks receive its answers, and how many times they need not ask.
 */
#include "job/handle.h"

#include <stdlib.h>

enum { FLAG_NOW = 1 };

#define SKIP_SHIFT 8

void kedge__advice_init(struct kedge__advice *a)
{
	memset(a, 0, sizeof(*a));
	a->clock = kedge__clock_seconds;
	a->flushed.seconds = -1;
}

int kedge__adapt_init(kedge_t *k, struct kedge__error *err)
{
	struct kedge__policy_config config;
	int rc = kedge__job_settings_policy(&k->set, &config, err);

	if (!rc)
		kedge__policy_init(&k->advice.policy, &config, k->advice.clock());
	return rc;
}

/* ------------------------------------------------------------------ from one process to the next */

static char *policy_path(const kedge_t *k, int level)
{
	return kedge__asprintf("%s/%s/record-policy", kedge__catalog_store(k->levels.at[level].api), k->name);
}

static int text_read(const char *path, char text[KEDGE__POLICY_FILE_MAX], struct kedge__error *err)
{
	uint64_t bytes;
	int fd, rc = kedge__fs_open_read(path, &fd, err);

	if (rc)
		return rc;
	rc = kedge__fs_size(fd, &bytes, path, err);
	if (!rc && bytes >= KEDGE__POLICY_FILE_MAX)
		rc = kedge__error_set(err, KEDGE_E_FORMAT, 0, "%s is too large", path);
	if (!rc)
		rc = kedge__fs_pread(fd, text, (size_t)bytes, 0, path, err);
	if (!rc)
		text[bytes] = '\0';
	kedge__fs_close(fd);
	return rc;
}

/* True if LEVEL has a file that was read, or one that cannot be. */
static bool load_from(kedge_t *k, int level)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	char text[KEDGE__POLICY_FILE_MAX];
	char *path = policy_path(k, level);
	bool found = path && kedge__fs_exists(path);
	int rc = 0;

	if (found) {
		rc = text_read(path, text, &err);
		if (!rc)
			rc = kedge__policy_parse(&k->advice.policy, text, &err);
	}
	if (rc)
		kedge__log(KEDGE_LOG_WARNING,
			   "%s: the costs measured by earlier runs cannot be used and are measured again: %s", k->name,
			   kedge__error_text(&err));
	kedge__error_done(&err);
	kedge__free(path);
	return found;
}

bool kedge__adapt_costs(const char *store, const char *name, struct kedge__l2_costs *out)
{
	const struct kedge__policy_config none = {.l2_every = 1};
	char text[KEDGE__POLICY_FILE_MAX], *path = kedge__asprintf("%s/%s/record-policy", store, name);
	struct kedge__policy p;
	bool known = path && kedge__fs_exists(path) && text_read(path, text, NULL) == 0;

	kedge__policy_init(&p, &none, 0);
	known = known && kedge__policy_parse(&p, text, NULL) == 0;
	if (known)
		kedge__policy_l2_costs(&p, out);
	kedge__free(path);
	return known;
}

/* What L2 has is older, but it is still there after a failure that took L1. */
void kedge__adapt_load(kedge_t *k)
{
	if (k->group.rank != 0)
		return;
	if (!load_from(k, KEDGE__L1) && k->levels.at[KEDGE__L2].on)
		(void)load_from(k, KEDGE__L2);
	/* A run that is launched again failed before, whatever its file says: perhaps it never came to write one. */
	k->advice.policy.unclean = k->advice.policy.unclean || kedge__relaunched();
}

static void save_to(kedge_t *k, int level, const char *text)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	char *path = policy_path(k, level);

	if (path && kedge__fs_replace(path, text, strlen(text), false, &err))
		kedge__log(KEDGE_LOG_WARNING, "%s: what was measured is not kept: %s", k->name,
			   kedge__error_text(&err));
	kedge__error_done(&err);
	kedge__free(path);
}

/* COPIED: L2 has a version more, and is worth knowing what led to it. */
static void save(kedge_t *k, bool closed, bool copied)
{
	char text[KEDGE__POLICY_FILE_MAX];

	if (k->group.rank != 0 || !kedge__policy_known(&k->advice.policy))
		return;
	k->advice.policy.kept = true;
	kedge__policy_format(&k->advice.policy, closed, text);
	save_to(k, KEDGE__L1, text);
	if (copied && k->levels.at[KEDGE__L2].on)
		save_to(k, KEDGE__L2, text);
}

/* ------------------------------------------------------------------ what happened */

/* True if a copy to L2 was completed since. */
static bool flushes_take(kedge_t *k)
{
	struct kedge__l2_flush flushed;

	pthread_mutex_lock(&k->state.lock);
	flushed = k->advice.flushed;
	k->advice.flushed.seconds = -1;
	pthread_mutex_unlock(&k->state.lock);
	if (flushed.seconds >= 0)
		kedge__policy_flushed(&k->advice.policy, &flushed);
	return flushed.seconds >= 0;
}

void kedge__adapt_skip(kedge_t *k, uint64_t questions)
{
	k->advice.skip = questions;
}

void kedge__adapt_increment(kedge_t *k, const struct kedge_stats *stats)
{
	pthread_mutex_lock(&k->state.lock);
	k->advice.increment[0] = stats->raw_bytes;
	k->advice.increment[1] = stats->literal_bytes;
	k->advice.increment[2] = stats->stored_bytes;
	pthread_mutex_unlock(&k->state.lock);
}

void kedge__adapt_flushed(kedge_t *k, const struct kedge__l2_flush *flush)
{
	pthread_mutex_lock(&k->state.lock);
	k->advice.flushed = *flush;
	pthread_mutex_unlock(&k->state.lock);
}

void kedge__adapt_save(kedge_t *k, bool closed)
{
	(void)flushes_take(k);
	save(k, closed, closed);
}

static void increment_take(kedge_t *k)
{
	uint64_t bytes[3];

	pthread_mutex_lock(&k->state.lock);
	memcpy(bytes, k->advice.increment, sizeof(bytes));
	memset(k->advice.increment, 0, sizeof(k->advice.increment));
	pthread_mutex_unlock(&k->state.lock);
	kedge__policy_increment(&k->advice.policy, bytes[0], bytes[1], bytes[2]);
}

void kedge__adapt_taken(kedge_t *k, double blocked, double dirty)
{
	bool copied = flushes_take(k);

	atomic_store(&k->advice.soon, false);
	increment_take(k);
	if (kedge__policy_taken(&k->advice.policy, k->advice.clock(), blocked, dirty) && k->group.rank == 0) {
		kedge__log(KEDGE_LOG_NOTICE, "%s: %s", k->name, k->advice.policy.text);
		kedge__journal_interval(k);
	} else if (k->advice.policy.text[0] && k->group.rank == 0) {
		kedge__log(KEDGE_LOG_DEBUG, "%s: %s", k->name, k->advice.policy.text);
	}
	if (kedge__policy_used(&k->advice.policy) || !k->advice.policy.kept)
		save(k, false, copied);
}

static double version_age(const kedge_t *k, uint64_t version)
{
	uint64_t now = kedge__clock_wall_ns();

	for (int l = 0; l < KEDGE__LEVELS; l++) {
		const struct kedge__catalog_entry *e =
		    k->levels.at[l].api ? kedge__catalog_find(k->levels.at[l].api, version) : NULL;

		if (e && !e->problem.code)
			return now > e->set.created_ns ? (double)(now - e->set.created_ns) / 1e9 : 0;
	}
	return 0;
}

/* What this rank had to look at, dead bytes included: as in the sums that use the rate. */
static uint64_t l2_bytes(const kedge_t *k, uint64_t version)
{
	const struct kedge__catalog *cat = k->levels.at[KEDGE__L2].api;
	uint64_t *list, bytes = 0;
	size_t count;

	if (kedge__catalog_closure(cat, version, &list, &count, NULL))
		return 0;
	for (size_t i = 0; i < count; i++)
		bytes += kedge__catalog_find(cat, list[i])->set.parts[k->group.rank].file_bytes;
	kedge__free(list);
	return bytes;
}

void kedge__adapt_restarted(kedge_t *k, struct kedge__set_key key, int level, double seconds)
{
	const struct kedge__journal_restart event = {key.version, level, seconds, version_age(k, key.version),
						     k->advice.policy.unclean};

	if (level == 2 && k->levels.at[KEDGE__L2].api)
		kedge__policy_read(&k->advice.policy, seconds, l2_bytes(k, key.version));

	k->advice.skip = 0;
	kedge__policy_restarted(&k->advice.policy, k->advice.clock(), level, seconds, event.age);
	if (event.failure && kedge__policy_known(&k->advice.policy))
		kedge__log(KEDGE_LOG_INFO, "%s: a failure was seen, its state came back from L%d", k->name, level);
	save(k, false, true);
	kedge__journal_restart(k, &event);
}

/* ------------------------------------------------------------------ now or later */

uint64_t kedge__adapt_skip_ahead(const kedge_t *k)
{
	struct kedge__policy after = k->advice.policy;

	after.resumed = 0;
	return kedge__policy_skip(&after, 0);
}

/* Rank 0's answer, and for how many calls it holds; anybody's, if somebody wants a version soon. */
static uint64_t answer(kedge_t *k)
{
	double now = k->advice.clock();
	const char *why = "kedge_checkpoint_soon() was called";

	if (kedge__requests_look(k, false, &why) != KEDGE__REQUEST_NONE || atomic_load(&k->advice.soon)) {
		kedge__log(KEDGE_LOG_INFO, "%s: a checkpoint is due: %s", k->name, why);
		return FLAG_NOW;
	}
	if (k->group.rank != 0)
		return 0;
	if (flushes_take(k))
		save(k, false, true);
	if (kedge__policy_ask(&k->advice.policy, now,
			      kedge__policy_wants_dirty(&k->advice.policy, now) ? kedge__track_count(k) : -1))
		return FLAG_NOW;
	return k->group.size > 1 ? kedge__policy_skip(&k->advice.policy, now) << SKIP_SHIFT : 0;
}

static bool wanted_here(const kedge_t *k)
{
	return atomic_load(&k->advice.soon) || kedge__requests_signalled(k);
}

static int should(kedge_t *k, int *now, struct kedge__error *err)
{
	uint64_t flags;
	int rc;

	if (k->advice.skip && !(k->group.size == 1 && wanted_here(k))) {
		k->advice.skip--;
		*now = 0;
		return 0;
	}
	if (!k->advice.asked && k->group.rank == 0)
		kedge__journal_word(k, "asks");
	k->advice.asked = true;
	/* The writer speaks to the other ranks on the channel that is needed now. */
	if (k->group.size > 1 && k->sealing.pending && k->channels.writer_speaks)
		kedge__seal_finish(k);
	kedge__followups_progress(k);
	flags = answer(k);
	rc = kedge__agree(&k->channels.front, KEDGE__STEP_SHOULD, 0, 0, &flags, err);
	if (rc)
		return rc;
	*now = flags & FLAG_NOW ? 1 : 0;
	k->advice.skip = *now ? 0 : flags >> SKIP_SHIFT;
	if (*now && k->advice.policy.why[0] && k->group.rank == 0)
		kedge__log(KEDGE_LOG_INFO, "%s: a checkpoint is due: %s", k->name, k->advice.policy.why);
	return 0;
}

int kedge_should_checkpoint(kedge_t *k, int *now)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	int rc = kedge__handle_check(k, &err);

	if (!rc && !now)
		rc = kedge__error_set(&err, KEDGE_E_ARG, 0, "now must not be NULL");
	if (rc)
		return kedge__state_fail(k, rc, &err);
	pthread_mutex_lock(&k->lock);
	rc = should(k, now, &err);
	pthread_mutex_unlock(&k->lock);
	return kedge__state_fail(k, rc, &err);
}

/* Nothing here may be done in a signal handler but this. */
void kedge_checkpoint_soon(kedge_t *k)
{
	if (k)
		atomic_store(&k->advice.soon, true);
}

int kedge_checkpoint_if_due(kedge_t *k, uint64_t version, int *taken)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	int rc = kedge__handle_check(k, &err), now = 0;

	if (rc)
		return kedge__state_fail(k, rc, &err);
	pthread_mutex_lock(&k->lock);
	rc = should(k, &now, &err);
	if (!rc && now)
		rc = kedge__checkpoint_take(k, version, &err);
	if (!rc && taken)
		*taken = now;
	pthread_mutex_unlock(&k->lock);
	return kedge__state_fail(k, rc, &err);
}
