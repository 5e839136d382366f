/*
 * Chores: what follows a published version, one after the other and the same on all ranks. Each has a local part, which
 * the flusher does, and an end on which the ranks agree. Where the flusher may speak to the other ranks it does both;
 * else the end waits for a collective call, and the next chore begins after it.
 */
#include "job/handle.h"

bool kedge__chores_wanted(const kedge_t *k)
{
	return kedge__l2_wanted(k) || k->set.keep > 0 || k->set.l2_keep > 0;
}

static void chore_local(struct kedge__chore *c)
{
	if (c->kind == KEDGE__CHORE_FLUSH)
		kedge__flush_local(c);
	else
		kedge__keep_local(c);
}

static void chore_end(struct kedge__chore *c)
{
	if (c->kind == KEDGE__CHORE_FLUSH)
		kedge__flush_publish(c);
	else
		(void)kedge__agree(&c->k->back, KEDGE__STEP_FLUSH_READY, c->version, 0, NULL, NULL);
}

static void chore_free(struct kedge__chore *c)
{
	kedge__array_done(&c->parts);
	kedge__free(c->alive);
	kedge__error_done(&c->err);
	kedge__free(c);
}

static void chore_pop(kedge_t *k)
{
	struct kedge__chore *c;

	pthread_mutex_lock(&k->state_lock);
	c = k->chores;
	k->chores = c->next;
	if (!k->chores)
		k->chores_end = &k->chores;
	pthread_mutex_unlock(&k->state_lock);
	chore_free(c);
}

void kedge__chores_free(kedge_t *k)
{
	while (k->chores)
		chore_pop(k);
}

static void chore_run(void *ctx)
{
	struct kedge__chore *c = ctx;
	kedge_t *k = c->k;

	chore_local(c);
	if (k->back_alone) {
		chore_end(c);
		chore_pop(k);
		return;
	}
	pthread_mutex_lock(&k->state_lock);
	c->ready = true;
	pthread_mutex_unlock(&k->state_lock);
}

static void chore_start(struct kedge__chore *c)
{
	c->started = true;
	if (kedge__worker_submit(c->k->flusher, chore_run, c, NULL))
		chore_run(c);
}

int kedge__chores_reserve(struct kedge__job_write *w, struct kedge__error *err)
{
	const kedge_t *k = w->k;
	const bool wanted[] = {
	    [KEDGE__CHORE_FLUSH] = kedge__l2_wanted(k), [KEDGE__CHORE_KEEP] = k->set.keep > 0 || k->set.l2_keep > 0};

	for (size_t i = 0; i < KEDGE__COUNT(wanted); i++) {
		w->chores[i] = wanted[i] ? kedge__calloc(1, sizeof(*w->chores[i])) : NULL;
		if (wanted[i] && !w->chores[i])
			return kedge__error_nomem(err);
	}
	return 0;
}

/* A flush takes w->alive. */
static void chore_push(struct kedge__job_write *w, enum kedge__chore_kind kind)
{
	kedge_t *k = w->k;
	struct kedge__chore *c = w->chores[kind];

	w->chores[kind] = NULL;
	c->k = k;
	c->kind = kind;
	c->version = w->version;
	c->costs = w->l2;
	if (kind == KEDGE__CHORE_FLUSH) {
		c->alive = w->alive;
		c->alive_count = w->alive_count;
		w->alive = NULL;
		w->alive_count = 0;
	}
	pthread_mutex_lock(&k->state_lock);
	*k->chores_end = c;
	k->chores_end = &c->next;
	pthread_mutex_unlock(&k->state_lock);
	if (k->back_alone)
		chore_start(c);
}

static struct kedge__chore *chore_head(kedge_t *k)
{
	struct kedge__chore *c;

	pthread_mutex_lock(&k->state_lock);
	c = k->chores;
	pthread_mutex_unlock(&k->state_lock);
	return c;
}

static void chore_begin_head(kedge_t *k)
{
	struct kedge__chore *c = k->back_alone ? NULL : chore_head(k);

	if (c && !c->started)
		chore_start(c);
}

/*
 * By the set's own time and rank 0's frequency, which are the same on all ranks. Where the frequency is ours to choose,
 * the first version goes at once: it is the base of what follows, and shows what L2 costs.
 */
static bool flush_due(kedge_t *k, uint64_t created_ns, uint64_t l2_every)
{
	uint64_t interval = (uint64_t)KEDGE__MAX(k->set.l2_interval, 0) * UINT64_C(1000000000);

	bool first = k->l2_bare && k->set.l2_every == 0;

	if (!kedge__l2_wanted(k) || k->set.l2_interval < 0 || (++k->since_l2 < l2_every && !first))
		return false;
	if (k->flushed_ns && created_ns < k->flushed_ns + interval)
		return false;
	k->flushed_ns = created_ns;
	k->since_l2 = 0;
	k->l2_bare = false;
	return true;
}

void kedge__chores_add(struct kedge__job_write *w, uint64_t created_ns)
{
	kedge_t *k = w->k;

	if (flush_due(k, created_ns, w->l2.every))
		chore_push(w, KEDGE__CHORE_FLUSH);
	else
		kedge__state_end(k, w->version, 0, NULL);
	if (w->chores[KEDGE__CHORE_KEEP])
		chore_push(w, KEDGE__CHORE_KEEP);
	chore_begin_head(k);
}

/* End the first chore if it is ready on all ranks; false if it is not. */
static bool head_end(kedge_t *k)
{
	struct kedge__chore *c = chore_head(k);
	uint64_t waiting;

	pthread_mutex_lock(&k->state_lock);
	waiting = !c->ready;
	pthread_mutex_unlock(&k->state_lock);
	if (kedge__agree(&k->front, KEDGE__STEP_FLUSH, c->version, 0, &waiting, NULL) || waiting)
		return false;
	chore_end(c);
	chore_pop(k);
	chore_begin_head(k);
	return true;
}

void kedge__chores_progress(kedge_t *k)
{
	if (k->back_alone)
		return;
	while (chore_head(k) && head_end(k))
		continue;
}

void kedge__chores_settle(kedge_t *k)
{
	if (!k->flusher)
		return;
	if (k->back_alone) {
		kedge__worker_drain(k->flusher);
		return;
	}
	while (chore_head(k)) {
		kedge__worker_drain(k->flusher);
		if (!head_end(k))
			break; /* only when the ranks cannot reach each other: then nothing can be ended */
	}
}
