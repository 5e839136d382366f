/* SPDX-License-Identifier: BSD-3-Clause */
#include "job/handle.h"

#include <stdatomic.h>
#include <unistd.h>

/*
 * The last failure of this thread. A library that is loaded by dlopen() has its thread-local variables in a small space
 * that all libraries share, so the text is not among them; it goes with its thread.
 */
static _Thread_local struct {
	const kedge_t *k;
	int code;
	char *text; /* also the value of `texts`; NULL: that of the code */
} last;

static pthread_once_t texts_once = PTHREAD_ONCE_INIT;
static pthread_key_t texts;
static atomic_bool texts_kept;

static void texts_init(void)
{
	texts_kept = pthread_key_create(&texts, kedge__free) == 0;
}

/* At exit, for the thread that ends last; at dlclose(), because no thread may end in code that is not there any more.
 */
__attribute__((destructor)) static void texts_done(void)
{
	if (!atomic_exchange(&texts_kept, false))
		return;
	pthread_key_delete(texts);
	kedge__free(last.text);
	last.text = NULL;
}

/* Takes TEXT. */
static void text_keep(char *text)
{
	pthread_once(&texts_once, texts_init);
	if (text && (!texts_kept || pthread_setspecific(texts, text) != 0)) {
		kedge__free(text);
		text = NULL;
	}
	if (!text && last.text)
		(void)pthread_setspecific(texts, NULL);
	kedge__free(last.text);
	last.text = text;
}

void kedge__state_init(struct kedge__state *s)
{
	*s = (struct kedge__state){.stats = {.version = KEDGE__NO_VERSION}};
	pthread_mutex_init(&s->lock, NULL);
}

void kedge__state_done(struct kedge__state *s)
{
	for (size_t i = 0; i < s->status.count; i++)
		kedge__error_done(&s->status.at[i].err);
	kedge__array_done(&s->status);
	kedge__error_done(&s->first);
	kedge__error_done(&s->stuck);
	pthread_mutex_destroy(&s->lock);
}

void kedge__progress_init(struct kedge__progress *p)
{
	*p = (struct kedge__progress){.call = NULL};
	pthread_mutex_init(&p->lock, NULL);
}

void kedge__progress_done(struct kedge__progress *p)
{
	pthread_mutex_destroy(&p->lock);
}

int kedge__handle_check(const kedge_t *k, struct kedge__error *err)
{
	if (!k)
		return kedge__error_set(err, KEDGE_E_ARG, 0, "k must not be NULL");
	if (k->pid != getpid())
		return kedge__error_set(
		    err, KEDGE_E_STATE, 0,
		    "the handle belongs to process %ld, and this process is a fork of it; call kedge_open() "
		    "in the child",
		    (long)k->pid);
	return 0;
}

int kedge__state_fail(const kedge_t *k, int rc, struct kedge__error *err)
{
	if (rc) {
		last.k = k;
		last.code = rc;
		text_keep(err->code ? err->text : NULL);
		err->text = err->code ? NULL : err->text;
	}
	kedge__error_done(err);
	return rc;
}

int kedge__state_stick(kedge_t *k, int rc, struct kedge__error *err)
{
	if (rc && kedge__handle_check(k, NULL) == 0) {
		pthread_mutex_lock(&k->state.lock);
		if (!k->state.stuck.code)
			(void)kedge__error_set(&k->state.stuck, rc, 0, "%s",
					       err->code ? kedge__error_text(err) : kedge_strerror(rc));
		pthread_mutex_unlock(&k->state.lock);
	}
	return kedge__state_fail(k, rc, err);
}

int kedge_check(kedge_t *k)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	int rc = kedge__handle_check(k, &err);

	if (rc)
		return kedge__state_fail(k, rc, &err);
	pthread_mutex_lock(&k->state.lock);
	kedge__error_move(&err, &k->state.stuck);
	pthread_mutex_unlock(&k->state.lock);
	return kedge__state_fail(k, err.code, &err);
}

const char *kedge_last_error(const kedge_t *k)
{
	if (last.k != k || !last.code)
		return "no error";
	return last.text ? last.text : kedge_strerror(last.code);
}

/* Index of VERSION, or of the first one above it. */
static size_t status_find(const kedge_t *k, uint64_t version)
{
	size_t i = k->state.status.count;

	while (i && k->state.status.at[i - 1].version >= version)
		i--;
	return i;
}

static bool status_is(const kedge_t *k, size_t i, uint64_t version)
{
	return i < k->state.status.count && k->state.status.at[i].version == version;
}

static void drop_above(kedge_t *k, uint64_t version)
{
	while (k->state.status.count && k->state.status.at[k->state.status.count - 1].version > version)
		kedge__error_done(&k->state.status.at[--k->state.status.count].err);
}

void kedge__state_drop_above(kedge_t *k, uint64_t version)
{
	pthread_mutex_lock(&k->state.lock);
	drop_above(k, version);
	pthread_mutex_unlock(&k->state.lock);
}

void kedge__state_drop_all(kedge_t *k)
{
	pthread_mutex_lock(&k->state.lock);
	while (k->state.status.count)
		kedge__error_done(&k->state.status.at[--k->state.status.count].err);
	pthread_mutex_unlock(&k->state.lock);
}

void kedge__state_begin(kedge_t *k, uint64_t version)
{
	struct kedge__job_status fresh = {.version = version};
	size_t i;

	pthread_mutex_lock(&k->state.lock);
	drop_above(k, version);
	i = status_find(k, version);
	if (status_is(k, i, version)) {
		kedge__error_done(&k->state.status.at[i].err);
		k->state.status.at[i] = fresh;
	} else {
		(void)kedge__array_push(&k->state.status, fresh);
	}
	pthread_mutex_unlock(&k->state.lock);
}

void kedge__state_end(kedge_t *k, uint64_t version, int rc, const struct kedge__error *err)
{
	size_t i;

	pthread_mutex_lock(&k->state.lock);
	i = status_find(k, version);
	if (status_is(k, i, version)) {
		k->state.status.at[i].done = true;
		if (rc)
			kedge__error_set(&k->state.status.at[i].err, rc, 0, "%s", kedge__error_text(err));
	}
	pthread_mutex_unlock(&k->state.lock);
}

void kedge__state_note(kedge_t *k, int rc, const struct kedge__error *err)
{
	pthread_mutex_lock(&k->state.lock);
	if (rc && !k->state.first.code)
		kedge__error_set(&k->state.first, rc, 0, "%s", kedge__error_text(err));
	pthread_mutex_unlock(&k->state.lock);
}

int kedge__state_take(kedge_t *k, struct kedge__error *err)
{
	int rc;

	pthread_mutex_lock(&k->state.lock);
	rc = k->state.first.code;
	kedge__error_move(err, &k->state.first);
	pthread_mutex_unlock(&k->state.lock);
	return rc;
}

int kedge_test(kedge_t *k, uint64_t version)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	int rc = kedge__handle_check(k, &err);
	size_t i;

	if (rc)
		return kedge__state_fail(k, rc, &err);
	pthread_mutex_lock(&k->state.lock);
	i = status_find(k, version);
	if (!status_is(k, i, version))
		rc = kedge__error_set(&err, KEDGE_E_NOTFOUND, 0, "version %llu is not known",
				      (unsigned long long)version);
	else if (k->state.status.at[i].err.code)
		rc = kedge__error_set(&err, k->state.status.at[i].err.code, 0, "%s",
				      kedge__error_text(&k->state.status.at[i].err));
	else if (k->state.status.at[i].done)
		rc = 1;
	pthread_mutex_unlock(&k->state.lock);
	return rc < 0 ? kedge__state_fail(k, rc, &err) : rc;
}

void kedge__state_stats(kedge_t *k, const struct kedge_stats *stats, bool again)
{
	pthread_mutex_lock(&k->state.lock);
	if (!again || k->state.stats.version == stats->version)
		k->state.stats = *stats;
	pthread_mutex_unlock(&k->state.lock);
}

int kedge_stats_get(kedge_t *k, struct kedge_stats *stats)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	int rc = kedge__handle_check(k, &err);

	if (!rc && !stats)
		rc = kedge__error_set(&err, KEDGE_E_ARG, 0, "stats must not be NULL");
	if (rc)
		return kedge__state_fail(k, rc, &err);
	pthread_mutex_lock(&k->state.lock);
	if (k->state.stats.version == KEDGE__NO_VERSION)
		rc = kedge__error_set(&err, KEDGE_E_NOTFOUND, 0, "no checkpoint was taken through this handle");
	else
		*stats = k->state.stats;
	pthread_mutex_unlock(&k->state.lock);
	return kedge__state_fail(k, rc, &err);
}

void kedge_set_progress(kedge_t *k, void (*fn)(void *user, const struct kedge_progress *p), void *user)
{
	if (kedge__handle_check(k, NULL))
		return;
	pthread_mutex_lock(&k->progress.lock);
	k->progress.call = fn;
	k->progress.user = user;
	pthread_mutex_unlock(&k->progress.lock);
}

void kedge__state_progress(const struct kedge__job_progress *p, uint64_t done)
{
	struct kedge_progress report = {p->phase, p->version, KEDGE__MIN(done, p->total), p->total};

	pthread_mutex_lock(&p->k->progress.lock);
	if (p->k->progress.call)
		p->k->progress.call(p->k->progress.user, &report);
	pthread_mutex_unlock(&p->k->progress.lock);
}

void kedge__state_progress_bytes(void *ctx, uint64_t done)
{
	kedge__state_progress(ctx, done);
}

void kedge__state_progress_total(void *ctx, uint64_t done, uint64_t total)
{
	struct kedge__job_progress p = *(struct kedge__job_progress *)ctx;

	p.total = total;
	kedge__state_progress(&p, done);
}
