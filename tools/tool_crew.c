/* SPDX-License-Identifier: BSD-3-Clause */
/* tool_crew: ranks that are threads, and meet in memory. */
#include "tool_crew.h"

void kedge__crew_init(struct kedge__crew *c, int size, int at_once)
{
	*c = (struct kedge__crew){.size = size, .at_once = KEDGE__MAX(at_once, 1)};
	c->turns = c->at_once;
	c->seats = kedge__calloc((size_t)size, sizeof(*c->seats));
	if (!c->seats)
		kedge__tool_no_memory();
	for (int r = 0; r < size; r++)
		c->seats[r] = (struct kedge__crew_seat){.crew = c, .rank = r};
	pthread_mutex_init(&c->lock, NULL);
	pthread_cond_init(&c->turn, NULL);
	pthread_cond_init(&c->met, NULL);
}

void kedge__crew_done(struct kedge__crew *c)
{
	if (!c->seats)
		return;
	for (int r = 0; c->workers && r < c->size; r++)
		kedge__worker_free(c->workers[r]);
	kedge__free(c->workers);
	pthread_cond_destroy(&c->met);
	pthread_cond_destroy(&c->turn);
	pthread_mutex_destroy(&c->lock);
	kedge__free(c->fold);
	kedge__free(c->seats);
	*c = (struct kedge__crew){0};
}

/* ------------------------------------------------------------------ turns; the lock is held */

static void turn_take(struct kedge__crew *c)
{
	while (!c->turns)
		pthread_cond_wait(&c->turn, &c->lock);
	c->turns--;
}

static void turn_give(struct kedge__crew *c)
{
	c->turns++;
	pthread_cond_signal(&c->turn);
}

/* ------------------------------------------------------------------ exchanges */

typedef void fold_fn(void *acc, const void *other);

/* All have come: what their messages are together. False: there is no memory for it. */
static bool fold_all(struct kedge__crew *c, fold_fn *fold)
{
	if (c->bytes > c->fold_room) {
		uint8_t *grown = kedge__realloc(c->fold, c->bytes);

		if (!grown)
			return false;
		c->fold = grown;
		c->fold_room = c->bytes;
	}
	memcpy(c->fold, c->seats[0].send, c->bytes);
	for (int r = 1; r < c->size; r++)
		fold(c->fold, c->seats[r].send);
	return true;
}

/* Until all have come. What each of them sends stays where it is until the next time. */
static bool await_all(struct kedge__crew *c, size_t bytes, fold_fn *fold)
{
	uint64_t round = c->round;

	if (c->arrived++ == 0)
		c->bytes = bytes;
	c->broken = c->broken || c->bytes != bytes;
	if (c->arrived == c->size) {
		c->broken = c->broken || (fold && !fold_all(c, fold));
		c->arrived = 0;
		c->round++;
		pthread_cond_broadcast(&c->met);
		return !c->broken;
	}
	turn_give(c);
	while (c->round == round)
		pthread_cond_wait(&c->met, &c->lock);
	turn_take(c);
	return !c->broken;
}

static int exchange(struct kedge__crew_seat *s, const void *send, size_t bytes, fold_fn *fold, void *recv)
{
	struct kedge__crew *c = s->crew;
	bool met;

	pthread_mutex_lock(&c->lock);
	s->send = send;
	met = await_all(c, bytes, fold);
	if (met && fold)
		memcpy(recv, c->fold, bytes);
	for (int r = 0; met && !fold && recv && r < c->size; r++)
		memcpy((uint8_t *)recv + (size_t)r * bytes, c->seats[r].send, bytes);
	met = await_all(c, bytes, NULL) && met; /* nobody needs what was sent any more */
	pthread_mutex_unlock(&c->lock);
	return met ? 0 : -1;
}

static int crew_allgather(void *ctx, const void *send, size_t bytes, void *recv)
{
	return exchange(ctx, send, bytes, NULL, recv);
}

static int crew_gather(void *ctx, const void *send, size_t bytes, void *recv, int root)
{
	(void)root;
	return exchange(ctx, send, bytes, NULL, recv);
}

static int crew_reduce(void *ctx, void *inout, size_t bytes, fold_fn *fold)
{
	return exchange(ctx, inout, bytes, fold, inout);
}

/* Those who wait for the flusher keep their turn: it does not need one, for it meets nobody itself. */
struct kedge_group kedge__crew_group(struct kedge__crew *c, int rank)
{
	return (struct kedge_group){.rank = rank,
				    .size = c->size,
				    .allgather = crew_allgather,
				    .reduce = crew_reduce,
				    .gather = crew_gather,
				    .ctx = &c->seats[rank],
				    .neighbours = c->at_once};
}

/* ------------------------------------------------------------------ all of them */

struct member {
	struct play *play;
	int rank, rc;
	struct kedge__error err;
};

struct play {
	struct kedge__crew *crew;
	int (*fn)(void *ctx, int rank, struct kedge__error *err);
	void *ctx;
	struct member *members;
	int begun; /* 1: all have been called; -1: they cannot be. Under the crew's lock */
};

static void member_run(void *ctx)
{
	struct member *m = ctx;
	struct kedge__crew *c = m->play->crew;
	bool begun;

	pthread_mutex_lock(&c->lock);
	while (!m->play->begun)
		pthread_cond_wait(&c->met, &c->lock);
	begun = m->play->begun > 0;
	if (begun)
		turn_take(c);
	pthread_mutex_unlock(&c->lock);
	if (!begun)
		return;
	m->rc = m->play->fn(m->play->ctx, m->rank, &m->err);
	pthread_mutex_lock(&c->lock);
	turn_give(c);
	pthread_mutex_unlock(&c->lock);
}

static int workers_make(struct kedge__crew *c, struct kedge__error *err)
{
	int rc = 0;

	if (c->workers)
		return 0;
	c->workers = kedge__calloc((size_t)c->size, sizeof(struct kedge__worker *));
	if (!c->workers)
		kedge__tool_no_memory();
	for (int r = 0; r < c->size && !rc; r++)
		rc = kedge__worker_new(1, &c->workers[r], err);
	if (rc)
		kedge__error_prefix(
		    err, "cannot start a thread for each of %d groups of ranks; use a larger --group-size", c->size);
	return rc;
}

/* One that began while another could not would wait for it for ever. */
static int play_all(struct play *p, struct kedge__error *err)
{
	struct kedge__crew *c = p->crew;
	int called = 0, rc = 0;

	for (; called < c->size && !rc; called += !rc) {
		struct member *m = &p->members[called];

		*m = (struct member){.play = p, .rank = called, .err = KEDGE__ERROR_INIT};
		rc = kedge__worker_submit(c->workers[called], member_run, m, err);
	}
	pthread_mutex_lock(&c->lock);
	p->begun = rc ? -1 : 1;
	pthread_cond_broadcast(&c->met);
	pthread_mutex_unlock(&c->lock);
	for (int r = 0; r < called; r++)
		kedge__worker_drain(c->workers[r]);
	return rc;
}

/* That another rank failed is what those say who did not. */
static int worst(struct play *p, struct kedge__error *err)
{
	struct member *found = NULL;
	int rc;

	for (int r = 0; r < p->crew->size; r++) {
		struct member *m = &p->members[r];

		if (m->rc && (!found || (found->rc == KEDGE_E_GROUP && m->rc != KEDGE_E_GROUP)))
			found = m;
	}
	rc = found ? found->rc : 0;
	if (found)
		kedge__error_move(err, &found->err);
	for (int r = 0; r < p->crew->size; r++)
		kedge__error_done(&p->members[r].err);
	return rc;
}

int kedge__crew_run(struct kedge__crew *c, int (*play)(void *ctx, int rank, struct kedge__error *err), void *ctx,
		    struct kedge__error *err)
{
	struct play p = {.crew = c, .fn = play, .ctx = ctx};
	int rc;

	if (c->size == 1)
		return play(ctx, 0, err);
	rc = workers_make(c, err);
	if (rc)
		return rc;
	p.members = kedge__calloc((size_t)c->size, sizeof(*p.members));
	if (!p.members)
		kedge__tool_no_memory();
	rc = play_all(&p, err);
	if (!rc)
		rc = worst(&p, err);
	kedge__free(p.members);
	return rc;
}

int kedge__crew_said(const kedge_t *k, int rc, struct kedge__error *err)
{
	return rc ? kedge__error_set(err, rc, 0, "%s", kedge_last_error(k)) : 0;
}
