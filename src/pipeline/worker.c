/* SPDX-License-Identifier: BSD-3-Clause */
#include "pipeline/pipeline.h"
#include "pipeline/thread.h"

#include <pthread.h>

struct task {
	void (*run)(void *ctx);
	void *ctx;
};

struct kedge__worker {
	pthread_t thread;
	size_t limit;
	struct task *ring; /* task number i is ring[i % limit] */

	pthread_mutex_t lock; /* guards what follows, and the ring */
	pthread_cond_t submitted_more, finished_more;
	uint64_t submitted, finished; /* tasks since the start */
	bool stop;
};

static void *worker_main(void *ctx)
{
	struct kedge__worker *w = ctx;

	pthread_mutex_lock(&w->lock);
	for (;;) {
		struct task task;

		while (!w->stop && w->submitted == w->finished)
			pthread_cond_wait(&w->submitted_more, &w->lock);
		if (w->submitted == w->finished)
			break;
		task = w->ring[w->finished % w->limit];
		pthread_mutex_unlock(&w->lock);
		task.run(task.ctx);
		pthread_mutex_lock(&w->lock);
		w->finished++;
		pthread_cond_broadcast(&w->finished_more);
	}
	pthread_mutex_unlock(&w->lock);
	return NULL;
}

static void release(struct kedge__worker *w)
{
	pthread_cond_destroy(&w->finished_more);
	pthread_cond_destroy(&w->submitted_more);
	pthread_mutex_destroy(&w->lock);
	kedge__free(w->ring);
	kedge__free(w);
}

int kedge__worker_new(size_t limit, struct kedge__worker **out, struct kedge__error *err)
{
	struct kedge__worker *w;
	int sys_errno;

	if (!limit)
		return kedge__error_set(err, KEDGE_E_ARG, 0, "a background queue needs room for at least one task");
	w = kedge__calloc(1, sizeof(*w));
	if (!w)
		return kedge__error_nomem(err);
	w->limit = limit;
	pthread_mutex_init(&w->lock, NULL);
	pthread_cond_init(&w->submitted_more, NULL);
	pthread_cond_init(&w->finished_more, NULL);
	w->ring = kedge__reallocarray(NULL, limit, sizeof(*w->ring));
	if (!w->ring) {
		release(w);
		return kedge__error_nomem(err);
	}
	sys_errno = kedge__thread_start(&w->thread, worker_main, w);
	if (sys_errno) {
		release(w);
		return kedge__error_set(err, KEDGE_E_NOMEM, sys_errno, "cannot start the background thread");
	}
	*out = w;
	return 0;
}

int kedge__worker_submit(struct kedge__worker *w, void (*run)(void *ctx), void *ctx, struct kedge__error *err)
{
	if (!run)
		return kedge__error_set(err, KEDGE_E_ARG, 0, "a background task needs a function");
	pthread_mutex_lock(&w->lock);
	while (w->submitted - w->finished >= w->limit)
		pthread_cond_wait(&w->finished_more, &w->lock);
	w->ring[w->submitted % w->limit] = (struct task){run, ctx};
	w->submitted++;
	pthread_cond_signal(&w->submitted_more);
	pthread_mutex_unlock(&w->lock);
	return 0;
}

void kedge__worker_drain(struct kedge__worker *w)
{
	uint64_t last;

	pthread_mutex_lock(&w->lock);
	/* Those submitted later by others are not waited for: drain must end. */
	last = w->submitted;
	while (w->finished < last)
		pthread_cond_wait(&w->finished_more, &w->lock);
	pthread_mutex_unlock(&w->lock);
}

void kedge__worker_free(struct kedge__worker *w)
{
	if (!w)
		return;
	pthread_mutex_lock(&w->lock);
	w->stop = true;
	pthread_cond_signal(&w->submitted_more);
	pthread_mutex_unlock(&w->lock);
	pthread_join(w->thread, NULL);
	release(w);
}
