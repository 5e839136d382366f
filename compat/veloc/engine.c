/* SPDX-License-Identifier: BSD-3-Clause */
#include "client.h"

#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

enum state { QUIET, POSTED, RUNNING };

struct veloc__channel {
	struct veloc__engine *engine;
	MPI_Comm comm;
	enum state state;
	const void *send;
	void *recv;
	size_t bytes;
	MPI_Request request;
	int rc;
	struct veloc__channel *next;
};

struct veloc__engine {
	pthread_mutex_t lock; /* guards everything below */
	pthread_cond_t changed;
	pthread_t thread;
	void (*fn)(void *); /* to be run, or running */
	void *arg;
	bool quit;
	struct veloc__channel *channels;
};

static void *engine_main(void *arg)
{
	struct veloc__engine *e = arg;

	pthread_mutex_lock(&e->lock);
	while (!e->quit) {
		if (!e->fn) {
			pthread_cond_wait(&e->changed, &e->lock);
			continue;
		}
		pthread_mutex_unlock(&e->lock);
		e->fn(e->arg);
		pthread_mutex_lock(&e->lock);
		e->fn = NULL;
		pthread_cond_broadcast(&e->changed);
	}
	pthread_mutex_unlock(&e->lock);
	return NULL;
}

struct veloc__engine *veloc__engine_new(void)
{
	struct veloc__engine *e = calloc(1, sizeof(*e));

	if (!e)
		return NULL;
	pthread_mutex_init(&e->lock, NULL);
	pthread_cond_init(&e->changed, NULL);
	if (pthread_create(&e->thread, NULL, engine_main, e) == 0)
		return e;
	pthread_cond_destroy(&e->changed);
	pthread_mutex_destroy(&e->lock);
	free(e);
	return NULL;
}

void veloc__engine_free(struct veloc__engine *e)
{
	if (!e)
		return;
	pthread_mutex_lock(&e->lock);
	e->quit = true;
	pthread_cond_broadcast(&e->changed);
	pthread_mutex_unlock(&e->lock);
	pthread_join(e->thread, NULL);
	pthread_cond_destroy(&e->changed);
	pthread_mutex_destroy(&e->lock);
	free(e);
}

struct veloc__channel *veloc__channel_new(struct veloc__engine *e, MPI_Comm comm)
{
	struct veloc__channel *ch = calloc(1, sizeof(*ch));

	if (!ch)
		return NULL;
	ch->comm = comm;
	MPI_Comm_set_errhandler(ch->comm, MPI_ERRORS_RETURN);
	ch->engine = e;
	pthread_mutex_lock(&e->lock);
	ch->next = e->channels;
	e->channels = ch;
	pthread_mutex_unlock(&e->lock);
	return ch;
}

void veloc__channel_free(struct veloc__channel *ch)
{
	struct veloc__channel **link;

	if (!ch)
		return;
	pthread_mutex_lock(&ch->engine->lock);
	for (link = &ch->engine->channels; *link != ch;)
		link = &(*link)->next;
	*link = ch->next;
	pthread_mutex_unlock(&ch->engine->lock);
	MPI_Comm_free(&ch->comm);
	free(ch);
}

/* On a thread of Kedge or of the engine. */
int veloc__channel_allgather(void *channel, const void *send, size_t bytes, void *recv)
{
	struct veloc__channel *ch = channel;
	int rc;

	if (bytes > INT_MAX)
		return 1;
	pthread_mutex_lock(&ch->engine->lock);
	ch->send = send;
	ch->recv = recv;
	ch->bytes = bytes;
	ch->state = POSTED;
	pthread_cond_broadcast(&ch->engine->changed);
	while (ch->state != QUIET)
		pthread_cond_wait(&ch->engine->changed, &ch->engine->lock);
	rc = ch->rc;
	pthread_mutex_unlock(&ch->engine->lock);
	return rc;
}

static void channel_progress(struct veloc__channel *ch)
{
	int rc = MPI_SUCCESS, done = 0;

	if (ch->state == POSTED) {
		rc = MPI_Iallgather(ch->send, (int)ch->bytes, MPI_BYTE, ch->recv, (int)ch->bytes, MPI_BYTE, ch->comm,
				    &ch->request);
		ch->state = RUNNING;
	}
	if (rc == MPI_SUCCESS && ch->state == RUNNING)
		rc = MPI_Test(&ch->request, &done, MPI_STATUS_IGNORE);
	if (rc == MPI_SUCCESS && !done)
		return;
	ch->rc = rc != MPI_SUCCESS;
	ch->state = QUIET;
	pthread_cond_broadcast(&ch->engine->changed);
}

void veloc__engine_progress(struct veloc__engine *e)
{
	if (!e)
		return;
	pthread_mutex_lock(&e->lock);
	for (struct veloc__channel *ch = e->channels; ch; ch = ch->next) {
		if (ch->state != QUIET)
			channel_progress(ch);
	}
	pthread_mutex_unlock(&e->lock);
}

/* MPI can only be polled: often at first, then less and less, so that the processes we wait for get the core. */
static void rest(struct veloc__engine *e, unsigned turn)
{
	struct timespec until;
	long pause = turn < 200 ? 0 : turn < 400 ? 50000 : 500000;

	if (!pause)
		return;
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += pause;
	if (until.tv_nsec >= 1000000000) {
		until.tv_nsec -= 1000000000;
		until.tv_sec++;
	}
	pthread_cond_timedwait(&e->changed, &e->lock, &until);
}

void veloc__engine_run(struct veloc__engine *e, void (*fn)(void *), void *arg)
{
	bool done = false;

	if (!e) {
		fn(arg);
		return;
	}
	pthread_mutex_lock(&e->lock);
	e->arg = arg;
	e->fn = fn;
	pthread_cond_broadcast(&e->changed);
	pthread_mutex_unlock(&e->lock);
	for (unsigned turn = 0; !done; turn++) {
		veloc__engine_progress(e);
		pthread_mutex_lock(&e->lock);
		done = !e->fn;
		if (!done)
			rest(e, turn);
		pthread_mutex_unlock(&e->lock);
	}
}
