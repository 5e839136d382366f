/* SPDX-License-Identifier: BSD-3-Clause */
#include "client.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define COPY_BYTES ((size_t)1 << 20)

struct task {
	int fd;
	char *to;
	struct task *next;
};

struct veloc__exporter {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	pthread_t thread;
	struct task *first, **end;
	bool busy, quit;
};

static int write_all(int fd, const char *data, size_t bytes)
{
	while (bytes) {
		ssize_t n = write(fd, data, bytes);

		if (n < 0 && errno != EINTR)
			return -1;
		data += n > 0 ? n : 0;
		bytes -= n > 0 ? (size_t)n : 0;
	}
	return 0;
}

static int copy(int from, int to)
{
	char *buffer = malloc(COPY_BYTES);
	ssize_t n = buffer ? 1 : -1;
	off_t at = 0;

	while (n > 0) {
		n = pread(from, buffer, COPY_BYTES, at);
		at += n > 0 ? n : 0;
		if (n > 0 && write_all(to, buffer, (size_t)n) != 0)
			n = -1;
	}
	free(buffer);
	return n < 0 ? -1 : 0;
}

/* A copy for other readers: the checkpoint itself is in the store. It gets its name only when it has been written
 * entirely. */
static void task_run(struct task *t)
{
	size_t bytes = strlen(t->to) + 32;
	char *temporary = malloc(bytes);
	int fd = -1, rc = -1;
	struct stat st;

	/* Whoever may not read the original may not read the copy. */
	if (temporary && fstat(t->fd, &st) == 0) {
		snprintf(temporary, bytes, "%s.%ld.tmp", t->to, (long)getpid());
		fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, st.st_mode & 0777);
	}
	if (fd >= 0) {
		rc = copy(t->fd, fd);
		if (close(fd) != 0)
			rc = -1;
		if (rc == 0)
			rc = rename(temporary, t->to);
	}
	if (rc != 0)
		veloc__log(KEDGE_LOG_WARNING, "cannot create the copy %s: %s", t->to, strerror(errno));
	if (rc != 0 && fd >= 0)
		unlink(temporary);
	free(temporary);
}

static void task_free(struct task *t)
{
	if (t->fd >= 0)
		close(t->fd);
	free(t->to);
	free(t);
}

static void *exporter_main(void *arg)
{
	struct veloc__exporter *x = arg;

	pthread_mutex_lock(&x->lock);
	while (!x->quit || x->first) {
		struct task *t = x->first;

		if (!t) {
			pthread_cond_wait(&x->changed, &x->lock);
			continue;
		}
		x->first = t->next;
		if (!x->first)
			x->end = &x->first;
		x->busy = true;
		pthread_mutex_unlock(&x->lock);
		task_run(t);
		task_free(t);
		pthread_mutex_lock(&x->lock);
		x->busy = false;
		pthread_cond_broadcast(&x->changed);
	}
	pthread_mutex_unlock(&x->lock);
	return NULL;
}

struct veloc__exporter *veloc__exporter_new(void)
{
	struct veloc__exporter *x = calloc(1, sizeof(*x));

	if (!x)
		return NULL;
	x->end = &x->first;
	pthread_mutex_init(&x->lock, NULL);
	pthread_cond_init(&x->changed, NULL);
	if (pthread_create(&x->thread, NULL, exporter_main, x) == 0)
		return x;
	pthread_cond_destroy(&x->changed);
	pthread_mutex_destroy(&x->lock);
	free(x);
	return NULL;
}

void veloc__exporter_free(struct veloc__exporter *x)
{
	if (!x)
		return;
	pthread_mutex_lock(&x->lock);
	x->quit = true;
	pthread_cond_broadcast(&x->changed);
	pthread_mutex_unlock(&x->lock);
	pthread_join(x->thread, NULL);
	pthread_cond_destroy(&x->changed);
	pthread_mutex_destroy(&x->lock);
	free(x);
}

void veloc__exporter_submit(struct veloc__exporter *x, const char *from, const char *to)
{
	struct task *t = calloc(1, sizeof(*t));

	if (!t)
		return;
	t->fd = open(from, O_RDONLY | O_CLOEXEC);
	t->to = strdup(to);
	if (t->fd < 0 || !t->to) {
		veloc__log(KEDGE_LOG_WARNING, "cannot copy %s to %s: %s", from, to, strerror(errno));
		task_free(t);
		return;
	}
	pthread_mutex_lock(&x->lock);
	*x->end = t;
	x->end = &t->next;
	pthread_cond_broadcast(&x->changed);
	pthread_mutex_unlock(&x->lock);
}

void veloc__exporter_drain(struct veloc__exporter *x)
{
	if (!x)
		return;
	pthread_mutex_lock(&x->lock);
	while (x->busy || x->first)
		pthread_cond_wait(&x->changed, &x->lock);
	pthread_mutex_unlock(&x->lock);
}

bool veloc__exporter_idle(struct veloc__exporter *x)
{
	bool idle = true;

	if (x) {
		pthread_mutex_lock(&x->lock);
		idle = !x->busy && !x->first;
		pthread_mutex_unlock(&x->lock);
	}
	return idle;
}
