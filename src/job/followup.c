/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Follow-ups: the work after a version is sealed, one version after the other and the same on all ranks: protect it, if
 * that is done in the background, write it to L2, then remove old versions. The flusher does the local part of the
 * flush; then the ranks agree on its end. If the flusher may communicate, it does both; otherwise the end waits for a
 * collective call, and the next follow-up begins after it. Old versions are removed without the other ranks.
 */
#include "job/handle.h"

static bool trims(const kedge_t *k)
{
	return !kedge__keep_everything(&k->levels.keep[KEDGE__L1]) ||
	       !kedge__keep_everything(&k->levels.keep[KEDGE__L2]);
}

bool kedge__followups_wanted(const kedge_t *k)
{
	return kedge__l2_wanted(k) || trims(k) || kedge__shields_background(k);
}

static struct kedge__version *queue_head(kedge_t *k)
{
	struct kedge__version *v;

	pthread_mutex_lock(&k->state.lock);
	v = k->followups.first;
	pthread_mutex_unlock(&k->state.lock);
	return v;
}

static void queue_push(kedge_t *k, struct kedge__version *v)
{
	pthread_mutex_lock(&k->state.lock);
	*k->followups.end = v;
	k->followups.end = &v->next;
	pthread_mutex_unlock(&k->state.lock);
}

/* The first of the queue, which is the caller's from now on. */
static struct kedge__version *queue_pop(kedge_t *k)
{
	struct kedge__version *v;

	pthread_mutex_lock(&k->state.lock);
	v = k->followups.first;
	k->followups.first = v->next;
	if (!k->followups.first)
		k->followups.end = &k->followups.first;
	v->next = NULL;
	pthread_mutex_unlock(&k->state.lock);
	return v;
}

void kedge__followups_init(struct kedge__followups *f)
{
	*f = (struct kedge__followups){.first = NULL};
	f->end = &f->first;
}

void kedge__followups_free(kedge_t *k)
{
	while (queue_head(k)) {
		struct kedge__version *v = queue_pop(k);

		kedge__ahead_end(v); /* the flusher is gone */
		kedge__version_free(v);
	}
}

/* Versions that still wait for L2 must not leave L1; the follow-up of the last of them will do this one's work there.
 */
static bool flush_waits(kedge_t *k)
{
	bool waits = false;

	pthread_mutex_lock(&k->state.lock);
	for (const struct kedge__version *v = k->followups.first; v; v = v->next)
		waits = waits || v->l2.due;
	pthread_mutex_unlock(&k->state.lock);
	return waits;
}

static void trim(kedge_t *k, bool l1)
{
	bool done = kedge__trim(k, l1);

	pthread_mutex_lock(&k->state.lock);
	k->followups.untrimmed = !done;
	pthread_mutex_unlock(&k->state.lock);
}

/* The end of a follow-up, on the flusher: V is not in the queue any more. */
static void trim_run(void *ctx)
{
	struct kedge__version *v = ctx;
	bool waits = flush_waits(v->k);

	if (trims(v->k) && (!waits || v->k->levels.keep[KEDGE__L2].bytes))
		trim(v->k, !waits);
	kedge__version_free(v);
}

static void ready_set(struct kedge__version *v, bool ready)
{
	pthread_mutex_lock(&v->k->state.lock);
	v->ready = ready;
	pthread_mutex_unlock(&v->k->state.lock);
}

static void followup_run(void *ctx)
{
	struct kedge__version *v = ctx;
	kedge_t *k = v->k;

	kedge__shields_protect(v, true);
	if (!v->l2.due && kedge__shields_background(k))
		kedge__state_end(k, v->version, 0, NULL);
	if (v->l2.due)
		kedge__flush_local(v);
	kedge__ahead_end(v);
	if (!k->channels.flusher_speaks) {
		ready_set(v, true);
		return;
	}
	if (v->l2.due && kedge__flush_place(v))
		kedge__flush_fill(v);
	if (v->l2.due)
		kedge__flush_publish(v);
	trim_run(queue_pop(k));
}

/* The second local part of a flush, where the flusher may not communicate. */
static void fill_run(void *ctx)
{
	struct kedge__version *v = ctx;

	kedge__flush_fill(v);
	ready_set(v, true);
}

static void submit(struct kedge__version *v, void (*fn)(void *ctx))
{
	if (kedge__worker_submit(v->k->flusher, fn, v, NULL))
		fn(v);
}

/* Of those that need no agreement the flusher does all; the first that does is begun. */
static void begin_head(kedge_t *k)
{
	struct kedge__version *v = k->channels.flusher_speaks ? NULL : queue_head(k);

	while (v && !v->begun && !v->l2.due) {
		submit(queue_pop(k), trim_run);
		v = queue_head(k);
	}
	if (v && !v->begun) {
		v->begun = true;
		submit(v, followup_run);
	}
}

void kedge__followups_add(struct kedge__version *v)
{
	kedge_t *k = v->k;
	bool protects = kedge__shields_background(k);

	if (!v->l2.due)
		kedge__ahead_drop(v);
	if (!v->l2.due && !protects)
		kedge__state_end(k, v->version, 0, NULL);
	if (!v->l2.due && !protects && !trims(k)) {
		kedge__version_free(v);
		return;
	}
	queue_push(k, v);
	if (k->channels.flusher_speaks)
		submit(v, followup_run);
	else
		begin_head(k);
}

enum step { WAITS, WENT_ON, ENDED };

/* Take the first follow-up further, if it is ready on all ranks: to its end, unless the flusher has another part. */
static enum step head_step(kedge_t *k)
{
	struct kedge__version *v = queue_head(k);
	uint64_t waiting;

	pthread_mutex_lock(&k->state.lock);
	waiting = !v->ready;
	pthread_mutex_unlock(&k->state.lock);
	if (kedge__agree(&k->channels.front, KEDGE__STEP_FLUSH_READY, v->version, 0, &waiting, NULL) || waiting)
		return WAITS;
	if (kedge__flush_place(v)) {
		ready_set(v, false);
		submit(v, fill_run);
		return WENT_ON;
	}
	kedge__flush_publish(v);
	submit(queue_pop(k), trim_run);
	begin_head(k);
	return ENDED;
}

void kedge__followups_progress(kedge_t *k)
{
	if (k->channels.flusher_speaks)
		return;
	while (queue_head(k) && head_step(k) == ENDED)
		continue;
}

/* What could not be removed because another rank had a level pinned: now all ranks are here, and none has. */
static void settle_trim(kedge_t *k)
{
	uint64_t untrimmed;
	bool here;

	pthread_mutex_lock(&k->state.lock);
	untrimmed = here = k->followups.untrimmed;
	pthread_mutex_unlock(&k->state.lock);
	if (kedge__agree(&k->channels.front, KEDGE__STEP_TRIM, 0, 0, &untrimmed, NULL) || !untrimmed)
		return;
	if (here)
		trim(k, true);
	(void)kedge__agree(&k->channels.front, KEDGE__STEP_TRIM, 1, 0, NULL, NULL);
}

void kedge__followups_settle(kedge_t *k)
{
	if (!k->flusher)
		return;
	while (!k->channels.flusher_speaks && queue_head(k)) {
		kedge__worker_drain(k->flusher);
		if (head_step(k) == WAITS)
			break; /* only when the ranks cannot reach each other: then nothing can be ended */
	}
	kedge__worker_drain(k->flusher);
	if (trims(k))
		settle_trim(k);
}
